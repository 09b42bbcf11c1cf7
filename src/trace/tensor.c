/* The tensor API over fake tensors: leaves, elementwise, scans, views, moves.
 *
 * Each function appends one node (a few for scalars); composites are in the other files of this room. */
#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "ir/eval.h"
#include "trace/record.h"

#define MAX_OPERANDS 32 /* on the stack; more are allocated */

rp_tensor trace_bad(rp_graph *g) {
    return (rp_tensor){g, IR_NONE, g ? g->id : 0};
}

rp_tensor trace_null(rp_graph *g, const char *what) {
    if (!g) g = trace_current();
    if (trace_ready(g)) (void)rp_fail(&g->err, RP_INVALID, "%s is NULL", what);
    return trace_bad(g);
}

bool trace_ready(rp_graph *g) {
    if (g && !g->ir) trace_fail_kept("a call");
    if (!g || g->err.code != RP_OK) return false;
    if (g->finished) {
        (void)rp_fail(&g->err, RP_INVALID, "graph @%s is finished: no op can be added",
                      ir_graph_name(g->ir));
        return false;
    }
    return true;
}

/* A body that writes memory of the graph around it would do so once, in front of the loop or branch, whatever that does. */
static bool stays_outside(rp_graph *g, ir_ref r) {
    if (!g->in_body || !ir_node_is_effect(ir_node_at(g->ir, r))) return true;
    (void)rp_fail(&g->err, RP_INVALID,
                  "%s: a body writes no memory of graph @%s around it; hand that in as an argument "
                  "and write the argument",
                  ir_op_table(ir_node_at(g->ir, r)->op)->name, ir_graph_name(g->ir));
    return false;
}

static ir_ref add(rp_graph *g, ir_op op, const ir_ref *in, uint32_t n, const ir_attr *attrs,
                  uint32_t n_attrs) {
    ir_ref out = IR_NONE;
    if (ir_add(g->ir, op, in, n, attrs, n_attrs, &out, &g->err) != RP_OK || !stays_outside(g, out))
        return IR_NONE;
    if (g->asked) trace_path_note(g, out, attrs, n_attrs);
    return out;
}

/* By the builder. */
static rp_tensor build(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n, const ir_attr *attrs,
                       uint32_t n_attrs) {
    ir_ref few[MAX_OPERANDS], *refs = few;
    rp_tensor out = trace_bad(g);
    if (!trace_ready(g)) return trace_bad(g);
    if (n > MAX_OPERANDS) refs = base_alloc_array(n, sizeof *refs);
    if (!refs) {
        (void)rp_fail(&g->err, RP_NOMEM, "%s of %u operands", ir_op_table(op)->name, n);
        return trace_bad(g);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (in[i].graph != g || in[i].ref == IR_NONE) {
            const bool around = g->body && trace_is_live(in[i]) && in[i].graph->in_body;
            (void)rp_fail(&g->err, RP_INVALID, "%s: operand %u is not a tensor of graph @%s%s",
                          ir_op_table(op)->name, i, ir_graph_name(g->ir),
                          around ? "; what comes from outside is handed in as an argument" : "");
            goto done;
        }
        refs[i] = in[i].ref;
    }
    out.ref = add(g, op, refs, n, attrs, n_attrs);
done:
    if (refs != few) base_free(refs);
    return out.ref == IR_NONE ? out : trace_made(g, out.ref);
}

/* Where the run does not ask for what the one before did. */
static RP_APART rp_tensor record(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n,
                                 const ir_attr *attrs, uint32_t n_attrs) {
    for (uint32_t i = 0; i < n; i++)
        if (!trace_is_live(in[i]) && !trace_check_live(ir_op_table(op)->name, in[i]))
            return trace_bad(trace_current());
    return build(g, op, in, n, attrs, n_attrs);
}

static inline rp_tensor follow(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n,
                               const ir_attr *attrs, uint32_t n_attrs) {
    const rp_tensor none = {NULL, IR_NONE, 0};
    return g && g->asked ? trace_path_follow(g, op, in, n, attrs, n_attrs) : none;
}

rp_tensor trace_op(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n, const ir_attr *attrs,
                   uint32_t n_attrs) {
    rp_tensor known = follow(g, op, in, n, attrs, n_attrs);
    return known.graph ? known : record(g, op, in, n, attrs, n_attrs);
}

/* The same of operands in registers: what is known is found without a frame. */
static RP_APART rp_tensor record_1(rp_tensor a, ir_op op) {
    return record(a.graph, op, &a, 1, NULL, 0);
}

static RP_APART rp_tensor record_2(rp_tensor a, rp_tensor b, ir_op op) {
    return record(a.graph, op, (rp_tensor[]){a, b}, 2, NULL, 0);
}

static RP_APART rp_tensor unary(rp_tensor a, ir_op op) {
    rp_tensor known = follow(a.graph, op, &a, 1, NULL, 0);
    return known.graph ? known : record_1(a, op);
}

static RP_APART rp_tensor binary(rp_tensor a, rp_tensor b, ir_op op) {
    rp_tensor known = follow(a.graph, op, (rp_tensor[]){a, b}, 2, NULL, 0);
    return known.graph ? known : record_2(a, b, op);
}

bool trace_axis(const char *op, rp_tensor x, int axis, bool more, uint32_t *out) {
    if (!trace_check_live(op, x) || !trace_ready(x.graph)) return false;
    int rank = (int)rp_tensor_shape(x).rank + more, front = axis < 0 ? axis + rank : axis;
    *out = (uint32_t)front;
    if (x.ref == IR_NONE || front < 0 || front >= rank)
        (void)rp_fail(&x.graph->err, RP_INVALID, "%s: axis %d out of range for %s%s", op, axis,
                      trace_type_text(x.graph, x).s, more ? " with an axis more" : "");
    else if (rank > RP_MAX_RANK)
        (void)rp_fail(&x.graph->err, RP_UNSUPPORTED, "%s: %s with an axis more; %d are the most",
                      op, trace_type_text(x.graph, x).s, RP_MAX_RANK);
    return trace_ready(x.graph);
}

rp_tensor trace_core(rp_tensor x) {
    rp_dtype t = rp_tensor_dtype(x);
    return rp_dtype_is_float(t) ? rp_cast(x, RP_DTYPE_F32) : x;
}

rp_tensor trace_like(rp_tensor y, rp_tensor x) {
    rp_dtype t = rp_tensor_dtype(x);
    return rp_dtype_is_float(t) ? rp_cast(y, t) : y;
}

rp_tensor trace_regroup(rp_tensor x, uint32_t first, uint32_t taken, const rp_dim *dims,
                        uint32_t n) {
    rp_shape s = rp_tensor_shape(x), to = {.rank = first};
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    assert(s.rank - taken + n <= RP_MAX_RANK);
    for (uint32_t i = 0; i < first; i++) to.dim[i] = s.dim[i];
    for (uint32_t i = 0; i < n; i++) to.dim[to.rank++] = dims[i];
    for (uint32_t i = first + taken; i < s.rank; i++) to.dim[to.rank++] = s.dim[i];
    return rp_reshape(x, to);
}

bool trace_shape(rp_graph *g, rp_shape s, ir_shape *out) {
    if (s.rank > IR_MAX_RANK) {
        (void)rp_fail(&g->err, RP_INVALID, "rank %u, at most %d", s.rank, IR_MAX_RANK);
        return false;
    }
    out->rank = s.rank;
    for (uint32_t i = 0; i < s.rank; i++) out->dim[i] = trace_dim(g, s.dim[i]);
    return true;
}

static rp_tensor leaf(rp_graph *g, ir_leaf kind, const char *name, rp_dtype dtype, rp_shape shape) {
    ir_shape s;
    rp_tensor out = trace_bad(g);
    if (!trace_ready(g) || !trace_shape(g, shape, &s)) return trace_bad(g);
    if (g->call) {
        (void)rp_fail(&g->err, RP_INVALID,
                      "'%s' is no argument of the call; a function that compiles itself is given "
                      "its inputs, params and states as arguments",
                      name ? name : "");
        return trace_bad(g);
    }
    if (ir_add_leaf(g->ir, kind, name, dtype, s, &out.ref, &g->err) != RP_OK) return trace_bad(g);
    return trace_made(g, out.ref);
}

rp_tensor rp_input(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape) {
    return leaf(g, IR_LEAF_INPUT, name, dtype, shape);
}

rp_tensor rp_mutable_input(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape) {
    rp_tensor x = rp_input(g, name, dtype, shape);
    if (x.ref != IR_NONE) ir_input_mutates(g->ir, x.ref);
    return x;
}

rp_tensor rp_param(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape) {
    return leaf(g, IR_LEAF_PARAM, name, dtype, shape);
}

rp_tensor rp_state(rp_graph *g, const char *name, rp_dtype dtype, rp_shape shape) {
    return leaf(g, IR_LEAF_STATE, name, dtype, shape);
}

static rp_tensor add_const(rp_graph *g, rp_dtype dtype, double value) {
    rp_tensor out = trace_bad(g);
    if (!trace_ready(g)) return trace_bad(g);
    if (ir_add_const(g->ir, dtype, value, &out.ref, &g->err) != RP_OK) return trace_bad(g);
    return trace_made(g, out.ref);
}

/* From here on not every integer is a double. */
#define NOT_EXACT 0x1p53

static bool is_integer(rp_dtype t) {
    return t < RP_DTYPE_COUNT_ && t != RP_DTYPE_BOOL && !ir_dtype_is_real(t) &&
           !rp_dtype_is_quant(t);
}

rp_tensor rp_const(rp_graph *g, rp_dtype dtype, double value) {
    if (!trace_ready(g)) return trace_bad(g);
    if (is_integer(dtype) && isfinite(value) && fabs(value) >= NOT_EXACT) {
        (void)rp_fail(&g->err, RP_INVALID,
                      "const: %.0f of %s: from 2^53 on a double does not have every integer; use "
                      "rp_const_int, rp_add_int or rp_mul_int",
                      value, rp_dtype_name(dtype));
        return trace_bad(g);
    }
    return add_const(g, dtype, value);
}

/* A constant of the IR is a double: one that has no double is made of its halves. */
rp_tensor rp_const_int(rp_graph *g, rp_dtype dtype, int64_t value) {
    const double as = dtype == RP_DTYPE_I64 ? (double)value : ir_from_i64(dtype, value);
    if (dtype != RP_DTYPE_I64 || (as < 0x1p63 && (int64_t)as == value))
        return add_const(g, dtype, as);
    rp_tensor high = add_const(g, dtype, (double)(value >> 32));
    rp_tensor low = add_const(g, dtype, (double)(value & UINT32_MAX));
    return rp_add(rp_shift_left(high, add_const(g, dtype, 32)), low);
}

static ir_attr attr_shape(rp_graph *g, rp_shape s, ir_dim *dims) {
    for (uint32_t i = 0; i < s.rank && i < IR_MAX_RANK; i++) dims[i] = trace_dim(g, s.dim[i]);
    return (ir_attr){.key = IR_ATTR_SHAPE, .n = s.rank, .u.dims = dims};
}

rp_tensor rp_iota(rp_graph *g, rp_dtype dtype, rp_shape shape, int axis) {
    ir_dim dims[IR_MAX_RANK] = {0};
    if (!trace_ready(g)) return trace_bad(g);
    ir_attr a[] = {{.key = IR_ATTR_AXIS, .u.i = axis},
                   {.key = IR_ATTR_DTYPE, .u.i = dtype},
                   attr_shape(g, shape, dims)};
    return trace_op(g, IR_iota, NULL, 0, a, 3);
}

rp_tensor rp_empty(rp_graph *g, rp_dtype dtype, rp_shape shape) {
    ir_dim dims[IR_MAX_RANK] = {0};
    if (!trace_ready(g)) return trace_bad(g);
    ir_attr a[] = {{.key = IR_ATTR_DTYPE, .u.i = dtype}, attr_shape(g, shape, dims)};
    return trace_op(g, IR_empty, NULL, 0, a, 2);
}

rp_tensor(rp_dim_value)(rp_graph *g, rp_dim size, rp_dtype dtype) {
    int64_t n;
    if (!trace_ready(g)) return trace_bad(g);
    if (rp_dim_is_const(size, &n) && dtype != RP_DTYPE_I64)
        return add_const(g, dtype, ir_round(dtype, (double)n));
    if (rp_dim_is_const(size, &n)) return rp_const_int(g, dtype, n);
    ir_attr a[] = {{.key = IR_ATTR_DTYPE, .u.i = dtype},
                   {.key = IR_ATTR_SIZE, .u.dim = trace_dim(g, size)}};
    return trace_op(g, IR_size, NULL, 0, a, 2);
}

/* Whether there is a node of x: not where a call failed, nor where x was never made. */
static bool is_node(const char *op, rp_tensor x) {
    return x.graph && trace_check_live(op, x) && x.graph->ir && x.ref < ir_graph_count(x.graph->ir);
}

ir_type_text trace_type_text(const rp_graph *g, rp_tensor x) {
    ir_type_text none = {"no tensor of this graph"};
    bool is = x.graph == g && trace_is_live(x) && x.ref < ir_graph_count(g->ir);
    return is ? ir_type_of(g->ir, x.ref) : none;
}

rp_shape rp_tensor_shape(rp_tensor x) {
    rp_shape s = {0};
    if (!is_node("shape", x)) return s;
    const ir_node *n = ir_node_at(x.graph->ir, x.ref);
    s.rank = n->shape.rank;
    for (uint32_t i = 0; i < s.rank; i++) s.dim[i] = trace_dim_out(x.graph, n->shape.dim[i]);
    return s;
}

rp_dim rp_tensor_dim(rp_tensor x, int axis) {
    rp_shape s = rp_tensor_shape(x);
    int rank = (int)s.rank, front = axis < 0 ? axis + rank : axis;
    if (front >= 0 && front < rank) return s.dim[front];
    if (x.graph && trace_check_live("size", x) && trace_ready(x.graph))
        (void)rp_fail(&x.graph->err, RP_INVALID, "size: axis %d out of range for %s", axis,
                      trace_type_text(x.graph, x).s);
    return (rp_dim){trace_is_live(x) ? x.graph : NULL, INT64_MIN};
}

rp_dtype rp_tensor_dtype(rp_tensor x) {
    return is_node("dtype", x) ? ir_node_at(x.graph->ir, x.ref)->dtype : RP_DTYPE_F32;
}

#define UNARY(name)                    \
    rp_tensor rp_##name(rp_tensor a) { \
        return unary(a, IR_##name);    \
    }
#define BINARY(name)                                \
    rp_tensor rp_##name(rp_tensor a, rp_tensor b) { \
        return binary(a, b, IR_##name);             \
    }
#define TERNARY(name)                                                            \
    rp_tensor rp_##name(rp_tensor a, rp_tensor b, rp_tensor c) {                 \
        return trace_op(a.graph, IR_##name, (rp_tensor[]){a, b, c}, 3, NULL, 0); \
    }
/* Floats have no such ops, but the calls (functions.c). */
#define rp_floor_divide trace_floor_divide
#define rp_remainder trace_remainder
RP_ELEMENTWISE_1(UNARY)
RP_ELEMENTWISE_2(BINARY)
RP_ELEMENTWISE_3(TERNARY)
#undef rp_floor_divide
#undef rp_remainder
UNARY(dequant)
UNARY(pack_i4)
BINARY(gather)

static rp_tensor with_dtype(rp_tensor a, ir_op op, rp_dtype dtype) {
    ir_attr attr = {.key = IR_ATTR_DTYPE, .u.i = dtype};
    return trace_op(a.graph, op, &a, 1, &attr, 1);
}

rp_tensor rp_cast(rp_tensor a, rp_dtype dtype) {
    return a.ref != IR_NONE && rp_tensor_dtype(a) == dtype ? a : with_dtype(a, IR_cast, dtype);
}

rp_tensor rp_bitcast(rp_tensor a, rp_dtype dtype) {
    return a.ref != IR_NONE && rp_tensor_dtype(a) == dtype ? a : with_dtype(a, IR_bitcast, dtype);
}

rp_tensor rp_unpack_i4(rp_tensor a, rp_dtype dtype) {
    return with_dtype(a, IR_unpack_i4, dtype);
}

rp_tensor rp_quantize(rp_tensor a, rp_dtype format) {
    return with_dtype(a, IR_quantize, format);
}

/* What a sum or a product of integers of 8 and 16 bits is of: -1 of u8 is 255, which wraps around as -1 does. */
static rp_tensor term(rp_tensor a, double s) {
    const rp_dtype t = rp_tensor_dtype(a);
    const bool cut = ir_dtype_is_small(t) && fabs(s) < NOT_EXACT;
    return cut ? rp_const_int(a.graph, t, (int64_t)s) : rp_const(a.graph, t, s);
}

rp_tensor rp_add_scalar(rp_tensor a, double s) {
    return rp_add(a, term(a, s));
}

rp_tensor rp_mul_scalar(rp_tensor a, double s) {
    return rp_mul(a, term(a, s));
}

rp_tensor rp_add_int(rp_tensor a, int64_t s) {
    return rp_add(a, rp_const_int(a.graph, rp_tensor_dtype(a), s));
}

rp_tensor rp_mul_int(rp_tensor a, int64_t s) {
    return rp_mul(a, rp_const_int(a.graph, rp_tensor_dtype(a), s));
}

rp_tensor rp_cumsum(rp_tensor a, int axis) {
    ir_attr attr = {.key = IR_ATTR_AXIS, .u.i = axis};
    a = trace_summed(a);
    return trace_op(a.graph, IR_cumsum, &a, 1, &attr, 1);
}

rp_tensor trace_result(rp_tensor a, uint32_t i) {
    ir_attr attr = {.key = IR_ATTR_INDEX, .u.i = i};
    return trace_op(a.graph, IR_result, &a, 1, &attr, 1);
}

/* What has no kernel for the largest has one for sorting. */
static void top_of_sorted(rp_tensor a, int64_t k, rp_tensor *values, rp_tensor *indices) {
    rp_graph *g = a.graph;
    rp_tensor v, i;
    if (k < 1 || rp_tensor_shape(a).rank == 0 || !trace_at_least(g, rp_tensor_dim(a, -1), k)) {
        if (trace_ready(g))
            (void)rp_fail(&g->err, RP_INVALID,
                          "topk: k = %lld must be from 1 to the size of the last axis of %s",
                          (long long)k, trace_type_text(g, a).s);
        v = i = trace_bad(g);
    } else {
        rp_sort(a, -1, true, &v, &i);
        v = rp_slice(v, -1, 0, k);
        i = rp_slice(i, -1, 0, k);
    }
    if (values) *values = v;
    if (indices) *indices = i;
}

void rp_topk(rp_tensor a, int64_t k, rp_tensor *values, rp_tensor *indices) {
    ir_attr attr = {.key = IR_ATTR_K, .u.i = k};
    const rp_dtype t = rp_tensor_dtype(a);
    if (trace_ready(a.graph) && (t == RP_DTYPE_F64 || t == RP_DTYPE_I64)) {
        top_of_sorted(a, k, values, indices);
        return;
    }
    rp_tensor top = trace_op(a.graph, IR_topk, &a, 1, &attr, 1);
    if (values) *values = top;
    if (indices) *indices = trace_result(top, 1);
}

void rp_sort(rp_tensor a, int axis, bool descending, rp_tensor *values, rp_tensor *indices) {
    ir_attr attrs[] = {{.key = IR_ATTR_AXIS, .u.i = axis},
                       {.key = IR_ATTR_DESCENDING, .u.i = descending}};
    rp_tensor sorted = trace_op(a.graph, IR_sort, &a, 1, attrs, 2);
    if (values) *values = sorted;
    if (indices) *indices = trace_result(sorted, 1);
}

rp_tensor rp_argsort(rp_tensor a, int axis, bool descending) {
    rp_tensor indices;
    rp_sort(a, axis, descending, NULL, &indices);
    return indices;
}

rp_tensor rp_reshape(rp_tensor a, rp_shape shape) {
    ir_dim dims[IR_MAX_RANK] = {0};
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    ir_attr attr = attr_shape(a.graph, shape, dims);
    return trace_op(a.graph, IR_reshape, &a, 1, &attr, 1);
}

rp_tensor rp_broadcast(rp_tensor a, rp_shape shape) {
    ir_dim dims[IR_MAX_RANK] = {0};
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    ir_attr attr = attr_shape(a.graph, shape, dims);
    return trace_op(a.graph, IR_broadcast, &a, 1, &attr, 1);
}

rp_tensor rp_permute(rp_tensor a, const int *axes, uint32_t n) {
    int64_t ints[IR_MAX_RANK] = {0};
    if (n && !axes) return trace_null(a.graph, "permute: axes");
    for (uint32_t i = 0; i < n && i < IR_MAX_RANK; i++) ints[i] = axes[i];
    ir_attr attr = {.key = IR_ATTR_AXES, .n = n, .u.ints = ints};
    return trace_op(a.graph, IR_permute, &a, 1, &attr, 1);
}

rp_tensor(rp_slice)(rp_tensor a, int axis, rp_dim start, rp_dim stop) {
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    ir_attr attrs[] = {{.key = IR_ATTR_AXIS, .u.i = axis},
                       {.key = IR_ATTR_START, .u.dim = trace_dim(a.graph, start)},
                       {.key = IR_ATTR_STOP, .u.dim = trace_dim(a.graph, stop)}};
    return trace_op(a.graph, IR_slice, &a, 1, attrs, 3);
}

rp_tensor rp_concat(const rp_tensor *parts, uint32_t n, int axis) {
    if (n == 0) return trace_bad(NULL);
    if (!parts) return trace_null(NULL, "concat: the list of tensors");
    ir_attr attr = {.key = IR_ATTR_AXIS, .u.i = axis};
    return trace_op(parts[0].graph, IR_concat, parts, n, &attr, 1);
}

rp_tensor rp_update(rp_tensor memory, rp_tensor value) {
    return trace_op(memory.graph, IR_update, (rp_tensor[]){memory, value}, 2, NULL, 0);
}

rp_tensor rp_update_at(rp_tensor memory, rp_tensor value, rp_shape offsets) {
    ir_dim dims[IR_MAX_RANK] = {0};
    if (!trace_ready(memory.graph)) return trace_bad(memory.graph);
    ir_attr attr = attr_shape(memory.graph, offsets, dims);
    attr.key = IR_ATTR_OFFSETS;
    return trace_op(memory.graph, IR_update, (rp_tensor[]){memory, value}, 2, &attr, 1);
}

rp_tensor rp_written(rp_tensor memory, rp_tensor result) {
    return trace_op(memory.graph, IR_written, (rp_tensor[]){memory, result}, 2, NULL, 0);
}

rp_tensor rp_kv_store(rp_tensor cache, rp_tensor x, rp_tensor slots) {
    return trace_op(cache.graph, IR_kv_store, (rp_tensor[]){cache, x, slots}, 3, NULL, 0);
}

rp_tensor rp_attention(const rp_attention_args *a) {
    if (!a) return trace_null(NULL, "attention: args");
    rp_tensor out = rp_empty(a->q.graph, RP_DTYPE_F32, rp_tensor_shape(a->q));
    rp_tensor in[] = {a->q, a->k, a->v, a->seqs, a->positions, a->block_tables, out};
    ir_attr attrs[] = {{.key = IR_ATTR_HEADS, .u.i = a->heads},
                       {.key = IR_ATTR_HEAD_DIM, .u.i = a->head_dim},
                       {.key = IR_ATTR_KV_HEADS, .u.i = a->kv_heads},
                       {.key = IR_ATTR_SCALE, .u.f = a->scale}};
    return trace_op(a->q.graph, IR_attention, in, 7, attrs, 4);
}
