/* Buffers of calls that a device does not reach: copied to memory of its own before the launches, and back behind them. */
#ifndef API_STAGE_H
#define API_STAGE_H

#include "plan/exec.h"

/* A leaf of a call that lies elsewhere. */
typedef struct api_moved {
    plan_seg seg;
    uint32_t idx;
    void *from; /* the caller's */
    size_t offset, size;
} api_moved;

/* Memory that grows with the calls; zeroed: none yet. One call at a time. */
typedef struct api_stage {
    char *block;
    size_t capacity;
    api_moved *moved;
    uint32_t n, room; /* of the call that runs */
    size_t used;
} api_stage;

/* d: whose memory it is. */
void api_stage_done(api_stage *s, hal_device *d);
/* Inputs and outputs of x, whose sizes the symbols say, that d does not reach, or that are not aligned as kernels want them, get
 * places in the stage; what the inputs hold is copied there, in turn with the launches of queue, a queue of d. */
rp_status api_stage_in(api_stage *s, hal_device *d, hal_device *queue, const plan *p, plan_exec *x,
                       const int64_t *symbols, rp_error *err) RP_MUST_USE;
/* Behind the launches: what they wrote is on its way back, for outputs and those inputs that calls write (by input). */
rp_status api_stage_out(const api_stage *s, hal_device *queue, const bool *mutates,
                        rp_error *err) RP_MUST_USE;
/* Whether kernels of d read and write at p without a copy. */
bool api_stage_reached(const hal_device *d, const void *p);

#endif
