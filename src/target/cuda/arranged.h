/* Private to the room: rows that a product on tensor cores leaves as the product that reads them wants them. */
#ifndef TARGET_ARRANGED_H
#define TARGET_ARRANGED_H

#include "lower/emit.h"

typedef struct target_arranged target_arranged;

/* How a product wants its rows of k elements of bf16: up to of[0].most one behind the other, more in tiles of so many `columns` (rk_tiles of gen/embed/tensor.cu). */
typedef struct target_tiles {
    struct {
        int64_t most, columns;
    } of[LOWER_MAX_ALTS];
    uint32_t n;
} target_tiles;

/* What matmul group gr wants. */
rp_status target_tensor_tiles(const lowerer *L, const pass_group *gr, target_tiles *out);
/* Bytes of as many rows in whole tiles of any class, a dim of the graph. */
ir_dim target_arranged_bytes(lowerer *L, ir_dim rows, int64_t k);

/* Where the one value that matmul group gr stores, through an epilogue that touches nothing else, is read as rows by one product on tensor cores alone: the
 * tiles that that wants, in the arena, and the value has memory for them from then on; else *out is NULL. */
rp_status target_arranged_find(lowerer *L, const pass_group *gr, const target_tiles **out);
/* Whether value r lies so. */
bool target_is_arranged(const lowerer *L, ir_ref r);
/* NAME_tiles: the tiles, of 1 row where they lie one behind the other. */
rp_status target_arranged_text(lowerer *L, const target_tiles *t, const char *name, ir_dim rows);

#endif
