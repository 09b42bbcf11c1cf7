/* What models say of themselves (reprise/support.h), for whoever traces them. */
#ifndef TRACE_SUPPORT_H
#define TRACE_SUPPORT_H

#include "reprise/support.h"
#include "trace/trace.h"

/* Whether name stands for `of`: it is that, or an item of it ("k" for "k.3", "L['k']" for "L['k'][3]"). */
bool trace_support_covers(const char *name, const char *of);
/* Whether one of n dims is this axis of `of`. */
bool trace_support_lists(const rp_arg_dim *dims, uint32_t n, const char *of, uint32_t axis,
                         uint32_t rank);
/* Whether dynamic_arg_dims has this axis; of a model without any, whether it is the first. */
bool trace_support_dynamic(const rp_support *s, const char *of, uint32_t axis, uint32_t rank);
/* -1 is the last axis. UINT32_MAX: there is none. */
uint32_t trace_support_axis(const rp_arg_dim *d, uint32_t rank);
/* RP_INVALID: effect e of g writes `name`, which mutates does not name, at its line. */
rp_status trace_support_write(const rp_support *s, const ir_graph *g, ir_ref e, const char *name,
                              rp_error *err) RP_MUST_USE;
/* A finished graph by its inputs and states: sizes of inputs that are no numbers are dynamic_arg_dims, and what is written is in mutates. RP_INVALID
 * tells what is not, and of a name that the graph has not. */
rp_status trace_support_check(const rp_support *s, const rp_graph *g, rp_error *err) RP_MUST_USE;

#endif
