/* Attention over dense operands: softmax(q k^T) v, with everything that may happen to the scores. */
#include <float.h>
#include <math.h>

#include "trace/record.h"

typedef struct heads {
    int64_t q, kv;
} heads;

static bool heads_of(const rp_sdpa_args *a, heads *h) {
    rp_shape q = rp_tensor_shape(a->q), k = rp_tensor_shape(a->k), v = rp_tensor_shape(a->v);
    if (!trace_ready(a->q.graph)) return false;
    rp_graph *g = a->q.graph;
    bool ok = q.rank >= 2 && q.rank == k.rank && q.rank == v.rank;
    *h = (heads){1, 1};
    if (ok && q.rank > 2 && !trace_equal(g, q.dim[q.rank - 3], k.dim[q.rank - 3]))
        ok = trace_number(g, q.dim[q.rank - 3], &h->q) &&
             trace_number(g, k.dim[q.rank - 3], &h->kv) && h->kv > 0 && h->q % h->kv == 0;
    if (ok) return true;
    (void)rp_fail(
        &a->q.graph->err, RP_INVALID,
        "scaled_dot_product_attention: wants q [...,H,T,D], k [...,KV,S,D] and v [...,KV,S,DV] "
        "with KV dividing H, not %s, %s and %s",
        trace_type_text(a->q.graph, a->q).s, trace_type_text(a->q.graph, a->k).s,
        trace_type_text(a->q.graph, a->v).s);
    return false;
}

/* Axis -3 of x as [parts, size / parts], and back. */
static rp_tensor split_heads(rp_tensor x, int64_t parts) {
    uint32_t at = rp_tensor_shape(x).rank - 3;
    int64_t n = 1;
    (void)trace_number(x.graph, rp_tensor_dim(x, -3), &n);
    rp_dim to[2] = {rp_dim_const(parts), rp_dim_const(n / parts)};
    return trace_regroup(x, at, 1, to, 2);
}

static rp_tensor join_heads(rp_tensor x, int64_t n) {
    rp_dim all = rp_dim_const(n);
    if (!trace_ready(x.graph)) return x;
    return trace_regroup(x, rp_tensor_shape(x).rank - 4, 2, &all, 1);
}

/* a b, or a b^T, where heads of a group share b by broadcasting. */
static rp_tensor grouped(rp_tensor a, rp_tensor b, bool trans_b, heads h) {
    if (h.q == h.kv) return rp_matmul(a, b, trans_b);
    const bool full = rp_tensor_shape(a).rank == RP_MAX_RANK;
    rp_dim lead[2];
    if (full) trace_pair(&a, &b, lead);
    rp_tensor y = rp_matmul(split_heads(a, h.kv), split_heads(b, h.kv), trans_b);
    y = join_heads(y, h.q);
    return full ? trace_regroup(y, 0, 1, lead, 2) : y;
}

/* What rows may see of columns by their distance; rp_none() for everything. */
static rp_tensor near(const rp_sdpa_args *a, rp_dim rows, rp_dim cols) {
    rp_graph *g = a->q.graph;
    rp_tensor seen = a->causal ? rp_tril_mask(g, rows, cols, 0) : rp_none();
    if (a->window == 0) return seen;
    rp_tensor past = rp_not(rp_tril_mask(g, rows, cols, -a->window));
    if (!a->causal) seen = rp_tril_mask(g, rows, cols, a->window - 1);
    return rp_and(seen, past);
}

/* softmax(x), and to *lse, where that is wanted, log(sum(exp(x))), along the last axis. exp(-inf - -inf) is no number: where a row may
 * be blind, which sees nothing, it is compared with the least number, and its sum of 0 with 1, which the sum of any other row reaches by
 * its greatest element. Its lse is -inf. */
static rp_tensor weights_of(rp_tensor x, bool blind, rp_tensor *lse) {
    const rp_dtype t = rp_tensor_dtype(x);
    const double least = t == RP_DTYPE_F64 ? -DBL_MAX : -(double)FLT_MAX;
    rp_tensor m = trace_greatest(x, -1);
    if (blind) m = rp_max(m, rp_const(x.graph, t, least));
    rp_tensor e = rp_exp(rp_sub(x, m)), sum = rp_sum(e, -1, true);
    if (lse) *lse = rp_squeeze(rp_add(m, rp_log(sum)), -1);
    return rp_div(e, blind ? rp_max(sum, rp_const(x.graph, t, 1)) : sum);
}

/* 0 where it is not known. */
static double scale_of(const rp_sdpa_args *a) {
    int64_t d = 0;
    if (a->scale != 0) return a->scale;
    if (trace_number(a->q.graph, rp_tensor_dim(a->q, -1), &d) && d > 0)
        return 1.0 / sqrt((double)d);
    (void)rp_fail(&a->q.graph->err, RP_INVALID,
                  "scaled_dot_product_attention: D of %s is not known; give a scale",
                  trace_type_text(a->q.graph, a->q).s);
    return 0;
}

static bool can_attend(const rp_sdpa_args *a, heads *h) {
    if (a->window < 0 && trace_ready(a->q.graph)) {
        (void)rp_fail(&a->q.graph->err, RP_INVALID,
                      "scaled_dot_product_attention: a window of %lld over %s; 0 is none",
                      (long long)a->window, trace_type_text(a->q.graph, a->k).s);
        return false;
    }
    return heads_of(a, h);
}

rp_tensor rp_sdpa_lse(const rp_sdpa_args *a, rp_tensor *lse) {
    heads h;
    if (!a) return trace_null(NULL, "scaled_dot_product_attention: args");
    if (lse) *lse = trace_bad(a->q.graph);
    if (!can_attend(a, &h)) return trace_bad(a->q.graph);
    double scale = scale_of(a);
    if (scale == 0) return trace_bad(a->q.graph);
    rp_tensor s = rp_mul_scalar(grouped(a->q, a->k, true, h), scale);
    if (a->softcap != 0) s = rp_softcap(s, a->softcap);
    if (trace_given(a->bias)) s = rp_add(s, trace_core(a->bias));
    rp_tensor never = rp_const(a->q.graph, rp_tensor_dtype(s), -HUGE_VAL);
    rp_dim rows = rp_tensor_dim(a->q, -2), cols = rp_tensor_dim(a->k, -2);
    rp_tensor seen = near(a, rows, cols);
    if (trace_given(seen)) s = rp_where(seen, s, never);
    if (trace_given(a->mask)) s = rp_where(a->mask, s, never);
    /* A row behind the last column and its window sees nothing. */
    bool all_see = a->window == 0 || (a->causal && rp_dim_compare(rows, RP_DIM_LE, cols) == RP_YES);
    bool blind = trace_given(a->mask) || trace_given(a->bias) || !all_see;
    return grouped(weights_of(s, blind, lse), a->v, false, h);
}

rp_tensor rp_scaled_dot_product_attention(const rp_sdpa_args *a) {
    return rp_sdpa_lse(a, NULL);
}
