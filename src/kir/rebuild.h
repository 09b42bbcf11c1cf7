/* Private to the room: making a function again with changes. */
#ifndef KIR_REBUILD_H
#define KIR_REBUILD_H

#include "kir/inst.h"

/* A function like f, with its buffers, without instructions. map: by ref of f, in the arena of *out, for where its values are there. */
rp_status kir_rebuild_new(const kir_func *f, kir_func **out, kir_ref **map,
                          rp_error *err) RP_MUST_USE;
/* A plain instruction of f by the builders of `to`, which fold. */
kir_ref kir_rebuild_inst(kir_func *to, const kir_func *f, const kir_inst *in, const kir_ref *map);

#endif
