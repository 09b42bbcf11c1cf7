/* Builders: folding of index arithmetic (checked against brute force), sharing, and misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kir/inst.h"
#include "kir/kir.h"

static kir_func *kernel(int64_t items, kir_ref *item) {
    kir_func *f = kir_new("f", KIR_KERNEL, NULL);
    *item = kir_begin(f, KIR_PAR, kir_const_i(f, items));
    return f;
}

static kir_ref c(kir_func *f, int64_t v) {
    return kir_const_i(f, v);
}
static kir_ref add(kir_func *f, kir_ref a, kir_ref b) {
    return kir_bin(f, KIR_IADD, a, b);
}
static kir_ref sub(kir_func *f, kir_ref a, kir_ref b) {
    return kir_bin(f, KIR_ISUB, a, b);
}
static kir_ref mul(kir_func *f, kir_ref a, kir_ref b) {
    return kir_bin(f, KIR_IMUL, a, b);
}
static kir_ref quo(kir_func *f, kir_ref a, int64_t b) {
    return kir_bin(f, KIR_IDIV, a, c(f, b));
}
static kir_ref rem_(kir_func *f, kir_ref a, int64_t b) {
    return kir_bin(f, KIR_IMOD, a, c(f, b));
}

static void constants_are_shared(void **state) {
    kir_ref i;
    kir_func *f = kernel(8, &i);

    (void)state;
    assert_int_equal(c(f, 576), c(f, 576));
    assert_int_equal(kir_const_f(f, 0.1), kir_const_f(f, (float)0.1));
    assert_int_not_equal(kir_const_f(f, 0.0), kir_const_f(f, -0.0));
    assert_int_equal(add(f, c(f, 2), c(f, 3)), c(f, 5));
    assert_int_equal(add(f, i, c(f, 3)), add(f, c(f, 3), i));
    kir_free(f);
}

/* What is made within a block is nobody's behind it; what is made behind it is everybody's from there. */
static void index_values_are_shared_where_they_are_seen(void **state) {
    kir_ref i, within, behind;
    kir_func *f = kernel(8, &i);

    (void)state;
    (void)kir_begin(f, KIR_LOOP, c(f, 5));
    within = add(f, i, c(f, 77));
    assert_int_equal(add(f, i, c(f, 77)), within);
    kir_end(f);
    behind = add(f, i, c(f, 77));
    assert_int_not_equal(behind, within);
    (void)kir_begin(f, KIR_LOOP, c(f, 5));
    assert_int_equal(add(f, i, c(f, 77)), behind);
    kir_end(f);
    assert_int_equal(add(f, i, c(f, 77)), behind);
    assert_int_not_equal(mul(f, i, c(f, 77)), behind);
    kir_free(f);
}

/* Finding what was made before does not take as long as the function is: this would take minutes. */
static void long_functions_share_too(void **state) {
    enum { N = 200000 };
    kir_ref i;
    kir_func *f = kernel(8, &i);

    (void)state;
    for (int round = 0; round < 2; round++) {
        uint32_t before = f->n_insts;
        for (int64_t k = 0; k < N; k++) (void)mul(f, i, c(f, k + 1000));
        if (round) assert_int_equal(f->n_insts, before);
        for (int64_t k = 0; k < N; k++) (void)kir_const_f(f, (double)k);
    }
    assert_int_equal(f->n_insts, 2 + 3 * N);
    kir_free(f);
}

static void trivial_arithmetic_folds(void **state) {
    kir_ref i;
    kir_func *f = kernel(100, &i);

    (void)state;
    assert_int_equal(mul(f, i, c(f, 0)), c(f, 0));
    assert_int_equal(mul(f, i, c(f, 1)), i);
    assert_int_equal(add(f, i, c(f, 0)), i);
    assert_int_equal(sub(f, i, i), c(f, 0));
    assert_int_equal(sub(f, add(f, i, c(f, 7)), c(f, 7)), i);
    assert_int_equal(quo(f, mul(f, i, c(f, 12)), 12), i);
    assert_int_equal(rem_(f, mul(f, i, c(f, 12)), 12), c(f, 0));
    assert_int_equal(quo(f, mul(f, i, c(f, 12)), 4), mul(f, i, c(f, 3)));
    assert_int_equal(quo(f, quo(f, i, 3), 5), quo(f, i, 15));
    assert_int_equal(rem_(f, rem_(f, i, 12), 4), rem_(f, i, 4));
    kir_free(f);
}

static void ranges_fold_division(void **state) {
    kir_ref i, j;
    kir_func *f = kernel(100, &i);

    (void)state;
    j = kir_begin(f, KIR_LOOP, c(f, 32));
    assert_int_equal(quo(f, j, 32), c(f, 0));
    assert_int_equal(rem_(f, j, 32), j);
    /* A flat index taken apart again. */
    assert_int_equal(quo(f, add(f, mul(f, i, c(f, 32)), j), 32), i);
    assert_int_equal(rem_(f, add(f, mul(f, i, c(f, 32)), j), 32), j);
    /* 64 columns seen as 2 x 32. */
    assert_int_equal(rem_(f, add(f, mul(f, i, c(f, 64)), j), 64), j);
    /* x/8*8 + x%8 is x. */
    assert_int_equal(add(f, mul(f, quo(f, i, 8), c(f, 8)), rem_(f, i, 8)), i);
    assert_int_equal(kir_bin(f, KIR_ILT, j, c(f, 32)), c(f, 1));
    assert_int_equal(kir_bin(f, KIR_ILT, j, c(f, 0)), c(f, 0));
    assert_int_equal(kir_bin(f, KIR_IMIN, j, c(f, 31)), j);
    assert_int_equal(kir_bin(f, KIR_IMAX, j, c(f, 31)), c(f, 31));
    assert_int_equal(kir_iselect(f, c(f, 1), i, j), i);
    kir_free(f);
}

static void a_loop_of_one_is_zero(void **state) {
    kir_ref i, j;
    kir_func *f = kernel(10, &i);

    (void)state;
    j = kir_begin(f, KIR_LOOP, c(f, 1));
    assert_int_equal(add(f, mul(f, i, c(f, 5)), j), mul(f, i, c(f, 5)));
    kir_free(f);
}

/* Random index expressions over two counters and a symbol, folded and evaluated, against plain
 * arithmetic on the side. */
typedef struct pair {
    kir_ref ref;
    int64_t value[24];
} pair;

static uint32_t next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static int64_t plain(kir_op op, int64_t a, int64_t b) {
    int64_t q;
    switch (op) {
    case KIR_IADD: return a + b;
    case KIR_ISUB: return a - b;
    case KIR_IMUL: return a * b;
    case KIR_IMIN: return a < b ? a : b;
    case KIR_IMAX: return a > b ? a : b;
    case KIR_ILT: return a < b;
    case KIR_IAND: return a && b;
    default: q = a / b - (a % b < 0); return op == KIR_IDIV ? q : a - q * b;
    }
}

/* Leaves: item (0..3), counter (0..5). The points are all 24 combinations. */
static void folded_equals_plain(uint64_t seed) {
    static const kir_op ops[] = {KIR_IADD, KIR_IADD, KIR_IADD, KIR_ISUB, KIR_IMUL,
                                 KIR_IMUL, KIR_IDIV, KIR_IDIV, KIR_IMOD, KIR_IMOD,
                                 KIR_IMIN, KIR_IMAX, KIR_ILT,  KIR_IAND};
    static const int64_t divisors[] = {1, 2, 3, 4, 6, 8, 12, 24, 5};
    pair v[40];
    int64_t got[24 * 12];
    void *args[1] = {got};
    int n = 0;
    kir_ref i, j;
    kir_func *f = kir_new("f", KIR_KERNEL, NULL);
    uint32_t y = kir_add_buf(f, "y", KIR_ARG, RP_DTYPE_I32, 0, 0, 0);

    i = kir_begin(f, KIR_PAR, c(f, 4));
    j = kir_begin(f, KIR_LOOP, c(f, 6));
    v[n++].ref = i;
    v[n++].ref = j;
    for (int p = 0; p < 24; p++) v[0].value[p] = p / 6, v[1].value[p] = p % 6;
    for (; n < 14; n++) {
        kir_op op = ops[next(&seed) % 14];
        int a = (int)(next(&seed) % (uint32_t)n), b = (int)(next(&seed) % (uint32_t)n);
        int64_t k = op == KIR_IMUL || next(&seed) % 2 ? divisors[next(&seed) % 9] : 0;
        if (op == KIR_IDIV || op == KIR_IMOD) k = divisors[next(&seed) % 9];
        v[n].ref = kir_bin(f, op, v[a].ref, k ? c(f, k) : v[b].ref);
        for (int p = 0; p < 24; p++)
            v[n].value[p] = plain(op, v[a].value[p], k ? k : v[b].value[p]);
    }
    for (int k = 0; k < 12; k++) {
        kir_ref at = add(f, mul(f, add(f, mul(f, i, c(f, 6)), j), c(f, 12)), c(f, k));
        kir_store(f, y, at, kir_from_index(f, KIR_I32, v[k + 2].ref));
    }
    kir_end(f);
    kir_end(f);
    rp_error err = {0};
    if (kir_run(f, args, NULL, NULL, 0, 4, &err) != RP_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    for (int p = 0; p < 24; p++) {
        for (int k = 0; k < 12; k++) {
            int64_t want = v[k + 2].value[p];
            int32_t have = ((int32_t *)got)[p * 12 + k];
            if (want < INT32_MIN || want > INT32_MAX) continue;
            if (have != want)
                fail_msg("value %d at point %d: %d, expected %lld", k + 2, p, have,
                         (long long)want);
            assert_true(f->ranges[v[k + 2].ref].lo <= want && want <= f->ranges[v[k + 2].ref].hi);
        }
    }
    kir_free(f);
}

static void folding_keeps_every_value(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) folded_equals_plain(seed * 7919);
}

/* x/d*a + x%e*b, of which there is less only where d is e and a is d*b. */
static void quotients_and_rests_are_joined_where_they_fit(void **state) {
    enum { MOST = 6, N = 40 };
    (void)state;
    for (int64_t n = 0; n < MOST * MOST; n++)
        for (int64_t m = 0; m < 25 * 25; m++) {
            const int64_t d = n / MOST + 1, e = n % MOST + 1, a = m / 25 - 12, b = m % 25 - 12;
            kir_ref i;
            kir_func *f = kernel(N, &i);
            kir_ref sum = add(f, mul(f, quo(f, i, d), c(f, a)), mul(f, rem_(f, i, e), c(f, b)));
            if (d != 1 && e != 1 && a && b && (sum == i || sum == mul(f, i, c(f, b))))
                if (d != e || a != d * b)
                    fail_msg("x/%d*%d + x%%%d*%d is not x*%d", (int)d, (int)a, (int)e, (int)b,
                             (int)b);
            kir_free(f);
        }
}

/* A position taken apart dim by dim is itself again, times what the rest has; of dims that are not those it was taken apart by
 * it is not. */
static void positions_taken_apart_are_joined_again(void **state) {
    static const int64_t dims[][3] = {{12, 64, 64}, {4, 8, 100}, {7, 5, 3}, {1, 6, 2}, {6, 1, 2}};
    (void)state;
    for (size_t n = 0; n < sizeof dims / sizeof *dims; n++) {
        const int64_t *d = dims[n], rows = d[0] * d[1];
        for (int64_t wrong = 0; wrong < 3; wrong++) {
            kir_ref i;
            kir_func *f = kernel(3 * rows, &i);
            kir_ref minor = rem_(f, i, d[1]), up = quo(f, i, d[1]);
            kir_ref middle = rem_(f, up, d[0]), major = quo(f, up, d[0] + (wrong == 2));
            kir_ref at = add(f, mul(f, major, c(f, d[0] + (wrong == 1))), middle);
            at = mul(f, add(f, mul(f, at, c(f, d[1])), minor), c(f, d[2]));
            assert_true((at == mul(f, i, c(f, d[2]))) == !wrong);
            kir_free(f);
        }
    }
}

static void dims_are_imported_in_order(void **state) {
    base_arena *arena = base_arena_new();
    ir_dims *dims = ir_dims_new(arena);
    ir_dim r = ir_dim_symbol(dims, "R", 1, 8, 1), t = ir_dim_symbol(dims, "T", 1, 480, 1);
    kir_func *f = kir_new("f", KIR_KERNEL, dims);
    kir_ref a, b;

    (void)state;
    a = kir_dim(f, dims, ir_dim_mul_const(dims, t, 9));
    b = kir_dim(f, dims, ir_dim_mul_const(dims, t, 9));
    assert_int_equal(a, b);
    assert_int_equal(kir_dim(f, dims, ir_dim_const(dims, 5)), c(f, 5));
    assert_int_equal(f->ranges[a].lo, 9);
    assert_int_equal(f->ranges[a].hi, 4320);
    assert_string_equal(ir_dims_symbol(f->dims, 0)->name, "R");
    assert_string_equal(ir_dims_symbol(f->dims, 1)->name, "T");
    (void)r;
    kir_free(f);
    base_arena_free(arena);
}

/* Each misuse makes kir_status speak; later calls change nothing. */
static void expect_failure(kir_func *f, rp_status code, const char *words) {
    rp_error err = {0};
    assert_int_equal(kir_status(f, &err), code);
    if (!strstr(err.text, words)) fail_msg("got '%s', expected '%s'", err.text, words);
    assert_int_equal(kir_const_i(f, 12345), KIR_NONE);
    assert_int_equal(kir_verify(f, NULL), code);
    kir_free(f);
}

/* Each call that fails gives nothing. */
static void misuse_is_reported(void **state) {
    kir_ref i, v;
    kir_func *f = kernel(4, &i);
    uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);

    (void)state;
    v = kir_load(f, x, i);
    assert_int_equal(kir_bin(f, KIR_IADD, i, v), KIR_NONE);
    expect_failure(f, RP_INVALID, "iadd: operand %2 is f32, expected index");

    f = kernel(4, &i);
    assert_int_equal(kir_load(f, 3, i), KIR_NONE);
    expect_failure(f, RP_INVALID, "load: buffer 3 of 0");

    f = kernel(4, &i);
    kir_end(f);
    kir_end(f);
    expect_failure(f, RP_INVALID, "no block is open");

    f = kernel(4, &i);
    (void)kir_begin_reduce(f, KIR_SUM, c(f, 3));
    kir_end(f);
    expect_failure(f, RP_INVALID, "a reduce ends with yield");

    f = kernel(4, &i);
    v = kir_begin(f, KIR_LOOP, c(f, 3));
    kir_end(f);
    (void)add(f, v, i);
    expect_failure(f, RP_INVALID, "is not visible here");

    f = kernel(4, &i);
    (void)kir_begin(f, KIR_LOOP, c(f, 3));
    assert_int_equal(kir_yield(f, kir_const_f(f, 1.0)), KIR_NONE);
    expect_failure(f, RP_INVALID, "yield: the innermost open block is no reduce");

    f = kernel(4, &i);
    assert_int_equal(kir_begin(f, KIR_REDUCE, c(f, 3)), KIR_NONE);
    expect_failure(f, RP_INVALID, "reduce opens no plain loop");

    f = kernel(4, &i);
    assert_int_equal(kir_cvt(f, KIR_INDEX, kir_const_f(f, 1.0)), KIR_NONE);
    expect_failure(f, RP_INVALID, "cvt to index; use to_index for an index");

    f = kernel(4, &i);
    assert_int_equal(kir_from_index(f, KIR_INDEX, i), KIR_NONE);
    expect_failure(f, RP_INVALID, "from_index to index");

    f = kernel(4, &i);
    assert_int_equal(kir_to_index(f, kir_const_f(f, 1.0)), KIR_NONE);
    expect_failure(f, RP_INVALID, "is f32, expected an integer");

    f = kernel(4, &i);
    assert_int_equal(kir_shr(f, kir_from_index(f, KIR_I32, i), 32), KIR_NONE);
    expect_failure(f, RP_INVALID, "shr by 32; expected 0 to 31");

    f = kernel(4, &i);
    assert_int_equal(kir_band(f, kir_from_index(f, KIR_I32, i), INT64_C(1) << 31), KIR_NONE);
    expect_failure(f, RP_INVALID, "band with 2147483648; expected 32 bits");

    f = kernel(4, &i);
    assert_int_equal(kir_round_to(f, RP_DTYPE_Q4_1, kir_const_f(f, 1.0)), KIR_NONE);
    expect_failure(f, RP_UNSUPPORTED, "round_to q4_1 of f32");

    f = kernel(4, &i);
    assert_int_equal(kir_wrap_to(f, RP_DTYPE_I8, kir_const_f(f, 1.0)), KIR_NONE);
    expect_failure(f, RP_UNSUPPORTED, "wrap_to i8 of f32");

    f = kernel(4, &i);
    assert_true(kir_is_visible(f, i));
    for (uint32_t n = 0; n < 40; n++) { /* whatever lies behind the last one */
        assert_true(kir_is_visible(f, f->n_insts - 1));
        assert_false(kir_is_visible(f, f->n_insts));
        (void)add(f, i, c(f, (int64_t)n * n + 1));
    }
    (void)quo(f, i, 0);
    expect_failure(f, RP_INVALID, "a divisor must be positive");

    f = kernel(4, &i);
    (void)rem_(f, i, 0);
    expect_failure(f, RP_INVALID, "remainder by 0; a divisor must be positive");

    f = kernel(4, &i);
    assert_int_equal(kir_alu(f, IR_exp, kir_from_index(f, KIR_I32, i), KIR_NONE, KIR_NONE),
                     KIR_NONE);
    expect_failure(f, RP_UNSUPPORTED, "exp is not defined on integers");

    f = kernel(4, &i);
    assert_int_equal(
        kir_alu(f, IR_add, kir_from_index(f, KIR_I32, i), kir_const_f(f, 1.0), KIR_NONE), KIR_NONE);
    expect_failure(f, RP_INVALID, "operand 1 is f32, the first is i32");

    f = kernel(4, &i);
    assert_int_equal(kir_alu(f, IR_add, kir_const_f(f, 1.0), KIR_NONE, KIR_NONE), KIR_NONE);
    expect_failure(f, RP_INVALID, "an operand is missing");

    f = kernel(4, &i);
    assert_int_equal(kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_Q4_1, 0, 0, 0), KIR_NONE);
    expect_failure(f, RP_UNSUPPORTED, "buffer x cannot be q4_1");

    f = kernel(4, &i);
    assert_int_equal(kir_param(f, 0), KIR_NONE);
    expect_failure(f, RP_INVALID, "only a fragment has parameters");
}

/* What verifying says of a kernel that has two buffers, of which the second is bad, and of its own name. */
static void names_and_buffers_are_checked(void **state) {
    static const struct {
        const char *kernel, *name;
        rp_dtype dtype;
        uint32_t slot;
        int64_t offset, size;
        const char *words; /* NULL: sound */
    } cases[] = {
        {"k", "_b2", RP_DTYPE_F32, 0, 8, 0, NULL},
        {"k", "b", RP_DTYPE_F16, UINT16_MAX, 6, 0, NULL},
        {"1k", "b", RP_DTYPE_F32, 0, 0, 0, "kernel name '1k' is no identifier"},
        {"", "b", RP_DTYPE_F32, 0, 0, 0, "kernel name '' is no identifier"},
        {"k", "2b", RP_DTYPE_F32, 0, 0, 0, "kernel k: buffer name '2b' is no identifier"},
        {"k", "b-c", RP_DTYPE_F32, 0, 0, 0, "kernel k: buffer name 'b-c' is no identifier"},
        {"k", "x", RP_DTYPE_F32, 1, 0, 0, "kernel k: two buffers named x"},
        {"k", "b", RP_DTYPE_F32, 0, 6, 0, "kernel k: buffer b: slot 0, offset 6 (a multiple"},
        {"k", "b", RP_DTYPE_F32, 0, -4, 0, "offset -4"},
        {"k", "b", RP_DTYPE_F32, UINT16_MAX + 1, 0, 0, "slot 65536"},
        {"k", "b", RP_DTYPE_F32, 0, 0, -1, "size -1"},
        {"k", "b", RP_DTYPE_F32, 0, 0, INT64_MAX / 64 + 1, "size 144115188075855872"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        kir_func *f = kir_new(cases[i].kernel, KIR_KERNEL, NULL);
        uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);
        (void)kir_add_buf(f, cases[i].name, KIR_ARG, cases[i].dtype, cases[i].slot, cases[i].offset,
                          cases[i].size);
        kir_ref at = kir_begin(f, KIR_PAR, kir_const_i(f, 4));
        kir_store(f, x, at, kir_const_f(f, 1.0));
        kir_end(f);
        rp_status st = kir_verify(f, &err);
        if (st != (cases[i].words ? RP_INVALID : RP_OK) ||
            (cases[i].words && !strstr(err.text, cases[i].words)))
            fail_msg("case %zu: %s: %s", i, rp_status_name(st), err.text);
        kir_free(f);
    }
}

static void unclosed_blocks_do_not_verify(void **state) {
    kir_ref i;
    kir_func *f = kernel(4, &i);
    rp_error err = {0};

    (void)state;
    assert_int_equal(kir_verify(f, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "par is never closed"));
    kir_free(f);
}

/* No text and no builder makes one. */
static void an_unknown_reduction_does_not_verify(void **state) {
    kir_ref i;
    kir_func *f = kernel(4, &i);
    uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);
    rp_error err = {0};

    (void)state;
    kir_ref at = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, 4));
    (void)kir_yield(f, kir_load(f, x, at));
    kir_end(f);
    assert_int_equal(kir_verify(f, &err), RP_OK);
    f->insts[at].u.reduce = KIR_REDUCE_COUNT_;
    assert_int_equal(kir_verify(f, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "unknown reduction"));
    kir_free(f);
}

/* i32 ranges decide whether a store must clamp. */
static void data_ranges_follow_the_ops(void **state) {
    kir_ref i, q, v;
    kir_func *f = kernel(4, &i);
    uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);

    (void)state;
    v = kir_load(f, x, i);
    q = kir_cvt(f, KIR_I32, kir_round_to(f, RP_DTYPE_I16, v));
    assert_int_equal(f->ranges[q].lo, -32768);
    assert_int_equal(f->ranges[kir_shr(f, q, 8)].hi, 127);
    assert_int_equal(f->ranges[kir_band(f, q, 255)].lo, 0);
    assert_int_equal(f->ranges[kir_cvt(f, KIR_I32, v)].hi, INT32_MAX);
    /* a negative end may be the larger one, and INT32_MIN has no opposite */
    kir_ref size = kir_alu(f, IR_abs, q, KIR_NONE, KIR_NONE);
    assert_int_equal(f->ranges[size].lo, 0);
    assert_int_equal(f->ranges[size].hi, 32768);
    size = kir_alu(f, IR_abs, kir_cvt(f, KIR_I32, v), KIR_NONE, KIR_NONE);
    assert_int_equal(f->ranges[size].lo, INT32_MIN);
    kir_free(f);
}

/* f32 has every integer up to 2^24, and behind that every other one. */
static void what_f32_holds_is_not_rounded_to_odd(void **state) {
    kir_ref i;
    kir_func *f = kernel(4, &i);
    uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_I32, 0, 0, 0);
    kir_ref v = kir_load(f, x, i);

    (void)state;
    for (int bits = 23; bits <= 27; bits++) {
        kir_ref to = kir_cvt_odd(f, kir_band(f, v, (INT64_C(1) << bits) - 1));
        assert_int_equal(f->insts[to].op, bits <= 24 ? KIR_CVT : KIR_CVT_ODD);
    }
    kir_free(f);
}

static void building_survives_lost_allocations(void **state) {
    size_t live = base_live();
    bool fired = true;

    (void)state;
    for (uint64_t n = 1; fired; n++) {
        kir_func *f;
        rp_status st = RP_NOMEM;
        base_alloc_fail_nth(n);
        f = kir_new("f", KIR_KERNEL, NULL);
        if (f) {
            uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);
            kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 900));
            for (int k = 0; k < 300; k++) {
                kir_store(f, x, add(f, i, c(f, k)), kir_load(f, x, quo(f, i, k + 2)));
            }
            kir_end(f);
            st = kir_status(f, NULL);
        }
        fired = base_alloc_fail_nth(0);
        assert_int_equal(st, fired ? RP_NOMEM : RP_OK);
        kir_free(f);
        assert_int_equal(base_live(), live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_shared),
        cmocka_unit_test(index_values_are_shared_where_they_are_seen),
        cmocka_unit_test(long_functions_share_too),
        cmocka_unit_test(trivial_arithmetic_folds),
        cmocka_unit_test(ranges_fold_division),
        cmocka_unit_test(a_loop_of_one_is_zero),
        cmocka_unit_test(folding_keeps_every_value),
        cmocka_unit_test(quotients_and_rests_are_joined_where_they_fit),
        cmocka_unit_test(positions_taken_apart_are_joined_again),
        cmocka_unit_test(dims_are_imported_in_order),
        cmocka_unit_test(misuse_is_reported),
        cmocka_unit_test(unclosed_blocks_do_not_verify),
        cmocka_unit_test(an_unknown_reduction_does_not_verify),
        cmocka_unit_test(names_and_buffers_are_checked),
        cmocka_unit_test(data_ranges_follow_the_ops),
        cmocka_unit_test(what_f32_holds_is_not_rounded_to_odd),
        cmocka_unit_test(building_survives_lost_allocations),
    };
    return cmocka_run_group_tests_name("kir_build", tests, NULL, NULL);
}
