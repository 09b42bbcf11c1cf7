/* The plans of decode steps of a bf16 model on a GPU: kernels made for a layer of Llama (gen/decode.h) in the place of those that lowering makes of its graph.
 *
 * They have the leaves, the packed weights and the pieces of the plans of all sizes, the head one input more, and serve steps of one token a sequence and up to
 * GEN_DECODE_MOST sequences. */
#ifndef ENGINE_DECODE_H
#define ENGINE_DECODE_H

#include "compile/nvrtc.h"
#include "engine/plans.h"

/* The head's own input: the state of the exchange (gen/exchange.h), by which logits that nobody reads are not written. */
#define ENGINE_DECODE_STATE "exchange"

/* Whether o asks for it: a GPU whose sums need not be the host's, level 3, graphs of whole decode steps, the setting. */
bool engine_decode_wanted(const engine_plans_options *o);
/* *most: sequences of a step that has one, as far as o's max_num_seqs wants them. RP_UNSUPPORTED says why this model or GPU has none. Looks for no compiler. */
rp_status engine_decode_can(const engine_plans_options *o, int64_t *most,
                            rp_error *err) RP_MUST_USE;
/* Adds the factors by which such plans differ from those beside which they are made. */
rp_status engine_decode_key(const engine_plans *all, cache_key *k, rp_error *err) RP_MUST_USE;
/* The plans of up to o->last sequences beside those of all sizes, into out, whose code is in the store then. RP_UNSUPPORTED where they cannot be: why says so. */
rp_status engine_decode_plans(const engine_plans_options *o, const engine_plans *all,
                              const compile_nvrtc *nvrtc, engine_plans *out,
                              rp_error *err) RP_MUST_USE;

#endif
