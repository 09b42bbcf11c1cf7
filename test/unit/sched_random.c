/* Schedules that no rule makes, drawn at random among those that verify: on the emulated GPU each gives the interpreter's bits.
 * So what a tuner may choose from is safe. */
#include "support/check.h"

#include "base/alloc.h"
#include "gen/gen.h"
#include "hal/cuda/code.h"
#include "hal/cuda/gpu.h"
#include "sched/rules.h"
#include "support/gpu.h"
#include "support/kir_gpu.h"

static const char *why_not;
static uint32_t n_rows; /* schedules with rows in registers */

static uint32_t draw(uint64_t *seed, uint32_t n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static bool keeps_memory(const kir_func *f) {
    for (uint32_t i = 0; i < f->n_bufs; i++)
        if (f->bufs[i].space == KIR_SCRATCH) return true;
    return false;
}

static sched_kind draw_kind(const sched *s, kir_ref at, uint64_t *seed) {
    const kir_op op = s->f->insts[at].op;
    const sched_step *step = &s->steps[at];
    if (op == KIR_PAR) return keeps_memory(s->f) || draw(seed, 4) ? SCHED_BLOCK : SCHED_GRID;
    if (op == KIR_IF || step->team == SCHED_ALONE || !sched_is_independent(s, at))
        return SCHED_SERIAL;
    if (op == KIR_LOOP && step->team == SCHED_OF_BLOCK && draw(seed, 2)) return SCHED_WARP;
    return draw(seed, 4) ? SCHED_THREAD : SCHED_SERIAL;
}

static void decide(sched *s, kir_ref at, void *user) {
    const kir_op op = s->f->insts[at].op;
    uint64_t *seed = user;
    sched_step *step = &s->steps[at];
    if (op == KIR_REDUCE && step->team == SCHED_ALONE) {
        sched_reduce_alone(s, at);
        if (draw(seed, 3) == 0) *step = (sched_step){.end = step->end, .chunks = step->chunks};
        return;
    }
    if (op == KIR_REDUCE) step->chunks = sched_needs_chunks(s, at);
    if (op != KIR_STORE) step->kind = draw_kind(s, at, seed);
    step->barrier = sched_needs_barrier(s, at) || (sched_may_wait(s, at) && draw(seed, 4) == 0);
}

/* Rows in registers, of half a warp or of a block. */
static void decide_held(sched *s, kir_ref at, void *user) {
    const kir_op op = s->f->insts[at].op;
    const sched_step *how = user;
    sched_step *step = &s->steps[at];
    if (op == KIR_PAR) step->kind = how->kind;
    if (op == KIR_LOOP || op == KIR_REDUCE) {
        step->kind = SCHED_THREAD;
        step->held = how->held;
        step->chunks = op == KIR_REDUCE && sched_needs_chunks(s, at);
    }
    step->barrier = sched_needs_barrier(s, at);
}

static sched *random_rows(const kir_func *f, uint64_t *seed, bool half) {
    sched_step how = {.kind = half ? SCHED_HALF : SCHED_BLOCK, .held = !half};
    sched *s = NULL;
    rp_error err = {0};
    CHECK_OK(sched_new(&sched_cuda, f, NULL, &s, &err), &err);
    sched_place_all(s, SCHED_REGISTER, 1);
    sched_decide(s, decide_held, &how);
    s->launch.threads = 64u << draw(seed, 4);
    s->launch.per_block = half ? s->launch.threads / SCHED_LANES : 1;
    s->launch.per_sm = draw(seed, 2);
    s->launch.grain = 1;
    const uint8_t wide = (uint8_t)(2u << draw(seed, 3));
    bool all = !half && draw(seed, 2);
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (s->steps[at].held) all = all && sched_may_be_wide(s, at, wide);
    for (kir_ref at = 0; all && at < f->n_insts; at++)
        if (s->steps[at].held) s->steps[at].wide = wide;
    CHECK_OK(sched_verify(s, &err), &err);
    n_rows++;
    return s;
}

static sched *random_schedule(const kir_func *f, uint64_t *seed) {
    sched *s = NULL;
    rp_error err = {0};
    const bool half = draw(seed, 2);
    if (draw(seed, 3) && (half ? sched_may_be_half(f) : sched_may_be_held(f)))
        return random_rows(f, seed, half);
    CHECK_OK(sched_new(&sched_cuda, f, NULL, &s, &err), &err);
    sched_place_all(s, SCHED_SHARED, 1);
    sched_decide(s, decide, seed);
    bool blocks = false;
    for (kir_ref at = 0; at < f->n_insts; at++) blocks |= s->steps[at].kind == SCHED_BLOCK;
    s->launch.threads = 32u << draw(seed, 6);
    s->launch.per_block = blocks ? 1 : s->launch.threads;
    s->launch.grain = 1;
    CHECK_OK(sched_verify(s, &err), &err);
    return s;
}

typedef struct emulated {
    cuda_nvrtc nvrtc;
    cuda_driver cu;
    cuda_gpu gpu;
} emulated;

static void *load(const emulated *e, const char *text) {
    static const char *const options[] = {"-fmad=false", NULL};
    const cuda_source source = {text, "random.cu", "sm_90"};
    char *cubin = NULL;
    void *module = NULL;
    size_t size;
    rp_error err = {0};
    CHECK_OK(cuda_compile(&e->nvrtc, &source, options, &cubin, &size, &err), &err);
    assert_int_equal(e->cu.module_load(&module, cubin), 0);
    base_free(cubin);
    return module;
}

/* Every case with a schedule of its own; elements that differ. */
static int run_cases(const emulated *e, uint64_t *seed) {
    sched_launch *launch = base_alloc_array(kir_n_cases, sizeof *launch);
    rp_error err = {0};
    base_buf text;
    int bad = 0;
    assert_non_null(launch);
    base_buf_init(&text, 0);
    gen_cuda_prelude(&text);
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        kir_func *f = kir_cases[i].make(kir_cases[i].name);
        sched *s = random_schedule(f, seed);
        CHECK_OK(gen_cuda_func(s, &text, &err), &err);
        launch[i] = s->launch;
        sched_free(s);
        kir_free(f);
    }
    void *module = load(e, text.data);
    for (uint32_t i = 0; i < kir_n_cases; i++)
        bad += kir_case_on_gpu(&kir_cases[i], &e->cu, module, &launch[i], 3, "random");
    assert_int_equal(e->cu.module_free(module), 0);
    base_buf_done(&text);
    base_free(launch);
    return bad;
}

static void random_schedules_equal_the_interpreter(void **state) {
    enum { N = 3 };
    uint64_t seed = 1;
    rp_error err = {0};
    emulated e;
    int bad = 0;
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    CHECK_OK(cuda_nvrtc_open(&e.nvrtc, NULL, &err), &err);
    CHECK_OK(cuda_driver_open(&e.cu, &err), &err);
    CHECK_OK(cuda_gpu_open(&e.cu, 0, 90, &e.gpu, &err), &err);
    for (int round = 0; round < N; round++) bad += run_cases(&e, &seed);
    cuda_gpu_close(&e.gpu);
    assert_int_equal(bad, 0);
    print_message("%u with rows in registers\n", n_rows);
    assert_true(n_rows > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules_equal_the_interpreter),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("sched_random", tests, NULL, NULL);
}
