/* The configuration as a struct: one member per line of fields.def. Rooms read members of a
 * resolved configuration and never write them. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/status.h"
#include "base/str.h"
#include "reprise/config.h"

/* Optional values: `set` false is Python's None. */
typedef struct config_obool {
    bool set, v;
} config_obool;
typedef struct config_oint {
    bool set;
    int64_t v;
} config_oint;
typedef struct config_oenum {
    bool set;
    int v;
} config_oenum;
/* A list; `word` says that the field's word ("all", "cudagraph_capture_sizes") is in it. */
typedef struct config_ints {
    bool set, word;
    size_t n;
    int64_t *v;
} config_ints;
typedef config_ints config_sizes;
typedef struct config_strs {
    bool set;
    size_t n;
    char **v;
} config_strs;

typedef enum config_numerics {
    CONFIG_NUMERICS_DEFAULT,
    CONFIG_NUMERICS_EXACT,
    CONFIG_NUMERICS_FAST
} config_numerics;
typedef enum config_sealed {
    CONFIG_SEALED_OFF,
    CONFIG_SEALED_WARN,
    CONFIG_SEALED_FATAL
} config_sealed;
typedef enum config_isa {
    CONFIG_ISA_AUTO,
    CONFIG_ISA_PORTABLE,
    CONFIG_ISA_AVX2,
    CONFIG_ISA_AVX512,
    CONFIG_ISA_AMX
} config_isa;
typedef enum config_shapes {
    CONFIG_SHAPES_BACKED,
    CONFIG_SHAPES_UNBACKED,
    CONFIG_SHAPES_BACKED_SIZE_OBLIVIOUS
} config_shapes;
typedef enum config_save_format { CONFIG_SAVE_BINARY, CONFIG_SAVE_UNPACKED } config_save_format;
typedef enum config_performance {
    CONFIG_PERF_BALANCED,
    CONFIG_PERF_INTERACTIVITY,
    CONFIG_PERF_THROUGHPUT
} config_performance;

#define CONFIG_C_BOOL bool
#define CONFIG_C_OBOOL config_obool
#define CONFIG_C_INT int64_t
#define CONFIG_C_OINT config_oint
#define CONFIG_C_FLOAT double
#define CONFIG_C_STR char *
#define CONFIG_C_ENUM int
#define CONFIG_C_OENUM config_oenum
#define CONFIG_C_INTS config_ints
#define CONFIG_C_SIZES config_sizes
#define CONFIG_C_STRS config_strs
#define CONFIG_C_DICT char * /* canonical JSON object, keys sorted; never NULL */

/* Position of each field in table order. */
typedef enum config_id {
#define FIELD(kind, id, name, extra, deflt, key, status, help) CONFIG_ID_##id,
#include "config/fields.def"
    CONFIG_ID_COUNT_
} config_id;

struct rp_compilation_config {
#define FIELD(kind, id, name, extra, deflt, key, status, help) CONFIG_C_##kind id;
#include "config/fields.def"
    /* Name by which the user gave the field (the field's own or an alias), NULL if he did not. */
    const char *typed[CONFIG_ID_COUNT_];
    bool resolved;
    bool
        told; /* what resolving overrules has been logged: copies are resolved in silence, with the notes */
    rp_config_note *notes;
    size_t n_notes;
};

/* For what is no model, before it is resolved: settings that only models read are noted. */
rp_status config_note_models(rp_compilation_config *cfg, rp_error *err) RP_MUST_USE;
/* For the same: RP_UNSUPPORTED where compile_ranges_endpoints has some. */
rp_status config_refuse_ranges(const rp_compilation_config *cfg, rp_error *err) RP_MUST_USE;
/* Appends a note (copies both texts). Also for rooms that downgrade something while loading. */
rp_status config_note_add(rp_compilation_config *cfg, const char *reason, rp_error *err,
                          const char *what, ...) RP_PRINTF(4, 5) RP_MUST_USE;

/* What inductor_compile_config asks of the autotuner. */
typedef struct config_autotune {
    bool list, descend;         /* max_autotune, coordinate_descent_tuning */
    bool list_off, descend_off; /* given as off */
} config_autotune;
rp_status config_autotune_of(const rp_compilation_config *cfg, config_autotune *out,
                             rp_error *err) RP_MUST_USE;
/* Turns on all that the autotuner has, but for what was given as off; of a resolved configuration, too. */
rp_status config_autotune_all(rp_compilation_config *cfg, rp_error *err) RP_MUST_USE;

/* Whether custom_ops keeps the implementation of a registered op "ns::op", by vLLM's rules; of a resolved configuration. */
bool config_custom_op_on(const rp_compilation_config *cfg, const char *op);
/* The first +op or -op in custom_ops that is none of n; NULL: all are. */
const char *config_custom_op_unknown(const rp_compilation_config *cfg, const char *const *ops,
                                     uint32_t n);
/* Calls fn for each item of a DICT field whose values are true and false, in the order of their names. RP_CONFIG names another value. Stops
 * at the first failure. name: of the field. */
typedef rp_status (*config_switch_fn)(void *user, const char *name, bool on, rp_error *err);
rp_status config_each_switch(const char *name, const char *dict, config_switch_fn fn, void *user,
                             rp_error *err) RP_MUST_USE;

/* Calls fn for every setting that enters the key of this scope, in table order: each can be a factor
 * of its own, so that a miss can be explained by its name. Stops at the first failure. */
typedef rp_status (*config_key_fn)(void *user, const char *name, const char *value, rp_error *err);
rp_status config_key_each(const rp_compilation_config *cfg, rp_key_scope scope, config_key_fn fn,
                          void *user, rp_error *err) RP_MUST_USE;

/* Why a name of torch's list of backends is none here, and is not taken by another one; NULL for other names. */
const char *config_absent_backend(const char *name);

#endif
