/* rp_compile: a user's graph, compiled for this process; run.c runs it.
 *
 * Graphs are not captured here: a mode that would capture is noted. */
#include "api/compiled.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/foreign.h"
#include "api/lowered.h"
#include "api/seen.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "compile/builtin.h"
#include "compile/dump.h"
#include "compile/skips.h"
#include "compile/nvrtc.h"
#include "compile/tune.h"
#include "config/config.h"
#include "engine/isa.h"
#include "ir/custom.h"
#include "ir/site.h"

enum { MOST_CALLS = 16 }; /* at once; further ones wait */
enum { HUGE_FROM = 8 << 20 };

/* --- compiling ------------------------------------------------------------------ */

/* A note, once: a configuration may be used for several calls. */
static rp_status note_once(rp_compilation_config *cfg, const char *what, const char *reason,
                           rp_error *err) {
    const rp_config_note *notes;
    size_t n = rp_config_notes(cfg, &notes);
    for (size_t i = 0; i < n; i++)
        if (strcmp(notes[i].what, what) == 0 && strcmp(notes[i].reason, reason) == 0) return RP_OK;
    return config_note_add(cfg, reason, err, "%s", what);
}

/* Nothing can be compiled: op by op, and the caller is told so. */
static rp_status without_compiler(rp_compiled *c, const ir_graph *g, const compile_toolchain *tc,
                                  rp_compilation_config *cfg, rp_error *err) {
    char what[32], reason[512];
    (void)snprintf(what, sizeof what, "backend=%s", cfg->backend);
    (void)snprintf(reason, sizeof reason, "%s; the built-in portable kernels run op by op",
                   tc->missing);
    base_log(tc->told ? RP_LOG_DEBUG : RP_LOG_WARNING,
             "%s: graph @%s runs op by op with the built-in portable kernels, which is slow; %s",
             tc->missing, ir_graph_name(g), tc->cure);
    base_free(c->reason);
    c->reason = base_strdup(reason);
    return c->reason ? note_once(cfg, what, reason, err) : rp_fail(err, RP_NOMEM, "%s", what);
}

static bool is_gpu(const hal_device_info *dev) {
    return *dev->arch;
}

/* What is stored needs no folder to compile in, which takes as long as all else of finding it. */
static rp_status make_folder(void *user, rp_error *err) {
    compile_toolchain *tc = user;
    RP_TRY(compile_toolchain_room(tc, err));
    return tc->path ? RP_OK : rp_fail(err, RP_UNSUPPORTED, "%s; %s", tc->missing, tc->cure);
}

/* Where there is no such folder, as without a compiler. */
static rp_status compile_by_any(rp_compiled *c, const ir_graph *g, compile_options *o,
                                compile_stats *stats, rp_compilation_config *cfg, rp_error *err) {
    compile_toolchain *tc = o->room_user;
    rp_error why = {0};
    rp_status st = compile_graph(g, o, &c->p, stats, &why);
    if (st == RP_OK) return RP_OK;
    if (o->backend != &compile_inductor || (tc->path && !compile_toolchain_late(tc)))
        return rp_fail(err, st, "%s", why.text);
    RP_TRY(without_compiler(c, g, tc, cfg, err));
    o->backend = &compile_eager;
    o->passes = false;
    o->tuner = NULL;
    return compile_graph(g, o, &c->p, stats, err);
}

/* Passes run anew; that ops were lowered stays. */
static void keep_lowered(pass_counts *c) {
    c->n = c->n && strcmp(c->of[0].name, COMPILE_LOWERED_OPS) == 0;
}

static uint32_t pass_info_of(const pass_counts *from, rp_pass_info *out) {
    for (uint32_t i = 0; i < from->n; i++)
        out[i] = (rp_pass_info){from->of[i].name, from->of[i].matches, from->of[i].failures};
    return from->n;
}

static rp_status compile_plan(rp_compiled *c, const ir_graph *g, rp_compilation_config *cfg,
                              rp_error *err) {
    rp_status st = RP_OK;
    compile_toolchain tc = {0};
    compile_nvrtc nvrtc = {0};
    compile_stats stats = {0};
    compile_skips skips;
    compile_tuner tuner = {0};
    bool tunes = false;
    char *fields = NULL, *dump = NULL;
    hal_device_info dev;
    bool aot = strcmp(cfg->backend, "aot_eager") == 0;
    bool eager = api_is_op_by_op(cfg);
    compile_options o = {.toolchain = &tc,
                         .nvrtc = &nvrtc,
                         .store = c->store,
                         .room_user = &tc,
                         .keep_sources = cfg->compile_cache_save_format.v == CONFIG_SAVE_UNPACKED};
    keep_lowered(&c->passes);
    c->device->ops->info(c->device, &dev);
    o.threads = dev.n_threads;
    if (!is_gpu(&dev)) o.launch_threads = dev.n_threads;
    if (aot && is_gpu(&dev)) {
        st = rp_fail(err, RP_UNSUPPORTED,
                     "backend=aot_eager runs op by op, for which there are kernels of the host "
                     "alone; use device=cpu, or backend=eager");
        goto out;
    }
    RP_TRY_OUT(engine_isa_choose(cfg, &o.isa, err));
    o.exact = engine_isa_exact(cfg, dev.arch);
    if (is_gpu(&dev)) RP_TRY_OUT(compile_nvrtc_find(dev.arch, &nvrtc, err));
    if (!eager && !is_gpu(&dev)) RP_TRY_OUT(compile_toolchain_look(c->store, &tc, err));
    if (!eager && !is_gpu(&dev) && !tc.path) {
        RP_TRY_OUT(without_compiler(c, g, &tc, cfg, err));
        eager = true;
    }
    if (tc.path) o.room = make_folder;
    RP_TRY_OUT(rp_config_key_pieces(cfg, RP_KEY_PIECE, &fields, err));
    RP_TRY_OUT(compile_skips_of(cfg, &skips, err));
    o.skip_passes = skips.name;
    o.n_skip_passes = skips.n;
    const api_kept_ops kept = {cfg, &o.backend};
    o.keeps_op = api_keeps_op;
    o.keeps_user = &kept;
    o.extra_passes = skips.extra;
    o.n_extra_passes = skips.n_extra;
    o.keep_going = cfg->suppress_errors;
    o.pass_counts = &c->passes;
    o.backend = eager && !is_gpu(&dev) ? &compile_eager : api_compiler_of(cfg, is_gpu(&dev));
    o.passes = aot || !eager;
    if (o.backend == &compile_inductor || is_gpu(&dev))
        RP_TRY_OUT(compile_tuner_of(cfg, c->device, &tuner, &tunes, err));
    if (tunes) o.tuner = &tuner;
    RP_TRY_OUT(compile_built_in(cfg, &o.built_in, err));
    o.key_fields = fields;
    o.splitting_ops = (const char *const *)cfg->splitting_ops.v;
    o.n_splitting_ops = (uint32_t)cfg->splitting_ops.n;
    RP_TRY_OUT(compile_dump_dir(cfg, &dump, err));
    compile_log_step(g, &o, false);
    RP_TRY_OUT(compile_dump_stages(g, &o, dump, err));
    RP_TRY_OUT(compile_by_any(c, g, &o, &stats, cfg, err));
    eager = eager || o.backend == &compile_eager;
    compile_log_step(g, &o, true);
    RP_TRY_OUT(compile_dump_plan(c->p, g, dump, err));
    const uint32_t n_passes = pass_info_of(&c->passes, c->pass_info);
    c->info = (rp_compiled_info){.size = sizeof c->info,
                                 .pieces = stats.pieces,
                                 .compiled = stats.compiled,
                                 .distinct = stats.distinct,
                                 .kernels = stats.kernels,
                                 .compiles = stats.compiles,
                                 .cache_hits = stats.cache_hits,
                                 .backend = aot     ? "aot_eager"
                                            : eager ? "eager"
                                                    : "inductor",
                                 .reason = c->reason,
                                 .passes = n_passes ? c->pass_info : NULL,
                                 .n_passes = n_passes};
out:
    compile_tuner_done(&tuner);
    base_free(dump);
    rp_config_text_free(fields);
    compile_toolchain_done(&tc);
    compile_nvrtc_done(&nvrtc);
    return st;
}

/* Packed weights in memory of the device, or in huge pages where there are some and the weights fill a few: half of packing was faults of small ones. */
static rp_status make_room(rp_compiled *c, rp_error *err) {
    size_t size = (size_t)c->p->weights_size;
    if (c->memory)
        return c->memory->ops->alloc(c->memory, HAL_DEVICE_MEMORY, size, (void **)&c->packed, err);
    rp_error none = {0};
    if (size >= HUGE_FROM && base_huge_alloc(size, &c->packed_pages, &none) == RP_OK)
        c->packed = c->packed_pages.data;
    else
        c->packed = base_alloc_aligned(size, 4096);
    return c->packed ? RP_OK : rp_fail(err, RP_NOMEM, "%zu bytes of packed weights", size);
}

static rp_status make_executor(rp_compiled *c, rp_error *err) {
    const plan *p = c->p;
    if (p->weights_size > 0) RP_TRY(make_room(c, err));
    c->params = base_alloc_array(p->n_params + 1u, sizeof *c->params);
    if (c->memory) c->copies = base_alloc_array(p->n_params + 1u, sizeof *c->copies);
    if (!c->params || (c->memory && !c->copies)) return rp_fail(err, RP_NOMEM, "compiled graph");
    plan_exec_options o = {.device = c->device,
                           .store = c->store,
                           .builtin = compile_builtin_find,
                           .weights = c->packed,
                           .check_ops = c->check_ops};
    plan_exec *x = NULL;
    RP_TRY(plan_exec_new(p, &o, &x, err));
    hal_device *device = c->device;
    c->device = NULL;
    /* Calls that write the same states take turns. */
    return api_frames_new(p, device, x, p->n_states ? 1 : MOST_CALLS, &c->frames, err);
}

static rp_status has_op(void *user, const char *name, bool *out, rp_error *err) {
    (void)err;
    *out = ir_graph_splits_at(user, name);
    return RP_OK;
}

rp_status api_resolve(const ir_graph *g, rp_compilation_config *cfg, rp_error *err) {
    uint32_t n = 0;
    if (cfg->compile_sizes.n || cfg->compile_sizes.word)
        return rp_fail(err, RP_UNSUPPORTED,
                       "compile_sizes is not supported for a graph, whose symbols are what they "
                       "are; rp_jit_new and models make code for sizes");
    RP_TRY(config_refuse_ranges(cfg, err));
    rp_model_facts f = RP_MODEL_FACTS_INIT;
    f.splitting_ops = ir_registered_splitting_ops(&n);
    f.n_splitting_ops = n;
    f.backends = backend_names(&n);
    f.n_backends = n;
    f.has_op = has_op;
    f.user = (void *)(uintptr_t)g;
    RP_TRY(config_note_models(cfg, err));
    return rp_config_resolve(cfg, &f, err);
}

/* Buffers come with each call, from anywhere; a graph replays those of its capture. */
static rp_status note_graphs(rp_compilation_config *cfg, rp_error *err) {
    static const char reason[] = "rp_compile captures no graphs";
    const char *mode = rp_cudagraph_mode_name(rp_config_cudagraph_mode(cfg));
    char what[48];
    bool typed = cfg->typed[CONFIG_ID_cudagraph_mode] != NULL;
    if (rp_config_cudagraph_mode(cfg) == RP_CUDAGRAPH_NONE) return RP_OK;
    if (cfg->require_graph)
        return rp_fail(err, RP_UNSUPPORTED,
                       "cudagraph_mode=%s: %s; leave out require_graph, or run a model", mode,
                       reason);
    (void)snprintf(what, sizeof what, "cudagraph_mode=%s", mode);
    base_log(typed ? RP_LOG_WARNING : RP_LOG_INFO, "%s: %s", what, reason);
    return note_once(cfg, what, reason, err);
}

static rp_status open_store(rp_compiled *c, rp_compilation_config *cfg, rp_error *err) {
    RP_TRY(cache_store_open(cfg->cache_dir && *cfg->cache_dir ? cfg->cache_dir : NULL, &c->store,
                            err));
    const char *off = cache_store_off_reason(c->store);
    cache_store_sweep(c->store);
    if (!off) return RP_OK;
    cache_tell_off(off);
    return config_note_add(cfg, off, err, "cache");
}

static void drop_plan(rp_compiled *c) {
    if (c->p) api_weights_done(c);
    plan_free(c->p);
    c->p = NULL;
}

/* Stored code that cannot be loaded, or that somebody removed meanwhile, is to be made again. */
static bool worth_again(const rp_compiled *c, rp_status st) {
    if (!c->device) return false;
    if (st == RP_NOT_FOUND) return true;
    return st == RP_DEVICE && c->info.cache_hits > 0 &&
           plan_exec_reject_code(c->p, c->store, c->device) > 0;
}

/* The second time uses the cache again, the third does without: somebody goes on removing what is in it. */
static rp_status make(rp_compiled *c, const ir_graph *g, rp_compilation_config *cfg,
                      rp_error *err) {
    for (int turn = 0;; turn++) {
        rp_error why = {0};
        RP_TRY(compile_plan(c, g, cfg, err));
        rp_status st = make_executor(c, &why);
        if (st == RP_OK) return RP_OK;
        if (turn == 2 || !worth_again(c, st)) return rp_fail(err, st, "%s", why.text);
        if (turn == 1) cache_store_detach(c->store, why.text);
        drop_plan(c);
    }
}

/* What runs on the host cannot run between kernels of a GPU; where one of two or once more is the question, it asks. */
static rp_status check_host(const ir_graph *g, rp_compilation_config *cfg, rp_error *err) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        const rp_op_desc *d = ir_custom_of(n);
        const char *sees = api_host_sees(n, &compile_cuda);
        if (sees && ir_op_run_by_host(n->op)) {
            (void)rp_fail(err, RP_UNSUPPORTED, "custom op %s %s", ir_attr_get(n, IR_ATTR_NAME)->u.s,
                          !d ? "is not registered; register it with rp_op_register"
                          : d->cpu || d->c_source
                              ? "runs on the host; use device=cpu"
                              : "has no implementation for a GPU; register it with rp_op_register");
            ir_site_blame(g, r, err);
            return RP_UNSUPPORTED;
        }
        if (sees) RP_TRY(note_once(cfg, ir_op_table(n->op)->name, sees, err));
        for (uint32_t i = 0; i < 2 && ir_node_graph(n, i); i++)
            RP_TRY(check_host(ir_node_graph(n, i), cfg, err));
    }
    return RP_OK;
}

static rp_status open_device(rp_compiled *c, const rp_compilation_config *cfg, rp_error *err) {
    hal_device_info info;
    RP_TRY(c->shared ? device_queue(c->shared, &c->device, err)
                     : hal_open(cfg->device, (uint32_t)cfg->threads, &c->device, err));
    c->device->ops->info(c->device, &info);
    return info.unified ? RP_OK : hal_queue(c->device, &c->memory, err);
}

static rp_status note_mutated(rp_compiled *c, const ir_graph *g, rp_error *err) {
    uint32_t n = ir_leaf_count(g, IR_LEAF_INPUT);
    c->mutates = base_alloc_array(n + 1u, sizeof *c->mutates);
    if (!c->mutates) return rp_fail(err, RP_NOMEM, "compiled graph");
    for (uint32_t i = 0; i < n; i++)
        c->mutates[i] = ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i))->mutates;
    return RP_OK;
}

/* g as it is compiled: stages that are dumped, and what a GPU cannot run, are those of that. */
static rp_status lower_ops(rp_compiled *c, const ir_graph *g, const rp_compilation_config *cfg,
                           ir_graph **out, rp_error *err) {
    uint32_t n = 0;
    RP_TRY(api_lower_ops(api_compiler_of(cfg, c->memory != NULL), cfg, g, out, &n, err));
    pass_count *count = n ? pass_count_of(&c->passes, COMPILE_LOWERED_OPS) : NULL;
    if (count) count->matches = n;
    return RP_OK;
}

static rp_status compile_for_device(rp_compiled *c, const ir_graph *g, rp_compilation_config *cfg,
                                    rp_error *err) {
    if (c->memory) RP_TRY(check_host(g, cfg, err));
    RP_TRY(open_store(c, cfg, err));
    bool noted = cache_store_off_reason(c->store) != NULL;
    RP_TRY(make(c, g, cfg, err));
    RP_TRY(note_mutated(c, g, err));
    const char *why = cache_store_dropped_reason(c->store);
    return why && !noted ? config_note_add(cfg, why, err, "cache") : RP_OK;
}

/* check_ops watches functions, and some ops run as source. */
static rp_status note_unwatched(const rp_compiler *by, const ir_graph *g,
                                rp_compilation_config *cfg, rp_error *err) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        const rp_op_desc *d = ir_custom_of(n);
        char reason[320];
        for (uint32_t i = 0; i < 2 && ir_node_graph(n, i); i++)
            RP_TRY(note_unwatched(by, ir_node_graph(n, i), cfg, err));
        if (!d || !api_runs_source(by, d)) continue;
        (void)snprintf(reason, sizeof reason, "custom op %s is source, and not watched", d->name);
        RP_TRY(note_once(cfg, "check_ops", reason, err));
    }
    return RP_OK;
}

/* By one of the library's compilers. */
static rp_status compile_here(rp_compiled *c, const ir_graph *g, rp_compilation_config *cfg,
                              rp_error *err) {
    ir_graph *lowered = NULL;
    c->check_ops = cfg->check_ops;
    c->passes.n = 0;
    rp_status st = lower_ops(c, g, cfg, &lowered, err);
    if (st == RP_OK && cfg->check_ops)
        st = note_unwatched(api_compiler_of(cfg, c->memory != NULL), lowered ? lowered : g, cfg,
                            err);
    if (st == RP_OK) st = compile_for_device(c, lowered ? lowered : g, cfg, err);
    ir_graph_free(lowered);
    return st;
}

/* By inductor, whatever the configuration says of other graphs. */
static rp_status compile_instead(rp_compiled *c, const rp_graph *g, rp_compilation_config *cfg,
                                 rp_error *err) {
    static char inductor[] = "inductor";
    char *named = cfg->backend;
    cfg->backend = inductor;
    rp_status st = compile_here(c, trace_graph_ir(g), cfg, err);
    cfg->backend = named;
    return st;
}

/* A backend of somebody else. What it does not take is compiled here. */
static rp_status compile_by(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                            rp_compilation_config *cfg, rp_error *err) {
    char what[96];
    RP_TRY(api_foreign_compile(c, d, g, cfg, err));
    if (c->reason) {
        base_log(RP_LOG_WARNING, "%s", c->reason);
        (void)snprintf(what, sizeof what, "backend=%s", cfg->backend);
        RP_TRY(note_once(cfg, what, c->reason, err));
    }
    if (c->foreign) {
        c->info.n_passes = pass_info_of(&c->passes, c->pass_info);
        if (c->info.n_passes) c->info.passes = c->pass_info;
        return note_mutated(c, trace_graph_ir(g), err);
    }
    drop_plan(c);
    return compile_instead(c, g, cfg, err);
}

static rp_status compile_with(rp_compiled *c, const rp_graph *g, rp_compilation_config *cfg,
                              rp_error *err) {
    RP_TRY(api_resolve(trace_graph_ir(g), cfg, err));
    RP_TRY(note_graphs(cfg, err));
    RP_TRY(open_device(c, cfg, err));
    if (strcmp(cfg->backend, "cudagraphs") == 0)
        return rp_fail(
            err, RP_UNSUPPORTED,
            "backend=cudagraphs: rp_compile captures no graphs; give it to rp_jit_new, or "
            "call what is compiled within rp_autograph_run");
    const rp_backend_desc *d = backend_find(cfg->backend);
    return d ? compile_by(c, d, g, cfg, err) : compile_here(c, trace_graph_ir(g), cfg, err);
}

/* The device that is given is what the configuration says meanwhile: what is refused, and which passes run, goes by it. */
static rp_status compile_given(rp_compiled *c, const rp_graph *g, rp_compilation_config *cfg,
                               rp_error *err) {
    if (!c->shared) return compile_with(c, g, cfg, err);
    char name[32], *said = cfg->device;
    RP_TRY(device_agrees(c->shared, cfg, err));
    (void)snprintf(name, sizeof name, "%s", device_name(c->shared));
    cfg->device = name;
    rp_status st = compile_with(c, g, cfg, err);
    cfg->device = said;
    return st;
}

rp_compiled *api_compiled_new(rp_device *device) {
    rp_compiled *c = base_alloc(sizeof *c);
    if (!c) return NULL;
    (void)pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->refs, 1);
    c->shared = rp_device_ref(device);
    return c;
}

rp_status api_compile_piece(rp_device *device, const rp_graph *g, rp_compilation_config *cfg,
                            rp_compiled **out, rp_error *err) {
    rp_status st = RP_OK;
    rp_compiled *c = api_compiled_new(device);
    if (!c) return rp_fail(err, RP_NOMEM, "compiled graph");
    RP_TRY_OUT(ir_verify(trace_graph_ir(g), err));
    RP_TRY_OUT(api_check_sizes(trace_graph_ir(g), err));
    RP_TRY_OUT(open_device(c, cfg, err));
    RP_TRY_OUT(compile_instead(c, g, cfg, err));
    *out = c;
    c = NULL;
out:
    rp_compiled_free(c);
    return st;
}

rp_status rp_compile_on(rp_device *device, const rp_graph *g, rp_compilation_config *config,
                        rp_compiled **out, rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    rp_compilation_config *own = NULL;
    rp_compiled *c = NULL;
    RP_TRY(api_graph_ready(g, err));
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    RP_TRY(ir_verify(trace_graph_ir(g), err));
    RP_TRY(api_check_sizes(trace_graph_ir(g), err));
    c = api_compiled_new(device);
    if (!config) config = own = rp_config_new();
    if (!c || !config) {
        st = rp_fail(err, RP_NOMEM, "compiled graph");
        goto out;
    }
    RP_TRY_OUT(compile_given(c, g, config, err));
    if (!c->foreign && !c->memory && !c->p->n_states) c->repeatable.repeat = api_repeat;
    *out = c;
    c = NULL;
out:
    rp_compiled_free(c);
    rp_config_free(own);
    return st;
}

rp_status rp_compile(const rp_graph *g, rp_compilation_config *config, rp_compiled **out,
                     rp_error *err) {
    base_error_clear(err);
    return rp_compile_on(NULL, g, config, out, err);
}

void api_compiled_unref(rp_compiled *c) {
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
    if (c->p) api_weights_done(c); /* in memory of the device that goes with the frames */
    hal_close(c->memory);
    api_frames_free(c->frames);
    api_foreign_free(c->foreign);
    plan_free(c->p);
    base_free(c->reason);
    base_free(c->mutates);
    if (c->store) cache_store_close(c->store);
    hal_close(c->device);
    rp_device_close(c->shared);
    (void)pthread_mutex_destroy(&c->lock);
    base_free(c);
}

/* Graphs that were captured from it are invalid from now on, and let go of it when they are freed. */
void rp_compiled_free(rp_compiled *c) {
    if (!c) return;
    (void)atomic_fetch_add(&c->generation, 1);
    api_compiled_unref(c);
}

rp_status rp_compiled_get_info(const rp_compiled *c, rp_compiled_info *out, rp_error *err) {
    base_error_clear(err);
    if (!c) return rp_fail(err, RP_INVALID, "rp_compiled_get_info: graph must be given");
    return base_result_give(out, &c->info, sizeof c->info, "rp_compiled_info", err);
}
