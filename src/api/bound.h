/* How far compiled code may be from the interpreter without being wrong.
 *
 * Ops that IEEE 754 rounds once have the interpreter's bits on equal operands. The others (functions, sums, products, attention) may be off
 * by what docs/ir.md says of them. What that does to the values behind is measured, not derived: the interpreter runs again and again, each
 * time with another random error of at most that size at each such node (Monte Carlo arithmetic: Parker, Pierce, Eggert, "Monte Carlo
 * arithmetic: how to gamble with floating point and win", 2000), and an element may be off by four times the largest deviation that was
 * seen, but always by one unit of its type where some element of its value deviated: how near to a border it lies, few runs do not show. */
#ifndef API_BOUND_H
#define API_BOUND_H

#include "api/trial.h"

/* The worst element of the first value that is wrong. */
typedef struct api_difference {
    bool found;
    uint32_t value;                /* of an api_values */
    int64_t at;                    /* element of it */
    double want, got, ulps, bound; /* bound: in ulps, too */
} api_difference;

/* Compares got with want, both of t. Equal bits cost nothing more; else the interpreter runs 4 times, and 124 times more before a difference
 * is said to be one. */
rp_status api_difference_find(const api_trial *t, const api_values *want, const api_values *got,
                              api_difference *out, rp_error *err) RP_MUST_USE;
/* The distance of v to the next value of the type that is further from 0; 1 for integers. */
double api_ulp(rp_dtype t, double v);

#endif
