/* The only door to the environment. One table: env.def. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef enum base_env_id {
#define ENV(id, name, deflt, accepted, help) BASE_ENV_##id,
#include "base/env.def"
#undef ENV
    BASE_ENV_COUNT_
} base_env_id;

typedef struct base_env_info {
    const char *name, *deflt, *accepted, *help;
} base_env_info;

/* Value, or NULL when unset or empty; that of an alias where our own name has none. Borrowed from the environment. */
const char *base_env_get(base_env_id id);
/* The default of the table where base_env_get has none. */
const char *base_env_or_default(base_env_id id);
const base_env_info *base_env_table(size_t *n);
/* The name by which a variable is set: its own, or the alias that stands in; NULL when it is not set. */
const char *base_env_source(base_env_id id);
/* What one that takes seconds says, or its default, in ns. RP_CONFIG as base_env_check. */
rp_status base_env_seconds(base_env_id id, int64_t *ns, rp_error *err) RP_MUST_USE;
/* The variables that are set, called like ours, and read by nothing: fn gets the name ("REPRISE_LOG", not terminated) and the
 * nearest that is read, NULL where none is near. Those of tests (REPRISE_TEST_...) are passed over. */
void base_env_strangers(void (*fn)(void *user, base_str name, const char *near), void *user);
/* RP_CONFIG names the first variable whose value is not accepted, the value, and what is. Log names are not looked at:
 * base_log_check does that. */
rp_status base_env_check(rp_error *err) RP_MUST_USE;

#endif
