/* Mapped files that change while they are in use. A page that its file no longer has is not there to be read: the kernel
 * answers with SIGBUS, which ends the process. Under a guard such a page reads as zeros, and whoever used the bytes asks
 * afterwards whether they were the file's. Thread-safe. */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct base_guard base_guard;

/* Guards a map of all size > 0 bytes of the file that fd is open on, until base_guard_down; takes fd. NULL where too many maps
 * are guarded already: this one is as it was.
 *
 * While any guard is up the process has a handler of SIGBUS. A fault anywhere else, and a signal that somebody sent, goes to the
 * handler that was there before, which is back after the last guard. A handler that is installed later and does not hand
 * on to ours stays, and ours does not come back: then only base_guard_check speaks. */
base_guard *base_guard_up(const void *start, size_t size, int fd);
void base_guard_down(base_guard *g); /* before the map goes; NULL is fine */
/* RP_IO when pages were missing, when the file is shorter than its map or, if times count, when its time of writing is another
 * than at first; the text says what happened to `name`. A file that was renamed or removed is still whole. NULL is always
 * good. */
rp_status base_guard_check(const base_guard *g, const char *name, bool times,
                           rp_error *err) RP_MUST_USE;

#endif
