/* Products of float rows whose results are stored as they are: kernels of the library, so that nothing is compiled for them.
 *
 * Generated code says the same to the same templates (gen/embed/product.h), so that bits are equal. Sizes are numbers here. */
#ifndef GEN_PRODUCT_H
#define GEN_PRODUCT_H

#include "gen/isa.h"
#include "reprise/dtype.h"

#define GEN_PRODUCT_PARTS 4 /* products of one launch */
#define GEN_PRODUCT_BATCH 4

/* In elements: from a row (of w: a column) to the next, from one k to the next, between matrices. */
typedef struct gen_product_side {
    int64_t offset, step, k_step, batch[GEN_PRODUCT_BATCH];
} gen_product_side;

/* Columns of a result, and how many tiles of packed weights come before its own. */
typedef struct gen_product_part {
    int64_t columns, first_tile;
} gen_product_part;

/* Argument 2 of such a launch. Rows of results lie one behind the other, those of all batches counted through. */
typedef struct gen_product_record {
    int64_t rows, block, k, columns, items; /* as in rp_mmf */
    int64_t batch[GEN_PRODUCT_BATCH];
    gen_product_side x, w; /* w: where weights are not packed, and then there is one part */
    gen_product_part part[GEN_PRODUCT_PARTS];
    uint32_t n_parts, packed; /* packed: 0 or 1 */
    uint32_t x_dtype, w_dtype;
} gen_product_record;
_Static_assert(
    sizeof(gen_product_record) ==
        8 * (5 + GEN_PRODUCT_BATCH + 2 * (3 + GEN_PRODUCT_BATCH) + 2 * GEN_PRODUCT_PARTS) + 16,
    "stored as bytes: no padding");

/* arg: x, w, record, a result of f32 for each part. Items: as of generated products. */
typedef void gen_product_fn(void *const *arg, const long long *dim, long long begin, long long end,
                            void *scratch);
extern gen_product_fn gen_product_portable;
#if defined(__x86_64__)
extern gen_product_fn gen_product_avx2, gen_product_avx512;
#endif

/* Name of the kernel for an instruction set ("@product_avx2"); static. */
const char *gen_product_name(gen_isa isa);

#endif
