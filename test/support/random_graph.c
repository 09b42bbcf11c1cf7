/* Random graphs: a pool of values, and actions that pick from it and add to it. */
#include "support/random_graph.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "support/random_composites.h"
#include "support/random_maker.h"

typedef random_item item;

typedef struct gen {
    random_maker m;
    const random_graph_options *opt;
    random_pool pool;        /* f32, rank 2 or 3 */
    uint32_t n_param, depth; /* of bodies */
    ir_dim rows;
} gen;

static ir_ref num(gen *q, double v) {
    return random_const(&q->m, RP_DTYPE_F32, v);
}

static const ir_shape *shape_of(gen *q, ir_ref r) {
    return &ir_node_at(q->m.g, r)->shape;
}

static int64_t last_size(gen *q, ir_ref r) {
    const ir_shape *s = shape_of(q, r);
    int64_t v = 1;
    if (s->rank > 0) (void)ir_dim_is_const(ir_graph_dims(q->m.g), s->dim[s->rank - 1], &v);
    return v;
}

static ir_dim size(gen *q, int64_t v) {
    return ir_dim_const(ir_graph_dims(q->m.g), v);
}

static ir_ref leaf(gen *q, ir_leaf kind, rp_dtype t, const ir_dim *dim, uint32_t rank) {
    ir_shape s = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) s.dim[i] = dim[i];
    return random_leaf(&q->m, kind, kind == IR_LEAF_PARAM ? 'w' : 'x', q->n_param++, t, s);
}

static void put(gen *q, ir_ref r, double mag, bool exact) {
    if (q->m.st != RP_OK) return;
    if (mag > 64) { /* squash, so that nothing grows without bound */
        r = random_op2(&q->m, IR_mul, r, num(q, 1.0 / 64));
        mag /= 64;
        if (mag > 64) {
            r = random_op1(&q->m, IR_tanh, r);
            mag = 1;
        }
        exact = false;
    }
    random_put(&q->m, &q->pool, (item){r, mag, exact});
}

static void act_unary(gen *q) {
    item x = random_any(&q->m, &q->pool);
    ir_ref r = x.ref;
    switch (random_pick(&q->m, 12)) {
    case 0: put(q, random_op1(&q->m, IR_neg, r), x.most, x.exact); break;
    case 1: put(q, random_op1(&q->m, IR_abs, r), x.most, x.exact); break;
    case 2:
        put(q,
            random_op1(&q->m, IR_sqrt,
                       random_op2(&q->m, IR_add, random_op1(&q->m, IR_abs, r), num(q, 0.25))),
            9, false);
        break;
    case 3:
        put(q,
            random_op1(&q->m, IR_rsqrt,
                       random_op2(&q->m, IR_add, random_op1(&q->m, IR_abs, r), num(q, 0.5))),
            2, false);
        break;
    case 4:
        put(q,
            random_op1(&q->m, IR_recip,
                       random_op2(&q->m, IR_add, random_op1(&q->m, IR_abs, r), num(q, 1))),
            1, false);
        break;
    case 5:
        put(q, random_op1(&q->m, IR_exp, random_op1(&q->m, IR_neg, random_op1(&q->m, IR_abs, r))),
            1, false);
        break;
    case 6:
        put(q,
            random_op1(&q->m, IR_log,
                       random_op2(&q->m, IR_add, random_op1(&q->m, IR_abs, r), num(q, 1))),
            5, false);
        break;
    case 7: put(q, random_op1(&q->m, IR_sin, r), 1, false); break;
    case 8: put(q, random_op1(&q->m, IR_cos, r), 1, false); break;
    case 9: put(q, random_op1(&q->m, IR_tanh, r), 1, false); break;
    case 10: put(q, random_op1(&q->m, IR_erf, r), 1, false); break;
    default:
        put(q, random_op2(&q->m, IR_mul, r, random_op1(&q->m, IR_sigmoid, r)), x.most, false);
        break;
    }
}

/* Something that broadcasts against x: itself, a row of weights, a column of its sums, a number. */
static item partner(gen *q, item x) {
    const ir_shape s = *shape_of(q, x.ref);
    item y = random_any(&q->m, &q->pool);
    if (shape_of(q, y.ref)->rank == s.rank && last_size(q, y.ref) == last_size(q, x.ref)) {
        bool same = true;
        for (uint32_t i = 0; i < s.rank; i++) same = same && shape_of(q, y.ref)->dim[i] == s.dim[i];
        if (same) return y;
    }
    switch (random_pick(&q->m, 3)) {
    case 0: return (item){leaf(q, IR_LEAF_PARAM, RP_DTYPE_F32, &s.dim[s.rank - 1], 1), 1, true};
    case 1: return (item){random_reduce(&q->m, IR_amax, x.ref, -1, true), x.most, x.exact};
    default: return (item){num(q, (double)random_pick(&q->m, 9) - 4.25), 4.25, true};
    }
}

static void act_binary(gen *q) {
    item x = random_any(&q->m, &q->pool), y = partner(q, x);
    bool swap = random_pick(&q->m, 2) == 0;
    ir_ref a = swap ? y.ref : x.ref, b = swap ? x.ref : y.ref;
    double top = x.most > y.most ? x.most : y.most;
    switch (random_pick(&q->m, 8)) {
    case 0: put(q, random_op2(&q->m, IR_add, a, b), x.most + y.most, false); break;
    case 1: put(q, random_op2(&q->m, IR_sub, a, b), x.most + y.most, false); break;
    case 2: put(q, random_op2(&q->m, IR_mul, a, b), x.most * y.most, false); break;
    case 3: put(q, random_op2(&q->m, IR_max, a, b), top, x.exact && y.exact); break;
    case 4: put(q, random_op2(&q->m, IR_min, a, b), top, x.exact && y.exact); break;
    case 5: {
        ir_ref den = random_op2(&q->m, IR_add, random_op1(&q->m, IR_abs, b), num(q, 1));
        put(q, random_op2(&q->m, IR_div, a, den), top, false);
        break;
    }
    case 6: {
        ir_ref in[3] = {x.ref, y.ref, x.ref};
        put(q, random_add(&q->m, IR_fma, in, 3, NULL, 0), x.most * y.most + x.most, false);
        break;
    }
    default: {
        ir_ref base = random_op2(&q->m, IR_add, random_op1(&q->m, IR_tanh, x.ref), num(q, 2));
        put(q, random_op2(&q->m, IR_pow, base, num(q, (double)random_pick(&q->m, 5) * 0.5 - 1)), 9,
            false);
        break;
    }
    }
}

static void act_discrete(gen *q) {
    static const ir_op cmp[] = {IR_lt, IR_le, IR_gt, IR_ge, IR_eq, IR_ne};
    static const ir_op step[] = {IR_floor, IR_ceil, IR_round};
    item x = random_exact(&q->m, &q->pool), v = random_any(&q->m, &q->pool);
    if (random_pick(&q->m, 3) == 0) {
        ir_ref big = random_op2(&q->m, IR_mul, x.ref, num(q, 8)); /* a power of two: exact */
        put(q, random_op1(&q->m, step[random_pick(&q->m, 3)], big), x.most * 8, x.most * 8 <= 64);
        return;
    }
    ir_ref c = random_op2(&q->m, cmp[random_pick(&q->m, 6)], x.ref,
                          num(q, (double)random_pick(&q->m, 5) * 0.25 - 0.5));
    ir_ref d = random_op2(&q->m, IR_gt, x.ref, num(q, 0.125));
    if (random_pick(&q->m, 2) == 0)
        c = random_op2(&q->m, random_pick(&q->m, 2) ? IR_and : IR_or, c,
                       random_op1(&q->m, IR_not, d));
    bool fits = shape_of(q, v.ref)->rank == shape_of(q, x.ref)->rank &&
                last_size(q, v.ref) == last_size(q, x.ref);
    ir_ref yes = fits && shape_of(q, v.ref)->dim[0] == shape_of(q, x.ref)->dim[0] ? v.ref : x.ref;
    if (shape_of(q, yes)->rank == 3 && shape_of(q, yes)->dim[1] != shape_of(q, x.ref)->dim[1])
        yes = x.ref;
    ir_ref in[3] = {c, yes, num(q, -1.5)};
    put(q, random_add(&q->m, IR_where, in, 3, NULL, 0),
        v.most > x.most ? v.most + 1.5 : x.most + 1.5, false);
}

static void act_reduce(gen *q) {
    static const ir_op ops[] = {IR_sum, IR_amax, IR_amin};
    item x = random_any(&q->m, &q->pool);
    ir_op op = ops[random_pick(&q->m, 3)];
    double k = (double)last_size(q, x.ref);
    ir_ref r = random_reduce(&q->m, op, x.ref, -1, true);
    if (random_pick(&q->m, 4) == 0 && x.exact) {
        ir_ref i =
            random_cast(&q->m, random_reduce(&q->m, IR_argmax, x.ref, -1, true), RP_DTYPE_F32);
        put(q, random_op2(&q->m, IR_add, x.ref, random_op2(&q->m, IR_mul, i, num(q, 0.0625))),
            x.most + k, false);
        return;
    }
    if (op == IR_sum) r = random_op2(&q->m, IR_mul, r, num(q, 1 / k));
    put(q, random_op2(&q->m, IR_sub, x.ref, r), 2 * x.most, false);
}

static void act_scan(gen *q) {
    item x = random_any(&q->m, &q->pool);
    uint32_t rank = shape_of(q, x.ref)->rank, axis = 1 + random_pick(&q->m, rank - 1);
    ir_attr a = {.key = IR_ATTR_AXIS, .u.i = axis}, k = {.key = IR_ATTR_K, .u.i = 8};
    if (random_pick(&q->m, 2) == 0) { /* sums of up to 64 */
        ir_ref sum = random_add(&q->m, IR_cumsum, &x.ref, 1, &a, 1);
        put(q, random_op2(&q->m, IR_mul, sum, num(q, 1.0 / 64)), x.most, false);
    } else if (last_size(q, x.ref) >= 8) {
        ir_ref top = random_add(&q->m, IR_topk, &x.ref, 1, &k, 1);
        ir_attr second = {.key = IR_ATTR_INDEX, .u.i = 1};
        if (x.exact) /* places of equals are decided by the last bit */
            top = random_op2(&q->m, IR_add, top,
                             random_cast(&q->m, random_add(&q->m, IR_result, &top, 1, &second, 1),
                                         RP_DTYPE_F32));
        put(q, top, x.most + (x.exact ? 64 : 0), false);
    }
}

/* Sorted along an axis, places too where no last bit decides them; and elements at indices that are made of them. */
static void act_order(gen *q) {
    item x = random_any(&q->m, &q->pool);
    uint32_t rank = shape_of(q, x.ref)->rank;
    ir_attr a[] = {{.key = IR_ATTR_AXIS, .u.i = 1 + random_pick(&q->m, rank - 1)},
                   {.key = IR_ATTR_DESCENDING, .u.i = random_pick(&q->m, 2)}};
    if (!x.exact || random_pick(&q->m, 2)) {
        ir_ref r = random_add(&q->m, IR_sort, &x.ref, 1, a, 2);
        ir_attr second = {.key = IR_ATTR_INDEX, .u.i = 1};
        if (x.exact)
            r = random_op2(
                &q->m, IR_add, r,
                random_cast(&q->m, random_add(&q->m, IR_result, &r, 1, &second, 1), RP_DTYPE_F32));
        put(q, r, x.most + (x.exact ? 64 : 0), x.exact);
        return;
    }
    ir_ref in[] = {x.ref, random_cast(&q->m, x.ref, RP_DTYPE_I32),
                   random_op1(&q->m, IR_neg, x.ref)};
    put(q, random_add(&q->m, random_pick(&q->m, 2) ? IR_scatter_amax : IR_scatter, in, 3, a, 1),
        x.most, true);
}

static void act_softmax(gen *q) {
    item x = random_any(&q->m, &q->pool);
    ir_ref e = random_op1(
        &q->m, IR_exp,
        random_op2(&q->m, IR_sub, x.ref, random_reduce(&q->m, IR_amax, x.ref, -1, true)));
    put(q, random_op2(&q->m, IR_div, e, random_reduce(&q->m, IR_sum, e, -1, true)), 1, false);
}

static void act_norm(gen *q) {
    item x = random_any(&q->m, &q->pool);
    const ir_shape s = *shape_of(q, x.ref);
    double k = (double)last_size(q, x.ref);
    ir_ref y = x.ref, w = leaf(q, IR_LEAF_PARAM, RP_DTYPE_F32, &s.dim[s.rank - 1], 1);
    if (random_pick(&q->m, 2) == 0) /* layer norm: subtract the mean first */
        y = random_op2(
            &q->m, IR_sub, y,
            random_op2(&q->m, IR_mul, random_reduce(&q->m, IR_sum, y, -1, true), num(q, 1 / k)));
    ir_ref ms = random_op2(&q->m, IR_mul,
                           random_reduce(&q->m, IR_sum, random_op2(&q->m, IR_mul, y, y), -1, true),
                           num(q, 1 / k));
    ir_ref r = random_op1(&q->m, IR_rsqrt, random_op2(&q->m, IR_add, ms, num(q, 1.0 / 16)));
    put(q, random_op2(&q->m, IR_mul, random_op2(&q->m, IR_mul, y, r), w), 4, false);
}

static ir_ref slice(gen *q, ir_ref r, int64_t axis, int64_t start, int64_t stop) {
    ir_attr a[3] = {{.key = IR_ATTR_AXIS, .u.i = axis},
                    {.key = IR_ATTR_START, .u.dim = size(q, start)},
                    {.key = IR_ATTR_STOP, .u.dim = size(q, stop)}};
    return random_add(&q->m, IR_slice, &r, 1, a, 3);
}

static ir_ref join(gen *q, ir_ref a, ir_ref b) {
    ir_attr at = {.key = IR_ATTR_AXIS, .u.i = -1};
    return random_add(&q->m, IR_concat, (ir_ref[]){a, b}, 2, &at, 1);
}

static void act_view(gen *q) {
    item x = random_any(&q->m, &q->pool);
    const ir_shape s = *shape_of(q, x.ref);
    int64_t k = last_size(q, x.ref), last = (int64_t)s.rank - 1;
    ir_attr a = {.key = IR_ATTR_SHAPE};
    ir_dim dim[3] = {s.dim[0], size(q, 4), size(q, k / 4)};
    int64_t axes[3] = {1, 0, 2};
    switch (random_pick(&q->m, 4)) {
    case 0:
        if (s.rank != 2 || k % 4 != 0) return;
        a.u.dims = dim;
        a.n = 3;
        put(q, random_add(&q->m, IR_reshape, &x.ref, 1, &a, 1), x.most, x.exact);
        return;
    case 1:
        if (s.rank != 3) return;
        a = (ir_attr){.key = IR_ATTR_AXES, .n = 3, .u.ints = axes};
        put(q, random_add(&q->m, IR_permute, &x.ref, 1, &a, 1), x.most, x.exact);
        return;
    case 2:
        if (k >= 8) put(q, slice(q, x.ref, last, k / 4, k), x.most, x.exact);
        return;
    default:
        if (k <= 64) put(q, join(q, x.ref, random_op1(&q->m, IR_neg, x.ref)), x.most, x.exact);
        return;
    }
}

/* Half-split rotation, as in rope. */
static void act_rope(gen *q) {
    item x = random_any(&q->m, &q->pool);
    int64_t k = last_size(q, x.ref), last = (int64_t)shape_of(q, x.ref)->rank - 1;
    if (k % 2 != 0) return;
    ir_dim d = size(q, k);
    ir_ref angle = leaf(q, IR_LEAF_PARAM, RP_DTYPE_F32, &d, 1);
    ir_ref lo = slice(q, x.ref, last, 0, k / 2), hi = slice(q, x.ref, last, k / 2, k);
    ir_ref turned = join(q, random_op1(&q->m, IR_neg, hi), lo);
    put(q,
        random_op2(&q->m, IR_add,
                   random_op2(&q->m, IR_mul, x.ref, random_op1(&q->m, IR_cos, angle)),
                   random_op2(&q->m, IR_mul, turned, random_op1(&q->m, IR_sin, angle))),
        2 * x.most, false);
}

static rp_dtype weight_type(gen *q, int64_t k) {
    static const rp_dtype quant[] = {RP_DTYPE_Q4_0, RP_DTYPE_Q4_1, RP_DTYPE_Q8_0};
    if (q->opt->quant && k % 32 == 0 && random_pick(&q->m, 3) != 0)
        return quant[random_pick(&q->m, 3)];
    if (q->opt->half && random_pick(&q->m, 3) == 0)
        return random_pick(&q->m, 2) ? RP_DTYPE_F16 : RP_DTYPE_BF16;
    return RP_DTYPE_F32;
}

/* [n, k] weights as an f32 value. */
static ir_ref weight(gen *q, int64_t n, int64_t k) {
    rp_dtype t = weight_type(q, k);
    ir_dim dim[2] = {size(q, n), size(q, k)};
    ir_ref w = leaf(q, IR_LEAF_PARAM, t, dim, 2);
    if (rp_dtype_is_quant(t)) return random_op1(&q->m, IR_dequant, w);
    return t == RP_DTYPE_F32 ? w : random_cast(&q->m, w, RP_DTYPE_F32);
}

static void act_matmul(gen *q) {
    static const int64_t widths[] = {8, 32, 48, 64};
    item x = random_any(&q->m, &q->pool);
    if (shape_of(q, x.ref)->rank != 2) return;
    int64_t k = last_size(q, x.ref), n = widths[random_pick(&q->m, 4)];
    ir_ref a = x.ref, w;
    ir_attr trans = {.key = IR_ATTR_TRANS_B, .u.i = 1};
    if (q->opt->quant && k % 32 == 0 && random_pick(&q->m, 2) == 0) {
        ir_attr t = {.key = IR_ATTR_DTYPE, .u.i = RP_DTYPE_I16B32};
        a = random_op1(&q->m, IR_dequant, random_add(&q->m, IR_quantize, &a, 1, &t, 1));
    }
    if (random_pick(&q->m, 4) == 0) {
        trans.u.i = 0;
        ir_dim dim[2] = {size(q, k), size(q, n)};
        w = leaf(q, IR_LEAF_PARAM, RP_DTYPE_F32, dim, 2);
    } else {
        w = weight(q, n, k);
    }
    put(q, random_add(&q->m, IR_matmul, (ir_ref[]){a, w}, 2, &trans, 1), x.most * (double)k / 4,
        false);
}

static ir_ref index_of_rows(gen *q) {
    return leaf(q, IR_LEAF_INPUT, RP_DTYPE_I32, &q->rows, 1);
}

/* One element a row of what was computed, as cross-entropy takes it. */
static void act_pick(gen *q) {
    item x = random_any(&q->m, &q->pool);
    const ir_shape s = *shape_of(q, x.ref);
    int64_t k = last_size(q, x.ref);
    if (s.rank != 2 || s.dim[0] != q->rows) return;
    ir_dim flat = ir_dim_mul_const(ir_graph_dims(q->m.g), s.dim[0], k),
           column[2] = {s.dim[0], size(q, 1)};
    ir_attr a = {.key = IR_ATTR_SHAPE, .n = 1, .u.dims = &flat};
    ir_ref picked = random_op2(&q->m, IR_gather, random_add(&q->m, IR_reshape, &x.ref, 1, &a, 1),
                               index_of_rows(q));
    a = (ir_attr){.key = IR_ATTR_SHAPE, .n = 2, .u.dims = column};
    put(q, random_op2(&q->m, IR_sub, x.ref, random_add(&q->m, IR_reshape, &picked, 1, &a, 1)),
        2 * x.most, false);
}

static void act_gather(gen *q) {
    static const int64_t widths[] = {8, 32, 64};
    int64_t k = widths[random_pick(&q->m, 3)];
    ir_ref w = weight(q, 8 + random_pick(&q->m, 60), k), idx = index_of_rows(q);
    if (q->opt->ints && random_pick(&q->m, 2) == 0) {
        ir_ref two = random_const(&q->m, RP_DTYPE_I32, 2);
        idx = random_op2(&q->m, IR_sub,
                         random_op2(&q->m, IR_max, random_op2(&q->m, IR_mul, idx, two), two), two);
    }
    put(q, random_op2(&q->m, IR_gather, w, idx), 1, true);
}

static void act_iota(gen *q) {
    ir_dim dim[2] = {q->rows, size(q, 32)};
    ir_attr a[3] = {{.key = IR_ATTR_AXIS, .u.i = random_pick(&q->m, 2)},
                    {.key = IR_ATTR_DTYPE, .u.i = q->opt->ints ? RP_DTYPE_I32 : RP_DTYPE_F32},
                    {.key = IR_ATTR_SHAPE, .n = 2, .u.dims = dim}};
    ir_ref r = random_add(&q->m, IR_iota, NULL, 0, a, 3);
    if (q->opt->ints) r = random_cast(&q->m, r, RP_DTYPE_F32);
    put(q, random_op2(&q->m, IR_mul, r, num(q, 0.0625)), 4, true);
}

/* Bits, quotients and shifts of integers made of floats that are exact. */
static void act_ints(gen *q) {
    static const ir_op ops[] = {IR_add,        IR_sub,         IR_mul,          IR_and,
                                IR_or,         IR_xor,         IR_floor_divide, IR_remainder,
                                IR_shift_left, IR_shift_right, IR_fmod};
    static const double numbers[] = {0, -1, 3, -7, 31, 32, 64, 2147483647};
    item x = random_exact(&q->m, &q->pool);
    rp_dtype t = random_pick(&q->m, 2) ? RP_DTYPE_I32 : RP_DTYPE_I64;
    if (!q->opt->ints) return;
    ir_ref a = random_cast(&q->m, random_op2(&q->m, IR_mul, x.ref, num(q, 8)), t), r = a;
    for (uint32_t i = 0; i < 1 + random_pick(&q->m, 4); i++) {
        ir_ref b = random_pick(&q->m, 2) ? random_op1(&q->m, IR_not, a)
                                         : random_const(&q->m, t, numbers[random_pick(&q->m, 8)]);
        r = random_pick(&q->m, 4) ? random_op2(&q->m, ops[random_pick(&q->m, 11)], r, b)
                                  : random_op2(&q->m, ops[random_pick(&q->m, 11)], b, r);
    }
    if (random_pick(&q->m, 3) == 0) /* as a condition */
        r = random_add(&q->m, IR_where,
                       (ir_ref[]){random_op2(&q->m, IR_xor, random_op2(&q->m, IR_lt, r, a),
                                             random_op2(&q->m, IR_ne, a, r)),
                                  a, r},
                       3, NULL, 0);
    put(q,
        random_cast(&q->m, random_op2(&q->m, IR_remainder, r, random_const(&q->m, t, 61)),
                    RP_DTYPE_F32),
        61, true);
}

/* There and back in double precision: exact where the operands are, so that integers and quotients by powers of two stay. */
static void act_double(gen *q) {
    item x = random_exact(&q->m, &q->pool);
    if (!q->opt->half) return;
    ir_ref a = random_cast(&q->m, x.ref, RP_DTYPE_F64),
           third = random_const(&q->m, RP_DTYPE_F64, 1.0 / 3), r;
    switch (random_pick(&q->m, 4)) {
    case 0: r = random_op2(&q->m, IR_mul, a, third); break;
    case 1:
        r = random_op1(&q->m, IR_sqrt,
                       random_op1(&q->m, IR_abs, random_op2(&q->m, IR_add, a, third)));
        break;
    case 2: r = random_op1(&q->m, IR_floor, random_op2(&q->m, IR_div, a, third)); break;
    default: r = random_op2(&q->m, IR_max, a, random_reduce(&q->m, IR_amax, a, -1, true)); break;
    }
    put(q, random_cast(&q->m, r, RP_DTYPE_F32), 3 * x.most + 1, x.most <= 20);
}

static void act_half(gen *q) {
    item x = random_exact(&q->m, &q->pool);
    static const rp_dtype types[] = {RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_F8E4M3FN,
                                     RP_DTYPE_F8E5M2};
    rp_dtype t = types[random_pick(&q->m, 4)];
    if (!q->opt->half) return;
    ir_ref h = random_cast(&q->m, x.ref, t);
    if (rp_dtype_is_float(t) && random_pick(&q->m, 2) == 0)
        h = random_op2(&q->m, IR_max, random_op1(&q->m, IR_neg, h), h);
    put(q, random_cast(&q->m, h, RP_DTYPE_F32), x.most, x.exact);
}

/* --- loops and branches ------------------------------------------------------------- */

static gen body(gen *q, const char *name) {
    gen f = {.m.g = ir_graph_new(name),
             .opt = q->opt,
             .depth = q->depth + 1,
             .m.rng = random_draw(&q->m),
             .m.st = q->m.st,
             .m.err = q->m.err};
    if (!f.m.g) f.m.st = RP_NOMEM;
    return f;
}

/* An argument of the type of x, or of its rows. */
static ir_ref argument(gen *f, gen *q, ir_ref x, bool row) {
    if (f->m.st != RP_OK) return 0;
    const ir_node *n = ir_node_at(q->m.g, x);
    ir_dim dim[IR_MAX_RANK];
    for (uint32_t i = row; i < n->shape.rank; i++)
        dim[i - row] = ir_dim_import(ir_graph_dims(f->m.g), ir_graph_dims(q->m.g), n->shape.dim[i]);
    return leaf(f, IR_LEAF_INPUT, n->dtype, dim, n->shape.rank - row);
}

/* The youngest value of the type of r. */
static ir_ref youngest_like(gen *f, ir_ref r) {
    const ir_shape *s = shape_of(f, r);
    for (uint32_t i = f->pool.n; i-- > 1;) {
        const ir_shape *o = shape_of(f, f->pool.item[i].ref);
        bool same = o->rank == s->rank;
        for (uint32_t d = 0; same && d < s->rank; d++) same = o->dim[d] == s->dim[d];
        if (same) return f->pool.item[i].ref;
    }
    return random_op1(&f->m, IR_neg, r);
}

static void act_control(gen *q);

/* Without leaves, which a body has none of. Loops within loops end at a depth of 2. */
static void act_in_body(gen *f) {
    static void (*const act[])(gen *) = {act_unary, act_unary, act_reduce, act_softmax};
    if (f->depth < 2 && random_pick(&f->m, 5) == 0)
        act_control(f);
    else
        act[random_pick(&f->m, sizeof act / sizeof act[0])](f);
}

static ir_ref chain(gen *f, ir_ref r, double mag) {
    f->pool = (random_pool){.n = 1, .item = {{r, mag, false}}};
    bool more = f->opt->composites && f->m.st == RP_OK && shape_of(f, r)->rank > 0;
    for (uint32_t i = 0; i < 1 + random_pick(&f->m, 3) && f->m.st == RP_OK; i++)
        more ? act_in_body(f) : act_unary(f);
    if (f->m.st != RP_OK) return 0;
    return more ? youngest_like(f, r) : f->pool.item[f->pool.n - 1].ref;
}

static ir_attr finished(gen *q, gen *f, ir_attr_key key, const ir_ref *out, uint32_t n) {
    if (f->m.st == RP_OK) f->m.st = ir_graph_finish(f->m.g, out, n, f->m.err);
    if (q->m.st == RP_OK) q->m.st = f->m.st;
    return (ir_attr){.key = key, .u.graph = f->m.g};
}

/* What a chain of ops makes of x. */
static ir_attr chain_body(gen *q, ir_attr_key key, item x) {
    gen f = body(q, "chain");
    ir_ref r = chain(&f, argument(&f, q, x.ref, false), x.most);
    return finished(q, &f, key, &r, 1);
}

static ir_ref draw_while(gen *q, item x) {
    ir_ref in[] = {random_const(&q->m, RP_DTYPE_I32, 0), x.ref};
    gen c = body(q, "more"), f = body(q, "next");
    ir_ref i = argument(&c, q, in[0], false), out[2];
    (void)argument(&c, q, x.ref, false);
    i = random_op2(&c.m, IR_lt, i, random_const(&c.m, RP_DTYPE_I32, random_pick(&q->m, 4)));
    out[0] = argument(&f, q, in[0], false);
    out[1] = chain(&f, argument(&f, q, x.ref, false), x.most);
    out[0] = random_op2(&f.m, IR_add, out[0], random_const(&f.m, RP_DTYPE_I32, 1));
    ir_attr a[] = {finished(q, &c, IR_ATTR_COND, &i, 1), finished(q, &f, IR_ATTR_BODY, out, 2)};
    ir_ref w = random_add(&q->m, IR_while, in, 2, a, 2);
    w = random_add(&q->m, IR_result, &w, 1, &(ir_attr){.key = IR_ATTR_INDEX, .u.i = 1}, 1);
    ir_graph_free(c.m.g);
    ir_graph_free(f.m.g);
    return w;
}

/* The rows of x, each with what came before. */
static ir_ref draw_scan(gen *q, item x) {
    ir_ref in[] = {random_reduce(&q->m, IR_amax, x.ref, 0, false), x.ref}, out[2];
    gen f = body(q, "row");
    ir_ref h = argument(&f, q, in[0], false), row = argument(&f, q, x.ref, true);
    out[0] = random_op2(&f.m, IR_max, random_op1(&f.m, IR_tanh, h), row);
    out[1] = random_op2(&f.m, IR_sub, chain(&f, row, x.most), h);
    ir_attr a[] = {finished(q, &f, IR_ATTR_BODY, out, 2),
                   {.key = IR_ATTR_CARRIED, .u.i = 1},
                   {.key = IR_ATTR_SLICED, .u.i = 1}};
    ir_ref s = random_add(&q->m, IR_scan, in, 2, a, 3);
    ir_graph_free(f.m.g);
    return random_op2(
        &q->m, IR_add,
        random_add(&q->m, IR_result, &s, 1, &(ir_attr){.key = IR_ATTR_INDEX, .u.i = 1}, 1), s);
}

static ir_ref draw_cond(gen *q, item x) {
    ir_attr size[] = {{.key = IR_ATTR_DTYPE, .u.i = RP_DTYPE_I32},
                      {.key = IR_ATTR_SIZE, .u.dim = shape_of(q, x.ref)->dim[0]}};
    ir_ref rows = random_add(&q->m, IR_size, NULL, 0, size, 2);
    ir_ref in[] = {
        random_op2(&q->m, IR_gt, rows, random_const(&q->m, RP_DTYPE_I32, random_pick(&q->m, 8))),
        x.ref};
    ir_attr a[] = {chain_body(q, IR_ATTR_THEN, x), chain_body(q, IR_ATTR_ELSE, x)};
    ir_ref r = random_add(&q->m, IR_cond, in, 2, a, 2);
    for (int i = 0; i < 2; i++) ir_graph_free((ir_graph *)(uintptr_t)a[i].u.graph);
    return r;
}

static ir_ref draw_call(gen *q, item x) {
    ir_attr a = chain_body(q, IR_ATTR_BODY, x);
    ir_ref r = random_add(&q->m, IR_call, &x.ref, 1, &a, 1);
    ir_graph_free((ir_graph *)(uintptr_t)a.u.graph);
    return r;
}

static void act_control(gen *q) {
    static ir_ref (*const kind[])(gen *, item) = {draw_call, draw_cond, draw_while, draw_scan};
    item x = random_any(&q->m, &q->pool);
    uint32_t k = random_pick(&q->m, 4);
    ir_ref r = kind[k](q, x);
    put(q, r, k == 3 ? 2 * x.most + 64 : x.most > 9 ? x.most : 9, false);
}

/* Of any shape; what does not fit into the pool leaves its sum in one that does. */
static void act_composite(gen *q) {
    item x = random_any(&q->m, &q->pool), y = random_composite(&q->m, x);
    int64_t k;
    if (q->m.st != RP_OK || y.ref == x.ref) return;
    const ir_shape s = *shape_of(q, y.ref);
    bool fits = (s.rank == 2 || s.rank == 3) &&
                ir_dim_is_const(ir_graph_dims(q->m.g), s.dim[s.rank - 1], &k) && k <= 128;
    if (!fits) {
        for (uint32_t i = 0; i < s.rank; i++)
            y.ref = random_op2(&q->m, IR_mul, random_reduce(&q->m, IR_sum, y.ref, 0, false),
                               num(q, 1.0 / 64));
        y = (item){random_op2(&q->m, IR_add, x.ref, random_op1(&q->m, IR_tanh, y.ref)), x.most + 1,
                   false};
    }
    put(q, y.ref, y.most, y.exact);
}

static void step(gen *q) {
    static void (*const act[])(gen *) = {
        act_unary,    act_unary,  act_unary,  act_binary,  act_binary, act_binary,
        act_binary,   act_reduce, act_norm,   act_softmax, act_view,   act_view,
        act_matmul,   act_matmul, act_gather, act_rope,    act_iota,   act_half,
        act_discrete, act_scan,   act_pick,   act_ints,    act_double, act_order,
    };
    if (q->opt->control && random_pick(&q->m, 4) == 0)
        act_control(q);
    else if (q->opt->composites && random_pick(&q->m, 4) == 0)
        act_composite(q);
    else
        act[random_pick(&q->m, sizeof act / sizeof act[0])](q);
}

static void leaves(gen *q) {
    static const int64_t widths[] = {8, 32, 64};
    ir_dims *t = ir_graph_dims(q->m.g);
    q->rows = q->opt->symbolic ? ir_dim_symbol(t, "T", 1, 64, 1)
                               : size(q, 1 + random_pick(&q->m, 5));
    for (uint32_t i = 0; i < 1 + random_pick(&q->m, 2); i++) {
        ir_dim dim[2] = {q->rows, size(q, widths[random_pick(&q->m, 3)])};
        put(q, leaf(q, IR_LEAF_INPUT, RP_DTYPE_F32, dim, 2), 1, true);
    }
}

rp_status random_graph_new(uint64_t seed, const random_graph_options *opt, ir_graph **out,
                           rp_error *err) {
    gen q = {.m.g = ir_graph_new("random"), .opt = opt, .m.rng = seed * 977 + 1, .m.err = err};
    if (!q.m.g) return RP_NOMEM;
    leaves(&q);
    for (uint32_t i = 0; i < opt->n_steps && q.m.st == RP_OK; i++) step(&q);
    uint32_t n = q.m.st == RP_OK ? 1 + random_pick(&q.m, 3) : 0;
    return random_finish(&q.m, &q.pool, n, out);
}

static rp_status leaf_value(const ir_graph *g, ir_ref r, const int64_t *symbols, uint64_t seed,
                            ir_value *out, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    int64_t dim[IR_MAX_RANK];
    for (uint32_t i = 0; i < n->shape.rank; i++)
        dim[i] = ir_dim_eval(ir_graph_dims(g), n->shape.dim[i], symbols);
    return ir_random_value(n->dtype, dim, n->shape.rank, 64, seed, out, err);
}

rp_status random_leaves_new(const ir_graph *g, uint64_t seed, random_leaves *out, rp_error *err) {
    gen q = {.m.rng = seed};
    const ir_dims *t = ir_graph_dims(g);
    uint32_t n_sym = ir_dims_symbol_count(t);
    *out = (random_leaves){.symbols = base_alloc_array(n_sym + 1, sizeof(int64_t))};
    if (!out->symbols) return RP_NOMEM;
    for (uint32_t i = 0; i < n_sym; i++) {
        const ir_symbol *y = ir_dims_symbol(t, i);
        int64_t d = y->divisor, lo = (y->min + d - 1) / d, hi = y->max / d;
        out->symbols[i] = (lo + random_pick(&q.m, (uint32_t)(hi - lo > 15 ? 16 : hi - lo + 1))) * d;
    }
    rp_status st = RP_OK;
    for (int k = 0; k < 3; k++) {
        uint32_t n = ir_leaf_count(g, (ir_leaf)k);
        out->leaf[k] = base_alloc_array(n + 1, sizeof(ir_value));
        if (!out->leaf[k]) st = RP_NOMEM;
        for (uint32_t i = 0; st == RP_OK && i < n; i++) {
            st = leaf_value(g, ir_leaf_at(g, (ir_leaf)k, i), out->symbols, random_draw(&q.m),
                            &out->leaf[k][i], err);
            if (st == RP_OK) out->n[k]++;
        }
    }
    if (st != RP_OK) random_leaves_done(out);
    return st;
}

void random_leaves_done(random_leaves *v) {
    for (int k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < v->n[k]; i++) ir_value_done(&v->leaf[k][i]);
        base_free(v->leaf[k]);
    }
    base_free(v->symbols);
    *v = (random_leaves){0};
}

double random_graph_error(const ir_value *want, const double *got) {
    double top = 1, worst = 0;
    for (int64_t i = 0; i < want->n; i++) {
        double a = want->data[i], b = got[i], d = fabs(a - b);
        if (a == b || (isnan(a) && isnan(b))) continue;
        if (!isfinite(a) || !isfinite(b)) return (double)INFINITY;
        top = fabs(a) > top ? fabs(a) : top;
        worst = d > worst ? d : worst;
    }
    return worst / top;
}
