/* Hidden states of a prompt. A step leaves what the last layer got and what its heads read (model_output); what is behind them is a graph of its
 * own here, compiled when somebody asks, so that no step of others does anything for it. */
#include "base/alloc.h"
#include "base/options.h"
#include "engine/alone.h"
#include "model/llama.h"
#include "reprise/graph.h"
#include "reprise/node.h"

enum { N_OUT = 2 }; /* as they are, and normed */

struct engine_hidden {
    rp_compiled *behind;
    uint8_t **weights; /* n_weights of it, as they are in the file */
    uint32_t n_weights;
    float *in[MODEL_N_RESULTS], *out[N_OUT]; /* max_num_batched_tokens rows each */
    uint32_t width[MODEL_N_RESULTS];
};

void engine_hidden_free(engine_hidden *h) {
    if (!h) return;
    rp_compiled_free(h->behind);
    for (uint32_t i = 0; h->weights && i < h->n_weights; i++) base_free(h->weights[i]);
    base_free(h->weights);
    for (int i = 0; i < MODEL_N_RESULTS; i++) base_free(h->in[i]);
    for (int i = 0; i < N_OUT; i++) base_free(h->out[i]);
    base_free(h);
}

/* --- the graph -------------------------------------------------------------------------------- */

/* The engine's settings, but for those of steps, which a graph that runs on the host does not have. */
static rp_status settings(const rp_engine *e, rp_compilation_config **out, rp_error *err) {
    RP_TRY(rp_config_clone(e->config, out, err));
    rp_compilation_config *c = *out;
    base_free(c->device);
    c->device = base_strdup("cpu");
    c->threads = e->n_threads;
    c->compile_sizes.n = 0;
    c->compile_sizes.word = false;
    c->compile_ranges_endpoints.n = 0;
    c->cudagraph_mode = (config_oenum){true, RP_CUDAGRAPH_NONE};
    return c->device ? RP_OK : rp_fail(err, RP_NOMEM, "hidden states");
}

static rp_status compile(rp_engine *e, engine_hidden *h, const rp_graph *g, rp_error *err) {
    rp_compilation_config *c = NULL;
    rp_status st = settings(e, &c, err);
    if (st == RP_OK) st = rp_compile(g, c, &h->behind, err);
    rp_config_free(c);
    return st;
}

/* Params of g have names of the file. */
static rp_status bind(rp_engine *e, engine_hidden *h, const rp_graph *g, rp_error *err) {
    const uint32_t n = rp_graph_count(g, RP_GRAPH_PARAMS);
    h->weights = base_alloc_array(n + 1u, sizeof *h->weights);
    if (!h->weights) return rp_fail(err, RP_NOMEM, "hidden states");
    for (uint32_t i = 0; i < n; i++) {
        rp_node node = RP_NODE_INIT;
        model_tensor t;
        RP_TRY(rp_graph_node(g, rp_graph_at(g, RP_GRAPH_PARAMS, i), &node, err));
        RP_TRY(model_source_tensor(e->source, node.name, &t, err));
        uint8_t *data = base_alloc_aligned(t.size, 64);
        if (!data) return rp_fail(err, RP_NOMEM, "hidden states: %zu bytes", t.size);
        h->weights[h->n_weights++] = data;
        RP_TRY(
            model_source_rows(e->source, t.idx, 0, t.dims[1] * t.dims[2] * t.dims[3], data, err));
        RP_TRY(rp_compiled_bind(h->behind, node.name, data, err));
    }
    return RP_OK;
}

static rp_status take_memory(rp_engine *e, engine_hidden *h, rp_error *err) {
    const model_hparams *hp = model_source_hparams(e->source);
    const size_t rows = (size_t)e->config->max_num_batched_tokens.v;
    h->width[MODEL_LAST] = hp->n_embd;
    h->width[MODEL_HEADS] = hp->n_head * hp->head_dim;
    for (int i = 0; i < MODEL_N_RESULTS; i++) {
        h->in[i] = base_alloc_array(rows * h->width[i], sizeof(float));
        if (!h->in[i]) return rp_fail(err, RP_NOMEM, "hidden states of %zu", rows);
    }
    for (int i = 0; i < N_OUT; i++) {
        h->out[i] = base_alloc_array(rows * hp->n_embd, sizeof(float));
        if (!h->out[i]) return rp_fail(err, RP_NOMEM, "hidden states of %zu", rows);
    }
    return RP_OK;
}

static rp_status make(rp_engine *e, rp_error *err) {
    const model_graph_options o = {.numerics = engine_plans_numerics(e->config),
                                   .max_tokens = e->config->max_num_batched_tokens.v,
                                   .max_seqs = 1};
    rp_graph *g = NULL;
    engine_hidden *h = base_alloc(sizeof *h);
    if (!h) return rp_fail(err, RP_NOMEM, "hidden states");
    rp_status st = take_memory(e, h, err);
    if (st == RP_OK) st = model_llama_hidden(e->source, &o, &g, err);
    if (st == RP_OK) st = compile(e, h, g, err);
    if (st == RP_OK) st = bind(e, h, g, err);
    rp_graph_free(g);
    if (st == RP_OK)
        e->hidden = h;
    else
        engine_hidden_free(h);
    return st;
}

/* --- a prompt ------------------------------------------------------------------------------------ */

/* Rows of the step that has run, which are those of `first` and on. */
static rp_status tell(rp_engine *e, const rp_hidden_options *o, uint32_t n, uint32_t first,
                      rp_error *err) {
    engine_hidden *h = e->hidden;
    const uint32_t width = h->width[MODEL_LAST];
    rp_buffer in[MODEL_N_RESULTS], out[N_OUT];
    for (uint32_t i = 0; i < MODEL_N_RESULTS; i++) {
        RP_TRY(engine_runner_left(e->runner, i, (size_t)n * h->width[i] * sizeof(float), h->in[i],
                                  err));
        in[i] = (rp_buffer){RP_DTYPE_F32, 2, {n, h->width[i]}, h->in[i]};
    }
    for (uint32_t i = 0; i < N_OUT; i++)
        out[i] = (rp_buffer){RP_DTYPE_F32, 2, {n, width}, h->out[i]};
    RP_TRY(rp_compiled_run(h->behind, in, MODEL_N_RESULTS, out, N_OUT, err));
    for (uint32_t i = 0; i < n; i++)
        o->on_token(o->user, first + i, h->out[o->normed] + (size_t)i * width, width);
    return RP_OK;
}

static rp_status run(rp_engine *e, const rp_hidden_options *o, engine_alone *own, rp_error *err) {
    const engine_batch *b = NULL;
    for (uint32_t first = 0;; first += b->num_tokens) {
        RP_TRY(engine_alone_next(own, &b, err));
        if (!b) return RP_OK;
        RP_TRY(engine_run_step(e, b, err));
        RP_TRY(tell(e, o, b->num_tokens, first, err));
    }
}

static rp_status check(const rp_engine *e, const rp_hidden_options *o, rp_error *err) {
    if (!o->on_token) return rp_fail(err, RP_INVALID, "rp_engine_hidden: on_token is NULL");
    if (o->n_prompt_ids == 0 || o->n_prompt_ids > e->max_model_len)
        return rp_fail(err, RP_CONFIG, "hidden states want a prompt of 1 to %u ids, not %u",
                       e->max_model_len, o->n_prompt_ids);
    return engine_ids_check(e, "prompt", o->prompt_ids, o->n_prompt_ids, err);
}

static rp_status hidden(rp_engine *e, const rp_hidden_options *o, rp_error *err) {
    const engine_alone_options prompt = {
        .what = "hidden states want", .ids = o->prompt_ids, .n = o->n_prompt_ids};
    engine_alone own = {0};
    rp_status st = e->hidden ? RP_OK : make(e, err);
    if (st == RP_OK) st = engine_alone_open(&own, e, &prompt, err);
    if (st == RP_OK) st = run(e, o, &own, err);
    engine_alone_close(&own);
    return st;
}

rp_status rp_engine_hidden(rp_engine *e, const rp_hidden_options *given, rp_error *err) {
    base_error_clear(err);
    rp_hidden_options o = RP_HIDDEN_OPTIONS_INIT;
    if (!e) return rp_fail(err, RP_INVALID, "rp_engine_hidden: engine is NULL");
    RP_TRY(base_options_take(&o, sizeof o, given, "rp_hidden_options", err));
    if (!e->sched)
        return rp_fail(err, RP_INVALID, "the engine was opened without capture and runs nothing");
    RP_TRY(engine_enter(e, "rp_engine_hidden", err));
    rp_status st = check(e, &o, err);
    if (st == RP_OK) st = hidden(e, &o, err);
    return engine_leave(e, "rp_engine_hidden", st, err);
}
