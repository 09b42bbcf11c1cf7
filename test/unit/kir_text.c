/* Text form of the kernel IR: round trips, and errors that say where and what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "support/kir_cases.h"

static char *print(const kir_func *f) {
    base_buf b;
    base_buf_init(&b, 0);
    kir_print(f, &b);
    return base_buf_take(&b);
}

static void print_parse_print_is_print(kir_func *f) {
    rp_error err = {0};
    kir_func *again = NULL;
    char *first = print(f), *second;

    assert_non_null(first);
    if (kir_parse(first, strlen(first), &again, &err) != RP_OK)
        fprintf(stderr, "%s\n%s", err.text, first);
    assert_non_null(again);
    second = print(again);
    assert_string_equal(first, second);
    base_free(first);
    base_free(second);
    kir_free(again);
}

static void every_case_survives_the_round_trip(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        kir_func *f = kir_cases[i].make(kir_cases[i].name);
        print_parse_print_is_print(f);
        kir_free(f);
    }
    kir_func *f = kir_case_fragment();
    print_parse_print_is_print(f);
    kir_free(f);
}

/* The parsed function computes the same, too. */
static void parsed_function_runs_the_same(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        const kir_case *c = &kir_cases[i];
        kir_func *f = c->make(c->name), *again = NULL;
        kir_case_data want, got;
        int64_t symbols[1] = {KIR_CASE_T};
        char *text = print(f);

        assert_int_equal(kir_parse(text, strlen(text), &again, NULL), RP_OK);
        assert_true(kir_case_data_init(&want, c) && kir_case_data_init(&got, c));
        assert_int_equal(kir_run(f, want.arg, symbols, NULL, 0, c->items, NULL), RP_OK);
        assert_int_equal(kir_run(again, got.arg, symbols, NULL, 0, c->items, NULL), RP_OK);
        assert_int_equal(kir_case_compare(c, &want, &got, "parsed"), 0);
        kir_case_data_done(&want);
        kir_case_data_done(&got);
        base_free(text);
        kir_free(f);
        kir_free(again);
    }
}

static void special_floats_survive(void **state) {
    static const char text[] =
        "kernel @f() {\n  buf y: f32 = arg 0, written\n  %0 = const.i 1\n  %1 = const.f nan : f32\n"
        "  %2 = const.f -inf : f32\n  %3 = const.f -0x0p+0 : f32\n  %4 = const.f 0x1.99999ap-4 : "
        "f32\n"
        "  %5 = par %0 {\n    store y[%5], %1\n    store y[%5], %2\n    store y[%5], %3\n"
        "    store y[%5], %4\n  }\n}\n";
    kir_func *f = NULL;
    char *again;

    (void)state;
    assert_int_equal(kir_parse(text, sizeof text - 1, &f, NULL), RP_OK);
    again = print(f);
    assert_string_equal(again, text);
    base_free(again);
    kir_free(f);
}

/* A kernel around one body line; expects an error with these words. */
static void refuses(const char *body, const char *words) {
    char text[600];
    rp_error err = {0};
    kir_func *f = NULL;

    snprintf(text, sizeof text,
             "kernel @f(T: 1..8) {\n  buf x: f32 = arg 0\n  buf y: f32 = arg 1, written\n  buf k: "
             "i32 = arg 2\n"
             "  %%0 = dim T\n  %%1 = par %%0 {\n    %%2 = load x[%%1] : f32\n    %s\n    store "
             "y[%%1], %%2\n  }\n}\n",
             body);
    if (kir_parse(text, strlen(text), &f, &err) == RP_OK) fail_msg("accepted: %s", body);
    if (!strstr(err.text, words)) fail_msg("%s: got '%s', expected '%s'", body, err.text, words);
    assert_null(f);
}

static void errors_name_line_and_cause(void **state) {
    (void)state;
    refuses("%3 = frobnicate %2 : f32", "line 8: no such operation: frobnicate");
    refuses("%3 = matmul %2, %2 : f32", "line 8: no such operation: matmul");
    refuses("%3 = add %2, %9 : f32", "line 8: %9 is not defined before its use");
    refuses("%2 = exp %2 : f32", "line 8: %2 is defined twice");
    refuses("exp %2 : f32", "line 8: its value needs a name");
    refuses("%3 = store y[%1], %2", "line 8: it makes no value");
    refuses("%3 = load z[%1] : f32", "line 8: no buffer named z");
    refuses("%3 = exp %2", "line 8: expected ':'");
    refuses("%3 = exp %2 : f128", "line 8: expected f32, f64, i32 or i64");
    refuses("%3 = const.i 99999999999999999999", "line 8: expected an integer");
    refuses("%3 = const.f zebra : f32", "line 8: expected a number");
    refuses("%3 = const.f 1.5x : f32", "line 8: expected a number at '1.5x : f32'");
    refuses("%3 = dim Q", "line 8:");
    refuses("%3 = round_to %2, q4_1 : f32", "line 8: 'q4_1' is no element type");
    refuses("%3 = exp %2 : f32 x", "line 8: text after the statement");
    refuses("%3 = yield %2 : f32", "line 8: yield stands behind");
    refuses("}\n}\nkernel", "line 10: text after the function");
    refuses("if %1 {", "line 12: a } is missing");
}

/* Well-formed text that the verifier refuses. */
static void the_verifier_judges_what_was_read(void **state) {
    (void)state;
    refuses("%3 = add %2, %1 : f32", "(alu): operand 1 is index");
    refuses("%3 = iadd %1, %2", "(iadd): operand 1 is f32");
    refuses("%3 = exp %2 : i32", "(alu): makes i32, expected f32");
    refuses("%3 = shr %2, 4 : i32", "(shr): operand 0 is f32");
    refuses("%3 = load k[%1] : i32\n %4 = exp %3 : i32", "exp is not defined on i32");
    refuses("%3 = load k[%1] : i32\n %4 = shr %3, 32 : i32", "(shr): by 32");
    refuses("%3 = load k[%1] : i32\n %4 = band %3, 4294967296 : i32", "(band): more than 32 bits");
    refuses("%3 = load k[%1] : i32\n %4 = add %3, %2 : i32",
            "(alu): operands of different classes");
    refuses("%3 = load k[%1] : f32", "(load): makes f32, expected i32");
    refuses("%3 = round_to %2, i64 : f32", "(round_to): f32 through i64");
    refuses("%3 = cvt %2 : f64\n %4 = round_to %3, f32 : f64", "(round_to): f64 to a type");
    refuses("%3 = round_to %2, f64 : f32", "(round_to): f64 to a type");
    refuses("%3 = load k[%1] : i32\n %4 = round_to %3, f16 : i32", "(round_to): i32 to a float");
    refuses("%3 = idiv %1, %1", "(idiv): the divisor may be zero");
    refuses("store x[%1], %2", "(store): buffer is not marked written");
    refuses("%3 = par %0 {\n}", "(par): inside of another block");
    refuses("%3 = param 0", "(param): in a kernel");
    refuses("%3 = cvt %2 : f32", "(cvt): to the class it has");
    refuses("%3 = loop %0 {\n%4 = load x[%3] : f32\n}\nstore y[%1], %4",
            "made in a block that has ended");
    refuses("%3 = loop %0 {\n}\nstore y[%3], %2", "made in a block that has ended");
    refuses("}\nstore y[%0], %0\n%3 = loop %0 {", "operand 1 is index");
    refuses("}\n%3 = const.f 1.0 : f32\nstore y[%0], %3\n%4 = loop %0 {", "outside of par");
    refuses("}\n%3 = par %0 {", "a second one");
}

static void a_kernel_needs_a_par(void **state) {
    static const char text[] = "kernel @f() {\n}\n";
    rp_error err = {0};
    kir_func *f = NULL;

    (void)state;
    assert_int_equal(kir_parse(text, sizeof text - 1, &f, &err), RP_INVALID);
    assert_string_equal(err.text, "kernel f has no par loop");
}

/* Cut anywhere, a text is an error, not a crash. */
static void every_prefix_is_refused(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kir_n_cases; i += 3) {
        kir_func *f = kir_cases[i].make(kir_cases[i].name), *cut = NULL;
        char *text = print(f);
        size_t len = strlen(text);

        for (size_t n = 0; n + 2 < len; n++) {
            rp_error err = {0};
            assert_int_equal(kir_parse(text, n, &cut, &err), RP_INVALID);
            assert_true(err.text[0] != '\0');
        }
        base_free(text);
        kir_free(f);
    }
}

static void depth_is_bounded(void **state) {
    base_buf b;
    rp_error err = {0};
    kir_func *f = NULL;

    (void)state;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "kernel @f() {\n%0 = const.i 2\n%1 = par %0 {\n");
    for (int i = 2; i < 100; i++) base_buf_printf(&b, "%%%d = loop %%0 {\n", i);
    assert_int_equal(kir_parse(b.data, b.len, &f, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "nest deeper than 32"));
    base_buf_done(&b);
}

/* Items beyond the extent have no iteration. */
static void only_items_run(void **state) {
    static const char text[] =
        "kernel @f() {\n  buf y: f32 = arg 0, written\n  %0 = const.i 4\n"
        "  %1 = par %0 {\n    %2 = const.f 0x1p+0 : f32\n    store y[%1], %2\n  }\n}\n";
    static const int64_t bad[][2] = {{0, 5}, {4, 5}, {-1, 4}, {-1, 0}};
    float y[8] = {0};
    void *arg[] = {y};
    rp_error err = {0};
    kir_func *f = NULL;

    (void)state;
    assert_int_equal(kir_parse(text, strlen(text), &f, &err), RP_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (rp_error){0};
        assert_int_not_equal(kir_run(f, arg, NULL, NULL, bad[i][0], bad[i][1], &err), RP_OK);
        assert_non_null(strstr(err.text, "items beyond extent"));
    }
    for (int i = 0; i < 8; i++) assert_true(y[i] == 0);
    assert_int_equal(kir_run(f, arg, NULL, NULL, 1, 3, &err), RP_OK);
    for (int i = 0; i < 8; i++) assert_true(y[i] == (i == 1 || i == 2));
    kir_free(f);
}

/* A loop of nothing is none; of less than nothing, a mistake. */
static void extents_are_not_negative(void **state) {
    static const char text[] =
        "kernel @f(T: 0..9) {\n  buf y: f32 = arg 0, written\n  %0 = const.i 1\n  %1 = dim T\n  %2 "
        "= const.i 4\n"
        "  %3 = par %0 {\n    %4 = const.i -1\n    %5 = imul %2, %4\n    %6 = iadd %1, %5\n    %7 "
        "= loop %6 {\n"
        "      %8 = const.f 0x1p+0 : f32\n      store y[%7], %8\n    }\n  }\n}\n";
    kir_func *f = NULL;
    rp_error err = {0};
    (void)state;
    assert_int_equal(kir_parse(text, strlen(text), &f, &err), RP_OK);
    for (int64_t t = 0; t < 8; t++) {
        float y[8] = {0};
        void *arg[] = {y};
        err = (rp_error){0};
        rp_status st = kir_run(f, arg, &t, NULL, 0, 1, &err);
        assert_int_equal(st, t < 4 ? RP_INVALID : RP_OK);
        if (t < 4) assert_non_null(strstr(err.text, "(loop): extent -"));
        for (int64_t i = 0; i < 8; i++) assert_true(y[i] == (t >= 4 && i < t - 4));
    }
    kir_free(f);
}

/* The last that is taken, and the first that is not. */
static void limits_are_exact(void **state) {
    base_buf b;
    rp_error err = {0};
    kir_func *f = NULL;

    (void)state;
    base_buf_init(&b, 0);
    for (int n = 199; n < 202; n++) { /* a name */
        base_buf_clear(&b);
        base_buf_printf(&b, "kernel @%0*d() {\n  %%0 = const.i 2\n  %%1 = par %%0 {\n  }\n}\n", n,
                        0);
        b.data[8] = 'f';
        err = (rp_error){0};
        assert_int_equal(kir_parse(b.data, b.len, &f, &err), n == 199 ? RP_OK : RP_INVALID);
        if (n == 199)
            assert_int_equal(strlen(f->name), n);
        else
            assert_non_null(strstr(err.text, "characters; the limit is 199"));
        kir_free(f);
        f = NULL;
    }
    for (int n = KIR_MAX_DEPTH; n < KIR_MAX_DEPTH + 2;
         n++) { /* blocks within blocks, par counted */
        base_buf_clear(&b);
        base_buf_puts(&b, "kernel @f() {\n%0 = const.i 2\n%1 = par %0 {\n");
        for (int i = 1; i < n; i++) base_buf_printf(&b, "%%%d = loop %%0 {\n", i + 1);
        for (int i = 0; i < n + 1; i++) base_buf_puts(&b, "}\n");
        err = (rp_error){0};
        assert_int_equal(kir_parse(b.data, b.len, &f, &err),
                         n == KIR_MAX_DEPTH ? RP_OK : RP_UNSUPPORTED);
        kir_free(f);
        f = NULL;
    }
    base_buf_done(&b);
}

/* Out of memory at each allocation: a clean error, nothing left behind. */
static void parsing_survives_lost_allocations(void **state) {
    kir_func *f = kir_cases[2].make("f"), *again = NULL;
    char *text = print(f);
    size_t live;
    bool fired = true;

    (void)state;
    kir_free(f);
    live = base_live();
    for (uint64_t n = 1; fired; n++) {
        rp_error err = {0};
        rp_status st;
        base_alloc_fail_nth(n);
        st = kir_parse(text, strlen(text), &again, &err);
        fired = base_alloc_fail_nth(0);
        assert_int_equal(st, fired ? RP_NOMEM : RP_OK);
        if (st == RP_OK) kir_free(again);
        assert_int_equal(base_live(), live);
        assert_true(n < 1000);
    }
    base_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_survives_the_round_trip),
        cmocka_unit_test(parsed_function_runs_the_same),
        cmocka_unit_test(special_floats_survive),
        cmocka_unit_test(errors_name_line_and_cause),
        cmocka_unit_test(the_verifier_judges_what_was_read),
        cmocka_unit_test(a_kernel_needs_a_par),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(only_items_run),
        cmocka_unit_test(extents_are_not_negative),
        cmocka_unit_test(parsing_survives_lost_allocations),
    };
    return cmocka_run_group_tests_name("kir_text", tests, NULL, NULL);
}
