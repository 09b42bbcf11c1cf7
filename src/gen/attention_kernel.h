/* Body of attention_<isa>.c: the template for one instruction set behind a host function. RP_ISA and
 * ATTENTION_KERNEL (its name) are defined by the file that includes this, and only there. */
#include "gen/builtin.h"

#include "gen/embed/prelude.h"
#include "gen/embed/vector.c.inc"
#include "gen/embed/attention.c.inc"

#include "gen/attention_tile.h"

RP_ATTENTION(f32)
RP_ATTENTION(f16)
RP_ATTENTION(bf16)

gen_builtin_fn ATTENTION_KERNEL;

void ATTENTION_KERNEL(void *const *arg, const long long *dim, long long begin, long long end, void *scratch) {
    const gen_attention_record *r = arg[7];
    long long width = (long long)r->heads * r->head_dim;
    rp_attn a = {.q = arg[0],
                 .k = arg[1],
                 .v = arg[2],
                 .row_req = arg[3],
                 .row_pos = arg[4],
                 .table = arg[5],
                 .out = arg[6],
                 .rows = gen_affine_eval(&r->rows, dim),
                 .n_heads = r->heads,
                 .n_kv = r->kv_heads,
                 .hd = r->head_dim,
                 .table_stride = gen_affine_eval(&r->table_width, dim),
                 .q_stride = width,
                 .out_stride = width,
                 .row_tile = gen_attention_tile(r),
                 .scale = r->scale,
                 .block_size = r->block_size,
                 .ctx = GEN_ATTENTION_CONTEXT};
    if (r->kv == RP_DTYPE_F16) rp_attn_f16(&a, begin, end, scratch);
    else if (r->kv == RP_DTYPE_BF16) rp_attn_bf16(&a, begin, end, scratch);
    else rp_attn_f32(&a, begin, end, scratch);
}
