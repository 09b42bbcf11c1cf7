/* Graphs by the public API: checking, passes, later stages as text, and evaluation by three back ends. */
#include "support/check.h"
#include "support/heard.h"

#include "base/alloc.h"
#include "base/file.h"
#include "reprise/graph.h"

static const char softmax[] = "graph @soft(%x: f32[T,8]) -> f32[T,8] where T in [1,64] {\n"
                              "  %0 = amax %x {axis=1, keep=true} : f32[T,1]\n"
                              "  %1 = sub %x, %0 : f32[T,8]\n"
                              "  %2 = exp %1 : f32[T,8]\n"
                              "  %3 = sum %2 {axis=1, keep=true} : f32[T,1]\n"
                              "  %4 = div %2, %3 : f32[T,8]\n"
                              "  %5 = sqrt %2 : f32[T,8]\n"
                              "  ret %4\n}\n";

static rp_graph *parse(const char *text) {
    rp_graph *g = NULL;
    rp_error err = {0};
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    return g;
}

/* A graph that is not finished, or whose trace failed, is refused by name. */
static void unfinished_is_refused(void **state) {
    (void)state;
    rp_error err = {0};
    char *text = NULL;
    rp_graph *out = NULL, *g = rp_graph_new("open");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
    assert_int_equal(rp_graph_verify(g, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "graph @open is still being traced"));
    assert_int_equal(rp_graph_optimize(g, "", &out, NULL), RP_INVALID);
    assert_int_equal(rp_graph_lower_text(g, "c", NULL, &text, NULL), RP_INVALID);
    assert_int_equal(rp_graph_eval_text(g, RP_BACKEND_INTERP, 0, NULL, &text, NULL), RP_INVALID);
    (void)rp_reshape(x, RP_SHAPE(5));
    err = (rp_error){0};
    assert_int_not_equal(rp_graph_verify(g, &err), RP_OK);
    assert_null(strstr(err.text, "still being traced"));
    rp_graph_free(g);
    assert_int_equal(rp_graph_verify(NULL, NULL), RP_INVALID);
}

/* The memory of graphs is reserved for many at once: where there is none for one more, nothing of it is left. */
static void a_graph_without_a_place_leaves_nothing(void **state) {
    enum { MOST = 600 };
    rp_graph *g[MOST] = {0};
    rp_error err = {0};
    rp_status st = RP_OK;
    uint32_t n = 0;
    size_t live = 0;
    (void)state;
    while (st == RP_OK && n < MOST) {
        live = base_live();
        (void)base_sys_fail_nth(1);
        st = rp_graph_parse(softmax, strlen(softmax), &g[n], &err);
        (void)base_sys_fail_nth(0);
        n += st == RP_OK;
    }
    assert_int_equal(st, RP_NOMEM);
    assert_string_equal(err.text, "graph");
    assert_null(g[n]);
    assert_int_equal(base_live(), live);
    for (uint32_t i = 0; i < n; i++) rp_graph_free(g[i]);
}

/* A name is one leaf of one kind, whatever comes first; later failures do not hide the first one. */
static void a_name_is_of_one_kind(void **state) {
    typedef rp_tensor (*leaf_fn)(rp_graph * g, const char *name, rp_dtype dtype, rp_shape shape);
    static const struct {
        leaf_fn make;
        const char *what;
    } kinds[] = {{rp_input, "an input"}, {rp_param, "a param"}, {rp_state, "a state"}};
    const rp_shape s = RP_SHAPE(4);
    (void)state;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            rp_error err = {0};
            char want[160];
            rp_graph *g = rp_graph_new("named");
            rp_tensor x = kinds[a].make(g, "w", RP_DTYPE_F32, s), y;
            y = kinds[b].make(g, "w", RP_DTYPE_F32, s);
            if (a == b && a > 0) { /* the same leaf again */
                assert_int_equal(x.ref, y.ref);
                CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
            } else {
                (void)rp_reshape(x, RP_SHAPE(5));
                assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
                (void)snprintf(want, sizeof want,
                               a == b
                                   ? "input 'w' exists already"
                                   : "'w' is %s of graph @named already and cannot be %s as well",
                               kinds[a].what, kinds[b].what);
                if (!strstr(err.text, want)) fail_msg("wanted '%s', got '%s'", want, err.text);
            }
            rp_graph_free(g);
        }
}

/* dce drops the dead root; the input graph stays as it was. */
static void passes_make_a_new_graph(void **state) {
    (void)state;
    rp_error err = {0};
    rp_graph *g = parse(softmax), *out = NULL;
    char *before = NULL, *after = NULL, *again = NULL;
    CHECK_OK(rp_graph_print(g, &before, &err), &err);
    CHECK_OK(rp_graph_optimize(g, "dce", &out, &err), &err);
    CHECK_OK(rp_graph_print(out, &after, &err), &err);
    CHECK_OK(rp_graph_print(g, &again, &err), &err);
    assert_non_null(strstr(before, "sqrt"));
    assert_null(strstr(after, "sqrt"));
    assert_string_equal(before, again);
    rp_free(before), rp_free(after), rp_free(again);
    rp_graph_free(out);
    out = NULL;
    assert_int_equal(rp_graph_optimize(g, "dce,dec", &out, &err), RP_CONFIG);
    assert_null(out);
    rp_graph_free(g);
}

static void stages_are_text(void **state) {
    static const struct {
        const char *stage, *holds;
    } want[] = {{"fusion", "loop, rows T"},
                {"kir", "par"},
                {"c", "void *const *arg"},
                {"cuda", "__global__"},
                {"plan", "symbol T in [1,64]"}};
    rp_error err = {0};
    rp_graph *g = parse(softmax);
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char *text = NULL, *again = NULL;
        CHECK_OK(rp_graph_lower_text(g, want[i].stage, "portable", &text, &err), &err);
        CHECK_OK(rp_graph_lower_text(g, want[i].stage, "portable", &again, &err), &err);
        if (!strstr(text, want[i].holds))
            fail_msg("%s has no '%s': %s", want[i].stage, want[i].holds, text);
        assert_string_equal(text, again);
        rp_free(text), rp_free(again);
    }
    char *text = NULL;
    assert_int_equal(rp_graph_lower_text(g, "asm", NULL, &text, &err), RP_CONFIG);
    err = (rp_error){0};
    assert_int_equal(rp_graph_lower_text(g, "c", "sse9", &text, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "sse9"));
    rp_graph_free(g);
}

/* Each stage of graphs within a graph, in plans as plans within a plan: of both branches, of a loop's condition, of graphs within graphs, and of the memory that they write. */
static void stages_tell_of_loops_and_branches(void **state) {
    static const char source[] =
        "graph @many(%p: bool[], %x: f32[T,2], %m: f32[2] mutates) where T in [0,9] {\n"
        "  %r = scan %m, %x {carried=1, sliced=1, body=graph @step(%h: f32[2], %x: f32[2]) {\n"
        "    %c = call %x {body=graph @deep(%q: f32[2]) { %e = exp %q ret %e }}\n"
        "    %s = add %h, %c ret %s }}\n"
        "  %k = cond %p, %m, %r {\n"
        "    then=graph @set(%m: f32[2] mutates, %v: f32[2]) { %w = update %m, %v ret %w },\n"
        "    else=graph @leave(%m: f32[2], %v: f32[2]) { ret %v }}\n"
        "  %m1 = written %m, %k\n"
        "  %w = while %k {cond=graph @small(%k: f32[2]) {\n"
        "    %s = sum %k {axis=0} %l = const 9 %q = lt %s, %l ret %q },\n"
        "    body=graph @more(%k: f32[2]) { %n = exp %k ret %n }}\n"
        "  ret %m1, %w\n}\n";
    static const char *const stages[] = {"fusion",        "kir",  "schedule", "c",
                                         "schedule-cuda", "cuda", "plan"};
    static const char *const bodies[][3] = {{"body", "step", "many"},  {"body", "deep", "step"},
                                            {"then", "set", "many"},   {"else", "leave", "many"},
                                            {"cond", "small", "many"}, {"body", "more", "many"}};
    rp_graph *g = parse(source);
    (void)state;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        rp_error err = {0};
        char *text = NULL, name[64];
        const char *mark = *stages[i] == 'c' ? "/*" : ";";
        CHECK_OK(rp_graph_lower_text(g, stages[i], "portable", &text, &err), &err);
        for (size_t k = 0; k < 6; k++) {
            if (strcmp(stages[i], "plan") == 0)
                (void)snprintf(name, sizeof name, "plan %s: ", bodies[k][1]);
            else
                (void)snprintf(name, sizeof name, "\n%s %s @%s of @%s: %%", mark, bodies[k][0],
                               bodies[k][1], bodies[k][2]);
            const char *at = strstr(text, name);
            if (!at && !(at = strncmp(text, name + 1, strlen(name + 1)) == 0 ? text : NULL))
                fail_msg("no %s in %s", name, text);
            if (k == 1 && i < 6) assert_true(strstr(at, "fused_exp_0") || strstr(at, "=exp"));
        }
        rp_free(text);
    }
    rp_graph_free(g);
}

static char *code_for(const rp_graph *g, const char *isa) {
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_graph_lower_text(g, "c", isa, &text, &err), &err);
    return text;
}

/* No name, an empty one and auto are this machine's; what has no templates is told, and is the one below. */
static void instruction_sets_have_names(void **state) {
    static const char *const same[][2] = {
        {NULL, ""}, {NULL, "auto"}, {NULL, "AUTO"}, {"amx", "avx512"}, {"avx2", "avx2"}};
    rp_graph *g = parse("graph @lin(%x: f32[T,64]) -> f32[T,16] where T in [1,64] {\n"
                        "  %0 = param @w : q4_1[16,64]\n  %1 = dequant %0 : f32[16,64]\n"
                        "  %2 = matmul %x, %1 {trans_b=true} : f32[T,16]\n  ret %2\n}\n");
    base_buf said;
    (void)state;
    heard_start(&said, "");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *a = code_for(g, same[i][0]), *b = code_for(g, same[i][1]);
        assert_string_equal(a, b);
        rp_free(a), rp_free(b);
    }
    assert_string_equal(said.data, "isa=amx becomes avx512: no amx templates yet\n");
    heard_done(&said);
    char *a = code_for(g, "portable"), *b = code_for(g, "avx2");
    assert_string_not_equal(a, b);
    rp_free(a), rp_free(b);
    rp_graph_free(g);
}

/* The numbers of two texts differ by at most tol. */
static void compare(const char *a, const char *b, double tol) {
    size_t lines = 0;
    while (*a && *b) {
        const char *ea = strchr(a, '\n'), *eb = strchr(b, '\n'), *va = strchr(a, '='),
                   *vb = strchr(b, '=');
        assert_true(ea && eb && va && vb && va < ea && vb < eb);
        double x = strtod(va + 1, NULL), y = strtod(vb + 1, NULL);
        if (!(x - y <= tol && y - x <= tol))
            fail_msg("%.*s and %.*s", (int)(ea - a), a, (int)(eb - b), b);
        a = ea + 1;
        b = eb + 1;
        lines++;
    }
    assert_true(!*a && !*b && lines > 0);
}

static void back_ends_agree(void **state) {
    static const char linear[] =
        "graph @lin(%x: f32[T,64]) -> (f32[T,16], i32[T]) where T in [1,64] by 2 {\n"
        "  %0 = param @w : q4_1[16,64]\n"
        "  %1 = dequant %0 : f32[16,64]\n"
        "  %2 = matmul %x, %1 {trans_b=true} : f32[T,16]\n"
        "  %3 = argmax %2 {axis=1} : i32[T]\n"
        "  ret %2, %3\n}\n";
    const char *const graphs[] = {softmax, linear};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rp_graph *g = parse(graphs[i]);
        rp_error err = {0};
        char *want = NULL, *cpu = NULL, *eager = NULL;
        CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_INTERP, 11, "T=6", &want, &err), &err);
        CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_CPU, 11, "T=6", &cpu, &err), &err);
        CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_CPU_EAGER, 11, "T=6", &eager, &err), &err);
        assert_int_equal(rp_graph_eval_text(g, (rp_backend)9, 11, "T=6", &eager, &err), RP_INVALID);
        assert_string_equal(err.text, "no backend has the number 9");
        compare(want, cpu, 1e-5);
        compare(want, eager, 1e-5);
        rp_free(want), rp_free(cpu), rp_free(eager);
        rp_graph_free(g);
    }
}

/* Tables of a model have sizes that no input tells: they are numbers, here 3 and the least one. */
static void sizes_of_weights_are_numbers(void **state) {
    static const char text[] =
        "graph @rows(%id: i32[T], %unused: f32[4]) -> (f32[T,4], f32[T,4], f32[T,4])"
        " where T in [1,64], P in [1,99], Q in [2,9] {\n"
        "  %0 = param @table : f32[P,4]\n"
        "  %1 = state @cache : f32[Q,4]\n"
        "  %2 = gather %0, %id : f32[T,4]\n"
        "  %3 = neg %2 : f32[T,4]\n"
        "  %4 = sum %1 {axis=0} : f32[4]\n"
        "  %5 = mul %2, %4 : f32[T,4]\n"
        "  ret %5, %3, %2\n}\n";
    static const rp_backend all[] = {RP_BACKEND_INTERP, RP_BACKEND_CPU, RP_BACKEND_CPU_EAGER};
    rp_graph *g = parse(text);
    char *want = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_error err = {0};
        char *got = NULL;
        CHECK_OK(rp_graph_eval_text(g, all[i], 11, "T=6,P=3", &got, &err), &err);
        if (!want)
            want = got;
        else
            compare(want, got, 1e-5);
        const char *negated = strstr(got, "out1[5,3] = "), *plain = strstr(got, "out2[5,3] = ");
        assert_true(negated && plain);
        assert_true(strtod(plain + 12, NULL) != 0);
        assert_true(strtod(plain + 12, NULL) == -strtod(negated + 12, NULL));
        if (got != want) rp_free(got);
    }
    rp_free(want);
    rp_graph_free(g);
}

/* With the digits that tell neighbours of the type apart. */
static void values_are_shown_by_their_type(void **state) {
    static const char source[] =
        "graph @types(%x: f64[2,1], %n: i64[], %h: f16[2], %b: bool[2]) {\n"
        "  %third = const 0.1 : f64[]\n"
        "  %y = mul %x, %third\n"
        "  %big = const 9007199254740992 : i64[]\n"
        "  %m = add %n, %big\n"
        "  %i = cast %x {dtype=i32}\n"
        "  ret %y, %m, %i, %h, %b\n}\n";
    static const char want[] = "out0[0,0] = -0x1.3b5cccccccccdp-11 (-0.00060150623321533205)\n"
                               "out0[1,0] = 0x1.00e3333333333p-10 (0.00097994804382324214)\n"
                               "out1 = 9007199254741009\n"
                               "out2[0,0] = 0\n"
                               "out2[1,0] = 0\n"
                               "out3[0] = 0x1.46cp-2 (0.319091797)\n"
                               "out3[1] = -0x1.abp-3 (-0.208496094)\n"
                               "out4[0] = 1\n"
                               "out4[1] = 1\n";
    static const rp_backend all[] = {RP_BACKEND_INTERP, RP_BACKEND_CPU, RP_BACKEND_CPU_EAGER};
    rp_graph *g = parse(source);
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_error err = {0};
        char *text = NULL;
        CHECK_OK(rp_graph_eval_text(g, all[i], 3, NULL, &text, &err), &err);
        assert_string_equal(text, want);
        rp_free(text);
    }
    rp_graph_free(g);
}

/* One back end compiles, the other two do not: what they say of kernels tells. */
static void back_ends_are_what_they_say(void **state) {
    static const rp_backend all[] = {RP_BACKEND_INTERP, RP_BACKEND_CPU_EAGER, RP_BACKEND_CPU};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_graph *g = parse(softmax);
        rp_error err = {0};
        base_buf said;
        char *text = NULL;
        heard_start(&said, "kernel_code");
        CHECK_OK(rp_graph_eval_text(g, all[i], 11, "T=6", &text, &err), &err);
        assert_int_equal(said.data && strstr(said.data, "red_fused"), all[i] == RP_BACKEND_CPU);
        heard_done(&said);
        rp_free(text);
        rp_graph_free(g);
    }
}

static void seeds_and_sizes(void **state) {
    (void)state;
    rp_error err = {0};
    rp_graph *g = parse(softmax);
    char *a = NULL, *b = NULL, *c = NULL;
    CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, NULL, &a, &err), &err);
    CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, "T=2", &b, &err), &err);
    CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_INTERP, 2, "T=2", &c, &err), &err);
    assert_string_equal(a, b); /* the smallest size that is no special case */
    assert_string_not_equal(a, c);
    rp_free(a), rp_free(b), rp_free(c);
    static const char *const bad[] = {"T=65", "T=0", "T=x", "T", "B=2", "T=2,", "=2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = NULL;
        if (rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, bad[i], &text, NULL) != RP_CONFIG)
            fail_msg("took %s", bad[i]);
    }
    rp_graph_free(g);
}

/* Rows of one store do not meet, whoever reads their slots as well, before or behind it. */
static void random_slots_are_apart(void **state) {
    static const char *const order[] = {"  %n = neg %slots\n  %s = kv_store %kc, %k, %slots\n",
                                        "  %s = kv_store %kc, %k, %slots\n  %n = neg %slots\n"};
    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            char graph[300], *text = NULL;
            rp_error err = {0};
            int first = 0, slot, n = 0;
            (void)snprintf(graph, sizeof graph,
                           "graph @g(%%k: f32[8,16], %%slots: i32[8]) -> i32[8] {\n"
                           "  %%kc = state @kc : f32[4,1,4,16]\n%s  ret %%n\n}\n",
                           order[i]);
            rp_graph *g = parse(graph);
            CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_INTERP, seed, NULL, &text, &err), &err);
            for (const char *c = text; (c = strstr(c, "= ")); c++, n++) {
                assert_int_equal(sscanf(c, "= %d", &slot), 1);
                if (n == 0) first = -slot;
                assert_int_equal(-slot, (first + n) % 16);
            }
            assert_int_equal(n, 8);
            rp_free(text);
            rp_graph_free(g);
        }
}

/* The number of rows that a graph over T has at given sizes; 0 when those are refused. */
static uint32_t rows_at(const char *range, const char *sizes, rp_error *err) {
    char graph[160], *text = NULL;
    uint32_t n = 0;
    (void)snprintf(
        graph, sizeof graph,
        "graph @rows(%%x: f32[T]) -> f32[T] where T in %s {\n  %%0 = neg %%x : f32[T]\n  ret "
        "%%0\n}\n",
        range);
    rp_graph *g = parse(graph);
    if (rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, sizes, &text, err) == RP_OK)
        for (const char *c = text; (c = strchr(c, '\n')); c++) n++;
    rp_free(text);
    rp_graph_free(g);
    return n;
}

/* What is not given is the least size that is no special case, in the range and by the divisor of the symbol. */
static void sizes_keep_to_their_range(void **state) {
    static const struct {
        const char *range, *sizes;
        uint32_t rows;
        const char *says;
    } cases[] = {
        {"[1,64]", NULL, 2, ""},
        {"[0,64]", "", 2, ""},
        {"[1,1]", NULL, 1, ""},
        {"[5,9]", NULL, 5, ""},
        {"[1,64] by 16", NULL, 16, ""},
        {"[17,64] by 16", NULL, 32, ""},
        {"[32,64] by 16", NULL, 32, ""},
        {"[2,64] by 2", NULL, 2, ""},
        {"[5,9] by 4", NULL, 8, ""},
        {"[0,3] by 4", NULL, 0, ""}, /* the only one */
        {"[0,1]", NULL, 1, ""},
        {"[1,64]", "T=64", 64, ""},
        {"[1,64]", "T=65", 0, "T=65: a number from 1 to 64 is expected"},
        {"[3,64]", "T=3", 3, ""},
        {"[3,64]", "T=2", 0, "T=2: a number from 3 to 64 is expected"},
        {"[1,64]", "T=-1", 0, "T=-1: a number from 1 to 64 is expected"},
        {"[16,64] by 16", "T=48", 48, ""},
        {"[16,64] by 16", "T=47", 0,
         "T=47: a number from 16 to 64 that its divisor divides is expected"},
        {"[2,64] by 2", "T=6", 6, ""},
        {"[2,64] by 2", "T=7", 0,
         "T=7: a number from 2 to 64 that its divisor divides is expected"},
        {"[1,64]", "T=2,T=3", 0, "size 'T' is given twice"},
        {"[1,64]", "T=2,B=3", 0, "the graph has no size called 'B'"},
        {"[1,64]", "T=2;", 0, "T=2;: a number from 1 to 64 is expected"},
        {"[1,64]", "T", 0, "size 'T' is not NAME=NUMBER; write for example T=4,R=2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        uint32_t rows = rows_at(cases[i].range, cases[i].sizes, &err);
        if (rows != cases[i].rows || strcmp(err.text, cases[i].says) != 0)
            fail_msg("%s, %s: %u rows, '%s'", cases[i].range,
                     cases[i].sizes ? cases[i].sizes : "nothing", rows, err.text);
    }
}

/* Passes do not change which numbers a graph asks for. */
static void passes_keep_the_numerics(void **state) {
    static const rp_numerics all[] = {RP_NUMERICS_DEFAULT, RP_NUMERICS_EXACT, RP_NUMERICS_FAST};
    (void)state;
    rp_graph *g = parse(softmax);
    assert_int_equal(rp_graph_numerics(g), RP_NUMERICS_EXACT);
    for (size_t i = 0; i < 3; i++)
        for (int named = 0; named < 2; named++) {
            rp_error err = {0};
            rp_graph *out = NULL;
            rp_graph_set_numerics(g, all[i]);
            CHECK_OK(rp_graph_optimize(g, named ? "dce,fold" : NULL, &out, &err), &err);
            assert_int_equal(rp_graph_numerics(out), all[i]);
            rp_graph_free(out);
        }
    rp_graph_free(g);
}

/* Lost allocations: an error, and nothing stays allocated. */
static void survives_lost_allocations(void **state) {
    (void)state;
    rp_graph *g = parse(softmax);
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_graph *out = NULL;
        rp_error err = {0};
        rp_status st = rp_graph_optimize(g, "", &out, &err);
        rp_graph_free(out);
        assert_true(st == RP_OK || st == RP_NOMEM);
        if (base_live() != live) fail_msg("optimize: allocation %llu leaks", (unsigned long long)n);
    }
    FOR_EACH_ALLOC_FAILURE (n) {
        char *text = NULL;
        rp_error err = {0};
        rp_status st = rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, "T=3", &text, &err);
        rp_free(text);
        assert_true(st == RP_OK || st == RP_NOMEM);
        if (base_live() != live) fail_msg("eval: allocation %llu leaks", (unsigned long long)n);
    }
    FOR_EACH_ALLOC_FAILURE (n) {
        char *text = NULL;
        rp_error err = {0};
        rp_status st = rp_graph_lower_text(g, "plan", "portable", &text, &err);
        rp_free(text);
        assert_true(st == RP_OK || st == RP_NOMEM);
        if (base_live() != live) fail_msg("plan: allocation %llu leaks", (unsigned long long)n);
    }
    rp_graph_free(g);
}

/* What passes find in the graphs within is not told where a text alone is made, as little as what they find in the graph. */
static void a_text_tells_of_no_pass(void **state) {
    static const char text[] =
        "graph @within(%h: f32[64,16], %x: f32[3,64,16]) {\n"
        "  %0 = scan %h, %x {carried=1, sliced=1, body=graph @step(%h: f32[64,16], %x: f32[64,16]) "
        "{\n"
        "    %0 = matmul %h, %x {trans_b=true}\n    %1 = amax %0 {axis=1, keep=true}\n"
        "    %2 = sub %0, %1\n    %3 = exp %2\n    %4 = sum %3 {axis=1, keep=true}\n"
        "    %5 = div %3, %4\n    %6 = matmul %5, %x\n    ret %6, %6 }}\n"
        "  ret %0\n}\n";
    static const char *const stages[] = {"plan", "c"};
    rp_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    for (int i = 0; i < 2; i++) {
        char *made = NULL;
        base_buf heard;
        heard_start(&heard, "+inductor");
        CHECK_OK(rp_graph_lower_text(g, stages[i], "portable", &made, &err), &err);
        rp_log_set_callback(NULL, NULL);
        if (heard.len) fail_msg("%s: %s", stages[i], heard.data);
        heard_done(&heard);
        rp_free(made);
    }
    rp_graph_free(g);
}

/* A part of a value that later ones need no more is there until it is returned. */
static void what_is_returned_stays_until_the_end(void **state) {
    static const char text[] = "graph @g(%x: f32[64]) {\n  %0 = mul %x, %x\n"
                               "  %1 = slice %0 {axis=0, start=3, stop=40}\n"
                               "  %2 = add %0, %x\n  %3 = mul %2, %2\n  %4 = add %3, %3\n"
                               "  %5 = mul %4, %4\n  %6 = add %5, %5\n  ret %1, %6\n}\n";
    static const rp_backend backends[] = {RP_BACKEND_CPU_EAGER, RP_BACKEND_CPU};
    rp_graph *g = NULL;
    rp_error err = {0};
    char *want = NULL;
    (void)state;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, NULL, &want, &err), &err);
    for (int i = 0; i < 2; i++) {
        char *got = NULL;
        CHECK_OK(rp_graph_eval_text(g, backends[i], 1, NULL, &got, &err), &err);
        assert_string_equal(got, want);
        rp_free(got);
    }
    rp_free(want);
    rp_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_returned_stays_until_the_end),
        cmocka_unit_test(a_text_tells_of_no_pass),
        cmocka_unit_test(unfinished_is_refused),
        cmocka_unit_test(a_graph_without_a_place_leaves_nothing),
        cmocka_unit_test(a_name_is_of_one_kind),
        cmocka_unit_test(passes_make_a_new_graph),
        cmocka_unit_test(stages_are_text),
        cmocka_unit_test(stages_tell_of_loops_and_branches),
        cmocka_unit_test(instruction_sets_have_names),
        cmocka_unit_test(back_ends_agree),
        cmocka_unit_test(sizes_of_weights_are_numbers),
        cmocka_unit_test(values_are_shown_by_their_type),
        cmocka_unit_test(back_ends_are_what_they_say),
        cmocka_unit_test(seeds_and_sizes),
        cmocka_unit_test(random_slots_are_apart),
        cmocka_unit_test(sizes_keep_to_their_range),
        cmocka_unit_test(passes_keep_the_numerics),
        cmocka_unit_test(survives_lost_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
