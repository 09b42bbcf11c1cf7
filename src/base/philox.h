/* Philox 4x32-10: random bits as a pure function of key and counter. Thread-safe. */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

void base_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
/* The first two words of the block of a counter and a key of 64 bits, the first word on top. */
uint64_t base_philox_bits(uint64_t key, uint64_t counter);

#endif
