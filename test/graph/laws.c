/* Laws of captured graphs on a whole engine: key of capture = key of replay, pointer audit, poison, KV canary, sealing,
 * a reason for every skip. The same ragged mix of requests is served each time, on a GPU (support/elsewhere.h) by several models, of which those of bf16
 * have kernels of their own for decode steps. */
#include "support/check.h"

#include <jansson.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/spawn.h"
#include "compile/toolchain.h"
#include "engine/engine.h"
#include "graph/descriptor.h"
#include "support/elsewhere.h"
#include "support/engines.h"
#include "support/kv_bytes.h"
#include "support/trees.h"
#include "trace/trace.h"

/* What serves how many requests, so many of them at once, in which modes. The emulated GPU takes a tenth of a second for a step, so there few serve few. */
typedef struct subject {
    const char *model;
    uint32_t requests;
    const char *seqs, *batched;
    const char *warmups;   /* of graphs that are not looked at for what their warm-up leaves */
    const char *invariant; /* by what a request depends on nobody beside it */
    int first, last;       /* of the modes */
} subject;
static subject now;

#define MODEL now.model
#define DEVICE (runs_elsewhere() ? "device=cuda:0" : "device=cpu")
#define SIZES now.seqs, now.batched, "max_model_len=64", "threads=1"
#define SMALL DEVICE, "level=3", SIZES, now.warmups
enum { N_LENGTHS = 7, MAX_REQUESTS = 3 * N_LENGTHS, MAX_OUT = 20, MAX_STEPS = 512 };

static const char *const modes[] = {"cudagraph_mode=FULL", "cudagraph_mode=PIECEWISE",
                                    "cudagraph_mode=FULL_AND_PIECEWISE",
                                    "cudagraph_mode=FULL_DECODE_ONLY", "cudagraph_mode=NONE"};
enum { FULL, PIECEWISE, FULL_AND_PIECEWISE, FULL_DECODE_ONLY, NONE }; /* NONE captures nothing */

/* ---- serving ---------------------------------------------------------------------------------- */

/* What came out of a run: the tokens, and a hash of all logits of each step. */
typedef struct served {
    int32_t out[MAX_REQUESTS][MAX_OUT];
    uint32_t n_out[MAX_REQUESTS];
    base_hash128 step[MAX_STEPS];
    uint32_t n_steps;
} served;

typedef void (*step_fn)(rp_engine *e, const engine_batch *b);

static bool serve_step(rp_engine *e, served *s, step_fn before, step_fn after) {
    rp_error err = {0};
    const engine_batch *b = NULL;
    const float *logits = NULL;
    engine_request *r;
    size_t vocab = model_source_hparams(e->source)->n_vocab;
    CHECK_OK(engine_sched_next(e->sched, &b, &err), &err);
    if (!b) return false;
    if (before) before(e, b);
    CHECK_OK(engine_run_batch(e, b, &logits, &err), &err);
    assert_true(s->n_steps < MAX_STEPS);
    s->step[s->n_steps++] = base_hash(logits, b->num_logits * vocab * sizeof *logits);
    CHECK_OK(engine_pick_tokens(e, b, &err), &err);
    for (uint32_t i = 0; i < b->n; i++) assert_int_equal(e->tokens[i] < 0, !b->entry[i].samples);
    if (after) after(e, b);
    engine_sched_commit(e->sched, e->tokens);
    while ((r = engine_sched_take_finished(e->sched))) ((engine_job *)r->user)->finished = true;
    return true;
}

/* Requests of different lengths, more than there are places, in chunks. */
static void serve(rp_engine *e, served *s, step_fn before, step_fn after) {
    static const uint32_t lengths[N_LENGTHS] = {1, 5, 40, 17, 3, 33, 9};
    uint64_t ids[MAX_REQUESTS];
    int32_t prompt[64];
    rp_error err = {0};
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < now.requests; i++) {
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        const uint32_t n = lengths[i % N_LENGTHS];
        for (uint32_t k = 0; k < n; k++) prompt[k] = (int32_t)((k * 37 + i * 11) % 250);
        r.prompt_ids = prompt;
        r.n_prompt_ids = n;
        r.max_tokens = 6 + i % N_LENGTHS * 2;
        r.ignore_eos = true;
        r.logprobs = true; /* logits that nobody reads are written by some kernels only */
        CHECK_OK(rp_engine_submit(e, &r, &ids[i], &err), &err);
    }
    while (serve_step(e, s, before, after)) {
    }
    for (uint32_t i = 0; i < now.requests; i++) {
        rp_result res = RP_RESULT_INIT;
        CHECK_OK(rp_engine_result(e, ids[i], &res, &err), &err);
        s->n_out[i] = res.n_output_ids;
        assert_int_equal(res.n_output_ids, 6 + i % N_LENGTHS * 2);
        memcpy(s->out[i], res.output_ids, res.n_output_ids * sizeof *res.output_ids);
        rp_engine_release(e, ids[i]);
    }
}

static rp_engine *open_mode(const char *mode) {
    return engine_must(MODEL, (const char *[]){SMALL, "sealed=fatal", mode, NULL});
}

/* Loaded, but not captured yet. */
static rp_engine *open_uncaptured(const char *mode, const char *warmups) {
    const char *const settings[] = {SMALL, mode, warmups};
    rp_engine *e = NULL;
    rp_error err = {0};
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = MODEL;
    o.no_capture = true;
    o.config = rp_config_new();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK_OK(rp_config_set(o.config, settings[i], &err), &err);
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    return e;
}

/* ---- law 3: how prompts are cut into steps changes no token, and nothing that is compiled ---------------- */

static void chunks_change_no_token(void **state) {
    static const char *const chunks[] = {
        "long_prefill_token_threshold=0", "long_prefill_token_threshold=1",
        "long_prefill_token_threshold=7", "long_prefill_token_threshold=1000"};
    static served want, got;
    (void)state;
    rp_engine *e = engine_must(
        MODEL, (const char *[]){SMALL, modes[now.last < NONE ? now.last : FULL_AND_PIECEWISE],
                                now.invariant, NULL});
    serve(e, &want, NULL, NULL);
    rp_engine_close(e);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        e = engine_must(
            MODEL, (const char *[]){SMALL, modes[now.last < NONE ? now.last : FULL_AND_PIECEWISE],
                                    now.invariant, chunks[i], NULL});
        assert_int_equal(engine_count(e, "traces"), 0);
        assert_int_equal(engine_count(e, "compiles"), 0);
        serve(e, &got, NULL, NULL);
        assert_memory_equal(got.out, want.out, sizeof got.out);
        if (i == 1) assert_true(got.n_steps > want.n_steps);
        rp_engine_close(e);
    }
}

/* ---- law 4: the key of a replay is the key of its capture --------------------------------------------- */

static char *captured[4096]; /* labels "name key" of one mode */
static size_t n_captured;
static hal_device *logged;
static size_t log_at;

static void forget_captured(void) {
    while (n_captured) free(captured[--n_captured]);
}

static void learn_captured(const char *mode) {
    rp_engine *e = open_uncaptured(mode, now.warmups);
    rp_error err = {0};
    graph_capture_report report;
    forget_captured();
    hal_log_record(e->device, true);
    CHECK_OK(engine_runner_capture(e->runner, &report, &err), &err);
    for (size_t i = 0; i < hal_log_count(e->device); i++) {
        const char *line = hal_log_at(e->device, i);
        if (strncmp(line, "graph_build ", 12) == 0) captured[n_captured++] = strdup(line + 12);
    }
    assert_int_equal(n_captured, hal_device_counters(e->device)->graph_builds);
    rp_engine_close(e);
}

static bool was_captured(const char *label) {
    for (size_t i = 0; i < n_captured; i++)
        if (strcmp(captured[i], label) == 0) return true;
    return false;
}

static void start_log(rp_engine *e, const engine_batch *b) {
    (void)b;
    logged = e->device;
    log_at = hal_log_count(e->device);
}

/* Each replay of this step carries the key that was dispatched, and that key was captured. */
static void check_replays(rp_engine *e, const engine_batch *b) {
    const rp_dispatch *d = engine_runner_last(e->runner);
    char key[GRAPH_DESCRIPTOR_TEXT], head[GRAPH_DESCRIPTOR_TEXT];
    graph_descriptor_text(&d->key, key);
    graph_descriptor_text(&d->head_key, head);
    size_t replays = 0;
    for (size_t i = log_at; i < hal_log_count(logged); i++) {
        const char *line = hal_log_at(logged, i);
        if (strncmp(line, "graph_build", 11) == 0) fail_msg("captured while serving: %s", line);
        if (strncmp(line, "graph_launch ", 13) != 0) continue;
        const char *label = line + 13, *of = strchr(label, ' ') + 1;
        const char *want = strncmp(label, "head", 4) == 0 ? head : key;
        if (strcmp(of, want) != 0) fail_msg("step has key %s, replayed %s", want, label);
        if (!was_captured(label)) fail_msg("%s was replayed, but never captured", label);
        replays++;
    }
    if (d->mode != RP_CUDAGRAPH_NONE) assert_true(replays > 0);
    assert_true(d->padded >= (int32_t)b->num_tokens);
}

static void replay_key_is_capture_key(void **state) {
    static served s;
    (void)state;
    for (int i = now.first; i <= now.last; i++) {
        learn_captured(modes[i]);
        rp_engine *e = open_mode(modes[i]);
        assert_int_equal(e->capture.graphs, n_captured);
        hal_log_record(e->device, true);
        serve(e, &s, start_log, check_replays);
        assert_int_equal(engine_count(e, "late_captures"), 0);
        rp_engine_close(e);
    }
    forget_captured();
}

/* ---- law 5: every address in a graph lies in a registered range ------------------------------------------ */

static void check_stray(rp_engine *e, const void *range, const char *what) {
    rp_error err = {0};
    graph_capture_report report;
    hal_range_remove(e->device, range);
    rp_status st = engine_runner_capture(e->runner, &report, &err);
    if (st != RP_INTERNAL || !strstr(err.text, "lies in no registered range"))
        fail_msg("%s is not registered and capture gave %s: %s", what, rp_status_name(st),
                 err.text);
    rp_engine_close(e);
}

/* One range becomes two: what begins in the first and ends in the second is no less stray. */
static void check_split(rp_engine *e, const uint8_t *range, size_t size, size_t at) {
    rp_error err = {0};
    graph_capture_report report;
    hal_range_remove(e->device, range);
    CHECK_OK(hal_range_add(e->device, range, at, "first part", &err), &err);
    CHECK_OK(hal_range_add(e->device, range + at, size - at, "second part", &err), &err);
    rp_status st = engine_runner_capture(e->runner, &report, &err);
    if (st != RP_INTERNAL || !strstr(err.text, "beyond the end of the registered range first part"))
        fail_msg("cut at %zu of %zu and capture gave %s: %s", at, size, rp_status_name(st),
                 err.text);
    rp_engine_close(e);
}

static void whole_arguments_are_audited(void **state) {
    (void)state;
    for (int i = now.first; i <= now.last && i != NONE; i++) {
        rp_engine *e = open_uncaptured(modes[i], now.warmups);
        size_t used;
        const uint8_t *kv = kv_bytes_range(e, &used);
        check_split(e, kv, hal_range_size(e->device, kv), used - 1);
        e = open_uncaptured(modes[i], now.warmups);
        const plan_pack *k = &e->plans.model->packs[0];
        const uint8_t *weights = engine_weights_model(e->weights);
        check_split(e, weights, hal_range_size(e->device, weights),
                    (size_t)(k->offset + k->size - 1));
    }
}

static void stray_addresses_fail_the_capture(void **state) {
    (void)state;
    for (int i = now.first; i <= now.last && i != NONE; i++) {
        rp_engine *e = open_uncaptured(modes[i], now.warmups);
        check_stray(e, engine_weights_model(e->weights), "packed weights");
        /* attention reads and stores to the cache; alone between pieces it is in no graph, the stores are */
        e = open_uncaptured(modes[i], now.warmups);
        check_stray(e, kv_bytes_range(e, NULL), "KV cache");
    }
}

/* ---- law 6: dead bytes and padding do not matter ---------------------------------------------------------- */

static void poison(rp_engine *e, const engine_batch *b) {
    (void)b;
    rp_error err = {0};
    CHECK_OK(engine_runner_poison(e->runner, &err), &err);
}

/* Cells that no token was stored in must never be read. */
static void poison_kv(rp_engine *e) {
    kv_bytes_take_all(e);
    kv_bytes_fill(e, 0xff);
}

static void assert_same_served(const served *a, const served *b, const char *mode) {
    if (a->n_steps != b->n_steps) fail_msg("%s: %u steps, not %u", mode, b->n_steps, a->n_steps);
    for (uint32_t i = 0; i < a->n_steps; i++)
        if (memcmp(&a->step[i], &b->step[i], sizeof a->step[i]) != 0)
            fail_msg("%s: logits of step %u differ", mode, i);
    assert_memory_equal(a->out, b->out, sizeof a->out);
}

/* Of decode steps: on a GPU a bf16 model where these are one graph. */
static bool has_own_kernels(int mode) {
    return strcmp(now.invariant, "batch_invariant=true") == 0 && mode != PIECEWISE && mode != NONE;
}

static void poison_changes_no_bit(void **state) {
    static served clean, poisoned;
    (void)state;
    for (int i = now.first; i <= now.last; i++) {
        rp_engine *e = open_mode(modes[i]);
        serve(e, &clean, NULL, NULL);
        poison_kv(e);
        serve(e, &poisoned, poison, NULL);
        assert_same_served(&clean, &poisoned, modes[i]);
        if (has_own_kernels(i)) assert_true(engine_count(e, "decode_kernels.steps") > 0);
        rp_engine_close(e);
    }
    if (now.last != NONE) return;
    rp_engine *e = engine_must(MODEL, (const char *[]){DEVICE, "level=0", SIZES, NULL});
    poison_kv(e);
    serve(e, &poisoned, poison, NULL);
    assert_same_served(&clean, &poisoned, "level 0");
    rp_engine_close(e);
}

/* ---- law 7: no live KV byte changes ------------------------------------------------------------------------- */

/* Gives what is in it now. */
static kv_bytes fill_kv(rp_engine *e) {
    kv_bytes_take_all(e);
    kv_bytes kv = kv_bytes_read(e);
    for (size_t i = 0; i < kv.size; i++) kv.data[i] = (uint8_t)(i * 31 % 113 / 2);
    kv_bytes_write(e, &kv);
    return kv;
}

static void capture_changes_no_kv_byte(void **state) {
    (void)state;
    for (int i = now.first; i <= now.last; i++) {
        rp_error err = {0};
        graph_capture_report report;
        rp_engine *e = open_uncaptured(modes[i], "cudagraph_num_of_warmups=1");
        kv_bytes before = fill_kv(e);
        CHECK_OK(engine_runner_capture(e->runner, &report, &err), &err);
        /* the warm-ups have run */
        if (i != NONE) assert_true(hal_device_counters(e->device)->launches > 0);
        kv_bytes after = kv_bytes_read(e);
        assert_memory_equal(after.data, before.data, before.size);
        free(after.data);
        free(before.data);
        rp_engine_close(e);
    }
}

static void forget_graphs(rp_engine *e, const engine_batch *b) {
    (void)b;
    engine_runner_forget(e->runner);
}

static void forget_and_poison(rp_engine *e, const engine_batch *b) {
    forget_graphs(e, b);
    poison(e, b);
}

/* Every graph of every step is made just before that step, warm-up included: the bits are those of a sealed engine, and
 * dead bytes may hold anything. */
static void late_captures_are_seen_by_nobody(void **state) {
    static served sealed, late;
    (void)state;
    for (int i = now.first; i <= now.last; i++) {
        rp_engine *e = open_mode(modes[i]);
        serve(e, &sealed, NULL, NULL);
        rp_engine_close(e);
        e = engine_must(MODEL, (const char *[]){SMALL, "sealed=off", modes[i],
                                                "cudagraph_num_of_warmups=1", NULL});
        uint64_t builds = hal_device_counters(e->device)->graph_builds;
        serve(e, &late, forget_graphs, NULL);
        assert_same_served(&sealed, &late, modes[i]);
        poison_kv(e);
        serve(e, &late, forget_and_poison, NULL);
        assert_same_served(&sealed, &late, modes[i]);
        if (i != NONE)
            assert_true(hal_device_counters(e->device)->graph_builds > builds + late.n_steps);
        rp_engine_close(e);
    }
}

static bool *touched; /* blocks that a request of the run had */

static void note_blocks(rp_engine *e, const engine_batch *b) {
    if (rp_engine_config(e)->sealed == CONFIG_SEALED_OFF) engine_runner_forget(e->runner);
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t n;
        const int32_t *table = engine_kv_table(e->kv, b->entry[i].seq, &n);
        for (uint32_t k = 0; k < n; k++) touched[table[k]] = true;
    }
}

/* Serving, padding rows and late captures included, writes the blocks of its requests and no others, the null block not
 * either. */
static void serving_writes_its_own_blocks(void **state) {
    static served s;
    (void)state;
    for (int k = 2 * now.first; k < 2 * (now.last + 1); k++) {
        const int i = k / 2;
        uint32_t untouched = 0;
        rp_engine *e = engine_must(
            MODEL, (const char *[]){SMALL, k % 2 ? "sealed=off" : "sealed=fatal", modes[i], NULL});
        kv_bytes before = fill_kv(e);
        touched = calloc(before.n_blocks, 1);
        serve(e, &s, note_blocks, NULL);
        kv_bytes kv = kv_bytes_read(e);
        assert_int_equal(kv.size, before.size);
        assert_false(touched[0]);
        for (uint32_t p = 0; p < kv.n_states; p++)
            for (uint32_t n = 0; n < kv.n_blocks; n++) {
                size_t at = (p * (size_t)kv.n_blocks + n) * kv.block;
                if (touched[n]) continue;
                untouched++;
                if (memcmp(kv.data + at, before.data + at, kv.block) != 0)
                    fail_msg("%s: block %u, which no request had, was written", modes[i], n);
            }
        assert_true(untouched >= kv.n_states);
        free(touched);
        free(before.data);
        free(kv.data);
        rp_engine_close(e);
    }
}

/* ---- law 10: sealed ------------------------------------------------------------------------------------------- */

static void sealed_makes_nothing(void **state) {
    static served s;
    (void)state;
    for (int i = now.first; i <= now.last; i++) {
        rp_engine *e = open_mode(modes[i]);
        const hal_counters *c = hal_device_counters(e->device);
        uint64_t traces = trace_count(), spawned = base_spawn_count(), builds = c->graph_builds,
                 modules = c->module_loads, allocs = c->allocs;
        assert_true(graph_state_may_capture(engine_runner_state(e->runner)) == false);
        serve(e, &s, NULL, NULL);
        assert_int_equal(trace_count(), traces);
        assert_int_equal(base_spawn_count(), spawned);
        assert_int_equal(c->graph_builds, builds);
        assert_int_equal(c->module_loads, modules);
        assert_int_equal(c->allocs, allocs);
        assert_int_equal(c->late_module_loads, 0);
        assert_int_equal(engine_runner_state(e->runner)->late, 0);
        rp_engine_close(e);
    }
}

/* Whoever loads a module into a sealed engine is counted, and with fatal refused, before anything of it runs. */
static void a_late_module_is_refused_or_counted(void **state) {
    static const char *const seals[] = {"sealed=off", "sealed=warn", "sealed=fatal"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        rp_error err = {0};
        hal_module *m = NULL;
        rp_engine *e = engine_must(MODEL, (const char *[]){SMALL, seals[i], NULL});
        const hal_counters *c = hal_device_counters(e->device);
        uint64_t loads = c->module_loads;
        rp_status st = e->device->ops->module_load(e->device, "no-such-module.so", &m, &err);
        assert_int_equal(st, i == 2 ? RP_UNSUPPORTED : RP_DEVICE); /* it is not there */
        if (i == 2) assert_non_null(strstr(err.text, "cannot be loaded after sealing"));
        assert_int_equal(c->late_module_loads, i > 0);
        assert_int_equal(c->module_loads, loads);
        rp_engine_close(e);
    }
}

/* A key that is said to be captured but is not: sealed=fatal refuses, warn runs it without and counts. */
static void a_late_capture_is_refused_or_counted(void **state) {
    static const int32_t prompt[] = {5, 6, 7};
    (void)state;
    for (int fatal = 0; fatal < 2; fatal++) {
        rp_error err = {0};
        rp_engine *e = engine_must(
            MODEL, (const char *[]){SMALL, "cudagraph_mode=FULL", "cudagraph_capture_sizes=[1,2]",
                                    fatal ? "sealed=fatal" : "sealed=warn", NULL});
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        uint64_t id, builds = hal_device_counters(e->device)->graph_builds;
        bool more = true;
        rp_status st = RP_OK;
        engine_runner_forget(e->runner);
        r.prompt_ids = prompt;
        r.n_prompt_ids = 1;
        r.max_tokens = 3;
        CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
        while (st == RP_OK && more) st = rp_engine_step(e, &more, &err);
        assert_int_equal(st, fatal ? RP_UNSUPPORTED : RP_OK);
        if (fatal) assert_non_null(strstr(err.text, "missing after sealing"));
        assert_true(engine_runner_state(e->runner)->late > 0);
        assert_int_equal(hal_device_counters(e->device)->graph_builds, builds);
        rp_engine_close(e);
    }
}

/* ---- law 14: reasons -------------------------------------------------------------------------------------------- */

static uint64_t skipped(const rp_engine *e, const char *reason) {
    const graph_state *s = engine_runner_state(e->runner);
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_skips; i++) {
        assert_true(s->skips[i].what[0] && s->skips[i].reason[0]);
        if (strstr(s->skips[i].reason, reason)) n += s->skips[i].count;
    }
    return n;
}

static bool noted(const rp_engine *e, const char *what, const char *reason) {
    const rp_config_note *notes;
    size_t n = rp_config_notes(rp_engine_config(e), &notes);
    for (size_t i = 0; i < n; i++)
        if (strstr(notes[i].what, what) && strstr(notes[i].reason, reason)) return true;
    return false;
}

static void every_eager_step_has_a_reason(void **state) {
    static const struct {
        const char *mode, *sizes, *reason;
    } cases[] = {
        {"cudagraph_mode=NONE", NULL, "cudagraph_mode is NONE"},
        {"cudagraph_mode=FULL_DECODE_ONLY", NULL, "FULL_DECODE_ONLY has no graphs"},
        {"cudagraph_mode=FULL_AND_PIECEWISE", "cudagraph_capture_sizes=[1,2,4]",
         "more tokens than the largest graph"},
        {"cudagraph_mode=PIECEWISE", "cudagraph_capture_sizes=[1,2]",
         "more tokens than the largest graph"},
    };
    static served s;
    (void)state;
    for (size_t i = now.last == NONE ? 0 : 2; i < sizeof cases / sizeof *cases; i++) {
        rp_engine *e = engine_must(
            MODEL, (const char *[]){SMALL, "max_num_seqs=4", cases[i].mode, cases[i].sizes, NULL});
        serve(e, &s, NULL, NULL);
        uint64_t eager = engine_runner_state(e->runner)->steps[RP_CUDAGRAPH_NONE];
        assert_true(eager > 0);
        if (skipped(e, cases[i].reason) < eager)
            fail_msg("%s: %d eager steps, %d with the reason '%s'", cases[i].mode, (int)eager,
                     (int)skipped(e, cases[i].reason), cases[i].reason);
        rp_engine_close(e);
    }
    rp_engine *e = engine_must(
        MODEL, (const char *[]){DEVICE, "level=0", "cudagraph_mode=FULL_AND_PIECEWISE", NULL});
    assert_true(noted(e, "cudagraph_mode", "PIECEWISE graphs need level 3"));
    assert_string_equal(engine_text(e, "cudagraph_mode"), "FULL_DECODE_ONLY");
    rp_engine_close(e);
}

static json_t *find_skip(rp_engine *e, const char *what, json_t **root) {
    rp_error err = {0};
    char *text = NULL;
    size_t i;
    json_t *skip;
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    *root = json_loads(text, 0, NULL);
    rp_engine_text_free(text);
    json_array_foreach(json_object_get(*root, "skips"), i, skip) {
        if (strcmp(json_string_value(json_object_get(skip, "what")), what) == 0) return skip;
    }
    return NULL;
}

/* A request that loses its blocks computes everything again: that has a reason, too. */
static void requests_put_back_are_counted(void **state) {
    enum { N = 3, OUT = 45 };
    static const int32_t prompt[] = {3, 1, 4, 1, 5};
    int32_t want[OUT];
    rp_error err = {0};
    rp_result res = RP_RESULT_INIT;
    json_t *root;
    uint32_t seq[16], held = 0;
    uint64_t id[N];
    bool more = true;
    (void)state;
    rp_engine *e = engine_must(
        MODEL, (const char *[]){DEVICE, "level=0", "max_num_seqs=8", "max_num_batched_tokens=32",
                                "max_model_len=4096", now.invariant,
                                runs_elsewhere() ? "gpu_memory_utilization=0" : NULL, NULL});
    assert_int_equal(engine_greedy(e, prompt, 5, OUT, want), OUT);
    assert_null(find_skip(e, "requests put back", &root));
    json_decref(root);
    /* Somebody holds all of the cache but eight blocks; twelve are wanted. */
    for (uint32_t left; (left = engine_kv_n_free(e->kv) - 8) > 0; held++) {
        assert_true(engine_kv_open(e->kv, &seq[held]));
        assert_true(engine_kv_reserve(e->kv, seq[held], left < 256 ? left * 16 : 4096));
    }
    for (int i = 0; i < N; i++) {
        rp_request_options r = RP_REQUEST_OPTIONS_INIT;
        r.prompt_ids = prompt;
        r.n_prompt_ids = 5;
        r.max_tokens = OUT;
        r.ignore_eos = true;
        CHECK_OK(rp_engine_submit(e, &r, &id[i], &err), &err);
    }
    while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
    for (uint32_t i = 0; i < held; i++) engine_kv_close(e->kv, seq[i]);
    for (int i = 0; i < N; i++) {
        CHECK_OK(rp_engine_result(e, id[i], &res, &err), &err);
        assert_int_equal(res.n_output_ids, OUT);
        assert_memory_equal(res.output_ids, want, sizeof want);
    }
    json_t *skip = find_skip(e, "requests put back", &root);
    assert_non_null(skip);
    assert_true(json_integer_value(json_object_get(skip, "count")) > 0);
    assert_non_null(
        strstr(json_string_value(json_object_get(skip, "reason")), "KV cache was full"));
    json_decref(root);
    rp_engine_close(e);
}

static void require_graph_makes_a_skip_an_error(void **state) {
    int32_t prompt[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, out[8];
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    rp_error err = {0};
    uint64_t id;
    bool more;
    (void)state;
    rp_engine *e =
        engine_must(MODEL, (const char *[]){SMALL, "require_graph=true", "cudagraph_mode=FULL",
                                            "cudagraph_capture_sizes=[1,2,4]", NULL});
    r.prompt_ids = prompt;
    r.n_prompt_ids = 9;
    r.max_tokens = 4;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    assert_int_equal(rp_engine_step(e, &more, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "more tokens than the largest graph"));
    rp_engine_abort(e, id);
    rp_engine_release(e, id);
    /* what fits the ladder runs on */
    assert_int_equal(engine_greedy(e, prompt, 3, 4, out), 4);
    rp_engine_close(e);
}

/* Equal layers share their code and nothing else: each replays the graph over its own weights. */
static void equal_pieces_have_graphs_of_their_own(void **state) {
    static const char *const both[] = {"cudagraph_mode=PIECEWISE", "cudagraph_mode=NONE"};
    static served s[2];
    char model[64];
    (void)state;
    (void)snprintf(model, sizeof model, "%s,layers=4", MODEL);
    for (int i = 0; i < 2; i++) {
        rp_engine *e = engine_must(model, (const char *[]){SMALL, both[i], NULL});
        assert_true(engine_count(e, "pieces.distinct") < engine_count(e, "pieces.compiled"));
        serve(e, &s[i], NULL, NULL);
        rp_engine_close(e);
    }
    assert_memory_equal(s[0].step, s[1].step, sizeof s[0].step);
    assert_memory_equal(s[0].out, s[1].out, sizeof s[0].out);
}

/* Of the first so many the emulated GPU would compile all anew. */
static int laws_of(const subject *which) {
    enum { ANEW = 1 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_change_no_token),
        cmocka_unit_test(replay_key_is_capture_key),
        cmocka_unit_test(equal_pieces_have_graphs_of_their_own),
        cmocka_unit_test(stray_addresses_fail_the_capture),
        cmocka_unit_test(whole_arguments_are_audited),
        cmocka_unit_test(poison_changes_no_bit),
        cmocka_unit_test(capture_changes_no_kv_byte),
        cmocka_unit_test(late_captures_are_seen_by_nobody),
        cmocka_unit_test(serving_writes_its_own_blocks),
        cmocka_unit_test(sealed_makes_nothing),
        cmocka_unit_test(a_late_module_is_refused_or_counted),
        cmocka_unit_test(a_late_capture_is_refused_or_counted),
        cmocka_unit_test(every_eager_step_has_a_reason),
        cmocka_unit_test(requests_put_back_are_counted),
        cmocka_unit_test(require_graph_makes_a_skip_an_error),
    };
    const size_t first = which->last == NONE ? 0 : ANEW;
    now = *which;
    printf("%s, %u requests, %s\n", now.model, now.requests, now.seqs);
    return _cmocka_run_group_tests(now.model, tests + first, sizeof tests / sizeof *tests - first,
                                   NULL, NULL);
}

#define SOME "max_num_seqs=4", "max_num_batched_tokens=32", "cudagraph_num_of_warmups=1"
#define MANY "max_num_seqs=16", "max_num_batched_tokens=64", "cudagraph_num_of_warmups=1"
#define FEW "max_num_seqs=3", "max_num_batched_tokens=32", "cudagraph_num_of_warmups=0"
#define ANYHOW "batch_invariant=false"
#define ALONE "batch_invariant=true"
static const subject on_cpu[] = {{"synthetic:tiny", 7, SOME, ANYHOW, FULL, NONE}};
/* Steps of up to eight sequences and of more have other kernels; heads of 16, 32 and 64. */
static const subject on_gpu[] = {
    {"synthetic:tiny", 7, SOME, ANYHOW, FULL, NONE},
    {"synthetic:tiny-32", 7, SOME, ALONE, FULL, NONE},
    {"synthetic:tiny-64", 21, MANY, ALONE, FULL, NONE},
    {"synthetic:smollm2-135m,layers=3,dtype=bf16", 21, MANY, ALONE, FULL, NONE},
    {"synthetic:smollm2-135m,layers=3", 21, MANY, ANYHOW, FULL, NONE}};
static const subject on_emulated[] = {
    {"synthetic:tiny", 4, FEW, ANYHOW, FULL, FULL},
    {"synthetic:tiny-32", 4, FEW, ALONE, PIECEWISE, FULL_AND_PIECEWISE}};

int main(void) {
    size_t live = base_live();
    const bool real = getenv("REPRISE_TEST_GPU") != NULL;
    const subject *subjects = !runs_elsewhere() ? on_cpu : real ? on_gpu : on_emulated;
    const size_t n = !runs_elsewhere() ? sizeof on_cpu / sizeof *on_cpu
                     : real            ? sizeof on_gpu / sizeof *on_gpu
                                       : sizeof on_emulated / sizeof *on_emulated;
    int failed = 0;
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) return 1;
    (void)unsetenv("REPRISE_TEST_DEVICE"); /* by which it looks at each access, in twice the time */
    for (size_t i = 0; i < n; i++) failed += laws_of(&subjects[i]);
    if (!failed && base_live() != live) {
        printf("%zu blocks are still allocated\n", base_live() - live);
        return 1;
    }
    return failed;
}
