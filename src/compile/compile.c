/* The pipeline: splits each graph, gives the distinct pieces of all to one manager, joins what comes back.
 *
 * Graphs that are attributes of nodes are split and compiled as the graph that they are in, with the same jobs; their plans are inside
 * of its plan. */
#include "compile/compile.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "compile/assemble.h"
#include "compile/manager.h"
#include "pass/inplace.h"

typedef struct pipeline {
    compile_task *task;
    compile_task own;      /* the task of a graph within another's */
    struct pipeline *user; /* whose graph it is in; NULL: nobody's */
    plan **place;          /* of user, for the plan */
    const ir_graph *g;     /* of the task, with reads before the writes that follow */
    ir_graph *lowered_ops; /* with registered ops lowered; NULL: there were none */
    ir_graph *made;        /* g where it is another one */
    ir_graph *apart;       /* the same, of one whose outputs had no kernel */
    split_result split;
    uint32_t *entry; /* of the manager, by distinct piece */
    bool *added;     /* for this graph, not for one before it */
    compile_lowered *lowered;
} pipeline;

/* The tasks' graphs, then those within them, each behind the one that it is in. */
typedef struct work {
    pipeline **p;
    uint32_t n, cap;
} work;

static rp_status add_pipeline(work *w, const pipeline *p, rp_error *err) {
    pipeline *own = base_alloc(sizeof *own);
    if (w->n == w->cap) {
        uint32_t cap = w->cap ? w->cap * 2 : 16;
        pipeline **more = base_alloc_array(cap, sizeof(pipeline *));
        if (more && w->n) memcpy(more, w->p, w->n * sizeof(pipeline *));
        if (more) base_free(w->p);
        if (more) w->p = more;
        if (more) w->cap = cap;
    }
    if (!own || w->n == w->cap) {
        base_free(own);
        return rp_fail(err, RP_NOMEM, "%u graphs", w->n + 1);
    }
    *own = *p;
    if (!own->task) own->task = &own->own;
    w->p[w->n++] = own;
    return RP_OK;
}

static rp_status add_pieces(pipeline *p, compile_manager *m, const compile_options *opt,
                            rp_error *err) {
    const compile_task *t = p->task;
    uint32_t n_ops = 0;
    if (opt->keeps_op)
        RP_TRY(
            rewrite_lower_ops(t->g, opt->keeps_op, opt->keeps_user, &p->lowered_ops, &n_ops, err));
    pass_count *c = n_ops ? pass_count_of(opt->pass_counts, COMPILE_LOWERED_OPS) : NULL;
    if (c) c->matches += n_ops;
    RP_TRY(pass_make_inplace(p->lowered_ops ? p->lowered_ops : t->g, &p->g, &p->made, err));
    if (opt->backend->alone) RP_TRY(pass_separate_outputs(p->g, &p->apart, err));
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

/* The graphs of launch i of a piece: work of their own, whose plans the piece's plan will have. */
static rp_status add_graphs(work *w, pipeline *p, compile_lowered *low, const lower_piece *l,
                            uint32_t i, rp_error *err) {
    const lower_control *c = l->launches[i].control;
    if (!c) return RP_OK;
    if (!low->inner) low->inner = base_alloc_array(2u * l->n_launches, sizeof(plan *));
    if (!low->inner) return rp_fail(err, RP_NOMEM, "plans within a plan");
    for (uint32_t k = 0; k < 2 && c->graph[k]; k++) {
        pipeline in = {.user = p, .place = &low->inner[2 * i + k]};
        in.own = *p->task;
        in.own.g = c->graph[k];
        in.own.out = NULL;
        in.own.stats = (compile_stats){0};
        RP_TRY(add_pipeline(w, &in, err));
    }
    return RP_OK;
}

static rp_status add_inner(work *w, pipeline *p, const compile_manager *m, rp_error *err) {
    for (uint32_t i = 0; i < p->split.n_pieces; i++) {
        if (p->split.pieces[i].distinct != i) continue;
        const lower_piece *l = &compile_manager_entry(m, p->entry[i])->lowered;
        p->lowered[i].piece = *l;
        for (uint32_t k = 0; k < l->n_launches; k++)
            RP_TRY(add_graphs(w, p, &p->lowered[i], l, k, err));
    }
    return RP_OK;
}

static void add_stats(compile_stats *to, const compile_stats *s) {
    to->lower_ms += s->lower_ms;
    to->kernels += s->kernels;
    to->compiles += s->compiles;
    to->cache_hits += s->cache_hits;
}

static rp_status join(pipeline *p, const compile_manager *m, rp_error *err) {
    compile_stats *s = &p->task->stats;
    s->pieces = p->split.n_pieces;
    s->compiled = p->split.n_compiled;
    s->distinct = p->split.n_distinct;
    for (uint32_t i = 0; i < p->split.n_pieces; i++) {
        if (p->split.pieces[i].distinct != i) continue;
        const compile_entry *e = compile_manager_entry(m, p->entry[i]);
        p->lowered[i].functions = e->functions;
        if (!p->added[i]) continue;
        s->lower_ms += e->lower_ms;
        s->kernels += e->kernels;
        s->compiles += e->compiles;
        s->cache_hits += e->loads;
    }
    RP_TRY(compile_assemble(p->g, ir_graph_dims(p->task->g), &p->split, p->lowered, &p->task->out,
                            err));
    if (!p->user) return RP_OK;
    *p->place = p->task->out;
    p->task->out = NULL;
    add_stats(&p->user->task->stats, s);
    return RP_OK;
}

static void pipeline_free(pipeline *p) {
    for (uint32_t i = 0; p->lowered && i < p->split.n_pieces; i++) {
        plan **inner = p->lowered[i].inner;
        for (uint32_t k = 0; inner && k < 2 * p->lowered[i].piece.n_launches; k++)
            plan_free(inner[k]);
        base_free(inner);
    }
    base_free(p->entry);
    base_free(p->added);
    base_free(p->lowered);
    split_done(&p->split);
    ir_graph_free(p->made);
    ir_graph_free(p->lowered_ops);
    ir_graph_free(p->apart);
    base_free(p);
}

static rp_status run(work *w, uint32_t n, compile_manager *m, const compile_options *opt,
                     rp_error *err) {
    for (uint32_t i = 0; i < w->n; i++) { /* which grows */
        RP_TRY(add_pieces(w->p[i], m, opt, err));
        RP_TRY(add_inner(w, w->p[i], m, err));
    }
    int64_t t0 = base_now_ns();
    RP_TRY(compile_manager_run(m, err));
    double ms = (double)(base_now_ns() - t0) / 1e6;
    for (uint32_t i = w->n; i-- > 0;) { /* plans before those that have them */
        RP_TRY(join(w->p[i], m, err));
        if (i < n) w->p[i]->task->stats.compile_ms = ms;
    }
    return RP_OK;
}

rp_status compile_graphs(compile_task *tasks, uint32_t n, const compile_options *opt,
                         rp_error *err) {
    rp_status st = RP_OK;
    compile_manager *m = NULL;
    work w = {0};
    for (uint32_t i = 0; i < n; i++)
        RP_TRY_OUT(add_pipeline(&w, &(pipeline){.task = &tasks[i]}, err));
    RP_TRY_OUT(compile_manager_new(opt, &m, err));
    RP_TRY_OUT(run(&w, n, m, opt, err));
out:
    for (uint32_t i = 0; i < n && st != RP_OK; i++) {
        plan_free(tasks[i].out);
        tasks[i].out = NULL;
    }
    compile_manager_free(m);
    for (uint32_t i = 0; i < w.n; i++) pipeline_free(w.p[i]);
    base_free(w.p);
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
