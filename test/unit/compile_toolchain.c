/* Which compiler there is, and what running it costs: nothing once the store knows that very program. */
#include "support/check.h"
#include "support/trees.h"

#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "compile/toolchain.h"

static char folder[128], path[160];

static void install(const char *version) {
    rp_error err = {0};
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "#!/bin/sh\necho '%s'\necho 'Copyright'\n", version);
    CHECK_OK(base_file_write_atomic(path, b.data, b.len, &err), &err);
    assert_int_equal(chmod(path, 0700), 0);
    base_buf_done(&b);
}

/* Finds it; how often it was run. */
static uint64_t find(cache_store *store, const char *version, gen_cc_family family) {
    const uint64_t before = base_spawn_count();
    rp_error err = {0};
    compile_toolchain t = {0};
    CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
    assert_string_equal(t.path, path);
    assert_string_equal(t.version, version);
    assert_int_equal(t.family, family);
    compile_toolchain_done(&t);
    return base_spawn_count() - before;
}

static void a_program_is_asked_once(void **state) {
    char cache[160];
    rp_error err = {0};
    cache_store *store = NULL;
    (void)state;
    (void)snprintf(cache, sizeof cache, "%s/cache", folder);
    CHECK_OK(cache_store_open(cache, &store, &err), &err);
    install("mycc 1.2");
    assert_int_equal(find(store, "mycc 1.2", GEN_CC_GCC), 1);
    assert_int_equal(find(store, "mycc 1.2", GEN_CC_GCC), 0);
    assert_int_equal(find(NULL, "mycc 1.2", GEN_CC_GCC), 1);
    install("Debian clang version 14");
    assert_int_equal(find(store, "Debian clang version 14", GEN_CC_CLANG), 1);
    assert_int_equal(find(store, "Debian clang version 14", GEN_CC_CLANG), 0);
    cache_store_close(store);
}

static int set_up(void **state) {
    (void)state;
    if (tree_make(folder, sizeof folder) != 0) return -1;
    (void)snprintf(path, sizeof path, "%s/mycc", folder);
    return setenv("REPRISE_CC", path, 1);
}

static int tear_down(void **state) {
    (void)state;
    tree_remove(folder);
    return unsetenv("REPRISE_CC");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_program_is_asked_once)};
    return cmocka_run_group_tests_name("compile_toolchain", tests, set_up, tear_down);
}
