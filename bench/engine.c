/* reprise as one of the peers of bench/cpu.sh, through the public API: opens a model once, then answers lines on
 * standard input with tokens per second, so that runs can be interleaved with those of other programs.
 *
 *   decode CONTEXT N           N steps of one request after CONTEXT prompt tokens
 *   prefill N                  one forward of N prompt tokens, to the first output token
 *   batch REQUESTS CONTEXT N   N tokens each of several requests, after all prompts are through
 *   sampling TEMPERATURE K P   how requests choose tokens from now on: temperature (0: greedy, as at the start), top-k (0: off), top-p (1: off)
 *   host                       host_us of the summary: microseconds of the host in a decode step, the median of the last 256
 *   steps                      compiles, captures and eager steps since the model was opened
 *   check REQUESTS CONTEXT N   N tokens each of several requests, twice, and the same engine with numerics=exact about what they answered: by how much the
 *                              log probabilities of some requests' tokens are off, the largest and the mean; how many tokens are the likeliest by it, too; by how
 *                              much those that are not are less likely, at most; how many requests answered the same both times
 *   check 1 CONTEXT 0          in the same way of the tokens of a prompt, scored in forwards of as many as the batch allows
 *
 * Usage: engine MODEL [KEY=VALUE ...]   (settings of `reprise help config`; -O2 unless level is given)
 * Every measurement has one untimed run of the same kind before the first; prompts are ids, EOS is ignored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/rate.h"

enum { MAX_PROMPT = 8192, MAX_REQUESTS = 64, MAX_CHECKED = 64 };

static const char *model;
static char **settings; /* KEY=VALUE, NULL-terminated */

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

/* exact: what answers are compared with, one after the other, so that it needs little memory beside the other. */
static rp_status open_engine(bool exact, rp_engine **out, rp_error *err) {
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = model;
    o.config = rp_config_new();
    rp_status st = o.config ? RP_OK : RP_NOMEM;
    for (char **s = settings; *s && st == RP_OK; s++) st = rp_config_set(o.config, *s, err);
    if (st == RP_OK && exact) st = rp_config_set(o.config, "numerics=exact", err);
    if (st == RP_OK && exact) st = rp_config_set(o.config, "max_num_seqs=2", err);
    if (st == RP_OK && exact) st = rp_config_set(o.config, "max_num_batched_tokens=2048", err);
    if (st == RP_OK) st = rp_config_apply_default_olevel(o.config, 2, err);
    if (st == RP_OK) return rp_engine_open(&o, out, err);
    rp_config_free(o.config);
    return st;
}

/* --- whether it is right ------------------------------------------------------------------------ */

/* What scoring says of tokens. chosen: those that somebody holds for the likeliest, NULL: nobody. */
typedef struct scored {
    const int32_t *chosen;
    uint32_t n;
    int32_t likeliest[MAX_PROMPT];
    double logprob[MAX_PROMPT],
        lacks[MAX_PROMPT]; /* of the token; of the chosen one to the likeliest */
} scored;

static void keep_score(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                       const int32_t *top_ids, const float *top_logits) {
    scored *s = user;
    uint32_t at = 0;
    (void)position, (void)id;
    while (s->chosen && at + 1 < k && top_ids[at] != s->chosen[s->n])
        at++; /* or at least so much */
    s->likeliest[s->n] = top_ids[0];
    s->logprob[s->n] = logprob;
    s->lacks[s->n++] = (double)top_logits[0] - (double)top_logits[at];
}

static rp_status score(rp_engine *e, const int32_t *ids, uint32_t n_prompt, uint32_t n, scored *out,
                       rp_error *err) {
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    o.prompt_ids = ids;
    o.n_prompt_ids = n_prompt;
    o.continuation_ids = ids + n_prompt;
    o.n_continuation_ids = n;
    o.top_logits = RP_MAX_TOP;
    o.on_token = keep_score;
    o.user = out;
    out->n = 0;
    return rp_engine_score(e, &o, NULL, err);
}

typedef struct agreement {
    double most, sum, gap;
    uint32_t n, likeliest;
} agreement;

static void compare(const double *got, const scored *want, agreement *a) {
    for (uint32_t i = 0; i < want->n; i++) {
        const double off = got[i] > want->logprob[i] ? got[i] - want->logprob[i]
                                                     : want->logprob[i] - got[i];
        if (!(off <= a->most)) a->most = off; /* NaN, too */
        a->sum += off;
        a->n++;
        a->likeliest += want->lacks[i] <= 0;
        if (want->lacks[i] > a->gap) a->gap = want->lacks[i];
    }
}

typedef struct answered {
    int32_t ids[MAX_PROMPT + MAX_CHECKED];
    double logprobs[MAX_CHECKED];
} answered;

static rp_status generate(rp_engine *e, uint32_t requests, uint32_t context, uint32_t n,
                          answered *t, rp_error *err) {
    uint64_t id[MAX_REQUESTS];
    uint32_t started = 0;
    bool more = true;
    rp_status st = RP_OK;
    for (; started < requests && st == RP_OK; started++) {
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        for (uint32_t i = 0; i < context; i++)
            t[started].ids[i] = 1000 + (int32_t)((i * 7919u + started * 104729u) % 40000);
        r.prompt_ids = t[started].ids;
        r.n_prompt_ids = context;
        r.max_tokens = n;
        r.ignore_eos = r.logprobs = true;
        st = rp_engine_submit(e, &r, &id[started], err);
    }
    while (more && st == RP_OK) st = rp_engine_step(e, &more, err);
    for (uint32_t i = 0; i < started && st == RP_OK; i++) {
        rp_result r = RP_RESULT_INIT;
        st = rp_engine_result(e, id[i], &r, err);
        if (st != RP_OK) break;
        memcpy(t[i].ids + context, r.output_ids, n * sizeof *r.output_ids);
        memcpy(t[i].logprobs, r.logprobs, n * sizeof *r.logprobs);
        rp_engine_release(e, id[i]);
    }
    return st;
}

/* The first, the last and one between. */
static bool is_scored(uint32_t i, uint32_t requests) {
    return i == 0 || i == requests / 2 || i + 1 == requests;
}

static rp_status check(rp_engine *e, uint32_t requests, uint32_t context, uint32_t n, answered *t,
                       rp_error *err) {
    static scored own, want;
    rp_engine *exact = NULL;
    agreement a = {0};
    uint32_t equal = 0;
    rp_status st = generate(e, requests, context, n ? n : 1, t, err);
    if (st == RP_OK) st = generate(e, requests, context, n ? n : 1, t + requests, err);
    if (st == RP_OK) st = open_engine(true, &exact, err);
    for (uint32_t i = 0; i < requests && st == RP_OK; i++) {
        equal += memcmp(&t[i], &t[requests + i], sizeof *t) == 0;
        if (!is_scored(i, requests)) continue;
        if (n == 0) st = score(e, t[i].ids, 1, context - 1, &own, err);
        want.chosen = n ? t[i].ids + context : own.likeliest;
        if (st == RP_OK)
            st = n ? score(exact, t[i].ids, context, n, &want, err)
                   : score(exact, t[i].ids, 1, context - 1, &want, err);
        if (st == RP_OK) compare(n ? t[i].logprobs : own.logprob, &want, &a);
    }
    rp_engine_close(exact);
    if (st == RP_OK)
        printf("off=%.4f mean=%.5f likeliest=%u/%u gap=%.4f repeats=%u/%u\n", a.most, a.sum / a.n,
               a.likeliest, a.n, a.gap, equal, requests);
    return st;
}

static rp_status answer_check(rp_engine *e, uint32_t requests, uint32_t context, uint32_t n,
                              rp_error *err) {
    if (requests < 1 || requests > MAX_REQUESTS || context < 2 || context > MAX_PROMPT ||
        n > MAX_CHECKED) {
        printf("error: check %u %u %u: 1 to %d requests, 2 to %d tokens, 0 to %d more\n", requests,
               context, n, MAX_REQUESTS, MAX_PROMPT, MAX_CHECKED);
        return RP_OK;
    }
    answered *t = calloc(2u * requests, sizeof *t);
    if (!t) return RP_NOMEM;
    const rp_status st = check(e, requests, context, n, t, err);
    free(t);
    return st;
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
    if (sscanf(line, "check %u %u %u", &a, &b, &c) == 3) return answer_check(e, a, b, c, err);
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
    model = argv[1];
    settings = argv + 2;
    rp_status st = open_engine(false, &e, &err);
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
