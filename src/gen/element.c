/* An epilogue of which every element is by itself, as functions of one thread: what it loads besides the sums is asked for by one, so that the
 * caller can have many loads under way, and used by the other. */
#include "gen/gen.h"
#include "gen/render.h"

#include <inttypes.h>

/* A load behind a store to the same argument would be asked for too early. */
static bool loads_what_it_stored(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++)
        for (kir_ref before = 0; f->insts[at].op == KIR_LOAD && before < at; before++) {
            const kir_buf *b = &f->bufs[f->insts[at].u.buf];
            const kir_buf *stored = &f->bufs[f->insts[before].u.buf];
            if (f->insts[before].op == KIR_STORE && b->space == KIR_ARG &&
                stored->space == KIR_ARG && b->slot == stored->slot)
                return true;
        }
    return false;
}

bool gen_is_elementwise(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_inst *in = &f->insts[at];
        if (in->op == KIR_REDUCE || in->op == KIR_IF) return false;
        if (in->op == KIR_LOOP && f->ranges[in->in[0]].hi != 1) return false;
    }
    return f->form == KIR_FRAGMENT && !loads_what_it_stored(f);
}

static void put_head(gen_render *r, const char *suffix) {
    base_buf_printf(r->out, "RP_INLINE void %s%s(char *const *arg, const long long *dim",
                    r->f->name, suffix);
    for (uint32_t i = 0; i < r->f->n_params; i++) base_buf_printf(r->out, ", long long p%u", i);
}

static void put_body(gen_render *r) {
    const kir_func *f = r->f;
    base_buf_puts(r->out, ")\n{\n");
    r->depth++;
    gen_line(r, "(void)arg, (void)dim, (void)asked;");
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        const kir_buf *b = &f->bufs[i];
        const char *type = gen_elem_type(b->dtype), *c = b->written ? "" : "const ";
        if (b->space == KIR_ARG)
            gen_line(r, "%s%s *const b_%s = (%s%s *)(arg[%u] + %" PRId64 ");", c, type, b->name, c,
                     type, b->slot, b->offset);
    }
    gen_dims(r);
    gen_alone(r, 0, f->n_insts);
    gen_close(r);
}

rp_status gen_cuda_element(const sched *s, base_buf *out, uint32_t *n_asked, rp_error *err) {
    const kir_func *f = s->f;
    gen_render r;
    RP_TRY(gen_render_init(&r, s, out, err));
    r.cuda = true;
    r.loads = GEN_ASKS;
    put_head(&r, "_ask");
    base_buf_puts(out, ", float *asked");
    put_body(&r);
    *n_asked = r.n_asked;
    r.n_asked = 0;
    r.loads = GEN_ASKED;
    put_head(&r, "");
    for (uint32_t i = 0; i < f->n_bufs; i++)
        if (f->bufs[i].space == KIR_SCRATCH)
            base_buf_printf(out, ", %s%s *b_%s", f->bufs[i].written ? "" : "const ",
                            gen_elem_type(f->bufs[i].dtype), f->bufs[i].name);
    base_buf_puts(out, ", const float *asked");
    put_body(&r);
    gen_render_done(&r);
    return base_buf_status(out, err);
}
