/* The oracle: interprets a graph in float64, each node rounded to its dtype. Slow and plain. */
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/graph.h"

/* A dense row-major tensor of doubles (integers and booleans too). Block formats hold their
 * dequantised values here. */
typedef struct ir_value {
    uint32_t rank;
    int64_t dim[IR_MAX_RANK];
    int64_t n;
    double *data; /* base_alloc */
} ir_value;
void ir_value_done(ir_value *v);

/* inputs, params, states in the graph's order; states, and inputs that the graph mutates, end as their last versions. symbols: value of
 * each symbol of the graph's dims. out: ir_output_count values, owned by the caller. */
rp_status ir_eval(const ir_graph *g, const ir_value *inputs, const ir_value *params,
                  ir_value *states, const int64_t *symbols, ir_value *out,
                  rp_error *err) RP_MUST_USE;

/* v rounded to a plain dtype: floats to nearest even (overflow to infinity), integers truncate and
 * saturate (NaN gives 0), bool is v != 0. Block formats, and RP_DTYPE_COUNT_ for no type: v itself. */
double ir_round(rp_dtype t, double v);
/* One element of an elementwise op (or one step of a reduction: x[0] the sum so far, x[1] the next),
 * over operands of dtype `in`, rounded to `out`. i32 and i64 add, sub, mul, neg wrap around. */
double ir_apply(ir_op op, rp_dtype in, rp_dtype out, const double *x);

/* Reads n elements of a packed buffer (row-major; block formats along the last dim) as doubles, and
 * back with rounding to nearest even; integers saturate. n a multiple of the block. i16b32: n is one row,
 * whose layout depends on its length. */
void ir_unpack(rp_dtype t, const void *src, int64_t n, double *dst);
void ir_pack(rp_dtype t, const double *src, int64_t n, void *dst);

/* Seeded random leaf values in [-1, 1) (integers: in [0, hi)); the same on every machine. Packing them
 * and reading them back gives the same values, block formats included. */
rp_status ir_random_value(rp_dtype t, const int64_t *dims, uint32_t rank, int64_t hi, uint64_t seed,
                          ir_value *out, rp_error *err) RP_MUST_USE;

#endif
