/* What the next process knows of sizes. The processes are this program again, which share its cache; they begin anew, since
 * children of a process with a GPU have none. */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/key.h"
#include "support/heard.h"
#include "support/jits.h"

static float x[4096];

static rp_status doubled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), 2));
    return RP_OK;
}

/* As many rows as the second argument, for the name `sized`. */
static rp_status head(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_slice(t, 0, 0, rp_jit_dim(call, &args->item[1])));
    return RP_OK;
}

/* As many rows as an integer in the second place says, where nothing stands behind it. */
static rp_status either(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    if (args->n == 2 && args->item[1].kind == RP_VALUE_INT)
        t = rp_slice(t, 0, 0, rp_jit_dim(call, &args->item[1]));
    *result = rp_jit_value(call, rp_mul_scalar(t, 2));
    return RP_OK;
}

/* L[1] is a size, a tensor, and then an integer that nobody takes, of which only the last differs. */
static int one_place(const char *name) {
    const rp_value size[] = {f32_of(x, 2, 32, 4), rp_value_int(8)};
    const rp_value tensor[] = {f32_of(x, 2, 32, 4), f32_of(x, 1, 8, 0)};
    const rp_value word[] = {f32_of(x, 2, 32, 4), rp_value_int(8), rp_value_int(1)};
    const rp_value other[] = {f32_of(x, 2, 32, 4), rp_value_int(9), rp_value_int(1)};
    const rp_value *all[] = {size, tensor, word, other};
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(either);
    o.name = name;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    for (int i = 0; i < 4; i++) {
        rp_value args = rp_value_tuple(all[i], i < 2 ? 2 : 3);
        rp_output_free(jit_ok(f, &args));
    }
    int n = (int)jit_info(f).compiles;
    rp_jit_free(f);
    return n;
}

static int64_t columns = 4;

/* Calls with these rows, 0 ends, and as many columns as there are, one more each time where they are below 0; gives the compiles. */
static int compiles_of(const char *name, int line, const int64_t *rows, bool reset) {
    if (strcmp(name, "places") == 0) return one_place(name);
    rp_error err = {0};
    rp_jit *f = NULL;
    const bool sized = strcmp(name, "sized") == 0;
    rp_jit_options o = jit_options(sized ? head : doubled);
    o.name = name;
    o.line = line;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    if (reset) rp_jit_reset(f);
    for (int64_t wide = columns; *rows; rows++) {
        rp_value v[] = {f32_of(x, 2, sized ? 32 : *rows, wide < 0 ? -wide : wide),
                        rp_value_int(*rows)};
        rp_value args = rp_value_tuple(v, sized ? 2 : 1);
        rp_output *out = jit_ok(f, &args);
        assert_int_equal(jit_result(out)->tensor.dim[0], *rows);
        rp_output_free(out);
        if (wide < 0) wide--;
    }
    int n = (int)jit_info(f).compiles;
    rp_jit_free(f);
    return n;
}

enum { MOST_WORDS = 64 };
static const char there[] = "JIT_DECISIONS_CALLS"; /* says to a process what it is there for */

/* This program with the arguments it has, which may begin with a loader of programs. */
static void begin_anew(void) {
    static char words[4096];
    char *argv[MOST_WORDS] = {0};
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, words, sizeof words - 1);
    size_t n = 0;
    for (char *p = words; p < words + size && n + 1 < MOST_WORDS; p += strlen(p) + 1) argv[n++] = p;
    (void)execv("/proc/self/exe", argv);
}

/* The same in a process of its own. */
static int elsewhere(const char *name, int line, const int64_t *rows, bool reset) {
    char calls[256];
    int status,
        at = snprintf(calls, sizeof calls, "%s %d %d %lld", name, line, reset, (long long)columns);
    for (; *rows; rows++)
        at += snprintf(calls + at, sizeof calls - (size_t)at, " %lld", (long long)*rows);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (setenv(there, calls, 1) == 0) begin_anew();
        _exit(255);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int do_calls(const char *calls) {
    char name[32];
    int line, reset, at = 0, size;
    long long wide, rows;
    int64_t row[MOST_WORDS] = {0};
    if (sscanf(calls, "%31s %d %d %lld%n", name, &line, &reset, &wide, &at) != 4) return 255;
    columns = wide;
    for (int n = 0; sscanf(calls + at, "%lld%n", &rows, &size) == 1 && n + 1 < MOST_WORDS;
         at += size)
        row[n++] = rows;
    return compiles_of(name, line, row, reset);
}

static const int64_t several[] = {8, 16, 5, 0}, same[] = {8, 8, 0};

static void the_next_process_compiles_once(void **state) {
    (void)state;
    assert_int_equal(elsewhere("kept", 1, several, false), 2);
    assert_int_equal(elsewhere("kept", 1, several, false), 1);
    assert_int_equal(elsewhere("kept", 1, same, false), 1);
    assert_int_equal(elsewhere("kept", 1, several, false), 1); /* and it stays known */
    assert_int_equal(elsewhere("kept", 2, several, false), 2); /* another function */
    assert_int_equal(elsewhere("other", 1, several, false), 2);
}

/* An integer that is a size is kept as sizes are. */
static void of_an_integer_as_well(void **state) {
    base_buf heard;
    (void)state;
    assert_int_equal(elsewhere("sized", 1, several, false), 2);
    assert_int_equal(elsewhere("sized", 1, several, false), 1);
    heard_start(&heard, "dynamic");
    assert_int_equal(compiles_of("sized", 1, several, false), 1);
    CHECK_HEARD(&heard, "L[1] of sized differed in an earlier process");
    CHECK_HEARD(&heard, "create_symbol s0 = 8 for L[1] ");
    heard_done(&heard);
}

/* Whether it is one is known of what the place has now. */
static void of_no_other_integer(void **state) {
    base_buf heard;
    (void)state;
    assert_int_equal(elsewhere("places", 8, same, false), 4);
    heard_start(&heard, "dynamic");
    assert_int_equal(compiles_of("places", 8, same, false), 4);
    if (heard.data && strstr(heard.data, "L[1] of places differed")) fail_msg("%s", heard.data);
    heard_done(&heard);
}

/* What an earlier process did not see is seen as ever: the first call of another size, then a symbol. */
static void another_axis_becomes_known(void **state) {
    (void)state;
    assert_int_equal(elsewhere("wider", 1, several, false), 2);
    columns = -4;
    assert_int_equal(elsewhere("wider", 1, several, false), 2);
    assert_int_equal(elsewhere("wider", 1, several, false), 1);
    columns = 4;
}

static void what_never_differed_is_not_kept(void **state) {
    (void)state;
    assert_int_equal(elsewhere("plain", 1, same, false), 1);
    assert_int_equal(elsewhere("plain", 1, several, false), 2);
}

static void a_reset_forgets_it(void **state) {
    (void)state;
    assert_int_equal(elsewhere("forgotten", 1, several, false), 2);
    assert_int_equal(elsewhere("forgotten", 1, several, true), 2);
}

/* Two functions of one name in one process do not see each other. */
static void a_process_does_not_read_its_own(void **state) {
    (void)state;
    assert_int_equal(compiles_of("own", 1, several, false), 2);
    assert_int_equal(compiles_of("own", 1, several, false), 2);
}

/* A child that does not begin anew is another process, too. */
static void a_child_reads_its_parent_s(void **state) {
    int status = 0;
    (void)state;
    NOT_ELSEWHERE("a child has no GPU");
    assert_int_equal(compiles_of("parent", 1, several, false), 2);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(compiles_of("parent", 1, several, false));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

static void it_is_told(void **state) {
    base_buf heard;
    (void)state;
    assert_int_equal(elsewhere("told", 1, several, false), 2);
    heard_start(&heard, "dynamic");
    assert_int_equal(compiles_of("told", 1, several, false), 1);
    CHECK_HEARD(&heard, "L[0] of told: axes 0x1 differed in an earlier process");
    heard_done(&heard);
}

/* What another process would have left of the function `left`. */
static void leave(const char *text) {
    rp_error err = {0};
    cache_store *store = NULL;
    cache_key *key = cache_key_new();
    assert_non_null(key);
    CHECK_OK(cache_key_add(key, "learned", "sizes 1", &err), &err);
    CHECK_OK(cache_key_add(key, "function", "left", &err), &err);
    CHECK_OK(cache_key_add(key, "file", "model.c", &err), &err);
    CHECK_OK(cache_key_add(key, "line", "1", &err), &err);
    CHECK_OK(cache_store_open(NULL, &store, &err), &err);
    CHECK_OK(cache_put(store, CACHE_TUNING, cache_key_hash(key), text, strlen(text), &err), &err);
    cache_store_close(store);
    cache_key_free(key);
}

static void what_is_not_ours_is_not_read(void **state) {
    static const struct {
        const char *text;
        int compiles;
    } all[] = {{"sizes 1\nby 1\n1 2 L[0]\n", 1},      {"sizes 1\nby 1\n1 3 L[0]\n", 2},
               {"sizes 1\nby 1\n2 2 L[0]\n", 2},      {"sizes 1\nby 1\n5 2 L[0]\n", 2},
               {"sizes 1\nby 1\n1 9 L[0]\n", 2},      {"sizes 1\nby 1\n1 2 L[1]\n", 2},
               {"sizes 1\nby 1\n1 2 \n", 2},          {"sizes 1\nby 1\n1 2 L[0]", 2},
               {"sizes 2\nby 1\n1 2 L[0]\n", 2},      {"sizes 1\n1 2 L[0]\n", 2},
               {"sizes 1\nby 1\nnone\n1 2 L[0]\n", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        leave(all[i].text);
        int n = compiles_of("left", 1, several, false);
        if (n != all[i].compiles) fail_msg("%d compiles after %s", n, all[i].text);
    }
}

int main(void) {
    const char *calls = getenv(there);
    if (calls) return do_calls(calls);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_process_compiles_once),
        cmocka_unit_test(of_an_integer_as_well),
        cmocka_unit_test(of_no_other_integer),
        cmocka_unit_test(another_axis_becomes_known),
        cmocka_unit_test(what_never_differed_is_not_kept),
        cmocka_unit_test(a_reset_forgets_it),
        cmocka_unit_test(a_process_does_not_read_its_own),
        cmocka_unit_test(a_child_reads_its_parent_s),
        cmocka_unit_test(it_is_told),
        cmocka_unit_test(what_is_not_ours_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
