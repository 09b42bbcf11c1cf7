/* Runs steps of a loaded model: memory, bound launch lists, graph wrappers, capture, dispatch.
 *
 * One thread at a time. After engine_runner_capture no step allocates. */
#ifndef ENGINE_RUNNER_H
#define ENGINE_RUNNER_H

#include "engine/draw.h"
#include "engine/plans.h"
#include "engine/results.h"
#include "engine/step.h"
#include "engine/weights.h"
#include "graph/capture.h"
#include "graph/coverage.h"
#include "hal/hal.h"

typedef struct engine_runner engine_runner;

typedef struct engine_runner_options {
    const rp_compilation_config *config; /* resolved */
    model_source *source;
    const engine_plans *plans;
    cache_store *store;
    hal_device *device;
    rp_dtype kv_dtype;
    uint32_t max_model_len;
    uint32_t n_blocks;    /* KV blocks with the null block, to begin with */
    uint32_t most_blocks; /* on a device with memory of its own: as many as there may be later */
    bool (*progress)(void *user, uint32_t done, uint32_t total);
    void *user;
} engine_runner_options;

/* Loads code and takes all memory of steps, so that what does not fit is told before weights are packed. Everything in options is borrowed for the
 * life of the runner. */
rp_status engine_runner_new(const engine_runner_options *o, engine_runner **out,
                            rp_error *err) RP_MUST_USE;
/* Once, before anything runs; w is borrowed for the life of the runner. */
rp_status engine_runner_bind(engine_runner *r, engine_weights *w, rp_error *err) RP_MUST_USE;
void engine_runner_free(engine_runner *r);
/* Captures the ladder, then seals. */
rp_status engine_runner_capture(engine_runner *r, graph_capture_report *out,
                                rp_error *err) RP_MUST_USE;

/* One step: dispatch, build inputs, queue everything that it does, up to the largest logits of its rows on their way to the host. A second one can be
 * launched before the first is waited for; its entries then read tokens where that leaves them. Row i of its results belongs to the i-th logit row of the batch; of a batch that wants
 * more than are kept they are the first so many. */
rp_status engine_runner_launch(engine_runner *r, const engine_batch *batch, const engine_kv *kv,
                               rp_error *err) RP_MUST_USE;
/* Waits for the oldest step that was launched and not waited for. */
rp_status engine_runner_wait(engine_runner *r, rp_error *err) RP_MUST_USE;
uint32_t engine_runner_in_flight(const engine_runner *r);
/* Waits for all of them, whatever they gave. */
void engine_runner_drain(engine_runner *r);
/* Both. */
rp_status engine_runner_step(engine_runner *r, const engine_batch *batch, const engine_kv *kv,
                             rp_error *err) RP_MUST_USE;
/* Of each row of the step waited for last, the largest logit and the first token that has it, or the one that the step has drawn; a NaN is
 * largest. Valid until the next wait. */
engine_best engine_runner_best(const engine_runner *r);
/* Logits of rows [first, first + n), with stride n_vocab; valid until the next call. Where memory of the device is its own they
 * come from there now. RP_INTERNAL where another step is in flight, which writes to them. */
rp_status engine_runner_logits(engine_runner *r, uint32_t first, uint32_t n, const float **out,
                               rp_error *err) RP_MUST_USE;
/* The same launches without a graph, each timed on its own and added to ns (engine_part_time); counts as no step. */
rp_status engine_runner_time(engine_runner *r, const engine_batch *batch, const engine_kv *kv,
                             int64_t *ns, rp_error *err) RP_MUST_USE;

/* The rows from `first` on of a batch that wants more, after engine_runner_step and in ascending order, at most
 * engine_runner_rows_at_once at a time, a multiple of which first is. They take the place of the rows before, and *out_logits has
 * them all. */
rp_status engine_runner_rows(engine_runner *r, uint32_t first, const float **out_logits,
                             rp_error *err) RP_MUST_USE;
/* Rows of logits that the host gets at once: all that are kept, which are one a request and enough that scoring runs the head at its full
 * speed, or a part of them where they come from a device. */
uint32_t engine_runner_rows_at_once(const engine_runner *r);

/* The first size bytes of what the model left in the step waited for last (enum model_output), a row a token, on the host. */
rp_status engine_runner_left(engine_runner *r, uint32_t which, size_t size, void *out,
                             rp_error *err) RP_MUST_USE;

/* Whether steps draw tokens themselves, or why not. */
engine_draw_reason engine_runner_draws(const engine_runner *r);

const graph_state *engine_runner_state(const engine_runner *r);
const graph_dispatcher *engine_runner_dispatcher(const engine_runner *r);
uint32_t engine_runner_max_blocks(const engine_runner *r); /* of one sequence */
/* The plans of model and head by which the last step ran. */
const plan *engine_runner_plan(const engine_runner *r);
const plan *engine_runner_head(const engine_runner *r);
/* Steps that the i-th of engine_plans.sized served. */
uint64_t engine_runner_steps_of(const engine_runner *r, uint32_t i);
/* The record of the last step. */
const rp_dispatch *engine_runner_last(const engine_runner *r);

typedef struct engine_memory {
    size_t weights, kv, arena, consts, inputs, logits, graphs;
} engine_memory;
void engine_runner_memory(const engine_runner *r, engine_memory *out);

/* KV blocks that there are, and that there may be. */
typedef struct engine_runner_blocks {
    uint32_t now, most;
} engine_runner_blocks;
engine_runner_blocks engine_runner_get_blocks(const engine_runner *r);
/* More of them, at the same addresses; RP_NOMEM leaves those that there were. */
rp_status engine_runner_grow_kv(engine_runner *r, uint32_t n_blocks, rp_error *err) RP_MUST_USE;

/* Static buffers and states, for tests of the laws: the KV cache where all of it is memory of the host, else NULL. */
void *engine_runner_kv(engine_runner *r, size_t *out_size);
rp_status engine_runner_poison(engine_runner *r, rp_error *err) RP_MUST_USE;
/* Step inputs lie elsewhere from now on, as with a caller who brings arrays of his own. Graphs are left alone. */
rp_status engine_runner_move_inputs(engine_runner *r, rp_error *err) RP_MUST_USE;
/* Drops every captured graph; the dispatcher still believes in them. */
void engine_runner_forget(engine_runner *r);

#endif
