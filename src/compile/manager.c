/* Lowering is sequential (milliseconds), so logs and dumps have one order; the compiler works for several pieces
 * at once. Nothing that is made depends on the order of jobs or the number of threads. */
#include "compile/manager.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "cache/key.h"
#include "compile/dump.h"
#include "pass/pipeline.h"

#define MAX_THREADS 16

struct compile_manager {
    const compile_options *opt;
    compile_host host;
    char machine[BASE_MACHINE_SIZE];
    base_hash128 compiler; /* compute_hash of the compiler */
    compile_entry *entries;
    uint32_t n_entries, cap_entries;
    uint32_t *jobs, n_jobs; /* entries without code yet */
    /* shared by the threads of one run */
    uint32_t next_job, n_code, done_code;
    pthread_mutex_t lock;
    rp_error err;
};

/* --- keys ------------------------------------------------------------------- */

static rp_status add_skipped(const compile_options *opt, cache_key *k, rp_error *err) {
    base_buf names;
    base_buf_init(&names, 0);
    for (uint32_t i = 0; i < opt->n_skip_passes; i++)
        base_buf_printf(&names, "%s,", opt->skip_passes[i]);
    rp_status st = base_buf_status(&names, err);
    if (st == RP_OK) st = cache_key_add(k, "skipped", names.data ? names.data : "", err);
    base_buf_done(&names);
    return st;
}

static rp_status entry_key(const compile_manager *m, const split_piece *sp, const char *range,
                           base_hash128 *out, rp_error *err) {
    const compile_options *opt = m->opt;
    rp_status st = RP_OK;
    char hex[33];
    cache_key *k = cache_key_new();
    if (!k) return rp_fail(err, RP_NOMEM, "piece key");
    RP_TRY_OUT(cache_key_add(k, "range", range, err));
    base_hash_hex(sp->hash, hex);
    RP_TRY_OUT(cache_key_add(k, "piece", hex, err));
    RP_TRY_OUT(cache_key_add(k, "backend", opt->backend->name, err));
    base_hash_hex(m->compiler, hex);
    RP_TRY_OUT(cache_key_add(k, "compiler", hex, err));
    RP_TRY_OUT(cache_key_add(k, "fields", opt->key_fields ? opt->key_fields : "", err));
    RP_TRY_OUT(cache_key_add(k, "passes", opt->passes ? "on" : "off", err));
    RP_TRY_OUT(add_skipped(opt, k, err));
    *out = cache_key_hash(k);
out:
    cache_key_free(k);
    return st;
}

/* --- lowering ------------------------------------------------------------------ */

static rp_status lower_optimised(const compile_options *opt, const split_piece *sp,
                                 lower_piece *out, rp_error *err) {
    const pass_options passes = {.skip = opt->skip_passes, .n_skip = opt->n_skip_passes};
    const lower_options lo = {.isa = opt->isa, .passes = &passes};
    ir_graph *g = NULL;
    if (!opt->passes) return opt->backend->lower(sp->graph, &lo, out, err);
    RP_TRY(pass_run_all(sp->graph, &passes, &g, err));
    rp_status st = opt->backend->lower(g, &lo, out, err);
    /* A custom op's launch speaks of nodes of the piece; passes keep effects, but not their numbers. */
    for (uint32_t i = 0; st == RP_OK && i < out->n_launches; i++)
        if (out->launches[i].custom)
            st = pass_find_effect(sp->graph, g, out->launches[i].node, &out->launches[i].node, err);
    ir_graph_free(g);
    return st;
}

static uint32_t count_kernels(const lower_piece *p) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n_launches; k++)
        if (!p->launches[k].custom && p->launches[k].alts[0].symbol[0] != '@')
            n += p->launches[k].n_alts;
    return n;
}

static rp_status reserve(compile_manager *m, rp_error *err) {
    if (m->n_entries < m->cap_entries) return RP_OK;
    uint32_t cap = m->cap_entries ? m->cap_entries * 2 : 16;
    compile_entry *entries = base_alloc_array(cap, sizeof *entries);
    if (!entries) return rp_fail(err, RP_NOMEM, "%u pieces", cap);
    for (uint32_t i = 0; i < m->n_entries; i++) entries[i] = m->entries[i];
    base_free(m->entries);
    m->entries = entries;
    m->cap_entries = cap;
    return RP_OK;
}

static bool same_key(base_hash128 a, base_hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

rp_status compile_manager_add(compile_manager *m, const split_piece *sp, uint32_t *entry,
                              bool *added, rp_error *err) {
    compile_entry e = {.piece = sp, .range = COMPILE_RANGE_GENERAL};
    RP_TRY(reserve(m, err));
    RP_TRY(entry_key(m, sp, e.range, &e.key, err));
    *added = false;
    for (*entry = 0; *entry < m->n_entries; (*entry)++)
        if (same_key(m->entries[*entry].key, e.key)) return RP_OK;
    int64_t t0 = base_now_ns();
    RP_TRY(lower_optimised(m->opt, sp, &e.lowered, err));
    e.lower_ms = (double)(base_now_ns() - t0) / 1e6;
    e.kernels = count_kernels(&e.lowered);
    compile_log_lowered(sp, &e.lowered, e.lower_ms);
    m->entries[m->n_entries++] = e;
    *added = true;
    return RP_OK;
}

/* --- artifacts ------------------------------------------------------------------ */

static compile_unit unit_of(const compile_entry *e) {
    return (compile_unit){e->piece, &e->lowered, e->kernels, e->key};
}

static void log_artifact(const compile_manager *m, const compile_entry *e, const char *handle) {
    base_log_ch(RP_LOG_CH_CACHE, false,
                e->loaded ? "Directly load the %u-th graph for shape %s from %s via handle %s"
                          : "store the %u-th graph for shape %s from %s via handle %s",
                e->piece->graph_index, e->range, m->opt->backend->name, handle);
}

/* For people: a cache that cannot take it costs them a file, not the run. */
static void keep_source(const compile_manager *m, const compile_entry *e) {
    rp_error err = {0};
    if (cache_put_text(m->host.store, e->key, "piece.c", e->lowered.source, &err) != RP_OK)
        base_log(RP_LOG_WARNING, "source not kept: %s", err.text);
}

static rp_status load_entry(compile_manager *m, compile_entry *e, rp_error *err) {
    const compile_unit u = unit_of(e);
    char *handle = NULL;
    rp_status st = RP_NOT_FOUND;
    if (m->host.store) st = cache_get_text(m->host.store, e->key, "handle", &handle, err);
    if (st == RP_OK) st = m->opt->backend->load(&m->host, &u, handle, &e->code, err);
    if (st == RP_OK) {
        e->loaded = true;
        log_artifact(m, e, handle);
        compile_log_code(e->piece, m->opt, true, 0);
    }
    base_free(handle);
    return st;
}

/* An artifact without its handle is compiled again, no more. */
static void keep_handle(const compile_manager *m, const compile_entry *e, const char *handle) {
    rp_error err = {0};
    if (!m->host.store) return;
    if (cache_put_text(m->host.store, e->key, "handle", handle, &err) != RP_OK)
        base_log(RP_LOG_WARNING, "handle not kept: %s", err.text);
}

static rp_status compile_entry_now(compile_manager *m, compile_entry *e, rp_error *err) {
    const compile_unit u = unit_of(e);
    char *handle = NULL;
    int64_t t0 = base_now_ns();
    rp_status st = m->opt->backend->compile(&m->host, &u, &e->code, &handle, err);
    if (st == RP_OK && e->code.ran)
        compile_log_code(e->piece, m->opt, false, (double)(base_now_ns() - t0) / 1e6);
    if (st == RP_OK && handle) {
        keep_handle(m, e, handle);
        log_artifact(m, e, handle);
    }
    base_free(handle);
    return st;
}

/* Another process may be compiling the same piece, for other settings of the same model, say: one does, the others
 * load. */
static rp_status compile_or_wait(compile_manager *m, compile_entry *e, rp_error *err) {
    const compile_toolchain *t = m->host.toolchain;
    base_lock *lock = NULL;
    bool again = false;
    rp_status st = RP_NOT_FOUND;
    if (e->kernels && m->host.store && t) {
        const cache_lock_options l = {CACHE_CODE, e->key, t->wanted, t->user};
        RP_TRY(cache_lock_take(m->host.store, &l, &lock, &again, err));
    }
    if (again) st = load_entry(m, e, err);
    if (st == RP_NOT_FOUND) st = compile_entry_now(m, e, err);
    base_lock_drop(lock);
    return st;
}

/* --- jobs ----------------------------------------------------------------------------- */

/* By size of the source, which tells the time well enough: the longest is begun first, so that threads end at about
 * the same time. */
static void add_job(compile_manager *m, uint32_t entry) {
    uint32_t at = m->n_jobs++;
    size_t size = strlen(m->entries[entry].lowered.source);
    for (; at > 0 && strlen(m->entries[m->jobs[at - 1]].lowered.source) < size; at--)
        m->jobs[at] = m->jobs[at - 1];
    m->jobs[at] = entry;
    m->n_code += m->entries[entry].kernels > 0;
}

static rp_status find_missing(compile_manager *m, rp_error *err) {
    for (uint32_t i = 0; i < m->n_entries; i++) {
        compile_entry *e = &m->entries[i];
        if (m->opt->keep_sources && e->kernels && m->host.store) keep_source(m, e);
        if (e->kernels && base_log_on(RP_LOG_CH_OUTPUT_CODE, false))
            base_log_ch(RP_LOG_CH_OUTPUT_CODE, false, "%s", e->lowered.source);
        rp_status st = load_entry(m, e, err);
        if (st == RP_NOT_FOUND)
            add_job(m, i);
        else if (st != RP_OK)
            return st;
    }
    return RP_OK;
}

static void *work(void *arg) {
    compile_manager *m = arg;
    for (;;) {
        rp_error err = {0};
        compile_entry *e = NULL;
        pthread_mutex_lock(&m->lock);
        if (m->err.code == RP_OK && m->next_job < m->n_jobs)
            e = &m->entries[m->jobs[m->next_job++]];
        pthread_mutex_unlock(&m->lock);
        if (!e) return NULL;
        rp_status st = compile_or_wait(m, e, &err);
        pthread_mutex_lock(&m->lock);
        if (st != RP_OK) (void)rp_fail(&m->err, st, "%s", err.text);
        if (e->kernels && m->opt->progress)
            m->opt->progress(m->opt->user, ++m->done_code, m->n_code);
        pthread_mutex_unlock(&m->lock);
    }
}

static rp_status work_off(compile_manager *m, rp_error *err) {
    pthread_t threads[MAX_THREADS];
    uint32_t n = m->opt->threads, started = 0;
    if (n > m->n_code) n = m->n_code;
    if (n > MAX_THREADS) n = MAX_THREADS;
    if (pthread_mutex_init(&m->lock, NULL) != 0) return rp_fail(err, RP_NOMEM, "compile lock");
    if (m->n_code && m->opt->progress) m->opt->progress(m->opt->user, 0, m->n_code);
    /* The calling thread works too; a thread that cannot be started is one less. */
    while (started + 1 < n && pthread_create(&threads[started], NULL, work, m) == 0) started++;
    work(m);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&m->lock);
    return m->err.code == RP_OK ? RP_OK : rp_fail(err, m->err.code, "%s", m->err.text);
}

rp_status compile_manager_run(compile_manager *m, rp_error *err) {
    m->jobs = base_alloc_array(m->n_entries + 1u, sizeof *m->jobs);
    if (!m->jobs) return rp_fail(err, RP_NOMEM, "%u pieces", m->n_entries);
    RP_TRY(find_missing(m, err));
    return work_off(m, err);
}

/* --- the manager ---------------------------------------------------------------------- */

rp_status compile_manager_new(const compile_options *opt, compile_manager **out, rp_error *err) {
    rp_status st = RP_OK;
    compile_manager *m = base_alloc(sizeof *m);
    if (!m) return rp_fail(err, RP_NOMEM, "compile manager");
    *m = (compile_manager){.opt = opt, .host = {opt->isa, m->machine, opt->toolchain, opt->store}};
    base_machine(m->machine);
    RP_TRY_OUT(opt->backend->initialize_cache(&m->host, err));
    RP_TRY_OUT(opt->backend->compute_hash(&m->host, &m->compiler, err));
    *out = m;
    m = NULL;
out:
    compile_manager_free(m);
    return st;
}

void compile_manager_free(compile_manager *m) {
    if (!m) return;
    for (uint32_t i = 0; i < m->n_entries; i++) lower_done(&m->entries[i].lowered);
    base_free(m->entries);
    base_free(m->jobs);
    base_free(m);
}

const compile_entry *compile_manager_entry(const compile_manager *m, uint32_t entry) {
    return &m->entries[entry];
}
