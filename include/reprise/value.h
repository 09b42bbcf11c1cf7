/* Values: what a function of an automatic graph takes and gives (autograph.h).
 *
 * A value is nothing, a literal, a tensor, or a list, a tuple or a map of values, as deep as RP_MAX_VALUE_DEPTH. It is a plain
 * struct that borrows what it points to. Which kind stands where, the names of a map in their order, the type and value of
 * each literal, and dtype and sizes of each tensor (of `rows` the rounded one) are what a graph is found by: 1, true, 1.0 and
 * "1" are four calls. */
#ifndef REPRISE_VALUE_H
#define REPRISE_VALUE_H

#include <string.h>

#include "reprise/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_VALUE_DEPTH 32

typedef enum rp_value_kind {
    RP_VALUE_NONE,
    RP_VALUE_BOOL,
    RP_VALUE_INT,
    RP_VALUE_FLOAT,
    RP_VALUE_STRING,
    RP_VALUE_TENSOR,
    RP_VALUE_LIST,
    RP_VALUE_TUPLE,
    RP_VALUE_MAP
} rp_value_kind;

typedef struct rp_value {
    rp_value_kind kind;
    uint32_t n;                  /* LIST, TUPLE, MAP: items */
    const struct rp_value *item; /* [n] */
    const char *const *name;     /* MAP: [n] */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *string;
    } as;             /* BOOL, INT, FLOAT, STRING */
    rp_buffer tensor; /* TENSOR */
    /* TENSOR: a view whose neighbours along axis i are stride[i] elements apart, which is not negative but in rp_jit_run. The function is given a dense copy. */
    bool strided;
    int64_t stride[RP_MAX_RANK];
    /* TENSOR: long-lived memory (weights, a KV cache) that is read and written where it lies. Its address is part of what a graph
     * is found by; other tensors are copied into memory of the manager, and may not be written. */
    bool state;
    /* TENSOR: dense memory that kernels of one's own find by a table: the function is given, as data, the place on the device where
     * a `void *` stands that is the address in this call. Nothing is copied, and each call may have another address. */
    bool indirect;
    /* TENSOR: dim[0] counts rows that the function treats each by itself. Arguments of a call that are marked have the same dim[0]; under
     * RP_GROWTH_RESERVE it is rounded up, so that few graphs serve all sizes: to 1, 2, 4, then by steps of 8, above 256 by a
     * sixteenth of the power of two below. The function sees the rounded size and zeros in the rows behind the caller's; tensors
     * of its result that are marked, whose dim[0] is the rounded size, come back with as many rows as the arguments had. */
    bool rows;
} rp_value;

static inline rp_value rp_value_none(void) {
    rp_value v;
    memset(&v, 0, sizeof v);
    return v;
}
static inline rp_value rp_value_bool(bool b) {
    rp_value v = rp_value_none();
    v.kind = RP_VALUE_BOOL;
    v.as.boolean = b;
    return v;
}
static inline rp_value rp_value_int(int64_t i) {
    rp_value v = rp_value_none();
    v.kind = RP_VALUE_INT;
    v.as.integer = i;
    return v;
}
static inline rp_value rp_value_float(double x) {
    rp_value v = rp_value_none();
    v.kind = RP_VALUE_FLOAT;
    v.as.number = x;
    return v;
}
static inline rp_value rp_value_string(const char *s) {
    rp_value v = rp_value_none();
    v.kind = RP_VALUE_STRING;
    v.as.string = s;
    return v;
}
static inline rp_value rp_value_tensor(rp_buffer b) {
    rp_value v = rp_value_none();
    v.kind = RP_VALUE_TENSOR;
    v.tensor = b;
    return v;
}
static inline rp_value rp_value_strided(rp_buffer b, const int64_t *stride) {
    rp_value v = rp_value_tensor(b);
    v.strided = true;
    memcpy(v.stride, stride, (b.rank < RP_MAX_RANK ? b.rank : RP_MAX_RANK) * sizeof *stride);
    return v;
}
static inline rp_value rp_value_state(rp_buffer b) {
    rp_value v = rp_value_tensor(b);
    v.state = true;
    return v;
}
static inline rp_value rp_value_indirect(rp_buffer b) {
    rp_value v = rp_value_tensor(b);
    v.indirect = true;
    return v;
}
static inline rp_value rp_value_rows(rp_buffer b) {
    rp_value v = rp_value_tensor(b);
    v.rows = true;
    return v;
}
static inline rp_value rp_value_list(const rp_value *item, uint32_t n) {
    rp_value v = rp_value_none();
    v.kind = RP_VALUE_LIST;
    v.item = item;
    v.n = n;
    return v;
}
static inline rp_value rp_value_tuple(const rp_value *item, uint32_t n) {
    rp_value v = rp_value_list(item, n);
    v.kind = RP_VALUE_TUPLE;
    return v;
}
static inline rp_value rp_value_map(const char *const *name, const rp_value *item, uint32_t n) {
    rp_value v = rp_value_list(item, n);
    v.kind = RP_VALUE_MAP;
    v.name = name;
    return v;
}

#ifdef __cplusplus
}
#endif
#endif
