/* Ranges of addresses that take memory as they are written. */
#ifndef BASE_RESERVE_H
#define BASE_RESERVE_H

#include <stddef.h>

#include "base/status.h"

/* size bytes, zero, aligned to a page; pages come when they are touched. Not counted by the allocation door: it is no heap
 * block. RP_NOMEM where the system sets no such range aside. */
rp_status base_reserve(size_t size, void **out, rp_error *err) RP_MUST_USE;
void base_unreserve(void *p, size_t size); /* NULL is fine */

#endif
