/* A backend of its own: prints each graph that it is given, as torch's custom backends do, and evaluates it node by node. It knows few ops, and says
 * so of each node: of a graph with others it is given the pieces that it takes, and inductor compiles the rest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reprise/reprise.h>

enum { N = 8 }; /* elements of every tensor here */

/* The value of a node, of element i. x: the inputs. */
static float value(const rp_graph *g, uint32_t node, const rp_buffer *x, int i) {
    rp_error err = {0};
    rp_node n = RP_NODE_INIT;
    rp_attr c = RP_ATTR_INIT;
    if (rp_graph_node(g, node, &n, &err) != RP_OK) return NAN;
    if (strcmp(n.op, "const") == 0)
        return rp_node_attr(g, node, "value", &c, &err) == RP_OK ? (float)c.f : NAN;
    for (uint32_t k = 0; n.n_in == 0 && k < rp_graph_count(g, RP_GRAPH_INPUTS); k++)
        if (rp_graph_at(g, RP_GRAPH_INPUTS, k) == node) return ((const float *)x[k].data)[i];
    float a = value(g, n.in[0], x, i), b = n.n_in > 1 ? value(g, n.in[1], x, i) : 0;
    return *n.op == 'a' ? a + b : *n.op == 'm' ? a * b : expf(a);
}

static rp_status run(void *self, const rp_buffer *inputs, uint32_t n_inputs, rp_buffer *outputs,
                     uint32_t n_outputs, rp_error *err) {
    const rp_graph *g = self;
    (void)n_inputs, (void)err;
    for (uint32_t o = 0; o < n_outputs; o++)
        for (int i = 0; i < N; i++)
            ((float *)outputs[o].data)[i] =
                value(g, rp_graph_at(g, RP_GRAPH_OUTPUTS, o), inputs, i);
    return RP_OK;
}

static bool is_known(const rp_node *n) {
    static const char *const known[] = {"input", "const", "add", "mul", "exp"};
    int64_t size = N;
    bool full = n->shape.rank == 1 && rp_dim_is_const(n->shape.dim[0], &size) && size == N;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(n->op, known[i]) == 0)
            return n->dtype == RP_DTYPE_F32 && (full || n->shape.rank == 0);
    return false;
}

static rp_status supports(void *user, const rp_graph *g, uint32_t node, rp_error *err) {
    rp_node n = RP_NODE_INIT;
    rp_status st = rp_graph_node(g, node, &n, err);
    (void)user;
    if (st != RP_OK || is_known(&n)) return st;
    err->code = RP_UNSUPPORTED;
    (void)snprintf(err->text, sizeof err->text, "no %s of %s here", n.op, rp_dtype_name(n.dtype));
    return RP_UNSUPPORTED;
}

static rp_status compile(void *user, const rp_graph *g, const rp_backend_options *options,
                         rp_callable *out, rp_error *err) {
    (void)options;
    printf("%s compiles @%s:\n", (const char *)user, rp_graph_name(g));
    for (uint32_t i = 0; i < rp_graph_count(g, RP_GRAPH_NODES); i++) {
        rp_node n = RP_NODE_INIT;
        rp_status st = rp_graph_node(g, i, &n, err);
        if (st != RP_OK) return st;
        printf("  %%%u = %s", i, n.op);
        for (uint32_t k = 0; k < n.n_in; k++) printf("%s %%%u", k ? "," : "", n.in[k]);
        printf("%s%s\n", n.name ? " " : "", n.name ? n.name : "");
    }
    *out = (rp_callable){.run = run, .self = (void *)(uintptr_t)g};
    return RP_OK;
}

/* exp(2 x + y) */
static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_exp(rp_add(rp_mul_scalar(x, 2), y)));
    return RP_OK;
}

/* exp(tanh(x y + x)) + y: all but the tanh is worth two calls */
static rp_status mixed(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    rp_tensor middle = rp_tanh(rp_add(rp_mul(x, y), x));
    *result = rp_jit_value(call, rp_add(rp_exp(middle), y));
    return RP_OK;
}

static rp_status call(const rp_jit_options *o, bool plus, rp_error *err) {
    float x[N], y[N], worst = 0;
    rp_jit *f = NULL;
    rp_output *out = NULL;
    const rp_value *v = NULL;
    for (int i = 0; i < N; i++) x[i] = y[i] = 0.125f * (float)i;
    rp_buffer bx = {RP_DTYPE_F32, 1, {N}, x}, by = {RP_DTYPE_F32, 1, {N}, y};
    rp_value item[] = {rp_value_tensor(bx), rp_value_tensor(by)}, args = rp_value_tuple(item, 2);
    rp_status st = rp_jit_new(o, &f, err);
    if (st == RP_OK) st = rp_jit_run(f, &args, &out, err);
    if (st == RP_OK) st = rp_output_value(out, &v, err);
    for (int i = 0; st == RP_OK && i < N; i++) {
        float want = plus ? expf(2 * x[i] + y[i]) : expf(tanhf(x[i] * y[i] + x[i])) + y[i];
        worst = fmaxf(worst, fabsf(((const float *)v->tensor.data)[i] - want) / (1 + want));
    }
    if (st == RP_OK)
        printf("%s: %s%s%s\n", o->name, worst < 1e-6f ? "right" : "wrong",
               *rp_output_reason(out) ? "; " : "", rp_output_reason(out));
    rp_output_free(out);
    rp_jit_free(f);
    return st == RP_OK && worst >= 1e-6f ? RP_INTERNAL : st;
}

int main(void) {
    static char who[] = "tiny";
    rp_error err = {0};
    rp_jit_options first = RP_JIT_OPTIONS(forward), second = RP_JIT_OPTIONS(mixed);
    rp_backend_desc tiny = {
        .size = sizeof tiny, .name = who, .compile = compile, .supports = supports, .user = who};
    rp_compilation_config *config = rp_config_new();
    first.config = second.config = config;
    rp_log_set_callback(NULL, NULL); /* the reason is printed below */
    rp_status st = config ? rp_backend_register(&tiny, &err) : RP_NOMEM;
    if (st == RP_OK) st = rp_config_set(config, "backend=tiny", &err);
    if (st == RP_OK) st = call(&first, true, &err);
    if (st == RP_OK) st = call(&second, false, &err);
    if (st != RP_OK) fprintf(stderr, "backend: %s\n", err.text);
    rp_config_free(config);
    return rp_status_exit_code(st);
}
