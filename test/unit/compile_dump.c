/* The dumped stages: names sort in the order of the stages, texts read back as they are, and the channels say the same. */
#include "support/dumped.h"
#include "support/heard.h"
#include "support/plans.h"
#include "support/trees.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "compile/benchmark.h"
#include "kir/kir.h"
#include "pass/inplace.h"
#include "pass/passes.h"
#include "target/target.h"

static char folder[64];
static const char *const ops[] = {"reprise::attention"};
static const compile_toolchain none;
static const compile_options inductor = {.backend = &compile_inductor,
                                         .isa = GEN_ISA_PORTABLE,
                                         .splitting_ops = ops,
                                         .n_splitting_ops = 1,
                                         .toolchain = &none,
                                         .passes = true};

static rp_graph *small(uint32_t layers) {
    rp_error err = {0};
    rp_graph *g = NULL;
    const small_llama_options o = {.layers = layers, .weights = RP_DTYPE_Q4_1};
    CHECK_OK(small_llama_new(&o, &g, &err), &err);
    return g;
}

static void check_ir(const char *path, const char *text, size_t size) {
    rp_error err = {0};
    ir_graph *g = NULL;
    char *again = NULL;
    if (ir_parse(text, size, &g, &err) != RP_OK) fail_msg("%s: %s", path, err.text);
    CHECK_OK(ir_print_string(g, &again, &err), &err);
    assert_string_equal(again, text);
    base_free(again);
    ir_graph_free(g);
}

/* A file holds the kernels of a piece one after the other. */
static uint32_t check_kir(const char *path, const char *text) {
    uint32_t n = 0;
    for (const char *at = text; *at; n++) {
        rp_error err = {0};
        kir_func *f = NULL;
        base_buf again;
        const char *end = strstr(at, "\n}\n");
        assert_non_null(end);
        size_t size = (size_t)(end + 3 - at);
        if (kir_parse(at, size, &f, &err) != RP_OK) fail_msg("%s: %s", path, err.text);
        base_buf_init(&again, 0);
        kir_print(f, &again);
        assert_int_equal(again.len, size);
        assert_memory_equal(again.data, at, size);
        base_buf_done(&again);
        kir_free(f);
        at += size;
    }
    return n;
}

typedef struct listing {
    base_buf names;
    uint32_t kernels;
    char stage;
} listing;

static rp_status visit(void *user, const char *name, bool is_dir, rp_error *err) {
    listing *l = user;
    char path[300], *text = NULL;
    size_t size = 0, n = strlen(name);
    (void)is_dir;
    assert_true(name[0] >= l->stage);
    l->stage = name[0];
    base_buf_printf(&l->names, "%s\n", name);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    RP_TRY(base_file_read(path, 1 << 24, &text, &size, err));
    assert_true(size > 0);
    if (strcmp(name + n - 3, ".ir") == 0) check_ir(path, text, size);
    if (n > 4 && strcmp(name + n - 4, ".kir") == 0) l->kernels += check_kir(path, text);
    base_free(text);
    return RP_OK;
}

static void every_stage_reads_back(void **state) {
    rp_error err = {0};
    listing l = {0};
    rp_graph *g = small(3);
    plan *p = NULL;
    (void)state;
    assert_int_equal(tree_make(folder, sizeof folder), 0);
    base_buf_init(&l.names, 0);
    CHECK_OK(compile_dump_stages(trace_graph_ir(g), &inductor, folder, &err), &err);
    p = plan_of(trace_graph_ir(g));
    CHECK_OK(compile_dump_plan(p, trace_graph_ir(g), folder, &err), &err);
    CHECK_OK(base_dir_list(folder, visit, &l, &err), &err);
    /* Pieces 2 and 4 are equal, and so are the attentions 1, 3 and 5. */
    CHECK_HEARD(&l.names, "0_traced.small.ir\n0_traced.small.sh\n1_split.small.submod_000.ir\n"
                          "1_split.small.submod_001.ir\n1_split.small.submod_002.ir\n"
                          "1_split.small.submod_006.ir\n1_split.small.txt\n2_pass.");
    CHECK_HEARD(&l.names, "2_pass.small.submod_006.5_dce.ir\n3_fusion.");
    CHECK_HEARD(&l.names, "3_fusion.small.submod_006.txt\n4_kernels.small.submod_000");
    CHECK_HEARD(&l.names, "4_kernels.small.submod_006.kir\n4_schedule.small.submod_000");
    CHECK_HEARD(&l.names, "4_schedule.small.submod_006.sched\n5_source.");
    CHECK_HEARD(&l.names, "5_source.small.submod_006.c\n6_plan.small.txt\n");
    assert_true(l.kernels >= 6);
    assert_null(strstr(l.names.data, "submod_004")); /* equal ones are written once */
    base_buf_done(&l.names);
    CHECK_OK(base_path_remove(folder, &err), &err);
    plan_free(p);
    rp_graph_free(g);
}

/* A pass that changes nothing. */
static rp_status looks(const void *self, const ir_graph *in, ir_graph **out, uint32_t *n_matches,
                       rp_error *err) {
    (void)self;
    *n_matches = 1;
    return pass_dce(in, out, err);
}

/* Passes of others are; what they say they say where the graph is compiled. */
static void what_is_skipped_is_not_written(void **state) {
    static const char *const skips[] = {"dce", "fold"};
    static const pass_extra extra = {.name = "looks", .uuid = "1", .run = looks};
    base_buf heard;
    rp_error err = {0};
    listing l = {0};
    rp_graph *g = small(3);
    compile_options o = inductor;
    (void)state;
    o.skip_passes = skips;
    o.n_skip_passes = 2;
    o.extra_passes = &extra;
    o.n_extra_passes = 1;
    assert_int_equal(tree_make(folder, sizeof folder), 0);
    base_buf_init(&l.names, 0);
    heard_start(&heard, "+inductor");
    CHECK_OK(compile_dump_stages(trace_graph_ir(g), &o, folder, &err), &err);
    assert_int_equal(heard.len, 0);
    heard_done(&heard);
    CHECK_OK(base_dir_list(folder, visit, &l, &err), &err);
    CHECK_HEARD(&l.names, "2_pass.small.submod_006.0_looks.ir\n");
    CHECK_HEARD(&l.names, "5_source.small.submod_006.c");
    for (int i = 0; i < 2; i++) assert_null(strstr(l.names.data, skips[i]));
    base_buf_done(&l.names);
    CHECK_OK(base_path_remove(folder, &err), &err);
    rp_graph_free(g);
}

static uint32_t count(const char *text, const char *what) {
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}

/* Graphs of one name that differ, one that two nodes have, and one within another. */
static const char with_bodies[] =
    "graph @many(%p: bool[], %h: f32[4], %x: f32[T,4]) -> (f32[4], f32[T,4]) where T in [1,64] {\n"
    "  %l = scan %h, %x, %p {carried=1, sliced=1, body=graph @step(%h: f32[4], %x: f32[4], %p: "
    "bool[]) {\n    %c = cond %p, %x {\n      then=graph @same(%x: f32[4]) { %y = exp %x ret %y },"
    "\n      else=graph @same(%x: f32[4]) { %y = sin %x ret %y }}\n    %s = add %h, %c\n    ret "
    "%s, "
    "%c }}\n  %a = result %l {index=1}\n  %c = call %l {body=graph @same(%x: f32[4]) { %y = exp %x "
    "ret %y }}\n  ret %c, %a\n}\n";

static rp_graph *bodies(void) {
    rp_error err = {0};
    rp_graph *g = NULL;
    CHECK_OK(rp_graph_parse(with_bodies, sizeof with_bodies - 1, &g, &err), &err);
    return g;
}

/* Graphs within a graph have stages of their own, each different one once. */
static void graphs_within_are_written(void **state) {
    static const char *const files[] = {"1_split.many.%s.txt",
                                        "1_split.many.%s.submod_000.ir",
                                        "2_pass.many.%s.submod_000.5_dce.ir",
                                        "3_fusion.many.%s.submod_000.txt",
                                        "4_kernels.many.%s.submod_000.kir",
                                        "4_schedule.many.%s.submod_000.sched",
                                        "5_source.many.%s.submod_000.c"};
    static const struct {
        const char *file, *where, *kernel;
    } want[] = {
        {"step", "body @step of @many, submod_0: %0 = scan %in0, %in1, %in2 {body=@step, ", "add"},
        {"same", "else @same of @step, submod_0: %0 = cond %in0, %in1 {else=@same, ", "sin"},
        {"same-2", "then @same of @step, submod_0: %0 = cond %in0, %in1 {else=@same, ", "exp"}};
    enum { N = sizeof want / sizeof *want };
    rp_error err = {0};
    listing l = {0};
    size_t size;
    base_buf heard;
    rp_graph *g = bodies();
    (void)state;
    assert_int_equal(tree_make(folder, sizeof folder), 0);
    heard_start(&heard, "kernel_code");
    CHECK_OK(compile_dump_stages(trace_graph_ir(g), &inductor, folder, &err), &err);
    for (int i = 0; i < N; i++) {
        char name[80], line[80];
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            (void)snprintf(name, sizeof name, files[k], want[i].file);
            char *text = (char *)tree_read(folder, name, &size);
            text[size] = 0;
            if (k == 0 && strncmp(text, want[i].where, strlen(want[i].where)) != 0)
                fail_msg("%s: %s", name, text);
            if (!strstr(text, k ? want[i].kernel : "submod_0, graph 0, "))
                fail_msg("%s: no %s in %s", name, want[i].kernel, text);
            free(text);
        }
        (void)snprintf(line, sizeof line, "poi_fused_%s_0 of @%s, submod_0:", want[i].kernel,
                       want[i].file);
        if (i) CHECK_HEARD(&heard, line);
    }
    heard_done(&heard);
    base_buf_init(&l.names, 0);
    CHECK_OK(base_dir_list(folder, visit, &l, &err), &err);
    assert_int_equal(count(l.names.data, "3_fusion.many.same"), 2);
    base_buf_done(&l.names);
    CHECK_OK(base_path_remove(folder, &err), &err);
    rp_graph_free(g);
}

static rp_graph *halved(const char *name, int64_t n) {
    rp_graph *g = rp_graph_new(name);
    rp_tensor y = rp_mul_scalar(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(n)), 0.5);
    rp_error err = {0};
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    return g;
}

/* Of one name, as entries of a function are; an equal one is that which is there. */
static void graphs_of_one_name_have_numbers(void **state) {
    static const struct {
        int64_t n;
        const char *plan;
    } is[] = {{4, "6_plan.one-name.txt"},   {8, "6_plan.one-name-2.txt"},
              {4, "6_plan.one-name.txt"},   {12, "6_plan.one-name-3.txt"},
              {8, "6_plan.one-name-2.txt"}, {100, "6_plan.one-name-4.txt"}};
    (void)state;
    assert_int_equal(tree_make(folder, sizeof folder), 0);
    for (size_t i = 0; i < 6 + 100; i++) {
        rp_error err = {0};
        char path[4096], runs[4096];
        char *text = NULL;
        size_t size = 0;
        rp_graph *g = halved("one-name", i < 6 ? is[i].n : 200 + (int64_t)i);
        plan *p = plan_of(trace_graph_ir(g));
        CHECK_OK(compile_dump_stages(trace_graph_ir(g), &inductor, folder, &err), &err);
        CHECK_OK(compile_dump_plan(p, trace_graph_ir(g), folder, &err), &err);
        plan_free(p);
        const char *plan_file = i < 6 ? is[i].plan : i < 66 ? NULL : "6_plan.one-name-64.txt";
        if (plan_file) {
            int n = (int)strlen(plan_file) - (int)strlen("6_plan..txt");
            (void)snprintf(path, sizeof path, "%s/%s", folder, plan_file);
            assert_int_equal(access(path, R_OK), 0);
            (void)snprintf(path, sizeof path, "%s/0_traced.%.*s.sh", folder, n, plan_file + 7);
            (void)snprintf(runs, sizeof runs, "0_traced.%.*s.ir\"", n, plan_file + 7);
            CHECK_OK(base_file_read(path, 4096, &text, &size, &err), &err);
            if (!strstr(text, runs)) fail_msg("%s does not run it", path);
            base_free(text);
        }
        rp_graph_free(g);
    }
    rp_error err = {0};
    CHECK_OK(base_path_remove(folder, &err), &err);
}

/* Above each kernel what it computes, with sizes. */
static void kernels_show_their_nodes(void **state) {
    static const char text[] = "graph @sums(%x: f32[T,8]) -> (f32[T]) where T in [2,64] {\n"
                               "  %0 = exp %x: f32[T,8]\n"
                               "  %1 = sum %0 {axis=1}: f32[T]\n"
                               "  ret %1\n}\n";
    static const char want[] = "/* red_fused_exp_sum_0\n"
                               "  %0 = exp %in0                             : f32[T,8]\n"
                               "  %1 = sum %0 {axis=1, keep=false}          : f32[T]\n"
                               " */\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)state;
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    char *made = dumped(g, &inductor, "5_source.sums.submod_000.c");
    if (!strstr(made, want)) fail_msg("no %s in %s", want, made);
    free(made);
    ir_graph_free(g);
}

/* And in front of that from where in the program it is. */
static void kernels_show_their_lines(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("lines");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(64));
    rp_tensor y = rp_at(rp_exp(x), "rp_exp", "my.c", 7); /* as the public headers have it */
    static const char want[] = "/* poi_fused_exp_0: my.c:7 rp_exp\n  %0 = exp %in0 ";
    (void)state;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    char *made = dumped(trace_graph_ir(g), &inductor, "5_source.lines.submod_000.c");
    if (!strstr(made, want)) fail_msg("no %s in %s", want, made);
    free(made);
    rp_graph_free(g);
}

/* The program that times kernels: those that are whole in the source, on memory of their sizes. */
static void kernels_can_be_timed_alone(void **state) {
    static const char text[] = "graph @of_two(%x: f32[T,8], %i: i32[R], %q: f32[Q]) -> "
                               "(f32[T,8], f32[R,4], f32[Q]) "
                               "where R in [8,300] by 8, T in [2,64], Q in [300,900] by 8 {\n"
                               "  %0 = param @table: f32[50,4]\n"
                               "  %2 = exp %x: f32[T,8]\n"
                               "  %3 = gather %0, %i: f32[R,4]\n"
                               "  %4 = exp %q: f32[Q]\n"
                               "  ret %2, %3, %4\n}\n";
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)state;
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    char *made = dumped(g, &inductor, "5_source.of_two.submod_000.bench.c");
    assert_non_null(strstr(made, "#include \"5_source.of_two.submod_000.c\"\n"));
    assert_non_null(strstr(made, "{{2048, 0x00}, {2048, 0x3c}}")); /* exp of f32[64,8] */
    assert_non_null(strstr(made, "{1024, 0x00}"));                 /* i32[256]: in range as rows */
    assert_non_null(strstr(made, "{800, 0x3c}"));
    assert_non_null(strstr(made, "R = 256"));
    assert_non_null(strstr(made, "Q = 304"));
    free(made);
    ir_graph_free(g);
}

/* Of a launch that is one of two functions by its rows, the first takes just as many as it is for. */
static void rows_up_to_the_last_are_timed(void **state) {
    static const char text[] = "graph @g(%x: f32[4,64]) {\n  %0 = sum %x {axis=1, keep=true}\n"
                               "  %1 = sum %x {axis=0}\n  ret %0, %1 }";
    const lower_options o = {.isa = GEN_ISA_PORTABLE};
    lower_piece low;
    rp_error err = {0};
    ir_graph *g = NULL;
    int64_t rows = 0;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(target_lower(g, &o, &low, &err), &err);
    assert_true(low.n_launches == 2 && low.launches[0].n_alts == 1);
    assert_true(ir_dim_is_const(low.dims, low.launches[0].rows, &rows));
    lower_launch *l = &low.launches[0];
    const char *own = l->alts[0].symbol, *other = low.launches[1].alts[0].symbol;
    l->alts[1] = l->alts[0];
    l->alts[1].symbol = other;
    l->n_alts = 2;
    for (int64_t less = 0; less < 2; less++) {
        char line[80];
        base_buf b;
        l->alts[0].max = rows - less;
        base_buf_init(&b, 0);
        CHECK_OK(compile_benchmark_print(g, &low, GEN_ISA_PORTABLE, GEN_CC_GCC, "k.c", &b, &err),
                 &err);
        (void)snprintf(line, sizeof line, "{\"%s\", ", own);
        assert_int_equal(strstr(b.data, line) != NULL, !less);
        base_buf_done(&b);
    }
    lower_done(&low);
    ir_graph_free(g);
}

/* Every generated kernel has its own text, whole and no more. */
static void kernels_are_told_apart(void **state) {
    rp_error err = {0};
    base_buf heard;
    rp_graph *g = small(2);
    compile_stats stats = {0};
    plan *p = NULL;
    (void)state;
    const rp_compiler lowering = lowers_only();
    compile_options o = inductor;
    o.backend = &lowering;
    CHECK_OK(compile_graph(trace_graph_ir(g), &o, &p, &stats, &err), &err);
    heard_start(&heard, "kernel_code");
    CHECK_OK(compile_dump_stages(trace_graph_ir(g), &inductor, NULL, &err), &err);
    uint32_t kernels = 0; /* of each distinct piece, although equal ones are compiled once */
    for (uint32_t i = 0; i < p->n_pieces; i++)
        for (uint32_t k = 0; p->pieces[i].distinct == i && k < p->pieces[i].n; k++)
            kernels += p->functions[p->launches[p->pieces[i].first + k].alts[0].function].module !=
                       PLAN_BUILTIN;
    assert_int_equal(count(heard.data, " of submod_"), kernels);
    assert_int_equal(count(heard.data, "[kernel_code] void "), kernels);
    for (const char *at = heard.data; (at = strstr(at, " of submod_")); at++) {
        static const char close[] = "\n[kernel_code] }\n";
        const char *next = strstr(at + 1, " of submod_"), *end = at + strlen(at);
        while (next && next[-1] != '\n') next--; /* where its line begins */
        if (next) end = next;
        assert_memory_equal(end - (sizeof close - 1), close, sizeof close - 1);
    }
    assert_true(stats.kernels < kernels);
    heard_done(&heard);
    plan_free(p);
    rp_graph_free(g);
}

static void pieces_and_schedule_are_heard(void **state) {
    rp_error err = {0};
    base_buf heard;
    rp_graph *g = small(3);
    plan *p = plan_of(trace_graph_ir(g));
    (void)state;
    heard_start(&heard, "graph,schedule,dynamo");
    compile_log_step(trace_graph_ir(g), &inductor, false);
    CHECK_OK(compile_dump_stages(trace_graph_ir(g), &inductor, NULL, &err), &err);
    CHECK_OK(compile_dump_plan(p, NULL, NULL, &err), &err);
    CHECK_HEARD(&heard, "[dynamo] Step 2: calling compiler function inductor for small\n");
    CHECK_HEARD(&heard, "[graph] ===== small: 7 pieces, 4 compiled, 3 distinct =====\n");
    CHECK_HEARD(&heard, "[graph] submod_4, graph 2, same as submod_2\n");
    CHECK_HEARD(&heard, "[schedule] schedule of small: 7 pieces, ");
    CHECK_HEARD(&heard, "[schedule] submod_4, graph 2, same as submod_2, launches ");
    CHECK_HEARD(&heard, " bytes at the largest sizes\n");
    CHECK_HEARD(&heard, ", reuses %");
    heard_done(&heard);
    plan_free(p);
    rp_graph_free(g);
}

/* A launch has a kernel for each range of rows, but for the range in which it does nothing. */
static void what_a_piece_became_is_counted(void **state) {
    static char version[] = "gcc 12";
    base_buf heard;
    rp_graph *g = small(1);
    const compile_toolchain cc = {.version = version};
    compile_options o = inductor;
    const split_piece sp = {
        .submod = 3, .graph_index = 1, .graph = (ir_graph *)(uintptr_t)trace_graph_ir(g)};
    lower_launch l[] = {{.n_alts = 1, .alts = {{.symbol = "one"}}},
                        {.n_alts = 3, .alts = {{.max = 1}, {.symbol = "few"}, {.symbol = "many"}}},
                        {.n_alts = 2, .alts = {{.symbol = "two"}, {.symbol = "three"}}},
                        {.n_alts = 2, .alts = {{.symbol = "@attend"}, {.symbol = "@split"}}},
                        {.n_alts = 1, .custom = "my::op"}};
    const lower_piece low = {.launches = l, .n_launches = 5};
    char want[160];
    (void)state;
    compile_log_lowered(&sp, &low, 1.25); /* nobody listens */
    heard_start(&heard, "inductor");
    compile_log_lowered(&sp, &low, 1.26);
    (void)snprintf(want, sizeof want,
                   "[inductor] submod_3: %u nodes lowered to 5 launches: 5 kernels generated, 2 "
                   "built in (1.3 ms)\n",
                   ir_graph_count(sp.graph));
    assert_string_equal(heard.data, want);
    base_buf_clear(&heard);
    compile_log_code(&sp, &o, "0123abcd", 2.0);
    o.toolchain = NULL;
    compile_log_code(&sp, &o, NULL, 2.0);
    o.toolchain = &cc;
    compile_log_code(&sp, &o, NULL, 20.04);
    const compile_nvrtc host = {.version = "none"}, gpu = {.arch = "sm_90", .version = "NVRTC 13"};
    o.nvrtc = &host;
    compile_log_code(&sp, &o, NULL, 1);
    o.nvrtc = &gpu;
    compile_log_code(&sp, &o, NULL, 2);
    assert_string_equal(
        heard.data,
        "[inductor] submod_3: fx graph cache hit for key 0123abcd\n"
        "[inductor] submod_3: Compiling graph 1 for shape None with cc for portable takes 2.0 ms\n"
        "[inductor] submod_3: Compiling graph 1 for shape None with gcc 12 for portable takes 20.0 "
        "ms\n"
        "[inductor] submod_3: Compiling graph 1 for shape None with gcc 12 for portable takes 1.0 "
        "ms\n"
        "[inductor] submod_3: Compiling graph 1 for shape None with NVRTC 13 for sm_90 takes 2.0 "
        "ms\n");
    heard_done(&heard);
    rp_graph_free(g);
}

static void a_folder_is_made_below_the_path(void **state) {
    rp_error err = {0};
    char dir[64], want[96], *got = NULL;
    (void)state;
    assert_int_equal(tree_make(dir, sizeof dir), 0);
    rp_compilation_config *c = rp_config_new();
    CHECK_OK(compile_dump_dir(c, &got, &err), &err);
    assert_null(got);
    (void)snprintf(want, sizeof want, "debug_dump_path=%s/a/b", dir);
    CHECK_OK(rp_config_set(c, want, &err), &err);
    CHECK_OK(compile_dump_dir(c, &got, &err), &err);
    (void)snprintf(want, sizeof want, "%s/a/b/rank_0", dir);
    assert_string_equal(got, want);
    assert_true(base_file_exists(want));
    base_free(got);
    rp_config_free(c);
    CHECK_OK(base_path_remove(dir, &err), &err);
}

/* A graph that is made anew, since what it reads is written first, is not kept. */
static void a_graph_with_writes_leaves_nothing(void **state) {
    static const char text[] = "graph @w(%x: f32[8], %m: f32[8] mutates) -> (f32[8], f32[8]) {\n"
                               "  %0 = exp %x\n  %1 = update %m, %0 {offsets=[0]}\n"
                               "  %2 = add %m, %x\n  ret %2, %m }\n";
    char dir[64];
    rp_error err = {0};
    rp_graph *g = NULL;
    const ir_graph *same = NULL;
    ir_graph *made = NULL;
    (void)state;
    CHECK_OK(rp_graph_parse(text, sizeof text - 1, &g, &err), &err);
    CHECK_OK(pass_make_inplace(trace_graph_ir(g), &same, &made, &err), &err);
    assert_non_null(made);
    ir_graph_free(made);
    assert_int_equal(tree_make(dir, sizeof dir), 0);
    size_t live = base_live();
    CHECK_OK(compile_dump_stages(trace_graph_ir(g), &inductor, dir, &err), &err);
    assert_int_equal(base_live(), live);
    CHECK_OK(base_path_remove(dir, &err), &err);
    rp_graph_free(g);
}

static void survive(rp_graph *g) {
    char dir[64];
    rp_error e0 = {0};
    assert_int_equal(tree_make(dir, sizeof dir), 0);
    CHECK_OK(compile_dump_stages(trace_graph_ir(g), &inductor, dir, &e0), &e0); /* texts are kept */
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        rp_status st = compile_dump_stages(trace_graph_ir(g), &inductor, dir, &err);
        if (st != RP_OK && st != RP_NOMEM)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, rp_status_name(st),
                     err.text);
        assert_int_equal(base_live(), live);
        if (n > 400) n += 37; /* a sample of the rest */
    }
    CHECK_OK(base_path_remove(dir, &e0), &e0);
    rp_graph_free(g);
}

static void failed_allocations_leave_nothing(void **state) {
    (void)state;
    survive(small(1));
    survive(bodies());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_reads_back),
        cmocka_unit_test(what_is_skipped_is_not_written),
        cmocka_unit_test(graphs_within_are_written),
        cmocka_unit_test(graphs_of_one_name_have_numbers),
        cmocka_unit_test(kernels_show_their_nodes),
        cmocka_unit_test(kernels_show_their_lines),
        cmocka_unit_test(kernels_can_be_timed_alone),
        cmocka_unit_test(rows_up_to_the_last_are_timed),
        cmocka_unit_test(kernels_are_told_apart),
        cmocka_unit_test(pieces_and_schedule_are_heard),
        cmocka_unit_test(what_a_piece_became_is_counted),
        cmocka_unit_test(a_folder_is_made_below_the_path),
        cmocka_unit_test(a_graph_with_writes_leaves_nothing),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
