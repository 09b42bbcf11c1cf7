/* File tests of kernel IR: test/kir, test/gen and test/sched.
 *
 * A file starts with `; test COMMAND` lines; behind the function stands, for each command, a line
 * `; --- COMMAND` and what it must give:
 *   cat    the printed form          error  what parser or verifier says
 *   c      host C of the function    cuda   its CUDA C (compiled elsewhere)
 *   item-N                           one item of it in a kernel of N threads
 *   cpu-schedule, cuda-schedule      what the rules of the target make of it
 * Where a schedule stands behind the function:
 *   schedule  the printed form       refused  what parser or verifier says
 *   render    the text that it gives
 * c also compiles what it prints. BLESS=1 rewrites the files. */
#include "support/check.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "support/comma.h"
#include "support/render.h"

#define MARK "; --- "

typedef struct run {
    const char *folder;
    int files, bad;
} run;

/* The text must be C that a compiler takes. */
static rp_status compiles(const base_buf *text, const char *name, rp_error *err) {
    char path[128];
    const char *argv[] = {"cc", "-w", "-Werror=implicit-function-declaration", "-fsyntax-only",
                          path, NULL};
    base_buf unit, said;
    int code = 0;
    rp_status st;

    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/kir-files-%d.c", tmp ? tmp : "/tmp", (int)getpid());
    base_buf_init(&unit, 0);
    base_buf_init(&said, 4096);
    gen_c_prelude(GEN_ISA_PORTABLE, &unit);
    base_buf_add(&unit, text->data, text->len);
    RP_TRY_OUT(base_file_write_atomic(path, unit.data, unit.len, err));
    RP_TRY_OUT(base_spawn(argv, &said, &code, err));
    if (code) st = rp_fail(err, RP_INVALID, "%s does not compile: %.300s", name, said.data);
out:
    if (base_path_remove(path, NULL) != RP_OK) st = RP_IO;
    base_buf_done(&unit);
    base_buf_done(&said);
    return st;
}

/* Of the target's rules; that it reads back is checked on the way. */
static rp_status print_schedule(const sched_target *t, const kir_func *f, base_buf *out,
                                rp_error *err) {
    sched *s = NULL, *again = NULL;
    base_buf text;
    rp_status st = RP_OK;
    base_buf_init(&text, 0);
    RP_TRY_OUT(sched_make(t, f, &s, err));
    sched_print(s, out);
    RP_TRY_OUT(sched_parse(out->data, out->len, &again, err));
    sched_print(again, &text);
    if (strcmp(text.data, out->data) != 0)
        st = rp_fail(err, RP_INVALID, "%s reads back as\n%s", f->name, text.data);
out:
    base_buf_done(&text);
    sched_free(s);
    sched_free(again);
    return st;
}

/* Commands on a function with its schedule. *known: it is one. */
static rp_status run_scheduled(const char *command, const char *text, size_t len, base_buf *out,
                               bool *known, rp_error *err) {
    bool refused = strcmp(command, "refused") == 0, print = strcmp(command, "schedule") == 0;
    sched *s = NULL;
    rp_error why = {0};
    *known = refused || print || strcmp(command, "render") == 0;
    if (!*known) return RP_OK;
    rp_status st = sched_parse(text, len, &s, &why);
    if (refused) {
        base_buf_printf(out, "%s\n", st == RP_OK ? "accepted" : why.text);
        st = RP_OK;
    } else if (st != RP_OK) {
        (void)rp_fail(err, st, "%s", why.text);
    } else if (print) {
        sched_print(s, out);
    } else {
        st = gen_func(s, out, err);
    }
    sched_free(s);
    return st;
}

/* Of "cpu-schedule"; NULL: the command is another one. */
static const sched_target *target_of(const char *command) {
    const char *end = strstr(command, "-schedule");
    char name[32];
    if (!end || end[9]) return NULL;
    (void)snprintf(name, sizeof name, "%.*s", (int)(end - command), command);
    return sched_target_find(name);
}

/* Of "item-N"; 0: the command is another one. */
static uint32_t threads_of(const char *command) {
    uint32_t n = 0;
    return sscanf(command, "item-%u", &n) == 1 ? n : 0;
}

static rp_status print_item(const kir_func *f, uint32_t threads, base_buf *out, rp_error *err) {
    sched *s = NULL;
    RP_TRY(sched_make_item(f, &s, err));
    rp_status st = gen_cuda_item(s, "one", threads, out, err);
    sched_free(s);
    return st;
}

static rp_status run_command(const char *name, const char *command, const char *text, size_t len,
                             base_buf *out, rp_error *err) {
    kir_func *f = NULL;
    rp_error why = {0};
    bool known;
    base_buf body;
    rp_status st = run_scheduled(command, text, len, out, &known, err);
    if (known) return st;
    st = kir_parse(text, len, &f, &why);

    base_buf_init(&body, 0);
    if (strcmp(command, "error") == 0) {
        base_buf_printf(out, "%s\n", st == RP_OK ? "accepted" : why.text);
        st = RP_OK;
    } else if (st != RP_OK) {
        (void)rp_fail(err, st, "%s: %s", name, why.text);
    } else if (strcmp(command, "cat") == 0) {
        kir_print(f, &body);
    } else if (strcmp(command, "c") == 0) {
        st = render_c(f, &body, NULL, err);
        if (st == RP_OK) st = compiles(&body, name, err);
    } else if (strcmp(command, "cuda") == 0) {
        st = render_cuda(f, &body, err);
    } else if (threads_of(command)) {
        st = print_item(f, threads_of(command), &body, err);
    } else if (target_of(command)) {
        st = print_schedule(target_of(command), f, &body, err);
    } else {
        st = rp_fail(err, RP_INVALID, "%s: unknown command '%s'", name, command);
    }
    if (body.len) base_buf_add(out, body.data, body.len);
    base_buf_done(&body);
    kir_free(f);
    return st;
}

/* The file as it should be. */
static rp_status expected_file(const char *name, const char *text, base_buf *out, rp_error *err) {
    const char *mark = strstr(text, MARK);
    size_t len = mark ? (size_t)(mark - text) : strlen(text);
    const char *line = text;
    char command[32];

    base_buf_add(out, text, len);
    for (; sscanf(line, "; test %31s", command) == 1; line = strchr(line, '\n') + 1) {
        base_buf_printf(out, MARK "%s\n", command);
        RP_TRY(run_command(name, command, text, len, out, err));
        if (!strchr(line, '\n')) break;
    }
    if (line == text) return rp_fail(err, RP_INVALID, "%s: no `; test` line", name);
    return base_buf_status(out, err);
}

static void show_difference(const char *path, const char *have, const char *want) {
    size_t line = 1;
    const char *h = have, *w = want;

    while (*h && *h == *w) {
        if (*h == '\n') line++;
        h++, w++;
    }
    while (h > have && h[-1] != '\n') h--, w--;
    fprintf(stderr, "%s:%zu differs (BLESS=1 rewrites it)\n- %.*s\n+ %.*s\n", path, line,
            (int)strcspn(h, "\n"), h, (int)strcspn(w, "\n"), w);
}

static rp_status check_file(void *user, const char *name, bool is_dir, rp_error *err) {
    run *r = user;
    char path[300], *text = NULL;
    const char *dot = strrchr(name, '.');
    rp_error why = {0};
    base_buf want;
    size_t size;

    if (is_dir || !dot || strcmp(dot, ".kir") != 0) return RP_OK;
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    RP_TRY(base_file_read(path, 1 << 20, &text, &size, err));
    base_buf_init(&want, 0);
    r->files++;
    if (expected_file(path, text, &want, &why) != RP_OK) {
        fprintf(stderr, "%s\n", why.text);
        r->bad++;
    } else if (strcmp(text, want.data) != 0) {
        if (BLESSING()) {
            if (base_file_write_atomic(path, want.data, want.len, err) != RP_OK) r->bad++;
        } else {
            show_difference(path, text, want.data);
            r->bad++;
        }
    }
    base_buf_done(&want);
    base_free(text);
    return RP_OK;
}

static void check_folder(const char *folder) {
    run r = {.folder = folder};
    rp_error err = {0};

    if (base_dir_list(folder, check_file, &r, &err) != RP_OK) fail_msg("%s", err.text);
    assert_true(r.files > 0);
    assert_int_equal(r.bad, 0);
}

static void kernel_ir_files(void **state) {
    (void)state;
    check_folder("test/kir");
}

/* The same text is read and printed whatever the process does to its numbers. */
static void kernels_beside_a_decimal_comma(void **state) {
    (void)state;
    comma_begin();
    check_folder("test/kir");
    comma_end();
}

static void generated_code_files(void **state) {
    (void)state;
    check_folder("test/gen");
}

static void schedule_files(void **state) {
    (void)state;
    check_folder("test/sched");
}

/* The example of docs/howto-schedule.md is what the rules make. */
static void documented_schedule(void **state) {
    char *text = NULL;
    size_t size;
    sched *s = NULL;
    rp_error err = {0};
    base_buf made;
    (void)state;
    if (base_file_read("docs/howto-schedule.md", 1 << 20, &text, &size, NULL) != RP_OK)
        SKIP_TEST("this folder carries no docs");
    const char *from = strstr(text, "```\n"), *end = from ? strstr(from + 4, "```\n") : NULL;
    assert_non_null(end);
    const size_t n = (size_t)(end - from) - 4;
    CHECK_OK(sched_parse(from + 4, n, &s, &err), &err);
    base_buf_init(&made, 0);
    CHECK_OK(print_schedule(s->target, s->f, &made, &err), &err);
    assert_int_equal(made.len, n);
    assert_memory_equal(made.data, from + 4, n);
    base_buf_done(&made);
    sched_free(s);
    base_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_ir_files),      cmocka_unit_test(kernels_beside_a_decimal_comma),
        cmocka_unit_test(generated_code_files), cmocka_unit_test(schedule_files),
        cmocka_unit_test(documented_schedule),
    };
    return cmocka_run_group_tests_name("kir_files", tests, NULL, NULL);
}
