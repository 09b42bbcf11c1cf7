/* Nodes carried over to another graph. */
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

/* Room for the dims of an attribute. */
typedef union attr_room {
    ir_dim dims[IR_MAX_RANK];
    ir_type types[IR_MAX_RESULTS];
} attr_room;

/* Dims of an attribute named in dst's table; the array goes to buf. */
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

rp_status ir_copy_node_on(ir_graph *dst, const ir_graph *src, ir_ref r, const ir_ref *in,
                          ir_ref *out, rp_error *err) {
    const ir_node *n = ir_node_at(src, r);
    ir_attr a[IR_MAX_ATTRS];
    attr_room room[IR_MAX_ATTRS];
    for (uint32_t i = 0; i < n->n_attrs; i++) {
        a[i] = n->attrs[i];
        if (!import_attr(dst, src, &a[i], &room[i]))
            return rp_fail(err, RP_NOMEM, "graph %s: a size cannot be carried over",
                           ir_graph_name(dst));
    }
    RP_TRY(ir_add(dst, n->op, in, n->n_in, a, n->n_attrs, out, err));
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
