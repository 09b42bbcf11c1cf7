/* Products of two operands that lie in memory, as kernels in CUDA C (product.cu): a block takes a tile of rows and columns of one
 * matrix of the batch. */
#include <inttypes.h>

#include "target/cuda/cuda.h"

enum { TILE = 32, THREADS = 256 }; /* RK_ANY_ROWS, RK_ANY_THREADS */

static void put(lowerer *L, const char *name, ir_dim d) {
    base_buf_printf(&L->source, "%s", name);
    target_put_dim(L, d);
}

/* A pointer to what the block reads first of an operand. */
static void put_side(lowerer *L, const lower_product *p, const char *name, uint32_t arg,
                     const lower_side *s, rp_dtype dtype) {
    base_buf *b = &L->source;
    base_buf_printf(b, "        const rk_x_%s::type *%s = (const rk_x_%s::type *)arg[%u] + (",
                    rp_dtype_name(dtype), name, rp_dtype_name(dtype), arg);
    target_put_dim(L, s->offset);
    base_buf_puts(b, ")");
    for (uint32_t i = 0; i < p->n_batch; i++) {
        base_buf_printf(b, " + b%u * (", i);
        target_put_dim(L, s->batch[i]);
        base_buf_puts(b, ")");
    }
    base_buf_printf(b, " + %s * %d * (", arg ? "across" : "down", TILE);
    target_put_dim(L, s->step);
    base_buf_puts(b, ");\n");
}

/* b0, b1 .. of matrix number `batch`. */
static void put_batch(lowerer *L, const lower_product *p) {
    base_buf_puts(&L->source, "        long long left = batch;\n");
    for (uint32_t i = p->n_batch; i-- > 0;) {
        base_buf_printf(&L->source, "        const long long b%u = left %% (", i);
        target_put_dim(L, p->batch[i]);
        put(L, ");\n        left /= (", p->batch[i]);
        base_buf_puts(&L->source, ");\n");
    }
}

static void put_tile(lowerer *L, const lower_float_group *f, const char *frag) {
    const lower_product *p = &f->p;
    base_buf *b = &L->source;
    put_side(L, p, "x", 0, &p->x, f->x);
    put_side(L, p, "w", 1, &p->w, f->w);
    base_buf_printf(b,
                    "        const int m = rows - down * %d < %d ? (int)(rows - down * %d) : %d;\n"
                    "        const int n = columns - across * %d < %d ? (int)(columns - across * "
                    "%d) : %d;\n",
                    TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE);
    base_buf_printf(b, "        rk_mm_any<rk_x_%s, rk_x_%s>(x", rp_dtype_name(f->x),
                    rp_dtype_name(f->w));
    put(L, ", ", p->x.step);
    put(L, ", ", p->x.k_step);
    put(L, ", m, w, ", p->w.step);
    put(L, ", ", p->w.k_step);
    put(L, ", n, ", p->k);
    base_buf_printf(b,
                    ", acc);\n"
                    "        for (int r = 0; r < m; r += %d)\n"
                    "            %s_EPI(batch * rows + down * %d + r, m - r, across, acc + r * "
                    "%d);\n",
                    TARGET_CUDA_ROWS, frag, TILE, TILE);
}

static ir_dim tiles(ir_dims *t, ir_dim n) {
    return ir_dim_floordiv(t, ir_dim_add(t, n, ir_dim_const(t, TILE - 1)), TILE);
}

rp_status target_cuda_product(lowerer *L, const lower_float_group *f, const char *name,
                              lower_launch *l, ir_dim *items) {
    const lower_product *p = &f->p;
    ir_dims *t = ir_graph_dims(L->g);
    const char *frag = lower_epilogue_name(L, name, 0);
    if (!frag) return rp_fail(L->err, RP_NOMEM, "name of an epilogue");
    target_cuda_head(L, name, THREADS, 0, "");
    put(L, "    rk_wait();\n    const long long rows = ", p->rows);
    put(L, ", columns = ", p->columns);
    put(L, ";\n    const long long n_across = ", tiles(t, p->columns));
    put(L, ", n_down = ", tiles(t, p->rows));
    base_buf_printf(&L->source,
                    ";\n    __shared__ float acc[%d];\n"
                    "    for (long long item = blockIdx.x; item < items; item += gridDim.x) {\n"
                    "        const long long across = item %% n_across, down = item / n_across %% "
                    "n_down, batch = item / n_across / n_down;\n",
                    TILE * TILE);
    put_batch(L, p);
    put_tile(L, f, frag);
    base_buf_puts(&L->source, "    }\n}\n");
    *items = ir_dim_mul(t, tiles(t, p->columns), tiles(t, p->rows));
    for (uint32_t i = 0; i < p->n_batch; i++) *items = ir_dim_mul(t, *items, p->batch[i]);
    l->threads = THREADS;
    l->per_block = 1;
    if (L->err->code != RP_OK) return L->err->code;
    return base_buf_status(&L->source, L->err);
}
