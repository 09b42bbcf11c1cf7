/* Rows that a product on tensor cores leaves as the product that reads them wants them, so that no launch has to arrange them in between: gate and up for down.
 *
 * The epilogue computes one address from a row and a column, row * k + column. It gets others that give the place within the tile: which tile
 * and which piece of 8 elements in the column, and the first row of the tile in the row. So it must touch nothing else. */
#include "target/cuda/arranged.h"

#include <inttypes.h>

#include "lower/matmul.h"
#include "target/cuda/tensor.h"

enum { WIDEST = 256 };

struct target_arranged {
    target_arranged *next;
    ir_ref value;
};

ir_dim target_arranged_bytes(lowerer *L, ir_dim rows, int64_t k) {
    ir_dims *t = ir_graph_dims(L->g);
    return ir_dim_mul_const(t, ir_dim_add(t, rows, ir_dim_const(t, WIDEST - 1)), k * 2);
}

bool target_is_arranged(const lowerer *L, ir_ref r) {
    const target_arranged *a = L->arranged;
    while (a && a->value != r) a = a->next;
    return a != NULL;
}

/* --- who reads it -------------------------------------------------------------------- */

static ir_ref only_stored(const lowerer *L, const pass_group *gr) {
    ir_ref only = IR_NONE;
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        if (!L->f->stored[gr->nodes[i]]) continue;
        if (only != IR_NONE) return IR_NONE;
        only = gr->nodes[i];
    }
    return only;
}

static bool is_output(const ir_graph *g, ir_ref r) {
    for (uint32_t i = 0; i < ir_output_count(g); i++)
        if (ir_output_at(g, i) == r) return true;
    return false;
}

/* The one group whose rows r is, where nothing else reads it; NULL: there is none. */
static const pass_group *only_reader(const lowerer *L, ir_ref r) {
    const pass_group *reader = NULL;
    if (is_output(L->g, r)) return NULL;
    for (ir_ref d = r + 1; d < ir_graph_count(L->g); d++) {
        const ir_node *n = ir_node_at(L->g, d);
        bool reads = false;
        for (uint32_t i = 0; i < n->n_in; i++) reads = reads || n->in[i] == r;
        if (!reads) continue;
        const uint32_t at = L->f->group_of[d];
        const pass_group *gr = at == UINT32_MAX ? NULL : &L->f->groups[at];
        if (!gr || gr->kind != PASS_MATMUL || gr->lhs != r || n->op != IR_matmul || n->in[1] == r ||
            (reader && gr != reader))
            return NULL;
        reader = gr;
    }
    return reader;
}

rp_status target_arranged_find(lowerer *L, const pass_group *gr, const target_tiles **out) {
    const ir_ref r = only_stored(L, gr);
    int64_t k = 0;
    *out = NULL;
    if (r == IR_NONE || L->where[r].seg != LOWER_TEMP) return RP_OK;
    const ir_node *n = ir_node_at(L->g, r);
    const pass_group *reader = only_reader(L, r);
    if (!reader || n->dtype != RP_DTYPE_BF16 || n->shape.rank < 2 || reader->rows != gr->rows ||
        lower_flat_rows(L, n) != gr->rows || !target_tensor_can(L, reader, NULL, RP_DTYPE_BF16) ||
        !ir_dim_is_const(ir_graph_dims(L->g), n->shape.dim[n->shape.rank - 1], &k))
        return RP_OK;
    target_arranged *a = base_arena_alloc(L->arena, sizeof *a);
    target_tiles *t = base_arena_alloc(L->arena, sizeof *t);
    if (!a || !t) return rp_fail(L->err, RP_NOMEM, "rows of a product");
    RP_TRY(target_tensor_tiles(L, reader, t));
    const ir_dim bytes = target_arranged_bytes(L, gr->rows, k);
    if (bytes == IR_DIM_BAD) return RP_OK;
    L->out->temps[L->where[r].idx].bytes = ir_dim_import(L->out->dims, ir_graph_dims(L->g), bytes);
    *a = (target_arranged){L->arranged, r};
    L->arranged = a;
    *out = t;
    return RP_OK;
}

/* --- text ------------------------------------------------------------------------------ */

static int64_t rows_of(int64_t columns) {
    return columns ? columns : 1;
}

rp_status target_arranged_text(lowerer *L, const target_tiles *t, const char *name, ir_dim rows) {
    base_buf *b = &L->source;
    base_buf_printf(
        b, "RP_INLINE rk_tiles %s_tiles(const long long *dim)\n{\n    const long long n = ", name);
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), rows), "dim", b);
    base_buf_puts(b, ";\n    return rk_tiles_of(");
    for (uint32_t i = 0; i + 1 < t->n; i++)
        base_buf_printf(b, "n <= %" PRId64 " ? %" PRId64 " : ", t->of[i].most,
                        rows_of(t->of[i].columns));
    base_buf_printf(b, "%" PRId64 ", n);\n}\n", rows_of(t->of[t->n - 1].columns));
    return base_buf_status(b, L->err);
}
