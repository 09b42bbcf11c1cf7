/* assert and print: what the host does while a graph runs, at each level, in loops and branches, in functions with and without breaks. */
#include "support/gpu.h"
#include "support/heard.h"
#include "support/jits.h"

#include <math.h>

enum { N = 4 };
static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
enum { LEVELS = 4 };
static const char *no_gpu; /* why there is none, not even an emulated one */

static rp_buffer f32_buffer(float *p, int64_t n) {
    return (rp_buffer){RP_DTYPE_F32, 1, {n}, p};
}

static rp_compiled *compile(rp_graph *g, const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_config_free(cfg);
    rp_graph_free(g);
    return c;
}

static rp_graph *finish(rp_graph *g, rp_tensor y) {
    rp_error err = {0};
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    return g;
}

/* What is printed is heard alone. */
static void check_lines(base_buf *told, const char *want, const char *where) {
    const char *got = told->data ? told->data : "";
    if (strcmp(got, want) != 0) {
        rp_log_set_callback(NULL, NULL);
        fail_msg("%s printed\n%snot\n%s", where, got, want);
    }
    base_buf_clear(told);
}

static int asserted_at;

/* Two equal prints are two; what nobody reads is printed, too. */
static rp_graph *printing(void) {
    rp_graph *g = rp_graph_new("printing");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N));
    rp_tensor y = rp_exp(rp_mul_scalar(x, 0.0));
    (void)rp_print(y, "y");
    (void)rp_print(x, NULL);
    (void)rp_print(y, "y");
    asserted_at = __LINE__ + 1;
    (void)rp_assert(rp_lt(x, rp_const(g, RP_DTYPE_F32, 8)), "x is small");
    (void)rp_print(rp_sum(rp_add(x, y), 0, false), "sum");
    return finish(g, rp_add(rp_print(y, "y"), x));
}

static void prints_come_in_order(void **state) {
    (void)state;
    NOT_ELSEWHERE("a compiled graph with calls of the host is refused there");
    for (int i = 0; i < LEVELS; i++) {
        rp_error err = {0};
        base_buf told;
        float x[N] = {1, 2, 3, 4}, y[N];
        rp_buffer in = f32_buffer(x, N), out = f32_buffer(y, N);
        rp_compiled *c = compile(printing(), levels[i]);
        heard_start(&told, "");
        rp_log_set_level(RP_LOG_ERROR);
        for (int run = 0; run < 2; run++) {
            x[3] = (float)run;
            CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
            check_lines(&told,
                        run ? "y: f32[4] [1, 1, 1, 1]\nf32[4] [1, 2, 3, 1]\n"
                              "y: f32[4] [1, 1, 1, 1]\nsum: f32[] 11\ny: f32[4] [1, 1, 1, 1]\n"
                            : "y: f32[4] [1, 1, 1, 1]\nf32[4] [1, 2, 3, 0]\n"
                              "y: f32[4] [1, 1, 1, 1]\nsum: f32[] 10\ny: f32[4] [1, 1, 1, 1]\n",
                        levels[i]);
            for (int k = 0; k < N; k++) assert_true(y[k] == x[k] + 1);
        }
        heard_done(&told);
        rp_compiled_free(c);
    }
}

/* What stands behind it does not come. */
static void a_failed_assertion_fails_the_run(void **state) {
    (void)state;
    NOT_ELSEWHERE("a compiled graph with calls of the host is refused there");
    for (int i = 0; i < LEVELS; i++) {
        rp_error err = {0};
        base_buf told;
        char want[200];
        float x[N] = {1, 2, 9, 4}, y[N];
        rp_buffer in = f32_buffer(x, N), out = f32_buffer(y, N);
        rp_compiled *c = compile(printing(), levels[i]);
        heard_start(&told, "");
        assert_int_equal(rp_compiled_run(c, &in, 1, &out, 1, &err), RP_INVALID);
        (void)snprintf(want, sizeof want,
                       "trace_host.c:%d: reprise::assert does not hold, element [2] of bool[4]: x "
                       "is small",
                       asserted_at);
        if (!strstr(err.text, want)) fail_msg("%s: %s", levels[i], err.text);
        check_lines(&told, "y: f32[4] [1, 1, 1, 1]\nf32[4] [1, 2, 9, 4]\ny: f32[4] [1, 1, 1, 1]\n",
                    levels[i]);
        x[2] = NAN; /* no comparison holds */
        assert_int_equal(rp_compiled_run(c, &in, 1, &out, 1, &err), RP_INVALID);
        x[2] = 7;
        CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
        heard_done(&told);
        rp_compiled_free(c);
    }
}

static void a_gpu_refuses_them_with_the_line(void **state) {
    rp_error err = {0};
    char want[64];
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = printing();
    (void)state;
    if (no_gpu) {
        rp_config_free(cfg);
        rp_graph_free(g);
        SKIP_TEST("%s", no_gpu);
    }
    CHECK_OK(rp_config_set(cfg, "device=cuda:0", &err), &err);
    assert_int_equal((rp_compile)(g, cfg, &c, &err), RP_UNSUPPORTED);
    (void)snprintf(want, sizeof want, "trace_host.c:%d: custom op reprise::print", asserted_at - 4);
    if (!strstr(err.text, want) || !strstr(err.text, "runs on the host; use device=cpu"))
        fail_msg("%s", err.text);
    rp_config_free(cfg);
    rp_graph_free(g);
}

/* --- what is printed ------------------------------------------------------------------- */

static void check_print(rp_dtype t, rp_shape shape, rp_buffer x, const char *want) {
    rp_error err = {0};
    base_buf told;
    float y;
    rp_graph *g = rp_graph_new("one");
    rp_tensor a = rp_input(g, "x", t, shape);
    (void)rp_print(a, "");
    rp_buffer out = {RP_DTYPE_F32, 0, {0}, &y};
    rp_compiled *c = compile(finish(g, rp_const(g, RP_DTYPE_F32, 1)), "level=0");
    heard_start(&told, "");
    CHECK_OK(rp_compiled_run(c, &x, 1, &out, 1, &err), &err);
    check_lines(&told, want, "it");
    heard_done(&told);
    rp_compiled_free(c);
}

static void every_type_is_printed(void **state) {
    int64_t whole[] = {INT64_MAX, INT64_MIN};
    uint16_t half[] = {0x3c00, 0xc100};
    uint8_t truth[] = {0, 7};
    int8_t small[] = {-128, 127};
    double real[] = {0.1, -1e300}, special[] = {(double)-NAN, -(double)INFINITY, -0.0};
    static float many[40 * 30];
    (void)state;
    NOT_ELSEWHERE("a compiled graph with calls of the host is refused there");
    check_print(RP_DTYPE_I64, RP_SHAPE(2), (rp_buffer){RP_DTYPE_I64, 1, {2}, whole},
                "i64[2] [9223372036854775807, -9223372036854775808]\n");
    check_print(RP_DTYPE_F16, RP_SHAPE(1, 2), (rp_buffer){RP_DTYPE_F16, 2, {1, 2}, half},
                "f16[1,2] [[1, -2.5]]\n");
    check_print(RP_DTYPE_BOOL, RP_SHAPE(2), (rp_buffer){RP_DTYPE_BOOL, 1, {2}, truth},
                "bool[2] [false, true]\n");
    check_print(RP_DTYPE_I8, RP_SHAPE(2), (rp_buffer){RP_DTYPE_I8, 1, {2}, small},
                "i8[2] [-128, 127]\n");
    check_print(RP_DTYPE_F64, RP_SHAPE(2), (rp_buffer){RP_DTYPE_F64, 1, {2}, real},
                "f64[2] [0.1, -1e+300]\n");
    check_print(RP_DTYPE_F64, RP_SHAPE(3), (rp_buffer){RP_DTYPE_F64, 1, {3}, special},
                "f64[3] [nan, -inf, -0]\n");
    check_print(RP_DTYPE_F32, RP_SHAPE(2, 0), (rp_buffer){RP_DTYPE_F32, 2, {2, 0}, many},
                "f32[2,0] [[], []]\n");
    for (int i = 0; i < 40 * 30; i++) many[i] = (float)i;
    check_print(RP_DTYPE_F32, RP_SHAPE(40, 30), (rp_buffer){RP_DTYPE_F32, 2, {40, 30}, many},
                "f32[40,30] [[0, 1, 2, ..., 27, 28, 29], [30, 31, 32, ..., 57, 58, 59], [60, 61, "
                "62, ..., 87, 88, 89], ..., [1110, 1111, 1112, ..., 1137, 1138, 1139], [1140, "
                "1141, 1142, ..., 1167, 1168, 1169], [1170, 1171, 1172, ..., 1197, 1198, 1199]]\n");
}

static void refused(rp_graph *g, rp_tensor y, const char *why) {
    rp_error err = {0};
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    if (!strstr(err.text, why)) fail_msg("%s", err.text);
    rp_graph_free(g);
}

static void what_they_take(void **state) {
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    rp_graph *g = rp_graph_new("g");
    refused(g, rp_assert(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2)), ""),
            "assert: f32[2] is no bool; compare first");
    g = rp_graph_new("g");
    refused(g, rp_print(rp_param(g, "w", RP_DTYPE_Q8_0, RP_SHAPE(2, 32)), ""),
            "print: q8_0[2,32] is of a block format; dequantise it");
    rp_op_desc own = {.size = sizeof own, .name = "reprise::print", .cpu = NULL};
    assert_int_equal(rp_op_register(&own, &err), RP_INVALID);
    g = rp_graph_new("g");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_BOOL, (rp_shape){0});
    CHECK_OK(
        rp_graph_print(finish(g, (rp_assert_at)(rp_print(x, "x"), "why", "a.c", 7)), &text, &err),
        &err);
    assert_string_equal(text,
                        "graph @g(%x: bool[]) -> bool[] {\n"
                        "  %0 = empty {dtype=u8, shape=[1]}          : u8[1]\n"
                        "  %1 = custom %0, %x {attrs={message=\"x\"}, name=\"reprise::print\"} : "
                        "u8[1]\n"
                        "  %2 = written %0, %1                       : u8[1]\n"
                        "  %3 = custom %2, %x {attrs={at=\"a.c:7\", message=\"why\"}, "
                        "name=\"reprise::assert\"} : u8[1]\n"
                        "  %4 = written %2, %3                       : u8[1]\n"
                        "  ret %x\n}\n");
    rp_free(text);
    rp_graph_free(g);
}

/* --- loops and branches ------------------------------------------------------------------ */

static void twice(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)g, (void)n, (void)n_out, (void)user;
    out[0] = rp_add(rp_print(in[0], "was"), in[0]);
    (void)rp_print(out[0], "is");
}

static void is_small(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                     void *user) {
    (void)n, (void)n_out, (void)user;
    (void)rp_print(in[0], "asked");
    out[0] = rp_lt(in[0], rp_const(g, RP_DTYPE_F32, 4));
}

static void keep(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                 void *user) {
    (void)g, (void)n, (void)n_out, (void)user;
    out[0] = in[0];
    (void)rp_assert(rp_lt(in[0], rp_const(g, RP_DTYPE_F32, 9)), "below 9");
}

static void step(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                 void *user) {
    (void)g, (void)n, (void)n_out, (void)user;
    out[0] = rp_add(in[0], in[0]);
    (void)rp_print(in[0], "step");
}

static void bodies_print_too(void **state) {
    (void)state;
    NOT_ELSEWHERE("a compiled graph with calls of the host is refused there");
    for (int i = 0; i < LEVELS; i++) {
        rp_error err = {0};
        base_buf told;
        float x = 1, y, *p = &x;
        rp_buffer in = {RP_DTYPE_F32, 0, {0}, p}, out = {RP_DTYPE_F32, 0, {0}, &y};
        rp_graph *g = rp_graph_new("loops");
        rp_tensor a = rp_input(g, "x", RP_DTYPE_F32, (rp_shape){0}), b;
        (void)rp_while(is_small, twice, NULL, &a, 1, &b, 1);
        (void)rp_cond(rp_lt(b, rp_const(g, RP_DTYPE_F32, 5)), twice, keep, NULL, &b, 1, &b, 1);
        rp_compiled *c = compile(finish(g, b), levels[i]);
        heard_start(&told, "");
        CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
        check_lines(&told,
                    "asked: f32[] 1\nwas: f32[] 1\nis: f32[] 2\nasked: f32[] 2\nwas: f32[] 2\nis: "
                    "f32[] 4\nasked: f32[] 4\nwas: f32[] 4\nis: f32[] 8\n",
                    levels[i]);
        assert_true(y == 8);
        x = 10;
        assert_int_equal(rp_compiled_run(c, &in, 1, &out, 1, &err), RP_INVALID);
        if (!strstr(err.text, "reprise::assert does not hold: below 9")) fail_msg("%s", err.text);
        heard_done(&told);
        rp_compiled_free(c);
    }
}

/* Of all that a graph and its bodies print there is one order; equal calls are two, and what nobody reads is done. */
static rp_graph *nested(void) {
    rp_graph *g = rp_graph_new("nested");
    rp_tensor a = rp_input(g, "x", RP_DTYPE_F32, (rp_shape){0}), b, c;
    (void)rp_print(a, "first");
    (void)rp_call_graph(g, twice, NULL, &a, 1, &b, 1);
    (void)rp_call_graph(g, twice, NULL, &a, 1, &b, 1);
    (void)rp_print(a, "between");
    (void)rp_cond(rp_gt(a, rp_const(g, RP_DTYPE_F32, 3)), twice, keep, NULL, &a, 1, &c, 1);
    (void)rp_scan(g, step, NULL,
                  &(rp_scan_args){.carried = &a, .n_carried = 1, .length = RP_DIM(2)}, &c, 1);
    (void)rp_print(a, "last");
    return finish(g, rp_neg(a));
}

static void bodies_have_their_place(void **state) {
    static const char *const want[] = {
        "first: f32[] 1\nwas: f32[] 1\nis: f32[] 2\nwas: f32[] 1\nis: f32[] 2\nbetween: f32[] 1\n"
        "step: f32[] 1\nstep: f32[] 2\nlast: f32[] 1\n",
        "first: f32[] 4\nwas: f32[] 4\nis: f32[] 8\nwas: f32[] 4\nis: f32[] 8\nbetween: f32[] 4\n"
        "was: f32[] 4\nis: f32[] 8\nstep: f32[] 4\nstep: f32[] 8\nlast: f32[] 4\n"};
    (void)state;
    NOT_ELSEWHERE("a compiled graph with calls of the host is refused there");
    for (int i = 0; i < LEVELS; i++) {
        rp_error err = {0};
        base_buf told;
        float x = 1, y;
        rp_buffer in = {RP_DTYPE_F32, 0, {0}, &x}, out = {RP_DTYPE_F32, 0, {0}, &y};
        rp_compiled *c = compile(nested(), levels[i]);
        heard_start(&told, "");
        for (int run = 0; run < 2; run++) {
            x = run ? 4 : 1;
            CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
            check_lines(&told, want[run], levels[i]);
            assert_true(y == -x);
        }
        heard_done(&told);
        rp_compiled_free(c);
    }
}

static void the_interpreter_prints(void **state) {
    rp_error err = {0};
    base_buf told;
    char *text = NULL;
    (void)state;
    rp_graph *g = rp_graph_new("told");
    rp_tensor a = rp_const(g, RP_DTYPE_F32, 1), b;
    (void)rp_print(a, "first");
    (void)rp_call_graph(g, twice, NULL, &a, 1, &b, 1);
    (void)rp_print(a, "last");
    finish(g, a);
    heard_start(&told, "");
    CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, NULL, &text, &err), &err);
    check_lines(&told, "first: f32[] 1\nwas: f32[] 1\nis: f32[] 2\nlast: f32[] 1\n", "it");
    heard_done(&told);
    rp_free(text);
    rp_graph_free(g);
}

/* --- functions ------------------------------------------------------------------------------- */

/* With a break between two prints where user says so; the assertion is of the whole. */
static rp_status told_of(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    rp_tensor y = rp_add_scalar(x, 1);
    (void)rp_print(y, "y");
    if (user && rp_item(rp_sum(y, 0, false)) > 100) y = rp_neg(y);
    (void)rp_print(y, "y");
    (void)rp_assert(rp_lt(y, rp_const(rp_jit_graph(call), RP_DTYPE_F32, 50)), "y < 50");
    (void)rp_print(rp_mul_scalar(y, 2), "2 y");
    *result = rp_jit_value(call, rp_mul_scalar(y, 3));
    return RP_OK;
}

static void check_function(const char *settings, void *user) {
    rp_error err = {0};
    base_buf told;
    rp_jit_options o = jit_options(told_of);
    o.user = user;
    rp_jit *f = jit_by(o, settings);
    heard_start(&told, "");
    rp_log_set_level(RP_LOG_ERROR);
    for (int run = 0; run < 4; run++) {
        char want[200];
        float x[2] = {1, (float)run};
        rp_value v = f32_of(x, 1, 2, 0), args = rp_value_tuple(&v, 1);
        rp_output *out = jit_ok(f, &args);
        float *y = jit_result(out)->tensor.data;
        assert_true(y[0] == 6 && y[1] == (float)(run + 1) * 3);
        (void)snprintf(want, sizeof want,
                       "y: f32[2] [2, %d]\ny: f32[2] [2, %d]\n2 y: f32[2] [4, %d]\n", run + 1,
                       run + 1, 2 * (run + 1));
        check_lines(&told, want, settings);
        rp_output_free(out);
    }
    float x[2] = {1, 60};
    rp_value v = f32_of(x, 1, 2, 0), args = rp_value_tuple(&v, 1);
    rp_output *out = NULL;
    assert_int_equal(rp_jit_run(f, &args, &out, &err), RP_INVALID);
    if (!strstr(err.text, "reprise::assert does not hold, element [1] of bool[2]: y < 50"))
        fail_msg("%s", err.text);
    heard_done(&told);
    rp_jit_free(f);
}

static void functions_tell(void **state) {
    static const char *const settings[] = {"level=2", "level=0", "level=1", "backend=cudagraphs"};
    static int flag;
    (void)state;
    for (int i = 0; i < 4; i++) {
        check_function(settings[i], NULL);
        check_function(settings[i], &flag);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_come_in_order),
        cmocka_unit_test(a_failed_assertion_fails_the_run),
        cmocka_unit_test(a_gpu_refuses_them_with_the_line),
        cmocka_unit_test(every_type_is_printed),
        cmocka_unit_test(what_they_take),
        cmocka_unit_test(bodies_print_too),
        cmocka_unit_test(bodies_have_their_place),
        cmocka_unit_test(the_interpreter_prints),
        cmocka_unit_test(functions_tell),
    };
    if (runs_elsewhere() || gpu_emulate(&no_gpu)) no_gpu = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
