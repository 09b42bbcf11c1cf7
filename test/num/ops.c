/* Op x dtype x layout against the interpreter, in units of the last place of the result's type: 0 for what one
 * rounding defines, a few for transcendental functions. Special values (zeros of both signs, infinities, NaN,
 * subnormals, ends of the ranges) meet each other in every op. Guard bytes lie around outputs and states. */
#include "support/both.h"
#include "support/op_grid.h"

#include <math.h>

static double ulp_of(rp_dtype t, double v) {
    int exp, bits = t == RP_DTYPE_F64 ? 53 : t == RP_DTYPE_F32 ? 24 : t == RP_DTYPE_F16 ? 11 : 8;
    int least = t == RP_DTYPE_F64   ? -1074
                : t == RP_DTYPE_F16 ? -24
                : t == RP_DTYPE_F32 ? -149
                                    : -133;
    if (t != RP_DTYPE_F64 && !rp_dtype_is_float(t)) return 0;
    (void)frexp(v, &exp);
    return ldexp(1, exp - bits > least ? exp - bits : least);
}

static bool is_near(rp_dtype t, double x, double want, double ulps, double slack) {
    if (isnan(want) || isnan(x)) return isnan(want) && isnan(x);
    if (x == want) return signbit(x) == signbit(want);
    if (isinf(want) && t != RP_DTYPE_F64)
        want = copysign(ldexp(1, t == RP_DTYPE_F16 ? 16 : 128), want);
    return fabs(x - want) <= ulps * ulp_of(t, want) + slack;
}

static void compare(const op_grid *q, const ir_graph *g, const plan_run *r, const ir_value *want) {
    for (uint32_t i = 0; i < q->n; i++) {
        rp_dtype t = ir_node_at(g, ir_output_at(g, i))->dtype;
        double *x = base_alloc_array((size_t)want[i].n + 1, sizeof *x);
        assert_int_equal(r->out_size[i], (size_t)want[i].n * rp_dtype_block_bytes(t));
        ir_unpack(t, r->out[i], want[i].n, x);
        for (int64_t k = 0; t == RP_DTYPE_I64 && k < want[i].n; k++) {
            int64_t got = ((const int64_t *)r->out[i])[k], is = ir_value_int(&want[i], k);
            if (got != is)
                fail_msg("%%%s of %s, element %lld: %lld, want %lld\n%s", q->out[i],
                         ir_type_of(g, ir_output_at(g, i)).s, (long long)k, (long long)got,
                         (long long)is, q->text.data);
        }
        for (int64_t k = 0; t != RP_DTYPE_I64 && k < want[i].n; k++)
            if (!is_near(t, x[k], want[i].data[k], q->ulps[i], q->slack[i]))
                fail_msg("%%%s of %s, element %lld of %lld: %.9g, want %.9g\n%s", q->out[i],
                         ir_type_of(g, ir_output_at(g, i)).s, (long long)k, (long long)want[i].n,
                         x[k], want[i].data[k], q->text.data);
        base_free(x);
    }
}

static void check(const op_grid *q, void *user) {
    rp_error err = {0};
    both b = both_of(q->text.data, 11);
    (void)user;
    if (q->special) op_grid_special(b.g, &b.l);
    if (both_run(&b, gen_isa_best(), &err) != RP_OK)
        fail_msg("%s: %s\n%s", b.at, err.text, q->text.data);
    compare(q, b.g, &b.code, b.want);
    const char *d = both_differ(&b);
    if (d) fail_msg("compiled and eager differ: %s\n%s", d, q->text.data);
    both_done(&b);
}

static void elementwise_grid(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    op_grid_elementwise(check, NULL);
}

static void reduction_grid(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    op_grid_reductions(check, NULL);
}

static void product_grid(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    op_grid_products(check, NULL);
}

static void scan_grid(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    op_grid_scans(check, NULL);
}

static void scatter_grid(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    op_grid_scatters(check, NULL);
}

static void grid_of_fours(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    op_grid_fours(check, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_grid), cmocka_unit_test(reduction_grid),
        cmocka_unit_test(scan_grid),        cmocka_unit_test(scatter_grid),
        cmocka_unit_test(product_grid),     cmocka_unit_test(grid_of_fours),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
