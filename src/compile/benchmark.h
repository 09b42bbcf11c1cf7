/* A program that times each generated kernel of a piece by itself, in C, for who looks at a dump. */
#ifndef COMPILE_BENCHMARK_H
#define COMPILE_BENCHMARK_H

#include "lower/lower.h"

/* Appends the program for low, which graph g (after the passes) was lowered to and whose source is in the file `source` beside it.
 * Memory is of each symbol's nominal size. Kernels that run a product of the library are named, and left out. Nothing is appended where no kernel
 * remains, or for a GPU. */
rp_status compile_benchmark_print(const ir_graph *g, const lower_piece *low, gen_isa isa,
                                  gen_cc_family family, const char *source, base_buf *out,
                                  rp_error *err) RP_MUST_USE;

#endif
