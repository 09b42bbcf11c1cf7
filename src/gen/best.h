/* The largest of a row of floats. Thread-safe. */
#ifndef GEN_BEST_H
#define GEN_BEST_H

#include <stdint.h>

/* Where it is: of equals the first, a NaN counts as largest, -0 equals 0. n >= 1. The same on every instruction set. */
int64_t gen_best(const float *x, int64_t n);

#endif
