/* The report of a function: what a user reads who has only the program. */
#include "support/heard.h"
#include "support/jits.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"
#include "front/report.h"

enum { ROOM = 64 };
static float x[ROOM];

/* A break, a question, and a branch on data. */
static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    const bool *breaks = user;
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    if (rp_dim_ask(rp_tensor_dim(t, 0), RP_DIM_GT, rp_dim_const(8), "model.c", 10)) t = rp_neg(t);
    t = rp_mul_scalar(t, 2);
    if (*breaks) rp_jit_break_at(call, "builtin: print", "model.c", 12);
    if (args->n > 1) t = rp_mul_scalar(t, (double)args->item[1].as.integer);
    *result = rp_jit_value(call, rp_exp(t));
    return RP_OK;
}

static void call(rp_jit *f, int64_t rows, int number) {
    rp_value v[] = {f32_of(x, 1, rows, 0), rp_value_int(number)};
    rp_value args = rp_value_tuple(v, number ? 2 : 1);
    rp_output_free(jit_ok(f, &args));
}

/* The report, with times as N and the number of the function as F. */
static char *report(rp_jit *f) {
    rp_error err = {0};
    char *text = NULL;
    base_buf b;
    CHECK_OK(rp_jit_explain(f, &text, &err), &err);
    base_buf_init(&b, 0);
    unsigned id = 0;
    const char *at = strchr(text, '[');
    char mark[16];
    if (at) (void)sscanf(at, "[%u]", &id);
    for (const char *p = text; *p;) {
        const char *in = " compiled in ";
        size_t n = (size_t)snprintf(mark, sizeof mark, "%u/", id);
        if (strncmp(p, in, strlen(in)) == 0) {
            base_buf_puts(&b, " compiled in N");
            p = strstr(p, " ms");
        } else if (strncmp(p, mark, n) == 0 && (p[-1] == '[' || p[-1] == ' ')) {
            base_buf_puts(&b, "F/");
            p += n;
        } else {
            base_buf_putc(&b, *p++);
        }
    }
    rp_free(text);
    assert_false(b.failed);
    char *end = strstr(b.data, " [");
    char *line = strchr(b.data, '\n');
    if (end && end < line) memmove(end, line, strlen(line) + 1);
    return base_buf_take(&b);
}

static void check_report(rp_jit *f, const char *want) {
    char *is = report(f);
    if (strcmp(is, want) != 0) fail_msg("it is\n%s\nand not\n%s", is, want);
    base_free(is);
}

static rp_jit *make(int level, uint32_t limit, bool *breaks) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(forward);
    char settings[32];
    (void)snprintf(settings, sizeof settings, "level=%d threads=1", level);
    o.recompile_limit = limit;
    o.user = breaks;
    CHECK_OK(jit_of(o, settings, &f, &err), &err);
    return f;
}

static void entries_are_told_with_their_cause(void **state) {
    static bool breaks = false;
    rp_jit *f = make(1, 0, &breaks);
    (void)state;
    call(f, 4, 0);
    call(f, 4, 0);
    call(f, 5, 0);
    call(f, 16, 0);
    check_report(f, "Function forward (model.c:8)\n"
                    "Calls: 4: 1 by an entry, 3 made one, 0 op by op, 0 failed\n"
                    "Graph Count: 3\n"
                    "Graph Break Count: 0\n"
                    "Op Count: 7\n"
                    "Entries: 3\n"
                    "  [F/0]\n"
                    "    Made by: the first call\n"
                    "    Graph 1: 2 ops, compiled in N ms: mul, exp\n"
                    "    Out Guards:\n"
                    "      - RootGuardManager\n"
                    "        - GuardManager: source=L\n"
                    "          - LENGTH_CHECK: len(L) == 1\n"
                    "        - GuardManager: source=L[0]\n"
                    "          - TENSOR_MATCH: check_tensor(L[0], Tensor, f32, size=[4])\n"
                    "  [F/1]\n"
                    "    Made by: a call that F/0 is not for: tensor 'L[0]' size mismatch at index "
                    "0. expected 4, actual 5\n"
                    "    Graph 1: 2 ops, compiled in N ms: mul, exp\n"
                    "    Out Guards:\n"
                    "      - RootGuardManager\n"
                    "        - GuardManager: source=L\n"
                    "          - LENGTH_CHECK: len(L) == 1\n"
                    "        - GuardManager: source=L[0]\n"
                    "          - TENSOR_MATCH: check_tensor(L[0], Tensor, f32, size=[None])\n"
                    "        - SHAPE_ENV: 0 <= L[0].size()[0] <= 8\n"
                    "        - SHAPE_ENV: L[0].size()[0] <= 8  # model.c:10\n"
                    "  [F/2]\n"
                    "    Made by: a call that F/1 is not for: L[0].size()[0] <= 8  # model.c:10\n"
                    "    Graph 1: 3 ops, compiled in N ms: neg, mul, exp\n"
                    "    Out Guards:\n"
                    "      - RootGuardManager\n"
                    "        - GuardManager: source=L\n"
                    "          - LENGTH_CHECK: len(L) == 1\n"
                    "        - GuardManager: source=L[0]\n"
                    "          - TENSOR_MATCH: check_tensor(L[0], Tensor, f32, size=[None])\n"
                    "        - SHAPE_ENV: 9 <= L[0].size()[0]\n"
                    "        - SHAPE_ENV: L[0].size()[0] > 8  # model.c:10\n"
                    "Limits:\n"
                    "  recompile_limit: 3 of 8 entries\n"
                    "  accumulated_recompile_limit: 3 of 256\n");
    rp_jit_free(f);
}

static void breaks_are_told_with_their_line(void **state) {
    static bool breaks = true;
    rp_jit *f = make(1, 0, &breaks);
    (void)state;
    call(f, 4, 0);
    call(f, 4, 0);
    check_report(f, "Function forward (model.c:8)\n"
                    "Calls: 2: 1 by an entry, 1 made one, 0 op by op, 0 failed\n"
                    "Graph Count: 2\n"
                    "Graph Break Count: 1\n"
                    "Op Count: 2\n"
                    "Break Reasons:\n"
                    "  Break Reason 1:\n"
                    "    Graph break in user code at model.c:12\n"
                    "    Reason: Unsupported: builtin: print\n"
                    "    User code traceback:\n"
                    "      File \"model.c\", line 12, in forward\n"
                    "Entries: 1\n"
                    "  [F/0]\n"
                    "    Made by: the first call\n"
                    "    Graph 1: 1 ops, compiled in N ms: mul\n"
                    "    Graph 2: 1 ops, compiled in N ms: exp\n"
                    "    Out Guards:\n"
                    "      - RootGuardManager\n"
                    "        - GuardManager: source=L\n"
                    "          - LENGTH_CHECK: len(L) == 1\n"
                    "        - GuardManager: source=L[0]\n"
                    "          - TENSOR_MATCH: check_tensor(L[0], Tensor, f32, size=[4])\n"
                    "Limits:\n"
                    "  recompile_limit: 1 of 8 entries\n"
                    "  accumulated_recompile_limit: 1 of 256\n");
    rp_jit_reset(f);
    char *after = report(f);
    if (strstr(after, "Break Reason 1") || strstr(after, "Graph 1")) fail_msg("%s", after);
    base_free(after);
    rp_jit_free(f);
}

static void what_runs_op_by_op_is_told(void **state) {
    static bool breaks = false;
    rp_jit *f = make(1, 1, &breaks);
    (void)state;
    for (int i = 1; i < 6; i++) call(f, 4, i);
    check_report(f, "Function forward (model.c:8)\n"
                    "Calls: 5: 0 by an entry, 2 made one, 3 op by op, 0 failed\n"
                    "Graph Count: 2\n"
                    "Graph Break Count: 0\n"
                    "Op Count: 6\n"
                    "Entries: 2\n"
                    "  [F/0]\n"
                    "    Made by: the first call\n"
                    "    Graph 1: 3 ops, compiled in N ms: mul, mul, exp\n"
                    "    Out Guards:\n"
                    "      - RootGuardManager\n"
                    "        - GuardManager: source=L\n"
                    "          - LENGTH_CHECK: len(L) == 2\n"
                    "        - GuardManager: source=L[0]\n"
                    "          - TENSOR_MATCH: check_tensor(L[0], Tensor, f32, size=[4])\n"
                    "        - GuardManager: source=L[1]\n"
                    "          - EQUALS_MATCH: L[1] == 1\n"
                    "  [F/1] past the limit, with every size a symbol\n"
                    "    Made by: a call that F/0 is not for: L[1] == 1\n"
                    "    Graph 1: 3 ops, compiled in N ms: mul, mul, exp\n"
                    "    Out Guards:\n"
                    "      - RootGuardManager\n"
                    "        - GuardManager: source=L\n"
                    "          - LENGTH_CHECK: len(L) == 2\n"
                    "        - GuardManager: source=L[0]\n"
                    "          - TENSOR_MATCH: check_tensor(L[0], Tensor, f32, size=[None])\n"
                    "        - GuardManager: source=L[1]\n"
                    "          - EQUALS_MATCH: L[1] == 2\n"
                    "        - SHAPE_ENV: 0 <= L[0].size()[0] <= 8\n"
                    "        - SHAPE_ENV: L[0].size()[0] <= 8  # model.c:10\n"
                    "Op By Op: 3\n"
                    "  3: past the recompile limit, and as many entries with every size a symbol "
                    "do not serve these arguments\n"
                    "Limits:\n"
                    "  recompile_limit: 1 of 1 entries, reached\n"
                    "    past it 1, 1 of them by more than questions of sizes\n"
                    "  accumulated_recompile_limit: 2 of 256\n");
    rp_jit_free(f);
    f = make(0, 0, &breaks);
    call(f, 4, 0);
    check_report(f, "Function forward (model.c:8)\n"
                    "Calls: 1: 0 by an entry, 0 made one, 1 op by op, 0 failed\n"
                    "Graph Count: 0\n"
                    "Graph Break Count: 0\n"
                    "Op Count: 0\n"
                    "Entries: 0\n"
                    "Op By Op: 1\n"
                    "  1: level 0 compiles nothing\n"
                    "Limits:\n"
                    "  recompile_limit: 0 of 8 entries\n"
                    "  accumulated_recompile_limit: 0 of 256\n");
    rp_jit_free(f);
}

static void the_log_has_it_at_the_end(void **state) {
    static bool breaks = false;
    base_buf said;
    rp_jit *f = make(1, 0, &breaks);
    (void)state;
    call(f, 4, 0);
    heard_start(&said, "explain");
    rp_jit_free(f);
    CHECK_HEARD(&said, "[explain] Graph Count: 1\n");
    CHECK_HEARD(&said, "[explain]     Made by: the first call\n");
    heard_done(&said);
}

static void the_log_has_it_at_a_reset(void **state) {
    static bool breaks = false;
    base_buf said;
    rp_jit *f = make(1, 0, &breaks);
    (void)state;
    call(f, 4, 0);
    heard_start(&said, "explain");
    rp_jit_reset(f);
    CHECK_HEARD(&said, "[explain] Graph Count: 1\n");
    base_buf_clear(&said);
    rp_jit_reset(f); /* there is nothing to tell */
    assert_null(strstr(said.data, "[explain]"));
    heard_done(&said);
    rp_jit_free(f);
}

static rp_jit *freed_late;
static void free_late(void) {
    rp_jit_free(freed_late);
}

/* What a process does that frees the middle ones of four, and the last one behind the report of the end; a child of it ends first. */
static int leave_some(void) {
    static bool breaks = false;
    rp_jit *f[4];
    int status = 0;
    if (atexit(free_late) != 0) return 1;
    for (int i = 0; i < 4; i++) {
        f[i] = make(1, 0, &breaks);
        call(f[i], 4 + i, 0);
    }
    rp_jit_free(f[1]);
    rp_jit_free(f[2]);
    const pid_t child = fork();
    if (child == 0) exit(0);
    freed_late = f[3];
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

/* Each is told once, those that are left when the process ends. */
static void the_log_has_it_when_the_process_ends(void **state) {
    static const int rows[] = {5, 6, 4, 7}; /* in this order */
    char self[1024], want[48];
    rp_error err = {0};
    base_buf out;
    int code = 0;
    (void)state;
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    const char *const argv[] = {self, "leaves", NULL};
    assert_int_equal(setenv("REPRISE_LOGS", "explain", 1), 0);
    base_buf_init(&out, 0);
    CHECK_OK(base_spawn(argv, &out, &code, &err), &err);
    assert_int_equal(unsetenv("REPRISE_LOGS"), 0);
    const char *at = out.data;
    for (int i = 0; i < 4; i++) {
        (void)snprintf(want, sizeof want, "check_tensor(L[0], Tensor, f32, size=[%d])", rows[i]);
        at = strstr(at, want);
        if (!at) fail_msg("%d: %s", i, out.data);
        at++;
    }
    assert_null(strstr(at, "check_tensor"));
    int told = 0;
    for (at = out.data; (at = strstr(at, "[explain] Function ")); at++) told++;
    assert_int_equal(told, 4);
    base_buf_done(&out);
}

/* A function that is called for long keeps some notes, and how many there were. */
static void notes_have_an_end(void **state) {
    enum { KEPT = 1024, MORE = 3 };
    static bool breaks = false;
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    rp_jit *f = jit_at(forward, 1, RP_DYNAMIC_AUTO, &breaks);
    for (int i = 0; i < KEPT + MORE; i++) {
        char why[32];
        (void)snprintf(why, sizeof why, "reason %d", i);
        front_note_text(f, FRONT_NOTE_BREAK, 0, why);
    }
    front_note_text(f, FRONT_NOTE_BREAK, 0, "reason 7"); /* which is there */
    CHECK_OK(rp_jit_explain(f, &text, &err), &err);
    assert_non_null(strstr(text, "Break Reason 8, by 2 ways:"));
    assert_non_null(strstr(text, "    reason 1023\n"));
    assert_null(strstr(text, "    reason 1024\n"));
    if (!strstr(text, "\n3 notes more were not kept\n")) fail_msg("%s", strrchr(text, ':'));
    rp_free(text);
    rp_jit_free(f);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return leave_some();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_told_with_their_cause),
        cmocka_unit_test(breaks_are_told_with_their_line),
        cmocka_unit_test(what_runs_op_by_op_is_told),
        cmocka_unit_test(notes_have_an_end),
        cmocka_unit_test(the_log_has_it_at_the_end),
        cmocka_unit_test(the_log_has_it_at_a_reset),
        cmocka_unit_test(the_log_has_it_when_the_process_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
