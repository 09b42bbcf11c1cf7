#include "api/part.h"

#include <stdio.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "ir/site.h"

bool api_part_can_cut(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    return ir_op_table(n->op)->kind != IR_KIND_LEAF && n->n_more == 0 && n->memory == IR_NONE &&
           !ir_node_is_effect(n);
}

bool api_part_can_return(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    ir_kind kind = ir_op_table(n->op)->kind;
    return n->memory == IR_NONE && kind != IR_KIND_LEAF &&
           (kind != IR_KIND_VIEW || n->op == IR_result);
}

void api_part_needed(const api_part *p, bool *needed) {
    for (ir_ref r = 0; r < ir_graph_count(p->g); r++) needed[r] = false;
    for (uint32_t i = 0; i < p->n_roots; i++) needed[p->roots[i]] = true;
    for (ir_ref r = ir_graph_count(p->g); r-- > 0;) {
        const ir_node *n = ir_node_at(p->g, r);
        for (uint32_t i = 0; needed[r] && !p->cut[r] && i < n->n_in; i++) needed[n->in[i]] = true;
    }
}

typedef struct builder {
    const api_part *p;
    ir_graph *out;
    ir_ref *map, *from;
    bool *needed;
    rp_error *err;
} builder;

static bool is_given(const builder *b, ir_ref r) {
    ir_op op = ir_node_at(b->p->g, r)->op;
    return b->p->cut[r] || op == IR_input || op == IR_param || op == IR_state;
}

static rp_status add_leaf(builder *b, ir_ref r) {
    const ir_node *n = ir_node_at(b->p->g, r);
    ir_leaf kind = n->op == IR_param   ? IR_LEAF_PARAM
                   : n->op == IR_state ? IR_LEAF_STATE
                                       : IR_LEAF_INPUT;
    char own[24];
    ir_shape s = n->shape;
    (void)snprintf(own, sizeof own, "v%u", r);
    for (uint32_t i = 0; i < s.rank; i++) {
        s.dim[i] = ir_dim_import(ir_graph_dims(b->out), ir_graph_dims(b->p->g), s.dim[i]);
        if (s.dim[i] == IR_DIM_BAD) return rp_fail(b->err, RP_NOMEM, "part of a graph");
    }
    RP_TRY(
        ir_add_leaf(b->out, kind, b->p->cut[r] ? own : n->name, n->dtype, s, &b->map[r], b->err));
    if (n->mutates) ir_input_mutates(b->out, b->map[r]);
    return ir_sites_join(b->out, b->map[r], b->p->g, r)
               ? RP_OK
               : rp_fail(b->err, RP_NOMEM, "part of a graph");
}

static rp_status add_nodes(builder *b) {
    for (ir_ref r = 0; r < ir_graph_count(b->p->g); r++)
        if (b->needed[r] && is_given(b, r)) RP_TRY(add_leaf(b, r));
    for (ir_ref r = 0; r < ir_graph_count(b->p->g); r++)
        if (b->needed[r] && !is_given(b, r))
            RP_TRY(ir_copy_node(b->out, b->p->g, r, b->map, &b->map[r], b->err));
    return RP_OK;
}

/* Equal roots may have become one node; what writes is no output. */
static rp_status finish(builder *b) {
    ir_ref *outs = base_alloc_array(b->p->n_roots + 1u, sizeof *outs);
    uint32_t n = 0;
    if (!outs) return rp_fail(b->err, RP_NOMEM, "part of a graph");
    for (uint32_t i = 0; i < b->p->n_roots; i++) {
        ir_ref r = b->p->roots[i];
        if (ir_node_at(b->p->g, r)->memory == IR_NONE) outs[n++] = b->map[r];
    }
    rp_status st = ir_graph_finish(b->out, outs, n, b->err);
    base_free(outs);
    return st;
}

static rp_status build(builder *b, const int64_t *fixed) {
    const ir_dims *t = ir_graph_dims(b->p->g);
    uint32_t n = ir_graph_count(b->p->g);
    b->out = ir_graph_new(ir_graph_name(b->p->g));
    b->map = base_alloc_array(n + 1u, sizeof *b->map);
    b->needed = base_alloc_array(n + 1u, sizeof *b->needed);
    if (!b->out || !b->map || !b->needed) return rp_fail(b->err, RP_NOMEM, "part of a graph");
    for (uint32_t i = 0; fixed && i < ir_dims_symbol_count(t); i++)
        if (ir_dim_symbol(ir_graph_dims(b->out), ir_dims_symbol(t, i)->name, fixed[i], fixed[i],
                          1) == IR_DIM_BAD)
            return rp_fail(b->err, RP_NOMEM, "part of a graph");
    for (ir_ref r = 0; r < n; r++) b->map[r] = IR_NONE;
    api_part_needed(b->p, b->needed);
    RP_TRY(add_nodes(b));
    RP_TRY(finish(b));
    b->from = base_alloc_array(ir_graph_count(b->out) + 1u, sizeof *b->from);
    if (!b->from) return rp_fail(b->err, RP_NOMEM, "part of a graph");
    for (ir_ref r = n; r-- > 0;)
        if (b->map[r] != IR_NONE) b->from[b->map[r]] = r;
    return ir_verify(b->out, b->err);
}

static void done(builder *b) {
    ir_graph_free(b->out);
    base_free(b->map);
    base_free(b->from);
    base_free(b->needed);
    *b = (builder){.p = b->p, .err = b->err};
}

rp_status api_part_build(const api_part *p, const int64_t *sizes, ir_graph **out, ir_ref **from,
                         rp_error *err) {
    builder b = {.p = p, .err = err};
    rp_status st = build(&b, NULL);
    if (st == RP_OK && api_check_sizes(b.out, NULL) != RP_OK) {
        done(&b);
        st = build(&b, sizes);
    }
    if (st == RP_OK) {
        *out = b.out;
        *from = b.from;
        b.out = NULL;
        b.from = NULL;
    }
    done(&b);
    return st;
}

/* What writes, then the outputs as they are. */
static void list_all(const ir_graph *g, api_part *p) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++)
        if (ir_node_is_effect(ir_node_at(g, r))) p->roots[p->n_roots++] = r;
    for (uint32_t i = 0; i < ir_output_count(g); i++) p->roots[p->n_roots++] = ir_output_at(g, i);
}

rp_status api_part_fixed(const ir_graph *g, const char *sizes, ir_graph **out, rp_error *err) {
    const size_t n = ir_graph_count(g);
    api_part p = {.g = g};
    ir_ref *from = NULL;
    rp_status st = RP_OK;
    int64_t *fixed = base_alloc_array(ir_dims_symbol_count(ir_graph_dims(g)) + 1u, sizeof *fixed);
    p.cut = base_alloc_array(n + 1, sizeof *p.cut);
    p.roots = base_alloc_array(n + ir_output_count(g) + 1, sizeof *p.roots);
    if (!p.cut || !p.roots || !fixed) {
        st = rp_fail(err, RP_NOMEM, "sizes of a graph");
        goto out;
    }
    RP_TRY_OUT(api_sizes(g, sizes, fixed, err));
    list_all(g, &p);
    RP_TRY_OUT(api_part_build(&p, fixed, out, &from, err));
out:
    base_free(fixed);
    base_free(p.cut);
    base_free(p.roots);
    base_free(from);
    return st;
}
