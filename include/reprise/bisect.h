/* Finds the kernel that computes something else than its graph says.
 *
 * A graph runs on seeded random inputs by the interpreter and compiled. Where they differ by more than rounding explains, the graph is made
 * smaller as long as what is left still differs: outputs are left out, values become inputs, sizes small. What remains is a few nodes, the
 * last of which is the first bad one, as a graph that shows the fault alone. */
#ifndef REPRISE_BISECT_H
#define REPRISE_BISECT_H

#include "reprise/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_BISECT_MAX_RUNS 400

typedef struct rp_bisect_options {
    size_t size;       /* sizeof(rp_bisect_options) */
    uint64_t seed;     /* of the inputs */
    const char *sizes; /* (optional) "T=4,R=2", as in rp_graph_eval_text */
    rp_device *device; /* (optional) as in rp_compile_on */
    uint32_t max_runs; /* compiled graphs to try at most; 0: RP_BISECT_MAX_RUNS */
    /* (optional) Called before each of them; false ends the search: RP_CANCELLED. */
    bool (*wanted)(void *user, uint32_t runs);
    void *user;
} rp_bisect_options;
#define RP_BISECT_OPTIONS_INIT \
    { sizeof(rp_bisect_options), 0, NULL, NULL, 0, NULL, NULL }

/* An operand of the bad node: its values in the run that shows the fault. */
typedef struct rp_bisect_operand {
    const char *name, *type; /* "%x", "f32[2,8]" */
    double min, max;
} rp_bisect_operand;

typedef struct rp_bisect_info {
    size_t size; /* sizeof(rp_bisect_info), set by the caller; may be an older, smaller one */
    bool
        differs; /* false: all is within its bounds, and what follows is zero but for runs, pieces */
    uint32_t runs; /* compiled graphs that were run */
    /* The piece that is wrong, as submod_N, of how many; alone where there is one. Where no piece shows it alone, piece is pieces, and what
     * follows is of the whole graph. */
    uint32_t piece, pieces;
    const char *op; /* of the bad node; borrowed until rp_bisection_free, as what follows */
    const char *
        node; /* as text of the graph, or of the piece; after the passes, where a kernel shows it that runs alone */
    const char *sites;   /* lines of the program that made it; "" where none are known */
    const char *kernels; /* what the reduced graph is compiled to: "poi_fused_sigmoid_0", or "";
                            "scan (body @cell: poi_fused_sigmoid_0)" */
    const char
        *pass; /* the pass after which the interpreter itself gives something else; "": none */
    const rp_bisect_operand *operands; /* of the bad node */
    uint32_t n_operands;
    const char *element;    /* "out0[1,3]", or "state:k[0]": the worst of the reduced graph */
    double want, got;       /* by the interpreter, and compiled */
    double ulps, bound;     /* how far apart they are, and how far they may be */
    uint32_t nodes, inputs; /* that are left in the reduced graph: computed, and given */
    const char *reduced;    /* the reduced graph as text, which rp_graph_parse reads */
    const char *sizes;      /* that it needs: "" for none */
    bool unreduced;         /* no part shows it, or not every time: reduced is the graph as given */
    bool cut_short;         /* max_runs ended the search: less might be left after more runs */
    /* The graph within the graph that all of this is of, which shows the fault alone: "body @cell of %4 = scan ...", outer ones in front; "": none. */
    const char *body;
} rp_bisect_info;
#define RP_BISECT_INFO_INIT \
    { .size = sizeof(rp_bisect_info) }

typedef struct rp_bisection rp_bisection;

/* Compiles as rp_compile_on does with config (borrowed, resolved here; NULL: level 2), at level 3 piece by piece. RP_OK whether there is a
 * difference or not; RP_CANCELLED where max_runs ended the search before there was one. RP_UNSUPPORTED and others where g does not compile
 * or the interpreter refuses it. Thread-safe. */
RP_API rp_status rp_graph_bisect(const rp_graph *g, rp_compilation_config *config,
                                 const rp_bisect_options *options, rp_bisection **out,
                                 rp_error *err) RP_MUST_USE;
RP_API void rp_bisection_free(rp_bisection *b);
/* Fills *out, whose size is set. */
RP_API rp_status rp_bisection_get_info(const rp_bisection *b, rp_bisect_info *out,
                                       rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
