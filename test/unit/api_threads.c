/* One compiled graph called by several threads at once: every call gets its own results, and once each has its
 * memory nothing is allocated. Calls of a graph with a state take turns. */
#include "support/check.h"

#include <pthread.h>
#include <unistd.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "reprise/reprise.h"

enum { THREADS = 4, CALLS = 40, K = 48, N = 40, MOST = 8 };

static float w[N * K], bias[2][N], count_state[1];

static rp_status half(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    const float *x = args[0].data;
    float *y = args[n - 1].data;
    (void)call, (void)err;
    for (int64_t i = 0; i < args[0].dim[0] * args[0].dim[1]; i++) y[i] = x[i] / 2;
    return RP_OK;
}

/* Two pieces around an op that splits: what lies between them is in the arena, and the compiler runs for both at once. */
static rp_compiled *compile_mlp(const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("threads");
    rp_compilation_config *cfg = rp_config_new();
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "B", 1, MOST), K));
    rp_tensor p = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(N, K));
    rp_tensor b = rp_param(g, "b", RP_DTYPE_F32, RP_SHAPE(N)); /* read where it lies, as w is not */
    rp_tensor h = rp_add(rp_matmul(rp_exp(x), p, true), b);
    h = rp_custom(g, "unit::half", &h, 1, RP_DTYPE_F32, rp_tensor_shape(h));
    rp_tensor y = rp_softmax(h, -1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_config_set(cfg, "threads=2", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "w", w, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "b", bias[0], &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

static rp_status run(rp_compiled *c, float *x, float *y, int rows, rp_error *err) {
    rp_buffer in = {RP_DTYPE_F32, 2, {rows, K}, x}, out = {RP_DTYPE_F32, 2, {rows, N}, y};
    return rp_compiled_run(c, &in, 1, &out, 1, err);
}

typedef struct caller {
    rp_compiled *c;
    pthread_barrier_t *start;
    int idx, wrong;
    rp_error err;
    float x[MOST * K], y[MOST * N], want[MOST * N];
} caller;

static void *call_often(void *arg) {
    caller *me = arg;
    int rows = 1 + me->idx * 2;
    (void)pthread_barrier_wait(me->start);
    for (int i = 0; i < CALLS && me->err.code == RP_OK; i++) {
        memset(me->y, 0, sizeof me->y);
        if (run(me->c, me->x, me->y, rows, &me->err) != RP_OK) break;
        me->wrong += memcmp(me->y, me->want, (size_t)rows * N * sizeof *me->y) != 0;
    }
    return NULL;
}

static caller callers[THREADS];

static void call_at_once(rp_compiled *c) {
    pthread_t t[THREADS];
    pthread_barrier_t start;
    (void)pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        callers[i].c = c;
        callers[i].start = &start;
        assert_int_equal(pthread_create(&t[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    (void)pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++) {
        if (callers[i].err.code != RP_OK) fail_msg("%s", callers[i].err.text);
        assert_int_equal(callers[i].wrong, 0);
    }
}

static void fill(float *p, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
}

static void each_call_is_right(void **state) {
    static const char *const settings[] = {"level=0", "level=2", "level=3"};
    (void)state;
    fill(w, N * K, 7);
    fill(bias[0], 2 * N, 8);
    for (size_t s = 0; s < 3; s++) {
        size_t live = base_live();
        rp_error err = {0};
        rp_compiled *c = compile_mlp(settings[s]);
        for (int b = 0; b < 2;
             b++) { /* what is bound later is bound for those that called before, too */
            CHECK_OK(rp_compiled_bind(c, "b", bias[b], &err), &err);
            for (int i = 0; i < THREADS; i++) {
                caller *one = &callers[i];
                *one = (caller){.idx = i};
                fill(one->x, MOST * K, (unsigned)i + 1);
                CHECK_OK(run(c, one->x, one->want, 1 + i * 2, &err), &err);
            }
            call_at_once(c);
        }
        rp_compiled_free(c);
        assert_int_equal(base_live(), live);
    }
}

/* h -> h / 2 + x */
static void halve(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_add(rp_mul_scalar(in[0], 0.5), in[1]);
}

/* Executors are made of one whose loop runs meanwhile. */
static void loops_run_at_once(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("loop");
    (void)state;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "B", 1, MOST), K));
    rp_tensor y = rp_matmul(x, rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(N, K)), true);
    rp_scan_args a = {.carried = &y,
                      .n_carried = 1,
                      .constants = &y,
                      .n_constants = 1,
                      .length = rp_dim_const(9)};
    rp_scan(g, halve, NULL, &a, &y, 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile(g, NULL, &c, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "w", w, &err), &err);
    rp_graph_free(g);
    fill(w, N * K, 7);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.idx = i};
        fill(callers[i].x, MOST * K, (unsigned)i + 1);
        CHECK_OK(run(c, callers[i].x, callers[i].want, 1 + i * 2, &err), &err);
    }
    call_at_once(c);
    rp_compiled_free(c);
}

/* --- what calls at once hold -------------------------------------------------------------- */

static atomic_int inside, most_inside;
static pthread_barrier_t *meet;

/* Two calls are inside at the same time where meet says so. */
static rp_status stay(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)err;
    int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
    while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now)) {
    }
    if (meet) (void)pthread_barrier_wait(meet);
    memcpy(args[n - 1].data, args[0].data, (size_t)args[0].dim[0] * sizeof(float));
    (void)atomic_fetch_sub(&inside, 1);
    return RP_OK;
}

static rp_compiled *compile_stay(bool with_state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("stay");
    rp_shape shape = RP_SHAPE(rp_symbol(g, "B", 1, MOST));
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape);
    rp_tensor y = rp_custom(g, "unit::stay", &x, 1, RP_DTYPE_F32, shape);
    if (with_state) y = rp_add(y, rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(1)));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile(g, NULL, &c, &err), &err);
    if (with_state) CHECK_OK(rp_compiled_bind(c, "s", count_state, &err), &err);
    rp_graph_free(g);
    return c;
}

static void *call_stay(void *arg) {
    float x[2] = {1, 2}, y[2] = {0};
    rp_error err = {0};
    rp_buffer in = {RP_DTYPE_F32, 1, {2}, x}, out = {RP_DTYPE_F32, 1, {2}, y};
    rp_status st = rp_compiled_run(arg, &in, 1, &out, 1, &err);
    return st == RP_OK && y[0] == 1 && y[1] == 2 ? arg : NULL;
}

static void two_calls(rp_compiled *c) {
    pthread_t t[2];
    void *ok[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, call_stay, c), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(t[i], &ok[i]), 0);
    assert_true(ok[0] && ok[1]);
}

static void calls_meet_and_allocate_once(void **state) {
    pthread_barrier_t both;
    (void)state;
    (void)pthread_barrier_init(&both, NULL, 2);
    meet = &both;
    atomic_store(&most_inside, 0);
    rp_compiled *c = compile_stay(false);
    two_calls(c); /* each waits inside for the other */
    assert_int_equal(atomic_load(&most_inside), 2);
    uint64_t before = base_alloc_count();
    two_calls(c);
    two_calls(c);
    assert_int_equal(base_alloc_count(), before);
    meet = NULL;
    rp_compiled_free(c);
    (void)pthread_barrier_destroy(&both);
}

static void calls_with_a_state_take_turns(void **state) {
    (void)state;
    atomic_store(&most_inside, 0);
    rp_compiled *c = compile_stay(true);
    for (int i = 0; i < 20; i++) two_calls(c);
    assert_int_equal(atomic_load(&most_inside), 1);
    rp_compiled_free(c);
}

/* Sixteen are inside at once, further ones wait for them: a crowd goes by sixteens. */
static void sixteen_calls_meet(void **state) {
    enum { AT_ONCE = 16, CROWD = 3 * AT_ONCE };
    pthread_barrier_t all;
    pthread_t t[CROWD];
    (void)state;
    (void)pthread_barrier_init(&all, NULL, AT_ONCE);
    meet = &all;
    atomic_store(&most_inside, 0);
    rp_compiled *c = compile_stay(false);
    (void)alarm(60); /* with fewer they would wait for ever */
    for (int i = 0; i < CROWD; i++) assert_int_equal(pthread_create(&t[i], NULL, call_stay, c), 0);
    for (int i = 0; i < CROWD; i++) {
        void *ok = NULL;
        assert_int_equal(pthread_join(t[i], &ok), 0);
        assert_non_null(ok);
    }
    (void)alarm(0);
    assert_int_equal(atomic_load(&most_inside), AT_ONCE);
    meet = NULL;
    rp_compiled_free(c);
    (void)pthread_barrier_destroy(&all);
}

/* The call that lacks memory for a frame of its own fails alone. */
static rp_compiled *nested;
static rp_status nested_st;

static rp_status call_nested(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    float x[1] = {3}, y[1];
    rp_buffer in = {RP_DTYPE_F32, 1, {1}, x}, out = {RP_DTYPE_F32, 1, {1}, y};
    rp_compiled *again = nested;
    (void)call, (void)err;
    nested = NULL;
    if (again) nested_st = rp_compiled_run(again, &in, 1, &out, 1, NULL);
    memcpy(args[n - 1].data, args[0].data, (size_t)args[0].dim[0] * sizeof(float));
    return RP_OK;
}

static void a_frame_without_memory(void **state) {
    (void)state;
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("nested");
    rp_shape shape = RP_SHAPE(rp_symbol(g, "B", 1, MOST));
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape);
    rp_tensor y = rp_exp(rp_custom(g, "unit::nested", &x, 1, RP_DTYPE_F32, shape));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile(g, NULL, &c, &err), &err);
    rp_graph_free(g);
    float in[2] = {1, 2}, out[2];
    rp_buffer a = {RP_DTYPE_F32, 1, {2}, in}, b = {RP_DTYPE_F32, 1, {2}, out};
    int failures = 0;
    do {
        size_t live = base_live();
        nested = c;
        bool more = (base_alloc_fail_nth((uint64_t)failures + 1), true);
        CHECK_OK(rp_compiled_run(c, &a, 1, &b, 1, &err), &err);
        more = base_alloc_fail_nth(0);
        if (!more) break;
        assert_int_equal(nested_st, RP_NOMEM);
        assert_int_equal(base_live(), live);
        failures++;
    } while (failures < 1000);
    assert_int_equal(nested_st, RP_OK);
    assert_true(failures >= 5);
    rp_compiled_free(c);
}

int main(void) {
    rp_error err = {0};
    rp_op_desc op = {.size = sizeof op, .name = "unit::stay", .cpu = stay},
               again = {.size = sizeof op, .name = "unit::nested", .cpu = call_nested},
               splits = {.size = sizeof op, .name = "unit::half", .splitting = true, .cpu = half};
    if (rp_op_register(&op, &err) != RP_OK || rp_op_register(&again, &err) != RP_OK ||
        rp_op_register(&splits, &err) != RP_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_is_right),
        cmocka_unit_test(loops_run_at_once),
        cmocka_unit_test(calls_meet_and_allocate_once),
        cmocka_unit_test(calls_with_a_state_take_turns),
        cmocka_unit_test(sixteen_calls_meet),
        cmocka_unit_test(a_frame_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
