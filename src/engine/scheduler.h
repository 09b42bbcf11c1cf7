/* Continuous batching: which tokens of which requests run in the next step.
 *
 * Every decode first. Of what is left half belongs to the oldest prompt and the other half goes to whoever has the least
 * left, so a short prompt is not kept by long ones and a long one is not kept by any number of short ones: the oldest gets
 * its half in every step until it is done, and then another is the oldest.
 *
 * Running requests of one prompt, such as its samples, compute it once: the later ones name the full blocks of the first,
 * wait until it is through them, and compute what is left of the prompt, a block at most, themselves.
 *
 * One thread at a time: next, run the step, commit, next, ...; or next, launch, ahead, launch, wait for the first, commit, ahead, ... Nothing allocates between
 * engine_sched_add and the end of the request. */
#ifndef ENGINE_SCHEDULER_H
#define ENGINE_SCHEDULER_H

#include "engine/kv_blocks.h"
#include "engine/request.h"
#include "graph/dispatcher.h"

#define ENGINE_CHUNK_SHARED UINT32_MAX

typedef struct engine_sched_options {
    uint32_t max_num_seqs;
    uint32_t max_num_batched_tokens; /* at least max_num_seqs */
    uint32_t max_model_len;
    /* Most prompt tokens of one request in one step; 0: no limit, so that the oldest takes all it can;
     * ENGINE_CHUNK_SHARED: half of the step, and what others leave. */
    uint32_t prefill_chunk;
    uint32_t max_logits; /* logit rows of one step; 0: max_num_batched_tokens */
    uint32_t vocab_size; /* prompt ids are checked against it; 0: not */
} engine_sched_options;

/* What one request does in a step: positions start .. start + n_tokens - 1. */
typedef struct engine_batch_entry {
    engine_request *req; /* NULL: it ended since, and nobody wants what this computes */
    uint32_t seq;        /* KV sequence */
    uint32_t start, n_tokens;
    uint32_t n_logits; /* its last n_logits positions need logits */
    int32_t
        from; /* the logit row of the step before whose token is at its last position; -1: the request has that already */
    uint32_t step; /* output tokens in front of the one that it samples */
    bool prefill;
    bool samples; /* the last of them is sampled from */
} engine_batch_entry;

/* Decodes come first. Borrowed from the scheduler until the commit. */
typedef struct engine_batch {
    engine_batch_entry *entry;
    uint32_t n; /* requests */
    uint32_t num_tokens, max_query_len, num_logits;
    uint32_t n_prefills, n_decodes;
    bool ahead; /* the scheduler's: another was made behind it */
    bool
        unread; /* the host reads no logits of it: another step may be launched before it has been looked at */
} engine_batch;

typedef struct engine_sched_stats {
    uint64_t steps, preemptions, finished;
    uint32_t waiting, running, most_running;
} engine_sched_stats;

typedef struct engine_sched engine_sched;

/* kv is borrowed for the life of the scheduler and must have max_num_seqs sequences. */
rp_status engine_sched_new(const engine_sched_options *o, engine_kv *kv, engine_sched **out,
                           rp_error *err) RP_MUST_USE;
/* Requests still held are marked ABORT and given back their blocks, but not freed. NULL is fine. */
void engine_sched_free(engine_sched *s);

/* Queues r (state NEW); the caller keeps ownership and frees it once it is FINISHED. Its output is
 * cut to what max_model_len and the KV cache can hold. RP_INVALID, with the numbers, for a prompt
 * that can never fit. */
rp_status engine_sched_add(engine_sched *s, engine_request *r, rp_error *err) RP_MUST_USE;
/* The next step; *out is NULL when nothing is left to do. Without a commit in between the same
 * positions are scheduled again. */
rp_status engine_sched_next(engine_sched *s, const engine_batch **out, rp_error *err) RP_MUST_USE;
/* The step behind the one under way, as if that were done: to be run behind it, and before its tokens are known. NULL when there is none
 * until it is committed. The step under way must be the only one, and every request that samples in it must be one whose tokens the
 * step after can read where they are made. */
const engine_batch *engine_sched_ahead(engine_sched *s);
/* The oldest step is done: tokens[i] belongs to entry i and counts where it samples; a negative one is none, and
 * ends that request with ERROR. Finished requests leave and give back their blocks. Stop hooks of those
 * that leave, or are told at once, see their tokens; the others' see them by engine_sched_tell,
 * engine_sched_next or the next commit. */
void engine_sched_commit(engine_sched *s, const int32_t *tokens);
/* Shows the stop hooks of running requests the tokens of the last commit, if they have not seen them, whatever is under way behind it:
 * what that computes for those that end now is nobody's. */
void engine_sched_tell(engine_sched *s);
/* The steps under way were not run, or failed: what they would have computed stays to be done. */
void engine_sched_cancel(engine_sched *s);
/* Ends r at once, or at the commit when it is part of a step under way. */
void engine_sched_abort(engine_sched *s, engine_request *r);
/* Oldest finished request not yet taken, or NULL. */
engine_request *engine_sched_take_finished(engine_sched *s);
bool engine_sched_idle(const engine_sched *s); /* nothing waits or runs */
void engine_sched_get_stats(const engine_sched *s, engine_sched_stats *out);

/* The sizes of a batch, for the dispatcher. */
graph_step_shape engine_batch_shape(const engine_batch *b);

#endif
