/* Locks between processes, so that what several want is made by one. A lock is a help, never a condition: who cannot
 * have it goes on without. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/spawn.h"

typedef struct base_lock base_lock;

typedef struct base_lock_options {
    const char *path;      /* of the lock file: made here, removed by base_lock_drop */
    const char *what;      /* is made under it, for the log */
    uint32_t patience_ms;  /* how long a holder that runs is waited for */
    base_wanted_fn wanted; /* (optional) asked while waiting; false ends it: RP_CANCELLED */
    void *user;
} base_lock_options;

/* Waits for whoever holds the lock and takes it. A holder that dies has dropped it; one that is stopped for a second, or
 * that needs longer than patience_ms, loses it to one of those who wait. *out is NULL (and the status RP_OK) where the
 * file cannot be made. *waited: somebody else held it meanwhile, so what was missing may be there now. Excludes threads
 * of one process, too. */
rp_status base_lock_take(const base_lock_options *o, base_lock **out, bool *waited,
                         rp_error *err) RP_MUST_USE;
void base_lock_drop(base_lock *l);
/* Removes the file of a lock that nobody holds. Best effort. */
void base_lock_sweep(const char *path);

#endif
