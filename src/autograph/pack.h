/* Small arguments in memory of the host, on a GPU: gathered in front of a replay and brought there by one copy, from where the graph's
 * own copies take them to their slots. One of a manager, guarded by its lock. */
#ifndef AUTOGRAPH_PACK_H
#define AUTOGRAPH_PACK_H

#include "autograph/memory.h"
#include "autograph/rows.h"
#include "device/graph.h"

enum {
    AUTOGRAPH_PACK_ONE = 16 << 10,  /* bytes of an argument at most, */
    AUTOGRAPH_PACK_MOST = 64 << 10, /* of all in one copy, */
    AUTOGRAPH_PACK_ITEMS = 256      /* and how many */
};

/* An argument whose copy in the graph has this number and goes to slot. */
typedef struct autograph_packed {
    uint32_t move;
    void *slot;
    size_t at, size;
} autograph_packed;

typedef struct autograph_pack {
    char *bytes;            /* AUTOGRAPH_PACK_MOST of the host; NULL: none yet */
    autograph_packed *item; /* n */
    uint32_t n;
    size_t used;
    autograph_memory *memory; /* the same of the device; NULL: none yet */
    bool refused;             /* the device has none: a copy each */
    bool told;                /* why there are copies */
} autograph_pack;

void autograph_pack_done(autograph_pack *p);
size_t autograph_pack_bytes(const autograph_pack *p); /* of the device */
/* Begins a replay. */
void autograph_pack_clear(autograph_pack *p);
/* Takes v, an argument for slot whose copy in the graph has number `move`, if it is one for a pack: *taken. It is read here. */
rp_status autograph_pack_add(autograph_pack *p, const autograph_rows *rows, const rp_value *v,
                             uint32_t move, void *slot, bool *taken, rp_error *err) RP_MUST_USE;
/* Brings what was taken to where graph reads it. room: bytes that the device's memory may have. */
rp_status autograph_pack_send(autograph_pack *p, const device_graph *graph, rp_device *d,
                              uint64_t room, rp_error *err) RP_MUST_USE;

#endif
