/* Runs a graph on seeded random inputs by the interpreter or compiled, and prints every output value.
 *
 * All back ends get the same bytes. Integer inputs stay where the graph may use them: below what a gather,
 * a KV store or attention reads with them. What the interpreter refuses is not run as code. */
#include "reprise/graph.h"

#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"
#include "ir/eval.h"
#include "ir/text.h"

enum { KINDS = 3, MAX_ELEMENTS = 1 << 26 };

typedef struct eval {
    const ir_graph *g;
    int64_t *symbols;
    ir_value *leaf[KINDS];
    ir_value *out;
    uint32_t n[KINDS], n_out; /* values made so far */
} eval;

/* --- inputs -------------------------------------------------------------------- */

static int64_t size_at(const eval *e, ir_ref r, uint32_t d) {
    return ir_dim_eval(ir_graph_dims(e->g), ir_node_at(e->g, r)->shape.dim[d], e->symbols);
}

/* Number of values that operand i of node r may take; 0: any. */
static int64_t limit_at(const eval *e, ir_ref r, uint32_t i) {
    const ir_node *n = ir_node_at(e->g, r);
    if (n->op == IR_kv_store && i == 2) return size_at(e, n->in[0], 0) * size_at(e, n->in[0], 2);
    if (n->op == IR_gather && i == 1) return size_at(e, n->in[0], 0);
    if (n->op != IR_attention) return 0;
    if (i == 3) return size_at(e, n->in[5], 0);
    if (i == 4) return size_at(e, n->in[5], 1) * size_at(e, n->in[1], 2);
    return i == 5 ? size_at(e, n->in[1], 0) : 0;
}

typedef struct use {
    int64_t limit;
    bool slots; /* rows of one store must not meet */
} use;

static use use_of(const eval *e, ir_ref leaf) {
    use u = {64, false};
    for (ir_ref r = leaf + 1; r < ir_graph_count(e->g); r++) {
        const ir_node *n = ir_node_at(e->g, r);
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] != leaf) continue;
            int64_t limit = limit_at(e, r, i);
            if (limit > 0 && limit < u.limit) u.limit = limit;
            u.slots |= n->op == IR_kv_store && i == 2;
        }
    }
    return u;
}

static rp_status make_leaf(eval *e, int kind, uint32_t i, uint64_t seed, rp_error *err) {
    ir_ref r = ir_leaf_at(e->g, (ir_leaf)kind, i);
    const ir_node *n = ir_node_at(e->g, r);
    int64_t dims[IR_MAX_RANK], elements = 1;
    for (uint32_t d = 0; d < n->shape.rank; d++) {
        dims[d] = size_at(e, r, d);
        if (dims[d] > MAX_ELEMENTS || elements * dims[d] > MAX_ELEMENTS)
            return rp_fail(err, RP_INVALID, "%s has more than %d elements; choose smaller sizes",
                           n->name, MAX_ELEMENTS);
        elements *= dims[d];
    }
    use u = use_of(e, r);
    ir_value *v = &e->leaf[kind][i];
    RP_TRY(ir_random_value(n->dtype, dims, n->shape.rank, u.limit,
                           seed + UINT64_C(0x9e37) * (i + 1) + (uint64_t)kind, v, err));
    e->n[kind]++;
    int64_t start = v->n ? (int64_t)v->data[0] : 0;
    for (int64_t k = 0; u.slots && k < v->n; k++) v->data[k] = (double)((start + k) % u.limit);
    return RP_OK;
}

static rp_status eval_init(eval *e, const char *sizes, uint64_t seed, rp_error *err) {
    uint32_t n_symbols = ir_dims_symbol_count(ir_graph_dims(e->g));
    e->symbols = base_alloc_array(n_symbols + 1u, sizeof *e->symbols);
    if (!e->symbols) return rp_fail(err, RP_NOMEM, "eval");
    RP_TRY(api_sizes(e->g, sizes, e->symbols, err));
    for (int kind = 0; kind < KINDS; kind++) {
        uint32_t n = ir_leaf_count(e->g, (ir_leaf)kind);
        e->leaf[kind] = base_alloc_array(n + 1u, sizeof(ir_value));
        if (!e->leaf[kind]) return rp_fail(err, RP_NOMEM, "eval");
        for (uint32_t i = 0; i < n; i++) RP_TRY(make_leaf(e, kind, i, seed, err));
    }
    e->out = base_alloc_array(ir_output_count(e->g) + 1u, sizeof *e->out);
    return e->out ? RP_OK : rp_fail(err, RP_NOMEM, "eval");
}

static void eval_done(eval *e) {
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint32_t i = 0; i < e->n[kind]; i++) ir_value_done(&e->leaf[kind][i]);
        base_free(e->leaf[kind]);
    }
    for (uint32_t i = 0; i < e->n_out; i++) ir_value_done(&e->out[i]);
    base_free(e->out);
    base_free(e->symbols);
}

/* --- running compiled ------------------------------------------------------------- */

static size_t row_of(const ir_value *v) {
    return v->rank > 0 ? (size_t)v->dim[v->rank - 1] : 1;
}

static size_t packed_bytes(rp_dtype t, const ir_value *v) {
    return (size_t)v->n / rp_dtype_block(t) * rp_dtype_block_bytes(t);
}

static void *pack(rp_dtype t, const ir_value *v) {
    size_t row = row_of(v), step = row / rp_dtype_block(t) * rp_dtype_block_bytes(t);
    char *p = base_alloc_aligned(packed_bytes(t, v) + 1, 64);
    for (size_t i = 0; p && row && i * row < (size_t)v->n; i++)
        ir_pack(t, v->data + i * row, (int64_t)row, p + i * step);
    return p;
}

static void unpack(rp_dtype t, const void *from, ir_value *v) {
    const char *p = from;
    size_t row = row_of(v), step = row / rp_dtype_block(t) * rp_dtype_block_bytes(t);
    for (size_t i = 0; row && i * row < (size_t)v->n; i++)
        ir_unpack(t, p + i * step, (int64_t)row, v->data + i * row);
}

typedef struct buffers {
    rp_buffer *in, *out;
    void **bound;      /* params, then states */
    rp_device *device; /* NULL: the host's */
    void **there;      /* states, in memory of the device */
    uint32_t n_in, n_out, n_bound, n_there;
} buffers;

static rp_status make_buffers(const eval *e, buffers *b, rp_error *err) {
    b->in = base_alloc_array(e->n[IR_LEAF_INPUT] + 1u, sizeof *b->in);
    b->out = base_alloc_array(e->n_out + 1u, sizeof *b->out);
    b->bound = base_alloc_array(e->n[IR_LEAF_PARAM] + e->n[IR_LEAF_STATE] + 1u, sizeof *b->bound);
    b->there = base_alloc_array(e->n[IR_LEAF_STATE] + 1u, sizeof *b->there);
    if (!b->in || !b->out || !b->bound || !b->there) return rp_fail(err, RP_NOMEM, "eval");
    b->n_in = e->n[IR_LEAF_INPUT];
    b->n_out = e->n_out;
    for (uint32_t i = 0; i < b->n_in + b->n_out; i++) {
        bool is_in = i < b->n_in;
        ir_ref r = is_in ? ir_leaf_at(e->g, IR_LEAF_INPUT, i) : ir_output_at(e->g, i - b->n_in);
        const ir_value *v = is_in ? &e->leaf[IR_LEAF_INPUT][i] : &e->out[i - b->n_in];
        rp_buffer *o = is_in ? &b->in[i] : &b->out[i - b->n_in];
        *o = (rp_buffer){.dtype = ir_node_at(e->g, r)->dtype, .rank = v->rank};
        memcpy(o->dim, v->dim, v->rank * sizeof *v->dim);
        o->data = is_in ? pack(o->dtype, v) : base_alloc_aligned(packed_bytes(o->dtype, v) + 1, 64);
        if (!o->data) return rp_fail(err, RP_NOMEM, "eval");
    }
    return RP_OK;
}

/* A state lies where the device works: *p becomes that place. */
static rp_status bring_state(buffers *b, size_t size, void **p, rp_error *err) {
    void *there = NULL;
    rp_stream *s = NULL;
    RP_TRY(rp_device_alloc(b->device, size, &there, err));
    b->there[b->n_there++] = there;
    rp_status st = rp_stream_open(b->device, &s, err);
    if (st == RP_OK) st = rp_stream_copy(s, there, *p, size, err);
    rp_stream_close(s);
    *p = there;
    return st;
}

static rp_status bind_all(const eval *e, buffers *b, rp_compiled *c, rp_error *err) {
    for (int kind = IR_LEAF_PARAM; kind <= IR_LEAF_STATE; kind++)
        for (uint32_t i = 0; i < e->n[kind]; i++) {
            const ir_node *n = ir_node_at(e->g, ir_leaf_at(e->g, (ir_leaf)kind, i));
            const ir_value *v = &e->leaf[kind][i];
            void *p = pack(n->dtype, v);
            if (!p) return rp_fail(err, RP_NOMEM, "eval");
            b->bound[b->n_bound++] = p;
            if (kind == IR_LEAF_STATE && b->device)
                RP_TRY(bring_state(b, packed_bytes(n->dtype, v), &p, err));
            RP_TRY(rp_compiled_bind(c, n->name, p, err));
        }
    return RP_OK;
}

static void free_buffers(buffers *b) {
    for (uint32_t i = 0; i < b->n_in; i++) base_free(b->in[i].data);
    for (uint32_t i = 0; i < b->n_out; i++) base_free(b->out[i].data);
    for (uint32_t i = 0; i < b->n_bound; i++) base_free(b->bound[i]);
    for (uint32_t i = 0; i < b->n_there; i++) rp_device_free(b->device, b->there[i]);
    rp_device_close(b->device);
    base_free(b->there);
    base_free(b->in);
    base_free(b->out);
    base_free(b->bound);
}

/* Replaces the interpreter's outputs by those of compiled code. */
static rp_status run_compiled(const rp_graph *g, eval *e, buffers *b, rp_backend backend,
                              rp_error *err) {
    rp_status st = RP_OK;
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    if (!cfg) return rp_fail(err, RP_NOMEM, "configuration");
    RP_TRY_OUT(rp_config_set(cfg, backend == RP_BACKEND_CPU_EAGER ? "level=0" : "level=2", err));
    if (backend == RP_BACKEND_CUDA) RP_TRY_OUT(rp_device_open("cuda", 0, &b->device, err));
    RP_TRY_OUT(rp_compile_on(b->device, g, cfg, &c, err));
    RP_TRY_OUT(bind_all(e, b, c, err));
    RP_TRY_OUT(rp_compiled_run(c, b->in, b->n_in, b->out, b->n_out, err));
    for (uint32_t i = 0; i < e->n_out; i++) unpack(b->out[i].dtype, b->out[i].data, &e->out[i]);
out:
    rp_compiled_free(c);
    rp_config_free(cfg);
    return st;
}

/* --- text --------------------------------------------------------------------------- */

static void put_value(base_buf *b, uint32_t output, rp_dtype t, const ir_value *v, int64_t at) {
    bool is_float = ir_dtype_is_real(t) || rp_dtype_is_quant(t);
    int64_t idx[IR_MAX_RANK], rest = at;
    for (uint32_t d = v->rank; d-- > 0;) {
        idx[d] = rest % v->dim[d];
        rest /= v->dim[d];
    }
    base_buf_printf(b, "out%u", output);
    for (uint32_t d = 0; d < v->rank; d++)
        base_buf_printf(b, "%s%lld%s", d ? "," : "[", (long long)idx[d],
                        d + 1 == v->rank ? "]" : "");
    base_buf_puts(b, " = ");
    if (t == RP_DTYPE_I64) {
        base_buf_printf(b, "%lld\n", (long long)ir_value_int(v, at));
        return;
    }
    if (!is_float) {
        base_buf_printf(b, "%.0f\n", v->data[at]);
        return;
    }
    ir_float_print(v->data[at], b);
    base_buf_printf(b, t == RP_DTYPE_F64 ? " (%.17g)\n" : " (%.9g)\n", v->data[at]);
}

static rp_status print_outputs(const eval *e, char **out, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    for (uint32_t i = 0; i < e->n_out; i++) {
        rp_dtype t = ir_node_at(e->g, ir_output_at(e->g, i))->dtype;
        for (int64_t k = 0; k < e->out[i].n; k++) put_value(&b, i, t, &e->out[i], k);
    }
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) {
        *out = b.data ? base_buf_take(&b) : base_strdup("");
        if (!*out) st = rp_fail(err, RP_NOMEM, "eval");
    }
    base_buf_done(&b);
    return st;
}

/* The interpreter writes states and inputs; compiled code must start from the same ones. */
static rp_status copy_leaves(const eval *e, ir_leaf kind, ir_value *copy, uint32_t *n,
                             rp_error *err) {
    for (uint32_t i = 0; i < e->n[kind]; i++) {
        const ir_value *v = &e->leaf[kind][i];
        copy[i] = *v;
        copy[i].data = base_alloc_array((size_t)v->n + 1, sizeof *v->data);
        if (!copy[i].data) return rp_fail(err, RP_NOMEM, "eval");
        memcpy(copy[i].data, v->data, (size_t)v->n * sizeof *v->data);
        ++*n;
    }
    return RP_OK;
}

rp_status rp_graph_eval_text(const rp_graph *g, rp_backend backend, uint64_t seed,
                             const char *sizes, char **out, rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    buffers b = {0};
    ir_value *inputs = NULL, *states = NULL;
    uint32_t n_inputs = 0, n_states = 0;
    RP_TRY(api_graph_ready(g, err));
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    eval e = {.g = trace_graph_ir(g)};
    RP_TRY_OUT(ir_verify(e.g, err));
    RP_TRY_OUT(eval_init(&e, sizes, seed, err));
    inputs = base_alloc_array(e.n[IR_LEAF_INPUT] + 1u, sizeof *inputs);
    states = base_alloc_array(e.n[IR_LEAF_STATE] + 1u, sizeof *states);
    if (!inputs || !states) {
        st = rp_fail(err, RP_NOMEM, "eval");
        goto out;
    }
    RP_TRY_OUT(copy_leaves(&e, IR_LEAF_INPUT, inputs, &n_inputs, err));
    RP_TRY_OUT(copy_leaves(&e, IR_LEAF_STATE, states, &n_states, err));
    RP_TRY_OUT(ir_eval(e.g, inputs, e.leaf[IR_LEAF_PARAM], states, e.symbols, e.out, err));
    e.n_out = ir_output_count(e.g);
    if (backend != RP_BACKEND_INTERP) {
        RP_TRY_OUT(make_buffers(&e, &b, err));
        RP_TRY_OUT(run_compiled(g, &e, &b, backend, err));
    }
    RP_TRY_OUT(print_outputs(&e, out, err));
out:
    for (uint32_t i = 0; i < n_inputs; i++) ir_value_done(&inputs[i]);
    for (uint32_t i = 0; i < n_states; i++) ir_value_done(&states[i]);
    base_free(inputs);
    base_free(states);
    free_buffers(&b);
    eval_done(&e);
    return st;
}
