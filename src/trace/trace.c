/* Tracing: a graph under construction, its sticky error, its end.
 *
 * A failure is kept in the graph and reported once by rp_graph_finish; every call in between
 * gives an invalid tensor. */
#include "trace/record.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"

static atomic_uint_fast64_t n_traces, n_breaks;

rp_graph *rp_graph_new(const char *name) {
    rp_graph *g = trace_graph_take();
    if (!g) return NULL;
    g->ir = ir_graph_new(name ? name : "graph");
    if (!g->ir) {
        trace_graph_give(g);
        return NULL;
    }
    g->numerics = RP_NUMERICS_EXACT;
    g->began = base_now_ns();
    base_log_ch(RP_LOG_CH_DYNAMO, false, "Step 1: start tracing %s", ir_graph_name(g->ir));
    return g;
}

rp_graph *trace_graph_open(ir_graph *ir, rp_numerics numerics) {
    rp_graph *g = trace_graph_take();
    if (!g) return NULL;
    g->ir = ir;
    g->numerics = numerics;
    return g;
}

void trace_graph_close(rp_graph *g) {
    if (!g) return;
    for (rp_graph *f = g->bodies, *next; f; f = next) {
        next = f->next_body;
        rp_graph_free(f);
    }
    base_free(g->fresh);
    trace_graph_give(g);
}

void rp_graph_free(rp_graph *g) {
    if (!g) return;
    ir_graph *ir = g->ir;
    trace_graph_close(g);
    ir_graph_free(ir);
}

void rp_graph_set_numerics(rp_graph *g, rp_numerics n) {
    g->numerics = n;
}

rp_numerics rp_graph_numerics(const rp_graph *g) {
    return g->numerics;
}

const ir_graph *trace_graph_ir(const rp_graph *g) {
    return g->ir;
}

uint64_t trace_count(void) {
    return atomic_load(&n_traces);
}

rp_status trace_graph_wrap(ir_graph *ir, rp_graph **out, rp_error *err) {
    rp_graph *g = trace_graph_take();
    if (!g) return rp_fail(err, RP_NOMEM, "graph");
    g->ir = ir;
    g->numerics = RP_NUMERICS_EXACT;
    g->finished = true;
    *out = g;
    return RP_OK;
}

uint64_t trace_breaks(void) {
    return atomic_load(&n_breaks);
}

/* A function is traced with sizes as history has them and then with numbers, and may fail twice in the same words. */
static bool is_told(const rp_graph *g) {
    static atomic_uint_fast64_t last;
    if (!g->call) return false;
    const uint64_t hash = base_hash64(g->err.text, strlen(g->err.text)) | 1;
    return atomic_exchange(&last, hash) == hash && !base_log_on(RP_LOG_CH_GRAPH_BREAKS, true);
}

/* A graph is whole or there is none: the first op that cannot be recorded ends the trace. */
static rp_status refuse(const rp_graph *g, rp_error *err) {
    atomic_fetch_add(&n_breaks, 1);
    if (!is_told(g))
        base_log_ch(RP_LOG_CH_GRAPH_BREAKS, false,
                    "Graph break in user code at op %u of %s\nReason: %s", ir_graph_count(g->ir),
                    ir_graph_name(g->ir), g->err.text);
    base_log_ch(RP_LOG_CH_DYNAMO, false, "Step 1: tracing %s was refused", ir_graph_name(g->ir));
    return rp_fail(err, g->err.code, "%s", g->err.text);
}

rp_status rp_graph_finish(rp_graph *g, const rp_tensor *outputs, uint32_t n, rp_error *err) {
    base_error_clear(err);
    if (!g) return rp_fail(err, RP_INVALID, "graph is NULL");
    if (n && !outputs)
        return rp_fail(err, RP_INVALID, "graph @%s: the list of outputs is NULL",
                       ir_graph_name(g->ir));
    if (g->finished)
        return rp_fail(err, RP_INVALID, "graph @%s is finished already", ir_graph_name(g->ir));
    if (g->err.code != RP_OK) return refuse(g, err);
    ir_ref *refs = base_alloc_array(n ? n : 1, sizeof *refs);
    if (!refs) return rp_fail(err, RP_NOMEM, "graph outputs");
    rp_status st = RP_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (outputs[i].graph != g || !trace_is_live(outputs[i])) {
            st = rp_fail(err, RP_INVALID, "output %u is not a tensor of graph @%s%s", i,
                         ir_graph_name(g->ir), trace_kept(outputs[i]));
            goto out;
        }
        refs[i] = outputs[i].ref;
    }
    RP_TRY_OUT(ir_graph_finish(g->ir, refs, n, err));
    g->finished = true;
    st = ir_check_returned(g->ir, err);
    if (st != RP_OK) {
        (void)rp_fail(&g->err, st, "%s", err ? err->text : "a result has no contents");
        goto out;
    }
    atomic_fetch_add(&n_traces, 1);
    trace_log_done(g);
out:
    base_free(refs);
    return st;
}

rp_status rp_graph_print(const rp_graph *g, char **out, rp_error *err) {
    base_error_clear(err);
    if (!g || !out) return rp_fail(err, RP_INVALID, "rp_graph_print: graph and out must be given");
    return ir_print_string(g->ir, out, err);
}

rp_status rp_graph_parse(const char *text, size_t len, rp_graph **out, rp_error *err) {
    base_error_clear(err);
    ir_graph *ir = NULL;
    if (!out || (len && !text))
        return rp_fail(err, RP_INVALID, "rp_graph_parse: text and out must be given");
    RP_TRY(ir_parse(text, len, &ir, err));
    rp_status st = trace_graph_wrap(ir, out, err);
    if (st != RP_OK) ir_graph_free(ir);
    return st;
}

void rp_free(void *p) {
    base_free(p);
}
