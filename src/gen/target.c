/* The table of targets. */
#include "gen/target.h"

#include "base/status.h"

static void c_head(gen_isa isa, const gen_matmul_uses *uses, base_buf *out) {
    gen_c_prelude(isa, out);
    gen_c_matmul(uses, out);
}

static void cuda_head(gen_isa isa, const gen_matmul_uses *uses, base_buf *out) {
    (void)isa;
    gen_cuda_prelude(out);
    gen_cuda_templates(uses, out);
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
