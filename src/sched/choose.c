/* What a tuner may decide otherwise: how many threads a block has, who takes how much, and how a compiler is to write the loops of one thread.
 *
 * The order of a sum is in the function, not here, so every choice gives the same bits. */
#include "sched/rules.h"

bool sched_is_innermost(const sched *s, kir_ref at) {
    const kir_op op = s->f->insts[at].op;
    return (op == KIR_LOOP || op == KIR_PAR) && !s->steps[at].nested && !s->target->max_threads;
}

bool sched_has_loops(const sched *s) {
    for (kir_ref at = 0; at < s->f->n_insts; at++)
        if (sched_is_innermost(s, at)) return true;
    return false;
}

/* Saturates: more items than there are is all of them. */
static int64_t scaled(int64_t grain, int8_t doublings) {
    for (; doublings > 0 && grain <= INT64_MAX / 4; doublings--) grain *= 2;
    for (; doublings < 0 && grain > 1; doublings++) grain /= 2;
    return grain;
}

/* Blocks of another size; a kernel without a block an item has as many threads an item as before. */
static void choose_threads(sched *s, uint32_t threads) {
    const sched_launch own = s->launch;
    rp_error why = {0};
    if (threads == 0) return;
    s->launch.threads = threads;
    s->launch.at_once = own.at_once * own.threads / threads;
    if (own.per_block != 1) s->launch.per_block = threads / (own.threads / own.per_block);
    sched_fit_rounds(s);
    if (sched_verify(s, &why) == RP_OK) return;
    s->launch = own;
    sched_fit_rounds(s);
}

void sched_choose(sched *s, const sched_choice *c) {
    if (s->f->form != KIR_KERNEL) return;
    if (s->target->max_threads) {
        choose_threads(s, c->threads);
        return;
    }
    s->launch.grain = scaled(s->launch.grain, c->grain);
    if (c->vector) s->launch.vector = c->vector;
    for (kir_ref at = 0; c->unroll && at < s->f->n_insts; at++)
        if (sched_is_innermost(s, at)) s->steps[at].unroll = c->unroll;
}
