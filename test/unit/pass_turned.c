/* Heads that a norm makes and a rotary embedding turns: one kernel, or two where the setting says so, with the same bits and counted, in each
 * spelling; and what only looks like it. */
#include "support/elsewhere.h"
#include "support/heard.h"

#include "base/alloc.h"
#include "reprise/reprise.h"

enum {
    T = 5,
    HEADS = 4,
    KV = 2,
    D = 16,
    WIDTH = HEADS * D,
    BLOCKS = 2,
    ROOM = BLOCKS * KV * 16 * D
};

typedef enum spelling { HALVES, PAIRS, ROTATE_HALF, PARTIAL, SPELLINGS } spelling;
typedef enum norming { RMS, LAYER, BY_DIVISION, HALF_FORMAT, NONE, OVER_HEADS, NORMINGS } norming;

static float x[T * WIDTH], angles[2][T * D], wq[WIDTH * WIDTH], wk[KV * D * WIDTH], w[D], b[D];
static int32_t slots[T];

static int set_up(void **state) {
    unsigned seed = 7;
    float *all[] = {x, angles[0], angles[1], wq, wk, w, b};
    const int n[] = {T * WIDTH, T * D, T * D, WIDTH * WIDTH, KV * D * WIDTH, D, D};
    (void)state;
    for (int k = 0; k < 7; k++)
        for (int i = 0; i < n[k]; i++) {
            seed = seed * 1664525u + 1013904223u;
            all[k][i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
        }
    for (int i = 0; i < T; i++) slots[i] = (i * 5 + 1) % (BLOCKS * 16);
    return 0;
}

static rp_tensor normed(norming how, rp_tensor h, rp_tensor weight, rp_tensor bias) {
    rp_tensor ms;
    switch (how) {
    case RMS: return rp_rms_norm(h, weight, 1e-6);
    case LAYER: return rp_layer_norm(h, weight, bias, 1e-5);
    case BY_DIVISION:
        ms = rp_add_scalar(rp_mean(rp_mul(h, h), -1, true), 1e-6);
        return rp_mul(weight, rp_div(h, rp_sqrt(ms)));
    case HALF_FORMAT:
        return rp_cast(rp_cast(rp_rms_norm(h, weight, 1e-6), RP_DTYPE_F16), RP_DTYPE_F32);
    case OVER_HEADS: return rp_mul(h, rp_rsqrt(rp_sum(rp_mul(h, h), 1, true)));
    default: return rp_mul(h, weight);
    }
}

/* cos, sin: f32[T,D/2], and for rotate_half f32[T,1,D]. */
static rp_tensor turned(spelling how, rp_tensor h, rp_tensor cos, rp_tensor sin) {
    rp_tensor lo, hi;
    switch (how) {
    case HALVES: return rp_rope(h, cos, sin);
    case PAIRS: return rp_rope_interleaved(h, cos, sin);
    case PARTIAL:
        cos = rp_slice(cos, 1, 0, D / 4);
        sin = rp_slice(sin, 1, 0, D / 4);
        lo = rp_rope(rp_slice(h, 2, 0, D / 2), cos, sin);
        return rp_concat((rp_tensor[]){lo, rp_slice(h, 2, D / 2, D)}, 2, 2);
    default:
        lo = rp_slice(h, 2, 0, D / 2);
        hi = rp_slice(h, 2, D / 2, D);
        hi = rp_concat((rp_tensor[]){rp_neg(hi), lo}, 2, 2);
        return rp_add(rp_mul(h, cos), rp_mul(hi, sin));
    }
}

/* q is an output; k goes to a cache. */
static rp_graph *trace(spelling how, norming by) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("heads");
    rp_dim n = rp_symbol(g, "T", 1, 64);
    rp_shape table = how == ROTATE_HALF ? RP_SHAPE(n, 1, D) : RP_SHAPE(n, D / 2);
    rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(n, WIDTH));
    rp_tensor cos = rp_input(g, "cos", RP_DTYPE_F32, table);
    rp_tensor sin = rp_input(g, "sin", RP_DTYPE_F32, table);
    rp_tensor at = rp_input(g, "slots", RP_DTYPE_I32, RP_SHAPE(n));
    rp_tensor weight = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(D));
    rp_tensor bias = rp_param(g, "b", RP_DTYPE_F32, RP_SHAPE(D));
    rp_tensor q = rp_linear(in, rp_param(g, "wq", RP_DTYPE_F32, RP_SHAPE(WIDTH, WIDTH)));
    rp_tensor k = rp_linear(in, rp_param(g, "wk", RP_DTYPE_F32, RP_SHAPE(KV * D, WIDTH)));
    rp_tensor cache = rp_state(g, "k", RP_DTYPE_F32, RP_SHAPE(BLOCKS, KV, 16, D));
    q = normed(by, rp_reshape(q, RP_SHAPE(n, HEADS, D)), weight, bias);
    k = normed(by, rp_reshape(k, RP_SHAPE(n, KV, D)), weight, bias);
    q = turned(how, q, cos, sin);
    k = rp_reshape(turned(how, k, cos, sin), RP_SHAPE(n, KV * D));
    rp_tensor out[] = {q, rp_kv_store(cache, k, at)};
    CHECK_OK(rp_graph_finish(g, out, 1, &err), &err);
    return g;
}

typedef struct made {
    float q[T * HEADS * D], cache[ROOM];
    uint32_t groups;         /* that fusion leaves; 0 where there is none */
    uint32_t turned, stored; /* matches of both settings */
    bool refused; /* what reads a normed head to turn it stays out of the norm's kernel */
} made;

static uint32_t matches(const rp_compiled_info *info, const char *name) {
    for (uint32_t i = 0; i < info->n_passes; i++)
        if (strcmp(info->passes[i].name, name) == 0) return info->passes[i].matches;
    return 0;
}

static void compute(const rp_graph *g, bool wide, const char *const *settings, made *out) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    const int64_t half = wide ? D : D / 2;
    memset(out, 0, sizeof *out);
    base_buf heard;
    for (; *settings; settings++) CHECK_OK(rp_config_set(cfg, *settings, &err), &err);
    heard_start(&heard, "+fusion");
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    const char *found = heard.data ? strstr(heard.data, "nodes into ") : NULL;
    if (found) out->groups = (uint32_t)strtoul(found + 11, NULL, 10);
    const char *off = heard.data ? strstr(heard.data, ": enable_qk_norm_rope_fusion is off") : NULL;
    while (off && off > heard.data && off[-1] != '\n') off--;
    out->refused = off && (strncmp(off, "[fusion] cannot fuse mul ", 25) == 0 ||
                           strncmp(off, "[fusion] cannot fuse neg ", 25) == 0);
    heard_done(&heard);
    const struct {
        const char *name;
        void *data;
    } params[] = {{"wq", wq}, {"wk", wk}, {"w", w}, {"b", b}, {"k", out->cache}};
    for (int i = 0; i < 5; i++) {
        rp_status st = rp_compiled_bind(c, params[i].name, params[i].data, &err);
        if (st != RP_OK && i != 3) fail_msg("%s", err.text); /* a bias may not be there */
    }
    rp_buffer in[] = {{RP_DTYPE_F32, 2, {T, WIDTH}, x},
                      {RP_DTYPE_F32, 2, {T, half}, angles[0]},
                      {RP_DTYPE_F32, 2, {T, half}, angles[1]},
                      {RP_DTYPE_I32, 1, {T}, slots}};
    for (int i = 1; i < 3 && wide; i++)
        in[i] = (rp_buffer){RP_DTYPE_F32, 3, {T, 1, D}, angles[i - 1]};
    rp_buffer q = {RP_DTYPE_F32, 3, {T, HEADS, D}, out->q};
    CHECK_OK(rp_compiled_run(c, in, 4, &q, 1, &err), &err);
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    out->turned = matches(&info, "enable_qk_norm_rope_fusion");
    out->stored = matches(&info, "fuse_qk_norm_rope_kvcache");
    rp_compiled_free(c);
    rp_config_free(cfg);
}

static void same_bits(const made *one, const made *other) {
    assert_memory_equal(one->q, other->q, sizeof one->q);
    assert_memory_equal(one->cache, other->cache, sizeof one->cache);
}

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Two heads are turned, one of them stored. */
static void each_spelling_is_one_kernel_or_two(void **state) {
    (void)state;
    for (int how = 0; how < SPELLINGS; how++)
        for (int by = 0; by < NORMINGS; by++) {
            made eager, on, apart, stored, all;
            rp_graph *g = trace((spelling)how, (norming)by);
            bool wide = how == ROTATE_HALF;
            uint32_t n = by == NONE || by == OVER_HEADS ? 0 : 2;
            if (by == OVER_HEADS && how != HALVES) {
                rp_graph_free(g);
                continue;
            }
            compute(g, wide, SETTINGS("level=0"), &eager);
            compute(g, wide, SETTINGS("level=2"), &on);
            compute(g, wide, SETTINGS("level=2", "pass_config.enable_qk_norm_rope_fusion=false"),
                    &apart);
            compute(g, wide, SETTINGS("level=2", "pass_config.fuse_qk_norm_rope_kvcache=false"),
                    &stored);
            compute(g, wide, SETTINGS("level=2", "pass_config.fuse_rope_kvcache=false"), &all);
            if (on.turned != n || on.stored != n / 2 || apart.turned || apart.stored ||
                stored.turned != n || stored.stored || all.stored)
                fail_msg("spelling %d, norm %d: %u turned, %u stored; %u and %u; %u and %u", how,
                         by, on.turned, on.stored, apart.turned, apart.stored, stored.turned,
                         stored.stored);
            if (n ? apart.groups <= on.groups || stored.groups <= on.groups
                  : apart.groups != on.groups || stored.groups != on.groups)
                fail_msg("spelling %d, norm %d: %u groups, %u, %u", how, by, on.groups,
                         apart.groups, stored.groups);
            if (apart.refused != (n > 0) || on.refused)
                fail_msg("spelling %d, norm %d: products are with their norm", how, by);
            assert_int_equal(eager.turned, 0);
            same_bits(&on, &eager);
            same_bits(&apart, &eager);
            same_bits(&stored, &eager);
            same_bits(&all, &eager);
            rp_graph_free(g);
        }
}

/* Its names in skip_passes do the same. */
static void names_of_passes(void **state) {
    made on, off;
    (void)state;
    rp_graph *g = trace(HALVES, RMS);
    compute(g, false, SETTINGS("level=2"), &on);
    compute(g, false, SETTINGS("level=2", "skip_passes=enable_qk_norm_rope_fusion"), &off);
    assert_true(off.groups > on.groups);
    assert_int_equal(off.turned, 0);
    same_bits(&on, &off);
    rp_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_spelling_is_one_kernel_or_two),
        cmocka_unit_test(names_of_passes),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
