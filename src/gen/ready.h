/* Kernels of the library that are generated text of common functions, compiled ahead: a compiler run less for each.
 *
 * In embed/ready_*.c.inc the sizes and the numbers of a kernel are words of a record: a kernel whose text is the same but for those
 * runs there. What the generators write decides, so a text that they no longer write is no error: such kernels are compiled. */
#ifndef GEN_READY_H
#define GEN_READY_H

#include "gen/gen.h"

/* X(name, arguments). Sizes in innermost loops are multiples of 16; by64: of 64. Columns that are summed are of multiples of 2048 rows; by128: of 128. Rows that are not long have 4096 elements at most,
 * of longer ones a sum has chunks. */
#define GEN_READY_LIST(X)    \
    X(softmax, 2)            \
    X(softmax_by64, 2)       \
    X(softmax_long, 2)       \
    X(rms_norm, 3)           \
    X(rms_norm_long, 3)      \
    X(layer_norm, 4)         \
    X(layer_norm_long, 4)    \
    X(mean_var, 3)           \
    X(column_sum, 2)         \
    X(column_sum_by128, 2)   \
    X(mean, 2)               \
    X(cross_entropy_rows, 3) \
    X(silu_mul, 3)           \
    X(gelu, 2)               \
    X(gelu_bias, 3)          \
    X(gelu_tanh, 2)          \
    X(add, 3)                \
    X(linear_bias, 4)        \
    X(linear_bias_gelu, 4)   \
    X(linear_add, 4)         \
    X(linear_silu_mul, 3)    \
    X(linear_mul_silu, 3)    \
    X(causal_mask, 1)        \
    X(causal_masks, 2)       \
    X(heads_to_rows, 2)      \
    X(heads_to_rows_by16, 2) \
    X(rows_joined, 3)

enum { GEN_READY_WORDS = 48 };

typedef struct gen_ready {
    const char *symbol; /* of gen_builtin_find; static */
    uint32_t n_args;    /* in front of the record, which is the last argument */
    uint32_t n_words;
    int64_t word[GEN_READY_WORDS]; /* the record */
} gen_ready;

/* Appends the text of a kernel with words in the place of sizes and numbers, names counted from 0, and `as` in the place of its
 * own name. False where it has more words than a record. */
bool gen_ready_form(base_str text, const char *name, const char *as, gen_ready *r, base_buf *out);
/* The kernel that does what this text does on an instruction set; false where there is none. */
bool gen_ready_find(gen_isa isa, base_str text, const char *name, gen_ready *out);
/* By its symbol, or NULL. */
gen_host_fn gen_ready_function(const char *symbol);
/* The text of kernel i of the list, as embed/ready_*.c.inc has it; "" where it has none. name: as in the list. */
base_str gen_ready_text(uint32_t i, const char **name);
uint32_t gen_ready_count(void);

/* ready_<isa>.c: in the order of the list. */
extern const gen_host_fn gen_ready_portable[], gen_ready_avx2[], gen_ready_avx512[];

#endif
