/* What rp_autograph_run adds to launching the graph that it replays, for one compiled graph of a small tensor: a state in place
 * and a borrowed output, then a copied input and each policy. Medians of rounds in turns, in ns a call.
 * Usage: autograph [rounds] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/stream.h"
#include "reprise/reprise.h"

enum { N = 64, CALLS = 20000, MOST_ROUNDS = 101, CASES = 5 };

static float x[N], scale[1] = {2}, out[N];
static rp_error err;

static void must(rp_status st) {
    if (st == RP_OK) return;
    fprintf(stderr, "autograph: %s\n", err.text);
    exit(1);
}

static rp_compiled *compile_on(rp_device *d) {
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("scale");
    rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N));
    rp_tensor y = rp_mul(in, rp_param(g, "scale", RP_DTYPE_F32, RP_SHAPE(1)));
    must(rp_graph_finish(g, &y, 1, &err));
    must(rp_compile_on(d, g, NULL, &c, &err));
    must(rp_compiled_bind(c, "scale", scale, &err));
    rp_graph_free(g);
    return c;
}

static rp_status call_scale(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *e) {
    rp_buffer y;
    rp_status st = rp_call_compiled(call, user, &args->item[0].tensor, 1, &y, 1, e);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static const rp_buffer in = {RP_DTYPE_F32, 1, {N}, x};

/* The same launches as a graph of their own. */
static device_graph *bare_graph(rp_stream *s, rp_compiled *c) {
    device_graph *g = NULL;
    rp_buffer y = {RP_DTYPE_F32, 1, {N}, out};
    must(device_stream_capture(s, &err));
    must(hal_capture_allow(device_stream_queue(s), x, sizeof x, "x", &err));
    must(hal_capture_allow(device_stream_queue(s), out, sizeof out, "out", &err));
    must(rp_compiled_run_on(c, s, &in, 1, &y, 1, &err));
    must(device_stream_finish(s, "bare", &g, &err));
    return g;
}

static rp_function *function_with(rp_autograph *a, rp_compiled *c, rp_output_policy p) {
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    rp_function *f = NULL;
    o.name = "scale";
    o.fn = call_scale;
    o.user = c;
    o.output = p;
    o.ring = p == RP_OUTPUT_RING ? 4 : 0;
    must(rp_function_new(a, &o, &f, &err));
    return f;
}

static double time_graph(device_graph *g) {
    int64_t start = base_now_ns();
    for (int i = 0; i < CALLS; i++) must(device_graph_launch(g, &err));
    return (double)(base_now_ns() - start) / CALLS;
}

static double time_run(rp_function *f, const rp_value *args) {
    int64_t start = base_now_ns();
    for (int i = 0; i < CALLS; i++) {
        rp_output *y = NULL;
        must(rp_autograph_run(f, args, &y, &err));
        rp_output_free(y);
    }
    return (double)(base_now_ns() - start) / CALLS;
}

static int by_value(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

int main(int argc, char **argv) {
    static const char *const names[CASES] = {"the graph alone", "state in place, borrowed output",
                                             "input copied, borrowed output", "input copied, ring",
                                             "input copied, output copied (default)"};
    static double ns[CASES][MOST_ROUNDS];
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 11;
    rp_device *d = NULL;
    rp_stream *s = NULL;
    rp_autograph *a = NULL;
    must(rp_device_open("cpu", 1, &d, &err));
    must(rp_stream_open(d, &s, &err));
    must(rp_autograph_create(s, NULL, &a, &err));
    rp_compiled *c = compile_on(d);
    device_graph *g = bare_graph(s, c);
    rp_value state = rp_value_state(in), copied = rp_value_tensor(in);
    rp_value args[2] = {rp_value_tuple(&state, 1), rp_value_tuple(&copied, 1)};
    rp_function *f[3];
    for (int p = 0; p < 3; p++) f[p] = function_with(a, c, (rp_output_policy)p);
    for (int r = 0; r < rounds; r++) {
        ns[0][r] = time_graph(g);
        ns[1][r] = time_run(f[RP_OUTPUT_BORROWED], &args[0]);
        ns[2][r] = time_run(f[RP_OUTPUT_BORROWED], &args[1]);
        ns[3][r] = time_run(f[RP_OUTPUT_RING], &args[1]);
        ns[4][r] = time_run(f[RP_OUTPUT_COPY], &args[1]);
    }
    for (int k = 0; k < CASES; k++) {
        qsort(ns[k], (size_t)rounds, sizeof ns[k][0], by_value);
        printf("%-40s %7.1f ns, %+7.1f\n", names[k], ns[k][rounds / 2],
               ns[k][rounds / 2] - ns[0][rounds / 2]);
    }
    device_graph_free(g);
    rp_autograph_destroy(a);
    rp_compiled_free(c);
    rp_stream_close(s);
    rp_device_close(d);
    return 0;
}
