/* A Llama-shaped model of random bf16 weights that exists on the GPU alone, and the slow float32 answer to every step of it.
 *
 * Every weight is a function of (seed, row, column), so that the packed matrices and the reference cannot share a mistake of
 * packing: the reference never reads a matrix, it computes each element again. */
#ifndef BENCH_GPU_MODEL_H
#define BENCH_GPU_MODEL_H

#include "gen/decode.h"
#include "hal/cuda/gpu.h"

enum { MODEL_ROOM = 64 }; /* positions behind the context */

/* As rp_step of the template. */
typedef struct model_step {
    int position[8], token[8];
    unsigned done;
} model_step;

typedef struct model {
    const cuda_gpu *gpu;
    void *stream, *module;
    gen_decode d;
    uint32_t context, max_len;
    uint64_t matrix[64][GEN_DECODE_MATRICES_]; /* packed; head in layer 0 */
    uint64_t weights;                          /* all matrices, one range */
    size_t weights_size;
    uint64_t embedding, gains, rope, table; /* gains: two a layer, then the last */
    uint64_t keys, values;                  /* caches of all layers */
    size_t cache_layer;                     /* elements of one layer's */
    /* The reference's own, float32. */
    uint64_t ref_keys, ref_values, ref_x, ref_norm, ref_wide, ref_part, ref_logits, ref_best;
} model;

/* Makes and fills everything; d is fitted. */
rp_status model_init(model *m, const cuda_gpu *gpu, const cuda_nvrtc *rtc, void *stream,
                     const gen_decode *d, uint32_t context, rp_error *err) RP_MUST_USE;
void model_done(model *m); /* a zeroed one with gpu set is fine */

/* Address of the gains of a norm: 2 a layer (0: in front of q, k, v), number 2 * layers is the last. */
uint64_t model_gain(const model *m, uint32_t norm);

/* One step of the reference for tokens at position (the same for all sequences), float32 throughout: hidden gets the rows behind the last layer
 * [batch][hidden], and for each sequence best its id, gap how much better that is than ids[b]. */
rp_status model_reference(const model *m, const int *tokens, int position, const int *ids,
                          float *hidden, int *best, float *gap, rp_error *err) RP_MUST_USE;

/* Reads all weights once, by bulk copies, and does nothing with them. Asynchronous. */
rp_status model_read(const model *m, rp_error *err) RP_MUST_USE;

#endif
