/* Copies structs that are shorter or longer than this library's. Sizes are believed up to a bound that no struct
 * reaches, so that garbage in `size` is told, and neither read nor written. */
#include "base/options.h"

#include <string.h>

enum { MOST = 4096 };

/* unit: what a size is a multiple of. */
static rp_status size_of(const void *given, const char *name, size_t unit, size_t *out,
                         rp_error *err) {
    size_t size;
    if (!given) return rp_fail(err, RP_INVALID, "%s is NULL", name);
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > MOST || size % unit)
        return rp_fail(err, RP_INVALID, "%s has size %zu; set its first member to sizeof(%s)", name,
                       size, name);
    *out = size;
    return RP_OK;
}

rp_status base_options_take(void *own, size_t own_size, const void *given, const char *name,
                            rp_error *err) {
    size_t size = 0;
    /* As of any struct that begins with one; half of a pointer is none. */
    RP_TRY(size_of(given, name, sizeof size, &size, err));
    const unsigned char *bytes = given;
    memcpy(own, given, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof own_size);
    for (size_t i = own_size; i < size; i++)
        if (bytes[i])
            return rp_fail(err, RP_UNSUPPORTED,
                           "%s of %zu bytes sets a field behind the %zu that this library knows; "
                           "use a newer library",
                           name, size, own_size);
    return RP_OK;
}

rp_status base_result_give(void *out, const void *own, size_t own_size, const char *name,
                           rp_error *err) {
    size_t size = 0, both;
    RP_TRY(size_of(out, name, 1, &size, err));
    both = size < own_size ? size : own_size;
    memcpy((unsigned char *)out + sizeof size, (const unsigned char *)own + sizeof size,
           both - sizeof size);
    memset((unsigned char *)out + both, 0, size - both);
    return RP_OK;
}
