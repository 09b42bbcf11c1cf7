/* Copies of instructions by the builders, for passes that change what is around them. */
#include "kir/rebuild.h"

#include "base/status.h"

static kir_ref copy_data(kir_func *f, const kir_inst *in, const kir_ref x[3]) {
    switch (in->op) {
    case KIR_ALU: return kir_alu(f, in->u.alu, x[0], x[1], x[2]);
    case KIR_SELECT: return kir_select(f, x[0], x[1], x[2]);
    case KIR_CVT: return kir_cvt(f, in->cls, x[0]);
    case KIR_CVT_ODD: return kir_cvt_odd(f, x[0]);
    case KIR_TO_INDEX: return kir_to_index(f, x[0]);
    case KIR_FROM_INDEX: return kir_from_index(f, in->cls, x[0]);
    case KIR_ROUND_TO: return kir_round_to(f, in->u.dtype, x[0]);
    case KIR_BITS:
        return kir_is_int(in->cls) ? kir_bits_of(f, in->u.dtype, x[0])
                                   : kir_of_bits(f, in->u.dtype, x[0]);
    case KIR_SHR: return kir_shr(f, x[0], in->u.i);
    case KIR_BAND: return kir_band(f, x[0], in->u.i);
    case KIR_LOAD: return kir_load(f, in->u.buf, x[0]);
    case KIR_STORE: kir_store(f, in->u.buf, x[0], x[1]); return KIR_NONE;
    case KIR_ISELECT: return kir_iselect(f, x[0], x[1], x[2]);
    default: return kir_bin(f, in->op, x[0], x[1]);
    }
}

kir_ref kir_rebuild_inst(kir_func *to, const kir_func *f, const kir_inst *in, const kir_ref *map) {
    kir_ref x[3] = {KIR_NONE, KIR_NONE, KIR_NONE};

    switch (in->op) {
    case KIR_CONST_I: return kir_const_i(to, in->u.i);
    case KIR_CONST_F:
        return in->cls == KIR_F64 ? kir_const_f64(to, in->u.f) : kir_const_f(to, in->u.f);
    case KIR_DIM: return kir_dim(to, f->dims, in->u.dim);
    case KIR_PARAM: return kir_param(to, (uint32_t)in->u.i);
    default: break;
    }
    for (uint32_t i = 0; i < in->n_in; i++) x[i] = map[in->in[i]];
    return copy_data(to, in, x);
}

rp_status kir_rebuild_new(const kir_func *f, kir_func **out, kir_ref **map, rp_error *err) {
    kir_func *to = kir_new(f->name, f->form, f->dims);
    RP_TRY(kir_status(to, err));
    *map = base_arena_array(to->arena, f->n_insts + 1, sizeof **map);
    if (!*map) {
        kir_free(to);
        return rp_fail(err, RP_NOMEM, "kernel %s, made again", f->name);
    }
    to->n_params = f->n_params;
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *s = &f->bufs[i];
        uint32_t n = kir_add_buf(to, s->name, s->space, s->dtype, s->slot, s->offset, s->size);
        if (n != KIR_NONE) to->bufs[n].written = s->written;
    }
    *out = to;
    return RP_OK;
}
