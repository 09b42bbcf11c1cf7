/* Content-addressed store of checked objects in one folder.
 *
 * An object is a file <root>/objects/<kind>/<key hex>: a 64-byte header (magic, format version, kind, payload size,
 * checksum, ISA bits) and the payload. Code objects are stored as the bare file plus a `.sum` header
 * beside it, so that the loader can open them. Written to a temporary name, fsynced, renamed.
 * A corrupt, truncated or foreign object is a miss and is moved to quarantine/. Several processes
 * may use one folder; one store handle: one thread at a time for writes, any for reads. */
#ifndef CACHE_STORE_H
#define CACHE_STORE_H

#include "base/file.h"
#include "base/hash.h"
#include "base/lock.h"

typedef enum cache_kind {
    CACHE_PLAN,
    CACHE_CODE,
    CACHE_WEIGHTS,
    CACHE_TUNING,
    CACHE_KIND_COUNT_
} cache_kind;

typedef struct cache_store cache_store;

/* Finds the folder: dir, else $REPRISE_CACHE_DIR, else $XDG_CACHE_HOME/reprise, else ~/.cache/reprise.
 * Owned by the caller (base_free). */
rp_status cache_default_dir(const char *dir, char **out, rp_error *err) RP_MUST_USE;
/* Opens or creates; dir as in cache_default_dir. RP_OK also for a folder that is of no use.
 * Off (every get a miss but for code put by this handle, every put dropped): no folder can be named, made or read, or
 * somebody other than root and this user owns it or could write to it. Code then goes to a private temporary folder removed
 * at close.
 * Only read: the folder cannot be written (owned by root, a read-only mount, a full disk). What is in it is used, what is
 * new is dropped as above. The same happens once a write has failed. */
rp_status cache_store_open(const char *dir, cache_store **out, rp_error *err) RP_MUST_USE;
/* One that is off, for code that goes with it; s: in whose folder that is where it can be written. */
rp_status cache_store_open_scratch(cache_store *s, cache_store **out, rp_error *err) RP_MUST_USE;
void cache_store_close(cache_store *s);
const char *cache_store_dir(const cache_store *s);
/* Why it is not used at all; NULL when it is. */
const char *cache_store_off_reason(const cache_store *s);
/* Why nothing new is stored; NULL when it is. Tries to write. */
const char *cache_store_read_only_reason(cache_store *s);
/* The same, when something new has been dropped for that reason; NULL as long as nothing was. */
const char *cache_store_dropped_reason(const cache_store *s);
/* Turns it off: somebody removes what is put faster than it can be used. */
void cache_store_detach(cache_store *s, const char *why);
/* Warns that nothing is cached, once in a process for a reason. */
void cache_tell_off(const char *why);
/* Removes what killed processes left in the folder, models included, and, where they left a lock, in those for temporary files: for
 * a program that starts. A few system calls when there is nothing. */
void cache_store_sweep(const cache_store *s);
/* The same in folders for temporary files, whichever cache it was of: for who cleans up in full. */
#define CACHE_SCRATCH_PREFIX "reprise-" /* of all that this library makes there */
void cache_scratch_sweep(void);

/* Small objects, whole, checked: RP_NOT_FOUND is a miss (also when quarantined; the reason is logged).
 * A miss leaves err alone. The bytes are NUL-terminated beyond out_size and owned by the caller. Failed writes are
 * no errors (see cache_store_dropped_reason). */
rp_status cache_get(cache_store *s, cache_kind kind, base_hash128 key, char **out, size_t *out_size,
                    rp_error *err) RP_MUST_USE;
rp_status cache_put(cache_store *s, cache_kind kind, base_hash128 key, const void *data,
                    size_t size, rp_error *err) RP_MUST_USE;
/* Code: the path of the checked shared object for dlopen, owned by the caller; isa_bits must equal what the
 * object was stored with, else it is a miss. */
rp_status cache_get_code(cache_store *s, base_hash128 key, uint32_t isa_bits, char **out_path,
                         rp_error *err) RP_MUST_USE;
/* An object that whoever used it found bad or unusable for the reason why: put away, and a miss. */
void cache_reject(cache_store *s, cache_kind kind, base_hash128 key, const char *why);
/* Takes the file src_path into the store and removes it; gives its path there (or in the private folder
 * when off). */
rp_status cache_put_code(cache_store *s, base_hash128 key, uint32_t isa_bits, const char *src_path,
                         char **out_path, rp_error *err) RP_MUST_USE;
/* Large objects, mapped read-only; payload is 4096-aligned. full_check reads every byte; else
 * header and table of sums alone, and the caller checks what it reads (sums.h) and rejects what is bad. */
rp_status cache_map(cache_store *s, cache_kind kind, base_hash128 key, bool full_check,
                    base_mapping *file, const uint8_t **payload, size_t *payload_size,
                    rp_error *err) RP_MUST_USE;
/* Streaming writer for large objects: nothing half-written is ever visible. When the store is off the
 * bytes go to an unlinked temporary file or anonymous memory, and commit still maps them. */
typedef struct cache_writer cache_writer;
rp_status cache_writer_open(cache_store *s, cache_kind kind, base_hash128 key, size_t size,
                            cache_writer **out, rp_error *err) RP_MUST_USE;
rp_status cache_writer_add(cache_writer *w, const void *data, size_t size,
                           rp_error *err) RP_MUST_USE;
rp_status cache_writer_commit(cache_writer *w, base_mapping *file, const uint8_t **payload,
                              rp_error *err) RP_MUST_USE;
void cache_writer_free(cache_writer *w); /* drops what was not committed */

/* Text files beside a plan (computation_graph.ir, key_factors.json): <root>/plans/<key>/<name>. */
rp_status cache_put_text(cache_store *s, base_hash128 key, const char *name, const char *text,
                         rp_error *err) RP_MUST_USE;
rp_status cache_get_text(cache_store *s, base_hash128 key, const char *name, char **out,
                         rp_error *err) RP_MUST_USE;

/* One maker at a time: waits while another process, or another thread, makes the object. *out is dropped by
 * base_lock_drop when it has been put; NULL where nothing could be put or locked. *again: look it up again, it may be
 * there now. RP_CANCELLED when wanted gives false. */
typedef struct cache_lock_options {
    cache_kind kind;
    base_hash128 key;
    base_wanted_fn wanted; /* (optional) asked while waiting */
    void *user;
} cache_lock_options;
rp_status cache_lock_take(cache_store *s, const cache_lock_options *o, base_lock **out, bool *again,
                          rp_error *err) RP_MUST_USE;

/* ls and verify: fn for each object; verify quarantines what fails. */
typedef struct cache_entry {
    cache_kind kind;
    char key[33];
    uint64_t size;
    int64_t mtime;
    bool ok;
    const char *reason;
} cache_entry;
typedef rp_status (*cache_entry_fn)(void *user, const cache_entry *e, rp_error *err);
rp_status cache_list(cache_store *s, bool verify, cache_entry_fn fn, void *user,
                     rp_error *err) RP_MUST_USE;

/* What the folder takes, by what it is of. */
typedef enum cache_share_kind {
    /* 0 .. CACHE_KIND_COUNT_ - 1: objects of that kind */
    CACHE_SHARE_TEXTS = CACHE_KIND_COUNT_, /* beside plans and code */
    CACHE_SHARE_MODELS,
    CACHE_SHARE_QUARANTINE,
    CACHE_SHARE_WORKING,   /* temporary files of processes that go on */
    CACHE_SHARE_LEFTOVERS, /* the same of ended ones: the next start removes them */
    CACHE_SHARE_SCRATCH, /* of compilers, outside of the folder: this user's, whichever the cache */
    CACHE_SHARE_COUNT_
} cache_share_kind;
extern const char *const cache_share_names[CACHE_SHARE_COUNT_];
typedef struct cache_share {
    uint64_t n_files, bytes;
} cache_share;
rp_status cache_usage(const cache_store *s, cache_share out[CACHE_SHARE_COUNT_],
                      rp_error *err) RP_MUST_USE;
/* What the objects take that a plan uses, as noted in its text CACHE_PARTS: a line "code <key>" each, "weights <bytes>". Others
 * may use them too. Zeros where it has none. */
#define CACHE_PARTS "parts"
rp_status cache_plan_parts(cache_store *s, const char *hex, uint64_t *code, uint64_t *weights,
                           rp_error *err) RP_MUST_USE;

/* Empties quarantine/, clears what killed writers left, and removes the objects used longest ago (with the texts of removed plans) until at most
 * max_bytes are left; objects that have been opened stay usable for who has them. */
rp_status cache_prune(cache_store *s, uint64_t max_bytes, uint64_t *n_removed, uint64_t *left,
                      rp_error *err) RP_MUST_USE;

uint64_t cache_hits(const cache_store *s);
uint64_t cache_misses(const cache_store *s);

#endif
