/* Which key serves which step, and how many of its rows are padding. */
#ifndef GRAPH_COVERAGE_H
#define GRAPH_COVERAGE_H

#include "base/str.h"
#include "graph/dispatcher.h"

typedef enum graph_cover_kind {
    GRAPH_COVER_DECODE,  /* from..to requests with the uniform query length */
    GRAPH_COVER_PREFILL, /* from..to tokens of one request, one logit row */
    GRAPH_COVER_BATCH    /* from..to tokens of as many requests as fit, a logit row each */
} graph_cover_kind;

/* A run of step sizes that one key serves. */
typedef struct graph_cover {
    graph_cover_kind kind;
    int32_t from, to;        /* requests (DECODE) or tokens */
    rp_dispatch dispatch;    /* of the last one */
    int64_t tokens, padding; /* summed over the sizes of the run */
    int32_t max_padding;
} graph_cover;

typedef struct graph_coverage {
    graph_cover *runs;
    size_t n_runs;
    int64_t sizes, eager; /* step sizes in all, and of those without any graph */
    int64_t tokens, padding;
} graph_coverage;

/* Owned by the caller (graph_coverage_done). */
rp_status graph_coverage_init(graph_coverage *c, const graph_dispatcher *d,
                              rp_error *err) RP_MUST_USE;
void graph_coverage_done(graph_coverage *c);
/* "decode", "prefill", "mixed". */
const char *graph_cover_name(graph_cover_kind kind);
/* A table, a line for runs that are alike but for their place on the ladder; mixed batches with prefill where both are
 * served alike. */
void graph_coverage_text(const graph_coverage *c, base_buf *out);
/* What serves `requests` requests of query_len tokens each, every one with a logit row. */
rp_status graph_coverage_at(const graph_dispatcher *d, int32_t requests, int32_t query_len,
                            rp_dispatch *out, rp_error *err) RP_MUST_USE;

#endif
