/* What engines that read equal weights on one device share: the packed matrices and, in memory of a GPU, tensors as they are in the file.
 *
 * There is one set for a key and a device in a process. The first engine that wants it makes it while others wait, and it goes with the
 * last that has it. It is none of theirs: on a GPU it has a queue of its own, so they close in any order. Thread-safe. */
#ifndef ENGINE_MATRICES_H
#define ENGINE_MATRICES_H

#include "base/hash.h"
#include "engine/resident.h"

typedef struct engine_matrices engine_matrices;

/* Which set; texts are copied. */
typedef struct engine_matrices_id {
    base_hash128 key; /* of the packed bytes */
    const char *
        cache_dir; /* where they are stored, so that each store that is used gets them; "": nowhere */
    const char
        *device; /* with memory of its own; NULL: the host's memory, whichever device reads it */
} engine_matrices_id;

typedef struct engine_matrices_maker {
    /* Loads the bytes of a new set: to room on device, or where that is NULL to memory of the host. */
    rp_status (*fill)(void *user, hal_device *device, void *room, engine_resident *out,
                      rp_error *err);
    bool (*wanted)(
        void *user); /* (optional) asked while another makes it: false gives RP_CANCELLED */
    void *user;
} engine_matrices_maker;

/* The set of id with size bytes, which is made where there is none yet. Inside of a fill for the same set it is another one. */
rp_status engine_matrices_open(const engine_matrices_id *id, size_t size,
                               const engine_matrices_maker *maker, engine_matrices **out,
                               rp_error *err) RP_MUST_USE;
void engine_matrices_close(engine_matrices *m); /* NULL is fine */

/* Whether there is any set, and bytes of the one that engine_matrices_open would find, 0 where it would make one. */
bool engine_matrices_any(void);
size_t engine_matrices_there(const engine_matrices_id *id);

uint32_t engine_matrices_users(const engine_matrices *m); /* engines that have it now */
size_t engine_matrices_bytes(const engine_matrices *m);
const uint8_t *engine_matrices_data(const engine_matrices *m); /* where the device reads it */
/* The file that the bytes are mapped from, empty where they were copied. */
const base_mapping *engine_matrices_file(const engine_matrices *m);
/* On a device with memory of its own: the copy of tensor `idx` of the model, made of size bytes at data by who asks first. */
rp_status engine_matrices_tensor(engine_matrices *m, uint64_t idx, const void *data, size_t size,
                                 const void **out, rp_error *err) RP_MUST_USE;
/* Registers all of it with a queue, for the pointer audit, and takes that back. */
rp_status engine_matrices_register(engine_matrices *m, hal_device *d, rp_error *err) RP_MUST_USE;
void engine_matrices_unregister(engine_matrices *m, hal_device *d);
/* Hashes all packed bytes again. RP_CORRUPT tells what is damaged; nobody else gets the set then. */
rp_status engine_matrices_check(engine_matrices *m, rp_error *err) RP_MUST_USE;

#endif
