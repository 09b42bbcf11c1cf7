/* What a model tells the configuration. The plan's key comes from the resolved settings, so whoever wants that key
 * resolves here, and nothing is traced for it: a warm start traces nothing. */
#include "engine/facts.h"

#include <string.h>

#include "ir/custom.h"
#include "ir/node.h"
#include "model/llama.h"

/* IR_OP_COUNT_ when the model has none of that name. Models have no custom ops. */
static ir_op op_of(const char *name) {
    char canonical[IR_MAX_NAME + 1];
    if (!ir_splitting_name(name, canonical, sizeof canonical) ||
        strncmp(canonical, "reprise::", 9) != 0)
        return IR_OP_COUNT_;
    ir_op op = ir_op_find(canonical + 9);
    return model_llama_has_op(op) ? op : IR_OP_COUNT_;
}

static rp_status has_op(void *user, const char *name, bool *out, rp_error *err) {
    (void)user;
    (void)err;
    *out = op_of(name) != IR_OP_COUNT_;
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

rp_status engine_config_splits(const rp_compilation_config *cfg, base_buf *out, rp_error *err) {
    bool splits[IR_OP_COUNT_ + 1] = {false}, first = true;
    for (size_t i = 0; i < cfg->splitting_ops.n; i++) splits[op_of(cfg->splitting_ops.v[i])] = true;
    base_buf_putc(out, '[');
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        if (!splits[op]) continue;
        base_buf_printf(out, "%s\"reprise::%s\"", first ? "" : ",", ir_op_table((ir_op)op)->name);
        first = false;
    }
    base_buf_putc(out, ']');
    return base_buf_status(out, err);
}
