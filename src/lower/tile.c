/* Reductions over dims that are not the last, for a run of neighbouring results at once.
 *
 * One result after the other would read memory in strides. Here the loop over the reduced dim is outside and the one over
 * results inside, with a vector of results for each of the 16 lanes of the definition (kir.h), so the bits are the same. */
#include <math.h>

#include "lower/emit.h"

#define K (L->k)
#define LANES 16
#define LEAST 8        /* neighbours that are worth it */
#define MOST_AT_ONCE 8 /* terms of a lane that are joined by one load and store of it */
#define MOST_COST 64   /* operations that they may take */

/* Dim of the result from which on neighbours read neighbours. */
static uint32_t first_kept(const ir_node *n) {
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    return axis + (ir_attr_int(n, IR_ATTR_KEEP, 0) != 0);
}

static ir_dim reduced_dim(const lowerer *L, const ir_node *n) {
    return ir_node_at(L->g, n->in[0])->shape.dim[ir_attr_int(n, IR_ATTR_AXIS, 0)];
}

bool lower_has_chunks(const lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    int64_t lo, hi;
    if (n->op != IR_sum) return false;
    ir_dim_bounds(ir_graph_dims(L->g), reduced_dim(L, n), &lo, &hi);
    return hi > KIR_CHUNK;
}

int64_t lower_side_by_side(const lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    bool columns = n->op == IR_sum || n->op == IR_amax || n->op == IR_amin;
    if (!columns || lower_class(n->dtype) != KIR_F32) return 0;
    int64_t kept = lower_inner_count(L->g, &n->shape, first_kept(n));
    return kept >= LEAST ? kept : 0;
}

int64_t lower_neighbours(const lowerer *L, ir_ref r) {
    return L->f->split[r] ? 0 : lower_side_by_side(L, r);
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

/* A term of the run that begins at `from` (or KIR_NONE: 0), and the lane that it is of. */
typedef struct place {
    kir_ref from, k, lane;
} place;

/* Term p.k and those behind it that are of its lane, n_terms in all and in this order, of result j. */
static void join_terms(lowerer *L, ir_ref r, const lower_run *t, place p, int64_t n_terms,
                       kir_ref j) {
    const ir_node *n = ir_node_at(L->g, r);
    kir_ref i = p.from == KIR_NONE ? p.k : kir_bin(K, KIR_IADD, p.from, p.k);
    kir_ref idx[IR_MAX_RANK] = {0};
    lower_delinear(L, &n->shape, kir_bin(K, KIR_IADD, t->first, j), 0, idx);
    kir_ref at = lane_at(L, p.lane, t->width, j), sum = KIR_NONE;
    for (int64_t m = 0; m < n_terms; m++) {
        kir_ref v = lower_term(L, r, idx, kir_bin(K, KIR_IADD, i, kir_const_i(K, m * LANES)));
        if (m == 0) sum = kir_load(K, t->lanes, at);
        sum = kir_alu(K, join_of(n->op), sum, v, KIR_NONE);
    }
    kir_store(K, t->lanes, at, sum);
}

/* Terms of a lane that are far apart in memory: to read several at once keeps more of it on its way, and lanes are loaded
 * and stored less often. */
static int64_t terms_at_once(const lowerer *L, ir_ref r, kir_ref n_terms) {
    const int64_t most = K->ranges[n_terms].hi / LANES;
    int64_t n = MOST_AT_ONCE;
    while (n > 1 && (n > most || n * L->keep[r].cost > MOST_COST)) n /= 2;
    return n;
}

/* All results of one term, or of a few of its lane, after the other. */
static void join_rows(lowerer *L, ir_ref r, const lower_run *t, kir_ref from, kir_ref n_terms) {
    const kir_ref width = kir_const_i(K, t->width), lanes = kir_const_i(K, LANES);
    const int64_t n = terms_at_once(L, r, n_terms);
    if (n > 1) {
        kir_ref block = kir_const_i(K, n * LANES);
        kir_ref o = kir_begin(K, KIR_LOOP, kir_bin(K, KIR_IDIV, n_terms, block));
        kir_ref lane = kir_begin(K, KIR_LOOP, lanes);
        kir_ref k = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, o, block), lane);
        join_terms(L, r, t, (place){from, k, lane}, n, kir_begin(K, KIR_LOOP, width));
        for (int depth = 0; depth < 3; depth++) kir_end(K);
        kir_ref rest = kir_bin(K, KIR_IMOD, n_terms, block);
        kir_ref done = kir_bin(K, KIR_ISUB, n_terms, rest);
        from = from == KIR_NONE ? done : kir_bin(K, KIR_IADD, from, done);
        n_terms = rest;
    }
    if (K->ranges[n_terms].hi == 0) return;
    kir_ref k = kir_begin(K, KIR_LOOP, n_terms), lane = kir_bin(K, KIR_IMOD, k, lanes);
    join_terms(L, r, t, (place){from, k, lane}, 1, kir_begin(K, KIR_LOOP, width));
    kir_end(K);
    kir_end(K);
}

/* Terms [from, from + n); from is a whole number of lanes. A lane of a result for each thread of a block, neighbours side by
 * side; elsewhere all results of one term after the other. */
static void join_lanes(lowerer *L, ir_ref r, const lower_run *t, kir_ref from, kir_ref n_terms) {
    const kir_ref width = kir_const_i(K, t->width), lanes = kir_const_i(K, LANES);
    if (!lower_by_blocks(L)) {
        join_rows(L, r, t, from, n_terms);
        return;
    }
    kir_ref m = kir_begin(K, KIR_LOOP, kir_const_i(K, LANES * t->width));
    kir_ref lane = kir_bin(K, KIR_IDIV, m, width), j = kir_bin(K, KIR_IMOD, m, width);
    kir_ref rest =
        kir_bin(K, KIR_ISUB, kir_bin(K, KIR_IADD, n_terms, kir_const_i(K, LANES - 1)), lane);
    kir_ref o = kir_begin(K, KIR_LOOP, kir_bin(K, KIR_IDIV, rest, lanes));
    kir_ref k = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, o, lanes), lane);
    join_terms(L, r, t, (place){from, k, lane}, 1, j);
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

/* --- sums of more than one chunk (kir.h): the lanes of each, then its sum to the totals ------- */

static void add_chunk(lowerer *L, ir_ref r, const lower_run *t, kir_ref from, kir_ref n_terms) {
    clear_lanes(L, IR_sum, t);
    join_lanes(L, r, t, from, n_terms);
    kir_ref j = kir_begin(K, KIR_LOOP, kir_const_i(K, t->width));
    kir_ref sum = kir_cvt(K, KIR_F64, fold_lanes(L, IR_sum, t, j));
    kir_store(K, t->totals, j, kir_alu(K, IR_add, kir_load(K, t->totals, j), sum, KIR_NONE));
    kir_end(K);
}

/* Whole chunks and the rest apart where the length is known, so that loops have sizes. */
static void add_chunks(lowerer *L, ir_ref r, const lower_run *t) {
    ir_dim dim = reduced_dim(L, ir_node_at(L->g, r));
    const kir_ref chunk = kir_const_i(K, KIR_CHUNK);
    int64_t n = 0;
    bool known = ir_dim_is_const(ir_graph_dims(L->g), dim, &n);
    kir_ref all = lower_dim(L, dim),
            rounded = kir_bin(K, KIR_IADD, all, kir_const_i(K, KIR_CHUNK - 1));
    kir_ref o = kir_begin(
        K, KIR_LOOP, known ? kir_const_i(K, n / KIR_CHUNK) : kir_bin(K, KIR_IDIV, rounded, chunk));
    kir_ref from = kir_bin(K, KIR_IMUL, o, chunk);
    add_chunk(L, r, t, from,
              known ? chunk : kir_bin(K, KIR_IMIN, chunk, kir_bin(K, KIR_ISUB, all, from)));
    kir_end(K);
    if (known && n % KIR_CHUNK)
        add_chunk(L, r, t, kir_const_i(K, n - n % KIR_CHUNK), kir_const_i(K, n % KIR_CHUNK));
}

static void sum_chunks(lowerer *L, ir_ref r, const lower_run *t) {
    kir_ref j = kir_begin(K, KIR_LOOP, kir_const_i(K, t->width));
    kir_store(K, t->totals, j, kir_const_f64(K, 0.0));
    kir_end(K);
    add_chunks(L, r, t);
}

void lower_reduce_run(lowerer *L, ir_ref r, const lower_run *t, lower_element_fn fn, void *user) {
    const ir_node *n = ir_node_at(L->g, r);
    const bool chunks = lower_has_chunks(L, r);
    kir_ref idx[IR_MAX_RANK] = {0};
    if (chunks) {
        sum_chunks(L, r, t);
    } else {
        clear_lanes(L, n->op, t);
        join_lanes(L, r, t, KIR_NONE, lower_dim(L, reduced_dim(L, n)));
    }
    kir_ref j = kir_begin(K, KIR_LOOP, kir_const_i(K, t->width));
    lower_delinear(L, &n->shape, kir_bin(K, KIR_IADD, t->first, j), 0, idx);
    kir_ref v = chunks ? kir_cvt(K, KIR_F32, kir_load(K, t->totals, j))
                       : fold_lanes(L, n->op, t, j);
    fn(L, idx, kir_bin(K, KIR_IADD, t->offset, j), lower_as_type(L, n->dtype, v), user);
    kir_end(K);
}

void lower_reduce_terms(lowerer *L, ir_ref r, const lower_run *t, kir_ref from, kir_ref n,
                        uint32_t buf, kir_ref at) {
    const ir_op op = ir_node_at(L->g, r)->op;
    clear_lanes(L, op, t);
    join_lanes(L, r, t, from, n);
    kir_ref j = kir_begin(K, KIR_LOOP, kir_const_i(K, t->width));
    kir_store(K, buf, kir_bin(K, KIR_IADD, at, j), fold_lanes(L, op, t, j));
    kir_end(K);
}
