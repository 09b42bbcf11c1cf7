/* Calls of a compiled graph that are captured and replayed, by the manager of automatic graphs that the device has. What a replay gives lies in
 * memory of the graph, from where it is copied, or lent to the caller until the next call. */
#include "front/front.h"

#include <stdio.h>

#include "autograph/manager.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/log.h"
#include "reprise/node.h"

enum { FEW = 16 };

struct front_graphs {
    rp_compiled *compiled; /* borrowed */
    rp_function *function;
    char *name;
    uint32_t n_in, n_out;
    front_places *stays;  /* NULL: inputs may move */
    bool *state;          /* by input: it is written where it lies */
    rp_buffer *in;        /* of the call that is captured: calls of a manager take turns */
    rp_buffer *out;       /* likewise */
    rp_value *result;     /* likewise */
    pthread_mutex_t lock; /* held from a replay until its results are copied */
    atomic_bool told;     /* why it is not captured, */
    atomic_bool skipped;  /* and of a call that was not for what it writes */
};

void front_graphs_free(front_graphs *r) {
    if (!r) return;
    rp_function_free(r->function);
    front_places_free(r->stays);
    base_free(r->name);
    base_free(r->state);
    base_free(r->in);
    base_free(r->out);
    base_free(r->result);
    (void)pthread_mutex_destroy(&r->lock);
    base_free(r);
}

static rp_status call_compiled(void *user, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    front_graphs *r = user;
    for (uint32_t i = 0; i < r->n_in; i++) r->in[i] = args->item[i].tensor;
    RP_TRY(rp_call_compiled(call, r->compiled, r->in, r->n_in, r->out, r->n_out, err));
    for (uint32_t i = 0; i < r->n_out; i++) r->result[i] = rp_value_tensor(r->out[i]);
    *result = rp_value_tuple(r->result, r->n_out);
    return RP_OK;
}

static rp_status make_room(front_graphs *r, const rp_graph *g, const char *name, rp_error *err) {
    r->n_in = rp_graph_count(g, RP_GRAPH_INPUTS);
    r->n_out = rp_graph_count(g, RP_GRAPH_OUTPUTS);
    r->name = base_strdup(name);
    r->state = base_alloc_array(r->n_in + 1u, sizeof *r->state);
    r->in = base_alloc_array(r->n_in + 1u, sizeof *r->in);
    r->out = base_alloc_array(r->n_out + 1u, sizeof *r->out);
    r->result = base_alloc_array(r->n_out + 1u, sizeof *r->result);
    if (!r->name || !r->state || !r->in || !r->out || !r->result)
        return rp_fail(err, RP_NOMEM, "graphs of a function");
    for (uint32_t i = 0; i < r->n_in; i++) {
        rp_node n = RP_NODE_INIT;
        RP_TRY(rp_graph_node(g, rp_graph_at(g, RP_GRAPH_INPUTS, i), &n, err));
        r->state[i] = n.mutates;
    }
    return RP_OK;
}

rp_status front_graphs_new(rp_jit *f, rp_compiled *c, const rp_graph *g, const char *name,
                           bool in_place, front_graphs **out, rp_error *err) {
    rp_status st = RP_OK;
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    front_graphs *r = base_alloc(sizeof *r);
    if (!r) return rp_fail(err, RP_NOMEM, "graphs of a function");
    r->compiled = c;
    atomic_init(&r->told, false);
    atomic_init(&r->skipped, false);
    (void)pthread_mutex_init(&r->lock, NULL);
    RP_TRY_OUT(make_room(r, g, name, err));
    if (in_place) RP_TRY_OUT(front_places_new(r->n_in, &r->stays, err));
    o.name = r->name;
    o.fn = call_compiled;
    o.user = r;
    o.output = RP_OUTPUT_BORROWED;
    RP_TRY_OUT(rp_function_new(f->capture.manager, &o, &r->function, err));
    autograph_function_trust(r->function);
    *out = r;
    r = NULL;
out:
    front_graphs_free(r);
    return st;
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool is_state(const front_args *a, const void *at) {
    uint32_t i = 0;
    while (a && i < a->n_tensors && !(a->tensor[i]->state && a->tensor[i]->tensor.data == at)) i++;
    return a && i < a->n_tensors;
}

bool front_graphs_still(const front_graphs *r, const front_io *io) {
    for (uint32_t i = 0; i < r->n_in; i++)
        if (r->state[i] && !front_dense_has(io->own, io->in[i].data) &&
            !is_state(io->args, io->in[i].data))
            return false;
    return true;
}

rp_status front_graphs_skip(const rp_jit *f, front_graphs *r, rp_error *err) {
    static const char why[] = "it writes arguments that are no states (rp_value_state)";
    if (f->capture.required)
        return rp_fail(err, RP_UNSUPPORTED, "require_graph: calls of %s are not captured: %s",
                       r->name, why);
    if (!atomic_exchange(&r->skipped, true))
        base_log(RP_LOG_WARNING, "skipping cudagraphs due to mutated inputs: %s: %s", r->name, why);
    return RP_OK;
}

static rp_status check_captured(const rp_jit *f, front_graphs *r, const rp_output *o,
                                rp_error *err) {
    if (rp_output_ran(o) != RP_RAN_EAGER) return RP_OK;
    const char *why = rp_output_reason(o);
    if (f->capture.required)
        return rp_fail(err, RP_UNSUPPORTED, "require_graph: calls of %s are not captured: %s",
                       r->name, why);
    if (!atomic_exchange(&r->told, true))
        base_log(RP_LOG_WARNING, "calls of %s are not captured: %s", r->name, why);
    return RP_OK;
}

/* The manager was given arguments that stay as states, which the caller knows nothing of. */
static rp_status tell_unreached(const rp_jit *f, const front_graphs *r, const front_io *io,
                                const rp_error *why, rp_status st, rp_error *err) {
    for (uint32_t i = 0; st == RP_INVALID && r->stays && i < r->n_in; i++)
        if (io->in[i].data && !is_state(io->args, io->in[i].data) &&
            !device_reaches(f->device, io->in[i].data))
            return rp_fail(err, st,
                           "input %u of %s lies in memory of the host, and its graph reads inputs "
                           "where they lie: give memory from rp_device_alloc or set "
                           "cudagraph_copy_inputs",
                           i, r->name);
    return st == RP_OK ? st : rp_fail(err, st, "%s", why->text);
}

/* By lock; *out has been written when it returns. */
static rp_status replay(rp_jit *f, front_graphs *r, const front_io *io, rp_output **out,
                        rp_error *err) {
    const rp_buffer *in = io->in;
    rp_status st = RP_OK;
    rp_error why; /* cleared alone: this is the way of every replay */
    rp_value few[FEW], *item = r->n_in <= FEW ? few : base_alloc_array(r->n_in, sizeof *item);
    rp_output *o = NULL;
    if (!item) return rp_fail(err, RP_NOMEM, "a call of %s", f->name);
    for (uint32_t i = 0; i < r->n_in; i++)
        item[i] = r->state[i] || r->stays ? rp_value_state(in[i]) : rp_value_tensor(in[i]);
    rp_value args = rp_value_tuple(item, r->n_in);
    RP_TRY_OUT(front_places_check(r->stays, r->name, in, io->own, err));
    base_error_clear(&why);
    st = autograph_run_around(r->function, &args, io->around, &o, &why);
    RP_TRY_OUT(tell_unreached(f, r, io, &why, st, err));
    RP_TRY_OUT(check_captured(f, r, o, err));
    RP_TRY_OUT(autograph_wait(f->capture.manager, err));
    *out = o;
    o = NULL;
out:
    rp_output_free(o);
    if (item != few) base_free(item);
    return st;
}

static rp_status give(rp_jit *f, const rp_value *value, const front_io *io, rp_error *err) {
    for (uint32_t i = 0; i < io->n_out; i++) {
        size_t bytes = 0;
        if (!autograph_bytes(&io->out[i], &bytes))
            return rp_fail(err, RP_NOMEM, "a result of a size that no memory has");
        if (bytes) RP_TRY(front_copy(f, io->out[i].data, value->item[i].tensor.data, bytes, err));
    }
    return RP_OK;
}

rp_status front_graphs_run(rp_jit *f, front_graphs *r, const front_io *io, rp_error *err) {
    rp_output *o = NULL;
    const rp_value *value;
    (void)pthread_mutex_lock(&r->lock);
    rp_status st = replay(f, r, io, &o, err);
    if (st == RP_OK) st = rp_output_value(o, &value, err);
    if (st == RP_OK) st = give(f, value, io, err);
    if (st == RP_OK) st = front_places_keep(r->stays, io->in, io->own, err);
    rp_output_free(o);
    (void)pthread_mutex_unlock(&r->lock);
    return st;
}

/* Tensors of a result are numbers of outputs, which lie in those of the graph. */
static rp_status place(void *user, rp_value *v, rp_error *err) {
    const rp_value *outputs = user;
    (void)err;
    v->tensor = outputs->item[v->as.integer - 1].tensor;
    v->as.integer = 0; /* not taken for a tensor of a trace, where a caller gives it on */
    return RP_OK;
}

rp_status front_graphs_lend(rp_jit *f, const front_result *r, const front_io *io,
                            const front_out *to, rp_error *err) {
    front_graphs *g = r->code.graphs;
    rp_output *over = NULL, *o = NULL;
    (void)pthread_mutex_lock(&g->lock);
    rp_status st = replay(f, g, io, &over, err);
    if (st == RP_OK) st = autograph_output_over(over, &r->value, to->ran, to->reason, &o, err);
    if (st == RP_OK)
        st = autograph_value_each(autograph_output_of(o), place, autograph_output_of(over), err);
    if (st == RP_OK) st = front_places_keep(g->stays, io->in, io->own, err);
    (void)pthread_mutex_unlock(&g->lock);
    if (st != RP_OK) {
        rp_output_free(o ? o : over);
        return st;
    }
    *to->output = o;
    return RP_OK;
}
