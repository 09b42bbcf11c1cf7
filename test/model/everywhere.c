/* One answer everywhere: levels x modes x threads x instruction sets x alone or in a ragged batch give the same
 * tokens. The whole product on synthetic:tiny, twelve named combinations on the real model. */
#include "support/check.h"
#include "support/engines.h"

#include "gen/isa.h"

#define N_PROMPTS 7
#define N_TOKENS 12

static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
static const char *const modes[] = {"cudagraph_mode=NONE", "cudagraph_mode=PIECEWISE",
                                    "cudagraph_mode=FULL", "cudagraph_mode=FULL_DECODE_ONLY",
                                    "cudagraph_mode=FULL_AND_PIECEWISE"};
static const char *const threads[] = {"threads=1", "threads=2"};
static const gen_isa isas[] = {GEN_ISA_PORTABLE, GEN_ISA_AVX2, GEN_ISA_AVX512};

typedef struct answers {
    int32_t ids[N_PROMPTS][N_TOKENS];
} answers;

/* Prompts of 3, 10, 17, ... tokens below 250. */
static uint32_t prompt_of(uint32_t i, int32_t *out) {
    uint32_t n = 3 + 7 * i;
    for (uint32_t k = 0; k < n; k++) out[k] = (int32_t)((i * 37 + k * 11) % 250);
    return n;
}

static void alone(rp_engine *e, answers *a) {
    int32_t prompt[64];
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        uint32_t n = prompt_of(i, prompt);
        assert_int_equal(engine_greedy(e, prompt, n, N_TOKENS, a->ids[i]), N_TOKENS);
    }
}

static void together(rp_engine *e, answers *a) {
    int32_t prompt[64];
    uint64_t id[N_PROMPTS];
    rp_error err = {0};
    bool more = true;
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        r.n_prompt_ids = prompt_of(i, prompt);
        r.prompt_ids = prompt;
        r.max_tokens = N_TOKENS;
        r.ignore_eos = true;
        CHECK_OK(rp_engine_submit(e, &r, &id[i], &err), &err);
    }
    while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        rp_result res;
        CHECK_OK(rp_engine_result(e, id[i], &res, &err), &err);
        assert_int_equal(res.n_output_ids, N_TOKENS);
        memcpy(a->ids[i], res.output_ids, sizeof a->ids[i]);
        rp_engine_release(e, id[i]);
    }
}

static void check_same(const answers *want, const answers *got, const char *const *how,
                       const char *batch) {
    for (uint32_t i = 0; i < N_PROMPTS; i++)
        for (uint32_t k = 0; k < N_TOKENS; k++)
            if (want->ids[i][k] != got->ids[i][k])
                fail_msg("%s %s %s %s, %s: prompt %u, token %u is %d, expected %d", how[0], how[1],
                         how[2], how[3], batch, i, k, got->ids[i][k], want->ids[i][k]);
}

static void run_with(const char *model, const char *const *how, answers *want, bool *have) {
    answers a;
    rp_engine *e = engine_must(model, how);
    alone(e, &a);
    if (!*have) *want = a;
    *have = true;
    check_same(want, &a, how, "alone");
    together(e, &a);
    check_same(want, &a, how, "in a batch");
    rp_engine_close(e);
}

static void tiny_full_product(void **state) {
    answers want;
    bool have = false;
    uint32_t runs = 0;
    (void)state;
    for (size_t s = 0; s < sizeof isas / sizeof *isas; s++) {
        char isa[32];
        if (!(gen_isa_granted() & GEN_ISA_BIT(isas[s]))) {
            printf("skip: this machine does not grant %s\n", gen_isa_name(isas[s]));
            continue;
        }
        snprintf(isa, sizeof isa, "isa=%s", gen_isa_name(isas[s]));
        for (size_t l = 0; l < 4; l++)
            for (size_t m = 0; m < 5; m++)
                for (size_t t = 0; t < 2; t++, runs++) {
                    const char *how[] = {levels[l], modes[m], threads[t], isa, NULL};
                    run_with("synthetic:tiny", how, &want, &have);
                }
    }
    printf("%u combinations, each alone and in a batch of %d\n", runs, N_PROMPTS);
    uint32_t granted = 0;
    for (size_t s = 0; s < sizeof isas / sizeof *isas; s++)
        granted += (gen_isa_granted() & GEN_ISA_BIT(isas[s])) != 0;
    assert_int_equal(runs, 40 * granted);
}

static void real_model_named_combinations(void **state) {
    static const struct {
        int level, mode, thread;
        gen_isa isa;
    } combos[] = {
        {3, 4, 1, GEN_ISA_AVX512},   {3, 1, 1, GEN_ISA_AVX512}, {3, 2, 0, GEN_ISA_AVX512},
        {3, 3, 1, GEN_ISA_AVX2},     {3, 0, 1, GEN_ISA_AVX2},   {3, 4, 0, GEN_ISA_AVX2},
        {2, 2, 1, GEN_ISA_AVX512},   {2, 0, 0, GEN_ISA_AVX2},   {3, 4, 1, GEN_ISA_PORTABLE},
        {3, 1, 0, GEN_ISA_PORTABLE}, {1, 2, 1, GEN_ISA_AVX512}, {0, 0, 1, GEN_ISA_AVX512},
    };
    answers want;
    bool have = false;
    (void)state;
    const char *model = getenv("REPRISE_TEST_MODEL");
    if (!model) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
    for (size_t i = 0; i < sizeof combos / sizeof *combos; i++) {
        char isa[32];
        if (!(gen_isa_granted() & GEN_ISA_BIT(combos[i].isa))) {
            printf("skip: this machine does not grant %s\n", gen_isa_name(combos[i].isa));
            continue;
        }
        snprintf(isa, sizeof isa, "isa=%s", gen_isa_name(combos[i].isa));
        const char *how[] = {levels[combos[i].level], modes[combos[i].mode],
                             threads[combos[i].thread], isa, NULL};
        run_with(model, how, &want, &have);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_full_product),
        cmocka_unit_test(real_model_named_combinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
