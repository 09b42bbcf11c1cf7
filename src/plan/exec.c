/* A plan with its memory: code, records, custom ops, arena, leaves. What its launches are for given sizes: bound.c. */
#include "plan/exec_state.h"

#include <string.h>

#include "base/alloc.h"
#include "gen/gen.h"
#include "gen/templates.h"
#include "ir/custom.h"
#include "ir/op_attrs.h"
#include "plan/control.h"

/* --- code ------------------------------------------------------------------ */

/* Generated code for the host calls the products of the library, by the tables that it is given here. */
static void link_module(const plan_exec *x, hal_module *m) {
    hal_device_info info;
    hal_function link = {0};
    rp_error none = {0};
    x->device->ops->info(x->device, &info);
    if (*info.arch) return;
    if (x->device->ops->module_symbol(m, GEN_LINK_SYMBOL, &link, &none) != RP_OK) return;
    link.host(gen_templates, NULL, 0, 0, NULL);
}

static rp_status load_modules(plan_exec *x, const plan_exec_options *opt, rp_error *err) {
    for (uint32_t i = 0; i < x->p->n_modules; i++) {
        char *path = NULL;
        if (!opt->store)
            return rp_fail(err, RP_INVALID, "plan %s has code but no cache to load it from",
                           x->p->name);
        rp_status st =
            cache_get_code(opt->store, x->p->modules[i].key, x->p->modules[i].isa_bits, &path, err);
        if (st == RP_NOT_FOUND)
            return rp_fail(err, st, "code of plan %s is no longer in the cache; run it again",
                           x->p->name);
        RP_TRY(st);
        st = x->device->ops->module_load(x->device, path, &x->modules[i], err);
        base_free(path);
        RP_TRY(st);
        link_module(x, x->modules[i]);
    }
    return RP_OK;
}

uint32_t plan_exec_reject_code(const plan *p, cache_store *s, hal_device *d) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_inner; i++) n += plan_exec_reject_code(p->inner[i], s, d);
    for (uint32_t i = 0; i < p->n_modules; i++) {
        char *path = NULL;
        hal_module *m = NULL;
        rp_error err = {0};
        if (cache_get_code(s, p->modules[i].key, p->modules[i].isa_bits, &path, &err) != RP_OK)
            continue;
        if (d->ops->module_load(d, path, &m, &err) == RP_DEVICE) {
            cache_reject(s, CACHE_CODE, p->modules[i].key, err.text);
            n++;
        }
        if (m) d->ops->module_free(m);
        base_free(path);
    }
    return n;
}

/* Products and attention share much in a block; rows that are read are rather in the cache. One division for all launches of a plan. */
static bool shares_much(const plan *p) {
    enum { MUCH = 32 << 10 };
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t k = 0; k < p->launches[i].n_alts; k++)
            if (p->launches[i].alts[k].scratch > MUCH) return true;
    return false;
}

static rp_status find_functions(plan_exec *x, const plan_exec_options *opt, rp_error *err) {
    const hal_device_ops *ops = x->device->ops;
    const bool caches = ops->function_caches && !shares_much(x->p);
    for (uint32_t i = 0; i < x->p->n_functions; i++) {
        const plan_function *f = &x->p->functions[i];
        if (f->module == PLAN_BUILTIN) {
            x->functions[i].host = opt->builtin ? opt->builtin(f->symbol) : NULL;
            if (!x->functions[i].host)
                return rp_fail(err, RP_CORRUPT,
                               "plan %s wants built-in kernel %s, which is not here", x->p->name,
                               f->symbol);
        } else {
            RP_TRY(ops->module_symbol(x->modules[f->module], f->symbol, &x->functions[i], err));
            if (caches) RP_TRY(ops->function_caches(x->device, x->functions[i], err));
        }
    }
    return RP_OK;
}

rp_status plan_exec_function(const plan_exec *x, const char *symbol, hal_function *out,
                             rp_error *err) {
    for (uint32_t i = 0; i < x->p->n_functions; i++)
        if (strcmp(x->p->functions[i].symbol, symbol) == 0) {
            *out = x->functions[i];
            return RP_OK;
        }
    return rp_fail(err, RP_INTERNAL, "plan %s has no function %s", x->p->name, symbol);
}

/* Kernels read records through an argument, so they lie where arguments may point. */
static rp_status place_consts(plan_exec *x, rp_error *err) {
    void *block = NULL;
    x->const_at = base_alloc_array(x->p->n_consts + 1u, sizeof *x->const_at);
    if (!x->const_at) return rp_fail(err, RP_NOMEM, "executor");
    for (uint32_t i = 0; i < x->p->n_consts; i++) {
        x->const_at[i] = x->consts_size;
        x->consts_size += ((size_t)x->p->consts[i].size + 63) / 64 * 64;
    }
    if (x->consts_size == 0) return RP_OK;
    RP_TRY(x->device->ops->alloc(x->device, HAL_DEVICE_MEMORY, x->consts_size, &block, err));
    x->consts = block;
    for (uint32_t i = 0; i < x->p->n_consts; i++)
        RP_TRY(x->device->ops->copy(x->device, x->consts + x->const_at[i], x->p->consts[i].data,
                                    x->p->consts[i].size, err));
    return RP_OK;
}

/* What launch l calls. A plan of an earlier process may be of another registration: the schema is asked again. */
static rp_status find_custom(plan_exec *x, const plan_launch *l, plan_custom_call *out,
                             rp_error *err) {
    const rp_op_desc *d = ir_custom_find(l->custom);
    const rp_op_attr *given;
    uint32_t n;
    if (!d || !d->cpu)
        return rp_fail(err, RP_UNSUPPORTED, "custom op %s %s; call rp_op_register before loading",
                       l->custom, d ? "has no implementation for cpu" : "is not registered");
    if (l->n_args < ir_custom_results(d))
        return rp_fail(err, RP_INVALID, "custom op %s has %u results; the plan has %u arguments",
                       l->custom, ir_custom_results(d), l->n_args);
    if (!x->attrs) x->attrs = base_arena_new();
    rp_op_attr *all = x->attrs ? base_arena_array(x->attrs, RP_MAX_OP_ATTRS, sizeof *all) : NULL;
    if (!all) return rp_fail(err, RP_NOMEM, "custom ops");
    RP_TRY(ir_op_attrs_parse(x->attrs, l->attrs, &given, &n, err));
    RP_TRY(ir_op_attrs_complete(d, given, n, all, err));
    out->op = d;
    out->call = ir_custom_call_of(d, all, l->n_args - ir_custom_results(d));
    return RP_OK;
}

static rp_status find_customs(plan_exec *x, bool checked, rp_error *err) {
    for (uint32_t i = 0; i < x->p->n_launches; i++) {
        const plan_launch *l = &x->p->launches[i];
        if (!l->custom) continue;
        if (!x->calls) x->calls = base_alloc_array(x->p->n_launches, sizeof *x->calls);
        if (!x->calls) return rp_fail(err, RP_NOMEM, "custom ops");
        x->calls[i] = (plan_custom_call){.of = x, .launch = l, .checked = checked};
        RP_TRY(find_custom(x, l, &x->calls[i], err));
    }
    return RP_OK;
}

/* Those of x, or with the code of another executor's. */
static rp_status make_running(plan_exec *x, const plan_exec_options *opt, const plan_exec *of,
                              rp_error *err) {
    const plan *p = x->p;
    if (p->n_inner == 0) return RP_OK;
    x->running = base_alloc_array(p->n_launches, sizeof *x->running);
    if (!x->running) return rp_fail(err, RP_NOMEM, "executor");
    for (uint32_t i = 0; i < p->n_launches; i++) {
        if (!p->launches[i].control) continue;
        if (of)
            RP_TRY(plan_running_again(of->running[i], x->device, &x->running[i], err));
        else
            RP_TRY(plan_running_new(p, &p->launches[i], opt, &x->running[i], err));
    }
    return RP_OK;
}

static uint32_t leaf_count(const plan *p, plan_seg s) {
    return s == PLAN_INPUT    ? p->n_inputs
           : s == PLAN_OUTPUT ? p->n_outputs
           : s == PLAN_PARAM  ? p->n_params
           : s == PLAN_STATE  ? p->n_states
                              : 0;
}

/* Arena, unless the caller gave one, and pointers of leaves. */
static rp_status make_memory(plan_exec *x, rp_error *err) {
    const plan *p = x->p;
    for (int s = PLAN_INPUT; s <= PLAN_STATE; s++) {
        x->leaves[s] = base_alloc_array(leaf_count(p, (plan_seg)s) + 1u, sizeof(void *));
        if (!x->leaves[s]) return rp_fail(err, RP_NOMEM, "executor");
    }
    if (plan_has_grown(p)) {
        x->grown = base_alloc_array(p->n_values, sizeof *x->grown);
        if (!x->grown) return rp_fail(err, RP_NOMEM, "executor");
    }
    if (x->arena || x->lent_arena || p->n_values == 0) return RP_OK;
    void *a = NULL;
    size_t size = p->arena_size > 0 ? (size_t)p->arena_size : 1; /* tokens want an address, too */
    RP_TRY(x->device->ops->alloc(x->device, HAL_DEVICE_MEMORY, size, &a, err));
    x->arena = a;
    x->own_arena = size;
    return RP_OK;
}

rp_status plan_exec_new(const plan *p, const plan_exec_options *opt, plan_exec **out,
                        rp_error *err) {
    rp_status st = RP_OK;
    plan_exec *x = base_alloc(sizeof *x);
    if (!x) return rp_fail(err, RP_NOMEM, "executor");
    *x = (plan_exec){.p = p,
                     .device = opt->device,
                     .weights = opt->weights,
                     .arena = opt->arena,
                     .lent_arena = opt->lent_arena};
    x->modules = base_alloc_array(p->n_modules + 1u, sizeof(hal_module *));
    x->functions = base_alloc_array(p->n_functions + 1u, sizeof(hal_function));
    if (!x->modules || !x->functions) {
        st = rp_fail(err, RP_NOMEM, "executor");
        goto out;
    }
    RP_TRY_OUT(make_memory(x, err));
    RP_TRY_OUT(place_consts(x, err));
    RP_TRY_OUT(load_modules(x, opt, err));
    RP_TRY_OUT(find_functions(x, opt, err));
    RP_TRY_OUT(find_customs(x, opt->check_ops, err));
    RP_TRY_OUT(make_running(x, opt, NULL, err));
    *out = x;
    x = NULL;
out:
    plan_exec_free(x);
    return st;
}

rp_status plan_exec_again(const plan_exec *x, hal_device *device, plan_exec **out, rp_error *err) {
    plan_exec *y = base_alloc(sizeof *y);
    if (!y) return rp_fail(err, RP_NOMEM, "executor");
    /* Nothing of a run: x may be in one, of another thread. */
    *y = (plan_exec){.p = x->p,
                     .device = device,
                     .first = x->first ? x->first : x,
                     .modules = x->modules,
                     .functions = x->functions,
                     .weights = x->weights,
                     .calls = x->calls,
                     .lent_arena = x->lent_arena,
                     .consts = x->consts,
                     .const_at = x->const_at,
                     .consts_size = x->consts_size};
    rp_status st = make_memory(y, err);
    if (st == RP_OK) st = make_running(y, NULL, x, err);
    if (st != RP_OK) {
        plan_exec_free(y);
        return st;
    }
    for (int s = PLAN_PARAM; s <= PLAN_STATE; s++)
        memcpy(y->leaves[s], x->leaves[s], leaf_count(x->p, (plan_seg)s) * sizeof(void *));
    *out = y;
    return RP_OK;
}

void plan_exec_free(plan_exec *x) {
    if (!x) return;
    if (x->own_arena) x->device->ops->release(x->device, x->arena, x->own_arena);
    for (uint32_t i = 0; x->grown && i < x->p->n_values; i++)
        if (x->grown[i].data && !x->grown[i].lent)
            x->device->ops->release(x->device, x->grown[i].data, x->grown[i].size);
    base_free(x->grown);
    for (int s = 0; s < PLAN_SEG_COUNT_; s++) base_free(x->leaves[s]);
    for (uint32_t i = 0; x->running && i < x->p->n_launches; i++) plan_running_free(x->running[i]);
    base_free(x->running);
    if (x->first) {
        base_free(x);
        return;
    }
    if (x->consts) x->device->ops->release(x->device, x->consts, x->consts_size);
    base_free(x->const_at);
    for (uint32_t i = 0; x->modules && i < x->p->n_modules; i++)
        if (x->modules[i]) x->device->ops->module_free(x->modules[i]);
    base_free(x->modules);
    base_free(x->functions);
    base_free(x->calls);
    base_arena_free(x->attrs);
    base_free(x);
}

void plan_exec_set(plan_exec *x, plan_seg seg, uint32_t idx, void *p) {
    if (idx < leaf_count(x->p, seg)) x->leaves[seg][idx] = p;
}

void plan_exec_set_context(plan_exec *x, const rp_forward_context *context) {
    x->context = context;
}

void plan_exec_set_weights(plan_exec *x, const uint8_t *weights) {
    x->weights = weights;
}

void *plan_exec_get(const plan_exec *x, plan_seg seg, uint32_t idx) {
    return idx < leaf_count(x->p, seg) ? x->leaves[seg][idx] : NULL;
}

void plan_exec_set_arena(plan_exec *x, void *arena) {
    x->arena = arena;
}

size_t plan_exec_arena_bytes(const plan_exec *x) {
    return x->own_arena;
}

void *plan_exec_arena(const plan_exec *x) {
    return x->arena;
}

size_t plan_exec_const_bytes(const plan_exec *x) {
    return x->consts_size;
}

const void *plan_exec_consts(const plan_exec *x) {
    return x->consts;
}

void plan_exec_lend(plan_exec *x, uint32_t value, void *data, size_t size) {
    if (x->grown && value < x->p->n_values && x->p->values[value].offset == PLAN_GROWS)
        x->grown[value] = (plan_grown){data, size, true};
}

bool plan_has_grown(const plan *p) {
    for (uint32_t i = 0; i < p->n_inner; i++)
        if (plan_has_grown(p->inner[i])) return true;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->values[i].offset == PLAN_GROWS) return true;
    return false;
}

rp_status plan_exec_poison(plan_exec *x, rp_error *err) {
    for (uint32_t i = 0; x->grown && i < x->p->n_values; i++)
        if (x->grown[i].data)
            RP_TRY(x->device->ops->fill(x->device, x->grown[i].data, 0xff, x->grown[i].size, err));
    if (!x->arena) return RP_OK;
    return x->device->ops->fill(x->device, x->arena, 0xff, (size_t)x->p->arena_size, err);
}
