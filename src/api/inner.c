/* Plans of the graphs within a graph, where nothing is compiled: what texts make of loops and branches.
 *
 * As compile.c has them, but for what a cache or a compiler would do. */
#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "pass/inplace.h"
#include "pass/pipeline.h"
#include "split/split.h"
#include "target/target.h"

void api_lowered_done(compile_lowered *l) {
    for (uint32_t i = 0; l->inner && i < 2 * l->piece.n_launches; i++) plan_free(l->inner[i]);
    base_free(l->inner);
    lower_done(&l->piece);
}

/* *after is what the passes make of the piece; the plan is made while it is there. */
static rp_status lower_part(const split_piece *sp, gen_isa isa, ir_graph **after,
                            compile_lowered *to, rp_error *err) {
    const pass_options passes = {.quiet = true, .piece = true};
    const lower_options o = {.isa = isa};
    RP_TRY(pass_run_all(sp->graph, &passes, after, err));
    RP_TRY(target_lower(*after, &o, &to->piece, err));
    RP_TRY(api_own_functions(to, isa, err));
    return api_inner_plans(to, isa, err);
}

static rp_status plan_of(const ir_graph *g, gen_isa isa, plan **out, rp_error *err) {
    rp_status st = RP_OK;
    const ir_graph *used = NULL;
    ir_graph *made = NULL, **after = NULL;
    split_result s = {0};
    compile_lowered *lowered = NULL;
    RP_TRY_OUT(pass_make_inplace(g, &used, &made, err));
    RP_TRY_OUT(split_graph(used, NULL, 0, &s, err));
    lowered = base_alloc_array(s.n_pieces + 1u, sizeof *lowered);
    after = base_alloc_array(s.n_pieces + 1u, sizeof(ir_graph *));
    if (!lowered || !after) {
        st = rp_fail(err, RP_NOMEM, "%u pieces", s.n_pieces);
        goto out;
    }
    for (uint32_t i = 0; i < s.n_pieces; i++)
        if (s.pieces[i].distinct == i)
            RP_TRY_OUT(lower_part(&s.pieces[i], isa, &after[i], &lowered[i], err));
    RP_TRY_OUT(compile_assemble(used, ir_graph_dims(g), &s, lowered, out, err));
out:
    for (uint32_t i = 0; lowered && i < s.n_pieces; i++) api_lowered_done(&lowered[i]);
    for (uint32_t i = 0; after && i < s.n_pieces; i++) ir_graph_free(after[i]);
    base_free(after);
    base_free(lowered);
    split_done(&s);
    ir_graph_free(made);
    return st;
}

rp_status api_inner_plans(compile_lowered *l, gen_isa isa, rp_error *err) {
    for (uint32_t i = 0; i < l->piece.n_launches; i++) {
        const lower_control *c = l->piece.launches[i].control;
        if (!c) continue;
        if (!l->inner) l->inner = base_alloc_array(2u * l->piece.n_launches, sizeof *l->inner);
        if (!l->inner) return rp_fail(err, RP_NOMEM, "plans within a plan");
        for (uint32_t k = 0; k < 2 && c->graph[k]; k++)
            RP_TRY(plan_of(c->graph[k], isa, &l->inner[2 * i + k], err));
    }
    return RP_OK;
}
