/* Concats of few and of many parts of [2048,1024], 8 MB of float32: what reads them element by element, row by row, or not at all, compiled (level 2) and op by
 * op (level 0) in turns. Medians of rounds, in ms, on two threads.
 * Usage: parts [rounds] */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "reprise/reprise.h"

enum { ROWS = 2048, COLUMNS = 1024, N = ROWS * COLUMNS, MOST_ROUNDS = 51, MOST_PARTS = 256 };

static float x[N], y[N];
static rp_error err;

static void must(rp_status st) {
    if (st == RP_OK) return;
    fprintf(stderr, "parts: %s\n", err.text);
    exit(1);
}

typedef enum reader { COPY, EXP, SOFTMAX, READERS } reader;

/* flat: along the only dim. */
static rp_graph *trace(int n, reader r, bool flat) {
    rp_graph *g = rp_graph_new("parts");
    rp_tensor a = rp_input(g, "x", RP_DTYPE_F32, flat ? RP_SHAPE(N) : RP_SHAPE(ROWS, COLUMNS));
    rp_tensor part[MOST_PARTS];
    const int axis = flat ? 0 : 1, all = flat ? N : COLUMNS, size = all / n;
    unsigned at = 1;
    for (int i = 0; i < n; i++) {
        at = at * 1664525u + 1013904223u;
        const int64_t from = (int64_t)((at >> 8) % (unsigned)(all - size + 1));
        part[i] = rp_slice(a, axis, from, from + size);
    }
    rp_tensor c = rp_concat(part, (uint32_t)n, axis);
    rp_tensor out = r == EXP ? rp_exp(c) : r == SOFTMAX ? rp_softmax(c, axis) : c;
    must(rp_graph_finish(g, &out, 1, &err));
    return g;
}

static rp_compiled *compile(const rp_graph *g, const char *level) {
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    must(rp_config_set(cfg, "threads=2", &err));
    must(rp_config_set(cfg, level, &err));
    must(rp_compile(g, cfg, &c, &err));
    rp_config_free(cfg);
    return c;
}

static double run(rp_compiled *c, bool flat) {
    rp_buffer in = {RP_DTYPE_F32, flat ? 1 : 2, {flat ? N : ROWS, COLUMNS}, x}, out = in;
    out.data = y;
    const int64_t began = base_now_ns();
    must(rp_compiled_run(c, &in, 1, &out, 1, &err));
    return (double)(base_now_ns() - began) * 1e-6;
}

static int ascending(const void *a, const void *b) {
    const double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

static void row(int n, reader r, bool flat, int rounds) {
    static const char *const names[] = {"copy", "exp", "softmax"};
    static const char *const levels[] = {"level=0", "level=2"};
    double ms[2][MOST_ROUNDS];
    rp_compiled *c[2];
    rp_graph *g = trace(n, r, flat);
    for (int k = 0; k < 2; k++) {
        c[k] = compile(g, levels[k]);
        (void)run(c[k], flat);
    }
    for (int i = 0; i < rounds; i++)
        for (int k = 0; k < 2; k++) ms[(k + i) % 2][i] = run(c[(k + i) % 2], flat);
    for (int k = 0; k < 2; k++) qsort(ms[k], (size_t)rounds, sizeof **ms, ascending);
    printf("| %s%s | %d | %.2f | %.2f (%.2f-%.2f) |\n", names[r], flat ? ", one dim" : "", n,
           ms[0][rounds / 2], ms[1][rounds / 2], ms[1][0], ms[1][rounds - 1]);
    fflush(stdout);
    for (int k = 0; k < 2; k++) rp_compiled_free(c[k]);
    rp_graph_free(g);
}

int main(int argc, char **argv) {
    static const int parts[] = {2, 4, 8, 64, 256};
    const int asked = argc > 1 ? atoi(argv[1]) : 9;
    const int rounds = asked < 1 ? 1 : asked > MOST_ROUNDS ? MOST_ROUNDS : asked;
    for (int i = 0; i < N; i++) x[i] = (float)(i % 97) * 0.01f;
    printf("| reader | parts | op by op | compiled |\n|---|---:|---:|---:|\n");
    for (int r = COPY; r < READERS; r++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            row(parts[i], (reader)r, false, rounds);
    for (int r = COPY; r <= EXP; r++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            row(parts[i], (reader)r, true, rounds);
    return 0;
}
