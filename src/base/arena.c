/* Bump allocator over a list of zeroed chunks that double in size up to 1 MB.
 * Requests too large for a chunk get one of their own. Nothing is freed before
 * the arena is. Not thread-safe. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { ALIGN = 16, FIRST_CHUNK = 4096, LAST_CHUNK = 1 << 20 };

typedef struct chunk {
    struct chunk *next;
    size_t unused; /* keeps the bytes behind it 16-byte aligned */
} chunk;

struct base_arena {
    chunk *chunks;
    char *at;         /* next free byte of the current chunk */
    size_t left;      /* bytes after at */
    size_t next_size; /* size of the next chunk */
    size_t used;
};

base_arena *base_arena_new(void) {
    base_arena *a = base_alloc(sizeof *a);
    if (a) a->next_size = FIRST_CHUNK;
    return a;
}

void base_arena_free(base_arena *a) {
    if (!a) return;
    for (chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        base_free(c);
    }
    base_free(a);
}

static char *add_chunk(base_arena *a, size_t size) {
    size_t total;
    if (!base_add_size(size, sizeof(chunk), &total)) return NULL;
    chunk *c = base_alloc(total);
    if (!c) return NULL;
    c->next = a->chunks;
    a->chunks = c;
    return (char *)(c + 1);
}

void *base_arena_alloc(base_arena *a, size_t size) {
    size_t padded;
    if (base_alloc_arena_fails() || !base_add_size(size, ALIGN - 1, &padded)) return NULL;
    padded &= ~(size_t)(ALIGN - 1);
    if (padded == 0) padded = ALIGN;
    if (padded > a->left) {
        if (padded > a->next_size / 2) {
            char *own = add_chunk(a, padded);
            if (own) a->used += size;
            return own;
        }
        char *fresh = add_chunk(a, a->next_size);
        if (!fresh) return NULL;
        a->at = fresh;
        a->left = a->next_size;
        if (a->next_size < LAST_CHUNK) a->next_size *= 2;
    }
    char *p = a->at;
    a->at += padded;
    a->left -= padded;
    a->used += size;
    return p;
}

void *base_arena_array(base_arena *a, size_t n, size_t size) {
    size_t total;
    return base_mul_size(n, size, &total) ? base_arena_alloc(a, total) : NULL;
}

char *base_arena_strn(base_arena *a, const char *s, size_t n) {
    size_t total;
    if (!base_add_size(n, 1, &total)) return NULL;
    char *copy = base_arena_alloc(a, total);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

char *base_arena_str(base_arena *a, const char *s) {
    return base_arena_strn(a, s, strlen(s));
}

char *base_arena_printf(base_arena *a, const char *fmt, ...) {
    base_buf b;
    base_buf_init(&b, 0);
    va_list ap;
    va_start(ap, fmt);
    base_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    char *copy = b.failed ? NULL : base_arena_strn(a, b.data ? b.data : "", b.len);
    base_buf_done(&b);
    return copy;
}

size_t base_arena_used(const base_arena *a) {
    return a->used;
}
