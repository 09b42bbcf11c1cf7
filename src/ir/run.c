/* Graphs that several runs of one function record: what is not merged when it is built (memory, and what writes it) is found again by
 * being asked for in the same way. */
#include <string.h>

#include "ir/cell.h"

const ir_effects *ir_run_effects(const ir_graph *g) {
    return &g->runs->effects;
}

static void *grown(ir_graph *g, const void *p, uint32_t n, uint32_t cap, size_t size) {
    void *q = base_arena_array(g->arena, cap, size);
    if (q && n) memcpy(q, p, n * size);
    return q;
}

rp_status ir_run_reserve(ir_graph *g, rp_error *err) {
    ir_runs *s = g->runs;
    uint32_t cap = s->cap ? s->cap * 2 : 16;
    if (s->n < s->cap) return RP_OK;
    ir_ref *ref = grown(g, s->ref, s->n, cap, sizeof *ref);
    ir_ref *effect = grown(g, s->effects.ref, s->effects.n, cap, sizeof *effect);
    uint64_t *run = grown(g, s->run, s->n, cap, sizeof *run);
    if (!ref || !effect || !run) return ir_graph_full(g, err);
    s->ref = ref;
    s->effects.ref = effect;
    s->run = run;
    s->cap = cap;
    return RP_OK;
}

bool ir_run_notes(const ir_node *n) {
    return ir_op_run_by_host(n->op) || (n->op != IR_input && !ir_node_merges(n));
}

static void take(ir_graph *g, uint32_t i) {
    ir_runs *s = g->runs;
    const ir_node *n = ir_node_at(g, s->ref[i]);
    s->run[i] = s->now;
    if (ir_node_is_effect(n) || ir_op_run_by_host(n->op))
        s->effects.ref[s->effects.n++] = s->ref[i];
}

void ir_run_note(ir_graph *g, ir_ref r) {
    g->runs->ref[g->runs->n] = r;
    take(g, g->runs->n++);
}

ir_ref ir_run_find(ir_graph *g, const ir_node *n) {
    ir_runs *s = g->runs;
    for (uint32_t i = 0; i < s->n; i++) {
        ir_ref r = s->ref[i];
        if (s->run[i] == s->now || !ir_node_equal(n, ir_node_at(g, r))) continue;
        ir_cell_write(g, r);
        take(g, i);
        return r;
    }
    return IR_NONE;
}

rp_status ir_run_ask(ir_graph *g, ir_ref r, rp_error *err) {
    ir_runs *s = g->runs;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->ref[i] != r) continue;
        if (s->run[i] != s->now) take(g, i);
        return RP_OK;
    }
    RP_TRY(ir_run_reserve(g, err));
    ir_run_note(g, r);
    return RP_OK;
}

/* What was recorded so far is the first run. */
static rp_status first_run(ir_graph *g, rp_error *err) {
    g->runs = base_arena_alloc(g->arena, sizeof *g->runs);
    if (!g->runs) return ir_graph_full(g, err);
    *g->runs = (ir_runs){.now = 1};
    for (ir_ref r = 0; r < g->n; r++) {
        if (!ir_run_notes(ir_node_at(g, r))) continue;
        RP_TRY(ir_run_reserve(g, err));
        ir_run_note(g, r);
    }
    return RP_OK;
}

rp_status ir_graph_rerun(ir_graph *g, rp_error *err) {
    ir_runs *s = g->runs;
    if (!s) return first_run(g, err);
    for (uint32_t i = 0; i < s->effects.n; i++) ir_cell_forget_writes(g, s->effects.ref[i]);
    s->effects.n = 0;
    s->now++;
    return RP_OK;
}
