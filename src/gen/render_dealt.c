/* Reductions whose elements are dealt to the threads of a team, as CUDA C.
 *
 * Float sums have an order, that of the 16 lanes of the host: threads exchange what they have, so that a lane is summed by one of them, or,
 * where there are chunks enough, every chunk is half a warp's from its loads on. What has no order each thread joins by itself first. */
#include "gen/render_cuda.h"

#include <inttypes.h>
#include <stdio.h>

#define RK_BLOCK 1024  /* of prelude_cuda.h */
#define LEAST_CHAIN 64 /* sums of chunks that are worth it to look whether they have an order */
#define LANES 16       /* of a float sum */

/* Open: `c` counts rounds, each thread has element i<at> if that is below the extent. */
static void open_rounds(gen_render *r, kir_ref at, const char *n) {
    gen_open(r, "for (long long c%u = 0; c%u < %s; c%u += %s)", at, at, n, at,
             gen_cuda_team_size(r, at));
    gen_line(r, "const long long i%u = c%u + %s;", at, at, gen_cuda_own(r, at));
}

/* Of a thread: so many loads on their way, `threads` elements apart, from its own on; what an element past the end is. */
typedef struct loads {
    const char *start, *own;
    int rounds;
    unsigned threads;
} loads;

static bool stores_inside(const gen_render *r, kir_ref at, kir_ref end) {
    for (; at < end; at++)
        if (r->f->insts[at].op == KIR_STORE) return true;
    return false;
}

/* Whether all rounds of `each` elements are whole. */
static bool is_whole(const gen_render *r, kir_ref at, int64_t each) {
    int64_t n = 0;
    return kir_const_value(r->f, r->f->insts[at].in[0], &n) && each > 0 && n % each == 0;
}

/* Elements of all rounds at once, loaded into e<at>: of round u number c<at> + u * `threads` + `own`. Those past the end are `start`; the last
 * one is loaded in their place, since the loads around a branch would wait for each other. */
static void put_loads(gen_render *r, kir_ref at, kir_ref end, const char *n, const loads *l) {
    char v[GEN_NAME_SIZE];

    gen_text(r, r->f->insts[end].in[0], v, sizeof v);
    gen_line(r, "%s e%u[%d];", gen_class_type(r->f->insts[r->f->insts[end].in[0]].cls), at,
             l->rounds);
    gen_line(r, "#pragma unroll");
    gen_open(r, "for (int u%u = 0; u%u < %d; u%u++)", at, at, l->rounds, at);
    if (is_whole(r, at, (int64_t)l->rounds * l->threads)) {
        gen_line(r, "const long long i%u = c%u + u%u * %u + %s;", at, at, at, l->threads, l->own);
        gen_alone(r, at + 1, end);
        gen_line(r, "e%u[u%u] = %s;", at, at, v);
    } else if (stores_inside(r, at, end)) {
        gen_line(r, "const long long i%u = c%u + u%u * %u + %s;", at, at, at, l->threads, l->own);
        gen_line(r, "e%u[u%u] = %s;", at, at, l->start);
        gen_open(r, "if (i%u < %s)", at, n);
        gen_alone(r, at + 1, end);
        gen_line(r, "e%u[u%u] = %s;", at, at, v);
        gen_close(r);
    } else {
        gen_line(r, "const long long j%u = c%u + u%u * %u + %s;", at, at, at, l->threads, l->own);
        gen_line(r, "const long long i%u = j%u < %s ? j%u : %s - 1;", at, at, n, at, n);
        gen_alone(r, at + 1, end);
        gen_line(r, "e%u[u%u] = j%u < %s ? %s : %s;", at, at, at, n, v, l->start);
    }
    gen_close(r);
}

static void put_rounds_argmax(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const int rounds = r->s->steps[at].rounds;
    const kir_class cls = r->f->insts[r->f->insts[end].in[0]].cls;
    const char *type = gen_class_type(cls);
    const unsigned threads = r->s->launch.threads;
    const loads l = {gen_neutral(KIR_ARGMAX, cls), "threadIdx.x", rounds, threads};

    gen_line(r, "rk_best<%s> a%u = {0, -1};", type, at);
    gen_open(r, "for (long long c%u = 0; c%u < %s; c%u += %d)", at, at, n, at,
             rounds * (int)threads);
    put_loads(r, at, end, n, &l);
    gen_line(r, "#pragma unroll");
    gen_open(r, "for (int u%u = 0; u%u < %d; u%u++)", at, at, rounds, at);
    gen_line(r, "const rk_best<%s> b%u = {e%u[u%u], c%u + u%u * %u + threadIdx.x};", type, at, at,
             at, at, at, threads);
    gen_line(r, "if (b%u.at < %s) a%u = rk_better(a%u, b%u);", at, n, at, at, at);
    gen_close(r);
    gen_close(r);
    gen_line(r, "a%u = rk_block_best(a%u);", at, at);
    gen_line(r, "v%u = a%u.at < 0 ? 0 : (rp_i32)a%u.at;", end, at, at);
}

static void put_dealt_argmax(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    const char *type = gen_class_type(r->f->insts[value].cls);
    char v[GEN_NAME_SIZE];

    gen_text(r, value, v, sizeof v);
    gen_line(r, "rk_best<%s> a%u = {0, -1};", type, at);
    open_rounds(r, at, n);
    gen_open(r, "if (i%u < %s)", at, n);
    gen_alone(r, at + 1, end);
    gen_line(r, "const rk_best<%s> e%u = {%s, i%u};", type, at, v, at);
    gen_line(r, "a%u = rk_better(a%u, e%u);", at, at, at);
    gen_close(r);
    gen_close(r);
    gen_line(r, "a%u = rk_%s_best(a%u);", at, gen_cuda_team_name(r, at), at);
    gen_line(r, "v%u = a%u.at < 0 ? 0 : (rp_i32)a%u.at;", end, at, at);
}

/* Of an item in another kernel the threads are known there, of a kernel's own rounds they are those of its launch. */
static uint32_t threads_at_once(const gen_render *r, kir_ref at) {
    return r->threads ? r->threads : r->s->steps[at].rounds ? r->s->launch.threads : 0;
}

/* Where a chunk ends, which it does with a round (sched_verify), another begins. */
static void put_chunk(gen_render *r, kir_ref at, const char *start) {
    gen_open(r, "if (c%u && c%u %% %d == 0)", at, at, KIR_CHUNK);
    gen_line(r, "t%u += (double)rk_%s_end<RK_SUM>(a%u);", at, gen_cuda_team_name(r, at), at);
    gen_line(r, "a%u = %s;", at, start);
    gen_close(r);
}

static void put_chunks_end(gen_render *r, kir_ref at, kir_ref end, const char *type) {
    gen_line(r, "v%u = (%s)(t%u + (double)rk_%s_end<RK_SUM>(a%u));", end, type, at,
             gen_cuda_team_name(r, at), at);
}

/* Rounds of a known number of threads: all that they load is asked for before the first sum. */
static void put_rounds_at_once(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_class cls = r->f->insts[r->f->insts[end].in[0]].cls;
    const char *type = gen_class_type(cls), *how = gen_cuda_how(r->f->insts[at].u.reduce);
    const uint32_t own = r->s->steps[at].rounds, threads = threads_at_once(r, at);
    const int rounds = r->threads || !own ? gen_cuda_rounds(r) : (int)own;
    const loads l = {gen_neutral(r->f->insts[at].u.reduce, cls), gen_cuda_own(r, at), rounds,
                     threads};

    const bool chunks = r->s->steps[at].chunks;
    gen_line(r, "%s a%u = %s;", type, at, l.start);
    if (chunks) gen_line(r, "double t%u = 0.0;", at);
    gen_open(r, "for (long long c%u = 0; c%u < %s; c%u += %u)", at, at, n, at,
             threads * (uint32_t)rounds);
    if (chunks) put_chunk(r, at, l.start);
    put_loads(r, at, end, n, &l);
    if (r->warp)
        gen_line(r, "a%u = rk_warp_rounds<%s, %d>(a%u, e%u, %s - c%u);", at, how, rounds, at, at, n,
                 at);
    else
        gen_line(r, "a%u = rk_block_rounds<%s, %d, %u>(a%u, e%u, %s - c%u);", at, how, rounds,
                 threads, at, at, n, at);
    gen_close(r);
    if (chunks)
        put_chunks_end(r, at, end, type);
    else
        gen_line(r, "v%u = rk_%s_end<%s>(a%u);", end, gen_cuda_team_name(r, at), how, at);
}

/* o<at> and m<at>: the chunk, from h<at> on, of the half of a warp. */
static void put_own_chunk(gen_render *r, kir_ref at, const char *n) {
    gen_line(
        r,
        "const long long o%u = h%u + threadIdx.x / %d * %d, m%u = o%u + %d < %s ? o%u + %d : %s;",
        at, at, LANES, KIR_CHUNK, at, at, KIR_CHUNK, n, at, KIR_CHUNK, n);
}

/* Each half of a warp sums a chunk of its own, whose lanes are its threads; their sums are joined in order, so many at a time. */
static void put_halves(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const kir_class cls = r->f->insts[r->f->insts[end].in[0]].cls;
    const char *type = gen_class_type(cls);
    const unsigned halves = r->s->launch.threads / LANES;
    const int rounds = r->s->steps[at].rounds;
    const loads l = {gen_neutral(KIR_SUM, cls), "rk_half_lane()", rounds, LANES};

    gen_line(r, "double t%u = 0.0;", at);
    gen_open(r, "for (long long h%u = 0; h%u < %s; h%u += %d)", at, at, n, at,
             (int)halves * KIR_CHUNK);
    put_own_chunk(r, at, n);
    gen_line(r, "%s a%u = %s;", type, at, l.start);
    gen_open(r, "for (long long c%u = o%u; c%u < m%u; c%u += %d)", at, at, at, at, at,
             rounds * LANES);
    put_loads(r, at, end, n, &l);
    gen_line(r, "#pragma unroll");
    gen_line(r, "for (int u%u = 0; u%u < %d; u%u++) a%u += e%u[u%u];", at, at, rounds, at, at, at,
             at);
    gen_close(r);
    gen_line(r, "t%u = rk_block_halves<%u>(t%u, a%u, %s - h%u);", at, halves, at, at, n, at);
    gen_close(r);
    gen_line(r, "v%u = (%s)t%u;", end, type, at);
}

/* As a sum in halves, but from the end on: that sum reads next what was read last. */
static void open_backwards(gen_render *r, kir_ref at, const char *n, int rounds) {
    const int all = (int)(r->s->launch.threads / LANES) * KIR_CHUNK;
    gen_open(r, "for (long long h%u = (%s - 1) / %d * %d; h%u >= 0; h%u -= %d)", at, n, all, all,
             at, at, all);
    put_own_chunk(r, at, n);
    gen_open(r, "for (long long c%u = o%u + %d; c%u >= o%u; c%u -= %d)", at, at,
             KIR_CHUNK - rounds * LANES, at, at, at, rounds * LANES);
    gen_line(r, "if (c%u >= m%u) continue;", at, at);
}

/* Maxima, minima and what integers have: no order, but for which of two zeros, or of two NaNs, it is; those are looked for again. */
static void put_any_order(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const kir_class cls = r->f->insts[r->f->insts[end].in[0]].cls;
    const char *type = gen_class_type(cls), *how = gen_cuda_how(r->f->insts[at].u.reduce);
    const unsigned threads = r->s->launch.threads;
    const int rounds = r->s->steps[at].rounds;
    const bool halves = r->s->steps[at].halves;
    const loads l = {gen_neutral(r->f->insts[at].u.reduce, cls),
                     halves ? "rk_half_lane()" : "threadIdx.x", rounds, halves ? LANES : threads};

    gen_line(r, "{");
    r->depth++;
    gen_line(r, "%s a%u = %s;", type, at, l.start);
    if (halves)
        open_backwards(r, at, n, rounds);
    else
        gen_open(r, "for (long long c%u = 0; c%u < %s; c%u += %u)", at, at, n, at,
                 threads * (unsigned)rounds);
    put_loads(r, at, end, n, &l);
    gen_line(r, "a%u = rk_join<%s>(a%u, rk_in_pairs<%s, %d>::of(e%u));", at, how, at, how, rounds,
             at);
    gen_close(r);
    if (halves) gen_close(r);
    gen_line(r, "v%u = rk_block_any<%s, %u>(a%u);", end, how, threads, at);
    gen_close(r);
    if (kir_is_int(cls)) return;
    gen_open(r, "if (v%u == 0 || v%u != v%u)", end, end, end);
    put_rounds_at_once(r, at, end, n);
    gen_close(r);
}

/* Whether a kernel's own rounds need not exchange elements. */
static bool is_any_order(const gen_render *r, kir_ref at, kir_ref end) {
    const bool sum = r->f->insts[at].u.reduce == KIR_SUM;
    return !r->threads && r->s->steps[at].rounds &&
           (!sum || kir_is_int(r->f->insts[r->f->insts[end].in[0]].cls)) &&
           !stores_inside(r, at, end);
}

/* Chunks end inside of the rounds of another kernel, and a product is one chain. Threads that do not divide RK_BLOCK, such as 768, would
 * leave a part of the memory that they share unused. */
static bool goes_at_once(const gen_render *r, kir_ref at) {
    const uint32_t threads = threads_at_once(r, at);
    const kir_reduce how = r->f->insts[at].u.reduce;
    return threads && RK_BLOCK % threads == 0 && !(r->threads && r->s->steps[at].chunks) &&
           how != KIR_PROD && how != KIR_CHAIN && r->f->ranges[r->f->insts[at].in[0]].hi > threads;
}

static bool may_be_exact(const gen_render *r, kir_ref at, kir_ref end) {
    const kir_inst *in = &r->f->insts[at];
    return in->u.reduce == KIR_CHAIN && r->f->insts[end].cls == KIR_F32 &&
           !gen_cuda_is_warp(r, at) && r->f->ranges[in->in[0]].hi >= LEAST_CHAIN;
}

/* Opens what is done where the order counts. */
static void put_exact(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    char v[GEN_NAME_SIZE];

    gen_text(r, r->f->insts[end].in[0], v, sizeof v);
    gen_line(r, "rk_span s%u = {256, 0, 0.0};", at);
    gen_open(r, "for (long long i%u = %s; i%u < %s; i%u += %s)", at, gen_cuda_own(r, at), at, n, at,
             gen_cuda_team_size(r, at));
    gen_alone(r, at + 1, end);
    gen_line(r, "rk_span_add(s%u, %s);", at, v);
    gen_close(r);
    gen_line(r, "s%u = rk_block_span(s%u);", at, at);
    gen_line(r, "v%u = (float)s%u.sum;", end, at);
    gen_open(r, "if (!rk_span_exact(s%u, %s))", at, n);
}

static void put_dealt(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    kir_ref value = r->f->insts[end].in[0];
    kir_class cls = r->f->insts[value].cls;
    kir_reduce how = r->f->insts[at].u.reduce;
    const char *type = gen_cuda_sum_type(how, cls), *start = gen_neutral(how, cls);
    char v[GEN_NAME_SIZE];

    bool chunks = r->s->steps[at].chunks;
    const bool exact = may_be_exact(r, at, end);
    gen_text(r, value, v, sizeof v);
    if (exact) put_exact(r, at, end, n);
    gen_line(r, "%s a%u = %s;", type, at, start);
    if (chunks) gen_line(r, "double t%u = 0.0;", at);
    open_rounds(r, at, n);
    if (chunks) put_chunk(r, at, start);
    gen_line(r, "%s e%u = %s;", type, at, start);
    gen_open(r, "if (i%u < %s)", at, n);
    gen_alone(r, at + 1, end);
    gen_line(r, "e%u = %s;", at, v);
    gen_close(r);
    gen_line(r, "a%u = rk_%s_step<%s>(a%u, e%u, %s - c%u);", at, gen_cuda_team_name(r, at),
             gen_cuda_how(how), at, at, n, at);
    gen_close(r);
    if (chunks)
        put_chunks_end(r, at, end, type);
    else if (how == KIR_CHAIN)
        gen_line(r, "v%u = (%s)rk_%s_end<RK_CHAIN>(a%u);", end, gen_class_type(cls),
                 gen_cuda_team_name(r, at), at);
    else
        gen_line(r, "v%u = rk_%s_end<%s>(a%u);", end, gen_cuda_team_name(r, at), gen_cuda_how(how),
                 at);
    if (exact) gen_close(r);
}

void gen_dealt_reduce(gen_render *r, kir_ref at, kir_ref end, const char *n) {
    const sched_step *step = &r->s->steps[at];
    const bool best = r->f->insts[at].u.reduce == KIR_ARGMAX;
    if (best && step->rounds && !r->item)
        put_rounds_argmax(r, at, end, n);
    else if (best)
        put_dealt_argmax(r, at, end, n);
    else if (step->halves && step->chunks && !r->item)
        put_halves(r, at, end, n);
    else if (!goes_at_once(r, at))
        put_dealt(r, at, end, n);
    else if (is_any_order(r, at, end))
        put_any_order(r, at, end, n);
    else
        put_rounds_at_once(r, at, end, n);
}
