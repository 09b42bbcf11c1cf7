/* Sums of many: what is added, not how often, decides how near they come; and they have the same bits compiled and op by op. */
#include "support/check.h"
#include "support/elsewhere.h"

#include <math.h>

#include "reprise/reprise.h"

enum { MANY = 1 << 24 };

static float x[MANY], one[9], other[9];

static rp_compiled *compile(const char *text, const char *setting) {
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

static void run(const char *text, const char *setting, int64_t rows, float *y) {
    rp_error err = {0};
    rp_compiled *c = compile(text, setting);
    rp_buffer in = {RP_DTYPE_F32, 2, {rows, MANY / rows}, x}, out = {RP_DTYPE_F32, 1, {rows}, y};
    CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
    rp_compiled_free(c);
}

/* The mean of many equal values is that value; sums in single precision alone drifted by a percent. */
static void means_of_many_are_near(void **state) {
    static const char mean[] = "graph @mean(%x: f32[R,K]) where R in [1,8], K in [1,16777216] {\n"
                               "  %0 = sum %x {axis=1}\n  %1 = const 0x1p-24\n  %2 = mul %0, %1\n"
                               "  ret %2\n}\n";
    (void)state;
    for (int i = 0; i < MANY; i++) x[i] = 0.1f;
    run(mean, "level=0", 1, one);
    run(mean, "level=2", 1, other);
    if (!(fabs((double)one[0] - 0.1) < 1e-6)) fail_msg("the mean is %.9g", (double)one[0]);
    assert_memory_equal(one, other, sizeof *one);
}

/* Rows of every length around chunks: also of a function of what is summed, which compiled code computes in the loop. */
static void long_rows_are_equal_everywhere(void **state) {
    static const int64_t rows[] = {1, 2, 4, 8};
    static const char squares[] =
        "graph @squares(%x: f32[R,K]) where R in [1,8], K in [1,16777216] {\n"
        "  %0 = mul %x, %x\n  %1 = sum %0 {axis=1}\n  ret %1\n}\n";
    (void)state;
    for (int i = 0; i < MANY; i++) x[i] = (float)(i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    for (size_t r = 0; r < 4; r++) {
        double want = 0;
        for (int64_t i = 0; i < MANY / rows[r]; i++) want += (double)x[i] * (double)x[i];
        run(squares, "level=0", rows[r], one);
        run(squares, "level=2", rows[r], other);
        assert_memory_equal(one, other, (size_t)rows[r] * sizeof *one);
        if (!(fabs((double)one[0] / want - 1) < 1e-6))
            fail_msg("%.9g, not %.9g", (double)one[0], want);
    }
}

/* Columns of a few rows, and of one and more chunks, whole or not, of a size that is known or not; beside and below other dims. */
static void columns_are_equal_everywhere(void **state) {
    enum { W = 24 };
    static const int64_t rows[] = {31, 127, 300, 1000, 4095, 4096, 4097, 8192, 9001, 12289};
    static float a[2 * W], b[2 * W];
    char text[400];
    (void)state;
    for (int i = 0; i < 2 * 12289 * W; i++)
        x[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.25f;
    for (int k = 0; k < 20; k++) {
        const int most = rows[k / 2] < 4000 ? 4000 : 20000;
        rp_buffer in = {RP_DTYPE_F32, 3, {2, rows[k / 2], W}, x};
        rp_buffer out[2] = {{RP_DTYPE_F32, 2, {2, W}, a}, {RP_DTYPE_F32, 2, {2, W}, b}};
        char size[16] = "R", range[32] = "";
        rp_error err = {0};
        if (k % 2)
            (void)snprintf(size, sizeof size, "%d", (int)rows[k / 2]);
        else
            (void)snprintf(range, sizeof range, " where R in [1,%d]", most);
        (void)snprintf(text, sizeof text,
                       "graph @columns(%%x: f32[2,%s,%d])%s {\n  %%0 = mul %%x, %%x\n"
                       "  %%1 = sum %%0 {axis=1}\n  %%2 = neg %%1\n  ret %%2\n}\n",
                       size, W, range);
        for (int level = 0; level < 2; level++) {
            rp_compiled *c = compile(text, level ? "level=2" : "level=0");
            CHECK_OK(rp_compiled_run(c, &in, 1, &out[level], 1, &err), &err);
            rp_compiled_free(c);
        }
        assert_memory_equal(a, b, sizeof a);
        for (int j = 0; j < 2 * W; j++) {
            double want = 0;
            for (int64_t i = 0; i < rows[k / 2]; i++)
                want -= pow((double)x[(j / W * rows[k / 2] + i) * W + j % W], 2);
            if (!(fabs((double)a[j] / want - 1) < 1e-6))
                fail_msg("%.9g, not %.9g", (double)a[j], want);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_of_many_are_near),
        cmocka_unit_test(long_rows_are_equal_everywhere),
        cmocka_unit_test(columns_are_equal_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
