/* Cumulative sums against their definition (docs/ir.md), bit for bit: along memory and down columns, in float32, double and types of
 * 16 bits, of lengths on both sides of blocks and chunks. */
#include "support/check.h"

#include "base/alloc.h"
#include "gen/axis.h"
#include "ir/eval.h"

enum { CHUNK = 4096, BLOCK = 16 };

static uint64_t rng = 88172645463325252u;

/* In (-1, 1); every fifth is -0. */
static double draw(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % 5 ? (double)(rng >> 40) * 0x1p-23 - 1.0 : -0.0;
}

static double plus(rp_dtype t, double a, double b) {
    return t == RP_DTYPE_F64 ? a + b : (double)((float)a + (float)b);
}

/* n elements of a row, `step` apart. */
static void define(rp_dtype t, const double *x, int64_t n, int64_t step, double *out) {
    double chunks = -0.0, blocks = -0.0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        double lane[BLOCK], sum;
        if (i % CHUNK == 0) {
            chunks = plus(t, chunks, blocks);
            blocks = -0.0;
        }
        for (int l = 0; l < BLOCK; l++) lane[l] = i + l < n ? x[(i + l) * step] : -0.0;
        for (int d = 1; d < BLOCK; d *= 2)
            for (int l = BLOCK - 1; l >= d; l--) lane[l] = plus(t, lane[l], lane[l - d]);
        for (int l = 0; l < BLOCK && i + l < n; l++) {
            sum = plus(t, chunks, plus(t, blocks, lane[l]));
            out[(i + l) * step] = ir_round(t, sum);
        }
        blocks = plus(t, blocks, lane[BLOCK - 1]);
    }
}

static ir_dim_code number(ir_dims *dims, int64_t n) {
    ir_dim_code code;
    rp_error err = {0};
    CHECK_OK(ir_dim_code_of(dims, ir_dim_const(dims, n), &code, &err), &err);
    return code;
}

/* [outer, n, inner] */
static void check(ir_dims *dims, rp_dtype t, int64_t outer, int64_t n, int64_t inner) {
    const int64_t all = outer * n * inner, items = outer * ((inner + BLOCK - 1) / BLOCK);
    const size_t bytes = (size_t)all * rp_dtype_block_bytes(t);
    gen_axis_record r = {number(dims, n), number(dims, inner), (uint32_t)t, 0};
    double *x = base_alloc_array((size_t)all + 1, sizeof *x);
    double *want = base_alloc_array((size_t)all + 1, sizeof *want);
    char *packed = base_alloc_aligned(bytes + 1, 64), *expected = base_alloc_aligned(bytes + 1, 64);
    char *got = base_alloc_aligned(bytes + 1, 64);
    for (int64_t i = 0; i < all; i++) x[i] = ir_round(t, draw());
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j++)
            define(t, x + o * n * inner + j, n, inner, want + o * n * inner + j);
    ir_pack(t, x, all, packed);
    ir_pack(t, want, all, expected);
    got[bytes] = 'x';
    gen_cumsum((void *[]){packed, got, &r}, NULL, 0, items / 2, NULL);
    gen_cumsum((void *[]){packed, got, &r}, NULL, items / 2, items, NULL);
    if (memcmp(got, expected, bytes) != 0 || got[bytes] != 'x')
        fail_msg("%s [%lld,%lld,%lld] is not as defined", rp_dtype_name(t), (long long)outer,
                 (long long)n, (long long)inner);
    base_free(x);
    base_free(want);
    base_free(packed);
    base_free(expected);
    base_free(got);
}

static void sums_are_as_defined(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16};
    static const int64_t lengths[] = {0, 1, 15, 16, 17, 31, 33, 100, 4095, 4096, 4097, 4113, 8197};
    ir_graph *g = ir_graph_new("scan");
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            check(ir_graph_dims(g), types[t], 3, lengths[i], 1);
            check(ir_graph_dims(g), types[t], 2, lengths[i], 19);
        }
    ir_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_as_defined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
