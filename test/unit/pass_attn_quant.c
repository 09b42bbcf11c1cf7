/* fuse_attn_quant: attention that leaves rounded rows has the bits of attention and a rounding behind it, on every instruction set, for few rows
 * and many; a model that asks for it has fewer launches and the same tokens. */
#include "support/check.h"
#include "support/engines.h"

#include "reprise/reprise.h"

enum {
    MOST_T = 40,
    BLOCKS = 9,
    SLOTS = 16,
    MOST_KV = 4,
    MOST_D = 96,
    MOST_WIDTH = 6 * MOST_D,
    TOKENS = 12
};

/* What a case is of. */
typedef struct shape {
    uint32_t heads, kv_heads, head_dim;
    rp_dtype cache;
    bool shared; /* the unrounded value is a result, too */
    uint32_t matches;
} shape;

static float q[MOST_T * MOST_WIDTH], cache[2][BLOCKS * MOST_KV * SLOTS * MOST_D];
static uint16_t halves[2][BLOCKS * MOST_KV * SLOTS * MOST_D];
static int32_t seqs[MOST_T], positions[MOST_T], tables[3 * 3];

static int set_up(void **state) {
    unsigned seed = 11;
    (void)state;
    for (size_t i = 0; i < sizeof q / sizeof *q; i++) {
        seed = seed * 1664525u + 1013904223u;
        q[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof cache[k] / sizeof *cache[k]; i++) {
            seed = seed * 1664525u + 1013904223u;
            cache[k][i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
            halves[k][i] = (uint16_t)(0x3c00 | (seed >> 20 & 0x83ff)); /* of either format */
        }
    for (int i = 0; i < 9; i++) tables[i] = (i * 5 + 2) % BLOCKS;
    return 0;
}

/* Three requests, the rows of which follow one another; some are padding. */
static void set_rows(int64_t t) {
    for (int64_t i = 0; i < t; i++) {
        seqs[i] = t < 4 ? (int32_t)i : (int32_t)(i * 3 / t);
        positions[i] = (int32_t)((i * 7 + t) % 47);
        if ((i + t) % 6 == 5) *(i % 2 ? &seqs[i] : &positions[i]) = -1; /* other rows each time */
    }
}

static rp_graph *trace(const shape *s) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("rounded");
    rp_dim t = rp_symbol(g, "T", 1, MOST_T);
    int64_t width = (int64_t)s->heads * s->head_dim;
    rp_shape blocks = RP_SHAPE(BLOCKS, s->kv_heads, SLOTS, s->head_dim);
    rp_attention_args a = {.q = rp_input(g, "q", RP_DTYPE_F32, RP_SHAPE(t, width)),
                           .k = rp_state(g, "k", s->cache, blocks),
                           .v = rp_state(g, "v", s->cache, blocks),
                           .seqs = rp_input(g, "seqs", RP_DTYPE_I32, RP_SHAPE(t)),
                           .positions = rp_input(g, "positions", RP_DTYPE_I32, RP_SHAPE(t)),
                           .block_tables = rp_input(g, "tables", RP_DTYPE_I32, RP_SHAPE(3, 3)),
                           .heads = s->heads,
                           .kv_heads = s->kv_heads,
                           .head_dim = s->head_dim,
                           .scale = 0.3};
    rp_tensor y = rp_attention(&a), out[] = {rp_dequant(rp_quantize(y, RP_DTYPE_I16B32)), y};
    CHECK_OK(rp_graph_finish(g, out, s->shared ? 2 : 1, &err), &err);
    return g;
}

static rp_compiled *compile(const shape *s, const char *const *settings) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = trace(s);
    rp_compilation_config *cfg = rp_config_new();
    for (; *settings; settings++) CHECK_OK(rp_config_set(cfg, *settings, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    bool wide = s->cache == RP_DTYPE_F32;
    CHECK_OK(rp_compiled_bind(c, "k", wide ? (void *)cache[0] : (void *)halves[0], &err), &err);
    CHECK_OK(rp_compiled_bind(c, "v", wide ? (void *)cache[1] : (void *)halves[1], &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

static uint32_t matches_of(const rp_compiled *c) {
    rp_error err = {0};
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    for (uint32_t i = 0; i < info.n_passes; i++)
        if (strcmp(info.passes[i].name, "fuse_attn_quant") == 0) return info.passes[i].matches;
    return 0;
}

static void call(rp_compiled *c, const shape *s, int64_t t, float *y) {
    static float whole[MOST_T * MOST_WIDTH];
    rp_error err = {0};
    int64_t width = (int64_t)s->heads * s->head_dim;
    rp_buffer in[] = {{RP_DTYPE_F32, 2, {t, width}, q},
                      {RP_DTYPE_I32, 1, {t}, seqs},
                      {RP_DTYPE_I32, 1, {t}, positions},
                      {RP_DTYPE_I32, 2, {3, 3}, tables}};
    rp_buffer out[] = {{RP_DTYPE_F32, 2, {t, width}, y}, {RP_DTYPE_F32, 2, {t, width}, whole}};
    memset(y, 0x55, sizeof whole);
    CHECK_OK(rp_compiled_run(c, in, 4, out, s->shared ? 2 : 1, &err), &err);
}

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define ON "pass_config.fuse_attn_quant=true"

static void rounded_rows_have_the_bits(void **state) {
    static const shape shapes[] = {
        {4, 2, 32, RP_DTYPE_F32, false, 1},  {6, 2, 64, RP_DTYPE_F16, false, 1},
        {2, 1, 96, RP_DTYPE_BF16, false, 1}, {1, 1, 32, RP_DTYPE_F32, false, 1},
        {4, 4, 64, RP_DTYPE_F32, true, 0},   {2, 2, 48, RP_DTYPE_F32, false, 0}};
    static const char *const isas[] = {"isa=portable", "isa=avx2", "isa=avx512"};
    static const int64_t rows[] = {1, 2, 3, 4, 5, 17, MOST_T};
    static float want[MOST_T * MOST_WIDTH], got[MOST_T * MOST_WIDTH];
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const shape *s = &shapes[k];
        rp_compiled *eager = compile(s, SETTINGS("level=0"));
        for (int i = 0; i < 6; i++) {
            const char *threads = i % 2 ? "threads=2" : "threads=1";
            rp_compiled *c = compile(s, SETTINGS("level=2", isas[i / 2], threads, ON));
            assert_int_equal(matches_of(c), s->matches);
            for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
                set_rows(rows[n]);
                call(eager, s, rows[n], want);
                call(c, s, rows[n], got);
                if (memcmp(want, got, sizeof want) != 0)
                    fail_msg("shape %zu, %s, %lld rows: other bits", k, isas[i / 2],
                             (long long)rows[n]);
            }
            rp_compiled_free(c);
        }
        rp_compiled_free(eager);
    }
}

/* Off unless it is asked for, and by each of its two names. */
static void it_is_asked_for(void **state) {
    static const shape s = {4, 2, 32, RP_DTYPE_F32, false, 1};
    (void)state;
    static const struct {
        const char *a, *b;
        uint32_t matches;
    } cases[] = {{"level=2", "threads=1", 0}, {"level=2", "pass_config.fuse_attn_quant=false", 0},
                 {"level=2", ON, 1},          {"level=2", "pass_config.enable_attn_fusion=true", 1},
                 {"level=3", ON, 1},          {"level=0", ON, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_compiled *c = compile(&s, SETTINGS(cases[i].a, cases[i].b));
        if (matches_of(c) != cases[i].matches)
            fail_msg("%s %s: %u", cases[i].a, cases[i].b, matches_of(c));
        rp_compiled_free(c);
    }
    rp_compiled *c = compile(&s, SETTINGS("level=2", ON, "skip_passes=fuse_attn_quant"));
    assert_int_equal(matches_of(c), 0);
    rp_compiled_free(c);
}

static void settings_are_told(void **state) {
    static const struct {
        const char *setting, *what, *reason;
    } cases[] = {{"threads=1", "splitting_ops=[]",
                  "fuse_attn_quant wants attention in one piece with what follows"},
                 {"splitting_ops=[\"aiter.unified_attention_with_output\"]",
                  "pass_config.fuse_attn_quant=true",
                  "what is between splitting_ops is fused, no more"}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        const rp_config_note *notes;
        bool told = false;
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set(cfg, "level=3", &err), &err);
        CHECK_OK(rp_config_set(cfg, ON, &err), &err);
        CHECK_OK(rp_config_set(cfg, cases[i].setting, &err), &err);
        CHECK_OK(rp_config_resolve(cfg, NULL, &err), &err);
        size_t n = rp_config_notes(cfg, &notes);
        for (size_t k = 0; k < n; k++)
            told |= strcmp(notes[k].what, cases[i].what) == 0 &&
                    strcmp(notes[k].reason, cases[i].reason) == 0;
        if (!told) fail_msg("no note %s", cases[i].what);
        rp_config_free(cfg);
    }
    static const char *const gpus[] = {"cuda", "cuda:1"};
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        char device[16], want[240];
        rp_compilation_config *cfg = rp_config_new();
        (void)snprintf(device, sizeof device, "device=%s", gpus[i]);
        (void)snprintf(want, sizeof want,
                       "pass_config.fuse_attn_quant=true is not supported on %s: blocks there "
                       "share the heads of a row out among them, and leave float32; leave it at "
                       "null",
                       gpus[i]);
        CHECK_OK(rp_config_set(cfg, device, &err), &err);
        CHECK_OK(rp_config_set(cfg, ON, &err), &err);
        assert_int_equal(rp_config_resolve(cfg, NULL, &err), RP_UNSUPPORTED);
        assert_string_equal(err.text, want);
        rp_config_free(cfg);
    }
}

/* All layers but the last, whose heads the head of the model rounds. */
static void a_model_has_fewer_launches(void **state) {
    static const char model[] = "synthetic:smollm2-135m,layers=3,dtype=q4_1,seed=3";
    static const char *const ways[][2] = {{"level=2", "threads=1"}, {"level=3", "threads=2"}};
    int32_t want[TOKENS], got[TOKENS];
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_engine *off = engine_must(
            model, SETTINGS(ways[i][0], ways[i][1], "cudagraph_mode=NONE", "splitting_ops=[]"));
        rp_engine *on =
            engine_must(model, SETTINGS(ways[i][0], ways[i][1], "cudagraph_mode=NONE", ON));
        assert_int_equal(engine_greedy(off, plain_prompt, 5, TOKENS, want), TOKENS);
        assert_int_equal(engine_greedy(on, plain_prompt, 5, TOKENS, got), TOKENS);
        assert_memory_equal(want, got, sizeof want);
        assert_int_equal(engine_count(off, "launches_per_step"),
                         engine_count(on, "launches_per_step") + 2);
        rp_engine_close(on);
        rp_engine_close(off);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_rows_have_the_bits),
        cmocka_unit_test(it_is_asked_for),
        cmocka_unit_test(settings_are_told),
        cmocka_unit_test(a_model_has_fewer_launches),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
