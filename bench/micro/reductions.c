/* Reductions whose rows are few and long, which one block or thread a row would leave most of a processor idle in, and those of
 * rows as models have them: medians of rounds of replays of
 * a captured graph and the smallest of them, in microseconds a call, and GB/s of operands and results, each of which has to be moved once.
 * Usage: reductions [rounds] [--device cuda:0] [--threads N] [--only TEXT]: cases whose names hold it; reductions_peer.py gives what
 * torch.compile takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/stream.h"
#include "reprise/reprise.h"

enum { MOST = 1 << 26, CALLS = 20, MOST_ROUNDS = 101 };
#define ROUND_NS \
    20000000 /* of the host, at the most but for one call: others may take its processors at any time */

static rp_error err;

static void must(rp_status st) {
    if (st == RP_OK) return;
    fprintf(stderr, "reductions: %s\n", err.text);
    exit(1);
}

typedef rp_tensor (*form)(rp_graph *g, rp_tensor x);

static rp_tensor row_sum(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_sum(x, -1, false);
}

static rp_tensor row_max(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_amax(x, -1, false);
}

static rp_tensor row_argmax(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_argmax(x, -1, false);
}

static rp_tensor column_sum(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_sum(x, 0, false);
}

static rp_tensor softmax(rp_graph *g, rp_tensor x) {
    (void)g;
    return rp_softmax(x, -1);
}

static rp_tensor layer_norm(rp_graph *g, rp_tensor x) {
    rp_shape row = rp_tensor_shape(x);
    row.dim[0] = row.dim[row.rank - 1];
    row.rank = 1;
    return rp_layer_norm(x, rp_input(g, "w", RP_DTYPE_F32, row),
                         rp_input(g, "b", RP_DTYPE_F32, row), 1e-5);
}

static const struct {
    const char *what;
    int64_t rows, columns;
    form trace;
    uint32_t n_inputs; /* those behind x are rows of it */
} cases[] = {
    {"sum [1, 2^24]", 1, 1 << 24, row_sum, 1},
    {"sum [1, 2^26]", 1, 1 << 26, row_sum, 1},
    {"max [4, 2^22]", 4, 1 << 22, row_max, 1},
    {"argmax [4, 2^22]", 4, 1 << 22, row_argmax, 1},
    {"column sum [2^20, 64]", 1 << 20, 64, column_sum, 1},
    {"softmax [4, 2^20]", 4, 1 << 20, softmax, 1},
    {"layer norm [8, 2^20]", 8, 1 << 20, layer_norm, 3},
    {"sum [1, 2^17]", 1, 1 << 17, row_sum, 1},
    {"sum [1, 2^20]", 1, 1 << 20, row_sum, 1},
    {"argmax [1, 2^22]", 1, 1 << 22, row_argmax, 1},
    {"softmax [1, 2^20]", 1, 1 << 20, softmax, 1},
    {"layer norm [1, 2^20]", 1, 1 << 20, layer_norm, 3},
    {"sum [4096, 4096]", 4096, 4096, row_sum, 1},
    {"sum [16384, 512]", 16384, 512, row_sum, 1},
    {"sum [131072, 64]", 131072, 64, row_sum, 1},
    {"softmax [32768, 128]", 32768, 128, softmax, 1},
    {"softmax [4096, 512]", 4096, 512, softmax, 1},
    {"softmax [8192, 1024]", 8192, 1024, softmax, 1},
    {"softmax [4096, 2048]", 4096, 2048, softmax, 1},
    {"softmax [4096, 8192]", 4096, 8192, softmax, 1},
    {"layer norm [1, 2048]", 1, 2048, layer_norm, 3},
    {"layer norm [64, 2048]", 64, 2048, layer_norm, 3},
    {"layer norm [16384, 128]", 16384, 128, layer_norm, 3},
    {"layer norm [2048, 768]", 2048, 768, layer_norm, 3},
    {"layer norm [2048, 2048]", 2048, 2048, layer_norm, 3},
    {"layer norm [2048, 8192]", 2048, 8192, layer_norm, 3},
};

/* The graph that a call of case k is, which *c runs. */
static device_graph *capture(rp_device *d, rp_stream *s, size_t k, char *memory, rp_compiled **c,
                             double *bytes) {
    rp_graph *g = rp_graph_new("reductions");
    device_graph *out = NULL;
    rp_buffer in[3] = {{RP_DTYPE_F32, 2, {cases[k].rows, cases[k].columns}, memory}};
    rp_tensor y = cases[k].trace(
        g, rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(cases[k].rows, cases[k].columns)));
    rp_shape shape = rp_tensor_shape(y);
    rp_buffer to = {.dtype = rp_tensor_dtype(y), .rank = shape.rank, .data = memory + 4ll * MOST};
    int64_t n = 1;
    for (uint32_t i = 0; i < shape.rank; i++) {
        (void)rp_dim_is_const(shape.dim[i], &to.dim[i]);
        n *= to.dim[i];
    }
    for (uint32_t i = 1; i < cases[k].n_inputs; i++)
        in[i] = (rp_buffer){RP_DTYPE_F32, 1, {cases[k].columns}, memory + 4 * i * cases[k].columns};
    *bytes = 4.0 * (double)(cases[k].rows * cases[k].columns + n);
    must(rp_graph_finish(g, &y, 1, &err));
    rp_compilation_config *cfg = rp_config_new();
    if (!cfg) exit(1);
    must(rp_config_set(cfg, "level=2", &err)); /* which is not the default of a host */
    must(rp_compile_on(d, g, cfg, c, &err));
    rp_config_free(cfg);
    must(device_stream_capture(s, &err));
    must(hal_capture_allow(device_stream_queue(s), memory, 8ull * MOST, "memory", &err));
    must(rp_compiled_run_on(*c, s, in, cases[k].n_inputs, &to, 1, &err));
    must(device_stream_finish(s, "reductions", &out, &err));
    rp_graph_free(g);
    return out;
}

static int by_value(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

int main(int argc, char **argv) {
    static double us[MOST_ROUNDS];
    const char *device = "cpu", *only = "";
    int rounds = 11, threads = 1;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            device = argv[++i];
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else
            rounds = atoi(argv[i]);
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 11;
    rp_device *d = NULL;
    rp_stream *s = NULL;
    void *memory = NULL;
    float *x = malloc(sizeof *x * MOST);
    must(rp_device_open(device, (uint32_t)threads, &d, &err));
    must(rp_stream_open(d, &s, &err));
    must(rp_device_alloc(d, 8ull * MOST, &memory, &err));
    if (!x) return 1;
    for (uint32_t i = 0; i < MOST; i++) x[i] = (float)(i * 2654435761u >> 8) * 0x1p-23f - 1.0f;
    must(rp_stream_copy(s, memory, x, sizeof *x * MOST, &err));
    must(rp_stream_synchronize(s, &err));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double bytes = 0;
        rp_compiled *c = NULL;
        if (!strstr(cases[k].what, only)) continue;
        device_graph *g = capture(d, s, k, memory, &c, &bytes);
        for (int r = -1; r < rounds; r++) { /* the first does not count */
            int64_t start = base_now_ns(), now = start;
            int n = 0;
            for (; n < CALLS && now - start < ROUND_NS; n++) {
                must(device_graph_launch(g, &err));
                if (strcmp(device, "cpu") == 0) now = base_now_ns();
            }
            must(rp_stream_synchronize(s, &err));
            if (r >= 0) us[r] = (double)(base_now_ns() - start) * 1e-3 / n;
        }
        qsort(us, (size_t)rounds, sizeof *us, by_value);
        printf("%-24s %10.2f us  (%.2f)  %8.1f GB/s\n", cases[k].what, us[rounds / 2], us[0],
               bytes * 1e-3 / us[rounds / 2]);
        (void)fflush(stdout);
        device_graph_free(g);
        rp_compiled_free(c);
    }
    rp_device_free(d, memory);
    rp_stream_close(s);
    rp_device_close(d);
    free(x);
    return 0;
}
