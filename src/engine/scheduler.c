/* The scheduler.
 *
 * Invariants: `running` is in order of arrival and every running request is older than every waiting
 * one, so the oldest is never preempted and always proceeds; a prompt's blocks are reserved when it
 * is admitted, so only decoding can run out; a preempted request loses its blocks and computes its
 * prompt and output again. A shared block is written by one request, the leader, whom those that share it
 * wait for and who is older; when it leaves early the oldest of them goes on in its place. A step that is scheduled behind one that
 * is not committed takes what that computes for computed and its tokens for there: requests that are certain to end with it take no part, and
 * what another does there is forgotten when it has ended. Nothing is preempted for such a step. Blocks are free again at the commit: whatever writes
 * to them later is queued behind that step. Admission does not wait for a share of the step: who gets none this time stands in line
 * with no more than its blocks, and lets shorter ones behind it pass. A request is in exactly one of waiting, running, finished. */
#include "engine/scheduler.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/admission.h"

rp_status engine_sched_new(const engine_sched_options *o, engine_kv *kv, engine_sched **out,
                           rp_error *err) {
    engine_sched *s;
    uint32_t rows = o->max_logits ? o->max_logits : o->max_num_batched_tokens;

    if (o->max_num_seqs < 1 || o->max_num_batched_tokens < o->max_num_seqs || o->max_model_len < 2)
        return rp_fail(
            err, RP_CONFIG,
            "max_num_batched_tokens %u must be at least max_num_seqs %u, and max_model_len %u "
            "at least 2",
            o->max_num_batched_tokens, o->max_num_seqs, o->max_model_len);
    if (rows < o->max_num_seqs)
        return rp_fail(err, RP_CONFIG, "%u logit rows are fewer than max_num_seqs %u", rows,
                       o->max_num_seqs);
    s = base_alloc(sizeof *s);
    if (!s) return rp_fail(err, RP_NOMEM, "scheduler");
    *s = (engine_sched){.o = *o, .kv = kv};
    s->o.max_logits = rows;
    s->running = base_alloc_array(o->max_num_seqs, sizeof *s->running);
    s->flight[0].entry = base_alloc_array(o->max_num_seqs, sizeof *s->flight[0].entry);
    s->flight[1].entry = base_alloc_array(o->max_num_seqs, sizeof *s->flight[1].entry);
    s->shares = base_alloc_array(o->max_num_seqs, sizeof *s->shares);
    if (!s->running || !s->flight[0].entry || !s->flight[1].entry || !s->shares) {
        engine_sched_free(s);
        return rp_fail(err, RP_NOMEM, "scheduler of %u sequences", o->max_num_seqs);
    }
    *out = s;
    return RP_OK;
}

/* What an aborted request's hook has not seen is no output. */
static void finish(engine_sched *s, engine_request *r, engine_finish why) {
    r->finish = why;
    r->n_output = r->n_told;
    r->state = ENGINE_FINISHED;
    engine_list_push_back(&s->finished, r);
    s->stats.finished++;
}

/* Those who wait for r have what it computed; the oldest of them goes on with the rest. */
static void hand_over(engine_sched *s, const engine_request *r) {
    engine_request *next = NULL;

    for (uint32_t i = 0; i < s->n_running; i++) {
        engine_request *f = s->running[i];

        if (f->leader != r) continue;
        f->n_computed = engine_sched_committed(r) < f->n_shared ? engine_sched_committed(r)
                                                                : f->n_shared;
        f->leader = next;
        if (!next) next = f;
    }
}

/* What r does in steps under way is nobody's. */
static void forget(engine_sched *s, const engine_request *r) {
    for (uint32_t k = s->oldest; k < s->oldest + s->n_flight; k++)
        for (uint32_t i = 0; i < s->flight[k % 2].n; i++)
            if (s->flight[k % 2].entry[i].req == r) s->flight[k % 2].entry[i].req = NULL;
}

/* Takes the i-th running request out and frees its blocks. */
static engine_request *leave_running(engine_sched *s, uint32_t i) {
    engine_request *r = s->running[i];

    forget(s, r);
    hand_over(s, r);
    r->n_flying = 0;
    r->n_pending = 0;
    r->leader = NULL;
    engine_kv_close(s->kv, r->seq);
    s->n_running--;
    memmove(&s->running[i], &s->running[i + 1], (s->n_running - i) * sizeof *s->running);
    return r;
}

void engine_sched_free(engine_sched *s) {
    if (!s) return;
    while (s->n_running) finish(s, leave_running(s, s->n_running - 1), ENGINE_FINISH_ABORT);
    while (s->waiting.head) finish(s, engine_list_pop_front(&s->waiting), ENGINE_FINISH_ABORT);
    base_free(s->running);
    base_free(s->flight[0].entry);
    base_free(s->flight[1].entry);
    base_free(s->shares);
    base_free(s);
}

static rp_status check_ids(const engine_sched *s, const engine_request *r, rp_error *err) {
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || (s->o.vocab_size && (uint32_t)r->prompt[i] >= s->o.vocab_size))
            return rp_fail(
                err, RP_INVALID,
                "token id %d at position %u of the prompt is outside the vocabulary of %u",
                r->prompt[i], i, s->o.vocab_size);
    return RP_OK;
}

rp_status engine_sched_add(engine_sched *s, engine_request *r, rp_error *err) {
    uint32_t kv_len = engine_kv_max_tokens(s->kv), room, want = r->max_tokens > 0;

    assert(r->state == ENGINE_NEW);
    if (r->n_prompt >= s->o.max_model_len + (want ? 0u : 1u))
        return rp_fail(
            err, RP_INVALID,
            "prompt of %u tokens leaves no room in max_model_len %u; shorten it or raise "
            "max_model_len",
            r->n_prompt, s->o.max_model_len);
    if (r->n_prompt > kv_len || r->n_prompt + want > kv_len)
        return rp_fail(
            err, RP_INVALID,
            "prompt of %u tokens never fits the KV cache of %u tokens (%u blocks of %u); "
            "shorten it or enlarge the cache",
            r->n_prompt, kv_len, engine_kv_n_usable(s->kv), engine_kv_block_size(s->kv));
    RP_TRY(check_ids(s, r, err));
    room = (s->o.max_model_len < kv_len ? s->o.max_model_len : kv_len) - r->n_prompt;
    RP_TRY(engine_request_reserve(r, r->max_tokens < room ? r->max_tokens : room, err));
    r->arrival = s->arrivals++;
    r->state = ENGINE_WAITING;
    engine_list_push_back(&s->waiting, r);
    return RP_OK;
}

static bool is_decode(const engine_request *r) {
    return r->n_output + r->n_pending > 0 && engine_request_left(r) == 1;
}

static void add_entry(engine_sched *s, engine_request *r, uint32_t n_tokens) {
    engine_batch *b = engine_sched_newest(s);
    engine_batch_entry *e = &b->entry[b->n++];
    bool last = r->n_computed + n_tokens == engine_request_total(r);
    uint32_t first = r->n_logits_done > r->n_computed ? r->n_logits_done : r->n_computed;

    *e = (engine_batch_entry){.req = r,
                              .seq = r->seq,
                              .start = r->n_computed,
                              .n_tokens = n_tokens,
                              .from = last && r->n_pending ? (int32_t)r->pending_row : -1,
                              .step = r->n_output + r->n_pending,
                              .prefill = !is_decode(r),
                              .samples = last && r->max_output > 0};
    e->n_logits = e->samples ? 1 : 0;
    /* After a preemption logits already handed out are not asked for again. */
    if (r->all_logits && r->n_computed + n_tokens > first)
        e->n_logits = r->n_computed + n_tokens - first;
    b->num_tokens += n_tokens;
    b->num_logits += e->n_logits;
    if (n_tokens > b->max_query_len) b->max_query_len = n_tokens;
    if (e->prefill)
        b->n_prefills++;
    else
        b->n_decodes++;
}

/* The newest running request gives up its blocks. */
static void preempt_newest(engine_sched *s) {
    engine_request *r = leave_running(s, s->n_running - 1);

    r->n_computed = 0;
    r->n_preempted++;
    r->state = ENGINE_WAITING;
    engine_list_push_front(&s->waiting, r);
    s->stats.preemptions++;
}

typedef enum squeeze { FITS, PREEMPTED, FULL } squeeze;

/* Decodes in order of arrival, some preempted where the cache is full; FULL: it is, behind a step under way. */
static squeeze schedule_decodes(engine_sched *s) {
    squeeze how = FITS;

    for (uint32_t i = 0; i < s->n_running; i++) {
        engine_request *r = s->running[i];

        if (!is_decode(r)) continue;
        if (engine_sched_newest(s)->num_tokens == s->o.max_num_batched_tokens) break;
        while (!engine_kv_reserve(s->kv, r->seq, engine_request_total(r))) {
            if (s->n_flight) return FULL;
            how = PREEMPTED;
            preempt_newest(s);
            if (s->n_running == i) return how; /* it was r itself */
        }
        add_entry(s, r, 1);
    }
    return how;
}

static void schedule_prefills(engine_sched *s) {
    if (engine_sched_newest(s)->n == s->n_running) return; /* all of them decode */
    const bool shared = s->o.prefill_chunk == ENGINE_CHUNK_SHARED;
    engine_purse left = {s->o.max_num_batched_tokens - engine_sched_newest(s)->num_tokens,
                         s->o.max_logits - engine_sched_newest(s)->num_logits};
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_running; i++)
        if (!is_decode(s->running[i]) && !engine_request_over(s->running[i]) &&
            !s->running[i]->leader)
            s->shares[n++] = (engine_share){.r = s->running[i]};
    engine_shares_deal(s->shares, n, shared ? 0 : s->o.prefill_chunk, shared, &left);
    for (uint32_t i = 0; i < n; i++)
        if (s->shares[i].n > 0) add_entry(s, s->shares[i].r, s->shares[i].n);
}

static void drop_aborted(engine_sched *s) {
    for (uint32_t i = s->n_running; i-- > 0;)
        if (s->running[i]->aborting) finish(s, leave_running(s, i), ENGINE_FINISH_ABORT);
}

void engine_sched_cancel(engine_sched *s) {
    const engine_batch *b = &s->flight[s->oldest];

    for (uint32_t i = 0; s->n_flight > 0 && b->ahead && i < b->n; i++) {
        engine_request *r = b->entry[i].req;

        if (!r) continue;
        r->n_computed = b->entry[i].start;
        r->n_flying = r->n_pending = 0;
    }
    s->n_flight = 0;
    drop_aborted(s);
}

static bool is_unread(const engine_batch *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        const engine_request *r = b->entry[i].req;

        if (r->all_logits || (b->entry[i].samples && engine_request_watched(r))) return false;
    }
    return true;
}

/* Makes the newest batch. False: there is none now. */
static bool schedule(engine_sched *s) {
    engine_batch *b = engine_sched_newest(s);

    *b = (engine_batch){.entry = b->entry};
    for (uint32_t i = 0; i < s->n_running; i++) engine_sched_catch_up(s->running[i]);
    squeeze how = schedule_decodes(s);
    if (how == FULL) {
        b->n = 0;
        return false;
    }
    /* Whoever lost its blocks comes back in a later step, but for the last one: the cache is empty then. */
    if (how == FITS || s->n_running == 0) engine_sched_admit(s);
    schedule_prefills(s);
    if (s->n_running > s->stats.most_running) s->stats.most_running = s->n_running;
    if (b->n == 0) return false;
    b->unread = is_unread(b);
    s->n_flight++;
    return true;
}

rp_status engine_sched_next(engine_sched *s, const engine_batch **out, rp_error *err) {
    engine_sched_tell(s);
    engine_sched_cancel(s);
    bool any = schedule(s);
    if (!any && !engine_sched_idle(s))
        return rp_fail(err, RP_INTERNAL,
                       "no step for %u running and %u waiting requests, %u of %u KV "
                       "blocks free",
                       s->n_running, s->waiting.n, engine_kv_n_free(s->kv),
                       engine_kv_n_usable(s->kv));
    *out = any ? &s->flight[s->oldest] : NULL;
    return RP_OK;
}

/* Everybody is where the oldest step takes him. */
static void take_for_done(engine_batch *b) {
    uint32_t row = 0;

    for (uint32_t i = 0; i < b->n; i++) {
        engine_batch_entry *e = &b->entry[i];

        row += e->n_logits;
        if (!e->req) continue;
        e->req->n_computed += e->n_tokens;
        e->req->n_flying = e->n_tokens;
        e->req->n_pending = e->samples;
        e->req->pending_row = row - 1;
    }
    b->ahead = true;
}

const engine_batch *engine_sched_ahead(engine_sched *s) {
    engine_batch *b = engine_sched_newest(s);

    assert(s->n_flight == 1);
    if (!s->flight[s->oldest].ahead) take_for_done(&s->flight[s->oldest]);
    return schedule(s) ? b : NULL;
}

static void commit_entry(engine_batch_entry *e, bool ahead, int32_t token) {
    engine_request *r = e->req;

    if (!ahead) r->n_computed += e->n_tokens;
    if (r->all_logits && r->n_logits_done < r->n_computed) r->n_logits_done = r->n_computed;
    if (e->samples && token < 0)
        r->finish = ENGINE_FINISH_ERROR;
    else if (e->samples)
        engine_request_append(r, token);
    else if (r->n_computed == engine_request_len(r))
        r->finish = ENGINE_FINISH_LENGTH; /* max_tokens 0 */
}

/* Those that have ended leave. */
static void drop_finished(engine_sched *s) {
    for (uint32_t i = 0; i < s->n_running;) {
        engine_finish why = s->running[i]->finish;

        if (why == ENGINE_FINISH_NONE)
            i++;
        else
            finish(s, leave_running(s, i), why);
    }
}

/* All, or those that have ended and those that are told at once. Hooks may abort others, who then leave when all have been called. */
static void tell(engine_sched *s, bool all) {
    s->telling = true;
    for (uint32_t i = 0; i < s->n_running; i++) {
        engine_request *r = s->running[i];

        if (!r->aborting && (all || r->finish != ENGINE_FINISH_NONE || r->told_at_once))
            engine_request_tell(r);
    }
    s->telling = false;
    drop_aborted(s);
    drop_finished(s);
}

void engine_sched_tell(engine_sched *s) {
    if (!s->untold) return;
    s->untold = false;
    tell(s, true);
}

void engine_sched_commit(engine_sched *s, const int32_t *tokens) {
    engine_batch *b = &s->flight[s->oldest];

    assert(s->n_flight > 0);
    engine_sched_tell(s);
    for (uint32_t i = 0; i < b->n; i++) {
        engine_batch_entry *e = &b->entry[i];

        if (!e->req) continue;
        e->req->n_flying = e->req->n_pending = 0;
        if (!e->req->aborting) commit_entry(e, b->ahead, e->samples ? tokens[i] : -1);
    }
    s->oldest ^= 1;
    s->n_flight--;
    s->stats.steps++;
    tell(s, false);
    s->untold = s->n_running > 0;
}

void engine_sched_abort(engine_sched *s, engine_request *r) {
    if (r->state == ENGINE_WAITING) {
        engine_list_remove(&s->waiting, r);
        finish(s, r, ENGINE_FINISH_ABORT);
    } else if (r->state == ENGINE_RUNNING) {
        r->aborting = true;
        if (s->n_flight == 0 && !s->telling) drop_aborted(s);
    }
}

engine_request *engine_sched_take_finished(engine_sched *s) {
    return engine_list_pop_front(&s->finished);
}

bool engine_sched_idle(const engine_sched *s) {
    return s->n_running == 0 && s->waiting.n == 0;
}

void engine_sched_get_stats(const engine_sched *s, engine_sched_stats *out) {
    *out = s->stats;
    out->waiting = s->waiting.n;
    out->running = s->n_running;
}

graph_step_shape engine_batch_shape(const engine_batch *b) {
    return (graph_step_shape){.num_tokens = (int32_t)b->num_tokens,
                              .num_reqs = (int32_t)b->n,
                              .max_query_len = (int32_t)b->max_query_len,
                              .num_logits = (int32_t)b->num_logits};
}
