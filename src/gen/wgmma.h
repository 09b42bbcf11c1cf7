/* Text of the instruction wgmma in CUDA C, of which each width is another one. */
#ifndef GEN_WGMMA_H
#define GEN_WGMMA_H

#include <stdint.h>

#include "base/str.h"

/* Where a is, and how its elements lie; those of b lie along k in shared memory. */
typedef enum gen_wgmma_form {
    GEN_WGMMA_SHARED,        /* along k */
    GEN_WGMMA_SHARED_TURNED, /* along the rows */
    GEN_WGMMA_REGISTERS,
    GEN_WGMMA_REGISTERS_TURNED /* and those of b lie along its columns */
} gen_wgmma_form;

/* NAME<columns>(d, a, b, more), a specialisation of a template that stands in front: d[columns / 2] += 64 rows of a times
 * columns of b, 16 k of bf16; d = where `more` is 0. GEN_WGMMA_REGISTERS_TURNED has no `more`. */
void gen_wgmma_text(const char *name, uint32_t columns, gen_wgmma_form form, base_buf *out);

#endif
