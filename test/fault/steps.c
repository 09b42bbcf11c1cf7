/* No allocation in a decode step after warm-up: neither at base's door nor at malloc's, whoever calls it. */
#include "support/check.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "support/engines.h"
#include "support/trees.h"

enum { N_REQUESTS = 5, WARM_UP = 4, COUNTED = 24 };

/* ---- malloc, counted -------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INTERPOSED false /* the sanitizer has taken malloc */
static _Atomic uint64_t n_mallocs;
#else
#define INTERPOSED true
static _Atomic uint64_t n_mallocs;
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n) {
    atomic_fetch_add(&n_mallocs, 1);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
    atomic_fetch_add(&n_mallocs, 1);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) {
    atomic_fetch_add(&n_mallocs, 1);
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n) {
    atomic_fetch_add(&n_mallocs, 1);
    return __libc_memalign(align, n);
}
#endif

static void the_count_counts(void **state) {
    (void)state;
    if (!INTERPOSED) SKIP_TEST("malloc belongs to the sanitizer; base's door is still counted");
    uint64_t before = atomic_load(&n_mallocs);
    void *volatile p = malloc(10);
    free(p);
    p = strdup("x"); /* from inside libc */
    free(p);
    assert_int_equal(atomic_load(&n_mallocs) - before, 2);
}

/* ---- steps ----------------------------------------------------------------------------------------------- */

static bool see_text(void *user, uint64_t id, const char *text, size_t len) {
    (void)id, (void)text;
    *(size_t *)user += len;
    return true;
}

static void submit(rp_engine *e, uint32_t i, size_t *seen) {
    static const char *const stops[] = {"a stop string that does not come"};
    static const char *const texts[] = {"short", "a longer prompt of words", "x",
                                        "\xe2\x82\xac and more", "the last of them"};
    rp_error err = {0};
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    uint64_t id;
    r.prompt = texts[i];
    r.raw = i & 1;
    r.max_tokens = WARM_UP + COUNTED + 12 + i;
    r.ignore_eos = true;
    r.stop = stops;
    r.n_stop = i & 1;
    r.on_text = see_text;
    r.user = seen;
    if (i >= 2)
        r.sampling = (rp_sampling){.temperature = 1.0, .top_p = 0.9, .top_k = 40, .seed = i};
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
}

static void check(const char *model, const char *const *how, const char *what) {
    rp_engine *e = engine_must(model, how);
    rp_error err = {0};
    size_t seen = 0;
    bool more = true;
    for (uint32_t i = 0; i < N_REQUESTS; i++) submit(e, i, &seen);
    for (int i = 0; i < WARM_UP; i++) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    uint64_t calls = base_alloc_count(), mallocs = atomic_load(&n_mallocs);
    for (int i = 0; i < COUNTED; i++) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    uint64_t more_calls = base_alloc_count() - calls,
             more_mallocs = atomic_load(&n_mallocs) - mallocs;
    assert_true(more);
    assert_true(seen > 0);
    if (more_calls || more_mallocs)
        fail_msg("%s: %d allocations (%d mallocs) in %d steps", what, (int)more_calls,
                 (int)more_mallocs, COUNTED);
    rp_engine_close(e);
}

static void decode_steps_allocate_nothing(void **state) {
    static const char *const modes[] = {"cudagraph_mode=FULL", "cudagraph_mode=PIECEWISE",
                                        "cudagraph_mode=FULL_AND_PIECEWISE",
                                        "cudagraph_mode=FULL_DECODE_ONLY", "cudagraph_mode=NONE"};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        check("synthetic:tiny",
              (const char *[]){"level=3", "max_num_seqs=8", "threads=2", modes[i], NULL}, modes[i]);
    check("synthetic:tiny", (const char *[]){"level=0", "max_num_seqs=8", "threads=1", NULL},
          "level 0");
}

static void decode_steps_of_the_real_model_allocate_nothing(void **state) {
    const char *path = getenv("REPRISE_TEST_MODEL");
    (void)state;
    if (!path) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
    check(path, (const char *[]){"max_num_seqs=8", "max_model_len=512", "threads=2", NULL}, path);
}

static int set_up(void **state) {
    (void)state;
    return setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_counts),
        cmocka_unit_test(decode_steps_allocate_nothing),
        cmocka_unit_test(decode_steps_of_the_real_model_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
