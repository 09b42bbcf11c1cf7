/* Steps that a run makes as the one before it did, for the same sizes: each is one call with other addresses. What a graph break then adds to a call is
 * here, in one piece. */
#ifndef FRONT_AGAIN_H
#define FRONT_AGAIN_H

#include "front/recording.h"

/* The step at a break that wants these n values; NULL: it may be another one, or there is more to do. */
static inline front_step *front_again_next(const front_session *s, const ir_ref *wanted,
                                           uint32_t n) {
    front_step *step = s->at ? s->at->child : NULL;
    if (!step || step->bound != s->rec->sizes_id || s->effects->n != s->n_effects) return NULL;
    if (step->n_wanted != n || step->n_effects != 0 || s->n_path == s->rec->cap_path) return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (step->wanted[i] != wanted[i]) return NULL;
    return step;
}

/* Its bound call, by what it reads and gives in this run. */
RP_MUST_USE static RP_WITHIN rp_status front_again_run(const front_session *s, front_step *step,
                                                       rp_error *err) {
    front_held *held = s->rec->held;
    device_repeat *r = step->repeat;
    void **at = r->at, *block = NULL;
    const ir_ref *ref = step->in;
    uintptr_t moved = 0;
    if (step->n_out) RP_TRY(front_own(s, step->total, &block, err));
    for (const ir_ref *end = ref + step->n_in; ref < end; ref++, at++) {
        void *p = held[*ref].b.data;
        moved |= (uintptr_t)p ^ (uintptr_t)*at;
        *at = p;
    }
    ref = step->out;
    const size_t *offset = step->offset;
    for (const ir_ref *end = ref + step->n_out; ref < end; ref++, at++) {
        void *p = (char *)block + *offset++;
        moved |= (uintptr_t)p ^ (uintptr_t)*at;
        *at = p;
        front_hold_again(&held[*ref], s->first, p);
    }
    rp_status st = moved ? r->move(r, err) : RP_OK;
    if (st == RP_OK) st = device_repeat_run(r, s->thread, err);
    if (st != RP_OK) step->bound = 0;
    return st;
}

/* The run goes on behind it. */
static inline void front_again_pass(front_session *s, front_step *step) {
    s->path[s->n_path++] = step;
    s->at = step;
    s->rec->asked.now++;
}

#endif
