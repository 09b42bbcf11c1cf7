/* Registry of custom ops `namespace::name`, and the alias table of splitting-op names. */
#ifndef IR_CUSTOM_H
#define IR_CUSTOM_H

#include "ir/graph.h"
#include "reprise/op.h"

/* Ops of the library itself that are called as those of users are (custom_host.c). assert: memory of a byte, a bool; print: such memory, a
 * value. rp_assert and rp_print record them. */
#define IR_OP_ASSERT "reprise::assert"
#define IR_OP_PRINT "reprise::print"
/* NULL: none of these. */
const rp_op_desc *ir_custom_own(const char *name);
/* NULL when neither registered nor one of these. Borrowed for the life of the process. */
const rp_op_desc *ir_custom_find(const char *name);
/* Of a node; NULL for one of our own ops and for one that nobody registered. */
const rp_op_desc *ir_custom_of(const ir_node *n);
/* In order of registration; NULL behind the last. Thread-safe. */
const rp_op_desc *ir_custom_at(uint32_t i);
/* Whether d has an implementation for a GPU. */
static inline bool ir_custom_on_gpu(const rp_op_desc *d) {
    return d->cuda_source || d->ptx;
}
/* How many results a call of it has. */
uint32_t ir_custom_results(const rp_op_desc *d);
/* A line for each source of a registered op: what plans of graphs depend on that may call any of them. In order of names,
 * whatever was registered first. Nothing where there is none. */
void ir_custom_sources(base_buf *out);
/* What the functions of d are told of a call with these attributes, all of its schema (borrowed). */
rp_op_call ir_custom_call_of(const rp_op_desc *d, const rp_op_attr *attrs, uint32_t n_in);
/* Those of a node; n_in operands. */
rp_op_call ir_custom_call_at(const rp_op_desc *d, const ir_node *n);
/* Calls d->cpu, which must be there. What it says of a failure is the text, or else its name and status. */
rp_status ir_custom_run(const rp_op_desc *d, const rp_op_call *call, rp_buffer *args,
                        rp_error *err);
/* The same, checked: results are written in full and nothing around them is, operands that are not mutated stay. RP_INVALID says which
 * is not so. What looks as if it was left out is written a second time to be sure. */
rp_status ir_custom_run_checked(const rp_op_desc *d, const rp_op_call *call, rp_buffer *args,
                                rp_error *err);
/* Whether a node is a splitting op under a list of names (splitting_ops). Matches a registered name or
 * an alias ("aiter.unified_attention_with_output", "vllm::unified_attention_with_output",
 * "reprise::attention"; a trailing ".default" is ignored; '.' and '::' are the same separator). Any built-in op
 * can be named as "reprise::<op>"; a name without namespace never matches. */
bool ir_is_splitting(const ir_node *n, const char *const *ops, uint32_t n_ops);
/* The canonical form of a splitting op's name ("reprise::attention" of "aiter.unified_attention_with_output"),
 * NUL-terminated; false when it has no namespace or does not fit. An unknown name is its own. */
bool ir_splitting_name(const char *name, char *out, size_t size);
/* Registered ops that split by default, in order of registration. The array stays valid; it may grow behind *n.
 * Thread-safe. */
const char *const *ir_registered_splitting_ops(uint32_t *n);
/* Whether splitting_ops with this one name would split the graph anywhere. */
bool ir_graph_splits_at(const ir_graph *g, const char *op);

#endif
