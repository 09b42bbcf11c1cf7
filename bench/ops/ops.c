/* reprise as one of the peers of bench/ops.sh, through the public API but for the capture on a device: answers lines on standard input.
 *
 *   open NAME    traces, compiles and runs a case of cases.list; "compiled SECONDS" (to the end of the first
 *                run) or "missing REASON"
 *   time MS      microseconds of one run: median of those that fit into so many milliseconds, after one that
 *                does not count; on a device that captures, of 20 replays of a run that was captured
 *   dump FILE    the results of the last run, one after the other, as they lie in memory
 *   close        frees the case
 *
 * Usage: ops CASES.LIST [--device cuda:0] [KEY=VALUE ...]   (settings of `reprise help config`; -O2 unless level is given)
 * A backend of others (docs/backends.md) takes graphs without params, so weights are inputs then; a case that it does not take
 * is missing, with its reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"
#include "device/stream.h"

enum { MAX_OPERANDS = 16, MAX_SAMPLES = 4096, MAX_LINE = 1024, REPLAYS = 20 };

typedef struct operand {
    char name[32];
    bool weight;
    double scale;   /* ~ */
    uint32_t below; /* < or !; 0: not whole */
    bool distinct;  /* ! */
    rp_buffer buffer;
} operand;

typedef struct session {
    const char *list;
    char **settings;
    int n_settings;
    bool foreign; /* a backend of others compiles */
    rp_device
        *device; /* NULL: the host; else operands and results lie there, and `graph` is a run */
    rp_stream *stream;
    rp_compiled *compiled;
    device_graph *graph;
    operand in[MAX_OPERANDS];
    uint32_t n_in, n_inputs, n_out;
    rp_buffer inputs[MAX_OPERANDS], out[MAX_OUTPUTS];
} session;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- operands ---------------------------------------------------------------------- */

static size_t count(const rp_buffer *b) {
    size_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++) n *= (size_t)b->dim[i];
    return n;
}

static size_t bytes(const rp_buffer *b) {
    return count(b) * rp_dtype_block_bytes(b->dtype);
}

/* A hash of the place (Wellons' lowbias32), so that both programs can make a value from its index alone. */
static uint32_t mixed(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static void fill(operand *o, uint32_t which) {
    size_t n = count(&o->buffer);
    for (size_t i = 0; i < n; i++) {
        uint32_t h = o->distinct ? (uint32_t)i * 0x9e3779b1u
                                 : mixed((uint32_t)i ^ mixed(which + 1));
        uint32_t u;
        float v = ((float)(h >> 8) * 0x1p-23f - 1.0f) * (float)o->scale;
        if (o->below) v = (float)(h % o->below);
        memcpy(&u, &v, sizeof u);
        if (o->buffer.dtype == RP_DTYPE_I32)
            ((int32_t *)o->buffer.data)[i] = (int32_t)(h % o->below);
        else if (o->buffer.dtype == RP_DTYPE_BF16)
            ((uint16_t *)o->buffer.data)[i] = (uint16_t)(u >> 16);
        else
            ((float *)o->buffer.data)[i] = v;
    }
}

static void *allocated(size_t size) {
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

/* Moves what was filled to where it is used. */
static rp_status place(const session *s, rp_buffer *b, rp_error *err) {
    void *there = NULL;
    if (!s->device) return RP_OK;
    rp_status st = rp_device_alloc(s->device, bytes(b), &there, err);
    if (st == RP_OK) st = rp_stream_copy(s->stream, there, b->data, bytes(b), err);
    if (st == RP_OK) st = rp_stream_synchronize(s->stream, err);
    free(b->data);
    b->data = there;
    return st;
}

static void release(const session *s, void *data) {
    if (s->device)
        rp_device_free(s->device, data);
    else
        free(data);
}

/* "@w:f32[3,4]~0.5" */
static bool parse_operand(const char *text, operand *o) {
    char type[16];
    int used = 0;
    *o = (operand){.weight = *text == '@', .scale = 1.0};
    text += o->weight;
    if (sscanf(text, "%31[^:]:%15[^[][%n", o->name, type, &used) != 2 || used == 0) return false;
    o->buffer.dtype = strcmp(type, "i32") == 0    ? RP_DTYPE_I32
                      : strcmp(type, "bf16") == 0 ? RP_DTYPE_BF16
                                                  : RP_DTYPE_F32;
    for (char *at = (char *)text + used;; at++) {
        if (o->buffer.rank == RP_MAX_RANK) return false;
        o->buffer.dim[o->buffer.rank++] = strtol(at, &at, 10);
        if (*at == ']' && at[1] == '~') o->scale = strtod(at + 2, NULL);
        o->distinct = *at == ']' && at[1] == '!';
        if (o->distinct || (*at == ']' && at[1] == '<'))
            o->below = (uint32_t)strtoul(at + 2, NULL, 10);
        if (*at != ',') return *at == ']';
    }
}

/* The operands of a case, from its line of the list. */
static bool read_operands(session *s, const char *name, rp_error *err) {
    char line[MAX_LINE], *save = NULL;
    bool found = false;
    FILE *f = fopen(s->list, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        size_t n = strlen(name);
        found = strncmp(line, name, n) == 0 && line[n] == ' ';
    }
    if (f) (void)fclose(f);
    char *at = found ? strrchr(line, '|') : NULL;
    if (!at) return false;
    for (char *word = strtok_r(at + 1, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
        operand *o = &s->in[s->n_in];
        if (s->n_in == MAX_OPERANDS || !parse_operand(word, o)) return false;
        o->buffer.data = allocated(bytes(&o->buffer));
        if (!o->buffer.data) return false;
        fill(o, s->n_in++);
        if (place(s, &o->buffer, err) != RP_OK) return true; /* err says why */
        if (s->foreign) o->weight = false;
        if (!o->weight) s->inputs[s->n_inputs++] = o->buffer;
    }
    return s->n_in > 0;
}

/* --- a case ------------------------------------------------------------------------- */

static void close_case(session *s) {
    device_graph_free(s->graph);
    rp_compiled_free(s->compiled);
    for (uint32_t i = 0; i < s->n_in; i++) release(s, s->in[i].buffer.data);
    for (uint32_t i = 0; i < s->n_out; i++) release(s, s->out[i].data);
    *s = (session){.list = s->list,
                   .settings = s->settings,
                   .n_settings = s->n_settings,
                   .foreign = s->foreign,
                   .device = s->device,
                   .stream = s->stream};
}

static rp_status trace(session *s, const bench_case *c, rp_graph *g, rp_error *err) {
    rp_tensor in[MAX_OPERANDS], out[MAX_OUTPUTS];
    for (uint32_t i = 0; i < s->n_in; i++) {
        const operand *o = &s->in[i];
        rp_shape shape = {.rank = o->buffer.rank};
        for (uint32_t d = 0; d < shape.rank; d++) shape.dim[d] = rp_dim_const(o->buffer.dim[d]);
        in[i] = (o->weight ? rp_param : rp_input)(g, o->name, o->buffer.dtype, shape);
    }
    uint32_t n = c->trace(g, in, out);
    rp_status st = rp_graph_finish(g, out, n, err);
    for (uint32_t i = 0; i < n && st == RP_OK; i++) {
        rp_shape shape = rp_tensor_shape(out[i]);
        rp_buffer *b = &s->out[s->n_out++];
        *b = (rp_buffer){.dtype = rp_tensor_dtype(out[i]), .rank = shape.rank};
        for (uint32_t d = 0; d < shape.rank; d++) (void)rp_dim_is_const(shape.dim[d], &b->dim[d]);
        b->data = allocated(bytes(b));
        st = b->data ? place(s, b, err) : RP_NOMEM;
    }
    return st;
}

static rp_status run(session *s, rp_error *err) {
    return rp_compiled_run(s->compiled, s->inputs, s->n_inputs, s->out, s->n_out, err);
}

/* A run as a graph of the device, in which nothing waits for the host. */
static rp_status capture(session *s, rp_error *err) {
    rp_status st = device_stream_capture(s->stream, err);
    for (uint32_t i = 0; i < s->n_in && st == RP_OK; i++)
        st = hal_capture_allow(device_stream_queue(s->stream), s->in[i].buffer.data,
                               bytes(&s->in[i].buffer), "operand", err);
    for (uint32_t i = 0; i < s->n_out && st == RP_OK; i++)
        st = hal_capture_allow(device_stream_queue(s->stream), s->out[i].data, bytes(&s->out[i]),
                               "result", err);
    if (st == RP_OK)
        st = rp_compiled_run_on(s->compiled, s->stream, s->inputs, s->n_inputs, s->out, s->n_out,
                                err);
    return st == RP_OK ? device_stream_finish(s->stream, "case", &s->graph, err) : st;
}

/* What the library compiled in its place is no measurement of a backend. */
static rp_status check_backend(const session *s, rp_error *err) {
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_status st = rp_compiled_get_info(s->compiled, &info, err);
    if (st != RP_OK || !info.reason) return st;
    (void)snprintf(err->text, sizeof err->text, "%s", info.reason);
    return RP_UNSUPPORTED;
}

static rp_status configure(const session *s, rp_compilation_config *cfg, rp_error *err) {
    rp_status st = RP_OK;
    for (int i = 0; i < s->n_settings && st == RP_OK; i++)
        st = rp_config_set(cfg, s->settings[i], err);
    return st == RP_OK ? rp_config_apply_default_olevel(cfg, 2, err) : st;
}

/* What is paid once a process: x + 1, as in torch_peer.py. */
static rp_status warm_up(const session *s, rp_error *err) {
    float x[64] = {0}, y[64];
    rp_buffer in = {.data = x, .dtype = RP_DTYPE_F32, .rank = 1, .dim = {64}}, out = in;
    if (s->device) return RP_OK; /* it was opened */
    rp_graph *g = rp_graph_new("warm_up");
    rp_compilation_config *cfg = rp_config_new();
    rp_compiled *compiled = NULL;
    rp_status st = g && cfg ? configure(s, cfg, err) : RP_NOMEM;
    rp_tensor more = {0};
    if (st == RP_OK) more = rp_add_scalar(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(64)), 1.0);
    if (st == RP_OK) st = rp_graph_finish(g, &more, 1, err);
    if (st == RP_OK) st = rp_compile(g, cfg, &compiled, err);
    out.data = y;
    if (st == RP_OK) st = rp_compiled_run(compiled, &in, 1, &out, 1, err);
    rp_compiled_free(compiled);
    rp_config_free(cfg);
    rp_graph_free(g);
    return st;
}

static rp_status compile(session *s, const bench_case *c, rp_error *err) {
    rp_graph *g = rp_graph_new(c->name);
    rp_compilation_config *cfg = rp_config_new();
    rp_status st = g && cfg ? configure(s, cfg, err) : RP_NOMEM;
    if (st == RP_OK) st = trace(s, c, g, err);
    if (st == RP_OK) st = rp_compile_on(s->device, g, cfg, &s->compiled, err);
    if (st == RP_OK) st = check_backend(s, err);
    for (uint32_t i = 0; i < s->n_in && st == RP_OK; i++)
        if (s->in[i].weight)
            st = rp_compiled_bind(s->compiled, s->in[i].name, s->in[i].buffer.data, err);
    if (st == RP_OK) st = run(s, err);
    rp_config_free(cfg);
    rp_graph_free(g);
    return st;
}

static rp_status open_case(session *s, const char *name, rp_error *err) {
    const bench_case *c = bench_case_find(name);
    close_case(s);
    if (c && !c->trace) {
        printf("missing %s\n", c->missing);
        return RP_OK;
    }
    if (!c || !read_operands(s, name, err)) {
        printf("missing the case in %s\n", c ? s->list : "cases.c");
        return RP_OK;
    }
    double t = now();
    rp_status st = err->code == RP_OK ? compile(s, c, err) : err->code;
    t = now() - t;
    if (st == RP_OK && s->device) st = capture(s, err);
    if (st == RP_OK) printf("compiled %.4f\n", t);
    return st;
}

/* --- measuring ------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A run, or as many replays as are timed at once, to their end. */
static rp_status once(session *s, rp_error *err) {
    rp_status st = RP_OK;
    if (!s->graph) return run(s, err);
    for (int i = 0; i < REPLAYS && st == RP_OK; i++) st = device_graph_launch(s->graph, err);
    return st == RP_OK ? rp_stream_synchronize(s->stream, err) : st;
}

static rp_status measure(session *s, double ms, rp_error *err) {
    static double sample[MAX_SAMPLES];
    size_t n = 0;
    rp_status st = once(s, err);
    double end = now() + ms * 1e-3;
    while (st == RP_OK && n < MAX_SAMPLES && (n < 3 || now() < end)) {
        double t = now();
        st = once(s, err);
        sample[n++] = (now() - t) / (s->graph ? REPLAYS : 1);
    }
    qsort(sample, n, sizeof *sample, ascending);
    if (st == RP_OK) printf("%.3f\n", sample[n / 2] * 1e6);
    return st;
}

static bool write_out(const session *s, const rp_buffer *b, FILE *f) {
    rp_error err = {0};
    if (!s->device) return fwrite(b->data, 1, bytes(b), f) == bytes(b);
    void *here = allocated(bytes(b));
    bool ok = here && rp_stream_copy(s->stream, here, b->data, bytes(b), &err) == RP_OK &&
              rp_stream_synchronize(s->stream, &err) == RP_OK &&
              fwrite(here, 1, bytes(b), f) == bytes(b);
    free(here);
    return ok;
}

static void dump(const session *s, const char *path) {
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL;
    for (uint32_t i = 0; ok && i < s->n_out; i++) ok = write_out(s, &s->out[i], f);
    if (f && fclose(f) != 0) ok = false;
    printf(ok ? "dumped\n" : "error: %s cannot be written\n", path);
}

static void answer(session *s, const char *line) {
    rp_error err = {0};
    rp_status st = RP_OK;
    char word[256];
    double ms;
    if (sscanf(line, "open %255s", word) == 1) {
        st = open_case(s, word, &err);
    } else if (strcmp(line, "close\n") == 0) {
        close_case(s);
        printf("closed\n");
    } else if (!s->compiled) {
        printf("error: no case is open\n");
    } else if (sscanf(line, "time %lf", &ms) == 1) {
        st = measure(s, ms, &err);
    } else if (sscanf(line, "dump %255s", word) == 1) {
        dump(s, word);
    } else {
        printf("error: not understood: %s", line);
    }
    if (st == RP_OK) return;
    printf("missing %s\n", err.text);
    close_case(s);
}

/* Whether the last backend among the settings is a compiler that is not the library's. */
static bool names_other(char **setting, int n) {
    static const char *const others[] = {"backend=openvino", "backend=onnxrt"};
    bool other = false;
    for (int i = 0; i < n; i++)
        if (strncmp(setting[i], "backend=", 8) == 0)
            other = strcmp(setting[i], others[0]) == 0 || strcmp(setting[i], others[1]) == 0;
    return other;
}

int main(int argc, char **argv) {
    session s = {0};
    char line[MAX_LINE];
    if (argc < 2 || (argc > 2 && strcmp(argv[2], "--device") == 0 && argc < 4)) {
        fprintf(stderr, "usage: ops CASES.LIST [--device NAME] [KEY=VALUE ...]\n");
        return 2;
    }
    const char *device = argc > 3 && strcmp(argv[2], "--device") == 0 ? argv[3] : NULL;
    rp_error err = {0};
    s.list = argv[1];
    s.settings = argv + (device ? 4 : 2);
    s.n_settings = argc - (device ? 4 : 2);
    s.foreign = names_other(s.settings, s.n_settings);
    if (device && (rp_device_open(device, 1, &s.device, &err) != RP_OK ||
                   rp_stream_open(s.device, &s.stream, &err) != RP_OK)) {
        fprintf(stderr, "ops: %s\n", err.text);
        return 1;
    }
    if (warm_up(&s, &err) != RP_OK) fprintf(stderr, "ops: warming up: %s\n", err.text);
    printf("ready %s\n", rp_version());
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        answer(&s, line);
        (void)fflush(stdout);
    }
    close_case(&s);
    rp_stream_close(s.stream);
    rp_device_close(s.device);
    return 0;
}
