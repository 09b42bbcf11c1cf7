/* Targets: what they schedule, print and pick templates for. */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include "lower/target.h"

extern const lower_target target_cpu, target_cuda;

const lower_target *target_of(gen_target t);
/* For pass_options, so that fusion says what lowering for so many threads does: *out, or NULL. */
const pass_splits *target_splits(gen_target t, uint32_t threads, pass_splits *out);
/* lower_graph for opt->target. */
rp_status target_lower(const ir_graph *g, const lower_options *opt, lower_piece *out,
                       rp_error *err) RP_MUST_USE;

#endif
