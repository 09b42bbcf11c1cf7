/* Kernels of a user, who knows of this library its streams alone: loaded and launched through the driver. */
#ifndef SUPPORT_KERNELS_H
#define SUPPORT_KERNELS_H

#include "hal/cuda/api.h"
#include "reprise/reprise.h"

typedef enum kernel_name {
    KERNEL_AFFINE,   /* (x, y, w, n): y = x * w[0] + w[1] */
    KERNEL_COUNT_UP, /* (at): at[0] += 1 */
    KERNEL_STEP,     /* (x, more, limit): x[0] += 1, and whether it is less than limit[0] */
    KERNEL_THROUGH,  /* (x, y, n): y = x[0] + 1, where x[0] is an address */
    N_KERNELS
} kernel_name;

/* The driver, once kernels were loaded. */
const cuda_driver *kernels_driver(void);
/* Loads them where they are not, into the context of s. */
void kernels_open(rp_stream *s);
void kernels_close(void);
/* n threads; arguments of 8 bytes each. The driver's code. */
int kernels_launch(rp_stream *s, kernel_name k, long long n, void **parameters);

#endif
