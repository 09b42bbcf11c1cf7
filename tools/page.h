/* The parts of the page of reprise explain --html; each is left out where its JSON is NULL. */
#ifndef TOOLS_PAGE_H
#define TOOLS_PAGE_H

#include <stdio.h>

#include <jansson.h>

/* Of a model (page_model.c): the summary, coverage and times of reprise explain. */
void tool_page_summary(FILE *f, const json_t *s);
void tool_page_coverage(FILE *f, const json_t *c);
void tool_page_times(FILE *f, const json_t *t);

/* Of one graph (page_graph.c). */
void tool_page_graph(FILE *f, const json_t *g);

/* The whole page of what explain knows (page.c): {title, graphs, summary, coverage, times}; what is missing is left out. */
void tool_page(FILE *f, const json_t *o);

#endif
