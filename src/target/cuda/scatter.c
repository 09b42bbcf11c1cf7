/* Scatters as kernels in CUDA C, which instantiate the templates of scatter.cu: which of them, for how many lines, by how many
 * blocks. A line is the targets of one (outer, inner); neighbours that share indices are one here. */
#include <inttypes.h>
#include <stdio.h>

#include "target/cuda/cuda.h"

enum {
    COLUMNS = 128, /* neighbours that a block takes, so that wide rows are several lines */
    WARP = 32,
    LEAST = 8, /* rk_scatter.LEAST */
    /* A GPU of 132 multiprocessors is full with so many blocks. Large ones are for long indices, at all of which every block
     * looks: as few blocks as there are multiprocessors read them. */
    LARGE = 1024,
    LARGE_BLOCKS = 132,
    LARGE_LINES = LARGE_BLOCKS / 2,
    LARGE_SOURCES = 4096, /* one look of small ones (rk_scatter.ROUND); two of i64 indices */
    SMALL = 256,
    SMALL_BLOCKS = 4 * 132,
    /* Elements that one block a multiprocessor moves as fast as four, each of which would look at all indices. */
    LITTLE = 1 << 20,
    LITTLE_BLOCKS = 132,
    /* Lines of which each thread has one of its own: of fewer it would wait for memory longer than blocks read what lies
     * between elements of a line. */
    ALONE_LINES = 2048
};

/* Memory is [outer, n, inner], of what comes [outer, k, inner]: sizes of the piece. */
typedef struct scattered {
    const ir_node *node, *index;
    ir_dim outer, n, k, inner, lines;
    bool own_outer, own_inner; /* the index has entries for each */
    int64_t columns;
} scattered;

static void bounds(const lowerer *L, ir_dim d, int64_t *lo, int64_t *hi) {
    ir_dim_bounds(L->out->dims, d, lo, hi);
}

static int64_t most(const lowerer *L, ir_dim d) {
    int64_t lo, hi;
    bounds(L, d, &lo, &hi);
    return hi;
}

static bool has_own(const lowerer *L, const ir_shape *index, uint32_t from, uint32_t to) {
    int64_t v;
    return !ir_dim_is_const(L->out->dims, target_cuda_extent(L, index, from, to), &v) || v != 1;
}

static rp_status scattered_of(const lowerer *L, const ir_node *n, scattered *s) {
    ir_dims *t = L->out->dims;
    const ir_node *x = ir_node_at(L->g, n->in[0]), *index = ir_node_at(L->g, n->in[1]);
    const uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0), rank = x->shape.rank;
    *s = (scattered){
        .node = n,
        .index = index,
        .outer = target_cuda_extent(L, &x->shape, 0, axis),
        .n = target_cuda_extent(L, &x->shape, axis, axis + 1),
        .k = target_cuda_extent(L, &ir_node_at(L->g, n->in[2])->shape, axis, axis + 1),
        .inner = target_cuda_extent(L, &x->shape, axis + 1, rank),
        .own_outer = has_own(L, &index->shape, 0, axis),
        .own_inner = has_own(L, &index->shape, axis + 1, index->shape.rank),
    };
    if (ir_dim_mul(t, ir_dim_mul(t, s->outer, s->n), s->inner) == IR_DIM_BAD)
        return lower_bytes_refused(L->g, x, L->err);
    s->columns = s->own_inner || most(L, s->inner) <= 1 ? 1 : COLUMNS;
    ir_dim parts = ir_dim_add(t, s->inner, ir_dim_const(t, s->columns - 1));
    s->lines = ir_dim_mul(t, s->outer, ir_dim_floordiv(t, parts, s->columns));
    return s->lines == IR_DIM_BAD ? lower_bytes_refused(L->g, x, L->err) : RP_OK;
}

/* What is there, a, and what comes, b: integers over S and U, as ops.def has them; `kept`: what stays. Of a bool 0 or 1 is stored. */
static void put_join(lowerer *L, const ir_node *n, const char *name) {
    const ir_op_info *op = ir_op_table(n->op);
    const bool is_int = ir_dtype_is_integer(n->dtype);
    const uint32_t bits = (uint32_t)rp_dtype_block_bytes(n->dtype) * 8;
    const char *truth = n->dtype == RP_DTYPE_BOOL ? " != 0" : "";
    base_buf *b = &L->source;
    base_buf_printf(b, "struct %s_join {\n", name);
    if (n->op == IR_scatter)
        base_buf_printf(b, "    typedef rp_u%u T;\n    RP_INLINE T of(T, T b) { return b%s; }\n",
                        bits, truth);
    else if (is_int)
        base_buf_printf(b,
                        "    typedef rp_%s T, S;\n    typedef rp_u%u U;\n    RP_INLINE T of(T a, "
                        "T b) { return %s; }\n",
                        rp_dtype_name(n->dtype), bits < 32 ? 32 : bits, op->ints);
    else
        base_buf_printf(b, "    typedef %s T;\n    RP_INLINE T of(T a, T b) { return %s; }\n",
                        n->dtype == RP_DTYPE_F64 ? "double" : "float", op->expr);
    base_buf_printf(b, "    RP_INLINE T kept(T a) { return a%s; }\n};\n", truth);
}

/* The kernel up to its sizes. */
static void begin(lowerer *L, const scattered *s, const char *name, uint32_t threads) {
    put_join(L, s->node, name);
    target_cuda_head(L, name, threads, threads == SMALL ? 4 : 1, "");
    base_buf_printf(&L->source,
                    "    typedef %s_join J;\n    typedef J::T T;\n    typedef rp_%s I;\n", name,
                    rp_dtype_name(s->index->dtype));
    target_cuda_put(L, "outer", s->outer);
    target_cuda_put(L, "n", s->n);
    target_cuda_put(L, "k", s->k);
    target_cuda_put(L, "inner", s->inner);
    base_buf_puts(&L->source, "    rk_wait();\n");
}

static void put_blocks(lowerer *L, const scattered *s, uint32_t threads) {
    base_buf_printf(&L->source,
                    "    typedef rk_scatter<J, I, %u, %" PRId64 "> S;\n"
                    "    __shared__ S::room r;\n"
                    "    S::of s = {(const T *)arg[0], (const I *)arg[1], (const T *)arg[2], "
                    "(T *)arg[3], outer, n, k, inner, %s, %s};\n"
                    "    S::all(r, s);\n",
                    threads, s->columns, s->own_outer ? s->own_inner ? "k * inner" : "k" : "0",
                    s->own_inner ? "inner" : "1");
}

static void put_alone(lowerer *L, const scattered *s) {
    base_buf_printf(&L->source,
                    "    for (long long item = blockIdx.x * %dLL + threadIdx.x; item < items; "
                    "item += gridDim.x * %dLL) {\n"
                    "        const long long o = item / inner, j = item %% inner, to = o * n * "
                    "inner + j, from = o * k * inner + j;\n"
                    "        rk_scatter_alone<J, I>((const T *)arg[0] + to, (const I *)arg[1] + "
                    "%s, (const T *)arg[2] + from, (T *)arg[3] + to, n, k, inner);\n    }\n",
                    SMALL, SMALL, s->own_outer ? "from" : "j");
}

/* One more kernel of l, for up to so many lines. */
static rp_status add(lowerer *L, const scattered *s, lower_launch *l, const char *suffix,
                     const lower_alt *alt) {
    const size_t from = L->source.len;
    char *name = base_arena_printf(L->arena, "%s_%s", l->name, suffix);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    lower_alt *a = &l->alts[l->n_alts++];
    *a = *alt;
    a->symbol = name;
    begin(L, s, name, a->threads);
    if (a->blocks)
        put_blocks(L, s, a->threads);
    else
        put_alone(L, s);
    base_buf_puts(&L->source, "}\n");
    (void)lower_add_kernel(L, name, from, (gen_matmul_uses){.scatter = true});
    return base_buf_status(&L->source, L->err);
}

/* No more blocks than there are ranges that are worth one. */
static uint32_t blocks_of(const lowerer *L, const scattered *s, uint32_t full) {
    const int64_t lines = most(L, s->lines), ranges = most(L, s->n) / LEAST;
    if (lines >= full || ranges >= full) return full;
    const int64_t all = lines * (ranges > 1 ? ranges : 1);
    return all < 1 ? 1 : all < full ? (uint32_t)all : full;
}

/* How many small ones. */
static uint32_t small_blocks(const lowerer *L, const scattered *s) {
    ir_dims *t = L->out->dims;
    const ir_dim rows = ir_dim_add(t, s->n, s->k);
    const ir_dim moved = ir_dim_mul(t, ir_dim_mul(t, s->outer, rows), s->inner);
    const bool little = moved != IR_DIM_BAD && most(L, moved) <= LITTLE;
    const bool few = most(L, s->lines) <= LITTLE_BLOCKS;
    return blocks_of(L, s, little && few ? LITTLE_BLOCKS : SMALL_BLOCKS);
}

static rp_status add_all(lowerer *L, const scattered *s, lower_launch *l) {
    int64_t fewest, lines, narrow, wide;
    bounds(L, s->lines, &fewest, &lines);
    bounds(L, s->inner, &narrow, &wide);
    const int64_t alone = s->own_inner && narrow >= WARP ? ALONE_LINES : INT64_MAX;
    int64_t at = fewest; /* lines that no kernel is for yet */
    if (at <= LARGE_LINES && most(L, s->k) > LARGE_SOURCES) {
        at = lines <= LARGE_LINES ? INT64_MAX : LARGE_LINES + 1;
        RP_TRY(add(L, s, l, "few",
                   &(lower_alt){.max = at < INT64_MAX ? LARGE_LINES : at,
                                .threads = LARGE,
                                .per_block = 1,
                                .blocks = blocks_of(L, s, LARGE_BLOCKS)}));
    }
    if (at < alone) {
        at = lines < alone ? INT64_MAX : alone;
        RP_TRY(add(L, s, l, "many",
                   &(lower_alt){.max = at < INT64_MAX ? alone - 1 : at,
                                .threads = SMALL,
                                .per_block = 1,
                                .blocks = small_blocks(L, s)}));
    }
    if (at < INT64_MAX)
        RP_TRY(add(L, s, l, "alone",
                   &(lower_alt){.max = INT64_MAX, .threads = SMALL, .per_block = SMALL}));
    return RP_OK;
}

rp_status target_cuda_scatter(lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    lower_ref args[4];
    scattered s;
    RP_TRY(scattered_of(L, n, &s));
    for (uint32_t i = 0; i < 3; i++) RP_TRY(lower_operand_memory(L, n->in[i], &args[i]));
    RP_TRY(lower_memory(L, r, &args[3]));
    for (uint32_t i = 0; i < 4; i++) L->args[i] = args[i];
    L->n_args = 4;
    lower_write_args(L, 3);
    lower_launch made = {.name = lower_name(L, "axis", &r, 1, (uint32_t)(L->group - L->f->groups)),
                         .rows = s.lines,
                         .items = ir_dim_mul(L->out->dims, s.outer, s.inner),
                         .grain = 1,
                         .threads = SMALL,
                         .per_block = 1};
    if (!made.name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    RP_TRY(add_all(L, &s, &made));
    lower_launch *l = lower_add_launch(L);
    *l = made;
    return lower_take_args(L, l);
}
