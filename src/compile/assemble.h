/* Joins lowered pieces into one plan. */
#ifndef COMPILE_ASSEMBLE_H
#define COMPILE_ASSEMBLE_H

#include "lower/lower.h"
#include "plan/plan.h"
#include "split/split.h"

/* A distinct piece as lowered, with the key of its code object (has_code false: built-in kernels only). */
typedef struct compile_lowered {
    lower_piece piece;
    base_hash128 key;
    uint32_t isa_bits;
    bool has_code, done;
} compile_lowered;

/* lowered[i] belongs to the distinct piece i of s (others are unused). *out is sealed. */
rp_status compile_assemble(const ir_graph *g, const split_result *s, const compile_lowered *lowered,
                           plan **out, rp_error *err) RP_MUST_USE;

#endif
