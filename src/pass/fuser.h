/* Inside of fusion: what placing (fuse.c), its candidates (candidates.c), the order of groups (order.c) and settling
 * (settle.c) share. */
#ifndef PASS_FUSER_H
#define PASS_FUSER_H

#include "base/map.h"
#include "pass/fuse.h"
#include "pass/inplace.h"
#include "pass/turned.h"

#define NO_GROUP UINT32_MAX

/* Numbers in the arena; old arrays of a list that grows die with it. */
typedef struct pass_list {
    uint32_t *at;
    uint32_t n;
} pass_list;

/* A group that shares data with the node being placed. */
typedef struct pass_candidate {
    uint32_t group;
    int64_t saved;  /* bytes that the node need not load there, at 256 for unknown sizes */
    bool shares;    /* it makes a value that the node reads */
    uint32_t keeps; /* bit i: all such reads stay in their row of the node's rows.at[i] */
} pass_candidate;

typedef struct fuser {
    const ir_graph *g;
    const pass_options *opt;
    pass_fusion *f;
    uint32_t cap; /* groups and refs are below */
    rp_error *err;
    pass_reads overwritten; /* reads that come before an effect */
    pass_turned turned;     /* rotary embeddings of normed heads */
    pass_rows *rows;        /* by ref; of nodes that have been placed */
    bool *needed;           /* runs.c: by ref */
    uint32_t *through;
    /* order.c, by group */
    pass_list *reads, *readers; /* groups */
    uint32_t *position;         /* a group stands behind all that it reads from */
    uint32_t *mark, n_marks;
    pass_list forward, backward; /* scratch of a search, as are those below */
    uint32_t *group_at, *moved;
    /* candidates.c */
    pass_list *
        touched; /* by ref: the groups that make or read the value and are remembered, oldest first */
    uint32_t *n_touched; /* by ref: of all that do */
    base_map *touches;   /* all pairs of a ref and a group */
    pass_list
        far; /* values of the node being placed that more groups touched than are remembered */
    pass_candidate *candidates;
    uint32_t n_candidates, cap_candidates;
    uint32_t *candidate_of, n_rounds, *round; /* by group */
    uint32_t *stamp, n_stamps;                /* by ref: the last count of bytes that saw it */
    ir_ref *refused;                          /* by group: the last node that was, and 1 */
    uint32_t *into; /* merge.c: by group, the one that has its nodes now, or NO_GROUP */
    /* matmuls, by ref */
    pass_list *
        with_left; /* groups of products with this left operand, one for each format of weights that join */
    uint32_t *segment; /* of the member's group */
} fuser;

rp_status pass_list_push(fuser *u, pass_list *l, uint32_t v) RP_MUST_USE;

/* The values that node r reads, through views: calls fn for each until it says false. */
typedef bool (*pass_source_fn)(fuser *u, ir_ref producer, uint32_t keeps, void *user);
bool pass_each_source(fuser *u, ir_ref r, pass_source_fn fn, void *user); /* keeps is 0 */
/* keeps, bit i: the read stays in its row of u->rows[r].at[i], which takes longer to find. */
bool pass_each_row_source(fuser *u, ir_ref r, pass_source_fn fn, void *user);
/* Those of `a` that are in b, and whose bit of keeps is set. */
pass_rows pass_common_rows(const pass_rows *a, const pass_rows *b, uint32_t keeps);
/* The most rows at 256 for unknown sizes. */
int64_t pass_most_rows(const ir_graph *g, const pass_rows *r);
/* Elements of a value at 256 for unknown sizes. */
int64_t pass_nominal_elements(const ir_graph *g, const ir_shape *s);

/* Whether group a could read from group b. Searches have a bound: beyond it the answer is PASS_FAR. */
typedef enum pass_verdict { PASS_FREE, PASS_CYCLE, PASS_FAR } pass_verdict;
pass_verdict pass_order_check(fuser *u, uint32_t a, uint32_t b);
/* Notes that it does; it must not close a cycle. */
rp_status pass_order_add(fuser *u, uint32_t a, uint32_t b) RP_MUST_USE;

/* Fills u->candidates, latest group first. */
rp_status pass_find_candidates(fuser *u, ir_ref r) RP_MUST_USE;
/* NULL when the group shares nothing with the node. */
const pass_candidate *pass_candidate_of(const fuser *u, uint32_t group);
/* r has become a member of the group. */
rp_status pass_touch_values(fuser *u, ir_ref r, uint32_t group) RP_MUST_USE;

/* Whether r reads memory that an effect overwrites later. */
bool pass_reads_overwritten(const fuser *u, ir_ref r);

/* For r, which is in its group: counts the groups that share a value with it and are not among the candidates. */
rp_status pass_count_far(fuser *u, ir_ref r) RP_MUST_USE;

rp_status pass_refuse(fuser *u, ir_ref r, uint32_t group, const char *why) RP_MUST_USE;
/* Whether what many threads could share, of r or of the group, would become the work of few: `left` are the rows of both. */
bool pass_loses_threads(const fuser *u, ir_ref r, const pass_group *gr, const pass_rows *left);
/* Why a node is not in a loop that it could be in, and is in another one. */
extern const char pass_elsewhere[];
/* After placing: loops that only one other loop reads become part of it, where each of its reads could. Empty groups are left. */
rp_status pass_merge_loops(fuser *u) RP_MUST_USE;
/* The group that has the nodes of a group since: itself where it is part of none. */
uint32_t pass_merged_into(const fuser *u, uint32_t group);
/* After placing: moves nodes where they cost less, orders the groups, finds what is stored, and logs. */
rp_status pass_settle_groups(fuser *u) RP_MUST_USE;
/* On the channel fusion: rounds, and with "+fusion" candidates, fusions and refusals. */
void pass_log_fusion(const fuser *u);

#endif
