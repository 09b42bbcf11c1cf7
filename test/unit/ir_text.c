/* The text form: round trips, exact spelling, line numbers, and bytes that are not IR at all. */
#include "support/check.h"

#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "ir/node.h"
#include "ir/site.h"
#include "support/random_graph.h"

static char *print(const ir_graph *g) {
    char *s;
    rp_error err = {0};
    CHECK_OK(ir_print_string(g, &s, &err), &err);
    return s;
}

/* What parses must print and parse again to the same text. */
static bool check_law(const char *text, size_t len) {
    ir_graph *g, *h;
    rp_error err = {0};
    rp_status st = ir_parse(text, len, &g, &err);
    if (st != RP_OK) {
        assert_true(st == RP_INVALID || st == RP_NOT_FOUND);
        assert_non_null(strstr(err.text, "line "));
        assert_null(strchr(err.text, '\n'));
        return false;
    }
    st = ir_verify(g, NULL); /* unordered effects may parse */
    assert_true(st == RP_OK || st == RP_INVALID);
    char *a = print(g);
    CHECK_OK(ir_parse(a, strlen(a), &h, &err), &err);
    char *b = print(h);
    assert_string_equal(a, b);
    base_free(a);
    base_free(b);
    ir_graph_free(g);
    ir_graph_free(h);
    return true;
}

static ir_graph *random_graph(uint64_t seed) {
    random_graph_options opt = RANDOM_GRAPH_ALL;
    ir_graph *g;
    rp_error err = {0};
    opt.symbolic = seed % 3 != 0;
    opt.control = seed % 4 == 1;
    opt.n_steps = 3 + (uint32_t)(seed % 17);
    CHECK_OK(random_graph_new(seed, &opt, &g, &err), &err);
    return g;
}

static void random_graphs_round_trip(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        ir_graph *g = random_graph(seed);
        char *s = print(g);
        assert_true(check_law(s, strlen(s)));
        base_free(s);
        ir_graph_free(g);
    }
}

/* Every constant comes back bit by bit, in whatever locale. */
static void constants_round_trip(void **state) {
    static const double values[] = {0.0, -0.0, 1.0, -1.5, 0.1, 1e-45, 1e38, 0x1.fffffep+127, 3e-39,
                                    INFINITY, -INFINITY, NAN, 65504, 0x1p-24, 123456789, DBL_MAX,
                                    /* the least, and others below the normal ones */
                                    0x1p-1074, -0x1.8p-1030, DBL_MIN};
    enum { N = sizeof values / sizeof *values };
    (void)state;
    for (size_t k = 0; k < 2 * N; k++) {
        size_t i = k % N;
        bool wide = k >= N;
        ir_graph *g = ir_graph_new("c"), *h;
        ir_ref r;
        rp_error err = {0};
        CHECK_OK(ir_add_const(g, wide ? RP_DTYPE_F64 : RP_DTYPE_F32, values[i], &r, &err), &err);
        CHECK_OK(ir_graph_finish(g, &r, 1, &err), &err);
        char *s = print(g);
        CHECK_OK(ir_parse(s, strlen(s), &h, &err), &err);
        double got = ir_attr_float(ir_node_at(h, 0), IR_ATTR_VALUE, 77);
        double want = wide ? values[i] : (double)(float)values[i];
        if (isnan(want) ? !isnan(got) : got != want || !signbit(got) != !signbit(want))
            fail_msg("%a came back as %a from %s", want, got, s);
        base_free(s);
        ir_graph_free(g);
        ir_graph_free(h);
    }
}

static void spelling_is_exact(void **state) {
    static const char in[] =
        "; a comment\ngraph @f(%x: f32[T,8]) where T in [1,64] by 2, N in [0,inf] { ; another\n"
        "%w = param @blk.0.w : q4_1[16,32] %d = dequant %w %s = slice %d{axis=-1,stop=8}\n"
        "%m = matmul %x, %s {trans_b=true} : f32[T,16]\n%c = const 0.1 %i = const -7 : i32[]\n"
        "%n = const nan %p = permute %m {axes=[1,0]} %r = mul %p, %c ret %r, %i, %n }";
    static const char out[] = "graph @f(%x: f32[T,8]) -> (f32[16,T], i32[], f32[]) where T in "
                              "[1,64] by 2, N in [0,inf] {\n"
                              "  %0 = param @blk.0.w                       : q4_1[16,32]\n"
                              "  %1 = dequant %0                           : f32[16,32]\n"
                              "  %2 = slice %1 {axis=1, start=0, stop=8}   : f32[16,8]\n"
                              "  %3 = matmul %x, %2 {trans_b=true}         : f32[T,16]\n"
                              "  %4 = const 0x1.99999ap-4                  : f32[]\n"
                              "  %5 = const -7                             : i32[]\n"
                              "  %6 = const nan                            : f32[]\n"
                              "  %7 = permute %3 {axes=[1,0]}              : f32[16,T]\n"
                              "  %8 = mul %7, %4                           : f32[16,T]\n"
                              "  ret %8, %5, %6\n"
                              "}\n";
    ir_graph *g;
    rp_error err = {0};
    (void)state;
    CHECK_OK(ir_parse(in, strlen(in), &g, &err), &err);
    char *s = print(g);
    assert_string_equal(s, out);
    base_free(s);
    ir_graph_free(g);
}

static void errors_name_the_line(void **state) {
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"", "line 1: expected 'graph'"},
        {"grph @f() {ret}", "line 1: a graph begins with 'graph @name('"},
        {"graph f() {ret}", "line 1: expected '@', found 'f'"},
        {"graph @7() {ret}", "line 1: a graph's name begins with a letter or _"},
        {"graph @f(%x: f32[U]) {ret}", "line 1: size symbol 'U' has no range"},
        {"graph @f() where T in [5,4] {ret}", "line 1: bad size symbol"},
        {"graph @f() where T in [1,4], T in [1,4] {ret}",
         "line 1: size symbol 'T' is declared already"},
        {"graph @f(%x: f33[4]) {ret}", "line 1: unknown element type 'f33'"},
        {"graph @f(%x: f32[4], %x: f32[4]) {ret}", "line 1: input 'x' exists already"},
        {"graph @f(%x: f32[4]) {\n%y = foo %x\nret}", "line 2: unknown op 'foo'"},
        {"graph @f(%x: f32[4]) {\n\n%y = neg %z\nret}", "line 3: neg: no value %z so far"},
        {"graph @f(%x: f32[4]) {\n%y = neg %y\nret}", "line 2: neg: no value %y so far"},
        {"graph @f(%x: f32[4]) {\n%x = neg %x\nret}", "line 2: value %x exists already"},
        {"graph @f(%x: f32[4]) {\n%y = neg %x : f32[5]\nret}",
         "line 2: type f32[5] is given, but neg gives f32[4]"},
        {"graph @f(%x: f32[4]) {\n%y = neg %x {foo=1}\nret}",
         "line 2: neg: unknown attribute 'foo'"},
        {"graph @f(%x: f32[4]) {\n%y = sum %x {axis=one}\nret}",
         "line 2: sum: expected an integer"},
        {"graph @f(%x: f32[4]) {\n%y = sum %x {axis=0, keep=2}\nret}",
         "line 2: sum: expected true or false"},
        {"graph @f(%x: f32[4]) {\n%y = const 1..2\nret}", "line 2: const: expected a number"},
        {"graph @f(%x: f32[4]) {\n%y = custom %x {name=\"a\nret}",
         "line 2: custom: a string ends on its line"},
        {"graph @f(%x: f32[4]) {\n%y = input %x\nret}", "line 2: inputs belong in the header"},
        {"graph @f(%x: f32[4]) {\n%y = neg %x", "line 2: expected '%', found the end"},
        {"graph @f(%x: f32[4]) {\nret %x\n} x", "line 3: text after the graph's end"},
        {"graph @f(%x: f32[4]) -> f32[5] {\nret %x\n}",
         "line 1: type f32[5] is given, but input gives f32[4]"},
        {"graph @f(%x: f32[4]) -> () {\nret %x\n}", "line 2: ret gives another number"},
        {"graph @f(%x: f32[4]) -> (f32[4], f32[4]) {\nret %x\n}",
         "line 2: ret gives another number"},
        {"graph @f(%x: f32[4]) {\n%y = reshape %x "
         "{shape=[1000000000000000*1000000000000000]}\nret}",
         "line 2: reshape: a size overflows"},
        {"graph @f(%x: f32[4]) {\nret %x, %z\n}", "line 2: ret: no value %z so far"},
        {"graph @f(%x: f32[4]) {\n%y = cond %x {else=graph @e() {\n%y = foo\nret\n}}\nret}",
         "line 3: unknown op 'foo'"},
        {"graph @f(%x: f32[4]) {\n%y = cond %x {else=graph @e() {\nret\n}, foo=1}\nret}",
         "line 4: cond: unknown attribute 'foo'"},
        {"graph @f(%x: f32[4]) {\nret %x\n\x01", "line 3: expected '}', found byte 0x01"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ir_graph *g = NULL;
        rp_error err = {0};
        assert_int_equal(ir_parse(bad[i].text, strlen(bad[i].text), &g, &err), RP_INVALID);
        assert_null(g);
        if (strncmp(err.text, bad[i].error, strlen(bad[i].error)) != 0)
            fail_msg("%s\n got  %s\n want %s", bad[i].text, err.text, bad[i].error);
    }
    ir_graph *g = NULL;
    rp_error err = {0};
    assert_int_equal(ir_parse("graph @f() {\n\0ret}", 18, &g, &err), RP_INVALID);
    assert_string_equal(err.text, "line 2: a zero byte");
}

/* So many characters that any number of 64 bits has room; more are refused, zeros in front as well. */
static void integers_have_an_end(void **state) {
    (void)state;
    for (int n = 1; n <= 30; n++) {
        char text[120];
        ir_graph *g = NULL;
        rp_error err = {0};
        (void)snprintf(text, sizeof text,
                       "graph @f(%%x: f32[4,2]) {\n%%y = sum %%x {axis=%0*d}\nret}", n, 1);
        const rp_status st = ir_parse(text, strlen(text), &g, &err);
        assert_int_equal(st, n < 24 ? RP_OK : RP_INVALID);
        if (st != RP_OK)
            assert_string_equal(err.text, "line 2: sum: expected an integer of 64 bits");
        ir_graph_free(g);
    }
}

static void made_on_line(const ir_graph *g, ir_op op, uint32_t line) {
    const ir_site *s = NULL;
    for (ir_ref r = 0; r < ir_graph_count(g) && !s; r++)
        if (ir_node_at(g, r)->op == op) s = ir_site_at(g, r, 0);
    assert_non_null(s);
    assert_null(s->file);
    assert_int_equal(s->line, line);
}

/* Also of those within a graph that is a value, and of those behind it. */
static void nodes_know_their_lines(void **state) {
    static const char text[] = "graph @g(%n: i32[])\n"
                               "{\n"
                               "  %m = neg %n\n"
                               "  %w = while %m {limit=3,\n"
                               "    cond=graph @more(%n: i32[]) {\n"
                               "      %z = const 0 : i32[]\n"
                               "\n"
                               "      %m = lt %z, %n\n"
                               "      ret %m\n"
                               "    },\n"
                               "    body=graph @less(%n: i32[]) { ; in one line\n"
                               "      %o = const 1 : i32[] %l = sub %n, %o ret %l }}\n"
                               "  %e = abs %w\n"
                               "  ret %e\n}\n";
    ir_graph *g = NULL;
    rp_error err = {0};
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    made_on_line(g, IR_neg, 3);
    made_on_line(g, IR_while, 4);
    made_on_line(g, IR_abs, 13);
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        if (n->op != IR_while) continue;
        made_on_line(ir_attr_get(n, IR_ATTR_COND)->u.graph, IR_const, 6);
        made_on_line(ir_attr_get(n, IR_ATTR_COND)->u.graph, IR_lt, 8);
        made_on_line(ir_attr_get(n, IR_ATTR_BODY)->u.graph, IR_sub, 12);
    }
    ir_graph_free(g);
}

static uint64_t rng = 1;
static uint32_t pick(uint32_t n) {
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rng >> 33) % n;
}

/* Cuts, doubles and overwrites at random: never a crash, and the law holds for what still parses. */
static void damaged_text_is_safe(void **state) {
    static const char *const tokens[] = {
        "%0", "%1",     "f32[T]",  "-1",    "9999999999", "{",       "}",        "[",    "]",
        "T",  "axis=0", "//",      "where", "ret",        "0x1p+2",  "matmul",   "q4_0", "=",
        "1",  ",",      "dequant", "T*T",   "(",          "mutates", "\"a::b\"", "inf"};
    int good = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        ir_graph *g = random_graph(seed % 40);
        char *s = print(g), buf[32768];
        size_t n = strlen(s);
        ir_graph_free(g);
        if (n > 16000) n = 16000;
        memcpy(buf, s, n);
        base_free(s);
        for (uint32_t k = 0; k < 1 + pick(3); k++) {
            size_t at = pick((uint32_t)n), len = 1 + pick(12);
            const char *t = tokens[pick(sizeof tokens / sizeof tokens[0])];
            if (at + len > n) len = n - at;
            switch (pick(4)) {
            case 0: /* cut */
                memmove(buf + at, buf + at + len, n - at - len);
                n -= len;
                break;
            case 1: /* double */
                memmove(buf + at + len, buf + at, n - at);
                n += len;
                break;
            case 2: /* a token */
                memcpy(buf + at, t, strlen(t) < n - at ? strlen(t) : n - at);
                break;
            default: /* a byte */ buf[at] = (char)pick(256); break;
            }
            if (n == 0) break;
        }
        good += check_law(buf, n);
    }
    print_message("%d of 2000 damaged texts still parse\n", good);
    assert_true(good > 10 && good < 1990);
}

static void limits_hold(void **state) {
    (void)state;
    ir_graph *g = NULL;
    rp_error err = {0};
    size_t n = 200000;
    char *deep = test_malloc(n + 64);
    memcpy(deep, "graph @f(%x: f32[", 17);
    memset(deep + 17, '(', n);
    assert_int_equal(ir_parse(deep, n + 17, &g, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "nested deeper"));
    memset(deep + 10, 'a', n);
    err = (rp_error){0};
    assert_int_equal(ir_parse(deep, n + 10, &g, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "1 to 255"));
    test_free(deep);
    err = (rp_error){0};
    assert_int_equal(ir_parse("", (size_t)1 << 40, &g, &err), RP_INVALID);
}

/* Whether text is taken; else its message must have the words. */
static bool is_taken(const char *text, const char *words) {
    rp_error err = {0};
    ir_graph *g = NULL;
    rp_status st = ir_parse(text, strlen(text), &g, &err);
    if (st != RP_OK && !strstr(err.text, words)) fail_msg("%s: %s", text, err.text);
    ir_graph_free(g);
    return st == RP_OK;
}

/* The last that is taken, and the first that is not. */
static void limits_are_exact(void **state) {
    char text[1200], part[600] = "";
    (void)state;
    for (int n = 254; n < 258; n++) {
        (void)snprintf(text, sizeof text, "graph @g%0*d(%%x: f32[2]) { ret %%x }", n - 1, 0);
        assert_int_equal(is_taken(text, "1 to 255"), n <= 255);
        (void)snprintf(text, sizeof text, "graph @f(%%v%0*d: f32[2]) { ret %%v%0*d }", n - 1, 0,
                       n - 1, 0);
        assert_int_equal(is_taken(text, "1 to 255"), n <= 255);
    }
    for (int n = 5; n < 8; n++) {
        (void)snprintf(text, sizeof text, "graph @f(%%x: f32[%.*s]) { ret %%x }", 2 * n - 1,
                       "1,1,1,1,1,1,1,1");
        assert_int_equal(is_taken(text, "a tensor has at most 6 axes"), n <= 6);
        (void)snprintf(text, sizeof text,
                       "graph @f() { %%x = empty {dtype=f32, shape=[%.*s]} ret %%x }", 2 * n - 1,
                       "1,1,1,1,1,1,1,1");
        assert_int_equal(is_taken(text, "a tensor has at most 6 axes"), n <= 6);
    }
    for (int n = 62; n < 67; n++) { /* parentheses within a size */
        memset(part, '(', (size_t)n);
        part[n] = 'T';
        memset(part + n + 1, ')', (size_t)n);
        part[2 * n + 1] = 0;
        (void)snprintf(text, sizeof text, "graph @f(%%x: f32[%s]) where T in [1,8] { ret %%x }",
                       part);
        assert_int_equal(is_taken(text, "nested deeper than 64"), n <= 63);
    }
    for (int64_t most = INT32_MAX - 1; most < INT64_C(2) + INT32_MAX; most++)
        for (int wide = 0; wide < 2; wide++) { /* a size as a value */
            (void)snprintf(text, sizeof text,
                           "graph @f(%%x: f32[T]) -> %s[] where T in [1,%lld] { %%s = size "
                           "{dtype=%s, size=T} ret %%s }",
                           wide ? "i64" : "i32", (long long)most, wide ? "i64" : "i32");
            assert_int_equal(is_taken(text, "may be more than an i32 holds"),
                             wide || most <= INT32_MAX);
        }
    for (int i = 0; i < 100; i++)
        memcpy(part + 4 * i, "(T)+", 4); /* beside each other they are not deep */
    part[399] = 0;
    (void)snprintf(text, sizeof text,
                   "graph @f(%%x: f32[%s]) -> f32[100*T] where T in [1,8] { ret %%x }", part);
    assert_true(is_taken(text, ""));
}

static void operands_have_an_end(void **state) {
    (void)state;
    enum { MOST = IR_MAX_OPERANDS };
    for (int n = MOST - 1; n <= MOST + 1; n++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_puts(&b, "graph @f(%x: f32[2]) { %c = concat ");
        for (int i = 0; i < n; i++) base_buf_puts(&b, i ? ", %x" : "%x");
        base_buf_printf(&b, " {axis=0} : f32[%d] ret %%c }", 2 * n);
        assert_int_equal(is_taken(b.data, "too many operands"), n <= MOST);
        base_buf_done(&b);
    }
}

/* A type in a message is whole as long as it has room, and ends with dots from there on. */
static void long_types_are_cut(void **state) {
    enum { ROOM = sizeof((ir_type_text *)0)->s - 1 };
    rp_error err = {0};
    (void)state;
    for (int n = ROOM - 1; n <= ROOM + 2; n++) {
        char text[400], want[200];
        ir_graph *g = NULL;
        (void)snprintf(want, sizeof want, "f32[M%040d,N%0*d]", 0, n - 48, 0);
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: %s) where M%040d in [1,8], N%0*d in [1,8] { ret %%x }", want,
                       0, n - 48, 0);
        CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
        assert_int_equal(strlen(want), n);
        if (n > ROOM) memcpy(want + ROOM - 3, "...", 4);
        assert_string_equal(ir_type_of(g, ir_output_at(g, 0)).s, want);
        ir_graph_free(g);
    }
}

/* Of every byte: a word, a name of a node, a letter, a digit. */
static void words_are_of_letters_and_digits(void **state) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (void)state;
    for (int i = 1; i < 256; i++) {
        const char c = (char)i;
        const bool letter = strchr(letters, c) != NULL, digit = strchr("0123456789", c) != NULL;
        assert_int_equal(ir_alpha(c), letter);
        assert_int_equal(ir_digit(c), digit);
        assert_int_equal(ir_word_char(c), letter || digit || c == '_');
        assert_int_equal(ir_name_char(c), letter || digit || strchr("_.-/", c) != NULL);
    }
}

/* Names of types are read back, and there are no others. */
static void types_have_names(void **state) {
    static const rp_dtype outside[] = {RP_DTYPE_COUNT_, (rp_dtype)(RP_DTYPE_COUNT_ + 1),
                                       (rp_dtype)-1};
    rp_dtype t = RP_DTYPE_F16;
    (void)state;
    for (int i = 0; i < RP_DTYPE_COUNT_; i++) {
        assert_true(rp_dtype_parse(rp_dtype_name((rp_dtype)i), &t));
        assert_int_equal(t, i);
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_string_equal(rp_dtype_name(outside[i]), "?");
    assert_false(rp_dtype_parse("?", &t) || rp_dtype_parse("", &t));
    assert_int_equal(t, RP_DTYPE_COUNT_ - 1); /* as it was */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_of_letters_and_digits),
        cmocka_unit_test(random_graphs_round_trip),
        cmocka_unit_test(constants_round_trip),
        cmocka_unit_test(spelling_is_exact),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(integers_have_an_end),
        cmocka_unit_test(nodes_know_their_lines),
        cmocka_unit_test(damaged_text_is_safe),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(operands_have_an_end),
        cmocka_unit_test(long_types_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
