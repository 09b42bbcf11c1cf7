/* The allocation door: counting, alignment, overflow, injected failure, threads. */
#include "support/check.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/arena.h"

static void counts_live_blocks(void **state) {
    (void)state;
    size_t before = base_live();
    char *a = base_alloc(10), *b = base_alloc_aligned(100, 64), *c = base_alloc(0);
    assert_int_equal(base_live(), before + 3);
    assert_non_null(c);
    for (int i = 0; i < 10; i++) assert_int_equal(a[i], 0);
    base_free(a);
    base_free(b);
    base_free(c);
    base_free(NULL);
    assert_int_equal(base_live(), before);
}

static void aligns(void **state) {
    (void)state;
    for (size_t align = 8; align <= 1 << 21; align *= 2) {
        unsigned char *p = base_alloc_aligned(1000, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
        memset(p, 0xee, 1000);
        base_free(p);
    }
}

static void refuses_overflow(void **state) {
    (void)state;
    size_t before = base_live(), out = 7;
    assert_null(base_alloc(SIZE_MAX));
    assert_null(base_alloc(SIZE_MAX - 8));
    assert_null(base_alloc_array(SIZE_MAX / 2, 3));
    assert_null(base_alloc_aligned(SIZE_MAX - 8, 64));
    assert_false(base_mul_size(SIZE_MAX, 2, &out));
    assert_false(base_add_size(SIZE_MAX, 1, &out));
    assert_int_equal(out, 7);
    char *p = base_strdup("kept");
    assert_null(base_realloc_array(p, SIZE_MAX / 2, 3));
    assert_string_equal(p, "kept");
    base_free(p);
    assert_int_equal(base_live(), before);
}

static void grows(void **state) {
    (void)state;
    size_t before = base_live();
    int *p = NULL;
    for (int n = 1; n < 3000; n++) {
        p = base_realloc_array(p, (size_t)n, sizeof *p);
        p[n - 1] = n;
    }
    for (int n = 1; n < 3000; n++) assert_int_equal(p[n - 1], n);
    assert_int_equal(base_live(), before + 1);
    base_free(p);
}

static void fails_the_nth(void **state) {
    (void)state;
    assert_false(base_alloc_fail_nth(3));
    void *a = base_alloc(1), *b = base_alloc_aligned(1, 128), *c = base_alloc(1),
         *d = base_alloc(1);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(c);
    assert_non_null(d);
    assert_true(base_alloc_fail_nth(1));
    assert_null(base_realloc_array(a, 100, 1));
    assert_true(base_alloc_fail_nth(0));
    base_free(a);
    base_free(b);
    base_free(d);
}

static void *churn(void *arg) {
    (void)arg;
    for (int i = 0; i < 20000; i++) base_free(base_alloc((size_t)i % 300));
    return NULL;
}

static void counts_across_threads(void **state) {
    (void)state;
    pthread_t t[4];
    size_t live = base_live();
    uint64_t calls = base_alloc_count();
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, churn, NULL), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(base_live(), live);
    assert_int_equal(base_alloc_count(), calls + 80000);
}

static void arena_hands_out_zeroed_aligned_bytes(void **state) {
    (void)state;
    size_t before = base_live();
    base_arena *a = base_arena_new();
    unsigned char *old[2000];
    size_t total = 0;
    for (size_t i = 0; i < 2000; i++) {
        size_t n = i * 7919 % 5000;
        old[i] = base_arena_alloc(a, n);
        assert_int_equal((uintptr_t)old[i] % 16, 0);
        for (size_t k = 0; k < n; k++) assert_int_equal(old[i][k], 0);
        memset(old[i], (int)(i % 251) + 1, n);
        total += n;
    }
    for (size_t i = 0; i < 2000; i++)
        for (size_t k = 0; k < i * 7919 % 5000; k++)
            assert_int_equal(old[i][k], i % 251 + 1); /* no two overlap */
    assert_int_equal(base_arena_used(a), total);
    assert_null(base_arena_array(a, SIZE_MAX / 2, 3));
    assert_null(base_arena_array(a, SIZE_MAX / 2 + 2, 2)); /* 2 bytes, by a product that wraps */
    assert_null(base_arena_alloc(a, SIZE_MAX - 3));
    base_arena_free(a);
    base_arena_free(NULL);
    assert_int_equal(base_live(), before);
}

static void arena_survives_each_failure(void **state) {
    (void)state;
    size_t before = base_live();
    int n_failed = 0;
    FOR_EACH_ALLOC_FAILURE (n) {
        base_arena *a = base_arena_new();
        bool ok = a != NULL;
        for (int i = 0; ok && i < 40; i++) ok = base_arena_alloc(a, 1000) != NULL;
        const char *text = ok ? base_arena_printf(a, "%d-%s", 42, "x") : NULL;
        if (text) assert_string_equal(text, "42-x");
        n_failed += !text;
        base_arena_free(a);
        assert_int_equal(base_live(), before);
    }
    assert_true(n_failed >= 5); /* arena, some chunks, the text's buffer */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_live_blocks),
        cmocka_unit_test(aligns),
        cmocka_unit_test(refuses_overflow),
        cmocka_unit_test(grows),
        cmocka_unit_test(fails_the_nth),
        cmocka_unit_test(counts_across_threads),
        cmocka_unit_test(arena_hands_out_zeroed_aligned_bytes),
        cmocka_unit_test(arena_survives_each_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
