/* Composites of the tensor API: they record the ops they are made of. */
#include "trace/record.h"

rp_tensor rp_rms_norm(rp_tensor x, rp_tensor weight, double eps) {
    rp_tensor ms = rp_mean(rp_mul(x, x), -1, true);
    return rp_mul(rp_mul(x, rp_rsqrt(rp_add_scalar(ms, eps))), weight);
}

rp_tensor rp_layer_norm(rp_tensor x, rp_tensor weight, rp_tensor bias, double eps) {
    rp_tensor d = rp_sub(x, rp_mean(x, -1, true));
    rp_tensor var = rp_mean(rp_mul(d, d), -1, true);
    return rp_add(rp_mul(rp_mul(d, rp_rsqrt(rp_add_scalar(var, eps))), weight), bias);
}

rp_tensor rp_softmax(rp_tensor x, int axis) {
    rp_tensor e = rp_exp(rp_sub(x, rp_amax(x, axis, true)));
    return rp_div(e, rp_sum(e, axis, true));
}

rp_tensor rp_log_softmax(rp_tensor x, int axis) {
    rp_tensor d = rp_sub(x, rp_amax(x, axis, true));
    return rp_sub(d, rp_log(rp_sum(rp_exp(d), axis, true)));
}

/* Places in the flat array are i32. */
static bool classes_of(rp_tensor logits, rp_tensor target, int64_t *out) {
    rp_shape s = rp_tensor_shape(logits);
    int64_t least, most;
    if (!trace_ready(logits.graph)) return false;
    if (s.rank == 2 && rp_tensor_shape(target).rank == 1 && rp_dim_is_const(s.dim[1], out)) {
        rp_dim_bounds(rp_dim_mul(s.dim[0], s.dim[1]), &least, &most);
        if (*out > 0 && most <= INT32_MAX) return true;
    }
    (void)rp_fail(&logits.graph->err, RP_INVALID,
                  "cross_entropy: wants logits [N,C] with C known and N*C below 2^31, and i32[N], "
                  "not %s and %s",
                  ir_type_of(logits.graph->ir, logits.ref).s,
                  ir_type_of(logits.graph->ir, target.ref).s);
    return false;
}

rp_tensor rp_cross_entropy(rp_tensor logits, rp_tensor target) {
    int64_t classes = 0;
    rp_graph *g = logits.graph;
    if (!classes_of(logits, target, &classes)) return trace_bad(g);
    rp_dim rows = rp_tensor_dim(logits, 0);
    rp_tensor last = rp_const(g, RP_DTYPE_I32, (double)(classes - 1));
    rp_tensor class = rp_max(rp_min(target, last), rp_const(g, RP_DTYPE_I32, 0));
    rp_tensor row = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(rows), 0);
    rp_tensor at = rp_add(rp_mul_scalar(row, (double)classes), class);
    rp_tensor flat = rp_reshape(rp_log_softmax(logits, 1), RP_SHAPE(rp_dim_mul(rows, classes)));
    return rp_neg(rp_gather(flat, at));
}

rp_tensor rp_silu(rp_tensor x) {
    return rp_mul(x, rp_sigmoid(x));
}

rp_tensor rp_gelu_erf(rp_tensor x) {
    rp_tensor e = rp_erf(rp_mul_scalar(x, 0.70710678118654752440));
    return rp_mul(rp_mul_scalar(x, 0.5), rp_add_scalar(e, 1.0));
}

rp_tensor rp_gelu_tanh(rp_tensor x) {
    rp_tensor x3 = rp_mul(rp_mul(x, x), x);
    rp_tensor t =
        rp_tanh(rp_mul_scalar(rp_add(x, rp_mul_scalar(x3, 0.044715)), 0.79788456080286535588));
    return rp_mul(rp_mul_scalar(x, 0.5), rp_add_scalar(t, 1.0));
}

/* Su et al., RoFormer: pairs (a, b) of a head are turned by the angle of their position. */
static rp_tensor rotate(rp_tensor a, rp_tensor b, rp_tensor c, rp_tensor s, int axis) {
    rp_tensor lo = rp_sub(rp_mul(a, c), rp_mul(b, s));
    rp_tensor hi = rp_add(rp_mul(b, c), rp_mul(a, s));
    return rp_concat((rp_tensor[]){lo, hi}, 2, axis);
}

/* x [T,H,D] and cos [T,D/2]: *half is D/2. */
static bool rope_half(rp_tensor x, rp_tensor cos, int64_t *half) {
    rp_shape s = rp_tensor_shape(x), c = rp_tensor_shape(cos);
    int64_t d = 0;
    if (!trace_ready(x.graph)) return false;
    if (s.rank == 3 && c.rank == 2 && rp_dim_is_const(s.dim[2], &d) && d > 0 && d % 2 == 0 &&
        rp_dim_is_const(c.dim[1], half) && *half * 2 == d)
        return true;
    (void)rp_fail(&x.graph->err, RP_INVALID,
                  "rope: x must be [T,H,D] and cos, sin [T,D/2], not %s and %s",
                  ir_type_of(x.graph->ir, x.ref).s, ir_type_of(x.graph->ir, cos.ref).s);
    return false;
}

/* The half-split layout of GPT-NeoX and Llama: pairs are (i, i + D/2). */
rp_tensor rp_rope(rp_tensor x, rp_tensor cos, rp_tensor sin) {
    int64_t half;
    if (!rope_half(x, cos, &half)) return trace_bad(x.graph);
    rp_shape angles = RP_SHAPE(rp_tensor_dim(cos, 0), 1, half);
    return rotate(rp_slice(x, 2, 0, half), rp_slice(x, 2, half, 2 * half), rp_reshape(cos, angles),
                  rp_reshape(sin, angles), 2);
}

rp_tensor rp_rope_interleaved(rp_tensor x, rp_tensor cos, rp_tensor sin) {
    int64_t half;
    rp_shape s = rp_tensor_shape(x);
    if (!rope_half(x, cos, &half)) return trace_bad(x.graph);
    rp_shape angles = RP_SHAPE(rp_tensor_dim(cos, 0), 1, half, 1);
    rp_tensor p = rp_reshape(x, RP_SHAPE(s.dim[0], s.dim[1], half, 2));
    rp_tensor r = rotate(rp_slice(p, 3, 0, 1), rp_slice(p, 3, 1, 2), rp_reshape(cos, angles),
                         rp_reshape(sin, angles), 3);
    return rp_reshape(r, s);
}
