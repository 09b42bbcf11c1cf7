/* Synthetic models: the exact shape of a known one, with weights generated from a seed.
 *
 * Every tensor, and every row of it, can be generated on its own: an element is a function of
 * seed, tensor name and place. Values are scaled so that activations stay near 1 at any depth. */
#ifndef MODEL_SYNTHETIC_H
#define MODEL_SYNTHETIC_H

#include "base/hash.h"
#include "model/hparams.h"

/* A value. */
typedef struct model_synth {
    const char *preset; /* static */
    model_hparams hp;
    rp_dtype dtype; /* of the matrices; vectors are F32; with q4_1 a tied token_embd is Q8_0 */
    uint64_t seed;
} model_synth;

#define MODEL_SYNTH_PREFIX "synthetic:"
/* What a model may be called, for messages. */
#define MODEL_FORMS                                                                          \
    "a model is a .gguf file, the name smollm2, or synthetic:NAME with NAME tiny, tiny-32, " \
    "tiny-64, "                                                                              \
    "smollm2-135m, llama-1b or llama-8b"

/* "synthetic:NAME[,layers=N][,dtype=f32|bf16|q4_1][,seed=N]". RP_CONFIG names the bad part and
 * the nearest known name. */
rp_status model_synth_parse(const char *spec, model_synth *out, rp_error *err) RP_MUST_USE;
/* The complete spec: equal models have equal texts. */
void model_synth_print(const model_synth *s, base_buf *out);

/* idx < model_n_slots(&s->hp). The name points into *slot; data is NULL. */
model_tensor model_synth_tensor(const model_synth *s, size_t idx, model_slot *slot);
/* Rows [first, first + n) of the tensor, in its storage format. Any thread. */
void model_synth_rows(const model_synth *s, size_t idx, uint64_t first, uint64_t n, void *dst);
/* Identifies the bytes of the tensor without making them. */
base_hash128 model_synth_hash(const model_synth *s, size_t idx);

#endif
