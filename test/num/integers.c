/* Integers of 8 and 16 bits: each op over every pair of the edges of its type, interpreted, compiled and at level 0, beside what C's
 * own arithmetic of 64 bits gives, cut to the type by a cast. test/num/torch_table.txt has what torch gives, test/num/cuda.c GPUs. */
#include "support/both.h"

enum { EDGES = 20, ROWS = 4, TOP = 5 };

static const rp_dtype types[] = {RP_DTYPE_I16, RP_DTYPE_I8, RP_DTYPE_U8};
enum { TYPES = sizeof types / sizeof *types };

/* v as an element of t. */
static int64_t cut(rp_dtype t, int64_t v) {
    switch (t) {
    case RP_DTYPE_I64: return v;
    case RP_DTYPE_I32: return (int32_t)v;
    case RP_DTYPE_I16: return (int16_t)v;
    case RP_DTYPE_I8: return (int8_t)v;
    case RP_DTYPE_U8: return (uint8_t)v;
    default: fail_msg("%s is no integer", rp_dtype_name(t)); return 0;
    }
}

/* The ends of each type, powers of two and what is beside them, as widths of shifts, too. */
static int64_t edge(rp_dtype t, int64_t i) {
    static const int64_t all[EDGES] = {0,  1,   -1,  2,    -2,   7,   8,   9,     15,     16,
                                       31, 100, 127, -128, -127, 181, 255, 32767, -32768, -7};
    static const int64_t wide[EDGES] = {0,
                                        -1,
                                        127,
                                        128,
                                        -129,
                                        255,
                                        256,
                                        32768,
                                        -32769,
                                        65535,
                                        65541,
                                        16777345,
                                        INT32_MAX,
                                        INT32_MIN,
                                        INT64_C(0x80000000),
                                        INT64_C(0x1000000c8),
                                        -INT64_C(0x123456789abcde),
                                        INT64_C(0x7fffffff8000ff80),
                                        INT64_MAX,
                                        INT64_MIN};
    return cut(t, (ir_dtype_is_small(t) ? all : wide)[i % EDGES]);
}

/* Element i of the first input, which goes through the edges, from another one on in each round; and of the second, which stays at each
 * for a round. */
static int64_t first(rp_dtype t, int64_t i) {
    return edge(t, i + i / EDGES * 3);
}

static int64_t second(rp_dtype t, int64_t i) {
    return edge(t, i / EDGES);
}

/* --- what each op is ------------------------------------------------------------------------ */

static int64_t quotient(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t shifted(rp_dtype t, bool left, int64_t a, int64_t b) {
    const int64_t bits = (int64_t)rp_dtype_block_bytes(t) * 8;
    if (b < 0 || b >= bits) return left || a >= 0 ? 0 : -1;
    return left ? (int64_t)((uint64_t)a << b) : a >> b;
}

static int64_t of_pair(ir_op op, rp_dtype t, int64_t a, int64_t b) {
    switch (op) {
    case IR_neg: return -a;
    case IR_abs: return a < 0 ? -a : a;
    case IR_not: return ~a;
    case IR_add: return a + b;
    case IR_sub: return a - b;
    case IR_mul: return a * b;
    case IR_max: return a > b ? a : b;
    case IR_min: return a < b ? a : b;
    case IR_and: return a & b;
    case IR_or: return a | b;
    case IR_xor: return a ^ b;
    case IR_eq: return a == b;
    case IR_ne: return a != b;
    case IR_lt: return a < b;
    case IR_le: return a <= b;
    case IR_gt: return a > b;
    case IR_ge: return a >= b;
    case IR_floor_divide: return b == 0 ? -1 : quotient(a, b);
    case IR_remainder: return b == 0 ? a : a - quotient(a, b) * b;
    case IR_fmod: return b == 0 ? a : a % b;
    case IR_shift_left: return shifted(t, true, a, b);
    case IR_shift_right: return shifted(t, false, a, b);
    case IR_where: return a < b ? a : b; /* by a < b */
    default: fail_msg("%s has no reference", ir_op_table(op)->name); return 0;
    }
}

/* --- running ------------------------------------------------------------------------------------ */

typedef int64_t want_fn(rp_dtype t, uint32_t output, int64_t i);

/* Element i of a result in memory. */
static int64_t element(rp_dtype t, const void *p, int64_t i) {
    double v = 0;
    if (t == RP_DTYPE_I64) return ((const int64_t *)p)[i];
    ir_unpack(t, (const char *)p + i * (int64_t)rp_dtype_block_bytes(t), 1, &v);
    return (int64_t)v;
}

static void expect(const both *b, const char *who, uint32_t o, int64_t i, int64_t got,
                   int64_t want) {
    if (got == want) return;
    fail_msg("%s of %s, element %lld, %s: %lld, want %lld",
             ir_op_table(ir_node_at(b->g, ir_output_at(b->g, o))->op)->name,
             ir_type_of(b->g, ir_output_at(b->g, o)).s, (long long)i, who, (long long)got,
             (long long)want);
}

static void check(const char *text, rp_dtype t, want_fn *want) {
    rp_error err = {0};
    both b = both_of(text, 5);
    for (uint32_t k = 0; k < b.l.n[IR_LEAF_INPUT]; k++) {
        ir_value *v = &b.l.leaf[IR_LEAF_INPUT][k];
        for (int64_t i = 0; i < v->n; i++) {
            const int64_t e = (k ? second : first)(t, i);
            if (t == RP_DTYPE_I64)
                ir_value_set_int(v, i, e);
            else
                v->data[i] = (double)e;
        }
    }
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s\n%s", b.at, err.text, text);
    for (uint32_t o = 0; o < ir_output_count(b.g); o++) {
        const rp_dtype to = ir_node_at(b.g, ir_output_at(b.g, o))->dtype;
        for (int64_t i = 0; i < b.want[o].n; i++) {
            const int64_t w = want(t, o, i);
            expect(&b, "interpreted", o, i,
                   to == RP_DTYPE_I64 ? ir_value_int(&b.want[o], i) : (int64_t)b.want[o].data[i],
                   w);
            expect(&b, "compiled", o, i, element(to, b.code.out[o], i), w);
            expect(&b, "at level 0", o, i, element(to, b.eager.out[o], i), w);
        }
    }
    both_done(&b);
}

/* --- elementwise ------------------------------------------------------------------------------- */

static ir_op pair_ops[IR_OP_COUNT_];
static uint32_t n_pair_ops;

static int64_t pair_wanted(rp_dtype t, uint32_t o, int64_t i) {
    const ir_op op = pair_ops[o];
    const int64_t v = of_pair(op, t, first(t, i), second(t, i));
    return ir_op_compares(op) ? v : cut(t, v);
}

/* Whatever the table has on integers, but random bits, whose words are of 32. */
static void find_pair_ops(void) {
    n_pair_ops = 0;
    for (int i = 0; i < IR_OP_COUNT_; i++) {
        const ir_op op = (ir_op)i;
        if (ir_op_on_integers(op) && ir_op_operands(op) != IR_REALS && !ir_op_is_random(op) &&
            op != IR_cast && op != IR_bitcast)
            pair_ops[n_pair_ops++] = op;
    }
}

static void put_pairs(base_buf *b, rp_dtype t) {
    base_buf_printf(b, "graph @pairs(%%x: %s[%d], %%y: %s[%d]) {\n  %%c = lt %%x, %%y\n",
                    rp_dtype_name(t), EDGES * EDGES, rp_dtype_name(t), EDGES * EDGES);
    for (uint32_t i = 0; i < n_pair_ops; i++) {
        const ir_op_info *info = ir_op_table(pair_ops[i]);
        base_buf_printf(b, "  %%r%u = %s %s\n", i, info->name,
                        info->arity == 1   ? "%x"
                        : info->arity == 2 ? "%x, %y"
                                           : "%c, %x, %y");
    }
    base_buf_puts(b, "  ret ");
    for (uint32_t i = 0; i < n_pair_ops; i++) base_buf_printf(b, "%s%%r%u", i ? ", " : "", i);
    base_buf_puts(b, "\n}\n");
}

static void every_pair_of_edges(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    find_pair_ops();
    assert_true(n_pair_ops >= 22);
    for (int i = 0; i < TYPES; i++) {
        base_buf b;
        base_buf_init(&b, 0);
        put_pairs(&b, types[i]);
        assert_false(b.failed);
        check(b.data, types[i], pair_wanted);
        base_buf_done(&b);
    }
}

/* One op on the result of another, in one kernel: it sees what the type holds, not what a register does. */
static int64_t chain_wanted(rp_dtype t, uint32_t o, int64_t i) {
    const int64_t a = first(t, i), b = second(t, i), sum = cut(t, a + b), product = cut(t, a * b),
                  left = cut(t, shifted(t, true, a, 3));
    switch (o) {
    case 0: return sum < a;
    case 1: return cut(t, shifted(t, false, product, 1));
    case 2: return sum > product ? sum : product;
    case 3: return b == 0 ? cut(t, -1) : cut(t, quotient(sum, b));
    case 4: return cut(RP_DTYPE_I32, sum);
    case 5: return cut(t, left < 0 ? -left : left);
    case 6: return (int64_t)(float)cut(t, -a);
    default: return cut(t, cut(t, ~a) - cut(t, -b)) == 0;
    }
}

static void results_are_of_their_type(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int i = 0; i < TYPES; i++) {
        const char *t = rp_dtype_name(types[i]);
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(&b,
                        "graph @chain(%%x: %s[%d], %%y: %s[%d]) {\n  %%s = add %%x, %%y\n"
                        "  %%p = mul %%x, %%y\n  %%0 = lt %%s, %%x\n  %%one = const 1 : %s[]\n"
                        "  %%1 = shift_right %%p, %%one\n  %%2 = max %%s, %%p\n"
                        "  %%3 = floor_divide %%s, %%y\n  %%4 = cast %%s {dtype=i32}\n"
                        "  %%three = const 3 : %s[]\n  %%l = shift_left %%x, %%three\n"
                        "  %%5 = abs %%l\n  %%n = neg %%x\n  %%6 = cast %%n {dtype=f32}\n"
                        "  %%m = neg %%y\n  %%o = not %%x\n  %%d = sub %%o, %%m\n"
                        "  %%z = const 0 : %s[]\n  %%7 = eq %%d, %%z\n"
                        "  ret %%0, %%1, %%2, %%3, %%4, %%5, %%6, %%7\n}\n",
                        t, EDGES * EDGES, t, EDGES * EDGES, t, t, t);
        check(b.data, types[i], chain_wanted);
        base_buf_done(&b);
    }
}

/* --- casts ------------------------------------------------------------------------------------------ */

static const rp_dtype all_types[] = {RP_DTYPE_I64, RP_DTYPE_I32, RP_DTYPE_I16, RP_DTYPE_I8,
                                     RP_DTYPE_U8};
enum { ALL = sizeof all_types / sizeof *all_types };

/* Of each to each, and through floats that hold it, which saturate. */
static int64_t cast_wanted(rp_dtype t, uint32_t o, int64_t i) {
    static const double least[] = {0, INT32_MIN, INT16_MIN, INT8_MIN, 0},
                        most[] = {0, INT32_MAX, INT16_MAX, INT8_MAX, UINT8_MAX};
    const int64_t v = first(t, i);
    const uint32_t to = o % ALL;
    if (o < ALL) return cut(all_types[to], v);
    const double d = (double)v;
    if (to == 0) return d >= 0x1p63 ? INT64_MAX : (int64_t)d;
    return (int64_t)(d < least[to] ? least[to] : d > most[to] ? most[to] : d);
}

static void casts_keep_the_low_bits(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int i = 0; i < ALL; i++) {
        const char *t = rp_dtype_name(all_types[i]);
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(&b, "graph @casts(%%x: %s[%d]) {\n  %%d = cast %%x {dtype=f64}\n", t,
                        EDGES);
        for (int k = 0; k < 2 * ALL; k++)
            base_buf_printf(&b, "  %%%d = %s %%%c {%s=%s}\n", k,
                            k < ALL && k == i ? "reshape" : "cast", k < ALL ? 'x' : 'd',
                            k < ALL && k == i ? "shape" : "dtype",
                            k < ALL && k == i ? "[20]" : rp_dtype_name(all_types[k % ALL]));
        base_buf_puts(&b, "  ret %0, %1, %2, %3, %4, %5, %6, %7, %8, %9\n}\n");
        check(b.data, all_types[i], cast_wanted);
        base_buf_done(&b);
    }
}

/* --- along an axis -------------------------------------------------------------------------------- */

/* Element (row, i) of ROWS rows of edges, which begin elsewhere in each. */
static int64_t at_row(rp_dtype t, int64_t row, int64_t i) {
    return first(t, row * EDGES + i);
}

static int64_t joined(rp_dtype t, uint32_t how, int64_t a, int64_t b) {
    switch (how) {
    case 0: return cut(t, a + b);
    case 1: return cut(t, a * b);
    case 2: return a > b ? a : b;
    default: return a < b ? a : b;
    }
}

/* Place of the element that comes at `rank` in the order of a row; of equals the first comes first. */
static int64_t place_of(rp_dtype t, int64_t row, int64_t rank, bool down) {
    for (int64_t i = 0; i < EDGES; i++) {
        int64_t before = 0;
        for (int64_t k = 0; k < EDGES; k++) {
            const int64_t a = at_row(t, row, k), b = at_row(t, row, i);
            before += down ? a > b : a < b;
            before += a == b && k < i;
        }
        if (before == rank) return i;
    }
    return -1;
}

enum { SUM, PROD, AMAX, AMIN, DOWN_FIRST, ARGMAX = 8, CUMSUM, SORT, SORTED, TOPK, TOPPED, SCATTER };

static int64_t reduced(rp_dtype t, uint32_t how, int64_t i, bool along) {
    const int64_t n = along ? EDGES : ROWS;
    int64_t v = along ? at_row(t, i, 0) : at_row(t, 0, i);
    for (int64_t k = 1; k < n; k++)
        v = joined(t, how, v, along ? at_row(t, i, k) : at_row(t, k, i));
    return v;
}

static int64_t axis_wanted(rp_dtype t, uint32_t o, int64_t i) {
    const int64_t row = i / EDGES, at = i % EDGES;
    int64_t v = 0;
    switch (o) {
    case SUM:
    case PROD:
    case AMAX:
    case AMIN: return reduced(t, o, i, true);
    case DOWN_FIRST:
    case DOWN_FIRST + 1:
    case DOWN_FIRST + 2:
    case DOWN_FIRST + 3: return reduced(t, o - DOWN_FIRST, i, false);
    case ARGMAX: return place_of(t, i, 0, true);
    case CUMSUM:
        for (int64_t k = 0; k <= at; k++) v = cut(t, v + at_row(t, row, k));
        return v;
    case SORT: return at_row(t, row, place_of(t, row, at, false));
    case SORTED: return place_of(t, row, at, false);
    case TOPK: return at_row(t, i / TOP, place_of(t, i / TOP, i % TOP, true));
    case TOPPED: return place_of(t, i / TOP, i % TOP, true);
    default: /* each row into its first two columns, in turn */
        if (at > 1) return at_row(t, row, at);
        v = at_row(t, row, at);
        for (int64_t k = at; k < EDGES; k += 2)
            v = o == SCATTER + 4 ? at_row(t, row, k) : joined(t, o - SCATTER, v, at_row(t, row, k));
        return v;
    }
}

static void along_an_axis(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int i = 0; i < TYPES; i++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(
            &b,
            "graph @axis(%%x: %s[%d,%d]) {\n  %%0 = sum %%x {axis=1}\n  %%1 = prod %%x {axis=1}\n"
            "  %%2 = amax %%x {axis=1}\n  %%3 = amin %%x {axis=1}\n  %%4 = sum %%x {axis=0}\n"
            "  %%5 = prod %%x {axis=0}\n  %%6 = amax %%x {axis=0}\n  %%7 = amin %%x {axis=0}\n"
            "  %%8 = argmax %%x {axis=1}\n  %%9 = cumsum %%x {axis=1}\n"
            "  %%10 = sort %%x {axis=1}\n  %%11 = result %%10 {index=1}\n"
            "  %%12 = topk %%x {k=%d}\n  %%13 = result %%12 {index=1}\n"
            "  %%e = iota {axis=1, dtype=i32, shape=[1,%d]}\n  %%two = const 2 : i32[]\n"
            "  %%i = remainder %%e, %%two\n  %%14 = scatter_add %%x, %%i, %%x {axis=1}\n"
            "  %%15 = scatter_prod %%x, %%i, %%x {axis=1}\n"
            "  %%16 = scatter_amax %%x, %%i, %%x {axis=1}\n"
            "  %%17 = scatter_amin %%x, %%i, %%x {axis=1}\n"
            "  %%18 = scatter %%x, %%i, %%x {axis=1}\n  ret ",
            rp_dtype_name(types[i]), ROWS, EDGES, TOP, EDGES);
        for (int o = 0; o < 19; o++) base_buf_printf(&b, "%s%%%d", o ? ", " : "", o);
        base_buf_puts(&b, "\n}\n");
        check(b.data, types[i], axis_wanted);
        base_buf_done(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_edges),
        cmocka_unit_test(results_are_of_their_type),
        cmocka_unit_test(casts_keep_the_low_bits),
        cmocka_unit_test(along_an_axis),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
