/* Opening an engine: model, configuration, device, plans, runner (memory of steps), weights, graphs, in that order. */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/spawn.h"
#include "base/status.h"
#include "engine/budget.h"
#include "engine/facts.h"
#include "engine/isa.h"
#include "engine/ops.h"
#include "engine/progress.h"
#include "ir/custom.h"
#include "plan/exec.h"

static double ms_since(int64_t t0) {
    return (double)(base_now_ns() - t0) / 1e6;
}

/* --- stages ------------------------------------------------------------------------ */

/* A template that is not known matters to those who use one: the first use is refused. */
static rp_status open_chat(rp_engine *e, const rp_engine_options *o, rp_error *err) {
    rp_error why = {0};
    rp_status st =
        model_chat_init(&e->chat, o->chat_template, model_source_chat_template(e->source), &why);
    if (st == RP_OK || e->chat.kind == MODEL_CHAT_FOREIGN) return RP_OK;
    return rp_fail(err, st, "%s", why.text);
}

/* dir: of the cache, NULL for none. A model that lies in the default folder is not fetched again into another one. */
static rp_status open_source(rp_engine *e, const rp_engine_options *o, const char *dir,
                             rp_error *err) {
    rp_error none = {0};
    char *usual = NULL;
    if (cache_default_dir(NULL, &usual, &none) != RP_OK)
        base_log(RP_LOG_DEBUG, "models are looked for in shared folders only: %s", none.text);
    model_resolve_options r = {.cache_dir = dir,
                               .default_dir = usual,
                               .progress = engine_fetch_progress,
                               .wanted = engine_still_wanted,
                               .user = e};
    rp_status st = model_resolve(o->model, &r, &e->source, err);
    if (e->t_fetch) e->times.fetch_ms = ms_since(e->t_fetch);
    base_free(usual);
    return st == RP_OK ? open_chat(e, o, err) : st;
}

static rp_status open_model(rp_engine *e, const rp_engine_options *o, rp_error *err) {
    const char *dir = e->config->cache_dir;
    if (!o->model || !*o->model)
        return rp_fail(err, RP_CONFIG, "no model; give a .gguf file, smollm2 or synthetic:NAME");
    RP_TRY(cache_store_open(*dir ? dir : NULL, &e->store, err));
    dir = cache_store_dir(e->store); /* "": none can be named, which is a reason to be off */
    e->cache_noted = cache_store_off_reason(e->store) != NULL;
    if (e->cache_noted) {
        cache_tell_off(cache_store_off_reason(e->store));
        RP_TRY(config_note_add(e->config, cache_store_off_reason(e->store), err, "cache"));
    }
    cache_store_sweep(e->store);
    if (*dir) base_log_ch(RP_LOG_CH_CACHE, false, "Using cache directory: %s", dir);
    return open_source(e, o, *dir ? dir : NULL, err);
}

static rp_status resolve_config(rp_engine *e, rp_error *err) {
    if (!e->given) RP_TRY(rp_config_clone(e->config, &e->given, err));
    RP_TRY(engine_config_resolve(e->config, e->source, err));
    RP_TRY(engine_ops_check(e->config, err));
    e->max_model_len = e->config->max_model_len.set ? (uint32_t)e->config->max_model_len.v
                                                    : model_source_hparams(e->source)->n_ctx;
    return RP_OK;
}

/* The device that is given is what the configuration says from here on. */
static rp_status take_device(rp_engine *e, rp_device *d, rp_error *err) {
    if (!d) return RP_OK;
    e->shared = rp_device_ref(d);
    RP_TRY(device_agrees(d, e->config, err));
    return rp_config_set_key(e->config, "device", device_name(d), err);
}

/* Threads in excess are waited for in every step. */
static rp_status note_threads(rp_engine *e, rp_error *err) {
    hal_device_info info;
    char why[120];
    e->device->ops->info(e->device, &info);
    if (!info.n_cores || info.n_threads <= info.n_cores) return RP_OK;
    (void)snprintf(why, sizeof why,
                   "%u of them may run at once, the others are waited for; --threads 0 takes one "
                   "for each core",
                   info.n_cores);
    return config_note_add(e->config, why, err, "%u threads", info.n_threads);
}

static rp_status check_share(const rp_engine *e, uint64_t own_memory, rp_error *err) {
    static const double deflt = 0.9;
    if (own_memory || e->config->gpu_memory_utilization == deflt) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "gpu_memory_utilization=%g is not supported on %s, which has no memory of its "
                   "own: the KV cache is as large as max_num_seqs and max_model_len ask for; leave "
                   "it at %g",
                   e->config->gpu_memory_utilization, e->config->device, deflt);
}

static rp_status open_device(rp_engine *e, rp_error *err) {
    hal_device_info info;
    int64_t t0 = base_now_ns();
    RP_TRY(e->shared ? device_queue(e->shared, &e->device, err)
                     : hal_open(e->config->device, (uint32_t)e->config->threads, &e->device, err));
    e->times.device_ms = ms_since(t0);
    engine_ledger_open(&e->ledger, e->device);
    e->device->ops->info(e->device, &info);
    e->n_threads = info.n_threads ? info.n_threads : 1;
    model_source_make_with(e->source, &(model_making){e->n_threads, engine_still_wanted, e});
    (void)snprintf(e->arch, sizeof e->arch, "%s", info.arch);
    RP_TRY(note_threads(e, err));
    RP_TRY(check_share(e, info.memory, err));
    return engine_isa_choose(e->config, &e->isa, err);
}

/* The same settings again, at level 0. */
static rp_status at_level_0(rp_engine *e, const char *reason, rp_error *err) {
    int level = (int)e->config->level;
    RP_TRY(rp_config_set_key(e->given, "level", "0", err));
    RP_TRY(config_note_add(e->given, reason, err, "level %d", level));
    rp_config_free(e->config);
    e->config = e->given;
    e->given = NULL;
    return resolve_config(e, err);
}

static rp_status ask_enabled(rp_engine *e, const rp_engine_options *o, rp_error *err) {
    bool off = o->enable_if && !o->enable_if(o->user, e->config);
    if (!off || e->config->level == RP_LEVEL_NO_COMPILATION) return RP_OK;
    return at_level_0(e, "enable_if says no", err);
}

/* why: what there is not, and what to do. */
static rp_status fall_back(rp_engine *e, const char *why, const char *cure, rp_error *err) {
    char reason[512];
    base_log(RP_LOG_WARNING,
             "%s: running at level 0 with the built-in portable kernels, which is slow; %s", why,
             cure);
    (void)snprintf(reason, sizeof reason, "%s; the built-in portable kernels run op by op", why);
    RP_TRY(at_level_0(e, reason, err));
    RP_TRY(note_threads(e, err)); /* notes are gone with the settings */
    return engine_isa_choose(e->config, &e->isa, err);
}

static rp_status try_plans(rp_engine *e, rp_error *err) {
    engine_plans_options p = {.source = e->source,
                              .config = e->config,
                              .store = e->store,
                              .device = e->device,
                              .isa = e->isa,
                              .arch = e->arch,
                              .threads = e->n_threads,
                              .progress = engine_compile_progress,
                              .wanted = engine_still_wanted,
                              .user = e};
    RP_TRY(engine_plans_load(&p, &e->plans, err));
    return engine_plans_load_sizes(&p, &e->plans, err);
}

static rp_status load_plans(rp_engine *e, rp_error *err) {
    rp_error first = {0};
    rp_status st = try_plans(e, &first);
    if (st == RP_UNSUPPORTED && e->plans.no_compiler) {
        char why[440];
        (void)snprintf(why, sizeof why, "%s and nothing cached", e->plans.missing);
        RP_TRY(fall_back(e, why, e->plans.cure, err));
        RP_TRY(try_plans(e, err));
    } else if (st != RP_OK) {
        return rp_fail(err, st, "%s", first.text);
    }
    if (e->config->level <= RP_LEVEL_DYNAMO_AS_IS)
        base_log_ch(RP_LOG_CH_PERF_HINTS, false,
                    "level %d runs op by op with portable kernels; --level 3 compiles",
                    (int)e->config->level);
    return engine_check_cancelled(e, err);
}

static engine_weights_options weights_options(rp_engine *e) {
    return (engine_weights_options){.source = e->source,
                                    .store = e->store,
                                    .model = e->plans.model,
                                    .head = e->plans.head,
                                    .n_positions = e->max_model_len,
                                    .threads = e->n_threads,
                                    .device = e->device,
                                    .device_name = e->config->device,
                                    .progress = engine_pack_progress,
                                    .wanted = engine_still_wanted,
                                    .user = e};
}

static rp_status load_weights(rp_engine *e, rp_error *err) {
    int64_t t0 = base_now_ns();
    engine_weights_options w = weights_options(e);
    RP_TRY(engine_weights_open(&w, &e->weights, err));
    bool packed = engine_weights_were_packed(e->weights);
    *(packed ? &e->times.pack_ms : &e->times.weights_ms) = ms_since(t0);
    return engine_check_cancelled(e, err);
}

rp_dtype engine_kv_dtype(const rp_engine *e) {
    return model_kv_dtype(e->source, e->config->numerics == CONFIG_NUMERICS_EXACT
                                         ? RP_NUMERICS_EXACT
                                         : RP_NUMERICS_DEFAULT);
}

static rp_status make_runner(rp_engine *e, rp_error *err) {
    engine_runner_options r = {.config = e->config,
                               .source = e->source,
                               .plans = &e->plans,
                               .store = e->store,
                               .device = e->device,
                               .kv_dtype = engine_kv_dtype(e),
                               .max_model_len = e->max_model_len,
                               .progress = engine_capture_progress,
                               .user = e};
    int64_t t0 = base_now_ns();
    engine_kv_size(e, &r);
    RP_TRY(engine_runner_new(&r, &e->runner, err));
    e->times.runner_ms = ms_since(t0);
    return RP_OK;
}

/* What fits alone need not fit beside the rest. */
static rp_status judge_memory(rp_engine *e, const engine_budget *before, rp_error *err) {
    const engine_weights_options w = weights_options(e);
    engine_asks asks = {.lengths = engine_kv_lengths(e),
                        .tokens = (uint64_t)e->config->max_num_batched_tokens.v};
    (void)engine_runner_kv(e->runner, &asks.kv_there);
    asks.kv = engine_kv_least_bytes(e);
    RP_TRY(engine_weights_need(&w, &asks.weights, err));
    return engine_budget_judge(before, &asks, err);
}

static rp_status bind_weights(rp_engine *e, rp_error *err) {
    int64_t t0 = base_now_ns();
    RP_TRY(engine_runner_bind(e->runner, e->weights, err));
    e->times.runner_ms += ms_since(t0);
    return RP_OK;
}

/* Launches that return when they are done leave nothing to go on beside. */
static rp_status note_ahead(rp_engine *e, rp_error *err) {
    if (!e->runs_ahead || e->queues) return RP_OK;
    return config_note_add(e->config,
                           "this device launches a step by running it, so no two overlap and each "
                           "token comes a step later; leave it out",
                           err, "async_scheduling=true");
}

static rp_status make_scheduler(rp_engine *e, rp_error *err) {
    const rp_compilation_config *c = e->config;
    hal_device_info info;
    e->device->ops->info(e->device, &info);
    RP_TRY(engine_kv_open_cache(e, err));
    engine_sched_options s = {.max_num_seqs = (uint32_t)c->max_num_seqs.v,
                              .max_num_batched_tokens = (uint32_t)c->max_num_batched_tokens.v,
                              .max_model_len = e->max_model_len,
                              .prefill_chunk = c->long_prefill_token_threshold.set
                                                   ? (uint32_t)c->long_prefill_token_threshold.v
                                                   : ENGINE_CHUNK_SHARED,
                              .vocab_size = model_source_hparams(e->source)->n_vocab};
    RP_TRY(engine_sched_new(&s, e->kv, &e->sched, err));
    e->queues = !info.unified;
    e->runs_ahead = c->async_scheduling.set ? c->async_scheduling.v : e->queues;
    RP_TRY(note_ahead(e, err));
    RP_TRY(engine_sampler_new(model_source_hparams(e->source)->n_vocab, &e->sampler, err));
    e->tokens = base_alloc_array(s.max_num_seqs, sizeof *e->tokens);
    base_buf_reserve(&e->chars, ENGINE_LONG_TOKEN);
    base_buf_reserve(&e->piece, ENGINE_LONG_TOKEN);
    return e->tokens && e->chars.data && e->piece.data
               ? RP_OK
               : rp_fail(err, RP_NOMEM, "batch of %u", s.max_num_seqs);
}

static rp_status make_ready(rp_engine *e, rp_error *err) {
    RP_TRY(load_plans(e, err));
    const engine_budget before = engine_budget_open(e->device);
    engine_mark mark = engine_mark_now(e->device, NULL);
    RP_TRY(make_runner(e, err)); /* what does not fit is told before anything is packed */
    e->ledger.code = engine_mark_unasked(e->device, NULL, mark);
    RP_TRY(judge_memory(e, &before, err));
    RP_TRY(load_weights(e, err));
    mark = engine_mark_now(e->device, e->weights);
    RP_TRY(bind_weights(e, err));
    e->ledger.code += engine_mark_unasked(e->device, e->weights, mark);
    return RP_OK;
}

/* Whether what failed with st may work when it is made again: stored code that cannot be loaded, or code that
 * somebody removed meanwhile. */
static bool worth_again(rp_engine *e, rp_status st) {
    if (st == RP_NOT_FOUND) return e->plans.model != NULL;
    rp_error lost = {0};
    if (st != RP_DEVICE || !e->plans.loaded || hal_lost(e->device, &lost)) return false;
    uint32_t n = plan_exec_reject_code(e->plans.model, e->store, e->device);
    n += plan_exec_reject_code(e->plans.head, e->store, e->device);
    for (uint32_t i = 0; i < e->plans.n_sized; i++)
        n += plan_exec_reject_code(e->plans.sized[i].model, e->store, e->device);
    return n > 0;
}

static bool may_fall_back(const rp_engine *e, rp_status st) {
    return st == RP_UNSUPPORTED && e->given && e->plans.model && e->plans.model->n_modules &&
           !e->arch[0];
}

/* The second time uses the cache again, the third does without: somebody goes on removing what is in it. Code that
 * may not be executed anywhere leaves level 0. */
static rp_status make_ready_again(rp_engine *e, rp_error *err) {
    for (int turn = 0;; turn++) {
        rp_error why = {0};
        rp_status st = make_ready(e, &why);
        if (st == RP_OK) return RP_OK;
        if (may_fall_back(e, st))
            RP_TRY(fall_back(e, why.text, "give --cache-dir on a disk that is not noexec", err));
        else if (turn == 2 || !worth_again(e, st))
            return rp_fail(err, st, "%s", why.text);
        if (turn == 1) cache_store_detach(e->store, why.text);
        engine_runner_free(e->runner);
        e->runner = NULL;
        engine_weights_free(e->weights);
        e->weights = NULL;
        e->times.weights_ms = e->times.pack_ms = 0.0;
        engine_plans_done(&e->plans);
        e->plans = (engine_plans){0};
    }
}

/* What was dropped costs the next start time, and this one's owner should know. */
static rp_status note_dropped(rp_engine *e, rp_error *err) {
    const char *why = cache_store_dropped_reason(e->store);
    if (!why || e->cache_noted) return RP_OK;
    return config_note_add(e->config, why, err, "cache");
}

static rp_status open_all(rp_engine *e, const rp_engine_options *o, rp_error *err) {
    int64_t t0 = base_now_ns();
    RP_TRY(open_model(e, o, err));
    RP_TRY(take_device(e, o->device, err));
    RP_TRY(resolve_config(e, err));
    RP_TRY(ask_enabled(e, o, err));
    RP_TRY(open_device(e, err));
    RP_TRY(make_ready_again(e, err));
    RP_TRY(note_dropped(e, err));
    if (!o->no_capture) {
        const engine_mark mark = engine_mark_now(e->device, e->weights);
        RP_TRY(engine_runner_capture(e->runner, &e->capture, err));
        e->ledger.graphs = engine_mark_unasked(e->device, e->weights, mark);
        e->times.capture_ms = e->capture.seconds * 1e3;
        RP_TRY(make_scheduler(e, err));
    }
    rp_config_free(e->given);
    e->given = NULL;
    e->times.load_ms = ms_since(t0);
    return engine_check_cancelled(e, err);
}

rp_status rp_engine_open(const rp_engine_options *given, rp_engine **out, rp_error *err) {
    base_error_clear(err);
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_status st = base_options_take(&o, sizeof o, given, "rp_engine_options", err);
    if (st == RP_OK && !out) st = rp_fail(err, RP_INVALID, "rp_engine_open: out is NULL");
    if (st != RP_OK) {
        rp_config_free(o.config);
        return st;
    }
    rp_compilation_config *c = o.config ? o.config : rp_config_new();
    rp_engine *e = base_alloc(sizeof *e);
    if (!e || !c) {
        base_free(e);
        rp_config_free(c);
        return rp_fail(err, RP_NOMEM, "engine");
    }
    e->config = c;
    e->progress = o.progress;
    e->user = o.user;
    e->next_id = 1;
    base_buf_init(&e->chars, 0);
    base_buf_init(&e->piece, 0);
    (void)pthread_mutex_init(&e->reporting, NULL);
    st = open_all(e, &o, err);
    if (st == RP_OK)
        *out = e;
    else
        rp_engine_close(e);
    return st;
}

void rp_engine_close(rp_engine *e) {
    if (!e) return;
    if (e->calling) { /* said by the call that is under way, too */
        base_log(RP_LOG_ERROR,
                 "rp_engine_close inside a callback closes nothing: close the engine after the "
                 "call returns");
        e->close_refused = true;
        return;
    }
    if (e->runner) engine_runner_drain(e->runner);
    engine_sched_free(e->sched); /* aborts what it holds */
    engine_jobs_free(e);
    engine_sampler_free(e->sampler);
    engine_kv_free(e->kv);
    engine_hidden_free(e->hidden);
    engine_runner_free(e->runner);
    engine_weights_free(e->weights);
    engine_plans_done(&e->plans);
    hal_close(e->device);
    rp_device_close(e->shared);
    model_chat_done(&e->chat);
    model_source_free(e->source);
    cache_store_close(e->store);
    rp_config_free(e->config);
    rp_config_free(e->given);
    base_free(e->tokens);
    base_buf_done(&e->chars);
    base_buf_done(&e->piece);
    (void)pthread_mutex_destroy(&e->reporting);
    base_free(e);
}

void rp_compilers_kill(void) {
    base_spawn_kill_all();
}

const rp_compilation_config *rp_engine_config(const rp_engine *e) {
    return e ? e->config : NULL;
}

rp_status rp_engine_summary(const rp_engine *e, char **out, rp_error *err) {
    base_error_clear(err);
    if (!e || !out)
        return rp_fail(err, RP_INVALID, "rp_engine_summary: engine and out must be given");
    return engine_summary_json(e, out, err);
}
