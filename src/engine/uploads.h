/* Copies of what kernels only read, in memory of a device that is not the host's. One thread at a time. */
#ifndef ENGINE_UPLOADS_H
#define ENGINE_UPLOADS_H

#include "hal/hal.h"

typedef struct engine_uploads engine_uploads;

rp_status engine_uploads_new(hal_device *d, engine_uploads **out, rp_error *err) RP_MUST_USE;
void engine_uploads_free(engine_uploads *u); /* NULL is fine; gives the memory back */
/* The copy of key, made of size bytes at data where there is none yet; data NULL: zeros. It stays until the end. */
rp_status engine_uploads_get(engine_uploads *u, uint64_t key, const void *data, size_t size,
                             void **out, rp_error *err) RP_MUST_USE;
hal_device *engine_uploads_device(const engine_uploads *u);
size_t engine_uploads_bytes(const engine_uploads *u);
/* Copy number i; false behind the last. */
bool engine_uploads_at(const engine_uploads *u, uint32_t i, void **at, size_t *size);

#endif
