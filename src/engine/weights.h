/* Memory that never changes: packed weights from the cache, parameters in their file layout, rope tables. Engines of one device
 * that read equal files have the first two together (matrices.h). */
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "cache/key.h"
#include "hal/hal.h"
#include "model/weights.h"
#include "plan/plan.h"

typedef struct engine_weights engine_weights;

typedef struct engine_weights_options {
    model_source *source;
    cache_store *store;
    const plan *model, *head;
    int64_t n_positions; /* rope table length */
    uint32_t threads;    /* that copy and check */
    hal_device
        *device; /* (optional) that reads them: gets copies where its memory is not the host's */
    const char *device_name; /* of a device with memory of its own, by which it is opened */
    /* (optional) After each matrix that was packed; false ends it: RP_CANCELLED. */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    bool (*wanted)(
        void *
            user); /* (optional) asked while another engine or process makes them: false ends it, too */
    void *user;
} engine_weights_options;

/* Loads the packed weights and checks all of them, or packs them in a stream, one matrix at a time, into the cache. */
rp_status engine_weights_open(const engine_weights_options *o, engine_weights **out,
                              rp_error *err) RP_MUST_USE;
/* Bytes that these weights will take of the device's memory, without what other engines have brought there. */
rp_status engine_weights_need(const engine_weights_options *o, size_t *out,
                              rp_error *err) RP_MUST_USE;
void engine_weights_free(engine_weights *w);
/* What decides the packed bytes. Owned by the caller (cache_key_free). */
rp_status engine_weights_key(const engine_weights_options *o, cache_key **out,
                             rp_error *err) RP_MUST_USE;
/* Whether what is packed for one plan is, at the same places, what another wants. False with err set where that cannot be told. */
bool engine_weights_alike(const plan *a, const plan *b, rp_error *err);
/* Hashes every packed byte in use. RP_CORRUPT names the cache object, which is checked, too, and put away when it is
 * damaged. For whoever meets numbers that cannot be. */
rp_status engine_weights_check(const engine_weights *w, rp_error *err) RP_MUST_USE;
/* Positions below n are about to be used. Allocates nothing; from the thread that steps. */
rp_status engine_weights_reach(const engine_weights *w, int64_t n_positions,
                               rp_error *err) RP_MUST_USE;
/* Packed weights of the model plan and of the head plan. */
const uint8_t *engine_weights_model(const engine_weights *w);
const uint8_t *engine_weights_head(const engine_weights *w);
/* All of them, where the device reads them. */
const void *engine_weights_packed(const engine_weights *w, size_t *out_size);
/* A parameter by its name, in file layout; *out is NULL when only its packed form is used. */
rp_status engine_weights_param(const engine_weights *w, const plan *p, uint32_t idx,
                               const void **out, rp_error *err) RP_MUST_USE;
/* RP_IO when the object of the cache is read where it is mapped, and was cut short. */
rp_status engine_weights_check_whole(const engine_weights *w, rp_error *err) RP_MUST_USE;
bool engine_weights_were_packed(const engine_weights *w); /* packed now rather than mapped */
size_t engine_weights_bytes(const engine_weights *w);
/* Of those of a device with memory of its own: of the set, which other engines may read, too, and what this engine alone has there. */
size_t engine_weights_set_bytes(const engine_weights *w);
size_t engine_weights_own_bytes(const engine_weights *w);
/* Engines of this process that read this memory, at least this one, and its bytes where there are others. */
uint32_t engine_weights_users(const engine_weights *w);
size_t engine_weights_shared_bytes(const engine_weights *w);
/* Registers the address ranges for the pointer audit; they are taken back with the weights. */
rp_status engine_weights_register(engine_weights *w, hal_device *d, rp_error *err) RP_MUST_USE;

#endif
