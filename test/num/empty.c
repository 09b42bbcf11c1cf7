/* What is read by index where sizes may be 0: a trace takes it, and at no rows and at some it is as by hand, interpreted,
 * at level 0 and compiled. */
#include "support/check.h"

#include "ir/eval.h"
#include "reprise/reprise.h"
#include "trace/trace.h"

enum { CLASSES = 5, ROWS = 3, MOST = ROWS * CLASSES };

/* In: x[N,CLASSES], their places [N,CLASSES], one a row. Each result has as many rows. */
typedef rp_tensor (*made)(rp_tensor x, rp_tensor places, rp_tensor one);

static rp_tensor along_rows(rp_tensor x, rp_tensor places, rp_tensor one) {
    (void)one;
    return rp_take_along(x, 1, places);
}

/* The first axis has one size, which is known, and the second may be empty. */
static rp_tensor across_rows(rp_tensor x, rp_tensor places, rp_tensor one) {
    (void)one;
    return rp_transpose(rp_take_along(rp_transpose(x, 0, 1), 0, rp_transpose(places, 0, 1)), 0, 1);
}

/* Both sizes beside the axis may be 0, and the rows are a sum. */
static rp_tensor of_a_sum(rp_tensor x, rp_tensor places, rp_tensor one) {
    (void)one;
    x = rp_unsqueeze(rp_concat((rp_tensor[]){x, x}, 2, 0), 2);
    places = rp_unsqueeze(rp_concat((rp_tensor[]){places, places}, 2, 0), 2);
    rp_tensor y = rp_squeeze(rp_take_along(x, 1, places), 2);
    return rp_slice(y, 0, 0, rp_tensor_dim(one, 0));
}

static rp_tensor of_classes(rp_tensor x, rp_tensor places, rp_tensor one) {
    rp_tensor read = rp_sub(rp_logsumexp(x, 1, false), rp_cross_entropy(x, one));
    return rp_broadcast(rp_unsqueeze(read, 1), rp_tensor_shape(places));
}

/* Two groups of rows, each times the same. */
static rp_tensor of_groups(rp_tensor x, rp_tensor places, rp_tensor one) {
    rp_graph *g = x.graph;
    const rp_dim n = rp_tensor_dim(x, 0);
    const rp_tensor ends[] = {rp_dim_value(g, rp_dim_floordiv(n, 2), RP_DTYPE_I32),
                              rp_dim_value(g, n, RP_DTYPE_I32)};
    const rp_shape s = RP_SHAPE(2, CLASSES, CLASSES);
    rp_tensor same = rp_eq(rp_iota(g, RP_DTYPE_I32, s, 1), rp_iota(g, RP_DTYPE_I32, s, 2));
    (void)one;
    x = rp_grouped_mm(x, rp_cast(same, RP_DTYPE_F32), false, rp_stack(ends, 2, 0));
    return rp_take_along(x, 1, places);
}

static const made all[] = {along_rows, across_rows, of_a_sum, of_classes, of_groups};
enum { ALL = sizeof all / sizeof *all };

static rp_graph *graph_of(made fn) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("empty");
    rp_dim n = rp_symbol(g, "N", 0, 8);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F64, RP_SHAPE(n, CLASSES));
    rp_tensor places = rp_input(g, "places", RP_DTYPE_I64, RP_SHAPE(n, CLASSES));
    rp_tensor one = rp_input(g, "one", RP_DTYPE_I32, RP_SHAPE(n));
    rp_tensor y = fn(rp_cast(x, RP_DTYPE_F32), places, one);
    y = rp_cast(y, RP_DTYPE_F64);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    return g;
}

static void check(made fn, const char *setting, int rows) {
    double x[MOST] = {0}, y[MOST] = {0};
    int64_t places[MOST] = {0};
    int32_t one[ROWS] = {0};
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = graph_of(fn);
    rp_compilation_config *cfg = rp_config_new();
    for (int i = 0; i < MOST; i++) x[i] = i % 7 - 3, places[i] = i * 3 % 7 - 1;
    for (int i = 0; i < ROWS; i++) one[i] = i * 2;
    const rp_buffer in[] = {{RP_DTYPE_F64, 2, {rows, CLASSES}, rows ? x : NULL},
                            {RP_DTYPE_I64, 2, {rows, CLASSES}, rows ? places : NULL},
                            {RP_DTYPE_I32, 1, {rows}, rows ? one : NULL}};
    rp_buffer out = {RP_DTYPE_F64, 2, {rows, CLASSES}, rows ? y : NULL};
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_run(c, in, 3, &out, 1, &err), &err);
    for (int i = 0; i < rows * CLASSES; i++) {
        const int row = i / CLASSES;
        int64_t at = fn == of_classes ? one[row] : places[i];
        at = at < 0 ? 0 : at >= CLASSES ? CLASSES - 1 : at;
        double d = y[i] - x[row * CLASSES + at];
        if (d > 1e-5 || d < -1e-5) fail_msg("%s, element %d: off by %g", setting, i, d);
    }
    rp_compiled_free(c);
    rp_config_free(cfg);
    rp_graph_free(g);
}

static void sizes_beside_what_is_read_may_be_none(void **state) {
    (void)state;
    for (int i = 0; i < ALL; i++)
        for (int rows = 0; rows <= ROWS; rows += ROWS) {
            check(all[i], "level=0", rows);
            check(all[i], "level=2", rows);
        }
}

static void the_interpreter_reads_none(void **state) {
    const int64_t none = 0;
    double nothing[1] = {0};
    const ir_value in[] = {
        {2, {0, CLASSES}, 0, nothing}, {2, {0, CLASSES}, 0, nothing}, {1, {0}, 0, nothing}};
    (void)state;
    for (int i = 0; i < ALL; i++) {
        rp_error err = {0};
        ir_value v = {0};
        rp_graph *g = graph_of(all[i]);
        CHECK_OK(ir_eval(trace_graph_ir(g), in, NULL, NULL, &none, &v, &err), &err);
        assert_int_equal(v.n, 0);
        ir_value_done(&v);
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_beside_what_is_read_may_be_none),
                                       cmocka_unit_test(the_interpreter_reads_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
