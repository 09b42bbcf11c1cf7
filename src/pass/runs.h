/* Reductions in runs: which, and what is computed inside of them.
 *
 * A reduction of a long axis to few results keeps few blocks of a GPU, or threads of a host, at work. In runs of PASS_RUN elements of
 * the axis, which are the chunks of a sum's definition, it has a block or an item a run; what joins them comes behind, in the kernel of its group, in
 * the order of the definition, so that no bit changes.
 *
 * What such a reduction reads is computed again inside of its runs, rather than stored: an elementwise value as long as a row,
 * which is then no member of any group, unless somebody else reads it, too. */
#ifndef PASS_RUNS_H
#define PASS_RUNS_H

#include "pass/fuser.h"

#define PASS_RUN 4096

/* Fills split of u->f, and needed and through of u: whether others than reductions in runs read a node, and in how many ways
 * these see through it. */
void pass_find_runs(fuser *u);
/* Whether operand o, read by r or by what r sees through, is no value of its own to it. */
bool pass_sees_through(const fuser *u, ir_ref r, ir_ref o);
/* Why r may not join the group, or NULL: common, the rows of both then. */
const char *pass_why_no_runs(fuser *u, ir_ref r, const pass_candidate *c, const pass_rows *common);

#endif
