/* Step inputs as wrapper arguments. Sizes follow the dispatch record, so a copy moves the rows of a step and no more.
 * Does not own the arrays, and decides nothing about them. */
#include "engine/args.h"

#include <string.h>

#include "base/alloc.h"

static bool reads(const plan *p, uint32_t first, uint32_t n, uint32_t input) {
    for (uint32_t i = first; i < first + n; i++)
        for (uint32_t l = p->pieces[i].first; l < p->pieces[i].first + p->pieces[i].n; l++)
            for (uint32_t k = 0; k < p->launches[l].n_args; k++)
                if (p->launches[l].args[k].seg == PLAN_INPUT && p->launches[l].args[k].idx == input)
                    return true;
    return false;
}

static engine_arg arg_of(const engine_args_source *s, uint32_t input) {
    const plan_leaf *l = &s->p->inputs[input];
    engine_arg a = {.x = s->x, .input = input, .row_bytes = rp_dtype_block_bytes(l->dtype)};
    uint32_t inner = 0, symbol;
    int64_t rows = 1, coef, constant;
    if (l->rank > 0 && ir_dim_code_linear(&l->dim[0], &symbol, &coef, &constant)) {
        a.rows = s->p->symbols[symbol].name[0];
        rows = plan_size_eval(&l->dim[0], s->symbols);
        inner = 1;
    }
    for (; inner < l->rank; inner++)
        a.row_bytes *= (size_t)plan_size_eval(&l->dim[inner], s->symbols);
    a.max_bytes = a.row_bytes * (size_t)rows;
    return a;
}

static rp_status grow(engine_args *a, size_t most, rp_error *err) {
    graph_input *in = base_realloc_array(a->in, most, sizeof *in);
    if (in) a->in = in;
    engine_arg *of = in ? base_realloc_array(a->of, most, sizeof *of) : NULL;
    if (of) a->of = of;
    return of ? RP_OK : rp_fail(err, RP_NOMEM, "%zu step inputs", most);
}

static bool is_named(const char *const *names, const char *name) {
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

rp_status engine_args_add(engine_args *a, const engine_args_source *s, uint32_t first, uint32_t n,
                          rp_error *err) {
    RP_TRY(grow(a, (size_t)a->n + s->p->n_inputs + 1u, err));
    for (uint32_t i = 0; i < s->p->n_inputs; i++) {
        const char *name = s->p->inputs[i].name;
        if (is_named(s->except, name) || !reads(s->p, first, n, i)) continue;
        a->of[a->n] = arg_of(s, i);
        a->in[a->n] =
            (graph_input){name, plan_exec_get(s->x, PLAN_INPUT, i), a->of[a->n].max_bytes};
        a->n++;
    }
    return RP_OK;
}

void engine_args_done(engine_args *a) {
    base_free(a->in);
    base_free(a->of);
    *a = (engine_args){0};
}

const graph_input *engine_args_step(engine_args *a, const rp_dispatch *d) {
    for (uint32_t i = 0; i < a->n; i++) {
        int32_t rows = a->of[i].rows == 'T'   ? d->padded
                       : a->of[i].rows == 'S' ? d->padded_reqs
                       : a->of[i].rows == 'R' ? d->padded_logits
                                              : 1;
        a->in[i].size = a->of[i].row_bytes * (size_t)rows;
    }
    return a->in;
}

void engine_args_bind(const engine_args *a, const graph_input *in) {
    for (uint32_t i = 0; i < a->n; i++)
        plan_exec_set(a->of[i].x, PLAN_INPUT, a->of[i].input, in[i].ptr);
}

void engine_args_unbind(const engine_args *a) {
    engine_args_bind(a, a->in);
}

void engine_args_refresh(engine_args *a) {
    for (uint32_t i = 0; i < a->n; i++)
        a->in[i].ptr = plan_exec_get(a->of[i].x, PLAN_INPUT, a->of[i].input);
}

size_t engine_args_bytes(const engine_args *a) {
    size_t sum = 0;
    for (uint32_t i = 0; i < a->n; i++) sum += a->of[i].max_bytes;
    return sum;
}
