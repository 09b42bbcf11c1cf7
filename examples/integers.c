/* An integer argument as a size, as torch makes a SymInt of it: n steps from a to b, for any n, by two compiles. Beside it the same function with
 * n as a number of C, which compiles for each value. The report of a function tells what was compiled, why, and what it is for; REPRISE_LOGS=explain
 * tells it of each function of a program that is done with it. */
#include <stdio.h>

#include <reprise/reprise.h>

enum { WIDTH = 4 };

/* a + (b - a) i / (n - 1), for i from 0 to n - 1 */
static rp_tensor steps(rp_graph *g, rp_tensor a, rp_tensor b, rp_dim n) {
    rp_tensor i = rp_cast(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(n, WIDTH), 0), RP_DTYPE_F32);
    rp_tensor last = rp_dim_value(g, rp_dim_sub(n, 1), RP_DTYPE_F32);
    return rp_add(a, rp_mul(rp_sub(b, a), rp_div(i, last)));
}

/* args: {"a": a[WIDTH], "b": b[WIDTH], "n": n} */
static rp_status as_size(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_jit_dim(call, &args->item[2]);
    (void)user, (void)err;
    rp_tensor x = rp_dim_lt(n, 2) ? a /* a question, whose answer is a guard */
                                  : steps(rp_jit_graph(call), a, b, n);
    *result = rp_jit_value(call, x);
    return RP_OK;
}

static rp_status as_number(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    int64_t n = args->item[2].as.integer; /* guarded by its value */
    (void)user, (void)err;
    *result = rp_jit_value(call, steps(rp_jit_graph(call), a, b, rp_dim_const(n)));
    return RP_OK;
}

/* Prints the second of the steps, and whether something was compiled for them. */
static rp_status run(rp_jit *f, int64_t n, rp_error *err) {
    static const char *const name[] = {"a", "b", "n"};
    float a[WIDTH] = {0, 1, 2, 3}, b[WIDTH] = {60, 61, 62, 63};
    rp_output *out = NULL;
    const rp_value *v = NULL;
    rp_buffer from = {RP_DTYPE_F32, 1, {WIDTH}, a}, to = {RP_DTYPE_F32, 1, {WIDTH}, b};
    rp_value item[] = {rp_value_tensor(from), rp_value_tensor(to), rp_value_int(n)};
    rp_value args = rp_value_map(name, item, 3);
    rp_status st = rp_jit_run(f, &args, &out, err);
    if (st == RP_OK) st = rp_output_value(out, &v, err);
    if (st == RP_OK)
        printf("  %lld steps, the second at %g%s\n", (long long)n,
               (double)((const float *)v->tensor.data)[WIDTH],
               rp_output_ran(out) == RP_RAN_CAPTURE ? ", compiled" : "");
    rp_output_free(out);
    return st;
}

static rp_status try_function(const rp_jit_options *o, bool explain, rp_error *err) {
    static const int64_t n[] = {3, 4, 7, 61, 2, 31};
    rp_jit *f = NULL;
    char *report = NULL;
    rp_status st = rp_jit_new(o, &f, err);
    printf("%s:\n", o->name);
    for (size_t i = 0; st == RP_OK && i < sizeof n / sizeof *n; i++) st = run(f, n[i], err);
    if (st == RP_OK && explain) st = rp_jit_explain(f, &report, err);
    if (report) printf("%s", report);
    rp_free(report);
    rp_jit_free(f);
    return st;
}

int main(void) {
    rp_error err = {0};
    const rp_jit_options number = RP_JIT_OPTIONS(as_number), size = RP_JIT_OPTIONS(as_size);
    rp_status st = try_function(&number, false, &err);
    if (st == RP_OK) st = try_function(&size, true, &err);
    if (st != RP_OK) fprintf(stderr, "integers: %s\n", err.text);
    return rp_status_exit_code(st);
}
