/* Attention for any processor, and the scratch that all of them need. */
#define RP_ISA 0
#define ATTENTION_KERNEL gen_attention_portable
#include "gen/attention_kernel.c.inc"

int64_t gen_attention_scratch(const gen_attention_record *r) {
    long long group = r->heads / r->kv_heads;
    return (int64_t)RP_ATTN_SCRATCH(gen_attention_tile(r), group, (long long)r->head_dim);
}
