/* backend=cudagraphs: a compiled graph whose calls are captured and replayed, by the manager of automatic graphs that the device has. Arguments are copied
 * into its memory and results out of it, so a caller sees no difference but the time. */
#include "front/front.h"

#include <stdio.h>

#include "autograph/manager.h"
#include "autograph/memory.h"
#include "base/alloc.h"
#include "base/log.h"
#include "reprise/node.h"

enum { FEW = 16 };

struct front_graphs {
    rp_compiled *compiled; /* borrowed */
    rp_function *function;
    uint32_t n_in, n_out;
    bool *state;      /* by input: it is written where it lies */
    rp_buffer *in;    /* of the call that is captured: calls of a manager take turns */
    rp_buffer *out;   /* likewise */
    rp_value *result; /* likewise */
    atomic_bool told; /* why it is not captured */
};

void front_graphs_free(front_graphs *r) {
    if (!r) return;
    rp_function_free(r->function);
    base_free(r->state);
    base_free(r->in);
    base_free(r->out);
    base_free(r->result);
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

static rp_status make_room(front_graphs *r, const rp_graph *g, rp_error *err) {
    r->n_in = rp_graph_count(g, RP_GRAPH_INPUTS);
    r->n_out = rp_graph_count(g, RP_GRAPH_OUTPUTS);
    r->state = base_alloc_array(r->n_in + 1u, sizeof *r->state);
    r->in = base_alloc_array(r->n_in + 1u, sizeof *r->in);
    r->out = base_alloc_array(r->n_out + 1u, sizeof *r->out);
    r->result = base_alloc_array(r->n_out + 1u, sizeof *r->result);
    if (!r->state || !r->in || !r->out || !r->result)
        return rp_fail(err, RP_NOMEM, "graphs of a function");
    for (uint32_t i = 0; i < r->n_in; i++) {
        rp_node n = RP_NODE_INIT;
        RP_TRY(rp_graph_node(g, rp_graph_at(g, RP_GRAPH_INPUTS, i), &n, err));
        r->state[i] = n.mutates;
    }
    return RP_OK;
}

rp_status front_graphs_new(rp_jit *f, rp_compiled *c, const rp_graph *g, front_graphs **out,
                           rp_error *err) {
    rp_status st = RP_OK;
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    front_graphs *r = base_alloc(sizeof *r);
    if (!r) return rp_fail(err, RP_NOMEM, "graphs of a function");
    r->compiled = c;
    atomic_init(&r->told, false);
    RP_TRY_OUT(make_room(r, g, err));
    o.name = f->name;
    o.fn = call_compiled;
    o.user = r;
    RP_TRY_OUT(rp_function_new(f->graphs_of, &o, &r->function, err));
    *out = r;
    r = NULL;
out:
    front_graphs_free(r);
    return st;
}

static void tell_uncaptured(const rp_jit *f, front_graphs *r, const char *why) {
    if (!atomic_exchange(&r->told, true))
        base_log(RP_LOG_WARNING, "backend=cudagraphs: calls of %s are not captured: %s", f->name,
                 why);
}

static rp_status give(rp_jit *f, const rp_value *value, rp_buffer *out, uint32_t n, rp_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = 0;
        if (!autograph_bytes(&out[i], &bytes))
            return rp_fail(err, RP_NOMEM, "a result of a size that no memory has");
        if (bytes) RP_TRY(front_copy(f, out[i].data, value->item[i].tensor.data, bytes, err));
    }
    return RP_OK;
}

rp_status front_graphs_run(rp_jit *f, front_graphs *r, const rp_buffer *in, rp_buffer *out,
                           rp_error *err) {
    rp_status st = RP_OK;
    rp_value few[FEW], *item = r->n_in <= FEW ? few : base_alloc_array(r->n_in, sizeof *item);
    rp_output *o = NULL;
    const rp_value *value;
    if (!item) return rp_fail(err, RP_NOMEM, "a call of %s", f->name);
    for (uint32_t i = 0; i < r->n_in; i++)
        item[i] = r->state[i] ? rp_value_state(in[i]) : rp_value_tensor(in[i]);
    rp_value args = rp_value_tuple(item, r->n_in);
    RP_TRY_OUT(rp_autograph_run(r->function, &args, &o, err));
    if (rp_output_ran(o) == RP_RAN_EAGER) tell_uncaptured(f, r, rp_output_reason(o));
    RP_TRY_OUT(autograph_wait(f->graphs_of, err));
    RP_TRY_OUT(rp_output_value(o, &value, err));
    RP_TRY_OUT(give(f, value, out, r->n_out, err));
out:
    rp_output_free(o);
    if (item != few) base_free(item);
    return st;
}
