/* Custom ops whose implementation is C or CUDA C: compiled, cached and launched as the kernels around them are, on the host and on a GPU. */
#include "support/check.h"
#include "support/heard.h"

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/text.h"
#include "target/target.h"
#include "reprise/reprise.h"
#include "support/gpu.h"
#include "support/jits.h"
#include "support/trees.h"

enum { ROWS = 37, COLUMNS = 24, N = ROWS * COLUMNS };
static const char *no_gpu; /* why there is none, not even an emulated one */

/* Both languages take it. */
static const char bend[] =
    "static int bend_is(const char *a, const char *b) {\n"
    "    while (*a && *a == *b) a++, b++;\n"
    "    return *a == *b;\n"
    "}\n"
    "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {\n"
    "    double v = ((const float *)arg[0].data)[item] * attr[ATTR_factor].f;\n"
    "    for (long long i = 0; i < attr[ATTR_offsets].n; i++) v += attr[ATTR_offsets].is[i];\n"
    "    if (bend_is(attr[ATTR_mode].s, \"a \\\"?\\\\\")) v = -v;\n"
    "    ((float *)arg[1].data)[item] = (float)(v + arg[1].dim[1] + arg[1].rank);\n"
    "}\n";
static const char c_range[] =
    "#include <math.h>\n"
    "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long row) {\n"
    "    const float *x = (const float *)arg[0].data + row * arg[0].dim[1];\n"
    "    float lo = x[0], hi = x[0];\n"
    "    for (long long i = 1; i < arg[0].dim[1]; i++) lo = fminf(lo, x[i]), hi = fmaxf(hi, "
    "x[i]);\n"
    "    ((float *)arg[1].data)[row] = lo;\n"
    "    ((float *)arg[2].data)[row] = hi;\n"
    "}\n";
/* The threads of a block share a row. */
static const char cuda_range[] =
    "#define BEND_LANES 64\n"
    "__device__ void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long row) {\n"
    "    __shared__ float lo[BEND_LANES], hi[BEND_LANES];\n"
    "    const float *x = (const float *)arg[0].data + row * arg[0].dim[1];\n"
    "    const int lane = threadIdx.x;\n"
    "    lo[lane] = hi[lane] = x[lane < arg[0].dim[1] ? lane : 0];\n"
    "    __syncthreads();\n"
    "    for (int n = BEND_LANES / 2; n > 0; n /= 2) {\n"
    "        if (lane < n && lo[lane + n] < lo[lane]) lo[lane] = lo[lane + n];\n"
    "        if (lane < n && hi[lane + n] > hi[lane]) hi[lane] = hi[lane + n];\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (lane == 0) ((float *)arg[1].data)[row] = lo[0], ((float *)arg[2].data)[row] = hi[0];\n"
    "}\n";
/* It counts in its operand: the result is what was there. */
static const char count[] =
    "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {\n"
    "    ((float *)arg[1].data)[item] = ((float *)arg[0].data)[item];\n"
    "    ((float *)arg[0].data)[item] += 1;\n"
    "}\n";
static const char broken[] =
    "/* nothing is wrong here */\n"
    "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {\n"
    "    ((float *)arg[1].data)[item] = misspelt;\n"
    "}\n";

/* Twice what it is given, on a GPU thrice: a fault for who looks for one there. */
static rp_status twice_cpu(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                           rp_error *err) {
    (void)call, (void)n_args, (void)err;
    for (int64_t i = 0; i < args[0].dim[0]; i++)
        ((float *)args[1].data)[i] = 2 * ((const float *)args[0].data)[i];
    return RP_OK;
}
static const char thrice[] =
    "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {\n"
    "    ((float *)arg[1].data)[item] = 3 * ((const float *)arg[0].data)[item];\n"
    "}\n";

static rp_status range_shape(const rp_op_call *call, const rp_tensor *in, uint32_t n_in,
                             rp_tensor_type *out, uint32_t n_out, rp_error *err) {
    (void)call, (void)n_in, (void)err;
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = (rp_tensor_type){RP_DTYPE_F32, RP_SHAPE(rp_tensor_dim(in[0], 0))};
    return RP_OK;
}

static int registered(void **state) {
    static const rp_op_attr schema[] = {
        {.name = "factor", .kind = RP_OP_F64, .f = 1},
        {.name = "mode", .kind = RP_OP_STRING, .s = "up"},
        {.name = "offsets", .kind = RP_OP_I64S},
    };
    const rp_op_desc all[] = {
        {.name = "source::bend",
         .attrs = schema,
         .n_attrs = 3,
         .c_source = bend,
         .cuda_source = bend},
        {.name = "source::range",
         .result_like = -1,
         .n_results = 2,
         .shape = range_shape,
         .items = RP_OP_ROWS,
         .threads = 64,
         .c_source = c_range,
         .cuda_source = cuda_range},
        {.name = "source::apart", .cpu = twice_cpu, .cuda_source = thrice},
        {.name = "source::count", .mutates = 1, .c_source = count, .cuda_source = count},
        {.name = "source::broken", .c_source = broken, .cuda_source = broken},
        {.name = "source::error", .c_source = broken, .cuda_source = broken},
        {.name = "source::fold", .c_source = broken, .cuda_source = broken},
        {.name = "source::empty", .c_source = "/* rp_op */", .cuda_source = "/* rp_op */"},
    };
    rp_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_op_desc d = all[i];
        d.size = sizeof d;
        CHECK_OK(rp_op_register(&d, &err), &err);
    }
    if (gpu_emulate(&no_gpu)) no_gpu = NULL;
    return 0;
}

/* --- a function of them ------------------------------------------------------------------------------- */

static const int64_t offsets[] = {INT64_C(1) << 40, -(INT64_C(1) << 40), 3};
static const rp_op_attr attrs[] = {
    {.name = "factor", .kind = RP_OP_F64, .f = 0.75},
    {.name = "mode", .kind = RP_OP_STRING, .s = "a \"?\\"},
    {.name = "offsets", .kind = RP_OP_I64S, .n = 3, .is = offsets},
};

static rp_tensor bent(rp_tensor x, uint32_t n_attrs) {
    rp_tensor out;
    rp_custom_args a = {.size = sizeof a,
                        .name = "source::bend",
                        .args = &x,
                        .n = 1,
                        .attrs = attrs,
                        .n_attrs = n_attrs};
    rp_custom_call(x.graph, &a, &out, 1);
    return out;
}

/* Bent twice, in two ways; the range of each row, and what counted. */
static void trace(rp_graph *g, rp_tensor x, rp_tensor counter, rp_tensor out[4]) {
    const rp_tensor_type none[2] = {{0}};
    rp_shape shape = rp_tensor_shape(counter);
    out[0] = rp_neg(bent(rp_add_scalar(bent(x, 3), 1), 1));
    rp_custom_results(g, "source::range", out, 1, none, 2, out + 1);
    out[3] = rp_mul_scalar(rp_custom(g, "source::count", &counter, 1, RP_DTYPE_F32, shape), 2);
}

typedef struct results {
    float y[N], lo[ROWS], hi[ROWS], count[4], counter[4];
} results;

static void expect(const float *x, const results *r, float before, const char *how) {
    for (int i = 0; i < ROWS; i++) {
        float lo = r->y[i * COLUMNS], hi = lo;
        for (int k = 0; k < COLUMNS; k++) {
            float once = (float)(-(x[i * COLUMNS + k] * 0.75 + 3) + COLUMNS + 2);
            float want = -(float)((double)(once + 1) * 0.75 + COLUMNS + 2),
                  got = r->y[i * COLUMNS + k];
            if (got != want) fail_msg("%s: y[%d][%d] = %g, not %g", how, i, k, got, want);
            lo = got < lo ? got : lo;
            hi = got > hi ? got : hi;
        }
        if (r->lo[i] != lo || r->hi[i] != hi)
            fail_msg("%s: row %d: %g .. %g, not %g .. %g", how, i, r->lo[i], r->hi[i], lo, hi);
    }
    for (int i = 0; i < 4; i++)
        if (r->count[i] != 2 * before || r->counter[i] != before + 1)
            fail_msg("%s: counter %g, %g", how, r->count[i], r->counter[i]);
}

static void buffers(float *x, results *r, rp_buffer in[2], rp_buffer out[4]) {
    for (int i = 0; i < N; i++) x[i] = (float)((i * 37) % 101) / 8;
    in[0] = (rp_buffer){RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x};
    in[1] = (rp_buffer){RP_DTYPE_F32, 1, {4}, r->counter};
    out[0] = (rp_buffer){RP_DTYPE_F32, 2, {ROWS, COLUMNS}, r->y};
    out[1] = (rp_buffer){RP_DTYPE_F32, 1, {ROWS}, r->lo};
    out[2] = (rp_buffer){RP_DTYPE_F32, 1, {ROWS}, r->hi};
    out[3] = (rp_buffer){RP_DTYPE_F32, 1, {4}, r->count};
}

static rp_status compile(const char *settings, const char *op, rp_compiled **out, rp_error *err) {
    rp_graph *g = rp_graph_new("sources");
    rp_compilation_config *cfg = rp_config_new();
    char copy[512];
    rp_tensor made[4],
        x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 1, 64), COLUMNS)),
        counter = rp_mutable_input(g, "counter", RP_DTYPE_F32, RP_SHAPE(4));
    if (op)
        made[0] = rp_custom(g, op, &x, 1, RP_DTYPE_F32, (rp_shape){0});
    else
        trace(g, x, counter, made);
    rp_status st = rp_graph_finish(g, made, op ? 1 : 4, err);
    (void)snprintf(copy, sizeof copy, "%s", settings);
    for (char *word = strtok(copy, " "); word && st == RP_OK; word = strtok(NULL, " "))
        st = rp_config_set(cfg, word, err);
    if (st == RP_OK) st = rp_compile(g, cfg, out, err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st;
}

static uint32_t check_compiled(const char *settings) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    static float x[N];
    static results r;
    rp_buffer in[2], out[4];
    memset(&r, 0, sizeof r);
    buffers(x, &r, in, out);
    CHECK_OK(compile(settings, NULL, &c, &err), &err);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(rp_compiled_run(c, in, 2, out, 4, &err), &err);
        expect(x, &r, (float)i, settings);
    }
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    assert_null(info.reason);
    rp_compiled_free(c);
    return info.compiles;
}

/* --- tests ----------------------------------------------------------------------------------------------- */

static void the_host_runs_c(void **state) {
    char settings[400];
    (void)state;
    (void)check_compiled("level=2");
    (void)check_compiled("level=3 threads=2 splitting_ops=[\"source::range\"]");
    (void)snprintf(settings, sizeof settings, "level=2 cache_dir=%s", tree_new("host"));
    assert_true(check_compiled(settings) > 0);
    assert_int_equal(check_compiled(settings), 0); /* the code is in the cache */
}

static void a_gpu_runs_cuda(void **state) {
    char settings[400];
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    (void)snprintf(settings, sizeof settings, "level=2 device=cuda:0 cache_dir=%s",
                   tree_new("gpu"));
    assert_true(check_compiled(settings) > 0);
    assert_int_equal(check_compiled(settings), 0);
}

static rp_status function(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    static rp_value out[4];
    rp_tensor made[4];
    (void)user, (void)err;
    trace(rp_jit_graph(call), rp_jit_tensor(call, &args->item[0]),
          rp_jit_tensor(call, &args->item[1]), made);
    for (int i = 0; i < 4; i++) out[i] = rp_jit_value(call, made[i]);
    *result = rp_value_tuple(out, 4);
    return RP_OK;
}

/* One graph, which may be captured: nothing is left to the host. */
static void check_function(const char *mode) {
    rp_error err = {0};
    rp_device *d = NULL;
    rp_jit *f = NULL;
    static float x[N];
    static results r;
    rp_buffer in[2], out[4];
    memset(&r, 0, sizeof r);
    buffers(x, &r, in, out);
    CHECK_OK(rp_device_open("cuda:0", 1, &d, &err), &err);
    rp_jit_options o = jit_options(function);
    o.device = d;
    o.fullgraph = true;
    o.mode = mode;
    CHECK_OK(jit_of(o, "level=2", &f, &err), &err);
    for (int i = 0; i < 4; i++) {
        rp_value v[] = {rp_value_tensor(in[0]), rp_value_tensor(in[1])};
        rp_value args = rp_value_tuple(v, 2);
        CHECK_OK(rp_jit_run_into(f, &args, out, 4, &err), &err);
        expect(x, &r, (float)i, mode);
    }
    assert_int_equal(jit_info(f).breaks, 0);
    rp_jit_free(f);
    rp_device_close(d);
}

static void no_graph_breaks_on_a_gpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    check_function("default");
    check_function("reduce-overhead");
}

/* One line: the op, the line of its source, and what the compiler says first. */
static void an_error_names_the_op(void **state) {
    static const struct {
        const char *settings, *op, *text;
    } bad[] = {
        {"level=2", "source::broken", "custom op source::broken:3:36: error: "},
        {"level=2", "source::error", "custom op source::error:3:36: error: "},
        {"level=2", "source::fold", "custom op source::fold:3:36: error: "},
        {"level=2", "source::empty", "custom op source::empty"},
        {"level=2 device=cuda:0", "source::broken", "custom op source::broken:3:36: error: "},
        {"level=2 device=cuda:0", "source::error", "custom op source::error:3:36: error: "},
        {"level=2 device=cuda:0", "source::empty", "custom op source::empty"},
        {"level=0", "source::bend", "custom op source::bend is C source, and no code is generated"},
        {"level=2 backend=eager", "source::bend", "source::bend is C source"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        if (no_gpu && strstr(bad[i].settings, "cuda")) continue;
        rp_status st = compile(bad[i].settings, bad[i].op, &c, &err);
        char by_nvrtc[64]; /* which counts no columns */
        (void)snprintf(by_nvrtc, sizeof by_nvrtc, "custom op %s(3): error: ", bad[i].op);
        bool says = strstr(err.text, bad[i].text) ||
                    (strstr(bad[i].text, ":3:36:") && strstr(err.text, by_nvrtc));
        if (st == RP_OK || !says || strchr(err.text, '\n'))
            fail_msg("%s, %s: %s", bad[i].op, bad[i].settings, err.text);
        rp_compiled_free(c);
    }
}

static void negated(const rp_op_call *call, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                    uint32_t n_out) {
    (void)call, (void)n_in, (void)n_out;
    out[0] = rp_neg(in[0]);
}

static void gives(const char *op, const char *settings, float want) {
    float x[COLUMNS] = {1}, y[COLUMNS] = {0};
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_buffer in[] = {{RP_DTYPE_F32, 2, {1, COLUMNS}, x}, {RP_DTYPE_F32, 1, {4}, x}}, out = in[0];
    out.data = y;
    CHECK_OK(compile(settings, op, &c, &err), &err);
    CHECK_OK(rp_compiled_run(c, in, 2, &out, 1, &err), &err);
    if (y[0] != want) fail_msg("%s: %g", settings, (double)y[0]);
    rp_compiled_free(c);
}

/* Where no code is generated its lowering stands for a source, whatever custom_ops keeps; elsewhere that decides. The source does
 * something else here, so that it shows. */
static void a_lowering_stands_for_a_source(void **state) {
    static const char source[] =
        "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {\n"
        "    ((float *)arg[1].data)[item] = 7;\n"
        "}\n";
    static const struct {
        const char *settings;
        float want;
    } cases[] = {{"level=0", -1},
                 {"level=2 backend=eager", -1},
                 {"level=2 backend=aot_eager", -1},
                 {"level=2 backend=aot_eager custom_ops=[\"all\"]", -1},
                 {"level=0 custom_ops=[\"all\"]", -1},
                 {"level=2", -1},
                 {"level=2 custom_ops=[\"all\"]", 7}};
    rp_op_desc d = {
        .size = sizeof d, .name = "source::either", .lower = negated, .c_source = source};
    rp_error err = {0};
    char alone[400];
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        gives("source::either", cases[i].settings, cases[i].want);
    char *path = base_strdup(getenv("PATH"));
    (void)setenv("PATH", tree_new("nothing"), 1); /* has no C compiler */
    (void)snprintf(alone, sizeof alone, "level=2 custom_ops=[\"all\"] cache_dir=%s",
                   tree_new("alone"));
    gives("source::either", alone, -1);
    (void)setenv("PATH", path, 1);
    base_free(path);
}

static rp_status same(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    (void)call, (void)n_args, (void)err;
    memcpy(args[1].data, args[0].data, 16 * sizeof(float));
    return RP_OK;
}

static void body(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                 void *op) {
    (void)n_in, (void)n_out;
    out[0] = rp_custom(g, op, in, 1, RP_DTYPE_F32, rp_tensor_shape(in[0]));
}

/* Whether a note says that calls of op, itself or in a graph within, are not watched. */
static bool noted(const char *settings, char *op, bool within) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    const rp_config_note *note;
    rp_graph *g = rp_graph_new("watched");
    rp_compilation_config *cfg = rp_config_new();
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4, 4)), y;
    char copy[200], reason[100];
    if (within)
        rp_call_graph(g, body, op, &x, 1, &y, 1);
    else
        body(g, &x, 1, &y, 1, op);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    (void)snprintf(copy, sizeof copy, "%s", settings);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        CHECK_OK(rp_config_set(cfg, word, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    (void)snprintf(reason, sizeof reason, "custom op %s is source, and not watched", op);
    const size_t n = rp_config_notes(cfg, &note);
    bool found = false;
    for (size_t k = 0; k < n; k++)
        found |= strcmp(note[k].what, "check_ops") == 0 && strcmp(note[k].reason, reason) == 0;
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return found;
}

/* Two ops of one text in one unit: each finds its attributes by its own schema. */
static void one_text_has_a_schema_each(void **state) {
    static const char scaled[] =
        "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {\n"
        "    ((float *)arg[1].data)[item] = (float)(((const float *)arg[0].data)[item] * "
        "attr[ATTR_scale].f);\n"
        "}\n";
    static const rp_op_attr schema[] = {{.name = "bias", .kind = RP_OP_F64, .f = 5},
                                        {.name = "scale", .kind = RP_OP_F64, .f = 2}};
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_op_desc d = {.size = sizeof d,
                        .name = i ? "source::scale_alone" : "source::scale_behind",
                        .attrs = schema + i,
                        .n_attrs = 2u - (unsigned)i,
                        .c_source = scaled,
                        .cuda_source = scaled};
        CHECK_OK(rp_op_register(&d, &err), &err);
    }
    for (int gpu = 0; gpu < (no_gpu ? 1 : 2); gpu++) {
        float x[4] = {1, 2, 3, 4}, y[2][4];
        rp_compiled *c = NULL;
        rp_graph *g = rp_graph_new("schemas");
        rp_compilation_config *cfg = rp_config_new();
        rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), made[2];
        made[0] = rp_custom(g, "source::scale_behind", &in, 1, RP_DTYPE_F32, (rp_shape){0});
        made[1] = rp_custom(g, "source::scale_alone", &in, 1, RP_DTYPE_F32, (rp_shape){0});
        CHECK_OK(rp_graph_finish(g, made, 2, &err), &err);
        CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
        if (gpu) CHECK_OK(rp_config_set(cfg, "device=cuda:0", &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        rp_buffer from = {RP_DTYPE_F32, 1, {4}, x},
                  out[] = {{RP_DTYPE_F32, 1, {4}, y[0]}, {RP_DTYPE_F32, 1, {4}, y[1]}};
        CHECK_OK(rp_compiled_run(c, &from, 1, out, 2, &err), &err);
        for (int i = 0; i < 8; i++)
            if (y[i / 4][i % 4] != 2 * x[i % 4])
                fail_msg("op %d: y[%d] = %g", i / 4, i % 4, (double)y[i / 4][i % 4]);
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
}

/* Its operand is a copy that a loop makes, whose knobs are not the op's: a source has none. */
static void nothing_of_it_is_tuned(void **state) {
    static const char text[] =
        "graph @g(%x: f32[64,4096]) -> f32[4096,64] {\n"
        "  %0 = permute %x {axes=[1,0]} : f32[4096,64]\n"
        "  %1 = custom %0 {attrs={}, name=\"source::broken\"} : f32[4096,64]\n"
        "  ret %1\n}\n";
    static const gen_target targets[] = {GEN_HOST, GEN_CUDA};
    (void)state;
    for (int t = 0; t < 2; t++) {
        lower_options o = {.isa = GEN_ISA_AVX2, .target = targets[t]};
        rp_error err = {0};
        ir_graph *g = NULL;
        lower_piece p;
        CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(target_lower(g, &o, &p, &err), &err);
        assert_int_equal(p.n_kernels, 2);
        assert_non_null(strstr(p.kernels[0].name, "copy"));
        assert_int_equal(p.kernels[0].may, 0); /* one of no group */
        assert_int_equal(p.kernels[1].may, 0);
        lower_done(&p);
        ir_graph_free(g);
    }
}

/* What plans depend on: by name, whatever was registered first, and each in its language. */
static void a_key_has_each_source_once(void **state) {
    static const char *const names[] = {"source::same_b", "source::same_a"};
    rp_error err = {0};
    base_buf b;
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_op_desc d = {.size = sizeof d, .name = names[i]};
        *(i ? &d.c_source : &d.cuda_source) = bend;
        CHECK_OK(rp_op_register(&d, &err), &err);
    }
    base_buf_init(&b, 0);
    ir_custom_sources(&b);
    CHECK_OK(base_buf_status(&b, &err), &err);
    const char *first = strstr(b.data, "source::same_a c "),
               *second = strstr(b.data, "source::same_b cuda ");
    if (!first || !second || second < first || strstr(first + 1, "source::same_a"))
        fail_msg("%s", b.data);
    base_buf_done(&b);
}

/* What check_ops cannot watch it names. */
static void sources_are_not_watched(void **state) {
    static char bend_op[] = "source::bend", both_op[] = "source::both";
    static const struct {
        const char *settings;
        char *op;
        bool within, noted;
    } cases[] = {
        {"level=2 check_ops=true", bend_op, false, true},
        {"level=2 check_ops=false", bend_op, false, false},
        {"level=2 check_ops=true", bend_op, true, true},
        {"level=2 check_ops=true", both_op, false, true},
        {"level=2 check_ops=true backend=eager", both_op, false, false},
        {"level=2 check_ops=true backend=aot_eager", both_op, false, false},
        {"level=2 check_ops=true device=cuda:0", bend_op, false, true},
        {"level=2 check_ops=true device=cuda:0 backend=eager", bend_op, false, true},
    };
    static const char source[] =
        "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item) {\n"
        "    ((float *)arg[1].data)[item] = ((const float *)arg[0].data)[item];\n"
        "}\n";
    const rp_op_desc d = {.size = sizeof d, .name = both_op, .cpu = same, .c_source = source};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!no_gpu || !strstr(cases[i].settings, "cuda"))
            if (noted(cases[i].settings, cases[i].op, cases[i].within) != cases[i].noted)
                fail_msg("%s, %s", cases[i].op, cases[i].settings);
}

static void bad_sources_are_refused(void **state) {
    const rp_op_desc most = {
        .size = sizeof most, .name = "source::most", .cuda_source = bend, .threads = 1024};
    const rp_op_desc bad[] = {{.name = "source::bad", .c_source = "void op(void) {}"},
                              {.name = "source::bad", .cuda_source = bend, .threads = 1025},
                              {.name = "source::bad", .c_source = bend, .items = (rp_op_items)3}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        rp_op_desc d = bad[i];
        d.size = sizeof d;
        assert_int_equal(rp_op_register(&d, &err), RP_INVALID);
        assert_non_null(strstr(err.text, i ? "threads of items" : "has no function rp_op"));
    }
    rp_error err = {0};
    CHECK_OK(rp_op_register(&most, &err), &err);
}

/* What the device of the search computes counts, not what the host would. */
static void a_fault_of_a_gpu_is_found(void **state) {
    static const char text[] =
        "graph @g(%x: f32[6]) -> f32[6] {\n  %s = state @s : f32[6]\n  %t = update %s, %x "
        "{offsets=[0]}\n  %a = custom %t {name=\"source::apart\"}\n  %b = neg %a\n  ret %b\n}\n";
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    for (int how = 0; how < 3; how++) { /* the host, a device, that of the configuration */
        rp_error err = {0};
        rp_graph *g = NULL;
        rp_device *d = NULL;
        rp_bisection *b = NULL;
        rp_bisect_options o = RP_BISECT_OPTIONS_INIT;
        rp_bisect_info info = RP_BISECT_INFO_INIT;
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
        if (how == 1) CHECK_OK(rp_device_open("cuda:0", 0, &d, &err), &err);
        if (how == 2) CHECK_OK(rp_config_set(cfg, "device=cuda:0", &err), &err);
        o.device = d;
        CHECK_OK(rp_graph_bisect(g, cfg, &o, &b, &err), &err);
        CHECK_OK(rp_bisection_get_info(b, &info, &err), &err);
        assert_int_equal(info.differs, how > 0);
        if (how) assert_string_equal(info.op, "custom");
        rp_bisection_free(b);
        rp_device_close(d);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
}

/* Of those that are not told how many, 256. */
static void blocks_have_as_many_threads(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    base_buf heard;
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    heard_start(&heard, "output_code");
    CHECK_OK(compile("level=2 device=cuda:0", NULL, &c, &err), &err);
    CHECK_HEARD(&heard, "__launch_bounds__(64) op_"); /* source::range */
    CHECK_HEARD(&heard, "__launch_bounds__(256) op_");
    heard_done(&heard);
    rp_compiled_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_runs_c),
        cmocka_unit_test(a_gpu_runs_cuda),
        cmocka_unit_test(no_graph_breaks_on_a_gpu),
        cmocka_unit_test(an_error_names_the_op),
        cmocka_unit_test(a_lowering_stands_for_a_source),
        cmocka_unit_test(one_text_has_a_schema_each),
        cmocka_unit_test(nothing_of_it_is_tuned),
        cmocka_unit_test(a_key_has_each_source_once),
        cmocka_unit_test(sources_are_not_watched),
        cmocka_unit_test(bad_sources_are_refused),
        cmocka_unit_test(blocks_have_as_many_threads),
        cmocka_unit_test(a_fault_of_a_gpu_is_found),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
