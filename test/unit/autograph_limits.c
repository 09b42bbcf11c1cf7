/* Automatic graphs: what cannot be captured runs as it is, in each call with the right result, and says why; calls that are wrong
 * fail with one line. */
#include "support/autographs.h"

#include "base/alloc.h"
#include "base/status.h"
#include "support/at_once.h"

static float first_of(rp_output *o) {
    float y = values_of(o)[0];
    rp_output_free(o);
    return y;
}

/* --- limitations: what cannot be captured is told, and runs --------------------------------------- */

static rp_status give_output(rp_call *call, int64_t n, rp_buffer *y, rp_value *result,
                             rp_error *err) {
    *y = (rp_buffer){RP_DTYPE_F32, 1, {n}, NULL};
    rp_status st = rp_call_output(call, y, err);
    if (st == RP_OK) *result = rp_value_tensor(*y);
    return st;
}

/* Looks at a value to decide. */
static rp_status decides(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    const float *x = args->item[0].tensor.data;
    affine *m = user;
    return affine_call(x[0] >= 0 ? &m[0] : &m[1], call, args, result, err);
}

static rp_status in_plain_c(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_buffer y;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) *(float *)y.data = *(float *)args->item[0].tensor.data + 1;
    return st;
}

/* After a call has written it. */
static rp_status changes_an_output(void *user, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    rp_buffer y;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), y.data, args->item[0].tensor.data, 4, err);
    if (st == RP_OK) *(float *)y.data += 1;
    return st;
}

/* That a call reads afterwards. */
static rp_status makes_a_temp(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_buffer y, t = args->item[0].tensor;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) st = rp_call_temp(call, &t, err);
    if (st == RP_OK) *(float *)t.data = *(float *)args->item[0].tensor.data + 1;
    return st == RP_OK ? rp_stream_copy(rp_call_stream(call), y.data, t.data, 4, err) : st;
}

/* As it is: what both runs find in it is a pattern each. */
static rp_status copies_to_a_temp(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                  rp_error *err) {
    rp_buffer t = args->item[0].tensor;
    rp_status st = rp_call_temp(call, &t, err);
    if (st == RP_OK) memcpy(t.data, args->item[0].tensor.data, sizeof(float));
    rp_value in = rp_value_tensor(t), again = rp_value_tuple(&in, 1);
    return st == RP_OK ? affine_call(user, call, &again, result, err) : st;
}

static rp_status changes_an_argument(void *user, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    rp_buffer y;
    float *x = args->item[0].tensor.data;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    x[0] = x[0] >= 0 ? x[0] + 1 : -1;
    return st == RP_OK ? rp_stream_copy(rp_call_stream(call), y.data, x, 4, err) : st;
}

/* Through memory of its own. */
static rp_status by_foreign_memory(void *user, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    static float foreign[1];
    rp_buffer y;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), foreign, args->item[0].tensor.data, 4, err);
    foreign[0] += 1;
    if (st == RP_OK) st = rp_stream_copy(rp_call_stream(call), y.data, foreign, 4, err);
    return st;
}

static rp_status without_stream(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    const affine *m = user;
    rp_buffer y;
    rp_status st = give_output(call, 1, &y, result, err);
    return st == RP_OK ? rp_compiled_run(m->c, &args->item[0].tensor, 1, &y, 1, err) : st;
}

/* What another call reads in memory of the graph: a replay would find there what the capture left. */
static rp_status reads_without_stream(void *user, rp_call *call, const rp_value *args,
                                      rp_value *result, rp_error *err) {
    const affine *m = user;
    rp_buffer y, t = args->item[0].tensor;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) st = rp_call_temp(call, &t, err);
    if (st == RP_OK) st = rp_compiled_run(m->c, &args->item[0].tensor, 1, &t, 1, err);
    return st == RP_OK ? rp_stream_copy(rp_call_stream(call), y.data, t.data, 4, err) : st;
}

/* y = x + 1 in front of a graph break, behind which nothing is computed. Its first call compiles it, later ones make the same step again. */
static rp_jit *broken;

static rp_status write_sum(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    (void)rp_update(y, rp_add_scalar(x, 1));
    rp_jit_break(call, "it is written");
    *result = rp_value_none();
    return RP_OK;
}

static rp_status by_steps(void *user, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_buffer y;
    rp_output *o = NULL;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    rp_value v[] = {args->item[0], rp_value_state(y)}, both = rp_value_tuple(v, 2);
    if (st == RP_OK) st = rp_jit_run(broken, &both, &o, err);
    rp_output_free(o);
    return st;
}

static rp_stream *other_stream;

static rp_status by_another_stream(void *user, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    const affine *m = user;
    rp_buffer y, t = args->item[0].tensor;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) st = rp_call_temp(call, &t, err);
    if (st == RP_OK)
        st = rp_compiled_run_on(m->c, other_stream, &args->item[0].tensor, 1, &t, 1, err);
    return st == RP_OK ? rp_stream_copy(rp_call_stream(call), y.data, t.data, 4, err) : st;
}

static rp_status copies_by_another_stream(void *user, rp_call *call, const rp_value *args,
                                          rp_value *result, rp_error *err) {
    rp_buffer t = args->item[0].tensor;
    rp_status st = rp_call_temp(call, &t, err);
    if (st == RP_OK) st = rp_stream_copy(other_stream, t.data, args->item[0].tensor.data, 4, err);
    rp_value in = rp_value_tensor(t), again = rp_value_tuple(&in, 1);
    return st == RP_OK ? affine_call(user, call, &again, result, err) : st;
}

static rp_status fills_by_another_stream(void *user, rp_call *call, const rp_value *args,
                                         rp_value *result, rp_error *err) {
    rp_buffer t = args->item[0].tensor;
    rp_status st = rp_call_temp(call, &t, err);
    if (st == RP_OK) st = rp_stream_fill(other_stream, t.data, 0, 4, err);
    return st == RP_OK ? affine_call(user, call, args, result, err) : st;
}

static rp_function *of_another;

/* A function of another manager, whose calls go to that one's stream. */
static rp_status by_another_manager(void *user, rp_call *call, const rp_value *args,
                                    rp_value *result, rp_error *err) {
    rp_output *o = NULL;
    const rp_value *v = NULL;
    rp_buffer y;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) st = rp_autograph_run(of_another, args, &o, err);
    if (st == RP_OK) st = rp_output_value(o, &v, err);
    if (st == RP_OK) st = rp_stream_copy(rp_call_stream(call), y.data, v->tensor.data, 4, err);
    rp_output_free(o);
    return st;
}

static rp_status writes_its_argument(void *user, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    rp_stream *s = rp_call_stream(call);
    rp_buffer y;
    (void)user;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) st = rp_stream_copy(s, y.data, args->item[0].tensor.data, 4, err);
    if (st == RP_OK) st = rp_stream_fill(s, args->item[0].tensor.data, 0, 4, err);
    if (st == RP_OK && y.data) *(float *)y.data += 1; /* as the others give it */
    return st;
}

static rp_device *device_of_call;

/* Takes and frees memory in the middle. */
static rp_status allocates(void *user, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_buffer y;
    void *p = NULL;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) st = rp_device_alloc(device_of_call, 4, &p, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), p, args->item[0].tensor.data, 4, err);
    rp_value in = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 1, {1}, p}),
             again = rp_value_tuple(&in, 1);
    if (st == RP_OK) st = affine_call(user, call, &again, result, err);
    rp_device_free(device_of_call, p);
    return st;
}

static int turns;
static void *spare[8]; /* memory of the device, to be freed by a call each */

static rp_status frees(void *user, rp_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_device_free(device_of_call, spare[turns]);
    spare[turns++] = NULL;
    return affine_call(user, call, args, result, err);
}

static rp_status another_output(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    rp_buffer more = {RP_DTYPE_F32, 1, {1 + turns++ % 2}, NULL};
    rp_status st = rp_call_temp(call, &more, err);
    return st == RP_OK ? affine_call(user, call, args, result, err) : st;
}

/* As large, of another type or another rank. */
static rp_status another_type(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_buffer more = {turns++ % 2 ? RP_DTYPE_F32 : RP_DTYPE_I32, 1, {1}, NULL};
    rp_status st = rp_call_temp(call, &more, err);
    return st == RP_OK ? affine_call(user, call, args, result, err) : st;
}

static rp_status another_rank(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_buffer more = {RP_DTYPE_F32, 1 + (uint32_t)turns++ % 2, {1, 1}, NULL};
    rp_status st = rp_call_temp(call, &more, err);
    return st == RP_OK ? affine_call(user, call, args, result, err) : st;
}

static rp_status another_result(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    static rp_value item[2];
    rp_status st = affine_call(user, call, args, &item[0], err);
    item[1] = rp_value_int(turns++);
    if (st == RP_OK) *result = item[0], *result = turns % 2 ? item[0] : rp_value_list(item, 1);
    return st;
}

static const struct {
    rp_function_fn fn;
    const char *reason; /* begins so */
} limits[] = {
    {decides, "the function makes other calls when it runs again to be captured: it decides by "
              "values of tensors"},
    {in_plain_c, "an output is written by no call on rp_call_stream: plain C"},
    {changes_an_output, "output 0 is written by plain C, beside rp_call_stream"},
    {makes_a_temp, "temp 0 is written by plain C, beside rp_call_stream"},
    {copies_to_a_temp, "temp 0 is written by plain C, beside rp_call_stream"},
    {changes_an_argument, "tensor 0 is written by plain C, beside rp_call_stream"},
    {by_foreign_memory, "launch 0 (copy): argument 0 ("},
    {without_stream, "rp_compiled_run while calls are captured"},
    {reads_without_stream,
     "rp_compiled_run while calls are captured, which a replay would not "
     "repeat; it is rp_call_compiled or rp_compiled_run_on of rp_call_stream"},
    {by_steps, "rp_compiled_run while calls are captured, which a replay would not repeat; it is "
               "rp_call_compiled or rp_compiled_run_on of rp_call_stream"},
    {by_another_stream, "rp_compiled_run_on another stream while calls are captured"},
    {copies_by_another_stream, "rp_stream_copy on another stream while calls are captured"},
    {fills_by_another_stream, "rp_stream_fill on another stream while calls are captured"},
    {by_another_manager, "rp_autograph_run while calls are captured, which a replay would not "
                         "repeat; functions of one manager call each other by rp_call_function"},
    {writes_its_argument, "tensor 0 of the arguments is written; give it as rp_value_state"},
    {allocates, "rp_device_alloc while calls are captured; take memory by rp_call_temp"},
    {frees, "rp_device_free while calls are captured; take memory by rp_call_temp"},
    {another_output, "temp 0 has another form when the function runs again to be captured"},
    {another_type, "temp 0 has another form when the function runs again to be captured"},
    {another_rank, "temp 0 has another form when the function runs again to be captured"},
    {another_result, "the result has another form when the function runs again"},
};

static void what_cannot_be_captured_is_told(void **state) {
    const char *device = *state;
    bool runs = strcmp(device, "cpu") == 0; /* null computes nothing */
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        bench b;
        affine m[2], n;
        rp_error err = {0};
        size_t live = base_live();
        bench_open(&b, device, RP_GROWTH_RESERVE);
        affine_open(&m[0], b.device, 0, 1, 1);
        affine_open(&m[1], b.device, 0, 2, 0);
        turns = 0;
        for (int i = 0; i < 8; i++) CHECK_OK(rp_device_alloc(b.device, 8, &spare[i], &err), &err);
        device_of_call = b.device;
        rp_function *f = function_of(&b, "f", limits[k].fn, m);
        rp_jit_options by = RP_JIT_OPTIONS(write_sum);
        by.device = b.device;
        CHECK_OK(rp_jit_new(&by, &broken, &err), &err);
        bench other;
        bench_open(&other, device, RP_GROWTH_RESERVE);
        affine_open(&n, other.device, 0, 1, 1);
        of_another = function_of(&other, "inner", affine_call, &n);
        CHECK_OK(rp_stream_open(b.device, &other_stream, &err), &err);
        for (int i = 0; i < 4; i++) {
            float x = (float)i + 1;
            if (limits[k].fn == another_result && i) break; /* its results differ */
            rp_value in = floats(&x, 1);
            rp_output *o = run_items(f, &in, 1);
            const char *reason = rp_output_reason(o);
            assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
            if (strncmp(reason, limits[k].reason, strlen(limits[k].reason)) != 0)
                fail_msg("case %zu: %s", k, reason);
            assert_true(!runs || values_of(o)[0] == (float)i + 2);
            rp_output_free(o);
        }
        assert_int_equal(bench_info(&b).graph_count, 0);
        for (int i = 0; i < 8; i++) rp_device_free(b.device, spare[i]);
        affine_close(&m[0]);
        affine_close(&m[1]);
        affine_close(&n);
        rp_stream_close(other_stream);
        rp_jit_free(broken);
        bench_close(&b);
        bench_close(&other);
        assert_int_equal(base_live(), live);
    }
}

/* Plain C on a state happens once in each call, on the state itself; the run that is captured is given other memory, where what it
 * writes is seen whatever the state has: it counts, or puts there what is there already. */
typedef struct counted {
    const float *state;
    bool counts;
    int runs;
    bool in_place[8], kept[8]; /* by run: it was given the state; the state did not change in it */
} counted;

static rp_status writes_a_state(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    counted *c = user;
    rp_buffer y;
    float before = c->state[0], *state = args->item[1].tensor.data;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), y.data, args->item[0].tensor.data, 4, err);
    *state = c->counts ? *state + 1 : 7;
    c->in_place[c->runs] = state == c->state;
    c->kept[c->runs++] = c->state[0] == before;
    return st;
}

static void plain_c_on_a_state_is_told(void **state) {
    for (int counts = 0; counts < 2; counts++) {
        bench b;
        float place = 7, x = 1;
        counted c = {.state = &place, .counts = counts};
        bench_open(&b, *state, RP_GROWTH_RESERVE);
        rp_function *f = function_of(&b, "f", writes_a_state, &c);
        rp_value in[] = {floats(&x, 1), floats(&place, 1)};
        in[1].state = true;
        for (int i = 1; i <= 4; i++) {
            rp_output *o = run_items(f, in, 2);
            assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
            assert_string_equal(rp_output_reason(o),
                                "state 0 is written by plain C, beside rp_call_stream, which no "
                                "graph would repeat");
            assert_true(place == (counts ? 7 + (float)i : 7));
            rp_output_free(o);
        }
        assert_int_equal(c.runs, 5);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(c.in_place[i], i != 1);
            assert_true(c.kept[i] || (i != 1 && counts));
        }
        bench_close(&b);
    }
}

/* The last argument, on the memory that its call gave. */
static rp_status writes_the_last(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                 rp_error *err) {
    ((float *)args->item[args->n - 1].tensor.data)[0] += 1;
    return affine_call(user, call, args, result, err);
}

static void the_argument_that_plain_c_writes_is_named(void **state) {
    bench b;
    affine m;
    float x = 1, y = 2, z = 3;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_of(&b, "f", writes_the_last, &m);
    rp_value in[] = {floats(&x, 1), floats(&y, 1), floats(&z, 1)};
    rp_output *o = run_items(f, in, 3);
    assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
    assert_string_equal(rp_output_reason(o),
                        "tensor 2 is written by plain C, beside rp_call_stream, which no graph "
                        "would repeat");
    rp_output_free(o);
    affine_close(&m);
    bench_close(&b);
}

/* In place, where a value is below or above: whoever reads the pattern changes it, too. */
typedef struct bound {
    float value;
    bool upper;
} bound;

static rp_status bounds_an_output(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                  rp_error *err) {
    const bound *b = user;
    rp_buffer y = args->item[0].tensor;
    rp_status st = rp_call_output(call, &y, err);
    float *v = y.data;
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), v, args->item[0].tensor.data, 12, err);
    for (int i = 0; st == RP_OK && i < 3; i++)
        if (b->upper ? v[i] > b->value : v[i] < b->value) v[i] = b->value;
    *result = rp_value_tensor(y);
    return st;
}

static void bounds_in_plain_c_are_told(void **state) {
    bench b;
    bound bounds[] = {{0, false}, {6, true}};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    for (int k = 0; k < 2; k++) {
        float x[] = {-1, 3, 7};
        rp_function *f = function_of(&b, k ? "upper" : "lower", bounds_an_output, &bounds[k]);
        for (int i = 0; i < 3; i++) {
            rp_value in = floats(x, 3);
            rp_output *o = run_items(f, &in, 1);
            assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
            assert_true(values_of(o)[0] == (k ? -1 : 0) && values_of(o)[2] == (k ? 6 : 7));
            rp_output_free(o);
        }
    }
    bench_close(&b);
}

/* Larger than what of a stand-in is filled: behind that it is zeros. */
static rp_status writes_the_end(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    const rp_buffer *b = &args->item[1].tensor;
    if (args->item[2].as.integer) ((float *)b->data)[b->dim[0] - 1] += 1;
    return affine_call(user, call, args, result, err);
}

static void large_states_are_watched_to_their_end(void **state) {
    enum { MANY = 20 << 20 };
    static float large[MANY];
    bench b;
    affine m;
    float x = 1;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    for (int writes = 0; writes < 2; writes++) {
        rp_function *f = function_of(&b, "f", writes_the_end, &m);
        rp_value in[] = {floats(&x, 1), floats(large, MANY), rp_value_int(writes)};
        in[1].state = true;
        rp_output *o = run_items(f, in, 3);
        assert_int_equal(rp_output_ran(o), writes ? RP_RAN_EAGER : RP_RAN_CAPTURE);
        assert_true(large[MANY - 1] == (float)writes);
        rp_output_free(o);
    }
    affine_close(&m);
    bench_close(&b);
}

/* A state of integers that plain C goes by: what it finds there while it is captured is a place, too. */
static rp_status looks_up(void *user, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    static const float table[4] = {1, 2, 3, 4};
    const int64_t at = *(const int64_t *)args->item[1].tensor.data;
    assert_in_range(at, 0, 3);
    (void)table[at];
    return affine_call(user, call, args, result, err);
}

static void places_are_places_in_a_capture(void **state) {
    int64_t at = 3;
    bench b;
    affine m;
    float x = 1;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_of(&b, "f", looks_up, &m);
    rp_value in[] = {floats(&x, 1), rp_value_tensor((rp_buffer){RP_DTYPE_I64, 1, {1}, &at})};
    in[1].state = true;
    rp_output *o = run_items(f, in, 2);
    assert_int_equal(rp_output_ran(o), RP_RAN_CAPTURE);
    rp_output_free(o);
    affine_close(&m);
    bench_close(&b);
}

/* A failure of the function is that of the call, and nothing is learnt from it. */
static rp_status fails_at_first(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    (void)call, (void)args, (void)result, (void)err;
    return ++*(int *)user == 1 ? RP_IO : RP_OK;
}

static void failures_and_bad_calls(void **state) {
    bench b;
    rp_error err = {0};
    rp_output *o = NULL;
    int runs = 0;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    rp_function *f = function_of(&b, "f", fails_at_first, &runs);
    rp_value none = rp_value_none(), bad = rp_value_tuple(NULL, 2);
    assert_int_equal(rp_autograph_run(f, &none, &o, &err), RP_IO);
    assert_string_equal(err.text, "f: io");
    rp_output_free(run_ok(f, &none));
    assert_int_equal(rp_autograph_run(f, &bad, &o, &err), RP_INVALID);
    assert_string_equal(err.text, "arguments of f: a list, tuple or map of 2 items has none");
    rp_value item[] = {rp_value_int(1), floats(NULL, 4)}, deep = rp_value_list(item, 2);
    rp_value args = rp_value_tuple(&deep, 1);
    assert_int_equal(rp_autograph_run(f, &args, &o, &err), RP_INVALID);
    assert_string_equal(err.text, "arguments of f: [0] [1] a tensor has no data");
    assert_int_equal(rp_autograph_run(NULL, &none, &o, &err), RP_INVALID);
    rp_function_options fo = RP_FUNCTION_OPTIONS_INIT;
    rp_function *g = NULL;
    assert_int_equal(rp_function_new(b.graphs, &fo, &g, &err), RP_INVALID);
    fo.name = "g";
    fo.fn = fails_at_first;
    fo.output = (rp_output_policy)(RP_OUTPUT_RING + 1);
    assert_int_equal(rp_function_new(b.graphs, &fo, &g, &err), RP_INVALID);
    assert_string_equal(err.text, "function g: output is 3, which is no rp_output_policy");
    fo.output = RP_OUTPUT_COPY;
    fo.layer = RP_LAYER_NONE - 1;
    assert_int_equal(rp_function_new(b.graphs, &fo, &g, &err), RP_INVALID);
    assert_string_equal(err.text, "function g: layer is -2; give a number or RP_LAYER_NONE");
    fo.layer = RP_LAYER_NONE;
    assert_int_equal(rp_function_new(b.graphs, &fo, NULL, &err), RP_INVALID);
    assert_int_equal(rp_function_new(NULL, &fo, &g, &err), RP_INVALID);
    fo.output = RP_OUTPUT_RING;
    fo.ring = 1;
    assert_int_equal(rp_function_new(b.graphs, &fo, &g, &err), RP_INVALID);
    fo.ring = 0;
    assert_int_equal(rp_function_new(b.graphs, &fo, &g, &err), RP_INVALID);
    assert_string_equal(err.text,
                        "function g: ring is 0; it is at least 2 with RP_OUTPUT_RING and 0 "
                        "without");
    assert_null(g);
    bench_close(&b);
}

/* What a function does wrong is told, too. */
typedef struct wrong {
    bench *b;
    rp_function *f;
    rp_value bad;
} wrong;

static rp_status calls_with_no_value(void *user, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    const wrong *w = user;
    (void)args;
    return rp_call_function(call, w->f, &w->bad, result, err);
}

/* Every call with something missing, or memory that cannot be. */
static rp_status asks_wrongly(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    const wrong *w = user;
    rp_buffer b = {RP_DTYPE_F32, 1, {1}, NULL};
    assert_int_equal(rp_call_function(NULL, w->f, args, result, err), RP_INVALID);
    assert_int_equal(rp_call_function(call, NULL, args, result, err), RP_INVALID);
    assert_int_equal(rp_call_function(call, w->f, NULL, result, err), RP_INVALID);
    assert_int_equal(rp_call_function(call, w->f, args, NULL, err), RP_INVALID);
    assert_int_equal(rp_call_output(NULL, &b, err), RP_INVALID);
    assert_int_equal(rp_call_output(call, NULL, err), RP_INVALID);
    b.dtype = (rp_dtype)RP_DTYPE_COUNT_;
    assert_int_equal(rp_call_output(call, &b, err), RP_INVALID);
    assert_string_equal(err->text, "rp_call_output: no memory has this dtype, rank and sizes");
    b.dtype = RP_DTYPE_F32;
    b.rank = RP_MAX_RANK + 1;
    assert_int_equal(rp_call_temp(call, &b, err), RP_INVALID);
    assert_string_equal(err->text, "rp_call_temp: no memory has this dtype, rank and sizes");
    for (int i = 0; i < RP_MAX_RANK; i++) b.dim[i] = 1;
    b.rank = RP_MAX_RANK;
    return rp_call_output(call, &b, err); /* what failed before is not in err any more */
}

static void missing_arguments_are_told(void **state) {
    bench b;
    int runs = 1;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    wrong w = {.b = &b, .f = function_of(&b, "inner", fails_at_first, &runs)};
    rp_value none = rp_value_none();
    for (int i = 0; i < 3; i++)
        rp_output_free(run_ok(function_of(&b, "f", asks_wrongly, &w), &none));
    bench_close(&b);
}

static rp_status destroys(void *user, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    const wrong *w = user;
    (void)call, (void)args, (void)result, (void)err;
    rp_autograph_destroy(w->b->graphs);
    return RP_OK;
}

static void bad_calls_inside_of_a_call(void **state) {
    bench b;
    rp_error err = {0};
    rp_output *o = NULL;
    int runs = 1;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    wrong w = {&b, function_of(&b, "inner", fails_at_first, &runs), rp_value_tuple(NULL, 2)};
    rp_function *f = function_of(&b, "f", calls_with_no_value, &w);
    rp_value none = rp_value_none();
    assert_int_equal(rp_autograph_run(f, &none, &o, &err), RP_INVALID);
    assert_string_equal(err.text,
                        "f: arguments of inner: a list, tuple or map of 2 items has none");
    w.bad = floats(NULL, 0);
    w.bad.tensor.rank = RP_MAX_RANK + 1;
    w.bad.strided = true;
    assert_int_equal(rp_autograph_run(f, &none, &o, &err), RP_INVALID);
    f = function_of(&b, "destroys", destroys, &w);
    rp_output_free(run_ok(f, &none));
    bench other;
    bench_open(&other, "cpu", RP_GROWTH_RESERVE);
    w.f = function_of(&other, "stranger", fails_at_first, &runs);
    w.bad = none;
    f = function_of(&b, "g", calls_with_no_value, &w);
    assert_int_equal(rp_autograph_run(f, &none, &o, &err), RP_INVALID);
    assert_string_equal(err.text, "g: rp_call_function: stranger is a function of another manager");
    bench_close(&other);
    bench_close(&b);
}

/* What a library says of its calls, when the function runs again to be captured. */
typedef struct says {
    int code, runs;
} says;

static rp_status gives_a_code(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    says *s = user;
    rp_buffer y;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), y.data, args->item[0].tensor.data, 4, err);
    return st == RP_OK ? rp_call_check(call, "cuAny", ++s->runs == 1 ? 0 : s->code, err) : st;
}

/* 900 to 908 are of a thread that captures; others are failures as outside of it. */
static void codes_of_a_capture_are_known(void **state) {
    static const int codes[] = {1, 899, 900, 904, 908, 909};
    bench b;
    float x[] = {3};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char name[16], want[100];
        says s = {.code = codes[i]};
        (void)snprintf(name, sizeof name, "f%zu", i);
        (void)snprintf(want, sizeof want, "cuAny gave code %d%s", codes[i],
                       codes[i] >= 900 && codes[i] <= 908
                           ? ": a graph can contain no call that waits, allocates or reads back"
                           : "");
        rp_value item = floats(x, 1);
        rp_output *o = run_items(function_of(&b, name, gives_a_code, &s), &item, 1);
        const char *end = strstr(rp_output_reason(o), want);
        if (!end || end[strlen(want)]) fail_msg("no '%s' in '%s'", want, rp_output_reason(o));
        assert_true(first_of(o) == 3);
    }
    bench_close(&b);
}

/* A graph over memory that somebody frees later is not replayed any more: the function finds out what to do. */
static rp_status through_workspace(void *user, rp_call *call, const rp_value *args,
                                   rp_value *result, rp_error *err) {
    rp_stream *s = rp_call_stream(call);
    rp_buffer y;
    rp_status st = give_output(call, 1, &y, result, err);
    if (st == RP_OK) st = rp_stream_copy(s, *(void **)user, args->item[0].tensor.data, 4, err);
    return st == RP_OK ? rp_stream_copy(s, y.data, *(void **)user, 4, err) : st;
}

static void freed_memory_makes_graphs_invalid(void **state) {
    bench b;
    rp_error err = {0};
    void *workspace = NULL, *other = NULL;
    float x = 5;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    CHECK_OK(rp_device_alloc(b.device, 4, &workspace, &err), &err);
    CHECK_OK(rp_device_alloc(b.device, 4, &other, &err), &err);
    rp_function *f = function_of(&b, "f", through_workspace, &workspace);
    rp_value in = floats(&x, 1);
    for (int i = 0; i < 2; i++) assert_true(first_of(run_items(f, &in, 1)) == 5);
    rp_device_free(b.device, other); /* nobody uses it */
    assert_true(first_of(run_items(f, &in, 1)) == 5);
    assert_int_equal(bench_info(&b).replays, 2);
    rp_device_free(b.device, workspace);
    CHECK_OK(rp_device_alloc(b.device, 4096, &workspace, &err), &err);
    for (int i = 0; i < 2; i++) assert_true(first_of(run_items(f, &in, 1)) == 5);
    assert_int_equal(bench_info(&b).captures, 2);
    assert_int_equal(bench_info(&b).invalidated, 1);
    rp_device_free(b.device, workspace);
    bench_close(&b);
}

/* Its graphs go with a compiled graph: what is compiled in its place runs at once. */
static void what_is_compiled_anew_is_called(void **state) {
    bench b;
    affine m;
    float x = 5;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    rp_function *f = function_of(&b, "f", affine_call, &m);
    rp_value in = floats(&x, 1);
    for (int turn = 1; turn <= 3; turn++) {
        affine_open(&m, b.device, 0, (float)turn, 1);
        for (int i = 0; i < 2; i++)
            assert_true(first_of(run_items(f, &in, 1)) == 5 * (float)turn + 1);
        affine_close(&m);
    }
    assert_int_equal(bench_info(&b).captures, 3);
    assert_int_equal(bench_info(&b).replays, 3);
    bench_close(&b);
}

/* Gives what lies at a place that the function finds by itself. */
static rp_status gives_weights(void *user, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    rp_buffer y;
    (void)args;
    rp_status st = give_output(call, 1, &y, result, err);
    return st == RP_OK ? rp_stream_copy(rp_call_stream(call), y.data, *(void **)user, 4, err) : st;
}

/* By another thread, while the graph is made that names it. */
typedef struct giving {
    rp_device *d;
    void *weights[2];
    int runs;
} giving;

static void *free_weights(void *arg) {
    const giving *g = arg;
    rp_device_free(g->d, g->weights[0]);
    return NULL;
}

static rp_status loses_weights(void *user, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    giving *g = user;
    RP_TRY(gives_weights(&g->weights[g->runs > 1], call, args, result, err));
    if (g->runs++ == 1) at_once(free_weights, g, sizeof *g, 1);
    return RP_OK;
}

static void memory_may_go_while_a_graph_is_made(void **state) {
    bench b;
    rp_error err = {0};
    float x = 5;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    giving g = {.d = b.device};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rp_device_alloc(b.device, 4, &g.weights[i], &err), &err);
        *(float *)g.weights[i] = (float)i + 1;
    }
    rp_function *f = function_of(&b, "f", loses_weights, &g);
    rp_value in = floats(&x, 1);
    for (int i = 0; i < 3; i++) assert_true(first_of(run_items(f, &in, 1)) == (i ? 2 : 1));
    assert_int_equal(bench_info(&b).invalidated, 1);
    assert_int_equal(bench_info(&b).replays, 1);
    rp_device_free(b.device, g.weights[1]);
    bench_close(&b);
}

/* Graphs of a function go with it, those of others stay. */
/* Whichever goes, the first, the last or all, who comes next stands behind who is left. */
static void functions_come_behind_those_that_went(void **state) {
    static const char *const names[] = {"f", "g", "h"};
    (void)state;
    for (int gone = 1; gone < 8; gone++) {
        bench b;
        affine m;
        float x = 5;
        rp_function *f[3], *late[2];
        rp_value in = floats(&x, 1);
        uint32_t left = 0;
        bench_open(&b, "cpu", RP_GROWTH_RESERVE);
        affine_open(&m, b.device, 0, 2, 1);
        for (int i = 0; i < 3; i++) {
            f[i] = function_of(&b, names[i], affine_call, &m);
            rp_output_free(run_items(f[i], &in, 1));
        }
        for (int i = 0; i < 3; i++) {
            if (gone >> i & 1) rp_function_free(f[i]);
            left += !(gone >> i & 1);
        }
        for (int i = 0; i < 2; i++) {
            late[i] = function_of(&b, i ? "late" : "later", affine_call, &m);
            for (int turn = 0; turn < 2; turn++)
                assert_true(first_of(run_items(late[i], &in, 1)) == 11);
        }
        assert_int_equal(bench_info(&b).graph_count, left + 2);
        for (int i = 0; i < 3; i++)
            if (!(gone >> i & 1)) assert_true(first_of(run_items(f[i], &in, 1)) == 11);
        assert_int_equal(bench_info(&b).captures, 5);
        for (int i = 0; i < 3; i++)
            if (!(gone >> i & 1)) rp_function_free(f[i]);
        for (int i = 0; i < 2; i++) rp_function_free(late[i]);
        assert_int_equal(bench_info(&b).graph_count, 0);
        affine_close(&m);
        bench_close(&b);
    }
}

static void functions_take_their_graphs_along(void **state) {
    bench b;
    affine m;
    float x = 5;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f[] = {function_of(&b, "f", affine_call, &m),
                        function_of(&b, "g", affine_call, &m)};
    rp_value in = floats(&x, 1);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 2; i++) assert_true(first_of(run_items(f[i], &in, 1)) == 11);
    assert_int_equal(bench_info(&b).graph_count, 2);
    rp_function_free(f[0]);
    assert_int_equal(bench_info(&b).graph_count, 1);
    assert_true(first_of(run_items(f[1], &in, 1)) == 11);
    assert_int_equal(bench_info(&b).captures, 2);
    rp_function_free(f[1]);
    assert_int_equal(bench_info(&b).graph_count, 0);
    rp_function_free(NULL);
    affine_close(&m);
    bench_close(&b);
}

/* Binds what is bound already, behind its calls, as long as it is told to. */
typedef struct binder {
    affine m;
    bool binds;
} binder;

static rp_status binds_last(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    binder *u = user;
    rp_status st = affine_call(&u->m, call, args, result, err);
    return st == RP_OK && u->binds ? rp_compiled_bind(u->m.c, "shift", &u->m.shift, err) : st;
}

/* A graph that each call makes invalid is not made in each call, and is tried again. */
static void graphs_that_are_lost_are_not_made(void **state) {
    enum { TRIES = 4, PAUSE = 256 };
    bench b;
    binder u = {.binds = true};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&u.m, b.device, 0, 2, 1);
    rp_function *f = function_of(&b, "f", binds_last, &u);
    for (int i = 0; i < TRIES + PAUSE + 2; i++) {
        float x = (float)i;
        bool again = i == TRIES + PAUSE - 1;
        rp_value in = floats(&x, 1);
        if (again) u.binds = false;
        rp_output *o = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(o), i < TRIES || again ? RP_RAN_CAPTURE
                                           : u.binds          ? RP_RAN_EAGER
                                                              : RP_RAN_REPLAY);
        if (rp_output_ran(o) == RP_RAN_EAGER)
            assert_non_null(strstr(rp_output_reason(o), "bound anew"));
        assert_true(values_of(o)[0] == 2 * x + 1);
        rp_output_free(o);
    }
    affine_close(&u.m);
    bench_close(&b);
}

int main(void) {
    static char cpu[] = "cpu", null[] = "null";
    const struct CMUnitTest tests[] = {
        {"what_cannot_be_captured_is_told (cpu)", what_cannot_be_captured_is_told, NULL, NULL, cpu},
        {"what_cannot_be_captured_is_told (null)", what_cannot_be_captured_is_told, NULL, NULL,
         null},
        {"plain_c_on_a_state_is_told (cpu)", plain_c_on_a_state_is_told, NULL, NULL, cpu},
        {"plain_c_on_a_state_is_told (null)", plain_c_on_a_state_is_told, NULL, NULL, null},
        cmocka_unit_test(the_argument_that_plain_c_writes_is_named),
        cmocka_unit_test(bounds_in_plain_c_are_told),
        cmocka_unit_test(large_states_are_watched_to_their_end),
        cmocka_unit_test(places_are_places_in_a_capture),
        cmocka_unit_test(failures_and_bad_calls),
        cmocka_unit_test(bad_calls_inside_of_a_call),
        cmocka_unit_test(codes_of_a_capture_are_known),
        cmocka_unit_test(missing_arguments_are_told),
        cmocka_unit_test(freed_memory_makes_graphs_invalid),
        cmocka_unit_test(what_is_compiled_anew_is_called),
        cmocka_unit_test(memory_may_go_while_a_graph_is_made),
        cmocka_unit_test(functions_come_behind_those_that_went),
        cmocka_unit_test(functions_take_their_graphs_along),
        cmocka_unit_test(graphs_that_are_lost_are_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
