/* What passes found, from one process to the next. */
#include "support/check.h"
#include "support/trees.h"

#include "compile/compile.h"
#include "engine/passes.h"

static const base_hash128 key = {1, 2};

static cache_store *open_store(void) {
    cache_store *s = NULL;
    rp_error err = {0};
    CHECK_OK(cache_store_open(tree_new("cache"), &s, &err), &err);
    return s;
}

static void put(pass_counts *c, const char *name, uint32_t matches) {
    pass_count *one = pass_count_of(c, name);
    assert_non_null(one);
    one->matches = matches;
}

/* Of the library's passes, and of ops that were lowered to others. */
static void counts_are_kept(void **state) {
    uint32_t n;
    rp_error err = {0};
    pass_counts before = {.n = 0}, after = {.n = 0};
    (void)state;
    cache_store *s = open_store();
    const pass_info *own = pass_table(&n);
    assert_true(n > 1);
    put(&before, own[0].name, 7);
    put(&before, COMPILE_LOWERED_OPS, 3);
    put(&before, own[n - 1].name, 1u << 31);
    CHECK_OK(engine_passes_store(s, key, &before, &err), &err);
    put(&after, own[1].name, 9); /* is not of this model */
    engine_passes_load(s, key, &after);
    assert_int_equal(after.n, before.n);
    for (uint32_t i = 0; i < before.n; i++) {
        assert_string_equal(after.of[i].name, before.of[i].name);
        assert_int_equal(after.of[i].matches, before.of[i].matches);
    }
    assert_false(engine_passes_failed(&after));
    after.of[after.n - 1].failures = 1;
    assert_true(engine_passes_failed(&after));
    cache_store_close(s);
}

static void what_nobody_is_called_is_left_out(void **state) {
    uint32_t n;
    char text[256];
    rp_error err = {0};
    pass_counts c = {.n = 0};
    (void)state;
    cache_store *s = open_store();
    const char *name = pass_table(&n)[0].name;
    put(&c, name, 5);
    engine_passes_load(s, key, &c); /* there is none */
    assert_int_equal(c.n, 0);
    (void)snprintf(text, sizeof text, "nobody 3\n\n%s\n%s 4", name, name);
    CHECK_OK(cache_put_text(s, key, "passes", text, &err), &err);
    engine_passes_load(s, key, &c);
    assert_int_equal(c.n, 1);
    assert_string_equal(c.of[0].name, name);
    assert_int_equal(c.of[0].matches, 4);
    cache_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_kept),
        cmocka_unit_test(what_nobody_is_called_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
