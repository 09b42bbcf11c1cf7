/* Registered ops with a shape function and a lowering: types by symbols, which implementation runs, and calls that are watched. */
#include "support/check.h"

#include "reprise/reprise.h"
#include "support/heard.h"

enum { ROWS = 3, COLUMNS = 4, N = ROWS * COLUMNS };

static int calls;

/* Rows twice as long: each number, then its double. */
static rp_status spread_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                            rp_error *err) {
    const float *x = args[0].data;
    float *y = args[1].data;
    (void)call, (void)n_args, (void)err;
    calls++;
    for (int64_t i = 0; i < args[0].dim[0] * args[0].dim[1]; i++) {
        y[2 * i] = x[i];
        y[2 * i + 1] = 2 * x[i];
    }
    return RP_OK;
}

static rp_status spread_shape(const rp_op_call *call, const rp_tensor *in, uint32_t n_in,
                              rp_tensor_type *out, uint32_t n_out, rp_error *err) {
    (void)call, (void)n_out;
    if (n_in != 1 || rp_tensor_shape(in[0]).rank != 2) {
        (void)snprintf(err->text, sizeof err->text, "one matrix is wanted");
        return RP_INVALID;
    }
    rp_dim columns = rp_dim_mul(rp_tensor_dim(in[0], 1), 2);
    *out = (rp_tensor_type){rp_tensor_dtype(in[0]), RP_SHAPE(rp_tensor_dim(in[0], 0), columns)};
    return RP_OK;
}

static void spread_lower(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                         uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    rp_tensor both = rp_stack((rp_tensor[]){in[0], rp_mul_scalar(in[0], 2)}, 2, -1);
    out[0] = rp_flatten(both, 1, 2);
}

/* Sums and differences, two results. */
static rp_status pair_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    const float *a = args[0].data, *b = args[1].data;
    (void)call, (void)n_args, (void)err;
    calls++;
    for (int i = 0; i < N; i++) {
        ((float *)args[2].data)[i] = a[i] + b[i];
        ((float *)args[3].data)[i] = a[i] - b[i];
    }
    return RP_OK;
}

static rp_status pair_shape(const rp_op_call *call, const rp_tensor *in, uint32_t n_in,
                            rp_tensor_type *out, uint32_t n_out, rp_error *err) {
    (void)call, (void)n_in, (void)err;
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = (rp_tensor_type){RP_DTYPE_F32, rp_tensor_shape(in[0])};
    return RP_OK;
}

static void pair_lower(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                       uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    out[0] = rp_add(in[0], in[1]);
    out[1] = rp_sub(in[0], in[1]);
}

/* What the op `liar` does: its shape is that of its operand. */
static enum { HONEST, LONGER, IN_FRONT, SHORTER, SCRIBBLES, SAYS_FILL } lie;

static rp_status liar_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    float *x = args[0].data, *y = args[1].data;
    (void)call, (void)n_args, (void)err;
    for (int i = lie == IN_FRONT ? -1 : 0; i < N + (lie == LONGER) - (lie == SHORTER); i++)
        y[i] = i >= 0 && i < N ? x[i] : 0;
    if (lie == SCRIBBLES) x[0] += 1;
    if (lie == SAYS_FILL) memset(y, 0xa5, N * sizeof *y); /* a value like any other */
    return RP_OK;
}

/* It counts in its operand; its result is ones, or what nobody has written looks like. */
static rp_status counts_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                            rp_error *err) {
    float *x = args[0].data, *y = args[1].data;
    (void)call, (void)n_args, (void)err;
    x[0] += 1;
    for (int i = 0; i < N; i++) y[i] = 1;
    if (lie == SAYS_FILL) memset(y, 0xa5, N * sizeof *y);
    return RP_OK;
}

/* It says that it writes its first operand. */
static rp_status second_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                            rp_error *err) {
    (void)call, (void)n_args, (void)err;
    ((float *)args[0].data)[1] += 1;
    if (lie == SCRIBBLES) ((float *)args[1].data)[N - 1] += 1;
    for (int i = 0; i < N; i++) ((float *)args[2].data)[i] = (float)i;
    return RP_OK;
}

static void wrong_lower(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                        uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    out[0] = rp_sum(in[0], 0, false);
}

static void failing_lower(const rp_op_call *call, const rp_tensor *in, uint32_t n_in,
                          rp_tensor *out, uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    out[0] = rp_sum(in[0], 5, false);
}

/* An axis of one more. */
static void ranked_lower(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                         uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    out[0] = rp_unsqueeze(in[0], -1);
}

/* What a lowering leaves in the graph beside its result. */
static enum { INPUT, PARAM, STATE, EMPTY } leaf;

static void leafy_lower(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                        uint32_t n_out) {
    rp_graph *g = in[0].graph;
    const rp_shape one = RP_SHAPE(1);
    (void)call, (void)n_in, (void)n_out;
    rp_tensor more = leaf == INPUT   ? rp_input(g, "more", RP_DTYPE_F32, one)
                     : leaf == PARAM ? rp_param(g, "more", RP_DTYPE_F32, one)
                     : leaf == EMPTY ? in[0]
                                     : rp_state(g, "more", RP_DTYPE_F32, one);
    out[0] = leaf == EMPTY ? rp_empty(g, RP_DTYPE_F32, rp_tensor_shape(in[0]))
                           : rp_add(in[0], more);
}

/* Of its two results it leaves one as it is. */
static uint32_t unwritten;

static rp_status half_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    (void)call, (void)err;
    for (uint32_t i = 1; i < n_args; i++)
        if (i - 1 != unwritten) memcpy(args[i].data, args[0].data, N * sizeof(float));
    return RP_OK;
}

/* Its one argument is its result. */
static rp_status sevens_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                            rp_error *err) {
    (void)err;
    if (n_args != 1 || call->n_in != 0) return RP_INVALID;
    for (int64_t i = 0; i < args[0].dim[0] * args[0].dim[1]; i++) ((float *)args[0].data)[i] = 7;
    return RP_OK;
}

static int registered(void **state) {
    rp_error err = {0};
    const rp_op_desc all[] = {
        {.name = "test::spread",
         .result_like = -1,
         .cpu = spread_cpu,
         .shape = spread_shape,
         .lower = spread_lower},
        {.name = "test::pair",
         .result_like = -1,
         .cpu = pair_cpu,
         .n_results = 2,
         .shape = pair_shape,
         .lower = pair_lower},
        {.name = "test::only_lowered",
         .result_like = -1,
         .shape = spread_shape,
         .lower = spread_lower},
        {.name = "test::liar", .cpu = liar_cpu},
        {.name = "test::counts", .cpu = counts_cpu, .mutates = 1},
        {.name = "test::second", .cpu = second_cpu, .mutates = 1},
        {.name = "test::wrong", .cpu = liar_cpu, .lower = wrong_lower},
        {.name = "test::failing", .cpu = liar_cpu, .lower = failing_lower},
        {.name = "test::ranked", .cpu = liar_cpu, .lower = ranked_lower},
        {.name = "test::leafy", .cpu = liar_cpu, .lower = leafy_lower},
        {.name = "test::half",
         .result_like = -1,
         .cpu = half_cpu,
         .n_results = 2,
         .shape = pair_shape},
        {.name = "test::sevens", .result_like = -1, .cpu = sevens_cpu},
        {.name = "test::sevens_text",
         .result_like = -1,
         .c_source =
             "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long i) {\n"
             "    ((float *)arg[0].data)[i] = 7;\n"
             "}\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_op_desc d = all[i];
        d.size = sizeof d;
        CHECK_OK(rp_op_register(&d, &err), &err);
    }
    return 0;
}

static int fresh(void **state) {
    (void)state;
    rp_log_set_callback(NULL, NULL);
    calls = 0;
    lie = HONEST;
    return 0;
}

/* --- a graph around a call --------------------------------------------------------------------- */

static rp_tensor called(const char *name, rp_tensor x) {
    return rp_custom(x.graph, name, &x, 1, RP_DTYPE_F32, (rp_shape){0});
}

static rp_tensor difference_of_pair(const char *name, rp_tensor x) {
    rp_tensor out[2], in[] = {x, rp_neg(x)};
    const rp_tensor_type none[2] = {{0}};
    rp_custom_results(x.graph, name, in, 2, none, 2, out);
    return rp_add(out[1], out[0]);
}

typedef rp_tensor (*call_fn)(const char *name, rp_tensor x);

static rp_status run(call_fn fn, const char *name, const char *settings, float *y,
                     uint32_t *lowered, rp_error *err) {
    rp_graph *g = rp_graph_new("around");
    rp_compilation_config *cfg = rp_config_new();
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    char copy[256];
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i + 1);
    rp_shape shape = RP_SHAPE(rp_symbol(g, "T", 1, 64), rp_symbol(g, "D", 1, 64));
    rp_tensor made = rp_neg(fn(name, rp_neg(rp_input(g, "x", RP_DTYPE_F32, shape))));
    rp_status st = rp_graph_finish(g, &made, 1, err);
    (void)snprintf(copy, sizeof copy, "%s", settings);
    for (char *word = strtok(copy, " "); word && st == RP_OK; word = strtok(NULL, " "))
        st = rp_config_set(cfg, word, err);
    if (st == RP_OK) st = rp_compile(g, cfg, &c, err);
    rp_buffer in = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x}, out = {0};
    if (st == RP_OK) st = rp_compiled_outputs(c, &in, 1, &out, 1, err);
    out.data = y;
    if (st == RP_OK) st = rp_compiled_run(c, &in, 1, &out, 1, err);
    if (st == RP_OK) st = rp_compiled_get_info(c, &info, err);
    if (lowered) *lowered = 0;
    for (uint32_t i = 0; i < info.n_passes && lowered; i++)
        if (strcmp(info.passes[i].name, "custom_ops") == 0) *lowered = info.passes[i].matches;
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st;
}

/* --- tests ----------------------------------------------------------------------------------------- */

/* vLLM's rules; both ways give the same. */
static void which_implementation_runs(void **state) {
    static const struct {
        const char *settings;
        bool kept;
    } cases[] = {{"level=0", true},
                 {"level=1", true},
                 {"level=2", false},
                 {"level=3", false},
                 {"level=2 backend=eager", true},
                 {"level=2 custom_ops=[\"all\"]", true},
                 {"level=2 custom_ops=[\"all\",\"-test::spread\"]", false},
                 {"level=2 custom_ops=[\"all\",\"-pair\"]", true},
                 {"level=2 custom_ops=[\"none\",\"+spread\"]", true},
                 {"level=2 custom_ops=[\"+test::spread\"]", true},
                 {"level=2 custom_ops=[\"none\"]", false},
                 {"level=0 custom_ops=[\"none\"]", false},
                 {"level=0 custom_ops=[\"-spread\"]", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        float y[2 * N];
        uint32_t lowered;
        calls = 0;
        CHECK_OK(run(called, "test::spread", cases[i].settings, y, &lowered, &err), &err);
        if (calls != cases[i].kept || lowered != !cases[i].kept)
            fail_msg("%s: %d calls, %u lowered", cases[i].settings, calls, lowered);
        for (int k = 0; k < N; k++)
            assert_true(y[2 * k] == (float)(k + 1) && y[2 * k + 1] == (float)(2 * k + 2));
    }
}

static void several_results_are_lowered(void **state) {
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        rp_error err = {0};
        float y[N];
        calls = 0;
        CHECK_OK(run(difference_of_pair, "test::pair",
                     kept ? "level=2 custom_ops=[\"+pair\"]" : "level=2", y, NULL, &err),
                 &err);
        assert_int_equal(calls, kept);
        for (int k = 0; k < N; k++) assert_true(y[k] == (float)(2 * (k + 1)));
    }
}

static void an_op_may_be_its_lowering_alone(void **state) {
    static const char *const settings[] = {"level=0", "level=2", "level=2 custom_ops=[\"all\"]"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        rp_error err = {0};
        float y[2 * N];
        CHECK_OK(run(called, "test::only_lowered", settings[i], y, NULL, &err), &err);
        assert_true(y[1] == 2 && y[2 * N - 1] == 2 * N);
    }
}

static void rules_are_checked(void **state) {
    static const struct {
        const char *rules, *text;
    } bad[] = {{"[\"all\",\"none\"]", "none contradicts all"},
               {"[\"none\",\"+spread\",\"all\"]", "all contradicts none"},
               {"[\"+spread\",\"-spread\"]", "-spread contradicts +spread"},
               {"[\"+spread\",\"-test::spread\"]", "-test::spread contradicts +spread"},
               {"[\"-spread\",\"+test::spread\"]", "+test::spread contradicts -spread"},
               {"[\"+test::spread\",\"-spread\"]", "-spread contradicts +test::spread"},
               {"[\"-test::spread\",\"all\",\"+spread\"]", "+spread contradicts -test::spread"},
               {"[\"spread\"]", "'spread' is none of all, none, +op and -op"},
               {"[\"+\"]", "'+' is none of"}};
    base_buf heard;
    float y[2 * N];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        char setting[96];
        (void)snprintf(setting, sizeof setting, "level=2 custom_ops=%s", bad[i].rules);
        assert_int_equal(run(called, "test::spread", setting, y, NULL, &err), RP_CONFIG);
        if (!strstr(err.text, bad[i].text)) fail_msg("%s: %s", bad[i].rules, err.text);
    }
    rp_error err = {0};
    heard_start(&heard, "");
    CHECK_OK(run(called, "test::spread", "level=2 custom_ops=[\"+sprede\"]", y, NULL, &err), &err);
    CHECK_HEARD(&heard, "custom_ops: +sprede names no registered op");
    heard_done(&heard);
}

static rp_tensor vector(const char *name, rp_tensor x) {
    return called(name, rp_sum(x, 0, false));
}

static void failures_name_the_op(void **state) {
    static const struct {
        call_fn fn;
        const char *name, *settings, *text;
    } bad[] = {{vector, "test::spread", "level=2", "custom op test::spread: one matrix is wanted"},
               {called, "test::wrong", "level=2",
                "custom op test::wrong: its lowering gives f32[D] for result 0, which is f32[T,D]"},
               {called, "test::ranked", "level=2",
                "custom op test::ranked: its lowering gives f32[T,D,1] for result 0, which is "
                "f32[T,D]"},
               {called, "test::failing", "level=2", "custom op test::failing: its lowering: "},
               {called, "test::pair", "level=2", "test::pair has 2 results, not 1"}};
    float y[2 * N];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        assert_int_equal(run(bad[i].fn, bad[i].name, bad[i].settings, y, NULL, &err), RP_INVALID);
        if (!strstr(err.text, bad[i].text)) fail_msg("%zu: %s", i, err.text);
    }
}

/* A piece is called with what it was made for, and gives what has contents; the error has the line of the call. */
static void lowerings_add_no_leaves(void **state) {
    float y[N];
    (void)state;
    for (int kind = INPUT; kind <= EMPTY; kind++) {
        rp_error err = {0};
        leaf = kind;
        assert_int_equal(run(called, "test::leafy", "level=2", y, NULL, &err), RP_INVALID);
        const char *text = kind == EMPTY ? "its lowering gives memory without contents for result 0"
                                         : "its lowering added an input, a param or a state";
        if (!strstr(err.text, text) || !strstr(err.text, ": custom op test::leafy: ") ||
            !strstr(err.text, "api_ops.c:"))
            fail_msg("%d: %s", kind, err.text);
    }
}

static rp_tensor sum_of_halves(const char *name, rp_tensor x) {
    rp_tensor out[2];
    const rp_tensor_type none[2] = {{0}};
    rp_custom_results(x.graph, name, &x, 1, none, 2, out);
    return rp_add(out[0], out[1]);
}

/* Whichever it is. */
static void each_result_is_watched(void **state) {
    float y[N];
    (void)state;
    for (unwritten = 0; unwritten < 3; unwritten++) {
        rp_error err = {0};
        char want[64];
        rp_status st = run(sum_of_halves, "test::half", "level=2 check_ops=true", y, NULL, &err);
        if (unwritten == 2) {
            CHECK_OK(st, &err);
            continue;
        }
        (void)snprintf(want, sizeof want, "leaves 12 elements of its result %u unwritten",
                       unwritten);
        assert_int_equal(st, RP_INVALID);
        if (!strstr(err.text, want)) fail_msg("%s", err.text);
    }
}

static void lies_are_caught(void **state) {
    static const char *const text[] = {
        [LONGER] = "writes behind its result 0 of 48 bytes: it is larger than its shape says",
        [IN_FRONT] = "writes in front of its result 0",
        [SHORTER] =
            "leaves 1 elements of its result 0 unwritten: it is smaller than its shape says",
        [SCRIBBLES] = "writes operand 0, which it does not say that it mutates"};
    (void)state;
    for (int what = HONEST; what <= SAYS_FILL; what++)
        for (int level = 0; level < 3; level += 2) {
            rp_error err = {0};
            float y[N];
            char settings[64];
            lie = what;
            (void)snprintf(settings, sizeof settings, "level=%d check_ops=true", level);
            rp_status st = run(called, "test::liar", settings, y, NULL, &err);
            if (what == HONEST || what == SAYS_FILL) {
                CHECK_OK(st, &err);
                assert_true(what != HONEST || y[N - 1] == N);
            } else if (st != RP_INVALID || !strstr(err.text, text[what])) {
                fail_msg("lie %d at level %d: %s", what, level, err.text);
            }
        }
}

/* Also beside one that may be written. */
static void each_operand_is_watched(void **state) {
    static const char text[] = "graph @f(%x: f32[3,4] mutates, %y: f32[3,4]) {\n"
                               "  %0 = custom %x, %y {name=\"test::second\"} : f32[3,4]\n"
                               "  ret %0\n}\n";
    (void)state;
    for (int k = 0; k < 4; k++) {
        rp_error err = {0};
        rp_graph *g = NULL;
        rp_compiled *c = NULL;
        rp_compilation_config *cfg = rp_config_new();
        float x[N] = {0}, y[N] = {0}, z[N];
        rp_buffer in[] = {{RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x},
                          {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, y}},
                  out = in[0];
        out.data = z;
        lie = k % 2 ? SCRIBBLES : HONEST;
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(rp_config_set(cfg, k < 2 ? "level=0" : "level=2", &err), &err);
        CHECK_OK(rp_config_set(cfg, "check_ops=true", &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        const rp_status st = rp_compiled_run(c, in, 2, &out, 1, &err);
        assert_int_equal(st, lie == HONEST ? RP_OK : RP_INVALID);
        if (st != RP_OK && !strstr(err.text, "writes operand 1, which it does not say"))
            fail_msg("%s", err.text);
        rp_compiled_free(c);
        rp_config_free(cfg);
        rp_graph_free(g);
    }
}

/* A watched call that has to be made twice, since its result looks like nothing, counts once. */
static void what_is_mutated_is_mutated_once(void **state) {
    static const char text[] = "graph @f(%x: f32[3,4] mutates) {\n"
                               "  %0 = custom %x {name=\"test::counts\"} : f32[3,4]\n  ret %0\n}\n";
    (void)state;
    for (int level = 0; level < 3; level += 2) {
        rp_error err = {0};
        rp_graph *g = NULL;
        rp_compiled *c = NULL;
        rp_compilation_config *cfg = rp_config_new();
        char setting[32];
        float x[N] = {1}, y[N];
        rp_buffer in = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x}, out = in;
        out.data = y;
        (void)snprintf(setting, sizeof setting, "level=%d", level);
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(rp_config_set(cfg, setting, &err), &err);
        CHECK_OK(rp_config_set(cfg, "check_ops=true", &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        for (int i = 1; i <= 3; i++) {
            lie = i == 2 ? HONEST : SAYS_FILL;
            CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
            if (x[0] != (float)(i + 1)) fail_msg("level %d: %g, not %d", level, x[0], i + 1);
        }
        rp_compiled_free(c);
        rp_config_free(cfg);
        rp_graph_free(g);
    }
}

static rp_status calls_op(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, args);
    (void)err;
    *result = rp_jit_value(call, called(user, x));
    return RP_OK;
}

/* A function at level 0 that calls an op, with one setting more. */
static rp_status run_function(const char *op, const char *setting, rp_error *err) {
    float x[N] = {1};
    rp_jit_options o = RP_JIT_OPTIONS(calls_op);
    rp_compilation_config *c = rp_config_new();
    rp_value v = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x});
    rp_jit *f = NULL;
    rp_output *y = NULL;
    o.user = (void *)(uintptr_t)op;
    o.config = c;
    CHECK_OK(rp_config_set(c, "level=0", err), err);
    CHECK_OK(rp_config_set(c, setting, err), err);
    calls = 0;
    rp_status st = rp_jit_new(&o, &f, err);
    if (st == RP_OK) st = rp_jit_run(f, &v, &y, err);
    rp_output_free(y);
    rp_jit_free(f);
    rp_config_free(c);
    return st;
}

/* What compiles nothing is told of the same settings. */
static void functions_at_level_0_heed_settings(void **state) {
    static const char *const names[][2] = {
        {"skip_passes=folt", "no pass folt; nearest: fold"},
        {"inductor_passes.folt=true", "inductor_passes: no pass folt is registered"}};
    rp_error err = {0};
    (void)state;
    for (int none = 0; none < 2; none++) {
        CHECK_OK(run_function("test::spread", none ? "custom_ops=none" : "custom_ops=all", &err),
                 &err);
        assert_int_equal(calls, !none);
    }
    lie = LONGER;
    assert_int_equal(run_function("test::liar", "check_ops=true", &err), RP_INVALID);
    assert_non_null(strstr(err.text, "it is larger than its shape says"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_function("test::spread", names[i][0], &err), RP_CONFIG);
        assert_non_null(strstr(err.text, names[i][1]));
    }
}

/* The interpreter, by which others are judged, watches always. */
static void the_interpreter_watches(void **state) {
    static const char text[] = "graph @f(%x: f32[3,4]) -> f32[3,4] {\n"
                               "  %0 = custom %x {name=\"test::liar\"} : f32[3,4]\n  ret %0\n}\n";
    (void)state;
    for (int what = HONEST; what <= LONGER; what++) {
        rp_error err = {0};
        rp_graph *g = NULL;
        char *out = NULL;
        lie = what;
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        rp_status st = rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, "", &out, &err);
        assert_int_equal(st, what == HONEST ? RP_OK : RP_INVALID);
        rp_free(out);
        rp_graph_free(g);
    }
}

static rp_tensor beside_none(const char *name, rp_tensor x) {
    return rp_add(x, rp_custom(x.graph, name, NULL, 0, RP_DTYPE_F32, rp_tensor_shape(x)));
}

static void an_op_may_have_no_operands(void **state) {
    static const struct {
        const char *op, *settings;
    } cases[] = {{"test::sevens", "level=0"},
                 {"test::sevens", "level=0 check_ops=true"},
                 {"test::sevens", "level=2"},
                 {"test::sevens", "level=2 backend=eager"},
                 {"test::sevens_text", "level=2"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        float y[N];
        if (run(beside_none, cases[i].op, cases[i].settings, y, NULL, &err) != RP_OK)
            fail_msg("%s, %s: %s", cases[i].op, cases[i].settings, err.text);
        for (int k = 0; k < N; k++) assert_true(y[k] == (float)(k + 1) - 7);
    }
}

static void bad_ops_are_refused(void **state) {
    rp_error err = {0};
    rp_op_desc like = {.size = sizeof like, .name = "test::like", .shape = spread_shape};
    rp_op_desc writes = {
        .size = sizeof writes, .name = "test::writes", .mutates = 1, .lower = spread_lower};
    (void)state;
    assert_int_equal(rp_op_register(&like, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "it takes no shape function"));
    assert_int_equal(rp_op_register(&writes, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "only one that writes nothing can be lowered"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(which_implementation_runs, fresh),
        cmocka_unit_test_setup(several_results_are_lowered, fresh),
        cmocka_unit_test_setup(an_op_may_be_its_lowering_alone, fresh),
        cmocka_unit_test_setup(rules_are_checked, fresh),
        cmocka_unit_test_setup(failures_name_the_op, fresh),
        cmocka_unit_test_setup(lowerings_add_no_leaves, fresh),
        cmocka_unit_test_setup(each_result_is_watched, fresh),
        cmocka_unit_test_setup(lies_are_caught, fresh),
        cmocka_unit_test_setup(each_operand_is_watched, fresh),
        cmocka_unit_test_setup(what_is_mutated_is_mutated_once, fresh),
        cmocka_unit_test_setup(functions_at_level_0_heed_settings, fresh),
        cmocka_unit_test_setup(the_interpreter_watches, fresh),
        cmocka_unit_test_setup(an_op_may_have_no_operands, fresh),
        cmocka_unit_test_setup(bad_ops_are_refused, fresh),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
