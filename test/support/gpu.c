#include "support/gpu.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/spawn.h"
#include "support/check.h"
#include "support/engines.h"

enum { N_PROMPTS = 4, N_TOKENS = 8, MOST_PROMPT = 64, TOP = 8 };

/* Beside the folder of the programs: BUILD/test/unit/NAME, BUILD/emu. REPRISE_TEST_GPU: the GPU of this machine. */
bool gpu_emulate(const char **why) {
    static char path[4096];
    *why = NULL;
    if (getenv("REPRISE_TEST_GPU")) return true;
    char *cxx = base_find_program("g++");
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    base_free(cxx);
    *why = "no g++ on this machine, which compiles for the emulated GPU";
    if (!cxx || n <= 0) return false;
    path[n] = 0;
    for (int i = 0; i < 3; i++)
        if (strrchr(path, '/')) *strrchr(path, '/') = 0;
    (void)strcat(path, "/emu/libcuda.so.1");
    *why = "the emulated GPU is not built here";
    if (access(path, R_OK) != 0) return false;
    /* Whoever opens libcuda.so.1 later gets the library that has this name. */
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) fail_msg("%s", dlerror());
    (void)setenv("REPRISE_NVRTC", path, 1);
    return true;
}

/* --- failures ---------------------------------------------------------------------- */

bool gpu_is_real(void) {
    return getenv("REPRISE_TEST_GPU") != NULL;
}

bool gpu_may_branch(void) {
    static bool told;
    if (!getenv("REPRISE_TEST_SANITIZED")) return true;
    if (!told) print_message("replays of conditional nodes are left out under compute-sanitizer\n");
    told = true;
    return false;
}

/* A function of the driver that was opened. */
static void *driver(const char *symbol) {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *f = lib ? dlsym(lib, symbol) : NULL;
    if (!f) fail_msg("the driver has no %s", symbol);
    return f;
}

#define DRIVER_CALL(symbol, parameters) ((int(*) parameters)(uintptr_t)driver(symbol))

static void store_nowhere(void) {
    static const char text[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nowhere() { .reg .u64 a; "
        ".reg .u32 b; mov.u64 a, 16; mov.u32 b, 1; st.global.u32 [a], b; ret; }";
    void *context = NULL, *module = NULL, *kernel = NULL;
    if (DRIVER_CALL("cuDevicePrimaryCtxRetain", (void **, int))(&context, 0) != 0 ||
        DRIVER_CALL("cuCtxSetCurrent", (void *))(context) != 0 ||
        DRIVER_CALL("cuModuleLoadData", (void **, const void *))(&module, text) != 0 ||
        DRIVER_CALL("cuModuleGetFunction", (void **, void *, const char *))(&kernel, module,
                                                                            "nowhere") != 0 ||
        DRIVER_CALL("cuLaunchKernel",
                    (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void *, void **, void **))(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0)
        fail_msg("no kernel could be launched that fails");
    assert_int_not_equal(DRIVER_CALL("cuCtxSynchronize", (void))(), 0);
    (void)DRIVER_CALL("cuDevicePrimaryCtxRelease_v2", (int))(0);
}

void gpu_lose(int code, bool for_good) {
    if (gpu_is_real())
        store_nowhere();
    else
        ((void (*)(int, bool))(uintptr_t)driver("emu_lose"))(code, for_good);
}

void gpu_find_again(void) {
    gpu_lose(0, false);
}

void gpu_fail_nth(unsigned nth, int code) {
    ((void (*)(unsigned, int))(uintptr_t)driver("emu_fail"))(nth, code);
}

const char *gpu_left(void) {
    static char text[256];
    ((void (*)(char *, size_t))(uintptr_t)driver("emu_left"))(text, sizeof text);
    return text;
}

unsigned gpu_calls(void) {
    return ((unsigned (*)(void))(uintptr_t)driver("emu_calls"))();
}

/* --- tokens ------------------------------------------------------------------------ */

typedef struct answers {
    int32_t ids[2][N_PROMPTS][N_TOKENS]; /* alone, in a batch */
} answers;

/* Prompts of 3, 14, 25, ... tokens. */
static uint32_t prompt_of(uint32_t i, int32_t *out) {
    uint32_t n = 3 + 11 * i;
    for (uint32_t k = 0; k < n; k++) out[k] = (int32_t)((i * 37 + k * 11) % 250);
    return n;
}

static void together(rp_engine *e, answers *a) {
    int32_t prompt[MOST_PROMPT];
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
        memcpy(a->ids[1][i], res.output_ids, sizeof a->ids[1][i]);
        rp_engine_release(e, id[i]);
    }
}

static void answer(const char *model, const char *const *settings, answers *a) {
    int32_t prompt[MOST_PROMPT];
    rp_engine *e = engine_must(model, settings);
    memset(a, 0xff, sizeof *a);
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        uint32_t n = prompt_of(i, prompt);
        assert_int_equal(engine_greedy(e, prompt, n, N_TOKENS, a->ids[0][i]), N_TOKENS);
    }
    together(e, a);
    rp_engine_close(e);
}

static void check_one(const char *model, const char *level, const char *mode, const char *setting,
                      const answers *want) {
    const char *how[] = {
        "device=cuda:0", "max_num_seqs=8", "max_model_len=256", level, mode, setting, NULL};
    answers got;
    answer(model, how, &got);
    for (uint32_t b = 0; b < 2; b++)
        for (uint32_t i = 0; i < N_PROMPTS; i++)
            for (uint32_t k = 0; k < N_TOKENS; k++)
                if (want->ids[b][i][k] != got.ids[b][i][k])
                    fail_msg("%s %s %s %s, %s: prompt %u, token %u is %d on cuda:0, %d on the cpu",
                             model, level, mode, setting ? setting : "", b ? "in a batch" : "alone",
                             i, k, got.ids[b][i][k], want->ids[b][i][k]);
}

void gpu_check_tokens(const char *model, const char *setting, bool every_level, bool every_mode) {
    static const char *const levels[] = {"level=3", "level=2", "level=1", "level=0"};
    static const char *const modes[] = {"cudagraph_mode=FULL_AND_PIECEWISE",
                                        "cudagraph_mode=PIECEWISE", "cudagraph_mode=NONE",
                                        "cudagraph_mode=FULL", "cudagraph_mode=FULL_DECODE_ONLY"};
    const char *how[] = {"device=cpu", "max_num_seqs=8", "max_model_len=256", setting, NULL};
    answers want;
    answer(model, how, &want);
    for (uint32_t l = 0; l < (every_level ? 4 : 1); l++)
        for (uint32_t m = 0; m < (every_mode && l == 0 ? 5 : 1); m++)
            check_one(model, levels[l], l < 2 ? modes[m] : "cudagraph_mode=NONE", setting, &want);
}

/* --- a crowd ------------------------------------------------------------------------ */

enum { CROWD = 44, CROWD_PROMPT = 5, CROWD_TOKENS = 3 };

/* logprobs NULL: the logits stay where they are. */
static void crowd(const char *model, const char *device, int32_t ids[CROWD][CROWD_TOKENS],
                  double (*logprobs)[CROWD_TOKENS]) {
    const char *how[] = {device, "max_num_seqs=48", "max_model_len=64", NULL};
    int32_t prompt[CROWD_PROMPT + 40];
    uint64_t id[CROWD];
    rp_error err = {0};
    bool more = true;
    rp_engine *e = engine_must(model, how);
    for (uint32_t i = 0; i < CROWD; i++) {
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        r.n_prompt_ids = i % 11 == 3 ? CROWD_PROMPT + 40 : CROWD_PROMPT;
        for (uint32_t k = 0; k < r.n_prompt_ids; k++)
            prompt[k] = (int32_t)((i * 37 + k * 11) % 250);
        r.prompt_ids = prompt;
        r.max_tokens = CROWD_TOKENS;
        r.ignore_eos = true;
        r.logprobs = logprobs != NULL;
        CHECK_OK(rp_engine_submit(e, &r, &id[i], &err), &err);
    }
    while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    for (uint32_t i = 0; i < CROWD; i++) {
        rp_result res = RP_RESULT_INIT;
        CHECK_OK(rp_engine_result(e, id[i], &res, &err), &err);
        assert_int_equal(res.n_output_ids, CROWD_TOKENS);
        memcpy(ids[i], res.output_ids, sizeof ids[i]);
        if (logprobs) memcpy(logprobs[i], res.logprobs, sizeof logprobs[i]);
        rp_engine_release(e, id[i]);
    }
    rp_engine_close(e);
}

/* By the largest logits alone, and with log probabilities, whose rows come to the host some at a time. */
void gpu_check_crowd(const char *model) {
    int32_t want[CROWD][CROWD_TOKENS], got[CROWD][CROWD_TOKENS];
    static double logprob[CROWD][CROWD_TOKENS], other[CROWD][CROWD_TOKENS];
    crowd(model, "device=cpu", want, logprob);
    for (int explained = 0; explained < 2; explained++) {
        crowd(model, "device=cuda:0", got, explained ? other : NULL);
        for (uint32_t i = 0; i < CROWD; i++)
            for (uint32_t k = 0; k < CROWD_TOKENS; k++)
                if (want[i][k] != got[i][k])
                    fail_msg("%s: prompt %u of a crowd, token %u is %d on cuda:0, %d on the cpu",
                             model, i, k, got[i][k], want[i][k]);
    }
    assert_memory_equal(other, logprob, sizeof logprob);
}

/* --- draws ------------------------------------------------------------------------- */

enum { DRAWS = 12, DRAW_TOKENS = 20 };

static void submit_draw(rp_engine *e, uint32_t i, uint64_t *id) {
    static const rp_sampling kinds[] = {
        {.temperature = 0.9, .top_p = 1},
        {.temperature = 0, .top_p = 1},
        {.temperature = 1.5, .top_p = 1, .top_k = 5},
        {.temperature = 1, .top_p = 0.8},
        {.temperature = 2, .top_p = 1, .min_p = 0.1},
        {.temperature = 3, .top_p = 0.9, .min_p = 0.01, .top_k = 40}};
    int32_t prompt[MOST_PROMPT];
    rp_error err = {0};
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    r.n_prompt_ids = prompt_of(i % 3, prompt);
    r.prompt_ids = prompt;
    r.max_tokens = DRAW_TOKENS - i % 4;
    r.ignore_eos = true;
    r.sampling = kinds[i % (sizeof kinds / sizeof *kinds)];
    r.sampling.seed = 7 * i;
    r.logprobs = i == 8;
    CHECK_OK(rp_engine_submit(e, &r, id, &err), &err);
}

static void draw(const char *model, const char *device, const char *async, bool alone,
                 int32_t ids[DRAWS][DRAW_TOKENS]) {
    const char *how[] = {device, "max_num_seqs=8", "max_model_len=64", async, NULL};
    rp_engine *e = engine_must(model, how);
    uint64_t id[DRAWS];
    rp_error err = {0};
    bool more = true;
    memset(ids, 0xff, sizeof(int32_t) * DRAWS * DRAW_TOKENS);
    for (uint32_t i = 0; i < DRAWS; i++) {
        submit_draw(e, i, &id[i]);
        while (alone && more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
        more = true;
    }
    while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    for (uint32_t i = 0; i < DRAWS; i++) {
        rp_result res = RP_RESULT_INIT;
        CHECK_OK(rp_engine_result(e, id[i], &res, &err), &err);
        assert_int_equal(res.n_output_ids, DRAW_TOKENS - i % 4);
        memcpy(ids[i], res.output_ids, res.n_output_ids * sizeof *res.output_ids);
        rp_engine_release(e, id[i]);
    }
    /* All but the greedy ones and the one with log probabilities, which is the one that is said. */
    const bool within = strcmp(device, "device=cpu") != 0;
    assert_int_equal(engine_count(e, "draws_within_steps"), within ? 9 : 0);
    char *text = NULL;
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    assert_true(within == (strstr(text, "log probabilities are asked for") != NULL));
    rp_engine_text_free(text);
    rp_engine_close(e);
}

void gpu_check_draws(const char *model) {
    int32_t want[DRAWS][DRAW_TOKENS], got[DRAWS][DRAW_TOKENS];
    draw(model, "device=cpu", NULL, false, want);
    for (int i = 0; i < 3; i++) {
        draw(model, "device=cuda:0", i % 2 ? "async_scheduling=false" : "async_scheduling=true",
             i == 2, got);
        for (uint32_t r = 0; r < DRAWS; r++)
            for (uint32_t k = 0; k < DRAW_TOKENS; k++)
                if (got[r][k] != want[r][k])
                    fail_msg("%s, way %d: request %u, token %u is %d on cuda:0, %d on the cpu",
                             model, i, r, k, got[r][k], want[r][k]);
    }
}

/* --- scores ------------------------------------------------------------------------ */

typedef struct scores {
    uint32_t n, most;
    int32_t (*ids)[TOP];
    float (*logits)[TOP];
} scores;

static void on_token(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                     const int32_t *top_ids, const float *top_logits) {
    scores *s = user;
    (void)position, (void)id, (void)logprob;
    assert_true(s->n < s->most && k == TOP);
    memcpy(s->ids[s->n], top_ids, sizeof s->ids[0]);
    memcpy(s->logits[s->n++], top_logits, sizeof s->logits[0]);
}

static scores score(const char *model, const char *const *settings, unsigned n, unsigned step) {
    rp_error err = {0};
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    scores s = {.most = n};
    int32_t *ids = calloc(n + 3, sizeof *ids);
    s.ids = calloc(n, sizeof *s.ids);
    s.logits = calloc(n, sizeof *s.logits);
    assert_true(ids && s.ids && s.logits);
    for (unsigned i = 0; i < n + 3; i++) ids[i] = (int32_t)((i * 31u + i / 7u) % 250u);
    o.prompt_ids = ids;
    o.n_prompt_ids = 3;
    o.continuation_ids = ids + 3;
    o.n_continuation_ids = n;
    o.step = step;
    o.top_logits = TOP;
    o.on_token = on_token;
    o.user = &s;
    rp_engine *e = engine_must(model, settings);
    CHECK_OK(rp_engine_score(e, &o, NULL, &err), &err);
    rp_engine_close(e);
    free(ids);
    assert_int_equal(s.n, n);
    return s;
}

static void scores_done(scores *s) {
    free(s->ids);
    free(s->logits);
}

static bool same_scores(const scores *a, const scores *b) {
    return memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0 &&
           memcmp(a->logits, b->logits, a->n * sizeof *a->logits) == 0;
}

static void check_near(const char *model, const scores *want, const scores *got) {
    for (unsigned i = 0; i < want->n; i++)
        for (int k = 0; k < TOP; k++) {
            double w = (double)want->logits[i][k], g = (double)got->logits[i][k];
            if (!isfinite(w) || !(fabs(w - g) <= 0.05 * fmax(1, fabs(w))))
                fail_msg("%s: position %u, place %d: %.9g on cuda:0, %.9g on the cpu", model, i, k,
                         g, w);
        }
}

void gpu_check_near(const char *model, unsigned n, unsigned step) {
    /* The first has level 3 and FULL_AND_PIECEWISE. */
    static const char *const levels[] = {"level=3", "level=2", "level=0"};
    static const char *const modes[] = {"cudagraph_mode=PIECEWISE", "cudagraph_mode=NONE"};
    enum { N_MODES = sizeof modes / sizeof *modes };
    const char *cpu[] = {"device=cpu", "max_num_seqs=8", NULL};
    const char *first[] = {"device=cuda:0", "max_num_seqs=8", "decode_kernels=false", NULL};
    scores exact = score(model, cpu, n, step), want = score(model, first, n, step);
    check_near(model, &exact, &want);
    if (same_scores(&exact, &want)) fail_msg("%s: no bit differs from the cpu's", model);
    for (unsigned l = 0; l < 3; l++)
        for (unsigned m = 0; m < (l ? 1 : N_MODES); m++) {
            const char *mode = l ? modes[N_MODES - 1] : modes[m];
            const char *how[] = {
                "device=cuda:0", "max_num_seqs=8", "decode_kernels=false", levels[l], mode, NULL};
            scores got = score(model, how, n, step);
            if (!same_scores(&want, &got))
                fail_msg("%s, step %u: other bits with %s %s", model, step, levels[l], mode);
            scores_done(&got);
        }
    scores_done(&exact);
    scores_done(&want);
}

void gpu_check_scores(const char *model, const char *setting, unsigned n, unsigned step) {
    const char *cpu[] = {"device=cpu", "max_num_seqs=8", setting, NULL};
    const char *gpu[] = {"device=cuda:0", "max_num_seqs=8", setting, NULL};
    scores want = score(model, cpu, n, step), got = score(model, gpu, n, step);
    for (unsigned i = 0; i < n; i++)
        for (int k = 0; k < TOP; k++)
            if (got.ids[i][k] != want.ids[i][k] ||
                memcmp(&got.logits[i][k], &want.logits[i][k], sizeof(float)) != 0)
                fail_msg("%s %s, step %u: position %u, place %d: token %d with %a on cuda:0, %d "
                         "with %a on the cpu",
                         model, setting ? setting : "", step, i, k, got.ids[i][k],
                         (double)got.logits[i][k], want.ids[i][k], (double)want.logits[i][k]);
    scores_done(&want);
    scores_done(&got);
}
