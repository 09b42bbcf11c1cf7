/* A transformer layer under the automatic graph manager: the first call runs and captures, the second replays, a longer one
 * grows the memory. Prints what MagiCompiler's documentation shows for its SimpleTransformerLayer, and then what memory
 * that is reserved, the default, changes about it. Usage: autograph [device] */
#include <stdio.h>
#include <stdlib.h>

#include <reprise/reprise.h>

enum { BATCH = 2, HIDDEN = 1024, HEADS = 8, HEAD = HIDDEN / HEADS, LONGEST = 1024 };
enum { IN, OUT, NORM, LINEAR, N_PARAMS };

/* Of queries, keys and values one behind the other, head by head. */
static rp_tensor attend(rp_tensor qkv, rp_dim len) {
    static const int heads_first[] = {0, 2, 1, 3};
    rp_tensor p[3];
    for (int i = 0; i < 3; i++) {
        p[i] = rp_slice(qkv, 2, i * HIDDEN, (i + 1) * HIDDEN);
        p[i] = rp_permute(rp_reshape(p[i], RP_SHAPE(BATCH, len, HEADS, HEAD)), heads_first, 4);
    }
    rp_tensor y = rp_scaled_dot_product_attention(&(rp_sdpa_args){.q = p[0], .k = p[1], .v = p[2]});
    return rp_reshape(rp_permute(y, heads_first, 4), RP_SHAPE(BATCH, len, HIDDEN));
}

static const struct {
    const char *weight, *bias; /* [rows, columns], of a norm [rows]; [rows] */
    int rows, columns;
} params[N_PARAMS] = {{"self_attn.in_proj_weight", "self_attn.in_proj_bias", 3 * HIDDEN, HIDDEN},
                      {"self_attn.out_proj.weight", "self_attn.out_proj.bias", HIDDEN, HIDDEN},
                      {"layer_norm.weight", "layer_norm.bias", HIDDEN, 1},
                      {"linear.weight", "linear.bias", HIDDEN, HIDDEN}};

/* linear(layer_norm(x + self_attn(x, x, x))) */
static rp_graph *trace_layer(rp_error *err) {
    rp_graph *g = rp_graph_new("layer");
    if (!g) return NULL;
    rp_dim len = rp_symbol(g, "S", 1, LONGEST);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(BATCH, len, HIDDEN)), w[4], b[4];
    for (int i = 0; i < N_PARAMS; i++) {
        rp_shape rows = RP_SHAPE(params[i].rows), all = RP_SHAPE(params[i].rows, params[i].columns);
        w[i] = rp_param(g, params[i].weight, RP_DTYPE_F32, i == NORM ? rows : all);
        b[i] = rp_param(g, params[i].bias, RP_DTYPE_F32, rows);
    }
    rp_tensor mixed = attend(rp_add(rp_linear(x, w[IN]), b[IN]), len);
    rp_tensor h = rp_add(x, rp_add(rp_linear(mixed, w[OUT]), b[OUT]));
    rp_tensor y = rp_linear(rp_layer_norm(h, w[NORM], b[NORM], 1e-5), w[LINEAR]);
    y = rp_add(y, b[LINEAR]);
    if (rp_graph_finish(g, &y, 1, err) == RP_OK) return g;
    rp_graph_free(g);
    return NULL;
}

static bool is_available(void *layer) {
    return layer != NULL;
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
    for (size_t i = 0; i < n; i++, seed = seed * 1664525u + 1013904223u)
        p[i] = ((float)(seed >> 8) / (float)(1 << 24) - 0.5f) * 0.1f;
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
    fo.enable_if = is_available;
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
    float *w = random_floats((size_t)HIDDEN * (5 * HIDDEN + 7), 1), *next = w;
    float *x = random_floats((size_t)BATCH * LONGEST * HIDDEN + 1, 2);
    rp_status st = g ? rp_device_open(argc > 1 ? argv[1] : "cpu", 0, &device, &err) : RP_INVALID;
    if (st == RP_OK) st = rp_stream_open(device, &stream, &err);
    if (st == RP_OK) st = rp_compile_on(device, g, NULL, &c, &err);
    for (int i = 0; i < N_PARAMS && st == RP_OK; i++) {
        st = rp_compiled_bind(c, params[i].weight, next, &err);
        next += params[i].rows * (params[i].columns + 1);
        if (st == RP_OK) st = rp_compiled_bind(c, params[i].bias, next - params[i].rows, &err);
    }
    if (st == RP_OK) st = show(stream, c, RP_GROWTH_EXACT, x, &err);
    if (st == RP_OK) printf("\nWith reserved memory, the default, no graph becomes invalid:\n");
    if (st == RP_OK) st = show(stream, c, RP_GROWTH_RESERVE, x, &err);
    if (st != RP_OK) fprintf(stderr, "autograph: %s\n", err.text);
    rp_compiled_free(c);
    rp_stream_close(stream);
    rp_device_close(device);
    rp_graph_free(g);
    free(w);
    free(x);
    return rp_status_exit_code(st);
}
