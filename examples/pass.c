/* Two passes of its own over a graph. A pattern: the softmax that is written as exp(x) / sum(exp(x)), which overflows where a logit is
 * above 88, becomes the one that does not. Code: a division by a constant becomes a product. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <reprise/reprise.h>

enum { ROWS = 2, COLUMNS = 4 };

static rp_tensor written_out(void *user, rp_graph *g, const rp_tensor *in) {
    rp_tensor e = rp_exp(in[0]);
    (void)user, (void)g;
    return rp_div(e, rp_sum(e, -1, true));
}

static rp_tensor safe(void *user, rp_graph *g, const rp_tensor *in) {
    (void)user, (void)g;
    return rp_softmax(in[0], -1);
}

/* As torch's graph passes do: walk the nodes, replace some. */
static rp_status divisions(void *user, rp_rewrite *r, rp_error *err) {
    const rp_graph *g = rp_rewrite_graph(r);
    rp_status st = RP_OK;
    double by;
    (void)user;
    for (uint32_t i = 0; st == RP_OK && i < rp_graph_count(g, RP_GRAPH_NODES); i++) {
        rp_node n = RP_NODE_INIT;
        st = rp_graph_node(g, i, &n, err);
        if (st != RP_OK || strcmp(n.op, "div") != 0) continue;
        rp_tensor a = rp_rewrite_value(r, n.in[0]), b = rp_rewrite_value(r, n.in[1]);
        if (rp_tensor_number(b, &by) && by != 0)
            st = rp_rewrite_replace(r, i, rp_mul_scalar(a, 1 / by), err);
    }
    return st;
}

static rp_status add_passes(rp_error *err) {
    static const char *const types[] = {"f32[T,D]"};
    const rp_pass_desc pattern = {.size = sizeof pattern,
                                  .name = "safe_softmax",
                                  .types = types,
                                  .n_types = 1,
                                  .pattern = written_out,
                                  .replacement = safe};
    const rp_pass_desc code = {
        .size = sizeof code, .name = "no_division", .uuid = "1", .run = divisions};
    rp_status st = rp_pass_register(&pattern, err);
    return st == RP_OK ? rp_pass_register(&code, err) : st;
}

/* softmax(x / 3), of any number of rows */
static rp_status trace(rp_graph **out, rp_error *err) {
    rp_graph *g = rp_graph_new("attention");
    if (!g) return RP_NOMEM;
    rp_shape shape = RP_SHAPE(rp_symbol(g, "T", 1, 64), COLUMNS);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape);
    rp_tensor scaled = rp_div(x, rp_const(g, RP_DTYPE_F32, 3)), y = written_out(NULL, g, &scaled);
    rp_status st = rp_graph_finish(g, &y, 1, err);
    if (st == RP_OK)
        *out = g;
    else
        rp_graph_free(g);
    return st;
}

static rp_status run(const rp_graph *g, const char *setting, float *y, rp_error *err) {
    rp_compilation_config *cfg = rp_config_new();
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    float x[ROWS * COLUMNS] = {1, 2, 3, 4, 100, 200, 300, 400};
    rp_buffer in = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x},
              out = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, y};
    rp_status st = cfg ? rp_config_set(cfg, "level=2", err) : RP_NOMEM;
    if (st == RP_OK && setting) st = rp_config_set(cfg, setting, err);
    if (st == RP_OK) st = rp_compile(g, cfg, &c, err);
    if (st == RP_OK) st = rp_compiled_run(c, &in, 1, &out, 1, err);
    if (st == RP_OK) st = rp_compiled_get_info(c, &info, err);
    printf("%s\n", setting ? setting : "all passes");
    for (uint32_t i = 0; st == RP_OK && i < info.n_passes; i++)
        if (strcmp(info.passes[i].name, rp_pass_name(0)) == 0 ||
            strcmp(info.passes[i].name, rp_pass_name(1)) == 0)
            printf("  pass %s: %u match\n", info.passes[i].name, info.passes[i].matches);
    for (int r = 0; st == RP_OK && r < ROWS; r++) {
        double last = (double)y[r * COLUMNS + COLUMNS - 1];
        printf(isnan(last) ? "  row %d ends with no number\n" : "  row %d ends with %.4f\n", r,
               last);
    }
    rp_compiled_free(c);
    rp_config_free(cfg);
    return st;
}

int main(void) {
    rp_error err = {0}, unknown = {0};
    rp_graph *g = NULL;
    float with[ROWS * COLUMNS], without[ROWS * COLUMNS];
    rp_status st = add_passes(&err);
    if (st == RP_OK) st = trace(&g, &err);
    if (st == RP_OK) st = run(g, NULL, with, &err);
    if (st == RP_OK) st = run(g, "inductor_passes.safe_softmax=false", without, &err);
    if (st != RP_OK) fprintf(stderr, "pass: %s\n", err.text);
    bool right = st == RP_OK && fabsf(with[3] - without[3]) < 1e-6F && fabsf(with[7] - 1) < 1e-6F &&
                 isnan(without[7]);
    if (right) right = run(g, "inductor_passes.safe_sofmax=false", with, &unknown) == RP_CONFIG;
    printf("  %s\n", unknown.text);
    rp_graph_free(g);
    return st == RP_OK && !right ? 1 : rp_status_exit_code(st);
}
