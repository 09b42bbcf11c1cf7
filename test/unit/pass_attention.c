/* Attention in blocks of rows: the forms in which users write it, those that stay whole and why, the same bits by the interpreter and
 * compiled. */
#include "support/check.h"
#include "support/elsewhere.h"

#include <math.h>

#include "pass/attention.h"
#include "pass/hidden.h"
#include "pass/pipeline.h"
#include "reprise/reprise.h"
#include "support/heard.h"
#include "support/same.h"
#include "trace/trace.h"

enum { BATCH = 32, T = 128, S = 128, D = 4, MANY = BATCH * T * S };

typedef struct operands {
    rp_graph *g;
    rp_tensor q, k, v; /* [BATCH,T,D], [BATCH,S,D] */
} operands;

static rp_tensor number(const operands *x, double v) {
    return rp_const(x->g, RP_DTYPE_F32, v);
}

static rp_tensor never(const operands *x) {
    return number(x, -HUGE_VAL);
}

static rp_tensor at(const operands *x, int axis) {
    return rp_iota(x->g, RP_DTYPE_I32, RP_SHAPE(T, S), axis);
}

static rp_tensor seen(const operands *x) {
    return rp_le(at(x, 1), at(x, 0));
}

static rp_tensor scores(const operands *x) {
    return rp_mul_scalar(rp_matmul(x->q, x->k, true), 0.5);
}

static rp_tensor attend(const operands *x, rp_tensor s) {
    return rp_matmul(rp_softmax(s, -1), x->v, false);
}

static rp_tensor sdpa(const operands *x, rp_sdpa_args a) {
    a.q = x->q, a.k = x->k, a.v = x->v;
    return rp_scaled_dot_product_attention(&a);
}

/* --- forms that become blocks ------------------------------------------------------------- */

static rp_tensor chosen(const operands *x) {
    return attend(x, rp_where(seen(x), scores(x), never(x)));
}

static rp_tensor filled(const operands *x) {
    rp_tensor s = rp_matmul(rp_mul_scalar(x->q, 0.3), x->k, true);
    return attend(x, rp_masked_fill(s, rp_gt(at(x, 1), at(x, 0)), -HUGE_VAL));
}

static rp_tensor divided(const operands *x) {
    rp_tensor s = rp_div(rp_matmul(x->q, x->k, true), number(x, 3));
    return attend(x, rp_masked_fill(s, rp_not(seen(x)), -HUGE_VAL));
}

static rp_tensor added(const operands *x) {
    rp_tensor mask = rp_where(seen(x), number(x, 0), never(x));
    return attend(x, rp_add(rp_reshape(mask, RP_SHAPE(1, T, S)), scores(x)));
}

/* No largest score is taken away. */
static rp_tensor by_hand(const operands *x) {
    rp_tensor e = rp_exp(rp_where(seen(x), scores(x), never(x)));
    return rp_matmul(rp_div(e, rp_sum(e, -1, true)), x->v, false);
}

/* Axes that reductions drop, products with reciprocals. */
static rp_tensor dropped(const operands *x) {
    rp_tensor s = rp_where(seen(x), scores(x), never(x));
    rp_tensor e = rp_exp(rp_sub(s, rp_unsqueeze(rp_amax(s, -1, false), -1)));
    rp_tensor by = rp_recip(rp_unsqueeze(rp_sum(e, -1, false), -1));
    return rp_matmul(rp_mul(e, by), x->v, false);
}

/* The division comes behind the product, and reads the sum. */
static rp_tensor divided_late(const operands *x) {
    rp_tensor e = rp_exp(rp_where(seen(x), scores(x), never(x)));
    return rp_div(rp_matmul(e, x->v, false), rp_sum(e, -1, true));
}

static rp_tensor from_ranges(const operands *x) {
    rp_tensor row = rp_unsqueeze(rp_iota(x->g, RP_DTYPE_I32, RP_SHAPE(T), 0), 1);
    rp_tensor col = rp_unsqueeze(rp_iota(x->g, RP_DTYPE_I32, RP_SHAPE(S), 0), 0);
    return attend(
        x, rp_where(rp_ge(rp_sub(row, col), rp_const(x->g, RP_DTYPE_I32, 0)), scores(x), never(x)));
}

static rp_tensor of_floats(const operands *x) {
    rp_tensor row = rp_iota(x->g, RP_DTYPE_F32, RP_SHAPE(T, 1), 0);
    rp_tensor col = rp_cast(rp_iota(x->g, RP_DTYPE_I64, RP_SHAPE(1, S), 1), RP_DTYPE_F32);
    return attend(x, rp_where(rp_lt(col, rp_add_scalar(row, 1)), scores(x), never(x)));
}

/* Documents of 32 see themselves. */
static rp_tensor documents(const operands *x) {
    rp_tensor size = rp_const(x->g, RP_DTYPE_I32, 32);
    rp_tensor same = rp_eq(rp_floor_divide(at(x, 0), size), rp_floor_divide(at(x, 1), size));
    return attend(x, rp_where(same, scores(x), never(x)));
}

/* A mask that is given hides some more. */
static rp_tensor and_a_mask(const operands *x) {
    rp_tensor given = rp_gt(rp_input(x->g, "mask", RP_DTYPE_F32, RP_SHAPE(T, S)), number(x, -2));
    return attend(x, rp_where(rp_and(given, seen(x)), scores(x), never(x)));
}

/* A mask that is given in another form, whose rows or columns are others: it is taken whole. */
static rp_tensor and_given(const operands *x, rp_shape shape) {
    rp_tensor given = rp_gt(rp_input(x->g, "mask", RP_DTYPE_F32, shape), number(x, -2));
    given = rp_reshape(given, RP_SHAPE(T, S));
    return attend(x, rp_where(rp_and(given, seen(x)), scores(x), never(x)));
}

static rp_tensor and_other_rows(const operands *x) {
    return and_given(x, RP_SHAPE(2, T / 2, S));
}

static rp_tensor and_other_columns(const operands *x) {
    return and_given(x, RP_SHAPE(2, T, S / 2));
}

static rp_tensor half(const operands *x) {
    const operands y = {x->g, rp_cast(x->q, RP_DTYPE_BF16), rp_cast(x->k, RP_DTYPE_BF16),
                        rp_cast(x->v, RP_DTYPE_BF16)};
    rp_tensor w = rp_softmax(rp_where(seen(x), scores(&y), never(x)), -1);
    return rp_matmul(rp_cast(w, RP_DTYPE_BF16), y.v, false);
}

static rp_tensor causal(const operands *x) {
    return sdpa(x, (rp_sdpa_args){.causal = true});
}

static rp_tensor everything(const operands *x) {
    rp_sdpa_args a = {.causal = true, .window = 40, .softcap = 3, .scale = -2};
    a.bias = rp_input(x->g, "bias", RP_DTYPE_F32, RP_SHAPE(BATCH, T, S));
    a.mask = rp_gt(rp_input(x->g, "mask", RP_DTYPE_F32, RP_SHAPE(S)), number(x, -1));
    return sdpa(x, a);
}

static rp_tensor grouped(const operands *x) {
    operands y = *x;
    y.k = rp_slice(y.k, 0, 0, BATCH / 4);
    y.v = rp_transpose(rp_transpose(rp_slice(y.v, 0, 0, BATCH / 4), 1, 2), 1, 2);
    return causal(&y);
}

/* --- and that stay whole ---------------------------------------------------------------- */

static rp_tensor sees_all(const operands *x) {
    return attend(x, scores(x));
}

static rp_tensor of_input(const operands *x) {
    rp_tensor given = rp_gt(rp_input(x->g, "mask", RP_DTYPE_F32, RP_SHAPE(T, S)), number(x, 0));
    return attend(x, rp_where(given, scores(x), never(x)));
}

/* One of both suffices to see. */
static rp_tensor or_a_mask(const operands *x) {
    rp_tensor given = rp_gt(rp_input(x->g, "mask", RP_DTYPE_F32, RP_SHAPE(T, S)), number(x, 0));
    return attend(x, rp_where(rp_or(given, seen(x)), scores(x), never(x)));
}

static rp_tensor barely(const operands *x) {
    return attend(x, rp_where(seen(x), scores(x), number(x, -1e9)));
}

/* -inf times -1 hides nothing. */
static rp_tensor turned(const operands *x) {
    rp_tensor s = rp_where(seen(x), scores(x), never(x));
    return rp_matmul(rp_softmax(rp_mul_scalar(s, -1), -1), x->v, false);
}

/* A largest score is 0 at least. */
static rp_tensor bounded(const operands *x) {
    rp_tensor s = rp_max(rp_where(seen(x), scores(x), never(x)), number(x, 0));
    return attend(x, s);
}

/* The sum counts columns that the weights do not have. */
static rp_tensor counts_hidden(const operands *x) {
    rp_tensor e = rp_exp(scores(x)), kept = rp_where(seen(x), e, number(x, 0));
    return rp_matmul(rp_div(kept, rp_sum(e, -1, true)), x->v, false);
}

static rp_tensor wide(const operands *x) {
    return sdpa(x, (rp_sdpa_args){.window = 120});
}

static rp_tensor ahead(const operands *x) {
    return attend(x, rp_where(rp_tril_mask(x->g, T, S, 40), scores(x), never(x)));
}

static rp_tensor read_elsewhere(const operands *x) {
    rp_tensor w = rp_softmax(rp_where(seen(x), scores(x), never(x)), -1);
    return rp_add(rp_matmul(w, x->v, false), rp_slice(w, -1, 0, D));
}

static rp_tensor small(const operands *x) {
    const operands y = {x->g, rp_slice(x->q, 0, 0, 8), rp_slice(x->k, 0, 0, 8),
                        rp_slice(x->v, 0, 0, 8)};
    return chosen(&y);
}

static rp_tensor of_weights(const operands *x) {
    operands y = *x;
    y.k = rp_param(x->g, "keys", RP_DTYPE_F32, RP_SHAPE(S, D));
    return chosen(&y);
}

/* Many ops on the scores. */
static rp_tensor worked_on(const operands *x, rp_tensor s) {
    for (int i = 0; i < 70; i++) s = rp_tanh(s);
    return rp_where(seen(x), s, never(x));
}

static rp_tensor long_way(const operands *x) {
    return attend(x, worked_on(x, scores(x)));
}

static rp_tensor of_blocks(const operands *x) {
    const rp_shape wide = RP_SHAPE(BATCH, S, 32);
    operands y = *x;
    rp_tensor v = rp_quantize(rp_broadcast(rp_slice(x->v, -1, 0, 1), wide), RP_DTYPE_I16B32);
    y.v = rp_dequant(v);
    return rp_slice(chosen(&y), -1, 0, D);
}

static rp_tensor of_symbols(const operands *x) {
    rp_dim t = rp_symbol(x->g, "T", 1, 4096);
    rp_tensor q = rp_input(x->g, "rows", RP_DTYPE_F32, RP_SHAPE(BATCH, t, D));
    return rp_scaled_dot_product_attention(
        &(rp_sdpa_args){.q = q, .k = x->k, .v = x->v, .causal = true});
}

/* --- each of them ------------------------------------------------------------------------ */

typedef struct form {
    const char *name;
    rp_tensor (*fn)(const operands *x);
    uint32_t blocks;
    const char *why;
} form;

#define FORM(fn, blocks, why) \
    { #fn, fn, blocks, why }

static const form forms[] = {
    FORM(chosen, 2, NULL),
    FORM(filled, 2, NULL),
    FORM(divided, 2, NULL),
    FORM(added, 2, NULL),
    FORM(by_hand, 2, NULL),
    FORM(dropped, 2, NULL),
    FORM(from_ranges, 2, NULL),
    FORM(of_floats, 2, NULL),
    FORM(documents, 2, NULL),
    FORM(and_a_mask, 2, NULL),
    FORM(and_other_rows, 2, NULL),
    FORM(and_other_columns, 2, NULL),
    FORM(half, 2, NULL),
    FORM(causal, 2, NULL),
    FORM(everything, 2, NULL),
    FORM(grouped, 2, NULL),
    FORM(divided_late, 2, NULL),
    FORM(sees_all, 0, "no mask by position hides columns from whole rows"),
    FORM(of_input, 0, "no mask by position hides columns from whole rows"),
    FORM(or_a_mask, 0, "no mask by position hides columns from whole rows"),
    FORM(turned, 0, "no mask by position hides columns from whole rows"),
    FORM(bounded, 0, "no mask by position hides columns from whole rows"),
    FORM(counts_hidden, 0, "no mask by position hides columns from whole rows"),
    FORM(barely, 0, "what hides scores is a finite number; -inf would hide them"),
    FORM(wide, 0, "no mask by position hides columns from whole rows"),
    FORM(ahead, 0, "its mask hides few columns"),
    FORM(read_elsewhere, 0, "its scores or weights are read elsewhere, too"),
    FORM(small, 0, "too small"),
    FORM(of_symbols, 0, "how many rows or columns there are is a symbol"),
    FORM(long_way, 0, "too many ops between the products"),
    FORM(of_blocks, 0, "an operand of a product is packed, or of a block format"),
    FORM(of_weights, 0, "an operand of a product is packed, or of a block format"),
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static rp_graph *traced(const form *f) {
    rp_error err = {0};
    operands x = {.g = rp_graph_new(f->name)};
    x.q = rp_input(x.g, "q", RP_DTYPE_F32, RP_SHAPE(BATCH, T, D));
    x.k = rp_input(x.g, "k", RP_DTYPE_F32, RP_SHAPE(BATCH, S, D));
    x.v = rp_input(x.g, "v", RP_DTYPE_F32, RP_SHAPE(BATCH, S, D));
    rp_tensor y = f->fn(&x);
    CHECK_OK(rp_graph_finish(x.g, &y, 1, &err), &err);
    return x.g;
}

typedef struct heard_of {
    uint32_t n;
    pass_attention_found last;
} heard_of;

static void hear(void *user, const pass_attention_found *f) {
    heard_of *h = user;
    h->n++;
    h->last = *f;
}

static uint32_t count_ops(const ir_graph *g, ir_op op) {
    uint32_t n = 0;
    for (ir_ref r = 0; r < ir_graph_count(g); r++) n += ir_node_at(g, r)->op == op;
    return n;
}

static void each_form(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        const form *f = &forms[i];
        rp_error err = {0};
        rp_graph *g = traced(f);
        ir_graph *h = NULL;
        heard_of found = {0};
        uint32_t n = 0;
        CHECK_OK(pass_attention_each(trace_graph_ir(g), hear, &found, &err), &err);
        if (found.n != 1 || found.last.blocks != f->blocks)
            fail_msg("%s: %u found, %u blocks: %s", f->name, found.n, found.last.blocks,
                     found.last.why ? found.last.why : "");
        if (f->why) assert_string_equal(found.last.why, f->why);
        CHECK_OK(pass_attention_counted(trace_graph_ir(g), &h, &n, &err), &err);
        assert_int_equal(n, f->blocks ? 1 : 0);
        assert_int_equal(count_ops(h, IR_matmul), 2 * (f->blocks ? f->blocks : 1));
        assert_int_equal(count_ops(h, IR_concat), f->blocks != 0);
        CHECK_OK(ir_verify(h, &err), &err);
        CHECK_OK(pass_check_text(h, &err), &err);
        check_same_results(trace_graph_ir(g), h, i + 1);
        ir_graph_free(h);
        rp_graph_free(g);
    }
}

static rp_tensor elu(rp_tensor x) {
    rp_tensor zero = rp_const(x.graph, RP_DTYPE_F32, 0);
    return rp_where(rp_gt(x, zero), x, rp_add_scalar(rp_exp(x), -1));
}

/* Products without an exponential and its sum between them are no attention, however much is. */
static void other_products_are_not_found(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        rp_error err = {0};
        heard_of found = {0};
        operands x = {.g = rp_graph_new("other")};
        x.q = rp_input(x.g, "q", RP_DTYPE_F32, RP_SHAPE(BATCH, T, D));
        x.k = rp_input(x.g, "k", RP_DTYPE_F32, RP_SHAPE(BATCH, S, D));
        rp_tensor s = scores(&x);
        s = kind == 0 ? rp_silu(s) : kind == 1 ? elu(s) : worked_on(&x, s);
        rp_tensor y = rp_matmul(s, x.k, false);
        CHECK_OK(rp_graph_finish(x.g, &y, 1, &err), &err);
        CHECK_OK(pass_attention_each(trace_graph_ir(x.g), hear, &found, &err), &err);
        assert_int_equal(found.n, 0);
        rp_graph_free(x.g);
    }
}

/* --- compiled ------------------------------------------------------------------------------ */

static rp_compilation_config *configured(const char *a, const char *b) {
    rp_error err = {0};
    rp_compilation_config *c = rp_config_new();
    assert_non_null(c);
    CHECK_OK(rp_config_set(c, a, &err), &err);
    if (b) CHECK_OK(rp_config_set(c, b, &err), &err);
    return c;
}

static uint32_t matches_of(const rp_compiled *c) {
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_error err = {0};
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    for (uint32_t i = 0; i < info.n_passes; i++)
        if (strcmp(info.passes[i].name, "attention") == 0) return info.passes[i].matches;
    return 0;
}

enum { MOST_INPUTS = 5, MOST_OUT = 65536 };
static float data[MOST_INPUTS][MANY], first[MOST_OUT], out[MOST_OUT];

static rp_buffer buffer_of(const ir_graph *g, ir_ref r, float *at) {
    const ir_node *x = ir_node_at(g, r);
    rp_buffer b = {RP_DTYPE_F32, x->shape.rank, {0}, at};
    int64_t n = 1;
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        assert_true(ir_dim_is_const(ir_graph_dims(g), x->shape.dim[d], &b.dim[d]));
        n *= b.dim[d];
    }
    assert_true(n <= MANY);
    return b;
}

/* matches: of the pass, which a GPU does without. */
static void run(const rp_graph *g, const char *setting, const char *more, uint32_t matches,
                float *y) {
    rp_error err = {0};
    rp_compilation_config *cfg = configured(setting, more);
    rp_compiled *c = NULL;
    const ir_graph *ir = trace_graph_ir(g);
    rp_buffer in[MOST_INPUTS], to = buffer_of(ir, ir_output_at(ir, 0), y);
    const uint32_t n = ir_leaf_count(ir, IR_LEAF_INPUT);
    assert_true(n <= MOST_INPUTS);
    for (uint32_t i = 0; i < n; i++)
        in[i] = buffer_of(ir, ir_leaf_at(ir, IR_LEAF_INPUT, i), data[i]);
    memset(y, 0xff, MOST_OUT * sizeof *y);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    assert_int_equal(matches_of(c), runs_elsewhere() ? 0 : matches);
    CHECK_OK(rp_compiled_run(c, in, n, &to, 1, &err), &err);
    rp_compiled_free(c);
    rp_config_free(cfg);
}

static int fill(void **state) {
    (void)state;
    for (uint32_t i = 0; i < MOST_INPUTS; i++)
        for (uint32_t k = 0; k < MANY; k++)
            data[i][k] = (float)((k * 2654435761u + i * 40503u) >> 12 & 0xfff) / 512.0f - 4;
    return 0;
}

static void compiled_bits_are_those_of_level_0(void **state) {
    static const char *const ways[][2] = {{"level=2", "threads=1"},
                                          {"level=2", "threads=2"},
                                          {"level=2", "isa=portable"},
                                          {"level=3", NULL},
                                          {"level=2", "backend=aot_eager"}};
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        const form *f = &forms[i];
        if (f->fn != causal && f->fn != everything && f->fn != half && f->fn != grouped) continue;
        rp_graph *g = traced(f);
        run(g, "level=0", NULL, 0, first);
        /* The last one runs op by op, for which a GPU has no kernels. */
        for (size_t w = 0; w < sizeof ways / sizeof *ways - runs_elsewhere(); w++) {
            run(g, ways[w][0], ways[w][1], 1, out);
            if (memcmp(out, first, sizeof out) != 0)
                fail_msg("%s: other bits with %s %s", f->name, ways[w][0],
                         ways[w][1] ? ways[w][1] : "");
        }
        run(g, "level=2", "skip_passes=[\"attention\"]", 0, out);
        assert_memory_equal(out, first, sizeof out);
        rp_graph_free(g);
    }
}

/* Row i sees columns i + from to i + to. */
static rp_graph *band(int64_t heads, int64_t t, int64_t s, int64_t from, int64_t to) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("band");
    rp_sdpa_args a = {.q = rp_input(g, "q", RP_DTYPE_F32, RP_SHAPE(heads, t, 2)),
                      .k = rp_input(g, "k", RP_DTYPE_F32, RP_SHAPE(heads, s, 2)),
                      .v = rp_input(g, "v", RP_DTYPE_F32, RP_SHAPE(heads, s, 3)),
                      .scale = 0.01};
    a.mask = rp_and(rp_tril_mask(g, t, s, to), rp_not(rp_tril_mask(g, t, s, from - 1)));
    rp_tensor y = rp_scaled_dot_product_attention(&a);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    return g;
}

/* Columns begin and end where the lanes and chunks of sums do. */
static void bands_of_long_rows(void **state) {
    static const struct {
        int64_t heads, rows, cols, from, to;
        uint32_t blocks;
    } cases[] = {
        {1, 40, 9000, 8000, 8300, 1},  {1, 40, 5000, 4400, 4500, 1}, {16, 600, 900, -3, 300, 8},
        {8, 1030, 1030, -200, 7, 8},   {1, 64, 4096, 600, 1400, 1},  {1, 2, 100000, 1000, 9010, 1},
        {16, 600, 600, -700, -599, 8}, {16, 600, 600, -50, -20, 8},  {2, 1100, 1100, -100, 0, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        rp_graph *g =
            band(cases[i].heads, cases[i].rows, cases[i].cols, cases[i].from, cases[i].to);
        ir_graph *h = NULL;
        heard_of found = {0};
        CHECK_OK(pass_attention_each(trace_graph_ir(g), hear, &found, &err), &err);
        if (found.last.blocks != cases[i].blocks)
            fail_msg("case %zu: %u blocks: %s", i, found.last.blocks, found.last.why);
        CHECK_OK(pass_attention(trace_graph_ir(g), &h, &err), &err);
        check_same_results(trace_graph_ir(g), h, i + 1);
        run(g, "level=0", NULL, 0, first);
        run(g, "level=2", NULL, 1, out);
        for (uint32_t k = 0; k < MOST_OUT; k++)
            if (memcmp(&first[k], &out[k], sizeof *out) != 0)
                fail_msg("case %zu: element %u is %a, not %a", i, k, (double)out[k],
                         (double)first[k]);
        ir_graph_free(h);
        rp_graph_free(g);
    }
}

/* --- what is told ---------------------------------------------------------------------------- */

static const form *form_of(rp_tensor (*fn)(const operands *x)) {
    for (size_t i = 0; i < N_FORMS; i++)
        if (forms[i].fn == fn) return &forms[i];
    return NULL;
}

static void check_told(const form *f, const char *device, const char *want) {
    rp_error err = {0};
    rp_graph *g = traced(f);
    char *text = NULL;
    rp_compilation_config *cfg = configured("level=2", device);
    CHECK_OK(rp_graph_explain(g, cfg, NULL, &text, &err), &err);
    if (want && !strstr(text, want)) fail_msg("%s: no %s in %s", f->name, want, text);
    if (!want) assert_null(strstr(text, "\"attention\""));
    rp_free(text);
    rp_config_free(cfg);
    rp_graph_free(g);
}

static void explain_and_log_tell(void **state) {
    rp_error err = {0};
    base_buf b;
    (void)state;
    check_told(form_of(causal), NULL, "\"blocks\":2,\"reason\":\"\"");
    check_told(form_of(barely), NULL, "\"blocks\":0,\"reason\":\"what hides scores is a finite");
    check_told(form_of(causal), "device=cuda", NULL); /* whose kernels want all rows at once */
    for (int whole = 0; whole < 2; whole++) {
        rp_graph *g = traced(form_of(whole ? of_input : causal));
        ir_graph *h = NULL;
        const pass_options opt = {.piece = true};
        heard_start(&b, "+inductor");
        CHECK_OK(pass_run_all(trace_graph_ir(g), &opt, &h, &err), &err);
        CHECK_HEARD(&b, whole ? "of @of_input stays whole: no mask by position"
                              : "of @causal in blocks of rows: 2");
        heard_done(&b);
        ir_graph_free(h);
        rp_graph_free(g);
    }
}

/* Of every box of a mask that hides what is right of the diagonal, however it is moved: what is known to be hidden is what is. */
static void boxes_are_those_of_the_operand(void **state) {
    enum { ROWS = 6, COLUMNS = 9, DOWN = 3, RIGHT = 4 };
    static const char text[] =
        "graph @g(%s: f32[9,13]) {\n  %row = iota {axis=0, dtype=i32, shape=[9,13]}\n"
        "  %col = iota {axis=1, dtype=i32, shape=[9,13]}\n  %right = gt %col, %row\n"
        "  %never = const -inf\n  %w = where %right, %never, %s\n"
        "  %d = slice %w {axis=0, start=3, stop=9}\n  %r = slice %d {axis=1, start=4, stop=13}\n"
        "  %t = permute %r {axes=[1,0]}\n  %o = reshape %t {shape=[9,1,6]}\n  ret %r, %t, %o }";
    ir_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    for (int way = 0; way < 3; way++)
        for (int at = 0; at < ROWS * ROWS * COLUMNS * COLUMNS; at++) {
            const int64_t r0 = at % ROWS, r1 = at / ROWS % ROWS;
            const int64_t c0 = at / ROWS / ROWS % COLUMNS, c1 = at / ROWS / ROWS / COLUMNS;
            const pass_box boxes[] = {
                {{r0, c0}, {r1, c1}}, {{c0, r0}, {c1, r1}}, {{c0, 0, r0}, {c1, 0, r1}}};
            if (r0 > r1 || c0 > c1) continue;
            const bool hidden = c0 + RIGHT > r1 + DOWN;
            if (pass_is_hidden(g, ir_output_at(g, (uint32_t)way), &boxes[way]) != hidden)
                fail_msg("way %d: rows %d to %d, columns %d to %d", way, (int)r0, (int)r1, (int)c0,
                         (int)c1);
        }
    ir_graph_free(g);
}

/* A mask %m of rows %i, columns %j and numbers, each of which it has once: then what is known of a box is all that there is. */
static const char *const masks[] = {
    "%d = sub %j, %i\n  %m = gt %d, %k2",
    "%d = sub %i, %j\n  %m = lt %d, %k2",
    "%d = sub %j, %i\n  %m = ge %d, %k2",
    "%d = sub %i, %j\n  %m = le %d, %k2",
    "%d = sub %i, %j\n  %m = eq %d, %k2",
    "%d = sub %j, %i\n  %m = ne %d, %k2",
    "%d = add %j, %i\n  %m = gt %d, %k5",
    "%d = add %j, %i\n  %m = le %k5, %d",
    "%n = neg %i\n  %d = add %j, %n\n  %m = lt %k2, %d",
    "%d = mul %i, %k2\n  %m = ge %j, %d",
    "%d = mul %k_3, %i\n  %e = add %d, %j\n  %m = gt %k_3, %e",
    "%d = min %i, %j\n  %m = ge %d, %k2",
    "%d = max %i, %j\n  %m = lt %d, %k5",
    "%d = max %i, %j\n  %m = gt %d, %k5",
    "%d = floor_divide %j, %k2\n  %m = gt %d, %i",
    "%d = floor_divide %j, %k2\n  %m = eq %d, %i",
    "%c = cast %j {dtype=f32}\n  %d = cast %i {dtype=f32}\n  %m = gt %c, %d",
    "%c = gt %j, %k2\n  %d = lt %i, %k2\n  %m = and %c, %d",
    "%c = gt %j, %k5\n  %d = lt %i, %k2\n  %m = or %c, %d",
    "%c = ge %j, %i\n  %m = not %c",
    "%r = slice %i {axis=0, start=3, stop=4}\n  %d = sub %j, %r\n  %m = gt %d, %k2",
    "%c = slice %j {axis=1, start=3, stop=4}\n  %d = sub %i, %c\n  %m = lt %d, %k2",
};

/* Places of boxes that are hidden, and those of which it is known; each of these is. */
static void check_mask(const char *mask, bool shows, uint32_t *n_hidden, uint32_t *n_known) {
    enum { ROWS = 6, COLUMNS = 9 };
    char text[700];
    rp_error err = {0};
    ir_graph *g = NULL;
    ir_value x, y;
    const int64_t dim[] = {ROWS, COLUMNS};
    *n_hidden = *n_known = 0;
    (void)snprintf(text, sizeof text,
                   "graph @g(%%s: f32[6,9]) {\n  %%i = iota {axis=0, dtype=i32, shape=[6,9]}\n"
                   "  %%j = iota {axis=1, dtype=i32, shape=[6,9]}\n  %%k2 = const 2 : i32[]\n"
                   "  %%k5 = const 5 : i32[]\n  %%k_3 = const -3 : i32[]\n  %s\n"
                   "  %%never = const -inf\n  %%w = where %%m, %s\n  ret %%w }",
                   mask, shows ? "%s, %never" : "%never, %s");
    if (ir_parse(text, strlen(text), &g, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    CHECK_OK(ir_random_value(RP_DTYPE_F32, dim, 2, 1, 3, &x, &err), &err);
    CHECK_OK(ir_eval(g, &x, NULL, NULL, NULL, &y, &err), &err);
    for (int at = 0; at < ROWS * ROWS * COLUMNS * COLUMNS; at++) {
        const int64_t r0 = at % ROWS, r1 = at / ROWS % ROWS;
        const int64_t c0 = at / ROWS / ROWS % COLUMNS, c1 = at / ROWS / ROWS / COLUMNS;
        const pass_box box = {{r0, c0}, {r1, c1}};
        bool hidden = true;
        if (r0 > r1 || c0 > c1) continue;
        for (int64_t r = r0; r <= r1; r++)
            for (int64_t c = c0; c <= c1; c++)
                hidden = hidden && y.data[r * COLUMNS + c] == -INFINITY;
        const bool known = pass_is_hidden(g, ir_output_at(g, 0), &box);
        *n_hidden += hidden;
        *n_known += known;
        if (known && !hidden)
            fail_msg("%s: rows %d to %d, columns %d to %d are not hidden", text, (int)r0, (int)r1,
                     (int)c0, (int)c1);
    }
    ir_value_done(&x);
    ir_value_done(&y);
    ir_graph_free(g);
}

/* Where it holds, and where it does not. */
static void what_is_known_of_a_mask_is_what_is(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++)
        for (int shows = 0; shows < 2; shows++) {
            uint32_t n_hidden, n_known;
            check_mask(masks[k], shows, &n_hidden, &n_known);
            if (n_hidden == 0 || n_known != n_hidden)
                fail_msg("%s: %u of %u boxes that it %s are known", masks[k], n_known, n_hidden,
                         shows ? "does not show" : "hides");
        }
}

/* What rounds, wraps or is made a bool is another number: of that little is known, and nothing wrong. */
static const char *const moved_masks[] = {
    "%b = cast %i {dtype=bool}\n  %c = cast %b {dtype=i32}\n  %d = add %c, %j\n  %m = gt %d, %k2",
    "%b = cast %k5 {dtype=bool}\n  %c = cast %b {dtype=i32}\n  %d = add %c, %j\n  %m = gt %d, %k5",
    "%f = cast %j {dtype=f32}\n  %n = const 0x1p24\n  %d = add %f, %n\n  %m = gt %d, %n",
    "%f = cast %j {dtype=f32}\n  %n = const -0x1p24\n  %d = sub %n, %f\n  %m = lt %d, %n",
    "%n = const 1073741824 : i32[]\n  %d = mul %j, %n\n  %m = ge %d, %i",
    "%b = cast %j {dtype=i8}\n  %n = const 50 : i8[]\n  %d = mul %b, %n\n  %c = cast %d "
    "{dtype=i32}\n"
    "  %m = gt %c, %k2",
    "%b = cast %j {dtype=u8}\n  %n = const 4 : u8[]\n  %d = sub %b, %n\n  %c = cast %d "
    "{dtype=i32}\n"
    "  %m = lt %c, %i",
    "%b = cast %j {dtype=bf16}\n  %n = const 0x1p8 : bf16[]\n  %d = add %b, %n\n"
    "  %c = cast %d {dtype=i32}\n  %e = const 256 : i32[]\n  %m = gt %c, %e",
};

static void numbers_that_move_are_not_known(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof moved_masks / sizeof *moved_masks; k++)
        for (int shows = 0; shows < 2; shows++) {
            uint32_t n_hidden, n_known;
            check_mask(moved_masks[k], shows, &n_hidden, &n_known);
            assert_true(n_known <= n_hidden && n_hidden > 0);
        }
}

/* Where matrices of several axes lie behind one another, no number of theirs is known. */
static void matrices_that_are_joined_are_all_read(void **state) {
    static const char text[] =
        "graph @g(%s: f32[2,3,6,9]) {\n  %b = iota {axis=0, dtype=i32, shape=[2,3,6,9]}\n"
        "  %zero = const 0 : i32[]\n  %never = const -inf\n  %first = le %b, %zero\n"
        "  %w = where %first, %never, %s\n  %all = where %first, %never, %never\n"
        "  %o = reshape %w {shape=[6,6,9]}\n  %a = reshape %all {shape=[6,6,9]}\n"
        "  ret %w, %o, %a }";
    static const pass_box front = {{0, 0, 0, 0}, {0, 2, 5, 8}}, last = {{5, 0, 0}, {5, 5, 8}};
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)state;
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    assert_true(pass_is_hidden(g, ir_output_at(g, 0), &front));
    assert_false(pass_is_hidden(g, ir_output_at(g, 1), &last));
    assert_true(pass_is_hidden(g, ir_output_at(g, 2), &last));
    ir_graph_free(g);
}

/* -inf times 0 and -inf over inf are no numbers, which hide nothing. */
static void what_is_no_number_is_not_hidden(void **state) {
    static const char text[] =
        "graph @g(%s: f32[6,9]) {\n  %i = iota {axis=0, dtype=i32, shape=[6,9]}\n"
        "  %f = cast %i {dtype=f32}\n  %never = const -inf\n  %inf = const inf\n"
        "  %two = const 2\n  %m = mul %never, %f\n  %e = div %never, %inf\n"
        "  %h = div %never, %two\n  ret %m, %e, %h }";
    static const pass_box all = {{0, 0}, {5, 8}}, behind = {{1, 0}, {5, 8}}, one = {{0}, {0}};
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)state;
    CHECK_OK(ir_parse(text, sizeof text - 1, &g, &err), &err);
    assert_false(pass_is_hidden(g, ir_output_at(g, 0), &all));
    assert_true(pass_is_hidden(g, ir_output_at(g, 0), &behind));
    assert_false(pass_is_hidden(g, ir_output_at(g, 1), &one));
    assert_true(pass_is_hidden(g, ir_output_at(g, 2), &one));
    ir_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_of_a_mask_is_what_is),
        cmocka_unit_test(numbers_that_move_are_not_known),
        cmocka_unit_test(matrices_that_are_joined_are_all_read),
        cmocka_unit_test(what_is_no_number_is_not_hidden),
        cmocka_unit_test(each_form),
        cmocka_unit_test(other_products_are_not_found),
        cmocka_unit_test(compiled_bits_are_those_of_level_0),
        cmocka_unit_test(bands_of_long_rows),
        cmocka_unit_test(explain_and_log_tell),
        cmocka_unit_test(boxes_are_those_of_the_operand),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
