/* A switch that was never set leaves its pass on; resolving turns it off below level 2. */
#include "compile/skips.h"

#include "pass/pipeline.h"

rp_status compile_skips_of(const rp_compilation_config *cfg, compile_skips *out, rp_error *err) {
    const struct {
        const config_obool *on;
        const char *name;
    } switches[] = {{&cfg->pass_eliminate_noops, "eliminate_noops"},
                    {&cfg->pass_fuse_norm_quant, "fuse_norm_quant"},
                    {&cfg->pass_fuse_act_quant, "fuse_act_quant"},
                    {&cfg->pass_fuse_rope_kvcache, "fuse_rope_kvcache"}};
    const size_t n_switches = sizeof switches / sizeof *switches;
    *out = (compile_skips){0};
    if (cfg->skip_passes.n > COMPILE_MAX_SKIPS - n_switches)
        return rp_fail(err, RP_CONFIG, "skip_passes names %zu passes; at most %zu",
                       (size_t)cfg->skip_passes.n, COMPILE_MAX_SKIPS - n_switches);
    for (size_t i = 0; i < cfg->skip_passes.n; i++) out->name[out->n++] = cfg->skip_passes.v[i];
    for (size_t i = 0; i < n_switches; i++)
        if (switches[i].on->set && !switches[i].on->v) out->name[out->n++] = switches[i].name;
    return pass_check_skips(out->name, out->n, err);
}
