/* Interpreter of call, cond, while and scan: their graphs by the interpreter again. */
#include <string.h>

#include "base/alloc.h"
#include "ir/eval_node.h"

/* A node on its way: the values that its graphs get and give. */
typedef struct running {
    eval_state *s;
    const ir_node *n;
    ir_ref r;
    uint32_t first, n_args;
    ir_value arg[64];
    uint64_t own; /* bit i: arg[i] is ours to free */
    ir_value out[IR_MAX_RESULTS];
} running;

static const ir_graph *graph_of(const running *c, ir_attr_key key) {
    return ir_attr_get(c->n, key)->u.graph;
}

static ir_value *result(running *c, uint32_t i) {
    return i ? &c->s->more[c->r][i - 1] : &c->s->own[c->r];
}

/* Takes `from` in the place of argument i. */
static void set_arg(running *c, uint32_t i, ir_value *from) {
    if (c->own >> i & 1) ir_value_done(&c->arg[i]);
    c->arg[i] = *from;
    *from = (ir_value){0};
    c->own |= UINT64_C(1) << i;
}

static rp_status copy_value(const running *c, const ir_value *from, ir_value *to) {
    *to = *from;
    to->data = base_alloc_array((size_t)from->n + 1u, sizeof *to->data);
    if (!to->data) return rp_fail(c->s->err, RP_NOMEM, "eval: out of memory");
    if (from->n > 0) memcpy(to->data, from->data, (size_t)from->n * sizeof *to->data);
    return RP_OK;
}

/* Arguments are the operands' values; what is written has a copy, which is the next version. */
static rp_status take_operands(running *c, uint64_t writes) {
    for (uint32_t i = 0; i < c->n_args; i++) {
        const ir_value *v = c->s->value[c->n->in[i + c->first]];
        ir_value copy;
        c->arg[i] = *v;
        if (!(writes >> (i + c->first) & 1)) continue;
        RP_TRY(copy_value(c, v, &copy));
        set_arg(c, i, &copy);
    }
    return RP_OK;
}

static void leave_memory(running *c, uint64_t writes) {
    for (uint32_t i = 0; i < c->n_args; i++) {
        if (!(writes >> (i + c->first) & 1)) continue;
        c->s->after[c->n->in[i + c->first]] = c->arg[i];
        c->own &= ~(UINT64_C(1) << i);
    }
}

static rp_status run_graph(running *c, const ir_graph *f, const ir_value *args, ir_value *out) {
    const ir_dims *inner = ir_graph_dims(f), *outer = ir_graph_dims(c->s->g);
    uint32_t n = ir_dims_symbol_count(inner);
    int64_t *symbols = base_alloc_array(n + 1u, sizeof *symbols);
    if (!symbols) return rp_fail(c->s->err, RP_NOMEM, "eval: out of memory");
    for (uint32_t i = 0; i < n; i++)
        symbols[i] = c->s->symbols[ir_dims_find(outer, ir_dims_symbol(inner, i)->name)];
    const ir_eval_leaves leaves = {args, NULL, NULL};
    rp_status st = ir_eval_watched(f, &leaves, symbols, c->s->watch, out, c->s->err);
    base_free(symbols);
    return st;
}

/* What graph `key` gives for the arguments is the node's results. */
static rp_status run_once(running *c, ir_attr_key key) {
    const ir_graph *f = graph_of(c, key);
    RP_TRY(run_graph(c, f, c->arg, c->out));
    for (uint32_t i = 0; i < ir_output_count(f); i++) {
        ir_value_done(result(c, i));
        *result(c, i) = c->out[i];
        c->out[i] = (ir_value){0};
    }
    return RP_OK;
}

static void keep_carried(running *c, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (c->arg[i].n > 0)
            memcpy(result(c, i)->data, c->arg[i].data,
                   (size_t)c->arg[i].n * sizeof *c->arg[i].data);
}

static rp_status run_while(running *c) {
    const ir_graph *cond = graph_of(c, IR_ATTR_COND), *body = graph_of(c, IR_ATTR_BODY);
    int64_t limit = ir_attr_int(c->n, IR_ATTR_LIMIT, 0);
    uint32_t n = ir_output_count(body);
    for (int64_t done = 0;; done++) {
        ir_value more = {0};
        RP_TRY(run_graph(c, cond, c->arg, &more));
        bool again = more.data[0] != 0;
        ir_value_done(&more);
        if (!again) break;
        if (done == limit)
            return rp_fail(c->s->err, RP_INVALID,
                           "while: cond @%s still holds after %lld iterations, its limit",
                           ir_graph_name(cond), (long long)limit);
        RP_TRY(run_graph(c, body, c->arg, c->out));
        for (uint32_t i = 0; i < n; i++) set_arg(c, i, &c->out[i]);
    }
    keep_carried(c, n);
    return RP_OK;
}

/* Element i along the first axis. */
static ir_value element(const ir_value *v, int64_t i) {
    ir_value x = {.rank = v->rank - 1, .n = v->dim[0] > 0 ? v->n / v->dim[0] : 0};
    for (uint32_t d = 0; d < x.rank; d++) x.dim[d] = v->dim[d + 1];
    x.data = v->data + i * x.n;
    return x;
}

static rp_status run_scan(running *c) {
    const ir_graph *body = graph_of(c, IR_ATTR_BODY);
    uint32_t carried = (uint32_t)ir_attr_int(c->n, IR_ATTR_CARRIED, 0);
    uint32_t sliced = (uint32_t)ir_attr_int(c->n, IR_ATTR_SLICED, 0), n = ir_output_count(body);
    int64_t length = ir_dim_eval(ir_graph_dims(c->s->g), ir_attr_get(c->n, IR_ATTR_LENGTH)->u.dim,
                                 c->s->symbols);
    ir_value whole[64];
    for (uint32_t i = carried; i < carried + sliced; i++) whole[i] = c->arg[i];
    for (int64_t t = 0; t < length; t++) {
        for (uint32_t i = carried; i < carried + sliced; i++) c->arg[i] = element(&whole[i], t);
        RP_TRY(run_graph(c, body, c->arg, c->out));
        for (uint32_t i = 0; i < carried; i++) set_arg(c, i, &c->out[i]);
        for (uint32_t i = carried; i < n; i++) {
            if (c->out[i].n > 0)
                memcpy(element(result(c, i), t).data, c->out[i].data,
                       (size_t)c->out[i].n * sizeof *c->out[i].data);
            ir_value_done(&c->out[i]);
        }
    }
    keep_carried(c, carried);
    return RP_OK;
}

static rp_status run_node(running *c) {
    if (c->n->op == IR_while) return run_while(c);
    if (c->n->op == IR_scan) return run_scan(c);
    if (c->n->op == IR_call) return run_once(c, IR_ATTR_BODY);
    return run_once(c, c->s->value[c->n->in[0]]->data[0] != 0 ? IR_ATTR_THEN : IR_ATTR_ELSE);
}

rp_status ir_eval_graphs(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    uint32_t first = ir_first_argument(n->op);
    uint64_t writes = ir_node_writes(n);
    rp_status st = RP_OK;
    running *c = base_alloc(sizeof *c);
    if (!c) return rp_fail(s->err, RP_NOMEM, "eval: out of memory");
    *c = (running){.s = s, .n = n, .r = r, .first = first, .n_args = n->n_in - first};
    RP_TRY_OUT(ir_eval_alloc(s, r));
    RP_TRY_OUT(take_operands(c, writes));
    RP_TRY_OUT(run_node(c));
    leave_memory(c, writes);
out:
    for (uint32_t i = 0; i < c->n_args; i++)
        if (c->own >> i & 1) ir_value_done(&c->arg[i]);
    for (uint32_t i = 0; i < IR_MAX_RESULTS; i++) ir_value_done(&c->out[i]);
    base_free(c);
    return st;
}
