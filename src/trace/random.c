/* Random numbers: bits of Philox at the place of each element, made into floats. */
#include "trace/record.h"

static rp_tensor whole(rp_graph *g, double v) {
    return rp_const(g, RP_DTYPE_I64, v);
}

/* 64 bits for each element of a shape. */
static rp_tensor bits_of(rp_tensor key, rp_tensor offset, rp_shape shape) {
    rp_graph *g = key.graph;
    rp_tensor at = rp_iota(g, RP_DTYPE_I64, RP_SHAPE(trace_extent(&shape, 0, shape.rank)), 0);
    return rp_philox(rp_reshape(rp_add(at, offset), shape), key);
}

/* Bits [from, from + 24) as f32 in [0, 1). */
static rp_tensor fraction(rp_tensor bits, double from) {
    rp_graph *g = bits.graph;
    rp_tensor low = rp_and(rp_shift_right(bits, whole(g, from)), whole(g, 0xffffff));
    return rp_mul_scalar(rp_cast(low, RP_DTYPE_F32), 0x1p-24);
}

rp_tensor rp_rand(rp_tensor key, rp_tensor offset, rp_shape shape) {
    if (!trace_ready(key.graph)) return trace_bad(key.graph);
    return fraction(bits_of(key, offset, shape), 40);
}

/* Of two fractions, the first taken from 1, as its logarithm is taken. */
rp_tensor rp_randn(rp_tensor key, rp_tensor offset, rp_shape shape) {
    rp_graph *g = key.graph;
    if (!trace_ready(g)) return trace_bad(g);
    rp_tensor bits = bits_of(key, offset, shape);
    rp_tensor u = rp_sub(rp_const(g, RP_DTYPE_F32, 1), fraction(bits, 40));
    rp_tensor angle = rp_mul_scalar(fraction(bits, 16), 6.283185307179586);
    return rp_mul(rp_sqrt(rp_mul_scalar(rp_log(u), -2)), rp_cos(angle));
}

rp_tensor rp_dropout(rp_tensor x, double p, rp_tensor key, rp_tensor offset) {
    rp_graph *g = x.graph;
    if (!trace_ready(g)) return trace_bad(g);
    if (!(p >= 0 && p <= 1)) {
        (void)rp_fail(&g->err, RP_INVALID, "dropout: p = %g is outside of [0, 1]", p);
        return trace_bad(g);
    }
    rp_tensor c = trace_core(x), none = rp_const(g, rp_tensor_dtype(c), 0);
    rp_tensor u = rp_rand(key, offset, rp_tensor_shape(x));
    rp_tensor kept = rp_ge(u, rp_const(g, RP_DTYPE_F32, p));
    return trace_like(rp_where(kept, rp_mul_scalar(c, p < 1 ? 1 / (1 - p) : 0), none), x);
}

/* The largest of the logits with Gumbel noise: -log(-log(u)), of u above 0. Gumbel 1954. */
rp_tensor rp_categorical(rp_tensor logits, rp_tensor key, rp_tensor offset) {
    rp_graph *g = logits.graph;
    uint32_t at;
    if (!trace_axis("categorical", logits, -1, false, &at)) return trace_bad(g);
    rp_tensor u = rp_rand(key, offset, rp_tensor_shape(logits));
    rp_tensor e = rp_neg(rp_log(rp_add_scalar(u, 0x1p-25)));
    rp_tensor c = rp_cast(trace_core(logits), RP_DTYPE_F32);
    return rp_argmax(rp_sub(c, rp_log(e)), -1, false);
}
