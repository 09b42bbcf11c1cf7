/* Finished graphs, as compilers read them: nodes with their ops, types and attributes. docs/ir.md says what each op means.
 *
 * A node is a number; those that it reads are smaller, so that their order is an order of evaluation. Its value is its first result; nodes of
 * the op `result` name the others of one that has several. What is written is in docs/ir.md under effects. All calls here are thread-safe,
 * and give nothing of a graph that is not finished. */
#ifndef REPRISE_NODE_H
#define REPRISE_NODE_H

#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_NO_NODE UINT32_MAX

typedef enum rp_graph_list {
    RP_GRAPH_NODES,
    RP_GRAPH_INPUTS, /* in the order of a call */
    RP_GRAPH_PARAMS,
    RP_GRAPH_STATES,
    RP_GRAPH_OUTPUTS /* in the order of a call; a node may be there twice */
} rp_graph_list;
RP_API uint32_t rp_graph_count(const rp_graph *g, rp_graph_list list);
/* Node i of the list; RP_NO_NODE behind the last. */
RP_API uint32_t rp_graph_at(const rp_graph *g, rp_graph_list list, uint32_t i);
RP_API const char *rp_graph_name(const rp_graph *g); /* borrowed; "" for NULL */

typedef struct rp_node {
    size_t size;    /* sizeof(rp_node), set by the caller; may be an older, smaller one */
    const char *op; /* "matmul" */
    rp_dtype dtype;
    rp_shape shape;
    const uint32_t *in; /* n_in nodes; borrowed, as texts are, as long as the graph is there */
    uint32_t n_in;
    uint32_t n_results;
    uint32_t n_attrs;
    const char *name; /* of an input, param or state; else NULL */
    uint32_t memory;  /* the leaf whose memory this is a version of; RP_NO_NODE of a plain value */
    bool mutates;     /* an input that the graph may write */
    bool effect;      /* it writes, and is done also where nobody reads it */
    bool random;      /* it gives random bits, which its operands decide */
    bool host;        /* the host runs it, where it has no source, or reads what it goes by */
} rp_node;
#define RP_NODE_INIT \
    { sizeof(rp_node), NULL, RP_DTYPE_F32, {0}, NULL, 0, 0, 0, NULL, 0, false, false, false, false }
/* RP_INVALID for a number that no node has. */
RP_API rp_status rp_graph_node(const rp_graph *g, uint32_t node, rp_node *out,
                               rp_error *err) RP_MUST_USE;

typedef enum rp_attr_kind {
    RP_ATTR_INT,    /* i */
    RP_ATTR_INTS,   /* ints, n of them */
    RP_ATTR_FLOAT,  /* f */
    RP_ATTR_BOOL,   /* i: 0 or 1 */
    RP_ATTR_STRING, /* s */
    RP_ATTR_DTYPE,  /* dtype */
    RP_ATTR_DIM,    /* dim[0] */
    RP_ATTR_DIMS,   /* dim, n of them */
    RP_ATTR_TYPES,  /* those of the results, which their nodes have */
    RP_ATTR_GRAPH,  /* rp_node_graph */
    RP_ATTR_VALUES  /* values, n of them: attributes of a custom op, by name */
} rp_attr_kind;
typedef struct rp_attr {
    size_t size;     /* sizeof(rp_attr), set by the caller; may be an older, smaller one */
    const char *key; /* "axis"; borrowed, as what follows */
    rp_attr_kind kind;
    uint32_t n;
    int64_t i;
    double f; /* the value of a const */
    const char *s;
    rp_dtype dtype;
    const int64_t *ints;
    rp_dim dim[RP_MAX_RANK];
    const rp_op_attr *values;
} rp_attr;
#define RP_ATTR_INIT \
    { sizeof(rp_attr), NULL, RP_ATTR_INT, 0, 0, 0, NULL, RP_DTYPE_F32, NULL, {{NULL, 0}}, NULL }
/* Attribute i of n_attrs, in the order of their keys. RP_INVALID behind the last. */
RP_API rp_status rp_node_attr_at(const rp_graph *g, uint32_t node, uint32_t i, rp_attr *out,
                                 rp_error *err) RP_MUST_USE;
/* The one of that key; RP_NOT_FOUND where the node has none. */
RP_API rp_status rp_node_attr(const rp_graph *g, uint32_t node, const char *key, rp_attr *out,
                              rp_error *err) RP_MUST_USE;
/* An attribute that is a graph: the body of a call, loop or branch. The caller's (rp_graph_free). */
RP_API rp_status rp_node_graph(const rp_graph *g, uint32_t node, const char *key, rp_graph **out,
                               rp_error *err) RP_MUST_USE;

/* Sizes that are symbols, and what they are in a call. */
typedef struct rp_size_symbol {
    const char *name;
    int64_t min, max; /* INT64_MAX: no bound */
} rp_size_symbol;
RP_API uint32_t rp_graph_symbol_count(const rp_graph *g);
/* Zeros behind the last. */
RP_API rp_size_symbol rp_graph_symbol(const rp_graph *g, uint32_t i);
/* The value of each symbol by the sizes of inputs, all of the graph; their data is not looked at. A symbol that no input tells, on which
 * nothing depends then, gets its least. RP_INVALID where ranks differ from the graph's. */
RP_API rp_status rp_graph_read_symbols(const rp_graph *g, const rp_buffer *inputs,
                                       uint32_t n_inputs, int64_t *values,
                                       rp_error *err) RP_MUST_USE;
/* d with values[i] for symbol i of its graph, which a number does not look at. */
RP_API int64_t rp_dim_eval(rp_dim d, const int64_t *values);

#ifdef __cplusplus
}
#endif
#endif
