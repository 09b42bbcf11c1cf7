/* Matmul groups as kernels that instantiate the templates of the embedded .cu files, but for those of tensor cores (tensor.c) and of two operands that lie in memory
 * (product.c). What does not change while a model runs is a constant of the
 * instance; sizes that do come as arguments, as in every generated kernel. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gen/pack.h"
#include "pass/product.h"
#include "target/cuda/cuda.h"
#include "target/cuda/tensor.h"
#include "target/cuda/tile.h"

#define COLUMNS LOWER_COLUMNS
enum { FEW_COLUMNS = 4096 }; /* of a product that 132 processors share */
enum { MATMUL_LEAST = 256, MATMUL_MOST = 1024 };
enum { WIDE_TILES = 132 * 3 / 2, MOST_WIDE_NODES = 3 };
enum {
    FEW_PART = 4096,   /* RK_MM_PART */
    FEW_RINGS = 8 * 2, /* of RK_FEW_ROOM: slabs of 16 k of 16 columns, in pairs, .. */
    FEW_APART = 64     /* .. and bytes behind each pair */
};

static bool quantizes(const lowerer *L, const pass_segment *s) {
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (ir_node_at(L->g, s->nodes[i])->op == IR_quantize) return true;
    return false;
}

/* Float rows that are always many, enough for tiles of twice as many columns, whose threads read less of both operands for a sum, on
 * all multiprocessors. Each node of an epilogue may have temporaries, for which there is not much room. */
static bool is_wide(const lowerer *L, const pass_segment *s) {
    const ir_node *x = ir_node_at(L->g, ir_node_at(L->g, s->mats[0])->in[0]);
    const int64_t columns = 2 * COLUMNS;
    pass_weights w;
    int64_t least, most;
    if (pass_is_packed_matmul(L->g, s->mats[0]) || s->n_mats > 1 || s->n_nodes > MOST_WIDE_NODES ||
        quantizes(L, s) || !ir_dtype_is_real(x->dtype) ||
        !pass_product_weights(L->g, s->mats[0], &w) || w.n % columns)
        return false;
    ir_dim_bounds(ir_graph_dims(L->g), lower_flat_rows(L, x), &least, &most);
    if (least <= TARGET_CUDA_ROWS) return false;
    const int64_t rows = target_tile_rows(most, w.n / columns, false),
                  down = (least + rows - 1) / rows;
    return down >= WIDE_TILES || down * (w.n / columns) >= WIDE_TILES;
}

/* Half as many where a step has few blocks, unless the epilogue needs blocks of 32; twice as many of large products. */
static uint32_t columns_of(const lowerer *L, const pass_segment *s) {
    pass_weights w;
    if (is_wide(L, s)) return 2 * COLUMNS;
    if (!pass_is_packed_matmul(L->g, s->mats[0]) || s->n_mats > 1 ||
        !pass_product_weights(L->g, s->mats[0], &w) || w.k % 64 || w.n > FEW_COLUMNS ||
        quantizes(L, s))
        return COLUMNS;
    return COLUMNS / 2;
}

static void put_macro(lowerer *L, const pass_segment *s, const char *frag) {
    base_buf *b = &L->source;
    const uint32_t columns = columns_of(L, s);
    char acc[40], end[40];
    (void)snprintf(acc, sizeof acc, "(acc) + rp_q * %u", s->n_mats * columns);
    (void)snprintf(end, sizeof end, "[%d][%u]; \\", TARGET_CUDA_ROWS, columns);
    const target_call call = {.columns = columns,
                              .acc = acc,
                              .space = "__shared__ ",
                              .name = "rp_e",
                              .end = end,
                              .at = "[rp_q]"};
    base_buf_printf(b, "#define %s_EPI(row0, n, item, acc) do { \\\n", frag);
    target_call_temporaries(L, s, &call);
    base_buf_printf(b,
                    "    const int rp_q = threadIdx.x / 32; \\\n"
                    "    if (rp_q < (n)) %s(arg, dim, (row0) + rp_q, (item) * %u",
                    frag, columns);
    target_call_arguments(L, s, &call);
    base_buf_puts(b, "); \\\n    __syncthreads(); \\\n} while (0)\n");
}

/* Columns of one segment: n of each of its matrices, k long. */
typedef struct cuda_segment {
    const char *frag;
    rp_dtype dtype, left; /* of the weights, of the rows */
    int64_t n_items, k, first_item, first_tile;
    uint32_t n_mats, columns; /* columns of an item: 16, 32 or 64 of every matrix */
    target_tile tile;         /* where rows are float and many */
} cuda_segment;
/* Rows, and which of the two ways of float rows there may be. */
typedef struct item_rows {
    ir_dim all;
    uint32_t n;    /* of an item */
    int64_t tiles; /* about so many, of float rows */
    bool few, many;
} item_rows;

/* Bytes; weights in blocks have none. */
static int64_t few_rings(rp_dtype weights) {
    const int64_t element = (int64_t)rp_dtype_block_bytes(weights);
    return ir_dtype_is_real(weights) ? FEW_RINGS * (2 * 16 * 16 * element + FEW_APART) : 0;
}

static void put_float_product(lowerer *L, const cuda_segment *s, const item_rows *rows,
                              uint32_t threads) {
    base_buf *b = &L->source;
    const uint32_t columns = s->n_mats * s->columns;
    const char *x = rp_dtype_name(s->left);
    base_buf_puts(b, "            rk_wait();\n");
    if (rows->few && few_rings(s->dtype))
        base_buf_printf(b,
                        "            static_assert(RK_FEW_ROOM(%u, F::bytes) == %" PRId64
                        ", \"shared memory\");\n",
                        threads, few_rings(s->dtype));
    if (rows->few)
        base_buf_printf(
            b, "            %srk_mm_float<F, rk_x_%s, %" PRId64 ", %u, %u>(x, n, w, acc, part);\n",
            rows->many ? "if (n <= RK_MM_ROWS) " : "", x, s->k, columns, threads);
    if (rows->few && rows->many) base_buf_puts(b, "            else\n");
    if (!rows->many) return;
    base_buf_printf(b,
                    "            {\n"
                    "                const rk_tile_side<rk_x_%s> xs = {(const rk_x_%s::type *)x, "
                    "%" PRId64 ", 1, n};\n"
                    "                const rk_tile_packed<F, %" PRId64 "> ws = {w};\n"
                    "                ",
                    x, x, s->k, s->k);
    target_tile_put(b, s->tile, columns);
    base_buf_printf(b, "                tile.run(xs, ws, %" PRId64 ", acc);\n            }\n",
                    s->k);
}

static void put_product(lowerer *L, const cuda_segment *s, const item_rows *rows,
                        const target_rows *own, const char *name, uint32_t threads) {
    base_buf *b = &L->source;
    const uint32_t columns = s->n_mats * s->columns;
    if (s->left != RP_DTYPE_I16B32) {
        put_float_product(L, s, rows, threads);
        return;
    }
    base_buf_printf(b,
                    "            rk_quant<F, %" PRId64 ", %u, %u> m;\n"
                    "            m.load(w, 0);\n"
                    "            rk_wait();\n",
                    s->k, columns, threads);
    base_buf_puts(b, "            if (rows == 1) {\n");
    if (own) {
        base_buf_puts(b, "                ");
        target_rows_call(L, own, name, "own", "0");
        base_buf_puts(b, "\n                __syncthreads();\n");
    }
    base_buf_printf(b,
                    "                m.run(%s, 1, w, acc, part);\n"
                    "            } else {\n"
                    "                m.run(x, n, w, acc, part);\n"
                    "            }\n",
                    own ? "own" : "x");
}

static void put_segment(lowerer *L, const cuda_segment *s, const item_rows *rows,
                        const target_rows *own, const char *own_name, uint32_t threads) {
    base_buf *b = &L->source;
    const bool quant = s->left == RP_DTYPE_I16B32;
    const uint32_t columns = s->n_mats * s->columns;
    const size_t row = quant ? (size_t)s->k / 32 * 72
                             : (size_t)s->k * rp_dtype_block_bytes(s->left);
    const char *format = rp_dtype_name(s->dtype);
    base_buf_printf(b,
                    "        if (item >= %" PRId64 " && item < %" PRId64 ") {\n"
                    "            typedef rk_%s F;\n"
                    "            const rp_u8 *w = (const rp_u8 *)a1 + (%" PRId64
                    " + (item - %" PRId64 ") * %u) * (%" PRId64
                    " / F::per * (long long)F::bytes);\n",
                    s->first_item, s->first_item + s->n_items, format, s->first_tile, s->first_item,
                    columns / 16, s->k);
    base_buf_printf(b, "            const char *x = a0 + row0 * %zuLL;\n", row);
    put_product(L, s, rows, own, own_name, threads);
    base_buf_printf(
        b,
        "            for (int r = 0; r < n; r += RK_MM_ROWS)\n"
        "                %s_EPI(row0 + r, n - r < RK_MM_ROWS ? n - r : RK_MM_ROWS, item - %" PRId64
        ", acc + r * %u);\n"
        "        }\n",
        s->frag, s->first_item, columns);
}

/* Of a tile where rows are float. Else so many that a thread has two blocks of quantised weights at most, and one element of a row that is made here, where they
 * can be. */
static uint32_t matmul_threads(const cuda_segment *segs, uint32_t n, bool own) {
    if (segs[0].left != RP_DTYPE_I16B32) return segs[0].tile.threads;
    int64_t most = own && segs[0].k > MATMUL_LEAST ? segs[0].k : MATMUL_LEAST;
    for (uint32_t i = 0; i < n; i++) {
        int64_t blocks = segs[i].k / 32 * segs[i].n_mats * segs[i].columns;
        if (blocks / 2 > most) most = blocks / 2;
    }
    return most < MATMUL_MOST ? (uint32_t)(most + 31) / 32 * 32 : MATMUL_MOST;
}

/* acc, and part behind that of few rows; *bytes: of dynamic shared memory. */
static void put_shared(lowerer *L, const cuda_segment *segs, uint32_t n, const item_rows *rows,
                       uint32_t most, int64_t *bytes) {
    base_buf *b = &L->source;
    if (segs[0].left == RP_DTYPE_I16B32) {
        base_buf_printf(b, "    __shared__ float acc[RK_MM_ROWS * %u], part[RK_MM_PART];\n", most);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        const int64_t tile = rows->many ? target_tile_bytes(segs[i].tile) : 0;
        if (tile > *bytes) *bytes = tile;
    }
    for (uint32_t i = 0; i < n && rows->few; i++) {
        const int64_t few = (int64_t)(TARGET_CUDA_ROWS * most + FEW_PART) * 4 +
                            few_rings(segs[i].dtype);
        if (few > *bytes) *bytes = few;
    }
    base_buf_printf(
        b,
        "    float *const acc = (float *)rk_dynamic, *const part = acc + RK_MM_ROWS * %u;\n"
        "    (void)part;\n",
        most);
}

/* Blocks that a multiprocessor has registers for; 0: as the compiler likes, where there is more than one way. */
static uint32_t per_sm(const cuda_segment *segs, uint32_t n, const item_rows *rows) {
    uint32_t least = 0;
    for (uint32_t i = 0; i < n && rows->many && !rows->few; i++) {
        const uint32_t one = target_tile_per_sm(segs[i].tile, rows->tiles);
        if (!least || one < least) least = one;
    }
    return least;
}

static rp_status put_matmul(lowerer *L, const char *name, const item_rows *rows,
                            const target_rows *own, const cuda_segment *segs, uint32_t n,
                            lower_launch *l) {
    base_buf *b = &L->source;
    uint32_t most = 1;
    char *own_name = base_arena_printf(L->arena, "%s_row", name);
    if (!own_name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    for (uint32_t i = 0; i < n; i++)
        if (segs[i].n_mats * segs[i].columns > most) most = segs[i].n_mats * segs[i].columns;
    const int64_t n_items = segs[n - 1].first_item + segs[n - 1].n_items;
    l->threads = matmul_threads(segs, n, own != NULL);
    if (own) RP_TRY(target_rows_function(L, own, own_name, l->threads));
    target_cuda_head(L, name, l->threads, per_sm(segs, n, rows), "");
    put_shared(L, segs, n, rows, most, &l->alts[0].scratch);
    base_buf_puts(b, "    const long long rows = ");
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), rows->all), "dim",
                   b);
    if (own)
        base_buf_printf(b,
                        ";\n    __shared__ int4 own_row[%" PRId64
                        "];\n    char *const own = (char *)own_row",
                        (segs[0].k / 32 * 72 + 15) / 16);
    base_buf_printf(b,
                    ";\n"
                    "    for (long long at = blockIdx.x; at < items; at += gridDim.x) {\n"
                    "        const long long item = at %% %" PRId64 ", row0 = at / %" PRId64
                    " * %u;\n"
                    "        const int n = rows - row0 < %u ? (int)(rows - row0) : %u;\n",
                    n_items, n_items, rows->n, rows->n, rows->n);
    for (uint32_t i = 0; i < n; i++) put_segment(L, &segs[i], rows, own, own_name, l->threads);
    base_buf_puts(b, "    }\n}\n");
    return base_buf_status(b, L->err);
}

static ir_dim items_of(lowerer *L, ir_dim rows, uint32_t of_item, int64_t n) {
    ir_dims *t = ir_graph_dims(L->g);
    ir_dim up = ir_dim_add(t, rows, ir_dim_const(t, of_item - 1));
    return ir_dim_mul_const(t, ir_dim_floordiv(t, up, of_item), n);
}

static item_rows rows_of_item(const lowerer *L, ir_dim rows, rp_dtype left, int64_t n_items) {
    const int64_t beside = n_items > 0 ? n_items : 1;
    int64_t least, most;
    if (left == RP_DTYPE_I16B32) return (item_rows){.all = rows, .n = TARGET_CUDA_ROWS};
    ir_dim_bounds(ir_graph_dims(L->g), rows, &least, &most);
    const uint32_t n = target_tile_rows(most, beside, false);
    return (item_rows){.all = rows,
                       .n = n,
                       .tiles = most / n < INT64_MAX / beside - 1
                                    ? (most / n + (most % n != 0)) * beside
                                    : INT64_MAX,
                       .few = least <= TARGET_CUDA_ROWS,
                       .many = most > TARGET_CUDA_ROWS};
}

/* Packed weights; rows lie one behind the other. */
static rp_status packed_kernel(lowerer *L, const lower_matmul *m, lower_launch *l, ir_dim *items) {
    const pass_group *gr = m->gr;
    const char *name = m->name;
    const ir_ref x = m->quant ? gr->lhs : ir_node_at(L->g, gr->segs[0].mats[0])->in[0];
    const ir_dim rows = lower_flat_rows(L, ir_node_at(L->g, x));
    const rp_dtype left = m->quant ? RP_DTYPE_I16B32 : m->f.x;
    const target_rows *own = m->quant ? target_rows_of(L, ir_node_at(L->g, gr->lhs)->in[0]) : NULL;
    cuda_segment *segs = base_arena_array(L->arena, gr->n_segs + 1u, sizeof *segs);
    uint32_t n = 0;
    int64_t item = 0, tile = 0;
    if (!segs) return rp_fail(L->err, RP_NOMEM, "segments of %s", name);
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        pass_weights w;
        if (gr->segs[i].dead) continue;
        (void)pass_product_weights(L->g, gr->segs[i].mats[0], &w);
        cuda_segment *s = &segs[n++];
        const uint32_t columns = columns_of(L, &gr->segs[i]);
        *s = (cuda_segment){.frag = lower_epilogue_name(L, name, i),
                            .dtype = w.dtype,
                            .left = left,
                            .n_items = (w.n + columns - 1) / columns,
                            .columns = columns,
                            .k = w.k,
                            .first_item = item,
                            .first_tile = tile,
                            .n_mats = gr->segs[i].n_mats};
        if (!s->frag) return rp_fail(L->err, RP_NOMEM, "name of an epilogue");
        item += s->n_items;
        tile += (w.n + COLUMNS - 1) / COLUMNS * s->n_mats * (COLUMNS / GEN_TILE_ROWS);
    }
    const item_rows of_item = rows_of_item(L, rows, left, item);
    for (uint32_t i = 0; i < n; i++)
        segs[i].tile = target_tile_of(of_item.n, segs[i].n_mats * segs[i].columns, segs[i].k,
                                      of_item.tiles, n == 1, L->opt->shared);
    *items = items_of(L, rows, of_item.n, item);
    l->per_block = 1;
    return put_matmul(L, name, &of_item, own, segs, n, l);
}

/* --- the group ---------------------------------------------------------------------- */

rp_status target_cuda_matmul(lowerer *L, const lower_matmul *m) {
    static const target_slot slot = {columns_of, put_macro};
    const size_t begin = L->source.len;
    ir_dim items = IR_DIM_BAD;
    if (m->swizzled) return target_tensor_group(L, m);
    memcpy(L->args, m->operand, sizeof m->operand);
    L->n_args = 2;
    RP_TRY(target_epilogues(L, m, &slot));
    lower_launch *l = lower_add_launch(L);
    if (m->packed)
        RP_TRY(packed_kernel(L, m, l, &items));
    else
        RP_TRY(target_cuda_product(L, &m->f, m->name, l, &items));
    L->may = 0; /* an epilogue's loops are the template's */
    (void)lower_add_kernel(L, m->name, begin, target_matmul_uses(L, m));
    return lower_matmul_launch(L, m, m->name, l, items);
}
