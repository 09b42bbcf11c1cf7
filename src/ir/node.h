/* Inside of the graph: what graph.c, build.c, attr.c, shape.c and verify.c share. */
#ifndef IR_NODE_H
#define IR_NODE_H

#include "ir/graph.h"
#include "reprise/op.h"

#define IR_MAX_NODES (1u << 20)
#define IR_MAX_NAME 255u

/* What canonical attributes have that those that were given have not. */
typedef struct ir_attr_room {
    int64_t axes[IR_MAX_RANK];
    rp_op_attr values[RP_MAX_OP_ATTRS];
} ir_attr_room;
/* Sorts, checks, completes with defaults and makes canonical (axes counted from the front, a constant
 * rounded to its dtype, attributes of a custom op all that its schema names) the attributes of n, whose op and operands are set. out has
 * room for IR_MAX_ATTRS; arrays and strings stay the caller's, but axes of permute and the list of a custom op, which go to room. */
rp_status ir_attrs_normalise(const ir_graph *g, const ir_node *n, ir_attr *out, uint32_t *n_out,
                             ir_attr_room *room, rp_error *err) RP_MUST_USE;
bool ir_attrs_equal(const ir_attr *a, const ir_attr *b, uint32_t n);
uint64_t ir_attrs_hash(const ir_attr *a, uint32_t n);
/* Copies arrays and strings to the arena; NULL when memory is exhausted. n > 0. */
const ir_attr *ir_attrs_copy(base_arena *arena, const ir_attr *a, uint32_t n);

/* Lists of call sites (site.c): that of node r, and the table that the graph's sites are in. */
typedef struct ir_site_link {
    const struct ir_site *site;
    struct ir_site_link *next;
} ir_site_link;
ir_site_link **ir_graph_sites(ir_graph *g, ir_ref r);
struct ir_site_table **ir_graph_site_table(ir_graph *g);

/* The node that hash-consing knows as equal to node r; IR_NONE when r is never merged. */
ir_ref ir_graph_find(const ir_graph *g, ir_ref r);

/* RP_NOMEM with how far g came. */
rp_status ir_graph_full(const ir_graph *g, rp_error *err);

/* The op's shape rule (rule.h): types of the results of a node whose op, operands and attributes are set. */
rp_status ir_infer(const ir_graph *g, const ir_node *n, ir_type out[IR_MAX_RESULTS],
                   uint32_t *n_out, rp_error *err) RP_MUST_USE;
/* Whether node n may write what it writes: memory, the last version of it, each once. self: its ref, or IR_NONE before it
 * is added (shape_effect.c). */
rp_status ir_check_writes(const ir_graph *g, const ir_node *n, ir_ref self, rp_error *err);
/* Which operands its graphs write (shape_graph.c). */
uint64_t ir_graphs_write(const ir_node *n);
/* Whether a shape is permitted for a dtype: rank, non-negative sizes, whole blocks. */
rp_status ir_check_shape(const ir_graph *g, const char *what, rp_dtype dtype, const ir_shape *shape,
                         rp_error *err) RP_MUST_USE;
ir_type_text ir_shape_text(const ir_graph *g, rp_dtype dtype, const ir_shape *shape);
ir_type_text ir_dim_text(const ir_graph *g, ir_dim d);
/* ASCII only, whatever the locale. A word is of letters, digits and _. */
bool ir_alpha(char c);
bool ir_digit(char c);
bool ir_word_char(char c);
/* What names are made of: letters, digits and _ . - / ; with a letter or _ first, at most IR_MAX_NAME. */
bool ir_name_char(char c);
bool ir_name_ok(const char *name);
/* "namespace::name": two such names, joined. */
bool ir_custom_name_ok(const char *name);

#endif
