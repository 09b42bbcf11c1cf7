/* Graph IR: append-only nodes in an arena, pure nodes hash-consed when built.
 *
 * A node is named by its ir_ref; operands have smaller refs, so index order is a topological
 * order. A graph is built by one thread and immutable after ir_graph_finish. Block-quantised
 * weights are params of a block-format dtype.
 *
 * The value of a node is its first result. Nodes of the op `result` name the others of one that has several.
 *
 * Memory is a state, an input that the graph declares to mutate, or an empty; its leaf is the first
 * version of it. An effect (kind EFFECT, never merged) consumes a version and gives the next one, so
 * versions form a chain, every read names the contents it means, and there is no other order.
 *
 * Graphs are attributes of call, cond, while and scan: functions of their arguments alone, which share nothing with the graph
 * around them but the size symbols, by name. An input that such a graph mutates is memory that its node writes. */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H

#include "ir/dim.h"
#include "reprise/dtype.h"

typedef uint32_t ir_ref;
#define IR_NONE UINT32_MAX
#define IR_MAX_RANK 6
#define IR_MAX_ATTRS 6
#define IR_MAX_OPERANDS 1024u
#define IR_MAX_RESULTS 8u
#define IR_MAX_DEPTH 16u /* graphs within graphs, the outermost counted */

/* Kinds in ops.def. */
typedef enum ir_kind {
    IR_KIND_LEAF,        /* input, param, state, const, iota, size */
    IR_KIND_VIEW,        /* index maps: reshape, permute, slice, broadcast; written, result */
    IR_KIND_ELEMENTWISE, /* numpy broadcasting over operands */
    IR_KIND_REDUCE,      /* over axis, kept or dropped */
    IR_KIND_SCAN,        /* along a whole axis: cumsum, topk, sort */
    IR_KIND_SCATTER,     /* elements put at indices along an axis */
    IR_KIND_MOVE,        /* concat, gather, copy, numbers of four bits */
    IR_KIND_CONTRACT,    /* matmul */
    IR_KIND_QUANT,       /* quantize, dequant */
    IR_KIND_EFFECT,      /* update, kv_store, attention; calls: custom, call, cond, while, scan */
    IR_KIND_REAL = IR_KIND_ELEMENTWISE,   /* of floats alone */
    IR_KIND_INTEGER = IR_KIND_ELEMENTWISE /* of integers alone */
} ir_kind;

typedef enum ir_op {
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_##name,
#include "ir/ops.def"
#undef OP
    IR_OP_COUNT_
} ir_op;

/* Attribute keys; printed in this (alphabetical) order. */
#define IR_ATTR_LIST(X)               \
    X(ATTRS, "attrs", VALUES)         \
    X(AXES, "axes", INTS)             \
    X(AXIS, "axis", INT)              \
    X(BODY, "body", GRAPH)            \
    X(CARRIED, "carried", INT)        \
    X(COND, "cond", GRAPH)            \
    X(DESCENDING, "descending", BOOL) \
    X(DTYPE, "dtype", DTYPE)          \
    X(ELSE, "else", GRAPH)            \
    X(HEAD_DIM, "head_dim", INT)      \
    X(HEADS, "heads", INT)            \
    X(INDEX, "index", INT)            \
    X(K, "k", INT)                    \
    X(KEEP, "keep", BOOL)             \
    X(KV_HEADS, "kv_heads", INT)      \
    X(LENGTH, "length", DIM)          \
    X(LIMIT, "limit", INT)            \
    X(NAME, "name", STR)              \
    X(OFFSETS, "offsets", DIMS)       \
    X(SCALE, "scale", FLOAT)          \
    X(SHAPE, "shape", DIMS)           \
    X(SIZE, "size", DIM)              \
    X(SLICED, "sliced", INT)          \
    X(START, "start", DIM)            \
    X(STOP, "stop", DIM)              \
    X(THEN, "then", GRAPH)            \
    X(TRANS_B, "trans_b", BOOL)       \
    X(TYPES, "types", TYPES)          \
    X(VALUE, "value", FLOAT)

typedef enum ir_attr_key {
#define IR_ATTR_ENUM(id, text, type) IR_ATTR_##id,
    IR_ATTR_LIST(IR_ATTR_ENUM)
#undef IR_ATTR_ENUM
        IR_ATTR_COUNT_
} ir_attr_key;

typedef enum ir_attr_type {
    IR_ATTR_TYPE_INT,
    IR_ATTR_TYPE_INTS,
    IR_ATTR_TYPE_FLOAT,
    IR_ATTR_TYPE_BOOL,
    IR_ATTR_TYPE_STR,
    IR_ATTR_TYPE_DTYPE,
    IR_ATTR_TYPE_DIM,
    IR_ATTR_TYPE_DIMS,
    IR_ATTR_TYPE_TYPES,
    IR_ATTR_TYPE_GRAPH,
    IR_ATTR_TYPE_VALUES
} ir_attr_type;

typedef struct ir_shape {
    uint32_t rank;
    ir_dim dim[IR_MAX_RANK];
} ir_shape;

typedef struct ir_type {
    rp_dtype dtype;
    ir_shape shape;
} ir_type;

struct ir_graph;
typedef struct ir_attr {
    ir_attr_key key;
    uint32_t n; /* length of ints / dims / types / values */
    union {
        int64_t i; /* INT, BOOL, DTYPE */
        double f;
        const char *s;
        const int64_t *ints;
        ir_dim dim;
        const ir_dim *dims;
        const ir_type *types;
        const struct ir_graph *graph;    /* finished; the node holds a share of it */
        const struct rp_op_attr *values; /* of a custom op: all that its schema names, by name */
    } u;
} ir_attr;

typedef struct ir_node {
    ir_op op;
    rp_dtype dtype; /* of its value, the first result */
    uint32_t n_in;
    const ir_ref *in;
    ir_shape shape;
    uint32_t n_more;
    const ir_type *more; /* types of the results behind the first */
    uint32_t n_attrs;
    const ir_attr *attrs; /* sorted by key */
    const char *name;     /* input, param, state: its name; else NULL */
    bool mutates;         /* input: the graph declares to write it */
    ir_ref memory;        /* the leaf whose memory this is a version of; IR_NONE of a plain value */
} ir_node;

typedef struct ir_op_info {
    const char *name;
    ir_kind kind;
    int arity;          /* -1 = any number */
    uint32_t attr_mask; /* bit per permitted key */
    uint32_t facts;     /* of ops.def, which the functions below tell */
    const char *expr;   /* C and CUDA C expression over floats a, b, c (elementwise), else "" */
    const char *ints;   /* over integers of type S, unsigned U */
} ir_op_info;
const ir_op_info *ir_op_table(ir_op op);
/* IR_OP_COUNT_ when there is no such op. */
ir_op ir_op_find(const char *name);
/* An elementwise op that is defined on integers, and exact on them modulo the range of their type. */
bool ir_op_on_integers(ir_op op);
bool ir_op_on_floats(ir_op op);
bool ir_op_commutes(ir_op op);
/* An elementwise op whose result is bool, whatever its operands are. */
bool ir_op_compares(ir_op op);
/* What the operands of an elementwise op may be, all of one type. Not of cast and where, whose operands differ. */
typedef enum ir_operands { IR_REALS, IR_INTS, IR_NUMBERS, IR_BITS, IR_PLAIN } ir_operands;
ir_operands ir_op_operands(ir_op op);
/* Takes as long as several sums and products: what is approximated by polynomials, and random bits. */
bool ir_op_is_heavy(ir_op op);
/* Gives random bits: a function of its operands, so that the same operands give the same bits. */
bool ir_op_is_random(ir_op op);
/* A function of the user runs it on the host, unless it has source for the device (ir_custom_on_gpu): passes keep a call of
 * it though nobody reads its results, since it may do what the graph does not tell. */
bool ir_op_run_by_host(ir_op op);
/* The host reads a bool that decides which graph of the node runs next, unless the graph of a GPU decides that by itself. */
bool ir_op_read_by_host(ir_op op);
/* By how many units in the last place of its type an elementwise op may differ from one that is computed in double and rounded. */
double ir_op_ulps(ir_op op, bool f64);
/* Ops that run code over their arguments: custom, call, cond, while, scan. Their results are values of their own, and `written`
 * names the versions that they leave of what they write; those that write nothing are pure. */
bool ir_op_is_call(ir_op op);
/* call, cond, while, scan: those with an attribute that is a graph. */
bool ir_op_has_graphs(ir_op op);

/* f8e4m3fn, f8e5m2: floats that ops do not compute with, only casts, comparisons and moves. */
bool ir_dtype_is_f8(rp_dtype t);
/* Floats of all widths: what has NaN and a sign of zero. */
bool ir_dtype_is_real(rp_dtype t);
/* i8, u8, i16, i32, i64. */
bool ir_dtype_is_integer(rp_dtype t);
/* Those of less than 32 bits. */
bool ir_dtype_is_small(rp_dtype t);

typedef struct ir_graph ir_graph;

/* Names and types of attribute keys; IR_ATTR_COUNT_ when there is no such key. */
const char *ir_attr_key_name(ir_attr_key key);
ir_attr_type ir_attr_key_type(ir_attr_key key);
ir_attr_key ir_attr_key_find(const char *name);

/* name is copied. NULL when memory is exhausted. */
ir_graph *ir_graph_new(const char *name);
/* Gives one share back; the last one frees. */
void ir_graph_free(ir_graph *g);
/* Another share of a finished graph. Any thread. */
ir_graph *ir_graph_share(const ir_graph *g);
bool ir_graph_is_finished(const ir_graph *g);
/* The text of a finished graph, made once and owned by it; graphs are equal where their texts are. NULL when memory is exhausted. */
const char *ir_graph_text(const ir_graph *g);
/* Nodes of the graph and of all within it; how deep they are nested, 1 where none is. */
uint32_t ir_graph_size(const ir_graph *g);
uint32_t ir_graph_depth(const ir_graph *g);
const char *ir_graph_name(const ir_graph *g);
base_arena *ir_graph_arena(ir_graph *g);
ir_dims *ir_graph_dims(const ir_graph *g);
uint32_t ir_graph_count(const ir_graph *g);
const ir_node *ir_node_at(const ir_graph *g, ir_ref r);

/* Inputs, params and states in order of creation; outputs in order of ir_graph_return. */
typedef enum ir_leaf { IR_LEAF_INPUT, IR_LEAF_PARAM, IR_LEAF_STATE } ir_leaf;
uint32_t ir_leaf_count(const ir_graph *g, ir_leaf kind);
ir_ref ir_leaf_at(const ir_graph *g, ir_leaf kind, uint32_t i);
uint32_t ir_output_count(const ir_graph *g);
ir_ref ir_output_at(const ir_graph *g, uint32_t i);

/* Builders. Each checks dtypes, ranks and sizes with the op's shape rule and reports what does not
 * fit ("matmul: k of f32[T,576] and f32[960,512] differ"). Pure nodes equal to an earlier one give
 * that one. */
rp_status ir_add_leaf(ir_graph *g, ir_leaf kind, const char *name, rp_dtype dtype, ir_shape shape,
                      ir_ref *out, rp_error *err) RP_MUST_USE;
/* attrs need not be sorted; strings and arrays are copied. */
rp_status ir_add(ir_graph *g, ir_op op, const ir_ref *in, uint32_t n_in, const ir_attr *attrs,
                 uint32_t n_attrs, ir_ref *out, rp_error *err) RP_MUST_USE;
/* Shorthands over ir_add. */
rp_status ir_add1(ir_graph *g, ir_op op, ir_ref a, ir_ref *out, rp_error *err) RP_MUST_USE;
rp_status ir_add2(ir_graph *g, ir_op op, ir_ref a, ir_ref b, ir_ref *out,
                  rp_error *err) RP_MUST_USE;
rp_status ir_add_const(ir_graph *g, rp_dtype dtype, double v, ir_ref *out,
                       rp_error *err) RP_MUST_USE;
/* Result i of node r: r itself for 0, else a node of op `result`. */
rp_status ir_add_result(ir_graph *g, ir_ref r, uint32_t i, ir_ref *out, rp_error *err) RP_MUST_USE;
/* The node that ir_add_result gave for i > 0; IR_NONE where result i of r has no name. */
ir_ref ir_result_of(const ir_graph *g, ir_ref r, uint32_t i);
/* The reduction that differs from r, one, in keep alone; IR_NONE: there is none. */
ir_ref ir_twin_of(const ir_graph *g, ir_ref r);
/* Whether n may write or must not be merged: an op of kind EFFECT, but not a call that writes nothing. */
bool ir_node_is_effect(const ir_node *n);
/* Whether equal nodes are one. */
bool ir_node_merges(const ir_node *n);
/* Bit i: operand i is written by n. */
uint64_t ir_node_writes(const ir_node *n);
/* The effect that overwrites version r of some memory; IR_NONE of the last one and of plain values. */
ir_ref ir_writer_of(const ir_graph *g, ir_ref r);
/* The effect that made version r; IR_NONE of a leaf and of plain values. */
ir_ref ir_maker_of(const ir_graph *g, ir_ref r);
/* Declares that the graph writes input r, which is memory then, as a state is. Before anything reads it. */
void ir_input_mutates(ir_graph *g, ir_ref r);
/* Takes the declaration back where nothing has written it. Before the graph is finished. */
void ir_input_settle(ir_graph *g, ir_ref r);
/* Graph i of n in the order of its attributes; NULL behind the last. */
const ir_graph *ir_node_graph(const ir_node *n, uint32_t i);
/* The name of that attribute, "body"; "" behind the last. */
const char *ir_graph_role(ir_op op, uint32_t i);
/* Where the arguments of an op that has graphs begin among its operands: behind the predicate of a cond. */
uint32_t ir_first_argument(ir_op op);
/* The graph is recorded by runs of one function, one after the other, and never finished. What is there at the first call of this is of the
 * first run; each further call begins another one. What is equal to a node of an earlier run is that node, empties and effects
 * in the order in which they were recorded, and versions are overwritten anew. Inputs are added once. */
rp_status ir_graph_rerun(ir_graph *g, rp_error *err) RP_MUST_USE;
/* The effects of this run so far, in order; ref until the next node. */
typedef struct ir_effects {
    ir_ref *ref; /* n */
    uint32_t n;
} ir_effects;
/* Of the run under way, as long as g is there, which has been run again. */
const ir_effects *ir_run_effects(const ir_graph *g);
/* Appends outputs; may be called once. Then the graph is immutable. */
rp_status ir_graph_finish(ir_graph *g, const ir_ref *outputs, uint32_t n,
                          rp_error *err) RP_MUST_USE;

/* Attribute lookup: NULL when absent; the typed forms give deflt then. */
const ir_attr *ir_attr_get(const ir_node *n, ir_attr_key key);
int64_t ir_attr_int(const ir_node *n, ir_attr_key key, int64_t deflt);
double ir_attr_float(const ir_node *n, ir_attr_key key, double deflt);

/* Invariants of a whole graph; RP_INVALID names the node. */
rp_status ir_verify(const ir_graph *g, rp_error *err) RP_MUST_USE;
/* What a graph of a user is held to beside: it returns no memory without contents, as pieces of a graph may. */
rp_status ir_check_returned(const ir_graph *g, rp_error *err) RP_MUST_USE;

/* Text form, docs/ir.md. print(parse(print(g))) == print(g). */
void ir_print(const ir_graph *g, base_buf *out);
/* The lines of n nodes, without what is around them; inputs have none. */
void ir_print_nodes(const ir_graph *g, const ir_ref *nodes, uint32_t n, base_buf *out);
/* Node r alone, for lists: without columns, and of a graph within it the name, "body=@cell". Nothing of an input. */
void ir_print_line(const ir_graph *g, ir_ref r, base_buf *out);
rp_status ir_print_string(const ir_graph *g, char **out, rp_error *err) RP_MUST_USE;
/* Errors carry "line N: ". RP_INVALID for bad text. */
rp_status ir_parse(const char *text, size_t len, ir_graph **out, rp_error *err) RP_MUST_USE;
/* "f32[T,576]" of a node or shape. */
void ir_type_print(const ir_graph *g, rp_dtype dtype, const ir_shape *shape, base_buf *out);
/* The same for messages: cut with "..." where it is long; never fails. */
typedef struct ir_type_text {
    char s[96];
} ir_type_text;
ir_type_text ir_type_of(const ir_graph *g, ir_ref r);
/* "%3" or "%x": how ir_print names r. Counts nodes, so for messages only. */
ir_type_text ir_name_of(const ir_graph *g, ir_ref r);

/* A node of src rebuilt in dst: operands through map (map[ref of src] = ref of dst),
 * dims imported, attributes copied. Not for leaves. */
rp_status ir_copy_node(ir_graph *dst, const ir_graph *src, ir_ref r, const ir_ref *map, ir_ref *out,
                       rp_error *err) RP_MUST_USE;
/* The same on operands of dst. */
rp_status ir_copy_node_on(ir_graph *dst, const ir_graph *src, ir_ref r, const ir_ref *in,
                          ir_ref *out, rp_error *err) RP_MUST_USE;

#endif
