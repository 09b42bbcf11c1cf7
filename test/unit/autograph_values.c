/* Trees of values: what tells calls apart, what is refused, what is copied and how it is written. */
#include "support/autographs.h"

#include <math.h>

#include "autograph/rows.h"
#include "autograph/value.h"
#include "base/alloc.h"

enum { MOST = 64 };

static rp_value all[MOST];
static uint32_t n_all;

static void add(rp_value v) {
    assert_true(n_all < MOST);
    all[n_all++] = v;
}

static rp_value tensor(rp_dtype t, uint32_t rank, int64_t first, int64_t last, void *data) {
    rp_buffer b = {t, rank, {0}, data};
    for (uint32_t i = 0; i < rank; i++) b.dim[i] = i + 1 == rank ? last : first;
    return rp_value_tensor(b);
}

/* No two of them are the same call. */
static void make_all(void) {
    static float x[64];
    static rp_value one[1], two[2], other[2], inner[1], none[1];
    static const char *const a[] = {"a", "b"}, *const b[] = {"b", "a"}, *const ab[] = {"ab"};
    n_all = 0;
    one[0] = rp_value_int(1);
    two[0] = rp_value_int(1), two[1] = rp_value_int(2);
    other[0] = rp_value_int(2), other[1] = rp_value_int(1);
    inner[0] = rp_value_list(one, 1);
    none[0] = rp_value_none();
    add(rp_value_none());
    add(rp_value_bool(false));
    add(rp_value_bool(true));
    for (int i = -1; i < 3; i++) add(rp_value_int(i));
    add(rp_value_int(INT64_MIN));
    add(rp_value_int((int64_t)1 << 32));
    for (int i = -1; i < 3; i++) add(rp_value_float(i));
    add(rp_value_float(-0.0));
    add(rp_value_float(1 + 0x1p-52));
    add(rp_value_string(""));
    add(rp_value_string("1"));
    add(rp_value_string("a"));
    add(rp_value_string("b"));
    add(rp_value_string("ab"));
    add(rp_value_list(NULL, 0));
    add(rp_value_list(one, 1));
    add(rp_value_list(two, 2));
    add(rp_value_list(other, 2));
    add(rp_value_list(inner, 1));
    add(rp_value_list(none, 1));
    add(rp_value_tuple(NULL, 0));
    add(rp_value_tuple(one, 1));
    add(rp_value_tuple(two, 2));
    add(rp_value_tuple(inner, 1));
    add(rp_value_map(NULL, NULL, 0));
    add(rp_value_map(a, one, 1));
    add(rp_value_map(b, one, 1));
    add(rp_value_map(ab, one, 1));
    add(rp_value_map(a, two, 2));
    add(rp_value_map(b, two, 2));
    add(tensor(RP_DTYPE_F32, 0, 0, 0, x));
    add(tensor(RP_DTYPE_F32, 1, 0, 1, x));
    add(tensor(RP_DTYPE_F32, 1, 0, 2, x));
    add(tensor(RP_DTYPE_I32, 1, 0, 2, x));
    add(tensor(RP_DTYPE_F32, 2, 1, 2, x));
    add(tensor(RP_DTYPE_F32, 2, 2, 1, x));
    for (int i = 0; i < 2; i++) { /* a state is found by its address */
        add(tensor(RP_DTYPE_F32, 1, 0, 2, x + i));
        all[n_all - 1].state = true;
    }
    for (int i = 1; i < 4; i++) { /* what is copied in, and what may be fewer */
        add(tensor(RP_DTYPE_F32, 1, 0, 2, x));
        all[n_all - 1].indirect = i & 1;
        all[n_all - 1].rows = i & 2;
    }
}

static char *key_of(const rp_value *v, size_t *n) {
    rp_error err = {0};
    base_buf b;
    base_buf_init(&b, 0);
    CHECK_OK(autograph_value_key(v, 0, &b, &err), &err);
    CHECK_OK(base_buf_status(&b, &err), &err);
    *n = b.len;
    return base_buf_take(&b);
}

static bool same_key(const rp_value *v, const rp_value *w) {
    size_t n, m;
    char *a = key_of(v, &n), *b = key_of(w, &m);
    bool same = n == m && memcmp(a, b, n) == 0;
    base_free(a);
    base_free(b);
    return same;
}

static void different_values_are_different_calls(void **state) {
    (void)state;
    make_all();
    for (uint32_t i = 0; i < n_all; i++)
        for (uint32_t k = 0; k < n_all; k++)
            if (same_key(&all[i], &all[k]) != (i == k)) fail_msg("values %u and %u", i, k);
    /* Also in a tuple, beside another one, where the one could eat the bytes of the other. */
    for (uint32_t i = 0; i < n_all; i++)
        for (uint32_t k = 0; k < n_all; k++) {
            rp_value a[] = {all[i], all[k]}, b[] = {all[k], all[i]};
            rp_value v = rp_value_tuple(a, 2), w = rp_value_tuple(b, 2);
            if (same_key(&v, &w) != (i == k)) fail_msg("values %u and %u in a tuple", i, k);
        }
    /* Where a tensor lies makes no other call of it. */
    float x[2], y[2];
    rp_value v = floats(x, 2), w = floats(y, 2);
    assert_true(same_key(&v, &w));
}

static void copies_are_their_own(void **state) {
    (void)state;
    make_all();
    for (uint32_t i = 0; i < n_all; i++)
        for (uint32_t k = 0; k < n_all; k++) {
            static const char *const plain[] = {"one", "two"};
            char first[] = "one", second[] = "two";
            const char *const name[] = {first, second};
            rp_value item[] = {all[i], all[k]}, v = rp_value_map(name, item, 2);
            rp_value again[] = {all[i], all[k]}, want = rp_value_map(plain, again, 2);
            size_t size = autograph_value_size(&v);
            char *at = base_alloc(size + 16);
            memset(at, 0x5a, size + 16);
            rp_value copy = autograph_value_copy(&v, at);
            for (int j = 0; j < 16; j++) assert_int_equal(at[size + (size_t)j], 0x5a);
            item[0] = item[1] = rp_value_none();
            first[0] = second[0] = 'x';
            assert_true(same_key(&copy, &want));
            base_free(at);
        }
}

static void refused(const rp_value *v, const char *want) {
    rp_error err = {0};
    base_buf b;
    base_buf_init(&b, 0);
    rp_status st = autograph_value_key(v, 0, &b, &err);
    base_buf_done(&b);
    assert_int_equal(st, want ? RP_INVALID : RP_OK);
    if (want) assert_non_null(strstr(err.text, want));
}

static void what_is_no_value_is_told(void **state) {
    static float x[4];
    static const char *const unnamed[] = {"a", NULL};
    rp_value deep[RP_MAX_VALUE_DEPTH + 1], two[] = {rp_value_none(), rp_value_none()}, v;
    (void)state;
    v = tensor((rp_dtype)RP_DTYPE_COUNT_, 1, 0, 1, x);
    char want[80];
    (void)snprintf(want, sizeof want, "a tensor has dtype %d, which is none", RP_DTYPE_COUNT_);
    refused(&v, want);
    v = tensor(RP_DTYPE_F32, RP_MAX_RANK, 1, 1, x);
    refused(&v, NULL);
    v.tensor.rank++;
    (void)snprintf(want, sizeof want, "a tensor has rank %d; %d is the most", RP_MAX_RANK + 1,
                   RP_MAX_RANK);
    refused(&v, want);
    v = tensor(RP_DTYPE_F32, 2, INT64_MAX, 2, x);
    refused(&v, "a tensor of f32 has sizes that no memory has");
    v = tensor(RP_DTYPE_F32, 1, 0, -1, x);
    refused(&v, "a tensor of f32 has sizes that no memory has");
    v = tensor(RP_DTYPE_F32, 1, 0, 1, NULL);
    refused(&v, "a tensor has no data");
    v = tensor(RP_DTYPE_F32, 1, 0, 0, NULL);
    refused(&v, NULL);
    v = rp_value_strided(tensor(RP_DTYPE_F32, 1, 0, 2, x).tensor, (const int64_t[]){0});
    refused(&v, NULL);
    v.stride[0] = -1;
    refused(&v, "a tensor has stride -1 along axis 0");
    v.stride[0] = 2;
    v.state = true;
    refused(&v, "a state is a strided view; give dense memory, which stays where it is");
    v.stride[0] = 1;
    refused(&v, NULL);
    v = rp_value_rows(tensor(RP_DTYPE_F32, 0, 0, 0, x).tensor);
    refused(&v, "rows of a tensor of rank 0");
    v = rp_value_strided(tensor(RP_DTYPE_Q8_0, 2, 1, 32, x).tensor, (const int64_t[]){64, 2});
    refused(&v, "a tensor of q8_0 is a strided view; give it dense");
    v = rp_value_string(NULL);
    refused(&v, "a string is NULL");
    v = rp_value_map(unnamed, two, 2);
    refused(&v, "item 1 of a map has no name");
    v = rp_value_map(NULL, two, 2);
    refused(&v, "a list, tuple or map of 2 items has none");
    v = rp_value_list(two, 1 << 29);
    refused(&v, "a list, tuple or map of 536870912 items ends where memory can no longer be read; "
                "n is too large");
    v.kind = (rp_value_kind)(RP_VALUE_MAP + 1);
    refused(&v, "kind 9 is no kind of value");
    deep[0] = rp_value_list(NULL, 0);
    for (int i = 1; i <= RP_MAX_VALUE_DEPTH; i++) deep[i] = rp_value_list(&deep[i - 1], 1);
    refused(&deep[RP_MAX_VALUE_DEPTH - 1], NULL);
    refused(&deep[RP_MAX_VALUE_DEPTH], "values are nested deeper than 32");
}

/* Literals choose what is computed: by a string, a number, a name. */
static rp_status chooses(void *user, rp_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    affine *m = user;
    const rp_value *how = &args->item[1];
    bool second = how->kind == RP_VALUE_STRING  ? strcmp(how->as.string, "down") == 0
                  : how->kind == RP_VALUE_FLOAT ? how->as.number < 0
                  : how->kind == RP_VALUE_MAP   ? strcmp(how->name[0], "down") == 0
                                                : how->as.boolean;
    return affine_call(&m[second], call, args, result, err);
}

static void literals_choose_the_graph(void **state) {
    static const char *const up[] = {"up"}, *const down[] = {"down"};
    rp_value none = rp_value_none();
    const rp_value how[][2] = {{rp_value_string("up"), rp_value_string("down")},
                               {rp_value_float(1), rp_value_float(-1)},
                               {rp_value_map(up, &none, 1), rp_value_map(down, &none, 1)},
                               {rp_value_bool(false), rp_value_bool(true)}};
    float x[] = {3};
    bench b;
    affine m[2];
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m[0], b.device, 0, 1, 10);
    affine_open(&m[1], b.device, 0, 1, -10);
    rp_function *f = function_of(&b, "chooses", chooses, m);
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < sizeof how / sizeof *how; i++)
            for (int k = 0; k < 2; k++) {
                rp_value items[] = {floats(x, 1), how[i][k]};
                rp_output *o = run_items(f, items, 2);
                assert_true(values_of(o)[0] == (k ? -7 : 13));
                rp_output_free(o);
            }
    assert_int_equal(bench_info(&b).captures, 8);
    affine_close(&m[0]);
    affine_close(&m[1]);
    bench_close(&b);
}

/* As Python writes them. */
static void values_are_written_as_in_python(void **state) {
    static const struct {
        const char *string, *want;
    } strings[] = {{"a", "'a'"},
                   {"it's", "\"it's\""},
                   {"'\"", "'\\'\"'"},
                   {"\\", "'\\\\'"},
                   {"\n\t\r", "'\\n\\t\\r'"},
                   {"\x01\x1f", "'\\x01\\x1f'"},
                   {"\x7f", "'\\x7f'"},
                   {" ~", "' ~'"}};
    static const char *const names[] = {"k"};
    bench b;
    affine m;
    float x[] = {3};
    (void)state;
    bench_open(&b, "cpu", RP_GROWTH_RESERVE);
    affine_open(&m, b.device, 0, 1, 10);
    rp_function *f = function_of(&b, "f", affine_call, &m);
    rp_value one = rp_value_int(-7), inner = rp_value_list(&one, 1), none = rp_value_none();
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        rp_value items[] = {floats(x, 1), rp_value_string(strings[i].string)};
        rp_output_free(run_items(f, items, 2));
        char want[80], *text = bench_text(&b);
        (void)snprintf(want, sizeof want, "literals=(%s,))", strings[i].want);
        if (!strstr(text, want)) fail_msg("no %s in:\n%s", want, text);
        if (strstr(text, "structure=")) fail_msg("a structure in:\n%s", text);
        rp_free(text);
    }
    rp_value items[] = {
        floats(x, 1),          rp_value_tuple(&inner, 1), rp_value_map(names, &none, 1),
        rp_value_bool(true),   rp_value_float(1),         rp_value_float(0.1),
        rp_value_list(NULL, 0)};
    rp_output_free(run_items(f, items, 7));
    char *text = bench_text(&b);
    if (!strstr(text, "literals=(-7, True, 1.0, 0.1))") ||
        !strstr(text, " structure=(Tensor, ([-7],), {'k': None}, True, 1.0, 0.1, [])"))
        fail_msg("%s", text);
    rp_free(text);
    rp_value named[] = {floats(x, 1), rp_value_indirect(floats(x, 1).tensor)};
    rp_output_free(run_items(f, named, 2));
    text = bench_text(&b);
    if (!strstr(text, " structure=(Tensor, Indirect)")) fail_msg("%s", text);
    rp_free(text);
    static const struct {
        double x;
        const char *want;
    } floats_of[] = {{0.1 + 0.2, "0.30000000000000004"},
                     {1.0 / 3, "0.3333333333333333"},
                     {-0.0, "-0.0"},
                     {1e22, "1e+22"},
                     {5e-324, "5e-324"},
                     {INFINITY, "inf"},
                     {-INFINITY, "-inf"},
                     {9007199254740993.0, "9007199254740992.0"},
                     {1.7976931348623157e308, "1.7976931348623157e+308"}};
    for (size_t i = 0; i < sizeof floats_of / sizeof *floats_of; i++) {
        rp_value two[] = {floats(x, 1), rp_value_float(floats_of[i].x)};
        char want[64];
        rp_output_free(run_items(f, two, 2));
        text = bench_text(&b);
        (void)snprintf(want, sizeof want, "literals=(%s,))", floats_of[i].want);
        if (!strstr(text, want)) fail_msg("no %s in:\n%s", want, text);
        rp_free(text);
    }
    affine_close(&m);
    bench_close(&b);
}

/* 1, 2, 4, 8, 16, 24 .. 256, 272 .. 512, 544 and on, with at most a sixteenth of padding; what is no number of rows stays. */
static void rows_are_rounded_up(void **state) {
    int64_t size = 1, step = 1;
    (void)state;
    for (int64_t n = 1; n < 9000; n++) {
        for (; size < n; size += step)
            for (step = size < 8 ? size : 8; step * 32 <= size;) step *= 2;
        if (autograph_rows_up(n) != size)
            fail_msg("%lld rows are %lld, not %lld", (long long)n, (long long)autograph_rows_up(n),
                     (long long)size);
    }
    for (int64_t n = -1; n < 1; n++) assert_true(autograph_rows_up(n) == n);
    assert_true(autograph_rows_up(INT64_MAX) == INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_values_are_different_calls),
        cmocka_unit_test(copies_are_their_own),
        cmocka_unit_test(what_is_no_value_is_told),
        cmocka_unit_test(literals_choose_the_graph),
        cmocka_unit_test(values_are_written_as_in_python),
        cmocka_unit_test(rows_are_rounded_up),
    };
    return cmocka_run_group_tests_name("autograph_values", tests, NULL, NULL);
}
