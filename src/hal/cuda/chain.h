/* A device graph that is a chain of kernels, built node by node through the driver's node API.
 *
 * Programmatic edges let a kernel start before the one in front of it ends: it may read what the chain does not
 * write, and has to execute griddepcontrol.wait before anything else. Every kernel of such a chain must execute
 * it, because three of them may run at once and completion is handed on by that wait alone. */
#ifndef HAL_CUDA_CHAIN_H
#define HAL_CUDA_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hal/cuda/api.h"

/* One kernel. parameters points to values as the kernel takes them, copied when the node is added. */
typedef struct cuda_launch {
    void *function;
    uint32_t grid[3], threads;
    size_t shared; /* bytes of dynamic shared memory */
    void **parameters;
} cuda_launch;

typedef struct cuda_chain {
    const cuda_driver *cu;
    void *graph, *exec, *last;
    uint32_t n;
    bool programmatic;
} cuda_chain;

/* Empty. cuda_chain_done also after any failure. */
rp_status cuda_chain_init(cuda_chain *c, const cuda_driver *cu, bool programmatic,
                          rp_error *err) RP_MUST_USE;
rp_status cuda_chain_add(cuda_chain *c, const cuda_launch *l, rp_error *err) RP_MUST_USE;
/* Makes it launchable and sends it to the GPU; nothing is added afterwards. */
rp_status cuda_chain_finish(cuda_chain *c, void *stream, rp_error *err) RP_MUST_USE;
rp_status cuda_chain_launch(const cuda_chain *c, void *stream, rp_error *err) RP_MUST_USE;
void cuda_chain_done(cuda_chain *c); /* no launch of it may be running */

#endif
