/* The engine behind include/reprise/engine.h, shared by its files. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"
#include "engine/budget.h"
#include "engine/ledger.h"
#include "engine/logprobs.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "model/detok.h"
#include "model/resolve.h"
#include "reprise/engine.h"

/* What rp_engine_hidden keeps from one call to the next (hidden.c). NULL is fine. */
typedef struct engine_hidden engine_hidden;
void engine_hidden_free(engine_hidden *h);

/* A request as its submitter sees it. */
typedef struct engine_job {
    rp_engine *e;
    uint64_t id;
    engine_request *req;
    rp_request_options o;
    char **stop_strings;
    model_detok detok;
    model_stop stop;
    base_buf text;
    engine_logprobs logprobs;
    char why[128]; /* it ended */
    bool finished, aborted;
    bool released; /* gone for its submitter; freed when no call of the engine is under way */
    rp_error err;  /* why it ends with "error" */
    struct engine_job *next;
} engine_job;

enum {
    ENGINE_HOST_STEPS = 256,
    ENGINE_LONG_TOKEN = 256, /* bytes of a token for which there is room from the start */
    ENGINE_JOB_LISTS = 256
};

typedef struct engine_times {
    double load_ms;             /* of which the next six are parts */
    double fetch_ms, device_ms; /* device: opening it */
    double weights_ms,
        pack_ms; /* from the cache or, where they were packed, from the model: one of them is 0 */
    double runner_ms,
        capture_ms; /* runner: memory, modules of code, tensors read as they are in the file */
    double ttft_ms, wall_to_first_ms;
    double prefill_ms, decode_ms;
    uint64_t prefill_tokens, decode_tokens, steps;
    uint64_t step_launches; /* of the last decode step */
    /* Nanoseconds from seeing a decode step's tokens until the next is launched, without the time between calls: of the last
     * ENGINE_HOST_STEPS of all host_steps, in turns. */
    int64_t host_ns[ENGINE_HOST_STEPS];
    uint64_t host_steps;
} engine_times;

/* How far a stage of loading is. */
typedef struct engine_report {
    rp_stage stage;
    uint64_t done, total;
} engine_report;

struct rp_engine {
    rp_compilation_config *config;
    rp_compilation_config *given; /* while opening: as it was before resolving */
    model_source *source;
    model_chat chat;
    cache_store *store;
    bool cache_noted; /* that it is off */
    hal_device *device;
    rp_device *shared; /* whose queue device is; NULL: a device of its own */
    engine_plans plans;
    engine_weights *weights;
    engine_runner *runner;
    engine_kv *kv;
    engine_hidden *hidden; /* NULL: nobody has asked */
    engine_sched *sched;
    engine_sampler *sampler;
    int32_t *tokens; /* of a step, [max_num_seqs] */
    base_buf chars,
        piece; /* of the token at hand: its characters, and what of them is shown. Kept, so that a step allocates nothing */
    const engine_batch *flight; /* launched and not waited for when a step begins; NULL: none */
    bool runs_ahead;            /* where a step allows it */
    bool queues;                /* the device works while the host does */
    int64_t t_counted; /* the end of the last step, for those that tell how long one takes */
    int64_t t_seen;    /* when the tokens of the last step were */
    int64_t seen_ns;   /* from then to the end of that call; 0: there was none */
    engine_job *jobs[ENGINE_JOB_LISTS]; /* by id */
    uint64_t next_id;
    uint32_t max_model_len, n_threads;
    gen_isa isa;
    char arch[16]; /* of a GPU; "": code is the host's */
    graph_capture_report capture;
    engine_ledger ledger;
    engine_times times;
    int64_t t_submit;                    /* of the first request */
    int64_t t_fetch;                     /* fetching began; 0: nothing is fetched */
    uint64_t dropped_bytes;              /* of prompts: the vocabulary has no token for them */
    uint64_t draws[ENGINE_DRAW_REASONS]; /* requests that draw, by where they do */
    uint64_t garbage_rows;               /* of logits, each of which ended its request */
    uint64_t garbage_step;               /* the last step that had one */
    rp_error damage;                     /* of the weights, as found in that step; RP_OK: none */
    rp_error
        lost; /* of the device, which runs nothing more for anybody in this process; RP_OK: it is not */
    bool calling;        /* in a call that may call back: engine_enter to engine_leave */
    bool close_refused;  /* in a callback of that call */
    uint32_t n_released; /* jobs that wait to be freed */
    rp_progress_fn progress;
    void *user;
    pthread_mutex_t reporting; /* around progress, and of reported */
    engine_report reported;
    atomic_bool cancelled;
};

/* The text of o, which it takes. */
rp_status engine_json_text(json_t *o, base_buf *out, rp_error *err) RP_MUST_USE;
/* The KV cache (kv_cache.c). What its number of blocks goes by; bytes of as many as an engine has at least room for; sets n_blocks and
 * most_blocks of r; makes e->kv once graphs and weights have what they need. */
engine_lengths engine_kv_lengths(const rp_engine *e);
uint64_t engine_kv_least_bytes(const rp_engine *e);
void engine_kv_size(const rp_engine *e, engine_runner_options *r);
rp_status engine_kv_open_cache(rp_engine *e, rp_error *err) RP_MUST_USE;
rp_dtype engine_kv_dtype(const rp_engine *e);
/* Text form of the summary (summary.c). */
rp_status engine_summary_json(const rp_engine *e, char **out, rp_error *err) RP_MUST_USE;
/* Runs one batch through the runner and counts it; its results are the runner's. */
rp_status engine_run_step(rp_engine *e, const engine_batch *b, rp_error *err) RP_MUST_USE;
/* After a step: e->tokens[i] is entry i's, -1 where it samples nothing or its row holds no number, which its job tells (pick.c). */
rp_status engine_pick_tokens(rp_engine *e, const engine_batch *b, rp_error *err) RP_MUST_USE;
/* engine_run_step and the logits of all rows, the first engine_runner_rows_at_once of more. */
rp_status engine_run_batch(rp_engine *e, const engine_batch *b, const float **logits,
                           rp_error *err) RP_MUST_USE;
/* Ids of what r asks for, of which the vocabulary has each and there is room for (prompt.c). */
rp_status engine_prompt_ids(rp_engine *e, const rp_request_options *r, model_ids *out,
                            rp_error *err) RP_MUST_USE;
/* An engine_stop_fn over a job: text that is whole, and whether a stop string has come (text.c). */
bool engine_text_token(void *user, const engine_request *r);
/* Of a request that is over: the rest of its text, and why it ended. Whatever is wrong with the text is an error of that request. */
void engine_text_finish(engine_job *j);
/* Nothing is under way, and what was is to be computed again, by whoever wants it still (steps.c). */
void engine_fall_idle(rp_engine *e);
/* A step that nobody is left for is waited for: whoever finds the scheduler idle has the device for himself. */
void engine_settle(rp_engine *e);
/* Texts that come at the end may end others. */
void engine_take_finished(rp_engine *e);
/* Frees what was released, once nobody can be looking at it. */
void engine_reap(rp_engine *e);
/* All of them; the scheduler is gone already. */
void engine_jobs_free(rp_engine *e);
/* RP_DEVICE, always the same line, once the device is lost, which ends every request with it. */
rp_status engine_check_lost(rp_engine *e, rp_error *err) RP_MUST_USE;
/* Around a call that may call back. engine_check_lost; RP_INVALID inside of a callback: name is the call's. */
rp_status engine_enter(rp_engine *e, const char *name, rp_error *err) RP_MUST_USE;
/* Ends what finished, frees what was released in callbacks, and gives st, or the first failure where st is RP_OK. */
rp_status engine_leave(rp_engine *e, const char *name, rp_status st, rp_error *err) RP_MUST_USE;
/* A row of logits holds no number to choose by, as its largest shows, which is that of id (garbage.c): counts it, says whose it is, fills why (RP_INTERNAL). */
void engine_garbage_row(rp_engine *e, const char *who, float best, int32_t id, rp_error *why);
/* RP_CONFIG names the first id that the vocabulary does not have, RP_INVALID says that the list is NULL; part is the word for it. */
rp_status engine_ids_check(const rp_engine *e, const char *part, const int32_t *ids, uint32_t n,
                           rp_error *err) RP_MUST_USE;

#endif
