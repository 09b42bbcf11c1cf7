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
    lower_read read; /* what loops over elements hand on */
} members;

static void move_to(lowerer *L, ir_ref r, lower_place place, uint32_t value) {
    lower_local *l = lower_local_of(L, r);
    l->place = place;
    l->value = value;
}

/* --- loops over the inner elements of a node ------------------------------ */

typedef void (*element_fn)(lowerer *L, const kir_ref *idx, kir_ref value, void *user);

/* The leading dims of a value of shape s in the open row; how many those are. */
static uint32_t index_of_row(const members *m, const ir_shape *s, kir_ref *idx) {
    ir_shape outer = *s;
    outer.rank = lower_outer(m->L, s);
    if (outer.rank > 1)
        lower_delinear(m->L, &outer, m->s->row, 0, idx);
    else if (outer.rank == 1)
        idx[0] = m->s->row;
    return outer.rank;
}

static void each_in(const members *m, ir_ref r, uint32_t axis, kir_ref offset, ir_ref part,
                    element_fn fn, void *user) {
    lowerer *L = m->L;
    const ir_shape *s = &ir_node_at(L->g, part)->shape;
    kir_ref idx[IR_MAX_RANK] = {0}, own[IR_MAX_RANK] = {0};
    uint32_t outer = index_of_row(m, s, idx);
    for (uint32_t d = outer; d < s->rank; d++)
        idx[d] = kir_begin(K, KIR_LOOP, lower_dim(L, s->dim[d]));
    memcpy(own, idx, sizeof own);
    if (part != r) own[axis] = kir_bin(K, KIR_IADD, idx[axis], offset);
    fn(L, own, m->read(L, part, idx), user);
    for (uint32_t d = outer; d < s->rank; d++) kir_end(K);
}

/* Parts of concat r along one of its outer dims, in which the row lies in one of them. start[i]: of part i. */
typedef struct row_parts {
    ir_ref r;
    uint32_t axis, outer;
    const kir_ref *start;
    const kir_ref *lead; /* indices of the row */
    element_fn fn;
    void *user;
} row_parts;

static void each_in_row(const members *m, const row_parts *p, uint32_t part) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, p->r);
    kir_ref own[IR_MAX_RANK] = {0}, idx[IR_MAX_RANK] = {0};
    memcpy(own, p->lead, p->outer * sizeof *own);
    for (uint32_t d = p->outer; d < n->shape.rank; d++)
        own[d] = kir_begin(K, KIR_LOOP, lower_dim(L, n->shape.dim[d]));
    memcpy(idx, own, sizeof idx);
    idx[p->axis] = kir_bin(K, KIR_ISUB, own[p->axis], p->start[part]);
    p->fn(L, own, m->read(L, n->in[part], idx), p->user);
    for (uint32_t d = p->outer; d < n->shape.rank; d++) kir_end(K);
}

/* The one of parts [first, end) that has the row, by halves. */
static void find_in_row(const members *m, const row_parts *p, uint32_t first, uint32_t end) {
    lowerer *L = m->L;
    const uint32_t mid = first + (end - first) / 2;
    if (end - first == 1) {
        each_in_row(m, p, first);
        return;
    }
    const kir_ref below = kir_bin(K, KIR_ILT, p->lead[p->axis], p->start[mid]);
    kir_begin_if(K, below);
    find_in_row(m, p, first, mid);
    kir_end(K);
    kir_begin_if(K, kir_bin(K, KIR_ILT, below, kir_const_i(K, 1)));
    find_in_row(m, p, mid, end);
    kir_end(K);
}

/* Where each part of concat n begins, and the last ends; in the arena, NULL when memory is exhausted. */
static kir_ref *starts_of(lowerer *L, const ir_node *n, uint32_t axis) {
    kir_ref *start = base_arena_array(L->arena, n->n_in + 1u, sizeof *start);
    if (start) start[0] = kir_const_i(K, 0);
    for (uint32_t i = 0; start && i < n->n_in; i++)
        start[i + 1] = kir_bin(K, KIR_IADD, start[i],
                               lower_dim(L, ir_node_at(L->g, n->in[i])->shape.dim[axis]));
    return start;
}

static void each_part_of_rows(const members *m, ir_ref r, element_fn fn, void *user) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    kir_ref lead[IR_MAX_RANK] = {0};
    row_parts p = {.r = r, .lead = lead, .fn = fn, .user = user};
    p.axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    p.outer = index_of_row(m, &n->shape, lead);
    p.start = starts_of(L, n, p.axis);
    if (p.start)
        find_in_row(m, &p, 0, n->n_in);
    else
        (void)rp_fail(L->err, RP_NOMEM, "parts of a concat");
}

/* Calls fn for every inner element of r; the parts of a concat have loops of their own. */
static void each_element(const members *m, ir_ref r, element_fn fn, void *user) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    if (pass_has_many_parts(L->g, n) && axis < lower_outer(L, &n->shape) &&
        lower_local_of(L, r)->place == LOWER_COMPUTE) {
        each_part_of_rows(m, r, fn, user);
        return;
    }
    if (n->op != IR_concat || axis < lower_outer(L, &n->shape) ||
        lower_local_of(L, r)->place != LOWER_COMPUTE) {
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

/* What each part of concat r, which has no other dim, has of the tile. */
static void each_part_of_tile(const members *m, ir_ref r, element_fn fn, void *user) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    const uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    const kir_ref *start = starts_of(L, n, axis);
    const kir_ref zero = kir_const_i(K, 0), end = kir_bin(K, KIR_IADD, m->s->col0, m->s->n_cols);
    if (!start) (void)rp_fail(L->err, RP_NOMEM, "parts of a concat");
    for (uint32_t i = 0; start && i < n->n_in; i++) {
        kir_ref idx[IR_MAX_RANK] = {0}, own[IR_MAX_RANK] = {0};
        kir_ref from = kir_bin(K, KIR_IMAX, start[i], m->s->col0);
        kir_ref to = kir_bin(K, KIR_IMIN, start[i + 1], end);
        kir_ref j =
            kir_begin(K, KIR_LOOP, kir_bin(K, KIR_IMAX, kir_bin(K, KIR_ISUB, to, from), zero));
        for (uint32_t d = 0; d < n->shape.rank; d++) own[d] = idx[d] = zero;
        own[axis] = kir_bin(K, KIR_IADD, from, j);
        idx[axis] = kir_bin(K, KIR_ISUB, own[axis], start[i]);
        L->col = kir_bin(K, KIR_ISUB, own[axis], m->s->col0);
        fn(L, own, m->read(L, n->in[i], idx), user);
        kir_end(K);
        L->col = KIR_NONE;
    }
}

static void each_of_tile(const members *m, ir_ref r, element_fn fn, void *user) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    if (pass_has_many_parts(L->g, n) && pass_is_only_axis(L->g, n) &&
        lower_local_of(L, r)->place == LOWER_COMPUTE) {
        each_part_of_tile(m, r, fn, user);
        return;
    }
    kir_ref idx[IR_MAX_RANK] = {0};
    L->col = kir_begin(K, KIR_LOOP, m->s->n_cols);
    lower_delinear(L, &ir_node_at(L->g, r)->shape, kir_bin(K, KIR_IADD, m->s->col0, L->col), 0,
                   idx);
    fn(L, idx, m->read(L, r, idx), user);
    kir_end(K);
    L->col = KIR_NONE;
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
    fn(L, idx, m->read(L, r, idx), user);
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
    const ir_shape *s = &st->node->shape;
    kir_ref at = L->col != KIR_NONE ? L->col : lower_linear(L, s, idx, lower_outer(L, s));
    kir_store(K, st->buf, at, value);
}

static void each(const members *m, ir_ref r, element_fn fn, void *user) {
    if (m->s->fragment)
        each_column(m, r, fn, user);
    else if (m->s->tile)
        each_of_tile(m, r, fn, user);
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
    store st = {ir_node_at(L->g, r), lower_buffer_of(L, at, r),
                m->s->fragment ? m->s->row : KIR_NONE};
    const members as = {L, m->s, lower_stored_as(L, r)};
    each(&as, r, store_element, &st);
    /* An accumulator is nearer than the memory it was stored to. */
    if (lower_local_of(L, r)->place == LOWER_COMPUTE) lower_local_of(L, r)->place = LOWER_STORED;
    return RP_OK;
}

rp_dtype lower_wide_type(rp_dtype dtype) {
    kir_class c = lower_class(dtype);
    return c == KIR_F32   ? RP_DTYPE_F32
           : c == KIR_F64 ? RP_DTYPE_F64
           : c == KIR_I64 ? RP_DTYPE_I64
                          : RP_DTYPE_I32;
}

/* Whether scratch has room for so many; not for an unknown number (-1). */
static bool has_room(const lowerer *L, rp_dtype dtype, int64_t elements) {
    int64_t words = (int64_t)rp_dtype_block_bytes(lower_wide_type(dtype)) / 4;
    return elements >= 0 && elements <= L->scratch_left / words;
}

bool lower_fits_scratch(const lowerer *L, const ir_node *n) {
    int64_t inner = lower_row_count(L, &n->shape);
    return inner > 0 && has_room(L, n->dtype, inner);
}

uint32_t lower_add_scratch(lowerer *L, rp_dtype dtype, int64_t elements) {
    char name[16];
    (void)snprintf(name, sizeof name, "s%u", K->n_bufs);
    rp_dtype t = lower_wide_type(dtype);
    L->scratch_left -= elements * ((int64_t)rp_dtype_block_bytes(t) / 4);
    return kir_add_buf(K, name, KIR_SCRATCH, t, 0, 0, elements);
}

static int64_t item_elements(const members *m, const ir_shape *s) {
    return m->s->fragment || m->s->tile ? m->s->width : lower_row_count(m->L, s);
}

static void keep_in_scratch(const members *m, ir_ref r) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    store st = {n, lower_add_scratch(L, n->dtype, item_elements(m, &n->shape)), KIR_NONE};
    each(m, r, scratch_element, &st);
    move_to(L, r, LOWER_SCRATCH, st.buf);
}

/* --- reductions over dims that are not the last ---------------------------- */

typedef struct run_store {
    const ir_node *node;
    uint32_t memory, scratch; /* UINT32_MAX: none */
} run_store;

static void store_of_run(lowerer *L, const kir_ref *idx, kir_ref at, kir_ref value, void *user) {
    const run_store *st = user;
    if (st->memory != UINT32_MAX)
        lower_put(L, st->memory, st->node->dtype, lower_linear(L, &st->node->shape, idx, 0), value);
    if (st->scratch != UINT32_MAX) kir_store(K, st->scratch, at, value);
}

static uint32_t lanes_of(const members *m, int64_t width) {
    lowerer *L = m->L;
    if (L->lanes_width < width) {
        L->lanes = lower_add_scratch(L, RP_DTYPE_F32, 16 * width);
        L->lanes_width = width;
    }
    return L->lanes;
}

/* All runs of the row, or the one that the tile is. */
static void each_run(const members *m, ir_ref r, int64_t elements, int64_t width, run_store *st) {
    lowerer *L = m->L;
    lower_run t = {.width = width, .lanes = lanes_of(m, width), .offset = kir_const_i(K, 0)};
    if (lower_has_chunks(L, r)) t.totals = lower_add_scratch(L, RP_DTYPE_F64, width);
    if (m->s->tile) {
        t.first = m->s->col0;
        lower_reduce_run(L, r, &t, store_of_run, st);
        return;
    }
    kir_ref i = kir_begin(K, KIR_LOOP, kir_const_i(K, elements / width));
    t.offset = kir_bin(K, KIR_IMUL, i, kir_const_i(K, width));
    t.first =
        kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, m->s->row, kir_const_i(K, elements)), t.offset);
    lower_reduce_run(L, r, &t, store_of_run, st);
    kir_end(K);
}

static rp_status reduce_runs(const members *m, ir_ref r, int64_t width) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    int64_t elements = item_elements(m, &n->shape);
    run_store st = {n, UINT32_MAX, UINT32_MAX};
    bool read = L->keep[r].evals > 0.0, room = elements + 18 * width <= L->scratch_left;
    if (L->f->stored[r] || (read && !room)) {
        lower_ref at;
        RP_TRY(lower_memory(L, r, &at));
        st.memory = lower_buffer(L, at, n->dtype, 0);
    }
    if (read && room) st.scratch = lower_add_scratch(L, n->dtype, elements);
    each_run(m, r, elements, width, &st);
    if (st.scratch != UINT32_MAX)
        move_to(L, r, LOWER_SCRATCH, st.scratch);
    else
        move_to(L, r, LOWER_STORED, 0);
    return RP_OK;
}

/* The width of runs for r, or 0. */
static int64_t run_width(const members *m, ir_ref r) {
    const ir_node *n = ir_node_at(m->L->g, r);
    int64_t kept = lower_neighbours(m->L, r);
    if (m->s->fragment || kept == 0) return 0;
    if (m->s->tile) return m->s->width;
    int64_t elements = lower_row_count(m->L, &n->shape);
    int64_t width = elements > 0 ? lower_divisor(elements < kept ? elements : kept, LOWER_RUN) : 0;
    /* Of floats: the lanes, unless they are there, and the totals. */
    int64_t size = (m->L->lanes_width >= width ? 0 : 16 * width) +
                   (lower_has_chunks(m->L, r) ? 2 * width : 0);
    bool room = size <= m->L->scratch_left;
    return width >= 8 && elements % width == 0 && room ? width : 0;
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
    kir_ref idx[IR_MAX_RANK] = {0}, row = rank > 1 ? m->s->row : kir_const_i(K, 0);
    uint32_t outer = rank > 1 ? index_of_row(m, &n->shape, idx) : 0;
    for (uint32_t d = outer; d + 1 < rank; d++) {
        idx[d] = kir_begin(K, KIR_LOOP, lower_dim(L, n->shape.dim[d]));
        row =
            kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, row, lower_dim(L, n->shape.dim[d])), idx[d]);
    }
    kir_ref i = kir_begin(K, KIR_LOOP, kir_const_i(K, k / 32));
    block b = {n, n->in[0], idx, kir_bin(K, KIR_IMUL, i, kir_const_i(K, 32))};
    quantize_block(L, &b, at, row, i, false);
    for (uint32_t d = outer; d + 1 < rank; d++) kir_end(K);
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
    u.buf = lower_buffer_of(L, at, u.node->in[1]);
    const members as = {L, m->s, lower_stored_as(L, u.node->in[1])};
    each_element(&as, u.node->in[1], update_element, &u);
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
    uint32_t outer = index_of_row(m, &n->shape, idx);
    for (uint32_t d = outer; d < n->shape.rank; d++) idx[d] = kir_const_i(K, 0);
    kir_ref v = lower_value(L, r, idx);
    if (L->f->stored[r]) {
        lower_ref at;
        RP_TRY(lower_memory(L, r, &at));
        kir_ref kept = L->moves[r] ? lower_bits(L, r, idx) : v;
        lower_put(L, lower_buffer_of(L, at, r), n->dtype, lower_linear(L, &n->shape, idx, 0), kept);
    }
    move_to(L, r, LOWER_SSA, v);
    return RP_OK;
}

static rp_status emit_member(members *m, ir_ref r) {
    lowerer *L = m->L;
    const ir_node *n = ir_node_at(L->g, r);
    bool whole = !m->s->fragment && !m->s->tile;
    int64_t width = run_width(m, r);
    if (n->op == IR_update) return update_node(m, r);
    if (n->op == IR_kv_store) return kv_store_node(m, r);
    if (n->op == IR_quantize) return quantize_node(m, r);
    if (rp_dtype_is_quant(n->dtype)) return L->f->stored[r] ? store_node(m, r) : RP_OK;
    if (width) return reduce_runs(m, r, width);
    if (whole && lower_row_count(L, &n->shape) == 1) return row_scalar(m, r);
    if (L->f->stored[r]) return store_node(m, r);
    if (!L->keep[r].kept) return RP_OK;
    int64_t elements = item_elements(m, &n->shape);
    if (!m->s->fragment && !has_room(L, n->dtype, elements)) return store_node(m, r);
    keep_in_scratch(m, r);
    return RP_OK;
}

rp_status lower_members(lowerer *L, const lower_space *s, const ir_ref *nodes, uint32_t n) {
    members m = {.L = L, .s = s, .read = lower_value};
    /* A member that has memory already is not in it yet. */
    for (uint32_t i = 0; i < n; i++)
        if (lower_local_of(L, nodes[i])->place == LOWER_STORED)
            lower_local_of(L, nodes[i])->place = LOWER_COMPUTE;
    lower_plan_keeps(L, s, nodes, n);
    for (uint32_t i = 0; i < n; i++) RP_TRY(emit_member(&m, nodes[i]));
    return RP_OK;
}
