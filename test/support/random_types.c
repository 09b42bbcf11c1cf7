/* See random_types.h. */
#include "support/random_types.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/random_maker.h"

enum { TYPES_SYMBOLS = 3, TYPES_ELEMENTS = 3000, TYPES_OUTPUTS = 8, TYPES_OWN = 3 };

typedef struct types_gen {
    random_maker m;
    random_pool pool;
    uint32_t n_leaves, depth; /* of bodies, which have no leaves of their own */
    ir_dim symbol[TYPES_SYMBOLS];
    rp_dtype type
        [TYPES_OWN]; /* most leaves are of these, and of this shape, so that ops find partners */
    ir_shape shape;
} types_gen;

static const rp_dtype types_all[] = {
    RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_I32,    RP_DTYPE_I64,
    RP_DTYPE_I16, RP_DTYPE_I8,  RP_DTYPE_U8,  RP_DTYPE_BOOL, RP_DTYPE_F8E5M2, RP_DTYPE_F8E4M3FN};
enum { TYPES_COUNT = sizeof types_all / sizeof *types_all };

static uint32_t types_pick(types_gen *q, uint32_t n) {
    return random_pick(&q->m, n);
}

static const ir_node *types_node(const types_gen *q, ir_ref r) {
    return ir_node_at(q->m.g, r);
}

static ir_dims *types_dims(const types_gen *q) {
    return ir_graph_dims(q->m.g);
}

static int64_t types_least(const types_gen *q, ir_dim d, bool most) {
    int64_t lo, hi;
    ir_dim_bounds(types_dims(q), d, &lo, &hi);
    return most ? hi : lo;
}

static bool types_is_int(rp_dtype t) {
    return t == RP_DTYPE_I32 || t == RP_DTYPE_I64;
}

/* --- the pool ------------------------------------------------------------------------------ */

static bool types_fits(const types_gen *q, const ir_shape *s) {
    int64_t n = 1;
    uint32_t terms = 0, value = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t hi = types_least(q, s->dim[i], true), v;
        n *= hi > 0 ? hi : 1;
        terms += !ir_dim_is_const(types_dims(q), s->dim[i], &v);
        value |= n > TYPES_ELEMENTS;
    }
    return !value && terms <= 3;
}

/* Keeps r, made small again where it has grown. */
static void types_put(types_gen *q, ir_ref r, double most, bool exact) {
    if (q->m.st != RP_OK) return;
    const ir_node *n = types_node(q, r);
    const rp_dtype t = n->dtype;
    if (rp_dtype_is_quant(t) || !types_fits(q, &n->shape)) return;
    if (ir_dtype_is_small(t)) most = fmin(most, t == RP_DTYPE_I16 ? 32768 : 256); /* wraps */
    if (most > 100 && types_is_int(t)) {
        r = random_op2(&q->m, IR_remainder, r, random_const(&q->m, t, 97));
        most = 97;
    } else if (most > 100 && ir_dtype_is_real(t) && !ir_dtype_is_f8(t)) {
        r = random_op2(&q->m, IR_max, r, random_const(&q->m, t, -100));
        r = random_op2(&q->m, IR_min, r, random_const(&q->m, t, 100));
        most = 100;
    }
    random_put(&q->m, &q->pool, (random_item){r, most, exact});
}

/* Adds a node where its rule takes it; the first failure of another kind stays. */
static bool types_try(types_gen *q, ir_op op, const ir_ref *in, uint32_t n, const ir_attr *a,
                      uint32_t n_a, ir_ref *out) {
    rp_error why = {0};
    if (q->m.st != RP_OK) return false;
    rp_status st = ir_add(q->m.g, op, in, n, a, n_a, out, &why);
    if (st == RP_NOMEM) q->m.st = rp_fail(q->m.err, st, "%s", why.text);
    return st == RP_OK;
}

static ir_ref types_leaf(types_gen *q, rp_dtype t, ir_shape s) {
    const ir_leaf kind = (q->n_leaves + 1) % 3 ? IR_LEAF_INPUT : IR_LEAF_PARAM;
    return random_leaf(&q->m, kind, 't', q->n_leaves++, t, s);
}

static double types_most_of(rp_dtype t) {
    return ir_dtype_is_real(t) || t == RP_DTYPE_BOOL ? 1 : 64;
}

static ir_dim types_size(types_gen *q) {
    switch (types_pick(q, 8)) {
    case 0: return q->symbol[types_pick(q, TYPES_SYMBOLS)];
    case 1: return ir_dim_add(types_dims(q), q->symbol[0], ir_dim_const(types_dims(q), 1));
    case 2: return ir_dim_const(types_dims(q), 1);
    default: return ir_dim_const(types_dims(q), 1 + types_pick(q, 9));
    }
}

static rp_dtype types_type(types_gen *q) {
    return types_pick(q, 3) ? q->type[types_pick(q, TYPES_OWN)]
                            : types_all[types_pick(q, TYPES_COUNT)];
}

static ir_shape types_shape(types_gen *q) {
    ir_shape s = {.rank = types_pick(q, IR_MAX_RANK + 1)};
    for (uint32_t i = 0; i < s.rank; i++) s.dim[i] = types_size(q);
    while (!types_fits(q, &s)) s.dim[types_pick(q, s.rank)] = ir_dim_const(types_dims(q), 1);
    return s;
}

static void types_new_leaf(types_gen *q) {
    const rp_dtype t = types_type(q);
    const ir_shape s = types_pick(q, 3) ? q->shape : types_shape(q);
    if (q->depth) return;
    ir_ref r = types_leaf(q, t, s);
    const bool far = ir_dtype_is_real(t) && !ir_dtype_is_f8(t) && types_pick(q, 2);
    if (far) r = random_op2(&q->m, IR_mul, r, random_const(&q->m, t, 64)); /* exact */
    types_put(q, r, far ? 64 : types_most_of(t), true);
}

/* Often the youngest, so that ops stand on each other. */
static random_item types_any(types_gen *q) {
    if (types_pick(q, 24) == 0) types_new_leaf(q);
    return types_pick(q, 4) ? q->pool.item[q->pool.n - 1] : random_any(&q->m, &q->pool);
}

static random_item types_exact(types_gen *q) {
    const random_item x = q->pool.item[q->pool.n - 1];
    return x.exact && types_pick(q, 2) ? x : random_exact(&q->m, &q->pool);
}

static bool types_alike(const types_gen *q, ir_ref a, ir_ref b) {
    const ir_node *x = types_node(q, a), *y = types_node(q, b);
    bool same = x->shape.rank == y->shape.rank && x->dtype == y->dtype;
    for (uint32_t i = 0; same && i < x->shape.rank; i++) same = x->shape.dim[i] == y->shape.dim[i];
    return same;
}

/* Of the type of x: a value that is there, a constant, a leaf that broadcasts against it. */
static random_item types_partner(types_gen *q, random_item x) {
    const ir_node *n = types_node(q, x.ref);
    const rp_dtype t = n->dtype;
    ir_shape own = n->shape;
    for (uint32_t i = 0; i < 6; i++) {
        random_item y = types_any(q);
        if (y.ref != x.ref && types_alike(q, x.ref, y.ref)) return y;
    }
    if (q->depth || types_pick(q, 4) == 0) {
        const double v = t == RP_DTYPE_BOOL ? types_pick(q, 2) : (double)types_pick(q, 9) - 4;
        return (random_item){random_const(&q->m, t, t == RP_DTYPE_U8 ? fabs(v) : v), 4, true};
    }
    own.rank = types_pick(q, 3) ? own.rank : types_pick(q, own.rank + 1);
    memmove(own.dim, own.dim + (types_node(q, x.ref)->shape.rank - own.rank),
            own.rank * sizeof *own.dim);
    for (uint32_t i = 0; i < own.rank; i++)
        if (types_pick(q, 4) == 0) own.dim[i] = ir_dim_const(types_dims(q), 1);
    return (random_item){types_leaf(q, t, own), types_most_of(t), true};
}

/* --- elementwise ------------------------------------------------------------------------------ */

/* The same result in every implementation of values that are the same. */
static bool types_is_exact(ir_op op, rp_dtype t) {
    switch (op) {
    case IR_add:
    case IR_sub:
    case IR_mul: return !ir_dtype_is_real(t);
    case IR_sqrt:
    case IR_rsqrt:
    case IR_recip:
    case IR_exp:
    case IR_log:
    case IR_sin:
    case IR_cos:
    case IR_tanh:
    case IR_erf:
    case IR_sigmoid:
    case IR_div:
    case IR_pow:
    case IR_fma: return false;
    default: return true;
    }
}

/* What is near stays near. */
static bool types_is_smooth(ir_op op) {
    return !types_is_exact(op, RP_DTYPE_F32) || op == IR_neg || op == IR_abs || op == IR_max ||
           op == IR_min;
}

/* |x| + 1/2, away from poles and from what has no real result. */
static ir_ref types_above(types_gen *q, ir_ref x) {
    ir_ref half = random_const(&q->m, types_node(q, x)->dtype, 0.5);
    return random_op2(&q->m, IR_add, random_op1(&q->m, IR_abs, x), half);
}

static double types_grown(ir_op op, double a, double b) {
    switch (op) {
    case IR_exp: return 3;
    case IR_log: return 5;
    case IR_sin:
    case IR_cos:
    case IR_tanh:
    case IR_erf:
    case IR_sigmoid: return 1;
    case IR_recip:
    case IR_rsqrt: return 2;
    case IR_mul: return a * b;
    case IR_fma: return a * b + b;
    case IR_div: return 2 * a;
    case IR_pow: return 200;
    case IR_shift_left:
    case IR_philox:
    case IR_and:
    case IR_or:
    case IR_not:
    case IR_xor: return 1e9;
    default: return a + b + 1;
    }
}

static void types_elementwise(types_gen *q) {
    ir_op op = (ir_op)types_pick(q, IR_OP_COUNT_);
    while (ir_op_table(op)->kind != IR_KIND_ELEMENTWISE) op = (ir_op)types_pick(q, IR_OP_COUNT_);
    const ir_op_info *info = ir_op_table(op);
    if (op == IR_cast || op == IR_bitcast || op == IR_where) return;
    random_item x = types_any(q), y = info->arity > 1 ? types_partner(q, x) : x;
    const rp_dtype t = types_node(q, x.ref)->dtype;
    const bool real = ir_dtype_is_real(t), exact = x.exact && y.exact;
    ir_ref in[3] = {x.ref, y.ref, x.ref}, r;
    if (q->m.st != RP_OK || (real && !exact && !types_is_smooth(op))) return;
    if (real && ir_dtype_is_f8(t) && op != IR_eq && op != IR_ne) return;
    if (real && (op == IR_sqrt || op == IR_rsqrt || op == IR_recip || op == IR_log || op == IR_pow))
        in[0] = types_above(q, x.ref);
    if (real && op == IR_div) in[1] = types_above(q, y.ref);
    if (real && op == IR_exp) /* of what is negative */
        in[0] = random_op2(&q->m, IR_min, x.ref, random_const(&q->m, t, 1));
    if (real && op == IR_pow) in[1] = random_const(&q->m, t, types_pick(q, 7) * 0.5 - 1.5);
    if (types_try(q, op, in, (uint32_t)info->arity, NULL, 0, &r))
        types_put(q, r,
                  types_node(q, r)->dtype == RP_DTYPE_BOOL ? 1 : types_grown(op, x.most, y.most),
                  exact && types_is_exact(op, t));
}

static void types_where(types_gen *q) {
    random_item x = types_any(q), y = types_partner(q, x), c = types_partner(q, x), k;
    ir_ref r;
    if (!c.exact ||
        !types_try(q, random_pick(&q->m, 2) ? IR_le : IR_ne, (ir_ref[]){c.ref, x.ref}, 2, NULL, 0,
                   &k.ref) ||
        !x.exact)
        k.ref = random_const(&q->m, RP_DTYPE_BOOL, types_pick(q, 2));
    if (types_try(q, IR_where, (ir_ref[]){k.ref, x.ref, y.ref}, 3, NULL, 0, &r))
        types_put(q, r, x.most + y.most, x.exact && y.exact);
}

static void types_cast(types_gen *q) {
    random_item x = types_exact(q);
    const rp_dtype t = types_type(q);
    if (x.exact && t != types_node(q, x.ref)->dtype)
        types_put(q, random_cast(&q->m, x.ref, t), x.most + 1, true);
}

static ir_ref types_as(types_gen *q, ir_ref r, rp_dtype t) {
    return random_add(&q->m, IR_bitcast, &r, 1, &(ir_attr){.key = IR_ATTR_DTYPE, .u.i = t}, 1);
}

/* An integer type of as many bits, and in it those of 1 and of all fractions of t, and of its sign. */
typedef struct types_bits {
    rp_dtype t, as;
    double one, fraction, sign;
} types_bits;

static const types_bits types_with_bits[] = {
    {RP_DTYPE_F32, RP_DTYPE_I32, 0x3f800000, 0x7fffff, -0x1p31},
    {RP_DTYPE_F64, RP_DTYPE_I64, 0x3ffp52, 0xfffffffffffff, -0x1p63},
    {RP_DTYPE_F16, RP_DTYPE_I16, 0x3c00, 0x3ff, -0x1p15},
    {RP_DTYPE_BF16, RP_DTYPE_I16, 0x3f80, 0x7f, -0x1p15},
    {RP_DTYPE_F8E4M3FN, RP_DTYPE_I8, 0x38, 7, -128},
    {RP_DTYPE_F8E5M2, RP_DTYPE_U8, 0x3c, 3, 128}};

/* The bits of a float, those of a number in [1, 2), or a number with its sign turned around in between. Which NaN, and which zero of
 * two in a reduction, is left open, so that they are no other bits. */
static void types_bitcast(types_gen *q) {
    const types_bits *b = &types_with_bits[types_pick(q, 6)];
    random_item x = types_exact(q);
    const rp_dtype t = types_node(q, x.ref)->dtype;
    ir_ref r = x.ref, number;
    if (!x.exact) return;
    if (t == b->as && types_pick(q, 2)) {
        r = random_op2(&q->m, IR_and, r, random_const(&q->m, t, b->fraction));
        r = random_op2(&q->m, IR_or, r, random_const(&q->m, t, b->one));
        types_put(q, types_as(q, r, b->t), 2, true);
        return;
    }
    for (b = types_with_bits; b->t != t; b++)
        if (b == &types_with_bits[5]) return;
    number = random_op2(&q->m, IR_eq, r, r);
    if (!ir_dtype_is_f8(t)) r = random_op2(&q->m, IR_add, r, random_const(&q->m, t, 0));
    const ir_ref zero = random_const(&q->m, t, 0);
    r = random_add(&q->m, IR_where, (ir_ref[]){number, r, zero}, 3, NULL, 0);
    r = types_as(q, r, b->as);
    if (types_pick(q, 2)) {
        types_put(q, r, 1e9, true);
        return;
    }
    r = random_op2(&q->m, IR_xor, r, random_const(&q->m, b->as, b->sign));
    types_put(q, types_as(q, r, t), x.most, true);
}

/* Numbers of four bits, into bytes, or out of them, or both. */
static void types_i4(types_gen *q) {
    random_item x = types_exact(q);
    const rp_dtype t = types_pick(q, 2) ? RP_DTYPE_U8 : RP_DTYPE_I8,
                   own = types_node(q, x.ref)->dtype;
    const ir_attr to = {.key = IR_ATTR_DTYPE, .u.i = t};
    const uint32_t rank = types_node(q, x.ref)->shape.rank, what = types_pick(q, 4);
    ir_ref r = x.ref;
    if (!x.exact || rank == 0) return;
    if (what == 0) {
        if (own != RP_DTYPE_U8) r = random_cast(&q->m, r, RP_DTYPE_U8);
    } else {
        const ir_attr last = {.key = IR_ATTR_AXIS, .u.i = rank - 1};
        if (own != t) r = random_cast(&q->m, r, t);
        if (!types_try(q, IR_concat, (ir_ref[]){r, r}, 2, &last, 1, &r)) return;
        r = random_op1(&q->m, IR_pack_i4, r);
    }
    if (what < 2) r = random_add(&q->m, IR_unpack_i4, &r, 1, &to, 1);
    types_put(q, r, what < 2 ? 15 : 255, true);
}

/* Here and there what is no number, or the zero below 0. */
static void types_special(types_gen *q) {
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0};
    random_item x = types_exact(q);
    const rp_dtype t = types_node(q, x.ref)->dtype;
    ir_ref at, r;
    if (!x.exact || !ir_dtype_is_real(t) || ir_dtype_is_f8(t)) return;
    at = random_op2(&q->m, IR_lt, x.ref, random_const(&q->m, t, -0.7));
    r = random_const(&q->m, t, odd[types_pick(q, 4)]);
    types_put(q, random_add(&q->m, IR_where, (ir_ref[]){at, r, x.ref}, 3, NULL, 0), x.most, true);
}

/* --- along an axis ---------------------------------------------------------------------------- */

static void types_reduce(types_gen *q) {
    static const ir_op ops[] = {IR_sum, IR_prod, IR_amax, IR_amin, IR_argmax, IR_cumsum};
    const ir_op op = ops[types_pick(q, 6)];
    random_item x = types_any(q);
    const ir_node *n = types_node(q, x.ref);
    const rp_dtype t = n->dtype;
    ir_ref in = x.ref, r;
    if (n->shape.rank == 0) return;
    ir_attr a[] = {{.key = IR_ATTR_AXIS, .u.i = types_pick(q, n->shape.rank)},
                   {.key = IR_ATTR_KEEP, .u.i = types_pick(q, 2)}};
    const ir_dim d = n->shape.dim[a[0].u.i];
    const bool joins = op == IR_sum || op == IR_prod || op == IR_cumsum, real = ir_dtype_is_real(t);
    double most = op == IR_argmax ? (double)types_least(q, d, true) + 1 : x.most;
    if ((!joins && types_least(q, d, false) < 1) || (op == IR_argmax && !x.exact)) return;
    if (op == IR_sum || op == IR_cumsum) most *= (double)types_least(q, d, true) + 1;
    if (op == IR_prod && real && !ir_dtype_is_f8(t)) { /* of what is near 1 */
        in = random_op2(&q->m, IR_min, x.ref, random_const(&q->m, t, 0.25));
        in = random_op2(&q->m, IR_max, in, random_const(&q->m, t, -0.25));
        in = random_op2(&q->m, IR_add, in, random_const(&q->m, t, 1));
        most = 200;
    } else if (op == IR_prod) {
        most = 1e9;
    }
    if (types_try(q, op, &in, 1, a, op == IR_cumsum ? 1 : 2, &r))
        types_put(q, r, most, x.exact && !(joins && real));
}

static ir_ref types_result(types_gen *q, ir_ref r, int64_t i) {
    return i ? random_add(&q->m, IR_result, &r, 1, &(ir_attr){.key = IR_ATTR_INDEX, .u.i = i}, 1)
             : r;
}

static void types_order(types_gen *q) {
    random_item x = types_exact(q);
    const ir_shape s = types_node(q, x.ref)->shape;
    ir_ref r;
    if (s.rank == 0 || !x.exact) return;
    ir_attr a[] = {{.key = IR_ATTR_AXIS, .u.i = types_pick(q, s.rank)},
                   {.key = IR_ATTR_DESCENDING, .u.i = types_pick(q, 2)}};
    const int64_t n = types_least(q, s.dim[s.rank - 1], false);
    ir_attr k = {.key = IR_ATTR_K, .u.i = n > 0 ? 1 + types_pick(q, (uint32_t)n) : 0};
    const bool top = n > 0 && types_pick(q, 2);
    if (types_try(q, top ? IR_topk : IR_sort, &x.ref, 1, top ? &k : a, top ? 1 : 2, &r))
        types_put(q, types_result(q, r, types_pick(q, 2)), x.most + 10, true);
}

static void types_scatter(types_gen *q) {
    static const ir_op ops[] = {IR_scatter, IR_scatter_add, IR_scatter_prod, IR_scatter_amax,
                                IR_scatter_amin};
    const ir_op op = ops[types_pick(q, 5)];
    random_item x = types_any(q);
    const ir_shape s = types_node(q, x.ref)->shape;
    const rp_dtype t = types_node(q, x.ref)->dtype;
    const bool joins = op == IR_scatter_add || op == IR_scatter_prod;
    ir_shape src = s, index;
    ir_ref r;
    if (s.rank == 0 || q->depth) return;
    const uint32_t axis = types_pick(q, s.rank);
    src.dim[axis] = ir_dim_const(types_dims(q), 1 + types_pick(q, 7));
    index = src;
    for (uint32_t i = axis + 1; i < s.rank && axis % 2; i++)
        index.dim[i] = ir_dim_const(types_dims(q), 1);
    ir_attr a = {.key = IR_ATTR_AXIS, .u.i = axis};
    ir_ref in[] = {x.ref, types_leaf(q, types_pick(q, 2) ? RP_DTYPE_I32 : RP_DTYPE_I64, index),
                   types_leaf(q, t, src)};
    if (types_try(q, op, in, 3, &a, 1, &r))
        types_put(q, r, joins ? 1e9 : x.most + 64, x.exact && !(joins && ir_dtype_is_real(t)));
}

/* --- views and moves ------------------------------------------------------------------------- */

static void types_view(types_gen *q) {
    random_item x = types_any(q);
    const ir_shape s = types_node(q, x.ref)->shape;
    ir_shape to = {0};
    ir_dims *d = types_dims(q);
    int64_t axes[IR_MAX_RANK];
    ir_ref r = x.ref;
    if (s.rank == 0) return;
    const uint32_t at = types_pick(q, s.rank);
    const ir_dim half = ir_dim_floordiv(d, s.dim[at], 2), none = ir_dim_const(d, 0);
    ir_attr a = {.key = IR_ATTR_AXES, .n = s.rank, .u.ints = axes};
    switch (types_pick(q, 4)) {
    case 0: /* turned */
        for (uint32_t i = 0; i < s.rank; i++) axes[i] = (i + at) % s.rank;
        if (at) r = random_add(&q->m, IR_permute, &x.ref, 1, &a, 1);
        break;
    case 1: /* flat from at on */
        for (uint32_t i = 0; i < s.rank; i++) {
            if (i <= at)
                to.dim[to.rank++] = s.dim[i];
            else
                to.dim[at] = ir_dim_mul(d, to.dim[at], s.dim[i]);
        }
        a = (ir_attr){.key = IR_ATTR_SHAPE, .n = to.rank, .u.dims = to.dim};
        (void)types_try(q, IR_reshape, &x.ref, 1, &a, 1, &r); /* not what may be negative */
        break;
    case 2:
        r = types_pick(q, 2) ? random_slice(&q->m, r, at, none, half)
                             : random_slice(&q->m, r, at, half, s.dim[at]);
        break;
    default:
        if (s.rank == IR_MAX_RANK) return;
        to = (ir_shape){.rank = s.rank + 1};
        to.dim[0] = types_size(q);
        memcpy(to.dim + 1, s.dim, s.rank * sizeof *s.dim);
        a = (ir_attr){.key = IR_ATTR_SHAPE, .n = to.rank, .u.dims = to.dim};
        r = random_add(&q->m, IR_broadcast, &x.ref, 1, &a, 1);
    }
    if (r != x.ref) types_put(q, r, x.most, x.exact);
}

static void types_move(types_gen *q) {
    random_item x = types_any(q);
    const ir_shape s = types_node(q, x.ref)->shape;
    ir_shape own = s, index = {.rank = types_pick(q, 3)};
    ir_attr a = {.key = IR_ATTR_AXIS, .u.i = s.rank ? types_pick(q, s.rank) : 0};
    ir_ref in[3] = {x.ref, x.ref, x.ref}, r;
    if (types_pick(q, 4) == 0) {
        types_put(q, random_op1(&q->m, IR_copy, x.ref), x.most, x.exact);
        return;
    }
    if (s.rank == 0 || q->depth) return;
    if (types_pick(q, 2)) {
        own.dim[a.u.i] = types_size(q);
        in[types_pick(q, 3)] = types_leaf(q, types_node(q, x.ref)->dtype, own);
        if (types_try(q, IR_concat, in, 2 + types_pick(q, 2), &a, 1, &r))
            types_put(q, r, x.most + 64, x.exact);
        return;
    }
    if (s.rank - 1 + index.rank > IR_MAX_RANK || types_least(q, s.dim[0], false) < 1) return;
    for (uint32_t i = 0; i < index.rank; i++) index.dim[i] = types_size(q);
    in[1] = types_leaf(q, types_pick(q, 2) ? RP_DTYPE_I32 : RP_DTYPE_I64, index);
    types_put(q, random_op2(&q->m, IR_gather, in[0], in[1]), x.most, x.exact);
}

/* Rows, or whole blocks, of a weight of a block format. */
static void types_blocks(types_gen *q) {
    static const rp_dtype quant[] = {RP_DTYPE_Q4_0, RP_DTYPE_Q4_1, RP_DTYPE_Q8_0};
    ir_dims *d = types_dims(q);
    ir_shape s = {.rank = 1 + types_pick(q, 3)}, index = {.rank = 1, .dim = {types_size(q)}};
    const rp_dtype t = quant[types_pick(q, 3)];
    if (q->depth) return;
    for (uint32_t i = 0; i + 1 < s.rank; i++) s.dim[i] = ir_dim_const(d, 1 + types_pick(q, 6));
    s.dim[s.rank - 1] = ir_dim_const(d, 64);
    ir_ref w = types_leaf(q, t, s), r = w;
    ir_attr a = {.key = IR_ATTR_AXIS, .u.i = types_pick(q, s.rank)};
    switch (types_pick(q, 4)) {
    case 0: r = random_slice(&q->m, w, s.rank - 1, ir_dim_const(d, 32), ir_dim_const(d, 64)); break;
    case 1:
        (void)types_try(q, IR_concat, (ir_ref[]){w, types_leaf(q, t, s), w}, 3, &a, 1, &r);
        break;
    case 2:
        if (s.rank > 1) r = random_op2(&q->m, IR_gather, w, types_leaf(q, RP_DTYPE_I32, index));
        break;
    default:; /* all of it */
    }
    types_put(q, random_op1(&q->m, IR_dequant, r), 2, true);
}

/* --- products, leaves, memory ------------------------------------------------------------------ */

static void types_matmul(types_gen *q) {
    random_item x = types_any(q);
    ir_shape s = types_node(q, x.ref)->shape, w = s;
    ir_ref r;
    if (s.rank < 2 || q->depth) return;
    rp_dtype t = types_node(q, x.ref)->dtype;
    if (rp_dtype_is_float(t)) t = types_all[types_pick(q, 2) ? 0 : 2 + types_pick(q, 2)];
    ir_attr a = {.key = IR_ATTR_TRANS_B, .u.i = types_pick(q, 2)};
    w.dim[w.rank - (a.u.i ? 1 : 2)] = s.dim[s.rank - 1];
    w.dim[w.rank - (a.u.i ? 2 : 1)] = types_size(q);
    const double k = (double)types_least(q, s.dim[s.rank - 1], true) + 1;
    if (types_try(q, IR_matmul, (ir_ref[]){x.ref, types_leaf(q, t, w)}, 2, &a, 1, &r))
        types_put(q, r, k * x.most * types_most_of(t), false);
}

static void types_count(types_gen *q) {
    ir_shape s = {.rank = 1 + types_pick(q, 3)};
    ir_ref r;
    for (uint32_t i = 0; i < s.rank; i++) s.dim[i] = types_size(q);
    ir_attr at[] = {{.key = IR_ATTR_AXIS, .u.i = types_pick(q, s.rank)},
                    {.key = IR_ATTR_DTYPE, .u.i = types_all[types_pick(q, TYPES_COUNT)]},
                    {.key = IR_ATTR_SHAPE, .n = s.rank, .u.dims = s.dim}};
    ir_attr size[] = {at[1], {.key = IR_ATTR_SIZE, .u.dim = types_size(q)}};
    const bool whole = types_pick(q, 2);
    if (whole && types_try(q, IR_iota, NULL, 0, at, 3, &r)) types_put(q, r, 10, true);
    if (!whole && types_try(q, IR_size, NULL, 0, size, 2, &r)) types_put(q, r, 10, true);
}

/* x over a part of memory of its type, or over all of it. */
static void types_update(types_gen *q) {
    random_item x = types_any(q);
    const ir_node *n = types_node(q, x.ref);
    const rp_dtype t = n->dtype;
    ir_shape s = n->shape;
    ir_dim zero[IR_MAX_RANK];
    ir_ref r;
    char name[16];
    if (q->depth) return;
    for (uint32_t i = 0; i < s.rank; i++) zero[i] = ir_dim_const(types_dims(q), types_pick(q, 2));
    ir_attr a = {.key = IR_ATTR_OFFSETS, .n = s.rank, .u.dims = zero};
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = ir_dim_add(types_dims(q), s.dim[i], ir_dim_const(types_dims(q), 1));
    (void)snprintf(name, sizeof name, "s%u", q->n_leaves++);
    if (q->m.st != RP_OK) return;
    q->m.st = ir_add_leaf(q->m.g, IR_LEAF_STATE, name, t, s, &r, q->m.err);
    random_item old = {r, types_most_of(t), true};
    if (types_pick(q, 2)) types_put(q, random_op1(&q->m, IR_copy, r), old.most, true);
    if (types_try(q, IR_update, (ir_ref[]){r, x.ref}, 2, &a, s.rank ? 1 : 0, &r))
        types_put(q, r, x.most + old.most, x.exact);
}

/* --- bodies ---------------------------------------------------------------------------------- */

static void types_step(types_gen *q);

static types_gen types_body(types_gen *q, const char *name) {
    types_gen f = {.m.g = ir_graph_new(name),
                   .depth = q->depth + 1,
                   .m.rng = random_draw(&q->m),
                   .m.st = q->m.st,
                   .m.err = q->m.err};
    if (!f.m.g) f.m.st = RP_NOMEM;
    for (int i = 0; i < TYPES_SYMBOLS && f.m.st == RP_OK; i++)
        f.symbol[i] = ir_dim_import(types_dims(&f), types_dims(q), q->symbol[i]);
    memcpy(f.type, q->type, sizeof f.type);
    return f;
}

/* An argument like x, or its rows. */
static ir_ref types_argument(types_gen *f, types_gen *q, ir_ref x, bool row) {
    const ir_node *n = types_node(q, x);
    ir_shape s = {.rank = n->shape.rank - row};
    char name[16];
    ir_ref r = 0;
    (void)snprintf(name, sizeof name, "a%u", f->n_leaves++);
    for (uint32_t i = 0; i < s.rank && f->m.st == RP_OK; i++)
        s.dim[i] = ir_dim_import(types_dims(f), types_dims(q), n->shape.dim[i + row]);
    if (f->m.st == RP_OK)
        f->m.st = ir_add_leaf(f->m.g, IR_LEAF_INPUT, name, n->dtype, s, &r, f->m.err);
    return r;
}

/* What a few ops make of x, of its type and shape. */
static random_item types_chain(types_gen *f, ir_ref x, random_item like) {
    f->pool = (random_pool){.n = 1, .item = {{x, like.most, like.exact}}};
    for (uint32_t i = 0; i < 4 && f->m.st == RP_OK; i++) types_step(f);
    for (uint32_t i = f->pool.n; i-- > 1 && f->m.st == RP_OK;)
        if (types_alike(f, f->pool.item[i].ref, x) && (f->pool.item[i].exact || !like.exact))
            return f->pool.item[i];
    return (random_item){random_op1(&f->m, IR_copy, x), like.most, like.exact};
}

static ir_attr types_finish(types_gen *q, types_gen *f, ir_attr_key key, const ir_ref *out,
                            uint32_t n) {
    if (f->m.st == RP_OK) f->m.st = ir_graph_finish(f->m.g, out, n, f->m.err);
    if (q->m.st == RP_OK) q->m.st = f->m.st;
    return (ir_attr){.key = key, .u.graph = f->m.g};
}

static void types_loop(types_gen *q, random_item x) {
    ir_ref in[] = {random_const(&q->m, RP_DTYPE_I32, 0), x.ref}, out[2], i, r;
    types_gen c = types_body(q, "more"), f = types_body(q, "next");
    i = types_argument(&c, q, in[0], false);
    (void)types_argument(&c, q, x.ref, false);
    i = random_op2(&c.m, IR_lt, i, random_const(&c.m, RP_DTYPE_I32, types_pick(q, 4)));
    out[0] = types_argument(&f, q, in[0], false);
    const random_item y = types_chain(&f, types_argument(&f, q, x.ref, false), x);
    out[0] = random_op2(&f.m, IR_add, out[0], random_const(&f.m, RP_DTYPE_I32, 1));
    out[1] = y.ref;
    ir_attr a[] = {types_finish(q, &c, IR_ATTR_COND, &i, 1),
                   types_finish(q, &f, IR_ATTR_BODY, out, 2)};
    r = random_add(&q->m, IR_while, in, 2, a, 2);
    types_put(q, types_result(q, r, 1), y.most > x.most ? y.most : x.most, x.exact);
    ir_graph_free(c.m.g);
    ir_graph_free(f.m.g);
}

static void types_rows(types_gen *q, random_item x) {
    types_gen f = types_body(q, "row");
    ir_ref first = types_argument(&f, q, x.ref, true), out[2], r;
    const random_item y = types_chain(&f, types_argument(&f, q, x.ref, true), x);
    const ir_node *n = types_node(q, x.ref);
    ir_attr shape = {.key = IR_ATTR_SHAPE, .n = n->shape.rank - 1, .u.dims = n->shape.dim + 1};
    ir_ref zero = random_const(&q->m, n->dtype, 0);
    if (shape.n) zero = random_add(&q->m, IR_broadcast, &zero, 1, &shape, 1);
    out[0] = y.ref; /* carried on */
    out[1] = first; /* what was before */
    ir_attr a[] = {types_finish(q, &f, IR_ATTR_BODY, out, 2),
                   {.key = IR_ATTR_CARRIED, .u.i = 1},
                   {.key = IR_ATTR_SLICED, .u.i = 1}};
    r = random_add(&q->m, IR_scan, (ir_ref[]){zero, x.ref}, 2, a, 3);
    types_put(q, types_result(q, r, types_pick(q, 2)), y.most, x.exact && y.exact);
    ir_graph_free(f.m.g);
}

static void types_branch(types_gen *q, random_item x) {
    types_gen f = types_body(q, "then"), e = types_body(q, "otherwise");
    const random_item y = types_chain(&f, types_argument(&f, q, x.ref, false), x),
                      z = types_chain(&e, types_argument(&e, q, x.ref, false), x);
    ir_attr size[] = {{.key = IR_ATTR_DTYPE, .u.i = RP_DTYPE_I32},
                      {.key = IR_ATTR_SIZE, .u.dim = q->symbol[0]}};
    ir_ref rows = random_add(&q->m, IR_size, NULL, 0, size, 2);
    ir_attr a[] = {types_finish(q, &f, IR_ATTR_THEN, &y.ref, 1),
                   types_finish(q, &e, IR_ATTR_ELSE, &z.ref, 1)};
    ir_ref p = random_op2(&q->m, IR_gt, rows, random_const(&q->m, RP_DTYPE_I32, 3));
    ir_ref r = random_add(&q->m, IR_cond, (ir_ref[]){p, x.ref}, 2, a, 2);
    types_put(q, r, y.most > z.most ? y.most : z.most, y.exact && z.exact);
    ir_graph_free(f.m.g);
    ir_graph_free(e.m.g);
}

static void types_control(types_gen *q) {
    random_item x = types_any(q);
    if (q->depth || q->m.st != RP_OK) return;
    switch (types_pick(q, 3)) {
    case 0: types_loop(q, x); break;
    case 1: types_branch(q, x); break;
    default:
        if (types_node(q, x.ref)->shape.rank) types_rows(q, x);
    }
}

static void types_step(types_gen *q) {
    static void (*const act[])(types_gen *) = {
        types_elementwise, types_elementwise, types_elementwise, types_elementwise,
        types_elementwise, types_elementwise, types_where,       types_bitcast,
        types_cast,        types_cast,        types_special,     types_reduce,
        types_reduce,      types_order,       types_scatter,     types_view,
        types_view,        types_move,        types_blocks,      types_matmul,
        types_count,       types_i4,          types_update,      types_control,
        types_new_leaf};
    act[types_pick(q, sizeof act / sizeof *act)](q);
}

/* Returns what nobody reads, the youngest first, so that little is computed for nothing. */
static rp_status types_end(types_gen *q, ir_graph **out) {
    ir_ref ret[TYPES_OUTPUTS];
    uint32_t n = 0;
    for (uint32_t i = q->pool.n; i-- > 0 && n < TYPES_OUTPUTS && q->m.st == RP_OK;) {
        const ir_ref r = q->pool.item[i].ref;
        bool read = types_node(q, r)->name != NULL; /* a leaf */
        for (ir_ref k = 0; k < ir_graph_count(q->m.g); k++)
            for (uint32_t j = 0; j < types_node(q, k)->n_in; j++)
                read = read || types_node(q, k)->in[j] == r;
        for (uint32_t k = 0; k < n; k++) read = read || ret[k] == r;
        if (!read) ret[n++] = r;
    }
    if (n == 0) ret[n++] = q->pool.item[0].ref;
    if (q->m.st == RP_OK) q->m.st = ir_graph_finish(q->m.g, ret, n, q->m.err);
    if (q->m.st == RP_OK)
        *out = q->m.g;
    else
        ir_graph_free(q->m.g);
    return q->m.st;
}

rp_status random_types_new(uint64_t seed, uint32_t n_steps, ir_graph **out, rp_error *err) {
    static const char *const names[TYPES_SYMBOLS] = {"T", "B", "N"};
    types_gen q = {.m.g = ir_graph_new("types"), .m.rng = seed * 104729 + 11, .m.err = err};
    if (!q.m.g) return rp_fail(err, RP_NOMEM, "random graph");
    for (int i = 0; i < TYPES_SYMBOLS; i++)
        q.symbol[i] = ir_dim_symbol(types_dims(&q), names[i], i == 2 ? 0 : 1, i == 1 ? 3 : 7, 1);
    for (int i = 0; i < TYPES_OWN; i++) q.type[i] = types_all[types_pick(&q, TYPES_COUNT)];
    q.shape = types_shape(&q);
    while (q.pool.n < 3 && q.m.st == RP_OK) types_new_leaf(&q);
    for (uint32_t i = 0; i < n_steps && q.m.st == RP_OK; i++) types_step(&q);
    return types_end(&q, out);
}
