/* Functions that compile themselves where they meet what they must refuse, bear or count. */
#include "support/jits.h"

#include "base/alloc.h"
#include "support/heard.h"

static float x[64];

static rp_status run(rp_jit *f, const rp_value *args, rp_error *err) {
    rp_output *o = NULL;
    rp_status st = rp_jit_run(f, args, &o, err);
    rp_output_free(o);
    return st;
}

static rp_status first_of(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    (void)user;
    (void)call;
    (void)err;
    *result = args->item[0];
    return RP_OK;
}

/* Gives another function what stands for its own argument. */
static rp_status passing_on(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    (void)call;
    *result = args->item[0];
    return run(user, args, err);
}

static void a_tensor_of_a_trace_is_no_argument(void **state) {
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        rp_error err = {0};
        rp_value v = f32_of(x, rank, 4, 0), args = rp_value_tuple(&v, 1);
        rp_jit *g = jit_at(first_of, 0, RP_DYNAMIC_AUTO, NULL);
        rp_jit *f = jit_at(passing_on, 0, RP_DYNAMIC_AUTO, g);
        assert_int_equal(run(f, &args, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "arguments of forward: [0] a tensor"));
        rp_jit_free(f);
        rp_jit_free(g);
    }
}

static void an_indirect_tensor_is_refused(void **state) {
    rp_error err = {0};
    rp_value v = rp_value_indirect(f32_of(x, 1, 4, 0).tensor), args = rp_value_tuple(&v, 1);
    rp_jit *f = jit_at(first_of, 0, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    assert_int_equal(run(f, &args, &err), RP_INVALID);
    assert_string_equal(err.text, "arguments of forward: tensor 0 is indirect, which is for "
                                  "automatic graphs alone; give it plain, or as a state");
    rp_jit_free(f);
}

static void calls_that_fail_are_counted(void **state) {
    rp_error err = {0};
    rp_value bad = rp_value_string(NULL);
    rp_jit *f = jit_at(first_of, 0, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    assert_int_equal(run(f, &bad, &err), RP_INVALID);
    rp_jit_info info = jit_info(f);
    assert_int_equal(info.calls, 1);
    assert_int_equal(info.hits + info.compiles + info.eager, 0);
    rp_jit_free(f);
}

/* The values so far are those of entries that have a literal at that place: where another one has the bits of a
 * number, they are not read as a string of a gigabyte. */
static void the_warning_reads_entries_of_its_form_alone(void **state) {
    uint64_t bits = UINT64_C(0x3fe0000000000004);
    double number;
    base_buf said;
    rp_jit *f = jit_at(first_of, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    memcpy(&number, &bits, sizeof number);
    heard_start(&said, "recompiles");
    rp_value item[] = {rp_value_float(number), rp_value_none()};
    rp_value args = rp_value_tuple(item, 2);
    rp_output_free(jit_ok(f, &args));
    item[0] = rp_value_none();
    for (int64_t i = 0; i < 8; i++) {
        item[1] = rp_value_int(i);
        rp_output_free(jit_ok(f, &args));
    }
    assert_non_null(strstr(said.data, "L[1] was 0, 1, 2, 3, 4, 5, 6, 7; "));
    heard_done(&said);
    rp_jit_free(f);
}

/* What was there so far, as it was given: numbers and words, and of forms that have something else at that place nothing. */
static void the_warning_tells_literals_as_given(void **state) {
    static const char *const words[] = {"a word of more than thirty letters", "seventeen letters",
                                        "another word of such a length", "b"};
    base_buf said;
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        rp_jit *f = jit_at(first_of, 2, RP_DYNAMIC_AUTO, NULL);
        heard_start(&said, "");
        for (int i = 0; i < 10; i++) {
            const int n = i < 8 ? i : i == 8 ? 3 : 8; /* the fourth is used once more */
            rp_value item[] = {rp_value_none(), rp_value_none()};
            char word[] = "of as many letters 0";
            word[sizeof word - 2] = (char)('0' + n);
            if (kind == 0) item[1] = rp_value_float(n / 4.0 - 1);
            if (kind > 0) item[0] = rp_value_string(words[n / 7 ? 3 : n % 4]);
            if (kind == 1) item[1] = rp_value_int(n * 10);
            if (kind == 2) item[1] = n % 2 || n == 8 ? rp_value_float(n / 8.0) : rp_value_int(n);
            if (kind == 3) item[1] = rp_value_string(word);
            rp_value args = rp_value_tuple(item, 2);
            rp_output_free(jit_ok(f, &args));
        }
        static const char *const want[] = {
            "L[1] == -0.25; L[1] was -1, -0.75, -0.5, 0, 0.25, 0.5, 0.75, -0.25, 1; ",
            "L[1] == 30; L[1] was 70, 30, 80; ", "L[1] == 0.375; L[1] was 0.875, 0.375, 1; ",
            "L[1] == 'of as many letters 3'; give L[1] in one form, or use a function of its own "
            "for each; "};
        if (!said.data || !strstr(said.data, want[kind])) fail_msg("%d: %s", kind, said.data);
        heard_done(&said);
        rp_jit_free(f);
    }
}

static rp_status asking_user(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    bool more =
        rp_dim_ask(rp_tensor_dim(a, 0), RP_DIM_GT, rp_dim_const(*(int64_t *)user), "model.c", 11);
    *result = rp_jit_value(call, more ? rp_exp(a) : rp_neg(a));
    return RP_OK;
}

/* A symbol has no bound above 2^61: what is learnt beyond is no news, and a mark says what is wrong. */
static void bounds_beyond_those_of_symbols(void **state) {
    const int64_t most = INT64_C(1) << 61,
                  bound[] = {most - 1, most, most + 1, INT64_MAX - 1, INT64_MAX};
    rp_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        int64_t asked = bound[i];
        rp_value v = f32_of(x, 1, 4, 0), args = rp_value_tuple(&v, 1);
        rp_jit *f = jit_at(asking_user, 0, RP_DYNAMIC_ALL, &asked);
        rp_output_free(jit_ok(f, &args));
        rp_jit_free(f);
        f = jit_at(asking_user, 2, RP_DYNAMIC_ALL, &asked);
        rp_status st = run(f, &args, &err);
        if (bound[i] <= most)
            CHECK_OK(st, &err);
        else if (st != RP_OK)
            assert_int_equal(st, RP_INVALID);
        st = rp_jit_mark_dynamic(f, "L[0]", 0, 0, bound[i], &err);
        assert_int_equal(st, bound[i] <= most || bound[i] == INT64_MAX ? RP_OK : RP_INVALID);
        rp_jit_free(f);
    }
}

static void marks_say_what_they_want(void **state) {
    rp_error err = {0};
    rp_jit *f = jit_at(first_of, 0, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    assert_int_equal(rp_jit_mark_dynamic(f, "x", RP_MAX_RANK, 0, 1, &err), RP_INVALID);
    assert_string_equal(err.text, "mark: axis 6 of x; tensors have 6 at most");
    CHECK_OK(rp_jit_mark_static(f, "x", RP_MAX_RANK - 1, &err), &err);
    assert_int_equal(rp_jit_mark_unbacked(f, "x", 1, 3, 2, &err), RP_INVALID);
    assert_string_equal(err.text,
                        "mark: axis 1 of x in [3, 2]; give [min, max] with 0 <= min <= max");
    assert_int_equal(rp_jit_mark_dynamic(f, "x", 0, -1, 2, &err), RP_INVALID);
    assert_int_equal(rp_jit_mark_dynamic(f, "x", 0, 0, (INT64_C(1) << 61) + 1, &err), RP_INVALID);
    assert_string_equal(
        err.text, "mark: axis 0 of x in [0, 2305843009213693953]; a bound is at most 2^61, or "
                  "INT64_MAX for none");
    assert_int_equal(rp_jit_mark_dynamic(f, "x", 0, INT64_MAX, INT64_MAX, &err), RP_INVALID);
    assert_int_equal(rp_jit_mark_static(f, "", 0, &err), RP_INVALID);
    assert_string_equal(err.text, "mark: function and tensor must be given");
    assert_int_equal(rp_jit_mark_static(NULL, "x", 0, &err), RP_INVALID);
    CHECK_OK(rp_jit_mark_dynamic(f, "x", 0, 3, 3, &err), &err);
    assert_string_equal(err.text, "");
    rp_jit_free(f);
}

/* What a trace reads must not change under it. */
static rp_status marking(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)call;
    *result = args->item[0];
    return rp_jit_mark_static(*(rp_jit **)user, "L[0]", 0, err);
}

static void a_mark_within_a_trace_is_refused(void **state) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_value v = f32_of(x, 1, 4, 0), args = rp_value_tuple(&v, 1);
    (void)state;
    f = jit_at(marking, 2, RP_DYNAMIC_AUTO, &f);
    assert_int_equal(run(f, &args, &err), RP_INVALID);
    assert_string_equal(err.text,
                        "forward: mark of L[0] inside of a trace of forward; do it before");
    rp_jit_free(f);
}

static rp_status counting(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    *result =
        rp_jit_value(call, rp_dim_value(rp_jit_graph(call), rp_tensor_dim(a, 0), RP_DTYPE_I32));
    return RP_OK;
}

static void a_size_as_i32_is_a_guard(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level += 2) {
        rp_jit *f = jit_at(counting, level, RP_DYNAMIC_ALL, NULL);
        for (int64_t n = 4; n < 7; n++) {
            rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
            rp_output *o = jit_ok(f, &args);
            assert_int_equal(*(const int32_t *)jit_result(o)->tensor.data, n);
            rp_output_free(o);
        }
        assert_int_equal(jit_info(f).compiles, level ? 1 : 0);
        rp_jit_free(f);
    }
}

static rp_status dequantised(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_dequant(rp_jit_tensor(call, &args->item[0])));
    return RP_OK;
}

/* A symbol of them is a multiple of their block. */
static void sizes_of_blocks_are_symbols(void **state) {
    enum { BYTES = 34 };
    static uint8_t blocks[6 * BYTES];
    rp_jit *f = jit_at(dequantised, 1, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    for (int i = 0; i < 6 * BYTES; i++) blocks[i] = (uint8_t)(i / BYTES);
    for (int i = 0; i < 6; i++) { /* the scale of block i is 1, its numbers are i */
        blocks[BYTES * i] = 0;
        blocks[BYTES * i + 1] = 0x3c;
    }
    for (int64_t n = 64; n <= 192; n += 32) {
        rp_buffer b = {RP_DTYPE_Q8_0, 1, {n}, blocks};
        rp_value v = rp_value_tensor(b), args = rp_value_tuple(&v, 1);
        rp_output *o = jit_ok(f, &args);
        const rp_buffer *y = &jit_result(o)->tensor;
        assert_int_equal(y->dim[0], n);
        for (int64_t i = 0; i < n; i++) assert_true(((const float *)y->data)[i] == (float)(i / 32));
        rp_output_free(o);
    }
    assert_int_equal(jit_info(f).compiles, 2);
    rp_jit_free(f);
}

/* Names that come to one in the graph. */
static void names_of_a_map_may_be_alike(void **state) {
    static const char *const name[] = {"a_2", "a", "a.", "a,", "a_3"};
    (void)state;
    for (int states = 0; states < 2; states++) {
        rp_value item[5];
        rp_jit *f = jit_at(first_of, 1, RP_DYNAMIC_AUTO, NULL);
        for (int i = 0; i < 5; i++) item[i] = f32_of(x + 8 * i, 1, 4, 0);
        item[0].state = item[2].state = states != 0;
        rp_value args = rp_value_map(name, item, 5);
        rp_output_free(jit_ok(f, &args));
        rp_jit_free(f);
    }
}

/* The product of two of its arguments, in a list with a text: symbols, a pair of equal sizes, an asked bound. */
static rp_status joining(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    static const char *const name[] = {"y", "what"};
    rp_value *item = user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    if (rp_dim_ask(rp_tensor_dim(a, 0), RP_DIM_GT, rp_dim_const(2), "model.c", 11)) a = rp_neg(a);
    item[0] = rp_jit_value(call, rp_mul(a, b));
    item[1] = args->item[2];
    *result = rp_value_map(name, item, 2);
    return RP_OK;
}

/* A function made, called with two sizes and freed; whether all of it succeeded. */
static rp_status whole_life(rp_error *err) {
    static float spread[64];
    static const int64_t stride[] = {2};
    rp_value own[2];
    rp_jit *f = NULL;
    rp_compilation_config *c = rp_config_new();
    rp_jit_options o = RP_JIT_OPTIONS(joining);
    rp_status st = c ? rp_config_set(c, "level=1", err) : RP_NOMEM;
    if (st == RP_OK) st = rp_config_set(c, "threads=1", err);
    o.config = c;
    o.user = own;
    if (st == RP_OK) st = rp_jit_new(&o, &f, err);
    for (int i = 0; i < 2 && st == RP_OK; i++)
        st = rp_jit_mark_dynamic(f, i ? "L[1]" : "L[0]", 0, 0, INT64_MAX, err);
    for (int64_t n = 4; n < 7 && st == RP_OK; n++) {
        rp_value item[] = {f32_of(x, 1, n, 0),
                           rp_value_strided(f32_of(spread, 1, n, 0).tensor, stride),
                           rp_value_string("abcdefgh")};
        rp_value args = rp_value_tuple(item, 3);
        rp_output *out = NULL;
        st = rp_jit_run(f, &args, &out, err);
        if (st == RP_OK) assert_string_equal(jit_result(out)->item[1].as.string, "abcdefgh");
        rp_output_free(out);
    }
    char *text = NULL;
    if (st == RP_OK) st = rp_jit_guards_text(f, &text, err);
    rp_free(text);
    rp_jit_free(f);
    rp_config_free(c);
    return st;
}

/* Every allocation fails in turn: the calls succeed or say so, and nothing is left. */
static void every_allocation_may_fail(void **state) {
    base_buf said;
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        heard_start(&said, "recompiles,guards,dynamic");
        CHECK_OK(whole_life(&err), &err);
        heard_done(&said);
    }
    jit_fail_each_allocation(whole_life, 0);
}

/* Once, when the first call is traced. */
static void marks_of_nothing_are_told(void **state) {
    base_buf said;
    rp_error err = {0};
    float data[6] = {1, 2, 3, 4, 5, 6};
    int64_t least = 3;
    (void)state;
    rp_jit *f = jit_at(asking_user, 1, RP_DYNAMIC_AUTO, &least);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 0, INT64_MAX, &err), &err);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 1, 0, INT64_MAX, &err), &err);
    CHECK_OK(rp_jit_mark_static(f, "x", 0, &err), &err);
    heard_start(&said, "");
    for (int64_t n = 2; n <= 6; n += 2) {
        rp_value v = f32_of(data, 1, n, 0), args = rp_value_tuple(&v, 1);
        rp_output_free(jit_ok(f, &args));
    }
    assert_string_equal(
        said.data,
        "forward: a mark is about axis 0 of x, which no tensor of this call has; the first of a "
        "tuple is called L[0], an item of a map L['x']\n"
        "forward: a mark is about axis 1 of L[0], which no tensor of this call has; the first of a "
        "tuple is called L[0], an item of a map L['x']\n");
    heard_done(&said);
    rp_jit_free(f);
}

/* Once for a function, however many graphs are compiled for it. */
static void settings_of_models_are_told(void **state) {
    base_buf said;
    float data[6] = {1, 2, 3, 4, 5, 6};
    int64_t least = 3;
    (void)state;
    rp_jit_options o = jit_options(asking_user);
    o.user = &least;
    heard_start(&said, "");
    rp_jit *f = jit_by(o, "level=1 max_num_seqs=4 sealed=fatal splitting_ops=a::b threads=1");
    for (int64_t n = 2; n <= 6; n += 2) {
        rp_value v = f32_of(data, 1, n, 0), args = rp_value_tuple(&v, 1);
        rp_output_free(jit_ok(f, &args));
    }
    assert_string_equal(said.data, "max_num_seqs=4: only models read it\n"
                                   "sealed=\"fatal\": only models read it\n"
                                   "splitting_ops at level 1: only level 3 splits the graph\n");
    heard_done(&said);
    rp_jit_free(f);
}

/* A function captures what it is called with, so sizes to capture are held against no limit of a model's steps. */
static void sizes_to_capture_are_of_models(void **state) {
    base_buf said;
    float data[6] = {1, 2, 3, 4, 5, 6};
    int64_t least = 3;
    (void)state;
    rp_jit_options o = jit_options(asking_user);
    o.user = &least;
    heard_start(&said, "");
    rp_jit *f =
        jit_by(o, "cudagraph_mode=FULL cudagraph_copy_inputs=true cudagraph_capture_sizes=4,4000");
    rp_value v = f32_of(data, 1, 6, 0), args = rp_value_tuple(&v, 1);
    rp_output_free(jit_ok(f, &args));
    rp_jit_free(f);
    assert_string_equal(said.data, "cudagraph_capture_sizes=[4,4000]: only models read it\n");
    base_buf_clear(&said);
    f = jit_by(o, "cudagraph_mode=FULL cudagraph_copy_inputs=true cudagraph_capture_sizes=6,4000 "
                  "compile_sizes=cudagraph_capture_sizes");
    rp_output_free(jit_ok(f, &args));
    rp_jit_free(f);
    assert_int_equal(said.len, 0);
    f = jit_by(o, "compile_sizes=cudagraph_capture_sizes cudagraph_capture_sizes=[]");
    rp_output_free(jit_ok(f, &args));
    rp_jit_free(f);
    heard_done(&said);
}

/* The last rows of y, as many as x has. */
static rp_status behind(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_tensor_dim(a, 0), m = rp_tensor_dim(b, 0);
    (void)user, (void)err;
    if (rp_dim_lt(n, m)) a = rp_add(a, rp_slice(b, 0, rp_dim_sub(m, n), m));
    *result = rp_jit_value(call, a);
    return RP_OK;
}

/* Of two sizes without bounds it may be anything, but for what was asked. */
static void a_slice_may_begin_at_a_difference(void **state) {
    static const int sizes[][2] = {{3, 9}, {4, 11}, {5, 6}, {7, 5}, {6, 6}, {1, 2}, {2, 40}};
    (void)state;
    for (int level = 0; level < 3; level++) {
        rp_jit *f = jit_at(behind, level, RP_DYNAMIC_AUTO, NULL);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int n = sizes[i][0], m = sizes[i][1];
            rp_value v[] = {f32_of(x, 1, n, 0), f32_of(x, 1, m, 0)}, args = rp_value_tuple(v, 2);
            for (int k = 0; k < 64; k++) x[k] = (float)k;
            rp_output *o = jit_ok(f, &args);
            const float *y = jit_result(o)->tensor.data;
            for (int k = 0; k < n; k++)
                assert_true(y[k] == (n < m ? (float)(k + m - n + k) : (float)k));
            rp_output_free(o);
        }
        rp_jit_free(f);
    }
}

/* --- more tensors than there are places on the stack ---------------------------------------- */

enum { MOST_TENSORS = 40, WIDTH = 4, BREAKS = 1, ITEMS = 2, GRAPHS = 3 };

/* Result i is i times argument i, and argument n - 1 - i, behind a break where user says so. */
static rp_status each_scaled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    static rp_value out[MOST_TENSORS];
    rp_tensor y[MOST_TENSORS], sum = rp_jit_tensor(call, &args->item[0]);
    const int how = *(const int *)user;
    (void)err;
    for (uint32_t i = 0; i < args->n; i++)
        y[i] = rp_mul_scalar(rp_jit_tensor(call, &args->item[i]), i);
    if (how == BREAKS) rp_jit_break(call, "all of them cross");
    for (uint32_t i = 0; how == ITEMS && i < args->n; i++) sum = rp_add(sum, y[i]);
    if (how == ITEMS) (void)rp_item(rp_sum(sum, 0, false));
    for (uint32_t i = 0; i < args->n; i++)
        out[i] =
            rp_jit_value(call, rp_add(y[i], rp_jit_tensor(call, &args->item[args->n - 1 - i])));
    *result = rp_value_tuple(out, args->n);
    return RP_OK;
}

static float given[MOST_TENSORS][WIDTH], taken[MOST_TENSORS][WIDTH];

static void check_scaled(uint32_t n, const char *how) {
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < WIDTH; k++)
            if (taken[i][k] != given[i][k] * (float)i + given[n - 1 - i][k])
                fail_msg("%s, %u tensors: %u[%d] is %g", how, n, i, k, (double)taken[i][k]);
    memset(taken, 0, sizeof taken);
}

/* The same call three ways: results of the library's, into memory, into views. */
static void call_scaled(rp_jit *f, uint32_t n) {
    rp_value v[MOST_TENSORS] = {{0}}, args = rp_value_tuple(v, n);
    rp_buffer to[MOST_TENSORS];
    rp_view views[MOST_TENSORS];
    rp_error err = {0};
    for (uint32_t i = 0; i < n; i++) {
        v[i] = f32_of(given[i], 1, WIDTH, 0);
        to[i] = f32_of(taken[i], 1, WIDTH, 0).tensor;
        views[i] = rp_view_strided(to[i], (const int64_t[]){1}, 0);
    }
    rp_output *o = jit_ok(f, &args);
    assert_int_equal(jit_result(o)->n, n);
    for (uint32_t i = 0; i < n; i++)
        memcpy(taken[i], jit_result(o)->item[i].tensor.data, sizeof taken[i]);
    rp_output_free(o);
    check_scaled(n, "results");
    CHECK_OK(rp_jit_run_into(f, &args, to, n, &err), &err);
    check_scaled(n, "into memory");
    CHECK_OK(rp_jit_run_views(f, &args, views, n, NULL, &err), &err);
    check_scaled(n, "into views");
}

/* Numbers about those of places: 8, 16 and 32. */
static void any_number_of_tensors_is_taken(void **state) {
    static const uint32_t counts[] = {7, 8, 9, 15, 16, 17, 31, 32, 33, MOST_TENSORS};
    (void)state;
    if (runs_elsewhere()) return; /* these are in the host's memory */
    for (int i = 0; i < MOST_TENSORS; i++)
        for (int k = 0; k < WIDTH; k++) given[i][k] = (float)(i * 3 % 7 - k);
    for (int how = 0; how <= GRAPHS; how++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            rp_jit_options o = jit_options(each_scaled);
            o.user = &how;
            rp_jit *f = jit_by(o, how == GRAPHS ? "level=1 threads=1 backend=cudagraphs"
                                                : "level=1 threads=1 backend=eager");
            for (int turn = 0; turn < 3; turn++) call_scaled(f, counts[i]);
            assert_int_equal(jit_info(f).entries, 1);
            rp_jit_free(f);
        }
}

/* Lists within lists, so many that there are `user` of them about a tensor; the argument has as many. */
static rp_status deep_in(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    static rp_value around[RP_MAX_VALUE_DEPTH + 2];
    const rp_value *leaf = args;
    (void)err;
    while (leaf->kind == RP_VALUE_LIST) leaf = leaf->item;
    around[0] = rp_jit_value(call, rp_neg(rp_jit_tensor(call, leaf)));
    for (int i = 1; i <= *(int *)user; i++) around[i] = rp_value_list(&around[i - 1], 1);
    *result = around[*(int *)user];
    return RP_OK;
}

static void values_are_as_deep_as_they_may_be(void **state) {
    enum { MOST = RP_MAX_VALUE_DEPTH };
    static const struct {
        int given, made;
        const char *error;
    } all[] = {{MOST - 1, MOST, NULL},
               {MOST, MOST - 1, NULL},
               {MOST, MOST, NULL},
               {MOST, MOST + 1, "the result is nested deeper than 32"},
               {MOST + 1, MOST, "values are nested deeper than 32"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_value deep[MOST + 2] = {f32_of(x, 1, 4, 0)};
        rp_jit_options o = jit_options(deep_in);
        rp_error err = {0};
        int made = all[i].made;
        o.user = &made;
        rp_jit *f = jit_by(o, "level=1 threads=1");
        for (int k = 1; k <= all[i].given; k++) deep[k] = rp_value_list(&deep[k - 1], 1);
        for (int again = 0; again < 2; again++) {
            rp_output *out = NULL;
            rp_status st = rp_jit_run(f, &deep[all[i].given], &out, &err);
            assert_int_equal(st, all[i].error ? RP_INVALID : RP_OK);
            if (all[i].error && !strstr(err.text, all[i].error)) fail_msg("%zu: %s", i, err.text);
            const rp_value *v = all[i].error ? NULL : jit_result(out);
            for (int k = 0; v && k < made; k++) {
                assert_int_equal(v->kind, RP_VALUE_LIST);
                v = v->item;
            }
            if (v) assert_int_equal(v->kind, RP_VALUE_TENSOR);
            rp_output_free(out);
        }
        rp_jit_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_blocks_are_symbols),
        cmocka_unit_test(names_of_a_map_may_be_alike),
        cmocka_unit_test(an_indirect_tensor_is_refused),
        cmocka_unit_test(calls_that_fail_are_counted),
        cmocka_unit_test(a_size_as_i32_is_a_guard),
        cmocka_unit_test(bounds_beyond_those_of_symbols),
        cmocka_unit_test(marks_say_what_they_want),
        cmocka_unit_test(a_mark_within_a_trace_is_refused),
        cmocka_unit_test(a_tensor_of_a_trace_is_no_argument),
        cmocka_unit_test(any_number_of_tensors_is_taken),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_warning_reads_entries_of_its_form_alone),
        cmocka_unit_test(the_warning_tells_literals_as_given),
        cmocka_unit_test(settings_of_models_are_told),
        cmocka_unit_test(sizes_to_capture_are_of_models),
        cmocka_unit_test(marks_of_nothing_are_told),
        cmocka_unit_test(a_slice_may_begin_at_a_difference),
        cmocka_unit_test(values_are_as_deep_as_they_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
