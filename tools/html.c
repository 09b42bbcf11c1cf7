/* Parts of a page: text, numbers, charts as inline SVG. */
#include "tools/html.h"

#include <math.h>
#include <string.h>

#include "tools/output.h"

/* --- text ---------------------------------------------------------------------------- */

static void put_char(FILE *f, unsigned char c) {
    switch (c) {
    case '<': (void)fputs("&lt;", f); break;
    case '>': (void)fputs("&gt;", f); break;
    case '&': (void)fputs("&amp;", f); break;
    case '"': (void)fputs("&quot;", f); break;
    case '\'': (void)fputs("&#39;", f); break;
    default:
        if ((c < 32 && c != '\n' && c != '\t') || c == 127)
            (void)fputs("&#xfffd;", f);
        else
            (void)fputc(c, f);
    }
}

void tool_html_text(FILE *f, const char *z) {
    while (z && *z) {
        size_t good = tool_utf8_bad(z, strlen(z));
        for (size_t i = 0; i < good; i++) put_char(f, (unsigned char)z[i]);
        z += good;
        if (!*z) break;
        (void)fputs("&#xfffd;", f); /* no character */
        z++;
    }
}

void tool_html_element(FILE *f, const char *tag, const char *text) {
    (void)fprintf(f, "<%s>", tag);
    tool_html_text(f, text);
    (void)fprintf(f, "</%.*s>", (int)strcspn(tag, " "), tag);
}

void tool_html_table(FILE *f, const char *const *heads) {
    (void)fputs("<div class=\"wide\"><table><thead><tr>", f);
    for (; *heads; heads++)
        tool_html_element(f, **heads == '#' ? "th class=\"n\"" : "th", *heads + (**heads == '#'));
    (void)fputs("</tr></thead><tbody>\n", f);
}

void tool_html_table_end(FILE *f) {
    (void)fputs("</tbody></table></div>\n", f);
}

void tool_html_count(FILE *f, double v) {
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%.0f", v);
    size_t n = strlen(digits);
    (void)fputs("<td class=\"n\">", f);
    for (size_t i = 0; i < n; i++) {
        (void)fputc(digits[i], f);
        if (n - i > 1 && (n - i - 1) % 3 == 0 && digits[i] != '-') (void)fputs("&#8239;", f);
    }
    (void)fputs("</td>", f);
}

static void put_bytes(FILE *f, double v) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t u = 0;
    while (fabs(v) >= 1000 && u + 1 < sizeof units / sizeof *units) {
        v /= 1000;
        u++;
    }
    (void)fprintf(f, u == 0 ? "%.0f %s" : "%.4g %s", v, units[u]);
}

void tool_html_bytes(FILE *f, double v) {
    (void)fputs("<td class=\"n\">", f);
    put_bytes(f, v);
    (void)fputs("</td>", f);
}

double tool_html_number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

const char *tool_html_string(const json_t *o, const char *key) {
    const char *z = json_string_value(json_object_get(o, key));
    return z ? z : "";
}

unsigned tool_html_colour(const char *name) {
    unsigned h = 2166136261u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return (h >> 16) % 8;
}

void tool_html_share(FILE *f, double share, const char *title) {
    double width = share < 0 ? 0 : share > 1 ? 1 : share;
    (void)fputs("<td class=\"bar\" title=\"", f);
    tool_html_text(f, title);
    (void)fprintf(f, "\"><span style=\"width:%.2f%%\"></span><b>%.1f %%</b></td>", width * 100,
                  share * 100);
}

/* --- charts ---------------------------------------------------------------------------- */

enum { WIDTH = 1000, ROW = 22, FLOOR = 160 };

typedef struct box {
    double x, y, w, h;
    const char *name;
} box;

/* A rectangle with its name, where that has room, and more in its title. */
static void put_box(FILE *f, const box *b, const char *title) {
    double fits = b->w / 6.6; /* characters of the font */
    size_t len = strlen(b->name);
    (void)fputs("<g><title>", f);
    tool_html_text(f, title);
    (void)fprintf(f,
                  "</title><rect class=\"c%u\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                  "height=\"%.2f\" rx=\"2\"/>",
                  tool_html_colour(b->name), b->x, b->y, b->w < 1 ? 1 : b->w, b->h < 1 ? 1 : b->h);
    if (fits >= 3 && b->h >= 12) {
        (void)fprintf(f, "<text x=\"%.2f\" y=\"%.2f\">", b->x + 4, b->y + b->h / 2 + 4);
        char cut[160];
        size_t n = len > (size_t)fits ? (size_t)fits - 1 : len;
        (void)snprintf(cut, sizeof cut, "%.*s%s", (int)(n > 150 ? 150 : n), b->name,
                       n < len ? "\xe2\x80\xa6" : "");
        tool_html_text(f, cut);
        (void)fputs("</text>", f);
    }
    (void)fputs("</g>\n", f);
}

static void put_span(FILE *f, const json_t *s, double end, double depth) {
    char title[200];
    const box b = {tool_html_number(s, "start_ms") / end * WIDTH,
                   (tool_html_number(s, "depth") + depth) * ROW + 1,
                   tool_html_number(s, "ms") / end * WIDTH, ROW - 2, tool_html_string(s, "name")};
    (void)snprintf(title, sizeof title, "%.60s: %.3f ms", b.name, tool_html_number(s, "ms"));
    put_box(f, &b, title);
}

static void axis(FILE *f, double height, double end, const char *unit) {
    (void)fprintf(f, "<g class=\"axis\"><line x1=\"0\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", WIDTH,
                  height, height);
    int ticks = *unit || end >= 8 ? 4 : 1; /* launches are whole */
    for (int i = 0; i <= ticks; i++) {
        double at = *unit ? end * i / ticks : floor(end * i / ticks);
        (void)fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", at / end * WIDTH, height + 14,
                      i == 0       ? "first"
                      : i == ticks ? "last"
                                   : "mid");
        (void)fprintf(f, at >= 1000 ? "%.0f%s</text>" : "%.3g%s</text>", at, unit);
    }
    (void)fputs("</g>", f);
}

void tool_html_flame(FILE *f, const json_t *spans) {
    size_t i;
    json_t *s;
    double end = 0, deepest = 0;
    json_array_foreach(spans, i, s) {
        end = fmax(end, tool_html_number(s, "start_ms") + tool_html_number(s, "ms"));
        deepest = fmax(deepest, tool_html_number(s, "depth"));
    }
    if (!(end > 0)) return;
    double height = (deepest + 1) * ROW;
    (void)fprintf(f,
                  "<svg class=\"chart\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
                  "aria-label=\"compile time\">\n",
                  WIDTH, height + 20);
    json_array_foreach(spans, i, s) put_span(f, s, end, 0);
    axis(f, height, end, " ms");
    (void)fputs("</svg>\n", f);
}

void tool_html_timeline(FILE *f, const json_t *values, double top, double launches) {
    size_t i;
    json_t *v;
    if (!(top > 0) || !(launches > 0)) return;
    (void)fprintf(f,
                  "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-label=\"memory over launches\">\n",
                  WIDTH, FLOOR + 20);
    json_array_foreach(values, i, v) {
        double bytes = tool_html_number(v, "bytes"), at = tool_html_number(v, "offset");
        double first = tool_html_number(v, "first"), last = tool_html_number(v, "last");
        char name[24], title[160];
        if (bytes <= 0 || at < 0) continue;
        (void)snprintf(name, sizeof name, "%%%.0f", tool_html_number(v, "value"));
        (void)snprintf(title, sizeof title, "%s: %.0f bytes at %.0f, launches %.0f to %.0f", name,
                       bytes, at, first, last);
        const box b = {first / launches * WIDTH, FLOOR - (at + bytes) / top * FLOOR,
                       (last - first + 1) / launches * WIDTH - 1, bytes / top * FLOOR - 0.5, name};
        put_box(f, &b, title);
    }
    axis(f, FLOOR, launches, "");
    (void)fputs("</svg>\n", f);
}
