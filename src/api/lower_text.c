/* Every stage of compiling a graph as text: fusion groups, kernel IR, schedules, source, plan.
 *
 * The graph is one piece here, whatever it holds; nothing is compiled or stored. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"
#include "compile/assemble.h"
#include "gen/gen.h"
#include "pass/fuse.h"
#include "pass/pipeline.h"
#include "target/target.h"

typedef enum stage {
    STAGE_FUSION,
    STAGE_KIR,
    STAGE_SCHEDULE,
    STAGE_C,
    STAGE_SCHEDULE_CUDA,
    STAGE_CUDA,
    STAGE_PLAN,
    STAGE_COUNT_
} stage;
static const char *const stage_names[STAGE_COUNT_] = {"fusion",        "kir",  "schedule", "c",
                                                      "schedule-cuda", "cuda", "plan"};

/* A comment before what comes of graph i of node r of g. */
static void text_heading(const ir_graph *g, ir_ref r, uint32_t i, stage which, base_buf *b) {
    const ir_node *n = ir_node_at(g, r);
    bool c = which == STAGE_C || which == STAGE_CUDA;
    base_buf_printf(b, "%s %s @%s of @%s: ", c ? "/*" : ";", ir_graph_role(n->op, i),
                    ir_graph_name(ir_node_graph(n, i)), ir_graph_name(g));
    ir_print_line(g, r, b);
    base_buf_puts(b, c ? " */\n" : "\n");
}

static rp_status text_fusion(const ir_graph *g, base_buf *b, rp_error *err) {
    pass_fusion f = {0};
    pass_splits splits;
    const pass_options o = {.splits = target_splits(GEN_HOST, 0, &splits)};
    RP_TRY(pass_fuse(g, &o, &f, err));
    ir_print(g, b);
    pass_fusion_print(g, &f, b);
    pass_fusion_done(&f);
    return RP_OK;
}

static rp_status text_lowered(const ir_graph *g, stage which, gen_isa isa, base_buf *b,
                              rp_error *err) {
    lower_piece p = {0};
    lower_options o = {.isa = isa, .sites = true};
    if (which == STAGE_SCHEDULE_CUDA || which == STAGE_CUDA) o.target = GEN_CUDA;
    if (which == STAGE_KIR) o.kir = b;
    if (which == STAGE_SCHEDULE || which == STAGE_SCHEDULE_CUDA) {
        o.schedule = b;
        o.scheduled = which == STAGE_SCHEDULE ? &sched_cpu : &sched_cuda;
    }
    if (which == STAGE_CUDA) o.printed = b, o.printed_for = GEN_CUDA;
    RP_TRY(target_lower(g, &o, &p, err));
    if (which == STAGE_C) lower_source_print(&p, b);
    lower_done(&p);
    return RP_OK;
}

rp_status api_own_functions(compile_lowered *l, gen_isa isa, rp_error *err) {
    compile_function *f = base_arena_array(l->piece.arena, l->piece.n_kernels + 1u, sizeof *f);
    if (!f) return rp_fail(err, RP_NOMEM, "%u kernels", l->piece.n_kernels);
    for (uint32_t i = 0; i < l->piece.n_kernels; i++)
        f[i] = (compile_function){{true, {0}, GEN_ISA_BIT(isa), false}, l->piece.kernels[i].name};
    l->functions = f;
    return RP_OK;
}

static rp_status text_plan(const ir_graph *g, gen_isa isa, base_buf *b, rp_error *err) {
    rp_status st = RP_OK;
    split_result s = {0};
    compile_lowered *lowered = NULL;
    plan *p = NULL;
    RP_TRY_OUT(split_graph(g, NULL, 0, &s, err));
    lowered = base_alloc_array(s.n_pieces + 1u, sizeof *lowered);
    if (!lowered) {
        st = rp_fail(err, RP_NOMEM, "%u pieces", s.n_pieces);
        goto out;
    }
    for (uint32_t i = 0; i < s.n_pieces; i++) {
        lower_options o = {.isa = isa};
        if (s.pieces[i].distinct != i) continue;
        RP_TRY_OUT(target_lower(s.pieces[i].graph, &o, &lowered[i].piece, err));
        RP_TRY_OUT(api_own_functions(&lowered[i], isa, err));
        RP_TRY_OUT(api_inner_plans(&lowered[i], isa, err));
    }
    RP_TRY_OUT(compile_assemble(g, ir_graph_dims(g), &s, lowered, &p, err));
    plan_print(p, b);
out:
    for (uint32_t i = 0; lowered && i < s.n_pieces; i++) api_lowered_done(&lowered[i]);
    base_free(lowered);
    plan_free(p);
    split_done(&s);
    return st;
}

/* A graph, then those within it, each as what is compiled by itself. */
static rp_status text_of(const ir_graph *g, stage which, gen_isa isa, base_buf *b, rp_error *err) {
    rp_status st = RP_OK;
    ir_graph *opt = NULL;
    const ir_graph *f;
    RP_TRY_OUT(pass_run_all(g, NULL, &opt, err));
    if (which == STAGE_PLAN) {
        RP_TRY_OUT(text_plan(opt, isa, b, err)); /* which has those of the graphs within */
        goto out;
    }
    if (which == STAGE_FUSION)
        RP_TRY_OUT(text_fusion(opt, b, err));
    else
        RP_TRY_OUT(text_lowered(opt, which, isa, b, err));
    for (ir_ref r = 0; r < ir_graph_count(opt); r++)
        for (uint32_t i = 0; (f = ir_node_graph(ir_node_at(opt, r), i)); i++) {
            text_heading(opt, r, i, which, b);
            RP_TRY_OUT(text_of(f, which, isa, b, err));
        }
out:
    ir_graph_free(opt);
    return st;
}

static rp_status find_stage(const char *name, stage *out, rp_error *err) {
    for (int i = 0; i < STAGE_COUNT_; i++)
        if (name && base_same_word(name, stage_names[i])) {
            *out = (stage)i;
            return RP_OK;
        }
    return rp_fail(
        err, RP_CONFIG,
        "unknown stage '%s'; known are fusion, kir, schedule, c, schedule-cuda, cuda and plan",
        name ? name : "");
}

rp_status rp_graph_lower_text(const rp_graph *g, const char *stage_name, const char *isa,
                              char **out, rp_error *err) {
    base_error_clear(err);
    stage which = STAGE_C;
    gen_isa target = GEN_ISA_PORTABLE;
    rp_status st = RP_OK;
    base_buf b;
    RP_TRY(api_graph_ready(g, err));
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    RP_TRY(find_stage(stage_name, &which, err));
    RP_TRY(api_isa(isa, &target, err));
    base_buf_init(&b, 0);
    RP_TRY_OUT(ir_verify(trace_graph_ir(g), err));
    if (which == STAGE_CUDA) gen_cuda_prelude(&b);
    RP_TRY_OUT(text_of(trace_graph_ir(g), which, target, &b, err));
    RP_TRY_OUT(base_buf_status(&b, err));
    *out = b.data ? base_buf_take(&b) : base_strdup("");
    if (!*out) st = rp_fail(err, RP_NOMEM, "text of stage %s", stage_names[which]);
out:
    base_buf_done(&b);
    return st;
}
