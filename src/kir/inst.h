/* Private to the room: raw instructions, their ranges, and the rules every part shares. */
#ifndef KIR_INST_H
#define KIR_INST_H

#include "kir/kir.h"

#define KIR_RANGE_ALL ((kir_range){INT64_MIN, INT64_MAX})

/* What an op looks like to verifier, printer and parser. */
typedef enum kir_shape {
    KIR_SHAPE_PLAIN, /* operands make a value */
    KIR_SHAPE_BEGIN, /* opens a block */
    KIR_SHAPE_END,   /* closes one */
    KIR_SHAPE_EFFECT /* no value */
} kir_shape;

typedef struct kir_op_info {
    const char *text;
    kir_shape shape;
    uint32_t n_in; /* ALU: by the op */
    char in[3];    /* class of each operand: i index, d data, n integer, t i32, f f32 */
    char out;      /* i index, s as operand 0, d by cls, t i32, f f32, b by buffer, - none */
} kir_op_info;
const kir_op_info *kir_op_table(kir_op op);
const char *kir_class_name(kir_class c);
/* The type of a temporary that keeps a value of the class; an index is kept as i32. */
rp_dtype kir_class_dtype(kir_class c);
const char *kir_reduce_name(kir_reduce r);

/* Appends as it is: no folding, no checks but memory and depth. Keeps the block stack and the ranges. */
kir_ref kir_append(kir_func *f, kir_inst in);
/* What is shared (constants, dims, params, index arithmetic): the same value made before, where it can be seen from here, or
 * KIR_NONE; notes one; room for cap instructions (a power of two), which are then noted again. */
kir_ref kir_shared_find(kir_func *f, const kir_inst *in);
void kir_shared_add(kir_func *f, kir_ref r);
bool kir_shared_grow(kir_func *f, uint32_t cap);
/* The same index value made before, where it can be seen from here; else a new one. c may be KIR_NONE. */
kir_ref kir_append_shared(kir_func *f, kir_op op, kir_ref a, kir_ref b, kir_ref c);
/* Records the first failure. */
void kir_fail(kir_func *f, rp_status code, const char *fmt, ...) RP_PRINTF(3, 4);
/* The value may be used here, where the blocks `f->open` are open. */
bool kir_is_visible(const kir_func *f, kir_ref r);
/* Made once for the whole function: const, dim, param. */
bool kir_is_global(kir_op op);
static inline bool kir_makes_value(const kir_inst *in) {
    return in->cls != KIR_VOID;
}

/* Class of the values of a buffer. */
kir_class kir_buf_class(rp_dtype t);
bool kir_dtype_ok(rp_dtype t);
/* Bounds of an integer dtype; KIR_RANGE_ALL for floats. */
kir_range kir_dtype_range(rp_dtype t);

kir_range kir_range_of(const kir_func *f, const kir_inst *in);
/* An integer op whose result cannot leave its class. */
bool kir_alu_exact(const kir_func *f, const kir_inst *in);
int64_t kir_floordiv(int64_t a, int64_t b); /* b > 0 */
int64_t kir_mod(int64_t a, int64_t b);
/* The value of an index that can only have one. */
bool kir_const_value(const kir_func *f, kir_ref r, int64_t *out);

#endif
