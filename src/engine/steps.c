/* Steps of an engine: what is launched ahead of what, what the host's part of a step takes, and calls that may call back. */
#include "base/clock.h"
#include "base/host.h"
#include "base/status.h"
#include "engine/engine.h"

static uint32_t tokens_of(const engine_batch *b) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (b->entry[i].req) n += b->entry[i].n_tokens;
    return n;
}

static void count_step(rp_engine *e, const engine_batch *b, int64_t t0, int64_t t1) {
    engine_times *t = &e->times;
    double ms = (double)(t1 - t0) / 1e6;
    t->steps++;
    if (b->n_prefills == 0) {
        t->decode_ms += ms;
        t->decode_tokens += tokens_of(b);
    } else {
        t->prefill_ms += ms;
        t->prefill_tokens += tokens_of(b);
    }
    if (t->ttft_ms == 0.0 && b->num_logits > 0) {
        t->ttft_ms = (double)(t1 - e->t_submit) / 1e6;
        t->wall_to_first_ms = (double)base_process_age_ns() / 1e6;
    }
}

void engine_fall_idle(rp_engine *e) {
    engine_runner_drain(e->runner);
    engine_sched_cancel(e->sched);
    e->flight = NULL;
    e->seen_ns = 0;
}

void engine_settle(rp_engine *e) {
    if (e->flight && engine_sched_idle(e->sched)) engine_fall_idle(e);
}

void engine_take_finished(rp_engine *e) {
    engine_request *r;
    while (e->sched && (r = engine_sched_take_finished(e->sched))) engine_text_finish(r->user);
    engine_settle(e);
}

static void end_list(rp_engine *e, engine_job *first) {
    for (engine_job *j = first; j; j = j->next) {
        if (j->finished) continue;
        if (j->err.code == RP_OK) j->err = e->lost;
        engine_sched_abort(e->sched, j->req);
    }
}

/* Nobody's tokens will come. Texts keep what they have. */
static void end_all(rp_engine *e) {
    engine_fall_idle(e);
    for (uint32_t i = 0; i < ENGINE_JOB_LISTS; i++) end_list(e, e->jobs[i]);
    engine_take_finished(e);
}

static void look_for_loss(rp_engine *e) {
    if (e->lost.code == RP_OK && hal_lost(e->device, &e->lost) && e->sched) end_all(e);
}

rp_status engine_check_lost(rp_engine *e, rp_error *err) {
    look_for_loss(e);
    return e->lost.code == RP_OK ? RP_OK : rp_fail(err, e->lost.code, "%s", e->lost.text);
}

rp_status engine_enter(rp_engine *e, const char *name, rp_error *err) {
    if (e->calling)
        return rp_fail(err, RP_INVALID,
                       "%s inside a callback of the same engine; return from the callback first",
                       name);
    RP_TRY(engine_check_lost(e, err));
    e->calling = true;
    return RP_OK;
}

rp_status engine_leave(rp_engine *e, const char *name, rp_status st, rp_error *err) {
    if (st != RP_OK) look_for_loss(e);
    engine_take_finished(e);
    e->calling = false;
    engine_reap(e);
    if (!e->close_refused) return st;
    e->close_refused = false;
    if (st != RP_OK) return st;
    return rp_fail(err, RP_INVALID,
                   "rp_engine_close was called inside a callback and closed nothing; close the "
                   "engine after %s returns",
                   name);
}

static rp_status launch(rp_engine *e, const engine_batch *b, rp_error *err) {
    const hal_counters *c = hal_device_counters(e->device);
    uint64_t before = c->launches + c->graph_launches;
    RP_TRY(engine_runner_launch(e->runner, b, e->kv, err));
    e->times.step_launches = c->launches + c->graph_launches - before;
    return RP_OK;
}

static rp_status receive(rp_engine *e, rp_error *err) {
    RP_TRY(engine_runner_wait(e->runner, err));
    e->t_seen = base_now_ns();
    /* Parts of both files are read where they are mapped: before anybody believes the logits. */
    RP_TRY(model_source_check_whole(e->source, err));
    return engine_weights_check_whole(e->weights, err);
}

rp_status engine_run_step(rp_engine *e, const engine_batch *b, rp_error *err) {
    RP_TRY(launch(e, b, err));
    rp_status st = receive(e, err);
    if (st != RP_OK) engine_runner_drain(e->runner); /* else it is the next caller's step */
    return st;
}

rp_status engine_run_batch(rp_engine *e, const engine_batch *b, const float **logits,
                           rp_error *err) {
    uint32_t most = engine_runner_rows_at_once(e->runner);
    RP_TRY(engine_run_step(e, b, err));
    return engine_runner_logits(e->runner, 0, b->num_logits < most ? b->num_logits : most, logits,
                                err);
}

/* The first launch of a call that began at t0 is over. */
static void count_host(rp_engine *e, const engine_batch *b, int64_t t0) {
    engine_times *t = &e->times;
    if (e->queues && e->seen_ns && b->n_prefills == 0)
        t->host_ns[t->host_steps++ % ENGINE_HOST_STEPS] = e->seen_ns + base_now_ns() - t0;
    e->seen_ns = 0;
}

/* Launches b unless it is under way, and what can go behind it; then gets what b gave. The text of the step before is made
 * while the device is at it. */
static rp_status run_both(rp_engine *e, const engine_batch *b, const engine_batch **out_next,
                          rp_error *err) {
    int64_t t0 = base_now_ns();
    const engine_batch *next = NULL;
    if (engine_runner_in_flight(e->runner) == 0) {
        RP_TRY(launch(e, b, err));
        count_host(e, b, t0);
    }
    if (e->runs_ahead && b->unread) next = engine_sched_ahead(e->sched);
    if (next) {
        RP_TRY(launch(e, next, err));
        count_host(e, next, t0);
    }
    engine_sched_tell(e->sched);
    RP_TRY(receive(e, err));
    RP_TRY(engine_pick_tokens(e, b, err));
    *out_next = next;
    return RP_OK;
}

static rp_status step(rp_engine *e, rp_error *err) {
    const engine_batch *b = e->flight, *next = NULL;
    /* The device was at it while the host was not. */
    int64_t t0 = b && e->queues ? e->t_counted : base_now_ns();
    if (!b) RP_TRY(engine_sched_next(e->sched, &b, err));
    if (!b) return RP_OK;
    rp_status st = run_both(e, b, &next, err);
    if (st != RP_OK) {
        engine_fall_idle(e);
        return st;
    }
    e->t_counted = base_now_ns();
    count_step(e, b, t0, e->t_counted);
    bool decode = b->n_prefills == 0;
    engine_sched_commit(e->sched, e->tokens);
    if (!next) engine_sched_tell(e->sched);
    e->flight = next;
    e->seen_ns = decode ? base_now_ns() - e->t_seen : 0;
    return RP_OK;
}

rp_status rp_engine_step(rp_engine *e, bool *out_more, rp_error *err) {
    base_error_clear(err);
    if (!e || !out_more || !e->sched)
        return rp_fail(err, RP_INVALID, "rp_engine_step wants an engine with graphs and out_more");
    RP_TRY(engine_enter(e, "rp_engine_step", err));
    RP_TRY(engine_leave(e, "rp_engine_step", step(e, err), err));
    *out_more = !engine_sched_idle(e->sched);
    return RP_OK;
}
