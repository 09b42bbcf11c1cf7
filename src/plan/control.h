/* Runs the plans of a control launch (plan_control): which one is next, what it reads and where its results go.
 *
 * A carried value goes from the operand to the result and back and forth between that and a second place; a slice and a row of a
 * stack are addresses within the operand and the result. So an iteration copies nothing and writes addresses alone. */
#ifndef PLAN_CONTROL_H
#define PLAN_CONTROL_H

#include "plan/exec.h"

typedef struct plan_running plan_running;

/* Borrows p, l and everything in opt. As plan_exec_new. */
rp_status plan_running_new(const plan *p, const plan_launch *l, const plan_exec_options *opt,
                           plan_running **out, rp_error *err) RP_MUST_USE;
/* As plan_exec_again. */
rp_status plan_running_again(const plan_running *r, hal_device *device, plan_running **out,
                             rp_error *err) RP_MUST_USE;
void plan_running_free(plan_running *r); /* NULL is fine */

/* Bytes of thread-local scratch that launches of p, and of plans within it, need at most. */
size_t plan_most_scratch(const plan *p);
/* hal_next_list; user: a plan_running, dim: the outer plan's symbols. */
rp_status plan_running_next(void *user, hal_device *d, void *const *arg, const long long *dim,
                            uint64_t turn, hal_list *out, rp_error *err);
/* hal_note_lists: the iterations of a scan follow each other, those of a while are one body whose values end where they began. */
rp_status plan_running_note(void *user, hal_device *d, void *const *arg, const long long *dim,
                            rp_error *err);

#endif
