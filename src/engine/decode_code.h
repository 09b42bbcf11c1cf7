/* Code of decode steps: NVRTC's, from the store where it is there. */
#ifndef ENGINE_DECODE_CODE_H
#define ENGINE_DECODE_CODE_H

#include "compile/nvrtc.h"
#include "engine/plans.h"
#include "gen/decode.h"

enum { ENGINE_DECODE_CLASSES = 6 }; /* at most */

/* A module for each of n, by up to o->threads threads; counts compiles and cache hits. */
rp_status engine_decode_code(const engine_plans_options *o, const compile_nvrtc *nvrtc,
                             const gen_decode *of, uint32_t n, plan_module *out,
                             compile_stats *stats, rp_error *err) RP_MUST_USE;

#endif
