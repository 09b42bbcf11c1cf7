/* Custom ops whose implementation is text: what kernels that call the function rp_op of it share in all languages. */
#ifndef TARGET_SOURCE_H
#define TARGET_SOURCE_H

#include "lower/target.h"

typedef struct target_source {
    const rp_op_desc *d;
    const ir_node *n;
    const ir_type *types; /* of the arguments */
    const char *text;     /* NULL: PTX */
    const char *name;     /* of the kernel */
    ir_dim items;         /* of the piece */
    size_t begin;         /* of the source */
    char hash[33];
} target_source;

/* text: of d, for the language; NULL: none. */
rp_status target_source_begin(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d,
                              const char *text, target_source *out);
/* The op's text, whose function is then rp_op_HASH, in namespace rp_own_HASH where it is `scoped`. */
void target_source_put(lowerer *L, const target_source *s, bool scoped);
/* In the kernel: what that function takes besides the item, as `view` and `attr`. */
void target_source_put_arguments(lowerer *L, const target_source *s);
/* Enters the kernel, whose text is there. */
void target_source_end(lowerer *L, const target_source *s);
/* Its launch but for the arguments. */
lower_launch *target_source_launch(lowerer *L, const target_source *s);

#endif
