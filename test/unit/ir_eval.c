/* The interpreter against values worked out by hand or by an independent loop, and the formats. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "ir/eval.h"
#include "support/random_graph.h"

static ir_graph *parse(const char *s) {
    ir_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(ir_parse(s, strlen(s), &g, &err), &err);
    CHECK_OK(ir_verify(g, &err), &err);
    return g;
}

/* --- rounding ---------------------------------------------------------------- */

static void rounding_is_to_nearest_even(void **state) {
    static const struct {
        rp_dtype t;
        double in, out;
    } cases[] = {
        {RP_DTYPE_F32, 0.1, (double)0.1f},
        {RP_DTYPE_F16, 1 + 0x1p-11, 1},
        {RP_DTYPE_F16, 1 + 3 * 0x1p-11, 1 + 0x1p-9},
        {RP_DTYPE_F16, 65519.99, 65504},
        {RP_DTYPE_F16, 65520, INFINITY},
        {RP_DTYPE_F16, 0x1p-25, 0},
        {RP_DTYPE_F16, 0x1.8p-25, 0x1p-24},
        {RP_DTYPE_F16, -0x1p-30, -0.0},
        {RP_DTYPE_BF16, 1 + 0x1p-8, 1},
        {RP_DTYPE_BF16, 1 + 0x1.8p-8, 1 + 0x1p-7},
        {RP_DTYPE_BF16, 3.4e38, INFINITY},
        {RP_DTYPE_I32, 2.9, 2},
        {RP_DTYPE_I32, -2.9, -2},
        {RP_DTYPE_I32, 3e9, 2147483647},
        {RP_DTYPE_I32, NAN, 0},
        {RP_DTYPE_I8, -129, -128},
        {RP_DTYPE_U8, 256, 255},
        {RP_DTYPE_U8, -1, 0},
        {RP_DTYPE_I16, 40000, 32767},
        {RP_DTYPE_BOOL, -0.5, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double r = ir_round(cases[i].t, cases[i].in);
        if (r != cases[i].out || !signbit(r) != !signbit(cases[i].out))
            fail_msg("%s: %a gives %a, not %a", rp_dtype_name(cases[i].t), cases[i].in, r,
                     cases[i].out);
    }
}

/* All 65536 halves: unpacking and packing are inverses, and packing is monotone between them. */
/* v with so many bits behind the leading one, to nearest even: the integer is rounded once, whatever a double holds of it. */
static double once(int64_t v, int bits) {
    uint64_t m = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    int drop = 0;
    while (drop < 64 && m >> drop >> (bits + 1)) drop++;
    uint64_t rest = m & ((UINT64_C(1) << drop) - 1), half = drop ? UINT64_C(1) << (drop - 1) : 0;
    uint64_t kept = m >> drop;
    if (rest > half || (rest == half && drop && (kept & 1))) kept++;
    return ldexp((double)kept, drop) * (v < 0 ? -1 : 1);
}

/* Neighbours of what lies between two values, where a double that was rounded first would be in the middle. */
static void integers_are_rounded_once(void **state) {
    static const struct {
        rp_dtype t;
        int bits;
        double most;
    } to[] = {{RP_DTYPE_F32, 23, INFINITY},
              {RP_DTYPE_BF16, 7, INFINITY},
              {RP_DTYPE_F16, 10, 65504},
              {RP_DTYPE_F64, 52, INFINITY}};
    (void)state;
    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        for (int top = 0; top < 63; top++)
            for (int low = -1; low <= top && low < 62; low++)
                for (int odd = 0; odd < 2; odd++)
                    for (int64_t by = -1; by < 2; by++)
                        for (int sign = -1; sign < 2; sign += 2) {
                            /* a leading bit, the last bit that is kept or none, half of it, and one beside */
                            int64_t last = top > to[i].bits ? INT64_C(1) << (top - to[i].bits) : 0;
                            int64_t v = sign * ((INT64_C(1) << top) + odd * last +
                                                (low < 0 ? 0 : INT64_C(1) << low) + by);
                            double want = once(v, to[i].bits), got = ir_from_i64(to[i].t, v);
                            if (fabs(want) > to[i].most) want = copysign(INFINITY, want);
                            if (got != want)
                                fail_msg("%lld as %s is %a, not %a", (long long)v,
                                         rp_dtype_name(to[i].t), got, want);
                        }
}

static void halves_are_exhaustive(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t in = (uint16_t)h, out;
        double v, up;
        ir_unpack(RP_DTYPE_F16, &in, 1, &v);
        ir_pack(RP_DTYPE_F16, &v, 1, &out);
        if (isnan(v))
            assert_true((out & 0x7fff) > 0x7c00);
        else
            assert_int_equal(in, out);
        ir_unpack(RP_DTYPE_BF16, &in, 1, &up);
        ir_pack(RP_DTYPE_BF16, &up, 1, &out);
        if (isnan(up))
            assert_true((out & 0x7fff) > 0x7f80);
        else
            assert_int_equal(in, out);
    }
}

/* What a type holds comes back; what it does not hold is rounded or saturated. */
static void plain_types_pack(void **state) {
    static const struct {
        rp_dtype t;
        double in[3], out[3];
    } cases[] = {
        {RP_DTYPE_F32, {0.1, -1, INFINITY}, {(double)0.1f, -1, INFINITY}},
        {RP_DTYPE_F16, {1.5, -0x1p-24, 1e6}, {1.5, -0x1p-24, INFINITY}},
        {RP_DTYPE_BF16, {1.5, -3e38, 1.001}, {1.5, -0x1.c4p+127, 1}},
        {RP_DTYPE_I32, {-5, 7.9, 1e30}, {-5, 7, 2147483647}},
        {RP_DTYPE_I16, {-5, 7.9, -1e30}, {-5, 7, -32768}},
        {RP_DTYPE_I8, {-5, 7.9, 1e30}, {-5, 7, 127}},
        {RP_DTYPE_U8, {5, 7.9, 1e30}, {5, 7, 255}},
        {RP_DTYPE_BOOL, {0, 1, 5}, {0, 1, 1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[24];
        double got[3];
        ir_pack(cases[i].t, cases[i].in, 3, bytes);
        ir_unpack(cases[i].t, bytes, 3, got);
        for (int k = 0; k < 3; k++)
            if (got[k] != cases[i].out[k])
                fail_msg("%s: %g gives %a", rp_dtype_name(cases[i].t), cases[i].in[k], got[k]);
    }
    double any[3];
    ir_unpack(RP_DTYPE_BOOL, (const uint8_t[]){0, 2, 255}, 3, any); /* as others may write it */
    assert_true(any[0] == 0 && any[1] == 1 && any[2] == 1);
}

/* 64 bits are kept as they are: a double does not hold them. */
static void wide_integers_pack(void **state) {
    const int64_t in[] = {0, -5, INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1};
    int64_t bytes[5];
    double as_read[5];
    ir_value v = {.rank = 1, .dim = {5}, .n = 5, .data = as_read};
    (void)state;
    ir_unpack(RP_DTYPE_I64, in, 5, as_read);
    for (int i = 0; i < 5; i++) assert_true(ir_value_int(&v, i) == in[i]);
    ir_pack(RP_DTYPE_I64, as_read, 5, bytes);
    assert_memory_equal(bytes, in, sizeof in);
}

/* --- block formats -------------------------------------------------------------- */

/* d * (q - 8) of a negative d and q = 8 is -0, whose bits bitcast tells. */
static void a_zero_of_a_block_has_the_sign_of_its_scale(void **state) {
    (void)state;
    for (int negative = 0; negative < 2; negative++) {
        uint8_t q4_0[18] = {0x00, negative ? 0xb8 : 0x38};
        double v[32];
        memset(q4_0 + 2, 0x88, 16);
        ir_unpack(RP_DTYPE_Q4_0, q4_0, 32, v);
        for (int i = 0; i < 32; i++) {
            assert_true(v[i] == 0);
            assert_int_equal(signbit(v[i]) != 0, negative);
        }
    }
}

static void blocks_are_ggufs(void **state) {
    uint8_t q4_0[18] = {0x00, 0x38}, q4_1[20] = {0x00, 0x38, 0x00, 0xc0}, q8_0[34] = {0x00, 0x3c};
    double v[32];
    (void)state;
    for (int i = 0; i < 16; i++) q4_0[2 + i] = q4_1[4 + i] = (uint8_t)(i | (15 - i) << 4);
    for (int i = 0; i < 32; i++) q8_0[2 + i] = (uint8_t)(int8_t)(i - 16);
    ir_unpack(RP_DTYPE_Q4_0, q4_0, 32, v); /* d = 0.5 */
    for (int i = 0; i < 16; i++) assert_true(v[i] == 0.5 * (i - 8) && v[i + 16] == 0.5 * (7 - i));
    ir_unpack(RP_DTYPE_Q4_1, q4_1, 32, v); /* d = 0.5, m = -2 */
    for (int i = 0; i < 16; i++)
        assert_true(v[i] == 0.5 * i - 2 && v[i + 16] == 0.5 * (15 - i) - 2);
    ir_unpack(RP_DTYPE_Q8_0, q8_0, 32, v); /* d = 1 */
    for (int i = 0; i < 32; i++) assert_true(v[i] == i - 16);
}

/* Of equals the first is what the scale is of, which is kept to the bit; halves go up, in q8_0 away from zero. */
static void ties_of_blocks_are_ggufs(void **state) {
    double x[32] = {0}, v[32];
    uint8_t block[34];
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        const double sign = turned ? -1 : 1;
        x[3] = -4 * sign;
        x[20] = 4 * sign;
        x[4] = 0.25 * sign; /* half of a step */
        ir_pack(RP_DTYPE_Q4_0, x, 32, block);
        ir_unpack(RP_DTYPE_Q4_0, block, 32, v);
        assert_true(v[3] == -4 * sign && v[20] == 3.5 * sign && v[4] == 0.5 * sign);
        for (int i = 5; i < 20; i++) assert_true(v[i] == 0);
    }
    memset(x, 0, sizeof x);
    x[0] = -3, x[31] = 12, x[1] = -2.5, x[2] = 11.5, x[17] = 11.25;
    ir_pack(RP_DTYPE_Q4_1, x, 32, block);
    ir_unpack(RP_DTYPE_Q4_1, block, 32, v);
    assert_true(v[0] == -3 && v[31] == 12 && v[1] == -2 && v[2] == 12 && v[17] == 11 && v[9] == 0);
    memset(x, 0, sizeof x);
    x[7] = 127, x[8] = -127, x[9] = 0.5, x[10] = -0.5, x[11] = -1.5, x[12] = 126.25;
    ir_pack(RP_DTYPE_Q8_0, x, 32, block);
    ir_unpack(RP_DTYPE_Q8_0, block, 32, v);
    assert_true(v[7] == 127 && v[8] == -127 && v[9] == 1 && v[10] == -1 && v[11] == -2 &&
                v[12] == 126);
}

/* Packing stays within half a step, and packing its own result changes nothing. */
static void packing_is_near_and_idempotent(void **state) {
    static const struct {
        rp_dtype t;
        double step;
    } formats[] = {{RP_DTYPE_Q4_0, 2.0 / 8},
                   {RP_DTYPE_Q4_1, 2.0 / 15},
                   {RP_DTYPE_Q8_0, 1.0 / 127},
                   {RP_DTYPE_I16B32, 1.0 / 32767}};
    (void)state;
    for (size_t f = 0; f < 4; f++) {
        for (uint64_t seed = 0; seed < 200; seed++) {
            int64_t n = 96;
            uint8_t bytes[3 * 72], again[3 * 72];
            double once[96], twice[96];
            ir_value v;
            rp_error err = {0};
            CHECK_OK(ir_random_value(RP_DTYPE_F32, &n, 1, 0, seed, &v, &err), &err);
            ir_pack(formats[f].t, v.data, n, bytes);
            ir_unpack(formats[f].t, bytes, n, once);
            ir_pack(formats[f].t, once, n, again);
            ir_unpack(formats[f].t, again, n, twice);
            for (int64_t i = 0; i < n; i++) {
                if (fabs(once[i] - v.data[i]) > formats[f].step * 0.51 + 1e-3 * (f < 3))
                    fail_msg("%s: %g became %g", rp_dtype_name(formats[f].t), v.data[i], once[i]);
                assert_true(once[i] == twice[i]);
            }
            ir_value_done(&v);
        }
    }
}

/* The row layout and rounding that generated kernels use (gen/embed/prelude.h). */
static void int16_rows_hold_q_scale_and_sum(void **state) {
    double x[64] = {0};
    uint8_t row[2 * 72];
    int16_t q[64];
    float d[2];
    int32_t sum[2];
    (void)state;
    x[3] = -2;
    x[4] = 1;
    x[5] = 0x1p-15; /* 0.5 of a step below: q = x / (2 / 32767) = 0.4999 */
    ir_pack(RP_DTYPE_I16B32, x, 64, row);
    memcpy(q, row, 128);
    memcpy(d, row + 128, 8);
    memcpy(sum, row + 136, 8);
    assert_true(d[0] == 2.0f / 32767.0f && d[1] == 0);
    assert_int_equal(q[3], -32767);
    assert_int_equal(q[4], 16384); /* 16383.5, to even */
    assert_int_equal(q[5], 0);
    assert_int_equal(sum[0], 16384 - 32767);
    assert_int_equal(sum[1], 0);
    x[6] = NAN;
    ir_pack(RP_DTYPE_I16B32, x, 64, row);
    ir_unpack(RP_DTYPE_I16B32, row, 64, x);
    assert_true(isnan(x[0]) && x[40] == 0); /* reaches the result, in its block */
}

/* --- ops by hand -------------------------------------------------------------- */

static void integers_wrap(void **state) {
    (void)state;
    double big[2] = {2147483647, 1}, prod[2] = {65536, 65536 + 3}, min[1] = {-2147483648.0};
    assert_true(ir_apply(IR_add, RP_DTYPE_I32, RP_DTYPE_I32, big) == -2147483648.0);
    assert_true(ir_apply(IR_mul, RP_DTYPE_I32, RP_DTYPE_I32, prod) == 3 * 65536);
    assert_true(ir_apply(IR_neg, RP_DTYPE_I32, RP_DTYPE_I32, min) == -2147483648.0);
    assert_true(ir_apply(IR_sub, RP_DTYPE_I64, RP_DTYPE_I64, big) == 2147483646);
}

static void elementwise_ops_are_the_table(void **state) {
    static const struct {
        ir_op op;
        double x[3], want;
    } cases[] = {
        {IR_neg, {2}, -2},        {IR_abs, {-2}, 2},        {IR_sqrt, {9}, 3},
        {IR_rsqrt, {4}, 0.5},     {IR_recip, {4}, 0.25},    {IR_exp, {0}, 1},
        {IR_log, {1}, 0},         {IR_sin, {0}, 0},         {IR_cos, {0}, 1},
        {IR_tanh, {0}, 0},        {IR_erf, {0}, 0},         {IR_sigmoid, {0}, 0.5},
        {IR_sigmoid, {-1000}, 0}, {IR_floor, {-1.5}, -2},   {IR_ceil, {-1.5}, -1},
        {IR_round, {2.5}, 2},     {IR_round, {3.5}, 4},     {IR_not, {0}, 1},
        {IR_add, {1, 2}, 3},      {IR_sub, {1, 2}, -1},     {IR_mul, {3, 2}, 6},
        {IR_div, {1, 2}, 0.5},    {IR_max, {1, 2}, 2},      {IR_min, {1, 2}, 1},
        {IR_pow, {2, 10}, 1024},  {IR_eq, {1, 1}, 1},       {IR_ne, {1, 1}, 0},
        {IR_lt, {1, 2}, 1},       {IR_le, {2, 2}, 1},       {IR_gt, {1, 2}, 0},
        {IR_ge, {1, 2}, 0},       {IR_and, {1, 0}, 0},      {IR_or, {1, 0}, 1},
        {IR_where, {0, 5, 6}, 6}, {IR_where, {1, 5, 6}, 5}, {IR_fma, {2, 3, 4}, 10},
    };
    double nan[2] = {NAN, 1}, second[2] = {1, NAN};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double r = ir_apply(cases[i].op, RP_DTYPE_F32, RP_DTYPE_F32, cases[i].x);
        if (r != cases[i].want) fail_msg("%s gives %g", ir_op_table(cases[i].op)->name, r);
    }
    assert_true(isnan(ir_apply(IR_max, RP_DTYPE_F32, RP_DTYPE_F32, nan)));
    assert_true(isnan(ir_apply(IR_max, RP_DTYPE_F32, RP_DTYPE_F32, second)));
    assert_true(isnan(ir_apply(IR_min, RP_DTYPE_F32, RP_DTYPE_F32, second)));
    assert_true(ir_apply(IR_gt, RP_DTYPE_F32, RP_DTYPE_BOOL, nan) == 0);
}

/* An op that commutes gives the same bits either way, of every two values of every type. */
static void ops_that_commute_do(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_I32, RP_DTYPE_BOOL};
    static const double reals[] = {0.0, -0.0, 1, -1, 2.5, 1e30, INFINITY, -INFINITY, NAN},
                        integers[] = {0, 1, -1, 2, 7, 65536, 2147483647, -2147483648.0};
    uint32_t n = 0;
    (void)state;
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        const ir_op_info *is = ir_op_table((ir_op)op);
        if (!ir_op_commutes((ir_op)op)) continue;
        assert_true(is->kind == IR_KIND_ELEMENTWISE && is->arity == 2);
        n++;
        for (size_t t = 0; t < 4; t++) {
            const bool real = ir_dtype_is_real(types[t]);
            if (real ? !ir_op_on_floats((ir_op)op) : !ir_op_on_integers((ir_op)op)) continue;
            const int values = real ? 9 : types[t] == RP_DTYPE_BOOL ? 2 : 8;
            for (int i = 0; i < values * values; i++) {
                const double *v = real ? reals : integers;
                const double ab[2] = {v[i / values], v[i % values]}, ba[2] = {ab[1], ab[0]};
                double x = ir_apply((ir_op)op, types[t], types[t], ab),
                       y = ir_apply((ir_op)op, types[t], types[t], ba);
                if (memcmp(&x, &y, sizeof x) != 0 && !(isnan(x) && isnan(y)))
                    fail_msg("%s of %s %g and %g is %g, and %g the other way", is->name,
                             rp_dtype_name(types[t]), ab[0], ab[1], x, y);
            }
        }
    }
    assert_true(n >= 5);
}

/* --- matmul, attention against independent loops -------------------------------- */

static void batched_matmul(void **state) {
    (void)state;
    ir_graph *g = parse("graph @g(%a: f32[2,1,3,4], %b: f32[5,6,4]) {\n"
                        "  %c = matmul %a, %b {trans_b=true} : f32[2,5,3,6]\n  ret %c\n}\n");
    random_leaves v;
    ir_value out;
    rp_error err = {0};
    CHECK_OK(random_leaves_new(g, 3, &v, &err), &err);
    CHECK_OK(ir_eval(g, v.leaf[0], NULL, NULL, v.symbols, &out, &err), &err);
    const double *a = v.leaf[0][0].data, *b = v.leaf[0][1].data;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 5; j++)
            for (int m = 0; m < 3; m++)
                for (int n = 0; n < 6; n++) {
                    double want = 0;
                    for (int k = 0; k < 4; k++)
                        want += a[(i * 3 + m) * 4 + k] * b[(j * 6 + n) * 4 + k];
                    assert_true(out.data[((i * 5 + j) * 3 + m) * 6 + n] == (double)(float)want);
                }
    ir_value_done(&out);
    random_leaves_done(&v);
    ir_graph_free(g);
}

enum { T = 5, H = 4, KVH = 2, HD = 3, BS = 2, NB = 6, S = 2, B = 3 };

static const char attention_text[] =
    "graph @g(%q: f32[5,12], %kx: f32[5,6], %vx: f32[5,6], %slots: i32[5], %seqs: i32[5],\n"
    "  %pos: i32[5], %bt: i32[2,3]) {\n"
    "  %k = state @k : f32[6,2,2,3]\n  %v = state @v : f16[6,2,2,3]\n"
    "  %v32 = state @v32 : f32[6,2,2,3]\n  %t = kv_store %k, %kx, %slots\n"
    "  %u = kv_store %v32, %vx, %slots\n  %w = kv_store %v, %vx, %slots\n"
    "  %o = empty {dtype=f32, shape=[5,12]}\n"
    "  %a = attention %q, %t, %u, %seqs, %pos, %bt, %o {heads=4, head_dim=3, "
    "kv_heads=2}\n"
    "  ret %a, %w\n}\n";

/* Rows of two requests and a padding row; blocks out of order. */
static void paged_attention(void **state) {
    static const double bt[S * B] = {4, 1, 0, 2, 5, 3};
    double slots[T] = {0}, seqs[T] = {0, 0, 0, 1, -1}, pos[T] = {0, 1, 2, 0, 7};
    random_leaves v;
    ir_value out[2];
    rp_error err = {0};
    (void)state;
    ir_graph *g = parse(attention_text);
    CHECK_OK(random_leaves_new(g, 5, &v, &err), &err);
    for (int t = 0; t < T; t++) {
        int p = (int)pos[t];
        slots[t] = seqs[t] < 0 ? -1 : bt[(int)seqs[t] * B + p / BS] * BS + p % BS;
        v.leaf[0][3].data[t] = slots[t];
        v.leaf[0][4].data[t] = seqs[t];
        v.leaf[0][5].data[t] = pos[t];
    }
    memcpy(v.leaf[0][6].data, bt, sizeof bt);
    double before = v.leaf[2][1].data[0];
    CHECK_OK(ir_eval(g, v.leaf[0], NULL, v.leaf[2], v.symbols, out, &err), &err);
    const double *q = v.leaf[0][0].data, *k = v.leaf[0][1].data, *x = v.leaf[0][2].data;
    for (int t = 0; t < T; t++)
        for (int h = 0; h < H; h++)
            for (int d = 0; d < HD; d++) {
                double num = 0, den = 0, got = out[0].data[(t * H + h) * HD + d];
                for (int s = 0; s < T;
                     s++) { /* the row itself and its own request's earlier rows */
                    if (seqs[t] < 0 || seqs[s] != seqs[t] || pos[s] > pos[t]) continue;
                    double dot = 0;
                    for (int i = 0; i < HD; i++)
                        dot += q[(t * H + h) * HD + i] * k[(s * KVH + h / 2) * HD + i];
                    double w = exp(dot * (double)(float)(1 / sqrt(3)));
                    num += w * x[(s * KVH + h / 2) * HD + d];
                    den += w;
                }
                double want = den > 0 ? num / den : 0;
                if (fabs(got - want) > 1e-7)
                    fail_msg("row %d head %d: %g, not %g", t, h, got, want);
            }
    /* Row 0 went to block 4, position 0, head 0, rounded to the cache's type; block 0 is untouched. */
    assert_true(v.leaf[2][1].data[4 * KVH * BS * HD] == ir_round(RP_DTYPE_F16, x[0]));
    assert_true(v.leaf[2][1].data[0] == before);
    for (int i = 0; i < 2; i++) ir_value_done(&out[i]);

    v.leaf[0][6].data[0] = 99;
    assert_int_equal(ir_eval(g, v.leaf[0], NULL, v.leaf[2], v.symbols, out, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "attention: block 99 of a cache of 6"));
    v.leaf[0][3].data[0] = 99;
    err = (rp_error){0};
    assert_int_equal(ir_eval(g, v.leaf[0], NULL, v.leaf[2], v.symbols, out, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "kv_store: slot 99"));
    random_leaves_done(&v);
    ir_graph_free(g);
}

/* --- the driver ---------------------------------------------------------------- */

static void wrong_leaves_are_refused(void **state) {
    double d[8] = {0};
    ir_value x = {2, {2, 4}, 8, d}, out;
    int64_t two = 2, three = 3, nine = 9;
    rp_error err = {0};
    (void)state;
    ir_graph *g = parse("graph @g(%x: f32[T,4]) where T in [2,8] by 2 {\n %y = neg %x\n ret %y\n}");
    CHECK_OK(ir_eval(g, &x, NULL, NULL, &two, &out, &err), &err);
    ir_value_done(&out);
    assert_int_equal(ir_eval(g, &x, NULL, NULL, &nine, &out, &err), RP_INVALID);
    assert_string_equal(err.text, "eval: T = 9; graph g wants it in [2,8], a multiple of 2");
    err = (rp_error){0};
    assert_int_equal(ir_eval(g, &x, NULL, NULL, &three, &out, &err), RP_INVALID);
    x.dim[0] = 1;
    err = (rp_error){0};
    assert_int_equal(ir_eval(g, &x, NULL, NULL, &two, &out, &err), RP_INVALID);
    assert_string_equal(err.text, "eval: input 'x' is given as [1,4]; the graph wants f32[T,4]");
    ir_graph_free(g);
}

static void huge_graphs_are_refused(void **state) {
    ir_value out;
    int64_t t = INT64_C(1) << 40;
    rp_error err = {0};
    (void)state;
    ir_graph *g =
        parse("graph @g() where T in [1,inf] {\n %y = iota {axis=0, dtype=i32, shape=[T,1024]}\n"
              " ret %y\n}");
    assert_int_equal(ir_eval(g, NULL, NULL, NULL, &t, &out, &err), RP_UNSUPPORTED);
    assert_string_equal(
        err.text,
        "iota: [1099511627776,1024] has more than the 2^31 elements that the interpreter takes");
    ir_graph_free(g);
}

static rp_status eval_once(const ir_graph *g, double *sum) {
    random_leaves v;
    ir_value out[3];
    rp_error err = {0};
    RP_TRY(random_leaves_new(g, 9, &v, &err));
    rp_status st = ir_eval(g, v.leaf[0], v.leaf[1], v.leaf[2], v.symbols, out, &err);
    for (uint32_t i = 0; st == RP_OK && i < ir_output_count(g); i++) {
        for (int64_t j = 0; j < out[i].n; j++) *sum += out[i].data[j] * (double)(j % 7 + 1);
        ir_value_done(&out[i]);
    }
    random_leaves_done(&v);
    return st;
}

static void every_allocation_may_fail(void **state) {
    random_graph_options opt = RANDOM_GRAPH_ALL;
    ir_graph *g;
    rp_error err = {0};
    uint64_t failures = 0;
    (void)state;
    CHECK_OK(random_graph_new(11, &opt, &g, &err), &err);
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        double sum = 0;
        rp_status st = eval_once(g, &sum);
        assert_true(st == RP_OK || st == RP_NOMEM);
        assert_int_equal(base_live(), live);
        failures += st == RP_NOMEM;
    }
    assert_true(failures > 10);
    ir_graph_free(g);
}

static void random_values_are_the_same_everywhere(void **state) {
    int64_t dims[2] = {2, 32};
    ir_value v;
    rp_error err = {0};
    (void)state;
    CHECK_OK(ir_random_value(RP_DTYPE_F32, dims, 2, 0, 42, &v, &err), &err);
    double sum = 0;
    for (int i = 0; i < 64; i++) {
        assert_true(v.data[i] >= -1 && v.data[i] < 1);
        sum += v.data[i] * (i + 1);
    }
    assert_true(sum == -0x1.2dcd4ea4p+7);
    ir_value_done(&v);
    CHECK_OK(ir_random_value(RP_DTYPE_I32, dims, 2, 10, 42, &v, &err), &err);
    for (int i = 0; i < 64; i++) assert_true(v.data[i] >= 0 && v.data[i] < 10);
    ir_value_done(&v);
    dims[1] = 33;
    assert_int_equal(ir_random_value(RP_DTYPE_Q4_0, dims, 2, 0, 1, &v, &err), RP_INVALID);
}

static void note_live(void *user, const ir_graph *g, ir_ref r, ir_value *const *value) {
    size_t *most = user;
    (void)g, (void)r, (void)value;
    if (base_live() > *most) *most = base_live();
}

/* A value goes with its last reader: a chain takes as much at once, however long it is. */
static void values_go_when_they_are_read(void **state) {
    size_t most[2] = {0};
    (void)state;
    for (int k = 0; k < 2; k++) {
        const ir_eval_watch watch = {&most[k], note_live};
        double data[2] = {1, 2};
        ir_value x = {1, {2}, 2, data}, out = {0};
        const ir_eval_leaves leaves = {&x, NULL, NULL};
        ir_graph *g = NULL;
        rp_error err = {0};
        base_buf b;
        const int n = k ? 200 : 10;
        base_buf_init(&b, 0);
        base_buf_puts(&b, "graph @f(%x: f32[2]) -> f32[2] {\n  %0 = neg %x\n");
        for (int i = 1; i < n; i++) base_buf_printf(&b, "  %%%d = neg %%%d\n", i, i - 1);
        base_buf_printf(&b, "  ret %%%d\n}\n", n - 1);
        CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
        base_buf_done(&b);
        const size_t before = base_live();
        CHECK_OK(ir_eval_watched(g, &leaves, NULL, &watch, &out, &err), &err);
        most[k] -= before;
        assert_true(out.data[1] == 2);
        ir_value_done(&out);
        ir_graph_free(g);
    }
    assert_int_equal(most[0], most[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_when_they_are_read),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(integers_are_rounded_once),
        cmocka_unit_test(halves_are_exhaustive),
        cmocka_unit_test(plain_types_pack),
        cmocka_unit_test(wide_integers_pack),
        cmocka_unit_test(a_zero_of_a_block_has_the_sign_of_its_scale),
        cmocka_unit_test(blocks_are_ggufs),
        cmocka_unit_test(ties_of_blocks_are_ggufs),
        cmocka_unit_test(packing_is_near_and_idempotent),
        cmocka_unit_test(int16_rows_hold_q_scale_and_sum),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(elementwise_ops_are_the_table),
        cmocka_unit_test(ops_that_commute_do),
        cmocka_unit_test(batched_matmul),
        cmocka_unit_test(paged_attention),
        cmocka_unit_test(wrong_leaves_are_refused),
        cmocka_unit_test(huge_graphs_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(random_values_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
