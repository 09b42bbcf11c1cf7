/* The passes over one piece, in order, with their table. */
#ifndef PASS_PIPELINE_H
#define PASS_PIPELINE_H

#include "ir/graph.h"

/* A pass rebuilds: it reads in and gives a new graph with the same leaves, in the same order, and the same outputs. */
typedef struct pass_info {
    const char *name, *help;
    rp_status (*run)(const ir_graph *in, ir_graph **out, rp_error *err);
} pass_info;

const pass_info *pass_table(uint32_t *n);
/* One pass by name; RP_CONFIG names the nearest. The result is verified, and its text is parsed and printed again
 * where assertions are on. */
rp_status pass_run(const char *name, const ir_graph *in, ir_graph **out, rp_error *err) RP_MUST_USE;
/* All, in table order. dump_dir: where each stage's text goes, or NULL. */
rp_status pass_run_all(const ir_graph *in, const char *dump_dir, ir_graph **out, rp_error *err) RP_MUST_USE;
/* The node of `before` that effect node r of `after` came from (effects keep their order and number). */
rp_status pass_find_effect(const ir_graph *before, const ir_graph *after, ir_ref r, ir_ref *out, rp_error *err) RP_MUST_USE;

#endif
