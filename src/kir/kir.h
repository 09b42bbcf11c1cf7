/* Kernel IR: structured loops, indices, loads, stores, reductions. Scalar semantics only.
 *
 * A function is a linear list of instructions with matched begin/end pairs. Each instruction that
 * makes a value is named by its kir_ref; a value may be used after it, inside the block it was made
 * in. There are two value classes: index (64-bit signed) and data (f32 and f64, or i32 and i64 for integer
 * data). f16, bf16 and small integers exist in buffers only: a load widens, a store rounds.
 *
 * A KERNEL has exactly one outermost PAR loop, whose iterations are independent work items dealt to
 * threads. A FRAGMENT has none: a template calls it (epilogue slots), with its index parameters. */
#ifndef KIR_KIR_H
#define KIR_KIR_H

#include "ir/graph.h"

typedef uint32_t kir_ref;
#define KIR_NONE UINT32_MAX

typedef enum kir_class { KIR_INDEX, KIR_F32, KIR_I32, KIR_I64, KIR_F64, KIR_VOID } kir_class;
static inline bool kir_is_float(kir_class c) {
    return c == KIR_F32 || c == KIR_F64;
}
static inline bool kir_is_int(kir_class c) {
    return c == KIR_I32 || c == KIR_I64;
}

#define KIR_OP_LIST(X)                                                                          \
    X(CONST_I, "const.i") /* index immediate */                                                 \
    X(CONST_F, "const.f") /* f32 or f64 immediate */                                            \
    X(DIM, "dim")         /* a dim form of the graph's symbols, as index */                     \
    X(PARAM, "param")     /* index parameter of a fragment (imm = which) */                     \
    X(PAR, "par")         /* begin: work items 0..extent-1; value: the item */                  \
    X(LOOP, "loop")       /* begin: sequential 0..extent-1; value: the counter */               \
    X(REDUCE, "reduce")   /* begin: reduction loop; value: the counter */                       \
    X(YIELD, "yield")     /* end of a REDUCE: value: the reduced result */                      \
    X(IF, "if")           /* begin: runs when index operand != 0 */                             \
    X(END, "end")         /* end of PAR, LOOP, IF */                                            \
    X(IADD, "iadd")                                                                             \
    X(ISUB, "isub")                                                                             \
    X(IMUL, "imul")                                                                             \
    X(IDIV, "idiv") /* floor; divisor > 0 */                                                    \
    X(IMOD, "imod") /* >= 0; divisor > 0 */                                                     \
    X(IMIN, "imin")                                                                             \
    X(IMAX, "imax")                                                                             \
    X(ILT, "ilt")               /* index 0 or 1 */                                              \
    X(IAND, "iand")             /* logical */                                                   \
    X(ISELECT, "iselect")       /* index ? index : index */                                     \
    X(TO_INDEX, "to_index")     /* data (an integer) -> index */                                \
    X(FROM_INDEX, "from_index") /* index -> data */                                             \
    X(ALU, "alu")               /* elementwise op of the graph IR on data */                    \
    X(SELECT, "select")         /* index ? data : data; both sides are evaluated */             \
    X(CVT, "cvt")               /* data to class: to integers truncates, saturates */           \
    X(CVT_ODD, "cvt_odd")       /* integer or f64 -> f32 rounded to odd: to be rounded again */ \
    X(ROUND_TO, "round_to")     /* f32 rounded through dtype (f16, bf16, i8...) */              \
    X(BITS, "bits")             /* bits of an element of dtype, as an integer or the float */   \
    X(SHR, "shr")               /* i32 arithmetic shift right by imm */                         \
    X(BAND, "band")             /* i32 and imm */                                               \
    X(LOAD, "load")             /* buf[index] -> data */                                        \
    X(STORE, "store")           /* buf[index] = data */

typedef enum kir_op {
#define KIR_OP_ENUM(id, text) KIR_##id,
    KIR_OP_LIST(KIR_OP_ENUM)
#undef KIR_OP_ENUM
        KIR_OP_COUNT_
} kir_op;

typedef enum kir_space {
    KIR_ARG,    /* argument `slot` of the launch, plus byte offset */
    KIR_SCRATCH /* thread-local scratch, `size` elements; contents undefined at the start of an item */
} kir_space;

typedef struct kir_buf {
    const char *name; /* for the printed form; unique */
    kir_space space;
    rp_dtype dtype; /* f64 f32 f16 bf16 f8 i64 i32 i16 i8 u8 bool */
    uint32_t slot;  /* KIR_ARG: argument index */
    int64_t
        offset; /* KIR_ARG: bytes added to the argument's address; several bufs may share a slot */
    int64_t size; /* KIR_SCRATCH: elements */
    bool written;
} kir_buf;

/* Reductions: SUM of floats is of chunks of KIR_CHUNK elements, each of 16 partial lanes (element i in lane i % 16, ascending)
 * and a fixed tree over the lanes; the sums of chunks are added in order in double precision and rounded once. MAX and MIN any order (NaN wins), PROD ascending, ARGMAX first of equals.
 * CHAIN, of floats: elements that are sums of chunks, added as those are. */
#define KIR_CHUNK 4096
typedef enum kir_reduce {
    KIR_SUM,
    KIR_PROD,
    KIR_MAX,
    KIR_MIN,
    KIR_ARGMAX,
    KIR_CHAIN,
    KIR_REDUCE_COUNT_
} kir_reduce;

typedef struct kir_inst {
    kir_op op;
    kir_class cls; /* class of the value it makes */
    kir_ref in[3];
    uint32_t n_in;
    union {
        int64_t i;         /* CONST_I, PARAM, SHR, BAND */
        double f;          /* CONST_F */
        ir_dim dim;        /* DIM, in kir_func.dims */
        ir_op alu;         /* ALU */
        rp_dtype dtype;    /* ROUND_TO, BITS */
        kir_reduce reduce; /* REDUCE */
        uint32_t buf;      /* LOAD, STORE */
    } u;
} kir_inst;

/* Bounds of an index or integer value, both included; of a float where they are known. */
typedef struct kir_range {
    int64_t lo, hi;
} kir_range;

#define KIR_MAX_DEPTH 32 /* nested blocks */

typedef enum kir_form { KIR_KERNEL, KIR_FRAGMENT } kir_form;

typedef struct kir_func {
    char *name;
    kir_form form;
    uint32_t n_params; /* FRAGMENT: index parameters */
    ir_dims
        *dims; /* symbols; DIM forms refer to it; order of symbols = order of the launch's dim[] */
    kir_buf *bufs;
    uint32_t n_bufs;
    kir_inst *insts;
    uint32_t n_insts;
    uint32_t cap_insts, cap_bufs;
    base_arena *arena;
    bool failed; /* a builder call failed; error says why */
    rp_error error;
    kir_range *ranges;           /* beside insts */
    kir_ref *blocks;             /* beside insts: the begin of the block it is in, or KIR_NONE */
    kir_ref *newest, *older;     /* shared values: by hash, and beside insts */
    kir_ref open[KIR_MAX_DEPTH]; /* blocks that are open while building */
    uint32_t n_open;
} kir_func;

/* Constants, dims and params belong to the function: they may be used anywhere after they are made.
 *
 * Builders append and give the ref; after a failure they give KIR_NONE and kir_status says why, so a
 * lowering checks once at the end. Constants are shared. Index arithmetic folds constants and x*0,
 * x*1, x+0, (x*k)/k, and div/mod by a constant where the range of x (from loop extents) allows. */
kir_func *kir_new(const char *name, kir_form form, const ir_dims *dims); /* imports all symbols */
void kir_free(kir_func *f);
rp_status kir_status(const kir_func *f, rp_error *err) RP_MUST_USE;
uint32_t kir_add_buf(kir_func *f, const char *name, kir_space space, rp_dtype dtype, uint32_t slot,
                     int64_t offset, int64_t size);
/* Whether two buffers are one memory: those of one argument at one offset, and a plane of blocks beside the bytes of whole ones, which
 * are a u8 at 0. Other planes of an argument are apart. */
bool kir_same_memory(const kir_func *f, uint32_t a, uint32_t b);
kir_ref kir_const_i(kir_func *f, int64_t v);
kir_ref kir_const_f(kir_func *f, double v);                 /* of f32 */
kir_ref kir_const_f64(kir_func *f, double v);               /* of f64 */
kir_ref kir_dim(kir_func *f, const ir_dims *src, ir_dim d); /* imported; constants become const.i */
kir_ref kir_param(kir_func *f, uint32_t which);
kir_ref kir_begin(kir_func *f, kir_op par_loop, kir_ref extent); /* PAR or LOOP */
kir_ref kir_begin_reduce(kir_func *f, kir_reduce how, kir_ref extent);
kir_ref kir_yield(kir_func *f, kir_ref value); /* closes the innermost REDUCE */
void kir_begin_if(kir_func *f, kir_ref cond);
void kir_end(kir_func *f);
kir_ref kir_bin(kir_func *f, kir_op index_op, kir_ref a, kir_ref b);
kir_ref kir_iselect(kir_func *f, kir_ref c, kir_ref a, kir_ref b);
/* KIR_NONE for absent. All operands of one class (the condition of where may be of another); the result
 * is of that class too, so a comparison of i32 gives i32 0 or 1. Integers: sums, differences and products
 * wrap around; ops that have no meaning on integers (div, exp...) fail. */
kir_ref kir_alu(kir_func *f, ir_op op, kir_ref a, kir_ref b, kir_ref c);
kir_ref kir_select(kir_func *f, kir_ref c, kir_ref a, kir_ref b);
kir_ref kir_cvt(kir_func *f, kir_class to, kir_ref a);
/* An integer or f64 on its way to f16 or bf16 (round_to): rounded once in all. */
kir_ref kir_cvt_odd(kir_func *f, kir_ref a);
kir_ref kir_to_index(kir_func *f, kir_ref a);
kir_ref kir_from_index(kir_func *f, kir_class to, kir_ref a);
kir_ref kir_round_to(kir_func *f, rp_dtype t, kir_ref a);
/* The bits that a float has as an element of t, a float type: of an f32 an i32 (fewer bits extended by their sign, those of f8 by
 * zeros), of an f64 an i64; and the float of such an integer. */
kir_ref kir_bits_of(kir_func *f, rp_dtype t, kir_ref a);
kir_ref kir_of_bits(kir_func *f, rp_dtype t, kir_ref a);
/* An i32 or i64 as t, an integer type: what is left of it in so many bits. An i32, or an i64 where t is that. */
kir_ref kir_wrap_to(kir_func *f, rp_dtype t, kir_ref a);
kir_ref kir_shr(kir_func *f, kir_ref a, int64_t bits);
kir_ref kir_band(kir_func *f, kir_ref a, int64_t mask);
kir_ref kir_load(kir_func *f, uint32_t buf, kir_ref index);
/* Floats round to nearest even, integers saturate; a value of the other class is converted first. */
void kir_store(kir_func *f, uint32_t buf, kir_ref index, kir_ref value);

/* Data operations, loads and stores of one item of a kernel (or of a call of a fragment), an exponential as 8. With
 * symbols = NULL, and for extents that hang on data, a loop has as many iterations as its bounds allow, at most 256. */
double kir_item_cost(const kir_func *f, const int64_t *symbols);

/* A copy that computes the same with loops a compiler can vectorise: a loop whose counter is divided by
 * a constant becomes two, and one with conditions on its counter becomes a loop for each stretch
 * where they do not change. Owned by the caller. */
rp_status kir_split_loops(const kir_func *f, kir_func **out, rp_error *err) RP_MUST_USE;

/* Of a kernel whose items are tiles, each one loop, that read far apart what neighbouring items read side by side: a copy that computes
 * the same with KIR_STAGED_ROWS items in one, which read that together into temporaries first. *out NULL: f is none, or their
 * number is not known to be a multiple of that. Owned by the caller. */
#define KIR_STAGED_ROWS 32
rp_status kir_stage_rows(const kir_func *f, kir_func **out, rp_error *err) RP_MUST_USE;

/* Of a kernel whose items are rows, gone over by loops and reductions none of which is within another: a copy that computes the same, where
 * floats that several of them load at the same places are loaded once, and where a loop that loads and stores memory does one after the other. It has
 * temporaries for that of at most `most` words of 4 bytes in all. *out NULL: there is no such. Owned by the caller. */
rp_status kir_hold_rows(const kir_func *f, int64_t most, kir_func **out, rp_error *err) RP_MUST_USE;

/* Class rules, matched begin/end, scopes, one PAR in a KERNEL, no PAR inside, buffers in range. */
rp_status kir_verify(const kir_func *f, rp_error *err) RP_MUST_USE;
/* Text form; kir_parse reads it back; print(parse(print(f))) == print(f). */
void kir_print(const kir_func *f, base_buf *out);
rp_status kir_parse(const char *text, size_t len, kir_func **out, rp_error *err) RP_MUST_USE;
/* Runs a kernel or fragment on host memory, slowly (tests; the library's own fallback). args: one
 * pointer a slot, then, for a fragment, one a scratch buffer in order; symbols in order; params for a fragment; [begin, end) of the PAR loop. */
rp_status kir_run(const kir_func *f, void *const *args, const int64_t *symbols,
                  const int64_t *params, int64_t begin, int64_t end, rp_error *err) RP_MUST_USE;

#endif
