/* Who compiles a graph, and the custom ops that give way to what they are lowered to before. */
#include "api/lowered.h"

#include <string.h>

#include "api/seen.h"
#include "base/log.h"
#include "config/config.h"
#include "rewrite/ops.h"

enum { MOST_NAMED_OPS = 256 };

bool api_is_op_by_op(const rp_compilation_config *cfg) {
    return strcmp(cfg->backend, "eager") == 0 || strcmp(cfg->backend, "aot_eager") == 0;
}

const rp_compiler *api_compiler_of(const rp_compilation_config *cfg, bool gpu) {
    return gpu ? &compile_cuda : api_is_op_by_op(cfg) ? &compile_eager : &compile_inductor;
}

bool api_keeps_op(const void *user, const rp_op_desc *d) {
    const api_kept_ops *k = user;
    bool own = api_runs_source(*k->by, d) || (*k->by != &compile_cuda && d->cpu);
    return own && config_custom_op_on(k->cfg, d->name);
}

rp_status api_lower_ops(const rp_compiler *by, const rp_compilation_config *cfg, const ir_graph *g,
                        ir_graph **out, uint32_t *n, rp_error *err) {
    const api_kept_ops kept = {cfg, &by};
    const char *names[MOST_NAMED_OPS];
    const rp_op_desc *d;
    uint32_t n_names = 0;
    for (; n_names < MOST_NAMED_OPS && (d = ir_custom_at(n_names)) != NULL; n_names++)
        names[n_names] = d->name;
    const char *unknown = config_custom_op_unknown(cfg, names, n_names);
    if (unknown)
        base_log(RP_LOG_WARNING, "custom_ops: %s names no registered op; rp_op_register does that",
                 unknown);
    *n = 0;
    return rewrite_lower_ops(g, api_keeps_op, &kept, out, n, err);
}
