/* A configuration as text: JSON for people and programs, canonical lines for cache keys.
 *
 * Both go through the table in its order, so equal configurations give equal bytes. No path, host
 * name or time is in a key: fields.def says why for each setting that is left out. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "config/table.h"

void rp_config_text_free(char *text) {
    base_free(text);
}

/* Takes value; "a.b" goes into the object under "a". False when memory is exhausted. */
static bool put(json_t *root, const char *name, json_t *value) {
    char group[64];
    const char *dot = strchr(name, '.');
    if (!value) return false;
    if (!dot) return json_object_set_new(root, name, value) == 0;
    size_t n = (size_t)(dot - name);
    if (n >= sizeof group) n = sizeof group - 1;
    memcpy(group, name, n);
    group[n] = '\0';
    json_t *object = json_object_get(root, group);
    if (!object) {
        if (json_object_set_new(root, group, json_object()) != 0) {
            json_decref(value);
            return false;
        }
        object = json_object_get(root, group);
    }
    return json_object_set_new(object, dot + 1, value) == 0;
}

rp_status rp_config_to_json(const rp_compilation_config *cfg, char **out, rp_error *err) {
    base_error_clear(err);
    char *text = NULL;
    if (!cfg || !out) return rp_fail(err, RP_INVALID, "rp_config_to_json: cfg and out needed");
    json_t *root = json_object();
    bool ok = root != NULL;
    for (int i = 0; ok && i < CONFIG_ID_COUNT_; i++) {
        const config_field *f = &config_table[i];
        const void *slot = config_slot_const(cfg, i);
        /* a path that came from the environment is text of any bytes */
        ok = put(root, f->name,
                 f->kind == CONFIG_KIND_STR ? config_text_json(*(char *const *)slot)
                                            : config_value_json(f, slot));
    }
    if (ok) text = config_json_dump(root, 0);
    json_decref(root);
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of a configuration");
    *out = text;
    return RP_OK;
}

rp_status config_key_each(const rp_compilation_config *cfg, rp_key_scope scope, config_key_fn fn,
                          void *user, rp_error *err) {
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        const config_field *f = &config_table[i];
        if (f->key == CONFIG_KEY_NONE) continue;
        if (scope == RP_KEY_PIECE && f->key != CONFIG_KEY_PIECE) continue;
        char *text = config_value_text(f, config_slot_const(cfg, i));
        if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of %s", f->name);
        rp_status st = fn(user, f->name, text, err);
        base_free(text);
        RP_TRY(st);
    }
    return RP_OK;
}

static rp_status add_line(void *user, const char *name, const char *value, rp_error *err) {
    base_buf *b = user;
    base_buf_printf(b, "%s=%s\n", name, value);
    return base_buf_status(b, err);
}

rp_status rp_config_key_pieces(const rp_compilation_config *cfg, rp_key_scope scope, char **out,
                               rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    base_buf b;
    if (!cfg || !out) return rp_fail(err, RP_INVALID, "rp_config_key_pieces: cfg and out needed");
    base_buf_init(&b, 0);
    RP_TRY_OUT(config_key_each(cfg, scope, add_line, &b, err));
    char *text = base_buf_take(&b);
    if (!text)
        st = rp_fail(err, RP_NOMEM, "no memory for the text of a key");
    else
        *out = text;
out:
    base_buf_done(&b);
    return st;
}
