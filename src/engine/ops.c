/* What vLLM has as custom ops of a model (a norm, SwiGLU, the rotary embedding) is here traced as the ops that it is made of, and compiled
 * with its neighbours: `none` and `-op` are what is done, `+op` has nothing to choose. */
#include "engine/ops.h"

#include <string.h>

#include "base/log.h"
#include "ir/custom.h"

static const char *const own[] = {"rms_norm", "silu_and_mul", "rotary_embedding"};
enum { N_OWN = sizeof own / sizeof *own, MOST = 256 };

static bool is_own(const char *name) {
    for (int i = 0; i < N_OWN; i++)
        if (strcmp(name, own[i]) == 0) return true;
    return false;
}

static rp_status check_name(const char *entry, rp_error *err) {
    if (!is_own(entry + 1)) {
        base_log(RP_LOG_WARNING, "custom_ops: %s names no op of a model and no registered one",
                 entry);
        return RP_OK;
    }
    if (*entry == '-') return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "custom_ops=%s is not supported in a model: there it is ops that are compiled "
                   "with their neighbours, and there is no kernel of its own to keep; leave it out",
                   entry);
}

/* Whether the only name of the list is one of a registered op. */
static bool is_registered(const rp_compilation_config *c, size_t i, const char *const *names,
                          uint32_t n) {
    rp_compilation_config one = *c;
    one.custom_ops.v = &c->custom_ops.v[i];
    one.custom_ops.n = 1;
    return !config_custom_op_unknown(&one, names, n);
}

rp_status engine_ops_check(rp_compilation_config *c, rp_error *err) {
    static const char reason[] =
        "rms_norm, silu_and_mul and rotary_embedding of a model are compiled with their "
        "neighbours; there is no kernel of their own to keep";
    const char *names[MOST];
    const rp_op_desc *d;
    uint32_t n = 0;
    for (; n < MOST && (d = ir_custom_at(n)) != NULL; n++) names[n] = d->name;
    for (size_t i = 0; i < c->custom_ops.n; i++) {
        const char *entry = c->custom_ops.v[i];
        if (strcmp(entry, "all") == 0)
            RP_TRY(config_note_add(c, reason, err, "custom_ops=all"));
        else if (!is_registered(c, i, names, n))
            RP_TRY(check_name(entry, err));
    }
    return RP_OK;
}
