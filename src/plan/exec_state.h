/* Inside of an executor: what exec.c makes and bound.c reads. */
#ifndef PLAN_EXEC_STATE_H
#define PLAN_EXEC_STATE_H

#include "plan/control.h"
#include "plan/exec.h"
#include "reprise/forward_context.h"

/* What a host call needs to know; its sizes come with the call, so that a device graph replays those of its capture. */
typedef struct plan_custom_call {
    const plan_exec *of; /* whose context the op sees */
    const rp_op_desc *op;
    rp_op_call call;
    const plan_launch *launch;
    bool checked; /* ir_custom_run_checked */
} plan_custom_call;

/* Memory of a value without a bound. */
typedef struct plan_grown {
    void *data;
    size_t size;
    bool lent; /* it is the caller's */
} plan_grown;

struct plan_exec {
    const plan *p;
    hal_device *device;
    const plan_exec *first; /* whose code, calls and constants these are; NULL: its own */
    hal_module **modules;
    hal_function *functions;
    const uint8_t *weights;
    uint8_t *arena;
    size_t own_arena;                  /* bytes to release; 0 = the caller's */
    plan_grown *grown;                 /* by value; NULL when every one has a bound */
    plan_custom_call *calls;           /* by launch; NULL when no launch is a custom op */
    base_arena *attrs;                 /* of calls */
    const rp_forward_context *context; /* of the step under way, for calls; NULL: there is none */
    plan_running **running; /* by launch: of control launches; NULL when there are none */
    bool lent_arena;
    uint8_t *consts; /* the records, in device memory */
    size_t *const_at, consts_size;
    void **leaves[PLAN_SEG_COUNT_];
};

#endif
