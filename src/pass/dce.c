/* Drops nodes that neither an output nor an effect needs. */
#include "pass/passes.h"
#include "pass/rebuild.h"

rp_status pass_dce(const ir_graph *in, ir_graph **out, rp_error *err) {
    return pass_rebuild_graph(in, NULL, out, err);
}
