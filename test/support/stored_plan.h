/* A plan of the store, as far as questions about keys go: its factors. */
#ifndef SUPPORT_STORED_PLAN_H
#define SUPPORT_STORED_PLAN_H

#include "base/alloc.h"
#include "cache/key.h"
#include "cache/store.h"
#include "support/check.h"

/* Takes k. */
static inline void store_plan(cache_store *s, cache_key *k) {
    rp_error err = {0};
    char *json = NULL;
    CHECK_OK(cache_key_json(k, &json, &err), &err);
    CHECK_OK(cache_put_text(s, cache_key_hash(k), "key_factors.json", json, &err), &err);
    base_free(json);
    cache_key_free(k);
}

#endif
