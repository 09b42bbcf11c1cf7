/* Private to the room: an index value as a sum of integer multiples of other values. */
#ifndef KIR_AFFINE_H
#define KIR_AFFINE_H

#include "kir/inst.h"

#define KIR_MAX_TERMS 8

typedef struct kir_affine {
    uint32_t n;
    int64_t c; /* constant part */
    struct {
        kir_ref ref;
        int64_t k; /* never 0 */
    } term[KIR_MAX_TERMS];
    bool overflow; /* does not fit: the form says nothing */
    bool merged;   /* terms met and combined on the way */
} kir_affine;

/* Adds k * r to the form, seen through sums, differences and constant factors. */
void kir_affine_add(const kir_func *f, kir_ref r, int64_t k, kir_affine *a);
/* x/d*d + x%d is x again. */
void kir_affine_rejoin(const kir_func *f, kir_affine *a);
kir_range kir_affine_range(const kir_func *f, const kir_affine *a);
/* Splits into d * *quot + *rest, with 0 <= rest's constant < d. */
void kir_affine_split(const kir_affine *a, int64_t d, kir_affine *quot, kir_affine *rest);
/* Appends the instructions of the form. */
kir_ref kir_affine_emit(kir_func *f, const kir_affine *a);

#endif
