/* Seeded random programs of kernel IR over data of every type and index. */
#ifndef SUPPORT_RANDOM_KIR_H
#define SUPPORT_RANDOM_KIR_H

#include "kir/kir.h"

enum {
    RANDOM_KIR_ITEMS = 4,
    RANDOM_KIR_COLUMNS = 16,
    RANDOM_KIR_POINTS = RANDOM_KIR_ITEMS * RANDOM_KIR_COLUMNS,
    RANDOM_KIR_MOST = 40, /* values of a program */
    RANDOM_KIR_TYPES = 10
};
extern const rp_dtype random_kir_types[RANDOM_KIR_TYPES];

typedef struct random_kir {
    uint64_t seed; /* set by the caller */
    kir_func *f;
    kir_ref value[RANDOM_KIR_MOST];
    int n;
} random_kir;

/* A kernel of RANDOM_KIR_ITEMS items of RANDOM_KIR_COLUMNS points. Argument i is data of random_kir_types[i]; value k of each point
 * is stored at point * RANDOM_KIR_MOST + k, floats as f64 in argument RANDOM_KIR_TYPES, all others as i64 in the one behind it.
 * Owned by the caller. */
kir_func *random_kir_new(random_kir *p, const char *called);
/* RANDOM_KIR_POINTS elements of data, special values among them. */
void random_kir_fill(random_kir *p, rp_dtype t, void *to);

#endif
