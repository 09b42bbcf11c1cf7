/* A folder to compile in is made when something is compiled, not where all of it is stored. */
#include "support/check.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "reprise/reprise.h"
#include "support/trees.h"

/* x * factor + 1 over four elements, by a cache of its own. */
static rp_compiled_info compiled(double factor, const char *cache) {
    char setting[4200];
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    float in[4] = {1, 2, 3, 4}, out[4];
    rp_buffer from = {RP_DTYPE_F32, 1, {4}, in}, to = {RP_DTYPE_F32, 1, {4}, out};
    rp_graph *g = rp_graph_new("line");
    rp_tensor y = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
    rp_compilation_config *cfg = rp_config_new();
    y = rp_add_scalar(rp_mul_scalar(y, factor), 1);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    (void)snprintf(setting, sizeof setting, "cache_dir=%s", cache);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    assert_string_equal(info.backend, "inductor");
    assert_null(info.reason);
    CHECK_OK(rp_compiled_run(c, &from, 1, &to, 1, &err), &err);
    for (int i = 0; i < 4; i++) assert_true(out[i] == (float)(in[i] * factor + 1));
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return info;
}

/* Each folder that is made in dir, or taken away, moves its time. */
static void what_is_stored_needs_none(void **state) {
    const char *dir = tree_new("tmp"), *cache = tree_new("cache");
    char *usual = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    struct stat info;
    (void)state;
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    for (int warm = 0; warm < 2; warm++) {
        assert_int_equal(utimensat(AT_FDCWD, dir, old, 0), 0);
        assert_int_equal(compiled(4, cache).compiles, warm ? 0 : 1);
        assert_int_equal(stat(dir, &info), 0);
        if (warm)
            assert_int_equal(info.st_mtime, 1000);
        else
            assert_int_not_equal(info.st_mtime, 1000);
    }
    (void)(usual ? setenv("TMPDIR", usual, 1) : unsetenv("TMPDIR"));
    free(usual);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_stored_needs_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
