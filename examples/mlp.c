/* Traces a small network with a symbolic batch size, compiles it for this machine, runs it with two batch sizes
 * and compares with plain C. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <reprise/reprise.h>

enum { IN = 64, HIDDEN = 96, OUT = 10, MAX_BATCH = 32 };

/* y = gelu(x W1^T) W2^T */
static rp_graph *trace_mlp(rp_error *err) {
    rp_graph *g = rp_graph_new("mlp");
    if (!g) return NULL;
    rp_dim batch = rp_symbol(g, "B", 1, MAX_BATCH);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(batch, IN));
    rp_tensor w1 = rp_param(g, "w1", RP_DTYPE_F32, RP_SHAPE(HIDDEN, IN));
    rp_tensor w2 = rp_param(g, "w2", RP_DTYPE_F32, RP_SHAPE(OUT, HIDDEN));
    rp_tensor y = rp_linear(rp_gelu_tanh(rp_linear(x, w1)), w2);
    if (rp_graph_finish(g, &y, 1, err) == RP_OK) return g;
    rp_graph_free(g);
    return NULL;
}

static float w1[HIDDEN * IN], w2[OUT * HIDDEN], x[MAX_BATCH * IN], y[MAX_BATCH * OUT];

static void fill(float *p, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
}

static float by_hand(int row, int out) {
    double sum = 0.0;
    for (int h = 0; h < HIDDEN; h++) {
        double a = 0.0;
        for (int i = 0; i < IN; i++) a += (double)x[row * IN + i] * w1[h * IN + i];
        sum += 0.5 * a * (1.0 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))) *
               w2[out * HIDDEN + h];
    }
    return (float)sum;
}

static rp_status run(rp_compiled *c, int batch, rp_error *err) {
    rp_buffer in = {RP_DTYPE_F32, 2, {batch, IN}, x}, out = {RP_DTYPE_F32, 2, {batch, OUT}, y};
    rp_status st = rp_compiled_run(c, &in, 1, &out, 1, err);
    float worst = 0.0f;
    for (int i = 0; st == RP_OK && i < batch * OUT; i++) {
        float d = fabsf(y[i] - by_hand(i / OUT, i % OUT));
        if (!(d <= worst)) worst = d;
    }
    if (st == RP_OK) printf("batch %2d: largest difference to plain C %g\n", batch, (double)worst);
    if (st == RP_OK && !(worst < 1e-4f)) exit(1);
    return st;
}

int main(void) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_graph *g = trace_mlp(&err);
    rp_compilation_config *cfg = rp_config_new();
    rp_status st = g && cfg ? rp_config_set(cfg, "level=2", &err) : RP_INVALID;
    if (st == RP_OK) st = rp_compile(g, cfg, &c, &err);
    fill(w1, HIDDEN * IN, 1);
    fill(w2, OUT * HIDDEN, 2);
    fill(x, MAX_BATCH * IN, 3);
    if (st == RP_OK) st = rp_compiled_bind(c, "w1", w1, &err);
    if (st == RP_OK) st = rp_compiled_bind(c, "w2", w2, &err);
    if (st == RP_OK) st = run(c, 1, &err);
    if (st == RP_OK) st = run(c, 17, &err);
    if (st == RP_OK) st = rp_compiled_get_info(c, &info, &err);
    if (st == RP_OK) {
        printf("%u kernels, %u compiler runs, %u from the cache\n", info.kernels, info.compiles,
               info.cache_hits);
    } else {
        fprintf(stderr, "mlp: %s\n", err.text);
    }
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return rp_status_exit_code(st);
}
