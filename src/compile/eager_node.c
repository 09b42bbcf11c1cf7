/* What each kind of node becomes; products: eager_product.c. In which order sums are taken, the kernels decide. */
#include <string.h>

#include "compile/eager.h"
#include "gen/builtin.h"
#include "ir/custom.h"
#include "ir/eval.h"

/* Memory of its own for every result of r, also for those that nothing names. */
static rp_status results(eager *e, ir_ref r, lower_ref *out) {
    const ir_node *n = eager_at(e, r);
    RP_TRY(eager_result(e, r));
    out[0] = e->view[r].at;
    for (uint32_t i = 1; i <= n->n_more; i++) {
        ir_node type = lower_result_type(n, i);
        ir_ref named = ir_result_of(e->g, r, i);
        RP_TRY(eager_temp(e, &type, &out[i]));
        if (named != IR_NONE) lower_view_dense(e->dims, out[i], &type, &e->view[named]);
    }
    return RP_OK;
}

/* --- leaves ---------------------------------------------------------------------- */

static rp_status const_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    double v = ir_attr_float(n, IR_ATTR_VALUE, 0.0);
    int64_t whole = n->dtype == RP_DTYPE_I64 ? (int64_t)v : 0;
    uint8_t bytes[8] = {0};
    lower_ref at;
    if (n->dtype == RP_DTYPE_I64)
        memcpy(bytes, &whole, sizeof whole);
    else
        ir_pack(n->dtype, &v, 1, bytes);
    RP_TRY(eager_const(e, bytes, (uint32_t)rp_dtype_block_bytes(n->dtype), &at));
    lower_view_dense(e->dims, at, n, &e->view[r]);
    return RP_OK;
}

static rp_status iota_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    RP_TRY(eager_result(e, r));
    lower_view count = {.at = e->view[r].at, .dtype = RP_DTYPE_I32, .offset = eager_number(e, 0)};
    for (uint32_t i = 0; i < n->shape.rank; i++)
        count.stride[i] = eager_number(e, i == ir_attr_int(n, IR_ATTR_AXIS, 0));
    eager_launch l = eager_begin(e, "iota", &n->shape);
    eager_operand(&l, &count);
    eager_operand(&l, &e->view[r]);
    return eager_add(e, &l);
}

/* The position of the one element of an iota. */
static rp_status size_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    ir_dim d = ir_attr_get(n, IR_ATTR_SIZE)->u.dim;
    RP_TRY(eager_result(e, r));
    lower_view count = {.at = e->view[r].at, .dtype = RP_DTYPE_I32, .offset = d};
    eager_launch l = eager_begin(e, "iota", &n->shape);
    eager_operand(&l, &count);
    eager_operand(&l, &e->view[r]);
    return eager_add(e, &l);
}

/* --- pure nodes --------------------------------------------------------------------- */

static bool view_of(eager *e, const ir_node *n, lower_view *out) {
    return lower_view_of(e->dims, n, &eager_at(e, n->in[0])->shape, &e->view[n->in[0]], out);
}

static rp_status view_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r), *x = eager_at(e, n->in[0]);
    if (view_of(e, n, &e->view[r])) return RP_OK;
    /* Dense memory has the strides that the view asks for. */
    RP_TRY(eager_copy_value(e, x, &e->view[n->in[0]], &e->view[n->in[0]]));
    if (view_of(e, n, &e->view[r])) return RP_OK;
    if (ir_dims_exhausted(e->dims))
        return rp_fail(e->err, RP_NOMEM, "strides of %s", ir_op_table(n->op)->name);
    return rp_fail(e->err, RP_UNSUPPORTED,
                   "%s has a stride that overflows; give its sizes smaller bounds",
                   ir_op_table(n->op)->name);
}

static rp_status elementwise_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    RP_TRY(eager_result(e, r));
    eager_launch l = eager_begin(e, ir_op_table(n->op)->name, &n->shape);
    l.op = n->op;
    for (uint32_t i = 0; i < n->n_in; i++) {
        lower_view v;
        lower_view_broadcast(e->dims, &e->view[n->in[i]], &eager_at(e, n->in[i])->shape, &n->shape,
                             &v);
        eager_operand(&l, &v);
    }
    eager_operand(&l, &e->view[r]);
    return eager_add(e, &l);
}

static rp_status reduce_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r), *x = eager_at(e, n->in[0]);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0), at = 0;
    bool keep = ir_attr_int(n, IR_ATTR_KEEP, 0) != 0;
    lower_view v = e->view[n->in[0]];
    ir_dim step = v.stride[axis];
    RP_TRY(eager_result(e, r));
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        if (i != axis)
            v.stride[at++] = v.stride[i];
        else if (keep)
            v.stride[at++] = eager_number(e, 0);
    }
    eager_launch l = eager_begin(e, ir_op_table(n->op)->name, &n->shape);
    eager_operand(&l, &v);
    eager_operand(&l, &e->view[r]);
    eager_own(&l, x->shape.dim[axis]);
    eager_own(&l, step);
    return eager_add(e, &l);
}

static rp_status concat_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
    RP_TRY(eager_result(e, r));
    lower_view part = e->view[r];
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *x = eager_at(e, n->in[i]);
        RP_TRY(eager_copy_to(e, x, &e->view[n->in[i]], &part));
        part.offset = ir_dim_add(e->dims, part.offset,
                                 ir_dim_mul(e->dims, part.stride[axis], x->shape.dim[axis]));
    }
    return RP_OK;
}

/* Tables of a block format give rows as they are: the last dim then counts blocks. */
static rp_status blocks_of(const eager *e, const ir_node *n, eager_launch *l) {
    int64_t block = (int64_t)rp_dtype_block(n->dtype);
    const lower_view *table = &l->operand[0];
    l->unit = (uint32_t)rp_dtype_block_bytes(n->dtype);
    if (!rp_dtype_is_quant(n->dtype)) return RP_OK;
    int64_t k = 0, step = 0;
    uint32_t last = l->rank - 1;
    bool ok = ir_dim_is_const(e->dims, l->dim[last], &k) &&
              ir_dim_is_const(e->dims, table->stride[last], &step) && step == 1;
    if (n->dtype == RP_DTYPE_I16B32) {
        ok = ok && table->row == k;
        block = k;
        l->unit = (uint32_t)(k / 32 * 72);
    }
    for (uint32_t i = 0; i < l->n_operands; i++) {
        lower_view *v = &l->operand[i];
        if (i == 1) continue; /* the index */
        for (uint32_t d = 0; d < last; d++) {
            ok = ok && ir_dim_divisible(e->dims, v->stride[d], block) == IR_TRUE;
            v->stride[d] = ir_dim_floordiv(e->dims, v->stride[d], block);
        }
        ok = ok && ir_dim_divisible(e->dims, v->offset, block) == IR_TRUE;
        v->offset = ir_dim_floordiv(e->dims, v->offset, block);
    }
    ok = ok && ir_dim_divisible(e->dims, l->own[1], block) == IR_TRUE;
    l->own[1] = ir_dim_floordiv(e->dims, l->own[1], block);
    l->dim[last] = eager_number(e, block ? k / block : 0);
    l->rows = l->items = l->dim[0]; /* of rank 1: blocks */
    if (ok) return RP_OK;
    return rp_fail(e->err, RP_UNSUPPORTED,
                   "gather from a part of %s blocks; dequantize the table first",
                   rp_dtype_name(n->dtype));
}

static rp_status gather_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r), *table = eager_at(e, n->in[0]),
                  *index = eager_at(e, n->in[1]);
    uint32_t lead = index->shape.rank;
    lower_view t = e->view[n->in[0]], x = e->view[n->in[1]];
    ir_dim step = t.stride[0];
    RP_TRY(eager_result(e, r));
    for (uint32_t i = n->shape.rank; i-- > 0;) {
        t.stride[i] = i < lead ? eager_number(e, 0) : e->view[n->in[0]].stride[i - lead + 1];
        x.stride[i] = i < lead ? x.stride[i] : eager_number(e, 0);
    }
    eager_launch l = eager_begin(e, "gather", &n->shape);
    eager_operand(&l, &t);
    eager_operand(&l, &x);
    eager_operand(&l, &e->view[r]);
    eager_own(&l, table->shape.dim[0]);
    eager_own(&l, step);
    if (t.dtype == n->dtype) RP_TRY(blocks_of(e, n, &l));
    return eager_add(e, &l);
}

/* A byte an element of the space: of what is not packed the first of each two, and how far the second is. */
static rp_status i4_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r), *x = eager_at(e, n->in[0]);
    const bool packs = n->op == IR_pack_i4;
    const uint32_t last = n->shape.rank - 1;
    RP_TRY(eager_result(e, r));
    lower_view from = e->view[n->in[0]], to = e->view[r], *wide = packs ? &from : &to;
    const ir_dim apart = wide->stride[last];
    wide->stride[last] = ir_dim_mul_const(e->dims, apart, 2);
    eager_launch l = eager_begin(e, ir_op_table(n->op)->name, packs ? &n->shape : &x->shape);
    eager_operand(&l, &from);
    eager_operand(&l, &to);
    if (packs) eager_own(&l, apart);
    return eager_add(e, &l);
}

static rp_status quantize_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    int64_t k = 0;
    ir_shape rows = n->shape;
    rows.rank--;
    if (n->dtype != RP_DTYPE_I16B32 || !ir_dim_is_const(e->dims, n->shape.dim[rows.rank], &k) ||
        k % 32)
        return rp_fail(e->err, RP_UNSUPPORTED,
                       "quantize to %s of a last dim that is no known multiple of 32",
                       rp_dtype_name(n->dtype));
    RP_TRY(eager_result(e, r));
    lower_view to = e->view[r];
    for (uint32_t i = 0; k && i < rows.rank; i++)
        to.stride[i] = ir_dim_floordiv(e->dims, to.stride[i], k);
    eager_launch l = eager_begin(e, "quantize", &rows);
    eager_operand(&l, &e->view[n->in[0]]);
    eager_operand(&l, &to);
    eager_own(&l, eager_number(e, k));
    eager_own(&l, e->view[n->in[0]].stride[rows.rank]);
    return eager_add(e, &l);
}

/* --- effects ----------------------------------------------------------------------------- */

/* A version is where the one before was. */
static void next_version(eager *e, ir_ref r, uint32_t operand) {
    e->view[r] = e->view[eager_at(e, r)->in[operand]];
}

static rp_status update_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    const ir_attr *offsets = ir_attr_get(n, IR_ATTR_OFFSETS);
    next_version(e, r, 0);
    lower_view part = e->view[r];
    for (uint32_t i = 0; offsets && i < n->shape.rank; i++)
        part.offset = ir_dim_add(e->dims, part.offset,
                                 ir_dim_mul(e->dims, part.stride[i], offsets->u.dims[i]));
    return eager_copy_to(e, eager_at(e, n->in[1]), &e->view[n->in[1]], &part);
}

static rp_status kv_store_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r), *state = eager_at(e, n->in[0]), *x = eager_at(e, n->in[1]);
    ir_shape rows = {.rank = 1, .dim = {x->shape.dim[0]}};
    next_version(e, r, 0);
    lower_view cache = e->view[n->in[0]];
    cache.stride[0] = eager_number(e, 0);
    eager_launch l = eager_begin(e, "kv_store", &rows);
    eager_operand(&l, &e->view[n->in[1]]);
    eager_operand(&l, &e->view[n->in[2]]);
    eager_operand(&l, &cache);
    eager_own(&l, e->view[n->in[1]].stride[1]);
    for (uint32_t i = 1; i < 4; i++) eager_own(&l, state->shape.dim[i]);
    return eager_add(e, &l);
}

static rp_status attention_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    gen_attention_record rec;
    lower_piece *o = e->out;
    lower_ref *args = base_arena_array(o->arena, 8, sizeof *args);
    if (!args) return rp_fail(e->err, RP_NOMEM, "attention");
    RP_TRY(lower_attention_record(e->g, n, o->dims, &rec, e->err));
    for (uint32_t i = 0; i < 7; i++) RP_TRY(eager_dense(e, n->in[i], &args[i]));
    RP_TRY(eager_const(e, &rec, sizeof rec, &args[7]));
    lower_launch *l = eager_next_launch(e);
    if (!l) return RP_NOMEM;
    *l = (lower_launch){
        .name = "attention", .n_alts = 1, .grain = 1, .args = args, .n_args = 8, .attention = true};
    l->alts[0] = (lower_alt){.max = INT64_MAX,
                             .symbol = gen_attention_name(e->opt->isa),
                             .scratch = gen_attention_scratch(&rec)};
    l->rows = ir_dim_import(o->dims, e->dims, n->shape.dim[0]);
    l->items = gen_attention_items(o->dims, l->rows, &rec);
    lower_node_access(n, l->args, l->n_args, 1);
    next_version(e, r, 6);
    return RP_OK;
}

static rp_status scan_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    gen_axis_record rec;
    lower_piece *o = e->out;
    bool works = n->op == IR_sort;
    uint32_t n_args = n->n_more + 3 + works;
    lower_ref *args = base_arena_array(o->arena, n_args, sizeof *args);
    if (!args) return rp_fail(e->err, RP_NOMEM, "%s", ir_op_table(n->op)->name);
    RP_TRY(lower_axis_record(e->g, n, o->dims, &rec, e->err));
    RP_TRY(eager_dense(e, n->in[0], &args[0]));
    RP_TRY(results(e, r, &args[1]));
    ir_dim work = lower_axis_work(e->dims, n, eager_at(e, n->in[0]));
    if (works) RP_TRY(eager_temp_of(e, n, work, &args[n_args - 2]));
    RP_TRY(eager_const(e, &rec, sizeof rec, &args[n_args - 1]));
    lower_launch *l = eager_next_launch(e);
    if (!l) return RP_NOMEM;
    lower_axis_launch(e->g, n, o->dims, &rec, l);
    l->args = args;
    l->n_args = n_args;
    lower_node_access(n, l->args, l->n_args, 1);
    return RP_OK;
}

static rp_status scatter_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    gen_scatter_record rec;
    lower_ref *args = base_arena_array(e->out->arena, 5, sizeof *args);
    if (!args) return rp_fail(e->err, RP_NOMEM, "%s", ir_op_table(n->op)->name);
    RP_TRY(lower_scatter_record(e->g, n, e->out->dims, &rec, e->err));
    for (uint32_t i = 0; i < 3; i++) RP_TRY(eager_dense(e, n->in[i], &args[i]));
    RP_TRY(results(e, r, &args[3]));
    RP_TRY(eager_const(e, &rec, sizeof rec, &args[4]));
    lower_launch *l = eager_next_launch(e);
    if (!l) return RP_NOMEM;
    lower_scatter_launch(e->g, n, e->out->dims, l);
    l->args = args;
    l->n_args = 5;
    lower_node_access(n, l->args, l->n_args, 1);
    return RP_OK;
}

static rp_status custom_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    const char *name = ir_attr_get(n, IR_ATTR_NAME)->u.s;
    const rp_op_desc *d = ir_custom_find(name);
    if (d && !d->cpu && d->c_source)
        return rp_fail(e->err, RP_UNSUPPORTED,
                       "custom op %s is C source, and no code is generated here; use level=2 with "
                       "the backend inductor, or give it a function for cpu, too",
                       name);
    if (!d || !d->cpu)
        return rp_fail(e->err, RP_UNSUPPORTED, "custom op %s %s; register it with rp_op_register",
                       name, d ? "has no implementation for cpu" : "is not registered");
    lower_piece *o = e->out;
    uint32_t n_args = n->n_in + 1 + n->n_more;
    lower_ref *args = base_arena_array(o->arena, n_args, sizeof *args);
    name = base_arena_str(o->arena, name);
    const char *attrs = lower_custom_attrs(n, o->arena);
    if (!args || !name || !attrs) return rp_fail(e->err, RP_NOMEM, "custom op");
    for (uint32_t i = 0; i < n->n_in; i++) RP_TRY(eager_dense(e, n->in[i], &args[i]));
    RP_TRY(results(e, r, &args[n->n_in]));
    lower_launch *l = eager_next_launch(e);
    if (!l) return RP_NOMEM;
    *l = (lower_launch){
        .name = name, .custom = name, .attrs = attrs, .grain = 1, .args = args, .n_args = n_args};
    RP_TRY(lower_operand_types(e->g, r, o, &l->operands, e->err));
    l->rows = l->items = ir_dim_const(o->dims, 1);
    lower_node_access(n, l->args, l->n_args, 0);
    return RP_OK;
}

/* call, cond, while, scan: plans of their graphs. */
static rp_status graphs_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    lower_ref args[LOWER_MAX_CONTROL_ARGS];
    lower_launch own;
    uint32_t n_args = n->n_in + n->n_more + 1;
    RP_TRY(lower_control_launch(e->g, r, e->out, &own, e->err));
    for (uint32_t i = 0; i < n->n_in; i++) {
        lower_view copy;
        if (!lower_carries_given(e->g, n, i)) {
            RP_TRY(eager_dense(e, n->in[i], &args[i]));
            continue;
        }
        RP_TRY(eager_copy_value(e, eager_at(e, n->in[i]), &e->view[n->in[i]], &copy));
        args[i] = copy.at;
    }
    RP_TRY(results(e, r, &args[n->n_in]));
    for (uint32_t i = 0; i < lower_carried(n); i++) {
        ir_node type = lower_result_type(n, i);
        RP_TRY(eager_temp(e, &type, &args[n_args++]));
    }
    if (n->op == IR_while) RP_TRY(eager_temp_of(e, n, eager_number(e, 1), &args[n_args++]));
    own.args = base_arena_array(e->out->arena, n_args, sizeof *own.args);
    lower_launch *l = own.args ? eager_next_launch(e) : NULL;
    if (!l) return rp_fail(e->err, RP_NOMEM, "launch of %s", own.name);
    memcpy(own.args, args, n_args * sizeof *args);
    own.n_args = n_args;
    *l = own;
    lower_node_access(n, l->args, l->n_args, 0);
    return RP_OK;
}

/* --- dispatch ------------------------------------------------------------------------------ */

static rp_status leaf_node(eager *e, ir_ref r) {
    switch (eager_at(e, r)->op) {
    case IR_const: return const_node(e, r);
    case IR_iota: return iota_node(e, r);
    case IR_size: return size_node(e, r);
    case IR_empty: return eager_result(e, r);
    default: return RP_OK; /* placed before */
    }
}

rp_status eager_node(eager *e, ir_ref r) {
    const ir_node *n = eager_at(e, r);
    ir_kind kind = ir_op_table(n->op)->kind;
    switch (kind) {
    case IR_KIND_LEAF: return leaf_node(e, r);
    case IR_KIND_VIEW: /* results have been placed by what gives them */
        return n->op == IR_result ? RP_OK : view_node(e, r);
    case IR_KIND_ELEMENTWISE: return elementwise_node(e, r);
    case IR_KIND_REDUCE: return reduce_node(e, r);
    case IR_KIND_SCAN: return scan_node(e, r);
    case IR_KIND_SCATTER: return scatter_node(e, r);
    case IR_KIND_MOVE:
        if (n->op == IR_pack_i4 || n->op == IR_unpack_i4) return i4_node(e, r);
        return n->op == IR_concat   ? concat_node(e, r)
               : n->op == IR_gather ? gather_node(e, r)
                                    : eager_copy_value(e, n, &e->view[n->in[0]], &e->view[r]);
    case IR_KIND_CONTRACT: return eager_product(e, r);
    case IR_KIND_QUANT: return n->op == IR_dequant ? view_node(e, r) : quantize_node(e, r);
    case IR_KIND_EFFECT: break;
    }
    if (ir_op_has_graphs(n->op)) return graphs_node(e, r);
    return n->op == IR_update      ? update_node(e, r)
           : n->op == IR_kv_store  ? kv_store_node(e, r)
           : n->op == IR_attention ? attention_node(e, r)
                                   : custom_node(e, r);
}
