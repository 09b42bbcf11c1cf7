/* Functions of kernel IR on a GPU, beside the interpreter. */
#ifndef SUPPORT_KIR_GPU_H
#define SUPPORT_KIR_GPU_H

#include "hal/cuda/api.h"
#include "sched/sched.h"
#include "support/kir_cases.h"

/* Runs the case's function of a module, launched as scheduled with `grid` blocks; number of elements that differ from the
 * interpreter's. */
int kir_case_on_gpu(const kir_case *c, const cuda_driver *cu, void *module,
                    const sched_launch *launch, unsigned grid, const char *what);

#endif
