/* Matmul groups of the host: packed i16b32 rows here, float rows in matmul_float.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gen/pack.h"
#include "pass/product.h"
#include "target/cpu/cpu.h"

#define COLUMNS LOWER_COLUMNS
/* Rows that the template of packed rows interleaves at most, over all instruction sets (RP_MR). */
#define MAX_ROWS_QUANT 12

/* --- epilogues --------------------------------------------------------------------- */

static uint32_t columns_of(const lowerer *L, const pass_segment *s) {
    (void)L, (void)s;
    return COLUMNS;
}

/* #define NAME(row0, n, item, acc): calls the fragment for each of n rows of the item. */
static void put_macro(lowerer *L, const pass_segment *s, const char *name) {
    base_buf *b = &L->source;
    char acc[40], end[50];
    (void)snprintf(acc, sizeof acc, "(acc) + rp_q * %u", s->n_mats * COLUMNS);
    (void)snprintf(end, sizeof end, "[%d] __attribute__((aligned(64))); \\", COLUMNS);
    const target_call call = {
        .columns = COLUMNS, .acc = acc, .space = "", .name = "rp_e", .end = end, .at = ""};
    base_buf_printf(b, "#define %s_EPI(row0, n, item, acc) do { \\\n", name);
    target_call_temporaries(L, s, &call);
    base_buf_printf(
        b, "    for (int rp_q = 0; rp_q < (n); rp_q++) %s(arg, dim, (row0) + rp_q, (item) * %d",
        name, COLUMNS);
    target_call_arguments(L, s, &call);
    base_buf_puts(b, "); \\\n} while (0)\n");
}

/* --- packed rows ----------------------------------------------------------------- */

/* Where a segment stands in its kernel, and the names that its text refers to. */
typedef struct segment_place {
    const char *kernel, *frag, *rows;
    int64_t first_item, first_tile;
} segment_place;

static void segment_loop(lowerer *L, const pass_segment *s, const segment_place *at) {
    base_buf *b = &L->source;
    pass_weights w;
    (void)pass_product_weights(L->g, s->mats[0], &w);
    const char *type = rp_dtype_name(w.dtype);
    base_buf_printf(b,
                    "    {\n        long long b = RP_MAX(begin - %" PRId64
                    ", 0), e = RP_MIN(end - %" PRId64 ", %" PRId64 ");\n",
                    at->first_item, at->first_item, (w.n + COLUMNS - 1) / COLUMNS);
    base_buf_printf(b,
                    "        if (b < e) RP_MM_LOOP(%s, b, e, %s, %" PRId64 ", %u, w + %" PRId64
                    " * RP_TILE_%s(%" PRId64 "), scratch, %s_XROW, %s_EPI);\n    }\n",
                    type, at->rows, w.k, s->n_mats * COLUMNS / GEN_TILE_ROWS, at->first_tile, type,
                    w.k, at->kernel, at->frag);
}

static int64_t round64(int64_t n) {
    return (n + 63) / 64 * 64;
}

static rp_status quant_text(lowerer *L, const pass_group *gr, const char *name, const char *rows,
                            int64_t *items) {
    pass_weights w;
    (void)pass_product_weights(L->g, gr->segs[0].mats[0], &w);
    base_buf_printf(&L->source,
                    "#define %s_XROW(row, tmp) ((const char *)arg[0] + (row) * (long "
                    "long)RP_QROW_SIZE(%" PRId64 "))\n"
                    "void %s(void *const *arg, const long long *dim, long long begin, long long "
                    "end, void *scratch)\n{\n"
                    "    const rp_u8 *w = (const rp_u8 *)arg[1];\n    (void)dim;\n",
                    name, w.k, name);
    segment_place at = {.kernel = name, .rows = rows};
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        (void)pass_product_weights(L->g, gr->segs[i].mats[0], &w);
        int64_t n_items = (w.n + COLUMNS - 1) / COLUMNS;
        at.frag = lower_epilogue_name(L, name, i);
        if (!at.frag) return rp_fail(L->err, RP_NOMEM, "name of an epilogue");
        segment_loop(L, &gr->segs[i], &at);
        at.first_item += n_items;
        at.first_tile += n_items * gr->segs[i].n_mats * (COLUMNS / GEN_TILE_ROWS);
    }
    base_buf_puts(&L->source, "}\n");
    *items = at.first_item;
    return RP_OK;
}

static rp_status quant_kernel(lowerer *L, const pass_group *gr, const char *name, ir_dim *items,
                              int64_t *scratch) {
    base_buf rows;
    pass_weights w;
    int64_t n = 0;
    rp_status st;
    (void)pass_product_weights(L->g, gr->segs[0].mats[0], &w);
    base_buf_init(&rows, 0);
    ir_dim all = lower_flat_rows(L, ir_node_at(L->g, gr->lhs));
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), all), "dim",
                   &rows);
    RP_TRY_OUT(base_buf_status(&rows, L->err));
    RP_TRY_OUT(quant_text(L, gr, name, rows.data, &n));
    *items = ir_dim_const(ir_graph_dims(L->g), n);
    *scratch = round64(MAX_ROWS_QUANT * w.k / 32 * 72) + round64(w.k / 32 * 72);
out:
    base_buf_done(&rows);
    return st;
}

/* --- the group ---------------------------------------------------------------------- */

static void add_kernel(lowerer *L, const lower_matmul *m, size_t begin) {
    lower_kernel *k = lower_add_kernel(L, m->name, begin, target_matmul_uses(L, m));
    if (m->quant) return;
    k->may = LOWER_MAY(ROWS);
    k->rows = ir_dim_nominal(ir_graph_dims(L->g), m->f.p.rows);
    k->own_rows = m->f.p.block;
}

static rp_status generate(lowerer *L, const lower_matmul *m) {
    static const target_slot slot = {columns_of, put_macro};
    const size_t begin = L->source.len;
    const char *ready;
    ir_dim items = IR_DIM_BAD;
    memcpy(L->args, m->operand, sizeof m->operand);
    L->n_args = 2;
    RP_TRY(target_epilogues(L, m, &slot));
    lower_launch *l = lower_add_launch(L);
    l->alts[0].scratch = LOWER_PRODUCT_SCRATCH;
    if (m->quant)
        RP_TRY(quant_kernel(L, m->gr, m->name, &items, &l->alts[0].scratch));
    else
        RP_TRY(target_float_kernel(L, m, &items));
    L->may = 0; /* an epilogue's loops are the template's */
    RP_TRY(target_ready(L, m->name, begin, &ready));
    if (!ready) add_kernel(L, m, begin);
    return lower_matmul_launch(L, m, ready ? ready : m->name, l, items);
}

rp_status target_cpu_matmul(lowerer *L, const lower_matmul *m) {
    lower_matmul own = *m;
    gen_product_record record;
    if (lower_chosen(L).rows) own.f.p.block = lower_chosen(L).rows;
    if (!m->quant && target_stored_record(L, &own, &record))
        return target_stored_group(L, &own, &record);
    return generate(L, &own);
}
