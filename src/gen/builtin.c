/* The table of kernels inside the library, and what a launch of attention needs to know. */
#include "gen/builtin.h"

#include <string.h>

#include "base/status.h"
#include "gen/attention_tile.h"
#include "gen/axis.h"
#include "gen/product.h"
#include "gen/ready.h"
#include "ir/kinds.h"

#define MAX_HEAD_DIM 1024
#define MAX_GROUP 256

typedef struct builtin {
    const char *name;
    gen_host_fn fn;
} builtin;

static const builtin attention[] = {
    [GEN_ISA_PORTABLE] = {"@attention_portable", gen_attention_portable},
#if defined(__x86_64__)
    [GEN_ISA_AVX2] = {"@attention_avx2", gen_attention_avx2},
    [GEN_ISA_AVX512] = {"@attention_avx512", gen_attention_avx512},
#endif
};

static const builtin product[] = {
    [GEN_ISA_PORTABLE] = {"@product_portable", gen_product_portable},
#if defined(__x86_64__)
    [GEN_ISA_AVX2] = {"@product_avx2", gen_product_avx2},
    [GEN_ISA_AVX512] = {"@product_avx512", gen_product_avx512},
#endif
};

#define N_ISA (sizeof attention / sizeof *attention)
_Static_assert(N_ISA == sizeof product / sizeof *product, "one of each for every instruction set");

/* Of a set without kernels of its own: those of the largest that has. */
static size_t with_kernels(gen_isa isa) {
    return (size_t)isa < N_ISA ? (size_t)isa : N_ISA - 1;
}

const char *gen_attention_name(gen_isa isa) {
    return attention[with_kernels(isa)].name;
}

const char *gen_product_name(gen_isa isa) {
    return product[with_kernels(isa)].name;
}

static const builtin axes[] = {
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_SCANS(kind, {"@" #name, gen_##name}, )
#include "ir/ops.def"
#undef OP
    {"@scatter", gen_scatter}};

gen_host_fn gen_builtin_find(const char *name) {
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (strcmp(axes[i].name, name) == 0) return axes[i].fn;
    for (size_t i = 0; i < N_ISA; i++) {
        if (strcmp(attention[i].name, name) == 0) return attention[i].fn;
        if (strcmp(product[i].name, name) == 0) return product[i].fn;
    }
    return gen_ready_function(name);
}

rp_status gen_attention_check(const gen_attention_record *r, rp_error *err) {
    if (r->kv_heads == 0 || r->heads % r->kv_heads || r->heads / r->kv_heads > MAX_GROUP)
        return rp_fail(err, RP_UNSUPPORTED,
                       "attention of %u heads over %u kv heads; at most %d share one", r->heads,
                       r->kv_heads, MAX_GROUP);
    if (r->head_dim == 0 || r->head_dim > MAX_HEAD_DIM)
        return rp_fail(err, RP_UNSUPPORTED,
                       "attention with a head_dim of %u; 1 to %d are supported", r->head_dim,
                       MAX_HEAD_DIM);
    if (r->block_size == 0 || r->block_size > 65536)
        return rp_fail(err, RP_UNSUPPORTED, "attention over cache blocks of %u positions",
                       r->block_size);
    if (!rp_dtype_is_float(r->kv))
        return rp_fail(err, RP_UNSUPPORTED,
                       "attention over a cache of %s; f32, f16 and bf16 are supported",
                       rp_dtype_name(r->kv));
    return RP_OK;
}

ir_dim gen_attention_items(ir_dims *t, ir_dim rows, const gen_attention_record *r) {
    return ir_dim_mul_const(t, rows, r->heads);
}
