/* Walks the pieces in order and gives every launch its arguments in terms of the plan.
 *
 * A value that crosses pieces is one plan value, and so are all versions of memory; what the
 * graph returns lives in the caller's output buffer from the start. Tables of a distinct piece (functions,
 * records, symbol order) are entered once. */
#include "compile/assemble.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "compile/returned.h"

#define NOWHERE ((plan_arg){.seg = PLAN_SEG_COUNT_})

typedef struct distinct_tables {
    uint32_t first_const, dim_map;
    uint32_t *functions; /* by launch * LOWER_MAX_ALTS + alt */
    uint32_t *inner;     /* by launch * 2 + graph */
    bool done;
} distinct_tables;

typedef struct assembler {
    const ir_graph *g;
    const ir_dims *symbols; /* of the plan, in their order */
    const split_result *s;
    const compile_lowered *lowered;
    plan *p;
    plan_arg *at; /* by ref of g */
    distinct_tables *tables;
    base_map *modules, *functions, *packs; /* places in the tables of p, by what is there */
    base_buf key;
    rp_error *err;
} assembler;

static bool is_somewhere(plan_arg a) {
    return a.seg != PLAN_SEG_COUNT_;
}

/* The place of a->key in a table of p, which is `next` for what is new there. */
static rp_status place_of(assembler *a, base_map *m, uint32_t next, uint32_t *out) {
    uint64_t at = next;
    a->p->steps++;
    RP_TRY(base_buf_status(&a->key, a->err));
    if (!base_map_get(m, a->key.data, a->key.len, &at))
        RP_TRY(base_map_put(m, a->key.data, a->key.len, at, a->err));
    *out = (uint32_t)at;
    return RP_OK;
}

static rp_status size_of(assembler *a, const ir_dims *dims, ir_dim d, plan_size *out) {
    RP_TRY(ir_dim_code_of(dims, d, out, a->err));
    for (uint32_t i = 0; i < out->n; i++)
        if (out->op[i] == IR_DIM_CODE_SYMBOL)
            out->k[i] = ir_dims_find(a->symbols, ir_dims_symbol(dims, (uint32_t)out->k[i])->name);
    return RP_OK;
}

/* --- interface of the graph ------------------------------------------------- */

static rp_status fill_leaf(assembler *a, const char *name, ir_ref r, plan_leaf *out) {
    const ir_node *n = ir_node_at(a->g, r);
    ir_dims *dims = ir_graph_dims(a->g);
    out->name = base_arena_str(a->p->arena, name);
    out->dtype = n->dtype;
    out->rank = n->shape.rank;
    if (!out->name) return rp_fail(a->err, RP_NOMEM, "plan leaf");
    for (uint32_t i = 0; i < n->shape.rank; i++)
        RP_TRY(size_of(a, dims, n->shape.dim[i], &out->dim[i]));
    ir_dim bytes = lower_bytes(dims, n);
    if (bytes == IR_DIM_BAD) return lower_bytes_refused(a->g, n, a->err);
    return size_of(a, dims, bytes, &out->bytes);
}

static rp_status fill_leaves(assembler *a, ir_leaf kind, plan_seg seg, plan_leaf **list,
                             uint32_t *n) {
    *n = ir_leaf_count(a->g, kind);
    *list = base_arena_array(a->p->arena, *n + 1u, sizeof **list);
    if (!*list) return rp_fail(a->err, RP_NOMEM, "plan leaves");
    for (uint32_t i = 0; i < *n; i++) {
        ir_ref r = ir_leaf_at(a->g, kind, i);
        a->at[r] = (plan_arg){.seg = seg, .idx = i};
        RP_TRY(fill_leaf(a, ir_node_at(a->g, r)->name, r, &(*list)[i]));
    }
    return RP_OK;
}

/* All versions of memory are in one place. */
static ir_ref storage_of(const assembler *a, ir_ref r) {
    const ir_node *n = ir_node_at(a->g, r);
    return n->memory != IR_NONE ? n->memory : r;
}

static rp_status fill_outputs(assembler *a) {
    plan *p = a->p;
    p->n_outputs = ir_output_count(a->g);
    p->outputs = base_arena_array(p->arena, p->n_outputs + 1u, sizeof *p->outputs);
    if (!p->outputs) return rp_fail(a->err, RP_NOMEM, "plan outputs");
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        ir_ref o = storage_of(a, ir_output_at(a->g, i));
        char name[24];
        (void)snprintf(name, sizeof name, "out%u", i);
        RP_TRY(fill_leaf(a, name, ir_output_at(a->g, i), &p->outputs[i]));
        if (!is_somewhere(a->at[o])) a->at[o] = (plan_arg){.seg = PLAN_OUTPUT, .idx = i};
    }
    return RP_OK;
}

static rp_status fill_symbols(assembler *a) {
    const ir_dims *dims = a->symbols;
    plan *p = a->p;
    p->n_symbols = ir_dims_symbol_count(dims);
    p->symbols = base_arena_array(p->arena, p->n_symbols + 1u, sizeof *p->symbols);
    if (!p->symbols) return rp_fail(a->err, RP_NOMEM, "plan symbols");
    for (uint32_t i = 0; i < p->n_symbols; i++) {
        const ir_symbol *s = ir_dims_symbol(dims, i);
        p->symbols[i] = (plan_symbol){base_arena_str(p->arena, s->name), s->min, s->max};
        if (!p->symbols[i].name) return rp_fail(a->err, RP_NOMEM, "plan symbols");
    }
    return RP_OK;
}

static rp_status fill_interface(assembler *a) {
    plan *p = a->p;
    for (ir_ref r = 0; r < ir_graph_count(a->g); r++) a->at[r] = NOWHERE;
    RP_TRY(fill_symbols(a));
    RP_TRY(fill_leaves(a, IR_LEAF_INPUT, PLAN_INPUT, &p->inputs, &p->n_inputs));
    RP_TRY(fill_leaves(a, IR_LEAF_PARAM, PLAN_PARAM, &p->params, &p->n_params));
    RP_TRY(fill_leaves(a, IR_LEAF_STATE, PLAN_STATE, &p->states, &p->n_states));
    return fill_outputs(a);
}

rp_status compile_interface(const ir_graph *g, plan **out, rp_error *err) {
    rp_status st = RP_OK;
    assembler a = {
        .g = g, .symbols = ir_graph_dims(g), .err = err, .p = plan_new(ir_graph_name(g))};
    a.at = base_alloc_array(ir_graph_count(g) + 1u, sizeof *a.at);
    if (!a.p || !a.at) {
        st = rp_fail(err, RP_NOMEM, "plan");
        goto out;
    }
    RP_TRY_OUT(fill_interface(&a));
    *out = a.p;
    a.p = NULL;
out:
    base_free(a.at);
    plan_free(a.p);
    return st;
}

/* --- tables of a distinct piece --------------------------------------------- */

static rp_status add_module(assembler *a, const compile_code *code, uint32_t *out) {
    plan *p = a->p;
    *out = PLAN_BUILTIN;
    if (!code->has_code) return RP_OK;
    base_buf_clear(&a->key);
    base_buf_add(&a->key, &code->key, sizeof code->key);
    RP_TRY(place_of(a, a->modules, p->n_modules, out));
    if (*out == p->n_modules) p->modules[p->n_modules++] = (plan_module){code->key, code->isa_bits};
    return RP_OK;
}

static rp_status add_function(assembler *a, uint32_t module, const char *symbol, uint32_t *out) {
    plan *p = a->p;
    base_buf_clear(&a->key);
    base_buf_add(&a->key, &module, sizeof module);
    base_buf_puts(&a->key, symbol);
    RP_TRY(place_of(a, a->functions, p->n_functions, out));
    if (*out < p->n_functions) return RP_OK;
    char *own = base_arena_str(p->arena, symbol);
    if (!own) return rp_fail(a->err, RP_NOMEM, "plan function");
    p->functions[p->n_functions++] = (plan_function){module, own};
    return RP_OK;
}

/* The function behind a launch's symbol, which is built in or one of the piece's kernels, by name. */
static rp_status function_of(assembler *a, const compile_lowered *low, const base_map *kernels,
                             const char *symbol, uint32_t *out) {
    uint64_t i;
    uint32_t module;
    *out = PLAN_NO_FUNCTION;
    if (!symbol) return RP_OK;
    if (*symbol == '@') return add_function(a, PLAN_BUILTIN, symbol, out);
    if (!base_map_get(kernels, symbol, strlen(symbol), &i))
        return rp_fail(a->err, RP_INTERNAL, "no kernel is named %s", symbol);
    const compile_function *f = &low->functions[i];
    RP_TRY(add_module(a, &f->code, &module));
    return add_function(a, module, f->symbol, out);
}

static rp_status enter_functions(assembler *a, distinct_tables *t, const compile_lowered *low) {
    const lower_piece *l = &low->piece;
    rp_status st = RP_OK;
    base_map *kernels = base_map_new();
    t->functions = base_alloc_array(l->n_launches * LOWER_MAX_ALTS + 1u, sizeof *t->functions);
    if (!kernels || !t->functions) {
        st = rp_fail(a->err, RP_NOMEM, "plan tables");
        goto out;
    }
    for (uint32_t i = 0; i < l->n_kernels; i++) {
        const char *name = l->kernels[i].name;
        RP_TRY_OUT(base_map_put(kernels, name, strlen(name), i, a->err));
    }
    for (uint32_t i = 0; i < l->n_launches; i++)
        for (uint32_t k = 0; k < l->launches[i].n_alts; k++)
            RP_TRY_OUT(function_of(a, low, kernels, l->launches[i].alts[k].symbol,
                                   &t->functions[i * LOWER_MAX_ALTS + k]));
out:
    base_map_free(kernels);
    return st;
}

/* The plans of the graphs of its launches. */
static rp_status enter_inner(assembler *a, distinct_tables *t, const compile_lowered *low) {
    uint32_t n = low->piece.n_launches * 2;
    t->inner = base_alloc_array(n + 1u, sizeof *t->inner);
    if (!t->inner) return rp_fail(a->err, RP_NOMEM, "plan tables");
    for (uint32_t i = 0; low->inner && i < n; i++) {
        if (!low->inner[i]) continue;
        t->inner[i] = a->p->n_inner;
        a->p->inner[a->p->n_inner++] = low->inner[i];
        low->inner[i] = NULL;
    }
    return RP_OK;
}

static rp_status enter_tables(assembler *a, uint32_t d) {
    distinct_tables *t = &a->tables[d];
    const compile_lowered *low = &a->lowered[d];
    const lower_piece *l = &low->piece;
    plan *p = a->p;
    if (t->done) return RP_OK;
    t->done = true;
    t->first_const = p->n_consts;
    for (uint32_t i = 0; i < l->n_consts; i++) {
        void *copy = base_arena_alloc(p->arena, l->consts[i].size);
        if (!copy) return rp_fail(a->err, RP_NOMEM, "plan record");
        memcpy(copy, l->consts[i].data, l->consts[i].size);
        p->consts[p->n_consts++] = (plan_const){copy, l->consts[i].size};
    }
    uint32_t n = ir_dims_symbol_count(l->dims);
    uint32_t *map = base_arena_array(p->arena, n + 1u, sizeof *map);
    if (!map) return rp_fail(a->err, RP_NOMEM, "plan tables");
    for (uint32_t i = 0; i < n; i++)
        map[i] = ir_dims_find(a->symbols, ir_dims_symbol(l->dims, i)->name);
    t->dim_map = p->n_dim_maps;
    p->dim_maps[p->n_dim_maps++] = (plan_dim_map){map, n};
    RP_TRY(enter_functions(a, t, low));
    return enter_inner(a, t, low);
}

/* --- one piece ---------------------------------------------------------------- */

static rp_status add_value(assembler *a, const lower_piece *l, uint32_t temp, plan_arg *out) {
    plan_value *v = &a->p->values[a->p->n_values];
    RP_TRY(size_of(a, l->dims, l->temps[temp].bytes, &v->bytes));
    v->first = UINT32_MAX;
    *out = (plan_arg){.seg = PLAN_ARENA, .idx = a->p->n_values++};
    return RP_OK;
}

/* Equal packs have equal keys. */
static void pack_key(const plan_pack *k, base_buf *out) {
    base_buf_clear(out);
    base_buf_printf(out, "%d %" PRId64 " %d", k->dtype, k->k, k->swizzled);
    for (uint32_t i = 0; i < k->n_sections; i++) {
        const plan_section *s = &k->sections[i];
        base_buf_printf(out, ", %" PRId64 " %" PRIu32, s->rows, s->by_k);
        for (uint32_t j = 0; j < s->n_params; j++) base_buf_printf(out, " %" PRIu32, s->params[j]);
    }
}

static rp_status add_pack(assembler *a, const split_piece *sp, const lower_pack *lp,
                          plan_arg *out) {
    plan *p = a->p;
    plan_pack k = {
        .dtype = lp->dtype, .k = lp->k, .swizzled = lp->swizzled, .n_sections = lp->n_sections};
    k.sections = base_arena_array(p->arena, lp->n_sections, sizeof *k.sections);
    if (!k.sections) return rp_fail(a->err, RP_NOMEM, "packed weights");
    for (uint32_t i = 0; i < lp->n_sections; i++) {
        k.sections[i].n_params = lp->sections[i].n_params;
        k.sections[i].rows = lp->sections[i].rows;
        k.sections[i].by_k = lp->sections[i].by_k;
        for (uint32_t j = 0; j < lp->sections[i].n_params; j++)
            k.sections[i].params[j] = a->at[sp->params[lp->sections[i].params[j]]].idx;
    }
    pack_key(&k, &a->key);
    *out = (plan_arg){.seg = PLAN_PACK};
    RP_TRY(place_of(a, a->packs, p->n_packs, &out->idx));
    if (out->idx == p->n_packs) p->packs[p->n_packs++] = k;
    return RP_OK;
}

typedef struct piece_maps {
    plan_arg *temps, *packs;
} piece_maps;

static plan_arg leaf_place(const assembler *a, const split_piece *sp, lower_ref r) {
    switch (r.seg) {
    case LOWER_INPUT: return a->at[storage_of(a, sp->inputs[r.idx])];
    case LOWER_PARAM: return a->at[sp->params[r.idx]];
    case LOWER_STATE: return a->at[sp->states[r.idx]];
    default: return NOWHERE;
    }
}

static plan_arg map_ref(const assembler *a, const split_piece *sp, const piece_maps *m,
                        const distinct_tables *t, lower_ref r) {
    switch (r.seg) {
    case LOWER_INPUT:
    case LOWER_PARAM:
    case LOWER_STATE: return leaf_place(a, sp, r);
    case LOWER_PACK: return m->packs[r.idx];
    case LOWER_CONST: return (plan_arg){.seg = PLAN_CONST, .idx = t->first_const + r.idx};
    case LOWER_TEMP: return m->temps[r.idx];
    }
    return NOWHERE;
}

/* Outputs first: they live where the graph wants them; the rest are values of this piece. */
static rp_status place_temps(assembler *a, const split_piece *sp, const lower_piece *l,
                             piece_maps *m) {
    for (uint32_t i = 0; i < l->n_temps; i++) m->temps[i] = NOWHERE;
    for (uint32_t i = 0; i < l->n_outputs; i++) {
        plan_arg *at = &a->at[storage_of(a, sp->outputs[i])];
        lower_ref o = l->outputs[i];
        if (at->seg == PLAN_INPUT || at->seg == PLAN_PARAM || at->seg == PLAN_STATE) continue;
        if (o.seg !=
            LOWER_TEMP) { /* passes found that it is a leaf; what is returned is copied at the end */
            *at = leaf_place(a, sp, o);
            continue;
        }
        if (!is_somewhere(*at) && is_somewhere(m->temps[o.idx])) *at = m->temps[o.idx];
        if (!is_somewhere(*at)) RP_TRY(add_value(a, l, o.idx, at));
        m->temps[o.idx] = *at;
    }
    for (uint32_t i = 0; i < l->n_temps; i++)
        if (!is_somewhere(m->temps[i])) RP_TRY(add_value(a, l, i, &m->temps[i]));
    return RP_OK;
}

static void use_value(plan *p, plan_arg arg, uint32_t launch) {
    if (arg.seg != PLAN_ARENA) return;
    plan_value *v = &p->values[arg.idx];
    if (v->first == UINT32_MAX) v->first = launch;
    v->last = launch;
}

_Static_assert(PLAN_MAX_CUSTOM_ARGS == 64 + IR_MAX_RESULTS, "operands and results");

static rp_status custom_operands(assembler *a, const ir_dims *dims, const lower_launch *from,
                                 plan_launch *to) {
    to->custom = to->name;
    to->attrs = base_arena_str(a->p->arena, from->attrs);
    to->operands = base_arena_array(a->p->arena, from->n_args + 1u, sizeof *to->operands);
    if (!to->operands || !to->attrs) return rp_fail(a->err, RP_NOMEM, "custom op");
    for (uint32_t i = 0; i < from->n_args; i++) {
        const ir_type *x = &from->operands[i];
        plan_leaf *o = &to->operands[i];
        *o = (plan_leaf){.name = to->name, .dtype = x->dtype, .rank = x->shape.rank};
        for (uint32_t d = 0; d < x->shape.rank; d++)
            RP_TRY(size_of(a, dims, x->shape.dim[d], &o->dim[d]));
    }
    return RP_OK;
}

/* What a function gets in place of the symbols. */
static rp_status add_numbers(assembler *a, const ir_dims *dims, const lower_launch *from,
                             plan_launch *to) {
    if (!from->sizes) return RP_OK;
    to->dim_map = PLAN_NUMBERS;
    to->n_numbers = from->n_sizes + from->n_words;
    to->numbers = base_arena_array(a->p->arena, to->n_numbers + 1u, sizeof *to->numbers);
    if (!to->numbers) return rp_fail(a->err, RP_NOMEM, "plan launch");
    for (uint32_t i = 0; i < from->n_sizes; i++)
        RP_TRY(size_of(a, dims, from->sizes[i], &to->numbers[i]));
    for (uint32_t i = 0; i < from->n_words; i++)
        to->numbers[from->n_sizes + i] =
            (plan_size){.n = 1, .op = {IR_DIM_CODE_CONST}, .k = {from->words[i]}};
    return RP_OK;
}

/* The launch's own work, and memory for the values of whichever of its plans runs. */
static rp_status add_control(assembler *a, const distinct_tables *t, const lower_piece *l,
                             uint32_t i, plan_launch *to) {
    static const plan_control_kind kind[] = {PLAN_CALL, PLAN_COND, PLAN_WHILE, PLAN_SCAN};
    const lower_control *from = l->launches[i].control;
    plan *p = a->p;
    plan_value *v = &p->values[p->n_values];
    plan_control *c = base_arena_alloc(p->arena, sizeof *c);
    int64_t most = 0;
    if (!c) return rp_fail(a->err, RP_NOMEM, "plan launch");
    *c = (plan_control){.kind = kind[from->op - IR_call],
                        .inner = {t->inner[2 * i], t->inner[2 * i + 1]},
                        .n_operands = from->n_operands,
                        .n_results = from->n_results,
                        .carried = from->carried,
                        .sliced = from->sliced,
                        .limit = from->limit};
    RP_TRY(size_of(a, l->dims, from->length, &c->length));
    for (uint32_t k = 0; k < plan_control_count(c); k++)
        if (p->inner[c->inner[k]]->arena_size > most) most = p->inner[c->inner[k]]->arena_size;
    RP_TRY(size_of(a, l->dims, ir_dim_const(l->dims, most), &v->bytes));
    v->first = v->last = p->n_launches;
    to->args[to->n_args++] = (plan_arg){PLAN_ARENA, p->n_values++, BASE_READS | BASE_WRITES};
    to->control = c;
    return RP_OK;
}

_Static_assert(IR_cond == IR_call + 1 && IR_while == IR_call + 2 && IR_scan == IR_call + 3,
               "ops.def has them in this order");

static rp_status add_launch(assembler *a, const split_piece *sp, const piece_maps *m, uint32_t i) {
    const distinct_tables *t = &a->tables[sp->distinct];
    const lower_piece *l = &a->lowered[sp->distinct].piece;
    const lower_launch *from = &l->launches[i];
    plan *p = a->p;
    plan_launch *to = &p->launches[p->n_launches];
    to->name = base_arena_str(p->arena, from->name);
    to->args = base_arena_array(p->arena, from->n_args + 2u, sizeof *to->args);
    if (!to->name || !to->args) return rp_fail(a->err, RP_NOMEM, "plan launch");
    to->n_alts = from->n_alts;
    for (uint32_t k = 0; k < from->n_alts; k++)
        to->alts[k] = (plan_alt){.max = from->alts[k].max,
                                 .function = t->functions[i * LOWER_MAX_ALTS + k],
                                 .scratch = from->alts[k].scratch,
                                 .threads = from->alts[k].threads,
                                 .per_sm = from->alts[k].per_sm,
                                 .per_block = from->alts[k].per_block,
                                 .blocks = from->alts[k].blocks};
    RP_TRY(size_of(a, l->dims, from->rows, &to->rows));
    RP_TRY(size_of(a, l->dims, from->items, &to->items));
    to->grain = from->grain;
    to->threads = from->threads;
    to->per_block = from->per_block;
    to->dim_map = t->dim_map;
    to->attention = from->attention;
    to->n_args = from->n_args;
    for (uint32_t k = 0; k < from->n_args; k++) {
        to->args[k] = map_ref(a, sp, m, t, from->args[k]);
        if (!is_somewhere(to->args[k]))
            return rp_fail(a->err, RP_INTERNAL, "launch %s: argument %u of submod_%u has no memory",
                           from->name, k, sp->submod);
        to->args[k].access = from->args[k].access;
        use_value(p, to->args[k], p->n_launches);
    }
    RP_TRY(add_numbers(a, l->dims, from, to));
    if (from->custom) RP_TRY(custom_operands(a, l->dims, from, to));
    if (from->control) RP_TRY(add_control(a, t, l, i, to));
    p->n_launches++;
    return RP_OK;
}

static rp_status add_piece(assembler *a, uint32_t i) {
    const split_piece *sp = &a->s->pieces[i];
    const lower_piece *l = &a->lowered[sp->distinct].piece;
    rp_status st = RP_OK;
    piece_maps m = {base_alloc_array(l->n_temps + 1u, sizeof *m.temps),
                    base_alloc_array(l->n_packs + 1u, sizeof *m.packs)};
    if (!m.temps || !m.packs) {
        st = rp_fail(a->err, RP_NOMEM, "piece %u", i);
        goto out;
    }
    RP_TRY_OUT(enter_tables(a, sp->distinct));
    for (uint32_t k = 0; k < l->n_packs; k++)
        RP_TRY_OUT(add_pack(a, sp, &l->packs[k], &m.packs[k]));
    RP_TRY_OUT(place_temps(a, sp, l, &m));
    plan_piece *pp = &a->p->pieces[a->p->n_pieces++];
    *pp = (plan_piece){sp->submod,    sp->graph_index,  sp->distinct,
                       sp->splitting, a->p->n_launches, l->n_launches};
    for (uint32_t k = 0; k < l->n_launches; k++) RP_TRY_OUT(add_launch(a, sp, &m, k));
out:
    base_free(m.temps);
    base_free(m.packs);
    return st;
}

/* Leaves, and values that are returned twice. */
static rp_status copy_outputs(assembler *a) {
    uint32_t function;
    for (uint32_t i = 0; i < a->p->n_outputs; i++) {
        plan_arg from = a->at[storage_of(a, ir_output_at(a->g, i))];
        if (from.seg == PLAN_OUTPUT && from.idx == i) continue;
        RP_TRY(add_function(a, PLAN_BUILTIN, "@copy", &function));
        RP_TRY(compile_return_copy(a->p, from, i, function, a->err));
    }
    return RP_OK;
}

/* --- whole plan ------------------------------------------------------------------ */

static rp_status alloc_plan(assembler *a) {
    size_t control = 0, copies = ir_output_count(a->g), values = 1, packs = 1, functions = 2,
           modules = 1;
    size_t launches = copies + 1, consts = copies + 1, maps = a->s->n_pieces + 1;
    plan *p = a->p;
    for (uint32_t i = 0; i < a->s->n_pieces; i++) {
        const lower_piece *l = &a->lowered[a->s->pieces[i].distinct].piece;
        launches += l->n_launches;
        values += l->n_temps;
        for (uint32_t k = 0; k < l->n_launches; k++) control += l->launches[k].control != NULL;
        packs += l->n_packs;
        consts += l->n_consts;
        functions += l->n_launches * LOWER_MAX_ALTS;
        modules += l->n_kernels;
    }
    p->launches = base_arena_array(p->arena, launches, sizeof *p->launches);
    p->values = base_arena_array(p->arena, values + control, sizeof *p->values);
    p->inner = base_arena_array(p->arena, 2 * control + 1, sizeof *p->inner);
    p->packs = base_arena_array(p->arena, packs, sizeof *p->packs);
    p->consts = base_arena_array(p->arena, consts, sizeof *p->consts);
    p->functions = base_arena_array(p->arena, functions, sizeof *p->functions);
    p->modules = base_arena_array(p->arena, modules, sizeof *p->modules);
    p->dim_maps = base_arena_array(p->arena, maps, sizeof *p->dim_maps);
    p->pieces = base_arena_array(p->arena, a->s->n_pieces + 1u, sizeof *p->pieces);
    if (!p->launches || !p->values || !p->packs || !p->consts || !p->functions || !p->modules ||
        !p->dim_maps || !p->pieces || !p->inner)
        return rp_fail(a->err, RP_NOMEM, "plan of %zu launches", launches);
    return RP_OK;
}

static void forget_unused(plan *p) {
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->values[i].first == UINT32_MAX) p->values[i] = (plan_value){.first = 0, .last = 0};
}

rp_status compile_assemble(const ir_graph *g, const ir_dims *symbols, const split_result *s,
                           const compile_lowered *lowered, plan **out, rp_error *err) {
    rp_status st = RP_OK;
    assembler a = {.g = g,
                   .symbols = symbols,
                   .s = s,
                   .lowered = lowered,
                   .err = err,
                   .p = plan_new(ir_graph_name(g)),
                   .modules = base_map_new(),
                   .functions = base_map_new(),
                   .packs = base_map_new()};
    base_buf_init(&a.key, 0);
    a.at = base_alloc_array(ir_graph_count(g) + 1u, sizeof *a.at);
    a.tables = base_alloc_array(s->n_pieces + 1u, sizeof *a.tables);
    if (!a.p || !a.at || !a.tables || !a.modules || !a.functions || !a.packs) {
        st = rp_fail(err, RP_NOMEM, "plan");
        goto out;
    }
    RP_TRY_OUT(alloc_plan(&a));
    RP_TRY_OUT(fill_interface(&a));
    for (uint32_t i = 0; i < s->n_pieces; i++) RP_TRY_OUT(add_piece(&a, i));
    RP_TRY_OUT(copy_outputs(&a));
    a.p->n_compiled = s->n_compiled;
    a.p->n_distinct = s->n_distinct;
    forget_unused(a.p);
    RP_TRY_OUT(plan_seal(a.p, err));
    *out = a.p;
    a.p = NULL;
out:
    for (uint32_t i = 0; a.tables && i < s->n_pieces; i++) {
        base_free(a.tables[i].functions);
        base_free(a.tables[i].inner);
    }
    base_map_free(a.modules);
    base_map_free(a.functions);
    base_map_free(a.packs);
    base_buf_done(&a.key);
    base_free(a.at);
    base_free(a.tables);
    plan_free(a.p);
    return st;
}
