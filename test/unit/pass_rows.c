/* Which reads stay in their row, against the interpreter: where another row of the operand changes the row of the
 * result, fusion must not think that it is not read. */
#include "support/check.h"

#include "base/alloc.h"
#include "ir/eval.h"
#include "pass/rows.h"

enum { N = 4 * 4 * 4 };

/* Whether row k of operand i alone decides row k of the result, for every k. */
static bool stays(const ir_graph *g, ir_value *in, uint32_t operand, int rows) {
    rp_error err = {0};
    ir_value was, is;
    bool same = true;
    CHECK_OK(ir_eval(g, in, NULL, NULL, NULL, &was, &err), &err);
    for (int row = 0; row < rows && same; row++) {
        int64_t n_in = in[operand].n / rows, n = was.n / rows;
        for (int64_t i = 0; i < n_in; i++) in[operand].data[row * n_in + i] += 100;
        CHECK_OK(ir_eval(g, in, NULL, NULL, NULL, &is, &err), &err);
        for (int64_t i = 0; i < was.n; i++)
            same = same && (i / n == row || was.data[i] == is.data[i]);
        for (int64_t i = 0; i < n_in; i++) in[operand].data[row * n_in + i] -= 100;
        ir_value_done(&is);
    }
    ir_value_done(&was);
    return same;
}

static uint32_t kept; /* reads that stay in their row */

/* y: of three axes, or so many indices. */
static void check(const char *op, const char *result, const char *y, uint32_t y_rank) {
    static const int64_t dims[] = {4, 4, 4};
    char text[300];
    rp_error err = {0};
    ir_graph *g = NULL;
    ir_value in[2];
    (void)snprintf(text, sizeof text,
                   "graph @g(%%x: f32[4,4,4], %%y: %s) -> %s {\n  %%0 = %s\n  ret %%0\n}\n", y,
                   result, op);
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ir_random_value(i && y_rank < 3 ? RP_DTYPE_I32 : RP_DTYPE_F32, dims,
                                 i ? y_rank : 3, 0, 3 + (uint64_t)i, &in[i], &err),
                 &err);
        for (int64_t k = 0; k < in[i].n; k++) in[i].data[k] = (double)(k % 7 - 3 * i); /* exact */
        for (int64_t k = 0; i && y_rank < 3 && k < in[i].n; k++)
            in[i].data[k] = (double)((k + 1) % 4);
    }
    ir_ref r = ir_output_at(g, 0);
    pass_rows rows = pass_rows_of(g, r);
    assert_true(rows.n > 0);
    for (uint32_t i = 0; i < ir_node_at(g, r)->n_in; i++)
        for (uint32_t k = 0; k < rows.n; k++) {
            int64_t v = 0;
            assert_true(ir_dim_is_const(ir_graph_dims(g), rows.at[k], &v));
            if (!pass_keeps_row(g, r, i, rows.at[k])) continue;
            if (!stays(g, in, i, (int)v))
                fail_msg("%s: operand %u is read in other rows of %d, too", op, i, (int)v);
            kept++;
        }
    ir_value_done(&in[0]);
    ir_value_done(&in[1]);
    ir_graph_free(g);
}

static void reads_of_other_rows_are_known(void **state) {
    static const char *const ops[][2] = {{"permute %x {axes=[1,0,2]}", "f32[4,4,4]"},
                                         {"permute %x {axes=[2,1,0]}", "f32[4,4,4]"},
                                         {"permute %x {axes=[0,2,1]}", "f32[4,4,4]"},
                                         {"reshape %x {shape=[4,16]}", "f32[4,16]"},
                                         {"reshape %x {shape=[16,4]}", "f32[16,4]"},
                                         {"slice %x {axis=1, start=0, stop=2}", "f32[4,2,4]"},
                                         {"concat %x, %y {axis=0}", "f32[8,4,4]"},
                                         {"concat %x, %y {axis=2}", "f32[4,4,8]"},
                                         {"sum %x {axis=0, keep=false}", "f32[4,4]"},
                                         {"sum %x {axis=1, keep=true}", "f32[4,1,4]"},
                                         {"amax %x {axis=2, keep=false}", "f32[4,4]"},
                                         {"matmul %x, %y", "f32[4,4,4]"},
                                         {"matmul %x, %y {trans_b=true}", "f32[4,4,4]"},
                                         {"add %x, %y", "f32[4,4,4]"},
                                         {"neg %x", "f32[4,4,4]"}};
    (void)state;
    kept = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        check(ops[i][0], ops[i][1], "f32[4,4,4]", 3);
    assert_int_equal(kept, 28); /* of 3 ways to cut each read */
}

/* Of the other reductions, and of rows that indices name: an index is of its row, what it names of any. */
static void reads_of_named_rows_are_known(void **state) {
    static const char *const reduced[][2] = {{"prod %x {axis=0, keep=false}", "f32[4,4]"},
                                             {"prod %x {axis=2, keep=true}", "f32[4,4,1]"},
                                             {"amin %x {axis=1, keep=false}", "f32[4,4]"},
                                             {"argmax %x {axis=0, keep=false}", "i32[4,4]"},
                                             {"argmax %x {axis=2, keep=false}", "i32[4,4]"}};
    (void)state;
    kept = 0;
    for (size_t i = 0; i < sizeof reduced / sizeof *reduced; i++)
        check(reduced[i][0], reduced[i][1], "f32[4,4,4]", 3);
    assert_int_equal(kept, 5);
    kept = 0;
    check("gather %x, %y", "f32[4,4,4]", "i32[4]", 1);
    check("gather %x, %y", "f32[4,4,4,4]", "i32[4,4]", 2);
    assert_int_equal(kept, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_of_other_rows_are_known),
                                       cmocka_unit_test(reads_of_named_rows_are_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
