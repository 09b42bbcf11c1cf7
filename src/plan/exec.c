/* Binds a plan to memory and code. A bound list keeps its argument and dim arrays in one block each, laid out
 * once, so that binding for other sizes only rewrites numbers. */
#include "plan/exec.h"

#include <string.h>

#include "base/alloc.h"
#include "gen/gen.h"
#include "gen/templates.h"
#include "ir/custom.h"
#include "plan/control.h"

/* What a host call needs to know; its sizes come with the call, so that a device graph replays those of its capture. */
typedef struct custom_call {
    const rp_op_desc *op;
    const plan_launch *launch;
} custom_call;

/* Memory of a value without a bound. */
typedef struct grown {
    void *data;
    size_t size;
} grown;

struct plan_exec {
    const plan *p;
    hal_device *device;
    const plan_exec *first; /* whose code, calls and constants these are; NULL: its own */
    hal_module **modules;
    hal_function *functions;
    const uint8_t *weights;
    uint8_t *arena;
    size_t own_arena;       /* bytes to release; 0 = the caller's */
    grown *grown;           /* by value; NULL when every one has a bound */
    custom_call *calls;     /* by launch; NULL when no launch is a custom op */
    plan_running **running; /* by launch: of control launches; NULL when there are none */
    bool lent_arena;
    uint8_t *consts; /* the records, in device memory */
    size_t *const_at, consts_size;
    void **leaves[PLAN_SEG_COUNT_];
};

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

static rp_status find_functions(plan_exec *x, const plan_exec_options *opt, rp_error *err) {
    for (uint32_t i = 0; i < x->p->n_functions; i++) {
        const plan_function *f = &x->p->functions[i];
        if (f->module == PLAN_BUILTIN) {
            x->functions[i].host = opt->builtin ? opt->builtin(f->symbol) : NULL;
            if (!x->functions[i].host)
                return rp_fail(err, RP_CORRUPT,
                               "plan %s wants built-in kernel %s, which is not here", x->p->name,
                               f->symbol);
        } else {
            RP_TRY(x->device->ops->module_symbol(x->modules[f->module], f->symbol, &x->functions[i],
                                                 err));
        }
    }
    return RP_OK;
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

static rp_status find_customs(plan_exec *x, rp_error *err) {
    for (uint32_t i = 0; i < x->p->n_launches; i++) {
        const plan_launch *l = &x->p->launches[i];
        if (!l->custom) continue;
        if (!x->calls) x->calls = base_alloc_array(x->p->n_launches, sizeof *x->calls);
        if (!x->calls) return rp_fail(err, RP_NOMEM, "custom ops");
        x->calls[i] = (custom_call){ir_custom_find(l->custom), l};
        if (!x->calls[i].op || !x->calls[i].op->cpu)
            return rp_fail(err, RP_UNSUPPORTED,
                           "custom op %s %s; call rp_op_register before loading", l->custom,
                           x->calls[i].op ? "has no implementation for cpu" : "is not registered");
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
    RP_TRY_OUT(find_customs(x, err));
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
        if (x->grown[i].data)
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
    base_free(x);
}

void plan_exec_set(plan_exec *x, plan_seg seg, uint32_t idx, void *p) {
    if (idx < leaf_count(x->p, seg)) x->leaves[seg][idx] = p;
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
    return (size_t)x->p->arena_size;
}

size_t plan_exec_const_bytes(const plan_exec *x) {
    return x->consts_size;
}

const void *plan_exec_consts(const plan_exec *x) {
    return x->consts;
}

bool plan_has_grown(const plan *p) {
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

/* --- custom ops ------------------------------------------------------------ */

static rp_status call_custom(void *user, void *const *arg, const long long *dim, rp_error *err) {
    const custom_call *c = user;
    rp_buffer bufs[PLAN_MAX_CUSTOM_ARGS];
    for (uint32_t i = 0; i < c->launch->n_args; i++) {
        const plan_leaf *l = &c->launch->operands[i];
        bufs[i] = (rp_buffer){.dtype = l->dtype, .rank = l->rank, .data = arg[i]};
        for (uint32_t d = 0; d < l->rank; d++)
            bufs[i].dim[d] = ir_dim_code_eval_ll(&l->dim[d], dim);
    }
    return ir_custom_call(c->op, bufs, c->launch->n_args, err);
}

/* --- bound lists ------------------------------------------------------------ */

typedef struct bound_range {
    uint32_t first, n; /* launches */
    uint32_t n_args;
} bound_range;

/* The public part plus what binding needs to know again. */
typedef struct bound {
    plan_bound pub;
    bound_range range;
    uint32_t *dim_at; /* where each dim map starts in dims */
} bound;

static bound_range range_of(const plan *p, uint32_t first_piece, uint32_t n_pieces) {
    bound_range r = {0};
    if (n_pieces == 0) return r;
    const plan_piece *a = &p->pieces[first_piece], *z = &p->pieces[first_piece + n_pieces - 1];
    r.first = a->first;
    r.n = z->first + z->n - a->first;
    for (uint32_t i = r.first; i < r.first + r.n; i++) r.n_args += p->launches[i].n_args;
    return r;
}

void plan_bound_free(plan_bound *b) {
    bound *o = (bound *)b;
    if (!o) return;
    base_free(o->pub.launches);
    base_free(o->pub.args);
    base_free(o->pub.arg_sizes);
    base_free(o->pub.dims);
    base_free(o->dim_at);
    base_free(o);
}

/* Everything that does not change with the sizes. */
static void fill_constant(const plan_exec *x, bound *b) {
    void **args = b->pub.args;
    size_t *sizes = b->pub.arg_sizes;
    for (uint32_t i = 0; i < b->range.n; i++) {
        const plan_launch *l = &x->p->launches[b->range.first + i];
        hal_launch *h = &b->pub.launches[i];
        *h = (hal_launch){.kind = HAL_KERNEL,
                          .name = l->name,
                          .arg = args,
                          .arg_size = sizes,
                          .n_arg = l->n_args,
                          .grain = l->grain,
                          .threads = l->threads,
                          .per_block = l->per_block,
                          .attention = l->attention};
        args += l->n_args;
        sizes += l->n_args;
        if (!plan_launch_is_plain(l)) {
            h->kind = l->custom ? HAL_HOST_CALL : HAL_LISTS;
            h->call = l->custom ? call_custom : NULL;
            h->next = l->control ? plan_running_next : NULL;
            h->user = l->custom ? (void *)&x->calls[b->range.first + i]
                                : (void *)x->running[b->range.first + i];
            h->dim = b->pub.dims;
            h->n_dim = x->p->n_symbols;
        } else {
            h->dim = b->pub.dims + b->dim_at[l->dim_map];
            h->n_dim = x->p->dim_maps[l->dim_map].n;
        }
    }
}

rp_status plan_bound_new(const plan_exec *x, uint32_t first_piece, uint32_t n_pieces,
                         plan_bound **out, rp_error *err) {
    rp_status st = RP_OK;
    const plan *p = x->p;
    if (first_piece > p->n_pieces || n_pieces > p->n_pieces - first_piece)
        return rp_fail(err, RP_INVALID, "pieces %u..%u of %u", first_piece, first_piece + n_pieces,
                       p->n_pieces);
    bound *b = base_alloc(sizeof *b);
    if (!b) return rp_fail(err, RP_NOMEM, "launch list");
    b->range = range_of(p, first_piece, n_pieces);
    uint32_t n_dims = p->n_symbols + 1; /* custom ops see the plan's own order, at the front */
    b->dim_at = base_alloc_array(p->n_dim_maps + 1u, sizeof *b->dim_at);
    for (uint32_t i = 0; b->dim_at && i < p->n_dim_maps; i++) {
        b->dim_at[i] = n_dims;
        n_dims += p->dim_maps[i].n + 1;
    }
    b->pub.n = b->range.n;
    b->pub.launches = base_alloc_array(b->range.n + 1u, sizeof *b->pub.launches);
    b->pub.args = base_alloc_array(b->range.n_args + 1u, sizeof *b->pub.args);
    b->pub.arg_sizes = base_alloc_array(b->range.n_args + 1u, sizeof *b->pub.arg_sizes);
    b->pub.dims = base_alloc_array(n_dims, sizeof *b->pub.dims);
    if (!b->dim_at || !b->pub.launches || !b->pub.args || !b->pub.arg_sizes || !b->pub.dims) {
        st = rp_fail(err, RP_NOMEM, "list of %u launches", b->range.n);
        goto out;
    }
    fill_constant(x, b);
    *out = &b->pub;
    b = NULL;
out:
    plan_bound_free(b ? &b->pub : NULL);
    return st;
}

static void *resolve(const plan_exec *x, const plan_arg *a) {
    switch (a->seg) {
    case PLAN_PACK:
        return x->weights ? (void *)(uintptr_t)(x->weights + x->p->packs[a->idx].offset) : NULL;
    case PLAN_CONST: return x->consts + x->const_at[a->idx];
    case PLAN_ARENA:
        return x->p->values[a->idx].offset == PLAN_GROWS ? x->grown[a->idx].data
                                                         : x->arena + x->p->values[a->idx].offset;
    default: return x->leaves[a->seg][a->idx];
    }
}

/* Bytes of what an argument points to. */
static size_t bytes_of(const plan *p, const plan_arg *a, const int64_t *symbols) {
    switch (a->seg) {
    case PLAN_INPUT: return (size_t)plan_size_eval(&p->inputs[a->idx].bytes, symbols);
    case PLAN_OUTPUT: return (size_t)plan_size_eval(&p->outputs[a->idx].bytes, symbols);
    case PLAN_PARAM: return (size_t)plan_size_eval(&p->params[a->idx].bytes, symbols);
    case PLAN_STATE: return (size_t)plan_size_eval(&p->states[a->idx].bytes, symbols);
    case PLAN_PACK: return (size_t)p->packs[a->idx].size;
    case PLAN_CONST: return p->consts[a->idx].size;
    case PLAN_ARENA: return (size_t)plan_size_eval(&p->values[a->idx].bytes, symbols);
    case PLAN_SEG_COUNT_: break;
    }
    return 0;
}

rp_status plan_check_symbols(const plan *p, const int64_t *symbols, rp_error *err) {
    for (uint32_t i = 0; i < p->n_symbols; i++)
        if (symbols[i] < p->symbols[i].min || symbols[i] > p->symbols[i].max)
            return rp_fail(err, RP_INVALID,
                           "%s = %lld is outside [%lld, %lld] that plan %s was compiled for",
                           p->symbols[i].name, (long long)symbols[i], (long long)p->symbols[i].min,
                           (long long)p->symbols[i].max, p->name);
    return RP_OK;
}

static const char *leaf_name(const plan *p, const plan_arg *a) {
    switch (a->seg) {
    case PLAN_INPUT: return p->inputs[a->idx].name;
    case PLAN_OUTPUT: return p->outputs[a->idx].name;
    case PLAN_PARAM: return p->params[a->idx].name;
    case PLAN_STATE: return p->states[a->idx].name;
    case PLAN_PACK: return "the packed weights";
    default: return "memory";
    }
}

static void set_blocks(const plan_launch *l, const plan_alt *a, hal_launch *h) {
    h->threads = a->threads ? a->threads : l->threads;
    h->per_sm = a->per_sm;
    h->per_block = a->per_block ? a->per_block : l->per_block;
    h->shared = (uint32_t)a->scratch;
    if (a->blocks && h->items > 0) {
        h->items = (int64_t)a->blocks * h->per_block;
        h->per_sm = 0;
    }
}

static bool known_symbol(const void *user, uint32_t i, int64_t *lo, int64_t *hi) {
    *lo = *hi = ((const int64_t *)user)[i];
    return true;
}

/* Larger than before, and half as much again, so that sizes that rise a little each time seldom come here. */
static rp_status grow(const plan_exec *x, grown *g, size_t size, rp_error *err) {
    void *data = NULL;
    size += size / 2;
    RP_TRY(x->device->ops->alloc(x->device, HAL_DEVICE_MEMORY, size, &data, err));
    if (g->data) x->device->ops->release(x->device, g->data, g->size);
    *g = (grown){data, size};
    return RP_OK;
}

/* Values without a bound hold what these sizes want. */
static rp_status grow_values(plan_exec *x, const int64_t *symbols, rp_error *err) {
    const plan *p = x->p;
    for (uint32_t i = 0; x->grown && i < p->n_values; i++) {
        int64_t lo, hi;
        if (p->values[i].offset != PLAN_GROWS) continue;
        if (!ir_dim_code_bounds(&p->values[i].bytes, known_symbol, symbols, &lo, &hi) || hi < 0 ||
            hi > INT64_MAX / 2)
            return rp_fail(err, RP_INVALID, "plan %s: a value is too large at these sizes",
                           p->name);
        size_t size = hi > 0 ? (size_t)hi : 1; /* tokens want an address, too */
        if (size > x->grown[i].size) RP_TRY(grow(x, &x->grown[i], size, err));
    }
    return RP_OK;
}

rp_status plan_exec_point(plan_exec *x, plan_bound *pub, rp_error *err) {
    const bound *b = (const bound *)pub;
    const plan *p = x->p;
    void **args = pub->args;
    for (uint32_t i = 0; i < pub->n; i++) {
        const plan_launch *l = &p->launches[b->range.first + i];
        for (uint32_t a = 0; a < l->n_args; a++, args++) {
            *args = resolve(x, &l->args[a]);
            if (*args) continue;
            return rp_fail(err, RP_INVALID, "plan %s: %s is not set", p->name,
                           leaf_name(p, &l->args[a]));
        }
    }
    return RP_OK;
}

rp_status plan_exec_bind(plan_exec *x, plan_bound *pub, const int64_t *symbols, rp_error *err) {
    bound *b = (bound *)pub;
    const plan *p = x->p;
    size_t *sizes = pub->arg_sizes;
    RP_TRY(plan_check_symbols(p, symbols, err));
    RP_TRY(grow_values(x, symbols, err));
    for (uint32_t i = 0; i < p->n_symbols; i++) pub->dims[i] = symbols[i];
    for (uint32_t i = 0; i < p->n_dim_maps; i++)
        for (uint32_t j = 0; j < p->dim_maps[i].n; j++)
            pub->dims[b->dim_at[i] + j] = symbols[p->dim_maps[i].map[j]];
    pub->scratch = 0;
    for (uint32_t i = 0; i < pub->n; i++) {
        const plan_launch *l = &p->launches[b->range.first + i];
        hal_launch *h = &pub->launches[i];
        int64_t rows = plan_size_eval(&l->rows, symbols);
        uint32_t alt = 0;
        while (alt + 1 < l->n_alts && rows > l->alts[alt].max) alt++;
        h->items = plan_size_eval(&l->items, symbols);
        if (l->control) {
            for (uint32_t k = 0; k < plan_control_count(l->control); k++) {
                size_t inner = plan_most_scratch(p->inner[l->control->inner[k]]);
                if (inner > pub->scratch) pub->scratch = inner;
            }
        } else if (!l->custom && l->alts[alt].function == PLAN_NO_FUNCTION) {
            h->fn = (hal_function){0};
            h->items = 0;
        } else if (!l->custom) {
            h->fn = x->functions[l->alts[alt].function];
            if (l->threads)
                set_blocks(l, &l->alts[alt], h);
            else if ((size_t)l->alts[alt].scratch > pub->scratch)
                pub->scratch = (size_t)l->alts[alt].scratch;
        }
        for (uint32_t a = 0; a < l->n_args; a++) *sizes++ = bytes_of(p, &l->args[a], symbols);
    }
    return plan_exec_point(x, pub, err);
}
