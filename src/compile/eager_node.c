/* What each kind of node becomes. Numbers are decided where compiled code decides them: which products run
 * with packed weights (pass/product.h), in which order sums are taken (the kernels). */
#include <string.h>

#include "compile/eager.h"
#include "compile/portable/kernels.h"
#include "gen/builtin.h"
#include "gen/pack.h"
#include "ir/custom.h"
#include "ir/eval.h"
#include "lower/product.h"
#include "pass/product.h"

static const ir_node *node(const eager *e, ir_ref r) {
    return ir_node_at(e->g, r);
}

static ir_dim number(const eager *e, int64_t v) {
    return ir_dim_const(e->dims, v);
}

/* Memory of its own for the result of r, which every kernel writes densely. */
static rp_status result(eager *e, ir_ref r) {
    lower_ref at;
    RP_TRY(eager_temp(e, node(e, r), &at));
    lower_view_dense(e->dims, at, node(e, r), &e->view[r]);
    return RP_OK;
}

/* Memory of its own for every result of r, also for those that nothing names. */
static rp_status results(eager *e, ir_ref r, lower_ref *out) {
    const ir_node *n = node(e, r);
    RP_TRY(result(e, r));
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
    const ir_node *n = node(e, r);
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
    const ir_node *n = node(e, r);
    RP_TRY(result(e, r));
    lower_view count = {.at = e->view[r].at, .dtype = RP_DTYPE_I32, .offset = number(e, 0)};
    for (uint32_t i = 0; i < n->shape.rank; i++)
        count.stride[i] = number(e, i == ir_attr_int(n, IR_ATTR_AXIS, 0));
    eager_launch l = eager_begin(e, "iota", &n->shape);
    eager_operand(&l, &count);
    eager_operand(&l, &e->view[r]);
    return eager_add(e, &l);
}

/* The position of the one element of an iota. */
static rp_status size_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
    ir_dim d = ir_attr_get(n, IR_ATTR_SIZE)->u.dim;
    RP_TRY(result(e, r));
    lower_view count = {.at = e->view[r].at, .dtype = RP_DTYPE_I32, .offset = d};
    eager_launch l = eager_begin(e, "iota", &n->shape);
    eager_operand(&l, &count);
    eager_operand(&l, &e->view[r]);
    return eager_add(e, &l);
}

/* --- pure nodes --------------------------------------------------------------------- */

static bool view_of(eager *e, const ir_node *n, lower_view *out) {
    return lower_view_of(e->dims, n, &node(e, n->in[0])->shape, &e->view[n->in[0]], out);
}

static rp_status view_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r), *x = node(e, n->in[0]);
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
    const ir_node *n = node(e, r);
    RP_TRY(result(e, r));
    eager_launch l = eager_begin(e, ir_op_table(n->op)->name, &n->shape);
    l.op = n->op;
    for (uint32_t i = 0; i < n->n_in; i++) {
        lower_view v;
        lower_view_broadcast(e->dims, &e->view[n->in[i]], &node(e, n->in[i])->shape, &n->shape, &v);
        eager_operand(&l, &v);
    }
    eager_operand(&l, &e->view[r]);
    return eager_add(e, &l);
}

static rp_status reduce_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r), *x = node(e, n->in[0]);
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0), at = 0;
    bool keep = ir_attr_int(n, IR_ATTR_KEEP, 0) != 0;
    lower_view v = e->view[n->in[0]];
    ir_dim step = v.stride[axis];
    RP_TRY(result(e, r));
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        if (i != axis)
            v.stride[at++] = v.stride[i];
        else if (keep)
            v.stride[at++] = number(e, 0);
    }
    eager_launch l = eager_begin(e, ir_op_table(n->op)->name, &n->shape);
    eager_operand(&l, &v);
    eager_operand(&l, &e->view[r]);
    eager_own(&l, x->shape.dim[axis]);
    eager_own(&l, step);
    return eager_add(e, &l);
}

static rp_status concat_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
    RP_TRY(result(e, r));
    lower_view part = e->view[r];
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *x = node(e, n->in[i]);
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
    l->dim[last] = number(e, block ? k / block : 0);
    l->rows = l->items = l->dim[0]; /* of rank 1: blocks */
    if (ok) return RP_OK;
    return rp_fail(e->err, RP_UNSUPPORTED,
                   "gather from a part of %s blocks; dequantize the table first",
                   rp_dtype_name(n->dtype));
}

static rp_status gather_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r), *table = node(e, n->in[0]), *index = node(e, n->in[1]);
    uint32_t lead = index->shape.rank;
    lower_view t = e->view[n->in[0]], x = e->view[n->in[1]];
    ir_dim step = t.stride[0];
    RP_TRY(result(e, r));
    for (uint32_t i = n->shape.rank; i-- > 0;) {
        t.stride[i] = i < lead ? number(e, 0) : e->view[n->in[0]].stride[i - lead + 1];
        x.stride[i] = i < lead ? x.stride[i] : number(e, 0);
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

static rp_status quantize_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
    int64_t k = 0;
    ir_shape rows = n->shape;
    rows.rank--;
    if (n->dtype != RP_DTYPE_I16B32 || !ir_dim_is_const(e->dims, n->shape.dim[rows.rank], &k) ||
        k % 32)
        return rp_fail(e->err, RP_UNSUPPORTED,
                       "quantize to %s of a last dim that is no known multiple of 32",
                       rp_dtype_name(n->dtype));
    RP_TRY(result(e, r));
    lower_view to = e->view[r];
    for (uint32_t i = 0; k && i < rows.rank; i++)
        to.stride[i] = ir_dim_floordiv(e->dims, to.stride[i], k);
    eager_launch l = eager_begin(e, "quantize", &rows);
    eager_operand(&l, &e->view[n->in[0]]);
    eager_operand(&l, &to);
    eager_own(&l, number(e, k));
    eager_own(&l, e->view[n->in[0]].stride[rows.rank]);
    return eager_add(e, &l);
}

/* --- products --------------------------------------------------------------------------- */

static rp_status add_pack(eager *e, const pass_weights *w, lower_ref *out) {
    lower_pack *p = &e->out->packs[e->out->n_packs];
    *p = (lower_pack){.dtype = w->dtype, .k = w->k, .n_sections = 1};
    p->sections = base_arena_array(e->out->arena, 1, sizeof *p->sections);
    if (!p->sections) return rp_fail(e->err, RP_NOMEM, "packed weights");
    *p->sections = (lower_section){.n_params = 1, .rows = w->n, .by_k = w->by_k};
    while (ir_leaf_at(e->g, IR_LEAF_PARAM, p->sections->params[0]) != w->param)
        p->sections->params[0]++;
    *out = (lower_ref){LOWER_PACK, e->out->n_packs++};
    return RP_OK;
}

/* Kernels exist for the sets that templates exist for; a larger one runs the largest of them. */
static const char *packed_suffix(gen_isa isa) {
#if defined(__x86_64__)
    return isa == GEN_ISA_PORTABLE ? "" : isa == GEN_ISA_AVX2 ? "_avx2" : "_avx512";
#else
    (void)isa;
    return "";
#endif
}

/* i16b32 rows, which lie one behind the other, times packed weights. */
static rp_status packed_node(eager *e, ir_ref r, const pass_weights *w) {
    const ir_node *n = node(e, r);
    lower_view x = e->view[n->in[0]], y;
    lower_ref pack;
    ir_shape rows = {.rank = 1, .dim = {number(e, 1)}};
    for (uint32_t i = 0; i + 1 < n->shape.rank; i++)
        rows.dim[0] = ir_dim_mul(e->dims, rows.dim[0], n->shape.dim[i]);
    const char *name = base_arena_printf(e->out->arena, "matmul_packed_%s%s",
                                         rp_dtype_name(w->dtype), packed_suffix(e->opt->isa));
    if (!name) return rp_fail(e->err, RP_NOMEM, "kernel name");
    RP_TRY(result(e, r));
    RP_TRY(add_pack(e, w, &pack));
    y = e->view[r];
    x.stride[0] = number(e, w->k);
    y.stride[0] = number(e, w->n);
    eager_launch l = eager_begin(e, name, &rows);
    eager_operand(&l, &x);
    eager_operand(&l, &y);
    l.arg[l.n_args++] = pack;
    eager_own(&l, number(e, w->k));
    eager_own(&l, number(e, w->n));
    l.items = number(e, (w->n + LOWER_COLUMNS - 1) / LOWER_COLUMNS);
    l.scratch = portable_packed_scratch(w->k);
    return eager_add(e, &l);
}

/* An operand as float memory: values of block formats are copied. */
static rp_status float_operand(eager *e, ir_ref r, lower_view *out) {
    *out = e->view[r];
    return rp_dtype_is_quant(out->dtype) ? eager_copy_value(e, node(e, r), &e->view[r], out)
                                         : RP_OK;
}

/* The strides of one side of product p over batches, rows and columns. */
static lower_view side_view(const eager *e, const lower_product *p, const lower_side *s,
                            const lower_view *v, uint32_t along) {
    lower_view out = *v;
    out.offset = s->offset;
    for (uint32_t i = 0; i < p->n_batch; i++) out.stride[i] = s->batch[i];
    for (uint32_t i = 0; i < 2; i++)
        out.stride[p->n_batch + i] = i == along ? s->step : number(e, 0);
    return out;
}

static rp_status product_node(eager *e, ir_ref r, const pass_weights *w) {
    const ir_node *n = node(e, r), *a = node(e, n->in[0]), *b = node(e, n->in[1]);
    lower_view va, vb, v;
    lower_product p;
    lower_ref pack = {LOWER_PACK, 0};
    RP_TRY(float_operand(e, n->in[0], &va));
    if (!w) RP_TRY(float_operand(e, n->in[1], &vb));
    lower_product_of(e->dims, n, a, &va, b, w ? NULL : &vb, &p);
    const char *name = base_arena_printf(e->out->arena, "matmul%s%s%s", w ? "_" : "",
                                         w ? rp_dtype_name(w->dtype) : "",
                                         packed_suffix(e->opt->isa));
    if (!name) return rp_fail(e->err, RP_NOMEM, "kernel name");
    RP_TRY(result(e, r));
    if (w) RP_TRY(add_pack(e, w, &pack));
    ir_shape space = {.rank = p.n_batch + 2};
    for (uint32_t i = 0; i < p.n_batch; i++) space.dim[i] = p.batch[i];
    space.dim[p.n_batch] = p.rows;
    space.dim[p.n_batch + 1] = p.columns;
    eager_launch l = eager_begin(e, name, &space);
    v = side_view(e, &p, &p.x, &va, 0);
    eager_operand(&l, &v);
    if (!w) v = side_view(e, &p, &p.w, &vb, 1);
    if (!w) eager_operand(&l, &v);
    ir_node whole = {.dtype = n->dtype, .shape = space};
    lower_view_dense(e->dims, e->view[r].at, &whole, &v);
    eager_operand(&l, &v);
    if (w) l.arg[l.n_args++] = pack;
    eager_own(&l, p.k);
    eager_own(&l, p.x.k_step);
    eager_own(&l, number(e, p.block));
    eager_own(&l, p.w.k_step);
    ir_dim columns = ir_dim_floordiv(
        e->dims, ir_dim_add(e->dims, p.columns, number(e, LOWER_COLUMNS - 1)), LOWER_COLUMNS);
    l.items = lower_product_items(e->dims, &p, columns);
    l.scratch = LOWER_PRODUCT_SCRATCH;
    return eager_add(e, &l);
}

static rp_status matmul_node(eager *e, ir_ref r) {
    pass_weights w;
    bool packed = pass_product_weights(e->g, r, &w);
    if (pass_is_packed_matmul(e->g, r)) return packed_node(e, r, &w);
    return product_node(e, r, packed ? &w : NULL);
}

/* --- effects ----------------------------------------------------------------------------- */

/* A version is where the one before was. */
static void next_version(eager *e, ir_ref r, uint32_t operand) {
    e->view[r] = e->view[node(e, r)->in[operand]];
}

static rp_status update_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
    const ir_attr *offsets = ir_attr_get(n, IR_ATTR_OFFSETS);
    next_version(e, r, 0);
    lower_view part = e->view[r];
    for (uint32_t i = 0; offsets && i < n->shape.rank; i++)
        part.offset = ir_dim_add(e->dims, part.offset,
                                 ir_dim_mul(e->dims, part.stride[i], offsets->u.dims[i]));
    return eager_copy_to(e, node(e, n->in[1]), &e->view[n->in[1]], &part);
}

static rp_status kv_store_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r), *state = node(e, n->in[0]), *x = node(e, n->in[1]);
    ir_shape rows = {.rank = 1, .dim = {x->shape.dim[0]}};
    next_version(e, r, 0);
    lower_view cache = e->view[n->in[0]];
    cache.stride[0] = number(e, 0);
    eager_launch l = eager_begin(e, "kv_store", &rows);
    eager_operand(&l, &e->view[n->in[1]]);
    eager_operand(&l, &e->view[n->in[2]]);
    eager_operand(&l, &cache);
    eager_own(&l, e->view[n->in[1]].stride[1]);
    for (uint32_t i = 1; i < 4; i++) eager_own(&l, state->shape.dim[i]);
    return eager_add(e, &l);
}

static rp_status attention_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
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
    next_version(e, r, 6);
    return RP_OK;
}

static rp_status scan_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
    gen_axis_record rec;
    lower_piece *o = e->out;
    bool works = n->op == IR_sort;
    uint32_t n_args = n->n_more + 3 + works;
    lower_ref *args = base_arena_array(o->arena, n_args, sizeof *args);
    if (!args) return rp_fail(e->err, RP_NOMEM, "%s", ir_op_table(n->op)->name);
    RP_TRY(lower_axis_record(e->g, n, o->dims, &rec, e->err));
    RP_TRY(eager_dense(e, n->in[0], &args[0]));
    RP_TRY(results(e, r, &args[1]));
    ir_dim work = lower_axis_work(e->dims, n, node(e, n->in[0]));
    if (works) RP_TRY(eager_temp_of(e, n, work, &args[n_args - 2]));
    RP_TRY(eager_const(e, &rec, sizeof rec, &args[n_args - 1]));
    lower_launch *l = eager_next_launch(e);
    if (!l) return RP_NOMEM;
    lower_axis_launch(e->g, n, o->dims, &rec, l);
    l->args = args;
    l->n_args = n_args;
    return RP_OK;
}

static rp_status scatter_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
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
    return RP_OK;
}

static rp_status custom_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
    const char *name = ir_attr_get(n, IR_ATTR_NAME)->u.s;
    const rp_op_desc *d = ir_custom_find(name);
    if (!d || !d->cpu)
        return rp_fail(e->err, RP_UNSUPPORTED, "custom op %s %s; register it with rp_op_register",
                       name, d ? "has no implementation for cpu" : "is not registered");
    lower_piece *o = e->out;
    uint32_t n_args = n->n_in + 1 + n->n_more;
    lower_ref *args = base_arena_array(o->arena, n_args, sizeof *args);
    name = base_arena_str(o->arena, name);
    if (!args || !name) return rp_fail(e->err, RP_NOMEM, "custom op");
    for (uint32_t i = 0; i < n->n_in; i++) RP_TRY(eager_dense(e, n->in[i], &args[i]));
    RP_TRY(results(e, r, &args[n->n_in]));
    lower_launch *l = eager_next_launch(e);
    if (!l) return RP_NOMEM;
    *l = (lower_launch){.name = name, .custom = name, .grain = 1, .args = args, .n_args = n_args};
    RP_TRY(lower_operand_types(e->g, r, o, &l->operands, e->err));
    l->rows = l->items = ir_dim_const(o->dims, 1);
    return RP_OK;
}

/* call, cond, while, scan: plans of their graphs. */
static rp_status graphs_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
    lower_ref args[LOWER_MAX_CONTROL_ARGS];
    lower_launch own;
    uint32_t n_args = n->n_in + n->n_more + 1;
    RP_TRY(lower_control_launch(e->g, r, e->out, &own, e->err));
    for (uint32_t i = 0; i < n->n_in; i++) RP_TRY(eager_dense(e, n->in[i], &args[i]));
    RP_TRY(results(e, r, &args[n->n_in]));
    for (uint32_t i = 0; i < lower_carried(n); i++) {
        ir_node type = lower_result_type(n, i);
        RP_TRY(eager_temp(e, &type, &args[n_args++]));
    }
    if (n->op == IR_while) RP_TRY(eager_temp_of(e, n, number(e, 1), &args[n_args++]));
    own.args = base_arena_array(e->out->arena, n_args, sizeof *own.args);
    lower_launch *l = own.args ? eager_next_launch(e) : NULL;
    if (!l) return rp_fail(e->err, RP_NOMEM, "launch of %s", own.name);
    memcpy(own.args, args, n_args * sizeof *args);
    own.n_args = n_args;
    *l = own;
    return RP_OK;
}

/* --- dispatch ------------------------------------------------------------------------------ */

static rp_status leaf_node(eager *e, ir_ref r) {
    switch (node(e, r)->op) {
    case IR_const: return const_node(e, r);
    case IR_iota: return iota_node(e, r);
    case IR_size: return size_node(e, r);
    case IR_empty: return result(e, r);
    default: return RP_OK; /* placed before */
    }
}

rp_status eager_node(eager *e, ir_ref r) {
    const ir_node *n = node(e, r);
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
        return n->op == IR_concat   ? concat_node(e, r)
               : n->op == IR_gather ? gather_node(e, r)
                                    : eager_copy_value(e, n, &e->view[n->in[0]], &e->view[r]);
    case IR_KIND_CONTRACT: return matmul_node(e, r);
    case IR_KIND_QUANT: return n->op == IR_dequant ? view_node(e, r) : quantize_node(e, r);
    case IR_KIND_EFFECT: break;
    }
    if (ir_op_has_graphs(n->op)) return graphs_node(e, r);
    return n->op == IR_update      ? update_node(e, r)
           : n->op == IR_kv_store  ? kv_store_node(e, r)
           : n->op == IR_attention ? attention_node(e, r)
                                   : custom_node(e, r);
}
