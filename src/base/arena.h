/* Bump allocator: everything of one compile dies together. Not thread-safe. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

typedef struct base_arena base_arena;

/* NULL when memory is exhausted. */
base_arena *base_arena_new(void);
void base_arena_free(base_arena *a); /* NULL is fine */
/* Zeroed, 16-byte aligned; NULL when memory is exhausted. Lives as long as a. */
void *base_arena_alloc(base_arena *a, size_t size);
void *base_arena_array(base_arena *a, size_t n, size_t size);
/* NUL-terminated copies. */
char *base_arena_str(base_arena *a, const char *s);
char *base_arena_strn(base_arena *a, const char *s, size_t n);
char *base_arena_printf(base_arena *a, const char *fmt, ...) RP_PRINTF(2, 3);
/* Bytes handed out so far. */
size_t base_arena_used(const base_arena *a);

#endif
