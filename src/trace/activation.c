/* Activations, and functions of one element that are made of others. */
#include <math.h>

#include "trace/record.h"

static rp_tensor scalar(rp_tensor like, double v) {
    return rp_const(like.graph, rp_tensor_dtype(like), v);
}

rp_tensor rp_isnan(rp_tensor a) {
    return rp_ne(a, a);
}

rp_tensor rp_clamp(rp_tensor a, double lo, double hi) {
    return rp_min(rp_max(a, scalar(a, lo)), scalar(a, hi));
}

/* Kahan: the rounding of 1 + a is undone by the quotient of a and what was added. */
rp_tensor rp_log1p(rp_tensor a) {
    rp_tensor x = trace_core(a), one = scalar(x, 1), u = rp_add(x, one), d = rp_sub(u, one);
    rp_tensor y = rp_mul(rp_log(u), rp_div(x, d));
    y = rp_where(rp_eq(d, scalar(x, HUGE_VAL)), u, y);
    return trace_like(rp_where(rp_eq(u, one), x, y), a);
}

/* Kahan, likewise: log(u) is what exp was really taken of. */
rp_tensor rp_expm1(rp_tensor a) {
    rp_tensor x = trace_core(a), one = scalar(x, 1), u = rp_exp(x), d = rp_sub(u, one);
    rp_tensor y = rp_mul(d, rp_div(x, rp_log(u)));
    rp_tensor far = rp_gt(rp_abs(x), one); /* there u - 1 loses nothing */
    return trace_like(rp_where(rp_eq(u, one), x, rp_where(far, d, y)), a);
}

rp_tensor rp_relu(rp_tensor x) {
    return rp_max(x, scalar(x, 0));
}

rp_tensor rp_leaky_relu(rp_tensor x, double slope) {
    if (!trace_wants_real("leaky_relu", x)) return trace_bad(x.graph);
    return rp_where(rp_gt(x, scalar(x, 0)), x, rp_mul_scalar(x, slope));
}

rp_tensor rp_elu(rp_tensor x, double alpha) {
    if (!trace_wants_real("elu", x)) return trace_bad(x.graph);
    return rp_where(rp_gt(x, scalar(x, 0)), x, rp_mul_scalar(rp_expm1(x), alpha));
}

rp_tensor rp_silu(rp_tensor x) {
    rp_tensor c = trace_core(x);
    return trace_like(rp_mul(c, rp_sigmoid(c)), x);
}

rp_tensor rp_gelu_erf(rp_tensor x) {
    if (!trace_wants_real("gelu_erf", x)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x), e = rp_erf(rp_mul_scalar(c, 0.70710678118654752440));
    return trace_like(rp_mul(rp_mul_scalar(c, 0.5), rp_add_scalar(e, 1.0)), x);
}

rp_tensor rp_gelu_tanh(rp_tensor x) {
    if (!trace_wants_real("gelu_tanh", x)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x), cube = rp_mul(rp_mul(c, c), c);
    rp_tensor inner = rp_add(c, rp_mul_scalar(cube, 0.044715));
    rp_tensor t = rp_tanh(rp_mul_scalar(inner, 0.79788456080286535588));
    return trace_like(rp_mul(rp_mul_scalar(c, 0.5), rp_add_scalar(t, 1.0)), x);
}

/* f of the first half of the last axis, times the second. */
static rp_tensor gated(const char *name, rp_tensor x, rp_tensor (*f)(rp_tensor)) {
    uint32_t at;
    if (!trace_wants_real(name, x) || !trace_axis(name, x, -1, false, &at))
        return trace_bad(x.graph);
    const rp_dim size = rp_tensor_dim(x, -1), half = rp_dim_floordiv(size, 2);
    if (!trace_equal(x.graph, size, rp_dim_mul(half, 2))) {
        if (trace_ready(x.graph))
            (void)rp_fail(&x.graph->err, RP_INVALID, "%s: wants a last axis of two halves, not %s",
                          name, trace_type_text(x.graph, x).s);
        return trace_bad(x.graph);
    }
    rp_tensor c = trace_core(x);
    return trace_like(rp_mul(f(rp_slice(c, -1, 0, half)), rp_slice(c, -1, half, size)), x);
}

rp_tensor rp_swiglu(rp_tensor x) {
    return gated("swiglu", x, rp_silu);
}

rp_tensor rp_geglu(rp_tensor x) {
    return gated("geglu", x, rp_gelu_erf);
}

rp_tensor rp_quick_gelu(rp_tensor x) {
    if (!trace_wants_real("quick_gelu", x)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x);
    return trace_like(rp_mul(c, rp_sigmoid(rp_mul_scalar(c, 1.702))), x);
}

/* Neither overflows nor loses what is small. */
rp_tensor rp_softplus(rp_tensor x) {
    rp_tensor c = trace_core(x);
    return trace_like(rp_add(rp_relu(c), rp_log1p(rp_exp(rp_neg(rp_abs(c))))), x);
}

rp_tensor rp_softcap(rp_tensor x, double cap) {
    if (!trace_wants_real("softcap", x)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x);
    return trace_like(rp_mul_scalar(rp_tanh(rp_mul_scalar(c, 1.0 / cap)), cap), x);
}
