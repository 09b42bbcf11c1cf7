/* A function that the host has a say in: the attention of a tour of torch.compile that prints when its batch is too big, and then takes one
 * of two ways by a value. Prints where and why the graph breaks, what is compiled, and that later calls compile nothing. */
#include <stdio.h>
#include <stdlib.h>

#include <reprise/reprise.h>

enum { DIM = 64, MOST = 32 };

/* args: {"x": x[n, DIM], "W_q", "W_k", "W_v": [DIM, DIM]} */
static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    if (rp_dim_gt(rp_tensor_dim(x, 0), 8)) {
        rp_jit_break(call, "builtin: print"); /* Graph break here! */
        printf("Batch too big!\n");
    }
    rp_tensor q = rp_linear(x, rp_jit_tensor(call, &args->item[1]));
    rp_tensor k = rp_linear(x, rp_jit_tensor(call, &args->item[2]));
    rp_tensor v = rp_linear(x, rp_jit_tensor(call, &args->item[3]));
    rp_tensor out = rp_exp(rp_matmul(q, k, true));
    out = rp_matmul(rp_div(out, rp_sum(out, -1, true)), v, false);
    rp_tensor sum = rp_sum(rp_sum(rp_abs(out), -1, false), -1, false);
    if (rp_item(sum) > 1) out = rp_div(out, sum); /* a branch on data */
    *result = rp_jit_value(call, out);
    (void)user;
    (void)err;
    return RP_OK;
}
static const rp_jit_options options = RP_JIT_OPTIONS(forward);

static void say(void *user, rp_log_level level, const char *text) {
    (void)user;
    (void)level;
    printf("%s\n", text);
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
    rp_status st = rp_jit_run(f, &args, &out, err);
    if (st == RP_OK)
        printf("[%lld, %d]: %s\n", (long long)rows, DIM,
               rp_output_ran(out) == RP_RAN_CAPTURE ? "compiled" : "as before");
    rp_output_free(out);
    return st;
}

int main(void) {
    static const int64_t rows[] = {16, 16, 4, 12, 16, 31};
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_info info = RP_JIT_INFO_INIT;
    float *data[4];
    bool ready = true;
    for (int i = 0; i < 4; i++) {
        data[i] = malloc(sizeof(float) * DIM * (i ? DIM : MOST));
        ready = ready && data[i];
        for (int k = 0; data[i] && k < DIM * (i ? DIM : MOST); k++)
            data[i][k] = (float)((k * (i + 3)) % 17 - 8) / (i == 3 ? 2 : 64);
    }
    rp_log_set_callback(say, NULL);
    rp_status st = ready ? rp_log_set_channels("graph_breaks,inductor", &err) : RP_NOMEM;
    if (st == RP_OK) st = rp_jit_new(&options, &f, &err);
    for (size_t i = 0; st == RP_OK && i < sizeof rows / sizeof *rows; i++)
        st = run(f, data, rows[i], &err);
    if (st == RP_OK) st = rp_jit_get_info(f, &info, &err);
    if (st == RP_OK)
        printf("%llu calls, %llu graph breaks, %llu graphs\n", (unsigned long long)info.calls,
               (unsigned long long)info.breaks, (unsigned long long)info.graphs);
    else
        fprintf(stderr, "graph_break: %s\n", err.text);
    rp_jit_free(f);
    for (int i = 0; i < 4; i++) free(data[i]);
    return rp_status_exit_code(st);
}
