/* Text of a schedule: what sched_parse reads back. Loops have the numbers that kir_print gives them. */
#include <inttypes.h>

#include "sched/rules.h"

static void put_launch(const sched *s, base_buf *out) {
    const sched_launch *l = &s->launch;
    if (s->f->form != KIR_KERNEL) return;
    base_buf_puts(out, "  launch");
    if (l->threads) base_buf_printf(out, " threads %u per_block %u", l->threads, l->per_block);
    if (l->at_once) base_buf_printf(out, " at_once %u", l->at_once);
    if (l->per_sm) base_buf_printf(out, " per_sm %u", l->per_sm);
    if (l->parts != 1) base_buf_printf(out, " parts %u", l->parts);
    if (l->scratch) base_buf_printf(out, " scratch %" PRId64, l->scratch);
    base_buf_printf(out, " grain %" PRId64, l->grain);
    if (l->vector) base_buf_printf(out, " vector %u", l->vector);
    base_buf_putc(out, '\n');
}

/* Why a row is not in registers; the parser reads over it. */
static void put_why(const sched *s, base_buf *out) {
    bool blocks = false, reduces = false, held = false;
    for (kir_ref at = 0; at < s->f->n_insts; at++) {
        blocks = blocks || s->steps[at].kind == SCHED_BLOCK;
        reduces = reduces || s->f->insts[at].op == KIR_REDUCE;
        held = held || s->steps[at].held;
    }
    const char *why = blocks && reduces && !held ? sched_registers_refused(s->f) : NULL;
    if (why) base_buf_printf(out, "  ; no row is in registers: %s\n", why);
}

static void put_places(const sched *s, base_buf *out) {
    for (uint32_t i = 0; i < s->f->n_bufs; i++) {
        const sched_place *p = &s->places[i];
        if (p->space == SCHED_ARG) continue;
        base_buf_printf(out, "  buf %s %s", s->f->bufs[i].name, sched_space_name(p->space));
        if (p->space == SCHED_LOCAL) base_buf_printf(out, " %" PRId64, p->offset);
        base_buf_putc(out, '\n');
    }
}

static void put_attributes(const sched_step *step, base_buf *out) {
    if (step->chunks) base_buf_puts(out, " chunks");
    if (step->halves) base_buf_puts(out, " halves");
    if (step->held) base_buf_puts(out, " held");
    if (step->wide) base_buf_printf(out, " wide %u", step->wide);
    if (step->rounds) base_buf_printf(out, " rounds %u", step->rounds);
    if (step->unroll) base_buf_printf(out, " unroll %u", step->unroll);
    if (step->whole) base_buf_puts(out, " whole");
    if (step->tail > 0) base_buf_printf(out, " tail %d", step->tail);
    if (step->tail < 0) base_buf_puts(out, " tail any");
    if (step->barrier) base_buf_puts(out, " barrier");
    if (step->part) base_buf_printf(out, " part %u", step->part);
    base_buf_putc(out, '\n');
}

static void put_step(const sched *s, kir_ref at, base_buf *out) {
    const kir_inst *in = &s->f->insts[at];
    const sched_step *step = &s->steps[at];
    if (in->op == KIR_STORE)
        base_buf_printf(out, "store %s", s->f->bufs[in->u.buf].name);
    else if (in->op == KIR_IF)
        base_buf_puts(out, "if");
    else
        base_buf_printf(out, "%%%u %s", sched_number(s, at), sched_kind_name(step->kind));
    put_attributes(step, out);
}

void sched_print(const sched *s, base_buf *out) {
    uint32_t depth = 1;

    kir_print(s->f, out);
    base_buf_printf(out, "schedule %s {\n", s->target->name);
    put_launch(s, out);
    put_why(s, out);
    put_places(s, out);
    for (kir_ref at = 0; at < s->f->n_insts; at++) {
        kir_shape shape = kir_op_table(s->f->insts[at].op)->shape;
        if (shape == KIR_SHAPE_END) depth--;
        if (sched_has_step(s, at)) {
            for (uint32_t i = 0; i < depth; i++) base_buf_puts(out, "  ");
            put_step(s, at, out);
        }
        if (shape == KIR_SHAPE_BEGIN) depth++;
    }
    base_buf_puts(out, "}\n");
}
