/* Coverage: asks the dispatcher about every step size and joins equal answers to runs.
 *
 * Invariant: nothing is computed here that graph_dispatch does not say, so the table cannot differ
 * from what serving does. */
#include "graph/coverage.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/descriptor.h"

static int32_t min_i32(int32_t a, int32_t b) {
    return a < b ? a : b;
}

rp_status graph_coverage_at(const graph_dispatcher *d, int32_t requests, int32_t query_len,
                            rp_dispatch *out, rp_error *err) {
    graph_step_shape s = {.num_tokens = requests * query_len,
                          .num_reqs = requests,
                          .max_query_len = query_len,
                          .num_logits = requests};

    return graph_dispatch(d, &s, out, err);
}

static graph_step_shape shape_of(const graph_dispatcher *d, graph_cover_kind kind, int32_t n) {
    const graph_params *p = &d->keys.p;
    graph_step_shape s = {.num_tokens = n, .num_reqs = 1, .max_query_len = n, .num_logits = 1};

    if (kind == GRAPH_COVER_DECODE) {
        s.num_reqs = n;
        s.max_query_len = p->uniform_query_len;
        s.num_tokens = s.num_logits = n * p->uniform_query_len;
    } else if (kind == GRAPH_COVER_BATCH) {
        s.num_reqs = s.num_logits = min_i32(n - 1, p->max_num_seqs);
        s.max_query_len = n - s.num_reqs + 1;
    }
    return s;
}

static bool same_run(const graph_cover *c, graph_cover_kind kind, const rp_dispatch *x) {
    const rp_dispatch *y = &c->dispatch;

    if (c->kind != kind || x->mode != y->mode || strcmp(x->reason, y->reason) != 0) return false;
    return x->mode == RP_CUDAGRAPH_NONE || graph_descriptor_equal(&x->key, &y->key);
}

static rp_status add_size(graph_coverage *c, size_t *cap, const graph_dispatcher *d,
                          graph_cover_kind kind, int32_t n, rp_error *err) {
    graph_step_shape s = shape_of(d, kind, n);
    rp_dispatch x;
    graph_cover *run = c->n_runs ? &c->runs[c->n_runs - 1] : NULL;

    RP_TRY(graph_dispatch(d, &s, &x, err));
    if (!run || !same_run(run, kind, &x)) {
        if (!c->runs || c->n_runs == *cap) {
            graph_cover *p = base_realloc_array(c->runs, *cap ? *cap * 2 : 32, sizeof *p);

            if (!p) return rp_fail(err, RP_NOMEM, "coverage table");
            c->runs = p;
            *cap = *cap ? *cap * 2 : 32;
        }
        run = &c->runs[c->n_runs++];
        *run = (graph_cover){.kind = kind, .from = n};
    }
    run->to = n;
    run->dispatch = x;
    run->tokens += x.num_tokens;
    run->padding += x.padded - x.num_tokens;
    if (x.padded - x.num_tokens > run->max_padding) run->max_padding = x.padded - x.num_tokens;
    c->sizes++;
    if (x.mode == RP_CUDAGRAPH_NONE) c->eager++;
    c->tokens += x.num_tokens;
    c->padding += x.padded - x.num_tokens;
    return RP_OK;
}

rp_status graph_coverage_init(graph_coverage *c, const graph_dispatcher *d, rp_error *err) {
    const graph_params *p = &d->keys.p;
    int32_t reqs = min_i32(p->max_num_seqs, p->max_num_batched_tokens / p->uniform_query_len);
    size_t cap = 0;
    rp_status st = RP_OK;

    memset(c, 0, sizeof *c);
    for (int32_t n = 1; n <= reqs; n++)
        RP_TRY_OUT(add_size(c, &cap, d, GRAPH_COVER_DECODE, n, err));
    for (int32_t n = 2; n <= p->max_num_batched_tokens; n++)
        RP_TRY_OUT(add_size(c, &cap, d, GRAPH_COVER_PREFILL, n, err));
    /* From 3 tokens up such a batch has two requests and is not uniform. */
    for (int32_t n = 3; n <= p->max_num_batched_tokens && p->max_num_seqs > 1; n++)
        RP_TRY_OUT(add_size(c, &cap, d, GRAPH_COVER_BATCH, n, err));
out:
    if (st != RP_OK) graph_coverage_done(c);
    return st;
}

void graph_coverage_done(graph_coverage *c) {
    if (!c) return;
    base_free(c->runs);
    memset(c, 0, sizeof *c);
}

const char *graph_cover_name(graph_cover_kind kind) {
    static const char *const names[] = {"decode", "prefill", "mixed"};

    return names[kind];
}

/* Every size of a mixed batch is served as that many tokens of one request are. */
static bool mixed_as_prefill(const graph_coverage *c) {
    for (size_t i = 0; i < c->n_runs; i++) {
        const graph_cover *mixed = &c->runs[i], *one = c->runs;

        if (mixed->kind != GRAPH_COVER_BATCH) continue;
        while (one < mixed && (one->kind != GRAPH_COVER_PREFILL || one->to < mixed->to)) one++;
        if (one == mixed || one->to != mixed->to || one->from > mixed->from ||
            one->max_padding != mixed->max_padding || !same_run(one, one->kind, &mixed->dispatch))
            return false;
    }
    return true;
}

/* The last of the runs from i on that are alike but for their place on the ladder. */
static size_t last_alike(const graph_coverage *c, size_t i) {
    const graph_cover *a = &c->runs[i];

    for (; i + 1 < c->n_runs; i++) {
        const graph_cover *b = &c->runs[i + 1];

        if (b->kind != a->kind || b->dispatch.mode != a->dispatch.mode ||
            a->dispatch.mode == RP_CUDAGRAPH_NONE || b->to - b->from != a->to - a->from ||
            b->max_padding != a->max_padding || strcmp(b->dispatch.reason, a->dispatch.reason) != 0)
            break;
    }
    return i;
}

static void print_runs(const graph_cover *a, const graph_cover *z, base_buf *out) {
    char first[GRAPH_DESCRIPTOR_TEXT], last[GRAPH_DESCRIPTOR_TEXT], keys[3 * GRAPH_DESCRIPTOR_TEXT];

    base_buf_printf(out, "  %5d..%-5d ", a->from, z->to);
    if (a->dispatch.mode == RP_CUDAGRAPH_NONE) {
        base_buf_printf(out, "NONE (%s)\n", a->dispatch.reason);
        return;
    }
    (void)graph_descriptor_text(&a->dispatch.key, first);
    (void)graph_descriptor_text(&z->dispatch.key, last);
    if (a == z)
        (void)snprintf(keys, sizeof keys, "%s", first);
    else
        (void)snprintf(keys, sizeof keys, "%s, every %d to %s", first, a->to - a->from + 1, last);
    base_buf_printf(out, "%-9s %-24s padding at most %d rows%s%s\n",
                    rp_cudagraph_mode_name(a->dispatch.mode), keys, a->max_padding,
                    a->dispatch.reason[0] ? "; " : "", a->dispatch.reason);
}

void graph_coverage_text(const graph_coverage *c, base_buf *out) {
    bool joined = mixed_as_prefill(c);
    const char *const heads[] = {"decode, requests",
                                 joined ? "prefill of one request, and mixed batches, tokens"
                                        : "prefill of one request, tokens",
                                 "mixed batch, tokens"};
    int last = -1;

    for (size_t i = 0, end; i < c->n_runs; i = end + 1) {
        const graph_cover *r = &c->runs[i];

        end = last_alike(c, i);
        if (joined && r->kind == GRAPH_COVER_BATCH) continue;
        if ((int)r->kind != last) base_buf_printf(out, "%s:\n", heads[r->kind]);
        last = (int)r->kind;
        print_runs(r, &c->runs[end], out);
    }
    base_buf_printf(out, "%lld of %lld step sizes have a graph, %.1f %% of all rows are padding\n",
                    (long long)(c->sizes - c->eager), (long long)c->sizes,
                    c->tokens ? 100.0 * (double)c->padding / (double)(c->tokens + c->padding)
                              : 0.0);
}
