/* Kernels compiled into the library: attention for every instruction set, and their records.
 *
 * A built-in kernel is a host function like generated ones (gen/gen.h) whose last argument is its record (of gen/product.h: the
 * one behind the operands). */
#ifndef GEN_BUILTIN_H
#define GEN_BUILTIN_H

#include "gen/gen.h"
#include "ir/dim_code.h"

/* arg: q, k, v, seqs, positions, block_tables, out, record. Work items: rows of heads
 * (gen/embed/attention.c.inc says which item is which). */
typedef struct gen_attention_record {
    ir_dim_code rows;        /* T */
    ir_dim_code table_width; /* B */
    uint32_t heads, kv_heads, head_dim, block_size;
    float scale;
    rp_dtype kv;      /* f16, bf16 or f32 */
    uint32_t rounded; /* not 0: out has packed rows (i16b32), and head_dim is a multiple of 32 */
    uint32_t none;    /* 0 */
} gen_attention_record;

/* Name of the kernel for an instruction set ("@attention_avx2"); static. */
const char *gen_attention_name(gen_isa isa);
/* Whether these sizes have a kernel. RP_UNSUPPORTED names what does not fit. */
rp_status gen_attention_check(const gen_attention_record *r, rp_error *err) RP_MUST_USE;
/* Bytes of thread-local scratch. */
int64_t gen_attention_scratch(const gen_attention_record *r);
/* Work items as a dim of rows (dims of t). */
ir_dim gen_attention_items(ir_dims *t, ir_dim rows, const gen_attention_record *r);

/* A built-in kernel by its name with '@', or NULL. */
gen_host_fn gen_builtin_find(const char *name);

#endif
