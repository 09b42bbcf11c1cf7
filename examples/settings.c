/* One model under the settings that guides to ATOM and vLLM show: what each of them resolves to, which device graphs serve the batches,
 * and that the text stays the same. settings [MODEL] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reprise/reprise.h>

enum { PROMPTS = 2, TOKENS = 8 };

static int32_t first[PROMPTS][TOKENS];

static const char *const settings[] = {
    "{\"level\": 0}",
    "{\"enforce_eager\": true}",
    "{\"level\": 1}",
    "{\"level\": 2}",
    "{\"level\": 3}",
    "{\"level\": 3, \"cudagraph_mode\": \"FULL\"}",
    "{\"level\": 3, \"cudagraph_mode\": \"FULL_DECODE_ONLY\"}",
    "{\"level\": 3, \"cudagraph_mode\": \"FULL_AND_PIECEWISE\"}",
    "{\"level\": 3, \"cudagraph_capture_sizes\": [1, 2, 4, 8]}",
    "{\"level\": 3, \"splitting_ops\": [\"aiter.unified_attention_with_output\"]}",
    "{\"level\": 3, \"use_cudagraph\": false}",
    "{\"level\": 3, \"use_inductor\": false}",
    "{\"level\": 3, \"compile_sizes\": [1, 2, 4, 8],"
    " \"inductor_compile_config\": {\"max_autotune\": false, \"coordinate_descent_tuning\": "
    "false}}",
    "{\"level\": 3, \"dynamic_shapes_config\": {\"type\": \"unbacked\"}}",
    "{\"level\": 3, \"dynamic_shapes_config\": {\"type\": \"backed_size_oblivious\"}}",
    "{\"compile_mm_encoder\": true, \"vit_cudagraph_capture_sizes\": [512, 1024]}",
    "{\"level\": 3, \"cudagraph_mod\": \"FULL\"}",
};

/* What the engine made of the setting of that name; a long list is cut. */
static void print_setting(const rp_engine *e, const char *name) {
    rp_error err = {0};
    char *text = NULL;
    if (rp_config_get_json(rp_engine_config(e), name, &text, &err) != RP_OK) return;
    printf("  %s %.*s%s\n", name, 44, text, strlen(text) > 44 ? "..." : "");
    rp_config_text_free(text);
}

/* "captures": 12 of the summary. */
static long count_of(const char *summary, const char *name) {
    char key[40];
    (void)snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(summary, key);
    return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

/* Writes a few tokens for both prompts in one batch, and compares with those of the first settings. */
static rp_status generate(rp_engine *e, bool *same, rp_error *err) {
    static const char *const prompt[PROMPTS] = {"Hello, my name is", "The future of AI is"};
    static bool known;
    uint64_t id[PROMPTS] = {0};
    bool more = true;
    rp_status st = RP_OK;
    for (int i = 0; st == RP_OK && i < PROMPTS; i++) {
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        r.prompt = prompt[i];
        r.sampling = (rp_sampling){.temperature = 0.8, .top_p = 0.95, .seed = 7};
        r.max_tokens = TOKENS;
        r.ignore_eos = true;
        st = rp_engine_submit(e, &r, &id[i], err);
    }
    while (st == RP_OK && more) st = rp_engine_step(e, &more, err);
    for (int i = 0; st == RP_OK && i < PROMPTS; i++) {
        rp_result r = RP_RESULT_INIT;
        st = rp_engine_result(e, id[i], &r, err);
        if (st != RP_OK) break;
        if (!known) memcpy(first[i], r.output_ids, sizeof first[i]);
        if (memcmp(first[i], r.output_ids, sizeof first[i]) != 0) *same = false;
        rp_engine_release(e, id[i]);
    }
    known = true;
    return st;
}

static rp_status try(const char *model, const char *json, bool *same, rp_error *err) {
    static const char *const shown[] = {"splitting_ops", "cuda_graph_sizes", "graph_bs",
                                        "decode_capture_sizes", "mixed_capture_sizes"};
    rp_engine *e = NULL;
    char *summary = NULL;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = model;
    o.config = rp_config_new();
    printf("%s\n", json);
    rp_status st = o.config ? rp_config_set_json(o.config, json, err) : RP_NOMEM;
    if (st == RP_OK)
        st = rp_engine_open(&o, &e, err);
    else
        rp_config_free(o.config);
    if (st == RP_OK) st = generate(e, same, err);
    if (st == RP_OK) st = rp_engine_summary(e, &summary, err);
    if (st == RP_OK) {
        const rp_compilation_config *c = rp_engine_config(e);
        printf("  level %d %s, cudagraph_mode %s: %ld captures, %ld replays, %ld eager steps\n",
               (int)rp_config_level(c), rp_level_name(rp_config_level(c)),
               rp_cudagraph_mode_name(rp_config_cudagraph_mode(c)), count_of(summary, "captures"),
               count_of(summary, "replays"), count_of(summary, "eager_steps"));
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
            if (rp_config_level(c) == RP_LEVEL_PIECEWISE) print_setting(e, shown[i]);
    }
    rp_engine_text_free(summary);
    rp_engine_close(e);
    return st;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "synthetic:tiny";
    rp_error err = {0};
    rp_status st = RP_OK;
    bool same = true;
    rp_log_set_callback(NULL, NULL);
    for (size_t i = 0; st == RP_OK && i < sizeof settings / sizeof *settings; i++) {
        st = try(model, settings[i], &same, &err);
        /* A setting is done, or it is refused with the reason. */
        if (st == RP_UNSUPPORTED || st == RP_CONFIG) {
            printf("  refused: %s\n", err.text);
            st = RP_OK;
        }
    }
    if (st == RP_OK) printf("%s\n", same ? "the same tokens everywhere" : "other tokens");
    if (st != RP_OK) fprintf(stderr, "settings: %s\n", err.text);
    return st == RP_OK && !same ? 1 : rp_status_exit_code(st);
}
