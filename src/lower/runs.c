/* Reductions in runs of their axis (pass/runs.h), which are the chunks that a sum is defined by.
 *
 * In front of a group's own kernel stands one for the runs of its split reductions: an item for each run of each result, or of a
 * tile of neighbouring results. It leaves what each run comes to, so much [before the axis][runs][behind it], which the group's
 * kernel joins: values of chunks in their order, all else in any. What the runs read is computed there, where it is not in memory. */
#include "kir/kir.h"
#include "lower/target.h"
#include "pass/runs.h"

#define K (L->k)
#define WARP 32 /* neighbours of a tile, of a target with blocks */

/* How the operand of a reduction is cut. */
typedef struct runs {
    ir_dim length, count;  /* of the axis, and its runs */
    ir_dim before, behind; /* results of axes before and behind it */
    int64_t width;         /* of tiles of `behind`; 0: an item is a run of one result */
} runs;

static uint32_t axis_of(const ir_node *n) {
    return (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
}

static runs runs_of(const lowerer *L, ir_ref r) {
    ir_dims *t = ir_graph_dims(L->g);
    const ir_node *n = ir_node_at(L->g, r);
    const ir_shape *x = &ir_node_at(L->g, n->in[0])->shape;
    const uint32_t axis = axis_of(n);
    runs c = {.length = x->dim[axis], .before = ir_dim_const(t, 1), .behind = ir_dim_const(t, 1)};
    for (uint32_t d = 0; d < axis; d++) c.before = ir_dim_mul(t, c.before, x->dim[d]);
    for (uint32_t d = axis + 1; d < x->rank; d++) c.behind = ir_dim_mul(t, c.behind, x->dim[d]);
    c.count = ir_dim_floordiv(t, ir_dim_add(t, c.length, ir_dim_const(t, PASS_RUN - 1)), PASS_RUN);
    return c;
}

/* Reductions that one kernel makes: of one shape, along one axis. */
static bool same_runs(const lowerer *L, ir_ref a, ir_ref b) {
    const ir_node *m = ir_node_at(L->g, a), *n = ir_node_at(L->g, b);
    const ir_shape *x = &ir_node_at(L->g, m->in[0])->shape, *y = &ir_node_at(L->g, n->in[0])->shape;
    bool same = axis_of(m) == axis_of(n) && x->rank == y->rank;
    for (uint32_t d = 0; same && d < x->rank; d++) same = x->dim[d] == y->dim[d];
    return same;
}

static rp_dtype value_type(const lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    return lower_wide_type(ir_node_at(L->g, n->in[0])->dtype);
}

static rp_status partial_memory(lowerer *L, ir_ref r, const runs *c, rp_dtype type,
                                lower_ref *out) {
    ir_dims *t = ir_graph_dims(L->g);
    ir_dim n = ir_dim_mul(t, ir_dim_mul(t, c->before, c->count), c->behind);
    return lower_temp_memory(L, ir_node_at(L->g, r),
                             ir_dim_mul_const(t, n, (int64_t)rp_dtype_block_bytes(type)), out);
}

/* --- the kernel of the runs ------------------------------------------------ */

/* Where an item is: its first result, the terms [from, from + n) of the axis, and the first place of what it leaves. */
typedef struct item {
    kir_ref result, from, n, at;
} item;

static item open_items(lowerer *L, const runs *c) {
    const int64_t width = c->width ? c->width : 1;
    ir_dims *t = ir_graph_dims(L->g);
    int64_t behind = 0;
    const bool row = ir_dim_is_const(t, c->behind, &behind) && behind == width;
    const kir_ref one = kir_const_i(K, 1), run = kir_const_i(K, PASS_RUN);
    kir_ref across = kir_bin(K, KIR_IDIV, lower_dim(L, c->behind), kir_const_i(K, width));
    kir_ref count = lower_dim(L, c->count);
    kir_ref n = kir_bin(K, KIR_IMUL, kir_bin(K, KIR_IMUL, lower_dim(L, c->before), count), across);
    item out = {.at = kir_begin(K, KIR_PAR, n)};
    /* Of nothing there is no item; the text must still be one. */
    count = kir_bin(K, KIR_IMAX, count, one);
    across = kir_bin(K, KIR_IMAX, across, one);
    kir_ref tile = row ? kir_const_i(K, 0) : kir_bin(K, KIR_IMOD, out.at, across);
    kir_ref line = row ? out.at : kir_bin(K, KIR_IDIV, out.at, across);
    kir_ref outer = kir_bin(K, KIR_IDIV, line, count);
    out.from = kir_bin(K, KIR_IMUL, kir_bin(K, KIR_IMOD, line, count), run);
    int64_t length = 0;
    out.n =
        ir_dim_is_const(t, c->length, &length) && length % PASS_RUN == 0
            ? run
            : kir_bin(K, KIR_IMIN, run, kir_bin(K, KIR_ISUB, lower_dim(L, c->length), out.from));
    out.result = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, outer, lower_dim(L, c->behind)),
                         kir_bin(K, KIR_IMUL, tile, kir_const_i(K, width)));
    out.at = kir_bin(K, KIR_IMUL, out.at, kir_const_i(K, width));
    return out;
}

/* The run of one result. */
static void reduce_run(lowerer *L, ir_ref r, const item *it) {
    const ir_node *n = ir_node_at(L->g, r);
    const lower_partial *p = &L->partial[r];
    kir_ref idx[IR_MAX_RANK] = {0};
    lower_delinear(L, &n->shape, it->result, 0, idx);
    kir_ref i = kir_begin_reduce(K, lower_reduce_kind(n->op), it->n);
    kir_ref v = kir_yield(K, lower_term(L, r, idx, kir_bin(K, KIR_IADD, it->from, i)));
    const rp_dtype type = value_type(L, r);
    if (n->op ==
        IR_argmax) { /* which is one more element to compute, rather than a second reduction */
        v = kir_alu(K, IR_add, v, kir_from_index(K, KIR_I32, it->from), KIR_NONE);
        kir_store(K, lower_buffer(L, p->place, RP_DTYPE_I32, 0), it->at, v);
        v = lower_term(L, r, idx, kir_to_index(K, v));
    }
    kir_store(K, lower_buffer(L, p->value, type, 0), it->at, v);
}

static void reduce_tile(lowerer *L, ir_ref r, const runs *c, const item *it) {
    if (L->lanes_width < c->width) {
        L->lanes = lower_add_scratch(L, RP_DTYPE_F32, 16 * c->width);
        L->lanes_width = c->width;
    }
    const lower_run t = {.first = it->result, .width = c->width, .lanes = L->lanes};
    lower_reduce_terms(L, r, &t, it->from, it->n,
                       lower_buffer(L, L->partial[r].value, RP_DTYPE_F32, 0), it->at);
}

/* Neighbours are read side by side where all of the kernel's reductions can be made so. */
static int64_t tile_width(const lowerer *L, const ir_ref *set, uint32_t n) {
    int64_t behind = 0;
    for (uint32_t i = 0; i < n; i++) {
        behind = lower_side_by_side(L, set[i]);
        if (behind == 0) return 0;
    }
    return lower_by_blocks(L) && behind % WARP == 0 ? WARP : lower_divisor(behind, LOWER_RUN);
}

static rp_status build(lowerer *L, const ir_ref *set, uint32_t n, const char *name, runs *c) {
    L->n_args = 0;
    for (uint32_t i = 0; i < n; i++) {
        lower_partial *p = &L->partial[set[i]];
        RP_TRY(partial_memory(L, set[i], c, value_type(L, set[i]), &p->value));
        if (ir_node_at(L->g, set[i])->op == IR_argmax)
            RP_TRY(partial_memory(L, set[i], c, RP_DTYPE_I32, &p->place));
    }
    RP_TRY(lower_kernel_begin(L, name, KIR_KERNEL));
    const item it = open_items(L, c);
    for (uint32_t i = 0; i < n; i++)
        if (c->width)
            reduce_tile(L, set[i], c, &it);
        else
            reduce_run(L, set[i], &it);
    kir_end(K);
    return kir_status(K, L->err);
}

static rp_status lower_set(lowerer *L, const ir_ref *set, uint32_t n, uint32_t index) {
    ir_dims *t = ir_graph_dims(L->g);
    char *name = lower_name(L, "runs", set, n, index);
    runs c = runs_of(L, set[0]);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    c.width = tile_width(L, set, n);
    ir_dim items = ir_dim_mul(t, ir_dim_mul(t, c.before, c.count), c.behind);
    if (c.width) items = ir_dim_floordiv(t, items, c.width);
    rp_status st = build(L, set, n, name, &c);
    if (st == RP_OK) st = lower_finish_items(L, name, items);
    kir_free(L->k);
    L->k = NULL;
    return st;
}

rp_status lower_runs(lowerer *L, const pass_group *gr, uint32_t index) {
    ir_ref set[PASS_MAX_FUSION];
    bool done[PASS_MAX_FUSION] = {false};
    L->rows = gr->rows;
    for (uint32_t i = 0; i < gr->n_nodes; i++) {
        uint32_t n = 0;
        for (uint32_t k = i; k < gr->n_nodes; k++) {
            const ir_ref r = gr->nodes[k];
            if (done[k] || !L->f->split[r] || (n && !same_runs(L, set[0], r))) continue;
            if (n == 0 && k > i) break;
            set[n++] = r;
            done[k] = true;
        }
        if (n) RP_TRY(lower_set(L, set, n, index));
    }
    return RP_OK;
}

/* --- what joins them ------------------------------------------------------- */

/* Place of run i of the result at idx. */
static kir_ref place_of(lowerer *L, ir_ref r, const runs *c, const kir_ref *idx, kir_ref i) {
    const kir_ref behind = lower_dim(L, c->behind), count = lower_dim(L, c->count);
    kir_ref at = lower_linear(L, &ir_node_at(L->g, r)->shape, idx, 0), inner = kir_const_i(K, 0);
    int64_t one = 0;
    if (!ir_dim_is_const(ir_graph_dims(L->g), c->behind, &one) || one != 1) {
        const kir_ref some = kir_bin(K, KIR_IMAX, behind, kir_const_i(K, 1));
        inner = kir_bin(K, KIR_IMOD, at, some);
        at = kir_bin(K, KIR_IDIV, at, some);
    }
    at = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, at, count), i);
    return kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, at, behind), inner);
}

kir_ref lower_joined_runs(lowerer *L, ir_ref r, const kir_ref *idx) {
    const ir_node *n = ir_node_at(L->g, r);
    const runs c = runs_of(L, r);
    const lower_partial *p = &L->partial[r];
    const rp_dtype type = value_type(L, r);
    const bool floats = type == RP_DTYPE_F32 || type == RP_DTYPE_F64;
    const kir_reduce how = n->op == IR_sum && floats ? KIR_CHAIN : lower_reduce_kind(n->op);
    kir_ref i = kir_begin_reduce(K, how, lower_dim(L, c.count));
    kir_ref v =
        kir_yield(K, kir_load(K, lower_buffer(L, p->value, type, 0), place_of(L, r, &c, idx, i)));
    if (n->op != IR_argmax) return v;
    return kir_load(K, lower_buffer(L, p->place, RP_DTYPE_I32, 0),
                    place_of(L, r, &c, idx, kir_to_index(K, v)));
}
