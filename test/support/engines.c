/* See engines.h. */
#include "support/engines.h"

#include <jansson.h>

#include "support/check.h"

rp_engine *engine_with(const char *model, const char *const *settings, rp_error *err) {
    rp_engine *e = NULL;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = model;
    o.config = rp_config_new();
    if (!o.config) {
        *err = (rp_error){.code = RP_NOMEM, .text = "no memory for a configuration"};
        return NULL;
    }
    /* One thread unless the test says otherwise: several tests run at a time. */
    if (rp_config_set(o.config, "threads=1", err) != RP_OK) {
        rp_config_free(o.config);
        return NULL;
    }
    for (size_t i = 0; settings && settings[i]; i++)
        if (rp_config_set(o.config, settings[i], err) != RP_OK) {
            rp_config_free(o.config);
            return NULL;
        }
    if (rp_config_apply_default_olevel(o.config, 2, err) != RP_OK) {
        rp_config_free(o.config);
        return NULL;
    }
    return rp_engine_open(&o, &e, err) == RP_OK ? e : NULL;
}

rp_engine *engine_must(const char *model, const char *const *settings) {
    rp_error err = {0};
    rp_engine *e = engine_with(model, settings, &err);
    if (!e) fail_msg("%s: %s", model, err.text);
    return e;
}

uint32_t engine_greedy(rp_engine *e, const int32_t *prompt, uint32_t n_prompt, uint32_t n,
                       int32_t *out) {
    rp_error err = {0};
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    rp_result res = RP_RESULT_INIT;
    uint64_t id;
    bool more = true;
    r.prompt_ids = prompt;
    r.n_prompt_ids = n_prompt;
    r.max_tokens = n;
    r.ignore_eos = true;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    CHECK_OK(rp_engine_result(e, id, &res, &err), &err);
    uint32_t got = res.n_output_ids < n ? res.n_output_ids : n;
    memcpy(out, res.output_ids, got * sizeof *out);
    rp_engine_release(e, id);
    return got;
}

static json_t *summary(rp_engine *e) {
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    json_t *j = json_loads(text, 0, NULL);
    rp_engine_text_free(text);
    assert_non_null(j);
    return j;
}

long long engine_count(rp_engine *e, const char *path) {
    json_t *root = summary(e), *at = root;
    char name[64];
    while (*path) {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        at = json_object_get(at, name);
        if (!at) fail_msg("the summary has no %s", path);
        path += n + (path[n] == '.');
    }
    long long v = json_integer_value(at);
    json_decref(root);
    return v;
}

double engine_number(rp_engine *e, const char *name) {
    json_t *root = summary(e), *at = json_object_get(root, name);
    if (!json_is_number(at)) fail_msg("the summary has no number %s", name);
    double v = json_number_value(at);
    json_decref(root);
    return v;
}

const char *engine_text(rp_engine *e, const char *name) {
    static char out[256];
    json_t *root = summary(e);
    snprintf(out, sizeof out, "%s", json_string_value(json_object_get(root, name)));
    json_decref(root);
    return out;
}
