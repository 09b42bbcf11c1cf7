/* What turns a piece into launches: the two compilers that `backend` names.
 *
 * eager runs each node with the portable kernels inside the library; inductor fuses, generates and compiles. */
#ifndef COMPILE_BACKEND_H
#define COMPILE_BACKEND_H

#include "compile/toolchain.h"
#include "lower/lower.h"

typedef struct compile_backend {
    const char *name;
    bool needs_compiler;
    rp_status (*lower)(const ir_graph *g, const lower_options *opt, lower_piece *out,
                       rp_error *err);
} compile_backend;

extern const compile_backend compile_eager;
extern const compile_backend compile_inductor;

#endif
