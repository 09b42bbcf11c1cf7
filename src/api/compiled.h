/* A compiled graph, shared by the files that compile, run and capture it. */
#ifndef API_COMPILED_H
#define API_COMPILED_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/frames.h"
#include "api/stage.h"
#include "base/huge.h"
#include "device/repeat.h"
#include "device/stream.h"
#include "pass/pipeline.h"
#include "reprise/graph.h"

/* A param where it is read, on a device that does not reach the caller's memory. */
typedef struct api_copy {
    void *at; /* NULL: none */
    size_t size;
} api_copy;

typedef struct api_foreign api_foreign;

/* Owns cache handle, plan and frames, of which each call takes one. Weights are packed at the first run after a bind. */
struct rp_compiled {
    device_repeatable repeatable; /* first */
    atomic_uint refs;             /* its user's, and one of each captured part */
    atomic_uint generation; /* what was captured under another one is invalid: a bind, or the end */
    rp_device *shared;      /* NULL: a device of its own */
    hal_device *device;     /* until frames has it */
    hal_device *memory;     /* a queue for weights, on a device with memory of its own; else NULL */
    cache_store *store;
    plan *p;
    api_frames *frames;
    uint8_t *packed;
    base_huge packed_pages;   /* where packed lies; empty: on the heap, or with memory there */
    const void **params;      /* by param, as bound */
    api_copy *copies;         /* by param; NULL without memory */
    bool *mutates;            /* by input: calls write it */
    pthread_mutex_t lock;     /* guards packing */
    atomic_bool packed_ready; /* set by lock */
    rp_compiled_info info;
    bool check_ops;
    atomic_uint views_told; /* tensors of which the log has said that they are copied */
    pass_counts passes;     /* and as info has them */
    rp_pass_info pass_info[PASS_MOST_COUNTS];
    char *reason; /* behind info.reason */
    api_foreign
        *foreign; /* who computes it instead: p is an interface then, and there are no frames */
};

void api_compiled_unref(rp_compiled *c);
rp_compiled *api_compiled_new(rp_device *device); /* NULL: no memory */
/* By inductor, with a configuration that is resolved, of which `backend` is not looked at. */
rp_status api_compile_piece(rp_device *device, const rp_graph *g, rp_compilation_config *cfg,
                            rp_compiled **out, rp_error *err) RP_MUST_USE;

/* --- repeat.c --- */
/* As device_repeatable has it, where the memory of c's device is the host's, the library computes it, and calls take no turns. */
rp_status api_repeat(rp_compiled *c, device_repeat **out, rp_error *err) RP_MUST_USE;

/* Where what is empty, or a token, is said to be: nothing is read or written there. */
void *api_address(void *data);
/* Packs params after a bind, and brings them to the device. Thread-safe. */
rp_status api_weights_make_ready(rp_compiled *c, rp_error *err) RP_MUST_USE;
RP_MUST_USE static inline rp_status api_weights_ready(rp_compiled *c, rp_error *err) {
    bool ready = atomic_load_explicit(&c->packed_ready, memory_order_acquire);
    return ready ? RP_OK : api_weights_make_ready(c, err);
}
/* Gives back packed weights, copies and the list of params. */
void api_weights_done(rp_compiled *c);
/* Checks inputs and outputs against the plan, whose symbols get values. */
rp_status api_check_buffers(const plan *p, int64_t *symbols, const rp_buffer *inputs,
                            const rp_buffer *outputs, rp_error *err) RP_MUST_USE;
/* The same, and sets them in exec. */
rp_status api_set_buffers(const plan *p, plan_exec *exec, int64_t *symbols, const rp_buffer *inputs,
                          const rp_buffer *outputs, rp_error *err) RP_MUST_USE;
/* Where they lie alone. */
void api_set_addresses(const plan *p, plan_exec *exec, const rp_buffer *inputs,
                       const rp_buffer *outputs);
/* Where an input or output of a call lies, of which the graph is given a copy. */
typedef struct api_told {
    const void *at;
    size_t size;
} api_told;
/* Tells who asks what queue is called with that c runs, with what exec has by now, and nothing from then on: gives who asked
 * (hal_trace_to). told: as api_run_frame has it. */
hal_trace *api_trace_run(rp_compiled *c, hal_device *queue, const plan_exec *exec,
                         const int64_t *symbols, const api_told *told);
/* RP_INVALID where a call gives other numbers of tensors, or none. */
rp_status api_check_counts(const rp_compiled *c, const void *inputs, uint32_t n_inputs,
                           const void *outputs, uint32_t n_outputs, rp_error *err) RP_MUST_USE;
/* Whether s, NULL for none, is a stream that c runs on, and not while this thread captures another one. call: which function asks. */
rp_status api_check_stream(const rp_compiled *c, const rp_stream *s, const char *call,
                           rp_error *err) RP_MUST_USE;
/* A call on queue with what f has. The results are there when it returns. told: by input, then by output; NULL: they are what is given. */
rp_status api_run_frame(rp_compiled *c, api_frame *f, hal_device *queue, const rp_buffer *inputs,
                        rp_buffer *outputs, const api_told *told, rp_error *err) RP_MUST_USE;
/* rp_compiled_run on a stream that captures: launches of memory of their own. Weights are packed. */
rp_status api_capture_run(rp_compiled *c, rp_stream *s, const rp_buffer *inputs, rp_buffer *outputs,
                          const api_told *told, rp_error *err) RP_MUST_USE;

#endif
