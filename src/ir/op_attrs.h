/* Attributes of calls of custom ops, which the schema of the op names: values of six kinds, in the order of their names. */
#ifndef IR_OP_ATTRS_H
#define IR_OP_ATTRS_H

#include "base/arena.h"
#include "reprise/op.h"

/* Whether a registration may have this schema: names are words, each is there once, defaults are of a length that is possible. */
rp_status ir_op_attrs_check_schema(const rp_op_desc *d, rp_error *err);
/* What a call of d has where `given` is what it says: all of the schema, defaults included; an integer where a number is wanted is that
 * number. out has room for RP_MAX_OP_ATTRS; arrays and strings stay those of given and of d. */
rp_status ir_op_attrs_complete(const rp_op_desc *d, const rp_op_attr *given, uint32_t n,
                               rp_op_attr *out, rp_error *err);
/* Both complete, of one op. By bits: -0 and 0 differ, NaN equals NaN. */
bool ir_op_attrs_equal(const rp_op_attr *a, const rp_op_attr *b, uint32_t n);
uint64_t ir_op_attrs_hash(uint64_t h, const rp_op_attr *a, uint32_t n);
/* With arrays, names and strings in the arena; NULL when memory is exhausted. n > 0. */
rp_op_attr *ir_op_attrs_copy(base_arena *arena, const rp_op_attr *a, uint32_t n);

/* {axes=[0,1], eps=0x1p-3, mode="relu"} */
void ir_op_attrs_print(const rp_op_attr *a, uint32_t n, base_buf *out);
struct ir_reader;
/* The inverse, into the arena. Kinds are those that the text shows, that of an empty list is integers; ir_op_attrs_complete knows better. */
rp_status ir_op_attrs_read(struct ir_reader *s, base_arena *arena, const rp_op_attr **out,
                           uint32_t *n);
/* The same of a text that is nothing else. */
rp_status ir_op_attrs_parse(base_arena *arena, const char *text, const rp_op_attr **out,
                            uint32_t *n, rp_error *err);

#endif
