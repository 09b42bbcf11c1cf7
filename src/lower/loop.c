/* A loop group as one kernel: work items are rows. Also the copies of views that a piece returns. */
#include "gen/gen.h"
#include "lower/emit.h"

#define K (L->k)

static rp_status finish(lowerer *L, char *name, ir_dim rows) {
    int64_t scratch = 0;
    kir_end(K);
    RP_TRY(kir_status(K, L->err));
    if (L->err && L->err->code != RP_OK) return L->err->code;
    size_t begin = L->source.len;
    RP_TRY(lower_render(L, &scratch));
    lower_add_kernel(L, name, begin, (gen_matmul_uses){0})->work = kir_item_cost(K, NULL);
    lower_launch *l = lower_add_launch(L);
    l->name = name;
    l->alts[0] = (lower_alt){INT64_MAX, name, scratch};
    l->n_alts = 1;
    l->rows = l->items = ir_dim_import(L->out->dims, ir_graph_dims(L->g), rows);
    l->grain = 1;
    RP_TRY(lower_launch_of(L, l));
    return lower_take_args(L, l);
}

static bool has_reduction(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        ir_op op = ir_node_at(L->g, gr->nodes[i])->op;
        if (ir_op_table(op)->kind == IR_KIND_REDUCE || op == IR_quantize) return true;
    }
    return false;
}

rp_status lower_loop_group(lowerer *L, const pass_group *gr, uint32_t index) {
    char *name = lower_name(L, has_reduction(L, gr) ? "red" : "poi", gr->nodes, gr->n_nodes, index);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    L->n_args = 0;
    RP_TRY(lower_kernel_begin(L, name, KIR_KERNEL));
    lower_space s = {.row = kir_begin(K, KIR_PAR, lower_dim(L, gr->rows))};
    rp_status st = lower_members(L, &s, gr->nodes, gr->n_nodes);
    if (st == RP_OK) st = finish(L, name, gr->rows);
    kir_free(L->k);
    L->k = NULL;
    return st;
}

static rp_status finish_copy(lowerer *L, char *name, ir_dim rows) {
    rp_status st = finish(L, name, rows);
    kir_free(L->k);
    L->k = NULL;
    return st;
}

rp_status lower_copy(lowerer *L, ir_ref r, lower_ref *out) {
    const ir_node *n = ir_node_at(L->g, r);
    ir_dims *dims = ir_graph_dims(L->g);
    ir_dim rows = n->shape.rank ? n->shape.dim[0] : ir_dim_const(dims, 1);
    char *name = base_arena_printf(L->arena, "poi_fused_copy_%u", L->out->n_launches);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    ir_dim bytes = lower_bytes(dims, n);
    if (bytes == IR_DIM_BAD) return lower_bytes_refused(L->g, n, L->err);
    *out = (lower_ref){LOWER_TEMP, L->out->n_temps};
    L->out->temps[L->out->n_temps++].bytes = ir_dim_import(L->out->dims, dims, bytes);
    L->n_args = 0;
    RP_TRY(lower_kernel_begin(L, name, KIR_KERNEL));
    kir_ref idx[IR_MAX_RANK] = {0};
    idx[0] = kir_begin(K, KIR_PAR, lower_dim(L, rows));
    if (rp_dtype_is_quant(n->dtype)) {
        lower_store_blocks(L, r, *out, idx[0]);
        return finish_copy(L, name, rows);
    }
    for (uint32_t d = 1; d < n->shape.rank; d++)
        idx[d] = kir_begin(K, KIR_LOOP, lower_dim(L, n->shape.dim[d]));
    lower_put(L, lower_buffer(L, *out, n->dtype, 0), n->dtype, lower_linear(L, &n->shape, idx, 0),
              lower_value(L, r, idx));
    for (uint32_t d = 1; d < n->shape.rank; d++) kir_end(K);
    return finish_copy(L, name, rows);
}
