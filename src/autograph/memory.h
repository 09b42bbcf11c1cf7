/* Memory of a manager: shared by graphs and by outputs that callers hold, freed with the last of them. */
#ifndef AUTOGRAPH_MEMORY_H
#define AUTOGRAPH_MEMORY_H

#include <stdatomic.h>

#include "device/device.h"
#include "reprise/value.h"

typedef struct autograph_cache autograph_cache;
typedef struct autograph_memory {
    rp_device *device;
    void *data;
    size_t size;
    hal_reserved *range; /* NULL, or what takes memory as it is used */
    atomic_uint refs;
    autograph_cache *cache;        /* where it goes when nobody has it any more, or NULL */
    struct autograph_memory *next; /* there */
} autograph_memory;

/* What it takes: of a range what is memory by now. NULL: 0. */
size_t autograph_memory_bytes(const autograph_memory *m);
/* One reference. */
rp_status autograph_memory_new(rp_device *d, size_t size, bool reserved, autograph_memory **out,
                               rp_error *err) RP_MUST_USE;
autograph_memory *autograph_memory_ref(autograph_memory *m);
void autograph_memory_unref(autograph_memory *m); /* NULL is fine; thread-safe */

/* Memory of outputs that callers gave back, for those of later replays, since a GPU waits when it takes memory and when it gives
 * some; most_bytes of it at most, 0: any. One of a manager, all on whose stream. NULL is one that keeps nothing. Thread-safe. */
rp_status autograph_cache_new(rp_device *d, uint64_t most_bytes, autograph_cache **out,
                              rp_error *err) RP_MUST_USE;
void autograph_cache_close(autograph_cache *c); /* what is still held is freed when it comes back */
size_t autograph_cache_bytes(autograph_cache *c); /* that nobody has */
bool autograph_cache_empty(autograph_cache *c);   /* of that; false where there was none */
void autograph_cache_limit(autograph_cache *c, uint64_t most_bytes); /* from now on; 0: any */
/* At least size bytes, of unknown content where there is a cache. */
rp_status autograph_cache_take(autograph_cache *c, rp_device *d, size_t size,
                               autograph_memory **out, rp_error *err) RP_MUST_USE;
/* False: it is the caller's to free. */
bool autograph_cache_give(autograph_memory *m);
void autograph_memory_free(autograph_memory *m); /* that nobody has */

/* Memory for one input or output of graphs, as large as the largest call so far. */
typedef struct autograph_slot {
    rp_buffer largest; /* dtype, rank, and the largest size of each axis; data is that of memory */
    size_t used;       /* bytes */
    autograph_memory *memory;
} autograph_slot;

/* Bytes of a dense buffer; false for sizes that none has. */
bool autograph_bytes(const rp_buffer *b, size_t *out);
/* How slots grow: exact, or with room; on a GPU, where room is memory, a small share of `most` bytes at most. 0: no limit. */
typedef struct autograph_growing {
    bool exact;
    uint64_t most;
} autograph_growing;
/* Makes s hold b, which has its dtype and rank. *moved becomes true when that takes other memory; it stays otherwise. */
rp_status autograph_slot_cover(autograph_slot *s, rp_device *d, const rp_buffer *b,
                               autograph_growing by, bool *moved, rp_error *err) RP_MUST_USE;
/* Gives the memory back; the form stays, for calls to come. False where there is none. */
bool autograph_slot_shrink(autograph_slot *s);
void autograph_slot_done(autograph_slot *s);

/* Addresses of indirect arguments, where kernels read them. */
typedef struct autograph_table {
    autograph_memory *memory; /* NULL: none, or not yet */
    const void **written;     /* n: what it has; NULL at first */
    uint32_t n, next;         /* next: of the call under way */
    bool changed;
} autograph_table;

/* RP_INVALID for what no kernel reaches; what: of the arguments. */
rp_status autograph_check_reached(const rp_device *d, const void *p, const char *what,
                                  rp_error *err) RP_MUST_USE;
rp_status autograph_table_open(autograph_table *t, rp_device *d, uint32_t n,
                               rp_error *err) RP_MUST_USE;
void autograph_table_done(autograph_table *t);
/* Where address number i stands on the device. */
void *autograph_table_at(const autograph_table *t, uint32_t i);
/* The addresses of a call in turn, from next 0 on; RP_INVALID for one that no kernel reaches. */
rp_status autograph_table_put(autograph_table *t, const rp_device *d, const void *p,
                              rp_error *err) RP_MUST_USE;
/* All of them, in one go, where one is another than before. */
rp_status autograph_table_send(autograph_table *t, hal_device *queue, rp_error *err) RP_MUST_USE;

/* Memory that replays write and callers read, and how often it was written. */
typedef struct autograph_lease {
    atomic_uint refs;
    _Atomic uint64_t generation;
    autograph_memory **memory; /* n */
    uint32_t n;
} autograph_lease;

/* Takes one reference of each memory. */
rp_status autograph_lease_new(autograph_memory *const *memory, uint32_t n, autograph_lease **out,
                              rp_error *err) RP_MUST_USE;
autograph_lease *autograph_lease_ref(autograph_lease *l);
void autograph_lease_unref(autograph_lease *l); /* NULL is fine; thread-safe */

#endif
