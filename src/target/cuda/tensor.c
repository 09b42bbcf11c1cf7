/* The text that fills the slots of the templates that a group gets: a kernel for few rows, one for each class of many, and
 * what arranges rows for those. How large its parts are: tensor_size.c. */
#include "target/cuda/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gen/pack.h"
#include "target/cuda/cuda.h"
#include "lower/matmul.h"
#include "target/cuda/tensor_group.h"
#include "pass/product.h"

enum {
    WARPS = TARGET_TENSOR_WARPS,
    FETCHING_THREADS = 4 * 32, /* beside those that multiply, where k is in one slice, else: */
    FETCHING_FEW = 32,
    MAKERS = 4, /* blocks a multiprocessor that make rows, so many each: */
    MADE_ROWS = 4,
    APART = 64 /* tiles of so few rows are for few: a block makes a row */
};

typedef target_tensor_part part;
typedef target_tensor_parts group;
typedef target_few few;
typedef target_many many;

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
    if (own && target_rows_norm(g->own)) {
        target_rows_args(L, g->own);
        target_norm_text(L, target_rows_norm(g->own), own, threads);
        return base_buf_status(b, L->err);
    }
    char *function = base_arena_printf(L->arena, "%s_row", name);
    char *first = base_arena_printf(L->arena, "to - row * %" PRId64, g->k * 2);
    if (!own || !function || !first) return rp_fail(L->err, RP_NOMEM, "kernel name");
    RP_TRY(target_rows_function(L, g->own, function, threads));
    base_buf_printf(
        b,
        "struct %s : rk_rows_in_memory {\n    enum { MADE = 1 };\n    struct maker : rk_making {\n"
        "        RP_INLINE void row(char *const *arg, const long long *dim, char *to, long long "
        "row)\n        {\n            ",
        own);
    target_rows_call(L, g->own, function, first, "row");
    base_buf_puts(b, "\n        }\n    };\n};\n");
    return base_buf_status(b, L->err);
}

/* NAME_rows: where rows are that lie in memory, one behind the other, or are gathered there. Gives its name. */
static char *put_in_memory(lowerer *L, const group *g, const char *name) {
    base_buf *b = &L->source;
    if (!g->gathered) return base_arena_str(L->arena, "rk_rows_in_memory");
    const ir_dim size = ir_node_at(L->g, g->gathered->table)->shape.dim[0];
    base_buf_printf(b,
                    "struct %s_rows : rk_rows_in_memory {\n    RP_INLINE long long place(char "
                    "*const *arg, const long long *dim, long long row) { return "
                    "rk_row_of((const rp_i32 *)arg[%u], row, ",
                    name, lower_arg_slot(L, L->where[g->gathered->at]));
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), size), "dim", b);
    base_buf_puts(b, "); }\n};\n");
    return base_arena_printf(L->arena, "%s_rows", name);
}

/* While g's text is made that gathers, nothing of it is in memory. */
static void set_in_memory(lowerer *L, const group *g, bool is) {
    for (uint32_t i = 0; g->gathered && i < g->gathered->n_more; i++)
        L->has_memory[g->gathered->more[i]] = is;
}

/* Kernels of all classes have the same arguments. */
static void add_gathered_args(lowerer *L, const group *g) {
    const target_gathered *from = g->gathered;
    if (!from) return;
    (void)lower_arg_slot(L, L->where[from->table]);
    (void)lower_arg_slot(L, L->where[from->at]);
    for (uint32_t i = 0; i < from->n_more; i++) {
        const ir_node *n = ir_node_at(L->g, from->more[i]);
        (void)lower_arg_slot(L, L->where[from->more[i]]);
        (void)lower_arg_slot(L, L->where[n->in[0]]);
        (void)lower_arg_slot(L, L->where[n->in[1]]);
    }
}

static rp_status put_few(lowerer *L, const pass_group *gr, group *g, const char *base, ir_dim rows,
                         int64_t most, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    few f;
    char *name = base_arena_printf(L->arena, "%s_r%" PRId64, base, most);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    target_fit_few(&f, g, most);
    *alt = (lower_alt){.max = most,
                       .symbol = name,
                       .scratch = target_few_bytes(&f),
                       .threads = WARPS * 32,
                       .per_sm = 1};
    const bool makes = g->own && most == 1;
    set_in_memory(L, g, false);
    const rp_status st = target_tensor_units(L, gr, g, name);
    set_in_memory(L, g, true);
    RP_TRY(st);
    char *own = makes ? base_arena_printf(L->arena, "%s_rows", name) : put_in_memory(L, g, name);
    if (!own) return rp_fail(L->err, RP_NOMEM, "kernel name");
    if (makes) RP_TRY(put_own(L, g, name, WARPS * 32));
    base_buf_printf(b,
                    "struct %s_plan : %s_units, %s {\n    typedef rk_few_rows<%" PRId64 ", %" PRId64
                    ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "> tile;\n"
                    "    typedef rk_rows_%s rows;\n"
                    "    static_assert(tile::BYTES == %" PRId64 ", \"shared memory\");\n};\n",
                    name, name, own, f.k, f.rows, f.tiles, f.chunk, f.slots, f.cap,
                    rp_dtype_name(g->own        ? RP_DTYPE_BF16
                                  : g->gathered ? RP_DTYPE_F32
                                                : g->x),
                    alt->scratch);
    const uint32_t slot = g->own        ? 2
                          : g->gathered ? lower_arg_slot(L, L->where[g->gathered->table])
                                        : 0;
    target_cuda_head(L, name, WARPS * 32, 0, "");
    put_rows(L, rows);
    base_buf_printf(b,
                    "    (void)items;\n    rk_run_few<%s_plan>(arg, dim, a%u, a1, "
                    "(int)rows);\n}\n",
                    name, slot);
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){.tensor = true});
    return base_buf_status(b, L->err);
}

/* --- many rows --------------------------------------------------------------------------------- */

/* Jobs of the parts, the last one of a part maybe with fewer units. */
static void put_jobs(lowerer *L, const group *g, int64_t job_tiles) {
    base_buf *b = &L->source;
    int64_t end = target_count_jobs(g, job_tiles);
    base_buf_printf(b, "    enum { JOBS = %" PRId64 " };\n    RP_INLINE rk_job job(int i)\n    {\n",
                    end);
    for (uint32_t i = g->n_parts; i-- > 0;) {
        const part *p = &g->parts[i];
        const int64_t tiles = p->s->n_mats * (LOWER_COLUMNS / GEN_TILE_ROWS),
                      per = target_job_units(p, job_tiles);
        end -= target_div_up(p->units, per);
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

/* Which jobs have sums of halves, where some have none. */
static void put_sliced(lowerer *L, const group *g) {
    if (target_count_halved(g) == g->n_parts) return;
    base_buf_puts(&L->source,
                  "    RP_INLINE bool sliced(const rk_job &job)\n    {\n        return false");
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (target_is_halved(g, &g->parts[i]))
            base_buf_printf(&L->source, " || (job.unit >= %" PRId64 " && job.unit < %" PRId64 ")",
                            g->parts[i].first_unit, g->parts[i].first_unit + g->parts[i].units);
    base_buf_puts(&L->source, ";\n    }\n");
}

/* "m64": one ascending sum; "p192": the same in turns; "s64x4": of slices, by 4 blocks; "h128x2": of two halves. A tuner's kernel, "m64c", is one class's alone: what is made
 * ONCE hangs on the class. */
static char *many_name(lowerer *L, const char *base, const many *m) {
    const bool halves = target_has_halves(m);
    if (halves || m->most <= TARGET_SOME_ROWS)
        return base_arena_printf(L->arena, "%s_%c%" PRId64 "x%" PRId64, base, halves ? 'h' : 's',
                                 m->columns, m->splits);
    return base_arena_printf(L->arena, "%s_%c%" PRId64 "%s", base, m->pingpong ? 'p' : 'm',
                             m->columns, m->chosen ? "c" : "");
}

static void put_tile(lowerer *L, const group *g, const many *m) {
    base_buf *b = &L->source;
    base_buf_printf(b, "    typedef rk_%s_rows<%" PRId64, m->pingpong ? "pingpong" : "many", g->k);
    if (!m->pingpong) base_buf_printf(b, ", %" PRId64, m->tiles);
    base_buf_printf(b, ", %" PRId64 ", %" PRId64 ", %" PRId64, m->columns, m->chunk, m->stages);
    if (!m->pingpong)
        base_buf_printf(b, ", %" PRId64 ", RK_BLOCKS(%" PRId64 "), %" PRId64 ", %d", m->slices,
                        m->splits, m->piece, m->splits > 1 && !target_has_halves(m));
    base_buf_puts(b, "> tile;\n");
}

static rp_status put_many(lowerer *L, const pass_group *gr, group *g, const char *base, ir_dim rows,
                          const many *m, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    const bool halves = target_has_halves(m);
    const uint32_t threads = WARPS * 32 +
                             (m->slices == 1 || halves ? FETCHING_THREADS : FETCHING_FEW);
    char cluster[48] = "", *name = many_name(L, base, m);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    *alt = (lower_alt){.max = m->most,
                       .symbol = name,
                       .scratch = target_many_bytes(m),
                       .threads = threads,
                       .per_sm = m->per_sm,
                       .blocks = m->splits > 1
                                     ? (uint32_t)(target_count_jobs(g, m->tiles) * m->splits *
                                                  (halves ? target_div_up(m->most, m->columns) : 1))
                                     : 0};
    target_tensor_columns(L, g, LOWER_COLUMNS);
    RP_TRY(target_tensor_units(L, gr, g, name));
    base_buf_printf(b, "struct %s_plan : %s_units {\n", name, name);
    put_tile(L, g, m);
    base_buf_printf(b,
                    "    enum { ONCE = %d, UNITS = %" PRId64 " };\n"
                    "    static_assert(tile::BYTES == %" PRId64 ", \"shared memory\");\n",
                    m->most <= m->columns, target_most_job(g, m->tiles), alt->scratch);
    put_jobs(L, g, m->tiles);
    if (halves) put_sliced(L, g);
    base_buf_puts(b, "};\n");
    if (m->splits > 1)
        (void)snprintf(cluster, sizeof cluster, "RK_CLUSTER(RK_BLOCKS(%" PRId64 ")) ", m->splits);
    target_cuda_head(L, name, threads, m->per_sm, cluster);
    put_rows(L, rows);
    base_buf_printf(b, "    (void)items;\n    rk_run_%s<%s_plan>(arg, dim, a2, a1, rows);\n}\n",
                    m->pingpong ? "pingpong" : "many", name);
    (void)lower_add_kernel(L, name, begin, (gen_matmul_uses){.tensor = true});
    return base_buf_status(b, L->err);
}

static char *arrange_name(lowerer *L, const char *base, const many *m) {
    return base_arena_printf(L->arena, "%s_x%" PRId64, base, m->columns);
}

/* Classes of equal tiles have one kernel: of up to so many rows, too, that of an earlier class. */
static bool shares_alt(lower_launch *l, const char *symbol, int64_t most) {
    for (uint32_t i = 0; symbol && i < l->n_alts; i++)
        if (l->alts[i].symbol && !strcmp(l->alts[i].symbol, symbol)) {
            l->alts[l->n_alts] = l->alts[i];
            l->alts[l->n_alts++].max = most;
            return true;
        }
    return false;
}

/* One kernel that arranges rows for a template of many. */
static rp_status put_arrange(lowerer *L, const char *base, ir_dim rows, const group *g,
                             const many *m, lower_alt *alt) {
    base_buf *b = &L->source;
    const size_t begin = b->len;
    char *name = arrange_name(L, base, m);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    *alt = (lower_alt){.max = m->most, .symbol = name, .threads = WARPS * 32};
    const bool apart = m->columns <= APART; /* a block makes a row, not a warp */
    if (g->own) {
        const uint32_t at_once = apart ? 1 : MADE_ROWS;
        alt->scratch = at_once * (g->k * 2 + 16);
        alt->per_sm = MAKERS;
        alt->per_block = at_once * (uint32_t)(g->k / 8);
        if (!apart) alt->threads = MADE_ROWS * 32;
        RP_TRY(put_own(L, g, name, apart ? WARPS * 32 : 32));
    }
    target_cuda_head(L, name, alt->threads, 0, "");
    put_rows(L, rows);
    base_buf_puts(b, "    (void)items, (void)arg, (void)dim;\n");
    if (g->own && apart)
        base_buf_printf(b,
                        "    rk_make_rows_apart<%s_rows, %" PRId64 ", %" PRId64
                        ">(arg, dim, a1, rows);\n}\n",
                        name, g->k, m->columns);
    else if (g->own)
        base_buf_printf(
            b, "    rk_make_rows<%s_rows, %" PRId64 ", %" PRId64 ", %d>(arg, dim, a1, rows);\n}\n",
            name, g->k, m->columns, MADE_ROWS);
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
    const ir_dim bytes = target_arranged_bytes(L, rows, k);
    if (bytes == IR_DIM_BAD)
        return rp_fail(L->err, RP_UNSUPPORTED, "arranged rows of %s take more than 2^63 bytes",
                       base);
    *out = (lower_ref){.seg = LOWER_TEMP, .idx = L->out->n_temps};
    L->out->temps[L->out->n_temps++].bytes =
        ir_dim_import(L->out->dims, ir_graph_dims(L->g), bytes);
    return RP_OK;
}

/* The launch that arranges rows x where they are too many for put_few, else nothing runs; *x becomes where they then are. */
static rp_status arrange_rows(lowerer *L, const pass_group *gr, const char *base, const group *g,
                              const many *list, uint32_t n, lower_ref *x) {
    const ir_dim rows = lower_flat_rows(L, ir_node_at(L->g, gr->lhs));
    lower_ref to;
    const int64_t k = g->k, most = target_few_rows(g->k);
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
    lower_write_args(L, 1);
    if (g->own) target_rows_args(L, g->own); /* of all classes */
    made.alts[made.n_alts++] = (lower_alt){.max = g->own ? 1 : most};
    if (g->apart) {
        const many apart_rows = {.most = most, .columns = 1};
        RP_TRY(put_arrange(L, base, rows, g, &apart_rows, &made.alts[made.n_alts++]));
    }
    for (uint32_t i = 0; i < n; i++) {
        if (i && list[i].columns == list[i - 1].columns)
            made.alts[made.n_alts - 1].max = list[i].most;
        else if (!shares_alt(&made, arrange_name(L, base, &list[i]), list[i].most))
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
    target_rotary *of;
    RP_TRY(target_rotary_find(L, gr, &of));
    g->rotary = of != NULL;
    for (uint32_t i = 0; of && i < g->n_parts; i++)
        g->parts[i].rotary = &of[g->parts[i].s - gr->segs];
    return RP_OK;
}

/* What a tuner may choose, of the kernel of the class that it measures. */
static void offer_tiles(const lowerer *L, const lower_launch *l, const group *g, const many *list,
                        uint32_t n) {
    uint16_t heights[LOWER_MAX_TILES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t n_heights = list[i].measured ? target_many_heights(g, &list[i], heights) : 0;
        const char *symbol = l->alts[l->n_alts - n + i].symbol;
        for (uint32_t k = 0; n_heights > 1 && k < L->out->n_kernels; k++) {
            lower_kernel *of = &L->out->kernels[k];
            if (strcmp(of->name, symbol) != 0) continue;
            of->may = LOWER_MAY(ROWS);
            of->own_rows = list[i].columns;
            of->n_tiles = n_heights;
            memcpy(of->tiles, heights, sizeof heights);
        }
    }
}

rp_status target_tensor_group(lowerer *L, const lower_matmul *m) {
    const pass_group *gr = m->gr;
    const char *name = m->name;
    ir_dims *t = ir_graph_dims(L->g);
    const ir_node *lhs = ir_node_at(L->g, gr->lhs);
    many list[TARGET_N_MANYS];
    uint32_t n_many;
    group g;
    lower_launch made = {.name = name, .grain = 1, .threads = WARPS * 32, .per_block = 1};
    RP_TRY(target_tensor_find_parts(L, gr, &g));
    lower_ref from = m->operand[0];
    g.x = target_rows_unrounded(L, gr->lhs, &from) ? RP_DTYPE_F32 : m->f.x;
    g.own = target_rows_of(L, gr->lhs);
    g.gathered = target_rows_gathered(L, gr->lhs);
    ir_dim rows = lower_flat_rows(L, lhs);
    const int64_t most = target_few_rows(g.k), units = g.units;
    int64_t least, largest;
    ir_dim_bounds(t, rows, &least, &largest);
    lower_ref arranged = from;
    L->n_args = 0;
    RP_TRY(find_rotary(L, gr, &g));
    RP_TRY(target_tensor_find_direct(L, gr, &g));
    if (g.alone) RP_TRY(target_arranged_find(L, gr, &g.to));
    target_fit_many(&g, list, &n_many, least > most ? least - 1 : most, largest);
    g.apart = g.own && most > 1 && largest > 1 && least <= most;
    if ((n_many || g.apart) && !target_is_arranged(L, gr->lhs))
        RP_TRY(arrange_rows(L, gr, name, &g, list, n_many, &arranged));
    L->args[0] = from;
    L->args[1] = m->operand[1];
    L->args[2] = arranged;
    L->n_args = 3;
    add_gathered_args(L, &g);
    if (least <= 1) RP_TRY(put_few(L, gr, &g, name, rows, 1, &made.alts[made.n_alts++]));
    if (most > 1 && least <= most && largest > 1)
        RP_TRY(put_few(L, gr, &g, name, rows, most, &made.alts[made.n_alts++]));
    for (uint32_t i = 0; i < n_many; i++)
        if (!shares_alt(&made, many_name(L, name, &list[i]), list[i].most))
            RP_TRY(put_many(L, gr, &g, name, rows, &list[i], &made.alts[made.n_alts++]));
    offer_tiles(L, &made, &g, list, n_many);
    made.rows = ir_dim_import(L->out->dims, t, gr->rows);
    ir_dim blocks = ir_dim_floordiv(t, ir_dim_add(t, rows, ir_dim_const(t, TARGET_FEW_ROWS - 1)),
                                    TARGET_FEW_ROWS);
    made.items = ir_dim_import(L->out->dims, t, ir_dim_mul_const(t, blocks, units));
    lower_launch *l = lower_add_launch(L);
    *l = made;
    return lower_take_args(L, l);
}
