/* Kernels of all pieces that are compiled together, each text once, dealt to translation units.
 *
 * Two kernels are equal when their texts are but for their own names; the piece with the longest source has them, so that
 * the rest need little or nothing. What comes out depends on the pieces alone, not on threads or on what is stored. */
#ifndef COMPILE_UNITS_H
#define COMPILE_UNITS_H

#include "base/hash.h"
#include "lower/lower.h"

/* Where kernel i of a piece is. */
typedef struct compile_place {
    uint32_t unit;
    const char *symbol; /* of the piece that has it */
} compile_place;

typedef struct compile_source {
    uint32_t piece;     /* whose kernels these are */
    uint32_t n_kernels; /* at least one */
    char *text;
    bool ptx; /* one kernel, a module that is not compiled here */
} compile_source;

typedef struct compile_units {
    compile_source *units;
    uint32_t n_units;
    compile_place **places; /* by piece and kernel */
    uint32_t n_pieces;
} compile_units;

/* Of the text of kernel k of p, its own name left out, and of what it uses of the templates. */
rp_status compile_kernel_hash(const lower_piece *p, const lower_kernel *k, base_hash128 *out,
                              rp_error *err) RP_MUST_USE;

/* Pieces are borrowed, and symbols point into them. */
rp_status compile_units_make(const lower_piece *const *pieces, uint32_t n, gen_isa isa,
                             compile_units *out, rp_error *err) RP_MUST_USE;
void compile_units_done(compile_units *u); /* empty is fine */

#endif
