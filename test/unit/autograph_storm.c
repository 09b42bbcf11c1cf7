/* Automatic graphs under load: ten thousand random sizes, a thousand managers, several threads, streams and frees at once
 * (support/thread_functions.c), and every allocation failing once. */
#include "support/autographs.h"
#include "support/thread_functions.h"

#include "autograph/manager.h"
#include "base/alloc.h"
#include "base/file.h"

enum { MOST = 512, STORM = 10000, ROUNDS = 1000 };

static uint32_t random_next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static rp_function *function_by(const bench *b, affine *m, rp_output_policy p) {
    return function_giving(b, "storm", affine_call, m, p, 3);
}

/* Sizes of 1 to 512: no more captures than sizes, none any more at the end, memory as much as the largest needs. */
static void random_sizes_settle(void **state) {
    static float x[MOST];
    uint32_t seed = 7;
    uint64_t before = 0;
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_by(&b, &m, RP_OUTPUT_BORROWED);
    for (int i = 0; i < STORM; i++) {
        int64_t n = 1 + random_next(&seed) % MOST;
        x[n - 1] = (float)i;
        rp_value in = floats(x, n);
        rp_output *o = run_items(f, &in, 1);
        assert_true(values_of(o)[n - 1] == 2 * (float)i + 1);
        rp_output_free(o);
        if (i == STORM / 2) before = bench_info(&b).captures;
    }
    rp_autograph_info info = bench_info(&b);
    assert_int_equal(info.graph_count, MOST);
    assert_true(info.captures == MOST && before == MOST);
    assert_int_equal(info.invalidated + info.evicted, 0);
    assert_int_equal(info.tensor_mem_bytes, 2 * MOST * sizeof(float));
    affine_close(&m);
    bench_close(&b);
}

/* The same with room for 64 graphs: it holds after every call, and results stay right. */
static void random_sizes_within_a_budget(void **state) {
    static float x[MOST];
    uint32_t seed = 11;
    bench b;
    affine m;
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    (void)state;
    o.max_graphs = 64;
    bench_open_with(&b, "cpu", &o);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_by(&b, &m, RP_OUTPUT_COPY);
    for (int i = 0; i < STORM / 4; i++) {
        int64_t n = 1 + random_next(&seed) % MOST;
        x[n - 1] = (float)i;
        rp_value in = floats(x, n);
        rp_output *y = run_items(f, &in, 1);
        assert_true(values_of(y)[n - 1] == 2 * (float)i + 1);
        rp_output_free(y);
        assert_true(bench_info(&b).graph_count <= 64);
    }
    assert_true(bench_info(&b).evicted > 0);
    affine_close(&m);
    bench_close(&b);
}

/* Forms that never come again stop being captured, although one between them comes each time. */
static void a_hot_form_does_not_speak_for_others(void **state) {
    static float x[MOST];
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_by(&b, &m, RP_OUTPUT_COPY);
    for (int64_t n = 2; n <= MOST; n++) {
        rp_value hot = floats(x, 1), in = floats(x, n);
        rp_output *y = run_items(f, &hot, 1);
        assert_int_equal(rp_output_ran(y), n > 2 ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        rp_output_free(y);
        rp_output_free(run_items(f, &in, 1));
    }
    rp_autograph_info info = bench_info(&b);
    assert_true(info.captures < 40 && info.eager > MOST - 40);
    rp_value again = floats(x, MOST); /* the second time */
    rp_output *y = run_items(f, &again, 1);
    assert_int_equal(rp_output_ran(y), RP_RAN_CAPTURE);
    rp_output_free(y);
    affine_close(&m);
    bench_close(&b);
}

/* A form that comes again after as many others as are remembered is captured, whenever it is. */
static void forms_are_remembered(void **state) {
    static float x[MOST];
    enum { GIVEN_UP = 32, REMEMBERED = 64 };
    (void)state;
    for (int others = REMEMBERED - 2; others <= 2 * REMEMBERED + 1; others += 33) {
        bench b;
        affine m;
        bench_open(&b, "cpu", RP_GROWTH_RESERVE);
        affine_open(&m, b.device, 0, 2, 1);
        rp_function *f = function_by(&b, &m, RP_OUTPUT_COPY);
        for (int64_t n = 1; n <= GIVEN_UP + others; n++) {
            rp_value in = floats(x, n);
            rp_output_free(run_items(f, &in, 1));
        }
        rp_value in = floats(x, GIVEN_UP + others - REMEMBERED / 2);
        rp_output *y = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(y), RP_RAN_CAPTURE);
        rp_output_free(y);
        affine_close(&m);
        bench_close(&b);
    }
}

/* None of them may stay; why is kept of some, and the others are tried again. */
static void forms_without_a_graph_are_forgotten(void **state) {
    enum { FORMS = 1100, KEPT = 1024 };
    static float x[FORMS];
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    bench b;
    affine m;
    (void)state;
    o.max_bytes = 1;
    bench_open_with(&b, "cpu", &o);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_by(&b, &m, RP_OUTPUT_COPY);
    for (int64_t n = 1; n <= FORMS; n++)
        for (int k = 0; k < 2; k++) {
            rp_value in = floats(x, n);
            rp_output *y = run_items(f, &in, 1);
            assert_int_equal(rp_output_ran(y), RP_RAN_EAGER);
            rp_output_free(y);
        }
    assert_in_range(b.graphs->graphs.n_entries, KEPT, KEPT + 1);
    affine_close(&m);
    bench_close(&b);
}

/* By bytes, under each policy, with forms that are captured each and forms on a ladder: the limit holds after every call, graphs
 * are replayed to the end, and of outputs that are still held the last ones are as they were. */
static void bytes_stay_within_a_budget(void **state) {
    static float x[MOST];
    enum { BYTES = 64 << 10, HELD = 2 };
    for (int k = 0; k < 6; k++) {
        uint32_t seed = 13;
        rp_output *held[HELD] = {NULL};
        float want[HELD] = {0};
        uint64_t half = 0;
        bench b;
        affine m;
        rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        o.max_bytes = BYTES;
        bench_open_with(&b, *state, &o);
        affine_open(&m, b.device, 0, 2, 1);
        const rp_output_policy policy = (rp_output_policy)(k / 2);
        rp_function *f = function_giving(&b, "storm", affine_call, &m, policy, 64);
        for (int i = 0; i < STORM; i++) {
            int64_t n = 1 + random_next(&seed) % MOST;
            x[n - 1] = (float)i;
            rp_value in = floats(x, n);
            in.rows = k % 2;
            rp_output *y = run_items(f, &in, 1);
            assert_true(values_of(y)[n - 1] == 2 * (float)i + 1);
            assert_true(bench_info(&b).bytes <= BYTES);
            if (policy != RP_OUTPUT_BORROWED && held[i % HELD])
                assert_true(values_of(held[i % HELD])[0] == want[i % HELD]);
            rp_output_free(held[i % HELD]);
            held[i % HELD] = y;
            want[i % HELD] = values_of(y)[0];
            if (i == STORM / 2) half = bench_info(&b).replays;
        }
        assert_true(bench_info(&b).replays > half + STORM / 100);
        for (int i = 0; i < HELD; i++) rp_output_free(held[i]);
        affine_close(&m);
        bench_close(&b);
    }
}

/* Managers come and go, with graphs, rings and outputs that stay a while: nothing is left of them. */
static void a_thousand_managers(void **state) {
    size_t live = base_live(), first = 0;
    float x[4] = {1};
    rp_device_info info = RP_DEVICE_INFO_INIT;
    rp_error err = {0};
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    for (int i = 0; i < ROUNDS; i++) {
        rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
        bench inner = b;
        rp_output *y[2];
        o.growth = (rp_growth)(i % 2);
        CHECK_OK(rp_autograph_create(b.stream, &o, &inner.graphs, &err), &err);
        rp_function *f = function_by(&inner, &m, (rp_output_policy)(i % 3));
        for (int64_t n = 1; n <= 2; n++) {
            rp_value in = floats(x, n * 2);
            rp_output_free(run_items(f, &in, 1));
            y[n - 1] = run_items(f, &in, 1);
        }
        if (i % 5 == 0) rp_function_free(f);
        rp_autograph_destroy(inner.graphs);
        assert_true(values_of(y[1])[0] == 3);
        for (int k = 0; k < 2; k++) rp_output_free(y[k]);
        CHECK_OK(rp_device_get_info(b.device, &info, &err), &err);
        assert_int_equal(info.allocated, 0);
        if (i == 0) first = base_live();
        assert_int_equal(base_live(), first);
    }
    affine_close(&m);
    bench_close(&b);
    assert_int_equal(base_live(), live);
}

/* --- failures ------------------------------------------------------------------------------------- */

/* Two sizes, each twice. A call fails cleanly for lack of memory, or runs without a graph; none gives a wrong value. */
static rp_status run_some(const bench *b, affine *m, rp_output_policy policy) {
    float x[8] = {3};
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    rp_function *f = NULL;
    rp_error err = {0};
    o.name = "f";
    o.fn = affine_call;
    o.user = m;
    o.output = policy;
    o.ring = policy == RP_OUTPUT_RING ? 2 : 0;
    rp_status st = rp_function_new(b->graphs, &o, &f, &err);
    for (int i = 0; i < 4 && st == RP_OK; i++) {
        rp_value in = floats(x, i % 2 ? 8 : 2), args = rp_value_tuple(&in, 1);
        const rp_value *v = NULL;
        rp_output *y = NULL;
        st = rp_autograph_run(f, &args, &y, &err);
        if (st == RP_OK) st = rp_output_value(y, &v, &err);
        if (st == RP_OK) assert_true(*(float *)v->tensor.data == 7);
        rp_output_free(y);
    }
    assert_true(st == RP_OK || st == RP_NOMEM);
    return st;
}

static void each_allocation_may_fail(void **state) {
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    assert_int_equal(run_some(&b, &m, RP_OUTPUT_COPY), RP_OK); /* frames are there */
    rp_autograph_destroy(b.graphs);
    for (int policy = 0; policy < 3; policy++) {
        size_t live = base_live();
        rp_status st = RP_NOMEM;
        FOR_EACH_ALLOC_FAILURE (n) {
            rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
            rp_error err = {0};
            o.growth = (rp_growth)(policy % 2);
            b.graphs = NULL;
            st = rp_autograph_create(b.stream, &o, &b.graphs, &err);
            if (st == RP_OK) st = run_some(&b, &m, (rp_output_policy)policy);
            rp_autograph_destroy(b.graphs);
            assert_int_equal(base_live(), live);
        }
        assert_int_equal(st, RP_OK);
    }
    b.graphs = NULL;
    affine_close(&m);
    bench_close(&b);
}

/* Without ranges of addresses memory is as large as the calls so far: graphs become invalid when it grows, results stay right. */
static void addresses_may_be_refused(void **state) {
    static float x[64];
    bench b;
    affine m;
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_by(&b, &m, RP_OUTPUT_COPY);
    for (int i = 0; i < 4; i++) {
        rp_value in = floats(x, i < 2 ? 4 : 64);
        if (i % 2 == 0) (void)base_sys_fail_nth(1); /* the input's */
        rp_output *o = run_items(f, &in, 1);
        if (i % 2 == 0) assert_true(base_sys_fail_nth(0));
        assert_int_equal(rp_output_ran(o), i % 2 ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_true(values_of(o)[0] == 1);
        rp_output_free(o);
    }
    assert_int_equal(bench_info(&b).invalidated, 1);
    affine_close(&m);
    bench_close(&b);
}

int main(void) {
    static char cpu[] = "cpu";
    const struct CMUnitTest tests[] = {
        {"bytes_stay_within_a_budget", bytes_stay_within_a_budget, NULL, NULL, cpu},
        cmocka_unit_test(a_hot_form_does_not_speak_for_others),
        cmocka_unit_test(forms_are_remembered),
        cmocka_unit_test(forms_without_a_graph_are_forgotten),
        cmocka_unit_test(random_sizes_settle),
        cmocka_unit_test(random_sizes_within_a_budget),
        cmocka_unit_test(a_thousand_managers),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(addresses_may_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) +
           thread_functions_run("cpu", "autograph_storm: threads");
}
