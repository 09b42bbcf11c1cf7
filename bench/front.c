/* What it costs to have a function compiled and called, beside torch.compile (front_peer.py, which measures the same functions the same way): one line each, NAME VALUE.
 *
 * call NS      a call of a compiled function of 16 tensors of 4 elements
 * first MS     the first call of an attention of f32[8, 64], with an empty cache
 * recompile MS the call with f32[16, 64] behind it, after which no size compiles
 * again MS     that call in a process that finds all in the cache; only with the word "again"
 * shapes MS    64 calls of a softmax with 2 to 65 rows, from nothing
 * break NS     what each of 8 graph breaks adds to a call
 *
 * Something else is compiled before, so that what a process pays once is not in it. Usage: front [again], with REPRISE_CACHE_DIR as a folder of its own. */
#include <reprise/nn.h>
#include <reprise/reprise.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS = 16, CALLS = 10000, ROUNDS = 21, BREAKS = 8, SHAPES = 64, COLUMNS = 64 };

static float data[TENSORS][66 * COLUMNS];
static rp_device *device;

static double now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void must(rp_status st, const rp_error *err) {
    if (st == RP_OK) return;
    (void)fprintf(stderr, "front: %s\n", err->text);
    exit(1);
}

static rp_value tensor(int i, int64_t rows, int64_t columns) {
    return rp_value_tensor((rp_buffer){RP_DTYPE_F32, 2, {rows, columns}, data[i]});
}

static rp_jit *make(rp_jit_fn fn, const char *name) {
    rp_jit_options o = RP_JIT_OPTIONS(fn);
    rp_jit *f = NULL;
    rp_error err = {0};
    o.name = name;
    o.device = device;
    must(rp_jit_new(&o, &f, &err), &err);
    return f;
}

static double run(rp_jit *f, const rp_value *args) {
    rp_output *out = NULL;
    rp_error err = {0};
    const double start = now_ns();
    must(rp_jit_run(f, args, &out, &err), &err);
    const double ns = now_ns() - start;
    rp_output_free(out);
    return ns;
}

static int by_value(const void *a, const void *b) {
    const double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

/* Of one of many calls that find what they want. */
static double round_ns(rp_jit *f, const rp_value *args) {
    rp_error err = {0};
    const double start = now_ns();
    for (int i = 0; i < CALLS; i++) {
        rp_output *out = NULL;
        must(rp_jit_run(f, args, &out, &err), &err);
        rp_output_free(out);
    }
    return (now_ns() - start) / CALLS;
}

/* What a call of f takes; than: what it takes more than one of that, round by round. */
static double call_ns(rp_jit *f, rp_jit *than, const rp_value *args) {
    double ns[ROUNDS];
    for (int i = 0; i < 100; i++) (void)run(f, args);
    for (int i = 0; than && i < 100; i++) (void)run(than, args);
    for (int r = 0; r < ROUNDS; r++) ns[r] = round_ns(f, args) - (than ? round_ns(than, args) : 0);
    qsort(ns, ROUNDS, sizeof *ns, by_value);
    return ns[ROUNDS / 2];
}

/* --- the functions ---------------------------------------------------------------------------------- */

static rp_status plus_one(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_add_scalar(rp_jit_tensor(call, &args->item[0]), 1));
    return RP_OK;
}

static rp_status sum_of_all(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_tensor sum = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    for (uint32_t i = 1; i < args->n; i++) sum = rp_add(sum, rp_jit_tensor(call, &args->item[i]));
    *result = rp_jit_value(call, sum);
    return RP_OK;
}

static rp_status attention(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_tensor t[4];
    (void)user, (void)err;
    for (int i = 0; i < 4; i++) t[i] = rp_jit_tensor(call, &args->item[i]);
    rp_tensor s = rp_softmax(rp_matmul(rp_linear(t[0], t[1]), rp_linear(t[0], t[2]), true), -1);
    *result = rp_jit_value(call, rp_matmul(s, rp_linear(t[0], t[3]), false));
    return RP_OK;
}

static rp_status softmax(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_softmax(rp_jit_tensor(call, &args->item[0]), -1));
    return RP_OK;
}

static rp_tensor steps(rp_jit_call *call, const rp_value *args, bool breaks) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    for (int i = 0; i < BREAKS; i++) {
        x = rp_sin(x);
        if (breaks) rp_jit_break(call, "a break");
    }
    return rp_sin(x);
}

static rp_status broken(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, steps(call, args, true));
    return RP_OK;
}

static rp_status whole(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, steps(call, args, false));
    return RP_OK;
}

/* --- what is measured --------------------------------------------------------------------------------- */

static void report(const char *name, double v) {
    (void)printf("%s %.3f\n", name, v);
    (void)fflush(stdout);
}

static void measure_compiles(bool again) {
    rp_value v[4];
    rp_jit *f = make(attention, "attention");
    for (int i = 0; i < 4; i++) v[i] = tensor(i, i ? COLUMNS : 8, COLUMNS);
    const rp_value args = rp_value_tuple(v, 4);
    const double first = run(f, &args);
    v[0] = tensor(0, 16, COLUMNS);
    const double second = run(f, &args);
    report(again ? "again_first" : "first", first / 1e6);
    report(again ? "again" : "recompile", second / 1e6);
    rp_jit_free(f);
}

static void measure_shapes(void) {
    rp_jit *f = make(softmax, "softmax");
    double ns = 0;
    for (int i = 0; i < SHAPES; i++) {
        rp_value v = tensor(0, 2 + i, COLUMNS);
        const rp_value args = rp_value_tuple(&v, 1);
        ns += run(f, &args);
    }
    report("shapes", ns / 1e6);
    rp_jit_free(f);
}

static void measure_calls(void) {
    rp_value v[TENSORS];
    rp_jit *f = make(sum_of_all, "sum_of_all"), *b = make(broken, "broken"),
           *w = make(whole, "whole");
    for (int i = 0; i < TENSORS; i++) v[i] = tensor(i, 1, 4);
    const rp_value all = rp_value_tuple(v, TENSORS), one = rp_value_tuple(v, 1);
    report("call", call_ns(f, NULL, &all));
    report("break", call_ns(b, w, &one) / BREAKS);
    rp_jit_free(f);
    rp_jit_free(b);
    rp_jit_free(w);
}

int main(int argc, char **argv) {
    const bool again = argc > 1 && strcmp(argv[1], "again") == 0;
    rp_error err = {0};
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < 66 * COLUMNS; k++)
            data[i][k] = (float)((k * 7 + i * 13) % 101) / 101 - 0.5f;
    must(rp_device_open("cpu", 1, &device, &err), &err);
    rp_jit *f = make(plus_one, "plus_one");
    rp_value v = tensor(0, 3, 5);
    const rp_value args = rp_value_tuple(&v, 1);
    (void)run(f, &args);
    rp_jit_free(f);
    measure_compiles(again);
    if (!again) measure_shapes();
    if (!again) measure_calls();
    rp_device_close(device);
    return 0;
}
