/* Registers an op of its own that splits the graph, and shows that the pieces around it are compiled while the op
 * runs as it was written. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <reprise/reprise.h>

enum { ROWS = 3, COLUMNS = 8 };

static int calls;

/* Running sum along each row: something that no built-in op does. args: x, then the result. */
static rp_status cumsum(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    const float *x = args[0].data;
    float *y = args[n_args - 1].data;
    int64_t rows = args[0].dim[0], columns = args[0].dim[1];
    (void)call, (void)err;
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (int64_t i = 0; i < columns; i++) y[r * columns + i] = sum += x[r * columns + i];
    }
    calls++;
    return RP_OK;
}

/* y = exp(cumsum(2 x)) */
static rp_status trace(rp_graph **out, rp_error *err) {
    rp_graph *g = rp_graph_new("around");
    if (!g) return RP_NOMEM;
    rp_shape shape = RP_SHAPE(rp_symbol(g, "T", 1, 64), COLUMNS);
    rp_tensor x = rp_mul_scalar(rp_input(g, "x", RP_DTYPE_F32, shape), 2.0);
    rp_tensor y = rp_exp(rp_custom(g, "example::cumsum", &x, 1, RP_DTYPE_F32, shape));
    rp_status st = rp_graph_finish(g, &y, 1, err);
    if (st == RP_OK)
        *out = g;
    else
        rp_graph_free(g);
    return st;
}

static rp_status run(rp_compiled *c, rp_error *err) {
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = 0.01f * (float)(i + 1);
    rp_buffer in = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x},
              out = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, y};
    rp_status st = rp_compiled_run(c, &in, 1, &out, 1, err);
    double worst = 0.0, sum = 0.0;
    for (int i = 0; st == RP_OK && i < ROWS * COLUMNS; i++) {
        sum = (i % COLUMNS ? sum : 0.0) + 2.0 * (double)x[i];
        worst = fmax(worst, fabs((double)y[i] / exp(sum) - 1.0));
    }
    if (st != RP_OK) return st;
    printf("largest relative difference %.1g\n", worst);
    return worst < 1e-5 ? RP_OK : RP_INTERNAL;
}

int main(void) {
    rp_error err = {0};
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_op_desc op = {
        .size = sizeof op, .name = "example::cumsum", .splitting = true, .cpu = cumsum};
    rp_compilation_config *cfg = rp_config_new();
    rp_status st = cfg ? rp_op_register(&op, &err) : RP_NOMEM;
    if (st == RP_OK) st = rp_config_set(cfg, "level=3", &err);
    if (st == RP_OK) st = trace(&g, &err);
    if (st == RP_OK) st = rp_compile(g, cfg, &c, &err);
    if (st == RP_OK) st = run(c, &err);
    if (st == RP_OK) st = rp_compiled_get_info(c, &info, &err);
    if (st == RP_OK)
        printf("%u pieces, %u of them compiled; the op was called %d time\n", info.pieces,
               info.compiled, calls);
    else
        fprintf(stderr, "custom_op: %s\n", err.text);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st == RP_OK && (info.pieces != 3 || info.compiled != 2 || calls != 1)
               ? 1
               : rp_status_exit_code(st);
}
