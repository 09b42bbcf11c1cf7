/* The table of settings as data, and finding a line of it by name.
 *
 * fields.def is the only list: struct member, parser, printer, help, docs and keys all come from
 * it. This file holds no values. */
#include "config/table.h"

#include <string.h>

#define ANY .min = INT64_MIN, .max = INT64_MAX
#define RANGE(a, b) .min = (a), .max = (b)
#define NAMES(t) .names = &(t)
#define WORD(w, a, b) .word = (w), .min = (a), .max = (b)
#define OUTER .key = CONFIG_KEY_OUTER
#define PIECE .key = CONFIG_KEY_PIECE
#define NOKEY(why) .key = CONFIG_KEY_NONE, .key_reason = (why)
#define WORKS .status = CONFIG_WORKS
#define HOLDS(why) .status = CONFIG_HOLDS, .status_reason = (why)
#define UNSUP(why) .status = CONFIG_UNSUP, .status_reason = (why)
#define SAME(value, why) .status = CONFIG_UNSUP, .same = (value), .status_reason = (why)
#define DERIVED(use) .status = CONFIG_DERIVED, .status_reason = (use)

const config_field config_table[CONFIG_ID_COUNT_] = {
#define FIELD(kind_, id_, name_, extra_, deflt_, key_, status_, help_)   \
    [CONFIG_ID_##id_] = {.kind = CONFIG_KIND_##kind_,                    \
                         .name = (name_),                                \
                         .deflt = (deflt_),                              \
                         .help = (help_),                                \
                         .offset = offsetof(rp_compilation_config, id_), \
                         extra_,                                         \
                         key_,                                           \
                         status_},
#include "config/fields.def"
};

const config_alias config_aliases[] = {
#define ALIAS(name_, target_) {(name_), (target_)},
#include "config/fields.def"
};
const size_t config_n_aliases = sizeof(config_aliases) / sizeof(config_aliases[0]);

const config_alias config_readonly[] = {
#define READONLY(name_, reason_) {(name_), (reason_)},
#include "config/fields.def"
};
const size_t config_n_readonly = sizeof(config_readonly) / sizeof(config_readonly[0]);

int config_find(const char *name) {
    for (int i = 0; i < CONFIG_ID_COUNT_; i++)
        if (strcmp(config_table[i].name, name) == 0) return i;
    return -1;
}

const char *config_fusion_name(int id) {
    static const char prefix[] = "pass_config.";
    const config_field *f = &config_table[id];
    const bool acts = f->kind == CONFIG_KIND_OBOOL && f->status == CONFIG_WORKS;
    return acts && strncmp(f->name, prefix, sizeof prefix - 1) == 0 ? f->name + sizeof prefix - 1
                                                                    : NULL;
}

const char *config_nearest(const char *name) {
    enum { MAX_NAMES = CONFIG_ID_COUNT_ + 64 };
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        const char *dot = strchr(config_table[i].name, '.');
        /* a bare "fuse_norm_quant" is nearest to its dotted name */
        if (dot && strcmp(dot + 1, name) == 0) return config_table[i].name;
        names[n++] = config_table[i].name;
    }
    for (size_t i = 0; i < config_n_aliases && n < MAX_NAMES; i++)
        names[n++] = config_aliases[i].name;
    return base_str_nearest(name, names, n);
}
