/* rp_compile: what it refuses, by name and with the numbers; weights bound again; the cache on the second time. */
#include "support/check.h"
#include "support/elsewhere.h"
#include "support/heard.h"
#include "support/trees.h"

#include <math.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "reprise/reprise.h"

/* y = x w^T + b over a symbolic batch; returned with its square. */
static rp_graph *trace_linear(void) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("linear");
    rp_dim batch = rp_symbol(g, "B", 1, 8);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(batch, 2));
    rp_tensor w = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(3, 2));
    rp_tensor b = rp_param(g, "b", RP_DTYPE_F32, RP_SHAPE(3));
    rp_tensor y = rp_add(rp_matmul(x, w, true), b);
    rp_tensor out[2] = {y, rp_mul(y, y)};
    CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
    return g;
}

static rp_compiled *compile(const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = trace_linear();
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

static float w[6] = {1, 2, 3, 4, 5, 6}, b[3] = {10, 20, 30}, x[4] = {1, 1, 2, 0}, y[6], y2[6];

static rp_status run(rp_compiled *c, int64_t batch, rp_error *err) {
    rp_buffer in = {RP_DTYPE_F32, 2, {batch, 2}, x};
    rp_buffer out[2] = {{RP_DTYPE_F32, 2, {batch, 3}, y}, {RP_DTYPE_F32, 2, {batch, 3}, y2}};
    return rp_compiled_run(c, &in, 1, out, 2, err);
}

static void bind(rp_compiled *c) {
    rp_error err = {0};
    CHECK_OK(rp_compiled_bind(c, "w", w, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "b", b, &err), &err);
}

/* Both run op by op; aot_eager what the passes leave. A GPU has no kernels for that: eager is generated code without passes. */
static void aot_eager_is_eager_after_passes(void **state) {
    static const char *const how[][2] = {
        {"backend=eager", " lowered to 3 launches: 0 kernels generated"},
        {"backend=aot_eager", " lowered to 1 launches: 0 kernels generated"}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        base_buf heard;
        rp_compilation_config *cfg = rp_config_new();
        rp_graph *g = rp_graph_new("twice");
        rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4)),
                  twice = rp_exp(rp_neg(rp_neg(a)));
        CHECK_OK(rp_graph_finish(g, &twice, 1, &err), &err);
        CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
        CHECK_OK(rp_config_set(cfg, how[i][0], &err), &err);
        heard_start(&heard, "inductor");
        rp_status st = rp_compile(g, cfg, &c, &err);
        if (runs_elsewhere() && i == 0) {
            CHECK_HEARD(&heard, ": 4 nodes lowered to 1 launches: 1 kernels generated, 0 built in");
        } else if (runs_elsewhere()) {
            assert_int_equal(st, RP_UNSUPPORTED);
            assert_non_null(strstr(err.text, "backend=aot_eager runs op by op"));
        } else {
            CHECK_HEARD(&heard, how[i][1]);
        }
        heard_done(&heard);
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
}

static void every_level_computes(void **state) {
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    static const float want[6] = {13, 27, 41, 12, 26, 40};
    (void)state;
    for (size_t l = 0; l < 4; l++) {
        rp_error err = {0};
        rp_compiled *c = compile(levels[l]);
        bind(c);
        memset(y, 0, sizeof y);
        CHECK_OK(run(c, 2, &err), &err);
        for (int i = 0; i < 6; i++) {
            if (y[i] != want[i] || y2[i] != want[i] * want[i])
                fail_msg("%s: y[%d] = %g and %g, not %g", levels[l], i, (double)y[i], (double)y2[i],
                         (double)want[i]);
        }
        rp_compiled_free(c);
    }
}

/* y = softmax((x x) w^T) over any number of rows */
static rp_compiled *compile_unbounded(const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("unbounded");
    rp_dim n = rp_symbol(g, "U", 1, INT64_MAX);
    rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(n, 2));
    rp_tensor weights = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(3, 2));
    rp_tensor out = rp_softmax(rp_matmul(rp_mul(in, in), weights, true), 1);
    CHECK_OK(rp_graph_finish(g, &out, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "w", w, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

/* What is between the kernels grows with the calls, and stays when they shrink. */
static void a_size_without_a_bound_runs_at_every_level(void **state) {
    enum { MOST = 20000 };
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    static const int64_t sizes[] = {2, MOST, 3};
    static float rows[MOST][2], first[MOST][3], other[MOST][3];
    (void)state;
    for (int i = 0; i < MOST; i++) rows[i][i & 1] = (float)(i % 7) / 8;
    for (size_t l = 0; l < 4; l++) {
        rp_compiled *c = compile_unbounded(levels[l]);
        for (size_t s = 0; s < 3; s++) {
            rp_error err = {0};
            rp_buffer in = {RP_DTYPE_F32, 2, {sizes[s], 2}, rows};
            rp_buffer out = {RP_DTYPE_F32, 2, {sizes[s], 3}, l ? other : first};
            CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
        }
        if (l && memcmp(first, other, sizeof first) != 0) fail_msg("%s: other values", levels[l]);
        rp_compiled_free(c);
    }
    assert_true(first[MOST - 1][0] > 0 && first[MOST - 1][0] < 1);
}

/* exp(x) turned around twice, and what a row loses by its first class, for any number of rows. */
static rp_compiled *compile_places(const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("places");
    rp_dim n = rp_symbol(g, "U", 1, INT64_MAX);
    rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(n, 2)), out[2];
    out[0] = rp_flip(rp_exp(rp_flip(in, 0)), 1);
    out[1] = rp_cross_entropy(
        in, rp_cast(rp_flip(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(n), 0), 0), RP_DTYPE_I64));
    CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

/* Places along it are no reason for a bound. */
static void places_along_a_size_without_a_bound(void **state) {
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    float rows[3][2] = {{0, 1}, {2, 3}, {4, 6}}, turned[3][2], loss[3];
    (void)state;
    for (size_t l = 0; l < 4; l++) {
        rp_error err = {0};
        rp_compiled *c = compile_places(levels[l]);
        rp_buffer in = {RP_DTYPE_F32, 2, {3, 2}, rows};
        rp_buffer out[] = {{RP_DTYPE_F32, 2, {3, 2}, turned}, {RP_DTYPE_F32, 1, {3}, loss}};
        CHECK_OK(rp_compiled_run(c, &in, 1, out, 2, &err), &err);
        for (int i = 0; i < 6; i++) {
            double want = exp((double)rows[2 - i / 2][1 - i % 2]);
            assert_true(fabs((double)turned[i / 2][i % 2] - want) <= 1e-6 * want);
        }
        for (int i = 0; i < 3; i++) { /* class 2 is taken as 1 */
            double low = exp((double)rows[i][0]), high = exp((double)rows[i][1]);
            assert_true(fabs((double)loss[i] - log((low + high) / (i < 2 ? high : low))) < 1e-6);
        }
        rp_compiled_free(c);
    }
}

static void new_weights_count(void **state) {
    (void)state;
    float other[6] = {0, 0, 0, 0, 0, 1};
    rp_error err = {0};
    rp_compiled *c = compile("level=2");
    bind(c);
    CHECK_OK(run(c, 1, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "w", other, &err), &err);
    CHECK_OK(run(c, 1, &err), &err);
    assert_true(y[0] == 10 && y[1] == 20 && y[2] == 31);
    rp_compiled_free(c);
}

/* The size that stands in a sum is read from what is left of it. */
static void sizes_are_read_from_sums(void **state) {
    (void)state;
    static const char text[] = "graph @sums(%x: f32[2*T+3,2]) -> f32[T,2] where T in [1,8] {\n"
                               "  %0 = slice %x {axis=0, start=T, stop=2*T}\n"
                               "  %1 = add %0, %0\n  ret %1\n}\n";
    float from[18] = {0}, to[6];
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rp_compile(g, NULL, &c, &err), &err);
    for (int i = 0; i < 18; i++) from[i] = (float)i;
    rp_buffer in = {RP_DTYPE_F32, 2, {9, 2}, from}, out = {RP_DTYPE_F32, 2, {3, 2}, to};
    CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
    for (int i = 0; i < 6; i++) assert_true(to[i] == 2 * from[6 + i]);
    rp_compiled_free(c);
    rp_graph_free(g);
}

/* Sizes of outputs are known before there is memory for them, from those of the inputs alone. */
static void outputs_tell_their_sizes(void **state) {
    static const char text[] =
        "graph @told(%x: f16[T,2], %y: i32[S]) -> (f16[2*T+1,2], i32[S//3,T], f32[]) where T in "
        "[1,8], S in [3,9] {\n  %0 = slice %x {axis=0, stop=1}\n  %1 = concat %x, %x, %0 {axis=0}\n"
        "  %2 = slice %y {axis=0, stop=S//3}\n  %3 = reshape %2 {shape=[S//3,1]}\n"
        "  %4 = broadcast %3 {shape=[S//3,T]}\n  %5 = const 1.0 : f32[]\n  %6 = neg %5\n"
        "  ret %1, %4, %6\n}\n";
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    rp_buffer in[2] = {{RP_DTYPE_F16, 2, {5, 2}, NULL}, {RP_DTYPE_I32, 1, {8}, NULL}}, out[3];
    (void)state;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rp_compile(g, NULL, &c, &err), &err);
    for (int i = 0; i < 3; i++) out[i] = (rp_buffer){.data = &out[i]};
    CHECK_OK(rp_compiled_outputs(c, in, 2, out, 3, &err), &err);
    assert_true(out[0].dtype == RP_DTYPE_F16 && out[0].rank == 2 && out[0].dim[0] == 11);
    assert_true(out[1].dtype == RP_DTYPE_I32 && out[1].dim[0] == 2 && out[1].dim[1] == 5);
    assert_true(out[2].dtype == RP_DTYPE_F32 && out[2].rank == 0);
    for (int i = 0; i < 3; i++) assert_ptr_equal(out[i].data, &out[i]);
    in[0].dim[0] = 9;
    assert_int_equal(rp_compiled_outputs(c, in, 2, out, 3, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "T = 9 is outside [1, 8]"));
    err = (rp_error){0};
    assert_int_equal(rp_compiled_outputs(c, in, 1, out, 4, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "2 inputs and 3 outputs; 1 and 4 were given"));
    rp_compiled_free(c);
    rp_graph_free(g);
}

typedef struct compiled {
    rp_graph *g;
    rp_compiled *c;
} compiled;

static compiled compile_text(const char *text, const char *setting) {
    rp_error err = {0};
    compiled k = {0};
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_graph_parse(text, strlen(text), &k.g, &err), &err);
    CHECK_OK(rp_compile(k.g, cfg, &k.c, &err), &err);
    rp_config_free(cfg);
    return k;
}

static void compiled_done(compiled *k) {
    rp_compiled_free(k->c);
    rp_graph_free(k->g);
}

/* Parts of a concat that may be empty are read where they have elements alone, so the data of an empty one may be NULL;
 * so may that of empty inputs, params and outputs in general. */
static void what_is_empty_needs_no_data(void **state) {
    static const char text[] =
        "graph @empty(%x: f32[N,3], %y: f32[2,3]) -> (f32[N+2,3], f32[N+2,3], f32[N,3], f32[N+2,3])"
        " where N in [0,4] {\n"
        "  %w = param @w : f32[0,3]\n  %0 = concat %x, %y {axis=0}\n  %1 = neg %0\n"
        "  %2 = exp %x\n  %3 = concat %2, %y, %w {axis=0}\n  %4 = concat %w, %1 {axis=0}\n"
        "  ret %1, %3, %2, %4\n}\n";
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    float parts[18] = {-0.0f, 1, 2, 3, 4, 5, 6, 7, 8}, *last = parts + 3, got[4][18];
    rp_error err = {0};
    (void)state;
    for (size_t l = 0; l < 4; l++)
        for (int64_t n = 0; n < 2; n++) {
            compiled k = compile_text(text, levels[l]);
            CHECK_OK(rp_compiled_bind(k.c, "w", NULL, &err), &err);
            rp_buffer in[2] = {{RP_DTYPE_F32, 2, {n, 3}, n ? parts : NULL},
                               {RP_DTYPE_F32, 2, {2, 3}, n ? last : parts}};
            rp_buffer out[4];
            for (int i = 0; i < 4; i++)
                out[i] = (rp_buffer){RP_DTYPE_F32, 2, {i == 2 ? n : n + 2, 3}, got[i]};
            if (n == 0) out[2].data = NULL;
            CHECK_OK(rp_compiled_run(k.c, in, 2, out, 4, &err), &err);
            for (int i = 0; i < 3 * (n + 2); i++) {
                float want = -parts[i];
                if (memcmp(&got[0][i], &want, 4) != 0 || memcmp(&got[3][i], &want, 4) != 0 ||
                    (i >= 3 * n && got[1][i] != parts[i]))
                    fail_msg("%s, N = %d: element %d is %g, %g, %g, not %g", levels[l], (int)n, i,
                             (double)got[0][i], (double)got[3][i], (double)got[1][i], (double)want);
            }
            compiled_done(&k);
        }
}

/* Nothing has to be computed for these: views, iotas, constants, params and inputs are returned all the same. */
static void what_is_not_computed_is_returned(void **state) {
    static const char text[] =
        "graph @given(%x: f32[2,3]) -> (f32[3,2], i32[3], f32[], f32[2,3], f32[2], f32[2,3]) {\n"
        "  %w = param @w : f32[2]\n  %0 = permute %x {axes=[1,0]}\n"
        "  %1 = iota {axis=0, dtype=i32, shape=[3]}\n  %2 = const 3\n"
        "  %3 = broadcast %2 {shape=[2,3]}\n  ret %0, %1, %2, %x, %w, %3\n}\n";
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    float in[6] = {0, 1, 2, 3, 4, 5}, weights[2] = {7, 8}, o[6][6];
    int32_t count[3];
    (void)state;
    for (size_t l = 0; l < 4; l++) {
        rp_error err = {0};
        compiled k = compile_text(text, levels[l]);
        memset(o, 0, sizeof o);
        CHECK_OK(rp_compiled_bind(k.c, "w", weights, &err), &err);
        rp_buffer from = {RP_DTYPE_F32, 2, {2, 3}, in};
        rp_buffer out[6] = {{RP_DTYPE_F32, 2, {3, 2}, o[0]}, {RP_DTYPE_I32, 1, {3}, count},
                            {RP_DTYPE_F32, 0, {0}, o[2]},    {RP_DTYPE_F32, 2, {2, 3}, o[3]},
                            {RP_DTYPE_F32, 1, {2}, o[4]},    {RP_DTYPE_F32, 2, {2, 3}, o[5]}};
        CHECK_OK(rp_compiled_run(k.c, &from, 1, out, 6, &err), &err);
        for (int i = 0; i < 6; i++)
            assert_true(o[0][i] == in[i % 2 * 3 + i / 2] && o[3][i] == in[i] && o[5][i] == 3);
        assert_true(count[0] == 0 && count[1] == 1 && count[2] == 2 && o[2][0] == 3);
        assert_true(o[4][0] == 7 && o[4][1] == 8);
        compiled_done(&k);
    }
}

/* An index outside of the table reads its nearest row, whatever lies around it. */
static void indices_are_clamped(void **state) {
    (void)state;
    static const char text[] = "graph @rows(%x: f32[3,2], %i: i32[5]) -> f32[5,2] {\n"
                               "  %0 = gather %x, %i\n  %1 = add %0, %0\n  ret %1\n}\n";
    float memory[] = {90, 91, 92, 93, 0, 1, 2, 3, 4, 5, 94, 95, 96, 97}, to[10];
    int32_t at[5] = {-2, -1, 1, 2, 3};
    static const float want[10] = {0, 2, 0, 2, 4, 6, 8, 10, 8, 10};
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_buffer in[2] = {{RP_DTYPE_F32, 2, {3, 2}, memory + 4}, {RP_DTYPE_I32, 1, {5}, at}};
    rp_buffer out = {RP_DTYPE_F32, 2, {5, 2}, to};
    CHECK_OK(rp_compiled_run(c, in, 2, &out, 1, &err), &err);
    for (int i = 0; i < 10; i++) assert_true(to[i] == want[i]);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

static void second_time_is_cached(void **state) {
    (void)state;
    rp_compiled_info first = RP_COMPILED_INFO_INIT, second = first;
    rp_error err = {0};
    rp_compiled *c = compile("level=2");
    CHECK_OK(rp_compiled_get_info(c, &first, &err), &err);
    rp_compiled_free(c);
    base_buf heard;
    heard_start(&heard, "inductor");
    c = compile("level=2");
    CHECK_HEARD(&heard, "] submod_0: fx graph cache hit for key ");
    heard_done(&heard);
    CHECK_OK(rp_compiled_get_info(c, &second, &err), &err);
    rp_compiled_free(c);
    assert_int_equal(first.compiles + first.cache_hits, 1);
    assert_int_equal(second.compiles, 0);
    assert_int_equal(second.cache_hits, 1);
    assert_int_equal(second.pieces, 1);
}

/* So are kernels of graphs within the graph. */
static void bodies_are_counted(void **state) {
    static const char text[] =
        "graph @g(%h: f32[4], %x: f32[5,4]) {\n  %e = tanh %x\n"
        "  %r = scan %h, %e {carried=1, sliced=1,\n"
        "    body=graph @step(%h: f32[4], %q: f32[4]) {\n"
        "      %s = sigmoid %q\n      %t = exp %h\n      %u = mul %s, %t\n      ret %u }}\n"
        "  %z = log %r\n  ret %z\n}\n";
    rp_compiled_info info[2] = {RP_COMPILED_INFO_INIT, RP_COMPILED_INFO_INIT};
    rp_error err = {0};
    (void)state;
    NOT_ELSEWHERE("a compiler of another kind");
    for (int i = 0; i < 2; i++) {
        compiled k = compile_text(text, "level=2");
        CHECK_OK(rp_compiled_get_info(k.c, &info[i], &err), &err);
        compiled_done(&k);
    }
    assert_int_equal(info[0].kernels, 3);
    assert_int_equal(info[1].kernels, 3);
    assert_true(info[0].compiles > 0);
    assert_int_equal(info[1].compiles, 0);
    assert_int_equal(info[1].cache_hits, info[0].compiles + info[0].cache_hits);
}

/* A product alone runs no compiler, unless the setting or the autotuner wants a kernel that is generated. */
static void a_stored_product_is_not_compiled(void **state) {
    static const char *const text =
        "graph @g(%a: f32[3,2], %b: f32[2,4]) {\n  %0 = matmul %a, %b\n  ret %0\n}\n";
    static const struct {
        const char *setting;
        uint32_t n_kernels;
    } how[] = {{"level=2", 0},
               {"built_in_products=false", 1},
               {"inductor_compile_config={\"max_autotune\":true}", 1}};
    float a[6] = {1, 2, 3, 4, 5, 6}, m[8] = {1, 0, 0, 1, 0, 1, 0, 1}, to[12];
    const float want[12] = {1, 2, 0, 3, 3, 4, 0, 7, 5, 6, 0, 11};
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_buffer in[2] = {{RP_DTYPE_F32, 2, {3, 2}, a}, {RP_DTYPE_F32, 2, {2, 4}, m}};
    rp_buffer out = {RP_DTYPE_F32, 2, {3, 4}, to};
    (void)state;
    NOT_ELSEWHERE("its products are compiled");
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        rp_error err = {0};
        rp_graph *g = NULL;
        rp_compiled *c = NULL;
        rp_compilation_config *cfg = rp_config_new();
        memset(to, 0, sizeof to);
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
        CHECK_OK(rp_config_set(cfg, how[i].setting, &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
        assert_int_equal(info.kernels, how[i].n_kernels);
        CHECK_OK(rp_compiled_run(c, in, 2, &out, 1, &err), &err);
        for (int j = 0; j < 12; j++) assert_true(to[j] == want[j]);
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
}

/* Somebody removes the whole cache folder while the compiler runs: what it made is used, and kept in a new folder. */
static void a_folder_removed_while_compiling(void **state) {
    (void)state;
    NOT_ELSEWHERE("the script is a C compiler");
    const char *root = tree_new("removed"), *old = getenv("REPRISE_CACHE_DIR");
    static const char script[] = "#!/bin/sh\n"
                                 "rm -rf \"$REPRISE_CACHE_DIR\"\n"
                                 "exec cc \"$@\"\n";
    char cache[300], cc[300], kept[300];
    rp_compiled_info first = RP_COMPILED_INFO_INIT, second = first;
    rp_error err = {0};
    (void)snprintf(kept, sizeof kept, "%s", old ? old : "");
    (void)snprintf(cache, sizeof cache, "%s/cache", root);
    (void)snprintf(cc, sizeof cc, "%s/cc", root);
    tree_write(root, "cc", script, sizeof script - 1);
    assert_int_equal(chmod(cc, 0700), 0);
    (void)setenv("REPRISE_CACHE_DIR", cache, 1);
    (void)setenv("REPRISE_CC", cc, 1);
    rp_compiled *c = compile("level=2");
    CHECK_OK(rp_compiled_get_info(c, &first, &err), &err);
    bind(c);
    CHECK_OK(run(c, 1, &err), &err);
    assert_true(y[0] == 13 && y[1] == 27 && y[2] == 41);
    rp_compiled_free(c);
    c = compile("level=2"); /* asks the compiler for its version, which removes it once more */
    CHECK_OK(rp_compiled_get_info(c, &second, &err), &err);
    rp_compiled_free(c);
    (void)unsetenv("REPRISE_CC");
    if (old)
        (void)setenv("REPRISE_CACHE_DIR", kept, 1);
    else
        (void)unsetenv("REPRISE_CACHE_DIR");
    assert_int_equal(first.compiles, 1);
    assert_int_equal(second.compiles, 1);
    char code[320];
    (void)snprintf(code, sizeof code, "%s/objects/code", cache);
    tree_list files = tree_files(code);
    assert_int_equal(files.n, 2); /* the code and its sum */
    tree_list_free(&files);
}

/* Of several each has its own place, and may be bound again. */
static void states_are_bound_by_name(void **state) {
    float a[2] = {1, 2}, b2[2] = {10, 20}, c2[2] = {100, 300}, in[2] = {0, 0}, got[2];
    (void)state;
    for (int level = 0; level < 4; level += 2) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("states");
        rp_tensor t = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
        t = rp_add(t, rp_state(g, "a", RP_DTYPE_F32, RP_SHAPE(2)));
        t = rp_sub(t, rp_state(g, "b", RP_DTYPE_F32, RP_SHAPE(2)));
        CHECK_OK(rp_graph_finish(g, &t, 1, &err), &err);
        rp_compilation_config *cfg = rp_config_new();
        rp_compiled *c = NULL;
        CHECK_OK(rp_config_set(cfg, level ? "level=2" : "level=0", &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        const rp_buffer from = {RP_DTYPE_F32, 1, {2}, in};
        rp_buffer to = {RP_DTYPE_F32, 1, {2}, got};
        CHECK_OK(rp_compiled_bind(c, "a", a, &err), &err);
        CHECK_OK(rp_compiled_bind(c, "b", b2, &err), &err);
        CHECK_OK(rp_compiled_run(c, &from, 1, &to, 1, &err), &err);
        assert_true(got[0] == -9 && got[1] == -18);
        CHECK_OK(rp_compiled_bind(c, "b", c2, &err), &err);
        CHECK_OK(rp_compiled_run(c, &from, 1, &to, 1, &err), &err);
        assert_true(got[0] == -99 && got[1] == -298);
        rp_compiled_free(c);
        rp_config_free(cfg);
        rp_graph_free(g);
    }
}

/* Whatever is stored is removed before it can be loaded: without the cache, then. */
static void remove_stored(void *user, rp_log_level level, const char *text) {
    rp_error err = {0};
    (void)level;
    if (strstr(text, "store the ")) CHECK_OK(base_path_remove(user, &err), &err);
}

static void a_folder_that_is_always_removed(void **state) {
    const char *old = getenv("REPRISE_CACHE_DIR");
    char cache[300], kept[300];
    rp_error err = {0};
    (void)state;
    (void)snprintf(kept, sizeof kept, "%s", old ? old : "");
    (void)snprintf(cache, sizeof cache, "%s/cache", tree_new("always"));
    (void)setenv("REPRISE_CACHE_DIR", cache, 1);
    rp_log_set_callback(remove_stored, cache);
    CHECK_OK(rp_log_set_channels("cache", &err), &err);
    rp_compiled *c = compile("level=2");
    CHECK_OK(rp_log_set_channels("", &err), &err);
    rp_log_set_callback(NULL, NULL);
    bind(c);
    CHECK_OK(run(c, 1, &err), &err);
    assert_true(y[0] == 13 && y[1] == 27 && y[2] == 41);
    rp_compiled_free(c);
    if (old)
        (void)setenv("REPRISE_CACHE_DIR", kept, 1);
    else
        (void)unsetenv("REPRISE_CACHE_DIR");
}

/* call must fail with code and a text that holds what. */
#define REFUSED(call, code, what)                                                      \
    do {                                                                               \
        rp_error refused_ = {0}, *e = &refused_;                                       \
        assert_int_equal(call, code);                                                  \
        if (!strstr(e->text, what)) fail_msg("'%s' does not say '%s'", e->text, what); \
    } while (0)

static void refuses_by_name(void **state) {
    (void)state;
    rp_compiled *c = compile("level=0");
    REFUSED(run(c, 1, e), RP_INVALID, "param w of graph @linear has no data");
    REFUSED(rp_compiled_bind(c, "v", w, e), RP_NOT_FOUND, "no param or state called 'v'");
    REFUSED(rp_compiled_bind(c, "w", NULL, e), RP_INVALID,
            "bind: 'w' of graph @linear is not empty; data must be given");
    REFUSED(rp_compiled_bind(NULL, "w", w, e), RP_INVALID, "bind: graph and name must be given");
    REFUSED(rp_compiled_bind(c, NULL, w, e), RP_INVALID, "bind: graph and name must be given");
    REFUSED(rp_compiled_get_info(NULL, NULL, e), RP_INVALID, "graph must be given");
    bind(c);
    REFUSED(run(c, 9, e), RP_INVALID, "B = 9 is outside [1, 8]");
    REFUSED(run(c, 0, e), RP_INVALID, "B = 0 is outside");
    rp_buffer in = {RP_DTYPE_F32, 2, {2, 2}, x},
              out[2] = {{RP_DTYPE_F32, 2, {2, 3}, y}, {RP_DTYPE_F32, 2, {2, 3}, y2}};
    REFUSED(rp_compiled_run(c, &in, 3, out, 4, e), RP_INVALID,
            "1 inputs and 2 outputs; 3 and 4 were given");
    REFUSED(rp_compiled_run(c, &in, 1, out, 4, e), RP_INVALID, "1 and 4 were given");
    REFUSED(rp_compiled_run(c, &in, 3, out, 2, e), RP_INVALID, "3 and 2 were given");
    REFUSED(rp_compiled_run(c, NULL, 1, out, 2, e), RP_INVALID, "inputs or outputs are NULL");
    REFUSED(rp_compiled_run(c, &in, 1, NULL, 2, e), RP_INVALID, "inputs or outputs are NULL");
    REFUSED(rp_compiled_run(NULL, &in, 1, out, 2, e), RP_INVALID, "compiled graph is NULL");
    in.dtype = RP_DTYPE_F16;
    REFUSED(rp_compiled_run(c, &in, 1, out, 2, e), RP_INVALID,
            "input x is f16; the graph wants f32");
    in = (rp_buffer){RP_DTYPE_F32, 2, {2, 5}, x};
    REFUSED(rp_compiled_run(c, &in, 1, out, 2, e), RP_INVALID,
            "input x size mismatch at index 1. expected 2, actual 5");
    in.rank = 1;
    REFUSED(rp_compiled_run(c, &in, 1, out, 2, e), RP_INVALID, "has rank 1; the graph wants 2");
    in = (rp_buffer){RP_DTYPE_F32, 2, {2, 2}, NULL};
    REFUSED(rp_compiled_run(c, &in, 1, out, 2, e), RP_INVALID, "input x has no data");
    in.data = x;
    out[1].dim[0] = 3;
    REFUSED(rp_compiled_run(c, &in, 1, out, 2, e), RP_INVALID,
            "output out1 size mismatch at index 0. expected 2, actual 3");
    out[1].dim[0] = 2;
    for (int i = 0; i < 2; i++) {
        char want[64];
        void *data = out[i].data;
        (void)snprintf(want, sizeof want, "output out%d has no data", i);
        out[i].data = NULL;
        REFUSED(rp_compiled_run(c, &in, 1, out, 2, e), RP_INVALID, want);
        out[i].data = data;
    }
    rp_error err = {0};
    CHECK_OK(rp_compiled_run(c, &in, 1, out, 2, &err), &err);
    rp_compiled_free(c);
}

/* Both inputs that a size is read from are named. */
static void sizes_that_contradict_name_both(void **state) {
    static const char text[] =
        "graph @two(%x: f32[2,T], %y: f32[2*T+1,4]) -> f32[2,T] where T in [1,9] "
        "{\n  %0 = neg %x\n  ret %0\n}\n";
    float from[40], to[8];
    (void)state;
    compiled k = compile_text(text, "level=0");
    rp_buffer in[2] = {{RP_DTYPE_F32, 2, {2, 3}, from}, {RP_DTYPE_F32, 2, {9, 4}, from}};
    rp_buffer out = {RP_DTYPE_F32, 2, {2, 3}, to};
    REFUSED(rp_compiled_run(k.c, in, 2, &out, 1, e), RP_INVALID,
            "T is 3 by axis 1 of input x and 4 by axis 0 of input y; it must be one size");
    in[1].dim[0] = 7;
    rp_error err = {0};
    CHECK_OK(rp_compiled_run(k.c, in, 2, &out, 1, &err), &err);
    in[1].dim[0] = 8;
    REFUSED(rp_compiled_run(k.c, in, 2, &out, 1, e), RP_INVALID,
            "input y size mismatch at index 0. expected 7, actual 8");
    compiled_done(&k);
}

/* A size that no input has is unknown to a call; where nothing depends on it, that does not matter. */
/* Four axes, each of three sizes, have as many factors as a size may. */
static void products_of_many_sizes(void **state) {
    enum { N = 2 * 3 * 2 };
    static const char many[] =
        "graph @f(%x: f32[A*B*C,D*E*F,G*H*I,J*K*L], %s: f32[A,B,C,D,E,F], %t: f32[G,H,I,J,K,L]) "
        "where A in [1,3], B in [1,3], C in [1,3], D in [1,3], E in [1,3], F in [1,3], G in [1,3], "
        "H in [1,3], I in [1,3], J in [1,3], K in [1,3], L in [1,3] {\n"
        "  %0 = exp %x\n  %1 = permute %0 {axes=[3,1,2,0]}\n  %2 = add %1, %1\n  ret %2\n}\n";
    static const char too_many[] =
        "graph @f(%x: f32[A*B*C*M,D*E*F,G*H*I,J*K*L], %s: f32[A,B,C,D,E,F], %t: f32[G,H,I,J,K,L], "
        "%u: f32[M]) where A in [1,3], B in [1,3], C in [1,3], D in [1,3], E in [1,3], F in [1,3], "
        "G in [1,3], H in [1,3], I in [1,3], J in [1,3], K in [1,3], L in [1,3], M in [1,3] {\n"
        "  %0 = exp %x\n  ret %0\n}\n";
    static const char *const levels[] = {"level=0", "level=2"};
    float from[N], s[2] = {0}, t[6] = {0}, out[N];
    (void)state;
    for (int i = 0; i < N; i++) from[i] = (float)i / N;
    rp_buffer in[] = {{RP_DTYPE_F32, 4, {2, 1, 3, 2}, from},
                      {RP_DTYPE_F32, 6, {1, 2, 1, 1, 1, 1}, s},
                      {RP_DTYPE_F32, 6, {1, 1, 3, 1, 2, 1}, t}};
    for (int l = 0; l < 2; l++) {
        rp_error err = {0};
        compiled k = compile_text(many, levels[l]);
        rp_buffer to = {RP_DTYPE_F32, 4, {2, 1, 3, 2}, out};
        memset(out, 0, sizeof out);
        CHECK_OK(rp_compiled_run(k.c, in, 3, &to, 1, &err), &err);
        for (int j = 0; j < 2; j++)
            for (int h = 0; h < 3; h++)
                for (int a = 0; a < 2; a++)
                    assert_true(fabsf(out[(j * 3 + h) * 2 + a] -
                                      2 * expf(from[(a * 3 + h) * 2 + j])) < 1e-5f);
        compiled_done(&k);
        rp_graph *g = NULL;
        rp_compiled *c = NULL;
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set(cfg, levels[l], &err), &err);
        CHECK_OK(rp_graph_parse(too_many, sizeof too_many - 1, &g, &err), &err);
        assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
        if (!strstr(err.text, " f32[A*B*C*M,D*E*F,G*H*I,J*K*L]: its bytes are a size of more than "
                              "16 terms, 12 factors of one or 2^61 of them; give some of its "
                              "symbols a value"))
            fail_msg("%s", err.text);
        rp_config_free(cfg);
        rp_graph_free(g);
    }
}

static void sizes_that_no_call_says(void **state) {
    static const char *const texts[] = {
        /* in the graph, in a graph within it, of a param, in a product of two */
        "graph @f(%s: f32[]) -> f32[] where T in [1,64] {\n"
        "  %0 = broadcast %s {shape=[T]} : f32[T]\n"
        "  %1 = sum %0 {axis=0, keep=false} : f32[]\n  ret %1\n}\n",
        "graph @f(%s: f32[]) -> f32[] where T in [1,64] {\n"
        "  %0 = call %s {body=graph @b(%s: f32[]) where T in [1,64] {\n"
        "    %0 = broadcast %s {shape=[T]} : f32[T]\n"
        "    %1 = sum %0 {axis=0, keep=false} : f32[]\n    ret %1\n  }} : f32[]\n  ret %0\n}\n",
        "graph @f(%s: f32[]) -> f32[] where T in [1,64] {\n"
        "  %w = param @w : f32[T]\n  %0 = sum %w {axis=0, keep=false} : f32[]\n  %1 = mul %0, %s : "
        "f32[]\n  ret %1\n}\n",
        "graph @f(%s: f32[S*T], %x: f32[S]) -> f32[] where S in [1,9], T in [1,64] {\n"
        "  %0 = sum %s {axis=0, keep=false} : f32[]\n  ret %0\n}\n",
        /* in what the host runs though nobody reads its result */
        "graph @f(%s: f32[]) -> f32[] where T in [1,64] {\n"
        "  %0 = broadcast %s {shape=[T]} : f32[T]\n"
        "  %1 = custom %0 {name=\"compiled::seen\"}\n  ret %s\n}\n",
    };
    static const char unused[] = "graph @f(%s: f32[2]) -> f32[] where T in [1,64], S in [3,3] {\n"
                                 "  %0 = broadcast %s {shape=[T,2]} : f32[T,2]\n"
                                 "  %1 = broadcast %s {shape=[S,2]} : f32[S,2]\n"
                                 "  %2 = sum %1 {axis=0, keep=false} : f32[2]\n"
                                 "  %3 = sum %2 {axis=0, keep=false} : f32[]\n  ret %3\n}\n";
    static const char *const first[] = {"line 2: broadcast f32[T]", "line 2: call f32[]",
                                        "line 2: param f32[T]", "input f32[S*T]",
                                        "line 2: broadcast f32[T]"};
    const rp_op_desc seen = {.size = sizeof seen, .name = "compiled::seen"};
    rp_error none = {0};
    (void)state;
    CHECK_OK(rp_op_register(&seen, &none), &none);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rp_error err = {0};
        rp_graph *g = NULL;
        rp_compiled *c = NULL;
        CHECK_OK(rp_graph_parse(texts[i], strlen(texts[i]), &g, &err), &err);
        assert_int_equal(rp_compile(g, NULL, &c, &err), RP_INVALID);
        char want[256];
        (void)snprintf(want, sizeof want,
                       "%s of graph @f depends on size T, which no input tells: give it an "
                       "input with T, or a multiple of T plus a number, as a dimension",
                       first[i]);
        assert_string_equal(err.text, want);
        rp_graph_free(g);
    }
    float in[] = {1, 2}, out = 0;
    rp_error err = {0};
    rp_buffer from = {RP_DTYPE_F32, 1, {2}, in}, to = {RP_DTYPE_F32, 0, {0}, &out};
    compiled k = compile_text(unused, "level=2");
    CHECK_OK(rp_compiled_run(k.c, &from, 1, &to, 1, &err), &err);
    assert_true(out == 9);
    compiled_done(&k);
}

/* Without a compiler a graph runs op by op, and its configuration says so, once. */
static void a_missing_compiler_is_noted(void **state) {
    rp_error err = {0};
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    const rp_config_note *note;
    (void)state;
    NOT_ELSEWHERE("no C compiler is asked");
    char *path = strdup(getenv("PATH")), why[600];
    const char *nothing = tree_new("nothing");
    assert_int_equal(setenv("PATH", nothing, 1), 0);
    (void)snprintf(why, sizeof why,
                   "no C compiler (no cc, gcc or clang in PATH=%s); the "
                   "built-in portable kernels run op by op",
                   nothing);
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    size_t n = 0, found = 0, found_other = 0;
    char why_other[600];
    const char *nothing_else = tree_new("nothing_else");
    (void)snprintf(why_other, sizeof why_other,
                   "no C compiler (no cc, gcc or clang in PATH=%s); the "
                   "built-in portable kernels run op by op",
                   nothing_else);
    for (int i = 0; i < 3; i++) { /* the last time for another reason */
        if (i == 2) assert_int_equal(setenv("PATH", nothing_else, 1), 0);
        rp_compiled *c = NULL;
        rp_graph *g = trace_linear();
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
        assert_int_equal(info.kernels, 0);
        bind(c);
        CHECK_OK(run(c, 2, &err), &err);
        assert_true(y[0] == 13 && y[3] == 12);
        rp_compiled_free(c);
        rp_graph_free(g);
    }
    n = rp_config_notes(cfg, &note);
    for (size_t i = 0; i < n; i++) {
        bool of_backend = strcmp(note[i].what, "backend=inductor") == 0;
        found += of_backend && strcmp(note[i].reason, why) == 0;
        found_other += of_backend && strcmp(note[i].reason, why_other) == 0;
    }
    assert_int_equal(found, 1);
    assert_int_equal(found_other, 1);
    rp_graph *g = trace_linear();
    rp_compiled *c = NULL;
    assert_int_equal(setenv("REPRISE_CC", "mycc", 1), 0);
    REFUSED(rp_compile(g, cfg, &c, e), RP_UNSUPPORTED,
            "REPRISE_CC=mycc: PATH has no such program; correct or unset it");
    rp_graph_free(g);
    rp_config_free(cfg);
    (void)unsetenv("REPRISE_CC");
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
}

static void lost_allocations(void **state) {
    (void)state;
    rp_graph *g = trace_linear();
    rp_compiled *warm = compile("level=0");
    rp_compiled_free(warm);
    size_t live = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        rp_compilation_config *cfg = rp_config_new();
        rp_status st = cfg ? rp_compile(g, cfg, &c, &err) : RP_NOMEM;
        rp_compiled_free(c);
        rp_config_free(cfg);
        if (st != RP_OK && st != RP_NOMEM)
            fail_msg("allocation %llu: %s", (unsigned long long)n, err.text);
        if (base_live() != live) fail_msg("allocation %llu leaks", (unsigned long long)n);
    }
    rp_graph_free(g);
}

static void stages_are_dumped(void **state) {
    char dir[64], setting[96], path[96];
    rp_error err = {0};
    (void)state;
    assert_int_equal(tree_make(dir, sizeof dir), 0);
    (void)snprintf(setting, sizeof setting, "debug_dump_path=%s", dir);
    rp_compiled_free(compile(setting)); /* level 0 */
    static const char *const files[] = {"0_traced.linear.ir", "1_split.linear.submod_000.ir",
                                        "6_plan.linear.txt"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/rank_0/%s", dir, files[i]);
        if (!base_file_exists(path)) fail_msg("no %s", path);
    }
    CHECK_OK(base_path_remove(dir, &err), &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_dumped),
        cmocka_unit_test(every_level_computes),
        cmocka_unit_test(aot_eager_is_eager_after_passes),
        cmocka_unit_test(a_size_without_a_bound_runs_at_every_level),
        cmocka_unit_test(places_along_a_size_without_a_bound),
        cmocka_unit_test(new_weights_count),
        cmocka_unit_test(sizes_are_read_from_sums),
        cmocka_unit_test(outputs_tell_their_sizes),
        cmocka_unit_test(what_is_empty_needs_no_data),
        cmocka_unit_test(what_is_not_computed_is_returned),
        cmocka_unit_test(sizes_that_contradict_name_both),
        cmocka_unit_test(sizes_that_no_call_says),
        cmocka_unit_test(products_of_many_sizes),
        cmocka_unit_test(a_missing_compiler_is_noted),
        cmocka_unit_test(indices_are_clamped),
        cmocka_unit_test(second_time_is_cached),
        cmocka_unit_test(bodies_are_counted),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(lost_allocations),
        cmocka_unit_test(states_are_bound_by_name),
        cmocka_unit_test(a_stored_product_is_not_compiled),
        cmocka_unit_test(a_folder_removed_while_compiling),
        cmocka_unit_test(a_folder_that_is_always_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
