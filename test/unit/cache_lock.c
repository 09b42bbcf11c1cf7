/* One maker of an object: who gets the lock is told whether to look again. */
#include "support/check.h"
#include "support/trees.h"

#include "base/alloc.h"
#include "cache/store.h"

static const base_hash128 key = {7, 8};

static bool again_of(cache_store *s, cache_kind kind, base_lock **out) {
    const cache_lock_options o = {.kind = kind, .key = key};
    rp_error err = {0};
    bool again = false;
    CHECK_OK(cache_lock_take(s, &o, out, &again, &err), &err);
    return again;
}

/* What another made between the look and the lock is not made once more. */
static void what_is_there_by_now_is_looked_up_again(void **state) {
    static const cache_kind kinds[] = {CACHE_PLAN, CACHE_WEIGHTS, CACHE_TUNING, CACHE_CODE};
    rp_error err = {0};
    cache_store *s = NULL;
    base_lock *lock = NULL;
    char from[200], *at = NULL;
    (void)state;
    CHECK_OK(cache_store_open(tree_new("store"), &s, &err), &err);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_false(again_of(s, kinds[i], &lock));
        assert_non_null(lock);
        if (kinds[i] == CACHE_CODE) {
            const char *dir = tree_new("made");
            tree_write(dir, "k.so", "code", 4);
            (void)snprintf(from, sizeof from, "%s/k.so", dir);
            CHECK_OK(cache_put_code(s, key, 1, from, &at, &err), &err);
            base_free(at);
        } else {
            CHECK_OK(cache_put(s, kinds[i], key, "made", 4, &err), &err);
        }
        base_lock_drop(lock);
        assert_true(again_of(s, kinds[i], &lock));
        assert_non_null(lock);
        base_lock_drop(lock);
    }
    cache_store_close(s);
}

/* Where nothing can be put there is nothing to wait for. */
static void a_store_that_is_off_has_no_locks(void **state) {
    rp_error err = {0};
    cache_store *s = NULL;
    base_lock *lock = NULL;
    (void)state;
    CHECK_OK(cache_store_open(tree_new("store"), &s, &err), &err);
    cache_store_detach(s, "a test");
    assert_false(again_of(s, CACHE_PLAN, &lock));
    assert_null(lock);
    cache_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_by_now_is_looked_up_again),
        cmocka_unit_test(a_store_that_is_off_has_no_locks),
    };
    return cmocka_run_group_tests_name("cache_lock", tests, NULL, NULL);
}
