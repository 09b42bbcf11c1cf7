/* Memory of steps: inputs, what the model leaves for the head, results, the KV cache. */
#include "engine/runner_memory.h"

#include "base/alloc.h"
#include "engine/decode.h"
#include "engine/room.h"
#include "gen/exchange.h"

static rp_status open_inputs(engine_runner *r, rp_error *err) {
    r->in.x = &r->exchange;
    r->in.results = &r->results;
    RP_TRY(engine_inputs_open(&r->in, r->o.device, err));
    RP_TRY(engine_step_new(&r->in.b, MODEL_KV_BLOCK, &r->step, err));
    r->in.stamps = engine_step_stamps(r->step);
    r->in.draws = engine_step_draws(r->step);
    return RP_OK;
}

static rp_status open_results(engine_runner *r, rp_error *err) {
    r->results.device = r->o.device;
    r->results.x = &r->exchange;
    r->results.max_rows = (uint32_t)r->parts.max.rows;
    r->results.row_size = model_source_hparams(r->o.source)->n_vocab * sizeof(float);
    return engine_results_open(&r->results, r->in.b.max_seqs, err);
}

static size_t left_size(const engine_runner *r) {
    return r->left_at[MODEL_N_RESULTS];
}

/* float32 rows of all tokens of a step, one result behind the other. */
static void lay_out_left(engine_runner *r, const model_hparams *hp) {
    enum { APART = 256 };
    const size_t rows = r->in.b.max_tokens, width = (size_t)hp->n_head * hp->head_dim;
    const size_t columns[] = {[MODEL_LAST] = hp->n_embd, [MODEL_HEADS] = width};
    for (uint32_t i = 0; i < MODEL_N_RESULTS; i++) {
        const size_t end = r->left_at[i] + rows * columns[i] * sizeof(float);
        r->left_at[i + 1] = (end + APART - 1) / APART * APART;
    }
}

rp_status engine_runner_take_memory(engine_runner *r, rp_error *err) {
    const model_hparams *hp = model_source_hparams(r->o.source);
    const size_t block = (size_t)hp->n_head_kv * MODEL_KV_BLOCK * hp->head_dim *
                         rp_dtype_block_bytes(r->o.kv_dtype);
    const bool by_seqs = r->o.config->max_num_seqs.v > r->o.max_model_len / MODEL_KV_BLOCK;
    void *left = NULL;
    lay_out_left(r, hp);
    const engine_room states = {"the hidden states of a step", "max_num_batched_tokens",
                                r->in.b.max_tokens, HAL_DEVICE_MEMORY, left_size(r)};
    const engine_room cache = {"the KV cache", by_seqs ? "max_num_seqs" : "max_model_len",
                               by_seqs ? r->o.config->max_num_seqs.v : r->o.max_model_len,
                               HAL_DEVICE_MEMORY, block * 2 * hp->n_layer * r->o.n_blocks};
    RP_TRY(engine_room_take(r->o.device, &states, &left, err));
    r->left = left;
    RP_TRY(engine_exchange_open(&r->exchange, r->o.device, r->parts.head.x, err));
    RP_TRY(open_results(r, err));
    RP_TRY(open_inputs(r, err));
    r->kv = (engine_kv_memory){.device = r->o.device, .block = block, .n_states = 2 * hp->n_layer};
    RP_TRY(engine_kv_memory_open(&r->kv, r->o.n_blocks, r->o.most_blocks, &cache, err));
    for (uint32_t i = 0; i < r->parts.model.p->n_states; i++)
        plan_exec_set(r->parts.model.x, PLAN_STATE, i, engine_kv_memory_state(&r->kv, i));
    return RP_OK;
}

/* Without an exchange logits are always read. */
static rp_status bind_state(const engine_runner *r, engine_program *head, rp_error *err) {
    static int32_t nothing[GEN_EXCHANGE_STATE];
    return engine_program_input(head, ENGINE_DECODE_STATE,
                                r->exchange.needed ? r->exchange.state : nothing, err);
}

rp_status engine_runner_bind_inputs(engine_runner *r, rp_error *err) {
    const engine_step_buffers *b = &r->in.b;
    const struct {
        engine_program *program;
        const char *name;
        int32_t *data;
    } inputs[] = {{&r->parts.model, "token_ids", b->token_ids},
                  {&r->parts.model, "positions", b->positions},
                  {&r->parts.model, "slots", b->slots},
                  {&r->parts.model, "seqs", b->seqs},
                  {&r->parts.model, "block_tables", b->block_tables},
                  {&r->parts.head, "rows", b->rows}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        RP_TRY(engine_program_input(inputs[i].program, inputs[i].name,
                                    engine_inputs_for_kernels(&r->in, inputs[i].data), err));
    void *left[MODEL_N_RESULTS];
    void *const results[MODEL_N_HEAD] = {[MODEL_HEAD_LOGITS] = r->results.logits,
                                         [MODEL_HEAD_BEST] = r->results.best,
                                         [MODEL_HEAD_ID] = r->results.best + r->results.max_rows};
    for (uint32_t i = 0; i < MODEL_N_RESULTS; i++) {
        left[i] = r->left + r->left_at[i];
        RP_TRY(engine_program_input(&r->parts.head, model_output_names[i], left[i], err));
    }
    RP_TRY(engine_program_outputs(&r->parts.model, left, MODEL_N_RESULTS, err));
    for (uint32_t i = 0; i < r->parts.n_entries; i++)
        if (r->parts.entries[i].decode) RP_TRY(bind_state(r, &r->parts.entries[i].head, err));
    return engine_program_outputs(&r->parts.head, results, MODEL_N_HEAD, err);
}

void engine_runner_give_memory(engine_runner *r) {
    hal_device *d = r->o.device;
    engine_inputs_close(&r->in);
    if (r->left) d->ops->release(d, r->left, left_size(r));
    engine_results_close(&r->results);
    engine_exchange_close(&r->exchange);
    engine_kv_memory_close(&r->kv);
}

/* --- looking, growing, moving ------------------------------------------------------------- */

void engine_runner_memory(const engine_runner *r, engine_memory *out) {
    const engine_parts *ps = &r->parts;
    *out = (engine_memory){
        .weights = engine_weights_bytes(r->weights),
        .kv = engine_kv_memory_bytes(&r->kv),
        .arena = plan_exec_arena_bytes(ps->model.x) + plan_exec_arena_bytes(ps->head.x),
        .consts = plan_exec_const_bytes(ps->model.x) + plan_exec_const_bytes(ps->head.x),
        .inputs = engine_inputs_bytes(&r->in) + left_size(r) +
                  engine_results_best_bytes(&r->results) + r->parts.copied_size,
        .logits = engine_results_logits_bytes(&r->results),
        .graphs = (size_t)r->state.graph_bytes};
    for (uint32_t i = 0; i < ps->n_entries; i++) {
        const engine_entry *e = &ps->entries[i];
        out->arena += plan_exec_arena_bytes(e->prog.x);
        out->consts += plan_exec_const_bytes(e->prog.x);
        if (!e->head.x) continue;
        out->arena += plan_exec_arena_bytes(e->head.x);
        out->consts += plan_exec_const_bytes(e->head.x);
    }
}

rp_status engine_runner_grow_kv(engine_runner *r, uint32_t n_blocks, rp_error *err) {
    return engine_kv_memory_grow(&r->kv, n_blocks, err);
}

engine_runner_blocks engine_runner_get_blocks(const engine_runner *r) {
    return (engine_runner_blocks){r->kv.n_blocks, r->kv.most};
}

void *engine_runner_kv(engine_runner *r, size_t *out_size) {
    *out_size = engine_kv_memory_bytes(&r->kv);
    return r->kv.all;
}

rp_status engine_runner_move_inputs(engine_runner *r, rp_error *err) {
    engine_step *step = r->step;
    engine_inputs in = r->in;
    r->step = NULL;
    r->in = (engine_inputs){.b = in.b};
    rp_status st = open_inputs(r, err);
    if (st != RP_OK) {
        engine_inputs_close(&r->in);
        r->step = step;
        r->in = in;
        return st;
    }
    engine_step_free(step);
    engine_inputs_close(&in);
    RP_TRY(engine_runner_bind_inputs(r, err));
    engine_parts_refresh(&r->parts);
    return RP_OK;
}

/* Between steps all of it is dead: rows that a step does not write, padding included, must not matter. */
rp_status engine_runner_poison(engine_runner *r, rp_error *err) {
    hal_device *d = r->o.device;
    RP_TRY(engine_inputs_poison(&r->in, err));
    engine_step_dirty(r->step);
    RP_TRY(d->ops->fill(d, r->left, 0xff, left_size(r), err));
    RP_TRY(engine_results_poison(&r->results, err));
    RP_TRY(plan_exec_poison(r->parts.model.x, err));
    RP_TRY(plan_exec_poison(r->parts.head.x, err));
    for (uint32_t i = 0; i < r->parts.n_entries; i++) {
        const engine_entry *e = &r->parts.entries[i];
        RP_TRY(plan_exec_poison(e->prog.x, err));
        if (e->head.x) RP_TRY(plan_exec_poison(e->head.x, err));
    }
    return d->ops->synchronize(d, err);
}
