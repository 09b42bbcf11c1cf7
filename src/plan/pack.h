/* Packed weights of a plan: their size and how the tiles of several parameters are dealt. */
#ifndef PLAN_PACK_H
#define PLAN_PACK_H

#include "plan/plan.h"

/* Bytes of a pack, every section rounded up to 32 columns; -1 where the format cannot be packed. */
int64_t plan_pack_bytes(const plan_pack *k);

#endif
