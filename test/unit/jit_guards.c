/* Guards in torch's words, marks, limits, and one function in several threads. */
#include "support/jits.h"

#include <pthread.h>

#include "base/alloc.h"
#include "support/heard.h"

static float x[4096];

static rp_status run_one(rp_jit *f, int64_t rows, rp_ran *ran, rp_error *err) {
    static const char *const name[] = {"x"};
    rp_output *o = NULL;
    rp_value v = f32_of(x, 2, rows, 4), args = rp_value_map(name, &v, 1);
    rp_status st = rp_jit_run(f, &args, &o, err);
    if (st == RP_OK && ran) *ran = rp_output_ran(o);
    rp_output_free(o);
    return st;
}

static rp_ran ran_one(rp_jit *f, int64_t rows) {
    rp_error err = {0};
    rp_ran ran = RP_RAN_EAGER;
    CHECK_OK(run_one(f, rows, &ran, &err), &err);
    return ran;
}

static rp_status doubled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), 2));
    return RP_OK;
}

/* Asks whether there are more than `user` rows. */
static rp_status asking(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    bool more =
        rp_dim_ask(rp_tensor_dim(a, 0), RP_DIM_GT, rp_dim_const(*(int64_t *)user), "model.c", 11);
    *result = rp_jit_value(call, more ? rp_neg(a) : rp_exp(a));
    return RP_OK;
}

/* Masks the number of a function, which counts all of the process. */
static char *masked(const char *text, rp_jit *f) {
    char *guards = NULL, id[32], *copy = strdup(text), *at;
    rp_error err = {0};
    CHECK_OK(rp_jit_guards_text(f, &guards, &err), &err);
    size_t n = (size_t)(strchr(guards, '/') - guards - 1);
    (void)snprintf(id, sizeof id, "%.*s/", (int)n, guards + 1);
    for (at = copy; (at = strstr(at, id)); at++) {
        bool ours = at > copy && (at[-1] == ' ' || at[-1] == '[');
        if (!ours) continue;
        memmove(at + 1, at + n, strlen(at + n) + 1);
        *at = '0';
    }
    rp_free(guards);
    return copy;
}

#define CHECK_TEXT(text, f, want)                                                     \
    do {                                                                              \
        char *masked_ = masked(text, f);                                              \
        if (strstr(masked_, want) == NULL) fail_msg("no\n%s\nin\n%s", want, masked_); \
        free(masked_);                                                                \
    } while (0)

/* The seed's words for [8, 1024] and then [16, 1024], but for the sizes. */
static void recompiles_are_told_as_by_torch(void **state) {
    base_buf said;
    rp_jit *f = jit_at(doubled, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    heard_start(&said, "recompiles,inductor,guards,dynamic");
    ran_one(f, 8);
    CHECK_TEXT(said.data, f,
               "[inductor] [0/0] Step 3: inductor done compiling FORWARDS graph of forward");
    CHECK_TEXT(said.data, f,
               "[guards]   - GuardManager: source=L['x']\n"
               "[guards]     - TENSOR_MATCH: check_tensor(L['x'], Tensor, f32, size=[8, 4])\n");
    base_buf_clear(&said);
    ran_one(f, 16);
    CHECK_TEXT(
        said.data, f,
        "[recompiles] Recompiling function forward in model.c:8\n"
        "[recompiles]     triggered by the following guard failure(s):\n"
        "[recompiles]     - 0/0: tensor 'L['x']' size mismatch at index 0. expected 8, actual 16\n"
        "[dynamic] create_symbol s0 = 16 for L['x'].size()[0] [0, int_oo]\n");
    CHECK_TEXT(said.data, f, "check_tensor(L['x'], Tensor, f32, size=[None, 4])");
    base_buf_clear(&said);
    ran_one(f, 24);
    assert_true(said.len == 0);
    heard_done(&said);
    rp_jit_free(f);
}

/* Its first argument may be anything. */
static rp_status second_of(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_neg(rp_jit_tensor(call, &args->item[1])));
    return RP_OK;
}

/* Every kind of difference, against an entry that is there. */
static void each_guard_has_its_words(void **state) {
    static const char *const ab[] = {"a", "b"}, *const ac[] = {"a", "c"};
    static double d[8];
    rp_buffer f64 = {RP_DTYPE_F64, 1, {4}, d};
    rp_value none = rp_value_none(), t4 = f32_of(x, 1, 4, 0), t22 = f32_of(x, 2, 2, 2);
    rp_value pair[] = {t4, t4}, base[] = {t4, rp_value_string("abc")};
    rp_value lists[] = {rp_value_list(pair, 2), rp_value_list(pair, 1), rp_value_tuple(pair, 2)};
    const struct {
        rp_value first, then;
        const char *why;
    } all[] = {
        {t4, rp_value_tensor(f64), "tensor 'L[0]' dtype mismatch. expected Float, actual Double"},
        {t4, t22, "tensor 'L[0]' rank mismatch. expected 1, actual 2"},
        {t4, rp_value_state(t4.tensor), "tensor 'L[0]' state mismatch. expected 0, actual 1"},
        {t4, none, "type(L[0]) == Tensor"},
        {none, t4, "type(L[0]) == NoneType"},
        {rp_value_int(3), rp_value_int(4), "L[0] == 3"},
        {rp_value_int(1), rp_value_bool(true), "type(L[0]) == int"},
        {rp_value_bool(true), rp_value_bool(false), "L[0] == True"},
        {rp_value_float(0.5), rp_value_float(-0.5), "L[0] == 0.5"},
        {rp_value_string("abc"), rp_value_string("abd"), "L[0] == 'abc'"},
        {rp_value_string("abc"), rp_value_string("ab"), "L[0] == 'abc'"},
        {lists[0], lists[1], "len(L[0]) == 2"},
        {lists[0], lists[2], "type(L[0]) == list"},
        {rp_value_map(ab, base, 2), rp_value_map(ac, base, 2), "list(L[0].keys())[1] == 'b'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        base_buf said;
        char want[160];
        rp_jit *f = jit_at(second_of, 2, RP_DYNAMIC_AUTO, NULL);
        rp_value first[] = {all[i].first, t4}, then[] = {all[i].then, t4};
        rp_value args = rp_value_tuple(first, 2), later = rp_value_tuple(then, 2);
        heard_start(&said, "recompiles");
        rp_output_free(jit_ok(f, &args));
        rp_output_free(jit_ok(f, &later));
        (void)snprintf(want, sizeof want, "- 0/0: %s\n", all[i].why);
        CHECK_TEXT(said.data, f, want);
        heard_done(&said);
        rp_jit_free(f);
    }
}

/* All guards of an entry, in the order of the arguments; a size that may change has none but its range and what was asked. */
static void guards_are_told_whole(void **state) {
    static const char *const names[] = {"t", "n"};
    rp_error err = {0};
    rp_value t4 = f32_of(x, 1, 4, 0), t22 = f32_of(x, 2, 2, 2);
    rp_value pair[] = {rp_value_bool(true), rp_value_string("abc")};
    rp_value made[] = {t22, rp_value_none()};
    rp_value all[] = {rp_value_map(names, made, 2),
                      t4,
                      rp_value_list(pair, 2),
                      rp_value_tuple(NULL, 0),
                      rp_value_int(-3),
                      rp_value_float(0.5)};
    rp_value args = rp_value_tuple(all, 6);
    char *text = NULL, want[1024];
    rp_jit *f = jit_at(second_of, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    CHECK_OK(rp_jit_mark_dynamic(f, "L[1]", 0, 2, 64, &err), &err);
    base_buf heard;
    heard_start(&heard, "+guards");
    rp_output_free(jit_ok(f, &args));
    CHECK_HEARD(
        &heard,
        " TREE_GUARD_MANAGER:\n"
        "[guards] +- RootGuardManager\n"
        "[guards] | +- GuardManager: source=L\n"
        "[guards] | | +- LENGTH_CHECK: len(L) == 6\n"
        "[guards] | | +- GuardManager: source=L[0], accessed_by=TupleGetItemGuardAccessor(0)\n"
        "[guards] | | | +- DICT_LENGTH: len(L[0]) == 2\n"
        "[guards] | | | +- GuardManager: source=L[0]['t'], "
        "accessed_by=DictGetItemGuardAccessor('t')\n"
        "[guards] | | | | +- TENSOR_MATCH: check_tensor(L[0]['t'], Tensor, f32, size=[2, 2])\n"
        "[guards] | | | +- GuardManager: source=L[0]['n'], "
        "accessed_by=DictGetItemGuardAccessor('n')\n"
        "[guards] | | | | +- EQUALS_MATCH: L[0]['n'] == None\n"
        "[guards] | | +- GuardManager: source=L[1], accessed_by=TupleGetItemGuardAccessor(1)\n"
        "[guards] | | | +- TENSOR_MATCH: check_tensor(L[1], Tensor, f32, size=[None])\n"
        "[guards] | | +- GuardManager: source=L[2], accessed_by=TupleGetItemGuardAccessor(2)\n"
        "[guards] | | | +- LENGTH_CHECK: len(L[2]) == 2\n"
        "[guards] | | | +- GuardManager: source=L[2][0], "
        "accessed_by=ListGetItemGuardAccessor(0)\n"
        "[guards] | | | | +- EQUALS_MATCH: L[2][0] == True\n");
    CHECK_HEARD(&heard, "[guards] | | | +- EQUALS_MATCH: L[5] == 0.5\n"
                        "[guards] | +- LAMBDA_GUARD: 2 <= L[1].size()[0] <= 64\n");
    heard_done(&heard);
    CHECK_OK(rp_jit_guards_text(f, &text, &err), &err);
    (void)snprintf(want, sizeof want, "%.*s%s", (int)strcspn(text, " "), text,
                   " GUARDS:\n"
                   "- RootGuardManager\n"
                   "  - GuardManager: source=L\n"
                   "    - LENGTH_CHECK: len(L) == 6\n"
                   "  - GuardManager: source=L[0]\n"
                   "    - DICT_LENGTH: len(L[0]) == 2\n"
                   "  - GuardManager: source=L[0]['t']\n"
                   "    - TENSOR_MATCH: check_tensor(L[0]['t'], Tensor, f32, size=[2, 2])\n"
                   "  - GuardManager: source=L[0]['n']\n"
                   "    - EQUALS_MATCH: L[0]['n'] == None\n"
                   "  - GuardManager: source=L[1]\n"
                   "    - TENSOR_MATCH: check_tensor(L[1], Tensor, f32, size=[None])\n"
                   "  - GuardManager: source=L[2]\n"
                   "    - LENGTH_CHECK: len(L[2]) == 2\n"
                   "  - GuardManager: source=L[2][0]\n"
                   "    - EQUALS_MATCH: L[2][0] == True\n"
                   "  - GuardManager: source=L[2][1]\n"
                   "    - EQUALS_MATCH: L[2][1] == 'abc'\n"
                   "  - GuardManager: source=L[3]\n"
                   "    - LENGTH_CHECK: len(L[3]) == 0\n"
                   "  - GuardManager: source=L[4]\n"
                   "    - EQUALS_MATCH: L[4] == -3\n"
                   "  - GuardManager: source=L[5]\n"
                   "    - EQUALS_MATCH: L[5] == 0.5\n"
                   "  - SHAPE_ENV: 2 <= L[1].size()[0] <= 64\n");
    assert_string_equal(text, want);
    rp_free(text);
    rp_jit_free(f);
}

static void a_question_names_its_line(void **state) {
    base_buf said;
    int64_t least = 8;
    rp_jit *f = jit_at(asking, 2, RP_DYNAMIC_ALL, &least);
    (void)state;
    heard_start(&said, "recompiles,dynamic");
    ran_one(f, 4);
    CHECK_TEXT(said.data, f, "[dynamic] eval L['x'].size()[0] <= 8  # model.c:11 [guard added]\n");
    ran_one(f, 16);
    CHECK_TEXT(said.data, f, "[recompiles]     - 0/0: L['x'].size()[0] <= 8  # model.c:11\n");
    heard_done(&said);
    rp_jit_free(f);
}

/* --- marks ------------------------------------------------------------------------------------ */

static void marked_sizes_are_symbols_at_once(void **state) {
    rp_error err = {0};
    rp_jit *f = jit_at(doubled, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    CHECK_OK(rp_jit_mark_dynamic(f, "x", 0, 1, 64, &err), &err);
    CHECK_OK(rp_jit_mark_static(f, "L['x']", 1, &err), &err);
    assert_int_equal(ran_one(f, 1), RP_RAN_CAPTURE);
    for (int64_t n = 1; n <= 64; n++) assert_int_equal(ran_one(f, n), RP_RAN_REPLAY);
    assert_int_equal(run_one(f, 65, NULL, &err), RP_INVALID);
    assert_string_equal(err.text, "forward: L['x'].size()[0] is 65, which is outside of its mark, "
                                  "[1, 64]");
    rp_jit_free(f);
    f = jit_at(doubled, 2, RP_DYNAMIC_AUTO, NULL);
    CHECK_OK(rp_jit_mark_dynamic(f, "x", 0, 2, INT64_MAX, &err), &err);
    assert_int_equal(run_one(f, 1, NULL, &err), RP_INVALID);
    assert_string_equal(err.text, "forward: L['x'].size()[0] is 1, which is outside of its mark, "
                                  "[2, int_oo]");
    rp_jit_free(f);
}

static void a_static_mark_holds(void **state) {
    rp_error err = {0};
    rp_jit *f = jit_at(doubled, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    CHECK_OK(rp_jit_mark_static(f, "x", 0, &err), &err);
    for (int64_t n = 2; n < 8; n++) assert_int_equal(ran_one(f, n), RP_RAN_CAPTURE);
    for (int64_t n = 2; n < 8; n++) assert_int_equal(ran_one(f, n), RP_RAN_REPLAY);
    rp_jit_free(f);
}

/* x[n, 4] + a constant row of eight: n becomes a number. */
static rp_status specialising(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    rp_tensor c = rp_iota(rp_jit_graph(call), RP_DTYPE_F32, RP_SHAPE(8, 4), 0);
    *result = rp_jit_value(call, rp_add(a, c));
    return RP_OK;
}

static void a_mark_that_does_not_hold_is_an_error(void **state) {
    int64_t least = 8;
    (void)state;
    rp_error err = {0};
    rp_jit *f = jit_at(specialising, 2, RP_DYNAMIC_ALL, NULL);
    assert_int_equal(ran_one(f, 8), RP_RAN_CAPTURE); /* without a mark: a number */
    rp_jit_reset(f);
    CHECK_OK(rp_jit_mark_dynamic(f, "x", 0, 2, INT64_MAX, &err), &err);
    assert_int_equal(run_one(f, 8, NULL, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "jit_guards.c:"));
    assert_non_null(strstr(err.text, "Constraints violated (L['x'].size()[0])! You marked "
                                     "L['x'].size()[0] as dynamic but your code specialized it to "
                                     "be a constant (8): L['x'].size()[0] == 8"));
    rp_jit_free(f);

    f = jit_at(asking, 2, RP_DYNAMIC_AUTO, &least);
    CHECK_OK(rp_jit_mark_dynamic(f, "x", 0, 2, 64, &err), &err);
    assert_int_equal(run_one(f, 16, NULL, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "not all of its range is served: L['x'].size()[0] > 8  # "
                                     "model.c:11"));
    rp_jit_free(f);

    f = jit_at(asking, 2, RP_DYNAMIC_AUTO, &least);
    CHECK_OK(rp_jit_mark_unbacked(f, "x", 0, 2, 64, &err), &err);
    assert_int_equal(run_one(f, 16, NULL, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "model.c:11: not known: u0 > 8"));
    CHECK_OK(rp_jit_mark_unbacked(f, "x", 0, 9, 64, &err), &err); /* the range answers */
    assert_int_equal(ran_one(f, 16), RP_RAN_CAPTURE);
    assert_int_equal(ran_one(f, 64), RP_RAN_REPLAY);
    rp_jit_free(f);
}

/* Two sizes that must be equal, of which the first is then a number. */
static rp_status joining(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor both =
        rp_add(rp_jit_tensor(call, &args->item[0]), rp_jit_tensor(call, &args->item[1]));
    (void)user;
    (void)err;
    rp_tensor c = rp_iota(rp_jit_graph(call), RP_DTYPE_F32, RP_SHAPE(8), 0);
    *result = rp_jit_value(call, rp_add(both, c));
    return RP_OK;
}

/* Whichever of the two the mark is of. */
static void sizes_that_are_one_have_the_mark_of_each(void **state) {
    static const char *const marked[] = {"L[0]", "L[1]"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_output *o = NULL;
        rp_value v[] = {f32_of(x, 1, 8, 0), f32_of(x, 1, 8, 0)}, args = rp_value_tuple(v, 2);
        rp_jit *f = jit_at(joining, 2, RP_DYNAMIC_ALL, NULL);
        CHECK_OK(rp_jit_mark_dynamic(f, marked[i], 0, 2, INT64_MAX, &err), &err);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        if (!strstr(err.text, "Constraints violated")) fail_msg("%s: %s", marked[i], err.text);
        rp_jit_free(f);
    }
}

/* In a log they have one line, and an end. */
static void strings_are_told_shortly(void **state) {
    static char text[400];
    base_buf said;
    rp_jit *f = jit_at(second_of, 1, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "it's\n\x01", 7);
    text[6] = 'a';
    heard_start(&said, "recompiles");
    for (int i = 0; i < 2; i++) {
        rp_value v[] = {rp_value_string(i ? "b" : text), f32_of(x, 1, 4, 0)};
        rp_value args = rp_value_tuple(v, 2);
        rp_output_free(jit_ok(f, &args));
    }
    CHECK_TEXT(said.data, f, "- 0/0: L[0] == 'it\\'s\\n\\x01aaaa");
    CHECK_TEXT(said.data, f, "aaa'... (399 bytes)\n");
    assert_true(said.len < 400);
    heard_done(&said);
    rp_jit_free(f);
}

/* What nobody asked for is not refused. */
static void a_level_alone_captures_nothing_in_silence(void **state) {
    base_buf said;
    (void)state;
    heard_start(&said, "");
    rp_jit *f = jit_at(doubled, 3, RP_DYNAMIC_AUTO, NULL);
    ran_one(f, 8);
    ran_one(f, 9);
    if (said.data && strstr(said.data, "cudagraph_mode")) fail_msg("%s", said.data);
    heard_done(&said);
    rp_jit_free(f);
}

/* --- answers --------------------------------------------------------------------------------- */

/* One form a letter: of sizes, and of numbers. */
static bool answer(char form, int64_t n, int64_t m) {
    switch (form) {
    case 'a': return n < 5;
    case 'b': return n <= 7;
    case 'c': return n > 3;
    case 'd': return n != 7;
    case 'e': return n != 4;
    case 'f': return n == 6;
    case 'g': return n % 4 == 0;
    case 'h': return n % 6 == 0;
    case 'i': return n == m;
    case 'j': return n != m;
    case 'k': return n <= m;
    case 'l': return n + m == 9;
    case 'm': return 2 * n > m + 4;
    case 'n': return n / 3 == 2;
    case 'o': return m % 2 != 0;
    case 'p': return 3 * n <= 16;
    case 'q': return n >= m - 1;
    default: return n * m < 24;
    }
}

static bool asked(char form, rp_dim n, rp_dim m) {
    switch (form) {
    case 'a': return rp_dim_lt(n, 5);
    case 'b': return rp_dim_le(n, 7);
    case 'c': return rp_dim_gt(n, 3);
    case 'd': return rp_dim_ne(n, 7);
    case 'e': return rp_dim_ne(n, 4);
    case 'f': return rp_dim_eq(n, 6);
    case 'g': return rp_dim_eq(rp_dim_mod(n, 4), 0);
    case 'h': return rp_dim_eq(rp_dim_mod(n, 6), 0);
    case 'i': return rp_dim_eq(n, m);
    case 'j': return rp_dim_ne(n, m);
    case 'k': return rp_dim_le(n, m);
    case 'l': return rp_dim_eq(rp_dim_add(n, m), 9);
    case 'm': return rp_dim_gt(rp_dim_mul(n, 2), rp_dim_add(m, 4));
    case 'n': return rp_dim_eq(rp_dim_floordiv(n, 3), 2);
    case 'o': return rp_dim_ne(rp_dim_mod(m, 2), 0);
    case 'p': return rp_dim_le(rp_dim_mul(n, 3), 16);
    case 'q': return rp_dim_ge(n, rp_dim_sub(m, 1));
    default: return rp_dim_lt(rp_dim_mul(n, m), 24);
    }
}

/* The first element, and the answers as bits. */
static rp_status answering(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    const char *forms = user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    double bits = 0;
    (void)err;
    for (int i = 0; forms[i]; i++)
        if (asked(forms[i], rp_tensor_dim(a, 0), rp_tensor_dim(b, 0))) bits += 1 << i;
    *result = rp_jit_value(call, rp_add_scalar(rp_slice(a, 0, 0, 1), bits));
    return RP_OK;
}

/* Whatever was asked before, and of which sizes: an answer is that of the call. */
static void answers_are_those_of_the_call(void **state) {
    static const char forms[] = "abcdefghijklmnopqr";
    (void)state;
    for (int i = 0; forms[i]; i++)
        for (int k = i + 1; forms[k]; k += runs_elsewhere() ? 7 : 1) {
            char two[] = {forms[i], forms[k], forms[(3 * i + 5 * k) % 18], 0};
            rp_jit_options o = jit_options(answering);
            o.dynamic = RP_DYNAMIC_ALL;
            o.recompile_limit = o.accumulated_recompile_limit = 1000;
            o.user = two;
            rp_jit *f = jit_by(o, "level=1 threads=1");
            for (int64_t at = 0; at < 49; at++) {
                const int64_t n = 2 + (at * 5 + 3) % 7, m = 2 + (at * 5 + 3) / 7 % 7;
                rp_value v[] = {f32_of(x, 1, n, 0), f32_of(x, 1, m, 0)},
                         args = rp_value_tuple(v, 2);
                float want = x[0];
                for (int q = 0; two[q]; q++)
                    if (answer(two[q], n, m)) want += (float)(1 << q);
                rp_output *out = jit_ok(f, &args);
                const float is = *(const float *)jit_result(out)->tensor.data;
                if (is != want)
                    fail_msg("%s of %d and %d: %g, not %g", two, (int)n, (int)m, (double)is,
                             (double)want);
                rp_output_free(out);
            }
            rp_jit_free(f);
        }
}

/* What two questions teach is no more than both say. */
static void divisors_are_joined(void **state) {
    static char both[] = "gh";
    (void)state;
    rp_jit_options o = jit_options(answering);
    o.dynamic = RP_DYNAMIC_ALL;
    o.user = both;
    rp_jit *f = jit_by(o, "level=1 threads=1");
    for (int64_t n = 12; n < 100; n += 12) {
        rp_value v[] = {f32_of(x, 1, n, 0), f32_of(x, 1, 4, 0)}, args = rp_value_tuple(v, 2);
        rp_output_free(jit_ok(f, &args));
    }
    assert_int_equal(jit_info(f).entries, 1);
    rp_jit_free(f);
}

/* A mark says that all of a range is served: nothing may take some of it away, be it a multiple or another size. */
static void a_mark_is_of_all_of_its_range(void **state) {
    static const struct {
        char forms[4];
        int64_t n, m;
        bool served;
    } all[] = {{"b", 6, 4, false},  {"d", 6, 4, true},   {"g", 8, 4, false},
               {"ig", 8, 8, false}, {"oi", 8, 8, false}, {"a", 6, 4, false},
               {"k", 6, 9, true},   {"r", 6, 9, true},   {"o", 6, 4, true}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rp_error err = {0};
        rp_output *out = NULL;
        rp_jit_options o = jit_options(answering);
        o.dynamic = RP_DYNAMIC_ALL;
        o.user = (void *)(uintptr_t)all[i].forms;
        rp_jit *f = jit_by(o, "level=1 threads=1");
        CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 4, 64, &err), &err);
        rp_value v[] = {f32_of(x, 1, all[i].n, 0), f32_of(x, 1, all[i].m, 0)},
                 args = rp_value_tuple(v, 2);
        const rp_status st = rp_jit_run(f, &args, &out, &err);
        if ((st == RP_OK) != all[i].served) fail_msg("%s: '%s'", all[i].forms, err.text);
        /* with two sizes, of which the other one is a number in the end */
        const char *says = all[i].forms[1] ? "Constraints violated"
                                           : "not all of its range is served";
        if (st != RP_OK && !strstr(err.text, says)) fail_msg("%s: '%s'", all[i].forms, err.text);
        rp_output_free(out);
        rp_jit_free(f);
    }
    /* The second one, which is written as the first where they are one. */
    for (int i = 0; i < 2; i++) {
        static char forms[][3] = {"i", "gi"};
        rp_error err = {0};
        rp_output *out = NULL;
        rp_jit_options o = jit_options(answering);
        o.dynamic = RP_DYNAMIC_ALL;
        o.user = forms[i];
        rp_jit *f = jit_by(o, "level=1 threads=1");
        CHECK_OK(rp_jit_mark_dynamic(f, "L[1]", 0, 4, 64, &err), &err);
        rp_value v[] = {f32_of(x, 1, 8, 0), f32_of(x, 1, 8, 0)}, args = rp_value_tuple(v, 2);
        const rp_status st = rp_jit_run(f, &args, &out, &err);
        if ((st == RP_OK) != (i == 0)) fail_msg("%s: '%s'", forms[i], err.text);
        rp_output_free(out);
        rp_jit_free(f);
    }
}

/* --- limits ------------------------------------------------------------------------------------- */

static rp_jit *limited(rp_jit_fn fn, rp_dynamic dynamic, uint32_t limit, uint32_t all) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(fn);
    o.dynamic = dynamic;
    o.recompile_limit = limit;
    o.accumulated_recompile_limit = all;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    return f;
}

static void past_the_limit_one_entry_serves_all_sizes(void **state) {
    base_buf said;
    (void)state;
    for (uint32_t limit = 7; limit <= 9; limit++) {
        rp_jit *f = limited(doubled, RP_DYNAMIC_NONE, limit == 8 ? 0 : limit, 0);
        heard_start(&said, "");
        for (uint32_t i = 0; i < limit; i++) assert_int_equal(ran_one(f, 2 + i), RP_RAN_CAPTURE);
        assert_true(said.len == 0);
        assert_int_equal(ran_one(f, 20), RP_RAN_CAPTURE);
        for (int64_t n = 2; n < 40; n++) assert_int_equal(ran_one(f, n), RP_RAN_REPLAY);
        assert_int_equal(jit_info(f).entries, limit + 1);
        assert_int_equal(jit_info(f).general, 1);
        if (limit == 8)
            CHECK_TEXT(
                said.data, f,
                "reprise hit recompile_limit (8); function: 'forward' (model.c:8); last "
                "reason: 0/7: tensor 'L['x']' size mismatch at index 0. expected 9, actual "
                "20; L['x'].size()[0] was 2, 3, 4, 5, 6, 7, 8, 9, 20; rp_jit_mark_dynamic(f, "
                "\"L['x']\", 0, 0, INT64_MAX, &err) makes it a symbol; further sizes run as "
                "symbols\n");
        heard_done(&said);
        rp_jit_free(f);
    }
}

static rp_status counted(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)user;
    (void)err;
    *result = rp_jit_value(
        call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), (double)args->item[1].as.integer));
    return RP_OK;
}

/* A number that is another one in each call: entries up to the limit, as many general ones, then op by op. */
static void numbers_that_never_repeat_end_op_by_op(void **state) {
    base_buf said;
    rp_jit *f = limited(counted, RP_DYNAMIC_AUTO, 2, 0);
    (void)state;
    heard_start(&said, "");
    for (int i = 0; i < 6; i++) {
        rp_value v[] = {f32_of(x, 1, 4, 0), rp_value_int(i)}, args = rp_value_tuple(v, 2);
        rp_output *o = jit_ok(f, &args);
        assert_int_equal(rp_output_ran(o), i < 4 ? RP_RAN_CAPTURE : RP_RAN_EAGER);
        assert_true(i < 4 || strstr(rp_output_reason(o), "past the recompile limit"));
        assert_true(((float *)jit_result(o)->tensor.data)[1] == x[1] * (float)i);
        rp_output_free(o);
    }
    CHECK_TEXT(said.data, f,
               "L[1] was 0, 1, 2; read it by rp_jit_dim(call, v), which makes it a symbol, or give "
               "L[1] as a tensor of rank 0, whose value is no guard; 2 "
               "further forms are compiled as they come, those behind run op by op\n");
    assert_int_equal(jit_info(f).eager, 2);
    heard_done(&said);
    rp_jit_free(f);
}

static rp_status summed(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(
        call, rp_add(rp_jit_tensor(call, &args->item[0]), rp_jit_tensor(call, &args->item[1])));
    return RP_OK;
}

/* Though a trace with sizes as history has them is followed by one with numbers. */
static void a_trace_that_fails_is_told_once(void **state) {
    base_buf said;
    rp_error err = {0};
    rp_output *o = NULL;
    rp_jit *f = limited(summed, RP_DYNAMIC_AUTO, 0, 0);
    rp_value v[] = {f32_of(x, 1, 4, 0), f32_of(x, 1, 5, 0)}, args = rp_value_tuple(v, 2);
    (void)state;
    heard_start(&said, "graph_breaks");
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
    CHECK_HEARD(&said, "Graph break in user code at op ");
    assert_null(strstr(strstr(said.data, "Graph break in") + 1, "Graph break in"));
    heard_done(&said);
    rp_jit_free(f);
}

/* Two sizes that are one are marked together; a mark against it, and a state, are why there is no symbol. */
static void advice_is_what_helps(void **state) {
    static const char *const is[] = {
        "; rp_jit_mark_dynamic(f, \"L[0]\", 0, 0, INT64_MAX, &err), and the same for axis 0 of "
        "L[1], makes them symbols; further sizes run as symbols, by an entry for each way that "
        "what is asked of them is answered, up to accumulated_recompile_limit (256)\n",
        "; it was marked static: without that mark the second size makes it a symbol; 2 further "
        "forms are compiled as they come, those behind run op by op\n",
        "; it is of a state, whose sizes are always numbers: use a function of its own for each; 2 "
        "further forms are compiled as they come, those behind run op by op\n"};
    (void)state;
    for (int k = 0; k < 3; k++) {
        rp_error err = {0};
        base_buf said;
        rp_jit *f = limited(summed, k ? RP_DYNAMIC_AUTO : RP_DYNAMIC_NONE, 2, 0);
        for (int i = 0; i < 2 && k == 1; i++)
            CHECK_OK(rp_jit_mark_static(f, i ? "L[1]" : "L[0]", 0, &err), &err);
        heard_start(&said, "");
        for (int64_t n = 2; n < 8; n++) {
            rp_value v[] = {f32_of(x, 1, n, 0), f32_of(x, 1, n, 0)}, args = rp_value_tuple(v, 2);
            if (k == 2) v[0] = rp_value_state(v[0].tensor);
            rp_output *o = jit_ok(f, &args);
            assert_int_equal(rp_output_ran(o), n < (k ? 6 : 5) ? RP_RAN_CAPTURE
                                               : k             ? RP_RAN_EAGER
                                                               : RP_RAN_REPLAY);
            rp_output_free(o);
        }
        CHECK_TEXT(said.data, f, is[k]);
        heard_done(&said);
        if (k == 0) { /* followed */
            rp_jit *g = limited(summed, RP_DYNAMIC_NONE, 2, 0);
            for (int i = 0; i < 2; i++)
                CHECK_OK(rp_jit_mark_dynamic(g, i ? "L[1]" : "L[0]", 0, 0, INT64_MAX, &err), &err);
            for (int64_t n = 2; n < 8; n++) {
                rp_value v[] = {f32_of(x, 1, n, 0), f32_of(x, 1, n, 0)},
                         args = rp_value_tuple(v, 2);
                rp_output_free(jit_ok(g, &args));
            }
            assert_int_equal(jit_info(g).entries, 1);
            rp_jit_free(g);
        }
        rp_jit_free(f);
    }
}

/* Of all that differs, sizes that a mark would make symbols are told, by name and axis. */
static void marks_are_of_sizes_that_differ(void **state) {
    static float own[4]; /* a state has memory of its own */
    rp_error err = {0};
    base_buf said;
    rp_jit *f = limited(doubled, RP_DYNAMIC_NONE, 2, 0);
    (void)state;
    CHECK_OK(rp_jit_mark_static(f, "L[4]", 0, &err), &err);
    heard_start(&said, "");
    for (int64_t n = 2; n < 5; n++) {
        rp_value v[] = {f32_of(x, 2, n, n + 1), rp_value_int(n),
                        f32_of(x, 2, 3, n),     rp_value_state(f32_of(own, 1, n, 0).tensor),
                        f32_of(x, 1, n, 0),     f32_of(x, 1, 6, 0),
                        f32_of(x, 1, n, 0)};
        rp_value args = rp_value_tuple(v, 7);
        rp_output_free(jit_ok(f, &args));
    }
    CHECK_HEARD(&said, "; L[0].size()[0] was 2, 3, 4; rp_jit_mark_dynamic(f, \"L[0]\", 0, 0, "
                       "INT64_MAX, &err), and the same for axis 1 of L[0], axis 1 of L[2], axis 0 "
                       "of L[6], makes them symbols; further sizes run as symbols");
    heard_done(&said);
    rp_jit_free(f);
}

static void functions_of_one_fn_share_a_limit(void **state) {
    base_buf said;
    rp_jit *f = limited(doubled, RP_DYNAMIC_NONE, 0, 3),
           *g = limited(doubled, RP_DYNAMIC_NONE, 0, 3);
    (void)state;
    heard_start(&said, "");
    ran_one(f, 2);
    ran_one(g, 2);
    ran_one(g, 3);
    assert_true(said.len == 0);
    ran_one(f, 4);
    CHECK_HEARD(&said, "reprise hit accumulated_recompile_limit (3)");
    CHECK_HEARD(&said, "; 2 rp_jit are over that C function: make one, and call it; further sizes");
    assert_int_equal(jit_info(f).general, 1);
    const size_t once = said.len;
    rp_jit *h = limited(doubled, RP_DYNAMIC_NONE, 0, 3); /* nothing more is said */
    ran_one(g, 5);
    ran_one(h, 6);
    assert_int_equal(jit_info(h).general, 1);
    assert_int_equal(said.len, once);
    rp_jit_reset(f); /* there is room again, then none */
    ran_one(f, 7);
    ran_one(f, 8);
    assert_true(said.len > once);
    rp_jit_free(h);
    rp_jit_free(g);
    heard_done(&said);
    rp_jit_free(f);
}

/* Entries count as long as their function is there. */
static void a_function_that_is_gone_leaves_room(void **state) {
    base_buf said;
    rp_jit *first = limited(doubled, RP_DYNAMIC_NONE, 0, 3);
    (void)state;
    heard_start(&said, "");
    for (int i = 0; i < 4; i++) {
        rp_jit *f = limited(doubled, RP_DYNAMIC_NONE, 0, 3);
        ran_one(f, 2);
        ran_one(f, 3);
        ran_one(f, 4);
        assert_int_equal(jit_info(f).general, 0);
        rp_jit_free(f);
    }
    ran_one(first, 2);
    assert_int_equal(said.len, 0);
    heard_done(&said);
    rp_jit_free(first);
}

/* Once for all functions over one, and again when one that had entries has gone; what has none leaves no room. */
static void what_has_gone_is_told_with_the_next_limit(void **state) {
    base_buf said;
    rp_jit *f = limited(doubled, RP_DYNAMIC_NONE, 0, 3),
           *g = limited(doubled, RP_DYNAMIC_NONE, 0, 3), *late[3];
    (void)state;
    heard_start(&said, "");
    ran_one(f, 2);
    ran_one(f, 3);
    ran_one(g, 2);
    for (int i = 0; i < 3; i++) {
        size_t before = said.len;
        late[i] = limited(doubled, RP_DYNAMIC_NONE, 0, 3);
        ran_one(late[i], 5);
        assert_int_equal(jit_info(late[i]).general, 1);
        if (i == 1)
            assert_int_equal(said.len, before);
        else
            CHECK_HEARD(&said, "reprise hit accumulated_recompile_limit (3)");
        if (i == 0) CHECK_HEARD(&said, "; 3 rp_jit are over that C function");
        if (i == 2) CHECK_HEARD(&said, "; 4 rp_jit are over that C function");
        if (i == 0) rp_jit_free(limited(doubled, RP_DYNAMIC_NONE, 0, 3)); /* has no entries */
        if (i == 1) rp_jit_free(g);
    }
    heard_done(&said);
    for (int i = 0; i < 3; i++) rp_jit_free(late[i]);
    rp_jit_free(f);
}

/* --- threads --------------------------------------------------------------------------------------- */

enum { THREADS = 4, CALLS = 60 };

/* One call; what is wrong with it, or NULL. */
static char *call_once(rp_jit *f, int i) {
    static char failed[] = "the call failed", shape[] = "shape", value[] = "value";
    static const char *const name[] = {"x"};
    float in[64];
    rp_error err = {0};
    rp_output *o = NULL;
    const rp_value *r = NULL;
    int64_t n = 1 + i % 13;
    for (int k = 0; k < 52; k++) in[k] = (float)(i + k);
    rp_value v = f32_of(in, 2, n, 4), args = rp_value_map(name, &v, 1);
    if (rp_jit_run(f, &args, &o, &err) != RP_OK) return failed;
    char *bad = NULL;
    if (rp_output_value(o, &r, &err) != RP_OK || r->tensor.dim[0] != n) bad = shape;
    for (int k = 0; k < n * 4 && !bad; k++)
        if (n > 6 && ((float *)r->tensor.data)[k] != -in[k]) bad = value;
    rp_output_free(o);
    return bad;
}

static void *call_often(void *jit) {
    char *bad = NULL;
    for (int i = 0; i < CALLS && !bad; i++) bad = call_once(jit, i);
    return bad;
}

static void threads_share_entries(void **state) {
    int64_t least = 6;
    pthread_t t[THREADS];
    rp_jit *f = jit_at(asking, 2, RP_DYNAMIC_AUTO, &least);
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, call_often, f), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        assert_int_equal(pthread_join(t[i], &bad), 0);
        if (bad) fail_msg("a thread: %s", (char *)bad);
    }
    rp_jit_info info = jit_info(f);
    assert_int_equal(info.calls, THREADS * CALLS);
    assert_int_equal(info.compiles, info.entries);
    assert_true(info.entries <= 8);
    rp_jit_free(f);
}

/* The function calls itself: an entry that is there serves it, a trace within the trace is refused. */
static rp_status inside(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static const char *const name[] = {"x"};
    static float in[8];
    rp_output *o = NULL;
    rp_value v = f32_of(in, 1, 8, 0), own = rp_value_map(name, &v, 1);
    (void)call;
    *result = args->item[0];
    return rp_jit_run(*(rp_jit **)user, &own, &o, err);
}

static void a_trace_inside_of_itself_is_refused(void **state) {
    rp_jit *f = NULL;
    rp_error err = {0};
    (void)state;
    f = jit_at(inside, 2, RP_DYNAMIC_AUTO, &f);
    assert_int_equal(run_one(f, 4, NULL, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "inside of its own trace"));
    rp_jit_free(f);
}

static rp_status handing_on(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_output *o = NULL;
    (void)call;
    *result = args->item[0];
    return rp_jit_run(*(rp_jit **)user, args, &o, err);
}

static void values_of_a_trace_are_no_arguments(void **state) {
    rp_jit *f = NULL, *g = jit_at(doubled, 2, RP_DYNAMIC_AUTO, NULL);
    rp_jit **inner[] = {&f, &g};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        f = jit_at(handing_on, 2, RP_DYNAMIC_AUTO, inner[i]);
        assert_int_equal(run_one(f, 4, NULL, &err), RP_INVALID);
        if (!strstr(err.text, ": call the C function itself")) fail_msg("%s", err.text);
        rp_jit_free(f);
    }
    rp_jit_free(g);
}

/* At level 0 sizes are numbers, and the range of a mark holds. */
static void marks_hold_at_level_0(void **state) {
    rp_error err = {0};
    rp_output *o = NULL;
    float data[64] = {0};
    rp_jit *f = jit_at(doubled, 0, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 2, 8, &err), &err);
    for (int64_t n = 1; n < 12; n++) {
        rp_value v = f32_of(data, 1, n, 0), args = rp_value_tuple(&v, 1);
        bool inside = n >= 2 && n <= 8;
        assert_int_equal(rp_jit_run(f, &args, &o, &err), inside ? RP_OK : RP_INVALID);
        if (!inside) assert_non_null(strstr(err.text, "outside of its mark, [2, 8]"));
        if (inside) rp_output_free(o);
    }
    rp_jit_free(f);
}

static rp_status turned(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_flip(rp_exp(rp_flip(a, 0)), 0));
    return RP_OK;
}

/* Counting along a size bounds it neither by what 32 bits hold nor by memory for as many; that there is something to count is a
 * guard, so that nothing is done about axes of no elements. */
static void places_are_no_guards(void **state) {
    rp_error err = {0};
    char *guards = NULL;
    rp_jit *f = jit_at(turned, 2, RP_DYNAMIC_ALL, NULL);
    (void)state;
    assert_int_equal(ran_one(f, 5), RP_RAN_CAPTURE);
    assert_int_equal(ran_one(f, 7), RP_RAN_REPLAY);
    CHECK_OK(rp_jit_guards_text(f, &guards, &err), &err);
    if (strstr(guards, "2147483")) fail_msg("a guard of 32 bits:\n%s", guards);
    if (!strstr(guards, "1 <= L['x'].size()[0]")) fail_msg("no guard of an element:\n%s", guards);
    rp_free(guards);
    rp_jit_free(f);
}

/* Of several entries the one that was used last comes first, whichever was made last. */
static void guards_are_in_order_of_use(void **state) {
    static const int64_t rows[] = {5, 7, 5, 5, 7};
    rp_jit *f = jit_at(turned, 2, RP_DYNAMIC_NONE, NULL);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rp_error err = {0};
        char *guards = NULL;
        assert_int_equal(ran_one(f, rows[i]), i < 2 ? RP_RAN_CAPTURE : RP_RAN_REPLAY);
        CHECK_OK(rp_jit_guards_text(f, &guards, &err), &err);
        const char *five = strstr(guards, "size=[5"), *seven = strstr(guards, "size=[7");
        assert_true(five && (i == 0) == !seven);
        if (i) assert_int_equal(five < seven, rows[i] == 5);
        rp_free(guards);
    }
    rp_jit_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_call),
        cmocka_unit_test(divisors_are_joined),
        cmocka_unit_test(a_mark_is_of_all_of_its_range),
        cmocka_unit_test(recompiles_are_told_as_by_torch),
        cmocka_unit_test(each_guard_has_its_words),
        cmocka_unit_test(guards_are_told_whole),
        cmocka_unit_test(guards_are_in_order_of_use),
        cmocka_unit_test(a_question_names_its_line),
        cmocka_unit_test(marked_sizes_are_symbols_at_once),
        cmocka_unit_test(a_static_mark_holds),
        cmocka_unit_test(a_mark_that_does_not_hold_is_an_error),
        cmocka_unit_test(sizes_that_are_one_have_the_mark_of_each),
        cmocka_unit_test(past_the_limit_one_entry_serves_all_sizes),
        cmocka_unit_test(numbers_that_never_repeat_end_op_by_op),
        cmocka_unit_test(strings_are_told_shortly),
        cmocka_unit_test(a_level_alone_captures_nothing_in_silence),
        cmocka_unit_test(a_trace_that_fails_is_told_once),
        cmocka_unit_test(advice_is_what_helps),
        cmocka_unit_test(marks_are_of_sizes_that_differ),
        cmocka_unit_test(functions_of_one_fn_share_a_limit),
        cmocka_unit_test(a_function_that_is_gone_leaves_room),
        cmocka_unit_test(what_has_gone_is_told_with_the_next_limit),
        cmocka_unit_test(threads_share_entries),
        cmocka_unit_test(a_trace_inside_of_itself_is_refused),
        cmocka_unit_test(values_of_a_trace_are_no_arguments),
        cmocka_unit_test(marks_hold_at_level_0),
        cmocka_unit_test(places_are_no_guards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
