/* A run of a compiled graph as one call of its queue: which graph, its sizes, and the memory that it is given, whatever it launches. */
#include "api/compiled.h"
#include "plan/size.h"

static void tell_given(hal_device *queue, const api_told *told, const plan_leaf *l, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) hal_trace_memory(queue, l[i].name, told[i].at, told[i].size);
}

static void tell_leaves(hal_device *queue, const plan_exec *exec, const int64_t *symbols,
                        plan_seg seg, const plan_leaf *l, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        int64_t bytes = plan_size_eval(&l[i].bytes, symbols);
        if (bytes > 0)
            hal_trace_memory(queue, l[i].name, plan_exec_get(exec, seg, i), (size_t)bytes);
    }
}

static bool same_bound(const void *who, unsigned generation) {
    return atomic_load(&((const rp_compiled *)who)->generation) == generation;
}

static void drop(void *who) {
    api_compiled_unref(who);
}

/* What is bound stays until it is bound anew, or c goes. */
static void tell_bound(hal_device *queue, rp_compiled *c) {
    const hal_owner o = {c, atomic_load(&c->generation), same_bound, drop};
    (void)atomic_fetch_add(&c->refs, 1);
    hal_trace_owner(queue, &o);
}

hal_trace *api_trace_run(rp_compiled *c, hal_device *queue, const plan_exec *exec,
                         const int64_t *symbols, const api_told *told) {
    const plan *p = c->p;
    if (!queue->trace) return NULL;
    hal_trace_call(queue, p->name);
    hal_trace_value(queue, "which graph of the name", (long long)(intptr_t)c);
    for (uint32_t i = 0; i < p->n_symbols; i++) hal_trace_value(queue, "its sizes", symbols[i]);
    if (told) {
        tell_given(queue, told, p->inputs, p->n_inputs);
        tell_given(queue, told + p->n_inputs, p->outputs, p->n_outputs);
    } else {
        tell_leaves(queue, exec, symbols, PLAN_INPUT, p->inputs, p->n_inputs);
        tell_leaves(queue, exec, symbols, PLAN_OUTPUT, p->outputs, p->n_outputs);
    }
    tell_bound(queue, c);
    tell_leaves(queue, exec, symbols, PLAN_PARAM, p->params, p->n_params);
    tell_leaves(queue, exec, symbols, PLAN_STATE, p->states, p->n_states);
    return hal_trace_to(queue, NULL);
}
