/* Nodes carried over to another graph. Graphs that are their attributes are shared where symbols go by name, and made again where
 * they do not. */
#include "base/alloc.h"
#include "ir/node.h"
#include "ir/site.h"

static bool import_dims(ir_graph *dst, const ir_graph *src, const ir_dim *from, uint32_t n,
                        ir_dim *to) {
    for (uint32_t i = 0; i < n; i++) {
        to[i] = ir_dim_import(ir_graph_dims(dst), ir_graph_dims(src), from[i]);
        if (to[i] == IR_DIM_BAD) return false;
    }
    return true;
}

/* --- graphs of a node ---------------------------------------------------------------------- */

/* dst on the sizes that its surroundings, `around`, have for those of src, whose own surroundings are `from`. */
typedef struct carrying {
    ir_graph *dst;
    const ir_graph *src;
    ir_dims *around;
    const ir_dims *from;
    ir_ref *map;
    ir_dim *by; /* what each symbol of src is in dst */
} carrying;

static rp_status carry_symbols(carrying *c, rp_error *err) {
    const ir_dims *own = ir_graph_dims(c->src);
    ir_dims *t = ir_graph_dims(c->dst);
    uint32_t n = ir_dims_symbol_count(own);
    c->by = base_alloc_array(n + 1u, sizeof *c->by);
    if (!c->by) return rp_fail(err, RP_NOMEM, "graph %s: sizes", ir_graph_name(c->src));
    for (uint32_t i = 0; i < n; i++) {
        ir_dim d = ir_dim_import_symbol(c->around, c->from, ir_dims_symbol(own, i)->name);
        c->by[i] = ir_dim_import(t, c->around, d);
        if (c->by[i] == IR_DIM_BAD)
            return rp_fail(err, RP_NOMEM, "graph %s: a size cannot be carried over",
                           ir_graph_name(c->src));
    }
    ir_dims_set_import(t, own, c->by, n);
    return RP_OK;
}

static rp_status carry_input(carrying *c, ir_ref r, rp_error *err) {
    const ir_node *n = ir_node_at(c->src, r);
    ir_shape s = {.rank = n->shape.rank};
    if (!import_dims(c->dst, c->src, n->shape.dim, s.rank, s.dim))
        return rp_fail(err, RP_NOMEM, "graph %s: a size cannot be carried over",
                       ir_graph_name(c->src));
    RP_TRY(ir_add_leaf(c->dst, IR_LEAF_INPUT, n->name, n->dtype, s, &c->map[r], err));
    if (n->mutates) ir_input_mutates(c->dst, c->map[r]);
    return ir_sites_join(c->dst, c->map[r], c->src, r) ? RP_OK : ir_graph_full(c->dst, err);
}

static rp_status carry_nodes(carrying *c, rp_error *err) {
    ir_ref out[IR_MAX_RESULTS];
    uint32_t n = ir_output_count(c->src);
    for (ir_ref r = 0; r < ir_graph_count(c->src); r++)
        RP_TRY(ir_node_at(c->src, r)->op == IR_input
                   ? carry_input(c, r, err)
                   : ir_copy_node(c->dst, c->src, r, c->map, &c->map[r], err));
    for (uint32_t i = 0; i < n; i++) out[i] = c->map[ir_output_at(c->src, i)];
    return ir_graph_finish(c->dst, out, n, err);
}

/* What a shape rule wants of a size is asked where the node is. */
static rp_status carry_graph(ir_graph *dst, const ir_graph *from, const ir_graph *src,
                             ir_graph **out, rp_error *err) {
    rp_status st = RP_OK;
    carrying c = {ir_graph_new(ir_graph_name(src)),
                  src,
                  ir_graph_dims(dst),
                  ir_graph_dims(from),
                  base_alloc_array(ir_graph_count(src) + 1u, sizeof(ir_ref)),
                  NULL};
    if (!c.dst || !c.map) {
        st = rp_fail(err, RP_NOMEM, "graph %s: out of memory", ir_graph_name(src));
        goto out;
    }
    ir_dims_pair pair = {ir_graph_dims(c.dst), c.around};
    RP_TRY_OUT(carry_symbols(&c, err));
    ir_dims_set_assume(ir_graph_dims(c.dst), ir_dims_assume_around, &pair);
    RP_TRY_OUT(carry_nodes(&c, err));
    ir_dims_set_assume(ir_graph_dims(c.dst), NULL, NULL);
    ir_dims_set_import(ir_graph_dims(c.dst), NULL, NULL, 0);
    *out = c.dst;
    c.dst = NULL;
out:
    ir_graph_free(c.dst);
    base_free(c.map);
    base_free(c.by);
    return st;
}

/* --- nodes --------------------------------------------------------------------------------- */

/* Room for the dims of an attribute. */
typedef union attr_room {
    ir_dim dims[IR_MAX_RANK];
    ir_type types[IR_MAX_RESULTS];
} attr_room;

/* Dims of an attribute named in dst's table; the array goes to buf. Graphs are others' work. */
static bool import_attr(ir_graph *dst, const ir_graph *src, ir_attr *a, attr_room *buf) {
    ir_attr_type type = ir_attr_key_type(a->key);
    if (type == IR_ATTR_TYPE_DIM) {
        a->u.dim = ir_dim_import(ir_graph_dims(dst), ir_graph_dims(src), a->u.dim);
        return a->u.dim != IR_DIM_BAD;
    }
    if (type == IR_ATTR_TYPE_TYPES) {
        for (uint32_t i = 0; i < a->n; i++) {
            const ir_type *x = &a->u.types[i];
            buf->types[i] = (ir_type){x->dtype, {.rank = x->shape.rank}};
            if (!import_dims(dst, src, x->shape.dim, x->shape.rank, buf->types[i].shape.dim))
                return false;
        }
        a->u.types = buf->types;
    } else if (type == IR_ATTR_TYPE_DIMS) {
        if (!import_dims(dst, src, a->u.dims, a->n, buf->dims)) return false;
        a->u.dims = buf->dims;
    }
    return true;
}

/* In `made` those graphs of attributes that are this copy's, which the new node has shares of. */
static rp_status import_attrs(ir_graph *dst, const ir_graph *src, ir_attr *a, uint32_t n,
                              attr_room *room, ir_graph **made, rp_error *err) {
    bool carry = ir_dims_has_import(ir_graph_dims(dst), ir_graph_dims(src));
    for (uint32_t i = 0; i < n; i++) {
        if (carry && ir_attr_key_type(a[i].key) == IR_ATTR_TYPE_GRAPH) {
            RP_TRY(carry_graph(dst, src, a[i].u.graph, &made[i], err));
            a[i].u.graph = made[i];
        } else if (!import_attr(dst, src, &a[i], &room[i])) {
            return rp_fail(err, RP_NOMEM, "graph %s: a size cannot be carried over",
                           ir_graph_name(dst));
        }
    }
    return RP_OK;
}

rp_status ir_copy_node_on(ir_graph *dst, const ir_graph *src, ir_ref r, const ir_ref *in,
                          ir_ref *out, rp_error *err) {
    const ir_node *n = ir_node_at(src, r);
    ir_attr a[IR_MAX_ATTRS];
    attr_room room[IR_MAX_ATTRS];
    ir_graph *made[IR_MAX_ATTRS] = {NULL};
    for (uint32_t i = 0; i < n->n_attrs; i++) a[i] = n->attrs[i];
    rp_status st = import_attrs(dst, src, a, n->n_attrs, room, made, err);
    if (st == RP_OK) st = ir_add(dst, n->op, in, n->n_in, a, n->n_attrs, out, err);
    for (uint32_t i = 0; i < n->n_attrs; i++) ir_graph_free(made[i]);
    RP_TRY(st);
    return ir_sites_join(dst, *out, src, r) ? RP_OK : ir_graph_full(dst, err);
}

rp_status ir_copy_node(ir_graph *dst, const ir_graph *src, ir_ref r, const ir_ref *map, ir_ref *out,
                       rp_error *err) {
    const ir_node *n = ir_node_at(src, r);
    ir_ref in[IR_MAX_OPERANDS];
    if (!n) return rp_fail(err, RP_INVALID, "graph %s has no node %u", ir_graph_name(src), r);
    for (uint32_t i = 0; i < n->n_in; i++) in[i] = map[n->in[i]];
    return ir_copy_node_on(dst, src, r, in, out, err);
}
