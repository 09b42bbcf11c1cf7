/* Which instruction set a configuration (and REPRISE_ISA) gives on this machine. */
#ifndef ENGINE_ISA_H
#define ENGINE_ISA_H

#include "config/config.h"
#include "gen/isa.h"

/* The best one at or below the bound that is granted and has templates. A bound that somebody gave and that is not reached
 * is a warning and a note in cfg. RP_CONFIG for an unknown name in REPRISE_ISA. */
rp_status engine_isa_choose(rp_compilation_config *cfg, gen_isa *out, rp_error *err) RP_MUST_USE;
/* Whether sums on a GPU of this architecture ("": the host) keep the host's order, bit for bit: the configuration wants it, or the GPU,
 * before sm_90, has no copies as the templates for tensor cores want them. */
bool engine_isa_exact(const rp_compilation_config *cfg, const char *arch);
/* The next one at or below isa that has templates. */
gen_isa engine_isa_with_templates(gen_isa isa);

#endif
