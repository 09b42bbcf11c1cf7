/* A compiled graph, shared by the files that compile, run and capture it. */
#ifndef API_COMPILED_H
#define API_COMPILED_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/frames.h"
#include "base/huge.h"
#include "device/stream.h"
#include "reprise/graph.h"

/* Owns cache handle, plan and frames, of which each call takes one. Weights are packed at the first run after a bind. */
struct rp_compiled {
    atomic_uint refs;       /* its user's, and one of each captured part */
    atomic_uint generation; /* what was captured under another one is invalid: a bind, or the end */
    rp_device *shared;      /* NULL: a device of its own */
    hal_device *device;     /* until frames has it */
    cache_store *store;
    plan *p;
    api_frames *frames;
    uint8_t *packed;
    base_huge packed_pages; /* where packed lies; empty: on the heap */
    const void **params;    /* by param, as bound */
    bool *mutates;          /* by input: calls write it */
    pthread_mutex_t lock;   /* guards packing */
    bool packed_ready;
    rp_compiled_info info;
};

void api_compiled_unref(rp_compiled *c);

/* Checks inputs and outputs against the plan, whose symbols get values, and sets them in exec. */
rp_status api_set_buffers(const plan *p, plan_exec *exec, int64_t *symbols, const rp_buffer *inputs,
                          rp_buffer *outputs, rp_error *err) RP_MUST_USE;
/* rp_compiled_run on a stream that captures: launches of memory of their own. Weights are packed. */
rp_status api_capture_run(rp_compiled *c, rp_stream *s, const rp_buffer *inputs, rp_buffer *outputs,
                          rp_error *err) RP_MUST_USE;

#endif
