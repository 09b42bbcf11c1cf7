/* What a step can launch: each piece of the model, all of them, the head, and all with the head, with the graph wrappers around them.
 *
 * A launch list is bound anew for each key; every wrapped call names the step inputs that its graph reads, so none can
 * move unnoticed. What runs when is the runner's. */
#include "engine/parts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "model/llama.h"

static engine_sizes sizes_of(const engine_parts *ps, int64_t tokens, int64_t rows) {
    engine_sizes s = ps->max;
    s.tokens = tokens;
    s.rows = rows;
    return s;
}

static rp_status bind_sizes(engine_parts *ps, engine_program *g, plan_bound *b, int64_t tokens,
                            int64_t rows, rp_error *err) {
    int64_t symbols[16];
    const engine_sizes s = sizes_of(ps, tokens, rows);
    engine_program_sizes(g, &s, symbols);
    return plan_exec_bind(g->x, b, symbols, err);
}

/* --- runnables --------------------------------------------------------------------- */

static void join(engine_part *p, const hal_launch *list, uint32_t n) {
    memcpy(p->joined + p->n_joined, list, n * sizeof *list);
    p->n_joined += n;
}

/* Whether each sequence of a step has one row, at its end: then a row attends to what earlier steps have stored, and to its own position. Blocks that sequences
 * share are read by who waited until they were computed (scheduler.c), and rows of padding read none. */
static bool is_settled(const rp_batch_descriptor *key) {
    return key->uniform && key->num_tokens == key->num_reqs;
}

engine_entry *engine_parts_entry(const engine_parts *ps, const rp_batch_descriptor *key) {
    for (uint32_t i = 0; i < ps->n_entries; i++) {
        engine_entry *e = &ps->entries[i];
        if (e->first <= key->num_tokens && key->num_tokens <= e->last &&
            (!e->decode || is_settled(key)))
            return e;
    }
    return NULL;
}

/* Everything of `own` lies where that program has it now; both plans have the same leaves (sized.c), own perhaps inputs behind them, which are set once. */
static void follow(const engine_program *of, engine_program *own) {
    const struct {
        plan_seg seg;
        uint32_t n;
    } leaves[] = {{PLAN_INPUT, of->p->n_inputs},
                  {PLAN_OUTPUT, own->p->n_outputs},
                  {PLAN_PARAM, own->p->n_params},
                  {PLAN_STATE, own->p->n_states}};
    for (size_t k = 0; k < sizeof leaves / sizeof *leaves; k++)
        for (uint32_t i = 0; i < leaves[k].n; i++)
            plan_exec_set(own->x, leaves[k].seg, i, plan_exec_get(of->x, leaves[k].seg, i));
}

/* Pieces of the model, by the code that is made for so many tokens. */
static rp_status bind_model(engine_part *p, const rp_batch_descriptor *key, rp_error *err) {
    engine_parts *ps = p->all;
    const int64_t tokens = key->num_tokens;
    engine_entry *e = engine_parts_entry(ps, key);
    plan_bound *b = e ? p->own[e - ps->entries] : p->bound;
    if (e) follow(&ps->model, &e->prog);
    p->last = b;
    b->settled = is_settled(key);
    return bind_sizes(ps, e ? &e->prog : p->prog, b, tokens, 1, err);
}

/* The head of a whole step, and what delivers its results. */
static rp_status join_head(engine_part *p, const rp_batch_descriptor *key, rp_error *err) {
    engine_parts *ps = p->all;
    const int64_t rows = key->num_logits > 0 ? key->num_logits : 1;
    engine_entry *e = engine_parts_entry(ps, key);
    const bool own = e && e->head.x;
    plan_bound *b = own ? p->own_head[e - ps->entries] : p->head;
    if (own) follow(&ps->head, &e->head);
    RP_TRY(bind_sizes(ps, own ? &e->head : &ps->head, b, ps->max.tokens, rows, err));
    join(p, b->launches, b->n);
    p->last_head = b;
    if (!ps->after) return RP_OK;
    join(p, ps->after, 1);
    p->joined[p->n_joined - 1].items += rows;
    return RP_OK;
}

/* The head reads rows of what the model leaves of the whole step, so its T is the largest. */
static rp_status bind_part(engine_part *p, const rp_batch_descriptor *key, rp_error *err) {
    engine_parts *ps = p->all;
    p->last = p->bound;
    if (p->is_head) return bind_sizes(ps, p->prog, p->bound, ps->max.tokens, key->num_logits, err);
    RP_TRY(bind_model(p, key, err));
    if (!p->joined) return RP_OK;
    p->n_joined = 0;
    if (ps->before) join(p, ps->before, 1);
    join(p, p->last->launches, p->last->n);
    return p->head ? join_head(p, key, err) : RP_OK;
}

/* Launches in front of the model's, and as many behind the head's. */
static uint32_t n_before(const engine_part *p) {
    return p->joined && p->all->before ? 1 : 0;
}

/* NOLINTNEXTLINE(readability-function-size): the shape of graph_runnable.list */
static rp_status part_list(void *user, const rp_batch_descriptor *key, const graph_input *in,
                           uint32_t n_in, const hal_launch **out, uint32_t *out_n,
                           size_t *out_scratch, rp_error *err) {
    engine_part *p = user;
    if (n_in) engine_args_bind(&p->args, in);
    rp_status st = bind_part(p, key, err);
    if (n_in) engine_args_unbind(&p->args);
    RP_TRY(st);
    *out = p->joined ? p->joined : p->last->launches;
    *out_n = p->joined ? p->n_joined : p->last->n;
    *out_scratch = p->last->scratch;
    if (p->joined && p->head && p->last_head->scratch > *out_scratch)
        *out_scratch = p->last_head->scratch;
    return RP_OK;
}

rp_status engine_part_launch(engine_part *p, const rp_batch_descriptor *key, rp_error *err) {
    const hal_launch *list;
    uint32_t n;
    size_t scratch;
    RP_TRY(part_list(p, key, NULL, 0, &list, &n, &scratch, err));
    return p->all->device->ops->launch(p->all->device, list, n, scratch, err);
}

rp_status engine_part_time(engine_part *p, const rp_batch_descriptor *key, int64_t *ns,
                           rp_error *err) {
    hal_device *d = p->all->device;
    const hal_launch *list;
    uint32_t n;
    size_t scratch;
    RP_TRY(part_list(p, key, NULL, 0, &list, &n, &scratch, err));
    return hal_time(d, list + n_before(p), n - 2 * n_before(p), scratch, ns, err);
}

rp_status engine_part_call(engine_part *p, const rp_dispatch *d, rp_error *err) {
    return graph_wrapper_call(p->wrapper, d, engine_args_step(&p->args, d), p->args.n, err);
}

static rp_status capture_part(engine_part *p, const rp_dispatch *d, rp_error *err) {
    return graph_wrapper_capture(p->wrapper, d, engine_args_step(&p->args, d), p->args.n, err);
}

static bool lacks(const engine_part *p, const rp_dispatch *d) {
    return p->wrapper && graph_wrapper_lacks(p->wrapper, d);
}

bool engine_parts_lack(const engine_parts *ps, const rp_dispatch *d) {
    if (lacks(&ps->whole, d) || lacks(&ps->head_part, d)) return true;
    if (ps->one_graph) return lacks(&ps->all_pieces, d);
    for (uint32_t i = 0; i < ps->model.p->n_pieces; i++)
        if (lacks(&ps->pieces[i], d)) return true;
    return false;
}

static rp_status capture_pieces(engine_parts *ps, const rp_dispatch *d, rp_error *err) {
    if (ps->one_graph) return capture_part(&ps->all_pieces, d, err);
    for (uint32_t i = 0; i < ps->model.p->n_pieces; i++)
        if (ps->pieces[i].wrapper) RP_TRY(capture_part(&ps->pieces[i], d, err));
    return RP_OK;
}

rp_status engine_parts_capture(engine_parts *ps, const rp_dispatch *d, rp_error *err) {
    RP_TRY(capture_pieces(ps, d, err));
    RP_TRY(capture_part(&ps->head_part, d, err));
    return capture_part(&ps->whole, d, err);
}

/* Step inputs of some pieces; what the model leaves for the head is no argument of the whole. */
static rp_status add_args(engine_part *p, engine_program *g, uint32_t first, uint32_t n,
                          rp_error *err) {
    int64_t symbols[16];
    engine_program_sizes(g, &p->all->max, symbols);
    static const char *const none[] = {NULL};
    engine_args_source s = {g->x, g->p, symbols, p->is_head ? none : model_output_names};
    return engine_args_add(&p->args, &s, first, n, err);
}

static rp_status make_wrapper(engine_parts *ps, engine_part *p, const char *name,
                              rp_cudagraph_mode mode, rp_error *err) {
    graph_runnable run = {.user = p, .list = part_list};
    bool copy = mode == RP_CUDAGRAPH_PIECEWISE && ps->config->cudagraph_copy_inputs;
    graph_wrapper_options o = {.name = name,
                               .mode = mode,
                               .head = p->is_head,
                               .copy_inputs = copy,
                               .num_warmups = (uint32_t)ps->config->cudagraph_num_of_warmups,
                               .inputs = p->args.in,
                               .n_inputs = p->args.n};
    if (copy) ps->copied_size += engine_args_bytes(&p->args);
    return graph_wrapper_new(ps->device, ps->state, &run, &o, &p->wrapper, err);
}

/* Lists of some pieces of the model, by its program and by each entry's. */
static rp_status make_lists(engine_part *p, uint32_t first, uint32_t n, rp_error *err) {
    engine_parts *ps = p->all;
    RP_TRY(plan_bound_new(ps->model.x, first, n, &p->bound, err));
    if (!ps->n_entries) return RP_OK;
    p->own = base_alloc_array(ps->n_entries, sizeof *p->own);
    if (!p->own) return rp_fail(err, RP_NOMEM, "launch lists of %u step sizes", ps->n_entries);
    for (uint32_t i = 0; i < ps->n_entries; i++)
        RP_TRY(plan_bound_new(ps->entries[i].prog.x, first, n, &p->own[i], err));
    return RP_OK;
}

/* Launches of the longest of them. */
static uint32_t most_launches(const engine_part *p) {
    uint32_t most = p->bound->n;
    for (uint32_t i = 0; i < p->all->n_entries; i++)
        if (p->own[i]->n > most) most = p->own[i]->n;
    return most;
}

/* With pieces that are one graph they have none of their own. */
static rp_status make_pieces(engine_parts *ps, rp_error *err) {
    const plan *p = ps->model.p;
    ps->pieces = base_alloc_array(p->n_pieces + 1u, sizeof *ps->pieces);
    if (!ps->pieces) return rp_fail(err, RP_NOMEM, "%u pieces", p->n_pieces);
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        ps->pieces[i] = (engine_part){.all = ps, .prog = &ps->model};
        if (ps->one_graph) continue;
        RP_TRY(make_lists(&ps->pieces[i], i, 1, err));
        if (p->pieces[i].splitting || ps->config->level != RP_LEVEL_PIECEWISE) continue;
        RP_TRY(add_args(&ps->pieces[i], &ps->model, i, 1, err));
        RP_TRY(make_wrapper(ps, &ps->pieces[i], "piece", RP_CUDAGRAPH_PIECEWISE, err));
    }
    return RP_OK;
}

/* All launches of the model, joined with what is in front of them and with n_more behind. */
static rp_status make_model(engine_parts *ps, engine_part *p, uint32_t n_more, rp_error *err) {
    *p = (engine_part){.all = ps, .prog = &ps->model};
    RP_TRY(make_lists(p, 0, ps->model.p->n_pieces, err));
    p->joined = base_alloc_array(most_launches(p) + n_more + 1u, sizeof *p->joined);
    if (!p->joined) return rp_fail(err, RP_NOMEM, "launch list of a step");
    return add_args(p, &ps->model, 0, ps->model.p->n_pieces, err);
}

static rp_status make_all_pieces(engine_parts *ps, rp_error *err) {
    if (!ps->one_graph) return RP_OK;
    base_log_ch(RP_LOG_CH_CUDAGRAPHS, false,
                "the %u pieces of a prefill or mixed step are one graph: attention can be captured "
                "and %s has memory of its own",
                ps->model.p->n_pieces, ps->config->device);
    RP_TRY(make_model(ps, &ps->all_pieces, 0, err));
    return make_wrapper(ps, &ps->all_pieces, "pieces", RP_CUDAGRAPH_PIECEWISE, err);
}

static rp_status make_head(engine_parts *ps, rp_error *err) {
    ps->head_part = (engine_part){.all = ps, .prog = &ps->head, .is_head = true};
    RP_TRY(plan_bound_new(ps->head.x, 0, ps->head.p->n_pieces, &ps->head_part.bound, err));
    RP_TRY(add_args(&ps->head_part, &ps->head, 0, ps->head.p->n_pieces, err));
    return make_wrapper(ps, &ps->head_part, "head", RP_CUDAGRAPH_PIECEWISE, err);
}

static rp_status make_own_heads(engine_part *p, rp_error *err) {
    const engine_parts *ps = p->all;
    if (!ps->n_entries) return RP_OK;
    p->own_head = base_alloc_array(ps->n_entries, sizeof *p->own_head);
    if (!p->own_head) return rp_fail(err, RP_NOMEM, "launch lists of %u heads", ps->n_entries);
    for (uint32_t i = 0; i < ps->n_entries; i++)
        if (ps->entries[i].head.x)
            RP_TRY(plan_bound_new(ps->entries[i].head.x, 0, ps->head.p->n_pieces, &p->own_head[i],
                                  err));
    return RP_OK;
}

/* Launches of the longest head. */
static uint32_t most_of_heads(const engine_parts *ps) {
    uint32_t most = ps->head_part.bound->n;
    for (uint32_t i = 0; i < ps->n_entries; i++) {
        const engine_program *head = &ps->entries[i].head;
        if (head->x && head->p->n_launches > most) most = head->p->n_launches;
    }
    return most;
}

static rp_status make_whole(engine_parts *ps, rp_error *err) {
    RP_TRY(make_model(ps, &ps->whole, most_of_heads(ps) + 1, err));
    RP_TRY(plan_bound_new(ps->head.x, 0, ps->head.p->n_pieces, &ps->whole.head, err));
    RP_TRY(make_own_heads(&ps->whole, err));
    RP_TRY(add_args(&ps->whole, &ps->head, 0, ps->head.p->n_pieces, err));
    return make_wrapper(ps, &ps->whole, "step", RP_CUDAGRAPH_FULL, err);
}

/* FULL_AND_PIECEWISE keeps attention out of the graphs of prefills for those back ends that can be captured for decode steps alone. The
 * engine's always can, and on a device that runs behind the host every border of two graphs is a gap. Whoever asks for PIECEWISE gets pieces. */
static bool joins_pieces(const engine_parts *ps) {
    return rp_config_cudagraph_mode(ps->config) == RP_CUDAGRAPH_FULL_AND_PIECEWISE && ps->before &&
           !ps->config->cudagraph_copy_inputs;
}

rp_status engine_parts_make(engine_parts *ps, rp_error *err) {
    ps->one_graph = joins_pieces(ps);
    RP_TRY(make_pieces(ps, err));
    RP_TRY(make_all_pieces(ps, err));
    RP_TRY(make_head(ps, err));
    return make_whole(ps, err);
}

static void free_part(engine_part *p) {
    for (uint32_t i = 0; p->own && i < p->all->n_entries; i++) plan_bound_free(p->own[i]);
    base_free(p->own);
    for (uint32_t i = 0; p->own_head && i < p->all->n_entries; i++) plan_bound_free(p->own_head[i]);
    base_free(p->own_head);
    graph_wrapper_free(p->wrapper);
    engine_args_done(&p->args);
    plan_bound_free(p->bound);
    plan_bound_free(p->head);
    base_free(p->joined);
}

void engine_parts_done(engine_parts *ps) {
    for (uint32_t i = 0; ps->pieces && i < ps->model.p->n_pieces; i++) free_part(&ps->pieces[i]);
    base_free(ps->pieces);
    free_part(&ps->all_pieces);
    free_part(&ps->head_part);
    free_part(&ps->whole);
    plan_exec_free(ps->model.x);
    plan_exec_free(ps->head.x);
    for (uint32_t i = 0; i < ps->n_entries; i++) {
        plan_exec_free(ps->entries[i].prog.x);
        plan_exec_free(ps->entries[i].head.x);
    }
    base_free(ps->entries);
}

static void forget(engine_part *p) {
    if (p->wrapper) graph_wrapper_clear(p->wrapper);
}

void engine_parts_forget(engine_parts *ps) {
    for (uint32_t i = 0; i < ps->model.p->n_pieces; i++) forget(&ps->pieces[i]);
    forget(&ps->all_pieces);
    forget(&ps->head_part);
    forget(&ps->whole);
}

void engine_parts_refresh(engine_parts *ps) {
    for (uint32_t i = 0; i < ps->model.p->n_pieces; i++) engine_args_refresh(&ps->pieces[i].args);
    engine_args_refresh(&ps->all_pieces.args);
    engine_args_refresh(&ps->head_part.args);
    engine_args_refresh(&ps->whole.args);
}
