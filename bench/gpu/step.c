/* One step of a Llama-shaped model as a graph of plain kernels: checked, then timed on request.
 *
 * usage: step SHAPE BATCH [CONTEXT] [SETTING=VALUE ...]               a decode step; SHAPE: 135m, 1b, 8b
 *        step SHAPE prefill TOKENS [SETTING=VALUE ...]     a prefill of one sequence, the head for its last token alone
 *
 * Settings: edges=programmatic|full, check=0|1, tiles as MATRIX.FIELD
 * (up.stages=5; qkv, o, up, down, head, attention and the fields of gen_batch_tile or gen_step_attention), repeat (of a kernel,
 * in place: repeat.up=2 shows what one costs).
 *
 * probe=1 ends once GPU, driver and settings are known to do. Prints "ready ..." once the graph is built and its results
 * agree with a slow float32 reference over some steps, then answers lines on standard input:
 *     time N   milliseconds a step, N steps in a row from the context on, ids handed on by the device
 *     read     milliseconds to read all weights once and do nothing else
 *     host     microseconds that launching a step takes on the host
 * A wrong result ends the program with exit 1, a machine that cannot run it with exit 3. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/gpu/model.h"
#include "hal/cuda/chain.h"
#include "hal/cuda/code.h"

enum { STEPS = 8, REPLAYS = 400, LAUNCHES = 200 };

typedef struct bench {
    cuda_driver cu;
    cuda_nvrtc rtc;
    cuda_gpu gpu;
    void *stream, *module, *kernel[GEN_STEP_KERNELS_], *from, *to; /* events */
    template t;
    uint32_t context, repeat[GEN_STEP_KERNELS_];
    bool full_edges, check, probe;
    model m;
    cuda_chain chain;
    uint64_t residual, x, q, attention, hidden, candidates, step, ids, squares_o, squares_down;
    int *first; /* the record before the first step: positions, ids, 0 */
    double compile_ms, build_us, error;
    uint32_t n_right, n_checked, n_equal;
    float worst_gap;
} bench;

static const struct {
    const char *name;
    uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
} shapes[] = {{"135m", 30, 576, 9, 3, 64, 1536, 49152},
              {"1b", 16, 2048, 32, 8, 64, 8192, 128256},
              {"8b", 32, 4096, 32, 8, 128, 14336, 128256}};

/* ---- settings ---------------------------------------------------------------------------------------- */

static bool set_repeat(bench *b, const char *name, uint32_t value) {
    for (int k = 0; k < GEN_STEP_KERNELS_; k++) {
        const char *kernel = k == GEN_STEP_EMBED       ? "embed"
                             : k == GEN_STEP_ATTENTION ? "attention"
                                                       : gen_step_matrix_name((gen_step_matrix)k);
        if (strcmp(kernel, name) != 0) continue;
        b->repeat[k] = value;
        return true;
    }
    return false;
}

/* late: those that need fitted tiles. */
static bool set_one(bench *b, const char *text, bool late) {
    const char *eq = strchr(text, '=');
    char name[64];
    if (!eq) return false;
    (void)snprintf(name, sizeof name, "%.*s", (int)(eq - text), text);
    uint32_t value = (uint32_t)strtoul(eq + 1, NULL, 10);
    if (strcmp(name, "edges") == 0)
        b->full_edges = strcmp(eq + 1, "full") == 0;
    else if (strcmp(name, "check") == 0)
        b->check = value != 0;
    else if (strcmp(name, "probe") == 0)
        b->probe = value != 0;
    else if (strncmp(name, "repeat.", 7) == 0)
        return set_repeat(b, name + 7, value);
    else
        return !late || template_set(&b->t, name, value);
    return true;
}

static rp_status settle(bench *b, int argc, char **argv, rp_error *err) {
    size_t i = 0, n = sizeof shapes / sizeof *shapes;
    int at = 3;
    while (argc > 2 && i < n && strcmp(shapes[i].name, argv[1]) != 0) i++;
    if (argc < 3 || i == n)
        return rp_fail(err, RP_CONFIG,
                       "usage: step 135m|1b|8b BATCH [CONTEXT] [SETTING=VALUE ...] or step SHAPE "
                       "prefill TOKENS");
    uint32_t number = argc > 3 && !strchr(argv[3], '=') ? (uint32_t)strtoul(argv[at++], NULL, 10)
                                                        : 1024;
    b->t.prefill = strcmp(argv[2], "prefill") == 0;
    b->t.rows = b->t.prefill ? number : (uint32_t)strtoul(argv[2], NULL, 10);
    b->context = b->t.prefill ? 0 : number;
    b->t.s = (gen_step){.layers = shapes[i].layers,
                        .hidden = shapes[i].hidden,
                        .heads = shapes[i].heads,
                        .kv_heads = shapes[i].kv_heads,
                        .head_dim = shapes[i].head_dim,
                        .ffn = shapes[i].ffn,
                        .vocab = shapes[i].vocab,
                        .max_blocks = (number + MODEL_ROOM + 15) / GEN_STEP_KV_BLOCK,
                        .eps = 1e-5f};
    b->check = true;
    for (int k = 0; k < GEN_STEP_KERNELS_; k++) b->repeat[k] = 1;
    for (int late = 0; late < 2; late++) {
        for (int s = at; s < argc; s++)
            if (!set_one(b, argv[s], late))
                return rp_fail(err, RP_CONFIG, "no setting %s", argv[s]);
        if (!late) RP_TRY(template_fit(&b->t, (uint32_t)b->gpu.n_sm, b->gpu.max_shared, err));
    }
    return template_check(&b->t, b->gpu.max_shared, err);
}

/* Positions and ids of the first step. */
static rp_status make_first(bench *b, rp_error *err) {
    uint32_t room = b->t.room;
    b->first = base_alloc_array(2 * room + 1, sizeof *b->first);
    if (!b->first) return rp_fail(err, RP_NOMEM, "the step's record");
    memset(b->first, 0, (2 * room + 1) * sizeof *b->first);
    for (uint32_t i = 0; i < b->t.rows; i++) {
        b->first[i] = (int)(b->t.prefill ? i : b->context);
        b->first[room + i] = (int)((100 + 7919 * i) % b->t.s.vocab);
    }
    return RP_OK;
}

/* ---- the graph --------------------------------------------------------------------------------------- */

static rp_status compile(bench *b, rp_error *err) {
    char *cubin = NULL;
    size_t size = 0;
    base_buf text;
    base_buf_init(&text, 0);
    gen_batch_text(&b->t.batch, &text);
    uint64_t t0 = base_now_ns();
    rp_status st = base_buf_status(&text, err);
    if (st == RP_OK)
        st = cuda_compile(&b->rtc, &(cuda_source){text.data, "step.cu", "sm_90a"}, NULL, &cubin,
                          &size, err);
    b->compile_ms = (double)(base_now_ns() - t0) / 1e6;
    if (st == RP_OK) st = cuda_code_load(&b->cu, cubin, &b->module, err);
    for (unsigned k = 0; st == RP_OK && k < GEN_STEP_KERNELS_; k++) {
        gen_step_launch l = gen_batch_launch_of(&b->t.batch, k);
        st = cuda_code_kernel(&b->cu, b->module, l.name, l.shared, &b->kernel[k], err);
    }
    base_free(cubin);
    base_buf_done(&text);
    return st;
}

static rp_status get_buffers(bench *b, rp_error *err) {
    const gen_step *s = &b->t.s;
    size_t room = b->t.room, sums = room * 4;
    size_t x_rows = gen_batch_x_rows(&b->t.batch);
    const struct {
        uint64_t *at;
        size_t size;
    } all[] = {{&b->residual, room * s->hidden * 4},
               {&b->x, x_rows * s->hidden * 2},
               {&b->q, room * s->heads * s->head_dim * 2},
               {&b->attention, x_rows * s->heads * s->head_dim * 2},
               {&b->hidden, x_rows * s->ffn * 2},
               {&b->squares_o, sums * gen_batch_partials(&b->t.batch, GEN_STEP_O)},
               {&b->squares_down, sums * gen_batch_partials(&b->t.batch, GEN_STEP_DOWN)},
               {&b->candidates, template_candidates(&b->t)},
               {&b->step, (2 * room + 1) * 4},
               {&b->ids, (size_t)(b->m.max_len + 1) * room * 4}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        RP_TRY(cuda_gpu_alloc(&b->gpu, all[i].size, "activations", all[i].at, err));
    return RP_OK;
}

static rp_status add(bench *b, unsigned k, void **parameters, rp_error *err) {
    gen_step_launch l = gen_batch_launch_of(&b->t.batch, k);
    cuda_launch c = {
        b->kernel[k], {l.grid[0], l.grid[1], l.grid[2]}, l.threads, l.shared, parameters};
    for (uint32_t i = 0; i < b->repeat[k]; i++) RP_TRY(cuda_chain_add(&b->chain, &c, err));
    return RP_OK;
}

/* The caches of a layer. */
static void caches_of(const bench *b, uint32_t l, uint64_t *keys, uint64_t *values) {
    *keys = b->m.keys + l * b->m.cache_layer * 2;
    *values = b->m.values + l * b->m.cache_layer * 2;
}

static rp_status add_layer(bench *b, uint32_t l, int n_o, int n_down, rp_error *err) {
    uint64_t *w = b->m.matrix[l], second = model_gain(&b->m, 2 * l + 1),
             next = model_gain(&b->m, 2 * l + 2), keys, values;
    caches_of(b, l, &keys, &values);
    void *qkv[] = {&w[GEN_STEP_QKV], &b->x,    &b->squares_down, &n_down,   &b->q, &keys,
                   &values,          &b->step, &b->m.table,      &b->m.rope};
    void *attention[] = {&b->q, &keys, &values, &b->attention, &b->step, &b->m.table};
    void *o[] = {&w[GEN_STEP_O], &b->attention, &b->residual, &b->squares_o, &second, &b->x};
    void *up[] = {&w[GEN_STEP_UP], &b->x, &b->squares_o, &n_o, &b->hidden};
    void *down[] = {&w[GEN_STEP_DOWN], &b->hidden, &b->residual, &b->squares_down, &next, &b->x};
    RP_TRY(add(b, GEN_STEP_QKV, qkv, err));
    RP_TRY(add(b, GEN_STEP_ATTENTION, attention, err));
    RP_TRY(add(b, GEN_STEP_O, o, err));
    RP_TRY(add(b, GEN_STEP_UP, up, err));
    return add(b, GEN_STEP_DOWN, down, err);
}

static rp_status build_all(bench *b, rp_error *err) {
    int n_o = (int)gen_batch_partials(&b->t.batch, GEN_STEP_O),
        n_down = (int)gen_batch_partials(&b->t.batch, GEN_STEP_DOWN);
    uint64_t first = model_gain(&b->m, 0);
    void *embed[] = {&b->m.embedding, &b->step,         &first, &b->residual,
                     &b->x,           &b->squares_down, &n_down};
    void *head[] = {&b->m.matrix[0][GEN_STEP_HEAD],
                    &b->x,
                    &b->squares_down,
                    &n_down,
                    &b->candidates,
                    &b->step,
                    &b->ids};
    RP_TRY(add(b, GEN_STEP_EMBED, embed, err));
    for (uint32_t l = 0; l < b->t.s.layers; l++) RP_TRY(add_layer(b, l, n_o, n_down, err));
    return add(b, GEN_STEP_HEAD, head, err);
}

static rp_status build(bench *b, rp_error *err) {
    uint64_t t0 = base_now_ns();
    RP_TRY(cuda_chain_init(&b->chain, &b->cu, !b->full_edges, err));
    RP_TRY(build_all(b, err));
    RP_TRY(cuda_chain_finish(&b->chain, b->stream, err));
    b->build_us = (double)(base_now_ns() - t0) / 1e3;
    return cuda_check(&b->cu, b->cu.stream_synchronize(b->stream), "uploading the graph", err);
}

/* ---- checking ---------------------------------------------------------------------------------------- */

static rp_status reset(bench *b, rp_error *err) {
    return cuda_check(
        &b->cu, b->cu.copy_in(b->step, b->first, (2 * b->t.room + 1) * sizeof *b->first, b->stream),
        "the step's record", err);
}

static rp_status launch(bench *b, uint32_t n, rp_error *err) {
    for (uint32_t i = 0; i < n; i++) RP_TRY(cuda_chain_launch(&b->chain, b->stream, err));
    return RP_OK;
}

static rp_status copy_out(bench *b, void *to, uint64_t from, size_t size, rp_error *err) {
    RP_TRY(cuda_check(&b->cu, b->cu.copy_out(to, from, size, b->stream), "a step", err));
    return cuda_check(&b->cu, b->cu.stream_synchronize(b->stream), "a step", err);
}

static size_t hidden_size(const bench *b) {
    return (size_t)b->t.room * b->t.s.hidden * sizeof(float);
}

/* Rows behind the last layer after n steps from the start, and all ids so far, rows of room; those of a prefill are one id. */
static rp_status run(bench *b, uint32_t n, float *hidden, int *ids, rp_error *err) {
    size_t room = b->t.room * sizeof *ids;
    RP_TRY(reset(b, err));
    RP_TRY(launch(b, n, err));
    RP_TRY(copy_out(b, hidden, b->residual, hidden_size(b), err));
    if (b->t.prefill) return copy_out(b, ids, b->ids, sizeof *ids, err);
    return copy_out(b, ids, b->ids + (b->context + 1) * room, n * room, err);
}

/* Element i of row r of what run gave. */
static float element_of(const bench *b, const float *hidden, uint32_t r, uint32_t i) {
    return hidden[((size_t)(i / 8) * b->t.room + r) * 8 + i % 8];
}

/* Norm of the difference over norm, of the worst of n rows from the first on. */
static void compare(bench *b, const float *ours, const float *want, uint32_t first, uint32_t n) {
    for (uint32_t r = 0; r < n; r++) {
        double diff = 0, norm = 0;
        for (uint32_t i = 0; i < b->t.s.hidden; i++) {
            double w = want[(size_t)r * b->t.s.hidden + i],
                   d = element_of(b, ours, first + r, i) - w;
            diff += d * d;
            norm += w * w;
        }
        double e = sqrt(diff / norm);
        if (!(e <= b->error)) b->error = e; /* NaN, too */
    }
}

static void compare_ids(bench *b, const int *ids, const int *best, const float *gap, uint32_t n) {
    for (uint32_t r = 0; r < n; r++) {
        b->n_right += best[r] == ids[r];
        b->n_checked++;
        if (gap[r] > b->worst_gap) b->worst_gap = gap[r];
    }
}

/* Each step against the reference, which is given our ids. */
static rp_status check_steps(bench *b, float *ours, int *ids, float *want, rp_error *err) {
    int best[MODEL_ROWS];
    float gap[MODEL_ROWS];
    for (uint32_t s = 1; s <= STEPS; s++) {
        const int *tokens = s == 1 ? b->first + b->t.room : ids + (s - 2) * b->t.room,
                  *mine = ids + (s - 1) * b->t.room;
        RP_TRY(run(b, s, ours, ids, err));
        RP_TRY(model_reference(&b->m, tokens, b->t.rows, (int)(b->context + s - 1), mine, want,
                               best, gap, err));
        compare(b, ours, want, 0, b->t.rows);
        compare_ids(b, mine, best, gap, b->t.rows);
    }
    return RP_OK;
}

static rp_status check_prefill(bench *b, float *ours, int *ids, float *want, rp_error *err) {
    int best[MODEL_ROWS], mine[MODEL_ROWS] = {0};
    float gap[MODEL_ROWS];
    RP_TRY(run(b, 1, ours, ids, err));
    for (uint32_t at = 0, n; at < b->t.rows; at += n) {
        n = b->t.rows - at < MODEL_ROWS ? b->t.rows - at : MODEL_ROWS;
        bool last = at + n == b->t.rows;
        mine[n - 1] = ids[0];
        RP_TRY(model_reference(&b->m, b->first + b->t.room + at, n, (int)at, mine, want,
                               last ? best : NULL, gap, err));
        compare(b, ours, want, at, n);
        if (last) compare_ids(b, mine + n - 1, best + n - 1, gap + n - 1, 1);
    }
    return RP_OK;
}

/* Bits of the rows that are there: those of room that are not are nobody's. */
static bool same_rows(const bench *b, const float *x, const float *y) {
    for (uint32_t r = 0; r < b->t.rows; r++)
        for (uint32_t i = 0; i < b->t.s.hidden; i++) {
            float one = element_of(b, x, r, i), other = element_of(b, y, r, i);
            if (memcmp(&one, &other, sizeof one) != 0) return false;
        }
    return true;
}

/* The same steps again and again: ids and rows must be the same bits. */
static rp_status check_replays(bench *b, float *first, float *again, int *ids, int *ids_again,
                               rp_error *err) {
    uint32_t n = b->t.prefill ? 1 : STEPS;
    RP_TRY(run(b, n, first, ids, err));
    for (uint32_t i = 0; i < REPLAYS; i += STEPS) {
        RP_TRY(run(b, n, again, ids_again, err));
        bool same = same_rows(b, first, again) && (!b->t.prefill || ids[0] == ids_again[0]);
        for (uint32_t s = 0; same && !b->t.prefill && s < n; s++)
            same = memcmp(ids + s * b->t.room, ids_again + s * b->t.room,
                          b->t.rows * sizeof *ids) == 0;
        if (same) b->n_equal += STEPS;
    }
    return RP_OK;
}

static rp_status check(bench *b, rp_error *err) {
    size_t n_ids = (size_t)STEPS * b->t.room;
    float *one = base_alloc(2 * hidden_size(b));
    int *ids = base_alloc_array(2 * n_ids, sizeof *ids);
    rp_status st = one && ids ? RP_OK : rp_fail(err, RP_NOMEM, "results");
    float *other = st == RP_OK ? one + hidden_size(b) / sizeof *one : NULL;
    if (st == RP_OK) st = (b->t.prefill ? check_prefill : check_steps)(b, one, ids, other, err);
    if (st == RP_OK) st = check_replays(b, one, other, ids, ids + n_ids, err);
    base_free(one);
    base_free(ids);
    if (st != RP_OK) return st;
    if (!(b->error < 0.01) || b->worst_gap > 0.05f || b->n_equal != REPLAYS)
        return rp_fail(err, RP_INTERNAL,
                       "wrong: hidden state off by %.4f, %u of %u "
                       "ids as the reference's (worst by "
                       "%.4f), %u of %d replays equal",
                       b->error, b->n_right, b->n_checked, (double)b->worst_gap, b->n_equal,
                       REPLAYS);
    return RP_OK;
}

/* ---- measuring --------------------------------------------------------------------------------------- */

static rp_status time_of(bench *b, rp_status (*work)(bench *, uint32_t, rp_error *), uint32_t n,
                         double *ms, rp_error *err) {
    float elapsed = 0;
    RP_TRY(cuda_check(&b->cu, b->cu.event_record(b->from, b->stream), "timing", err));
    RP_TRY(work(b, n, err));
    RP_TRY(cuda_check(&b->cu, b->cu.event_record(b->to, b->stream), "timing", err));
    RP_TRY(cuda_check(&b->cu, b->cu.event_synchronize(b->to), "timing", err));
    RP_TRY(cuda_check(&b->cu, b->cu.event_elapsed(&elapsed, b->from, b->to), "timing", err));
    *ms = (double)elapsed / n;
    return RP_OK;
}

static rp_status read_weights(bench *b, uint32_t n, rp_error *err) {
    for (uint32_t i = 0; i < n; i++) RP_TRY(model_read(&b->m, err));
    return RP_OK;
}

static rp_status do_time(bench *b, uint32_t n, double *ms, rp_error *err) {
    if (n < 1 || n > MODEL_ROOM - 4)
        return rp_fail(err, RP_CONFIG, "time: 1 to %d steps", MODEL_ROOM - 4);
    RP_TRY(reset(b, err));
    RP_TRY(launch(b, 2, err));
    return time_of(b, launch, n, ms, err);
}

/* The median of launches on a GPU that is idle. */
static rp_status do_host(bench *b, double *us, rp_error *err) {
    double t[LAUNCHES];
    for (int i = 0; i < LAUNCHES; i++) {
        if (i % 32 == 0) RP_TRY(reset(b, err));
        RP_TRY(cuda_check(&b->cu, b->cu.stream_synchronize(b->stream), "a step", err));
        uint64_t t0 = base_now_ns();
        RP_TRY(launch(b, 1, err));
        double now = (double)(base_now_ns() - t0) / 1e3;
        int at = i;
        for (; at > 0 && t[at - 1] > now; at--) t[at] = t[at - 1];
        t[at] = now;
    }
    *us = t[LAUNCHES / 2];
    return RP_OK;
}

static rp_status answer(bench *b, const char *line, rp_error *err) {
    double value = 0;
    if (strncmp(line, "time ", 5) == 0)
        RP_TRY(do_time(b, (uint32_t)strtoul(line + 5, NULL, 10), &value, err));
    else if (strncmp(line, "read", 4) == 0)
        RP_TRY(time_of(b, read_weights, 5, &value, err));
    else if (strncmp(line, "host", 4) == 0)
        RP_TRY(do_host(b, &value, err));
    else
        return rp_fail(err, RP_CONFIG, "unknown: %s", line);
    (void)printf("%.5f\n", value);
    return RP_OK;
}

static void print_ready(const bench *b) {
    const gen_step *s = &b->t.s;
    char name[sizeof b->gpu.name];
    size_t kv = (size_t)2 * s->layers * b->t.rows * b->context * s->kv_heads * s->head_dim * 2;
    memcpy(name, b->gpu.name, sizeof name);
    for (char *p = name; *p; p++)
        if (*p == ' ') *p = '_';
    double n = b->t.rows, d = s->hidden, wide = (double)s->heads * s->head_dim;
    double flops = 2 * n * s->layers *
                       (d * (wide + 2.0 * s->kv_heads * s->head_dim) + d * wide + 3 * d * s->ffn) +
                   2 * s->layers * n * n * wide + 2 * d * s->vocab; /* of a prefill */
    (void)printf("ready gpu=%s driver=%d hidden_error=%.5f ids=%u/%u "
                 "gap=%.4f replays=%u/%d "
                 "bytes=%zu weights=%zu flops=%.0f nodes=%u compile_ms=%.0f build_us=%.0f tiles=",
                 name, b->gpu.driver_version, b->error, b->n_right, b->n_checked,
                 (double)b->worst_gap, b->n_equal, b->check ? REPLAYS : 0, b->m.weights_size + kv,
                 b->m.weights_size, flops, b->chain.n, b->compile_ms, b->build_us);
    template_print(&b->t);
    (void)printf("\n");
}

static rp_status serve(bench *b, rp_error *err) {
    char line[64];
    const cuda_driver *cu = &b->cu;
    RP_TRY(cuda_check(cu, cu->stream_new(&b->stream, CUDA_STREAM_NON_BLOCKING), "stream", err));
    RP_TRY(cuda_check(cu, cu->event_new(&b->from, 0), "event", err));
    RP_TRY(cuda_check(cu, cu->event_new(&b->to, 0), "event", err));
    RP_TRY(compile(b, err));
    RP_TRY(model_init(&b->m, &b->gpu, &b->rtc, b->stream, &b->t, b->context, err));
    RP_TRY(get_buffers(b, err));
    RP_TRY(build(b, err));
    RP_TRY(make_first(b, err));
    if (b->check) RP_TRY(check(b, err));
    print_ready(b);
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        RP_TRY(answer(b, line, err));
        (void)fflush(stdout);
    }
    return RP_OK;
}

static void close_all(bench *b) {
    const uint64_t memory[] = {b->residual,   b->x,    b->q,   b->attention, b->hidden,
                               b->candidates, b->step, b->ids, b->squares_o, b->squares_down};
    base_free(b->first);
    if (b->gpu.context) (void)b->cu.synchronize();
    cuda_chain_done(&b->chain);
    if (b->m.gpu) model_done(&b->m);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) cuda_gpu_free(&b->gpu, memory[i]);
    if (b->module) (void)b->cu.module_free(b->module);
    if (b->from) (void)b->cu.event_free(b->from);
    if (b->to) (void)b->cu.event_free(b->to);
    if (b->stream) (void)b->cu.stream_free(b->stream);
    cuda_gpu_close(&b->gpu);
}

int main(int argc, char **argv) {
    static bench b;
    rp_error err = {0};
    rp_status st = cuda_driver_open(&b.cu, &err);
    if (st == RP_OK) st = cuda_nvrtc_open(&b.rtc, NULL, &err);
    if (st == RP_OK) st = cuda_gpu_open(&b.cu, 0, 90, &b.gpu, &err);
    if (st == RP_OK) st = settle(&b, argc, argv, &err);
    if (st == RP_OK && !b.probe) st = serve(&b, &err);
    if (b.gpu.cu) close_all(&b);
    if (st != RP_OK) (void)fprintf(stderr, "step: %s\n", err.text);
    return rp_status_exit_code(st);
}
