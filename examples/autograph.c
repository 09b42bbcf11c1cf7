/* A transformer layer under the automatic graph manager: the first call runs and captures, the second replays, a longer one
 * grows the memory. Prints what MagiCompiler's documentation shows for its SimpleTransformerLayer, and then what memory
 * that is reserved, the default, changes about it. Usage: autograph [device] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <reprise/reprise.h>

enum { BATCH = 2, HIDDEN = 1024, HEADS = 8, HEAD = HIDDEN / HEADS, LONGEST = 1024 };

/* softmax(q k^T / sqrt(d)) v for each head. */
static rp_tensor attend(rp_tensor q, rp_tensor k, rp_tensor v, rp_dim len) {
    static const int heads_first[] = {0, 2, 1, 3};
    rp_shape split = RP_SHAPE(BATCH, len, HEADS, HEAD), whole = RP_SHAPE(BATCH, len, HIDDEN);
    q = rp_permute(rp_reshape(q, split), heads_first, 4);
    k = rp_permute(rp_reshape(k, split), heads_first, 4);
    v = rp_permute(rp_reshape(v, split), heads_first, 4);
    rp_tensor scores = rp_mul_scalar(rp_matmul(q, k, true), 1.0 / sqrt(HEAD));
    rp_tensor mixed = rp_matmul(rp_softmax(scores, -1), v, false);
    return rp_reshape(rp_permute(mixed, heads_first, 4), whole);
}

/* linear(layer_norm(x + self_attn(x, x, x))), without biases */
static rp_graph *trace_layer(rp_error *err) {
    rp_graph *g = rp_graph_new("layer");
    if (!g) return NULL;
    rp_dim len = rp_symbol(g, "S", 1, LONGEST);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(BATCH, len, HIDDEN));
    rp_tensor w_in = rp_param(g, "in_proj", RP_DTYPE_F32, RP_SHAPE(3 * HIDDEN, HIDDEN));
    rp_tensor w_out = rp_param(g, "out_proj", RP_DTYPE_F32, RP_SHAPE(HIDDEN, HIDDEN));
    rp_tensor w = rp_param(g, "linear", RP_DTYPE_F32, RP_SHAPE(HIDDEN, HIDDEN));
    rp_tensor qkv = rp_linear(x, w_in), part[3];
    for (int i = 0; i < 3; i++) part[i] = rp_slice(qkv, 2, i * HIDDEN, (i + 1) * HIDDEN);
    rp_tensor h = rp_add(x, rp_linear(attend(part[0], part[1], part[2], len), w_out));
    rp_tensor mean = rp_mean(h, -1, true), variance = rp_var(h, -1, true, 0);
    h = rp_mul(rp_sub(h, mean), rp_rsqrt(rp_add_scalar(variance, 1e-5)));
    rp_tensor y = rp_linear(h, w);
    if (rp_graph_finish(g, &y, 1, err) == RP_OK) return g;
    rp_graph_free(g);
    return NULL;
}

/* What the manager captures. */
static rp_status forward(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_buffer y;
    rp_status st = rp_call_compiled(call, user, &args->item[0].tensor, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static float *random_floats(size_t n, unsigned seed) {
    float *p = malloc(n * sizeof *p);
    if (!p) exit(1);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) / (float)(1 << 24) - 0.5f) * 0.1f;
    }
    return p;
}

static rp_status call_layer(rp_autograph *graphs, rp_function *layer, float *x, int64_t len,
                            const char *what, rp_error *err) {
    rp_value in = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 3, {BATCH, len, HIDDEN}, x});
    rp_value args = rp_value_tuple(&in, 1);
    rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
    const rp_value *value = NULL;
    rp_output *y = NULL;
    rp_status st = rp_autograph_run(layer, &args, &y, err);
    if (st == RP_OK) st = rp_output_value(y, &value, err);
    if (st == RP_OK) st = rp_autograph_get_info(graphs, &info, err);
    if (st == RP_OK) {
        const int64_t *dim = value->tensor.dim;
        printf("%s: Output shape = [%d, %d, %d]\n", what, (int)dim[0], (int)dim[1], (int)dim[2]);
        printf("Cached graphs count: %d\n", (int)info.graph_count);
    }
    rp_output_free(y);
    return st;
}

/* The three calls, and the state after them. */
static rp_status show(rp_stream *stream, rp_compiled *c, rp_growth growth, float *x,
                      rp_error *err) {
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    rp_function_options fo = RP_FUNCTION_OPTIONS_INIT;
    rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
    rp_autograph *graphs = NULL;
    rp_function *layer = NULL;
    char *text = NULL;
    o.growth = growth;
    fo.name = "SimpleTransformerLayer.forward";
    fo.fn = forward;
    fo.user = c;
    fo.layer = 0;
    rp_status st = rp_autograph_create(stream, &o, &graphs, err);
    if (st == RP_OK) st = rp_function_new(graphs, &fo, &layer, err);
    if (st == RP_OK) st = call_layer(graphs, layer, x, 512, "First run (graph capture)", err);
    if (st == RP_OK) st = call_layer(graphs, layer, x + 1, 512, "Second run (graph replay)", err);
    if (st == RP_OK) st = call_layer(graphs, layer, x, 1024, "Third run (tensor expansion)", err);
    if (st == RP_OK) st = rp_autograph_get_info(graphs, &info, err);
    if (st == RP_OK) st = rp_autograph_text(graphs, &text, err);
    if (st == RP_OK)
        printf("Static tensor memory usage: %.2f MB\n\nCUDA Graph Cache Details:\n%s\n",
               (double)info.tensor_mem_bytes / (1 << 20), text);
    rp_free(text);
    rp_autograph_destroy(graphs);
    return st;
}

int main(int argc, char **argv) {
    rp_error err = {0};
    rp_device *device = NULL;
    rp_stream *stream = NULL;
    rp_compiled *c = NULL;
    rp_graph *g = trace_layer(&err);
    rp_compilation_config *cfg = rp_config_new();
    float *w = random_floats((size_t)HIDDEN * HIDDEN * 5, 1);
    float *x = random_floats((size_t)BATCH * LONGEST * HIDDEN + 1, 2);
    rp_status st = g && cfg ? rp_config_set(cfg, "level=2", &err) : RP_INVALID;
    if (st == RP_OK) st = rp_device_open(argc > 1 ? argv[1] : "cpu", 0, &device, &err);
    if (st == RP_OK) st = rp_stream_open(device, &stream, &err);
    if (st == RP_OK) st = rp_compile_on(device, g, cfg, &c, &err);
    if (st == RP_OK) st = rp_compiled_bind(c, "in_proj", w, &err);
    if (st == RP_OK) st = rp_compiled_bind(c, "out_proj", w + 3 * HIDDEN * HIDDEN, &err);
    if (st == RP_OK) st = rp_compiled_bind(c, "linear", w + 4 * HIDDEN * HIDDEN, &err);
    if (st == RP_OK) st = show(stream, c, RP_GROWTH_EXACT, x, &err);
    if (st == RP_OK) printf("\nWith reserved memory, the default, no graph becomes invalid:\n");
    if (st == RP_OK) st = show(stream, c, RP_GROWTH_RESERVE, x, &err);
    if (st != RP_OK) fprintf(stderr, "autograph: %s\n", err.text);
    rp_compiled_free(c);
    rp_stream_close(stream);
    rp_device_close(device);
    rp_graph_free(g);
    rp_config_free(cfg);
    free(w);
    free(x);
    return rp_status_exit_code(st);
}
