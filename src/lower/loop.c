/* A loop group as one kernel, and how it is cut into work items. Also the copies of views that a piece returns.
 *
 * Where every member has one element a row, an item is a tile: a run of neighbours, so that threads and vectors get work
 * whatever the first dim is. Otherwise an item is a row, and the rest is iterated inside. */
#include "gen/gen.h"
#include "kir/affine.h"
#include "lower/target.h"

#define K (L->k)
#define TILE 2048
#define WARP 32 /* neighbours that threads of a block read at once, each warp for another lane */
#define LEAST_TILE 32
#define MOST_TILE 16384 /* elements that a thread's first cache still holds a few of */
#define DOWN_TILE \
    64         /* elements of tiles that go down: as many cache lines of what is read across */
#define FAR 16 /* elements between neighbours that share no cache line */

#define SLAB \
    32 /* rows that such tiles go down before the next ones: as many as share those cache lines */
#define LEAST_SLAB 8

/* How a group is cut: item i is row i, or tile i % (inner / width) of row i / (inner / width); `down`: of row i % rows, so
 * that what is read across rows is read again while it is in a cache. `slab`: of so many rows after the others, so that pages that
 * rows lie in are, too. */
typedef struct cut {
    ir_dim rows;
    int64_t inner, width; /* of a tile; 0: whole rows */
    int64_t slab;         /* 0: of all rows */
    bool down, staged;    /* staged: KIR_STAGED_ROWS of these items are one */
} cut;

static rp_status finish(lowerer *L, char *name, const cut *c) {
    if (L->err && L->err->code != RP_OK) return L->err->code;
    size_t begin = L->source.len;
    const char *ready;
    int64_t items;
    RP_TRY(lower_render(L));
    if (c->width && L->may && !lower_by_blocks(L)) L->may |= LOWER_MAY(TILE);
    RP_TRY(lower_ready(L, name, begin, &ready));
    lower_kernel *k = ready ? NULL : lower_add_kernel(L, name, begin, (gen_matmul_uses){0});
    if (k) k->work = kir_item_cost(K, NULL);
    lower_launch *l = lower_add_launch(L);
    ir_dims *dims = L->out->dims;
    l->name = name;
    l->alts[0] = (lower_alt){.max = INT64_MAX, .symbol = ready ? ready : name};
    l->n_alts = 1;
    l->rows = l->items = ir_dim_import(dims, ir_graph_dims(L->g), c->rows);
    if (c->width) l->items = ir_dim_mul_const(dims, l->items, c->inner / c->width);
    if (c->staged) l->items = ir_dim_floordiv(dims, l->items, KIR_STAGED_ROWS);
    if (l->items == IR_DIM_BAD) return rp_fail(L->err, RP_NOMEM, "items of %s", name);
    /* What is best of so many items says nothing of others. */
    if (k && !ir_dim_is_const(dims, l->items, &items)) k->may &= ~LOWER_MAY(GRAIN);
    RP_TRY(lower_launch_of(L, l));
    return lower_take_args(L, l);
}

rp_status lower_finish_items(lowerer *L, char *name, ir_dim items) {
    return finish(L, name, &(cut){.rows = items});
}

static bool has_runs(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (L->f->split[gr->nodes[i]]) return true;
    return false;
}

/* Nothing runs for rows that the readers make themselves. */
static rp_status leave_out(lowerer *L, const pass_group *gr, const cut *c) {
    lower_launch *l = &L->out->launches[L->out->n_launches - 1];
    int64_t taken;
    const lower_alt own = l->alts[0];
    if (!L->target->offer || has_runs(L, gr)) return RP_OK;
    RP_TRY(L->target->offer(L, gr, c->width ? IR_DIM_BAD : c->rows, &taken));
    if (!taken) return RP_OK;
    l->n_alts = 0;
    l->alts[l->n_alts++] = (lower_alt){.max = taken};
    if (taken < INT64_MAX) l->alts[l->n_alts++] = own;
    return RP_OK;
}

static bool has_reduction(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        ir_op op = ir_node_at(L->g, gr->nodes[i])->op;
        if (ir_op_table(op)->kind == IR_KIND_REDUCE || op == IR_quantize) return true;
    }
    return false;
}

/* --- tiles ------------------------------------------------------------------ */

/* Every member has one element a row, and those that reduce do it over another dim than the last. */
static bool can_tile(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        ir_ref r = gr->nodes[i];
        const ir_node *n = ir_node_at(L->g, r);
        bool reduces = ir_op_table(n->op)->kind == IR_KIND_REDUCE;
        if (rp_dtype_is_quant(n->dtype) || ir_op_table(n->op)->kind == IR_KIND_EFFECT ||
            n->shape.rank == 0 || lower_row_count(L, &n->shape) != 1 ||
            (reduces && lower_neighbours(L, r) == 0))
            return false;
    }
    return true;
}

/* The member by whose shape the group is tiled: the one with the fewest neighbours, or the last. */
static ir_ref shape_giver(const lowerer *L, const pass_group *gr) {
    ir_ref best = gr->nodes[gr->n_nodes - 1];
    int64_t fewest = INT64_MAX;
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        int64_t n = lower_neighbours(L, gr->nodes[i]);
        if (n && n < fewest) best = gr->nodes[i], fewest = n;
    }
    return best;
}

/* What a tuner made of the rules' own. */
static int64_t chosen_tile(const lowerer *L, int64_t own, int64_t limit) {
    const int tile = lower_chosen(L).tile;
    int64_t n = own;
    for (int i = 0; i < tile && n < limit; i++) n *= 2;
    for (int i = 0; i > tile && n > LEAST_TILE; i--) n /= 2;
    return n;
}

/* Tiles of rows over dims [0, first) of the shape; false when the rest has no size that divides well. */
static bool tiles_from(const lowerer *L, ir_ref giver, uint32_t first, cut *c) {
    ir_dims *t = ir_graph_dims(L->g);
    const ir_shape *s = &ir_node_at(L->g, giver)->shape;
    int64_t neighbours = lower_neighbours(L, giver), most = neighbours ? LOWER_RUN : TILE, rows = 1;
    const bool warps = lower_by_blocks(L) && neighbours;
    *c = (cut){.rows = ir_dim_const(t, 1), .inner = lower_inner_count(L->g, s, first)};
    if (c->inner < 1 || (neighbours && c->inner > neighbours)) return false;
    for (uint32_t i = 0; i < first && c->rows != IR_DIM_BAD; i++)
        c->rows = ir_dim_mul(t, c->rows, s->dim[i]);
    if (c->rows == IR_DIM_BAD) return false;
    /* A tile asks each part of a concat for what it has of it. */
    if (pass_has_many_parts(L->g, ir_node_at(L->g, giver))) most = MOST_TILE;
    /* Fewer elements where there would be too few items. */
    (void)ir_dim_is_const(t, c->rows, &rows);
    while (most > 256 && c->inner * rows < most * 32) most /= 2;
    most = chosen_tile(L, most, neighbours ? LOWER_RUN : MOST_TILE);
    if (warps && c->inner % WARP == 0) most = WARP;
    c->width = lower_divisor(c->inner, most);
    return c->width >= LEAST_TILE || c->width == c->inner;
}

/* A division in an innermost loop, whose operand is not the same for all of its iterations. */
static bool divides_inside(const kir_func *f) {
    bool divides[KIR_MAX_DEPTH + 1] = {false}, nested[KIR_MAX_DEPTH + 1] = {false};
    uint32_t depth = 0;
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_inst *in = &f->insts[at];
        bool opens = in->op == KIR_LOOP || in->op == KIR_REDUCE;
        if (opens || in->op == KIR_PAR || in->op == KIR_IF) {
            nested[depth] = nested[depth] || opens;
            depth += depth < KIR_MAX_DEPTH;
            divides[depth] = nested[depth] = false;
        } else if (in->op == KIR_END || in->op == KIR_YIELD) {
            if (depth > 1 && divides[depth] && !nested[depth]) return true;
            depth--;
        } else if (in->op == KIR_IDIV || in->op == KIR_IMOD) {
            divides[depth] = divides[depth] || f->blocks[in->in[0]] == f->blocks[at];
        }
    }
    return false;
}

/* A load whose neighbours in an innermost loop are far apart: of a transposed value. */
static bool reads_across(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_inst *in = &f->insts[at];
        kir_affine a = {0};
        if (in->op != KIR_LOAD || f->bufs[in->u.buf].space != KIR_ARG) continue;
        kir_affine_add(f, in->in[0], 1, &a);
        for (uint32_t i = 0; i < a.n && !a.overflow; i++)
            if (a.term[i].ref == f->blocks[at] && (a.term[i].k >= FAR || a.term[i].k <= -FAR))
                return true;
    }
    return false;
}

/* Items without loops that divide. */
static bool divides_by_element(const kir_func *f) {
    bool divides = false;
    for (kir_ref at = 0; at < f->n_insts; at++) {
        kir_op op = f->insts[at].op;
        if (op == KIR_LOOP || op == KIR_REDUCE) return false;
        divides = divides || op == KIR_IDIV || op == KIR_IMOD;
    }
    return divides;
}

/* --- kernels ----------------------------------------------------------------- */

static void open_tile(lowerer *L, const cut *c, lower_space *s) {
    kir_ref per_row = kir_const_i(K, c->inner / c->width);
    kir_ref item = kir_begin(K, KIR_PAR, kir_bin(K, KIR_IMUL, lower_dim(L, c->rows), per_row));
    kir_ref by = per_row, above = KIR_NONE;
    if (c->slab) {
        by = kir_const_i(K, c->slab);
        kir_ref items = kir_bin(K, KIR_IMUL, per_row, by);
        above = kir_bin(K, KIR_IMUL, kir_bin(K, KIR_IDIV, item, items), by);
        item = kir_bin(K, KIR_IMOD, item, items);
    } else if (c->down) {
        by = kir_bin(K, KIR_IMAX, lower_dim(L, c->rows), kir_const_i(K, 1));
    }
    kir_ref major = kir_bin(K, KIR_IDIV, item, by), minor = kir_bin(K, KIR_IMOD, item, by);
    kir_ref row = c->down ? minor : major, tile = c->down ? major : minor;
    if (c->slab) row = kir_bin(K, KIR_IADD, above, row);
    s->tile = true;
    s->width = c->width;
    s->n_cols = kir_const_i(K, c->width);
    s->col0 = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, row, kir_const_i(K, c->inner)),
                      kir_bin(K, KIR_IMUL, tile, s->n_cols));
}

static rp_status build(lowerer *L, const pass_group *gr, const char *name, const cut *c) {
    lower_space s = {0};
    L->n_args = 0;
    RP_TRY(lower_kernel_begin(L, name, KIR_KERNEL));
    if (c->width)
        open_tile(L, c, &s);
    else
        s.row = kir_begin(K, KIR_PAR, lower_dim(L, c->rows));
    RP_TRY(lower_members(L, &s, gr->nodes, gr->n_nodes));
    kir_end(K);
    return kir_status(K, L->err);
}

/* What a kernel that is not taken has asked for. */
static void forget(lowerer *L, const pass_group *gr, uint32_t n_temps) {
    kir_free(L->k);
    L->k = NULL;
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        ir_ref r = gr->nodes[i];
        if (L->has_memory[r] && L->where[r].seg == LOWER_TEMP && L->where[r].idx >= n_temps)
            L->has_memory[r] = false;
    }
    L->out->n_temps = n_temps;
}

/* What is read across rows is read, too, with neighbours side by side, and turned in temporaries. */
static rp_status stage(lowerer *L, cut *c) {
    kir_func *staged = NULL;
    RP_TRY(kir_stage_rows(K, &staged, L->err));
    if (!staged) return RP_OK;
    kir_free(L->k);
    L->k = staged;
    c->staged = true;
    return RP_OK;
}

static int64_t slab_of(const lowerer *L, const cut *c) {
    int64_t rows;
    if (c->width == c->inner || !ir_dim_is_const(ir_graph_dims(L->g), c->rows, &rows)) return 0;
    const int64_t slab = lower_divisor(rows, SLAB);
    return slab >= LEAST_SLAB && slab < rows ? slab : 0;
}

/* Narrow tiles of the last dim, one under the other, where the kernel reads across rows. */
static rp_status go_down(lowerer *L, const pass_group *gr, const char *name, uint32_t n_temps,
                         cut *c) {
    ir_ref giver = shape_giver(L, gr);
    uint32_t rank = ir_node_at(L->g, giver)->shape.rank;
    cut d;
    if (has_reduction(L, gr) || rank < 2 || !reads_across(K)) return RP_OK;
    if (!tiles_from(L, giver, rank - 1, &d)) return RP_OK;
    d.width = lower_divisor(d.inner, chosen_tile(L, DOWN_TILE, MOST_TILE));
    if (d.width < FAR) return RP_OK;
    d.down = true;
    if (!lower_by_blocks(L)) d.slab = slab_of(L, &d);
    *c = d;
    forget(L, gr, n_temps);
    RP_TRY(build(L, gr, name, c));
    return lower_by_blocks(L) || c->slab ? stage(L, c) : RP_OK;
}

/* The widest tiles whose indices need no division inside, or none. */
static rp_status build_tiles(lowerer *L, const pass_group *gr, const char *name, cut *c) {
    ir_ref giver = shape_giver(L, gr);
    uint32_t n_temps = L->out->n_temps, rank = ir_node_at(L->g, giver)->shape.rank;
    for (uint32_t first = 0; first < rank; first++) {
        if (!tiles_from(L, giver, first, c)) continue;
        rp_status st = build(L, gr, name, c);
        if (st != RP_OK) return st;
        if (!divides_inside(K)) return go_down(L, gr, name, n_temps, c);
        forget(L, gr, n_temps);
    }
    return RP_OK;
}

/* Whole rows, the most that there are. Rows of one element each are taken together where finding their indices would cost
 * divisions. */
static rp_status build_rows(lowerer *L, const pass_group *gr, const char *name, cut *c) {
    uint32_t n_temps = L->out->n_temps;
    for (uint32_t i = gr->by.n; i-- > 0;) {
        *c = (cut){.rows = L->rows = gr->by.at[i]};
        rp_status st = build(L, gr, name, c);
        if (st != RP_OK || i == 0 || !divides_by_element(K)) return st;
        forget(L, gr, n_temps);
    }
    return RP_OK;
}

rp_status lower_loop_group(lowerer *L, const pass_group *gr, uint32_t index) {
    char *name = lower_name(L, has_reduction(L, gr) ? "red" : "poi", gr->nodes, gr->n_nodes, index);
    cut c = {.rows = gr->rows};
    rp_status st = RP_OK;
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    L->rows = gr->rows;
    L->k = NULL;
    RP_TRY(lower_runs(L, gr, index));
    L->rows = gr->rows;
    if (can_tile(L, gr)) st = build_tiles(L, gr, name, &c);
    if (st == RP_OK && !L->k) st = build_rows(L, gr, name, &c);
    if (st == RP_OK) st = finish(L, name, &c);
    if (st == RP_OK) st = leave_out(L, gr, &c);
    kir_free(L->k);
    L->k = NULL;
    return st;
}

static rp_status finish_copy(lowerer *L, char *name, ir_dim rows) {
    kir_end(K);
    rp_status st = kir_status(K, L->err);
    const uint32_t at = L->group_at;
    L->group_at = UINT32_MAX;
    if (st == RP_OK) st = finish(L, name, &(cut){.rows = rows});
    L->group_at = at;
    kir_free(L->k);
    L->k = NULL;
    return st;
}

rp_status lower_copy(lowerer *L, ir_ref r, lower_ref *out) {
    const ir_node *n = ir_node_at(L->g, r);
    ir_dims *dims = ir_graph_dims(L->g);
    ir_dim rows = n->shape.rank ? n->shape.dim[0] : ir_dim_const(dims, 1);
    char *name = base_arena_printf(L->arena, "poi_copy_%u", L->out->n_launches);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    ir_dim bytes = lower_bytes(dims, n);
    if (bytes == IR_DIM_BAD) return lower_bytes_refused(L->g, n, L->err);
    *out = (lower_ref){.seg = LOWER_TEMP, .idx = L->out->n_temps};
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
    lower_put(L, lower_buffer_of(L, *out, r), n->dtype, lower_linear(L, &n->shape, idx, 0),
              lower_stored_as(L, r)(L, r, idx));
    for (uint32_t d = 1; d < n->shape.rank; d++) kir_end(K);
    return finish_copy(L, name, rows);
}
