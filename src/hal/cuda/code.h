/* Kernels from CUDA C: text to cubin by NVRTC, cubin to functions by the driver. */
#ifndef HAL_CUDA_CODE_H
#define HAL_CUDA_CODE_H

#include <stddef.h>

#include "hal/cuda/api.h"

typedef struct cuda_source {
    const char *text, *name; /* name stands in error lines */
    const char *arch;        /* such as "sm_90a" */
} cuda_source;

/* The cubin of a source, owned by the caller (base_free). options: NULL or a NULL-terminated list. RP_INVALID with
 * the kernel and the compiler's first error line where the text does not compile. */
rp_status cuda_compile(const cuda_nvrtc *rtc, const cuda_source *source, const char *const *options,
                       char **cubin, size_t *size, rp_error *err) RP_MUST_USE;

/* Loads a cubin into the current context. *module is freed by cu->module_free. */
rp_status cuda_code_load(const cuda_driver *cu, const char *cubin, void **module,
                         rp_error *err) RP_MUST_USE;

/* A kernel by name, allowed `shared` bytes of dynamic shared memory and clusters of more than 8 blocks. All the memory
 * that can be shared memory is: kernels that run at once must agree on that. */
rp_status cuda_code_kernel(const cuda_driver *cu, void *module, const char *name, size_t shared,
                           void **function, rp_error *err) RP_MUST_USE;

#endif
