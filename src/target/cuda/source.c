/* Custom ops with a source for GPUs: a kernel that calls rp_op for each of its items, or one of the op's own, in PTX. */
#include "target/source.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "target/cuda/cuda.h"

enum { THREADS = 256 };

static void put_kernel(lowerer *L, const target_source *s, uint32_t threads) {
    base_buf *b = &L->source;
    target_cuda_head(L, s->name, threads, 0, "");
    base_buf_puts(b, "    rk_wait();\n");
    target_source_put_arguments(L, s);
    if (s->d->items == RP_OP_ELEMENTS)
        base_buf_printf(b,
                        "    for (long long item = blockIdx.x * %uLL + threadIdx.x; item < items; "
                        "item += gridDim.x * %uLL)\n"
                        "        rp_own_%s::rp_op_%s(view, attr, item);\n}\n",
                        threads, threads, s->hash, s->hash);
    else
        base_buf_printf(b,
                        "    for (long long item = blockIdx.x; item < items; item += gridDim.x) "
                        "{\n"
                        "        rp_own_%s::rp_op_%s(view, attr, item);\n"
                        "        __syncthreads();\n    }\n}\n",
                        s->hash, s->hash);
}

/* --- PTX ---------------------------------------------------------------------------------------------- */

static int64_t word_of(const rp_op_attr *a) {
    int64_t bits;
    if (a->kind == RP_OP_I64) return a->i;
    memcpy(&bits, &a->f, sizeof bits);
    return bits;
}

/* Sizes of all arguments, then the attributes. */
static rp_status put_parameters(lowerer *L, const target_source *s, lower_launch *l) {
    const ir_attr *a = ir_attr_get(s->n, IR_ATTR_ATTRS);
    const uint32_t n_words = a ? a->n : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < L->n_args; i++) n += s->types[i].shape.rank;
    ir_dim *sizes = base_arena_array(L->arena, n + 1u, sizeof *sizes);
    int64_t *words = base_arena_array(L->arena, n_words + 1u, sizeof *words);
    if (!sizes || !words) return rp_fail(L->err, RP_NOMEM, "parameters of %s", s->d->name);
    n = 0;
    for (uint32_t i = 0; i < L->n_args; i++)
        for (uint32_t d = 0; d < s->types[i].shape.rank; d++) sizes[n++] = s->types[i].shape.dim[d];
    for (uint32_t i = 0; i < n_words; i++) words[i] = word_of(&a->u.values[i]);
    l->sizes = sizes;
    l->words = words;
    l->n_sizes = n;
    l->n_words = n_words;
    return RP_OK;
}

/* The module is a unit of its own (compile/units.h); in the text of the piece a comment stands for it. */
static void put_ptx(lowerer *L, const target_source *s) {
    char hex[33];
    base_hash_hex(base_hash(s->d->ptx, strlen(s->d->ptx)), hex);
    base_buf_printf(&L->source, "/* %s: custom op %s, PTX %s, entry %s */\n", s->name, s->d->name,
                    hex, s->d->ptx_entry);
    lower_kernel *k = lower_add_kernel(L, s->name, s->begin, (gen_matmul_uses){0});
    k->ptx = s->d->ptx;
    k->entry = s->d->ptx_entry;
}

/* --- the op ------------------------------------------------------------------------------------------ */

rp_status target_cuda_source(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d) {
    const uint32_t threads = d->threads ? d->threads : THREADS;
    target_source s;
    RP_TRY(target_source_begin(L, n, r, d, d->ptx ? NULL : d->cuda_source, &s));
    if (d->ptx) {
        put_ptx(L, &s);
    } else {
        target_source_put(L, &s, true);
        put_kernel(L, &s, threads);
        target_source_end(L, &s);
    }
    lower_launch *l = target_source_launch(L, &s);
    if (d->ptx) RP_TRY(put_parameters(L, &s, l));
    l->threads = threads;
    l->per_block = d->items == RP_OP_ELEMENTS ? threads : 1;
    RP_TRY(base_buf_status(&L->source, L->err));
    return lower_take_args(L, l);
}
