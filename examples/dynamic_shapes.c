/* Sizes that differ from call to call, four ways: learnt from the calls, a range that is said ahead, a size without an example, and numbers.
 * One function asks whether its batch is larger than 8, the other takes the general way where that is not known. Prints what each way
 * compiles for five batches, what it relies on, and the question that has no answer. */
#include <stdio.h>
#include <string.h>

#include <reprise/reprise.h>

enum { DIM = 16, MOST = 32 };

static float x[MOST * DIM];

/* args: (x[n, DIM]). A batch of more than 8 is halved. */
static rp_status asks(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    rp_tensor in = rp_jit_tensor(call, &args->item[0]);
    if (rp_dim_gt(rp_tensor_dim(in, 0), 8)) in = rp_mul_scalar(in, 0.5);
    *result = rp_jit_value(call, rp_softmax(in, -1));
    (void)user, (void)err;
    return RP_OK;
}

/* The same, but a size of which nothing is known is not asked about, and no guard is made. */
static rp_status general(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor in = rp_jit_tensor(call, &args->item[0]);
    if (rp_dim_compare(rp_tensor_dim(in, 0), RP_DIM_GT, 8) == RP_YES) in = rp_mul_scalar(in, 0.5);
    *result = rp_jit_value(call, rp_softmax(in, -1));
    (void)user, (void)err;
    return RP_OK;
}

typedef rp_status mark_fn(rp_jit *f, rp_error *err);

/* Backed: questions have an answer, which becomes a guard. */
static rp_status backed(rp_jit *f, rp_error *err) {
    return rp_jit_mark_dynamic(f, "L[0]", 0, 1, INT64_MAX, err);
}
/* The same with a promise that no guard may break. */
static rp_status bounded(rp_jit *f, rp_error *err) {
    return rp_jit_mark_dynamic(f, "L[0]", 0, 1, MOST, err);
}
/* Unbacked: no example, so no guard. */
static rp_status unbacked(rp_jit *f, rp_error *err) {
    return rp_jit_mark_unbacked(f, "L[0]", 0, 1, MOST, err);
}

/* Prints those guards that tell of sizes, an entry each. */
static rp_status print_guards(rp_jit *f, rp_error *err) {
    char *text = NULL;
    rp_status st = rp_jit_guards_text(f, &text, err);
    if (st != RP_OK) return st;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, "SHAPE") || strstr(line, "TENSOR_MATCH") || line[0] == '[')
            printf("    %s\n", line);
    rp_free(text);
    return RP_OK;
}

static rp_status try(const char *title, const rp_jit_options *o, mark_fn *mark, rp_error *err) {
    static const int64_t rows[] = {8, 16, 24, 4, 1};
    rp_jit *f = NULL;
    rp_jit_info info = RP_JIT_INFO_INIT;
    rp_status st = rp_jit_new(o, &f, err);
    if (st == RP_OK && mark) st = mark(f, err);
    printf("%s: %s\n", title, o->name);
    for (size_t i = 0; st == RP_OK && i < sizeof rows / sizeof *rows; i++) {
        rp_output *out = NULL;
        rp_buffer b = {RP_DTYPE_F32, 2, {rows[i], DIM}, x};
        rp_value v = rp_value_tensor(b), args = rp_value_tuple(&v, 1);
        st = rp_jit_run(f, &args, &out, err);
        if (st == RP_OK)
            printf("  [%2d, %d] %s\n", (int)rows[i], DIM,
                   rp_output_ran(out) == RP_RAN_CAPTURE ? "compiled" : "as before");
        rp_output_free(out);
    }
    if (st == RP_OK) st = rp_jit_get_info(f, &info, err);
    if (st == RP_OK) {
        printf("  %u entries\n", info.entries);
        st = print_guards(f, err);
    }
    rp_jit_free(f);
    return st;
}

/* What ought to be refused, and is. */
static rp_status refused(const char *title, const rp_jit_options *o, mark_fn *mark, rp_error *err) {
    rp_status st = try(title, o, mark, err);
    printf("  %s\n", st == RP_OK ? "accepted" : err->text);
    return st == RP_INVALID ? RP_OK : RP_INTERNAL;
}

int main(void) {
    rp_error err = {0};
    rp_jit_options learnt = RP_JIT_OPTIONS(asks), open = RP_JIT_OPTIONS(general), fixed = learnt;
    fixed.dynamic = RP_DYNAMIC_NONE;
    for (int i = 0; i < MOST * DIM; i++) x[i] = (float)(i % 7);
    rp_status st = try("learnt", &learnt, NULL, &err);
    if (st == RP_OK) st = try("backed", &learnt, backed, &err);
    if (st == RP_OK) st = refused("backed, bounded", &learnt, bounded, &err);
    if (st == RP_OK) st = refused("unbacked", &learnt, unbacked, &err);
    if (st == RP_OK) st = try("unbacked", &open, unbacked, &err);
    if (st == RP_OK) st = try("numbers", &fixed, NULL, &err);
    if (st != RP_OK) fprintf(stderr, "dynamic_shapes: %s\n", err.text);
    return rp_status_exit_code(st);
}
