/* Objects of switches: {"name": true, "other": false}. */
#include "config/table.h"

#include "base/alloc.h"

static rp_status not_a_switch(const char *field, const char *name, const json_t *value,
                              rp_error *err) {
    char shown[CONFIG_SHOWN];
    char *text = config_json_text(value);
    rp_status st = rp_fail(err, RP_CONFIG, "%s.%.60s=%s: expected true or false", field, name,
                           text ? config_shown(text, shown) : "?");
    base_free(text);
    return st;
}

rp_status config_each_switch(const char *field, const char *dict, config_switch_fn fn, void *user,
                             rp_error *err) {
    const char *name;
    json_t *value;
    rp_status st = RP_OK;
    json_t *all = json_loads(dict, 0, NULL);
    if (!all) return rp_fail(err, RP_NOMEM, "no memory for %s", field);
    json_object_foreach(all, name, value) {
        st = json_is_boolean(value) ? fn(user, name, json_is_true(value), err)
                                    : not_a_switch(field, name, value, err);
        if (st != RP_OK) break;
    }
    json_decref(all);
    return st;
}
