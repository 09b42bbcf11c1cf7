/* What the user types: JSON objects, dotted assignments and -O levels.
 *
 * A call either applies as a whole or changes nothing. Each field remembers the name by which it was
 * given, so that two names of one field cannot contradict each other unseen. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "config/table.h"

enum { KEY_MAX = 128 };

static const char outer[] = "compilation_config";

static char plain(char c) {
    return c == '-' ? '_' : c;
}

/* Length of "compilation_config." where key begins so, in either spelling. */
static size_t outer_size(const char *key) {
    size_t n = 0;
    while (outer[n] && plain(key[n]) == outer[n]) n++;
    return !outer[n] && key[n] == '.' ? n + 1 : 0;
}

/* Dashes as underscores, no outer prefix, nothing that would break an error line. */
static rp_status normal_key(const char *key, char out[KEY_MAX], rp_error *err) {
    size_t n = 0;
    key += outer_size(key);
    for (; key[n] && n + 1 < KEY_MAX; n++) {
        const unsigned char c = (unsigned char)key[n];
        out[n] = c < 0x21 || c > 0x7e ? '?' : plain(key[n]);
    }
    out[n] = '\0';
    if (key[n])
        return rp_fail(err, RP_CONFIG, "unknown setting %.64s...: no name is that long", out);
    if (!n) return rp_fail(err, RP_CONFIG, "a setting has no name; write key=value");
    return RP_OK;
}

static rp_status unknown(const char *key, rp_error *err) {
    for (size_t i = 0; i < config_n_readonly; i++)
        if (strcmp(config_readonly[i].name, key) == 0)
            return rp_fail(err, RP_CONFIG, "%s cannot be set: %s", key, config_readonly[i].target);
    const char *near = config_nearest(key);
    if (near)
        return rp_fail(err, RP_CONFIG,
                       "unknown setting %s; did you mean %s? 'reprise help config' lists all", key,
                       near);
    return rp_fail(err, RP_CONFIG, "unknown setting %s; 'reprise help config' lists all", key);
}

/* Sets field id, reached under `name` (its own or an alias: a static string). */
static rp_status set_field(rp_compilation_config *cfg, int id, const char *name,
                           const json_t *value, rp_error *err) {
    const config_field *f = &config_table[id];
    void *slot = config_slot(cfg, id);
    if (f->status == CONFIG_DERIVED)
        return rp_fail(err, RP_CONFIG, "%s is computed; set %s", f->name, f->status_reason);
    if (json_is_null(value)) {
        cfg->typed[id] = NULL;
        return config_value_reset(f, slot, err);
    }
    const char *before = cfg->typed[id];
    char *old = before && before != name ? config_value_text(f, slot) : NULL;
    rp_status st = config_value_set(f, slot, value, err);
    if (st == RP_OK && old) {
        char *now = config_value_text(f, slot);
        if (now && strcmp(old, now) != 0)
            st = rp_fail(err, RP_CONFIG,
                         "%s=%s contradicts %s=%s: two names of one setting; give one of them",
                         name, now, before, old);
        base_free(now);
    }
    base_free(old);
    if (st == RP_OK) cfg->typed[id] = name;
    return st;
}

/* Calls set_field for a field name or for every target of an alias. *found: some field matched. */
static rp_status set_named(rp_compilation_config *cfg, const char *key, const json_t *value,
                           bool *found, rp_error *err) {
    int id = config_find(key);
    *found = id >= 0;
    if (id >= 0) return set_field(cfg, id, config_table[id].name, value, err);
    const char *name = NULL; /* one pointer for all lines of one alias */
    for (size_t i = 0; i < config_n_aliases; i++) {
        if (strcmp(config_aliases[i].name, key) != 0) continue;
        if (!name) name = config_aliases[i].name;
        *found = true;
        RP_TRY(set_field(cfg, config_find(config_aliases[i].target), name, value, err));
    }
    return RP_OK;
}

/* The DICT field that `key` reaches into ("inductor_compile_config.max_autotune"): its id, and the
 * inner name in *inner; -1 for none. */
static int find_dict(const char *key, const char **inner) {
    for (int i = 0; i < CONFIG_ID_COUNT_; i++) {
        size_t n = strlen(config_table[i].name);
        if (config_table[i].kind != CONFIG_KIND_DICT) continue;
        if (strncmp(key, config_table[i].name, n) != 0 || key[n] != '.' || !key[n + 1]) continue;
        *inner = key + n + 1;
        return i;
    }
    return -1;
}

static rp_status set_dict_item(rp_compilation_config *cfg, int id, const char *inner,
                               const json_t *value, rp_error *err) {
    json_t *all = config_value_json(&config_table[id], config_slot(cfg, id));
    rp_status st;
    if (!all || json_object_set(all, inner, (json_t *)value) != 0)
        st = rp_fail(err, RP_NOMEM, "no memory for %s.%s", config_table[id].name, inner);
    else
        st = set_field(cfg, id, config_table[id].name, all, err);
    json_decref(all);
    return st;
}

static rp_status set_json_key(rp_compilation_config *cfg, const char *prefix, const char *key,
                              const json_t *value, rp_error *err);

static rp_status set_json_object(rp_compilation_config *cfg, const char *prefix,
                                 const json_t *object, rp_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
        RP_TRY(set_json_key(cfg, prefix, key, value, err));
    return RP_OK;
}

static bool is_group(const char *key) {
    size_t n = strlen(key);
    for (int i = 0; i < CONFIG_ID_COUNT_; i++)
        if (strncmp(config_table[i].name, key, n) == 0 && config_table[i].name[n] == '.')
            return true;
    return false;
}

static rp_status set_json_key(rp_compilation_config *cfg, const char *prefix, const char *key,
                              const json_t *value, rp_error *err) {
    char joined[2 * KEY_MAX], name[KEY_MAX];
    const char *inner;
    bool found;
    int n = snprintf(joined, sizeof joined, "%s%s%s", prefix, *prefix ? "." : "", key);
    if (n < 0 || (size_t)n >= sizeof joined)
        return rp_fail(err, RP_CONFIG, "unknown setting: a name of %zu characters", strlen(key));
    RP_TRY(normal_key(joined, name, err));
    if (json_is_object(value)) {
        if (!*prefix && strcmp(name, outer) == 0) return set_json_object(cfg, "", value, err);
        if (is_group(name)) return set_json_object(cfg, name, value, err);
    }
    RP_TRY(set_named(cfg, name, value, &found, err));
    if (found) return RP_OK;
    int dict = find_dict(name, &inner);
    if (dict >= 0) return set_dict_item(cfg, dict, inner, value, err);
    if (is_group(name))
        return rp_fail(err, RP_CONFIG, "%s: expected an object or %s.key=value", name, name);
    return unknown(name, err);
}

static void swap_content(rp_compilation_config *a, rp_compilation_config *b) {
    rp_compilation_config t = *a;
    *a = *b;
    *b = t;
}

static rp_status check_open(const rp_compilation_config *cfg, rp_error *err) {
    if (!cfg) return rp_fail(err, RP_INVALID, "configuration must be given");
    if (cfg->resolved)
        return rp_fail(err, RP_INVALID,
                       "the configuration is resolved and cannot change; start from a new one");
    return RP_OK;
}

rp_status rp_config_set_json(rp_compilation_config *cfg, const char *json, rp_error *err) {
    base_error_clear(err);
    rp_status st;
    json_error_t where;
    rp_compilation_config *trial = NULL;
    RP_TRY(check_open(cfg, err));
    if (!json) return rp_fail(err, RP_INVALID, "rp_config_set_json: json must be given");
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return rp_fail(err, RP_CONFIG,
                       "configuration is not JSON: %s at line %d column %d; write {\"level\":3}",
                       where.text, where.line, where.column);
    if (!json_is_object(root)) {
        st = rp_fail(err, RP_CONFIG, "configuration must be a JSON object, as in {\"level\":3}");
        goto out;
    }
    RP_TRY_OUT(rp_config_clone(cfg, &trial, err));
    RP_TRY_OUT(set_json_object(trial, "", root, err));
    swap_content(cfg, trial);
out:
    json_decref(root);
    rp_config_free(trial);
    return st;
}

/* The list that `key` (field or alias) has now, extended by what `value` holds. */
static rp_status appended(const rp_compilation_config *cfg, const config_field *f, int id,
                          const char *value, json_t **out, rp_error *err) {
    rp_status st = RP_OK;
    json_t *more = NULL, *list = NULL;
    char shown[CONFIG_SHOWN];
    if (f->kind != CONFIG_KIND_INTS && f->kind != CONFIG_KIND_SIZES && f->kind != CONFIG_KIND_STRS)
        return rp_fail(err, RP_CONFIG, "%s+=%s: only a list can be appended to; use %s=", f->name,
                       config_shown(value, shown), f->name);
    RP_TRY(config_value_parse(f, value, &more, err));
    list = config_value_json(f, config_slot_const(cfg, id));
    if (list && !json_is_array(list)) { /* not given yet, or a bare word */
        json_t *wrapped = json_array();
        if (!json_is_null(list) && json_array_append(wrapped, list) != 0) {
            json_decref(wrapped);
            wrapped = NULL;
        }
        json_decref(list);
        list = wrapped;
    }
    int bad = !list ||
              (json_is_array(more) ? json_array_extend(list, more) : json_array_append(list, more));
    if (bad) {
        st = rp_fail(err, RP_NOMEM, "no memory to append to %s", f->name);
        goto out;
    }
    *out = list;
    list = NULL;
out:
    json_decref(list);
    json_decref(more);
    return st;
}

/* The first field that a name stands for; -1 for none. */
static int first_target(const char *key) {
    int id = config_find(key);
    for (size_t i = 0; id < 0 && i < config_n_aliases; i++)
        if (strcmp(config_aliases[i].name, key) == 0) id = config_find(config_aliases[i].target);
    return id;
}

/* The word takes a setting back, as null of JSON does, but where it may be a value: device=null is the device. */
static rp_status parsed_text(const config_field *f, const char *value, json_t **out,
                             rp_error *err) {
    if (strcmp(value, "null") != 0 || f->kind == CONFIG_KIND_STR)
        return config_value_parse(f, value, out, err);
    *out = json_null();
    return RP_OK;
}

/* An item of a dict: JSON where it parses, else text. */
static json_t *loose_json(const char *value) {
    json_t *v = json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    return v ? v : json_string(value);
}

rp_status rp_config_set_key(rp_compilation_config *cfg, const char *key, const char *value,
                            rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    rp_compilation_config *trial = NULL;
    json_t *parsed = NULL;
    const char *inner = NULL;
    char name[KEY_MAX];
    bool found, append = false;
    RP_TRY(check_open(cfg, err));
    if (!key || !value) return rp_fail(err, RP_INVALID, "rp_config_set_key: key and value needed");
    RP_TRY(normal_key(key, name, err));
    size_t n = strlen(name);
    if (n > 1 && name[n - 1] == '+') {
        name[n - 1] = '\0';
        append = true;
    }
    int id = first_target(name), dict = find_dict(name, &inner);
    bool group = id < 0 && dict < 0 && is_group(name);
    if (id < 0 && dict < 0 && !group) return unknown(name, err);
    if (id < 0) {
        parsed = loose_json(value);
        if (!parsed) return rp_fail(err, RP_CONFIG, "%s: its value is not valid UTF-8", name);
    } else if (append)
        RP_TRY(appended(cfg, &config_table[id], id, value, &parsed, err));
    else
        RP_TRY(parsed_text(&config_table[id], value, &parsed, err));
    RP_TRY_OUT(rp_config_clone(cfg, &trial, err));
    if (group)
        RP_TRY_OUT(set_json_key(trial, "", name, parsed, err));
    else if (id < 0)
        RP_TRY_OUT(set_dict_item(trial, dict, inner, parsed, err));
    else
        RP_TRY_OUT(set_named(trial, name, parsed, &found, err));
    swap_content(cfg, trial);
out:
    json_decref(parsed);
    rp_config_free(trial);
    return st;
}

rp_status rp_config_set(rp_compilation_config *cfg, const char *assignment, rp_error *err) {
    base_error_clear(err);
    char key[KEY_MAX + 2], shown[CONFIG_SHOWN];
    if (!assignment) return rp_fail(err, RP_INVALID, "rp_config_set: assignment must be given");
    const char *eq = strchr(assignment, '=');
    if (!eq)
        return rp_fail(err, RP_CONFIG, "%s is no assignment; write key=value",
                       config_shown(assignment, shown));
    size_t n = (size_t)(eq - assignment);
    if (n >= sizeof key)
        return rp_fail(err, RP_CONFIG, "unknown setting %s: no name is that long",
                       config_shown(assignment, shown));
    memcpy(key, assignment, n);
    key[n] = '\0';
    return rp_config_set_key(cfg, key, eq + 1, err);
}

rp_status rp_config_set_olevel(rp_compilation_config *cfg, int olevel, rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_open(cfg, err));
    if (olevel < 0 || olevel > 3)
        return rp_fail(err, RP_CONFIG, "-O%d: there are -O0, -O1, -O2 and -O3", olevel);
    cfg->optimization_level = (config_oint){true, olevel};
    cfg->typed[CONFIG_ID_optimization_level] = config_table[CONFIG_ID_optimization_level].name;
    return RP_OK;
}

rp_status rp_config_apply_default_olevel(rp_compilation_config *cfg, int olevel, rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_open(cfg, err));
    if (olevel < 0 || olevel > 3)
        return rp_fail(err, RP_CONFIG, "-O%d: there are -O0, -O1, -O2 and -O3", olevel);
    if (!cfg->typed[CONFIG_ID_optimization_level] && !cfg->typed[CONFIG_ID_level])
        cfg->optimization_level = (config_oint){true, olevel};
    return RP_OK;
}
