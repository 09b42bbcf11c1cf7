/* The page of reprise explain --html: what a model or a graph was compiled to, and why it runs as it does. */
#include "tools/page.h"

#include "tools/html.h"

/* tools/page.css, carried by the command. */
extern const char rp_embed_page_css[];

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

void tool_page(FILE *f, const json_t *o) {
    size_t i;
    json_t *g;
    (void)fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta "
                "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
                f);
    tool_html_text(f, tool_html_string(o, "title"));
    (void)fprintf(f, " - reprise explain</title>\n<style>\n%s</style></head>\n<body><main>\n",
                  rp_embed_page_css);
    tool_html_element(f, "h1", tool_html_string(o, "title"));
    (void)fputs(
        "<p class=\"dim\">What it was compiled to, and why it runs as it does: <code>reprise "
        "explain</code> ",
        f);
    tool_html_text(f, tool_html_string(o, "version"));
    (void)fputs("</p>\n", f);
    put_nav(f, o);
    tool_page_summary(f, json_object_get(o, "summary"));
    tool_page_coverage(f, json_object_get(o, "coverage"));
    tool_page_times(f, json_object_get(o, "times"));
    json_array_foreach(json_object_get(o, "graphs"), i, g) tool_page_graph(f, g);
    (void)fputs("</main></body></html>\n", f);
}
