/* Whether memory that somebody else describes is there at all. */
#ifndef BASE_READABLE_H
#define BASE_READABLE_H

#include <stdbool.h>
#include <stddef.h>

/* False where a page of these bytes cannot be read, so that a number that is wrong becomes an error in place of a fault. One call of the
 * kernel for up to 256 KiB. True where the kernel does not tell. Thread-safe. */
bool base_readable(const void *at, size_t bytes);

#endif
