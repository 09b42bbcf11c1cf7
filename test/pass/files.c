/* Runs the cases in test/pass/ *.ir; a line of "; ====" separates cases of a file.
 *   ; test pass fold,dce    runs the passes; the graph is compared with the text after "; ---"
 *   ; test pass all         the whole pipeline
 *   ; test fuse             prints the fusion groups and refusals
 *   ; in runs: LEAST        of "fuse": reductions of so many elements or more, to few results, are made in runs
 *   ; skip: NAME,NAME       passes and fusions left out of "all" and "fuse"
 * After each pass the interpreter gives the same bits on random inputs. BLESS=1 rewrites the text after "; ---". */
#include "support/check.h"

#include <dirent.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ir/eval.h"
#include "pass/fuse.h"
#include "support/random_graph.h"
#include "support/same.h"

#define SEPARATOR "; ====\n"
#define RESULT "; ---\n"
#define MAX_NAMES 16

typedef struct names {
    char text[256];
    const char *name[MAX_NAMES];
    uint32_t n;
} names;

static int n_failed;

/* What follows `key` on its line, cut at commas; false when there is no such line. */
static bool command(const char *text, const char *key, names *out) {
    const char *p = strstr(text, key);
    *out = (names){0};
    if (!p) return false;
    p += strlen(key);
    (void)snprintf(out->text, sizeof out->text, "%.*s", (int)strcspn(p, "\n"), p);
    for (char *s = strtok(out->text, ","); s && out->n < MAX_NAMES; s = strtok(NULL, ","))
        out->name[out->n++] = s;
    return true;
}

static ir_graph *run_passes(const ir_graph *g, const names *passes, const names *skip,
                            rp_error *err) {
    const pass_options opt = {.skip = skip->name, .n_skip = skip->n};
    ir_graph *out = NULL;
    if (strcmp(passes->name[0], "all") == 0) {
        if (pass_run_all(g, &opt, &out, err) != RP_OK) return NULL;
        check_same_results(g, out, 1);
        return out;
    }
    for (uint32_t i = 0; i < passes->n; i++) {
        ir_graph *next = NULL;
        rp_status st = pass_run(passes->name[i], out ? out : g, &next, err);
        ir_graph_free(out);
        out = next;
        if (st != RP_OK) return NULL;
        CHECK_OK(pass_check_text(out, err), err);
        check_same_results(g, out, i + 1);
    }
    return out;
}

static char *result_of(const char *text, const char *end, rp_error *err) {
    names passes, skip, none, runs;
    ir_graph *g = NULL, *out = NULL;
    base_buf b;
    base_buf_init(&b, 0);
    if (ir_parse(text, (size_t)(end - text), &g, err) != RP_OK || ir_verify(g, err) != RP_OK) {
        ir_graph_free(g);
        return NULL;
    }
    command(text, "; skip: ", &skip);
    if (command(text, "; test pass ", &passes)) {
        if ((out = run_passes(g, &passes, &skip, err)) != NULL) ir_print(out, &b);
    } else if (command(text, "; test fuse", &none)) {
        const bool in_runs = command(text, "; in runs: ", &runs);
        const pass_splits splits = {
            in_runs ? strtoll(runs.text, NULL, 10) : 0, 64, 32, 32, false, false};
        const pass_options opt = {
            .skip = skip.name, .n_skip = skip.n, .splits = in_runs ? &splits : NULL};
        pass_fusion f = {0};
        if (pass_fuse(g, &opt, &f, err) == RP_OK) pass_fusion_print(g, &f, &b);
        pass_fusion_done(&f);
    }
    ir_graph_free(out);
    ir_graph_free(g);
    char *result = b.len ? base_buf_take(&b) : NULL;
    base_buf_done(&b);
    return result;
}

static void run_case(const char *path, unsigned number, const char *text, base_buf *blessed) {
    rp_error err = {0};
    const char *want = strstr(text, RESULT);
    if (!want) fail_msg("%s: case %u has no '; ---'", path, number);
    char *got = result_of(text, want, &err);
    if (!got || strcmp(got, want + strlen(RESULT)) != 0) {
        if (!BLESSING() || !got) {
            n_failed++;
            print_error("%s, case %u: %s\n--- want\n%s--- got\n%s(BLESS=1 rewrites what is after "
                        "'; ---')\n",
                        path, number, err.text, want + strlen(RESULT), got ? got : "");
        }
    }
    base_buf_add(blessed, text, (size_t)(want - text) + strlen(RESULT));
    base_buf_puts(blessed, got ? got : want + strlen(RESULT));
    base_free(got);
}

static void run_file(const char *path) {
    char *text = NULL;
    size_t size;
    rp_error err = {0};
    base_buf out;
    unsigned n = 0;
    CHECK_OK(base_file_read(path, 1 << 20, &text, &size, &err), &err);
    base_buf_init(&out, 0);
    for (const char *p = text; p;) {
        const char *end = strstr(p, SEPARATOR);
        char *one = base_strndup(p, end ? (size_t)(end - p) : strlen(p));
        run_case(path, ++n, one, &out);
        base_free(one);
        if (end) base_buf_puts(&out, SEPARATOR);
        p = end ? end + strlen(SEPARATOR) : NULL;
    }
    if (BLESSING() && strcmp(out.data, text) != 0)
        CHECK_OK(base_file_write_atomic(path, out.data, out.len, &err), &err);
    base_buf_done(&out);
    base_free(text);
    print_message("%s: %u cases\n", path, n);
}

static void pass_files(void **state) {
    struct dirent **found = NULL;
    int n = scandir("test/pass", &found, NULL, alphasort), n_files = 0;
    (void)state;
    for (int i = 0; i < n; i++) {
        char path[512];
        size_t len = strlen(found[i]->d_name);
        (void)snprintf(path, sizeof path, "test/pass/%s", found[i]->d_name);
        if (len > 3 && strcmp(found[i]->d_name + len - 3, ".ir") == 0) {
            run_file(path);
            n_files++;
        }
        free(found[i]);
    }
    free(found);
    assert_true(n_files > 0);
    assert_int_equal(n_failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pass_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
