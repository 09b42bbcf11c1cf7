/* Where a request's tokens are drawn: within the step, by the device (gen/draw.h), or by the host from logits that it asks for. Either way they are the same. Thread-safe. */
#ifndef ENGINE_DRAW_H
#define ENGINE_DRAW_H

#include "engine/request.h"
#include "gen/draw.h"

/* Why the host draws. */
typedef enum engine_draw_reason {
    ENGINE_DRAW_WITHIN, /* it does not */
    ENGINE_DRAW_UNIFIED,
    ENGINE_DRAW_LOGPROBS,
    ENGINE_DRAW_VOCAB,
    ENGINE_DRAW_REASONS
} engine_draw_reason;

/* As summaries and logs have it. */
const char *engine_draw_reason_text(engine_draw_reason why);
/* What the device takes for the draw behind `step` output tokens. */
void engine_draw_put(const engine_sampling *s, uint64_t step, int32_t out[GEN_DRAW_WORDS]);

#endif
