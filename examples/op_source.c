/* An op given as C source, with attributes: checked against its schema, compiled with the kernels around it, found in the cache by the
 * next process; and what is said of a source that no compiler takes. */
#include <stdio.h>
#include <string.h>

#include <reprise/reprise.h>

enum { ROWS = 2, COLUMNS = 4 };

/* One call is a row: what is below the floor becomes that, and the row has a mean of zero then. CUDA takes the text, too. */
static const char source[] =
    "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long row) {\n"
    "    const long long n = arg[0].dim[1];\n"
    "    const float *x = (const float *)arg[0].data + row * n, floor = "
    "(float)attr[ATTR_floor].f;\n"
    "    float *y = (float *)arg[1].data + row * n, sum = 0;\n"
    "    for (long long i = 0; i < n; i++) sum += y[i] = x[i] < floor ? floor : x[i];\n"
    "    for (long long i = 0; i < n; i++) y[i] -= attr[ATTR_center].i ? sum / n : 0;\n"
    "}\n";
static const char broken[] =
    "static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long row) {\n"
    "    arg[1].data[row] = missing;\n"
    "}\n";

static rp_status register_all(rp_error *err) {
    static const rp_op_attr schema[] = {
        {.name = "floor", .kind = RP_OP_F64, .required = true},
        {.name = "center", .kind = RP_OP_I64, .i = 1},
    };
    rp_op_desc op = {.size = sizeof op,
                     .name = "example::floored",
                     .attrs = schema,
                     .n_attrs = 2,
                     .items = RP_OP_ROWS,
                     .c_source = source};
    rp_op_desc bad = {.size = sizeof bad, .name = "example::broken", .c_source = broken};
    rp_status st = rp_op_register(&op, err);
    return st == RP_OK ? rp_op_register(&bad, err) : st;
}

/* Prints y = 10 op(x), or why there is none. */
static rp_status call(const char *name, const rp_op_attr *attrs, uint32_t n_attrs, rp_error *err) {
    float x[ROWS * COLUMNS] = {-3, 1, 2, 4, 0, 0, 0, 8}, y[ROWS * COLUMNS];
    rp_buffer in = {RP_DTYPE_F32, 2, {ROWS, COLUMNS}, x}, out = in;
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("call");
    rp_compilation_config *cfg = rp_config_new();
    rp_tensor made, t = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(ROWS, COLUMNS));
    rp_custom_args a = {.size = sizeof a, .name = name, .args = &t, .n = 1};
    a.attrs = attrs;
    a.n_attrs = n_attrs;
    out.data = y;
    rp_custom_call(g, &a, &made, 1);
    made = rp_mul_scalar(made, 10);
    rp_status st = rp_graph_finish(g, &made, 1, err);
    if (st == RP_OK) st = rp_config_set(cfg, "level=2", err);
    if (st == RP_OK) st = rp_compile(g, cfg, &c, err);
    if (st == RP_OK) st = rp_compiled_run(c, &in, 1, &out, 1, err);
    for (int i = 0; i < ROWS * COLUMNS && st == RP_OK; i++)
        printf("%6.1f%s", (double)y[i], (i + 1) % COLUMNS ? "" : "\n");
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st;
}

/* Where nothing is to come of it but an error. */
static rp_status refused(const char *name, const rp_op_attr *attrs, uint32_t n_attrs) {
    rp_error why = {0};
    rp_status st = call(name, attrs, n_attrs, &why);
    const char *text = strstr(why.text, "custom op ");      /* without the line of this file */
    const char *own = text ? strstr(text, "error:") : NULL; /* behind that it is the compiler's */
    printf("%.*s\n", own ? (int)(own - text) + 6 : 200, text ? text : "nothing");
    return st == RP_INVALID ? RP_OK : RP_INTERNAL;
}

int main(void) {
    const rp_op_attr attrs[] = {{.name = "floor", .kind = RP_OP_F64, .f = -1},
                                {.name = "center", .kind = RP_OP_I64, .i = 0}};
    const rp_op_attr text = {.name = "floor", .kind = RP_OP_STRING, .s = "-1"};
    rp_error err = {0};
    rp_status st = register_all(&err);
    if (st == RP_OK) st = call("example::floored", attrs, 1, &err);
    if (st == RP_OK) st = call("example::floored", attrs, 2, &err);
    if (st == RP_OK) st = refused("example::floored", NULL, 0);
    if (st == RP_OK) st = refused("example::floored", &text, 1);
    if (st == RP_OK) st = refused("example::broken", NULL, 0);
    if (st != RP_OK) (void)fprintf(stderr, "op_source: %s\n", err.text);
    return rp_status_exit_code(st);
}
