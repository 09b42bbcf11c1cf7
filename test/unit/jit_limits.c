/* Past the limits of recompilation: what still gets an entry, and whether the warning's words are true. */
#include "support/jits.h"

#include "support/heard.h"

static float x[64];

static rp_jit *limited(rp_jit_fn fn, rp_dynamic dynamic, uint32_t limit, uint32_t all) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(fn);
    o.dynamic = dynamic;
    o.recompile_limit = limit;
    o.accumulated_recompile_limit = all;
    CHECK_OK(jit_of(o, "level=1 threads=1", &f, &err), &err);
    return f;
}

enum { FIRST_PLAIN = 16 };

/* Times the size where that is one of a few; user: it is asked without a guard. */
static rp_status asking_each(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    const rp_dim n = rp_tensor_dim(a, 0);
    double by = 1;
    (void)err;
    for (int i = 2; i < FIRST_PLAIN; i++)
        if (user ? rp_dim_compare(n, RP_DIM_EQ, i) == RP_YES : rp_dim_eq(n, i)) by = i;
    *result = rp_jit_value(call, rp_mul_scalar(a, by));
    return RP_OK;
}

static rp_ran ran_asking(rp_jit *f, int64_t n, bool plain) {
    rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
    rp_output *o = jit_ok(f, &args);
    const rp_ran ran = rp_output_ran(o);
    const float by = n < FIRST_PLAIN && !plain ? (float)n : 1;
    assert_true(((const float *)jit_result(o)->tensor.data)[1] == x[1] * by);
    if (ran == RP_RAN_EAGER) assert_non_null(strstr(rp_output_reason(o), "recompile limit, and "));
    rp_output_free(o);
    return ran;
}

/* However many entries serve one size alone, all others have one of symbols. */
static void sizes_that_are_asked_for_leave_room(void **state) {
    (void)state;
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        rp_jit *f = limited(asking_each, dynamic ? RP_DYNAMIC_AUTO : RP_DYNAMIC_NONE, 2, 0);
        for (int64_t n = 2; n < FIRST_PLAIN; n++)
            assert_int_equal(ran_asking(f, n, false), RP_RAN_CAPTURE);
        assert_int_equal(ran_asking(f, FIRST_PLAIN, false), RP_RAN_CAPTURE);
        for (int64_t n = 2; n < FIRST_PLAIN + 8; n++)
            assert_int_equal(ran_asking(f, n, false), RP_RAN_REPLAY);
        assert_int_equal(jit_info(f).eager, 0);
        rp_jit_free(f);
    }
}

/* Past the limit of all entries, too, and what serves one size alone is not compiled any more. */
static void sizes_that_are_asked_for_have_a_limit(void **state) {
    rp_jit *f = limited(asking_each, RP_DYNAMIC_NONE, 2, 6);
    (void)state;
    for (int64_t n = 2; n < FIRST_PLAIN; n++)
        assert_int_equal(ran_asking(f, n, false), n < 8 ? RP_RAN_CAPTURE : RP_RAN_EAGER);
    assert_int_equal(jit_info(f).entries, 6);
    assert_int_equal(ran_asking(f, FIRST_PLAIN, false), RP_RAN_CAPTURE);
    for (int64_t n = 2; n < FIRST_PLAIN + 8; n++)
        assert_int_equal(ran_asking(f, n, false),
                         n < 8 || n >= FIRST_PLAIN ? RP_RAN_REPLAY : RP_RAN_EAGER);
    assert_int_equal(jit_info(f).entries, 7);
    rp_jit_free(f);
}

/* The cure of the warning is one: what is asked so that no mark can be is named, and without it the mark does what it says. */
static void advice_names_the_question(void **state) {
    static const char *const cure = ": rp_dim_compare there needs no guard; with it "
                                    "rp_jit_mark_dynamic(f, \"L[0]\", 0, 0, INT64_MAX, &err) makes "
                                    "it a symbol; further sizes run as symbols, by ";
    (void)state;
    for (int k = 0; k < 3; k++) {
        base_buf said;
        rp_jit *f =
            limited(asking_each, k == 2 ? RP_DYNAMIC_AUTO : RP_DYNAMIC_NONE, 2, k == 1 ? 2 : 0);
        heard_start(&said, "");
        for (int64_t n = 6; n < 9; n++)
            (void)ran_asking(f, k == 1 && n == 8 ? FIRST_PLAIN : n, false);
        CHECK_HEARD(&said, k == 1 ? "; the function asks whether L[0].size()[0] != 2  # "
                                  : "; the function asks whether L[0].size()[0] == 8  # ");
        CHECK_HEARD(&said, cure);
        CHECK_HEARD(&said, k == 1 ? "by 2 entries for as many ways that what is asked of them is "
                                    "answered; those behind, and what serves one size alone, run "
                                    "op by op\n"
                                  : "by an entry for each way that what is asked of them is "
                                    "answered, up to accumulated_recompile_limit (256)\n");
        heard_done(&said);
        rp_jit_free(f);
    }
    rp_error err = {0};
    rp_jit_options o = jit_options(asking_each);
    o.dynamic = RP_DYNAMIC_NONE;
    o.user = &err;
    rp_jit *g = jit_by(o, "");
    CHECK_OK(rp_jit_mark_dynamic(g, "L[0]", 0, 0, INT64_MAX, &err), &err);
    for (int64_t n = 2; n < FIRST_PLAIN + 8; n++) (void)ran_asking(g, n, true);
    assert_int_equal(jit_info(g).entries, 1);
    rp_jit_free(g);
}

/* Whether it is below 4, 8, ... */
static rp_status asking_ranges(void *user, rp_jit_call *call, const rp_value *args,
                               rp_value *result, rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    int by = 1;
    (void)user, (void)err;
    while (by < 9 && rp_dim_ge(rp_tensor_dim(a, 0), 4 * by)) by++;
    *result = rp_jit_value(call, rp_mul_scalar(a, by));
    return RP_OK;
}

static void advice_on_ranges_is_the_question(void **state) {
    base_buf said;
    rp_jit *f = limited(asking_ranges, RP_DYNAMIC_AUTO, 2, 0);
    (void)state;
    heard_start(&said, "");
    for (int64_t n = 2; n < 40; n += 2) {
        rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
        rp_output *o = jit_ok(f, &args);
        const float by = n < 32 ? (float)(n / 4 + 1) : 9;
        assert_true(((const float *)jit_result(o)->tensor.data)[1] == x[1] * by);
        assert_true(rp_output_ran(o) != RP_RAN_EAGER);
        rp_output_free(o);
    }
    CHECK_HEARD(&said, "; rp_dim_compare in place of that question needs no guard; further sizes");
    heard_done(&said);
    rp_jit_free(f);
}

static rp_status convolved(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    const rp_conv_args same = {.padding = {1, 1}};
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_conv2d(rp_jit_tensor(call, &args->item[0]),
                                           rp_jit_tensor(call, &args->item[1]), rp_none(), &same));
    return RP_OK;
}

/* A size that an op takes as a number: there is no question to change, and no mark. */
static void advice_on_what_ops_take(void **state) {
    static float w[3 * 3 * 4 * 4];
    base_buf said;
    rp_jit *f = limited(convolved, RP_DYNAMIC_NONE, 2, 0);
    (void)state;
    heard_start(&said, "");
    for (int64_t k = 2; k < 5; k++) {
        rp_value v[] = {rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {1, 2, 5, 5}, x}),
                        rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {2, 2, k, 3}, w})},
                 args = rp_value_tuple(v, 2);
        rp_output_free(jit_ok(f, &args));
    }
    CHECK_HEARD(&said, "L[1].size()[2] was 2, 3, 4; an op takes it as a number");
    assert_null(strstr(said.data, "rp_jit_mark_dynamic"));
    heard_done(&said);
    rp_jit_free(f);
}

/* Of a symbol it says that it cannot. */
static rp_status of_numbers_alone(void *user, rp_jit_call *call, const rp_value *args,
                                  rp_value *result, rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    if (rp_dim_compare(rp_tensor_dim(a, 0), RP_DIM_GE, 5) == RP_UNKNOWN) {
        (void)snprintf(err->text, sizeof err->text, "a number, please");
        return RP_INVALID;
    }
    *result = rp_jit_value(call, rp_mul_scalar(a, 2));
    return RP_OK;
}

static void advice_for_numbers_alone(void **state) {
    base_buf said;
    rp_jit *f = limited(of_numbers_alone, RP_DYNAMIC_AUTO, 2, 0);
    (void)state;
    heard_start(&said, "");
    for (int64_t n = 2; n < 8; n++) {
        rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
        rp_output *o = jit_ok(f, &args);
        assert_int_equal(rp_output_ran(o), n < 6 ? RP_RAN_CAPTURE : RP_RAN_EAGER);
        rp_output_free(o);
    }
    CHECK_HEARD(&said, "was 2, 3, 4; the function fails with a symbol for it "
                       "(REPRISE_LOGS=dynamic): use one of its own for each; 2 further forms are "
                       "compiled as they come, those behind run op by op\n");
    heard_done(&said);
    rp_jit_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_are_asked_for_leave_room),
        cmocka_unit_test(sizes_that_are_asked_for_have_a_limit),
        cmocka_unit_test(advice_names_the_question),
        cmocka_unit_test(advice_on_ranges_is_the_question),
        cmocka_unit_test(advice_on_what_ops_take),
        cmocka_unit_test(advice_for_numbers_alone),
    };
    for (int i = 0; i < 64; i++) x[i] = (float)i + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
