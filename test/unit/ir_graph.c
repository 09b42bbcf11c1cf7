/* The builder: sharing of equal nodes, leaves, attributes, copying, verification, faults. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/site.h"
#include "support/random_graph.h"

#define REFUSED(call, want)                                    \
    do {                                                       \
        err = (rp_error){0};                                   \
        assert_int_equal(call, RP_INVALID);                    \
        if (!strstr(err.text, want)) fail_msg("%s", err.text); \
    } while (0)

static ir_graph *parse(const char *text) {
    ir_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    return g;
}

static ir_shape shape2(ir_graph *g, int64_t a, int64_t b) {
    ir_dims *t = ir_graph_dims(g);
    return (ir_shape){2, {ir_dim_const(t, a), ir_dim_const(t, b)}};
}

static ir_ref input(ir_graph *g, const char *name) {
    ir_ref r;
    rp_error err = {0};
    CHECK_OK(ir_add_leaf(g, IR_LEAF_INPUT, name, RP_DTYPE_F32, shape2(g, 4, 8), &r, &err), &err);
    return r;
}

static void equal_pure_nodes_are_one(void **state) {
    (void)state;
    ir_graph *g = ir_graph_new("g");
    rp_error err = {0};
    ir_ref x = input(g, "x"), y = input(g, "y"), a, b, c;
    CHECK_OK(ir_add2(g, IR_add, x, y, &a, &err), &err);
    CHECK_OK(ir_add2(g, IR_add, x, y, &b, &err), &err);
    CHECK_OK(ir_add2(g, IR_add, y, x, &c, &err), &err);
    assert_int_equal(a, b);
    assert_int_not_equal(a, c); /* no reordering here */
    ir_attr last[2] = {{.key = IR_ATTR_KEEP, .u.i = 0}, {.key = IR_ATTR_AXIS, .u.i = -1}};
    ir_attr one[1] = {{.key = IR_ATTR_AXIS, .u.i = 1}};
    CHECK_OK(ir_add(g, IR_sum, &x, 1, last, 2, &a, &err), &err);
    CHECK_OK(ir_add(g, IR_sum, &x, 1, one, 1, &b, &err), &err);
    assert_int_equal(a, b); /* order, defaults and negative axes do not tell apart */
    CHECK_OK(ir_add_const(g, RP_DTYPE_F32, 0.1, &a, &err), &err);
    CHECK_OK(ir_add_const(g, RP_DTYPE_F32, (float)0.1, &b, &err), &err);
    CHECK_OK(ir_add_const(g, RP_DTYPE_BF16, 0.1, &c, &err), &err);
    assert_int_equal(a, b);
    assert_int_not_equal(a, c);
    CHECK_OK(ir_add_const(g, RP_DTYPE_F32, 0.0, &a, &err), &err);
    CHECK_OK(ir_add_const(g, RP_DTYPE_F32, -0.0, &b, &err), &err);
    assert_int_not_equal(a, b);
    ir_graph_free(g);
}

/* Two constants are one node where they are one value of the type: by bits, but for NaN, of which there is one. */
static void constants_are_one_by_value(void **state) {
    static const double values[] = {0.0,       -0.0,     1.0,       0x1.000002p+0, 0x1.0000001p+0,
                                    0x1.01p+0, INFINITY, -INFINITY, NAN,           -NAN,
                                    65504,     70000};
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F16, RP_DTYPE_BF16};
    enum { VALUES = sizeof values / sizeof *values };
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        ir_graph *g = ir_graph_new("g");
        rp_error err = {0};
        ir_ref r[VALUES];
        for (size_t i = 0; i < VALUES; i++)
            CHECK_OK(ir_add_const(g, types[t], values[i], &r[i], &err), &err);
        for (size_t i = 0; i < VALUES; i++)
            for (size_t k = 0; k < VALUES; k++) {
                double a = ir_round(types[t], values[i]), b = ir_round(types[t], values[k]);
                bool one = a != a ? b != b : a == b && signbit(a) == signbit(b);
                if ((r[i] == r[k]) != one)
                    fail_msg("%s %a and %a", rp_dtype_name(types[t]), values[i], values[k]);
            }
        CHECK_OK(ir_graph_finish(g, r, VALUES, &err), &err);
        CHECK_OK(ir_verify(g, &err), &err);
        ir_graph_free(g);
    }
}

static void memory_and_effects_are_never_merged(void **state) {
    (void)state;
    ir_graph *g =
        parse("graph @g(%x: f32[4,8], %s: i32[4]) {\n"
              "  %k = state @k : f16[2,2,16,4]\n"
              "  %a = empty {dtype=f32, shape=[4,8]}\n  %b = empty {dtype=f32, shape=[4,8]}\n"
              "  %t = kv_store %k, %x, %s\n  %u = kv_store %t, %x, %s\n"
              "  %k2 = state @k : f16[2,2,16,4]\n  %p = param @p : f32[3]\n"
              "  %p2 = param @p : f32[3]\n ret %u, %p2, %k2\n}\n");
    assert_int_equal(ir_graph_count(g), 8);
    assert_int_equal(ir_leaf_count(g, IR_LEAF_STATE), 1);
    assert_int_equal(ir_output_at(g, 2), ir_leaf_at(g, IR_LEAF_STATE, 0));
    assert_true(ir_node_is_effect(ir_node_at(g, ir_output_at(g, 0))));
    assert_int_equal(ir_node_writes(ir_node_at(g, ir_output_at(g, 0))), 1);
    ir_graph_free(g);
}

/* Whatever a graph is called, its name is one that the text form reads. */
static void names_of_graphs_are_read_back(void **state) {
    char longest[300], cut[256];
    memset(longest, 'n', sizeof longest - 1), longest[sizeof longest - 1] = 0;
    memset(cut, 'n', sizeof cut - 1), cut[sizeof cut - 1] = 0;
    const char *const names[][2] = {{"", "graph"},     {"f", "f"},        {"_f", "_f"},
                                    {"7up", "_up"},    {"a b", "a_b"},    {"a.b-c/d", "a.b-c/d"},
                                    {"a\nb@", "a_b_"}, {longest, cut},    {cut, cut},
                                    {"-", "_"},        {"\xc3\xa4", "__"}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *text = NULL;
        rp_error err = {0};
        ir_graph *g = ir_graph_new(names[i][0]);
        ir_ref x = input(g, "x");
        assert_string_equal(ir_graph_name(g), names[i][1]);
        CHECK_OK(ir_graph_finish(g, &x, 1, &err), &err);
        CHECK_OK(ir_print_string(g, &text, &err), &err);
        ir_graph *back = parse(text);
        assert_string_equal(ir_graph_name(back), names[i][1]);
        base_free(text);
        ir_graph_free(back);
        ir_graph_free(g);
    }
}

/* Each call once, in the order of lines, up to twelve of them. */
static void sites_are_told_once(void **state) {
    rp_error err = {0};
    ir_ref r[2];
    base_buf b;
    ir_graph *g = ir_graph_new("sites");
    (void)state;
    for (int i = 0; i < 2; i++) {
        r[i] = input(g, i ? "y" : "x");
        assert_true(ir_site_add(g, r[i], &(ir_site){"b.c", "rp_exp", 9 - (uint32_t)i}));
        assert_true(ir_site_add(g, r[i], &(ir_site){"a.c", "rp_input", 70}));
        assert_true(ir_site_add(g, r[i], &(ir_site){"b.c", "rp_exp", 9 - (uint32_t)i}));
    }
    base_buf_init(&b, 0);
    ir_sites_print(g, r, 2, &b);
    base_buf_putc(&b, 0);
    assert_string_equal(b.data, "a.c:70 rp_input, b.c:8 rp_exp, b.c:9 rp_exp");
    base_buf_done(&b);
    CHECK_OK(ir_graph_finish(g, r, 2, &err), &err);
    ir_graph_free(g);
}

static void misuse_is_refused(void **state) {
    (void)state;
    ir_graph *g = ir_graph_new("a b");
    rp_error err = {0};
    assert_string_equal(ir_graph_name(g), "a_b");
    ir_ref x = input(g, "x"), r;
    ir_shape s = shape2(g, 4, 8);
    REFUSED(ir_add_leaf(g, IR_LEAF_INPUT, "x", RP_DTYPE_F32, s, &r, &err),
            "input 'x' exists already");
    REFUSED(ir_add_leaf(g, IR_LEAF_INPUT, "1", RP_DTYPE_F32, s, &r, &err), "must be letters");
    REFUSED(ir_add_leaf(g, IR_LEAF_INPUT, "", RP_DTYPE_F32, s, &r, &err), "must be letters");
    REFUSED(ir_add_leaf(g, IR_LEAF_INPUT, "y", (rp_dtype)99, s, &r, &err),
            "unknown element type 99");
    s.dim[1] = IR_DIM_BAD;
    REFUSED(ir_add_leaf(g, IR_LEAF_INPUT, "y", RP_DTYPE_F32, s, &r, &err), "axis 1 is invalid");
    s.rank = 7;
    REFUSED(ir_add_leaf(g, IR_LEAF_INPUT, "y", RP_DTYPE_F32, s, &r, &err), "rank 7; 6 is the most");
    REFUSED(ir_add1(g, IR_neg, 77, &r, &err), "neg: operand 0 does not exist");
    REFUSED(ir_add(g, IR_input, NULL, 0, NULL, 0, &r, &err), "not one that is added by operands");
    REFUSED(ir_add(g, IR_OP_COUNT_, NULL, 0, NULL, 0, &r, &err), "not one that is added");
    ir_attr many[7] = {{.key = IR_ATTR_AXIS}};
    REFUSED(ir_add(g, IR_sum, &x, 1, many, 7, &r, &err), "7 attributes; 6 are the most");
    ir_attr bad_shape = {.key = IR_ATTR_SHAPE, .n = 1, .u.dims = (ir_dim[]){12345}};
    REFUSED(ir_add(g, IR_reshape, &x, 1, &bad_shape, 1, &r, &err), "shape holds an invalid size");
    r = 99;
    REFUSED(ir_graph_finish(g, &r, 1, &err), "output 0 does not exist");
    CHECK_OK(ir_graph_finish(g, &x, 1, NULL), &err);
    REFUSED(ir_add1(g, IR_neg, x, &r, &err), "is finished");
    REFUSED(ir_graph_finish(g, &x, 1, &err), "is finished");
    ir_graph_free(g);
}

/* Copies g node by node into a graph whose symbols come in another order. */
static ir_graph *copy(const ir_graph *src) {
    ir_graph *dst = ir_graph_new(ir_graph_name(src));
    uint32_t n = ir_graph_count(src), n_out = ir_output_count(src);
    ir_ref *map = test_malloc(n * sizeof *map), out[8];
    rp_error err = {0};
    for (ir_ref r = 0; r < n; r++) {
        const ir_node *x = ir_node_at(src, r);
        if (!x->name) {
            CHECK_OK(ir_copy_node(dst, src, r, map, &map[r], &err), &err);
            continue;
        }
        ir_shape s = x->shape;
        for (uint32_t i = 0; i < s.rank; i++)
            s.dim[i] = ir_dim_import(ir_graph_dims(dst), ir_graph_dims(src), s.dim[i]);
        ir_leaf kind = x->op == IR_input   ? IR_LEAF_INPUT
                       : x->op == IR_param ? IR_LEAF_PARAM
                                           : IR_LEAF_STATE;
        CHECK_OK(ir_add_leaf(dst, kind, x->name, x->dtype, s, &map[r], &err), &err);
    }
    for (uint32_t i = 0; i < n_out; i++) out[i] = map[ir_output_at(src, i)];
    CHECK_OK(ir_graph_finish(dst, out, n_out, &err), &err);
    test_free(map);
    return dst;
}

static void copies_print_alike(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        random_graph_options opt = RANDOM_GRAPH_ALL;
        ir_graph *g;
        rp_error err = {0};
        char *a, *b;
        CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
        ir_graph *h = copy(g);
        CHECK_OK(ir_verify(h, &err), &err);
        CHECK_OK(ir_print_string(g, &a, &err), &err);
        CHECK_OK(ir_print_string(h, &b, &err), &err);
        assert_string_equal(a, b);
        base_free(a);
        base_free(b);
        ir_graph_free(g);
        ir_graph_free(h);
    }
}

/* A broken graph is made by writing into a node: nothing in the API can. */
static void verify_sees_damage(void **state) {
    (void)state;
    ir_graph *g = parse("graph @g(%x: f32[4,8]) {\n  %a = neg %x\n  %b = sum %a {axis=1}\n"
                        "  %c = exp %x\n  ret %b, %c\n}\n");
    rp_error err = {0};
    ir_node *a = (ir_node *)(uintptr_t)ir_node_at(g, 1);
    ir_node keep = *a;
    CHECK_OK(ir_verify(g, &err), &err);
    a->dtype = RP_DTYPE_F16;
    REFUSED(ir_verify(g, &err), "its type is not what its op gives");
    *a = keep;
    a->n_in = 0;
    REFUSED(ir_verify(g, &err), "wrong number of operands");
    *a = keep;
    a->in = (const ir_ref[]){2};
    REFUSED(ir_verify(g, &err), "an operand comes after its user");
    *a = keep;
    a->n_attrs = 1;
    a->attrs = (const ir_attr[]){{.key = IR_ATTR_AXIS}};
    REFUSED(ir_verify(g, &err), "takes no attribute 'axis'");
    *a = keep;
    CHECK_OK(ir_verify(g, &err), &err);
    ir_graph_free(g);
}

/* Who made what of which memory. */
static void versions_form_a_chain(void **state) {
    (void)state;
    ir_graph *g = parse("graph @g(%x: f32[4], %y: f32[4] mutates) {\n"
                        "  %a = update %y, %x\n  %b = neg %a\n  %c = update %a, %b\n"
                        "  %n = neg %y\n  ret %n, %c\n}\n");
    rp_error err = {0};
    CHECK_OK(ir_verify(g, &err), &err);
    assert_int_equal(ir_node_at(g, 2)->memory, 1);
    assert_int_equal(ir_node_at(g, 4)->memory, 1);
    assert_int_equal(ir_node_at(g, 3)->memory, IR_NONE);
    assert_int_equal(ir_writer_of(g, 1), 2);
    assert_int_equal(ir_writer_of(g, 2), 4);
    assert_int_equal(ir_writer_of(g, 4), IR_NONE);
    assert_int_equal(ir_maker_of(g, 1), IR_NONE);
    assert_int_equal(ir_maker_of(g, 4), 4);
    assert_int_equal(ir_maker_of(g, 3), IR_NONE);
    assert_true(ir_node_at(g, 1)->mutates && !ir_node_at(g, 0)->mutates);
    ir_graph_free(g);
}

static void wrong_effects_are_found(void **state) {
    (void)state;
    static const char head[] = "graph @g(%x: f32[4,8], %s: i32[4], %bt: i32[2,4]) {\n"
                               "  %k = state @k : f16[2,2,16,4]\n  %v = state @v : f16[2,2,16,4]\n"
                               "  %o = empty {dtype=f32, shape=[4,8]}\n";
    static const char attn[] = "{heads=2, head_dim=4, kv_heads=2}\n";
    static const struct {
        const char *body, *attr, *tail, *error;
    } cases[] = {
        {"%t = kv_store %k, %x, %s\n%u = kv_store %t, %x, %s\n", "", "ret %u\n", NULL},
        {"%t = kv_store %k, %x, %s\n%u = kv_store %v, %x, %s\n", "", "ret %t, %u\n", NULL},
        {"%t = kv_store %k, %x, %s\n%u = kv_store %k, %x, %s\n", "", "ret %u\n",
         "line 6: kv_store: %0 is overwritten by %3 = kv_store already; write the version that "
         "this made"},
        {"%t = kv_store %k, %x, %s\n%a = attention %x, %t, %v, %s, %s, %bt, %o ", attn,
         "ret %a, %k\n", NULL},
        {"%a = attention %x, %k, %v, %s, %s, %bt, %o ", attn,
         "%t = kv_store %k, %x, %s\n%r = reshape %k {shape=[256]}\nret %a, %t, %r\n", NULL},
        {"%a = attention %x, %k, %v, %s, %s, %bt, %o ", attn,
         "%b = attention %x, %k, %v, %s, %s, %bt, %o {heads=2, head_dim=4, kv_heads=2}\nret %a\n",
         "attention: %2 is overwritten by %3 = attention already"},
        {"%y = neg %o\n", "", "ret %y\n", "it reads an empty that nothing has written"},
        {"%y = reshape %o {shape=[32]}\n", "", "ret %y\n",
         "it reads an empty that nothing has written"},
        {"%a = attention %o, %k, %v, %s, %s, %bt, %o ", attn, "ret %a\n",
         "it reads an empty that nothing has written"},
        {"", "", "ret %o\n", NULL}, /* a piece may hand a buffer to the next one */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[2048];
        ir_graph *g = NULL;
        rp_error err = {0};
        (void)snprintf(text, sizeof text, "%s%s%s%s}", head, cases[i].body, cases[i].attr,
                       cases[i].tail);
        rp_status st = ir_parse(text, strlen(text), &g, &err);
        if (st == RP_OK) st = ir_verify(g, &err);
        if (!cases[i].error)
            CHECK_OK(st, &err);
        else if (st != RP_INVALID || !strstr(err.text, cases[i].error))
            fail_msg("%s: %s", cases[i].body, err.text);
        ir_graph_free(g);
    }
}

/* Building, printing, reading and verifying survive each allocation that fails, and leak nothing. */
static rp_status whole_path(void) {
    random_graph_options opt = RANDOM_GRAPH_ALL;
    ir_graph *g = NULL, *h = NULL;
    char *text = NULL;
    rp_error err = {0};
    rp_status st;
    opt.n_steps = 40;
    RP_TRY_OUT(random_graph_new(3, &opt, &g, &err));
    RP_TRY_OUT(ir_verify(g, &err));
    RP_TRY_OUT(ir_print_string(g, &text, &err));
    RP_TRY_OUT(ir_parse(text, strlen(text), &h, &err));
out:
    base_free(text);
    ir_graph_free(g);
    ir_graph_free(h);
    return st;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    size_t live = base_live();
    uint64_t failures = 0;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_status st = whole_path();
        assert_true(st == RP_OK || st == RP_NOMEM);
        assert_int_equal(base_live(), live);
        failures += st == RP_NOMEM;
    }
    assert_true(failures > 5);
}

static void building_is_cheap(void **state) {
    (void)state;
    random_graph_options opt = RANDOM_GRAPH_ALL;
    int64_t best = INT64_MAX;
    uint32_t n = 0;
    opt.n_steps = 300;
    for (int i = 0; i < 5; i++) {
        ir_graph *g;
        rp_error err = {0};
        int64_t start = base_now_ns();
        CHECK_OK(random_graph_new(5, &opt, &g, &err), &err);
        int64_t took = base_now_ns() - start;
        best = took < best ? took : best;
        n = ir_graph_count(g);
        ir_graph_free(g);
    }
    print_message("%u nodes in %.2f ms\n", n, (double)best / 1e6);
    /* about 0.3 us a node; the bound leaves room for sanitizers and busy machines */
    assert_true(best / n < 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_pure_nodes_are_one),
        cmocka_unit_test(constants_are_one_by_value),
        cmocka_unit_test(memory_and_effects_are_never_merged),
        cmocka_unit_test(names_of_graphs_are_read_back),
        cmocka_unit_test(sites_are_told_once),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(copies_print_alike),
        cmocka_unit_test(verify_sees_damage),
        cmocka_unit_test(versions_form_a_chain),
        cmocka_unit_test(wrong_effects_are_found),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(building_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
