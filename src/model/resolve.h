/* From what a user types to an open model. */
#ifndef MODEL_RESOLVE_H
#define MODEL_RESOLVE_H

#include "model/weights.h"

/* Called when a phase of fetching starts (done 0), as it goes on, and when it ends (done ==
 * total); total is in bytes. Perhaps from another thread, one call at a time. */
typedef void (*model_progress_fn)(void *user, const char *phase, uint64_t done, uint64_t total);

typedef struct model_resolve_options {
    const char *cache_dir; /* models/ lies in it; NULL: names cannot be fetched */
    const char
        *default_dir; /* where cache_dir is when nobody names one; looked into, too; NULL: none */
    bool offline;     /* fetch nothing */
    model_progress_fn progress; /* may be NULL */
    /* (optional) Asked every now and then while fetching; false ends it, with every process of it: RP_CANCELLED. */
    bool (*wanted)(void *user);
    void *user;
} model_resolve_options;

/* spec: a .gguf file, the name `smollm2`, or "synthetic:...". RP_CONFIG for another name lists these
 * forms; RP_NOT_FOUND for a file that is not there; RP_UNSUPPORTED for a folder; RP_IO when fetching failed, RP_CANCELLED when it was called off. */
rp_status model_resolve(const char *spec, const model_resolve_options *o, model_source **out,
                        rp_error *err) RP_MUST_USE;
/* The file of a name that needs no fetching: in models/ of either folder (each may be NULL), or in a folder of
 * $REPRISE_MODELS. Owned by the caller (base_free); NULL when it is in none. */
char *model_find_fetched(const char *spec, const char *cache_dir, const char *default_dir);
/* Path of the file that a name stands for in cache_dir, whether it was fetched or not: owned by the caller
 * (base_free), NULL when spec is no such name or memory is exhausted. */
char *model_named_path(const char *spec, const char *cache_dir);

#endif
