/* Dims: known facts, and random forms compared with brute force over all values of the symbols. */
#include "support/check.h"

#include "base/alloc.h"
#include "ir/dim_code.h"

typedef struct fixture {
    base_arena *arena;
    ir_dims *t;
    ir_dim T, S, D; /* T in [1,40], S in [0,7], D in [16,64] by 16 */
} fixture;

static int setup(void **state) {
    static fixture f;
    f.arena = base_arena_new();
    f.t = ir_dims_new(f.arena);
    f.T = ir_dim_symbol(f.t, "T", 1, 40, 1);
    f.S = ir_dim_symbol(f.t, "S", 0, 7, 1);
    f.D = ir_dim_symbol(f.t, "D", 16, 64, 16);
    *state = &f;
    return f.t ? 0 : 1;
}

static int teardown(void **state) {
    base_arena_free(((fixture *)*state)->arena);
    return 0;
}

static ir_dim parse(ir_dims *t, const char *text) {
    ir_dim d = IR_DIM_BAD;
    rp_error err = {0};
    CHECK_OK(ir_dim_parse(t, &text, &d, &err), &err);
    assert_string_equal(text, "");
    return d;
}

static void check_text(fixture *f, const char *in, const char *out) {
    base_buf b;
    base_buf_init(&b, 0);
    ir_dim_print(f->t, parse(f->t, in), &b);
    assert_string_equal(b.data, out);
    base_buf_done(&b);
}

static void equal_forms_are_one_handle(void **state) {
    fixture *f = *state;
    check_text(f, "T", "T");
    check_text(f, "3+2*T-1", "2*T+2");
    check_text(f, "S+T", "T+S");
    check_text(f, "T-T", "0");
    check_text(f, "T*0", "0");
    check_text(f, "0*(S+T)", "0");
    check_text(f, "4*(T//4)+T%4", "T");
    check_text(f, "T//4*8+T%4*2", "2*T");
    check_text(f, "S%3+T%7+7*(T//7)+3*(S//3)", "T+S");
    check_text(f, "(T//2)//3", "T//6");
    check_text(f, "(2*T+7)//4", "(T+1)//2+1");
    check_text(f, "(6*T+9)%4", "2*(T%2)+1");
    check_text(f, "16*(D//16)", "D");
    check_text(f, "(D+15)//16", "D//16");
    check_text(f, "(D+5)%16", "5");
    check_text(f, "(T%12)%4", "T%4");
    check_text(f, "(S+T*8)//8", "T");
    check_text(f, "(S+8)%16", "S+8");
    check_text(f, "-(T//3)", "-(T//3)");
    check_text(f, "5-2*(T//3)", "-2*(T//3)+5");
    check_text(f, "-5//3", "-2");
    check_text(f, "-5%3", "1");
    check_text(f, "S*T*2", "2*T*S");
    check_text(f, "(T+1)*(S-1)", "-T+S+T*S-1");
    check_text(f, "-T*(S//2)*T", "-T*T*(S//2)");
    check_text(f, "T*S*6//4", "(T*S)//2+T*S");
    check_text(f, "D*S//16", "(S*D)//16");
    check_text(f, "(D//16)*(T//2)*S*32", "2*S*D*(T//2)");
    assert_int_equal(parse(f->t, "(T+S)*(T-S)"), parse(f->t, "T*T-S*S"));
    assert_int_equal(parse(f->t, "(T+15)//16*16"), parse(f->t, "16*((15+T)//16)"));
    assert_int_equal(parse(f->t, "2*((T+T%2)//2)"), parse(f->t, "T+T%2"));
    assert_int_equal(parse(f->t, "8*((T+(8-T%8)%8)//8)"), parse(f->t, "T+(8-T%8)%8"));
    assert_int_equal(parse(f->t, "T+(-T)%8"), parse(f->t, "8*((T+7)//8)"));
    assert_int_equal(parse(f->t, "-T-(-T)%8"), parse(f->t, "-8*((T+7)//8)"));
    assert_int_equal(parse(f->t, "T-T%8"), parse(f->t, "8*(T//8)"));
    assert_int_equal(parse(f->t, "T%8-T"), parse(f->t, "-8*(T//8)"));
    assert_int_equal(parse(f->t, "T-T%2"), parse(f->t, "2*(T//2)"));
    assert_int_equal(parse(f->t, "-T-T%2"), parse(f->t, "-2*((T+1)//2)"));
    assert_int_equal(parse(f->t, "3*(T+S)+2*((-T-S-1)%8)"), parse(f->t, "T+S-2+16*((T+S+8)//8)"));
    assert_int_equal(parse(f->t, "(T+T%2)*((S+S%2)//2)"), parse(f->t, "(T+T%2)//2*(S+S%2)"));
    assert_int_equal(parse(f->t, "2*((T+T%2+1)//2)"), parse(f->t, "T+T%2"));
    assert_int_equal(parse(f->t, "2*((T+T%2)//2)*S"), parse(f->t, "(T+T%2)*S"));
    /* Several quotients find their rests at once. */
    assert_int_equal(parse(f->t, "(2*(T//2)+3*(S//3)+5*(D//5))+(T%2+S%3+D%5)"),
                     parse(f->t, "T+S+D"));
}

static void questions_are_answered(void **state) {
    fixture *f = *state;
    ir_dims *t = f->t;
    ir_dim up = parse(t, "16*((T+15)//16)");
    int64_t lo, hi;
    assert_int_equal(ir_dim_le(t, f->T, up), IR_TRUE);
    assert_int_equal(ir_dim_le(t, up, parse(t, "T+15")), IR_TRUE);
    assert_int_equal(ir_dim_le(t, up, f->T), IR_UNKNOWN);
    assert_int_equal(ir_dim_le(t, parse(t, "T+1"), f->T), IR_FALSE);
    assert_int_equal(ir_dim_eq(t, f->T, f->S), IR_UNKNOWN);
    assert_int_equal(ir_dim_eq(t, f->S, parse(t, "T+7")), IR_FALSE);
    assert_int_equal(ir_dim_eq(t, parse(t, "2*T"), parse(t, "2*S+1")), IR_FALSE);
    assert_int_equal(ir_dim_divisible(t, f->D, 8), IR_TRUE);
    assert_int_equal(ir_dim_divisible(t, f->D, 32), IR_UNKNOWN);
    assert_int_equal(ir_dim_divisible(t, parse(t, "D+8"), 16), IR_FALSE);
    assert_int_equal(ir_dim_divisible(t, parse(t, "6*T+4"), 2), IR_TRUE);
    assert_int_equal(ir_dim_divisible(t, parse(t, "D*S"), 16), IR_TRUE);
    assert_int_equal(ir_dim_le(t, f->T, parse(t, "T*S")), IR_UNKNOWN); /* as if independent */
    assert_int_equal(ir_dim_le(t, parse(t, "T*S"), parse(t, "D*D*S+1000")), IR_TRUE);
    ir_dim_bounds(t, parse(t, "T*S"), &lo, &hi);
    assert_int_equal(lo, 1 * 0);
    assert_int_equal(hi, 40 * 7);
    ir_dim_bounds(t, parse(t, "3*((T-T//2+2)//3)-T+T//2"), &lo, &hi); /* divisions inside */
    assert_int_equal(lo, 0);
    assert_int_equal(hi, 2);
    ir_dim_bounds(t, parse(t, "3*T-S"), &lo, &hi);
    assert_int_equal(lo, -4);
    assert_int_equal(hi, 120);
    (void)ir_dim_symbol(t, "H", 2, INT64_MAX, 1);
    (void)ir_dim_symbol(t, "W", 3, INT64_MAX, 1);
    ir_dim_bounds(t, parse(t, "2*H*W-2*H-2*W+2"), &lo, &hi); /* 2*(H-1)*(W-1) */
    assert_int_equal(lo, 4);
    assert_int_equal(hi, INT64_MAX);
    ir_dim_bounds(t, parse(t, "5-H*W+W"), &lo, &hi);
    assert_int_equal(lo, INT64_MIN);
    assert_int_equal(hi, 2);
    assert_int_equal(ir_dim_factor(t, parse(t, "12*T+18")), 6);
    assert_true(ir_dim_uses(t, up, 0));
    assert_false(ir_dim_uses(t, up, 1));
}

/* What estimates take a size for. */
/* T is 1 at least, S and R may be 0. */
static void what_is_empty_with_another(void **state) {
    static const struct {
        const char *size, *of, *more;
        bool known;
    } cases[] = {
        {"8*S", "S", "1", true},         {"8*S", "3*S", "1", true},
        {"S*T", "S", "1", true},         {"S*T", "T", "1", false},
        {"S", "2*S+T-1", "1", false},    {"S*R", "S", "1", false},
        {"S*R", "S", "R", true},         {"S*R", "S*R", "1", true},
        {"S+R", "S", "1", true},         {"S+R", "S+R", "1", true},
        {"S*R+R*R", "R", "1", true},     {"S*R+R*R", "S+R", "R", true},
        {"S*T+R*T", "S+R", "1", true},   {"8*T-8", "T-1", "1", true},
        {"T-1", "S", "1", false},        {"S+1", "R", "1", true},
        {"T", "S", "1", true},           {"S//2", "S", "1", false},
        {"8*(S//2)", "S//2", "1", true}, {"S%4", "S", "1", false},
        {"0", "S", "1", false},          {"0", "0", "1", true},
        {"S", "S+1", "1", false},        {"R*S*T", "R*T", "S*T", true},
        {"R*S*T", "R*T", "T", false},
    };
    fixture *f = *state;
    ir_dims *t = f->t;
    (void)ir_dim_symbol(t, "R", 0, 9, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ir_dim of[] = {parse(t, cases[i].of), parse(t, cases[i].more)};
        if (ir_dim_empty_with(t, parse(t, cases[i].size), of, 2) != cases[i].known)
            fail_msg("%s is 0 with %s and %s", cases[i].size, cases[i].of, cases[i].more);
    }
    assert_false(ir_dim_empty_with(t, IR_DIM_BAD, &f->S, 1));
    assert_false(ir_dim_empty_with(t, f->S, NULL, 0));
}

static void unknown_sizes_have_a_nominal_one(void **state) {
    fixture *f = *state;
    ir_dim free = ir_dim_symbol(f->t, "N", 0, INT64_MAX, 1);
    ir_dim many = ir_dim_symbol(f->t, "M", 300, INT64_MAX, 1);
    assert_int_equal(ir_dim_nominal(f->t, ir_dim_const(f->t, 7)), 7);
    assert_int_equal(ir_dim_nominal(f->t, ir_dim_const(f->t, 5000)), 5000);
    assert_int_equal(ir_dim_nominal(f->t, f->T), 40);
    assert_int_equal(ir_dim_nominal(f->t, free), IR_DIM_NOMINAL);
    assert_int_equal(ir_dim_nominal(f->t, many), 300);
    assert_true(ir_dim_is(f->t, ir_dim_const(f->t, 7), 7));
    assert_false(ir_dim_is(f->t, ir_dim_const(f->t, 7), 8));
    assert_false(ir_dim_is(f->t, f->T, 40));
    assert_true(ir_dim_same(f->t, parse(f->t, "T//4*4+T%4"), f->T));
    assert_false(ir_dim_same(f->t, f->T, f->S));
}

static void limits_are_errors(void **state) {
    fixture *f = *state;
    ir_dims *t = f->t;
    ir_dim big = ir_dim_const(t, INT64_C(1) << 60);
    assert_int_equal(ir_dim_mul_const(t, big, 16), IR_DIM_BAD);
    assert_int_equal(ir_dim_floordiv(t, f->T, 0), IR_DIM_BAD);
    assert_int_equal(ir_dim_mod(t, f->T, -1), IR_DIM_BAD);
    assert_int_equal(ir_dim_add(t, IR_DIM_BAD, f->T), IR_DIM_BAD);
    assert_int_equal(ir_dim_add(t, 1000000, f->T), IR_DIM_BAD);
    for (int i = 0; i < 2; i++) { /* either operand */
        const ir_dim x = i ? f->T : IR_DIM_BAD, y = i ? IR_DIM_BAD : f->T;
        assert_int_equal(ir_dim_add(t, x, y), IR_DIM_BAD);
        assert_int_equal(ir_dim_sub(t, x, y), IR_DIM_BAD);
        assert_int_equal(ir_dim_mul(t, x, y), IR_DIM_BAD);
    }
    assert_int_equal(ir_dim_mul_const(t, IR_DIM_BAD, 2), IR_DIM_BAD);
    assert_int_equal(ir_dim_floordiv(t, IR_DIM_BAD, 2), IR_DIM_BAD);
    assert_int_equal(ir_dim_mod(t, IR_DIM_BAD, 2), IR_DIM_BAD);
    assert_int_equal(ir_dim_symbol(t, "T", 1, 41, 1), IR_DIM_BAD);
    assert_int_equal(ir_dim_symbol(t, "bad name", 1, 4, 1), IR_DIM_BAD);
    assert_int_equal(ir_dim_symbol(t, "none", 5, 7, 4), IR_DIM_BAD);
    assert_int_equal(ir_dims_find(t, "none"), UINT32_MAX);
    ir_dim d = f->T;
    for (int i = 0; i < 40 && d != IR_DIM_BAD; i++)
        d = ir_dim_floordiv(t, ir_dim_add(t, d, f->S), 2 + i % 2);
    assert_int_equal(d, IR_DIM_BAD); /* nested too deeply, not a stack overflow */
}

static void bad_text_is_refused(void **state) {
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"U", "size symbol 'U' has no range"},
        {"T/2", "sizes divide with '//' only"},
        {"T//S", "positive constants only"},
        {"T//0", "positive constants only"},
        {"T*T*T*T*T*T*T*T*T*T*T*T*T", "more than 16 terms or 12 factors"},
        {"(T", "expected ')'"},
        {"", "expected a size"},
        {"T+", "expected a size"},
        {"99999999999999999999", "too large"},
        {"((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((T", "nested deeper"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *p = bad[i].text;
        ir_dim d;
        rp_error err = {0};
        assert_int_equal(ir_dim_parse(f->t, &p, &d, &err), RP_INVALID);
        if (!strstr(err.text, bad[i].error)) fail_msg("'%s': %s", bad[i].text, err.text);
    }
}

/* What may be a name is looked for; longer words are none. */
static void names_have_an_end(void **state) {
    fixture *f = *state;
    char name[300];
    memset(name, 'n', sizeof name);
    for (size_t n = 254; n < 258; n++) {
        const char *p = name;
        ir_dim d;
        rp_error err = {0};
        name[n] = 0;
        assert_int_equal(ir_dim_parse(f->t, &p, &d, &err), RP_INVALID);
        assert_int_equal(strcmp(err.text, "a symbol's name is over 255 bytes") == 0, n > 255);
        name[n] = 'n';
    }
}

/* --- random forms ---------------------------------------------------------- */

static uint64_t rng;
static uint32_t pick(uint32_t n) {
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rng >> 33) % n;
}

/* A tree beside the dim: the oracle. */
typedef struct tree {
    char op;
    int64_t k;
    const struct tree *a, *b;
} tree;

static int64_t tree_eval(const tree *e, const int64_t *v) {
    int64_t a, q;
    switch (e->op) {
    case 'k': return e->k;
    case 's': return v[e->k];
    case '+': return (int64_t)((uint64_t)tree_eval(e->a, v) + (uint64_t)tree_eval(e->b, v));
    case '-': return (int64_t)((uint64_t)tree_eval(e->a, v) - (uint64_t)tree_eval(e->b, v));
    case '*': return (int64_t)((uint64_t)tree_eval(e->a, v) * (uint64_t)e->k);
    case 'x': return (int64_t)((uint64_t)tree_eval(e->a, v) * (uint64_t)tree_eval(e->b, v));
    default: break;
    }
    a = tree_eval(e->a, v);
    q = a / e->k - (a % e->k < 0);
    return e->op == '/' ? q : a - q * e->k;
}

static ir_dim tree_make(fixture *f, tree *pool, uint32_t *n, int depth, const tree **out) {
    tree *e = &pool[(*n)++];
    ir_dim a, b;
    const ir_dim sym[3] = {f->T, f->S, f->D};
    static const int64_t ks[] = {1, 2, 3, 4, 5, 6, 8, 12, 16};
    *out = e;
    *e = (tree){.op = "ks+-*/%x"[depth == 0 ? pick(2) : 1 + pick(7)]};
    switch (e->op) {
    case 'k': e->k = (int64_t)pick(41) - 20; return ir_dim_const(f->t, e->k);
    case 's': e->k = pick(3); return sym[e->k];
    case '+':
    case '-':
    case 'x':
        a = tree_make(f, pool, n, depth - 1, &e->a);
        b = tree_make(f, pool, n, depth - 1, &e->b);
        if (e->op == 'x') return ir_dim_mul(f->t, a, b);
        return e->op == '+' ? ir_dim_add(f->t, a, b) : ir_dim_sub(f->t, a, b);
    default:
        e->k = ks[pick(9)];
        a = tree_make(f, pool, n, depth - 1, &e->a);
        if (e->op == '*' && pick(2)) e->k = -e->k;
        if (e->op == '*') return ir_dim_mul_const(f->t, a, e->k);
        return e->op == '/' ? ir_dim_floordiv(f->t, a, e->k) : ir_dim_mod(f->t, a, e->k);
    }
}

/* C's value of what ir_dim_print_c writes. */
static long long c_sum(const char **p, const int64_t *v);
static long long c_factor(const char **p, const int64_t *v) {
    long long x;
    if (**p == '-') return ++*p, -c_factor(p, v);
    if (**p == '+') return ++*p, c_factor(p, v);
    if (**p == '(') {
        ++*p;
        x = c_sum(p, v);
        ++*p;
        return x;
    }
    if (**p == 'v') {
        x = v[(*p)[2] - '0'];
        *p += 4;
        return x;
    }
    x = strtoll(*p, (char **)(uintptr_t)p, 10);
    *p += 2; /* LL */
    return x;
}
static long long c_product(const char **p, const int64_t *v) {
    long long x = c_factor(p, v);
    for (;;) {
        char op = **p;
        if (op != '*' && op != '/' && op != '%') return x;
        ++*p;
        long long y = c_factor(p, v);
        x = op == '*' ? x * y : op == '/' ? x / y : x % y;
    }
}
static long long c_sum(const char **p, const int64_t *v) {
    long long x = c_product(p, v);
    while (**p == '+' || **p == '-') {
        char op = *(*p)++;
        long long y = c_product(p, v);
        x = op == '+' ? x + y : x - y;
    }
    return x;
}

static bool symbol_range(const void *user, uint32_t i, int64_t *lo, int64_t *hi) {
    const ir_symbol *s = ir_dims_symbol(user, i);
    if (s) *lo = s->min, *hi = s->max;
    return s != NULL;
}

static const char *symbol_name(const void *user, uint32_t i) {
    return ir_dims_symbol(user, i)->name;
}

static int n_factored;

/* The program of d, which is as d is, or d with factors taken out. False for one that is too long or overflows. */
static bool check_code(fixture *f, ir_dim d, const char *text, ir_dim_code *c, int64_t *lo,
                       int64_t *hi) {
    rp_error err = {0};
    base_buf b;
    if (ir_dim_code_of(f->t, d, c, &err) != RP_OK) {
        assert_int_equal(err.code, RP_UNSUPPORTED);
        return false;
    }
    base_buf_init(&b, 0);
    ir_dim_code_print(c, symbol_name, f->t, &b);
    if (strcmp(b.data, text) != 0) {
        assert_int_equal(parse(f->t, b.data), d);
        n_factored++;
    }
    base_buf_done(&b);
    return ir_dim_code_bounds(c, symbol_range, f->t, lo, hi);
}

static int n_codes;
static void check_values(fixture *f, ir_dim d, const tree *e, const char *text,
                         const char *c_text) {
    int64_t lo, hi, code_lo, code_hi;
    ir_dim_code code;
    bool coded = check_code(f, d, text, &code, &code_lo, &code_hi);
    n_codes += coded;
    ir_tri by3 = ir_dim_divisible(f->t, d, 3), by8 = ir_dim_divisible(f->t, d, 8);
    ir_dim_bounds(f->t, d, &lo, &hi);
    for (int64_t i = 0; i < 41 * 8 * 4; i++) {
        int64_t v[3] = {1 + i % 40, i / 40 % 8, 16 + i / 320 % 4 * 16};
        int64_t x = tree_eval(e, v);
        const char *p = c_text;
        assert_int_equal(ir_dim_eval(f->t, d, v), x);
        if (coded) assert_int_equal(ir_dim_code_eval(&code, v), x);
        if (coded) assert_true(code_lo <= x && x <= code_hi);
        if (i % 7 == 0) assert_int_equal(c_sum(&p, v), x);
        assert_true(lo <= x && x <= hi);
        if (by3 != IR_UNKNOWN) assert_int_equal(by3 == IR_TRUE, x % 3 == 0);
        if (by8 != IR_UNKNOWN) assert_int_equal(by8 == IR_TRUE, x % 8 == 0);
    }
}

static void check_pair(fixture *f, ir_dim a, const tree *ea, ir_dim b, const tree *eb) {
    bool eq = true, ne = true, le = true, gt = true, least = true, none = true;
    for (int64_t i = 0; i < 40 * 8 * 4; i++) {
        int64_t v[3] = {1 + i % 40, i / 40 % 8, 16 + i / 320 % 4 * 16};
        int64_t x = tree_eval(ea, v), y = tree_eval(eb, v);
        eq = eq && x == y;
        ne = ne && x != y;
        le = le && x <= y;
        gt = gt && x > y;
        least = least && x >= 0;
        none = none && (x != 0 || y == 0);
    }
    if (least && ir_dim_empty_with(f->t, a, &b, 1)) assert_true(none);
    ir_tri q = ir_dim_eq(f->t, a, b), l = ir_dim_le(f->t, a, b);
    if (q == IR_TRUE || a == b) assert_true(eq);
    if (q == IR_FALSE) assert_true(ne);
    if (l == IR_TRUE) assert_true(le);
    if (l == IR_FALSE) assert_true(gt);
}

static void random_forms_agree_with_brute_force(void **state) {
    fixture *f = *state;
    ir_dim old = IR_DIM_BAD;
    const tree *old_tree = NULL;
    static tree pools[2][256];
    int n_good = 0;
    rng = 7;
    base_arena *arena = base_arena_new();
    ir_dims *other = ir_dims_new(arena);
    for (int i = 0; i < 3000; i++) {
        uint32_t n = 0;
        const tree *e;
        base_buf text, c;
        ir_dim d = tree_make(f, pools[i & 1], &n, 1 + (int)pick(4), &e);
        if (d == IR_DIM_BAD) continue; /* nested too deeply: allowed, but seldom */
        n_good++;
        base_buf_init(&text, 0);
        base_buf_init(&c, 0);
        ir_dim_print(f->t, d, &text);
        ir_dim_print_c(f->t, d, "v", &c);
        check_values(f, d, e, text.data, c.data);
        assert_int_equal(parse(f->t, text.data), d);
        ir_dim there = ir_dim_import(other, f->t, d);
        assert_int_not_equal(there, IR_DIM_BAD);
        assert_int_equal(ir_dim_import(f->t, other, there), d);
        if (old_tree) check_pair(f, d, e, old, old_tree);
        old = d;
        old_tree = e;
        base_buf_done(&text);
        base_buf_done(&c);
    }
    base_arena_free(arena);
    assert_true(n_good > 2800 && n_codes > 2960 && n_factored > 20);
}

/* Bytes of images, padded, pooled and joined, whose expanded forms are longer than a program may be. */
static void long_forms_are_factored(void **state) {
    static const struct {
        const char *form, *text;
        uint32_t n;
    } cases[] = {
        {"12*D*(T+2)*(S+2)", "12*(S+2)*(T+2)*D", 8},
        {"4*D*((T+1)//2+2)*((S+1)//2+2)", "4*((S+1)//2+2)*((T+1)//2+2)*D", 12},
        {"8*(S+3)*(T+T%2+1)*D", "8*(2*((T+1)//2)+1)*(S+3)*D", 11},
        {"8*(S+D+3)*((T+1)//2+1)*(D+1)", "8*((S+D+4)*((T+1)//2+1)*D+((T+1)//2+1)*(S+3))", 20},
        {"(T+2)*(S+3)-6", NULL, 0}, /* short: as it is */
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ir_dim d = parse(f->t, cases[i].form);
        ir_dim_code c;
        rp_error err = {0};
        base_buf b, plain;
        base_buf_init(&b, 0);
        base_buf_init(&plain, 0);
        CHECK_OK(ir_dim_code_of(f->t, d, &c, &err), &err);
        ir_dim_code_print(&c, symbol_name, f->t, &b);
        ir_dim_print(f->t, d, &plain);
        assert_string_equal(b.data, cases[i].text ? cases[i].text : plain.data);
        if (cases[i].text) assert_int_equal(c.n, cases[i].n);
        assert_int_equal(parse(f->t, b.data), d);
        base_buf_done(&b);
        base_buf_done(&plain);
    }
}

/* Programs of a damaged plan: what is taken is there, one value is left, every operation is one, and nothing overflows. */
static void programs_that_are_none_have_no_bounds(void **state) {
    enum {
        C = IR_DIM_CODE_CONST,
        S = IR_DIM_CODE_SYMBOL,
        ADD = IR_DIM_CODE_ADD,
        MUL = IR_DIM_CODE_MUL
    };
    static const struct {
        ir_dim_code code;
        bool sound;
    } is[] = {{{.n = 1, .op = {C}, .k = {7}}, true},
              {{.n = 3, .op = {C, S, ADD}, .k = {7, 0}}, true},
              {{.n = 2, .op = {C, C}, .k = {7, 8}}, false},
              {{.n = 4, .op = {S, S, S, ADD}, .k = {0}}, false},
              {{.n = 1, .op = {ADD}}, false},
              {{.n = 2, .op = {C, MUL}, .k = {7}}, false},
              {{.n = 4, .op = {C, ADD, C, C}, .k = {7}}, false},
              {{.n = 1, .op = {S}, .k = {-1}}, false},
              {{.n = 1, .op = {S}, .k = {UINT32_MAX}}, false},
              {{.n = 1, .op = {IR_DIM_CODE_OP_COUNT_}}, false},
              {{.n = IR_DIM_CODE_MAX + 1}, false},
              {{.n = 2, .op = {S, IR_DIM_CODE_FLOORDIV}, .k = {0, 0}}, false},
              {{.n = 2, .op = {S, IR_DIM_CODE_MOD}, .k = {0, 0}}, false},
              {{.n = 2, .op = {S, IR_DIM_CODE_MOD}, .k = {0, 3}}, true},
              {{.n = 2, .op = {C, IR_DIM_CODE_ADD_CONST}, .k = {INT64_MAX, 1}}, false},
              {{.n = 2, .op = {C, IR_DIM_CODE_MUL_CONST}, .k = {INT64_MIN, -1}}, false},
              {{.n = 3, .op = {C, C, MUL}, .k = {INT64_MAX, 2}}, false}};
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        int64_t lo, hi;
        if (ir_dim_code_bounds(&is[i].code, symbol_range, f->t, &lo, &hi) != is[i].sound)
            fail_msg("program %zu", i);
    }
    ir_dim_code deep = {.n = IR_DIM_CODE_MAX};
    int64_t lo, hi;
    assert_false(ir_dim_code_bounds(&deep, symbol_range, f->t, &lo, &hi));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(programs_that_are_none_have_no_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_forms_are_one_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(questions_are_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_empty_with_another, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_sizes_have_a_nominal_one, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_text_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(names_have_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(random_forms_agree_with_brute_force, setup, teardown),
        cmocka_unit_test_setup_teardown(long_forms_are_factored, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
