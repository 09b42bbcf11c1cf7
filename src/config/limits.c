/* Batch limits, then the capture ladder, which is counted against them. Runs after the mode is final. */
#include <string.h>

#include "base/alloc.h"
#include "config/ladder.h"
#include "config/resolve.h"
#include "config/table.h"

#define TYPED(cfg, id) ((cfg)->typed[CONFIG_ID_##id] != NULL)

static rp_status resolve_batch(rp_compilation_config *cfg, const rp_model_facts *facts,
                               rp_error *err) {
    bool cuda = strncmp(cfg->device, "cuda", 4) == 0;
    config_oint *seqs = &cfg->max_num_seqs, *tokens = &cfg->max_num_batched_tokens;
    if (seqs->set && tokens->set && tokens->v < seqs->v)
        return rp_fail(err, RP_CONFIG,
                       "max_num_batched_tokens=%lld is less than max_num_seqs=%lld: each request "
                       "needs a token in a step; raise the first or lower the second",
                       (long long)tokens->v, (long long)seqs->v);
    if (!tokens->set) {
        *tokens = (config_oint){true, cuda ? 16384 : 512};
        if (seqs->set && tokens->v < seqs->v) tokens->v = seqs->v;
    }
    if (!seqs->set) {
        *seqs = (config_oint){true, cuda ? 512 : 64};
        if (seqs->v > tokens->v) seqs->v = tokens->v;
    }
    config_oint *len = &cfg->max_model_len;
    if (facts->max_model_len > 0) {
        if (len->set && len->v > facts->max_model_len)
            return rp_fail(err, RP_CONFIG,
                           "max_model_len=%lld exceeds the %lld positions that the model was "
                           "trained for; lower it",
                           (long long)len->v, (long long)facts->max_model_len);
        if (!len->set) *len = (config_oint){true, facts->max_model_len};
    }
    return RP_OK;
}

static void ints_take(config_ints *slot, config_ints *from) {
    base_free(slot->v);
    *slot = *from;
    *from = (config_ints){0};
}

static rp_status ints_copy(const config_ints *from, config_ints *out, rp_error *err) {
    config_ints list = {.set = true};
    for (size_t i = 0; i < from->n; i++) {
        rp_status st = config_ints_add(&list, from->v[i], err);
        if (st == RP_OK) continue;
        base_free(list.v);
        return st;
    }
    ints_take(out, &list);
    return RP_OK;
}

/* Sizes that were given for graphs that there will not be. */
/* The settings that shape a default ladder, where there is none. */
static rp_status note_ladder(rp_compilation_config *cfg, const char *reason, rp_error *err) {
    if (TYPED(cfg, cuda_graph_sizes) && cfg->cuda_graph_sizes.n)
        RP_TRY(config_overrule(cfg, true, reason, err, "cuda_graph_sizes"));
    if (TYPED(cfg, performance_mode) && cfg->performance_mode == CONFIG_PERF_INTERACTIVITY)
        RP_TRY(config_overrule(cfg, true, reason, err, "performance_mode=interactivity"));
    return RP_OK;
}

static rp_status note_unused_sizes(rp_compilation_config *cfg, rp_error *err) {
    if (cfg->enforce_eager) return RP_OK; /* has named what it overrides */
    if (TYPED(cfg, cudagraph_capture_sizes) &&
        (cfg->cudagraph_capture_sizes.n || cfg->cudagraph_capture_sizes.word))
        RP_TRY(
            config_overrule(cfg, true, "cudagraph_mode is NONE", err, "cudagraph_capture_sizes"));
    if (TYPED(cfg, max_cudagraph_capture_size) && cfg->max_cudagraph_capture_size.v)
        RP_TRY(config_overrule(cfg, true, "cudagraph_mode is NONE", err,
                               "max_cudagraph_capture_size=%lld",
                               (long long)cfg->max_cudagraph_capture_size.v));
    return note_ladder(cfg, "cudagraph_mode is NONE", err);
}

/* What the lists and limits of the user leave of his other settings about sizes. */
static rp_status note_outranked(rp_compilation_config *cfg, rp_error *err) {
    const config_oint *max = &cfg->max_cudagraph_capture_size;
    const config_ints *own = &cfg->cuda_graph_sizes;
    int64_t limit = cfg->max_num_batched_tokens.v;
    if (cfg->cudagraph_mode.v == RP_CUDAGRAPH_NONE) return note_unused_sizes(cfg, err);
    if (cfg->cudagraph_capture_sizes.set && !cfg->cudagraph_capture_sizes.word)
        return note_ladder(cfg, "cudagraph_capture_sizes is the whole list", err);
    if (max->set && max->v > limit)
        RP_TRY(config_overrule(cfg, true, "a step holds no more than max_num_batched_tokens", err,
                               "max_cudagraph_capture_size=%lld becomes %lld", (long long)max->v,
                               (long long)limit));
    if (TYPED(cfg, cuda_graph_sizes) && max->set)
        return config_overrule(cfg, true, "max_cudagraph_capture_size makes the ladder", err,
                               "cuda_graph_sizes");
    if (TYPED(cfg, cuda_graph_sizes) && own->n == 1 && own->v[0] > limit)
        return config_overrule(cfg, true, "a step holds no more than max_num_batched_tokens", err,
                               "cuda_graph_sizes=[%lld] becomes [%lld]", (long long)own->v[0],
                               (long long)limit);
    return RP_OK;
}

/* Fills graph_bs, decode_capture_sizes, mixed_capture_sizes; cudagraph_capture_sizes becomes their
 * union in tokens and max_cudagraph_capture_size its largest. */
static rp_status resolve_ladder(rp_compilation_config *cfg, rp_error *err) {
    rp_status st = RP_OK;
    config_ladder ladder = {0};
    config_ints all = {.set = true};
    int64_t query_len = 1 + cfg->num_speculative_tokens;
    RP_TRY(note_outranked(cfg, err));
    if (!cfg->cuda_graph_sizes.n)
        RP_TRY(config_value_reset(&config_table[CONFIG_ID_cuda_graph_sizes], &cfg->cuda_graph_sizes,
                                  err));
    config_ladder_in in = {
        .mode = (rp_cudagraph_mode)cfg->cudagraph_mode.v,
        .max_num_seqs = cfg->max_num_seqs.v,
        .max_num_batched_tokens = cfg->max_num_batched_tokens.v,
        .query_len = query_len,
        .capture_sizes = &cfg->cudagraph_capture_sizes,
        .cuda_graph_sizes = &cfg->cuda_graph_sizes,
        .max_capture_size = cfg->max_cudagraph_capture_size,
        .interactivity = cfg->performance_mode == CONFIG_PERF_INTERACTIVITY,
    };
    RP_TRY(config_ladder_build(&in, &ladder, err));
    for (size_t i = 0; i < ladder.n_notes; i++)
        RP_TRY_OUT(config_overrule(cfg, TYPED(cfg, cudagraph_capture_sizes), ladder.notes[i].reason,
                                   err, "%s", ladder.notes[i].what));
    for (size_t i = 0; i < ladder.decode.n; i++)
        RP_TRY_OUT(config_ints_add(&all, ladder.decode.v[i] * query_len, err));
    for (size_t i = 0; i < ladder.tokens.n; i++)
        RP_TRY_OUT(config_ints_add(&all, ladder.tokens.v[i], err));
    config_ints_sort(&all);
    cfg->max_cudagraph_capture_size = (config_oint){true, all.n ? all.v[all.n - 1] : 0};
    RP_TRY_OUT(ints_copy(ladder.decode.n ? &ladder.decode : &ladder.tokens, &cfg->graph_bs, err));
    ints_take(&cfg->cudagraph_capture_sizes, &all);
    ints_take(&cfg->decode_capture_sizes, &ladder.decode);
    ints_take(&cfg->mixed_capture_sizes, &ladder.tokens);
out:
    base_free(all.v);
    config_ladder_done(&ladder);
    return st;
}

/* Who generates nothing has nothing to make for a size. enforce_eager has said so. */
static rp_status drop_sizes(rp_compilation_config *cfg, config_id id, config_ints *sizes,
                            rp_error *err) {
    char shown[CONFIG_SHOWN];
    const config_field *f = &config_table[id];
    rp_status st = RP_OK;
    char *text = config_value_text(f, config_slot(cfg, (int)id));
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for the text of %s", f->name);
    if (!cfg->enforce_eager)
        st = config_overrule(cfg, true, "only backend=inductor has code for a size", err, "%s=%s",
                             f->name, config_shown(text, shown));
    base_free(text);
    ints_take(sizes, &(config_ints){.set = true});
    return st;
}

static rp_status add_sizes(const config_ints *from, config_ints *out, rp_error *err) {
    for (size_t i = 0; i < from->n; i++) RP_TRY(config_ints_add(out, from->v[i], err));
    return RP_OK;
}

/* compile_sizes as numbers, each once. The ladder is there. */
static rp_status resolve_sizes(rp_compilation_config *cfg, rp_error *err) {
    static const char word[] = "compile_sizes=\"cudagraph_capture_sizes\"";
    config_sizes *sizes = &cfg->compile_sizes;
    config_ints all = {.set = true};
    rp_status st = RP_OK;
    if (!sizes->n && !sizes->word) return RP_OK;
    if (strcmp(cfg->backend, "inductor") != 0)
        return drop_sizes(cfg, CONFIG_ID_compile_sizes, sizes, err);
    if (sizes->word && !cfg->cudagraph_capture_sizes.n)
        RP_TRY(config_overrule(cfg, true, "no size is captured", err, "%s", word));
    RP_TRY_OUT(add_sizes(sizes, &all, err));
    if (sizes->word) RP_TRY_OUT(add_sizes(&cfg->cudagraph_capture_sizes, &all, err));
    config_ints_sort(&all);
    if (all.n && all.v[all.n - 1] > cfg->max_num_batched_tokens.v)
        RP_TRY_OUT(rp_fail(err, RP_CONFIG,
                           "compile_sizes: %lld exceeds max_num_batched_tokens=%lld; drop it or "
                           "raise the limit",
                           (long long)all.v[all.n - 1], (long long)cfg->max_num_batched_tokens.v));
    ints_take(sizes, &all);
out:
    base_free(all.v);
    return st;
}

/* Ends of ranges, ascending, each once; a step has no more tokens than the last range may have. */
static rp_status resolve_ranges(rp_compilation_config *cfg, rp_error *err) {
    const long long most = (long long)cfg->max_num_batched_tokens.v;
    config_ints *ends = &cfg->compile_ranges_endpoints;
    if (!ends->n) return RP_OK;
    if (strcmp(cfg->backend, "inductor") != 0)
        return drop_sizes(cfg, CONFIG_ID_compile_ranges_endpoints, ends, err);
    config_ints_sort(ends);
    while (ends->n && ends->v[ends->n - 1] > most) {
        RP_TRY(config_overrule(cfg, true, "a step holds no more than max_num_batched_tokens", err,
                               "compile_ranges_endpoints: %lld", (long long)ends->v[ends->n - 1]));
        ends->n--;
    }
    return RP_OK;
}

rp_status config_resolve_limits(rp_compilation_config *cfg, const rp_model_facts *facts,
                                rp_error *err) {
    RP_TRY(resolve_batch(cfg, facts, err));
    RP_TRY(resolve_ladder(cfg, err));
    RP_TRY(resolve_sizes(cfg, err));
    RP_TRY(resolve_ranges(cfg, err));
    rp_cudagraph_mode mode = (rp_cudagraph_mode)cfg->cudagraph_mode.v;
    if (cfg->cudagraph_copy_inputs && !rp_cudagraph_requires_piecewise_compilation(mode))
        return config_overrule(cfg, true, "only PIECEWISE graphs copy inputs", err,
                               "cudagraph_copy_inputs=true");
    return RP_OK;
}
