/* Rows that products make themselves, on a GPU.
 *
 * A single row is made by one block, while every other waits for that kernel to end. Where only products read it, of packed numbers those with
 * few blocks, each of their blocks makes it once more in its shared memory, with the code of the kernel, which is then left
 * out. More rows are made by the kernel: its blocks share them. Products on tensor cores make any number: one in each of their blocks, more once, as
 * they want them arranged. Few rows that are no more than gathered they read from the table. */
#include "target/cuda/prologue.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "target/cuda/cuda.h"
#include "target/cuda/tensor.h"
#include "target/cuda/tensor_group.h"
#include "pass/product.h"

enum {
    MOST_ITEMS = 256,      /* of a product: blocks that run at once */
    MOST_BYTES = 16 << 10, /* of a row in shared memory */
    MOST_SCRATCH = 4 << 10
};

struct target_rows {
    target_rows *next;
    ir_ref made, from; /* from: float32 rows that are rounded, or IR_NONE */
    kir_func *k;
    lower_ref *args;
    uint32_t n_args;
    bool is_norm, is_gathered;
    target_norm norm;
    target_gathered gathered;
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

/* The group of product r, where it is of products over as many rows. */
static const pass_group *group_of(const lowerer *L, ir_ref r, ir_dim rows) {
    uint32_t i = L->f->group_of[r];
    const pass_group *gr = i == UINT32_MAX ? NULL : &L->f->groups[i];
    return gr && gr->kind == PASS_MATMUL && gr->rows == rows ? gr : NULL;
}

/* Whether product r reads dequantised rows `lhs` alone, as a group of few items over as many rows. */
static bool is_small_product(const lowerer *L, ir_ref r, ir_ref lhs, ir_dim rows) {
    const pass_group *gr = group_of(L, r, rows);
    pass_weights w;
    int64_t items = 0;
    if (!gr || gr->lhs != lhs || !pass_is_packed_matmul(L->g, r)) return false;
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

/* Whether products on tensor cores alone read r. */
static bool only_tensor_products_read(const lowerer *L, ir_ref r, ir_dim rows) {
    bool any = false;
    if (is_output(L->g, r)) return false;
    for (ir_ref d = r + 1; d < ir_graph_count(L->g); d++) {
        const ir_node *n = ir_node_at(L->g, d);
        if (!reads(n, r)) continue;
        if (n->op != IR_matmul || n->in[0] != r || n->in[1] == r) return false;
        const pass_group *gr = group_of(L, d, rows);
        if (!gr || !target_tensor_can(L, gr, NULL, RP_DTYPE_BF16)) return false;
        any = true;
    }
    return any;
}

/* As target_rows_offer, of rows that are computed: by a block each there, whoever has them in a kernel of their own. */
static rp_status find_taken(const lowerer *L, ir_ref made, ir_dim rows, int64_t *out) {
    const ir_node *n = ir_node_at(L->g, made);
    int64_t k = 0;
    sched *s = NULL;
    *out = 0;
    if (n->shape.rank < 2 ||
        !ir_dim_is_const(ir_graph_dims(L->g), n->shape.dim[n->shape.rank - 1], &k) ||
        lower_flat_rows(L, n) != rows)
        return RP_OK;
    RP_TRY(sched_make_item(L->k, &s, L->err));
    const bool block = s->launch.per_block == 1;
    const int64_t scratch = s->launch.scratch;
    sched_free(s);
    if (!block || scratch > MOST_SCRATCH) return RP_OK;
    if (n->dtype == RP_DTYPE_BF16 && scratch == 0 && only_tensor_products_read(L, made, rows))
        *out = INT64_MAX;
    if (n->dtype == RP_DTYPE_I16B32 && k / 32 * 72 <= MOST_BYTES &&
        only_small_products_read(L, made, rows))
        *out = 1;
    return RP_OK;
}

/* Whether some effect writes the memory of r. */
static bool is_written(const ir_graph *g, ir_ref r) {
    for (ir_ref i = r + 1; i < ir_graph_count(g); i++)
        if (ir_node_at(g, i)->memory == r) return true;
    return false;
}

/* The rows that made is of, where it is no more than those rounded to bf16; IR_NONE: it is. */
static ir_ref only_rounded(const lowerer *L, const pass_group *gr, ir_ref made) {
    const ir_node *n = ir_node_at(L->g, made);
    if (gr->n_nodes != 1 || n->op != IR_cast || n->dtype != RP_DTYPE_BF16 || n->shape.rank < 2)
        return IR_NONE;
    const ir_node *x = ir_node_at(L->g, n->in[0]);
    const bool lasts =
        L->has_memory[n->in[0]] && (x->memory == IR_NONE || x->op == IR_input) &&
        (L->where[n->in[0]].seg == LOWER_TEMP || L->where[n->in[0]].seg == LOWER_INPUT) &&
        !is_written(L->g, n->in[0]);
    return lasts && x->dtype == RP_DTYPE_F32 &&
                   only_tensor_products_read(L, made, lower_flat_rows(L, n))
               ? n->in[0]
               : IR_NONE;
}

/* An input that nothing writes. */
static bool is_plain_input(const lowerer *L, ir_ref r, rp_dtype dtype, uint32_t rank) {
    const ir_node *n = ir_node_at(L->g, r);
    return n->op == IR_input && n->dtype == dtype && n->shape.rank == rank && L->has_memory[r] &&
           L->where[r].seg == LOWER_INPUT && !is_written(L->g, r);
}

/* Rows of float32 from an input, by another. */
static bool is_plain_gather(const lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    return n->op == IR_gather && is_plain_input(L, n->in[0], RP_DTYPE_F32, 2) &&
           is_plain_input(L, n->in[1], RP_DTYPE_I32, 1);
}

/* Whether the epilogues of the product of rows `made` alone read r. */
static bool only_epilogues_read(const lowerer *L, ir_ref r, ir_ref made, ir_dim rows) {
    if (is_output(L->g, r)) return false;
    for (ir_ref d = r + 1; d < ir_graph_count(L->g); d++) {
        const pass_group *gr = reads(ir_node_at(L->g, d), r) ? group_of(L, d, rows) : NULL;
        if (reads(ir_node_at(L->g, d), r) && (!gr || gr->lhs != made)) return false;
    }
    return true;
}

/* The rows that a group gathers and rounds, where it gathers else what goes with them; *made IR_NONE: that is not all. */
static rp_status find_gathered(lowerer *L, const pass_group *gr, ir_ref *made,
                               target_gathered *out) {
    ir_ref rounded = IR_NONE, *more = base_arena_array(L->arena, gr->n_nodes + 1u, sizeof *more);
    *made = IR_NONE;
    if (!more) return rp_fail(L->err, RP_NOMEM, "rows of a product");
    *out = (target_gathered){.more = more};
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        const ir_ref r = gr->nodes[i];
        const ir_node *n = ir_node_at(L->g, r);
        const bool rounds = n->op == IR_cast && n->dtype == RP_DTYPE_BF16 && L->f->stored[r] &&
                            is_plain_gather(L, n->in[0]);
        if ((!rounds && !is_plain_gather(L, r)) || (rounds && rounded != IR_NONE)) return RP_OK;
        if (rounds) {
            rounded = r;
            out->table = ir_node_at(L->g, n->in[0])->in[0];
            out->at = ir_node_at(L->g, n->in[0])->in[1];
        } else if (L->f->stored[r]) {
            more[out->n_more++] = r;
        }
    }
    if (rounded == IR_NONE) return RP_OK;
    const ir_dim rows = lower_flat_rows(L, ir_node_at(L->g, rounded));
    bool all = only_tensor_products_read(L, rounded, rows);
    for (uint32_t i = 0; i < out->n_more; i++)
        all = all && only_epilogues_read(L, more[i], rounded, rows);
    if (all) *made = rounded;
    return RP_OK;
}

/* Rows that products of few rows gather. */
static rp_status offer_gathered(lowerer *L, const pass_group *gr, int64_t *out) {
    target_gathered found = {0};
    ir_ref made;
    int64_t k;
    RP_TRY(find_gathered(L, gr, &made, &found));
    if (made == IR_NONE ||
        !ir_dim_is_const(ir_graph_dims(L->g), ir_node_at(L->g, made)->shape.dim[1], &k))
        return RP_OK;
    target_rows *r = base_arena_alloc(L->arena, sizeof *r);
    if (!r) return rp_fail(L->err, RP_NOMEM, "rows of a product");
    *r = (target_rows){.next = L->own_rows,
                       .made = made,
                       .from = found.table,
                       .is_gathered = true,
                       .gathered = found};
    L->own_rows = r;
    *out = target_few_rows(k);
    return RP_OK;
}

rp_status target_rows_offer(lowerer *L, const pass_group *gr, ir_dim rows, int64_t *out) {
    *out = 0;
    RP_TRY(offer_gathered(L, gr, out));
    ir_ref made = only_stored(L, gr);
    if (*out || made == IR_NONE) return RP_OK;
    ir_ref from = only_rounded(L, gr, made);
    if (from != IR_NONE)
        *out = INT64_MAX;
    else
        RP_TRY(find_taken(L, made, rows, out));
    if (!*out) return RP_OK;
    target_rows *r = base_arena_alloc(L->arena, sizeof *r);
    lower_ref *args = base_arena_array(L->arena, L->n_args + 1u, sizeof *args);
    if (!r || !args) return rp_fail(L->err, RP_NOMEM, "rows of a product");
    for (uint32_t i = 0; i < L->n_args; i++) args[i] = L->args[i];
    *r = (target_rows){.next = L->own_rows,
                       .made = made,
                       .from = from,
                       .k = L->k,
                       .args = args,
                       .n_args = L->n_args};
    r->is_norm = *out == INT64_MAX && from == IR_NONE && target_norm_find(L, gr, made, &r->norm);
    L->own_rows = r;
    L->k = NULL;
    return RP_OK;
}

/* --- in a product ------------------------------------------------------------------- */

static const target_rows *find(const lowerer *L, ir_ref made) {
    const target_rows *r = L->own_rows;
    while (r && r->made != made) r = r->next;
    return r;
}

const target_rows *target_rows_of(const lowerer *L, ir_ref made) {
    const target_rows *r = find(L, made);
    return r && r->from == IR_NONE ? r : NULL;
}

const target_norm *target_rows_norm(const target_rows *r) {
    return r->is_norm ? &r->norm : NULL;
}

bool target_rows_unrounded(const lowerer *L, ir_ref made, lower_ref *out) {
    const target_rows *r = find(L, made);
    if (!r || r->from == IR_NONE || r->is_gathered) return false;
    *out = L->where[r->from];
    return true;
}

const target_gathered *target_rows_gathered(const lowerer *L, ir_ref made) {
    const target_rows *r = find(L, made);
    return r && r->is_gathered ? &r->gathered : NULL;
}

void target_rows_args(lowerer *L, const target_rows *r) {
    for (uint32_t i = 0; i < r->n_args; i++) (void)lower_arg_slot(L, r->args[i]);
}

rp_status target_rows_function(lowerer *L, const target_rows *r, const char *name,
                               uint32_t threads) {
    target_rows_args(L, r);
    return target_render_item(L, r->k, name, threads);
}

void target_rows_call(lowerer *L, const target_rows *r, const char *name, const char *to,
                      const char *row) {
    base_buf *b = &L->source;
    base_buf_puts(b, "char *const made[] = {");
    for (uint32_t i = 0; i < r->n_args; i++) {
        uint32_t slot = lower_arg_slot(L, r->args[i]);
        if (slot)
            base_buf_printf(b, "arg[%u], ", slot);
        else
            base_buf_printf(b, "%s, ", to); /* argument 0 of a product: its rows */
    }
    base_buf_printf(b, "}; %s(made, dim, %s);", name, row);
}

void target_rows_done(lowerer *L) {
    for (target_rows *r = L->own_rows; r; r = r->next) kir_free(r->k);
    L->own_rows = NULL;
}
