/* One answer everywhere: levels x modes x threads x instruction sets x alone or in a ragged batch give the same
 * tokens. The whole product on synthetic:tiny, twelve named combinations on the real model; alone
 * a third of the prompts each after the first combination, in turns, with THOROUGH all.
 * What this machine's instruction set leaves out is a skip. */
#include "support/check.h"
#include "support/engines.h"
#include "support/thorough.h"

#include "gen/isa.h"

#define N_PROMPTS 7
#define N_TOKENS 12

static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
static const char *const modes[] = {"cudagraph_mode=NONE", "cudagraph_mode=PIECEWISE",
                                    "cudagraph_mode=FULL", "cudagraph_mode=FULL_DECODE_ONLY",
                                    "cudagraph_mode=FULL_AND_PIECEWISE"};
static const char *const threads[] = {"threads=1", "threads=2"};
static const gen_isa isas[] = {GEN_ISA_PORTABLE, GEN_ISA_AVX2, GEN_ISA_AVX512};
enum { N_ISAS = sizeof isas / sizeof *isas };

typedef struct answers {
    int32_t ids[N_PROMPTS][N_TOKENS];
} answers;

/* Prompts of 3, 10, 17, ... tokens below 250. */
static uint32_t prompt_of(uint32_t i, int32_t *out) {
    uint32_t n = 3 + 7 * i;
    for (uint32_t k = 0; k < n; k++) out[k] = (int32_t)((i * 37 + k * 11) % 250);
    return n;
}

/* Every step-th prompt from first on; of the others a keeps what it has. */
static void alone(rp_engine *e, answers *a, uint32_t first, uint32_t step) {
    int32_t prompt[64];
    for (uint32_t i = first; i < N_PROMPTS; i += step) {
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
        rp_result res = RP_RESULT_INIT;
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
    static uint32_t turn;
    answers a = *want;
    rp_engine *e = engine_must(model, how);
    if (*have && !THOROUGH())
        alone(e, &a, turn++ % 3, 3);
    else
        alone(e, &a, 0, 1);
    if (!*have) *want = a;
    *have = true;
    check_same(want, &a, how, "alone");
    together(e, &a);
    check_same(want, &a, how, "in a batch");
    rp_engine_close(e);
}

/* Answers of the first combination, with which all later ones are compared, whatever their instruction set. */
static answers tiny_answers, real_answers;
static bool have_tiny, have_real;

static void need_isa(gen_isa isa, char setting[static 32]) {
    if (!(gen_isa_granted() & GEN_ISA_BIT(isa)))
        SKIP_TEST("this machine does not grant %s", gen_isa_name(isa));
    snprintf(setting, 32, "isa=%s", gen_isa_name(isa));
}

/* Every level, mode and number of threads. state: the instruction set. */
static void tiny_full_product(void **state) {
    char isa[32];
    need_isa(*(const gen_isa *)*state, isa);
    for (size_t l = 0; l < 4; l++)
        for (size_t m = 0; m < 5; m++)
            for (size_t t = 0; t < 2; t++) {
                const char *how[] = {levels[l], modes[m], threads[t], isa, NULL};
                run_with("synthetic:tiny", how, &tiny_answers, &have_tiny);
            }
}

typedef struct combination {
    int level, mode, thread;
    gen_isa isa;
} combination;

static const combination combinations[] = {
    {3, 4, 1, GEN_ISA_AVX512},   {3, 1, 1, GEN_ISA_AVX512}, {3, 2, 0, GEN_ISA_AVX512},
    {3, 3, 1, GEN_ISA_AVX2},     {3, 0, 1, GEN_ISA_AVX2},   {3, 4, 0, GEN_ISA_AVX2},
    {2, 2, 1, GEN_ISA_AVX512},   {2, 0, 0, GEN_ISA_AVX2},   {3, 4, 1, GEN_ISA_PORTABLE},
    {3, 1, 0, GEN_ISA_PORTABLE}, {1, 2, 1, GEN_ISA_AVX512}, {0, 0, 1, GEN_ISA_AVX512},
};

static void real_model_combinations(void **state) {
    gen_isa want = *(const gen_isa *)*state;
    char isa[32];
    const char *model = getenv("REPRISE_TEST_MODEL");
    if (!model) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
    need_isa(want, isa);
    for (size_t i = 0; i < sizeof combinations / sizeof *combinations; i++) {
        const combination *c = &combinations[i];
        const char *how[] = {levels[c->level], modes[c->mode], threads[c->thread], isa, NULL};
        if (c->isa == want) run_with(model, how, &real_answers, &have_real);
    }
}

int main(void) {
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } kinds[] = {{"tiny_full_product", tiny_full_product},
                 {"real_model_combinations", real_model_combinations}};
    static char name[2 * N_ISAS][64];
    struct CMUnitTest tests[2 * N_ISAS];
    for (size_t i = 0; i < 2 * N_ISAS; i++) {
        const gen_isa *isa = &isas[i % N_ISAS];
        snprintf(name[i], sizeof *name, "%s_%s", kinds[i / N_ISAS].name, gen_isa_name(*isa));
        tests[i] = (struct CMUnitTest){name[i], kinds[i / N_ISAS].run, NULL, NULL, (void *)isa};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
