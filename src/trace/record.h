/* Recording helpers shared by the files of this room. */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include "trace/trace.h"

rp_tensor trace_bad(rp_graph *g);
/* `what` was given as NULL: g fails, or, where that is not known either, the trace of this thread. */
rp_tensor trace_null(rp_graph *g, const char *what);
/* Set by trace_enter. */
rp_graph *trace_current(void);
/* The trace of this thread fails: something kept is used. */
void trace_fail_kept(const char *op);
/* Node ref of g was asked for: the result of a call, new or an equal one. */
rp_tensor trace_made(rp_graph *g, ir_ref ref);
/* Whether an op may be recorded now: no failure so far, not finished. */
bool trace_ready(rp_graph *g);
/* A size in the graph's table; IR_DIM_BAD for an invalid one, and the graph fails for one of another graph. */
ir_dim trace_dim(rp_graph *g, rp_dim d);
rp_tensor trace_op(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n, const ir_attr *attrs,
                   uint32_t n_attrs);
bool trace_path_same_attrs(const trace_asking *was, const ir_attr *attrs); /* was->n_attrs */
/* What the call is to give, where the last run of a graph that is recorded by several (g->asked) asked for the same of operands that are live at
 * the same place. graph NULL: ir_add is to be asked, and the answer noted. */
static inline rp_tensor trace_path_follow(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n,
                                          const ir_attr *attrs, uint32_t n_attrs) {
    const rp_tensor none = {NULL, IR_NONE, 0};
    trace_asked *a = g->asked;
    trace_path *p = &a->path;
    if (p->next >= p->n || g->err.code != RP_OK || g->finished) return none;
    const trace_asking *was = &p->v[p->next];
    const ir_node *x = was->is;
    if (!x || x->op != op || x->n_in != n || was->node >= a->cap) return none;
    if (was->n_attrs != n_attrs) return none;
    if (n_attrs && !trace_path_same_attrs(was, attrs)) return none;
    for (uint32_t i = 0; i < n; i++)
        if (x->in[i] != in[i].ref || in[i].graph != g || (in[i].id && in[i].id != g->id))
            return none;
    p->next++;
    trace_note_asked(a, was->node); /* a node of an earlier run, whose site is told */
    return (rp_tensor){g, was->node, g->id};
}
void trace_path_note(rp_graph *g, ir_ref node, const ir_attr *attrs, uint32_t n_attrs);
/* A shape in sizes of the graph. False, and the graph fails, where it is none. */
bool trace_shape(rp_graph *g, rp_shape s, ir_shape *out);
/* The type of x for an error of g; that it is no tensor of g, where it is none. */
ir_type_text trace_type_text(const rp_graph *g, rp_tensor x);
/* Result i > 0 of the node of a. */
rp_tensor trace_result(rp_tensor a, uint32_t i);
/* axis of x counted from the front; of a result with one axis more, where `more`. False, and the graph fails as `op`, where x has
 * no such axis. */
bool trace_axis(const char *op, rp_tensor x, int axis, bool more, uint32_t *out);
/* The product of sizes [from, to) of s. */
rp_dim trace_extent(const rp_shape *s, uint32_t from, uint32_t to);
/* The type for whole numbers below n: i32, or i64 where n may be more than that holds. Asks nothing of n. */
rp_dtype trace_place_type(rp_dim n);
/* Whether an optional operand is given. */
static inline bool trace_given(rp_tensor x) {
    return x.graph != NULL;
}
/* Whether it is known of sizes of g, or, in a function that compiles itself, so for the sizes of the call: a guard then, as what shape rules ask. What an
 * op needs is asked so; rp_dim_compare is for what is not needed. */
bool trace_le(rp_graph *g, rp_dim a, rp_dim b);
bool trace_equal(rp_graph *g, rp_dim a, rp_dim b);
bool trace_at_least(rp_graph *g, rp_dim size, int64_t least);
/* Whether a is of f32, f16, bf16 or f64: what a call that is made of other ops says under its own name. */
bool trace_wants_real(const char *call, rp_tensor a);
/* rp_dim_is_const; in a function that compiles itself any size is made a number so. */
bool trace_number(rp_graph *g, rp_dim size, int64_t *out);
/* The greatest element along an axis, which stays with a size of 1; -inf where the axis is empty. Of floats. */
rp_tensor trace_greatest(rp_tensor x, int axis);
/* The ops, of integers. */
rp_tensor trace_floor_divide(rp_tensor a, rp_tensor b);
rp_tensor trace_remainder(rp_tensor a, rp_tensor b);
/* x as f32 where it is f16 or bf16; and y in the type that x has there. */
rp_tensor trace_core(rp_tensor x);
/* Clamped into [0, n), in type t, i32 or i64. */
rp_tensor trace_clamped(rp_tensor idx, rp_dim n, rp_dtype t);
/* What sums and products are taken of: i64 of integers of less than 32 bits, as in torch. */
rp_tensor trace_summed(rp_tensor x);
rp_tensor trace_like(rp_tensor y, rp_tensor x);
/* x with the sizes [dims[0], ..., dims[n-1]] at axes [first, first + taken); RP_MAX_RANK axes at most. */
rp_tensor trace_regroup(rp_tensor x, uint32_t first, uint32_t taken, const rp_dim *dims,
                        uint32_t n);
/* Makes room for an axis in operands that broadcast to RP_MAX_RANK of them: their first two become one, which has the size
 * lead[0] * lead[1] in both. */
void trace_pair(rp_tensor *a, rp_tensor *b, rp_dim lead[2]);
/* Memory whose versions are the order of what the host does while a graph runs: as the last call of that left it, or as it is before the
 * first (host.c). It is an argument of a body. */
rp_tensor trace_order(rp_graph *g);
/* Whether a body has it; and gives it one. */
static inline bool trace_order_used(const rp_graph *body) {
    return body->acts && body->order.graph == body;
}
rp_tensor trace_order_input(rp_graph *body, rp_error *err);

#endif
