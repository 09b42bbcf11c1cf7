#include "tools/rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Prompts differ from their first tokens on, so that none shares blocks of the cache with another. */
static rp_status submit(rp_engine *e, const tool_load *l, uint32_t index, int32_t *room,
                        uint64_t *out, rp_error *err) {
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    for (uint32_t i = 0; i < l->n_prompt; i++)
        room[i] = l->first_id +
                  (int32_t)((i * UINT64_C(7919) + index * UINT64_C(104729)) % (uint64_t)l->n_ids);
    r.prompt_ids = room;
    r.n_prompt_ids = l->n_prompt;
    r.max_tokens = l->n_output;
    r.ignore_eos = true;
    r.sampling = l->sampling;
    r.sampling.seed = index;
    return rp_engine_submit(e, &r, out, err);
}

static rp_status failed(rp_error *err, rp_status code, const char *text) {
    err->code = code;
    (void)snprintf(err->text, sizeof err->text, "%s", text);
    return code;
}

/* Output tokens so far: of all requests, of the one that has fewest, and of the one that has most. */
typedef struct progress {
    uint64_t total;
    uint32_t least, most;
} progress;

static rp_status look(rp_engine *e, const uint64_t *ids, uint32_t n, progress *out, rp_error *err) {
    *out = (progress){.least = UINT32_MAX};
    for (uint32_t i = 0; i < n; i++) {
        rp_result r = RP_RESULT_INIT;
        rp_status st = rp_engine_result(e, ids[i], &r, err);
        if (st != RP_OK) return st;
        out->total += r.n_output_ids;
        if (r.n_output_ids < out->least) out->least = r.n_output_ids;
        if (r.n_output_ids > out->most) out->most = r.n_output_ids;
    }
    return RP_OK;
}

/* Until every request has a token, and on until the first has all of its own. */
static rp_status run(rp_engine *e, const tool_load *l, const uint64_t *ids, double t0,
                     tool_rate *out, rp_error *err) {
    progress p = {0};
    uint64_t first = 0;
    double t1 = 0.0;
    bool more = true;
    while (more && (p.least == 0 || p.most < l->n_output)) {
        if (l->stopped && l->stopped()) return RP_CANCELLED;
        rp_status st = rp_engine_step(e, &more, err);
        if (st == RP_OK) st = look(e, ids, l->n_requests, &p, err);
        if (st != RP_OK) return st;
        if (p.least > 0 && t1 == 0.0) t1 = now(), first = p.total;
    }
    *out = (tool_rate){t1 - t0, now() - t1, p.total - first};
    if (l->n_output == 1 || l->warm_up || out->decoded > 0) return RP_OK;
    return failed(err, RP_INVALID,
                  "no step had all requests at once: the first had ended when the last was through "
                  "its prompt; ask for more output tokens or fewer requests");
}

rp_status tool_rate_measure(rp_engine *e, const tool_load *l, tool_rate *out, rp_error *err) {
    static uint64_t ids[TOOL_MAX_LOAD];
    uint32_t n = 0;
    rp_status st = RP_OK;
    int32_t *room = malloc((l->n_prompt + (size_t)1) * sizeof *room);
    if (!room) return failed(err, RP_NOMEM, "no memory for a prompt");
    const double t0 = now();
    while (n < l->n_requests && st == RP_OK) {
        st = submit(e, l, n, room, &ids[n], err);
        n += st == RP_OK;
    }
    if (st == RP_OK) st = run(e, l, ids, t0, out, err);
    for (uint32_t i = 0; i < n; i++) rp_engine_release(e, ids[i]);
    free(room);
    return st;
}
