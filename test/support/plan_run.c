/* A plan from graph to bytes, with fresh memory for every run. */
#include "support/plan_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "compile/builtin.h"
#include "plan/exec.h"
#include "support/guarded.h"

/* Bytes behind memory that a device of its own memory gets, too: an overrun of the device is seen there. */
#define GUARD 64
#define UNSET 0x5a
enum { MOST_ARGS = 200 };

static size_t bytes_of(rp_dtype t, int64_t n) {
    return (size_t)(n / (int64_t)rp_dtype_block(t)) * rp_dtype_block_bytes(t);
}

/* Blocks run along the last dim, so rows are packed one by one. */
static void *pack_value(rp_dtype t, const ir_value *v, bool at_end, size_t *size) {
    int64_t row = v->rank ? v->dim[v->rank - 1] : 1;
    *size = bytes_of(t, v->n);
    char *p = guarded_new(*size, at_end);
    for (int64_t i = 0; p && row > 0 && i < v->n; i += row)
        ir_pack(t, v->data + i, row, p + bytes_of(t, i));
    return p;
}

static int64_t count_of(const ir_graph *g, ir_ref r, const int64_t *symbols) {
    const ir_node *n = ir_node_at(g, r);
    int64_t count = 1;
    for (uint32_t i = 0; i < n->shape.rank; i++)
        count *= ir_dim_eval(ir_graph_dims(g), n->shape.dim[i], symbols);
    return count;
}

/* What a device that is not the host reads and writes for it. */
typedef struct mirror {
    void *host, *there;
    size_t size;
} mirror;

typedef struct runner {
    const ir_graph *g;
    const random_leaves *leaves;
    const plan_run_options *opt;
    plan *p;
    plan_exec *x;
    plan_bound *bound;
    hal_device *d;
    void *weights;
    void **params;
    size_t *param_sizes;
    mirror *mirrors; /* none where the device reads memory of the host */
    uint32_t n_mirrors;
    rp_error *err;
} runner;

/* Each second buffer ends at a page that nobody may touch, the others begin behind one. What a device copies to memory of its own
 * has guard bytes behind it. */
static bool lies_at_end(const runner *r, uint32_t i) {
    hal_device_info info;
    r->d->ops->info(r->d, &info);
    return info.unified && i % 2 == 1;
}

/* Where the device finds host memory: itself, or memory that the contents are copied to before a run and from after it. */
static rp_status reach(runner *r, void *host, size_t size, void **out) {
    hal_device_info info;
    r->d->ops->info(r->d, &info);
    *out = host;
    if (info.unified) return RP_OK;
    RP_TRY(r->d->ops->alloc(r->d, HAL_MAPPED_MEMORY, size, out, r->err));
    r->mirrors[r->n_mirrors++] = (mirror){host, *out, size};
    return RP_OK;
}

static void copy_mirrors(const runner *r, bool back) {
    for (uint32_t i = 0; i < r->n_mirrors; i++) {
        const mirror *m = &r->mirrors[i];
        memcpy(back ? m->host : m->there, back ? m->there : m->host, m->size);
    }
}

static void free_mirrors(runner *r) {
    for (uint32_t i = 0; i < r->n_mirrors; i++)
        r->d->ops->release(r->d, r->mirrors[i].there, r->mirrors[i].size);
    base_free(r->mirrors);
}

static rp_status set_leaves(runner *r, ir_leaf kind, plan_seg seg, void **at, size_t *size) {
    for (uint32_t i = 0; i < r->leaves->n[kind]; i++) {
        ir_ref leaf = ir_leaf_at(r->g, kind, i);
        at[i] = pack_value(ir_node_at(r->g, leaf)->dtype, &r->leaves->leaf[kind][i],
                           lies_at_end(r, i), &size[i]);
        if (!at[i]) return rp_fail(r->err, RP_NOMEM, "leaf");
        void *there;
        RP_TRY(reach(r, at[i], size[i] + GUARD, &there));
        plan_exec_set(r->x, seg, i, there);
    }
    return RP_OK;
}

static rp_status prepare(runner *r, plan_run *out) {
    const random_leaves *l = r->leaves;
    uint32_t n_out = ir_output_count(r->g), n_state = l->n[IR_LEAF_STATE];
    uint32_t n_input = l->n[IR_LEAF_INPUT];
    out->out = base_alloc_array(n_out + 1, sizeof(void *));
    out->state = base_alloc_array(n_state + 1, sizeof(void *));
    out->out_size = base_alloc_array(n_out + 1, sizeof(size_t));
    out->state_size = base_alloc_array(n_state + 1, sizeof(size_t));
    out->input = base_alloc_array(n_input + 1, sizeof(void *));
    out->input_size = base_alloc_array(n_input + 1, sizeof(size_t));
    r->params = base_alloc_array(l->n[IR_LEAF_PARAM] + 1, sizeof(void *));
    r->param_sizes = base_alloc_array(l->n[IR_LEAF_PARAM] + 1, sizeof(size_t));
    if (!out->out || !out->state || !out->out_size || !out->state_size || !out->input ||
        !out->input_size || !r->params || !r->param_sizes)
        return rp_fail(r->err, RP_NOMEM, "run");
    out->n_input = n_input;
    out->n_out = n_out;
    out->n_state = n_state;
    return RP_OK;
}

static rp_status start(runner *r, plan_run *out) {
    compile_options o = {.backend = r->opt->backend,
                         .isa = r->opt->isa,
                         .toolchain = r->opt->toolchain,
                         .store = r->opt->store,
                         .nvrtc = r->opt->nvrtc,
                         .exact = r->opt->exact,
                         .built_in = r->opt->built_in,
                         .tuner = r->opt->tuner,
                         .threads = 1,
                         .launch_threads = r->opt->threads,
                         .splitting_ops = r->opt->splitting_ops,
                         .n_splitting_ops = r->opt->n_splitting_ops,
                         .passes = r->opt->passes};
    compile_stats stats = {0};
    RP_TRY(compile_graph(r->g, &o, &r->p, &stats, r->err));
    out->n_kernels = stats.kernels;
    r->d = r->opt->open;
    if (!r->d)
        RP_TRY(hal_open(r->opt->device ? r->opt->device : "cpu", r->opt->threads, &r->d, r->err));
    r->weights = base_alloc_aligned((size_t)r->p->weights_size + GUARD, 64);
    r->mirrors = base_alloc_array(1u + r->p->n_inputs + r->p->n_params + r->p->n_states +
                                      ir_output_count(r->g),
                                  sizeof *r->mirrors);
    if (!r->weights || !r->mirrors) return rp_fail(r->err, RP_NOMEM, "weights");
    void *weights;
    RP_TRY(reach(r, r->weights, (size_t)r->p->weights_size + GUARD, &weights));
    plan_exec_options xo = {.device = r->d,
                            .store = r->opt->store,
                            .builtin = compile_builtin_find,
                            .weights = weights};
    RP_TRY(plan_exec_new(r->p, &xo, &r->x, r->err));
    RP_TRY(prepare(r, out));
    RP_TRY(set_leaves(r, IR_LEAF_INPUT, PLAN_INPUT, out->input, out->input_size));
    RP_TRY(set_leaves(r, IR_LEAF_PARAM, PLAN_PARAM, r->params, r->param_sizes));
    return set_leaves(r, IR_LEAF_STATE, PLAN_STATE, out->state, out->state_size);
}

/* The hash of an argument, wherever its memory is. */
static rp_status hash_arg(const runner *r, const hal_launch *h, uint32_t k, base_hash128 *out) {
    hal_device_info info;
    const size_t n = h->arg_size[k];
    rp_status st = RP_OK;
    r->d->ops->info(r->d, &info);
    if (info.unified) {
        *out = base_hash(h->arg[k], n);
        return RP_OK;
    }
    void *copy = base_alloc(n + 1);
    if (!copy) return rp_fail(r->err, RP_NOMEM, "argument of %zu bytes", n);
    if (n) st = r->d->ops->copy(r->d, copy, h->arg[k], n, r->err);
    if (st == RP_OK && r->d->ops->synchronize) st = r->d->ops->synchronize(r->d, r->err);
    *out = base_hash(copy, n);
    base_free(copy);
    return st;
}

/* What launch i may not change: each argument that it does not say it writes. */
static rp_status hash_unwritten(const runner *r, uint32_t i, base_hash128 *out) {
    const hal_launch *h = &r->bound->launches[i];
    for (uint32_t k = 0; k < h->n_arg; k++) {
        out[k] = (base_hash128){0};
        if (!(r->p->launches[i].args[k].access & BASE_WRITES)) RP_TRY(hash_arg(r, h, k, &out[k]));
    }
    return RP_OK;
}

/* One after the other: none changes what it says it only reads. */
static rp_status launch_watched(runner *r) {
    const plan_bound *b = r->bound;
    base_hash128 before[MOST_ARGS], after[MOST_ARGS];
    for (uint32_t i = 0; i < b->n; i++) {
        const hal_launch *h = &b->launches[i];
        if (h->n_arg > MOST_ARGS) return rp_fail(r->err, RP_INTERNAL, "%u arguments", h->n_arg);
        RP_TRY(hash_unwritten(r, i, before));
        RP_TRY(r->d->ops->launch(r->d, h, 1, b->scratch, r->err));
        RP_TRY(hash_unwritten(r, i, after));
        for (uint32_t k = 0; k < h->n_arg; k++)
            if (before[k].lo != after[k].lo || before[k].hi != after[k].hi)
                return rp_fail(r->err, RP_INTERNAL,
                               "launch %u, %s, writes argument %u, which it says it reads", i,
                               h->name, k);
    }
    return RP_OK;
}

static rp_status launch(runner *r) {
    const hal_device_ops *ops = r->d->ops;
    const plan_bound *b = r->bound;
    hal_graph *graph = NULL;
    if (r->opt->as_graph)
        RP_TRY(ops->graph_build(r->d, b->launches, b->n, b->scratch, "run", &graph, r->err));
    copy_mirrors(r, false);
    rp_status st = graph           ? ops->graph_launch(graph, r->err)
                   : r->opt->watch ? launch_watched(r)
                                   : ops->launch(r->d, b->launches, b->n, b->scratch, r->err);
    if (st == RP_OK && ops->synchronize) st = ops->synchronize(r->d, r->err);
    copy_mirrors(r, true);
    if (graph) ops->graph_free(graph);
    return st;
}

static rp_status run(runner *r, plan_run *out) {
    RP_TRY(start(r, out));
    for (uint32_t i = 0; i < out->n_out; i++) {
        ir_ref o = ir_output_at(r->g, i);
        out->out_size[i] =
            bytes_of(ir_node_at(r->g, o)->dtype, count_of(r->g, o, r->leaves->symbols));
        out->out[i] = guarded_new(out->out_size[i], lies_at_end(r, i));
        if (!out->out[i]) return rp_fail(r->err, RP_NOMEM, "output");
        memset(out->out[i], UNSET, out->out_size[i]);
        void *there;
        RP_TRY(reach(r, out->out[i], out->out_size[i] + GUARD, &there));
        plan_exec_set(r->x, PLAN_OUTPUT, i, there);
    }
    memset(r->weights, 0xff, (size_t)r->p->weights_size);
    for (uint32_t i = 0; i < r->p->n_packs; i++)
        plan_pack_fill(r->p, i, (const void *const *)r->params,
                       (char *)r->weights + r->p->packs[i].offset);
    RP_TRY(plan_exec_poison(r->x, r->err));
    RP_TRY(plan_bound_new(r->x, 0, r->p->n_pieces, &r->bound, r->err));
    RP_TRY(plan_exec_bind(r->x, r->bound, r->leaves->symbols, r->err));
    RP_TRY(launch(r));
    for (uint32_t i = 0; i < out->n_out; i++)
        if (!guarded_is_whole(out->out[i]))
            return rp_fail(r->err, RP_INTERNAL, "output %u was overrun", i);
    for (uint32_t i = 0; i < out->n_state; i++)
        if (!guarded_is_whole(out->state[i]))
            return rp_fail(r->err, RP_INTERNAL, "state %u was overrun", i);
    for (uint32_t i = 0; i < out->n_input; i++)
        if (!guarded_is_whole(out->input[i]))
            return rp_fail(r->err, RP_INTERNAL, "input %u was overrun", i);
    return RP_OK;
}

static void free_all(void **list, uint32_t n) {
    for (uint32_t i = 0; list && i < n; i++) guarded_free(list[i]);
    base_free(list);
}

rp_status plan_run_graph(const ir_graph *g, const random_leaves *leaves,
                         const plan_run_options *opt, plan_run *out, rp_error *err) {
    runner r = {.g = g, .leaves = leaves, .opt = opt, .err = err};
    *out = (plan_run){0};
    rp_status st = run(&r, out);
    plan_bound_free(r.bound);
    plan_exec_free(r.x);
    free_mirrors(&r);
    if (r.d && !opt->open) hal_close(r.d);
    plan_free(r.p);
    base_free(r.weights);
    free_all(r.params, leaves->n[IR_LEAF_PARAM]);
    base_free(r.param_sizes);
    if (st != RP_OK) plan_run_done(out);
    return st;
}

void plan_run_done(plan_run *r) {
    free_all(r->out, r->n_out);
    free_all(r->state, r->n_state);
    free_all(r->input, r->n_input);
    base_free(r->input_size);
    base_free(r->out_size);
    base_free(r->state_size);
    *r = (plan_run){0};
}

/* --- comparing ------------------------------------------------------------------ */

static char message[256];

static void unpack(const ir_graph *g, ir_ref r, const void *p, size_t size, double *out) {
    const ir_node *n = ir_node_at(g, r);
    int64_t count =
                (int64_t)(size /
                          (rp_dtype_block_bytes(n->dtype) ? rp_dtype_block_bytes(n->dtype) : 1)) *
                (int64_t)rp_dtype_block(n->dtype),
            row = count;
    if (rp_dtype_is_quant(n->dtype))
        (void)ir_dim_is_const(ir_graph_dims(g), n->shape.dim[n->shape.rank - 1], &row);
    for (int64_t i = 0; row > 0 && i < count; i += row)
        ir_unpack(n->dtype, (const char *)p + bytes_of(n->dtype, i), row, out + i);
}

static double *values_of(const ir_graph *g, ir_ref r, const void *p, size_t size) {
    double *v = base_alloc_array(size * 2 + 1, sizeof *v);
    if (v && size) unpack(g, r, p, size, v);
    return v;
}

static const char *bits_differ(const ir_graph *g, ir_ref r, const char *what, uint32_t i,
                               const void *a, const void *b, size_t size) {
    if (memcmp(a, b, size) == 0) return NULL;
    double *x = values_of(g, r, a, size), *y = values_of(g, r, b, size);
    const char *found = NULL;
    size_t step = rp_dtype_block_bytes(ir_node_at(g, r)->dtype),
           n = size / step * rp_dtype_block(ir_node_at(g, r)->dtype);
    for (size_t k = 0; !found && k < n; k++) {
        bool nan = ir_node_at(g, r)->dtype != RP_DTYPE_I64 && isnan(x[k]) && isnan(y[k]);
        if (nan || (x[k] == y[k] && signbit(x[k]) == signbit(y[k]))) continue;
        snprintf(message, sizeof message, "%s %u of %s, element %zu of %zu: %.9g and %.9g", what, i,
                 ir_type_of(g, r).s, k, n, x[k], y[k]);
        found = message;
    }
    base_free(x);
    base_free(y);
    return found;
}

const char *plan_run_differs(const ir_graph *g, const plan_run *a, const plan_run *b) {
    const char *d = NULL;
    for (uint32_t i = 0; !d && i < a->n_out; i++)
        d = bits_differ(g, ir_output_at(g, i), "output", i, a->out[i], b->out[i], a->out_size[i]);
    for (uint32_t i = 0; !d && i < a->n_state; i++)
        d = bits_differ(g, ir_leaf_at(g, IR_LEAF_STATE, i), "state", i, a->state[i], b->state[i],
                        a->state_size[i]);
    for (uint32_t i = 0; !d && i < a->n_input; i++)
        d = bits_differ(g, ir_leaf_at(g, IR_LEAF_INPUT, i), "input", i, a->input[i], b->input[i],
                        a->input_size[i]);
    return d;
}

static const char *is_off(const ir_graph *g, ir_ref r, const char *what, uint32_t i, const void *p,
                          size_t size, const ir_value *want, double bound) {
    double *x = values_of(g, r, p, size);
    const char *found = NULL;
    for (int64_t k = 0; !found && k < want->n; k++) {
        double w = want->data[k], far = fabs(x[k] - w);
        if ((isnan(w) && isnan(x[k])) || w == x[k] || far <= bound * fmax(1, fabs(w))) continue;
        snprintf(message, sizeof message, "%s %u of %s, element %lld of %lld: %.9g, want %.9g",
                 what, i, ir_type_of(g, r).s, (long long)k, (long long)want->n, x[k], w);
        found = message;
    }
    base_free(x);
    return found;
}

const char *plan_run_is_off(const ir_graph *g, const plan_run *r, const ir_value *out,
                            const ir_value *states, const ir_value *inputs, double bound) {
    const char *d = NULL;
    for (uint32_t i = 0; !d && i < r->n_out; i++)
        d = is_off(g, ir_output_at(g, i), "output", i, r->out[i], r->out_size[i], &out[i], bound);
    for (uint32_t i = 0; !d && i < r->n_state; i++)
        d = is_off(g, ir_leaf_at(g, IR_LEAF_STATE, i), "state", i, r->state[i], r->state_size[i],
                   &states[i], bound);
    for (uint32_t i = 0; !d && inputs && i < r->n_input; i++) {
        ir_ref x = ir_leaf_at(g, IR_LEAF_INPUT, i);
        if (ir_node_at(g, x)->mutates)
            d = is_off(g, x, "input", i, r->input[i], r->input_size[i], &inputs[i], bound);
    }
    return d;
}

void plan_run_values(const ir_graph *g, const plan_run *r, ir_value *out) {
    for (uint32_t i = 0; i < r->n_out; i++, out++)
        if (r->out_size[i]) unpack(g, ir_output_at(g, i), r->out[i], r->out_size[i], out->data);
    for (uint32_t i = 0; i < r->n_state; i++, out++)
        if (r->state_size[i])
            unpack(g, ir_leaf_at(g, IR_LEAF_STATE, i), r->state[i], r->state_size[i], out->data);
    for (uint32_t i = 0; i < r->n_input; i++, out++)
        if (r->input_size[i])
            unpack(g, ir_leaf_at(g, IR_LEAF_INPUT, i), r->input[i], r->input_size[i], out->data);
}
