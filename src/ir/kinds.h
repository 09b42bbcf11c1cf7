/* Tables of some kinds of ops: what stands in the parentheses for rows of those kinds of ops.def, nothing for the others.
 *
 *     #define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_FLOATS(kind, case IR_##name: return expr;)
 *     #include "ir/ops.def" */
#ifndef IR_KINDS_H
#define IR_KINDS_H

#define IR_KEEP(...) __VA_ARGS__
#define IR_DROP(...)

/* Elementwise ops whose expr is of floats. */
#define IR_OF_FLOATS(kind, ...) IR_FLOATS_##kind(__VA_ARGS__)
#define IR_FLOATS_LEAF IR_DROP
#define IR_FLOATS_VIEW IR_DROP
#define IR_FLOATS_ELEMENTWISE IR_KEEP
#define IR_FLOATS_REAL IR_KEEP
#define IR_FLOATS_INTEGER IR_DROP
#define IR_FLOATS_REDUCE IR_DROP
#define IR_FLOATS_SCAN IR_DROP
#define IR_FLOATS_SCATTER IR_DROP
#define IR_FLOATS_MOVE IR_DROP
#define IR_FLOATS_CONTRACT IR_DROP
#define IR_FLOATS_QUANT IR_DROP
#define IR_FLOATS_EFFECT IR_DROP

/* Elementwise ops whose ints is of integers. */
#define IR_OF_INTS(kind, ...) IR_INTS_##kind(__VA_ARGS__)
#define IR_INTS_LEAF IR_DROP
#define IR_INTS_VIEW IR_DROP
#define IR_INTS_ELEMENTWISE IR_KEEP
#define IR_INTS_REAL IR_DROP
#define IR_INTS_INTEGER IR_KEEP
#define IR_INTS_REDUCE IR_DROP
#define IR_INTS_SCAN IR_DROP
#define IR_INTS_SCATTER IR_DROP
#define IR_INTS_MOVE IR_DROP
#define IR_INTS_CONTRACT IR_DROP
#define IR_INTS_QUANT IR_DROP
#define IR_INTS_EFFECT IR_DROP

/* Reductions, whose expr and ints join two values. */
#define IR_OF_REDUCTIONS(kind, ...) IR_REDUCTIONS_##kind(__VA_ARGS__)
#define IR_REDUCTIONS_LEAF IR_DROP
#define IR_REDUCTIONS_VIEW IR_DROP
#define IR_REDUCTIONS_ELEMENTWISE IR_DROP
#define IR_REDUCTIONS_REAL IR_DROP
#define IR_REDUCTIONS_INTEGER IR_DROP
#define IR_REDUCTIONS_REDUCE IR_KEEP
#define IR_REDUCTIONS_SCAN IR_DROP
#define IR_REDUCTIONS_SCATTER IR_DROP
#define IR_REDUCTIONS_MOVE IR_DROP
#define IR_REDUCTIONS_CONTRACT IR_DROP
#define IR_REDUCTIONS_QUANT IR_DROP
#define IR_REDUCTIONS_EFFECT IR_DROP

/* All elementwise ops: integer ones have no floats, the others do. */
#define IR_OF_ELEMENTWISE(kind, ...) IR_ALL_##kind(__VA_ARGS__)
#define IR_ALL_LEAF IR_DROP
#define IR_ALL_VIEW IR_DROP
#define IR_ALL_ELEMENTWISE IR_KEEP
#define IR_ALL_REAL IR_KEEP
#define IR_ALL_INTEGER IR_KEEP
#define IR_ALL_REDUCE IR_DROP
#define IR_ALL_SCAN IR_DROP
#define IR_ALL_SCATTER IR_DROP
#define IR_ALL_MOVE IR_DROP
#define IR_ALL_CONTRACT IR_DROP
#define IR_ALL_QUANT IR_DROP
#define IR_ALL_EFFECT IR_DROP

/* Scatters, whose expr and ints join what is there and what comes. */
#define IR_OF_SCATTERS(kind, ...) IR_SCATTERS_##kind(__VA_ARGS__)
#define IR_SCATTERS_LEAF IR_DROP
#define IR_SCATTERS_VIEW IR_DROP
#define IR_SCATTERS_ELEMENTWISE IR_DROP
#define IR_SCATTERS_REAL IR_DROP
#define IR_SCATTERS_INTEGER IR_DROP
#define IR_SCATTERS_REDUCE IR_DROP
#define IR_SCATTERS_SCAN IR_DROP
#define IR_SCATTERS_SCATTER IR_KEEP
#define IR_SCATTERS_MOVE IR_DROP
#define IR_SCATTERS_CONTRACT IR_DROP
#define IR_SCATTERS_QUANT IR_DROP
#define IR_SCATTERS_EFFECT IR_DROP

/* Along a whole axis, each by a kernel of its own. */
#define IR_OF_SCANS(kind, ...) IR_SCANS_##kind(__VA_ARGS__)
#define IR_SCANS_LEAF IR_DROP
#define IR_SCANS_VIEW IR_DROP
#define IR_SCANS_ELEMENTWISE IR_DROP
#define IR_SCANS_REAL IR_DROP
#define IR_SCANS_INTEGER IR_DROP
#define IR_SCANS_REDUCE IR_DROP
#define IR_SCANS_SCAN IR_KEEP
#define IR_SCANS_SCATTER IR_DROP
#define IR_SCANS_MOVE IR_DROP
#define IR_SCANS_CONTRACT IR_DROP
#define IR_SCANS_QUANT IR_DROP
#define IR_SCANS_EFFECT IR_DROP

#endif
