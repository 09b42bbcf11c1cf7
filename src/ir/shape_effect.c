/* What effects may write, and their shape rules: update, kv_store, attention, custom, written.
 *
 * What an effect writes is the last version of some memory: a state, an `empty` or an input that the
 * graph declares to mutate. A version is overwritten once, so versions form a chain. */
#include "ir/custom.h"
#include "ir/rule.h"

static const ir_node *operand(const ir_rule *r, uint32_t i) {
    return ir_node_at(r->g, r->n->in[i]);
}

static rp_status want_type(const ir_rule *r, uint32_t i, const char *name, rp_dtype t,
                           uint32_t rank) {
    const ir_node *x = operand(r, i);
    if (x->dtype == t && x->shape.rank == rank) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: %s must be %s with %u axes, not %s", r->op, name,
                   rp_dtype_name(t), rank, IR_TYPE(r, i));
}

/* A version of memory, or a copy of one that is overwritten before it is read. */
static rp_status want_cache(const ir_rule *r, uint32_t i, const char *name) {
    const ir_node *x = operand(r, i);
    bool memory = x->memory != IR_NONE || x->op == IR_copy;
    if (memory && rp_dtype_is_float(x->dtype) && x->shape.rank == 4) return RP_OK;
    return rp_fail(
        r->err, RP_INVALID,
        "%s: %s must be a state of f32, f16 or bf16 [blocks,kv_heads,block,head_dim], not %s",
        r->op, name, IR_TYPE(r, i));
}

/* An empty has no contents beside what is written. */
static rp_status not_empty(const ir_rule *r) {
    if (operand(r, 0)->op != IR_empty) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "%s: writes a part of an empty, whose rest has no contents; update all of it "
                   "first",
                   r->op);
}

/* --- what may be written --------------------------------------------------------- */

static rp_status check_memory(const ir_rule *r, uint32_t i) {
    const ir_node *x = operand(r, i);
    if (x->memory == IR_NONE)
        return rp_fail(r->err, RP_INVALID,
                       "%s: operand %u is written, so it must be a state, an input that the graph "
                       "mutates, empty or a version of one, not %s",
                       r->op, i, ir_op_table(x->op)->name);
    const ir_node *leaf = ir_node_at(r->g, x->memory);
    if (leaf->op != IR_input || leaf->mutates) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "%s: writes input '%s', which the graph does not declare to mutate; trace it "
                   "with rp_mutable_input, or write %%%s: %s mutates",
                   r->op, leaf->name, leaf->name, ir_type_of(r->g, x->memory).s);
}

rp_status ir_check_writes(const ir_graph *g, const ir_node *n, ir_ref self, rp_error *err) {
    const uint64_t writes = ir_node_writes(n);
    if (!writes) return RP_OK;
    const ir_rule r = ir_rule_of(g, n, err);
    for (uint32_t i = 0; i < n->n_in && i < 64; i++) {
        if (!(writes >> i & 1)) continue;
        RP_TRY(check_memory(&r, i));
        ir_ref w = ir_writer_of(g, n->in[i]);
        if (w != IR_NONE && w != self)
            return rp_fail(err, RP_INVALID,
                           "%s: %s is overwritten by %s = %s already; write the version that this "
                           "made",
                           r.op, ir_name_of(g, n->in[i]).s, ir_name_of(g, w).s,
                           ir_op_table(ir_node_at(g, w)->op)->name);
        for (uint32_t k = 0; k < i; k++)
            if ((writes >> k & 1) && operand(&r, k)->memory == operand(&r, i)->memory)
                return rp_fail(err, RP_INVALID, "%s: operands %u and %u are one memory, %s", r.op,
                               k, i, ir_name_of(g, operand(&r, i)->memory).s);
    }
    return RP_OK;
}

/* --- shapes ------------------------------------------------------------------------ */

static rp_status fits_at(const ir_rule *r, const ir_attr *offsets) {
    const ir_shape *to = &operand(r, 0)->shape, *x = &operand(r, 1)->shape;
    if (offsets->n != to->rank)
        return rp_fail(r->err, RP_INVALID, "update: %u offsets for %s", offsets->n, IR_TYPE(r, 0));
    for (uint32_t i = 0; i < to->rank; i++) {
        ir_dim at = offsets->u.dims[i];
        if (ir_dim_le(r->dims, ir_dim_const(r->dims, 0), at) != IR_TRUE ||
            ir_dim_le(r->dims, ir_dim_add(r->dims, at, x->dim[i]), to->dim[i]) != IR_TRUE)
            return rp_fail(r->err, RP_INVALID,
                           "update: %s at offset %s of axis %u is not known to lie within %s",
                           IR_TYPE(r, 1), ir_dim_text(r->g, at).s, i, IR_TYPE(r, 0));
    }
    return not_empty(r);
}

static rp_status infer_update(ir_rule *r) {
    const ir_node *to = operand(r, 0), *x = operand(r, 1);
    const ir_attr *offsets = ir_attr_get(r->n, IR_ATTR_OFFSETS);
    if (rp_dtype_is_quant(to->dtype))
        return rp_fail(r->err, RP_INVALID, "update: not for %s, a block format", IR_TYPE(r, 0));
    if (to->dtype != x->dtype)
        return rp_fail(r->err, RP_INVALID, "update: element types of %s and %s differ; cast one",
                       IR_TYPE(r, 0), IR_TYPE(r, 1));
    bool same_shape = to->shape.rank == x->shape.rank;
    for (uint32_t i = 0; !offsets && same_shape && i < to->shape.rank; i++)
        same_shape = ir_dim_same(r->dims, to->shape.dim[i], x->shape.dim[i]);
    if (!same_shape)
        return rp_fail(r->err, RP_INVALID,
                       "update: %s does not fill %s; broadcast it, or give offsets to write a part",
                       IR_TYPE(r, 1), IR_TYPE(r, 0));
    if (offsets) RP_TRY(fits_at(r, offsets));
    r->dtype = to->dtype;
    r->shape = to->shape;
    return RP_OK;
}

static rp_status infer_written(ir_rule *r) {
    const ir_node *memory = operand(r, 0), *by = operand(r, 1);
    if (!ir_op_is_call(by->op) || ir_writer_of(r->g, r->n->in[0]) != r->n->in[1])
        return rp_fail(r->err, RP_INVALID, "written: %s = %s is no call that writes %s",
                       ir_name_of(r->g, r->n->in[1]).s, ir_op_table(by->op)->name,
                       ir_name_of(r->g, r->n->in[0]).s);
    r->dtype = memory->dtype;
    r->shape = memory->shape;
    return RP_OK;
}

static rp_status infer_kv_store(ir_rule *r) {
    RP_TRY(want_cache(r, 0, "operand 0"));
    RP_TRY(not_empty(r));
    RP_TRY(want_type(r, 1, "x", RP_DTYPE_F32, 2));
    RP_TRY(want_type(r, 2, "slots", RP_DTYPE_I32, 1));
    const ir_shape *s = &operand(r, 0)->shape, *x = &operand(r, 1)->shape;
    if (!ir_dim_same(r->dims, x->dim[1], ir_dim_mul(r->dims, s->dim[1], s->dim[3])))
        return rp_fail(r->err, RP_INVALID,
                       "kv_store: rows of %s do not fill kv_heads x head_dim of %s", IR_TYPE(r, 1),
                       IR_TYPE(r, 0));
    if (!ir_dim_same(r->dims, x->dim[0], operand(r, 2)->shape.dim[0]))
        return rp_fail(r->err, RP_INVALID, "kv_store: %s needs one slot a row, got %s",
                       IR_TYPE(r, 1), IR_TYPE(r, 2));
    r->dtype = operand(r, 0)->dtype;
    r->shape = *s;
    return RP_OK;
}

static rp_status check_cache(const ir_rule *r, uint32_t i, int64_t kv_heads, int64_t head_dim) {
    const ir_node *k = operand(r, 1), *x = operand(r, i);
    if (!ir_dim_same(r->dims, x->shape.dim[1], ir_dim_const(r->dims, kv_heads)) ||
        !ir_dim_same(r->dims, x->shape.dim[3], ir_dim_const(r->dims, head_dim)))
        return rp_fail(r->err, RP_INVALID, "attention: cache %s is not of %lld kv heads of %lld",
                       IR_TYPE(r, i), (long long)kv_heads, (long long)head_dim);
    if (x->dtype != k->dtype || !ir_dim_same(r->dims, x->shape.dim[0], k->shape.dim[0]) ||
        !ir_dim_same(r->dims, x->shape.dim[2], k->shape.dim[2]))
        return rp_fail(r->err, RP_INVALID, "attention: caches %s and %s differ", IR_TYPE(r, 1),
                       IR_TYPE(r, 2));
    return RP_OK;
}

static rp_status infer_attention(ir_rule *r) {
    int64_t heads = ir_attr_int(r->n, IR_ATTR_HEADS, 0),
            hd = ir_attr_int(r->n, IR_ATTR_HEAD_DIM, 0);
    int64_t kv = ir_attr_int(r->n, IR_ATTR_KV_HEADS, 0);
    RP_TRY(want_type(r, 0, "q", RP_DTYPE_F32, 2));
    RP_TRY(want_cache(r, 1, "k"));
    RP_TRY(want_cache(r, 2, "v"));
    RP_TRY(want_type(r, 3, "seqs", RP_DTYPE_I32, 1));
    RP_TRY(want_type(r, 4, "positions", RP_DTYPE_I32, 1));
    RP_TRY(want_type(r, 5, "block_tables", RP_DTYPE_I32, 2));
    RP_TRY(want_type(r, 6, "out", RP_DTYPE_F32, 2));
    if (heads < 1 || kv < 1 || hd < 1 || heads > 65536 || hd > 65536 || heads % kv != 0)
        return rp_fail(r->err, RP_INVALID,
                       "attention: %lld heads of %lld over %lld kv heads do not divide",
                       (long long)heads, (long long)hd, (long long)kv);
    const ir_shape *q = &operand(r, 0)->shape, *out = &operand(r, 6)->shape;
    if (!ir_dim_same(r->dims, q->dim[1], ir_dim_const(r->dims, heads * hd)) ||
        !ir_dim_same(r->dims, out->dim[0], q->dim[0]) ||
        !ir_dim_same(r->dims, out->dim[1], q->dim[1]))
        return rp_fail(r->err, RP_INVALID, "attention: q %s and out %s must be f32[rows,%lld]",
                       IR_TYPE(r, 0), IR_TYPE(r, 6), (long long)(heads * hd));
    RP_TRY(check_cache(r, 1, kv, hd));
    RP_TRY(check_cache(r, 2, kv, hd));
    for (uint32_t i = 3; i < 5; i++)
        if (!ir_dim_same(r->dims, operand(r, i)->shape.dim[0], q->dim[0]))
            return rp_fail(r->err, RP_INVALID, "attention: %s needs one entry a row of %s",
                           IR_TYPE(r, i), IR_TYPE(r, 0));
    r->dtype = RP_DTYPE_F32;
    r->shape = *q;
    return RP_OK;
}

static rp_status infer_custom(ir_rule *r) {
    const ir_attr *name = ir_attr_get(r->n, IR_ATTR_NAME);
    const ir_attr *types = ir_attr_get(r->n, IR_ATTR_TYPES);
    const rp_op_desc *d = ir_custom_find(name->u.s); /* there: its attributes are complete */
    for (uint32_t i = r->n->n_in; i < 64; i++)
        if (d->mutates >> i & 1)
            return rp_fail(r->err, RP_INVALID, "custom: %s mutates operand %u of %u", d->name, i,
                           r->n->n_in);
    if (d->result_like >= 0) {
        if ((uint32_t)d->result_like >= r->n->n_in)
            return rp_fail(r->err, RP_INVALID, "custom: the result of %s is like operand %d of %u",
                           d->name, d->result_like, r->n->n_in);
        if (types)
            return rp_fail(r->err, RP_INVALID,
                           "custom: the result of %s is like operand %d; it takes no types",
                           d->name, d->result_like);
        const ir_node *like = operand(r, (uint32_t)d->result_like);
        r->dtype = like->dtype;
        r->shape = like->shape;
        return RP_OK;
    }
    uint32_t n = d->n_results ? d->n_results : 1;
    if (!types || types->n != n)
        return rp_fail(r->err, RP_INVALID,
                       "custom: %s has %u result%s, whose types the attribute types gives; it has "
                       "%u",
                       d->name, n, n == 1 ? "" : "s", types ? types->n : 0);
    r->dtype = types->u.types[0].dtype;
    r->shape = types->u.types[0].shape;
    for (uint32_t i = 1; i < n; i++) r->more[r->n_more++] = types->u.types[i];
    return RP_OK;
}

rp_status ir_infer_effect(ir_rule *r) {
    switch (r->n->op) {
    case IR_update: return infer_update(r);
    case IR_written: return infer_written(r);
    case IR_kv_store: return infer_kv_store(r);
    case IR_attention: return infer_attention(r);
    case IR_call:
    case IR_cond:
    case IR_while:
    case IR_scan: return ir_infer_graphs(r);
    default: return infer_custom(r);
    }
}
