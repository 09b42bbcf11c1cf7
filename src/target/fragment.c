#include "target/fragment.h"

#include <inttypes.h>

#include "pass/product.h"

#define K (L->k)

void target_put_dim(lowerer *L, ir_dim d) {
    ir_dim own = ir_dim_import(L->out->dims, ir_graph_dims(L->g), d);
    if (own == IR_DIM_BAD)
        (void)rp_fail(L->err, RP_UNSUPPORTED,
                      "a product has a size or stride that overflows; give its symbols smaller "
                      "bounds");
    else
        ir_dim_print_c(L->out->dims, own, "dim", &L->source);
}

/* In C, of the types that values have in scratch (lower/members.c). */
static const char *scratch_type(rp_dtype t) {
    return t == RP_DTYPE_F64   ? "double"
           : t == RP_DTYPE_I64 ? "rp_i64"
           : t == RP_DTYPE_I32 ? "rp_i32"
                               : "float";
}

void target_call_temporaries(lowerer *L, const pass_segment *s, const target_call *c) {
    for (uint32_t i = s->n_mats; i < K->n_bufs; i++)
        if (K->bufs[i].space == KIR_SCRATCH)
            base_buf_printf(&L->source, "    %s%s %s%u%s\n", c->space,
                            scratch_type(K->bufs[i].dtype), c->name, i, c->end);
}

void target_call_arguments(lowerer *L, const pass_segment *s, const target_call *c) {
    for (uint32_t i = 0; i < K->n_bufs; i++) {
        if (K->bufs[i].space != KIR_SCRATCH) continue;
        if (i < s->n_mats)
            base_buf_printf(&L->source, ", %s + %" PRId64, c->acc, i * c->columns);
        else
            base_buf_printf(&L->source, ", %s%u%s", c->name, i, c->at);
    }
}

rp_status target_epilogues(lowerer *L, const lower_matmul *m, const target_slot *slot) {
    const pass_group *gr = m->gr;
    for (uint32_t i = 0; i < gr->n_segs; i++) {
        if (gr->segs[i].dead) continue;
        char *frag = lower_epilogue_name(L, m->name, i);
        if (!frag) return rp_fail(L->err, RP_NOMEM, "kernel name");
        L->rows = gr->rows;
        rp_status st = lower_epilogue(L, &gr->segs[i], frag, slot->columns(L, &gr->segs[i]));
        if (st == RP_OK) slot->macro(L, &gr->segs[i], frag);
        kir_free(L->k);
        L->k = NULL;
        RP_TRY(st);
    }
    return RP_OK;
}

gen_matmul_uses target_matmul_uses(const lowerer *L, const lower_matmul *m) {
    pass_weights w;
    if (m->quant && pass_product_weights(L->g, m->gr->segs[0].mats[0], &w))
        return (gen_matmul_uses){.quant = UINT32_C(1) << w.dtype};
    return (gen_matmul_uses){.floats = true, .strided = !m->packed};
}
