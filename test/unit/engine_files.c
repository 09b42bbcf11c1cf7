/* The model's file changes while an engine runs it: cut short or written over, the step fails with one line that names
 * the file; replaced under its name, nothing happens. */
#include "support/check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/engines.h"
#include "support/long_llama.h"
#include "support/trees.h"

enum { TOKENS = 12 };

static const int32_t prompt[] = {5, 17, 42, 99, 3};

/* Does `change` to the file once the first piece of text is there, in the middle of a step. */
typedef struct meddler {
    const char *path;
    void (*change)(const char *path);
} meddler;

static bool on_text(void *user, uint64_t id, const char *text, size_t len) {
    meddler *m = user;
    (void)id;
    (void)text;
    (void)len;
    if (m->change) m->change(m->path);
    m->change = NULL;
    return true;
}

static rp_status run(rp_engine *e, meddler *m, int32_t *out, uint32_t *n, rp_error *err) {
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    rp_result res = RP_RESULT_INIT;
    uint64_t id;
    bool more = true;
    rp_status st = RP_OK;
    r.prompt_ids = prompt;
    r.n_prompt_ids = sizeof prompt / sizeof *prompt;
    r.max_tokens = TOKENS;
    r.ignore_eos = true;
    r.on_text = on_text;
    r.user = m;
    CHECK_OK(rp_engine_submit(e, &r, &id, err), err);
    while (more && st == RP_OK) st = rp_engine_step(e, &more, err);
    CHECK_OK(rp_engine_result(e, id, &res, NULL), err);
    *n = res.n_output_ids;
    memcpy(out, res.output_ids, *n * sizeof *out);
    rp_engine_release(e, id);
    return st;
}

static void fails(void (*change)(const char *path), const char *level, const char *part) {
    rp_error err = {0};
    int32_t ids[TOKENS];
    uint32_t n = 0;
    const char *path = long_llama_write(tree_new("files"), LONG_PLAIN);
    meddler m = {path, change};
    rp_engine *e =
        engine_must(path, (const char *[]){level, "threads=2", "max_model_len=64", NULL});
    assert_int_equal(run(e, &m, ids, &n, &err), RP_IO);
    assert_null(m.change);
    if (!strstr(err.text, part) || !strstr(err.text, path))
        fail_msg("'%s' does not contain '%s' and the path", err.text, part);
    assert_true(n >= 1 && n < TOKENS);
    rp_engine_close(e);
}

static void cut_to_nothing(const char *path) {
    assert_int_equal(truncate(path, 0), 0);
}

static void cut_in_the_middle(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size / 2), 0);
}

static void write_over(const char *path) {
    const struct timespec later[2] = {{0, UTIME_OMIT}, {4000000000, 5}};
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "GGUF", 4, 0), 4);
    assert_int_equal(futimens(fd, later), 0);
    (void)close(fd);
}

static void a_changed_file_fails_the_step(void **state) {
    (void)state;
    fails(cut_to_nothing, "level=0", "was cut short while it was in use");
    fails(cut_in_the_middle, "level=0", "was cut short while it was in use");
    fails(cut_to_nothing, "level=3", "was cut short while it was in use");
    fails(write_over, "level=0", "was written to while it was in use");
}

static void replace(const char *path) {
    char other[4300];
    const char *dir = tree_new("files_other");
    tree_write(dir, "other.gguf", "short", 5);
    (void)snprintf(other, sizeof other, "%s/other.gguf", dir);
    assert_int_equal(rename(other, path), 0);
}

static void take_away(const char *path) {
    assert_int_equal(unlink(path), 0);
}

static void a_replaced_file_stays_in_use(void **state) {
    (void)state;
    rp_error err = {0};
    int32_t want[TOKENS], got[TOKENS];
    uint32_t n = 0;
    const char *path = long_llama_write(tree_new("files"), LONG_PLAIN);
    rp_engine *e =
        engine_must(path, (const char *[]){"level=0", "threads=2", "max_model_len=64", NULL});
    meddler m = {path, NULL};
    CHECK_OK(run(e, &m, want, &n, &err), &err);
    assert_int_equal(n, TOKENS);
    m.change = replace;
    CHECK_OK(run(e, &m, got, &n, &err), &err);
    assert_null(m.change);
    assert_int_equal(n, TOKENS);
    assert_memory_equal(got, want, sizeof got);
    m.change = take_away;
    CHECK_OK(run(e, &m, got, &n, &err), &err);
    assert_memory_equal(got, want, sizeof got);
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_file_fails_the_step),
        cmocka_unit_test(a_replaced_file_stays_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
