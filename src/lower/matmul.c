/* A matmul group as one launch of a template: packed i16b32 rows here, float rows in matmul_float.c.
 *
 * A work item is 32 columns of one segment (of every matrix of it); the epilogue of a segment is a kernel-IR
 * fragment that consumes the accumulators of one row. Segments follow each other in the item range. Rows are those of
 * all batches, counted through. */
#include "lower/matmul.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gen/gen.h"
#include "gen/pack.h"
#include "lower/cuda.h"
#include "lower/tensor.h"
#include "pass/product.h"

#define K (L->k)
#define COLUMNS LOWER_COLUMNS
/* Rows that the template of packed rows interleaves at most, over all instruction sets (RP_MR). */
#define MAX_ROWS_QUANT 12
/* Rows at most, and elements at least, of a product that reads a parameter where it lies. */
enum { IN_PLACE_ROWS = 4, IN_PLACE_FROM = 1 << 23 };

static uint32_t param_index(const lowerer *L, ir_ref r) {
    uint32_t i = 0;
    while (ir_leaf_at(L->g, IR_LEAF_PARAM, i) != r) i++;
    return i;
}

/* A large matrix that one product of few rows reads comes from memory as fast where it lies, turned on the way
 * (gen/embed/matmul_place.c.inc), and packing it takes as long as a hundred such products. A small one comes from the processor's
 * cache, where turning it would be most of the time. */
static bool is_in_place(const lowerer *L, const pass_group *gr, const pass_weights *w) {
    const ir_node *x = ir_node_at(L->g, ir_node_at(L->g, gr->segs[0].mats[0])->in[0]);
    int64_t rows;
    if (L->opt->target == GEN_CUDA || L->opt->packed || gr->n_segs != 1 || gr->segs[0].n_mats != 1)
        return false;
    if (w->dtype != RP_DTYPE_F32 || w->by_k || w->n < IN_PLACE_FROM / w->k) return false;
    return ir_dim_is_const(ir_graph_dims(L->g), lower_flat_rows(L, x), &rows) &&
           rows <= IN_PLACE_ROWS;
}

bool lower_is_packed(const lowerer *L, const pass_group *gr) {
    pass_weights w;
    return pass_product_weights(L->g, gr->segs[0].mats[0], &w) && !is_in_place(L, gr, &w);
}

ir_dim lower_columns(const lowerer *L, const pass_segment *s) {
    const ir_node *n = ir_node_at(L->g, s->mats[0]);
    return n->shape.dim[n->shape.rank - 1];
}

ir_dim lower_column_items(const lowerer *L, const pass_segment *s) {
    ir_dims *t = ir_graph_dims(L->g);
    return ir_dim_floordiv(t, ir_dim_add(t, lower_columns(L, s), ir_dim_const(t, COLUMNS - 1)),
                           COLUMNS);
}

static rp_status add_pack(lowerer *L, const pass_group *gr, bool swizzled, uint32_t *out) {
    lower_pack *p = &L->out->packs[L->out->n_packs];
    pass_weights w;
    (void)pass_product_weights(L->g, gr->segs[0].mats[0], &w);
    *p = (lower_pack){.dtype = w.dtype, .k = w.k, .swizzled = swizzled};
    p->sections = base_arena_array(L->arena, gr->n_segs, sizeof *p->sections);
    if (!p->sections) return rp_fail(L->err, RP_NOMEM, "packed weights");
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        const pass_segment *s = &gr->segs[i];
        if (s->dead) continue;
        lower_section *sec = &p->sections[p->n_sections++];
        sec->n_params = s->n_mats;
        for (uint32_t j = 0; j < s->n_mats; j++) {
            (void)pass_product_weights(L->g, s->mats[j], &w);
            sec->rows = w.n;
            sec->params[j] = param_index(L, w.param);
            sec->by_k |= (uint32_t)w.by_k << j;
        }
    }
    *out = L->out->n_packs++;
    return RP_OK;
}

/* --- epilogue fragment ------------------------------------------------------ */

rp_status lower_epilogue_build(lowerer *L, const pass_segment *s, const char *name,
                               int64_t columns) {
    ir_dim n = lower_columns(L, s);
    RP_TRY(lower_kernel_begin(L, name, KIR_FRAGMENT));
    kir_ref row = kir_param(K, 0), col0 = kir_param(K, 1);
    kir_ref cols = kir_const_i(K, columns);
    if (ir_dim_divisible(ir_graph_dims(L->g), n, columns) != IR_TRUE)
        cols = kir_bin(K, KIR_IMIN, cols, kir_bin(K, KIR_ISUB, lower_dim(L, n), col0));
    for (uint32_t i = 0; i < s->n_mats; i++) {
        char acc[16];
        (void)snprintf(acc, sizeof acc, "acc%u", i);
        uint32_t b = kir_add_buf(K, acc, KIR_SCRATCH, RP_DTYPE_F32, 0, 0, columns);
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
    return kir_status(K, L->err);
}

rp_status lower_epilogue(lowerer *L, const pass_segment *s, const char *name, int64_t columns) {
    RP_TRY(lower_epilogue_build(L, s, name, columns));
    return lower_render(L);
}

void lower_call_temporaries(lowerer *L, const pass_segment *s, const lower_call *c) {
    for (uint32_t i = s->n_mats; i < K->n_bufs; i++)
        if (K->bufs[i].space == KIR_SCRATCH)
            base_buf_printf(&L->source, "    %s%s %s%u%s\n", c->space,
                            K->bufs[i].dtype == RP_DTYPE_I32 ? "rp_i32" : "float", c->name, i,
                            c->end);
}

void lower_call_arguments(lowerer *L, const pass_segment *s, const lower_call *c) {
    for (uint32_t i = 0; i < K->n_bufs; i++) {
        if (K->bufs[i].space != KIR_SCRATCH) continue;
        if (i < s->n_mats)
            base_buf_printf(&L->source, ", %s + %" PRId64, c->acc, i * c->columns);
        else
            base_buf_printf(&L->source, ", %s%u%s", c->name, i, c->at);
    }
}

/* #define NAME(row0, n, item, acc): calls the fragment for each of n rows of the item. */
static void epilogue_macro(lowerer *L, const pass_segment *s, const char *name) {
    base_buf *b = &L->source;
    if (L->opt->target == GEN_CUDA) {
        lower_cuda_epilogue(L, s, name);
        return;
    }
    char acc[40], end[50];
    (void)snprintf(acc, sizeof acc, "(acc) + rp_q * %u", s->n_mats * COLUMNS);
    (void)snprintf(end, sizeof end, "[%d] __attribute__((aligned(64))); \\", COLUMNS);
    const lower_call call = {
        .columns = COLUMNS, .acc = acc, .space = "", .name = "rp_e", .end = end, .at = ""};
    base_buf_printf(b, "#define %s_EPI(row0, n, item, acc) do { \\\n", name);
    lower_call_temporaries(L, s, &call);
    base_buf_printf(
        b, "    for (int rp_q = 0; rp_q < (n); rp_q++) %s(arg, dim, (row0) + rp_q, (item) * %d",
        name, COLUMNS);
    lower_call_arguments(L, s, &call);
    base_buf_puts(b, "); \\\n} while (0)\n");
}

static gen_matmul_uses uses_of(const lowerer *L, const pass_group *gr) {
    pass_weights w;
    if (pass_is_packed_matmul(L->g, gr->segs[0].mats[0]) &&
        pass_product_weights(L->g, gr->segs[0].mats[0], &w))
        return (gen_matmul_uses){.quant = UINT32_C(1) << w.dtype};
    return (gen_matmul_uses){.floats = true, .strided = !lower_is_packed(L, gr)};
}

char *lower_epilogue_name(lowerer *L, const char *name, uint32_t i) {
    return base_arena_printf(L->arena, "%s_e%u", name, i);
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

ir_dim lower_flat_rows(const lowerer *L, const ir_node *x) {
    ir_dim rows = ir_dim_const(ir_graph_dims(L->g), 1);
    for (uint32_t i = 0; i + 1 < x->shape.rank; i++)
        rows = ir_dim_mul(ir_graph_dims(L->g), rows, x->shape.dim[i]);
    return rows;
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

/* --- CUDA C ------------------------------------------------------------------------- */

/* Packed weights; rows lie one behind the other. */
static rp_status cuda_kernel(lowerer *L, const pass_group *gr, const char *name, rp_dtype left,
                             ir_dim rows, lower_launch *l, ir_dim *items) {
    const bool packed = left == RP_DTYPE_I16B32;
    const lower_rows *own = packed ? lower_rows_of(L, ir_node_at(L->g, gr->lhs)->in[0]) : NULL;
    lower_cuda_segment *segs = base_arena_array(L->arena, gr->n_segs + 1u, sizeof *segs);
    uint32_t n = 0;
    int64_t item = 0, tile = 0;
    if (!segs) return rp_fail(L->err, RP_NOMEM, "segments of %s", name);
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        pass_weights w;
        if (gr->segs[i].dead) continue;
        (void)pass_product_weights(L->g, gr->segs[i].mats[0], &w);
        lower_cuda_segment *s = &segs[n++];
        const uint32_t columns = lower_cuda_columns(L, &gr->segs[i]);
        *s = (lower_cuda_segment){.frag = lower_epilogue_name(L, name, i),
                                  .dtype = w.dtype,
                                  .left = left,
                                  .n_items = (w.n + columns - 1) / columns,
                                  .columns = columns,
                                  .k = w.k,
                                  .first_item = item,
                                  .first_tile = tile,
                                  .n_mats = gr->segs[i].n_mats};
        if (!s->frag) return rp_fail(L->err, RP_NOMEM, "name of an epilogue");
        item += s->n_items;
        tile += (w.n + COLUMNS - 1) / COLUMNS * s->n_mats * (COLUMNS / GEN_TILE_ROWS);
    }
    *items = lower_cuda_matmul_items(L, rows, item);
    l->per_block = 1;
    return lower_cuda_matmul(L, name, rows, own, segs, n, &l->threads);
}

/* --- the group ---------------------------------------------------------------------- */

static rp_status check_group(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_segs; i++)
        if (!gr->segs[i].dead && gr->segs[i].n_mats > PASS_MAX_MATS)
            return rp_fail(L->err, RP_UNSUPPORTED, "an epilogue over %u products; at most %d",
                           gr->segs[i].n_mats, PASS_MAX_MATS);
    return RP_OK;
}

static rp_status epilogues(lowerer *L, const pass_group *gr, const char *name) {
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        char *frag = lower_epilogue_name(L, name, i);
        if (!frag) return rp_fail(L->err, RP_NOMEM, "kernel name");
        L->rows = gr->rows;
        bool cuda = L->opt->target == GEN_CUDA;
        rp_status st = lower_epilogue(L, &gr->segs[i], frag,
                                      cuda ? lower_cuda_columns(L, &gr->segs[i]) : COLUMNS);
        if (st == RP_OK) epilogue_macro(L, &gr->segs[i], frag);
        kir_free(L->k);
        L->k = NULL;
        RP_TRY(st);
    }
    return RP_OK;
}

/* f: of float rows, NULL for packed ones. */
static rp_status kernel(lowerer *L, const pass_group *gr, const lower_float_group *f,
                        const char *name, lower_launch *l, ir_dim *items, int64_t *scratch) {
    const ir_node *product = ir_node_at(L->g, gr->segs[0].mats[0]);
    if (L->opt->target == GEN_CUDA && f && !lower_is_packed(L, gr))
        return lower_cuda_product(L, f, name, l, items);
    if (L->opt->target == GEN_CUDA)
        return cuda_kernel(L, gr, name, f ? f->x : RP_DTYPE_I16B32,
                           lower_flat_rows(L, ir_node_at(L->g, f ? product->in[0] : gr->lhs)), l,
                           items);
    if (!f) return quant_kernel(L, gr, name, items, scratch);
    *scratch = LOWER_PRODUCT_SCRATCH;
    return lower_float_kernel(L, gr, f, name, items);
}

static void add_kernel(lowerer *L, const pass_group *gr, const char *name, size_t begin,
                       const lower_float_group *f) {
    lower_kernel *k = lower_add_kernel(L, name, begin, uses_of(L, gr));
    if (!f || L->opt->target == GEN_CUDA) return;
    k->may = LOWER_MAY(ROWS);
    k->rows = ir_dim_nominal(ir_graph_dims(L->g), f->p.rows);
    k->own_rows = f->p.block;
}

/* Arguments 0 and 1 are the operands, what the epilogues read and write follows. */
rp_status lower_matmul_group(lowerer *L, const pass_group *gr, uint32_t index) {
    bool quant = pass_is_packed_matmul(L->g, gr->segs[0].mats[0]);
    lower_float_group f = {0};
    ir_dim items = IR_DIM_BAD;
    int64_t scratch = 0;
    lower_ref operand[2] = {{0}, {LOWER_PACK, 0}};
    RP_TRY(check_group(L, gr));
    bool packed = lower_is_packed(L, gr);
    if (quant)
        operand[0] = L->where[ir_node_at(L->g, gr->lhs)->in[0]];
    else
        RP_TRY(lower_float_operands(L, gr, !packed, &f, operand));
    if (lower_chosen(L).rows && L->opt->target != GEN_CUDA) f.p.block = lower_chosen(L).rows;
    char *name = lower_name(L, "mm", gr->nodes, gr->n_nodes, index);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    bool tensor = lower_tensor_can(L, gr, name, f.x);
    if (packed) RP_TRY(add_pack(L, gr, tensor, &operand[1].idx));
    if (tensor) return lower_tensor_group(L, gr, name, f.x, operand);
    gen_product_record record;
    if (!quant && lower_stored_record(L, gr, &f, &record))
        return lower_stored_group(L, gr, &f, name, &record, operand);
    const size_t begin = L->source.len;
    const char *ready;
    memcpy(L->args, operand, sizeof operand);
    L->n_args = 2;
    RP_TRY(epilogues(L, gr, name));
    lower_launch *l = lower_add_launch(L);
    RP_TRY(kernel(L, gr, quant ? NULL : &f, name, l, &items, &scratch));
    L->may = 0; /* an epilogue's loops are the template's */
    RP_TRY(lower_ready(L, name, begin, &ready));
    if (!ready) add_kernel(L, gr, name, begin, quant ? NULL : &f);
    l->name = name;
    l->alts[0] = (lower_alt){.max = INT64_MAX, .symbol = ready ? ready : name, .scratch = scratch};
    l->n_alts = 1;
    l->rows = ir_dim_import(L->out->dims, ir_graph_dims(L->g), gr->rows);
    l->items = ir_dim_import(L->out->dims, ir_graph_dims(L->g), items);
    l->grain = 1;
    return lower_take_args(L, l);
}
