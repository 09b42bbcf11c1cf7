/* Graphs as users hold them: verify and optimise.
 *
 * A graph that is still being traced, or whose trace failed, is refused here once for all entry
 * points of this room. */
#include "reprise/graph.h"

#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/str.h"
#include "pass/pipeline.h"

rp_status api_graph_ready(const rp_graph *g, rp_error *err) {
    if (!g) return rp_fail(err, RP_INVALID, "graph is NULL");
    if (g->err.code != RP_OK) return rp_fail(err, g->err.code, "%s", g->err.text);
    if (!g->finished)
        return rp_fail(err, RP_INVALID,
                       "graph @%s is still being traced; call rp_graph_finish first",
                       ir_graph_name(g->ir));
    return RP_OK;
}

rp_status rp_graph_verify(const rp_graph *g, rp_error *err) {
    base_error_clear(err);
    RP_TRY(api_graph_ready(g, err));
    return ir_verify(trace_graph_ir(g), err);
}

/* Takes over `before` unless it is the caller's graph. */
static rp_status run_named(const char *name, const ir_graph *g, ir_graph **current, rp_error *err) {
    ir_graph *next = NULL;
    RP_TRY(pass_run(name, *current ? *current : g, &next, err));
    ir_graph_free(*current);
    *current = next;
    return RP_OK;
}

static rp_status run_list(const ir_graph *g, const char *passes, ir_graph **out, rp_error *err) {
    ir_graph *current = NULL;
    rp_status st = RP_OK;
    char *list = base_strdup(passes);
    if (!list) return rp_fail(err, RP_NOMEM, "list of passes");
    for (char *at = list, *end; at; at = end) {
        end = strchr(at, ',');
        if (end) *end++ = 0;
        if (!*at) {
            st = rp_fail(err, RP_CONFIG, "empty name in the list of passes '%s'; write a,b,c",
                         passes);
            goto out;
        }
        RP_TRY_OUT(run_named(at, g, &current, err));
    }
    *out = current;
    current = NULL;
out:
    ir_graph_free(current);
    base_free(list);
    return st;
}

rp_status rp_graph_optimize(const rp_graph *g, const char *passes, rp_graph **out, rp_error *err) {
    base_error_clear(err);
    ir_graph *ir = NULL;
    RP_TRY(api_graph_ready(g, err));
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    RP_TRY(ir_verify(trace_graph_ir(g), err));
    if (passes && *passes)
        RP_TRY(run_list(trace_graph_ir(g), passes, &ir, err));
    else
        RP_TRY(pass_run_all(trace_graph_ir(g), NULL, &ir, err));
    rp_status st = trace_graph_wrap(ir, out, err);
    if (st != RP_OK)
        ir_graph_free(ir);
    else
        (*out)->numerics = g->numerics;
    return st;
}
