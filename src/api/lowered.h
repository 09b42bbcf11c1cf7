/* Who compiles a graph, and the custom ops that give way to what they are lowered to before. */
#ifndef API_LOWERED_H
#define API_LOWERED_H

#include "compile/compiler.h"
#include "ir/custom.h"
#include "reprise/config.h"

/* Op by op: for the host, where functions of custom ops run and no source is compiled. */
bool api_is_op_by_op(const rp_compilation_config *cfg);
const rp_compiler *api_compiler_of(const rp_compilation_config *cfg, bool gpu);

/* rewrite_keeps_fn of an api_kept_ops: what only the host runs cannot be kept for a GPU. */
typedef struct api_kept_ops {
    const rp_compilation_config *cfg;
    const rp_compiler *const *by; /* another one where it turns out that there is no C compiler */
} api_kept_ops;
bool api_keeps_op(const void *user, const rp_op_desc *d);

/* g as `by` compiles it; *out stays NULL where that is g, *n counts the calls that gave way. Names of custom_ops that no op has are
 * warned of. */
rp_status api_lower_ops(const rp_compiler *by, const rp_compilation_config *cfg, const ir_graph *g,
                        ir_graph **out, uint32_t *n, rp_error *err) RP_MUST_USE;

#endif
