/* Serves several prompts in one batch and prints each text as it comes: generate [MODEL [PROMPT...]] */
#include <stdio.h>
#include <string.h>

#include <reprise/reprise.h>

enum { MAX_PROMPTS = 16 };

static void print_log(void *user, rp_log_level level, const char *text) {
    (void)user, (void)level;
    fprintf(stderr, "%s\n", text);
}

static rp_status submit_all(rp_engine *e, const char *const *prompts, uint32_t n, uint64_t *ids,
                            rp_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        r.prompt = prompts[i];
        r.max_tokens = 24;
        rp_status st = rp_engine_submit(e, &r, &ids[i], err);
        if (st != RP_OK) return st;
    }
    return RP_OK;
}

static rp_status generate(rp_engine *e, const char *const *prompts, uint32_t n, rp_error *err) {
    uint64_t ids[MAX_PROMPTS];
    bool more = true;
    rp_status st = submit_all(e, prompts, n, ids, err);
    while (st == RP_OK && more) st = rp_engine_step(e, &more, err);
    for (uint32_t i = 0; st == RP_OK && i < n; i++) {
        rp_result r = RP_RESULT_INIT;
        st = rp_engine_result(e, ids[i], &r, err);
        if (st != RP_OK) break;
        printf("%s: %u tokens, %s\n", prompts[i], r.n_output_ids, r.finish_reason);
        printf("%s\n", r.text);
        rp_engine_release(e, ids[i]);
    }
    return st;
}

int main(int argc, char **argv) {
    static const char *const some[] = {"The sea", "One two three", "a"};
    const char *const *prompts = argc > 2 ? (const char *const *)(argv + 2) : some;
    uint32_t n = argc > 2 ? (uint32_t)argc - 2 : 3;
    rp_error err = {0};
    rp_engine *e = NULL;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_log_set_callback(print_log, NULL);
    rp_log_set_level(RP_LOG_WARNING);
    o.model = argc > 1 ? argv[1] : "synthetic:tiny";
    o.config = rp_config_new();
    rp_status st = o.config ? rp_config_set_olevel(o.config, 2, &err) : RP_NOMEM;
    if (st == RP_OK)
        st = rp_engine_open(&o, &e, &err);
    else
        rp_config_free(o.config);
    if (st == RP_OK) st = generate(e, prompts, n < MAX_PROMPTS ? n : MAX_PROMPTS, &err);
    if (st != RP_OK) fprintf(stderr, "generate: %s\n", err.text);
    rp_engine_close(e);
    return rp_status_exit_code(st);
}
