/* What generators of random graphs build with: draws, builders that remember the first failure, so that actions read
 * like formulas, and a pool of values that actions take from and add to. */
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
/* A leaf that is named by a letter and a number. */
ir_ref random_leaf(random_maker *m, ir_leaf kind, char letter, uint32_t at, rp_dtype t, ir_shape s);
ir_ref random_op1(random_maker *m, ir_op op, ir_ref a);
ir_ref random_op2(random_maker *m, ir_op op, ir_ref a, ir_ref b);
ir_ref random_const(random_maker *m, rp_dtype t, double v);
ir_ref random_cast(random_maker *m, ir_ref a, rp_dtype t);
ir_ref random_reduce(random_maker *m, ir_op op, ir_ref a, int64_t axis, bool keep);
ir_ref random_slice(random_maker *m, ir_ref a, int64_t axis, ir_dim start, ir_dim stop);
ir_ref random_reshape(random_maker *m, ir_ref a, const ir_dim *dim, uint32_t n);

typedef struct random_item {
    ir_ref ref;
    double most; /* bound of |value|, roughly */
    bool exact;  /* the same in every implementation */
} random_item;

enum { RANDOM_POOL = 64 };
typedef struct random_pool {
    uint32_t n;
    random_item item[RANDOM_POOL];
} random_pool;

/* In a full pool in the place of another. */
void random_put(random_maker *m, random_pool *p, random_item x);
/* Younger values more often, so that graphs grow deep. The pool holds one at least. */
random_item random_any(random_maker *m, const random_pool *p);
random_item random_exact(random_maker *m, const random_pool *p); /* the first one is exact */
/* Ends the graph with the youngest value and up to n - 1 others (3 at most in all), each once. On failure the graph is freed. */
rp_status random_finish(random_maker *m, const random_pool *p, uint32_t n, ir_graph **out);

#endif
