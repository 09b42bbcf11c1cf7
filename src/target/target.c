/* The table of targets. */
#include "target/target.h"

const lower_target *target_of(gen_target t) {
    static const lower_target *const targets[] = {
        [GEN_HOST] = &target_cpu, [GEN_CUDA] = &target_cuda};
    return targets[t];
}

const pass_splits *target_splits(gen_target t, uint32_t threads, pass_splits *out) {
    return lower_splits(target_of(t), threads, out);
}

rp_status target_lower(const ir_graph *g, const lower_options *opt, lower_piece *out,
                       rp_error *err) {
    return lower_graph(g, target_of(opt->target), opt, out, err);
}
