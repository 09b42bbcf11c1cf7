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
static bool leads(rp_graph *g, rp_shape t, rp_shape x) {
    int64_t v;
    bool ok = t.rank > 0 && t.rank <= x.rank;
    for (uint32_t i = 0; ok && i + 1 < t.rank; i++) {
        rp_dim of_x = x.dim[x.rank - t.rank + i];
        ok = (rp_dim_is_const(t.dim[i], &v) && v == 1) || trace_equal(g, t.dim[i], of_x);
    }
    return ok;
}

/* A table of angles, cos or sin, as f32 that broadcasts to x: of x [T,H,D] a table [T,D/2] is one of [T,1,D/2]; behind it `more` axes of 1.
 * *half is D/2. */
static bool angles_of(rp_tensor x, rp_tensor *table, uint32_t more, int64_t *half) {
    if (!trace_ready(x.graph)) return false;
    rp_shape s = rp_tensor_shape(x), c = rp_tensor_shape(*table), to = c;
    int64_t d = 0;
    if (s.rank == 3 && c.rank == 2) to = RP_SHAPE(c.dim[0], 1, c.dim[1]);
    if (s.rank > 0 && leads(x.graph, to, s) && trace_number(x.graph, s.dim[s.rank - 1], &d) &&
        d > 0 && d % 2 == 0 && trace_number(x.graph, c.dim[c.rank - 1], half) && *half * 2 == d) {
        while (more-- > 0) to.dim[to.rank++] = rp_dim_const(1);
        *table = rp_reshape(trace_core(*table), to);
        return true;
    }
    (void)rp_fail(
        &x.graph->err, RP_INVALID,
        "rope: x must be [T,H,D] and cos, sin [T,D/2], or x [...,D] and cos, sin broadcast "
        "to [...,D/2]; not %s and %s",
        trace_type_text(x.graph, x).s, trace_type_text(x.graph, *table).s);
    return false;
}

/* The half-split layout of GPT-NeoX and Llama: pairs are (i, i + D/2). */
rp_tensor rp_rope(rp_tensor x, rp_tensor cos, rp_tensor sin) {
    int64_t half;
    if (!angles_of(x, &cos, 0, &half) || !angles_of(x, &sin, 0, &half)) return trace_bad(x.graph);
    rp_tensor c = trace_core(x);
    int last = (int)rp_tensor_shape(x).rank - 1;
    rp_tensor lo = rp_slice(c, last, 0, half), hi = rp_slice(c, last, half, 2 * half);
    return trace_like(rotate(lo, hi, cos, sin, last), x);
}

/* Neighbours in x, (2i, 2i + 1), as GPT-J has them. */
rp_tensor rp_rope_interleaved(rp_tensor x, rp_tensor cos, rp_tensor sin) {
    rp_shape s = rp_tensor_shape(x);
    const bool full = s.rank == RP_MAX_RANK;
    int64_t half;
    if (!angles_of(x, &cos, !full, &half) || !angles_of(x, &sin, !full, &half))
        return trace_bad(x.graph);
    if (full) {
        rp_tensor same = x;
        rp_dim lead[2];
        trace_pair(&same, &cos, lead);
        trace_pair(&x, &sin, lead);
        return rp_reshape(rp_rope_interleaved(x, cos, sin), s);
    }
    int axis = (int)s.rank;
    rp_dim pairs[2] = {rp_dim_const(half), rp_dim_const(2)};
    rp_tensor p = trace_regroup(trace_core(x), s.rank - 1, 1, pairs, 2);
    rp_tensor r = rotate(rp_slice(p, axis, 0, 1), rp_slice(p, axis, 1, 2), cos, sin, axis);
    return trace_like(rp_reshape(r, s), x);
}
