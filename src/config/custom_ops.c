/* vLLM's rules of custom_ops: `all` or `none`, then +op and -op. */
#include <string.h>

#include "config/resolve.h"
#include "config/table.h"

/* Without a base word: none where code is generated, else all. */
static bool all_on(const rp_compilation_config *cfg) {
    const config_strs *l = &cfg->custom_ops;
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->v[i], "all") == 0) return true;
        if (strcmp(l->v[i], "none") == 0) return false;
    }
    return cfg->level == RP_LEVEL_NO_COMPILATION || strcmp(cfg->backend, "inductor") != 0;
}

/* "ns::op" and "op" name it. */
static bool is_name_of(const char *entry, const char *op) {
    const char *bare = strstr(op, "::");
    return strcmp(entry, op) == 0 || (bare && strcmp(entry, bare + 2) == 0);
}

bool config_custom_op_on(const rp_compilation_config *cfg, const char *op) {
    const config_strs *l = &cfg->custom_ops;
    for (size_t i = 0; i < l->n; i++)
        if ((l->v[i][0] == '+' || l->v[i][0] == '-') && is_name_of(l->v[i] + 1, op))
            return l->v[i][0] == '+';
    return all_on(cfg);
}

const char *config_custom_op_unknown(const rp_compilation_config *cfg, const char *const *ops,
                                     uint32_t n) {
    const config_strs *l = &cfg->custom_ops;
    for (size_t i = 0; i < l->n; i++) {
        bool known = l->v[i][0] != '+' && l->v[i][0] != '-';
        for (uint32_t k = 0; k < n && !known; k++) known = is_name_of(l->v[i] + 1, ops[k]);
        if (!known) return l->v[i];
    }
    return NULL;
}

static rp_status check_entry(const config_strs *l, size_t i, rp_error *err) {
    char shown[CONFIG_SHOWN], other[CONFIG_SHOWN];
    const char *z = l->v[i];
    bool base = strcmp(z, "all") == 0 || strcmp(z, "none") == 0;
    if (!base && ((*z != '+' && *z != '-') || !z[1]))
        return rp_fail(err, RP_CONFIG, "custom_ops: '%s' is none of all, none, +op and -op",
                       config_shown(z, shown));
    for (size_t k = 0; k < i; k++) {
        const char *y = l->v[k];
        bool contradicts = base ? strcmp(y, z) != 0 && *y != '+' && *y != '-'
                                : (*y == '+' || *y == '-') && *y != *z &&
                                      (is_name_of(y + 1, z + 1) || is_name_of(z + 1, y + 1));
        if (contradicts)
            return rp_fail(err, RP_CONFIG, "custom_ops: %s contradicts %s; give one of them",
                           config_shown(z, shown), config_shown(y, other));
    }
    return RP_OK;
}

rp_status config_check_custom_ops(const rp_compilation_config *cfg, rp_error *err) {
    for (size_t i = 0; i < cfg->custom_ops.n; i++) RP_TRY(check_entry(&cfg->custom_ops, i, err));
    return RP_OK;
}
