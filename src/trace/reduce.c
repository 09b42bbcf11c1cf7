/* Reductions along one axis, and what is made of them. */
#include <math.h>

#include "trace/record.h"

static rp_tensor reduce(rp_tensor a, ir_op op, int axis, bool keep) {
    ir_attr attrs[] = {{.key = IR_ATTR_AXIS, .u.i = axis}, {.key = IR_ATTR_KEEP, .u.i = keep}};
    return trace_op(a.graph, op, &a, 1, attrs, 2);
}

rp_tensor trace_summed(rp_tensor a) {
    return ir_dtype_is_small(rp_tensor_dtype(a)) ? rp_cast(a, RP_DTYPE_I64) : a;
}

rp_tensor rp_sum(rp_tensor a, int axis, bool keep) {
    return reduce(trace_summed(a), IR_sum, axis, keep);
}

rp_tensor rp_prod(rp_tensor a, int axis, bool keep) {
    return reduce(trace_summed(a), IR_prod, axis, keep);
}

rp_tensor rp_amax(rp_tensor a, int axis, bool keep) {
    return reduce(a, IR_amax, axis, keep);
}

rp_tensor rp_amin(rp_tensor a, int axis, bool keep) {
    return reduce(a, IR_amin, axis, keep);
}

rp_tensor rp_argmax(rp_tensor a, int axis, bool keep) {
    return reduce(a, IR_argmax, axis, keep);
}

/* Exchanges largest and smallest; -x has none for the least integer, and none but 0 without a sign. */
static rp_tensor reversed(rp_tensor a) {
    return ir_dtype_is_real(rp_tensor_dtype(a)) ? rp_neg(a) : rp_not(a);
}

rp_tensor rp_argmin(rp_tensor a, int axis, bool keep) {
    return rp_argmax(reversed(a), axis, keep);
}

/* a of f32 or f64 over count, which is taken for 0 where it is less. Of f32 it is times the rounded 1 / count, which is a number where
 * count is, and has the same bits where it is not. */
static rp_tensor over(rp_tensor a, rp_dim count) {
    rp_dtype t = rp_tensor_dtype(a);
    int64_t n;
    if (t == RP_DTYPE_F32 && rp_dim_is_const(count, &n) && n > 0)
        return rp_mul_scalar(a, 1.0 / (double)(float)n);
    rp_tensor value = rp_dim_value(a.graph, count, t);
    if (!trace_at_least(a.graph, count, 0)) value = rp_max(value, rp_const(a.graph, t, 0));
    return t == RP_DTYPE_F32 ? rp_mul(a, rp_recip(value)) : rp_div(a, value);
}

rp_tensor rp_mean(rp_tensor a, int axis, bool keep) {
    uint32_t at;
    if (!trace_axis("mean", a, axis, false, &at)) return trace_bad(a.graph);
    rp_dim size = rp_tensor_dim(a, axis);
    if (!trace_wants_real("mean", a)) return trace_bad(a.graph);
    return trace_like(over(rp_sum(trace_core(a), axis, keep), size), a);
}

rp_tensor rp_masked_mean(rp_tensor a, rp_tensor mask, int axis, bool keep) {
    uint32_t at;
    if (!trace_axis("masked_mean", a, axis, false, &at)) return trace_bad(a.graph);
    if (!trace_wants_real("masked_mean", a)) return trace_bad(a.graph);
    rp_tensor c = trace_core(a), m = rp_broadcast(mask, rp_tensor_shape(a));
    rp_tensor none = rp_const(a.graph, rp_tensor_dtype(c), 0);
    rp_tensor n = rp_sum(rp_cast(m, rp_tensor_dtype(c)), axis, keep);
    return trace_like(rp_div(rp_sum(rp_where(m, c, none), axis, keep), n), a);
}

rp_tensor rp_var(rp_tensor a, int axis, bool keep, int64_t correction) {
    uint32_t at;
    if (!trace_axis("var", a, axis, false, &at)) return trace_bad(a.graph);
    rp_dim size = rp_tensor_dim(a, axis);
    if (!trace_wants_real("var", a)) return trace_bad(a.graph);
    rp_tensor x = trace_core(a), d = rp_sub(x, rp_mean(x, axis, true));
    rp_tensor sum = rp_sum(rp_mul(d, d), axis, keep);
    return trace_like(over(sum, correction ? rp_dim_sub(size, correction) : size), a);
}

void rp_var_mean(rp_tensor a, int axis, bool keep, int64_t correction, rp_tensor *var,
                 rp_tensor *mean) {
    if (var) *var = rp_var(a, axis, keep, correction);
    if (mean) *mean = rp_mean(a, axis, keep);
}

rp_tensor trace_greatest(rp_tensor x, int axis) {
    uint32_t at;
    if (!trace_axis("amax", x, axis, false, &at)) return trace_bad(x.graph);
    if (!trace_at_least(x.graph, rp_tensor_dim(x, axis), 1)) x = rp_pad(x, axis, 0, 1, -HUGE_VAL);
    return rp_amax(x, axis, true);
}

/* The greatest is taken out; one that is infinite or NaN decides the result alone. */
rp_tensor rp_logsumexp(rp_tensor a, int axis, bool keep) {
    if (!trace_wants_real("logsumexp", a)) return trace_bad(a.graph);
    rp_tensor x = trace_core(a), m = trace_greatest(x, axis);
    rp_dtype t = rp_tensor_dtype(x);
    rp_tensor finite = rp_lt(rp_abs(m), rp_const(a.graph, t, HUGE_VAL));
    rp_tensor from = rp_where(finite, m, rp_const(a.graph, t, 0));
    rp_tensor sum = rp_sum(rp_exp(rp_sub(x, from)), axis, true);
    rp_tensor y = rp_add(rp_log(sum), from);
    return trace_like(keep ? y : rp_squeeze(y, axis), a);
}

static bool wants_bool(const char *op, rp_tensor a) {
    if (!trace_ready(a.graph)) return false;
    if (rp_tensor_dtype(a) == RP_DTYPE_BOOL) return true;
    (void)rp_fail(&a.graph->err, RP_INVALID, "%s: wants bool, not %s; compare it", op,
                  trace_type_text(a.graph, a).s);
    return false;
}

/* How many along axis are true. */
static rp_tensor count(rp_tensor a, int axis, bool keep) {
    return rp_sum(rp_cast(a, RP_DTYPE_I32), axis, keep);
}

rp_tensor rp_any(rp_tensor a, int axis, bool keep) {
    if (!wants_bool("any", a)) return trace_bad(a.graph);
    return rp_gt(count(a, axis, keep), rp_const(a.graph, RP_DTYPE_I32, 0));
}

rp_tensor rp_all(rp_tensor a, int axis, bool keep) {
    if (!wants_bool("all", a)) return trace_bad(a.graph);
    return rp_eq(count(rp_not(a), axis, keep), rp_const(a.graph, RP_DTYPE_I32, 0));
}
