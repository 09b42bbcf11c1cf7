/* Frees while captures are under way.
 *
 * A free or an unload may wait for the GPU, which the driver refuses to a thread that captures, and what is freed may be in
 * the graph that is being made. So between the begin of the first capture on any GPU of the process and the end of the last
 * one they are put off. Thread-safe. */
#ifndef HAL_CUDA_GUARD_H
#define HAL_CUDA_GUARD_H

#include <stdbool.h>

#include "hal/cuda/gpu.h"

typedef enum cuda_freed {
    CUDA_FREED_MEMORY,
    CUDA_FREED_HOST,
    CUDA_FREED_MODULE,
    CUDA_FREED_RANGE /* a cuda_reserved */
} cuda_freed;

/* Unmaps and frees a range, its memory and the struct. */
typedef struct cuda_reserved cuda_reserved;
void cuda_reserved_free(const cuda_driver *cu, cuda_reserved *r);

void cuda_guard_enter(void);
/* The last one to leave frees what was put off. */
void cuda_guard_leave(void);
bool cuda_guard_busy(void);
/* Frees p of that GPU, now or, while captures are under way, at the end of the last one; its context stays until then. */
void cuda_guard_free(const cuda_gpu *g, cuda_freed kind, void *p);

/* While this thread captures, the driver lets it do nothing that a graph could not contain. What the library does by itself
 * goes between these two; relax gives what restore wants. */
int cuda_guard_relax(const cuda_driver *cu);
void cuda_guard_restore(const cuda_driver *cu, int mode);

#endif
