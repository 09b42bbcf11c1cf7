/* Call sites: which lines of a program's source made a node.
 *
 * A node that was asked for at several places, or that passes made of several, has a list of them, the first MOST alone. Sites
 * are for messages and comments: nothing that is compared, hashed, printed as a graph or compiled depends on them. */
#ifndef IR_SITE_H
#define IR_SITE_H

#include "ir/graph.h"

#define IR_MOST_SITES 16

typedef struct ir_site {
    const char *file; /* as __FILE__ gave it; NULL: the graph's own text */
    const char *call; /* "rp_softmax", or the op of a text */
    uint32_t line;
} ir_site;

/* Graphs that are made of one another share the sites; the last one frees them. Written by the thread that builds the first. */
typedef struct ir_site_table ir_site_table;
ir_site_table *ir_site_table_new(void); /* NULL when memory is exhausted */
ir_site_table *ir_site_table_share(ir_site_table *t);
void ir_site_table_done(ir_site_table *t); /* NULL is fine */

/* Node r was made at *s, whose strings are copied. False when memory is exhausted. */
bool ir_site_add(ir_graph *g, ir_ref r, const ir_site *s);
/* Node r stands for node `of` of another graph, too: it gets that one's sites, unless it has some of a third graph's, whose
 * strings may not live as long. False when memory is exhausted. */
bool ir_sites_join(ir_graph *g, ir_ref r, const ir_graph *from, ir_ref of);
/* Site i of node r in the order in which they came; NULL behind the last. */
const ir_site *ir_site_at(const ir_graph *g, ir_ref r, uint32_t i);
/* Whether any node may have one. */
bool ir_has_sites(const ir_graph *g);

/* "attn.c:12 rp_matmul, attn.c:14 rp_softmax": the sites of some nodes, each once, by file and line; not those of texts. */
void ir_sites_print(const ir_graph *g, const ir_ref *nodes, uint32_t n, base_buf *out);
/* A line for each node that has sites, under the name that ir_print gives it: "%4 : attn.c:12 rp_matmul". */
void ir_sites_list(const ir_graph *g, base_buf *out);
/* Puts "attn.c:12: ", the first site of r, before err's text, once. For errors about r. */
void ir_site_blame(const ir_graph *g, ir_ref r, rp_error *err);
/* The same for a site that is no node's yet. */
void ir_site_put(const ir_site *s, rp_error *err);

#endif
