/* The store's inside, shared by the files of this folder. */
#ifndef CACHE_PRIV_H
#define CACHE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/str.h"
#include "cache/header.h"
#include "cache/store.h"

struct cache_store {
    char *dir;            /* NULL when no folder could be named */
    atomic_bool off;      /* not used at all */
    atomic_bool full;     /* cannot be written: reads go on, writes are dropped */
    atomic_bool asked;    /* whether it can be written is known */
    atomic_bool dropped;  /* something new was not stored */
    char reason[400];     /* of the first of off and full */
    pthread_mutex_t lock; /* reason, private_dir */
    char *private_dir;    /* code when the store takes none; made when first needed */
    _Atomic uint64_t hits, misses;
};

extern const char *const cache_kind_names[CACHE_KIND_COUNT_];

#define CACHE_PRIVATE_PREFIX "reprise-code"

/* Puts are stored: neither off nor full. Asks the folder once. */
bool cache_writable(cache_store *s);
/* The same for a put that is about to be made: what is not taken is noted, and said once. */
bool cache_takes(cache_store *s);
/* Makes folders that are missing, as after somebody removed them all. */
rp_status cache_folders_make(const cache_store *s, rp_error *err) RP_MUST_USE;
/* Why what is there must not be read: it is no file, or others than this user and root could have written it. NULL when it
 * may, or is not there. */
const char *cache_distrusts(const char *path);
/* A write failed: says so once and drops later ones. err is the failure. */
void cache_write_failed(cache_store *s, const rp_error *err);
/* A failed write costs the next start time, not this run: RP_OK for all but RP_NOMEM. */
rp_status cache_forgive(cache_store *s, rp_status st, const rp_error *e, rp_error *err) RP_MUST_USE;
/* Removes a file or folder that is no longer needed; nothing depends on its going. */
void cache_remove(const char *path);
/* Private folder of this store handle, made with mode 0700 at first use. Borrowed. */
rp_status cache_private_dir(cache_store *s, const char **out, rp_error *err) RP_MUST_USE;
/* The same, NULL while there is none. */
const char *cache_private_made(cache_store *s);

/* <root>/objects/<kind>/<hex><suffix>, owned by the caller. */
rp_status cache_object_path(const cache_store *s, cache_kind kind, base_hash128 key,
                            const char *suffix, char **out, rp_error *err) RP_MUST_USE;
/* Moves an object, or what is at path below the root, to quarantine/ and says why. Best effort. */
void cache_quarantine_file(const cache_store *s, const char *path, const char *why);
void cache_quarantine(cache_store *s, cache_kind kind, base_hash128 key, const char *why);
/* The 32 hex digits a name begins with; false when it does not. */
bool cache_parse_hex(const char *name, base_hash128 *key, char hex[33]);
/* Is it called as the lock of a fetch, which is beside its model? */
bool cache_names_lock(const char *name);
/* Removes what killed writers left. */
rp_status cache_leftovers_remove(const cache_store *s, rp_error *err) RP_MUST_USE;
/* Counts and logs the outcome of a look-up; the second returns RP_NOT_FOUND. why may be NULL. */
void cache_note_hit(cache_store *s, cache_kind kind, base_hash128 key);
rp_status cache_note_miss(cache_store *s, cache_kind kind, base_hash128 key, const char *why);

typedef struct cache_part {
    const void *data;
    size_t size;
} cache_part;
/* Writes the parts to a temporary name and renames it to path. sync: fsync before the rename. s: path lies in its folder,
 * whose missing parts are made again; NULL: it lies elsewhere. */
rp_status cache_file_write(const cache_store *s, const char *path, const cache_part *parts,
                           size_t n, bool sync, rp_error *err) RP_MUST_USE;
/* The buffer's text, owned by the caller; RP_NOMEM when an append failed. b is empty either way. */
rp_status cache_take_text(base_buf *b, char **out, rp_error *err) RP_MUST_USE;
/* A temporary name for path, which lies in the store: all are in one folder, so that what killed writers left is found
 * at once. */
void cache_temp_name(const cache_store *s, const char *path, base_buf *b);
/* Renames temp to path, and puts a folder out of the way that somebody made there, where path lies in the store s (NULL: it
 * does not); false with the cause in errno. */
bool cache_move_in(const cache_store *s, const char *temp, const char *path);
/* Writes all of data at offset; false with the cause in errno. */
bool cache_write_all(int fd, const void *data, size_t size, uint64_t offset);
/* The same; RP_IO with the path in the text. */
rp_status cache_write_at(int fd, const char *path, const void *data, size_t size, uint64_t offset,
                         rp_error *err) RP_MUST_USE;

/* An object that is looked for: kind and key are asked, the rest is found. */
typedef struct cache_found {
    cache_kind kind;
    base_hash128 key;
    const char *why; /* it is there, but bad for this reason; NULL when good */
    cache_header head;
    char *text;        /* small: the payload; code: the path of the file. Owned by who asked */
    size_t size;       /* small */
    base_mapping file; /* large; owned by who asked */
} cache_found;

/* Checks without counting or moving anything. Not RP_OK: not there, or the check itself failed, so
 * the object is neither good nor bad. */
rp_status cache_check_small(const cache_store *s, cache_found *f, rp_error *err) RP_MUST_USE;
rp_status cache_check_code(const cache_store *s, cache_found *f, rp_error *err) RP_MUST_USE;
rp_status cache_check_large(const cache_store *s, cache_found *f, bool full,
                            rp_error *err) RP_MUST_USE;
/* What the outcome of a check means to the caller of a look-up: a bad object is put away, anything
 * but RP_OK and RP_NOMEM is a miss. */
rp_status cache_settle(cache_store *s, const cache_found *f, rp_status st, const rp_error *e,
                       rp_error *err) RP_MUST_USE;

#endif
