/* Scans and scatters: launches of kernels inside the library, and what those read. Shared with the eager backend. */
#include <string.h>

#include "lower/target.h"

rp_status lower_axis_record(const ir_graph *g, const ir_node *n, ir_dims *dims, gen_axis_record *r,
                            rp_error *err) {
    ir_dims *own = ir_graph_dims(g);
    const ir_node *x = ir_node_at(g, n->in[0]);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, (int64_t)x->shape.rank - 1);
    ir_dim inner = ir_dim_const(own, 1);
    ir_attr_key k = n->op == IR_sort ? IR_ATTR_DESCENDING : IR_ATTR_K;
    *r = (gen_axis_record){.dtype = x->dtype, .k = (uint32_t)ir_attr_int(n, k, 0)};
    RP_TRY(gen_axis_check(x->dtype, ir_op_table(n->op)->name, err));
    for (uint32_t i = axis + 1; i < x->shape.rank; i++)
        inner = ir_dim_mul(own, inner, x->shape.dim[i]);
    if (inner == IR_DIM_BAD) return lower_bytes_refused(g, x, err);
    RP_TRY(ir_dim_code_of(dims, ir_dim_import(dims, own, x->shape.dim[axis]), &r->n, err));
    return ir_dim_code_of(dims, ir_dim_import(dims, own, inner), &r->inner, err);
}

void lower_axis_launch(const ir_graph *g, const ir_node *n, ir_dims *dims, const gen_axis_record *r,
                       lower_launch *out) {
    const ir_node *x = ir_node_at(g, n->in[0]);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, (int64_t)x->shape.rank - 1);
    const char *symbol = gen_axis_name(n->op);
    ir_dim outer = ir_dim_const(dims, 1), inner = outer;
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        ir_dim d = ir_dim_import(dims, ir_graph_dims(g), x->shape.dim[i]);
        if (i < axis) outer = ir_dim_mul(dims, outer, d);
        if (i > axis) inner = ir_dim_mul(dims, inner, d);
    }
    *out = (lower_launch){.name = symbol + 1, .n_alts = 1, .grain = 1};
    out->alts[0] = (lower_alt){
        .max = INT64_MAX, .symbol = symbol, .scratch = n->op == IR_topk ? gen_topk_scratch(r) : 0};
    out->rows = out->items = n->op == IR_cumsum ? gen_cumsum_items(dims, outer, inner)
                                                : ir_dim_mul(dims, outer, inner);
}

ir_dim lower_axis_work(ir_dims *t, const ir_node *n, const ir_node *x) {
    ir_node bytes = *x;
    bytes.dtype = RP_DTYPE_U8;
    return n->op == IR_sort ? ir_dim_mul_const(t, lower_bytes(t, &bytes), GEN_SORT_WORK)
                            : ir_dim_const(t, 0);
}

/* Elements of axes [from, to), in dims. */
static ir_dim count(const ir_graph *g, const ir_shape *s, uint32_t from, uint32_t to,
                    ir_dims *dims) {
    ir_dim all = ir_dim_const(dims, 1);
    for (uint32_t i = from; i < to; i++)
        all = ir_dim_mul(dims, all, ir_dim_import(dims, ir_graph_dims(g), s->dim[i]));
    return all;
}

rp_status lower_scatter_record(const ir_graph *g, const ir_node *n, ir_dims *dims,
                               gen_scatter_record *r, rp_error *err) {
    const ir_node *x = ir_node_at(g, n->in[0]), *index = ir_node_at(g, n->in[1]);
    const ir_shape *src = &ir_node_at(g, n->in[2])->shape;
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0), rank = x->shape.rank;
    ir_dim inner = count(g, src, axis + 1, rank, dims);
    ir_dim index_outer = count(g, &index->shape, 0, axis, dims);
    ir_dim index_inner = count(g, &index->shape, axis + 1, rank, dims);
    *r = (gen_scatter_record){.op = n->op,
                              .dtype = x->dtype,
                              .index_dtype = index->dtype,
                              .own_outer = !ir_dim_is(dims, index_outer, 1),
                              .own_inner = !ir_dim_is(dims, index_inner, 1),
                              .groups = gen_scatter_groups(dims, inner)};
    if (inner == IR_DIM_BAD) return lower_bytes_refused(g, x, err);
    RP_TRY(ir_dim_code_of(dims, count(g, &x->shape, axis, axis + 1, dims), &r->n, err));
    RP_TRY(ir_dim_code_of(dims, count(g, src, axis, axis + 1, dims), &r->k, err));
    return ir_dim_code_of(dims, inner, &r->inner, err);
}

void lower_scatter_launch(const ir_graph *g, const ir_node *n, ir_dims *dims, lower_launch *out) {
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    *out = (lower_launch){.name = ir_op_table(n->op)->name, .n_alts = 1, .grain = 1};
    out->alts[0] = (lower_alt){.max = INT64_MAX, .symbol = "@scatter"};
    out->rows = out->items = gen_scatter_items(dims, count(g, &n->shape, 0, axis, dims),
                                               count(g, &n->shape, axis + 1, n->shape.rank, dims));
}

/* --- in a piece ------------------------------------------------------------------- */

/* The record is the last of n_args arguments, behind what is written. */
static rp_status take(lowerer *L, const ir_node *n, const lower_ref *args, uint32_t n_args,
                      const lower_launch *launch) {
    memcpy(L->args, args, n_args * sizeof *args);
    L->n_args = n_args;
    lower_node_access(n, L->args, n_args, 1);
    lower_launch *l = lower_add_launch(L);
    *l = *launch;
    return lower_take_args(L, l);
}

static rp_status lower_scan(lowerer *L, const ir_node *n, ir_ref r) {
    gen_axis_record rec;
    lower_launch l;
    lower_ref args[IR_MAX_RESULTS + 3];
    uint32_t n_args = 0;
    RP_TRY(lower_axis_record(L->g, n, L->out->dims, &rec, L->err));
    RP_TRY(lower_operand_memory(L, n->in[0], &args[n_args++]));
    for (uint32_t i = 0; i <= n->n_more; i++) RP_TRY(lower_result_memory(L, r, i, &args[n_args++]));
    ir_dim work = lower_axis_work(ir_graph_dims(L->g), n, ir_node_at(L->g, n->in[0]));
    if (n->op == IR_sort) RP_TRY(lower_temp_memory(L, n, work, &args[n_args++]));
    RP_TRY(lower_add_const(L, &rec, sizeof rec, &args[n_args++]));
    lower_axis_launch(L->g, n, L->out->dims, &rec, &l);
    return take(L, n, args, n_args, &l);
}

static rp_status lower_scatter(lowerer *L, const ir_node *n, ir_ref r) {
    gen_scatter_record rec;
    lower_launch l;
    lower_ref args[5];
    RP_TRY(lower_scatter_record(L->g, n, L->out->dims, &rec, L->err));
    for (uint32_t i = 0; i < 3; i++) RP_TRY(lower_operand_memory(L, n->in[i], &args[i]));
    RP_TRY(lower_memory(L, r, &args[3]));
    RP_TRY(lower_add_const(L, &rec, sizeof rec, &args[4]));
    lower_scatter_launch(L->g, n, L->out->dims, &l);
    return take(L, n, args, 5, &l);
}

rp_status lower_along_axis(lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    const bool scan = ir_op_table(n->op)->kind == IR_KIND_SCAN;
    const lower_target *t = L->target;
    if (scan) return t->scan ? t->scan(L, r) : lower_scan(L, n, r);
    return t->scatter ? t->scatter(L, r) : lower_scatter(L, n, r);
}
