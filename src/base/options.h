/* Option and result structs of any age: callers say by `size`, the first member, how much of one they know. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stddef.h>

#include "base/status.h"

/* Copies what the caller knows of a struct over own, which holds own_size bytes of defaults and starts with its size, as
 * given does: fields that an older caller lacks keep their defaults. RP_INVALID for NULL and for a size that cannot be
 * one; RP_UNSUPPORTED, after the copy, where a newer caller sets a field that is not known here. name: of the struct, for
 * the texts. A field that is added to such a struct must not lie in what was padding at its end. */
rp_status base_options_take(void *own, size_t own_size, const void *given, const char *name,
                            rp_error *err) RP_MUST_USE;
/* The other way, for results: copies own, of own_size bytes, as far as the caller knows it over out, whose size stays.
 * Fields of a newer caller that are not known here become zero. RP_INVALID as above; out is not written then. */
rp_status base_result_give(void *out, const void *own, size_t own_size, const char *name,
                           rp_error *err) RP_MUST_USE;

#endif
