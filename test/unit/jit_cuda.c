/* Functions that compile themselves on a GPU: the bits of the CPU, with buffers on either side, with graph breaks and states. */
#include "support/gpu.h"
#include "support/jits.h"

enum { MOST = 512 };
static const char *no_gpu; /* why there is none, not even an emulated one */
static float x[MOST], w[MOST];

static void fill(void) {
    for (int i = 0; i < MOST; i++) {
        x[i] = (float)(i % 17) / 8 - 0.75f;
        w[i] = (float)(i % 13) / 16 - 0.25f;
    }
}

static rp_device *open_gpu(void) {
    rp_error err = {0};
    rp_device *d = NULL;
    CHECK_OK(rp_device_open("cuda:0", 1, &d, &err), &err);
    return d;
}

static rp_jit *on(rp_device *d, rp_jit_fn fn, const char *level, void *user) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(fn);
    rp_compilation_config *c = rp_config_new();
    CHECK_OK(rp_config_set(c, level, &err), &err);
    o.config = c;
    o.device = d;
    o.user = user;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    rp_config_free(c);
    return f;
}

/* What lies on the device, as the host sees it. */
static void read_device(rp_device *d, void *to, const void *from, size_t bytes) {
    rp_error err = {0};
    rp_stream *s = NULL;
    CHECK_OK(rp_stream_open(d, &s, &err), &err);
    CHECK_OK(rp_stream_copy(s, to, from, bytes, &err), &err);
    CHECK_OK(rp_stream_synchronize(s, &err), &err);
    rp_stream_close(s);
}

static rp_status product(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_softmax(rp_matmul(a, b, false), -1));
    return RP_OK;
}

/* Two ways by a sum, and a look at a value. */
static rp_status broken(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    ++*(int *)user;
    rp_tensor y = rp_matmul(a, b, false);
    double sum = rp_item(rp_sum(rp_sum(rp_abs(y), -1, false), -1, false));
    y = sum > 4 ? rp_mul_scalar(y, 0.5) : rp_neg(y);
    rp_buffer seen = rp_jit_read(call, y);
    if (!seen.data) return RP_OK;
    y = ((float *)seen.data)[0] > 0 ? rp_add_scalar(y, 1) : rp_exp(y);
    *result = rp_jit_value(call, y);
    return RP_OK;
}

static void same_bits(rp_jit_fn fn, const char *level) {
    static const int64_t rows[] = {2, 2, 8, 5, 1, 8};
    int runs[2] = {0, 0};
    rp_device *d = open_gpu();
    rp_jit *gpu = on(d, fn, level, &runs[0]), *cpu = on(NULL, fn, level, &runs[1]);
    fill();
    for (int i = 0; i < 6; i++) {
        rp_value v[] = {f32_of(x, 2, rows[i], 8), f32_of(w, 2, 8, 4)}, args = rp_value_tuple(v, 2);
        rp_output *a = jit_ok(gpu, &args), *b = jit_ok(cpu, &args);
        float got[64], into[64];
        size_t bytes = (size_t)rows[i] * 4 * sizeof(float);
        rp_buffer to = {RP_DTYPE_F32, 2, {rows[i], 4}, into};
        rp_error err = {0};
        read_device(d, got, jit_result(a)->tensor.data, bytes);
        assert_memory_equal(got, jit_result(b)->tensor.data, bytes);
        CHECK_OK(rp_jit_run_into(gpu, &args, &to, 1, &err), &err);
        assert_memory_equal(into, got, bytes);
        rp_output_free(a);
        rp_output_free(b);
    }
    if (fn == broken) assert_int_equal(runs[0], 2 * runs[1]);
    rp_jit_free(gpu);
    rp_jit_free(cpu);
    rp_device_close(d);
}

static void the_bits_of_the_cpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    same_bits(product, "level=0");
    same_bits(product, "level=2");
    same_bits(product, "backend=eager");
    same_bits(product, "backend=cudagraphs");
}

/* Graphs that read inputs where they lie say so of one that the GPU does not reach, which the caller never called a state. */
static void inputs_that_stay_are_the_devices(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    rp_device *d = open_gpu();
    rp_value v[] = {f32_of(x, 2, 2, 8), f32_of(w, 2, 8, 4)}, args = rp_value_tuple(v, 2);
    for (int copied = 0; copied < 2; copied++) {
        rp_error err = {0};
        rp_output *o = NULL;
        rp_jit_options how = jit_options(product);
        how.device = d;
        rp_jit *f = jit_by(how, copied ? "level=2 cudagraph_mode=FULL cudagraph_copy_inputs=true"
                                       : "level=2 cudagraph_mode=FULL");
        assert_int_equal(rp_jit_run(f, &args, &o, &err), copied ? RP_OK : RP_INVALID);
        if (!copied && (strncmp(err.text, "input 0 of forward ", 19) != 0 ||
                        !strstr(err.text, " lies in memory of the host, and its graph reads")))
            fail_msg("%s", err.text);
        rp_output_free(o);
        rp_jit_free(f);
    }
    rp_device_close(d);
}

static void graph_breaks(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    same_bits(broken, "level=0");
    same_bits(broken, "level=2");
    same_bits(broken, "backend=cudagraphs");
}

/* state += x, where the host looks at it; twice in the result. */
static rp_status counting(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    static rp_value out[2];
    rp_tensor total = rp_jit_tensor(call, &args->item[0]), a = rp_jit_tensor(call, &args->item[1]);
    rp_tensor now = rp_update(total, rp_add(total, a));
    (void)err;
    *(double *)user = rp_item(rp_sum(now, -1, false));
    out[0] = out[1] = rp_jit_value(call, rp_mul_scalar(now, 2));
    *result = rp_value_tuple(out, 2);
    return RP_OK;
}

static void counts(const char *settings) {
    rp_error err = {0};
    void *memory = NULL;
    double sum = 0;
    float got[2][4], wide[8] = {1, 0, 2, 0, 3, 0, 4, 0};
    rp_device *d = open_gpu();
    rp_jit *f = on(d, counting, settings, &sum);
    CHECK_OK(rp_device_alloc(d, 16, &memory, &err), &err);
    for (int i = 1; i < 4; i++) {
        rp_buffer b = {RP_DTYPE_F32, 1, {4}, wide};
        rp_value v[] = {f32_of(memory, 1, 4, 0), rp_value_strided(b, (int64_t[]){2})};
        rp_buffer to[] = {{RP_DTYPE_F32, 1, {4}, got[0]}, {RP_DTYPE_F32, 1, {4}, got[1]}};
        v[0].state = true;
        rp_value args = rp_value_tuple(v, 2);
        CHECK_OK(rp_jit_run_into(f, &args, to, 2, &err), &err);
        assert_true(sum == 10.0 * i);
        for (int k = 0; k < 4; k++) {
            assert_true(got[0][k] == 2.0f * (float)((k + 1) * i));
            assert_true(got[1][k] == got[0][k]);
        }
    }
    rp_jit_free(f);
    rp_device_free(d, memory);
    rp_device_close(d);
}

static void states_and_views(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    counts("level=2");
    counts("backend=cudagraphs");
}

/* Calls with buffers of the host: one that is refused, after its sizes were read, leaves nothing to the next, which is as the one before. */
static void a_refused_call_leaves_nothing(void **state) {
    enum { ROWS = 8, LESS = 2, COLUMNS = 8 };
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *config = rp_config_new();
    rp_graph *g = rp_graph_new("twice");
    float y[ROWS * COLUMNS];
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    rp_device *d = open_gpu();
    rp_dim n = rp_symbol(g, "N", 1, 64);
    rp_tensor out = rp_mul_scalar(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(n, COLUMNS)), 2);
    CHECK_OK(rp_graph_finish(g, &out, 1, &err), &err);
    CHECK_OK(rp_config_set(config, "level=2", &err), &err);
    CHECK_OK(rp_compile_on(d, g, config, &c, &err), &err);
    fill();
    for (int i = 0; i < 4; i++) {
        rp_buffer in = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x};
        rp_buffer to = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, y}, few = in;
        few.dim[0] = LESS;
        memset(y, 0, sizeof y);
        x[ROWS * COLUMNS - 1] = (float)i + 1;
        CHECK_OK(rp_compiled_run(c, &in, 1, &to, 1, &err), &err);
        for (int k = 0; k < ROWS * COLUMNS; k++) assert_true(y[k] == 2 * x[k]);
        assert_int_equal(rp_compiled_run(c, &few, 1, &to, 1, &err), RP_INVALID);
    }
    rp_compiled_free(c);
    rp_config_free(config);
    rp_graph_free(g);
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_the_cpu),
        cmocka_unit_test(inputs_that_stay_are_the_devices),
        cmocka_unit_test(graph_breaks),
        cmocka_unit_test(states_and_views),
        cmocka_unit_test(a_refused_call_leaves_nothing),
    };
    if (gpu_emulate(&no_gpu)) no_gpu = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
