/* Functions of one element that are made of others (trace/functions.c): near what the C library says in long double, over numbers of every
 * size and near the ends of each domain; what torch gives at the edges, one by one; and the same bits op by op, compiled for each
 * instruction set, and on the emulated GPU. */
#include "support/both_gpu.h"

#include <math.h>

#include "api/bound.h"
#include "trace/trace.h"

enum { N = 60000, FEW = 700 };

typedef long double real;

/* By Newton's method, from halves of the interval that holds it where 1 - |x| says more than x. */
static real erfinv(real x) {
    const real slope = 1.12837916709551257390L, a = fabsl(x);
    real y = a / slope, lo = 0, hi = 7;
    if (!(a < 1)) return a > 1 ? (real)NAN : x * (real)INFINITY;
    for (int i = 0; a < 0.5L && i < 8; i++) y -= (erfl(y) - a) / (slope * expl(-y * y));
    for (int i = 0; a >= 0.5L && i < 40; i++) {
        y = (lo + hi) / 2;
        if (erfcl(y) > 1 - a)
            lo = y;
        else
            hi = y;
    }
    for (int i = 0; a >= 0.5L && i < 4; i++) y += (erfcl(y) - (1 - a)) / (slope * expl(-y * y));
    return copysignl(y, x);
}

/* half: of f16 and bf16. */
static const struct {
    const char *name;
    rp_tensor (*make)(rp_tensor);
    real (*want)(real);
    double f32, f64, half;
} all[] = {{"exp2", rp_exp2, exp2l, 0.51, 1, 0.51},     {"log2", rp_log2, log2l, 0.51, 2, 0.51},
           {"tan", rp_tan, tanl, 3.5, 2.5, 0.51},       {"asin", rp_asin, asinl, 0.51, 2.7, 0.51},
           {"acos", rp_acos, acosl, 0.51, 2.3, 0.51},   {"atan", rp_atan, atanl, 0.51, 1.1, 0.51},
           {"sinh", rp_sinh, sinhl, 0.51, 2.5, 0.51},   {"cosh", rp_cosh, coshl, 0.51, 2.5, 0.51},
           {"erfinv", rp_erfinv, erfinv, 0.51, 8, 0.51}};
enum { FUNCTIONS = sizeof all / sizeof *all };

static uint64_t bits_state = 1;
static uint64_t bits(void) { /* splitmix64 */
    uint64_t z = bits_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In (-1, 1). */
static double unit(void) {
    return ((double)(int64_t)bits()) * 0x1p-63;
}

static const double special[] = {
    0.0,       -0.0,      1,         -1,        0.5,     -0.5,     2,         -2,
    3,         8,         1024,      1e-3,      -1e-3,   88.7,     89.4,      -89.4,
    709.5,     710.4,     -710.4,    711,       127.5,   128,      -149,      -150,
    -151,      1023.5,    1024,      -1074,     -1076,   1e5,      -1e5,      0.66,
    0.7,       0.85,      0.86,      2.4,       2.5,     1e30,     -1e30,     0x1p-149,
    -0x1p-149, 0x1p-1074, 0x1p-126,  0x1p-1022, 0x1p-24, 65504,    0x1p127,   0x1.fffffep-1,
    -0x1p-30,  1.000001,  -1.000001, 1e300,     -1e300,  INFINITY, -INFINITY, NAN};
enum { N_SPECIAL = sizeof special / sizeof *special };

/* Number i of any size, in (-1, 1), near its ends, of a few units, of a few hundreds. */
static double number(rp_dtype t, int i) {
    double x = unit();
    uint64_t u = bits();
    float f;
    if (i < N_SPECIAL) return ir_round(t, special[i]);
    switch (i % 6) {
    case 0: x = copysign(1 - ldexp(fabs(x), -(int)(u % 54)), x); break;
    case 1: x *= 2; break;
    case 2: x *= i % 12 == 2 ? 720 : 15; break;
    case 3: x = ldexp(x, (int)(u % 80) - 60); break;
    case 4:
        memcpy(&f, &u, sizeof f);
        x = (double)f;
        if (t == RP_DTYPE_F64) memcpy(&x, &u, sizeof x);
        break;
    default: break;
    }
    return ir_round(t, x);
}

/* --- running -------------------------------------------------------------------------- */

/* Takes the graph as text. */
static both taken(rp_graph *g, const rp_tensor *y, uint32_t n) {
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_graph_finish(g, y, n, &err), &err);
    CHECK_OK(rp_graph_print(g, &text, &err), &err);
    both b = both_of(text, 1);
    rp_free(text);
    rp_graph_free(g);
    return b;
}

static both functions_of(rp_dtype t, int n) {
    rp_graph *g = rp_graph_new("functions");
    rp_tensor x = rp_input(g, "x", t, RP_SHAPE(n)), y[FUNCTIONS];
    for (int f = 0; f < FUNCTIONS; f++) y[f] = all[f].make(x);
    both b = taken(g, y, FUNCTIONS);
    for (int i = 0; i < n; i++) b.l.leaf[IR_LEAF_INPUT][0].data[i] = number(t, i);
    return b;
}

static plan_run run(const both *b, const plan_run_options *o) {
    rp_error err = {0};
    plan_run r = {0};
    CHECK_OK(plan_run_graph(b->g, &b->l, o, &r, &err), &err);
    return r;
}

static plan_run run_eager(const both *b) {
    static const compile_toolchain none;
    const plan_run_options o = {
        .backend = &compile_eager, .isa = gen_isa_best(), .toolchain = &none, .threads = 1};
    return run(b, &o);
}

/* What is left of r: outputs, then inputs; n of all. */
static ir_value *values_of(const both *b, const plan_run *r) {
    const uint32_t n = ir_output_count(b->g), n_in = b->l.n[IR_LEAF_INPUT];
    ir_value *v = test_calloc(n + n_in, sizeof *v);
    for (uint32_t i = 0; i < n + n_in; i++) {
        const ir_node *x = ir_node_at(b->g, i < n ? ir_output_at(b->g, i)
                                                  : ir_leaf_at(b->g, IR_LEAF_INPUT, i - n));
        v[i].rank = x->shape.rank;
        v[i].n = 1;
        for (uint32_t d = 0; d < x->shape.rank; d++) {
            int64_t size = 0;
            assert_true(ir_dim_is_const(ir_graph_dims(b->g), x->shape.dim[d], &size));
            v[i].dim[d] = size;
            v[i].n *= size;
        }
        v[i].data = base_alloc_array((size_t)v[i].n + 1, sizeof *v[i].data);
    }
    plan_run_values(b->g, r, v);
    return v;
}

static void values_done(const both *b, ir_value *v) {
    for (uint32_t i = 0; i < ir_output_count(b->g) + b->l.n[IR_LEAF_INPUT]; i++)
        ir_value_done(&v[i]);
    test_free(v);
}

/* --- bounds ---------------------------------------------------------------------------- */

/* Units that y is off; what is not finite or zero is to be that, of the same sign. */
static double off(rp_dtype t, double y, real want) {
    const double w = ir_round(t, (double)want);
    if (isnan(w) || isnan(y)) return isnan(w) && isnan(y) ? 0 : INFINITY;
    if (signbit(w) != signbit(y)) return INFINITY;
    if (isinf(w) || isinf(y)) return w == y ? 0 : INFINITY;
    return (double)(fabsl((real)y - want) / (real)api_ulp(t, w));
}

static void functions_are_near(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int k = 0; k < 4; k++) {
        const rp_dtype t = types[k];
        const plan_run_options o = both_compiled(gen_isa_best());
        both b = functions_of(t, N);
        plan_run r = run(&b, &o);
        ir_value *v = values_of(&b, &r);
        for (int f = 0; f < FUNCTIONS; f++) {
            double worst = 0, at = 0;
            for (int i = 0; i < N; i++) {
                const double x = b.l.leaf[IR_LEAF_INPUT][0].data[i];
                const double e = off(t, v[f].data[i], all[f].want((real)x));
                if (e > worst) worst = e, at = x;
            }
            const double most = k == 0 ? all[f].f32 : k == 1 ? all[f].f64 : all[f].half;
            if (!(worst <= most))
                fail_msg("%s of %s: off by %g ulp at %a", all[f].name, rp_dtype_name(t), worst, at);
        }
        values_done(&b, v);
        plan_run_done(&r);
        both_done(&b);
    }
}

static void powers_of_two_have_whole_logarithms(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int wide = 0; wide < 2; wide++) {
        const plan_run_options o = both_compiled(gen_isa_best());
        const rp_dtype t = wide ? RP_DTYPE_F64 : RP_DTYPE_F32;
        const int first = wide ? -1074 : -149, n = wide ? 2098 : 277;
        rp_graph *g = rp_graph_new("powers");
        rp_tensor x = rp_input(g, "x", t, RP_SHAPE(n));
        const rp_tensor y[] = {rp_log2(x), rp_exp2(rp_log2(x))};
        both b = taken(g, y, 2);
        for (int i = 0; i < n; i++) b.l.leaf[IR_LEAF_INPUT][0].data[i] = ldexp(1, first + i);
        plan_run r = run(&b, &o);
        ir_value *v = values_of(&b, &r);
        for (int i = 0; i < n; i++) {
            assert_true(v[0].data[i] == first + i);
            assert_true(v[1].data[i] == ldexp(1, first + i));
        }
        values_done(&b, v);
        plan_run_done(&r);
        both_done(&b);
    }
}

/* --- edges ------------------------------------------------------------------------------ */

#define INF ((double)INFINITY)
#define NONE ((double)NAN)

static rp_tensor is_below_infinity(rp_tensor x) {
    return rp_where(rp_isfinite(x), rp_mul_scalar(rp_abs(x), 0),
                    rp_const(x.graph, rp_tensor_dtype(x), 1));
}

/* want: of 0, -0, infinity, -infinity, NaN, then of 1, -1, 2, -2, 0.5, -0.5 and -1.5; pi and the like as they are rounded. */
static const double at[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 2, -2, 0.5, -0.5, -1.5};
enum { EDGES = sizeof at / sizeof *at };
#define PI 3.14159265358979323846
static const struct {
    const char *name;
    rp_tensor (*make)(rp_tensor);
    double want[EDGES];
    bool rounded; /* from 1 on: near it */
} edges[] = {
    {"sign", rp_sign, {0, 0, 1, -1, 0, 1, -1, 1, -1, 1, -1, -1}, false},
    {"trunc", rp_trunc, {0, -0.0, INF, -INF, NONE, 1, -1, 2, -2, 0, -0.0, -1}, false},
    {"isfinite", is_below_infinity, {0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0}, false},
    {"exp2",
     rp_exp2,
     {1, 1, INF, 0, NONE, 2, 0.5, 4, 0.25, 1.41421356237309505, 0.70710678118654752,
      0.35355339059327376},
     true},
    {"log2", rp_log2, {-INF, -INF, INF, NONE, NONE, 0, NONE, 1, NONE, -1, NONE, NONE}, false},
    {"tan",
     rp_tan,
     {0, -0.0, NONE, NONE, NONE, 1.5574077246549022, -1.5574077246549022, -2.1850398632615190,
      2.1850398632615190, 0.54630248984379051, -0.54630248984379051, -14.101419947171719},
     true},
    {"asin",
     rp_asin,
     {0, -0.0, NONE, NONE, NONE, PI / 2, -PI / 2, NONE, NONE, PI / 6, -PI / 6, NONE},
     true},
    {"acos",
     rp_acos,
     {PI / 2, PI / 2, NONE, NONE, NONE, 0, PI, NONE, NONE, PI / 3, PI * 2 / 3, NONE},
     true},
    {"atan",
     rp_atan,
     {0, -0.0, PI / 2, -PI / 2, NONE, PI / 4, -PI / 4, 1.1071487177940904, -1.1071487177940904,
      0.46364760900080609, -0.46364760900080609, -0.98279372324732905},
     true},
    {"sinh",
     rp_sinh,
     {0, -0.0, INF, -INF, NONE, 1.1752011936438014, -1.1752011936438014, 3.6268604078470190,
      -3.6268604078470190, 0.52109530549374738, -0.52109530549374738, -2.1292794550948173},
     true},
    {"cosh",
     rp_cosh,
     {1, 1, INF, INF, NONE, 1.5430806348152437, 1.5430806348152437, 3.7621956910836314,
      3.7621956910836314, 1.1276259652063807, 1.1276259652063807, 2.3524096152432472},
     true},
    {"erfinv",
     rp_erfinv,
     {0, -0.0, NONE, NONE, NONE, INF, -INF, NONE, NONE, 0.47693627620446987, -0.47693627620446987,
      NONE},
     true},
};
enum { EDGED = sizeof edges / sizeof *edges };

/* Whether y is want: 0 ulps that number of that sign, and any NaN for one. */
static bool is(rp_dtype t, double y, double want, double ulps) {
    const double w = ir_round(t, want);
    if (isnan(w) || isnan(y)) return isnan(w) && isnan(y);
    if (y == w) return signbit(y) == signbit(w);
    return fabs(y - w) <= ulps * api_ulp(t, w);
}

static void check_edges(rp_dtype t, const ir_value *v, const char *who) {
    for (int e = 0; e < EDGED; e++)
        for (int i = 0; i < EDGES; i++)
            if (!is(t, v[e].data[i], edges[e].want[i], edges[e].rounded ? 4 : 0))
                fail_msg("%s of %s %g, %s: %.17g, not %.17g", edges[e].name, rp_dtype_name(t),
                         at[i], who, v[e].data[i], edges[e].want[i]);
}

static void edges_are_those_of_torch(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int k = 0; k < 4; k++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("edges");
        rp_tensor x = rp_input(g, "x", types[k], RP_SHAPE(EDGES)), y[EDGED];
        for (int e = 0; e < EDGED; e++) y[e] = edges[e].make(x);
        both b = taken(g, y, EDGED);
        memcpy(b.l.leaf[IR_LEAF_INPUT][0].data, at, sizeof at);
        if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
        check_edges(types[k], b.want, "interpreted");
        ir_value *v = values_of(&b, &b.code);
        check_edges(types[k], v, "compiled");
        values_done(&b, v);
        const char *d = both_differ(&b);
        if (d) fail_msg("compiled and eager differ: %s", d);
        both_done(&b);
    }
}

/* --- of several ------------------------------------------------------------------------ */

static const double sizes[] = {0.0,   -0.0, 1,   -1,    2.5,      -3,        0x1p-149, -0x1p-149,
                               1e-20, -0.3, 7e5, 1e38f, INFINITY, -INFINITY, NAN,      -1e38f};
enum { SIZES = sizeof sizes / sizeof *sizes };
static const double weights[] = {0, -0.0, 0.25, 0.49999997, 0.5, -0.5, 0.75, 1, -2, INFINITY, NAN};
enum { WEIGHTS = sizeof weights / sizeof *weights };

static double lesser(double a, double b) {
    return isnan(a) ? a : isnan(b) ? b : a < b ? a : b;
}
static double greater(double a, double b) {
    return isnan(a) ? a : isnan(b) ? b : a > b ? a : b;
}

static double lerp(rp_dtype t, double a, double b, double w) {
    if (t == RP_DTYPE_F64) return fabs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (1 - w);
    const float x = (float)a, y = (float)b, v = (float)w;
    const float d = y - x, rest = 1 - v, p = v * d, q = d * rest;
    return (double)(fabsf(v) < 0.5F ? x + p : y - q);
}

/* What torch computes (div_floor_floating, remainder_kernel), in single precision but of f64. */
#define DIVISIONS(name, real, mod_of, floor_of, sign_of)                   \
    static real remainder_##name(real a, real b) {                         \
        const real mod = mod_of(a, b);                                     \
        return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;           \
    }                                                                      \
    static real floor_divide_##name(real a, real b) {                      \
        const real mod = mod_of(a, b);                                     \
        real n = (a - mod) / b, y;                                         \
        if (b == 0) return a / b;                                          \
        if (mod != 0 && (b < 0) != (mod < 0)) n -= 1;                      \
        y = floor_of(n);                                                   \
        return n == 0 ? sign_of(0, a / b) : n - y > (real)0.5 ? y + 1 : y; \
    }
DIVISIONS(f32, float, fmodf, floorf, copysignf)
DIVISIONS(f64, double, fmod, floor, copysign)

/* fmod, remainder and floor_divide of a and b in y. */
static void check_division(rp_dtype t, double a, double b, const double *y, const char *who) {
    static const char *const names[] = {"fmod", "remainder", "floor_divide"};
    const float x = (float)a, d = (float)b;
    double want[] = {fmod(a, b), remainder_f64(a, b), floor_divide_f64(a, b)};
    if (t != RP_DTYPE_F64) {
        want[1] = (double)remainder_f32(x, d);
        want[2] = (double)floor_divide_f32(x, d);
    }
    for (int k = 0; k < 3; k++)
        if (!is(t, y[k], want[k], 0))
            fail_msg("%s: %s of %a, %a in %s: %a, not %a", who, names[k], a, b, rp_dtype_name(t),
                     y[k], want[k]);
}

static void check_pairs(rp_dtype t, const ir_value *v, const char *who) {
    for (int i = 0; i < SIZES; i++)
        for (int j = 0; j < SIZES; j++) {
            const double a = ir_round(t, sizes[i]), b = ir_round(t, sizes[j]);
            const int k = i * SIZES + j;
            const double sign = isnan(b) ? fabs(a) : copysign(a, b);
            if (!is(t, v[0].data[k], (double)atan2l((real)a, (real)b), 2))
                fail_msg("%s: atan2(%g, %g) = %.17g", who, a, b, v[0].data[k]);
            if (!is(t, v[1].data[k], sign, 0))
                fail_msg("%s: copysign(%g, %g) = %g", who, a, b, v[1].data[k]);
            const double quotients[] = {v[6].data[k], v[7].data[k], v[8].data[k]};
            check_division(t, a, b, quotients, who);
            const double least = greater(a, b), both_ends = lesser(least, 1), most = lesser(a, b);
            const double got[] = {v[2].data[k], v[3].data[k], v[4].data[k]};
            const double want[] = {least, both_ends, most};
            for (int c = 0; c < 3; c++) /* which zero is not defined */
                if (!(got[c] == want[c] || (isnan(got[c]) && isnan(want[c]))))
                    fail_msg("%s: clamp %d of %g, %g: %g", who, c, a, b, got[c]);
            for (int l = 0; l < WEIGHTS; l++) {
                const double w = ir_round(t, weights[l]), y = v[5].data[k * WEIGHTS + l];
                if (!is(t, y, lerp(t, a, b, w), 0))
                    fail_msg("%s: lerp(%g, %g, %g) = %.17g, not %.17g", who, a, b, w, y,
                             lerp(t, a, b, w));
            }
        }
}

static both pairs_of(rp_dtype t) {
    rp_graph *g = rp_graph_new("pairs");
    rp_tensor a = rp_input(g, "a", t, RP_SHAPE(SIZES, 1)), b = rp_input(g, "b", t, RP_SHAPE(SIZES));
    rp_tensor w = rp_input(g, "w", t, RP_SHAPE(WEIGHTS)), one = rp_const(g, t, 1);
    const rp_tensor y[] = {rp_atan2(a, b),
                           rp_copysign(a, b),
                           rp_clamp_tensor(a, b, rp_none()),
                           rp_clamp_tensor(a, b, one),
                           rp_clamp_tensor(a, rp_none(), b),
                           rp_lerp(rp_unsqueeze(a, 2), rp_unsqueeze(b, 1), w),
                           rp_fmod(a, b),
                           rp_remainder(a, b),
                           rp_floor_divide(a, b)};
    both p = taken(g, y, 9);
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < 2; k++) p.l.leaf[IR_LEAF_INPUT][k].data[i] = ir_round(t, sizes[i]);
    for (int i = 0; i < WEIGHTS; i++) p.l.leaf[IR_LEAF_INPUT][2].data[i] = ir_round(t, weights[i]);
    return p;
}

static void pairs_are_those_of_torch(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int k = 0; k < 4; k++) {
        rp_error err = {0};
        both b = pairs_of(types[k]);
        if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
        check_pairs(types[k], b.want, "interpreted");
        ir_value *v = values_of(&b, &b.code);
        check_pairs(types[k], v, "compiled");
        values_done(&b, v);
        const char *d = both_differ(&b);
        if (d) fail_msg("compiled and eager differ: %s", d);
        both_done(&b);
    }
}

/* Angles of all directions and lengths. */
static void angles_are_near(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int wide = 0; wide < 2; wide++) {
        const plan_run_options o = both_compiled(gen_isa_best());
        const rp_dtype t = wide ? RP_DTYPE_F64 : RP_DTYPE_F32;
        rp_graph *g = rp_graph_new("angles");
        rp_tensor y = rp_input(g, "y", t, RP_SHAPE(N)), x = rp_input(g, "x", t, RP_SHAPE(N));
        const rp_tensor angle = rp_atan2(y, x);
        both b = taken(g, &angle, 1);
        double *in[] = {b.l.leaf[IR_LEAF_INPUT][0].data, b.l.leaf[IR_LEAF_INPUT][1].data};
        for (int i = 0; i < N; i++) {
            in[1][i] = ir_round(t, ldexp(unit(), (int)(bits() % 40) - 20));
            in[0][i] = ir_round(t, i % 2 ? in[1][i] * unit() * 4 : number(t, i));
        }
        plan_run r = run(&b, &o);
        ir_value *v = values_of(&b, &r);
        double worst = 0;
        for (int i = 0; i < N; i++)
            worst = fmax(worst, off(t, v[0].data[i], atan2l((real)in[0][i], (real)in[1][i])));
        if (!(worst <= (wide ? 1.7 : 0.51))) fail_msg("atan2 is off by %g ulp", worst);
        values_done(&b, v);
        plan_run_done(&r);
        both_done(&b);
    }
}

/* Of all sizes, of whole multiples and near them, and of equal exponents. */
static void divisions_are_exact(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int k = 0; k < 4; k++) {
        const plan_run_options o = both_compiled(gen_isa_best());
        const rp_dtype t = types[k];
        rp_graph *g = rp_graph_new("divisions");
        rp_tensor a = rp_input(g, "a", t, RP_SHAPE(N)), b = rp_input(g, "b", t, RP_SHAPE(N));
        const rp_tensor y[] = {rp_fmod(a, b), rp_remainder(a, b), rp_floor_divide(a, b)};
        both p = taken(g, y, 3);
        double *in[] = {p.l.leaf[IR_LEAF_INPUT][0].data, p.l.leaf[IR_LEAF_INPUT][1].data};
        for (int i = 0; i < N; i++) {
            in[1][i] = number(t, N_SPECIAL + 4 + (i % 2 ? 6 * i : i));
            in[0][i] = number(t, N_SPECIAL + 4 + (i % 3 ? 6 * i : i));
            if (i % 5 == 0) in[0][i] = in[1][i] * (double)(bits() % 2000) * 0.5;
            if (i % 5 == 1) in[0][i] = in[1][i] * (1 + unit());
            in[0][i] = ir_round(t, in[0][i]);
        }
        plan_run r = run(&p, &o);
        ir_value *v = values_of(&p, &r);
        for (int i = 0; i < N; i++) {
            const double got[] = {v[0].data[i], v[1].data[i], v[2].data[i]};
            check_division(t, in[0][i], in[1][i], got, "compiled");
        }
        values_done(&p, v);
        plan_run_done(&r);
        both_done(&p);
    }
}

static void integers_have_signs(void **state) {
    static const double x[] = {0, 5, -7, -0x1p31, 0x1p31 - 1};
    static const double want[4][5] = {
        {0, 1, -1, -1, 1}, {0, 5, -7, -0x1p31, 0x1p31 - 1}, {1, 1, 1, 1, 1}, {0, 2, -1, -2, 1}};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int wide = 0; wide < 2; wide++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("integers");
        rp_tensor a = rp_input(g, "a", wide ? RP_DTYPE_I64 : RP_DTYPE_I32, RP_SHAPE(5));
        const rp_tensor y[] = {rp_sign(a), rp_trunc(a), rp_isfinite(a),
                               rp_fmod(a, rp_const(g, rp_tensor_dtype(a), -3))};
        both b = taken(g, y, 4);
        for (int i = 0; i < 5; i++) {
            if (wide)
                ir_value_set_int(&b.l.leaf[IR_LEAF_INPUT][0], i, (int64_t)x[i]);
            else
                b.l.leaf[IR_LEAF_INPUT][0].data[i] = x[i];
        }
        if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
        ir_value *v = values_of(&b, &b.code);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 5; i++) {
                const bool whole = wide && k != 2;
                assert_true((whole ? (double)ir_value_int(&v[k], i) : v[k].data[i]) == want[k][i]);
            }
        values_done(&b, v);
        const char *d = both_differ(&b);
        if (d) fail_msg("compiled and eager differ: %s", d);
        both_done(&b);
    }
}

/* Functions that no integer has are refused, whatever they are made of. */
static void integers_have_no_angles(void **state) {
    static rp_tensor (*const refused[])(rp_tensor) = {rp_exp2, rp_log2, rp_tan,  rp_asin,  rp_acos,
                                                      rp_atan, rp_sinh, rp_cosh, rp_erfinv};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused + 2; i++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("integers");
        rp_tensor a = rp_input(g, "a", RP_DTYPE_I32, RP_SHAPE(5));
        const rp_tensor y = i == 0   ? rp_atan2(a, a)
                            : i == 1 ? rp_copysign(a, a)
                                     : refused[i - 2](a);
        assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
        rp_graph_free(g);
    }
}

/* --- the same bits ----------------------------------------------------------------------- */

static void check_same_bits(both *b, const char *what) {
    plan_run eager = run_eager(b);
    for (int isa = 0; isa <= (int)gen_isa_best(); isa++)
        for (int passes = isa < (int)gen_isa_best(); passes < 2; passes++) {
            plan_run_options o = both_compiled((gen_isa)isa);
            o.passes = passes;
            plan_run r = run(b, &o);
            const char *d = plan_run_differs(b->g, &r, &eager);
            if (d) fail_msg("%s, instruction set %d: %s", what, isa, d);
            plan_run_done(&r);
        }
    if (!gpu.why_not) {
        const plan_run_options o = both_on_gpu(true, false);
        plan_run r = run(b, &o);
        const char *d = plan_run_differs(b->g, &r, &eager);
        if (d) fail_msg("%s, GPU: %s", what, d);
        plan_run_done(&r);
    }
    plan_run_done(&eager);
    both_done(b);
}

static void bits_are_equal_everywhere(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int k = 0; k < 4; k++) {
        both b = functions_of(types[k], FEW), p = pairs_of(types[k]);
        check_same_bits(&b, rp_dtype_name(types[k]));
        check_same_bits(&p, "pairs");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_near),
        cmocka_unit_test(powers_of_two_have_whole_logarithms),
        cmocka_unit_test(edges_are_those_of_torch),
        cmocka_unit_test(pairs_are_those_of_torch),
        cmocka_unit_test(angles_are_near),
        cmocka_unit_test(divisions_are_exact),
        cmocka_unit_test(integers_have_signs),
        cmocka_unit_test(integers_have_no_angles),
        cmocka_unit_test(bits_are_equal_everywhere),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
