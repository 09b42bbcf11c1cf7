/* The only call of getenv. Which variables exist is env.def; nothing here sets one. */
#include "base/env.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "base/str.h"

static const base_env_info table[BASE_ENV_COUNT_] = {
#define ENV(id, name, deflt, accepted, help) [BASE_ENV_##id] = {name, deflt, accepted, help},
#include "base/env.def"
#undef ENV
};

static const struct {
    base_env_id id;
    const char *name;
} aliases[] = {
#define ENV(id, name, deflt, accepted, help)
#define ENV_ALIAS(id, name) {BASE_ENV_##id, name},
#include "base/env.def"
#undef ENV
};

static const char *value_of(const char *name) {
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

const char *base_env_source(base_env_id id) {
    assert((unsigned)id < BASE_ENV_COUNT_);
    if (value_of(table[id].name)) return table[id].name;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (aliases[i].id == id && value_of(aliases[i].name)) return aliases[i].name;
    return NULL;
}

const char *base_env_get(base_env_id id) {
    const char *name = base_env_source(id);
    return name ? value_of(name) : NULL;
}

const char *base_env_or_default(base_env_id id) {
    const char *v = base_env_get(id);
    return v ? v : table[id].deflt;
}

const base_env_info *base_env_table(size_t *n) {
    *n = BASE_ENV_COUNT_;
    return table;
}

static bool is_known(base_str name) {
    for (int i = 0; i < BASE_ENV_COUNT_; i++)
        if (base_str_eq(name, table[i].name)) return true;
    return false;
}

void base_env_strangers(void (*fn)(void *user, base_str name, const char *near), void *user) {
    const char *ours[BASE_ENV_COUNT_]; /* behind what all have in common */
    size_t n = 0;
    for (int i = 0; i < BASE_ENV_COUNT_; i++)
        if (strncmp(table[i].name, "REPRISE_", 8) == 0) ours[n++] = table[i].name + 8;
    for (char **at = environ; at && *at; at++) {
        char name[64];
        base_str z = {*at, strcspn(*at, "=")};
        if (!base_str_prefix(z, "REPRISE_") || base_str_prefix(z, "REPRISE_TEST_") || is_known(z))
            continue;
        size_t len = z.len < sizeof name ? z.len : sizeof name - 1;
        memcpy(name, z.ptr, len);
        name[len] = 0;
        const char *near = base_str_nearest(name + 8, ours, n);
        fn(user, z, near ? near - 8 : NULL);
    }
}

/* words: "a, b, c" */
static bool is_one_of(const char *v, const char *words) {
    size_t len = strlen(v);
    for (const char *at = words; *at;) {
        size_t n = strcspn(at, ",");
        if (n == len && base_same_start(at, v, n)) return true;
        at += n;
        at += strspn(at, ", ");
    }
    return false;
}

/* Each is a folder or not there yet. */
static bool are_folders(const char *v) {
    char path[PATH_MAX];
    struct stat info;
    for (const char *at = v; *at;) {
        size_t n = strcspn(at, ":");
        if (n >= sizeof path) return false;
        memcpy(path, at, n);
        path[n] = 0;
        if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) return false;
        at += n + (at[n] == ':');
    }
    return true;
}

static bool read_seconds(const char *v, int64_t *ns) {
    char *end = NULL;
    const double s = base_strtod(v, &end);
    if (end == v || *end || !(s >= 0) || s > 1e6) return false;
    *ns = (int64_t)(s * 1e9);
    return true;
}

static bool is_accepted(const char *v, const char *accepted) {
    struct stat info;
    int64_t ns;
    bool found = stat(v, &info) == 0, folder = found && S_ISDIR(info.st_mode);
    if (strcmp(accepted, "text") == 0 || strcmp(accepted, "log names") == 0) return true;
    if (strcmp(accepted, "folder") == 0) return folder || !found;
    if (strcmp(accepted, "folders") == 0) return are_folders(v);
    if (strcmp(accepted, "library") == 0) return !strchr(v, '/') || (found && !folder);
    if (strcmp(accepted, "seconds") == 0) return read_seconds(v, &ns);
    return is_one_of(v, accepted);
}

static rp_status refuse(base_env_id id, rp_error *err) {
    const base_env_info *of = &table[id];
    const char *name = base_env_source(id), *v = value_of(name), *what = of->accepted;
    if (strcmp(what, "seconds") == 0)
        return rp_fail(err, RP_CONFIG, "%s=%.100s: expected seconds, as in %s", name, v, of->deflt);
    return rp_fail(err, RP_CONFIG, "%s=%.100s: expected %s%s", name, v,
                   strchr(what, ',')              ? "one of "
                   : strcmp(what, "folders") == 0 ? ""
                   : strchr("aeiou", what[0])     ? "an "
                                                  : "a ",
                   what);
}

rp_status base_env_seconds(base_env_id id, int64_t *ns, rp_error *err) {
    return read_seconds(base_env_or_default(id), ns) ? RP_OK : refuse(id, err);
}

rp_status base_env_check(rp_error *err) {
    for (int i = 0; i < BASE_ENV_COUNT_; i++) {
        const char *v = base_env_get((base_env_id)i);
        if (v && !is_accepted(v, table[i].accepted)) return refuse((base_env_id)i, err);
    }
    return RP_OK;
}
