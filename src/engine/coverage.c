/* Which graph serves which batch, as text and as JSON: the dispatcher's own answers (graph/coverage.h). */
#include "graph/coverage.h"

#include <jansson.h>

#include "base/status.h"
#include "engine/engine.h"
#include "graph/descriptor.h"

static rp_status begin(const rp_engine *e, char **out, graph_coverage *c, rp_error *err) {
    if (!e || !out) return rp_fail(err, RP_INVALID, "coverage: engine and out must be given");
    return graph_coverage_init(c, engine_runner_dispatcher(e->runner), err);
}

rp_status rp_engine_coverage(const rp_engine *e, char **out, rp_error *err) {
    base_error_clear(err);
    graph_coverage c;
    base_buf b;
    RP_TRY(begin(e, out, &c, err));
    base_buf_init(&b, 0);
    graph_coverage_text(&c, &b);
    graph_coverage_done(&c);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}

static json_t *run_json(const graph_cover *r) {
    char key[GRAPH_DESCRIPTOR_TEXT];
    bool graph = r->dispatch.mode != RP_CUDAGRAPH_NONE;
    return json_pack(
        "{s:s,s:i,s:i,s:s,s:o,s:i,s:s}", "kind", graph_cover_name(r->kind), "from", (int)r->from,
        "to", (int)r->to, "mode", rp_cudagraph_mode_name(r->dispatch.mode), "key",
        graph ? json_string(graph_descriptor_text(&r->dispatch.key, key)) : json_null(),
        "max_padding", (int)r->max_padding, "reason", r->dispatch.reason);
}

static int append(const char *text, size_t n, void *user) {
    base_buf_add(user, text, n);
    return 0;
}

rp_status rp_engine_coverage_json(const rp_engine *e, char **out, rp_error *err) {
    base_error_clear(err);
    graph_coverage c;
    base_buf b;
    RP_TRY(begin(e, out, &c, err));
    json_t *runs = json_array();
    for (size_t i = 0; i < c.n_runs; i++) (void)json_array_append_new(runs, run_json(&c.runs[i]));
    json_t *o = json_pack("{s:o,s:I,s:I,s:I,s:I}", "runs", runs, "sizes", (json_int_t)c.sizes,
                          "without_graph", (json_int_t)c.eager, "tokens", (json_int_t)c.tokens,
                          "padding", (json_int_t)c.padding);
    graph_coverage_done(&c);
    base_buf_init(&b, 0);
    int failed = !o || json_dump_callback(o, append, &b, JSON_COMPACT) != 0;
    json_decref(o);
    rp_status st = failed ? rp_fail(err, RP_NOMEM, "coverage") : base_buf_status(&b, err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}
