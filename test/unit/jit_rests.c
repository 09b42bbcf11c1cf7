/* Slices whose bounds change with the size that they are of, as x[-n:]: two entries serve all that is in bounds, and no other call. */
#include "support/heard.h"
#include "support/jits.h"

enum { ROOM = 64 };
static float x[ROOM];

#define FUNCTION(name, ...)                                                                      \
    static rp_status name(void *user, rp_jit_call *call, const rp_value *args, rp_value *result, \
                          rp_error *err) {                                                       \
        rp_tensor t = rp_jit_tensor(call, &args->item[0]);                                       \
        rp_dim n = rp_jit_dim(call, &args->item[1]), m = rp_jit_dim(call, &args->item[2]);       \
        rp_dim w = rp_tensor_dim(t, 0);                                                          \
        (void)user, (void)err, (void)n, (void)m, (void)w;                                        \
        __VA_ARGS__                                                                              \
        *result = rp_jit_value(call, rp_mul_scalar(t, 2));                                       \
        return RP_OK;                                                                            \
    }

FUNCTION(first, t = rp_slice(t, 0, 0, n);)
FUNCTION(last, t = rp_slice(t, 0, rp_dim_sub(w, n), w);)
FUNCTION(between, t = rp_slice(t, 0, n, m);)
/* Of another of that size as many as there are behind n. */
FUNCTION(other, {
    rp_tensor y = rp_jit_tensor(call, &args->item[3]);
    y = rp_slice(y, 0, 0, rp_dim_sub(w, n));
    t = rp_add(rp_slice(t, 0, n, w), y);
})
FUNCTION(turned, {
    rp_tensor two[] = {rp_slice(t, 0, n, w), rp_slice(t, 0, 0, n)};
    t = rp_concat(two, 2, 0);
})
/* m is what there is behind n, or is not. */
FUNCTION(asked, {
    t = rp_slice(t, 0, n, w);
    if (rp_dim_eq(rp_dim_sub(w, n), m)) t = rp_neg(t);
})
/* A number of them, then what makes the size one. */
FUNCTION(of_three, {
    t = rp_slice(t, 0, n, w);
    if (rp_dim_eq(rp_tensor_dim(t, 0), 3)) t = rp_neg(t);
})
/* In the end all are numbers. */
FUNCTION(numbered, {
    if (rp_dim_eq(rp_dim_sub(w, n), 5)) t = rp_neg(t);
    if (rp_dim_eq(n, 3)) t = rp_neg(t);
})
/* In pairs: what there is behind n is even. */
FUNCTION(paired, {
    rp_dim k = rp_dim_sub(w, n);
    t = rp_reshape(rp_slice(t, 0, n, w), RP_SHAPE(rp_dim_floordiv(k, 2), 2));
    t = rp_sum(t, 1, false);
})
FUNCTION(broken, {
    t = rp_slice(t, 0, n, w);
    double sum = rp_item(rp_sum(t, 0, false));
    t = rp_add_scalar(t, sum > 50 ? 100 : 0);
})
FUNCTION(behind, {
    double sum = rp_item(rp_sum(t, 0, false));
    t = rp_add_scalar(rp_slice(t, 0, n, w), sum > 50 ? 100 : 0);
})
/* Nobody reads it; it is to be there. */
FUNCTION(unread, {
    double sum = rp_item(rp_sum(t, 0, false));
    (void)rp_slice(t, 0, n, w);
    t = rp_add_scalar(t, sum > 50 ? 100 : 0);
})
/* n is a number, too. */
FUNCTION(both, {
    t = rp_sum(rp_reshape(t, RP_SHAPE(rp_dim_floordiv(w, 2), 2)), 1, false);
    t = rp_sum(rp_slice(rp_jit_tensor(call, &args->item[0]), 0, n, w), 0, true);
    t = rp_mul_scalar(t, (double)args->item[1].as.integer);
})

typedef int64_t sizes[3]; /* of the tensor, n, m */

static bool takes_two; /* tensors */

static rp_status run(rp_jit *f, const sizes z, rp_output **out, rp_error *err) {
    rp_value v[] = {f32_of(x, 1, z[0], 0), rp_value_int(z[1]), rp_value_int(z[2]),
                    f32_of(x, 1, z[0], 0)};
    rp_value args = rp_value_tuple(v, takes_two ? 4 : 3);
    return rp_jit_run(f, &args, out, err);
}

/* As level 0, in values and in failures. */
static void check(rp_jit *f, rp_jit *plain, const sizes z) {
    rp_error err = {0}, also = {0};
    rp_output *is = NULL, *want = NULL;
    rp_status st = run(plain, z, &want, &err), got = run(f, z, &is, &also);
    if (st != got)
        fail_msg("%d, %d, %d: %s%s", (int)z[0], (int)z[1], (int)z[2], err.text, also.text);
    if (st == RP_OK) {
        const rp_buffer *p = &jit_result(want)->tensor, *q = &jit_result(is)->tensor;
        assert_int_equal(p->dim[0], q->dim[0]);
        assert_memory_equal(p->data, q->data, (size_t)p->dim[0] * sizeof(float));
    }
    rp_output_free(is);
    rp_output_free(want);
}

static const sizes calls[] = {{8, 3, 5},   {10, 4, 6},   {12, 2, 10}, {20, 15, 17}, {9, 9, 9},
                              {30, 7, 23}, {8, 8, 8},    {64, 0, 2},  {7, 4, 4},    {10, 7, 8},
                              {64, 2, 63}, {10, 11, 12}, {8, 5, 3},   {41, 40, 41}};
enum { CALLS = sizeof calls / sizeof *calls };

static int begun(void **state) {
    (void)state;
    for (int i = 0; i < ROOM; i++) x[i] = (float)i;
    return 0;
}

static void two_entries_serve_all(void **state) {
    static const struct {
        rp_jit_fn fn;
        uint32_t entries, compiles;
    } cases[] = {{first, 2, 2}, {last, 2, 2},  {between, 2, 2},  {turned, 2, 2},
                 {other, 2, 2}, {asked, 3, 3}, {of_three, 3, 3}, {broken, 2, 0}};
    static const char *const modes[] = {"default", "reduce-overhead"};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int mode = 0; mode < 2; mode++) {
            if (runs_elsewhere() && (c % 3 || mode == 0)) continue; /* each graph is compiled */
            takes_two = cases[c].fn == other;
            rp_jit_options o = jit_options(cases[c].fn);
            o.mode = modes[mode];
            rp_jit *f = jit_by(o, mode ? "level=2 threads=1" : "level=1 threads=1");
            rp_jit *plain = jit_at(cases[c].fn, 0, RP_DYNAMIC_AUTO, NULL);
            for (int turn = 0; turn < 2; turn++)
                for (int i = 0; i < CALLS; i++) check(f, plain, calls[i]);
            const rp_jit_info info = jit_info(f);
            if (info.entries != cases[c].entries) fail_msg("case %d: %u", (int)c, info.entries);
            if (cases[c].compiles) assert_int_equal(info.compiles, cases[c].compiles);
            assert_int_equal(info.eager, 0);
            rp_jit_free(f);
            rp_jit_free(plain);
        }
    takes_two = false;
}

/* Of sizes that more is needed of, some calls have entries of their own; each is right. */
static void what_more_is_needed_is_guarded(void **state) {
    static const rp_jit_fn fn[] = {paired, behind, unread};
    static const sizes even[] = {{8, 2, 0},   {10, 4, 0}, {12, 2, 1},  {20, 14, 5}, {9, 9, 2},
                                 {30, 8, 23}, {8, 8, 8},  {64, 0, 2},  {7, 5, 3},   {10, 6, 4},
                                 {11, 6, 4},  {12, 6, 4}, {12, 13, 4}, {64, 62, 1}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        rp_jit *f = jit_at(fn[i], 1, RP_DYNAMIC_AUTO, NULL);
        rp_jit *plain = jit_at(fn[i], 0, RP_DYNAMIC_AUTO, NULL);
        for (size_t k = 0; k < sizeof even / sizeof *even; k++) check(f, plain, even[k]);
        assert_int_equal(jit_info(f).eager, 0);
        rp_jit_free(f);
        rp_jit_free(plain);
    }
}

/* A mark holds, with a size that is a form of others; one whose range it does not serve is refused. */
static void marks_hold(void **state) {
    rp_error err = {0};
    (void)state;
    rp_jit *f = jit_at(last, 1, RP_DYNAMIC_AUTO, NULL);
    rp_jit *plain = jit_at(last, 0, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 2, INT64_MAX, &err), &err);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[1]", 0, 0, INT64_MAX, &err), &err);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[2]", 0, 0, INT64_MAX, &err), &err);
    for (int i = 0; i < CALLS; i++) check(f, plain, calls[i]);
    assert_int_equal(jit_info(f).entries, 1);
    rp_jit_free(f);
    f = jit_at(last, 1, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 2, 64, &err), &err);
    rp_output *o = NULL;
    assert_int_equal(run(f, calls[0], &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "not all of its range is served"));
    rp_jit_free(f);
    rp_jit_free(plain);
    f = jit_at(numbered, 1, RP_DYNAMIC_ALL, NULL);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 2, INT64_MAX, &err), &err);
    err = (rp_error){0};
    assert_int_equal(run(f, calls[0], &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "You marked L[0].size()[0] as dynamic but your code "
                                     "specialized it to be a constant (8)"));
    rp_jit_free(f);
}

static void guards_are_told(void **state) {
    rp_error err = {0};
    char *text = NULL;
    base_buf said;
    (void)state;
    rp_jit *f = jit_at(last, 1, RP_DYNAMIC_AUTO, NULL);
    rp_jit *plain = jit_at(last, 0, RP_DYNAMIC_AUTO, NULL);
    heard_start(&said, "recompiles,dynamic");
    for (int i = 0; i < 3; i++) check(f, plain, calls[i]);
    CHECK_HEARD(&said, "create_symbol s3 = 6 for (L[0].size()[0] - (L[1])) [0, int_oo]");
    CHECK_OK(rp_jit_guards_text(f, &text, &err), &err);
    if (!strstr(text, "  - SHAPE_ENV: 0 <= L[0].size()[0]-L[1]  # test/unit/jit_rests.c:"))
        fail_msg("%s", text);
    rp_free(text);
    check(f, plain, (const sizes){5, 6, 7}); /* is no slice */
    CHECK_HEARD(&said, ": 0 <= L[0].size()[0]-L[1]  # test/unit/jit_rests.c:");
    heard_done(&said);
    rp_jit_free(f);
    rp_jit_free(plain);
}

/* What was learnt of it while it was a size is no guard. */
static void what_is_a_number_leaves_none(void **state) {
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    rp_jit *f = jit_at(both, 1, RP_DYNAMIC_AUTO, NULL);
    rp_jit *plain = jit_at(both, 0, RP_DYNAMIC_AUTO, NULL);
    check(f, plain, (const sizes){8, 8, 0});
    check(f, plain, (const sizes){10, 10, 0});
    CHECK_OK(rp_jit_guards_text(f, &text, &err), &err);
    assert_non_null(strstr(text, "EQUALS_MATCH: L[1] == 10"));
    if (strstr(text, "L[1] == L[0].size()[0]")) fail_msg("%s", text);
    rp_free(text);
    check(f, plain, (const sizes){12, 10, 0});
    assert_int_equal(jit_info(f).entries, 2);
    rp_jit_free(f);
    rp_jit_free(plain);
}

static rp_compilation_config *settings;

static rp_status life(rp_error *err) {
    rp_jit_options o = jit_options(broken);
    rp_jit *f = NULL;
    o.config = settings;
    rp_status st = rp_jit_new(&o, &f, err);
    if (st == RP_OK) rp_jit_reset(f);
    for (int i = 0; i < 4 && st == RP_OK; i++) {
        rp_output *out = NULL;
        st = run(f, calls[i], &out, err);
        rp_output_free(out);
    }
    rp_jit_free(f);
    return st;
}

static void failed_allocations_are_told(void **state) {
    rp_error err = {0};
    (void)state;
    settings = jit_plain_settings();
    (void)life(&err); /* what the process keeps */
    jit_fail_each_allocation(life, 24);
    rp_config_free(settings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_entries_serve_all),
        cmocka_unit_test(what_more_is_needed_is_guarded),
        cmocka_unit_test(marks_hold),
        cmocka_unit_test(guards_are_told),
        cmocka_unit_test(what_is_a_number_leaves_none),
        cmocka_unit_test(failed_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, begun, NULL);
}
