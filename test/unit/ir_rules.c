/* Shape rules beside oracles of a few lines each: every op over all types, and over all small shapes and attributes, is taken or refused
 * as docs/ir.md says, and gives that type. ir_shape.c has the texts. */
#include "support/check.h"

#include "ir/graph.h"

typedef struct sizes {
    uint32_t rank;
    int64_t d[IR_MAX_RANK];
} sizes;

static const sizes shapes[] = {{0, {0}},
                               {1, {1}},
                               {1, {3}},
                               {1, {0}},
                               {2, {2, 3}},
                               {2, {2, 1}},
                               {2, {1, 3}},
                               {2, {3, 2}},
                               {2, {0, 2}},
                               {3, {2, 2, 3}},
                               {3, {1, 2, 3}},
                               {3, {2, 3, 1}},
                               {3, {1, 1, 1}},
                               {6, {1, 1, 1, 1, 2, 3}},
                               {5, {2, 1, 1, 1, 3}}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F16,  RP_DTYPE_BF16,     RP_DTYPE_F64,
                                 RP_DTYPE_I32, RP_DTYPE_I64,  RP_DTYPE_I16,      RP_DTYPE_I8,
                                 RP_DTYPE_U8,  RP_DTYPE_BOOL, RP_DTYPE_F8E4M3FN, RP_DTYPE_F8E5M2};
enum { N_TYPES = sizeof types / sizeof *types };

/* --- a graph and what is asked of it ---------------------------------------------------------------- */

static ir_graph *g;
static uint32_t n_leaves, n_taken, n_refused;

static int open_graph(void **state) {
    (void)state;
    g = ir_graph_new("rules");
    n_leaves = n_taken = n_refused = 0;
    return g ? 0 : -1;
}

/* An oracle that only refuses, or takes all, tells nothing. */
static int close_graph(void **state) {
    (void)state;
    ir_graph_free(g);
    return n_taken && n_refused ? 0 : -1;
}

static ir_shape shape_of(const sizes *s) {
    ir_shape out = {.rank = s->rank};
    for (uint32_t i = 0; i < s->rank; i++) out.dim[i] = ir_dim_const(ir_graph_dims(g), s->d[i]);
    return out;
}

static ir_ref leaf(rp_dtype t, const sizes *s) {
    rp_error err = {0};
    char name[16];
    ir_ref r;
    (void)snprintf(name, sizeof name, "x%u", n_leaves++);
    CHECK_OK(ir_add_leaf(g, IR_LEAF_INPUT, name, t, shape_of(s), &r, &err), &err);
    return r;
}

static bool is_type(rp_dtype dtype, const ir_shape *shape, rp_dtype t, const sizes *s) {
    bool same = dtype == t && shape->rank == s->rank;
    for (uint32_t i = 0; same && i < s->rank; i++)
        same = ir_dim_is(ir_graph_dims(g), shape->dim[i], s->d[i]);
    return same;
}

typedef struct asked {
    ir_op op;
    ir_ref in[3];
    uint32_t n_in;
    ir_attr attr[3];
    uint32_t n_attrs;
} asked;

static void describe(const asked *a, base_buf *b) {
    base_buf_puts(b, ir_op_table(a->op)->name);
    for (uint32_t i = 0; i < a->n_in; i++) base_buf_printf(b, " %s", ir_type_of(g, a->in[i]).s);
    for (uint32_t i = 0; i < a->n_attrs; i++)
        base_buf_printf(b, " %s=%lld", ir_attr_key_name(a->attr[i].key), (long long)a->attr[i].u.i);
}

/* want: whether it is taken, with that type. Gives the node, or IR_NONE. */
static ir_ref check(const asked *a, bool want, rp_dtype t, const sizes *s) {
    rp_error err = {0};
    ir_ref r = IR_NONE;
    rp_status st = ir_add(g, a->op, a->in, a->n_in, a->attr, a->n_attrs, &r, &err);
    bool right = st == RP_OK ? want : !want && st == RP_INVALID && *err.text;
    if (right && want) right = is_type(ir_node_at(g, r)->dtype, &ir_node_at(g, r)->shape, t, s);
    n_taken += st == RP_OK;
    n_refused += st != RP_OK;
    if (right) return st == RP_OK ? r : IR_NONE;
    base_buf b;
    base_buf_init(&b, 0);
    describe(a, &b);
    fail_msg("%s: %s", b.data, st == RP_OK ? ir_type_of(g, r).s : err.text);
    return IR_NONE;
}

static bool holds(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static bool is_one_of(const char *words, rp_dtype t) {
    return holds(words, rp_dtype_name(t));
}

#define INTEGERS "i32 i64 i16 i8 u8"
#define NUMBERS "f32 f16 bf16 f64 " INTEGERS
#define REALS "f32 f16 bf16 f64"
#define PLAIN NUMBERS " bool f8e4m3fn f8e5m2"

/* --- elementwise -------------------------------------------------------------------------------------- */

static const struct elementwise {
    const char *ops, *types;
    bool gives_bool;
} classes[] = {
    {"neg abs add sub mul max min fmod", NUMBERS, false},
    {"sqrt rsqrt recip exp log sin cos tanh erf sigmoid floor ceil round div pow fma", REALS,
     false},
    {"not and or xor", "bool " INTEGERS, false},
    {"floor_divide remainder shift_left shift_right", INTEGERS, false},
    {"philox", "i32 i64", false},
    {"eq ne", PLAIN, true},
    {"lt le gt ge", NUMBERS, true},
};

/* What the table says of an op that is not named here. */
static const struct elementwise *class_told(ir_op op) {
    static const char *const told[] = {[IR_REALS] = REALS,
                                       [IR_INTS] = INTEGERS,
                                       [IR_NUMBERS] = NUMBERS,
                                       [IR_BITS] = "bool " INTEGERS,
                                       [IR_PLAIN] = PLAIN};
    static struct elementwise c;
    c = (struct elementwise){NULL, told[ir_op_operands(op)], ir_op_compares(op)};
    return &c;
}

/* NULL: where, cast, bitcast and what is not elementwise. */
static const struct elementwise *class_of(ir_op op) {
    const ir_op_info *info = ir_op_table(op);
    if (info->kind != IR_KIND_ELEMENTWISE || op == IR_where || op == IR_cast || op == IR_bitcast)
        return NULL;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (holds(classes[i].ops, info->name)) return &classes[i];
    return class_told(op);
}

static void types_of_operands(void **state) {
    const sizes one = {1, {3}};
    ir_ref x[N_TYPES];
    (void)state;
    for (int i = 0; i < N_TYPES; i++) x[i] = leaf(types[i], &one);
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        const struct elementwise *c = class_of((ir_op)op);
        uint32_t arity = (uint32_t)ir_op_table((ir_op)op)->arity;
        for (int i = 0; c && i < N_TYPES * N_TYPES; i++) {
            rp_dtype t = types[i / N_TYPES], u = types[i % N_TYPES];
            if (arity == 1 && t != u) continue;
            /* The last operand is the other one, so that of three each place is looked at. */
            asked a = {
                (ir_op)op, {x[i / N_TYPES], x[i / N_TYPES], x[i / N_TYPES]}, arity, {{0}}, 0};
            a.in[arity - 1] = x[i % N_TYPES];
            (void)check(&a, t == u && is_one_of(c->types, t), c->gives_bool ? RP_DTYPE_BOOL : t,
                        &one);
        }
    }
    for (int i = 0; i < N_TYPES * N_TYPES * N_TYPES; i++) {
        int p = i / N_TYPES / N_TYPES, q = i / N_TYPES % N_TYPES, r = i % N_TYPES;
        const asked a = {IR_where, {x[p], x[q], x[r]}, 3, {{0}}, 0};
        (void)check(&a, types[p] == RP_DTYPE_BOOL && q == r, types[q], &one);
    }
}

static void what_casts_give(void **state) {
    const sizes one = {1, {32}};
    (void)state;
    for (int i = 0; i < N_TYPES; i++) {
        ir_ref x = leaf(types[i], &one);
        for (int to = 0; to < RP_DTYPE_COUNT_; to++) {
            const asked a = {IR_cast, {x}, 1, {{.key = IR_ATTR_DTYPE, .u.i = to}}, 1};
            (void)check(&a, !rp_dtype_is_quant((rp_dtype)to), (rp_dtype)to, &one);
        }
    }
}

static void what_bitcasts_give(void **state) {
    const sizes one = {1, {32}};
    (void)state;
    for (int i = 0; i < N_TYPES; i++) {
        ir_ref x = leaf(types[i], &one);
        for (int to = 0; to < RP_DTYPE_COUNT_; to++) {
            const rp_dtype u = (rp_dtype)to;
            const asked a = {IR_bitcast, {x}, 1, {{.key = IR_ATTR_DTYPE, .u.i = to}}, 1};
            const bool bits = types[i] != RP_DTYPE_BOOL && is_one_of(PLAIN, u) &&
                              u != RP_DTYPE_BOOL && !rp_dtype_is_quant(types[i]);
            (void)check(&a, bits && rp_dtype_block_bytes(types[i]) == rp_dtype_block_bytes(u), u,
                        &one);
        }
    }
}

/* As numpy does it. */
static bool broadcast(const sizes *a, const sizes *b, sizes *out) {
    sizes o = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (uint32_t i = 1; i <= o.rank; i++) {
        int64_t x = i <= a->rank ? a->d[a->rank - i] : 1, y = i <= b->rank ? b->d[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        o.d[o.rank - i] = x == 1 ? y : x;
    }
    *out = o;
    return true;
}

static void shapes_are_broadcast(void **state) {
    ir_ref x[N_SHAPES], b[N_SHAPES];
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) x[i] = leaf(RP_DTYPE_F32, &shapes[i]);
    for (int i = 0; i < N_SHAPES; i++) b[i] = leaf(RP_DTYPE_BOOL, &shapes[i]);
    for (int i = 0; i < N_SHAPES * N_SHAPES; i++) {
        const sizes *p = &shapes[i / N_SHAPES], *q = &shapes[i % N_SHAPES];
        sizes out = {0};
        bool fits = broadcast(p, q, &out);
        const asked sum = {IR_add, {x[i / N_SHAPES], x[i % N_SHAPES]}, 2, {{0}}, 0};
        (void)check(&sum, fits, RP_DTYPE_F32, &out);
        ir_shape to = shape_of(q);
        bool stretches = fits && out.rank == q->rank &&
                         memcmp(out.d, q->d, q->rank * sizeof *q->d) == 0;
        const asked view = {IR_broadcast,
                            {x[i / N_SHAPES]},
                            1,
                            {{.key = IR_ATTR_SHAPE, .n = to.rank, .u.dims = to.dim}},
                            1};
        (void)check(&view, stretches, RP_DTYPE_F32, q);
        for (int k = 0; k < N_SHAPES; k++) {
            sizes all = {0};
            const asked a = {IR_where, {b[i / N_SHAPES], x[i % N_SHAPES], x[k]}, 3, {{0}}, 0};
            (void)check(&a, fits && broadcast(&out, &shapes[k], &all), RP_DTYPE_F32, &all);
        }
    }
}

/* --- along an axis -------------------------------------------------------------------------------------- */

static bool on_axis(const sizes *s, int axis, uint32_t *at) {
    *at = (uint32_t)(axis < 0 ? axis + (int)s->rank : axis);
    return axis >= -(int)s->rank && axis < (int)s->rank;
}

static void reductions(void **state) {
    (void)state;
    for (int op = IR_sum; op <= IR_argmax; op++)
        for (int i = 0; i < N_SHAPES * N_TYPES; i++) {
            const sizes *s = &shapes[i % N_SHAPES];
            rp_dtype t = types[i / N_SHAPES];
            ir_ref x = leaf(t, s);
            for (int axis = -(int)s->rank - 1; axis <= (int)s->rank; axis++)
                for (int keep = 0; keep < 2; keep++) {
                    const asked a = {
                        (ir_op)op,
                        {x},
                        1,
                        {{.key = IR_ATTR_AXIS, .u.i = axis}, {.key = IR_ATTR_KEEP, .u.i = keep}},
                        2};
                    sizes out = {0};
                    uint32_t at;
                    bool ok = on_axis(s, axis, &at) && is_one_of(NUMBERS, t) &&
                              (op == IR_sum || op == IR_prod || s->d[at] > 0);
                    for (uint32_t d = 0; d < s->rank; d++)
                        if (d != at || keep) out.d[out.rank++] = d == at ? 1 : s->d[d];
                    (void)check(&a, ok, op == IR_argmax ? RP_DTYPE_I32 : t, &out);
                }
        }
}

static void check_second(ir_ref r, const sizes *s) {
    if (r == IR_NONE) return;
    const ir_node *n = ir_node_at(g, r);
    assert_int_equal(n->n_more, 1);
    assert_true(is_type(n->more[0].dtype, &n->more[0].shape, RP_DTYPE_I32, s));
    for (int64_t i = -1; i < 3; i++) { /* result 0 is the node itself */
        const asked a = {IR_result, {r}, 1, {{.key = IR_ATTR_INDEX, .u.i = i}}, 1};
        (void)check(&a, i == 1, RP_DTYPE_I32, s);
    }
}

static void sorts_and_scans(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES * N_TYPES; i++) {
        const sizes *s = &shapes[i % N_SHAPES];
        rp_dtype t = types[i / N_SHAPES];
        ir_ref x = leaf(t, s);
        uint32_t at;
        for (int axis = -(int)s->rank - 1; axis <= (int)s->rank; axis++) {
            asked a = {IR_cumsum, {x}, 1, {{.key = IR_ATTR_AXIS, .u.i = axis}}, 1};
            (void)check(&a, on_axis(s, axis, &at) && is_one_of(NUMBERS, t), t, s);
            a.op = IR_sort;
            check_second(check(&a, on_axis(s, axis, &at) && is_one_of(NUMBERS, t), t, s), s);
        }
        for (int64_t k = -1; k < 5; k++) {
            const asked a = {IR_topk, {x}, 1, {{.key = IR_ATTR_K, .u.i = k}}, 1};
            sizes out = *s;
            if (s->rank) out.d[s->rank - 1] = k;
            bool ok = s->rank && k > 0 && k <= s->d[s->rank - 1];
            check_second(check(&a, ok && is_one_of("f32 f16 bf16 i32 i16 i8 u8", t), t, &out),
                         &out);
        }
    }
}

static void slices(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        const sizes *s = &shapes[i];
        ir_ref x = leaf(RP_DTYPE_U8, s);
        for (int axis = -(int)s->rank - 1; axis <= (int)s->rank; axis++)
            for (int64_t start = -1; start < 5; start++)
                for (int64_t stop = -1; stop < 5; stop++) {
                    ir_dims *t = ir_graph_dims(g);
                    const asked a = {IR_slice,
                                     {x},
                                     1,
                                     {{.key = IR_ATTR_AXIS, .u.i = axis},
                                      {.key = IR_ATTR_START, .u.dim = ir_dim_const(t, start)},
                                      {.key = IR_ATTR_STOP, .u.dim = ir_dim_const(t, stop)}},
                                     3};
                    sizes out = *s;
                    uint32_t at;
                    bool ok = on_axis(s, axis, &at) && start >= 0 && start <= stop &&
                              stop <= s->d[at];
                    if (ok) out.d[at] = stop - start;
                    (void)check(&a, ok, RP_DTYPE_U8, &out);
                }
    }
}

static void joined(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES * N_SHAPES; i++)
        for (int other = 0; other < 2; other++) {
            const sizes *p = &shapes[i / N_SHAPES], *q = &shapes[i % N_SHAPES];
            ir_ref x = leaf(RP_DTYPE_F32, p), y = leaf(other ? RP_DTYPE_I32 : RP_DTYPE_F32, q);
            for (int axis = -(int)p->rank - 1; axis <= (int)p->rank; axis++) {
                const asked a = {IR_concat, {x, y}, 2, {{.key = IR_ATTR_AXIS, .u.i = axis}}, 1};
                sizes out = *p;
                uint32_t at;
                bool ok = !other && on_axis(p, axis, &at) && p->rank == q->rank;
                for (uint32_t d = 0; ok && d < p->rank; d++) ok = d == at || p->d[d] == q->d[d];
                if (ok) out.d[at] += q->d[at];
                (void)check(&a, ok, RP_DTYPE_F32, &out);
            }
        }
}

static void gathers(void **state) {
    static const rp_dtype index[] = {RP_DTYPE_I32, RP_DTYPE_I64, RP_DTYPE_I16, RP_DTYPE_F32};
    (void)state;
    for (int i = 0; i < N_SHAPES * N_SHAPES; i++)
        for (int k = 0; k < 4; k++) {
            const sizes *p = &shapes[i / N_SHAPES], *q = &shapes[i % N_SHAPES];
            const asked a = {IR_gather, {leaf(RP_DTYPE_F16, p), leaf(index[k], q)}, 2, {{0}}, 0};
            sizes out = *q;
            bool ok = k < 2 && p->rank > 0 && p->rank + q->rank <= IR_MAX_RANK + 1;
            bool none = false; /* no index, which needs no row */
            for (uint32_t d = 0; d < q->rank; d++) none = none || q->d[d] == 0;
            ok = ok && (none || p->d[0] > 0);
            for (uint32_t d = 1; ok && d < p->rank; d++) out.d[out.rank++] = p->d[d];
            (void)check(&a, ok, RP_DTYPE_F16, &out);
        }
}

/* Axes [from, to) of the index are those of src, or all 1. */
static bool index_fits(const sizes *index, const sizes *src, uint32_t from, uint32_t to) {
    bool equal = true, one = true;
    for (uint32_t d = from; d < to; d++) {
        equal = equal && index->d[d] == src->d[d];
        one = one && index->d[d] == 1;
    }
    return equal || one;
}

static bool scatters(const sizes *x, const sizes *index, const sizes *src, uint32_t at) {
    if (x->rank != src->rank || x->rank != index->rank || index->d[at] != src->d[at]) return false;
    for (uint32_t d = 0; d < x->rank; d++)
        if (d != at && x->d[d] != src->d[d]) return false;
    return index_fits(index, src, 0, at) && index_fits(index, src, at + 1, x->rank);
}

static void scattered(void **state) {
    ir_ref x[N_SHAPES], index[N_SHAPES];
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) x[i] = leaf(RP_DTYPE_F32, &shapes[i]);
    for (int i = 0; i < N_SHAPES; i++) index[i] = leaf(RP_DTYPE_I64, &shapes[i]);
    for (int i = 0; i < N_SHAPES * N_SHAPES * N_SHAPES; i++) {
        int p = i / N_SHAPES / N_SHAPES, q = i / N_SHAPES % N_SHAPES, r = i % N_SHAPES;
        const sizes *s = &shapes[p];
        for (int axis = -1; axis <= (int)s->rank; axis++) {
            const asked a = {
                IR_scatter, {x[p], index[q], x[r]}, 3, {{.key = IR_ATTR_AXIS, .u.i = axis}}, 1};
            uint32_t at;
            bool ok = on_axis(s, axis, &at) && scatters(s, &shapes[q], &shapes[r], at);
            (void)check(&a, ok, RP_DTYPE_F32, s);
        }
    }
}

/* --- views and products ---------------------------------------------------------------------------------- */

static void axes_are_permuted(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        const sizes *s = &shapes[i];
        if (s->rank > 3) continue;
        ir_ref x = leaf(RP_DTYPE_BOOL, s);
        for (int list = 0; list < 7 * 7 * 7; list++)
            for (uint32_t n = 0; n < 4; n++) {
                const int64_t axes[3] = {list / 49 - 3, list / 7 % 7 - 3, list % 7 - 3};
                const asked a = {
                    IR_permute, {x}, 1, {{.key = IR_ATTR_AXES, .n = n, .u.ints = axes}}, 1};
                sizes out = *s;
                uint32_t at, seen = 0;
                for (uint32_t d = 0; d < n && d < s->rank; d++) {
                    if (!on_axis(s, (int)axes[d], &at)) continue;
                    seen |= 1u << at;
                    out.d[d] = s->d[at];
                }
                (void)check(&a, n == s->rank && seen == (1u << s->rank) - 1, RP_DTYPE_BOOL, &out);
            }
    }
}

static int64_t elements(const sizes *s) {
    int64_t n = 1;
    for (uint32_t d = 0; d < s->rank; d++) n *= s->d[d];
    return n;
}

static void elements_stay(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES * N_SHAPES; i++) {
        const sizes *p = &shapes[i / N_SHAPES], *q = &shapes[i % N_SHAPES];
        ir_shape to = shape_of(q);
        const asked a = {IR_reshape,
                         {leaf(RP_DTYPE_I8, p)},
                         1,
                         {{.key = IR_ATTR_SHAPE, .n = to.rank, .u.dims = to.dim}},
                         1};
        (void)check(&a, elements(p) == elements(q), RP_DTYPE_I8, q);
    }
}

static void products(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES * N_SHAPES; i++)
        for (int trans = 0; trans < 2; trans++) {
            const sizes *p = &shapes[i / N_SHAPES], *q = &shapes[i % N_SHAPES];
            const asked a = {IR_matmul,
                             {leaf(RP_DTYPE_F16, p), leaf(RP_DTYPE_F32, q)},
                             2,
                             {{.key = IR_ATTR_TRANS_B, .u.i = trans}},
                             1};
            sizes x = *p, y = *q, out = {0};
            bool ok = p->rank > 1 && q->rank > 1;
            if (ok) {
                x.rank -= 2;
                y.rank -= 2;
                ok = p->d[p->rank - 1] == q->d[q->rank - (trans ? 1 : 2)] &&
                     broadcast(&x, &y, &out);
                out.d[out.rank++] = p->d[p->rank - 2];
                out.d[out.rank++] = q->d[q->rank - (trans ? 2 : 1)];
            }
            (void)check(&a, ok, RP_DTYPE_F32, &out);
        }
}

#define RULE(test) cmocka_unit_test_setup_teardown(test, open_graph, close_graph)

int main(void) {
    const struct CMUnitTest tests[] = {
        RULE(types_of_operands),
        RULE(what_casts_give),
        RULE(what_bitcasts_give),
        RULE(shapes_are_broadcast),
        RULE(reductions),
        RULE(sorts_and_scans),
        RULE(slices),
        RULE(joined),
        RULE(gathers),
        RULE(scattered),
        RULE(axes_are_permuted),
        RULE(elements_stay),
        RULE(products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
