/* See decode_many.h. Which jobs are chosen was measured on an H200 for the kernels that lowering makes (target/cuda/tensor_size.c): bench/results/2026-11-23-nvidia-h200-many-rows.md,
 * -shared-jobs.md. */
#include "gen/decode_many.h"

#include <stdio.h>
#include <string.h>

#include "base/embed.h"
#include "gen/exchange.h"

BASE_EMBED(decode_many_cu);
BASE_EMBED(decode_stream_cu);

enum {
    ROWS = GEN_DECODE_MOST,
    TILE = 16,        /* columns */
    UNIT = 32,        /* of each matrix */
    CHUNK = 128,      /* k of a copy */
    SLICES = 4,       /* of k, that are summed apart */
    SHARED_TILES = 6, /* of a job that blocks share */
    CLUSTERS = 24,    /* of more than two blocks that surely run at once */
    WARP = 32,
    WORKERS = 256,    /* threads that multiply, beside warps that fetch: */
    FETCHERS = 2,     /* one for weights, one for rows */
    FETCHERS_ONE = 4, /* where k is one slice */
    SUM_ROW = 132,    /* floats of a row of sums */
    STATIC = 1 << 10, /* bytes of static shared memory: scales, in front of what is aligned */
    STREAM_CELLS = 3, /* of the cache, on their way a warp of attention, at most */
    PER_SM = 2,       /* its blocks on a multiprocessor */
    QUERIES = 8,      /* heads of a kv head, at most: the columns of an instruction */
    NARROW = 64,      /* dims of a head: */
    NARROW_WARPS = 8, /* as many have room as hide what cells take to compute */
    WIDE_WARPS = 4
};

/* Matrices that lie in the packed weights in turns. */
static uint32_t mats_of(uint32_t m) {
    return m == GEN_DECODE_UP ? 2 : 1;
}

static uint32_t units_per_job(const gen_decode_job *j, uint32_t m) {
    return j->tiles * TILE / (UNIT * mats_of(m));
}

static uint32_t count_jobs(const gen_decode_job *j, uint32_t m) {
    return gen_div_up(j->units, units_per_job(j, m));
}

static uint32_t fetchers_of(const gen_decode_job *j) {
    return j->slices == 1 ? FETCHERS_ONE : FETCHERS;
}

/* As BYTES of rk_many_rows. */
static size_t shared_bytes(const gen_decode_job *j) {
    const size_t stage = (size_t)j->tiles * CHUNK * TILE * 2 + (size_t)ROWS * CHUNK * 2;
    return j->stages * (stage + 16) + (j->splits > 1 ? 0 : (size_t)ROWS * SUM_ROW * 4);
}

/* Shared jobs run at once; those that fill no power of two are shared, and of one matrix. */
static bool can_deal(const gen_decode_job *j, uint32_t m, uint32_t n_sm) {
    const uint32_t jobs = count_jobs(j, m);
    if (j->tiles == SHARED_TILES && (mats_of(m) != 1 || j->splits == 1)) return false;
    return j->splits == 1 || (j->slices % j->splits == 0 && jobs * j->splits <= n_sm &&
                              (j->splits == 2 || jobs <= CLUSTERS));
}

/* What the busiest block takes in: columns of weights and rows, of k each. */
static double taken(const gen_decode_job *j, uint32_t m) {
    if (j->parts) {
        const uint32_t mats = mats_of(m), pieces = gen_div_up(j->units * mats, j->parts),
                       jobs = gen_div_up(pieces + mats - 1, units_per_job(j, m) * mats);
        return pieces * UNIT + jobs * ROWS;
    }
    const uint32_t rounds = j->splits > 1 ? 1 : gen_div_up(count_jobs(j, m), j->blocks);
    return (double)(rounds * (j->tiles * TILE + ROWS)) / j->splits;
}

/* Neighbouring units for each block, where that is less for the busiest one than jobs in turns. */
static void deal_parts(gen_decode_job *j, uint32_t m) {
    gen_decode_job parts = *j;
    if (j->splits > 1 || j->slices == 1 || (m != GEN_DECODE_UP && m != GEN_DECODE_LOGITS)) return;
    parts.parts = j->blocks;
    if (taken(&parts, m) < taken(j, m)) *j = parts;
}

static void fit_job(gen_decode *d, uint32_t m, uint32_t n_sm, size_t max_shared) {
    static const uint32_t forms[][2] = {{8, 4}, {SHARED_TILES, 5}, {4, 6}}; /* tiles, stages */
    const uint32_t chunks = gen_div_up(gen_decode_k(d, (gen_decode_kernel)m), CHUNK),
                   slices = gen_div_up(chunks, gen_div_up(chunks, SLICES)),
                   most = m == GEN_DECODE_LOGITS ? 1 : slices; /* the largest are of whole sums */
    gen_decode_job best = {0};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (uint32_t splits = 1; splits <= most; splits++) {
            gen_decode_job j = {
                .units = gen_div_up(gen_decode_columns(d, (gen_decode_kernel)m) / mats_of(m), UNIT),
                .tiles = forms[i][0],
                .stages = forms[i][1],
                .slices = slices,
                .splits = splits};
            if (!can_deal(&j, m, n_sm) || shared_bytes(&j) + STATIC > max_shared) continue;
            const uint32_t jobs = count_jobs(&j, m);
            j.blocks = splits > 1 ? jobs * splits : jobs < n_sm ? jobs : n_sm;
            deal_parts(&j, m);
            if (!best.units || taken(&j, m) < taken(&best, m)) best = j;
        }
    d->job[m] = best;
}

/* Static shared memory of an attention block: warps' results, those of the block, barriers. */
static size_t joined_bytes(const gen_decode *d) {
    const uint32_t wide = gen_step_padded_queries(&d->s);
    return ((size_t)d->attention.warps + 1) * wide * (d->s.head_dim * 4 + 8) +
           (size_t)d->attention.warps * STREAM_CELLS * 8 + 64;
}

static size_t ring_bytes(const gen_decode *d) {
    return (size_t)d->attention.warps * d->cells * 64 * d->s.head_dim;
}

rp_status gen_decode_many_fit(gen_decode *d, uint32_t n_sm, size_t max_shared, rp_error *err) {
    if (d->s.heads / d->s.kv_heads > QUERIES)
        return rp_fail(err, RP_UNSUPPORTED,
                       "decode step of %u sequences: %u heads share a kv head; %d are possible",
                       d->most, d->s.heads / d->s.kv_heads, QUERIES);
    d->attention = (gen_step_attention){
        .splits = 1, .warps = d->s.head_dim <= NARROW ? NARROW_WARPS : WIDE_WARPS};
    d->attention_blocks = n_sm * PER_SM;
    for (d->cells = STREAM_CELLS;
         d->cells && ring_bytes(d) + joined_bytes(d) > max_shared / PER_SM - 1024;)
        d->cells--;
    for (uint32_t m = 0; m < GEN_DECODE_MATRICES_; m++) {
        fit_job(d, m, n_sm, max_shared);
        if (!d->job[m].units || !d->cells)
            return rp_fail(err, RP_UNSUPPORTED,
                           "decode step of %u sequences: a block may have %zu bytes of shared "
                           "memory, which are too few",
                           d->most, max_shared);
    }
    return RP_OK;
}

gen_decode_launch gen_decode_many_launch(const gen_decode *d, gen_decode_kernel k) {
    if (k == GEN_DECODE_LARGEST) return (gen_decode_launch){1, WARP, 0};
    if (k == GEN_DECODE_EMBED || k == GEN_DECODE_GATHER) return (gen_decode_launch){1, WORKERS, 0};
    if (k >= GEN_DECODE_MATRICES_)
        return (gen_decode_launch){d->attention_blocks, d->attention.warps * WARP, ring_bytes(d)};
    const gen_decode_job *j = &d->job[k];
    return (gen_decode_launch){j->blocks, WORKERS + fetchers_of(j) * WARP, shared_bytes(j)};
}

/* ---- text ---------------------------------------------------------------------------------------- */

/* A matrix: its epilogue, which of the kernel's addresses that gets, where its rows are. */
typedef struct product {
    gen_decode_kernel k;
    char epilogue[96];
    const char *args, *rows;
} product;

static void put_product(const gen_decode *d, const product *p, base_buf *out) {
    const gen_decode_job *j = &d->job[p->k];
    char name[GEN_DECODE_NAME];
    gen_decode_name(d, p->k, name);
    base_buf_printf(out,
                    "typedef rk_many_product<rk_many_rows<%u, %u, %d, %d, %u, %u, RK_BLOCKS(%u), "
                    "%d, %d, %u, %u>, "
                    "%s, %u, %u, %u> %s_product;\n"
                    "static_assert(%s_product::tile::BYTES == %zu, \"shared memory\");\n",
                    gen_decode_k(d, p->k), j->tiles, ROWS, CHUNK, j->stages, j->slices, j->splits,
                    ROWS, j->splits > 1, d->most, fetchers_of(j), p->epilogue, j->units,
                    units_per_job(j, p->k), j->parts, name, name, shared_bytes(j));
    gen_decode_head(d, p->k, 1, j->splits > 1 ? j->splits : 0, out);
    base_buf_puts(out, "    rk_launch_dependents();\n");
    base_buf_printf(out,
                    "    char *const arg[] = {%s};\n    const long long dim[] = {d0};\n    "
                    "rk_run_many<%s_product>(arg, dim, %s, a0, d0);\n}\n",
                    p->args, name, p->rows);
}

static void put_matrices(const gen_decode *d, base_buf *out) {
    const gen_step *s = &d->s;
    uint32_t eps;
    memcpy(&eps, &s->eps, sizeof eps);
    product all[] = {
        {GEN_DECODE_QKV, "", "a3, a4, a5, a6, a7, a8, a9, a10", "a1"},
        {GEN_DECODE_BEGIN, "", "a3, a4, a5, a6, a7, a8, a9, a13", "a12"},
        {GEN_DECODE_O, "", "a2, a2, a3, a4, a5", "a1"},
        {GEN_DECODE_UP, "", "a3, a4", "a1"},
        {GEN_DECODE_DOWN, "", "a2, a2, a3, a4, a5", "a1"},
        {GEN_DECODE_FIRST, "", "a3, a4, a5, a6, a7, a2", "a8"},
        {GEN_DECODE_LOGITS, "", "a3, a4, a5, a6", "a1"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *to = all[i].epilogue;
        const size_t n = sizeof all[i].epilogue;
        switch (all[i].k) {
        case GEN_DECODE_QKV:
        case GEN_DECODE_BEGIN:
            (void)snprintf(to, n, "rk_many_qkv<%u, %u, %u, %u, 0x%xu>", s->heads, s->kv_heads,
                           s->head_dim, s->hidden, eps);
            break;
        case GEN_DECODE_UP:
            (void)snprintf(to, n, "rk_many_gate<%u, %u, 0x%xu>", s->ffn, s->hidden, eps);
            break;
        case GEN_DECODE_LOGITS:
            (void)snprintf(to, n, "rk_many_logits<%u, %u, 0x%xu, %u, %u, %d>", s->vocab, s->hidden,
                           eps, d->job[GEN_DECODE_LOGITS].tiles * TILE,
                           d->job[GEN_DECODE_LOGITS].blocks, GEN_EXCHANGE_UNREAD);
            break;
        default:
            (void)snprintf(to, n, "rk_many_residual<%u, %s>", s->hidden,
                           all[i].k == GEN_DECODE_FIRST ? "true" : "false");
        }
        put_product(d, &all[i], out);
    }
}

static void put_attention(const gen_decode *d, gen_decode_kernel k, base_buf *out) {
    const gen_step *s = &d->s;
    gen_decode_head(d, k, PER_SM, 0, out);
    gen_decode_put_out(d, k, out);
    base_buf_printf(out,
                    "    (void)d2;\n    typedef rk_decode_stream<%u, %u, %u, %u, %u> A;\n"
                    "    static_assert(A::BYTES == %zu, \"shared memory\");\n"
                    "    __shared__ A::room r;\n"
                    "    A::run(r, a0, a1, a2, a3, a4, a5, out, d1, d0 * %u, %.9ef);\n}\n",
                    s->heads, s->kv_heads, s->head_dim, d->attention.warps, d->cells, ring_bytes(d),
                    s->kv_heads, gen_decode_score_scale(d));
}

rp_status gen_decode_many_text(const gen_decode *d, base_buf *out, rp_error *err) {
    base_buf_add(out, rp_embed_decode_stream_cu, rp_embed_decode_stream_cu_size);
    base_buf_add(out, rp_embed_decode_many_cu, rp_embed_decode_many_cu_size);
    put_matrices(d, out);
    put_attention(d, GEN_DECODE_ATTENTION, out);
    put_attention(d, GEN_DECODE_LAST, out);
    gen_decode_head(d, GEN_DECODE_EMBED, 1, 0, out);
    base_buf_printf(out,
                    "    char *const arg[] = {a0, a1, a2, a3, a4, a5};\n    rk_many_embed<%u, "
                    "%u>(arg, (int)d0);\n}\n",
                    d->s.hidden, d->s.vocab);
    gen_decode_head(d, GEN_DECODE_GATHER, 1, 0, out);
    base_buf_printf(out,
                    "    char *const arg[] = {a0, a1, a2};\n    rk_many_gather<%u>(arg, "
                    "(int)d0);\n}\n",
                    d->s.heads * d->s.head_dim);
    gen_decode_head(d, GEN_DECODE_LARGEST, 1, 0, out);
    base_buf_printf(
        out, "    char *const arg[] = {a0, a1, a2};\n    rk_many_largest<%u>(arg, (int)d0);\n}\n",
        d->job[GEN_DECODE_LOGITS].blocks);
    return base_buf_status(out, err);
}
