/* Convolutions and pools against plain loops: random sizes, strides, paddings, dilations and groups, also those that fit
 * nowhere, which are refused and nothing else is. */
#include "support/check.h"

#include <math.h>

#include "ir/eval.h"
#include "reprise/nn.h"
#include "trace/trace.h"

enum { HIGH, WIDE, MOST = 4096 };

typedef struct window {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t groups, extra; /* extra: of a transposed one */
} window;

typedef struct sizes {
    int64_t n, channels, out, of_group, size[2], result[2];
} sizes;

static uint64_t rng;

static int64_t pick(int64_t lo, int64_t hi) {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((rng >> 33) % (uint64_t)(hi - lo + 1));
}

static window any_window(void) {
    window w = {.groups = pick(1, 3), .extra = pick(0, 3) ? 0 : pick(-1, 3)};
    for (int i = 0; i < 2; i++) {
        w.kernel[i] = pick(1, 4);
        w.stride[i] = pick(0, 9) ? pick(1, 3) : pick(-1, 0);
        w.padding[i] = pick(0, 9) ? pick(0, 2) : -1;
        w.dilation[i] = pick(0, 9) ? pick(1, 2) : pick(-1, 0);
    }
    return w;
}

/* What is not given is 1. */
static int64_t given(int64_t v) {
    return v ? v : 1;
}

/* How many windows there are; 0 where none may be. */
static int64_t count(const window *w, int i, int64_t size, bool transposed) {
    int64_t s = given(w->stride[i]), d = given(w->dilation[i]), p = w->padding[i];
    int64_t reach = d * (w->kernel[i] - 1) + 1;
    if (s < 1 || d < 1 || p < 0) return 0;
    if (transposed) return (size - 1) * s - 2 * p + reach + w->extra;
    return size + 2 * p < reach ? 0 : (size + 2 * p - reach) / s + 1;
}

static rp_shape shape_of(int64_t a, int64_t b, int64_t c, int64_t d) {
    return RP_SHAPE(a, b, c, d);
}

static int64_t index_of(const int64_t dim[4], int64_t a, int64_t b, int64_t c, int64_t d) {
    return ((a * dim[1] + b) * dim[2] + c) * dim[3] + d;
}

static void fill(ir_value *v, const int64_t dim[4]) {
    rp_error err = {0};
    CHECK_OK(ir_random_value(RP_DTYPE_F32, dim, 4, 0, (uint64_t)pick(1, 1 << 20), v, &err), &err);
}

/* y of the graph of x and w; false where it was refused. */
static bool run(rp_graph *g, rp_tensor y, const ir_value *in, double *out, int64_t n) {
    rp_error err = {0};
    ir_value v = {0};
    rp_status st = rp_graph_finish(g, &y, 1, &err);
    if (st == RP_OK) {
        CHECK_OK(ir_eval(trace_graph_ir(g), in, NULL, NULL, NULL, &v, &err), &err);
        assert_int_equal(v.n, n);
        memcpy(out, v.data, (size_t)n * sizeof *out);
        ir_value_done(&v);
    } else {
        assert_int_equal(st, RP_INVALID);
        assert_true(err.text[0] && !strchr(err.text, '\n'));
    }
    rp_graph_free(g);
    return st == RP_OK;
}

static void same(const double *got, const double *want, int64_t n, const char *what) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-5) && got[i] != want[i])
            fail_msg("%s, element %lld: %.9g, not %.9g", what, (long long)i, got[i], want[i]);
}

/* Adds what each element of x gives through each tap of the kernel: gathered by a convolution, scattered by its transpose. */
static void convolve(const window *w, const sizes *s, bool transposed, const double *x,
                     const double *k, double *y) {
    const int64_t xd[4] = {s->n, s->channels, s->size[0], s->size[1]},
                  yd[4] = {s->n, s->out, s->result[0], s->result[1]}, of_out = s->out / w->groups,
                  kd[4] = {transposed ? s->channels : s->out, transposed ? of_out : s->of_group,
                           w->kernel[0], w->kernel[1]};
    const int64_t *small = transposed ? s->size : s->result,
                  *large = transposed ? s->result : s->size;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t o = 0; o < s->out; o++)
            for (int64_t c = 0; c < s->of_group; c++)
                for (int64_t a = 0; a < small[0] * small[1]; a++)
                    for (int64_t t = 0; t < w->kernel[0] * w->kernel[1]; t++) {
                        int64_t i = a / small[1], j = a % small[1];
                        int64_t ti = t / w->kernel[1], tj = t % w->kernel[1];
                        int64_t h = i * given(w->stride[0]) + ti * given(w->dilation[0]) -
                                    w->padding[0];
                        int64_t v = j * given(w->stride[1]) + tj * given(w->dilation[1]) -
                                    w->padding[1];
                        int64_t from = o / of_out * s->of_group + c;
                        if (h < 0 || h >= large[0] || v < 0 || v >= large[1]) continue;
                        if (transposed)
                            y[index_of(yd, n, o, h, v)] +=
                                x[index_of(xd, n, from, i, j)] *
                                k[index_of(kd, from, o % of_out, ti, tj)];
                        else
                            y[index_of(yd, n, o, i, j)] += x[index_of(xd, n, from, h, v)] *
                                                           k[index_of(kd, o, c, ti, tj)];
                    }
}

/* One random case; whether it was one that may be. */
static bool convolution(bool transposed) {
    window w = any_window();
    sizes s = {.n = pick(1, 2), .of_group = pick(1, 2), .size = {pick(1, 6), pick(1, 6)}};
    s.channels = s.of_group * w.groups + !pick(0, 9);
    s.out = pick(1, 2) * w.groups + (!transposed && !pick(0, 9)); /* it has what its kernel says */
    bool fits = transposed ? s.channels % w.groups == 0
                           : s.channels == s.of_group * w.groups && s.out % w.groups == 0;
    if (transposed) s.of_group = s.channels / w.groups;
    for (int i = 0; i < 2; i++) fits &= (s.result[i] = count(&w, i, s.size[i], transposed)) > 0;
    int64_t least = given(w.stride[0]) < given(w.stride[1]) ? given(w.stride[0])
                                                            : given(w.stride[1]);
    if (transposed) fits &= w.extra >= 0 && (w.extra == 0 || w.extra < least);
    const int64_t xd[4] = {s.n, s.channels, s.size[0], s.size[1]},
                  kd[4] = {transposed ? s.channels : s.out,
                           transposed ? s.out / w.groups : s.of_group, w.kernel[0], w.kernel[1]};
    static double got[MOST], want[MOST];
    ir_value in[2];
    fill(&in[0], xd);
    fill(&in[1], kd);
    rp_graph *g = rp_graph_new("conv");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape_of(xd[0], xd[1], xd[2], xd[3]));
    rp_tensor k = rp_input(g, "k", RP_DTYPE_F32, shape_of(kd[0], kd[1], kd[2], kd[3]));
    rp_conv_args a = {.groups = (uint32_t)w.groups};
    for (int i = 0; i < 2; i++) {
        a.stride[i] = w.stride[i];
        a.padding[i] = w.padding[i];
        a.dilation[i] = w.dilation[i];
    }
    rp_tensor y = transposed ? rp_conv_transpose2d(x, k, rp_none(), &a, w.extra)
                             : rp_conv2d(x, k, rp_none(), &a);
    int64_t n = fits ? s.n * s.out * s.result[0] * s.result[1] : 0;
    char what[200];
    (void)snprintf(what, sizeof what,
                   "%s of [%lld,%lld,%lld,%lld] by [%lld,%lld,%lld,%lld], stride %lld,%lld, "
                   "padding %lld,%lld, "
                   "dilation %lld,%lld, groups %lld, extra %lld",
                   transposed ? "transpose" : "conv", (long long)xd[0], (long long)xd[1],
                   (long long)xd[2], (long long)xd[3], (long long)kd[0], (long long)kd[1],
                   (long long)kd[2], (long long)kd[3], (long long)w.stride[0],
                   (long long)w.stride[1], (long long)w.padding[0], (long long)w.padding[1],
                   (long long)w.dilation[0], (long long)w.dilation[1], (long long)w.groups,
                   (long long)w.extra);
    assert_true(n <= MOST);
    if (run(g, y, in, got, n) != fits) fail_msg("%s: %s", what, fits ? "refused" : "taken");
    if (fits) {
        memset(want, 0, sizeof want);
        convolve(&w, &s, transposed, in[0].data, in[1].data, want);
        same(got, want, n, what);
    }
    ir_value_done(&in[0]);
    ir_value_done(&in[1]);
    return fits;
}

static void convolutions_are_their_sums(void **state) {
    int fit = 0;
    (void)state;
    rng = 1;
    for (int i = 0; i < 600; i++) fit += convolution(false);
    assert_in_range(fit, 150, 500);
}

static void transposed_ones_scatter(void **state) {
    int fit = 0;
    (void)state;
    rng = 2;
    for (int i = 0; i < 600; i++) fit += convolution(true);
    assert_in_range(fit, 150, 500);
}

/* A window has one size both ways, and no dilation. */
static bool pool(bool mean, bool large) {
    window w = any_window();
    w.kernel[1] = w.kernel[0];
    w.stride[1] = w.stride[0];
    w.padding[1] = w.padding[0];
    w.dilation[0] = w.dilation[1] = 1;
    const int64_t most = large ? 30 : 6;
    const int64_t d[4] = {pick(1, 2), pick(1, 2), pick(1, most), pick(1, most)};
    if (large) { /* more taps than are taken one by one */
        w.kernel[0] = w.kernel[1] = pick(9, 12);
        w.stride[0] = w.stride[1] = pick(0, 2) ? pick(0, 12) : 0;
        w.padding[0] = w.padding[1] = pick(0, 2) ? 0 : pick(0, 6);
    }
    int64_t step = w.stride[0];
    if (w.stride[0] == 0) w.stride[0] = w.stride[1] = w.kernel[0];
    int64_t rows = count(&w, HIGH, d[2], false), columns = count(&w, WIDE, d[3], false);
    bool fits = rows > 0 && columns > 0 && w.padding[0] <= w.kernel[0] / 2;
    static double got[MOST], want[MOST];
    ir_value in;
    fill(&in, d);
    rp_graph *g = rp_graph_new("pool");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape_of(d[0], d[1], d[2], d[3]));
    rp_tensor y = (mean ? rp_avg_pool2d : rp_max_pool2d)(x, w.kernel[0], step, w.padding[0]);
    int64_t n = fits ? d[0] * d[1] * rows * columns : 0;
    for (int64_t at = 0; at < n; at++) {
        int64_t image = at / (rows * columns), i = at / columns % rows, j = at % columns;
        want[at] = mean ? 0 : -HUGE_VAL;
        for (int64_t t = 0; t < w.kernel[0] * w.kernel[0]; t++) {
            int64_t h = i * w.stride[0] + t / w.kernel[0] - w.padding[0];
            int64_t v = j * w.stride[0] + t % w.kernel[0] - w.padding[0];
            if (h < 0 || h >= d[2] || v < 0 || v >= d[3]) continue;
            double e = in.data[(image * d[2] + h) * d[3] + v];
            want[at] = mean ? want[at] + e / (double)(w.kernel[0] * w.kernel[0])
                            : fmax(want[at], e);
        }
    }
    if (run(g, y, &in, got, n) != fits)
        fail_msg("windows of %lld every %lld, padding %lld, over [%lld,%lld]: %s",
                 (long long)w.kernel[0], (long long)step, (long long)w.padding[0], (long long)d[2],
                 (long long)d[3], fits ? "refused" : "taken");
    same(got, want, n, mean ? "mean" : "maximum");
    ir_value_done(&in);
    return fits;
}

static void pools_join_their_windows(void **state) {
    int fit = 0;
    (void)state;
    rng = 3;
    for (int i = 0; i < 600; i++) fit += pool(i % 2, false);
    assert_in_range(fit, 150, 550);
    fit = 0;
    for (int i = 0; i < 120; i++) fit += pool(i % 2, true);
    assert_in_range(fit, 30, 110);
}

/* Of sizes that are numbers and of symbols, nodes are as few as the sum of both sides of a window. */
static void large_pools_are_short(void **state) {
    (void)state;
    for (int stride = 0; stride < 2; stride++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("pool");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape_of(1, 1, 400, 400));
        rp_tensor y = rp_avg_pool2d(x, 200, stride, 0);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        assert_in_range(ir_graph_count(trace_graph_ir(g)), 1, 1000);
        rp_graph_free(g);
    }
}

static void refused(rp_graph *g, rp_tensor y, rp_status code, const char *why) {
    rp_error err = {0};
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), code);
    if (!strstr(err.text, why)) fail_msg("%s", err.text);
    rp_graph_free(g);
}

/* Sizes whose products are no 64-bit integer, and windows that would take years to write down. */
static void huge_windows_are_refused(void **state) {
    const int64_t huge[] = {INT64_C(1) << 32, INT64_C(1) << 40, INT64_C(1) << 62, INT64_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        rp_graph *g = rp_graph_new("pool");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape_of(1, 1, 8, 8));
        refused(g, rp_avg_pool2d(x, huge[i], 1, huge[i] / 2), RP_INVALID, "pool: windows of");
        for (int k = 0; k < 4; k++) {
            rp_conv_args a = {{1, 1}, {0, 0}, {1, 1}, 1};
            *(k == 0 ? a.stride : k == 1 ? a.padding : a.dilation) = huge[i];
            g = rp_graph_new("conv");
            x = rp_input(g, "x", RP_DTYPE_F32, shape_of(1, 1, 8, 8));
            rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, shape_of(1, 1, 5, 1));
            if (k < 3)
                refused(g, rp_conv2d(x, w, rp_none(), &a), RP_INVALID, "conv: x f32[1,1,8,8]");
            else
                refused(g, rp_conv_transpose2d(x, w, rp_none(), &a, 0), RP_INVALID,
                        "conv_transpose: x f32[1,1,8,8]");
        }
    }
    for (int groups = 1; groups <= 2; groups++) {
        const int64_t n = INT64_C(1) << 32;
        const rp_conv_args a = {.groups = (uint32_t)groups};
        rp_graph *g = rp_graph_new("conv");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape_of(1, groups, n, n));
        rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, shape_of(groups, 1, n, n));
        refused(g, rp_conv2d(x, w, rp_none(), &a), RP_INVALID, "conv: x f32[");
    }
}

/* Many taps are one view where windows are side by side and cover x. */
static void large_kernels_cut_images(void **state) {
    const rp_conv_args patches = {.stride = {40, 40}};
    (void)state;
    for (int tiled = 0; tiled < 2; tiled++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("conv");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape_of(1, 3, 80, 120));
        rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, shape_of(8, 3, 40, 40));
        rp_tensor y = rp_conv2d(x, w, rp_none(), tiled ? &patches : NULL);
        if (!tiled) {
            refused(g, y, RP_UNSUPPORTED, "windows of 1600 elements of a channel; 1024 are");
            continue;
        }
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        rp_graph_free(g);
    }
}

static void upsampling_repeats(void **state) {
    (void)state;
    rng = 4;
    for (int64_t times = -1; times <= 3; times++) {
        const int64_t d[4] = {2, 1, pick(1, 3), pick(1, 4)};
        static double got[MOST], want[MOST];
        const int64_t n = times > 0 ? d[0] * d[1] * d[2] * times * d[3] * times : 0;
        ir_value in;
        fill(&in, d);
        rp_graph *g = rp_graph_new("upsample");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape_of(d[0], d[1], d[2], d[3]));
        for (int64_t i = 0; i < n; i++) {
            int64_t row = i / (d[3] * times), column = i % (d[3] * times);
            want[i] = in.data[row / times * d[3] + column / times];
        }
        const rp_tensor y = rp_upsample_nearest2d(x, times);
        const rp_shape s = rp_tensor_shape(y);
        for (uint32_t k = 0; k < 4 && times > 0; k++) {
            int64_t size = 0;
            assert_true(rp_dim_is_const(s.dim[k], &size));
            assert_int_equal(size, k < 2 ? d[k] : d[k] * times);
        }
        assert_int_equal(run(g, y, &in, got, n), times > 0);
        same(got, want, n, "upsampled");
        ir_value_done(&in);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_are_their_sums), cmocka_unit_test(transposed_ones_scatter),
        cmocka_unit_test(pools_join_their_windows),    cmocka_unit_test(large_pools_are_short),
        cmocka_unit_test(huge_windows_are_refused),    cmocka_unit_test(large_kernels_cut_images),
        cmocka_unit_test(upsampling_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
