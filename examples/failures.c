/* What keeps a function from being one graph, case by case as guides to torch.compile list it, and what happens: with a break, with fullgraph
 * (a break is an error), with suppress_errors (what cannot be compiled runs op by op), and the form that needs none of it. */
#include <stdio.h>

#include <reprise/reprise.h>

enum { ROWS = 4, DIM = 8, ARGS = 3 };

/* args of all: (x[ROWS, DIM], state[ROWS, DIM], a number) */
#define FUNCTION(name)                                                                        \
    static rp_status name(void *user, rp_jit_call *call, const rp_value *args, rp_value *out, \
                          rp_error *err)

static rp_tensor total(rp_tensor x) {
    return rp_sum(rp_sum(x, -1, false), -1, false);
}

FUNCTION(control_flow) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    if (rp_item(total(x)) > 1) x = rp_mul_scalar(x, 0.5);
    *out = rp_jit_value(call, x);
    return RP_OK;
}

static void halved(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                   void *user) {
    (void)g, (void)n, (void)n_out, (void)user;
    out[0] = rp_mul_scalar(in[0], 0.5);
}
static void kept(rp_graph *g, const rp_tensor *in, uint32_t n, rp_tensor *out, uint32_t n_out,
                 void *user) {
    (void)g, (void)n, (void)n_out, (void)user;
    out[0] = in[0];
}
FUNCTION(control_flow_in_the_graph) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), y;
    rp_tensor more = rp_gt(total(x), rp_const(rp_jit_graph(call), RP_DTYPE_F32, 1));
    (void)user, (void)err;
    rp_cond(more, halved, kept, NULL, &x, 1, &y, 1);
    *out = rp_jit_value(call, y);
    return RP_OK;
}

FUNCTION(printing) {
    rp_tensor x = rp_exp(rp_jit_tensor(call, &args->item[0]));
    (void)user, (void)err;
    rp_jit_break(call, "builtin: print");
    printf("  (printed by the function)\n");
    *out = rp_jit_value(call, rp_add_scalar(x, 1));
    return RP_OK;
}

FUNCTION(non_tensor) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    for (int64_t i = 0; i < args->item[2].as.integer; i++) x = rp_tanh(x);
    *out = rp_jit_value(call, x);
    return RP_OK;
}

FUNCTION(modified_argument) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    *out = rp_jit_value(call, rp_update(x, rp_add_scalar(x, 1)));
    return RP_OK;
}

FUNCTION(modified_state) {
    rp_tensor state = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    *out = rp_jit_value(call, rp_update(state, rp_add_scalar(state, 1)));
    return RP_OK;
}

FUNCTION(host_library) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    rp_buffer b = rp_jit_read(call, x);
    (void)user, (void)err;
    *out = rp_jit_value(call, rp_mul_scalar(x, b.data ? ((const float *)b.data)[1] : 0));
    return RP_OK;
}

FUNCTION(custom_op_not_registered) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    *out = rp_jit_value(
        call, rp_custom(rp_jit_graph(call), "mine::norm", &x, 1, RP_DTYPE_F32, rp_tensor_shape(x)));
    return RP_OK;
}

/* Two calls; to non_tensor with two numbers. */
static void try(const char *how, const rp_jit_options *o) {
    float x[ROWS * DIM] = {0, 0.75f, 2}, state[ROWS * DIM] = {0}, y[ROWS * DIM];
    rp_buffer bx = {RP_DTYPE_F32, 2, {ROWS, DIM}, x}, bs = bx, by = bx;
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_info info = RP_JIT_INFO_INIT;
    bs.data = state;
    by.data = y;
    rp_status st = rp_jit_new(o, &f, &err);
    for (int i = 0; st == RP_OK && i < 2; i++) {
        rp_value item[] = {rp_value_tensor(bx), rp_value_state(bs),
                           rp_value_int(o->fn == non_tensor ? i + 1 : 1)};
        rp_value args = rp_value_tuple(item, ARGS);
        st = rp_jit_run_into(f, &args, &by, 1, &err);
    }
    if (st == RP_OK) st = rp_jit_get_info(f, &info, &err);
    if (st == RP_OK)
        printf("  %s: %u entries, %u graphs, %u breaks, %u calls op by op; y[1] = %g\n", how,
               info.entries, (unsigned)info.graphs, (unsigned)info.breaks, (unsigned)info.eager,
               (double)y[1]);
    else
        printf("  %s: %s\n", how, err.text);
    rp_jit_free(f);
}

int main(void) {
    static const rp_jit_options cases[] = {
        RP_JIT_OPTIONS(control_flow),      RP_JIT_OPTIONS(control_flow_in_the_graph),
        RP_JIT_OPTIONS(printing),          RP_JIT_OPTIONS(non_tensor),
        RP_JIT_OPTIONS(modified_argument), RP_JIT_OPTIONS(modified_state),
        RP_JIT_OPTIONS(host_library),      RP_JIT_OPTIONS(custom_op_not_registered)};
    rp_log_set_callback(NULL, NULL); /* errors are printed below */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_jit_options o = cases[i];
        printf("%s\n", o.name);
        try("as it is", &o);
        o.fullgraph = true;
        try("fullgraph", &o);
        o.fullgraph = false;
        o.suppress_errors = true;
        try("suppress_errors", &o);
    }
    return 0;
}
