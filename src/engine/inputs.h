/* The arrays that change from step to step, at fixed addresses.
 *
 * The host writes them; where the device's memory is not the host's, kernels read arrays of their own, because each kernel of each layer
 * would wait for the bus otherwise. A step then fills a block in mapped memory (gen/exchange.h), of block tables only what the device does
 * not have yet, and its first kernel takes that apart: nobody copies. There are two blocks, so that the next step can be written while
 * the device has not begun with the last. One thread at a time. */
#ifndef ENGINE_INPUTS_H
#define ENGINE_INPUTS_H

#include "engine/results.h"
#include "engine/step.h"

typedef struct engine_inputs {
    engine_step_buffers b; /* what the host writes; sizes are the caller's, set before the open */
    engine_exchange *x;    /* as well */
    const engine_results *results; /* as well, open */
    const uint64_t
        *stamps;          /* (optional) as well: of the rows of block tables (engine_step_stamps) */
    const int32_t *draws; /* (optional) as well: parameters of rows (engine_step_draws) */
    hal_device *device;
    void *memory; /* of b */
    void *copy;   /* the same on the device; NULL where memory is what kernels read */
    size_t size;  /* of either */
    /* where there is a copy: */
    int32_t *blocks;    /* two of them */
    size_t block_words; /* of each */
    uint32_t room;      /* for patches of a block */
    uint64_t *
        seen; /* [max_seqs]: the stamp of each row when it was compared last, of seen_width entries */
    uint32_t seen_width;
    int32_t *known;     /* block tables as the device has them, or will have */
    hal_launch fetch;   /* takes the next block */
    void *arg[5];       /* of fetch, */
    size_t arg_size[5]; /* their bytes, */
    long long dim[4];   /* and its sizes */
} engine_inputs;

/* engine_inputs_close also after a failure. */
rp_status engine_inputs_open(engine_inputs *in, hal_device *device, rp_error *err) RP_MUST_USE;
void engine_inputs_close(engine_inputs *in); /* a zero one is fine */

/* Where kernels find what the host has at p, an array of in->b. */
void *engine_inputs_for_kernels(const engine_inputs *in, int32_t *p);
/* Writes the block of a step of these padded sizes and that extent. To be
 * followed by in->fetch, once, in front of everything that reads the arrays. Where there is no copy, tokens of the step before are
 * read now, and that is all. Afterwards the arrays may be written again; a block is written over by the next but one. A failure
 * loses the block. */
rp_status engine_inputs_write(engine_inputs *in, const rp_dispatch *d, engine_step_extent extent,
                              const engine_route *route, rp_error *err) RP_MUST_USE;
/* That launch by itself; nothing where there is no copy. A failure loses the block. */
rp_status engine_inputs_fetch(engine_inputs *in, rp_error *err) RP_MUST_USE;
/* After a launch of in->fetch among others failed: a block that was written and not taken is none, and the device has nothing of the block tables. Waits for the device. */
void engine_inputs_lost(engine_inputs *in);
/* For tests: what no step has written is garbage on both sides. */
rp_status engine_inputs_poison(engine_inputs *in, rp_error *err) RP_MUST_USE;
/* Bytes of host and device. */
size_t engine_inputs_bytes(const engine_inputs *in);

#endif
