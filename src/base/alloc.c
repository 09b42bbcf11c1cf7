/* The one allocation door. Every block carries a 16-byte header in front of the
 * bytes that the caller sees: a mark that catches foreign and double frees, and
 * the distance back to what malloc returned, so aligned blocks free alike.
 * Counters are relaxed atomics: two per call. It keeps no free lists. */
#include "base/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_LIVE = 0x6c697665, MARK_DEAD = 0x64656164 };

typedef struct header {
    uint32_t mark;
    uint32_t unused;
    uint64_t back; /* bytes from the start of the malloc block to the caller's bytes */
} header;

static_assert(sizeof(header) == 16, "the header keeps malloc's alignment");

static _Atomic size_t n_live;
static _Atomic uint64_t n_calls;
static _Atomic uint64_t fail_at; /* value of n_calls that fails; 0 = none */
static atomic_bool fired;
static atomic_bool counts_arenas;
static void (*_Atomic watch)(void);

bool base_mul_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

bool base_add_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* Counts one call; true when it is the one to fail. */
static bool count_call(void) {
    uint64_t call = atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed) + 1;
    void (*seen)(void) = atomic_load_explicit(&watch, memory_order_relaxed);
    if (seen) seen();
    if (call != atomic_load_explicit(&fail_at, memory_order_relaxed)) return false;
    atomic_store(&fired, true);
    return true;
}

static header *header_of(void *p) {
    header *h = (header *)p - 1;
    assert(h->mark == MARK_LIVE && "not a live block of base_alloc");
    return h;
}

static void *block_of(char *raw, size_t back) {
    header *h = (header *)(void *)(raw + back) - 1;
    h->mark = MARK_LIVE;
    h->unused = 0;
    h->back = back;
    atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return raw + back;
}

void *base_alloc(size_t size) {
    size_t total;
    if (count_call() || !base_add_size(size, sizeof(header), &total)) return NULL;
    char *raw = calloc(1, total);
    return raw ? block_of(raw, sizeof(header)) : NULL;
}

void *base_alloc_array(size_t n, size_t size) {
    size_t total;
    return base_mul_size(n, size, &total) ? base_alloc(total) : NULL;
}

void *base_alloc_aligned(size_t size, size_t align) {
    assert(align >= 8 && (align & (align - 1)) == 0);
    size_t total;
    if (align <= sizeof(header)) return base_alloc(size);
    if (count_call() || !base_add_size(size, align + sizeof(header), &total)) return NULL;
    /* calloc, not aligned_alloc and memset: large zero blocks stay untouched pages. */
    char *raw = calloc(1, total);
    if (!raw) return NULL;
    uintptr_t first = (uintptr_t)raw + sizeof(header);
    uintptr_t user = (first + align - 1) & ~(uintptr_t)(align - 1);
    return block_of(raw, user - (uintptr_t)raw);
}

void *base_realloc_array(void *p, size_t n, size_t size) {
    size_t bytes, total;
    if (!p) return base_alloc_array(n, size);
    header *h = header_of(p);
    assert(h->back == sizeof(header) && "aligned blocks cannot be reallocated");
    if (!base_mul_size(n, size, &bytes) || !base_add_size(bytes, sizeof(header), &total) ||
        count_call())
        return NULL;
    char *raw = realloc(h, total);
    return raw ? raw + sizeof(header) : NULL;
}

void base_free(void *p) {
    if (!p) return;
    header *h = header_of(p);
    h->mark = MARK_DEAD;
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    free((char *)p - h->back);
}

char *base_strndup(const char *s, size_t n) {
    size_t total;
    if (!base_add_size(n, 1, &total)) return NULL;
    char *copy = base_alloc(total);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

char *base_strdup(const char *s) {
    return base_strndup(s, strlen(s));
}

size_t base_live(void) {
    return atomic_load_explicit(&n_live, memory_order_relaxed);
}

uint64_t base_alloc_count(void) {
    return atomic_load_explicit(&n_calls, memory_order_relaxed);
}

bool base_alloc_fail_nth(uint64_t n) {
    bool had_fired = atomic_exchange(&fired, false);
    atomic_store(&fail_at, n ? atomic_load(&n_calls) + n : 0);
    return had_fired;
}

void base_alloc_watch(void (*seen)(void)) {
    atomic_store(&watch, seen);
}

void base_alloc_count_arenas(bool on) {
    atomic_store(&counts_arenas, on);
}

bool base_alloc_arena_fails(void) {
    return atomic_load_explicit(&counts_arenas, memory_order_relaxed) && count_call();
}
