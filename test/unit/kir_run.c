/* The interpreter of kernel IR by itself, beside plain C: reductions and conversions of every class, accesses and extents that it refuses. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "kir/kir.h"

enum { N = 37 }; /* more than the lanes of a sum */

static int64_t whole[N];
static double part[N];

/* Whole numbers are around `middle`. */
static void fill_around(int64_t middle) {
    for (int i = 0; i < N; i++) whole[i] = (i * 29 % 37 - 11) * (INT64_C(1) << 20) + middle;
}

static int fill(void **state) {
    (void)state;
    for (int i = 0; i < N; i++) {
        part[i] = (double)(i * 23 % 37 - 17) / 8;
    }
    return 0;
}

/* y[0] = a reduction of x[0..N), written as text: how, the types in memory and of the result. */
static kir_func *reduction(const char *how, const char *type, const char *result) {
    char text[400];
    kir_func *f = NULL;
    rp_error err = {0};
    (void)snprintf(text, sizeof text,
                   "kernel @f() {\n  buf x: %s = arg 0\n  buf y: %s = arg 1, written\n"
                   "  %%0 = const.i 1\n  %%1 = const.i %d\n  %%2 = const.i 0\n"
                   "  %%3 = par %%0 {\n    %%4 = reduce %s %%1 {\n      %%5 = load x[%%4] : %s\n"
                   "    } %%6 = yield %%5 : %s\n    store y[%%2], %%6\n  }\n}\n",
                   type, result, N, how, type, result);
    if (kir_parse(text, strlen(text), &f, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    return f;
}

static void run(const kir_func *f, const void *x, void *y) {
    void *const args[] = {(void *)(uintptr_t)x, y};
    rp_error err = {0};
    CHECK_OK(kir_run(f, args, NULL, NULL, 0, 1, &err), &err);
}

/* As the words of KIR_SUM, KIR_PROD, KIR_MAX, KIR_MIN and KIR_ARGMAX. */
static const char *const hows[] = {"sum", "prod", "max", "min", "argmax"};

static int64_t of_integers(int how, int bits, int64_t *at) {
    int64_t r = how == 1 ? 1 : how == 2 ? INT64_MIN : how == 3 ? INT64_MAX : 0;
    *at = 0;
    for (int i = 0; i < N; i++) {
        int64_t v = bits == 32 ? whole[i] >> 20 : whole[i];
        if (how == 0) r = (int64_t)((uint64_t)r + (uint64_t)v);
        if (how == 1) r = (int64_t)((uint64_t)r * (uint64_t)v);
        if (how == 2 && v > r) r = v;
        if (how == 3 && v < r) r = v;
        if (v > (bits == 32 ? whole[*at] >> 20 : whole[*at])) *at = i;
    }
    return bits == 32 ? (int32_t)(uint32_t)r : r;
}

static void check_integers(void) {
    int32_t narrow[N], y32 = 0;
    for (int i = 0; i < N; i++) narrow[i] = (int32_t)(whole[i] >> 20);
    for (int how = 0; how < 5; how++) {
        int64_t y64 = 0, at, want = of_integers(how, 32, &at);
        kir_func *f = reduction(hows[how], "i32", "i32");
        run(f, narrow, &y32);
        if (y32 != (how == 4 ? at : want)) fail_msg("%s of i32: %d", hows[how], y32);
        kir_free(f);
        want = of_integers(how, 64, &at);
        f = reduction(hows[how], "i64", how == 4 ? "i32" : "i64");
        run(f, whole, how == 4 ? (void *)&y32 : (void *)&y64);
        if (how == 4 ? y32 != at : y64 != want)
            fail_msg("%s of i64: %lld, %d", hows[how], (long long)y64, y32);
        kir_free(f);
    }
}

/* Also where all are beyond what 32 bits hold, and where all of those of 32 bits are on one side of 0. */
static void integers_are_reduced(void **state) {
    (void)state;
    for (int side = -1; side <= 1; side++) {
        fill_around(side * (INT64_C(1) << 40));
        check_integers();
    }
}

/* Numbers whose sums and products are exact in both types. */
static void floats_are_reduced(void **state) {
    (void)state;
    for (int how = 0; how < 5; how++)
        for (int wide = 0; wide < 2; wide++) {
            float x32[N], y32 = 0;
            double x64[N], y64 = 0,
                           want = how == 1   ? 1
                                  : how == 2 ? -INFINITY
                                  : how == 3 ? INFINITY
                                             : 0;
            int32_t best = 0, at = -1;
            for (int i = 0; i < N; i++) {
                x64[i] = how == 1 ? (i % 9 ? 1 : i % 2 ? -2 : 0.5) : part[i];
                x32[i] = (float)x64[i];
                if (how == 0) want += x64[i];
                if (how == 1) want *= x64[i];
                if (how == 2) want = fmax(want, x64[i]);
                if (how == 3) want = fmin(want, x64[i]);
                if (x64[i] > x64[best]) best = i;
            }
            const char *type = wide ? "f64" : "f32";
            kir_func *f = reduction(hows[how], type, how == 4 ? "i32" : type);
            run(f, wide ? (void *)x64 : (void *)x32,
                how == 4 ? (void *)&at
                : wide   ? (void *)&y64
                         : (void *)&y32);
            if (!wide) y64 = (double)y32;
            if (how == 4 ? at != best : y64 != want)
                fail_msg("%s of %s: %g, %d; it should be %g, %d", hows[how], type, y64, at, want,
                         best);
            kir_free(f);
        }
}

/* NaNs win, the first of them where its place is asked. */
static void a_nan_wins(void **state) {
    double x[N];
    (void)state;
    for (int i = 0; i < N; i++) x[i] = i == 5 || i == 30 ? NAN : part[i];
    for (int how = 2; how < 5; how++) {
        double y = 0;
        int32_t at = -1;
        kir_func *f = reduction(hows[how], "f64", how == 4 ? "i32" : "f64");
        run(f, x, how == 4 ? (void *)&at : (void *)&y);
        assert_true(how == 4 ? at == 5 : isnan(y));
        kir_free(f);
    }
}

static void converts(const char *from, const char *to, const char *by, const void *x,
                     const void *want, size_t bytes) {
    char text[300];
    _Alignas(8) char y[8] = {0}; /* of any type */
    kir_func *f = NULL;
    rp_error err = {0};
    (void)snprintf(text, sizeof text,
                   "kernel @f() {\n  buf x: %s = arg 0\n  buf y: %s = arg 1, written\n"
                   "  %%0 = const.i 1\n  %%1 = par %%0 {\n    %%2 = load x[%%1] : %s\n"
                   "    %%3 = %s : %s\n    store y[%%1], %%3\n  }\n}\n",
                   from, to, from, by, to);
    if (kir_parse(text, strlen(text), &f, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    run(f, x, y);
    if (memcmp(y, want, bytes) != 0) fail_msg("%s: another result", text);
    kir_free(f);
}

/* To integers what does not fit saturates, a NaN is 0; %0 is 1. */
static void classes_are_converted(void **state) {
    static const int64_t far = INT64_C(3) << 40, most = INT64_MAX;
    static const int32_t minus = -7, end = INT32_MAX, none = 0;
    static const float f = -7, beyond = 1e30f, nan_ = NAN, big = (float)(INT64_C(3) << 40);
    static const double d = -7, wide = 1e300, third = 1.0 / 3, huge = (double)(INT64_C(3) << 40);
    static const int64_t minus64 = -7;
    static const int64_t one64 = 1;
    static const int32_t one = 1;
    static const float one32 = 1;
    static const double one_wide = 1;
    static const float third32 = (float)(1.0 / 3);
    (void)state;
    converts("i32", "f32", "cvt %2", &minus, &f, 4);
    converts("i32", "f64", "cvt %2", &minus, &d, 8);
    converts("i32", "i64", "cvt %2", &minus, &minus64, 8);
    converts("i64", "i32", "cvt %2", &minus64, &minus, 4);
    converts("i64", "i32", "cvt %2", &far, &end, 4);
    converts("i64", "f32", "cvt %2", &far, &big, 4);
    converts("i64", "f64", "cvt %2", &far, &huge, 8);
    converts("f32", "i32", "cvt %2", &f, &minus, 4);
    converts("f32", "i32", "cvt %2", &beyond, &end, 4);
    converts("f32", "i32", "cvt %2", &nan_, &none, 4);
    converts("f32", "i64", "cvt %2", &beyond, &most, 8);
    converts("f32", "f64", "cvt %2", &f, &d, 8);
    converts("f64", "f32", "cvt %2", &third, &third32, 4);
    converts("f64", "i32", "cvt %2", &wide, &end, 4);
    converts("f64", "i64", "cvt %2", &wide, &most, 8);
    converts("f64", "i64", "cvt %2", &huge, &far, 8);
    converts("i32", "i32", "from_index %0", &minus, &one, 4);
    converts("i32", "i64", "from_index %0", &minus, &one64, 8);
    converts("i32", "f32", "from_index %0", &minus, &one32, 4);
    converts("i32", "f64", "from_index %0", &minus, &one_wide, 8);
}

/* Of a kernel of one index, which is the item less 1. */
static void refuses(const char *body, int64_t begin, int64_t end, const char *why) {
    char text[500];
    float x[4] = {0};
    void *const args[] = {x};
    kir_func *f = NULL;
    rp_error err = {0};
    (void)snprintf(
        text, sizeof text,
        "kernel @f() {\n  buf x: f32 = arg 0, written\n  buf s: f32 = scratch 4, written\n"
        "  %%0 = const.i 4\n  %%1 = const.i 1\n  %%2 = const.f 0x1p+0 : f32\n"
        "  %%3 = par %%0 {\n    %%4 = isub %%3, %%1\n%s  }\n}\n",
        body);
    if (kir_parse(text, strlen(text), &f, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    rp_status st = kir_run(f, args, NULL, NULL, begin, end, &err);
    if (!why) {
        CHECK_OK(st, &err);
    } else {
        assert_int_equal(st, RP_INVALID);
        if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
    }
    kir_free(f);
}

static void what_is_outside_is_refused(void **state) {
    static const char load[] = "    %5 = load x[%4] : f32\n    store s[%3], %5\n",
                      store[] = "    %5 = iadd %4, %1\n    %6 = iadd %5, %1\n    store s[%6], %2\n",
                      loop[] = "    %5 = loop %4 {\n      store s[%5], %2\n    }\n";
    (void)state;
    refuses(load, 0, 1, "index -1");
    refuses(load, 1, 4, NULL);
    refuses(store, 0, 3, NULL);
    refuses(store, 0, 4, "index 4");
    refuses(loop, 0, 1, "extent -1");
    refuses(loop, 1, 4, NULL); /* of none, too */
    refuses(load, 2, 5, "items beyond extent 4");
    refuses(loop, -1, 4, "items beyond extent 4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_reduced),
        cmocka_unit_test(floats_are_reduced),
        cmocka_unit_test(a_nan_wins),
        cmocka_unit_test(classes_are_converted),
        cmocka_unit_test(what_is_outside_is_refused),
    };
    return cmocka_run_group_tests_name("kir_run", tests, fill, NULL);
}
