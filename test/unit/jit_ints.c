/* Integer arguments that a function takes as sizes: one graph for all values, and never a number of another call. */
#include "support/heard.h"
#include "support/jits.h"

#include "base/status.h"

/* Says all of text where it has no such part. */
#define CHECK_TEXT(text, want)                                         \
    do {                                                               \
        const char *is_ = (text);                                      \
        if (!is_ || !strstr(is_, want)) {                              \
            rp_log_set_callback(NULL, NULL);                           \
            fail_msg("no '%s' in\n%s", want, is_ ? is_ : "(nothing)"); \
        }                                                              \
    } while (0)

enum { ROOM = 64 };
static float x[ROOM];

static void fill(void) {
    for (int i = 0; i < ROOM; i++) x[i] = (float)i - 7;
}

/* The first n rows, and what n is as a value. */
static rp_status head(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    rp_dim n = rp_jit_dim(call, &args->item[1]);
    (void)user, (void)err;
    t = rp_slice(t, 0, 0, n);
    t = rp_mul(t, rp_dim_value(rp_jit_graph(call), n, RP_DTYPE_F32));
    *result = rp_jit_value(call, t);
    return RP_OK;
}

static rp_output *call(rp_jit *f, int64_t n) {
    rp_value v[] = {f32_of(x, 1, ROOM, 0), rp_value_int(n)}, args = rp_value_tuple(v, 2);
    return jit_ok(f, &args);
}

static void check_head(rp_jit *f, int64_t n) {
    rp_output *o = call(f, n);
    const rp_buffer *b = &jit_result(o)->tensor;
    assert_int_equal(b->dim[0], n);
    for (int64_t i = 0; i < n; i++) assert_true(((float *)b->data)[i] == x[i] * (float)n);
    rp_output_free(o);
}

static void one_graph_serves_all_values(void **state) {
    (void)state;
    for (int level = 0; level <= 3; level++)
        for (int how = 0; how < 3; how++) {
            rp_error err = {0};
            rp_jit *f = jit_at(head, level, (rp_dynamic)how, NULL);
            CHECK_OK(rp_jit_mark_static(f, "L[0]", 0, &err), &err);
            for (int64_t n = 5; n < 40; n++) check_head(f, n);
            if (level && how == RP_DYNAMIC_AUTO) assert_int_equal(jit_info(f).entries, 2);
            if (level && how == RP_DYNAMIC_ALL) assert_int_equal(jit_info(f).entries, 1);
            if (level && how != RP_DYNAMIC_NONE) assert_int_equal(jit_info(f).eager, 0);
            rp_jit_free(f);
        }
}

/* x + n, and n as a value of the result's sizes: of any integer. */
static rp_status shifted(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_dim n = rp_jit_dim(call, &args->item[1]);
    rp_tensor value = rp_dim_value(rp_jit_graph(call), n, RP_DTYPE_I64);
    (void)err;
    if (user && rp_dim_gt(rp_dim_mul(n, 3), 60))
        value = rp_add(value, rp_const_int(rp_jit_graph(call), RP_DTYPE_I64, 1));
    *result = rp_jit_value(call, value);
    return RP_OK;
}

static void check_shifted(rp_jit *f, int64_t n, bool asks) {
    rp_output *o = call(f, n);
    const int64_t want = n + (asks && n > 20);
    const int64_t is = *(const int64_t *)jit_result(o)->tensor.data;
    if (is != want) fail_msg("%lld is %lld", (long long)n, (long long)is);
    rp_output_free(o);
}

/* An entry for those up to 20, one for larger ones, one for negative ones, beside the first. */
static void negative_ones_and_questions(void **state) {
    static const int64_t some[] = {
        5, 6, 7, 30, 31, 1000000007, INT64_C(1) << 40, -3, -4, -100000, -(INT64_C(1) << 40),
        0, 1, 2, 20, 21};
    static bool asks = true;
    (void)state;
    for (int level = 0; level <= 2; level++)
        for (int how = 0; how < 3; how++) {
            rp_jit *f = jit_at(shifted, level, (rp_dynamic)how, &asks);
            for (size_t i = 0; i < sizeof some / sizeof *some; i++) check_shifted(f, some[i], true);
            if (level && how == RP_DYNAMIC_AUTO) assert_int_equal(jit_info(f).entries, 4);
            for (int64_t n = -40; n < 40; n++) check_shifted(f, n, true);
            if (level && how == RP_DYNAMIC_AUTO) assert_int_equal(jit_info(f).eager, 0);
            rp_jit_free(f);
        }
}

/* Beyond what a symbol may be: numbers, which symbols leave alone. */
static void huge_ones_are_numbers(void **state) {
    static const int64_t most = INT64_C(1) << 40;
    const int64_t far[] = {most + 1, -most - 1, most << 21, -(most << 21)};
    const int64_t never[] = {INT64_MIN, INT64_MAX, (most << 21) + 1, -(most << 21) - 1};
    base_buf said;
    (void)state;
    rp_jit *f = jit_at(shifted, 1, RP_DYNAMIC_AUTO, NULL);
    heard_start(&said, "dynamic");
    for (int64_t n = 5; n < 8; n++) check_shifted(f, n, false);
    for (int64_t n = 5; n < 8; n++) check_shifted(f, -n, false);
    assert_int_equal(jit_info(f).entries, 3);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) check_shifted(f, far[i], false);
    assert_int_equal(jit_info(f).entries, 3 + sizeof far / sizeof *far);
    CHECK_TEXT(said.data,
               "L[1] = 1099511627777 of forward is a number: a symbol of an integer is in "
               "[-1099511627776, 1099511627776]");
    heard_done(&said);
    for (int level = 0; level < 2; level++) {
        rp_jit *g = jit_at(shifted, level, RP_DYNAMIC_AUTO, NULL);
        for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
            rp_value v[] = {f32_of(x, 1, ROOM, 0), rp_value_int(never[i])};
            rp_value args = rp_value_tuple(v, 2);
            rp_error err = {0};
            rp_output *o = NULL;
            assert_int_equal(rp_jit_run(g, &args, &o, &err), RP_INVALID);
            CHECK_TEXT(err.text, "rp_jit_dim: the integer is ");
        }
        rp_jit_free(g);
    }
    rp_jit_free(f);
}

/* It is read as a number as well, which the library cannot see: each value is an entry, and none gives what another would. */
static rp_status both(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    rp_dim n = rp_jit_dim(call, &args->item[1]);
    rp_tensor t = rp_slice(rp_jit_tensor(call, &args->item[0]), 0, 0, n);
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(t, (double)args->item[1].as.integer));
    return RP_OK;
}

static void what_is_read_as_a_number_is_one(void **state) {
    base_buf said;
    (void)state;
    rp_jit *f = jit_at(both, 1, RP_DYNAMIC_AUTO, NULL);
    for (int64_t n = 5; n < 30; n++) check_head(f, n);
    rp_jit_free(f);
    f = jit_at(both, 1, RP_DYNAMIC_AUTO, NULL);
    heard_start(&said, "dynamic");
    for (int64_t n = 5; n < 30; n++) rp_output_free(call(f, n));
    assert_int_equal(jit_info(f).entries, 16);
    CHECK_TEXT(said.data,
               "L[1] of forward is a number: the function reads it as one beside rp_jit_dim");
    CHECK_TEXT(said.data,
               "L[1] was 5, 6, 7, 8, 9, 10, 11, 12, 13; the function reads it as a number beside "
               "rp_jit_dim; read it by that alone, or give L[1] as a tensor of rank 0, whose value "
               "is no guard; 8 further forms");
    heard_done(&said);
    rp_jit_free(f);
}

/* Of several integers those alone that are; nested; one is taken in one place and one never. */
static rp_status several(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    const rp_value *list = args->item[1].item;
    rp_dim from = rp_jit_dim(call, &list[0]), n = rp_jit_dim(call, &args->item[2].item[0]);
    rp_tensor t = rp_slice(rp_jit_tensor(call, &args->item[0]), 0, from, rp_dim_add(from, n));
    (void)user, (void)err;
    (void)rp_jit_dim(call, &list[1]);
    *result = rp_jit_value(call, rp_mul_scalar(t, (double)list[1].as.integer));
    return RP_OK;
}

static void integers_in_containers(void **state) {
    (void)state;
    rp_jit *f = jit_at(several, 1, RP_DYNAMIC_AUTO, NULL);
    for (int64_t k = 2; k < 5; k++)
        for (int64_t from = 2; from < 9; from++) {
            static const char *const names[] = {"n"};
            rp_value list[] = {rp_value_int(from), rp_value_int(k)}, n = rp_value_int(from + 1);
            rp_value v[] = {f32_of(x, 1, ROOM, 0), rp_value_list(list, 2),
                            rp_value_map(names, &n, 1)};
            rp_value args = rp_value_tuple(v, 3);
            rp_output *o = jit_ok(f, &args);
            const rp_buffer *b = &jit_result(o)->tensor;
            assert_int_equal(b->dim[0], from + 1);
            for (int64_t i = 0; i <= from; i++)
                assert_true(((float *)b->data)[i] == x[from + i] * (float)k);
            rp_output_free(o);
        }
    assert_int_equal(jit_info(f).entries, 4); /* one of numbers, and one for each k */
    rp_jit_free(f);
}

/* The form of the whole: how often, how long, and what was left. */
static rp_status tiled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    rp_dim n = rp_jit_dim(call, &args->item[1]);
    (void)user, (void)err;
    if (rp_dim_eq(rp_dim_mod(n, 4), 0))
        t = rp_sum(rp_reshape(rp_slice(t, 0, 0, n), RP_SHAPE(rp_dim_floordiv(n, 4), 4)), 1, false);
    else
        t = rp_cast(rp_iota(rp_jit_graph(call), RP_DTYPE_I32, RP_SHAPE(rp_dim_add(n, 1)), 0),
                    RP_DTYPE_F32);
    t = rp_broadcast(rp_unsqueeze(t, 0), RP_SHAPE(n, rp_tensor_dim(t, 0)));
    *result = rp_jit_value(call, t);
    return RP_OK;
}

static void in_shapes_and_questions(void **state) {
    (void)state;
    for (int level = 0; level <= 3; level++) {
        rp_jit *f = jit_at(tiled, level, RP_DYNAMIC_AUTO, NULL);
        for (int64_t n = 3; n < 40; n++) {
            rp_output *o = call(f, n);
            const rp_buffer *b = &jit_result(o)->tensor;
            const int64_t wide = n % 4 ? n + 1 : n / 4;
            assert_int_equal(b->dim[0], n);
            assert_int_equal(b->dim[1], wide);
            for (int64_t i = 0; i < n * wide; i++) {
                const int64_t c = i % wide;
                float want = (float)c;
                if (n % 4 == 0) want = x[4 * c] + x[4 * c + 1] + x[4 * c + 2] + x[4 * c + 3];
                assert_true(((float *)b->data)[i] == want);
            }
            rp_output_free(o);
        }
        if (level) assert_int_equal(jit_info(f).entries, 3);
        rp_jit_free(f);
    }
}

/* Behind breaks the function runs at each call, so that a number it reads besides is that of the call. */
static rp_status broken(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    const bool *late = user;
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    if (!late[0]) t = rp_slice(t, 0, 0, rp_jit_dim(call, &args->item[1]));
    const bool large = rp_item(rp_amax(t, 0, false)) > 20;
    if (late[0]) t = rp_slice(t, 0, 0, rp_jit_dim(call, &args->item[1]));
    rp_jit_break(call, "builtin: print");
    t = rp_mul(t, rp_dim_value(rp_jit_graph(call), rp_jit_dim(call, &args->item[1]), RP_DTYPE_F32));
    if (large) t = rp_add_scalar(t, 1);
    if (late[1]) t = rp_mul_scalar(t, (double)args->item[1].as.integer);
    *result = rp_jit_value(call, t);
    return RP_OK;
}

static void behind_graph_breaks(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level++)
        for (int k = 0; k < 4; k++) {
            rp_error err = {0};
            bool late[] = {k % 2, k / 2};
            rp_jit *f = jit_at(broken, level, RP_DYNAMIC_AUTO, late);
            CHECK_OK(rp_jit_mark_static(f, "L[0]", 0, &err), &err);
            for (int64_t n = 5; n < 34; n++) {
                rp_output *o = call(f, n);
                const rp_buffer *b = &jit_result(o)->tensor;
                const bool large = late[0] || n > 28;
                assert_int_equal(b->dim[0], n);
                for (int64_t i = 0; i < n; i++) {
                    float want = x[i] * (float)n + (large ? 1 : 0);
                    if (late[1]) want *= (float)n;
                    if (((float *)b->data)[i] != want)
                        fail_msg("way %d of level %d, %d: %d is %f, not %f", k, level, (int)n,
                                 (int)i, (double)((float *)b->data)[i], (double)want);
                }
                rp_output_free(o);
            }
            if (level) assert_int_equal(jit_info(f).entries, 2);
            if (level && !late[1]) assert_int_equal(jit_info(f).eager, 0);
            rp_jit_free(f);
        }
}

static void marks_and_guards(void **state) {
    rp_error err = {0};
    char *text = NULL;
    rp_output *o = NULL;
    (void)state;
    rp_jit *f = jit_at(head, 1, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[1]", 0, 2, 50, &err), &err);
    for (int64_t n = 2; n < 50; n++) check_head(f, n);
    assert_int_equal(jit_info(f).entries, 1);
    CHECK_OK(rp_jit_guards_text(f, &text, &err), &err);
    CHECK_TEXT(text, "  - GuardManager: source=L[1]\n    - TYPE_MATCH: type(L[1]) == int\n"
                     "  - SHAPE_ENV: 2 <= L[1] <= 50\n");
    rp_free(text);
    rp_value v[] = {f32_of(x, 1, ROOM, 0), rp_value_int(51)}, args = rp_value_tuple(v, 2);
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
    CHECK_TEXT(err.text, "forward: L[1] is 51, which is outside of its mark, [2, 50]");
    rp_jit_free(f);
    f = jit_at(head, 1, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_static(f, "L[1]", 0, &err), &err);
    for (int64_t n = 2; n < 6; n++) check_head(f, n);
    assert_int_equal(jit_info(f).entries, 4);
    rp_jit_free(f);
    f = jit_at(both, 1, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[1]", 0, 0, INT64_MAX, &err), &err);
    v[1] = rp_value_int(5);
    err = (rp_error){0};
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
    CHECK_TEXT(err.text,
               "Constraints violated (L[1])! You marked L[1] as dynamic but the function reads it "
               "as a number, too; read it by rp_jit_dim alone");
    rp_jit_free(f);
    f = jit_at(head, 1, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_unbacked(f, "L[1]", 0, 0, 64, &err), &err);
    for (int64_t n = 0; n < 6; n++) check_head(f, n);
    assert_int_equal(jit_info(f).entries, 1);
    rp_jit_free(f);
}

/* A mark that has none ends where symbols do, which is in it. */
static void a_mark_without_an_end(void **state) {
    const int64_t most = INT64_C(1) << 40;
    rp_error err = {0};
    rp_output *o = NULL;
    (void)state;
    rp_jit *f = jit_at(shifted, 1, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[1]", 0, 0, INT64_MAX, &err), &err);
    check_shifted(f, most, false);
    check_shifted(f, 7, false);
    assert_int_equal(jit_info(f).entries, 1);
    rp_value v[] = {f32_of(x, 1, ROOM, 0), rp_value_int(most + 1)}, args = rp_value_tuple(v, 2);
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
    CHECK_TEXT(err.text, "is 1099511627777, which is outside of its mark, [0, 1099511627776]: no "
                         "symbol of an integer is larger");
    rp_jit_free(f);
}

static void the_log_tells_why(void **state) {
    static bool asks = true;
    base_buf said;
    (void)state;
    rp_jit *f = jit_at(shifted, 1, RP_DYNAMIC_AUTO, &asks);
    heard_start(&said, "recompiles,dynamic,guards");
    check_shifted(f, 5, true);
    check_shifted(f, 6, true);
    check_shifted(f, 30, true);
    check_shifted(f, -6, true);
    CHECK_TEXT(said.data, "create_symbol s0 = 6 for L[1] [0, 1099511627776]");
    CHECK_TEXT(said.data, "/0: L[1] == 5\n");
    CHECK_TEXT(said.data, "/1: 3*L[1] <= 60  # ");
    CHECK_TEXT(said.data, "create_symbol s0 = 6 for -L[1] [1, 1099511627776]");
    CHECK_TEXT(said.data, "SHAPE_ENV: -1099511627776 <= L[1] <= -1\n");
    heard_done(&said);
    rp_jit_free(f);
}

/* Sizes that an op wants to be one, of which one is a negative integer. */
static rp_status paired(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_graph *g = rp_jit_graph(call);
    rp_dim n = rp_jit_dim(call, &args->item[0]), m = rp_jit_dim(call, &args->item[1]);
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_add(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(n), 0),
                                        rp_iota(g, RP_DTYPE_I32, RP_SHAPE(rp_dim_sub(0, m)), 0)));
    return RP_OK;
}

static void equal_but_for_the_sign(void **state) {
    (void)state;
    for (int level = 0; level < 3; level++) {
        rp_jit *f = jit_at(paired, level, RP_DYNAMIC_AUTO, NULL);
        for (int64_t n = 4; n < 12; n++) {
            rp_value v[] = {rp_value_int(n), rp_value_int(-n)}, args = rp_value_tuple(v, 2);
            rp_output *o = jit_ok(f, &args);
            const rp_buffer *b = &jit_result(o)->tensor;
            assert_int_equal(b->dim[0], n);
            for (int64_t i = 0; i < n; i++) assert_int_equal(((int32_t *)b->data)[i], 2 * i);
            rp_output_free(o);
            rp_error err = {0};
            v[1] = rp_value_int(-n - 1);
            assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        }
        if (level) assert_int_equal(jit_info(f).entries, 2);
        rp_jit_free(f);
    }
}

/* What is no integer of the arguments. */
static rp_status wrong(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    rp_value own = rp_value_int(3);
    (void)err;
    rp_dim n = rp_jit_dim(call, user ? &own : &args->item[0]);
    *result = rp_jit_value(call, rp_dim_value(rp_jit_graph(call), n, RP_DTYPE_I64));
    return RP_OK;
}

static void another_value_is_an_error(void **state) {
    static bool own = true;
    (void)state;
    for (int k = 0; k < 2; k++) {
        rp_error err = {0};
        rp_output *o = NULL;
        rp_jit *f = jit_at(wrong, 1, RP_DYNAMIC_AUTO, k ? &own : NULL);
        rp_value v[] = {f32_of(x, 1, ROOM, 0), rp_value_int(5)}, args = rp_value_tuple(v, 2);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        CHECK_TEXT(err.text, "rp_jit_dim: the value is no integer of the arguments of this call");
        CHECK_TEXT(err.text, "jit_ints.c:");
        rp_jit_free(f);
    }
}

/* An integer that is read as a number alone is a literal, whose limit says what to call. */
static rp_status counted(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(
        call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), (double)args->item[1].as.integer));
    return RP_OK;
}

static void the_limit_tells_the_call(void **state) {
    base_buf said;
    (void)state;
    rp_jit *f = jit_at(counted, 1, RP_DYNAMIC_AUTO, NULL);
    heard_start(&said, "dynamic");
    for (int64_t n = 5; n < 30; n++) rp_output_free(call(f, n));
    assert_int_equal(jit_info(f).entries, 16);
    assert_int_equal(jit_info(f).eager, 9);
    CHECK_TEXT(said.data,
               "L[1] was 5, 6, 7, 8, 9, 10, 11, 12, 13; read it by rp_jit_dim(call, v), which "
               "makes it a symbol, or give L[1] as a tensor of rank 0, whose value is no guard");
    if (strstr(said.data, "for L[1]")) fail_msg("%s", said.data);
    heard_done(&said);
    rp_jit_free(f);
}

static void calls_that_are_captured(void **state) {
    (void)state;
    rp_jit_options o = jit_options(head);
    o.mode = "reduce-overhead";
    rp_jit *f = jit_by(o, "threads=1");
    for (int turn = 0; turn < 2; turn++)
        for (int64_t n = 5; n < 20; n++) check_head(f, n);
    assert_int_equal(jit_info(f).entries, 2);
    assert_int_equal(jit_info(f).eager, 0);
    rp_jit_free(f);
}

static rp_compilation_config *settings;

static rp_status calls_of(rp_jit_fn fn, rp_error *err) {
    static bool late[] = {false, false};
    rp_jit_options o = jit_options(fn);
    rp_jit *f = NULL;
    o.user = late;
    o.config = settings;
    RP_TRY(rp_jit_new(&o, &f, err));
    rp_jit_reset(f);
    rp_status st = RP_OK;
    for (int64_t n = 4; n < 6 && st == RP_OK; n++) {
        rp_output *out = NULL;
        rp_value v[] = {f32_of(x, 1, ROOM, 0), rp_value_int(n)}, args = rp_value_tuple(v, 2);
        st = rp_jit_run(f, &args, &out, err);
        rp_output_free(out);
    }
    rp_jit_free(f);
    return st;
}

static rp_status life(rp_error *err) {
    RP_TRY(calls_of(head, err));
    RP_TRY(calls_of(both, err));
    return calls_of(broken, err);
}

static void failed_allocations_are_told(void **state) {
    rp_error err = {0};
    (void)state;
    settings = jit_plain_settings();
    (void)life(&err); /* what the process keeps */
    jit_fail_each_allocation(life, 32);
    rp_config_free(settings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_graph_serves_all_values),
        cmocka_unit_test(negative_ones_and_questions),
        cmocka_unit_test(huge_ones_are_numbers),
        cmocka_unit_test(what_is_read_as_a_number_is_one),
        cmocka_unit_test(integers_in_containers),
        cmocka_unit_test(in_shapes_and_questions),
        cmocka_unit_test(behind_graph_breaks),
        cmocka_unit_test(marks_and_guards),
        cmocka_unit_test(a_mark_without_an_end),
        cmocka_unit_test(the_log_tells_why),
        cmocka_unit_test(equal_but_for_the_sign),
        cmocka_unit_test(another_value_is_an_error),
        cmocka_unit_test(the_limit_tells_the_call),
        cmocka_unit_test(calls_that_are_captured),
        cmocka_unit_test(failed_allocations_are_told),
    };
    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
