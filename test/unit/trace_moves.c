/* What is moved and not computed, over every axis it takes: the values are their own places, so a result tells where each of its
 * elements comes from. */
#include "support/check.h"

#include "base/alloc.h"
#include "ir/eval.h"
#include "trace/trace.h"

enum { RANK = 3, A = 2, B = 3, C = 4, N = A * B * C };
static const int64_t sizes[RANK] = {A, B, C};

static rp_tensor places(rp_graph *g) {
    return rp_reshape(rp_iota(g, RP_DTYPE_F32, RP_SHAPE(N), 0), RP_SHAPE(A, B, C));
}

typedef struct result {
    int64_t dim[8], n;
    uint32_t rank;
    double data[2 * N * 4];
} result;

/* Frees g. */
static void finish(rp_graph *g, rp_tensor y, result *out) {
    rp_error err = {0};
    ir_value v = {0};
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(ir_eval(trace_graph_ir(g), NULL, NULL, NULL, NULL, &v, &err), &err);
    assert_true(v.n <= (int64_t)(sizeof out->data / sizeof *out->data));
    out->rank = v.rank;
    out->n = v.n;
    memcpy(out->dim, v.dim, v.rank * sizeof *out->dim);
    memcpy(out->data, v.data, (size_t)v.n * sizeof *out->data);
    ir_value_done(&v);
    rp_graph_free(g);
}

static void place_of(const result *r, int64_t k, int64_t *at) {
    for (uint32_t i = r->rank; i-- > 0; k /= r->dim[i]) at[i] = k % r->dim[i];
}

static double value_at(const int64_t at[RANK]) {
    return (double)((at[0] * B + at[1]) * C + at[2]);
}

static void check_dims(const result *r, const int64_t *dim, uint32_t rank) {
    assert_int_equal(r->rank, rank);
    for (uint32_t i = 0; i < rank; i++) assert_int_equal(r->dim[i], dim[i]);
}

static int front(int axis, int rank) {
    return axis < 0 ? axis + rank : axis;
}

static void axes_are_exchanged(void **state) {
    static result r;
    (void)state;
    for (int i = -RANK; i < RANK; i++)
        for (int j = -RANK; j < RANK; j++) {
            rp_graph *g = rp_graph_new("moves");
            int x = front(i, RANK), y = front(j, RANK);
            int64_t at[RANK], dim[RANK] = {A, B, C};
            dim[x] = sizes[y], dim[y] = sizes[x];
            finish(g, rp_transpose(places(g), i, j), &r);
            check_dims(&r, dim, RANK);
            for (int64_t k = 0; k < r.n; k++) {
                place_of(&r, k, at);
                int64_t t = at[x];
                at[x] = at[y], at[y] = t;
                assert_true(r.data[k] == value_at(at));
            }
        }
}

/* Also behind the last axis. */
static void parts_are_stacked_along_any_new_axis(void **state) {
    static result r;
    (void)state;
    for (int axis = -RANK - 1; axis <= RANK; axis++) {
        rp_graph *g = rp_graph_new("moves");
        int new = front(axis, RANK + 1);
        rp_tensor x = places(g), parts[] = {x, rp_add_scalar(x, N)};
        int64_t at[RANK + 1], dim[RANK + 1];
        for (int i = 0; i <= RANK; i++) dim[i] = i == new ? 2 : sizes[i < new ? i : i - 1];
        finish(g, rp_stack(parts, 2, axis), &r);
        check_dims(&r, dim, RANK + 1);
        for (int64_t k = 0; k < r.n; k++) {
            place_of(&r, k, at);
            int64_t part = at[new], in[RANK];
            for (int i = 0; i < RANK; i++) in[i] = at[i < new ? i : i + 1];
            assert_true(r.data[k] == value_at(in) + (double)(part * N));
        }
    }
}

/* More of them than have room beside the call; what is refused leaves as little as what is not. */
static void many_parts_are_joined(void **state) {
    enum { MANY = 2 * 4 };
    static rp_tensor parts[MANY * 8];
    static result r;
    const size_t live = base_live();
    (void)state;
    for (int bad = 0; bad < 2; bad++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("moves"), *other = rp_graph_new("other");
        rp_tensor one = rp_iota(g, RP_DTYPE_F32, RP_SHAPE(2), 0);
        for (int i = 0; i < MANY * 8; i++) parts[i] = rp_add_scalar(one, i);
        if (bad) parts[MANY * 8 - 1] = rp_iota(other, RP_DTYPE_F32, RP_SHAPE(2), 0);
        rp_tensor y = rp_concat(parts, MANY * 8, 0);
        if (bad) {
            assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
            rp_graph_free(g);
        } else {
            finish(g, y, &r);
            assert_int_equal(r.n, MANY * 8 * 2);
            for (int k = 0; k < r.n; k++) assert_true(r.data[k] == k / 2 + k % 2);
        }
        rp_graph_free(other);
        assert_int_equal(base_live(), live);
    }
}

static void parts_are_joined_along_any_axis(void **state) {
    static result r;
    (void)state;
    for (int axis = -RANK; axis < RANK; axis++) {
        rp_graph *g = rp_graph_new("moves");
        int join = front(axis, RANK);
        rp_tensor x = places(g), parts[] = {x, rp_add_scalar(x, N)};
        int64_t at[RANK], dim[RANK] = {A, B, C};
        dim[join] *= 2;
        finish(g, rp_concat(parts, 2, axis), &r);
        check_dims(&r, dim, RANK);
        for (int64_t k = 0; k < r.n; k++) {
            place_of(&r, k, at);
            int64_t part = at[join] / sizes[join];
            at[join] %= sizes[join];
            assert_true(r.data[k] == value_at(at) + (double)(part * N));
        }
    }
}

/* Axes of size 1 come and go, and neighbours become one, in the order of the elements. */
static void neighbours_become_one_axis(void **state) {
    static result r;
    (void)state;
    for (int axis = -RANK - 1; axis <= RANK; axis++)
        for (int back = 0; back < 2; back++) {
            rp_graph *g = rp_graph_new("moves");
            int new = front(axis, RANK + 1);
            int64_t dim[RANK + 1];
            for (int i = 0; i <= RANK; i++) dim[i] = i == new ? 1 : sizes[i < new ? i : i - 1];
            rp_tensor y = rp_unsqueeze(places(g), axis);
            finish(g, back ? rp_squeeze(y, axis) : y, &r);
            check_dims(&r, back ? sizes : dim, RANK + !back);
            for (int64_t k = 0; k < N; k++) assert_true(r.data[k] == (double)k);
        }
    for (int first = -RANK; first < RANK; first++)
        for (int last = -RANK; last < RANK; last++) {
            int from = front(first, RANK), to = front(last, RANK), n = 0;
            int64_t dim[RANK] = {0};
            if (from > to) continue;
            rp_graph *g = rp_graph_new("moves");
            finish(g, rp_flatten(places(g), first, last), &r);
            for (int i = 0; i < RANK; i++) {
                if (i <= from || i > to) dim[n++] = 1;
                dim[n - 1] *= sizes[i];
            }
            check_dims(&r, dim, (uint32_t)n);
            for (int64_t k = 0; k < N; k++) assert_true(r.data[k] == (double)k);
        }
}

static void an_axis_is_turned_around(void **state) {
    static result r;
    (void)state;
    for (int axis = -RANK; axis < RANK; axis++) {
        rp_graph *g = rp_graph_new("moves");
        int turned = front(axis, RANK);
        int64_t at[RANK];
        finish(g, rp_flip(places(g), axis), &r);
        check_dims(&r, sizes, RANK);
        for (int64_t k = 0; k < N; k++) {
            place_of(&r, k, at);
            at[turned] = sizes[turned] - 1 - at[turned];
            assert_true(r.data[k] == value_at(at));
        }
    }
}

/* Different numbers in no order: seven times the place, modulo the count. */
static rp_tensor mixed(rp_graph *g) {
    rp_tensor i = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(N), 0);
    rp_tensor n = rp_const(g, RP_DTYPE_I32, N), seven = rp_const(g, RP_DTYPE_I32, 7);
    return rp_reshape(rp_remainder(rp_mul(i, seven), n), RP_SHAPE(A, B, C));
}

static int64_t mixed_at(const int64_t at[RANK]) {
    return (int64_t)value_at(at) * 7 % N;
}

/* How many along the axis come before the one at `at`. */
static int64_t order_of(const int64_t at[RANK], int along, bool descending) {
    int64_t other[RANK] = {at[0], at[1], at[2]}, before = 0, own = mixed_at(at);
    for (other[along] = 0; other[along] < sizes[along]; other[along]++)
        before += descending ? mixed_at(other) > own : mixed_at(other) < own;
    return before;
}

/* Values, where they were, and that alone. */
static void any_axis_is_sorted_both_ways(void **state) {
    static result r[3];
    (void)state;
    for (int axis = -RANK; axis < RANK; axis++)
        for (int descending = 0; descending < 2; descending++) {
            const int along = front(axis, RANK);
            for (int what = 0; what < 3; what++) {
                rp_graph *g = rp_graph_new("moves");
                rp_tensor x = mixed(g), values, indices;
                rp_sort(x, axis, descending, &values, &indices);
                finish(g,
                       what == 0   ? values
                       : what == 1 ? indices
                                   : rp_argsort(x, axis, descending),
                       &r[what]);
                check_dims(&r[what], sizes, RANK);
            }
            for (int64_t k = 0; k < N; k++) {
                int64_t at[RANK], from[RANK];
                place_of(&r[0], k, at);
                memcpy(from, at, sizeof from);
                from[along] = (int64_t)r[1].data[k];
                assert_int_equal(order_of(from, along, descending), at[along]);
                assert_true(r[0].data[k] == (double)mixed_at(from));
                assert_true(r[2].data[k] == r[1].data[k]);
            }
        }
}

/* Rows by index, along each axis; what is outside is the nearest that is there. */
static void rows_are_taken_along_any_axis(void **state) {
    static const int64_t from[] = {1, 0, -5, 99, 1};
    static result r;
    (void)state;
    for (int axis = -RANK; axis < RANK; axis++) {
        rp_graph *g = rp_graph_new("moves");
        int along = front(axis, RANK);
        rp_tensor parts[5];
        int64_t at[RANK], dim[RANK] = {A, B, C};
        for (int i = 0; i < 5; i++)
            parts[i] = rp_broadcast(rp_const(g, RP_DTYPE_I32, (double)from[i]), RP_SHAPE(1));
        dim[along] = 5;
        finish(g, rp_index_select(places(g), axis, rp_concat(parts, 5, 0)), &r);
        check_dims(&r, dim, RANK);
        for (int64_t k = 0; k < r.n; k++) {
            place_of(&r, k, at);
            int64_t i = from[at[along]];
            at[along] = i < 0 ? 0 : i >= sizes[along] ? sizes[along] - 1 : i;
            assert_true(r.data[k] == value_at(at));
        }
    }
}

/* The first axis that is not there, on both sides, of each of them. */
static void axes_that_are_not_there_are_refused(void **state) {
    (void)state;
    for (int op = 0; op < 6; op++)
        for (int side = 0; side < 2; side++) {
            const bool more = op < 2;
            const int axis = side ? RANK + more : -RANK - more - 1;
            rp_error err = {0};
            rp_graph *g = rp_graph_new("moves");
            rp_tensor x = places(g), two[] = {x, x};
            rp_tensor y = op == 0   ? rp_stack(two, 2, axis)
                          : op == 1 ? rp_unsqueeze(x, axis)
                          : op == 2 ? rp_transpose(x, 0, axis)
                          : op == 3 ? rp_concat(two, 2, axis)
                          : op == 4 ? rp_flip(x, axis)
                                    : rp_flatten(x, axis, 2);
            assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
            char want[40];
            (void)snprintf(want, sizeof want, "axis %d ", axis);
            if (!strstr(err.text, want)) fail_msg("%s", err.text);
            rp_graph_free(g);
        }
}

/* Nothing is rounded that nobody asked to have rounded. */
static void a_new_graph_is_exact(void **state) {
    rp_graph *g = rp_graph_new("moves");
    (void)state;
    assert_int_equal(rp_graph_numerics(g), RP_NUMERICS_EXACT);
    rp_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_graph_is_exact),
        cmocka_unit_test(axes_are_exchanged),
        cmocka_unit_test(parts_are_stacked_along_any_new_axis),
        cmocka_unit_test(parts_are_joined_along_any_axis),
        cmocka_unit_test(many_parts_are_joined),
        cmocka_unit_test(neighbours_become_one_axis),
        cmocka_unit_test(an_axis_is_turned_around),
        cmocka_unit_test(any_axis_is_sorted_both_ways),
        cmocka_unit_test(rows_are_taken_along_any_axis),
        cmocka_unit_test(axes_that_are_not_there_are_refused),
    };
    return cmocka_run_group_tests_name("trace_moves", tests, NULL, NULL);
}
