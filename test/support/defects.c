/* The fourteen defects that were reproduced in MagiCompiler's AutoCudaGraph, D1 to D14: each sequence with the right result, and
 * what it gave there quoted as OLD and asserted not to come. */
#include "support/defects.h"

#include "base/alloc.h"
#include "support/autographs.h"

static const char *device = "cpu";

/* y = x + c, or, where c has no value, x: arguments (x, c) of the defects as one function. It looks at literals and at None while it
 * runs, which is what a graph bakes in. */
typedef struct model {
    bench b;
    affine plus[6]; /* + 1, * 10, + 100, * 1, + 10, * 2 */
    rp_function *f;
    int runs; /* of the function's body */
} model;

enum { PLUS_ONE, TIMES_TEN, PLUS_HUNDRED, SAME, PLUS_TEN, TIMES_TWO, N_PLUS };

static void model_open(model *m, rp_function_fn fn, rp_growth growth) {
    memset(m, 0, sizeof *m);
    bench_open(&m->b, device, growth);
    affine_open(&m->plus[PLUS_ONE], m->b.device, 0, 1, 1);
    affine_open(&m->plus[TIMES_TEN], m->b.device, 0, 10, 0);
    affine_open(&m->plus[PLUS_HUNDRED], m->b.device, 0, 1, 100);
    affine_open(&m->plus[SAME], m->b.device, 0, 1, 0);
    affine_open(&m->plus[PLUS_TEN], m->b.device, 0, 1, 10);
    affine_open(&m->plus[TIMES_TWO], m->b.device, 0, 2, 0);
    if (fn) m->f = function_of(&m->b, "f", fn, m);
}

static void model_close(model *m) {
    for (int i = 0; i < N_PLUS; i++) affine_close(&m->plus[i]);
    bench_close(&m->b);
}

static rp_status apply(model *m, rp_call *call, int which, const rp_value *x, rp_value *result,
                       rp_error *err) {
    rp_value args = rp_value_tuple(x, 1);
    return affine_call(&m->plus[which], call, &args, result, err);
}

static float first_of(rp_output *o) {
    float y = values_of(o)[0];
    rp_output_free(o);
    return y;
}

/* --- D1 to D4: what a call is found by -------------------------------------------------------- */

/* f(x, c): x + 1 without c, x + 100 with a list. */
static rp_status with_list(void *user, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    int which = args->item[1].kind == RP_VALUE_NONE ? PLUS_ONE : PLUS_HUNDRED;
    return apply(user, call, which, &args->item[0], result, err);
}

static void d1_none_and_a_list(void **state) {
    const float OLD = 2;
    float x = 1, y = 100;
    (void)state;
    model m;
    model_open(&m, with_list, RP_GROWTH_RESERVE);
    rp_value item = floats(&y, 1), none[] = {floats(&x, 1), rp_value_none()};
    rp_value list[] = {floats(&x, 1), rp_value_list(&item, 1)};
    for (int i = 0; i < 2; i++) {
        assert_true(first_of(run_items(m.f, none, 2)) == 2);
        float got = first_of(run_items(m.f, list, 2));
        assert_true(got == 101 && got != OLD);
    }
    assert_int_equal(bench_info(&m.b).captures, 2);
    assert_int_equal(bench_info(&m.b).replays, 2);
    model_close(&m);
}

/* f(x, a=None, b=None): x + 10 with a, x * 10 with b. */
static rp_status by_place(void *user, rp_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    int which = args->item[1].kind == RP_VALUE_NONE ? TIMES_TEN : PLUS_TEN;
    return apply(user, call, which, &args->item[0], result, err);
}

static void d2_where_none_stands(void **state) {
    const float OLD = 30;
    float x = 3;
    (void)state;
    model m;
    model_open(&m, by_place, RP_GROWTH_RESERVE);
    rp_value b[] = {floats(&x, 1), rp_value_none(), rp_value_int(3)};
    rp_value a[] = {floats(&x, 1), rp_value_int(3), rp_value_none()};
    for (int i = 0; i < 2; i++) {
        assert_true(first_of(run_items(m.f, b, 3)) == 30);
        float got = first_of(run_items(m.f, a, 3));
        assert_true(got == 13 && got != OLD);
    }
    assert_int_equal(bench_info(&m.b).graph_count, 2);
    model_close(&m);
}

/* f(x, a=None, b=None), by name: x * 10 with a, x + 10 with b. */
static rp_status by_name(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    int which = strcmp(args->name[1], "a") == 0 ? TIMES_TEN : PLUS_TEN;
    return apply(user, call, which, &args->item[0], result, err);
}

static void d3_names_of_arguments(void **state) {
    const float OLD = 30;
    static const char *const with_a[] = {"x", "a"}, *const with_b[] = {"x", "b"};
    float x = 3;
    (void)state;
    model m;
    model_open(&m, by_name, RP_GROWTH_RESERVE);
    rp_value item[] = {floats(&x, 1), rp_value_int(3)};
    rp_value a = rp_value_map(with_a, item, 2), b = rp_value_map(with_b, item, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(first_of(run_ok(m.f, &a)) == 30);
        float got = first_of(run_ok(m.f, &b));
        assert_true(got == 13 && got != OLD);
    }
    assert_int_equal(bench_info(&m.b).graph_count, 2);
    model_close(&m);
}

/* One result for each type of the literal. */
static rp_status by_type(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    int which = args->item[1].kind == RP_VALUE_INT    ? PLUS_ONE
                : args->item[1].kind == RP_VALUE_BOOL ? TIMES_TEN
                                                      : PLUS_HUNDRED;
    return apply(user, call, which, &args->item[0], result, err);
}

static void d4_types_of_literals(void **state) {
    const uint64_t OLD = 1; /* graph for all three */
    float x = 2, want[] = {3, 20, 102};
    (void)state;
    model m;
    model_open(&m, by_type, RP_GROWTH_RESERVE);
    rp_value literal[] = {rp_value_int(1), rp_value_bool(true), rp_value_float(1.0)};
    for (int i = 0; i < 6; i++) {
        rp_value item[] = {floats(&x, 1), literal[i % 3]};
        assert_true(first_of(run_items(m.f, item, 2)) == want[i % 3]);
    }
    assert_int_equal(bench_info(&m.b).graph_count, 3);
    assert_int_not_equal(bench_info(&m.b).graph_count, OLD);
    model_close(&m);
}

/* --- D5, D6, D8: whose memory it is -------------------------------------------------------------- */

static rp_status times_ten(void *user, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    model *m = user;
    m->runs++;
    return apply(m, call, TIMES_TEN, &args->item[0], result, err);
}

static rp_status times_two(void *user, rp_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    return apply(user, call, TIMES_TWO, &args->item[0], result, err);
}

static void d5_the_first_input_is_the_callers(void **state) {
    const float OLD = 5;
    float x1 = 1, x2 = 5;
    (void)state;
    model m;
    model_open(&m, times_two, RP_GROWTH_RESERVE);
    rp_value a = floats(&x1, 1), b = floats(&x2, 1);
    assert_true(first_of(run_items(m.f, &a, 1)) == 2);
    for (int i = 0; i < 100; i++) assert_true(first_of(run_items(m.f, &b, 1)) == 10);
    assert_true(x1 == 1 && x1 != OLD);
    model_close(&m);
}

static void d6_the_first_output_is_the_callers(void **state) {
    const float OLD = 10;
    float x1 = 1, x2 = 5;
    (void)state;
    model m;
    model_open(&m, times_two, RP_GROWTH_RESERVE);
    rp_value a = floats(&x1, 1), b = floats(&x2, 1);
    rp_output *first = run_items(m.f, &a, 1), *second = run_items(m.f, &a, 1);
    for (int i = 0; i < 100; i++) assert_true(first_of(run_items(m.f, &b, 1)) == 10);
    assert_true(values_of(first)[0] == 2 && values_of(first)[0] != OLD);
    assert_true(values_of(second)[0] == 2);
    assert_ptr_not_equal(result_of(first)->tensor.data, result_of(second)->tensor.data);
    rp_output_free(first);
    rp_output_free(second);
    model_close(&m);
}

/* Layers of one signature stand under it, in their order; those whose outputs stay in the slots have one each. */
static void check_layers_in_text(const model *m, bool together) {
    static const char both[] =
        "\n    Layer 0: Graph Status: Valid\n    Layer 1: Graph Status: Valid";
    char *text = bench_text(&m->b);
    const char *second = strstr(text + 1, "DynamicSignature: ");
    assert_non_null(second);
    assert_true((strstr(text, both) != NULL) == together);
    assert_true((strstr(second + 1, "\n  DynamicSignature: ") == NULL) == together);
    assert_non_null(strstr(text, "\n    Layer 0: Graph Status: Valid"));
    assert_non_null(strstr(text, "\n    Layer 1: Graph Status: Valid"));
    rp_free(text);
}

static void d8_held_across_layers(void **state) {
    const float OLD = 6;
    (void)state;
    for (int policy = 0; policy < 3; policy++) {
        model m;
        float x = 1;
        rp_function *layer[2];
        model_open(&m, NULL, RP_GROWTH_RESERVE);
        for (int i = 0; i < 2; i++) {
            rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
            o.name = "layer";
            o.fn = affine_call;
            o.user = &m.plus[i ? TIMES_TEN : PLUS_ONE];
            o.layer = i;
            o.output = (rp_output_policy)policy;
            o.ring = o.output == RP_OUTPUT_RING ? 2 : 0;
            layer[i] = function_with(&m.b, o);
        }
        rp_value in = floats(&x, 1);
        for (int i = 0; i < 3; i++) {
            rp_output *skip = run_items(layer[0], &in, 1);
            rp_output *y = run_items(layer[1], result_of(skip), 1);
            assert_true(values_of(y)[0] == 20);
            assert_true(values_of(skip)[0] == 2 && values_of(skip)[0] != OLD);
            rp_output_free(skip);
            rp_output_free(y);
        }
        assert_int_equal(bench_info(&m.b).graph_count, 2);
        check_layers_in_text(&m, policy == RP_OUTPUT_COPY);
        model_close(&m);
    }
}

/* --- D7: weights ------------------------------------------------------------------------------------ */

static void d7_two_instances_of_one_class(void **state) {
    const float OLD = 2;
    float x = 1;
    (void)state;
    model m;
    model_open(&m, NULL, RP_GROWTH_RESERVE);
    affine second;
    affine_open(&second, m.b.device, 0, 1, 2);
    rp_function *f = function_of(&m.b, "Layer.forward", affine_call, &m.plus[PLUS_ONE]);
    rp_function *g = function_of(&m.b, "Layer.forward", affine_call, &second);
    rp_value in = floats(&x, 1);
    for (int i = 0; i < 2; i++) {
        assert_true(first_of(run_items(f, &in, 1)) == 2);
        float got = first_of(run_items(g, &in, 1));
        assert_true(got == 3 && got != OLD);
    }
    assert_int_equal(bench_info(&m.b).tensor_entry_count, 1); /* one name: memory is shared */
    affine_set(&second, 1, 4); /* loaded again in place: nothing to capture */
    assert_true(first_of(run_items(g, &in, 1)) == 5);
    assert_int_equal(bench_info(&m.b).captures, 2);
    affine_move(&second, 7); /* captured again */
    assert_true(first_of(run_items(g, &in, 1)) == 8);
    assert_true(first_of(run_items(g, &in, 1)) == 8);
    assert_int_equal(bench_info(&m.b).captures, 3);
    assert_int_equal(bench_info(&m.b).invalidated, 1);
    affine_close(&second);
    model_close(&m);
}

/* --- D9 to D11: what fails, and what repeats ------------------------------------------------------ */

static rp_value changing[2]; /* arguments of the call under way */

/* Changes the literal that it was given, the first time. */
static rp_status changes_its_argument(void *user, rp_call *call, const rp_value *args,
                                      rp_value *result, rp_error *err) {
    model *m = user;
    if (m->runs++ == 0) changing[1] = rp_value_int(2);
    return apply(m, call, PLUS_ONE, &args->item[0], result, err);
}

static void d9_inconsistent_then_another_shape(void **state) {
    const rp_status OLD =
        RP_INVALID; /* TypeError, at the second shape and when the cache is printed */
    float x[] = {1, 2};
    rp_error err = {0};
    (void)state;
    model m;
    model_open(&m, changes_its_argument, RP_GROWTH_RESERVE);
    changing[0] = floats(x, 1);
    for (int i = 0; i < 2; i++) {
        changing[1] = rp_value_int(1);
        rp_output *o = run_items(m.f, changing, 2);
        assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
        assert_string_equal(rp_output_reason(o), "the arguments changed while the function ran");
        assert_true(first_of(o) == 2);
    }
    changing[0] = floats(x, 2);
    for (int i = 0; i < 2; i++) {
        rp_output *o = NULL;
        rp_value args = rp_value_tuple(changing, 2);
        rp_status st = rp_autograph_run(m.f, &args, &o, &err);
        assert_true(st == RP_OK && st != OLD);
        assert_int_equal(rp_output_ran(o), i ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        assert_true(values_of(o)[1] == 3);
        rp_output_free(o);
    }
    char *text = NULL;
    rp_status st = rp_autograph_text(m.b.graphs, &text, &err);
    assert_true(st == RP_OK && st != OLD);
    assert_non_null(strstr(text, "Layer None: Graph Status: Inconsistent (the arguments changed "
                                 "while the function ran)"));
    assert_non_null(strstr(text, "Layer None: Graph Status: Valid"));
    rp_free(text);
    model_close(&m);
}

/* Waits in the middle, which a capture cannot. */
static rp_status waits(void *user, rp_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    model *m = user;
    m->runs++;
    rp_status st = apply(m, call, PLUS_ONE, &args->item[0], result, err);
    return st == RP_OK ? rp_stream_synchronize(rp_call_stream(call), err) : st;
}

static void d10_a_failed_capture_is_learnt(void **state) {
    const int OLD = 2; /* runs of the body in each call, every one of which raised */
    float x[] = {1, 2};
    (void)state;
    model m;
    model_open(&m, waits, RP_GROWTH_RESERVE);
    for (int i = 0; i < 4; i++) {
        rp_value in = floats(x, i < 3 ? 1 : 2);
        int before = m.runs;
        rp_output *o = run_items(m.f, &in, 1);
        assert_int_equal(rp_output_ran(o), RP_RAN_EAGER);
        assert_string_equal(rp_output_reason(o), "waiting for the device while calls are captured, "
                                                 "which cannot be replayed");
        assert_true(first_of(o) == 2);
        if (i > 0) assert_int_equal(m.runs - before, 1); /* the first call tried */
        if (i > 0) assert_int_not_equal(m.runs - before, OLD);
    }
    assert_int_equal(bench_info(&m.b).eager, 4);
    assert_int_equal(bench_info(&m.b).graph_count, 0);
    char *text = bench_text(&m.b);
    assert_non_null(strstr(text, "Inconsistent (waiting for the device"));
    rp_free(text);
    model_close(&m);
}

/* args: ([x, {"deep": (x, None)}],) */
static rp_status nested_sum(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    model *m = user;
    const rp_value *list = &args->item[0], *deep = &list->item[1].item[0].item[0];
    m->runs++;
    return apply(m, call, PLUS_ONE, deep, result, err);
}

static void d11_nested_arguments_replay(void **state) {
    const uint64_t OLD = 4; /* captures of four identical calls */
    static const char *const name[] = {"deep"};
    float x = 1, y = 5;
    (void)state;
    model m;
    model_open(&m, nested_sum, RP_GROWTH_RESERVE);
    rp_value pair[] = {floats(&y, 1), rp_value_none()}, tuple = rp_value_tuple(pair, 2);
    rp_value list[] = {floats(&x, 1), rp_value_map(name, &tuple, 1)};
    rp_value arg = rp_value_list(list, 2);
    for (int i = 0; i < 4; i++, y++) assert_true(first_of(run_items(m.f, &arg, 1)) == y + 1);
    assert_int_equal(bench_info(&m.b).captures, 1);
    assert_int_equal(bench_info(&m.b).replays, 3);
    assert_int_not_equal(bench_info(&m.b).captures, OLD);
    assert_int_equal(m.runs, 2);
    model_close(&m);
}

/* --- D12 to D14: sizes ---------------------------------------------------------------------------------- */

/* f(x, n): n times x, one behind the other. */
static rp_status repeats(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    const rp_buffer *x = &args->item[0].tensor;
    size_t bytes = (size_t)x->dim[0] * sizeof(float);
    rp_buffer y = {RP_DTYPE_F32, 1, {x->dim[0] * args->item[1].as.integer}, NULL};
    rp_status st = rp_call_output(call, &y, err);
    (void)user;
    for (int64_t i = 0; i < args->item[1].as.integer && st == RP_OK; i++)
        st = rp_stream_copy(rp_call_stream(call), (char *)y.data + (size_t)i * bytes, x->data,
                            bytes, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static void d12_a_literal_decides_the_output(void **state) {
    const rp_status OLD =
        RP_INVALID;             /* a size mismatch, raised by the capture of the second call, */
    const int64_t OLD_SIZE = 2; /* whose output memory was of the first one's size */
    float x[] = {4, 5};
    rp_error err = {0};
    (void)state;
    for (int growth = 0; growth < 2; growth++) {
        model m;
        model_open(&m, repeats, (rp_growth)growth);
        for (int i = 0; i < 6; i++) {
            rp_value item[] = {floats(x, 2), rp_value_int(i % 2 ? 3 : 1)};
            rp_value args = rp_value_tuple(item, 2);
            rp_output *o = NULL;
            rp_status st = rp_autograph_run(m.f, &args, &o, &err);
            assert_true(st == RP_OK && st != OLD);
            const float *y = values_of(o);
            assert_int_equal(result_of(o)->tensor.dim[0], i % 2 ? 6 : 2);
            if (i % 2) assert_int_not_equal(result_of(o)->tensor.dim[0], OLD_SIZE);
            for (int k = 0; k < (i % 2 ? 6 : 2); k++) assert_true(y[k] == x[k % 2]);
            rp_output_free(o);
        }
        assert_int_equal(bench_info(&m.b).graph_count, 2);
        model_close(&m);
    }
}

static void run_sizes(model *m, int from, int to) {
    static float x[256];
    int step = from < to ? 1 : -1;
    for (int n = from; n != to + step; n += step) {
        rp_value in = floats(x, n);
        x[n - 1] = (float)n;
        rp_output *o = run_items(m->f, &in, 1);
        assert_true(values_of(o)[n - 1] == 10 * (float)n);
        rp_output_free(o);
    }
}

/* By the rule of the seed: as many captures and valid graphs, but what is invalid is gone. */
static void d13_ascending_sizes_retain_no_graphs(void **state) {
    const uint64_t OLD = 200; /* graph objects retained, 1 of them valid */
    (void)state;
    model m;
    model_open(&m, times_ten, RP_GROWTH_EXACT);
    run_sizes(&m, 1, 200);
    rp_autograph_info info = bench_info(&m.b);
    assert_int_equal(info.captures, 200);
    assert_int_equal(info.graph_count, 1);
    assert_int_equal(info.invalidated, 199);
    run_sizes(&m, 200, 200);
    info = bench_info(&m.b);
    uint64_t pool = info.graph_mem_pool_bytes;
    run_sizes(&m, 200, 200);
    assert_int_equal(bench_info(&m.b).graph_mem_pool_bytes, pool);
    assert_true(info.captures - info.invalidated < OLD);
    model_close(&m);
    /* Reserved memory, the default: nothing is invalidated, and forms that never come again stop being captured. */
    model_open(&m, times_ten, RP_GROWTH_RESERVE);
    run_sizes(&m, 1, 200);
    info = bench_info(&m.b);
    assert_int_equal(info.captures, 32);
    assert_int_equal(info.invalidated, 0);
    run_sizes(&m, 199, 200); /* but they are, once they do */
    assert_int_equal(bench_info(&m.b).captures, 34);
    model_close(&m);
}

static void d14_descending_sizes_are_evicted(void **state) {
    const uint64_t OLD = 200; /* valid graphs, no eviction */
    (void)state;
    model m;
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    o.growth = RP_GROWTH_EXACT;
    o.max_graphs = 16;
    model_open(&m, NULL, RP_GROWTH_EXACT);
    rp_autograph_destroy(m.b.graphs);
    rp_error err = {0};
    CHECK_OK(rp_autograph_create(m.b.stream, &o, &m.b.graphs, &err), &err);
    m.f = function_of(&m.b, "f", times_ten, &m);
    run_sizes(&m, 200, 1);
    assert_int_equal(bench_info(&m.b).graph_count, 16);
    assert_int_not_equal(bench_info(&m.b).graph_count, OLD);
    assert_int_equal(bench_info(&m.b).evicted, 184);
    run_sizes(&m, 16, 1); /* the last ones used are there */
    assert_int_equal(bench_info(&m.b).captures, 200);
    run_sizes(&m, 16, 16);
    run_sizes(&m, 150, 150); /* evicts 15, the use of which is the longest ago */
    run_sizes(&m, 16, 16);
    assert_int_equal(bench_info(&m.b).captures, 201);
    model_close(&m);
}

int defects_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d1_none_and_a_list),
        cmocka_unit_test(d2_where_none_stands),
        cmocka_unit_test(d3_names_of_arguments),
        cmocka_unit_test(d4_types_of_literals),
        cmocka_unit_test(d5_the_first_input_is_the_callers),
        cmocka_unit_test(d6_the_first_output_is_the_callers),
        cmocka_unit_test(d7_two_instances_of_one_class),
        cmocka_unit_test(d8_held_across_layers),
        cmocka_unit_test(d9_inconsistent_then_another_shape),
        cmocka_unit_test(d10_a_failed_capture_is_learnt),
        cmocka_unit_test(d11_nested_arguments_replay),
        cmocka_unit_test(d12_a_literal_decides_the_output),
        cmocka_unit_test(d13_ascending_sizes_retain_no_graphs),
        cmocka_unit_test(d14_descending_sizes_are_evicted),
    };
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
