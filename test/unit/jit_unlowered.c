/* Ops of the host in a function on a GPU: the graph breaks in front of them and behind, the host computes them, and it is told which, why
 * and where. */
#include "support/gpu.h"
#include "support/heard.h"
#include "support/jits.h"

enum { N = 4 };
static const char *no_gpu; /* why there is none, not even an emulated one */

static rp_status halve(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    (void)call, (void)n_args, (void)err;
    for (int64_t i = 0; i < args[0].dim[0]; i++)
        ((float *)args[1].data)[i] = ((const float *)args[0].data)[i] / 2;
    return RP_OK;
}

static rp_status count_up(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    (void)call, (void)n_args, (void)err;
    for (int64_t i = 0; i < args[0].dim[0]; i++) ((float *)args[0].data)[i] += 1;
    for (int64_t i = 0; i < args[0].dim[0]; i++)
        ((float *)args[1].data)[i] = ((const float *)args[0].data)[i] * 10;
    return RP_OK;
}

/* The second custom op writes its argument, on the device or the host. */
static rp_status hosted(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static rp_value out[3];
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), s = rp_jit_tensor(call, &args->item[1]);
    rp_shape shape = rp_tensor_shape(x);
    rp_graph *g = rp_jit_graph(call);
    (void)err;
    x = rp_add_scalar(x, 1);
    rp_tensor y = rp_custom(g, "unlowered::halve", &x, 1, RP_DTYPE_F32, shape);
    if (user && rp_item(rp_sum(y, 0, false)) > 100) y = rp_neg(y);
    y = rp_mul_scalar(y, 3);
    out[0] = rp_jit_value(call, y);
    out[1] = rp_jit_value(call, rp_custom(g, "unlowered::count", &s, 1, RP_DTYPE_F32, shape));
    out[2] = rp_jit_value(call, rp_add(rp_neg(s), x)); /* as it was */
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

static rp_status make(rp_device *d, const char *settings, bool fullgraph, void *user, rp_jit **f,
                      rp_error *err) {
    rp_jit_options o = jit_options(hosted);
    o.device = d;
    o.fullgraph = fullgraph;
    o.user = user;
    return jit_of(o, settings, f, err);
}

static void check_hosted(rp_device *d, const char *settings, void *user) {
    rp_error err = {0};
    rp_jit *f = NULL;
    float s[N] = {0, 1, 2, 3};
    CHECK_OK(make(d, settings, false, user, &f, &err), &err);
    for (int i = 0; i < 4; i++) {
        float x[N] = {1, 2, 3, (float)i}, y[3][N];
        rp_value v[] = {f32_of(x, 1, N, 0), f32_of(s, 1, N, 0)}, args = rp_value_tuple(v, 2);
        rp_buffer to[] = {f32_of(y[0], 1, N, 0).tensor, f32_of(y[1], 1, N, 0).tensor,
                          f32_of(y[2], 1, N, 0).tensor};
        CHECK_OK(rp_jit_run_into(f, &args, to, 3, &err), &err);
        for (int k = 0; k < N; k++) {
            assert_true(y[0][k] == (x[k] + 1) / 2 * 3);
            assert_true(s[k] == (float)(k + i + 1));
            assert_true(y[1][k] == 10 * s[k]);
            assert_true(y[2][k] == x[k] + 1 - (s[k] - 1));
        }
    }
    if (strcmp(settings, "level=2") == 0) assert_true(jit_info(f).breaks >= 2);
    rp_jit_free(f);
}

static void the_host_computes_what_a_gpu_does_not(void **state) {
    static int flag;
    rp_error err = {0};
    rp_device *d = NULL;
    rp_jit *f = NULL;
    base_buf told;
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    CHECK_OK(rp_device_open("cuda:0", 1, &d, &err), &err);
    heard_start(&told, "graph_breaks");
    check_hosted(d, "level=2", NULL);
    CHECK_HEARD(&told, "y = rp_custom(g, \"unlowered::halve\"");
    heard_done(&told);
    check_hosted(d, "level=0", NULL);
    check_hosted(d, "level=2", &flag);
    check_hosted(d, "backend=cudagraphs", NULL);
    CHECK_OK(make(d, "level=2", true, NULL, &f, &err), &err);
    float x[N] = {0}, s[N] = {0};
    rp_value v[] = {f32_of(x, 1, N, 0), f32_of(s, 1, N, 0)}, args = rp_value_tuple(v, 2);
    rp_output *o = NULL;
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_UNSUPPORTED);
    if (!strstr(err.text, "graph break with fullgraph: unlowered::halve")) fail_msg("%s", err.text);
    rp_jit_free(f);
    rp_device_close(d);
}

static rp_status halved(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_custom(rp_jit_graph(call), "unlowered::halve", &x, 1,
                                           RP_DTYPE_F32, rp_tensor_shape(x)));
    return RP_OK;
}

/* Also where that is all: there is no kernel in front of it nor behind. */
static void the_host_may_compute_it_all(void **state) {
    static const char *const settings[] = {"level=2", "level=0", "level=2"};
    rp_error err = {0};
    rp_device *d = NULL;
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    CHECK_OK(rp_device_open("cuda:0", 1, &d, &err), &err);
    for (int i = 0; i < 3; i++) {
        float x[N] = {1, 2, 3, 4}, y[N] = {0};
        rp_value v = f32_of(x, 1, N, 0), args = rp_value_tuple(&v, 1);
        rp_buffer to = f32_of(y, 1, N, 0).tensor;
        rp_jit *f = NULL;
        rp_jit_options options = jit_options(halved);
        options.device = d;
        options.fullgraph = i == 2;
        CHECK_OK(jit_of(options, settings[i], &f, &err), &err);
        rp_status st = rp_jit_run_into(f, &args, &to, 1, &err);
        if (i == 2) {
            assert_int_equal(st, RP_UNSUPPORTED);
            assert_non_null(strstr(err.text, "graph break with fullgraph: unlowered::halve"));
        } else {
            CHECK_OK(st, &err);
            for (int k = 0; k < N; k++) assert_true(y[k] == x[k] / 2);
        }
        rp_jit_free(f);
    }
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_computes_what_a_gpu_does_not),
        cmocka_unit_test(the_host_may_compute_it_all),
    };
    rp_error err = {0};
    rp_op_desc halving = {
        .size = sizeof halving, .name = "unlowered::halve", .result_like = 0, .cpu = halve};
    rp_op_desc counting = {.size = sizeof counting,
                           .name = "unlowered::count",
                           .result_like = -1,
                           .mutates = 1,
                           .cpu = count_up};
    if (rp_op_register(&halving, &err) != RP_OK || rp_op_register(&counting, &err) != RP_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (gpu_emulate(&no_gpu)) no_gpu = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
