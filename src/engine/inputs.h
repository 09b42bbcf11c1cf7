/* The arrays that change from step to step, at fixed addresses.
 *
 * The host writes them; where the device's memory is not the host's, kernels read a copy there, because each kernel of each layer would
 * wait for the bus otherwise. The host then has two sets of arrays, so that it can write the next step while the copy of the last is still
 * on its way. One thread at a time. */
#ifndef ENGINE_INPUTS_H
#define ENGINE_INPUTS_H

#include "engine/step.h"
#include "hal/hal.h"

typedef struct engine_inputs {
    engine_step_buffers b; /* what the host writes; sizes are the caller's, set before the open */
    hal_device *device;
    void *memory; /* of b, or of two of them */
    void *copy;   /* the same on the device; NULL where memory is what kernels read */
    size_t size;  /* of one set */
} engine_inputs;

/* in->b has its sizes and nothing else of *in is set. engine_inputs_close also after a failure. */
rp_status engine_inputs_open(engine_inputs *in, hal_device *device, rp_error *err) RP_MUST_USE;
void engine_inputs_close(engine_inputs *in); /* a zero one is fine */

/* in->b is the set of arrays of that turn, an even or odd number, from now on. */
void engine_inputs_turn(engine_inputs *in, uint64_t turn);
/* Where kernels find what the host has at p, an array of in->b. */
void *engine_inputs_for_kernels(const engine_inputs *in, int32_t *p);
/* Queues the copy of everything that a step of these padded sizes reads, of block tables the first n_blocks of each row; this set may not be written until the device has it. */
rp_status engine_inputs_send(const engine_inputs *in, const rp_dispatch *d, uint32_t n_blocks,
                             rp_error *err) RP_MUST_USE;
/* For tests: what no step has sent is garbage on both sides. */
rp_status engine_inputs_poison(const engine_inputs *in, rp_error *err) RP_MUST_USE;
/* Bytes of host and device. */
size_t engine_inputs_bytes(const engine_inputs *in);

#endif
