/* Packing: matrices of a model in the form that kernels read, for the store. */
#ifndef ENGINE_PACKED_H
#define ENGINE_PACKED_H

#include "cache/store.h"
#include "engine/weights.h"

/* Bytes of a plan's matrices, whole pages. */
size_t engine_packed_part(const plan *p);
/* Writes those of the model plan and of the head. RP_CANCELLED where o->progress says so. */
rp_status engine_packed_write(const engine_weights_options *o, cache_writer *w,
                              rp_error *err) RP_MUST_USE;

#endif
