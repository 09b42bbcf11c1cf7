/* What a model tells the configuration. The plan's key comes from the resolved settings, so whoever wants that key
 * resolves here. Every model has attention and none a custom op, so a trace is rarely needed to know its ops. */
#include "engine/facts.h"

#include <string.h>

#include "ir/custom.h"
#include "ir/node.h"
#include "model/llama.h"
#include "trace/trace.h"

typedef struct asker {
    const model_source *source;
    rp_numerics numerics;
    rp_graph *graph; /* once somebody asked */
    uint64_t traces;
} asker;

static rp_status has_op(void *user, const char *name, bool *out, rp_error *err) {
    enum { SOME = 8 }; /* the ops do not depend on sizes */
    asker *a = user;
    char canonical[IR_MAX_NAME + 1];
    model_graph_options o = {a->numerics, SOME, SOME};
    *out = ir_splitting_name(name, canonical, sizeof canonical);
    if (!*out || strcmp(canonical, "reprise::attention") == 0) return RP_OK;
    *out = strncmp(canonical, "reprise::", 9) == 0 && ir_op_find(canonical + 9) != IR_OP_COUNT_;
    if (!*out) return RP_OK;
    if (!a->graph) {
        RP_TRY(model_llama_graph(a->source, &o, &a->graph, err));
        a->traces++;
    }
    *out = ir_graph_splits_at(trace_graph_ir(a->graph), name);
    return RP_OK;
}

rp_status engine_config_resolve(rp_compilation_config *cfg, const model_source *source,
                                uint64_t *traces, rp_error *err) {
    const model_hparams *hp = model_source_hparams(source);
    asker a = {.source = source,
               .numerics = cfg->numerics == CONFIG_NUMERICS_EXACT  ? RP_NUMERICS_EXACT
                           : cfg->numerics == CONFIG_NUMERICS_FAST ? RP_NUMERICS_FAST
                                                                   : RP_NUMERICS_DEFAULT};
    rp_model_facts f = RP_MODEL_FACTS_INIT;
    f.num_layers = hp->n_layer;
    f.max_model_len = hp->n_ctx;
    f.has_op = has_op;
    f.user = &a;
    rp_status st = rp_config_resolve(cfg, &f, err);
    rp_graph_free(a.graph);
    if (traces) *traces += a.traces;
    return st;
}
