/* exp, log, sin, cos, tanh, erf and pow in double precision, as kernels have them, against the wider ones of the C library, and
 * fma, which is exact. */
#include "support/check.h"

#include <float.h>
#include <math.h>

#include "kir/scalar.h"

static double ulp_error(double got, long double want) {
    int e;
    if (isnan((double)want)) return isnan(got) ? 0 : INFINITY;
    if (isinf((double)want) || isinf(got)) return got == (double)want ? 0 : INFINITY;
    (void)frexpl(want, &e);
    e = e < -1021 ? -1021 : e;
    return (double)(fabsl((long double)got - want) / ldexpl(1, e - 53));
}

static void check(ir_op op, long double (*reference)(long double), double most, double x) {
    double got = kir_alu_f64(op, x, 0, 0), off = ulp_error(got, reference(x));
    if (!(off <= most))
        fail_msg("%s(%a) = %a is off by %g ulp", ir_op_table(op)->name, x, got, off);
}

static void check_all(double x) {
    check(IR_exp, expl, 1, x);
    check(IR_log, logl, 1, x);
    check(IR_tanh, tanhl, 1.4, x);
    check(IR_erf, erfl, 3.1, x);
    check(IR_sin, sinl, 1, x);
    check(IR_cos, cosl, 1, x);
}

/* Those from the third on are near multiples of pi/2: the fourth nearer than any other double. */
static const double special[] = {0x1p19,
                                 0x1.fffffffffffffp18,
                                 0x1.921fb54442d18p+0,
                                 0x1.6ac5b262ca1ffp+849,
                                 0x1.921fb54442d18p+1,
                                 0x1.2d97c7f3321d2p+2,
                                 0x1.c5c01p+18,
                                 0x1.5fdbbe9bba775p+5,
                                 0x1p-27,
                                 0x1p1023,
                                 0.625,
                                 -0.6249999999999999,
                                 5.999999999999999,
                                 6.0,
                                 19.07,
                                 0.0,
                                 -0.0,
                                 INFINITY,
                                 -INFINITY,
                                 NAN,
                                 1.0,
                                 -1.0,
                                 DBL_MIN,
                                 -DBL_MIN,
                                 0x1p-1074,
                                 -0x1p-1074,
                                 DBL_MAX,
                                 -DBL_MAX,
                                 0x1.6a09e667f3bccp-1,
                                 0x1.6a09e667f3bcdp-1,
                                 0x1.6a09e667f3bcep-1,
                                 709.78,
                                 709.782712893384,
                                 709.7827128933841,
                                 709.9,
                                 -708.4,
                                 -744.44,
                                 -745.13,
                                 -745.14,
                                 -745.3,
                                 1e300,
                                 -1e300};

static void functions_are_near(void **state) {
    uint64_t bits = 1;
    (void)state;
    if (LDBL_MANT_DIG < 64) SKIP_TEST("long double is no wider than double");
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        check_all(special[i]);
    }
    for (int i = 0; i < 400000; i++) {
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double u = (double)(bits >> 11) * 0x1p-53, any;
        uint64_t positive = bits >> 1;
        memcpy(&any, &positive, sizeof any);
        check(IR_exp, expl, 1, (u - 0.5) * (i % 3 == 0 ? 1500 : i % 3 == 1 ? 4 : 0x1p-20));
        check(IR_tanh, tanhl, 1.4, (u - 0.5) * (i % 3 == 0 ? 20 : i % 3 == 1 ? 3 : 0x1p-30));
        check(IR_erf, erfl, 3.1, (u - 0.5) * (i % 3 == 0 ? 13 : i % 3 == 1 ? 3 : 0x1p-30));
        check(IR_log, logl, 1, i % 2 ? any : 0.5 + u);
        double angle = i % 3 == 0 ? any : (u - 0.5) * (i % 3 == 1 ? 0x1p22 : 8);
        check(IR_sin, sinl, 1, angle);
        check(IR_cos, cosl, 1, angle);
    }
}

/* --- pow and fma -------------------------------------------------------------------- */

static uint64_t seed = 1;

static uint64_t random_bits(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed ^ seed >> 29) * UINT64_C(0x9e3779b97f4a7c15) ^ seed >> 32;
}
static double any_double(void) {
    uint64_t bits = random_bits();
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static double unit(void) {
    return (double)(random_bits() >> 11) * 0x1p-53;
}
/* At most n bits of exponent either way. */
static double scaled(double x, int n) {
    return ldexp(x, (int)(random_bits() % (2 * (unsigned)n + 1)) - n);
}

static const double edges[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               2.0,
                               -2.0,
                               3.0,
                               -3.0,
                               0.5,
                               -0.5,
                               0x1p-1074,
                               -0x1p-1074,
                               DBL_MAX,
                               -DBL_MAX,
                               DBL_MIN,
                               1024.0,
                               -1074.0,
                               -1075.0,
                               1023.9999,
                               1e300,
                               -1e300,
                               0x1p53,
                               0x1p66,
                               0x1p70,
                               0x1p53 - 1,
                               -0x1p53 + 1,
                               0x1p52 + 1,
                               4503599627370495.5,
                               1e-300,
                               0x1.fffffffffffffp-1,
                               0x1.0000000000001p0};
enum { N_EDGES = sizeof edges / sizeof *edges };

static void check_pow(double x, double y) {
    long double want = powl(x, y);
    double got = kir_alu_f64(IR_pow, x, y, 0), off = ulp_error(got, want);
    bool sign = isnan(got) || signbit(got) == signbit((double)want);
    if (!(off <= 1) || !sign) fail_msg("pow(%a, %a) = %a is off by %g ulp", x, y, got, off);
}

/* Over all doubles; near 1 with large exponents, where the logarithm must have more bits than a double; whole powers of negative
 * numbers. */
static void pow_is_near(void **state) {
    (void)state;
    if (LDBL_MANT_DIG < 64) SKIP_TEST("long double is no wider than double");
    for (size_t i = 0; i < N_EDGES; i++)
        for (size_t k = 0; k < N_EDGES; k++) check_pow(edges[i], edges[k]);
    for (int i = 0; i < 200000; i++) {
        check_pow(any_double(), any_double());
        check_pow(unit() * 4, (unit() - 0.5) * 1000);
        check_pow(1 + (unit() - 0.5) * 0x1p-20, (unit() - 0.5) * 0x1p32);
        check_pow(1 + ldexp(unit() - 0.5, -(int)(random_bits() % 53)),
                  ldexp(unit() - 0.5, (int)(random_bits() % 71)));
        check_pow(fabs(any_double()), (unit() - 0.5) * 4);
        check_pow(-floor(unit() * 100), floor((unit() - 0.5) * 200));
    }
}

/* Over all doubles, whole multiples, and quotients that are near whole numbers. */
static void fmod_is_exact(void **state) {
    (void)state;
    for (int i = 0; i < 300000 + N_EDGES * N_EDGES; i++) {
        const int k = i - 300000;
        double x = any_double(), y = any_double();
        if (i % 3 == 1) x = y * floor(unit() * 1000);
        if (i % 3 == 2) x = scaled(unit(), 60), y = scaled(unit(), 60);
        if (k >= 0) x = edges[k / (int)N_EDGES], y = edges[k % (int)N_EDGES];
        const double got = kir_alu_f64(IR_fmod, x, y, 0), want = fmod(x, y);
        if ((isnan(got) && isnan(want)) || memcmp(&got, &want, sizeof got) == 0) continue;
        fail_msg("fmod(%a, %a) = %a, want %a", x, y, got, want);
    }
}

static void check_fma(double x, double y, double z) {
    double got = kir_alu_f64(IR_fma, x, y, z), want = fma(x, y, z);
    if ((isnan(got) && isnan(want)) || memcmp(&got, &want, sizeof got) == 0) return;
    fail_msg("fma(%a, %a, %a) = %a, want %a", x, y, z, got, want);
}

/* Over all doubles; sums of nearly equal size, which cancel; subnormal results, overflow, and halves that a bit far below decides. */
static void fma_is_exact(void **state) {
    (void)state;
    for (size_t i = 0; i < N_EDGES; i++)
        for (size_t k = 0; k < N_EDGES; k++)
            for (size_t j = 0; j < N_EDGES; j++) check_fma(edges[i], edges[k], edges[j]);
    for (int i = 0; i < 300000; i++) {
        double x = 1 + unit(), y = 1 + unit();
        check_fma(any_double(), any_double(), any_double());
        check_fma(scaled(x, 30), scaled(y, 30), scaled(unit() - 0.5, 100));
        check_fma(x, y, -x * y * (1 + (double)(random_bits() % 3) * 0x1p-52));
        check_fma(ldexp(x, -500), scaled(ldexp(y, -540), 40),
                  scaled(ldexp(unit() - 0.5, -1037), 37));
        check_fma(ldexp(x, 510), scaled(ldexp(y, 507), 7), scaled(ldexp(unit() - 0.5, 1012), 12));
        check_fma(scaled((double)(random_bits() % 1024), 20),
                  scaled((double)(random_bits() % 1024), 20),
                  -scaled((double)(random_bits() % 1024), 60));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_near), cmocka_unit_test(pow_is_near),
        cmocka_unit_test(fmod_is_exact), cmocka_unit_test(fma_is_exact)};
    return cmocka_run_group_tests_name("kir_double", tests, NULL, NULL);
}
