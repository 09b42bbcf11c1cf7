/* What backends of others make, kept in the compile cache as handles that they load again. */
#ifndef API_HANDLE_H
#define API_HANDLE_H

#include "backend/registry.h"

typedef struct api_handle_from {
    const char *dir; /* of the cache; NULL or "": where it is by default */
    bool hit;        /* it was loaded */
} api_handle_from;

/* As backend_compile, by a handle where there is one; what is compiled leaves one. */
rp_status api_handle_make(const rp_backend_desc *d, const rp_graph *g, const rp_backend_options *o,
                          api_handle_from *from, rp_callable *out, bool *refused,
                          rp_error *err) RP_MUST_USE;

#endif
