/* Philox 4x32-10: random numbers as a pure function of key and counter. Thread-safe. */
#ifndef ENGINE_PHILOX_H
#define ENGINE_PHILOX_H

#include <stdint.h>

void engine_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
/* In [0, 1), 53 bits; the step-th number of a seed. */
double engine_philox_uniform(uint64_t seed, uint64_t step);

#endif
