/* Runs of bytes at equal distances in two memories, and copies from one to the other. */
#ifndef BASE_RUNS_H
#define BASE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BASE_RUNS_AXES = 6 };

/* dim[0] times dim[1] times ... runs of `run` bytes; outermost axis first. */
typedef struct base_runs {
    size_t run; /* bytes; 0: there is nothing */
    uint32_t n; /* axes; 0: one run */
    int64_t dim[BASE_RUNS_AXES];
    int64_t to[BASE_RUNS_AXES],
        from[BASE_RUNS_AXES]; /* bytes between neighbours; 0 and negative, too */
} base_runs;

/* In memory of the host, where both do not meet. to and from: the first run, whose indices are all 0. */
void base_runs_copy(const base_runs *r, void *to, const void *from);
/* The bytes of all runs together. */
size_t base_runs_bytes(const base_runs *r);
/* Bytes that runs of these distances reach in front of the first one, and behind its first byte. */
void base_runs_span(const base_runs *r, const int64_t *step, size_t *before, size_t *behind);

#endif
