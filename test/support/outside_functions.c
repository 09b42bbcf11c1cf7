#include "support/outside_functions.h"

#include "base/alloc.h"
#include "base/status.h"
#include "support/at_once.h"
#include "support/autographs.h"
#include "support/kernels.h"

static const char *device;

enum { N = 4, CALLS = 4, BYTES = N * sizeof(float), LARGE = 65 << 20 };

static bool is_gpu(void) {
    return strncmp(device, "cuda", 4) == 0;
}

static bool computes(void) {
    return strcmp(device, "null") != 0;
}

typedef struct user {
    bench b;
    affine m;  /* on the host: x * scale + shift, both bound */
    float *ws; /* N of the device */
    float state[N];
    float *spare;
    int runs;
    float *named;         /* by what in_a_body calls; NULL: ws */
    uint64_t allocations; /* of the process, behind the first run of in_a_body */
    void *aside;          /* on a GPU: a stream of the user's own */
} user;

static void user_open(user *u) {
    rp_error err = {0};
    void *p = NULL;
    memset(u, 0, sizeof *u);
    bench_open(&u->b, device, RP_GROWTH_RESERVE);
    affine_open(&u->m, u->b.device, 0, 3, 1);
    CHECK_OK(rp_device_alloc(u->b.device, BYTES, &p, &err), &err);
    u->ws = p;
    if (is_gpu()) assert_int_equal(kernels_driver()->stream_new(&u->aside, 1), 0);
}

static void user_close(user *u) {
    if (is_gpu()) assert_int_equal(kernels_driver()->stream_free(u->aside), 0);
    rp_device_free(u->b.device, u->ws);
    base_free(u->spare);
    affine_close(&u->m);
    bench_close(&u->b);
}

/* Plain C; on a GPU, of which the host does not reach the memory, a copy on a stream that nobody captures, which only who is relaxed
 * waits for in the second run. */
static void put(const user *u, float *to, float value) {
    const cuda_driver *cu = is_gpu() ? kernels_driver() : NULL;
    if (!cu) {
        *to = value;
        return;
    }
    int mode = CUDA_CAPTURE_RELAXED;
    (void)cu->copy_in((uint64_t)(uintptr_t)to, &value, sizeof value, u->aside);
    (void)cu->capture_mode(&mode);
    (void)cu->stream_synchronize(u->aside);
    (void)cu->capture_mode(&mode);
}

static float get(const user *u, const float *from) {
    rp_error err = {0};
    float value = 0;
    CHECK_OK(rp_stream_copy(u->b.stream, &value, from, sizeof value, &err), &err);
    CHECK_OK(rp_stream_synchronize(u->b.stream, &err), &err);
    return value;
}

/* What C makes of a call: no two runs have the same. */
static float next(user *u) {
    return (float)(10 * ++u->runs);
}

static rp_status give(rp_call *call, rp_buffer *y, rp_value *result, rp_error *err) {
    *y = (rp_buffer){RP_DTYPE_F32, 1, {N}, NULL};
    rp_status st = rp_call_output(call, y, err);
    if (st == RP_OK) *result = rp_value_tensor(*y);
    return st;
}

static rp_status a_workspace(void *data, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    user *u = data;
    rp_buffer y;
    (void)args;
    put(u, u->ws, next(u));
    rp_status st = give(call, &y, result, err);
    return st == RP_OK ? rp_stream_copy(rp_call_stream(call), y.data, u->ws, BYTES, err) : st;
}

/* An element that another call of the same function wrote, too. */
static rp_status a_part_of_one(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    user *u = data;
    rp_buffer y;
    rp_stream *s = rp_call_stream(call);
    rp_status st = give(call, &y, result, err);
    if (st == RP_OK) st = rp_stream_copy(s, u->ws + 1, args->item[0].tensor.data, 8, err);
    put(u, u->ws, next(u));
    return st == RP_OK ? rp_stream_copy(s, y.data, u->ws, BYTES, err) : st;
}

static rp_status a_state_by_its_pointer(void *data, rp_call *call, const rp_value *args,
                                        rp_value *result, rp_error *err) {
    user *u = data;
    rp_buffer y;
    put(u, u->ws, next(u));
    rp_status st = give(call, &y, result, err);
    return st == RP_OK
               ? rp_stream_copy(rp_call_stream(call), y.data, args->item[1].tensor.data, BYTES, err)
               : st;
}

typedef struct body {
    user *u;
    float *x, *y;
} body;

static rp_status copy_in_body(void *data, rp_call *call, rp_error *err) {
    const body *b = data;
    return rp_stream_copy(rp_call_stream(call), b->y, b->u->ws, BYTES, err);
}

/* What is bound is named there, by who has it. */
static rp_status compute_in_body(void *data, rp_call *call, rp_error *err) {
    const body *b = data;
    rp_buffer x = {RP_DTYPE_F32, 1, {N}, b->x}, y = {RP_DTYPE_F32, 1, {N}, b->y};
    return rp_compiled_run_on(b->u->m.c, rp_call_stream(call), &x, 1, &y, 1, err);
}

static rp_status in_a_body(void *data, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    user *u = data;
    rp_buffer y, yes = {RP_DTYPE_BOOL, 1, {1}, NULL};
    put(u, u->named ? u->named : u->ws, next(u));
    rp_status st = give(call, &y, result, err);
    if (st == RP_OK) st = rp_call_temp(call, &yes, err);
    if (st == RP_OK) st = rp_stream_fill(rp_call_stream(call), yes.data, 1, 1, err);
    body b = {u, args->item[0].tensor.data, y.data};
    if (st == RP_OK)
        st = rp_call_if(call, &yes, u->named ? compute_in_body : copy_in_body, &b, err);
    if (u->runs == 1) u->allocations = base_alloc_count();
    return st;
}

/* The output, too, which is the reason. */
static rp_status and_an_output(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    rp_status st = a_workspace(data, call, args, result, err);
    if (st == RP_OK) *(float *)result->tensor.data += 0.5F;
    return st;
}

static rp_status what_is_bound(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    user *u = data;
    u->m.shift = next(u);
    return affine_call(&u->m, call, args, result, err);
}

/* Bound for this call alone, and gone behind it. */
static rp_status what_is_freed(void *data, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    user *u = data;
    base_free(u->spare);
    u->spare = base_alloc(sizeof *u->spare);
    *u->spare = next(u);
    rp_status st = rp_compiled_bind(u->m.c, "shift", u->spare, err);
    if (st == RP_OK) st = affine_call(&u->m, call, args, result, err);
    rp_error late = {0};
    (void)!rp_compiled_bind(u->m.c, "shift", &u->m.shift, &late);
    base_free(u->spare);
    u->spare = NULL;
    return st;
}

typedef struct outside {
    rp_function_fn fn;
    const char *reason; /* begins so; */
    const char *on_gpu; /* there; NULL: it is of the host */
    float more;         /* than what C made */
} outside;

static const outside all[] = {
    {a_workspace, "copy: where from is written by plain C, beside rp_call_stream",
     "copy: where from is written beside rp_call_stream", 0},
    {a_part_of_one, "copy: where from is written by plain C, beside rp_call_stream",
     "copy: where from is written beside rp_call_stream", 0},
    {a_state_by_its_pointer, "state 0 is written by plain C, beside rp_call_stream",
     "state 0 is written beside rp_call_stream", 0},
    {in_a_body, "copy: where from is written by plain C, beside rp_call_stream",
     "copy: where from is written beside rp_call_stream", 0},
    {and_an_output, "output 0 is written by plain C", NULL, 0.5F},
    {what_is_bound, "affine: shift is written by plain C, beside rp_call_stream", NULL, 3},
    {what_is_freed, "the function makes other calls when it runs again", NULL, 3},
};

static void check_one(user *u, const outside *w) {
    float x[N] = {1, 2, 3, 4};
    const char *reason = is_gpu() ? w->on_gpu : w->reason;
    rp_value in[2] = {floats(x, N), rp_value_state((rp_buffer){RP_DTYPE_F32, 1, {N}, u->ws})};
    rp_function *f = function_of(&u->b, "f", w->fn, u);
    for (int i = 0; i < CALLS; i++) {
        float want = (float)(10 * (i ? u->runs + 1 : 1));
        rp_output *o = run_items(f, in, w->fn == a_state_by_its_pointer ? 2 : 1);
        const char *why = rp_output_reason(o);
        if (rp_output_ran(o) != RP_RAN_EAGER || strncmp(why, reason, strlen(reason)) != 0)
            fail_msg("%s: ran %d, '%s'", reason, (int)rp_output_ran(o), why);
        if (computes()) assert_true(values_of(o)[0] == want + w->more);
        /* As the call left it, not the run that was to be captured. */
        if (w->fn != what_is_bound && w->fn != what_is_freed) assert_true(get(u, u->ws) == want);
        rp_output_free(o);
    }
    if (w->fn == what_is_bound) assert_true(u->m.shift == (float)(10 * u->runs));
    assert_int_equal(u->runs, CALLS + 1);
    assert_int_equal(bench_info(&u->b).graph_count, 0);
}

static void what_is_written_outside_is_told(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        user u;
        if (is_gpu() && !all[k].on_gpu) continue;
        if (!computes() && all[k].fn == in_a_body) continue; /* no pred is set there */
        user_open(&u);
        check_one(&u, &all[k]);
        user_close(&u);
    }
}

/* By the stream, and between calls: no reason. */
static rp_status through_a_workspace(void *data, rp_call *call, const rp_value *args,
                                     rp_value *result, rp_error *err) {
    const user *u = data;
    rp_stream *s = rp_call_stream(call);
    rp_buffer y;
    RP_TRY(rp_stream_copy(s, u->ws, args->item[0].tensor.data, sizeof(float), err));
    RP_TRY(give(call, &y, result, err));
    return rp_stream_copy(s, y.data, u->ws, BYTES, err);
}

static void a_workspace_of_the_stream_is_captured(void **state) {
    user u;
    (void)state;
    user_open(&u);
    rp_function *f = function_of(&u.b, "f", through_a_workspace, &u);
    for (int i = 0; i < CALLS; i++) {
        float x[N] = {(float)i};
        rp_value in = floats(x, N);
        put(&u, u.ws + 1, (float)(100 + i));
        rp_output *o = run_items(f, &in, 1);
        if (rp_output_ran(o) != (i ? RP_RAN_REPLAY : RP_RAN_CAPTURE))
            fail_msg("%s", rp_output_reason(o));
        const float *y = values_of(o);
        if (computes()) assert_true(y[0] == x[0] && y[1] == (float)(100 + i));
        rp_output_free(o);
    }
    user_close(&u);
}

/* The last state, by a pointer of its own. */
static rp_status the_last_state(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    user *u = data;
    rp_buffer y;
    put(u, u->ws, next(u));
    rp_status st = give(call, &y, result, err);
    return st == RP_OK ? rp_stream_copy(rp_call_stream(call), y.data,
                                        args->item[args->n - 1].tensor.data, BYTES, err)
                       : st;
}

/* However many pieces of memory there are, each is looked at. */
static void the_last_of_many_is_told(void **state) {
    enum { MOST = 20 };
    static const uint32_t counts[] = {7, 8, 9, MOST};
    (void)state;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const uint32_t n = counts[k];
        user u;
        rp_error err = {0};
        float x[N] = {0};
        rp_value in[1 + MOST] = {floats(x, N)};
        void *others[MOST];
        char want[32];
        user_open(&u);
        for (uint32_t i = 0; i < n; i++) {
            CHECK_OK(rp_device_alloc(u.b.device, BYTES, &others[i], &err), &err);
            rp_buffer b = {RP_DTYPE_F32, 1, {N}, i == n - 1 ? u.ws : others[i]};
            in[1 + i] = rp_value_state(b);
        }
        rp_function *f = function_of(&u.b, "f", the_last_state, &u);
        (void)snprintf(want, sizeof want, "state %u is written ", n - 1);
        rp_output *o = run_items(f, in, 1 + n);
        if (rp_output_ran(o) != RP_RAN_EAGER || !strstr(rp_output_reason(o), want))
            fail_msg("%u states: '%s'", n, rp_output_reason(o));
        if (computes()) assert_true(get(&u, u.ws) == 10);
        rp_output_free(o);
        for (uint32_t i = 0; i < n; i++) rp_device_free(u.b.device, others[i]);
        user_close(&u);
    }
}

static float *second;

static rp_status two_of_plain_c(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    user *u = data;
    rp_stream *s = rp_call_stream(call);
    rp_buffer y;
    (void)args;
    put(u, u->ws, next(u));
    put(u, second, (float)u->runs);
    RP_TRY(give(call, &y, result, err));
    RP_TRY(rp_stream_copy(s, y.data, second, BYTES, err));
    return rp_stream_copy(s, y.data, u->ws, BYTES, err);
}

/* All of it is as the call left it, whichever is told. */
static void all_of_it_is_put_back(void **state) {
    user u;
    rp_error err = {0};
    void *p = NULL;
    float x[N] = {0};
    (void)state;
    user_open(&u);
    CHECK_OK(rp_device_alloc(u.b.device, BYTES, &p, &err), &err);
    second = p;
    rp_value in = floats(x, N);
    rp_output *o = run_items(function_of(&u.b, "f", two_of_plain_c, &u), &in, 1);
    assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
    assert_int_equal(u.runs, 2);
    if (computes()) assert_true(get(&u, u.ws) == 10 && get(&u, second) == 1);
    rp_output_free(o);
    rp_device_free(u.b.device, second);
    user_close(&u);
}

static float *large;

static rp_status two_workspaces(void *data, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    const user *u = data;
    rp_status st = rp_stream_fill(rp_call_stream(call), large, 0, LARGE, err);
    (void)u;
    return st == RP_OK ? a_workspace(data, call, args, result, err) : st;
}

/* What is too large to be looked at leaves room for what is not. */
static void small_ones_come_first(void **state) {
    user u;
    rp_error err = {0};
    void *p = NULL;
    float x[N] = {0};
    (void)state;
    user_open(&u);
    CHECK_OK(rp_device_alloc(u.b.device, LARGE, &p, &err), &err);
    large = p;
    rp_value in = floats(x, N);
    rp_output *o = run_items(function_of(&u.b, "f", two_workspaces, &u), &in, 1);
    assert_non_null(strstr(rp_output_reason(o), "copy: where from is written"));
    rp_output_free(o);
    rp_device_free(u.b.device, large);
    user_close(&u);
}

/* --- other threads ---------------------------------------------------------------------------- */

/* Two managers share what is the state of one: each has half of it. */
typedef struct shared {
    user u;
    bench other;
    rp_function *g;
    float theirs[2];
    bool alone;
    rp_error err;
} shared;

static rp_status their_half(void *data, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    const shared *s = data;
    rp_buffer y;
    RP_TRY(rp_stream_copy(rp_call_stream(call), s->u.ws + 2, args->item[0].tensor.data,
                          sizeof s->theirs, err));
    RP_TRY(give(call, &y, result, err));
    return rp_stream_fill(rp_call_stream(call), y.data, 0, BYTES, err);
}

static void *call_other(void *item) {
    shared *s = item;
    rp_output *o = NULL;
    s->theirs[0] += 1;
    rp_value in = floats(s->theirs, 2), args = rp_value_tuple(&in, 1);
    if (rp_autograph_run(s->g, &args, &o, &s->err) == RP_OK)
        (void)!rp_stream_synchronize(s->other.stream, &s->err);
    rp_output_free(o);
    return NULL;
}

static rp_status our_half(void *data, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    shared *s = data;
    rp_stream *stream = rp_call_stream(call);
    rp_buffer y;
    if (!s->alone) at_once(call_other, s, sizeof *s, 1);
    float *state = args->item[1].tensor.data;
    RP_TRY(rp_stream_copy(stream, state, args->item[0].tensor.data, 2 * sizeof *state, err));
    RP_TRY(give(call, &y, result, err));
    return rp_stream_copy(stream, y.data, state, BYTES, err);
}

static void shared_open(shared *s) {
    rp_error err = {0};
    memset(s, 0, sizeof *s);
    user_open(&s->u);
    s->other.device = s->u.b.device;
    CHECK_OK(rp_stream_open(s->other.device, &s->other.stream, &err), &err);
    CHECK_OK(rp_autograph_create(s->other.stream, NULL, &s->other.graphs, &err), &err);
    s->g = function_of(&s->other, "g", their_half, s);
}

static void shared_close(shared *s) {
    rp_autograph_destroy(s->other.graphs);
    rp_stream_close(s->other.stream);
    user_close(&s->u);
}

static void expect(shared *s, rp_function *f, rp_ran ran, const char *reason) {
    float x[2] = {3, 4};
    rp_value in[2] = {floats(x, 2), rp_value_state((rp_buffer){RP_DTYPE_F32, 1, {N}, s->u.ws})};
    rp_output *o = run_items(f, in, 2);
    const char *why = rp_output_reason(o);
    if (s->err.code != RP_OK) fail_msg("the other manager: %s", s->err.text);
    if (rp_output_ran(o) != ran || !strstr(why ? why : "", reason))
        fail_msg("ran %d, '%s'; not %d, '%s'", (int)rp_output_ran(o), why, (int)ran, reason);
    assert_true(get(&s->u, s->u.ws + 1) == 4);
    assert_true(get(&s->u, s->u.ws + 2) == s->theirs[0]);
    rp_output_free(o);
}

static void what_others_wrote_stays(void **state) {
    static const char others[] = "or other threads wrote it";
    shared s;
    (void)state;
    if (!computes()) return; /* nothing is written there */
    shared_open(&s);
    rp_function *f = function_of(&s.u.b, "f", our_half, &s);
    for (int i = 0; i < 3; i++) expect(&s, f, RP_RAN_EAGER, others);
    s.alone = true;
    expect(&s, f, RP_RAN_CAPTURE, "");
    expect(&s, f, RP_RAN_REPLAY, "");
    shared_close(&s);
}

/* It runs twice each time, which is not for ever. */
static void others_are_awaited_a_few_times(void **state) {
    static const char others[] = "or other threads wrote it";
    shared s;
    (void)state;
    if (!computes()) return; /* nothing is written there */
    shared_open(&s);
    rp_function *f = function_of(&s.u.b, "f", our_half, &s);
    for (int i = 0; i < 4; i++) expect(&s, f, RP_RAN_EAGER, others);
    s.alone = true;
    expect(&s, f, RP_RAN_EAGER, others);
    shared_close(&s);
}

/* --- when memory is short ---------------------------------------------------------------------- */

/* Whichever allocation fails: there is an error, or memory is as the call left it. Where there was none to keep it, which is behind the
 * first run, it is not looked at. */
static void check_without_memory(user *u, const float *at) {
    float x[N] = {0};
    bool failed = true;
    rp_value in = floats(x, N), args = rp_value_tuple(&in, 1);
    for (uint64_t nth = 1; failed; nth++) {
        rp_error err = {0};
        rp_output *o = NULL;
        rp_function *f = function_of(&u->b, "f", in_a_body, u);
        u->runs = 0;
        uint64_t fails = base_alloc_count() + nth;
        base_alloc_fail_nth(nth);
        rp_status st = rp_autograph_run(f, &args, &o, &err);
        failed = base_alloc_fail_nth(0);
        bool looked = st == RP_OK && (rp_output_ran(o) == RP_RAN_EAGER || fails <= u->allocations);
        if (looked && (rp_output_ran(o) != RP_RAN_EAGER || get(u, at) != 10))
            fail_msg("without allocation %d: ran %d, %g", (int)nth, (int)rp_output_ran(o),
                     (double)get(u, at));
        rp_output_free(o);
    }
}

static void it_is_put_back_without_memory(void **state) {
    user u;
    (void)state;
    if (!computes()) return; /* nothing is written there */
    user_open(&u);
    check_without_memory(&u, u.ws);
    u.named = is_gpu() ? NULL : &u.m.shift;
    if (u.named) check_without_memory(&u, u.named);
    user_close(&u);
}

/* --- numbers ----------------------------------------------------------------------------------- */

static rp_status a_number(void *data, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_buffer y;
    (void)data;
    *(int64_t *)args->item[1].tensor.data = *(const int64_t *)args->item[0].tensor.data;
    RP_TRY(give(call, &y, result, err));
    return rp_stream_fill(rp_call_stream(call), y.data, 0, BYTES, err);
}

/* The state of one integer gets the argument of one. */
static void an_integer_that_is_copied_is_told(void **state) {
    int64_t x = 0, kept = 0;
    user u;
    (void)state;
    if (is_gpu()) return; /* of which plain C reaches no memory */
    user_open(&u);
    rp_value in[2] = {rp_value_tensor((rp_buffer){RP_DTYPE_I64, 1, {1}, &x}),
                      rp_value_state((rp_buffer){RP_DTYPE_I64, 1, {1}, &kept})};
    rp_function *f = function_of(&u.b, "f", a_number, &u);
    for (int i = 0; i < CALLS; i++) {
        x = 5 + i;
        rp_output *o = run_items(f, in, 2);
        assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
        assert_non_null(strstr(rp_output_reason(o), "state 0 is written by plain C"));
        assert_int_equal(kept, x);
        rp_output_free(o);
    }
    user_close(&u);
}

int outside_functions_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_outside_is_told),
        cmocka_unit_test(a_workspace_of_the_stream_is_captured),
        cmocka_unit_test(small_ones_come_first),
        cmocka_unit_test(the_last_of_many_is_told),
        cmocka_unit_test(all_of_it_is_put_back),
        cmocka_unit_test(what_others_wrote_stays),
        cmocka_unit_test(others_are_awaited_a_few_times),
        cmocka_unit_test(it_is_put_back_without_memory),
        cmocka_unit_test(an_integer_that_is_copied_is_told),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
