/* What a graph is compiled to, as it is collected (explain.c) and written (explain_json.c). */
#ifndef API_EXPLAIN_H
#define API_EXPLAIN_H

#include <jansson.h>

#include "api/api.h"
#include "compile/assemble.h"
#include "compile/skips.h"
#include "pass/fuse.h"

typedef struct api_explained_graph api_explained_graph;

/* A distinct piece on its way to kernels. */
typedef struct api_explained {
    ir_graph *after;             /* the passes */
    pass_fusion fusion;          /* of it; empty where nothing is fused */
    json_t *attention;           /* NULL: there is none */
    api_explained_graph *bodies; /* by launch * 2 + graph; NULL: no launch runs any */
    uint32_t n_bodies;
} api_explained;

/* The graph, or one within it. */
struct api_explained_graph {
    const ir_graph *g, *used; /* as given; with reads before the writes that follow */
    const rp_compiler *by;    /* who would compile it */
    ir_graph *made, *apart;   /* for that; with outputs that are no other value */
    split_result split;
    compile_lowered *lowered; /* by piece, of the distinct ones; as what follows */
    api_explained *pieces;
    plan *plan;       /* a body's is owned by the plan around it */
    int64_t *symbols; /* of g, and of the plan */
};

/* One thread. */
typedef struct api_explainer {
    api_explained_graph whole;
    ir_graph *lowered; /* NULL: no custom op gave way */
    rp_compilation_config *config;
    compile_skips skips;
    const rp_compiler *backend;
    gen_isa isa;
    gen_target target;
    api_explained *now; /* whose passes run */
    json_t *spans;
    int64_t began, depth;
    rp_error *err;
} api_explainer;

/* A span of compiling that has ended, from began on (base_now_ns). */
void api_explain_span(api_explainer *x, const char *name, int64_t began);
/* An attention of g and what becomes of it; NULL when memory is exhausted. */
json_t *api_explain_attention(const ir_graph *g, const pass_attention_found *f);
/* The whole; NULL when memory is exhausted. */
json_t *api_explain_json(const api_explainer *x);

#endif
