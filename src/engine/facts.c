/* What a model tells the configuration. The plan's key comes from the resolved settings, so whoever wants that key
 * resolves here, and nothing is traced for it: a warm start traces nothing. */
#include "engine/facts.h"

#include <string.h>

#include "ir/custom.h"
#include "ir/node.h"
#include "model/llama.h"

/* Models have no custom ops. */
static rp_status has_op(void *user, const char *name, bool *out, rp_error *err) {
    char canonical[IR_MAX_NAME + 1];
    (void)user;
    (void)err;
    *out = ir_splitting_name(name, canonical, sizeof canonical) &&
           strncmp(canonical, "reprise::", 9) == 0 && model_llama_has_op(ir_op_find(canonical + 9));
    return RP_OK;
}

rp_status engine_config_resolve(rp_compilation_config *cfg, const model_source *source,
                                rp_error *err) {
    const model_hparams *hp = model_source_hparams(source);
    rp_model_facts f = RP_MODEL_FACTS_INIT;
    f.num_layers = hp->n_layer;
    f.max_model_len = hp->n_ctx;
    f.has_op = has_op;
    return rp_config_resolve(cfg, &f, err);
}
