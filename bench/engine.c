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
#include <time.h>

#include "reprise/reprise.h"

enum { MAX_PROMPT = 8192, MAX_REQUESTS = 64 };

static rp_sampling sampling = {.top_p = 1};

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static rp_status submit(rp_engine *e, unsigned index, unsigned n_prompt, unsigned n_output,
                        uint64_t *out, rp_error *err) {
    static int32_t ids[MAX_PROMPT];
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    for (unsigned i = 0; i < n_prompt; i++)
        ids[i] = (int32_t)(1000u + (i * 7919u + index * 104729u) % 40000u);
    r.prompt_ids = ids;
    r.n_prompt_ids = n_prompt;
    r.max_tokens = n_output;
    r.ignore_eos = true;
    r.sampling = sampling;
    r.sampling.seed = index;
    return rp_engine_submit(e, &r, out, err);
}

/* Output tokens so far, of all requests and of the one that has fewest. */
static rp_status count(rp_engine *e, const uint64_t *ids, unsigned n, unsigned *total,
                       unsigned *least, rp_error *err) {
    *total = 0;
    *least = UINT32_MAX;
    for (unsigned i = 0; i < n; i++) {
        rp_result r = RP_RESULT_INIT;
        rp_status st = rp_engine_result(e, ids[i], &r, err);
        if (st != RP_OK) return st;
        *total += r.n_output_ids;
        if (r.n_output_ids < *least) *least = r.n_output_ids;
    }
    return RP_OK;
}

/* Rate of output tokens from the step that gave the last request its first token; with n_output 1
 * the rate of prompt tokens until then. */
static rp_status measure(rp_engine *e, unsigned n_requests, unsigned n_prompt, unsigned n_output,
                         double *out, rp_error *err) {
    uint64_t ids[MAX_REQUESTS];
    unsigned total = 0, least = 0, first = 0;
    bool more = true;
    rp_status st = RP_OK;
    double t0 = now(), t1 = 0.0;
    for (unsigned i = 0; i < n_requests && st == RP_OK; i++)
        st = submit(e, i, n_prompt, n_output, &ids[i], err);
    while (st == RP_OK && more) {
        st = rp_engine_step(e, &more, err);
        if (st == RP_OK && t1 == 0.0) st = count(e, ids, n_requests, &first, &least, err);
        if (least > 0 && t1 == 0.0) t1 = now();
    }
    double t2 = now();
    if (st == RP_OK) st = count(e, ids, n_requests, &total, &least, err);
    for (unsigned i = 0; i < n_requests && st == RP_OK; i++) rp_engine_release(e, ids[i]);
    if (st != RP_OK) return st;
    *out = n_output > 1 ? (total - first) / (t2 - t1) : n_requests * n_prompt / (t1 - t0);
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
    if (!warm[kind]) st = measure(e, a, b, c > 9 ? 9 : c, &rate, err);
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
