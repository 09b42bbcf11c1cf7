/* The instruction set of generated code. The setting and the variable are both upper bounds: neither is an error on a
 * machine that has less, and neither is lowered in silence. */
#include "engine/isa.h"

#include <stdio.h>

#include "base/env.h"
#include "base/log.h"
#include "compile/nvrtc.h"

gen_isa engine_isa_with_templates(gen_isa isa) {
    while (!gen_isa_has_templates(isa)) isa = (gen_isa)(isa - 1);
    return isa;
}

static gen_isa granted_below(gen_isa isa) {
    while (isa > GEN_ISA_PORTABLE && !(gen_isa_granted() & GEN_ISA_BIT(isa)))
        isa = (gen_isa)(isa - 1);
    return isa;
}

static rp_status note_lowered(rp_compilation_config *cfg, const char *setting, gen_isa bound,
                              gen_isa isa, rp_error *err) {
    char reason[512];
    if (granted_below(bound) != bound)
        (void)snprintf(reason, sizeof reason, "this machine does not grant %s (it has: %s)",
                       gen_isa_name(bound), gen_isa_features());
    else
        (void)snprintf(reason, sizeof reason, "no %s templates yet", gen_isa_name(bound));
    base_log(RP_LOG_WARNING, "%s=%s becomes %s: %s", setting, gen_isa_name(bound),
             gen_isa_name(isa), reason);
    return config_note_add(cfg, reason, err, "%s=%s becomes %s", setting, gen_isa_name(bound),
                           gen_isa_name(isa));
}

rp_status engine_isa_choose(rp_compilation_config *cfg, gen_isa *out, rp_error *err) {
    static const gen_isa asked[] = {GEN_ISA_AMX, GEN_ISA_PORTABLE, GEN_ISA_AVX2, GEN_ISA_AVX512,
                                    GEN_ISA_AMX};
    gen_isa bound = asked[cfg->isa];
    const char *env = cfg->isa == CONFIG_ISA_AUTO ? base_env_get(BASE_ENV_ISA) : NULL;
    if (env && !gen_isa_parse(env, &bound))
        return rp_fail(err, RP_CONFIG, "REPRISE_ISA=%s; expected portable, avx2, avx512 or amx",
                       env);
    *out = engine_isa_with_templates(granted_below(bound));
    if (*out == bound || (cfg->isa == CONFIG_ISA_AUTO && !env)) return RP_OK;
    return note_lowered(cfg, env ? "REPRISE_ISA" : "isa", bound, *out, err);
}

bool engine_isa_exact(const rp_compilation_config *cfg, const char *arch) {
    return cfg->batch_invariant || cfg->numerics == CONFIG_NUMERICS_EXACT ||
           (arch && *arch && (compile_nvrtc_bits(arch) & 0xffff) < 90);
}
