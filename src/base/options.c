/* Copies option structs that are shorter or longer than this library's. Sizes are believed up to a bound that no
 * struct reaches, so that garbage in `size` is told and not read. */
#include "base/options.h"

#include <string.h>

enum { MOST = 4096 };

rp_status base_options_take(void *own, size_t own_size, const void *given, const char *name,
                            rp_error *err) {
    size_t size = 0;
    if (!given) return rp_fail(err, RP_INVALID, "%s is NULL", name);
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > MOST)
        return rp_fail(err, RP_INVALID, "%s has size %zu; set its first member to sizeof(%s)", name,
                       size, name);
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
