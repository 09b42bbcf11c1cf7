/* Plans without a compiler: pieces are lowered and assembled, but nothing is compiled or loaded. */
#ifndef SUPPORT_PLANS_H
#define SUPPORT_PLANS_H

#include "compile/compile.h"
#include "support/check.h"
#include "support/small_llama.h"

static inline plan *plan_of(const ir_graph *g) {
    static const compile_backend lowering = {.name = "inductor", .lower = lower_graph};
    static const char *const ops[] = {"reprise::attention"};
    const compile_toolchain none = {0};
    compile_options opt = {.backend = &lowering,
                           .isa = GEN_ISA_PORTABLE,
                           .splitting_ops = ops,
                           .n_splitting_ops = 1,
                           .toolchain = &none,
                           .passes = true};
    rp_error err = {0};
    plan *p = NULL;
    CHECK_OK(compile_graph(g, &opt, &p, NULL, &err), &err);
    return p;
}

static inline plan *plan_of_llama(uint32_t layers) {
    rp_error err = {0};
    rp_graph *g = NULL;
    small_llama_options opt = {.layers = layers, .weights = RP_DTYPE_Q4_1};
    CHECK_OK(small_llama_new(&opt, &g, &err), &err);
    plan *p = plan_of(trace_graph_ir(g));
    rp_graph_free(g);
    return p;
}

#endif
