/* What the page of reprise explain says of a model: how it was loaded, what it takes, which graph serves which batch, a step measured. */
#include "tools/page.h"

#include "tools/html.h"

static void card(FILE *f, const char *what, const char *value) {
    (void)fputs("<div class=\"card\">", f);
    tool_html_element(f, "b", value);
    tool_html_element(f, "span", what);
    (void)fputs("</div>\n", f);
}

static void card_number(FILE *f, const char *what, double v) {
    char text[32];
    (void)snprintf(text, sizeof text, "%.0f", v);
    card(f, what, text);
}

static void put_cards(FILE *f, const json_t *s) {
    const json_t *p = json_object_get(s, "pieces");
    char text[64];
    (void)fputs("<div class=\"cards\">\n", f);
    (void)snprintf(text, sizeof text, "%.0f", tool_html_number(s, "level"));
    card(f, "level", text);
    card(f, "graph mode", tool_html_string(s, "cudagraph_mode"));
    card(f, "device", tool_html_string(s, "device"));
    card(f, "instructions", tool_html_string(s, "isa"));
    card_number(f, "pieces", tool_html_number(p, "total"));
    card_number(f, "distinct", tool_html_number(p, "distinct"));
    card_number(f, "kernels", tool_html_number(s, "kernels"));
    card_number(f, "captures", tool_html_number(s, "captures"));
    card_number(f, "recompiles", tool_html_number(s, "recompiles"));
    card_number(f, "graph breaks", tool_html_number(s, "graph_breaks"));
    (void)snprintf(text, sizeof text, "%.3g s", tool_html_number(s, "load_ms") / 1e3);
    card(f, "to load", text);
    (void)fputs("</div>\n", f);
}

static void put_notes(FILE *f, const json_t *s) {
    static const char *const heads[] = {"what", "why", NULL};
    const json_t *skips = json_object_get(s, "skips");
    size_t i;
    json_t *skip;
    (void)fputs("<h2 id=\"notes\">What was overruled</h2>\n", f);
    if (json_array_size(skips) == 0) {
        (void)fputs("<p class=\"dim\">Nothing: every setting is as it was asked for.</p>\n", f);
        return;
    }
    tool_html_table(f, heads);
    json_array_foreach(skips, i, skip) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(skip, "what"));
        tool_html_element(f, "td", tool_html_string(skip, "reason"));
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
}

/* first: of the lines of memory, the first that takes some of it. */
static void put_ledger(FILE *f, json_t *memory, const char *title, size_t first) {
    static const char *const heads[] = {"what", "#bytes", "share of all", NULL};
    json_t *v;
    const char *key;
    double all = 0;
    size_t i = 0;
    json_object_foreach(memory, key, v) all += i++ < first ? 0 : json_number_value(v);
    if (!(all > 0)) return;
    (void)fprintf(f, "<h2 id=\"memory\">%s</h2>\n", title);
    tool_html_table(f, heads);
    i = 0;
    json_object_foreach(memory, key, v) {
        if (i++ < first) continue;
        (void)fputs("<tr>", f);
        tool_html_element(f, "td", key);
        tool_html_bytes(f, json_number_value(v));
        tool_html_share(f, json_number_value(v) / all, key);
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
}

/* Stages of loading, one behind the other, as spans. */
static void put_load(FILE *f, const json_t *s) {
    static const char *const parts[] = {"fetch", "device",  "trace",  "compile",
                                        "pack",  "weights", "runner", "capture"};
    json_t *spans = json_array();
    double at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%s_ms", parts[i]);
        double ms = tool_html_number(s, key);
        if (!(ms > 0)) continue;
        (void)json_array_append_new(spans, json_pack("{s:s,s:f,s:f,s:i}", "name", parts[i],
                                                     "start_ms", at, "ms", ms, "depth", 0));
        at += ms;
    }
    (void)fputs("<h2 id=\"load\">Where loading takes its time</h2>\n<figure>", f);
    tool_html_flame(f, spans);
    (void)fprintf(f,
                  "<figcaption>%.0f compiler runs, %.0f units of code from the cache, %.0f "
                  "traces.</figcaption></figure>\n",
                  tool_html_number(s, "compiles"), tool_html_number(s, "cache_hits"),
                  tool_html_number(s, "traces"));
    json_decref(spans);
}

void tool_page_coverage(FILE *f, const json_t *c) {
    static const char *const heads[] = {"kind", "#from", "#to", "mode", "key", "#padding", NULL};
    size_t i;
    json_t *r;
    if (!c) return;
    double tokens = tool_html_number(c, "tokens");
    (void)fprintf(f,
                  "<h2 id=\"coverage\">Which graph serves which batch</h2>\n<p>%.0f of %.0f step "
                  "sizes have a graph, %.1f&#8239;%% of all rows are padding.</p>\n",
                  tool_html_number(c, "sizes") - tool_html_number(c, "without_graph"),
                  tool_html_number(c, "sizes"),
                  tokens > 0 ? 100 * tool_html_number(c, "padding") / tokens : 0.0);
    (void)fputs("<details><summary>all of them</summary><div>\n", f);
    tool_html_table(f, heads);
    json_array_foreach(json_object_get(c, "runs"), i, r) {
        const char *key = tool_html_string(r, "key");
        (void)fputs("<tr>", f);
        tool_html_element(f, "td", tool_html_string(r, "kind"));
        tool_html_count(f, tool_html_number(r, "from"));
        tool_html_count(f, tool_html_number(r, "to"));
        tool_html_element(f, "td", tool_html_string(r, "mode"));
        tool_html_element(f, "td class=\"k\"", *key ? key : tool_html_string(r, "reason"));
        tool_html_count(f, tool_html_number(r, "max_padding"));
        (void)fputs("</tr>\n", f);
    }
    tool_html_table_end(f);
    (void)fputs("</div></details>\n", f);
}

static void put_cost(FILE *f, const json_t *o, const char *kind) {
    const json_t *bytes = json_object_get(o, "bytes"), *limit = json_object_get(o, "of_limit");
    (void)fputs("<tr>", f);
    tool_html_element(f, kind, tool_html_string(o, "name"));
    (void)fprintf(f, "<td class=\"n\">%.4f</td>", tool_html_number(o, "ms"));
    tool_html_share(f, tool_html_number(o, "share"), "share of the step");
    if (json_is_number(bytes))
        tool_html_bytes(f, json_number_value(bytes));
    else
        (void)fputs("<td class=\"n\">-</td>", f);
    if (json_is_number(limit))
        tool_html_share(f, json_number_value(limit), "share of what the memory can give");
    else
        (void)fputs("<td class=\"dim\">-</td>", f);
    (void)fputs("</tr>\n", f);
}

void tool_page_times(FILE *f, const json_t *t) {
    static const char *const heads[] = {"piece and launch",  "#ms", "of the step", "#reads",
                                        "of the read limit", NULL};
    size_t i, k;
    json_t *piece, *launch;
    if (!t) return;
    (void)fprintf(f,
                  "<h2 id=\"times\">A decode step, measured</h2>\n<p>%.3f ms as served, %.3f ms "
                  "launch by launch, after %.0f positions",
                  tool_html_number(t, "step_ms"), tool_html_number(t, "launches_ms"),
                  tool_html_number(t, "context"));
    if (json_is_number(json_object_get(t, "read_limit_gb_s")))
        (void)fprintf(f, "; the weights alone are read at %.1f GB/s",
                      tool_html_number(t, "read_limit_gb_s"));
    (void)fputs(".</p>\n", f);
    tool_html_table(f, heads);
    json_array_foreach(json_object_get(t, "pieces"), i, piece) {
        const json_t *launches = json_object_get(piece, "launches");
        put_cost(f, piece, "td");
        if (json_array_size(launches) > 1)
            json_array_foreach(launches, k, launch) put_cost(f, launch, "td class=\"k in\"");
    }
    tool_html_table_end(f);
}

void tool_page_summary(FILE *f, const json_t *s) {
    if (!s) return;
    put_cards(f, s);
    put_notes(f, s);
    put_load(f, s);
    enum { TAKEN = 2 }; /* behind total and free */
    put_ledger(f, json_object_get(s, "memory"), "Memory", 0);
    put_ledger(f, json_object_get(s, "device_memory"), "Memory of the device", TAKEN);
}
