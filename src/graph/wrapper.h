/* Capture and replay of one runnable (a piece, the head or a whole step), bound to one runtime mode.
 *
 * The wrapper never decides: it compares the record's mode with its own. One thread at a time. */
#ifndef GRAPH_WRAPPER_H
#define GRAPH_WRAPPER_H

#include "graph/state.h"
#include "hal/hal.h"

/* An input of a call; name and order are the same in every call. */
typedef struct graph_input {
    const char *name; /* borrowed for the life of the wrapper */
    void *ptr;
    size_t size; /* bytes */
} graph_input;

/* What is wrapped. */
typedef struct graph_runnable {
    void *user;
    /* The launches of a key, bound to these input addresses (n_in 0: the plan's own static ones).
     * Borrowed until the next call of list on the same user. */
    rp_status (*list)(void *user, const rp_batch_descriptor *key, const graph_input *in,
                      uint32_t n_in, const hal_launch **out, uint32_t *out_n, size_t *out_scratch,
                      rp_error *err);
} graph_runnable;

typedef struct graph_wrapper_options {
    const char *name;       /* in labels, logs and errors: "piece_3", "head", "step" */
    rp_cudagraph_mode mode; /* PIECEWISE or FULL */
    bool head;              /* looks at head_mode and head_key of the record */
    bool copy_inputs;       /* cudagraph_copy_inputs */
    uint32_t num_warmups;   /* cudagraph_num_of_warmups */
    /* copy_inputs: name and largest size of each input; ptr is ignored. */
    const graph_input *inputs;
    uint32_t n_inputs;
} graph_wrapper_options;

typedef struct graph_wrapper graph_wrapper;

/* device and state are borrowed for the life of the wrapper. */
rp_status graph_wrapper_new(hal_device *device, graph_state *state, const graph_runnable *r,
                            const graph_wrapper_options *o, graph_wrapper **out,
                            rp_error *err) RP_MUST_USE;
void graph_wrapper_free(graph_wrapper *w); /* NULL is fine */

/* Runs the step: replays, or captures and replays, or passes through. A capture made here does not warm
 * up: what its launches read is live, and they would run on it more than once. Errors: RP_INVALID naming
 * the input at a new address; RP_UNSUPPORTED for a missing graph when sealed is fatal. Does not allocate
 * when the graph is there. */
rp_status graph_wrapper_call(graph_wrapper *w, const rp_dispatch *d, const graph_input *in,
                             uint32_t n_in, rp_error *err) RP_MUST_USE;
/* Makes the graph of the record's key without replaying it; warm-up runs come first, so inputs and all
 * that the launches write must be those of a dummy step. Nothing happens when the record's mode is not the
 * wrapper's or the graph is there. */
rp_status graph_wrapper_capture(graph_wrapper *w, const rp_dispatch *d, const graph_input *in,
                                uint32_t n_in, rp_error *err) RP_MUST_USE;
bool graph_wrapper_has(const graph_wrapper *w, const rp_batch_descriptor *key);
/* A call with this record would look for a graph that is not there. */
bool graph_wrapper_lacks(const graph_wrapper *w, const rp_dispatch *d);
uint32_t graph_wrapper_count(const graph_wrapper *w);
/* Drops every graph; static input buffers stay. */
void graph_wrapper_clear(graph_wrapper *w);

#endif
