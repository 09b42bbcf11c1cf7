/* The passes over one piece, in order, with their table. */
#ifndef PASS_PIPELINE_H
#define PASS_PIPELINE_H

#include "ir/graph.h"
#include "pass/attention.h"

/* A pass rebuilds: it reads in and gives a new graph with the same leaves, in the same order, and the same outputs. */
typedef struct pass_info {
    const char *name;
    const char *config; /* field of pass_config that switches it, or NULL */
    const char *help;
    rp_status (*run)(const ir_graph *in, ir_graph **out,
                     rp_error *err); /* NULL: a kind of fusion (fuse.h) */
    /* (optional) The same, counting what it changed. */
    rp_status (*run_counted)(const ir_graph *in, ir_graph **out, uint32_t *n, rp_error *err);
} pass_info;

/* In the order in which they run; fusions, which lowering does, are at the end. */
const pass_info *pass_table(uint32_t *n);

/* A pass of somebody else: it runs in front of the table's, on the graph as it was traced. */
typedef struct pass_extra {
    const char *name; /* for the life of the process, as uuid */
    const char *uuid; /* in keys: another one is another pass */
    const void *self;
    /* Errors need not name the pass. */
    rp_status (*run)(const void *self, const ir_graph *in, ir_graph **out, uint32_t *n_matches,
                     rp_error *err);
} pass_extra;

/* How often passes found what they are for. Names live as long as the process. */
#define PASS_MOST_COUNTS 96
typedef struct pass_count {
    const char *name;
    uint32_t matches;
    uint32_t failures; /* pieces that it left as they were since it failed */
} pass_count;
typedef struct pass_counts {
    pass_count of[PASS_MOST_COUNTS];
    uint32_t n;
} pass_counts;
/* That of the name, made where it is missing; NULL where c is or is full. */
pass_count *pass_count_of(pass_counts *c, const char *name);

/* Reductions that a target computes in runs of their axis, a block or thread each, and joins behind: those of an axis of `least` elements
 * or more, whose results would be made by `most` of them or fewer. Results whose neighbours lie side by side, `narrow` of them or more,
 * have one for up to `side_by_side` of them. */
typedef struct pass_splits {
    int64_t least, most, side_by_side, narrow;
    bool nominal; /* an axis of an open size counts as that of a usual one, not as the longest */
    bool
        once; /* what takes long in front of them, and is read elsewhere, too, is stored rather than computed again */
} pass_splits;

typedef struct pass_options {
    const char *const *
        skip; /* passes and fusions to leave out, by name or by the name of their field; "+NAME" asks for one that is left out otherwise */
    uint32_t n_skip;
    const char *dump_dir;    /* where each stage's text goes, or NULL */
    const char *dump_prefix; /* of the names of those files, or NULL */
    bool quiet;              /* nothing is logged: these passes ran before */
    const pass_extra *extra; /* (optional) n_extra of them */
    uint32_t n_extra;
    bool keep_going;     /* an extra pass that fails leaves the graph as it is, with a warning */
    pass_counts *counts; /* (optional) added to */
    /* (optional) Each attention of the graph in front of the pass of that name, which borrows both. */
    void (*attention)(void *user, const ir_graph *g, const pass_attention_found *f);
    const pass_splits *splits; /* (optional) NULL: reductions stay whole */
    bool piece;                /* the rest of the graph is elsewhere: see pass_own_outputs */
    /* (optional) A pass has run, which began at that time (base_now_ns). */
    void (*ran)(void *user, const char *pass, int64_t began);
    void *user;
} pass_options;

/* Whether opt (may be NULL) leaves out the pass or fusion of that name. */
bool pass_is_skipped(const pass_options *opt, const char *name);
/* Whether opt (may be NULL) asks for the fusion of that name, and does not leave it out. */
bool pass_is_asked(const pass_options *opt, const char *name);
/* RP_CONFIG names the first name that is no pass, and the nearest that is. */
rp_status pass_check_names(const char *const *names, uint32_t n, rp_error *err) RP_MUST_USE;
/* The same for names of passes to leave out: inplace must run. also: those of others, which were told apart before and are named
 * beside the library's. */
rp_status pass_check_skips(const char *const *names, uint32_t n, const char *const *also,
                           uint32_t n_also, rp_error *err) RP_MUST_USE;

/* One pass by name; RP_CONFIG names the nearest. The result is verified, and its text is parsed and printed again
 * where assertions are on. */
rp_status pass_run(const char *name, const ir_graph *in, ir_graph **out, rp_error *err) RP_MUST_USE;
/* All that opt (may be NULL) does not leave out, in table order. */
rp_status pass_run_all(const ir_graph *in, const pass_options *opt, ir_graph **out,
                       rp_error *err) RP_MUST_USE;
/* Law 1: RP_INTERNAL where print(parse(print(g))) is not print(g). */
rp_status pass_check_text(const ir_graph *g, rp_error *err) RP_MUST_USE;

#endif
