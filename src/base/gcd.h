/* Greatest common divisor. */
#ifndef BASE_GCD_H
#define BASE_GCD_H

#include <stdint.h>

/* Of the magnitudes, by Euclid; of 0 and n it is n's. INT64_MIN, which has none, gives 1. */
int64_t base_gcd(int64_t a, int64_t b);

#endif
