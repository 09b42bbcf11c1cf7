/* Where nodes came from: the lines of this file that asked for them, through passes and pieces, in errors, comments and logs, and
 * in no text that decides what is compiled. */
#include "support/elsewhere.h"
#include "support/heard.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "ir/site.h"
#include "pass/pipeline.h"
#include "reprise/reprise.h"
#include "split/split.h"
/* After the public header: this is a user. */
#include "trace/trace.h"

static bool is_at(const ir_graph *g, ir_ref r, const char *call, int line) {
    const ir_site *s;
    for (uint32_t i = 0; (s = ir_site_at(g, r, i)); i++)
        if (strcmp(s->file, __FILE__) == 0 && strcmp(s->call, call) == 0 &&
            s->line == (uint32_t)line)
            return true;
    return false;
}

static uint32_t n_sites(const ir_graph *g, ir_ref r) {
    uint32_t n = 0;
    while (ir_site_at(g, r, n)) n++;
    return n;
}

static rp_tensor half(rp_tensor x) {
    return rp_mul_scalar(x, 0.5);
}
enum { HALF_LINE = __LINE__ - 2 };

/* What a caller gives is the caller's again. */
static void texts_of_sites_are_copied(void **state) {
    char file[] = "model.c", call[] = "rp_gone";
    rp_graph *g = rp_graph_new("copied");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
    (void)state;
    assert_true(ir_site_add(g->ir, x.ref, &(ir_site){.file = file, .call = call, .line = 7}));
    memset(file, '?', strlen(file));
    memset(call, '?', strlen(call));
    const ir_site *s = ir_site_at(g->ir, x.ref, n_sites(g->ir, x.ref) - 1);
    assert_string_equal(s->file, "model.c");
    assert_string_equal(s->call, "rp_gone");
    rp_graph_free(g);
}

static void every_node_knows_its_calls(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("sites");
    const ir_graph *ir = trace_graph_ir(g);
    (void)state;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4, 8));
    assert_true(is_at(ir, x.ref, "rp_input", __LINE__ - 1));
    rp_tensor y =
        rp_add(rp_exp(x), half(x)); /* each call its own, also within another's arguments */
    assert_true(is_at(ir, y.ref, "rp_add", __LINE__ - 1) && n_sites(ir, y.ref) == 1);
    const ir_node *n = ir_node_at(ir, y.ref);
    assert_true(is_at(ir, n->in[0], "rp_exp", __LINE__ - 3) && n_sites(ir, n->in[0]) == 1);
    assert_true(is_at(ir, n->in[1], "rp_mul_scalar", HALF_LINE));
    uint32_t before = ir_graph_count(ir);
    rp_tensor s = rp_softmax(y, -1); /* all that a composite is made of is the composite's */
    for (ir_ref r = before; r < ir_graph_count(ir); r++)
        assert_true(is_at(ir, r, "rp_softmax", __LINE__ - 2));
    assert_true(rp_exp(x).ref == n->in[0]); /* an equal node has a list */
    assert_true(is_at(ir, n->in[0], "rp_exp", __LINE__ - 1) && n_sites(ir, n->in[0]) == 2);
    for (int i = 0; i < 3; i++) (void)half(s); /* and knows each line once */
    assert_true(n_sites(ir, half(s).ref) == 1);
    for (int i = 0; i < 3; i++) (void)half(s), (void)rp_neg(s), (void)rp_neg(s);
    assert_true(n_sites(ir, rp_neg(s).ref) == 2);
    rp_tensor (*through)(rp_tensor) = rp_tanh; /* tells none; counted to the next that does */
    rp_tensor t = through(s), last = rp_neg(t);
    assert_true(is_at(ir, t.ref, "rp_neg", __LINE__ - 1));
    rp_topk(last, 2, &t, NULL);
    assert_true(is_at(ir, t.ref, "rp_topk", __LINE__ - 1));
    CHECK_OK(rp_graph_finish(g, &t, 1, &err), &err);
    rp_graph_free(g);
}

static void a_list_ends(void **state) {
    rp_graph *g = rp_graph_new("many");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y = x;
    (void)state;
    for (int i = 0; i < 40; i++) y = rp_at((rp_exp)(x), "rp_exp", __FILE__, 1000 + i);
    assert_int_equal(n_sites(trace_graph_ir(g), y.ref), IR_MOST_SITES);
    for (int n = 11; n < 14; n++) { /* of a text, at twelve lines */
        base_buf text;
        uint32_t lines = 1;
        for (int i = 0; i < n; i++)
            y = rp_at((rp_add_scalar)(x, n), "rp_add_scalar", __FILE__, 2000 - i);
        base_buf_init(&text, 0);
        ir_sites_print(trace_graph_ir(g), &y.ref, 1, &text);
        for (const char *z = text.data; (z = strstr(z, ", ")) != NULL; z++) lines++;
        assert_int_equal(lines, n);
        if ((strstr(text.data, ", ...") != NULL) != (n > 12)) fail_msg("%d: %s", n, text.data);
        base_buf_done(&text);
    }
    rp_graph_free(g);
}

static void passes_and_pieces_keep_them(void **state) {
    static const char *const at[] = {"unit::none"};
    rp_error err = {0};
    ir_graph *opt = NULL;
    split_result s = {0};
    rp_graph *g = rp_graph_new("kept");
    (void)state;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4, 8));
    rp_tensor y = rp_mul_scalar(x, 1.0);                   /* is simplified away... */
    rp_tensor z = rp_div(y, rp_const(g, RP_DTYPE_F32, 4)); /* ...and this becomes a product */
    int line = __LINE__ - 1;
    CHECK_OK(rp_graph_finish(g, &z, 1, &err), &err);
    CHECK_OK(pass_run_all(trace_graph_ir(g), NULL, &opt, &err), &err);
    ir_ref out = ir_output_at(opt, 0);
    assert_true(is_at(opt, out, "rp_div", line));
    CHECK_OK(split_graph(opt, at, 0, &s, &err), &err);
    const ir_graph *piece = s.pieces[0].graph;
    rp_graph_free(g); /* the sites outlive what they were told to */
    ir_graph_free(opt);
    assert_true(is_at(piece, ir_output_at(piece, 0), "rp_div", line));
    split_done(&s);
}

/* The same graph from two lines, with sites and without. */
static rp_graph *one(bool sites) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("twin");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4, 8));
    rp_tensor y = sites ? rp_tanh(x) : (rp_tanh)(x);
    y = sites ? rp_exp(y) : (rp_exp)(y);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    return g;
}

static rp_compiled_info compiled(const rp_graph *g) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    rp_compiled_free(c);
    rp_config_free(cfg);
    return info;
}

static void nothing_depends_on_them(void **state) {
    rp_error err = {0};
    rp_graph *a = one(true), *b = one(false);
    char *ta = NULL, *tb = NULL;
    (void)state;
    CHECK_OK(rp_graph_print(a, &ta, &err), &err);
    CHECK_OK(rp_graph_print(b, &tb, &err), &err);
    assert_string_equal(ta, tb);
    rp_free(ta);
    rp_free(tb);
    rp_compiled_info first = compiled(a), second = compiled(b);
    if (first.kernels == 0) SKIP_TEST("no C compiler");
    assert_int_equal(first.compiles, 1);
    assert_int_equal(second.compiles, 0);
    assert_int_equal(second.cache_hits, 1);
    rp_graph_free(a);
    rp_graph_free(b);
}

static void kernels_name_them(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("named");
    char want[160], *text = NULL;
    (void)state;
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4, 8));
    rp_tensor y = rp_softmax(x, -1);
    rp_tensor z = rp_silu(y);
    int line = __LINE__ - 1;
    CHECK_OK(rp_graph_finish(g, &z, 1, &err), &err);
    CHECK_OK(rp_graph_lower_text(g, "c", "portable", &text, &err), &err);
    (void)snprintf(want, sizeof want, "%s:%d rp_softmax, %s:%d rp_silu */\n", __FILE__, line - 1,
                   __FILE__, line);
    if (!strstr(text, want)) fail_msg("no comment '%s'", want);
    rp_free(text);
    rp_graph_free(g);
}

static void a_trace_tells_them(void **state) {
    rp_error err = {0};
    base_buf heard;
    char want[160];
    (void)state;
    heard_start(&heard, "graph");
    rp_graph *g = rp_graph_new("told");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y = rp_exp(x);
    int line = __LINE__ - 1;
    (void)snprintf(
        want, sizeof want,
        "[graph] CALL SITES of told:\n[graph] %%x : %s:%d rp_input\n[graph] %%0 : %s:%d rp_exp\n",
        __FILE__, line, __FILE__, line);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_HEARD(&heard, want);
    rp_graph_free(g);
    heard_done(&heard);
}

static void begins_with(const rp_error *err, int line, const char *text) {
    char want[200];
    (void)snprintf(want, sizeof want, "%s:%d: %s", __FILE__, line, text);
    if (strncmp(err->text, want, strlen(want)) != 0)
        fail_msg("wanted '%s', got '%s'", want, err->text);
}

static void errors_of_a_trace_begin_with_the_line(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        rp_error err = {0};
        int line = 0;
        rp_graph *g = rp_graph_new("bad");
        rp_dim T = rp_symbol(g, "T", 1, 9);
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(T, 8)), y = x;
        rp_tensor w = rp_input(g, "w", RP_DTYPE_F32, RP_SHAPE(5));
        rp_dim d = T;
        if (i == 0) y = rp_add(x, rp_const(g, RP_DTYPE_F16, 1)), line = __LINE__;
        if (i == 1) y = half(rp_rms_norm(x, w, 1e-5)), line = __LINE__;
        if (i == 2) d = rp_dim_floordiv(T, 0), line = __LINE__;
        if (i == 3) d = rp_tensor_dim(x, 7), line = __LINE__;
        y = rp_reshape(rp_exp(y), RP_SHAPE(d, 8));
        assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
        begins_with(&err, line,
                    i == 0   ? "add: element types"
                    : i == 1 ? "rms_norm: mul: f32[T,8] and f32[5] do not broadcast"
                    : i == 2 ? "size (T) // (0)"
                             : "size: axis 7");
        rp_graph_free(g);
    }
}

/* And not the op within that could not be made alone; what says its own name says it once. */
static void errors_of_a_trace_name_the_call(void **state) {
    static const char *const want[] = {
        "layer_norm: mul: f32[2,3,4] and f32[7] do not broadcast",
        "conv2d: reshape: ",
        "scaled_dot_product_attention: matmul: ",
        "max: f32[2,3,4] and f32[7] do not broadcast",
        "sub: f32[2,3,4] and f32[7] do not broadcast",
        "relu: max: wants f32, f16, bf16, f64 or an integer, not bool[2,3]",
        "softmax: axis 3 out of range for f32[2,3,4]",
        "var: wants f32",
    };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        rp_error err = {0};
        int line = 0;
        rp_graph *g = rp_graph_new("bad");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3, 4)), none = rp_none(), y = x;
        rp_tensor n = rp_input(g, "n", RP_DTYPE_BOOL, RP_SHAPE(2, 3));
        rp_tensor u = rp_input(g, "u", RP_DTYPE_F32, RP_SHAPE(7));
        rp_tensor k = rp_input(g, "k", RP_DTYPE_F32, RP_SHAPE(2, 3, 5));
        rp_tensor w = rp_input(g, "w", RP_DTYPE_F32, RP_SHAPE(1, 2, 1, 1));
        rp_sdpa_args a = {.q = x, .k = k, .v = x};
        if (i == 0) y = rp_layer_norm(x, u, none, 1e-5), line = __LINE__;
        if (i == 1) y = rp_conv2d(rp_unsqueeze(x, 0), w, u, NULL), line = __LINE__;
        if (i == 2) y = rp_scaled_dot_product_attention(&a), line = __LINE__;
        if (i == 3) y = rp_max(x, u), line = __LINE__;
        if (i == 4) y = rp_sub(x, u), line = __LINE__;
        if (i == 5) y = rp_relu(n), line = __LINE__;
        if (i == 6) y = rp_softmax(x, 3), line = __LINE__;
        if (i == 7) y = rp_var(n, 0, false, 1), line = __LINE__;
        y = rp_exp(y);
        assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
        begins_with(&err, line, want[i]);
        rp_graph_free(g);
    }
}

static void errors_of_a_compile_begin_with_the_line(void **state) {
    rp_error err = {0};
    const rp_op_desc d = {.size = sizeof d, .name = "unit::nowhere", .result_like = 0};
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    for (int level = 0; level <= 2; level += 2) {
        rp_compiled *c = NULL;
        rp_graph *g = rp_graph_new("nowhere");
        rp_compilation_config *cfg = rp_config_new();
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
        rp_tensor y = rp_custom(g, "unit::nowhere", &x, 1, RP_DTYPE_F32, RP_SHAPE(4));
        int line = __LINE__ - 1;
        err = (rp_error){0};
        CHECK_OK(rp_config_set(cfg, level ? "level=2" : "level=0", &err), &err);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
        begins_with(&err, line, "custom op unit::nowhere has no implementation");
        rp_config_free(cfg);
        rp_graph_free(g);
    }
    static const char text[] = "graph @t(%x: f32[4]) -> f32[4] {\n  %0 = exp %x\n"
                               "  %1 = custom %0\n    {name=\"unit::nowhere\"}\n    : f32[4]\n"
                               "  ret %1\n}\n"; /* a statement is where it begins */
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    err = (rp_error){0};
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    assert_int_equal(rp_compile(g, NULL, &c, &err), RP_UNSUPPORTED);
    if (strncmp(err.text, "line 3: custom op", 17) != 0) fail_msg("got '%s'", err.text);
    rp_graph_free(g);
}

static void memory_may_end(void **state) {
    size_t live = base_live();
    (void)state;
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        rp_status st = RP_NOMEM;
        ir_graph *opt = NULL;
        rp_graph *g = rp_graph_new("short");
        if (g) {
            rp_tensor y = rp_softmax(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4, 8)), -1);
            for (int i = 0; i < 70; i++) y = rp_at((rp_exp)(y), "rp_exp", __FILE__, i);
            st = rp_graph_finish(g, &y, 1, &err);
            if (st == RP_OK) st = pass_run_all(trace_graph_ir(g), NULL, &opt, &err);
        }
        ir_graph_free(opt);
        rp_graph_free(g);
        assert_true(st == RP_OK || st == RP_NOMEM);
        assert_int_equal(base_live(), live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_knows_its_calls),
        cmocka_unit_test(texts_of_sites_are_copied),
        cmocka_unit_test(a_list_ends),
        cmocka_unit_test(passes_and_pieces_keep_them),
        cmocka_unit_test(nothing_depends_on_them),
        cmocka_unit_test(kernels_name_them),
        cmocka_unit_test(a_trace_tells_them),
        cmocka_unit_test(errors_of_a_trace_begin_with_the_line),
        cmocka_unit_test(errors_of_a_trace_name_the_call),
        cmocka_unit_test(errors_of_a_compile_begin_with_the_line),
        cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
