/* Where memory is the host's, what a function is given while it is captured, so that plain C in it is found out: everything it can
 * write to is filled with a pattern, and nothing that goes through the call's stream runs, so a byte that differs afterwards
 * was written beside it. States and outputs are the caller's, perhaps: memory of no other use stands for them, and what is noted
 * over it means the real place (hal_capture_mean). */
#ifndef AUTOGRAPH_STAND_H
#define AUTOGRAPH_STAND_H

#include "autograph/memory.h"

typedef struct autograph_stand {
    autograph_memory *memory; /* NULL: the memory itself is watched */
    unsigned char *at;
    size_t size, filled; /* filled: bytes that have the pattern, which this room sets */
    rp_dtype dtype;
    const char *what; /* static; with number for the reason */
    uint32_t number;
    bool blank;  /* nothing has been in it so far; */
    bool state;  /* or it stands for one */
    uint32_t id; /* of its pattern, which this room sets */
} autograph_stand;

typedef struct autograph_stands {
    rp_device *device;
    hal_device *queue;  /* that captures */
    autograph_stand *v; /* n of cap */
    uint32_t n, cap;
    size_t filled; /* of what stands for something else */
} autograph_stands;

/* Fills and watches what `one` has, memory that nobody needs now. */
rp_status autograph_stand_fill(autograph_stands *s, const autograph_stand *one,
                               rp_error *err) RP_MUST_USE;
/* Memory like `one`, but for its address, that stands for `real` until the capture ends: *out. */
rp_status autograph_stand_for(autograph_stands *s, const void *real, const autograph_stand *one,
                              void **out, rp_error *err) RP_MUST_USE;
/* RP_UNSUPPORTED, the reason, where something was written. */
rp_status autograph_stands_check(const autograph_stands *s, rp_error *err) RP_MUST_USE;
void autograph_stands_done(autograph_stands *s);

#endif
