/* Functions that compile themselves, with views as arguments and results: what is copied, told and refused. */
#include "support/gpu.h"
#include "support/heard.h"
#include "support/jits.h"
#include "support/thorough.h"
#include "support/viewed_calls.h"

#include <pthread.h>

#include "base/alloc.h"

enum { ROWS = 4, COLS = 6 };

static const char *no_gpu;
static float x[ROWS * COLS], y[ROWS * COLS], z[ROWS * COLS];

static int fresh(void **state) {
    (void)state;
    rp_log_set_callback(NULL, NULL);
    for (int i = 0; i < ROWS * COLS; i++) {
        x[i] = (float)(i * 3 + 1);
        y[i] = z[i] = -1;
    }
    return 0;
}

static rp_view view(float *p, int64_t rows, int64_t cols, int64_t row, int64_t col) {
    rp_buffer b = {RP_DTYPE_F32, 2, {rows, cols}, p};
    return rp_view_strided(b, (int64_t[]){row, col}, 0);
}

/* x + 1, and with a user x * 2, too. */
static rp_status more(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    static rp_value item[2];
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    item[0] = rp_jit_value(call, rp_add_scalar(t, 1));
    item[1] = rp_jit_value(call, rp_mul_scalar(t, 2));
    *result = user ? rp_value_tuple(item, 2) : item[0];
    return RP_OK;
}

static rp_status twice(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_update(t, rp_mul_scalar(t, 2)));
    return RP_OK;
}

static void drawn_views(void **state) {
    (void)state;
    NOT_ELSEWHERE("they name the cpu");
    viewed_jits_check("cpu", 1200);
}

static void drawn_views_of_a_gpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    viewed_jits_check("cuda:0", 200);
}

static void drawn_views_of_graphs(void **state) {
    (void)state;
    NOT_ELSEWHERE("they name the cpu");
    viewed_graphs_check("cpu", 150);
}

static void drawn_views_of_graphs_of_a_gpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    viewed_graphs_check("cuda:0", 40);
}

/* rp_jit_run tells as much, and reads a matrix from its end. */
static void copies_are_told(void **state) {
    rp_error err = {0};
    rp_view_copies copies = RP_VIEW_COPIES_INIT;
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    base_buf heard;
    (void)state;
    rp_jit *f = jit_at(more, 2, RP_DYNAMIC_NONE, NULL);
    rp_view in = view(x, ROWS, COLS, -COLS, -1), out = view(y, ROWS, COLS, 1, ROWS);
    in.offset = ROWS * COLS - 1;
    rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
    heard_start(&heard, "perf_hints");
    rp_output *made = jit_ok(f, &args);
    const float *got = jit_result(made)->tensor.data;
    for (int i = 0; i < ROWS * COLS; i++) assert_true(got[i] == x[ROWS * COLS - 1 - i] + 1);
    rp_output_free(made);
    CHECK_HEARD(&heard, "forward: tensor 0 of the arguments is a view, f32[4,6] of strides -6, -1: "
                        "96 bytes are copied to dense memory at each such call");
    size_t told = heard.len;
    o.copies = &copies;
    CHECK_OK(rp_jit_run_views(f, &args, &out, 1, &o, &err), &err);
    for (int i = 0; i < ROWS * COLS; i++)
        assert_true(y[i % COLS * ROWS + i / COLS] == x[ROWS * COLS - 1 - i] + 1);
    CHECK_HEARD(&heard, "forward: output 0 is a view, f32[4,6] of strides 1, 4: 96 bytes are "
                        "copied from dense memory at each such call");
    assert_null(strstr(heard.data + told, "tensor 0"));
    assert_int_equal(copies.gathered, 1);
    assert_int_equal(copies.scattered, 1);
    assert_int_equal(copies.bytes, 192);
    told = heard.len;
    rp_view plain = view(x, ROWS, COLS, COLS, 1), to = view(y, ROWS, COLS, COLS, 1);
    v = rp_value_view(&plain);
    o.no_copies = true;
    CHECK_OK(rp_jit_run_views(f, &args, &to, 1, &o, &err), &err);
    assert_int_equal(heard.len, told);
    assert_int_equal(copies.gathered + copies.scattered, 0);
    char bytes[sizeof x + 1];
    memcpy(bytes + 1, x, sizeof x);
    plain.tensor.data = bytes + 1;
    v = rp_value_view(&plain);
    o.no_copies = false;
    CHECK_OK(rp_jit_run_views(f, &args, &to, 1, &o, &err), &err);
    assert_int_equal(copies.gathered, 1);
    assert_true(y[7] == x[7] + 1);
    assert_int_equal(jit_info(f).entries, 1); /* strides are no guards */
    heard_done(&heard);
    rp_jit_free(f);
}

static void check_refused(rp_jit *f, const rp_view *in, const rp_view *out, uint32_t n,
                          bool no_copies, const char *text) {
    rp_error err = {0};
    rp_run_options o = {sizeof o, NULL, no_copies, NULL};
    rp_value v = rp_value_view(in), args = rp_value_tuple(&v, 1);
    assert_int_equal(rp_jit_run_views(f, &args, out, n, &o, &err), RP_INVALID);
    assert_string_equal(err.text, text);
    for (int i = 0; i < ROWS * COLS; i++) assert_true(y[i] == -1 && z[i] == -1);
}

static void bad_views_are_told(void **state) {
    rp_error err = {0};
    (void)state;
    rp_jit *one = jit_at(more, 2, RP_DYNAMIC_NONE, NULL);
    rp_jit *both = jit_at(more, 2, RP_DYNAMIC_NONE, &err);
    rp_jit *in_place = jit_at(twice, 2, RP_DYNAMIC_NONE, NULL);
    rp_view in = view(x, ROWS, COLS, COLS, 1), to = view(y, ROWS, COLS, COLS, 1), wide = in;
    rp_view across = view(x, ROWS, COLS, 1, ROWS), outside = to;
    outside.bytes = 95;
    wide.stride[0] = INT64_MAX / 2;
    rp_view still = view(y, ROWS, COLS, 0, 1), windows = view(x, ROWS, COLS, 2, 1);
    rp_view crossed[] = {view(y, ROWS, COLS, 1, ROWS), to};
    check_refused(one, &in, &still, 1, false,
                  "output 0, f32[4,6] of strides 0, 1, is written, and several of its elements are "
                  "one place; give each a place of its own");
    check_refused(both, &in, crossed, 2, false, "outputs 0 and 1, which are written, share memory");
    check_refused(one, &in, &outside, 1, false, "output 0 is bytes 0 to 96 of memory that has 95");
    check_refused(one, &in, crossed, 1, true,
                  "forward: output 0, f32[4,6] of strides 1, 4, would be copied; give it dense and "
                  "aligned, or without no_copies");
    check_refused(one, &across, &to, 1, true,
                  "forward: tensor 0 of the arguments, f32[4,6] of strides 1, 4, would be copied; "
                  "give it dense and aligned, or without no_copies");
    check_refused(one, &wide, &to, 1, false,
                  "arguments of forward: [0] a tensor has strides that no memory has");
    check_refused(
        in_place, &windows, &to, 1, false,
        "forward: tensor 0 of the arguments is written, and several of its elements are one place "
        "in memory (its strides overlap); give a copy");
    rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    o.stream = (rp_stream *)(uintptr_t)&err;
    assert_int_equal(rp_jit_run_views(one, &args, &to, 1, &o, &err), RP_INVALID);
    assert_string_equal(err.text, "rp_jit_run_views: a stream is for compiled graphs");
    assert_int_equal(rp_jit_run_views(NULL, &args, &to, 1, NULL, &err), RP_INVALID);
    rp_jit_free(one);
    rp_jit_free(both);
    rp_jit_free(in_place);
}

enum { MANY = 20 };
static rp_status many_results(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    static rp_value item[MANY];
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    const int n = *(const int *)user;
    (void)err;
    for (int i = 0; i < n; i++) item[i] = rp_jit_value(call, rp_add_scalar(t, i));
    *result = rp_value_tuple(item, (uint32_t)n);
    return RP_OK;
}

/* Few have places on the stack, many have not; neither are kept. */
static void many_results_are_views(void **state) {
    static float memory[MANY][ROWS * COLS];
    static const int counts[] = {15, 16, 17, MANY};
    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int n = counts[c];
        rp_jit *f = jit_at(many_results, 2, RP_DYNAMIC_NONE, &n);
        rp_view in = view(x, ROWS, COLS, COLS, 1), out[MANY];
        rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
        size_t live = 0;
        for (int i = 0; i < n; i++) out[i] = view(memory[i], ROWS, COLS, 1, ROWS);
        for (int turn = 0; turn < 4; turn++) {
            rp_error err = {0};
            memset(memory, 0, sizeof memory);
            CHECK_OK(rp_jit_run_views(f, &args, out, (uint32_t)n, NULL, &err), &err);
            for (int i = 0; i < n; i++)
                for (int k = 0; k < ROWS * COLS; k++)
                    assert_true(memory[i][k % COLS * ROWS + k / COLS] == x[k] + (float)i);
            if (turn == 2) live = base_live();
        }
        assert_int_equal(base_live(), live);
        rp_jit_free(f);
    }
}

/* A view may be elsewhere in each call, since its copy is not; what is dense stays where it was, whatever was copied between. */
static void views_move_and_dense_arguments_stay(void **state) {
    static const char *const settings[] = {"level=2 cudagraph_mode=FULL",
                                           "level=3 cudagraph_mode=PIECEWISE"};
    (void)state;
    NOT_ELSEWHERE("arguments that stay lie in memory of the device");
    for (int m = 0; m < 2; m++) {
        rp_error err = {0};
        rp_output *out = NULL;
        rp_view_copies copies = RP_VIEW_COPIES_INIT;
        rp_run_options o = {sizeof o, NULL, false, &copies};
        float other[ROWS * COLS];
        rp_jit *f = jit_by(jit_options(more), settings[m]);
        for (int i = 0; i < 6; i++) {
            float *p = i % 3 == 1 ? other : x;
            for (int k = 0; k < ROWS * COLS; k++) p[k] = (float)(i * 100 + k);
            rp_view in = view(p, COLS, ROWS, 1, COLS), to = view(y, COLS, ROWS, ROWS, 1);
            if (i % 3 == 2) in = view(x, COLS, ROWS, ROWS, 1);
            rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
            CHECK_OK(rp_jit_run_views(f, &args, &to, 1, &o, &err), &err);
            assert_true(y[1] == p[i % 3 == 2 ? 1 : COLS] + 1);
            assert_int_equal(copies.gathered, i % 3 != 2);
            assert_int_equal(copies.bytes, i % 3 == 2 ? 0 : sizeof x);
        }
        rp_view moved = view(other, COLS, ROWS, ROWS, 1), across = view(x, COLS, ROWS, 1, COLS);
        rp_value v = rp_value_view(&moved), args = rp_value_tuple(&v, 1);
        assert_int_equal(rp_jit_run(f, &args, &out, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "or set cudagraph_copy_inputs"));
        (void)fresh(NULL);
        rp_view to = view(z, COLS, ROWS, ROWS, 1);
        check_refused(f, &across, &to, 1, true,
                      "forward: tensor 0 of the arguments, f32[6,4] of strides 1, 6, would be "
                      "copied; give it dense and aligned, or without no_copies");
        rp_jit_free(f);
    }
}

/* What is written in a view is a copy's, and back behind the replay; where it is dense no graph has its place. */
static void views_that_are_written_are_captured(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) { /* whether the first call has a view */
        rp_error err = {0};
        rp_device *d = NULL;
        rp_autograph *a = NULL;
        float m[2][ROWS * COLS], was[ROWS * COLS];
        base_buf heard;
        rp_jit_options options = jit_options(twice);
        CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
        CHECK_OK(rp_autograph_default(d, &a, &err), &err);
        options.device = d;
        options.mode = "reduce-overhead";
        heard_start(&heard, "+perf_hints");
        rp_jit *f = jit_by(options, "level=2");
        for (int i = 0; i < 8; i++) {
            bool strided = i % 4 != 3 * first;
            float *p = m[i % 2];
            for (int k = 0; k < ROWS * COLS; k++) p[k] = was[k] = (float)(i * 10 + k);
            rp_view in = strided ? view(p, COLS, ROWS, 1, COLS) : view(p, COLS, ROWS, ROWS, 1);
            rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
            rp_output *out = jit_ok(f, &args);
            for (int k = 0; k < ROWS * COLS; k++) assert_true(p[k] == 2 * was[k]);
            assert_true(((const float *)jit_result(out)->tensor.data)[1] ==
                        2 * was[strided ? COLS : 1]);
            rp_output_free(out);
        }
        rp_view_copies copies = RP_VIEW_COPIES_INIT;
        rp_run_options o = {sizeof o, NULL, false, &copies};
        rp_view in = view(m[0], COLS, ROWS, 1, COLS), to = view(z, COLS, ROWS, ROWS, 1);
        rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
        CHECK_OK(rp_jit_run_views(f, &args, &to, 1, &o, &err), &err);
        assert_int_equal(copies.gathered, 1);
        assert_int_equal(copies.scattered, 1);
        assert_int_equal(copies.bytes, 2 * sizeof x);
        rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
        CHECK_OK(rp_autograph_get_info(a, &info, &err), &err);
        assert_int_equal(info.captures, 1);
        assert_int_equal(info.replays, 6);
        assert_int_equal(jit_info(f).entries, 1);
        const char *told = strstr(heard.data, "skipping cudagraphs due to mutated inputs: forward");
        assert_non_null(told);
        assert_null(strstr(told + 1, "skipping cudagraphs"));
        heard_done(&heard);
        rp_jit_free(f);
        rp_autograph_destroy(a);
        rp_device_close(d);
    }
}

/* Where a graph is required, a call that has none is an error, also behind one that had. */
static void a_graph_that_is_required(void **state) {
    rp_error err = {0};
    rp_output *out = NULL;
    (void)state;
    rp_jit *f = jit_by(jit_options(twice), "level=2 cudagraph_mode=FULL require_graph=true");
    for (int i = 0; i < 3; i++) {
        rp_view in = i < 2 ? view(x, COLS, ROWS, 1, COLS) : view(x, COLS, ROWS, ROWS, 1);
        rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
        rp_status st = rp_jit_run(f, &args, &out, &err);
        assert_int_equal(st, i < 2 ? RP_OK : RP_UNSUPPORTED);
        if (st == RP_OK) rp_output_free(out);
    }
    assert_non_null(strstr(err.text, "it writes arguments that are no states"));
    rp_jit_free(f);
}

static void memory_runs_out(void **state) {
    (void)state;
    rp_view in = view(x, COLS, ROWS, 1, COLS), out = view(y, COLS, ROWS, 1, COLS);
    rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
    rp_jit *f = jit_at(more, 2, RP_DYNAMIC_NONE, NULL);
    rp_error none = {0};
    rp_output_free(jit_ok(f, &args));
    CHECK_OK(rp_jit_run_views(f, &args, &out, 1, NULL, &none), &none);
    uint64_t n = 1;
    size_t live = base_live();
    for (bool failed = true; failed; n++) {
        rp_error err = {0};
        (void)fresh(NULL);
        base_alloc_fail_nth(n);
        rp_status st = rp_jit_run_views(f, &args, &out, 1, NULL, &err);
        failed = base_alloc_fail_nth(0);
        assert_true(st == RP_OK || (failed && st == RP_NOMEM)); /* logs do without */
        for (int i = 0; i < ROWS * COLS; i++) assert_true(y[i] == (st != RP_OK ? -1 : x[i] + 1));
        assert_int_equal(base_live(), live);
    }
    assert_true(n > 2);
    rp_jit_free(f);
}

/* One call of a thread, over memory of its own. */
enum { THREADS = 3 };
static int n_calls = 2000;
typedef struct caller {
    rp_jit *f;
    int number, wrong;
    float x[ROWS * COLS], y[ROWS * COLS];
} caller;

static pthread_barrier_t all_are_there;

static void *call_many(void *arg) {
    caller *c = arg;
    (void)pthread_barrier_wait(&all_are_there);
    for (int n = 0; n < n_calls; n++) {
        rp_error err = {0};
        for (int i = 0; i < ROWS * COLS; i++) c->x[i] = (float)(c->number * 1000 + n + i);
        rp_view in = view(c->x, COLS, ROWS, 1, COLS), to = view(c->y, COLS, ROWS, ROWS, 1);
        rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
        c->wrong += rp_jit_run_views(c->f, &args, &to, 1, NULL, &err) != RP_OK;
        for (int i = 0; i < ROWS * COLS; i++) {
            float want = (float)(2 * (c->number * 1000 + n + i));
            c->wrong += c->x[i] != want || c->y[i % COLS * ROWS + i / COLS] != want;
        }
    }
    return NULL;
}

/* They share an entry, whose copies have one place: each waits until those of the call before are back. */
static void views_of_several_threads(void **state) {
    static const char *const settings[] = {"level=2 cudagraph_mode=FULL",
                                           "level=3 cudagraph_mode=PIECEWISE"};
    (void)state;
    if (runs_elsewhere() && !THOROUGH()) n_calls /= 4; /* each is a launch */
    for (int m = 0; m < 2; m++) {
        static caller c[THREADS];
        pthread_t thread[THREADS];
        rp_jit *f = jit_by(jit_options(twice), settings[m]);
        assert_int_equal(pthread_barrier_init(&all_are_there, NULL, THREADS), 0);
        for (int i = 0; i < THREADS; i++) {
            c[i] = (caller){.f = f, .number = i + 1};
            assert_int_equal(pthread_create(&thread[i], NULL, call_many, &c[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
        (void)pthread_barrier_destroy(&all_are_there);
        for (int i = 0; i < THREADS; i++) assert_int_equal(c[i].wrong, 0);
        rp_jit_free(f);
    }
}

static rp_status one_life(rp_error *err) {
    rp_jit *f = NULL;
    rp_output *o = NULL;
    rp_view in = view(x, COLS, ROWS, 1, COLS);
    rp_value v = rp_value_view(&in), args = rp_value_tuple(&v, 1);
    rp_jit_options options = jit_options(twice);
    rp_compilation_config *c = rp_config_new();
    rp_status st = c ? rp_config_set(c, "cudagraph_mode=FULL", err) : RP_NOMEM;
    if (st == RP_OK) st = rp_config_set(c, "level=2", err);
    options.config = c;
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

static void every_allocation_of_a_graph_may_fail(void **state) {
    rp_error err = {0};
    (void)state;
    CHECK_OK(one_life(&err), &err);
    jit_fail_each_allocation(one_life, 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(drawn_views, fresh),
        cmocka_unit_test_setup(drawn_views_of_a_gpu, fresh),
        cmocka_unit_test_setup(drawn_views_of_graphs, fresh),
        cmocka_unit_test_setup(drawn_views_of_graphs_of_a_gpu, fresh),
        cmocka_unit_test_setup(copies_are_told, fresh),
        cmocka_unit_test_setup(bad_views_are_told, fresh),
        cmocka_unit_test_setup(many_results_are_views, fresh),
        cmocka_unit_test_setup(views_move_and_dense_arguments_stay, fresh),
        cmocka_unit_test_setup(views_that_are_written_are_captured, fresh),
        cmocka_unit_test_setup(a_graph_that_is_required, fresh),
        cmocka_unit_test_setup(memory_runs_out, fresh),
        cmocka_unit_test_setup(every_allocation_of_a_graph_may_fail, fresh),
        cmocka_unit_test_setup(views_of_several_threads, fresh),
    };
    if (gpu_emulate(&no_gpu)) no_gpu = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
