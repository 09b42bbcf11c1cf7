/* A configuration as an object: made, copied, freed, read; and its notes.
 *
 * Every string and list in it is owned by it. Reading never allocates except for texts that the
 * caller asked for. Setting is in set.c, coupling in resolve.c. */
#include "config/config.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "config/table.h"

rp_compilation_config *rp_config_new(void) {
    rp_compilation_config *cfg = base_alloc(sizeof *cfg);
    if (!cfg) return NULL;
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        if (config_value_reset(&config_table[i], config_slot(cfg, i), NULL) == RP_OK) continue;
        rp_config_free(cfg);
        return NULL;
    }
    return cfg;
}

void rp_config_free(rp_compilation_config *cfg) {
    if (!cfg) return;
    for (int i = 0; i < CONFIG_ID_COUNT_; i++)
        config_value_done(&config_table[i], config_slot(cfg, i));
    for (size_t i = 0; i < cfg->n_notes; i++) {
        base_free((char *)cfg->notes[i].what);
        base_free((char *)cfg->notes[i].reason);
    }
    base_free(cfg->notes);
    base_free(cfg);
}

static rp_status note_append(rp_compilation_config *cfg, char *what, const char *reason,
                             rp_error *err) {
    char *copy = base_strdup(reason);
    rp_config_note *grown =
        what && copy ? base_realloc_array(cfg->notes, cfg->n_notes + 1, sizeof *grown) : NULL;
    if (!grown) {
        base_free(what);
        base_free(copy);
        return rp_fail(err, RP_NOMEM, "no memory for a configuration note");
    }
    cfg->notes = grown;
    cfg->notes[cfg->n_notes++] = (rp_config_note){what, copy};
    return RP_OK;
}

rp_status config_note_add(rp_compilation_config *cfg, const char *reason, rp_error *err,
                          const char *what, ...) {
    base_buf text;
    va_list ap;
    base_buf_init(&text, 0);
    va_start(ap, what);
    base_buf_vprintf(&text, what, ap);
    va_end(ap);
    char *z = base_buf_take(&text);
    base_buf_done(&text);
    return note_append(cfg, z, reason, err);
}

size_t rp_config_notes(const rp_compilation_config *cfg, const rp_config_note **out) {
    if (out) *out = cfg ? cfg->notes : NULL;
    return cfg ? cfg->n_notes : 0;
}

rp_status rp_config_clone(const rp_compilation_config *cfg, rp_compilation_config **out,
                          rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    rp_compilation_config *copy = NULL;
    json_t *value = NULL;
    if (!cfg || !out) return rp_fail(err, RP_INVALID, "rp_config_clone: cfg and out must be given");
    copy = rp_config_new();
    if (!copy) return rp_fail(err, RP_NOMEM, "no memory for a configuration");
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        value = config_value_json(&config_table[i], config_slot_const(cfg, i));
        if (!value) {
            st = rp_fail(err, RP_NOMEM, "no memory for a configuration");
            goto out;
        }
        RP_TRY_OUT(config_value_set(&config_table[i], config_slot(copy, i), value, err));
        json_decref(value);
        value = NULL;
        copy->typed[i] = cfg->typed[i];
    }
    for (size_t i = 0; i < cfg->n_notes; i++)
        RP_TRY_OUT(config_note_add(copy, cfg->notes[i].reason, err, "%s", cfg->notes[i].what));
    copy->resolved = cfg->resolved;
    copy->told = cfg->told;
    *out = copy;
    copy = NULL;
out:
    json_decref(value);
    rp_config_free(copy);
    return st;
}

/* Index of a field by name or alias; RP_CONFIG names the nearest. */
static rp_status look_up(const rp_compilation_config *cfg, const char *key, int *out,
                         rp_error *err) {
    if (!cfg || !key) return rp_fail(err, RP_INVALID, "configuration and key must be given");
    int id = config_find(key);
    for (size_t i = 0; id < 0 && i < config_n_aliases; i++)
        if (strcmp(config_aliases[i].name, key) == 0) id = config_find(config_aliases[i].target);
    if (id < 0) {
        const char *near = config_nearest(key);
        char shown[CONFIG_SHOWN];
        return rp_fail(err, RP_CONFIG, "unknown setting %s%s%s", config_shown(key, shown),
                       near ? "; did you mean " : "", near ? near : "");
    }
    *out = id;
    return RP_OK;
}

bool rp_config_is_typed(const rp_compilation_config *cfg, const char *key) {
    int id;
    return look_up(cfg, key, &id, NULL) == RP_OK && cfg->typed[id] != NULL;
}

bool rp_config_is_resolved(const rp_compilation_config *cfg) {
    return cfg && cfg->resolved;
}

rp_level rp_config_level(const rp_compilation_config *cfg) {
    return cfg ? (rp_level)cfg->level : RP_LEVEL_NO_COMPILATION;
}

rp_cudagraph_mode rp_config_cudagraph_mode(const rp_compilation_config *cfg) {
    return cfg && cfg->cudagraph_mode.set ? (rp_cudagraph_mode)cfg->cudagraph_mode.v
                                          : RP_CUDAGRAPH_NONE;
}

rp_status rp_config_get_int(const rp_compilation_config *cfg, const char *key, int64_t *out,
                            rp_error *err) {
    base_error_clear(err);
    int id;
    if (!out) return rp_fail(err, RP_INVALID, "rp_config_get_int: out must be given");
    RP_TRY(look_up(cfg, key, &id, err));
    const config_field *f = &config_table[id];
    const void *slot = config_slot_const(cfg, id);
    bool set = true;
    int64_t v = 0;
    switch (f->kind) {
    case CONFIG_KIND_BOOL: v = *(const bool *)slot; break;
    case CONFIG_KIND_OBOOL:
        set = ((const config_obool *)slot)->set;
        v = ((const config_obool *)slot)->v;
        break;
    case CONFIG_KIND_INT: v = *(const int64_t *)slot; break;
    case CONFIG_KIND_OINT:
        set = ((const config_oint *)slot)->set;
        v = ((const config_oint *)slot)->v;
        break;
    case CONFIG_KIND_ENUM: v = *(const int *)slot; break;
    case CONFIG_KIND_OENUM:
        set = ((const config_oenum *)slot)->set;
        v = ((const config_oenum *)slot)->v;
        break;
    default: return rp_fail(err, RP_CONFIG, "%s is not an integer; read it as JSON", f->name);
    }
    if (!set) return rp_fail(err, RP_NOT_FOUND, "%s is not given", f->name);
    *out = v;
    return RP_OK;
}

rp_status rp_config_get_json(const rp_compilation_config *cfg, const char *key, char **out,
                             rp_error *err) {
    base_error_clear(err);
    int id;
    if (!out) return rp_fail(err, RP_INVALID, "rp_config_get_json: out must be given");
    RP_TRY(look_up(cfg, key, &id, err));
    char *text = config_value_text(&config_table[id], config_slot_const(cfg, id));
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of %s", key);
    *out = text;
    return RP_OK;
}
