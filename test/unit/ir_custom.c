/* Custom ops: registration, lookup, names of splitting ops, and running one in the interpreter. */
#include "support/check.h"

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/eval.h"

static rp_status scale_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                           rp_error *err) {
    const float *x = args[0].data;
    float *y = args[1].data, *out = args[2].data;
    (void)err;
    assert_int_equal(n_args, 3);
    assert_int_equal(args[0].dtype, RP_DTYPE_F32);
    assert_int_equal(args[0].dim[1], 2);
    for (int i = 0; i < 4; i++) {
        y[i] += 100;
        out[i] = x[i] * *(float *)call->user;
    }
    return RP_OK;
}

static float factor = 3;
static const rp_op_desc scale = {.size = sizeof scale,
                                 .name = "test::scale",
                                 .mutates = 2,
                                 .result_like = 0,
                                 .splitting = true,
                                 .cpu = scale_cpu,
                                 .user = &factor};
static const rp_op_desc both = {
    .size = sizeof both, .name = "test::both", .mutates = 3, .result_like = -1};
static const rp_op_desc pure = {.size = sizeof pure, .name = "test::pure", .result_like = -1};

/* x into its sums along both axes; those of rows as integers. */
static rp_status apart_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                           rp_error *err) {
    const float *x = args[0].data;
    (void)call, (void)err;
    assert_int_equal(n_args, 3);
    assert_int_equal(args[2].dtype, RP_DTYPE_I32);
    for (int i = 0; i < 2; i++) {
        ((float *)args[1].data)[i] = x[i] + x[i + 2];
        ((int32_t *)args[2].data)[i] = (int32_t)(x[2 * i] + x[2 * i + 1]);
    }
    return RP_OK;
}

static const rp_op_desc apart = {.size = sizeof apart,
                                 .name = "test::apart",
                                 .result_like = -1,
                                 .cpu = apart_cpu,
                                 .n_results = 2};

static int registered(void **state) {
    rp_error err = {0};
    (void)state;
    if (ir_custom_find("test::scale")) return 0;
    CHECK_OK(rp_op_register(&scale, &err), &err);
    CHECK_OK(rp_op_register(&both, &err), &err);
    CHECK_OK(rp_op_register(&pure, &err), &err);
    CHECK_OK(rp_op_register(&apart, &err), &err);
    return 0;
}

/* What it gives is what memory is filled with to see that it is written: it is asked twice, and mutates once. */
static void what_is_run_twice_mutates_once(void **state) {
    float x[4], y[4] = {1, 2, 3, 4}, out[4], one = 1;
    const rp_op_call call = {
        .size = sizeof call, .name = "test::scale", .user = &one, .n_in = 2, .n_results = 1};
    rp_buffer args[3] = {
        {RP_DTYPE_F32, 2, {2, 2}, x}, {RP_DTYPE_F32, 2, {2, 2}, y}, {RP_DTYPE_F32, 2, {2, 2}, out}};
    rp_error err = {0};
    (void)state;
    memset(x, 0xa5, sizeof x);
    CHECK_OK(ir_custom_run_checked(&scale, &call, args, &err), &err);
    assert_memory_equal(out, x, sizeof x);
    for (int i = 0; i < 4; i++) assert_true(y[i] == (float)(i + 101));
}

static void registration_is_checked(void **state) {
    static const struct {
        const char *name, *error;
    } bad[] = {
        {"scale", "'scale' is not of the form namespace::name"},
        {"a::", "is not of the form"},
        {"::a", "is not of the form"},
        {"a::b c", "is not of the form"},
        {"test::scale", "custom op 'test::scale' is registered already"},
        {"reprise::attention", "is a built-in op's"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rp_op_desc d = scale;
        rp_error err = {0};
        d.name = bad[i].name;
        assert_int_equal(rp_op_register(&d, &err), RP_INVALID);
        if (!strstr(err.text, bad[i].error)) fail_msg("%s", err.text);
    }
    rp_op_desc d = scale;
    d.name = "test::other";
    d.size = 8;
    assert_int_equal(rp_op_register(&d, NULL), RP_INVALID);
    d = apart;
    d.name = "test::other";
    d.n_results = 9;
    assert_int_equal(rp_op_register(&d, NULL), RP_INVALID);
    d.n_results = 2;
    d.result_like = 0;
    assert_int_equal(rp_op_register(&d, NULL), RP_INVALID);
    d.n_results = 1;
    for (int like = 64; like < 67; like++) {
        char why[100];
        rp_error err = {0};
        d.result_like = like;
        assert_int_equal(rp_op_register(&d, &err), RP_INVALID);
        (void)snprintf(why, sizeof why,
                       "custom op test::other: result_like %d; an op has at most 64 operands",
                       like);
        assert_string_equal(err.text, why);
    }
    assert_null(ir_custom_find("test::other"));
    d.name = "test::last";
    d.result_like = 63;
    assert_int_equal(rp_op_register(&d, NULL), RP_OK);
    assert_non_null(ir_custom_find("test::scale"));
}

static const char text[] = "graph @g(%x: f32[2,2], %y: f32[2,2] mutates) {\n"
                           "  %a = custom %x, %y {name=\"test::scale\"}\n"
                           "  %b = neg %a\n"
                           "  %p = custom %x {name=\"test::pure\", types=[f16[3]]}\n"
                           "  %q = custom %x {name=\"test::pure\", types=[f16[3]]}\n"
                           "  ret %b, %p, %q\n}\n";

static ir_graph *parse(const char *s) {
    ir_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(ir_parse(s, strlen(s), &g, &err), &err);
    return g;
}

static void pure_ones_merge_and_effects_do_not(void **state) {
    (void)state;
    ir_graph *g = parse(text);
    assert_int_equal(ir_output_at(g, 1), ir_output_at(g, 2));
    assert_true(ir_node_is_effect(ir_node_at(g, 2)));
    assert_int_equal(ir_node_writes(ir_node_at(g, 2)), 2);
    assert_false(ir_node_is_effect(ir_node_at(g, ir_output_at(g, 1))));
    assert_string_equal(ir_type_of(g, ir_output_at(g, 1)).s, "f16[3]");
    ir_graph_free(g);
}

static void shape_rules_are_checked(void **state) {
    static const struct {
        const char *line, *error;
    } bad[] = {
        {"custom %x {name=\"test::scale\"}", "test::scale mutates operand 1 of 1"},
        {"custom %x, %n {name=\"test::scale\"}", "operand 1 is written, so it must be a state"},
        {"custom %n, %x {name=\"test::scale\", types=[f32[1]]}", "it takes no types"},
        {"custom %x {name=\"test::pure\"}",
         "test::pure has 1 result, whose types the attribute types gives; it has 0"},
        {"custom %x {name=\"test::apart\", types=[f32[1]]}",
         "test::apart has 2 results, whose types the attribute types gives; it has 1"},
        {"custom %x {name=\"test::apart\", types=[f32[1],f32[1],f32[1]]}",
         "test::apart has 2 results, whose types the attribute types gives; it has 3"},
        {"custom %x {name=\"test::pure\", types=[f32[1],f32[1]]}",
         "test::pure has 1 result, whose types the attribute types gives; it has 2"},
        {"custom %x, %x {name=\"test::both\", types=[f32[1]]}",
         "operands 0 and 1 are one memory, %x"},
        {"custom %x {name=\"test::apart\", types=[f32[1],i32[-1]]}",
         "axis 0 of i32[-1] is negative"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char s[512];
        ir_graph *g = NULL;
        rp_error err = {0};
        (void)snprintf(s, sizeof s,
                       "graph @g(%%x: f32[2,2] mutates) {\n%%n = neg %%x\n%%a = %s\nret %%a\n}",
                       bad[i].line);
        assert_int_equal(ir_parse(s, strlen(s), &g, &err), RP_INVALID);
        if (!strstr(err.text, bad[i].error)) fail_msg("%s: %s", bad[i].line, err.text);
    }
}

/* One operand is read and another is written, which are one memory: that is for the op to say, and it does not. */
static void what_is_written_may_be_read(void **state) {
    (void)state;
    ir_graph *g = parse("graph @g(%x: f32[2,2] mutates) {\n"
                        "  %a = custom %x, %x {name=\"test::scale\"}\n  ret %a\n}\n");
    assert_int_equal(ir_node_writes(ir_node_at(g, ir_output_at(g, 0))), 2);
    ir_graph_free(g);
}

static void interpreter_calls_the_cpu_function(void **state) {
    static const char body[] = "graph @g(%x: f32[2,2]) {\n  %y = state @y : f32[2,2]\n"
                               "  %a = custom %x, %y {name=\"test::scale\"}\n  ret %a\n}\n";
    double xs[4] = {1, 2, 3, 4}, ys[4] = {0, 1, 2, 3};
    ir_value x = {2, {2, 2}, 4, xs}, y = {2, {2, 2}, 4, ys}, out;
    rp_error err = {0};
    (void)state;
    ir_graph *g = parse(body);
    CHECK_OK(ir_eval(g, &x, NULL, &y, NULL, &out, &err), &err);
    for (int i = 0; i < 4; i++) {
        assert_true(out.data[i] == 3 * xs[i]);
        assert_true(ys[i] == 100 + i); /* the state was written in place */
    }
    ir_value_done(&out);
    ir_graph_free(g);
    g = parse("graph @g(%x: f32[2,2]) {\n  %p = custom %x {name=\"test::pure\", types=[f16[3]]}\n"
              "  ret %p\n}\n");
    assert_int_equal(ir_eval(g, &x, NULL, NULL, NULL, &out, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "test::pure has no CPU function"));
    ir_graph_free(g);
}

/* Results are asked for in any order, once each; what nobody asks for is not in the way. */
static void results_have_types_of_their_own(void **state) {
    static const char body[] =
        "graph @g(%x: f32[2,2]) {\n"
        "  %a = custom %x {name=\"test::apart\", types=[f32[2],i32[2]]} : (f32[2], i32[2])\n"
        "  %b = result %a {index=1}\n  %c = result %a {index=1}\n"
        "  %d = custom %a {name=\"test::apart\", types=[f32[2],i32[2]]}\n"
        "  %e = neg %a\n  ret %b, %e, %c\n}\n";
    static const char printed[] =
        "graph @g(%x: f32[2,2]) -> (i32[2], f32[2], i32[2]) {\n"
        "  %0 = custom %x {name=\"test::apart\", types=[f32[2],i32[2]]} : (f32[2], i32[2])\n"
        "  %1 = result %0 {index=1}                  : i32[2]\n"
        "  %2 = custom %0 {name=\"test::apart\", types=[f32[2],i32[2]]} : (f32[2], i32[2])\n"
        "  %3 = neg %0                               : f32[2]\n"
        "  ret %1, %3, %1\n}\n";
    double xs[4] = {1, 2, 3, 5};
    ir_value x = {2, {2, 2}, 4, xs}, out[3];
    rp_error err = {0};
    char *again = NULL;
    (void)state;
    ir_graph *g = parse(body);
    CHECK_OK(ir_print_string(g, &again, &err), &err);
    assert_string_equal(again, printed);
    base_free(again);
    assert_int_equal(ir_result_of(g, 1, 1), 2);
    assert_int_equal(ir_result_of(g, 3, 1), IR_NONE);
    ir_graph_free(g);
    g = parse("graph @g(%x: f32[2,2]) {\n"
              "  %a = custom %x {name=\"test::apart\", types=[f32[2],i32[2]]}\n"
              "  %b = result %a {index=1}\n  %e = neg %a\n  ret %b, %e, %a\n}\n");
    CHECK_OK(ir_eval(g, &x, NULL, NULL, NULL, out, &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_true(out[0].data[i] == xs[2 * i] + xs[2 * i + 1]);
        assert_true(out[2].data[i] == xs[i] + xs[i + 2]);
        assert_true(out[1].data[i] == -out[2].data[i]);
    }
    for (int i = 0; i < 3; i++) ir_value_done(&out[i]);
    ir_graph_free(g);
}

static void splitting_names_resolve(void **state) {
    static const struct {
        const char *name, *canonical;
    } names[] = {
        {"aiter.unified_attention_with_output", "reprise::attention"},
        {"aiter::unified_attention_with_output", "reprise::attention"},
        {"vllm.unified_attention_with_output", "reprise::attention"},
        {"vllm::unified_attention_with_output.default", "reprise::attention"},
        {"reprise::attention", "reprise::attention"},
        {"reprise.attention.default", "reprise::attention"},
        {"aiter.mla_attention", "reprise::mla_attention"},
        {"vllm.unified_mla_attention_with_output", "reprise::mla_attention"},
        {"vllm.unified_kv_cache_update", "reprise::kv_store"},
        {"my.op", "my::op"},
        {"attention", NULL},
        {".attention", NULL},
        {"a.", NULL},
        {"", NULL},
        {".default", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char out[256] = "";
        bool ok = ir_splitting_name(names[i].name, out, sizeof out);
        if (ok != (names[i].canonical != NULL) || (ok && strcmp(out, names[i].canonical) != 0))
            fail_msg("%s -> %s", names[i].name, ok ? out : "none");
    }
    char tiny[4];
    assert_false(ir_splitting_name("aiter.mla_attention", tiny, sizeof tiny));
}

static void nodes_match_the_list(void **state) {
    (void)state;
    ir_graph *g = parse(text);
    const ir_node *custom = ir_node_at(g, 2), *neg = ir_node_at(g, 3);
    const char *const dotted[] = {"other.op", "test.scale"}, *const neg_op[] = {"reprise::neg"};
    const char *const bare[] = {"neg", "scale"};
    uint32_t n = 0;
    assert_int_equal(custom->op, IR_custom);
    assert_true(ir_is_splitting(custom, dotted, 2));
    assert_false(ir_is_splitting(custom, dotted, 1));
    assert_false(ir_is_splitting(neg, dotted, 2));
    assert_true(ir_is_splitting(neg, neg_op, 1));
    assert_false(ir_is_splitting(neg, bare, 2)); /* no namespace: never */
    assert_false(ir_is_splitting(custom, bare, 2));
    const char *const *list = ir_registered_splitting_ops(&n);
    assert_int_equal(n, 1);
    assert_string_equal(list[0], "test::scale"); /* splits by default */
    assert_true(ir_is_splitting(custom, list, n));
    assert_true(ir_graph_splits_at(g, "test.scale") && ir_graph_splits_at(g, "reprise.neg"));
    assert_false(ir_graph_splits_at(g, "test.scales") || ir_graph_splits_at(g, "scale"));
    ir_graph_free(g);
}

/* As many as there is room for, each of which is found, by its name and as a splitting op. The last test, since they stay. */
static void there_are_256_ops(void **state) {
    enum { MOST = 256 };
    char name[32], first[32];
    rp_error err = {0};
    uint32_t n = 0, own;
    (void)state;
    while (ir_custom_at(n)) n++;
    own = n;
    (void)snprintf(first, sizeof first, "many::op%u", own);
    for (; n < MOST; n++) {
        rp_op_desc d = pure;
        (void)snprintf(name, sizeof name, "many::op%u", n);
        d.name = name;
        d.splitting = true;
        CHECK_OK(rp_op_register(&d, &err), &err);
    }
    rp_op_desc d = pure;
    d.name = "many::more";
    assert_int_equal(rp_op_register(&d, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "more than 256 custom ops");
    assert_null(ir_custom_find("many::more"));
    assert_string_equal(ir_custom_at(MOST - 1)->name, name);
    assert_null(ir_custom_at(MOST));
    assert_string_equal(ir_custom_find(first)->name, first);
    assert_string_equal(ir_custom_find(name)->name, name);
    assert_string_equal(ir_custom_find("test::scale")->name, "test::scale");
    const char *const *list = ir_registered_splitting_ops(&n);
    assert_int_equal(n, 1 + MOST - own);
    assert_string_equal(list[n - 1], name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_run_twice_mutates_once, registered),
        cmocka_unit_test_setup(registration_is_checked, registered),
        cmocka_unit_test_setup(pure_ones_merge_and_effects_do_not, registered),
        cmocka_unit_test_setup(shape_rules_are_checked, registered),
        cmocka_unit_test_setup(what_is_written_may_be_read, registered),
        cmocka_unit_test_setup(interpreter_calls_the_cpu_function, registered),
        cmocka_unit_test_setup(results_have_types_of_their_own, registered),
        cmocka_unit_test(splitting_names_resolve),
        cmocka_unit_test_setup(nodes_match_the_list, registered),
        cmocka_unit_test_setup(there_are_256_ops, registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
