/* Linking in memory: what is made of an object runs, and what only a linker can link is refused, damaged objects included. */
#include "support/check.h"
#include "support/trees.h"

#include <dlfcn.h>
#include <elf.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "compile/link.h"

static char folder[128];

/* Constants of several sections, data, zeros, calls within, a jump table or not, several functions. */
static const char whole[] =
    "static int n = 40, zero[100];\n"
    "static const double halves[] = {0.5, 1.5, 2.5};\n"
    "__attribute__((noinline)) static int add(int a) { return a + ++n + zero[a] + zero[99]; }\n"
    "int first(int a) { return add(a); }\n"
    "double second(int i, double by) { return halves[i] * by + 0.125; }\n"
    "const char *third(void) { return \"text\"; }\n"
    "__attribute__((visibility(\"hidden\"))) int hidden(int a) { return add(a); }\n";

static char *object_of(const char *text, const char *option, size_t *size) {
    char c[160], o[160], *object = NULL;
    rp_error err = {0};
    int code = -1;
    (void)snprintf(c, sizeof c, "%s/a.c", folder);
    (void)snprintf(o, sizeof o, "%s/a.o", folder);
    CHECK_OK(base_file_write_atomic(c, text, strlen(text), &err), &err);
    const char *const argv[] = {"cc", "-c", "-O1", "-fPIC", option, c, "-o", o, NULL};
    CHECK_OK(base_spawn(argv, NULL, &code, &err), &err);
    assert_int_equal(code, 0);
    CHECK_OK(base_file_read(o, 1 << 20, &object, size, &err), &err);
    return object;
}

static bool can_compile(void) {
    char *cc = base_find_program("cc");
    bool there = cc != NULL;
    base_free(cc);
#if !defined(__x86_64__)
    there = false;
#endif
    return there;
}

static void *symbol(void *code, const char *name) {
    return dlsym(code, name);
}

/* One bucket, whose chain has each name once and ends. */
static void check_chain(const char *image, uint32_t exports) {
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(image + sizeof(Elf64_Ehdr));
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)image;
    const Elf64_Dyn *dynamic = NULL;
    const uint32_t *hash = NULL;
    uint32_t n = 0, at;
    for (int i = 0; i < head->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = (const Elf64_Dyn *)(const void *)(image + segments[i].p_offset);
    assert_non_null(dynamic);
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_HASH)
            hash = (const uint32_t *)(const void *)(image + dynamic->d_un.d_ptr);
    assert_non_null(hash);
    assert_int_equal(hash[0], 1);
    assert_int_equal(hash[1], 1 + exports);
    for (at = hash[2]; at && n <= exports; n++) {
        assert_true(at <= exports);
        at = hash[3 + at];
    }
    assert_int_equal(n, exports);
    assert_int_equal(at, 0);
}

static void what_is_linked_runs(void **state) {
    static const char *const options[] = {"-O1", "-O2", "-g", "-fdata-sections", "-fcf-protection"};
    (void)state;
    if (!can_compile()) SKIP_TEST("no C compiler for x86-64");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char so[160];
        size_t size = 0;
        rp_error err = {0};
        base_buf out;
        int (*first)(int);
        double (*second)(int, double);
        const char *(*third)(void);
        char *object = object_of(whole, options[i], &size);
        base_buf_init(&out, 0);
        CHECK_OK(compile_link(object, size, &out, &err), &err);
        check_chain(out.data, 3);
        (void)snprintf(so, sizeof so, "%s/%zu.so", folder, i);
        CHECK_OK(base_file_write_atomic(so, out.data, out.len, &err), &err);
        void *code = dlopen(so, RTLD_NOW | RTLD_LOCAL);
        if (!code) fail_msg("%s: %s", options[i], dlerror());
        *(void **)&first = symbol(code, "first");
        *(void **)&second = symbol(code, "second");
        *(void **)&third = symbol(code, "third");
        assert_true(first && second && third && !symbol(code, "hidden") && !symbol(code, "add"));
        assert_int_equal(first(1), 42);
        assert_int_equal(first(1), 43);
        assert_true(second(2, 2.0) == 5.125);
        assert_string_equal(third(), "text");
        assert_int_equal(dlclose(code), 0);
        base_buf_done(&out);
        base_free(object);
    }
}

static void what_is_more_is_left_to_a_linker(void **state) {
    static const struct {
        const char *text, *option, *why;
    } cases[] = {
        {"int puts(const char *); int f(void) { return puts(\"\"); }", "-O1", "somebody else"},
        {"extern int there; int f(void) { return there; }", "-O1", "no distance"},
        {"static int a, b; int *t[] = {&a, &b}; int **f(void) { return t; }", "-O1", "linked here"},
        {"__thread int a; int f(void) { return a; }", "-O1", "linked here"},
        {"int a; __attribute__((constructor)) static void f(void) { a = 1; }", "-O1", "of its own"},
    };
    (void)state;
    if (!can_compile()) SKIP_TEST("no C compiler for x86-64");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = 0;
        rp_error err = {0};
        base_buf out;
        char *object = object_of(cases[i].text, cases[i].option, &size);
        base_buf_init(&out, 0);
        assert_int_equal(compile_link(object, size, &out, &err), RP_UNSUPPORTED);
        if (!strstr(err.text, cases[i].why)) fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(out.len, 0);
        base_buf_done(&out);
        base_free(object);
    }
}

/* Each end, and each byte turned: refused or linked, never read or written beyond. */
static void damaged_objects_do_no_harm(void **state) {
    size_t size = 0;
    (void)state;
    if (!can_compile()) SKIP_TEST("no C compiler for x86-64");
    char *object = object_of(whole, "-O1", &size);
    for (size_t i = 0; i < 2 * size; i++) {
        rp_error err = {0};
        base_buf out;
        size_t n = i < size ? i : size;
        char *copy = base_alloc(n + 1); /* of its own, so that a sanitizer sees its end */
        assert_non_null(copy);
        memcpy(copy, object, n);
        if (i >= size) copy[i - size] = (char)~copy[i - size];
        base_buf_init(&out, 0);
        rp_status st = compile_link(copy, n, &out, &err);
        if (st != RP_OK && st != RP_UNSUPPORTED && st != RP_NOMEM)
            fail_msg("byte %zu: %s", i, err.text);
        if (i < size && st == RP_OK) fail_msg("cut at %zu: linked", i);
        base_buf_done(&out);
        base_free(copy);
    }
    base_free(object);
}

/* References lie within the section that has them, however short it is. */
static void references_lie_within_their_section(void **state) {
    size_t size = 0;
    uint32_t n = 0;
    Elf64_Ehdr head;
    (void)state;
    if (!can_compile()) SKIP_TEST("no C compiler for x86-64");
    char *object = object_of(whole, "-O1", &size);
    memcpy(&head, object, sizeof head);
    for (uint32_t i = 1; i < head.e_shnum; i++) {
        Elf64_Shdr table, of;
        memcpy(&table, object + head.e_shoff + i * sizeof table, sizeof table);
        if (table.sh_type != SHT_RELA) continue;
        char *at = object + head.e_shoff + table.sh_info * sizeof of;
        memcpy(&of, at, sizeof of);
        if (!(of.sh_flags & SHF_EXECINSTR)) continue;
        for (uint64_t bytes = 0; bytes < 8; bytes++) {
            Elf64_Shdr shorter = of;
            rp_error err = {0};
            base_buf out;
            base_buf_init(&out, 0);
            shorter.sh_size = bytes;
            memcpy(at, &shorter, sizeof of);
            assert_int_equal(compile_link(object, size, &out, &err), RP_UNSUPPORTED);
            if (!strstr(err.text, "a reference out of bounds")) fail_msg("%s", err.text);
            base_buf_done(&out);
            n++;
        }
        memcpy(at, &of, sizeof of);
    }
    assert_true(n > 0);
    base_free(object);
}

static int set_up(void **state) {
    (void)state;
    return tree_make(folder, sizeof folder);
}

static int tear_down(void **state) {
    (void)state;
    tree_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_linked_runs),
                                       cmocka_unit_test(what_is_more_is_left_to_a_linker),
                                       cmocka_unit_test(damaged_objects_do_no_harm),
                                       cmocka_unit_test(references_lie_within_their_section)};
    return cmocka_run_group_tests_name("compile_link", tests, set_up, tear_down);
}
