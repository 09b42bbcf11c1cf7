/* Kernels that instantiate the templates of the embedded .cu files. What does not change while a model runs is a constant of the
 * instance; sizes that do come as arguments, as in every generated kernel. */
#include "lower/cuda.h"

#include <inttypes.h>
#include <stdio.h>

#include "pass/product.h"

#define K (L->k)
#define COLUMNS 32
enum { FEW_COLUMNS = 4096 }; /* of a product that 132 processors share */
enum {
    MATMUL_LEAST = 256,
    MATMUL_MOST = 1024,
    ATTENTION_THREADS = 256, /* RK_ATTN_THREADS */
    ATTENTION_SPLIT = 8,     /* RK_ATTN_SPLIT */
    ATTENTION_PER_SM = 2,    /* blocks of it on a multiprocessor */
    ATTENTION_EXACT =
        64, /* rows at most that tensor cores do not take: a size of every ladder of graphs */
    FLASH_PER_SM = 2,
    ATTENTION_BLOCKS = 288 /* with which a large GPU is full */
};

void lower_cuda_head(lowerer *L, const char *name, uint32_t threads, uint32_t per_sm,
                     const char *how) {
    base_buf *b = &L->source;
    uint32_t n_dims = ir_dims_symbol_count(L->out->dims);
    base_buf_printf(b, "extern \"C\" __global__ void __launch_bounds__(%u", threads);
    if (per_sm) base_buf_printf(b, ", %u", per_sm);
    base_buf_printf(b, ") %s%s(", how, name);
    for (uint32_t i = 0; i < L->n_args; i++) base_buf_printf(b, "char *a%u, ", i);
    for (uint32_t i = 0; i < n_dims; i++) base_buf_printf(b, "long long d%u, ", i);
    base_buf_puts(b, "long long items)\n{\n    char *const arg[] = {");
    for (uint32_t i = 0; i < L->n_args; i++) base_buf_printf(b, "a%u, ", i);
    base_buf_puts(b, "};\n    const long long dim[] = {");
    for (uint32_t i = 0; i < n_dims; i++) base_buf_printf(b, "d%u, ", i);
    base_buf_puts(b, "0};\n    rk_launch_dependents();\n");
}

/* --- matmul --------------------------------------------------------------------- */

/* Half as many where a step has few blocks, unless the epilogue needs blocks of 32. */
uint32_t lower_cuda_columns(const lowerer *L, const pass_segment *s) {
    pass_weights w;
    if (!pass_is_packed_matmul(L->g, s->mats[0]) || s->n_mats > 1 ||
        !pass_product_weights(L->g, s->mats[0], &w) || w.k % 64 || w.n > FEW_COLUMNS)
        return COLUMNS;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (ir_node_at(L->g, s->nodes[i])->op == IR_quantize) return COLUMNS;
    return COLUMNS / 2;
}

void lower_cuda_epilogue(lowerer *L, const pass_segment *s, const char *frag) {
    base_buf *b = &L->source;
    const uint32_t columns = lower_cuda_columns(L, s);
    base_buf_printf(b, "#define %s_EPI(row0, n, item, acc) do { \\\n", frag);
    for (uint32_t i = s->n_mats; i < K->n_bufs; i++)
        if (K->bufs[i].space == KIR_SCRATCH)
            base_buf_printf(b, "    __shared__ %s rp_e%u[%d][%u]; \\\n",
                            K->bufs[i].dtype == RP_DTYPE_I32 ? "rp_i32" : "float", i,
                            LOWER_CUDA_ROWS, columns);
    base_buf_printf(b,
                    "    const int rp_q = threadIdx.x / 32; \\\n"
                    "    if (rp_q < (n)) %s(arg, dim, (row0) + rp_q, (item) * %u",
                    frag, columns);
    for (uint32_t i = 0; i < K->n_bufs; i++) {
        if (K->bufs[i].space != KIR_SCRATCH) continue;
        if (i < s->n_mats)
            base_buf_printf(b, ", (acc) + rp_q * %u + %u", s->n_mats * columns, i * columns);
        else
            base_buf_printf(b, ", rp_e%u[rp_q]", i);
    }
    base_buf_puts(b, "); \\\n    __syncthreads(); \\\n} while (0)\n");
}

static void put_product(lowerer *L, const lower_cuda_segment *s, const lower_rows *own,
                        const char *name, uint32_t threads) {
    base_buf *b = &L->source;
    const uint32_t columns = s->n_mats * s->columns;
    if (s->left != RP_DTYPE_I16B32) {
        base_buf_printf(b,
                        "            rk_wait();\n"
                        "            rk_mm_float<F, rk_x_%s, %" PRId64
                        ", %u, %u>(x, n, w, acc, part);\n",
                        rp_dtype_name(s->left), s->k, columns, threads);
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
        lower_rows_call(L, own, name, "own");
        base_buf_puts(b, "\n                __syncthreads();\n");
    }
    base_buf_printf(b,
                    "                m.run(%s, 1, w, acc, part);\n"
                    "            } else {\n"
                    "                m.run(x, n, w, acc, part);\n"
                    "            }\n",
                    own ? "own" : "x");
}

static void put_segment(lowerer *L, const lower_cuda_segment *s, const lower_rows *own,
                        const char *own_name, uint32_t threads) {
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
    put_product(L, s, own, own_name, threads);
    base_buf_printf(b, "            %s_EPI(row0, n, item - %" PRId64 ", acc);\n        }\n",
                    s->frag, s->first_item);
}

/* So many that a thread has two blocks of quantised weights at most, and one element of a row that is made here, where they
 * can be. */
static uint32_t matmul_threads(const lower_cuda_segment *segs, uint32_t n, bool own) {
    int64_t most = own && segs[0].k > MATMUL_LEAST ? segs[0].k : MATMUL_LEAST;
    for (uint32_t i = 0; i < n; i++) {
        int64_t blocks = segs[i].k / 32 * segs[i].n_mats * segs[i].columns;
        if (segs[i].left == RP_DTYPE_I16B32 && blocks / 2 > most) most = blocks / 2;
    }
    return most < MATMUL_MOST ? (uint32_t)(most + 31) / 32 * 32 : MATMUL_MOST;
}

rp_status lower_cuda_matmul(lowerer *L, const char *name, ir_dim rows, const lower_rows *own,
                            const lower_cuda_segment *segs, uint32_t n, uint32_t *threads) {
    base_buf *b = &L->source;
    uint32_t most = 1;
    char *own_name = base_arena_printf(L->arena, "%s_row", name);
    if (!own_name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    if (own) RP_TRY(lower_rows_function(L, own, own_name));
    for (uint32_t i = 0; i < n; i++)
        if (segs[i].n_mats * segs[i].columns > most) most = segs[i].n_mats * segs[i].columns;
    const int64_t n_items = segs[n - 1].first_item + segs[n - 1].n_items;
    *threads = matmul_threads(segs, n, own != NULL);
    lower_cuda_head(L, name, *threads, 0, "");
    base_buf_printf(b,
                    "    __shared__ float acc[RK_MM_ROWS * %u], part[RK_MM_PART];\n"
                    "    const long long rows = ",
                    most);
    ir_dim_print_c(L->out->dims, ir_dim_import(L->out->dims, ir_graph_dims(L->g), rows), "dim", b);
    if (own)
        base_buf_printf(b,
                        ";\n    __shared__ int4 own_row[%" PRId64
                        "];\n    char *const own = (char *)own_row",
                        (segs[0].k / 32 * 72 + 15) / 16);
    base_buf_printf(b,
                    ";\n"
                    "    for (long long at = blockIdx.x; at < items; at += gridDim.x) {\n"
                    "        const long long item = at %% %" PRId64 ", row0 = at / %" PRId64
                    " * RK_MM_ROWS;\n"
                    "        const int n = rows - row0 < RK_MM_ROWS ? (int)(rows - row0) : "
                    "RK_MM_ROWS;\n",
                    n_items, n_items);
    for (uint32_t i = 0; i < n; i++) put_segment(L, &segs[i], own, own_name, *threads);
    base_buf_puts(b, "    }\n}\n");
    return base_buf_status(b, L->err);
}

ir_dim lower_cuda_matmul_items(lowerer *L, ir_dim rows, int64_t n) {
    ir_dims *t = ir_graph_dims(L->g);
    ir_dim up = ir_dim_add(t, rows, ir_dim_const(t, LOWER_CUDA_ROWS - 1));
    return ir_dim_mul_const(t, ir_dim_floordiv(t, up, LOWER_CUDA_ROWS), n);
}

/* --- attention ------------------------------------------------------------------- */

/* Heads of a kv head that a cluster takes: rk_attn's `parts`. */
static uint32_t attention_parts(const gen_attention_record *r) {
    const uint32_t most = r->head_dim > 512 ? 1 : r->head_dim > 256 ? 2 : r->head_dim > 128 ? 4 : 8;
    return (r->heads / r->kv_heads + most - 1) / most;
}

/* The kernel NAME over arguments q, k, v, seqs, positions, block_tables, out: of clusters of `blocks`, or of tiles (0). */
static void put_attention(lowerer *L, const lower_cuda_attention *a, const char *name,
                          uint32_t blocks, bool tensor) {
    static const char call[] =
        "A::run(r, (const float *)arg[0], (const A::element *)arg[1], (const A::element *)arg[2], "
        "(const rp_i32 *)arg[3], (const rp_i32 *)arg[4], (const rp_i32 *)arg[5], (float *)arg[6], ";
    const gen_attention_record *r = &a->record;
    ir_dims *t = L->out->dims;
    base_buf *b = &L->source;
    char cluster[48] = "";
    if (blocks) (void)snprintf(cluster, sizeof cluster, "RK_CLUSTER(RK_ATTN_BLOCKS(%u)) ", blocks);
    const char *tile = tensor ? "rk_attn_flash" : "rk_attn_tile";
    const char *height = tensor ? "RK_FLASH_ROWS" : "RK_ATTN_ROWS";
    /* The operands of a warp on tensor cores take the registers of two blocks. */
    lower_cuda_head(L, name, ATTENTION_THREADS, tensor ? 1 : ATTENTION_PER_SM, cluster);
    base_buf_puts(b, "    const long long rows = ");
    ir_dim_print_c(t, a->rows, "dim", b);
    base_buf_puts(b, ", n_tables = ");
    ir_dim_print_c(t, a->n_tables, "dim", b);
    base_buf_puts(b, ", width = ");
    ir_dim_print_c(t, a->width, "dim", b);
    base_buf_printf(b, ";\n    typedef %s<rk_kv_%s, %u, %u, %u, %u", blocks ? "rk_attn" : tile,
                    rp_dtype_name(r->kv), r->heads, r->kv_heads, r->head_dim, r->block_size);
    if (blocks) base_buf_printf(b, ", RK_ATTN_BLOCKS(%u)", blocks);
    base_buf_puts(b, "> A;\n    __shared__ A::room r;\n    rk_wait();\n");
    if (blocks)
        base_buf_printf(b,
                        "    const int blocks = RK_ATTN_BLOCKS(%u);\n"
                        "    for (long long item = blockIdx.x / blocks; item < rows * A::units; "
                        "item += gridDim.x / blocks)\n"
                        "        %sn_tables, width, %af, item);\n}\n",
                        blocks, call, (double)r->scale);
    else
        base_buf_printf(b,
                        "    for (long long item = blockIdx.x; item < (rows + %s - 1) / %s * "
                        "A::units; item += gridDim.x)\n"
                        "        %srows, n_tables, width, %af, item);\n}\n",
                        height, height, call, (double)r->scale);
}

bool lower_attention_on_tensor_cores(const lowerer *L, const gen_attention_record *r) {
    return L->opt->target == GEN_CUDA && !L->opt->exact && r->kv == RP_DTYPE_BF16 &&
           r->head_dim % 16 == 0 && r->head_dim <= 128;
}

/* Classes of rows: clusters of `scratch` blocks, tiles, and (per_sm) tiles on tensor cores. */
static uint32_t attention_classes(const lower_cuda_attention *a, int64_t units, lower_alt *alts) {
    const int64_t most = a->tensor ? ATTENTION_EXACT : INT64_MAX;
    uint32_t n = 0;
    for (uint32_t blocks = ATTENTION_SPLIT; blocks; blocks = blocks > 2 ? blocks / 2 : 0) {
        int64_t max = ATTENTION_BLOCKS / (units * blocks);
        if (max > most) max = most;
        if (max > (n ? alts[n - 1].max : 0)) alts[n++] = (lower_alt){.max = max, .scratch = blocks};
    }
    if (!n || alts[n - 1].max < most) alts[n++] = (lower_alt){.max = most};
    if (a->tensor) alts[n++] = (lower_alt){.max = INT64_MAX, .per_sm = FLASH_PER_SM};
    return n;
}

/* A row has as many blocks as there are multiprocessors for, while it is one of few. */
rp_status lower_cuda_attention_kernels(lowerer *L, const lower_cuda_attention *a, lower_launch *l) {
    const int64_t units = (int64_t)a->record.kv_heads * attention_parts(&a->record);
    const uint32_t index = L->out->n_kernels;
    l->threads = ATTENTION_THREADS;
    l->per_block = 1;
    l->n_alts = attention_classes(a, units, l->alts);
    for (uint32_t i = 0; i < l->n_alts; i++) {
        const size_t begin = L->source.len;
        const uint32_t blocks = (uint32_t)l->alts[i].scratch;
        const bool tensor = l->alts[i].per_sm != 0;
        char *name =
            blocks ? base_arena_printf(L->arena, "attn_fused_attention_%u_rows%u", index, blocks)
                   : base_arena_printf(L->arena, "attn_fused_attention_%u_%s", index,
                                       tensor ? "flash" : "tiles");
        if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
        put_attention(L, a, name, blocks, tensor);
        lower_add_kernel(L, name, begin, (gen_matmul_uses){.attention = true, .tensor = tensor});
        l->alts[i].symbol = name;
        l->alts[i].scratch = 0;
    }
    l->items = ir_dim_mul_const(L->out->dims, a->rows, units * ATTENTION_SPLIT);
    return base_buf_status(&L->source, L->err);
}
