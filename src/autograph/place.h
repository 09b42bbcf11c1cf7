/* Where the tensors of a result lie: in outputs of the call, in arguments, which are the caller's, or elsewhere, which no graph gives. */
#ifndef AUTOGRAPH_PLACE_H
#define AUTOGRAPH_PLACE_H

#include "autograph/value.h"
#include "reprise/autograph.h"

typedef enum autograph_home {
    AUTOGRAPH_IN_OUTPUT,
    AUTOGRAPH_IN_ARGUMENT,
    AUTOGRAPH_ELSEWHERE
} autograph_home;

typedef struct autograph_place {
    autograph_home home;
    uint32_t number; /* of the outputs, or of the tensors of the arguments */
    bool whole;      /* IN_ARGUMENT: all of it, as it is */
    size_t offset;   /* bytes */
} autograph_place;

/* From the first byte of v to behind its last one; SIZE_MAX for what no memory holds. */
size_t autograph_place_extent(const rp_value *v);
/* Of v, a tensor; args: as the function was given them. */
autograph_place autograph_place_of(const rp_call *call, const rp_value *args, const rp_value *v);
/* The address that p is in this call. NULL: ELSEWHERE. */
const void *autograph_place_at(const autograph_place *p, const rp_call *call, const rp_value *args);
/* Why no graph gives v, where the first run had it at p; NULL: one does. rounded: numbers of rows are. */
const char *autograph_place_reason(const autograph_place *p, const rp_value *args,
                                   const rp_value *v, bool rounded);
/* Whether v has memory with a state of args. */
bool autograph_place_meets_state(const rp_value *args, const rp_value *v);
/* IN_ARGUMENT: what v is to a caller who gave args; false for a part of a strided view, which has no address there, and for what
 * shares memory with a state, which the function sees as it was. */
bool autograph_place_give(const autograph_place *p, const rp_value *args, rp_value *v);

#endif
