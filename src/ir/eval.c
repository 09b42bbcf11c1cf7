/* The interpreter's driver: symbols and leaves in, nodes in order, outputs out.
 *
 * Node values live until their last use. A version of memory is a value like any other; the last one of a state, and of an
 * input that the graph mutates, is what the caller finds there. */
#include "ir/eval.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/eval_node.h"
#include "ir/node.h"

/* 16 GiB of doubles: beyond this a text's sizes are surely a mistake. */
#define MAX_ELEMENTS (INT64_C(1) << 31)

void ir_value_done(ir_value *v) {
    base_free(v->data);
    *v = (ir_value){0};
}

static rp_status value_refused(rp_status st, const int64_t *dim, uint32_t rank, const char *what,
                               rp_error *err) {
    base_buf b;
    double bytes = sizeof(double);
    base_buf_init(&b, 0);
    for (uint32_t i = 0; i < rank; i++) {
        base_buf_printf(&b, "%s%lld", i ? "," : "", (long long)dim[i]);
        bytes *= (double)dim[i];
    }
    if (st == RP_NOMEM)
        st = rp_fail(err, st, "%s: no memory for [%s], %.3g bytes to the interpreter", what,
                     b.data ? b.data : "", bytes);
    else
        st = rp_fail(err, st, "%s: [%s] has more than the 2^31 elements that the interpreter takes",
                     what, b.data ? b.data : "");
    base_buf_done(&b);
    return st;
}

static rp_status value_init(ir_value *v, const int64_t *dim, uint32_t rank, const char *what,
                            rp_error *err) {
    *v = (ir_value){.rank = rank, .n = 1};
    for (uint32_t i = 0; i < rank; i++) {
        v->dim[i] = dim[i];
        if (dim[i] < 0)
            return rp_fail(err, RP_INVALID, "%s: axis %u would be %lld", what, i,
                           (long long)dim[i]);
        if (__builtin_mul_overflow(v->n, dim[i], &v->n) || v->n > MAX_ELEMENTS)
            return value_refused(RP_UNSUPPORTED, dim, rank, what, err);
    }
    v->data = base_alloc_array((size_t)v->n, sizeof *v->data);
    return v->data ? RP_OK : value_refused(RP_NOMEM, dim, rank, what, err);
}

static void concrete(const eval_state *s, const ir_shape *shape, int64_t *dim) {
    for (uint32_t i = 0; i < shape->rank; i++)
        dim[i] = ir_dim_eval(ir_graph_dims(s->g), shape->dim[i], s->symbols);
}

rp_status ir_eval_alloc(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    int64_t dim[IR_MAX_RANK];
    const char *name = ir_op_table(n->op)->name;
    concrete(s, &n->shape, dim);
    RP_TRY(value_init(&s->own[r], dim, n->shape.rank, name, s->err));
    s->value[r] = &s->own[r];
    if (n->n_more == 0) return RP_OK;
    s->more[r] = base_alloc_array(n->n_more, sizeof *s->more[r]);
    if (!s->more[r]) return rp_fail(s->err, RP_NOMEM, "%s: out of memory", name);
    for (uint32_t i = 0; i < n->n_more; i++) {
        concrete(s, &n->more[i].shape, dim);
        RP_TRY(value_init(&s->more[r][i], dim, n->more[i].shape.rank, name, s->err));
    }
    return RP_OK;
}

/* There is one node for each result, so it takes it. */
static void take_result(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    ir_value *from = &s->more[n->in[0]][ir_attr_int(n, IR_ATTR_INDEX, 1) - 1];
    s->own[r] = *from;
    s->value[r] = &s->own[r];
    *from = (ir_value){0};
}

static void free_more(eval_state *s, ir_ref r) {
    uint32_t n = s->more[r] ? ir_node_at(s->g, r)->n_more : 0;
    for (uint32_t i = 0; i < n; i++) ir_value_done(&s->more[r][i]);
    base_free(s->more[r]);
    s->more[r] = NULL;
}

static rp_status check_symbols(const eval_state *s) {
    const ir_dims *t = ir_graph_dims(s->g);
    for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++) {
        const ir_symbol *y = ir_dims_symbol(t, i);
        int64_t v = s->symbols[i];
        if (v < y->min || v > y->max || v % y->divisor != 0)
            return rp_fail(s->err, RP_INVALID,
                           "eval: %s = %lld; graph %s wants it in [%lld,%lld], a multiple of %lld",
                           y->name, (long long)v, ir_graph_name(s->g), (long long)y->min,
                           (long long)y->max, (long long)y->divisor);
    }
    return RP_OK;
}

static rp_status check_leaf(const eval_state *s, const ir_node *n, const ir_value *v) {
    int64_t dim[IR_MAX_RANK];
    concrete(s, &n->shape, dim);
    bool ok = v->rank == n->shape.rank && v->data;
    for (uint32_t i = 0; ok && i < v->rank; i++) ok = v->dim[i] == dim[i];
    if (ok) return RP_OK;
    base_buf b;
    base_buf_init(&b, 0);
    for (uint32_t i = 0; i < v->rank && i < IR_MAX_RANK; i++)
        base_buf_printf(&b, "%s%lld", i ? "," : "", (long long)v->dim[i]);
    rp_status st = rp_fail(s->err, RP_INVALID, "eval: %s '%s' is given as [%s]; the graph wants %s",
                           ir_op_table(n->op)->name, n->name, b.data ? b.data : "",
                           ir_shape_text(s->g, n->dtype, &n->shape).s);
    base_buf_done(&b);
    return st;
}

/* A copy whose elements are values of t. */
static rp_status copy_leaf(eval_state *s, ir_ref r, const ir_value *v) {
    rp_dtype t = ir_node_at(s->g, r)->dtype;
    RP_TRY(ir_eval_alloc(s, r));
    for (int64_t i = 0; t != RP_DTYPE_I64 && i < v->n; i++)
        s->own[r].data[i] = ir_round(t, v->data[i]);
    if (t == RP_DTYPE_I64 && v->n > 0)
        memcpy(s->own[r].data, v->data, (size_t)v->n * sizeof *v->data);
    return RP_OK;
}

static rp_status bind_leaves(eval_state *s, const ir_value *const leaves[3]) {
    for (int kind = IR_LEAF_INPUT; kind <= IR_LEAF_STATE; kind++) {
        for (uint32_t i = 0; i < ir_leaf_count(s->g, (ir_leaf)kind); i++) {
            ir_ref r = ir_leaf_at(s->g, (ir_leaf)kind, i);
            const ir_node *n = ir_node_at(s->g, r);
            const ir_value *v = &leaves[kind][i];
            RP_TRY(check_leaf(s, n, v));
            bool ints = !ir_dtype_is_real(n->dtype) && !rp_dtype_is_quant(n->dtype);
            if (kind == IR_LEAF_INPUT || (kind == IR_LEAF_PARAM && ints))
                RP_TRY(copy_leaf(s, r, v));
            else
                s->value[r] = (ir_value *)(uintptr_t)v; /* params are only read */
        }
    }
    return RP_OK;
}

/* Whether the caller sees what is in the memory of that leaf at the end. */
static bool outlives(const ir_node *leaf) {
    return leaf->op == IR_state || leaf->mutates;
}

/* written[r]: the node that names what a call left of version r. */
static void find_last_uses(const ir_graph *g, ir_ref *last, ir_ref *written) {
    uint32_t n = ir_graph_count(g);
    for (ir_ref r = 0; r < n; r++) {
        const ir_node *x = ir_node_at(g, r);
        last[r] = r;
        written[r] = IR_NONE;
        for (uint32_t i = 0; i < x->n_in; i++) last[x->in[i]] = r;
        if (x->op == IR_written) written[x->in[0]] = r;
    }
    for (uint32_t i = 0; i < ir_output_count(g); i++) last[ir_output_at(g, i)] = IR_NONE;
    for (ir_ref r = 0; r < n; r++) {
        ir_ref m = ir_node_at(g, r)->memory;
        if (m != IR_NONE && ir_writer_of(g, r) == IR_NONE && outlives(ir_node_at(g, m)))
            last[r] = IR_NONE;
    }
}

static void free_dead(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (s->last[n->in[i]] == r) ir_value_done(&s->own[n->in[i]]);
    if (s->last[r] == r) ir_value_done(&s->own[r]);
}

static bool is_leaf(ir_op op) {
    return op == IR_input || op == IR_param || op == IR_state;
}

static rp_status run(eval_state *s) {
    for (ir_ref r = 0; r < ir_graph_count(s->g); r++) {
        const ir_node *n = ir_node_at(s->g, r);
        if (is_leaf(n->op)) continue;
        if (ir_op_table(n->op)->kind == IR_KIND_EFFECT)
            RP_TRY(ir_eval_effect(s, r));
        else if (n->op == IR_written)
            RP_TRY(ir_eval_written(s, r));
        else if (n->op == IR_result)
            take_result(s, r);
        else
            RP_TRY(ir_eval_pure(s, r));
        if (s->watch && s->value[r]) s->watch->made(s->watch->user, s->g, r, s->value);
        free_dead(s, r);
    }
    return RP_OK;
}

static const ir_value *last_version(const eval_state *s, const ir_ref *written, ir_ref r) {
    for (;;) {
        ir_ref w = ir_writer_of(s->g, r);
        if (w == IR_NONE) return s->value[r];
        if (!ir_op_is_call(ir_node_at(s->g, w)->op))
            r = w;
        else if (written[r] != IR_NONE)
            r = written[r];
        else
            return &s->after[r];
    }
}

/* Memory of the caller gets its last version, where that is not there already. */
static void leave_memory(const eval_state *s, const ir_ref *written,
                         const ir_value *const leaves[3]) {
    for (int kind = IR_LEAF_INPUT; kind <= IR_LEAF_STATE; kind++)
        for (uint32_t i = 0; i < ir_leaf_count(s->g, (ir_leaf)kind); i++) {
            ir_ref r = ir_leaf_at(s->g, (ir_leaf)kind, i);
            if (!outlives(ir_node_at(s->g, r))) continue;
            const ir_value *v = last_version(s, written, r), *to = &leaves[kind][i];
            if (v->data != to->data && v->n > 0)
                memcpy(to->data, v->data, (size_t)v->n * sizeof *v->data);
        }
}

static rp_status copy_outputs(eval_state *s, ir_value *out, uint32_t *n_done) {
    for (*n_done = 0; *n_done < ir_output_count(s->g); ++*n_done) {
        const ir_value *v = s->value[ir_output_at(s->g, *n_done)];
        RP_TRY(value_init(&out[*n_done], v->dim, v->rank, "output", s->err));
        if (v->n > 0) memcpy(out[*n_done].data, v->data, (size_t)v->n * sizeof *v->data);
    }
    return RP_OK;
}

rp_status ir_eval(const ir_graph *g, const ir_value *inputs, const ir_value *params,
                  ir_value *states, const int64_t *symbols, ir_value *out, rp_error *err) {
    const ir_eval_leaves leaves = {inputs, params, states};
    return ir_eval_watched(g, &leaves, symbols, NULL, out, err);
}

rp_status ir_eval_watched(const ir_graph *g, const ir_eval_leaves *given, const int64_t *symbols,
                          const ir_eval_watch *watch, ir_value *out, rp_error *err) {
    eval_state s = {.g = g, .symbols = symbols, .watch = watch, .err = err};
    const ir_value *const leaves[3] = {given->inputs, given->params, given->states};
    uint32_t n = ir_graph_count(g), n_done = 0;
    rp_status st = RP_OK;
    ir_ref *last = base_alloc_array(n, sizeof *last), *written = base_alloc_array(n, sizeof *last);
    s.last = last;
    s.value = base_alloc_array(n, sizeof *s.value);
    s.own = base_alloc_array(n, sizeof *s.own);
    s.after = base_alloc_array(n, sizeof *s.after);
    s.more = base_alloc_array(n, sizeof *s.more);
    if (!last || !written || !s.value || !s.own || !s.after || !s.more) {
        st = rp_fail(err, RP_NOMEM, "eval: out of memory");
        goto out;
    }
    RP_TRY_OUT(check_symbols(&s));
    RP_TRY_OUT(bind_leaves(&s, leaves));
    find_last_uses(g, last, written);
    RP_TRY_OUT(run(&s));
    st = copy_outputs(&s, out, &n_done);
    for (uint32_t i = 0; st != RP_OK && i < n_done; i++) ir_value_done(&out[i]);
    if (st == RP_OK) leave_memory(&s, written, leaves);
out:
    for (ir_ref r = 0; s.own && r < n; r++) ir_value_done(&s.own[r]);
    for (ir_ref r = 0; s.after && r < n; r++) ir_value_done(&s.after[r]);
    for (ir_ref r = 0; s.more && r < n; r++) free_more(&s, r);
    base_free(last);
    base_free(written);
    base_free(s.value);
    base_free(s.own);
    base_free(s.after);
    base_free(s.more);
    return st;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

rp_status ir_random_value(rp_dtype t, const int64_t *dims, uint32_t rank, int64_t hi, uint64_t seed,
                          ir_value *out, rp_error *err) {
    ir_value v;
    uint64_t state = seed;
    bool real = ir_dtype_is_real(t) || rp_dtype_is_quant(t);
    RP_TRY(value_init(&v, dims, rank, "random value", err));
    if (t == RP_DTYPE_BOOL) hi = 2;
    for (int64_t i = 0; i < v.n; i++) {
        uint64_t x = next_random(&state);
        uint64_t below = hi > 0 ? x % (uint64_t)hi : 0;
        if (t == RP_DTYPE_I64)
            ir_value_set_int(&v, i, (int64_t)below);
        else
            v.data[i] = ir_round(t, real ? (double)(x >> 40) * 0x1p-23 - 1.0 : (double)below);
    }
    int64_t row = rank > 0 ? dims[rank - 1] : 0, block = (int64_t)rp_dtype_block(t);
    if (rp_dtype_is_quant(t) && row > 0) { /* values that the format holds exactly */
        void *bytes = base_alloc_array((size_t)(row / block), rp_dtype_block_bytes(t));
        if (!bytes || row % block != 0) {
            base_free(bytes);
            ir_value_done(&v);
            return rp_fail(err, bytes ? RP_INVALID : RP_NOMEM,
                           "random value: rows of %lld in blocks of %lld", (long long)row,
                           (long long)block);
        }
        for (int64_t i = 0; i < v.n; i += row) {
            ir_pack(t, v.data + i, row, bytes);
            ir_unpack(t, bytes, row, v.data + i);
        }
        base_free(bytes);
    }
    *out = v;
    return RP_OK;
}
