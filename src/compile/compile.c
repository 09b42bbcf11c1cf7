/* The pipeline: splits each graph, gives the distinct pieces of all to one manager, joins what comes back. */
#include "compile/compile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "compile/assemble.h"
#include "compile/manager.h"
#include "pass/inplace.h"

typedef struct pipeline {
    compile_task *task;
    const ir_graph *g; /* of the task, with reads before the writes that follow */
    ir_graph *made;    /* g where it is another one */
    ir_graph *apart;   /* the same, of one whose outputs had no kernel */
    split_result split;
    uint32_t *entry; /* of the manager, by distinct piece */
    bool *added;     /* for this graph, not for one before it */
    compile_lowered *lowered;
} pipeline;

static rp_status add_pieces(pipeline *p, compile_manager *m, bool alone, rp_error *err) {
    const compile_task *t = p->task;
    RP_TRY(pass_make_inplace(t->g, &p->g, &p->made, err));
    if (alone) RP_TRY(pass_separate_outputs(p->g, &p->apart, err));
    if (p->apart) p->g = p->apart;
    RP_TRY(split_graph(p->g, t->splitting_ops, t->n_splitting_ops, &p->split, err));
    uint32_t n = p->split.n_pieces;
    p->entry = base_alloc_array(n + 1u, sizeof *p->entry);
    p->added = base_alloc_array(n + 1u, sizeof *p->added);
    p->lowered = base_alloc_array(n + 1u, sizeof *p->lowered);
    if (!p->entry || !p->added || !p->lowered) return rp_fail(err, RP_NOMEM, "%u pieces", n);
    for (uint32_t i = 0; i < n; i++)
        if (p->split.pieces[i].distinct == i)
            RP_TRY(compile_manager_add(m, &p->split.pieces[i], &p->entry[i], &p->added[i], err));
    return RP_OK;
}

static rp_status join(pipeline *p, const compile_manager *m, rp_error *err) {
    compile_stats *s = &p->task->stats;
    s->pieces = p->split.n_pieces;
    s->compiled = p->split.n_compiled;
    s->distinct = p->split.n_distinct;
    for (uint32_t i = 0; i < p->split.n_pieces; i++) {
        if (p->split.pieces[i].distinct != i) continue;
        const compile_entry *e = compile_manager_entry(m, p->entry[i]);
        p->lowered[i] = (compile_lowered){e->lowered, e->functions};
        if (!p->added[i]) continue;
        s->lower_ms += e->lower_ms;
        s->kernels += e->kernels;
        s->compiles += e->compiles;
        s->cache_hits += e->loads;
    }
    return compile_assemble(p->g, &p->split, p->lowered, &p->task->out, err);
}

rp_status compile_graphs(compile_task *tasks, uint32_t n, const compile_options *opt,
                         rp_error *err) {
    rp_status st = RP_OK;
    compile_manager *m = NULL;
    pipeline *p = base_alloc_array(n + 1u, sizeof *p);
    if (!p) return rp_fail(err, RP_NOMEM, "%u graphs", n);
    for (uint32_t i = 0; i < n; i++) p[i].task = &tasks[i];
    RP_TRY_OUT(compile_manager_new(opt, &m, err));
    for (uint32_t i = 0; i < n; i++) RP_TRY_OUT(add_pieces(&p[i], m, opt->backend->alone, err));
    int64_t t0 = base_now_ns();
    RP_TRY_OUT(compile_manager_run(m, err));
    double ms = (double)(base_now_ns() - t0) / 1e6;
    for (uint32_t i = 0; i < n; i++) {
        RP_TRY_OUT(join(&p[i], m, err));
        tasks[i].stats.compile_ms = ms;
    }
out:
    for (uint32_t i = 0; i < n; i++) {
        if (st != RP_OK) {
            plan_free(tasks[i].out);
            tasks[i].out = NULL;
        }
        base_free(p[i].entry);
        base_free(p[i].added);
        base_free(p[i].lowered);
        split_done(&p[i].split);
        ir_graph_free(p[i].made);
        ir_graph_free(p[i].apart);
    }
    compile_manager_free(m);
    base_free(p);
    return st;
}

rp_status compile_graph(const ir_graph *g, const compile_options *opt, plan **out,
                        compile_stats *stats, rp_error *err) {
    compile_task t = {
        .g = g, .splitting_ops = opt->splitting_ops, .n_splitting_ops = opt->n_splitting_ops};
    RP_TRY(compile_graphs(&t, 1, opt, err));
    *out = t.out;
    if (stats) *stats = t.stats;
    return RP_OK;
}
