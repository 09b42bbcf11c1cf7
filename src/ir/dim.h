/* Symbolic sizes: sums of products of symbols, with floor-division and remainder by constants.
 *
 * A dim is a handle into the table of its graph; equal forms have equal handles (they are
 * normalised and interned), so == compares. Symbols carry a range [min, max] and a divisor. What the
 * bounded engine cannot decide is "unknown", never searched for. */
#ifndef IR_DIM_H
#define IR_DIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

typedef uint32_t ir_dim;
typedef struct ir_dims ir_dims; /* the table; owned by a graph's arena */

typedef struct ir_symbol {
    const char *name;
    int64_t min, max, divisor; /* value in [min, max], multiple of divisor */
    int64_t hint;              /* what it was in a call, to measure at; -1: not known */
} ir_symbol;

typedef enum ir_tri { IR_FALSE, IR_TRUE, IR_UNKNOWN } ir_tri;

ir_dims *ir_dims_new(base_arena *arena); /* NULL when memory is exhausted */

/* Terms of a size, and factors of one: of bytes of four axes of three symbols each there are 12. */
#define IR_DIM_MAX_TERMS 16
#define IR_DIM_MAX_FACTORS 12

/* Constructors. All return IR_DIM_BAD when memory is exhausted, on overflow, or where there would be more terms or
 * factors; IR_DIM_BAD as an operand gives IR_DIM_BAD. */
#define IR_DIM_BAD UINT32_MAX
/* Memory ran out in a constructor: an IR_DIM_BAD may be that and no overflow. */
bool ir_dims_exhausted(const ir_dims *t);
/* What a size that could not be made is refused with: RP_INVALID, or RP_NOMEM where memory was exhausted. */
rp_status ir_dims_refusal(const ir_dims *t);
ir_dim ir_dim_const(ir_dims *t, int64_t v);
/* Same name again gives the same symbol; its range must then be equal. */
ir_dim ir_dim_symbol(ir_dims *t, const char *name, int64_t min, int64_t max, int64_t divisor);
ir_dim ir_dim_add(ir_dims *t, ir_dim a, ir_dim b);
ir_dim ir_dim_sub(ir_dims *t, ir_dim a, ir_dim b);
ir_dim ir_dim_mul_const(ir_dims *t, ir_dim a, int64_t k);
ir_dim ir_dim_mul(ir_dims *t, ir_dim a, ir_dim b);
ir_dim ir_dim_floordiv(ir_dims *t, ir_dim a, int64_t k); /* k > 0 */
ir_dim ir_dim_mod(ir_dims *t, ir_dim a, int64_t k);      /* k > 0 */

bool ir_dim_is_const(const ir_dims *t, ir_dim d, int64_t *out);
/* Whether d is known to be v. */
bool ir_dim_is(const ir_dims *t, ir_dim d, int64_t v);
/* Whether a and b are one handle or known to be equal. */
bool ir_dim_same(const ir_dims *t, ir_dim a, ir_dim b);
void ir_dim_bounds(const ir_dims *t, ir_dim d, int64_t *min, int64_t *max);
ir_tri ir_dim_eq(const ir_dims *t, ir_dim a, ir_dim b);
ir_tri ir_dim_le(const ir_dims *t, ir_dim a, ir_dim b);
ir_tri ir_dim_divisible(const ir_dims *t, ir_dim a, int64_t k);
/* Whether one of `of` is known to be 0 where d, which is not negative, is 0: of 8*B*T with B, T. Asks nobody. */
bool ir_dim_empty_with(ir_dims *t, ir_dim d, const ir_dim *of, uint32_t n);

/* Asked where ranges and divisors leave a question of ir_dim_eq, ir_dim_le or ir_dim_divisible open; true: it is assumed to hold, by
 * who set the hook, and answered IR_TRUE. Forms may be made inside. NULL (a new table): such a question is IR_UNKNOWN. */
typedef enum ir_dim_question { IR_DIM_EQ, IR_DIM_LE, IR_DIM_DIVISIBLE } ir_dim_question;
typedef bool (*ir_dim_assume_fn)(void *user, ir_dim_question q, ir_dim a, ir_dim b, int64_t k);
void ir_dims_set_assume(ir_dims *t, ir_dim_assume_fn fn, void *user);
void ir_dims_get_assume(const ir_dims *t, ir_dim_assume_fn *fn, void **user);
/* The hook of a table whose symbols are those of another, by name: what is open in it is asked there. user is an ir_dims_pair. */
typedef struct ir_dims_pair {
    const ir_dims *own;
    ir_dims *around;
} ir_dims_pair;
bool ir_dims_assume_around(void *user, ir_dim_question q, ir_dim a, ir_dim b, int64_t k);

/* A size to estimate with: d where it is known, else the size within its bounds that is nearest to IR_DIM_NOMINAL. */
#define IR_DIM_NOMINAL 256
static inline int64_t ir_dim_nominal_of(int64_t min, int64_t max) {
    return min > IR_DIM_NOMINAL ? min : max < IR_DIM_NOMINAL ? max : IR_DIM_NOMINAL;
}
int64_t ir_dim_nominal(const ir_dims *t, ir_dim d);

/* Greatest constant that divides every coefficient and the constant: |v| of a constant, 6 of 12*T+6. d
 * is that times ir_dim_floordiv(d, it). 1 for an invalid handle. */
int64_t ir_dim_factor(const ir_dims *t, ir_dim d);

/* Symbols in order of first use. */
uint32_t ir_dims_symbol_count(const ir_dims *t);
const ir_symbol *ir_dims_symbol(const ir_dims *t, uint32_t i);
/* An import takes it over, text does not: nothing that is compiled may depend on it. */
void ir_dims_set_hint(ir_dims *t, uint32_t i, int64_t hint);
/* Index of the symbol called name, or UINT32_MAX. */
uint32_t ir_dims_find(const ir_dims *t, const char *name);
/* Whether d mentions symbol i. */
bool ir_dim_uses(const ir_dims *t, ir_dim d, uint32_t i);

/* Value with values[i] for symbol i. */
int64_t ir_dim_eval(const ir_dims *t, ir_dim d, const int64_t *values);
/* Text: "T", "2*T+3", "(T+15)//16", "T%4"; parse accepts what print writes. Symbols must exist. */
void ir_dim_print(const ir_dims *t, ir_dim d, base_buf *out);
/* As a C expression over an array `dim` indexed by symbol: "(dim[0]*2LL+3LL)". */
void ir_dim_print_c(const ir_dims *t, ir_dim d, const char *array, base_buf *out);
/* Reads a dim at *text and moves *text past it. */
rp_status ir_dim_parse(ir_dims *t, const char **text, ir_dim *out, rp_error *err) RP_MUST_USE;
/* The same form in another table (symbols are matched by name and created when missing). */
ir_dim ir_dim_import(ir_dims *dst, const ir_dims *src, ir_dim d);
/* From now on symbol i of src is by[i] of dst, n of them, borrowed; IR_DIM_BAD: by name, as others are. by NULL ends it. */
void ir_dims_set_import(ir_dims *dst, const ir_dims *src, const ir_dim *by, uint32_t n);
/* Whether symbols of src are something else in dst, by such a call. */
bool ir_dims_has_import(const ir_dims *dst, const ir_dims *src);
/* What the symbol of src with that name is in dst; IR_DIM_BAD where src has none. */
ir_dim ir_dim_import_symbol(ir_dims *dst, const ir_dims *src, const char *name);

#endif
