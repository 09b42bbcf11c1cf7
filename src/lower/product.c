/* Strides and work items of a product. */
#include "lower/product.h"

#define ENOUGH_ITEMS 16

static double ceil_div(int64_t n, int64_t by) {
    int64_t parts = n / by + (n % by != 0);
    return (double)parts;
}

/* As large as leaves every thread something to do. Each item copies its columns of a w that is not packed, which for few
 * rows is most of the work. */
static int64_t rows_of_block(const ir_dims *t, const lower_product *p, bool packed) {
    static const int64_t choice[] = {168, 84, 48, 24}; /* RP_MMF_ROWS; multiples of 12 */
    int64_t rows = ir_dim_nominal(t, p->rows);
    double others = ceil_div(ir_dim_nominal(t, p->columns), LOWER_COLUMNS);
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->n_batch; i++) others *= (double)ir_dim_nominal(t, p->batch[i]);
    while (at < (packed ? 3 : 2) && others * ceil_div(rows, choice[at]) < ENOUGH_ITEMS) at++;
    return choice[at];
}

static void batch_strides(ir_dims *t, const ir_node *n, const ir_node *operand, const lower_view *v,
                          ir_dim *stride) {
    ir_shape own = operand->shape, all = n->shape;
    lower_view wide;
    own.rank -= 2;
    all.rank -= 2;
    lower_view_broadcast(t, v, &own, &all, &wide);
    for (uint32_t i = 0; i < all.rank; i++) stride[i] = wide.stride[i];
}

static void drop_batch(lower_product *p, uint32_t at) {
    p->n_batch--;
    for (uint32_t i = at; i < p->n_batch; i++) {
        p->batch[i] = p->batch[i + 1];
        p->x.batch[i] = p->x.batch[i + 1];
        p->w.batch[i] = p->w.batch[i + 1];
    }
}

/* The innermost batch becomes rows. */
static bool fold(ir_dims *t, lower_product *p) {
    uint32_t last = p->n_batch - 1;
    ir_dim next = ir_dim_mul(t, p->rows, p->x.step), rows = ir_dim_mul(t, p->rows, p->batch[last]);
    bool one = ir_dim_is(t, p->rows, 1);
    if (!ir_dim_is(t, p->w.batch[last], 0) || rows == IR_DIM_BAD) return false;
    if (!one && (next == IR_DIM_BAD || ir_dim_eq(t, next, p->x.batch[last]) != IR_TRUE))
        return false;
    if (one) p->x.step = p->x.batch[last];
    p->rows = rows;
    p->n_batch--;
    return true;
}

void lower_product_of(ir_dims *t, const ir_node *n, const ir_node *a, const lower_view *va,
                      const ir_node *b, const lower_view *vb, lower_product *out) {
    bool trans = ir_attr_int(n, IR_ATTR_TRANS_B, 0) != 0;
    uint32_t rank = n->shape.rank, ra = a->shape.rank, rb = b->shape.rank;
    lower_product p = {.n_batch = rank - 2,
                       .rows = n->shape.dim[rank - 2],
                       .columns = n->shape.dim[rank - 1],
                       .k = a->shape.dim[ra - 1]};
    p.x = (lower_side){va->offset, va->stride[ra - 2], va->stride[ra - 1], {0}};
    for (uint32_t i = 0; i < p.n_batch; i++) p.batch[i] = n->shape.dim[i];
    batch_strides(t, n, a, va, p.x.batch);
    p.w.offset = p.w.step = p.w.k_step = ir_dim_const(t, 0);
    for (uint32_t i = 0; i < p.n_batch; i++) p.w.batch[i] = p.w.offset;
    if (vb) {
        p.w.offset = vb->offset;
        p.w.step = vb->stride[trans ? rb - 2 : rb - 1];
        p.w.k_step = vb->stride[trans ? rb - 1 : rb - 2];
        batch_strides(t, n, b, vb, p.w.batch);
    }
    for (uint32_t i = p.n_batch; i-- > 0;)
        if (ir_dim_is(t, p.batch[i], 1)) drop_batch(&p, i);
    while (p.n_batch && fold(t, &p)) continue;
    p.block = rows_of_block(t, &p, !vb);
    *out = p;
}

ir_dim lower_product_items(ir_dims *t, const lower_product *p, ir_dim columns) {
    ir_dim blocks =
        ir_dim_floordiv(t, ir_dim_add(t, p->rows, ir_dim_const(t, p->block - 1)), p->block);
    ir_dim items = ir_dim_mul(t, blocks, columns);
    for (uint32_t i = 0; i < p->n_batch; i++) items = ir_dim_mul(t, items, p->batch[i]);
    return items;
}
