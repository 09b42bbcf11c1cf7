/* Passes over one row of logits, written so that a compiler vectorises them and that every compiler
 * gives the same bits. Thread-safe. */
#ifndef ENGINE_LOGITS_H
#define ENGINE_LOGITS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the largest logit of a row, with a NaN as largest, is one to choose by. */
bool engine_logits_sound(float best);
/* Largest logit and the first token that has it. False when a logit is NaN or +inf, or all are
 * -inf; outputs are not to be used then. */
bool engine_logits_best(const float *x, uint32_t n, float *out, uint32_t *out_at);
/* What powers of two are of logits at that temperature, as a factor. */
float engine_logits_scale(double temperature);
/* w[i] = exp((x[i] - top) / temperature) in float32, with a relative error below 3e-7 + 2e-7 |log w|;
 * 1 for the best; 0 below about e^-80. temperature is at least 1e-5. */
void engine_logits_weights(const float *x, uint32_t n, float top, double temperature, float *w);
/* Sum of n weights in a fixed order. */
double engine_logits_sum(const float *w, uint32_t n);
/* The token at which the running sum over ids passes u times the total; u in [0, 1). */
uint32_t engine_logits_draw(const float *w, uint32_t n, double u);

#endif
