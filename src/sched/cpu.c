/* Rules of the cpu: threads take shares of the items and work alone, so what is left to decide are lanes. */
#include "sched/rules.h"

static void decide(sched *s, kir_ref at, void *user) {
    kir_op op = s->f->insts[at].op;
    (void)user;
    if (op == KIR_PAR) s->steps[at].kind = SCHED_GRID;
    if (op == KIR_REDUCE) sched_reduce_alone(s, at);
}

static rp_status make(const kir_func *f, sched **out, rp_error *err) {
    kir_func *cut = NULL;
    rp_error why = {0};
    rp_status st = kir_split_loops(f, &cut, &why);

    /* Blocks nested too deep to split further run as they are. */
    if (st != RP_OK && st != RP_UNSUPPORTED) return rp_fail(err, st, "%s", why.text);
    RP_TRY(sched_new(&sched_cpu, cut ? cut : f, cut, out, err));
    sched_decide(*out, decide, NULL);
    sched_place_all(*out, SCHED_LOCAL, SCHED_LOCAL_ALIGN);
    if (f->form == KIR_KERNEL) (*out)->launch.grain = sched_grain_of(f);
    return RP_OK;
}

const sched_target sched_cpu = {"cpu", make, 0, 0};
