/* How much attention takes at once; equal for every instruction set, so that one scratch size serves all. */
#ifndef GEN_ATTENTION_TILE_H
#define GEN_ATTENTION_TILE_H

#include "gen/builtin.h"

#define GEN_ATTENTION_QUERIES 24

/* Rows of one kv head taken together. */
static inline long long gen_attention_tile(const gen_attention_record *r) {
    long long rows = GEN_ATTENTION_QUERIES / (r->heads / r->kv_heads);
    return rows < 1 ? 1 : rows > 16 ? 16 : rows;
}

typedef void gen_builtin_fn(void *const *arg, const long long *dim, long long begin, long long end,
                            void *scratch);
extern gen_builtin_fn gen_attention_portable;
#if defined(__x86_64__)
extern gen_builtin_fn gen_attention_avx2, gen_attention_avx512;
#endif

#endif
