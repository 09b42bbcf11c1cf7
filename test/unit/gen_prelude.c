/* The prelude of generated code: formats, mathematics, quantisation. Each against its definition or
 * double precision, and every instruction set and compiler against the built-in unit, bit for bit. */
#define TPL_FILE "unit/gen_prelude.inc"
#include "support/templates.h"

#include <math.h>

#define N 40000

static float xs[N], ys[N], got[N], other[N];
static const float special[] = {0.0f,
                                -0.0f,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                1.0f,
                                -1.0f,
                                0x1p-149f,
                                -0x1p-149f,
                                0x1p-126f,
                                0x1.fffffep127f,
                                -0x1.fffffep127f,
                                88.72f,
                                88.73f,
                                89.5f,
                                -87.4f,
                                -103.9f,
                                -104.0f,
                                -110.0f,
                                0.5f,
                                1.5f,
                                2.5f,
                                -0.5f,
                                8388607.5f,
                                3.0f,
                                -3.0f,
                                2.0f,
                                -2.0f,
                                1e30f,
                                -1e-30f,
                                0.999999f,
                                1.000001f};
#define N_SPECIAL (sizeof special / sizeof *special)

typedef struct math_case {
    const char *name;
    double (*ref)(double);
    float lo, hi;
    double max_ulp;
    bool log_scale;
} math_case;

static double ref_rsqrt(double x) {
    return 1.0 / sqrt(x);
}

static const math_case math_cases[TPL_POW] = {
    {"exp", exp, -104.0f, 89.0f, 1.0, false},        {"log", log, -87.0f, 88.0f, 0.8, true},
    {"tanh", tanh, -11.0f, 11.0f, 1.9, false},       {"erf", erf, -5.0f, 5.0f, 1.2, false},
    {"sin", sin, -1e5f, 1e5f, 1.5, false},           {"cos", cos, -1e5f, 1e5f, 1.5, false},
    {"rsqrt", ref_rsqrt, -80.0f, 80.0f, 1.51, true}, {"round", rint, -9e6f, 9e6f, 0.0, false},
};

static double ulp_error(float y, double want) {
    float w = (float)want, a = fabsf(w);
    if (isnan(w) || isinf(w) || w == 0.0f) {
        bool same = isnan(w) ? isnan(y) : y == w && !signbit(y) == !signbit(w);
        return same ? 0.0 : INFINITY;
    }
    return fabs((double)y - want) / ((double)nextafterf(a, INFINITY) - a);
}

static void fill_range(const math_case *c) {
    for (int i = 0; i < N; i++) {
        float t = 0.5f * (random_unit() + 1.0f), v = c->lo + t * (c->hi - c->lo);
        xs[i] = c->log_scale ? expf(v) : i % 3 ? v : v * 1e-3f;
    }
    memcpy(xs, special, sizeof special);
    for (int i = N / 2; i < N / 2 + 1000; i++) {
        uint32_t u = (uint32_t)random_bits();
        memcpy(&xs[i], &u, 4);
    }
}

static void functions_are_accurate_and_equal(void **state) {
    (void)state;
    for (int f = 0; f < TPL_POW; f++) {
        const math_case *c = &math_cases[f];
        fill_range(c);
        tpl_table.math[f](xs, ys, got, N);
        for (int i = 0; i < N; i++) {
            double e = ulp_error(got[i], c->ref((double)xs[i]));
            if (!(e <= c->max_ulp))
                fail_msg("%s(%a) = %a, off by %g ulp", c->name, xs[i], got[i], e);
        }
        for (int u = 1; u < n_units; u++) {
            units[u].t->math[f](xs, ys, other, N);
            for (int i = 0; i < N; i++)
                if (isnan(got[i]) && isnan(other[i]))
                    other[i] = got[i]; /* sign and payload are free */
            assert_same_bits(got, other, N, c->name, units[u].name);
        }
    }
}

/* A sweep over the bit patterns of all floats, of which xs above has few of each size. */
static void functions_are_accurate_everywhere(void **state) {
    enum { STEP = 16381 };
    (void)state;
    for (int f = 0; f < TPL_POW; f++) {
        const math_case *c = &math_cases[f];
        double worst = 0.0;
        float at = 0.0f;
        for (uint64_t first = 0; first < UINT64_C(1) << 32; first += (uint64_t)N * STEP) {
            for (int i = 0; i < N; i++) {
                uint32_t u = (uint32_t)(first + (uint64_t)i * STEP);
                memcpy(&xs[i], &u, 4);
            }
            tpl_table.math[f](xs, ys, got, N);
            for (int i = 0; i < N; i++) {
                double e = ulp_error(got[i], c->ref((double)xs[i]));
                if (e > worst) worst = e, at = xs[i];
            }
        }
        if (!(worst <= c->max_ulp)) fail_msg("%s(%a) is off by %g ulp", c->name, at, worst);
    }
}

static void pow_follows_the_standard(void **state) {
    size_t n = 0;
    (void)state;
    for (size_t i = 0; i < N_SPECIAL; i++)
        for (size_t j = 0; j < N_SPECIAL; j++) xs[n] = special[i], ys[n++] = special[j];
    for (; n < N; n++) xs[n] = expf(3.0f * random_unit()), ys[n] = 25.0f * random_unit();
    tpl_table.math[TPL_POW](xs, ys, got, N);
    for (size_t i = 0; i < N; i++) {
        double want = pow((double)xs[i], (double)ys[i]), e = ulp_error(got[i], want);
        bool sign = isnan(want) || signbit((float)want) == signbit(got[i]);
        if (!(e <= 0.51) || !sign) fail_msg("pow(%a, %a) = %a, not %a", xs[i], ys[i], got[i], want);
    }
    for (int u = 1; u < n_units; u++) {
        units[u].t->math[TPL_POW](xs, ys, other, N);
        for (int i = 0; i < N; i++)
            if (isnan(got[i]) && isnan(other[i])) other[i] = got[i];
        assert_same_bits(got, other, N, "pow", units[u].name);
    }
}

static double half_value(unsigned h) {
    int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

/* Every half, every point between two halves and its neighbours. */
static void halves_round_to_nearest_even(void **state) {
    (void)state;
    for (int u = 0; u < n_units; u++) {
        const tpl_unit *t = units[u].t;
        for (unsigned h = 0; h < 0x10000; h++) {
            rp_u16 in = (rp_u16)h, back, bits[3];
            float f, mid[3];
            t->from_f16(&in, &f, 1);
            t->to_f16(&f, &back, 1);
            if ((h & 0x7fff) > 0x7c00) {
                assert_true(isnan(f) && back == (h | 0x200));
                continue;
            }
            assert_int_equal(back, h);
            if ((h & 0x7fff) == 0x7c00) {
                assert_true(isinf(f));
                continue;
            }
            assert_true((double)f == half_value(h));
            bool last = (h & 0x7fff) == 0x7bff;
            double next = last ? (h & 0x8000 ? -65536.0 : 65536.0) : half_value(h + 1);
            mid[1] = (float)(((double)f + next) / 2);
            mid[0] = nextafterf(mid[1], 0.0f);
            mid[2] = nextafterf(mid[1], (float)(2 * next));
            t->to_f16(mid, bits, 3);
            assert_int_equal(bits[0], h);
            assert_int_equal(bits[1], h & 1 ? h + 1 : h);
            assert_int_equal(bits[2], h + 1);
        }
    }
}

static void bfloats_round_to_nearest_even(void **state) {
    (void)state;
    static const struct {
        uint32_t in;
        rp_u16 out;
    } cases[] = {{0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
                 {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0x7f800001, 0x7fc0},
                 {0xffc12345, 0xffc1}, {0x80000000, 0x8000}, {0x00008000, 0x0000},
                 {0x00018000, 0x0002}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float f;
        rp_u16 b;
        memcpy(&f, &cases[i].in, 4);
        for (int u = 0; u < n_units; u++) {
            units[u].t->to_bf16(&f, &b, 1);
            assert_int_equal(b, cases[i].out);
        }
    }
}

static void sums_fold_sixteen_lanes(void **state) {
    (void)state;
    float l[16], want, t[16];
    for (int i = 0; i < 16; i++) l[i] = t[i] = random_normal();
    for (int step = 8; step; step /= 2)
        for (int i = 0; i < step; i++) t[i] = t[i] + t[i + step];
    want = t[0];
    for (int u = 0; u < n_units; u++) {
        memcpy(t, l, sizeof l);
        float s = units[u].t->sum(t);
        assert_same_bits(&want, &s, 1, "sum", units[u].name);
    }
}

#define QK 128

/* The definition of i16b32, element by element. */
static void quantise_by_definition(const float *x, char *row) {
    rp_i16 *q = (rp_i16 *)(void *)row;
    for (int b = 0; b < QK / 32; b++) {
        float top = 0.0f, d;
        rp_i32 sum = 0;
        for (int i = 0; i < 32; i++) {
            float a = fabsf(x[b * 32 + i]);
            top = a > top || isnan(a) || isnan(top) ? (isnan(top) ? top : a) : top;
        }
        d = top / 32767.0f;
        for (int i = 0; i < 32; i++) {
            float v = d == 0.0f ? 0.0f : x[b * 32 + i] / d;
            v = isnan(v) ? 0.0f : rintf(fmaxf(-32767.0f, fminf(32767.0f, v)));
            q[b * 32 + i] = (rp_i16)v;
            sum += (rp_i32)v;
        }
        memcpy(row + QK * 2 + b * 4, &d, 4);
        memcpy(row + QK * 2 + QK / 8 + b * 4, &sum, 4);
    }
}

static void quantisation_is_as_defined(void **state) {
    (void)state;
    _Alignas(64) char want[RP_QROW_SIZE(QK)], row[RP_QROW_SIZE(QK)];
    float x[QK];
    for (int round = 0; round < 500; round++) {
        float scale = round % 5 == 0 ? 0x1p-140f : round % 7 == 0 ? 1e30f : 1.0f;
        for (int i = 0; i < QK; i++) x[i] = random_normal() * scale;
        if (round % 3 == 0) memset(x + 32, 0, 32 * sizeof *x);
        if (round % 50 == 1) x[70] = INFINITY;
        if (round % 50 == 2) x[70] = NAN;
        if (round == 3)
            for (int i = 0; i < QK; i++)
                x[i] = 0x1.4p-134f * (float)(i % 3); /* d rounds to a subnormal: clamps */
        quantise_by_definition(x, want);
        for (int u = 0; u < n_units; u++) {
            units[u].t->quantise(x, QK, row);
            assert_same_bits(want, row, sizeof row / 4, "packed row", units[u].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_isa_was_loaded),
        cmocka_unit_test(functions_are_accurate_and_equal),
        cmocka_unit_test(functions_are_accurate_everywhere),
        cmocka_unit_test(pow_follows_the_standard),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(bfloats_round_to_nearest_even),
        cmocka_unit_test(sums_fold_sixteen_lanes),
        cmocka_unit_test(quantisation_is_as_defined),
    };
    return cmocka_run_group_tests(tests, load_units, NULL);
}
