/* What rp_autograph_run adds to launching the graph that it replays, for one compiled graph of a small tensor: a state in place
 * and a borrowed output, then a copied input and each policy. Medians of rounds in turns, in ns a call of the host. On a GPU the
 * function launches a kernel of its own, the graph is launched by the driver's own call, and the host waits for the GPU
 * between batches, which is not measured.
 * Usage: autograph [rounds] [--device cuda:0] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/stream.h"
#include "hal/cuda/code.h"
#include "reprise/reprise.h"

enum { N = 64, CALLS = 20000, BATCH = 100, MOST_ROUNDS = 101, CASES = 6 };

static float host_x[N], scale[1] = {2}, host_out[N];
static rp_error err;
static rp_stream *stream;
static rp_buffer in = {RP_DTYPE_F32, 1, {N}, host_x};
static float *out = host_out;

/* On a GPU, else of no use. */
static cuda_driver cu;
static void *kernel, *bare_exec, *native;

static void must(rp_status st) {
    if (st == RP_OK) return;
    fprintf(stderr, "autograph: %s\n", err.text);
    exit(1);
}

static rp_compiled *compile_on(rp_device *d) {
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("scale");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N));
    rp_tensor y = rp_mul(x, rp_param(g, "scale", RP_DTYPE_F32, RP_SHAPE(1)));
    must(rp_graph_finish(g, &y, 1, &err));
    must(rp_compile_on(d, g, NULL, &c, &err));
    must(rp_compiled_bind(c, "scale", scale, &err));
    rp_graph_free(g);
    return c;
}

/* --- on a GPU ---------------------------------------------------------------------------- */

static void check(int code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "autograph: %s gave code %d\n", what, code);
    exit(1);
}

static int launch_scale(const void *from, void *to) {
    long long n = N;
    void *parameters[] = {&from, &to, &n};
    return cu.launch(kernel, 1, 1, 1, N, 1, 1, 0, native, parameters, NULL);
}

static void open_kernel(void) {
    static const char text[] =
        "extern \"C\" __global__ void scale(const float *x, float *y, long long n) {\n"
        "    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * 2;\n"
        "}\n";
    const cuda_source source = {text, "scale.cu", "sm_90"};
    cuda_nvrtc rtc;
    char *cubin = NULL;
    size_t size = 0;
    void *module = NULL;
    must(cuda_driver_open(&cu, &err));
    must(cuda_nvrtc_open(&rtc, NULL, &err));
    must(cuda_compile(&rtc, &source, NULL, &cubin, &size, &err));
    native = rp_stream_handle(stream);
    must(cuda_code_load(&cu, cubin, &module, &err));
    check(cu.module_function(&kernel, module, "scale"), "cuModuleGetFunction");
    must(rp_device_alloc(rp_stream_device(stream), sizeof host_x, &in.data, &err));
    void *p = NULL;
    must(rp_device_alloc(rp_stream_device(stream), sizeof host_out, &p, &err));
    out = p;
    void *graph = NULL;
    check(cu.graph_new(&graph, 0), "cuGraphCreate");
    check(cu.capture_to(native, graph, NULL, NULL, 0, CUDA_CAPTURE_THREAD),
          "cuStreamBeginCaptureToGraph");
    check(launch_scale(in.data, out), "cuLaunchKernel");
    check(cu.capture_end(native, &graph), "cuStreamEndCapture");
    check(cu.graph_instantiate(&bare_exec, graph, 0), "cuGraphInstantiate");
    check(cu.graph_upload(bare_exec, native), "cuGraphUpload");
}

static rp_status launch_own(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *e) {
    rp_buffer y = in;
    (void)user;
    rp_status st = rp_call_output(call, &y, e);
    if (st == RP_OK)
        st = rp_call_check(call, "cuLaunchKernel", launch_scale(args->item[0].tensor.data, y.data),
                           e);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

/* ------------------------------------------------------------------------------------------- */

static rp_status call_scale(void *user, rp_call *call, const rp_value *args, rp_value *result,
                            rp_error *e) {
    rp_buffer y;
    rp_status st = rp_call_compiled(call, user, &args->item[0].tensor, 1, &y, 1, e);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

/* The same launches as a graph of their own. */
static device_graph *bare_graph(rp_stream *s, rp_compiled *c) {
    device_graph *g = NULL;
    rp_buffer y = {RP_DTYPE_F32, 1, {N}, out};
    must(device_stream_capture(s, &err));
    must(hal_capture_allow(device_stream_queue(s), host_x, sizeof host_x, "x", &err));
    must(hal_capture_allow(device_stream_queue(s), host_out, sizeof host_out, "out", &err));
    must(rp_compiled_run_on(c, s, &in, 1, &y, 1, &err));
    must(device_stream_finish(s, "bare", &g, &err));
    return g;
}

static rp_function *function_with(rp_autograph *a, rp_compiled *c, rp_output_policy p) {
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    rp_function *f = NULL;
    o.name = "scale";
    o.fn = c ? call_scale : launch_own;
    o.user = c;
    o.output = p;
    o.ring = p == RP_OUTPUT_RING ? 4 : 0;
    must(rp_function_new(a, &o, &f, &err));
    return f;
}

typedef struct timed {
    device_graph *g;               /* or */
    rp_function *f;                /* with */
    const rp_value *args, *others; /* in turns; NULL: args alone */
} timed;

static void call_once(const timed *t, bool odd) {
    rp_output *y = NULL;
    if (t->f) {
        must(rp_autograph_run(t->f, odd && t->others ? t->others : t->args, &y, &err));
        rp_output_free(y);
    } else if (t->g) {
        must(device_graph_launch(t->g, &err));
    } else {
        check(cu.graph_launch(bare_exec, native), "cuGraphLaunch");
    }
}

static double time_calls(const timed *t) {
    int64_t sum = 0;
    for (int i = 0; i < CALLS; i += BATCH) {
        int64_t start = base_now_ns();
        for (int k = 0; k < BATCH; k++) call_once(t, k & 1);
        sum += base_now_ns() - start;
        must(rp_stream_synchronize(stream, &err));
    }
    return (double)sum / CALLS;
}

static int by_value(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

int main(int argc, char **argv) {
    static const char *const names[CASES] = {"the graph alone",
                                             "state in place, borrowed output",
                                             "input copied, borrowed output",
                                             "input copied, ring",
                                             "input copied, output copied (default)",
                                             "the same, from two places in turns"};
    static double ns[CASES][MOST_ROUNDS];
    const char *device = "cpu";
    int rounds = 11;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            device = argv[++i];
        else
            rounds = atoi(argv[i]);
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 11;
    rp_device *d = NULL;
    rp_autograph *a = NULL;
    rp_compiled *c = NULL;
    device_graph *g = NULL;
    must(rp_device_open(device, 1, &d, &err));
    must(rp_stream_open(d, &stream, &err));
    must(rp_autograph_create(stream, NULL, &a, &err));
    if (rp_stream_handle(stream)) {
        open_kernel();
    } else {
        c = compile_on(d);
        g = bare_graph(stream, c);
    }
    rp_value state = rp_value_state(in), copied = rp_value_tensor(in), other = copied;
    other.tensor.data = out;
    rp_value args[] = {rp_value_tuple(&state, 1), rp_value_tuple(&copied, 1),
                       rp_value_tuple(&other, 1)};
    rp_function *f[3];
    for (int p = 0; p < 3; p++) f[p] = function_with(a, c, (rp_output_policy)p);
    const timed cases[CASES] = {{.g = g},
                                {.f = f[RP_OUTPUT_BORROWED], .args = &args[0]},
                                {.f = f[RP_OUTPUT_BORROWED], .args = &args[1]},
                                {.f = f[RP_OUTPUT_RING], .args = &args[1]},
                                {.f = f[RP_OUTPUT_COPY], .args = &args[1]},
                                {.f = f[RP_OUTPUT_COPY], .args = &args[1], .others = &args[2]}};
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < CASES; k++) ns[k][r] = time_calls(&cases[k]);
    for (int k = 0; k < CASES; k++) {
        qsort(ns[k], (size_t)rounds, sizeof ns[k][0], by_value);
        printf("%-40s %7.1f ns, %+7.1f\n", names[k], ns[k][rounds / 2],
               ns[k][rounds / 2] - ns[0][rounds / 2]);
    }
    device_graph_free(g);
    rp_autograph_destroy(a);
    rp_compiled_free(c);
    rp_stream_close(stream);
    if (kernel) rp_device_free(d, in.data);
    if (kernel) rp_device_free(d, out);
    rp_device_close(d);
    return 0;
}
