/* A decode step allocates nothing: malloc and its kin are defined here, in front of the C library's, and each step
 * of the engine is looked at alone. Text is asked for, so that detokenising is part of the step.
 * Not checked: steps in which a request starts or ends. */
#include "support/check.h"

#include <errno.h>
#include <stdatomic.h>

#include "reprise/reprise.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTED 0
static atomic_ullong calls;
#else
#define COUNTED 1
static atomic_ullong calls;
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n) {
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(align, n);
}
int posix_memalign(void **out, size_t align, size_t n) {
    atomic_fetch_add(&calls, 1);
    *out = __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}
#endif

enum { WARM_UP = 8, STEPS = 100, MAX_REQUESTS = 4 };

static bool take_text(void *user, uint64_t id, const char *text, size_t len) {
    (void)id, (void)text;
    *(size_t *)user += len;
    return true;
}

/* Allocations in each of STEPS decode steps of n requests; the first that has any fails the test. */
static void decode(const char *model, const char *config, uint32_t n) {
    static const char *const stops[] = {"a stop string that does not come"};
    rp_error err = {0};
    rp_engine *e = NULL;
    size_t text = 0;
    bool more = true;
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = model;
    o.config = rp_config_new();
    assert_non_null(o.config);
    CHECK_OK(rp_config_set_json(o.config, config, &err), &err);
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        int32_t ids[16];
        uint64_t id;
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        for (uint32_t k = 0; k < 5 + 3 * i; k++) ids[k] = (int32_t)(40 + (i * 17 + k * 7) % 80);
        r.prompt_ids = ids;
        r.n_prompt_ids = 5 + 3 * i;
        r.max_tokens = WARM_UP + STEPS + 20;
        r.ignore_eos = true;
        r.on_text = take_text;
        r.user = &text;
        if (i & 1) { /* the other ways to choose and to stop */
            r.stop = stops;
            r.n_stop = 1;
            r.sampling = (rp_sampling){
                .temperature = 1.0, .top_p = 0.9, .min_p = 0.01, .top_k = 40, .seed = i};
        }
        CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    }
    for (int step = 0; step < WARM_UP + STEPS; step++) {
        unsigned long long before = atomic_load(&calls);
        CHECK_OK(rp_engine_step(e, &more, &err), &err);
        unsigned long long made = atomic_load(&calls) - before;
        if (step >= WARM_UP && made != 0)
            fail_msg("%s %s: step %d of %u requests allocates %llu times", model, config, step, n,
                     made);
    }
    assert_true(more && text > 0);
    rp_engine_close(e);
}

static void needs_counting(void) {
    if (!COUNTED) SKIP_TEST("the sanitizer or the C library has a malloc of its own");
}

static void counter_counts(void **state) {
    (void)state;
    needs_counting();
    unsigned long long before = atomic_load(&calls);
    void *volatile p = malloc(10);
    void *volatile q = realloc(p, 1000);
    free(q);
    assert_int_equal(atomic_load(&calls) - before, 2);
}

static void each_mode(void **state) {
    static const char *const config[] = {
        "{\"level\": 3, \"cudagraph_mode\": \"FULL_AND_PIECEWISE\"}",
        "{\"level\": 3, \"cudagraph_mode\": \"FULL\"}",
        "{\"level\": 3, \"cudagraph_mode\": \"FULL_DECODE_ONLY\"}",
        "{\"level\": 3, \"cudagraph_mode\": \"PIECEWISE\"}",
        "{\"level\": 3, \"cudagraph_mode\": \"NONE\"}",
        "{\"level\": 0}",
    };
    (void)state;
    needs_counting();
    for (size_t i = 0; i < sizeof config / sizeof *config; i++)
        decode("synthetic:tiny", config[i], 1);
}

static void several_requests(void **state) {
    (void)state;
    needs_counting();
    decode("synthetic:tiny", "{\"level\": 3, \"cudagraph_mode\": \"FULL_AND_PIECEWISE\"}",
           MAX_REQUESTS);
}

static void real_model(void **state) {
    const char *model = getenv("REPRISE_TEST_MODEL");
    (void)state;
    needs_counting();
    if (!model) SKIP_TEST("the model cannot be had");
    decode(model, "{\"level\": 3, \"cudagraph_mode\": \"FULL_AND_PIECEWISE\"}", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counter_counts),
        cmocka_unit_test(each_mode),
        cmocka_unit_test(several_requests),
        cmocka_unit_test(real_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
