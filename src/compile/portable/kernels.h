/* All portable kernels; their names in a plan are '@' and what follows portable_. */
#ifndef COMPILE_PORTABLE_KERNELS_H
#define COMPILE_PORTABLE_KERNELS_H

#include "compile/portable/box.h"
#include "ir/kinds.h"

/* Elementwise ops and reductions, one each. */
#define OP(name, kind, arity, attrs, facts, expr, ints)  \
    IR_OF_ELEMENTWISE(kind, box_kernel portable_##name;) \
    IR_OF_REDUCTIONS(kind, box_kernel portable_##name;)
#include "ir/ops.def"
#undef OP

/* The others. */
#define PORTABLE_KERNELS(X) \
    X(copy) X(gather) X(iota) X(pack_i4) X(unpack_i4) X(quantize) X(kv_store) PACKED_KERNELS(X, )
/* matmul: any two float operands; matmul_FMT: packed weights times float rows; matmul_packed_FMT: times i16b32 rows. One an
 * instruction set. */
#define PACKED_KERNELS(X, isa) \
    X(matmul##isa)             \
    X(matmul_f32##isa)         \
    X(matmul_f16##isa)         \
    X(matmul_bf16##isa)        \
    X(matmul_q4_0##isa)        \
    X(matmul_q4_1##isa)        \
    X(matmul_q8_0##isa)        \
    X(matmul_packed_q4_0##isa) X(matmul_packed_q4_1##isa) X(matmul_packed_q8_0##isa)
#if defined(__x86_64__)
#define PORTABLE_X86_KERNELS(X) PACKED_KERNELS(X, _avx2) PACKED_KERNELS(X, _avx512)
#else
#define PORTABLE_X86_KERNELS(X)
#endif

#define PORTABLE_DECLARE(name) box_kernel portable_##name;
PORTABLE_KERNELS(PORTABLE_DECLARE)
PORTABLE_X86_KERNELS(PORTABLE_DECLARE)
#undef PORTABLE_DECLARE

/* Bytes of scratch of the products with packed rows, k columns; enough for every instruction set. */
int64_t portable_packed_scratch(int64_t k);

#endif
