/* reprise bench: how fast a model is served: prefill and decode of one or more requests at once, and with --profile
 * what each launch of a decode step takes and reads, beside what the device can read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/input.h"
#include "tools/rate.h"
#include "tools/trace.h"

enum { MOST_SIZES = 64, MOST_ITERS = 1000, WARM_UP_TOKENS = 9 };

typedef struct bench {
    tool_args *a;
    rp_engine *e;
    tool_load load;                                       /* but for the number of requests */
    uint32_t size[MOST_SIZES], n_sizes, n_iters, n_steps; /* n_steps: of a profile */
    const char *trace_path;
    FILE *trace;
} bench;

typedef struct spread {
    double median, least, most;
} spread;

/* --- what to measure ---------------------------------------------------------------------- */

static int read_sizes(bench *b) {
    const char *given = tool_get(b->a, TOOL_FLAG_BATCH_SIZE), *p = given ? given : "1";
    for (char *end = NULL;; p = end + 1) {
        errno = 0;
        const long long v = strtoll(p, &end, 10);
        if (end == p || errno || (*end && *end != ',') || v < 1 || v > TOOL_MAX_LOAD)
            return tool_usage("--batch-size=%s: expected numbers from 1 to %d such as 1,8,64",
                              given, TOOL_MAX_LOAD);
        if (b->n_sizes == MOST_SIZES)
            return tool_usage("--batch-size: more than %d sizes", MOST_SIZES);
        b->size[b->n_sizes++] = (uint32_t)v;
        if (!*end) return 0;
    }
}

static int read_flags(bench *b) {
    long long n_prompt, n_output, n_iters;
    if (!tool_int(b->a, TOOL_FLAG_INPUT_LEN, 128, &n_prompt) ||
        !tool_int(b->a, TOOL_FLAG_OUTPUT_LEN, 64, &n_output) ||
        !tool_int(b->a, TOOL_FLAG_NUM_ITERS, 5, &n_iters))
        return TOOL_EXIT_USAGE;
    b->load = (tool_load){.n_prompt = (uint32_t)n_prompt,
                          .n_output = (uint32_t)n_output,
                          .sampling = {.top_p = 1},
                          .stopped = tool_interrupted};
    b->n_iters = (uint32_t)n_iters;
    b->trace_path = tool_get(b->a, TOOL_FLAG_TRACE);
    if (b->trace_path && strcmp(b->trace_path, "-") == 0)
        return tool_usage("--trace - would be in the middle of the results; give a file");
    return read_sizes(b);
}

static bool measures_launches(const bench *b) {
    return b->trace || tool_on(b->a, TOOL_FLAG_PROFILE);
}

/* Opened before anything is measured, so that a name that cannot be written costs no time. */
static int open_trace(bench *b) {
    if (!b->trace_path) return 0;
    b->trace = fopen(b->trace_path, "w");
    return b->trace ? 0 : tool_error("cannot write %s: %s", b->trace_path, strerror(errno));
}

/* Steps that are measured launch by launch, and as served: 0 where there is no room for one. */
static uint32_t profile_steps(const bench *b, json_int_t room) {
    enum { STEPS = 32, WARM_UP = 2 };
    const json_int_t fit = (room - b->load.n_prompt - WARM_UP - 1) / 2;
    return fit < 0 ? 0 : fit < STEPS ? (uint32_t)fit : STEPS;
}

/* Whether the engine takes so many at once, and so long ones. */
static int check_sizes(bench *b, const json_t *facts) {
    const json_t *config = json_object_get(facts, "config");
    const json_int_t most = json_integer_value(json_object_get(config, "max_num_seqs"));
    const json_int_t room = json_integer_value(json_object_get(config, "max_model_len"));
    const json_int_t wanted = (json_int_t)b->load.n_prompt + b->load.n_output;
    b->n_steps = profile_steps(b, room);
    if (wanted > room || (b->n_steps == 0 && measures_launches(b)))
        return tool_usage("--input-len=%u and --output-len=%u: a sequence has %lld positions; give "
                          "--max-model-len %lld",
                          b->load.n_prompt, b->load.n_output, (long long)room,
                          (long long)wanted + 8);
    for (uint32_t i = 0; i < b->n_sizes; i++)
        if (b->size[i] > most)
            return tool_usage("--batch-size=%u: a step takes %lld requests; give --max-num-seqs %u",
                              b->size[i], (long long)most, b->size[i]);
    b->load.n_ids = (int32_t)json_integer_value(json_object_get(facts, "vocab_size"));
    return 0;
}

/* --- requests ------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static spread spread_of(double *v, uint32_t n) {
    qsort(v, n, sizeof *v, ascending);
    const double middle = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    return (spread){middle, v[0], v[n - 1]};
}

static json_t *spread_json(spread s) {
    return json_pack("{s:f,s:f,s:f}", "median", s.median, "min", s.least, "max", s.most);
}

static int report(const bench *b, uint32_t n_requests, spread prefill, spread decode) {
    const tool_load *l = &b->load;
    const bool decodes = l->n_output > 1;
    const double step_ms = decodes ? n_requests / decode.median * 1e3 : 0.0;
    if (b->a->json)
        return tool_event("bench",
                          json_pack("{s:i,s:i,s:i,s:i,s:o,s:o,s:o}", "batch_size", (int)n_requests,
                                    "input_len", (int)l->n_prompt, "output_len", (int)l->n_output,
                                    "num_iters", (int)b->n_iters, "prefill_tok_s",
                                    spread_json(prefill), "decode_tok_s",
                                    decodes ? spread_json(decode) : json_null(), "step_ms",
                                    decodes ? json_real(step_ms) : json_null()),
                          9)
                   ? 0
                   : TOOL_EXIT_FAILED;
    (void)printf("%8u %7u %7u %10.1f (%.1f - %.1f)", n_requests, l->n_prompt, l->n_output,
                 prefill.median, prefill.least, prefill.most);
    if (decodes)
        (void)printf(" %10.1f (%.1f - %.1f) %9.3f", decode.median, decode.least, decode.most,
                     step_ms);
    (void)putchar('\n');
    (void)fflush(stdout);
    return 0;
}

static int stopped_or(rp_status st, const rp_error *err) {
    if (tool_interrupted()) tool_interrupt_now("stopped while measuring");
    return tool_fail(st, err);
}

static int measure_size(bench *b, uint32_t n_requests) {
    double prefill[MOST_ITERS], decode[MOST_ITERS];
    tool_load l = b->load, warm = b->load;
    tool_rate r;
    rp_error err = {0};
    l.n_requests = warm.n_requests = n_requests;
    warm.warm_up = true;
    if (warm.n_output > WARM_UP_TOKENS) warm.n_output = WARM_UP_TOKENS;
    rp_status st = tool_rate_measure(b->e, &warm, &r, &err);
    for (uint32_t i = 0; i < b->n_iters && st == RP_OK; i++) {
        st = tool_rate_measure(b->e, &l, &r, &err);
        prefill[i] = (double)n_requests * l.n_prompt / r.prefill_s;
        decode[i] = (double)r.decoded / r.decode_s;
    }
    if (st != RP_OK) return stopped_or(st, &err);
    return report(b, n_requests, spread_of(prefill, b->n_iters), spread_of(decode, b->n_iters));
}

static int measure_sizes(bench *b) {
    int rc = 0;
    if (!b->a->json)
        (void)printf("requests  prompt  output  prefill tok/s (least - most)  decode tok/s (least "
                     "- most)  ms a step\n");
    for (uint32_t i = 0; i < b->n_sizes && rc == 0; i++) rc = measure_size(b, b->size[i]);
    return rc;
}

/* --- launches --------------------------------------------------------------------------------- */

static int measure_launches(bench *b, const json_t *facts) {
    const bool profile = tool_on(b->a, TOOL_FLAG_PROFILE);
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    json_t *times = NULL;
    if (!measures_launches(b)) return 0;
    o.steps = b->n_steps;
    o.context = b->load.n_prompt;
    o.read_limit = profile;
    o.timeline = b->trace != NULL;
    int rc = tool_measure(b->e, &o, &times);
    if (rc == 0 && b->trace) rc = tool_write_trace(b->trace, b->trace_path, facts, times);
    if (rc == 0 && profile && !b->a->json) tool_print_times(times);
    if (rc == 0 && profile && b->a->json)
        rc = tool_event("profile", json_incref(times), 9) ? 0 : TOOL_EXIT_FAILED;
    json_decref(times);
    return rc;
}

static int bench_all(bench *b) {
    int rc = read_flags(b);
    if (rc == 0) rc = open_trace(b);
    if (rc) return rc;
    b->e = tool_open(b->a, false, &rc);
    if (!b->e) return rc;
    json_t *facts = tool_facts(b->e), *o = NULL;
    if (!facts) return TOOL_EXIT_FAILED;
    rc = check_sizes(b, facts);
    if (rc == 0) rc = measure_sizes(b);
    if (rc == 0) rc = measure_launches(b, facts);
    if (rc == 0 && !(o = tool_summary(b->a, b->e))) rc = TOOL_EXIT_FAILED;
    if (o && b->a->json) rc = tool_event("summary", json_incref(o), 9) ? 0 : TOOL_EXIT_FAILED;
    if (o && !b->a->json) tool_print_summary(b->a, o, 0, 0);
    json_decref(o);
    json_decref(facts);
    return rc;
}

int tool_bench(tool_args *a) {
    bench b = {.a = a};
    tool_interrupt_init();
    int rc = bench_all(&b);
    if (b.trace && fclose(b.trace) != 0 && rc == 0)
        rc = tool_error("cannot write %s: %s", b.trace_path, strerror(errno));
    rp_engine_close(b.e);
    return rc;
}
