/* Leaves, arena and weights are shared by all variants: a choice changes no size of them.
 *
 * Memory is written once, since pages that never were share one: floats get small numbers, all else zeros, which are in range
 * wherever they are an index. */
#include "compile/tune_bench.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "compile/assemble.h"
#include "compile/builtin.h"
#include "compile/units.h"
#include "plan/exec.h"

enum { FLOAT_BYTE = 0x3c, MAX_BYTES_LOG2 = 32 };

typedef struct variant {
    const compile_entry *entry;
    plan *p;
    plan_exec *x;
    plan_bound *bound;
} variant;

typedef struct block {
    void *at;
    size_t size;
} block;

struct compile_bench {
    compile_options opt;
    cache_store *store; /* of the variants' code, which nobody asks for again */
    hal_device *device; /* a queue of its own, so that nobody's counters have what is measured */
    split_result split;
    const ir_graph *g;
    compile_manager **managers; /* one for each compile_bench_add; lowered pieces are theirs */
    uint32_t n_managers;
    variant *variants;
    uint32_t n_variants;
    int64_t *symbols;
    base_buf told; /* of them */
    block *leaves[PLAN_STATE + 1];
    uint32_t n_leaves[PLAN_STATE + 1];
    block arena, weights;
    block *grown; /* n_grown: of values that have no bound, by value of the plan */
    uint32_t n_grown;
    size_t bytes;
};

/* --- memory ------------------------------------------------------------------------- */

static rp_status take(compile_bench *b, size_t size, int byte, block *out, rp_error *err) {
    const hal_device_ops *ops = b->device->ops;
    if (size == 0) size = 1;
    b->bytes += size;
    if (size >> MAX_BYTES_LOG2 || b->bytes >> MAX_BYTES_LOG2)
        return rp_fail(err, RP_UNSUPPORTED, "its memory is more than 4 GB");
    RP_TRY(ops->alloc(b->device, HAL_DEVICE_MEMORY, size, &out->at, err));
    out->size = size;
    return ops->fill(b->device, out->at, byte, size, err);
}

static void give(const compile_bench *b, block *k) {
    if (k->at) b->device->ops->release(b->device, k->at, k->size);
    *k = (block){0};
}

static const plan_leaf *leaves_of(const plan *p, plan_seg seg, uint32_t *n) {
    switch (seg) {
    case PLAN_INPUT: *n = p->n_inputs; return p->inputs;
    case PLAN_OUTPUT: *n = p->n_outputs; return p->outputs;
    case PLAN_PARAM: *n = p->n_params; return p->params;
    case PLAN_STATE: *n = p->n_states; return p->states;
    default: *n = 0; return NULL;
    }
}

static bool is_used(const plan *p, plan_seg seg, uint32_t idx) {
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_args; a++)
            if (p->launches[i].args[a].seg == seg && p->launches[i].args[a].idx == idx) return true;
    return false;
}

static bool is_float(rp_dtype t) {
    return rp_dtype_is_float(t) || rp_dtype_is_quant(t) || t == RP_DTYPE_F64;
}

static rp_status take_leaves(compile_bench *b, const plan *p, plan_seg seg, rp_error *err) {
    const plan_leaf *leaf = leaves_of(p, seg, &b->n_leaves[seg]);
    b->leaves[seg] = base_alloc_array(b->n_leaves[seg] + 1u, sizeof(block));
    if (!b->leaves[seg]) return rp_fail(err, RP_NOMEM, "memory to measure in");
    for (uint32_t i = 0; i < b->n_leaves[seg]; i++) {
        if (!is_used(p, seg, i)) continue;
        const int64_t size = plan_size_eval(&leaf[i].bytes, b->symbols);
        if (size < 0) return rp_fail(err, RP_UNSUPPORTED, "a tensor of it has no size");
        RP_TRY(take(b, (size_t)size, is_float(leaf[i].dtype) ? FLOAT_BYTE : 0, &b->leaves[seg][i],
                    err));
    }
    return RP_OK;
}

/* What a call had, where the graph knows one. Tiles are chosen for a class of rows, that of the nominal size. */
static int64_t size_of(compile_bench *b, const lower_piece *rules, const plan_symbol *s) {
    const ir_dims *t = ir_graph_dims(b->g);
    const uint32_t at = ir_dims_find(t, s->name);
    int64_t hint = at == UINT32_MAX ? -1 : ir_dims_symbol(t, at)->hint;
    for (uint32_t i = 0; i < rules->n_kernels; i++)
        if (rules->kernels[i].n_tiles) hint = -1;
    if (hint < 1 || hint < s->min || hint > s->max) return ir_dim_nominal_of(s->min, s->max);
    base_buf_printf(&b->told, "%s%s=%" PRId64, b->told.len ? ", " : " at ", s->name, hint);
    return hint;
}

static rp_status take_grown(compile_bench *b, const plan *p, rp_error *err) {
    b->grown = base_alloc_array(p->n_values + 1u, sizeof *b->grown);
    if (!b->grown) return rp_fail(err, RP_NOMEM, "memory to measure in");
    b->n_grown = p->n_values;
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (p->values[i].offset != PLAN_GROWS) continue;
        const int64_t size = plan_size_eval(&p->values[i].bytes, b->symbols);
        if (size < 0) return rp_fail(err, RP_UNSUPPORTED, "a value of it has no size");
        RP_TRY(take(b, (size_t)size, 0, &b->grown[i], err));
    }
    return RP_OK;
}

static rp_status take_memory(compile_bench *b, const lower_piece *rules, const plan *p,
                             rp_error *err) {
    b->symbols = base_alloc_array(p->n_symbols + 1u, sizeof *b->symbols);
    if (!b->symbols) return rp_fail(err, RP_NOMEM, "memory to measure in");
    for (uint32_t i = 0; i < p->n_symbols; i++) b->symbols[i] = size_of(b, rules, &p->symbols[i]);
    RP_TRY(take_grown(b, p, err));
    for (int seg = PLAN_INPUT; seg <= PLAN_STATE; seg++)
        RP_TRY(take_leaves(b, p, (plan_seg)seg, err));
    RP_TRY(take(b, (size_t)p->arena_size, 0, &b->arena, err));
    return p->weights_size ? take(b, (size_t)p->weights_size, FLOAT_BYTE, &b->weights, err) : RP_OK;
}

/* --- variants ------------------------------------------------------------------------- */

static rp_status bind(const compile_bench *b, variant *v, rp_error *err) {
    const plan_exec_options o = {.device = b->device,
                                 .store = b->opt.store,
                                 .builtin = compile_builtin_find,
                                 .weights = b->weights.at,
                                 .lent_arena = true};
    if ((size_t)v->p->arena_size > b->arena.size || (size_t)v->p->weights_size > b->weights.size)
        return rp_fail(err, RP_INTERNAL, "a choice changes the memory of a piece");
    RP_TRY(plan_exec_new(v->p, &o, &v->x, err));
    plan_exec_set_arena(v->x, b->arena.at);
    for (uint32_t i = 0; i < b->n_grown; i++)
        if (b->grown[i].at) plan_exec_lend(v->x, i, b->grown[i].at, b->grown[i].size);
    for (int seg = PLAN_INPUT; seg <= PLAN_STATE; seg++)
        for (uint32_t i = 0; i < b->n_leaves[seg]; i++)
            /* What no launch reads wants an address, too. */
            plan_exec_set(v->x, (plan_seg)seg, i,
                          b->leaves[seg][i].at ? b->leaves[seg][i].at : b->arena.at);
    RP_TRY(plan_bound_new(v->x, 0, v->p->n_pieces, &v->bound, err));
    return plan_exec_bind(v->x, v->bound, b->symbols, err);
}

/* Launches that run something else than a function are of no use here. */
static bool is_plain(const lower_piece *p) {
    for (uint32_t i = 0; i < p->n_launches; i++)
        if (p->launches[i].custom || p->launches[i].control) return false;
    return true;
}

static rp_status make(compile_bench *b, const compile_entry *e, variant *v, rp_error *err) {
    const compile_lowered low = {.piece = e->lowered, .functions = e->functions};
    v->entry = e;
    if (!is_plain(&e->lowered))
        return rp_fail(err, RP_UNSUPPORTED, "a custom op or a graph within the graph is in it");
    RP_TRY(compile_assemble(b->g, ir_graph_dims(b->g), &b->split, &low, &v->p, err));
    return bind(b, v, err);
}

/* By the rules' plan: no choice changes a size. Where its code would be does not matter. */
static rp_status make_memory(compile_bench *b, const lower_piece *rules, rp_error *err) {
    plan *p = NULL;
    compile_function *nowhere = base_alloc_array(rules->n_kernels + 1u, sizeof *nowhere);
    const compile_lowered low = {.piece = *rules, .functions = nowhere};
    if (!nowhere) return rp_fail(err, RP_NOMEM, "memory to measure in");
    for (uint32_t i = 0; i < rules->n_kernels; i++)
        nowhere[i] = (compile_function){.symbol = rules->kernels[i].name};
    rp_status st = compile_assemble(b->g, ir_graph_dims(b->g), &b->split, &low, &p, err);
    if (st == RP_OK) st = take_memory(b, rules, p, err);
    plan_free(p);
    base_free(nowhere);
    return st;
}

static void variant_done(variant *v) {
    plan_bound_free(v->bound);
    plan_exec_free(v->x);
    plan_free(v->p);
}

static rp_status reserve(compile_bench *b, uint32_t n, rp_error *err) {
    variant *more = base_alloc_array(b->n_variants + n, sizeof *more);
    compile_manager **managers = base_alloc_array(b->n_managers + 1u, sizeof(compile_manager *));
    if (!more || !managers) {
        base_free(more);
        base_free(managers);
        return rp_fail(err, RP_NOMEM, "%u variants", n);
    }
    for (uint32_t i = 0; i < b->n_variants; i++) more[i] = b->variants[i];
    for (uint32_t i = 0; i < b->n_managers; i++) managers[i] = b->managers[i];
    base_free(b->variants);
    base_free(b->managers);
    b->variants = more;
    b->managers = managers;
    return RP_OK;
}

rp_status compile_bench_add(compile_bench *b, const compile_choices *variants, uint32_t n,
                            rp_error *err) {
    rp_status st = RP_OK;
    compile_manager *m = NULL;
    uint32_t *entry = base_alloc_array(n + 1u, sizeof *entry);
    if (!entry) return rp_fail(err, RP_NOMEM, "%u variants", n);
    RP_TRY_OUT(reserve(b, n, err));
    RP_TRY_OUT(compile_manager_new(&b->opt, &m, err));
    b->managers[b->n_managers++] = m;
    for (uint32_t i = 0; i < n; i++) {
        bool added;
        RP_TRY_OUT(compile_manager_add_chosen(m, &b->split.pieces[0], &variants[i], &entry[i],
                                              &added, err));
    }
    RP_TRY_OUT(compile_manager_run(m, err));
    for (uint32_t i = 0; i < n; i++)
        RP_TRY_OUT(make(b, compile_manager_entry(m, entry[i]), &b->variants[b->n_variants++], err));
out:
    base_free(entry);
    return st;
}

/* --- the bench ------------------------------------------------------------------------- */

rp_status compile_bench_new(const compile_options *opt, const split_piece *sp,
                            const lower_piece *rules, hal_device *device, compile_bench **out,
                            rp_error *err) {
    compile_bench *b = base_alloc(sizeof *b);
    if (!b) return rp_fail(err, RP_NOMEM, "memory to measure in");
    *b = (compile_bench){.opt = *opt, .g = sp->graph};
    base_buf_init(&b->told, 0);
    b->opt.tuner = NULL;
    b->opt.trial = true;
    b->opt.keep_sources = false;
    b->opt.progress = NULL;
    rp_status st = cache_store_open_scratch(opt->store, &b->store, err);
    b->opt.store = b->store;
    if (st == RP_OK) st = hal_queue(device, &b->device, err);
    if (st == RP_OK) st = split_graph(sp->graph, NULL, 0, &b->split, err);
    if (st == RP_OK && b->split.n_pieces != 1)
        st = rp_fail(err, RP_UNSUPPORTED, "it is %u pieces by itself", b->split.n_pieces);
    if (st == RP_OK) st = make_memory(b, rules, err);
    if (st == RP_OK)
        *out = b;
    else
        compile_bench_free(b);
    return st;
}

void compile_bench_free(compile_bench *b) {
    if (!b) return;
    for (uint32_t i = 0; i < b->n_variants; i++) variant_done(&b->variants[i]);
    for (uint32_t i = 0; i < b->n_managers; i++) compile_manager_free(b->managers[i]);
    for (int seg = 0; seg <= PLAN_STATE; seg++) {
        for (uint32_t i = 0; b->leaves[seg] && i < b->n_leaves[seg]; i++)
            give(b, &b->leaves[seg][i]);
        base_free(b->leaves[seg]);
    }
    for (uint32_t i = 0; i < b->n_grown; i++) give(b, &b->grown[i]);
    base_free(b->grown);
    give(b, &b->arena);
    give(b, &b->weights);
    base_free(b->symbols);
    base_buf_done(&b->told);
    base_free(b->variants);
    base_free(b->managers);
    split_done(&b->split);
    hal_close(b->device);
    cache_store_close(b->store);
    base_free(b);
}

hal_device *compile_bench_device(const compile_bench *b) {
    return b->device;
}

void compile_bench_put_sizes(const compile_bench *b, base_buf *out) {
    if (b->told.len) base_buf_puts(out, b->told.data);
}

const lower_piece *compile_bench_piece(const compile_bench *b, uint32_t number) {
    return &b->variants[number].entry->lowered;
}

uint32_t compile_bench_launches(const compile_bench *b, uint32_t number, const lower_kernel *k,
                                const hal_launch *out[COMPILE_BENCH_LAUNCHES], size_t *scratch) {
    const variant *v = &b->variants[number];
    const plan_piece *piece = &v->p->pieces[0];
    const lower_piece *low = &v->entry->lowered;
    uint32_t n = 0;
    *scratch = v->bound->scratch;
    for (uint32_t i = 0; i < low->n_launches && n < COMPILE_BENCH_LAUNCHES; i++) {
        const lower_launch *l = &low->launches[i];
        if (k->n_tiles ? l->group != k->group : strcmp(l->name, k->name) != 0) continue;
        const hal_launch *runs = &v->bound->launches[piece->first + i];
        if (runs->items > 0) out[n++] = runs;
        if (!k->n_tiles) break;
    }
    return n;
}
