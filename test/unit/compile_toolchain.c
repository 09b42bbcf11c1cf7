/* Which compiler there is, and what running it costs: nothing once the store knows that very program. */
#include "support/check.h"
#include "support/heard.h"
#include "support/trees.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "compile/toolchain.h"

static char folder[128], path[160];

static void install_script(const char *at, const char *text) {
    rp_error err = {0};
    CHECK_OK(base_file_write_atomic(at, text, strlen(text), &err), &err);
    assert_int_equal(chmod(at, 0700), 0);
}

static void install(const char *version) {
    char text[128];
    (void)snprintf(text, sizeof text, "#!/bin/sh\necho '%s'\necho 'Copyright'\n", version);
    install_script(path, text);
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

/* Compiles by the compiler and the linker in PATH; whether `ran` was written on the way. */
static bool compiles(cache_store *store, uint64_t key) {
    char ran[160], *so = NULL;
    rp_error err = {0};
    compile_toolchain t = {0};
    const base_hash128 id = {key, 0};
    (void)snprintf(ran, sizeof ran, "%s/bin/ran", folder);
    (void)unlink(ran);
    CHECK_OK(compile_toolchain_find(NULL, &t, &err), &err);
    CHECK_OK(
        compile_toolchain_run(&t, "int one(void) { return 1; }\n", gen_isa_best(), id, store, &err),
        &err);
    CHECK_OK(cache_get_code(store, id, GEN_ISA_BIT(gen_isa_best()), &so, &err), &err);
    base_free(so);
    compile_toolchain_done(&t);
    return access(ran, R_OK) == 0;
}

/* ld without the compiler's help, and the compiler where ld will not. */
static void the_linker_is_called_itself(void **state) {
    char cache[160], bin[160], ld[170], text[400], *real = base_find_program("ld");
    char *cc = base_find_program("cc"), *before = getenv("PATH"), *inside = NULL;
    cache_store *store = NULL;
    base_buf said;
    rp_error err = {0};
    (void)state;
    if (!real || !cc) SKIP_TEST("no cc or no ld in PATH");
    assert_true(asprintf(&before, "%s", before) > 0);
    (void)snprintf(cache, sizeof cache, "%s/linked", folder);
    (void)snprintf(bin, sizeof bin, "%s/bin", folder);
    (void)snprintf(ld, sizeof ld, "%s/ld", bin);
    assert_int_equal(mkdir(bin, 0700), 0);
    assert_true(asprintf(&inside, "%s:%s", bin, before) > 0);
    assert_int_equal(setenv("PATH", inside, 1) | setenv("REPRISE_CC", cc, 1), 0);
    CHECK_OK(cache_store_open(cache, &store, &err), &err);
    (void)snprintf(text, sizeof text,
                   "#!/bin/sh\n[ \"$1\" = -shared ] && : >%s/ran\nexec %s \"$@\"\n", bin, real);
    install_script(ld, text);
    assert_true(compiles(store, 1));
    (void)snprintf(text, sizeof text, "#!/bin/sh\n[ \"$1\" = -shared ] && exit 1\nexec %s \"$@\"\n",
                   real);
    install_script(ld, text);
    heard_start(&said, "");
    rp_log_set_level(RP_LOG_DEBUG);
    assert_false(compiles(store, 2));
    CHECK_HEARD(&said, " links, which takes longer: ");
    rp_log_set_level(RP_LOG_WARNING);
    heard_done(&said);
    cache_store_close(store);
    assert_int_equal(setenv("PATH", before, 1) | setenv("REPRISE_CC", path, 1), 0);
    free(inside);
    free(before);
    base_free(real);
    base_free(cc);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_program_is_asked_once),
                                       cmocka_unit_test(the_linker_is_called_itself)};
    return cmocka_run_group_tests_name("compile_toolchain", tests, set_up, tear_down);
}
