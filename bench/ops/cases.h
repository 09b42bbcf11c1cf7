/* The functions of cases.list, written with the public tensor API. */
#ifndef BENCH_OPS_CASES_H
#define BENCH_OPS_CASES_H

#include "reprise/reprise.h"

enum { MAX_OUTPUTS = 4 };

typedef struct bench_case {
    const char *name;
    /* Traces the function of the operands in the order of cases.list; gives the number of results.
     * NULL: reprise cannot say it, `missing` is why. */
    uint32_t (*trace)(rp_graph *g, const rp_tensor *in, rp_tensor *out);
    const char *missing;
} bench_case;

/* NULL: no such case. */
const bench_case *bench_case_find(const char *name);

#endif
