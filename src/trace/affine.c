/* Numbers of 8 bits and the scales that they count in: which scales, there and back, and products.
 *
 * x is near (q - zero) * scale; scales lie as x does, with a size of 1 along each axis that they are shared along. */
#include "trace/record.h"

/* What q can be. */
typedef struct range {
    double least, most;
    bool whole; /* numbers: rounded, and a zero may be one of them */
} range;

static bool range_of(const char *op, rp_tensor x, rp_dtype t, range *out) {
    switch (t) {
    case RP_DTYPE_I8: *out = (range){-128, 127, true}; return true;
    case RP_DTYPE_U8: *out = (range){0, 255, true}; return true;
    case RP_DTYPE_F8E4M3FN: *out = (range){-448, 448, false}; return true;
    case RP_DTYPE_F8E5M2: *out = (range){-57344, 57344, false}; return true;
    default: break;
    }
    if (trace_ready(x.graph))
        (void)rp_fail(&x.graph->err, RP_INVALID,
                      "%s: %s as %s; it gives i8, u8, f8e4m3fn and f8e5m2", op,
                      trace_type_text(x.graph, x).s, rp_dtype_name(t));
    return false;
}

static bool is_real(const char *op, rp_tensor x) {
    if (!trace_ready(x.graph)) return false;
    if (ir_dtype_is_real(rp_tensor_dtype(x))) return true;
    (void)rp_fail(&x.graph->err, RP_INVALID, "%s: wants floats, not %s", op,
                  trace_type_text(x.graph, x).s);
    return false;
}

/* The least or the greatest of x along the axes that share a scale. */
static rp_tensor extreme(rp_tensor x, const rp_qparams_args *a, bool most) {
    const uint32_t rank = rp_tensor_shape(x).rank;
    uint32_t own = rank;
    if (a->per == RP_PER_AXIS && !trace_axis("choose_qparams", x, a->axis, false, &own))
        return trace_bad(x.graph);
    for (uint32_t i = 0; i < rank; i++) {
        if (i == own || (a->per == RP_PER_ROW && i + 1 < rank)) continue;
        x = most ? rp_amax(x, (int)i, true) : rp_amin(x, (int)i, true);
    }
    return x;
}

/* torch's observers: both ends count 0 in, and a scale is at least 2^-23. */
void(rp_choose_qparams)(rp_tensor x, const rp_qparams_args *a, rp_tensor *scale, rp_tensor *zero) {
    range r;
    rp_graph *g = x.graph;
    if (scale) *scale = trace_bad(g);
    if (zero) *zero = trace_bad(g);
    if (!a) {
        (void)trace_null(g, "choose_qparams: args");
        return;
    }
    if (!is_real("choose_qparams", x) || !range_of("choose_qparams", x, a->dtype, &r)) return;
    x = rp_cast(x, RP_DTYPE_F32);
    rp_tensor none = rp_const(g, RP_DTYPE_F32, 0), s, z = none;
    rp_tensor eps = rp_const(g, RP_DTYPE_F32, 0x1p-23);
    if (a->affine && r.whole) {
        rp_tensor lo = rp_min(extreme(x, a, false), none), hi = rp_max(extreme(x, a, true), none);
        s = rp_div(rp_sub(hi, lo), rp_const(g, RP_DTYPE_F32, r.most - r.least));
        s = rp_max(s, eps);
        z = rp_sub(rp_const(g, RP_DTYPE_F32, r.least), rp_round(rp_div(lo, s)));
        z = rp_clamp(z, r.least, r.most);
    } else {
        const bool unsigned_ = r.least == 0;
        s = rp_div(extreme(rp_abs(x), a, true),
                   rp_const(g, RP_DTYPE_F32, unsigned_ ? 127 : r.most));
        s = rp_max(s, eps);
        if (unsigned_) z = rp_const(g, RP_DTYPE_F32, 128);
        z = rp_broadcast(z, rp_tensor_shape(s));
    }
    if (scale) *scale = s;
    if (zero) *zero = rp_cast(z, RP_DTYPE_I32);
}

rp_tensor rp_quantize_affine(rp_tensor x, rp_tensor scale, rp_tensor zero, rp_dtype t) {
    range r;
    if (!is_real("quantize_affine", x) || !range_of("quantize_affine", x, t, &r))
        return trace_bad(x.graph);
    rp_tensor q = rp_mul(rp_cast(x, RP_DTYPE_F32), rp_recip(rp_cast(scale, RP_DTYPE_F32)));
    if (r.whole) q = rp_round(q);
    if (trace_given(zero)) q = rp_add(q, rp_cast(zero, RP_DTYPE_F32));
    return rp_cast(r.whole ? q : rp_clamp(q, r.least, r.most), t); /* saturates */
}

rp_tensor rp_dequantize_affine(rp_tensor q, rp_tensor scale, rp_tensor zero) {
    rp_tensor x = rp_cast(q, RP_DTYPE_F32);
    if (trace_given(zero)) x = rp_sub(x, rp_cast(zero, RP_DTYPE_F32));
    return rp_mul(x, rp_cast(scale, RP_DTYPE_F32));
}

/* --- products ------------------------------------------------------------------------ */

enum { BLOCK = 128 }; /* elements that share a scale, where the call does not say */

/* Axis of s, scales of x, as x has it, or 1. False where it is neither, nor blocks, the last of which may be cut. */
static bool spread(rp_tensor *s, rp_tensor x, int axis, int64_t block) {
    rp_graph *g = x.graph;
    int64_t n = 0, all = 0;
    rp_dim size = rp_tensor_dim(x, axis), have = rp_tensor_dim(*s, axis);
    if (rp_dim_is_const(have, &n) && n == 1) return true;
    if (trace_equal(g, have, size)) return true;
    if (!trace_number(g, have, &n) || !trace_number(g, size, &all)) return false;
    if (all / block + (all % block != 0) != n) return false;
    rp_tensor y = rp_unsqueeze(*s, axis + 1);
    rp_shape to = rp_tensor_shape(y);
    to.dim[axis + 1] = rp_dim_const(block);
    y = rp_flatten(rp_broadcast(y, to), axis, axis + 1);
    *s = rp_slice(y, axis, 0, all);
    return true;
}

/* An operand of a product, and what is left to multiply its rows with. Types of 8 bits are bf16 without rounding. */
static bool side_of(rp_tensor *x, rp_tensor *s, int k, int64_t block) {
    rp_graph *g = x->graph;
    rp_shape of_x = rp_tensor_shape(*x), of_s = rp_tensor_shape(*s);
    rp_dim all = trace_extent(&of_s, 0, of_s.rank);
    int64_t n = 0;
    if (of_x.rank != 2 || block < 1) return false;
    *s = rp_cast(*s, RP_DTYPE_F32);
    if (of_s.rank != 2) {
        if (!rp_dim_is_const(all, &n) || n != 1) return false;
        *s = rp_reshape(*s, RP_SHAPE(1, 1));
    }
    if (!spread(s, *x, 0, block) || !spread(s, *x, 1, block)) return false;
    const rp_dtype t = rp_tensor_dtype(*x);
    if (rp_dtype_block_bytes(t) == 1 && t != RP_DTYPE_BOOL) *x = rp_cast(*x, RP_DTYPE_BF16);
    if (rp_dim_is_const(rp_tensor_dim(*s, k), &n) && n == 1) return trace_ready(g);
    *x = rp_mul(rp_cast(*x, RP_DTYPE_F32), *s);
    *s = rp_none();
    return trace_ready(g);
}

rp_tensor rp_scaled_mm(rp_tensor a, rp_tensor b, const rp_scaled_mm_args *how) {
    rp_graph *g = a.graph;
    if (!how) return trace_null(g, "scaled_mm: args");
    const int64_t block = how->block ? how->block : BLOCK;
    const bool trans = how->trans_b;
    rp_tensor x = a, w = b, sx = how->scale_a, sw = how->scale_b;
    if (!trace_ready(g)) return trace_bad(g);
    if (!side_of(&x, &sx, 1, block) || !side_of(&w, &sw, trans ? 1 : 0, block)) {
        if (trace_ready(g))
            (void)rp_fail(&g->err, RP_INVALID,
                          "scaled_mm: wants [M,K] and %s, and of each one scale, one for each row "
                          "of results, or one for each block of %lld; not %s with scales %s, and "
                          "%s with scales %s",
                          trans ? "[N,K]" : "[K,N]", (long long)block, trace_type_text(g, a).s,
                          trace_type_text(g, how->scale_a).s, trace_type_text(g, b).s,
                          trace_type_text(g, how->scale_b).s);
        return trace_bad(g);
    }
    rp_tensor y = rp_matmul(x, w, trans);
    if (trace_given(sx)) y = rp_mul(y, sx);
    if (trace_given(sw)) y = rp_mul(y, trans ? rp_transpose(sw, 0, 1) : sw);
    return trace_given(how->bias) ? rp_add(y, rp_cast(how->bias, RP_DTYPE_F32)) : y;
}
