/* The table of targets. */
#include "gen/target.h"

#include "base/status.h"
#include "gen/trim.h"

/* Of all, what functions need. */
static rp_status trimmed(base_buf *all, base_str functions, base_buf *out, rp_error *err) {
    rp_status st = base_buf_status(all, err);
    if (st == RP_OK) st = gen_trim((base_str){all->data, all->len}, functions, out, err);
    base_buf_done(all);
    return st;
}

static rp_status c_head(gen_isa isa, const gen_matmul_uses *uses, base_str functions, base_buf *out,
                        rp_error *err) {
    base_buf all;
    base_buf_init(&all, 0);
    gen_c_prelude(isa, &all);
    gen_c_matmul(uses, &all);
    return trimmed(&all, functions, out, err);
}

static rp_status cuda_head(gen_isa isa, const gen_matmul_uses *uses, base_str functions,
                           base_buf *out, rp_error *err) {
    base_buf all;
    (void)isa;
    base_buf_init(&all, 0);
    gen_cuda_prelude(&all);
    gen_cuda_templates(uses, &all);
    return trimmed(&all, functions, out, err);
}

static const gen_language languages[] = {[GEN_HOST] = {&sched_cpu, gen_c_func, c_head},
                                         [GEN_CUDA] = {&sched_cuda, gen_cuda_func, cuda_head}};

const gen_language *gen_language_of(gen_target t) {
    return &languages[t];
}

rp_status gen_func(const sched *s, base_buf *out, rp_error *err) {
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        if (languages[i].schedules == s->target) return languages[i].func(s, out, err);
    return rp_fail(err, RP_UNSUPPORTED, "no language prints schedules for %s", s->target->name);
}
