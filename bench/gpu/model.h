/* A Llama-shaped model of random bf16 weights that exists on the GPU alone, and the slow float32 answer to every step of it.
 *
 * Every weight is a function of (seed, row, column), so that the packed matrices and the reference cannot share a mistake of
 * packing: the reference never reads a matrix, it computes each element again. */
#ifndef BENCH_GPU_MODEL_H
#define BENCH_GPU_MODEL_H

#include "bench/gpu/template.h"
#include "hal/cuda/gpu.h"

enum {
    MODEL_ROOM = 64 /* positions behind the context */,
    MODEL_ROWS = 64 /* of the reference at once */
};

typedef struct model {
    const cuda_gpu *gpu;
    void *stream, *module;
    template t;
    gen_step s;
    uint32_t sequences, context, max_len;
    uint64_t matrix[64][GEN_STEP_MATRICES_]; /* packed; head in layer 0 */
    uint64_t weights;                        /* all matrices, one range */
    size_t weights_size;
    uint64_t embedding, gains, rope, table; /* gains: two a layer, then the last */
    uint64_t keys, values;                  /* caches of all layers */
    size_t cache_layer;                     /* elements of one layer's */
    /* The reference's own, float32. */
    uint64_t ref_keys, ref_values, ref_x, ref_norm, ref_wide, ref_part, ref_logits, ref_best;
} model;

/* Makes and fills everything for a template that fits. context: cached positions of each sequence, none for a prefill. */
rp_status model_init(model *m, const cuda_gpu *gpu, const cuda_nvrtc *rtc, void *stream,
                     const template *t, uint32_t context, rp_error *err) RP_MUST_USE;
void model_done(model *m); /* a zeroed one with gpu set is fine */

/* Address of the gains of a norm: 2 a layer (0: in front of q, k, v), number 2 * layers is the last. */
uint64_t model_gain(const model *m, uint32_t norm);

/* The reference, float32 throughout, for n rows, 64 at most: one token each of as many sequences at position, or the tokens of a prefill from position
 * on. hidden gets the rows behind the last layer [n][hidden], and for each row best its id, gap how much better that is than ids[row] (best
 * NULL: the head is left out). */
rp_status model_reference(const model *m, const int *tokens, uint32_t n, int position,
                          const int *ids, float *hidden, int *best, float *gap,
                          rp_error *err) RP_MUST_USE;

/* Reads all weights once, by bulk copies, and does nothing with them. Asynchronous. */
rp_status model_read(const model *m, rp_error *err) RP_MUST_USE;

#endif
