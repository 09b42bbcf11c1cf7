/* Where a tensor of a result lies, form by form, and how much of what a call was given is kept to be compared. */
#include "support/check.h"

#include "autograph/before.h"
#include "autograph/manager.h"
#include "autograph/place.h"
#include "base/alloc.h"
#include "device/device.h"

static float m[32], elsewhere[32];

static rp_value tensor(rp_dtype dtype, void *at, uint32_t rank, int64_t a, int64_t b) {
    return rp_value_tensor((rp_buffer){dtype, rank, {a, b}, at});
}

static rp_value strided(rp_value v, int64_t a, int64_t b) {
    v.strided = true;
    v.stride[0] = a;
    v.stride[1] = b;
    return v;
}

static rp_value indirect(rp_value v) {
    v.indirect = true;
    return v;
}

/* An argument is given back whole where the form is its own: type, rank, every size, no strides. Else a part of it is. */
static void an_argument_is_whole_in_its_own_form(void **state) {
    const rp_value x = tensor(RP_DTYPE_F32, m, 2, 4, 8), at = indirect(x);
    const struct {
        rp_value arg, v;
        autograph_home home;
        bool whole;
        size_t offset;
    } is[] = {
        {x, x, AUTOGRAPH_IN_ARGUMENT, true, 0},
        {x, tensor(RP_DTYPE_I32, m, 2, 4, 8), AUTOGRAPH_IN_ARGUMENT, false, 0},
        {x, tensor(RP_DTYPE_BF16, m, 2, 4, 8), AUTOGRAPH_IN_ARGUMENT, false, 0},
        {x, tensor(RP_DTYPE_F32, m, 1, 32, 0), AUTOGRAPH_IN_ARGUMENT, false, 0},
        {x, tensor(RP_DTYPE_F32, m, 2, 8, 4), AUTOGRAPH_IN_ARGUMENT, false, 0},
        {x, tensor(RP_DTYPE_F32, m, 2, 4, 4), AUTOGRAPH_IN_ARGUMENT, false, 0},
        {x, tensor(RP_DTYPE_F32, m, 2, 3, 8), AUTOGRAPH_IN_ARGUMENT, false, 0},
        {x, tensor(RP_DTYPE_F32, m + 8, 2, 3, 8), AUTOGRAPH_IN_ARGUMENT, false, 32},
        {x, tensor(RP_DTYPE_F32, m + 8, 2, 4, 8), AUTOGRAPH_ELSEWHERE, false, 0},
        {x, tensor(RP_DTYPE_I64, m, 2, 4, 8), AUTOGRAPH_ELSEWHERE, false, 0},
        {x, strided(tensor(RP_DTYPE_F32, m, 2, 8, 4), 1, 8), AUTOGRAPH_IN_ARGUMENT, false, 0},
        {x, strided(tensor(RP_DTYPE_F32, m, 2, 8, 4), 1, 9), AUTOGRAPH_ELSEWHERE, false, 0},
        {x, tensor(RP_DTYPE_F32, elsewhere, 2, 4, 8), AUTOGRAPH_ELSEWHERE, false, 0},
        {at, x, AUTOGRAPH_IN_ARGUMENT, true, 0},
        {at, tensor(RP_DTYPE_I32, m, 2, 4, 8), AUTOGRAPH_ELSEWHERE, false, 0},
        {at, tensor(RP_DTYPE_F32, m, 2, 3, 8), AUTOGRAPH_ELSEWHERE, false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        const rp_call call = {0};
        const rp_value both[] = {tensor(RP_DTYPE_F32, elsewhere + 16, 1, 8, 0), is[i].arg};
        const rp_value args = rp_value_tuple((rp_value *)(uintptr_t)both, 2);
        const autograph_place p = autograph_place_of(&call, &args, &is[i].v);
        if (p.home != is[i].home || p.whole != is[i].whole || p.offset != is[i].offset)
            fail_msg("%zu: home %d, whole %d, offset %zu", i, (int)p.home, p.whole, p.offset);
        if (p.home == AUTOGRAPH_ELSEWHERE) continue;
        assert_int_equal(p.number, 1);
        assert_ptr_equal(autograph_place_at(&p, &call, &args), is[i].v.tensor.data);
        rp_value own = is[i].v;
        own.tensor.data = NULL;
        if (!autograph_place_give(&p, &args, &own)) fail_msg("%zu is not given", i);
        assert_ptr_equal(own.tensor.data, is[i].v.tensor.data);
        assert_int_equal(own.tensor.dtype, is[i].v.tensor.dtype);
    }
}

/* Of arguments that share memory the first one is told. */
static void the_first_of_two_is_told(void **state) {
    const rp_call call = {0};
    const rp_value both[] = {tensor(RP_DTYPE_F32, m, 2, 4, 8), tensor(RP_DTYPE_F32, m, 1, 32, 0)};
    const rp_value args = rp_value_tuple((rp_value *)(uintptr_t)both, 2);
    const rp_value v[] = {tensor(RP_DTYPE_F32, m + 4, 1, 8, 0), both[1]};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const autograph_place p = autograph_place_of(&call, &args, &v[i]);
        assert_int_equal(p.home, AUTOGRAPH_IN_ARGUMENT);
        assert_int_equal(p.number, 0);
    }
}

/* The argument of a replay may have other strides than that of the run that was captured. */
static void the_whole_of_an_argument_has_its_strides(void **state) {
    const rp_value arg = strided(tensor(RP_DTYPE_F32, m, 2, 8, 4), 1, 8);
    const rp_value args = rp_value_tuple((rp_value *)(uintptr_t)&arg, 1);
    const autograph_place whole = {AUTOGRAPH_IN_ARGUMENT, 0, true, 0},
                          part = {AUTOGRAPH_IN_ARGUMENT, 0, false, 0};
    (void)state;
    rp_value v = tensor(RP_DTYPE_F32, elsewhere, 2, 8, 4);
    assert_true(autograph_place_give(&whole, &args, &v));
    assert_ptr_equal(v.tensor.data, m);
    assert_true(v.strided && v.stride[0] == 1 && v.stride[1] == 8);
    v = tensor(RP_DTYPE_F32, elsewhere, 1, 4, 0);
    assert_false(autograph_place_give(&part, &args, &v)); /* where that is, nobody knows */
}

/* Any of the states, wherever it stands among the arguments. */
static void a_state_is_met_at_each_place(void **state) {
    (void)state;
    for (int at = 0; at < 3; at++) {
        rp_value all[] = {tensor(RP_DTYPE_F32, elsewhere, 1, 4, 0),
                          tensor(RP_DTYPE_F32, elsewhere + 8, 1, 4, 0),
                          tensor(RP_DTYPE_F32, elsewhere + 16, 1, 4, 0)};
        const rp_value args = rp_value_tuple(all, 3);
        all[at] = tensor(RP_DTYPE_F32, m + 8, 1, 8, 0);
        for (int first = 0; first < 24; first++) {
            const rp_value v = tensor(RP_DTYPE_F32, m + first, 1, 4, 0);
            all[at].state = false;
            assert_false(autograph_place_meets_state(&args, &v));
            all[at].state = true;
            assert_int_equal(autograph_place_meets_state(&args, &v), first > 4 && first < 16);
        }
        const rp_value none = tensor(RP_DTYPE_F32, m + 8, 1, 0, 0);
        assert_false(autograph_place_meets_state(&args, &none));
    }
}

/* Rows that are rounded up move what is behind them: a part of such an argument has no place. */
static void parts_of_rounded_rows_have_no_place(void **state) {
    static const struct {
        bool whole, rows, of_rows, rounded, told;
    } is[] = {{true, true, true, true, false},    {true, false, true, true, true},
              {false, true, true, true, true},    {false, false, true, true, true},
              {false, false, false, true, false}, {true, false, false, true, false},
              {false, true, true, false, false},  {true, false, true, false, false}};
    rp_value arg = tensor(RP_DTYPE_F32, m, 2, 4, 8), v = arg;
    const rp_value args = rp_value_tuple(&arg, 1);
    const autograph_place out = {AUTOGRAPH_IN_OUTPUT, 0, false, 0},
                          none = {.home = AUTOGRAPH_ELSEWHERE};
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        const autograph_place p = {AUTOGRAPH_IN_ARGUMENT, 0, is[i].whole, 0};
        v.rows = is[i].rows;
        arg.rows = is[i].of_rows;
        if ((autograph_place_reason(&p, &args, &v, is[i].rounded) != NULL) != is[i].told)
            fail_msg("%zu", i);
        assert_null(autograph_place_reason(&out, &args, &v, is[i].rounded));
        assert_non_null(autograph_place_reason(&none, &args, &v, is[i].rounded));
    }
}

/* The bound is of all that one call keeps, not of each. */
static void so_much_is_kept_of_a_call(void **state) {
    enum { PIECE = 16 << 20, MOST = 4 };
    rp_error err = {0};
    rp_device *d = NULL;
    hal_device *queue = NULL;
    autograph_before b = {0};
    char *memory = base_alloc(PIECE);
    (void)state;
    assert_non_null(memory);
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    CHECK_OK(device_queue(d, &queue, &err), &err);
    autograph_before_open(&b, d, queue);
    for (uint32_t i = 0; i < MOST + 2; i++) autograph_before_keep(&b, memory, PIECE, i, false);
    assert_int_equal(b.n, MOST);
    autograph_before_keep(&b, memory, 1, MOST, false);
    assert_int_equal(b.n, MOST);
    autograph_before_done(&b);
    autograph_before_open(&b, d, queue);
    autograph_before_keep(&b, memory, PIECE, 0, false);
    autograph_before_keep(&b, memory, 4u * PIECE, 1, false);
    autograph_before_keep(&b, memory, 1, 2, false);
    assert_int_equal(b.n, 2);
    memory[0]++;
    rp_status st = autograph_before_check(&b, true, &err);
    assert_int_equal(st, RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tensor 0 of the arguments is written"));
    autograph_before_done(&b);
    hal_close(queue);
    rp_device_close(d);
    base_free(memory);
}

static rp_status no_copy(hal_device *d, void *to, const void *from, size_t size, rp_error *err) {
    (void)d, (void)to, (void)from, (void)size;
    return rp_fail(err, RP_DEVICE, "no copy");
}

/* What could not be copied is not kept, nor is memory for it; an allocation that fails likewise. */
static void what_cannot_be_kept_leaves_nothing(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    hal_device *queue = NULL;
    autograph_before b = {0};
    char memory[64] = {0};
    (void)state;
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    CHECK_OK(device_queue(d, &queue, &err), &err);
    autograph_before_open(&b, d, queue);
    const hal_device_ops *own = queue->ops;
    hal_device_ops failing = *own;
    failing.copy = no_copy;
    autograph_before_keep(&b, memory, 1, 0, false); /* makes room for more */
    const size_t live = base_live();
    queue->ops = &failing;
    for (int i = 0; i < 3; i++) autograph_before_keep(&b, memory, sizeof memory, 1, false);
    queue->ops = own;
    assert_int_equal(base_live(), live);
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        (void)base_alloc_fail_nth(nth);
        autograph_before_keep(&b, memory, sizeof memory, 2, false);
        failed = base_alloc_fail_nth(0);
        assert_int_equal(b.n, failed ? 1 : 2);
        if (failed) assert_int_equal(base_live(), live);
    }
    autograph_before_done(&b);
    hal_close(queue);
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_argument_is_whole_in_its_own_form),
        cmocka_unit_test(the_first_of_two_is_told),
        cmocka_unit_test(the_whole_of_an_argument_has_its_strides),
        cmocka_unit_test(a_state_is_met_at_each_place),
        cmocka_unit_test(parts_of_rounded_rows_have_no_place),
        cmocka_unit_test(so_much_is_kept_of_a_call),
        cmocka_unit_test(what_cannot_be_kept_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
