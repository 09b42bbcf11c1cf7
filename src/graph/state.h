/* What all wrappers and the dispatcher of one model share: whether capturing is allowed, and counters.
 *
 * Counters of launches and replays at the device border are in hal; these say what the graph layer
 * decided. One thread at a time. */
#ifndef GRAPH_STATE_H
#define GRAPH_STATE_H

#include "base/status.h"
#include "config/config.h"
#include "reprise/dispatch.h"

#define GRAPH_MAX_SKIPS 64
#define GRAPH_MAX_HINTS 32

/* Something that did not run as a graph, and why; equal texts are counted together. */
typedef struct graph_skip {
    char what[64];
    char reason[192];
    uint64_t count;
} graph_skip;

typedef struct graph_state {
    bool capturing;       /* start-up: captures are expected */
    config_sealed sealed; /* what a capture after start-up does */
    bool require_graph;   /* a skip is an error */
    uint64_t captures, replays;
    uint64_t late;            /* captures wanted after sealing */
    uint64_t passed;          /* wrapper calls that ran their launches one by one */
    uint64_t steps[3];        /* by runtime mode: NONE (eager steps), PIECEWISE, FULL */
    uint64_t tokens, padding; /* real and padded rows of all steps */
    uint64_t graph_bytes;
    struct graph_finisher *finisher; /* of the ladder that is being captured; NULL: there is none */
    uint32_t n_skips;
    uint64_t lost_skips; /* kinds that found the table full */
    graph_skip skips[GRAPH_MAX_SKIPS];
    /* Sizes whose padding was hinted at: once each. */
    struct {
        int32_t tokens, padded;
    } hints[GRAPH_MAX_HINTS];
    uint32_t n_hints;
} graph_state;

/* Capturing is on until graph_state_seal. */
void graph_state_init(graph_state *s, config_sealed sealed, bool require_graph);
/* End of start-up: from now on a missing graph is an event. */
void graph_state_seal(graph_state *s);
bool graph_state_may_capture(const graph_state *s);
/* Counts and logs; never allocates. */
void graph_state_skip(graph_state *s, const char *what, const char *reason);
/* Counts one step. RP_UNSUPPORTED naming the reason when the dispatch fell back and require_graph
 * is on. */
rp_status graph_state_step(graph_state *s, const rp_dispatch *d, rp_error *err) RP_MUST_USE;

#endif
