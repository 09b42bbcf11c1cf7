/* Which template a group gets, how large its parts are, and the text that fills its slots.
 *
 * The order in which a product is summed depends on its K and on the class of its rows alone, so that groups of any fusion give the
 * same bits. Sizes were chosen for a GPU of some 132 multiprocessors with 227 KB of shared memory each. */
#include "lower/tensor.h"

#include <inttypes.h>

#include "base/log.h"
#include "gen/pack.h"
#include "lower/cuda.h"
#include "lower/matmul.h"
#include "pass/product.h"

#define K (L->k)

enum {
    STEP = 16, /* k of an instruction */
    WARPS = 8,
    MOST_ROWS = 8,      /* of the template for few rows */
    STEP_BYTES = 512,   /* of a tile */
    MOST_CHUNK = 8,     /* steps of a copy */
    N_SM = 132,         /* that sizes are chosen for */
    SHARED = 227 << 10, /* of a block that has a multiprocessor for itself */
    HALF = 110 << 10,   /* of one of two */
    MOST_RING = 192 << 10,
    MANY_UNITS = 8 * N_SM, /* that are worth wider ones */
    JOB_TILES = 8,         /* of the template for many rows */
    PIECE = 64             /* rows whose sums are in shared memory at once */
};

/* Sizes of the template for many rows: the most rows, rows of a tile, k of a chunk, chunks in flight, blocks a multiprocessor. Narrow tiles are for
 * few rows, and for matrices so small that wide ones would leave multiprocessors idle; both add alike. */
typedef struct many {
    int64_t most, columns, chunk, stages;
    uint32_t per_sm;
} many;

enum { N_MANYS = 3, WIDEST = 256 };

/* --- choice ------------------------------------------------------------------------- */

static bool refuse(const char *name, const char *why, int64_t value) {
    base_log_ch(RP_LOG_CH_AUTOTUNING, false,
                "%s: no tensor cores, sums as on the host: %s %" PRId64, name, why, value);
    return false;
}

bool lower_tensor_can(const lowerer *L, const pass_group *gr, const char *name, rp_dtype x) {
    pass_weights w;
    if (L->opt->target != GEN_CUDA || L->opt->exact) return false;
    if (pass_is_packed_matmul(L->g, gr->segs[0].mats[0]) ||
        !pass_product_weights(L->g, gr->segs[0].mats[0], &w) || w.dtype != RP_DTYPE_BF16)
        return false;
    if (x != RP_DTYPE_F32 && x != RP_DTYPE_BF16)
        return refuse(name, "rows are not float32 or bf16 but of type", (int64_t)x);
    if (w.k % STEP) return refuse(name, "K is not a multiple of 16:", w.k);
    return true;
}

/* --- sizes ------------------------------------------------------------------------------ */

/* As rk_few_rows of the template. */
typedef struct few {
    int64_t k, slice, chunks, chunk; /* steps of a warp, its copies a tile, steps of a copy */
    int64_t rows, tiles, slots;
} few;

/* Part of a kernel: units of one segment. */
typedef struct part {
    const pass_segment *s;
    int64_t units, first_unit, first_tile, first_job;
} part;

typedef struct group {
    part *parts;
    uint32_t n_parts;
    rp_dtype x;                /* of rows */
    int64_t k, units, columns; /* of a unit, of each of its matrices */
    int64_t tiles;             /* of a unit, at most */
    many many[N_MANYS];        /* n_many of them are for rows that there can be */
    uint32_t n_many;
} group;

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t few_bytes(const few *f) {
    int64_t x = WARPS * f->rows * (f->slice * 32 + 16);
    int64_t sums = (WARPS + 1) * f->rows * f->tiles * 16 * 4;
    return WARPS * f->slots * (f->chunk * STEP_BYTES + 8) + x + 16 + sums;
}

/* Slots of a warp's ring for blocks that share a multiprocessor with per_sm - 1 others. */
static void fit_slots(few *f, const group *g, uint32_t per_sm) {
    int64_t each = div_up(g->units, N_SM * per_sm) * f->tiles * f->chunks;
    int64_t room = per_sm > 1 ? HALF : SHARED;
    f->slots = MOST_RING / (WARPS * f->chunk * STEP_BYTES);
    if (f->slots > each) f->slots = each;
    while (f->slots > 1 && few_bytes(f) > room) f->slots--;
}

/* Blocks a multiprocessor. */
static uint32_t fit_few(few *f, const group *g, int64_t rows) {
    *f = (few){.k = g->k, .rows = rows, .tiles = g->tiles};
    f->slice = div_up(g->k / STEP, WARPS);
    f->chunks = div_up(f->slice, MOST_CHUNK);
    f->chunk = div_up(f->slice, f->chunks);
    bool beside = g->units > N_SM && g->units <= 2 * N_SM;
    if (beside) {
        fit_slots(f, g, 2);
        if (few_bytes(f) <= HALF && f->slots >= f->tiles * f->chunks) return 2;
    }
    fit_slots(f, g, 1);
    return 1;
}

/* Rows that the template for few rows takes: fewer where K is so long that they have no room beside two copies. */
static int64_t most_rows(const group *g) {
    few f;
    int64_t rows = MOST_ROWS;
    for (; rows > 1; rows /= 2) {
        (void)fit_few(&f, g, rows);
        if (f.slots > 1 && few_bytes(&f) <= SHARED) break;
    }
    return rows;
}

/* --- parts -------------------------------------------------------------------------------- */

/* Blocks of 32 packed columns are made whole. */
static bool wants_32(const lowerer *L, const pass_group *gr) {
    for (uint32_t i = 0; i < gr->n_nodes; i++)
        if (ir_node_at(L->g, gr->nodes[i])->dtype == RP_DTYPE_I16B32) return true;
    return false;
}

static void count_units(const lowerer *L, group *g) {
    pass_weights w;
    int64_t tile = 0;
    g->units = g->tiles = 0;
    for (uint32_t i = 0; i < g->n_parts; i++) {
        part *p = &g->parts[i];
        (void)pass_product_weights(L->g, p->s->mats[0], &w);
        int64_t items = div_up(w.n, LOWER_COLUMNS),
                tiles = p->s->n_mats * g->columns / GEN_TILE_ROWS;
        p->first_unit = g->units;
        p->first_tile = tile;
        p->units = items * (LOWER_COLUMNS / g->columns);
        g->units += p->units;
        tile += items * p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS);
        if (tiles > g->tiles) g->tiles = tiles;
    }
}

static void set_columns(const lowerer *L, group *g, int64_t columns) {
    g->columns = columns;
    count_units(L, g);
}

static rp_status find_parts(lowerer *L, const pass_group *gr, group *g) {
    pass_weights w;
    (void)pass_product_weights(L->g, gr->segs[0].mats[0], &w);
    *g = (group){.k = w.k};
    g->parts = base_arena_array(L->arena, gr->n_segs + 1u, sizeof *g->parts);
    if (!g->parts) return rp_fail(L->err, RP_NOMEM, "parts of a product");
    for (uint32_t i = 0; i < gr->n_segs; i++)
        if (!gr->segs[i].dead) g->parts[g->n_parts++].s = &gr->segs[i];
    set_columns(L, g, wants_32(L, gr) ? LOWER_COLUMNS : GEN_TILE_ROWS);
    if (g->units >= MANY_UNITS) set_columns(L, g, LOWER_COLUMNS);
    return RP_OK;
}

/* --- text ------------------------------------------------------------------------------------ */

/* NAME_row: the fragment NAME for one row of a unit, by a warp, with what it keeps in shared memory. */
static void put_row(lowerer *L, const part *p, const char *frag, int64_t columns) {
    base_buf *b = &L->source;
    base_buf_printf(b,
                    "RP_INLINE void %s_row(char *const *arg, const long long *dim, long long row, "
                    "long long unit, float *acc)\n{\n",
                    frag);
    for (uint32_t i = p->s->n_mats; i < K->n_bufs; i++)
        if (K->bufs[i].space == KIR_SCRATCH)
            base_buf_printf(b, "    __shared__ %s e%u[%d][%" PRId64 "];\n",
                            K->bufs[i].dtype == RP_DTYPE_I32 ? "rp_i32" : "float", i, WARPS,
                            columns);
    base_buf_printf(b, "    %s(arg, dim, row, unit * %" PRId64, frag, columns);
    for (uint32_t i = 0; i < K->n_bufs; i++) {
        if (K->bufs[i].space != KIR_SCRATCH) continue;
        if (i < p->s->n_mats)
            base_buf_printf(b, ", acc + %" PRId64, i * columns);
        else
            base_buf_printf(b, ", e%u[threadIdx.x / 32]", i);
    }
    base_buf_puts(b, ");\n}\n");
}

static rp_status put_epilogues(lowerer *L, const pass_group *gr, const group *g, const char *name) {
    for (uint32_t i = 0; i < g->n_parts; i++) {
        char *frag = lower_epilogue_name(L, name, i);
        if (!frag) return rp_fail(L->err, RP_NOMEM, "kernel name");
        L->rows = gr->rows;
        rp_status st = lower_epilogue(L, g->parts[i].s, frag, g->columns);
        if (st == RP_OK) put_row(L, &g->parts[i], frag, g->columns);
        kir_free(L->k);
        L->k = NULL;
        RP_TRY(st);
    }
    return RP_OK;
}

/* NAME_units: where units lie, and what is done with their sums. */
static void put_units(lowerer *L, const group *g, const char *name) {
    base_buf *b = &L->source;
    const int64_t per = LOWER_COLUMNS / g->columns; /* units of an item of the packed weights */
    base_buf_printf(b,
                    "struct %s_units {\n    enum { N = %" PRId64 " };\n"
                    "    RP_INLINE rk_unit at(int unit)\n    {\n",
                    name, g->units);
    for (uint32_t i = g->n_parts; i-- > 0;) {
        const part *p = &g->parts[i];
        base_buf_printf(b,
                        "        if (unit >= %" PRId64 ") {\n"
                        "            const int u = unit - %" PRId64 ";\n"
                        "            const rk_unit at = {%" PRId64 "LL + u / %" PRId64 " * %" PRId64
                        " + u %% %" PRId64 ", %" PRId64 ", %" PRId64 "};\n"
                        "            return at;\n        }\n",
                        p->first_unit, p->first_unit, p->first_tile, per,
                        (int64_t)p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS), per,
                        p->s->n_mats * g->columns / GEN_TILE_ROWS, per);
    }
    base_buf_puts(b, "        return rk_unit();\n    }\n"
                     "    RP_INLINE void end(char *const *arg, const long long *dim, int unit, "
                     "long long row, float *acc)\n    {\n");
    for (uint32_t i = g->n_parts; i-- > 0;)
        base_buf_printf(b,
                        "        if (unit >= %" PRId64 ") {\n"
                        "            %s_e%u_row(arg, dim, row, unit - %" PRId64 ", acc);\n"
                        "            return;\n        }\n",
                        g->parts[i].first_unit, name, i, g->parts[i].first_unit);
    base_buf_puts(b, "    }\n};\n");
}

static void put_rows(lowerer *L, ir_dim rows) {
    base_buf_puts(&L->source, "    const long long rows = ");
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), rows), "dim",
                   &L->source);
    base_buf_puts(&L->source, ";\n");
}

static rp_status put_few(lowerer *L, const pass_group *gr, const group *g, const char *base,
                         ir_dim rows, int64_t most, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    few f;
    char *name = base_arena_printf(L->arena, "%s_r%" PRId64, base, most);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    const uint32_t per_sm = fit_few(&f, g, most);
    *alt = (lower_alt){.max = most,
                       .symbol = name,
                       .scratch = few_bytes(&f),
                       .threads = WARPS * 32,
                       .per_sm = per_sm};
    RP_TRY(put_epilogues(L, gr, g, name));
    put_units(L, g, name);
    base_buf_printf(b,
                    "struct %s_plan : %s_units {\n    typedef rk_few_rows<%" PRId64 ", %" PRId64
                    ", %" PRId64 ", %" PRId64 "> tile;\n"
                    "    typedef rk_rows_%s rows;\n"
                    "    static_assert(tile::BYTES == %" PRId64 ", \"shared memory\");\n};\n",
                    name, name, f.k, f.rows, f.tiles, f.slots, rp_dtype_name(g->x), alt->scratch);
    lower_cuda_head(L, name, WARPS * 32, 0, "");
    put_rows(L, rows);
    base_buf_printf(b,
                    "    (void)items;\n    rk_run_few<%s_plan>(arg, dim, a0, a1, "
                    "(int)rows);\n}\n",
                    name);
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){.tensor = true});
    return base_buf_status(b, L->err);
}

/* --- many rows --------------------------------------------------------------------------------- */

static int64_t units_of_job(const part *p) {
    int64_t n = JOB_TILES / (p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS));
    return n > 0 ? n : 1;
}

static int64_t count_jobs(const group *g) {
    int64_t n = 0;
    for (uint32_t i = 0; i < g->n_parts; i++)
        n += div_up(g->parts[i].units * g->columns / LOWER_COLUMNS, units_of_job(&g->parts[i]));
    return n > 0 ? n : 1;
}

static void fit_many(group *g) {
    const int64_t each = N_SM / count_jobs(g); /* tiles of rows that leave some of them so */
    const int64_t narrow = each * 128 > 64 ? each * 128 : 64;
    g->many[0] = (many){narrow, 64, 128, 4, 1};
    g->many[1] = (many){narrow > 64 ? 2 * narrow : 128, 128, 128, 3, 1};
    g->many[2] = (many){INT64_MAX, WIDEST, 64, 4, 1};
}

/* As rk_many_rows of the template. */
static int64_t many_bytes(const many *m) {
    int64_t stage = JOB_TILES * m->chunk * 32 + m->columns * m->chunk * 2;
    return m->stages * (stage + 16) + PIECE * 132 * 4;
}

/* Jobs of the parts, the last one of a part maybe with fewer units. */
static void put_jobs(lowerer *L, const group *g) {
    base_buf *b = &L->source;
    int64_t n = 0;
    for (uint32_t i = 0; i < g->n_parts; i++) {
        g->parts[i].first_job = n;
        n += div_up(g->parts[i].units, units_of_job(&g->parts[i]));
    }
    base_buf_printf(b, "    enum { JOBS = %" PRId64 " };\n    RP_INLINE rk_job job(int i)\n    {\n",
                    n);
    for (uint32_t i = g->n_parts; i-- > 0;) {
        const part *p = &g->parts[i];
        const int64_t tiles = p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS), per = units_of_job(p);
        base_buf_printf(b,
                        "        if (i >= %" PRId64 ") {\n            const int u = (i - %" PRId64
                        ") * %" PRId64 ", n = %" PRId64 " - u < %" PRId64 " ? %" PRId64
                        " - u : %" PRId64 ";\n            const rk_job job = {%" PRId64
                        "LL + u * %" PRId64 ", n * %" PRId64 ", %" PRId64
                        " + u, n};\n            return job;\n        }\n",
                        p->first_job, p->first_job, per, p->units, per, p->units, per,
                        p->first_tile, tiles, tiles, p->first_unit);
    }
    base_buf_puts(b, "        return rk_job();\n    }\n");
}

static rp_status put_many(lowerer *L, const pass_group *gr, group *g, const char *base, ir_dim rows,
                          const many *m, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    const int64_t bytes = many_bytes(m);
    char *name = base_arena_printf(L->arena, "%s_m%" PRId64, base, m->columns);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    *alt = (lower_alt){.max = m->most,
                       .symbol = name,
                       .scratch = bytes,
                       .threads = WARPS * 32 + 32,
                       .per_sm = m->per_sm};
    set_columns(L, g, LOWER_COLUMNS);
    RP_TRY(put_epilogues(L, gr, g, name));
    put_units(L, g, name);
    base_buf_printf(b,
                    "struct %s_plan : %s_units {\n    typedef rk_many_rows<%" PRId64 ", %" PRId64
                    ", %" PRId64 ", %" PRId64 "> tile;\n"
                    "    static_assert(tile::BYTES == %" PRId64 ", \"shared memory\");\n",
                    name, name, g->k, m->columns, m->chunk, m->stages, bytes);
    put_jobs(L, g);
    base_buf_puts(b, "};\n");
    lower_cuda_head(L, name, WARPS * 32 + 32, 0, "");
    put_rows(L, rows);
    base_buf_printf(b, "    (void)items;\n    rk_run_many<%s_plan>(arg, dim, a2, a1, rows);\n}\n",
                    name);
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){.tensor = true});
    return base_buf_status(b, L->err);
}

/* One kernel that arranges rows for a template of many. */
static rp_status put_arrange(lowerer *L, const char *base, ir_dim rows, rp_dtype x, int64_t k,
                             const many *m, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    char *name = base_arena_printf(L->arena, "%s_x%" PRId64, base, m->columns);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    *alt = (lower_alt){.max = m->most, .symbol = name, .threads = WARPS * 32};
    lower_cuda_head(L, name, WARPS * 32, 0, "");
    put_rows(L, rows);
    base_buf_printf(
        b,
        "    (void)items, (void)arg, (void)dim;\n    rk_arrange_rows<rk_rows_%s, %" PRId64
        ", %" PRId64 ">((const rk_rows_%s::type *)a0, a1, rows);\n}\n",
        rp_dtype_name(x), k, m->columns, rp_dtype_name(x));
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){.tensor = true});
    return base_buf_status(b, L->err);
}

/* Memory for rows of k elements in whole tiles of any class. */
static rp_status arranged_memory(lowerer *L, const char *base, ir_dim rows, int64_t k,
                                 lower_ref *out) {
    const int64_t widest = WIDEST;
    ir_dims *t = ir_graph_dims(L->g);
    ir_dim tiles = ir_dim_floordiv(t, ir_dim_add(t, rows, ir_dim_const(t, widest - 1)), widest);
    ir_dim bytes = ir_dim_mul_const(t, tiles, widest * k * 2);
    if (bytes == IR_DIM_BAD)
        return rp_fail(L->err, RP_UNSUPPORTED, "arranged rows of %s take more than 2^63 bytes",
                       base);
    *out = (lower_ref){LOWER_TEMP, L->out->n_temps};
    L->out->temps[L->out->n_temps++].bytes = ir_dim_import(L->out->dims, t, bytes);
    return RP_OK;
}

/* The launch that arranges rows x where they are too many for put_few, else it has no items; *to gets the memory. */
static rp_status arrange_rows(lowerer *L, const pass_group *gr, const char *base, ir_dim rows,
                              const group *g, lower_ref x, lower_ref *to) {
    const int64_t k = g->k, most = most_rows(g);
    ir_dims *t = ir_graph_dims(L->g);
    lower_launch made = {.name = base_arena_printf(L->arena, "%s_x", base),
                         .grain = 1,
                         .threads = WARPS * 32,
                         .per_block = WARPS * 32};
    if (!made.name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    RP_TRY(arranged_memory(L, base, rows, k, to));
    L->args[0] = x;
    L->args[1] = *to;
    L->n_args = 2;
    for (uint32_t i = 0; i < g->n_many; i++)
        RP_TRY(put_arrange(L, base, rows, g->x, k, &g->many[i], &made.alts[made.n_alts++]));
    made.rows = ir_dim_import(L->out->dims, t, gr->rows);
    ir_dim more = ir_dim_floordiv(t, ir_dim_add(t, rows, ir_dim_const(t, -1)), most);
    made.items = ir_dim_import(L->out->dims, t, ir_dim_mul_const(t, more, most * (k / 8)));
    lower_launch *l = lower_add_launch(L);
    *l = made;
    return lower_take_args(L, l);
}

/* --- the group --------------------------------------------------------------------------------- */

rp_status lower_tensor_group(lowerer *L, const pass_group *gr, const char *name, rp_dtype x,
                             const lower_ref operand[2]) {
    ir_dims *t = ir_graph_dims(L->g);
    group g;
    lower_launch made = {.name = name, .grain = 1, .threads = WARPS * 32, .per_block = 1};
    RP_TRY(find_parts(L, gr, &g));
    g.x = x;
    ir_dim rows =
        lower_flat_rows(L, ir_node_at(L->g, ir_node_at(L->g, gr->segs[0].mats[0])->in[0]));
    const int64_t most = most_rows(&g), units = g.units;
    int64_t least, largest;
    lower_ref arranged = operand[0];
    ir_dim_bounds(t, rows, &least, &largest);
    fit_many(&g);
    for (int64_t end = most; g.n_many < N_MANYS && largest > end; g.n_many++)
        end = g.many[g.n_many].most;
    if (largest > most) RP_TRY(arrange_rows(L, gr, name, rows, &g, operand[0], &arranged));
    L->args[0] = operand[0];
    L->args[1] = operand[1];
    L->args[2] = arranged;
    L->n_args = 3;
    RP_TRY(put_few(L, gr, &g, name, rows, 1, &made.alts[made.n_alts++]));
    if (most > 1) RP_TRY(put_few(L, gr, &g, name, rows, most, &made.alts[made.n_alts++]));
    for (uint32_t i = 0; i < g.n_many; i++)
        RP_TRY(put_many(L, gr, &g, name, rows, &g.many[i], &made.alts[made.n_alts++]));
    made.rows = ir_dim_import(L->out->dims, t, gr->rows);
    ir_dim blocks =
        ir_dim_floordiv(t, ir_dim_add(t, rows, ir_dim_const(t, MOST_ROWS - 1)), MOST_ROWS);
    made.items = ir_dim_import(L->out->dims, t, ir_dim_mul_const(t, blocks, units));
    lower_launch *l = lower_add_launch(L);
    *l = made;
    return lower_take_args(L, l);
}
