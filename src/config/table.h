/* The table of settings made from fields.def, and what can be done with one value of it. */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include <jansson.h>

#include "config/config.h"

typedef enum config_kind {
    CONFIG_KIND_BOOL,
    CONFIG_KIND_OBOOL,
    CONFIG_KIND_INT,
    CONFIG_KIND_OINT,
    CONFIG_KIND_FLOAT,
    CONFIG_KIND_STR,
    CONFIG_KIND_ENUM,
    CONFIG_KIND_OENUM,
    CONFIG_KIND_INTS,
    CONFIG_KIND_SIZES,
    CONFIG_KIND_STRS,
    CONFIG_KIND_DICT
} config_kind;

typedef struct config_name {
    const char *name;
    int value;
    const char *unsupported; /* reason, NULL when it works */
} config_name;

/* The first name of a value is the one that is printed. */
typedef struct config_names {
    const config_name *v;
    size_t n;
    int int_max; /* integers 0..int_max are accepted; -1: none */
    bool as_int; /* printed as integer */
} config_names;

typedef enum config_key_class {
    CONFIG_KEY_NONE,
    CONFIG_KEY_OUTER,
    CONFIG_KEY_PIECE
} config_key_class;
typedef enum config_status {
    CONFIG_WORKS,
    CONFIG_HOLDS,
    CONFIG_UNSUP,
    CONFIG_DERIVED
} config_status;

typedef struct config_field {
    const char *name;
    const char *deflt;
    const char *help;
    const char *word; /* SIZES */
    const char *key_reason;
    const char *status_reason; /* DERIVED: the setting to use */
    const char *same;          /* (optional) UNSUP: another value that says what is done */
    const config_names *names;
    int64_t min, max;
    size_t offset;
    config_kind kind;
    config_key_class key;
    config_status status;
} config_field;

typedef struct config_alias {
    const char *name;
    const char *target; /* or, in config_readonly, the reason */
} config_alias;

extern const config_field config_table[CONFIG_ID_COUNT_];
extern const config_alias config_aliases[];
extern const size_t config_n_aliases;
extern const config_alias config_readonly[];
extern const size_t config_n_readonly;

/* -1 when no field has this name; aliases are not looked at. */
int config_find(const char *name);
/* "fuse_act_quant" of pass_config.fuse_act_quant, a switch that acts; NULL for any other field. */
const char *config_fusion_name(int id);
/* Nearest name (field, alias or last part of a dotted name), or NULL. */
const char *config_nearest(const char *name);

static inline void *config_slot(rp_compilation_config *cfg, int id) {
    return (char *)cfg + config_table[id].offset;
}
static inline const void *config_slot_const(const rp_compilation_config *cfg, int id) {
    return (const char *)cfg + config_table[id].offset;
}

/* Replaces the value in slot; slot keeps its old value on failure. RP_CONFIG: key, value, what was
 * expected; RP_UNSUPPORTED for an enum value that is known but does not exist here. */
rp_status config_value_set(const config_field *f, void *slot, const json_t *value,
                           rp_error *err) RP_MUST_USE;
/* Dot notation to JSON: new reference in *out. Lists may be `[1,2]` or `1,2`. */
rp_status config_value_parse(const config_field *f, const char *text, json_t **out,
                             rp_error *err) RP_MUST_USE;
/* Sets the field's default. */
rp_status config_value_reset(const config_field *f, void *slot, rp_error *err) RP_MUST_USE;
/* New reference; NULL when memory is exhausted. */
json_t *config_value_json(const config_field *f, const void *slot);
/* Compact text with sorted keys, owned by the caller (base_free); NULL when memory is exhausted. */
char *config_value_text(const config_field *f, const void *slot);
bool config_value_is_default(const config_field *f, const void *slot);
/* null, false, 0, empty, or an object of nothing else. */
bool config_value_is_off(const config_field *f, const void *slot);
/* The same of a part of one. */
bool config_json_is_off(const json_t *value);
/* *out: a value that asks for something: not its default, not off where the default is off as well, and not what is done
 * anyway (same). RP_NOMEM. */
rp_status config_value_asks(const config_field *f, const void *slot, bool *out,
                            rp_error *err) RP_MUST_USE;
void config_value_done(const config_field *f, void *slot);
/* "an integer from 1 to 65536": what the field takes; truncated to size. */
void config_value_expected(const config_field *f, char *out, size_t size);
/* Text from outside as one line of an error or note: cut at a character, no control characters,
 * valid UTF-8. Returns out. */
enum { CONFIG_SHOWN = 100 };
const char *config_shown(const char *text, char out[CONFIG_SHOWN]);
/* Text as JSON whatever its bytes are, for reports: what is no UTF-8 becomes U+FFFD. NULL is null. New reference; NULL when
 * memory is exhausted. */
json_t *config_text_json(const char *text);
/* Compact text of any JSON, owned by the caller (base_free). */
char *config_json_text(const json_t *value);
/* order: JSON_SORT_KEYS, or 0 for the order of insertion. */
char *config_json_dump(const json_t *value, size_t order);

extern const config_names config_levels, config_shapes_types, config_graph_modes,
    config_performance_modes, config_numerics_names, config_isas, config_sealed_names,
    config_save_formats;

#endif
