/* Serving a model from one process: load, generate, score, report.
 *
 * An engine loads a model (traces and compiles it, or finds it in the cache), captures its graphs,
 * is sealed, and then runs requests in a continuous batch.
 *
 * Callbacks (on_text, on_token) may call the engine: submit, abort, release (what it frees stays until the call that
 * called back returns), result and whatever else only reads. rp_engine_step and rp_engine_score are RP_INVALID there;
 * rp_engine_close closes nothing and makes the call under way RP_INVALID.
 *
 * The model's file stays mapped as long as its engine lives. Cut short or written to meanwhile, a step fails with RP_IO;
 * renamed, removed or replaced under its name it is used on. While anything is mapped the process has a handler of SIGBUS;
 * faults elsewhere go to the handler that was there before, which is back after the last engine. A handler of your own is
 * installed before rp_engine_open, or hands on what it does not know. */
#ifndef REPRISE_ENGINE_H
#define REPRISE_ENGINE_H

#include "reprise/config.h"
#include "reprise/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One thread at a time per engine, callbacks included; engines are independent of each other. */
typedef struct rp_engine rp_engine;

/* Stages of loading, for progress bars. */
typedef enum rp_stage {
    RP_STAGE_FETCH,
    RP_STAGE_PACK,
    RP_STAGE_COMPILE,
    RP_STAGE_CAPTURE
} rp_stage;
/* done of total; false cancels (RP_CANCELLED). Called from the thread that opens the engine, or one at a time
 * from compile threads. */
typedef bool (*rp_progress_fn)(void *user, rp_stage stage, uint64_t done, uint64_t total);

typedef struct rp_engine_options {
    size_t size;       /* sizeof(rp_engine_options) */
    const char *model; /* .gguf file, smollm2, synthetic:NAME[,...] */
    rp_compilation_config
        *config; /* taken over, also on failure; unresolved; NULL: the library's defaults */
    const char *chat_template; /* NULL: the model's; "chatml", "none" */
    rp_progress_fn progress;
    void *user;
    bool no_capture; /* stop before capture (reprise compile) */
    /* (optional) Runs on this device, which it shares with others and keeps a reference of, instead of one that it opens by
     * `device` and `threads` of the configuration; where those are set they must agree (RP_CONFIG). Memory, code and
     * counters stay the engine's own. */
    rp_device *device;
    /* (optional) As enable_if of vLLM's support_torch_compile: asked once, with what the configuration comes to for this model. False: it
     * runs at level 0, which the notes say. */
    bool (*enable_if)(void *user, const rp_compilation_config *config);
} rp_engine_options;
#define RP_ENGINE_OPTIONS_INIT \
    { sizeof(rp_engine_options), NULL, NULL, NULL, NULL, NULL, false, NULL, NULL }

/* RP_NOT_FOUND, RP_CORRUPT, RP_CONFIG, RP_UNSUPPORTED with one line that says what to do. Only where o->size cannot be a
 * size (RP_INVALID) is o->config not taken over. */
RP_API rp_status rp_engine_open(const rp_engine_options *o, rp_engine **out,
                                rp_error *err) RP_MUST_USE;
RP_API void rp_engine_close(rp_engine *e); /* NULL is fine */
/* Kills the programs that loading runs now (compilers, the package manager that fetches a model), which have process groups
 * of their own: for the handler of a signal that ends the process without waiting for rp_engine_open. Async-signal-safe. */
RP_API void rp_compilers_kill(void);

typedef struct rp_sampling {
    double temperature; /* 0: greedy */
    double top_p;       /* 1: off */
    double min_p;       /* 0: off */
    int32_t top_k;      /* 0 or -1: off */
    uint64_t seed;
} rp_sampling;

typedef struct rp_message {
    const char *role, *content;
} rp_message;

/* Most alternatives of one position, in top_logprobs and top_logits. */
#define RP_MAX_TOP 1024

typedef struct rp_request_options {
    size_t size; /* sizeof(rp_request_options) */
    /* Exactly one of the three. Text goes through the chat template unless raw; it may be any bytes: those that the
     * vocabulary has no token for are left out, which a warning and a skip of the summary say. */
    const char *prompt;
    const rp_message *messages;
    uint32_t n_messages;
    const int32_t *prompt_ids;
    uint32_t n_prompt_ids;
    bool raw;
    uint32_t max_tokens; /* 0: as many as fit */
    rp_sampling sampling;
    bool ignore_eos;
    const char *const *stop; /* stop strings, not part of the text */
    uint32_t n_stop;
    /* (optional) Text as it becomes whole characters; borrowed until it returns; false aborts the request. On a device that runs
     * beside the host it is called in the step after, while the device is at that. */
    bool (*on_text)(void *user, uint64_t id, const char *text, size_t len);
    void *user;
    bool logprobs;         /* keep the log probability of each output token */
    uint32_t top_logprobs; /* and with it those of so many likeliest ones, at most RP_MAX_TOP */
} rp_request_options;
#define RP_REQUEST_OPTIONS_INIT                                                              \
    {                                                                                        \
        sizeof(rp_request_options), NULL, NULL, 0, NULL, 0, false, 0, {0.0, 1.0, 0.0, 0, 0}, \
            false, NULL, 0, NULL, NULL, false, 0                                             \
    }

/* Queues a request. RP_CONFIG for a prompt that is empty, cannot fit or holds unknown ids, with the numbers. */
RP_API rp_status rp_engine_submit(rp_engine *e, const rp_request_options *r, uint64_t *out_id,
                                  rp_error *err) RP_MUST_USE;
/* One step of the batch; *out_more is false when nothing is left to do. Where the next step runs by then, what this one gave is told
 * (on_text, rp_result) by the next call, after it has launched the step behind. A request whose logits are not numbers ends with
 * an error of its own (rp_result); a failure returned here is one of the step, which can be tried again. But for one that the device does
 * not recover from (a kernel that touched memory it may not, a GPU with broken memory): all requests end with it, every call that wants the
 * device gives RP_DEVICE with the same line, also of other engines on that device, and what is left to do is to close them. A GPU's driver
 * then gives this process no new context, as a rule, which opening another engine there tells; on the cpu, and in a new process, one opens as ever. */
RP_API rp_status rp_engine_step(rp_engine *e, bool *out_more, rp_error *err) RP_MUST_USE;
RP_API void rp_engine_abort(rp_engine *e, uint64_t id);

typedef struct rp_result {
    size_t size; /* sizeof(rp_result), set by the caller; may be an older, smaller one */
    uint64_t id;
    const int32_t *prompt_ids, *output_ids;
    uint32_t n_prompt_ids, n_output_ids;
    const char *text;          /* NUL-terminated */
    const char *finish_reason; /* "stop", "length", "abort", "error"; "" while running */
    /* What did it: "stop token <|im_end|>", "max_tokens 32", the error; "" while running. */
    const char *finish_detail;
    const char *error; /* with "error" one line that says why; else "" */
    /* With logprobs, else NULL: [n_output_ids] of the unmodified logits, as rp_engine_score gives them, and [n_output_ids,
     * n_top] of the likeliest, descending. */
    const double *logprobs, *top_logprobs;
    const int32_t *top_ids;
    uint32_t n_top;
    uint64_t
        n_computed; /* tokens whose keys and values are in the cache: below n_prompt_ids the prompt is being read */
} rp_result;
#define RP_RESULT_INIT \
    { sizeof(rp_result), 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0 }
/* Fills *out, whose size is set. Borrowed until rp_engine_release of that id. RP_NOT_FOUND for an unknown id. */
RP_API rp_status rp_engine_result(const rp_engine *e, uint64_t id, rp_result *out,
                                  rp_error *err) RP_MUST_USE;
/* Ends the request if it runs, and forgets it; unknown ids are fine. */
RP_API void rp_engine_release(rp_engine *e, uint64_t id);

/* Teacher forcing: feeds prompt and continuation in forwards of `step` tokens and reports each
 * continuation token. ids are the model's. */
typedef struct rp_score_options {
    size_t size; /* sizeof(rp_score_options) */
    const int32_t *prompt_ids, *continuation_ids;
    uint32_t n_prompt_ids, n_continuation_ids;
    uint32_t step;       /* tokens a forward; 0: as many as the batch allows */
    uint32_t top_logits; /* k, at most RP_MAX_TOP */
    /* position: of the token in the sequence; top_ids, top_logits: k largest, descending. */
    void (*on_token)(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                     const int32_t *top_ids, const float *top_logits);
    void *user;
} rp_score_options;
#define RP_SCORE_OPTIONS_INIT \
    { sizeof(rp_score_options), NULL, NULL, 0, 0, 0, 0, NULL, NULL }
RP_API rp_status rp_engine_score(rp_engine *e, const rp_score_options *o, double *out_perplexity,
                                 rp_error *err) RP_MUST_USE;

/* Hidden states of a prompt: of each token what the last layer makes of it. */
typedef struct rp_hidden_options {
    size_t size; /* sizeof(rp_hidden_options) */
    const int32_t *prompt_ids;
    uint32_t n_prompt_ids;
    /* False: the sum that leaves the last layer. True: that behind the model's output norm, whose products with the rows of the output matrix are
     * the logits; what embeddings are made of. */
    bool normed;
    /* In the order of positions; row: width numbers, borrowed until it returns. */
    void (*on_token)(void *user, uint32_t position, const float *row, uint32_t width);
    void *user;
} rp_hidden_options;
#define RP_HIDDEN_OPTIONS_INIT \
    { sizeof(rp_hidden_options), NULL, 0, false, NULL, NULL }
/* On an engine without requests under way (RP_INVALID). The last layer behind its attention is computed by the host, whatever the device: it is
 * compiled at the first call of an engine, which keeps its weights of that layer once more as they are in the file. */
RP_API rp_status rp_engine_hidden(rp_engine *e, const rp_hidden_options *o,
                                  rp_error *err) RP_MUST_USE;

/* Text to ids with special tokens recognised, any bytes as in a request, and back; owned by the caller (rp_engine_text_free). */
RP_API rp_status rp_engine_tokenize(rp_engine *e, const char *text, size_t len, int32_t **out,
                                    uint32_t *out_n, rp_error *err) RP_MUST_USE;
RP_API rp_status rp_engine_detokenize(rp_engine *e, const int32_t *ids, uint32_t n, char **out,
                                      rp_error *err) RP_MUST_USE;
/* The prompt as ids after the chat template. */
RP_API rp_status rp_engine_chat_ids(rp_engine *e, const rp_message *messages, uint32_t n,
                                    int32_t **out, uint32_t *out_n, rp_error *err) RP_MUST_USE;
RP_API void rp_engine_text_free(void *p);

/* The summary as one JSON object: model, device, config (the resolved one), level, cudagraph_mode, threads, load_ms and of it fetch_ms,
 * device_ms, trace_ms, compile_ms, pack_ms or weights_ms, runner_ms, capture_ms; ttft_ms, wall_to_first_token_ms, prefill_tok_s (prefill_tokens in prefill_ms),
 * decode_tok_s (decode_tokens in decode_ms; a step that a GPU has in hand between two calls takes that time, too),
 * host_us (median of the last 256 times from seeing a decode step's tokens until the next is launched, without that between calls;
 * null where launches return when they are done), wall_ms (rp_process_age_ms now), chat_template (chatml, none, or unknown: messages are refused), debug_dump (folder or null),
 * peak_rss_bytes, memory{...}, device_memory{total, free, and who has the rest: context (the driver's, and what others had when the engine opened the device), weights, kv, steps (what launches leave for one another, inputs, logits),
 * code (loading it took that), graphs; bytes of the device, and where nobody else uses it all but 1 % of total - free; null where its memory is the host's}, weights_shared{engines that read these weights, bytes of memory.weights that they share, 0 for one}, pieces{total, compiled, distinct, loaded}, traces, compiles, cache_hits, kernels,
 * compile_sizes[{tokens, steps, kernels, compiles, from_cache, compile_ms}], compile_ranges[the same with first and last], captures, replays, eager_steps, launches_per_step, graph_breaks, recompiles, passes[{name,matches}], skips[{what,reason}] and more.
 * Owned by the caller (rp_engine_text_free). */
RP_API rp_status rp_engine_summary(const rp_engine *e, char **out, rp_error *err) RP_MUST_USE;
/* Which key serves each reachable batch, as text. */
RP_API rp_status rp_engine_coverage(const rp_engine *e, char **out, rp_error *err) RP_MUST_USE;
/* The same as a JSON object: runs[{kind, from, to, mode, key, max_padding, reason}] of decode (requests), prefill and mixed
 * batches (tokens); sizes, without_graph, tokens and padding over all of them. */
RP_API rp_status rp_engine_coverage_json(const rp_engine *e, char **out, rp_error *err) RP_MUST_USE;

typedef struct rp_profile_options {
    size_t size;      /* sizeof(rp_profile_options) */
    uint32_t steps;   /* to measure, RP_PROFILE_MAX_STEPS at most; 0: 32 */
    uint32_t context; /* positions in the cache before; 0: 128, fewer where they do not fit */
    bool
        read_limit; /* measures, too, how fast the device reads the packed weights and does nothing else */
    bool timeline; /* lists the launches in their order */
} rp_profile_options;
#define RP_PROFILE_OPTIONS_INIT \
    { sizeof(rp_profile_options), 0, 0, false, false }
#define RP_PROFILE_MAX_STEPS 4096
/* Measures decode steps of one made-up request, on an engine without requests under way. One JSON object: steps, context,
 * launches (of a step), step_ms (as served, median), launches_ms (one by one, mean of the sums), read_limit_gb_s (null: not asked for, or no weights
 * to read), pieces[{name, count (equal pieces together), ms (a step), share (of launches_ms), bytes (of weights and cache that a step reads), gb_s,
 * of_limit (gb_s over read_limit_gb_s), splitting, launches[{name, count, ms, share, bytes, gb_s, of_limit}]}], and where it is asked for timeline[{name,
 * piece, ms (mean), bytes}]; bytes, gb_s and of_limit are null where they are not known. A GPU's launches are timed by its own clock, between two events. Owned by
 * the caller (rp_engine_text_free). RP_CONFIG when the positions do not fit. */
RP_API rp_status rp_engine_profile(rp_engine *e, const rp_profile_options *o, char **out,
                                   rp_error *err) RP_MUST_USE;
RP_API const rp_compilation_config *rp_engine_config(const rp_engine *e);

#ifdef __cplusplus
}
#endif
#endif
