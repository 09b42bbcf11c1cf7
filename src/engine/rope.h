/* Tables of cosines and sines for rotary embedding, filled as far as positions are in use.
 *
 * A row costs about as much as a token's rope itself, so the tables are neither stored nor made at start: no object of the
 * cache depends on max_model_len, and pages of positions that nobody reaches are never touched. */
#ifndef ENGINE_ROPE_H
#define ENGINE_ROPE_H

#include "engine/uploads.h"
#include "model/weights.h"

/* One thread at a time. */
typedef struct engine_rope engine_rope;

rp_status engine_rope_new(model_source *source, int64_t n_positions, engine_rope **out,
                          rp_error *err) RP_MUST_USE;
void engine_rope_free(engine_rope *r); /* NULL is fine */
/* From now on the tables are kept in memory of the device, too, and what follows speaks of those. */
rp_status engine_rope_place(engine_rope *r, engine_uploads *u, rp_error *err) RP_MUST_USE;
/* Positions below n have their rows from now on (n is clipped to the tables). Allocates nothing. */
rp_status engine_rope_reach(engine_rope *r, int64_t n, rp_error *err) RP_MUST_USE;

/* [n_positions, rope_dim / 2], at addresses that stay. */
const float *engine_rope_cos(const engine_rope *r);
const float *engine_rope_sin(const engine_rope *r);
/* Bytes of both tables. */
/* The same of tables for n positions that are not there yet. */
size_t engine_rope_need(const model_source *source, int64_t n_positions);
size_t engine_rope_bytes(const engine_rope *r);
rp_status engine_rope_register(const engine_rope *r, hal_device *d, rp_error *err) RP_MUST_USE;
void engine_rope_unregister(const engine_rope *r, hal_device *d);

#endif
