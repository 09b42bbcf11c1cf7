/* The spellings of scaled dot product attention that PyTorch code, vLLM and the patterns of Inductor have: each of them is found, which of them become blocks of
 * rows, and the bits of level 0. docs/from-torch.md has the table. */
#include "support/check.h"
#include "support/elsewhere.h"

#include <math.h>

#include "pass/attention.h"
#include "reprise/reprise.h"
#include "support/same.h"
#include "trace/trace.h"

enum { B = 4, H = 8, KV = 2, G = H / KV, T = 128, S = 128, D = 4, MOST = B * H * T * S };

/* q is [B,T,H,D], k and v are [B,S,H,D] as projections give them; of groups of heads [B,S,KV,D]. */
typedef struct operands {
    rp_graph *g;
    rp_tensor q, k, v, k_shared, v_shared;
} operands;

static rp_tensor number(const operands *x, double v) {
    return rp_const(x->g, RP_DTYPE_F32, v);
}

static rp_tensor never(const operands *x) {
    return number(x, -HUGE_VAL);
}

/* bool[T,S]: row i sees columns up to i. */
static rp_tensor seen(const operands *x) {
    return rp_tril_mask(x->g, T, S, 0);
}

static rp_tensor heads(rp_tensor x) {
    return rp_transpose(x, 1, 2);
}

static rp_tensor merged(rp_tensor x) {
    return rp_reshape(rp_transpose(x, 1, 2), RP_SHAPE(B, T, H * D));
}

static rp_tensor causal(const operands *x, rp_tensor s) {
    return rp_where(seen(x), s, never(x));
}

static rp_tensor times_v(const operands *x, rp_tensor w) {
    return merged(rp_matmul(w, heads(x->v), false));
}

static rp_tensor scores(const operands *x) {
    return rp_matmul(heads(x->q), heads(x->k), true);
}

/* --- scale -------------------------------------------------------------------------------- */

static rp_tensor scale_behind(const operands *x) {
    return times_v(x, rp_softmax(causal(x, rp_mul_scalar(scores(x), 0.5)), -1));
}

static rp_tensor scale_divides(const operands *x) {
    return times_v(x, rp_softmax(causal(x, rp_div(scores(x), number(x, 2))), -1));
}

static rp_tensor scale_of_q(const operands *x) {
    rp_tensor s = rp_matmul(rp_mul_scalar(heads(x->q), 0.3), heads(x->k), true);
    return times_v(x, rp_softmax(causal(x, s), -1));
}

static rp_tensor scale_of_k(const operands *x) {
    rp_tensor s = rp_matmul(heads(x->q), rp_div(heads(x->k), number(x, 3)), true);
    return times_v(x, rp_softmax(causal(x, s), -1));
}

static rp_tensor scale_of_both(const operands *x) {
    rp_tensor s = rp_matmul(rp_mul_scalar(heads(x->q), 0.7), rp_mul_scalar(heads(x->k), 0.7), true);
    return times_v(x, rp_softmax(causal(x, s), -1));
}

static rp_tensor scale_behind_mask(const operands *x) {
    return times_v(x, rp_softmax(rp_mul_scalar(causal(x, scores(x)), 0.5), -1));
}

/* A tensor that was computed, as learnt temperatures are. */
static rp_tensor scale_of_heads(const operands *x) {
    rp_tensor t = rp_input(x->g, "t", RP_DTYPE_F32, RP_SHAPE(H, 1, 1));
    return times_v(x, rp_softmax(causal(x, rp_mul(scores(x), rp_exp(t))), -1));
}

/* --- transposes -------------------------------------------------------------------------- */

static rp_tensor k_transposed(const operands *x) {
    rp_tensor s = rp_matmul(heads(x->q), rp_transpose(heads(x->k), 2, 3), false);
    return times_v(x, rp_softmax(causal(x, s), -1));
}

static rp_tensor k_permuted(const operands *x) {
    rp_tensor k = rp_permute(x->k, (int[]){0, 2, 3, 1}, 4);
    return times_v(x, rp_softmax(causal(x, rp_matmul(heads(x->q), k, false)), -1));
}

static rp_tensor v_transposed(const operands *x) {
    rp_tensor v = rp_permute(x->v, (int[]){0, 2, 3, 1}, 4);
    return merged(rp_matmul(rp_softmax(causal(x, scores(x)), -1), v, true));
}

/* As bmm has it: batch and heads are one axis, and apart again for the mask. */
static rp_tensor batches(const operands *x) {
    rp_tensor q = rp_reshape(heads(x->q), RP_SHAPE(B * H, T, D));
    rp_tensor k = rp_reshape(heads(x->k), RP_SHAPE(B * H, S, D));
    rp_tensor v = rp_reshape(heads(x->v), RP_SHAPE(B * H, S, D));
    rp_tensor s = causal(x, rp_reshape(rp_matmul(q, k, true), RP_SHAPE(B, H, T, S)));
    rp_tensor w = rp_reshape(rp_softmax(s, -1), RP_SHAPE(B * H, T, S));
    return merged(rp_reshape(rp_matmul(w, v, false), RP_SHAPE(B, H, T, D)));
}

/* The scores of a column are a row, and the softmax is over axis -2. */
static rp_tensor scores_transposed(const operands *x) {
    rp_tensor s = rp_matmul(heads(x->k), heads(x->q), true);
    s = rp_where(rp_not(rp_tril_mask(x->g, S, T, -1)), s, never(x));
    return times_v(x, rp_transpose(rp_softmax(s, -2), -2, -1));
}

/* v^T w^T. */
static rp_tensor result_transposed(const operands *x) {
    rp_tensor w = rp_softmax(causal(x, scores(x)), -1), v = rp_transpose(heads(x->v), -2, -1);
    rp_tensor y = rp_matmul(v, w, true); /* [B,H,D,T] */
    return rp_reshape(rp_permute(y, (int[]){0, 3, 1, 2}, 4), RP_SHAPE(B, T, H * D));
}

/* --- masks --------------------------------------------------------------------------------- */

static rp_tensor mask_fills(const operands *x) {
    rp_tensor s = rp_masked_fill(scores(x), rp_not(seen(x)), -HUGE_VAL);
    return times_v(x, rp_softmax(s, -1));
}

static rp_tensor mask_added(const operands *x) {
    rp_tensor mask = rp_where(seen(x), number(x, 0), never(x));
    return times_v(x, rp_softmax(rp_add(scores(x), rp_reshape(mask, RP_SHAPE(1, 1, T, S))), -1));
}

static rp_tensor mask_of_zeros(const operands *x) {
    rp_tensor zeros = rp_broadcast(number(x, 0), RP_SHAPE(T, S));
    rp_tensor mask = rp_masked_fill(zeros, rp_not(seen(x)), -HUGE_VAL);
    return times_v(x, rp_softmax(rp_add(rp_mul_scalar(scores(x), 0.5), mask), -1));
}

/* Heads have slopes. */
static rp_tensor mask_and_bias(const operands *x) {
    rp_tensor row = rp_iota(x->g, RP_DTYPE_F32, RP_SHAPE(T, 1), 0);
    rp_tensor col = rp_iota(x->g, RP_DTYPE_F32, RP_SHAPE(1, S), 1);
    rp_tensor slope = rp_input(x->g, "slope", RP_DTYPE_F32, RP_SHAPE(H, 1, 1));
    rp_tensor s = rp_add(scores(x), rp_mul(slope, rp_sub(col, row)));
    return times_v(x, rp_softmax(causal(x, s), -1));
}

/* Padding is told by a tensor, positions by iotas. */
static rp_tensor mask_and_padding(const operands *x) {
    rp_tensor kept =
        rp_gt(rp_input(x->g, "kept", RP_DTYPE_F32, RP_SHAPE(B, 1, 1, S)), number(x, -3));
    rp_sdpa_args a = {
        .q = heads(x->q), .k = heads(x->k), .v = heads(x->v), .mask = kept, .causal = true};
    return merged(rp_scaled_dot_product_attention(&a));
}

/* Weights are multiplied by ones and zeros, and so is what their sum is of. */
static rp_tensor mask_multiplies(const operands *x) {
    rp_tensor keep = rp_cast(seen(x), RP_DTYPE_F32);
    rp_tensor e = rp_mul(rp_exp(rp_mul_scalar(scores(x), 0.1)), keep);
    return times_v(x, rp_div(e, rp_sum(e, -1, true)));
}

/* The largest score is one of all, also of those that are multiplied by zero. */
static rp_tensor mask_multiplies_late(const operands *x) {
    rp_tensor keep = rp_cast(seen(x), RP_DTYPE_F32), s = scores(x);
    rp_tensor e = rp_mul(rp_exp(rp_sub(s, rp_amax(s, -1, true))), keep);
    return times_v(x, rp_div(e, rp_add_scalar(rp_sum(e, -1, true), 1e-6)));
}

static rp_tensor mask_of_finite(const operands *x) {
    return times_v(x, rp_softmax(rp_where(seen(x), scores(x), number(x, -0x1.fffffep127)), -1));
}

static rp_tensor mask_is_given(const operands *x) {
    rp_tensor mask = rp_input(x->g, "mask", RP_DTYPE_F32, RP_SHAPE(1, 1, T, S));
    return times_v(x, rp_softmax(rp_add(scores(x), mask), -1));
}

static rp_tensor no_mask(const operands *x) {
    return times_v(x, rp_softmax(rp_mul_scalar(scores(x), 0.5), -1));
}

/* --- heads in groups ------------------------------------------------------------------------ */

/* repeat_interleave as transformers' repeat_kv has it: expanded, then joined. */
static rp_tensor repeated(rp_tensor x) {
    rp_tensor y = rp_unsqueeze(heads(x), 2);
    return rp_reshape(rp_broadcast(y, RP_SHAPE(B, KV, G, S, D)), RP_SHAPE(B, H, S, D));
}

static rp_tensor groups_repeat(const operands *x) {
    rp_tensor s = rp_mul_scalar(rp_matmul(heads(x->q), repeated(x->k_shared), true), 0.5);
    rp_tensor w = rp_softmax(causal(x, s), -1);
    return merged(rp_matmul(w, repeated(x->v_shared), false));
}

static rp_tensor chosen_heads(const operands *x, rp_tensor k) {
    rp_tensor of = rp_iota(x->g, RP_DTYPE_I32, RP_SHAPE(H), 0);
    return rp_index_select(heads(k), 1, rp_floor_divide(of, rp_const(x->g, RP_DTYPE_I32, G)));
}

static rp_tensor groups_chosen(const operands *x) {
    rp_tensor s = rp_matmul(heads(x->q), chosen_heads(x, x->k_shared), true);
    return merged(rp_matmul(rp_softmax(causal(x, s), -1), chosen_heads(x, x->v_shared), false));
}

static rp_tensor groups_stacked(const operands *x) {
    rp_tensor k[G], v[G];
    for (int i = 0; i < G; i++) k[i] = heads(x->k_shared), v[i] = heads(x->v_shared);
    rp_tensor s = rp_matmul(heads(x->q), rp_reshape(rp_stack(k, G, 2), RP_SHAPE(B, H, S, D)), true);
    rp_tensor w = rp_softmax(causal(x, s), -1);
    return merged(rp_matmul(w, rp_reshape(rp_stack(v, G, 2), RP_SHAPE(B, H, S, D)), false));
}

/* A group's queries share keys by broadcasting. */
static rp_tensor groups_broadcast(const operands *x) {
    rp_tensor q = rp_reshape(heads(x->q), RP_SHAPE(B, KV, G, T, D));
    rp_tensor k = rp_unsqueeze(heads(x->k_shared), 2), v = rp_unsqueeze(heads(x->v_shared), 2);
    rp_tensor w = rp_softmax(causal(x, rp_matmul(q, k, true)), -1);
    return merged(rp_reshape(rp_matmul(w, v, false), RP_SHAPE(B, H, T, D)));
}

/* A group's queries are rows of one matrix. */
static rp_tensor groups_folded(const operands *x) {
    rp_tensor q = rp_reshape(heads(x->q), RP_SHAPE(B, KV, G * T, D));
    rp_tensor s = rp_matmul(q, heads(x->k_shared), true);
    s = causal(x, rp_reshape(s, RP_SHAPE(B, KV, G, T, S)));
    rp_tensor w = rp_reshape(rp_softmax(s, -1), RP_SHAPE(B, KV, G * T, S));
    return merged(rp_reshape(rp_matmul(w, heads(x->v_shared), false), RP_SHAPE(B, H, T, D)));
}

static rp_tensor groups_of_sdpa(const operands *x) {
    rp_sdpa_args a = {
        .q = heads(x->q), .k = heads(x->k_shared), .v = heads(x->v_shared), .causal = true};
    return merged(rp_scaled_dot_product_attention(&a));
}

/* --- the softmax and its neighbours ---------------------------------------------------------- */

static rp_tensor softmax_written(const operands *x) {
    rp_tensor s = causal(x, scores(x)), e = rp_exp(rp_sub(s, rp_amax(s, -1, true)));
    return times_v(x, rp_div(e, rp_sum(e, -1, true)));
}

static rp_tensor softmax_of_logs(const operands *x) {
    return times_v(x, rp_exp(rp_log_softmax(causal(x, scores(x)), -1)));
}

/* By powers of two, as kernels have it. */
static rp_tensor softmax_of_twos(const operands *x) {
    rp_tensor s = causal(x, rp_mul_scalar(scores(x), 1.4426950408889634));
    rp_tensor e = rp_pow(number(x, 2), rp_sub(s, rp_amax(s, -1, true)));
    return times_v(x, rp_div(e, rp_sum(e, -1, true)));
}

/* Powers of a half are no softmax: what -inf hides there counts most. */
static rp_tensor powers_of_a_half(const operands *x) {
    rp_tensor e = rp_min(rp_pow(number(x, 0.5), causal(x, scores(x))), number(x, 8));
    return times_v(x, rp_div(e, rp_sum(e, -1, true)));
}

/* .. and those of one are all one. */
static rp_tensor powers_of_one(const operands *x) {
    rp_tensor e = rp_pow(number(x, 1), causal(x, scores(x)));
    return times_v(x, rp_div(e, rp_sum(e, -1, true)));
}

/* Half precision around, f32 within, as torch's softmax with dtype=float32. */
static rp_tensor softmax_in_f32(const operands *x) {
    rp_tensor q = rp_cast(heads(x->q), RP_DTYPE_F16), k = rp_cast(heads(x->k), RP_DTYPE_F16);
    rp_tensor s = rp_cast(rp_matmul(q, k, true), RP_DTYPE_F16);
    rp_tensor w = rp_softmax(rp_cast(causal(x, rp_cast(s, RP_DTYPE_F32)), RP_DTYPE_F32), -1);
    rp_tensor v = rp_cast(heads(x->v), RP_DTYPE_F16);
    return rp_cast(merged(rp_matmul(rp_cast(w, RP_DTYPE_F16), v, false)), RP_DTYPE_F32);
}

/* What is no number becomes one: rows that see nothing. */
static rp_tensor softmax_without_nan(const operands *x) {
    rp_tensor w = rp_softmax(causal(x, scores(x)), -1);
    return times_v(x, rp_where(rp_ne(w, w), number(x, 0), w));
}

static rp_tensor softmax_capped(const operands *x) {
    return times_v(x, rp_softmax(causal(x, rp_softcap(scores(x), 5)), -1));
}

static rp_tensor divided_behind(const operands *x) {
    rp_tensor s = causal(x, scores(x)), e = rp_exp(rp_sub(s, rp_amax(s, -1, true)));
    return merged(rp_div(rp_matmul(e, heads(x->v), false), rp_sum(e, -1, true)));
}

/* A probability of 0, as eval() leaves it. */
static rp_tensor dropout_of_nothing(const operands *x) {
    rp_tensor w = rp_softmax(causal(x, scores(x)), -1);
    return times_v(x, rp_mul_scalar(rp_div(w, number(x, 1)), 1));
}

static rp_tensor dropout(const operands *x) {
    rp_tensor w = rp_softmax(causal(x, scores(x)), -1);
    rp_tensor key = rp_const(x->g, RP_DTYPE_I64, 3), from = rp_const(x->g, RP_DTYPE_I64, 5);
    rp_tensor kept = rp_ge(rp_rand(key, from, RP_SHAPE(B, H, T, S)), number(x, 0.25));
    rp_tensor by = rp_mul_scalar(rp_cast(kept, RP_DTYPE_F32), 1 / 0.75);
    return times_v(x, rp_mul(w, by));
}

/* --- each of them ------------------------------------------------------------------------------ */

typedef struct form {
    const char *name;
    rp_tensor (*fn)(const operands *x);
    uint32_t blocks; /* 0: whole, because of `why` */
    const char *why; /* NULL and no blocks: it is not found */
} form;

#define BLOCKS(fn) \
    { #fn, fn, 2, NULL }
#define WHOLE(fn, why) \
    { #fn, fn, 0, why }
#define HIDES_NONE "no mask by position hides columns from whole rows"

static const form forms[] = {
    BLOCKS(scale_behind),
    BLOCKS(scale_divides),
    BLOCKS(scale_of_q),
    BLOCKS(scale_of_k),
    BLOCKS(scale_of_both),
    BLOCKS(scale_behind_mask),
    BLOCKS(scale_of_heads),
    BLOCKS(k_transposed),
    BLOCKS(k_permuted),
    BLOCKS(v_transposed),
    BLOCKS(batches),
    WHOLE(scores_transposed, NULL),
    BLOCKS(result_transposed),
    BLOCKS(mask_fills),
    BLOCKS(mask_added),
    BLOCKS(mask_of_zeros),
    BLOCKS(mask_and_bias),
    BLOCKS(mask_and_padding),
    BLOCKS(mask_multiplies),
    WHOLE(mask_multiplies_late, HIDES_NONE),
    WHOLE(mask_of_finite, "what hides scores is a finite number; -inf would hide them"),
    WHOLE(mask_is_given, HIDES_NONE),
    WHOLE(no_mask, HIDES_NONE),
    BLOCKS(groups_repeat),
    BLOCKS(groups_chosen),
    BLOCKS(groups_stacked),
    BLOCKS(groups_broadcast),
    WHOLE(groups_folded, NULL),
    BLOCKS(groups_of_sdpa),
    BLOCKS(softmax_written),
    BLOCKS(softmax_of_logs),
    BLOCKS(softmax_of_twos),
    WHOLE(powers_of_a_half, NULL),
    WHOLE(powers_of_one, NULL),
    BLOCKS(softmax_in_f32),
    BLOCKS(softmax_without_nan),
    BLOCKS(softmax_capped),
    BLOCKS(divided_behind),
    BLOCKS(dropout_of_nothing),
    BLOCKS(dropout),
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static rp_graph *traced(const form *f) {
    rp_error err = {0};
    operands x = {.g = rp_graph_new(f->name)};
    x.q = rp_input(x.g, "q", RP_DTYPE_F32, RP_SHAPE(B, T, H, D));
    x.k = rp_input(x.g, "k", RP_DTYPE_F32, RP_SHAPE(B, S, H, D));
    x.v = rp_input(x.g, "v", RP_DTYPE_F32, RP_SHAPE(B, S, H, D));
    x.k_shared = rp_input(x.g, "k_shared", RP_DTYPE_F32, RP_SHAPE(B, S, KV, D));
    x.v_shared = rp_input(x.g, "v_shared", RP_DTYPE_F32, RP_SHAPE(B, S, KV, D));
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

/* Behind the passes in front of it, as a piece has it. */
static void each_form(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        const form *f = &forms[i];
        rp_error err = {0};
        heard_of found = {0};
        rp_graph *g = traced(f), *o = NULL;
        ir_graph *h = NULL;
        uint32_t n = 0;
        CHECK_OK(rp_graph_optimize(g, "fold,gather,simplify,cse,dce", &o, &err), &err);
        const ir_graph *in = trace_graph_ir(o);
        CHECK_OK(pass_attention_each(in, hear, &found, &err), &err);
        if (found.n != (f->blocks || f->why) || found.last.blocks != f->blocks)
            fail_msg("%s: %u found, %u blocks: %s", f->name, found.n, found.last.blocks,
                     found.last.why ? found.last.why : "");
        if (f->why) assert_string_equal(found.last.why, f->why);
        CHECK_OK(pass_attention_counted(in, &h, &n, &err), &err);
        assert_int_equal(n, f->blocks != 0);
        assert_int_equal(count_ops(h, IR_matmul), 2 * (f->blocks ? f->blocks : 1));
        CHECK_OK(ir_verify(h, &err), &err);
        check_same_results(in, h, i + 1);
        ir_graph_free(h);
        rp_graph_free(g);
        rp_graph_free(o);
    }
}

/* --- compiled ---------------------------------------------------------------------------------- */

static float data[8][MOST], first[B * T * H * D], out[B * T * H * D];

static void run(const rp_graph *g, const char *const *settings, uint32_t matches, float *y) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_compilation_config *cfg = rp_config_new();
    const ir_graph *ir = trace_graph_ir(g);
    const uint32_t n = ir_leaf_count(ir, IR_LEAF_INPUT);
    rp_buffer in[8], to = {RP_DTYPE_F32, 3, {B, T, H * D}, y};
    assert_true(n <= 8);
    for (uint32_t i = 0; i < n; i++) {
        const ir_node *x = ir_node_at(ir, ir_leaf_at(ir, IR_LEAF_INPUT, i));
        in[i] = (rp_buffer){RP_DTYPE_F32, x->shape.rank, {0}, data[i]};
        for (uint32_t d = 0; d < x->shape.rank; d++)
            assert_true(ir_dim_is_const(ir_graph_dims(ir), x->shape.dim[d], &in[i].dim[d]));
    }
    for (; *settings; settings++) CHECK_OK(rp_config_set(cfg, *settings, &err), &err);
    memset(y, 0xff, sizeof first);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_run(c, in, n, &to, 1, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    uint32_t got = 0;
    for (uint32_t i = 0; i < info.n_passes; i++)
        if (strcmp(info.passes[i].name, "attention") == 0) got = info.passes[i].matches;
    assert_int_equal(got, runs_elsewhere() ? 0 : matches); /* a GPU does without it */
    rp_compiled_free(c);
    rp_config_free(cfg);
}

static int fill(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t k = 0; k < MOST; k++)
            data[i][k] = (float)((k * 2654435761u + i * 40503u) >> 12 & 0xfff) / 1024.0f - 2;
    return 0;
}

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void compiled_bits_are_those_of_level_0(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        const form *f = &forms[i];
        rp_graph *g = traced(f);
        run(g, SETTINGS("level=0"), 0, first);
        run(g, SETTINGS("level=2", "threads=2"), f->blocks != 0, out);
        if (memcmp(out, first, sizeof out) != 0) fail_msg("%s: other bits", f->name);
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form),
        cmocka_unit_test(compiled_bits_are_those_of_level_0),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
