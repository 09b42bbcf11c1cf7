/* Several threads call at once, take memory of the device and free it, so that one frees while another captures. What came out of a
 * manager that they share is looked at when all are done, since the stream is the manager's until then. */
#include "support/thread_functions.h"

#include <stdatomic.h>

#include "base/status.h"
#include "support/at_once.h"
#include "support/autographs.h"

static const char *device;

enum { THREADS = 4, CALLS = 200, MOST = 24 };

typedef struct caller {
    rp_function *f;
    const bench *b;
    int idx, wrong;
    bool alone; /* with a stream and a manager */
    float x[CALLS][MOST];
    int64_t n[CALLS];
    rp_output *o[CALLS];
    rp_error err;
} caller;

static bool is_right(caller *me, int i) {
    float y[MOST] = {0};
    const rp_value *v = NULL;
    size_t bytes = (size_t)me->n[i] * sizeof *y;
    bool right = rp_output_ran(me->o[i]) != RP_RAN_EAGER;
    if (rp_output_value(me->o[i], &v, &me->err) != RP_OK ||
        rp_stream_copy(me->b->stream, y, v->tensor.data, bytes, &me->err) != RP_OK ||
        rp_stream_synchronize(me->b->stream, &me->err) != RP_OK)
        return false;
    for (int64_t k = 0; k < me->n[i]; k++) right &= y[k] == 2 * me->x[i][k] + 1;
    return right;
}

static void look(caller *me, int i) {
    me->wrong += !is_right(me, i);
    rp_output_free(me->o[i]);
}

static void *call_often(void *arg) {
    caller *me = arg;
    uint32_t seed = (uint32_t)me->idx + 1;
    for (int i = 0; i < CALLS && me->err.code == RP_OK; i++) {
        void *p = NULL;
        seed = seed * 1664525u + 1013904223u;
        me->n[i] = 1 + (int64_t)((seed >> 8) % MOST);
        for (int64_t k = 0; k < me->n[i]; k++) me->x[i][k] = (float)(me->idx * 1000 + i + k);
        rp_value in = floats(me->x[i], me->n[i]), args = rp_value_tuple(&in, 1);
        if (rp_autograph_run(me->f, &args, &me->o[i], &me->err) != RP_OK) break;
        if (rp_device_alloc(me->b->device, 100, &p, &me->err) != RP_OK) break;
        rp_device_free(me->b->device, p);
        if (me->alone) look(me, i);
    }
    return NULL;
}

static void run_threads(caller *callers) {
    at_once(call_often, callers, sizeof *callers, THREADS);
    for (int t = 0; t < THREADS; t++) {
        caller *me = &callers[t];
        for (int i = 0; i < CALLS && !me->alone && me->err.code == RP_OK; i++) look(me, i);
        if (me->err.code != RP_OK) fail_msg("thread %d: %s", t, me->err.text);
        assert_int_equal(me->wrong, 0);
    }
}

static void threads_share_a_manager(void **state) {
    static caller callers[THREADS];
    bench b;
    affine m;
    (void)state;
    bench_open(&b, device, RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    rp_function *f = function_of(&b, "f", affine_call, &m);
    for (int i = 0; i < THREADS; i++) callers[i] = (caller){.f = f, .b = &b, .idx = i};
    run_threads(callers);
    assert_int_equal(bench_info(&b).calls, THREADS * CALLS);
    assert_int_equal(bench_info(&b).captures, MOST);
    affine_close(&m);
    bench_close(&b);
}

/* What MagiCompiler does not support: a manager a stream, at the same time. */
static void streams_run_at_once(void **state) {
    static caller callers[THREADS];
    bench b, own[THREADS];
    affine m;
    rp_error err = {0};
    (void)state;
    bench_open(&b, device, RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    for (int i = 0; i < THREADS; i++) {
        own[i].device = b.device;
        CHECK_OK(rp_stream_open(b.device, &own[i].stream, &err), &err);
        CHECK_OK(rp_autograph_create(own[i].stream, NULL, &own[i].graphs, &err), &err);
        rp_function *f =
            function_giving(&own[i], "f", affine_call, &m, (rp_output_policy)(i % 3), 3);
        callers[i] = (caller){.f = f, .b = &own[i], .idx = i, .alone = true};
    }
    run_threads(callers);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(bench_info(&own[i]).calls, CALLS);
        rp_autograph_destroy(own[i].graphs);
        rp_stream_close(own[i].stream);
    }
    affine_close(&m);
    bench_close(&b);
}

/* One for whoever asks, until each has given it back. */
static void a_device_has_a_manager(void **state) {
    bench b;
    affine m;
    float x = 4, y = 0;
    rp_error err = {0};
    rp_autograph *own[2] = {NULL, NULL};
    (void)state;
    bench_open(&b, device, RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 2, 1);
    for (int i = 0; i < 2; i++) CHECK_OK(rp_autograph_default(b.device, &own[i], &err), &err);
    assert_ptr_equal(own[0], own[1]);
    const bench of_device = {b.device, rp_autograph_stream(own[0]), own[0]};
    rp_function *f = function_of(&of_device, "f", affine_call, &m);
    rp_autograph_destroy(own[1]);
    for (int i = 0; i < 3; i++) {
        rp_value in = floats(&x, 1);
        rp_output *o = run_items(f, &in, 1);
        assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        CHECK_OK(rp_stream_copy(of_device.stream, &y, result_of(o)->tensor.data, sizeof y, &err),
                 &err);
        CHECK_OK(rp_stream_synchronize(of_device.stream, &err), &err);
        assert_true(y == 9);
        rp_output_free(o);
    }
    rp_autograph_destroy(own[0]);
    affine_close(&m);
    bench_close(&b);
}

/* --- all that may be done at once ------------------------------------------------------------------ */

enum { TURNS = 120, LEFT = 8 };

/* Each thread has a function with outputs of its own, and frees what another one has left. */
typedef struct busy {
    const bench *b;
    affine *m;
    struct busy *other;
    int idx, wrong;
    bool looks; /* where memory is the host's */
    float x[MOST];
    _Atomic(rp_output *) left[LEFT];
    rp_error err;
} busy;

static rp_status new_function(const busy *me, rp_autograph *graphs, rp_function **out,
                              rp_error *err) {
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    o.name = "f";
    o.fn = affine_call;
    o.user = me->m;
    o.output = (rp_output_policy)(me->idx % 3);
    o.ring = o.output == RP_OUTPUT_RING ? 3 : 0;
    return rp_function_new(graphs, &o, out, err);
}

static rp_status call_once(busy *me, rp_function *f, int64_t n, rp_output **out, rp_error *err) {
    const rp_value *v = NULL;
    rp_value in = floats(me->x, n), args = rp_value_tuple(&in, 1);
    me->x[n - 1]++;
    RP_TRY(rp_autograph_run(f, &args, out, err));
    RP_TRY(rp_output_value(*out, &v, err));
    if (me->looks) me->wrong += ((const float *)v->tensor.data)[n - 1] != 2 * me->x[n - 1] + 1;
    return RP_OK;
}

/* One call of a function that comes and goes. */
static rp_status call_new(busy *me, rp_autograph *graphs, rp_error *err) {
    rp_function *f = NULL;
    rp_output *o = NULL;
    RP_TRY(new_function(me, graphs, &f, err));
    rp_status st = call_once(me, f, 2, &o, err);
    rp_output_free(o);
    rp_function_free(f);
    return st;
}

static rp_status look_at_all(const busy *me, rp_error *err) {
    rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
    char *text = NULL;
    RP_TRY(rp_autograph_get_info(me->b->graphs, &info, err));
    if (info.calls != info.replays + info.captures + info.eager)
        return rp_fail(err, RP_INTERNAL, "calls that are counted twice, or never");
    RP_TRY(rp_autograph_text(me->b->graphs, &text, err));
    rp_free(text);
    return RP_OK;
}

/* The one of the device, which goes with its last user. */
static rp_status use_default(busy *me, rp_error *err) {
    rp_autograph *graphs = NULL;
    RP_TRY(rp_autograph_default(me->b->device, &graphs, err));
    rp_status st = call_new(me, graphs, err);
    rp_autograph_destroy(graphs);
    return st;
}

static rp_status turn(busy *me, rp_function *f, int i, uint32_t random, rp_error *err) {
    rp_output *o = NULL;
    rp_status st = call_once(me, f, 1 + (int64_t)(random % MOST), &o, err);
    rp_output_free(atomic_exchange(&me->left[i % LEFT], o));
    rp_output_free(atomic_exchange(&me->other->left[random / MOST % LEFT], NULL));
    if (st == RP_OK && i % 8 == 1) st = look_at_all(me, err);
    if (st == RP_OK && i % 16 == 2) st = call_new(me, me->b->graphs, err);
    if (st == RP_OK && i % 16 == 3) st = use_default(me, err);
    return st;
}

static void *be_busy(void *arg) {
    busy *me = arg;
    rp_function *f = NULL;
    uint32_t seed = (uint32_t)me->idx + 1;
    rp_status st = new_function(me, me->b->graphs, &f, &me->err);
    for (int i = 0; i < TURNS && st == RP_OK; i++) {
        seed = seed * 1664525u + 1013904223u;
        st = turn(me, f, i, seed >> 8, &me->err);
    }
    rp_function_free(f);
    return NULL;
}

/* Within limits, so that graphs and memory go meanwhile. */
static void threads_do_all_at_once(void **state) {
    static busy all[THREADS];
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    bench b;
    affine m;
    (void)state;
    o.max_graphs = MOST;
    o.max_bytes = 64 << 20; /* with room for outputs that come back */
    bench_open_with(&b, device, &o);
    affine_open(&m, b.device, 0, 2, 1);
    memset(all, 0, sizeof all);
    for (int i = 0; i < THREADS; i++) {
        all[i].b = &b;
        all[i].m = &m;
        all[i].idx = i;
        all[i].other = &all[(i + 1) % THREADS];
        all[i].looks = strcmp(device, "cpu") == 0;
    }
    at_once(be_busy, all, sizeof *all, THREADS);
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < LEFT; k++) rp_output_free(atomic_load(&all[i].left[k]));
        if (all[i].err.code != RP_OK) fail_msg("thread %d: %s", i, all[i].err.text);
        assert_int_equal(all[i].wrong, 0);
    }
    assert_true(bench_info(&b).evicted > 0 && bench_info(&b).replays > 0);
    affine_close(&m);
    bench_close(&b);
}

int thread_functions_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_manager),
        cmocka_unit_test(streams_run_at_once),
        cmocka_unit_test(a_device_has_a_manager),
        cmocka_unit_test(threads_do_all_at_once),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
