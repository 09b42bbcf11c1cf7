/* Which calls may fail: of all that a program makes, those that differ by who calls. */
#ifndef SUPPORT_CALLERS_H
#define SUPPORT_CALLERS_H

#include <stddef.h>
#include <stdint.h>

/* Of the calls that one chain of functions makes, the first two and the last: their numbers, from 1, in order. */
typedef struct callers {
    uint64_t *nth;
    size_t n;
    uint64_t all; /* calls that there were */
} callers;

/* watch is base_alloc_watch or base_sys_watch; a chain is of so many functions. */
void callers_watch(void (*watch)(void (*seen)(void)), int n_functions);
/* Of the calls since callers_watch; no longer watches. */
callers callers_seen(void (*watch)(void (*seen)(void)));
void callers_done(const callers *c);

#endif
