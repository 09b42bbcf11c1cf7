/* Finds the plans under the outer key, else traces and compiles both graphs and stores them.
 *
 * Stored form: u64 size of the model plan, the model plan, the head plan. */
#include "engine/plans.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "compile/dump.h"
#include "compile/skips.h"
#include "compile/tune.h"
#include "engine/decode.h"
#include "engine/exchange.h"
#include "engine/facts.h"
#include "engine/isa.h"
#include "engine/passes.h"
#include "engine/recompile.h"
#include "engine/weights.h"
#include "ir/custom.h"
#include "trace/support.h"

rp_numerics engine_plans_numerics(const rp_compilation_config *c) {
    return c->numerics == CONFIG_NUMERICS_EXACT  ? RP_NUMERICS_EXACT
           : c->numerics == CONFIG_NUMERICS_FAST ? RP_NUMERICS_FAST
                                                 : RP_NUMERICS_DEFAULT;
}

/* --- key --------------------------------------------------------------------- */

static const char COMPILER[] = "compiler"; /* the factor */

static rp_status add_splits(cache_key *k, const rp_compilation_config *cfg, const char *name,
                            rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    rp_status st = engine_config_splits(cfg, &b, err);
    if (st == RP_OK) st = cache_key_add(k, name, b.data, err);
    base_buf_done(&b);
    return st;
}

/* Passes of the user may call ops whose kernels are text. */
static rp_status add_op_sources(cache_key *k, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    ir_custom_sources(&b);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK && b.len > 0) st = cache_key_add(k, "op sources", b.data, err);
    base_buf_done(&b);
    return st;
}

typedef struct key_maker {
    cache_key *key;
    const rp_compilation_config *config;
} key_maker;

/* A list of ops counts by what it does, not by how it was typed. */
static rp_status add_factor(void *user, const char *name, const char *value, rp_error *err) {
    const key_maker *m = user;
    if (strcmp(name, "splitting_ops") == 0) return add_splits(m->key, m->config, name, err);
    return cache_key_add(m->key, name, value, err);
}

static bool is_cuda(const engine_plans_options *o) {
    return o->arch && *o->arch;
}

static bool is_exact(const engine_plans_options *o) {
    return engine_isa_exact(o->config, o->arch);
}

static bool is_eager(const engine_plans_options *o) {
    return strcmp(o->config->backend, "eager") == 0;
}

/* Who names a compiler wants its code and no other's; who names none takes what there is. */
static rp_status add_compiler(const engine_plans_options *o, cache_key *k, rp_error *err) {
    char *version = NULL;
    if (is_cuda(o) || is_eager(o)) return RP_OK;
    rp_status st = compile_toolchain_chosen(o->store, &version, err);
    if (st == RP_OK && version) st = cache_key_add(k, COMPILER, version, err);
    base_free(version);
    return st;
}

/* Products have numbers for sizes only where the step has one. */
static rp_status add_sizes(const engine_plans_options *o, cache_key *k, rp_error *err) {
    char text[COMPILE_SHAPE];
    compile_shape_text(o->first, o->last, text);
    RP_TRY(cache_key_add(k, "compile_size", text, err));
    if (o->first < o->last) return RP_OK;
    return cache_key_add(k, "built_in_products", o->config->built_in_products ? "true" : "false",
                         err);
}

/* Registered passes rewrite what is compiled. */
static rp_status add_passes(const engine_plans_options *o, cache_key *k, rp_error *err) {
    compile_skips skips;
    RP_TRY(compile_skips_of(o->config, &skips, err));
    return is_eager(o) && !is_cuda(o) ? RP_OK
                                      : compile_skips_key(skips.extra, skips.n_extra, k, err);
}

rp_status engine_plans_key(const engine_plans_options *o, cache_key **out, rp_error *err) {
    rp_status st = RP_OK;
    char hex[33], machine[BASE_MACHINE_SIZE];
    cache_key *k = cache_key_new();
    if (!k) return rp_fail(err, RP_NOMEM, "plan key");
    key_maker maker = {k, o->config};
    base_machine(machine);
    base_hash_hex(model_source_meta_hash(o->source), hex);
    RP_TRY_OUT(cache_key_add(k, "model", hex, err));
    if (o->decode_of)
        RP_TRY_OUT(engine_decode_key(o->decode_of, k, err));
    else if (o->last)
        RP_TRY_OUT(add_sizes(o, k, err));
    RP_TRY_OUT(cache_key_add(k, "target", is_cuda(o) ? "cuda" : "cpu", err));
    RP_TRY_OUT(cache_key_add(k, "target.machine", is_cuda(o) ? "gpu" : machine, err));
    RP_TRY_OUT(cache_key_add(k, "target.isa", is_cuda(o) ? o->arch : gen_isa_name(o->isa), err));
    if (is_cuda(o))
        RP_TRY_OUT(cache_key_add(k, "target.sums", is_exact(o) ? "host" : "tensor cores", err));
    RP_TRY_OUT(cache_key_add(k, "sources", compile_source_hash(), err));
    RP_TRY_OUT(add_op_sources(k, err));
    RP_TRY_OUT(config_key_each(o->config, RP_KEY_OUTER, add_factor, &maker, err));
    RP_TRY_OUT(add_passes(o, k, err));
    RP_TRY_OUT(add_compiler(o, k, err));
    if (o->device && !is_eager(o)) RP_TRY_OUT(compile_tuner_key(o->config, o->device, k, err));
    *out = k;
    k = NULL;
out:
    cache_key_free(k);
    return st;
}

/* --- from the cache ------------------------------------------------------------ */

/* Every code object is there and sound; else the plan is a miss. */
static rp_status check_code(cache_store *s, const plan *p, rp_error *err) {
    if (!p) return RP_OK; /* no head */
    for (uint32_t i = 0; i < p->n_inner; i++) RP_TRY(check_code(s, p->inner[i], err));
    for (uint32_t i = 0; i < p->n_modules; i++) {
        char *path = NULL;
        RP_TRY(cache_get_code(s, p->modules[i].key, p->modules[i].isa_bits, &path, err));
        base_free(path);
    }
    return RP_OK;
}

static rp_status parse_pair(const char *data, size_t size, bool head, engine_plans *out,
                            rp_error *err) {
    uint64_t first;
    if (size < sizeof first) return rp_fail(err, RP_CORRUPT, "stored plans of %zu bytes", size);
    memcpy(&first, data, sizeof first);
    if (first > size - sizeof first) return rp_fail(err, RP_CORRUPT, "stored plans are cut");
    RP_TRY(plan_load(data + sizeof first, (size_t)first, &out->model, err));
    if (!head) return RP_OK;
    return plan_load(data + sizeof first + first, size - sizeof first - (size_t)first, &out->head,
                     err);
}

static bool load_cached(const engine_plans_options *o, base_hash128 key, engine_plans *out) {
    char *data = NULL;
    size_t size = 0;
    rp_error err = {0};
    rp_status st = cache_get(o->store, CACHE_PLAN, key, &data, &size, &err);
    if (st == RP_OK) st = parse_pair(data, size, !o->last || o->decode_of, out, &err);
    if (st == RP_OK) st = check_code(o->store, out->model, &err);
    if (st == RP_OK) st = check_code(o->store, out->head, &err);
    base_free(data);
    if (st == RP_OK) {
        out->from_cache = true;
        out->loaded = out->model->n_modules + (out->head ? out->head->n_modules : 0);
        out->stats.pieces = out->model->n_pieces;
        out->stats.compiled = out->model->n_compiled;
        out->stats.distinct = out->model->n_distinct;
        engine_passes_load(o->store, key, &out->passes);
        return true;
    }
    /* A plain miss has been said by the store. */
    if (err.text[0]) base_log_ch(RP_LOG_CH_CACHE, false, "plan miss: %s", err.text);
    plan_free(out->model);
    plan_free(out->head);
    out->model = out->head = NULL;
    return false;
}

/* --- made now --------------------------------------------------------------------- */

static rp_status trace_both(const engine_plans_options *o, rp_graph **model, rp_graph **head,
                            rp_error *err) {
    model_graph_options g = {engine_plans_numerics(o->config), o->config->max_num_batched_tokens.v,
                             o->config->max_num_seqs.v, o->first, o->last};
    RP_TRY(model_llama_graph(o->source, &g, model, err));
    RP_TRY(trace_support_check(&model_llama_support, *model, err));
    return o->last ? RP_OK : model_llama_head(o->source, &g, head, err);
}

/* Dumps and log lines of a graph come before it is compiled, and both graphs are compiled together. The head may be missing. */
static rp_status compile_pair(const rp_graph *const traced[2], compile_options *c, const char *dump,
                              compile_task task[2], rp_error *err) {
    const int n = traced[1] ? 2 : 1;
    for (int i = 0; i < n; i++) {
        task[i] = (compile_task){trace_graph_ir(traced[i]),
                                 i ? NULL : c->splitting_ops,
                                 i ? 0 : c->n_splitting_ops,
                                 NULL,
                                 {0}};
        compile_options own = *c;
        own.splitting_ops = task[i].splitting_ops;
        own.n_splitting_ops = task[i].n_splitting_ops;
        compile_log_step(task[i].g, &own, false);
        RP_TRY(compile_dump_stages(task[i].g, &own, dump, err));
    }
    RP_TRY(compile_graphs(task, (uint32_t)n, c, err));
    for (int i = 0; i < n; i++) {
        compile_log_step(task[i].g, c, true);
        RP_TRY(compile_dump_plan(task[i].out, task[i].g, dump, err));
    }
    return RP_OK;
}

static rp_status lack_compiler(const compile_toolchain *tc, engine_plans *out) {
    out->no_compiler = true;
    (void)snprintf(out->missing, sizeof out->missing, "%s", tc->missing);
    out->cure = tc->cure;
    return RP_UNSUPPORTED;
}

/* The host compiler or NVRTC. RP_UNSUPPORTED without a text: there is none, and the engine goes on at level 0 and says
 * why; a GPU has no such level. */
static rp_status find_compiler(const engine_plans_options *o, bool eager, compile_toolchain *tc,
                               compile_nvrtc *nvrtc, engine_plans *out, rp_error *err) {
    if (is_cuda(o)) RP_TRY(compile_nvrtc_find(o->arch, nvrtc, err));
    if (!eager && !is_cuda(o)) RP_TRY(compile_toolchain_find(o->store, tc, err));
    tc->wanted = o->wanted;
    tc->user = o->user;
    return eager || is_cuda(o) || tc->path ? RP_OK : lack_compiler(tc, out);
}

static const rp_compiler *compiler_of(const engine_plans_options *o, bool eager) {
    return is_cuda(o) ? &compile_cuda : eager ? &compile_eager : &compile_inductor;
}

static rp_status compile_both(const engine_plans_options *o, const rp_graph *model,
                              const rp_graph *head, const char *dump, engine_plans *out,
                              rp_error *err) {
    compile_toolchain tc = {0};
    compile_nvrtc nvrtc = {0};
    char *fields = NULL;
    compile_task task[2] = {{0}};
    const rp_graph *const traced[] = {model, head};
    compile_skips skips;
    compile_tuner tuner = {0};
    bool tunes = false, built_in = false;
    rp_error why = {0};
    rp_status st = RP_OK;
    bool eager = is_eager(o);
    RP_TRY_OUT(find_compiler(o, eager, &tc, &nvrtc, out, err));
    RP_TRY_OUT(rp_config_key_pieces(o->config, RP_KEY_PIECE, &fields, err));
    RP_TRY_OUT(compile_skips_of(o->config, &skips, err));
    if (o->device && !eager)
        RP_TRY_OUT(compile_tuner_of(o->config, o->device, &tuner, &tunes, err));
    RP_TRY_OUT(compile_built_in(o->config, &built_in, err));
    compile_options c = {.backend = compiler_of(o, eager),
                         .nvrtc = &nvrtc,
                         .isa = o->isa,
                         .splitting_ops = (const char *const *)o->config->splitting_ops.v,
                         .n_splitting_ops = (uint32_t)o->config->splitting_ops.n,
                         .toolchain = &tc,
                         .store = o->store,
                         .exact = is_exact(o),
                         .built_in = built_in,
                         .first = o->first,
                         .last = o->last,
                         .key_fields = fields,
                         .threads = o->threads,
                         .passes = !eager,
                         .skip_passes = skips.name,
                         .n_skip_passes = skips.n,
                         .extra_passes = skips.extra,
                         .n_extra_passes = skips.n_extra,
                         .keep_going = o->config->suppress_errors,
                         .pass_counts = &out->passes,
                         .tuner = tunes ? &tuner : NULL,
                         .keep_sources = o->config->compile_cache_save_format.v ==
                                         CONFIG_SAVE_UNPACKED,
                         .progress = o->progress,
                         .user = o->user};
    st = compile_pair(traced, &c, dump, task, &why);
    if (st != RP_OK)
        st = compile_toolchain_late(&tc) ? lack_compiler(&tc, out)
                                         : rp_fail(err, st, "%s", why.text);
    out->model = task[0].out; /* the caller's also after a failed dump */
    out->head = task[1].out;
    out->undecided = tuner.undecided;
    if (st == RP_OK && is_cuda(o) && head)
        st = engine_exchange_compile(&nvrtc, o->store, out->head, err);
    if (st != RP_OK) goto out;
    out->stats = task[0].stats;
    out->stats.compiles += task[1].stats.compiles;
    out->stats.cache_hits += task[1].stats.cache_hits;
    out->loaded = out->stats.cache_hits;
out:
    compile_tuner_done(&tuner);
    rp_config_text_free(fields);
    compile_toolchain_done(&tc);
    compile_nvrtc_done(&nvrtc);
    return st;
}

/* No graph: kernels that are there already, for the plan of a model. */
static rp_status make_decode(const engine_plans_options *o, engine_plans *out, char **text,
                             rp_error *err) {
    compile_toolchain tc = {0};
    compile_nvrtc nvrtc = {0};
    const int64_t t0 = base_now_ns();
    RP_TRY(find_compiler(o, false, &tc, &nvrtc, out, err));
    rp_status st = engine_decode_plans(o, o->decode_of, &nvrtc, out, err);
    compile_nvrtc_done(&nvrtc);
    RP_TRY(st);
    out->loaded = out->stats.cache_hits;
    out->compile_ms = (double)(base_now_ns() - t0) / 1e6;
    *text = base_strdup("; kernels of decode steps (src/gen/embed/decode.cu)\n");
    return *text ? RP_OK : rp_fail(err, RP_NOMEM, "plan of a decode step");
}

static rp_status make(const engine_plans_options *o, const char *dump, engine_plans *out,
                      char **text, rp_error *err) {
    if (o->decode_of) return make_decode(o, out, text, err);
    rp_graph *model = NULL, *head = NULL;
    rp_status st = RP_OK;
    uint64_t before = trace_count(), breaks = trace_breaks();
    int64_t t0 = base_now_ns();
    RP_TRY_OUT(trace_both(o, &model, &head, err));
    out->traces = trace_count() - before;
    out->graph_breaks = trace_breaks() - breaks;
    out->trace_ms = (double)(base_now_ns() - t0) / 1e6;
    t0 = base_now_ns();
    RP_TRY_OUT(compile_both(o, model, head, dump, out, err));
    out->compile_ms = (double)(base_now_ns() - t0) / 1e6;
    RP_TRY_OUT(rp_graph_print(model, text, err));
out:
    rp_graph_free(model);
    rp_graph_free(head);
    return st;
}

/* --- storing ------------------------------------------------------------------------- */

static rp_status store_pair(const engine_plans_options *o, base_hash128 key, const engine_plans *p,
                            rp_error *err) {
    char *a = NULL, *b = NULL;
    size_t na = 0, nb = 0;
    rp_status st = RP_OK;
    base_buf all;
    base_buf_init(&all, 0);
    RP_TRY_OUT(plan_save(p->model, &a, &na, err));
    if (p->head) RP_TRY_OUT(plan_save(p->head, &b, &nb, err));
    uint64_t first = na;
    base_buf_add(&all, &first, sizeof first);
    base_buf_add(&all, a, na);
    if (nb) base_buf_add(&all, b, nb);
    RP_TRY_OUT(base_buf_status(&all, err));
    st = cache_put(o->store, CACHE_PLAN, key, all.data, all.len, err);
out:
    base_buf_done(&all);
    base_free(a);
    base_free(b);
    return st;
}

/* A line for each module that b does not have. */
static void add_modules(const plan *p, base_buf *b) {
    if (!p) return; /* no head */
    for (uint32_t i = 0; i < p->n_inner; i++) add_modules(p->inner[i], b);
    for (uint32_t m = 0; m < p->n_modules; m++) {
        char line[64] = "code ";
        base_hash_hex(p->modules[m].key, line + 5);
        if (!b->len || !strstr(b->data, line)) base_buf_printf(b, "%s\n", line);
    }
}

/* What `cache ls` adds up for the plan. Code that both graphs use is there once. */
static rp_status store_parts(const engine_plans_options *o, base_hash128 key, const engine_plans *p,
                             rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    add_modules(p->model, &b);
    add_modules(p->head, &b);
    assert(p->model);
    base_buf_printf(&b, "weights %" PRIu64 "\n",
                    (uint64_t)p->model->weights_size +
                        (p->head ? (uint64_t)p->head->weights_size : 0));
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = cache_put_text(o->store, key, CACHE_PARTS, b.data, err);
    base_buf_done(&b);
    return st;
}

/* The plan last: who is killed on the way leaves none that is found and cannot be explained. */
static rp_status store_all(const engine_plans_options *o, const cache_key *k, const engine_plans *p,
                           const char *text, rp_error *err) {
    base_hash128 key = cache_key_hash(k);
    rp_status st = cache_put_text(o->store, key, "computation_graph.ir", text, err);
    if (st == RP_OK) st = cache_put_text(o->store, key, "model", model_source_name(o->source), err);
    if (st == RP_OK) st = store_parts(o, key, p, err);
    if (st == RP_OK) st = engine_passes_store(o->store, key, &p->passes, err);
    if (st == RP_OK) st = cache_put_factors(o->store, CACHE_PLAN, k, err);
    return st == RP_OK ? store_pair(o, key, p, err) : st;
}

/* --- found or made ------------------------------------------------------------------- */

static rp_status make_and_tell(engine_recompile *r, const char *dump, char **text, rp_error *err) {
    const engine_plans_options o = engine_recompile_options(r);
    RP_TRY(make(&o, dump, r->out, text, err));
    engine_recompile_tell(r, false);
    return RP_OK;
}

static rp_status log_loaded(const engine_plans_options *o, const engine_plans *p, double ms,
                            rp_error *err) {
    char shape[COMPILE_SHAPE];
    compile_shape_text(o->first, o->last, shape);
    if (!o->last) engine_recompile_log_none();
    base_log_ch(RP_LOG_CH_CACHE, false,
                "Directly load the compiled graph(s) for shape %s from the cache, took %.3f s",
                shape, ms / 1e3);
    RP_TRY(compile_dump_plan(p->model, NULL, NULL, err));
    return p->head ? compile_dump_plan(p->head, NULL, NULL, err) : RP_OK;
}

/* Where there is no compiler the code of any is better than none. */
static bool load_any(const engine_plans_options *o, const cache_key *k, engine_plans *p) {
    base_hash128 other;
    rp_error err = {0};
    if (is_cuda(o) || is_eager(o) || compile_toolchain_there()) return false;
    if (cache_key_find_but(o->store, k, COMPILER, &other, &err) == RP_OK)
        return load_cached(o, other, p);
    if (err.text[0]) base_log(RP_LOG_DEBUG, "stored plans cannot be compared: %s", err.text);
    return false;
}

/* *found, or else this process is the one that makes it, until it drops *lock. */
static rp_status find_or_wait(const engine_plans_options *o, const cache_key *k, engine_plans *p,
                              base_lock **lock, bool *found, rp_error *err) {
    base_hash128 key = cache_key_hash(k);
    const cache_lock_options l = {CACHE_PLAN, key, o->wanted, o->user};
    bool again = false;
    *found = load_cached(o, key, p) || load_any(o, k, p);
    if (*found) return RP_OK;
    RP_TRY(cache_lock_take(o->store, &l, lock, &again, err));
    *found = again && load_cached(o, key, p);
    return RP_OK;
}

static rp_status find_or_make(const engine_plans_options *o, const cache_key *k, engine_plans *p,
                              rp_error *err) {
    char *text = NULL, *dump = NULL;
    base_lock *lock = NULL;
    bool found = false;
    rp_error full = {0};
    engine_recompile why = {.o = o, .out = p};
    rp_status st = RP_OK;
    int64_t t0 = base_now_ns();
    base_buf_init(&why.why, 0);
    RP_TRY_OUT(compile_dump_dir(o->config, &dump, err));
    RP_TRY_OUT(find_or_wait(o, k, p, &lock, &found, err));
    if (!found) {
        if (!o->last)
            engine_recompile_find(&why, k); /* that of some sizes is one more, not another */
    } else if (!dump) {
        st = log_loaded(o, p, (double)(base_now_ns() - t0) / 1e6, err);
        goto out;
    } else {
        base_log_ch(RP_LOG_CH_DYNAMO, false,
                    "tracing again what the cache has: debug_dump_path wants its stages");
        engine_plans_done(p);
        *p = (engine_plans){0};
    }
    RP_TRY_OUT(make_and_tell(&why, dump, &text, err));
    /* A full cache costs speed only. */
    if (engine_passes_failed(&p->passes))
        base_log(RP_LOG_WARNING, "plan not stored: a pass is missing from it");
    else if (p->undecided)
        base_log(RP_LOG_WARNING,
                 "plan not stored: of %u kernels the autotuner could not tell the fastest way; the "
                 "next start goes on, REPRISE_AUTOTUNE_BUDGET gives it more time",
                 p->undecided);
    else if (store_all(o, k, p, text, &full) != RP_OK)
        base_log(RP_LOG_WARNING, "plan not stored: %s", full.text);
    if (dump) base_log(RP_LOG_INFO, "every stage of compiling is in %s", dump);
out:
    base_lock_drop(lock);
    base_buf_done(&why.why);
    base_free(text);
    base_free(dump);
    return st;
}

rp_status engine_plans_load(const engine_plans_options *o, engine_plans *out, rp_error *err) {
    engine_plans p = {0};
    cache_key *k = NULL;
    rp_status st = RP_OK;
    RP_TRY_OUT(engine_plans_key(o, &k, err));
    RP_TRY_OUT(find_or_make(o, k, &p, err));
    *out = p;
    p = (engine_plans){0};
out:
    if (p.no_compiler) *out = (engine_plans){.no_compiler = true, .cure = p.cure};
    if (p.no_compiler) (void)snprintf(out->missing, sizeof out->missing, "%s", p.missing);
    engine_plans_done(&p);
    cache_key_free(k);
    return st;
}

void engine_plans_done(engine_plans *p) {
    for (uint32_t i = 0; i < p->n_sized; i++) engine_plans_done(&p->sized[i]);
    base_free(p->sized);
    plan_free(p->model);
    plan_free(p->head);
    p->sized = NULL;
    p->n_sized = 0;
    p->model = p->head = NULL;
}
