/* The text in front of the kernels of a unit, less what none of them needs. */
#ifndef GEN_TRIM_H
#define GEN_TRIM_H

#include "base/str.h"

/* Adds head to out without comments at the start of a line, and without the functions (RP_INLINE, RP_FN, RP_NOINLINE,
 * RP_CALL at the start of a line), structs and templates of both that neither user nor anything that stays names.
 * Everything else stays in its order. What is left depends on both texts alone. RP_NOMEM: out is as it was. */
rp_status gen_trim(base_str head, base_str user, base_buf *out, rp_error *err) RP_MUST_USE;

#endif
