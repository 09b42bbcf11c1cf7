/* Emits the members of a group inside one row (or one row of a template's tile).
 *
 * Each member is inlined where it is read, kept as one value a row, kept in scratch, or stored. What is
 * stored is read back from memory by later members: same row, same thread. */
#include <stdio.h>
#include <string.h>

#include "lower/emit.h"

#define K (L->k)

typedef struct members {
    lowerer *L;
    const lower_space *s;
} members;

static void move_to(lowerer *L, ir_ref r, lower_place place, uint32_t value) {
    lower_local *l = lower_local_of(L, r);
    l->place = place;
    l->value = value;
}

/* --- loops over the inner elements of a node ------------------------------ */

typedef void (*element_fn)(lowerer *L, const kir_ref *idx, kir_ref value, void *user);

static void each_in(const members *m, ir_ref r, uint32_t axis, kir_ref offset, ir_ref part,
                    element_fn fn, void *user) {
    lowerer *L = m->L;
    const ir_shape *s = &ir_node_at(L->g, part)->shape;
    kir_ref idx[IR_MAX_RANK] = {0}, own[IR_MAX_RANK] = {0};
    idx[0] = m->s->row;
    for (uint32_t d = 1; d < s->rank; d++) idx[d] = kir_begin(K, KIR_LOOP, lower_dim(L, s->dim[d]));
    memcpy(own, idx, sizeof own);
    if (part != r) own[axis] = kir_bin(K, KIR_IADD, idx[axis], offset);
    fn(L, own, lower_value(L, part, idx), user);
    for (uint32_t d = 1; d < s->rank; d++) kir_end(K);
}

/* Calls fn for every inner element of r; the parts of a concat have loops of their own. */
static void each_element(const members *m, ir_ref r, element_fn fn, void *user) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    if (n->op != IR_concat || axis == 0 || lower_local_of(L, r)->place != LOWER_COMPUTE) {
        each_in(m, r, 0, KIR_NONE, r, fn, user);
        return;
    }
    kir_ref offset = kir_const_i(K, 0);
    for (uint32_t i = 0; i < n->n_in; i++) {
        each_in(m, r, axis, offset, n->in[i], fn, user);
        offset =
            kir_bin(K, KIR_IADD, offset, lower_dim(L, ir_node_at(L->g, n->in[i])->shape.dim[axis]));
    }
}

/* The row counts through all leading dims. */
static void each_column(const members *m, ir_ref r, element_fn fn, void *user) {
    lowerer *L = m->L;
    ir_shape lead = ir_node_at(L->g, r)->shape;
    kir_ref idx[IR_MAX_RANK] = {0};
    lead.rank--;
    lower_delinear(L, &lead, m->s->row, 0, idx);
    L->col = kir_begin(K, KIR_LOOP, m->s->n_cols);
    idx[lead.rank] = kir_bin(K, KIR_IADD, m->s->col0, L->col);
    fn(L, idx, lower_value(L, r, idx), user);
    kir_end(K);
    L->col = KIR_NONE;
}

/* --- storing -------------------------------------------------------------- */

typedef struct store {
    const ir_node *node;
    uint32_t buf;
    kir_ref row; /* in a fragment: counted through all leading dims */
} store;

static void store_element(lowerer *L, const kir_ref *idx, kir_ref value, void *user) {
    const store *st = user;
    const ir_shape *s = &st->node->shape;
    kir_ref at;
    if (st->row == KIR_NONE)
        at = lower_linear(L, s, idx, 0);
    else
        at = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, st->row, lower_dim(L, s->dim[s->rank - 1])),
                     idx[s->rank - 1]);
    lower_put(L, st->buf, st->node->dtype, at, value);
}

static void scratch_element(lowerer *L, const kir_ref *idx, kir_ref value, void *user) {
    const store *st = user;
    kir_ref at = L->col != KIR_NONE ? L->col : lower_linear(L, &st->node->shape, idx, 1);
    kir_store(K, st->buf, at, value);
}

static void each(const members *m, ir_ref r, element_fn fn, void *user) {
    if (m->s->fragment)
        each_column(m, r, fn, user);
    else
        each_element(m, r, fn, user);
}

static rp_status store_node(const members *m, ir_ref r) {
    lowerer *L = m->L;
    lower_ref at;
    RP_TRY(lower_memory(L, r, &at));
    if (rp_dtype_is_quant(ir_node_at(L->g, r)->dtype)) {
        lower_store_blocks(L, r, at, m->s->row);
        lower_local_of(L, r)->place = LOWER_STORED;
        return RP_OK;
    }
    store st = {ir_node_at(L->g, r), lower_buffer(L, at, ir_node_at(L->g, r)->dtype, 0),
                m->s->fragment ? m->s->row : KIR_NONE};
    each(m, r, store_element, &st);
    /* An accumulator is nearer than the memory it was stored to. */
    if (lower_local_of(L, r)->place == LOWER_COMPUTE) lower_local_of(L, r)->place = LOWER_STORED;
    return RP_OK;
}

bool lower_fits_scratch(const lowerer *L, const ir_shape *s) {
    int64_t inner = lower_inner_count(L->g, s, 1);
    return inner > 0 && inner <= L->scratch_left;
}

static void keep_in_scratch(const members *m, ir_ref r) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    int64_t elements = m->s->fragment ? LOWER_COLUMNS : lower_inner_count(L->g, &n->shape, 1);
    char name[16];
    (void)snprintf(name, sizeof name, "s%u", K->n_bufs);
    rp_dtype t = lower_class(n->dtype) == KIR_F32 ? RP_DTYPE_F32 : RP_DTYPE_I32;
    store st = {n, kir_add_buf(K, name, KIR_SCRATCH, t, 0, 0, elements), KIR_NONE};
    each(m, r, scratch_element, &st);
    move_to(L, r, LOWER_SCRATCH, st.buf);
    if (!m->s->fragment) L->scratch_left -= elements;
}

/* --- quantize: one block of 32 of a packed activation row ----------------- */

typedef struct block {
    const ir_node *node;
    ir_ref x;
    const kir_ref *lead; /* indices before the last dim */
    kir_ref first;       /* column of element 0 of the block */
} block;

static kir_ref block_value(lowerer *L, const block *b, kir_ref j, bool fragment) {
    kir_ref idx[IR_MAX_RANK] = {0};
    uint32_t last = b->node->shape.rank - 1;
    memcpy(idx, b->lead, last * sizeof *idx);
    idx[last] = kir_bin(K, KIR_IADD, b->first, j);
    if (fragment) L->col = j;
    kir_ref v = lower_value(L, b->x, idx);
    if (fragment) L->col = KIR_NONE;
    return v;
}

/* d = max|x| / 32767; q = x / d rounded half to even, clamped, NaN to 0; all 0 when d is (x is tiny then, and rounds
 * to 0 by itself). The definition is rp_quant_block of gen/embed/prelude.h; it is clamped as an integer here, which gives
 * the same and vectorises. block_idx counts blocks within the row. */
static void quantize_block(lowerer *L, const block *b, lower_ref at, kir_ref row, kir_ref block_idx,
                           bool fragment) {
    int64_t k = 0;
    (void)ir_dim_is_const(ir_graph_dims(L->g), b->node->shape.dim[b->node->shape.rank - 1], &k);
    kir_ref n32 = kir_const_i(K, 32), zero = kir_const_f(K, 0.0);
    uint32_t q = lower_buffer(L, at, RP_DTYPE_I16, 0), d = lower_buffer(L, at, RP_DTYPE_F32, k * 2);
    uint32_t sum = lower_buffer(L, at, RP_DTYPE_I32, k * 2 + k / 8);
    kir_ref j = kir_begin_reduce(K, KIR_MAX, n32);
    kir_ref top =
        kir_yield(K, kir_alu(K, IR_abs, block_value(L, b, j, fragment), KIR_NONE, KIR_NONE));
    kir_ref scale = kir_alu(K, IR_div, top, kir_const_f(K, 32767.0), KIR_NONE);
    kir_ref none = kir_alu(K, IR_eq, scale, zero, KIR_NONE);
    kir_ref by = kir_alu(K, IR_where, none, kir_const_f(K, 1.0), scale);
    kir_ref qrow = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, row, kir_const_i(K, k / 32 * 36)),
                           kir_bin(K, KIR_IMUL, block_idx, n32));
    kir_ref meta =
        kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, row, kir_const_i(K, k / 32 * 18)), block_idx);
    j = kir_begin(K, KIR_LOOP, n32);
    kir_ref v = kir_alu(K, IR_div, block_value(L, b, j, fragment), by, KIR_NONE);
    v = kir_cvt(K, KIR_I32, kir_alu(K, IR_round, v, KIR_NONE, KIR_NONE));
    v = kir_alu(K, IR_max, v, kir_from_index(K, KIR_I32, kir_const_i(K, -32767)), KIR_NONE);
    v = kir_alu(K, IR_min, v, kir_from_index(K, KIR_I32, kir_const_i(K, 32767)), KIR_NONE);
    kir_store(K, q, kir_bin(K, KIR_IADD, qrow, j), v);
    kir_end(K);
    j = kir_begin_reduce(K, KIR_SUM, n32);
    kir_ref total = kir_yield(K, kir_load(K, q, kir_bin(K, KIR_IADD, qrow, j)));
    kir_store(K, d, meta, scale);
    kir_store(K, sum, meta, total);
}

static rp_status quantize_node(const members *m, ir_ref r) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    uint32_t rank = n->shape.rank;
    int64_t k;
    lower_ref at;
    if (n->dtype != RP_DTYPE_I16B32 ||
        !ir_dim_is_const(ir_graph_dims(L->g), n->shape.dim[rank - 1], &k) || k % 32)
        return rp_fail(L->err, RP_UNSUPPORTED,
                       "quantize to %s of a last dim that is no known multiple of 32",
                       rp_dtype_name(n->dtype));
    RP_TRY(lower_memory(L, r, &at));
    lower_local_of(L, r)->place = LOWER_STORED;
    if (m->s->fragment) {
        block b = {n, n->in[0], &m->s->row, m->s->col0};
        quantize_block(L, &b, at, m->s->row, kir_bin(K, KIR_IDIV, m->s->col0, kir_const_i(K, 32)),
                       true);
        return RP_OK;
    }
    kir_ref idx[IR_MAX_RANK], row = rank > 1 ? m->s->row : kir_const_i(K, 0);
    idx[0] = row;
    for (uint32_t d = 1; d + 1 < rank; d++) {
        idx[d] = kir_begin(K, KIR_LOOP, lower_dim(L, n->shape.dim[d]));
        row =
            kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, row, lower_dim(L, n->shape.dim[d])), idx[d]);
    }
    kir_ref i = kir_begin(K, KIR_LOOP, kir_const_i(K, k / 32));
    block b = {n, n->in[0], idx, kir_bin(K, KIR_IMUL, i, kir_const_i(K, 32))};
    quantize_block(L, &b, at, row, i, false);
    for (uint32_t d = 1; d + 1 < rank; d++) kir_end(K);
    kir_end(K);
    return RP_OK;
}

/* --- effects ------------------------------------------------------------------ */

typedef struct update {
    const ir_node *node;
    const ir_attr *offsets; /* NULL: 0 */
    uint32_t buf;
} update;

static void update_element(lowerer *L, const kir_ref *idx, kir_ref value, void *user) {
    const update *u = user;
    kir_ref at[IR_MAX_RANK] = {0};
    for (uint32_t d = 0; d < u->node->shape.rank; d++)
        at[d] = u->offsets ? kir_bin(K, KIR_IADD, idx[d], lower_dim(L, u->offsets->u.dims[d]))
                           : idx[d];
    lower_put(L, u->buf, u->node->dtype, lower_linear(L, &u->node->shape, at, 0), value);
}

static rp_status update_node(const members *m, ir_ref r) {
    lowerer *L = m->L;
    lower_ref at;
    RP_TRY(lower_version(L, r, &at));
    update u = {.node = ir_node_at(L->g, r)};
    u.offsets = ir_attr_get(u.node, IR_ATTR_OFFSETS);
    u.buf = lower_buffer(L, at, u.node->dtype, 0);
    each_element(m, u.node->in[1], update_element, &u);
    lower_local_of(L, r)->place = LOWER_STORED;
    return RP_OK;
}

typedef struct kv {
    const ir_shape *state, *from; /* from: shape that the loops run over */
    uint32_t buf;
    kir_ref block, pos;
} kv;

static void kv_element(lowerer *L, const kir_ref *idx, kir_ref value, void *user) {
    const kv *c = user;
    kir_ref head_dim = lower_dim(L, c->state->dim[3]);
    kir_ref flat = lower_linear(L, c->from, idx, 1);
    kir_ref at[4] = {c->block, kir_bin(K, KIR_IDIV, flat, head_dim), c->pos,
                     kir_bin(K, KIR_IMOD, flat, head_dim)};
    kir_store(K, c->buf, lower_linear(L, c->state, at, 0), value);
}

static rp_status kv_store_node(const members *m, ir_ref r) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r), *state = ir_node_at(L->g, n->in[0]);
    ir_ref x = n->in[1];
    lower_ref cache;
    RP_TRY(lower_version(L, r, &cache));
    /* A reshape within the row only renames positions: loop over what it renames. */
    while (ir_node_at(L->g, x)->op == IR_reshape &&
           ir_node_at(L->g, ir_node_at(L->g, x)->in[0])->shape.rank > 1 &&
           ir_node_at(L->g, ir_node_at(L->g, x)->in[0])->shape.dim[0] ==
               ir_node_at(L->g, x)->shape.dim[0])
        x = ir_node_at(L->g, x)->in[0];
    kir_ref slot = kir_to_index(K, lower_value(L, n->in[2], &m->s->row));
    kir_begin_if(K, kir_bin(K, KIR_ILT, kir_const_i(K, -1), slot));
    kir_ref size = lower_dim(L, state->shape.dim[2]);
    kv c = {.state = &state->shape, .from = &ir_node_at(L->g, x)->shape};
    c.buf = lower_buffer(L, cache, state->dtype, 0);
    c.block = kir_bin(K, KIR_IDIV, slot, size);
    c.pos = kir_bin(K, KIR_IMOD, slot, size);
    each_element(m, x, kv_element, &c);
    kir_end(K);
    lower_local_of(L, r)->place = LOWER_STORED;
    return RP_OK;
}

/* --- members ------------------------------------------------------------------- */

static rp_status row_scalar(const members *m, ir_ref r) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    kir_ref idx[IR_MAX_RANK] = {0};
    for (uint32_t d = 0; d < n->shape.rank; d++) idx[d] = d ? kir_const_i(K, 0) : m->s->row;
    kir_ref v = lower_value(L, r, idx);
    if (L->f->stored[r]) {
        lower_ref at;
        RP_TRY(lower_memory(L, r, &at));
        lower_put(L, lower_buffer(L, at, n->dtype, 0), n->dtype, lower_linear(L, &n->shape, idx, 0),
                  v);
    }
    move_to(L, r, LOWER_SSA, v);
    return RP_OK;
}

static rp_status emit_member(members *m, ir_ref r) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    if (n->op == IR_update) return update_node(m, r);
    if (n->op == IR_kv_store) return kv_store_node(m, r);
    if (n->op == IR_quantize) return quantize_node(m, r);
    if (rp_dtype_is_quant(n->dtype)) return L->f->stored[r] ? store_node(m, r) : RP_OK;
    if (!m->s->fragment && lower_inner_count(L->g, &n->shape, 1) == 1) return row_scalar(m, r);
    if (L->f->stored[r]) return store_node(m, r);
    if (!L->keep[r].kept) return RP_OK;
    if (!m->s->fragment && !lower_fits_scratch(L, &n->shape)) return store_node(m, r);
    keep_in_scratch(m, r);
    return RP_OK;
}

rp_status lower_members(lowerer *L, const lower_space *s, const ir_ref *nodes, uint32_t n) {
    members m = {.L = L, .s = s};
    for (uint32_t i = 0; i < n; i++)
        (void)lower_local_of(L, nodes[i]); /* before they have memory */
    lower_plan_keeps(L, nodes, n, s->fragment);
    for (uint32_t i = 0; i < n; i++) RP_TRY(emit_member(&m, nodes[i]));
    return RP_OK;
}
