/* What the page of reprise explain says of a graph: its guards, its pieces with their kernels, memory and compile time. */
#include "tools/page.h"

#include "tools/html.h"

static void put_guards(FILE *f, const json_t *g) {
    static const char *const heads[] = {"what a call is checked for", "because of", NULL};
    const json_t *guards = json_object_get(g, "guards");
    size_t i;
    json_t *o;
    (void)fprintf(f, "<details><summary>%zu guards</summary><div>\n", json_array_size(guards));
    tool_html_table(f, heads);
    json_array_foreach(guards, i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "by"));
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
    (void)fputs("</div></details>\n", f);
}

/* Nodes that give random bits, or of which the host sees something. */
static void put_facts(FILE *f, const json_t *g, const char *key, const char *what,
                      const char *why) {
    const char *const heads[] = {what, why, "made at", NULL};
    const json_t *list = json_object_get(g, key);
    size_t i;
    json_t *o;
    if (json_array_size(list) == 0) return;
    tool_html_table(f, heads);
    json_array_foreach(list, i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
        tool_html_element(f, "td", tool_html_string(o, "reason"));
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "sites"));
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
}

static void put_all_facts(FILE *f, const json_t *g) {
    put_facts(f, g, "random", "random bits", "which");
    put_facts(f, g, "host", "seen by the host", "how");
}

static void put_ops(FILE *f, const json_t *nodes) {
    size_t i;
    json_t *n;
    (void)fputs("<td class=\"k\">", f);
    json_array_foreach(nodes, i, n) {
        if (i) (void)fputs(" ", f);
        tool_html_text(f, tool_html_string(n, "op"));
    }
    (void)fputs("</td>", f);
}

static void put_kernel_row(FILE *f, const json_t *k) {
    (void)fputs("<tr>", f);
    tool_html_count(f, tool_html_number(k, "launch"));
    tool_html_element(f, "td class=\"k\"", tool_html_string(k, "name"));
    put_ops(f, json_object_get(k, "nodes"));
    tool_html_element(f, "td class=\"k\"", tool_html_string(k, "items"));
    tool_html_bytes(f, tool_html_number(k, "bytes"));
    (void)fputs("</tr>\n", f);
}

static void put_bodies(FILE *f, const json_t *bodies);

/* One that runs graphs is unfolded, since those are not told anywhere else. */
static void put_kernel(FILE *f, const json_t *k) {
    static const char *const heads[] = {"node", "made at", NULL};
    static const char *const memory[] = {"argument", "lies in", "#bytes", NULL};
    const char *source = tool_html_string(k, "source");
    size_t i;
    json_t *o;
    (void)fprintf(f, "<details%s><summary class=\"k\">",
                  json_object_get(k, "bodies") ? " open" : "");
    tool_html_text(f, tool_html_string(k, "name"));
    (void)fputs("</summary><div>\n", f);
    if (json_array_size(json_object_get(k, "nodes"))) {
        tool_html_table(f, heads);
        json_array_foreach(json_object_get(k, "nodes"), i, o) {
            (void)fputs("<tr>", f);
            tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
            tool_html_element(f, "td class=\"k\"", tool_html_string(o, "sites"));
            (void)fputs("</tr>\n", f);
        }
        tool_html_table_end(f);
    }
    tool_html_table(f, memory);
    json_array_foreach(json_object_get(k, "args"), i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "name"));
        tool_html_element(f, "td", tool_html_string(o, "in"));
        tool_html_bytes(f, tool_html_number(o, "bytes"));
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
    if (*source)
        tool_html_element(f, "pre", source);
    else if (json_object_get(k, "bodies"))
        put_bodies(f, json_object_get(k, "bodies"));
    else
        (void)fputs("<p class=\"dim\">A kernel of the library: no source is generated.</p>\n", f);
    (void)fputs("</div></details>\n", f);
}

static void put_refused(FILE *f, const json_t *p) {
    static const char *const heads[] = {"node", "with kernel", "why not", NULL};
    const json_t *list = json_object_get(p, "refused");
    size_t i;
    json_t *o;
    if (json_array_size(list) == 0) return;
    (void)fprintf(f, "<details><summary>%zu fusions refused</summary><div>\n",
                  json_array_size(list));
    tool_html_table(f, heads);
    json_array_foreach(list, i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
        if (json_object_get(o, "groups")) {
            char more[256];
            (void)snprintf(more, sizeof more, "%.0f more that touch %s",
                           tool_html_number(o, "groups"), tool_html_string(o, "value"));
            tool_html_element(f, "td", more);
        } else {
            tool_html_count(f, tool_html_number(o, "group"));
        }
        tool_html_element(f, "td", tool_html_string(o, "reason"));
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
    (void)fputs("</div></details>\n", f);
}

static void put_attention(FILE *f, const json_t *p) {
    static const char *const heads[] = {"attention", "#blocks of rows", "why it stays whole", NULL};
    const json_t *list = json_object_get(p, "attention");
    size_t i;
    json_t *o;
    if (json_array_size(list) == 0) return;
    tool_html_table(f, heads);
    json_array_foreach(list, i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
        tool_html_count(f, tool_html_number(o, "blocks"));
        tool_html_element(f, "td", tool_html_string(o, "reason"));
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
}

/* Pieces that are equal to an earlier one are counted with it. */
static size_t count_equal(const json_t *pieces, double submod) {
    size_t i, n = 0;
    json_t *p;
    json_array_foreach(pieces, i, p) n += tool_html_number(p, "same_as") == submod;
    return n;
}

static void put_piece(FILE *f, const json_t *pieces, const json_t *p) {
    static const char *const heads[] = {"#launch", "kernel", "computes", "items", "#bytes", NULL};
    const json_t *kernels = json_object_get(p, "kernels");
    size_t i, equal = count_equal(pieces, tool_html_number(p, "submod"));
    json_t *k;
    (void)fprintf(f, "<h3>submod_%.0f%s</h3>\n<p class=\"dim\">%.0f nodes",
                  tool_html_number(p, "submod"),
                  json_is_true(json_object_get(p, "splitting")) ? ", splitting" : "",
                  tool_html_number(p, "nodes"));
    if (json_object_get(p, "nodes_after"))
        (void)fprintf(f, ", %.0f after the passes", tool_html_number(p, "nodes_after"));
    (void)fprintf(f, "; launches: %zu", json_array_size(kernels));
    if (equal > 1) (void)fprintf(f, "; %zu equal pieces are compiled once", equal);
    (void)fputs(".</p>\n", f);
    tool_html_table(f, heads);
    json_array_foreach(kernels, i, k) put_kernel_row(f, k);
    tool_html_table_end(f);
    json_array_foreach(kernels, i, k) put_kernel(f, k);
    put_refused(f, p);
    put_attention(f, p);
}

static void put_pieces(FILE *f, const json_t *pieces) {
    size_t i;
    json_t *p;
    json_array_foreach(pieces, i, p) if (json_object_get(p, "kernels")) put_piece(f, pieces, p);
}

static void put_bodies(FILE *f, const json_t *bodies) {
    size_t i;
    json_t *g;
    json_array_foreach(bodies, i, g) {
        const char *times = tool_html_string(g, "times");
        (void)fputs("<h3>", f);
        tool_html_text(f, tool_html_string(g, "as"));
        (void)fputs(" @", f);
        tool_html_text(f, tool_html_string(g, "name"));
        (void)fprintf(f, "</h3>\n<p class=\"dim\">%.0f nodes; pieces: %zu; launches: %.0f",
                      tool_html_number(g, "nodes"), json_array_size(json_object_get(g, "pieces")),
                      tool_html_number(g, "launches"));
        if (*times) (void)fputs("; times ", f);
        tool_html_text(f, times);
        (void)fprintf(f, "; arena: %.0f bytes.</p>\n",
                      tool_html_number(json_object_get(g, "arena"), "top"));
        put_all_facts(f, g);
        put_pieces(f, json_object_get(g, "pieces"));
    }
}

static void put_sizes(FILE *f, const json_t *g) {
    json_t *sizes = json_object_get(g, "sizes"), *v;
    const char *key;
    const char *before = ", bytes at ";
    json_object_foreach(sizes, key, v) {
        (void)fputs(before, f);
        tool_html_text(f, key);
        (void)fprintf(f, "=%.0f", json_number_value(v));
        before = ", ";
    }
}

void tool_page_graph(FILE *f, const json_t *g) {
    const json_t *arena = json_object_get(g, "arena"), *pieces = json_object_get(g, "pieces");
    (void)fputs("<h2 id=\"graph-", f);
    tool_html_text(f, tool_html_string(g, "name"));
    (void)fputs("\">Graph ", f);
    tool_html_text(f, tool_html_string(g, "name"));
    (void)fprintf(f, "</h2>\n<p class=\"dim\">%.0f nodes; pieces: %zu; launches: %.0f; ",
                  tool_html_number(g, "nodes"), json_array_size(pieces),
                  tool_html_number(g, "launches"));
    tool_html_text(f, tool_html_string(g, "backend"));
    (void)fputs(" for ", f);
    tool_html_text(f, tool_html_string(g, "isa"));
    put_sizes(f, g);
    (void)fputs(".</p>\n", f);
    put_guards(f, g);
    put_all_facts(f, g);
    (void)fputs("<figure>", f);
    tool_html_timeline(f, json_object_get(arena, "values"), tool_html_number(arena, "top"),
                       tool_html_number(g, "launches"));
    (void)fputs("<figcaption>Memory that values share: from the launch that makes one to the last "
                "that reads it, at its place in the arena.</figcaption></figure>\n<figure>",
                f);
    tool_html_flame(f, json_object_get(g, "spans"));
    (void)fputs("<figcaption>Compile time, without the compiler of the host or the GPU."
                "</figcaption></figure>\n",
                f);
    put_pieces(f, pieces);
}
