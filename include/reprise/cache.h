/* The compile cache as its owner sees it: list, check, explain. */
#ifndef REPRISE_CACHE_H
#define REPRISE_CACHE_H

#include "reprise/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One thread at a time per handle; several handles and processes may share a folder. */
typedef struct rp_cache rp_cache;

/* dir NULL: $REPRISE_CACHE_DIR, $XDG_CACHE_HOME/reprise, ~/.cache/reprise. A folder that does not exist is made by
 * rp_cache_import alone, once it has seen a bundle; the others are RP_NOT_FOUND until then. */
RP_API rp_status rp_cache_open(const char *dir, rp_cache **out, rp_error *err) RP_MUST_USE;
RP_API void rp_cache_close(rp_cache *c);
RP_API const char *rp_cache_dir(const rp_cache *c);
/* Why the folder is not used (not there, not readable, owned by another...), NULL when it is. One that cannot be written is
 * used: it can be listed, explained and exported. */
RP_API const char *rp_cache_off_reason(const rp_cache *c);

typedef struct rp_cache_entry {
    const char *kind; /* "plan", "code", "weights", "tuning" */
    const char *key;
    uint64_t size; /* bytes */
    int64_t mtime; /* seconds since 1970 */
    bool ok;
    const char *reason; /* why not ok; such an object has been moved to quarantine */
    const char *model,
        *settings; /* of a plan: whose it is, also of weights, and "name=value ..."; NULL when not known */
    /* Of a plan: bytes of the code and the weights that it uses, perhaps with other plans; 0 when not known. */
    uint64_t code_size, weights_size;
} rp_cache_entry;
/* verify reads and checks every byte. fn returns false to stop. */
RP_API rp_status rp_cache_list(rp_cache *c, bool verify,
                               bool (*fn)(void *user, const rp_cache_entry *e), void *user,
                               rp_error *err) RP_MUST_USE;
/* What the folder takes: "plan", "code", "weights", "tuning" (objects), "texts" (beside plans and code), "models",
 * "quarantine", "working" and "leftovers" (temporary, of processes that go on and of ended ones), "scratch" (of compilers, in
 * TMPDIR, /tmp and /dev/shm: this user's, whichever the cache). */
typedef struct rp_cache_share {
    const char *what;
    uint64_t files, bytes;
} rp_cache_share;
/* One call of fn each, in that order. fn returns false to stop. */
RP_API rp_status rp_cache_usage(rp_cache *c, bool (*fn)(void *user, const rp_cache_share *s),
                                void *user, rp_error *err) RP_MUST_USE;
/* Which factor of the key differs from each stored plan, for this model and configuration; text owned by the
 * caller (rp_engine_text_free). config is taken over, also on failure; NULL: the library's defaults. */
RP_API rp_status rp_cache_why(rp_cache *c, const char *model, rp_compilation_config *config,
                              char **out, rp_error *err) RP_MUST_USE;
/* The same as JSON, plans of this model first: [{"plan", "same_model", "factors", "differ": [{"factor", "stored", "now"}]}]. */
RP_API rp_status rp_cache_why_json(rp_cache *c, const char *model, rp_compilation_config *config,
                                   char **out, rp_error *err) RP_MUST_USE;
/* Two objects of one kind by the starts of their keys: {"kind", "key", "with", "factors", "differ"}; "stored" is of a, "now" of
 * b. */
RP_API rp_status rp_cache_compare_json(rp_cache *c, const char *a, const char *b, char **out,
                                       rp_error *err) RP_MUST_USE;
/* Removes what was used longest ago until at most max_bytes are left; quarantined objects go first. */
RP_API rp_status rp_cache_prune(rp_cache *c, uint64_t max_bytes, uint64_t *out_removed,
                                uint64_t *out_left, rp_error *err) RP_MUST_USE;
/* The folder as one compressed file, and back: equal names are replaced. Of a damaged one the files ahead of the damage stay,
 * and the error counts them. Importing code is trusting it. path "-" is standard
 * output or input; a file appears whole or not at all, a device or a pipe is written to as it is. */
RP_API rp_status rp_cache_export(rp_cache *c, const char *path, uint64_t *out_files,
                                 uint64_t *out_bytes, rp_error *err) RP_MUST_USE;
RP_API rp_status rp_cache_import(rp_cache *c, const char *path, uint64_t *out_files,
                                 uint64_t *out_bytes, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
