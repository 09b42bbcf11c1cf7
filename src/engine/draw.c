#include "engine/draw.h"

#include <string.h>

#include "engine/logits.h"
#include "engine/sampler.h"

const char *engine_draw_reason_text(engine_draw_reason why) {
    static const char *const text[ENGINE_DRAW_REASONS] = {
        [ENGINE_DRAW_WITHIN] = "drawn within the step",
        [ENGINE_DRAW_UNIFIED] = "the device's memory is the host's",
        [ENGINE_DRAW_LOGPROBS] = "log probabilities are asked for",
        [ENGINE_DRAW_VOCAB] = "the vocabulary is larger than the device draws from"};
    return text[why];
}

void engine_draw_put(const engine_sampling *s, uint64_t step, int32_t out[GEN_DRAW_WORDS]) {
    const double uniform = engine_sampler_uniform(s->seed, step);
    const float scale = engine_logits_scale(s->temperature);
    memcpy(out + GEN_DRAW_SCALE, &scale, sizeof scale);
    out[GEN_DRAW_TOP_K] = s->top_k;
    memcpy(out + GEN_DRAW_TOP_P, &s->top_p, sizeof s->top_p);
    memcpy(out + GEN_DRAW_MIN_P, &s->min_p, sizeof s->min_p);
    memcpy(out + GEN_DRAW_UNIFORM, &uniform, sizeof uniform);
}
