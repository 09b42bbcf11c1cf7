/* Capture sizes by three rules: ATOM's formula, vLLM's when a largest size is given, or the user's
 * own list, which wins over both and is an error where it cannot work.
 *
 * Decode graphs are counted in requests and bounded by max_num_seqs, all others in tokens and
 * bounded by max_num_batched_tokens only. The bound itself is always a rung of a default ladder:
 * a batch that falls off the ladder costs several times as much as a padded one. */
#include "config/ladder.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/number.h"

enum { INTERACTIVE_MAX = 32 };

rp_status config_ints_add(config_ints *list, int64_t v, rp_error *err) {
    if ((list->n & (list->n - 1)) == 0) { /* grows at powers of two */
        int64_t *grown = base_realloc_array(list->v, list->n ? 2 * list->n : 1, sizeof *grown);
        if (!grown) return rp_fail(err, RP_NOMEM, "no memory for a list of sizes");
        list->v = grown;
    }
    list->v[list->n++] = v;
    list->set = true;
    return RP_OK;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void config_ints_sort(config_ints *list) {
    size_t kept = 0;
    if (list->n) qsort(list->v, list->n, sizeof *list->v, ascending);
    for (size_t i = 0; i < list->n; i++)
        if (!kept || list->v[kept - 1] != list->v[i]) list->v[kept++] = list->v[i];
    list->n = kept;
}

bool config_ints_has(const config_ints *list, int64_t v) {
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i] == v) return true;
    return false;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void note(config_ladder *l, const char *reason, const char *what, ...) RP_PRINTF(3, 4);
static void note(config_ladder *l, const char *reason, const char *what, ...) {
    va_list ap;
    if (l->n_notes == CONFIG_LADDER_NOTES) return;
    va_start(ap, what);
    (void)base_vsnprintf(l->notes[l->n_notes].what, sizeof l->notes[0].what, what, ap);
    va_end(ap);
    (void)snprintf(l->notes[l->n_notes].reason, sizeof l->notes[0].reason, "%s", reason);
    l->n_notes++;
}

/* first..last in steps. */
static rp_status add_steps(config_ints *list, int64_t first, int64_t last, int64_t step,
                           rp_error *err) {
    for (int64_t v = first; v <= last; v += step) RP_TRY(config_ints_add(list, v, err));
    return RP_OK;
}

/* [1, 2, 4, 8] then 16-steps: what is <= last. */
static rp_status add_atom(config_ints *list, int64_t last, rp_error *err) {
    for (int64_t v = 1; v <= least(8, last); v *= 2) RP_TRY(config_ints_add(list, v, err));
    return add_steps(list, 16, last, 16, err);
}

/* [1, 2, 4], 8-steps below 256, then 16-steps: what is <= last. */
static rp_status add_vllm(config_ints *list, int64_t last, rp_error *err) {
    for (int64_t v = 1; v <= least(4, last); v *= 2) RP_TRY(config_ints_add(list, v, err));
    RP_TRY(add_steps(list, 8, least(255, last), 8, err));
    return add_steps(list, 256, last, 16, err);
}

static rp_status add_small(const config_ladder_in *in, config_ints *list, int64_t limit,
                           rp_error *err) {
    return in->interactivity ? add_steps(list, 1, least(INTERACTIVE_MAX, limit), 1, err) : RP_OK;
}

/* The values of `from` that are <= limit. */
static rp_status add_clipped(config_ints *list, const config_ints *from, int64_t limit,
                             rp_error *err) {
    for (size_t i = 0; i < from->n; i++)
        if (from->v[i] <= limit) RP_TRY(config_ints_add(list, from->v[i], err));
    return RP_OK;
}

static int64_t largest(const config_ints *list) {
    int64_t max = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i] > max) max = list->v[i];
    return max;
}

/* Requests that one decode step can hold. */
static int64_t request_limit(const config_ladder_in *in) {
    int64_t by_tokens = in->max_num_batched_tokens / in->query_len;
    return least(in->max_num_seqs, by_tokens > 0 ? by_tokens : 1);
}

static bool wants_decode(const config_ladder_in *in) {
    return rp_cudagraph_decode_mode(in->mode) == RP_CUDAGRAPH_FULL;
}

static bool wants_tokens(const config_ladder_in *in) {
    return rp_cudagraph_mixed_mode(in->mode) != RP_CUDAGRAPH_NONE;
}

/* A list of the user: every size must work for something, and something must be left for decode. */
static rp_status explicit_lists(const config_ladder_in *in, const config_ints *list,
                                const char *name, config_ladder *out, rp_error *err) {
    int64_t requests = request_limit(in);
    int64_t limit = wants_tokens(in) ? in->max_num_batched_tokens : requests;
    if (!list->n)
        return rp_fail(err, RP_CONFIG,
                       "%s=[] leaves nothing to capture for cudagraph_mode=%s; give sizes, or "
                       "cudagraph_mode=NONE",
                       name, rp_cudagraph_mode_name(in->mode));
    if (largest(list) > limit)
        return rp_fail(err, RP_CONFIG, "%s: size %lld exceeds %s=%lld; drop it or raise the limit",
                       name, (long long)largest(list),
                       wants_tokens(in) ? "max_num_batched_tokens" : "max_num_seqs",
                       (long long)limit);
    if (wants_tokens(in)) RP_TRY(add_clipped(&out->tokens, list, limit, err));
    if (!wants_decode(in)) return RP_OK;
    RP_TRY(add_clipped(&out->decode, list, requests, err));
    if (!out->decode.n)
        return rp_fail(err, RP_CONFIG,
                       "%s: no size is within max_num_seqs=%lld, so FULL decode has no graph; add "
                       "one",
                       name, (long long)requests);
    if (largest(list) > requests)
        note(out, "a decode step holds no more requests", "%s above %lld for FULL decode", name,
             (long long)requests);
    return RP_OK;
}

/* "all": FULL decode costs a fraction of a millisecond a size, so every count is captured; token
 * counts stay on the ladder. */
static rp_status all_lists(const config_ladder_in *in, config_ladder *out, rp_error *err) {
    int64_t requests = request_limit(in), tokens = in->max_num_batched_tokens;
    if (in->max_capture_size.set) {
        requests = least(requests, in->max_capture_size.v / in->query_len);
        tokens = least(tokens, in->max_capture_size.v);
    } else
        tokens = least(tokens, largest(in->cuda_graph_sizes));
    if (wants_decode(in)) RP_TRY(add_steps(&out->decode, 1, requests, 1, err));
    if (!wants_tokens(in)) return RP_OK;
    note(out, "every size would be a graph for each piece; token counts stay on the ladder",
         "cudagraph_capture_sizes=all for %s batches", wants_decode(in) ? "mixed" : "PIECEWISE");
    RP_TRY(add_small(in, &out->tokens, tokens, err));
    RP_TRY(add_atom(&out->tokens, tokens, err));
    return config_ints_add(&out->tokens, tokens, err);
}

/* max_cudagraph_capture_size: a token count that no graph exceeds. */
static rp_status vllm_lists(const config_ladder_in *in, config_ladder *out, rp_error *err) {
    int64_t max = least(in->max_capture_size.v, in->max_num_batched_tokens);
    int64_t requests = least(request_limit(in), max / in->query_len);
    if (wants_decode(in)) {
        RP_TRY(add_small(in, &out->decode, requests, err));
        RP_TRY(add_vllm(&out->decode, requests, err));
        RP_TRY(config_ints_add(&out->decode, requests, err));
    }
    if (!wants_tokens(in)) return RP_OK;
    RP_TRY(add_small(in, &out->tokens, max, err));
    RP_TRY(add_vllm(&out->tokens, max, err));
    if (max == in->max_num_batched_tokens) return config_ints_add(&out->tokens, max, err);
    if (largest(&out->tokens) < max)
        note(out,
             wants_decode(in) ? "it is off the ladder's steps; decode batches have a ladder of "
                                "their own"
                              : "it is off the ladder's steps",
             "max_cudagraph_capture_size=%lld becomes %lld for the token counts of %s",
             (long long)max, (long long)largest(&out->tokens),
             wants_decode(in) ? "prefill and mixed batches" : "PIECEWISE graphs");
    return RP_OK;
}

/* cuda_graph_sizes=[N]. */
static rp_status atom_lists(const config_ladder_in *in, config_ladder *out, rp_error *err) {
    int64_t n = in->cuda_graph_sizes->v[0], requests = request_limit(in);
    int64_t tokens = least(n, in->max_num_batched_tokens);
    if (wants_decode(in)) {
        int64_t last = least(n, requests);
        RP_TRY(add_small(in, &out->decode, last, err));
        RP_TRY(add_atom(&out->decode, last, err));
        RP_TRY(config_ints_add(&out->decode, last, err));
        RP_TRY(config_ints_add(&out->decode, requests, err));
    }
    if (!wants_tokens(in)) return RP_OK;
    RP_TRY(add_small(in, &out->tokens, tokens, err));
    RP_TRY(add_atom(&out->tokens, tokens, err));
    return config_ints_add(&out->tokens, tokens, err);
}

static rp_status build(const config_ladder_in *in, config_ladder *out, rp_error *err) {
    const config_sizes *own = in->capture_sizes && in->capture_sizes->set ? in->capture_sizes
                                                                          : NULL;
    if (in->max_capture_size.set && in->max_capture_size.v < 1)
        return rp_fail(err, RP_CONFIG,
                       "max_cudagraph_capture_size=0 leaves nothing to capture for "
                       "cudagraph_mode=%s; raise it, or set cudagraph_mode=NONE",
                       rp_cudagraph_mode_name(in->mode));
    if (wants_decode(in) && in->max_capture_size.set && in->max_capture_size.v < in->query_len)
        return rp_fail(err, RP_CONFIG,
                       "max_cudagraph_capture_size=%lld holds no decode step of %lld tokens; raise "
                       "it, or set cudagraph_mode=NONE",
                       (long long)in->max_capture_size.v, (long long)in->query_len);
    if (own && !own->word && in->max_capture_size.set && in->max_capture_size.v != largest(own))
        return rp_fail(err, RP_CONFIG,
                       "max_cudagraph_capture_size=%lld disagrees with cudagraph_capture_sizes, "
                       "whose largest is %lld; give one of the two",
                       (long long)in->max_capture_size.v, (long long)largest(own));
    if (own && own->word) return all_lists(in, out, err);
    if (own) return explicit_lists(in, own, "cudagraph_capture_sizes", out, err);
    if (in->max_capture_size.set) return vllm_lists(in, out, err);
    if (in->cuda_graph_sizes->n == 1) return atom_lists(in, out, err);
    return explicit_lists(in, in->cuda_graph_sizes, "cuda_graph_sizes", out, err);
}

rp_status config_ladder_build(const config_ladder_in *in, config_ladder *out, rp_error *err) {
    *out = (config_ladder){.decode.set = true, .tokens.set = true};
    if (in->mode == RP_CUDAGRAPH_NONE) return RP_OK;
    rp_status st = build(in, out, err);
    if (st != RP_OK) {
        config_ladder_done(out);
        return st;
    }
    config_ints_sort(&out->decode);
    config_ints_sort(&out->tokens);
    if (wants_decode(in) && largest(&out->decode) < request_limit(in))
        note(out, "no captured size holds them; they run without a graph",
             "decode batches of more than %lld requests", (long long)largest(&out->decode));
    return RP_OK;
}

void config_ladder_done(config_ladder *ladder) {
    base_free(ladder->decode.v);
    base_free(ladder->tokens.v);
    ladder->decode = ladder->tokens = (config_ints){0};
}
