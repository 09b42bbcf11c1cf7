/* Products of two operands that lie in memory, as kernels in CUDA C (tile.cu): a block takes a tile of rows and columns of one
 * matrix of the batch. */
#include <inttypes.h>

#include "target/cuda/cuda.h"
#include "target/cuda/tile.h"

enum { MANY = 1 << 20 }; /* tiles */

/* At most, or MANY. */
static int64_t most_of(const lowerer *L, ir_dim d) {
    int64_t least, most;
    ir_dim_bounds(ir_graph_dims(L->g), d, &least, &most);
    return most < MANY ? most : MANY;
}

/* Of as many rows as columns. */
static target_tile tile_of(const lowerer *L, const lower_product *p, int64_t *tiles) {
    const int64_t rows = most_of(L, p->rows), columns = most_of(L, p->columns);
    int64_t beside = columns / TARGET_TILE_ROWS + 1, least, k;
    for (uint32_t i = 0; i < p->n_batch && beside < MANY; i++)
        beside *= most_of(L, p->batch[i]) + 1;
    ir_dim_bounds(ir_graph_dims(L->g), p->k, &least, &k);
    const uint32_t down = target_tile_rows(rows, beside, true);
    const uint32_t n = columns > TARGET_TILE_ROWS / 2 ? down : TARGET_TILE_ROWS / 2;
    *tiles = beside < MANY ? (rows / n + 1) * beside * (64 / n) : INT64_MAX;
    return target_tile_of(n, n, k, *tiles, true, L->opt->shared);
}

static void put(lowerer *L, const char *name, ir_dim d) {
    base_buf_printf(&L->source, "%s", name);
    target_put_dim(L, d);
}

/* A pointer to what the block reads first of an operand. */
static void put_side(lowerer *L, const lower_product *p, const char *name, uint32_t arg,
                     const lower_side *s, rp_dtype dtype, target_tile tile) {
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
    base_buf_printf(b, " + %s * %u * (", arg ? "across" : "down", tile.rows);
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

static void put_steps(lowerer *L, const lower_side *s) {
    put(L, ", ", s->step);
    put(L, ", ", s->k_step);
}

/* An epilogue takes LOWER_COLUMNS columns. */
static void put_tile(lowerer *L, const lower_float_group *f, const char *frag, target_tile tile) {
    const lower_product *p = &f->p;
    base_buf *b = &L->source;
    put_side(L, p, "x", 0, &p->x, f->x, tile);
    put_side(L, p, "w", 1, &p->w, f->w, tile);
    base_buf_printf(b,
                    "        const int m = rows - down * %u < %u ? (int)(rows - down * %u) : %u;\n"
                    "        const int n = columns - across * %u < %u ? (int)(columns - across * "
                    "%u) : %u;\n",
                    tile.rows, tile.rows, tile.rows, tile.rows, tile.rows, tile.rows, tile.rows,
                    tile.rows);
    base_buf_printf(b, "        const rk_tile_side<rk_x_%s> xs = {x", rp_dtype_name(f->x));
    put_steps(L, &p->x);
    base_buf_printf(b, ", m};\n        const rk_tile_side<rk_x_%s> ws = {w", rp_dtype_name(f->w));
    put_steps(L, &p->w);
    base_buf_puts(b, ", n};\n        ");
    target_tile_put(b, tile, LOWER_COLUMNS);
    base_buf_puts(b, "        tile.run(xs, ws");
    put(L, ", ", p->k);
    base_buf_printf(b,
                    ", acc);\n"
                    "        for (int c = 0; c < n; c += %d)\n"
                    "            for (int r = 0; r < m; r += %d)\n"
                    "                %s_EPI(batch * rows + down * %u + r, m - r < %d ? m - r : %d, "
                    "across * %u + c / %d, "
                    "acc + c * %u + r * %d);\n",
                    LOWER_COLUMNS, TARGET_CUDA_ROWS, frag, tile.rows, TARGET_CUDA_ROWS,
                    TARGET_CUDA_ROWS, tile.rows / LOWER_COLUMNS, LOWER_COLUMNS, tile.rows,
                    LOWER_COLUMNS);
}

static ir_dim tiles(ir_dims *t, ir_dim n, uint32_t tile) {
    return ir_dim_floordiv(t, ir_dim_add(t, n, ir_dim_const(t, tile - 1)), tile);
}

rp_status target_cuda_product(lowerer *L, const lower_float_group *f, const char *name,
                              lower_launch *l, ir_dim *items) {
    const lower_product *p = &f->p;
    ir_dims *t = ir_graph_dims(L->g);
    int64_t about;
    const target_tile tile = tile_of(L, p, &about);
    const char *frag = lower_epilogue_name(L, name, 0);
    if (!frag) return rp_fail(L->err, RP_NOMEM, "name of an epilogue");
    target_cuda_head(L, name, tile.threads, target_tile_per_sm(tile, about), "");
    put(L, "    rk_wait();\n    const long long rows = ", p->rows);
    put(L, ", columns = ", p->columns);
    put(L, ";\n    const long long n_across = ", tiles(t, p->columns, tile.rows));
    put(L, ", n_down = ", tiles(t, p->rows, tile.rows));
    base_buf_printf(&L->source,
                    ";\n    float *const acc = (float *)rk_dynamic;\n"
                    "    for (long long item = blockIdx.x; item < items; item += gridDim.x) {\n"
                    "        const long long across = item %% n_across, down = item / n_across %% "
                    "n_down, batch = item / n_across / n_down;\n");
    put_batch(L, p);
    put_tile(L, f, frag, tile);
    base_buf_puts(&L->source, "    }\n}\n");
    *items = ir_dim_mul(t, tiles(t, p->columns, tile.rows), tiles(t, p->rows, tile.rows));
    for (uint32_t i = 0; i < p->n_batch; i++) *items = ir_dim_mul(t, *items, p->batch[i]);
    l->threads = tile.threads;
    l->per_block = 1;
    l->alts[0].scratch = target_tile_bytes(tile);
    if (L->err->code != RP_OK) return L->err->code;
    return base_buf_status(&L->source, L->err);
}
