/* Each op of the graph IR by the interpreter, compiled and eager, against what torch gave (torch_table.txt, which torch_table.py writes):
 * NaN, infinities, ties, zeros of both signs, the ends of each type, axes of one element and of none. */
#include "support/both.h"

#include <math.h>

#include "api/bound.h"

typedef struct table {
    char *text;
    const char *at; /* where it is read */
    unsigned cases, wrong;
} table;

/* The rest of this line behind `word`, or NULL where it begins otherwise. */
static const char *line_of(table *t, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(t->at, word, n) != 0) return NULL;
    const char *rest = t->at + n;
    t->at = strchr(rest, '\n');
    assert_non_null(t->at);
    t->at++;
    return rest;
}

static void put(rp_dtype t, ir_value *v, int64_t i, const char *from, char **end) {
    if (t == RP_DTYPE_I64)
        ir_value_set_int(v, i, strtoll(from, end, 10));
    else
        v->data[i] = strtod(from, end);
}

/* As many numbers as v holds. */
static void numbers(rp_dtype t, const char *from, ir_value *v) {
    for (int64_t i = 0; i < v->n; i++) {
        char *end = NULL;
        put(t, v, i, from, &end);
        if (end == from)
            fail_msg("%lld numbers where %lld are wanted", (long long)i, (long long)v->n);
        from = end;
    }
}

/* Which of 0 and -0 is the largest or the smallest is not defined: torch gives another one for f16 than for f32. */
static bool picks(ir_op op) {
    return op == IR_max || op == IR_min || op == IR_amax || op == IR_amin;
}

static bool is_near(rp_dtype t, const ir_value *x, const ir_value *want, int64_t i, int ulps) {
    if (t == RP_DTYPE_I64) return ir_value_int(x, i) == ir_value_int(want, i);
    const double a = x->data[i], b = want->data[i];
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return ulps < 0 || signbit(a) == signbit(b);
    /* Below its normal numbers a function may be 0. */
    return ulps > 0 && fabs(a - b) <= fmax(ulps * api_ulp(t, b), t == RP_DTYPE_F32 ? 0x1p-126 : 0);
}

static bool differs(const both *b, const char *who, uint32_t o, const ir_value *x,
                    const ir_value *want, int ulps) {
    const ir_ref r = ir_output_at(b->g, o);
    const rp_dtype t = ir_node_at(b->g, r)->dtype;
    const ir_op op = ir_node_at(b->g, r)->op;
    for (int64_t i = 0; i < want->n; i++) {
        if (is_near(t, x, want, i, ulps == 0 && picks(op) ? -1 : ulps)) continue;
        print_error("%s of %s %s: element %lld is %.9g, torch's %.9g\n", ir_op_table(op)->name,
                    ir_type_of(b->g, r).s, who, (long long)i, x->data[i], want->data[i]);
        return true;
    }
    return false;
}

static void check_outputs(table *t, const both *b) {
    const uint32_t n = ir_output_count(b->g);
    ir_value *code = base_alloc_array(n + b->code.n_input + 1u, sizeof *code);
    assert_non_null(code);
    for (uint32_t o = 0; o < n; o++) code[o] = both_room(&b->want[o]);
    for (uint32_t i = 0; i < b->code.n_input; i++) code[n + i] = both_room(&b->inputs[i]);
    plan_run_values(b->g, &b->code, code);
    for (uint32_t o = 0; o < n; o++) {
        ir_value want = both_room(&b->want[o]);
        char *values = NULL;
        const char *rest = line_of(t, "out ");
        assert_non_null(rest);
        const int ulps = (int)strtol(rest, &values, 10);
        numbers(ir_node_at(b->g, ir_output_at(b->g, o))->dtype, values, &want);
        t->wrong += differs(b, "interpreted", o, &b->want[o], &want, ulps);
        t->wrong += differs(b, "compiled", o, &code[o], &want, ulps);
        ir_value_done(&want);
    }
    for (uint32_t i = 0; i < n + b->code.n_input; i++) ir_value_done(&code[i]);
    base_free(code);
}

static void check_case(table *t) {
    rp_error err = {0};
    both b = {0};
    const char *end = strstr(t->at, "\n}\n");
    assert_non_null(end);
    CHECK_OK(ir_parse(t->at, (size_t)(end + 3 - t->at), &b.g, &err), &err);
    CHECK_OK(both_leaves(&b, 1, &err), &err);
    t->at = end + 3;
    for (uint32_t i = 0; i < b.l.n[IR_LEAF_INPUT]; i++) {
        const char *values = line_of(t, "in");
        assert_non_null(values);
        numbers(ir_node_at(b.g, ir_leaf_at(b.g, IR_LEAF_INPUT, i))->dtype, values,
                &b.l.leaf[IR_LEAF_INPUT][i]);
    }
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
    check_outputs(t, &b);
    const char *d = both_differ(&b);
    if (d) fail_msg("compiled and eager differ: %s", d);
    both_done(&b);
    t->cases++;
}

static void ops_are_those_of_torch(void **state) {
    table t = {0};
    size_t size = 0;
    rp_error err = {0};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    CHECK_OK(base_file_read("test/num/torch_table.txt", (size_t)1 << 24, &t.text, &size, &err),
             &err);
    for (t.at = t.text; *t.at;) {
        assert_non_null(line_of(&t, "graph"));
        check_case(&t);
    }
    assert_true(t.cases > 100);
    assert_int_equal(t.wrong, 0);
    base_free(t.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ops_are_those_of_torch)};
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
