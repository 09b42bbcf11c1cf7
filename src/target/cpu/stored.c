/* Groups of float products of which nothing is computed but their results: a launch of a kernel of the library (gen/product.h)
 * instead of a compiled one. Only where all sizes are numbers: those with symbols are compiled. */
#include <string.h>

#include "gen/pack.h"
#include "gen/product.h"
#include "pass/product.h"
#include "target/cpu/cpu.h"

_Static_assert(GEN_PRODUCT_BATCH == LOWER_PRODUCT_BATCH, "batch dims of a product");

static bool is_stored_alone(const lowerer *L, const pass_segment *s) {
    return s->n_mats == 1 && s->n_nodes == 0 && ir_node_at(L->g, s->mats[0])->dtype == RP_DTYPE_F32;
}

static bool are_stored_alone(const lowerer *L, const pass_group *gr) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        if (!is_stored_alone(L, &gr->segs[i]) || ++n > GEN_PRODUCT_PARTS) return false;
    }
    return true;
}

/* --- sizes ------------------------------------------------------------------------- */

static bool take_side(const ir_dims *t, const lower_side *s, uint32_t n_batch,
                      gen_product_side *out) {
    bool known = ir_dim_is_const(t, s->offset, &out->offset) &&
                 ir_dim_is_const(t, s->step, &out->step) &&
                 ir_dim_is_const(t, s->k_step, &out->k_step);
    for (uint32_t i = 0; i < n_batch; i++)
        known = known && ir_dim_is_const(t, s->batch[i], &out->batch[i]);
    return known;
}

static bool take_sizes(const ir_dims *t, const lower_product *p, gen_product_record *r) {
    bool known = ir_dim_is_const(t, p->rows, &r->rows) && ir_dim_is_const(t, p->k, &r->k) &&
                 ir_dim_is_const(t, p->columns, &r->columns) &&
                 take_side(t, &p->x, p->n_batch, &r->x) && take_side(t, &p->w, p->n_batch, &r->w);
    for (uint32_t i = 0; i < GEN_PRODUCT_BATCH; i++) {
        r->batch[i] = 1;
        known = known && (i >= p->n_batch || ir_dim_is_const(t, p->batch[i], &r->batch[i]));
    }
    r->block = p->block;
    return known;
}

static bool take_parts(const lowerer *L, const pass_group *gr, gen_product_record *r) {
    const ir_dims *t = ir_graph_dims(L->g);
    int64_t tile = 0, items;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        const pass_segment *s = &gr->segs[i];
        if (s->dead) continue;
        gen_product_part *part = &r->part[r->n_parts++];
        if (!ir_dim_is_const(t, lower_columns(L, s), &part->columns) ||
            !ir_dim_is_const(t, lower_column_items(L, s), &items))
            return false;
        part->first_tile = tile;
        tile += items * (LOWER_COLUMNS / GEN_TILE_ROWS);
        r->items += items;
    }
    return true;
}

bool target_stored_record(const lowerer *L, const lower_matmul *m, gen_product_record *out) {
    const pass_group *gr = m->gr;
    pass_weights w;
    *out = (gen_product_record){.x_dtype = m->f.x, .w_dtype = m->f.w, .packed = m->packed};
    if (!L->opt->built_in || !are_stored_alone(L, gr)) return false;
    if (out->packed && pass_product_weights(L->g, gr->segs[0].mats[0], &w)) out->w_dtype = w.dtype;
    return take_sizes(ir_graph_dims(L->g), &m->f.p, out) && take_parts(L, gr, out);
}

/* --- the launch ---------------------------------------------------------------------- */

rp_status target_stored_group(lowerer *L, const lower_matmul *m, const gen_product_record *r) {
    const pass_group *gr = m->gr;
    ir_dims *t = ir_graph_dims(L->g);
    memcpy(L->args, m->operand, sizeof m->operand);
    RP_TRY(lower_add_const(L, r, sizeof *r, &L->args[2]));
    L->n_args = 3;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        RP_TRY(lower_memory(L, gr->segs[i].mats[0], &L->args[L->n_args++]));
    }
    lower_write_args(L, 3);
    ir_dim items = lower_product_items(t, &m->f.p, ir_dim_const(t, r->items));
    lower_launch *l = lower_add_launch(L);
    l->alts[0].scratch = LOWER_PRODUCT_SCRATCH;
    return lower_matmul_launch(L, m, gen_product_name(L->opt->isa), l, items);
}
