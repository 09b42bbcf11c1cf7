/* Which template a group gets, how large its parts are, and the text that fills its slots.
 *
 * The order in which a product is summed depends on its K and on the class of its rows alone, so that groups of any fusion give the
 * same bits. Sizes were chosen for a GPU of some 132 multiprocessors with 227 KB of shared memory each. */
#include "lower/tensor.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "gen/pack.h"
#include "lower/cuda.h"
#include "lower/matmul.h"
#include "lower/tensor_group.h"
#include "pass/product.h"

enum {
    STEP = 16, /* k of an instruction */
    WARPS = LOWER_TENSOR_WARPS,
    MOST_ROWS = 8,      /* of the template for few rows */
    STEP_BYTES = 512,   /* of a tile */
    MOST_CHUNK = 8,     /* steps of a copy */
    N_SM = 132,         /* that sizes are chosen for */
    SHARED = 227 << 10, /* of a block that has a multiprocessor for itself */
    HALF = 110 << 10,   /* of one of two */
    OWN = 5 << 10,      /* of that, what making a row takes */
    MAKERS = 4,         /* blocks a multiprocessor that make rows */
    MOST_RING = 192 << 10,
    MANY_UNITS = 8 * N_SM, /* that are worth wider ones */
    JOB_TILES = 8,         /* of the template for many rows */
    SLICES = 4,            /* of k, of up to SOME_ROWS rows */
    SOME_ROWS = 64,        /* more rows have one ascending sum */
    APART = 64             /* tiles of so few rows are for few: a block makes a row */
};

/* Sizes of the template for many rows: the most rows, rows of a tile, k of a chunk, chunks in flight; slices of k that are summed apart, and the blocks that
 * share them. Narrow tiles are for so few rows that a round of them takes all: wide ones would leave multiprocessors idle. Both add alike. */
typedef struct many {
    int64_t most, columns, chunk, stages, slices, splits;
    int64_t piece;   /* rows whose sums are in shared memory at once */
    uint32_t per_sm; /* blocks a multiprocessor */
} many;

enum { N_MANYS = 4 };

/* --- sizes ------------------------------------------------------------------------------ */

/* As rk_few_rows of the template. */
typedef struct few {
    int64_t k, slice, chunks, chunk; /* steps of a warp, its copies a tile, steps of a copy */
    int64_t rows, tiles, slots;
} few;

typedef lower_tensor_part part;
typedef lower_tensor_parts group;

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t few_bytes(const few *f) {
    int64_t x = f->rows * (f->k * 2 + 16);
    int64_t sums = (2 * WARPS + 1) * f->rows * f->tiles * 16 * 4;
    return WARPS * f->slots * (f->chunk * STEP_BYTES + 8) + x + 16 + sums;
}

/* Slots of a warp's ring for blocks that share a multiprocessor with per_sm - 1 others. */
static void fit_slots(few *f, const group *g, uint32_t per_sm) {
    int64_t each = div_up(g->units, N_SM * per_sm) * f->tiles * f->chunks;
    int64_t room = (per_sm > 1 ? HALF : SHARED) - (f->rows == 1 && g->own ? OWN : 0);
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
        p->columns = w.n;
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

static rp_status find_parts(const lowerer *L, const pass_group *gr, group *g) {
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

/* --- choice ------------------------------------------------------------------------- */

static bool refuse(const char *name, const char *why, const char *value) {
    if (name)
        base_log_ch(RP_LOG_CH_AUTOTUNING, false, "%s: no tensor cores, sums as on the host: %s %s",
                    name, why, value);
    return false;
}

static bool refuse_k(const char *name, const char *why, int64_t k) {
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, k);
    return refuse(name, why, text);
}

/* One row beside two copies of every warp. */
static bool has_room(int64_t k) {
    few f;
    const group g = {.k = k, .units = 1, .tiles = PASS_MAX_MATS * (LOWER_COLUMNS / GEN_TILE_ROWS)};
    (void)fit_few(&f, &g, 1);
    return few_bytes(&f) <= SHARED;
}

bool lower_tensor_can(const lowerer *L, const pass_group *gr, const char *name, rp_dtype x) {
    pass_weights w;
    if (L->opt->target != GEN_CUDA || L->opt->exact) return false;
    if (pass_is_packed_matmul(L->g, gr->segs[0].mats[0]) ||
        !pass_product_weights(L->g, gr->segs[0].mats[0], &w))
        return false;
    if (w.dtype != RP_DTYPE_BF16)
        return refuse(name, "weights are not bf16 but", rp_dtype_name(w.dtype));
    if (x != RP_DTYPE_F32 && x != RP_DTYPE_BF16)
        return refuse(name, "rows are neither f32 nor bf16 but", rp_dtype_name(x));
    if (w.k % STEP) return refuse_k(name, "K is no multiple of 16:", w.k);
    return has_room(w.k) || refuse_k(name, "a row has no room in shared memory with a K of", w.k);
}

/* --- text ------------------------------------------------------------------------------------ */

static void put_rows(lowerer *L, ir_dim rows) {
    base_buf_puts(&L->source, "    const long long rows = ");
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), rows), "dim",
                   &L->source);
    base_buf_puts(&L->source, ";\n");
}

/* NAME_rows: makes a row at `to`, by so many threads. */
static rp_status put_own(lowerer *L, const group *g, const char *name, uint32_t threads) {
    base_buf *b = &L->source;
    char *own = base_arena_printf(L->arena, "%s_rows", name);
    char *function = base_arena_printf(L->arena, "%s_row", name);
    char *first = base_arena_printf(L->arena, "to - row * %" PRId64, g->k * 2);
    if (!own || !function || !first) return rp_fail(L->err, RP_NOMEM, "kernel name");
    RP_TRY(lower_rows_function(L, g->own, function, threads));
    base_buf_printf(
        b,
        "struct %s {\n    enum { MADE = 1 };\n    RP_INLINE void make(char *const *arg, "
        "const long long *dim, char *to, long long row)\n    {\n        ",
        own);
    lower_rows_call(L, g->own, function, first, "row");
    base_buf_puts(b, "\n    }\n};\n");
    return base_buf_status(b, L->err);
}

static rp_status put_few(lowerer *L, const pass_group *gr, group *g, const char *base, ir_dim rows,
                         int64_t most, lower_alt *alt) {
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
    RP_TRY(lower_tensor_units(L, gr, g, name));
    char *own = g->own ? base_arena_printf(L->arena, "%s_rows", name)
                       : base_arena_str(L->arena, "rk_rows_in_memory");
    if (!own) return rp_fail(L->err, RP_NOMEM, "kernel name");
    if (g->own) RP_TRY(put_own(L, g, name, most > 1 ? 32 : WARPS * 32));
    base_buf_printf(b,
                    "struct %s_plan : %s_units, %s {\n    typedef rk_few_rows<%" PRId64 ", %" PRId64
                    ", %" PRId64 ", %" PRId64 "> tile;\n"
                    "    typedef rk_rows_%s rows;\n"
                    "    static_assert(tile::BYTES == %" PRId64 ", \"shared memory\");\n};\n",
                    name, name, own, f.k, f.rows, f.tiles, f.slots, rp_dtype_name(g->x),
                    alt->scratch);
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

/* Of a job, at most. */
static int64_t most_units(const group *g) {
    int64_t n = 1;
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (units_of_job(&g->parts[i]) > n) n = units_of_job(&g->parts[i]);
    return n;
}

/* Slices of whole chunks, so many that none is empty: K alone decides. Blocks of their own where they leave multiprocessors idle else. */
static many fit_some(const group *g) {
    many m = {.most = SOME_ROWS,
              .columns = 64,
              .chunk = 128,
              .stages = 4,
              .splits = 1,
              .piece = 64,
              .per_sm = 1};
    const int64_t chunks = div_up(g->k, m.chunk), jobs = count_jobs(g);
    m.slices = div_up(chunks, div_up(chunks, SLICES));
    if (g->direct && jobs * m.slices <= N_SM) m.splits = m.slices;
    return m;
}

static void fit_many(group *g, many *list, uint32_t *n, int64_t end, int64_t largest) {
    const int64_t jobs = count_jobs(g),
                  each = jobs < N_SM ? N_SM / jobs : 1; /* tiles of rows at once */
    const many all[N_MANYS] = {fit_some(g),
                               {each * 64, 64, 128, 4, 1, 1, 64, 1},
                               {each * 128, 128, 64, 6, 1, 1, 64, 1},
                               {INT64_MAX, 256, 64, 4, 1, 1, 64, 1}};
    *n = 0;
    for (int i = 0; i < N_MANYS && largest > end; i++) {
        if (all[i].most <= end) continue;
        list[(*n)++] = all[i];
        end = all[i].most;
    }
}

rp_status lower_tensor_tiles(const lowerer *L, const pass_group *gr, lower_tiles *out) {
    many list[N_MANYS];
    uint32_t n;
    group g;
    RP_TRY(find_parts(L, gr, &g));
    const int64_t most = most_rows(&g);
    fit_many(&g, list, &n, most, INT64_MAX);
    *out = (lower_tiles){.of = {{most, 0}}, .n = 1};
    for (uint32_t i = 0; i < n; i++) {
        if (out->of[out->n - 1].columns != list[i].columns) out->n++;
        out->of[out->n - 1].most = list[i].most;
        out->of[out->n - 1].columns = list[i].columns;
    }
    return RP_OK;
}

/* As rk_many_rows of the template. */
static int64_t many_bytes(const many *m) {
    int64_t stage = JOB_TILES * m->chunk * 32 + m->columns * m->chunk * 2;
    return m->stages * (stage + 16) + m->piece * 132 * 4;
}

/* Jobs of the parts, the last one of a part maybe with fewer units. */
static void put_jobs(lowerer *L, const group *g) {
    base_buf *b = &L->source;
    int64_t end = count_jobs(g);
    base_buf_printf(b, "    enum { JOBS = %" PRId64 " };\n    RP_INLINE rk_job job(int i)\n    {\n",
                    end);
    for (uint32_t i = g->n_parts; i-- > 0;) {
        const part *p = &g->parts[i];
        const int64_t tiles = p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS), per = units_of_job(p);
        end -= div_up(p->units, per);
        base_buf_printf(b,
                        "        if (i >= %" PRId64 ") {\n            const int u = (i - %" PRId64
                        ") * %" PRId64 ", n = %" PRId64 " - u < %" PRId64 " ? %" PRId64
                        " - u : %" PRId64 ";\n            const rk_job job = {%" PRId64
                        "LL + u * %" PRId64 ", n * %" PRId64 ", %" PRId64
                        " + u, n};\n            return job;\n        }\n",
                        end, end, per, p->units, per, p->units, per, p->first_tile, tiles, tiles,
                        p->first_unit);
    }
    base_buf_puts(b, "        return rk_job();\n    }\n");
}

/* "m64": one ascending sum; "s64x4": of slices, by 4 blocks. */
static char *many_name(lowerer *L, const char *base, const many *m) {
    return m->most <= SOME_ROWS ? base_arena_printf(L->arena, "%s_s%" PRId64 "x%" PRId64, base,
                                                    m->columns, m->splits)
                                : base_arena_printf(L->arena, "%s_m%" PRId64, base, m->columns);
}

static rp_status put_many(lowerer *L, const pass_group *gr, group *g, const char *base, ir_dim rows,
                          const many *m, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    const uint32_t threads = (WARPS + 1) * 32;
    char cluster[48] = "", *name = many_name(L, base, m);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    *alt = (lower_alt){.max = m->most,
                       .symbol = name,
                       .scratch = many_bytes(m),
                       .threads = threads,
                       .per_sm = m->per_sm,
                       .blocks = m->splits > 1 ? (uint32_t)(count_jobs(g) * m->splits) : 0};
    set_columns(L, g, LOWER_COLUMNS);
    RP_TRY(lower_tensor_units(L, gr, g, name));
    base_buf_printf(b,
                    "struct %s_plan : %s_units {\n    typedef rk_many_rows<%" PRId64 ", %" PRId64
                    ", %" PRId64 ", %" PRId64 ", %" PRId64 ", RK_BLOCKS(%" PRId64 "), %" PRId64
                    "> tile;\n"
                    "    enum { ONCE = %d, UNITS = %" PRId64 " };\n"
                    "    static_assert(tile::BYTES == %" PRId64 ", \"shared memory\");\n",
                    name, name, g->k, m->columns, m->chunk, m->stages, m->slices, m->splits,
                    m->piece, m->most <= m->columns, most_units(g), alt->scratch);
    put_jobs(L, g);
    base_buf_puts(b, "};\n");
    if (m->splits > 1)
        (void)snprintf(cluster, sizeof cluster, "RK_CLUSTER(RK_BLOCKS(%" PRId64 ")) ", m->splits);
    lower_cuda_head(L, name, threads, m->per_sm, cluster);
    put_rows(L, rows);
    base_buf_printf(b, "    (void)items;\n    rk_run_many<%s_plan>(arg, dim, a2, a1, rows);\n}\n",
                    name);
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){.tensor = true});
    return base_buf_status(b, L->err);
}

/* One kernel that arranges rows for a template of many. */
static rp_status put_arrange(lowerer *L, const char *base, ir_dim rows, const group *g,
                             const many *m, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    char *name = base_arena_printf(L->arena, "%s_x%" PRId64, base, m->columns);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    *alt = (lower_alt){.max = m->most, .symbol = name, .threads = WARPS * 32};
    const bool apart = m->columns <= APART; /* a block makes a row, not a warp */
    if (g->own) {
        alt->scratch = (apart ? 1 : WARPS) * (g->k * 2 + 16);
        alt->per_sm = MAKERS;
        if (apart) alt->per_block = (uint32_t)(g->k / 8);
        RP_TRY(put_own(L, g, name, apart ? WARPS * 32 : 32));
    }
    lower_cuda_head(L, name, WARPS * 32, 0, "");
    put_rows(L, rows);
    base_buf_puts(b, "    (void)items, (void)arg, (void)dim;\n");
    if (g->own)
        base_buf_printf(
            b, "    rk_make_rows%s<%s_rows, %" PRId64 ", %" PRId64 ">(arg, dim, a1, rows);\n}\n",
            apart ? "_apart" : "", name, g->k, m->columns);
    else
        base_buf_printf(b,
                        "    rk_arrange_rows<rk_rows_%s, %" PRId64 ", %" PRId64
                        ">((const rk_rows_%s::type *)a0, a1, rows);\n}\n",
                        rp_dtype_name(g->x), g->k, m->columns, rp_dtype_name(g->x));
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){.tensor = true});
    return base_buf_status(b, L->err);
}

static rp_status arranged_memory(lowerer *L, const char *base, ir_dim rows, int64_t k,
                                 lower_ref *out) {
    const ir_dim bytes = lower_arranged_bytes(L, rows, k);
    if (bytes == IR_DIM_BAD)
        return rp_fail(L->err, RP_UNSUPPORTED, "arranged rows of %s take more than 2^63 bytes",
                       base);
    *out = (lower_ref){LOWER_TEMP, L->out->n_temps};
    L->out->temps[L->out->n_temps++].bytes =
        ir_dim_import(L->out->dims, ir_graph_dims(L->g), bytes);
    return RP_OK;
}

/* The launch that arranges rows x where they are too many for put_few, else nothing runs; *x becomes where they then are. */
static rp_status arrange_rows(lowerer *L, const pass_group *gr, const char *base, const group *g,
                              const many *list, uint32_t n, lower_ref *x) {
    const ir_dim rows = lower_flat_rows(L, ir_node_at(L->g, gr->lhs));
    lower_ref to;
    const int64_t k = g->k, most = most_rows(g);
    ir_dims *t = ir_graph_dims(L->g);
    lower_launch made = {.name = base_arena_printf(L->arena, "%s_x", base),
                         .grain = 1,
                         .threads = WARPS * 32,
                         .per_block = WARPS * 32};
    if (!made.name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    RP_TRY(arranged_memory(L, base, rows, k, &to));
    L->args[0] = *x;
    L->args[1] = to;
    L->n_args = 2;
    if (g->own) lower_rows_args(L, g->own); /* of all classes */
    made.alts[made.n_alts++] = (lower_alt){.max = most};
    for (uint32_t i = 0; i < n; i++) { /* classes of equal tiles share a kernel */
        if (i && list[i].columns == list[i - 1].columns)
            made.alts[made.n_alts - 1].max = list[i].most;
        else
            RP_TRY(put_arrange(L, base, rows, g, &list[i], &made.alts[made.n_alts++]));
    }
    made.rows = ir_dim_import(L->out->dims, t, gr->rows);
    made.items = ir_dim_import(L->out->dims, t, ir_dim_mul_const(t, rows, k / 8));
    lower_launch *l = lower_add_launch(L);
    *l = made;
    *x = to;
    return lower_take_args(L, l);
}

/* --- the group --------------------------------------------------------------------------------- */

static rp_status find_rotary(lowerer *L, const pass_group *gr, group *g) {
    lower_rotary *of;
    RP_TRY(lower_rotary_find(L, gr, &of));
    g->rotary = of != NULL;
    for (uint32_t i = 0; of && i < g->n_parts; i++)
        g->parts[i].rotary = &of[g->parts[i].s - gr->segs];
    return RP_OK;
}

rp_status lower_tensor_group(lowerer *L, const pass_group *gr, const char *name, rp_dtype x,
                             const lower_ref operand[2]) {
    ir_dims *t = ir_graph_dims(L->g);
    const ir_node *lhs = ir_node_at(L->g, gr->lhs);
    many list[N_MANYS];
    uint32_t n_many;
    group g;
    lower_launch made = {.name = name, .grain = 1, .threads = WARPS * 32, .per_block = 1};
    RP_TRY(find_parts(L, gr, &g));
    lower_ref from = operand[0];
    g.x = lower_rows_unrounded(L, gr->lhs, &from) ? RP_DTYPE_F32 : x;
    g.own = lower_rows_of(L, gr->lhs);
    ir_dim rows = lower_flat_rows(L, lhs);
    const int64_t most = most_rows(&g), units = g.units;
    int64_t least, largest;
    ir_dim_bounds(t, rows, &least, &largest);
    lower_ref arranged = from;
    L->n_args = 0;
    RP_TRY(find_rotary(L, gr, &g));
    RP_TRY(lower_tensor_find_direct(L, gr, &g));
    if (g.alone) RP_TRY(lower_arranged_find(L, gr, &g.to));
    fit_many(&g, list, &n_many, most, largest);
    if (n_many && !lower_is_arranged(L, gr->lhs))
        RP_TRY(arrange_rows(L, gr, name, &g, list, n_many, &arranged));
    L->args[0] = from;
    L->args[1] = operand[1];
    L->args[2] = arranged;
    L->n_args = 3;
    RP_TRY(put_few(L, gr, &g, name, rows, 1, &made.alts[made.n_alts++]));
    if (most > 1) RP_TRY(put_few(L, gr, &g, name, rows, most, &made.alts[made.n_alts++]));
    for (uint32_t i = 0; i < n_many; i++)
        RP_TRY(put_many(L, gr, &g, name, rows, &list[i], &made.alts[made.n_alts++]));
    made.rows = ir_dim_import(L->out->dims, t, gr->rows);
    ir_dim blocks =
        ir_dim_floordiv(t, ir_dim_add(t, rows, ir_dim_const(t, MOST_ROWS - 1)), MOST_ROWS);
    made.items = ir_dim_import(L->out->dims, t, ir_dim_mul_const(t, blocks, units));
    lower_launch *l = lower_add_launch(L);
    *l = made;
    return lower_take_args(L, l);
}
