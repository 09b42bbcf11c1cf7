/* What captures calls of a function, and what chooses its code: `mode`, and the settings of device graphs in its configuration. */
#include "backend/registry.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "config/config.h"
#include "front/front.h"

#include <string.h>

/* A mode of torch.compile. */
typedef struct named {
    const char *name;
    bool graphs, tunes;
} named;
static const named modes[] = {{"default", false, false},
                              {"reduce-overhead", true, false},
                              {"max-autotune", true, true},
                              {"max-autotune-no-cudagraphs", false, true}};
enum { N_MODES = sizeof modes / sizeof *modes };

static rp_status find_mode(const char *name, const named **out, rp_error *err) {
    for (size_t i = 0; i < N_MODES; i++)
        if (!name || strcmp(modes[i].name, name) == 0) {
            *out = &modes[i];
            return RP_OK;
        }
    return rp_fail(err, RP_CONFIG,
                   "mode=%.40s is none; there are default, reduce-overhead, max-autotune and "
                   "max-autotune-no-cudagraphs",
                   name);
}

static bool is_inductor(const rp_compilation_config *c) {
    return !*c->backend || strcmp(c->backend, "inductor") == 0;
}

/* A mode is one of the compiler that generates code. */
static rp_status check_mode(const rp_jit *f, const named *m, rp_error *err) {
    const rp_compilation_config *c = f->config;
    if (!m->graphs && !m->tunes) return RP_OK;
    if (!is_inductor(c))
        return rp_fail(err, RP_CONFIG,
                       "mode=%s is of backend=inductor, not of %.40s; leave one out", m->name,
                       c->backend);
    if (c->enforce_eager || (c->typed[CONFIG_ID_level] && c->level < RP_LEVEL_DYNAMO_ONCE))
        return rp_fail(err, RP_CONFIG, "mode=%s needs level 2 or 3; below nothing is generated",
                       m->name);
    bool none = c->cudagraph_mode.set && c->cudagraph_mode.v == RP_CUDAGRAPH_NONE;
    if (m->graphs && (none || !c->use_cudagraph))
        return rp_fail(err, RP_CONFIG, "mode=%s contradicts %s; give one of the two", m->name,
                       none ? "cudagraph_mode=NONE" : "use_cudagraph=false");
    return RP_OK;
}

/* backend=cudagraphs captures; what says that nothing is captured says something else. */
static rp_status check_backend(const rp_compilation_config *c, rp_error *err) {
    bool none = c->cudagraph_mode.set && c->cudagraph_mode.v == RP_CUDAGRAPH_NONE;
    if (strcmp(c->backend, "cudagraphs") != 0 || (!none && c->use_cudagraph)) return RP_OK;
    return rp_fail(err, RP_CONFIG, "backend=cudagraphs contradicts %s; give one of the two",
                   none ? "cudagraph_mode=NONE" : "use_cudagraph=false");
}

/* Graphs of a function copy inputs in any mode, and rp_compile makes none: it is not told of this. */
static rp_status take_copies(rp_jit *f, const named *m, rp_error *err) {
    const rp_compilation_config *c = f->config;
    bool graphs = m->graphs || (c->cudagraph_mode.set && c->cudagraph_mode.v != RP_CUDAGRAPH_NONE);
    if (!c->cudagraph_copy_inputs || !graphs) return RP_OK;
    f->capture.copies = true;
    return rp_config_set_key(f->config, "cudagraph_copy_inputs", "null", err);
}

/* Who asks for a function that is compiled wants something compiled, whatever else the configuration says. */
static bool says_level(const rp_compilation_config *c) {
    return c->typed[CONFIG_ID_level] || c->typed[CONFIG_ID_optimization_level] || c->enforce_eager;
}

/* Beside the options that are given, which are held as elsewhere. */
static rp_status take_tuning(rp_jit *f, const named *m, rp_error *err) {
    config_autotune given;
    RP_TRY(config_autotune_of(f->config, &given, err));
    if (given.list_off || given.descend_off)
        return rp_fail(err, RP_CONFIG,
                       "mode=%s contradicts inductor_compile_config.%s=false; give one of the two",
                       m->name, given.list_off ? "max_autotune" : "coordinate_descent_tuning");
    RP_TRY(rp_config_set(f->config, "inductor_compile_config.max_autotune=true", err));
    return rp_config_set(f->config, "inductor_compile_config.coordinate_descent_tuning=true", err);
}

rp_status front_mode_take(rp_jit *f, const char *mode, rp_error *err) {
    const named *m = NULL;
    RP_TRY(find_mode(mode, &m, err));
    RP_TRY(check_mode(f, m, err));
    RP_TRY(check_backend(f->config, err));
    RP_TRY(take_copies(f, m, err));
    f->capture.named = m->graphs;
    if (!says_level(f->config)) RP_TRY(rp_config_set(f->config, "level=2", err));
    return m->tunes ? take_tuning(f, m, err) : RP_OK;
}

/* --- graphs ------------------------------------------------------------------------------------- */

static rp_status check_routine(const rp_jit *f, rp_cudagraph_mode mode, rp_error *err) {
    if (!rp_cudagraph_separate_routine(mode) || f->uniform) return RP_OK;
    return rp_fail(err, RP_CONFIG,
                   "cudagraph_mode=%s tells uniform batches from others: give "
                   "rp_jit_options.uniform",
                   rp_cudagraph_mode_name(mode));
}

/* What cudagraph_mode asks for is done here, not by rp_compile. */
static rp_status take_over(rp_jit *f, rp_error *err) {
    f->capture.required = f->config->require_graph;
    f->config->require_graph = false;
    return rp_config_set(f->config, "cudagraph_mode=NONE", err);
}

/* Level 0 is the function itself, at each call. */
static rp_status tell_eager(const rp_jit *f, bool typed, rp_cudagraph_mode asked, rp_error *err) {
    const char *why = f->disabled ? "enable_if of the model says no"
                                  : "level 0 of a function captures nothing";
    const char *name = rp_cudagraph_mode_name(asked);
    if (!typed || asked == RP_CUDAGRAPH_NONE) return RP_OK;
    if (f->config->require_graph)
        return rp_fail(err, RP_CONFIG, "require_graph: cudagraph_mode=%s: %s", name, why);
    base_log(RP_LOG_WARNING, "cudagraph_mode=%s: %s", name, why);
    return RP_OK;
}

rp_status front_mode_graphs(rp_jit *f, const rp_compilation_config *resolved, bool host,
                            rp_error *err) {
    front_capture *c = &f->capture;
    bool typed = f->config->typed[CONFIG_ID_cudagraph_mode] != NULL;
    bool backend = strcmp(f->config->backend, "cudagraphs") == 0;
    rp_cudagraph_mode asked = (rp_cudagraph_mode)resolved->cudagraph_mode.v;
    if (f->eager) return tell_eager(f, typed, asked, err);
    if (!(typed || backend || c->named)) /* rp_compile is not asked for what nobody asked for */
        return asked == RP_CUDAGRAPH_NONE ? RP_OK
                                          : rp_config_set(f->config, "cudagraph_mode=NONE", err);
    c->mode = typed ? asked : RP_CUDAGRAPH_FULL;
    if (c->mode == RP_CUDAGRAPH_NONE) return RP_OK;
    RP_TRY(check_routine(f, c->mode, err));
    c->borrows = !backend;
    c->in_place = typed && !c->named && !backend && !c->copies;
    /* Also the mode that a level has by itself: rp_compile would say of each piece that it is not captured. */
    if (typed || f->config->require_graph || asked != RP_CUDAGRAPH_NONE) RP_TRY(take_over(f, err));
    /* Kernels of one op, as the device has them. */
    if (backend) RP_TRY(rp_config_set_key(f->config, "backend", host ? "aot_eager" : "eager", err));
    RP_TRY(rp_autograph_default(f->device, &c->manager, err));
    return autograph_lease_new(NULL, 0, &c->lease, err);
}

rp_cudagraph_mode front_mode_of_call(const rp_jit *f, const rp_value *args) {
    rp_cudagraph_mode mode = f->capture.mode;
    if (!rp_cudagraph_separate_routine(mode)) return mode;
    return f->uniform(f->user, args) ? rp_cudagraph_decode_mode(mode)
                                     : rp_cudagraph_mixed_mode(mode);
}
