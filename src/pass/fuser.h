/* Inside of fusion: what placing (fuse.c) and settling (settle.c) share. */
#ifndef PASS_FUSER_H
#define PASS_FUSER_H

#include "pass/fuse.h"

#define NO_GROUP UINT32_MAX

typedef struct fuser {
    const ir_graph *g;
    const pass_options *opt;
    pass_fusion *f;
    uint64_t *deps; /* n_groups x words: groups each group reads from, not closed */
    uint32_t words, cap;
    bool *seen;                /* scratch of the path search */
    uint32_t *stamp, n_stamps; /* by ref: the last count of bytes that saw it */
    rp_error *err;
} fuser;

/* The values that node r reads, through views: calls fn for each until it says false. row: whether the read stays in the
 * row of r. */
typedef bool (*pass_source_fn)(fuser *u, ir_ref producer, bool row, void *user);
bool pass_each_source(fuser *u, ir_ref r, bool row, pass_source_fn fn, void *user);
/* Whether group a reads from group b. */
bool pass_dep_get(const fuser *u, uint32_t a, uint32_t b);
/* After placing: moves nodes where they cost less, orders the groups, finds what is stored, and logs. */
rp_status pass_settle_groups(fuser *u) RP_MUST_USE;

#endif
