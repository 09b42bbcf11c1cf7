/* Random sizes of 1 to 512 without marked rows: a graph for each where there is room, and where there is not as many as there is room for;
 * in both cases nothing is captured any more in the second half. What is refused takes no memory,
 * and outputs that come back have the room that is left. */
#include "support/size_storms.h"

#include "base/status.h"
#include "support/autographs.h"

static const char *device;
static int storm;

enum { MOST = 512, BYTES = 64 << 10, GRAPHS = 64, LARGE = 1 << 16 };

static uint32_t random_next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

typedef struct sizes {
    bench b;
    affine m; /* y = 2 x + 1 */
    rp_function *f;
    uint32_t seed;
    int calls;
} sizes;

static void sizes_open(sizes *s, rp_autograph_options o, rp_output_policy p) {
    *s = (sizes){.seed = 7};
    bench_open_with(&s->b, device, &o);
    affine_open(&s->m, s->b.device, 0, 2, 1);
    s->f = function_giving(&s->b, "storm", affine_call, &s->m, p, 3);
}

static void sizes_close(sizes *s) {
    affine_close(&s->m);
    bench_close(&s->b);
}

static rp_ran call_size(sizes *s, int64_t n) {
    static float x[MOST];
    float value = (float)(s->calls++ % 1000);
    rp_value in = floats(x, n);
    x[n - 1] = value;
    rp_output *o = run_items(s->f, &in, 1);
    assert_true(values_of(o)[n - 1] == 2 * value + 1);
    rp_ran ran = rp_output_ran(o);
    rp_output_free(o);
    return ran;
}

static void call_sizes(sizes *s, int calls, const rp_autograph_options *o) {
    for (int i = 0; i < calls; i++) {
        (void)call_size(s, 1 + random_next(&s->seed) % MOST);
        rp_autograph_info info = bench_info(&s->b);
        assert_true(!o->max_bytes || info.bytes <= o->max_bytes);
        assert_true(!o->max_graphs || info.graph_count <= o->max_graphs);
    }
}

/* By each policy of outputs. */
static void all_sizes_have_room(void **state) {
    const rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    (void)state;
    for (int policy = 0; policy < 3; policy++) {
        sizes s;
        sizes_open(&s, o, (rp_output_policy)policy);
        call_sizes(&s, storm / 2, &o);
        rp_autograph_info half = bench_info(&s.b);
        call_sizes(&s, storm - storm / 2, &o);
        rp_autograph_info info = bench_info(&s.b);
        assert_int_equal(info.invalidated + info.evicted, 0);
        assert_true(info.captures <= MOST);
        if (storm > 15 * MOST) assert_true(half.captures == MOST && info.captures == MOST);
        sizes_close(&s);
    }
}

/* As many as a limit of graphs, or of bytes, allows: at the end those are replayed, and the other sizes run as they are. */
static void limits_have_room_for_some(void **state) {
    enum { HALF = 1500 };
    (void)state;
    for (int k = 0; k < 6; k++) {
        sizes s;
        rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        o.max_graphs = k % 2 ? 0 : GRAPHS;
        o.max_bytes = k % 2 ? BYTES : 0;
        sizes_open(&s, o, (rp_output_policy)(k / 2));
        call_sizes(&s, HALF, &o);
        rp_autograph_info half = bench_info(&s.b);
        call_sizes(&s, HALF, &o);
        rp_autograph_info info = bench_info(&s.b);
        assert_int_equal(info.captures, half.captures);
        assert_true(info.replays > half.replays);
        sizes_close(&s);
    }
}

/* Each larger than those before, once. */
static void ascending_sizes_keep_within_limits(void **state) {
    enum { SIZES = 200, FEW = 16 };
    (void)state;
    for (int growth = 0; growth < 2; growth++) {
        sizes s;
        rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        o.growth = (rp_growth)growth;
        o.max_graphs = FEW;
        sizes_open(&s, o, RP_OUTPUT_COPY);
        for (int64_t n = 1; n <= SIZES; n++) {
            (void)call_size(&s, n);
            assert_true(bench_info(&s.b).graph_count <= FEW);
        }
        assert_true(bench_info(&s.b).graph_count > 0);
        sizes_close(&s);
    }
}

/* What comes again and again takes the place of what no longer does. */
static void other_sizes_take_over(void **state) {
    enum { OTHERS = 20, TURNS = 100 };
    sizes s;
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    (void)state;
    o.max_graphs = GRAPHS;
    sizes_open(&s, o, RP_OUTPUT_COPY);
    call_sizes(&s, storm / 2, &o);
    for (int turn = 0; turn < TURNS; turn++)
        for (int64_t n = 1; n <= OTHERS; n++) {
            rp_ran ran = call_size(&s, n);
            if (turn == TURNS - 1) assert_int_equal(ran, RP_RAN_REPLAY);
        }
    sizes_close(&s);
}

static rp_status waits_if_large(void *user, rp_call *call, const rp_value *args, rp_value *result,
                                rp_error *err) {
    const rp_buffer *x = &args->item[0].tensor;
    rp_stream *s = rp_call_stream(call);
    rp_buffer y = *x;
    (void)user;
    RP_TRY(rp_call_output(call, &y, err));
    RP_TRY(rp_stream_copy(s, y.data, x->data, (size_t)x->dim[0] * sizeof(float), err));
    *result = rp_value_tensor(y);
    return x->dim[0] > MOST ? rp_stream_synchronize(s, err) : RP_OK;
}

static rp_ran call_once(rp_function *f, int64_t n) {
    static float x[LARGE];
    rp_value in = floats(x, n);
    rp_output *o = run_items(f, &in, 1);
    rp_ran ran = rp_output_ran(o);
    rp_output_free(o);
    return ran;
}

/* Whether or not there is a limit. */
static void what_is_refused_has_no_memory(void **state) {
    enum { FUNCTIONS = 3 };
    (void)state;
    for (int k = 0; k < 4; k++) {
        static const char *const name[] = {"one", "two", "three"};
        sizes s;
        rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        o.growth = (rp_growth)(k % 2);
        o.max_bytes = k < 2 ? LARGE : 0; /* less than one of them takes */
        sizes_open(&s, o, RP_OUTPUT_COPY);
        for (int i = 0; i < FUNCTIONS; i++) {
            rp_function *f = function_of(&s.b, name[i], waits_if_large, NULL);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(call_once(f, LARGE - i), RP_RAN_EAGER);
                assert_int_equal(bench_info(&s.b).tensor_mem_bytes, 0);
                assert_int_equal(bench_info(&s.b).bytes, 0);
            }
        }
        sizes_close(&s);
    }
}

/* The one graph that is there shares the slots, which a larger call that is refused has made too large. */
static void a_refused_call_leaves_the_limit(void **state) {
    (void)state;
    for (int growth = 0; growth < 2; growth++) {
        sizes s;
        rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        o.growth = (rp_growth)growth;
        o.max_bytes = 2 * LARGE;
        sizes_open(&s, o, RP_OUTPUT_COPY);
        rp_function *f = function_of(&s.b, "f", waits_if_large, NULL);
        assert_int_equal(call_once(f, 8), RP_RAN_CAPTURE);
        assert_int_equal(call_once(f, 8), RP_RAN_REPLAY);
        assert_int_equal(call_once(f, LARGE), RP_RAN_EAGER);
        assert_true(bench_info(&s.b).bytes <= o.max_bytes);
        sizes_close(&s);
    }
}

/* Of the first argument. */
static rp_status copies_first(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    const rp_buffer *x = &args->item[0].tensor;
    size_t bytes = sizeof(float);
    rp_buffer y = *x;
    (void)user;
    for (uint32_t i = 0; i < x->rank; i++) bytes *= (size_t)x->dim[i];
    RP_TRY(rp_call_output(call, &y, err));
    *result = rp_value_tensor(y);
    return rp_stream_copy(rp_call_stream(call), y.data, x->data, bytes, err);
}

static rp_ran call_form(rp_function *f, int kind, int64_t i) {
    static float x[2 * MOST];
    char name[24];
    rp_value in[] = {rows_of(x, 2, 1), rp_value_none()};
    (void)snprintf(name, sizeof name, "%lld", (long long)i);
    switch (kind) {
    case 0: in[0] = rows_of(x, i, 2); break;
    case 1: in[0] = rows_of(x, 2, i); break; /* each has a static signature of its own */
    case 2: in[1] = rp_value_int(i); break;
    default: in[1] = rp_value_string(name);
    }
    rp_output *o = run_items(f, in, 2);
    rp_ran ran = rp_output_ran(o);
    rp_output_free(o);
    return ran;
}

/* Whatever it is that has another value in each call. */
static void forms_that_never_come_again(void **state) {
    enum { KINDS = 4, FORMS = 200, PATIENCE = 32 };
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        sizes s;
        const rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        sizes_open(&s, o, RP_OUTPUT_COPY);
        rp_function *f = function_of(&s.b, "f", copies_first, NULL);
        for (int64_t i = 1; i <= FORMS; i++)
            assert_int_equal(call_form(f, kind, i), i > PATIENCE ? RP_RAN_EAGER : RP_RAN_CAPTURE);
        assert_int_equal(bench_info(&s.b).graph_count, PATIENCE);
        assert_int_equal(call_form(f, kind, FORMS), RP_RAN_CAPTURE); /* it did */
        rp_function *other = function_of(&s.b, "other", copies_first, NULL);
        assert_int_equal(call_form(other, kind, FORMS), RP_RAN_CAPTURE);
        sizes_close(&s);
    }
}

/* Of each argument. */
static rp_status copies_all(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    static rp_value item[2];
    (void)user;
    for (uint32_t i = 0; i < args->n; i++) {
        rp_buffer y = args->item[i].tensor;
        RP_TRY(rp_call_output(call, &y, err));
        RP_TRY(rp_stream_copy(rp_call_stream(call), y.data, args->item[i].tensor.data,
                              (size_t)y.dim[0] * sizeof(float), err));
        item[i] = rp_value_tensor(y);
    }
    *result = rp_value_tuple(item, args->n);
    return RP_OK;
}

/* Memory is taken in calls of another function while outputs are away, which then find less room: places of a ring, or what small
 * arguments come by. */
static void bytes_with_outputs_away(uint64_t max_bytes, bool ring) {
    enum { N = 4096, AWAY = 8 };
    static float x[N];
    const rp_value in[] = {floats(x, ring ? N : 2), floats(x, 2)}, one = floats(x, N);
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    rp_output *away[AWAY];
    bench b;
    o.max_bytes = max_bytes;
    bench_open_with(&b, device, &o);
    rp_function *f = function_of(&b, "f", copies_all, NULL);
    rp_function *g =
        function_giving(&b, "g", copies_all, NULL, ring ? RP_OUTPUT_RING : RP_OUTPUT_COPY, AWAY);
    rp_output_free(run_items(f, &one, 1));
    rp_output_free(run_items(g, in, ring ? 1 : 2));
    for (int i = 0; i < AWAY; i++) away[i] = run_items(f, &one, 1);
    for (int i = 0; i < AWAY - 2; i++) rp_output_free(run_items(g, in, ring ? 1 : 2));
    for (int i = 0; i < AWAY; i++) {
        rp_output_free(away[i]);
        assert_true(bench_info(&b).bytes <= max_bytes);
    }
    bench_close(&b);
}

static void outputs_that_come_back_find_less_room(void **state) {
    enum { LEAST = 64 << 10, STEP = 12 << 10, STEPS = 50 };
    (void)state;
    for (uint64_t k = 0; k < 2 * STEPS; k++) bytes_with_outputs_away(LEAST + k / 2 * STEP, k % 2);
}

int size_storms_run(const char *name, int calls, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_have_room),
        cmocka_unit_test(limits_have_room_for_some),
        cmocka_unit_test(ascending_sizes_keep_within_limits),
        cmocka_unit_test(other_sizes_take_over),
        cmocka_unit_test(forms_that_never_come_again),
        cmocka_unit_test(what_is_refused_has_no_memory),
        cmocka_unit_test(a_refused_call_leaves_the_limit),
        cmocka_unit_test(outputs_that_come_back_find_less_room),
    };
    device = name;
    storm = calls;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
