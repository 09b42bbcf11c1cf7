/* The launches of a plan for given sizes: addresses and numbers. A bound list keeps its argument and dim arrays in one
 * block each, laid out once, so that binding for other sizes only rewrites numbers. */
#include "base/alloc.h"
#include "ir/custom.h"
#include "plan/exec_state.h"

static rp_status call_custom(void *user, void *const *arg, const long long *dim, rp_error *err) {
    const plan_custom_call *c = user;
    rp_buffer bufs[PLAN_MAX_CUSTOM_ARGS];
    for (uint32_t i = 0; i < c->launch->n_args; i++) {
        const plan_leaf *l = &c->launch->operands[i];
        bufs[i] = (rp_buffer){.dtype = l->dtype, .rank = l->rank, .data = arg[i]};
        for (uint32_t d = 0; d < l->rank; d++)
            bufs[i].dim[d] = ir_dim_code_eval_ll(&l->dim[d], dim);
    }
    rp_op_call call = c->call;
    call.context = c->of->context;
    return c->checked ? ir_custom_run_checked(c->op, &call, bufs, err)
                      : ir_custom_run(c->op, &call, bufs, err);
}

typedef struct bound_range {
    uint32_t first, n; /* launches */
    uint32_t n_args, n_numbers;
} bound_range;

/* The public part plus what binding needs to know again. */
typedef struct bound {
    plan_bound pub;
    bound_range range;
    uint32_t *dim_at;    /* where each dim map starts in dims */
    uint32_t numbers_at; /* and what launches get in their place */
} bound;

static bound_range range_of(const plan *p, uint32_t first_piece, uint32_t n_pieces) {
    bound_range r = {0};
    if (n_pieces == 0) return r;
    const plan_piece *a = &p->pieces[first_piece], *z = &p->pieces[first_piece + n_pieces - 1];
    r.first = a->first;
    r.n = z->first + z->n - a->first;
    for (uint32_t i = r.first; i < r.first + r.n; i++) {
        r.n_args += p->launches[i].n_args;
        r.n_numbers += p->launches[i].n_numbers;
    }
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

/* Whose kernel takes plan_bound.settled as one more size. */
static bool is_gpu_attention(const plan_launch *l) {
    return l->attention && l->threads > 0;
}

/* Everything that does not change with the sizes. */
static void fill_constant(const plan_exec *x, bound *b) {
    void **args = b->pub.args;
    size_t *sizes = b->pub.arg_sizes;
    const long long *numbers = b->pub.dims + b->numbers_at;
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
                          .attention = l->attention,
                          .no_barrier = l->no_barrier};
        args += l->n_args;
        sizes += l->n_args;
        if (!plan_launch_is_plain(l)) {
            h->kind = l->custom ? HAL_HOST_CALL : HAL_LISTS;
            h->call = l->custom ? call_custom : NULL;
            h->next = l->control ? plan_running_next : NULL;
            h->note = l->control ? plan_running_note : NULL;
            h->user = l->custom ? (void *)&x->calls[b->range.first + i]
                                : (void *)x->running[b->range.first + i];
            h->dim = b->pub.dims;
            h->n_dim = x->p->n_symbols;
        } else if (l->dim_map == PLAN_NUMBERS) {
            h->dim = numbers;
            h->n_dim = l->n_numbers;
            numbers += l->n_numbers;
        } else {
            h->dim = b->pub.dims + b->dim_at[l->dim_map];
            h->n_dim = x->p->dim_maps[l->dim_map].n + (is_gpu_attention(l) ? 1 : 0);
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
        n_dims += p->dim_maps[i].n + 1; /* settled */
    }
    b->numbers_at = n_dims;
    n_dims += b->range.n_numbers;
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
static rp_status grow(const plan_exec *x, plan_grown *g, size_t size, rp_error *err) {
    void *data = NULL;
    size += size / 2;
    RP_TRY(x->device->ops->alloc(x->device, HAL_DEVICE_MEMORY, size, &data, err));
    if (g->data && !g->lent) x->device->ops->release(x->device, g->data, g->size);
    *g = (plan_grown){.data = data, .size = size};
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
    for (uint32_t i = 0; i < p->n_dim_maps; i++) {
        for (uint32_t j = 0; j < p->dim_maps[i].n; j++)
            pub->dims[b->dim_at[i] + j] = symbols[p->dim_maps[i].map[j]];
        pub->dims[b->dim_at[i] + p->dim_maps[i].n] = pub->settled;
    }
    long long *number = pub->dims + b->numbers_at;
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
        for (uint32_t k = 0; k < l->n_numbers; k++)
            *number++ = plan_size_eval(&l->numbers[k], symbols);
        for (uint32_t a = 0; a < l->n_args; a++) *sizes++ = bytes_of(p, &l->args[a], symbols);
    }
    return plan_exec_point(x, pub, err);
}
