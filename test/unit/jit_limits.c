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

/* Times the size where that is one of a few. */
static rp_status asking_each(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    const rp_dim n = rp_tensor_dim(a, 0);
    double by = 1;
    (void)user, (void)err;
    for (int i = 2; i < FIRST_PLAIN; i++)
        if (rp_dim_eq(n, i)) by = i;
    *result = rp_jit_value(call, rp_mul_scalar(a, by));
    return RP_OK;
}

static rp_ran ran_asking(rp_jit *f, int64_t n) {
    rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
    rp_output *o = jit_ok(f, &args);
    const rp_ran ran = rp_output_ran(o);
    const float by = n < FIRST_PLAIN ? (float)n : 1;
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
            assert_int_equal(ran_asking(f, n), RP_RAN_CAPTURE);
        assert_int_equal(ran_asking(f, FIRST_PLAIN), RP_RAN_CAPTURE);
        for (int64_t n = 2; n < FIRST_PLAIN + 8; n++)
            assert_int_equal(ran_asking(f, n), RP_RAN_REPLAY);
        assert_int_equal(jit_info(f).eager, 0);
        rp_jit_free(f);
    }
}

/* Past the limit of all entries, too, and what serves one size alone is not compiled any more. */
static void sizes_that_are_asked_for_have_a_limit(void **state) {
    rp_jit *f = limited(asking_each, RP_DYNAMIC_NONE, 2, 6);
    (void)state;
    for (int64_t n = 2; n < FIRST_PLAIN; n++)
        assert_int_equal(ran_asking(f, n), n < 8 ? RP_RAN_CAPTURE : RP_RAN_EAGER);
    assert_int_equal(jit_info(f).entries, 6);
    assert_int_equal(ran_asking(f, FIRST_PLAIN), RP_RAN_CAPTURE);
    for (int64_t n = 2; n < FIRST_PLAIN + 8; n++)
        assert_int_equal(ran_asking(f, n),
                         n < 8 || n >= FIRST_PLAIN ? RP_RAN_REPLAY : RP_RAN_EAGER);
    assert_int_equal(jit_info(f).entries, 7);
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
        cmocka_unit_test(advice_for_numbers_alone),
    };
    for (int i = 0; i < 64; i++) x[i] = (float)i + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
