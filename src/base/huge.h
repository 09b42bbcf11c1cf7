/* Anonymous memory in huge pages, for bytes that are streamed: with 4 KB pages the walk through the page
 * tables and the prefetcher that stops at each page cost a quarter of the bandwidth (bench/micro/read_limit.c). */
#ifndef BASE_HUGE_H
#define BASE_HUGE_H

#include <stddef.h>

#include "base/status.h"

typedef struct base_huge {
    void *data; /* zeroed, aligned to 2 MB; NULL: none */
    size_t size;
} base_huge;

/* RP_UNSUPPORTED where the kernel gives no transparent huge pages, RP_NOMEM. */
rp_status base_huge_alloc(size_t size, base_huge *out, rp_error *err) RP_MUST_USE;
void base_huge_free(base_huge *h); /* empty is fine */

#endif
