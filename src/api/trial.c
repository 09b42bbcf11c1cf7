#include "api/trial.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

enum { MAX_ELEMENTS = 1 << 26 };

/* --- inputs -------------------------------------------------------------------- */

static int64_t size_at(const api_trial *t, ir_ref r, uint32_t d) {
    return ir_dim_eval(ir_graph_dims(t->g), ir_node_at(t->g, r)->shape.dim[d], t->symbols);
}

/* Number of values that operand i of node r may take; 0: any. */
static int64_t limit_at(const api_trial *t, ir_ref r, uint32_t i) {
    const ir_node *n = ir_node_at(t->g, r);
    if (n->op == IR_kv_store && i == 2) return size_at(t, n->in[0], 0) * size_at(t, n->in[0], 2);
    if (n->op == IR_gather && i == 1) return size_at(t, n->in[0], 0);
    if (n->op != IR_attention) return 0;
    if (i == 3) return size_at(t, n->in[5], 0);
    if (i == 4) return size_at(t, n->in[5], 1) * size_at(t, n->in[1], 2);
    return i == 5 ? size_at(t, n->in[1], 0) : 0;
}

typedef struct use {
    int64_t limit;
    bool slots; /* rows of one store must not meet */
} use;

static use use_of(const api_trial *t, ir_ref leaf) {
    use u = {64, false};
    for (ir_ref r = leaf + 1; r < ir_graph_count(t->g); r++) {
        const ir_node *n = ir_node_at(t->g, r);
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] != leaf) continue;
            int64_t limit = limit_at(t, r, i);
            if (limit > 0 && limit < u.limit) u.limit = limit;
            u.slots |= n->op == IR_kv_store && i == 2;
        }
    }
    return u;
}

static rp_status make_leaf(api_trial *t, int kind, uint32_t i, uint64_t seed, rp_error *err) {
    ir_ref r = ir_leaf_at(t->g, (ir_leaf)kind, i);
    const ir_node *n = ir_node_at(t->g, r);
    int64_t dims[IR_MAX_RANK], elements = 1;
    for (uint32_t d = 0; d < n->shape.rank; d++) {
        dims[d] = size_at(t, r, d);
        if (dims[d] > MAX_ELEMENTS || elements * dims[d] > MAX_ELEMENTS)
            return rp_fail(err, RP_INVALID, "%s has more than %d elements; choose smaller sizes",
                           n->name, MAX_ELEMENTS);
        elements *= dims[d];
    }
    use u = use_of(t, r);
    ir_value *v = &t->leaf[kind][i];
    RP_TRY(ir_random_value(n->dtype, dims, n->shape.rank, u.limit,
                           seed + UINT64_C(0x9e37) * (i + 1) + (uint64_t)kind, v, err));
    t->n[kind]++;
    int64_t start = v->n ? (int64_t)v->data[0] : 0;
    for (int64_t k = 0; u.slots && k < v->n; k++) v->data[k] = (double)((start + k) % u.limit);
    return RP_OK;
}

rp_status api_trial_init(api_trial *t, const ir_graph *g, const char *sizes, uint64_t seed,
                         rp_error *err) {
    uint32_t n_symbols = ir_dims_symbol_count(ir_graph_dims(g));
    *t = (api_trial){.g = g};
    t->symbols = base_alloc_array(n_symbols + 1u, sizeof *t->symbols);
    if (!t->symbols) return rp_fail(err, RP_NOMEM, "eval");
    RP_TRY(api_sizes(g, sizes, t->symbols, err));
    for (int kind = 0; kind < API_LEAF_KINDS; kind++) {
        uint32_t n = ir_leaf_count(g, (ir_leaf)kind);
        t->leaf[kind] = base_alloc_array(n + 1u, sizeof(ir_value));
        if (!t->leaf[kind]) return rp_fail(err, RP_NOMEM, "eval");
        for (uint32_t i = 0; i < n; i++) RP_TRY(make_leaf(t, kind, i, seed, err));
    }
    return RP_OK;
}

void api_trial_done(api_trial *t) {
    for (int kind = 0; kind < API_LEAF_KINDS; kind++) {
        for (uint32_t i = 0; i < t->n[kind]; i++) ir_value_done(&t->leaf[kind][i]);
        base_free(t->leaf[kind]);
    }
    base_free(t->symbols);
    *t = (api_trial){0};
}

/* --- what a run gives ------------------------------------------------------------ */

void api_values_done(api_values *v) {
    for (uint32_t i = 0; i < v->n; i++) ir_value_done(&v->v[i]);
    base_free(v->v);
    *v = (api_values){0};
}

static ir_ref node_of(const api_trial *t, uint32_t i) {
    uint32_t n_out = ir_output_count(t->g), n_states = t->n[IR_LEAF_STATE];
    if (i < n_out) return ir_output_at(t->g, i);
    i -= n_out;
    return i < n_states ? ir_leaf_at(t->g, IR_LEAF_STATE, i)
                        : ir_leaf_at(t->g, IR_LEAF_INPUT, i - n_states);
}

rp_dtype api_trial_type(const api_trial *t, uint32_t i) {
    return ir_node_at(t->g, node_of(t, i))->dtype;
}

static rp_status copy_value(const ir_value *v, ir_value *copy, rp_error *err) {
    *copy = *v;
    copy->data = base_alloc_array((size_t)v->n + 1, sizeof *v->data);
    if (!copy->data) return rp_fail(err, RP_NOMEM, "eval");
    if (v->n > 0) memcpy(copy->data, v->data, (size_t)v->n * sizeof *v->data);
    return RP_OK;
}

/* Memory as it is before a run; the outputs are empty. */
static rp_status values_init(const api_trial *t, api_values *out, rp_error *err) {
    uint32_t n_out = ir_output_count(t->g), n_states = t->n[IR_LEAF_STATE];
    *out = (api_values){.n = n_out + n_states + t->n[IR_LEAF_INPUT]};
    out->v = base_alloc_array(out->n + 1u, sizeof *out->v);
    if (!out->v) {
        out->n = 0;
        return rp_fail(err, RP_NOMEM, "eval");
    }
    for (uint32_t i = 0; i < out->n - n_out; i++)
        RP_TRY(copy_value(i < n_states ? &t->leaf[IR_LEAF_STATE][i]
                                       : &t->leaf[IR_LEAF_INPUT][i - n_states],
                          &out->v[n_out + i], err));
    return RP_OK;
}

rp_status api_trial_interpret(const api_trial *t, const ir_eval_watch *watch, api_values *out,
                              rp_error *err) {
    api_values r = {0};
    rp_status st = values_init(t, &r, err);
    if (st == RP_OK) {
        ir_value *states = r.v + ir_output_count(t->g);
        const ir_eval_leaves leaves = {states + t->n[IR_LEAF_STATE], t->leaf[IR_LEAF_PARAM],
                                       states};
        st = ir_eval_watched(t->g, &leaves, t->symbols, watch, r.v, err);
    }
    if (st == RP_OK)
        *out = r;
    else
        api_values_done(&r);
    return st;
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
    const api_trial *t;
    rp_buffer *in, *out;
    void **bound;      /* params, then states */
    rp_device *device; /* NULL: the host's */
    void **there;      /* states, in memory of the device */
    uint32_t n_in, n_out, n_bound, n_there;
} buffers;

static rp_status describe(const api_trial *t, ir_ref r, rp_buffer *o, ir_value *v, rp_error *err) {
    const ir_node *n = ir_node_at(t->g, r);
    *o = (rp_buffer){.dtype = n->dtype, .rank = n->shape.rank};
    *v = (ir_value){.rank = n->shape.rank, .n = 1};
    for (uint32_t d = 0; d < v->rank; d++) {
        o->dim[d] = v->dim[d] = size_at(t, r, d);
        v->n *= v->dim[d];
    }
    v->data = base_alloc_array((size_t)v->n + 1, sizeof *v->data);
    return v->data ? RP_OK : rp_fail(err, RP_NOMEM, "eval");
}

/* out: values of the outputs, to be read behind the run. */
static rp_status make_buffers(buffers *b, ir_value *out, rp_error *err) {
    const api_trial *t = b->t;
    uint32_t n_in = t->n[IR_LEAF_INPUT], n_out = ir_output_count(t->g);
    b->in = base_alloc_array(n_in + 1u, sizeof *b->in);
    b->out = base_alloc_array(n_out + 1u, sizeof *b->out);
    b->bound = base_alloc_array(t->n[IR_LEAF_PARAM] + t->n[IR_LEAF_STATE] + 1u, sizeof *b->bound);
    b->there = base_alloc_array(t->n[IR_LEAF_STATE] + 1u, sizeof *b->there);
    if (!b->in || !b->out || !b->bound || !b->there) return rp_fail(err, RP_NOMEM, "eval");
    for (; b->n_in < n_in; b->n_in++) {
        const ir_value *v = &t->leaf[IR_LEAF_INPUT][b->n_in];
        rp_buffer *o = &b->in[b->n_in];
        ir_ref r = ir_leaf_at(t->g, IR_LEAF_INPUT, b->n_in);
        *o = (rp_buffer){.dtype = ir_node_at(t->g, r)->dtype, .rank = v->rank};
        memcpy(o->dim, v->dim, v->rank * sizeof *v->dim);
        if (!(o->data = pack(o->dtype, v))) return rp_fail(err, RP_NOMEM, "eval");
    }
    for (; b->n_out < n_out; b->n_out++) {
        rp_buffer *o = &b->out[b->n_out];
        ir_value *v = &out[b->n_out];
        RP_TRY(describe(t, ir_output_at(t->g, b->n_out), o, v, err));
        o->data = base_alloc_aligned(packed_bytes(o->dtype, v) + 1, 64);
        if (!o->data) return rp_fail(err, RP_NOMEM, "eval");
    }
    return RP_OK;
}

static rp_status copy_there(rp_device *d, void *to, const void *from, size_t size, rp_error *err) {
    rp_stream *s = NULL;
    RP_TRY(rp_stream_open(d, &s, err));
    rp_status st = rp_stream_copy(s, to, from, size, err);
    if (st == RP_OK) st = rp_stream_synchronize(s, err);
    rp_stream_close(s);
    return st;
}

/* A state lies where the device works: *p becomes that place. */
static rp_status bring_state(buffers *b, size_t size, void **p, rp_error *err) {
    void *there = NULL;
    RP_TRY(rp_device_alloc(b->device, size, &there, err));
    b->there[b->n_there++] = there;
    RP_TRY(copy_there(b->device, there, *p, size, err));
    *p = there;
    return RP_OK;
}

static rp_status bind_all(buffers *b, rp_compiled *c, rp_error *err) {
    const api_trial *t = b->t;
    for (int kind = IR_LEAF_PARAM; kind <= IR_LEAF_STATE; kind++)
        for (uint32_t i = 0; i < t->n[kind]; i++) {
            const ir_node *n = ir_node_at(t->g, ir_leaf_at(t->g, (ir_leaf)kind, i));
            const ir_value *v = &t->leaf[kind][i];
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
    base_free(b->there);
    base_free(b->in);
    base_free(b->out);
    base_free(b->bound);
}

/* What is in the buffers behind the run. */
static rp_status read_back(const buffers *b, api_values *out, rp_error *err) {
    const api_trial *t = b->t;
    uint32_t n_states = t->n[IR_LEAF_STATE];
    ir_value *memory = out->v + b->n_out;
    for (uint32_t i = 0; i < b->n_out; i++) unpack(b->out[i].dtype, b->out[i].data, &out->v[i]);
    for (uint32_t i = 0; i < n_states; i++) {
        rp_dtype type = ir_node_at(t->g, ir_leaf_at(t->g, IR_LEAF_STATE, i))->dtype;
        void *at = b->bound[t->n[IR_LEAF_PARAM] + i];
        if (b->device)
            RP_TRY(copy_there(b->device, at, b->there[i], packed_bytes(type, &memory[i]), err));
        unpack(type, at, &memory[i]);
    }
    for (uint32_t i = 0; i < b->n_in; i++)
        unpack(b->in[i].dtype, b->in[i].data, &memory[n_states + i]);
    return RP_OK;
}

static rp_status compile_trial(const api_trial *t, rp_device *device, rp_compilation_config *config,
                               rp_compiled **out, rp_error *err) {
    rp_graph *g = NULL;
    ir_graph *shared = ir_graph_share(t->g);
    rp_status st = trace_graph_wrap(shared, &g, err);
    if (st == RP_OK)
        st = rp_compile_on(device, g, config, out, err);
    else
        ir_graph_free(shared);
    rp_graph_free(g);
    return st;
}

rp_status api_trial_compiled(const api_trial *t, rp_device *device, rp_compilation_config *config,
                             api_values *out, rp_error *err) {
    buffers b = {.t = t, .device = device};
    rp_compiled *c = NULL;
    api_values r = {0};
    rp_status st = values_init(t, &r, err);
    if (st != RP_OK) goto out;
    RP_TRY_OUT(make_buffers(&b, r.v, err));
    RP_TRY_OUT(compile_trial(t, device, config, &c, err));
    RP_TRY_OUT(bind_all(&b, c, err));
    RP_TRY_OUT(rp_compiled_run(c, b.in, b.n_in, b.out, b.n_out, err));
    RP_TRY_OUT(read_back(&b, &r, err));
    *out = r;
    r = (api_values){0};
out:
    rp_compiled_free(c);
    free_buffers(&b);
    api_values_done(&r);
    return st;
}
