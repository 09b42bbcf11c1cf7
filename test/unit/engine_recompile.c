/* Why a model is compiled again: told whole, or not at all. */
#include "support/heard.h"

#include "base/alloc.h"
#include "engine/recompile.h"
#include "support/stored_plan.h"
#include "support/trees.h"

static cache_key *key_of(const char *rows) {
    cache_key *k = cache_key_new();
    rp_error err = {0};
    assert_non_null(k);
    CHECK_OK(cache_key_add(k, "model", "m", &err), &err);
    CHECK_OK(cache_key_add(k, "rows", rows, &err), &err);
    return k;
}

/* Told with lines of so many plans, or with none: the first says that code is compiled, the others are farther. */
static uint32_t lines_told(engine_recompile *r) {
    base_buf heard;
    uint32_t n = 0;
    heard_start(&heard, "+recompiles");
    engine_recompile_tell(r, true);
    for (const char *at = heard.data; at && (at = strstr(at, "plan ")) != NULL; at++) n++;
    heard_done(&heard);
    return n;
}

/* Comparing fails at every allocation once, also when some plans are compared already. */
static void half_a_comparison_is_not_told(void **state) {
    enum { PLANS = 6 };
    rp_error err = {0};
    uint64_t failures = 0;
    engine_plans counts = {0};
    engine_plans_options o = {0};
    model_source *source = NULL;
    char rows[120];
    (void)state;
    memset(rows, '7', sizeof rows);
    rows[sizeof rows - 1] = 0;
    CHECK_OK(cache_store_open(tree_new("plans"), &o.store, &err), &err);
    for (int i = 0; i < PLANS; i++) {
        rows[0] = (char)('a' + i);
        store_plan(o.store, key_of(rows));
    }
    CHECK_OK(model_source_open_synthetic("synthetic:tiny", &source, &err), &err);
    o.source = source;
    cache_key *k = key_of("8");
    const size_t live = base_live();
    for (bool failed = true; failed;) {
        engine_recompile r = {.o = &o, .out = &counts};
        base_buf_init(&r.why, 0);
        (void)base_alloc_fail_nth(failures + 1);
        engine_recompile_find(&r, k);
        failed = base_alloc_fail_nth(0);
        assert_int_equal(lines_told(&r), failed ? 0 : PLANS);
        base_buf_done(&r.why);
        assert_int_equal(base_live(), live);
        failures += failed;
    }
    assert_true(failures > PLANS);
    assert_int_equal(counts.recompiles, 1);
    cache_key_free(k);
    model_source_free(source);
    cache_store_close(o.store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(half_a_comparison_is_not_told)};
    return cmocka_run_group_tests_name("unit/engine_recompile", tests, NULL, NULL);
}
