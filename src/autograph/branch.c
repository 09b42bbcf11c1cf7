/* Branches and loops of a function: when it runs as it is the host decides, in a graph the device. Each run of the function counts
 * what it calls outside of bodies, of which the first run may have had any number. */
#include "autograph/manager.h"
#include "base/status.h"

static rp_status check_pred(const rp_call *call, const rp_buffer *pred, rp_body_fn body,
                            const char *name, rp_error *err) {
    if (!call || !pred || !pred->data || !body)
        return rp_fail(err, RP_INVALID, "%s: call, pred, its data or body is NULL", name);
    if (pred->dtype != RP_DTYPE_BOOL)
        return rp_fail(err, RP_INVALID, "%s: pred is %s; it is one bool", name,
                       rp_dtype_name(pred->dtype));
    for (uint32_t i = 0; i < pred->rank && i < RP_MAX_RANK; i++)
        if (pred->dim[i] != 1) return rp_fail(err, RP_INVALID, "%s: pred is not one bool", name);
    return RP_OK;
}

/* told: who is told what it calls; NULL: nobody. */
static rp_status run_body(rp_call *call, rp_body_fn body, void *user, hal_trace *told,
                          rp_error *err) {
    hal_device *q = call->a->queue;
    hal_trace *trace = hal_trace_to(q, told);
    call->bodies++;
    rp_status st = body(user, call, err);
    call->bodies--;
    (void)hal_trace_to(q, trace);
    return st;
}

static rp_status read_pred(const rp_call *call, const rp_buffer *pred, bool *out, rp_error *err) {
    hal_device *q = call->a->queue;
    hal_trace *trace = hal_trace_to(q, NULL);
    unsigned char byte = 0;
    rp_status st = q->ops->copy(q, &byte, pred->data, 1, err);
    (void)hal_trace_to(q, trace);
    RP_TRY(st);
    RP_TRY(q->ops->synchronize(q, err));
    *out = byte != 0;
    return RP_OK;
}

/* Of a loop the first time tells which memory its body names. */
static rp_status run_as_it_is(rp_call *call, const rp_buffer *pred, bool loop, rp_body_fn body,
                              void *user, rp_error *err) {
    hal_device *q = call->a->queue;
    hal_trace *told = q->trace ? call->inside : NULL;
    bool again = false;
    hal_trace_call(q, loop ? "while" : "if");
    hal_trace_memory(q, "its condition", pred->data, 1);
    RP_TRY(read_pred(call, pred, &again, err));
    while (again) {
        RP_TRY(run_body(call, body, user, told, err));
        told = NULL;
        if (!loop) break;
        RP_TRY(read_pred(call, pred, &again, err));
    }
    return RP_OK;
}

static rp_status branch(rp_call *call, const rp_buffer *pred, bool loop, rp_body_fn body,
                        void *user, rp_error *err) {
    hal_device *q = call->a->queue;
    rp_error none = {0};
    if (!hal_capturing(q)) return run_as_it_is(call, pred, loop, body, user, err);
    RP_TRY(hal_capture_branch(q, loop ? HAL_WHILE : HAL_IF, pred->data, err));
    rp_status st = run_body(call, body, user, NULL, err);
    rp_status join = hal_capture_join(q, st == RP_OK ? err : &none);
    return st == RP_OK ? join : st;
}

rp_status rp_call_if(rp_call *call, const rp_buffer *pred, rp_body_fn body, void *user,
                     rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_pred(call, pred, body, "rp_call_if", err));
    return branch(call, pred, false, body, user, err);
}

rp_status rp_call_while(rp_call *call, const rp_buffer *pred, rp_body_fn body, void *user,
                        rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_pred(call, pred, body, "rp_call_while", err));
    return branch(call, pred, true, body, user, err);
}
