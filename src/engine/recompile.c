#include "engine/recompile.h"

#include <string.h>

#include "base/log.h"

/* It is asked for the summary's count too. */
void engine_recompile_find(engine_recompile *r, const cache_key *k) {
    rp_error err = {0};
    if (cache_why_same(r->o->store, k, "model", &r->why, &err) == RP_OK) return;
    base_log(RP_LOG_DEBUG, "stored plans cannot be compared: %s", err.text);
    base_buf_clear(&r->why);
}

void engine_recompile_tell(engine_recompile *r, bool compiles) {
    const char *name = model_source_name(r->o->source);
    if (!r->why.len) return;
    char *rest = strchr(r->why.data, '\n');
    if (rest) *rest++ = 0;
    r->out->recompiles += compiles;
    base_log_ch(RP_LOG_CH_RECOMPILES, false,
                compiles ? "Recompiling %s triggered by the following guard failure(s):\n- %s"
                         : "Tracing %s again, compiling nothing, triggered by the following guard "
                           "failure(s):\n- %s",
                name, r->why.data);
    if (rest && *rest)
        base_log_ch(RP_LOG_CH_RECOMPILES, true, "farther plans of this model:\n%s", rest);
    base_buf_clear(&r->why);
}

/* Comes first before anything is compiled, and never where nothing is. */
static void on_compile(void *user, uint32_t done, uint32_t total) {
    engine_recompile *r = user;
    if (done == 0) engine_recompile_tell(r, true);
    if (r->o->progress) r->o->progress(r->o->user, done, total);
}

static bool still_wanted(void *user) {
    const engine_recompile *r = user;
    return !r->o->wanted || r->o->wanted(r->o->user);
}

engine_plans_options engine_recompile_options(engine_recompile *r) {
    engine_plans_options o = *r->o;
    o.progress = on_compile;
    o.wanted = still_wanted;
    o.user = r;
    return o;
}

/* A channel of what was not done says that, once. */
void engine_recompile_log_none(void) {
    static const rp_log_channel traced[] = {RP_LOG_CH_DYNAMO, RP_LOG_CH_DYNAMIC, RP_LOG_CH_GRAPH,
                                            RP_LOG_CH_GUARDS, RP_LOG_CH_GRAPH_BREAKS};
    static const rp_log_channel compiled[] = {RP_LOG_CH_INDUCTOR, RP_LOG_CH_FUSION,
                                              RP_LOG_CH_OUTPUT_CODE, RP_LOG_CH_KERNEL_CODE};
    static const char what[] = "nothing is %s: both plans were in the cache; "
                               "REPRISE_DISABLE_COMPILE_CACHE=1 makes them again";
    for (size_t i = 0; i < sizeof traced / sizeof *traced; i++)
        base_log_ch(traced[i], false, what, "traced");
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        base_log_ch(compiled[i], false, what, "compiled");
}
