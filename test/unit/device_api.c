/* The public device, stream and event: who owns what, that everything is given back, that engines and compiled graphs share
 * one device from several threads, and what a call that does not fit is told. */
#include <sys/wait.h>
#include <unistd.h>

#include "support/at_once.h"
#include "support/compiled_device.h"
#include "support/devices.h"
#include "support/gpu.h"
#include "support/heard.h"

#include "base/alloc.h"
#include "device/stream.h"
#include "reprise/reprise.h"

enum { K = 48, N = 40, MOST = 64, THREADS = 4, CALLS = 30 };

static float w[N * K];

static void fill(float *p, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
}

static const char *no_gpu; /* why there is none, not even an emulated one */

/* softmax(exp(x) w^T), B rows. */
static rp_compiled *compile_on(rp_device *d, const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("shared");
    rp_compilation_config *cfg = rp_config_new();
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "B", 1, MOST), K));
    rp_tensor p = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(N, K));
    rp_tensor y = rp_softmax(rp_matmul(rp_exp(x), p, true), -1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    if (setting) CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "w", w, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

static void life(void **state) {
    size_t live = base_live();
    rp_error err = {0};
    (void)state;
    rp_device *d = device_open_ok("cpu", 2);
    rp_stream *s = stream_open_ok(d);
    assert_ptr_equal(rp_stream_device(s), d);
    assert_ptr_equal(rp_device_ref(d), d);
    rp_device_close(d);
    rp_device_close(d); /* the stream has one of its own */
    rp_device_info info = RP_DEVICE_INFO_INIT;
    CHECK_OK(rp_device_get_info(rp_stream_device(s), &info, &err), &err);
    assert_string_equal(info.name, "cpu");
    assert_string_equal(info.description, "cpu");
    assert_int_equal(info.threads, 2);
    assert_true(info.host_memory);
    rp_stream_close(s);
    assert_int_equal(base_live(), live);
    rp_device_close(NULL);
    rp_stream_close(NULL);
    rp_event_free(NULL);
    assert_null(rp_device_ref(NULL));
}

static void bad_calls_are_told(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    (void)state;
    assert_int_equal(rp_device_open("tpu", 0, &d, &err), RP_CONFIG);
    assert_string_equal(err.text, "unknown device 'tpu'; known are cpu, null and cuda:N");
    assert_int_equal(rp_device_open("cpu", 1000, &d, &err), RP_CONFIG);
    assert_int_equal(rp_device_open("cpu", 1, NULL, &err), RP_INVALID);
    assert_null(d);
    assert_int_equal(rp_stream_open(NULL, NULL, &err), RP_INVALID);
    assert_int_equal(rp_stream_synchronize(NULL, &err), RP_INVALID);
    rp_device *a = device_open_ok("cpu", 1), *b = device_open_ok("null", 0);
    rp_stream *s = stream_open_ok(b);
    rp_event *e = NULL;
    CHECK_OK(rp_event_new(a, &e, &err), &err);
    assert_int_equal(rp_event_record(e, s, &err), RP_INVALID);
    assert_string_equal(err.text,
                        "rp_event_record: the event is of one device, the stream of another");
    assert_int_equal(rp_event_wait(e, s, &err), RP_INVALID);
    assert_string_equal(err.text,
                        "rp_event_wait: the event is of one device, the stream of another");
    assert_int_equal(rp_event_record(NULL, s, &err), RP_INVALID);
    assert_string_equal(err.text, "rp_event_record: event or stream is NULL");
    assert_int_equal(rp_event_record(e, NULL, &err), RP_INVALID);
    assert_int_equal(rp_event_wait(NULL, s, &err), RP_INVALID);
    assert_int_equal(rp_event_wait(e, NULL, &err), RP_INVALID);
    assert_int_equal(rp_event_synchronize(NULL, &err), RP_INVALID);
    assert_int_equal(rp_event_new(NULL, &e, &err), RP_INVALID);
    assert_int_equal(rp_event_new(a, NULL, &err), RP_INVALID);
    assert_int_equal(rp_stream_open(a, NULL, &err), RP_INVALID);
    assert_int_equal(rp_stream_fill(s, NULL, 0, 1, &err), RP_INVALID);
    CHECK_OK(rp_stream_fill(s, NULL, 0, 0, &err), &err);
    assert_string_equal(err.text, ""); /* a call that goes well clears what was there */
    void *p = NULL;
    assert_int_equal(rp_device_alloc(NULL, 1, &p, &err), RP_INVALID);
    assert_int_equal(rp_device_alloc(a, 1, NULL, &err), RP_INVALID);
    assert_int_equal(rp_device_get_info(NULL, NULL, &err), RP_INVALID);
    rp_event_free(e);
    rp_stream_close(s);
    rp_device_close(b);
    rp_device_close(a);
}

/* What is forgotten goes with the device; a foreign address does not. */
static void memory_is_given_back(void **state) {
    size_t live = base_live();
    rp_error err = {0};
    rp_device_info info = RP_DEVICE_INFO_INIT;
    void *p = NULL, *q = NULL, *none = NULL;
    int outside = 0;
    (void)state;
    rp_device *d = device_open_ok("cpu", 1);
    CHECK_OK(rp_device_alloc(d, 1000, &p, &err), &err);
    CHECK_OK(rp_device_alloc(d, 24, &q, &err), &err);
    CHECK_OK(rp_device_alloc(d, 0, &none, &err), &err);
    assert_true(p && q && none && ((uintptr_t)p & 63) == 0);
    for (int i = 0; i < 1000; i++) assert_int_equal(((char *)p)[i], 0);
    CHECK_OK(rp_device_get_info(d, &info, &err), &err);
    assert_int_equal(info.allocated, 1025);
    rp_device_free(d, q);
    rp_device_free(d, &outside);
    rp_device_free(d, (char *)p + 64); /* within a block */
    rp_device_free(d, NULL);
    CHECK_OK(rp_device_get_info(d, &info, &err), &err);
    assert_int_equal(info.allocated, 1001);
    base_buf said;
    heard_start(&said, "");
    rp_device_close(d);
    CHECK_HEARD(&said, "device cpu was closed with 1001 bytes in 2 blocks that rp_device_free "
                       "never had; they are freed now\n");
    heard_done(&said);
    assert_int_equal(base_live(), live);
    heard_start(&said, "");
    d = device_open_ok("cpu", 1); /* nothing to say where all was freed */
    CHECK_OK(rp_device_alloc(d, 8, &p, &err), &err);
    rp_device_free(d, p);
    rp_device_close(d);
    assert_true(!said.len);
    heard_done(&said);
}

static void copies_and_events(void **state) {
    (void)state;
    device_check_copies("cpu");
    device_check_copies("null");
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    device_check_copies("cuda:0");
}

/* What a stream was given has happened when it is closed, for all others. */
static void a_stream_ends_with_what_it_holds(void **state) {
    enum { SIZE = 4096 };
    rp_error err = {0};
    void *there = NULL;
    uint8_t back[SIZE] = {0};
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    rp_device *d = device_open_ok("cuda:0", 1);
    CHECK_OK(rp_device_alloc(d, SIZE, &there, &err), &err);
    rp_stream *first = stream_open_ok(d), *second = stream_open_ok(d);
    CHECK_OK(rp_stream_fill(first, there, 7, SIZE, &err), &err);
    rp_stream_close(first);
    CHECK_OK(rp_stream_copy(second, back, there, SIZE, &err), &err);
    CHECK_OK(rp_stream_synchronize(second, &err), &err);
    for (int i = 0; i < SIZE; i++) assert_int_equal(back[i], 7);
    rp_stream_close(second);
    rp_device_free(d, there);
    rp_device_close(d);
}

static void compiled_on_the_cpu(void **state) {
    (void)state;
    compiled_device_check("cpu");
    compiled_device_check_threads("cpu");
}

static void compiled_on_a_gpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    compiled_device_check("cuda:0");
}

static void operands_that_are_loaded_16_bytes_at_a_time(void **state) {
    (void)state;
    compiled_device_check_loads("cpu");
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    compiled_device_check_loads("cuda:0");
}

static void compiled_on_a_gpu_by_threads(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    compiled_device_check_threads("cuda:0");
}

/* Of the host, for a GPU, too: as many as it was opened with. */
static void a_gpu_has_the_threads_it_is_given(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    rp_device_info info = RP_DEVICE_INFO_INIT;
    rp_error err = {0};
    rp_device *d = device_open_ok("cuda:0", 3);
    CHECK_OK(rp_device_get_info(d, &info, &err), &err);
    assert_int_equal(info.threads, 3);
    rp_compiled_free(compile_on(d, "threads=3"));
    rp_device_close(d);
}

static bool says_forked(rp_status st, const rp_error *err) {
    return st == RP_DEVICE && strstr(err->text, "this process was forked from one that had started "
                                                "the CUDA driver") != NULL;
}

/* Neither a GPU of its parent nor one of its own: it is told why. */
static void a_child_has_no_gpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    rp_device *d = device_open_ok("cuda:0", 1);
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        rp_error err = {0};
        rp_device *own = NULL;
        void *p = NULL;
        bool told = says_forked(rp_device_alloc(d, 16, &p, &err), &err);
        told = says_forked(rp_device_open("cuda:0", 1, &own, &err), &err) && told;
        _exit(told ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rp_device_close(d);
}

static void what_a_gpu_refuses(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    compiled_device_check_refusals("cuda:0");
}

static void graphs_in_text_form(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    compiled_device_check_eval();
}

static rp_status run(rp_compiled *c, rp_stream *s, float *x, float *y, int rows, rp_error *err) {
    rp_buffer in = {RP_DTYPE_F32, 2, {rows, K}, x}, out = {RP_DTYPE_F32, 2, {rows, N}, y};
    return s ? rp_compiled_run_on(c, s, &in, 1, &out, 1, err)
             : rp_compiled_run(c, &in, 1, &out, 1, err);
}

typedef struct caller {
    rp_compiled *c;
    rp_stream *s; /* NULL: rp_compiled_run */
    int rows, wrong;
    rp_error err;
    float x[MOST * K], y[MOST * N], want[MOST * N];
} caller;

static caller callers[THREADS];

static void *call_often(void *arg) {
    caller *me = arg;
    for (int i = 0; i < CALLS && me->err.code == RP_OK; i++) {
        memset(me->y, 0, sizeof me->y);
        if (run(me->c, me->s, me->x, me->y, me->rows, &me->err) != RP_OK) break;
        me->wrong += memcmp(me->y, me->want, (size_t)me->rows * N * sizeof *me->y) != 0;
    }
    return NULL;
}

/* Two graphs of two levels on one device, from four threads, by streams and without: the same bits as alone. */
static void one_device_serves_many(void **state) {
    size_t live = base_live();
    rp_error err = {0};
    (void)state;
    fill(w, N * K, 7);
    rp_device *d = device_open_ok("cpu", 2);
    rp_compiled *c[2] = {compile_on(d, "level=0"), compile_on(d, "level=2")};
    rp_compiled *alone = compile_on(NULL, "level=2");
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.c = c[i % 2], .s = i < 2 ? stream_open_ok(d) : NULL, .rows = 60 - i};
        fill(callers[i].x, MOST * K, (unsigned)i + 1);
        CHECK_OK(run(alone, NULL, callers[i].x, callers[i].want, callers[i].rows, &err), &err);
    }
    rp_device_close(d); /* the others keep it */
    at_once(call_often, callers, sizeof *callers, THREADS);
    for (int i = 0; i < THREADS; i++) {
        if (callers[i].err.code != RP_OK) fail_msg("%s", callers[i].err.text);
        assert_int_equal(callers[i].wrong, 0);
        rp_stream_close(callers[i].s);
    }
    rp_compiled_free(c[0]);
    rp_compiled_free(c[1]);
    rp_compiled_free(alone);
    assert_int_equal(base_live(), live);
}

static void a_stream_of_another_device(void **state) {
    rp_error err = {0};
    (void)state;
    rp_device *d = device_open_ok("cpu", 1);
    rp_stream *s = stream_open_ok(d);
    rp_compiled *c = compile_on(NULL, NULL);
    static float x[K], y[N];
    assert_int_equal(run(c, s, x, y, 1, &err), RP_INVALID);
    assert_string_equal(
        err.text, "graph @shared was compiled for a device of its own, the stream is of another "
                  "one; compile it by rp_compile_on with the device of the stream");
    rp_compiled_free(c);
    rp_stream_close(s);
    rp_device_close(d);
}

/* Settings that contradict the device are refused, those that agree are fine. */
static void settings_agree(void **state) {
    static const char *const bad[] = {"device=null", "threads=3"};
    static const char *const good[] = {"device=cpu", "threads=2"};
    size_t live = base_live();
    rp_error err = {0};
    (void)state;
    rp_device *d = device_open_ok("cpu", 2);
    for (int i = 0; i < 2; i++) {
        rp_compilation_config *cfg = rp_config_new();
        rp_compiled *c = NULL;
        rp_graph *g = rp_graph_new("one");
        rp_tensor y = rp_neg(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)));
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        CHECK_OK(rp_config_set(cfg, bad[i], &err), &err);
        assert_int_equal(rp_compile_on(d, g, cfg, &c, &err), RP_CONFIG);
        assert_string_equal(
            err.text,
            i ? "threads=3, but the device that is given has 2; say it to rp_device_open"
              : "device=null, but the device that is given was opened as cpu; leave one out");
        rp_config_free(cfg);
        rp_graph_free(g);
        rp_compiled_free(compile_on(d, good[i]));
    }
    rp_device_close(d);
    assert_int_equal(base_live(), live);
}

/* No name is the processor, and a GPU without a number is the first. */
static void names_that_mean_one_device(void **state) {
    static const char *const names[][2] = {
        {NULL, "cpu"}, {"", "cpu"}, {"cuda", "cuda:0"}, {"cuda:0", "cuda"}};
    (void)state;
    for (size_t i = 0; i < (no_gpu ? 2 : 4); i++) {
        rp_error err = {0};
        rp_device *d = NULL;
        char setting[32];
        rp_device_info info = RP_DEVICE_INFO_INIT;
        CHECK_OK(rp_device_open(names[i][0], 1, &d, &err), &err);
        CHECK_OK(rp_device_get_info(d, &info, &err), &err);
        assert_string_equal(info.name, i < 2 ? "cpu" : names[i][0]);
        (void)snprintf(setting, sizeof setting, "device=%s", names[i][1]);
        rp_compiled_free(compile_on(d, setting));
        rp_device_close(d);
    }
}

static void engines_share_a_device(void **state) {
    size_t live = base_live();
    (void)state;
    device_check_engines("cpu");
    assert_int_equal(base_live(), live);
}

/* Two streams may capture at once; when the inner capture has ended, the outer one still knows what it cannot replay. */
static void a_capture_inside_of_another(void **state) {
    rp_device *d = NULL;
    rp_error err = {0};
    device_graph *g = NULL;
    void *p = NULL;
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    rp_stream *outer = stream_open_ok(d), *inner = stream_open_ok(d);
    CHECK_OK(device_stream_capture(outer, &err), &err);
    CHECK_OK(device_stream_capture(inner, &err), &err);
    CHECK_OK(device_stream_finish(inner, "inner", NULL, &err), &err);
    CHECK_OK(rp_device_alloc(d, 4, &p, &err), &err);
    assert_int_equal(device_stream_finish(outer, "outer", &g, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "rp_device_alloc while calls are captured"));
    err = (rp_error){0};
    rp_device_free(d, p); /* no capture is under way */
    CHECK_OK(device_stream_capture(outer, &err), &err);
    CHECK_OK(device_stream_finish(outer, "outer", &g, &err), &err);
    device_graph_free(g);
    rp_stream_close(inner);
    rp_stream_close(outer);
    rp_device_close(d);
}

/* Neither records an event nor waits for one: a replay would do it for nobody. The capture is spoilt, and the next is as the first. */
static void events_have_no_place_in_captures(void **state) {
    static const char *const what[] = {"recording an event", "waiting for an event"};
    (void)state;
    rp_device *d = device_open_ok("cpu", 1);
    rp_stream *s = stream_open_ok(d);
    rp_event *e = NULL;
    device_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(rp_event_new(d, &e, &err), &err);
    for (int waits = 0; waits < 2; waits++) {
        CHECK_OK(rp_event_record(e, s, &err), &err);
        CHECK_OK(device_stream_capture(s, &err), &err);
        assert_int_equal((waits ? rp_event_wait : rp_event_record)(e, s, &err), RP_INVALID);
        assert_ptr_equal(strstr(err.text, what[waits]), err.text);
        err = (rp_error){0};
        assert_int_equal(device_stream_finish(s, "spoilt", &g, &err), RP_INVALID);
        assert_ptr_equal(strstr(err.text, what[waits]), err.text);
        err = (rp_error){0};
        CHECK_OK(rp_event_wait(e, s, &err), &err);
    }
    rp_event_free(e);
    rp_stream_close(s);
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(life),
        cmocka_unit_test(events_have_no_place_in_captures),
        cmocka_unit_test(bad_calls_are_told),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(copies_and_events),
        cmocka_unit_test(a_stream_ends_with_what_it_holds),
        cmocka_unit_test(compiled_on_the_cpu),
        cmocka_unit_test(compiled_on_a_gpu),
        cmocka_unit_test(operands_that_are_loaded_16_bytes_at_a_time),
        cmocka_unit_test(compiled_on_a_gpu_by_threads),
        cmocka_unit_test(a_gpu_has_the_threads_it_is_given),
        cmocka_unit_test(what_a_gpu_refuses),
        cmocka_unit_test(a_child_has_no_gpu),
        cmocka_unit_test(graphs_in_text_form),
        cmocka_unit_test(one_device_serves_many),
        cmocka_unit_test(a_stream_of_another_device),
        cmocka_unit_test(a_capture_inside_of_another),
        cmocka_unit_test(settings_agree),
        cmocka_unit_test(names_that_mean_one_device),
        cmocka_unit_test(engines_share_a_device),
    };
    if (gpu_emulate(&no_gpu)) no_gpu = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
