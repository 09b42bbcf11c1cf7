/* exp, log, sin, cos, tanh and erf in double precision, as kernels have them, against the wider ones of the C library. */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_are_near)};
    return cmocka_run_group_tests_name("kir_double", tests, NULL, NULL);
}
