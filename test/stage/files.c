/* Runs the cases in test/stage/ *.ir; a line of "; ====" separates cases of a file.
 *   ; test fusion,kir,plan    prints the graph at those stages (rp_graph_lower_text; portable code); each is compared with the
 *                             text after its line "; --- STAGE"
 * What a graph becomes is compared whole: a buffer, an index or a barrier that differs is seen, also where results are the
 * same. BLESS=1 rewrites the texts. */
#include "support/check.h"

#include <dirent.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "reprise/reprise.h"

#define SEPARATOR "; ====\n"
#define COMMAND "; test "
#define RESULT "; --- "

/* The head of a case, with its stages, and what they print; false when a stage fails. */
static bool print_case(const char *head, size_t n_head, base_buf *out) {
    rp_error err = {0};
    rp_graph *g = NULL;
    const char *stages = strstr(head, COMMAND);
    char words[128], *rest = words, *text = NULL;
    rp_status st = RP_OK;
    if (!stages || stages >= head + n_head) {
        print_message("no line of '%s'\n", COMMAND);
        return false;
    }
    stages += strlen(COMMAND);
    (void)snprintf(words, sizeof words, "%.*s", (int)strcspn(stages, "\n"), stages);
    base_buf_add(out, head, n_head);
    st = rp_graph_parse(head, n_head, &g, &err);
    for (char *w; st == RP_OK && (w = strtok_r(rest, ",", &rest));) {
        st = rp_graph_lower_text(g, w, "portable", &text, &err);
        if (st != RP_OK) break;
        base_buf_printf(out, RESULT "%s\n%s", w, text);
        if (out->len && out->data[out->len - 1] != '\n') base_buf_putc(out, '\n');
        rp_free(text);
    }
    if (st != RP_OK) print_message("%.60s: %s\n", head, err.text);
    rp_graph_free(g);
    return st == RP_OK;
}

static int run_file(const char *path) {
    rp_error err = {0};
    base_buf out;
    char *text = NULL;
    size_t size = 0;
    int failed = 0;
    CHECK_OK(base_file_read(path, 1 << 24, &text, &size, &err), &err);
    base_buf_init(&out, 0);
    for (const char *at = text; at; at = strstr(at, SEPARATOR)) {
        if (at != text) {
            at += strlen(SEPARATOR);
            base_buf_puts(&out, SEPARATOR);
        }
        const char *end = strstr(at, SEPARATOR), *head = strstr(at, RESULT);
        size_t n = end ? (size_t)(end - at) : strlen(at), from = out.len;
        failed += !print_case(at, head && head < at + n ? (size_t)(head - at) : n, &out);
        if (!BLESSING() && (out.len - from != n || memcmp(out.data + from, at, n) != 0)) {
            print_message("%s: case '%.60s' now prints\n%s(BLESS=1 rewrites it)\n", path, at,
                          out.data + from);
            failed++;
        }
    }
    if (BLESSING() && failed == 0)
        CHECK_OK(base_file_write_atomic(path, out.data, out.len, &err), &err);
    base_buf_done(&out);
    base_free(text);
    return failed;
}

static void stages_print_what_they_did(void **state) {
    DIR *d = opendir("test/stage");
    int failed = 0, n = 0;
    (void)state;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[300];
        size_t len = strlen(e->d_name);
        if (len < 3 || strcmp(e->d_name + len - 3, ".ir") != 0) continue;
        (void)snprintf(path, sizeof path, "test/stage/%s", e->d_name);
        failed += run_file(path);
        n++;
    }
    (void)closedir(d);
    assert_true(n > 0);
    assert_int_equal(failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stages_print_what_they_did)};
    return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
