/* A cache folder as one compressed file, for `cache export` and `cache import`. */
#ifndef CACHE_BUNDLE_H
#define CACHE_BUNDLE_H

#include "cache/store.h"

typedef struct cache_bundle_info {
    uint64_t n_files, n_bytes; /* before compression */
} cache_bundle_info;

/* Writes all objects and texts of s to path: "-" is standard output; a file appears whole or not at all (a new one with
 * mode 0600), links are followed, devices and pipes are written to. RP_IO names the file or, when the store is off, its
 * reason. info may be NULL. */
rp_status cache_export(cache_store *s, const char *path, cache_bundle_info *info,
                       rp_error *err) RP_MUST_USE;
/* Adds the files of a bundle ("-": standard input) to s; equal names are replaced. RP_CORRUPT when path is no bundle or is cut
 * short: files before the damage stay, each whole. Importing code is trusting it: only names that the store
 * itself would give are taken, and objects are checked when used, like all others. */
rp_status cache_import(cache_store *s, const char *path, cache_bundle_info *info,
                       rp_error *err) RP_MUST_USE;

#endif
