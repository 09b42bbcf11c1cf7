/* reprise as one of the peers of bench/cpu.sh, through the public API: opens a model once, then answers lines on
 * standard input with tokens per second, so that runs can be interleaved with those of other programs.
 *
 *   decode CONTEXT N           N steps of one request after CONTEXT prompt tokens
 *   prefill N                  one forward of N prompt tokens, to the first output token
 *   batch REQUESTS CONTEXT N   N tokens each of several requests, after all prompts are through
 *   sampling TEMPERATURE K P   how requests choose tokens from now on: temperature (0: greedy, as at the start), top-k (0: off), top-p (1: off)
 *   host                       host_us of the summary: microseconds of the host in a decode step, the median of the last 256
 *   steps                      compiles, captures and eager steps since the model was opened
 *
 * Usage: engine MODEL [KEY=VALUE ...]   (settings of `reprise help config`; -O2 unless level is given)
 * Every measurement has one untimed run of the same kind before the first; prompts are ids, EOS is ignored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/rate.h"

enum { MAX_PROMPT = 8192, MAX_REQUESTS = 64 };

static rp_sampling sampling = {.top_p = 1};

/* Rate of output tokens from the step that gave the last request its first token; with n_output 1
 * the rate of prompt tokens until then. out NULL: to warm up. */
static rp_status measure(rp_engine *e, unsigned n_requests, unsigned n_prompt, unsigned n_output,
                         double *out, rp_error *err) {
    const tool_load l = {.n_requests = n_requests,
                         .n_prompt = n_prompt,
                         .n_output = n_output,
                         .first_id = 1000,
                         .n_ids = 40000,
                         .sampling = sampling,
                         .warm_up = !out};
    tool_rate r;
    rp_status st = tool_rate_measure(e, &l, &r, err);
    if (st != RP_OK || !out) return st;
    *out = n_output > 1 ? (double)r.decoded / r.decode_s : n_requests * n_prompt / r.prefill_s;
    return RP_OK;
}

static rp_status answer(rp_engine *e, const char *line, rp_error *err) {
    static bool warm[3];
    unsigned a = 1, b = 0, c = 1;
    int kind = -1;
    double rate = 0.0;
    rp_status st = RP_OK;
    if (sscanf(line, "decode %u %u", &b, &c) == 2) kind = 0;
    if (sscanf(line, "prefill %u", &b) == 1) kind = 1;
    if (sscanf(line, "batch %u %u %u", &a, &b, &c) == 3) kind = 2;
    if (sscanf(line, "sampling %lf %d %lf", &sampling.temperature, &sampling.top_k,
               &sampling.top_p) == 3) {
        printf("0\n");
        return RP_OK;
    }
    if (kind != 1) c++; /* the first token comes from the prompt */
    if (strcmp(line, "steps\n") == 0 || strcmp(line, "host\n") == 0) {
        static const char name[] = "\"host_us\":";
        char *text = NULL;
        st = rp_engine_summary(e, &text, err);
        const char *host = text ? strstr(text, name) : NULL;
        if (st == RP_OK && line[0] == 's') printf("%s\n", text);
        if (st == RP_OK && line[0] == 'h')
            printf("%.3f\n", host ? atof(host + sizeof name - 1) : 0.0);
        rp_engine_text_free(text);
        return st;
    }
    if (kind < 0 || a < 1 || a > MAX_REQUESTS || b < 1 || b > MAX_PROMPT || c < 1) {
        printf("error: not understood: %s", line);
        return RP_OK;
    }
    if (!warm[kind]) st = measure(e, a, b, c > 9 ? 9 : c, NULL, err);
    warm[kind] = true;
    if (st == RP_OK) st = measure(e, a, b, c, &rate, err);
    if (st == RP_OK) printf("%.3f\n", rate);
    return st;
}

int main(int argc, char **argv) {
    rp_error err = {0};
    rp_engine *e = NULL;
    char line[200];
    if (argc < 2) {
        fprintf(stderr, "usage: engine MODEL [KEY=VALUE ...]\n");
        return 2;
    }
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = argv[1];
    o.config = rp_config_new();
    rp_status st = o.config ? RP_OK : RP_NOMEM;
    for (int i = 2; i < argc && st == RP_OK; i++) st = rp_config_set(o.config, argv[i], &err);
    if (st == RP_OK) st = rp_config_apply_default_olevel(o.config, 2, &err);
    if (st == RP_OK) {
        st = rp_engine_open(&o, &e, &err);
    } else {
        rp_config_free(o.config);
    }
    if (st == RP_OK) printf("ready %s\n", rp_version());
    (void)fflush(stdout);
    while (st == RP_OK && fgets(line, sizeof line, stdin)) {
        st = answer(e, line, &err);
        (void)fflush(stdout);
    }
    rp_engine_close(e);
    if (st != RP_OK) {
        printf("error: %s\n", err.text);
        fprintf(stderr, "engine: %s\n", err.text);
    }
    return st == RP_OK ? 0 : 1;
}
