/* Memory that a function reaches beside its call: what rp_device_alloc gave and a copy names, what is bound to a compiled graph, and
 * where states really lie. While the function is captured nothing of the stream runs, so what differs there behind that run was written
 * beside the stream, and no replay would write it. */
#ifndef AUTOGRAPH_OUTSIDE_H
#define AUTOGRAPH_OUTSIDE_H

#include "autograph/manager.h"
#include "device/running.h"

typedef struct autograph_piece {
    const void *at;
    size_t size;
    const char *call, *name; /* borrowed from the traces of the wish; call NULL: a state, */
    uint32_t number;         /* of this number */
    const hal_owner *owner;  /* likewise borrowed; NULL: it is of rp_device_alloc, or a state */
} autograph_piece;

typedef struct autograph_outside {
    const autograph_wish *w;
    autograph_piece *v; /* n of cap */
    uint32_t n, cap, n_states;
    autograph_before before; /* by their place among the pieces */
    device_moment moment;    /* when they were kept */
} autograph_outside;

/* Behind the first run: keeps what its calls named, as far as it can be read for sure, the smallest first, 64 MB in all. */
rp_status autograph_outside_keep(autograph_outside *o, const autograph_wish *w,
                                 rp_error *err) RP_MUST_USE;
/* Behind the second: what differs is put back. RP_UNSUPPORTED, the reason, where something does. *others: other threads ran something,
 * which may have written it; it stays as it is then. */
rp_status autograph_outside_check(const autograph_outside *o, bool *others,
                                  rp_error *err) RP_MUST_USE;
void autograph_outside_done(autograph_outside *o);

#endif
