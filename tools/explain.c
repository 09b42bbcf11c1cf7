/* reprise explain: why a model or a graph runs as it does: settings that were overruled, pieces, kernels, and which graph serves
 * each reachable batch; with --times what each piece takes; with --html all of it as a page. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/graph.h"
#include "tools/html.h"
#include "tools/input.h"
#include "tools/page.h"
#include "tools/stages.h"

/* Step sizes with code of their own. */
static void print_sizes(const json_t *sizes) {
    size_t i;
    json_t *s;
    if (!json_array_size(sizes)) return;
    (void)printf("code of its own for steps of");
    json_array_foreach(sizes, i, s)(void)
        printf("%s %.0f (%.0f kernels)", i ? "," : "", tool_html_number(s, "tokens"),
               tool_html_number(s, "kernels"));
    (void)printf(" tokens\n");
}

static void print_ranges(const json_t *ranges) {
    size_t i;
    json_t *r;
    if (!json_array_size(ranges)) return;
    (void)printf("code of its own for steps within");
    json_array_foreach(ranges, i, r)(void)
        printf("%s %.0f to %.0f (%.0f kernels)", i ? "," : "", tool_html_number(r, "first"),
               tool_html_number(r, "last"), tool_html_number(r, "kernels"));
    (void)printf(" tokens\n");
}

static void print_text(const json_t *o, const char *coverage, const json_t *times) {
    const json_t *p = json_object_get(o, "pieces");
    json_t *skip, *pass;
    size_t i;
    (void)printf("model %s\nlevel %lld, cudagraph_mode %s, isa %s\n",
                 json_string_value(json_object_get(o, "model")),
                 (long long)json_integer_value(json_object_get(o, "level")),
                 json_string_value(json_object_get(o, "cudagraph_mode")),
                 json_string_value(json_object_get(o, "isa")));
    (void)printf("pieces %lld, compiled %lld, distinct %lld\n",
                 (long long)json_integer_value(json_object_get(p, "total")),
                 (long long)json_integer_value(json_object_get(p, "compiled")),
                 (long long)json_integer_value(json_object_get(p, "distinct")));
    print_sizes(json_object_get(o, "compile_sizes"));
    print_ranges(json_object_get(o, "compile_ranges"));
    json_array_foreach(json_object_get(o, "passes"), i, pass)(void)
        printf("pass %s matched %lld\n", json_string_value(json_object_get(pass, "name")),
               (long long)json_integer_value(json_object_get(pass, "matches")));
    json_array_foreach(json_object_get(o, "skips"), i, skip)(void)
        printf("note %s: %s\n", json_string_value(json_object_get(skip, "what")),
               json_string_value(json_object_get(skip, "reason")));
    (void)printf("coverage\n%s", coverage);
    tool_print_times(times);
}

static void print_bytes(const char *what, json_t *lines) {
    const char *name, *comma = "";
    json_t *bytes;
    (void)printf("%s:", what);
    json_object_foreach(lines, name, bytes) {
        (void)printf("%s %s %lld bytes", comma, name, (long long)json_integer_value(bytes));
        comma = ",";
    }
    (void)printf("\n");
}

static void print_ledger(const json_t *o) {
    json_t *device = json_object_get(o, "device_memory");
    (void)printf("graph breaks %.0f, recompiles %.0f\n", tool_html_number(o, "graph_breaks"),
                 tool_html_number(o, "recompiles"));
    print_bytes("memory", json_object_get(o, "memory"));
    if (json_is_object(device)) print_bytes("memory of the device", device);
}

/* --- graphs -------------------------------------------------------------------------- */

static json_t *explain_graph(const tool_args *a, const char *path,
                             const rp_compilation_config *config, int *rc) {
    rp_compilation_config *own = NULL;
    char *text = NULL;
    rp_error err = {0};
    json_t *o = NULL;
    rp_graph *g = tool_read_graph(path, rc);
    if (!g) return NULL;
    rp_status st = rp_config_clone(config, &own, &err);
    if (st == RP_OK) st = rp_graph_explain(g, own, tool_get(a, TOOL_FLAG_SIZES), &text, &err);
    if (st == RP_OK) o = json_loads(text, 0, NULL);
    *rc = st != RP_OK ? tool_fail_at(path, 0, st, &err) : o ? 0 : tool_error("out of memory");
    rp_free(text);
    rp_config_free(own);
    rp_graph_free(g);
    return o;
}

static void print_pieces(const json_t *g, int indent);

/* Nodes that give random bits, or of which the host sees something. */
static void print_facts(const json_t *g, const char *what, int indent) {
    size_t i;
    json_t *o;
    json_array_foreach(json_object_get(g, what), i, o) {
        const char *reason = tool_html_string(o, "reason"), *sites = tool_html_string(o, "sites");
        (void)printf("%*s%s %s%s%s%s%s\n", indent, "", what, tool_html_string(o, "text"),
                     *reason ? ": " : "", reason, *sites ? "  ; " : "", sites);
    }
}

/* A graph that a kernel runs, below the kernel. */
static void print_body(const json_t *g, int indent) {
    const char *times = tool_html_string(g, "times");
    (void)printf("%*s%s @%s: %.0f nodes; pieces %zu, launches %.0f", indent, "",
                 tool_html_string(g, "as"), tool_html_string(g, "name"),
                 tool_html_number(g, "nodes"), json_array_size(json_object_get(g, "pieces")),
                 tool_html_number(g, "launches"));
    (void)printf("%s%s; arena %.0f bytes\n", *times ? ", times " : "", times,
                 tool_html_number(json_object_get(g, "arena"), "top"));
    print_facts(g, "random", indent + 2);
    print_facts(g, "host", indent + 2);
    print_pieces(g, indent + 2);
}

static void print_kernel(const json_t *k, int indent) {
    size_t i;
    json_t *o;
    (void)printf("%*s%.0f %s: %.0f bytes, items %s%s\n", indent, "", tool_html_number(k, "launch"),
                 tool_html_string(k, "name"), tool_html_number(k, "bytes"),
                 tool_html_string(k, "items"),
                 json_is_true(json_object_get(k, "built_in")) ? ", built in" : "");
    json_array_foreach(json_object_get(k, "nodes"), i, o) {
        const char *sites = tool_html_string(o, "sites");
        (void)printf("%*s%s%s%s\n", indent + 4, "", tool_html_string(o, "text"),
                     *sites ? "  ; " : "", sites);
    }
    json_array_foreach(json_object_get(k, "bodies"), i, o) print_body(o, indent + 4);
}

static void print_attention(const json_t *o, int indent) {
    (void)printf("%*sattention %s", indent, "", tool_html_string(o, "text"));
    if (tool_html_number(o, "blocks") > 0)
        (void)printf(" in blocks of rows: %.0f\n", tool_html_number(o, "blocks"));
    else
        (void)printf(" stays whole: %s\n", tool_html_string(o, "reason"));
}

static void print_refused(const json_t *o, int indent) {
    (void)printf("%*srefused %s with ", indent, "", tool_html_string(o, "text"));
    if (json_object_get(o, "groups"))
        (void)printf("%.0f more that touch %s", tool_html_number(o, "groups"),
                     tool_html_string(o, "value"));
    else
        (void)printf("group %.0f", tool_html_number(o, "group"));
    (void)printf(": %s\n", tool_html_string(o, "reason"));
}

static void print_piece(const json_t *p, int indent) {
    const json_t *kernels = json_object_get(p, "kernels");
    size_t i;
    json_t *o;
    (void)printf("%*ssubmod_%.0f%s, %.0f nodes", indent, "", tool_html_number(p, "submod"),
                 json_is_true(json_object_get(p, "splitting")) ? ", splitting" : "",
                 tool_html_number(p, "nodes"));
    if (!kernels) {
        (void)printf(", same as submod_%.0f\n", tool_html_number(p, "same_as"));
        return;
    }
    (void)printf(", %.0f after the passes; kernels: %zu\n", tool_html_number(p, "nodes_after"),
                 json_array_size(kernels));
    json_array_foreach(kernels, i, o) print_kernel(o, indent + 2);
    json_array_foreach(json_object_get(p, "refused"), i, o) print_refused(o, indent + 2);
    json_array_foreach(json_object_get(p, "attention"), i, o) print_attention(o, indent + 2);
}

static void print_pieces(const json_t *g, int indent) {
    size_t i;
    json_t *o;
    json_array_foreach(json_object_get(g, "pieces"), i, o) print_piece(o, indent);
}

static void print_graph(const json_t *g) {
    const json_t *arena = json_object_get(g, "arena");
    size_t i;
    json_t *o;
    (void)printf("graph @%s: %.0f nodes; pieces %zu, launches %.0f; %s for %s\n",
                 tool_html_string(g, "name"), tool_html_number(g, "nodes"),
                 json_array_size(json_object_get(g, "pieces")), tool_html_number(g, "launches"),
                 tool_html_string(g, "backend"), tool_html_string(g, "isa"));
    (void)printf("guards\n");
    json_array_foreach(json_object_get(g, "guards"), i, o) {
        const char *by = tool_html_string(o, "by");
        (void)printf("  %s%s%s\n", tool_html_string(o, "text"), *by ? "  ; " : "", by);
    }
    print_facts(g, "random", 0);
    print_facts(g, "host", 0);
    print_pieces(g, 0);
    (void)printf("memory: arena %.0f bytes (%.0f at the largest sizes), packed weights %.0f\n",
                 tool_html_number(arena, "top"), tool_html_number(arena, "bytes"),
                 tool_html_number(arena, "weights"));
}

/* --- the page ---------------------------------------------------------------------------- */

static int write_page(const tool_args *a, const json_t *page) {
    const char *path = tool_get(a, TOOL_FLAG_HTML);
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    bool ok = f != NULL;
    if (ok) tool_page(f, page);
    if (ok) ok = fflush(f) == 0 && !ferror(f);
    if (f && f != stdout) ok = fclose(f) == 0 && ok;
    if (ok && strcmp(path, "-") != 0) tool_note(a, "the page is in %s", path);
    return ok ? 0 : tool_error("cannot write %s", path);
}

static json_t *new_page(const tool_args *a) {
    return json_pack("{s:o,s:s,s:[]}", "title", tool_json_text(a->pos[0]), "version", rp_version(),
                     "graphs");
}

static int explain_file(const tool_args *a) {
    int rc = 0;
    json_t *page = new_page(a), *g = explain_graph(a, a->pos[0], a->config, &rc);
    if (g) (void)json_array_append(json_object_get(page, "graphs"), g);
    if (g && tool_on(a, TOOL_FLAG_JSON)) rc = tool_event("graph", json_incref(g), 10) ? 0 : 1;
    if (g && !tool_on(a, TOOL_FLAG_JSON) && !tool_get(a, TOOL_FLAG_HTML)) print_graph(g);
    if (g && rc == 0 && tool_get(a, TOOL_FLAG_HTML)) rc = write_page(a, page);
    json_decref(g);
    json_decref(page);
    return rc;
}

/* --- models ---------------------------------------------------------------------------- */

typedef struct model {
    tool_args *a;
    const tool_stages *stages;
    json_t *page; /* NULL: graphs are printed */
} model;

static int add_graph(void *user, const char *what, const char *path) {
    const model *m = user;
    int rc = 0;
    json_t *g = explain_graph(m->a, path, m->stages->config, &rc);
    (void)what;
    if (!g) return rc;
    if (m->page) return json_array_append_new(json_object_get(m->page, "graphs"), g) ? 1 : 0;
    if (m->a->json) return tool_event("graph", g, 10) ? 0 : TOOL_EXIT_FAILED;
    print_graph(g);
    json_decref(g);
    return 0;
}

static int make_page(tool_args *a, const tool_stages *s, json_t *summary, const char *coverage,
                     json_t *times) {
    model m = {a, s, new_page(a)};
    (void)json_object_set(m.page, "summary", summary);
    (void)json_object_set_new(m.page, "coverage", json_loads(coverage, 0, NULL));
    if (times) (void)json_object_set(m.page, "times", times);
    int rc = tool_stages_each(s, "0_traced.", add_graph, &m);
    if (rc == 0) rc = write_page(a, m.page);
    json_decref(m.page);
    return rc;
}

/* What a model tells of itself; stages is NULL where its graphs are not wanted. */
static int explain_engine(tool_args *a, rp_engine *e, const tool_stages *stages) {
    int rc = 0;
    char *coverage = NULL;
    long long steps = 0;
    bool page = tool_get(a, TOOL_FLAG_HTML) != NULL, graphs = stages && !page;
    rp_profile_options profile = RP_PROFILE_OPTIONS_INIT;
    rp_error err = {0};
    json_t *o = stages ? tool_facts(e) : tool_summary(a, e), *times = NULL;
    if (stages) (void)json_object_del(o, "debug_dump"); /* it goes when this ends */
    if (!tool_int(a, TOOL_FLAG_TIMES, 0, &steps)) rc = TOOL_EXIT_USAGE;
    rp_status st = a->json || page ? rp_engine_coverage_json(e, &coverage, &err)
                                   : rp_engine_coverage(e, &coverage, &err);
    profile.steps = (uint32_t)steps;
    if (rc == 0 && steps) rc = tool_measure(e, &profile, &times);
    if (rc) {
        /* said already */
    } else if (!o) {
        rc = TOOL_EXIT_FAILED;
    } else if (st != RP_OK) {
        rc = tool_fail(st, &err);
    } else if (page) {
        rc = make_page(a, stages, o, coverage, times);
    } else if (!a->json) {
        print_text(o, coverage, times);
        if (graphs) print_ledger(o);
    }
    if (rc == 0 && a->json) {
        (void)json_object_set_new(o, "coverage", json_loads(coverage, 0, NULL));
        if (times) (void)json_object_set(o, "times", times);
        rc = tool_event("summary", json_incref(o), 10) ? 0 : TOOL_EXIT_FAILED;
    }
    if (rc == 0 && graphs)
        rc = tool_stages_each(stages, "0_traced.", add_graph, &(model){a, stages, NULL});
    json_decref(o);
    json_decref(times);
    rp_engine_text_free(coverage);
    return rc;
}

static int explain_model(tool_args *a) {
    tool_stages s;
    bool graphs = tool_get(a, TOOL_FLAG_HTML) != NULL || tool_on(a, TOOL_FLAG_GRAPHS);
    int rc = graphs ? tool_stages_open(a, &s) : 0;
    rp_engine *e = rc ? NULL : tool_open(a, false, &rc);
    if (e) rc = explain_engine(a, e, graphs ? &s : NULL);
    rp_engine_close(e);
    if (graphs) tool_stages_done(&s);
    return rc;
}

int tool_explain(tool_args *a) {
    const char *html = tool_get(a, TOOL_FLAG_HTML);
    long long steps = 0;
    rp_error err = {0};
    if (!tool_int(a, TOOL_FLAG_TIMES, 0, &steps)) return TOOL_EXIT_USAGE;
    if (a->json && html && strcmp(html, "-") == 0)
        return tool_usage("--json and --html - both want standard output");
    tool_interrupt_init();
    rp_status st = rp_config_apply_default_olevel(a->config, 2, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (!tool_is_graph(a->pos[0])) {
        if (tool_get(a, TOOL_FLAG_SIZES))
            return tool_usage("--sizes is for graphs: reprise explain FILE.ir");
        return explain_model(a);
    }
    if (steps) return tool_usage("--times is for models: what a graph takes is not measured");
    return explain_file(a);
}
