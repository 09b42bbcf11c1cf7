/* Which sizes of a function differed, across processes. */
#ifndef FRONT_DECISIONS_H
#define FRONT_DECISIONS_H

#include "front/front.h"

/* What an earlier process stored becomes history, once. By turn. */
rp_status front_decisions_load(rp_jit *f, rp_error *err) RP_MUST_USE;
/* Stores the history where it has changed. By turn. A folder that cannot be written is no error. */
rp_status front_decisions_store(rp_jit *f, rp_error *err) RP_MUST_USE;

#endif
