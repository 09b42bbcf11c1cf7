/* What a manager remembers: static signature -> dynamic signature -> one entry a function, as the public text shows it, and an
 * index that finds an entry by function and arguments at once.
 *
 * A static signature owns the input slots and the sets of output slots, an entry the form of its result and a
 * graph. Entries that can be replayed are in order of use. All of it is guarded by the manager's lock. */
#ifndef AUTOGRAPH_GRAPHS_H
#define AUTOGRAPH_GRAPHS_H

#include "autograph/memory.h"
#include "autograph/place.h"
#include "base/hash.h"
#include "device/stream.h"
#include "reprise/autograph.h"

typedef struct autograph_static autograph_static;
typedef struct autograph_dynamic autograph_dynamic;
typedef struct autograph_entry autograph_entry;

/* Output slots of one form: number, dtypes and ranks. */
typedef struct autograph_outs {
    struct autograph_outs *next;
    autograph_slot *slot; /* n */
    uint32_t n;
    autograph_lease *lease; /* BORROWED: over the slots' memory; NULL until it is wanted */
    autograph_lease **ring; /* RING: n_ring, each NULL or one block for all outputs */
    uint32_t n_ring, turn;
} autograph_outs;

struct autograph_static {
    autograph_static *next;
    char *name;
    uint8_t *key; /* key_size */
    size_t key_size;
    autograph_slot *in; /* n_in */
    uint32_t n_in;
    autograph_table table;
    autograph_outs *outs;
    autograph_dynamic *dynamics;
};

struct autograph_dynamic {
    autograph_dynamic *next;
    autograph_static *of;
    uint8_t *key; /* key_size: of the arguments */
    size_t key_size;
    rp_value args; /* kinds, names, literals, types and sizes; no data */
    autograph_entry *entries;
};

struct autograph_entry {
    autograph_entry *next; /* of its dynamic signature */
    autograph_dynamic *of;
    autograph_entry *chain; /* of its place in the index */
    uint64_t hash;
    const rp_function *f;
    /* What f gives, which another function of its name need not. */
    autograph_outs *outs;    /* that its graph writes; NULL before the first capture */
    size_t *out_bytes;       /* of each slot of outs, in these calls */
    rp_value *result;        /* without data, */
    autograph_place *place;  /* which each tensor has by this, in the block of result */
    bool in_arguments;       /* some of them */
    device_graph *graph;     /* NULL: none, or no longer */
    autograph_memory **temp; /* n_temp, of the graph */
    uint32_t n_temp;
    autograph_entry *newer, *older; /* while it has a graph */
    uint64_t replays, used; /* since it was captured; the call of the manager that used it last */
    uint32_t lost; /* graphs, one behind the other, that became invalid before they were replayed */
    bool invalid;  /* its graph was captured against what has changed */
    char *inconsistent; /* why it runs eagerly for good, or NULL */
};

typedef struct autograph_graphs {
    autograph_static *statics, **last;
    autograph_entry **index; /* n_index, a power of two or 0 */
    uint32_t n_index, n_entries, n_graphs;
    autograph_entry *newest, *oldest;
    uint64_t invalidated, evicted;
} autograph_graphs;

/* NULL when there is none. */
autograph_entry *autograph_find(const autograph_graphs *g, const rp_function *f, const void *key,
                                size_t size, uint64_t hash);
/* Found or made. name: of the function; key: tells static signatures of one name apart. */
rp_status autograph_static_of(autograph_graphs *g, const char *name, const void *key, size_t size,
                              uint32_t n_in, autograph_static **out, rp_error *err) RP_MUST_USE;
rp_status autograph_outs_of(autograph_static *s, const rp_buffer *form, uint32_t n,
                            autograph_outs **out, rp_error *err) RP_MUST_USE;
rp_status autograph_dynamic_of(autograph_static *s, const void *key, size_t size,
                               const rp_value *args, autograph_dynamic **out,
                               rp_error *err) RP_MUST_USE;
rp_status autograph_entry_of(autograph_graphs *g, autograph_dynamic *d, const rp_function *f,
                             uint64_t hash, autograph_entry **out, rp_error *err) RP_MUST_USE;
/* Gives e its graph and temps, which are taken over; it is the newest. */
void autograph_entry_set(autograph_graphs *g, autograph_entry *e, device_graph *graph,
                         autograph_memory **temp, uint32_t n_temp);
void autograph_entry_use(autograph_graphs *g, autograph_entry *e);
/* Frees the graph; the entry stays. */
void autograph_entry_invalidate(autograph_graphs *g, autograph_entry *e);
/* Frees the entry, and signatures that it leaves empty. */
void autograph_entry_drop(autograph_graphs *g, autograph_entry *e);
/* Forgets entries without a graph while there are more than `most` of them. */
void autograph_graphs_trim(autograph_graphs *g, uint32_t most);
/* All graphs of s that write outs (NULL: any). */
void autograph_static_invalidate(autograph_graphs *g, autograph_static *s,
                                 const autograph_outs *outs);
void autograph_graphs_drop(autograph_graphs *g, const rp_function *f); /* all entries of f */
void autograph_graphs_done(autograph_graphs *g);

/* Bytes of memory as far as it is used, and of graphs with all that they need. */
uint64_t autograph_tensor_bytes(const autograph_graphs *g);
uint64_t autograph_taken_bytes(const autograph_graphs *g); /* all that the former takes */
/* Gives back the memory of a signature without graphs; false where it has graphs, or none. */
bool autograph_static_shrink(autograph_static *s);
/* Gives back what no graph and no caller has: that of all signatures, and places of rings. False where there is none. */
bool autograph_graphs_shrink(autograph_graphs *g);
uint64_t autograph_pool_bytes(const autograph_graphs *g);
uint64_t autograph_programmatic_edges(const autograph_graphs *g); /* of graphs that are there */

#endif
