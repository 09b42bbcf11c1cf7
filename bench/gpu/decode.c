/* One decode step of a Llama-shaped model as a graph of plain kernels: checked, then timed on request.
 *
 * usage: decode SHAPE BATCH [CONTEXT] [SETTING=VALUE ...]      SHAPE: 135m, 1b, 8b
 *
 * Settings: edges=programmatic|full, check=0|1, tiles as MATRIX.FIELD (up.slots=5; qkv, o, up, down, head and the fields of
 * gen_decode_tile), splits, attention_warps, attention_ahead, repeat (of a kernel, in place: repeat.up=2 shows what one costs).
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
    void *stream, *module, *kernel[GEN_DECODE_KERNELS_], *from, *to; /* events */
    gen_decode d;
    uint32_t context, repeat[GEN_DECODE_KERNELS_];
    bool full_edges, check, probe;
    model m;
    cuda_chain chain;
    uint64_t residual, x, q, attention, hidden, candidates, step, ids;
    model_step first;
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

static const char *const matrix_names[] = {"qkv", "o", "up", "down", "head", "embed", "attention"};

static bool set_tile(gen_decode *d, const char *name, size_t n, const char *field, uint32_t value) {
    static const char *const fields[] = {"rows",  "blocks", "warps", "chunk",
                                         "slots", "group",  "cap"};
    for (int m = 0; m < GEN_DECODE_MATRICES_; m++) {
        uint32_t *at[] = {&d->tile[m].rows,  &d->tile[m].blocks, &d->tile[m].warps,
                          &d->tile[m].chunk, &d->tile[m].slots,  &d->tile[m].group,
                          &d->tile[m].cap};
        if (strlen(matrix_names[m]) != n || strncmp(matrix_names[m], name, n) != 0) continue;
        for (int f = 0; f < 7; f++)
            if (strcmp(fields[f], field) == 0) {
                *at[f] = value;
                return true;
            }
    }
    return false;
}

static bool set_one(bench *b, const char *text) {
    const char *eq = strchr(text, '='), *dot = strchr(text, '.');
    if (!eq) return false;
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)(eq - text), text);
    uint32_t value = (uint32_t)strtoul(eq + 1, NULL, 10);
    if (strcmp(name, "edges") == 0)
        b->full_edges = strcmp(eq + 1, "full") == 0;
    else if (strcmp(name, "check") == 0)
        b->check = value != 0;
    else if (strcmp(name, "probe") == 0)
        b->probe = value != 0;
    else if (strcmp(name, "splits") == 0)
        b->d.splits = value;
    else if (strcmp(name, "attention_ahead") == 0)
        b->d.attention_ahead = value;
    else if (strcmp(name, "attention_warps") == 0)
        b->d.attention_warps = value;
    else if (strncmp(name, "repeat.", 7) == 0) {
        for (int k = 0; k < GEN_DECODE_KERNELS_; k++)
            if (strcmp(matrix_names[k], name + 7) == 0) {
                b->repeat[k] = value;
                return true;
            }
        return false;
    } else
        return dot && set_tile(&b->d, text, (size_t)(dot - text), name + (dot - text) + 1, value);
    return true;
}

static rp_status settle(bench *b, int argc, char **argv, rp_error *err) {
    size_t i = 0, n = sizeof shapes / sizeof *shapes;
    int at = 3;
    while (argc > 2 && i < n && strcmp(shapes[i].name, argv[1]) != 0) i++;
    if (argc < 3 || i == n)
        return rp_fail(err, RP_CONFIG,
                       "usage: decode 135m|1b|8b BATCH [CONTEXT] [SETTING=VALUE ...]");
    b->context = argc > 3 && !strchr(argv[3], '=') ? (uint32_t)strtoul(argv[at++], NULL, 10) : 1024;
    b->d = (gen_decode){.layers = shapes[i].layers,
                        .hidden = shapes[i].hidden,
                        .heads = shapes[i].heads,
                        .kv_heads = shapes[i].kv_heads,
                        .head_dim = shapes[i].head_dim,
                        .ffn = shapes[i].ffn,
                        .vocab = shapes[i].vocab,
                        .batch = (uint32_t)strtoul(argv[2], NULL, 10),
                        .max_blocks = (b->context + MODEL_ROOM + 15) / GEN_DECODE_KV_BLOCK,
                        .eps = 1e-5f};
    b->check = true;
    for (int k = 0; k < GEN_DECODE_KERNELS_; k++) b->repeat[k] = 1;
    RP_TRY(gen_decode_fit(&b->d, (uint32_t)b->gpu.n_sm, b->gpu.max_shared, err));
    for (; at < argc; at++)
        if (!set_one(b, argv[at])) return rp_fail(err, RP_CONFIG, "no setting %s", argv[at]);
    for (int m = 0; m < GEN_DECODE_MATRICES_; m++)
        if (b->d.tile[m].cap > b->d.tile[m].slots) b->d.tile[m].cap = b->d.tile[m].slots;
    return gen_decode_check(&b->d, b->gpu.max_shared, err);
}

/* ---- the graph --------------------------------------------------------------------------------------- */

static rp_status compile(bench *b, rp_error *err) {
    char *cubin = NULL;
    size_t size = 0;
    base_buf text;
    base_buf_init(&text, 0);
    gen_decode_text(&b->d, &text);
    uint64_t t0 = base_now_ns();
    rp_status st = base_buf_status(&text, err);
    if (st == RP_OK)
        st = cuda_compile(&b->rtc, &(cuda_source){text.data, "decode.cu", "sm_90a"}, NULL, &cubin,
                          &size, err);
    b->compile_ms = (double)(base_now_ns() - t0) / 1e6;
    if (st == RP_OK) st = cuda_code_load(&b->cu, cubin, &b->module, err);
    for (unsigned k = 0; st == RP_OK && k < GEN_DECODE_KERNELS_; k++) {
        gen_decode_launch l = gen_decode_launch_of(&b->d, k);
        st = cuda_code_kernel(&b->cu, b->module, l.name, l.shared, &b->kernel[k], err);
    }
    base_free(cubin);
    base_buf_done(&text);
    return st;
}

static rp_status get_buffers(bench *b, rp_error *err) {
    const gen_decode *d = &b->d;
    const struct {
        uint64_t *at;
        size_t size;
    } all[] = {{&b->residual, (size_t)8 * d->hidden * 4},
               {&b->x, (size_t)8 * d->hidden * 2},
               {&b->q, (size_t)8 * d->heads * d->head_dim * 2},
               {&b->attention, (size_t)8 * d->heads * d->head_dim * 2},
               {&b->hidden, (size_t)8 * d->ffn * 2},
               {&b->candidates, (size_t)d->tile[GEN_DECODE_HEAD].blocks * 8 * 8},
               {&b->step, sizeof(model_step)},
               {&b->ids, (size_t)(b->m.max_len + 1) * 8 * 4}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        RP_TRY(cuda_gpu_alloc(&b->gpu, all[i].size, "activations", all[i].at, err));
    return RP_OK;
}

static rp_status add(bench *b, unsigned k, void **parameters, rp_error *err) {
    gen_decode_launch l = gen_decode_launch_of(&b->d, k);
    cuda_launch c = {
        b->kernel[k], {l.grid[0], l.grid[1], l.grid[2]}, l.threads, l.shared, parameters};
    for (uint32_t i = 0; i < b->repeat[k]; i++) RP_TRY(cuda_chain_add(&b->chain, &c, err));
    return RP_OK;
}

static rp_status add_layer(bench *b, uint32_t l, rp_error *err) {
    uint64_t *w = b->m.matrix[l], first = model_gain(&b->m, 2 * l),
             second = model_gain(&b->m, 2 * l + 1), keys = b->m.keys + l * b->m.cache_layer * 2,
             values = b->m.values + l * b->m.cache_layer * 2;
    void *qkv[] = {&w[GEN_DECODE_QKV], &first,      &b->x,     &b->q, &keys, &values,
                   &b->step,           &b->m.table, &b->m.rope};
    void *attention[] = {&b->q, &keys, &values, &b->attention, &b->step, &b->m.table};
    void *o[] = {&w[GEN_DECODE_O], &b->attention, &b->residual, &b->x};
    void *up[] = {&w[GEN_DECODE_UP], &second, &b->x, &b->hidden};
    void *down[] = {&w[GEN_DECODE_DOWN], &b->hidden, &b->residual, &b->x};
    RP_TRY(add(b, GEN_DECODE_QKV, qkv, err));
    RP_TRY(add(b, GEN_DECODE_K_ATTENTION, attention, err));
    RP_TRY(add(b, GEN_DECODE_O, o, err));
    RP_TRY(add(b, GEN_DECODE_UP, up, err));
    return add(b, GEN_DECODE_DOWN, down, err);
}

static rp_status build(bench *b, rp_error *err) {
    uint64_t last = model_gain(&b->m, 2 * b->d.layers), t0 = base_now_ns();
    void *embed[] = {&b->m.embedding, &b->step, &b->residual, &b->x};
    void *head[] = {
        &b->m.matrix[0][GEN_DECODE_HEAD], &last, &b->x, &b->candidates, &b->step, &b->ids};
    RP_TRY(cuda_chain_init(&b->chain, &b->cu, !b->full_edges, err));
    RP_TRY(add(b, GEN_DECODE_K_EMBED, embed, err));
    for (uint32_t l = 0; l < b->d.layers; l++) RP_TRY(add_layer(b, l, err));
    RP_TRY(add(b, GEN_DECODE_HEAD, head, err));
    RP_TRY(cuda_chain_finish(&b->chain, b->stream, err));
    b->build_us = (double)(base_now_ns() - t0) / 1e3;
    return cuda_check(&b->cu, b->cu.stream_synchronize(b->stream), "uploading the graph", err);
}

/* ---- checking ---------------------------------------------------------------------------------------- */

static rp_status reset(bench *b, rp_error *err) {
    return cuda_check(&b->cu, b->cu.copy_in(b->step, &b->first, sizeof b->first, b->stream),
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

/* Rows behind the last layer after n steps from the start, and all ids so far. */
static rp_status run(bench *b, uint32_t n, float *hidden, int *ids, rp_error *err) {
    RP_TRY(reset(b, err));
    RP_TRY(launch(b, n, err));
    RP_TRY(copy_out(b, hidden, b->residual, (size_t)b->d.batch * b->d.hidden * 4, err));
    return copy_out(b, ids, b->ids + (size_t)(b->context + 1) * 32, (size_t)n * 32, err);
}

/* Norm of the difference over norm, of the worst sequence. */
static double error_of(const bench *b, const float *a, const float *want) {
    double worst = 0;
    for (uint32_t r = 0; r < b->d.batch; r++) {
        double diff = 0, norm = 0;
        for (uint32_t i = r * b->d.hidden; i < (r + 1) * b->d.hidden; i++) {
            diff += ((double)a[i] - want[i]) * ((double)a[i] - want[i]);
            norm += (double)want[i] * want[i];
        }
        double e = sqrt(diff / norm);
        if (!(e <= worst)) worst = e; /* NaN, too */
    }
    return worst;
}

/* Each step against the reference, which is given our ids. */
static rp_status check_steps(bench *b, float *ours, float *want, rp_error *err) {
    int ids[STEPS * 8], tokens[8], best[8];
    float gap[8];
    for (uint32_t s = 1; s <= STEPS; s++) {
        RP_TRY(run(b, s, ours, ids, err));
        memcpy(tokens, s == 1 ? b->first.token : ids + (s - 2) * 8, sizeof tokens);
        RP_TRY(model_reference(&b->m, tokens, (int)(b->context + s - 1), ids + (s - 1) * 8, want,
                               best, gap, err));
        double e = error_of(b, ours, want);
        if (!(e <= b->error)) b->error = e;
        for (uint32_t r = 0; r < b->d.batch; r++) {
            b->n_right += best[r] == ids[(s - 1) * 8 + r];
            b->n_checked++;
            if (gap[r] > b->worst_gap) b->worst_gap = gap[r];
        }
    }
    return RP_OK;
}

/* The same steps again and again: ids and rows must be the same bits. */
static rp_status check_replays(bench *b, float *first, float *again, rp_error *err) {
    int ids[STEPS * 8], ids_again[STEPS * 8];
    size_t size = (size_t)b->d.batch * b->d.hidden * 4;
    memset(ids, 0, sizeof ids);
    memset(ids_again, 0, sizeof ids_again);
    RP_TRY(run(b, STEPS, first, ids, err));
    for (int i = 0; i < REPLAYS / STEPS; i++) {
        bool same = true;
        RP_TRY(run(b, STEPS, again, ids_again, err));
        for (uint32_t s = 0; s < STEPS; s++)
            same = same && memcmp(ids + s * 8, ids_again + s * 8, b->d.batch * sizeof *ids) == 0;
        if (same && memcmp(first, again, size) == 0) b->n_equal += STEPS;
    }
    return RP_OK;
}

static rp_status check(bench *b, rp_error *err) {
    size_t n = (size_t)b->d.batch * b->d.hidden;
    float *one = base_alloc_array(2 * n, sizeof *one);
    if (!one) return rp_fail(err, RP_NOMEM, "results");
    rp_status st = check_steps(b, one, one + n, err);
    if (st == RP_OK) st = check_replays(b, one, one + n, err);
    base_free(one);
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
    const gen_decode *d = &b->d;
    char name[sizeof b->gpu.name];
    size_t kv = (size_t)2 * d->layers * d->batch * b->context * d->kv_heads * d->head_dim * 2;
    memcpy(name, b->gpu.name, sizeof name);
    for (char *p = name; *p; p++)
        if (*p == ' ') *p = '_';
    (void)printf("ready gpu=%s driver=%d hidden_error=%.5f ids=%u/%u "
                 "gap=%.4f replays=%u/%d "
                 "bytes=%zu weights=%zu nodes=%u compile_ms=%.0f build_us=%.0f tiles=",
                 name, b->gpu.driver_version, b->error, b->n_right, b->n_checked,
                 (double)b->worst_gap, b->n_equal, b->check ? REPLAYS : 0, b->m.weights_size + kv,
                 b->m.weights_size, b->chain.n, b->compile_ms, b->build_us);
    for (int m = 0; m < GEN_DECODE_MATRICES_; m++) {
        const gen_decode_tile *t = &d->tile[m];
        (void)printf("%s:%u,%u,%u,%u,%u,%u,%u;", matrix_names[m], t->rows, t->blocks, t->warps,
                     t->chunk, t->slots, t->group, t->cap);
    }
    (void)printf("splits:%u,%u\n", d->splits, d->attention_warps);
}

static rp_status serve(bench *b, rp_error *err) {
    char line[64];
    const cuda_driver *cu = &b->cu;
    RP_TRY(cuda_check(cu, cu->stream_new(&b->stream, CUDA_STREAM_NON_BLOCKING), "stream", err));
    RP_TRY(cuda_check(cu, cu->event_new(&b->from, 0), "event", err));
    RP_TRY(cuda_check(cu, cu->event_new(&b->to, 0), "event", err));
    RP_TRY(compile(b, err));
    RP_TRY(model_init(&b->m, &b->gpu, &b->rtc, b->stream, &b->d, b->context, err));
    RP_TRY(get_buffers(b, err));
    RP_TRY(build(b, err));
    for (int i = 0; i < 8; i++) {
        b->first.position[i] = (int)b->context;
        b->first.token[i] = (int)((100 + 7919 * (uint32_t)i) % b->d.vocab);
    }
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
    const uint64_t memory[] = {b->residual, b->x,          b->q,    b->attention,
                               b->hidden,   b->candidates, b->step, b->ids};
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
    if (st != RP_OK) (void)fprintf(stderr, "decode: %s\n", err.text);
    return rp_status_exit_code(st);
}
