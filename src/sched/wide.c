/* Loops of which a thread takes several neighbouring iterations at once: what lies side by side in arguments is then read and
 * written as vectors of up to 16 bytes, where the addresses of a launch allow it. */
#include "kir/affine.h"
#include "sched/rules.h"

enum {
    VECTOR = 16,                   /* bytes */
    MOST_BODY = 256,               /* instructions, as often as they are written */
    LEAST_THREADS = 2 * SCHED_TEAM /* that have something to do */
};

/* Reads come before writes in each iteration, and memory is written once: vectors do not change what is read. */
bool sched_is_in_order(const kir_func *f, kir_ref loop, kir_ref end) {
    for (kir_ref at = loop + 1; at < end; at++) {
        if (f->insts[at].op != KIR_STORE) continue;
        for (kir_ref i = at + 1; i < end; i++) {
            const kir_inst *in = &f->insts[i];
            if ((in->op == KIR_LOAD || in->op == KIR_STORE) &&
                kir_same_memory(f, in->u.buf, f->insts[at].u.buf))
                return false;
        }
    }
    return true;
}

bool sched_is_vector(const sched *s, kir_ref loop, kir_ref at, uint32_t n) {
    const kir_func *f = s->f;
    const kir_inst *in = &f->insts[at];
    kir_affine a = {0};
    bool counts = false;
    if ((in->op != KIR_LOAD && in->op != KIR_STORE) || f->bufs[in->u.buf].space != KIR_ARG ||
        f->bufs[in->u.buf].offset % VECTOR)
        return false;
    kir_affine_add(f, in->in[0], 1, &a);
    if (a.overflow || a.c % n) return false;
    for (uint32_t i = 0; i < a.n; i++) {
        const kir_ref r = a.term[i].ref;
        if (r == loop && a.term[i].k == 1)
            counts = true;
        else if (a.term[i].k % n || sched_varies(f, r, loop))
            return false;
    }
    return counts;
}

/* The narrowest element among its vectors of n; 0: there are none. */
static uint32_t narrowest(const sched *s, kir_ref loop, uint32_t n) {
    uint32_t least = 0;
    for (kir_ref at = loop + 1; at < s->steps[loop].end; at++) {
        if (!sched_is_vector(s, loop, at, n)) continue;
        uint32_t size = (uint32_t)rp_dtype_block_bytes(s->f->bufs[s->f->insts[at].u.buf].dtype);
        if (!least || size < least) least = size;
    }
    return least;
}

bool sched_may_be_wide(const sched *s, kir_ref loop, uint32_t n) {
    const kir_func *f = s->f;
    const sched_step *step = &s->steps[loop];
    const kir_range extent = f->ranges[f->insts[loop].in[0]];
    if (step->held) return n > 1 && extent.lo % n == 0 && sched_is_in_order(f, loop, step->end);
    if (n < 2 || f->form != KIR_KERNEL || f->insts[loop].op != KIR_LOOP ||
        step->kind != SCHED_THREAD || step->team == SCHED_OF_HALF || extent.lo != extent.hi ||
        extent.lo % n)
        return false;
    for (kir_ref at = loop + 1; at < step->end; at++)
        if (kir_op_table(f->insts[at].op)->shape == KIR_SHAPE_BEGIN) return false;
    return sched_is_in_order(f, loop, step->end) && narrowest(s, loop, n) > 0;
}

uint8_t sched_wide_of(const sched *s, kir_ref loop) {
    const kir_ref length = s->steps[loop].end - loop;
    for (uint32_t n = 8; n > 1; n /= 2) {
        if (length * n > MOST_BODY || !sched_may_be_wide(s, loop, n)) continue;
        if (s->f->ranges[s->f->insts[loop].in[0]].lo < (int64_t)n * LEAST_THREADS) continue;
        if (narrowest(s, loop, n) * n <= VECTOR) return (uint8_t)n;
    }
    return 0;
}
