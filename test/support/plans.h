/* Plans without a compiler: pieces are lowered and assembled, but nothing is compiled or loaded. */
#ifndef SUPPORT_PLANS_H
#define SUPPORT_PLANS_H

#include "compile/compile.h"
#include "target/target.h"
#include "support/check.h"
#include "support/small_llama.h"

static inline rp_status no_cache(const compile_host *h, rp_error *err) {
    (void)h;
    (void)err;
    return RP_OK;
}

static inline rp_status no_hash(const compile_host *h, cache_key *k, rp_error *err) {
    (void)h;
    (void)k;
    (void)err;
    return RP_OK;
}

static inline rp_status no_code(const compile_host *h, const compile_unit *u, compile_code *out,
                                char **handle, rp_error *err) {
    (void)handle;
    (void)err;
    if (u->n_functions) *out = (compile_code){true, u->key, GEN_ISA_BIT(h->isa), false};
    return RP_OK;
}

/* inductor without the host compiler: a piece's module is nowhere. */
static inline rp_compiler lowers_only(void) {
    return (rp_compiler){.name = "inductor",
                         .initialize_cache = no_cache,
                         .compute_hash = no_hash,
                         .lower = target_lower,
                         .compile = no_code};
}

static inline plan *plan_of(const ir_graph *g) {
    const rp_compiler lowering = lowers_only();
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
