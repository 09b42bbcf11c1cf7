/* One GPU: found, checked and made current; its memory. */
#ifndef HAL_CUDA_GPU_H
#define HAL_CUDA_GPU_H

#include <stddef.h>

#include "hal/cuda/api.h"

/* Borrows the table of functions. One thread at a time; a thread that did not open it makes the context
 * current itself (cu->context_set). */
typedef struct cuda_gpu {
    const cuda_driver *cu;
    int device; /* the driver's number */
    void *context;
    char name[64];
    int driver_version; /* 12030 is 12.3 */
    int capability;     /* 90 is 9.0 */
    int n_sm;           /* multiprocessors */
    size_t max_shared;  /* bytes of shared memory a block may have */
    size_t memory;      /* bytes in all */
} cuda_gpu;

/* RP_UNSUPPORTED, one line with what to do: driver too old, no GPU, no such ordinal, a GPU below
 * min_capability (90 for 9.0). To open, too: RP_DEVICE for one that others have for themselves, RP_NOMEM where they left no memory. cuda_gpu_find only looks, without a context: nothing is to be closed. */
rp_status cuda_gpu_find(const cuda_driver *cu, int ordinal, int min_capability, cuda_gpu *out,
                        rp_error *err) RP_MUST_USE;
rp_status cuda_gpu_open(const cuda_driver *cu, int ordinal, int min_capability, cuda_gpu *out,
                        rp_error *err) RP_MUST_USE;
/* Gives the context back; memory, modules and graphs must be gone. A zeroed struct is fine. */
void cuda_gpu_close(cuda_gpu *g);

/* Uninitialised device memory, aligned to 256 bytes; what names it in the error. */
rp_status cuda_gpu_alloc(const cuda_gpu *g, size_t size, const char *what, uint64_t *out,
                         rp_error *err) RP_MUST_USE;
void cuda_gpu_free(const cuda_gpu *g, uint64_t at); /* 0 is fine */

#endif
