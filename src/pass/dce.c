/* Rebuilding by itself: drops nodes that neither an output nor an effect needs, and joins nodes that have become equal. */
#include "pass/passes.h"
#include "pass/rebuild.h"

rp_status pass_dce(const ir_graph *in, ir_graph **out, rp_error *err) {
    return pass_rebuild_graph(in, NULL, NULL, out, err);
}
