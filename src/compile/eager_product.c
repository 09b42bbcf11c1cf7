/* Products: which kernel, and the strides of both sides. Which of them run with packed weights is decided where compiled
 * code decides it (pass/product.h). */
#include "compile/eager.h"
#include "compile/portable/kernels.h"
#include "gen/pack.h"
#include "lower/product.h"
#include "pass/product.h"

static rp_status add_pack(eager *e, const pass_weights *w, lower_ref *out) {
    lower_pack *p = &e->out->packs[e->out->n_packs];
    *p = (lower_pack){.dtype = w->dtype, .k = w->k, .n_sections = 1};
    p->sections = base_arena_array(e->out->arena, 1, sizeof *p->sections);
    if (!p->sections) return rp_fail(e->err, RP_NOMEM, "packed weights");
    *p->sections = (lower_section){.n_params = 1, .rows = w->n, .by_k = w->by_k};
    while (ir_leaf_at(e->g, IR_LEAF_PARAM, p->sections->params[0]) != w->param)
        p->sections->params[0]++;
    *out = (lower_ref){.seg = LOWER_PACK, .idx = e->out->n_packs++};
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
    const ir_node *n = eager_at(e, r);
    lower_view x = e->view[n->in[0]], y;
    lower_ref pack;
    ir_shape rows = {.rank = 1, .dim = {eager_number(e, 1)}};
    for (uint32_t i = 0; i + 1 < n->shape.rank; i++)
        rows.dim[0] = ir_dim_mul(e->dims, rows.dim[0], n->shape.dim[i]);
    const char *name = base_arena_printf(e->out->arena, "matmul_packed_%s%s",
                                         rp_dtype_name(w->dtype), packed_suffix(e->opt->isa));
    if (!name) return rp_fail(e->err, RP_NOMEM, "kernel name");
    RP_TRY(eager_result(e, r));
    RP_TRY(add_pack(e, w, &pack));
    y = e->view[r];
    x.stride[0] = eager_number(e, w->k);
    y.stride[0] = eager_number(e, w->n);
    eager_launch l = eager_begin(e, name, &rows);
    eager_operand(&l, &x);
    eager_operand(&l, &y);
    l.arg[l.n_args++] = pack;
    eager_own(&l, eager_number(e, w->k));
    eager_own(&l, eager_number(e, w->n));
    l.items = eager_number(e, (w->n + LOWER_COLUMNS - 1) / LOWER_COLUMNS);
    l.scratch = portable_packed_scratch(w->k);
    return eager_add(e, &l);
}

/* An operand as float memory: values of block formats are copied. */
static rp_status float_operand(eager *e, ir_ref r, lower_view *out) {
    *out = e->view[r];
    return rp_dtype_is_quant(out->dtype) ? eager_copy_value(e, eager_at(e, r), &e->view[r], out)
                                         : RP_OK;
}

/* The strides of one side of product p over batches, rows and columns. */
static lower_view side_view(const eager *e, const lower_product *p, const lower_side *s,
                            const lower_view *v, uint32_t along) {
    lower_view out = *v;
    out.offset = s->offset;
    for (uint32_t i = 0; i < p->n_batch; i++) out.stride[i] = s->batch[i];
    for (uint32_t i = 0; i < 2; i++)
        out.stride[p->n_batch + i] = i == along ? s->step : eager_number(e, 0);
    return out;
}

static rp_status product_node(eager *e, ir_ref r, const pass_weights *w) {
    const ir_node *n = eager_at(e, r), *a = eager_at(e, n->in[0]), *b = eager_at(e, n->in[1]);
    lower_view va, vb, v;
    lower_product p;
    lower_ref pack = {.seg = LOWER_PACK, .idx = 0};
    RP_TRY(float_operand(e, n->in[0], &va));
    if (!w) RP_TRY(float_operand(e, n->in[1], &vb));
    lower_product_of(e->dims, n, a, &va, b, w ? NULL : &vb, &p);
    const char *name = base_arena_printf(e->out->arena, "matmul%s%s%s", w ? "_" : "",
                                         w ? rp_dtype_name(w->dtype) : "",
                                         packed_suffix(e->opt->isa));
    if (!name) return rp_fail(e->err, RP_NOMEM, "kernel name");
    RP_TRY(eager_result(e, r));
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
    eager_own(&l, eager_number(e, p.block));
    eager_own(&l, p.w.k_step);
    ir_dim columns = ir_dim_floordiv(
        e->dims, ir_dim_add(e->dims, p.columns, eager_number(e, LOWER_COLUMNS - 1)), LOWER_COLUMNS);
    l.items = lower_product_items(e->dims, &p, columns);
    l.scratch = LOWER_PRODUCT_SCRATCH;
    return eager_add(e, &l);
}

rp_status eager_product(eager *e, ir_ref r) {
    pass_weights w;
    bool packed = pass_product_weights(e->g, r, &w);
    if (pass_is_packed_matmul(e->g, r)) return packed_node(e, r, &w);
    return product_node(e, r, packed ? &w : NULL);
}
