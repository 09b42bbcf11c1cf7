/* The oracle: interprets a graph in float64, each node rounded to its dtype. Slow and plain. */
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include <string.h>

#include "ir/graph.h"

/* A dense row-major tensor of doubles (integers and booleans too). Block formats hold their
 * dequantised values here. Elements of i64 are int64_t in the places of the doubles: ir_value_int, ir_value_set_int. */
typedef struct ir_value {
    uint32_t rank;
    int64_t dim[IR_MAX_RANK];
    int64_t n;
    double *data; /* base_alloc */
} ir_value;
void ir_value_done(ir_value *v);
static inline int64_t ir_value_int(const ir_value *v, int64_t i) {
    int64_t x;
    memcpy(&x, &v->data[i], sizeof x);
    return x;
}
static inline void ir_value_set_int(ir_value *v, int64_t i, int64_t x) {
    memcpy(&v->data[i], &x, sizeof x);
}

/* Sees, and may change, what the nodes hold. Nodes of graphs within come with their graph. */
typedef struct ir_eval_watch {
    void *user;
    /* Node r of g, no leaf, has its value in value[r]; those of its operands are still in their places. Of versions of memory that it
     * overwrote, what it left is there. */
    void (*made)(void *user, const ir_graph *g, ir_ref r, ir_value *const *value);
} ir_eval_watch;

/* inputs, params, states in the graph's order; states, and inputs that the graph mutates, end as their last versions. symbols: value of
 * each symbol of the graph's dims. out: ir_output_count values, owned by the caller. */
rp_status ir_eval(const ir_graph *g, const ir_value *inputs, const ir_value *params,
                  ir_value *states, const int64_t *symbols, ir_value *out,
                  rp_error *err) RP_MUST_USE;
/* The same, watched; NULL: by nobody. */
typedef struct ir_eval_leaves {
    const ir_value *inputs, *params;
    ir_value *states;
} ir_eval_leaves;
rp_status ir_eval_watched(const ir_graph *g, const ir_eval_leaves *leaves, const int64_t *symbols,
                          const ir_eval_watch *watch, ir_value *out, rp_error *err) RP_MUST_USE;

/* v rounded to a plain dtype: floats to nearest even (overflow to infinity), integers truncate and
 * saturate (NaN gives 0; i64 to the last double below 2^63), bool is v != 0. Block formats, and RP_DTYPE_COUNT_ for no type: v itself. */
double ir_round(rp_dtype t, double v);
/* v as an integer type: what is left of it in so many bits. */
int64_t ir_wrap(rp_dtype t, int64_t v);
/* One element of an elementwise op (or one step of a reduction: x[0] the sum so far, x[1] the next),
 * over operands of dtype `in`, rounded to `out`. Integers wrap around in their type. */
double ir_apply(ir_op op, rp_dtype in, rp_dtype out, const double *x);
/* The same over i64, exactly: sums, differences and products wrap around, comparisons give 0 or 1. */
int64_t ir_apply_i64(ir_op op, const int64_t *x);
/* Casts from i64: rounded once, to nearest even; what is left of it in an integer type. And to it: truncated, saturated, NaN gives 0. */
double ir_from_i64(rp_dtype t, int64_t v);
int64_t ir_to_i64(double v);

/* Reads n elements of a packed buffer (row-major; block formats along the last dim) as doubles (i64 as it is), and
 * back with rounding to nearest even; integers saturate. n a multiple of the block. i16b32: n is one row,
 * whose layout depends on its length. */
void ir_unpack(rp_dtype t, const void *src, int64_t n, double *dst);
void ir_pack(rp_dtype t, const double *src, int64_t n, void *dst);
/* The bits of v, an element of `from`, as one of `to`, which has as many; of i64 as it is. Packing and unpacking keep every NaN. */
double ir_bitcast(rp_dtype from, rp_dtype to, double v);

/* Seeded random leaf values in [-1, 1) (integers: in [0, hi)); the same on every machine. Packing them
 * and reading them back gives the same values, block formats included. */
rp_status ir_random_value(rp_dtype t, const int64_t *dims, uint32_t rank, int64_t hi, uint64_t seed,
                          ir_value *out, rp_error *err) RP_MUST_USE;

#endif
