/* What each op computes at one index. Index maps of views are applied on the way down, so views cost
 * nothing; values already computed in an open block are reused. */
#include "lower/emit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/eval.h"

#define K (L->k)

kir_class lower_class(rp_dtype t) {
    if (t == RP_DTYPE_I64) return KIR_I64;
    if (t == RP_DTYPE_F64) return KIR_F64;
    return t == RP_DTYPE_BOOL || ir_dtype_is_real(t) || rp_dtype_is_quant(t) ? KIR_F32 : KIR_I32;
}

kir_ref lower_dim(lowerer *L, ir_dim d) {
    return kir_dim(K, ir_graph_dims(L->g), d);
}

kir_ref lower_linear(lowerer *L, const ir_shape *s, const kir_ref *idx, uint32_t first) {
    kir_ref lin = kir_const_i(K, 0);
    for (uint32_t i = first; i < s->rank; i++)
        lin = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, lin, lower_dim(L, s->dim[i])), idx[i]);
    return lin;
}

void lower_delinear(lowerer *L, const ir_shape *s, kir_ref lin, uint32_t first, kir_ref *idx) {
    for (uint32_t i = s->rank; i > first; i--) {
        if (i - 1 == first) {
            idx[i - 1] = lin;
            return;
        }
        /* Of nothing there is no position; the text must still be one. */
        kir_ref d = kir_bin(K, KIR_IMAX, lower_dim(L, s->dim[i - 1]), kir_const_i(K, 1));
        idx[i - 1] = kir_bin(K, KIR_IMOD, lin, d);
        lin = kir_bin(K, KIR_IDIV, lin, d);
    }
}

int64_t lower_inner_count(const ir_graph *g, const ir_shape *s, uint32_t first) {
    int64_t n = 1, v;
    for (uint32_t i = first; i < s->rank; i++) {
        if (!ir_dim_is_const(ir_graph_dims(g), s->dim[i], &v)) return -1;
        n *= v;
    }
    return n;
}

uint32_t lower_outer(const lowerer *L, const ir_shape *s) {
    return pass_outer_dims(L->g, s, L->rows);
}

int64_t lower_row_count(const lowerer *L, const ir_shape *s) {
    uint32_t outer = lower_outer(L, s);
    return outer == UINT32_MAX ? -1 : lower_inner_count(L->g, s, outer);
}

uint32_t lower_arg_slot(lowerer *L, lower_ref where) {
    for (uint32_t i = 0; i < L->n_args; i++)
        if (L->args[i].seg == where.seg && L->args[i].idx == where.idx) return i;
    L->args[L->n_args] = (lower_ref){.seg = where.seg, .idx = where.idx};
    return L->n_args++;
}

uint32_t lower_written_slot(lowerer *L, lower_ref where) {
    const uint32_t slot = lower_arg_slot(L, where);
    L->args[slot].access |= BASE_WRITES;
    return slot;
}

void lower_write_args(lowerer *L, uint32_t from) {
    for (; from < L->n_args; from++) L->args[from].access |= BASE_WRITES;
}

void lower_node_access(const ir_node *n, lower_ref *args, uint32_t n_args, uint32_t n_read) {
    const uint64_t writes = ir_node_writes(n);
    for (uint32_t i = 0; i < n_args; i++) {
        const bool written = i < n->n_in ? i < 64 && writes >> i & 1 : i + n_read < n_args;
        args[i].access = !written      ? BASE_READS
                         : i < n->n_in ? BASE_READS | BASE_WRITES
                                       : BASE_WRITES;
    }
}

void lower_note_access(lowerer *L, const kir_func *f, const uint32_t *slot) {
    for (kir_ref i = 0; i < f->n_insts; i++) {
        const kir_inst *in = &f->insts[i];
        if (in->op != KIR_LOAD && in->op != KIR_STORE) continue;
        const kir_buf *b = &f->bufs[in->u.buf];
        if (b->space != KIR_ARG) continue;
        lower_ref *arg = &L->args[slot ? slot[b->slot] : b->slot];
        arg->access |= in->op == KIR_LOAD ? BASE_READS : BASE_WRITES;
    }
}

uint32_t lower_buffer(lowerer *L, lower_ref where, rp_dtype dtype, int64_t offset) {
    uint32_t slot = lower_arg_slot(L, where);
    char name[32];
    for (uint32_t i = 0; i < K->n_bufs; i++) {
        const kir_buf *b = &K->bufs[i];
        if (b->space == KIR_ARG && b->slot == slot && b->dtype == dtype && b->offset == offset)
            return i;
    }
    (void)snprintf(name, sizeof name, "b%u_%s_%u", slot, rp_dtype_name(dtype), K->n_bufs);
    return kir_add_buf(K, name, KIR_ARG, dtype, slot, offset, 0);
}

void lower_put(lowerer *L, uint32_t buf, rp_dtype dtype, kir_ref index, kir_ref value) {
    if (dtype == RP_DTYPE_BOOL) value = kir_cvt(K, KIR_I32, value);
    kir_store(K, buf, index, value);
}

kir_ref lower_as_type(lowerer *L, rp_dtype dtype, kir_ref value) {
    return ir_dtype_is_small(dtype) ? kir_wrap_to(K, dtype, value) : kir_round_to(K, dtype, value);
}

/* Integers of the formats start after the scales: offsets within a block, in bytes. */
static kir_ref load_block_int(lowerer *L, lower_ref at, rp_dtype t, kir_ref block, kir_ref j) {
    int64_t bytes = (int64_t)rp_dtype_block_bytes(t);
    kir_ref base = kir_bin(K, KIR_IMUL, block, kir_const_i(K, bytes));
    if (t == RP_DTYPE_Q8_0)
        return kir_load(K, lower_buffer(L, at, RP_DTYPE_I8, 2), kir_bin(K, KIR_IADD, base, j));
    kir_ref half = kir_const_i(K, 16);
    uint32_t buf = lower_buffer(L, at, RP_DTYPE_U8, t == RP_DTYPE_Q4_1 ? 4 : 2);
    kir_ref byte = kir_load(K, buf, kir_bin(K, KIR_IADD, base, kir_bin(K, KIR_IMOD, j, half)));
    kir_ref high = kir_bin(K, KIR_IDIV, j, half);
    return kir_select(K, high, kir_shr(K, byte, 4), kir_band(K, byte, 15));
}

/* Element of a file-layout block format, as ggml defines it: q4_0 d*(q-8), q4_1 d*q+m, q8_0 d*q. */
static kir_ref load_file_block(lowerer *L, lower_ref at, rp_dtype t, kir_ref lin) {
    kir_ref n = kir_const_i(K, 32), block = kir_bin(K, KIR_IDIV, lin, n),
            j = kir_bin(K, KIR_IMOD, lin, n);
    int64_t halves = (int64_t)rp_dtype_block_bytes(t) / 2;
    kir_ref head = kir_bin(K, KIR_IMUL, block, kir_const_i(K, halves));
    kir_ref d = kir_load(K, lower_buffer(L, at, RP_DTYPE_F16, 0), head);
    kir_ref q = kir_cvt(K, KIR_F32, load_block_int(L, at, t, block, j));
    if (t == RP_DTYPE_Q4_0) q = kir_alu(K, IR_sub, q, kir_const_f(K, 8.0), KIR_NONE);
    kir_ref v = kir_alu(K, IR_mul, d, q, KIR_NONE);
    if (t != RP_DTYPE_Q4_1) return v;
    return kir_alu(K, IR_add, v, kir_load(K, lower_buffer(L, at, RP_DTYPE_F16, 2), head), KIR_NONE);
}

/* Element of a packed activation row: int16 q[K], float d[K/32], int32 sum[K/32] (gen/embed/prelude.h). */
static kir_ref load_i16b32(lowerer *L, lower_ref at, const ir_shape *s, const kir_ref *idx) {
    int64_t k = 0;
    (void)ir_dim_is_const(ir_graph_dims(L->g), s->dim[s->rank - 1], &k);
    ir_shape rows = *s;
    rows.rank--;
    kir_ref row = lower_linear(L, &rows, idx, 0), j = idx[s->rank - 1];
    kir_ref qi = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, row, kir_const_i(K, k / 32 * 36)), j);
    kir_ref di = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, row, kir_const_i(K, k / 32 * 18)),
                         kir_bin(K, KIR_IDIV, j, kir_const_i(K, 32)));
    kir_ref q = kir_cvt(K, KIR_F32, kir_load(K, lower_buffer(L, at, RP_DTYPE_I16, 0), qi));
    return kir_alu(K, IR_mul, q, kir_load(K, lower_buffer(L, at, RP_DTYPE_F32, k * 2), di),
                   KIR_NONE);
}

static kir_ref load_memory(lowerer *L, ir_ref r, const kir_ref *idx) {
    const ir_node *n = ir_node_at(L->g, r);
    lower_ref at = L->where[r];
    if (n->dtype == RP_DTYPE_I16B32) return load_i16b32(L, at, &n->shape, idx);
    kir_ref lin = lower_linear(L, &n->shape, idx, 0);
    if (rp_dtype_is_quant(n->dtype)) return load_file_block(L, at, n->dtype, lin);
    kir_ref v = kir_load(K, lower_buffer(L, at, n->dtype, 0), lin);
    return n->dtype == RP_DTYPE_BOOL ? kir_cvt(K, KIR_F32, v) : v;
}

/* numpy broadcasting: operand o of a node of shape s, read at idx of s. */
static kir_ref operand_read(lowerer *L, ir_ref o, const ir_shape *s, const kir_ref *idx,
                            lower_read read) {
    const ir_node *n = ir_node_at(L->g, o);
    kir_ref sub[IR_MAX_RANK] = {0};
    int64_t v;
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        bool one = ir_dim_is_const(ir_graph_dims(L->g), n->shape.dim[i], &v) && v == 1;
        sub[i] = one ? kir_const_i(K, 0) : idx[s->rank - n->shape.rank + i];
    }
    return read(L, o, sub);
}

static kir_ref cast_value(lowerer *L, kir_ref v, rp_dtype from, rp_dtype to) {
    if (to == RP_DTYPE_BOOL) {
        if (from == RP_DTYPE_BOOL) return v;
        if (from == RP_DTYPE_F64)
            return kir_cvt(K, KIR_F32, kir_alu(K, IR_ne, v, kir_const_f64(K, 0.0), KIR_NONE));
        return kir_alu(K, IR_ne, kir_cvt(K, KIR_F32, v), kir_const_f(K, 0.0), KIR_NONE);
    }
    if (ir_dtype_is_integer(from) && ir_dtype_is_integer(to)) return kir_wrap_to(K, to, v);
    bool narrow = ir_dtype_is_real(to) && to != RP_DTYPE_F32 && to != RP_DTYPE_F64;
    v = narrow ? kir_cvt_odd(K, v) : kir_cvt(K, lower_class(to), v);
    return kir_round_to(K, to, v);
}

static kir_ref elementwise_value(lowerer *L, const ir_node *n, const kir_ref *idx) {
    kir_ref v[3] = {KIR_NONE, KIR_NONE, KIR_NONE};
    if (n->op == IR_bitcast) return lower_bitcast(L, n, idx);
    for (uint32_t i = 0; i < n->n_in; i++)
        v[i] = operand_read(L, n->in[i], &n->shape, idx, lower_value);
    if (n->op == IR_cast) return cast_value(L, v[0], ir_node_at(L->g, n->in[0])->dtype, n->dtype);
    kir_ref r = kir_alu(K, n->op, v[0], v[1], v[2]);
    if (ir_op_compares(n->op)) return kir_cvt(K, KIR_F32, r);
    return n->dtype == RP_DTYPE_BOOL ? r : lower_as_type(L, n->dtype, r);
}

kir_reduce lower_reduce_kind(ir_op op) {
    assert(op >= IR_sum && op <= IR_argmax);
    return op == IR_sum    ? KIR_SUM
           : op == IR_prod ? KIR_PROD
           : op == IR_amax ? KIR_MAX
           : op == IR_amin ? KIR_MIN
                           : KIR_ARGMAX;
}

kir_ref lower_term(lowerer *L, ir_ref r, const kir_ref *idx, kir_ref i) {
    const ir_node *n = ir_node_at(L->g, r), *x = ir_node_at(L->g, n->in[0]);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0), from = 0;
    bool keep = ir_attr_int(n, IR_ATTR_KEEP, 0) != 0;
    kir_ref sub[IR_MAX_RANK] = {0};
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        if (d == axis) {
            sub[d] = i;
            from += keep;
        } else {
            sub[d] = idx[from++];
        }
    }
    return lower_value(L, n->in[0], sub);
}

static kir_ref reduce_value(lowerer *L, ir_ref r, const kir_ref *idx) {
    const ir_node *n = ir_node_at(L->g, r), *x = ir_node_at(L->g, n->in[0]);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    kir_ref v;
    if (L->f->split[r]) {
        v = lower_joined_runs(L, r, idx);
    } else {
        kir_ref i = kir_begin_reduce(K, lower_reduce_kind(n->op), lower_dim(L, x->shape.dim[axis]));
        v = kir_yield(K, lower_term(L, r, idx, i));
    }
    return n->op == IR_argmax ? v : lower_as_type(L, n->dtype, v);
}

/* Row of the table, clamped into it. */
static kir_ref gather_value(lowerer *L, const ir_node *n, const kir_ref *idx, lower_read read) {
    const ir_node *table = ir_node_at(L->g, n->in[0]), *at = ir_node_at(L->g, n->in[1]);
    kir_ref sub[IR_MAX_RANK] = {0};
    kir_ref i = kir_to_index(K, lower_value(L, n->in[1], idx));
    kir_ref last = kir_bin(K, KIR_ISUB, lower_dim(L, table->shape.dim[0]), kir_const_i(K, 1));
    sub[0] = kir_bin(K, KIR_IMAX, kir_bin(K, KIR_IMIN, i, last), kir_const_i(K, 0));
    for (uint32_t d = 1; d < table->shape.rank; d++) sub[d] = idx[at->shape.rank + d - 1];
    return read(L, n->in[0], sub);
}

/* Elements along an axis, as read counts them. */
static kir_ref axis_size(lowerer *L, const ir_node *n, uint32_t axis, lower_read read) {
    return read == lower_block_byte && axis + 1 == n->shape.rank
               ? kir_const_i(K, lower_row_bytes(L, n))
               : lower_dim(L, n->shape.dim[axis]);
}

/* A part that may be empty has no element to clamp to: it is read where it holds j alone, as the product of one element or
 * none, which is that element bit for bit; of bits, since times 1 a NaN is not always the same. */
static kir_ref guarded_part(lowerer *L, ir_ref part, kir_ref *sub, uint32_t axis, kir_ref j,
                            kir_ref size, lower_read read) {
    kir_ref inside = kir_bin(K, KIR_IAND, kir_bin(K, KIR_ILT, kir_const_i(K, -1), j),
                             kir_bin(K, KIR_ILT, j, size));
    (void)kir_begin_reduce(K, KIR_PROD, inside);
    sub[axis] = j;
    if (read != lower_value || !ir_dtype_is_real(ir_node_at(L->g, part)->dtype))
        return kir_yield(K, read(L, part, sub));
    const rp_dtype wide = lower_wide_type(ir_node_at(L->g, part)->dtype);
    return kir_of_bits(K, wide, kir_yield(K, kir_bits_of(K, wide, read(L, part, sub))));
}

static bool may_be_empty(const lowerer *L, const ir_shape *s) {
    int64_t lo, hi;
    bool empty = false;
    for (uint32_t i = 0; i < s->rank; i++) {
        ir_dim_bounds(ir_graph_dims(L->g), s->dim[i], &lo, &hi);
        empty = empty || lo < 1;
    }
    return empty;
}

/* Reads of parts that do not hold idx are clamped into the part and dropped. */
static kir_ref concat_value(lowerer *L, const ir_node *n, const kir_ref *idx, lower_read read) {
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    kir_ref v = KIR_NONE, end = kir_const_i(K, 0), zero = kir_const_i(K, 0);
    kir_ref sub[IR_MAX_RANK] = {0};
    memcpy(sub, idx, sizeof sub);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *x = ir_node_at(L->g, n->in[i]);
        kir_ref size = axis_size(L, x, axis, read), part;
        kir_ref j = kir_bin(K, KIR_ISUB, idx[axis], end);
        if (may_be_empty(L, &x->shape)) {
            part = guarded_part(L, n->in[i], sub, axis, j, size, read);
        } else {
            kir_ref last = kir_bin(K, KIR_ISUB, size, kir_const_i(K, 1));
            sub[axis] = kir_bin(K, KIR_IMAX, kir_bin(K, KIR_IMIN, j, last), zero);
            part = read(L, n->in[i], sub);
        }
        v = i == 0 ? part : kir_select(K, kir_bin(K, KIR_ILT, idx[axis], end), v, part);
        end = kir_bin(K, KIR_IADD, end, size);
    }
    return v;
}

/* --- numbers of four bits ------------------------------------------------------ */

static kir_ref word(lowerer *L, int64_t v) {
    return kir_from_index(K, KIR_I32, kir_const_i(K, v));
}

static kir_ref pack_i4_value(lowerer *L, const ir_node *n, const kir_ref *idx) {
    const uint32_t last = n->shape.rank - 1;
    kir_ref sub[IR_MAX_RANK], half[2];
    memcpy(sub, idx, sizeof sub);
    for (int i = 0; i < 2; i++) {
        sub[last] = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, idx[last], kir_const_i(K, 2)),
                            kir_const_i(K, i));
        half[i] = kir_band(K, lower_value(L, n->in[0], sub), 15);
    }
    half[1] = kir_alu(K, IR_shift_left, half[1], word(L, 4), KIR_NONE);
    return kir_alu(K, IR_or, half[0], half[1], KIR_NONE);
}

static kir_ref unpack_i4_value(lowerer *L, const ir_node *n, const kir_ref *idx) {
    const uint32_t last = n->shape.rank - 1;
    kir_ref sub[IR_MAX_RANK], two = kir_const_i(K, 2);
    memcpy(sub, idx, sizeof sub);
    sub[last] = kir_bin(K, KIR_IDIV, idx[last], two);
    kir_ref byte = lower_value(L, n->in[0], sub);
    kir_ref v = kir_select(K, kir_bin(K, KIR_IMOD, idx[last], two), kir_shr(K, byte, 4),
                           kir_band(K, byte, 15));
    if (n->dtype == RP_DTYPE_U8) return v;
    /* 8 to 15 are -8 to -1 */
    return kir_alu(K, IR_sub, kir_alu(K, IR_xor, v, word(L, 8), KIR_NONE), word(L, 8), KIR_NONE);
}

/* --- block formats as bytes ------------------------------------------------ */

int64_t lower_row_bytes(const lowerer *L, const ir_node *n) {
    int64_t k = 0;
    (void)ir_dim_is_const(ir_graph_dims(L->g), n->shape.dim[n->shape.rank - 1], &k);
    return k / (int64_t)rp_dtype_block(n->dtype) * (int64_t)rp_dtype_block_bytes(n->dtype);
}

/* A packed row of i16b32 has its scales behind all of its elements: there is no place to cut it. */
static kir_ref refuse_cut(lowerer *L, const ir_node *n) {
    (void)rp_fail(L->err, RP_UNSUPPORTED, "%s of %s along the last axis; dequantize it first",
                  ir_op_table(n->op)->name, rp_dtype_name(n->dtype));
    return KIR_NONE;
}

static kir_ref slice_byte(lowerer *L, const ir_node *n, const kir_ref *idx) {
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    ir_dims *dims = ir_graph_dims(L->g);
    ir_dim start = ir_attr_get(n, IR_ATTR_START)->u.dim;
    kir_ref sub[IR_MAX_RANK] = {0};
    memcpy(sub, idx, sizeof sub);
    if (axis + 1 == n->shape.rank)
        start = ir_dim_mul_const(dims,
                                 ir_dim_floordiv(dims, start, (int64_t)rp_dtype_block(n->dtype)),
                                 (int64_t)rp_dtype_block_bytes(n->dtype));
    sub[axis] = kir_bin(K, KIR_IADD, idx[axis], lower_dim(L, start));
    return lower_block_byte(L, n->in[0], sub);
}

kir_ref lower_block_byte(lowerer *L, ir_ref r, const kir_ref *idx) {
    const ir_node *n = ir_node_at(L->g, r);
    uint32_t last = n->shape.rank - 1;
    if (lower_local_of(L, r)->place == LOWER_STORED) {
        kir_ref at = kir_const_i(K, 0);
        for (uint32_t i = 0; i <= last; i++)
            at = kir_bin(K, KIR_IADD,
                         kir_bin(K, KIR_IMUL, at, axis_size(L, n, i, lower_block_byte)), idx[i]);
        return kir_load(K, lower_buffer(L, L->where[r], RP_DTYPE_U8, 0), at);
    }
    bool along = n->op != IR_gather && ir_attr_int(n, IR_ATTR_AXIS, 0) == last;
    if (along && n->dtype == RP_DTYPE_I16B32) return refuse_cut(L, n);
    switch (n->op) {
    case IR_gather: return gather_value(L, n, idx, lower_block_byte);
    case IR_concat: return concat_value(L, n, idx, lower_block_byte);
    case IR_slice: return slice_byte(L, n, idx);
    case IR_written: return lower_block_byte(L, n->in[0], idx);
    default:
        (void)rp_fail(L->err, RP_UNSUPPORTED, "%s of %s cannot be stored; dequantize it",
                      ir_op_table(n->op)->name, rp_dtype_name(n->dtype));
        return KIR_NONE;
    }
}

void lower_store_blocks(lowerer *L, ir_ref r, lower_ref to, kir_ref row) {
    const ir_node *n = ir_node_at(L->g, r);
    uint32_t rank = n->shape.rank, buf = lower_buffer(L, to, RP_DTYPE_U8, 0);
    kir_ref idx[IR_MAX_RANK] = {row}, at = row;
    if (rank == 1) { /* all of it by the first item */
        kir_begin_if(K, kir_bin(K, KIR_ILT, row, kir_const_i(K, 1)));
        idx[0] = at = kir_begin(K, KIR_LOOP, kir_const_i(K, lower_row_bytes(L, n)));
    }
    for (uint32_t d = 1; d < rank; d++) {
        kir_ref size = axis_size(L, n, d, lower_block_byte);
        idx[d] = kir_begin(K, KIR_LOOP, size);
        at = kir_bin(K, KIR_IADD, kir_bin(K, KIR_IMUL, at, size), idx[d]);
    }
    kir_store(K, buf, at, lower_block_byte(L, r, idx));
    for (uint32_t d = 1; d < rank; d++) kir_end(K);
    if (rank == 1) {
        kir_end(K);
        kir_end(K);
    }
}

static kir_ref reshape_value(lowerer *L, const ir_node *n, const kir_ref *idx, lower_read read) {
    const ir_node *x = ir_node_at(L->g, n->in[0]);
    kir_ref sub[IR_MAX_RANK] = {0};
    uint32_t same = 0;
    while (same < n->shape.rank && same < x->shape.rank &&
           n->shape.dim[same] == x->shape.dim[same]) {
        sub[same] = idx[same];
        same++;
    }
    if (same < x->shape.rank)
        lower_delinear(L, &x->shape, lower_linear(L, &n->shape, idx, same), same, sub);
    return read(L, n->in[0], sub);
}

static kir_ref view_value(lowerer *L, const ir_node *n, const kir_ref *idx, lower_read read) {
    kir_ref sub[IR_MAX_RANK] = {0};
    if (n->op == IR_reshape) return reshape_value(L, n, idx, read);
    if (n->op == IR_broadcast) return operand_read(L, n->in[0], &n->shape, idx, read);
    if (n->op == IR_written) return read(L, n->in[0], idx);
    memcpy(sub, idx, sizeof sub);
    if (n->op == IR_slice) {
        uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
        const ir_attr *start = ir_attr_get(n, IR_ATTR_START);
        sub[axis] = kir_bin(K, KIR_IADD, idx[axis], lower_dim(L, start->u.dim));
    } else {
        const ir_attr *axes = ir_attr_get(n, IR_ATTR_AXES);
        for (uint32_t i = 0; i < n->shape.rank; i++) sub[axes->u.ints[i]] = idx[i];
    }
    return read(L, n->in[0], sub);
}

/* A result that is in memory where it can be read is no view to read through. */
static bool is_move(const ir_node *n) {
    return n->op == IR_copy || n->op == IR_gather || n->op == IR_concat ||
           (ir_op_table(n->op)->kind == IR_KIND_VIEW && n->op != IR_result);
}

static kir_ref moved(lowerer *L, const ir_node *n, const kir_ref *idx, lower_read read) {
    switch (n->op) {
    case IR_copy: return read(L, n->in[0], idx);
    case IR_gather: return gather_value(L, n, idx, read);
    case IR_concat: return concat_value(L, n, idx, read);
    default: return view_value(L, n, idx, read);
    }
}

static kir_ref const_value(lowerer *L, const ir_node *n) {
    double v = ir_attr_float(n, IR_ATTR_VALUE, 0.0);
    if (lower_class(n->dtype) == KIR_F32) return kir_const_f(K, v);
    if (lower_class(n->dtype) == KIR_F64) return kir_const_f64(K, v);
    return kir_from_index(K, lower_class(n->dtype), kir_const_i(K, (int64_t)v));
}

static kir_ref compute(lowerer *L, ir_ref r, const kir_ref *idx) {
    const ir_node *n = ir_node_at(L->g, r);
    switch (n->op) {
    case IR_const: return const_value(L, n);
    case IR_iota: {
        kir_ref i = idx[ir_attr_int(n, IR_ATTR_AXIS, 0)];
        return kir_from_index(K, lower_class(n->dtype), i);
    }
    case IR_size: {
        kir_ref size = lower_dim(L, ir_attr_get(n, IR_ATTR_SIZE)->u.dim);
        return kir_from_index(K, lower_class(n->dtype), size);
    }
    case IR_dequant: return lower_value(L, n->in[0], idx);
    case IR_pack_i4: return pack_i4_value(L, n, idx);
    case IR_unpack_i4: return unpack_i4_value(L, n, idx);
    default: break;
    }
    if (is_move(n)) return moved(L, n, idx, lower_value);
    switch (ir_op_table(n->op)->kind) {
    case IR_KIND_ELEMENTWISE: return elementwise_value(L, n, idx);
    case IR_KIND_REDUCE: return reduce_value(L, r, idx);
    default: break;
    }
    (void)rp_fail(L->err, RP_UNSUPPORTED, "%s cannot be computed inside a kernel",
                  ir_op_table(n->op)->name);
    return KIR_NONE;
}

static kir_ref innermost(const kir_func *k) {
    return k->n_open ? k->open[k->n_open - 1] : KIR_NONE;
}

static kir_ref memo_find(lowerer *L, ir_ref r, bool bits, uint32_t rank, const kir_ref *idx) {
    uint32_t live = 0;
    kir_ref found = KIR_NONE;
    for (uint32_t i = 0; i < L->n_memo; i++) {
        lower_memo *m = &L->memo[i];
        /* Values of closed blocks are gone. */
        if (m->depth > K->n_open || (m->depth && K->open[m->depth - 1] != m->block)) continue;
        L->memo[live++] = *m;
        if (m->ref == r && m->bits == bits && memcmp(m->idx, idx, rank * sizeof *idx) == 0)
            found = m->value;
    }
    L->n_memo = live;
    return found;
}

static void memo_add(lowerer *L, ir_ref r, bool bits, uint32_t rank, const kir_ref *idx,
                     kir_ref value) {
    if (L->n_memo == LOWER_MAX_MEMO || value == KIR_NONE) return;
    lower_memo *m = &L->memo[L->n_memo++];
    *m = (lower_memo){
        .ref = r, .bits = bits, .value = value, .block = innermost(K), .depth = K->n_open};
    memcpy(m->idx, idx, rank * sizeof *idx);
}

lower_local *lower_local_of(lowerer *L, ir_ref r) {
    lower_local *l = &L->local[r];
    if (l->kernel != L->n_begun)
        *l = (lower_local){.place = L->has_memory[r] ? LOWER_STORED : LOWER_COMPUTE,
                           .kernel = L->n_begun};
    return l;
}

kir_ref lower_value(lowerer *L, ir_ref r, const kir_ref *idx) {
    const ir_node *n = ir_node_at(L->g, r);
    lower_local *l = lower_local_of(L, r);
    if (l->place == LOWER_SSA) return l->value;
    if (l->place == LOWER_ACC) return kir_load(K, l->value, L->col);
    if (l->place == LOWER_SCRATCH)
        return kir_load(K, l->value,
                        L->col != KIR_NONE
                            ? L->col
                            : lower_linear(L, &n->shape, idx, lower_outer(L, &n->shape)));
    kir_ref v = memo_find(L, r, false, n->shape.rank, idx);
    if (v != KIR_NONE) return v;
    v = l->place == LOWER_STORED ? load_memory(L, r, idx) : compute(L, r, idx);
    /* What a later store may change is loaded again. */
    if (l->place != LOWER_STORED) memo_add(L, r, false, n->shape.rank, idx, v);
    return v;
}

/* --- bits ------------------------------------------------------------------- */

/* Narrow floats are f32 in a kernel, and a conversion there and back makes another NaN of one, on a GPU any the same. */
static bool is_narrow(rp_dtype t) {
    return ir_dtype_is_real(t) && rp_dtype_block_bytes(t) < 4;
}

static rp_dtype bits_type(rp_dtype t) {
    return rp_dtype_block_bytes(t) == 2 ? RP_DTYPE_I16 : RP_DTYPE_U8;
}

/* Of a computed value nobody knows which NaN it is. */
void lower_find_moves(lowerer *L) {
    for (ir_ref r = 0; r < ir_graph_count(L->g); r++) {
        const ir_node *n = ir_node_at(L->g, r);
        bool any = ir_op_table(n->op)->kind == IR_KIND_EFFECT || n->op == IR_input ||
                   n->op == IR_param || n->op == IR_state || n->op == IR_empty ||
                   n->op == IR_result || n->op == IR_bitcast;
        const uint32_t first = n->op == IR_where ? 1 : 0;
        const uint32_t end = n->op == IR_gather || n->op == IR_written ? 1 : n->n_in;
        for (uint32_t i = first; (is_move(n) || n->op == IR_where) && i < end; i++)
            any = any || L->moves[n->in[i]];
        L->moves[r] = any && is_narrow(n->dtype);
    }
}

static kir_ref const_bits(lowerer *L, const ir_node *n) {
    const double bits =
        ir_bitcast(n->dtype, bits_type(n->dtype), ir_attr_float(n, IR_ATTR_VALUE, 0.0));
    return kir_from_index(K, KIR_I32, kir_const_i(K, (int64_t)bits));
}

static kir_ref where_bits(lowerer *L, const ir_node *n, const kir_ref *idx) {
    kir_ref c = operand_read(L, n->in[0], &n->shape, idx, lower_value);
    kir_ref a = operand_read(L, n->in[1], &n->shape, idx, lower_bits);
    kir_ref b = operand_read(L, n->in[2], &n->shape, idx, lower_bits);
    return kir_alu(K, IR_where, c, a, b);
}

/* What bitcast n is of, as an integer. */
static kir_ref source_bits(lowerer *L, const ir_node *n, const kir_ref *idx) {
    const rp_dtype t = ir_node_at(L->g, n->in[0])->dtype;
    if (is_narrow(t)) return lower_bits(L, n->in[0], idx);
    kir_ref v = lower_value(L, n->in[0], idx);
    return ir_dtype_is_real(t) ? kir_bits_of(K, t, v) : v;
}

kir_ref lower_bitcast(lowerer *L, const ir_node *n, const kir_ref *idx) {
    kir_ref v = source_bits(L, n, idx);
    return ir_dtype_is_real(n->dtype) ? kir_of_bits(K, n->dtype, v) : kir_wrap_to(K, n->dtype, v);
}

/* Places in which values are kept have f32: what moves is read where it comes from. */
kir_ref lower_bits(lowerer *L, ir_ref r, const kir_ref *idx) {
    const ir_node *n = ir_node_at(L->g, r);
    if (lower_local_of(L, r)->place == LOWER_STORED)
        return kir_load(K, lower_buffer(L, L->where[r], bits_type(n->dtype), 0),
                        lower_linear(L, &n->shape, idx, 0));
    kir_ref v = memo_find(L, r, true, n->shape.rank, idx);
    if (v != KIR_NONE) return v;
    if (n->op == IR_const)
        v = const_bits(L, n);
    else if (L->moves[r] && n->op == IR_bitcast)
        v = kir_wrap_to(K, bits_type(n->dtype), source_bits(L, n, idx));
    else if (L->moves[r] && n->op == IR_where)
        v = where_bits(L, n, idx);
    else if (L->moves[r] && is_move(n))
        v = moved(L, n, idx, lower_bits);
    else
        v = kir_bits_of(K, n->dtype, lower_value(L, r, idx));
    memo_add(L, r, true, n->shape.rank, idx, v);
    return v;
}

lower_read lower_stored_as(const lowerer *L, ir_ref r) {
    return L->moves[r] ? lower_bits : lower_value;
}

uint32_t lower_buffer_of(lowerer *L, lower_ref where, ir_ref r) {
    const rp_dtype t = ir_node_at(L->g, r)->dtype;
    return lower_buffer(L, where, L->moves[r] ? bits_type(t) : t, 0);
}
