/* Open-addressing hash map from bytes to a 64-bit value. One thread at a time. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct base_map base_map;

base_map *base_map_new(void); /* NULL when memory is exhausted */
void base_map_free(base_map *m);
/* Copies the key. Overwrites an existing value. */
rp_status base_map_put(base_map *m, const void *key, size_t len, uint64_t value,
                       rp_error *err) RP_MUST_USE;
bool base_map_get(const base_map *m, const void *key, size_t len, uint64_t *out);
size_t base_map_count(const base_map *m);

#endif
