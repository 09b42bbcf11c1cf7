/* Plans of step sizes that have code of their own: each of compile_sizes, and the ranges between compile_ranges_endpoints. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "compile/dump.h"
#include "compile/tune.h"
#include "engine/decode.h"
#include "engine/plans.h"
#include "engine/weights.h"

static bool same_names(const plan_leaf *a, uint32_t n_a, const plan_leaf *b, uint32_t n_b) {
    bool same = n_a == n_b;
    for (uint32_t i = 0; same && i < n_a; i++) same = strcmp(a[i].name, b[i].name) == 0;
    return same;
}

/* Whether steps of `own` can run in the place of those of `all`: with its leaves, behind which may be more inputs, and packed weights, in as many pieces. */
static bool is_alike(const plan *all, const plan *own, rp_error *err) {
    const uint32_t n = own->n_inputs < all->n_inputs ? own->n_inputs : all->n_inputs;
    bool alike = same_names(all->inputs, all->n_inputs, own->inputs, n) &&
                 same_names(all->outputs, all->n_outputs, own->outputs, own->n_outputs) &&
                 same_names(all->params, all->n_params, own->params, own->n_params) &&
                 same_names(all->states, all->n_states, own->states, own->n_states) &&
                 all->n_pieces == own->n_pieces;
    for (uint32_t i = 0; alike && i < own->n_params; i++)
        alike = all->params[i].read || !own->params[i].read;
    for (uint32_t i = 0; alike && i < own->n_pieces; i++)
        alike = all->pieces[i].splitting == own->pieces[i].splitting;
    return alike && engine_weights_alike(all, own, err);
}

enum { WHY = 440 }; /* engine_plans.missing, and what is behind it */

/* Into the next of p->sized; else the reason is in `why`, and the code of all sizes serves this one as well. */
static rp_status load_size(const engine_plans_options *o, engine_plans *p, char why[WHY],
                           rp_error *err) {
    engine_plans *own = &p->sized[p->n_sized];
    rp_error failed = {0};
    *why = 0;
    *own = (engine_plans){0};
    const rp_status st = engine_plans_load(o, own, err);
    if (own->no_compiler) { /* and no error (find_compiler) */
        (void)snprintf(why, WHY, "%s and nothing cached for it", own->missing);
        return RP_OK;
    }
    RP_TRY(st);
    own->first = o->first;
    own->last = o->last;
    if (is_alike(p->model, own->model, &failed) &&
        (!own->head || is_alike(p->head, own->head, &failed))) {
        p->n_sized++;
        return RP_OK;
    }
    engine_plans_done(own);
    (void)snprintf(why, WHY, "its plan has other pieces or weights than that of all sizes");
    return failed.code == RP_OK ? RP_OK : rp_fail(err, failed.code, "%s", failed.text);
}

/* One whose reason to be left out is noted under the setting that asked for it. */
static rp_status add(const engine_plans_options *o, rp_compilation_config *noted,
                     const char *setting, engine_plans *p, rp_error *err) {
    char why[WHY], shape[COMPILE_SHAPE];
    RP_TRY(load_size(o, p, why, err));
    if (!*why) return RP_OK;
    compile_shape_text(o->first, o->last, shape);
    return config_note_add(noted, why, err, "%s: %s", setting, shape);
}

/* Measured in every way, unless that was turned off. */
static rp_status add_sizes(const engine_plans_options *all, engine_plans *p, rp_error *err) {
    const config_sizes *sizes = &all->config->compile_sizes;
    engine_plans_options o = *all;
    rp_status st = RP_OK;
    if (!sizes->n) return RP_OK;
    RP_TRY(rp_config_clone(all->config, &o.config, err));
    if (strcmp(o.config->device, "null") != 0) /* that has nothing to measure */
        RP_TRY_OUT(config_autotune_all(o.config, err));
    for (size_t i = 0; i < sizes->n; i++) {
        o.first = o.last = sizes->v[i];
        RP_TRY_OUT(add(&o, all->config, "compile_sizes", p, err));
    }
out:
    rp_config_free(o.config);
    return st;
}

/* Up to each endpoint, and from the last one to the largest step. */
static rp_status add_ranges(const engine_plans_options *all, engine_plans *p, rp_error *err) {
    const config_ints *ends = &all->config->compile_ranges_endpoints;
    const int64_t most = all->config->max_num_batched_tokens.v;
    engine_plans_options o = *all;
    for (size_t i = 0; ends->n && o.last < most; i++) {
        const uint32_t before = p->n_sized;
        o.first = o.last + 1;
        o.last = i < ends->n ? ends->v[i] : most;
        RP_TRY(add(&o, all->config, "compile_ranges_endpoints", p, err));
        if (p->n_sized > before) p->sized[before].is_range = true;
    }
    return RP_OK;
}

static rp_status load_decode(const engine_plans_options *all, engine_plans *p, char why[WHY],
                             rp_error *err) {
    engine_plans_options o = *all;
    o.first = 1;
    o.decode_of = p;
    *why = 0;
    RP_TRY(engine_decode_can(&o, &o.last, err));
    return load_size(&o, p, why, err);
}

/* Where there are no kernels of decode steps, whatever the reason, the code of all sizes serves them. */
static rp_status add_decode(const engine_plans_options *o, engine_plans *p, rp_error *err) {
    char why[WHY];
    rp_error failed = {0};
    const uint32_t before = p->n_sized;
    const rp_status st = load_decode(o, p, why, &failed);
    if (st == RP_NOMEM || st == RP_CANCELLED) return rp_fail(err, st, "%s", failed.text);
    if (p->n_sized > before) {
        p->sized[before].decode = true;
        return RP_OK;
    }
    (void)snprintf(p->no_decode, sizeof p->no_decode, "%s", st == RP_OK ? why : failed.text);
    if (st != RP_OK && st != RP_UNSUPPORTED)
        base_log(RP_LOG_WARNING, "decode steps run the kernels of other steps: %s", p->no_decode);
    base_log_ch(RP_LOG_CH_AUTOTUNING, false, "decode steps run the kernels of other steps: %s",
                p->no_decode);
    return RP_OK;
}

rp_status engine_plans_load_sizes(const engine_plans_options *o, engine_plans *p, rp_error *err) {
    const size_t n = o->config->compile_sizes.n, n_ends = o->config->compile_ranges_endpoints.n;
    const bool decode = engine_decode_wanted(o);
    if (!n && !n_ends && !decode) return RP_OK;
    p->sized = base_alloc_array(n + n_ends + 2, sizeof *p->sized);
    if (!p->sized) return rp_fail(err, RP_NOMEM, "%zu step sizes", n + n_ends + decode);
    RP_TRY(add_sizes(o, p, err));
    if (decode) RP_TRY(add_decode(o, p, err));
    return add_ranges(o, p, err);
}
