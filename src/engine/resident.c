/* Threads take parts of 2 MB (a huge page) in turn; within a part, chunk after chunk. */
#include "engine/resident.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"

enum { PART_CHUNKS = 32, MAX_THREADS = 8 };

typedef struct loader {
    engine_resident *r;
    const base_mapping *file;
    const uint8_t *from;
    bool stored;
    atomic_uint_fast64_t next; /* part */
    atomic_uint_fast64_t bad;  /* the lowest damaged chunk; sums.n: none */
} loader;

static void note_bad(loader *l, uint64_t i) {
    uint_fast64_t was = atomic_load(&l->bad);
    while (i < was && !atomic_compare_exchange_weak(&l->bad, &was, i)) {
    }
}

static void load_chunk(loader *l, uint64_t i) {
    engine_resident *r = l->r;
    const uint8_t *at = l->from + i * CACHE_CHUNK;
    if (r->huge.data)
        at = memcpy((uint8_t *)r->huge.data + i * CACHE_CHUNK, at, cache_sums_bytes(&r->sums, i));
    if (!l->stored)
        cache_sums_set(&r->sums, i, at);
    else if (!cache_sums_match(&r->sums, i, at))
        note_bad(l, i);
}

static void *work(void *arg) {
    loader *l = arg;
    const uint64_t n = l->r->sums.n;
    for (;;) {
        uint64_t first = atomic_fetch_add(&l->next, 1) * PART_CHUNKS;
        uint64_t end = first + PART_CHUNKS < n ? first + PART_CHUNKS : n;
        if (first >= n) return NULL;
        for (uint64_t i = first; i < end; i++) load_chunk(l, i);
        /* Never in memory twice. */
        if (l->r->huge.data)
            base_mapping_drop(l->file, (size_t)(l->from - l->file->data) + first * CACHE_CHUNK,
                              (end - first) * CACHE_CHUNK);
    }
}

static rp_status run(loader *l, uint32_t threads, rp_error *err) {
    pthread_t others[MAX_THREADS];
    uint64_t parts = (l->r->sums.n + PART_CHUNKS - 1) / PART_CHUNKS;
    uint32_t started = 0;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads > parts) threads = (uint32_t)parts;
    /* This thread works too; one that cannot be started is one less. */
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, l) == 0) started++;
    work(l);
    for (uint32_t i = 0; i < started; i++) pthread_join(others[i], NULL);
    uint64_t bad = atomic_load(&l->bad), n = l->r->sums.n;
    if (bad == n) return RP_OK;
    return rp_fail(err, RP_CORRUPT, "checksum mismatch in chunk %llu of %llu",
                   (unsigned long long)bad, (unsigned long long)n);
}

/* NOLINTNEXTLINE(readability-function-size): a mapping, what it holds, how to load it, where to */
rp_status engine_resident_load(base_mapping *file, const uint8_t *payload, size_t size, bool stored,
                               uint32_t threads, engine_resident *out, rp_error *err) {
    engine_resident r = {.data = payload, .size = size};
    rp_error why = {0};
    rp_status st;
    loader l = {.r = &r, .file = file, .from = payload, .stored = stored};
    if (base_huge_alloc(size, &r.huge, &why) != RP_OK)
        base_log(RP_LOG_DEBUG, "packed weights stay in the mapped file: %s", why.text);
    RP_TRY_OUT(stored ? cache_sums_read(file, size, &r.sums, err)
                      : cache_sums_new(size, &r.sums, err));
    atomic_init(&l.bad, r.sums.n);
    RP_TRY_OUT(run(&l, threads, err));
    if (r.huge.data) {
        r.data = r.huge.data;
    } else {
        r.file = *file;
        *file = (base_mapping){0};
    }
    *out = r;
    r = (engine_resident){0};
out:
    base_file_unmap(file);
    engine_resident_done(&r);
    return st;
}

rp_status engine_resident_check(const engine_resident *r, rp_error *err) {
    uint64_t n_bad = 0, first = 0;
    for (uint64_t i = r->sums.n; i-- > 0;)
        if (!cache_sums_match(&r->sums, i, r->data + i * CACHE_CHUNK)) {
            n_bad++;
            first = i;
        }
    if (n_bad == 0) return RP_OK;
    return rp_fail(err, RP_CORRUPT, "%llu of %llu chunks are damaged in memory, the first is %llu",
                   (unsigned long long)n_bad, (unsigned long long)r->sums.n,
                   (unsigned long long)first);
}

void engine_resident_drop(engine_resident *r) {
    base_huge_free(&r->huge);
    base_file_unmap(&r->file);
    r->huge = (base_huge){0};
    r->file = (base_mapping){0};
    r->data = NULL;
}

void engine_resident_done(engine_resident *r) {
    cache_sums_done(&r->sums);
    engine_resident_drop(r);
    *r = (engine_resident){0};
}
