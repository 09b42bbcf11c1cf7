/* A tour of one compiled function: self attention, whose trace, guards and fusion are told as it is compiled, and then how long a call takes
 * in each mode and by each backend. attention [CHANNELS] tells those channels instead (docs/logs.md): attention output_code */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <reprise/reprise.h>

enum { DIM = 256, ROWS = 64, TIMES = 11, ARGS = 4 };

static float *data[ARGS], first[ROWS * DIM];

/* args: {"x": x[n, DIM], "W_q", "W_k", "W_v": [DIM, DIM]} */
static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    rp_tensor q = rp_linear(x, rp_jit_tensor(call, &args->item[1]));
    rp_tensor k = rp_linear(x, rp_jit_tensor(call, &args->item[2]));
    rp_tensor v = rp_linear(x, rp_jit_tensor(call, &args->item[3]));
    rp_tensor out = rp_matmul(q, k, true);
    out = rp_div(rp_exp(out), rp_sum(rp_exp(out), -1, true)); /* a softmax by hand */
    *result = rp_jit_value(call, rp_matmul(out, v, false));
    (void)user, (void)err;
    return RP_OK;
}
static const rp_jit_options options = RP_JIT_OPTIONS(forward);

static double milliseconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One call, into out. */
static rp_status run(rp_jit *f, float *out, rp_error *err) {
    static const char *const name[ARGS] = {"x", "W_q", "W_k", "W_v"};
    rp_value item[ARGS];
    for (int i = 0; i < ARGS; i++) {
        rp_buffer b = {RP_DTYPE_F32, 2, {i ? DIM : ROWS, DIM}, data[i]};
        item[i] = rp_value_tensor(b);
    }
    rp_value args = rp_value_map(name, item, ARGS);
    rp_buffer result = {RP_DTYPE_F32, 2, {ROWS, DIM}, out};
    return rp_jit_run_into(f, &args, &result, 1, err);
}

/* Compiles in that mode, or by that setting, and measures a call. */
static rp_status measure(const char *mode, const char *setting, rp_error *err) {
    static float out[ROWS * DIM];
    double took[TIMES], start = milliseconds(), compile;
    float worst = 0;
    rp_jit *f = NULL;
    rp_jit_options o = options;
    rp_compilation_config *config = rp_config_new();
    o.config = config;
    o.mode = mode;
    rp_status st = config ? RP_OK : RP_NOMEM;
    if (st == RP_OK && setting) st = rp_config_set(config, setting, err);
    if (st == RP_OK) st = rp_jit_new(&o, &f, err);
    if (st == RP_OK) st = run(f, out, err);
    compile = milliseconds() - start;
    for (int i = 0; st == RP_OK && i < TIMES; i++) {
        start = milliseconds();
        st = run(f, out, err);
        took[i] = milliseconds() - start;
    }
    for (int i = 0; st == RP_OK && i < ROWS * DIM; i++)
        worst = fmaxf(worst, fabsf(out[i] - first[i]) / (1e-6f + fabsf(first[i])));
    if (st == RP_OK) {
        qsort(took, TIMES, sizeof *took, by_value);
        printf("%s%s: Time to execute: %.3f ms, first call %.1f ms, %s\n", mode ? "mode=" : "",
               mode ? mode : setting, took[TIMES / 2], compile,
               worst < 1e-4f ? "the same values" : "other values");
    }
    rp_jit_free(f);
    rp_config_free(config);
    return st == RP_OK && worst >= 1e-4f ? RP_INTERNAL : st;
}

static void say(void *user, rp_log_level level, const char *text) {
    (void)user, (void)level;
    printf("%s\n", text);
}

/* The first call, with what it tells. */
static rp_status tell(const char *channels, rp_error *err) {
    rp_jit *f = NULL;
    rp_log_set_callback(say, NULL);
    rp_status st = rp_log_set_channels(channels, err);
    if (st == RP_OK) st = rp_jit_new(&options, &f, err);
    if (st == RP_OK) st = run(f, first, err);
    rp_jit_free(f);
    rp_status off = rp_log_set_channels(NULL, NULL);
    return st == RP_OK ? off : st;
}

int main(int argc, char **argv) {
    static const char *const how[][2] = {{"default", NULL},
                                         {"reduce-overhead", NULL},
                                         {"max-autotune", NULL},
                                         {"max-autotune-no-cudagraphs", NULL},
                                         {NULL, "backend=cudagraphs"},
                                         {NULL, "backend=aot_eager"},
                                         {NULL, "backend=eager"},
                                         {NULL, "level=0"}};
    rp_error err = {0};
    rp_status st = RP_OK;
    unsigned seed = 1;
    (void)setenv("REPRISE_AUTOTUNE_BUDGET", "1", 0); /* seconds of measuring; the default is 20 */
    for (int i = 0; i < ARGS && st == RP_OK; i++) {
        size_t n = (size_t)DIM * (i ? DIM : ROWS);
        data[i] = malloc(n * sizeof *data[i]);
        if (!data[i]) st = RP_NOMEM;
        for (size_t k = 0; data[i] && k < n; k++) {
            seed = seed * 1664525u + 1013904223u;
            data[i][k] = ((float)(seed >> 8) / (float)(1 << 24) - 0.5f) / 8;
        }
    }
    if (st == RP_OK) st = tell(argc > 1 ? argv[1] : "dynamo,guards,+fusion", &err);
    for (size_t i = 0; st == RP_OK && argc == 1 && i < sizeof how / sizeof *how; i++)
        st = measure(how[i][0], how[i][1], &err);
    if (st != RP_OK) fprintf(stderr, "attention: %s\n", err.text);
    for (int i = 0; i < ARGS; i++) free(data[i]);
    return rp_status_exit_code(st);
}
