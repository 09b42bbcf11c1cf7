/* Reading finished graphs: all that the text form says is there, and nothing of graphs that are not finished. */
#include "support/check.h"

#include "reprise/reprise.h"

static rp_graph *made(void) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("all");
    rp_dim T = rp_symbol(g, "T", 2, 64);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(T, 4));
    rp_tensor m = rp_mutable_input(g, "m", RP_DTYPE_I32, RP_SHAPE(T));
    rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(6, 4));
    rp_tensor s = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(4));
    (void)rp_update(m, rp_iota(g, RP_DTYPE_I32, RP_SHAPE(T), 0));
    rp_tensor values, indices, out[4];
    rp_topk(x, 2, &values, &indices);
    out[0] = rp_matmul(rp_add(x, s), w, true);
    out[1] = values;
    out[2] = indices;
    out[3] =
        rp_slice(rp_reshape(x, RP_SHAPE(rp_dim_mul(T, 4))), 0, rp_dim_add(T, 1), rp_dim_mul(T, 3));
    CHECK_OK(rp_graph_finish(g, out, 4, &err), &err);
    return g;
}

static rp_node node(const rp_graph *g, uint32_t i) {
    rp_error err = {0};
    rp_node n = RP_NODE_INIT;
    CHECK_OK(rp_graph_node(g, i, &n, &err), &err);
    return n;
}

static rp_attr attr(const rp_graph *g, uint32_t i, const char *key) {
    rp_error err = {0};
    rp_attr a = RP_ATTR_INIT;
    CHECK_OK(rp_node_attr(g, i, key, &a, &err), &err);
    assert_string_equal(a.key, key);
    return a;
}

static void leaves_and_outputs(void **state) {
    rp_graph *g = made();
    (void)state;
    assert_string_equal(rp_graph_name(g), "all");
    assert_int_equal(rp_graph_count(g, RP_GRAPH_INPUTS), 2);
    assert_int_equal(rp_graph_count(g, RP_GRAPH_PARAMS), 1);
    assert_int_equal(rp_graph_count(g, RP_GRAPH_STATES), 1);
    assert_int_equal(rp_graph_count(g, RP_GRAPH_OUTPUTS), 4);
    rp_node x = node(g, rp_graph_at(g, RP_GRAPH_INPUTS, 0));
    assert_string_equal(x.op, "input");
    assert_string_equal(x.name, "x");
    assert_int_equal(x.dtype, RP_DTYPE_F32);
    assert_int_equal(x.shape.rank, 2);
    assert_false(rp_dim_is_const(x.shape.dim[0], NULL));
    assert_int_equal(x.shape.dim[1].n, 4);
    assert_false(x.mutates);
    uint32_t m = rp_graph_at(g, RP_GRAPH_INPUTS, 1);
    assert_true(node(g, m).mutates);
    assert_int_equal(node(g, m).memory, m);
    assert_string_equal(node(g, rp_graph_at(g, RP_GRAPH_PARAMS, 0)).name, "w");
    assert_string_equal(node(g, rp_graph_at(g, RP_GRAPH_STATES, 0)).op, "state");
    assert_int_equal(rp_graph_at(g, RP_GRAPH_PARAMS, 1), RP_NO_NODE);
    assert_int_equal(rp_graph_at(g, RP_GRAPH_NODES, 3), 3);
    rp_graph_free(g);
}

static void nodes_and_attributes(void **state) {
    rp_graph *g = made();
    rp_error err = {0};
    rp_attr a = RP_ATTR_INIT;
    const int64_t T = 8;
    bool wrote = false;
    (void)state;
    uint32_t product = rp_graph_at(g, RP_GRAPH_OUTPUTS, 0);
    rp_node p = node(g, product);
    assert_string_equal(p.op, "matmul");
    assert_int_equal(p.n_in, 2);
    assert_string_equal(node(g, p.in[0]).op, "add");
    assert_int_equal(p.memory, RP_NO_NODE);
    assert_int_equal(attr(g, product, "trans_b").i, 1);
    assert_int_equal(attr(g, product, "trans_b").kind, RP_ATTR_BOOL);
    uint32_t top = rp_graph_at(g, RP_GRAPH_OUTPUTS, 1),
             second = rp_graph_at(g, RP_GRAPH_OUTPUTS, 2);
    assert_string_equal(node(g, top).op, "topk");
    assert_int_equal(node(g, top).n_results, 2);
    assert_int_equal(attr(g, top, "k").i, 2);
    assert_string_equal(node(g, second).op, "result");
    assert_int_equal(node(g, second).in[0], top);
    assert_int_equal(node(g, second).dtype, RP_DTYPE_I32);
    uint32_t cut = rp_graph_at(g, RP_GRAPH_OUTPUTS, 3);
    assert_int_equal(rp_dim_eval(attr(g, cut, "start").dim[0], &T), 9);
    assert_int_equal(rp_dim_eval(attr(g, cut, "stop").dim[0], &T), 24);
    assert_int_equal(rp_dim_eval(node(g, cut).shape.dim[0], &T), 15);
    assert_int_equal(attr(g, cut, "axis").kind, RP_ATTR_INT);
    uint32_t flat = node(g, cut).in[0];
    assert_int_equal(attr(g, flat, "shape").kind, RP_ATTR_DIMS);
    assert_int_equal(attr(g, flat, "shape").n, 1);
    assert_int_equal(rp_dim_eval(attr(g, flat, "shape").dim[0], &T), 32);
    for (uint32_t i = 0; i < rp_graph_count(g, RP_GRAPH_NODES); i++) {
        rp_node n = node(g, i);
        for (uint32_t k = 0; k < n.n_attrs; k++) CHECK_OK(rp_node_attr_at(g, i, k, &a, &err), &err);
        for (uint32_t k = 0; k < n.n_in; k++) assert_true(n.in[k] < i);
        wrote = wrote || (n.effect && strcmp(n.op, "update") == 0);
    }
    assert_true(wrote);
    rp_graph_free(g);
}

/* As ops.def has it; the text of a node stands for its op. */
static void facts_of_ops(void **state) {
    static const char text[] =
        "graph @f(%k: i64[], %x: i32[], %p: bool[]) {\n  %philox = philox %k, %k\n"
        "  %mul = mul %k, %k\n  %custom = custom %x {name=\"node::op\"}\n"
        "  %call = call %x {body=graph @b(%x: i32[]) {\n ret %x }}\n"
        "  %cond = cond %p, %x {then=graph @b(%x: i32[]) {\n ret %x },\n"
        "    else=graph @c(%x: i32[]) {\n %y = neg %x\n ret %y }}\n"
        "  %while = while %x {cond=graph @b(%x: i32[]) {\n %y = ne %x, %x\n ret %y },\n"
        "    body=graph @c(%x: i32[]) {\n ret %x }}\n"
        "  %scan = scan %x {carried=1, sliced=0, length=3, body=graph @b(%x: i32[]) {\n ret %x }}\n"
        "  ret %philox, %mul, %custom, %call, %cond, %while, %scan\n}\n";
    static const struct {
        const char *op;
        bool random, host;
    } want[] = {{"philox", true, false}, {"mul", false, false}, {"custom", false, true},
                {"call", false, false},  {"cond", false, true}, {"while", false, true},
                {"scan", false, false}};
    const rp_op_desc d = {.size = sizeof d, .name = "node::op"};
    rp_error err = {0};
    rp_graph *g = NULL;
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    for (uint32_t i = 0; i < sizeof want / sizeof *want; i++) {
        const rp_node n = node(g, rp_graph_at(g, RP_GRAPH_OUTPUTS, i));
        assert_string_equal(n.op, want[i].op);
        if (n.random != want[i].random || n.host != want[i].host)
            fail_msg("%s: random %d, host %d", n.op, n.random, n.host);
    }
    rp_graph_free(g);
}

static void sizes_of_a_call(void **state) {
    rp_graph *g = made();
    rp_error err = {0};
    int64_t T = 0;
    (void)state;
    assert_int_equal(rp_graph_symbol_count(g), 1);
    rp_size_symbol s = rp_graph_symbol(g, 0);
    assert_string_equal(s.name, "T");
    assert_int_equal(s.min, 2);
    assert_int_equal(s.max, 64);
    assert_null(rp_graph_symbol(g, 1).name);
    rp_buffer in[] = {{RP_DTYPE_F32, 2, {7, 4}, NULL}, {RP_DTYPE_I32, 1, {7}, NULL}};
    CHECK_OK(rp_graph_read_symbols(g, in, 2, &T, &err), &err);
    assert_int_equal(T, 7);
    assert_int_equal(rp_graph_read_symbols(g, in, 1, &T, &err), RP_INVALID);
    in[0].rank = 1;
    assert_int_equal(rp_graph_read_symbols(g, in, 2, &T, &err), RP_INVALID);
    rp_graph_free(g);
}

/* By the size that a symbol has: times a number, plus another. */
static void sizes_are_solved_for_symbols(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("sizes");
    rp_dim T = rp_symbol(g, "T", 0, 64), S = rp_symbol(g, "S", 1, 64);
    rp_dim rows = rp_dim_add(rp_dim_mul(T, 3), 5), columns = rp_dim_sub(S, 1);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rows, columns)), y = rp_neg(x);
    int64_t values[2] = {0};
    (void)state;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    for (int64_t t = 0; t < 9; t += 4)
        for (int64_t s = 1; s < 9; s += 3) {
            const rp_buffer in = {RP_DTYPE_F32, 2, {3 * t + 5, s - 1}, NULL};
            CHECK_OK(rp_graph_read_symbols(g, &in, 1, values, &err), &err);
            assert_int_equal(values[0], t);
            assert_int_equal(values[1], s);
        }
    rp_graph_free(g);
}

static void then_body(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                      uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_exp(in[0]);
}

static void else_body(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                      uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_neg(in[0]);
}

/* Graphs within a graph are graphs. */
static void bodies_are_graphs(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("branch"), *body = NULL;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y;
    rp_tensor p = rp_input(g, "p", RP_DTYPE_BOOL, (rp_shape){0});
    (void)state;
    y = rp_cond(p, then_body, else_body, NULL, &x, 1, &y, 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    uint32_t at = rp_graph_at(g, RP_GRAPH_OUTPUTS, 0);
    assert_int_equal(attr(g, at, "then").kind, RP_ATTR_GRAPH);
    CHECK_OK(rp_node_graph(g, at, "then", &body, &err), &err);
    rp_graph_free(g);
    assert_string_equal(node(body, rp_graph_at(body, RP_GRAPH_OUTPUTS, 0)).op, "exp");
    rp_graph_free(body);
}

static void bad_calls(void **state) {
    rp_error err = {0};
    rp_node n = RP_NODE_INIT;
    rp_attr a = RP_ATTR_INIT;
    rp_graph *g = rp_graph_new("open"), *body = NULL;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
    (void)state;
    assert_int_equal(rp_graph_count(NULL, RP_GRAPH_NODES), 0);
    assert_int_equal(rp_graph_count(g, RP_GRAPH_NODES), 0);
    assert_int_equal(rp_graph_at(g, RP_GRAPH_NODES, 0), RP_NO_NODE);
    assert_int_equal(rp_graph_symbol_count(g), 0);
    assert_int_equal(rp_graph_node(g, 0, &n, &err), RP_INVALID);
    CHECK_OK(rp_graph_finish(g, &x, 1, &err), &err);
    assert_int_equal(rp_graph_node(g, 1, &n, &err), RP_INVALID);
    assert_string_equal(err.text, "rp_graph_node: graph @open has 1 nodes, none is number 1");
    assert_int_equal(rp_graph_node(g, 0, NULL, &err), RP_INVALID);
    n.size = 3;
    assert_int_equal(rp_graph_node(g, 0, &n, &err), RP_INVALID);
    assert_int_equal(rp_node_attr(g, 0, "axis", &a, &err), RP_NOT_FOUND);
    assert_string_equal(err.text, "node 0 (input) has no attribute 'axis'");
    assert_int_equal(rp_node_attr(g, 0, "no such", &a, &err), RP_NOT_FOUND);
    assert_int_equal(rp_node_attr(g, 0, NULL, &a, &err), RP_INVALID);
    assert_int_equal(rp_node_attr_at(g, 0, 0, &a, &err), RP_INVALID);
    assert_int_equal(rp_node_graph(g, 0, "body", &body, &err), RP_NOT_FOUND);
    assert_int_equal(rp_node_graph(g, 0, "body", NULL, &err), RP_INVALID);
    rp_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_and_outputs),
        cmocka_unit_test(nodes_and_attributes),
        cmocka_unit_test(facts_of_ops),
        cmocka_unit_test(sizes_of_a_call),
        cmocka_unit_test(sizes_are_solved_for_symbols),
        cmocka_unit_test(bodies_are_graphs),
        cmocka_unit_test(bad_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
