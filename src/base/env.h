/* The only door to the environment. One table: env.def. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stddef.h>

typedef enum base_env_id {
#define ENV(id, name, deflt, help) BASE_ENV_##id,
#include "base/env.def"
#undef ENV
    BASE_ENV_COUNT_
} base_env_id;

typedef struct base_env_info {
    const char *name, *deflt, *help;
} base_env_info;

/* Value, or NULL when unset or empty. Borrowed from the environment. */
const char *base_env_get(base_env_id id);
/* The default of the table where base_env_get has none. */
const char *base_env_or_default(base_env_id id);
const base_env_info *base_env_table(size_t *n);

#endif
