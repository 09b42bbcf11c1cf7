/* Rotary embeddings.
 *
 * Su et al., RoFormer: pairs (a, b) of a head are turned by the angle of their position. */
#include "trace/record.h"

static rp_tensor rotate(rp_tensor a, rp_tensor b, rp_tensor c, rp_tensor s, int axis) {
    rp_tensor lo = rp_sub(rp_mul(a, c), rp_mul(b, s));
    rp_tensor hi = rp_add(rp_mul(b, c), rp_mul(a, s));
    return rp_concat((rp_tensor[]){lo, hi}, 2, axis);
}

/* Whether t broadcasts to the leading axes of x. */
static bool leads(rp_shape t, rp_shape x) {
    int64_t v;
    bool ok = t.rank > 0 && t.rank <= x.rank;
    for (uint32_t i = 0; ok && i + 1 < t.rank; i++) {
        rp_dim of_x = x.dim[x.rank - t.rank + i];
        ok = rp_dim_compare(t.dim[i], RP_DIM_EQ, of_x) == RP_YES ||
             (rp_dim_is_const(t.dim[i], &v) && v == 1);
    }
    return ok;
}

/* The angles of x as a table that broadcasts to it: cos of x [T,H,D] is [T,D/2]. *half is D/2. */
static bool angles_of(rp_tensor x, rp_tensor cos, rp_shape *angles, int64_t *half) {
    rp_shape s = rp_tensor_shape(x), c = rp_tensor_shape(cos);
    int64_t d = 0;
    if (!trace_ready(x.graph)) return false;
    *angles = c;
    if (s.rank == 3 && c.rank == 2) *angles = RP_SHAPE(c.dim[0], 1, c.dim[1]);
    if (s.rank > 0 && leads(*angles, s) && rp_dim_is_const(s.dim[s.rank - 1], &d) && d > 0 &&
        d % 2 == 0 && rp_dim_is_const(c.dim[c.rank - 1], half) && *half * 2 == d)
        return true;
    (void)rp_fail(
        &x.graph->err, RP_INVALID,
        "rope: x must be [T,H,D] and cos, sin [T,D/2], or x [...,D] and cos, sin broadcast "
        "to [...,D/2]; not %s and %s",
        ir_type_of(x.graph->ir, x.ref).s, ir_type_of(x.graph->ir, cos.ref).s);
    return false;
}

/* The half-split layout of GPT-NeoX and Llama: pairs are (i, i + D/2). */
rp_tensor rp_rope(rp_tensor x, rp_tensor cos, rp_tensor sin) {
    rp_shape angles;
    int64_t half;
    if (!angles_of(x, cos, &angles, &half)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x);
    int last = (int)rp_tensor_shape(x).rank - 1;
    cos = rp_reshape(trace_core(cos), angles);
    sin = rp_reshape(trace_core(sin), angles);
    rp_tensor lo = rp_slice(c, last, 0, half), hi = rp_slice(c, last, half, 2 * half);
    return trace_like(rotate(lo, hi, cos, sin, last), x);
}

rp_tensor rp_rope_interleaved(rp_tensor x, rp_tensor cos, rp_tensor sin) {
    rp_shape angles, s = rp_tensor_shape(x);
    int64_t half;
    if (!angles_of(x, cos, &angles, &half)) return trace_bad(x.graph);
    int axis = (int)s.rank;
    rp_dim pairs[2] = {rp_dim_const(half), rp_dim_const(2)};
    rp_tensor p = trace_regroup(trace_core(x), s.rank - 1, 1, pairs, 2);
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    angles.dim[angles.rank++] = rp_dim_const(1);
    cos = rp_reshape(trace_core(cos), angles);
    sin = rp_reshape(trace_core(sin), angles);
    rp_tensor r = rotate(rp_slice(p, axis, 0, 1), rp_slice(p, axis, 1, 2), cos, sin, axis);
    return trace_like(rp_reshape(r, s), x);
}
