/* Rewrite rules as text, and the terms they are made of. */
#ifndef PASS_RULES_H
#define PASS_RULES_H

#include "ir/graph.h"

typedef enum pass_term_kind {
    PASS_TERM_VALUE,
    PASS_TERM_CONST,
    PASS_TERM_NUMBER,
    PASS_TERM_OP
} pass_term_kind;

typedef struct pass_term {
    pass_term_kind kind;
    char letter;   /* VALUE, CONST: its name */
    double number; /* NUMBER */
    ir_op op;
    uint32_t n_in;
    uint32_t in[3]; /* terms of the rule */
} pass_term;

typedef enum pass_condition {
    PASS_IF_ALWAYS,
    PASS_IF_INT,
    PASS_IF_WIDENS,
    PASS_IF_IDENTITY,
    PASS_IF_COMPOSE,
    PASS_IF_POW2,
    PASS_IF_SIGNED
} pass_condition;

#define PASS_RULE_TERMS 12

typedef struct pass_rule {
    base_str text; /* the line, borrowed from the text that was parsed */
    pass_term term[PASS_RULE_TERMS];
    uint32_t n_terms, pattern, replacement; /* pattern: an op */
    pass_condition condition;
} pass_rule;

typedef struct pass_rules {
    pass_rule *rule; /* base_alloc */
    uint32_t n;
} pass_rules;

/* RP_INVALID with "line N: " for bad text. text is borrowed and must outlive *out. */
rp_status pass_rules_parse(const char *text, pass_rules *out, rp_error *err) RP_MUST_USE;
void pass_rules_done(pass_rules *r);
/* The text of simplify.rules. */
const char *pass_rules_text(void);

/* The value that rule makes of node r of g, which is not finished yet; IR_NONE when the rule does not apply. May leave
 * nodes behind that nobody uses. */
rp_status pass_rule_apply(const pass_rule *rule, ir_graph *g, ir_ref r, ir_ref *out,
                          rp_error *err) RP_MUST_USE;

/* The constant that r is, looking through broadcasts and reshapes; IR_NONE for anything else. */
ir_ref pass_constant_of(const ir_graph *g, ir_ref r);
/* A constant for node r where its operands are constants and every device would compute the same bits, else r. */
rp_status pass_fold_node(ir_graph *g, ir_ref r, ir_ref *out, rp_error *err) RP_MUST_USE;

#endif
