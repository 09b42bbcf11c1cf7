/* The text that a target's rules and its renderer give for a function. */
#ifndef SUPPORT_RENDER_H
#define SUPPORT_RENDER_H

#include "gen/target.h"

/* scratch (optional): bytes of thread-local scratch. */
static inline rp_status render_c(const kir_func *f, base_buf *out, int64_t *scratch,
                                 rp_error *err) {
    sched *s = NULL;
    RP_TRY(sched_make(&sched_cpu, f, &s, err));
    rp_status st = gen_c_func(s, out, err);
    if (scratch) *scratch = s->launch.scratch;
    sched_free(s);
    return st;
}

static inline rp_status render_cuda(const kir_func *f, base_buf *out, rp_error *err) {
    sched *s = NULL;
    RP_TRY(sched_make(&sched_cuda, f, &s, err));
    rp_status st = gen_cuda_func(s, out, err);
    sched_free(s);
    return st;
}

#endif
