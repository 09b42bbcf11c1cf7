/* Private to the room: what the C and the CUDA renderer share. They print what a schedule says. */
#ifndef GEN_RENDER_H
#define GEN_RENDER_H

#include "kir/inst.h"
#include "sched/sched.h"

typedef struct gen_render {
    const sched *s;
    const kir_func *f; /* s->f */
    base_buf *out;
    bool *used;     /* beside insts: something that is written out needs its value */
    uint32_t depth; /* of indentation */
    bool cuda;
    bool warp;        /* CUDA: a warp runs what a block would */
    bool item;        /* CUDA: one item of a kernel as a function */
    uint32_t threads; /* CUDA: that run it, where that is known; 0: not */
    char size[16];    /* the same as text, so that loops over a constant are unrolled */
    /* element.c: floats of arguments go to asked[], and come from there. */
    enum { GEN_LOADS, GEN_ASKS, GEN_ASKED } loads;
    kir_ref wide; /* CUDA: the loop of which a thread takes several iterations; 0: none */
    uint32_t n_asked;
    /* render_ahead.c: beside insts, what is in ahead<load>[]; NULL: nothing. */
    bool *ahead;
    kir_ref ahead_outer;
    int ahead_inner_times;
} gen_render;

/* Fills the side array. */
rp_status gen_render_init(gen_render *r, const sched *s, base_buf *out, rp_error *err) RP_MUST_USE;
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
/* Another buffer of the same memory is written, or this one is, so neither may be restrict. */
bool gen_buf_aliases(const kir_func *f, uint32_t buf);
/* Starting value of a reduction over class c. */
const char *gen_neutral(kir_reduce how, kir_class c);
/* Instructions [from, to) of a thread alone, loops and reductions included. The same text in both languages. */
void gen_alone(gen_render *r, kir_ref from, kir_ref to);
/* A line that opens a block, and the brace that closes it. */
void gen_open(gen_render *r, const char *fmt, ...) RP_PRINTF(2, 3);
void gen_close(gen_render *r);

#endif
