/* Products for any processor, and the scratch that all forms need. */
#define RP_ISA 0
#define PACKED(name) portable_##name
#define TEMPLATES gen_templates_portable
#include "compile/portable/packed_kernel.c.inc"

#include "lower/product.h"

_Static_assert(RP_MMF_SCRATCH == LOWER_PRODUCT_SCRATCH, "scratch of products with float rows");
_Static_assert(RP_MMF_BATCH == LOWER_PRODUCT_BATCH, "batch dims of a product");

#define MAX_ROWS_PACKED 12 /* rows that the forms interleave at most */

int64_t portable_packed_scratch(int64_t k) {
    rp_size row = RP_QROW_SIZE(k);
    return (int64_t)(RP_MM_ROUND64(MAX_ROWS_PACKED * row) + RP_MM_ROUND64(row));
}
