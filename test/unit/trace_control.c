/* rp_call_graph, rp_cond, rp_while, rp_scan: what they record, what they refuse and where, and a recurrence of 512 steps against numbers
 * that were made in float64 by another program. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reprise/reprise.h"
#include "support/check.h"
#include "support/elsewhere.h"
#include "support/trees.h"

static void expect(rp_graph *g, const rp_tensor *out, uint32_t n, const char *want) {
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_graph_finish(g, out, n, &err), &err);
    CHECK_OK(rp_graph_verify(g, &err), &err);
    CHECK_OK(rp_graph_print(g, &text, &err), &err);
    assert_string_equal(text, want);
    rp_free(text);
    rp_graph_free(g);
}

static void refused(rp_graph *g, const rp_tensor *out, int line, const char *want) {
    rp_error err = {0};
    char place[32];
    assert_int_not_equal(rp_graph_finish(g, out, 1, &err), RP_OK);
    (void)snprintf(place, sizeof place, "trace_control.c:%d: ", line);
    if (!strstr(err.text, place) || !strstr(err.text, want))
        fail_msg("%s, not %s%s", err.text, place, want);
    rp_graph_free(g);
}

/* --- bodies ------------------------------------------------------------------------ */

/* (h, x, a) -> a h + x, twice */
static void decay(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)g;
    assert_int_equal(n_in, 3);
    out[0] = rp_add(rp_mul(in[0], in[2]), in[1]);
    if (n_out > 1) out[1] = out[0];
    ++*(int *)user;
}

static void below(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)n_in, (void)n_out, (void)user;
    out[0] = rp_lt(in[0], rp_const(g, RP_DTYPE_F32, 100));
}

static void twice(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_add(in[0], in[0]);
}

/* Writes its second argument, where there is one; so many results as are asked for. */
static void keep(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                 void *user) {
    (void)g, (void)user;
    for (uint32_t i = 0; i < n_out; i++) out[i] = in[0];
    if (n_in > 1) (void)rp_update(in[1], in[0]);
}

/* Writes memory of the graph around, user, there. */
static int writing_line;
static void writes_outside(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                           uint32_t n_out, void *user) {
    const rp_tensor *outer = user;
    (void)g, (void)n_in;
    for (uint32_t i = 0; i < n_out; i++) out[i] = in[0];
    writing_line = __LINE__ + 1;
    (void)rp_update(outer[0], outer[1]);
}

/* The same in a body of a body. */
static void writes_further_outside(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                                   uint32_t n_out, void *user) {
    (void)rp_call_graph(g, writes_outside, user, in, n_in, out, n_out);
}

/* Pure ops of the graph around are recorded there, once. */
static void reads_outside(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                          uint32_t n_out, void *user) {
    const rp_tensor *outer = user;
    (void)g, (void)n_in, (void)n_out;
    (void)rp_add(outer[0], outer[1]);
    out[0] = in[0];
}

/* --- what is recorded ------------------------------------------------------------------ */

static void a_scan_along_an_axis(void **state) {
    rp_graph *g = rp_graph_new("s");
    rp_dim T = rp_symbol(g, "T", 0, 512);
    int calls = 0;
    (void)state;
    rp_tensor h = rp_input(g, "h", RP_DTYPE_F32, RP_SHAPE(2));
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, T));
    rp_tensor a = rp_param(g, "a", RP_DTYPE_F32, RP_SHAPE(2)), out[2];
    rp_scan_args args = {.carried = &h,
                         .n_carried = 1,
                         .sliced = &x,
                         .n_sliced = 1,
                         .constants = &a,
                         .n_constants = 1,
                         .axis = -1};
    rp_scan(g, decay, &calls, &args, out, 2);
    assert_int_equal(calls, 1);
    expect(g, out, 2,
           "graph @s(%h: f32[2], %x: f32[2,T]) -> (f32[2], f32[2,T]) where T in [0,512] {\n"
           "  %0 = param @a                             : f32[2]\n"
           "  %1 = permute %x {axes=[1,0]}              : f32[T,2]\n"
           "  %2 = scan %h, %1, %0 {body=graph @body(%in0: f32[2], %in1: f32[2], %in2: f32[2]) -> "
           "(f32[2], f32[2]) {\n"
           "    %0 = mul %in0, %in2                       : f32[2]\n"
           "    %1 = add %0, %in1                         : f32[2]\n"
           "    ret %1, %1\n"
           "  }, carried=1, length=T, sliced=1} : (f32[2], f32[T,2])\n"
           "  %3 = result %2 {index=1}                  : f32[T,2]\n"
           "  %4 = permute %3 {axes=[1,0]}              : f32[2,T]\n"
           "  ret %2, %4\n"
           "}\n");
}

static void what_a_body_writes_is_declared(void **state) {
    rp_graph *g = rp_graph_new("w");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2)), out[1];
    rp_tensor args[] = {x, rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(2)),
                        rp_state(g, "t", RP_DTYPE_F32, RP_SHAPE(2))};
    (void)state;
    rp_call_graph(g, keep, NULL, args, 3, out, 1);
    out[0] = rp_add(out[0], rp_written(args[1], out[0]));
    expect(g, out, 1,
           "graph @w(%x: f32[2]) -> f32[2] {\n"
           "  %0 = state @s                             : f32[2]\n"
           "  %1 = state @t                             : f32[2]\n"
           "  %2 = call %x, %0, %1 {body=graph @body(%in0: f32[2], %in1: f32[2] mutates, %in2: "
           "f32[2]) -> f32[2] {\n"
           "    %0 = update %in1, %in0                    : f32[2]\n"
           "    ret %in0\n"
           "  }} : f32[2]\n"
           "  %3 = written %0, %2                       : f32[2]\n"
           "  %4 = add %2, %3                           : f32[2]\n"
           "  ret %4\n"
           "}\n");
}

/* --- what is refused --------------------------------------------------------------------- */

static rp_tensor outside;

static void captures(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out;
    *(int *)user = __LINE__ + 1;
    out[0] = rp_add(in[0], outside);
}

static void gives_what_is_outside(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                                  uint32_t n_out, void *user) {
    (void)g, (void)in, (void)n_in, (void)n_out, (void)user;
    out[0] = outside;
}

static void gives_nothing(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                          uint32_t n_out, void *user) {
    (void)g, (void)in, (void)n_in, (void)out, (void)n_out, (void)user;
}

static rp_tensor scalar(rp_graph **g) {
    *g = rp_graph_new("r");
    return outside = rp_input(*g, "x", RP_DTYPE_F32, RP_SHAPE(2));
}

static void mistakes_are_told_with_their_line(void **state) {
    rp_graph *g;
    rp_tensor x = scalar(&g), out[9], y;
    int line = 0;
    (void)state;
    rp_call_graph(g, captures, &line, &x, 1, out, 1);
    refused(g, out, line,
            "add: operand 1 is not a tensor of graph @body; what comes from outside is handed in "
            "as an argument");
    x = scalar(&g);
    line = __LINE__ + 1;
    rp_call_graph(g, gives_what_is_outside, NULL, &x, 1, out, 1);
    refused(g, out, line,
            "result 0 of body is no tensor of its graph; what comes from outside is handed in as "
            "an argument");
    x = scalar(&g);
    line = __LINE__ + 1;
    rp_call_graph(g, gives_nothing, NULL, &x, 1, out, 1);
    refused(g, out, line, "result 0 of body is no tensor of its graph");
    x = scalar(&g);
    line = __LINE__ + 1;
    rp_cond(x, keep, keep, NULL, &x, 1, out, 1);
    refused(g, out, line, "cond: the predicate is bool[], not f32[2]");
    x = scalar(&g);
    line = __LINE__ + 1;
    rp_while(below, keep, NULL, &x, 1, out, 1);
    refused(g, out, line, "while: cond @cond gives bool[2], not one bool[]");
    x = scalar(&g);
    line = __LINE__ + 1;
    rp_call_graph(g, NULL, NULL, &x, 1, out, 1);
    refused(g, out, line, "call: the function for body is NULL");
    x = scalar(&g);
    line = __LINE__ + 1;
    rp_call_graph(g, keep, NULL, &x, 1, out, 9);
    refused(g, out, line, "call: 9 results; 1 to 8 are possible");
    x = scalar(&g);
    y = rp_none();
    line = __LINE__ + 1;
    rp_call_graph(g, keep, NULL, &y, 1, out, 1);
    refused(g, out, line, "call: argument 0 is not a tensor of graph @r");
    x = scalar(&g);
    rp_scan_args args = {.sliced = &x, .n_sliced = 1, .axis = 1};
    line = __LINE__ + 1;
    rp_scan(g, keep, NULL, &args, out, 1);
    refused(g, out, line, "scan: axis 1 out of range for f32[2]");
}

/* --- numbers ------------------------------------------------------------------------------- */

enum { N = 16, T = 512 };

/* (h, x, a, b, c) -> h' = a h + b x, c . h' */
static void state_space(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                        uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_add(rp_mul(in[0], in[2]), rp_mul(in[1], in[3]));
    out[1] = rp_sum(rp_mul(out[0], in[4]), 0, false);
}

static void negate(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                   void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_neg(in[0]);
}

static rp_graph *recurrence(void) {
    static const char *const name[] = {"h", "xs", "a", "b", "c"};
    rp_error err = {0};
    rp_graph *g = rp_graph_new("ssm");
    rp_dim steps = rp_symbol(g, "T", 0, 4096);
    rp_tensor in[5], out[4], n, p;
    for (int i = 0; i < 5; i++)
        in[i] = rp_input(g, name[i], RP_DTYPE_F32, i == 1 ? RP_SHAPE(steps) : RP_SHAPE(N));
    rp_scan_args args = {.carried = &in[0],
                         .n_carried = 1,
                         .sliced = &in[1],
                         .n_sliced = 1,
                         .constants = &in[2],
                         .n_constants = 3};
    rp_scan(g, state_space, NULL, &args, out, 2);
    /* 100 <= 2^k < 200; negated where some state is above 0 */
    n = rp_const(g, RP_DTYPE_F32, 1);
    rp_while(below, twice, NULL, &n, 1, &out[2], 1);
    p = rp_gt(rp_amax(out[0], 0, false), rp_const(g, RP_DTYPE_F32, 0));
    rp_cond(p, negate, keep, NULL, &out[2], 1, &out[3], 1);
    CHECK_OK(rp_graph_finish(g, out, 4, &err), &err);
    return g;
}

static void a_recurrence_of_512_steps(void **state) {
    /* y[k], by Python in float64 */
    static const struct {
        int k;
        double y;
    } want[] = {{0, 0.20499999914318323},    {1, 0.04380196684790735},
                {100, -0.04143587261955056}, {255, 0.04537961083087011},
                {256, -0.12937828774443955}, {511, 0.08636920567469741}};
    static float h[N], x[T], a[N], b[N], c[N], last[2][N], y[2][T], doubled, decided;
    rp_graph *g = recurrence();
    (void)state;
    for (int i = 0; i < N; i++) {
        a[i] = (float)(0.9 - 0.05 * i);
        b[i] = (float)(0.1 + 0.01 * i);
        c[i] = (float)((i % 2 ? -1.0 : 1.0) * (1 + i / 16.0));
    }
    for (int t = 0; t < T; t++) x[t] = (float)((t * 37) % 101 / 50.5 - 1);
    for (int level = 0; level < 3; level += 2) {
        rp_error err = {0};
        rp_compiled *code = NULL;
        rp_compilation_config *cfg = rp_config_new();
        int at = level / 2;
        rp_buffer in[] = {{RP_DTYPE_F32, 1, {N}, h},
                          {RP_DTYPE_F32, 1, {T}, x},
                          {RP_DTYPE_F32, 1, {N}, a},
                          {RP_DTYPE_F32, 1, {N}, b},
                          {RP_DTYPE_F32, 1, {N}, c}};
        rp_buffer out[] = {{RP_DTYPE_F32, 1, {N}, last[at]},
                           {RP_DTYPE_F32, 1, {T}, y[at]},
                           {RP_DTYPE_F32, 0, {0}, &doubled},
                           {RP_DTYPE_F32, 0, {0}, &decided}};
        CHECK_OK(rp_config_set(cfg, level ? "level=2" : "level=0", &err), &err);
        CHECK_OK(rp_compile(g, cfg, &code, &err), &err);
        CHECK_OK(rp_compiled_run(code, in, 5, out, 4, &err), &err);
        for (size_t i = 0; i < sizeof want / sizeof *want; i++)
            assert_true(fabs((double)y[at][want[i].k] - want[i].y) < 1e-5);
        assert_true(fabs((double)last[at][0] + 0.08851939528049635) < 1e-5);
        assert_true(fabs((double)last[at][15] + 0.1271293184113074) < 1e-5);
        float most = last[at][0];
        for (int i = 1; i < N; i++) most = fmaxf(most, last[at][i]);
        assert_true(doubled == 128 && decided == (most > 0 ? -128 : 128));
        in[1].dim[0] = out[1].dim[0] = 0; /* no step */
        CHECK_OK(rp_compiled_run(code, in, 5, out, 4, &err), &err);
        assert_true(decided == 128);
        in[1].dim[0] = out[1].dim[0] = T;
        CHECK_OK(rp_compiled_run(code, in, 5, out, 4, &err), &err);
        rp_compiled_free(code);
        rp_config_free(cfg);
    }
    assert_memory_equal(last[0], last[1], sizeof last[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    rp_graph_free(g);
}

/* A loop, then a scan, with results in the place of arguments or elsewhere. Owned by the caller (rp_free). */
static char *text_of_two(bool in_place) {
    rp_graph *g = rp_graph_new("p");
    rp_error err = {0};
    char *text = NULL;
    int calls = 0;
    rp_tensor own[2], v[] = {rp_input(g, "x", RP_DTYPE_F32, (rp_shape){0}),
                             rp_input(g, "y", RP_DTYPE_F32, RP_SHAPE(2))};
    rp_tensor *out = in_place ? v : own;
    rp_while(below, twice, NULL, v, 1, out, 1);
    rp_scan_args a = {.carried = out,
                      .n_carried = 1,
                      .sliced = &v[1],
                      .n_sliced = 1,
                      .constants = out,
                      .n_constants = 1};
    rp_scan(g, decay, &calls, &a, out, 2);
    CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
    CHECK_OK(rp_graph_print(g, &text, &err), &err);
    rp_graph_free(g);
    return text;
}

static void memory_around_a_body_is_not_written(void **state) {
    static const char want[] = "update: a body writes no memory of graph @s around it";
    (void)state;
    for (int way = 0; way < 5; way++) {
        rp_graph *g = rp_graph_new("s");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2)), out[1];
        rp_tensor outer[] = {rp_state(g, "m", RP_DTYPE_F32, RP_SHAPE(2)), x};
        const rp_scan_args a = {.carried = &x, .n_carried = 1, .length = rp_dim_const(3)};
        const rp_tensor p = rp_input(g, "p", RP_DTYPE_BOOL, (rp_shape){0});
        if (way == 0) rp_call_graph(g, writes_outside, outer, &x, 1, out, 1);
        if (way == 1) rp_cond(p, writes_outside, writes_outside, outer, &x, 1, out, 1);
        if (way == 2) rp_while(writes_outside, twice, outer, &x, 1, out, 1);
        if (way == 3) rp_scan(g, writes_outside, outer, &a, out, 1);
        if (way == 4) rp_call_graph(g, writes_further_outside, outer, &x, 1, out, 1);
        refused(g, out, writing_line, want);
    }
    rp_graph *g = rp_graph_new("s");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2)), out[1];
    rp_tensor outer[] = {rp_state(g, "m", RP_DTYPE_F32, RP_SHAPE(2)), x};
    rp_error err = {0};
    rp_call_graph(g, reads_outside, outer, &x, 1, out, 1);
    (void)rp_update(outer[0], x); /* behind the call it is as always */
    CHECK_OK(rp_graph_finish(g, out, 1, &err), &err);
    rp_graph_free(g);
}

static void results_may_take_the_place_of_arguments(void **state) {
    char *here = text_of_two(true), *elsewhere = text_of_two(false);
    (void)state;
    assert_string_equal(here, elsewhere);
    rp_free(here);
    rp_free(elsewhere);
}

static rp_tensor left;

static void leaves_a_tensor(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                            uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    left = out[0] = rp_add(in[0], in[0]);
}

static void finishes(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    rp_error err = {0};
    (void)n_in, (void)user;
    out[0] = in[0];
    assert_int_equal(rp_graph_finish(g, out, n_out, &err), RP_OK);
}

/* Calls that no graph can be: each ends the trace, none the process. */
static void calls_that_make_no_sense(void **state) {
    rp_graph *g;
    rp_error err = {0};
    rp_tensor x = scalar(&g), out[1], *nowhere = NULL;
    (void)state;
    rp_call_graph(g, leaves_a_tensor, NULL, &x, 1, out, 1);
    assert_int_equal(rp_tensor_shape(left).rank, 1);
    out[0] = rp_add(left, out[0]);
    assert_int_equal(rp_graph_finish(g, out, 1, &err), RP_INVALID);
    assert_string_equal(err.text, "output 0 is not a tensor of graph @r");
    rp_graph_free(g);

    x = scalar(&g);
    rp_call_graph(g, finishes, NULL, &x, 1, out, 1);
    refused(g, out, __LINE__ - 1, "rp_graph_finish of body, a body");

    x = scalar(&g);
    rp_call_graph(g, twice, NULL, &x, 1, nowhere, 0);
    refused(g, out, __LINE__ - 1, "call: 0 results; 1 to 8 are possible");

    x = scalar(&g);
    rp_call_graph(g, twice, NULL, &x, 1, nowhere, 1);
    refused(g, out, __LINE__ - 1, "call: out is NULL");

    x = scalar(&g);
    rp_call_graph(g, twice, NULL, NULL, 3, out, 1);
    refused(g, out, __LINE__ - 1, "call: 3 arguments at NULL");

    x = scalar(&g);
    rp_while(below, twice, NULL, NULL, 0, out, 1); /* of no graph */
    assert_null(out[0].graph);
    rp_graph_free(g);
}

static void multiply(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    (void)n_in, (void)n_out;
    assert_int_equal(rp_graph_numerics(g), *(const rp_numerics *)user);
    out[0] = rp_linear(in[0], in[1]);
}

/* The first and the last of them. */
static void add_ends(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    (void)g, (void)n_out, (void)user;
    out[0] = rp_add(in[0], in[n_in - 1]);
}

static void a_body_takes_64_arguments(void **state) {
    (void)state;
    for (uint32_t n = 64; n < 66; n++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("outer");
        rp_tensor in[65], y;
        for (uint32_t i = 0; i < n; i++) in[i] = rp_const(g, RP_DTYPE_F32, i);
        y = rp_call_graph(g, add_ends, NULL, in, n, &y, 1);
        const int line = __LINE__ - 1;
        if (n == 64)
            CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        else
            refused(g, &y, line, "call: 65 operands; 64 are the most");
        if (n == 64) rp_graph_free(g);
    }
}

/* Nothing carried, nothing cut: the length alone says how often. */
static void a_scan_of_constants_has_a_length(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("outer");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2)), y;
    const rp_scan_args a = {.constants = &x, .n_constants = 1, .length = rp_dim_const(3)};
    (void)state;
    rp_scan(g, twice, NULL, &a, &y, 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    assert_int_equal(rp_tensor_shape(y).rank, 2);
    assert_int_equal(rp_dim_eval(rp_tensor_dim(y, 0), NULL), 3);
    rp_graph_free(g);
}

/* A body computes as the graph around it: rows are quantized in both, or in neither. */
static void bodies_have_the_numerics_of_the_graph(void **state) {
    static const rp_numerics all[] = {RP_NUMERICS_DEFAULT, RP_NUMERICS_EXACT};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_numerics n = all[i];
        char *text = NULL;
        rp_graph *g = rp_graph_new("outer");
        rp_graph_set_numerics(g, n);
        rp_tensor in[] = {rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 32)),
                          rp_input(g, "w", RP_DTYPE_Q8_0, RP_SHAPE(4, 32))};
        rp_tensor out[] = {rp_linear(in[0], in[1]), {0}};
        out[1] = rp_call_graph(g, multiply, &n, in, 2, &out[1], 1);
        CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
        CHECK_OK(rp_graph_print(g, &text, &err), &err);
        const char *one = strstr(text, "quantize"), *two = one ? strstr(one + 1, "quantize") : NULL;
        if ((one != NULL) != (n == RP_NUMERICS_DEFAULT) || (two != NULL) != (one != NULL))
            fail_msg("numerics %d: %s", (int)n, text);
        rp_free(text);
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_along_an_axis),
        cmocka_unit_test(what_a_body_writes_is_declared),
        cmocka_unit_test(mistakes_are_told_with_their_line),
        cmocka_unit_test(memory_around_a_body_is_not_written),
        cmocka_unit_test(results_may_take_the_place_of_arguments),
        cmocka_unit_test(calls_that_make_no_sense),
        cmocka_unit_test(a_body_takes_64_arguments),
        cmocka_unit_test(a_scan_of_constants_has_a_length),
        cmocka_unit_test(bodies_have_the_numerics_of_the_graph),
        cmocka_unit_test(a_recurrence_of_512_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
