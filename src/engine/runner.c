/* Glue of plans, device and graph room: what captures and what replays.
 *
 * Graphs read static buffers at fixed addresses (the parameter block); a step fills them, and the dispatch record made
 * once says which wrapper replays. PIECEWISE: one wrapper a compiled piece, attention launched between them, or one around all
 * pieces, and one for the head. FULL: one wrapper around model and head (parts.c). */
#include "engine/runner.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "compile/builtin.h"
#include "engine/room.h"
#include "engine/runner_memory.h"

/* Rows that the head computes at once for whoever scores; from some twenty on more are no faster. */
#define MIN_ROWS 32u

/* arena: that of another program, large enough; NULL: one is allocated. */
static rp_status open_program(engine_runner *r, engine_program *g, const plan *p, void *arena,
                              rp_error *err) {
    const plan_exec_options o = {.device = r->o.device,
                                 .store = r->o.store,
                                 .builtin = compile_builtin_find,
                                 .arena = arena,
                                 .check_ops = r->o.config->check_ops};
    const engine_room room = {"what the kernels of a step leave for one another",
                              "max_num_batched_tokens", r->in.b.max_tokens, HAL_DEVICE_MEMORY,
                              (size_t)p->arena_size};
    rp_error why = {0};
    rp_status st = engine_program_open(g, p, &o, &why);
    if (st == RP_OK) return RP_OK;
    if (st == RP_NOMEM && !arena && !engine_room_fits(r->o.device, &room))
        return engine_room_refuse(r->o.device, &room, err);
    return rp_fail(err, st, "%s", why.text);
}

/* (optional) p. It runs in the place of the head, so that its memory serves, where it is enough. */
static rp_status open_own_head(engine_runner *r, engine_entry *e, const plan *p, rp_error *err) {
    const engine_program *all = &r->parts.head;
    if (!p) return RP_OK;
    return open_program(r, &e->head, p,
                        p->arena_size <= all->p->arena_size ? plan_exec_arena(all->x) : NULL, err);
}

/* Code for the step sizes that have some of their own. A step runs one plan of the model, so all use one arena,
 * unless a size, fused otherwise, wants more than those before it. */
static rp_status open_entries(engine_runner *r, const engine_plans *p, rp_error *err) {
    engine_parts *ps = &r->parts;
    const engine_program *widest = &ps->model;
    if (!p->n_sized) return RP_OK;
    ps->entries = base_alloc_array(p->n_sized, sizeof *ps->entries);
    if (!ps->entries) return rp_fail(err, RP_NOMEM, "%u step sizes", p->n_sized);
    for (; ps->n_entries < p->n_sized; ps->n_entries++) {
        engine_entry *e = &ps->entries[ps->n_entries];
        const plan *own = p->sized[ps->n_entries].model;
        const bool fits = own->arena_size <= widest->p->arena_size;
        e->first = p->sized[ps->n_entries].first;
        e->last = p->sized[ps->n_entries].last;
        e->decode = p->sized[ps->n_entries].decode;
        RP_TRY(open_program(r, &e->prog, own, fits ? plan_exec_arena(widest->x) : NULL, err));
        if (!fits) widest = &e->prog;
        RP_TRY(open_own_head(r, e, p->sized[ps->n_entries].head, err));
    }
    return RP_OK;
}

/* --- life ------------------------------------------------------------------------------ */

static rp_status init_graphs(engine_runner *r, rp_error *err) {
    const rp_compilation_config *c = r->o.config;
    graph_params g = {.mode = rp_config_cudagraph_mode(c),
                      .max_num_seqs = (int32_t)c->max_num_seqs.v,
                      .max_num_batched_tokens = (int32_t)c->max_num_batched_tokens.v,
                      .uniform_query_len = 1,
                      .decode_sizes = c->decode_capture_sizes.v,
                      .n_decode_sizes = c->decode_capture_sizes.n,
                      .mixed_sizes = c->mixed_capture_sizes.v,
                      .n_mixed_sizes = c->mixed_capture_sizes.n};
    graph_state_init(&r->state, (config_sealed)c->sealed, c->require_graph);
    return graph_dispatcher_init(&r->dispatcher, &g, err);
}

rp_status engine_runner_new(const engine_runner_options *o, engine_runner **out, rp_error *err) {
    rp_status st = RP_OK;
    engine_runner *r = base_alloc(sizeof *r);
    if (!r) return rp_fail(err, RP_NOMEM, "runner");
    r->o = *o;
    r->next_crowded = 1;
    r->max_blocks = (o->max_model_len + MODEL_KV_BLOCK - 1) / MODEL_KV_BLOCK;
    r->in.b = (engine_step_buffers){.max_tokens = (uint32_t)o->config->max_num_batched_tokens.v,
                                    .max_seqs = (uint32_t)o->config->max_num_seqs.v,
                                    .max_blocks = r->max_blocks,
                                    .max_rows = (uint32_t)o->config->max_num_batched_tokens.v};
    uint32_t max_rows = r->in.b.max_seqs > MIN_ROWS ? r->in.b.max_seqs : MIN_ROWS;
    if (max_rows > r->in.b.max_tokens) max_rows = r->in.b.max_tokens;
    r->parts = (engine_parts){.config = o->config,
                              .device = o->device,
                              .state = &r->state,
                              .max = {.tokens = r->in.b.max_tokens,
                                      .rows = max_rows,
                                      .seqs = r->in.b.max_seqs,
                                      .blocks = r->max_blocks,
                                      .n_blocks = o->n_blocks,
                                      .positions = o->max_model_len}};
    RP_TRY_OUT(init_graphs(r, err));
    RP_TRY_OUT(open_program(r, &r->parts.model, o->plans->model, NULL, err));
    RP_TRY_OUT(open_program(r, &r->parts.head, o->plans->head, NULL, err));
    RP_TRY_OUT(open_entries(r, o->plans, err));
    RP_TRY_OUT(engine_runner_take_memory(r, err));
    RP_TRY_OUT(engine_layers_init(&r->layers, &r->parts.model, &r->kv, err));
    plan_exec_set_context(r->parts.model.x, &r->context);
    plan_exec_set_context(r->parts.head.x, &r->context);
    for (uint32_t i = 0; i < r->parts.n_entries; i++) {
        const engine_entry *e = &r->parts.entries[i];
        plan_exec_set_context(e->prog.x, &r->context);
        if (e->head.x) plan_exec_set_context(e->head.x, &r->context);
    }
    *out = r;
    r = NULL;
out:
    engine_runner_free(r);
    return st;
}

static void set_weights(engine_entry *e, const engine_weights *w) {
    plan_exec_set_weights(e->prog.x, engine_weights_model(w));
    if (e->head.x) plan_exec_set_weights(e->head.x, engine_weights_head(w));
}

rp_status engine_runner_bind(engine_runner *r, engine_weights *w, rp_error *err) {
    r->weights = w;
    plan_exec_set_weights(r->parts.model.x, engine_weights_model(w));
    plan_exec_set_weights(r->parts.head.x, engine_weights_head(w));
    RP_TRY(engine_weights_register(w, r->o.device, err));
    RP_TRY(engine_program_params(&r->parts.model, w, r->o.source, r->o.device, err));
    RP_TRY(engine_program_params(&r->parts.head, w, r->o.source, r->o.device, err));
    for (uint32_t i = 0; i < r->parts.n_entries; i++) set_weights(&r->parts.entries[i], w);
    RP_TRY(engine_runner_bind_inputs(r, err));
    r->parts.before = r->exchange.needed ? &r->in.fetch : NULL;
    r->parts.after = r->exchange.needed ? &r->results.deliver : NULL;
    return engine_parts_make(&r->parts, err);
}

void engine_runner_free(engine_runner *r) {
    if (!r) return;
    engine_parts_done(&r->parts);
    engine_step_free(r->step);
    graph_dispatcher_done(&r->dispatcher);
    engine_runner_give_memory(r);
    engine_layers_done(&r->layers);
    base_free(r);
}

/* --- capture ----------------------------------------------------------------------------- */

/* All graphs of a record, on a dummy step: between steps, so that nothing alive is written over. */
static rp_status capture_record(engine_runner *r, const rp_dispatch *d, rp_error *err) {
    const engine_route nowhere = engine_results_nowhere(&r->results);
    RP_TRY(engine_step_dummy(r->step, d, &r->context, err));
    engine_layers_tell(&r->layers, &r->kv, &r->context);
    if (r->o.config->cudagraph_num_of_warmups > 0) { /* else nothing runs */
        RP_TRY(engine_inputs_write(&r->in, d, engine_step_extents(r->step), &nowhere, err));
        RP_TRY(engine_inputs_fetch(&r->in, err));
    }
    return engine_parts_capture(&r->parts, d, err);
}

static rp_status capture_key(void *user, const graph_item *item, rp_error *err) {
    return capture_record(user, &item->dispatch, err);
}

static bool capture_progress(void *user, uint32_t done, uint32_t total, const graph_item *item) {
    engine_runner *r = user;
    (void)item;
    return !r->o.progress || r->o.progress(r->o.user, done, total);
}

rp_status engine_runner_capture(engine_runner *r, graph_capture_report *out, rp_error *err) {
    graph_capture_ops ops = {.user = r, .capture = capture_key, .progress = capture_progress};
    RP_TRY(graph_capture(&r->dispatcher, &r->state, &ops, out, err));
    if (r->o.config->sealed != CONFIG_SEALED_OFF) {
        graph_dispatcher_seal(&r->dispatcher);
        graph_state_seal(&r->state);
        r->o.device->seal = r->o.config->sealed == CONFIG_SEALED_FATAL ? HAL_SEALED_FATAL
                                                                       : HAL_SEALED_WARN;
    }
    return RP_OK;
}

/* --- steps ---------------------------------------------------------------------------------- */

static rp_status run_pieces(engine_runner *r, const rp_dispatch *d, rp_error *err) {
    if (r->parts.one_graph) return engine_part_call(&r->parts.all_pieces, d, err);
    RP_TRY(engine_inputs_fetch(&r->in, err));
    for (uint32_t i = 0; i < r->parts.model.p->n_pieces; i++) {
        engine_part *p = &r->parts.pieces[i];
        rp_batch_descriptor key = {.num_tokens = d->padded, .num_reqs = -1, .num_logits = -1};
        if (p->wrapper)
            RP_TRY(engine_part_call(p, d, err));
        else
            RP_TRY(engine_part_launch(p, &key, err));
    }
    return RP_OK;
}

/* Rows that the head computes at once where they are more than are kept: in whole parts of what the host gets at once. */
static uint32_t chunk_rows(const engine_runner *r) {
    return r->results.max_rows / r->results.at_once * r->results.at_once;
}

/* More rows than are kept at once have no graph: the head runs chunk by chunk, the first one here. */
static rp_status run_chunk(engine_runner *r, uint32_t first, rp_error *err) {
    rp_dispatch chunk = r->last;
    uint32_t left = (uint32_t)r->last.num_logits - first;
    uint32_t n = left < chunk_rows(r) ? left : chunk_rows(r);
    chunk.head_mode = RP_CUDAGRAPH_NONE;
    chunk.padded_logits = chunk.head_key.num_logits = (int32_t)n;
    if (first) {
        memmove(r->in.b.rows, r->in.b.rows + first, n * sizeof *r->in.b.rows);
        const engine_route nowhere = engine_results_nowhere(&r->results);
        const engine_step_extent extent = {.width = engine_step_extents(r->step).width};
        RP_TRY(engine_inputs_write(&r->in, &chunk, extent, &nowhere, err));
        RP_TRY(engine_inputs_fetch(&r->in, err));
    }
    return engine_part_call(&r->parts.head_part, &chunk, err);
}

static rp_status run_head(engine_runner *r, const rp_dispatch *d, rp_error *err) {
    if (d->padded_logits == 0) return RP_OK;
    if ((uint32_t)d->padded_logits > r->results.max_rows) return run_chunk(r, 0, err);
    return engine_part_call(&r->parts.head_part, d, err);
}

/* Eager steps go through one launch list: nothing is split that need not be. */
static rp_status run_eager(engine_runner *r, const rp_dispatch *d, rp_error *err) {
    rp_batch_descriptor key = {
        .num_tokens = d->padded, .num_reqs = -1, .num_logits = d->padded_logits};
    engine_part model = r->parts.whole;
    model.joined = NULL;
    RP_TRY(engine_inputs_fetch(&r->in, err));
    RP_TRY(engine_part_launch(&model, &key, err));
    return run_head(r, d, err);
}

/* Said at the first time and then at every doubling. */
static void hint_crowded(engine_runner *r) {
    uint64_t n = r->o.device->counters.crowded_lists;
    if (n < r->next_crowded) return;
    base_log_ch(RP_LOG_CH_PERF_HINTS, false,
                "%llu launch lists ran on one thread because other programs held the cores; free "
                "them or lower --threads",
                (unsigned long long)n);
    r->next_crowded = 2 * n;
}

/* Inputs of a step, with its graphs where they may be made now: the inputs of the dummy step for them have gone when the real ones
 * are written. */
static rp_status prepare(engine_runner *r, const engine_batch *batch, const engine_kv *kv,
                         rp_error *err) {
    graph_step_shape shape = engine_batch_shape(batch);
    engine_route route = engine_results_route(&r->results);
    rp_forward_context *fc = &r->context;
    rp_dispatch *d = &r->last;
    RP_TRY(graph_dispatch(&r->dispatcher, &shape, d, err));
    RP_TRY(graph_state_step(&r->state, d, err));
    engine_entry *e = engine_parts_entry(&r->parts, &d->key);
    if (e) e->steps++;
    if (graph_state_may_capture(&r->state) && engine_parts_lack(&r->parts, d)) {
        RP_TRY(capture_record(r, d, err));
        RP_TRY(r->o.device->ops->synchronize(r->o.device, err));
    }
    RP_TRY(engine_step_build(r->step, batch, kv, d, fc, err));
    engine_layers_tell(&r->layers, &r->kv, fc);
    RP_TRY(engine_weights_reach(r->weights, fc->attn_metadata.max_seqlen_k, err));
    route.unread = batch->unread;
    return engine_inputs_write(&r->in, d, engine_step_extents(r->step), &route, err);
}

static rp_status run_apart(engine_runner *r, const rp_dispatch *d, rp_error *err) {
    if (d->mode != RP_CUDAGRAPH_PIECEWISE) return run_eager(r, d, err);
    RP_TRY(run_pieces(r, d, err));
    return run_head(r, d, err);
}

static uint32_t rows_kept(const engine_runner *r, const rp_dispatch *d) {
    const uint32_t rows = d->num_logits > 0 ? (uint32_t)d->num_logits : 0;
    return rows < r->results.max_rows ? rows : r->results.max_rows;
}

/* A whole step takes its inputs and delivers its results itself, where that is to be done. */
static rp_status run(engine_runner *r, const rp_dispatch *d, rp_error *err) {
    const bool whole = d->mode == RP_CUDAGRAPH_FULL;
    if (whole)
        RP_TRY(engine_part_call(&r->parts.whole, d, err));
    else
        RP_TRY(run_apart(r, d, err));
    if (!whole || !r->exchange.needed)
        RP_TRY(engine_results_deliver(&r->results, rows_kept(r, d), err));
    return engine_results_launched(&r->results, err);
}

rp_status engine_runner_launch(engine_runner *r, const engine_batch *batch, const engine_kv *kv,
                               rp_error *err) {
    if (engine_results_in_flight(&r->results) == ENGINE_FLIGHTS)
        return rp_fail(err, RP_INTERNAL, "%d steps are in flight", ENGINE_FLIGHTS);
    RP_TRY(prepare(r, batch, kv, err));
    rp_status st = run(r, &r->last, err);
    if (st != RP_OK) engine_inputs_lost(&r->in);
    return st;
}

rp_status engine_runner_wait(engine_runner *r, rp_error *err) {
    RP_TRY(engine_results_wait(&r->results, err));
    hint_crowded(r);
    return RP_OK;
}

uint32_t engine_runner_in_flight(const engine_runner *r) {
    return engine_results_in_flight(&r->results);
}

void engine_runner_drain(engine_runner *r) {
    engine_results_drain(&r->results);
}

rp_status engine_runner_step(engine_runner *r, const engine_batch *batch, const engine_kv *kv,
                             rp_error *err) {
    RP_TRY(engine_runner_launch(r, batch, kv, err));
    return engine_runner_wait(r, err);
}

engine_best engine_runner_best(const engine_runner *r) {
    return engine_results_best(&r->results);
}

rp_status engine_runner_logits(engine_runner *r, uint32_t first, uint32_t n, const float **out,
                               rp_error *err) {
    return engine_results_logits(&r->results, first, n, out, err);
}

rp_status engine_runner_rows(engine_runner *r, uint32_t first, const float **out_logits,
                             rp_error *err) {
    const uint32_t most = r->results.at_once, all = (uint32_t)r->last.num_logits;
    const bool in_chunks = all > r->results.max_rows;
    const uint32_t at = in_chunks ? first % chunk_rows(r) : first;
    if (first == 0 || first % most || first >= all)
        return rp_fail(err, RP_INTERNAL, "logit rows from %u on of %u, %u at a time", first, all,
                       most);
    if (in_chunks && at == 0) RP_TRY(run_chunk(r, first, err));
    return engine_runner_logits(r, at, all - first < most ? all - first : most, out_logits, err);
}

rp_status engine_runner_time(engine_runner *r, const engine_batch *batch, const engine_kv *kv,
                             int64_t *ns, rp_error *err) {
    graph_step_shape shape = engine_batch_shape(batch);
    const engine_route route = engine_results_nowhere(&r->results);
    rp_forward_context *fc = &r->context;
    rp_dispatch d;
    RP_TRY(graph_dispatch(&r->dispatcher, &shape, &d, err));
    RP_TRY(engine_step_build(r->step, batch, kv, &d, fc, err));
    engine_layers_tell(&r->layers, &r->kv, fc);
    RP_TRY(engine_weights_reach(r->weights, fc->attn_metadata.max_seqlen_k, err));
    RP_TRY(engine_inputs_write(&r->in, &d, engine_step_extents(r->step), &route, err));
    RP_TRY(engine_inputs_fetch(&r->in, err));
    const rp_batch_descriptor apart = {
        .num_tokens = d.padded, .num_reqs = -1, .num_logits = d.padded_logits};
    const rp_batch_descriptor key = d.mode == RP_CUDAGRAPH_FULL ? d.key : apart;
    return engine_part_time(&r->parts.whole, &key, ns, err);
}

rp_status engine_runner_left(engine_runner *r, uint32_t which, size_t size, void *out,
                             rp_error *err) {
    hal_device *d = r->o.device;
    if (engine_results_in_flight(&r->results) || size > r->left_at[which + 1] - r->left_at[which])
        return rp_fail(err, RP_INTERNAL, "%zu bytes of what the model left", size);
    RP_TRY(d->ops->copy(d, out, r->left + r->left_at[which], size, err));
    return d->ops->synchronize(d, err);
}

/* --- reports ----------------------------------------------------------------------------------- */

const graph_state *engine_runner_state(const engine_runner *r) {
    return &r->state;
}

const graph_dispatcher *engine_runner_dispatcher(const engine_runner *r) {
    return &r->dispatcher;
}

uint32_t engine_runner_rows_at_once(const engine_runner *r) {
    return r->results.at_once;
}

engine_draw_reason engine_runner_draws(const engine_runner *r) {
    if (!r->exchange.needed) return ENGINE_DRAW_UNIFIED;
    return r->results.row_size / sizeof(float) > GEN_DRAW_VOCAB ? ENGINE_DRAW_VOCAB
                                                                : ENGINE_DRAW_WITHIN;
}

uint32_t engine_runner_max_blocks(const engine_runner *r) {
    return r->max_blocks;
}

const plan *engine_runner_plan(const engine_runner *r) {
    const engine_entry *e = engine_parts_entry(&r->parts, &r->last.key);
    return e ? e->prog.p : r->parts.model.p;
}

const plan *engine_runner_head(const engine_runner *r) {
    const engine_entry *e =
        r->last.mode == RP_CUDAGRAPH_FULL ? engine_parts_entry(&r->parts, &r->last.key) : NULL;
    return e && e->head.x ? e->head.p : r->parts.head.p;
}

uint64_t engine_runner_steps_of(const engine_runner *r, uint32_t i) {
    return r->parts.entries[i].steps;
}

const rp_dispatch *engine_runner_last(const engine_runner *r) {
    return &r->last;
}

void engine_runner_forget(engine_runner *r) {
    engine_parts_forget(&r->parts);
}
