/* Attention inside the library: every instruction set that this machine grants, against plain loops in
 * double, and bit for bit against each other, for any share of the work items. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "gen/axis.h"
#include "gen/builtin.h"
#include "ir/eval.h"

enum { REQUESTS = 3, WIDTH = 12, BLOCKS = 23, MAX_ROWS = 64 };

typedef struct step {
    gen_attention_record r;
    int rows;
    double *k, *v;  /* values of the caches */
    void *kb, *vb;  /* as bytes of r.kv */
    float *q, *out; /* rows x heads x head_dim */
    int32_t seqs[MAX_ROWS], pos[MAX_ROWS], table[REQUESTS * WIDTH];
} step;

static uint64_t rng = 88172645463325252u;

static double draw(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (double)(rng >> 40) * 0x1p-23 - 1.0;
}

static void *cache_new(rp_dtype t, size_t n, double **values) {
    void *bytes = base_alloc_aligned(n * rp_dtype_block_bytes(t), 64);
    *values = base_alloc_array(n, sizeof **values);
    for (size_t i = 0; i < n; i++) (*values)[i] = ir_round(t, draw());
    ir_pack(t, *values, (int64_t)n, bytes);
    return bytes;
}

/* sizes of a request: positions so far, and how many of them are rows of this step. */
static void step_new(step *s, const int shape[4], rp_dtype kv, const int sizes[REQUESTS][2]) {
    int heads = shape[0], kv_heads = shape[1], hd = shape[2], block = shape[3], next = 0;
    *s = (step){.r = {.heads = (uint32_t)heads,
                      .kv_heads = (uint32_t)kv_heads,
                      .head_dim = (uint32_t)hd,
                      .block_size = (uint32_t)block,
                      .scale = 0.37f,
                      .kv = kv}};
    size_t cells = (size_t)(BLOCKS * kv_heads * block * hd);
    s->kb = cache_new(kv, cells, &s->k);
    s->vb = cache_new(kv, cells, &s->v);
    for (int i = 0; i < REQUESTS * WIDTH; i++) s->table[i] = (next++ * 7 + 3) % BLOCKS;
    for (int q = 0; q < REQUESTS; q++)
        for (int i = 0; i < sizes[q][1]; i++) {
            s->seqs[s->rows] = q;
            s->pos[s->rows++] = sizes[q][0] - sizes[q][1] + i;
        }
    s->seqs[s->rows] = -1; /* padding: both spellings */
    s->pos[s->rows++] = 0;
    s->pos[s->rows++] = -1;
    /* rows is 2*T+1, table_width U+2 of the symbols T and U */
    s->r.rows = (ir_dim_code){
        3, {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_MUL_CONST, IR_DIM_CODE_ADD_CONST}, {0, 2, 1}};
    s->r.table_width = (ir_dim_code){2, {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_ADD_CONST}, {1, 2}};
    if (s->rows % 2 == 0) s->seqs[s->rows++] = -1;
    size_t n = (size_t)(s->rows * heads * hd);
    s->q = base_alloc_array(n, sizeof(float));
    s->out = base_alloc_array(n, sizeof(float));
    for (size_t i = 0; i < n; i++) s->q[i] = (float)draw();
}

static void step_done(step *s) {
    void *all[] = {s->k, s->v, s->kb, s->vb, s->q, s->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) base_free(all[i]);
}

static const double *cache_row(const step *s, const double *c, int seq, int head, int t) {
    int block = (int)s->r.block_size, hd = (int)s->r.head_dim, kv = (int)s->r.kv_heads;
    return c + ((s->table[seq * WIDTH + t / block] * kv + head) * block + t % block) * hd;
}

static void attend(const step *s, int row, int head, double *out) {
    double p[WIDTH * 64], top = -HUGE_VAL, sum = 0;
    int hd = (int)s->r.head_dim, group = (int)(s->r.heads / s->r.kv_heads), n = s->pos[row] + 1;
    const float *q = s->q + (row * (int)s->r.heads + head) * hd;
    for (int d = 0; d < hd; d++) out[d] = 0;
    if (s->seqs[row] < 0 || n <= 0) return;
    for (int t = 0; t < n; t++) {
        const double *k = cache_row(s, s->k, s->seqs[row], head / group, t);
        p[t] = 0;
        for (int d = 0; d < hd; d++) p[t] += (double)q[d] * k[d];
        p[t] *= (double)s->r.scale;
        top = fmax(top, p[t]);
    }
    for (int t = 0; t < n; t++) sum += p[t] = exp(p[t] - top);
    for (int t = 0; t < n; t++)
        for (int d = 0; d < hd; d++)
            out[d] += p[t] / sum * cache_row(s, s->v, s->seqs[row], head / group, t)[d];
}

static void run(const step *s, gen_isa isa, long long share, void *scratch) {
    const long long dim[2] = {(s->rows - 1) / 2, WIDTH - 2};
    void *arg[] = {s->q,
                   s->kb,
                   s->vb,
                   (void *)(uintptr_t)s->seqs,
                   (void *)(uintptr_t)s->pos,
                   (void *)(uintptr_t)s->table,
                   s->out,
                   (void *)(uintptr_t)&s->r};
    gen_host_fn fn = gen_builtin_find(gen_attention_name(isa));
    assert_non_null(fn);
    long long items = s->rows * (long long)s->r.heads;
    for (long long at = items; at > 0; at -= share)
        fn(arg, dim, at > share ? at - share : 0, at, scratch);
}

static void check(const step *s) {
    static const long long shares[] = {1, 5, 1000};
    rp_error err = {0};
    size_t n = (size_t)s->rows * s->r.heads * s->r.head_dim;
    size_t size = (size_t)gen_attention_scratch(&s->r);
    float *first = base_alloc_array(n, sizeof *first);
    void *scratch = base_alloc_aligned(size, 64);
    CHECK_OK(gen_attention_check(&s->r, &err), &err);
    for (unsigned isa = 0; isa <= (unsigned)gen_isa_best(); isa++)
        for (size_t i = 0; i < 3; i++) {
            memset(s->out, 0xff, n * sizeof(float));
            memset(scratch, 0xff, size);
            run(s, (gen_isa)isa, shares[i], scratch);
            if (isa == 0 && i == 0)
                memcpy(first, s->out, n * sizeof(float));
            else
                assert_memory_equal(first, s->out, n * sizeof(float));
        }
    for (int row = 0; row < s->rows; row++)
        for (int h = 0; h < (int)s->r.heads; h++) {
            double want[128];
            attend(s, row, h, want);
            for (int d = 0; d < (int)s->r.head_dim; d++) {
                double got = (double)first[(row * (int)s->r.heads + h) * (int)s->r.head_dim + d];
                if (!(fabs(got - want[d]) < 1e-5))
                    fail_msg("row %d head %d dim %d: %g, want %g", row, h, d, got, want[d]);
            }
        }
    base_free(first);
    base_free(scratch);
}

static void every_set_agrees(void **state) {
    static const int shapes[][4] = {
        {9, 3, 64, 16}, {4, 2, 128, 16}, {2, 2, 8, 4}, {5, 1, 20, 32}, {30, 1, 16, 16}};
    static const int sizes[][REQUESTS][2] = {{{17, 17}, {1, 1}, {40, 3}},
                                             {{33, 1}, {16, 1}, {2, 1}},
                                             {{44, 30}, {5, 5}, {9, 9}},
                                             {{47, 1}, {0, 0}, {0, 0}}};
    static const rp_dtype types[] = {RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_F32};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            step s;
            step_new(&s, shapes[i], types[(i + j) % 3], sizes[j]);
            check(&s);
            step_done(&s);
        }
}

static void what_does_not_fit_is_named(void **state) {
    static const gen_attention_record good = {
        .heads = 4, .kv_heads = 2, .head_dim = 64, .block_size = 16, .kv = RP_DTYPE_F16};
    static const struct {
        uint32_t heads, kv_heads, head_dim, block_size;
        bool fits;
    } all[] = {{4, 2, 64, 16, true},    {5, 2, 64, 16, false},    {4, 0, 64, 16, false},
               {256, 1, 64, 16, true},  {257, 1, 64, 16, false},  {512, 2, 64, 16, true},
               {4, 2, 1024, 16, true},  {4, 2, 1025, 16, false},  {4, 2, 0, 16, false},
               {4, 2, 64, 65536, true}, {4, 2, 64, 65537, false}, {4, 2, 64, 0, false}};
    rp_error err = {0};
    gen_attention_record r = good;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        r.heads = all[i].heads;
        r.kv_heads = all[i].kv_heads;
        r.head_dim = all[i].head_dim;
        r.block_size = all[i].block_size;
        const rp_status st = gen_attention_check(&r, NULL);
        if (st != (all[i].fits ? RP_OK : RP_UNSUPPORTED)) fail_msg("record %zu: %d", i, st);
    }
    r = good;
    r.kv = RP_DTYPE_I8;
    assert_int_equal(gen_attention_check(&r, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "i8"));
}

/* The table of ops says which run a kernel along an axis, and that is found by their name. */
static void ops_along_an_axis_have_kernels(void **state) {
    (void)state;
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        const char *name = gen_axis_name((ir_op)op);
        if (ir_op_table((ir_op)op)->kind != IR_KIND_SCAN) {
            if (name) fail_msg("%s runs %s", ir_op_table((ir_op)op)->name, name);
            continue;
        }
        assert_non_null(name);
        assert_string_equal(name + 1, ir_op_table((ir_op)op)->name);
        assert_non_null(gen_builtin_find(name));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_agrees),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(ops_along_an_axis_have_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
