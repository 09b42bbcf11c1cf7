/* Arguments that are marked as rows: graphs of rounded sizes, results of the caller's. */
#include "support/row_functions.h"

#include "autograph/rows.h"
#include "support/autographs.h"

enum { MOST = 512, COLUMNS = 3, LADDER = 51 };

static const char *device;
static int storm;

/* What vLLM captures by default, and no more than a sixteenth of padding above. */
static void sizes_are_those_of_the_ladder(void **state) {
    int64_t ladder[LADDER] = {1, 2, 4};
    int n = 3;
    (void)state;
    for (int64_t s = 8; s <= 256; s += 8) ladder[n++] = s;
    for (int64_t s = 272; s <= 512; s += 16) ladder[n++] = s;
    assert_int_equal(n, LADDER);
    for (int64_t i = 1, at = 0; i <= MOST; i++) {
        if (i > ladder[at]) at++;
        assert_int_equal(autograph_rows_up(i), ladder[at]);
    }
    for (int64_t i = MOST + 1, last = 0; i < INT64_MAX / 4; i += 1 + i / 37) {
        int64_t up = autograph_rows_up(i);
        assert_true(up >= i && up - i < i / 16 && up >= last);
        assert_int_equal(autograph_rows_up(up), up);
        last = up;
    }
    assert_int_equal(autograph_rows_up(0), 0);
    assert_true(autograph_rows_up(INT64_MAX) == INT64_MAX);
}

typedef struct rows_case {
    bench b;
    affine m;
    rp_function *f;
} rows_case;

static void case_open(rows_case *c, rp_growth growth, rp_output_policy p, rp_function_fn fn) {
    bench_open(&c->b, device, growth);
    affine_open(&c->m, c->b.device, COLUMNS, 2, 1);
    c->f = function_giving(&c->b, "rows", fn, &c->m, p, 3);
}

static void case_close(rows_case *c) {
    affine_close(&c->m);
    bench_close(&c->b);
}

static rp_value marked(float *x, int64_t n) {
    rp_value v = rows_of(x, n, COLUMNS);
    v.rows = true;
    return v;
}

static void check_rows(const rp_output *o, const float *x, int64_t n) {
    assert_int_equal(result_of(o)->tensor.dim[0], n);
    const float *y = values_of(o);
    for (int64_t i = 0; i < n * COLUMNS; i++) assert_true(y[i] == 2 * x[i] + 1);
}

static void random_sizes_need_a_ladder(void **state) {
    static float x[MOST * COLUMNS];
    static const rp_output_policy policies[] = {RP_OUTPUT_COPY, RP_OUTPUT_BORROWED, RP_OUTPUT_RING};
    uint32_t seed = 7;
    (void)state;
    for (int k = 0; k < 3; k++) {
        rows_case c;
        uint64_t half = 0;
        case_open(&c, RP_GROWTH_RESERVE, policies[k], affine_call);
        for (int i = 0; i < storm; i++) {
            seed = seed * 1664525u + 1013904223u;
            int64_t n = 1 + (seed >> 8) % MOST;
            x[seed % (MOST * COLUMNS)] = (float)i;
            rp_value in = marked(x, n);
            rp_output *o = run_items(c.f, &in, 1);
            check_rows(o, x, n);
            rp_output_free(o);
            if (i == storm / 2) half = bench_info(&c.b).captures;
        }
        rp_autograph_info info = bench_info(&c.b);
        assert_true(info.captures <= LADDER && info.captures > LADDER / 2);
        if (storm > 20 * MOST) assert_true(info.captures == LADDER && half == LADDER);
        assert_int_equal(info.eager + info.invalidated + info.evicted, 0);
        case_close(&c);
    }
}

static rp_status unmarked_call(void *user, rp_call *call, const rp_value *args, rp_value *result,
                               rp_error *err) {
    rp_status st = affine_call(user, call, args, result, err);
    result->rows = false;
    return st;
}

/* In the first run and in replays, behind a larger call too, where the caller's memory goes on with other values. */
static void the_function_sees_zeros_behind(void **state) {
    static float x[8 * COLUMNS];
    void *there = NULL;
    rp_error err = {0};
    rows_case c;
    (void)state;
    case_open(&c, RP_GROWTH_RESERVE, RP_OUTPUT_COPY, unmarked_call);
    for (int i = 0; i < 8 * COLUMNS; i++) x[i] = (float)(i + 1);
    CHECK_OK(rp_device_alloc(c.b.device, sizeof x, &there, &err), &err);
    CHECK_OK(rp_stream_copy(c.b.stream, there, x, sizeof x, &err), &err);
    static const int64_t sizes[] = {5, 8, 6, 8, 7};
    for (int k = 0; k < 5; k++) {
        rp_value in = marked(there, sizes[k]);
        rp_output *o = run_items(c.f, &in, 1);
        assert_int_equal(rp_output_ran(o), k ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_int_equal(result_of(o)->tensor.dim[0], 8);
        const float *y = values_of(o);
        for (int64_t i = 0; i < 8 * COLUMNS; i++)
            assert_true(y[i] == (i < sizes[k] * COLUMNS ? 2 * x[i] + 1 : 1));
        rp_output_free(o);
    }
    rp_device_free(c.b.device, there);
    case_close(&c);
}

static void views_are_rounded_too(void **state) {
    static float x[MOST * COLUMNS], dense[MOST * COLUMNS];
    static const int64_t stride[] = {2 * COLUMNS, 1};
    rows_case c;
    (void)state;
    case_open(&c, RP_GROWTH_RESERVE, RP_OUTPUT_COPY, affine_call);
    for (int i = 0; i < MOST * COLUMNS; i++) x[i] = (float)i;
    for (int64_t n = 9; n <= 16; n++) {
        rp_value in = rp_value_strided(marked(x, n).tensor, stride);
        in.rows = true;
        for (int64_t i = 0; i < n * COLUMNS; i++)
            dense[i] = x[i / COLUMNS * 2 * COLUMNS + i % COLUMNS];
        rp_output *o = run_items(c.f, &in, 1);
        check_rows(o, dense, n);
        rp_output_free(o);
    }
    assert_int_equal(bench_info(&c.b).captures, 1);
    case_close(&c);
}

static bool never(void *user) {
    (void)user;
    return false;
}

/* The seed's way of growing, and a call that runs as it is, have the caller's sizes. */
static void only_graphs_are_rounded(void **state) {
    static float x[8 * COLUMNS];
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    rows_case c;
    rp_value in = marked(x, 5);
    (void)state;
    case_open(&c, RP_GROWTH_EXACT, RP_OUTPUT_COPY, unmarked_call);
    for (int64_t n = 5; n <= 7; n++) {
        rp_value v = marked(x, n);
        rp_output *y = run_items(c.f, &v, 1);
        assert_int_equal(rp_output_ran(y), RP_RAN_CAPTURE);
        assert_int_equal(result_of(y)->tensor.dim[0], n);
        rp_output_free(y);
    }
    case_close(&c);
    case_open(&c, RP_GROWTH_RESERVE, RP_OUTPUT_COPY, affine_call);
    o.name = "off";
    o.fn = unmarked_call;
    o.user = &c.m;
    o.enable_if = never;
    rp_output *y = run_items(function_with(&c.b, o), &in, 1);
    assert_int_equal(rp_output_ran(y), RP_RAN_EAGER);
    assert_int_equal(result_of(y)->tensor.dim[0], 5);
    rp_output_free(y);
    case_close(&c);
}

static rp_status halved_call(void *user, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_status st = affine_call(user, call, args, result, err);
    result->tensor.dim[0] /= 2;
    return st;
}

static void expect_refused(rp_function *f, const rp_value *items, uint32_t n, const char *want) {
    rp_value args = rp_value_tuple(items, n);
    rp_output *o = NULL;
    rp_error err = {0};
    assert_int_equal(rp_autograph_run(f, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, want));
    assert_null(o);
}

static void other_numbers_of_rows_are_refused(void **state) {
    static float x[16 * COLUMNS];
    rows_case c;
    (void)state;
    case_open(&c, RP_GROWTH_RESERVE, RP_OUTPUT_COPY, affine_call);
    rp_value in[] = {marked(x, 13), marked(x, 14)};
    const char *why = "arguments have 13 and 14 rows; those that are marked as rows have the same";
    expect_refused(c.f, in, 2, why);
    in[1] = marked(x, 13);
    rp_output_free(run_items(c.f, in, 2));
    in[1] = marked(x, 14); /* of the same graph */
    expect_refused(c.f, in, 2, why);
    in[1] = marked(x, 13);
    rp_output *o = run_items(c.f, in, 2);
    assert_int_equal(rp_output_ran(o), RP_RAN_REPLAY);
    rp_output_free(o);
    in[0].state = true;
    expect_refused(c.f, in, 1, "rows of a tensor that is read where it lies");
    in[0].state = false;
    in[0].indirect = true;
    expect_refused(c.f, in, 1, "rows of a tensor that is read where it lies");
    in[0].indirect = false;
    case_close(&c);
    case_open(&c, RP_GROWTH_RESERVE, RP_OUTPUT_COPY, halved_call);
    expect_refused(c.f, in, 1,
                   "a tensor of the result that is marked as rows has 8 of them; the arguments of "
                   "the function have 16");
    case_close(&c);
}

int row_functions_run(const char *name, int n, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_ladder),
        cmocka_unit_test(random_sizes_need_a_ladder),
        cmocka_unit_test(the_function_sees_zeros_behind),
        cmocka_unit_test(views_are_rounded_too),
        cmocka_unit_test(only_graphs_are_rounded),
        cmocka_unit_test(other_numbers_of_rows_are_refused),
    };
    device = name;
    storm = n;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
