/* Launches of the eager backend: memory, records, copies.
 *
 * Arrays of the piece grow by doubling; old ones die with its arena. */
#include <string.h>

#include "compile/eager.h"

static rp_status grow(eager *e, void *list, uint32_t n, uint32_t *cap, size_t size) {
    void *old, *bigger;
    if (n < *cap) return RP_OK;
    uint32_t more = *cap ? *cap * 2 : 16;
    bigger = base_arena_array(e->out->arena, more, size);
    if (!bigger) return rp_fail(e->err, RP_NOMEM, "lowering");
    memcpy(&old, list, sizeof old);
    if (n) memcpy(bigger, old, n * size);
    memcpy(list, &bigger, sizeof bigger);
    *cap = more;
    return RP_OK;
}

rp_status eager_temp(eager *e, const ir_node *n, lower_ref *out) {
    return eager_temp_of(e, n, lower_bytes(e->dims, n), out);
}

rp_status eager_temp_of(eager *e, const ir_node *n, ir_dim bytes, lower_ref *out) {
    if (bytes == IR_DIM_BAD) return lower_bytes_refused(e->g, n, e->err);
    RP_TRY(grow(e, &e->out->temps, e->out->n_temps, &e->cap_temps, sizeof *e->out->temps));
    *out = (lower_ref){.seg = LOWER_TEMP, .idx = e->out->n_temps};
    e->out->temps[e->out->n_temps++].bytes = ir_dim_import(e->out->dims, e->dims, bytes);
    return RP_OK;
}

rp_status eager_const(eager *e, const void *data, uint32_t size, lower_ref *out) {
    RP_TRY(grow(e, &e->out->consts, e->out->n_consts, &e->cap_consts, sizeof *e->out->consts));
    void *copy = base_arena_alloc(e->out->arena, size);
    if (!copy) return rp_fail(e->err, RP_NOMEM, "record of %u bytes", size);
    memcpy(copy, data, size);
    *out = (lower_ref){.seg = LOWER_CONST, .idx = e->out->n_consts};
    e->out->consts[e->out->n_consts++] = (lower_const){copy, size};
    return RP_OK;
}

rp_status eager_result(eager *e, ir_ref r) {
    lower_ref at = {0};
    RP_TRY(eager_temp(e, eager_at(e, r), &at));
    lower_view_dense(e->dims, at, eager_at(e, r), &e->view[r]);
    return RP_OK;
}

lower_launch *eager_next_launch(eager *e) {
    lower_piece *o = e->out;
    if (grow(e, &o->launches, o->n_launches, &e->cap_launches, sizeof *o->launches) != RP_OK)
        return NULL;
    return &o->launches[o->n_launches++];
}

/* --- building a launch ----------------------------------------------------------- */

eager_launch eager_begin(const eager *e, const char *name, const ir_shape *s) {
    eager_launch l = {.name = name, .rank = s->rank};
    memcpy(l.dim, s->dim, s->rank * sizeof *s->dim);
    l.rows = l.items = s->rank ? s->dim[0] : ir_dim_const(e->dims, 1);
    return l;
}

void eager_operand(eager_launch *l, const lower_view *v) {
    l->arg[l->n_args++] = v->at;
    l->operand[l->n_operands++] = *v;
}

void eager_own(eager_launch *l, ir_dim d) {
    l->own[l->n_own++] = d;
}

static rp_status put_form(eager *e, const eager_launch *l, ir_dim d, ir_dim_code *to) {
    ir_dim own = ir_dim_import(e->out->dims, e->dims, d);
    if (ir_dims_exhausted(e->dims) || ir_dims_exhausted(e->out->dims))
        return rp_fail(e->err, RP_NOMEM, "sizes of %s", l->name);
    if (own == IR_DIM_BAD)
        return rp_fail(e->err, RP_UNSUPPORTED,
                       "%s has a size or stride that overflows; give its symbols smaller bounds",
                       l->name);
    return ir_dim_code_of(e->out->dims, own, to, e->err);
}

static rp_status put_record(eager *e, const eager_launch *l, lower_ref *out) {
    uint32_t n = eager_record_forms(l->rank, l->n_operands, l->n_own);
    size_t size = sizeof(eager_record) + n * sizeof(ir_dim_code);
    eager_record *r = base_arena_alloc(e->out->arena, size);
    if (!r) return rp_fail(e->err, RP_NOMEM, "record of %zu bytes", size);
    *r = (eager_record){.rank = l->rank,
                        .n_operands = l->n_operands,
                        .n_own = l->n_own,
                        .op = l->op,
                        .unit = l->unit};
    ir_dim_code *f = r->form;
    for (uint32_t i = 0; i < l->rank; i++) RP_TRY(put_form(e, l, l->dim[i], f++));
    for (uint32_t k = 0; k < l->n_operands; k++) {
        const lower_view *v = &l->operand[k];
        r->mem[k] = (eager_memory){(uint32_t)v->dtype, (uint32_t)v->row};
        RP_TRY(put_form(e, l, v->offset, f++));
        for (uint32_t i = 0; i < l->rank; i++) RP_TRY(put_form(e, l, v->stride[i], f++));
    }
    for (uint32_t i = 0; i < l->n_own; i++) RP_TRY(put_form(e, l, l->own[i], f++));
    return eager_const(e, r, (uint32_t)size, out);
}

rp_status eager_add(eager *e, const eager_launch *l) {
    lower_piece *o = e->out;
    lower_ref record;
    RP_TRY(put_record(e, l, &record));
    lower_launch *to = eager_next_launch(e);
    if (!to) return RP_NOMEM;
    to->name = base_arena_printf(o->arena, "eager_%s_%u", l->name, o->n_launches - 1);
    const char *symbol = base_arena_printf(o->arena, "@%s", l->name);
    to->args = base_arena_array(o->arena, l->n_args + 1u, sizeof *to->args);
    if (!to->name || !symbol || !to->args)
        return rp_fail(e->err, RP_NOMEM, "launch of %s", l->name);
    to->alts[0] = (lower_alt){.max = INT64_MAX, .symbol = symbol, .scratch = l->scratch};
    to->n_alts = 1;
    to->rows = ir_dim_import(o->dims, e->dims, l->rows);
    to->items = ir_dim_import(o->dims, e->dims, l->items);
    to->grain = 1;
    memcpy(to->args, l->arg, l->n_args * sizeof *l->arg);
    to->args[l->n_args] = record;
    to->n_args = l->n_args + 1u;
    const lower_ref result = l->arg[l->n_operands - 1];
    for (uint32_t i = 0; i < to->n_args; i++)
        to->args[i].access = to->args[i].seg == result.seg && to->args[i].idx == result.idx
                                 ? BASE_WRITES
                                 : BASE_READS;
    return RP_OK;
}

/* --- copies ------------------------------------------------------------------------ */

/* v in units of whole blocks (of whole rows for i16b32). False when it cuts one. */
static bool view_in_blocks(const eager *e, const ir_shape *s, uint32_t rank, int64_t block,
                           lower_view *v) {
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t step;
        if (i == rank) break;
        if (i + 1 == s->rank) {
            if (!ir_dim_is_const(e->dims, v->stride[i], &step) || step != 1) return false;
        } else {
            if (ir_dim_divisible(e->dims, v->stride[i], block) != IR_TRUE) return false;
            v->stride[i] = ir_dim_floordiv(e->dims, v->stride[i], block);
        }
    }
    if (ir_dim_divisible(e->dims, v->offset, block) != IR_TRUE) return false;
    v->offset = ir_dim_floordiv(e->dims, v->offset, block);
    return true;
}

/* Blocks as they are: the last dim counts blocks, or is gone where a packed row is the unit. */
static rp_status copy_blocks(eager *e, const ir_node *n, lower_view v, lower_view to) {
    int64_t k = 0, block = (int64_t)rp_dtype_block(n->dtype);
    bool rows = n->dtype == RP_DTYPE_I16B32;
    uint32_t rank = n->shape.rank;
    (void)ir_dim_is_const(e->dims, n->shape.dim[rank - 1], &k);
    if (rows) block = k;
    if (k == 0 || (rows && (v.row != k || to.row != k)) ||
        !view_in_blocks(e, &n->shape, rows ? rank - 1 : rank, block, &v) ||
        !view_in_blocks(e, &n->shape, rows ? rank - 1 : rank, block, &to))
        return rp_fail(e->err, RP_UNSUPPORTED,
                       "a copy of %s that cuts through its blocks; dequantize it first",
                       rp_dtype_name(n->dtype));
    ir_shape s = n->shape;
    if (rows)
        s.rank--;
    else
        s.dim[rank - 1] = ir_dim_const(e->dims, k / block);
    eager_launch l = eager_begin(e, "copy", &s);
    l.unit = (uint32_t)(rows ? k / 32 * 72 : (int64_t)rp_dtype_block_bytes(n->dtype));
    eager_operand(&l, &v);
    eager_operand(&l, &to);
    return eager_add(e, &l);
}

rp_status eager_copy_to(eager *e, const ir_node *n, const lower_view *v, const lower_view *to) {
    if (rp_dtype_is_quant(n->dtype)) return copy_blocks(e, n, *v, *to);
    eager_launch l = eager_begin(e, "copy", &n->shape);
    if (v->dtype == to->dtype) l.unit = (uint32_t)rp_dtype_block_bytes(v->dtype);
    eager_operand(&l, v);
    eager_operand(&l, to);
    return eager_add(e, &l);
}

rp_status eager_copy_value(eager *e, const ir_node *n, const lower_view *v, lower_view *out) {
    lower_ref at = {.seg = LOWER_TEMP, .idx = 0};
    lower_view to;
    RP_TRY(eager_temp(e, n, &at));
    lower_view_dense(e->dims, at, n, &to);
    RP_TRY(eager_copy_to(e, n, v, &to));
    *out = to;
    return RP_OK;
}

rp_status eager_dense(eager *e, ir_ref r, lower_ref *out) {
    const ir_node *n = ir_node_at(e->g, r);
    lower_view v = e->view[r];
    if (v.dtype != n->dtype || !lower_view_is_dense(e->dims, &v, &n->shape))
        RP_TRY(eager_copy_value(e, n, &e->view[r], &v));
    *out = v.at;
    return RP_OK;
}
