/* The pipeline. Lowering is sequential (milliseconds); the host compiler runs for several pieces at once. */
#include "compile/compile.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "cache/key.h"
#include "compile/assemble.h"
#include "pass/pipeline.h"

#define MAX_JOBS 16

typedef struct pipeline {
    const ir_graph *g;
    const compile_options *opt;
    split_result split;
    compile_lowered *lowered; /* by distinct piece */
    compile_stats stats;
    /* code to compile */
    uint32_t *jobs, n_jobs, next_job, done_jobs;
    pthread_mutex_t lock;
    rp_error err;
} pipeline;

/* --- keys ------------------------------------------------------------------- */

static rp_status add_skipped(const pipeline *p, cache_key *k, rp_error *err) {
    base_buf names;
    base_buf_init(&names, 0);
    for (uint32_t i = 0; i < p->opt->n_skip_passes; i++)
        base_buf_printf(&names, "%s,", p->opt->skip_passes[i]);
    rp_status st = base_buf_status(&names, err);
    if (st == RP_OK) st = cache_key_add(k, "skipped", names.data ? names.data : "", err);
    base_buf_done(&names);
    return st;
}

static rp_status code_key(const pipeline *p, const split_piece *sp, base_hash128 *out,
                          rp_error *err) {
    rp_status st = RP_OK;
    char hex[33];
    cache_key *k = cache_key_new();
    base_hash_hex(sp->hash, hex);
    if (!k) return rp_fail(err, RP_NOMEM, "piece key");
    RP_TRY_OUT(cache_key_add(k, "piece", hex, err));
    RP_TRY_OUT(cache_key_add(k, "backend", p->opt->backend->name, err));
    RP_TRY_OUT(cache_key_add(k, "isa", gen_isa_name(p->opt->isa), err));
    RP_TRY_OUT(cache_key_add(
        k, "toolchain", p->opt->toolchain->version ? p->opt->toolchain->version : "none", err));
    RP_TRY_OUT(cache_key_add(k, "sources", compile_source_hash(), err));
    RP_TRY_OUT(cache_key_add(k, "fields", p->opt->key_fields ? p->opt->key_fields : "", err));
    RP_TRY_OUT(cache_key_add(k, "passes", p->opt->passes ? "on" : "off", err));
    RP_TRY_OUT(add_skipped(p, k, err));
    *out = cache_key_hash(k);
out:
    cache_key_free(k);
    return st;
}

/* --- lowering ------------------------------------------------------------------ */

static rp_status lower_optimised(pipeline *p, const split_piece *sp, const lower_options *lo,
                                 lower_piece *out, rp_error *err) {
    ir_graph *opt = NULL;
    if (!p->opt->passes) return p->opt->backend->lower(sp->graph, lo, out, err);
    RP_TRY(pass_run_all(sp->graph, lo->passes, &opt, err));
    rp_status st = p->opt->backend->lower(opt, lo, out, err);
    /* A custom op's launch speaks of nodes of the piece; passes keep effects, but not their numbers. */
    for (uint32_t i = 0; st == RP_OK && i < out->n_launches; i++)
        if (out->launches[i].custom)
            st = pass_find_effect(sp->graph, opt, out->launches[i].node, &out->launches[i].node,
                                  err);
    ir_graph_free(opt);
    return st;
}

static rp_status lower_piece_of(pipeline *p, uint32_t i, rp_error *err) {
    const split_piece *sp = &p->split.pieces[i];
    compile_lowered *low = &p->lowered[i];
    if (sp->distinct != i) return RP_OK;
    const pass_options passes = {p->opt->skip_passes, p->opt->n_skip_passes, p->opt->dump_dir};
    lower_options lo = {.isa = p->opt->isa, .passes = &passes};
    rp_status st = lower_optimised(p, sp, &lo, &low->piece, err);
    RP_TRY(st);
    low->done = true;
    low->isa_bits = GEN_ISA_BIT(p->opt->isa);
    for (uint32_t k = 0; k < low->piece.n_launches; k++)
        if (!low->piece.launches[k].custom && low->piece.launches[k].alts[0].symbol[0] != '@') {
            low->has_code = true;
            p->stats.kernels += low->piece.launches[k].n_alts;
        }
    return low->has_code ? code_key(p, sp, &low->key, err) : RP_OK;
}

static void log_artifact(const pipeline *p, uint32_t i, bool hit) {
    const split_piece *sp = &p->split.pieces[i];
    char hex[33];
    base_hash_hex(p->lowered[i].key, hex);
    if (hit)
        base_log_ch(RP_LOG_CH_CACHE, false,
                    "Directly load the %u-th graph for shape None from %s via handle %s",
                    sp->graph_index, p->opt->backend->name, hex);
    else
        base_log_ch(RP_LOG_CH_CACHE, false,
                    "store the %u-th graph for shape None from %s via handle %s", sp->graph_index,
                    p->opt->backend->name, hex);
}

/* For people: a cache that cannot take it costs them a file, not the run. */
static void keep_source(const pipeline *p, const compile_lowered *low) {
    rp_error err = {0};
    if (cache_put_text(p->opt->store, low->key, "piece.c", low->piece.source, &err) != RP_OK)
        base_log(RP_LOG_WARNING, "source not kept: %s", err.text);
}

static rp_status find_missing(pipeline *p, rp_error *err) {
    for (uint32_t i = 0; i < p->split.n_pieces; i++) {
        char *path = NULL;
        rp_error miss = {0};
        if (!p->lowered[i].done || !p->lowered[i].has_code) continue;
        if (p->opt->keep_sources) keep_source(p, &p->lowered[i]);
        if (base_log_on(RP_LOG_CH_OUTPUT_CODE, false))
            base_log_ch(RP_LOG_CH_OUTPUT_CODE, false, "%s", p->lowered[i].piece.source);
        rp_status st =
            cache_get_code(p->opt->store, p->lowered[i].key, p->lowered[i].isa_bits, &path, &miss);
        base_free(path);
        if (st == RP_OK) {
            p->stats.cache_hits++;
            log_artifact(p, i, true);
        } else if (st == RP_NOT_FOUND) {
            p->jobs[p->n_jobs++] = i;
        } else {
            return rp_fail(err, st, "%s", miss.text);
        }
    }
    return RP_OK;
}

/* --- compiling -------------------------------------------------------------------- */

static void *compile_worker(void *arg) {
    pipeline *p = arg;
    for (;;) {
        rp_error err = {0};
        pthread_mutex_lock(&p->lock);
        uint32_t job = p->err.code == RP_OK && p->next_job < p->n_jobs ? p->jobs[p->next_job++]
                                                                       : UINT32_MAX;
        pthread_mutex_unlock(&p->lock);
        if (job == UINT32_MAX) return NULL;
        const compile_lowered *low = &p->lowered[job];
        rp_status st = compile_toolchain_run(p->opt->toolchain, low->piece.source, p->opt->isa,
                                             low->key, p->opt->store, &err);
        pthread_mutex_lock(&p->lock);
        if (st != RP_OK)
            (void)rp_fail(&p->err, st, "%s", err.text);
        else
            log_artifact(p, job, false);
        p->done_jobs++;
        p->stats.compiles++;
        if (p->opt->progress) p->opt->progress(p->opt->user, p->done_jobs, p->n_jobs);
        pthread_mutex_unlock(&p->lock);
    }
}

static rp_status compile_missing(pipeline *p, rp_error *err) {
    pthread_t threads[MAX_JOBS];
    uint32_t n = p->opt->threads < 1 ? 1 : p->opt->threads, started = 0;
    if (n > p->n_jobs) n = p->n_jobs;
    if (n > MAX_JOBS) n = MAX_JOBS;
    if (p->n_jobs == 0) return RP_OK;
    if (pthread_mutex_init(&p->lock, NULL) != 0) return rp_fail(err, RP_NOMEM, "compile lock");
    /* The calling thread works too; a thread that cannot be started is one less. */
    while (started + 1 < n && pthread_create(&threads[started], NULL, compile_worker, p) == 0)
        started++;
    compile_worker(p);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&p->lock);
    return p->err.code == RP_OK ? RP_OK : rp_fail(err, p->err.code, "%s", p->err.text);
}

/* --- the whole ------------------------------------------------------------------------ */

static rp_status run(pipeline *p, plan **out, rp_error *err) {
    int64_t t0 = base_now_ns();
    RP_TRY(split_graph(p->g, p->opt->splitting_ops, p->opt->n_splitting_ops, &p->split, err));
    uint32_t n = p->split.n_pieces;
    p->lowered = base_alloc_array(n + 1u, sizeof *p->lowered);
    p->jobs = base_alloc_array(n + 1u, sizeof *p->jobs);
    if (!p->lowered || !p->jobs) return rp_fail(err, RP_NOMEM, "%u pieces", n);
    for (uint32_t i = 0; i < n; i++) RP_TRY(lower_piece_of(p, i, err));
    p->stats.pieces = n;
    p->stats.compiled = p->split.n_compiled;
    p->stats.distinct = p->split.n_distinct;
    p->stats.lower_ms = (double)(base_now_ns() - t0) / 1e6;
    t0 = base_now_ns();
    if (p->opt->backend->needs_compiler) {
        RP_TRY(find_missing(p, err));
        RP_TRY(compile_missing(p, err));
    }
    p->stats.compile_ms = (double)(base_now_ns() - t0) / 1e6;
    return compile_assemble(p->g, &p->split, p->lowered, out, err);
}

rp_status compile_graph(const ir_graph *g, const compile_options *opt, plan **out,
                        compile_stats *stats, rp_error *err) {
    pipeline p = {.g = g, .opt = opt};
    rp_status st = run(&p, out, err);
    if (st == RP_OK && stats) *stats = p.stats;
    for (uint32_t i = 0; p.lowered && i < p.split.n_pieces; i++) lower_done(&p.lowered[i].piece);
    base_free(p.lowered);
    base_free(p.jobs);
    split_done(&p.split);
    return st;
}
