/* Numbered parts of a job, dealt to threads in turn. */
#ifndef BASE_PARTS_H
#define BASE_PARTS_H

#include <stdint.h>

enum { BASE_PARTS_THREADS = 16 }; /* at most */

/* One part; thread is below BASE_PARTS_THREADS and nobody else's meanwhile. */
typedef void (*base_part_fn)(void *user, uint32_t thread, uint64_t part);

/* Calls work once for each part below n and returns when all are done. The caller's thread works too; one that cannot
 * be started is one less. */
void base_parts(uint64_t n, uint32_t threads, base_part_fn work, void *user);

#endif
