/* Interpreter of pure ops: plain loops over dense row-major doubles.
 *
 * Sums run in ascending order in double and are rounded once, when the node's value is stored. */
#include <math.h>
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/eval_node.h"

/* Row-major strides of a shape. */
static void strides_of(const ir_value *v, int64_t *stride) {
    int64_t s = 1;
    for (uint32_t i = v->rank; i-- > 0; s *= v->dim[i]) stride[i] = s;
}

/* Strides of x seen as an array of out's shape: 0 where it is broadcast. */
static void broadcast_strides(const ir_value *x, const ir_value *out, int64_t *stride) {
    int64_t own[IR_MAX_RANK];
    assert(x->rank <= out->rank);
    uint32_t lead = out->rank - x->rank;
    strides_of(x, own);
    for (uint32_t i = 0; i < out->rank; i++)
        stride[i] = i < lead || x->dim[i - lead] == 1 ? 0 : own[i - lead];
}

/* Steps idx through out's shape in row-major order; at[k] follows with stride[k]. */
static void advance(const ir_value *out, int64_t *idx, int64_t (*stride)[IR_MAX_RANK], int64_t *at,
                    uint32_t n) {
    for (uint32_t i = out->rank; i-- > 0;) {
        for (uint32_t k = 0; k < n; k++) at[k] += stride[k][i];
        if (++idx[i] < out->dim[i]) return;
        for (uint32_t k = 0; k < n; k++) at[k] -= stride[k][i] * out->dim[i];
        idx[i] = 0;
    }
}

static const ir_value *in(const eval_state *s, const ir_node *n, uint32_t i) {
    assert(i < n->n_in && s->value[n->in[i]]);
    return s->value[n->in[i]];
}

/* One element where the operands, the result or both are i64. */
static void element_i64(const ir_node *n, rp_dtype t, const ir_value *const *x, const int64_t *at,
                        ir_value *out, int64_t i) {
    int64_t v[3] = {0};
    bool ints = t == RP_DTYPE_I64;
    if (n->op == IR_where) { /* its first operand is a boolean */
        uint32_t k = x[0]->data[at[0]] != 0 ? 1 : 2;
        ir_value_set_int(out, i, ir_value_int(x[k], at[k]));
        return;
    }
    for (uint32_t k = 0; ints && k < n->n_in; k++) v[k] = ir_value_int(x[k], at[k]);
    if (n->op == IR_cast && ints && n->dtype == RP_DTYPE_I64)
        ir_value_set_int(out, i, v[0]);
    else if (n->op == IR_cast && ints)
        out->data[i] = ir_from_i64(n->dtype, v[0]);
    else if (n->op == IR_cast)
        ir_value_set_int(out, i, ir_to_i64(x[0]->data[at[0]]));
    else if (n->dtype == RP_DTYPE_I64)
        ir_value_set_int(out, i, ir_apply_i64(n->op, v));
    else
        out->data[i] = (double)ir_apply_i64(n->op, v);
}

static void eval_elementwise(eval_state *s, const ir_node *n, ir_value *out) {
    int64_t idx[IR_MAX_RANK] = {0}, stride[3][IR_MAX_RANK], at[3] = {0};
    rp_dtype t = ir_node_at(s->g, n->in[n->op == IR_where ? 1 : 0])->dtype;
    for (uint32_t k = 0; k < n->n_in; k++) broadcast_strides(in(s, n, k), out, stride[k]);
    const ir_value *v[3] = {in(s, n, 0), in(s, n, 0), in(s, n, 0)};
    for (uint32_t k = 1; k < n->n_in; k++) v[k] = in(s, n, k);
    for (int64_t i = 0; i < out->n; i++) {
        double x[3] = {0};
        if (n->op == IR_bitcast) {
            x[0] = ir_bitcast(t, n->dtype, v[0]->data[at[0]]);
            memcpy(&out->data[i], x, sizeof *x); /* i64 is no double */
        } else if (t == RP_DTYPE_I64 || n->dtype == RP_DTYPE_I64) {
            element_i64(n, t, v, at, out, i);
        } else {
            for (uint32_t k = 0; k < n->n_in; k++) x[k] = v[k]->data[at[k]];
            out->data[i] = ir_apply(n->op, t, n->dtype, x);
        }
        advance(out, idx, stride, at, n->n_in);
    }
}

/* Copies x to out with the given strides of x along out's axes, from offset on. */
static void copy_strided(const ir_value *x, ir_value *out, int64_t (*stride)[IR_MAX_RANK],
                         int64_t offset) {
    int64_t idx[IR_MAX_RANK] = {0}, at = offset;
    for (int64_t i = 0; i < out->n; i++) {
        memcpy(&out->data[i], &x->data[at], sizeof *out->data); /* i64 is no double */
        advance(out, idx, stride, &at, 1);
    }
}

static void eval_view(eval_state *s, const ir_node *n, ir_value *out) {
    const ir_value *x = in(s, n, 0);
    int64_t own[IR_MAX_RANK], stride[1][IR_MAX_RANK], offset = 0;
    strides_of(x, own);
    memcpy(stride[0], own, sizeof own);
    switch (n->op) {
    case IR_reshape:
        if (out->n > 0) memcpy(out->data, x->data, (size_t)out->n * sizeof *out->data);
        return;
    case IR_permute:
        for (uint32_t i = 0; i < out->rank; i++)
            stride[0][i] = own[ir_attr_get(n, IR_ATTR_AXES)->u.ints[i]];
        break;
    case IR_slice:
        offset = own[ir_attr_int(n, IR_ATTR_AXIS, 0)] *
                 ir_dim_eval(ir_graph_dims(s->g), ir_attr_get(n, IR_ATTR_START)->u.dim, s->symbols);
        break;
    default: broadcast_strides(x, out, stride[0]); break;
    }
    copy_strided(x, out, stride, offset);
}

static double reduce_start(ir_op op) {
    switch (op) {
    case IR_prod: return 1;
    case IR_amax: return -(double)INFINITY;
    case IR_amin: return (double)INFINITY;
    default: return 0;
    }
}

/* One run of k elements, step apart. Floats are summed in double; integers wrap at each step. */
static double reduce_run(const ir_node *n, rp_dtype t, const double *x, int64_t k, int64_t step) {
    bool exact = !rp_dtype_is_float(t);
    double best[2] = {reduce_start(n->op), 0}, at = 0;
    if (n->op == IR_argmax) {
        best[0] = x[0];
        for (int64_t i = 1; i < k; i++) {
            best[1] = x[i * step];
            if (ir_apply(IR_argmax, RP_DTYPE_F32, RP_DTYPE_COUNT_, best) == 0) continue;
            best[0] = best[1];
            at = (double)i;
        }
        return at;
    }
    for (int64_t i = 0; i < k; i++) {
        best[1] = x[i * step];
        best[0] = i == 0 ? best[1] : ir_apply(n->op, t, exact ? t : RP_DTYPE_COUNT_, best);
    }
    return ir_round(n->dtype, best[0]);
}

/* The same over i64, exactly. */
static int64_t reduce_i64(ir_op op, const ir_value *x, int64_t first, int64_t k, int64_t step) {
    int64_t v[2] = {k > 0 ? ir_value_int(x, first) : op == IR_prod, 0}, at = 0;
    for (int64_t i = 1; i < k; i++) {
        v[1] = ir_value_int(x, first + i * step);
        int64_t joined = ir_apply_i64(op, v);
        if (op != IR_argmax) {
            v[0] = joined;
        } else if (joined) {
            v[0] = v[1];
            at = i;
        }
    }
    return op == IR_argmax ? at : v[0];
}

static void eval_reduce(eval_state *s, const ir_node *n, ir_value *out) {
    const ir_value *x = in(s, n, 0);
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0), k = x->dim[axis], inner = 1;
    rp_dtype t = ir_node_at(s->g, n->in[0])->dtype;
    for (uint32_t i = (uint32_t)axis + 1; i < x->rank; i++) inner *= x->dim[i];
    for (int64_t i = 0; i < out->n; i++) {
        int64_t first = i / inner * k * inner + i % inner;
        if (t != RP_DTYPE_I64)
            out->data[i] = reduce_run(n, t, x->data + first, k, inner);
        else if (n->op == IR_argmax)
            out->data[i] = (double)reduce_i64(n->op, x, first, k, inner);
        else
            ir_value_set_int(out, i, reduce_i64(n->op, x, first, k, inner));
    }
}

static void eval_concat(eval_state *s, const ir_node *n, ir_value *out) {
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0), inner = 1, offset = 0;
    for (uint32_t i = (uint32_t)axis + 1; i < out->rank; i++) inner *= out->dim[i];
    for (uint32_t k = 0; k < n->n_in; k++) {
        const ir_value *x = in(s, n, k);
        int64_t run = x->dim[axis] * inner, row = out->dim[axis] * inner;
        for (int64_t o = 0; run > 0 && o < x->n / run; o++)
            memcpy(out->data + o * row + offset, x->data + o * run, (size_t)run * sizeof(double));
        offset += run;
    }
}

static void eval_gather(eval_state *s, const ir_node *n, ir_value *out) {
    const ir_value *table = in(s, n, 0), *idx = in(s, n, 1);
    int64_t rows = table->dim[0], width = rows ? table->n / rows : 0;
    bool wide = ir_node_at(s->g, n->in[1])->dtype == RP_DTYPE_I64;
    for (int64_t i = 0; width > 0 && i < idx->n; i++) {
        int64_t r = wide ? ir_value_int(idx, i) : ir_to_i64(idx->data[i]);
        r = r < 0 ? 0 : r >= rows ? rows - 1 : r;
        memcpy(out->data + i * width, table->data + r * width, (size_t)width * sizeof(double));
    }
}

static void eval_pack_i4(const ir_value *x, ir_value *out) {
    for (int64_t i = 0; i < out->n; i++) {
        const uint32_t lo = (uint32_t)(int)x->data[2 * i], hi = (uint32_t)(int)x->data[2 * i + 1];
        out->data[i] = (double)((lo & 15) | ((hi & 15) << 4));
    }
}

static void eval_unpack_i4(const ir_node *n, const ir_value *x, ir_value *out) {
    for (int64_t i = 0; i < out->n; i++) {
        const int four = ((int)x->data[i / 2] >> (i % 2 ? 4 : 0)) & 15;
        out->data[i] = four > 7 && n->dtype == RP_DTYPE_I8 ? four - 16 : four;
    }
}

/* One [M,K] x [K,N] product; b is addressed by its two strides. */
static void matmul_one(const double *a, const double *b, double *c, const int64_t mnk[3],
                       int64_t b_row, int64_t b_col) {
    for (int64_t i = 0; i < mnk[0]; i++) {
        for (int64_t j = 0; j < mnk[1]; j++) {
            double sum = 0;
            for (int64_t k = 0; k < mnk[2]; k++)
                sum += a[i * mnk[2] + k] * b[k * b_row + j * b_col];
            c[i * mnk[1] + j] = ir_round(RP_DTYPE_F32, sum);
        }
    }
}

static void eval_matmul(eval_state *s, const ir_node *n, ir_value *out) {
    const ir_value *a = in(s, n, 0), *b = in(s, n, 1);
    bool trans = ir_attr_int(n, IR_ATTR_TRANS_B, 0) != 0;
    int64_t mnk[3] = {a->dim[a->rank - 2], out->dim[out->rank - 1], a->dim[a->rank - 1]};
    int64_t idx[IR_MAX_RANK] = {0}, stride[2][IR_MAX_RANK] = {{0}}, at[2] = {0};
    /* Batch axes alone, as shapes whose elements are whole matrices. */
    ir_value ba = *a, bb = *b, bo = *out;
    ba.rank -= 2;
    bb.rank -= 2;
    bo.rank -= 2;
    broadcast_strides(&ba, &bo, stride[0]);
    broadcast_strides(&bb, &bo, stride[1]);
    int64_t size = mnk[0] * mnk[1];
    for (int64_t o = 0; size > 0 && o < out->n / size; o++) {
        matmul_one(a->data + at[0] * mnk[0] * mnk[2], b->data + at[1] * mnk[1] * mnk[2],
                   out->data + o * size, mnk, trans ? 1 : mnk[1], trans ? mnk[2] : 1);
        advance(&bo, idx, stride, at, 2);
    }
}

/* Values of block formats are held dequantised; quantising is packing and reading back. */
static rp_status eval_quant(eval_state *s, const ir_node *n, ir_value *out) {
    const ir_value *x = in(s, n, 0);
    if (n->op == IR_dequant) {
        for (int64_t i = 0; i < out->n; i++) out->data[i] = ir_round(RP_DTYPE_F32, x->data[i]);
        return RP_OK;
    }
    int64_t row = x->dim[x->rank - 1], block = (int64_t)rp_dtype_block(n->dtype);
    void *bytes = base_alloc_array((size_t)(row / block), rp_dtype_block_bytes(n->dtype));
    if (!bytes) return rp_fail(s->err, RP_NOMEM, "eval: out of memory");
    for (int64_t i = 0; row > 0 && i < x->n; i += row) {
        ir_pack(n->dtype, x->data + i, row, bytes);
        ir_unpack(n->dtype, bytes, row, out->data + i);
    }
    base_free(bytes);
    return RP_OK;
}

static void eval_leaf(const eval_state *s, const ir_node *n, ir_value *out) {
    bool wide = n->dtype == RP_DTYPE_I64;
    if (n->op == IR_const && wide)
        ir_value_set_int(out, 0, ir_to_i64(ir_attr_float(n, IR_ATTR_VALUE, 0)));
    else if (n->op == IR_const)
        out->data[0] = ir_attr_float(n, IR_ATTR_VALUE, 0);
    if (n->op == IR_size) {
        ir_dim d = ir_attr_get(n, IR_ATTR_SIZE)->u.dim;
        int64_t size = ir_dim_eval(ir_graph_dims(s->g), d, s->symbols);
        if (wide)
            ir_value_set_int(out, 0, size);
        else
            out->data[0] = ir_round(n->dtype, (double)size);
    }
    if (n->op == IR_empty) /* reading it before an effect has written it must show */
        for (int64_t i = 0; i < out->n; i++)
            out->data[i] = ir_dtype_is_real(n->dtype) ? (double)NAN : 0;
    if (n->op != IR_iota) return;
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0), inner = 1;
    for (uint32_t i = (uint32_t)axis + 1; i < out->rank; i++) inner *= out->dim[i];
    for (int64_t i = 0; i < out->n; i++) {
        int64_t v = i / inner % out->dim[axis];
        if (wide)
            ir_value_set_int(out, i, v);
        else
            out->data[i] = ir_round(n->dtype, (double)v);
    }
}

rp_status ir_eval_pure(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    RP_TRY(ir_eval_alloc(s, r));
    ir_value *out = s->value[r];
    switch (ir_op_table(n->op)->kind) {
    case IR_KIND_LEAF: eval_leaf(s, n, out); break;
    case IR_KIND_VIEW: eval_view(s, n, out); break;
    case IR_KIND_ELEMENTWISE: eval_elementwise(s, n, out); break;
    case IR_KIND_REDUCE: eval_reduce(s, n, out); break;
    case IR_KIND_SCAN: return ir_eval_scan(s, r);
    case IR_KIND_SCATTER: ir_eval_scatter(s, r); break;
    case IR_KIND_MOVE:
        if (n->op == IR_concat)
            eval_concat(s, n, out);
        else if (n->op == IR_gather)
            eval_gather(s, n, out);
        else if (n->op == IR_pack_i4)
            eval_pack_i4(in(s, n, 0), out);
        else if (n->op == IR_unpack_i4)
            eval_unpack_i4(n, in(s, n, 0), out);
        else if (out->n > 0)
            memcpy(out->data, in(s, n, 0)->data, (size_t)out->n * sizeof *out->data);
        break;
    case IR_KIND_CONTRACT: eval_matmul(s, n, out); break;
    case IR_KIND_QUANT: return eval_quant(s, n, out);
    case IR_KIND_EFFECT:
        return rp_fail(s->err, RP_INTERNAL, "eval: %s is not pure", ir_op_table(n->op)->name);
    }
    return RP_OK;
}
