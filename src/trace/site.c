/* Which call of the user's source made what.
 *
 * Macros around the calls (end of tensor.h) tell the site after a call has returned, so that calls within its arguments have told
 * theirs. What was asked for in between is the call's: a graph keeps a list of it. */
#include "ir/site.h"

#include <string.h>

#include "base/alloc.h"
#include "ir/node.h"
#include "trace/record.h"

enum { MOST_FRESH = 1 << 16 }; /* where nobody tells sites: the list begins anew */

static bool reserve(rp_graph *g) {
    if (g->n_fresh < g->cap_fresh) return true;
    uint32_t cap = g->cap_fresh ? g->cap_fresh * 2 : 64;
    ir_ref *p = base_realloc_array(g->fresh, cap, sizeof *p);
    if (!p) return false;
    g->fresh = p;
    g->cap_fresh = cap;
    return true;
}

static RP_COLD bool widen(trace_asked *a, ir_ref ref) {
    uint32_t cap = ref < 32 ? 64 : ref * 2;
    uint64_t *p = base_realloc_array(a->at, cap, sizeof *p);
    if (!p) return false;
    memset(p + a->cap, 0, (cap - a->cap) * sizeof *p);
    a->at = p;
    a->cap = cap;
    return true;
}

static inline bool ask(trace_asked *a, ir_ref ref) {
    if (ref >= a->cap && !widen(a, ref)) return false;
    trace_note_asked(a, ref);
    return true;
}

bool trace_ask(rp_graph *g, ir_ref ref) {
    return ask(g->asked, ref);
}

/* It is to get a site. */
static RP_APART rp_tensor made_fresh(rp_graph *g, ir_ref ref, bool noted) {
    if (g->n_fresh == MOST_FRESH) g->n_fresh = 0;
    if (!noted || !reserve(g)) {
        (void)rp_fail(&g->err, RP_NOMEM, "graph %s: out of memory", ir_graph_name(g->ir));
        return trace_bad(g);
    }
    g->fresh[g->n_fresh++] = ref;
    return (rp_tensor){g, ref, g->id};
}

rp_tensor trace_made(rp_graph *g, ir_ref ref) {
    bool noted = !g->asked || ask(g->asked, ref);
    if (noted && g->asked && ref < g->asked->known) return (rp_tensor){g, ref, g->id};
    return made_fresh(g, ref, noted);
}

rp_tensor trace_fetched(rp_tensor x) {
    bool input = x.ref != IR_NONE && ir_node_at(x.graph->ir, x.ref)->op == IR_input;
    return input ? trace_made(x.graph, x.ref) : x;
}

/* What the user called is named where a part of it failed: "layer_norm: mul: f32[...". */
static void name_call(const char *call, rp_error *err) {
    if (!call || err->code == RP_NOMEM || strncmp(call, "rp_", 3) != 0) return;
    const char *name = call + 3;
    const size_t n = strlen(name), room = sizeof err->text;
    if (strncmp(err->text, name, n) == 0 && !ir_name_char(err->text[n])) return;
    if (strncmp(err->text, call, n + 3) == 0 && !ir_name_char(err->text[n + 3])) return;
    if (n + 3 > room / 2) return;
    memmove(err->text + n + 2, err->text, room - n - 3);
    memcpy(err->text, name, n);
    memcpy(err->text + n, ": ", 2);
    err->text[room - 1] = 0;
}

static RP_APART void told(rp_graph *g, const ir_site *s) {
    if (g && !g->ir) g = trace_current(); /* what is kept is told there */
    if (!g || g->finished) return;
    if (g->err.code != RP_OK && !g->blamed) {
        name_call(s->call, &g->err);
        ir_site_put(s, &g->err);
        g->blamed = true;
    }
    if (g->oracle && s->file) g->oracle->told(g->oracle->user, s->file, s->line);
    bool ok = true;
    for (uint32_t i = 0; i < g->n_fresh && ok; i++) ok = ir_site_add(g->ir, g->fresh[i], s);
    g->n_fresh = 0;
    if (!ok) (void)rp_fail(&g->err, RP_NOMEM, "graph %s: out of memory", ir_graph_name(g->ir));
}

/* Nothing is new: it goes as the run before. Of a graph that was freed err says so. */
static inline bool all_is_told(const rp_graph *g) {
    const trace_oracle *o = g->oracle;
    return g->n_fresh == 0 && g->err.code == RP_OK && (!o || *o->n == *o->n_told);
}

static RP_APART rp_tensor tell(rp_tensor made, const char *call, const char *file, int line) {
    told(made.graph, &(ir_site){.file = file, .call = call, .line = (uint32_t)line});
    return made;
}

rp_tensor rp_at(rp_tensor made, const char *call, const char *file, int line) {
    return !made.graph || all_is_told(made.graph) ? made : tell(made, call, file, line);
}

rp_dim rp_dim_at(rp_dim made, const char *file, int line) {
    if (made.graph && made.n == INT64_MIN)
        told(made.graph, &(ir_site){.file = file, .line = (uint32_t)line});
    return made;
}
