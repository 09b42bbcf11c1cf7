/* Each rewrite rule by itself: both sides on random inputs, with infinities, NaN, signed zeros and the ends of
 * every type, bit for bit; and the text that rules are read from. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "ir/eval.h"
#include "pass/rules.h"

static uint64_t rng;

static uint32_t pick(uint32_t n) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 33) % n;
}

static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F32,  RP_DTYPE_F16,      RP_DTYPE_BF16,
                                 RP_DTYPE_I32, RP_DTYPE_I64,  RP_DTYPE_I16,      RP_DTYPE_I8,
                                 RP_DTYPE_U8,  RP_DTYPE_BOOL, RP_DTYPE_F8E4M3FN, RP_DTYPE_F8E5M2};

/* A graph in the making: one input for each variable of the rule. */
typedef struct trial {
    const pass_rule *rule;
    ir_graph *g;
    ir_ref input[PASS_RULE_TERMS];
    char letter[PASS_RULE_TERMS];
    uint32_t n;
    rp_dtype type; /* of most variables */
    ir_shape shape;
    uint32_t swaps,
        n_commuting; /* bit i: the operands of the i-th op that commutes are exchanged */
} trial;

static ir_shape random_shape(ir_graph *g) {
    static const int64_t shapes[][3] = {{3, 3, 0}, {2, 3, 0}, {1, 3, 0}, {6, 0, 0},
                                        {3, 0, 0}, {1, 2, 3}, {2, 2, 2}, {0, 0, 0}};
    ir_shape s = {0};
    const int64_t *d = shapes[pick(sizeof shapes / sizeof *shapes)];
    for (uint32_t i = 0; i < 3 && d[i]; i++) s.dim[s.rank++] = ir_dim_const(ir_graph_dims(g), d[i]);
    return s;
}

static bool add_input(trial *t, char letter, ir_ref *out) {
    char name[2] = {letter, 0};
    for (uint32_t i = 0; i < t->n; i++)
        if (t->letter[i] == letter) {
            *out = t->input[i];
            return true;
        }
    rp_dtype type = pick(5) ? t->type : types[pick(sizeof types / sizeof *types)];
    ir_shape shape = pick(3) ? t->shape : random_shape(t->g);
    if (ir_add_leaf(t->g, IR_LEAF_INPUT, name, type, shape, out, NULL) != RP_OK) return false;
    t->letter[t->n] = letter;
    t->input[t->n++] = *out;
    return true;
}

static uint32_t random_attrs(trial *t, ir_op op, ir_ref x, ir_attr *a, ir_dim *dims,
                             int64_t *axes) {
    const ir_node *n = ir_node_at(t->g, x);
    ir_dims *d = ir_graph_dims(t->g);
    ir_shape s = pick(3) ? n->shape : random_shape(t->g);
    uint32_t rank = n->shape.rank;
    memcpy(dims, s.dim, sizeof s.dim);
    switch (op) {
    case IR_cast:
        a[0] = (ir_attr){.key = IR_ATTR_DTYPE,
                         .u.i = pick(3) ? (int64_t)types[pick(10)] : (int64_t)t->type};
        return 1;
    case IR_bitcast: {
        rp_dtype to = n->dtype;
        for (int k = 0; k < 100 && (to == n->dtype ||
                                    rp_dtype_block_bytes(to) != rp_dtype_block_bytes(n->dtype));
             k++)
            to = types[pick(sizeof types / sizeof *types)];
        a[0] = (ir_attr){.key = IR_ATTR_DTYPE, .u.i = (int64_t)(pick(3) ? to : t->type)};
        return 1;
    }
    case IR_reshape:
    case IR_broadcast:
        a[0] = (ir_attr){.key = IR_ATTR_SHAPE, .n = s.rank, .u.dims = dims};
        return 1;
    case IR_permute:
        for (uint32_t i = 0; i < rank; i++) axes[i] = i;
        for (uint32_t i = rank; i > 1 && pick(4); i--) {
            uint32_t j = pick(i);
            int64_t was = axes[i - 1];
            axes[i - 1] = axes[j];
            axes[j] = was;
        }
        a[0] = (ir_attr){.key = IR_ATTR_AXES, .n = rank, .u.ints = axes};
        return 1;
    case IR_concat: a[0] = (ir_attr){.key = IR_ATTR_AXIS, .u.i = pick(rank ? rank : 1)}; return 1;
    case IR_slice:
        a[0] = (ir_attr){.key = IR_ATTR_AXIS, .u.i = pick(rank ? rank : 1)};
        a[1] = (ir_attr){.key = IR_ATTR_START, .u.dim = ir_dim_const(d, pick(2))};
        if (pick(2)) return 1;
        return 2;
    default: return 0;
    }
}

static bool build(trial *t, uint32_t term, ir_ref *out);

static bool build_op(trial *t, const pass_term *x, ir_ref *out) {
    ir_ref in[3];
    ir_attr attrs[2];
    ir_dim dims[IR_MAX_RANK];
    int64_t axes[IR_MAX_RANK];
    const bool swap = x->n_in == 2 && ir_op_commutes(x->op) && t->swaps >> t->n_commuting++ & 1;
    /* Values first, so that a number can take their type. */
    for (int numbers = 0; numbers < 2; numbers++)
        for (uint32_t i = 0; i < x->n_in; i++) {
            const pass_term *y = &t->rule->term[x->in[i]];
            bool number = y->kind == PASS_TERM_NUMBER || y->kind == PASS_TERM_CONST;
            if (number == numbers && !build(t, x->in[i], &in[swap ? 1 - i : i])) return false;
        }
    uint32_t n = random_attrs(t, x->op, in[0], attrs, dims, axes);
    return ir_add(t->g, x->op, in, x->n_in, attrs, n, out, NULL) == RP_OK;
}

static bool build(trial *t, uint32_t term, ir_ref *out) {
    const pass_term *x = &t->rule->term[term];
    if (x->kind == PASS_TERM_OP) return build_op(t, x, out);
    if (x->kind == PASS_TERM_VALUE) return add_input(t, x->letter, out);
    rp_dtype type = t->n ? ir_node_at(t->g, t->input[0])->dtype : t->type;
    double v = x->kind == PASS_TERM_NUMBER ? x->number
                                           : ldexp(pick(4) ? 1 : 1.5, (int)pick(290) - 160);
    if (x->kind == PASS_TERM_CONST && pick(2)) v = -v;
    if (ir_add_const(t->g, type, v, out, NULL) != RP_OK) return false;
    ir_attr shape = {.key = IR_ATTR_SHAPE, .n = t->shape.rank, .u.dims = t->shape.dim};
    return pick(3) || ir_add(t->g, IR_broadcast, out, 1, &shape, 1, out, NULL) == RP_OK;
}

static double special_value(rp_dtype t) {
    static const double reals[] = {
        0.0, -0.0, 1,    -1,    INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-126, 0x1.fffffep127,
        0.5, 2.5,  -3.5, 65504, 0x1p-24,  1e-3,      3};
    static const double ints[] = {
        0, 1, -1, 2, -2, 127, -128, 255, 32767, -32768, 2147483647, -2147483648.0, 7};
    double v = ir_dtype_is_real(t) ? reals[pick(sizeof reals / sizeof *reals)]
                                   : ints[pick(sizeof ints / sizeof *ints)];
    if (pick(3) == 0) v = (double)((int)pick(2001) - 1000) / 8;
    return ir_round(t, v);
}

/* v as an element of a value of t. */
static void set_element(rp_dtype t, ir_value *x, int64_t i, double v) {
    if (t == RP_DTYPE_I64)
        ir_value_set_int(x, i, ir_to_i64(v));
    else
        x->data[i] = v;
}

static ir_value special_values(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    ir_value v = {.rank = n->shape.rank, .n = 1};
    for (uint32_t i = 0; i < v.rank; i++) {
        assert_true(ir_dim_is_const(ir_graph_dims(g), n->shape.dim[i], &v.dim[i]));
        v.n *= v.dim[i];
    }
    v.data = base_alloc_array((size_t)v.n + 1, sizeof *v.data);
    for (int64_t i = 0; i < v.n; i++) set_element(n->dtype, &v, i, special_value(n->dtype));
    return v;
}

/* Both sides are outputs of one graph. */
static void compare(const trial *t, ir_ref before, ir_ref after) {
    ir_ref outs[2] = {before, after};
    ir_value in[PASS_RULE_TERMS], out[2];
    rp_error err = {0};
    CHECK_OK(ir_graph_finish(t->g, outs, 2, &err), &err);
    for (int round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < t->n; i++) in[i] = special_values(t->g, t->input[i]);
        CHECK_OK(ir_eval(t->g, in, NULL, NULL, NULL, out, &err), &err);
        assert_int_equal(out[0].n, out[1].n);
        for (int64_t i = 0; i < out[0].n; i++) {
            double a = out[0].data[i], b = out[1].data[i];
            if (memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b))) continue;
            char *text = NULL;
            CHECK_OK(ir_print_string(t->g, &text, &err), &err);
            fail_msg("%.*s: %a became %a in\n%s", (int)t->rule->text.len, t->rule->text.ptr, a, b,
                     text);
        }
        for (uint32_t i = 0; i < t->n; i++) ir_value_done(&in[i]);
        ir_value_done(&out[0]);
        ir_value_done(&out[1]);
    }
}

/* Whether the rule applied to the random graph. */
static bool try_rule(const pass_rule *rule, uint32_t swaps) {
    rp_error err = {0};
    trial t = {.rule = rule, .g = ir_graph_new("rule"), .swaps = swaps};
    ir_ref root, made = IR_NONE;
    bool ok = t.g != NULL;
    assert_true(ok);
    t.type = types[pick(sizeof types / sizeof *types)];
    t.shape = random_shape(t.g);
    if (build(&t, rule->pattern, &root)) {
        CHECK_OK(pass_rule_apply(rule, t.g, root, &made, &err), &err);
        if (made != IR_NONE) compare(&t, root, made);
    }
    ir_graph_free(t.g);
    return made != IR_NONE;
}

static void every_rule_keeps_every_bit(void **state) {
    pass_rules rules;
    rp_error err = {0};
    (void)state;
    CHECK_OK(pass_rules_parse(pass_rules_text(), &rules, &err), &err);
    assert_true(rules.n > 30);
    for (uint32_t i = 0; i < rules.n; i++) {
        uint32_t applied = 0;
        rng = 88172645463325252u + i;
        for (int k = 0; k < 20000 && applied < 200; k++)
            applied += try_rule(&rules.rule[i], pick(16));
        if (applied < 20)
            fail_msg("%.*s: applied %u times only", (int)rules.rule[i].text.len,
                     rules.rule[i].text.ptr, applied);
    }
    pass_rules_done(&rules);
}

/* The same graph with the operands of ops that commute in every order. */
static void rules_apply_in_any_order_of_operands(void **state) {
    pass_rules rules;
    rp_error err = {0};
    (void)state;
    CHECK_OK(pass_rules_parse(pass_rules_text(), &rules, &err), &err);
    for (uint32_t i = 0; i < rules.n; i++)
        for (uint64_t k = 1; k <= 300; k++) {
            rng = k * 88172645463325252u + i;
            bool applied = try_rule(&rules.rule[i], 0);
            for (uint32_t swaps = 1; swaps < 8; swaps++) {
                rng = k * 88172645463325252u + i;
                if (try_rule(&rules.rule[i], swaps) != applied)
                    fail_msg("%.*s: not in order %u", (int)rules.rule[i].text.len,
                             rules.rule[i].text.ptr, swaps);
            }
        }
    pass_rules_done(&rules);
}

/* Neighbours of every power of two, as far as the type has them. */
static ir_value powers(rp_dtype t) {
    ir_value v = {.rank = 1, .n = 0, .data = base_alloc_array(400, sizeof(double))};
    assert_non_null(v.data);
    for (int k = 0; k < 64; k++)
        for (int d = -1; d < 2; d++)
            for (int sign = -1; sign < 2; sign += 2)
                set_element(t, &v, v.n++, ir_round(t, sign * (ldexp(1, k) + d)));
    v.dim[0] = v.n;
    return v;
}

/* Two casts in a row become one only where the first loses nothing, for every three types. */
static void casts_are_joined_where_nothing_is_lost(void **state) {
    enum { N_TYPES = sizeof types / sizeof *types };
    pass_rules rules;
    rp_error err = {0};
    uint32_t joined = 0;
    (void)state;
    CHECK_OK(pass_rules_parse("cast (cast %x) -> cast %x if widens", &rules, &err), &err);
    for (int i = 0; i < N_TYPES * N_TYPES * N_TYPES; i++) {
        rp_dtype chain[] = {types[i % N_TYPES], types[i / N_TYPES % N_TYPES],
                            types[i / N_TYPES / N_TYPES]};
        trial t = {.rule = &rules.rule[0], .g = ir_graph_new("casts")};
        ir_value in = powers(chain[0]), out[2];
        ir_shape shape = {1, {ir_dim_const(ir_graph_dims(t.g), in.n)}};
        ir_ref r, made;
        CHECK_OK(ir_add_leaf(t.g, IR_LEAF_INPUT, "x", chain[0], shape, &r, &err), &err);
        for (int k = 1; k < 3; k++) {
            ir_attr a = {.key = IR_ATTR_DTYPE, .u.i = (int64_t)chain[k]};
            CHECK_OK(ir_add(t.g, IR_cast, &r, 1, &a, 1, &r, &err), &err);
        }
        CHECK_OK(pass_rule_apply(t.rule, t.g, r, &made, &err), &err);
        if (made != IR_NONE) {
            joined++;
            CHECK_OK(ir_graph_finish(t.g, (ir_ref[]){r, made}, 2, &err), &err);
            CHECK_OK(ir_eval(t.g, &in, NULL, NULL, NULL, out, &err), &err);
            if (memcmp(out[0].data, out[1].data, (size_t)in.n * sizeof(double)) != 0)
                fail_msg("%s to %s to %s is not %s to %s", rp_dtype_name(chain[0]),
                         rp_dtype_name(chain[1]), rp_dtype_name(chain[2]), rp_dtype_name(chain[0]),
                         rp_dtype_name(chain[2]));
            ir_value_done(&out[0]);
            ir_value_done(&out[1]);
        }
        ir_value_done(&in);
        ir_graph_free(t.g);
    }
    assert_true(joined > 300);
    pass_rules_done(&rules);
}

/* A rule that is not exact must be found out by the same means; else the test above shows nothing. */
static bool is_caught(const char *text) {
    pass_rules rules;
    rp_error err = {0};
    bool caught = false;
    CHECK_OK(pass_rules_parse(text, &rules, &err), &err);
    rng = 4711;
    for (int k = 0; k < 20000 && !caught; k++) {
        trial t = {.rule = &rules.rule[0], .g = ir_graph_new("rule"), .type = types[pick(10)]};
        ir_ref root, made = IR_NONE, outs[2];
        t.shape = random_shape(t.g);
        if (build(&t, t.rule->pattern, &root))
            CHECK_OK(pass_rule_apply(t.rule, t.g, root, &made, &err), &err);
        if (made != IR_NONE) {
            ir_value in[PASS_RULE_TERMS], out[2];
            outs[0] = root;
            outs[1] = made;
            CHECK_OK(ir_graph_finish(t.g, outs, 2, &err), &err);
            for (uint32_t i = 0; i < t.n; i++) in[i] = special_values(t.g, t.input[i]);
            CHECK_OK(ir_eval(t.g, in, NULL, NULL, NULL, out, &err), &err);
            for (int64_t i = 0; i < out[0].n; i++) {
                double a = out[0].data[i], b = out[1].data[i];
                caught = caught || (memcmp(&a, &b, sizeof a) != 0 && !(isnan(a) && isnan(b)));
            }
            for (uint32_t i = 0; i < t.n; i++) ir_value_done(&in[i]);
            ir_value_done(&out[0]);
            ir_value_done(&out[1]);
        }
        ir_graph_free(t.g);
    }
    pass_rules_done(&rules);
    return caught;
}

static void wrong_rules_are_caught(void **state) {
    (void)state;
    assert_true(is_caught("add %x, 0 -> %x"));
    assert_true(is_caught("neg (sub %x, %y) -> sub %y, %x"));
    assert_true(is_caught("sub 0, %x -> neg %x"));
    assert_true(is_caught("cast (cast %x) -> cast %x"));
    assert_true(is_caught("permute %x -> %x"));
    assert_true(is_caught("div %x, #c -> mul %x, (recip #c)"));
    assert_true(is_caught("mul (mul %x, %y), %z -> mul %x, (mul %y, %z)"));
    assert_false(is_caught("mul %x, 1 -> %x"));
}

/* An op over constants becomes a constant where every device gives the same bits and a double holds the result. */
static void constants_fold_where_that_is_exact(void **state) {
    static const struct {
        ir_op op;
        rp_dtype type;
        double a, b, want; /* want NAN: left to run time */
    } cases[] = {
        {IR_add, RP_DTYPE_I64, 0x1p53 - 1, 1, 0x1p53},
        {IR_add, RP_DTYPE_I64, 0x1p53, 1, NAN},
        {IR_add, RP_DTYPE_I64, 0x1p53, 2, NAN},
        {IR_floor_divide, RP_DTYPE_I64, -7, 2, -4},
        {IR_add, RP_DTYPE_I64, -0x1p53, -2, NAN},
        {IR_sub, RP_DTYPE_I64, -0x1p53 + 1, 1, -0x1p53},
        {IR_mul, RP_DTYPE_I64, 0x1p26, 0x1p27, 0x1p53},
        {IR_mul, RP_DTYPE_I64, 0x1p27, 0x1p27, NAN},
        {IR_mul, RP_DTYPE_I64, 0x1p40, 0x1p40, 0}, /* wraps around to what is exact */
        {IR_add, RP_DTYPE_I32, 2147483647, 1, -2147483648.0},
        {IR_mul, RP_DTYPE_I32, 65536, 65536, 0},
        {IR_add, RP_DTYPE_F32, 0x1p60, 1, 0x1p60},
        {IR_add, RP_DTYPE_F32, 0x1p24, 1, 0x1p24},
        {IR_div, RP_DTYPE_F32, 1, 3, 0x1.555556p-2},
        {IR_div, RP_DTYPE_F32, 0, 0, NAN},
        {IR_sub, RP_DTYPE_F32, INFINITY, INFINITY, NAN},
        {IR_mul, RP_DTYPE_F16, 256, 256, INFINITY},
        {IR_pow, RP_DTYPE_F32, 2, 2, NAN},
        {IR_max, RP_DTYPE_I64, 0x1p60, 1, NAN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        ir_graph *g = ir_graph_new("fold");
        ir_ref a, b, r, out;
        CHECK_OK(ir_add_const(g, cases[i].type, cases[i].a, &a, &err), &err);
        CHECK_OK(ir_add_const(g, cases[i].type, cases[i].b, &b, &err), &err);
        CHECK_OK(ir_add2(g, cases[i].op, a, b, &r, &err), &err);
        CHECK_OK(pass_fold_node(g, r, &out, &err), &err);
        const ir_node *n = ir_node_at(g, out);
        bool left = out == r, want = isnan(cases[i].want);
        if (left != want || (!left && ir_attr_float(n, IR_ATTR_VALUE, NAN) != cases[i].want))
            fail_msg("case %zu: %s %a", i, left ? "left" : "folded to",
                     left ? 0.0 : ir_attr_float(n, IR_ATTR_VALUE, NAN));
        ir_graph_free(g);
    }
}

static void bits_fold_where_a_constant_holds_them(void **state) {
    static const struct {
        rp_dtype from, to;
        double v, want; /* want NAN: left to run time */
    } cases[] = {
        {RP_DTYPE_F32, RP_DTYPE_I32, 1, 0x3f800000},
        {RP_DTYPE_I32, RP_DTYPE_F32, -0x1p31, -0.0},
        {RP_DTYPE_F32, RP_DTYPE_I32, -0.0, -0x1p31},
        {RP_DTYPE_I32, RP_DTYPE_F32, 0x7f800000, INFINITY},
        {RP_DTYPE_I32, RP_DTYPE_F32, 0x7fc00001, NAN},
        {RP_DTYPE_F32, RP_DTYPE_I32, NAN, NAN},
        {RP_DTYPE_F64, RP_DTYPE_I64, 1, NAN},
        {RP_DTYPE_F64, RP_DTYPE_I64, 0x1p-1074, 1},
        {RP_DTYPE_I64, RP_DTYPE_F64, 1, 0x1p-1074},
        {RP_DTYPE_I16, RP_DTYPE_BF16, 0x3f80, 1},
        {RP_DTYPE_BF16, RP_DTYPE_F16, -1, -0x1.ep0},
        {RP_DTYPE_F8E4M3FN, RP_DTYPE_U8, -448, 0xfe},
        {RP_DTYPE_F8E5M2, RP_DTYPE_I8, -INFINITY, -4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        ir_graph *g = ir_graph_new("fold");
        ir_ref a, r, out;
        const ir_attr to = {.key = IR_ATTR_DTYPE, .u.i = cases[i].to};
        CHECK_OK(ir_add_const(g, cases[i].from, cases[i].v, &a, &err), &err);
        CHECK_OK(ir_add(g, IR_bitcast, &a, 1, &to, 1, &r, &err), &err);
        CHECK_OK(pass_fold_node(g, r, &out, &err), &err);
        const double got = out == r ? NAN : ir_attr_float(ir_node_at(g, out), IR_ATTR_VALUE, NAN);
        if ((out == r) != isnan(cases[i].want) ||
            (out != r && (got != cases[i].want || !signbit(got) != !signbit(cases[i].want))))
            fail_msg("case %zu: %s %a", i, out == r ? "left" : "folded to", got);
        ir_graph_free(g);
    }
}

static void bad_text_is_refused(void **state) {
    static const char *const bad[][2] = {
        {"mul %x, 1", "expected ->"},
        {"mul %x -> %x", "mul takes 2 operands, not 1"},
        {"neg %x, %y -> %x", "neg takes 1 operands, not 2"},
        {"mul %x, 1 -> %y", "the pattern has no 'y'"},
        {"mul %x, %y -> #x", "the pattern has no 'x'"},
        {"mull %x, 1 -> %x", "no op mull"},
        {"mul %x, 1 -> %x if odd", "no condition odd"},
        {"mul %x, 1 -> %x twice", "goes on with 'twice'"},
        {"mul %xy, 1 -> %x", "one letter"},
        {"sub %x, %x -> 0", "no constants of its own"},
        {"attention %x -> %x", "cannot be rewritten"},
        {"mul (mul %x, 1 -> %x", "expected ')'"},
        {"\n; a comment\n\nmul", "rules, line 4:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pass_rules rules = {0};
        rp_error err = {0};
        rp_status st = pass_rules_parse(bad[i][0], &rules, &err);
        if (st != RP_INVALID || !strstr(err.text, bad[i][1]))
            fail_msg("'%s': %s '%s', not '%s'", bad[i][0], rp_status_name(st), err.text, bad[i][1]);
    }
}

/* So many terms as there is room for, and one more. */
static void long_rules_are_refused(void **state) {
    (void)state;
    for (int n = 1; n <= PASS_RULE_TERMS + 2;
         n++) { /* ops, and what they are of, which is what they become */
        pass_rules rules = {0};
        char text[200] = "";
        rp_error err = {0};
        for (int i = 0; i < n; i++) (void)strcat(text, i ? "(neg " : "neg ");
        (void)strcat(text, "%x");
        for (int i = 1; i < n; i++) (void)strcat(text, ")");
        (void)strcat(text, " -> %x");
        const rp_status st = pass_rules_parse(text, &rules, &err);
        assert_int_equal(st, n + 2 <= PASS_RULE_TERMS ? RP_OK : RP_INVALID);
        if (st != RP_OK) assert_non_null(strstr(err.text, "a rule has at most 12 terms"));
        if (st == RP_OK) pass_rules_done(&rules);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_keeps_every_bit),
        cmocka_unit_test(rules_apply_in_any_order_of_operands),
        cmocka_unit_test(casts_are_joined_where_nothing_is_lost),
        cmocka_unit_test(wrong_rules_are_caught),
        cmocka_unit_test(constants_fold_where_that_is_exact),
        cmocka_unit_test(bits_fold_where_a_constant_holds_them),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(long_rules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
