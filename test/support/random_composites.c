#include "support/random_composites.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/status.h"
#include "trace/record.h"

typedef random_item item;

/* The tensor API on a graph that is being made. */
typedef struct gen {
    random_maker *m;
    rp_graph g;
    item x;
    rp_tensor t; /* x */
    rp_shape s;  /* of x */
    rp_dtype type;
} gen;

static uint32_t pick(gen *q, uint32_t n) {
    return random_pick(q->m, n);
}

static bool flip(gen *q) {
    return pick(q, 2) != 0;
}

static rp_tensor leaf(gen *q, rp_dtype t, rp_shape s) {
    char name[16];
    (void)snprintf(name, sizeof name, "c%u", ir_graph_count(q->g.ir));
    return flip(q) ? rp_input(&q->g, name, t, s) : rp_param(&q->g, name, t, s);
}

/* A leaf for what integers count in: random ones are below 64. */
static rp_tensor places(gen *q, rp_shape s) {
    return leaf(q, flip(q) ? RP_DTYPE_I32 : RP_DTYPE_I64, s);
}

static int64_t least(rp_dim d) {
    int64_t lo, hi;
    rp_dim_bounds(d, &lo, &hi);
    return lo;
}

/* The value of a size, 0 where it is not known. */
static int64_t known(rp_dim d) {
    int64_t v = 0;
    return rp_dim_is_const(d, &v) ? v : 0;
}

static int any_axis(gen *q) {
    return (int)pick(q, q->s.rank);
}

static bool is_f32(const gen *q) {
    return q->type == RP_DTYPE_F32;
}

static item made(rp_tensor y, double most, bool exact) {
    return (item){y.ref, most, exact};
}

/* Near 1, so that many of them can be multiplied. */
static rp_tensor factors(rp_tensor x) {
    return rp_add_scalar(rp_mul_scalar(rp_tanh(x), 0.0625), 1);
}

/* --- reductions, norms, activations ------------------------------------------------------- */

static item product(gen *q) {
    bool ints = q->type == RP_DTYPE_I32 || q->type == RP_DTYPE_I64;
    if (q->s.rank == 0 || !(ints || is_f32(q))) return q->x;
    rp_tensor y = rp_prod(ints ? q->t : factors(q->t), any_axis(q), flip(q));
    if (!ints) return made(y, 64, false);
    y = rp_remainder(y, rp_const(&q->g, q->type, 97));
    return made(y, 97, q->x.exact);
}

static item statistics(gen *q) {
    rp_tensor var, mean;
    if (q->s.rank == 0 || !is_f32(q)) return q->x;
    int axis = any_axis(q);
    if (least(q->s.dim[axis]) < 2) return q->x;
    bool keep = flip(q);
    switch (pick(q, 4)) {
    case 0:
        rp_var_mean(q->t, axis, keep, pick(q, 2), &var, &mean);
        return made(flip(q) ? var : rp_add(var, mean), 2 * q->x.most * q->x.most, false);
    case 1: return made(rp_logsumexp(q->t, axis, keep), q->x.most + 8, false);
    case 2: return made(rp_log_softmax(q->t, axis), 2 * q->x.most + 8, false);
    default: return made(rp_softmax(q->t, axis), 1, false);
    }
}

static item norm(gen *q) {
    uint32_t n = q->s.rank;
    if (n == 0 || !is_f32(q) || least(q->s.dim[n - 1]) < 1) return q->x;
    rp_tensor w = flip(q) ? leaf(q, RP_DTYPE_F32, RP_SHAPE(q->s.dim[n - 1])) : rp_none();
    /* Sums of squares that are nearly 0 would make differences large. */
    if (flip(q)) return made(rp_rms_norm(rp_add_scalar(q->t, 2 * q->x.most), w, 0.5), 4, false);
    rp_tensor wave = rp_cos(rp_iota(&q->g, RP_DTYPE_F32, RP_SHAPE(q->s.dim[n - 1]), 0));
    rp_tensor y = rp_add(q->t, rp_mul_scalar(wave, 2 * q->x.most));
    return made(rp_layer_norm(y, w, rp_none(), 0.5), 8, false);
}

static item activation(gen *q) {
    rp_tensor t = q->t;
    double most = q->x.most;
    if (!is_f32(q)) return q->x;
    switch (pick(q, 9)) {
    case 0: return made(rp_log1p(rp_abs(t)), most, false);
    case 1: return made(rp_expm1(rp_neg(rp_abs(t))), 1, false);
    case 2: return made(rp_softplus(t), most + 1, false);
    case 3: return made(rp_gelu_tanh(t), most, false);
    case 4: return made(rp_gelu_erf(t), most, false);
    case 5: return made(rp_elu(t, 0.75), most, false);
    case 6: return made(rp_softcap(t, 30), most, false);
    case 7: return made(rp_leaky_relu(t, 0.25), most, q->x.exact);
    default: return made(rp_quick_gelu(t), most, false);
    }
}

/* Of one element; most of them in double precision. */
static item function(gen *q) {
    if (!is_f32(q)) return q->x;
    rp_tensor t = q->t, half = rp_mul_scalar(rp_tanh(t), 0.5);
    switch (pick(q, 12)) {
    case 10: return made(rp_fmod(half, rp_const(&q->g, q->type, 1)), 1, false);
    case 11:
        if (!q->x.exact) return q->x;
        return made(rp_remainder(t, rp_const(&q->g, q->type, -3)), 3, true);
    case 0: return made(rp_exp2(rp_neg(rp_abs(t))), 1, false);
    case 1: return made(rp_log2(rp_add_scalar(rp_abs(t), 1)), 1.5 * q->x.most, false);
    case 2: return made(rp_atan(t), 1.6, false);
    case 3: return made(flip(q) ? rp_asin(half) : rp_acos(half), 3.2, false);
    case 4: return made(rp_tan(half), 1, false);
    case 5: return made(flip(q) ? rp_sinh(half) : rp_cosh(half), 2, false);
    case 6: return made(rp_erfinv(half), 1, false);
    case 7: return made(rp_lerp(t, half, rp_abs(half)), q->x.most + 1, false);
    case 8: return made(rp_clamp_tensor(t, half, rp_none()), q->x.most + 1, false);
    default: return made(rp_atan2(half, rp_add_scalar(rp_abs(t), 1)), 1, false);
    }
}

/* --- random numbers --------------------------------------------------------------------------- */

static item numbers(gen *q) {
    rp_tensor key = leaf(q, RP_DTYPE_I64, (rp_shape){0});
    rp_tensor offset = rp_const(&q->g, RP_DTYPE_I64, 1000003.0 * pick(q, 5000));
    if (q->type == RP_DTYPE_I64 || q->type == RP_DTYPE_I32) {
        rp_tensor y = rp_philox(q->t, rp_cast(key, q->type));
        return made(rp_remainder(y, rp_const(&q->g, q->type, 89)), 89, q->x.exact);
    }
    if (!is_f32(q)) return q->x;
    if (flip(q)) return made(rp_rand(key, offset, q->s), 1, true);
    return made(rp_add(q->t, rp_randn(key, offset, q->s)), q->x.most + 6, false);
}

/* --- places --------------------------------------------------------------------------- */

static item moved(gen *q) {
    if (q->s.rank == 0) return q->x;
    int axis = any_axis(q);
    rp_dim n = q->s.dim[axis];
    rp_tensor pair[2];
    switch (pick(q, 6)) {
    case 0: return made(rp_flip(q->t, axis), q->x.most, q->x.exact);
    case 1: /* rolled */
        if (least(n) < 1) return q->x;
        pair[0] = rp_slice(q->t, axis, rp_dim_const(1), n);
        pair[1] = rp_slice(q->t, axis, rp_dim_const(0), rp_dim_const(1));
        return made(rp_concat(pair, 2, axis), q->x.most, q->x.exact);
    case 2:
        if (q->s.rank == RP_MAX_RANK) return q->x;
        return made(
            rp_slice_step(q->t, axis, rp_dim_const(least(n) > 1), n, 2 + (int64_t)pick(q, 2)),
            q->x.most, q->x.exact);
    case 3:
        return made(rp_pad(q->t, axis, rp_dim_const(pick(q, 3)), rp_dim_const(pick(q, 3)),
                           (double)pick(q, 4)),
                    q->x.most + 4, q->x.exact);
    case 4: return (item){random_op1(q->m, IR_copy, q->x.ref), q->x.most, q->x.exact};
    default:
        if (q->s.rank == RP_MAX_RANK) return q->x;
        pair[0] = q->t;
        pair[1] = rp_neg(q->t);
        return made(rp_stack(pair, 2, axis), q->x.most, q->x.exact);
    }
}

static item by_index(gen *q) {
    if (q->s.rank == 0) return q->x;
    int axis = any_axis(q);
    rp_shape s = q->s;
    for (uint32_t i = 0; i < s.rank; i++)
        if (least(s.dim[i]) < 1) return q->x;
    s.dim[axis] = rp_dim_const(1 + pick(q, 6));
    rp_shape row = RP_SHAPE(s.dim[axis]);
    switch (pick(q, 4)) {
    case 0: return made(rp_index_select(q->t, axis, places(q, row)), q->x.most, q->x.exact);
    case 1: return made(rp_take_along(q->t, axis, places(q, s)), q->x.most, q->x.exact);
    case 2:
        return made(rp_index_copy(q->t, axis, places(q, row), leaf(q, q->type, s)), q->x.most + 64,
                    q->x.exact);
    default:
        if (s.rank == RP_MAX_RANK) return q->x;
        return made(
            rp_one_hot(rp_remainder(leaf(q, RP_DTYPE_I32, s), rp_const(&q->g, RP_DTYPE_I32, 5)), 4,
                       RP_DTYPE_F32),
            1, true);
    }
}

static item scattered(gen *q) {
    if (q->s.rank == 0 || !is_f32(q)) return q->x;
    int axis = any_axis(q);
    rp_shape s = q->s;
    if (least(s.dim[axis]) < 1) return q->x;
    s.dim[axis] = rp_dim_const(1 + pick(q, 6));
    rp_tensor src = leaf(q, q->type, s), at = places(q, flip(q) ? s : RP_SHAPE(s.dim[axis]));
    bool rows = rp_tensor_shape(at).rank == 1 && s.rank > 1;
    if (rows) return made(rp_index_add(q->t, axis, at, src), q->x.most + 6, false);
    if (rp_tensor_shape(at).rank != s.rank) return q->x;
    if (flip(q)) return made(rp_scatter_amin(q->t, axis, at, src), q->x.most + 1, q->x.exact);
    return made(rp_scatter_prod(q->t, axis, at, factors(src)), 1.5 * q->x.most, false);
}

/* x[idx] = values, or += values. */
static item put_at(gen *q) {
    uint32_t n = q->s.rank ? 1 + pick(q, q->s.rank) : 0;
    rp_shape count = RP_SHAPE(rp_dim_const(1 + pick(q, 5))), s = count;
    rp_tensor idx[RP_MAX_RANK];
    bool more = flip(q) && is_f32(q);
    for (uint32_t i = 0; i < n; i++)
        if (least(q->s.dim[i]) < 1) return q->x;
    if (n == 0) return q->x;
    for (uint32_t i = 0; i < n; i++) idx[i] = places(q, count);
    for (uint32_t i = n; i < q->s.rank; i++) s.dim[s.rank++] = q->s.dim[i];
    rp_tensor y = rp_index_put(q->t, idx, n, leaf(q, q->type, s), more);
    return made(y, q->x.most + 64, q->x.exact && !more);
}

static item classes(gen *q) {
    if (q->s.rank != 2 || !is_f32(q) || known(q->s.dim[1]) < 1 || least(q->s.dim[0]) < 1)
        return q->x;
    rp_tensor loss = rp_cross_entropy(q->t, places(q, RP_SHAPE(q->s.dim[0])));
    return made(rp_unsqueeze(loss, 1), 2 * q->x.most + 8, false);
}

/* --- attention ----------------------------------------------------------------------------- */

/* [.., H, T, D] of x, where there are heads, and how often they are shared. */
static rp_tensor heads_of(gen *q, int64_t *share) {
    uint32_t n = q->s.rank;
    int64_t k = known(q->s.dim[n - 1]);
    rp_tensor x = q->t;
    *share = 1;
    if (n == 2 && k > 0 && k % 4 == 0 && flip(q))
        x = rp_transpose(rp_reshape(x, RP_SHAPE(q->s.dim[0], rp_dim_const(2), rp_dim_const(k / 2))),
                         0, 1);
    rp_shape s = rp_tensor_shape(x);
    if (s.rank > 2 && known(s.dim[s.rank - 3]) % 2 == 0 && known(s.dim[s.rank - 3])) *share = 2;
    return x;
}

static item dense_attention(gen *q) {
    int64_t share;
    uint32_t n = q->s.rank;
    if (n < 2 || n > 4 || !is_f32(q) || least(q->s.dim[n - 1]) < 1 || least(q->s.dim[n - 2]) < 1)
        return q->x;
    rp_sdpa_args a = {.q = heads_of(q, &share), .scale = 1 / q->x.most};
    rp_shape s = rp_tensor_shape(a.q), scores;
    if (q->g.err.code != RP_OK) return q->x;
    n = s.rank;
    if (flip(q)) { /* itself */
        a.k = a.v = a.q;
        a.scale /= q->x.most;
        scores = s;
    } else {
        scores = s;
        if (n > 2 && share > 1 && flip(q)) s.dim[n - 3] = rp_dim_floordiv(s.dim[n - 3], share);
        s.dim[n - 2] = rp_dim_const(1 + pick(q, 9));
        a.k = leaf(q, RP_DTYPE_F32, s);
        if (flip(q)) s.dim[n - 1] = rp_dim_const(1 + pick(q, 9));
        a.v = leaf(q, RP_DTYPE_F32, s);
    }
    scores.dim[n - 1] = s.dim[n - 2];
    if (scores.rank < RP_MAX_RANK && flip(q))
        a.bias = leaf(q, RP_DTYPE_F32, RP_SHAPE(scores.dim[n - 2], scores.dim[n - 1]));
    if (pick(q, 3) == 0)
        a.mask = rp_lt(leaf(q, RP_DTYPE_I32, RP_SHAPE(scores.dim[n - 1])),
                       rp_const(&q->g, RP_DTYPE_I32, 40));
    a.causal = flip(q);
    a.window = pick(q, 3) == 0 ? 1 + (int64_t)pick(q, 4) : 0;
    a.softcap = pick(q, 4) == 0 ? 5 : 0;
    if (pick(q, 4) != 0) return made(rp_scaled_dot_product_attention(&a), q->x.most, false);
    rp_tensor lse, y = rp_sdpa_lse(&a, &lse);
    /* -inf of rows that see nothing */
    lse = rp_max(lse, rp_const(&q->g, RP_DTYPE_F32, -64));
    return made(rp_add(y, rp_unsqueeze(lse, -1)), q->x.most + 128, false);
}

enum { BLOCK = 4, WIDTH = 3, REQUESTS = 2, BLOCKS = 5 };

/* Below n, in i32. */
static ir_ref below(gen *q, rp_shape s, int64_t n, int64_t less) {
    rp_tensor y = rp_remainder(leaf(q, RP_DTYPE_I32, s), rp_const(&q->g, RP_DTYPE_I32, (double)n));
    return rp_sub(y, rp_const(&q->g, RP_DTYPE_I32, (double)less)).ref;
}

static ir_ref cache(gen *q, int64_t kv_heads, int64_t head_dim, rp_dtype t) {
    char name[16];
    rp_shape s = RP_SHAPE(rp_dim_const(BLOCKS), rp_dim_const(kv_heads), rp_dim_const(BLOCK),
                          rp_dim_const(head_dim));
    (void)snprintf(name, sizeof name, "c%u", ir_graph_count(q->g.ir));
    return rp_state(&q->g, name, t, s).ref;
}

/* Over a cache in blocks, to which the first rows may have been added. */
static item paged_attention(gen *q) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F16, RP_DTYPE_BF16};
    int64_t width = q->s.rank == 2 ? known(q->s.dim[1]) : 0, heads = 2, kv = 1 + pick(q, 2);
    rp_dtype t = types[pick(q, 3)];
    if (width == 0 || width % 4 != 0 || !is_f32(q) || least(q->s.dim[0]) < 1) return q->x;
    rp_shape rows = RP_SHAPE(q->s.dim[0]);
    ir_dim out[2] = {trace_dim(&q->g, q->s.dim[0]), trace_dim(&q->g, q->s.dim[1])};
    ir_attr empty[] = {{.key = IR_ATTR_DTYPE, .u.i = RP_DTYPE_F32},
                       {.key = IR_ATTR_SHAPE, .n = 2, .u.dims = out}};
    ir_attr a[] = {{.key = IR_ATTR_HEADS, .u.i = heads},
                   {.key = IR_ATTR_HEAD_DIM, .u.i = width / heads},
                   {.key = IR_ATTR_KV_HEADS, .u.i = kv},
                   {.key = IR_ATTR_SCALE, .u.f = 1 / q->x.most}};
    ir_ref k = cache(q, kv, width / heads, t), v = cache(q, kv, width / heads, t);
    if (flip(q)) {
        rp_tensor at = rp_iota(&q->g, RP_DTYPE_I32, rows, 0);
        rp_tensor fits = rp_lt(at, rp_const(&q->g, RP_DTYPE_I32, BLOCKS * BLOCK));
        rp_tensor slots = rp_where(fits, at, rp_const(&q->g, RP_DTYPE_I32, -1));
        rp_tensor new = leaf(q, RP_DTYPE_F32, RP_SHAPE(q->s.dim[0], kv * width / heads));
        k = random_add(q->m, IR_kv_store, (ir_ref[]){k, new.ref, slots.ref}, 3, NULL, 0);
    }
    ir_ref in[7] = {q->x.ref, k, v};
    in[3] = below(q, rows, REQUESTS + 1, 1);
    in[4] = below(q, rows, WIDTH * BLOCK, 0);
    in[5] = below(q, RP_SHAPE(rp_dim_const(REQUESTS), rp_dim_const(WIDTH)), BLOCKS, 0);
    in[6] = random_add(q->m, IR_empty, NULL, 0, empty, 2);
    if (q->g.err.code != RP_OK) return q->x;
    return (item){random_add(q->m, IR_attention, in, 7, a, 4), 1, false};
}

/* --- windows ---------------------------------------------------------------------------- */

/* x as [N,C,...]: a size that is known becomes channels. */
static bool channels(gen *q, rp_tensor *out) {
    uint32_t n = q->s.rank;
    int64_t c = n ? known(q->s.dim[n - 1]) : 0;
    if (n < 2 || n > 4 || !is_f32(q) || c < 1 || c > 64) return false;
    for (uint32_t i = 0; i < n; i++)
        if (least(q->s.dim[i]) < 1) return false;
    rp_tensor x = rp_transpose(q->t, (int)n - 1, n > 2 ? 1 : 0); /* [C,T], or channels at 1 */
    *out = n == 2 ? rp_unsqueeze(x, 0) : x;
    return true;
}

static item convolution(gen *q) {
    rp_tensor x;
    if (!channels(q, &x)) return q->x;
    rp_shape s = rp_tensor_shape(x);
    int64_t c = known(s.dim[1]), k = 1 + pick(q, 3), groups = 1, out = 1 + pick(q, 5);
    if (c % 2 == 0 && flip(q)) groups = 2;
    if (pick(q, 3) == 0) groups = c;
    out = groups == c ? c : out * groups;
    rp_conv_args a = {.padding = {k - 1, k - 1}, .groups = (uint32_t)groups};
    a.stride[0] = 1 + pick(q, 2);
    a.stride[1] = 1 + pick(q, 2);
    rp_tensor bias = flip(q) ? leaf(q, RP_DTYPE_F32, RP_SHAPE(out)) : rp_none();
    double most = q->x.most * (double)(c / groups * k * k) / 4 + 1;
    if (s.rank == 3) {
        rp_tensor w = leaf(q, RP_DTYPE_F32, RP_SHAPE(out, c / groups, k));
        return made(rp_conv1d(x, w, bias, &a), most, false);
    }
    if (groups == 1 && flip(q)) {
        rp_tensor w = leaf(q, RP_DTYPE_F32, RP_SHAPE(c, out, k, k));
        a.padding[0] = a.padding[1] = 0;
        return made(rp_conv_transpose2d(x, w, bias, &a, 0), most, false);
    }
    rp_tensor w = leaf(q, RP_DTYPE_F32, RP_SHAPE(out, c / groups, k, k));
    return made(rp_conv2d(x, w, bias, &a), most, false);
}

static item pooled(gen *q) {
    rp_tensor x;
    if (!channels(q, &x) || rp_tensor_shape(x).rank != 4) return q->x;
    switch (pick(q, 3)) {
    case 0: return made(rp_max_pool2d(x, 2, 1 + pick(q, 2), 1), q->x.most, q->x.exact);
    case 1: return made(rp_avg_pool2d(x, 2, 1 + pick(q, 2), 1), q->x.most, false);
    default: return made(rp_upsample_nearest2d(x, 2), q->x.most, q->x.exact);
    }
}

/* --------------------------------------------------------------------------------------- */

random_item random_composite(random_maker *m, random_item x) {
    static item (*const kinds[])(gen *) = {
        product,         product,         statistics,  norm,      activation, activation,
        numbers,         moved,           by_index,    scattered, put_at,     classes,
        dense_attention, paged_attention, convolution, pooled,    function,
    };
    if (m->st != RP_OK || x.most <= 0) return x;
    gen q = {.m = m, .x = x, .g = {.ir = m->g, .numerics = RP_NUMERICS_EXACT}};
    q.t = (rp_tensor){&q.g, x.ref, 0};
    q.s = rp_tensor_shape(q.t);
    q.type = rp_tensor_dtype(q.t);
    item y = kinds[random_pick(m, sizeof kinds / sizeof kinds[0])](&q);
    if (m->st == RP_OK && q.g.err.code != RP_OK)
        m->st = rp_fail(m->err, q.g.err.code, "%s", q.g.err.text);
    base_free(q.g.fresh);
    return m->st == RP_OK ? y : x;
}
