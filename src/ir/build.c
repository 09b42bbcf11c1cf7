/* Adds nodes: each is checked, completed and typed, and is the earlier one where an equal one is there.
 *
 * Params and states are told apart by name, inputs by being created. Nothing is folded or simplified here, that is the
 * passes' work. */
#include <string.h>

#include "ir/cell.h"

static rp_status check_open(const ir_graph *g, rp_error *err) {
    if (!g->finished) return RP_OK;
    return rp_fail(err, RP_INVALID, "graph %s is finished; build a new one", g->name);
}

static bool leaf_reserve(ir_graph *g, ir_leaf_list *l) {
    if (l->n < l->cap) return true;
    uint32_t cap = l->cap ? l->cap * 2 : 16;
    ir_ref *p = base_arena_array(g->arena, cap, sizeof *p);
    if (!p) return false;
    if (l->n > 0) memcpy(p, l->ref, l->n * sizeof *p);
    l->ref = p;
    l->cap = cap;
    return true;
}

static bool same_shape(const ir_shape *a, const ir_shape *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

static rp_status check_leaf(const ir_graph *g, const ir_node *n, rp_error *err) {
    const char *what = ir_op_table(n->op)->name;
    if (!n->name || !ir_name_ok(n->name))
        return rp_fail(err, RP_INVALID,
                       "%s name '%.80s' must be letters, digits, _ . - / with a letter or _ first",
                       what, n->name ? n->name : "");
    return ir_check_shape(g, what, n->dtype, &n->shape, err);
}

/* One name is one leaf, of whatever kind: whoever binds by name would ir_cell_find the wrong one. */
static rp_status check_name(const ir_graph *g, ir_leaf kind, const char *name, rp_error *err) {
    static const char *const kinds[] = {"an input", "a param", "a state"};
    for (uint32_t k = 0; k < sizeof g->leaf / sizeof g->leaf[0]; k++)
        for (uint32_t i = 0; i < g->leaf[k].n && (k != kind || kind == IR_LEAF_INPUT); i++) {
            if (strcmp(ir_node_at(g, g->leaf[k].ref[i])->name, name) != 0) continue;
            if (k == kind) return rp_fail(err, RP_INVALID, "input '%s' exists already", name);
            return rp_fail(err, RP_INVALID,
                           "'%s' is %s of graph @%s already and cannot be %s as well; give it a "
                           "name of its own",
                           name, kinds[k], g->name, kinds[kind]);
        }
    return RP_OK;
}

rp_status ir_add_leaf(ir_graph *g, ir_leaf kind, const char *name, rp_dtype dtype, ir_shape shape,
                      ir_ref *out, rp_error *err) {
    static const ir_op op[] = {IR_input, IR_param, IR_state};
    ir_node n = {.op = op[kind], .dtype = dtype, .shape = shape, .name = name};
    RP_TRY(check_open(g, err));
    RP_TRY(check_leaf(g, &n, err));
    RP_TRY(check_name(g, kind, name, err));
    for (uint32_t i = n.shape.rank; i < IR_MAX_RANK; i++) n.shape.dim[i] = 0;
    uint32_t hash = ir_node_hash(&n);
    ir_ref old = kind == IR_LEAF_INPUT ? IR_NONE : ir_cell_find(g, &n, hash);
    if (old != IR_NONE) {
        const ir_node *o = ir_node_at(g, old);
        if (o->dtype != dtype || !same_shape(&o->shape, &shape))
            return rp_fail(err, RP_INVALID, "%s '%s' is %s already, not %s",
                           ir_op_table(n.op)->name, name, ir_type_of(g, old).s,
                           ir_shape_text(g, dtype, &shape).s);
        *out = old;
        return RP_OK;
    }
    RP_TRY(ir_cell_reserve(g, err));
    n.name = base_arena_str(g->arena, name);
    if (!n.name || !leaf_reserve(g, &g->leaf[kind])) return ir_graph_full(g, err);
    *out = g->leaf[kind].ref[g->leaf[kind].n++] = ir_cell_append(g, &n, hash);
    return RP_OK;
}

static rp_status check_operands(const ir_graph *g, ir_op op, const ir_ref *in, uint32_t n_in,
                                uint32_t n_attrs, rp_error *err) {
    const ir_op_info *info = ir_op_table(op);
    if ((unsigned)op >= IR_OP_COUNT_ || op == IR_input || op == IR_param || op == IR_state)
        return rp_fail(err, RP_INVALID, "op %d is not one that is added by operands", (int)op);
    if (info->arity >= 0 && n_in != (uint32_t)info->arity)
        return rp_fail(err, RP_INVALID, "%s: takes %d operand%s, not %u", info->name, info->arity,
                       info->arity == 1 ? "" : "s", n_in);
    uint32_t most = ir_op_is_call(op) ? 64 : IR_MAX_OPERANDS;
    if (n_in > most)
        return rp_fail(err, RP_INVALID, "%s: %u operands; %u are the most", info->name, n_in, most);
    if (n_attrs > IR_MAX_ATTRS)
        return rp_fail(err, RP_INVALID, "%s: %u attributes; %d are the most", info->name, n_attrs,
                       IR_MAX_ATTRS);
    for (uint32_t i = 0; i < n_in; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): callers fill n_in */
        if (in[i] >= g->n)
            return rp_fail(err, RP_INVALID, "%s: operand %u does not exist", info->name, i);
    return RP_OK;
}

/* Sets the types of n's results. */
static rp_status infer(ir_graph *g, ir_node *n, rp_error *err) {
    ir_type out[IR_MAX_RESULTS];
    uint32_t n_out = 1;
    RP_TRY(ir_infer(g, n, out, &n_out, err));
    n->dtype = out->dtype;
    n->shape = out->shape;
    n->n_more = n_out - 1;
    if (n->n_more == 0) return RP_OK;
    ir_type *more = base_arena_array(g->arena, n->n_more, sizeof *more);
    if (!more) return ir_graph_full(g, err);
    memcpy(more, out + 1, n->n_more * sizeof *more);
    n->more = more;
    return RP_OK;
}

/* The node's share of its graphs, as the last thing that can fail. */
static rp_status hold_graphs(ir_graph *g, const ir_node *n, rp_error *err) {
    const ir_graph *x;
    for (uint32_t i = 0; (x = ir_node_graph(n, i)); i++) {
        ir_inner *in = base_arena_alloc(g->arena, sizeof *in);
        if (!in) return ir_graph_full(g, err);
        *in = (ir_inner){ir_graph_share(x), g->inner};
        g->inner = in;
        g->n_inside += ir_graph_size(x);
        if (x->depth >= g->depth) g->depth = x->depth + 1;
    }
    return RP_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the builder's whole contract in one call */
rp_status ir_add(ir_graph *g, ir_op op, const ir_ref *in, uint32_t n_in, const ir_attr *attrs,
                 uint32_t n_attrs, ir_ref *out, rp_error *err) {
    ir_attr a[IR_MAX_ATTRS];
    ir_attr_room room;
    ir_node n = {.op = op, .n_in = n_in, .in = in, .n_attrs = n_attrs, .attrs = attrs};
    RP_TRY(check_open(g, err));
    RP_TRY(check_operands(g, op, in, n_in, n_attrs, err));
    RP_TRY(ir_attrs_normalise(g, &n, a, &n_attrs, &room, err));
    n.attrs = a;
    n.n_attrs = n_attrs;
    bool merge = ir_node_merges(&n);
    uint32_t hash = merge ? ir_node_hash(&n) : 0;
    ir_ref old = merge ? ir_cell_find(g, &n, hash) : IR_NONE;
    if (old != IR_NONE) {
        *out = old;
        return g->runs && ir_run_notes(&n) ? ir_run_ask(g, old, err) : RP_OK;
    }
    RP_TRY(ir_check_writes(g, &n, IR_NONE, err));
    if (g->runs && !merge && (old = ir_run_find(g, &n)) != IR_NONE) {
        *out = old;
        return RP_OK;
    }
    RP_TRY(infer(g, &n, err));
    RP_TRY(ir_cell_reserve(g, err));
    const bool noted = g->runs && ir_run_notes(&n);
    if (noted) RP_TRY(ir_run_reserve(g, err));
    if (n_in > 0) {
        ir_ref *copy = base_arena_array(g->arena, n_in, sizeof *copy);
        if (!copy) return ir_graph_full(g, err);
        memcpy(copy, in, n_in * sizeof *copy);
        n.in = copy;
    } else {
        n.in = NULL;
    }
    n.attrs = n.n_attrs > 0 ? ir_attrs_copy(g->arena, a, n.n_attrs) : NULL;
    if (n.n_attrs > 0 && !n.attrs) return ir_graph_full(g, err);
    RP_TRY(hold_graphs(g, &n, err));
    *out = ir_cell_append(g, &n, hash);
    if (noted) ir_run_note(g, *out);
    return RP_OK;
}

rp_status ir_add1(ir_graph *g, ir_op op, ir_ref a, ir_ref *out, rp_error *err) {
    return ir_add(g, op, &a, 1, NULL, 0, out, err);
}

rp_status ir_add2(ir_graph *g, ir_op op, ir_ref a, ir_ref b, ir_ref *out, rp_error *err) {
    ir_ref in[2] = {a, b};
    return ir_add(g, op, in, 2, NULL, 0, out, err);
}

rp_status ir_add_const(ir_graph *g, rp_dtype dtype, double v, ir_ref *out, rp_error *err) {
    ir_attr a[2] = {{.key = IR_ATTR_DTYPE, .u.i = dtype}, {.key = IR_ATTR_VALUE, .u.f = v}};
    return ir_add(g, IR_const, NULL, 0, a, 2, out, err);
}

rp_status ir_add_result(ir_graph *g, ir_ref r, uint32_t i, ir_ref *out, rp_error *err) {
    ir_attr index = {.key = IR_ATTR_INDEX, .u.i = i};
    if (i > 0) return ir_add(g, IR_result, &r, 1, &index, 1, out, err);
    *out = r;
    return RP_OK;
}

rp_status ir_graph_finish(ir_graph *g, const ir_ref *outputs, uint32_t n, rp_error *err) {
    RP_TRY(check_open(g, err));
    for (uint32_t i = 0; i < n; i++)
        if (outputs[i] >= g->n)
            return rp_fail(err, RP_INVALID, "graph %s: output %u does not exist", g->name, i);
    if (n > 0) {
        g->out = base_arena_array(g->arena, n, sizeof *g->out);
        if (!g->out) return ir_graph_full(g, err);
        memcpy(g->out, outputs, n * sizeof *g->out);
    }
    g->n_out = n;
    g->finished = true;
    return RP_OK;
}
