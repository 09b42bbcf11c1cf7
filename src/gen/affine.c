/* Affine forms by probing: the value at 0 and at unit steps gives the coefficients, and two more
 * points tell a form that only looks affine. */
#include "gen/affine.h"

#include "base/alloc.h"

static bool is_affine(const ir_dims *t, ir_dim d, const gen_affine *a, int64_t *values,
                      uint32_t n) {
    static const int64_t probes[] = {1, 2, 3, 7, 31, 33, 1000003};
    for (size_t p = 0; p < sizeof probes / sizeof *probes; p++) {
        int64_t want = a->constant;
        for (uint32_t i = 0; i < n; i++) values[i] = probes[p] + i;
        for (uint32_t i = 0; i < a->n_terms; i++) want += a->coef[i] * values[a->symbol[i]];
        if (ir_dim_eval(t, d, values) != want) return false;
    }
    return true;
}

rp_status gen_affine_of(const ir_dims *t, ir_dim d, gen_affine *out, rp_error *err) {
    rp_status st = RP_OK;
    gen_affine a = {0};
    uint32_t n = ir_dims_symbol_count(t);
    int64_t *values = base_alloc_array(n + 1u, sizeof *values);
    if (!values) return rp_fail(err, RP_NOMEM, "size of %u symbols", n);
    a.constant = ir_dim_eval(t, d, values);
    for (uint32_t i = 0; i < n && a.n_terms <= GEN_AFFINE_TERMS; i++) {
        if (!ir_dim_uses(t, d, i)) continue;
        if (a.n_terms == GEN_AFFINE_TERMS) {
            a.n_terms++;
            break;
        }
        values[i] = 1;
        a.coef[a.n_terms] = ir_dim_eval(t, d, values) - a.constant;
        a.symbol[a.n_terms++] = i;
        values[i] = 0;
    }
    if (a.n_terms > GEN_AFFINE_TERMS || !is_affine(t, d, &a, values, n))
        st = rp_fail(err, RP_UNSUPPORTED,
                     "a built-in kernel over a size that is not a sum of at most %d symbols",
                     GEN_AFFINE_TERMS);
    else
        *out = a;
    base_free(values);
    return st;
}
