/* The scheduler as its files share it, and how requests come in. */
#ifndef ENGINE_ADMISSION_H
#define ENGINE_ADMISSION_H

#include "engine/request_list.h"
#include "engine/scheduler.h"
#include "engine/shares.h"

struct engine_sched {
    engine_sched_options o;
    engine_kv *kv;
    engine_request_list waiting, finished;
    engine_request **running;
    uint32_t n_running;
    engine_share *shares; /* of a step, in order of arrival */
    engine_batch
        flight[2]; /* those handed out and not committed, and the next one behind them; in turn */
    uint32_t oldest, n_flight;
    bool untold;  /* stop hooks have not seen the tokens of the last commit */
    bool telling; /* they are being called, and may abort whom they like */
    uint64_t arrivals;
    engine_sched_stats stats;
};

/* The batch that is being made. */
static inline engine_batch *engine_sched_newest(engine_sched *s) {
    return &s->flight[(s->oldest + s->n_flight) % 2];
}

/* Positions that are computed, not just under way. */
static inline uint32_t engine_sched_committed(const engine_request *r) {
    return r->n_computed - r->n_flying;
}

/* Whoever waited for positions that are computed by now has them. */
void engine_sched_catch_up(engine_request *r);
/* Admits from the front of the queue while there is room. */
void engine_sched_admit(engine_sched *s);

#endif
