/* The compile manager: (range, piece, backend) -> artifacts, for all graphs that are compiled together.
 *
 * Pieces are added, and lowered, one after the other; their kernels become units, each text once (units.h); then one list of
 * jobs, the longest first, is worked off by as many threads as wanted. What a compiler gave a handle for is loaded by it in
 * later processes. */
#ifndef COMPILE_MANAGER_H
#define COMPILE_MANAGER_H

#include "compile/assemble.h"
#include "compile/compile.h"

typedef struct compile_manager compile_manager;

/* The one range so far: all sizes that the symbols of a piece allow. */
#define COMPILE_RANGE_GENERAL "None"

typedef struct compile_entry {
    const split_piece *piece;
    const char *range;
    base_hash128 key;
    lower_piece lowered;
    compile_function *functions; /* by kernel; after compile_manager_run */
    double lower_ms;
    /* of the kernels that no piece before it has */
    uint32_t kernels, compiles, loads;
} compile_entry;

/* Initialises the compiler's cache and asks for its hash. opt is borrowed. */
rp_status compile_manager_new(const compile_options *opt, compile_manager **out,
                              rp_error *err) RP_MUST_USE;
void compile_manager_free(compile_manager *m);
/* sp is borrowed. *entry is that of the first piece with the same key; *added: this one is. */
rp_status compile_manager_add(compile_manager *m, const split_piece *sp, uint32_t *entry,
                              bool *added, rp_error *err) RP_MUST_USE;
/* The same with a choice for each group of fusion, n_choices of them, in place of the rules'. Copied. */
typedef struct compile_choices {
    const lower_choice *of; /* by group */
    uint32_t n;
} compile_choices;
rp_status compile_manager_add_chosen(compile_manager *m, const split_piece *sp,
                                     const compile_choices *choices, uint32_t *entry, bool *added,
                                     rp_error *err) RP_MUST_USE;
/* What opt->backend makes of sp after the passes. */
rp_status compile_lower(const compile_options *opt, const split_piece *sp,
                        const compile_choices *choices, bool labels, lower_piece *out,
                        rp_error *err) RP_MUST_USE;
/* Code for all entries. */
rp_status compile_manager_run(compile_manager *m, rp_error *err) RP_MUST_USE;
const compile_entry *compile_manager_entry(const compile_manager *m, uint32_t entry);

#endif
