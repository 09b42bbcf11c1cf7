/* What memory was before a run. On a GPU, of arguments that the first run was given where they lie: a kernel of the user's own tells
 * nobody what it writes; one that writes an argument would change the caller's memory in that run, and in replays the manager's. */
#ifndef AUTOGRAPH_BEFORE_H
#define AUTOGRAPH_BEFORE_H

#include "autograph/memory.h"

typedef struct autograph_was {
    const void *at;
    autograph_memory *copy;
    size_t size;
    uint32_t number; /* of the tensors that get slots, or whatever the owner counts */
    bool copied;     /* at is a copy, which the function may write */
} autograph_was;

typedef struct autograph_before {
    rp_device *device; /* NULL: nothing is kept */
    hal_device *queue;
    autograph_was *v; /* n of cap */
    uint32_t n, cap;
    size_t bytes;
    char *host; /* two chunks of it, where memory is not the host's */
} autograph_before;

void autograph_before_open(autograph_before *b, rp_device *d, hal_device *queue);
/* Whether what was kept is as it was. Waits. */
rp_status autograph_was_same(const autograph_before *b, const autograph_was *was, bool *out,
                             rp_error *err) RP_MUST_USE;
/* The other way: what differs, in lines of 64 bytes. Waits. */
rp_status autograph_was_put_back(const autograph_before *b, const autograph_was *was,
                                 rp_error *err) RP_MUST_USE;
/* As far as there is memory for it, and no more than 64 MB of a call. */
void autograph_before_keep(autograph_before *b, const void *at, size_t size, uint32_t number,
                           bool copied);
/* RP_UNSUPPORTED, the reason, where something is no longer as it was; copies: what is a copy, too, since it comes back. Waits. */
rp_status autograph_before_check(const autograph_before *b, bool copies, rp_error *err) RP_MUST_USE;
void autograph_before_done(autograph_before *b);

#endif
