/* The configuration: every setting of ATOM and vLLM by its own name, plus ours.
 *
 * A configuration is filled (JSON, dot notation, -O presets), resolved once against the facts of a
 * model, and read from then on. */
#ifndef REPRISE_CONFIG_H
#define REPRISE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rp_level {
    RP_LEVEL_NO_COMPILATION = 0, /* every op runs at once */
    RP_LEVEL_DYNAMO_AS_IS = 1,   /* traced, run op by op */
    RP_LEVEL_DYNAMO_ONCE = 2,    /* traced once, compiled as a whole */
    RP_LEVEL_PIECEWISE = 3       /* split, compiled by piece, device graphs */
} rp_level;

/* The last two are pairs (decode routine, mixed routine). */
typedef enum rp_cudagraph_mode {
    RP_CUDAGRAPH_NONE = 0,
    RP_CUDAGRAPH_PIECEWISE = 1,
    RP_CUDAGRAPH_FULL = 2,
    RP_CUDAGRAPH_FULL_DECODE_ONLY = 3,  /* (FULL, NONE) */
    RP_CUDAGRAPH_FULL_AND_PIECEWISE = 4 /* (FULL, PIECEWISE) */
} rp_cudagraph_mode;

/* How far the attention of a model may be captured; ordered. */
typedef enum rp_attention_support {
    RP_ATTENTION_NEVER = 0,
    RP_ATTENTION_UNIFORM_SINGLE_TOKEN_DECODE = 1,
    RP_ATTENTION_UNIFORM_BATCH = 2,
    RP_ATTENTION_ALWAYS = 3
} rp_attention_support;

/* ---- modes: pure functions, thread-safe ---- */

/* The mode is a pair: decode and mixed batches go different ways. */
RP_API bool rp_cudagraph_separate_routine(rp_cudagraph_mode mode);
/* First part of a pair, else the mode itself. */
RP_API rp_cudagraph_mode rp_cudagraph_decode_mode(rp_cudagraph_mode mode);
/* Second part of a pair, else the mode itself. */
RP_API rp_cudagraph_mode rp_cudagraph_mixed_mode(rp_cudagraph_mode mode);
/* Either part is `simple`, which must be NONE, PIECEWISE or FULL (false for anything else). */
RP_API bool rp_cudagraph_has_mode(rp_cudagraph_mode mode, rp_cudagraph_mode simple);
RP_API bool rp_cudagraph_requires_piecewise_compilation(rp_cudagraph_mode mode);
RP_API bool rp_cudagraph_has_full_cudagraphs(rp_cudagraph_mode mode);
/* The greater part: NONE < PIECEWISE < FULL. */
RP_API rp_cudagraph_mode rp_cudagraph_max_cudagraph_mode(rp_cudagraph_mode mode);
/* The modes that may appear in a step: writes NONE, PIECEWISE, FULL and returns 3. */
RP_API size_t rp_cudagraph_valid_runtime_modes(rp_cudagraph_mode out[3]);
/* "FULL_AND_PIECEWISE"; "unknown" for a value outside the enum. */
RP_API const char *rp_cudagraph_mode_name(rp_cudagraph_mode mode);
/* "PIECEWISE" for 3 and so on; "unknown" outside 0..3. */
RP_API const char *rp_level_name(rp_level level);

/* ---- the configuration ---- */

/* One thread at a time until it is resolved; then any number may read it. */
typedef struct rp_compilation_config rp_compilation_config;

/* All defaults: level 0. NULL when memory is exhausted. */
RP_API rp_compilation_config *rp_config_new(void);
RP_API void rp_config_free(rp_compilation_config *cfg); /* NULL is fine */
/* An unresolved copy of an unresolved configuration, a resolved one of a resolved one. */
RP_API rp_status rp_config_clone(const rp_compilation_config *cfg, rp_compilation_config **out,
                                 rp_error *err) RP_MUST_USE;

/* Sets every key of a JSON object; nested objects and dotted keys are equal, null takes a setting
 * back to "not given". RP_CONFIG names an unknown key with the nearest known one, or key, value and
 * what was expected; cfg is unchanged then. RP_INVALID once cfg is resolved. */
RP_API rp_status rp_config_set_json(rp_compilation_config *cfg, const char *json,
                                    rp_error *err) RP_MUST_USE;
/* "a.b=c"; a list is `[1,2,4]` or `1,2,4`; "key+=a,b" appends to a list. */
RP_API rp_status rp_config_set(rp_compilation_config *cfg, const char *assignment,
                               rp_error *err) RP_MUST_USE;
/* The same in two strings; a key that ends in '+' appends. Dashes in key equal underscores. */
RP_API rp_status rp_config_set_key(rp_compilation_config *cfg, const char *key, const char *value,
                                   rp_error *err) RP_MUST_USE;
/* The user gave this setting (by any of its names). False for an unknown one. */
RP_API bool rp_config_is_typed(const rp_compilation_config *cfg, const char *key);

/* -O0 .. -O3 as typed by the user; fills in only what is not typed. RP_CONFIG outside 0..3. */
RP_API rp_status rp_config_set_olevel(rp_compilation_config *cfg, int olevel,
                                      rp_error *err) RP_MUST_USE;
/* A program's default: ignored when a level, a mode or an -O was typed. */
RP_API rp_status rp_config_apply_default_olevel(rp_compilation_config *cfg, int olevel,
                                                rp_error *err) RP_MUST_USE;

/* What resolving needs to know about the model; zero means unknown. */
typedef struct rp_model_facts {
    size_t size; /* sizeof(rp_model_facts); may be an older, smaller one */
    int64_t num_layers;
    int64_t max_model_len; /* what the model was trained for */
    rp_attention_support attention;
    /* Ops beside attention that split where splitting_ops is not given; borrowed for the call. */
    const char *const *splitting_ops;
    size_t n_splitting_ops;
    /* (optional) Whether the graph has an op of this name, an entry of splitting_ops that was given; entries without one
     * are dropped with a note. */
    rp_status (*has_op)(void *user, const char *name, bool *out, rp_error *err);
    void *user;
    /* All names that `backend` takes above level 0; none: inductor and eager, as of models. Borrowed for the call. */
    const char *const *backends;
    size_t n_backends;
} rp_model_facts;
#define RP_MODEL_FACTS_INIT \
    { sizeof(rp_model_facts), 0, 0, RP_ATTENTION_ALWAYS, NULL, 0, NULL, NULL, NULL, 0 }

/* Applies the coupling rules, once; facts may be NULL. RP_CONFIG for what cannot work, with the
 * values; RP_UNSUPPORTED for a setting whose machinery does not exist. A second call is RP_OK and
 * changes nothing. cfg must be discarded after a failure. */
RP_API rp_status rp_config_resolve(rp_compilation_config *cfg, const rp_model_facts *facts,
                                   rp_error *err) RP_MUST_USE;
RP_API bool rp_config_is_resolved(const rp_compilation_config *cfg);

/* What was overridden, downgraded or skipped, in order; `skips` of `run --json`. */
typedef struct rp_config_note {
    const char *what, *reason;
} rp_config_note;
/* Borrowed until cfg changes. */
RP_API size_t rp_config_notes(const rp_compilation_config *cfg, const rp_config_note **out);

RP_API rp_level rp_config_level(const rp_compilation_config *cfg);
RP_API rp_cudagraph_mode rp_config_cudagraph_mode(const rp_compilation_config *cfg);
/* A bool (0, 1), integer or enum; RP_CONFIG for other kinds and unknown names, RP_NOT_FOUND when
 * the setting is optional and not given. */
RP_API rp_status rp_config_get_int(const rp_compilation_config *cfg, const char *key, int64_t *out,
                                   rp_error *err) RP_MUST_USE;
/* One setting as JSON text; free with rp_config_text_free. */
RP_API rp_status rp_config_get_json(const rp_compilation_config *cfg, const char *key, char **out,
                                    rp_error *err) RP_MUST_USE;

/* ---- texts: owned by the caller, freed with rp_config_text_free ---- */

RP_API void rp_config_text_free(char *text); /* NULL is fine */
/* Every setting in table order as one JSON object on one line. */
RP_API rp_status rp_config_to_json(const rp_compilation_config *cfg, char **out,
                                   rp_error *err) RP_MUST_USE;
/* What `reprise help config` and `reprise help env` print. */
RP_API rp_status rp_config_help_text(char **out, rp_error *err) RP_MUST_USE;
RP_API rp_status rp_env_help_text(char **out, rp_error *err) RP_MUST_USE;
/* The part of it about one setting, by its name or another one that is accepted; RP_CONFIG names the nearest. */
RP_API rp_status rp_config_help_of(const char *key, char **out, rp_error *err) RP_MUST_USE;
/* docs/config.md and docs/env.md. */
RP_API rp_status rp_config_doc_markdown(char **out, rp_error *err) RP_MUST_USE;
RP_API rp_status rp_env_doc_markdown(char **out, rp_error *err) RP_MUST_USE;

/* Looks at every environment variable of docs/env.md: RP_CONFIG names the first with a value that is not accepted. Logs
 * which are set by a name of vLLM. */
RP_API rp_status rp_env_check(rp_error *err) RP_MUST_USE;

typedef enum rp_key_scope {
    RP_KEY_OUTER, /* finds a plan: every setting that reaches a compile */
    RP_KEY_PIECE  /* the ones that reach the code of one piece */
} rp_key_scope;
/* Canonical text of the key settings, one `name=value` a line in table order. */
RP_API rp_status rp_config_key_pieces(const rp_compilation_config *cfg, rp_key_scope scope,
                                      char **out, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
