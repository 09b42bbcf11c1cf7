/* Keys from named factors. Each factor has a name and a text value; the key is the hash of all, and the list is
 * stored beside the plan so that `why` can name the one that differed. */
#ifndef CACHE_KEY_H
#define CACHE_KEY_H

#include "base/hash.h"
#include "base/str.h"
#include "cache/store.h"

typedef struct cache_key cache_key;
cache_key *cache_key_new(void); /* NULL when memory is exhausted */
void cache_key_free(cache_key *k);
/* Copies. Adding a name twice is RP_INTERNAL. */
rp_status cache_key_add(cache_key *k, const char *name, const char *value,
                        rp_error *err) RP_MUST_USE;
rp_status cache_key_addf(cache_key *k, rp_error *err, const char *name, const char *fmt,
                         ...) RP_MUST_USE RP_PRINTF(4, 5);
base_hash128 cache_key_hash(const cache_key *k);
/* {"name": "value", ...} in order of adding; owned by the caller. */
rp_status cache_key_json(const cache_key *k, char **out, rp_error *err) RP_MUST_USE;
/* Keeps the factors beside the object that k is the key of, for why. Failed writes are no errors. */
rp_status cache_put_factors(cache_store *s, cache_kind kind, const cache_key *k,
                            rp_error *err) RP_MUST_USE;
/* Compares with every stored plan's factors; one line a plan into out: which factors differ, old -> new,
 * nearest plan first. */
rp_status cache_why(cache_store *s, const cache_key *k, base_buf *out, rp_error *err) RP_MUST_USE;
/* The same as JSON: [{"plan", "same_model", "factors", "differ": [{"factor", "stored", "now"}]}], plans first whose factor
 * `same` is that of k. Owned by the caller. */
rp_status cache_why_json(cache_store *s, const cache_key *k, const char *same, char **out,
                         rp_error *err) RP_MUST_USE;
/* The stored plan whose factors are those of k but for the one called `but`, the lowest key of several. RP_NOT_FOUND leaves
 * err alone. */
rp_status cache_key_find_but(cache_store *s, const cache_key *k, const char *but, base_hash128 *out,
                             rp_error *err) RP_MUST_USE;
/* Two stored objects of one kind by the starts of their keys: {"kind", "key", "with", "factors", "differ"}, stored is of a and
 * now of b. RP_NOT_FOUND; RP_INVALID when a start is that of several, or the kinds differ. */
rp_status cache_compare_json(cache_store *s, const char *a, const char *b, char **out,
                             rp_error *err) RP_MUST_USE;
/* What is known of a stored plan, or of weights: the name of the model, and a plan's main settings, "name=value ..."; of what was
 * learned, the program or function. Either is NULL where it is not stored. Owned by the caller. */
rp_status cache_about(cache_store *s, const char *hex, char **model, char **settings,
                      rp_error *err) RP_MUST_USE;
/* Why k, which was looked for, was not found: the same lines for the plans alone whose factor `same` is as in k; nothing where
 * there is none. One that is equal in all was there and is lost. */
rp_status cache_why_same(cache_store *s, const cache_key *k, const char *same, base_buf *out,
                         rp_error *err) RP_MUST_USE;

#endif
