/* Runs the cases in test/stage/ *.ir; a line of "; ====" separates cases of a file.
 *   ; test fusion,kir,plan    prints the graph at those stages (rp_graph_lower_text; portable code); each is compared with the
 *                             text after its line "; --- STAGE"; gpu: what a GPU is given, launches and their code;
 *                             gpu-launches, host-launches: without code
 * What a graph becomes is compared whole: a buffer, an index or a barrier that differs is seen, also where results are the
 * same. BLESS=1 rewrites the texts. */
#include "support/check.h"

#include <dirent.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "target/target.h"
#include "reprise/reprise.h"
#include "trace/trace.h"

#define SEPARATOR "; ====\n"
#define COMMAND "; test "
#define RESULT "; --- "

static void put_size(const lower_piece *p, const char *what, ir_dim d, base_buf *out) {
    base_buf_puts(out, what);
    ir_dim_print(p->dims, d, out);
}

static void put_launch(const lower_piece *p, const lower_launch *l, base_buf *out) {
    static const char *const segs[] = {"input", "param", "pack", "state", "temp", "const"};
    base_buf_printf(out, "launch %s(", l->name);
    for (uint32_t i = 0; i < l->n_args; i++)
        base_buf_printf(out, "%s%s %u", i ? ", " : "", segs[l->args[i].seg], l->args[i].idx);
    put_size(p, ") rows ", l->rows, out);
    put_size(p, " items ", l->items, out);
    base_buf_printf(out, " grain %lld, %u a block of %u threads%s\n", (long long)l->grain,
                    l->per_block, l->threads, l->attention ? ", attention" : "");
    for (uint32_t i = 0; i < l->n_alts; i++) {
        const lower_alt *a = &l->alts[i];
        base_buf_printf(out, "  ");
        if (a->max < INT64_MAX) base_buf_printf(out, "<= %lld ", (long long)a->max);
        base_buf_printf(out, "%s", a->symbol ? a->symbol : "nothing");
        if (a->scratch) base_buf_printf(out, " shared %lld", (long long)a->scratch);
        if (a->threads) base_buf_printf(out, " threads %u", a->threads);
        if (a->per_sm) base_buf_printf(out, " per_sm %u", a->per_sm);
        if (a->per_block) base_buf_printf(out, " per_block %u", a->per_block);
        base_buf_printf(out, a->blocks ? " blocks %u\n" : "\n", a->blocks);
    }
}

/* The graph lowered for a target: memory, launches, kernels without what stands in front of all of them. */
static rp_status print_lowered(const rp_graph *user, gen_target target, bool code, char **out,
                               rp_error *err) {
    const lower_options o = {.target = target};
    ir_graph *g = NULL;
    lower_piece p;
    base_buf b;
    RP_TRY(pass_run_all(trace_graph_ir(user), NULL, &g, err));
    rp_status st = target_lower(g, &o, &p, err);
    ir_graph_free(g);
    RP_TRY(st);
    base_buf_init(&b, 0);
    for (uint32_t i = 0; i < p.n_temps; i++) {
        base_buf_printf(&b, "temp %u", i);
        put_size(&p, ": bytes ", p.temps[i].bytes, &b);
        base_buf_putc(&b, '\n');
    }
    for (uint32_t i = 0; i < p.n_packs; i++) {
        const lower_pack *k = &p.packs[i];
        base_buf_printf(&b, "pack %u: %s rows of %lld%s", i, rp_dtype_name(k->dtype),
                        (long long)k->k, k->swizzled ? " swizzled" : "");
        for (uint32_t s = 0; s < k->n_sections; s++) {
            base_buf_printf(&b, ", %lld of", (long long)k->sections[s].rows);
            for (uint32_t m = 0; m < k->sections[s].n_params; m++)
                base_buf_printf(&b, " %u%s", k->sections[s].params[m],
                                k->sections[s].by_k >> m & 1 ? " by k" : "");
        }
        base_buf_putc(&b, '\n');
    }
    for (uint32_t i = 0; i < p.n_launches; i++) put_launch(&p, &p.launches[i], &b);
    for (uint32_t i = 0; code && i < p.n_kernels; i++) {
        base_buf_printf(&b, "kernel %s\n", p.kernels[i].name);
        base_buf_add(&b, p.source + p.kernels[i].begin, p.kernels[i].end - p.kernels[i].begin);
    }
    lower_done(&p);
    *out = base_buf_take(&b);
    return *out ? RP_OK : rp_fail(err, RP_NOMEM, "text of a GPU");
}

static rp_status print_stage(const rp_graph *g, const char *stage, char **out, rp_error *err) {
    const bool alone = strstr(stage, "-launches") != NULL;
    if (strncmp(stage, "gpu", 3) == 0) return print_lowered(g, GEN_CUDA, !alone, out, err);
    if (alone) return print_lowered(g, GEN_HOST, false, out, err);
    return rp_graph_lower_text(g, stage, "portable", out, err);
}

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
        st = print_stage(g, w, &text, &err);
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
