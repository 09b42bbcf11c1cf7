/* Patterns: traced once in each form that their trace takes, found by shape of the expression, and confirmed by tracing them again. */
#ifndef REWRITE_PATTERN_H
#define REWRITE_PATTERN_H

#include "pass/rebuild.h"
#include "rewrite/registry.h"
#include "trace/trace.h"

/* Sizes as symbols, as numbers, or the first as a symbol: a mean, for one, is made of other ops where its size is known. */
enum { REWRITE_MOST_FORMS = 6 };

typedef struct rewrite_forms {
    struct {
        ir_graph *g; /* finished; inputs in order, one output */
        rp_numerics numerics;
    } form[REWRITE_MOST_FORMS];
    uint32_t n;
} rewrite_forms;

/* RP_INVALID where no form can be traced, with the first reason. text (optional): those of patterns and replacements are added. */
rp_status rewrite_forms_make(const rp_pass_desc *d, rewrite_forms *out, base_buf *text,
                             rp_error *err) RP_MUST_USE;
void rewrite_forms_done(rewrite_forms *f);

/* Replaces matches of d in all that b has left; *n counts them. `to` records into b->out. */
rp_status rewrite_match_all(const rp_pass_desc *d, const rewrite_forms *f, pass_rebuild *b,
                            rp_graph *to, uint32_t *n, rp_error *err) RP_MUST_USE;

#endif
