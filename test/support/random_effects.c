/* Copies a graph node by node and sends values through memory on the way. */
#include "support/random_effects.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/custom.h"
#include "support/random_maker.h"

enum { MAX_MEMORY = RANDOM_EFFECTS_STATES, MAX_EXTRA = 4, SLOTS = 64, BLOCK = 8 };

typedef struct memory {
    ir_ref last, old; /* versions */
    bool fresh;       /* an empty that nothing has written */
} memory;

typedef struct gen {
    const ir_graph *pure;
    random_maker m;
    ir_ref *map, *alt; /* by ref of pure: its value, and where that is in memory or IR_NONE */
    memory mem[MAX_MEMORY];
    uint32_t n_mem, n_extra, n_leaves;
    bool bodies;
    ir_ref extra[MAX_EXTRA];
} gen;

static const ir_node *node(const gen *q, ir_ref r) {
    return ir_node_at(q->m.g, r);
}

static ir_dim size(gen *q, int64_t v) {
    return ir_dim_const(ir_graph_dims(q->m.g), v);
}

static ir_ref update(gen *q, ir_ref to, ir_ref x, const ir_dim *offsets) {
    ir_attr a = {.key = IR_ATTR_OFFSETS, .n = node(q, to)->shape.rank, .u.dims = offsets};
    return random_add(&q->m, IR_update, (ir_ref[]){to, x}, 2, &a, offsets ? 1 : 0);
}

/* --- memory ------------------------------------------------------------------------------ */

/* First version of new memory like x. */
static ir_ref new_leaf(gen *q, ir_leaf kind, rp_dtype t, ir_shape s) {
    return random_leaf(&q->m, kind, 'm', q->n_leaves++, t, s);
}

static ir_ref new_state(gen *q, rp_dtype t, ir_shape s, bool input) {
    ir_ref r = new_leaf(q, input ? IR_LEAF_INPUT : IR_LEAF_STATE, t, s);
    if (q->m.st == RP_OK && input) ir_input_mutates(q->m.g, r);
    return r;
}

static memory *new_memory(gen *q, rp_dtype t, ir_shape s) {
    uint32_t kind = random_pick(&q->m, 4);
    memory *m = &q->mem[q->n_mem];
    ir_attr a[2] = {{.key = IR_ATTR_DTYPE, .u.i = t},
                    {.key = IR_ATTR_SHAPE, .n = s.rank, .u.dims = s.dim}};
    m->fresh = kind == 3;
    m->last = m->fresh ? random_add(&q->m, IR_empty, NULL, 0, a, 2) : new_state(q, t, s, kind == 0);
    m->old = m->fresh ? IR_NONE : m->last;
    q->n_mem++;
    return m;
}

static bool same_type(const gen *q, ir_ref a, ir_ref b) {
    const ir_node *x = node(q, a), *y = node(q, b);
    bool same = x->dtype == y->dtype && x->shape.rank == y->shape.rank;
    for (uint32_t i = 0; same && i < x->shape.rank; i++) same = x->shape.dim[i] == y->shape.dim[i];
    return same;
}

/* Memory that fits x, used before where there is some; NULL when there is no more. */
static memory *memory_for(gen *q, ir_ref x) {
    for (uint32_t i = 0; i < q->n_mem; i++)
        if (same_type(q, q->mem[i].last, x) && random_pick(&q->m, 4)) return &q->mem[i];
    return q->n_mem < MAX_MEMORY ? new_memory(q, node(q, x)->dtype, node(q, x)->shape) : NULL;
}

/* Now and then a version, or a view of one, is an output; older ones too, which something overwrites. */
static void keep(gen *q, ir_ref r) {
    if (q->m.st != RP_OK || r == IR_NONE || q->n_extra == MAX_EXTRA || random_pick(&q->m, 3))
        return;
    const ir_shape *s = &node(q, r)->shape;
    int64_t k = 0;
    if (s->rank && random_pick(&q->m, 2) &&
        ir_dim_is_const(ir_graph_dims(q->m.g), s->dim[s->rank - 1], &k) && k > 1)
        r = random_slice(&q->m, r, s->rank - 1, size(q, k / 2), size(q, k));
    if (rp_dtype_is_float(node(q, r)->dtype) && random_pick(&q->m, 2))
        r = random_add(&q->m, IR_neg, &r, 1, NULL, 0);
    for (uint32_t i = 0; i < q->n_extra; i++)
        if (q->extra[i] == r) return;
    q->extra[q->n_extra++] = r;
}

static void set_last(gen *q, memory *m, ir_ref r) {
    m->old = m->fresh ? IR_NONE : m->last;
    m->fresh = false;
    m->last = r;
    keep(q, random_pick(&q->m, 2) ? m->old : m->last);
}

/* --- ways to write x, and to read it again ------------------------------------------------ */

static ir_ref in_two_parts(gen *q, memory *m, ir_ref x) {
    const ir_shape s = node(q, x)->shape;
    int64_t k = 0, axis = (int64_t)s.rank - 1;
    ir_dim at[IR_MAX_RANK];
    if (m->fresh || s.rank == 0 || !ir_dim_is_const(ir_graph_dims(q->m.g), s.dim[axis], &k) ||
        k < 2)
        return update(q, m->last, x, NULL);
    for (uint32_t i = 0; i < s.rank; i++) at[i] = size(q, 0);
    set_last(q, m,
             update(q, m->last, random_slice(&q->m, x, axis, size(q, 0), size(q, k / 3 + 1)), at));
    at[axis] = size(q, k / 3 + 1);
    return update(q, m->last, random_slice(&q->m, x, axis, size(q, k / 3 + 1), size(q, k)), at);
}

/* Turns the memory over first: the new contents are made of the old. */
static ir_ref after_itself(gen *q, memory *m, ir_ref x) {
    ir_ref y = m->last;
    if (!m->fresh && rp_dtype_is_float(node(q, x)->dtype))
        set_last(q, m, update(q, m->last, random_add(&q->m, IR_neg, &y, 1, NULL, 0), NULL));
    return update(q, m->last, x, NULL);
}

static ir_ref by_custom(gen *q, memory *m, ir_ref x) {
    ir_attr name = {.key = IR_ATTR_NAME, .u.s = "random::store"};
    if (m->fresh || node(q, x)->dtype != RP_DTYPE_F32) return update(q, m->last, x, NULL);
    ir_ref before = random_add(&q->m, IR_custom, (ir_ref[]){m->last, x}, 2, &name, 1);
    keep(q, before);
    return random_add(&q->m, IR_written, (ir_ref[]){m->last, before}, 2, NULL, 0);
}

/* --- by loops and branches ------------------------------------------------------------------ */

/* An argument of the type of `like`. */
static ir_ref argument(random_maker *f, gen *q, ir_ref like, const char *name) {
    ir_ref r = 0;
    if (f->st != RP_OK) return 0;
    const ir_node *n = node(q, like);
    ir_shape s = n->shape;
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = ir_dim_import(ir_graph_dims(f->g), ir_graph_dims(q->m.g), s.dim[i]);
    f->st = ir_add_leaf(f->g, IR_LEAF_INPUT, name, n->dtype, s, &r, f->err);
    return r;
}

static random_maker begin(gen *q, const char *name) {
    random_maker f = {.g = ir_graph_new(name), .st = q->m.st, .err = q->m.err};
    if (!f.g) f.st = RP_NOMEM;
    return f;
}

static ir_graph *end(gen *q, random_maker *f, ir_ref out) {
    if (f->st == RP_OK) f->st = ir_graph_finish(f->g, &out, 1, f->err);
    if (q->m.st == RP_OK) q->m.st = f->st;
    return f->g;
}

/* Writes x over `to`, twice perhaps; gives what was there, or the next of count. */
static ir_graph *body(gen *q, ir_ref count, ir_ref to, ir_ref x) {
    random_maker f = begin(q, "writes");
    ir_ref i = count == IR_NONE ? IR_NONE : argument(&f, q, count, "i");
    ir_ref m = argument(&f, q, to, "m"), in = argument(&f, q, x, "x"), out;
    if (f.st == RP_OK) ir_input_mutates(f.g, m);
    if (i == IR_NONE)
        out = random_cast(&f, m, RP_DTYPE_F32);
    else
        out = random_op2(&f, IR_add, i, random_const(&f, RP_DTYPE_I32, 1));
    if (random_pick(&q->m, 2) && f.st == RP_OK && rp_dtype_is_float(node(q, x)->dtype))
        m = random_op2(&f, IR_update, m, random_op1(&f, IR_neg, m));
    (void)random_op2(&f, IR_update, m, in);
    return end(q, &f, out);
}

/* Whether count is below most. */
static ir_graph *condition(gen *q, ir_ref count, ir_ref to, ir_ref x, uint32_t most) {
    random_maker f = begin(q, "more");
    ir_ref i = argument(&f, q, count, "i");
    (void)argument(&f, q, to, "m");
    (void)argument(&f, q, x, "x");
    return end(q, &f, random_op2(&f, IR_lt, i, random_const(&f, RP_DTYPE_I32, most)));
}

/* A loop writes the same one to three times. */
static ir_ref by_graph(gen *q, memory *m, ir_ref x) {
    static const ir_op ops[] = {IR_call, IR_cond, IR_while, IR_scan};
    const ir_op op = ops[random_pick(&q->m, 4)];
    const uint32_t times = 1 + random_pick(&q->m, 3);
    ir_ref in[3], count = IR_NONE;
    ir_graph *other = NULL;
    uint32_t n = 0;
    if (m->fresh) return update(q, m->last, x, NULL);
    if (op == IR_while || op == IR_scan) in[n++] = count = random_const(&q->m, RP_DTYPE_I32, 0);
    if (op == IR_cond) {
        ir_ref p = new_leaf(q, IR_LEAF_INPUT, RP_DTYPE_I32, (ir_shape){0});
        in[n++] = random_op2(&q->m, IR_lt, p, random_const(&q->m, RP_DTYPE_I32, 32));
    }
    in[n++] = m->last;
    in[n++] = x;
    ir_graph *one = body(q, count, m->last, x);
    if (op == IR_cond) other = body(q, count, m->last, x);
    if (op == IR_while) other = condition(q, count, m->last, x, times);
    ir_attr a[4] = {{.key = op == IR_cond ? IR_ATTR_THEN : IR_ATTR_BODY, .u.graph = one}};
    uint32_t n_a = op == IR_call ? 1 : 2;
    a[1] = (ir_attr){.key = op == IR_cond ? IR_ATTR_ELSE : IR_ATTR_COND, .u.graph = other};
    if (op == IR_scan) {
        a[1] = (ir_attr){.key = IR_ATTR_CARRIED, .u.i = 1};
        a[2] = (ir_attr){.key = IR_ATTR_LENGTH, .u.dim = size(q, times)};
        a[3] = (ir_attr){.key = IR_ATTR_SLICED, .u.i = 0};
        n_a = 4;
    }
    ir_ref r = random_add(&q->m, op, in, n, a, n_a);
    ir_graph_free(one);
    ir_graph_free(other);
    keep(q, r);
    return random_add(&q->m, IR_written, (ir_ref[]){m->last, r}, 2, NULL, 0);
}

static ir_ref write(gen *q, memory *m, ir_ref x) {
    ir_ref r;
    if (q->bodies && random_pick(&q->m, 3) == 0) {
        r = by_graph(q, m, x);
        set_last(q, m, r);
        return r;
    }
    switch (random_pick(&q->m, 4)) {
    case 0: r = update(q, m->last, x, NULL); break;
    case 1: r = in_two_parts(q, m, x); break;
    case 2: r = after_itself(q, m, x); break;
    default: r = by_custom(q, m, x); break;
    }
    set_last(q, m, r);
    return r;
}

/* Rows of x [rows, k] in a cache of its own, read back through views. */
static ir_ref in_a_cache(gen *q, ir_ref x, int64_t k) {
    const ir_shape s = node(q, x)->shape;
    ir_dim cache[4] = {size(q, SLOTS / BLOCK), size(q, 2), size(q, BLOCK), size(q, k / 2)};
    ir_dim flat[2] = {size(q, SLOTS), size(q, k)};
    ir_shape c = {.rank = 4};
    memcpy(c.dim, cache, sizeof cache);
    memory *m = &q->mem[q->n_mem];
    *m = (memory){.last = new_state(q, RP_DTYPE_F32, c, false)};
    q->n_mem++;
    ir_attr count[3] = {{.key = IR_ATTR_AXIS, .u.i = 0},
                        {.key = IR_ATTR_DTYPE, .u.i = RP_DTYPE_I32},
                        {.key = IR_ATTR_SHAPE, .n = 1, .u.dims = s.dim}};
    ir_ref slots = random_add(&q->m, IR_iota, NULL, 0, count, 3);
    set_last(q, m, random_add(&q->m, IR_kv_store, (ir_ref[]){m->last, x, slots}, 3, NULL, 0));
    int64_t axes[4] = {0, 2, 1, 3};
    ir_attr a = {.key = IR_ATTR_AXES, .n = 4, .u.ints = axes};
    ir_ref rows = random_reshape(&q->m, random_add(&q->m, IR_permute, &m->last, 1, &a, 1), flat, 2);
    if (random_pick(&q->m, 2))
        return random_add(&q->m, IR_gather, (ir_ref[]){rows, slots}, 2, NULL, 0);
    return random_slice(&q->m, rows, 0, size(q, 0), s.dim[0]);
}

static ir_ref through_memory(gen *q, ir_ref x) {
    const ir_node *n = node(q, x);
    int64_t k = 0, lo, hi = SLOTS + 1;
    if (rp_dtype_is_quant(n->dtype) || n->dtype == RP_DTYPE_I64) return IR_NONE;
    if (n->dtype == RP_DTYPE_F32 && n->shape.rank == 2 && q->n_mem < MAX_MEMORY &&
        !random_pick(&q->m, 4)) {
        (void)ir_dim_is_const(ir_graph_dims(q->m.g), n->shape.dim[1], &k);
        ir_dim_bounds(ir_graph_dims(q->m.g), n->shape.dim[0], &lo, &hi);
        if (k > 0 && k % 2 == 0 && hi <= SLOTS) return in_a_cache(q, x, k);
    }
    memory *m = memory_for(q, x);
    return m ? write(q, m, x) : IR_NONE;
}

/* --- the graph ------------------------------------------------------------------------------ */

static void copy_leaf(gen *q, ir_ref r) {
    const ir_node *n = ir_node_at(q->pure, r);
    ir_leaf kind = n->op == IR_input   ? IR_LEAF_INPUT
                   : n->op == IR_param ? IR_LEAF_PARAM
                                       : IR_LEAF_STATE;
    ir_shape s = n->shape;
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = ir_dim_import(ir_graph_dims(q->m.g), ir_graph_dims(q->pure), s.dim[i]);
    q->m.st = ir_add_leaf(q->m.g, kind, n->name, n->dtype, s, &q->map[r], q->m.err);
}

static void copy_node(gen *q, ir_ref r) {
    const ir_node *n = ir_node_at(q->pure, r);
    ir_ref in[64];
    if (n->name) {
        copy_leaf(q, r);
        return;
    }
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref a = q->alt[n->in[i]];
        /* Memory holds the first result of an op; another is named by its maker. */
        bool written = i == (n->op == IR_attention ? 6 : 0) &&
                       ir_op_table(n->op)->kind == IR_KIND_EFFECT && !ir_op_has_graphs(n->op);
        bool moved = a != IR_NONE && n->op != IR_result && !written && random_pick(&q->m, 3);
        in[i] = moved ? a : q->map[n->in[i]];
    }
    q->m.st = ir_copy_node_on(q->m.g, q->pure, r, in, &q->map[r], q->m.err);
}

static rp_status build(gen *q) {
    uint32_t n = ir_graph_count(q->pure), n_out = ir_output_count(q->pure);
    ir_ref out[16];
    for (ir_ref r = 0; r < n && q->m.st == RP_OK; r++) {
        ir_op op = ir_node_at(q->pure, r)->op;
        q->alt[r] = IR_NONE;
        copy_node(q, r);
        /* Weights of products are packed where they are params, so these keep their place. */
        if (q->m.st == RP_OK && op != IR_param && op != IR_const && op != IR_empty &&
            !random_pick(&q->m, 4))
            q->alt[r] = through_memory(q, q->map[r]);
    }
    for (uint32_t i = 0; i < n_out && i < 8; i++) out[i] = q->map[ir_output_at(q->pure, i)];
    for (uint32_t i = 0; i < q->n_extra; i++) {
        bool twice = false;
        for (uint32_t k = 0; k < n_out; k++) twice = twice || out[k] == q->extra[i];
        if (!twice) out[n_out++] = q->extra[i];
    }
    return q->m.st == RP_OK ? ir_graph_finish(q->m.g, out, n_out, q->m.err) : q->m.st;
}

/* args: memory, x, result. Memory takes x's values; the result is what it held before. */
static rp_status store(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    size_t n = sizeof(float);
    (void)call, (void)n_args, (void)err;
    for (uint32_t i = 0; i < args[0].rank; i++) n *= (size_t)args[0].dim[i];
    if (n) memcpy(args[2].data, args[0].data, n);
    if (n) memcpy(args[0].data, args[1].data, n);
    return RP_OK;
}

rp_status random_effects_new(const ir_graph *pure, uint64_t seed, bool bodies, ir_graph **out,
                             rp_error *err) {
    const rp_op_desc op = {
        .size = sizeof op, .name = "random::store", .mutates = 1, .result_like = 0, .cpu = store};
    gen q = {.pure = pure,
             .m.g = ir_graph_new("effects"),
             .m.rng = seed * 31 + 5,
             .m.err = err,
             .bodies = bodies};
    q.map = base_alloc_array(ir_graph_count(pure) + 1u, sizeof *q.map);
    q.alt = base_alloc_array(ir_graph_count(pure) + 1u, sizeof *q.alt);
    rp_status st = q.m.g && q.map && q.alt ? RP_OK : rp_fail(err, RP_NOMEM, "graph");
    if (st == RP_OK && !ir_custom_find(op.name)) st = rp_op_register(&op, err);
    if (st == RP_OK) st = build(&q);
    if (st == RP_OK)
        *out = q.m.g;
    else
        ir_graph_free(q.m.g);
    base_free(q.map);
    base_free(q.alt);
    return st;
}
