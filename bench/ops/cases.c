#include "cases.h"

#include <math.h>
#include <string.h>

/* A size that is a number, as all are here. */
static int64_t size(rp_tensor x, int axis) {
    int64_t n = 0;
    (void)rp_dim_is_const(rp_tensor_dim(x, axis), &n);
    return n;
}

static rp_tensor transposed(rp_tensor x) {
    return rp_permute(x, (int[]){1, 0}, 2);
}

/* --- rows ------------------------------------------------------------------------ */

static uint32_t softmax(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_softmax(in[0], -1);
    return 1;
}

static uint32_t layer_norm(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_layer_norm(in[0], in[1], in[2], 1e-5);
    return 1;
}

static uint32_t rms_norm(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_rms_norm(in[0], in[1], 1e-6);
    return 1;
}

static uint32_t cross_entropy(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_mean(rp_cross_entropy(in[0], in[1]), 0, false);
    return 1;
}

static uint32_t mean_var(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    rp_tensor mean = rp_mean(in[0], -1, true);
    rp_tensor d = rp_sub(in[0], mean);
    out[0] = rp_mean(in[0], -1, false);
    out[1] = rp_mean(rp_mul(d, d), -1, false);
    return 2;
}

static uint32_t column_sum(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_sum(in[0], 0, false);
    return 1;
}

static uint32_t mean_pool(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    rp_tensor mask = rp_reshape(in[1], RP_SHAPE(size(in[1], 0), size(in[1], 1), 1));
    rp_tensor n = rp_max(rp_sum(mask, 1, false), rp_const(g, RP_DTYPE_F32, 1e-9));
    out[0] = rp_div(rp_sum(rp_mul(in[0], mask), 1, false), n);
    return 1;
}

static uint32_t cumsum(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_cumsum(in[0], -1);
    return 1;
}

static uint32_t topk(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    rp_topk(in[0], 8, &out[0], &out[1]);
    return 2;
}

static uint32_t index_add(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_index_add(in[0], 0, in[1], in[2]);
    return 1;
}

static uint32_t index_copy(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_index_copy(in[0], 0, in[1], in[2]);
    return 1;
}

/* --- elements ---------------------------------------------------------------------- */

static uint32_t gelu_bias(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_gelu_erf(rp_add(in[0], in[1]));
    return 1;
}

static uint32_t swiglu(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_mul(rp_silu(in[0]), in[1]);
    return 1;
}

static uint32_t rope(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_rope(in[0], in[1], in[2]);
    return 1;
}

static uint32_t embedding(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_layer_norm(rp_add(rp_gather(in[1], in[0]), in[2]), in[3], in[4], 1e-5);
    return 1;
}

static uint32_t transpose(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_add(rp_cast(transposed(in[0]), RP_DTYPE_F32), in[1]);
    return 1;
}

static uint32_t chain(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    rp_tensor x = in[0], half = rp_mul_scalar(x, 0.5);
    rp_tensor t = rp_mul(rp_tanh(rp_add_scalar(half, 1.0)), x);
    rp_tensor d = rp_abs(rp_sub(rp_sigmoid(t), half));
    rp_tensor e = rp_exp(rp_neg(rp_sqrt(rp_add_scalar(d, 1e-3))));
    out[0] = rp_max(e, rp_const(g, RP_DTYPE_F32, 0.1));
    return 1;
}

/* --- matrices ------------------------------------------------------------------------ */

static uint32_t linear_nk(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_linear(in[0], in[1]);
    return 1;
}

static uint32_t linear_kn(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    out[0] = rp_matmul(in[0], in[1], false);
    return 1;
}

static uint32_t mlp(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    rp_tensor h = rp_gelu_erf(rp_add(rp_linear(in[0], in[1]), in[2]));
    out[0] = rp_add(rp_linear(h, in[3]), in[4]);
    return 1;
}

static uint32_t seed_attention(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    (void)g;
    rp_tensor q = rp_linear(in[0], in[1]), k = rp_linear(in[0], in[2]), v = rp_linear(in[0], in[3]);
    rp_tensor e = rp_exp(rp_matmul(q, k, true));
    out[0] = rp_matmul(rp_div(e, rp_sum(e, -1, true)), v, false);
    return 1;
}

/* q [...,T,D], k and v [...,S,D] */
static rp_tensor causal(rp_graph *g, rp_tensor q, rp_tensor k, rp_tensor v) {
    int64_t t = size(q, -2);
    rp_tensor scores = rp_mul_scalar(rp_matmul(q, k, true), 1.0 / sqrt((double)size(q, -1)));
    rp_tensor row = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(t, t), 0);
    rp_tensor col = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(t, t), 1);
    rp_tensor masked = rp_where(rp_le(col, row), scores, rp_const(g, RP_DTYPE_F32, -HUGE_VAL));
    return rp_matmul(rp_softmax(masked, -1), v, false);
}

static uint32_t attention(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    out[0] = causal(g, in[0], in[1], in[2]);
    return 1;
}

/* [T,H*D] as [H,T,D] */
static rp_tensor heads(rp_tensor x, int64_t n) {
    rp_shape split = RP_SHAPE(size(x, 0), n, size(x, 1) / n);
    return rp_permute(rp_reshape(x, split), (int[]){1, 0, 2}, 3);
}

static uint32_t llama_layer(rp_graph *g, const rp_tensor *in, rp_tensor *out) {
    enum { X, COS, SIN, N1, WQ, WK, WV, WO, N2, GATE, UP, DOWN };
    enum { HEADS = 32, KV_HEADS = 4, DIM = 64, GROUP = HEADS / KV_HEADS };
    rp_tensor x = in[X], h = rp_rms_norm(x, in[N1], 1e-5);
    int64_t t = size(x, 0);
    rp_tensor q =
        rp_rope(rp_reshape(rp_linear(h, in[WQ]), RP_SHAPE(t, HEADS, DIM)), in[COS], in[SIN]);
    rp_tensor k =
        rp_rope(rp_reshape(rp_linear(h, in[WK]), RP_SHAPE(t, KV_HEADS, DIM)), in[COS], in[SIN]);
    /* Heads of a group share k and v by broadcasting: [KV,GROUP,T,D] and [KV,1,T,D]. */
    q = rp_reshape(rp_permute(q, (int[]){1, 0, 2}, 3), RP_SHAPE(KV_HEADS, GROUP, t, DIM));
    rp_shape shared = RP_SHAPE(KV_HEADS, 1, t, DIM);
    k = rp_reshape(rp_permute(k, (int[]){1, 0, 2}, 3), shared);
    rp_tensor v = rp_reshape(heads(rp_linear(h, in[WV]), KV_HEADS), shared);
    rp_tensor y = rp_reshape(causal(g, q, k, v), RP_SHAPE(HEADS, t, DIM));
    y = rp_reshape(rp_permute(y, (int[]){1, 0, 2}, 3), RP_SHAPE(t, HEADS * DIM));
    x = rp_add(x, rp_linear(y, in[WO]));
    h = rp_rms_norm(x, in[N2], 1e-5);
    h = rp_mul(rp_silu(rp_linear(h, in[GATE])), rp_linear(h, in[UP]));
    out[0] = rp_add(x, rp_linear(h, in[DOWN]));
    return 1;
}

#define CASE(name) \
    { #name, name, NULL }

static const bench_case cases[] = {
    CASE(softmax),   CASE(layer_norm),  CASE(rms_norm),  CASE(cross_entropy),
    CASE(gelu_bias), CASE(swiglu),      CASE(rope),      CASE(column_sum),
    CASE(mean_var),  CASE(mean_pool),   CASE(embedding), CASE(transpose),
    CASE(chain),     CASE(cumsum),      CASE(topk),      {"matvec", linear_nk, NULL},
    CASE(linear_nk), CASE(linear_kn),   CASE(mlp),       CASE(seed_attention),
    CASE(attention), CASE(llama_layer), CASE(index_add), CASE(index_copy),
};

const bench_case *bench_case_find(const char *name) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, name) == 0) return &cases[i];
    return NULL;
}
