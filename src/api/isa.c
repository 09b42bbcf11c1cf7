/* Which instruction set a name means, for text: code for a machine that is not this one. */

#include "api/api.h"
#include "base/log.h"
#include "base/status.h"
#include "base/str.h"
#include "engine/isa.h"

rp_status api_isa(const char *name, gen_isa *out, rp_error *err) {
    gen_isa isa = gen_isa_best();
    if (name && *name && !base_same_word(name, "auto") && !gen_isa_parse(name, &isa))
        return rp_fail(err, RP_CONFIG,
                       "unknown instruction set '%s'; known are portable, avx2, avx512 and amx",
                       name);
    *out = engine_isa_with_templates(isa);
    if (*out != isa)
        base_log(RP_LOG_WARNING, "isa=%s becomes %s: no %s templates yet", gen_isa_name(isa),
                 gen_isa_name(*out), gen_isa_name(isa));
    return RP_OK;
}
