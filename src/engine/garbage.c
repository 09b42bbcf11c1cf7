/* Rows of logits that hold no number: what is said of them, and what is looked at.
 *
 * Every such row of serving and of scoring passes here once, and nothing else does: a check of what the step has
 * read, costly as it may be, belongs here. */
#include "base/log.h"
#include "engine/engine.h"

/* The cache is looked at before the model is blamed: all bytes of the packed weights, once a step. */
static bool weights_sound(rp_engine *e, rp_error *why) {
    if (e->garbage_rows == 0 || e->garbage_step != e->times.steps) {
        e->damage = (rp_error){0};
        e->garbage_step = e->times.steps;
        if (engine_weights_check(e->weights, &e->damage) == RP_OK) return true;
    }
    if (e->damage.code == RP_OK) return true;
    (void)rp_fail(why, e->damage.code, "%s", e->damage.text);
    return false;
}

void engine_garbage_row(rp_engine *e, const char *who, float best, int32_t id, rp_error *why) {
    if (weights_sound(e, why)) {
        rp_error what = {0};
        rp_status st = engine_sampler_blame(e->sampler, best, id, &what);
        (void)rp_fail(why, st, "%s; the packed weights are sound, so look at the model", what.text);
    }
    e->garbage_rows++;
    /* No error line: whoever asked gets the error itself. */
    base_log(RP_LOG_INFO, "%s ends with an error: %s", who, why->text);
}
