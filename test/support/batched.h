/* The inductor compiler with one run of the C compiler for many graphs: a run takes longer to begin than to compile a small kernel.
 *
 * Each graph is compiled twice. While collecting, its kernels are noted under names of their own and no code is made, so that the
 * graph cannot run; batched_build compiles all that were noted as one unit; then the same graphs, named as before, find their kernels in
 * it. The texts are those of compile_inductor but for the names. One thread. */
#ifndef SUPPORT_BATCHED_H
#define SUPPORT_BATCHED_H

#include "compile/compile.h"

extern const rp_compiler compile_batched;

/* Begins to collect; forgets what was noted. */
void batched_begin(void);
/* The kernels of graphs that are compiled from here on are those of name, which is unique within a batch and holds for a second
 * time when its graphs come again. */
void batched_graph(uint64_t name);
/* Compiles what was noted: what follows runs. */
rp_status batched_build(gen_isa isa, const compile_toolchain *t, cache_store *store,
                        rp_error *err) RP_MUST_USE;

#endif
