/* Scans as kernels in CUDA C, which instantiate the templates of axis.cu. A block takes a line of the axis, or each
 * of its threads one of its own where neighbours in memory are a warp at least. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "target/cuda/cuda.h"

enum {
    THREADS = 256, /* RK_SCAN_THREADS */
    WARP = 32,
    MOST_HELD = 8,    /* ranks that a thread of top-k keeps */
    FEW = 32,         /* the k largest are taken one after the other; more by sorting */
    SORT_TILE = 1024, /* RK_SORT_TILE */
    SORT_WORK = 24    /* bytes of work an element of a longer line */
};

/* Memory is [outer, n, inner]: dims of the piece. */
typedef struct line {
    ir_dim outer, n, inner;
    bool alone; /* each thread has one */
} line;

ir_dim target_cuda_extent(const lowerer *L, const ir_shape *s, uint32_t from, uint32_t to) {
    ir_dims *t = L->out->dims;
    ir_dim all = ir_dim_const(t, 1);
    for (uint32_t i = from; i < to; i++)
        all = ir_dim_mul(t, all, ir_dim_import(t, ir_graph_dims(L->g), s->dim[i]));
    return all;
}

static rp_status line_of(const lowerer *L, const ir_node *n, line *out) {
    const ir_node *x = ir_node_at(L->g, n->in[0]);
    uint32_t rank = x->shape.rank;
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, (int64_t)rank - 1);
    int64_t lo, hi;
    *out = (line){target_cuda_extent(L, &x->shape, 0, axis),
                  target_cuda_extent(L, &x->shape, axis, axis + 1),
                  target_cuda_extent(L, &x->shape, axis + 1, rank), false};
    if (ir_dim_mul(L->out->dims, ir_dim_mul(L->out->dims, out->outer, out->n), out->inner) ==
        IR_DIM_BAD)
        return lower_bytes_refused(L->g, x, L->err);
    ir_dim_bounds(L->out->dims, out->inner, &lo, &hi);
    out->alone = lo >= WARP;
    return RP_OK;
}

static int64_t most(const lowerer *L, ir_dim d) {
    int64_t lo, hi;
    ir_dim_bounds(L->out->dims, d, &lo, &hi);
    return hi;
}

void target_cuda_put(lowerer *L, const char *name, ir_dim d) {
    base_buf_printf(&L->source, "    const long long %s = ", name);
    ir_dim_print_c(L->out->dims, d, "dim", &L->source);
    base_buf_puts(&L->source, ";\n");
}

/* The kernel up to the call for line `item`. `first`: of x and what is like it. */
static void begin(lowerer *L, const char *name, const line *a, uint32_t threads) {
    base_buf *b = &L->source;
    target_cuda_head(L, name, threads, 0, "");
    base_buf_puts(b, "    rk_wait();\n");
    target_cuda_put(L, "n", a->n);
    target_cuda_put(L, "inner", a->inner);
    if (a->alone)
        base_buf_printf(b,
                        "    for (long long item = blockIdx.x * %uLL + threadIdx.x; item < items; "
                        "item += gridDim.x * %uLL) {\n",
                        threads, threads);
    else
        base_buf_puts(b,
                      "    for (long long item = blockIdx.x; item < items; item += gridDim.x) {\n");
    base_buf_puts(b, "        const long long o = item / inner, j = item % inner, "
                     "first = o * n * inner + j;\n");
}

static rp_status end(lowerer *L, char *name, size_t from, const line *a, uint32_t threads) {
    ir_dims *t = L->out->dims;
    base_buf_puts(&L->source, "    }\n}\n");
    (void)lower_add_kernel(L, name, from, (gen_matmul_uses){.axis = true});
    lower_launch *l = lower_add_launch(L);
    l->name = name;
    l->alts[0] = (lower_alt){.max = INT64_MAX, .symbol = name};
    l->n_alts = 1;
    l->rows = l->items = ir_dim_mul(t, a->outer, a->inner);
    l->grain = 1;
    l->threads = threads;
    l->per_block = a->alone ? threads : 1;
    RP_TRY(base_buf_status(&L->source, L->err));
    return lower_take_args(L, l);
}

/* Threads that have something to do for a line of n. */
static uint32_t threads_of(int64_t n) {
    return n < THREADS ? (uint32_t)((n + WARP - 1) / WARP * WARP + (n < 1) * WARP) : THREADS;
}

static char *name_of(lowerer *L, ir_ref r) {
    return lower_name(L, "axis", &r, 1, (uint32_t)(L->group - L->f->groups));
}

/* --- scans ------------------------------------------------------------------------- */

static void put_cumsum(lowerer *L, const char *element, const line *a) {
    base_buf_printf(&L->source,
                    "        typedef %s E;\n"
                    "        rk_cumsum_%s<E>((const E::memory *)arg[0] + first, (E::memory "
                    "*)arg[1] + first, n, inner);\n",
                    element, a->alone ? "alone" : "line");
}

static void put_topk(lowerer *L, const char *element, int64_t k, int64_t held) {
    base_buf_printf(&L->source,
                    "        typedef %s E;\n"
                    "        rk_topk<E, %" PRId64
                    ">((const E::memory *)arg[0] + first, (E::memory *)arg[1] + "
                    "o * %" PRId64 ", (rp_i32 *)arg[2] + o * %" PRId64 ", n, %" PRId64 ");\n",
                    element, held, k, k, k);
}

/* k: how many are wanted, behind each other; 0: all. */
static void put_sort(lowerer *L, const char *element, bool down, int64_t k, bool works) {
    base_buf *b = &L->source;
    base_buf_printf(b, "        typedef %s E;\n", element);
    if (k)
        base_buf_printf(b, "        const long long to = o * %" PRId64 ", count = %" PRId64 ";\n",
                        k, k);
    else
        base_buf_puts(b, "        const long long to = first, count = n;\n");
    base_buf_printf(b,
                    "        rk_sort<E, %d>((const E::memory *)arg[0] + first, (E::memory "
                    "*)arg[1] + to, (rp_i32 *)arg[2] + to, ",
                    down);
    if (works)
        base_buf_printf(b, "arg[3] + item * n * %d", SORT_WORK);
    else
        base_buf_putc(b, '0');
    base_buf_puts(b, ", n, inner, count);\n");
}

/* Sorts, where a line may be longer than a tile in memory that is argument 3. */
static rp_status sort_kernel(lowerer *L, const ir_node *n, char *name, const char *element,
                             line *a) {
    const ir_node *x = ir_node_at(L->g, n->in[0]);
    const bool works = most(L, a->n) > SORT_TILE;
    const bool down = n->op == IR_topk || ir_attr_int(n, IR_ATTR_DESCENDING, 0);
    a->alone = false;
    if (works) {
        ir_node bytes = *x;
        ir_dims *t = ir_graph_dims(L->g);
        bytes.dtype = RP_DTYPE_U8;
        ir_dim work = ir_dim_mul_const(t, lower_bytes(t, &bytes), SORT_WORK);
        RP_TRY(lower_temp_memory(L, n, work, &L->args[L->n_args++]));
        lower_write_args(L, 3);
    }
    const size_t from = L->source.len;
    begin(L, name, a, THREADS);
    put_sort(L, element, down, ir_attr_int(n, IR_ATTR_K, 0), works);
    return end(L, name, from, a, THREADS);
}

static rp_status scan_kernel(lowerer *L, const ir_node *n, char *name, const char *element,
                             line *a) {
    const int64_t k = ir_attr_int(n, IR_ATTR_K, 0), longest = most(L, a->n);
    const uint32_t threads = n->op == IR_topk ? threads_of(longest) : THREADS;
    const size_t from = L->source.len;
    if (n->op == IR_sort || (n->op == IR_topk && k > FEW))
        return sort_kernel(L, n, name, element, a);
    if (n->op != IR_cumsum && n->op != IR_topk)
        return rp_fail(L->err, RP_UNSUPPORTED, "%s has no kernel for a GPU",
                       ir_op_table(n->op)->name);
    begin(L, name, a, threads);
    if (n->op == IR_cumsum)
        put_cumsum(L, element, a);
    else
        put_topk(L, element, k,
                 longest <= MOST_HELD * THREADS ? (longest + threads - 1) / threads : 0);
    return end(L, name, from, a, threads);
}

/* --- the largest ------------------------------------------------------------------- */

enum { TOP_SPLIT = 8 }; /* items of a row */

/* The kernel for up to so many rows: blocks of a cluster, which takes a row, and how many fit on a multiprocessor; pieces that a thread has under way. */
typedef struct top_class {
    int64_t most;
    uint32_t split, threads, per_sm, ahead;
} top_class;

/* 15 clusters of eight blocks that each want a multiprocessor run at once. More rows have blocks of which two find room on each, four of them a row. */
static const top_class top_classes[] = {{15, TOP_SPLIT, 1024, 1, 4},
                                        {INT64_MAX, TOP_SPLIT / 2, 512, 2, 8}};
enum { N_TOPS = sizeof top_classes / sizeof *top_classes };

static void put_top(lowerer *L, const char *name, const top_class *c, ir_dim rows, ir_dim n) {
    base_buf *b = &L->source;
    ir_dims *t = L->out->dims;
    char cluster[32];
    (void)snprintf(cluster, sizeof cluster, "RK_CLUSTER(%u) ", c->split);
    target_cuda_head(L, name, c->threads, c->per_sm, cluster);
    base_buf_printf(b,
                    "    const int blocks = RK_BLOCKS(%u);\n"
                    "    typedef rk_top<blocks, %u, %u> T;\n"
                    "    __shared__ T::room r;\n"
                    "    const long long rows = ",
                    c->split, c->threads, c->ahead);
    ir_dim_print_c(t, rows, "dim", b);
    base_buf_puts(b, ", n = ");
    ir_dim_print_c(t, n, "dim", b);
    base_buf_puts(b, ";\n"
                     "    rk_wait();\n"
                     "    for (long long row = blockIdx.x / blocks; row < rows; row += gridDim.x / "
                     "blocks)\n"
                     "        T::run(r, (const float *)arg[0] + row * n, n, (float *)arg[1] + row, "
                     "(rp_i32 *)arg[2] + row);\n}\n");
}

/* The kernel of class c, as an alternative of the launch. */
static rp_status add_top(lowerer *L, const ir_shape *x, const top_class *c, lower_launch *l) {
    const size_t from = L->source.len;
    char *name = base_arena_printf(L->arena, "%s_s%u", l->name, c->split);
    if (!name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    l->alts[l->n_alts++] = (lower_alt){
        .max = c->most, .symbol = name, .threads = c->threads, .per_block = TOP_SPLIT / c->split};
    put_top(L, name, c, l->rows, target_cuda_extent(L, x, x->rank - 1u, x->rank));
    (void)lower_add_kernel(L, name, from, (gen_matmul_uses){.top = true});
    return base_buf_status(&L->source, L->err);
}

/* topk of one; args: x, values, indices. */
static rp_status lower_top(lowerer *L, const ir_node *n, ir_ref r) {
    const ir_shape *x = &ir_node_at(L->g, n->in[0])->shape;
    lower_ref args[3];
    RP_TRY(lower_operand_memory(L, n->in[0], &args[0]));
    RP_TRY(lower_result_memory(L, r, 0, &args[1]));
    RP_TRY(lower_result_memory(L, r, 1, &args[2]));
    memcpy(L->args, args, sizeof args);
    L->n_args = 3;
    lower_write_args(L, 1);
    lower_launch made = {
        .name = base_arena_printf(L->arena, "top_fused_topk_%u", L->out->n_kernels),
        .grain = 1,
        .threads = top_classes[0].threads,
        .per_block = 1,
        .rows = target_cuda_extent(L, x, 0, x->rank - 1u)};
    if (!made.name) return rp_fail(L->err, RP_NOMEM, "kernel name");
    made.items = ir_dim_mul_const(L->out->dims, made.rows, TOP_SPLIT);
    if (made.items == IR_DIM_BAD)
        return rp_fail(L->err, RP_UNSUPPORTED, "topk of more than 2^63 items");
    for (uint32_t i = 0; i < N_TOPS; i++) RP_TRY(add_top(L, x, &top_classes[i], &made));
    lower_launch *l = lower_add_launch(L);
    *l = made;
    return lower_take_args(L, l);
}

static bool is_top(const ir_node *n) {
    return n->op == IR_topk && ir_attr_int(n, IR_ATTR_K, 0) == 1 && n->dtype == RP_DTYPE_F32;
}

rp_status target_cuda_scan(lowerer *L, ir_ref r) {
    const ir_node *n = ir_node_at(L->g, r);
    if (is_top(n)) return lower_top(L, n, r);
    const rp_dtype t = ir_node_at(L->g, n->in[0])->dtype;
    line a;
    L->n_args = 0;
    RP_TRY(gen_axis_check(t, ir_op_table(n->op)->name, L->err));
    RP_TRY(line_of(L, n, &a));
    lower_ref args[IR_MAX_RESULTS + 1];
    RP_TRY(lower_operand_memory(L, n->in[0], &args[0]));
    for (uint32_t i = 0; i <= n->n_more; i++) RP_TRY(lower_result_memory(L, r, i, &args[i + 1]));
    L->n_args = n->n_more + 2;
    for (uint32_t i = 0; i < L->n_args; i++) L->args[i] = args[i];
    lower_write_args(L, 1);
    char *name = name_of(L, r);
    const char *element = base_arena_printf(L->arena, "rk_e_%s", rp_dtype_name(t));
    if (!name || !element) return rp_fail(L->err, RP_NOMEM, "kernel name");
    return scan_kernel(L, n, name, element, &a);
}
