/* What a GPU has to read a step's inputs where the host writes them and to write its results where the host reads them, without a
 * copy: two kernels, in front of a step and behind it. Devices whose memory is the host's need none of it. One thread at a time. */
#ifndef ENGINE_EXCHANGE_H
#define ENGINE_EXCHANGE_H

#include "compile/nvrtc.h"
#include "hal/hal.h"
#include "plan/exec.h"

typedef struct engine_exchange {
    hal_device *device;
    bool needed; /* nothing below is there where it is not */
    hal_function fetch, deliver;
    int32_t *state; /* of the device: what it has taken last (gen/exchange.h) */
    uint32_t sent;  /* the number of the block written last */
} engine_exchange;

/* Places of results, counted from 0, for a step that is written. */
typedef struct engine_route {
    uint32_t from, place; /* of the step before, and of this one */
    bool unread;          /* the host reads no logits of it */
    const int32_t
        *ids; /* tokens of the step before, by rows, where the host has the device's memory */
} engine_route;

/* Compiles the kernels, unless the store has them, and makes them code of p, with which they are found and loaded from then on. */
rp_status engine_exchange_compile(const compile_nvrtc *nvrtc, cache_store *store, plan *p,
                                  rp_error *err) RP_MUST_USE;

/* From an executor of that plan. engine_exchange_close also after a failure. */
rp_status engine_exchange_open(engine_exchange *x, hal_device *device, const plan_exec *code,
                               rp_error *err) RP_MUST_USE;
void engine_exchange_close(engine_exchange *x); /* a zero one is fine */
/* A launch of one of them; l has the caller's name, function and arrays, which are borrowed. */
hal_launch engine_exchange_launch(hal_launch l);
/* Blocks that were written and not taken are none: after a step that failed. Waits for the device; one that fails this fails whatever
 * comes next, too, and tells then. */
void engine_exchange_reset(engine_exchange *x);

#endif
