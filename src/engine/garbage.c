/* Rows of logits that hold no number: what is said of them, and what is looked at.
 *
 * Every such row of serving and of scoring passes here once, and nothing else does: a check of what the step has
 * read, costly as it may be, belongs here. */
#include "base/log.h"
#include "engine/engine.h"

void engine_garbage_row(rp_engine *e, const char *who, const float *row, rp_error *why) {
    (void)engine_sampler_blame(e->sampler, row, why);
    e->garbage_rows++;
    base_log(RP_LOG_ERROR, "%s ends with an error: %s", who, why->text);
}
