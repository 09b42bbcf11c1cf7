/* Kernels of decode steps (engine/decode.h) on cuda:0 beside the kernels of all steps. Each fails the test where they differ by more than `most`. */
#ifndef SUPPORT_DECODE_KERNELS_H
#define SUPPORT_DECODE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/engine.h"

/* An engine on cuda:0 with these kernels or without; more: one more setting, or NULL. */
rp_engine *decode_engine(const char *model, bool own, const char *more);
/* Teacher forcing of 64 tokens behind a prompt of at most 900, one a step: largest logits, some of which differ; again, in the same bits. */
void decode_check_scores(const char *model, uint32_t prompt, double most);
/* Log probabilities of n <= 64 requests of several lengths in one batch, as long as their tokens are the same; counts ascend, those of an engine for few sequences (<= 8) and of one for many are
 * two calls. */
void decode_check_together(const char *model, const uint32_t *n, size_t count, const char *more,
                           double most);
/* The same bits where everything that a step may not read is NaN before each. */
void decode_check_poisoned(const char *model, uint32_t n);
/* Logits of a step of n > 8 sequences are written where the host or a draw reads them and nowhere else, and tokens are the same. */
void decode_check_unread(const char *model, uint32_t n);

#endif
