/* Kernels compiled into the library, by name: attention, and the portable kernels of the eager back end. */
#ifndef COMPILE_BUILTIN_H
#define COMPILE_BUILTIN_H

#include "gen/gen.h"

/* NULL when there is no such kernel. */
gen_host_fn compile_builtin_find(const char *name);

#endif
