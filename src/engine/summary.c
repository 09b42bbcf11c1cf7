/* What an engine did, as one JSON object. Counts come from the launch log at the border of hal. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "config/table.h"
#include "engine/engine.h"
#include "engine/passes.h"

static json_t *object_config(const rp_engine *e) {
    char *text = NULL;
    json_t *j = NULL;
    if (rp_config_to_json(e->config, &text, NULL) == RP_OK) j = json_loads(text, 0, NULL);
    rp_config_text_free(text);
    return j ? j : json_null();
}

static json_t *object_memory(const rp_engine *e) {
    engine_memory m;
    engine_runner_memory(e->runner, &m);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "weights", (json_int_t)m.weights, "kv",
                     (json_int_t)m.kv, "arena", (json_int_t)m.arena, "constants",
                     (json_int_t)m.consts, "inputs", (json_int_t)m.inputs, "logits",
                     (json_int_t)m.logits, "graphs", (json_int_t)m.graphs);
}

/* Of memory.weights what other engines of this process read, too; counted in the memory of each. */
static json_t *object_shared(const rp_engine *e) {
    return json_pack("{s:i,s:I}", "engines", (int)engine_weights_users(e->weights), "bytes",
                     (json_int_t)engine_weights_shared_bytes(e->weights));
}

static void add_skip(json_t *a, const char *what, const char *reason, uint64_t count) {
    if (count)
        json_array_append_new(a, json_pack("{s:s,s:o,s:I}", "what", what, "reason",
                                           config_text_json(reason), "count", (json_int_t)count));
}

static json_t *array_skips(const rp_engine *e) {
    const rp_config_note *notes;
    json_t *a = json_array();
    size_t n = rp_config_notes(e->config, &notes);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_pack("{s:s,s:o}", "what", notes[i].what, "reason",
                                           config_text_json(notes[i].reason)));
    const graph_state *s = engine_runner_state(e->runner);
    for (uint32_t i = 0; i < s->n_skips; i++)
        add_skip(a, s->skips[i].what, s->skips[i].reason, s->skips[i].count);
    add_skip(a, "skips of other kinds", "the list of kinds is full", s->lost_skips);
    if (e->sched) {
        engine_sched_stats st;
        engine_sched_get_stats(e->sched, &st);
        add_skip(a, "requests put back",
                 "the KV cache was full: what they had is computed again; lower max_num_seqs or "
                 "max_tokens",
                 st.preemptions);
    }
    add_skip(a, "module loads", "they came after sealing",
             hal_device_counters(e->device)->late_module_loads);
    add_skip(a, "requests that ended with an error", "their logits were not numbers",
             e->garbage_rows);
    for (int i = ENGINE_DRAW_UNIFIED + 1; i < ENGINE_DRAW_REASONS; i++)
        add_skip(a, "draws within steps, of requests",
                 engine_draw_reason_text((engine_draw_reason)i), e->draws[i]);
    add_skip(a, "bytes of prompts", "the vocabulary has no token for them", e->dropped_bytes);
    return a;
}

static void set(json_t *o, const char *name, json_t *v) {
    json_object_set_new(o, name, v);
}

static const char *chat_name(const rp_engine *e) {
    return e->chat.kind == MODEL_CHAT_CHATML ? "chatml"
           : e->chat.kind == MODEL_CHAT_NONE ? "none"
                                             : "unknown";
}

/* The folder that the stages of compiling were written to (compile/dump.h), or null. */
static json_t *text_dump(const rp_engine *e) {
    const char *path = e->config->debug_dump_path;
    base_buf b;
    if (!path || !*path) return json_null();
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/rank_0", path);
    json_t *j = config_text_json(b.data);
    base_buf_done(&b);
    return j;
}

static double rate(uint64_t tokens, double ms) {
    return ms > 0.0 ? (double)tokens / ms * 1e3 : 0.0;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of those that are kept. */
static json_t *host_us(const engine_times *t) {
    int64_t ns[ENGINE_HOST_STEPS];
    size_t n = t->host_steps < ENGINE_HOST_STEPS ? (size_t)t->host_steps : ENGINE_HOST_STEPS;
    if (n == 0) return json_null();
    memcpy(ns, t->host_ns, n * sizeof *ns);
    qsort(ns, n, sizeof *ns, by_size);
    int64_t median = ns[n / 2];
    return json_real((double)median / 1e3);
}

static void add_times(json_t *o, const rp_engine *e) {
    const engine_times *t = &e->times;
    set(o, "load_ms", json_real(t->load_ms));
    set(o, "fetch_ms", json_real(t->fetch_ms));
    set(o, "device_ms", json_real(t->device_ms));
    set(o, "trace_ms", json_real(e->plans.trace_ms));
    set(o, "compile_ms", json_real(e->plans.compile_ms));
    set(o, "pack_ms", json_real(t->pack_ms));
    set(o, "weights_ms", json_real(t->weights_ms));
    set(o, "runner_ms", json_real(t->runner_ms));
    set(o, "capture_ms", json_real(t->capture_ms));
    set(o, "ttft_ms", json_real(t->ttft_ms));
    set(o, "wall_to_first_token_ms", json_real(t->wall_to_first_ms));
    set(o, "prefill_tokens", json_integer((json_int_t)t->prefill_tokens));
    set(o, "prefill_ms", json_real(t->prefill_ms));
    set(o, "decode_tokens", json_integer((json_int_t)t->decode_tokens));
    set(o, "decode_ms", json_real(t->decode_ms));
    set(o, "host_us", host_us(t));
    set(o, "wall_ms", json_real((double)base_process_age_ns() / 1e6));
    set(o, "prefill_tok_s", json_real(rate(t->prefill_tokens, t->prefill_ms)));
    set(o, "decode_tok_s", json_real(rate(t->decode_tokens, t->decode_ms)));
    set(o, "peak_rss_bytes", json_integer((json_int_t)base_peak_rss()));
}

/* What is counted of all plans. */
typedef struct plan_totals {
    uint64_t traces;
    uint32_t compiles, loaded, kernels;
} plan_totals;

static plan_totals totals(const engine_plans *p) {
    plan_totals t = {p->traces, p->stats.compiles, p->loaded, p->model->n_functions};
    if (p->head) t.kernels += p->head->n_functions;
    for (uint32_t i = 0; i < p->n_sized; i++) {
        const plan_totals own = totals(&p->sized[i]);
        t.traces += own.traces;
        t.compiles += own.compiles;
        t.loaded += own.loaded;
        t.kernels += own.kernels;
    }
    return t;
}

/* Step sizes with code of their own: those of compile_sizes, or the ranges. */
static json_t *array_sizes(const rp_engine *e, bool ranges) {
    json_t *a = json_array();
    for (uint32_t i = 0; i < e->plans.n_sized; i++) {
        const engine_plans *p = &e->plans.sized[i];
        const plan_totals t = totals(p);
        if (p->is_range != ranges || p->decode) continue;
        json_t *o = ranges ? json_pack("{s:I,s:I}", "first", (json_int_t)p->first, "last",
                                       (json_int_t)p->last)
                           : json_pack("{s:I}", "tokens", (json_int_t)p->last);
        set(o, "steps", json_integer((json_int_t)engine_runner_steps_of(e->runner, i)));
        set(o, "kernels", json_integer(t.kernels));
        set(o, "compiles", json_integer(t.compiles));
        set(o, "from_cache", json_boolean(p->from_cache));
        set(o, "compile_ms", json_real(p->compile_ms));
        json_array_append_new(a, o);
    }
    return a;
}

/* Steps that ran the kernels of decode steps, or why none does; null where that is not wanted. */
static json_t *decode_kernels(const rp_engine *e) {
    const engine_plans *p = &e->plans;
    if (p->no_decode[0]) return json_pack("{s:o}", "reason", config_text_json(p->no_decode));
    for (uint32_t i = 0; i < p->n_sized; i++)
        if (p->sized[i].decode)
            return json_pack("{s:I,s:i}", "steps", (json_int_t)engine_runner_steps_of(e->runner, i),
                             "kernels", (int)totals(&p->sized[i]).kernels);
    return json_null();
}

static void add_counts(json_t *o, const rp_engine *e) {
    const hal_counters *c = hal_device_counters(e->device);
    const graph_state *s = engine_runner_state(e->runner);
    const compile_stats *cs = &e->plans.stats;
    /* A plan without code of its own was compiled by nobody, whatever the pieces could have been. */
    const plan_totals all = totals(&e->plans);
    int compiled = e->plans.model->n_modules ? (int)cs->compiled : 0;
    set(o, "pieces",
        json_pack("{s:i,s:i,s:i,s:i}", "total", (int)cs->pieces, "compiled", compiled, "distinct",
                  (int)cs->distinct, "loaded", (int)all.loaded));
    set(o, "traces", json_integer((json_int_t)all.traces));
    set(o, "compiles", json_integer((json_int_t)all.compiles));
    set(o, "cache_hits", json_integer((json_int_t)cache_hits(e->store)));
    set(o, "cache_misses", json_integer((json_int_t)cache_misses(e->store)));
    set(o, "kernels", json_integer((json_int_t)all.kernels));
    set(o, "compile_sizes", array_sizes(e, false));
    set(o, "compile_ranges", array_sizes(e, true));
    set(o, "decode_kernels", decode_kernels(e));
    set(o, "captures", json_integer((json_int_t)s->captures));
    set(o, "replays", json_integer((json_int_t)s->replays));
    set(o, "eager_steps", json_integer((json_int_t)s->steps[RP_CUDAGRAPH_NONE]));
    set(o, "steps",
        json_pack("{s:I,s:I,s:I}", "none", (json_int_t)s->steps[RP_CUDAGRAPH_NONE], "piecewise",
                  (json_int_t)s->steps[RP_CUDAGRAPH_PIECEWISE], "full",
                  (json_int_t)s->steps[RP_CUDAGRAPH_FULL]));
    set(o, "launches_per_step", json_integer((json_int_t)e->times.step_launches));
    set(o, "launches",
        json_pack("{s:I,s:I,s:I,s:I}", "single", (json_int_t)c->launches, "attention",
                  (json_int_t)c->attention_calls, "graph_launches", (json_int_t)c->graph_launches,
                  "module_loads", (json_int_t)c->module_loads));
    set(o, "shared_lists", json_integer((json_int_t)c->shared_lists));
    set(o, "crowded_lists", json_integer((json_int_t)c->crowded_lists));
    set(o, "graph_breaks", json_integer((json_int_t)e->plans.graph_breaks));
    set(o, "recompiles", json_integer((json_int_t)e->plans.recompiles));
    set(o, "late_captures", json_integer((json_int_t)s->late));
    set(o, "tokens", json_integer((json_int_t)s->tokens));
    set(o, "padding", json_integer((json_int_t)s->padding));
}

static int append(const char *text, size_t n, void *user) {
    base_buf_add(user, text, n);
    return 0;
}

rp_status engine_json_text(json_t *o, base_buf *out, rp_error *err) {
    int failed = json_dump_callback(o, append, out, JSON_COMPACT);
    json_decref(o);
    return failed ? rp_fail(err, RP_NOMEM, "a JSON text") : base_buf_status(out, err);
}

rp_status engine_summary_json(const rp_engine *e, char **out, rp_error *err) {
    json_t *o = json_object();
    if (!o) return rp_fail(err, RP_NOMEM, "summary");
    set(o, "model", config_text_json(model_source_name(e->source)));
    set(o, "device", json_string(e->config->device));
    set(o, "isa", json_string(e->arch[0] ? e->arch : gen_isa_name(e->isa)));
    set(o, "config", object_config(e));
    set(o, "level", json_integer((json_int_t)e->config->level));
    set(o, "cudagraph_mode",
        json_string(rp_cudagraph_mode_name(rp_config_cudagraph_mode(e->config))));
    set(o, "vocab_size", json_integer(model_source_hparams(e->source)->n_vocab));
    set(o, "threads", json_integer((json_int_t)e->n_threads));
    set(o, "chat_template", json_string(chat_name(e)));
    set(o, "debug_dump", text_dump(e));
    add_times(o, e);
    set(o, "memory", object_memory(e));
    set(o, "device_memory", engine_ledger_json(&e->ledger, e->device, e->weights, e->runner));
    set(o, "weights_shared", object_shared(e));
    add_counts(o, e);
    set(o, "draws_within_steps", json_integer((json_int_t)e->draws[ENGINE_DRAW_WITHIN]));
    set(o, "passes", engine_passes_json(&e->plans.passes));
    set(o, "skips", array_skips(e));
    base_buf b;
    base_buf_init(&b, 0);
    rp_status st = engine_json_text(o, &b, err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}
