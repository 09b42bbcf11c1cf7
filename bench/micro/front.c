/* What it takes to find the entry of a call of a function with 16 tensors: arguments to words, guards, a reference. The same arguments again and
 * again, then those of all entries in turn and at random, over 1 to 64 entries of static sizes, and one with every size a symbol. Medians of rounds, in ns a
 * call. Then what a function of attention takes to be traced, found in the cache, loaded and run by one thread, when an equal one was compiled before:
 * the least of its rounds, since others' disk work is in most. Usage: front [rounds] */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "front/front.h"
#include "reprise/nn.h"

enum { TENSORS = 16, MOST = 64, CALLS = 20000, MOST_ROUNDS = 101 };

static float x[TENSORS][MOST * 4 + 8];
static rp_error err;

static void must(rp_status st) {
    if (st == RP_OK) return;
    fprintf(stderr, "front: %s\n", err.text);
    exit(1);
}

static rp_status negated(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *e) {
    static rp_value out[TENSORS];
    (void)user;
    (void)e;
    for (uint32_t i = 0; i < args->n; i++)
        out[i] = rp_jit_value(call, rp_neg(rp_jit_tensor(call, &args->item[i])));
    *result = rp_value_tuple(out, args->n);
    return RP_OK;
}

static rp_jit *make(rp_dynamic dynamic) {
    rp_jit_options o = RP_JIT_OPTIONS(negated);
    rp_jit *f = NULL;
    rp_compilation_config *c = rp_config_new();
    if (!c) exit(1);
    must(rp_config_set(c, "level=1", &err));
    o.config = c;
    o.dynamic = dynamic;
    o.recompile_limit = MOST;
    o.accumulated_recompile_limit = 2 * MOST;
    must(rp_jit_new(&o, &f, &err));
    rp_config_free(c);
    return f;
}

static rp_value item[MOST][TENSORS], args[MOST];

/* Whose arguments each call has. */
typedef enum turns { IN_TURN, AT_RANDOM } turns;

static double time_find(rp_jit *f, uint32_t n_args, turns by) {
    static uint8_t which[CALLS];
    front_args a;
    uint32_t seed = 5;
    for (uint32_t i = 0; i < CALLS; i++) {
        seed = seed * 1664525u + 1013904223u;
        which[i] = (uint8_t)((by == IN_TURN ? i : seed >> 8) % n_args);
    }
    int64_t start = base_now_ns();
    for (uint32_t i = 0; i < CALLS; i++) {
        must(front_args_read(&a, &args[which[i]], &err));
        front_entry *e = front_entry_find(f, &a);
        if (!e) exit(1);
        front_entry_unref(e);
        front_args_done(&a);
    }
    return (double)(base_now_ns() - start) / CALLS;
}

static int by_value(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

static void report(const char *what, rp_jit *f, uint32_t n_args, turns by, int rounds) {
    double ns[MOST_ROUNDS];
    for (int r = 0; r < rounds; r++) ns[r] = time_find(f, n_args, by);
    qsort(ns, (size_t)rounds, sizeof ns[0], by_value);
    rp_jit_info info = RP_JIT_INFO_INIT;
    must(rp_jit_get_info(f, &info, &err));
    printf("%2u entries, %-34s %7.1f ns\n", info.entries, what, ns[rounds / 2]);
}

/* args: x[8, 64], three of [64, 64] */
static rp_status attention(void *user, rp_jit_call *call, const rp_value *in, rp_value *result,
                           rp_error *e) {
    rp_tensor t[4];
    (void)user;
    (void)e;
    for (int i = 0; i < 4; i++) t[i] = rp_jit_tensor(call, &in->item[i]);
    rp_tensor s = rp_softmax(rp_matmul(rp_linear(t[0], t[1]), rp_linear(t[0], t[2]), true), -1);
    *result = rp_jit_value(call, rp_matmul(s, rp_linear(t[0], t[3]), false));
    return RP_OK;
}

static void report_again(int rounds) {
    static float data[64 * 64];
    rp_jit_options o = RP_JIT_OPTIONS(attention);
    rp_value in[4];
    double least = 1e9;
    must(rp_device_open("cpu", 1, &o.device, &err));
    for (int i = 0; i < 4; i++) {
        rp_buffer b = {RP_DTYPE_F32, 2, {i ? 64 : 8, 64}, data};
        in[i] = rp_value_tensor(b);
    }
    rp_value all = rp_value_tuple(in, 4);
    for (int r = 0; r < 20 * rounds + 1; r++) {
        rp_jit *f = NULL;
        rp_output *out = NULL;
        must(rp_jit_new(&o, &f, &err));
        int64_t start = base_now_ns();
        must(rp_jit_run(f, &all, &out, &err));
        double ms = (double)(base_now_ns() - start) / 1e6;
        if (r > 0 && ms < least) least = ms;
        rp_output_free(out);
        rp_jit_free(f);
    }
    rp_device_close(o.device);
    printf("an equal function compiled again %*.3f ms\n", 25, least);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 11;
    rp_jit *f = make(RP_DYNAMIC_NONE), *g = make(RP_DYNAMIC_ALL);
    rp_output *o = NULL;
    for (uint32_t i = 0; i < MOST; i++) {
        for (uint32_t k = 0; k < TENSORS; k++) {
            rp_buffer b = {RP_DTYPE_F32, 2, {2 + i, 4}, x[k]};
            item[i][k] = rp_value_tensor(b);
        }
        args[i] = rp_value_tuple(item[i], TENSORS);
    }
    for (uint32_t i = 0; i < MOST; i++) {
        must(rp_jit_run(f, &args[i], &o, &err));
        rp_output_free(o);
        if (i == 0 || i == 7 || i == 15 || i == 63) {
            report("the same arguments", f, 1, IN_TURN, rounds);
            report("the arguments of all in turn", f, i + 1, IN_TURN, rounds);
            report("the arguments of all at random", f, i + 1, AT_RANDOM, rounds);
        }
    }
    must(rp_jit_run(g, &args[0], &o, &err));
    rp_output_free(o);
    report("every size a symbol, 64 sizes", g, MOST, IN_TURN, rounds);
    rp_jit_free(f);
    rp_jit_free(g);
    report_again(rounds);
    return 0;
}
