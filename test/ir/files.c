/* Runs the cases in test/ir/ *.ir and the examples of docs/ir.md (fenced blocks marked `ir`).
 *
 * A case is a graph with commands as comments; a line of "; ====" separates cases of a file.
 *   ; test cat       prints the graph; compared with the text after "; ---"
 *   ; test verify    parses and verifies (the default)
 *   ; error: TEXT    the parser or verifier must refuse with a message that contains TEXT
 *   ; run: T=2, x=[1,2], w=[3] -> [4], state=[5]
 *                    interprets; leaves not given are 0; results in order, then states by name; "~>" compares
 *                    with a relative error of 1e-6 instead of exactly
 * BLESS=1 rewrites the text after "; ---". */
#include "support/check.h"

#include <dirent.h>
#include <math.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ir/eval.h"

#define SEPARATOR "; ====\n"

typedef struct test_case {
    const char *file;
    unsigned line; /* of its first byte */
    char *text;
} test_case;

static int n_failed;

static void failed(const test_case *c, const char *what, const char *got, const char *want) {
    n_failed++;
    print_error("%s:%u: %s\n--- want\n%s\n--- got\n%s\n(BLESS=1 rewrites what is after '; ---')\n",
                c->file, c->line, what, want, got);
}

/* --- run ---------------------------------------------------------------------- */

static void skip_blanks(const char **p) {
    while (**p == ' ' || **p == ',') ++*p;
}

/* Numbers in brackets; returns how many. */
static int64_t read_list(const char **p, double *out, int64_t max) {
    int64_t n = 0;
    if (**p != '[') return -1;
    for (++*p; **p && **p != ']'; skip_blanks(p)) {
        char *end;
        double v = strtod(*p, &end);
        if (end == *p || n == max) return -1;
        out[n++] = v;
        *p = end;
    }
    if (**p == ']') ++*p;
    return n;
}

static ir_value zeros(const ir_graph *g, ir_ref r, const int64_t *symbols) {
    const ir_node *n = ir_node_at(g, r);
    ir_value v = {.rank = n->shape.rank, .n = 1};
    for (uint32_t i = 0; i < v.rank; i++) {
        v.dim[i] = ir_dim_eval(ir_graph_dims(g), n->shape.dim[i], symbols);
        v.n *= v.dim[i];
    }
    v.data = base_alloc_array((size_t)v.n, sizeof *v.data);
    return v;
}

typedef struct run {
    const test_case *c;
    const ir_graph *g;
    int64_t symbols[16];
    ir_value leaf[3][32], out[16];
    double tolerance;
} run;

static ir_value *find_leaf(run *r, const char *name, size_t len) {
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < ir_leaf_count(r->g, (ir_leaf)k); i++) {
            const char *s = ir_node_at(r->g, ir_leaf_at(r->g, (ir_leaf)k, i))->name;
            if (strlen(s) == len && strncmp(s, name, len) == 0) return &r->leaf[k][i];
        }
    return NULL;
}

/* "T=2, x=[1,2]" up to the arrow; symbols in a first pass, as shapes need them. */
static bool read_leaves(run *r, const char **line, bool symbols) {
    for (skip_blanks(line); **line && **line != '-' && **line != '~'; skip_blanks(line)) {
        const char *eq = strchr(*line, '=');
        if (!eq) return false;
        const char *name = *line, *p = eq + 1;
        if (*p != '[') {
            char sym[64];
            (void)snprintf(sym, sizeof sym, "%.*s", (int)(eq - name), name);
            uint32_t i = ir_dims_find(ir_graph_dims(r->g), sym);
            if (i == UINT32_MAX) return false;
            r->symbols[i] = strtoll(p, (char **)(uintptr_t)line, 10);
            continue;
        }
        double skipped[256];
        ir_value *v = symbols ? NULL : find_leaf(r, name, (size_t)(eq - name));
        if (!symbols && !v) return false;
        int64_t n = read_list(&p, v ? v->data : skipped, v ? v->n : 256);
        if (n < 0 || (v && n != v->n)) return false;
        *line = p;
    }
    return true;
}

/* Elements of i64 are no doubles in a value: *v from one to the other. */
static void change_ints(const run *r, ir_ref node, ir_value *v, bool to_ints) {
    if (ir_node_at(r->g, node)->dtype != RP_DTYPE_I64) return;
    for (int64_t i = 0; i < v->n; i++) {
        if (to_ints)
            ir_value_set_int(v, i, ir_to_i64(v->data[i]));
        else
            v->data[i] = (double)ir_value_int(v, i);
    }
}

static bool same_values(const run *r, const ir_value *v, const double *want, int64_t n) {
    for (int64_t i = 0; i < v->n && n == v->n; i++) {
        double a = v->data[i], b = want[i];
        bool equal = a == b || (isnan(a) && isnan(b)) ||
                     (!isinf(b) && fabs(a - b) <= r->tolerance * fmax(1, fabs(b)));
        if (!equal) return false;
    }
    return n == v->n;
}

static void compare(run *r, const char *what, const ir_value *v, const char **p) {
    double want[256];
    const char *start = *p;
    int64_t n = read_list(p, want, 256);
    if (n >= 0 && same_values(r, v, want, n)) return;
    base_buf got;
    base_buf_init(&got, 0);
    base_buf_printf(&got, "%s [", what);
    for (int64_t i = 0; i < v->n; i++) base_buf_printf(&got, i ? ",%.9g" : "%.9g", v->data[i]);
    base_buf_puts(&got, "]");
    failed(r->c, "run", got.data, start);
    base_buf_done(&got);
}

static void check_results(run *r, const char *p) {
    for (uint32_t i = 0; i < ir_output_count(r->g); i++) {
        skip_blanks(&p);
        change_ints(r, ir_output_at(r->g, i), &r->out[i], false);
        compare(r, "result", &r->out[i], &p);
    }
    for (skip_blanks(&p); *p; skip_blanks(&p)) {
        const char *eq = strchr(p, '=');
        ir_value *v = eq ? find_leaf(r, p, (size_t)(eq - p)) : NULL;
        if (!v) {
            failed(r->c, "run: unreadable results", p, "");
            return;
        }
        p = eq + 1;
        compare(r, "state", v, &p);
    }
}

static void run_line(const test_case *c, const ir_graph *g, const char *line) {
    static run r;
    rp_error err = {0};
    const char *p = line;
    r = (run){.c = c, .g = g};
    bool ok = read_leaves(&r, &p, true);
    for (int k = 0; k < 3 && ok; k++)
        for (uint32_t i = 0; i < ir_leaf_count(g, (ir_leaf)k); i++)
            r.leaf[k][i] = zeros(g, ir_leaf_at(g, (ir_leaf)k, i), r.symbols);
    p = line;
    ok = ok && read_leaves(&r, &p, false);
    for (int k = 0; k < 3 && ok; k++)
        for (uint32_t i = 0; i < ir_leaf_count(g, (ir_leaf)k); i++)
            change_ints(&r, ir_leaf_at(g, (ir_leaf)k, i), &r.leaf[k][i], true);
    r.tolerance = *p == '~' ? 1e-6 : 0;
    if (!ok || (strncmp(p, "->", 2) != 0 && strncmp(p, "~>", 2) != 0)) {
        failed(c, "run: cannot read this line", line, "name=[...], ... -> [...]");
    } else if (ir_eval(g, r.leaf[0], r.leaf[1], r.leaf[2], r.symbols, r.out, &err) != RP_OK) {
        failed(c, "run", err.text, p);
    } else {
        check_results(&r, p + 2);
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 32; i++) ir_value_done(&r.leaf[k][i]);
    for (int i = 0; i < 16; i++) ir_value_done(&r.out[i]);
}

/* --- cases -------------------------------------------------------------------- */

/* The rest of the first line that starts with key; NULL when there is none. Copied to out. */
static const char *command(const char *text, const char *key, char *out, size_t size) {
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (strncmp(p, key, strlen(key)) == 0) {
            (void)snprintf(out, size, "%.*s", (int)(n - strlen(key)), p + strlen(key));
            return p + n;
        }
        p += n + (p[n] == '\n');
    }
    return NULL;
}

/* Replaces what stands after "; ---" by got. */
static void bless(test_case *c, const char *got) {
    char *cut = strstr(c->text, "; ---\n");
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_add(&b, c->text, (size_t)(cut - c->text));
    base_buf_printf(&b, "; ---\n%s", got);
    base_free(c->text);
    c->text = base_buf_take(&b);
}

static void run_case(test_case *c) {
    char error[512] = "", line[4096];
    ir_graph *g = NULL;
    rp_error err = {0};
    char *expect = strstr(c->text, "; ---\n");
    size_t len = expect ? (size_t)(expect - c->text) : strlen(c->text);
    bool wants_error = command(c->text, "; error: ", error, sizeof error) != NULL;
    rp_status st = ir_parse(c->text, len, &g, &err);
    if (st == RP_OK) st = ir_verify(g, &err);
    if (wants_error) {
        if (st == RP_OK || !strstr(err.text, error))
            failed(c, "error", st == RP_OK ? "no error" : err.text, error);
    } else if (st != RP_OK) {
        failed(c, "parse or verify", err.text, "");
    } else {
        char *text = NULL;
        CHECK_OK(ir_print_string(g, &text, &err), &err);
        if (expect && strcmp(expect + 6, text) != 0) {
            if (BLESSING())
                bless(c, text);
            else
                failed(c, "print", text, expect + 6);
        }
        base_free(text);
        for (const char *p = c->text; (p = command(p, "; run: ", line, sizeof line)) != NULL;)
            run_line(c, g, line);
    }
    ir_graph_free(g);
}

/* --- files -------------------------------------------------------------------- */

static unsigned lines_before(const char *text, const char *p) {
    unsigned n = 1;
    for (; text < p; text++) n += *text == '\n';
    return n;
}

static void run_file(const char *path) {
    char *text = NULL;
    size_t size;
    rp_error err = {0};
    base_buf out;
    int n = 0;
    CHECK_OK(base_file_read(path, 1 << 20, &text, &size, &err), &err);
    base_buf_init(&out, 0);
    for (const char *p = text; p && *p; n++) {
        const char *end = strstr(p, SEPARATOR);
        test_case c = {path, lines_before(text, p),
                       base_strndup(p, end ? (size_t)(end - p) : strlen(p))};
        run_case(&c);
        base_buf_puts(&out, c.text);
        if (end) base_buf_puts(&out, SEPARATOR);
        base_free(c.text);
        p = end ? end + strlen(SEPARATOR) : NULL;
    }
    if (BLESSING() && strcmp(out.data, text) != 0)
        CHECK_OK(base_file_write_atomic(path, out.data, out.len, &err), &err);
    base_buf_done(&out);
    base_free(text);
    print_message("%s: %d cases\n", path, n);
}

static void ir_files(void **state) {
    struct dirent **names = NULL;
    int n = scandir("test/ir", &names, NULL, alphasort), n_files = 0;
    (void)state;
    n_failed = 0;
    for (int i = 0; i < n; i++) {
        char path[512];
        size_t len = strlen(names[i]->d_name);
        (void)snprintf(path, sizeof path, "test/ir/%s", names[i]->d_name);
        if (len > 3 && strcmp(names[i]->d_name + len - 3, ".ir") == 0) {
            run_file(path);
            n_files++;
        }
        free(names[i]);
    }
    free(names);
    assert_true(n_files > 0);
    assert_int_equal(n_failed, 0);
}

static void examples_of_the_manual(void **state) {
    char *text = NULL;
    size_t size;
    rp_error err = {0};
    int n = 0;
    (void)state;
    n_failed = 0;
    CHECK_OK(base_file_read("docs/ir.md", 1 << 20, &text, &size, &err), &err);
    for (const char *p = text; (p = strstr(p, "```ir\n")) != NULL; n++) {
        const char *end = strstr(p + 6, "```");
        test_case c = {"docs/ir.md", lines_before(text, p),
                       base_strndup(p + 6, (size_t)(end - p - 6))};
        run_case(&c);
        base_free(c.text);
        p = end + 3;
    }
    base_free(text);
    assert_true(n > 3);
    assert_int_equal(n_failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ir_files),
                                       cmocka_unit_test(examples_of_the_manual)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
