/* Attention, custom ops and other code that is not generated: launches of it. */
#include <string.h>

#include "gen/builtin.h"
#include "ir/custom.h"
#include "ir/op_attrs.h"
#include "lower/target.h"

rp_status lower_operand_memory(lowerer *L, ir_ref r, lower_ref *at) {
    while (ir_node_at(L->g, r)->op == IR_reshape || ir_node_at(L->g, r)->op == IR_written)
        r = ir_node_at(L->g, r)->in[0];
    if (L->has_memory[r]) {
        *at = L->where[r];
        return RP_OK;
    }
    if (ir_node_at(L->g, r)->op == IR_empty) return lower_memory(L, r, at);
    return lower_copy(L, r, at);
}

/* The plan stores a record's bytes, so there is no padding in it. */
_Static_assert(sizeof(gen_attention_record) == 2 * sizeof(ir_dim_code) + 8 * 4, "no padding");

rp_status lower_add_const(lowerer *L, const void *data, uint32_t size, lower_ref *out) {
    void *copy = base_arena_alloc(L->arena, size);
    if (!copy) return rp_fail(L->err, RP_NOMEM, "record of %u bytes", size);
    memcpy(copy, data, size);
    *out = (lower_ref){.seg = LOWER_CONST, .idx = L->out->n_consts};
    L->out->consts[L->out->n_consts++] = (lower_const){copy, size};
    return RP_OK;
}

rp_status lower_attention_record(const ir_graph *g, const ir_node *n, ir_dims *dims,
                                 gen_attention_record *r, rp_error *err) {
    ir_dims *own = ir_graph_dims(g);
    const ir_node *k = ir_node_at(g, n->in[1]), *tables = ir_node_at(g, n->in[5]);
    int64_t block = 0;
    *r = (gen_attention_record){.heads = (uint32_t)ir_attr_int(n, IR_ATTR_HEADS, 0),
                                .kv_heads = (uint32_t)ir_attr_int(n, IR_ATTR_KV_HEADS, 0),
                                .head_dim = (uint32_t)ir_attr_int(n, IR_ATTR_HEAD_DIM, 0),
                                .scale = (float)ir_attr_float(n, IR_ATTR_SCALE, 1.0),
                                .kv = k->dtype};
    if (!ir_dim_is_const(own, k->shape.dim[2], &block))
        return rp_fail(err, RP_UNSUPPORTED, "attention over a cache whose block size is not known");
    r->block_size = (uint32_t)block;
    RP_TRY(ir_dim_code_of(dims, ir_dim_import(dims, own, n->shape.dim[0]), &r->rows, err));
    RP_TRY(
        ir_dim_code_of(dims, ir_dim_import(dims, own, tables->shape.dim[1]), &r->table_width, err));
    return gen_attention_check(r, err);
}

/* result: r, or the rounding of it, which the same launch makes. */
static rp_status lower_attention(lowerer *L, const ir_node *n, ir_ref result) {
    gen_attention_record rec;
    lower_ref args[7];
    RP_TRY(lower_attention_record(L->g, n, L->out->dims, &rec, L->err));
    rec.rounded = ir_node_at(L->g, result)->op == IR_quantize;
    for (uint32_t i = 0; i < 7; i++) RP_TRY(lower_operand_memory(L, n->in[i], &args[i]));
    RP_TRY(rec.rounded ? lower_memory(L, result, &args[6]) : lower_version(L, result, &args[6]));
    L->n_args = 7;
    memcpy(L->args, args, sizeof args);
    lower_write_args(L, 6);
    lower_launch *l = lower_add_launch(L);
    l->name = "attention";
    l->rows = ir_dim_import(L->out->dims, ir_graph_dims(L->g), n->shape.dim[0]);
    RP_TRY(L->target->attention(L, n, &rec, l));
    l->grain = 1;
    l->attention = true;
    return lower_take_args(L, l);
}

/* --- custom ops ----------------------------------------------------------------------- */

rp_status lower_operand_types(const ir_graph *g, ir_ref r, lower_piece *p, ir_type **out,
                              rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    uint32_t n_args = n->n_in + 1 + n->n_more;
    ir_type *o = base_arena_array(p->arena, n_args, sizeof *o);
    if (!o) return rp_fail(err, RP_NOMEM, "custom op");
    for (uint32_t i = 0; i < n_args; i++) {
        ir_node x = i < n->n_in ? *ir_node_at(g, n->in[i]) : lower_result_type(n, i - n->n_in);
        o[i] = (ir_type){x.dtype, x.shape};
        for (uint32_t d = 0; d < x.shape.rank; d++)
            o[i].shape.dim[d] = ir_dim_import(p->dims, ir_graph_dims(g), x.shape.dim[d]);
    }
    *out = o;
    return RP_OK;
}

const char *lower_custom_attrs(const ir_node *n, base_arena *arena) {
    const ir_attr *a = ir_attr_get(n, IR_ATTR_ATTRS);
    base_buf text;
    base_buf_init(&text, 0);
    ir_op_attrs_print(a ? a->u.values : NULL, a ? a->n : 0, &text);
    const char *copy = text.failed ? NULL : base_arena_strn(arena, text.data, text.len);
    base_buf_done(&text);
    return copy;
}

static rp_status lower_custom(lowerer *L, const ir_node *n, ir_ref r) {
    const char *name = ir_attr_get(n, IR_ATTR_NAME)->u.s;
    const rp_op_desc *d = ir_custom_find(name);
    uint32_t n_args = n->n_in + 1 + n->n_more;
    const bool text = d && L->target->has_source(d);
    if (!L->target->calls_host && !text)
        return rp_fail(L->err, RP_UNSUPPORTED,
                       "%s is a custom op of the host, which cannot run on a GPU; use --device cpu",
                       name);
    lower_ref *args = base_arena_array(L->arena, n_args, sizeof *args);
    if (!args) return rp_fail(L->err, RP_NOMEM, "launch arguments");
    if (!d || (!d->cpu && !text))
        return rp_fail(L->err, RP_UNSUPPORTED, "custom op %s %s; register it with rp_op_register",
                       name, d ? "has no implementation for cpu" : "is not registered");
    for (uint32_t i = 0; i < n->n_in; i++) RP_TRY(lower_operand_memory(L, n->in[i], &args[i]));
    for (uint32_t i = 0; i <= n->n_more; i++)
        RP_TRY(lower_result_memory(L, r, i, &args[n->n_in + i]));
    memcpy(L->args, args, n_args * sizeof *args);
    L->n_args = n_args;
    lower_node_access(n, L->args, L->n_args, 0);
    if (text) return L->target->source(L, n, r, d);
    lower_launch *l = lower_add_launch(L);
    l->name = l->custom = base_arena_str(L->arena, name);
    l->attrs = lower_custom_attrs(n, L->arena);
    if (!l->attrs) return rp_fail(L->err, RP_NOMEM, "custom op");
    RP_TRY(lower_operand_types(L->g, r, L->out, &l->operands, L->err));
    l->rows = l->items = ir_dim_const(L->out->dims, 1);
    l->grain = 1;
    return lower_take_args(L, l);
}

rp_status lower_extern_group(lowerer *L, const pass_group *gr) {
    ir_ref r = gr->nodes[0];
    const ir_node *n = ir_node_at(L->g, r);
    ir_kind kind = ir_op_table(n->op)->kind;
    if (kind == IR_KIND_SCAN || kind == IR_KIND_SCATTER) return lower_along_axis(L, r);
    if (ir_op_has_graphs(n->op)) return lower_graphs(L, n, r);
    return n->op == IR_attention ? lower_attention(L, n, gr->nodes[gr->n_nodes - 1])
                                 : lower_custom(L, n, r);
}
