/* Which template a group gets, and how large its parts are.
 *
 * The order in which a product is summed depends on its K, its columns and the class of its rows alone, so that groups of any fusion
 * give the same bits. Sizes were chosen for a GPU of some 132 multiprocessors with 227 KB of shared memory each. */
#include "target/cuda/tensor.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "gen/pack.h"
#include "lower/matmul.h"
#include "target/cuda/tensor_group.h"
#include "pass/product.h"

enum {
    STEP = 16, /* k of an instruction */
    WARPS = TARGET_TENSOR_WARPS,
    STEP_BYTES = 512,   /* of a tile */
    MOST_CHUNK = 8,     /* steps of a copy */
    N_SM = 132,         /* that sizes are chosen for */
    SHARED = 227 << 10, /* of a block that has a multiprocessor for itself */
    OWN = 5 << 10,      /* of that, what making a row takes, but of a norm */
    MOST_RING = 192 << 10,
    EARLY = 2,                    /* copies of a warp that are under way before the wait */
    MANY_UNITS = 8 * N_SM,        /* that are worth wider ones */
    JOB_TILES = TARGET_JOB_TILES, /* of the template for many rows */
    SHARED_TILES = 6,             /* of a job that blocks share, too */
    SLICES = 4,                   /* of k, of up to TARGET_SOME_ROWS rows */
    CLUSTERS =
        24, /* of more than two blocks that surely run at once, a block a multiprocessor: 32 of four do not */
    PINGPONG_ROOM = 2 * 16 * 20 * 4, /* ROOM of rk_pingpong_rows */
    WIDE_JOBS = N_SM * 3 / 4,        /* with so many, one tile of 256 rows keeps a GPU busy: */
    WIDE_ROWS = 256,
    THREE_TILES = 512, /* rows in three tiles, the last of which would be half empty with 192: */
    COLUMNS_OF_THREE = 176,
    COLUMNS_IN_TURNS = 192,
    LONG_K = 8192, /* of rows behind WIDE_ROWS, up to HALVED_ROWS, whose sums have two halves */
    HALVED_ROWS = 512,
    LEAST_HALVED =
        1024,        /* keys and values have no more columns, and share a kernel with what has */
    HALVED_COLUMNS = /* of which tiles of 128 rows leave half of a GPU idle */
    N_SM / (2 * HALVED_ROWS / 128) * JOB_TILES * GEN_TILE_ROWS,
    USUAL_ROWS = 2048,  /* of a step (max_num_batched_tokens): the widest tiles are for these */
    RESULTS_OF_256 = 48 /* rows whose products take as long as results of 256 that nothing hides */
};

typedef target_tensor_part part;
typedef target_tensor_parts group;
typedef target_few few;
typedef target_many many;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* --- few rows ------------------------------------------------------------------------------ */

int64_t target_few_bytes(const few *f) {
    int64_t x = f->rows * (f->k * 2 + 16);
    int64_t sums = (2 * WARPS + 1) * f->rows * f->tiles * 16 * 4;
    return WARPS * f->slots * (f->chunk * STEP_BYTES + 8) + x + 16 + sums;
}

/* Shared memory for making a row. */
static int64_t own_bytes(const few *f, const group *g) {
    if (!g->own || f->rows > 1) return 0;
    const target_norm *norm = target_rows_norm(g->own);
    return norm ? target_norm_bytes(norm) : OWN;
}

/* Copies that a warp has under way before the wait: those that fill the ring delay the rows that the kernels in front wait for. Of several rows one, but where all that there
 * are is so few. */
static int64_t fit_cap(const few *f, int64_t copies) {
    if (f->rows == 1) return f->slots < EARLY ? f->slots : EARLY;
    return copies <= EARLY ? f->slots : 1;
}

/* Copies as long as leave room for two: that many keep a warp busy. */
static void fit_ring(few *f, const group *g, int64_t room) {
    const int64_t longest = target_div_up(f->slice, MOST_CHUNK);
    for (f->chunk = target_div_up(f->slice, longest);; f->chunk--) {
        f->chunks = target_div_up(f->slice, f->chunk);
        const int64_t copies = target_div_up(g->units, N_SM) * f->tiles * f->chunks;
        f->slots = MOST_RING / (WARPS * f->chunk * STEP_BYTES);
        if (f->slots > copies) f->slots = copies;
        while (f->slots > 1 && target_few_bytes(f) > room) f->slots--;
        f->cap = fit_cap(f, copies);
        const bool fits = (f->slots > 1 || copies == 1) && target_few_bytes(f) <= room;
        if (fits || f->chunk == 1) return;
    }
}

/* A block has a multiprocessor for itself: two would leave no registers for the kernel behind, whose blocks come in early. */
void target_fit_few(few *f, const group *g, int64_t rows) {
    *f = (few){.k = g->k, .rows = rows, .tiles = g->tiles};
    f->slice = target_div_up(g->k / STEP, WARPS);
    fit_ring(f, g, SHARED - own_bytes(f, g));
}

/* Whatever is fused with a product of such rows: as many tiles as a unit has at most. */
static bool has_room(int64_t k, int64_t rows) {
    few f;
    const group g = {.k = k, .units = 1, .tiles = PASS_MAX_MATS * (LOWER_COLUMNS / GEN_TILE_ROWS)};
    target_fit_few(&f, &g, rows);
    return target_few_bytes(&f) <= SHARED;
}

int64_t target_few_rows(int64_t k) {
    int64_t rows = TARGET_FEW_ROWS;
    while (rows > 1 && !has_room(k, rows)) rows /= 2;
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
        int64_t items = target_div_up(w.n, LOWER_COLUMNS),
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

void target_tensor_columns(const lowerer *L, group *g, int64_t columns) {
    g->columns = columns;
    count_units(L, g);
}

/* Rows that a tuner measures: with the sizes of compile_bench. */
static rp_status count_measured(const lowerer *L, ir_dim rows, int64_t *out) {
    const ir_dims *t = ir_graph_dims(L->g);
    const uint32_t n = ir_dims_symbol_count(t);
    int64_t *values = base_arena_array(L->arena, n + 1u, sizeof *values);
    if (!values) return rp_fail(L->err, RP_NOMEM, "rows of a product");
    for (uint32_t i = 0; i < n; i++) {
        const ir_symbol *s = ir_dims_symbol(t, i);
        values[i] = ir_dim_nominal_of(s->min, s->max);
    }
    *out = ir_dim_eval(t, rows, values);
    return RP_OK;
}

rp_status target_tensor_find_parts(const lowerer *L, const pass_group *gr, group *g) {
    pass_weights w;
    (void)pass_product_weights(L->g, gr->segs[0].mats[0], &w);
    *g = (group){
        .k = w.k, .given = target_is_arranged(L, gr->lhs), .chosen = lower_chosen_of(L, gr).rows};
    RP_TRY(count_measured(L, lower_flat_rows(L, ir_node_at(L->g, gr->lhs)), &g->measured));
    g->parts = base_arena_array(L->arena, gr->n_segs + 1u, sizeof *g->parts);
    if (!g->parts) return rp_fail(L->err, RP_NOMEM, "parts of a product");
    for (uint32_t i = 0; i < gr->n_segs; i++)
        if (!gr->segs[i].dead) g->parts[g->n_parts++].s = &gr->segs[i];
    target_tensor_columns(L, g, wants_32(L, gr) ? LOWER_COLUMNS : GEN_TILE_ROWS);
    if (g->units >= MANY_UNITS) target_tensor_columns(L, g, LOWER_COLUMNS);
    return RP_OK;
}

/* --- many rows ------------------------------------------------------------------------------ */

int64_t target_job_units(const part *p, int64_t tiles) {
    int64_t n = tiles / (p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS));
    return n > 0 ? n : 1;
}

int64_t target_count_jobs(const group *g, int64_t tiles) {
    int64_t n = 0;
    for (uint32_t i = 0; i < g->n_parts; i++)
        n += target_div_up(g->parts[i].units * g->columns / LOWER_COLUMNS,
                           target_job_units(&g->parts[i], tiles));
    return n > 0 ? n : 1;
}

int64_t target_most_job(const group *g, int64_t tiles) {
    int64_t n = 1;
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (target_job_units(&g->parts[i], tiles) > n) n = target_job_units(&g->parts[i], tiles);
    return n;
}

/* Whether jobs of m can be: a unit is not cut, and fills one that is no power of two; a split job is one of elements whose blocks all run at once. */
static bool can_deal(const group *g, const many *m) {
    const int64_t jobs = target_count_jobs(g, m->tiles);
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (g->parts[i].s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS) > m->tiles ||
            (m->tiles == SHARED_TILES && (g->parts[i].s->n_mats != 1 || m->splits == 1)))
            return false;
    return m->splits == 1 || (g->direct && m->slices % m->splits == 0 && jobs * m->splits <= N_SM &&
                              (m->splits == 2 || jobs <= CLUSTERS));
}

/* Columns of weights and rows, of K each, that the busiest block takes in: a multiprocessor has a rate of its own, and memory feeds some 70 of them. */
static double taken(const group *g, const many *m) {
    const int64_t rounds = m->splits > 1 ? 1 : target_div_up(target_count_jobs(g, m->tiles), N_SM);
    return (double)(rounds * (m->tiles * GEN_TILE_ROWS + m->columns)) / (double)m->splits;
}

/* Slices of whole chunks, so many that none is empty: K alone decides. Jobs are as wide, and as many blocks share their slices, as leaves the busiest block least to do. */
static many fit_some(const group *g) {
    static const int64_t jobs[][2] = {
        {JOB_TILES, 4}, {SHARED_TILES, 5}, {JOB_TILES / 2, 6}}; /* and stages */
    const int64_t chunk = 128, chunks = target_div_up(g->k, chunk),
                  slices = target_div_up(chunks, target_div_up(chunks, SLICES));
    many best = {0};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        for (int64_t splits = 1; splits <= slices; splits++) {
            const many m = {.most = TARGET_SOME_ROWS,
                            .tiles = jobs[i][0],
                            .columns = 64,
                            .chunk = chunk,
                            .stages = jobs[i][1],
                            .slices = slices,
                            .splits = splits,
                            .piece = 64,
                            .per_sm = 1};
            if (can_deal(g, &m) && (!best.most || taken(g, &m) < taken(g, &best))) best = m;
        }
    return best;
}

bool target_is_halved(const group *g, const part *p) {
    return g->k >= LONG_K && p->columns > LEAST_HALVED && p->columns <= HALVED_COLUMNS;
}

uint32_t target_count_halved(const group *g) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_parts; i++) n += target_is_halved(g, &g->parts[i]);
    return n;
}

/* Tiles of 128 rows in two slices of k: by two blocks, if all of g is halved and its elements have results by themselves. */
static many tiles_of_halves(const group *g) {
    bool shared = g->direct && target_count_jobs(g, JOB_TILES) * (2 * HALVED_ROWS / 128) <= N_SM;
    for (uint32_t i = 0; i < g->n_parts; i++)
        shared = shared && target_is_halved(g, &g->parts[i]) && g->parts[i].s->n_mats == 1;
    return (many){.most = HALVED_ROWS,
                  .tiles = JOB_TILES,
                  .columns = 128,
                  .chunk = 64,
                  .stages = 6,
                  .slices = 2,
                  .splits = shared ? 2 : 1,
                  .piece = 64,
                  .per_sm = 1};
}

/* Whether every element is of one matrix, or every one of two. */
static bool has_even_mats(const group *g) {
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (g->parts[i].s->n_mats != g->parts[0].s->n_mats || g->parts[i].s->n_mats > 2)
            return false;
    return true;
}

/* Tiles of so many rows, each of whose sums is one ascending sum of k. Those of 256 have results that all warps take together; those of 192 and 176 are multiplied by two
 * groups of warps in turns, where elements have results by themselves. */
static many tiles_of(const group *g, int64_t columns, int64_t most) {
    many m = {.most = most,
              .tiles = JOB_TILES,
              .columns = columns,
              .chunk = columns == 64 ? 128 : 64,
              .stages = columns == 128 ? 6 : 4,
              .slices = 1,
              .splits = 1,
              .piece = 64,
              .per_sm = 1};
    m.pingpong = g->direct && (columns == COLUMNS_IN_TURNS || columns == COLUMNS_OF_THREE);
    if (m.pingpong) m.stages = 5;
    return m;
}

/* The widest tiles: of 256 rows, or of 192 by two groups of warps in turns, which hides what elements become. Whichever is sooner done with the usual rows. Where
 * each group has one job, nothing hides the second's: tiles of 128 rows take as long, and then less for what elements become. */
static many fit_widest(const group *g) {
    const many together = tiles_of(g, 256, INT64_MAX),
               in_turns = tiles_of(g, COLUMNS_IN_TURNS, INT64_MAX);
    const int64_t jobs = target_count_jobs(g, JOB_TILES);
    const int64_t rounds = target_div_up(jobs * target_div_up(USUAL_ROWS, 256), N_SM),
                  turns = target_div_up(jobs * target_div_up(USUAL_ROWS, 192), N_SM),
                  narrow = target_div_up(jobs * target_div_up(USUAL_ROWS, 128), N_SM);
    if (turns == 2 && narrow * 128 <= turns * 192 && narrow * 128 < rounds * 256)
        return tiles_of(g, 128, INT64_MAX);
    return has_even_mats(g) && turns * 192 < rounds * (256 + RESULTS_OF_256) ? in_turns : together;
}

/* Of classes whose sums are one ascending sum. */
uint32_t target_many_heights(const group *g, const many *m, uint16_t out[LOWER_MAX_TILES]) {
    static const uint16_t heights[LOWER_MAX_TILES] = {64, 128, COLUMNS_OF_THREE, COLUMNS_IN_TURNS,
                                                      256};
    uint32_t n = 0;
    if (m->slices > 1 || m->most <= TARGET_SOME_ROWS) return 0;
    for (int i = 0; i < LOWER_MAX_TILES; i++) {
        const many own = tiles_of(g, heights[i], m->most);
        const bool turns = heights[i] == COLUMNS_OF_THREE || heights[i] == COLUMNS_IN_TURNS;
        if ((turns && !has_even_mats(g)) || target_many_bytes(&own) > SHARED ||
            (heights[i] == COLUMNS_OF_THREE && (!own.pingpong || g->given)))
            continue;
        out[n++] = heights[i];
    }
    return n;
}

/* What a tuner chose for the class of more rows than `end`, if it measures that one. */
static void choose_tiles(const group *g, many *m, int64_t end) {
    uint16_t heights[LOWER_MAX_TILES];
    m->measured = g->measured > end && g->measured <= m->most;
    if (!m->measured || !g->chosen || g->chosen == m->columns) return;
    for (uint32_t i = target_many_heights(g, m, heights); i-- > 0;)
        if (heights[i] == g->chosen) {
            *m = tiles_of(g, g->chosen, m->most);
            m->measured = m->chosen = true;
        }
}

void target_fit_many(group *g, many *list, uint32_t *n, int64_t end, int64_t largest) {
    const int64_t jobs = target_count_jobs(g, JOB_TILES),
                  each = jobs < N_SM ? N_SM / jobs : 1; /* tiles of rows at once */
    const many widest = fit_widest(g);
    const bool wide = jobs >= WIDE_JOBS && widest.columns != 256, narrow = widest.columns == 128,
               in_turns = wide && widest.pingpong;
    const bool halved = target_count_halved(g) > 0;
    const int64_t before = halved ? WIDE_ROWS : INT64_MAX;
    many two = widest, halves = tiles_of_halves(g), behind = tiles_of(g, 128, each * 128),
         three = tiles_of(g, COLUMNS_OF_THREE, in_turns && !g->given ? THREE_TILES : 0);
    two.most = in_turns ? 2 * widest.columns : 0;
    if (halved)
        two.most = three.most = 0;
    else
        halves.most = behind.most = 0;
    const many all[TARGET_N_MANYS] = {
        fit_some(g),
        tiles_of(g, 64, least(each * 64, before)),
        tiles_of(g, 128, least(narrow ? INT64_MAX : each * 128, before)),
        tiles_of(g, 256, wide ? WIDE_ROWS : 0),
        two,
        three,
        halves,
        behind,
        widest};
    *n = 0;
    for (int i = 0; i < TARGET_N_MANYS && largest > end; i++) {
        if (all[i].most <= end) continue;
        list[*n] = all[i];
        choose_tiles(g, &list[(*n)++], end);
        end = all[i].most;
    }
}

int64_t target_many_bytes(const many *m) {
    int64_t stage = m->tiles * m->chunk * 32 + m->columns * m->chunk * 2;
    return m->stages * (stage + 16) + (m->pingpong ? WARPS * PINGPONG_ROOM + 16
                                       : m->splits > 1 && !target_has_halves(m)
                                           ? 0
                                           : m->piece * 132 * 4);
}

rp_status target_tensor_tiles(const lowerer *L, const pass_group *gr, target_tiles *out) {
    many list[TARGET_N_MANYS];
    uint32_t n;
    group g;
    RP_TRY(target_tensor_find_parts(L, gr, &g));
    g.given = true;
    const int64_t most = target_few_rows(g.k);
    target_fit_many(&g, list, &n, most, INT64_MAX);
    *out = (target_tiles){.of = {{most, 0}}, .n = 1};
    for (uint32_t i = 0; i < n; i++) {
        if (out->of[out->n - 1].columns != list[i].columns) out->n++;
        out->of[out->n - 1].most = list[i].most;
        out->of[out->n - 1].columns = list[i].columns;
    }
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

bool target_tensor_can(const lowerer *L, const pass_group *gr, const char *name, rp_dtype x) {
    pass_weights w;
    if (L->opt->exact) return false;
    if (pass_is_packed_matmul(L->g, gr->segs[0].mats[0]) ||
        !pass_product_weights(L->g, gr->segs[0].mats[0], &w))
        return false;
    if (w.dtype != RP_DTYPE_BF16)
        return refuse(name, "weights are not bf16 but", rp_dtype_name(w.dtype));
    if (x != RP_DTYPE_F32 && x != RP_DTYPE_BF16)
        return refuse(name, "rows are neither f32 nor bf16 but", rp_dtype_name(x));
    if (w.k % STEP) return refuse_k(name, "K is no multiple of 16:", w.k);
    return has_room(w.k, 1) ||
           refuse_k(name, "a row has no room in shared memory with a K of", w.k);
}
