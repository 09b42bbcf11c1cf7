/* The range of every instruction holds what the interpreter computes there: random programs over data of every type and
 * index, whose values are all looked at. Guards against zero, overflow and reads beyond the end hang on these ranges. */
#include "support/check.h"

#include <math.h>

#include "ir/eval.h"
#include "kir/inst.h"
#include "kir/kir.h"
#include "support/random_kir.h"

static void look(const random_kir *p, const double *real, const int64_t *whole, uint64_t seed) {
    for (int k = 0; k < RANDOM_KIR_MOST; k++) {
        kir_range r = p->f->ranges[p->value[k]];
        bool is_real = kir_is_float(p->f->insts[p->value[k]].cls);
        for (int i = 0; i < RANDOM_KIR_POINTS; i++) {
            double x = real[i * RANDOM_KIR_MOST + k];
            int64_t v = whole[i * RANDOM_KIR_MOST + k];
            if (is_real && (isnan(x) || (r.lo == INT64_MIN && r.hi == INT64_MAX))) continue;
            if (is_real ? x < (double)r.lo || x > (double)r.hi : v < r.lo || v > r.hi)
                fail_msg("seed %llu: %%%u (%s, op %d) at %d is %g = %lld, not in [%lld, %lld]",
                         (unsigned long long)seed, p->value[k],
                         kir_class_name(p->f->insts[p->value[k]].cls), p->f->insts[p->value[k]].op,
                         i, is_real ? x : (double)v, (long long)v, (long long)r.lo,
                         (long long)r.hi);
        }
    }
}

static void ranges_hold_every_value(void **state) {
    static int64_t data[RANDOM_KIR_TYPES][RANDOM_KIR_POINTS],
        whole[RANDOM_KIR_POINTS * RANDOM_KIR_MOST];
    static double real[RANDOM_KIR_POINTS * RANDOM_KIR_MOST];
    (void)state;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        random_kir p = {.seed = seed * 7919};
        rp_error err = {0};
        void *arg[RANDOM_KIR_TYPES + 2];
        kir_func *f = random_kir_new(&p, "f");
        CHECK_OK(kir_status(f, &err), &err);
        for (uint32_t i = 0; i < RANDOM_KIR_TYPES; i++)
            random_kir_fill(&p, random_kir_types[i], arg[i] = data[i]);
        arg[RANDOM_KIR_TYPES] = real;
        arg[RANDOM_KIR_TYPES + 1] = whole;
        CHECK_OK(kir_run(f, arg, NULL, NULL, 0, RANDOM_KIR_ITEMS, &err), &err);
        look(&p, real, whole, seed);
        kir_free(f);
    }
}

/* v as every class in turn, from an index that is known to be v: the ranges on the way, and what a run gives. */
static void becomes_each(int64_t v) {
    static const kir_class classes[] = {KIR_I64, KIR_I32, KIR_F32, KIR_F64};
    enum { N = 4 };
    kir_ref r[N * N];
    double got[N * N];
    void *arg[] = {got};
    rp_error err = {0};
    kir_func *f = kir_new("f", KIR_KERNEL, NULL);
    uint32_t out = kir_add_buf(f, "out", KIR_ARG, RP_DTYPE_F64, 0, 0, 0);
    kir_ref item = kir_begin(f, KIR_PAR, kir_const_i(f, 1));
    kir_ref known = kir_bin(f, KIR_IADD, item, kir_const_i(f, v));
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            kir_ref x = kir_from_index(f, classes[a], known), y = kir_cvt(f, classes[b], x);
            r[a * N + b] = y;
            kir_store(f, out, kir_const_i(f, a * N + b), kir_cvt(f, KIR_F64, y));
        }
    kir_end(f);
    CHECK_OK(kir_status(f, &err), &err);
    CHECK_OK(kir_run(f, arg, NULL, NULL, 0, 1, &err), &err);
    for (int i = 0; i < N * N; i++) {
        kir_range is = f->ranges[r[i]];
        if (got[i] < (double)is.lo || got[i] > (double)is.hi)
            fail_msg("%lld as %s as %s is %.0f, not in [%lld, %lld]", (long long)v,
                     kir_class_name(classes[i / N]), kir_class_name(classes[i % N]), got[i],
                     (long long)is.lo, (long long)is.hi);
    }
    kir_free(f);
}

/* Where a type has no room for a number, what it has in its place is in the range, too. */
static void what_numbers_become_is_in_range(void **state) {
    (void)state;
    for (int bits = 7; bits < 53; bits++)
        for (int64_t d = -3; d <= 3; d++) {
            becomes_each((INT64_C(1) << bits) + d);
            becomes_each(-(INT64_C(1) << bits) + d);
        }
}

/* Whether op of two numbers from `lo` to `hi` may do without the care for what does not fit i32. */
static bool exact(ir_op op, int64_t lo, int64_t hi) {
    kir_func *f = kir_new("f", KIR_KERNEL, NULL);
    rp_error err = {0};
    uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_I32, 0, 0, 0);
    kir_ref at = kir_begin(f, KIR_PAR, kir_const_i(f, 4)), v = kir_load(f, x, at);
    v = kir_alu(f, IR_max, v, kir_from_index(f, KIR_I32, kir_const_i(f, lo)), KIR_NONE);
    v = kir_alu(f, IR_min, v, kir_from_index(f, KIR_I32, kir_const_i(f, hi)), KIR_NONE);
    const bool one = op == IR_neg || op == IR_abs;
    kir_ref r = kir_alu(f, op, v, one ? KIR_NONE : v, KIR_NONE);
    kir_store(f, x, at, r);
    kir_end(f);
    CHECK_OK(kir_status(f, &err), &err);
    bool is = kir_alu_exact(f, &f->insts[r]);
    kir_free(f);
    return is;
}

static void results_that_fit_are_exact(void **state) {
    (void)state;
    assert_true(exact(IR_neg, INT32_MIN + 1, INT32_MAX));
    assert_false(exact(IR_neg, INT32_MIN, 0));
    assert_true(exact(IR_abs, INT32_MIN + 1, 0));
    assert_false(exact(IR_abs, INT32_MIN, INT32_MAX));
    assert_true(exact(IR_add, -(1 << 30), (1 << 30) - 1));
    assert_false(exact(IR_add, 0, 1 << 30));
    assert_false(exact(IR_sub, -(1 << 30) - 1, 1 << 30));
    assert_true(exact(IR_mul, -46340, 46340));
    assert_false(exact(IR_mul, 0, 46341));
}

/* Also of two numbers that are known to be 0, whose bits say nothing. */
static void comparisons_are_zero_or_one(void **state) {
    static const ir_op ops[] = {IR_eq, IR_ne, IR_lt, IR_le, IR_gt, IR_ge};
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        kir_func *f = kir_new("f", KIR_KERNEL, NULL);
        rp_error err = {0};
        uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_I32, 0, 0, 0);
        kir_ref at = kir_begin(f, KIR_PAR, kir_const_i(f, 4)), v = kir_load(f, x, at);
        kir_ref zero = kir_from_index(f, KIR_I32, kir_const_i(f, 0));
        v = kir_alu(f, IR_min, kir_alu(f, IR_max, v, zero, KIR_NONE), zero, KIR_NONE);
        const kir_ref r = kir_alu(f, ops[i], v, v, KIR_NONE);
        kir_store(f, x, at, r);
        kir_end(f);
        CHECK_OK(kir_status(f, &err), &err);
        assert_true(f->ranges[r].lo == 0 && f->ranges[r].hi == 1);
        kir_free(f);
    }
}

/* Rounding to a type is what storing it there and reading it back gives, of every class and type. */
static void roundings_are_those_of_the_types(void **state) {
    static int64_t data[RANDOM_KIR_TYPES][RANDOM_KIR_POINTS];
    static const kir_class classes[] = {KIR_F32, KIR_I32, KIR_I64, KIR_F64};
    (void)state;
    for (size_t c = 0; c < 4; c++)
        for (uint32_t t = 0; t < RANDOM_KIR_TYPES; t++) {
            const rp_dtype from = (const rp_dtype[]){RP_DTYPE_F32, RP_DTYPE_I32, RP_DTYPE_I64,
                                                     RP_DTYPE_F64}[c],
                           to = random_kir_types[t];
            const bool is_int = kir_is_int(classes[c]);
            double got[RANDOM_KIR_POINTS], want[RANDOM_KIR_POINTS], in[RANDOM_KIR_POINTS];
            void *arg[] = {data[0], got};
            random_kir p = {.seed = 77 + c};
            rp_error err = {0};
            if ((from == RP_DTYPE_F64) != (to == RP_DTYPE_F64) ||
                (is_int ? ir_dtype_is_real(to) : to == RP_DTYPE_I64))
                continue;
            kir_func *f = kir_new("f", KIR_KERNEL, NULL);
            uint32_t x = kir_add_buf(f, "x", KIR_ARG, from, 0, 0, 0),
                     y = kir_add_buf(f, "y", KIR_ARG, RP_DTYPE_F64, 1, 0, 0);
            kir_ref at = kir_begin(f, KIR_PAR, kir_const_i(f, RANDOM_KIR_POINTS));
            kir_store(f, y, at, kir_cvt(f, KIR_F64, kir_round_to(f, to, kir_load(f, x, at))));
            kir_end(f);
            random_kir_fill(&p, from, data[0]);
            if (to == RP_DTYPE_I64) /* beyond 2^53 doubles do not tell */
                for (int i = 0; i < RANDOM_KIR_POINTS; i++) data[0][i] %= INT64_C(1) << 53;
            CHECK_OK(kir_run(f, arg, NULL, NULL, 0, RANDOM_KIR_POINTS, &err), &err);
            for (int i = 0; i < RANDOM_KIR_POINTS; i++)
                in[i] = from == RP_DTYPE_I64   ? (double)data[0][i]
                        : from == RP_DTYPE_I32 ? (double)((const int32_t *)data[0])[i]
                        : from == RP_DTYPE_F64 ? ((const double *)data[0])[i]
                                               : (double)((const float *)data[0])[i];
            for (int i = 0; i < RANDOM_KIR_POINTS; i++) {
                int64_t stored = 0;
                if (to == RP_DTYPE_I64) {
                    want[i] = in[i];
                } else {
                    ir_pack(to, &in[i], 1, &stored);
                    ir_unpack(to, &stored, 1, &want[i]);
                }
                if (from == RP_DTYPE_F32) want[i] = (float)want[i]; /* still a float */
                if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i]))))
                    fail_msg("%s %g as %s is %g, want %g", rp_dtype_name(from), in[i],
                             rp_dtype_name(to), got[i], want[i]);
            }
            kir_free(f);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_hold_every_value),
        cmocka_unit_test(what_numbers_become_is_in_range),
        cmocka_unit_test(results_that_fit_are_exact),
        cmocka_unit_test(comparisons_are_zero_or_one),
        cmocka_unit_test(roundings_are_those_of_the_types),
    };
    return cmocka_run_group_tests_name("kir_range", tests, NULL, NULL);
}
