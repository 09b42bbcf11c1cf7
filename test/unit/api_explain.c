/* What a graph is compiled to, as it is told: nodes in kernels, bytes, call sites, refusals. */
#include "support/check.h"

#include <jansson.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "reprise/reprise.h"

/* setting: one, or an object of some. */
static json_t *explain(const rp_graph *g, const char *setting, const char *sizes) {
    rp_error err = {0};
    char *text = NULL;
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK((*setting == '{' ? rp_config_set_json : rp_config_set)(cfg, setting, &err), &err);
    CHECK_OK(rp_graph_explain(g, cfg, sizes, &text, &err), &err);
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    rp_free(text);
    rp_config_free(cfg);
    return o;
}

static int line;

/* softmax(x w) */
static rp_graph *softmax(void) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("softmax");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 1, 64), 8));
    rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(8, 16));
    line = __LINE__ + 1;
    rp_tensor y = rp_softmax(rp_matmul(x, w, false), 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    return g;
}

static const json_t *first_piece(const json_t *o) {
    return json_array_get(json_object_get(o, "pieces"), 0);
}

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

/* Each op in one kernel, with its line of the program; sources are there; bytes are those of the sizes. */
static void kernels_have_their_nodes(void **state) {
    (void)state;
    rp_graph *g = softmax();
    json_t *o = explain(g, "level=2", "T=4"), *more = explain(g, "level=2", "T=8"), *k, *n;
    const json_t *kernels = json_object_get(first_piece(o), "kernels");
    char want[40];
    size_t i, j, ops = 0;
    (void)snprintf(want, sizeof want, "api_explain.c:%d ", line);
    json_array_foreach(kernels, i, k) {
        assert_true(strlen(json_string_value(json_object_get(k, "source"))) > 100);
        json_array_foreach(json_object_get(k, "nodes"), j, n) {
            ops++;
            if (!strstr(json_string_value(json_object_get(n, "sites")), want))
                fail_msg("%s", json_string_value(json_object_get(n, "sites")));
        }
    }
    assert_int_equal(json_array_size(kernels), 2);
    assert_int_equal(ops, 6); /* matmul, amax, sub, exp, sum, div */
    k = json_array_get(json_object_get(first_piece(more), "kernels"), 1);
    assert_true(number(json_array_get(kernels, 1), "bytes") == 2 * 4 * 16 * 4);
    assert_true(number(k, "bytes") == 2 * 8 * 16 * 4);
    assert_true(json_array_size(json_object_get(first_piece(o), "refused")) > 0);
    json_decref(o);
    json_decref(more);
    rp_graph_free(g);
}

/* More products of x than it remembers groups: the last is told how many are too far back, besides 16 with a reason. */
static void fusions_too_far_back_are_counted(void **state) {
    enum { PRODUCTS = 18 };
    rp_error err = {0};
    rp_graph *g = rp_graph_new("far");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(32, 16)), y[PRODUCTS];
    uint32_t far = 0;
    size_t i;
    json_t *o, *r;
    (void)state;
    for (uint32_t k = 0; k < PRODUCTS; k++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%u", k);
        y[k] = rp_matmul(x, rp_input(g, name, RP_DTYPE_F32, RP_SHAPE(16, 16)), false);
    }
    CHECK_OK(rp_graph_finish(g, y, PRODUCTS, &err), &err);
    o = explain(g, "level=2", "");
    json_array_foreach(json_object_get(first_piece(o), "refused"), i, r) {
        if (!json_object_get(r, "groups")) continue;
        assert_null(json_object_get(r, "group"));
        assert_true(number(r, "groups") == ++far);
        assert_true(json_string_length(json_object_get(r, "value")) > 0);
        assert_true(json_string_length(json_object_get(r, "reason")) > 0);
    }
    assert_int_equal(far, PRODUCTS - 17);
    json_decref(o);
    rp_graph_free(g);
}

/* What is checked of a call, and the line that made it so. */
static void guards_have_their_cause(void **state) {
    (void)state;
    rp_graph *g = softmax();
    json_t *o = explain(g, "level=2", NULL);
    const json_t *guards = json_object_get(o, "guards"), *first = json_array_get(guards, 0);
    assert_int_equal(json_array_size(guards), 3);
    assert_string_equal(json_string_value(json_object_get(first, "text")), "1 <= T <= 64");
    assert_non_null(strstr(json_string_value(json_object_get(first, "by")), "rp_input"));
    json_decref(o);
    rp_graph_free(g);
}

/* Each size and each leaf has the line that brought it. */
static void guards_have_their_own_lines(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("lines");
    rp_dim t = rp_symbol(g, "T", 1, 64), u = rp_symbol(g, "U", 1, 64);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(t, 8));
    rp_tensor y = rp_input(g, "y", RP_DTYPE_F32, RP_SHAPE(8, u));
    const int lines[] = {__LINE__ - 2, __LINE__ - 1, __LINE__ - 2, __LINE__ - 1}; /* T, U, x, y */
    (void)state;
    y = rp_matmul(x, y, false);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    json_t *o = explain(g, "level=2", NULL);
    const json_t *guards = json_object_get(o, "guards");
    assert_int_equal(json_array_size(guards), 4);
    for (size_t i = 0; i < 4; i++) {
        char want[40];
        const char *by = json_string_value(json_object_get(json_array_get(guards, i), "by"));
        (void)snprintf(want, sizeof want, "api_explain.c:%d rp_input", lines[i]);
        if (!strstr(by, want)) fail_msg("guard %zu: %s, not %s", i, by, want);
    }
    json_decref(o);
    rp_graph_free(g);
}

/* The range of a size, and what it is a multiple of. */
static void ranges_are_told(void **state) {
    static const char *const ranges[][2] = {{"[1,64]", "1 <= T <= 64"},
                                            {"[2,64] by 2", "2 <= T <= 64, a multiple of 2"},
                                            {"[0,9] by 3", "0 <= T <= 9, a multiple of 3"},
                                            {"[5,5]", "5 <= T <= 5"}};
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        char text[160];
        rp_error err = {0};
        rp_graph *g = NULL;
        (void)snprintf(text, sizeof text,
                       "graph @f(%%x: f32[T]) -> f32[T] where T in %s {\n  %%0 = neg %%x\n  ret "
                       "%%0\n}\n",
                       ranges[i][0]);
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        json_t *o = explain(g, "level=2", NULL);
        const json_t *first = json_array_get(json_object_get(o, "guards"), 0);
        assert_string_equal(json_string_value(json_object_get(first, "text")), ranges[i][1]);
        json_decref(o);
        rp_graph_free(g);
    }
}

static const char *text_of(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

static json_t *explain_text(const char *text, const char *setting, const char *sizes) {
    rp_error err = {0};
    rp_graph *g = NULL;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    json_t *o = explain(g, setting, sizes);
    rp_graph_free(g);
    return o;
}

typedef struct told {
    const char *text, *reason; /* what they begin with */
} told;

/* The list of o has these n, in order. */
static void has_told(const json_t *o, const char *list, const told *want, size_t n) {
    size_t i;
    json_t *x;
    if (json_array_size(json_object_get(o, list)) != n)
        fail_msg("%s: %zu, not %zu", list, json_array_size(json_object_get(o, list)), n);
    json_array_foreach(json_object_get(o, list), i, x) {
        const char *text = text_of(x, "text"), *reason = text_of(x, "reason");
        if (strncmp(text, want[i].text, strlen(want[i].text)) != 0) fail_msg("%s", text);
        if (strncmp(reason, want[i].reason, strlen(want[i].reason)) != 0 ||
            (*reason && !*want[i].reason))
            fail_msg("%s: %s, not %s", text, reason, want[i].reason);
    }
}

static const char same[] = "the same bits at each call";

/* Whether they are others at the next call depends on whether that gives anything that decides them: a key, also by way of memory, or a
 * size. What nobody reads is not there. */
static void random_bits_are_told(void **state) {
    static const char text[] =
        "graph @g(%key: i64[], %m: i64[4] mutates, %x: f32[T]) where T in [1,64] {\n"
        "  %p = param @p : i64[4]\n  %s = state @s : i64[4]\n"
        "  %i = iota {axis=0, dtype=i64, shape=[4]}\n  %c = const 7 : i64[]\n"
        "  %size = size {dtype=i64, size=T}\n"
        "  %a = philox %i, %key\n  %b = philox %i, %c\n  %d = philox %key, %i\n"
        "  %e = philox %p, %c\n  %f = philox %s, %c\n  %g = philox %m, %c\n"
        "  %h = philox %i, %size\n  %j = philox %b, %c\n  %k = philox %b, %key\n"
        "  ret %a, %e, %f, %g, %h, %j, %k\n}\n";
    static const told want[] = {{"%5 = philox %2, %key", ""},  {"%6 = philox %2, %3", same},
                                {"%8 = philox %0, %3", ""},    {"%9 = philox %1, %3", ""},
                                {"%10 = philox %m, %3", ""},   {"%11 = philox %2, %4", ""},
                                {"%12 = philox %6, %3", same}, {"%13 = philox %6, %key", ""}};
    (void)state;
    json_t *o = explain_text(text, "level=2", NULL);
    has_told(o, "random", want, sizeof want / sizeof *want);
    has_told(o, "host", NULL, 0);
    json_decref(o);
}

/* The graphs of a loop have their own, whose arguments are given. */
static void random_bits_of_a_body_are_told(void **state) {
    static const char text[] =
        "graph @g(%x: i32[]) {\n  %k = const 5 : i32[]\n"
        "  %y = scan %x, %k {carried=1, sliced=0, length=3, body=graph @b(%x: i32[], %k: i32[]) {\n"
        "    %c = const 9 : i32[]\n    %a = philox %x, %c\n    %b = philox %c, %c\n"
        "    %d = philox %c, %k\n    %e = add %a, %b\n    %f = add %d, %e\n    ret %f }}\n"
        "  ret %y\n}\n";
    static const told want[] = {
        {"%1 = philox %x, %0", ""}, {"%2 = philox %0, %0", same}, {"%3 = philox %0, %k", ""}};
    (void)state;
    json_t *o = explain_text(text, "level=2", NULL);
    has_told(o, "random", NULL, 0);
    const json_t *kernels = json_object_get(first_piece(o), "kernels");
    const json_t *scan = json_array_get(kernels, json_array_size(kernels) - 1);
    const json_t *body = json_array_get(json_object_get(scan, "bodies"), 0);
    has_told(body, "random", want, sizeof want / sizeof *want);
    json_decref(o);
}

static rp_status plain_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                           rp_error *err) {
    (void)call, (void)args, (void)n_args, (void)err;
    return RP_OK;
}

/* An op that has source for every device, one that is a function alone, a call, a branch, one that nobody reads, and two kinds of loops. */
static json_t *explain_seen(const char *setting, bool with_function) {
    static const char text[] =
        "graph @g(%%x: i32[], %%p: bool[]) {\n"
        "  %%both = custom %%x {name=\"explain::both\"}\n"
        "  %%call = call %%both {body=graph @b(%%x: i32[]) {\n %%y = neg %%x\n ret %%y }}\n"
        "  %%cond = cond %%p, %%call {then=graph @b(%%x: i32[]) {\n ret %%x },\n"
        "    else=graph @c(%%x: i32[]) {\n %%y = neg %%x\n ret %%y }}\n"
        "  %%unread = cond %%p, %%x {then=graph @b(%%x: i32[]) {\n ret %%x },\n"
        "    else=graph @d(%%x: i32[]) {\n %%y = abs %%x\n ret %%y }}\n"
        "  %%while = while %%cond {cond=graph @b(%%x: i32[]) {\n %%y = ne %%x, %%x\n ret %%y },\n"
        "    body=graph @c(%%x: i32[]) {\n %%y = neg %%x\n ret %%y }}\n"
        "  %%scan = scan %%while {carried=1, sliced=0, length=3, body=graph @b(%%x: i32[]) {\n"
        "    %%y = neg %%x\n ret %%y }}\n%s  ret %%scan\n}\n";
    static const char function[] = "  %u = custom %x {name=\"explain::plain\"}\n";
    char whole[2048];
    (void)snprintf(whole, sizeof whole, text, with_function ? function : "");
    return explain_text(whole, setting, NULL);
}

/* A function, also one whose result nobody reads, unless there is source where code is generated; what decides. Not calls, and not loops
 * whose end sizes say. */
static void what_the_host_sees_is_told(void **state) {
    static const char source[] =
        "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {}\n";
    static const rp_op_desc ops[] = {
        {.size = sizeof *ops, .name = "explain::plain", .cpu = plain_cpu},
        {.size = sizeof *ops,
         .name = "explain::both",
         .cpu = plain_cpu,
         .c_source = source,
         .cuda_source = source}};
    static const char reads[] = "the host reads what decides",
                      back[] = "the host reads back from the GPU what decides";
    static const told source_of[] = {{"%2 = cond", reads}, {"%4 = while", reads}},
                      gpu[] = {{"%2 = cond", back}, {"%4 = while", back}},
                      eager[] = {{"%0 = custom", "a function of the host runs it"},
                                 {"%2 = cond", reads},
                                 {"%4 = while", reads},
                                 {"%6 = custom", "a function of the host runs it"}};
    static const struct {
        const char *setting;
        bool with_function;
        const told *want;
        size_t n;
    } cases[] = {{"level=2", false, source_of, 2},
                 {"level=2", true, &eager[1], 3},
                 {"backend=eager", true, eager, 4},
                 {"{\"level\":2,\"device\":\"cuda\"}", false, gpu, 2}};
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < 2; i++) CHECK_OK(rp_op_register(&ops[i], &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *o = explain_seen(cases[i].setting, cases[i].with_function);
        has_told(o, "host", cases[i].want, cases[i].n);
        json_decref(o);
    }
}

static void halved(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                   uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    out[0] = rp_neg(in[0]);
}

/* As rp_compile: where code is generated, what an op is made of, with its neighbours, unless it is to be kept; else its function. */
static void ops_give_way_to_what_they_are_made_of(void **state) {
    static const char text[] = "graph @g(%x: f32[4]) {\n  %a = custom %x {name=\"explain::made\"}\n"
                               "  %y = exp %a\n  ret %y\n}\n";
    static const rp_op_desc op = {
        .size = sizeof op, .name = "explain::made", .cpu = plain_cpu, .lower = halved};
    static const told kept[] = {{"%0 = custom", "a function of the host runs it"}};
    static const struct {
        const char *setting;
        size_t n, n_kernels;
    } cases[] = {{"level=2", 0, 1},
                 {"{\"level\":2,\"custom_ops\":[\"all\"]}", 1, 2},
                 {"backend=eager", 1, 2},
                 {"backend=aot_eager", 1, 2}};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&op, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *o = explain_text(text, cases[i].setting, NULL);
        has_told(o, "host", kept, cases[i].n);
        assert_int_equal(json_array_size(json_object_get(first_piece(o), "kernels")),
                         cases[i].n_kernels);
        json_decref(o);
    }
}

/* Each memory of a kernel once, also what it reads as two operands: packed weights, inputs, outputs and values between kernels. */
static void bytes_are_those_of_its_memory(void **state) {
    static const char text[] =
        "graph @g(%x: f32[T,64], %z: f32[U,64]) -> (f32[T,128], f32[U,U]) where T in [1,512], U in "
        "[2,64] {\n  %w = param @w : q8_0[128,64]\n  %u = neg %x\n  %d = dequant %w\n"
        "  %m = matmul %u, %d {trans_b=true}\n  %v = permute %z {axes=[1,0]}\n"
        "  %p = matmul %z, %v\n  ret %m, %p\n}\n";
    static const struct {
        const char *in, *name;
        int bytes, times; /* kernels that have it */
    } want[] = {{"input", "x", 5 * 64 * 4, 1},        {"input", "z", 3 * 64 * 4, 1},
                {"output", "out0", 5 * 128 * 4, 1},   {"output", "out1", 3 * 3 * 4, 1},
                {"pack", "0", 128 * 64 / 32 * 34, 1}, {"arena", "%0", 5 * 64 * 4, 2}};
    enum { N = sizeof want / sizeof *want };
    int seen[N] = {0};
    json_t *k, *a;
    size_t i, j;
    (void)state;
    json_t *o = explain_text(text, "level=2", "T=5,U=3");
    json_array_foreach(json_object_get(first_piece(o), "kernels"), i, k) {
        double sum = 0;
        json_array_foreach(json_object_get(k, "args"), j, a) {
            int n = 0;
            while (n < N && (strcmp(text_of(a, "in"), want[n].in) != 0 ||
                             strcmp(text_of(a, "name"), want[n].name) != 0))
                n++;
            if (n == N || number(a, "bytes") != want[n].bytes)
                fail_msg("%s %s: %g", text_of(a, "in"), text_of(a, "name"), number(a, "bytes"));
            seen[n]++;
            sum += number(a, "bytes");
        }
        assert_true(number(k, "bytes") == sum);
    }
    for (int n = 0; n < N; n++)
        if (seen[n] != want[n].times) fail_msg("%s %s", want[n].in, want[n].name);
    json_decref(o);
}

/* Launches are counted through all pieces. */
static void launches_have_numbers(void **state) {
    static const char text[] = "graph @g(%x: f32[8]) -> f32[8] {\n  %a = neg %x\n  %b = exp %a\n"
                               "  %c = tanh %b\n  %d = exp %c\n  %e = sin %d\n  ret %e\n}\n";
    json_t *p, *k;
    size_t i, j, n = 0;
    (void)state;
    json_t *o = explain_text(text, "{\"level\":3,\"splitting_ops\":[\"reprise::exp\"]}", NULL);
    json_array_foreach(json_object_get(o, "pieces"), i, p) {
        if (!json_object_get(p, "kernels")) n++; /* equal to one before: it has a launch, too */
        json_array_foreach(json_object_get(p, "kernels"), j,
                           k) if (number(k, "launch") != (double)n++)
            fail_msg("%s is launch %g", text_of(k, "name"), number(k, "launch"));
    }
    assert_int_equal(n, 5);
    assert_true(number(o, "launches") == 5);
    json_decref(o);
}

static uint32_t occurrences(const char *text, const char *what) {
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) n++;
    return n;
}

/* A launch with a kernel for few rows and one for many has the text of both. */
static void every_variant_has_its_source(void **state) {
    static const char text[] =
        "graph @g(%x: f32[T,256]) -> f32[T,512] where T in [1,512] {\n  %w = param @w : "
        "bf16[512,256]\n  %m = matmul %x, %w {trans_b=true}\n  ret %m\n}\n";
    (void)state;
    json_t *o = explain_text(text, "{\"level\":2,\"device\":\"cuda\"}", NULL), *k;
    size_t i, both = 0;
    json_array_foreach(json_object_get(first_piece(o), "kernels"), i, k) {
        char name[2][96];
        const char *source = text_of(k, "source");
        (void)snprintf(name[0], sizeof name[0], " %s_r1(", text_of(k, "name"));
        (void)snprintf(name[1], sizeof name[1], " %s_r8(", text_of(k, "name"));
        both += occurrences(source, name[0]) == 1 && occurrences(source, name[1]) == 1;
    }
    assert_int_equal(both, 1);
    json_decref(o);
}

/* Memory that no bound is known of is not in the arena, however large it is in this call. */
static void what_grows_is_not_in_the_arena(void **state) {
    rp_error err = {0};
    (void)state;
    for (int open = 0; open < 2; open++) {
        json_t *v;
        size_t i, grows = 0;
        double top = 0;
        rp_graph *g = rp_graph_new("open");
        rp_dim rows = rp_symbol(g, "T", 1, open ? INT64_MAX : 100000);
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rows, 16));
        rp_tensor w = rp_input(g, "w", RP_DTYPE_F32, RP_SHAPE(16, 16));
        rp_tensor y = rp_matmul(rp_softmax(rp_matmul(x, w, false), 0), w, false);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        json_t *o = explain(g, "level=2", "T=100000");
        const json_t *arena = json_object_get(o, "arena");
        json_array_foreach(json_object_get(arena, "values"), i, v) {
            const double end = number(v, "offset") + number(v, "bytes");
            if (number(v, "offset") < 0)
                grows++;
            else if (end > top)
                top = end;
        }
        assert_true(number(arena, "top") == top && top <= number(arena, "bytes"));
        assert_int_equal(grows > 0, open);
        assert_int_equal(top < 1e6, open);
        json_decref(o);
        rp_graph_free(g);
    }
}

/* A product of the library has no source; compiling makes one where the setting or the autotuner wants it. */
static void built_in_products_are_told(void **state) {
    static const char text[] =
        "graph @g(%a: f32[3,2], %b: f32[2,4]) {\n  %0 = matmul %a, %b\n  ret %0\n}\n";
    static const struct {
        const char *setting;
        bool built_in;
    } how[] = {
        {"{\"level\":2}", true},
        {"{\"level\":2,\"built_in_products\":false}", false},
        {"{\"level\":2,\"inductor_compile_config\":{\"max_autotune\":true}}", false},
        {"{\"level\":2,\"inductor_compile_config\":{\"coordinate_descent_tuning\":true}}", false},
        {"{\"level\":2,\"inductor_compile_config\":{\"max_autotune\":false}}", true}};
    rp_error err = {0};
    rp_graph *g = NULL;
    (void)state;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        json_t *o = explain(g, how[i].setting, NULL);
        const json_t *kernels = json_object_get(first_piece(o), "kernels");
        const char *source =
            json_string_value(json_object_get(json_array_get(kernels, 0), "source"));
        assert_int_equal(json_array_size(kernels), 1);
        if ((*source == 0) != how[i].built_in) fail_msg("%s: %s", how[i].setting, source);
        json_decref(o);
    }
    rp_graph_free(g);
}

/* Op by op there are no groups; a GPU need not be there. */
static void every_target_is_told(void **state) {
    static const struct {
        const char *setting, *isa, *backend;
    } cases[] = {{"device=cuda", "cuda", "cuda"}, {"backend=eager", "", "eager"}};
    (void)state;
    rp_graph *g = softmax();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *o = explain(g, cases[i].setting, NULL);
        const char *isa = json_string_value(json_object_get(o, "isa"));
        if (*cases[i].isa) assert_string_equal(isa, cases[i].isa);
        assert_string_equal(json_string_value(json_object_get(o, "backend")), cases[i].backend);
        assert_true(json_array_size(json_object_get(first_piece(o), "kernels")) > 0);
        json_decref(o);
    }
    rp_graph_free(g);
}

/* Spans come as they end, within the call; of one depth each begins behind the one before, and a deeper one lies within the next
 * that is less deep. */
static void spans_are_those_of_the_call(void **state) {
    static const char *const stages[] = {
        "split", "passes", "fuse", "lower and generate", "submod_0", "assemble the plan"};
    static const double ROUND = 1e-5;
    enum { DEPTHS = 4, N = sizeof stages / sizeof *stages };
    double behind[DEPTHS] = {0}, first[DEPTHS] = {0}, last = 0;
    bool seen[N] = {false};
    json_t *span;
    size_t i;
    (void)state;
    rp_graph *g = softmax();
    const int64_t t0 = base_now_ns();
    json_t *o = explain(g, "level=2", "T=4");
    const double all = (double)(base_now_ns() - t0) / 1e6;
    json_array_foreach(json_object_get(o, "spans"), i, span) {
        const double start = number(span, "start_ms"), end = start + number(span, "ms");
        const int depth = (int)number(span, "depth");
        const char *name = json_string_value(json_object_get(span, "name"));
        assert_in_range(depth, 0, DEPTHS - 1);
        if (start < behind[depth] - ROUND || end < start || end < last - ROUND || end > all + ROUND)
            fail_msg("%s: %g to %g of %g, behind %g", name, start, end, all, behind[depth]);
        if (depth + 1 < DEPTHS && first[depth + 1] > 0 && first[depth + 1] < start)
            fail_msg("%s begins at %g, what it has at %g", name, start, first[depth + 1]);
        for (int d = depth + 1; d < DEPTHS; d++) first[d] = 0;
        if (first[depth] == 0) first[depth] = start;
        behind[depth] = last = end;
        for (int k = 0; k < N; k++) seen[k] = seen[k] || strcmp(name, stages[k]) == 0;
    }
    for (int k = 0; k < N; k++)
        if (!seen[k]) fail_msg("no span of '%s'", stages[k]);
    json_decref(o);
    rp_graph_free(g);
}

/* sum over the rows of x: a loop within a loop. */
static void add_row(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                    void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_add(in[0], rp_exp(in[1]));
}

static void add_rows(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    const rp_scan_args s = {
        .carried = in, .n_carried = 1, .sliced = &in[1], .n_sliced = 1, .axis = 0};
    (void)n_in, (void)n_out, (void)user;
    (void)rp_scan(g, add_row, NULL, &s, out, 1);
}

static rp_graph *loops(void) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("loops");
    rp_tensor h = rp_input(g, "h", RP_DTYPE_F32, RP_SHAPE(8));
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 0, 64), 8)), y;
    y = rp_call_graph(g, add_rows, NULL, (rp_tensor[]){h, x}, 2, &y, 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    return g;
}

static const json_t *kernel(const json_t *graph, size_t i) {
    return json_array_get(json_object_get(first_piece(graph), "kernels"), i);
}

static const char *string(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

/* What a kernel runs is below it, to the innermost: its kernels, nodes and bytes; a node with a graph is one line. */
static void loops_are_told(void **state) {
    static const struct {
        const char *setting;
        bool fused;
    } cases[] = {{"level=0", false},
                 {"backend=eager", false},
                 {"level=2", true},
                 {"level=3", true},
                 {"device=cuda", true}};
    (void)state;
    rp_graph *g = loops();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *o = explain(g, cases[i].setting, "T=4");
        const json_t *call = kernel(o, 0), *rows, *scan, *row, *add, *node;
        assert_string_equal(string(call, "name"), "call");
        assert_int_equal(json_array_size(json_object_get(call, "bodies")), 1);
        rows = json_array_get(json_object_get(call, "bodies"), 0);
        assert_string_equal(string(rows, "as"), "body");
        assert_null(json_object_get(rows, "times"));
        scan = kernel(rows, 0);
        assert_string_equal(string(scan, "name"), "scan");
        assert_true(number(json_array_get(json_object_get(scan, "args"), 1), "bytes") == 4 * 8 * 4);
        row = json_array_get(json_object_get(scan, "bodies"), 0);
        assert_string_equal(string(row, "times"), "T");
        add = kernel(row, 0);
        assert_null(json_object_get(add, "bodies"));
        assert_true(number(add, "bytes") == (cases[i].fused ? 3 : 2) * 8 * 4);
        node = json_array_get(json_object_get(scan, "nodes"), 0);
        assert_int_equal(node != NULL, cases[i].fused);
        if (node && strncmp(string(node, "text"), "%0 = scan %in0, %in1 {body=@", 28) != 0)
            fail_msg("%s", string(node, "text"));
        if (node) assert_null(strchr(string(node, "text"), '\n'));
        assert_int_equal(json_array_size(json_object_get(add, "nodes")), cases[i].fused ? 2 : 0);
        json_decref(o);
    }
    rp_graph_free(g);
}

/* Which branch is which, and what was not fused in one. */
static void branches_are_told(void **state) {
    static const char text[] =
        "graph @a(%p: bool[], %x: f32[4], %w: f32[4,4]) {\n"
        "  %y = cond %p, %x, %w {then=graph @t(%x: f32[4], %w: f32[4,4]) {\n"
        "    %m = matmul %w, %w\n    %s = sum %m {axis=0}\n    %y = add %s, %x\n    ret %y },\n"
        "    else=graph @e(%x: f32[4], %w: f32[4,4]) {\n    %y = neg %x\n    ret %y }}\n  ret "
        "%y\n}\n";
    static const char *const is[][3] = {{"else", "e", "neg"}, {"then", "t", "matmul"}};
    rp_error err = {0};
    rp_graph *g = NULL;
    (void)state;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    json_t *o = explain(g, "level=2", NULL);
    const json_t *bodies = json_object_get(kernel(o, 0), "bodies");
    assert_int_equal(json_array_size(bodies), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *b = json_array_get(bodies, i);
        const json_t *nodes = json_object_get(kernel(b, 0), "nodes");
        assert_string_equal(string(b, "as"), is[i][0]);
        assert_string_equal(string(b, "name"), is[i][1]);
        assert_string_equal(string(json_array_get(nodes, 0), "op"), is[i][2]);
        assert_int_equal(json_array_size(json_object_get(first_piece(b), "refused")) > 0, i);
    }
    json_decref(o);
    rp_graph_free(g);
}

static void what_is_wrong_is_refused(void **state) {
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    rp_graph *g = softmax();
    assert_int_equal(rp_graph_explain(g, NULL, "T=65", &text, &err), RP_CONFIG);
    assert_int_equal(rp_graph_explain(NULL, NULL, NULL, &text, &err), RP_INVALID);
    assert_int_equal(rp_graph_explain(g, NULL, NULL, NULL, &err), RP_INVALID);
    assert_null(text);
    rp_graph_free(g);
}

static void survive(rp_graph *g) {
    char *first = NULL; /* makes what the process keeps */
    rp_error none = {0};
    CHECK_OK(rp_graph_explain(g, NULL, NULL, &first, &none), &none);
    rp_free(first);
    const uint64_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        char *text = NULL;
        rp_error err = {0};
        rp_status st = rp_graph_explain(g, NULL, NULL, &text, &err);
        rp_free(text);
        assert_true(st == RP_OK || st == RP_NOMEM);
        if (base_live() != live) fail_msg("allocation %llu leaks", (unsigned long long)n);
    }
    rp_graph_free(g);
}

static void survives_lost_allocations(void **state) {
    (void)state;
    survive(softmax());
    survive(loops());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_have_their_nodes),
        cmocka_unit_test(guards_have_their_cause),
        cmocka_unit_test(guards_have_their_own_lines),
        cmocka_unit_test(random_bits_are_told),
        cmocka_unit_test(random_bits_of_a_body_are_told),
        cmocka_unit_test(what_the_host_sees_is_told),
        cmocka_unit_test(ops_give_way_to_what_they_are_made_of),
        cmocka_unit_test(bytes_are_those_of_its_memory),
        cmocka_unit_test(launches_have_numbers),
        cmocka_unit_test(every_variant_has_its_source),
        cmocka_unit_test(what_grows_is_not_in_the_arena),
        cmocka_unit_test(ranges_are_told),
        cmocka_unit_test(built_in_products_are_told),
        cmocka_unit_test(spans_are_those_of_the_call),
        cmocka_unit_test(every_target_is_told),
        cmocka_unit_test(loops_are_told),
        cmocka_unit_test(branches_are_told),
        cmocka_unit_test(fusions_too_far_back_are_counted),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(survives_lost_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
