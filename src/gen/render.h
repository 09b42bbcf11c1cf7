/* Private to the room: what the C and the CUDA renderer share. */
#ifndef GEN_RENDER_H
#define GEN_RENDER_H

#include "kir/inst.h"

typedef struct gen_render {
    const kir_func *f;
    base_buf *out;
    kir_ref *partner; /* beside insts: the end of each begin */
    bool *nested;     /* beside insts: a begin with another loop inside */
    bool *used;       /* beside insts: something that is written out needs its value */
    uint32_t depth;   /* of indentation */
    bool cuda;
    bool warp; /* CUDA: a warp runs it in step, not a block */
    bool item; /* CUDA: one item of a kernel as a function */
} gen_render;

/* Verifies f and fills the side arrays. */
rp_status gen_render_init(gen_render *r, const kir_func *f, base_buf *out,
                          rp_error *err) RP_MUST_USE;
void gen_render_done(gen_render *r);

/* One line with indentation and newline. */
void gen_line(gen_render *r, const char *fmt, ...) RP_PRINTF(2, 3);
/* A value as an operand: a name or a literal. */
void gen_put(gen_render *r, kir_ref ref);
const char *gen_text(gen_render *r, kir_ref ref, char *buf, size_t size);
#define GEN_NAME_SIZE 48
/* C type of a class and of a buffer's elements. */
const char *gen_class_type(kir_class c);
const char *gen_elem_type(rp_dtype t);
/* The statement of an instruction that opens and closes nothing. */
void gen_statement(gen_render *r, kir_ref at);
/* `expr` with the names a, b, c replaced by operands. */
void gen_expr(gen_render *r, const char *expr, const kir_ref in[3]);
/* Dims of the function, at its top. */
void gen_dims(gen_render *r);
/* Another buffer of the same address is written, so neither may be restrict. */
bool gen_buf_aliases(const kir_func *f, uint32_t buf);
/* One argument slot more than the largest used. */
uint32_t gen_slots(const kir_func *f);
/* Starting value of a reduction over class c. */
const char *gen_neutral(kir_reduce how, kir_class c);
/* Instructions [from, to) for one thread, loops and reductions included. The same text in both languages. */
void gen_serial(gen_render *r, kir_ref from, kir_ref to);
/* A line that opens a block, and the brace that closes it. */
void gen_open(gen_render *r, const char *fmt, ...) RP_PRINTF(2, 3);
void gen_close(gen_render *r);

/* The iterations of a LOOP or REDUCE touch no element that another one stores. */
bool gen_is_independent(const gen_render *r, kir_ref loop);
/* parts.c: the part that each block of the body of a kernel's items belongs to; n is 1 where it is not to be cut. */
#define GEN_MAX_PARTS 16
typedef struct gen_parts {
    uint32_t n;
    uint8_t of[GEN_MAX_PARTS];
} gen_parts;
gen_parts gen_parts_of(const kir_func *f);
/* Stores to the buffer meet loads or other stores somewhere in the function. */
bool gen_needs_order(const kir_func *f, uint32_t buf);

#endif
