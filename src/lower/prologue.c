/* Rows that products make themselves, on a GPU.
 *
 * A single row of packed numbers is made by one block, while every other waits for that kernel to end. Where only products with few
 * blocks read it, each of these makes it once more in its shared memory, with the code of the kernel, which is then left
 * out. More rows are made by the kernel: its blocks share them. */
#include "lower/prologue.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "pass/product.h"

enum {
    MOST_ITEMS = 256,      /* of a product: blocks that run at once */
    MOST_BYTES = 16 << 10, /* of a row in shared memory */
    MOST_SCRATCH = 4 << 10
};

struct lower_rows {
    lower_rows *next;
    ir_ref made;
    kir_func *k;
    lower_ref *args;
    uint32_t n_args;
};

/* --- which rows --------------------------------------------------------------------- */

/* The one value that the group stores, or IR_NONE. */
static ir_ref only_stored(const lowerer *L, const pass_group *gr) {
    ir_ref only = IR_NONE;
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        ir_ref r = gr->nodes[i];
        if (ir_op_table(ir_node_at(L->g, r)->op)->kind == IR_KIND_EFFECT) return IR_NONE;
        if (!L->f->stored[r] && ir_node_at(L->g, r)->op != IR_quantize) continue;
        if (only != IR_NONE) return IR_NONE;
        only = r;
    }
    return only;
}

static bool reads(const ir_node *n, ir_ref r) {
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] == r) return true;
    return false;
}

static bool is_output(const ir_graph *g, ir_ref r) {
    for (uint32_t i = 0; i < ir_output_count(g); i++)
        if (ir_output_at(g, i) == r) return true;
    return false;
}

/* Whether product r reads dequantised rows `lhs` alone, as a group of few items over as many rows. */
static bool is_small_product(const lowerer *L, ir_ref r, ir_ref lhs, ir_dim rows) {
    uint32_t group = L->f->group_of[r];
    pass_weights w;
    int64_t items = 0;
    if (group == UINT32_MAX || L->f->groups[group].kind != PASS_MATMUL) return false;
    const pass_group *gr = &L->f->groups[group];
    if (gr->lhs != lhs || gr->rows != rows || !pass_is_packed_matmul(L->g, r)) return false;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        if (!pass_product_weights(L->g, gr->segs[i].mats[0], &w)) return false;
        items += (w.n + LOWER_COLUMNS - 1) / LOWER_COLUMNS;
    }
    return items <= MOST_ITEMS;
}

static bool only_small_products_read(const lowerer *L, ir_ref r, ir_dim rows) {
    if (is_output(L->g, r)) return false;
    for (ir_ref d = r + 1; d < ir_graph_count(L->g); d++) {
        if (!reads(ir_node_at(L->g, d), r)) continue;
        if (ir_node_at(L->g, d)->op != IR_dequant || is_output(L->g, d)) return false;
        for (ir_ref p = d + 1; p < ir_graph_count(L->g); p++)
            if (reads(ir_node_at(L->g, p), d) && !is_small_product(L, p, d, rows)) return false;
    }
    return true;
}

static bool fits(const lowerer *L, const ir_node *n) {
    int64_t k = 0;
    return n->dtype == RP_DTYPE_I16B32 && n->shape.rank > 1 &&
           ir_dim_is_const(ir_graph_dims(L->g), n->shape.dim[n->shape.rank - 1], &k) &&
           k / 32 * 72 <= MOST_BYTES && L->launch.per_block == 1 &&
           L->launch.scratch <= MOST_SCRATCH;
}

rp_status lower_rows_offer(lowerer *L, const pass_group *gr, ir_dim rows, bool *taken) {
    ir_ref made = only_stored(L, gr);
    *taken = false;
    if (L->opt->target != GEN_CUDA || made == IR_NONE) return RP_OK;
    const ir_node *n = ir_node_at(L->g, made);
    ir_dim all = ir_dim_const(ir_graph_dims(L->g), 1);
    if (!fits(L, n) || !only_small_products_read(L, made, rows)) return RP_OK;
    for (uint32_t i = 0; i + 1 < n->shape.rank; i++)
        all = ir_dim_mul(ir_graph_dims(L->g), all, n->shape.dim[i]);
    if (all != rows) return RP_OK;
    lower_rows *r = base_arena_alloc(L->arena, sizeof *r);
    lower_ref *args = base_arena_array(L->arena, L->n_args + 1u, sizeof *args);
    if (!r || !args) return rp_fail(L->err, RP_NOMEM, "rows of a product");
    for (uint32_t i = 0; i < L->n_args; i++) args[i] = L->args[i];
    *r = (lower_rows){L->own_rows, made, L->k, args, L->n_args};
    L->own_rows = r;
    L->k = NULL;
    *taken = true;
    return RP_OK;
}

/* --- in a product ------------------------------------------------------------------- */

const lower_rows *lower_rows_of(const lowerer *L, ir_ref made) {
    const lower_rows *r = L->own_rows;
    while (r && r->made != made) r = r->next;
    return r;
}

rp_status lower_rows_function(lowerer *L, const lower_rows *r, const char *name) {
    for (uint32_t i = 0; i < r->n_args; i++) (void)lower_arg_slot(L, r->args[i]);
    return lower_render_item(L, r->k, name);
}

void lower_rows_call(lowerer *L, const lower_rows *r, const char *name, const char *to) {
    base_buf *b = &L->source;
    base_buf_puts(b, "char *const made[] = {");
    for (uint32_t i = 0; i < r->n_args; i++) {
        uint32_t slot = lower_arg_slot(L, r->args[i]);
        if (slot)
            base_buf_printf(b, "a%u, ", slot);
        else
            base_buf_printf(b, "%s, ", to); /* argument 0 of a product: its rows */
    }
    base_buf_printf(b, "}; %s(made, dim, 0);", name);
}

void lower_rows_done(lowerer *L) {
    for (lower_rows *r = L->own_rows; r; r = r->next) kir_free(r->k);
    L->own_rows = NULL;
}
