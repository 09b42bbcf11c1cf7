/* The inductor backend: fusion, kernel IR and generators of this project. */
#include "compile/backend.h"

const compile_backend compile_inductor = {
    .name = "inductor", .needs_compiler = true, .lower = lower_graph};
