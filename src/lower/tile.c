/* Reductions over dims that are not the last, for a run of neighbouring results at once.
 *
 * One result after the other would read memory in strides. Here the loop over the reduced dim is outside and the one over
 * results inside, with a vector of results for each of the 16 lanes of the definition (kir.h), so the bits are the same. */
#include <math.h>

#include "lower/emit.h"

#define K (L->k)
#define LANES 16
#define LEAST 8 /* neighbours that are worth it */

/* Dim of the result from which on neighbours read neighbours. */
static uint32_t first_kept(const ir_node *n) {
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    return axis + (ir_attr_int(n, IR_ATTR_KEEP, 0) != 0);
}

/* A sum that may have more than one chunk. */
static bool has_chunks(const lowerer *L, const ir_node *n) {
    int64_t lo, hi, axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
    ir_dim_bounds(ir_graph_dims(L->g), ir_node_at(L->g, n->in[0])->shape.dim[axis], &lo, &hi);
    return n->op == IR_sum && hi > KIR_CHUNK;
}

int64_t lower_neighbours(const lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    bool columns = n->op == IR_sum || n->op == IR_amax || n->op == IR_amin;
    if (!columns || lower_class(n->dtype) != KIR_F32 || has_chunks(L, n)) return 0;
    int64_t kept = lower_inner_count(L->g, &n->shape, first_kept(n));
    return kept >= LEAST ? kept : 0;
}

int64_t lower_divisor(int64_t n, int64_t most) {
    for (int64_t d = most < n ? most : n; d > 0; d--)
        if (n % d == 0) return d;
    return 0;
}

static kir_ref lane_at(lowerer *L, kir_ref lane, int64_t width, kir_ref j) {
    return kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, lane, kir_const_i(K, width)), j);
}

static ir_op join_of(ir_op op) {
    return op == IR_amax ? IR_max : op == IR_amin ? IR_min : IR_add;
}

static void clear_lanes(lowerer *L, ir_op op, const lower_run *t) {
    double start = op == IR_amax ? -(double)INFINITY : op == IR_amin ? (double)INFINITY : 0.0;
    kir_ref i = kir_begin(K, KIR_LOOP, kir_const_i(K, LANES * t->width));
    kir_store(K, t->lanes, i, kir_const_f(K, start));
    kir_end(K);
}

static void join_lanes(lowerer *L, ir_ref r, const lower_run *t) {
    const ir_node *n = ir_node_at(L->g, r), *x = ir_node_at(L->g, n->in[0]);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    kir_ref i = kir_begin(K, KIR_LOOP, lower_dim(L, x->shape.dim[axis]));
    kir_ref lane = kir_bin(K, KIR_IMOD, i, kir_const_i(K, LANES));
    kir_ref j = kir_begin(K, KIR_LOOP, kir_const_i(K, t->width)), idx[IR_MAX_RANK] = {0};
    lower_delinear(L, &n->shape, kir_bin(K, KIR_IADD, t->first, j), 0, idx);
    kir_ref at = lane_at(L, lane, t->width, j), v = lower_term(L, r, idx, i);
    kir_store(K, t->lanes, at, kir_alu(K, join_of(n->op), kir_load(K, t->lanes, at), v, KIR_NONE));
    kir_end(K);
    kir_end(K);
}

/* The tree of the definition: lane l joins lane l + w, for w = 8, 4, 2, 1. */
static kir_ref fold_lanes(lowerer *L, ir_op op, const lower_run *t, kir_ref j) {
    kir_ref v[LANES];
    for (int64_t l = 0; l < LANES; l++)
        v[l] = kir_load(K, t->lanes, lane_at(L, kir_const_i(K, l), t->width, j));
    for (uint32_t w = LANES / 2; w; w /= 2)
        for (uint32_t l = 0; l < w; l++) v[l] = kir_alu(K, join_of(op), v[l], v[l + w], KIR_NONE);
    return v[0];
}

void lower_reduce_run(lowerer *L, ir_ref r, const lower_run *t, lower_element_fn fn, void *user) {
    const ir_node *n = ir_node_at(L->g, r);
    kir_ref idx[IR_MAX_RANK] = {0};
    clear_lanes(L, n->op, t);
    join_lanes(L, r, t);
    kir_ref j = kir_begin(K, KIR_LOOP, kir_const_i(K, t->width));
    lower_delinear(L, &n->shape, kir_bin(K, KIR_IADD, t->first, j), 0, idx);
    kir_ref v = kir_round_to(K, n->dtype, fold_lanes(L, n->op, t, j));
    fn(L, idx, kir_bin(K, KIR_IADD, t->offset, j), v, user);
    kir_end(K);
}
