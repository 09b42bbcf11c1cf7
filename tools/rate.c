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
    r.max_tokens = l->n_output > 1 ? 0 : 1; /* as many as fit: all run until the last has its own */
    r.ignore_eos = true;
    r.sampling = l->sampling;
    r.sampling.seed = index;
    return rp_engine_submit(e, &r, out, err);
}

/* Output tokens so far, of all requests and of the one that has fewest. */
static rp_status count(rp_engine *e, const uint64_t *ids, uint32_t n, uint64_t *total,
                       uint32_t *least, rp_error *err) {
    *total = 0;
    *least = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        rp_result r = RP_RESULT_INIT;
        rp_status st = rp_engine_result(e, ids[i], &r, err);
        if (st != RP_OK) return st;
        *total += r.n_output_ids;
        if (r.n_output_ids < *least) *least = r.n_output_ids;
    }
    return RP_OK;
}

static rp_status run(rp_engine *e, const tool_load *l, const uint64_t *ids, double t0,
                     tool_rate *out, rp_error *err) {
    uint64_t total = 0, first = 0;
    uint32_t least = 0;
    double t1 = 0.0;
    bool more = true;
    rp_status st = RP_OK;
    while (st == RP_OK && more && least < l->n_output) {
        st = l->stopped && l->stopped() ? RP_CANCELLED : rp_engine_step(e, &more, err);
        if (st == RP_OK) st = count(e, ids, l->n_requests, &total, &least, err);
        if (least > 0 && t1 == 0.0) t1 = now(), first = total;
    }
    *out = (tool_rate){t1 - t0, now() - t1, total - first};
    return st;
}

rp_status tool_rate_measure(rp_engine *e, const tool_load *l, tool_rate *out, rp_error *err) {
    static uint64_t ids[TOOL_MAX_LOAD];
    uint32_t n = 0;
    rp_status st = RP_OK;
    int32_t *room = malloc((l->n_prompt + (size_t)1) * sizeof *room);
    if (!room) return RP_NOMEM;
    const double t0 = now();
    for (; n < l->n_requests && st == RP_OK; n++) st = submit(e, l, n, room, &ids[n], err);
    if (st == RP_OK) st = run(e, l, ids, t0, out, err);
    for (uint32_t i = 0; i < n; i++) rp_engine_release(e, ids[i]);
    free(room);
    return st;
}
