/* Memory of outputs that callers gave back to a GPU: what is kept, for whom, and how much of it. */
#include "autograph/memory.h"

#include "base/alloc.h"
#include "support/check.h"
#include "support/gpu.h"

static const char *why_not = "";

typedef struct fixture {
    rp_device *device;
    autograph_cache *cache;
} fixture;

static void open_cache(fixture *f, uint64_t most) {
    rp_error err = {0};
    if (why_not) SKIP_TEST("%s", why_not);
    CHECK_OK(rp_device_open("cuda:0", 1, &f->device, &err), &err);
    CHECK_OK(autograph_cache_new(f->device, most, &f->cache, &err), &err);
    assert_non_null(f->cache);
}

static void close_cache(fixture *f) {
    autograph_cache_close(f->cache);
    rp_device_close(f->device);
}

static autograph_memory *take(const fixture *f, size_t size) {
    autograph_memory *m = NULL;
    rp_error err = {0};
    CHECK_OK(autograph_cache_take(f->cache, f->device, size, &m, &err), &err);
    assert_true(m->size >= size);
    return m;
}

/* To whoever wants as much of the same power of two, and to nobody else. */
static void what_comes_back_goes_to_the_next(void **state) {
    fixture f;
    (void)state;
    open_cache(&f, 0);
    autograph_memory *m = take(&f, 1000);
    const void *at = m->data;
    const size_t kept = m->size;
    assert_int_equal(autograph_cache_bytes(f.cache), 0);
    autograph_memory_unref(autograph_memory_ref(m));
    assert_int_equal(autograph_cache_bytes(f.cache), 0); /* one reference is left */
    autograph_memory_unref(m);
    assert_int_equal(autograph_cache_bytes(f.cache), kept);
    autograph_memory *larger = take(&f, 1025);
    assert_ptr_not_equal(larger->data, at);
    assert_int_equal(autograph_cache_bytes(f.cache), kept);
    m = take(&f, 513);
    assert_ptr_equal(m->data, at);
    assert_int_equal(autograph_cache_bytes(f.cache), 0);
    autograph_memory_unref(m);
    autograph_memory_unref(larger);
    close_cache(&f);
}

static void give_back(const fixture *f, uint32_t n, size_t size) {
    autograph_memory *m[128];
    assert_true(n <= sizeof m / sizeof *m);
    for (uint32_t i = 0; i < n; i++) m[i] = take(f, size);
    for (uint32_t i = 0; i < n; i++) autograph_memory_unref(m[i]);
}

static void no_more_waits_than_the_limit(void **state) {
    fixture f;
    (void)state;
    open_cache(&f, 4096);
    give_back(&f, 10, 1024);
    assert_int_equal(autograph_cache_bytes(f.cache), 4096);
    give_back(&f, 1, 8192); /* more than all there may be */
    assert_int_equal(autograph_cache_bytes(f.cache), 4096);
    autograph_cache_limit(f.cache, 8192); /* nothing has to go */
    assert_int_equal(autograph_cache_bytes(f.cache), 4096);
    autograph_cache_limit(f.cache, 2048); /* all of it goes */
    assert_int_equal(autograph_cache_bytes(f.cache), 0);
    give_back(&f, 10, 1024);
    assert_int_equal(autograph_cache_bytes(f.cache), 2048);
    autograph_cache_limit(f.cache, 0); /* any */
    assert_int_equal(autograph_cache_bytes(f.cache), 2048);
    give_back(&f, 128, 1024);
    assert_int_equal(autograph_cache_bytes(f.cache), 64 * 1024); /* blocks have a number, too */
    close_cache(&f);
}

static void it_can_be_emptied(void **state) {
    fixture f;
    rp_device_info info = RP_DEVICE_INFO_INIT;
    rp_error err = {0};
    (void)state;
    open_cache(&f, 0);
    assert_false(autograph_cache_empty(f.cache));
    give_back(&f, 3, 5000);
    assert_true(autograph_cache_empty(f.cache));
    assert_int_equal(autograph_cache_bytes(f.cache), 0);
    CHECK_OK(rp_device_get_info(f.device, &info, &err), &err);
    assert_int_equal(info.allocated, 0);
    assert_false(autograph_cache_empty(f.cache));
    assert_false(autograph_cache_empty(NULL));
    close_cache(&f);
}

/* Memory of the host is reached by no kernel; nothing need not be. */
static void what_is_nowhere_needs_no_reach(void **state) {
    static float x[4];
    fixture f;
    rp_error err = {0};
    (void)state;
    open_cache(&f, 0);
    CHECK_OK(autograph_check_reached(f.device, NULL, "x", &err), &err);
    assert_int_equal(autograph_check_reached(f.device, x, "x", &err), RP_INVALID);
    assert_non_null(strstr(err.text, "x lies in memory of the host"));
    autograph_memory *m = take(&f, 64);
    CHECK_OK(autograph_check_reached(f.device, m->data, "x", &err), &err);
    autograph_memory_unref(m);
    close_cache(&f);
}

/* The manager is gone before its last output. */
static void what_is_held_outlives_it(void **state) {
    fixture f;
    (void)state;
    open_cache(&f, 0); /* what the first one makes stays */
    close_cache(&f);
    const size_t live = base_live();
    open_cache(&f, 0);
    autograph_memory *m = take(&f, 100);
    autograph_cache_close(f.cache);
    rp_device_close(f.device);
    autograph_memory_unref(m);
    assert_int_equal(base_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_back_goes_to_the_next),
        cmocka_unit_test(no_more_waits_than_the_limit),
        cmocka_unit_test(it_can_be_emptied),
        cmocka_unit_test(what_is_held_outlives_it),
        cmocka_unit_test(what_is_nowhere_needs_no_reach),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("autograph_cache", tests, NULL, NULL);
}
