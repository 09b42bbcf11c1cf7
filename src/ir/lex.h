/* Inside of the parser: the reader of tokens, shared by lex.c and parse.c. */
#ifndef IR_LEX_H
#define IR_LEX_H

#include "ir/node.h"

typedef struct ir_reader {
    const char *text, *p; /* NUL-terminated; the position in it */
    ir_graph *g;          /* whose size symbols are known; may be NULL before the first size */
    rp_error *err;
    const char *op; /* whose operands and attributes are read; NULL: none */
} ir_reader;

/* "line N: ..." with the line of `at`, and the op after it. */
rp_status ir_read_fail(const ir_reader *s, const char *at, rp_status code, const char *fmt, ...)
    RP_PRINTF(4, 5);
/* Blanks and comments. */
void ir_read_skip(ir_reader *s);
/* Skips, then takes c if it is there. */
bool ir_read_accept(ir_reader *s, char c);
rp_status ir_read_expect(ir_reader *s, char c) RP_MUST_USE;
/* A keyword, op, key, element type or symbol. */
rp_status ir_read_word(ir_reader *s, const char *what, char out[64]) RP_MUST_USE;
/* A name of value, leaf or graph, after its sigil. */
rp_status ir_read_name(ir_reader *s, char sigil, char out[IR_MAX_NAME + 1]) RP_MUST_USE;
rp_status ir_read_integer(ir_reader *s, int64_t *out) RP_MUST_USE;
rp_status ir_read_number(ir_reader *s, double *out) RP_MUST_USE;
rp_status ir_read_dim(ir_reader *s, ir_dim *out) RP_MUST_USE;
/* Sizes up to `end`; out has room for IR_MAX_RANK. */
rp_status ir_read_dims(ir_reader *s, char end, ir_dim *out, uint32_t *n) RP_MUST_USE;
rp_status ir_read_dtype(ir_reader *s, rp_dtype *out) RP_MUST_USE;
rp_status ir_read_type(ir_reader *s, rp_dtype *t, ir_shape *shape) RP_MUST_USE;

#endif
