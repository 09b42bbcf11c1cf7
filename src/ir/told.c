/* Which sizes of a graph no input tells. */
#include "ir/told.h"

#include "base/alloc.h"
#include "base/status.h"
#include "ir/dim_code.h"

/* --- what depends on a size ----------------------------------------------------------- */

static bool dims_use(const ir_dims *t, const ir_dim *d, uint32_t n, uint32_t symbol) {
    for (uint32_t i = 0; i < n; i++)
        if (ir_dim_uses(t, d[i], symbol)) return true;
    return false;
}

static bool types_use(const ir_dims *t, const ir_type *x, uint32_t n, uint32_t symbol) {
    for (uint32_t i = 0; i < n; i++)
        if (dims_use(t, x[i].shape.dim, x[i].shape.rank, symbol)) return true;
    return false;
}

static bool attr_uses(const ir_dims *t, const ir_attr *a, uint32_t symbol) {
    switch (ir_attr_key_type(a->key)) {
    case IR_ATTR_TYPE_DIM: return ir_dim_uses(t, a->u.dim, symbol);
    case IR_ATTR_TYPE_DIMS: return dims_use(t, a->u.dims, a->n, symbol);
    case IR_ATTR_TYPE_TYPES: return types_use(t, a->u.types, a->n, symbol);
    default: return false;
    }
}

static rp_status depends_on(const ir_graph *g, const char *name, bool first, ir_ref *out,
                            rp_error *err);

static rp_status node_depends(const ir_dims *t, const ir_node *n, uint32_t symbol, bool *out,
                              rp_error *err) {
    const ir_graph *inner;
    ir_ref at = IR_NONE;
    *out = dims_use(t, n->shape.dim, n->shape.rank, symbol) ||
           types_use(t, n->more, n->n_more, symbol);
    for (uint32_t i = 0; i < n->n_attrs && !*out; i++) *out = attr_uses(t, &n->attrs[i], symbol);
    for (uint32_t i = 0; !*out && (inner = ir_node_graph(n, i)); i++) {
        RP_TRY(depends_on(inner, ir_dims_symbol(t, symbol)->name, false, &at, err));
        *out = at != IR_NONE;
    }
    return RP_OK;
}

/* A node that depends on the size, the first of them where that is asked for; IR_NONE: none does. */
static rp_status depends_on(const ir_graph *g, const char *name, bool first, ir_ref *out,
                            rp_error *err) {
    const ir_dims *t = ir_graph_dims(g);
    uint32_t n = ir_graph_count(g), symbol = ir_dims_find(t, name);
    rp_status st = RP_OK;
    *out = IR_NONE;
    if (symbol == UINT32_MAX) return RP_OK;
    bool *alive = base_alloc_array(n + 1u, sizeof *alive), all = !ir_graph_is_finished(g);
    if (!alive) return rp_fail(err, RP_NOMEM, "sizes");
    for (uint32_t i = 0; !all && i < ir_output_count(g); i++) alive[ir_output_at(g, i)] = true;
    for (ir_ref r = n; r-- > 0 && st == RP_OK && (first || *out == IR_NONE);) {
        const ir_node *x = ir_node_at(g, r);
        bool depends, done = ir_node_is_effect(x) || ir_op_run_by_host(x->op);
        if (!all && !alive[r] && !done) continue;
        for (uint32_t i = 0; i < x->n_in; i++) alive[x->in[i]] = true;
        st = node_depends(t, x, symbol, &depends, err);
        if (st == RP_OK && depends) *out = r;
    }
    base_free(alive);
    return st;
}

/* --- what inputs tell --------------------------------------------------------------- */

static bool dim_tells(const ir_dims *t, ir_dim d, uint32_t symbol) {
    ir_dim_code code;
    uint32_t of;
    int64_t coef, constant;
    return ir_dim_code_of(t, d, &code, NULL) == RP_OK &&
           ir_dim_code_linear(&code, &of, &coef, &constant) && of == symbol;
}

static bool is_told(const ir_graph *g, uint32_t symbol) {
    const ir_dims *t = ir_graph_dims(g);
    for (uint32_t i = 0; i < ir_leaf_count(g, IR_LEAF_INPUT); i++) {
        const ir_shape *s = &ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i))->shape;
        for (uint32_t d = 0; d < s->rank; d++)
            if (dim_tells(t, s->dim[d], symbol)) return true;
    }
    return false;
}

rp_status ir_find_untold(const ir_graph *g, uint32_t *out, rp_error *err) {
    const ir_dims *t = ir_graph_dims(g);
    *out = UINT32_MAX;
    for (uint32_t i = 0; i < ir_dims_symbol_count(t) && *out == UINT32_MAX; i++) {
        const ir_symbol *s = ir_dims_symbol(t, i);
        ir_ref at = IR_NONE;
        if (s->min == s->max || is_told(g, i)) continue;
        RP_TRY(depends_on(g, s->name, false, &at, err));
        if (at != IR_NONE) *out = i;
    }
    return RP_OK;
}

rp_status ir_find_dependent(const ir_graph *g, uint32_t symbol, ir_ref *out, rp_error *err) {
    return depends_on(g, ir_dims_symbol(ir_graph_dims(g), symbol)->name, true, out, err);
}

ir_ref ir_find_telling(const ir_graph *from, ir_graph *g, uint32_t symbol) {
    ir_dims *t = ir_graph_dims(g);
    for (uint32_t i = 0; i < ir_leaf_count(from, IR_LEAF_INPUT); i++) {
        ir_ref r = ir_leaf_at(from, IR_LEAF_INPUT, i);
        const ir_shape *s = &ir_node_at(from, r)->shape;
        for (uint32_t d = 0; d < s->rank; d++)
            if (dim_tells(t, ir_dim_import(t, ir_graph_dims(from), s->dim[d]), symbol)) return r;
    }
    return IR_NONE;
}
