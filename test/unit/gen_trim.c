/* The text in front of a unit's kernels: all that they need, nothing that they do not. */
#include "support/check.h"
#include "support/trees.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "gen/gen.h"
#include "gen/template.h"
#include "gen/trim.h"

static const char head[] = "#define TWICE(x) (one(x) * 2)\n"
                           "/* Of nobody. */\n"
                           "RP_INLINE float one(float x) { return x; }\n"
                           "RP_INLINE float two(float x)\n"
                           "{\n"
                           "    return deep(x); /* inner */\n"
                           "}\n"
                           "\n"
                           "/* Two\n"
                           " * lines. */\n"
                           "#ifdef FAST\n"
                           "RP_FN float deep(float x) { return x + 1; }\n"
                           "#else\n"
                           "RP_FN float deep(float x)\n"
                           "{\n"
                           "    return x;\n"
                           "}\n"
                           "#endif\n"
                           "typedef int word;\n"
                           "RP_NOINLINE void far(void) { far2(); }\n"
                           "RP_INLINE void far2(void) {}\n";

static char *trimmed(const char *text, const char *user) {
    rp_error err = {0};
    base_buf out;
    base_buf_init(&out, 0);
    CHECK_OK(gen_trim(base_str_of(text), base_str_of(user), &out, &err), &err);
    return base_buf_take(&out);
}

static void check(const char *user, const char *want) {
    char *got = trimmed(head, user);
    assert_string_equal(got, want);
    base_free(got);
}

#define ONE "#define TWICE(x) (one(x) * 2)\nRP_INLINE float one(float x) { return x; }\n"
#define FRAME(then, otherwise) \
    "#ifdef FAST\n" then "#else\n" otherwise "#endif\ntypedef int word;\n"

static void what_is_named_stays_with_what_it_names(void **state) {
    (void)state;
    check("float f(void) { return 1; }", ONE "\n" FRAME("", ""));
    check("two",
          ONE "RP_INLINE float two(float x)\n{\n    return deep(x); /* inner */\n}\n\n" FRAME(
              "RP_FN float deep(float x) { return x + 1; }\n",
              "RP_FN float deep(float x)\n{\n    return x;\n}\n"));
    check("twofar(); far_2; far2 ;", ONE "\n" FRAME("", "") "RP_INLINE void far2(void) {}\n");
    check("far", ONE "\n" FRAME("", "") "RP_NOINLINE void far(void) { far2(); }\n"
                                        "RP_INLINE void far2(void) {}\n");
    check("", ONE "\n" FRAME("", ""));
}

static void structs_and_templates_stay_with_what_names_them(void **state) {
    static const char types[] = "struct later;\n"
                                "template <class T>\n"
                                "struct alignas(sizeof(T) < 4 ? 4 : (16)) pair {\n"
                                "    T a, b;\n"
                                "};\n"
                                "struct empty {};\n"
                                "template <>\n"
                                "struct pair<int> : empty {\n"
                                "};\n"
                                "template <class T>\n"
                                "RP_CALL T first(const pair<T> &p);\n"
                                "RP_FN int ahead(void)\n"
                                "{\n"
                                "    return 1;\n"
                                "}\n"
                                "template <class T>\n"
                                "RP_CALL T first(const pair<T> &p) { return p.a; }\n"
                                "template <class T>\n"
                                "__device__ T of_nobody(T x);\n";
    static const char always[] = "struct later;\n"
                                 "template <class T>\n"
                                 "__device__ T of_nobody(T x);\n";
    (void)state;
    char *none = trimmed(types, "firsts"), *all = trimmed(types, "first ahead"),
         *one = trimmed(types, "empty");
    assert_string_equal(none, always);
    assert_string_equal(all, types);
    assert_non_null(strstr(one, "struct empty {};\n"));
    assert_null(strstr(one, "pair"));
    base_free(none);
    base_free(all);
    base_free(one);
}

static void nothing_of_nothing(void **state) {
    rp_error err = {0};
    base_buf out;
    (void)state;
    base_buf_init(&out, 0);
    CHECK_OK(gen_trim((base_str){0}, base_str_of("f"), &out, &err), &err);
    assert_int_equal(out.len, 0);
    base_buf_done(&out);
}

/* --- of real units ------------------------------------------------------------------- */

static char folder[128];

static int make_folder(void **state) {
    (void)state;
    return tree_make(folder, sizeof folder);
}

static int remove_folder(void **state) {
    (void)state;
    tree_remove(folder);
    return 0;
}

/* Units that name one function each must compile: a name that is missing would be declared implicitly. */
static void put_file(base_buf *script, const char *all, const char *name, size_t len) {
    char path[192], user[96];
    rp_error err = {0};
    base_buf text;
    (void)snprintf(path, sizeof path, "%s/%.*s.c", folder, (int)len, name);
    (void)snprintf(user, sizeof user, "void *rp_it(void) { return (void *)%.*s; }\n", (int)len,
                   name);
    base_buf_init(&text, 0);
    CHECK_OK(gen_trim(base_str_of(all), base_str_of(user), &text, &err), &err);
    assert_true(text.len < strlen(all) / 2);
    base_buf_puts(&text, user);
    CHECK_OK(base_file_write_atomic(path, text.data, text.len, &err), &err);
    base_buf_done(&text);
    base_buf_printf(script, " %s", path);
}

static void every_function_of_a_unit_stands_alone(void **state) {
    const gen_matmul_uses uses = {0};
    char *cc = base_find_program("cc");
    rp_error err = {0};
    uint32_t n = 0;
    int code = 0;
    base_buf all, script, out;
    (void)state;
    if (!cc) SKIP_TEST("no cc");
    base_buf_init(&all, 0);
    base_buf_init(&script, 0);
    base_buf_init(&out, 0);
    gen_c_prelude(GEN_ISA_PORTABLE, &all);
    gen_c_matmul(&uses, &all);
    base_buf_printf(&script,
                    "exec %s -std=gnu11 -w -Werror=implicit-function-declaration "
                    "-ffp-contract=off -fsyntax-only",
                    cc);
    for (const char *at = all.data; (at = strstr(at, "\nRP_")); at++) {
        const char *open = strchr(at, '('), *name = open;
        if (strncmp(at + 4, "INLINE", 6) != 0 && strncmp(at + 4, "FN", 2) != 0) continue;
        while (name[-1] == '_' || (name[-1] >= '0' && name[-1] <= '9') ||
               (name[-1] >= 'A' && name[-1] <= 'Z') || (name[-1] >= 'a' && name[-1] <= 'z'))
            name--;
        put_file(&script, all.data, name, (size_t)(open - name));
        n++;
    }
    assert_in_range(n, 60, 500);
    const char *argv[] = {"/bin/sh", "-c", script.data, NULL};
    CHECK_OK(base_spawn(argv, &out, &code, &err), &err);
    if (code != 0) fail_msg("%s", out.data);
    base_buf_done(&all);
    base_buf_done(&script);
    base_buf_done(&out);
    base_free(cc);
}

static void survives_lost_allocations(void **state) {
    const size_t live = base_live();
    rp_status st = RP_NOMEM;
    (void)state;
    for (uint64_t nth = 1; st != RP_OK; nth++) {
        rp_error err = {0};
        base_buf out;
        base_buf_init(&out, 0);
        base_alloc_fail_nth(nth);
        st = gen_trim(base_str_of(head), base_str_of("far two"), &out, &err);
        base_alloc_fail_nth(0);
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        if (st != RP_OK) assert_int_equal(out.len, 0);
        base_buf_done(&out);
        assert_int_equal(base_live(), live);
        assert_true(nth < 200);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_named_stays_with_what_it_names),
        cmocka_unit_test(structs_and_templates_stay_with_what_names_them),
        cmocka_unit_test(nothing_of_nothing),
        cmocka_unit_test(every_function_of_a_unit_stands_alone),
        cmocka_unit_test(survives_lost_allocations),
    };
    return cmocka_run_group_tests_name("gen_trim", tests, make_folder, remove_folder);
}
