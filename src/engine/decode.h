/* The plans of decode steps of a bf16 model on a GPU: kernels made for a layer of Llama (gen/decode.h) in the place of those that lowering makes of its graph.
 *
 * They have the leaves, the packed weights and the pieces of the plans of all sizes, and serve steps of one token a sequence and up to
 * GEN_DECODE_MOST sequences. */
#ifndef ENGINE_DECODE_H
#define ENGINE_DECODE_H

#include "compile/nvrtc.h"
#include "engine/plans.h"

/* Whether o asks for it: a GPU of sm_90 or later whose sums need not be the host's, level 3, graphs of whole decode steps, the
 * setting. Other models than those of bf16 in shapes that the kernels take have no such plan; channel autotuning says why. */
bool engine_decode_wanted(const engine_plans_options *o);
/* The plans beside those of all sizes, into out, whose code is in the store then. RP_UNSUPPORTED where they cannot be: why says so. */
rp_status engine_decode_plans(const engine_plans_options *o, const engine_plans *all,
                              const compile_nvrtc *nvrtc, engine_plans *out,
                              rp_error *err) RP_MUST_USE;

#endif
