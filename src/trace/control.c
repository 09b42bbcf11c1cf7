/* Loops and branches: a body is traced into a graph of its own, on fake arguments of the types that it will get. */
#include <stdio.h>

#include "trace/record.h"

#include "reprise/control.h"

_Static_assert(RP_MAX_RESULTS == IR_MAX_RESULTS, "results of a node");

#define MAX_ARGS 64u

/* A function that was traced, and what it gave. */
typedef struct traced_body {
    rp_graph *f;
    ir_attr_key key;
    rp_tensor out[IR_MAX_RESULTS]; /* n_out */
    uint32_t n_out;
} traced_body;

/* A call under construction. */
typedef struct control {
    rp_graph *g;
    ir_op op;
    void *user;
    rp_tensor in[MAX_ARGS]; /* operands; arguments from `first` on */
    uint32_t n_in, first;
    uint32_t sliced_from, sliced_to; /* arguments of which bodies get slices */
    traced_body body[2];
    uint32_t n_bodies;
    ir_attr attr[4];
    uint32_t n_attrs;
    uint32_t n_out;
} control;

static const char *name_of(const control *c) {
    return ir_op_table(c->op)->name;
}

static bool add_operands(control *c, const rp_tensor *args, uint32_t n) {
    if (n && !args) {
        (void)rp_fail(&c->g->err, RP_INVALID, "%s: %u arguments at NULL", name_of(c), n);
        return false;
    }
    if (n > MAX_ARGS - c->n_in) {
        (void)rp_fail(&c->g->err, RP_INVALID, "%s: %u operands; %u are the most", name_of(c),
                      c->n_in + n, MAX_ARGS);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!trace_check_live(name_of(c), args[i])) return false;
        if (args[i].graph != c->g || args[i].ref == IR_NONE) {
            (void)rp_fail(&c->g->err, RP_INVALID, "%s: argument %u is not a tensor of graph @%s",
                          name_of(c), i, ir_graph_name(c->g->ir));
            return false;
        }
        c->in[c->n_in++] = args[i];
    }
    return true;
}

static bool begin(control *c, uint32_t n_out, const rp_tensor *out) {
    c->n_out = out ? n_out : 0;
    if (!trace_ready(c->g)) return false;
    if (c->n_out >= 1 && n_out <= IR_MAX_RESULTS) return true;
    if (n_out && !out)
        (void)rp_fail(&c->g->err, RP_INVALID, "%s: out is NULL", name_of(c));
    else
        (void)rp_fail(&c->g->err, RP_INVALID, "%s: %u results; 1 to %u are possible", name_of(c),
                      n_out, IR_MAX_RESULTS);
    return false;
}

/* --- a body ------------------------------------------------------------------------ */

/* The fake argument for operand x: an element of it along the first axis where it is sliced. Memory may be written. */
static rp_tensor fake(const control *c, rp_graph *f, uint32_t i, const char *name) {
    const ir_node *n = ir_node_at(c->g->ir, c->in[c->first + i].ref);
    bool cut = i >= c->sliced_from && i < c->sliced_to;
    ir_shape s = {.rank = n->shape.rank - cut};
    rp_tensor x = trace_bad(f);
    for (uint32_t d = 0; d < s.rank; d++)
        s.dim[d] =
            ir_dim_import(ir_graph_dims(f->ir), ir_graph_dims(c->g->ir), n->shape.dim[d + cut]);
    if (ir_add_leaf(f->ir, IR_LEAF_INPUT, name, n->dtype, s, &x.ref, &f->err) != RP_OK)
        return trace_bad(f);
    if (n->memory == IR_NONE) return x;
    const ir_node *leaf = ir_node_at(c->g->ir, n->memory);
    if (leaf->op != IR_input || leaf->mutates) ir_input_mutates(f->ir, x.ref);
    return x;
}

/* Whether the body gave tensors of its own; it fails otherwise. */
static bool check_results(rp_graph *f, const rp_tensor *out, uint32_t n_out) {
    if (f->finished) {
        (void)rp_fail(&f->err, RP_INVALID,
                      "rp_graph_finish of %s, a body, which the call around it finishes",
                      ir_graph_name(f->ir));
        return false;
    }
    for (uint32_t i = 0; i < n_out; i++) {
        if (out[i].graph == f && out[i].ref != IR_NONE) continue;
        (void)rp_fail(&f->err, RP_INVALID,
                      "result %u of %s is no tensor of its graph; what comes from outside is "
                      "handed in as an argument",
                      i, ir_graph_name(f->ir));
        return false;
    }
    return true;
}

static rp_status finish_body(const traced_body *b, rp_error *err) {
    ir_graph *ir = b->f->ir;
    ir_ref refs[IR_MAX_RESULTS];
    for (uint32_t i = 0; i < b->n_out; i++) refs[i] = b->out[i].ref;
    for (uint32_t i = 0; i < ir_leaf_count(ir, IR_LEAF_INPUT); i++)
        ir_input_settle(ir, ir_leaf_at(ir, IR_LEAF_INPUT, i));
    return ir_graph_finish(ir, refs, b->n_out, err);
}

/* Who answers the questions of a body about sizes: who does for the graph around. */
typedef struct asking {
    rp_graph *body, *around;
    ir_dims_pair dims;
    trace_oracle oracle;
} asking;

static rp_answer ask_around(void *user, ir_dim a, rp_relation r, ir_dim b, const char *file,
                            int line) {
    const asking *k = user;
    const trace_oracle *o = k->around->oracle;
    ir_dim x = ir_dim_import(k->dims.around, k->dims.own, a);
    ir_dim y = ir_dim_import(k->dims.around, k->dims.own, b);
    if (x == IR_DIM_BAD || y == IR_DIM_BAD) return RP_UNKNOWN;
    rp_answer is = o->ask(o->user, x, r, y, file, line);
    if (k->around->err.code != RP_OK) k->around->blamed = true; /* it names the line */
    return is;
}

static bool example_around(void *user, ir_dim d, int64_t *out) {
    const asking *k = user;
    const trace_oracle *o = k->around->oracle;
    ir_dim x = ir_dim_import(k->dims.around, k->dims.own, d);
    return x != IR_DIM_BAD && o->example(o->user, x, out);
}

static void told_around(void *user, const char *file, uint32_t line) {
    const asking *k = user;
    k->around->oracle->told(k->around->oracle->user, file, line);
}

static void begin_asking(asking *k, rp_graph *body, rp_graph *around) {
    const trace_oracle *o = around->oracle;
    *k = (asking){.body = body,
                  .around = around,
                  .dims = {ir_graph_dims(body->ir), ir_graph_dims(around->ir)}};
    if (o) k->oracle = (trace_oracle){k, ask_around, example_around, told_around, o->n, o->n_told};
    if (o) body->oracle = &k->oracle;
    ir_dims_set_assume(ir_graph_dims(body->ir), ir_dims_assume_around, &k->dims);
}

static void end_asking(const asking *k) {
    k->body->oracle = NULL;
    ir_dims_set_assume(ir_graph_dims(k->body->ir), NULL, NULL);
}

static void run_body(const control *c, traced_body *b, rp_graph_fn fn) {
    rp_tensor in[MAX_ARGS], *out = b->out;
    uint32_t n = c->n_in - c->first, n_out = b->n_out;
    rp_graph *f = b->f;
    asking k;
    begin_asking(&k, f, c->g);
    f->body = true;
    f->acts = b->key != IR_ATTR_COND; /* which writes nothing */
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "in%u", i);
        in[i] = fake(c, f, i, name);
    }
    for (uint32_t i = 0; i < n_out; i++) out[i] = trace_bad(f);
    const bool was = c->g->in_body;
    c->g->in_body = true;
    if (f->err.code == RP_OK) fn(f, in, n, out, n_out, c->user);
    c->g->in_body = was;
    if (f->err.code == RP_OK) (void)check_results(f, out, n_out);
    end_asking(&k);
}

/* It lives as long as the graph around it: a tensor of it that is used later finds a graph that is finished. */
static rp_graph *new_body(const control *c, ir_attr_key key) {
    rp_graph *f = trace_graph_take();
    if (f) f->ir = ir_graph_new(ir_attr_key_name(key));
    if (!f || !f->ir) {
        if (f) trace_graph_give(f);
        (void)rp_fail(&c->g->err, RP_NOMEM, "%s: out of memory", name_of(c));
        return NULL;
    }
    f->numerics = c->g->numerics;
    f->next_body = c->g->bodies;
    c->g->bodies = f;
    return f;
}

/* Traces fn as attribute `key`. The graph fails as the body does, with the line in it. */
static bool add_body(control *c, ir_attr_key key, rp_graph_fn fn, uint32_t n_out) {
    if (!fn) {
        (void)rp_fail(&c->g->err, RP_INVALID, "%s: the function for %s is NULL", name_of(c),
                      ir_attr_key_name(key));
        return false;
    }
    rp_graph *f = new_body(c, key);
    if (!f) return false;
    traced_body *b = &c->body[c->n_bodies++];
    *b = (traced_body){.f = f, .key = key, .n_out = n_out};
    run_body(c, b, fn);
    f->finished = true;
    if (f->err.code != RP_OK) {
        (void)rp_fail(&c->g->err, f->err.code, "%s", f->err.text);
        c->g->blamed = f->blamed;
        return false;
    }
    return true;
}

/* What one of the bodies does in order is done behind what was recorded before, and in front of what will be: the memory that says so is
 * an argument of all. *order: it, if there is any. */
static bool join_order(control *c, rp_tensor *order) {
    bool any = false;
    for (uint32_t i = 0; i < c->n_bodies; i++) any = any || trace_order_used(c->body[i].f);
    if (!any) return true;
    for (uint32_t i = 0; i < c->n_bodies; i++) {
        rp_graph *f = c->body[i].f;
        if (!trace_order_used(f) && trace_order_input(f, &c->g->err).ref == IR_NONE) return false;
    }
    *order = trace_order(c->g);
    return order->ref != IR_NONE && add_operands(c, order, 1);
}

static bool finish_bodies(control *c, rp_tensor *order) {
    if (!join_order(c, order)) return false;
    for (uint32_t i = 0; i < c->n_bodies; i++) {
        if (finish_body(&c->body[i], &c->g->err) != RP_OK) return false;
        c->attr[c->n_attrs++] = (ir_attr){.key = c->body[i].key, .u.graph = c->body[i].f->ir};
    }
    return true;
}

/* --- the node -------------------------------------------------------------------------- */

/* out may be where the arguments are, which have been read. */
static rp_tensor end(control *c, bool ok, rp_tensor *out) {
    rp_tensor order = {0};
    for (uint32_t i = 0; i < c->n_out; i++) out[i] = trace_bad(c->g);
    ok = ok && finish_bodies(c, &order);
    if (ok) out[0] = trace_op(c->g, c->op, c->in, c->n_in, c->attr, c->n_attrs);
    for (uint32_t i = 1; ok && i < c->n_out && out[0].ref != IR_NONE; i++) {
        ir_attr index = {.key = IR_ATTR_INDEX, .u.i = i};
        out[i] = trace_op(c->g, IR_result, out, 1, &index, 1);
    }
    if (ok && order.graph && out[0].ref != IR_NONE) c->g->order = rp_written(order, out[0]);
    return ok ? out[0] : trace_bad(c->g);
}

rp_tensor(rp_call_graph)(rp_graph *g, rp_graph_fn fn, void *user, const rp_tensor *args,
                         uint32_t n_args, rp_tensor *out, uint32_t n_out) {
    control c = {.g = g, .op = IR_call, .user = user};
    bool ok = begin(&c, n_out, out) && add_operands(&c, args, n_args) &&
              add_body(&c, IR_ATTR_BODY, fn, n_out);
    return end(&c, ok, out);
}

/* NOLINTNEXTLINE(readability-function-size): what a cond is made of */
rp_tensor(rp_cond)(rp_tensor pred, rp_graph_fn then_fn, rp_graph_fn else_fn, void *user,
                   const rp_tensor *args, uint32_t n_args, rp_tensor *out, uint32_t n_out) {
    control c = {.g = pred.graph, .op = IR_cond, .user = user, .first = 1};
    bool ok = begin(&c, n_out, out) && add_operands(&c, &pred, 1) &&
              add_operands(&c, args, n_args) && add_body(&c, IR_ATTR_THEN, then_fn, n_out) &&
              add_body(&c, IR_ATTR_ELSE, else_fn, n_out);
    return end(&c, ok, out);
}

rp_tensor(rp_while)(rp_graph_fn cond_fn, rp_graph_fn body_fn, void *user, const rp_tensor *args,
                    uint32_t n_args, rp_tensor *out, uint32_t n_out) {
    control c = {.g = n_args ? args[0].graph : NULL, .op = IR_while, .user = user};
    bool ok = begin(&c, n_out, out) && add_operands(&c, args, n_args) &&
              add_body(&c, IR_ATTR_COND, cond_fn, 1) && add_body(&c, IR_ATTR_BODY, body_fn, n_out);
    return end(&c, ok, out);
}

/* --- scan ------------------------------------------------------------------------------- */

/* x with axis `at` first; or its first axis at `at`. */
static rp_tensor move_axis(rp_tensor x, uint32_t at, bool to_front) {
    int axes[RP_MAX_RANK];
    uint32_t rank = rp_tensor_shape(x).rank;
    if (at == 0) return x;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t front = i == 0 ? at : i <= at ? i - 1 : i;
        uint32_t back = i == at ? 0 : i < at ? i + 1 : i;
        axes[i] = (int)(to_front ? front : back);
    }
    return rp_permute(x, axes, rank);
}

static bool add_slices(control *c, const rp_scan_args *a) {
    c->sliced_from = c->n_in;
    if (a->n_sliced && !a->sliced) {
        (void)trace_null(c->g, "scan: sliced");
        return false;
    }
    for (uint32_t i = 0; i < a->n_sliced; i++) {
        uint32_t at;
        if (a->sliced[i].graph == c->g && !trace_axis("scan", a->sliced[i], a->axis, false, &at))
            return false;
        rp_tensor x = a->sliced[i].graph == c->g ? move_axis(a->sliced[i], at, true) : a->sliced[i];
        if (!add_operands(c, &x, 1)) return false;
    }
    c->sliced_to = c->n_in;
    return true;
}

/* Stacks get the axis of the slices. */
static void place_stacks(const rp_scan_args *a, rp_tensor *out, uint32_t n_out) {
    for (uint32_t i = a->n_carried; i < n_out; i++) {
        uint32_t at;
        if (out[i].ref == IR_NONE || !trace_axis("scan", out[i], a->axis, false, &at)) return;
        out[i] = move_axis(out[i], at, false);
    }
}

rp_tensor(rp_scan)(rp_graph *g, rp_graph_fn fn, void *user, const rp_scan_args *a, rp_tensor *out,
                   uint32_t n_out) {
    control c = {.g = g, .op = IR_scan, .user = user};
    if (!a) return trace_null(g, "scan: args");
    bool ok = begin(&c, n_out, out) && add_operands(&c, a->carried, a->n_carried) &&
              add_slices(&c, a) && add_operands(&c, a->constants, a->n_constants) &&
              add_body(&c, IR_ATTR_BODY, fn, n_out);
    if (ok) {
        c.attr[c.n_attrs++] = (ir_attr){.key = IR_ATTR_CARRIED, .u.i = a->n_carried};
        c.attr[c.n_attrs++] = (ir_attr){.key = IR_ATTR_SLICED, .u.i = a->n_sliced};
        if (a->n_sliced == 0)
            c.attr[c.n_attrs++] =
                (ir_attr){.key = IR_ATTR_LENGTH, .u.dim = trace_dim(g, a->length)};
    }
    rp_tensor first = end(&c, ok, out);
    if (!ok) return first;
    place_stacks(a, out, n_out);
    return out[0];
}
