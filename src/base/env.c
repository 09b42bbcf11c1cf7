/* The only call of getenv. Which variables exist is env.def; nothing here sets one. */
#include "base/env.h"

#include <assert.h>
#include <stdlib.h>

static const base_env_info table[BASE_ENV_COUNT_] = {
#define ENV(id, name, deflt, help) [BASE_ENV_##id] = {name, deflt, help},
#include "base/env.def"
#undef ENV
};

const char *base_env_get(base_env_id id) {
    assert((unsigned)id < BASE_ENV_COUNT_);
    const char *v = getenv(table[id].name);
    return v && *v ? v : NULL;
}

const char *base_env_or_default(base_env_id id) {
    const char *v = base_env_get(id);
    return v ? v : table[id].deflt;
}

const base_env_info *base_env_table(size_t *n) {
    *n = BASE_ENV_COUNT_;
    return table;
}
