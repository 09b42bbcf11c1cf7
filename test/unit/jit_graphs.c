/* backend=cudagraphs: calls of compiled graphs of a function are captured once and replayed. */
#include "support/jits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* a in the middle of a break; the state counts. */
static rp_status counting(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    static rp_value out[2];
    rp_tensor s = rp_jit_tensor(call, &args->item[0]), a = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    s = rp_update(s, rp_add(s, a));
    if (*(bool *)user) rp_jit_break(call, "builtin: print");
    out[0] = rp_jit_value(call, rp_mul_scalar(s, 2));
    out[1] = rp_jit_value(call, rp_neg(a));
    *result = rp_value_tuple(out, 2);
    return RP_OK;
}

/* Captured once for each form, then replayed: states are written where they lie, with and without graph breaks, and memory that moves is no
 * new graph. */
static void calls_of_cudagraphs_are_replayed(void **state) {
    rp_error err = {0};
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        bool breaks = broken;
        rp_device *d = NULL;
        rp_autograph *a = NULL;
        rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
        float total[4] = {0}, sum[4] = {0}, in[8][4];
        rp_jit_options o = jit_options(counting);
        CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
        CHECK_OK(rp_autograph_default(d, &a, &err), &err);
        o.user = &breaks;
        o.device = d;
        rp_jit *f = jit_by(o, "backend=cudagraphs");
        for (int i = 0; i < 8; i++) {
            rp_value v[] = {f32_of(total, 1, 4, 0), f32_of(in[i], 1, 4, 0)};
            v[0].state = true;
            rp_value args = rp_value_tuple(v, 2);
            for (int k = 0; k < 4; k++) sum[k] += in[i][k] = (float)(i * 4 + k);
            rp_output *out = jit_ok(f, &args);
            const rp_value *is = jit_result(out);
            assert_string_equal(rp_output_reason(out), "");
            for (int k = 0; k < 4; k++) {
                assert_true(total[k] == sum[k]);
                assert_true(((float *)is->item[0].tensor.data)[k] == 2 * sum[k]);
                assert_true(((float *)is->item[1].tensor.data)[k] == -in[i][k]);
            }
            rp_output_free(out);
        }
        CHECK_OK(rp_autograph_get_info(a, &info, &err), &err);
        assert_int_equal(info.graph_count, broken ? 2 : 1);
        assert_true(info.replays >= 6);
        assert_int_equal(jit_info(f).compiles, 1);
        rp_jit_free(f);
        rp_autograph_destroy(a);
        rp_device_close(d);
    }
}

/* --- one manager, two threads --------------------------------------------------------------------- */

/* A function of another thread, whose capture lasts until a call that ran before it has gone on. */
static struct {
    rp_autograph *a;
    pthread_t thread;
    atomic_bool captures, passed;
    int runs;
    rp_status st;
} other;

static void nap(void) {
    (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static rp_status copying(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_buffer y = args->item[0].tensor;
    (void)user;
    rp_status st = rp_call_output(call, &y, err);
    if (st == RP_OK)
        st = rp_stream_copy(rp_call_stream(call), y.data, args->item[0].tensor.data, 16, err);
    *result = rp_value_tensor(y);
    if (other.runs++ == 0 || st != RP_OK) return st;
    atomic_store(&other.captures, true); /* the second run is the capture */
    while (!atomic_load(&other.passed)) nap();
    for (int i = 0; i < 50; i++) nap(); /* where the call would wait for the stream */
    return st;
}

static void *capture(void *arg) {
    rp_error err = {0};
    rp_function *f = NULL;
    rp_output *o = NULL;
    rp_function_options options = RP_FUNCTION_OPTIONS_INIT;
    float x[4] = {1, 2, 3, 4};
    rp_value v = f32_of(x, 1, 4, 0), args = rp_value_tuple(&v, 1);
    options.name = "copying";
    options.fn = copying;
    other.st = rp_function_new(other.a, &options, &f, &err);
    if (other.st == RP_OK) other.st = rp_autograph_run(f, &args, &o, &err);
    if (other.st == RP_OK && rp_output_ran(o) != RP_RAN_CAPTURE) other.st = RP_INTERNAL;
    atomic_store(&other.captures, true); /* wherever it failed */
    rp_output_free(o);
    return arg;
}

/* Behind a call's run, in front of its wait. */
static void between(void *user, rp_log_level level, const char *text) {
    (void)user, (void)level;
    if (!strstr(text, "are not captured")) return;
    assert_int_equal(pthread_create(&other.thread, NULL, capture, NULL), 0);
    while (!atomic_load(&other.captures)) nap();
    atomic_store(&other.passed, true);
}

static rp_status doubling(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), 2));
    return RP_OK;
}

static void a_call_waits_while_others_capture(void **state) {
    enum { FORMS = 40 };
    rp_error err = {0};
    rp_device *d = NULL;
    float in[4 + FORMS];
    rp_jit_options o = jit_options(doubling);
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    CHECK_OK(rp_autograph_default(d, &other.a, &err), &err);
    o.device = d;
    rp_jit *f = jit_by(o, "backend=cudagraphs");
    rp_log_set_callback(between, NULL);
    for (int n = 0; n < FORMS; n++) { /* so many forms are not captured any more, which is told */
        for (int k = 0; k < 4 + n; k++) in[k] = (float)k;
        rp_value v = f32_of(in, 1, 4 + n, 0), args = rp_value_tuple(&v, 1);
        rp_output *out = jit_ok(f, &args);
        const float *is = jit_result(out)->tensor.data;
        for (int k = 0; k < 4 + n; k++) assert_true(is[k] == 2 * in[k]);
        rp_output_free(out);
    }
    rp_log_set_callback(NULL, NULL);
    assert_true(atomic_load(&other.passed));
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(other.st, RP_OK);
    rp_jit_free(f);
    rp_autograph_destroy(other.a);
    rp_device_close(d);
}

static void rp_compile_captures_nothing(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("a");
    rp_tensor a = rp_neg(rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4)));
    (void)state;
    CHECK_OK(rp_graph_finish(g, &a, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "backend=cudagraphs", &err), &err);
    assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "give it to rp_jit_new"));
    rp_graph_free(g);
    rp_config_free(cfg);
}

static rp_status one_life(rp_error *err) {
    float total[4] = {0}, in[4] = {1, 2, 3, 4};
    bool breaks = true;
    rp_jit *f = NULL;
    rp_output *o = NULL;
    rp_value v[] = {f32_of(total, 1, 4, 0), f32_of(in, 1, 4, 0)}, args = rp_value_tuple(v, 2);
    rp_compilation_config *c = rp_config_new();
    rp_jit_options options = jit_options(counting);
    rp_status st = c ? rp_config_set(c, "backend=cudagraphs", err) : RP_NOMEM;
    v[0].state = true;
    options.config = c;
    options.user = &breaks;
    if (st == RP_OK) st = rp_jit_new(&options, &f, err);
    for (int i = 0; i < 3 && st == RP_OK; i++) {
        st = rp_jit_run(f, &args, &o, err);
        rp_output_free(o);
        o = NULL;
    }
    rp_jit_free(f);
    rp_config_free(c);
    return st;
}

static void every_allocation_may_fail(void **state) {
    rp_error err = {0};
    (void)state;
    CHECK_OK(one_life(&err), &err);
    jit_fail_each_allocation(one_life, 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_cudagraphs_are_replayed),
        cmocka_unit_test(a_call_waits_while_others_capture),
        cmocka_unit_test(rp_compile_captures_nothing),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
