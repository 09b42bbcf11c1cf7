/* Joins lowered pieces into one plan. */
#ifndef COMPILE_ASSEMBLE_H
#define COMPILE_ASSEMBLE_H

#include "compile/compiler.h"
#include "plan/plan.h"
#include "split/split.h"

/* Where a generated function is. */
typedef struct compile_function {
    compile_code code; /* without code it is looked for among the built-in ones */
    const char *symbol;
} compile_function;

/* A distinct piece as lowered. */
typedef struct compile_lowered {
    lower_piece piece;
    const compile_function *functions; /* by kernel of the piece */
    plan **
        inner; /* by launch * 2 + graph: of launches with graphs, sealed; the plan that is made takes them */
} compile_lowered;

/* lowered[i] belongs to the distinct piece i of s (others are unused). The plan has the symbols that are given: those of g, which
 * may have been made from a graph that has them in another order. *out is sealed. */
rp_status compile_assemble(const ir_graph *g, const ir_dims *symbols, const split_result *s,
                           const compile_lowered *lowered, plan **out, rp_error *err) RP_MUST_USE;
/* What a caller sees of g alone: symbols, inputs, params, states and outputs. Others compute it. */
rp_status compile_interface(const ir_graph *g, plan **out, rp_error *err) RP_MUST_USE;

#endif
