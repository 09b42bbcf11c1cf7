/* Kernels in CUDA C for paged attention: one for each class of rows, which instantiates a template of the embedded .cu files. Sizes were chosen for a GPU of
 * some 132 multiprocessors. */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "target/cuda/cuda.h"

enum {
    N_SM = 132,
    MOST_BLOCKS = 16, /* of a cluster: all that a GPU can have */
    EXACT_BLOCKS = 8, /* without tensor cores */
    THREADS = 256,    /* RK_ATTN_THREADS: of all but those on tensor cores for few rows */
    EXACT_PER_SM = 2, /* blocks on a multiprocessor */
    EXACT_FULL = 288, /* blocks with which a large GPU is full */
    EXACT_ROWS = 32,  /* RK_ATTN_ROWS: of a tile */
    SPLIT_WARPS = 4,  /* of a block on tensor cores for few rows */
    SPLIT_TEAM = 4,   /* of them that share a chunk, where a row has as many blocks as: */
    TEAM_BLOCKS = 8,
    SPLIT_MOST = 64,   /* RK_STREAM_ROWS: rows at most that these take, of every ladder a size */
    FLASH_ROWS = 128,  /* RK_FLASH_ROWS: of a tile on tensor cores */
    FLASH_KEYS = 64,   /* RK_FLASH_KEYS */
    SPREAD = 8,        /* blocks of a tile and head .. */
    SPREAD_MOST = 512, /* .. of so many rows at most, which may be of as many requests */
    SPREAD_FEW = 256,  /* rk_attn_flash takes as long for so many as rk_attn_prefill */
    NARROW_HEAD = 64,  /* heads of more dims take twice the registers */
    PREFILL_HEAD = 64, /* rk_attn_prefill: HD */
    PREFILL_THREADS = 384, /* N */
    PREFILL_STAGES = 2,    /* STAGES */
    PREFILL_KEYS = 128     /* KEYS */
};

/* Attention over `rows` with tables of blocks, n_tables rows of width, over a cache of n_blocks (dims of the piece). */
typedef struct attention {
    gen_attention_record record;
    ir_dim rows, n_tables, width, n_blocks;
    bool tensor; /* is_on_tensor_cores */
} attention;

/* The kernel for up to so many rows: clusters of `blocks` take them one by one, or (0) blocks take tiles of them. */
typedef struct row_class {
    int64_t most;
    uint32_t blocks, spread; /* spread: of rk_attn_flash and rk_attn_prefill */
} row_class;

static bool refuse(const gen_attention_record *r, const char *why, uint32_t value) {
    base_log_ch(RP_LOG_CH_AUTOTUNING, false,
                "attention of %u heads: no tensor cores, sums as on the host: %s %u", r->heads, why,
                value);
    return false;
}

/* The channel `autotuning` says why it is not, unless exact sums are wanted. */
static bool is_on_tensor_cores(const lowerer *L, const gen_attention_record *r) {
    if (L->opt->exact) return false;
    if (r->kv != RP_DTYPE_BF16)
        return refuse(r, "the cache is not bf16 but of type", (uint32_t)r->kv);
    if (r->head_dim % 16) return refuse(r, "head_dim is not a multiple of 16:", r->head_dim);
    if (r->head_dim > 128) return refuse(r, "head_dim is more than 128:", r->head_dim);
    if (r->block_size % 16)
        return refuse(r, "blocks of the cache are not whole 16 positions:", r->block_size);
    return true;
}

/* Clusters that take a row: `units` of rk_attn and of rk_attn_split. */
static uint32_t units_of(const gen_attention_record *r) {
    const uint32_t most = r->head_dim > 512 ? 1 : r->head_dim > 256 ? 2 : r->head_dim > 128 ? 4 : 8;
    return r->kv_heads * ((r->heads / r->kv_heads + most - 1) / most);
}

static bool is_narrow(const attention *a) {
    return a->record.head_dim <= NARROW_HEAD;
}

/* Whether a warp of rk_attn_flash has 32 rows. */
static bool is_tall(const attention *a, const row_class *c) {
    return is_narrow(a) && c->spread == 1;
}

/* Rows that are enough for all multiprocessors are streamed. */
static bool is_streamed(const attention *a, const row_class *c) {
    return a->tensor && c->blocks == 1;
}

/* Whether a step has so many rows that groups of warps with work of their own take them: more than any class of blocks by rows has. */
static bool is_prefill(const attention *a, const row_class *c) {
    return a->tensor && c->most > SPREAD_FEW && a->record.head_dim == PREFILL_HEAD;
}

/* Warps that share a chunk on tensor cores: of rows so few that others would have none. */
static uint32_t split_team(const row_class *c) {
    return c->blocks >= TEAM_BLOCKS ? SPLIT_TEAM : 1;
}

/* Whether a row of long heads has blocks of as many warps as one of short heads, each alone on a multiprocessor. */
static bool is_alone(const attention *a, const row_class *c) {
    return a->tensor && !is_narrow(a) && split_team(c) > 1 && c->most == 1;
}

/* Whether a row's first keys and values are read before the wait where that is promised to be right: by the largest clusters, with which it was faster. */
static bool reads_early(const attention *a, const row_class *c) {
    return a->tensor && c->blocks == MOST_BLOCKS;
}

/* Warps of a block on tensor cores for few rows. */
static uint32_t split_warps(const attention *a, const row_class *c) {
    return is_alone(a, c) || (is_narrow(a) && split_team(c) > 1) ? 2 * SPLIT_WARPS : SPLIT_WARPS;
}

/* Sizes of rk_attn_stream: more warps hide more of what a cell takes to compute, more cells under way make the last ones wait for each other. Heads of 64 and 128
 * dims with eight queries, the most that there can be, fit. */
typedef struct stream_size {
    uint32_t per_sm, warps, slots, chunks;
} stream_size;

static stream_size stream_size_of(const attention *a, const row_class *c) {
    static const stream_size narrow = {2, 6, 3, 18}, alone = {1, 8, 3, 24}, wide = {1, 8, 2, 24};
    return !is_narrow(a) ? wide : c->most < SPLIT_MOST ? alone : narrow;
}

/* Its dynamic shared memory: rings with a barrier a cell, results and bases of chunks, what rows are. */
static int64_t stream_bytes(const attention *a, const row_class *c) {
    const gen_attention_record *r = &a->record;
    const stream_size s = stream_size_of(a, c);
    const int64_t group = r->heads / r->kv_heads, parts = (group + 7) / 8,
                  queries = (group + parts - 1) / parts,
                  fours = ((int64_t)r->head_dim + 63) / 64 * 16,
                  ring = (int64_t)s.warps * s.slots * (64 * (int64_t)r->head_dim + 8);
    return (ring + (s.chunks * (fours * 16 + 8) + 8) * queries + SPLIT_MOST * 8 + 15) / 16 * 16;
}

/* Blocks that shall have room on a multiprocessor, by their registers. */
static uint32_t per_sm(const attention *a, const row_class *c) {
    if (!a->tensor) return EXACT_PER_SM;
    if (!c->blocks) return is_tall(a, c) && !is_prefill(a, c) ? 2 : 1;
    if (is_streamed(a, c)) return stream_size_of(a, c).per_sm;
    if (is_narrow(a)) return split_team(c) > 1 ? 2 : c->blocks > 1 ? 3 : 4;
    return is_alone(a, c) ? 1 : 2;
}

/* Blocks with which a GPU is full. Two with long heads fit on a multiprocessor, but clusters of more than two of them found no room for all
 * at once on an H200; the largest clusters come in beside other kernels' blocks only while they are few. */
static int64_t full_of(const attention *a, uint32_t blocks) {
    if (!a->tensor) return EXACT_FULL;
    if (blocks == MOST_BLOCKS) return N_SM / 2;
    return (int64_t)N_SM * (is_narrow(a) || blocks <= 2 ? 2 : 1);
}

/* A row has as many blocks as there are multiprocessors for, while it is one of few. */
static uint32_t find_classes(const attention *a, row_class *classes) {
    const int64_t most = a->tensor ? SPLIT_MOST : INT64_MAX;
    const uint32_t least = a->tensor ? 1 : 2;
    uint32_t n = 0;
    for (uint32_t blocks = a->tensor ? MOST_BLOCKS : EXACT_BLOCKS; blocks >= least; blocks /= 2) {
        int64_t rows = blocks > 1 ? full_of(a, blocks) / ((int64_t)units_of(&a->record) * blocks)
                                  : most;
        if (rows > most) rows = most;
        const row_class one = {1, blocks, 1};
        if (!n && rows > 1 && is_alone(a, &one)) classes[n++] = one;
        /* Two blocks for each row of short heads are slower than one that has a multiprocessor alone. */
        const bool alone = a->tensor && is_narrow(a) && blocks == 2;
        if (rows > (n ? classes[n - 1].most : 0))
            classes[n++] = (row_class){rows, alone ? 1 : blocks, 1};
    }
    if (a->tensor && a->record.head_dim == PREFILL_HEAD)
        classes[n++] = (row_class){SPREAD_FEW, 0, SPREAD};
    if (a->tensor) classes[n++] = (row_class){SPREAD_MOST, 0, SPREAD};
    classes[n++] = (row_class){INT64_MAX, 0, 1};
    return n;
}

/* "TEMPLATE<sizes> A; room": what a kernel instantiates. */
static void put_type(lowerer *L, const attention *a, const row_class *c) {
    const gen_attention_record *r = &a->record;
    const uint32_t blocks = c->blocks;
    base_buf *b = &L->source;
    base_buf_printf(b, "    typedef %s<",
                    is_streamed(a, c)  ? "rk_attn_stream"
                    : is_prefill(a, c) ? "rk_attn_prefill"
                    : a->tensor        ? (blocks ? "rk_attn_split" : "rk_attn_flash")
                                       : (blocks ? "rk_attn" : "rk_attn_tile"));
    if (!a->tensor) base_buf_printf(b, "rk_kv_%s, ", rp_dtype_name(r->kv));
    base_buf_printf(b, "%u, %u, %u, %u", r->heads, r->kv_heads, r->head_dim, r->block_size);
    if (is_streamed(a, c)) {
        const stream_size s = stream_size_of(a, c);
        base_buf_printf(b, ", %u, %u, %u> A;\n", s.warps, s.slots, s.chunks);
        return;
    }
    if (blocks) base_buf_printf(b, ", RK_ATTN_BLOCKS(%u)", blocks);
    if (a->tensor) base_buf_printf(b, ", %u", blocks ? split_warps(a, c) : c->spread);
    if (a->tensor && blocks) base_buf_printf(b, ", %u", split_team(c));
    base_buf_puts(b, "> A;\n    __shared__ A::room r;\n");
}

/* The first keys and values are on their way while the kernels in front run. */
static void put_announcement(lowerer *L, const attention *a) {
    base_buf *b = &L->source;
    base_buf_puts(
        b, "    A::guess hint = A::no_guess();\n"
           "    if ((long long)(blockIdx.x / blocks) < n)\n"
           "        hint = A::announce((const A::element *)arg[1], (const A::element *)arg[2], "
           "(const rp_i32 *)arg[4], (const rp_i32 *)arg[5], n_tables, width, ");
    ir_dim_print_c(L->out->dims, a->n_blocks, "dim", b);
    base_buf_puts(b, ", blockIdx.x / blocks);\n");
}

/* The kernel over arguments q, k, v, seqs, positions, block_tables, out. */
static void put_kernel(lowerer *L, const attention *a, const lower_alt *alt, const row_class *c) {
    ir_dims *t = L->out->dims;
    const uint32_t blocks = c->blocks;
    base_buf *b = &L->source;
    char cluster[48] = "";
    if (blocks) (void)snprintf(cluster, sizeof cluster, "RK_CLUSTER(RK_ATTN_BLOCKS(%u)) ", blocks);
    target_cuda_head_with(L, alt->symbol, alt->threads, per_sm(a, c), cluster, "settled");
    base_buf_puts(b, "    const long long rows = ");
    ir_dim_print_c(t, a->rows, "dim", b);
    base_buf_puts(b, ", n_tables = ");
    ir_dim_print_c(t, a->n_tables, "dim", b);
    base_buf_puts(b, ", width = ");
    ir_dim_print_c(t, a->width, "dim", b);
    base_buf_puts(b, ";\n");
    put_type(L, a, c);
    if (alt->scratch)
        base_buf_printf(b, "    static_assert(A::bytes == %" PRId64 ", \"shared memory\");\n",
                        alt->scratch);
    if (blocks)
        base_buf_printf(b, "    const int blocks = RK_ATTN_BLOCKS(%u);\n", blocks);
    else
        base_buf_printf(b, "    const int blocks = 1, height = %d;\n",
                        a->tensor ? FLASH_ROWS : EXACT_ROWS);
    base_buf_printf(b, "    const long long n = %s * A::units;\n",
                    blocks ? "rows" : "(rows + height - 1) / height");
    const bool hints = blocks && a->tensor, split = hints && !is_streamed(a, c);
    if (split) base_buf_puts(b, "    A::prepare(r);\n    rp_u32 phase = 0;\n    A::state w;\n");
    if (hints) put_announcement(L, a);
    base_buf_puts(b, reads_early(a, c) ? "    A::read_early(w, hint, settled != 0);\n"
                                       : "    (void)settled;\n");
    if (is_streamed(a, c)) {
        base_buf_printf(
            b,
            "    rk_wait();\n"
            "    const A::step s = {(const float *)arg[0], (const A::element *)arg[1], (const "
            "A::element *)arg[2], (const rp_i32 *)arg[3], (const rp_i32 *)arg[4], (const rp_i32 "
            "*)arg[5], (float *)arg[6], n_tables, (rp_size)width, %af, (int)rows, (int)n};\n"
            "    A::run(s, hint);\n}\n",
            (double)a->record.scale);
        return;
    }
    if (is_prefill(a, c)) {
        base_buf_printf(
            b,
            "    A::start();\n"
            "    rk_wait();\n"
            "    A::run(r, (const float *)arg[0], (const A::element *)arg[1], (const A::element "
            "*)arg[2], (const rp_i32 *)arg[3], (const rp_i32 *)arg[4], (const rp_i32 *)arg[5], "
            "(float *)arg[6], rows, n_tables, width, %af, n);\n}\n",
            (double)a->record.scale);
        return;
    }
    base_buf_printf(b,
                    "    rk_wait();\n"
                    "    for (long long item = blockIdx.x / blocks; item < n; item += gridDim.x / "
                    "blocks)%s\n"
                    "        A::run(r, %s(const float *)arg[0], (const A::element *)arg[1], (const "
                    "A::element *)arg[2], (const rp_i32 *)arg[3], (const rp_i32 *)arg[4], (const "
                    "rp_i32 *)arg[5], (float *)arg[6], %sn_tables, width, %af, item%s\n}\n",
                    split ? " {" : "", split ? "w, " : "", blocks ? "" : "rows, ",
                    (double)a->record.scale,
                    split ? ", hint, phase);\n        hint = A::no_guess();\n    }" : ");");
}

/* What the launch of a class is but for its name. Of `items`, MOST_BLOCKS for each cluster of a row, a block takes so many that all blocks have work. */
static lower_alt alt_of(const attention *a, const row_class *c) {
    const gen_attention_record *r = &a->record;
    lower_alt alt = {.max = c->most, .threads = THREADS, .per_block = MOST_BLOCKS};
    if (c->blocks) {
        alt.per_block = MOST_BLOCKS / c->blocks;
        if (a->tensor) alt.threads = split_warps(a, c) * 32;
        if (is_streamed(a, c)) {
            const stream_size s = stream_size_of(a, c);
            alt.threads = s.warps * 32;
            alt.per_sm = s.per_sm;
            alt.scratch = stream_bytes(a, c);
        }
    } else if (a->tensor) {
        alt.per_block = MOST_BLOCKS * units_of(r) * FLASH_ROWS / (r->heads * c->spread);
        alt.threads = is_tall(a, c) ? FLASH_ROWS : 2 * FLASH_ROWS;
        alt.scratch = (int64_t)4 * FLASH_KEYS * (r->head_dim * 2 + 16);
    }
    if (is_prefill(a, c)) {
        alt.threads = PREFILL_THREADS;
        alt.per_sm = 1; /* which goes from item to item */
        alt.scratch = PREFILL_STAGES * (2 * PREFILL_KEYS * r->head_dim * 2 + 4 * 8) + 2 * 8;
    }
    return alt;
}

static char *name_of(lowerer *L, const attention *a, const row_class *c, uint32_t index) {
    if (is_streamed(a, c))
        return base_arena_printf(L->arena, "attn_fused_attention_%u_stream%" PRId64, index,
                                 c->most);
    if (c->blocks)
        return base_arena_printf(L->arena, "attn_fused_attention_%u_row%s%u", index,
                                 is_alone(a, c) ? "" : "s", c->blocks);
    const char *way = is_prefill(a, c) ? "prefill" : a->tensor ? "flash" : "tiles";
    if (c->spread > 1)
        return base_arena_printf(L->arena, "attn_fused_attention_%u_%s%u", index, way, c->spread);
    return base_arena_printf(L->arena, "attn_fused_attention_%u_%s", index, way);
}

/* The functions of a launch over L->args, by class of rows, and its items. */
static rp_status put_kernels(lowerer *L, const attention *a, lower_launch *l) {
    const uint32_t index = L->out->n_kernels;
    row_class classes[LOWER_MAX_ALTS];
    l->threads = THREADS;
    l->per_block = 1;
    l->n_alts = find_classes(a, classes);
    for (uint32_t i = 0; i < l->n_alts; i++) {
        const size_t begin = L->source.len;
        char *name = name_of(L, a, &classes[i], index);
        if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
        l->alts[i] = alt_of(a, &classes[i]);
        l->alts[i].symbol = name;
        put_kernel(L, a, &l->alts[i], &classes[i]);
        lower_add_kernel(L, name, begin, (gen_matmul_uses){.attention = true, .tensor = a->tensor});
    }
    l->items = ir_dim_mul_const(L->out->dims, a->rows, (int64_t)units_of(&a->record) * MOST_BLOCKS);
    if (l->items == IR_DIM_BAD)
        return rp_fail(L->err, RP_UNSUPPORTED, "attention of more than 2^63 items");
    return base_buf_status(&L->source, L->err);
}

rp_status target_cuda_attention(lowerer *L, const ir_node *n, const gen_attention_record *r,
                                lower_launch *l) {
    ir_dims *t = L->out->dims;
    const ir_dims *own = ir_graph_dims(L->g);
    const ir_shape *tables = &ir_node_at(L->g, n->in[5])->shape;
    const attention a = {
        .record = *r,
        .rows = l->rows,
        .n_tables = ir_dim_import(t, own, tables->dim[0]),
        .width = ir_dim_import(t, own, tables->dim[1]),
        .n_blocks = ir_dim_import(t, own, ir_node_at(L->g, n->in[1])->shape.dim[0]),
        .tensor = is_on_tensor_cores(L, r)};
    return put_kernels(L, &a, l);
}
