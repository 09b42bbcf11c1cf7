/* The page of reprise explain --html: what a model or a graph was compiled to, and why it runs as it does. */
#include <math.h>
#include <string.h>

#include "tools/html.h"

static const char style[] =
    ":root{color-scheme:light "
    "dark;--bg:#fff;--fg:#1c2128;--dim:#5c6673;--line:#d8dee4;--soft:#f5f7f9;--accent:#2563a8;"
    "--c0:#8fb8de;--c1:#f2b279;--c2:#a3cf9f;--c3:#e59c9c;--c4:#bfaadb;--c5:#c9b49b;--c6:#e8a9cc;--"
    "c7:#93cbc9}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#dde3ea;--dim:#94a0ad;--line:#"
    "30373f;--soft:#1c2127;"
    "--accent:#6ea8e0;--c0:#345f8a;--c1:#8a5a2b;--c2:#3f6f3b;--c3:#8a4444;--c4:#5f4a80;--c5:#"
    "6b573d;--c6:#83486a;--c7:#2f6b69}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:14px/1.5 "
    "system-ui,-apple-system,"
    "\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "main{max-width:1180px;margin:0 auto;padding:32px 24px 80px}h1{font-size:24px;margin:0 0 "
    "4px;overflow-wrap:anywhere}"
    "h2{font-size:18px;margin:40px 0 8px;padding-top:16px;border-top:1px solid "
    "var(--line)}h3{font-size:15px;margin:24px 0 6px}\n"
    "p{margin:6px "
    "0;max-width:80ch}.dim,figcaption{color:var(--dim)}code,pre,.k{font-family:ui-monospace,"
    "\"DejaVu Sans Mono\","
    "Menlo,Consolas,monospace;font-size:12.5px}\n"
    ".cards{display:flex;flex-wrap:wrap;gap:10px;margin:20px 0}.card{border:1px solid "
    "var(--line);border-radius:8px;"
    "padding:8px 16px;min-width:104px;background:var(--soft)}.card "
    "b{display:block;font-size:19px;font-variant-numeric:tabular-nums}"
    ".card span{color:var(--dim);font-size:12px}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:8px "
    "0}th,td{text-align:left;vertical-align:top;"
    "padding:5px 12px 5px 0;border-bottom:1px solid "
    "var(--line)}th{font-weight:600;color:var(--dim);font-size:12px;"
    "white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:"
    "nowrap}td.k{overflow-wrap:anywhere}td.in{padding-left:20px}\n"
    "td.bar{position:relative;min-width:150px;white-space:nowrap}td.bar "
    "span{position:absolute;left:0;top:4px;bottom:4px;"
    "background:var(--c0);border-radius:3px}td.bar "
    "b{position:relative;padding-left:6px;font-weight:500;"
    "font-variant-numeric:tabular-nums}\n"
    "details{border:1px solid var(--line);border-radius:8px;margin:6px "
    "0;background:var(--soft)}summary{cursor:pointer;padding:6px 12px;"
    "overflow-wrap:anywhere}details>div{padding:0 12px 8px}pre{overflow-x:auto;margin:8px "
    "0;padding:10px;background:var(--bg);"
    "border:1px solid var(--line);border-radius:6px;max-height:520px}\n"
    "figure{margin:12px 0}.chart{display:block;width:100%;height:auto;border:1px solid "
    "var(--line);border-radius:8px;"
    "background:var(--soft)}.chart text{font:11px ui-monospace,\"DejaVu Sans "
    "Mono\",monospace;fill:var(--fg)}"
    ".axis text{fill:var(--dim)!important}.axis "
    "line{stroke:var(--line)}.mid{text-anchor:middle}.last{text-anchor:end}\n"
    ".c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}.c4{fill:var(--c4)"
    "}.c5{fill:var(--c5)}"
    ".c6{fill:var(--c6)}.c7{fill:var(--c7)}nav{margin:12px 0}nav "
    "a{margin-right:16px;color:var(--accent);text-decoration:none}"
    "nav a:hover{text-decoration:underline}\n"
    "@media print{details{break-inside:avoid}pre{max-height:none}}\n";

static void table(FILE *f, const char *const *heads) {
    (void)fputs("<div class=\"wide\"><table><thead><tr>", f);
    for (; *heads; heads++)
        tool_html_element(f, **heads == '#' ? "th class=\"n\"" : "th", *heads + (**heads == '#'));
    (void)fputs("</tr></thead><tbody>\n", f);
}

static void table_end(FILE *f) {
    (void)fputs("</tbody></table></div>\n", f);
}

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

/* --- a model ------------------------------------------------------------------------- */

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
    table(f, heads);
    json_array_foreach(skips, i, skip) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(skip, "what"));
        tool_html_element(f, "td", tool_html_string(skip, "reason"));
        (void)fputs("</tr>\n", f);
    }
    table_end(f);
}

static void put_ledger(FILE *f, const json_t *s) {
    static const char *const heads[] = {"what", "#bytes", "share of all", NULL};
    json_t *memory = json_object_get(s, "memory"), *v;
    const char *key;
    double all = 0;
    json_object_foreach(memory, key, v) all += json_number_value(v);
    if (!(all > 0)) return;
    (void)fputs("<h2 id=\"memory\">Memory</h2>\n", f);
    table(f, heads);
    json_object_foreach(memory, key, v) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td", key);
        tool_html_bytes(f, json_number_value(v));
        tool_html_share(f, json_number_value(v) / all, key);
        (void)fputs("</tr>\n", f);
    }
    table_end(f);
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

static void put_coverage(FILE *f, const json_t *c) {
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
    table(f, heads);
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
    table_end(f);
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

static void put_times(FILE *f, const json_t *t) {
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
    table(f, heads);
    json_array_foreach(json_object_get(t, "pieces"), i, piece) {
        const json_t *launches = json_object_get(piece, "launches");
        put_cost(f, piece, "td");
        if (json_array_size(launches) > 1)
            json_array_foreach(launches, k, launch) put_cost(f, launch, "td class=\"k in\"");
    }
    table_end(f);
}

/* --- a graph ---------------------------------------------------------------------------- */

static void put_guards(FILE *f, const json_t *g) {
    static const char *const heads[] = {"what a call is checked for", "because of", NULL};
    const json_t *guards = json_object_get(g, "guards");
    size_t i;
    json_t *o;
    (void)fprintf(f, "<details><summary>%zu guards</summary><div>\n", json_array_size(guards));
    table(f, heads);
    json_array_foreach(guards, i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "by"));
        (void)fputs("</tr>\n", f);
    }
    table_end(f);
    (void)fputs("</div></details>\n", f);
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

static void put_kernel(FILE *f, const json_t *k) {
    static const char *const heads[] = {"node", "made at", NULL};
    static const char *const memory[] = {"argument", "lies in", "#bytes", NULL};
    const char *source = tool_html_string(k, "source");
    size_t i;
    json_t *o;
    (void)fputs("<details><summary class=\"k\">", f);
    tool_html_text(f, tool_html_string(k, "name"));
    (void)fputs("</summary><div>\n", f);
    if (json_array_size(json_object_get(k, "nodes"))) {
        table(f, heads);
        json_array_foreach(json_object_get(k, "nodes"), i, o) {
            (void)fputs("<tr>", f);
            tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
            tool_html_element(f, "td class=\"k\"", tool_html_string(o, "sites"));
            (void)fputs("</tr>\n", f);
        }
        table_end(f);
    }
    table(f, memory);
    json_array_foreach(json_object_get(k, "args"), i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "name"));
        tool_html_element(f, "td", tool_html_string(o, "in"));
        tool_html_bytes(f, tool_html_number(o, "bytes"));
        (void)fputs("</tr>\n", f);
    }
    table_end(f);
    if (*source)
        tool_html_element(f, "pre", source);
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
    table(f, heads);
    json_array_foreach(list, i, o) {
        (void)fputs("<tr>", f);
        tool_html_element(f, "td class=\"k\"", tool_html_string(o, "text"));
        tool_html_count(f, tool_html_number(o, "group"));
        tool_html_element(f, "td", tool_html_string(o, "reason"));
        (void)fputs("</tr>\n", f);
    }
    table_end(f);
    (void)fputs("</div></details>\n", f);
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
    table(f, heads);
    json_array_foreach(kernels, i, k) put_kernel_row(f, k);
    table_end(f);
    json_array_foreach(kernels, i, k) put_kernel(f, k);
    put_refused(f, p);
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

static void put_graph(FILE *f, const json_t *g) {
    const json_t *arena = json_object_get(g, "arena"), *pieces = json_object_get(g, "pieces");
    size_t i;
    json_t *p;
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
    json_array_foreach(pieces, i, p) if (json_object_get(p, "kernels")) put_piece(f, pieces, p);
}

/* --- the page ---------------------------------------------------------------------------- */

static void put_nav(FILE *f, const json_t *o) {
    static const char *const links[][3] = {{"summary", "notes", "Overruled"},
                                           {"summary", "load", "Loading"},
                                           {"summary", "memory", "Memory"},
                                           {"coverage", "coverage", "Coverage"},
                                           {"times", "times", "A step"}};
    size_t i;
    json_t *g;
    (void)fputs("<nav>", f);
    for (i = 0; i < sizeof links / sizeof *links; i++)
        if (json_object_get(o, links[i][0]))
            (void)fprintf(f, "<a href=\"#%s\">%s</a>", links[i][1], links[i][2]);
    json_array_foreach(json_object_get(o, "graphs"), i, g) {
        (void)fputs("<a href=\"#graph-", f);
        tool_html_text(f, tool_html_string(g, "name"));
        (void)fputs("\">Graph ", f);
        tool_html_text(f, tool_html_string(g, "name"));
        (void)fputs("</a>", f);
    }
    (void)fputs("</nav>\n", f);
}

void tool_html_page(FILE *f, const json_t *o) {
    const json_t *s = json_object_get(o, "summary");
    size_t i;
    json_t *g;
    (void)fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta "
                "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
                f);
    tool_html_text(f, tool_html_string(o, "title"));
    (void)fprintf(f, " - reprise explain</title>\n<style>\n%s</style></head>\n<body><main>\n",
                  style);
    tool_html_element(f, "h1", tool_html_string(o, "title"));
    (void)fputs(
        "<p class=\"dim\">What it was compiled to, and why it runs as it does: <code>reprise "
        "explain</code> ",
        f);
    tool_html_text(f, tool_html_string(o, "version"));
    (void)fputs("</p>\n", f);
    put_nav(f, o);
    if (s) {
        put_cards(f, s);
        put_notes(f, s);
        put_load(f, s);
        put_ledger(f, s);
    }
    put_coverage(f, json_object_get(o, "coverage"));
    put_times(f, json_object_get(o, "times"));
    json_array_foreach(json_object_get(o, "graphs"), i, g) put_graph(f, g);
    (void)fputs("</main></body></html>\n", f);
}
