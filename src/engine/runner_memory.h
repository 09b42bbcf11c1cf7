/* A runner as its files share it, and the memory of its steps. */
#ifndef ENGINE_RUNNER_MEMORY_H
#define ENGINE_RUNNER_MEMORY_H

#include "engine/inputs.h"
#include "engine/kv_memory.h"
#include "engine/layers.h"
#include "engine/parts.h"
#include "engine/results.h"
#include "engine/runner.h"

struct engine_runner {
    engine_runner_options o;
    const engine_weights *weights;
    engine_parts parts;
    graph_dispatcher dispatcher;
    graph_state state;
    engine_step *step;
    engine_exchange exchange;
    engine_inputs in;
    engine_results results;
    char *left; /* what the model leaves for the head */
    uint32_t max_blocks;
    engine_kv_memory kv;
    size_t left_at[MODEL_N_RESULTS + 1]; /* where each lies, and the end */
    rp_dispatch last;
    engine_layers layers;
    rp_forward_context context; /* of the step under way, or the last one */
    uint64_t next_crowded;      /* the count of crowded lists that is worth a hint */
};

/* All of it, once the programs are open; given back also where only some was had. */
rp_status engine_runner_take_memory(engine_runner *r, rp_error *err) RP_MUST_USE;
void engine_runner_give_memory(engine_runner *r);
/* Tells both programs where their inputs and outputs lie. */
rp_status engine_runner_bind_inputs(engine_runner *r, rp_error *err) RP_MUST_USE;

#endif
