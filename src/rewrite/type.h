/* Types of a pattern's inputs as text: "f32[T,64]". */
#ifndef REWRITE_TYPE_H
#define REWRITE_TYPE_H

#include "rewrite/registry.h"
#include "trace/trace.h"

/* What the names of sizes are in one form of a pattern. */
typedef enum rewrite_sizes {
    REWRITE_SYMBOLS,
    REWRITE_NUMBERS,
    REWRITE_FIRST, /* the first name a symbol, the others numbers */
    REWRITE_SIZES
} rewrite_sizes;

/* RP_INVALID says where a type is none. */
rp_status rewrite_type_check(const char *text, rp_error *err) RP_MUST_USE;
/* The inputs of a form, of types that were checked. False: g has failed. */
bool rewrite_type_inputs(const rp_pass_desc *d, rewrite_sizes sizes, rp_graph *g, rp_tensor *out);
/* Whether values have the types, with one size for each name. */
bool rewrite_type_fits(const rp_pass_desc *d, const ir_graph *g, const ir_ref *value);

#endif
