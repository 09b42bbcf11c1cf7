/* One request: its tokens, how to sample, when to stop. One thread at a time. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Temperatures below this are greedy, as in vLLM. */
#define ENGINE_GREEDY_BELOW 1e-5

typedef struct engine_sampling {
    double temperature; /* 0: greedy, and nothing below counts */
    double top_p;       /* 1: off */
    double min_p;       /* 0: off */
    int32_t top_k;      /* 0 or -1: off */
    uint64_t seed;
} engine_sampling;
#define ENGINE_SAMPLING_GREEDY \
    { .temperature = 0, .top_p = 1, .min_p = 0 }

/* RP_CONFIG names the value out of range. */
rp_status engine_sampling_check(const engine_sampling *s, rp_error *err) RP_MUST_USE;

typedef enum engine_finish {
    ENGINE_FINISH_NONE,
    ENGINE_FINISH_STOP,   /* a stop token or the stop hook */
    ENGINE_FINISH_LENGTH, /* max_tokens, or no position left */
    ENGINE_FINISH_ABORT,
    ENGINE_FINISH_ERROR /* its logits hold no number to choose by */
} engine_finish;
/* "", "stop", "length", "abort", "error". */
const char *engine_finish_name(engine_finish f);

typedef enum engine_request_state {
    ENGINE_NEW,
    ENGINE_WAITING,
    ENGINE_RUNNING,
    ENGINE_FINISHED
} engine_request_state;

typedef struct engine_request engine_request;
/* Called for each output token, number r->n_told of r->output, once it is certain; true ends the request with STOP. */
typedef bool (*engine_stop_fn)(void *user, const engine_request *r);

typedef struct engine_request_options {
    uint64_t id;
    const int32_t *prompt; /* copied */
    uint32_t n_prompt;
    uint32_t max_tokens; /* 0: only computes the prompt */
    engine_sampling sampling;
    const int32_t *stop_ids; /* copied; EOS among them unless it is to be ignored */
    uint32_t n_stop_ids;
    bool all_logits;     /* logits of every position, not of the last alone */
    bool explained;      /* log probabilities of its tokens are wanted */
    bool told_at_once;   /* its stop hook is asked before the next step */
    bool draws_within;   /* its tokens are drawn within the step (draw.h), where they are drawn */
    engine_stop_fn stop; /* (optional) stop strings, streaming */
    void *user;
} engine_request_options;

/* Read by all, written by the scheduler alone. What every step reads comes first. */
struct engine_request {
    int32_t *prompt, *output;
    uint32_t n_prompt, n_output, max_output;
    uint32_t n_told;     /* output tokens that the stop hook has seen */
    uint32_t n_computed; /* positions whose keys and values are in the cache, or will be: */
    uint32_t n_flying;   /* the last of them are computed by a step under way .. */
    uint32_t n_pending,
        pending_row; /* .. which samples so many tokens (0 or 1), from that row of its logits */
    uint32_t
        n_shared; /* the first of them, in blocks that another request of the same prompt had first */
    engine_request *leader; /* computes those now, and is waited for; NULL: nobody is */
    uint32_t n_logits_done; /* all_logits: positions whose logits were handed out */
    engine_finish finish;
    uint32_t seq; /* KV sequence while RUNNING */
    uint32_t n_stop_ids;
    bool all_logits, explained, draws_within, told_at_once, aborting;
    engine_sampling sampling;
    int32_t *stop_ids;
    engine_stop_fn stop;
    void *user;
    engine_request_state state;
    uint32_t max_tokens;
    uint64_t id;
    uint32_t n_preempted;
    uint64_t arrival;     /* order of adding */
    engine_request *next; /* waiting or finished list */
};

/* RP_INVALID for an empty prompt, RP_CONFIG for sampling values out of range. */
rp_status engine_request_new(const engine_request_options *o, engine_request **out,
                             rp_error *err) RP_MUST_USE;
/* The scheduler must not hold r any more. NULL is fine. */
void engine_request_free(engine_request *r);

uint32_t engine_request_len(const engine_request *r); /* prompt and output */
int32_t engine_request_token(const engine_request *r, uint32_t position);
/* With the token that is under way. */
uint32_t engine_request_total(const engine_request *r);
/* Ends with the token that is under way, whatever that is. */
bool engine_request_over(const engine_request *r);
/* Its tokens are not those of the largest logits, .. */
bool engine_request_draws(const engine_request *r);
/* .. and the device draws them. */
bool engine_request_draws_within(const engine_request *r);
/* The host reads the logits of its tokens: it draws them itself, or log probabilities are wanted. */
bool engine_request_watched(const engine_request *r);
/* Positions that are not computed, and not under way. */
uint32_t engine_request_left(const engine_request *r);

/* ---- for the scheduler ---- */

/* Room for n output tokens, so that a step never allocates. */
rp_status engine_request_reserve(engine_request *r, uint32_t n, rp_error *err) RP_MUST_USE;
/* Appends a token. Where a stop token or the length ends the request with it, r->finish says so. */
void engine_request_append(engine_request *r, int32_t token);
/* Shows the stop hook what it has not seen; it may end the request, whatever else would. */
void engine_request_tell(engine_request *r);

#endif
