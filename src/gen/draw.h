/* Tokens drawn on the device (embed/draw.cu) as the host draws them (engine/sampler.h): the same weights and sums in the same order, so the same token.
 *
 * Rows of logits have parameters side by side, of as many rows as the last that is drawn; a scale of 0 is of a row that is not. */
#ifndef GEN_DRAW_H
#define GEN_DRAW_H

#include "base/str.h"

/* Words of 32 bits of a row; floats and doubles by their bits. */
enum {
    GEN_DRAW_SCALE,                        /* float: of logits, to powers of two */
    GEN_DRAW_TOP_K,                        /* 0 or below: off */
    GEN_DRAW_TOP_P,                        /* double; 1: off */
    GEN_DRAW_MIN_P = GEN_DRAW_TOP_P + 2,   /* double; 0: off */
    GEN_DRAW_UNIFORM = GEN_DRAW_MIN_P + 2, /* double in [0, 1) */
    GEN_DRAW_WORDS = GEN_DRAW_UNIFORM + 2,
    GEN_DRAW_VOCAB = 1 << 18 /* logits of a row at most */
};

/* CUDA C, to be followed by kernels of GEN_EXCHANGE_THREADS threads that call it. */
void gen_draw_text(base_buf *out);

#endif
