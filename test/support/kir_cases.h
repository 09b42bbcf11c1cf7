/* Kernel IR functions that several tests run, render and compile. */
#ifndef SUPPORT_KIR_CASES_H
#define SUPPORT_KIR_CASES_H

#include "kir/kir.h"

#define KIR_CASE_SLOTS 4
#define KIR_CASE_T 7 /* value of the symbol T */

/* How an argument is filled. */
typedef enum kir_fill {
    KIR_FILL_NONE,
    KIR_FILL_RANDOM,
    KIR_FILL_SPECIAL,
    KIR_FILL_INDEX,
    KIR_FILL_BELOW, /* below 0, and i64 below every i32 */
    KIR_FILL_ABOVE, /* likewise above */
    KIR_FILL_SLOTS
} kir_fill;

typedef struct kir_case_arg {
    rp_dtype dtype; /* for filling and for comparing floats; I8 compares bytes */
    int64_t n;      /* elements; 0 = no such argument */
    kir_fill fill;
    int64_t hi; /* INDEX: values in [-1, hi); SLOTS: the same, none twice */
} kir_case_arg;

typedef struct kir_case {
    const char *name;
    kir_func *(*make)(const char *name);
    int64_t items; /* of the par loop at T = KIR_CASE_T */
    kir_case_arg arg[KIR_CASE_SLOTS];
} kir_case;

extern const kir_case kir_cases[];
extern const uint32_t kir_n_cases;

/* Memory of the arguments, filled the same way every time. */
typedef struct kir_case_data {
    void *arg[KIR_CASE_SLOTS];
    size_t size[KIR_CASE_SLOTS];
} kir_case_data;
bool kir_case_data_init(kir_case_data *d, const kir_case *c);
void kir_case_data_done(kir_case_data *d);
/* Number of elements that differ (NaN equals NaN); prints the first few. */
int kir_case_compare(const kir_case *c, const kir_case_data *want, const kir_case_data *got,
                     const char *what);

/* A fragment: adds bias[j] to a row of scratch and stores max(0, it) to slot 1 at p0 * 24 + j. */
kir_func *kir_case_fragment(void);

#endif
