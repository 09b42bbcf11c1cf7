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

const int32_t plain_prompt[5] = {10, 20, 30, 40, 50};

rp_request_options plain_request(uint32_t n) {
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    r.prompt_ids = plain_prompt;
    r.n_prompt_ids = 5;
    r.max_tokens = n;
    r.ignore_eos = true;
    return r;
}

uint64_t must_submit(rp_engine *e, const rp_request_options *r) {
    rp_error err = {0};
    uint64_t id = 0;
    CHECK_OK(rp_engine_submit(e, r, &id, &err), &err);
    return id;
}

void must_run(rp_engine *e, int steps) {
    rp_error err = {0};
    bool more = true;
    for (int i = 0; more && (steps < 0 || i < steps); i++)
        CHECK_OK(rp_engine_step(e, &more, &err), &err);
}

rp_result must_result(const rp_engine *e, uint64_t id) {
    rp_error err = {0};
    rp_result r = RP_RESULT_INIT;
    CHECK_OK(rp_engine_result(e, id, &r, &err), &err);
    return r;
}

double must_score(rp_engine *e, const int32_t *ids, uint32_t n_prompt, uint32_t n,
                  rp_score_options how) {
    rp_error err = {0};
    double perplexity = 0;
    how.prompt_ids = ids;
    how.n_prompt_ids = n_prompt;
    how.continuation_ids = ids + n_prompt;
    how.n_continuation_ids = n - n_prompt;
    CHECK_OK(rp_engine_score(e, &how, &perplexity, &err), &err);
    return perplexity;
}

uint32_t engine_greedy(rp_engine *e, const int32_t *prompt, uint32_t n_prompt, uint32_t n,
                       int32_t *out) {
    rp_request_options r = plain_request(n);
    r.prompt_ids = prompt;
    r.n_prompt_ids = n_prompt;
    uint64_t id = must_submit(e, &r);
    must_run(e, -1);
    rp_result res = must_result(e, id);
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
