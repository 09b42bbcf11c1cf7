/* The factors of a key, shared by key.c and why.c. */
#ifndef CACHE_FACTORS_H
#define CACHE_FACTORS_H

#include "cache/key.h"

typedef struct cache_factor {
    char *name, *value;
} cache_factor;

struct cache_key {
    cache_factor *v;
    size_t n, cap;
    base_hash128 hash; /* of all factors so far */
};

/* Value of a factor; NULL when the key has none of this name. */
const char *cache_key_value(const cache_key *k, const char *name);

#endif
