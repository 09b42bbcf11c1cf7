/* Shape rules of call, cond, while and scan, whose attributes are graphs.
 *
 * Such a graph is a function: its inputs are arguments, its outputs results. It has no params or states of its own, and it sees no
 * value of the graph around it; size symbols alone are the same ones, by name and range. What it mutates is one of its
 * arguments, so what it writes and in which version is said by the operands of the node, as everywhere. */
#include "ir/rule.h"

typedef struct rule {
    const ir_graph *g;
    ir_dims *dims;
    const ir_node *n;
    const char *op;
    const char *key;   /* the attribute in question */
    const ir_graph *f; /* its graph */
    rp_error *err;
} rule;

const ir_graph *ir_node_graph(const ir_node *n, uint32_t i) {
    for (uint32_t k = 0; ir_op_has_graphs(n->op) && k < n->n_attrs; k++)
        if (ir_attr_key_type(n->attrs[k].key) == IR_ATTR_TYPE_GRAPH && i-- == 0)
            return n->attrs[k].u.graph;
    return NULL;
}

const char *ir_graph_role(ir_op op, uint32_t i) {
    for (int k = 0; ir_op_has_graphs(op) && k < IR_ATTR_COUNT_; k++)
        if (ir_op_table(op)->attr_mask & UINT32_C(1) << k &&
            ir_attr_key_type((ir_attr_key)k) == IR_ATTR_TYPE_GRAPH && i-- == 0)
            return ir_attr_key_name((ir_attr_key)k);
    return "";
}

uint32_t ir_first_argument(ir_op op) {
    return op == IR_cond;
}

uint64_t ir_graphs_write(const ir_node *n) {
    uint64_t writes = 0;
    const ir_graph *f;
    for (uint32_t k = 0; (f = ir_node_graph(n, k)); k++)
        for (uint32_t i = 0; i < ir_leaf_count(f, IR_LEAF_INPUT) && i < 63; i++)
            if (ir_node_at(f, ir_leaf_at(f, IR_LEAF_INPUT, i))->mutates)
                writes |= UINT64_C(1) << (i + ir_first_argument(n->op));
    return writes;
}

/* --- one graph -------------------------------------------------------------------- */

static ir_type type_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    return (ir_type){n->dtype, n->shape};
}

static ir_type operand(const rule *r, uint32_t i) {
    return type_of(r->g, r->n->in[i]);
}

static ir_type_text text_of(const rule *r, const ir_type *t) {
    return ir_shape_text(r->g, t->dtype, &t->shape);
}

static bool same_types(const rule *r, const ir_type *a, const ir_type *b) {
    bool same = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (uint32_t i = 0; same && i < a->shape.rank; i++)
        same = ir_dim_same(r->dims, a->shape.dim[i], b->shape.dim[i]);
    return same;
}

/* The type of value v of the graph, in sizes of the one around it. */
static rp_status outer_type(const rule *r, ir_ref v, ir_type *out) {
    *out = type_of(r->f, v);
    for (uint32_t i = 0; i < out->shape.rank; i++) {
        out->shape.dim[i] = ir_dim_import(r->dims, ir_graph_dims(r->f), out->shape.dim[i]);
        if (out->shape.dim[i] == IR_DIM_BAD)
            return rp_fail(r->err, RP_NOMEM, "%s: sizes of %s", r->op, r->key);
    }
    return RP_OK;
}

/* One name is one size, in and out. */
static rp_status check_symbols(const rule *r) {
    const ir_dims *t = ir_graph_dims(r->f);
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        const ir_symbol *s = ir_dims_symbol(t, i);
        if (ir_dim_symbol(r->dims, s->name, s->min, s->max, s->divisor) != IR_DIM_BAD) continue;
        if (ir_dims_exhausted(r->dims)) return rp_fail(r->err, RP_NOMEM, "%s: sizes", r->op);
        return rp_fail(r->err, RP_INVALID,
                       "%s: size symbol %s of %s @%s has another range than that of graph @%s; a "
                       "symbol is the same size in both, so declare it alike",
                       r->op, s->name, r->key, ir_graph_name(r->f), ir_graph_name(r->g));
    }
    return RP_OK;
}

/* That the graph takes n arguments of these types, of which the first may not be mutated. */
static rp_status check_inputs(const rule *r, const ir_type *want, uint32_t n, uint32_t values) {
    uint32_t has = ir_leaf_count(r->f, IR_LEAF_INPUT);
    if (ir_leaf_count(r->f, IR_LEAF_PARAM) + ir_leaf_count(r->f, IR_LEAF_STATE) > 0)
        return rp_fail(r->err, RP_INVALID,
                       "%s: %s @%s has a param or a state of its own; hand it in as an argument",
                       r->op, r->key, ir_graph_name(r->f));
    if (has != n)
        return rp_fail(r->err, RP_INVALID, "%s: %s @%s has %u input%s and gets %u argument%s",
                       r->op, r->key, ir_graph_name(r->f), has, has == 1 ? "" : "s", n,
                       n == 1 ? "" : "s");
    RP_TRY(check_symbols(r));
    for (uint32_t i = 0; i < n; i++) {
        const ir_node *in = ir_node_at(r->f, ir_leaf_at(r->f, IR_LEAF_INPUT, i));
        ir_type t;
        RP_TRY(outer_type(r, ir_leaf_at(r->f, IR_LEAF_INPUT, i), &t));
        if (!same_types(r, &t, &want[i]))
            return rp_fail(r->err, RP_INVALID, "%s: input %%%s of %s @%s is %s and gets %s", r->op,
                           in->name, r->key, ir_graph_name(r->f), text_of(r, &t).s,
                           text_of(r, &want[i]).s);
        if (in->mutates && i < values)
            return rp_fail(r->err, RP_INVALID,
                           "%s: %s @%s mutates %%%s, which is no memory here: it is carried, "
                           "sliced, or the condition's; hand memory in behind those",
                           r->op, r->key, ir_graph_name(r->f), in->name);
    }
    return RP_OK;
}

/* The types of what the graph gives. */
static rp_status outputs(const rule *r, ir_type out[IR_MAX_RESULTS], uint32_t *n) {
    *n = ir_output_count(r->f);
    if (*n < 1 || *n > IR_MAX_RESULTS)
        return rp_fail(r->err, RP_INVALID, "%s: %s @%s gives %u results; 1 to %u are possible",
                       r->op, r->key, ir_graph_name(r->f), *n, IR_MAX_RESULTS);
    for (uint32_t i = 0; i < *n; i++) RP_TRY(outer_type(r, ir_output_at(r->f, i), &out[i]));
    return RP_OK;
}

static void turn_to(rule *r, ir_attr_key key) {
    r->key = ir_attr_key_name(key);
    r->f = ir_attr_get(r->n, key)->u.graph;
}

/* --- the ops ------------------------------------------------------------------------ */

static bool is_scalar_bool(const ir_type *t) {
    return t->dtype == RP_DTYPE_BOOL && t->shape.rank == 0;
}

static rp_status check_carried(const rule *r, const ir_type *args, const ir_type *out, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!same_types(r, &args[i], &out[i]))
            return rp_fail(r->err, RP_INVALID,
                           "%s: carried value %u begins as %s, and %s @%s gives %s; it keeps its "
                           "type",
                           r->op, i, text_of(r, &args[i]).s, r->key, ir_graph_name(r->f),
                           text_of(r, &out[i]).s);
    return RP_OK;
}

static rp_status infer_cond(rule *r, const ir_type *args, uint32_t n, ir_type *out,
                            uint32_t *n_out) {
    ir_type pred = operand(r, 0), other[IR_MAX_RESULTS];
    uint32_t n_other = 0;
    if (!is_scalar_bool(&pred))
        return rp_fail(r->err, RP_INVALID, "cond: the predicate is bool[], not %s",
                       text_of(r, &pred).s);
    turn_to(r, IR_ATTR_ELSE);
    RP_TRY(check_inputs(r, args, n, 0));
    RP_TRY(outputs(r, other, &n_other));
    turn_to(r, IR_ATTR_THEN);
    RP_TRY(check_inputs(r, args, n, 0));
    RP_TRY(outputs(r, out, n_out));
    if (n_other != *n_out)
        return rp_fail(r->err, RP_INVALID, "cond: then gives %u results, else %u", *n_out, n_other);
    for (uint32_t i = 0; i < n_other; i++)
        if (!same_types(r, &out[i], &other[i]))
            return rp_fail(r->err, RP_INVALID, "cond: result %u of then is %s, of else %s", i,
                           text_of(r, &out[i]).s, text_of(r, &other[i]).s);
    return RP_OK;
}

static rp_status infer_while(rule *r, const ir_type *args, uint32_t n, ir_type *out,
                             uint32_t *n_out) {
    ir_type more[IR_MAX_RESULTS];
    uint32_t n_more = 0;
    if (ir_attr_int(r->n, IR_ATTR_LIMIT, 0) < 0)
        return rp_fail(r->err, RP_INVALID, "while: limit %lld",
                       (long long)ir_attr_int(r->n, IR_ATTR_LIMIT, 0));
    turn_to(r, IR_ATTR_COND);
    RP_TRY(check_inputs(r, args, n, n));
    RP_TRY(outputs(r, more, &n_more));
    if (n_more != 1 || !is_scalar_bool(more))
        return rp_fail(r->err, RP_INVALID, "while: cond @%s gives %s, not one bool[]",
                       ir_graph_name(r->f), n_more == 1 ? text_of(r, more).s : "several results");
    turn_to(r, IR_ATTR_BODY);
    RP_TRY(outputs(r, out, n_out));
    if (*n_out > n)
        return rp_fail(r->err, RP_INVALID,
                       "while: body @%s gives %u values to carry, of %u operands",
                       ir_graph_name(r->f), *n_out, n);
    RP_TRY(check_inputs(r, args, n, *n_out));
    return check_carried(r, args, out, *n_out);
}

/* What body gets of a value that is scanned over. */
static rp_status slice_of(const rule *r, uint32_t i, ir_dim length, ir_type *t) {
    ir_type whole = *t;
    if (t->shape.rank == 0 || ir_dim_eq(r->dims, t->shape.dim[0], length) != IR_TRUE)
        return rp_fail(r->err, RP_INVALID,
                       "scan: operand %u is %s, whose first axis is not known to be of length %s",
                       i, text_of(r, &whole).s, ir_dim_text(r->g, length).s);
    t->shape.rank--;
    for (uint32_t d = 0; d < t->shape.rank; d++) t->shape.dim[d] = whole.shape.dim[d + 1];
    return RP_OK;
}

/* All that body gives for one element. */
static rp_status stack_of(const rule *r, ir_dim length, ir_type *t) {
    ir_type one = *t;
    if (one.shape.rank == IR_MAX_RANK)
        return rp_fail(r->err, RP_INVALID, "scan: %s stacked has more than %d axes",
                       text_of(r, &one).s, IR_MAX_RANK);
    t->shape.dim[0] = length;
    for (uint32_t d = 0; d < one.shape.rank; d++) t->shape.dim[d + 1] = one.shape.dim[d];
    t->shape.rank++;
    return RP_OK;
}

static rp_status infer_scan(rule *r, ir_type *args, uint32_t n, ir_type *out, uint32_t *n_out) {
    int64_t carried = ir_attr_int(r->n, IR_ATTR_CARRIED, 0), lo, hi;
    int64_t sliced = ir_attr_int(r->n, IR_ATTR_SLICED, 0);
    ir_dim length = ir_attr_get(r->n, IR_ATTR_LENGTH)->u.dim;
    turn_to(r, IR_ATTR_BODY);
    RP_TRY(outputs(r, out, n_out));
    if (carried < 0 || sliced < 0 || carried > *n_out || carried > n || sliced > n - carried)
        return rp_fail(
            r->err, RP_INVALID,
            "scan: carries %lld and slices %lld of %u operands; body @%s gives %u results",
            (long long)carried, (long long)sliced, n, ir_graph_name(r->f), *n_out);
    ir_dim_bounds(r->dims, length, &lo, &hi);
    if (lo < 0 && ir_dim_le(r->dims, ir_dim_const(r->dims, 0), length) != IR_TRUE)
        return rp_fail(r->err, RP_INVALID, "scan: length %s may be negative",
                       ir_dim_text(r->g, length).s);
    for (uint32_t i = (uint32_t)carried; i < (uint32_t)(carried + sliced); i++)
        RP_TRY(slice_of(r, i, length, &args[i]));
    RP_TRY(check_inputs(r, args, n, (uint32_t)(carried + sliced)));
    RP_TRY(check_carried(r, args, out, (uint32_t)carried));
    for (uint32_t i = (uint32_t)carried; i < *n_out; i++) RP_TRY(stack_of(r, length, &out[i]));
    return RP_OK;
}

static rp_status check_nesting(const rule *r) {
    const ir_graph *f;
    uint32_t size = ir_graph_size(r->g);
    for (uint32_t i = 0; (f = ir_node_graph(r->n, i)); i++) {
        if (ir_graph_depth(f) >= IR_MAX_DEPTH)
            return rp_fail(r->err, RP_UNSUPPORTED, "%s: graphs are nested %u deep at most", r->op,
                           IR_MAX_DEPTH);
        size += ir_graph_size(f); /* each below IR_MAX_NODES */
    }
    if (size < IR_MAX_NODES) return RP_OK;
    return rp_fail(r->err, RP_UNSUPPORTED, "%s: more than %u nodes with those of its graphs", r->op,
                   IR_MAX_NODES);
}

static rp_status infer(rule *r, ir_type *args, ir_type *out, uint32_t *n_out) {
    uint32_t n = r->n->n_in - ir_first_argument(r->n->op);
    if (r->n->op == IR_cond) return infer_cond(r, args, n, out, n_out);
    if (r->n->op == IR_while) return infer_while(r, args, n, out, n_out);
    if (r->n->op == IR_scan) return infer_scan(r, args, n, out, n_out);
    turn_to(r, IR_ATTR_BODY);
    RP_TRY(check_inputs(r, args, n, 0));
    return outputs(r, out, n_out);
}

rp_status ir_infer_graphs(ir_rule *to) {
    rule r = {.g = to->g, .dims = to->dims, .n = to->n, .op = to->op, .err = to->err};
    ir_type args[64], out[IR_MAX_RESULTS];
    uint32_t first = ir_first_argument(to->n->op), n = 0;
    if (to->n->n_in < first)
        return rp_fail(to->err, RP_INVALID, "cond: operand 0 is its predicate");
    for (uint32_t i = first; i < to->n->n_in; i++) args[i - first] = operand(&r, i);
    RP_TRY(check_nesting(&r));
    RP_TRY(infer(&r, args, out, &n));
    to->dtype = out->dtype;
    to->shape = out->shape;
    for (uint32_t i = 1; i < n; i++) to->more[to->n_more++] = out[i];
    return RP_OK;
}
