/* Inside of the dim engine: shared by the files dim*.c (forms, interning and normal form; products; questions; text;
 * programs). Nobody else includes this. */
#ifndef IR_DIM_FORM_H
#define IR_DIM_FORM_H

#include "ir/dim.h"
#include "ir/dim_code.h"

/* What a form is a sum of. inner and k belong to divisions; a product is of two forms that are one atom each, inner the
 * smaller one and no product itself, other the product of the rest. */
typedef enum dim_atom_kind { DIM_SYMBOL, DIM_FLOORDIV, DIM_MOD, DIM_PRODUCT } dim_atom_kind;

typedef struct dim_atom {
    dim_atom_kind kind;
    uint32_t sym;
    ir_dim inner, other;
    int64_t k;
    int64_t lo, hi, div; /* value in [lo, hi], multiple of div */
    uint32_t nest;       /* divisions inside divisions */
} dim_atom;

typedef struct dim_term {
    uint32_t atom;
    int64_t coef; /* never 0 */
} dim_term;

/* An interned form: c + sum of terms, terms in canonical order. */
typedef struct dim_node {
    int64_t c;
    uint32_t n;
    const dim_term *t;
    int64_t lo, hi;
    uint64_t hash;
} dim_node;

/* Constants, coefficients and divisors beyond this are an overflow. */
#define DIM_LIMIT (INT64_C(1) << 61)
/* Names of symbols, in bytes. */
#define DIM_MAX_NAME 63
/* The engine is bounded: a form with more terms or deeper divisions becomes IR_DIM_BAD. */
#define DIM_MAX_NEST 8
#define DIM_MAX_TERMS IR_DIM_MAX_TERMS
#define DIM_MAX_FACTORS IR_DIM_MAX_FACTORS
typedef struct dim_form {
    int64_t c;
    uint32_t n;
    dim_term t[DIM_MAX_TERMS];
} dim_form;

struct ir_dims {
    base_arena *arena;
    ir_symbol *sym;
    uint32_t n_sym, cap_sym;
    dim_atom *atom;
    uint32_t n_atom, cap_atom;
    dim_node *node;
    uint32_t n_node, cap_node;
    uint32_t *slot; /* open addressing over node; UINT32_MAX = free */
    uint32_t n_slot;
    bool exhausted;
    ir_dim_assume_fn assume; /* NULL: nobody answers what is open */
    void *assume_user;
    const ir_dims *import_from; /* what its symbols are here, by index; NULL: all go by name */
    const ir_dim *import_by;
    uint32_t n_import;
};

bool dim_valid(const ir_dims *t, ir_dim d);
/* Copies d's form; d must be valid. */
void dim_load(const ir_dims *t, ir_dim d, dim_form *out);
/* f += k * g; false on overflow or too many terms. */
bool dim_addmul(const ir_dims *t, dim_form *f, const dim_form *g, int64_t k);
/* f += coef * atom; false on overflow or too many terms. */
bool dim_add_term(const ir_dims *t, dim_form *f, uint32_t atom, int64_t coef);
void dim_remove_term(dim_form *f, uint32_t i);
/* By structure: what makes the order of terms and factors the same in every table. */
int dim_atom_compare(const ir_dims *t, uint32_t a, uint32_t b);
/* The atom, new or known; UINT32_MAX when memory is exhausted or it is nested too deeply. */
uint32_t dim_atom_add(ir_dims *t, dim_atom a);
/* The form that is one atom; IR_DIM_BAD for UINT32_MAX or no memory. */
ir_dim dim_single(ir_dims *t, uint32_t atom);
/* The handle of f, which is brought into normal form; IR_DIM_BAD on overflow or no memory. */
ir_dim dim_finish(ir_dims *t, dim_form *f);
/* f is a multiple of k for all values of its symbols; false where that is not seen. */
bool dim_is_multiple(const ir_dims *t, const dim_form *f, int64_t k);
/* A floor-division that has no rest. */
bool dim_is_exact(const ir_dims *t, const dim_atom *a);
/* coef * (x//k) * y is (coef/k) * x * y where both divide. False on overflow or no memory. */
bool dim_join_products(ir_dims *t, dim_form *f);
/* x - x%k is k*(x//k), and x + (-x)%k k*((x+k-1)//k). False on overflow or no memory. */
bool dim_round(ir_dims *t, dim_form *f);
/* Joins k*(x//k) + x%k to x and k*(x//k) to x where x is a multiple of k. */
bool dim_join(const ir_dims *t, dim_form *f);
/* Sound bounds of a form; INT64_MIN and INT64_MAX stand for no bound. */
void dim_form_bounds(const ir_dims *t, const dim_form *f, int64_t *lo, int64_t *hi);
/* Greatest known divisor of the terms without the constant; 0 when there are no terms. */
int64_t dim_form_gcd(const ir_dims *t, const dim_form *f);
int64_t dim_gcd(int64_t a, int64_t b);
int64_t dim_floor(int64_t a, int64_t k);
/* Saturating: INT64_MIN and INT64_MAX are no bound. */
int64_t dim_sat_mul(int64_t a, int64_t b);
/* The atom of a form that is one atom. */
const dim_atom *dim_sole_atom(const ir_dims *t, ir_dim d);

/* One operation more; false where there is no room. */
bool dim_code_put(ir_dim_code *c, ir_dim_code_op op, int64_t k);
/* The program of d with common factors taken out; false where that is too long, too. */
bool dim_code_factored(const ir_dims *t, ir_dim d, ir_dim_code *out);

#endif
