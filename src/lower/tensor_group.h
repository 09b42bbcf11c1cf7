/* Inside of products on tensor cores: a group as its templates see it (tensor.c), and the text of its epilogues (tensor_text.c). */
#ifndef LOWER_TENSOR_GROUP_H
#define LOWER_TENSOR_GROUP_H

#include "lower/arranged.h"
#include "lower/prologue.h"
#include "lower/rotary.h"

/* Part of a kernel: units of one segment. */
typedef struct lower_tensor_part {
    const pass_segment *s;
    const lower_rotary *rotary; /* its epilogue; NULL: that of s */
    int64_t columns;            /* of each of its matrices */
    int64_t units, first_unit, first_tile;
} lower_tensor_part;

typedef struct lower_tensor_parts {
    lower_tensor_part *parts;
    uint32_t n_parts;
    rp_dtype x;                /* of rows */
    const lower_rows *own;     /* makes few of them in the kernel; NULL: they are in memory */
    int64_t k, units, columns; /* of a unit, of each of its matrices */
    int64_t tiles;             /* of a unit, at most */
    bool direct;               /* every epilogue is elementwise */
    bool alone;                /* and touches no memory but its result's */
    const lower_tiles *to;     /* in which the result lies; NULL: rows, one behind the other */
    bool rotary;               /* every part has one */
} lower_tensor_parts;

#define LOWER_TENSOR_WARPS 8

/* The epilogues of all parts for kernel NAME, and the struct NAME_units: how many units there are, where they lie (at), and what is done with their sums
 * (gen/embed/tensor.cu, results). L->args get what they read and write. */
rp_status lower_tensor_units(lowerer *L, const pass_group *gr, lower_tensor_parts *g,
                             const char *name);
/* Finds g->direct and g->alone. */
rp_status lower_tensor_find_direct(lowerer *L, const pass_group *gr, lower_tensor_parts *g);

#endif
