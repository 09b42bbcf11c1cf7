/* Attributes of custom ops: their schema, text and canonical form, and who reads them: shape function, lowering, implementation, stored
 * plans, backends. */
#include "support/check.h"
#include "support/elsewhere.h"

#include <math.h>

#include "ir/custom.h"
#include "ir/op_attrs.h"
#include "reprise/reprise.h"
#include "support/trees.h"

enum { N = 4 };

/* y = x * factor + sum(offsets), each number `times` times; squared where mode is "square". */
static rp_status curve_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                           rp_error *err) {
    const rp_op_attr *offsets = rp_op_call_attr(call, "offsets");
    int64_t times = rp_op_call_attr(call, "times")->i;
    bool square = strcmp(rp_op_call_attr(call, "mode")->s, "square") == 0;
    double sum = 0;
    (void)err;
    assert_int_equal(n_args, call->n_in + call->n_results);
    assert_string_equal(call->name, "attrs::curve");
    assert_null(rp_op_call_attr(call, "other"));
    assert_null(rp_op_call_attr(call, NULL));
    assert_null(rp_op_call_attr(NULL, "times"));
    for (uint32_t i = 0; i < offsets->n; i++) sum += offsets->fs[i];
    for (int64_t i = 0; i < args[0].dim[0] * times; i++) {
        double v = ((float *)args[0].data)[i / times] * rp_op_call_attr(call, "factor")->f + sum;
        ((float *)args[1].data)[i] = (float)(square ? v * v : v);
    }
    return RP_OK;
}

static int shape_calls;

static rp_status curve_shape(const rp_op_call *call, const rp_tensor *in, uint32_t n_in,
                             rp_tensor_type *out, uint32_t n_out, rp_error *err) {
    (void)n_in, (void)n_out, (void)err;
    shape_calls++;
    rp_dim n = rp_dim_mul(rp_tensor_dim(in[0], 0), rp_op_call_attr(call, "times")->i);
    *out = (rp_tensor_type){RP_DTYPE_F32, RP_SHAPE(n)};
    return RP_OK;
}

/* What the default mode does. */
static void curve_lower(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                        uint32_t n_out) {
    const rp_op_attr *offsets = rp_op_call_attr(call, "offsets");
    rp_tensor x = rp_mul_scalar(in[0], rp_op_call_attr(call, "factor")->f), same[8];
    int64_t times = rp_op_call_attr(call, "times")->i;
    (void)n_in, (void)n_out;
    for (uint32_t i = 0; i < offsets->n; i++) x = rp_add_scalar(x, offsets->fs[i]);
    for (int64_t i = 0; i < times; i++) same[i] = x;
    out[0] = rp_flatten(rp_stack(same, (uint32_t)times, -1), 0, 1);
}

static const double no_offset[] = {-0.0};
static const rp_op_attr curve_schema[] = {
    {.name = "times", .kind = RP_OP_I64, .i = 1},
    {.name = "factor", .kind = RP_OP_F64, .required = true},
    {.name = "mode", .kind = RP_OP_STRING, .s = "plain"},
    {.name = "offsets", .kind = RP_OP_F64S, .n = 1, .fs = no_offset},
};
static const rp_op_attr lists_schema[] = {
    {.name = "axes", .kind = RP_OP_I64S},
    {.name = "names", .kind = RP_OP_STRINGS},
    {.name = "eps", .kind = RP_OP_F64, .f = 0.125},
};

static int registered(void **state) {
    rp_error err = {0};
    const rp_op_desc all[] = {
        {.size = sizeof *all,
         .name = "attrs::curve",
         .result_like = -1,
         .cpu = curve_cpu,
         .shape = curve_shape,
         .lower = curve_lower,
         .attrs = curve_schema,
         .n_attrs = 4},
        {.size = sizeof *all, .name = "attrs::lists", .attrs = lists_schema, .n_attrs = 3},
        {.size = sizeof *all, .name = "attrs::none"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK_OK(rp_op_register(&all[i], &err), &err);
    return 0;
}

/* The shape function of an op sees tensors of its own graph alone. */
static void tensors_of_others_are_not_shown(void **state) {
    static const rp_op_attr factor = {.name = "factor", .kind = RP_OP_F64, .f = 2};
    rp_error err = {0};
    rp_graph *g = rp_graph_new("own"), *other = rp_graph_new("other");
    rp_tensor x = rp_input(other, "x", RP_DTYPE_F32, RP_SHAPE(4)), y;
    (void)state;
    const rp_custom_args call = {.size = sizeof call,
                                 .name = "attrs::curve",
                                 .args = &x,
                                 .n = 1,
                                 .attrs = &factor,
                                 .n_attrs = 1};
    shape_calls = 0;
    rp_custom_call(g, &call, &y, 1);
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    assert_non_null(
        strstr(err.text, "custom: operand 0 of attrs::curve is not a tensor of graph @own"));
    assert_int_equal(shape_calls, 0);
    rp_graph_free(other);
    rp_graph_free(g);
}

/* Two lists are equal where every attribute is: each of them, whichever differs, of each kind and at each end of a list. */
static void each_difference_counts(void **state) {
    static const int64_t is[] = {1, 2}, is2[] = {1, 3}, is3[] = {0, 2};
    static const double fs[] = {1, 2}, fs2[] = {1, 3}, fs3[] = {0, 2};
    static const char *const ss[] = {"a", "b"}, *const ss2[] = {"a", "c"}, *const ss3[] = {"", "b"};
    const rp_op_attr base[] = {{.name = "a", .kind = RP_OP_I64, .i = 1},
                               {.name = "b", .kind = RP_OP_F64, .f = 1},
                               {.name = "c", .kind = RP_OP_STRING, .s = "x"},
                               {.name = "d", .kind = RP_OP_I64S, .n = 2, .is = is},
                               {.name = "e", .kind = RP_OP_F64S, .n = 2, .fs = fs},
                               {.name = "f", .kind = RP_OP_STRINGS, .n = 2, .ss = ss}};
    const rp_op_attr other[] = {{.name = "a", .kind = RP_OP_I64, .i = 2},
                                {.name = "z", .kind = RP_OP_I64, .i = 1},
                                {.name = "a", .kind = RP_OP_F64, .i = 1},
                                {.name = "b", .kind = RP_OP_F64, .f = 2},
                                {.name = "c", .kind = RP_OP_STRING, .s = "xy"},
                                {.name = "d", .kind = RP_OP_I64S, .n = 2, .is = is2},
                                {.name = "d", .kind = RP_OP_I64S, .n = 2, .is = is3},
                                {.name = "d", .kind = RP_OP_I64S, .n = 1, .is = is},
                                {.name = "e", .kind = RP_OP_F64S, .n = 2, .fs = fs2},
                                {.name = "e", .kind = RP_OP_F64S, .n = 2, .fs = fs3},
                                {.name = "e", .kind = RP_OP_F64S, .n = 1, .fs = fs},
                                {.name = "f", .kind = RP_OP_STRINGS, .n = 2, .ss = ss2},
                                {.name = "f", .kind = RP_OP_STRINGS, .n = 2, .ss = ss3},
                                {.name = "f", .kind = RP_OP_STRINGS, .n = 1, .ss = ss}};
    static const uint32_t at[] = {0, 0, 0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5};
    (void)state;
    rp_op_attr twin[6];
    memcpy(twin, base, sizeof twin);
    assert_true(ir_op_attrs_equal(base, twin, 6));
    assert_true(ir_op_attrs_hash(7, base, 6) == ir_op_attrs_hash(7, twin, 6));
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        memcpy(twin, base, sizeof twin);
        twin[at[i]] = other[i];
        if (ir_op_attrs_equal(base, twin, 6)) fail_msg("difference %zu", i);
        if (i != 1 && i != 2 && ir_op_attrs_hash(7, base, 6) == ir_op_attrs_hash(7, twin, 6))
            fail_msg("hash of difference %zu", i);
    }
}

/* --- text --------------------------------------------------------------------------------------- */

static rp_graph *parse(const char *body, rp_error *err) {
    char text[1024];
    rp_graph *g = NULL;
    (void)snprintf(text, sizeof text, "graph @g(%%x: f32[4]) {\n%s\n}\n", body);
    return rp_graph_parse(text, strlen(text), &g, err) == RP_OK ? g : NULL;
}

/* All that the schema names is there, by name, in one spelling; calls that say the same are one node. */
static void the_text_is_canonical(void **state) {
    static const char body[] =
        "%a = custom %x {name=\"attrs::lists\", attrs={names=[\"a b\",\"\\x22;\\x7b\"], "
        "axes=[-1, 7]}}\n"
        "%b = custom %x {attrs={eps=0.125, axes=[-1,7], names=[\"a b\", \"\\x22;{\"]}, "
        "name=\"attrs::lists\"}\n"
        "%c = custom %x {attrs={axes=[-1,7], names=[\"a b\"]}, name=\"attrs::lists\"}\n"
        "%d = custom %x {name=\"attrs::lists\"}\n"
        "%e = custom %x {attrs={names=[], eps=2}, name=\"attrs::lists\"}\n"
        "%f = custom %x {attrs={}, name=\"attrs::none\"}\n"
        "ret %a, %b, %c, %d, %e, %f";
    static const char printed[] =
        "graph @g(%x: f32[4]) -> (f32[4], f32[4], f32[4], f32[4], f32[4], f32[4]) {\n"
        "  %0 = custom %x {attrs={axes=[-1,7], eps=0x1p-3, names=[\"a b\",\"\\x22\\x3b\\x7b\"]}, "
        "name=\"attrs::lists\"} : f32[4]\n"
        "  %1 = custom %x {attrs={axes=[-1,7], eps=0x1p-3, names=[\"a b\"]}, "
        "name=\"attrs::lists\"} : f32[4]\n"
        "  %2 = custom %x {attrs={axes=[], eps=0x1p-3, names=[]}, name=\"attrs::lists\"} : f32[4]\n"
        "  %3 = custom %x {attrs={axes=[], eps=0x1p+1, names=[]}, name=\"attrs::lists\"} : f32[4]\n"
        "  %4 = custom %x {name=\"attrs::none\"}       : f32[4]\n"
        "  ret %0, %0, %1, %2, %3, %4\n}\n";
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    rp_graph *g = parse(body, &err);
    CHECK_OK(err.code, &err);
    for (int again = 0; again < 2; again++) {
        CHECK_OK(rp_graph_print(g, &text, &err), &err);
        assert_string_equal(text, printed);
        rp_graph_free(g);
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        rp_free(text);
    }
    rp_graph_free(g);
}

static void calls_are_checked(void **state) {
    static const struct {
        const char *attrs, *op, *error;
    } bad[] = {
        {"factr=1", "curve", "custom op attrs::curve has no attribute 'factr'"},
        {"times=2", "curve", "attribute 'factor' is missing; it is a number"},
        {"factor=1, factor=2", "curve", "attribute 'factor' is given twice"},
        {"factor=\"1\"", "curve", "attribute 'factor' is a number, not a string"},
        {"factor=1, times=2.0", "curve", "attribute 'times' is an integer, not a number"},
        {"axes=1", "lists", "attribute 'axes' is a list of integers, not an integer"},
        {"axes=[1,2.5]", "lists", "'axes' is a list of integers, not a list of numbers"},
        {"names=[1]", "lists", "'names' is a list of strings, not a list of integers"},
        {"names=[\"a\",1]", "lists", "line 2: custom: a list has strings or numbers, not both"},
        {"names=[\"a\\n\"]", "lists", "a backslash begins \\x and two digits 0-9 a-f"},
        {"names=[\"a\\x00\"]", "lists", "a backslash begins \\x"},
        {"eps=", "lists", "expected a number"},
        {"eps=1", "none", "custom op attrs::none has no attribute 'eps'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        char body[256];
        (void)snprintf(body, sizeof body,
                       "%%a = custom %%x {attrs={%s}, name=\"attrs::%s\", types=[f32[4]]}\nret %%a",
                       bad[i].attrs, bad[i].op);
        rp_graph *g = parse(body, &err);
        if (g || !strstr(err.text, bad[i].error)) fail_msg("%s: %s", bad[i].attrs, err.text);
    }
}

static void schemas_are_checked(void **state) {
    static const char *const none[1] = {NULL};
    static const struct {
        rp_op_attr attrs[2];
        uint32_t n;
        const char *error;
    } bad[] = {
        {{{.name = "a b"}}, 1, "attribute 0 has no kind or no name"},
        {{{.name = NULL}}, 1, "attribute 0 has no kind or no name"},
        {{{.name = "a", .kind = (rp_op_attr_kind)6}}, 1, "attribute 0 has no kind"},
        {{{.name = "a"}, {.name = "a"}}, 2, "two attributes are called 'a'"},
        {{{.name = "a", .kind = RP_OP_STRING}}, 1, "attribute 'a' has no value"},
        {{{.name = "a", .kind = RP_OP_F64S, .n = 1}}, 1, "attribute 'a' has no value"},
        {{{.name = "a", .kind = RP_OP_STRINGS, .n = 1, .ss = none}}, 1, "'a' has no value"},
        {{{.name = "a", .kind = RP_OP_I64S, .n = 257}}, 1, "has 257 entries; 256 are the most"},
        {{{.name = "a"}}, 17, "17 attributes; 16 are the most"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        rp_op_desc d = {
            .size = sizeof d, .name = "attrs::bad", .attrs = bad[i].attrs, .n_attrs = bad[i].n};
        assert_int_equal(rp_op_register(&d, &err), RP_INVALID);
        if (!strstr(err.text, bad[i].error)) fail_msg("%zu: %s", i, err.text);
    }
    rp_error err = {0};
    char longest[65];
    const rp_op_attr long_name = {.name = longest};
    memset(longest, 'n', sizeof longest);
    for (size_t length = 63; length < sizeof longest; length++) { /* names have up to 63 bytes */
        const rp_op_desc of = {
            .size = sizeof of, .name = "attrs::long", .attrs = &long_name, .n_attrs = 1};
        longest[length] = 0;
        err = (rp_error){0};
        assert_int_equal(rp_op_register(&of, &err), length < 64 ? RP_OK : RP_INVALID);
        if (length == 64) assert_non_null(strstr(err.text, "attribute 0 has no kind or no name"));
        longest[length] = 'n';
    }
    err = (rp_error){0};
    rp_op_desc d = {.size = sizeof d, .name = "attrs::bad", .n_attrs = 3};
    assert_int_equal(rp_op_register(&d, &err), RP_INVALID);
    assert_string_equal(err.text, "custom op attrs::bad: 3 attributes at NULL");
}

/* The most of everything is taken and comes back, one more is refused: attributes, entries of a list, bytes of a string. */
static void limits_are_exact(void **state) {
    static char text[16384], name[RP_MAX_OP_ATTRS + 1][8], longest[RP_MAX_OP_STRING + 2];
    static int64_t is[RP_MAX_OP_LIST];
    rp_op_attr schema[RP_MAX_OP_ATTRS] = {{0}};
    rp_error err = {0};
    (void)state;
    memset(longest, 'y', RP_MAX_OP_STRING);
    for (int i = 0; i < RP_MAX_OP_LIST; i++) is[i] = i;
    for (int i = 0; i < RP_MAX_OP_ATTRS; i++) {
        (void)snprintf(name[i], sizeof name[i], "a%d", i);
        schema[i] = (rp_op_attr){.name = name[i], .kind = RP_OP_I64, .i = i};
    }
    schema[0] = (rp_op_attr){.name = "a0", .kind = RP_OP_I64S, .n = RP_MAX_OP_LIST, .is = is};
    schema[1] = (rp_op_attr){.name = "a1", .kind = RP_OP_STRING, .s = longest};
    rp_op_desc d = {.size = sizeof d, .name = "attrs::most", .attrs = schema};
    d.n_attrs = RP_MAX_OP_ATTRS;
    CHECK_OK(rp_op_register(&d, &err), &err);
    for (int over = 0; over < 8; over++) {
        const char *why = over & 2   ? "a string ends on its line, within 255 bytes"
                          : over & 1 ? "a list has at most 256 entries"
                                     : "an op has at most 16 attributes";
        char *printed = NULL;
        rp_graph *g = NULL;
        longest[RP_MAX_OP_STRING] = over & 2 ? 'y' : 0;
        size_t n = (size_t)snprintf(text, sizeof text,
                                    "graph @g(%%x: f32[4]) {\n%%a = custom %%x "
                                    "{name=\"attrs::most\", attrs={a1=\"%s\", a0=[300",
                                    longest);
        for (int i = 1; i < RP_MAX_OP_LIST + (over & 1); i++)
            n += (size_t)snprintf(text + n, sizeof text - n, ",%d", 300 - i);
        n += (size_t)snprintf(text + n, sizeof text - n, "]");
        for (int i = 2; i < RP_MAX_OP_ATTRS + (over >> 2); i++)
            n += (size_t)snprintf(text + n, sizeof text - n, ", a%d=7", i);
        n += (size_t)snprintf(text + n, sizeof text - n, "}}\nret %%a\n}\n");
        err = (rp_error){0};
        if (over) {
            assert_int_equal(rp_graph_parse(text, n, &g, &err), RP_INVALID);
            if (!strstr(err.text, why)) fail_msg("%d: %s", over, err.text);
            continue;
        }
        CHECK_OK(rp_graph_parse(text, n, &g, &err), &err);
        CHECK_OK(rp_graph_print(g, &printed, &err), &err);
        rp_graph_free(g);
        CHECK_OK(rp_graph_parse(printed, strlen(printed), &g, &err), &err);
        rp_free(printed);
        rp_attr a = RP_ATTR_INIT;
        CHECK_OK(rp_node_attr(g, rp_graph_at(g, RP_GRAPH_OUTPUTS, 0), "attrs", &a, &err), &err);
        assert_int_equal(a.n, RP_MAX_OP_ATTRS);
        for (uint32_t i = 0; i < a.n; i++)
            if (a.values[i].kind == RP_OP_I64S) {
                assert_int_equal(a.values[i].n, RP_MAX_OP_LIST);
                assert_int_equal(a.values[i].is[RP_MAX_OP_LIST - 1], 45);
            } else if (a.values[i].kind == RP_OP_STRING)
                assert_string_equal(a.values[i].s, longest);
            else
                assert_int_equal(a.values[i].i, 7);
        rp_graph_free(g);
    }
    longest[RP_MAX_OP_STRING] = 'y';
    d.name = "attrs::more";
    assert_int_equal(rp_op_register(&d, &err), RP_INVALID);
    if (!strstr(err.text, "a string of more than 255 bytes")) fail_msg("%s", err.text);
}

static void backends_read_them(void **state) {
    rp_error err = {0};
    rp_attr a = RP_ATTR_INIT;
    (void)state;
    rp_graph *g =
        parse("%a = custom %x {attrs={names=[\"b\"]}, name=\"attrs::lists\"}\nret %a", &err);
    CHECK_OK(err.code, &err);
    uint32_t at = rp_graph_at(g, RP_GRAPH_OUTPUTS, 0);
    CHECK_OK(rp_node_attr(g, at, "attrs", &a, &err), &err);
    assert_int_equal(a.kind, RP_ATTR_VALUES);
    assert_int_equal(a.n, 3);
    assert_string_equal(a.values[1].name, "eps");
    assert_true(a.values[1].f == 0.125);
    assert_string_equal(a.values[2].ss[0], "b");
    rp_graph_free(g);
}

/* --- calls ------------------------------------------------------------------------------------------ */

static rp_status run(const rp_op_attr *attrs, uint32_t n_attrs, const char *settings, float *y,
                     rp_error *err) {
    rp_graph *g = rp_graph_new("calls");
    rp_compilation_config *cfg = rp_config_new();
    rp_compiled *c = NULL;
    char copy[256];
    float x[N] = {1, 2, 3, 4};
    rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 1, 64))), made;
    rp_custom_args a = {.size = sizeof a,
                        .name = "attrs::curve",
                        .args = &in,
                        .n = 1,
                        .attrs = attrs,
                        .n_attrs = n_attrs};
    rp_custom_call(g, &a, &made, 1);
    rp_status st = rp_graph_finish(g, &made, 1, err);
    (void)snprintf(copy, sizeof copy, "%s", settings);
    for (char *word = strtok(copy, " "); word && st == RP_OK; word = strtok(NULL, " "))
        st = rp_config_set(cfg, word, err);
    if (st == RP_OK) st = rp_compile(g, cfg, &c, err);
    rp_buffer from = {RP_DTYPE_F32, 1, {N}, x}, out = {0};
    if (st == RP_OK) st = rp_compiled_outputs(c, &from, 1, &out, 1, err);
    out.data = y;
    if (st == RP_OK) st = rp_compiled_run(c, &from, 1, &out, 1, err);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st;
}

static const double offsets[] = {0.5, 1};
static const rp_op_attr twice[] = {
    {.name = "offsets", .kind = RP_OP_F64S, .n = 2, .fs = offsets},
    {.name = "times", .kind = RP_OP_I64, .i = 2},
    {.name = "factor", .kind = RP_OP_F64, .f = 3},
};

/* By the op's own function, by its lowering, and from a plan that is stored, in which text stands for the values. */
static void every_reader_sees_them(void **state) {
    static const char *const ways[] = {"level=0", "level=0 check_ops=true",
                                       "level=2 custom_ops=[\"all\"]", "level=2",
                                       "level=2 backend=eager"};
    char stored[320];
    (void)state;
    (void)snprintf(stored, sizeof stored, "level=2 custom_ops=[\"all\"] cache_dir=%s",
                   tree_new("stored"));
    for (size_t i = 0; i < 7; i++) {
        rp_error err = {0};
        float y[2 * N];
        CHECK_OK(run(twice, 3, i < 5 ? ways[i] : stored, y, &err), &err);
        for (int k = 0; k < 2 * N; k++)
            if (y[k] != (float)(3 * (k / 2 + 1)) + 1.5f)
                fail_msg("way %zu: y[%d] = %g", i, k, y[k]);
    }
}

/* A stored plan serves calls of its own attributes alone. */
static void they_are_in_the_key(void **state) {
    const rp_op_attr square[] = {{.name = "factor", .kind = RP_OP_F64, .f = 2},
                                 {.name = "mode", .kind = RP_OP_STRING, .s = "square"}};
    char settings[320];
    (void)state;
    NOT_ELSEWHERE("only the function on the host reads the mode");
    (void)snprintf(settings, sizeof settings, "level=2 custom_ops=[\"all\"] cache_dir=%s",
                   tree_new("keys"));
    for (int i = 0; i < 4; i++) {
        rp_error err = {0};
        float y[N];
        CHECK_OK(run(square, 1 + i % 2, settings, y, &err), &err);
        for (int k = 0; k < N; k++)
            assert_true(y[k] ==
                        (i % 2 ? 4.0f * (float)((k + 1) * (k + 1)) : 2.0f * (float)(k + 1)));
    }
}

static void a_call_that_is_wrong_says_so(void **state) {
    const rp_op_attr text = {.name = "factor", .kind = RP_OP_STRING, .s = "1"},
                     empty = {.name = "factor", .kind = RP_OP_STRING};
    rp_error err = {0};
    float y[N];
    (void)state;
    assert_int_equal(run(NULL, 0, "level=0", y, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "custom op attrs::curve: attribute 'factor' is missing"));
    err = (rp_error){0};
    assert_int_equal(run(&text, 1, "level=0", y, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "'factor' is a number, not a string"));
    err = (rp_error){0};
    assert_int_equal(run(&empty, 1, "level=0", y, &err), RP_INVALID);
    err = (rp_error){0};
    assert_int_equal(run(NULL, 1, "level=0", y, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "attrs of attrs::curve is NULL"));
}

/* Nothing has looked at the values of a call whose op has no schema. */
static void values_of_an_unknown_op_are_not_read(void **state) {
    static const rp_op_attr bad[] = {{.name = "a", .kind = RP_OP_STRING},
                                     {.name = "a", .kind = RP_OP_I64S, .n = 3},
                                     {.name = "a", .kind = RP_OP_STRINGS, .n = 1},
                                     {.kind = RP_OP_F64}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("unknown");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N)), made;
        rp_tensor_type type = {RP_DTYPE_F32, RP_SHAPE(N)};
        rp_custom_args a = {.size = sizeof a,
                            .name = "attrs::unknown",
                            .args = &x,
                            .n = 1,
                            .types = i ? &type : NULL,
                            .attrs = &bad[i],
                            .n_attrs = 1};
        rp_custom_call(g, &a, &made, 1);
        assert_int_equal(rp_graph_finish(g, &made, 1, &err), RP_NOT_FOUND);
        assert_non_null(strstr(err.text, "custom: 'attrs::unknown' is not registered"));
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_others_are_not_shown),
        cmocka_unit_test(each_difference_counts),
        cmocka_unit_test(the_text_is_canonical),
        cmocka_unit_test(calls_are_checked),
        cmocka_unit_test(schemas_are_checked),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(backends_read_them),
        cmocka_unit_test(every_reader_sees_them),
        cmocka_unit_test(they_are_in_the_key),
        cmocka_unit_test(a_call_that_is_wrong_says_so),
        cmocka_unit_test(values_of_an_unknown_op_are_not_read),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
