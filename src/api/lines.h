/* Single nodes of a graph as its text has them. */
#ifndef API_LINES_H
#define API_LINES_H

#include "ir/graph.h"

/* Appends the line of a node, called name there ("%7"), of `text`, which ir_print gave: "%7 = exp %6 : f32[4]". Nothing for inputs. */
void api_node_line(const char *text, const char *name, base_buf *out);

#endif
