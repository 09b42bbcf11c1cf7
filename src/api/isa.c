/* Which instruction set a text or a configuration means on this machine. */
#include <strings.h>

#include "api/api.h"
#include "base/env.h"
#include "base/status.h"
#include "config/config.h"

static gen_isa with_templates(gen_isa isa) {
    while (!gen_isa_has_templates(isa)) isa = (gen_isa)(isa - 1);
    return isa;
}

rp_status api_isa(const char *name, gen_isa *out, rp_error *err) {
    gen_isa isa = gen_isa_best();
    if (name && *name && strcasecmp(name, "auto") != 0 && !gen_isa_parse(name, &isa))
        return rp_fail(err, RP_CONFIG,
                       "unknown instruction set '%s'; known are portable, avx2, avx512 and amx",
                       name);
    *out = with_templates(isa);
    return RP_OK;
}

rp_status api_config_isa(const rp_compilation_config *cfg, gen_isa *out, rp_error *err) {
    static const gen_isa asked[] = {GEN_ISA_AMX, GEN_ISA_PORTABLE, GEN_ISA_AVX2, GEN_ISA_AVX512,
                                    GEN_ISA_AMX};
    gen_isa bound = asked[cfg->isa];
    const char *env = base_env_get(BASE_ENV_ISA);
    if (cfg->isa == CONFIG_ISA_AUTO && env && !gen_isa_parse(env, &bound))
        return rp_fail(err, RP_CONFIG, "REPRISE_ISA=%s; expected portable, avx2, avx512 or amx",
                       env);
    if (cfg->isa != CONFIG_ISA_AUTO && !(gen_isa_granted() & GEN_ISA_BIT(bound)))
        return rp_fail(err, RP_UNSUPPORTED,
                       "this machine does not grant %s (it has: %s); leave --isa out",
                       gen_isa_name(bound), gen_isa_features());
    while (bound > GEN_ISA_PORTABLE && !(gen_isa_granted() & GEN_ISA_BIT(bound)))
        bound = (gen_isa)(bound - 1);
    *out = with_templates(bound);
    return RP_OK;
}
