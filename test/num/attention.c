/* Attention over a cache of bf16 on the tensor cores of the emulated GPU: near its definition for any sizes, the same bits whatever other rows there are, and
 * the bits of the host where it is refused or not wanted. */
#include <math.h>

#include "support/both_gpu.h"
#include "support/heard.h"

typedef struct shape {
    int heads, kv_heads, head_dim, block;
    int context; /* positions of each request */
    int rows,
        requests; /* rows are dealt to requests in turn, in runs of `each`; its last row has the whole context */
    int each;
} shape;

enum { Q, SEQS, POSITIONS, TABLES };

static int width_of(const shape *s) {
    return (s->context + s->block - 1) / s->block;
}

/* Padding is one row in 7, which tiles take for many requests, or for tiles of few the last two rows, as in an engine. Behind the context the cache holds
 * NaN. */
static void fill(const shape *s, const random_leaves *l) {
    const ir_value *in = l->leaf[IR_LEAF_INPUT];
    const int n = s->requests * width_of(s);
    for (int t = 0; t < s->rows; t++) {
        const int left = s->each - 1 - t % s->each;
        in[SEQS].data[t] =
            (s->requests < 5 && s->rows > 64 ? t >= s->rows - 2 : t % 7 == 5) ? -1 : t / s->each;
        in[POSITIONS].data[t] = s->context > left ? s->context - 1 - left : 0;
    }
    for (int i = 0; i < n; i++) in[TABLES].data[i] = n - 1 - i;
    for (int c = 0; c < 2; c++)
        for (int r = 0; r < s->requests; r++)
            for (int t = s->context; t < width_of(s) * s->block; t++)
                for (int i = 0; i < s->kv_heads * s->head_dim; i++) {
                    const int64_t block = n - 1 - (r * width_of(s) + t / s->block);
                    const int64_t at = (block * s->kv_heads + i / s->head_dim) * s->block;
                    l->leaf[IR_LEAF_STATE][c]
                        .data[(at + t % s->block) * s->head_dim + i % s->head_dim] = (double)NAN;
                }
}

static both make(const shape *s) {
    char text[1000];
    const int n = s->requests * width_of(s), out = s->heads * s->head_dim;
    (void)snprintf(text, sizeof text,
                   "graph @g(%%q: f32[T,%d], %%seqs: i32[T], %%pos: i32[T], %%bt: i32[%d,%d])"
                   " where T in [%d,%d] {\n"
                   "  %%k = state @k : bf16[%d,%d,%d,%d]\n  %%v = state @v : bf16[%d,%d,%d,%d]\n"
                   "  %%o = empty {dtype=f32, shape=[T,%d]}\n"
                   "  %%a = attention %%q, %%k, %%v, %%seqs, %%pos, %%bt, %%o {heads=%d, "
                   "head_dim=%d, kv_heads=%d, scale=0.25}\n  ret %%a }\n",
                   out, s->requests, width_of(s), s->rows, s->rows, n, s->kv_heads, s->block,
                   s->head_dim, n, s->kv_heads, s->block, s->head_dim, out, s->heads, s->head_dim,
                   s->kv_heads);
    both b = both_of(text, 11);
    fill(s, &b.l);
    return b;
}

static plan_run run(const both *b, bool exact) {
    rp_error err = {0};
    plan_run r = {0};
    const plan_run_options o = both_on_gpu(true, exact);
    CHECK_OK(plan_run_graph(b->g, &b->l, &o, &r, &err), &err);
    return r;
}

/* Position t of request r, kv head h. */
static int64_t cell_of(const shape *s, const random_leaves *l, int r, int h, int t) {
    const ir_value *tables = &l->leaf[IR_LEAF_INPUT][TABLES];
    const int64_t block = (int64_t)tables->data[r * width_of(s) + t / s->block];
    return ((block * s->kv_heads + h) * s->block + t % s->block) * s->head_dim;
}

/* What the definition gives for one row and head, and how far docs/ir.md lets a GPU be from it with operands rounded to `bits`. */
static double attend(const shape *s, const random_leaves *l, int row, int head, double unit,
                     double *out) {
    const ir_value *in = l->leaf[IR_LEAF_INPUT], *state = l->leaf[IR_LEAF_STATE];
    const int r = (int)in[SEQS].data[row], n = (int)in[POSITIONS].data[row] + 1;
    const int h = head / (s->heads / s->kv_heads);
    const double *q = in[Q].data + ((int64_t)row * s->heads + head) * s->head_dim;
    double *score = base_alloc_array((size_t)n, sizeof *score), top = -INFINITY, sum = 0, e = 0;
    double most = 0;
    assert_non_null(score);
    memset(out, 0, (size_t)s->head_dim * sizeof *out);
    for (int t = 0; t < n && r >= 0; t++) {
        const int64_t at = cell_of(s, l, r, h, t);
        double all = 0;
        score[t] = 0;
        for (int d = 0; d < s->head_dim; d++) {
            const double p = (double)(float)q[d] * both_bf16(&state[0], at + d);
            score[t] += p * 0.25;
            all += fabs(p) * 0.25;
        }
        top = fmax(top, score[t]);
        if (isfinite(all)) e = fmax(e, all * unit);
    }
    for (int t = 0; t < n && r >= 0; t++) {
        const int64_t at = cell_of(s, l, r, h, t);
        score[t] = exp(score[t] - top);
        sum += score[t];
        for (int d = 0; d < s->head_dim; d++) {
            const double v = both_bf16(&state[1], at + d);
            out[d] += score[t] * v;
            most = fmax(most, fabs(v));
        }
    }
    for (int d = 0; d < s->head_dim && r >= 0; d++) out[d] /= sum;
    base_free(score);
    return (2 * e + unit) * most + 1e-6 * most;
}

static void check(const shape *s, const both *b, const plan_run *r, double unit) {
    const float *y = r->out[0];
    double want[128];
    for (int row = 0; row < s->rows; row++)
        for (int head = 0; head < s->heads; head++) {
            const double far = attend(s, &b->l, row, head, unit, want);
            for (int d = 0; d < s->head_dim; d++) {
                const double got = (double)y[(row * s->heads + head) * s->head_dim + d];
                if (!(fabs(got - want[d]) <= far))
                    fail_msg("%d heads of %d over %d, context %d: row %d, head %d, dim %d: %.9g, "
                             "want %.9g, may be off by %.3g",
                             s->heads, s->head_dim, s->kv_heads, s->context, row, head, d, got,
                             want[d], far);
            }
        }
}

static void check_one(shape s, double unit) {
    both b = make(&s);
    plan_run r = run(&b, false);
    check(&s, &b, &r, unit);
    plan_run_done(&r);
    both_done(&b);
}

/* Few rows have the sum of two bf16 where many have one. */
#define FEW 0x1p-16
#define MANY 0x1p-8

static void few_rows_are_near_whatever_the_shape(void **state) {
    (void)state;
    NEEDS_GPU();
    check_one((shape){4, 4, 16, 16, 1, 1, 1, 1}, FEW);
    check_one((shape){4, 2, 16, 16, 40, 3, 2, 2}, FEW);
    check_one((shape){8, 2, 64, 16, 63, 2, 2, 1}, FEW);
    check_one((shape){8, 2, 64, 16, 64, 9, 3, 3}, FEW);
    check_one((shape){6, 2, 48, 32, 65, 2, 2, 1}, FEW);
    check_one((shape){8, 1, 80, 16, 130, 2, 1, 2}, FEW);
    check_one((shape){12, 1, 96, 16, 200, 1, 1, 1}, FEW); /* of 12 heads an operand has 6 */
    check_one((shape){9, 1, 128, 48, 300, 2, 1, 2}, FEW);
}

/* More chunks than a warp looks up at once, and than a block has room for. */
static void long_contexts_come_in_rounds(void **state) {
    (void)state;
    NEEDS_GPU();
    check_one((shape){4, 1, 64, 16, 2300, 1, 1, 1}, FEW);
    check_one((shape){8, 1, 128, 16, 700, 1, 1, 1}, FEW);
}

/* Rows of any lengths that are enough for a GPU: each of a request of its own, or several of one; more chunks than a block has room for, more cells than a warp
 * looks up at once. */
static void streamed_rows_are_near_whatever_the_shape(void **state) {
    const shape apart = {16, 16, 16, 16, 100, 10, 10, 1}, wide = {32, 16, 128, 32, 90, 9, 9, 1},
                together = {16, 16, 16, 16, 3200, 12, 3, 4};
    (void)state;
    NEEDS_GPU();
    check_one(apart, FEW);
    check_one(wide, FEW);
    both b = make(&together);
    double *positions = b.l.leaf[IR_LEAF_INPUT][POSITIONS].data;
    for (int t = 1; t < together.rows; t++) positions[t] = t * 37 % 150;
    positions[0] = together.context - 1;
    b.l.leaf[IR_LEAF_INPUT][SEQS].data[0] = 2; /* a row that is not the request of its number */
    plan_run r = run(&b, false);
    check(&together, &b, &r, FEW);
    plan_run_done(&r);
    both_done(&b);
}

static void many_rows_are_near_whatever_the_shape(void **state) {
    (void)state;
    NEEDS_GPU();
    check_one((shape){4, 2, 16, 16, 65, 65, 1, 65}, MANY);
    check_one((shape){3, 1, 64, 16, 200, 131, 1, 131}, MANY);
    check_one((shape){2, 2, 48, 32, 100, 150, 3, 50}, MANY);
    check_one((shape){2, 1, 128, 16, 70, 129, 2, 65}, MANY);
    /* Rings of tiles go round, behind cached positions, of a second request, too. */
    check_one((shape){1, 1, 64, 32, 600, 513, 1, 513}, MANY);
    check_one((shape){2, 1, 64, 16, 300, 260, 2, 130}, MANY);
    check_one((shape){2, 1, 64, 16, 300, 520, 2, 260}, MANY);
}

static void check_crowd(shape few, int rows) {
    shape many = few;
    many.rows = rows;
    both a = make(&few), b = make(&many);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(b.l.leaf[IR_LEAF_STATE][i].data, a.l.leaf[IR_LEAF_STATE][i].data,
               (size_t)a.l.leaf[IR_LEAF_STATE][i].n * sizeof(double));
    memcpy(b.l.leaf[IR_LEAF_INPUT][Q].data, a.l.leaf[IR_LEAF_INPUT][Q].data,
           (size_t)a.l.leaf[IR_LEAF_INPUT][Q].n * sizeof(double));
    plan_run x = run(&a, false), y = run(&b, false);
    check(&many, &b, &y, FEW);
    assert_memory_equal(x.out[0], y.out[0],
                        (size_t)few.rows * few.heads * few.head_dim * sizeof(float));
    plan_run_done(&x);
    plan_run_done(&y);
    both_done(&a);
    both_done(&b);
}

/* What a row gives does not depend on how many others there are, nor on the kernel that takes them: teams of warps, warps, tiles. */
static void a_crowd_changes_no_bit(void **state) {
    (void)state;
    NEEDS_GPU();
    check_crowd((shape){4, 2, 32, 16, 150, 16, 7, 10}, 70);
    check_crowd((shape){4, 2, 32, 16, 150, 60, 7, 10}, 70);
    check_crowd((shape){16, 16, 16, 16, 70, 20, 7, 10}, 70);
    /* Blocks beside those of a tile take rows, too. */
    check_crowd((shape){2, 1, 64, 16, 40, 16, 264, 1}, 264);
}

/* A key with an infinity that queries multiply by -1 weighs nothing beside others; where all keys have one, there is no result. */
static void infinite_scores_weigh_nothing(void **state) {
    const shape s = {2, 1, 16, 16, 100, 2, 2, 1};
    (void)state;
    NEEDS_GPU();
    both b = make(&s);
    double *keys = b.l.leaf[IR_LEAF_STATE][0].data, *q = b.l.leaf[IR_LEAF_INPUT][Q].data;
    for (int i = 0; i < 4; i++) q[16 * i] = -1;
    keys[cell_of(&s, &b.l, 0, 0, 20)] = (double)INFINITY;
    for (int t = 0; t < s.context; t++) keys[cell_of(&s, &b.l, 1, 0, t)] = (double)INFINITY;
    plan_run r = run(&b, false);
    const shape first = {2, 1, 16, 16, 100, 1, 2, 1};
    check(&first, &b, &r, FEW);
    for (int i = 32; i < 64; i++) assert_true(isnan(((const float *)r.out[0])[i]));
    plan_run_done(&r);
    both_done(&b);
}

/* The host's bits for a head of 24 dims, a reason for them, and none where they are what is asked for. */
static void what_is_refused_is_said(void **state) {
    const shape odd = {2, 1, 24, 16, 140, 3, 1, 3}, even = {2, 1, 32, 16, 140, 3, 1, 3};
    rp_error err = {0};
    base_buf heard;
    (void)state;
    NEEDS_GPU();
    both b = make(&odd), c = make(&even);
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
    if (both_run(&c, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", c.at, err.text);
    heard_start(&heard, "autotuning");
    plan_run exact = run(&c, true);
    assert_null(heard.data);
    plan_run refused = run(&b, false);
    CHECK_HEARD(&heard, "attention of 2 heads: no tensor cores, sums as on the host: head_dim is "
                        "not a multiple of 16: 24");
    heard_done(&heard);
    assert_null(plan_run_differs(b.g, &refused, &b.code));
    assert_null(plan_run_differs(c.g, &exact, &c.code));
    plan_run_done(&exact);
    plan_run_done(&refused);
    both_done(&b);
    both_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_are_near_whatever_the_shape),
        cmocka_unit_test(long_contexts_come_in_rounds),
        cmocka_unit_test(streamed_rows_are_near_whatever_the_shape),
        cmocka_unit_test(many_rows_are_near_whatever_the_shape),
        cmocka_unit_test(a_crowd_changes_no_bit),
        cmocka_unit_test(infinite_scores_weigh_nothing),
        cmocka_unit_test(what_is_refused_is_said),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
