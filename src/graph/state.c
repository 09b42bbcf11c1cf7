/* Shared state of the graph layer: the capture gate and the counters.
 *
 * Invariant: every step that runs below the configured mode, and every capture refused, is in `skips`
 * with its reason. Nothing here allocates: it runs inside serving steps. */
#include "graph/state.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

void graph_state_init(graph_state *s, config_sealed sealed, bool require_graph) {
    memset(s, 0, sizeof *s);
    s->capturing = true;
    s->sealed = sealed;
    s->require_graph = require_graph;
}

void graph_state_seal(graph_state *s) {
    s->capturing = false;
}

bool graph_state_may_capture(const graph_state *s) {
    return s->capturing || s->sealed == CONFIG_SEALED_OFF;
}

void graph_state_skip(graph_state *s, const char *what, const char *reason) {
    graph_skip *k;

    for (uint32_t i = 0; i < s->n_skips; i++) {
        k = &s->skips[i];
        if (strncmp(k->what, what, sizeof k->what - 1) == 0 &&
            strncmp(k->reason, reason, sizeof k->reason - 1) == 0) {
            k->count++;
            return;
        }
    }
    base_log_ch(RP_LOG_CH_CUDAGRAPHS, false, "skipping cudagraphs for %s: %s", what, reason);
    base_log_ch(RP_LOG_CH_PERF_HINTS, false, "%s runs kernel by kernel, not as a graph: %s", what,
                reason);
    if (s->n_skips == GRAPH_MAX_SKIPS) {
        s->lost_skips++;
        return;
    }
    k = &s->skips[s->n_skips++];
    (void)snprintf(k->what, sizeof k->what, "%s", what);
    (void)snprintf(k->reason, sizeof k->reason, "%s", reason);
    k->count = 1;
}

static const char *step_name(const rp_dispatch *d) {
    return d->num_tokens == d->num_reqs ? "decode step" : "prefill or mixed step";
}

/* Rows that are computed and thrown away: worth a word from an eighth of a step on. */
static void hint_padding(graph_state *s, const rp_dispatch *d) {
    if (!base_log_on(RP_LOG_CH_PERF_HINTS, false) ||
        (int64_t)(d->padded - d->num_tokens) * 8 < d->padded)
        return;
    for (uint32_t i = 0; i < s->n_hints; i++)
        if (s->hints[i].tokens == d->num_tokens && s->hints[i].padded == d->padded) return;
    if (s->n_hints == GRAPH_MAX_HINTS) return;
    s->hints[s->n_hints].tokens = d->num_tokens;
    s->hints[s->n_hints++].padded = d->padded;
    base_log_ch(RP_LOG_CH_PERF_HINTS, false,
                "%s of %d tokens is padded by %d rows to the captured size %d; add the size to "
                "cudagraph_capture_sizes",
                step_name(d), d->num_tokens, d->padded - d->num_tokens, d->padded);
}

rp_status graph_state_step(graph_state *s, const rp_dispatch *d, rp_error *err) {
    s->steps[d->mode]++;
    s->tokens += (uint64_t)d->num_tokens;
    s->padding += (uint64_t)(d->padded - d->num_tokens);
    hint_padding(s, d);
    if (d->reason[0]) graph_state_skip(s, step_name(d), d->reason);
    if (d->head_reason[0]) graph_state_skip(s, "head", d->head_reason);
    if (s->require_graph && (d->reason[0] || d->head_reason[0]))
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s of %d tokens cannot run as a graph: %s; give up require_graph or change "
                       "the capture sizes",
                       step_name(d), d->num_tokens, d->reason[0] ? d->reason : d->head_reason);
    return RP_OK;
}
