#include "support/random_ranks.h"

#include <stdio.h>

#include "ir/dim_code.h"
#include "support/random_composites.h"
#include "support/random_maker.h"

enum { N_SYMBOLS = 3, MOST_ELEMENTS = 6000, MOST_STEPS = 9 };

typedef random_item item;

typedef struct gen {
    random_maker m;
    random_pool pool;
    uint32_t n_leaves;
    ir_dim symbol[N_SYMBOLS];
    bool composites;
} gen;

static ir_ref as_type(gen *q, ir_ref a, rp_dtype t) {
    return ir_node_at(q->m.g, a)->dtype == t ? a : random_cast(&q->m, a, t);
}

static ir_shape shape_of(const gen *q, ir_ref r) {
    return ir_node_at(q->m.g, r)->shape;
}

static rp_dtype type_of(const gen *q, ir_ref r) {
    return ir_node_at(q->m.g, r)->dtype;
}

static ir_dims *dims(const gen *q) {
    return ir_graph_dims(q->m.g);
}

static int64_t elements(const gen *q, const ir_shape *s) {
    int64_t n = 1, lo, hi;
    for (uint32_t i = 0; i < s->rank; i++) {
        ir_dim_bounds(dims(q), s->dim[i], &lo, &hi);
        n *= hi > 0 ? hi : 1;
        if (n > MOST_ELEMENTS) return INT64_MAX;
    }
    return n;
}

static ir_ref leaf(gen *q, rp_dtype t, ir_shape s) {
    const ir_leaf kind = (q->n_leaves + 1) % 3 ? IR_LEAF_INPUT : IR_LEAF_PARAM;
    return random_leaf(&q->m, kind, 'x', q->n_leaves++, t, s);
}

/* A count of elements takes few operations: those of a plan have 15 (ir_dim_code). */
static bool is_simple(const gen *q, const ir_shape *s) {
    ir_dim n = ir_dim_const(dims(q), 1);
    ir_dim_code code;
    for (uint32_t i = 0; i < s->rank && n != IR_DIM_BAD; i++) n = ir_dim_mul(dims(q), n, s->dim[i]);
    return n != IR_DIM_BAD && ir_dim_code_of(dims(q), n, &code, NULL) == RP_OK &&
           code.n <= MOST_STEPS;
}

/* Keeps r, made small again where it has grown, unless it is too large. */
static void put(gen *q, ir_ref r, double most, bool exact) {
    if (q->m.st != RP_OK) return;
    ir_shape s = shape_of(q, r);
    rp_dtype t = type_of(q, r);
    if (elements(q, &s) > MOST_ELEMENTS || !is_simple(q, &s)) return;
    if (most > 100 && ir_dtype_is_real(t)) {
        r = random_op2(&q->m, IR_min, random_op2(&q->m, IR_max, r, random_const(&q->m, t, -100)),
                       random_const(&q->m, t, 100));
        most = 100;
    } else if (most > 100) {
        r = random_op2(&q->m, IR_remainder, r, random_const(&q->m, t, 97));
        most = 97;
    }
    random_put(&q->m, &q->pool, (item){r, most, exact});
}

/* --- values ------------------------------------------------------------------------------ */

static ir_dim any_size(gen *q) {
    ir_dim s = q->symbol[random_pick(&q->m, N_SYMBOLS)];
    switch (random_pick(&q->m, 8)) {
    case 0: return s;
    case 1: return ir_dim_add(dims(q), s, ir_dim_const(dims(q), 1));
    case 2: return ir_dim_const(dims(q), 1);
    default: return ir_dim_const(dims(q), 1 + random_pick(&q->m, 6));
    }
}

static void new_leaf(gen *q) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F32,  RP_DTYPE_F32, RP_DTYPE_F64,
                                     RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_I32, RP_DTYPE_I64};
    rp_dtype t = types[random_pick(&q->m, 8)];
    ir_shape s = {.rank = random_pick(&q->m, IR_MAX_RANK + 1)};
    for (uint32_t i = 0; i < s.rank; i++) s.dim[i] = any_size(q);
    while (elements(q, &s) > MOST_ELEMENTS)
        s.dim[random_pick(&q->m, s.rank)] = ir_dim_const(dims(q), 1);
    put(q, leaf(q, t, s), ir_dtype_is_real(t) ? 1 : 64, true);
}

static item any(gen *q) {
    if (random_pick(&q->m, 8) == 0) new_leaf(q);
    return random_any(&q->m, &q->pool);
}

/* --- actions ------------------------------------------------------------------------------- */

static void act_unary(gen *q) {
    item x = any(q);
    rp_dtype t = type_of(q, x.ref);
    bool wide = t == RP_DTYPE_F64, real = ir_dtype_is_real(t);
    switch (random_pick(&q->m, 8)) {
    case 0: put(q, random_op1(&q->m, IR_abs, x.ref), x.most, x.exact); break;
    case 1:
        if (real && !wide) put(q, random_op1(&q->m, IR_tanh, x.ref), 1, false);
        break;
    case 2:
        if (real) put(q, random_op1(&q->m, IR_sigmoid, x.ref), 1, false);
        break;
    case 3:
        if (real)
            put(q, random_op1(&q->m, IR_sqrt, random_op1(&q->m, IR_abs, x.ref)), x.most + 1, false);
        break;
    case 4:
        if (x.exact && real) put(q, random_op1(&q->m, IR_floor, x.ref), x.most + 1, true);
        break;
    default: put(q, random_op1(&q->m, IR_neg, x.ref), x.most, x.exact);
    }
}

static void act_cast(gen *q) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16,
                                     RP_DTYPE_I32, RP_DTYPE_I64, RP_DTYPE_F32, RP_DTYPE_F32};
    item x = random_exact(&q->m, &q->pool);
    put(q, as_type(q, x.ref, types[random_pick(&q->m, 8)]), x.most + 1, true);
}

/* Something of the type of x that broadcasts against it: a leaf with axes left out or of size 1, or a scalar. */
static item partner(gen *q, item x) {
    ir_shape s = shape_of(q, x.ref), own = {0};
    rp_dtype t = type_of(q, x.ref);
    for (uint32_t i = 0; i < 4; i++) { /* perhaps there is one */
        item y = any(q);
        ir_shape o = shape_of(q, y.ref);
        bool same = o.rank == s.rank && type_of(q, y.ref) == t;
        for (uint32_t d = 0; same && d < s.rank; d++) same = o.dim[d] == s.dim[d];
        if (same) return y;
    }
    if (random_pick(&q->m, 5) == 0)
        return (item){random_const(&q->m, t, random_pick(&q->m, 9) - 4.0), 4, true};
    own.rank = random_pick(&q->m, 2) ? s.rank : random_pick(&q->m, s.rank + 1);
    for (uint32_t i = 0; i < own.rank; i++)
        own.dim[i] = random_pick(&q->m, 3) ? s.dim[s.rank - own.rank + i]
                                           : ir_dim_const(dims(q), 1);
    return (item){leaf(q, t, own), ir_dtype_is_real(t) ? 1 : 64, true};
}

static void act_binary(gen *q) {
    item x = any(q), y = partner(q, x);
    bool both = x.exact && y.exact, ints = !ir_dtype_is_real(type_of(q, x.ref));
    if (random_pick(&q->m, 2)) {
        item z = x;
        x = y;
        y = z;
    }
    switch (random_pick(&q->m, 6)) {
    case 0: put(q, random_op2(&q->m, IR_add, x.ref, y.ref), x.most + y.most, ints && both); break;
    case 1: put(q, random_op2(&q->m, IR_sub, x.ref, y.ref), x.most + y.most, ints && both); break;
    case 2: put(q, random_op2(&q->m, IR_mul, x.ref, y.ref), x.most * y.most, ints && both); break;
    case 3: put(q, random_op2(&q->m, IR_max, x.ref, y.ref), x.most + y.most, both); break;
    case 4:
        if (both)
            put(q,
                random_add(&q->m, IR_where,
                           (ir_ref[]){random_op2(&q->m, random_pick(&q->m, 2) ? IR_lt : IR_ne,
                                                 x.ref, y.ref),
                                      x.ref, y.ref},
                           3, NULL, 0),
                x.most + y.most, true);
        break;
    default:
        if (ints) put(q, random_op2(&q->m, IR_floor_divide, x.ref, y.ref), x.most + 1, both);
    }
}

static void act_reduce(gen *q) {
    item x = any(q);
    ir_shape s = shape_of(q, x.ref);
    int64_t lo, hi;
    if (s.rank == 0) return;
    uint32_t axis = random_pick(&q->m, s.rank);
    bool ints = !ir_dtype_is_real(type_of(q, x.ref)), keep = random_pick(&q->m, 2);
    ir_dim_bounds(dims(q), s.dim[axis], &lo, &hi);
    switch (random_pick(&q->m, 4)) {
    case 0:
        put(q, random_reduce(&q->m, IR_sum, x.ref, axis, keep), x.most * (double)(hi + 1),
            ints && x.exact);
        break;
    case 1:
        if (lo > 0) put(q, random_reduce(&q->m, IR_amax, x.ref, axis, keep), x.most, x.exact);
        break;
    case 2:
        if (lo > 0) put(q, random_reduce(&q->m, IR_amin, x.ref, axis, keep), x.most, x.exact);
        break;
    default:
        if (lo > 0 && x.exact)
            put(q, random_reduce(&q->m, IR_argmax, x.ref, axis, keep), (double)hi, true);
    }
}

static void act_permute(gen *q) {
    item x = any(q);
    ir_shape s = shape_of(q, x.ref);
    int64_t axes[IR_MAX_RANK];
    for (uint32_t i = 0; i < s.rank; i++) axes[i] = i;
    for (uint32_t i = s.rank; i-- > 1;) {
        uint32_t j = random_pick(&q->m, i + 1);
        int64_t a = axes[i];
        axes[i] = axes[j];
        axes[j] = a;
    }
    ir_attr a = {.key = IR_ATTR_AXES, .n = s.rank, .u.ints = axes};
    if (s.rank > 1) put(q, random_add(&q->m, IR_permute, &x.ref, 1, &a, 1), x.most, x.exact);
}

/* Two axes become one, or an axis of size 1 comes or goes. */
static void act_reshape(gen *q) {
    item x = any(q);
    ir_shape s = shape_of(q, x.ref), to = {0};
    uint32_t at = s.rank ? random_pick(&q->m, s.rank) : 0;
    if (s.rank > 1 && at + 1 < s.rank && random_pick(&q->m, 2)) {
        for (uint32_t i = 0; i < s.rank; i++) {
            if (i == at + 1) continue;
            to.dim[to.rank++] = i == at ? ir_dim_mul(dims(q), s.dim[i], s.dim[i + 1]) : s.dim[i];
        }
    } else if (s.rank < IR_MAX_RANK) {
        for (uint32_t i = 0; i <= s.rank; i++) {
            if (i == at) to.dim[to.rank++] = ir_dim_const(dims(q), 1);
            if (i < s.rank) to.dim[to.rank++] = s.dim[i];
        }
    } else {
        return;
    }
    put(q, random_reshape(&q->m, x.ref, to.dim, to.rank), x.most, x.exact);
}

static void act_slice(gen *q) {
    item x = any(q);
    ir_shape s = shape_of(q, x.ref);
    if (s.rank == 0) return;
    uint32_t axis = random_pick(&q->m, s.rank);
    ir_dim half = ir_dim_floordiv(dims(q), s.dim[axis], 2), none = ir_dim_const(dims(q), 0);
    bool low = random_pick(&q->m, 2);
    put(q, random_slice(&q->m, x.ref, axis, low ? none : half, low ? half : s.dim[axis]), x.most,
        x.exact);
}

static void act_concat(gen *q) {
    item x = any(q), y = x;
    ir_shape s = shape_of(q, x.ref);
    if (s.rank == 0) return;
    uint32_t axis = random_pick(&q->m, s.rank);
    ir_shape own = s;
    own.dim[axis] = any_size(q);
    if (random_pick(&q->m, 2))
        y = (item){leaf(q, type_of(q, x.ref), own), ir_dtype_is_real(type_of(q, x.ref)) ? 1 : 64,
                   true};
    ir_attr a = {.key = IR_ATTR_AXIS, .u.i = axis};
    put(q,
        random_add(&q->m, IR_concat, (ir_ref[]){x.ref, y.ref, x.ref}, 2 + random_pick(&q->m, 2), &a,
                   1),
        x.most + y.most, x.exact && y.exact);
}

static void act_broadcast(gen *q) {
    item x = any(q);
    ir_shape s = shape_of(q, x.ref), to = {.rank = s.rank + 1};
    if (s.rank == IR_MAX_RANK) return;
    to.dim[0] = any_size(q);
    for (uint32_t i = 0; i < s.rank; i++) to.dim[i + 1] = s.dim[i];
    ir_attr a = {.key = IR_ATTR_SHAPE, .n = to.rank, .u.dims = to.dim};
    put(q, random_add(&q->m, IR_broadcast, &x.ref, 1, &a, 1), x.most, x.exact);
}

static ir_ref second(gen *q, ir_ref r) {
    return random_add(&q->m, IR_result, &r, 1, &(ir_attr){.key = IR_ATTR_INDEX, .u.i = 1}, 1);
}

static void act_axis(gen *q) {
    item x = random_exact(&q->m, &q->pool);
    ir_shape s = shape_of(q, x.ref);
    rp_dtype t = type_of(q, x.ref);
    int64_t lo, hi;
    if (s.rank == 0) return;
    ir_attr a[2] = {{.key = IR_ATTR_AXIS, .u.i = random_pick(&q->m, s.rank)},
                    {.key = IR_ATTR_DESCENDING, .u.i = random_pick(&q->m, 2)}};
    ir_dim_bounds(dims(q), s.dim[random_pick(&q->m, 2) ? s.rank - 1 : (uint32_t)a[0].u.i], &lo,
                  &hi);
    switch (random_pick(&q->m, 3)) {
    case 0: {
        ir_ref r = random_add(&q->m, IR_sort, &x.ref, 1, a, 2);
        put(q, random_pick(&q->m, 2) ? r : second(q, r), x.most + (double)hi + 6, true);
        break;
    }
    case 1: put(q, random_add(&q->m, IR_cumsum, &x.ref, 1, a, 1), 500, !ir_dtype_is_real(t)); break;
    default:
        ir_dim_bounds(dims(q), s.dim[s.rank - 1], &lo, &hi);
        if (lo > 0 && t != RP_DTYPE_F64 && t != RP_DTYPE_I64) {
            ir_attr k = {.key = IR_ATTR_K, .u.i = 1 + random_pick(&q->m, (uint32_t)lo)};
            ir_ref r = random_add(&q->m, IR_topk, &x.ref, 1, &k, 1);
            put(q, random_pick(&q->m, 2) ? r : second(q, r), x.most + (double)hi, true);
        }
    }
}

static void act_scatter(gen *q) {
    static const ir_op ops[] = {IR_scatter, IR_scatter_add, IR_scatter_amax};
    item x = random_exact(&q->m, &q->pool);
    ir_shape s = shape_of(q, x.ref), src = s;
    rp_dtype t = type_of(q, x.ref);
    bool half = t == RP_DTYPE_F16 || t == RP_DTYPE_BF16;
    if (s.rank == 0) return;
    uint32_t axis = random_pick(&q->m, s.rank), op = half ? 0 : random_pick(&q->m, 3);
    src.dim[axis] = ir_dim_const(dims(q), 1 + random_pick(&q->m, 7));
    ir_shape index = src;
    for (uint32_t i = 0; i < axis && random_pick(&q->m, 2); i = axis)
        for (uint32_t k = 0; k < axis; k++) index.dim[k] = ir_dim_const(dims(q), 1);
    ir_ref at = leaf(q, random_pick(&q->m, 2) ? RP_DTYPE_I32 : RP_DTYPE_I64, index);
    ir_attr a = {.key = IR_ATTR_AXIS, .u.i = axis};
    put(q, random_add(&q->m, ops[op], (ir_ref[]){x.ref, at, leaf(q, t, src)}, 3, &a, 1),
        x.most + 500, op != 1 || !ir_dtype_is_real(t));
}

static void act_gather(gen *q) {
    item x = any(q);
    ir_shape s = shape_of(q, x.ref), index = {.rank = random_pick(&q->m, 3)};
    int64_t lo, hi;
    if (s.rank == 0 || s.rank - 1 + index.rank > IR_MAX_RANK) return;
    ir_dim_bounds(dims(q), s.dim[0], &lo, &hi);
    for (uint32_t i = 0; i < index.rank; i++) index.dim[i] = any_size(q);
    if (lo > 0)
        put(q, random_op2(&q->m, IR_gather, x.ref, leaf(q, RP_DTYPE_I32, index)), x.most, x.exact);
}

/* A product with a leaf, or with itself. */
static void act_matmul(gen *q) {
    item x = any(q);
    ir_shape s = shape_of(q, x.ref), w = s;
    rp_dtype t = type_of(q, x.ref);
    int64_t lo, hi;
    if (s.rank < 2 || !rp_dtype_is_float(t)) return;
    bool trans = random_pick(&q->m, 2), batch = random_pick(&q->m, 2);
    ir_dim_bounds(dims(q), s.dim[s.rank - 1], &lo, &hi);
    ir_attr a = {.key = IR_ATTR_TRANS_B, .u.i = trans || random_pick(&q->m, 3) == 0};
    if (!batch) {
        w.rank = 2;
        w.dim[0] = s.dim[s.rank - 2];
        w.dim[1] = s.dim[s.rank - 1];
    }
    w.dim[w.rank - (a.u.i ? 1 : 2)] = s.dim[s.rank - 1];
    w.dim[w.rank - (a.u.i ? 2 : 1)] = any_size(q);
    ir_ref y = random_pick(&q->m, 4) || !a.u.i ? leaf(q, t, w) : x.ref;
    put(q, random_add(&q->m, IR_matmul, (ir_ref[]){x.ref, y}, 2, &a, 1),
        (double)(hi + 1) * x.most * (y == x.ref ? x.most : 1), false);
}

static void act_composite(gen *q) {
    item x = any(q), y = random_composite(&q->m, x);
    if (q->m.st == RP_OK && y.ref != x.ref) put(q, y.ref, y.most, y.exact);
}

static void step(gen *q) {
    static void (*const act[])(gen *) = {
        act_unary,   act_unary,   act_binary,  act_binary,  act_binary, act_reduce, act_reduce,
        act_permute, act_permute, act_reshape, act_reshape, act_slice,  act_concat, act_broadcast,
        act_axis,    act_axis,    act_scatter, act_gather,  act_matmul, act_cast,   new_leaf,
    };
    if (q->composites && random_pick(&q->m, 4) == 0)
        act_composite(q);
    else
        act[random_pick(&q->m, sizeof act / sizeof act[0])](q);
}

rp_status random_ranks_new(uint64_t seed, uint32_t n_steps, bool composites, ir_graph **out,
                           rp_error *err) {
    static const char *const names[N_SYMBOLS] = {"T", "B", "N"};
    gen q = {.m.g = ir_graph_new("ranks"),
             .m.rng = seed * 7919 + 3,
             .m.err = err,
             .composites = composites};
    if (!q.m.g) return rp_fail(err, RP_NOMEM, "random graph");
    for (int i = 0; i < N_SYMBOLS; i++)
        q.symbol[i] = ir_dim_symbol(dims(&q), names[i], i == 2 ? 0 : 1, i == 1 ? 3 : 7, 1);
    while (q.pool.n < 2 && q.m.st == RP_OK) new_leaf(&q);
    for (uint32_t i = 0; i < n_steps && q.m.st == RP_OK; i++) step(&q);
    return random_finish(&q.m, &q.pool, 3, out);
}
