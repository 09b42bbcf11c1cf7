/* Plans of the graphs within a graph, where nothing is compiled: what texts and explanations make of loops and branches.
 *
 * As compile.c has them, but for what a cache or a compiler would do. */
#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "compile/compiler.h"
#include "pass/inplace.h"
#include "pass/pipeline.h"
#include "split/split.h"

void api_lowered_done(compile_lowered *l) {
    for (uint32_t i = 0; l->inner && i < 2 * l->piece.n_launches; i++) plan_free(l->inner[i]);
    base_free(l->inner);
    lower_done(&l->piece);
}

/* *after is what the passes make of the piece; the plan is made while it is there. */
static rp_status lower_part(const split_piece *sp, const api_inner *how, ir_graph **after,
                            compile_lowered *to, rp_error *err) {
    pass_options passes = {.quiet = true, .piece = true};
    if (how->lower->passes) {
        passes.skip = how->lower->passes->skip;
        passes.n_skip = how->lower->passes->n_skip;
    }
    if (how->backend == &compile_eager)
        *after = ir_graph_share(sp->graph);
    else
        RP_TRY(pass_run_all(sp->graph, &passes, after, err));
    RP_TRY(how->backend->lower(*after, how->lower, &to->piece, err));
    RP_TRY(api_own_functions(to, how->isa, err));
    return api_inner_plans(to, how, err);
}

static rp_status plan_of(const ir_graph *g, const api_inner *how, plan **out, rp_error *err) {
    rp_status st = RP_OK;
    const ir_graph *used = NULL;
    ir_graph *made = NULL, *apart = NULL, **after = NULL;
    split_result s = {0};
    compile_lowered *lowered = NULL;
    RP_TRY_OUT(pass_make_inplace(g, &used, &made, err));
    if (how->backend->alone) RP_TRY_OUT(pass_separate_outputs(used, &apart, err));
    if (apart) used = apart;
    RP_TRY_OUT(split_graph(used, how->splitting_ops, how->n_splitting_ops, &s, err));
    lowered = base_alloc_array(s.n_pieces + 1u, sizeof *lowered);
    after = base_alloc_array(s.n_pieces + 1u, sizeof(ir_graph *));
    if (!lowered || !after) {
        st = rp_fail(err, RP_NOMEM, "%u pieces", s.n_pieces);
        goto out;
    }
    for (uint32_t i = 0; i < s.n_pieces; i++)
        if (s.pieces[i].distinct == i)
            RP_TRY_OUT(lower_part(&s.pieces[i], how, &after[i], &lowered[i], err));
    RP_TRY_OUT(compile_assemble(used, ir_graph_dims(g), &s, lowered, out, err));
out:
    for (uint32_t i = 0; lowered && i < s.n_pieces; i++) api_lowered_done(&lowered[i]);
    for (uint32_t i = 0; after && i < s.n_pieces; i++) ir_graph_free(after[i]);
    base_free(after);
    base_free(lowered);
    split_done(&s);
    ir_graph_free(apart);
    ir_graph_free(made);
    return st;
}

rp_status api_inner_plans(compile_lowered *l, const api_inner *how, rp_error *err) {
    for (uint32_t i = 0; i < l->piece.n_launches; i++) {
        const lower_control *c = l->piece.launches[i].control;
        if (!c) continue;
        if (!l->inner) l->inner = base_alloc_array(2u * l->piece.n_launches, sizeof *l->inner);
        if (!l->inner) return rp_fail(err, RP_NOMEM, "plans within a plan");
        for (uint32_t k = 0; k < 2 && c->graph[k]; k++)
            RP_TRY(plan_of(c->graph[k], how, &l->inner[2 * i + k], err));
    }
    return RP_OK;
}
