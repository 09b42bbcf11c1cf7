/* The passes, one a file. */
#ifndef PASS_PASSES_H
#define PASS_PASSES_H

#include "ir/graph.h"

rp_status pass_dce(const ir_graph *in, ir_graph **out, rp_error *err);
rp_status pass_fold(const ir_graph *in, ir_graph **out, rp_error *err);
rp_status pass_gather(const ir_graph *in, ir_graph **out, rp_error *err);
rp_status pass_inplace(const ir_graph *in, ir_graph **out, rp_error *err);
rp_status pass_simplify(const ir_graph *in, ir_graph **out, rp_error *err);
/* Counts applied rules into *n. */
rp_status pass_simplify_counted(const ir_graph *in, ir_graph **out, uint32_t *n, rp_error *err);

#endif
