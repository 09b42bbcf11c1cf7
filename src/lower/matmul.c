/* A matmul group as one launch of the packed-weights template.
 *
 * A work item is 32 columns of one segment (of every matrix of it); the epilogue of a segment is a kernel-IR
 * fragment that consumes the accumulators of one row. Segments follow each other in the item range. */
#include <inttypes.h>
#include <stdio.h>

#include "gen/gen.h"
#include "gen/pack.h"
#include "lower/emit.h"

#define K (L->k)
#define COLUMNS LOWER_COLUMNS
/* Rows that the templates interleave at most, over all instruction sets (RP_MR, RP_MRF). */
#define MAX_ROWS_QUANT 12
#define MAX_ROWS_FLOAT 6

typedef struct product {
    const ir_node *node;
    ir_ref param;
    rp_dtype dtype; /* of the weights */
    int64_t n, k;
} product;

static product product_of(const lowerer *L, ir_ref r) {
    product p = {.node = ir_node_at(L->g, r)};
    p.param = p.node->in[1];
    if (ir_node_at(L->g, p.param)->op == IR_dequant) p.param = ir_node_at(L->g, p.param)->in[0];
    const ir_node *w = ir_node_at(L->g, p.param);
    p.dtype = w->dtype;
    (void)ir_dim_is_const(ir_graph_dims(L->g), w->shape.dim[0], &p.n);
    (void)ir_dim_is_const(ir_graph_dims(L->g), w->shape.dim[1], &p.k);
    return p;
}

static uint32_t param_index(const lowerer *L, ir_ref r) {
    uint32_t i = 0;
    while (ir_leaf_at(L->g, IR_LEAF_PARAM, i) != r) i++;
    return i;
}

/* The left operand of the products as rows in memory. */
static rp_status left_rows(lowerer *L, const pass_group *gr, lower_ref *at, rp_dtype *dtype) {
    ir_ref r = gr->lhs;
    const ir_node *n = ir_node_at(L->g, r);
    if (pass_is_packed_matmul(L->g, gr->segs[0].mats[0])) {
        *dtype = RP_DTYPE_I16B32;
        *at = L->where[n->in[0]];
        return RP_OK;
    }
    *dtype = n->dtype;
    while (n->op == IR_reshape) {
        r = n->in[0];
        n = ir_node_at(L->g, r);
    }
    if (L->has_memory[r] && !rp_dtype_is_quant(n->dtype)) {
        *at = L->where[r];
        return RP_OK;
    }
    return lower_copy(L, r, at);
}

static rp_status add_pack(lowerer *L, const pass_group *gr, uint32_t *out) {
    lower_pack *p = &L->out->packs[L->out->n_packs];
    product first = product_of(L, gr->segs[0].mats[0]);
    *p = (lower_pack){.dtype = first.dtype, .k = first.k};
    p->sections = base_arena_array(L->arena, gr->n_segs, sizeof *p->sections);
    if (!p->sections) return rp_fail(L->err, RP_NOMEM, "packed weights");
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        const pass_segment *s = &gr->segs[i];
        if (s->dead) continue;
        lower_section *sec = &p->sections[p->n_sections++];
        sec->n_params = s->n_mats;
        sec->rows = product_of(L, s->mats[0]).n;
        for (uint32_t j = 0; j < s->n_mats; j++)
            sec->params[j] = param_index(L, product_of(L, s->mats[j]).param);
    }
    *out = L->out->n_packs++;
    return RP_OK;
}

/* --- epilogue fragment ------------------------------------------------------ */

static rp_status epilogue(lowerer *L, const pass_segment *s, const char *name, int64_t n) {
    RP_TRY(lower_kernel_begin(L, name, KIR_FRAGMENT));
    kir_ref row = kir_param(K, 0), col0 = kir_param(K, 1);
    kir_ref cols = kir_const_i(K, COLUMNS);
    if (n % COLUMNS)
        cols = kir_bin(K, KIR_IMIN, cols, kir_bin(K, KIR_ISUB, kir_const_i(K, n), col0));
    for (uint32_t i = 0; i < s->n_mats; i++) {
        char acc[16];
        (void)snprintf(acc, sizeof acc, "acc%u", i);
        uint32_t b = kir_add_buf(K, acc, KIR_SCRATCH, RP_DTYPE_F32, 0, 0, COLUMNS);
        lower_local *l = lower_local_of(L, s->mats[i]);
        l->place = LOWER_ACC;
        l->value = b;
    }
    ir_ref *members = base_arena_array(L->arena, s->n_mats + s->n_nodes + 1u, sizeof *members);
    if (!members) return rp_fail(L->err, RP_NOMEM, "epilogue");
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->n_mats; i++) members[count++] = s->mats[i];
    for (uint32_t i = 0; i < s->n_nodes; i++) members[count++] = s->nodes[i];
    lower_space space = {.row = row, .fragment = true, .col0 = col0, .n_cols = cols};
    RP_TRY(lower_members(L, &space, members, count));
    RP_TRY(kir_status(K, L->err));
    int64_t scratch;
    return lower_render(L, &scratch);
}

/* #define NAME(row0, n, item, acc): calls the fragment for each of n rows of the item. */
static void epilogue_macro(lowerer *L, const pass_segment *s, const char *name) {
    base_buf *b = &L->source;
    base_buf_printf(b, "#define %s_EPI(row0, n, item, acc) do { \\\n", name);
    for (uint32_t i = s->n_mats; i < K->n_bufs; i++)
        if (K->bufs[i].space == KIR_SCRATCH)
            base_buf_printf(b, "    %s rp_e%u[%d] __attribute__((aligned(64))); \\\n",
                            K->bufs[i].dtype == RP_DTYPE_I32 ? "rp_i32" : "float", i, COLUMNS);
    base_buf_printf(
        b, "    for (int rp_q = 0; rp_q < (n); rp_q++) %s(arg, dim, (row0) + rp_q, (item) * %d",
        name, COLUMNS);
    for (uint32_t i = 0; i < K->n_bufs; i++) {
        if (K->bufs[i].space != KIR_SCRATCH) continue;
        if (i < s->n_mats)
            base_buf_printf(b, ", (acc) + rp_q * %u + %u", s->n_mats * COLUMNS, i * COLUMNS);
        else
            base_buf_printf(b, ", rp_e%u", i);
    }
    base_buf_puts(b, "); \\\n} while (0)\n");
}

void lower_matmul_uses(const lowerer *L, const pass_group *gr, gen_matmul_uses *uses) {
    uint32_t bit = UINT32_C(1) << product_of(L, gr->segs[0].mats[0]).dtype;
    if (pass_is_packed_matmul(L->g, gr->segs[0].mats[0]))
        uses->quant |= bit;
    else
        uses->floats |= bit;
}

/* --- the kernel ---------------------------------------------------------------- */

static bool is_quant_path(rp_dtype left) {
    return left == RP_DTYPE_I16B32;
}

/* #define NAME_XROW(row, tmp): the row of x as the template wants it. */
static void row_macro(lowerer *L, const char *name, uint32_t slot, rp_dtype left, int64_t k) {
    base_buf *b = &L->source;
    if (is_quant_path(left)) {
        base_buf_printf(b,
                        "#define %s_XROW(row, tmp) ((const char *)arg[%u] + (row) * (long "
                        "long)RP_QROW_SIZE(%" PRId64 "))\n",
                        name, slot, k);
    } else if (left == RP_DTYPE_F32) {
        base_buf_printf(
            b, "#define %s_XROW(row, tmp) ((const float *)arg[%u] + (row) * %" PRId64 ")\n", name,
            slot, k);
    } else {
        base_buf_printf(b,
                        "static const float *%s_xrow(const rp_u16 *x, float *t)\n{\n"
                        "    for (int i = 0; i < %" PRId64
                        "; i++) t[i] = rp_%s_to_f32(x[i]);\n    return t;\n}\n",
                        name, k, rp_dtype_name(left));
        base_buf_printf(
            b,
            "#define %s_XROW(row, tmp) %s_xrow((const rp_u16 *)arg[%u] + (row) * %" PRId64
            ", (tmp))\n",
            name, name, slot, k);
    }
}

/* Where a segment stands in its kernel, and the names that its text refers to. */
typedef struct segment_place {
    const char *kernel, *frag, *rows;
    rp_dtype left;
    int64_t first_item, first_tile;
} segment_place;

static void segment_loop(lowerer *L, const pass_segment *s, const product *p,
                         const segment_place *at) {
    base_buf *b = &L->source;
    int64_t items = (p->n + COLUMNS - 1) / COLUMNS;
    base_buf_printf(b,
                    "    {\n        long long b = RP_MAX(begin - %" PRId64
                    ", 0), e = RP_MIN(end - %" PRId64 ", %" PRId64 ");\n",
                    at->first_item, at->first_item, items);
    base_buf_printf(b,
                    "        if (b < e) %s(%s, b, e, %s, %" PRId64 ", %u, w + %" PRId64
                    " * RP_TILE_%s(%" PRId64 "), scratch, %s_XROW, %s_EPI);\n    }\n",
                    is_quant_path(at->left) ? "RP_MM_LOOP" : "RP_MMF_LOOP", rp_dtype_name(p->dtype),
                    at->rows, p->k, s->n_mats * COLUMNS / GEN_TILE_ROWS, at->first_tile,
                    rp_dtype_name(p->dtype), p->k, at->kernel, at->frag);
}

static char *arena_text(lowerer *L, const char *name, uint32_t i) {
    return base_arena_printf(L->arena, "%s_e%u", name, i);
}

static int64_t round64(int64_t n) {
    return (n + 63) / 64 * 64;
}

static int64_t template_scratch(rp_dtype left, int64_t k) {
    if (is_quant_path(left)) return round64(MAX_ROWS_QUANT * k / 32 * 72) + round64(k / 32 * 72);
    return round64(MAX_ROWS_FLOAT * k * 4) + round64(k * 4);
}

static rp_status render_kernel(lowerer *L, const pass_group *gr, const char *name, rp_dtype left,
                               uint32_t x, uint32_t w, int64_t *items) {
    base_buf rows;
    base_buf_init(&rows, 0);
    product first = product_of(L, gr->segs[0].mats[0]);
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), gr->rows), "dim",
                   &rows);
    row_macro(L, name, x, left, first.k);
    base_buf_printf(&L->source,
                    "void %s(void *const *arg, const long long *dim, long long begin, long long "
                    "end, void *scratch)\n{\n"
                    "    const rp_u8 *w = (const rp_u8 *)arg[%u];\n    (void)dim;\n",
                    name, w);
    int64_t item = 0, tile = 0;
    rp_status st = base_buf_status(&rows, L->err);
    for (uint32_t i = 0; st == RP_OK && i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        product p = product_of(L, gr->segs[i].mats[0]);
        char *frag = arena_text(L, name, i);
        if (!frag) {
            st = rp_fail(L->err, RP_NOMEM, "name of an epilogue");
            break;
        }
        int64_t n_items = (p.n + COLUMNS - 1) / COLUMNS;
        segment_place at = {.kernel = name,
                            .frag = frag,
                            .rows = rows.data,
                            .left = left,
                            .first_item = item,
                            .first_tile = tile};
        segment_loop(L, &gr->segs[i], &p, &at);
        item += n_items;
        tile += n_items * gr->segs[i].n_mats * (COLUMNS / GEN_TILE_ROWS);
    }
    base_buf_puts(&L->source, "}\n");
    *items = item;
    base_buf_done(&rows);
    return st;
}

static rp_status check_group(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_segs; i++)
        if (!gr->segs[i].dead && gr->segs[i].n_mats > 4)
            return rp_fail(L->err, RP_UNSUPPORTED, "an epilogue over %u products; at most 4",
                           gr->segs[i].n_mats);
    return RP_OK;
}

rp_status lower_matmul_group(lowerer *L, const pass_group *gr, uint32_t index) {
    lower_ref x, pack = {LOWER_PACK, 0};
    rp_dtype left;
    product first = product_of(L, gr->segs[0].mats[0]);
    RP_TRY(check_group(L, gr));
    RP_TRY(left_rows(L, gr, &x, &left));
    RP_TRY(add_pack(L, gr, &pack.idx));
    char *name = lower_name(L, "mm", gr->nodes, gr->n_nodes, index);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    size_t begin = L->source.len;
    gen_matmul_uses uses = {0};
    lower_matmul_uses(L, gr, &uses);
    L->n_args = 0;
    L->args[L->n_args++] = x;
    L->args[L->n_args++] = pack;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        char *frag = arena_text(L, name, i);
        if (!frag) return rp_fail(L->err, RP_NOMEM, "kernel name");
        rp_status st = epilogue(L, &gr->segs[i], frag, product_of(L, gr->segs[i].mats[0]).n);
        if (st == RP_OK) epilogue_macro(L, &gr->segs[i], frag);
        kir_free(L->k);
        L->k = NULL;
        RP_TRY(st);
    }
    int64_t items;
    RP_TRY(render_kernel(L, gr, name, left, 0, 1, &items));
    (void)lower_add_kernel(L, name, begin, uses);
    lower_launch *l = lower_add_launch(L);
    l->name = name;
    l->alts[0] = (lower_alt){INT64_MAX, name, template_scratch(left, first.k)};
    l->n_alts = 1;
    l->rows = ir_dim_import(L->out->dims, ir_graph_dims(L->g), gr->rows);
    l->items = ir_dim_const(L->out->dims, items);
    l->grain = 1;
    return lower_take_args(L, l);
}
