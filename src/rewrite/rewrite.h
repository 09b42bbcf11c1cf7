/* What the files of this room share. */
#ifndef REWRITE_REWRITE_H
#define REWRITE_REWRITE_H

#include "rewrite/registry.h"
#include "trace/trace.h"

/* Whether two values of g have the same type: sizes that are known to be equal are the same. */
bool rewrite_same_type(const ir_graph *g, ir_ref a, ir_ref b);

#endif
