/* What the files of the search for a wrong kernel share. */
#ifndef API_BISECT_H
#define API_BISECT_H

#include "api/bound.h"
#include "api/part.h"
#include "base/arena.h"
#include "reprise/bisect.h"

/* One thread. */
typedef struct api_search {
    rp_bisect_options o;
    rp_device *device;
    rp_compilation_config *config;
    uint32_t runs;
    bool cut_short;    /* a run was refused: max_runs */
    const ir_graph *g; /* that is searched: the whole graph, or a piece */
    int64_t *sizes;    /* of its symbols */
} api_search;

/* A graph that is wrong, and how. */
typedef struct api_wrong {
    ir_graph *graph;
    ir_ref *from; /* by ref of graph, what it is in the graph that is searched */
    char *sizes;  /* of its symbols, "" where the default ones do */
    api_difference worst;
    ir_ref origin; /* what api_wrong_node is there */
} api_wrong;
/* The last node that computes what is wrong: of memory the last that writes. */
ir_ref api_wrong_node(const api_wrong *w);
void api_wrong_done(api_wrong *w);

struct rp_bisection {
    base_arena *arena;
    rp_bisect_info info;
};

/* Runs g both ways. sizes: as in rp_graph_eval_text. A failure is that of g. */
rp_status api_search_run(api_search *s, const ir_graph *g, const char *sizes, api_difference *out,
                         rp_error *err) RP_MUST_USE;
/* "T=4,R=2": the sizes of the search for the symbols of g (base_free). */
rp_status api_search_sizes(const api_search *s, const ir_graph *g, char **out,
                           rp_error *err) RP_MUST_USE;
/* Where the part is wrong, it is *w from now on. One that cannot be, or fails in another way, is not. */
rp_status api_search_part(api_search *s, const api_part *p, api_wrong *w, bool *wrong,
                          rp_error *err) RP_MUST_USE;
/* p is the part that *w is: leaves out of both what it can. */
rp_status api_search_reduce(api_search *s, api_part *p, api_wrong *w, rp_error *err) RP_MUST_USE;
/* Fills b->info with what w is; s->g is the graph that w is a part of. */
rp_status api_bisect_report(const api_search *s, const api_wrong *w, rp_bisection *b,
                            rp_error *err) RP_MUST_USE;

#endif
