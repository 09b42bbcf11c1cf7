/* Lowering is sequential (milliseconds), so logs and dumps have one order; the compiler works for several pieces
 * at once. Nothing that is made depends on the order of jobs or the number of threads. */
#include "compile/manager.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "cache/key.h"
#include "compile/dump.h"
#include "compile/skips.h"
#include "compile/tune.h"
#include "compile/units.h"
#include "pass/pipeline.h"

#define MAX_THREADS 16

/* A unit on its way to code. */
typedef struct job {
    compile_unit u;
    uint32_t entry; /* whose kernels these are */
    compile_code code;
    cache_key *factors; /* of its key; NULL without functions */
    char *handle;       /* NULL: none */
    bool loaded;        /* by its handle, instead of compiled */
    double ms;
} job;

struct compile_manager {
    const compile_options *opt;
    compile_host host;
    char machine[BASE_MACHINE_SIZE];
    compile_entry *entries;
    uint32_t n_entries, cap_entries;
    compile_units units;
    job *jobs; /* a unit each, then a piece without kernels each */
    uint32_t n_jobs;
    uint32_t *missing, n_missing; /* jobs without code yet */
    /* shared by the threads of one run */
    uint32_t next, n_code, done_code;
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

/* What was chosen, where anything was. */
static rp_status add_choices(const compile_choices *choices, cache_key *k, rp_error *err) {
    base_buf text;
    bool any = false;
    base_buf_init(&text, 0);
    for (uint32_t i = 0; i < choices->n; i++) {
        const size_t before = text.len;
        lower_choice_print(&choices->of[i], false, &text);
        any = any || text.len > before;
        base_buf_putc(&text, ';');
    }
    rp_status st = base_buf_status(&text, err);
    if (st == RP_OK && any) st = cache_key_add(k, "choices", text.data, err);
    base_buf_done(&text);
    return st;
}

static rp_status entry_key(const compile_manager *m, const split_piece *sp, const char *range,
                           const compile_choices *choices, base_hash128 *out, rp_error *err) {
    const compile_options *opt = m->opt;
    rp_status st = RP_OK;
    char hex[33];
    cache_key *k = cache_key_new();
    if (!k) return rp_fail(err, RP_NOMEM, "piece key");
    RP_TRY_OUT(opt->backend->compute_hash(&m->host, k, err));
    RP_TRY_OUT(cache_key_add(k, "range", range, err));
    base_hash_hex(sp->hash, hex);
    RP_TRY_OUT(cache_key_add(k, "piece", hex, err));
    RP_TRY_OUT(cache_key_add(k, "backend", opt->backend->name, err));
    RP_TRY_OUT(cache_key_add(k, "fields", opt->key_fields ? opt->key_fields : "", err));
    RP_TRY_OUT(cache_key_add(k, "passes", opt->passes ? "on" : "off", err));
    RP_TRY_OUT(add_skipped(opt, k, err));
    RP_TRY_OUT(compile_skips_key(opt->extra_passes, opt->n_extra_passes, k, err));
    RP_TRY_OUT(add_choices(choices, k, err));
    *out = cache_key_hash(k);
out:
    cache_key_free(k);
    return st;
}

/* --- lowering ------------------------------------------------------------------ */

rp_status compile_lower(const compile_options *opt, const split_piece *sp,
                        const compile_choices *choices, bool labels, lower_piece *out,
                        rp_error *err) {
    const pass_options passes = {.skip = opt->skip_passes,
                                 .n_skip = opt->n_skip_passes,
                                 .extra = opt->extra_passes,
                                 .n_extra = opt->n_extra_passes,
                                 .keep_going = opt->keep_going,
                                 .counts = labels || opt->trial ? NULL : opt->pass_counts,
                                 .piece = true};
    const lower_options lo = {.isa = opt->isa,
                              .exact = opt->exact,
                              .shared = opt->nvrtc ? compile_nvrtc_shared(opt->nvrtc->arch) : 0,
                              .built_in = opt->built_in,
                              .threads = opt->launch_threads,
                              .packed = opt->last > 0,
                              .passes = &passes,
                              .labels = labels,
                              .choices = choices->of,
                              .n_choices = choices->n};
    ir_graph *g = NULL;
    if (!opt->passes) return opt->backend->lower(sp->graph, &lo, out, err);
    RP_TRY(pass_run_all(sp->graph, &passes, &g, err));
    rp_status st = opt->backend->lower(g, &lo, out, err);
    ir_graph_free(g);
    return st;
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

rp_status compile_manager_add_chosen(compile_manager *m, const split_piece *sp,
                                     const compile_choices *choices, uint32_t *entry, bool *added,
                                     rp_error *err) {
    compile_entry e = {.piece = sp, .range = COMPILE_RANGE_GENERAL};
    RP_TRY(reserve(m, err));
    RP_TRY(entry_key(m, sp, e.range, choices, &e.key, err));
    *added = false;
    for (*entry = 0; *entry < m->n_entries; (*entry)++)
        if (same_key(m->entries[*entry].key, e.key)) return RP_OK;
    int64_t t0 = base_now_ns();
    RP_TRY(compile_lower(m->opt, sp, choices, false, &e.lowered, err));
    e.lower_ms = (double)(base_now_ns() - t0) / 1e6;
    if (!m->opt->trial) compile_log_lowered(sp, &e.lowered, e.lower_ms);
    m->entries[m->n_entries++] = e;
    *added = true;
    return RP_OK;
}

rp_status compile_manager_add(compile_manager *m, const split_piece *sp, uint32_t *entry,
                              bool *added, rp_error *err) {
    compile_choices chosen;
    RP_TRY(compile_tune_piece(m->opt, sp, &chosen.of, &chosen.n, err));
    return compile_manager_add_chosen(m, sp, &chosen, entry, added, err);
}

/* --- units --------------------------------------------------------------------------- */

static rp_status unit_key(const compile_manager *m, job *j, rp_error *err) {
    char hex[33];
    j->factors = cache_key_new();
    if (!j->factors) return rp_fail(err, RP_NOMEM, "unit key");
    RP_TRY(m->opt->backend->compute_hash(&m->host, j->factors, err));
    base_hash_hex(base_hash(j->u.source, strlen(j->u.source)), hex);
    RP_TRY(cache_key_add(j->factors, "source", hex, err));
    j->u.key = cache_key_hash(j->factors);
    return RP_OK;
}

static rp_status make_units(compile_manager *m, rp_error *err) {
    const lower_piece **pieces = base_alloc_array(m->n_entries + 1u, sizeof *pieces);
    if (!pieces) return rp_fail(err, RP_NOMEM, "%u pieces", m->n_entries);
    for (uint32_t i = 0; i < m->n_entries; i++) pieces[i] = &m->entries[i].lowered;
    rp_status st = compile_units_make(pieces, m->n_entries, m->opt->isa, &m->units, err);
    base_free(pieces);
    return st;
}

static rp_status make_jobs(compile_manager *m, rp_error *err) {
    RP_TRY(make_units(m, err));
    m->jobs = base_alloc_array(m->units.n_units + m->n_entries + 1u, sizeof *m->jobs);
    m->missing = base_alloc_array(m->units.n_units + m->n_entries + 1u, sizeof *m->missing);
    if (!m->jobs || !m->missing) return rp_fail(err, RP_NOMEM, "%u units", m->units.n_units);
    for (uint32_t i = 0; i < m->units.n_units; i++) {
        const compile_source *s = &m->units.units[i];
        job *j = &m->jobs[m->n_jobs++];
        j->entry = s->piece;
        j->u = (compile_unit){m->entries[s->piece].piece, s->text, s->ptx, s->n_kernels, {0}};
        RP_TRY(unit_key(m, j, err));
        m->entries[s->piece].kernels += s->n_kernels;
    }
    for (uint32_t i = 0; i < m->n_entries; i++) {
        const compile_entry *e = &m->entries[i];
        if (e->lowered.n_kernels) continue;
        m->jobs[m->n_jobs++] =
            (job){.u = {e->piece, e->lowered.source, false, 0, e->key}, .entry = i};
    }
    return RP_OK;
}

/* --- artifacts ------------------------------------------------------------------ */

/* For people: a cache that cannot take it costs them a file, not the run. */
static void keep_source(const compile_manager *m, const job *j) {
    rp_error err = {0};
    if (cache_put_text(m->host.store, j->u.key, "piece.c", j->u.source, &err) != RP_OK)
        base_log(RP_LOG_WARNING, "source not kept: %s", err.text);
}

static rp_status load_job(compile_manager *m, job *j, rp_error *err) {
    rp_status st = RP_NOT_FOUND;
    if (m->host.store) st = cache_get_text(m->host.store, j->u.key, "handle", &j->handle, err);
    if (st == RP_OK) st = m->opt->backend->load(&m->host, &j->u, j->handle, &j->code, err);
    j->loaded = st == RP_OK;
    if (st == RP_OK) return st;
    base_free(j->handle);
    j->handle = NULL;
    return st;
}

/* Before the code: who is killed on the way leaves none that cannot be explained. */
static void keep_factors(const compile_manager *m, const job *j) {
    rp_error err = {0};
    if (m->host.store && j->factors &&
        cache_put_factors(m->host.store, CACHE_CODE, j->factors, &err) != RP_OK)
        base_log(RP_LOG_WARNING, "factors of code not kept: %s", err.text);
}

/* An artifact without its handle is compiled again, no more. */
static void keep_handle(const compile_manager *m, const job *j) {
    rp_error err = {0};
    if (m->host.store &&
        cache_put_text(m->host.store, j->u.key, "handle", j->handle, &err) != RP_OK)
        base_log(RP_LOG_WARNING, "handle not kept: %s", err.text);
}

static rp_status compile_job(compile_manager *m, job *j, rp_error *err) {
    int64_t t0 = base_now_ns();
    keep_factors(m, j);
    RP_TRY(m->opt->backend->compile(&m->host, &j->u, &j->code, &j->handle, err));
    j->ms = (double)(base_now_ns() - t0) / 1e6;
    if (j->handle) keep_handle(m, j);
    return RP_OK;
}

/* Another process may be compiling the same unit, for other settings of the same model, say: one does, the others
 * load. */
static rp_status compile_or_wait(compile_manager *m, job *j, rp_error *err) {
    const compile_toolchain *t = m->host.toolchain;
    base_lock *lock = NULL;
    bool again = false;
    rp_status st = RP_NOT_FOUND;
    if (j->u.n_functions && m->host.store && t) {
        const cache_lock_options l = {CACHE_CODE, j->u.key, t->wanted, t->user};
        RP_TRY(cache_lock_take(m->host.store, &l, &lock, &again, err));
    }
    if (again) st = load_job(m, j, err);
    if (st == RP_NOT_FOUND) st = compile_job(m, j, err);
    base_lock_drop(lock);
    return st;
}

/* --- jobs ----------------------------------------------------------------------------- */

/* By size of the source, which tells the time well enough: the longest is begun first, so that threads end at about
 * the same time. */
static void add_missing(compile_manager *m, uint32_t i) {
    uint32_t at = m->n_missing++;
    size_t size = strlen(m->jobs[i].u.source);
    for (; at > 0 && strlen(m->jobs[m->missing[at - 1]].u.source) < size; at--)
        m->missing[at] = m->missing[at - 1];
    m->missing[at] = i;
    m->n_code += m->jobs[i].u.n_functions > 0;
}

static rp_status find_missing(compile_manager *m, rp_error *err) {
    for (uint32_t i = 0; i < m->n_jobs; i++) {
        job *j = &m->jobs[i];
        if (m->opt->keep_sources && j->u.n_functions && m->host.store) keep_source(m, j);
        if (!m->opt->trial && j->u.n_functions && base_log_on(RP_LOG_CH_OUTPUT_CODE, false))
            base_log_ch(RP_LOG_CH_OUTPUT_CODE, false, "%s", j->u.source);
        rp_status st = load_job(m, j, err);
        if (st == RP_NOT_FOUND)
            add_missing(m, i);
        else if (st != RP_OK)
            return st;
    }
    return RP_OK;
}

static void *work(void *arg) {
    compile_manager *m = arg;
    for (;;) {
        rp_error err = {0};
        job *j = NULL;
        pthread_mutex_lock(&m->lock);
        if (m->err.code == RP_OK && m->next < m->n_missing) j = &m->jobs[m->missing[m->next++]];
        pthread_mutex_unlock(&m->lock);
        if (!j) return NULL;
        rp_status st = compile_or_wait(m, j, &err);
        pthread_mutex_lock(&m->lock);
        if (st != RP_OK) (void)rp_fail(&m->err, st, "%s", err.text);
        if (j->u.n_functions && m->opt->progress)
            m->opt->progress(m->opt->user, ++m->done_code, m->n_code);
        pthread_mutex_unlock(&m->lock);
    }
}

static rp_status work_off(compile_manager *m, rp_error *err) {
    pthread_t threads[MAX_THREADS];
    if (m->n_code && m->opt->room) RP_TRY(m->opt->room(m->opt->room_user, err));
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

/* --- what pieces have of it -------------------------------------------------------------- */

static rp_status place_functions(compile_manager *m, uint32_t entry, rp_error *err) {
    compile_entry *e = &m->entries[entry];
    e->functions = base_alloc_array(e->lowered.n_kernels + 1u, sizeof *e->functions);
    if (!e->functions) return rp_fail(err, RP_NOMEM, "%u kernels", e->lowered.n_kernels);
    for (uint32_t i = 0; i < e->lowered.n_kernels; i++) {
        const compile_place *at = &m->units.places[entry][i];
        e->functions[i] = (compile_function){m->jobs[at->unit].code, at->symbol};
    }
    return RP_OK;
}

static void report_job(compile_manager *m, const job *j) {
    compile_entry *e = &m->entries[j->entry];
    e->compiles += j->code.ran;
    e->loads += j->loaded;
    if (j->handle)
        base_log_ch(RP_LOG_CH_CACHE, false,
                    j->loaded ? "Directly load the %u-th graph for shape %s from %s via handle %s"
                              : "store the %u-th graph for shape %s from %s via handle %s",
                    e->piece->graph_index, e->range, m->opt->backend->name, j->handle);
    if (j->loaded || j->code.ran)
        compile_log_code(e->piece, m->opt, j->loaded ? j->handle : NULL, j->ms);
}

rp_status compile_manager_run(compile_manager *m, rp_error *err) {
    RP_TRY(make_jobs(m, err));
    RP_TRY(find_missing(m, err));
    RP_TRY(work_off(m, err));
    for (uint32_t i = 0; i < m->n_jobs && !m->opt->trial; i++) report_job(m, &m->jobs[i]);
    for (uint32_t i = 0; i < m->n_entries; i++) RP_TRY(place_functions(m, i, err));
    return RP_OK;
}

/* --- the manager ---------------------------------------------------------------------- */

rp_status compile_manager_new(const compile_options *opt, compile_manager **out, rp_error *err) {
    rp_status st = RP_OK;
    compile_manager *m = base_alloc(sizeof *m);
    if (!m) return rp_fail(err, RP_NOMEM, "compile manager");
    *m = (compile_manager){.opt = opt,
                           .host = {opt->isa, m->machine, opt->toolchain, opt->store, opt->nvrtc}};
    base_machine(m->machine);
    RP_TRY_OUT(opt->backend->initialize_cache(&m->host, err));
    *out = m;
    m = NULL;
out:
    compile_manager_free(m);
    return st;
}

void compile_manager_free(compile_manager *m) {
    if (!m) return;
    compile_units_done(&m->units);
    for (uint32_t i = 0; i < m->n_entries; i++) {
        lower_done(&m->entries[i].lowered);
        base_free(m->entries[i].functions);
    }
    for (uint32_t i = 0; i < m->n_jobs; i++) {
        cache_key_free(m->jobs[i].factors);
        base_free(m->jobs[i].handle);
    }
    base_free(m->entries);
    base_free(m->jobs);
    base_free(m->missing);
    base_free(m);
}

const compile_entry *compile_manager_entry(const compile_manager *m, uint32_t entry) {
    return &m->entries[entry];
}
