/* What is known of the sizes of one trace, and who asked: the symbols with the sizes of the call as examples, and the facts that its answers
 * were taken from. A fact narrows a range, adds a divisor, makes a symbol a number or writes it in terms of others; one that does none of these is kept as
 * it is. Since shapes must be right in a graph that knows nothing of examples, a trace that learnt something is made
 * again with symbols that have it from the start, until nothing is new. */
#ifndef FRONT_SOLVER_H
#define FRONT_SOLVER_H

#include "ir/dim.h"
#include "ir/dim_code.h"
#include "reprise/dim.h"

typedef enum front_policy { FRONT_BACKED, FRONT_MARKED, FRONT_UNBACKED } front_policy;

typedef struct front_symbol {
    char name[16];
    char *source;  /* "L['x'].size()[0]" */
    uint32_t word; /* where a call has it; UINT32_MAX: nowhere */
    front_policy policy;
    bool yields; /* it leaves compile_sizes to entries of their own */
    bool strict; /* the user gave the range: nothing may narrow it */
    int64_t hint, min, max, divisor;
    bool fixed;       /* it is its hint */
    bool replaced;    /* it is `as` */
    ir_dim_code as;   /* over the symbols of the solver */
    uint32_t table_i; /* in the table of this pass; UINT32_MAX: not there */
    ir_dim dim;       /* likewise */
    bool integer;     /* of an integer argument, and: */
    bool negated;     /* what it is times -1 */
    bool asked;       /* the function took it as a size */
    bool literal;     /* it is fixed, since the function reads it as a number of C */
    bool rest; /* no word: what a size, which is `as`, has beyond a form that it is not less than */
    ir_dim_code of; /* of such: over the words of a call */
    uint32_t leaf;  /* the input that tells it in the graph of this pass; IR_NONE: none */
} front_symbol;

/* Of a call with these words. */
static inline int64_t front_symbol_value(const front_symbol *y, const uint64_t *word) {
    if (y->rest) return ir_dim_code_eval(&y->of, (const int64_t *)word);
    const uint64_t is = word[y->word];
    return (int64_t)(y->negated ? 0 - is : is);
}

/* a r b, over the symbols of the solver. */
typedef struct front_fact {
    ir_dim_code a, b;
    rp_relation r;
    bool learnt;    /* the symbols have it */
    bool must;      /* no question: shapes rely on it */
    bool numbers;   /* and since no symbols have it, those that it is about are numbers */
    bool postponed; /* the next pass, which knows more, asks for it again */
    uint32_t pass;  /* in which it came up */
    char *file;     /* who asked; NULL: not known */
    uint32_t line;
} front_fact;

typedef struct front_solver {
    const char *what; /* the function, for logs; borrowed */
    front_symbol *symbol;
    uint32_t n_symbols, room; /* of more symbols that it may add */
    front_fact *fact;
    uint32_t n_facts, cap_facts;
    uint32_t told;  /* facts whose site is known */
    ir_dims *t;     /* of this pass */
    int64_t *value; /* of the table's symbols: examples; room for n_values */
    uint32_t n_values;
    uint32_t pass;   /* from 1 */
    bool changed;    /* in this pass */
    bool runs;       /* it is no pass but a run of a recording, whose pieces learn */
    uint32_t learnt; /* times that something was */
    bool refused;    /* a mark did not allow a fact: no further pass helps */
    rp_error *err;   /* of this pass: a fact that a mark does not allow, or no memory */
} front_solver;

void front_solver_done(front_solver *s);
/* What is known, for another table; to be begun or aimed before it is asked. */
rp_status front_solver_copy(const front_solver *s, front_solver *out, rp_error *err) RP_MUST_USE;
/* Forgets what was learnt: the symbols are the n that they were at first, but for those that are literals now. */
void front_solver_restart(front_solver *s, const front_symbol *first, uint32_t n);
/* Symbols that no mark is about become numbers; false where all are. */
bool front_solver_settle(front_solver *s);
/* A pass begins: sizes are made in t from now on, and trace, the error of its graph, is failed where the graph must be. */
rp_status front_solver_begin(front_solver *s, ir_dims *t, rp_error *trace) RP_MUST_USE;
/* Room for the examples of n symbols of a table; false: out of memory. */
bool front_solver_reserve(front_solver *s, uint32_t n) RP_MUST_USE;
/* Symbol i in the table. */
ir_dim front_solver_size(front_solver *s, uint32_t i);

/* Facts that were postponed go, since another pass begins. Where none does, since the pass ended at a break, they stay: nobody asks
 * again for what an op wanted whose result is not used. */
void front_solver_again(front_solver *s);

/* A question of the function, as trace_oracle.ask. */
rp_answer front_solver_ask(void *solver, ir_dim a, rp_relation r, ir_dim b, const char *file,
                           int line);
/* As trace_oracle.example. */
bool front_solver_example(void *solver, ir_dim d, int64_t *out);
void front_solver_told(void *solver, const char *file, uint32_t line);
/* A wish of a shape rule, as ir_dim_assume_fn. */
bool front_solver_assume(void *solver, ir_dim_question q, ir_dim a, ir_dim b, int64_t k);

/* Of a symbol: where it is used, what of it is enough. */
typedef struct front_enough {
    bool used;
    bool fixed;  /* to be its example */
    uint32_t as; /* to be this symbol, an earlier one; UINT32_MAX: itself */
    int64_t min, max, divisor;
    bool up; /* for who looks for them */
} front_enough;
/* Ranges and divisors of the symbols, which are their examples' too, and which of them are one, under which d r 0, that is f, for sure; to be freed. NULL: none are found,
 * or there is no memory. r is EQ or LE. */
front_enough *front_solver_enough(const front_solver *s, const front_fact *f, ir_dim d,
                                  rp_relation r);

/* Whether f holds for these values of the symbols. */
bool front_fact_holds(const front_fact *f, const int64_t *value);
/* "L['x'].size()[0] > 8  # model.c:12" */
void front_fact_print(const front_solver *s, const front_fact *f, base_buf *out);

#endif
