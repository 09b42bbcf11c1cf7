/* Passes of users: patterns in all forms that a trace takes, what is no match, rewriting by code, toggles, failures, keys. */
#include "support/check.h"

#include <math.h>

#include "support/engines.h"
#include "support/heard.h"
#include "support/jits.h"

enum { ROWS = 3, COLUMNS = 8, N = ROWS * COLUMNS };

/* --- the passes, registered once for all tests ------------------------------------------------ */

/* exp(x) / sum(exp(x)), which overflows, as a softmax. */
static rp_tensor naive(void *user, rp_graph *g, const rp_tensor *in) {
    rp_tensor e = rp_exp(in[0]);
    (void)user, (void)g;
    return rp_div(e, rp_sum(e, -1, true));
}

static rp_tensor safe(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_softmax(in[0], -1);
}

/* The mean along a size that may be a number or a symbol, scaled by anything, is as much of the sum. */
static rp_tensor scaled_mean(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_mul(in[1], rp_mean(in[0], -1, false));
}

static rp_tensor zero(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    rp_tensor none = rp_const(g, RP_DTYPE_F32, 0);
    return rp_broadcast(none, rp_tensor_shape(rp_sum(in[0], -1, false)));
}

static bool is_seven(void *user, const rp_tensor *in) {
    double scale;
    (void)user;
    return rp_tensor_number(in[1], &scale) && scale == 7;
}

static rp_tensor waves(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_sub(rp_sin(in[0]), rp_sum(rp_cos(in[1]), -1, true));
}

static rp_tensor waves_added(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_add(rp_sin(in[0]), rp_neg(rp_sum(rp_cos(in[1]), -1, true)));
}

/* One of T for both. */
static rp_tensor outer(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_max(in[0], in[1]);
}

static rp_tensor smaller(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_min(in[0], in[1]);
}

/* a + b as a - (-b), which is the same to the bit: for models. */
static rp_tensor sum(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_add(in[0], in[1]);
}

static rp_tensor difference(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_sub(in[0], rp_neg(in[1]));
}

/* A value by its opposite, in either order. */
static rp_tensor either_sign(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_mul(rp_neg(in[0]), in[0]);
}

static rp_tensor square(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_neg(rp_mul(in[0], in[0]));
}

/* Another function where numerics are not exact, which the one of exact numerics lies over. */
static rp_tensor by_numerics(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    if (rp_graph_numerics(g) == RP_NUMERICS_EXACT) return rp_mul_scalar(in[0], 3);
    return rp_mul_scalar(rp_cos(in[0]), 5);
}

/* What it finds is what it gives. */
static rp_tensor hyperbolic(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_tanh(in[0]);
}

/* What the pass `code` does next. */
static enum {
    NOTHING,
    NEGATE,
    FAIL,
    FAIL_SILENTLY,
    LATE,
    OTHER_TYPE,
    OTHER_DTYPE,
    OTHER_ROWS,
    OTHER_COLUMNS,
    LEAF,
    ADDS,
    OF_ANOTHER,
    NO_NODE
} doing;

static rp_status code(void *user, rp_rewrite *r, rp_error *err) {
    const rp_graph *g = rp_rewrite_graph(r);
    (void)user;
    if (doing == FAIL_SILENTLY) return RP_DEVICE;
    for (uint32_t i = 0; doing != NOTHING && i < rp_graph_count(g, RP_GRAPH_NODES); i++) {
        rp_node n = RP_NODE_INIT;
        rp_status st = rp_graph_node(g, i, &n, err);
        if (st != RP_OK) return st;
        if (doing == LEAF) return rp_rewrite_replace(r, i, rp_rewrite_value(r, i), err);
        if (strcmp(n.op, "tanh") != 0) continue;
        if (doing == FAIL) {
            (void)snprintf(err->text, sizeof err->text, "no tanh today");
            return RP_UNSUPPORTED;
        }
        rp_tensor x = rp_rewrite_value(r, doing == LATE ? i : doing == NO_NODE ? 999 : n.in[0]);
        rp_tensor y = doing == OTHER_TYPE      ? rp_sum(x, 0, false)
                      : doing == OTHER_DTYPE   ? rp_cast(x, RP_DTYPE_F16)
                      : doing == OTHER_ROWS    ? rp_sum(x, 0, true)
                      : doing == OTHER_COLUMNS ? rp_sum(x, 1, true)
                                               : rp_neg(x);
        if (doing == ADDS) (void)rp_input(y.graph, "more", RP_DTYPE_F32, RP_SHAPE(1));
        if (doing == OF_ANOTHER) y.id++; /* whose graph lay where this one lies */
        st = rp_rewrite_replace(r, i, y, err);
        if (st != RP_OK) return st;
    }
    return RP_OK;
}

static int registered(void **state) {
    static const char *const rows[] = {"f32[T,D]"}, *const mean[] = {"f32[T,D]", "f32[]"},
                             *const equal[] = {"f32[T,D]", "f32[T,D]"},
                             *const longer[] = {"f32[T,D]", "f32[T,DD]"};
    rp_error err = {0};
    const rp_pass_desc all[] = {
        {.name = "safe_softmax",
         .types = rows,
         .n_types = 1,
         .pattern = naive,
         .replacement = safe},
        {.name = "no_mean",
         .uuid = "1",
         .types = mean,
         .n_types = 2,
         .pattern = scaled_mean,
         .replacement = zero,
         .check = is_seven},
        {.name = "sin_cos",
         .types = longer,
         .n_types = 2,
         .pattern = waves,
         .replacement = waves_added},
        {.name = "min_max", .types = equal, .n_types = 2, .pattern = outer, .replacement = smaller},
        {.name = "minus", .types = equal, .n_types = 2, .pattern = sum, .replacement = difference},
        {.name = "code", .uuid = "1", .run = code},
        {.name = "square",
         .types = rows,
         .n_types = 1,
         .pattern = either_sign,
         .replacement = square},
        {.name = "same",
         .types = rows,
         .n_types = 1,
         .pattern = hyperbolic,
         .replacement = hyperbolic},
        {.name = "numerics",
         .types = rows,
         .n_types = 1,
         .pattern = by_numerics,
         .replacement = square}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_pass_desc d = all[i];
        d.size = sizeof d;
        CHECK_OK(rp_pass_register(&d, &err), &err);
        assert_string_equal(rp_pass_name((uint32_t)i), d.name);
    }
    assert_null(rp_pass_name(sizeof all / sizeof *all));
    return 0;
}

static int fresh(void **state) {
    (void)state;
    rp_log_set_callback(NULL, NULL);
    doing = NOTHING;
    return 0;
}

/* --- a graph and its result ------------------------------------------------------------------- */

typedef rp_tensor (*made_fn)(rp_tensor x);

static rp_status compiled(made_fn fn, bool symbols, const char *settings, rp_compiled **out,
                          rp_error *err) {
    rp_graph *g = rp_graph_new("f");
    rp_compilation_config *cfg = rp_config_new();
    char copy[256];
    rp_shape shape = RP_SHAPE(ROWS, COLUMNS);
    if (symbols) shape = RP_SHAPE(rp_symbol(g, "T", 1, 64), rp_symbol(g, "D", 1, 64));
    rp_tensor y = fn(rp_input(g, "x", RP_DTYPE_F32, shape));
    (void)snprintf(copy, sizeof copy, "level=2 %s", settings);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        CHECK_OK(rp_config_set(cfg, word, err), err);
    CHECK_OK(rp_graph_finish(g, &y, 1, err), err);
    rp_status st = rp_compile(g, cfg, out, err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st;
}

/* Matches of a pass; -1: it did not run. */
static int matches(const rp_compiled *c, const char *name) {
    rp_error err = {0};
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    for (uint32_t i = 0; i < info.n_passes; i++)
        if (strcmp(info.passes[i].name, name) == 0) return (int)info.passes[i].matches;
    return -1;
}

static int matches_of(made_fn fn, bool symbols, const char *settings, const char *name, float *y) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    float x[N], all[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i % 5) * 40;
    CHECK_OK(compiled(fn, symbols, settings, &c, &err), &err);
    rp_buffer in = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x}, out = {0};
    CHECK_OK(rp_compiled_outputs(c, &in, 1, &out, 1, &err), &err);
    out.data = all;
    CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
    if (y) *y = all[out.rank == 1 ? 2 : 4];
    int n = matches(c, name);
    rp_compiled_free(c);
    return n;
}

/* --- patterns ---------------------------------------------------------------------------------- */

static rp_tensor softmaxes(rp_tensor x) {
    rp_tensor e = rp_exp(x);
    return rp_div(e, rp_sum(e, 1, true));
}

/* Sizes are numbers or symbols; off, the result overflows. */
static void a_pattern_is_replaced(void **state) {
    float y = 0;
    (void)state;
    for (int symbols = 0; symbols < 2; symbols++) {
        assert_int_equal(matches_of(softmaxes, symbols, "", "safe_softmax", &y), 1);
        assert_true(y >= 0 && y <= 1);
        assert_int_equal(matches_of(softmaxes, symbols, "inductor_passes.safe_softmax=false",
                                    "safe_softmax", &y),
                         -1);
        assert_true(isnan(y));
        assert_int_equal(
            matches_of(softmaxes, symbols, "skip_passes=[\"safe_softmax\"]", "safe_softmax", &y),
            -1);
        assert_true(isnan(y));
        assert_int_equal(matches_of(softmaxes, symbols, "level=0", "safe_softmax", &y), -1);
        assert_true(isnan(y));
    }
}

/* Along another axis it is another function; attributes count. */
static rp_tensor other_axis(rp_tensor x) {
    rp_tensor e = rp_exp(x);
    return rp_div(e, rp_sum(e, 0, true));
}

static rp_tensor other_value(rp_tensor x) {
    return rp_div(rp_exp(x), rp_sum(rp_exp(rp_mul_scalar(x, 2)), 1, true));
}

static rp_tensor other_rank(rp_tensor x) {
    return rp_squeeze(softmaxes(rp_unsqueeze(x, 0)), 0);
}

static void what_differs_is_no_match(void **state) {
    (void)state;
    assert_int_equal(matches_of(other_axis, false, "", "safe_softmax", NULL), 0);
    assert_int_equal(matches_of(other_value, false, "", "safe_softmax", NULL), 0);
    assert_int_equal(matches_of(other_rank, false, "", "safe_softmax", NULL), 0);
}

static rp_tensor twice(rp_tensor x) {
    return rp_add(softmaxes(x), softmaxes(rp_neg(softmaxes(x))));
}

static void equal_ones_are_one_node(void **state) {
    (void)state;
    assert_int_equal(matches_of(twice, false, "", "safe_softmax", NULL), 2);
}

/* A mean is a product with a number where its size is one, else a division by a size; factors change places. */
static rp_tensor sevenfold(rp_tensor x) {
    return rp_mul_scalar(rp_mean(x, 1, false), 7);
}

static rp_tensor eightfold(rp_tensor x) {
    return rp_mul_scalar(rp_mean(x, 1, false), 8);
}

static void forms_constants_and_checks(void **state) {
    float y = 1;
    (void)state;
    for (int symbols = 0; symbols < 2; symbols++) {
        assert_int_equal(matches_of(sevenfold, symbols, "", "no_mean", &y), 1);
        assert_true(y == 0);
        assert_int_equal(matches_of(eightfold, symbols, "", "no_mean", &y), 0);
        assert_true(y > 0);
    }
}

/* A form that lies over a value and is another leaves nothing to the next one. */
static rp_tensor fivefold(rp_tensor x) {
    return rp_mul_scalar(rp_cos(x), 5);
}

static void forms_are_laid_apart(void **state) {
    float y = 0;
    (void)state;
    assert_int_equal(matches_of(fivefold, false, "", "numerics", &y), 1);
    assert_true(y == -160 * 160);
}

/* Both operands are [T,D]; a row is broadcast, which the pattern does not say. */
static rp_tensor same_sizes(rp_tensor x) {
    return rp_max(x, rp_neg(x));
}

static rp_tensor one_row(rp_tensor x) {
    return rp_max(x, rp_slice(x, 0, 0, 1));
}

/* Names that begin alike are of two sizes. */
static rp_tensor other_waves(rp_tensor x) {
    return rp_sub(rp_sin(x), rp_sum(rp_cos(rp_slice(x, 1, 0, 4)), -1, true));
}

static void a_name_is_one_size(void **state) {
    (void)state;
    assert_int_equal(matches_of(same_sizes, false, "", "min_max", NULL), 1);
    assert_int_equal(matches_of(one_row, false, "", "min_max", NULL), 0);
    assert_int_equal(matches_of(other_waves, false, "", "sin_cos", NULL), 1);
}

/* x = -p is first taken for the opposite of p: what that has bound is forgotten for the other order. */
static rp_tensor opposites(rp_tensor p) {
    rp_tensor x = rp_neg(p);
    return rp_mul(x, rp_neg(x));
}

static rp_tensor opposites_turned(rp_tensor p) {
    rp_tensor x = rp_neg(p);
    return rp_mul(rp_neg(x), x);
}

static rp_tensor no_opposites(rp_tensor p) {
    rp_tensor x = rp_neg(p);
    return rp_mul(x, rp_neg(rp_neg(x)));
}

static void orders_are_tried_apart(void **state) {
    float y = 0;
    (void)state;
    assert_int_equal(matches_of(opposites, false, "", "square", &y), 1);
    assert_true(y == -160 * 160);
    assert_int_equal(matches_of(opposites_turned, false, "", "square", &y), 1);
    assert_true(y == -160 * 160);
    assert_int_equal(matches_of(no_opposites, false, "", "square", NULL), 0);
}

/* --- code ---------------------------------------------------------------------------------------- */

static rp_tensor tanhs(rp_tensor x) {
    return rp_add_scalar(rp_tanh(x), 1);
}

static void code_replaces_nodes(void **state) {
    float y;
    (void)state;
    doing = NEGATE;
    for (int symbols = 0; symbols < 2; symbols++) {
        assert_int_equal(matches_of(tanhs, symbols, "", "code", &y), 1);
        assert_true(y == -159);
    }
    doing = NOTHING;
    assert_int_equal(matches_of(tanhs, false, "", "code", &y), 0);
    assert_true(y == 2);
    /* A replacement that changes nothing is none. */
    assert_int_equal(matches_of(tanhs, false, "", "same", &y), 0);
    assert_true(y == 2);
}

static void failures_are_told_or_left_out(void **state) {
    static const char *const why[] = {[FAIL] = "no tanh today",
                                      [FAIL_SILENTLY] = "gave no reason",
                                      [LATE] = "in ascending order",
                                      [OTHER_TYPE] = "cannot stand for it",
                                      [OTHER_DTYPE] = "cannot stand for it",
                                      [OTHER_ROWS] = "cannot stand for it",
                                      [OTHER_COLUMNS] = "cannot stand for it",
                                      [LEAF] = "belongs to the graph's caller",
                                      [ADDS] = "it added an input",
                                      [OF_ANOTHER] = "is no tensor of the new graph",
                                      [NO_NODE] = "has no node 999"};
    base_buf heard;
    (void)state;
    for (int what = FAIL; what <= NO_NODE; what++) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        float y;
        doing = what;
        assert_int_not_equal(compiled(tanhs, false, "", &c, &err), RP_OK);
        assert_non_null(strstr(err.text, "pass code on @"));
        assert_non_null(strstr(err.text, why[what]));
        heard_start(&heard, "inductor");
        assert_int_equal(matches_of(tanhs, false, "suppress_errors=true", "code", &y), 0);
        CHECK_HEARD(&heard, why[what]);
        CHECK_HEARD(&heard, "the graph stays as it was");
        heard_done(&heard);
        assert_true(y == 2);
    }
}

/* Only what a constant gives is one, through views of it, and of what is no tensor nothing is asked. */
static void numbers_are_those_of_constants(void **state) {
    rp_error err = {0};
    double v = 0;
    rp_graph *g = rp_graph_new("numbers");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3)), seven;
    (void)state;
    seven = rp_broadcast(rp_const(g, RP_DTYPE_F32, 7), RP_SHAPE(2, 3));
    assert_true(rp_tensor_number(seven, &v) && v == 7);
    assert_true(rp_tensor_number(seven, NULL));
    assert_true(rp_tensor_number(rp_reshape(seven, RP_SHAPE(6)), &v) && v == 7);
    v = 1;
    assert_false(rp_tensor_number(x, &v));
    assert_false(rp_tensor_number((rp_tensor){0}, &v));
    assert_false(rp_tensor_number((rp_tensor){g, UINT32_MAX, x.id}, &v));
    assert_true(v == 1);
    rp_tensor y = rp_add(x, seven);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    rp_graph_free(g);
}

/* A function of rp_jit is one of its compiles. */
static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, tanhs(rp_jit_tensor(call, &args->item[0])));
    return RP_OK;
}

static float first_of(rp_jit *f) {
    rp_error err = {0};
    rp_output *out = NULL;
    const rp_value *y;
    float x[2] = {5, 6};
    rp_value v = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 1, {2}, x}),
             args = rp_value_tuple(&v, 1);
    CHECK_OK(rp_jit_run(f, &args, &out, &err), &err);
    CHECK_OK(rp_output_value(out, &y, &err), &err);
    float first = ((const float *)y->tensor.data)[0];
    rp_output_free(out);
    return first;
}

static void functions_have_passes(void **state) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(forward);
    (void)state;
    o.suppress_errors = true;
    CHECK_OK(jit_of(o, "level=2", &f, &err), &err);
    doing = NEGATE;
    assert_true(first_of(f) == -4);
    rp_jit_reset(f);
    doing = FAIL; /* compiled without it */
    assert_true(first_of(f) > 1.9F);
    rp_jit_free(f);
}

/* --- models -------------------------------------------------------------------------------------- */

/* Both graphs of the model, each distinct piece once: a sum of the attention's result with what went into it, and one of the MLP's. A
 * warm start, which runs no pass, knows the counts, and what is in the key tells plans apart. */
static void models_have_passes(void **state) {
    static const char *const on[] = {"level=3", NULL}, *const off[] = {
                                                           "level=3", "inductor_passes.minus=false",
                                                           NULL};
    const char *const *const settings[] = {on, on, off, off};
    int32_t ids[4][6];
    (void)state;
    for (int i = 0; i < 4; i++) {
        rp_engine *e = engine_must("synthetic:tiny,layers=2", settings[i]);
        char *json = NULL;
        rp_error err = {0};
        assert_int_equal(engine_count(e, "traces"), i % 2 ? 0 : 2);
        CHECK_OK(rp_engine_summary(e, &json, &err), &err);
        const char *minus = strstr(json, "{\"name\":\"minus\",\"matches\":");
        assert_int_equal(minus != NULL, i < 2);
        if (minus) assert_true(atoi(minus + strlen("{\"name\":\"minus\",\"matches\":")) > 0);
        assert_non_null(strstr(json, "{\"name\":\"fuse_norm_quant\",\"matches\":"));
        rp_engine_text_free(json);
        assert_int_equal(engine_greedy(e, plain_prompt, 5, 6, ids[i]), 6);
        assert_memory_equal(ids[i], ids[0], sizeof ids[0]);
        rp_engine_close(e);
    }
}

/* Without the pass the model runs; the next start tries again. */
static void a_model_without_a_pass_is_not_stored(void **state) {
    static const char *const strict[] = {"level=3", "max_num_seqs=2", NULL},
                             *const lenient[] = {"level=3", "max_num_seqs=2",
                                                 "suppress_errors=true", NULL};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        doing = FAIL_SILENTLY;
        assert_null(engine_with("synthetic:tiny,layers=2", strict, &err));
        assert_non_null(strstr(err.text, "pass code on @"));
        rp_engine *e = engine_must("synthetic:tiny,layers=2", lenient);
        assert_int_equal(engine_count(e, "traces"), 2);
        rp_engine_close(e);
    }
}

/* --- names and settings ------------------------------------------------------------------------------ */

static void settings_name_passes(void **state) {
    static const struct {
        const char *setting, *text;
    } bad[] = {{"inductor_passes.safe_softmx=true", "nearest: safe_softmax"},
               {"inductor_passes.zzzzzzzzzzzz=true", "rp_pass_register does that"},
               {"inductor_passes.code=3", "inductor_passes.code=3: expected true or false"},
               {"skip_passes=[\"safe_softmx\"]", "no pass safe_softmx; nearest: safe_softmax"},
               {"skip_passes=[\"zzzzzzzzzzzz\"]", "fuse_attn_quant, "}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        assert_int_equal(compiled(tanhs, false, bad[i].setting, &c, &err), RP_CONFIG);
        assert_non_null(strstr(err.text, bad[i].text));
    }
    assert_int_equal(matches_of(tanhs, false, "inductor_passes.code=true", "code", NULL), 0);
}

static rp_tensor input(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return in[0];
}

static rp_tensor writes(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    return rp_update(rp_empty(g, RP_DTYPE_F32, rp_tensor_shape(in[0])), in[0]);
}

static rp_tensor takes_memory(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    return rp_add(rp_empty(g, RP_DTYPE_F32, rp_tensor_shape(in[0])), in[0]);
}

static rp_tensor adds_input(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    return rp_add(rp_input(g, "more", RP_DTYPE_F32, rp_tensor_shape(in[0])), in[0]);
}

static rp_tensor adds_param(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    return rp_add(rp_param(g, "more", RP_DTYPE_F32, rp_tensor_shape(in[0])), in[0]);
}

static rp_tensor adds_state(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user;
    return rp_add(rp_state(g, "more", RP_DTYPE_F32, rp_tensor_shape(in[0])), in[0]);
}

static rp_tensor fails(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_sum(in[0], 7, false);
}

static void bad_passes_are_refused(void **state) {
    static const char *const one[] = {"f32[T]"}, *const two[] = {"f32[T]", "f32[T]"},
                             *const odd[] = {"f32[T"}, *const more[] = {"f32[T]]"};
    static const struct {
        rp_pass_desc d;
        rp_status st;
        const char *text;
    } bad[] = {
        {{.run = code, .uuid = "1"}, RP_INVALID, "name is NULL"},
        {{.name = "a-b", .run = code, .uuid = "1"}, RP_INVALID, "'a-b' is not of letters"},
        {{.name = "fold", .run = code, .uuid = "1"}, RP_INVALID, "one of the library's"},
        {{.name = "fuse_norm_quant", .run = code, .uuid = "1"}, RP_INVALID, "one of the library's"},
        {{.name = "code", .run = code, .uuid = "1"}, RP_INVALID, "is registered already"},
        {{.name = "a", .run = code}, RP_INVALID, "uuid is missing"},
        {{.name = "a"}, RP_INVALID, "give `run`, or `pattern`"},
        {{.name = "a", .run = code, .uuid = "1", .pattern = naive}, RP_INVALID, "give `run`, or"},
        {{.name = "a", .run = code, .uuid = "1", .replacement = safe},
         RP_INVALID,
         "give `run`, or"},
        {{.name = "a", .run = code, .uuid = "1", .n_types = 1}, RP_INVALID, "give `run`, or"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = naive}, RP_INVALID, "give `run`, or"},
        {{.name = "a", .types = one, .n_types = 1, .replacement = safe},
         RP_INVALID,
         "give `run`, or"},
        {{.name = "a", .n_types = 1, .pattern = naive, .replacement = safe},
         RP_INVALID,
         "give `run`, or"},
        {{.name = "a", .types = one, .pattern = naive, .replacement = safe},
         RP_INVALID,
         "give `run`, or"},
        {{.name = "a", .types = odd, .n_types = 1, .pattern = naive, .replacement = safe},
         RP_INVALID,
         "'f32[T' is no type"},
        {{.name = "a", .types = more, .n_types = 1, .pattern = naive, .replacement = safe},
         RP_INVALID,
         "'f32[T]]' is no type"},
        {{.name = "a", .types = one, .n_types = 17, .pattern = naive, .replacement = safe},
         RP_INVALID,
         "17 inputs; at most 16"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = input, .replacement = safe},
         RP_INVALID,
         "the pattern computes nothing"},
        {{.name = "a", .types = two, .n_types = 2, .pattern = naive, .replacement = safe},
         RP_INVALID,
         "does not read input 1"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = writes, .replacement = safe},
         RP_UNSUPPORTED,
         "the pattern writes memory"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = takes_memory, .replacement = safe},
         RP_UNSUPPORTED,
         "the pattern writes memory"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = adds_input, .replacement = safe},
         RP_INVALID,
         "a pattern adds no inputs, params or states"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = adds_param, .replacement = safe},
         RP_INVALID,
         "a pattern adds no inputs, params or states"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = adds_state, .replacement = safe},
         RP_INVALID,
         "a pattern adds no inputs, params or states"},
        {{.name = "a", .types = one, .n_types = 1, .pattern = fails, .replacement = safe},
         RP_INVALID,
         "axis 7 out of range"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        rp_pass_desc d = bad[i].d;
        d.size = sizeof d;
        assert_int_equal(rp_pass_register(&d, &err), bad[i].st);
        if (!strstr(err.text, bad[i].text)) fail_msg("%zu: %s", i, err.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_pattern_is_replaced, fresh),
        cmocka_unit_test_setup(what_differs_is_no_match, fresh),
        cmocka_unit_test_setup(equal_ones_are_one_node, fresh),
        cmocka_unit_test_setup(forms_constants_and_checks, fresh),
        cmocka_unit_test_setup(forms_are_laid_apart, fresh),
        cmocka_unit_test_setup(a_name_is_one_size, fresh),
        cmocka_unit_test_setup(orders_are_tried_apart, fresh),
        cmocka_unit_test_setup(code_replaces_nodes, fresh),
        cmocka_unit_test_setup(failures_are_told_or_left_out, fresh),
        cmocka_unit_test(numbers_are_those_of_constants),
        cmocka_unit_test_setup(functions_have_passes, fresh),
        cmocka_unit_test_setup(models_have_passes, fresh),
        cmocka_unit_test_setup(a_model_without_a_pass_is_not_stored, fresh),
        cmocka_unit_test_setup(settings_name_passes, fresh),
        cmocka_unit_test_setup(bad_passes_are_refused, fresh),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
