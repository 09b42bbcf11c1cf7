/* Passes of users at their limits: names, types and what tells their keys apart; what code may replace and record, and what patterns may
 * give. rewrite_pass.c has what they do. */
#include "support/check.h"
#include "support/elsewhere.h"

#include "reprise/reprise.h"
#include "rewrite/registry.h"

enum { N = 6 };

/* --- patterns ------------------------------------------------------------------------------------------- */

static rp_tensor exponent(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_exp(in[0]);
}

static rp_tensor opposite(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_neg(in[0]);
}

/* Along the axis that the pass is told. */
static rp_tensor largest(void *user, rp_graph *g, const rp_tensor *in) {
    (void)g;
    return rp_amax(in[0], *(int *)user, true);
}

/* The mean of both, of which the order says nothing: the factors of the product change places. */
static rp_tensor weighted(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_mul(rp_sum(in[0], 0, true), in[1]);
}

static rp_tensor first_weight(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_neg(in[1]);
}

/* A mean is a product where its size is a number, and a division where that is a symbol. */
static rp_tensor mean_of_means(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_mean(rp_mean(in[0], 1, false), 0, false);
}

static rp_tensor none(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)in;
    return rp_const(g, RP_DTYPE_F32, 0);
}

/* Of another type than sin: a number for a row, or rows for a number. */
static rp_tensor sine(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_sin(in[0]);
}

static rp_tensor not_of_its_type(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_cast(in[0], RP_DTYPE_F64);
}

/* --- code ------------------------------------------------------------------------------------------------ */

static enum { NOTHING, STATE, UPDATE, RECORDS_BADLY, BEHIND, ASKS_BEHIND } doing;

static rp_status code(void *user, rp_rewrite *r, rp_error *err) {
    const rp_graph *g = rp_rewrite_graph(r);
    const char *wanted = doing == STATE ? "state" : doing == UPDATE ? "update" : "exp";
    (void)user;
    for (uint32_t i = 0; doing != NOTHING && i < rp_graph_count(g, RP_GRAPH_NODES); i++) {
        rp_node n = RP_NODE_INIT;
        rp_status st = rp_graph_node(g, i, &n, err);
        if (st != RP_OK) return st;
        if (strcmp(n.op, wanted) != 0) continue;
        const uint32_t behind = rp_graph_count(g, RP_GRAPH_NODES); /* the first that is none */
        if (doing == ASKS_BEHIND) return (void)rp_rewrite_value(r, behind), RP_OK;
        rp_tensor x = rp_rewrite_value(r, rp_graph_at(g, RP_GRAPH_INPUTS, 0));
        if (doing == BEHIND) return rp_rewrite_replace(r, behind, x, err);
        if (doing == RECORDS_BADLY) return (void)rp_sum(x, 7, false), RP_OK;
        return rp_rewrite_replace(r, i, x, err);
    }
    return RP_OK;
}

/* --- registering ---------------------------------------------------------------------------------------- */

static rp_status add(rp_pass_desc d, rp_error *err) {
    d.size = sizeof d;
    return rp_pass_register(&d, err);
}

static uint32_t n_passes(void) {
    uint32_t n = 0;
    while (rp_pass_name(n)) n++;
    return n;
}

/* Of 63 characters, and of those that are said; none of the library's, under either of its names. */
static void names_are_checked(void **state) {
    char name[70];
    (void)state;
    for (size_t n = 62; n < 66; n++) {
        rp_error err = {0};
        memset(name, 'a', n);
        name[n] = 0;
        rp_status st = add((rp_pass_desc){.name = name, .uuid = "1", .run = code}, &err);
        if ((st == RP_OK) != (n <= 63)) fail_msg("%zu characters: %s", n, err.text);
        if (st == RP_OK)
            assert_string_equal(rp_pass_name(n_passes() - 1), name);
        else
            assert_non_null(strstr(err.text, "up to 63"));
    }
    static const char *const taken[] = {"fold",
                                        "simplify",
                                        "eliminate_noops",
                                        "gather",
                                        "cse",
                                        "dce",
                                        "inplace",
                                        "fuse_norm_quant",
                                        "fuse_act_quant",
                                        "fuse_rope_kvcache",
                                        "enable_qk_norm_rope_fusion",
                                        "fuse_qk_norm_rope_kvcache",
                                        "fuse_attn_quant"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        rp_error err = {0};
        rp_status st = add((rp_pass_desc){.name = taken[i], .uuid = "1", .run = code}, &err);
        if (st != RP_INVALID || !strstr(err.text, "is one of the library's"))
            fail_msg("%s: %s", taken[i], err.text);
    }
    static const char *const wrong[] = {"", "a b", "a.b", "a-b", "\xc3\xa4", "a\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(add((rp_pass_desc){.name = wrong[i], .uuid = "1", .run = code}, NULL),
                         RP_INVALID);
}

static rp_tensor no_pattern(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_sum(in[0], 99, false); /* never registered, whatever its type */
}

static void types_are_read(void **state) {
    static const struct {
        const char *text;
        bool good;
    } cases[] = {{"f32[]", true},
                 {"f32[T]", true},
                 {"f16[T,D]", true},
                 {"i64[4]", true},
                 {"bool[a,b,c,d,e,f]", true},
                 {"bool[a,b,c,d,e,f,g]", false},
                 {"f32[1,2,3,4,5,6]", true},
                 {"f32[1,2,3,4,5,6,7]", false},
                 {"f32[T1,_x]", true},
                 {"f32[1T]", false},
                 {"f32[T, D]", false},
                 {"f32[T", false},
                 {"f32", false},
                 {"f32[T]]", false},
                 {"f32[T,]", false},
                 {"f32[,T]", false},
                 {"f33[T]", false},
                 {"[T]", false},
                 {"f32[T]x", false},
                 {"f32[-1]", false},
                 {"", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        const char *const types[] = {cases[i].text};
        rp_status st = add((rp_pass_desc){.name = "typed",
                                          .types = types,
                                          .n_types = 1,
                                          .pattern = no_pattern,
                                          .replacement = opposite},
                           &err);
        assert_int_equal(st, RP_INVALID);
        bool refused = strstr(err.text, "is no type of a pattern's input") != NULL;
        if (refused == cases[i].good) fail_msg("'%s': %s", cases[i].text, err.text);
    }
}

/* What is in a key: the uuid that is given, the types, what pattern and replacement are traced to; and nothing else. */
static void keys_tell_passes_apart(void **state) {
    static const char *const one[] = {"f32[T]"}, *const other[] = {"f32[S]"},
                             *const fixed[] = {"f32[4]"};
    static int first = 0, second = 1;
    static const struct {
        rp_pass_desc d;
        int same; /* as which one in front of it; -1: as none */
    } all[] = {
        {{.uuid = "1", .types = one, .pattern = exponent, .replacement = opposite}, -1},
        {{.uuid = "2", .types = one, .pattern = exponent, .replacement = opposite}, -1},
        {{.types = one, .pattern = exponent, .replacement = opposite}, -1},
        {{.uuid = "1", .types = one, .pattern = exponent, .replacement = opposite}, 0},
        {{.uuid = "1", .types = other, .pattern = exponent, .replacement = opposite}, -1},
        {{.uuid = "1", .types = fixed, .pattern = exponent, .replacement = opposite}, -1},
        {{.uuid = "1", .types = one, .pattern = opposite, .replacement = exponent}, -1},
        {{.uuid = "1", .types = one, .pattern = exponent, .replacement = exponent}, -1},
        {{.uuid = "1", .types = one, .pattern = largest, .replacement = largest, .user = &first},
         -1},
        {{.uuid = "1", .types = one, .pattern = largest, .replacement = largest, .user = &first},
         8},
        {{.uuid = "1", .run = code}, -1},
        {{.uuid = "2", .run = code}, -1},
        {{.uuid = "1", .run = code, .user = &second}, 10},
    };
    const uint32_t before = n_passes();
    (void)state;
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_error err = {0};
        rp_pass_desc d = all[i].d;
        char name[16];
        (void)snprintf(name, sizeof name, "key_%u", i);
        d.name = name;
        d.n_types = d.types ? 1 : 0;
        CHECK_OK(add(d, &err), &err);
        for (uint32_t k = 0; k < i; k++) {
            bool same = strcmp(rewrite_at(before + i)->uuid, rewrite_at(before + k)->uuid) == 0;
            bool want = (int)k == all[i].same;
            if (same != want)
                fail_msg("passes %u and %u have %s key", k, i, same ? "one" : "another");
        }
    }
}

/* --- running -------------------------------------------------------------------------------------------- */

typedef rp_tensor (*made_fn)(rp_graph *g, rp_tensor x);

static enum { FIXED, ROWS_FREE, BOTH_FREE } sizes; /* of the input, [2,3] else */

static bool in_pieces; /* split at its cumulative sums */

/* The compile of a graph with this pass alone. */
static rp_status compiled(made_fn fn, const char *pass, rp_compiled **out, rp_error *err) {
    rp_graph *g = rp_graph_new("f");
    rp_compilation_config *cfg = rp_config_new();
    rp_dim rows = sizes == FIXED ? rp_dim_const(2) : rp_symbol(g, "R", 1, 64);
    rp_dim columns = sizes == BOTH_FREE ? rp_symbol(g, "C", 1, 64) : rp_dim_const(3);
    rp_tensor y = fn(g, rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rows, columns)));
    CHECK_OK(rp_graph_finish(g, &y, 1, err), err);
    CHECK_OK(rp_config_set(cfg, in_pieces ? "level=3" : "level=2", err), err);
    if (in_pieces) {
        CHECK_OK(rp_config_set(cfg, "splitting_ops=reprise::cumsum", err), err);
        CHECK_OK(rp_config_set(cfg, "cudagraph_mode=NONE", err), err);
    }
    for (uint32_t i = 0; rp_pass_name(i); i++) {
        char setting[128];
        if (strcmp(rp_pass_name(i), pass) == 0) continue;
        (void)snprintf(setting, sizeof setting, "inductor_passes.%s=false", rp_pass_name(i));
        CHECK_OK(rp_config_set(cfg, setting, err), err);
    }
    rp_status st = rp_compile(g, cfg, out, err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st;
}

static uint32_t matches(made_fn fn, const char *pass) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    uint32_t n = 0;
    CHECK_OK(compiled(fn, pass, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    for (uint32_t i = 0; i < info.n_passes; i++)
        if (strcmp(info.passes[i].name, pass) == 0) n += info.passes[i].matches;
    rp_compiled_free(c);
    return n;
}

static rp_tensor with_state(rp_graph *g, rp_tensor x) {
    rp_tensor s = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(2, 3));
    return rp_exp(rp_add(rp_update(s, x), x));
}

/* Memory stays what it is, and what a pass records must be right, whether it uses it or not. */
static void code_is_checked(void **state) {
    static const char *const why[] = {[STATE] = "belongs to the graph's caller",
                                      [UPDATE] = "(update) is memory",
                                      [RECORDS_BADLY] = "axis 7 out of range",
                                      [BEHIND] = "has no node",
                                      [ASKS_BEHIND] = "has no node"};
    rp_error err = {0};
    (void)state;
    CHECK_OK(add((rp_pass_desc){.name = "code", .uuid = "1", .run = code}, &err), &err);
    for (int what = NOTHING; what <= ASKS_BEHIND; what++) {
        rp_compiled *c = NULL;
        err = (rp_error){0};
        doing = what;
        rp_status st = compiled(with_state, "code", &c, &err);
        if (what == NOTHING) {
            CHECK_OK(st, &err);
        } else {
            assert_int_equal(st, RP_INVALID);
            if (!strstr(err.text, why[what])) fail_msg("%d: %s", what, err.text);
        }
        rp_compiled_free(c);
    }
    doing = NOTHING;
}

static rp_tensor means(rp_graph *g, rp_tensor x) {
    return mean_of_means(NULL, g, &x);
}

/* Sizes that are numbers, symbols, or of which the first is a symbol: a batch of rows. */
static rp_tensor exponents(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_exp(x);
}

static void each_form_of_sizes_is_found(void **state) {
    static const char *const any[] = {"f32[T,D]"};
    rp_error err = {0};
    (void)state;
    CHECK_OK(add((rp_pass_desc){.name = "means",
                                .types = any,
                                .n_types = 1,
                                .pattern = mean_of_means,
                                .replacement = none},
                 &err),
             &err);
    for (int form = FIXED; form <= BOTH_FREE; form++) {
        sizes = form;
        if (matches(means, "means") != 1) fail_msg("form %d", form);
    }
    sizes = FIXED;
}

static rp_tensor means_apart(rp_graph *g, rp_tensor x) {
    rp_tensor before = means(g, x);
    return rp_add(before, means(g, rp_cumsum(x, 0)));
}

/* A pass is run over each piece, and tells what it found in all of them. */
static void matches_of_pieces_add_up(void **state) {
    (void)state;
    in_pieces = true;
    assert_int_equal(matches(means_apart, "means"), 2);
    in_pieces = false;
}

/* What was registered is the registry's: the memory that it came in may be used for something else. */
static void what_is_given_is_copied(void **state) {
    char name[] = "copied", uuid[] = "7", first[] = "f32[D]", *types[] = {first};
    rp_pass_desc d = {.size = sizeof d,
                      .name = name,
                      .uuid = uuid,
                      .types = (const char *const *)types,
                      .n_types = 1,
                      .pattern = exponent,
                      .replacement = opposite};
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_pass_register(&d, &err), &err);
    const rewrite_pass *p = rewrite_at(n_passes() - 1);
    char key[sizeof p->uuid];
    memcpy(key, p->uuid, sizeof key);
    assert_int_equal(matches(exponents, "copied"), 0); /* of rank 1, and these have two */
    memcpy(first, "f32[2]", sizeof first);
    types[0] = name;
    memset(name, 'x', sizeof name - 1);
    memset(uuid, 'x', sizeof uuid - 1);
    memset(&d, 0, sizeof d);
    assert_string_equal(rp_pass_name(n_passes() - 1), "copied");
    assert_string_equal(p->desc.types[0], "f32[D]");
    assert_string_equal(p->desc.name, "copied");
    assert_memory_equal(p->desc.uuid, key, sizeof key);
    assert_int_equal(matches(exponents, "copied"), 0);
}

static rp_tensor sines(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_add(rp_sin(x), x);
}

static void a_replacement_has_the_type_of_the_pattern(void **state) {
    static const char *const any[] = {"f32[T,D]"};
    rp_error err = {0};
    rp_compiled *c = NULL;
    (void)state;
    CHECK_OK(add((rp_pass_desc){.name = "other_type",
                                .types = any,
                                .n_types = 1,
                                .pattern = sine,
                                .replacement = not_of_its_type},
                 &err),
             &err);
    assert_int_equal(compiled(sines, "other_type", &c, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "the replacement gives f64[2,3] for a pattern of f32[2,3]"));
}

/* Factors in any order, below which sums are along one axis or the other. */
static rp_tensor in_order(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_mul(rp_sum(x, 0, true), rp_exp(rp_slice(x, 0, 0, 1)));
}

static rp_tensor turned(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_mul(rp_exp(rp_slice(x, 0, 0, 1)), rp_sum(x, 0, true));
}

static rp_tensor along_the_other(rp_graph *g, rp_tensor x) {
    (void)g;
    rp_tensor square = rp_slice(x, 1, 0, 2), row = rp_exp(rp_slice(square, 0, 0, 1));
    return rp_mul(row, rp_reshape(rp_sum(square, 1, true), RP_SHAPE(1, 2)));
}

static rp_tensor other_sum(rp_graph *g, rp_tensor x) {
    (void)g;
    rp_tensor one = rp_slice(rp_slice(x, 0, 0, 1), 1, 0, 1);
    return rp_mul(rp_exp(one), rp_sum(one, 1, true));
}

static void attributes_tell_values_apart(void **state) {
    static const char *const both[] = {"f32[T,D]", "f32[R,D]"};
    rp_error err = {0};
    (void)state;
    CHECK_OK(add((rp_pass_desc){.name = "weights",
                                .types = both,
                                .n_types = 2,
                                .pattern = weighted,
                                .replacement = first_weight},
                 &err),
             &err);
    assert_int_equal(matches(in_order, "weights"), 1);
    assert_int_equal(matches(turned, "weights"), 1);
    assert_int_equal(matches(along_the_other, "weights"), 0);
    assert_int_equal(matches(other_sum, "weights"), 0);
}

/* What the pattern gives for the values at hand, which have rows of 3; its own where its form is asked for. */
static enum { ITS_OWN, AND_A_FAILURE, OF_ANOTHER_GRAPH, NO_TENSOR } giving;
static rp_tensor kept; /* of that graph, and the node of the same number */

static rp_tensor gives(void *user, rp_graph *g, const rp_tensor *in) {
    int64_t n = 0;
    const bool asked = !rp_dim_is_const(rp_tensor_dim(in[0], 1), &n) || n != 3;
    (void)user, (void)g;
    if (giving == NO_TENSOR && !asked) return (rp_tensor){0};
    rp_tensor y = rp_cos(in[0]);
    if (giving == AND_A_FAILURE && !asked) (void)rp_sum(in[0], 7, false);
    if (giving != OF_ANOTHER_GRAPH || asked) return y;
    kept.ref = y.ref;
    return kept;
}

/* Another function each time: what was compiled is not looked up. */
static rp_tensor cosines(rp_graph *g, rp_tensor x) {
    static double times;
    (void)g;
    return rp_mul_scalar(rp_cos(x), ++times);
}

/* A pattern that fails for these values, even where it does not use what failed, or that gives a tensor of another graph, is no match; and the
 * next call knows nothing of it. */
static void a_pattern_may_decline(void **state) {
    static const char *const any[] = {"f32[T,D]"};
    rp_error err = {0};
    rp_graph *other = rp_graph_new("other");
    (void)state;
    kept = rp_cos(rp_input(other, "x", RP_DTYPE_F32, RP_SHAPE(2, 3)));
    CHECK_OK(add((rp_pass_desc){.name = "declines",
                                .types = any,
                                .n_types = 1,
                                .pattern = gives,
                                .replacement = opposite},
                 &err),
             &err);
    for (int what = ITS_OWN; what <= NO_TENSOR; what++) {
        giving = what;
        if (matches(cosines, "declines") != (what == ITS_OWN)) fail_msg("what it gives: %d", what);
    }
    giving = ITS_OWN;
    assert_int_equal(matches(cosines, "declines"), 1);
    rp_graph_free(other);
}

/* So many ops, one behind the other. */
static rp_tensor chain(void *user, rp_graph *g, const rp_tensor *in) {
    rp_tensor y = in[0];
    (void)g;
    for (int i = 0; i < *(int *)user; i++) y = rp_tanh(y);
    return y;
}

static rp_tensor chained(rp_graph *g, rp_tensor x) {
    int n = 511;
    return chain(&n, g, &x);
}

static void a_pattern_has_512_nodes(void **state) {
    static const char *const any[] = {"f32[T,D]"};
    static int n = 512; /* and the input */
    rp_error err = {0};
    rp_pass_desc d = {.name = "long",
                      .types = any,
                      .n_types = 1,
                      .user = &n,
                      .pattern = chain,
                      .replacement = opposite};
    (void)state;
    assert_int_equal(add(d, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "a pattern of 513 nodes; at most 512"));
    n = 511;
    err = (rp_error){0};
    CHECK_OK(add(d, &err), &err);
    assert_int_equal(matches(chained, "long"), 1);
}

/* Of another axis each time, none of which is there. */
static rp_tensor fails_otherwise(void *user, rp_graph *g, const rp_tensor *in) {
    (void)g;
    return rp_sum(in[0], 7 + (*(int *)user)++, false);
}

static void the_first_reason_is_told(void **state) {
    static const char *const any[] = {"f32[T,D]"};
    int times = 0;
    rp_error err = {0};
    (void)state;
    const rp_pass_desc d = {.name = "fails",
                            .types = any,
                            .n_types = 1,
                            .pattern = fails_otherwise,
                            .replacement = opposite,
                            .user = &times};
    assert_int_equal(add(d, &err), RP_INVALID);
    assert_true(times > 1);
    if (!strstr(err.text, "axis 7 out of range")) fail_msg("%s", err.text);
}

/* Their sines, added one after the other; and in[15] - in[0], which tells who is who. */
static rp_tensor sum_of_sines(void *user, rp_graph *g, const rp_tensor *in) {
    rp_tensor y = rp_sin(in[0]);
    (void)user, (void)g;
    for (int i = 1; i < RP_MAX_PATTERN_INPUTS; i++) y = rp_add(y, rp_sin(in[i]));
    return y;
}

static rp_tensor last_less_first(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_sub(in[RP_MAX_PATTERN_INPUTS - 1], in[0]);
}

static rp_tensor summed(rp_graph *g, rp_tensor x) {
    rp_tensor in[RP_MAX_PATTERN_INPUTS];
    for (int i = 0; i < RP_MAX_PATTERN_INPUTS; i++) in[i] = rp_add_scalar(x, 10 * i * i);
    return sum_of_sines(NULL, g, in);
}

static void a_pattern_has_16_inputs(void **state) {
    const char *types[RP_MAX_PATTERN_INPUTS];
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    rp_buffer in = {RP_DTYPE_F32, 2, {2, 3}, x}, out = {RP_DTYPE_F32, 2, {2, 3}, y};
    rp_compiled *c = NULL;
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < RP_MAX_PATTERN_INPUTS; i++) types[i] = "f32[T,D]";
    CHECK_OK(add((rp_pass_desc){.name = "wide",
                                .types = types,
                                .n_types = RP_MAX_PATTERN_INPUTS,
                                .pattern = sum_of_sines,
                                .replacement = last_less_first},
                 &err),
             &err);
    assert_int_equal(matches(summed, "wide"), 1);
    CHECK_OK(compiled(summed, "wide", &c, &err), &err);
    CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
    for (int i = 0; i < 6; i++) assert_true(y[i] == 10 * 15 * 15);
    rp_compiled_free(c);
}

/* The last, since they stay. */
static void there_are_64_passes(void **state) {
    char name[16] = "code";
    (void)state;
    while (n_passes() < REWRITE_MOST) {
        rp_error err = {0};
        (void)snprintf(name, sizeof name, "pass%u", n_passes());
        CHECK_OK(add((rp_pass_desc){.name = name, .uuid = "1", .run = code}, &err), &err);
    }
    rp_error err = {0};
    assert_int_equal(add((rp_pass_desc){.name = "one_more", .uuid = "1", .run = code}, &err),
                     RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "more than 64 passes"));
    assert_string_equal(rp_pass_name(REWRITE_MOST - 1), name);
    assert_null(rp_pass_name(REWRITE_MOST));
    assert_int_equal(matches(cosines, "declines"), 1); /* the others are off by their names */
}

/* Fails for the first values at hand, and fits the next ones. */
static int declined;

static rp_tensor fits_second(void *user, rp_graph *g, const rp_tensor *in) {
    int64_t n = 0;
    const bool asked = !rp_dim_is_const(rp_tensor_dim(in[0], 1), &n) || n != 3;
    (void)user, (void)g;
    if (!asked && declined++ == 0) (void)rp_sum(in[0], 7, false);
    return rp_cos(in[0]);
}

static rp_tensor has_no_axis(void *user, rp_graph *g, const rp_tensor *in) {
    int64_t n = 0;
    (void)user, (void)g;
    const bool asked = !rp_dim_is_const(rp_tensor_dim(in[0], 1), &n) || n != 3;
    return asked ? rp_neg(in[0]) : rp_sum(in[0], 9, false);
}

static rp_tensor two_cosines(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_cos(rp_cos(x));
}

/* A replacement that fails names its line, whatever failed before. */
static void the_line_of_a_replacement_is_named(void **state) {
    static const char *const any[] = {"f32[T,D]"};
    rp_error err = {0};
    rp_compiled *c = NULL;
    (void)state;
    CHECK_OK(add((rp_pass_desc){.name = "late",
                                .types = any,
                                .n_types = 1,
                                .pattern = fits_second,
                                .replacement = has_no_axis},
                 &err),
             &err);
    declined = 0;
    assert_int_not_equal(compiled(two_cosines, "late", &c, &err), RP_OK);
    assert_int_equal(declined, 2);
    if (!strstr(err.text, "rewrite_limits.c:")) fail_msg("%s", err.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(types_are_read),
        cmocka_unit_test(keys_tell_passes_apart),
        cmocka_unit_test(code_is_checked),
        cmocka_unit_test(a_replacement_has_the_type_of_the_pattern),
        cmocka_unit_test(attributes_tell_values_apart),
        cmocka_unit_test(each_form_of_sizes_is_found),
        cmocka_unit_test(matches_of_pieces_add_up),
        cmocka_unit_test(what_is_given_is_copied),
        cmocka_unit_test(a_pattern_may_decline),
        cmocka_unit_test(the_line_of_a_replacement_is_named),
        cmocka_unit_test(a_pattern_has_512_nodes),
        cmocka_unit_test(the_first_reason_is_told),
        cmocka_unit_test(a_pattern_has_16_inputs),
        cmocka_unit_test(there_are_64_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
