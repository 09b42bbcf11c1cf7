/* The one allocation door: counts live blocks and can fail the n-th call. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All return NULL on exhaustion, overflow or injected failure; thread-safe.
 * base_alloc zeroes. A size of 0 gives a unique block. */
void *base_alloc(size_t size);
void *base_alloc_array(size_t n, size_t size);
/* Aligned (power of two >= 8) and zeroed; freed with base_free like any other. */
void *base_alloc_aligned(size_t size, size_t align);
/* Grows or shrinks; new bytes are not zeroed; on failure p stays valid. Not for aligned blocks. */
void *base_realloc_array(void *p, size_t n, size_t size);
void base_free(void *p);
char *base_strdup(const char *s);
char *base_strndup(const char *s, size_t n);

/* Number of live blocks. */
size_t base_live(void);
/* Number of calls that allocated since process start. */
uint64_t base_alloc_count(void);
/* Fails the n-th allocation from now (1 = the next); 0 turns it off. Returns
 * whether the previous setting had fired. For tests. */
bool base_alloc_fail_nth(uint64_t n);
/* Called in each allocation, by the thread that makes it, once it is counted; NULL: nothing is. For tests. */
void base_alloc_watch(void (*seen)(void));
/* Whether what an arena hands out counts as an allocation, too, not its blocks alone: so each place that may find no memory
 * is one that can fail, wherever blocks end. Off at start. For tests. */
void base_alloc_count_arenas(bool on);
/* Counts an allocation of an arena; true when it is the one to fail. */
bool base_alloc_arena_fails(void);

/* Checked arithmetic: false on overflow, *out untouched then. */
bool base_mul_size(size_t a, size_t b, size_t *out);
bool base_add_size(size_t a, size_t b, size_t *out);

#endif
