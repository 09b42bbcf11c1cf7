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
/* A bundle that is read: one thread, once. */
typedef struct cache_bundle cache_bundle;
/* Opens path ("-": standard input), which must live until the bundle is closed, and reads its head: RP_CORRUPT when it is no
 * bundle, RP_UNSUPPORTED for one of another version. */
rp_status cache_bundle_open(const char *path, cache_bundle **out, rp_error *err) RP_MUST_USE;
/* Adds its files to s; equal names are replaced. RP_CORRUPT when it is damaged or cut short: files ahead of that stay, each
 * whole, and the error counts them. Importing code is trusting it: only names that the store itself would give are taken, and
 * objects are checked when used, like all others. info may be NULL. */
rp_status cache_bundle_unpack(cache_bundle *b, cache_store *s, cache_bundle_info *info,
                              rp_error *err) RP_MUST_USE;
void cache_bundle_close(cache_bundle *b); /* NULL is fine */
/* The three together. */
rp_status cache_import(cache_store *s, const char *path, cache_bundle_info *info,
                       rp_error *err) RP_MUST_USE;

#endif
