/* Graphs as attributes: who owns them, which are equal, how many and how deep; what the interpreter says of loops without an end. */
#include "support/check.h"

#include "base/alloc.h"
#include "ir/eval.h"
#include "ir/node.h"

/* f(x) = x + by, over f32[SYMBOL]. */
static ir_graph *adder(const char *symbol, double by) {
    ir_graph *g = ir_graph_new("f");
    ir_shape s = {1, {ir_dim_symbol(ir_graph_dims(g), symbol, 1, 8, 1)}};
    ir_ref x, c, y;
    rp_error err = {0};
    CHECK_OK(ir_add_leaf(g, IR_LEAF_INPUT, "x", RP_DTYPE_F32, s, &x, &err), &err);
    CHECK_OK(ir_add_const(g, RP_DTYPE_F32, by, &c, &err), &err);
    CHECK_OK(ir_add2(g, IR_add, x, c, &y, &err), &err);
    CHECK_OK(ir_graph_finish(g, &y, 1, &err), &err);
    return g;
}

static ir_graph *outer(ir_ref *x) {
    ir_graph *g = ir_graph_new("outer");
    ir_shape s = {1, {ir_dim_symbol(ir_graph_dims(g), "T", 1, 8, 1)}};
    rp_error err = {0};
    CHECK_OK(ir_add_leaf(g, IR_LEAF_INPUT, "x", RP_DTYPE_F32, s, x, &err), &err);
    return g;
}

/* Gives the caller's share of f to the node. */
static rp_status call(ir_graph *g, ir_graph *f, ir_ref x, ir_ref *out, rp_error *err) {
    ir_attr body = {.key = IR_ATTR_BODY, .u.graph = f};
    rp_status st = ir_add(g, IR_call, &x, 1, &body, 1, out, err);
    ir_graph_free(f);
    return st;
}

static void a_copy_outlives_what_it_was_made_of(void **state) {
    (void)state;
    ir_ref x, y, map[2] = {0};
    rp_error err = {0};
    ir_graph *a = outer(&x), *b;
    CHECK_OK(call(a, adder("T", 1), x, &y, &err), &err);
    CHECK_OK(ir_graph_finish(a, &y, 1, &err), &err);
    b = outer(&map[x]);
    CHECK_OK(ir_copy_node(b, a, y, map, &map[y], &err), &err);
    CHECK_OK(ir_graph_finish(b, &map[y], 1, &err), &err);
    assert_ptr_equal(ir_node_graph(ir_node_at(a, y), 0), ir_node_graph(ir_node_at(b, y), 0));
    assert_string_equal(ir_graph_text(a), ir_graph_text(b));
    ir_graph_free(a);
    CHECK_OK(ir_verify(b, &err), &err);
    assert_non_null(strstr(ir_graph_text(b), "body=graph @f(%x: f32[T]) -> f32[T] where T in"));
    ir_graph_free(b);
}

static void equal_bodies_are_one(void **state) {
    (void)state;
    ir_ref x, y, z;
    rp_error err = {0};
    ir_graph *g = outer(&x);
    CHECK_OK(call(g, adder("T", 1), x, &y, &err), &err);
    CHECK_OK(call(g, adder("T", 1), x, &z, &err), &err);
    assert_int_equal(y, z);
    CHECK_OK(call(g, adder("T", 2), x, &z, &err), &err);
    assert_int_not_equal(y, z);
    memset(&err, 0, sizeof err);
    /* Handles of sizes are equal in both tables, the sizes are not. */
    assert_int_equal(call(g, adder("S", 1), x, &z, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "input %x of body @f is f32[S] and gets f32[T]"));
    ir_graph_free(g);
}

static void an_unfinished_graph_is_refused(void **state) {
    (void)state;
    ir_ref x, y;
    rp_error err = {0};
    ir_graph *g = outer(&x);
    assert_int_equal(call(g, outer(&x), x, &y, &err), RP_INVALID);
    assert_string_equal(err.text, "call: body is not a finished graph");
    ir_graph_free(g);
}

/* f(x) = f(x) called twice, again and again: deeper and larger. */
static rp_status doubled(uint32_t times, ir_graph **out, rp_error *err) {
    ir_graph *f = adder("T", 1);
    for (uint32_t i = 0; i < times; i++) {
        ir_ref x, y, z;
        ir_graph *g = outer(&x);
        rp_status st = call(g, ir_graph_share(f), x, &y, err);
        if (st == RP_OK) st = call(g, ir_graph_share(f), y, &z, err);
        if (st == RP_OK) st = ir_graph_finish(g, &z, 1, err);
        ir_graph_free(f);
        f = g;
        if (st != RP_OK) {
            ir_graph_free(g);
            return st;
        }
    }
    *out = f;
    return RP_OK;
}

static void depth_has_an_end(void **state) {
    (void)state;
    ir_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(doubled(5, &g, &err), &err);
    assert_int_equal(ir_graph_depth(g), 6);
    assert_int_equal(ir_graph_size(g), 189);
    ir_graph_free(g);
    CHECK_OK(doubled(IR_MAX_DEPTH - 1, &g, &err), &err);
    assert_int_equal(ir_graph_depth(g), IR_MAX_DEPTH);
    ir_graph_free(g);
    assert_int_equal(doubled(IR_MAX_DEPTH, &g, &err), RP_UNSUPPORTED);
    assert_string_equal(err.text, "call: graphs are nested 16 deep at most");
}

static const char endless[] =
    "graph @f(%x: f32[2]) {\n"
    "  %t = const 1 : bool[]\n"
    "  %w = while %t, %x {limit=5,\n"
    "    cond=graph @always(%t: bool[], %x: f32[2]) { ret %t },\n"
    "    body=graph @double(%t: bool[], %x: f32[2]) { %y = add %x, %x ret %t, %y }}\n"
    "  %y = result %w {index=1}\n"
    "  ret %y\n"
    "}\n";

static rp_status whole_path(rp_error *err) {
    ir_graph *g = NULL;
    double data[2] = {1, 2};
    ir_value x = {1, {2}, 2, data}, out = {0};
    rp_status st = ir_parse(endless, strlen(endless), &g, err);
    if (st == RP_OK) st = ir_verify(g, err);
    if (st == RP_OK && !ir_graph_text(g)) st = rp_fail(err, RP_NOMEM, "text");
    if (st == RP_OK) st = ir_eval(g, &x, NULL, NULL, NULL, &out, err);
    ir_value_done(&out);
    ir_graph_free(g);
    return st;
}

static void a_loop_without_an_end_ends(void **state) {
    (void)state;
    rp_error err = {0};
    assert_int_equal(whole_path(&err), RP_INVALID);
    assert_string_equal(err.text, "while: cond @always still holds after 5 iterations, its limit");
}

/* As many iterations as the limit says are none too many. */
static void the_limit_itself_is_reached(void **state) {
    static const char text[] =
        "graph @g(%n: i32[]) {\n"
        "  %w = while %n {limit=3,\n"
        "    cond=graph @more(%n: i32[]) { %z = const 0 : i32[] %m = lt %z, %n ret %m },\n"
        "    body=graph @less(%n: i32[]) { %o = const 1 : i32[] %l = sub %n, %o ret %l }}\n"
        "  ret %w\n}\n";
    ir_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    for (int n = 2; n <= 4; n++) {
        double data = n;
        ir_value x = {0, {0}, 1, &data}, out = {0};
        err = (rp_error){0};
        rp_status st = ir_eval(g, &x, NULL, NULL, NULL, &out, &err);
        assert_int_equal(st, n <= 3 ? RP_OK : RP_INVALID);
        if (st == RP_OK) assert_true(out.data[0] == 0);
        ir_value_done(&out);
    }
    ir_graph_free(g);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    size_t live = base_live();
    uint64_t failures = 0;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        rp_status st = whole_path(&err);
        assert_true(st == RP_INVALID || st == RP_NOMEM);
        assert_int_equal(base_live(), live);
        failures += st == RP_NOMEM;
    }
    assert_true(failures > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_outlives_what_it_was_made_of),
        cmocka_unit_test(equal_bodies_are_one),
        cmocka_unit_test(an_unfinished_graph_is_refused),
        cmocka_unit_test(depth_has_an_end),
        cmocka_unit_test(a_loop_without_an_end_ends),
        cmocka_unit_test(the_limit_itself_is_reached),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
