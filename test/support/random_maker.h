/* What generators of random graphs build with: draws, and builders that remember the first failure, so that actions read
 * like formulas. */
#ifndef TEST_RANDOM_MAKER_H
#define TEST_RANDOM_MAKER_H

#include "ir/graph.h"

typedef struct random_maker {
    ir_graph *g;
    uint64_t rng; /* any seed */
    rp_status st; /* of the first call that failed; later ones do nothing */
    rp_error *err;
} random_maker;

uint64_t random_draw(random_maker *m);             /* splitmix64 */
uint32_t random_pick(random_maker *m, uint32_t n); /* 0 .. n - 1 */

ir_ref random_add(random_maker *m, ir_op op, const ir_ref *in, uint32_t n, const ir_attr *a,
                  uint32_t n_a);
ir_ref random_op1(random_maker *m, ir_op op, ir_ref a);
ir_ref random_op2(random_maker *m, ir_op op, ir_ref a, ir_ref b);
ir_ref random_const(random_maker *m, rp_dtype t, double v);
ir_ref random_cast(random_maker *m, ir_ref a, rp_dtype t);

#endif
