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
#include "compile/steps.h"
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

/* A program that is there and cannot be started is named as that, and so is one that cannot start what it is to start. */
static void what_cannot_be_run_is_named(void **state) {
    char cache[160], want[240];
    rp_error err = {0};
    compile_toolchain t = {0};
    cache_store *store = NULL;
    (void)state;
    install_script(path, "#!/no/such/interpreter\n");
    assert_int_equal(compile_toolchain_find(NULL, &t, &err), RP_UNSUPPORTED);
    (void)snprintf(want, sizeof want, "%s cannot be run (exit 12", path);
    assert_ptr_equal(strstr(err.text, want), err.text);
    assert_non_null(strstr(err.text, "; set REPRISE_CC to a C compiler"));
    err = (rp_error){0};
    (void)snprintf(cache, sizeof cache, "%s/unrun", folder);
    CHECK_OK(cache_store_open(cache, &store, &err), &err);
    install_script(path, "#!/bin/sh\n[ \"$1\" = --version ] && echo cc 1 && exit\n"
                         "echo one: gone; exit 126\n");
    CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
    assert_int_equal(
        compile_toolchain_run(&t, "int one;\n", gen_isa_best(), (base_hash128){7, 0}, store, &err),
        RP_INTERNAL);
    (void)snprintf(want, sizeof want, "%s cannot be run (exit 126): one: gone; set", path);
    assert_ptr_equal(strstr(err.text, want), err.text);
    compile_toolchain_done(&t);
    cache_store_close(store);
}

/* What only a linker can link. */
static const char calls[] = "int puts(const char *);\nint one(void) { return puts(\"1\"); }\n";

/* Compiles by the compiler and the linker in PATH; whether `ran` was written on the way. */
static bool compiles(cache_store *store, uint64_t key) {
    char ran[160], *so = NULL;
    rp_error err = {0};
    compile_toolchain t = {0};
    const base_hash128 id = {key, 0};
    (void)snprintf(ran, sizeof ran, "%s/bin/ran", folder);
    (void)unlink(ran);
    CHECK_OK(compile_toolchain_find(NULL, &t, &err), &err);
    CHECK_OK(compile_toolchain_run(&t, calls, gen_isa_best(), id, store, &err), &err);
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

static void steps_are_read_as_they_are_said(void **state) {
    static const char lines[] = " /lib/x/cc1 -quiet -D \"A=1\" \"a b\\\"c\" reprise-unit.c -o -\n"
                                " as --64 -o reprise-unit.o\n";
    static const char *const flags[] = {"-O1", "-mavx2", NULL};
    static const char *const want[] = {"/lib/x/cc1", "-quiet", "-D",  "A=1",    "a b\"c", "/t/1.c",
                                       "-o",         "-",      "-O1", "-mavx2", NULL};
    static const char *const then[] = {"as", "--64", "-o", "/t/1.o", NULL};
    compile_steps s;
    (void)state;
    assert_true(compile_steps_make(lines, flags, "/t/1.c", "/t/1.o", &s));
    for (size_t i = 0; want[i]; i++) assert_string_equal(s.compiler[i], want[i]);
    assert_null(s.compiler[sizeof want / sizeof *want - 1]);
    for (size_t i = 0; then[i]; i++) assert_string_equal(s.assembler[i], then[i]);
    assert_null(s.assembler[4]);
    compile_steps_done(&s);
    assert_false(compile_steps_make(" cc1 a.c\n", flags, "a", "b", &s));
    compile_steps_done(&s);
    char many[1024] = " cc1";
    for (int i = 0; i < COMPILE_STEPS_ARGS; i++) (void)strcat(many, " -x");
    (void)strcat(many, "\n as\n");
    assert_false(compile_steps_make(many, flags, "a", "b", &s));
    compile_steps_done(&s);
}

/* Both programs are there, or there are no steps to take. */
static void steps_need_both_programs(void **state) {
    static const struct {
        const char *lines;
        bool there;
    } is[] = {{"", true},
              {" /bin/sh -c\n sh -c\n", true},
              {" /bin/sh -c\n /bin/no-such-as -c\n", false},
              {" /bin/no-such-cc1 -c\n sh -c\n", false},
              {" /bin/no-such-cc1 -c\n no-such-as -c\n", false},
              {" /bin/sh -c", false},
              {"\n sh -c\n", false}};
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++)
        if (compile_steps_there(is[i].lines) != is[i].there) fail_msg("'%s'", is[i].lines);
}

/* A program by that name is, wherever it lies; others and scripts are not started to be asked. */
static void only_a_gcc_is_asked_for_its_steps(void **state) {
    static const struct {
        const char *name;
        bool script;
        uint64_t runs;
    } cases[] = {{"gcc-12/clang", false, 0},
                 {"bin/x86_64-linux-gnu-gcc-12", false, 1},
                 {"bin/gcc", true, 0},
                 {"bin/cc", false, 0}};
    rp_error err = {0};
    char *program = NULL, at[192];
    size_t size = 0;
    (void)state;
    CHECK_OK(base_file_read("/bin/true", 1 << 24, &program, &size, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *said = NULL;
        (void)snprintf(at, sizeof at, "%s/asked/%s", folder, i == 0 ? "gcc-12" : "bin");
        CHECK_OK(base_dir_make(at, &err), &err);
        (void)snprintf(at, sizeof at, "%s/asked/%s", folder, cases[i].name);
        if (cases[i].script)
            install_script(at, "#!/bin/sh\n");
        else
            CHECK_OK(base_file_write_atomic(at, program, size, &err), &err);
        assert_int_equal(chmod(at, 0700), 0);
        uint64_t before = base_spawn_count();
        CHECK_OK(compile_steps_ask(at, &said, &err), &err);
        if (base_spawn_count() - before != cases[i].runs)
            fail_msg("%s: %d runs", at, (int)(base_spawn_count() - before));
        assert_string_equal(said, "");
        base_free(said);
    }
    base_free(program);
}

/* gcc is not started where what it would start is known; what it starts gives the same object. Where that fails, it is. */
static void gcc_is_asked_once_for_its_steps(void **state) {
    char cache[160], *gcc = base_find_program("gcc");
    cache_store *store = NULL;
    compile_toolchain t = {0};
    rp_error err = {0};
    base_buf said;
    (void)state;
    if (!gcc) SKIP_TEST("no gcc in PATH");
    (void)snprintf(cache, sizeof cache, "%s/steps", folder);
    assert_int_equal(setenv("REPRISE_CC", gcc, 1), 0);
    CHECK_OK(cache_store_open(cache, &store, &err), &err);
    uint64_t before = base_spawn_count();
    CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
    if (!*t.steps) SKIP_TEST("this gcc is a script, or says something else");
    assert_int_equal(base_spawn_count(), before + 2);
    compile_toolchain_done(&t);
    CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
    assert_int_equal(base_spawn_count(), before + 2);
    char fails[4096];
    (void)snprintf(fails, sizeof fails, "%.*s\n false\n", (int)strcspn(t.steps, "\n"), t.steps);
    const char *const both[] = {t.steps, " no-such-program\n as\n", fails};
    char *code[3] = {NULL, NULL, NULL};
    size_t size[3] = {0, 0, 0};
    heard_start(&said, "");
    rp_log_set_level(RP_LOG_DEBUG);
    for (int i = 0; i < 3; i++) {
        const base_hash128 id = {77, (uint64_t)i};
        char *so = NULL;
        compile_toolchain used = t;
        used.steps = (char *)(uintptr_t)both[i];
        before = base_spawn_count();
        CHECK_OK(compile_toolchain_run(&used, "int one(void) { return 1; }\n", gen_isa_best(), id,
                                       store, &err),
                 &err);
        if (i == 0) assert_int_equal(base_spawn_count(), before + 2); /* cc1 and as */
        CHECK_OK(cache_get_code(store, id, GEN_ISA_BIT(gen_isa_best()), &so, &err), &err);
        CHECK_OK(base_file_read(so, 1 << 20, &code[i], &size[i], &err), &err);
        base_free(so);
    }
    CHECK_HEARD(&said, " compiles, which takes longer: no program 'no-such-program' in PATH");
    /* of two it names the one that failed */
    CHECK_HEARD(&said, " compiles, which takes longer: false failed on generated code (exit 1): ");
    rp_log_set_level(RP_LOG_WARNING);
    heard_done(&said);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(size[0], size[i]);
        assert_memory_equal(code[0], code[i], size[0]);
        if (i) base_free(code[i]);
    }
    base_free(code[0]);
    compile_toolchain_done(&t);
    cache_store_close(store);
    base_free(gcc);
    assert_int_equal(setenv("REPRISE_CC", path, 1), 0);
}

/* A gcc that looks for its programs elsewhere, or whose programs are gone, is asked again. */
static void gcc_is_asked_again_for_its_steps(void **state) {
    char at[160], cc1[192], *gcc = base_find_program("gcc"), *plain = NULL;
    cache_store *store = NULL;
    compile_toolchain t = {0};
    compile_steps s;
    rp_error err = {0};
    static const struct {
        int spawned;
        bool elsewhere, gone;
    } finds[] = {{2, true, false}, {0, true, false}, {2, false, true}, {0, false, false}};
    (void)state;
    if (!gcc) SKIP_TEST("no gcc in PATH");
    (void)snprintf(at, sizeof at, "%s/again", folder);
    assert_int_equal(setenv("REPRISE_CC", gcc, 1) | unsetenv("COMPILER_PATH"), 0);
    CHECK_OK(cache_store_open(at, &store, &err), &err);
    CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
    if (!*t.steps) SKIP_TEST("this gcc is a script, or says something else");
    assert_non_null(plain = base_strdup(t.steps));
    assert_true(compile_steps_make(plain, (const char *const[]){NULL}, "a.c", "a.o", &s));
    compile_toolchain_done(&t);
    (void)snprintf(at, sizeof at, "%s/elsewhere", folder);
    (void)snprintf(cc1, sizeof cc1, "%s/cc1", at);
    assert_int_equal(mkdir(at, 0700) | symlink(s.compiler[0], cc1), 0);
    assert_int_equal(setenv("COMPILER_PATH", at, 1), 0);
    for (size_t i = 0; i < sizeof finds / sizeof *finds; i++) {
        if (finds[i].gone) assert_int_equal(unlink(cc1), 0);
        const uint64_t before = base_spawn_count();
        CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
        assert_int_equal(base_spawn_count() - before, finds[i].spawned);
        assert_int_equal(strstr(t.steps, cc1) != NULL, finds[i].elsewhere);
        compile_toolchain_done(&t);
    }
    assert_int_equal(unsetenv("COMPILER_PATH"), 0);
    const uint64_t before = base_spawn_count();
    CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
    assert_int_equal(base_spawn_count(), before);
    assert_string_equal(t.steps, plain);
    compile_toolchain_done(&t);
    compile_steps_done(&s);
    cache_store_close(store);
    base_free(plain);
    base_free(gcc);
    assert_int_equal(setenv("REPRISE_CC", path, 1), 0);
}

/* Code that could not be kept is compiled again by the same process: nothing of the first time is in the way. */
static void a_unit_that_was_not_kept_is_made_again(void **state) {
    char *cc = base_find_program("cc"), *so = NULL;
    cache_store *store = NULL;
    compile_toolchain t = {0};
    rp_error err = {0};
    (void)state;
    if (!cc) SKIP_TEST("no cc in PATH");
    assert_int_equal(setenv("REPRISE_CC", cc, 1), 0);
    assert_int_equal(setenv("REPRISE_DISABLE_COMPILE_CACHE", "1", 1), 0);
    CHECK_OK(cache_store_open(folder, &store, &err), &err);
    assert_int_equal(unsetenv("REPRISE_DISABLE_COMPILE_CACHE"), 0);
    CHECK_OK(compile_toolchain_find(NULL, &t, &err), &err);
    const gen_isa isa = gen_isa_best();
    static const char text[] = "int one(void) { return 1; }\n";
    CHECK_OK(compile_toolchain_run(&t, text, isa, (base_hash128){6, 0}, store, &err), &err);
    CHECK_OK(cache_get_code(store, (base_hash128){6, 0}, GEN_ISA_BIT(isa), &so, &err), &err);
    *strrchr(so, '/') = 0; /* the folder that this store keeps code in */
    tree_remove(so);
    CHECK_OK(base_file_write(so, "", 0, &err), &err);
    assert_int_not_equal(compile_toolchain_run(&t, text, isa, (base_hash128){6, 1}, store, &err),
                         RP_OK);
    assert_int_equal(unlink(so) | mkdir(so, 0700), 0);
    err = (rp_error){0};
    CHECK_OK(compile_toolchain_run(&t, text, isa, (base_hash128){6, 1}, store, &err), &err);
    base_free(so);
    compile_toolchain_done(&t);
    cache_store_close(store);
    base_free(cc);
    assert_int_equal(setenv("REPRISE_CC", path, 1), 0);
}

/* What is wrong with a text is said by the compiler, whichever way it is called. */
static void a_wrong_text_is_told(void **state) {
    char cache[160], *gcc = base_find_program("gcc");
    cache_store *store = NULL;
    compile_toolchain t = {0};
    rp_error err = {0};
    (void)state;
    if (!gcc) SKIP_TEST("no gcc in PATH");
    (void)snprintf(cache, sizeof cache, "%s/wrong", folder);
    assert_int_equal(setenv("REPRISE_CC", gcc, 1), 0);
    CHECK_OK(cache_store_open(cache, &store, &err), &err);
    CHECK_OK(compile_toolchain_find(store, &t, &err), &err);
    assert_int_equal(compile_toolchain_run(&t, "int one(void) { return two; }\n", gen_isa_best(),
                                           (base_hash128){5, 5}, store, &err),
                     RP_INTERNAL);
    if (!strstr(err.text, "error: ") || !strstr(err.text, "two")) fail_msg("%s", err.text);
    compile_toolchain_done(&t);
    cache_store_close(store);
    base_free(gcc);
    assert_int_equal(setenv("REPRISE_CC", path, 1), 0);
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
                                       cmocka_unit_test(what_cannot_be_run_is_named),
                                       cmocka_unit_test(the_linker_is_called_itself),
                                       cmocka_unit_test(steps_are_read_as_they_are_said),
                                       cmocka_unit_test(steps_need_both_programs),
                                       cmocka_unit_test(only_a_gcc_is_asked_for_its_steps),
                                       cmocka_unit_test(gcc_is_asked_once_for_its_steps),
                                       cmocka_unit_test(gcc_is_asked_again_for_its_steps),
                                       cmocka_unit_test(a_unit_that_was_not_kept_is_made_again),
                                       cmocka_unit_test(a_wrong_text_is_told)};
    return cmocka_run_group_tests_name("compile_toolchain", tests, set_up, tear_down);
}
