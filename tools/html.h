/* A page of HTML that needs nothing else: no network, no script. */
#ifndef TOOLS_HTML_H
#define TOOLS_HTML_H

#include <stdio.h>

#include <jansson.h>

/* Text with what HTML means by <, >, &, " and ' taken from it; control characters that no page may hold become U+FFFD. NULL is nothing. */
void tool_html_text(FILE *f, const char *z);
/* "<tag>text</tag>"; tag may have attributes: "td class=n". */
void tool_html_element(FILE *f, const char *tag, const char *text);
/* A cell that is a number: with thousands apart, or bytes in their unit. */
void tool_html_count(FILE *f, double v);
void tool_html_bytes(FILE *f, double v);

/* A table with these heads, NULL at their end; one that begins with # is of numbers. */
void tool_html_table(FILE *f, const char *const *heads);
void tool_html_table_end(FILE *f);

double tool_html_number(const json_t *o, const char *key);
const char *tool_html_string(const json_t *o, const char *key); /* "" where there is none */

/* Which of the colours of the page something of that name has: a number from 0 to 7, the same in every page. */
unsigned tool_html_colour(const char *name);

/* Spans of compiling, {name, start_ms, ms, depth}, as a chart; values of an arena, {offset, bytes, first, last}, over n launches. */
void tool_html_flame(FILE *f, const json_t *spans);
void tool_html_timeline(FILE *f, const json_t *values, double top, double launches);
/* A share of a whole, from 0 to 1, as a bar in a cell. */
void tool_html_share(FILE *f, double share, const char *title);

#endif
