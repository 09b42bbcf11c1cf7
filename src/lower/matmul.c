/* A matmul group as what its target multiplies: operands in memory, packed weights, epilogues.
 *
 * A work item is 32 columns of one segment (of every matrix of it); the epilogue of a segment is a kernel-IR
 * fragment that consumes the accumulators of one row. Segments follow each other in the item range. Rows are those of
 * all batches, counted through. */
#include <stdio.h>

#include "lower/target.h"
#include "pass/product.h"

#define K (L->k)
#define COLUMNS LOWER_COLUMNS
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
    if (!L->target->in_place || L->opt->packed || gr->n_segs != 1 || gr->segs[0].n_mats != 1)
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
    lower_space space = {
        .row = row, .fragment = true, .col0 = col0, .n_cols = cols, .width = columns};
    RP_TRY(lower_members(L, &space, members, count));
    return kir_status(K, L->err);
}

rp_status lower_epilogue(lowerer *L, const pass_segment *s, const char *name, int64_t columns) {
    RP_TRY(lower_epilogue_build(L, s, name, columns));
    return lower_render(L);
}

char *lower_epilogue_name(lowerer *L, const char *name, uint32_t i) {
    return base_arena_printf(L->arena, "%s_e%u", name, i);
}

ir_dim lower_flat_rows(const lowerer *L, const ir_node *x) {
    ir_dim rows = ir_dim_const(ir_graph_dims(L->g), 1);
    for (uint32_t i = 0; i + 1 < x->shape.rank; i++)
        rows = ir_dim_mul(ir_graph_dims(L->g), rows, x->shape.dim[i]);
    return rows;
}

/* --- operands ---------------------------------------------------------------- */

/* strided: views are read where they lie. */
static rp_status view_of(lowerer *L, ir_ref r, bool strided, lower_view *out) {
    ir_dims *t = ir_graph_dims(L->g);
    const ir_node *n = ir_node_at(L->g, r);
    lower_ref at;
    if (L->has_memory[r] && !rp_dtype_is_quant(n->dtype)) {
        lower_view_dense(t, L->where[r], n, out);
        return RP_OK;
    }
    if (ir_op_table(n->op)->kind == IR_KIND_VIEW && strided) {
        lower_view v;
        RP_TRY(view_of(L, n->in[0], strided, &v));
        if (lower_view_of(t, n, &ir_node_at(L->g, n->in[0])->shape, &v, out)) return RP_OK;
    }
    RP_TRY(lower_copy(L, r, &at));
    lower_view_dense(t, at, n, out);
    return RP_OK;
}

/* The operands in memory, through views; what has no strides is copied. operand[1] only when `strided`. */
static rp_status find_operands(lowerer *L, const pass_group *gr, bool strided,
                               lower_float_group *out, lower_ref operand[2]) {
    const ir_node *n = ir_node_at(L->g, gr->segs[0].mats[0]);
    lower_view x, w;
    RP_TRY(view_of(L, n->in[0], strided || L->target->strided_rows, &x));
    if (strided) RP_TRY(view_of(L, n->in[1], true, &w));
    lower_product_of(ir_graph_dims(L->g), n, ir_node_at(L->g, n->in[0]), &x,
                     ir_node_at(L->g, n->in[1]), strided ? &w : NULL, &out->p);
    out->x = x.dtype;
    operand[0] = x.at;
    if (!strided) return RP_OK;
    out->w = w.dtype;
    operand[1] = w.at;
    return RP_OK;
}

/* --- the group ---------------------------------------------------------------------- */

static rp_status check_group(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_segs; i++)
        if (!gr->segs[i].dead && gr->segs[i].n_mats > PASS_MAX_MATS)
            return rp_fail(L->err, RP_UNSUPPORTED, "an epilogue over %u products; at most %d",
                           gr->segs[i].n_mats, PASS_MAX_MATS);
    return RP_OK;
}

/* Arguments 0 and 1 are the operands, what the epilogues read and write follows. */
rp_status lower_matmul_group(lowerer *L, const pass_group *gr, uint32_t index) {
    lower_matmul m = {.gr = gr, .operand = {{0}, {.seg = LOWER_PACK}}};
    RP_TRY(check_group(L, gr));
    m.quant = pass_is_packed_matmul(L->g, gr->segs[0].mats[0]);
    m.packed = lower_is_packed(L, gr);
    if (m.quant)
        m.operand[0] = L->where[ir_node_at(L->g, gr->lhs)->in[0]];
    else
        RP_TRY(find_operands(L, gr, !m.packed, &m.f, m.operand));
    m.name = lower_name(L, "mm", gr->nodes, gr->n_nodes, index);
    if (!m.name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    m.swizzled = L->target->swizzles(L, &m);
    if (m.packed) RP_TRY(add_pack(L, gr, m.swizzled, &m.operand[1].idx));
    return L->target->matmul(L, &m);
}

rp_status lower_matmul_launch(lowerer *L, const lower_matmul *m, const char *symbol,
                              lower_launch *l, ir_dim items) {
    ir_dims *t = ir_graph_dims(L->g);
    if (items == IR_DIM_BAD)
        return rp_fail(L->err, RP_UNSUPPORTED,
                       "the work items of a product overflow; give its symbols smaller bounds");
    l->name = m->name;
    l->alts[0].max = INT64_MAX;
    l->alts[0].symbol = symbol;
    l->n_alts = 1;
    l->rows = ir_dim_import(L->out->dims, t, m->gr->rows);
    l->items = ir_dim_import(L->out->dims, t, items);
    l->grain = 1;
    return lower_take_args(L, l);
}
