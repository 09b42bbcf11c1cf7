/* What a function says when it compiles again: self attention over x[8, 1024], then [16, 1024], as in a tour of torch.compile, then
 * sizes that it has not seen. Prints what was compiled, why, and how long each call took. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <reprise/reprise.h>

enum { DIM = 1024, MOST = 32 };

/* args: {"x": x[n, DIM], "W_q", "W_k", "W_v": [DIM, DIM]} */
static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    rp_tensor q = rp_linear(x, rp_jit_tensor(call, &args->item[1]));
    rp_tensor k = rp_linear(x, rp_jit_tensor(call, &args->item[2]));
    rp_tensor v = rp_linear(x, rp_jit_tensor(call, &args->item[3]));
    rp_tensor out = rp_exp(rp_matmul(q, k, true));
    out = rp_div(out, rp_sum(out, -1, true));
    *result = rp_jit_value(call, rp_matmul(out, v, false));
    (void)user;
    (void)err;
    return RP_OK;
}
static const rp_jit_options options = RP_JIT_OPTIONS(forward);

static float *random_floats(size_t n, unsigned seed) {
    float *p = malloc(n * sizeof *p);
    for (size_t i = 0; p && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) / (float)(1 << 24) - 0.5f) / 16;
    }
    return p;
}

static void say(void *user, rp_log_level level, const char *text) {
    (void)user;
    (void)level;
    printf("%s\n", text);
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static rp_status run(rp_jit *f, float *const *data, int64_t rows, rp_error *err) {
    static const char *const name[] = {"x", "W_q", "W_k", "W_v"};
    rp_value item[4];
    rp_output *out = NULL;
    for (int i = 0; i < 4; i++) {
        rp_buffer b = {RP_DTYPE_F32, 2, {i ? DIM : rows, DIM}, data[i]};
        item[i] = rp_value_tensor(b);
    }
    rp_value args = rp_value_map(name, item, 4);
    double start = now();
    rp_status st = rp_jit_run(f, &args, &out, err);
    if (st == RP_OK)
        printf("Time took to execute [%lld, %d]: %.4f%s\n", (long long)rows, DIM, now() - start,
               rp_output_ran(out) == RP_RAN_CAPTURE ? ", compiled" : "");
    rp_output_free(out);
    return st;
}

int main(void) {
    static const int64_t rows[] = {8, 8, 16, 16, 24, 1, 31};
    rp_error err = {0};
    rp_jit *f = NULL;
    float *data[4];
    rp_jit_info info = RP_JIT_INFO_INIT;
    bool ready = true;
    for (unsigned i = 0; i < 4; i++) {
        data[i] = random_floats((size_t)DIM * (i ? DIM : MOST), i + 1);
        ready = ready && data[i];
    }
    rp_log_set_callback(say, NULL);
    rp_status st = ready ? rp_log_set_channels("recompiles,inductor", &err) : RP_NOMEM;
    if (st == RP_OK) st = rp_jit_new(&options, &f, &err);
    for (size_t i = 0; st == RP_OK && i < sizeof rows / sizeof *rows; i++)
        st = run(f, data, rows[i], &err);
    if (st == RP_OK) st = rp_jit_get_info(f, &info, &err);
    if (st == RP_OK)
        printf("%llu calls, %llu compiles\n", (unsigned long long)info.calls,
               (unsigned long long)info.compiles);
    else
        fprintf(stderr, "recompile: %s\n", err.text);
    rp_jit_free(f);
    for (int i = 0; i < 4; i++) free(data[i]);
    return rp_status_exit_code(st);
}
