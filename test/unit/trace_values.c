/* What composites of the tensor API mean: each against its formula, over every axis it takes. */
#include "support/check.h"

#include <math.h>

#include "base/philox.h"
#include "ir/eval.h"
#include "reprise/nn.h"
#include "reprise/reprise.h"
#include "trace/trace.h"

enum { A = 2, B = 3, C = 4, N = A * B * C };
static const int64_t sizes[3] = {A, B, C};
static const int64_t strides[3] = {B * C, C, 1};

/* x[A,B,C] with values in [-1, 1), and up to two more inputs. */
typedef struct traced {
    rp_graph *g;
    ir_value in[3];
    uint32_t n_in;
    rp_tensor x;
} traced;

static rp_tensor add_input(traced *t, const char *name, rp_shape s) {
    rp_error err = {0};
    int64_t dims[RP_MAX_RANK];
    for (uint32_t i = 0; i < s.rank; i++) assert_true(rp_dim_is_const(s.dim[i], &dims[i]));
    CHECK_OK(ir_random_value(RP_DTYPE_F32, dims, s.rank, 0, 17 + t->n_in, &t->in[t->n_in], &err),
             &err);
    t->n_in++;
    return rp_input(t->g, name, RP_DTYPE_F32, s);
}

static traced begin(void) {
    traced t = {.g = rp_graph_new("values")};
    t.x = add_input(&t, "x", RP_SHAPE(A, B, C));
    return t;
}

/* Frees t; out takes the values of y. */
static void finish(traced *t, rp_tensor y, double *out, int64_t n) {
    rp_error err = {0};
    ir_value v = {0};
    CHECK_OK(rp_graph_finish(t->g, &y, 1, &err), &err);
    CHECK_OK(ir_eval(trace_graph_ir(t->g), t->in, NULL, NULL, NULL, &v, &err), &err);
    assert_int_equal(v.n, n);
    memcpy(out, v.data, (size_t)n * sizeof *out);
    ir_value_done(&v);
    for (uint32_t i = 0; i < t->n_in; i++) ir_value_done(&t->in[i]);
    rp_graph_free(t->g);
}

static void copy_input(const traced *t, uint32_t i, double *out) {
    memcpy(out, t->in[i].data, (size_t)t->in[i].n * sizeof *out);
}

static void near(double got, double want) {
    if (!(fabs(got - want) <= 2e-6)) fail_msg("%.9g, not %.9g", got, want);
}

/* Where a row along the axis begins that holds element k. */
static int64_t row_start(int axis, int64_t k) {
    return k - k / strides[axis] % sizes[axis] * strides[axis];
}

/* In double precision throughout: float32 would be off by 1e-8. */
/* Made of the published generator's bits: known numbers, and a mean and a spread. */
static void random_numbers_are_of_key_and_place(void **state) {
    enum { MANY = 4096 };
    static double x[2 * MANY];
    double sum = 0, squares = 0, third = 0;
    traced t = begin();
    (void)state;
    rp_tensor key = rp_const(t.g, RP_DTYPE_I64, 5), from = rp_const(t.g, RP_DTYPE_I64, 1);
    rp_tensor both[] = {rp_rand(key, from, RP_SHAPE(64, 64)),
                        rp_randn(key, from, RP_SHAPE(64, 64))};
    finish(&t, rp_concat(both, 2, 0), x, 2 * MANY);
    for (int i = 0; i < MANY; i++) {
        uint64_t bits = base_philox_bits(5, (uint64_t)i + 1);
        double u = (double)(bits >> 40) * 0x1p-24, v = (double)(bits >> 16 & 0xffffff) * 0x1p-24;
        double z = x[MANY + i];
        assert_true(x[i] == u);
        near(z, sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
        sum += z / MANY;
        squares += z * z / MANY;
        third += z * z * z / MANY;
    }
    assert_true(fabs(sum) < 0.05 && fabs(squares - 1) < 0.08 && fabs(third) < 0.2);
}

static void means_and_variances_of_doubles(void **state) {
    double x[N], y[3 * A * C], *mean = y, *var = y + A * C, *least = y + 2 * A * C;
    (void)state;
    traced t = begin();
    copy_input(&t, 0, x);
    rp_tensor d = rp_div(rp_cast(t.x, RP_DTYPE_F64), rp_const(t.g, RP_DTYPE_F64, 3));
    rp_tensor all[] = {rp_mean(d, 1, false), rp_var(d, 1, false, 1),
                       rp_cast(rp_argmin(d, 1, false), RP_DTYPE_F64)};
    finish(&t, rp_concat(all, 3, 0), y, 3 * A * C);
    for (int i = 0; i < A * C; i++) {
        const double *row = x + i / C * B * C + i % C;
        double sum = 0, squares = 0;
        int at = 0;
        for (int k = 0; k < B; k++) {
            sum += row[k * C] / 3;
            if (row[k * C] < row[at * C]) at = k;
        }
        for (int k = 0; k < B; k++) squares += pow(row[k * C] / 3 - sum / B, 2);
        assert_true(fabs(mean[i] - sum / B) < 1e-15);
        assert_true(fabs(var[i] - squares / (B - 1)) < 1e-15);
        assert_true(least[i] == at);
    }
}

/* x[A,B,C] by a matrix of C, or of B: both in double precision, a row and a column as well. */
static void products_of_doubles(void **state) {
    double x[N], y[A * B * B + A * B + A * C];
    (void)state;
    traced t = begin();
    copy_input(&t, 0, x);
    rp_tensor d = rp_div(rp_cast(t.x, RP_DTYPE_F64), rp_const(t.g, RP_DTYPE_F64, 3));
    rp_tensor turned = rp_permute(d, (int[]){0, 2, 1}, 3);
    rp_tensor row = rp_reshape(rp_slice(rp_slice(d, 0, 0, 1), 1, 0, 1), RP_SHAPE(C));
    rp_tensor column = rp_reshape(rp_slice(rp_slice(d, 0, 1, 2), 2, 2, 3), RP_SHAPE(B));
    rp_tensor all[] = {rp_flatten(rp_matmul(d, turned, false), 0, 2),
                       rp_flatten(rp_matmul(d, row, false), 0, 1),
                       rp_flatten(rp_matmul(column, d, false), 0, 1)};
    assert_int_equal(rp_tensor_dtype(all[0]), RP_DTYPE_F64);
    finish(&t, rp_concat(all, 3, 0), y, A * B * B + A * B + A * C);
    for (int i = 0; i < A; i++) {
        const double *m = x + i * B * C, *c = x + B * C + 2;
        for (int j = 0; j < B * B; j++) {
            double sum = 0;
            for (int k = 0; k < C; k++) sum += m[j / B * C + k] / 3 * (m[j % B * C + k] / 3);
            assert_true(fabs(y[i * B * B + j] - sum) < 1e-15);
        }
        for (int j = 0; j < B; j++) {
            double sum = 0;
            for (int k = 0; k < C; k++) sum += m[j * C + k] / 3 * (x[k] / 3);
            assert_true(fabs(y[A * B * B + i * B + j] - sum) < 1e-15);
        }
        for (int j = 0; j < C; j++) {
            double sum = 0;
            for (int k = 0; k < B; k++) sum += c[k * C] / 3 * (m[k * C + j] / 3);
            assert_true(fabs(y[A * B * B + A * B + i * C + j] - sum) < 1e-15);
        }
    }
}

static void refuse(rp_tensor (*make)(rp_tensor), const char *why) {
    rp_error err = {0};
    traced t = begin();
    rp_tensor y = make(t.x);
    assert_int_equal(rp_graph_finish(t.g, &y, 1, &err), RP_INVALID);
    if (!strstr(err.text, why)) fail_msg("\"%s\" does not say \"%s\"", err.text, why);
    ir_value_done(&t.in[0]);
    rp_graph_free(t.g);
}

static rp_tensor of_other_k(rp_tensor x) {
    rp_tensor d = rp_cast(x, RP_DTYPE_F64);
    return rp_matmul(d, rp_slice(d, 2, 0, 1), true);
}

static rp_tensor of_two_types(rp_tensor x) {
    return rp_matmul(rp_cast(x, RP_DTYPE_F64), x, true);
}

static void products_of_doubles_are_of_one_k_and_type(void **state) {
    (void)state;
    refuse(of_other_k, "matmul: k of f64[2,3,4] and f64[2,3,1] differ");
    refuse(of_two_types, "matmul: wants f32, f16 or bf16, not f64[2,3,4]");
}

static void means_divide_by_the_size_of_their_axis(void **state) {
    double x[N], y[N];
    (void)state;
    for (int axis = -3; axis < 3; axis++)
        for (int keep = 0; keep < 2; keep++) {
            int ax = axis < 0 ? axis + 3 : axis;
            int64_t n = 0;
            traced t = begin();
            copy_input(&t, 0, x);
            finish(&t, rp_mean(t.x, axis, keep), y, N / sizes[ax]);
            for (int64_t k = 0; k < N; k++) {
                double sum = 0;
                if (row_start(ax, k) != k) continue;
                for (int64_t i = 0; i < sizes[ax]; i++) sum += x[k + i * strides[ax]];
                near(y[n++], sum / (double)sizes[ax]);
            }
        }
}

static void softmax_is_over_its_axis(void **state) {
    double x[N], y[N];
    (void)state;
    for (int axis = -3; axis < 3; axis++) {
        int ax = axis < 0 ? axis + 3 : axis;
        traced t = begin();
        copy_input(&t, 0, x);
        finish(&t, rp_softmax(t.x, axis), y, N);
        for (int64_t k = 0; k < N; k++) {
            double sum = 0;
            for (int64_t i = 0; i < sizes[ax]; i++)
                sum += exp(x[row_start(ax, k) + i * strides[ax]]);
            near(y[k], exp(x[k]) / sum);
        }
    }
}

static void log_softmax_is_the_logarithm(void **state) {
    double x[N], y[N], z[N];
    (void)state;
    for (int axis = -3; axis < 3; axis++) {
        traced t = begin(), u = begin();
        copy_input(&t, 0, x);
        finish(&t, rp_softmax(t.x, axis), y, N);
        finish(&u, rp_log_softmax(u.x, axis), z, N);
        for (int64_t k = 0; k < N; k++) near(z[k], log(y[k]));
    }
}

/* Targets outside of the classes mean the nearest one. */
static void cross_entropy_takes_one_class_a_row(void **state) {
    double x[N], y[A * B];
    static const int32_t targets[] = {0, C - 1, 2, -5, 100};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        traced t = begin();
        int32_t class = targets[i] < 0 ? 0 : targets[i] >= C ? C - 1 : targets[i];
        rp_tensor target = rp_broadcast(rp_const(t.g, RP_DTYPE_I32, targets[i]), RP_SHAPE(A * B));
        copy_input(&t, 0, x);
        finish(&t, rp_cross_entropy(rp_reshape(t.x, RP_SHAPE(A * B, C)), target), y, A * B);
        for (int64_t r = 0; r < A * B; r++) {
            double sum = 0;
            for (int64_t c = 0; c < C; c++) sum += exp(x[r * C + c]);
            near(y[r], log(sum) - x[r * C + class]);
        }
    }
}

static void cross_entropy_says_what_it_wants(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("g");
    rp_dim rows = rp_symbol(g, "N", 1, INT64_C(1) << 20), classes = rp_symbol(g, "C", 1, 8);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rows, classes));
    rp_tensor y = rp_cross_entropy(x, rp_input(g, "t", RP_DTYPE_I32, RP_SHAPE(rows)));
    (void)state;
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    assert_non_null(
        strstr(err.text, "with C known, and i32[N] or i64[N], not f32[N,C] and i32[N]"));
    rp_graph_free(g);
}

/* One class for all rows, others than there are rows, or what is no class. */
static void cross_entropy_wants_a_class_for_each_row(void **state) {
    static const struct {
        rp_dtype dtype;
        int64_t n;
        const char *why;
    } wrong[] = {{RP_DTYPE_I32, 1, "not f32[T,8] and i32[1]"},
                 {RP_DTYPE_I64, 70, "not f32[T,8] and i64[70]"},
                 {RP_DTYPE_F32, 0, "not f32[T,8] and f32[T]"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("g");
        rp_dim rows = rp_symbol(g, "T", 1, 64);
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rows, 8));
        rp_dim n = wrong[i].n ? rp_dim_const(wrong[i].n) : rows;
        rp_tensor y = rp_cross_entropy(x, rp_input(g, "t", wrong[i].dtype, RP_SHAPE(n)));
        assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
        if (!strstr(err.text, "cross_entropy: ") || !strstr(err.text, wrong[i].why))
            fail_msg("\"%s\" does not say \"%s\"", err.text, wrong[i].why);
        rp_graph_free(g);
    }
}

/* Every op that takes an axis counts a negative one from the end. */
static void axes_count_from_the_end(void **state) {
    double a[2 * N], b[2 * N];
    (void)state;
    for (int axis = 0; axis < 3; axis++)
        for (int op = 0; op < 6; op++) {
            for (int negative = 0; negative < 2; negative++) {
                int ax = negative ? axis - 3 : axis;
                traced t = begin();
                rp_tensor x = t.x, twice[2] = {x, x};
                rp_tensor y = op == 0   ? rp_slice(x, ax, 1, sizes[axis])
                              : op == 1 ? rp_concat(twice, 2, ax)
                              : op == 2 ? rp_sum(x, ax, false)
                              : op == 3 ? rp_amin(x, ax, true)
                              : op == 4 ? rp_argmax(x, ax, false)
                                        : rp_iota(t.g, RP_DTYPE_I32, rp_tensor_shape(x), ax);
                int64_t n = op == 0   ? N - N / sizes[axis]
                            : op == 1 ? 2 * N
                            : op < 5  ? N / sizes[axis]
                                      : N;
                finish(&t, y, negative ? b : a, n);
                if (negative) assert_memory_equal(a, b, (size_t)n * sizeof *a);
            }
        }
}

static void activations_are_their_formulas(void **state) {
    static rp_tensor (*const fns[])(rp_tensor) = {rp_silu, rp_gelu_erf, rp_gelu_tanh};
    (void)state;
    for (int f = 0; f < 3; f++) {
        double x[N], y[N];
        traced t = begin();
        copy_input(&t, 0, x);
        finish(&t, fns[f](t.x), y, N);
        for (int64_t k = 0; k < N; k++) {
            double v = x[k];
            double inner = sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v);
            near(y[k], f == 0   ? v / (1 + exp(-v))
                       : f == 1 ? v * 0.5 * (1 + erf(v / sqrt(2)))
                                : v * 0.5 * (1 + tanh(inner)));
        }
    }
}

static int64_t floor_div(int64_t a, int64_t b) {
    return (int64_t)floor((double)a / (double)b);
}

/* Each function of integers, of a in [-8, 8) and 3. */
static void integers_are_divided_shifted_and_masked(void **state) {
    static rp_tensor (*const fns[])(rp_tensor, rp_tensor) = {
        rp_floor_divide, rp_remainder, rp_shift_left, rp_shift_right, rp_and,
        rp_or,           rp_xor,       rp_ne,         rp_gt,          rp_ge};
    (void)state;
    for (int f = 0; f < 10; f++) {
        double x[N], y[N];
        traced t = begin();
        copy_input(&t, 0, x);
        rp_tensor a = rp_cast(rp_floor(rp_mul_scalar(t.x, 8)), RP_DTYPE_I32);
        finish(&t, fns[f](a, rp_const(t.g, RP_DTYPE_I32, 3)), y, N);
        for (int64_t k = 0; k < N; k++) {
            int64_t v = (int64_t)floor(8 * x[k]);
            int64_t want[] = {floor_div(v, 3), v - 3 * floor_div(v, 3),
                              v * 8,           floor_div(v, 8),
                              v & 3,           v | 3,
                              v ^ 3,           v != 3,
                              v > 3,           v >= 3};
            assert_true(y[k] == (double)want[f]);
        }
    }
}

static void roundings_and_bits_have_names(void **state) {
    static rp_tensor (*const fns[])(rp_tensor) = {rp_floor, rp_ceil, rp_round, rp_not};
    static double (*const want[])(double) = {floor, ceil, rint};
    (void)state;
    for (int f = 0; f < 4; f++) {
        double x[N], y[N];
        traced t = begin();
        copy_input(&t, 0, x);
        rp_tensor a = rp_mul_scalar(t.x, 4);
        finish(&t, fns[f](f < 3 ? a : rp_cast(a, RP_DTYPE_I64)), y, N);
        for (int64_t k = 0; k < N; k++) {
            int64_t bits;
            memcpy(&bits, &y[k], sizeof bits);
            assert_true(f < 3 ? y[k] == want[f](4 * x[k]) : bits == ~(int64_t)(4 * x[k]));
        }
    }
}

static void norms_scale_the_last_axis(void **state) {
    (void)state;
    for (int layer = 0; layer < 2; layer++) {
        double x[N], w[C], b[C], y[N];
        traced t = begin();
        rp_tensor weight = add_input(&t, "w", RP_SHAPE(C));
        rp_tensor bias = add_input(&t, "b", RP_SHAPE(C));
        copy_input(&t, 0, x);
        copy_input(&t, 1, w);
        copy_input(&t, 2, b);
        finish(&t,
               layer ? rp_layer_norm(t.x, weight, bias, 1e-2)
                     : rp_add(rp_rms_norm(t.x, weight, 1e-2), bias),
               y, N);
        for (int64_t k = 0; k < N; k++) {
            const double *row = x + row_start(2, k);
            double mean = layer ? (row[0] + row[1] + row[2] + row[3]) / C : 0, square = 0;
            for (int i = 0; i < C; i++) square += (row[i] - mean) * (row[i] - mean) / C;
            near(y[k], (x[k] - mean) / sqrt(square + 1e-2) * w[k % C] + b[k % C]);
        }
    }
}

static char *tables_of(const rp_rope_args *a) {
    rp_error err = {0};
    char *text = NULL;
    rp_graph *g = rp_graph_new("tables");
    rp_tensor t[2], at = rp_input(g, "at", RP_DTYPE_I32, RP_SHAPE(rp_symbol(g, "T", 1, 64)));
    rp_rope_tables(at, a, &t[0], &t[1]);
    CHECK_OK(rp_graph_finish(g, t, 2, &err), &err);
    CHECK_OK(rp_graph_print(g, &text, &err), &err);
    rp_graph_free(g);
    return text;
}

/* What is 0 is what the header says, and what is given counts. */
static void settings_of_ropes_have_defaults(void **state) {
    const rp_rope_args bare[] = {
        {.dim = 64},
        {.dim = 64, .scaling = RP_ROPE_LLAMA3, .factor = 8, .original = 8192},
        {.dim = 64, .scaling = RP_ROPE_YARN, .factor = 4, .original = 4096}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        rp_rope_args full = bare[i];
        full.base = 10000;
        if (i == 1) full.low_freq_factor = 1, full.high_freq_factor = 4;
        if (i == 2) full.beta_fast = 32, full.beta_slow = 1;
        rp_rope_args others[4] = {full, full, full, full};
        others[0].base = 20000;
        others[1].low_freq_factor = others[1].beta_fast = 2;
        others[2].high_freq_factor = 8, others[2].beta_slow = 3;
        others[3].attention_factor = 0.5;
        char *text = tables_of(&bare[i]), *same = tables_of(&full);
        assert_string_equal(text, same);
        rp_free(same);
        for (int k = 0; k < 4; k++) {
            char *other = tables_of(&others[k]);
            assert_int_equal(strcmp(text, other) != 0, i > 0 || k == 0 || k == 3);
            rp_free(other);
        }
        rp_free(text);
    }
}

/* Pairs are (i, i + C/2) or (2i, 2i + 1); angles are those of the first axis. */
static void ropes_turn_their_pairs(void **state) {
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        double x[N], c[A * C / 2], s[A * C / 2], y[N];
        traced t = begin();
        rp_tensor cosine = add_input(&t, "cos", RP_SHAPE(A, C / 2));
        rp_tensor sine = add_input(&t, "sin", RP_SHAPE(A, C / 2));
        copy_input(&t, 0, x);
        copy_input(&t, 1, c);
        copy_input(&t, 2, s);
        finish(&t,
               interleaved ? rp_rope_interleaved(t.x, cosine, sine) : rp_rope(t.x, cosine, sine), y,
               N);
        for (int64_t row = 0; row < A * B; row++)
            for (int64_t i = 0; i < C / 2; i++) {
                int64_t a = row * C + (interleaved ? 2 * i : i);
                int64_t b = interleaved ? a + 1 : a + C / 2, angle = row / B * (C / 2) + i;
                near(y[a], x[a] * c[angle] - x[b] * s[angle]);
                near(y[b], x[b] * c[angle] + x[a] * s[angle]);
            }
    }
}

/* --- products ------------------------------------------------------------------------ */

/* x[A,B,C] and y[C,D,A]: A is a batch axis, C summed; then both summed; then A summed with C a batch. */
static void dot_general_takes_any_axes(void **state) {
    enum { D = 5 };
    static const rp_dot_dims how[] = {
        {.n_batch = 1, .n_contract = 1, .a_batch = {0}, .b_batch = {2}, .a_contract = {-1}},
        {.n_contract = 2, .a_contract = {0, 2}, .b_contract = {-1, 0}},
        {.n_batch = 1, .n_contract = 1, .a_batch = {2}, .a_contract = {0}, .b_contract = {2}},
        {.n_batch = 2, .a_batch = {2, 0}, .b_batch = {0, 2}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        static double got[A * B * C * D * A];
        double want[A * B * C * D * A] = {0};
        int64_t n = i == 0 ? A * B * D : i == 1 ? B * D : i == 2 ? C * B * D : C * A * B * D;
        traced t = begin();
        rp_tensor y = rp_dot_general(t.x, add_input(&t, "y", RP_SHAPE(C, D, A)), &how[i]);
        for (int a = 0; a < A; a++)
            for (int b = 0; b < B; b++)
                for (int c = 0; c < C; c++)
                    for (int d = 0; d < D; d++) {
                        int to = i == 0   ? (a * B + b) * D + d
                                 : i == 1 ? b * D + d
                                 : i == 2 ? (c * B + b) * D + d
                                          : ((c * A + a) * B + b) * D + d;
                        want[to] += t.in[0].data[(a * B + b) * C + c] *
                                    t.in[1].data[(c * D + d) * A + a];
                    }
        finish(&t, y, got, n);
        for (int64_t k = 0; k < n; k++) assert_true(fabs(got[k] - want[k]) < 1e-6);
    }
}

static void dot_general_names_what_does_not_fit(void **state) {
    static const struct {
        rp_dot_dims d;
        const char *text;
    } bad[] = {
        {{.n_contract = 1, .a_contract = {3}}, "dot_general: axis 3 of f32[2,3,4] does not exist"},
        {{.n_batch = 1, .n_contract = 1, .a_batch = {1}, .b_batch = {1}, .a_contract = {-2}},
         "dot_general: axis -2 of f32[2,3,4] twice"},
        {{.n_contract = 2, .a_contract = {0, 1}, .b_contract = {2, 0}},
         "dot_general: axis 1 of f32[2,3,4] and axis 0 of f32[4,5,2] differ in size"},
        {{.n_batch = 1, .a_batch = {2}, .b_batch = {1}},
         "dot_general: axis 2 of f32[2,3,4] and axis 1 of f32[4,5,2] differ in size"},
        {{.n_contract = 1, .a_contract = {1}, .b_contract = {1}},
         "dot_general: axis 1 of f32[2,3,4] and axis 1 of f32[6,5] differ in size"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        traced t = begin();
        bool matrix = strstr(bad[i].text, "[6,5]") != NULL;
        rp_tensor b = add_input(&t, "y", matrix ? RP_SHAPE(6, 5) : RP_SHAPE(4, 5, 2));
        rp_tensor y = rp_dot_general(t.x, b, &bad[i].d);
        assert_int_equal(rp_graph_finish(t.g, &y, 1, &err), RP_INVALID);
        assert_non_null(strstr(err.text, bad[i].text));
        for (uint32_t k = 0; k < t.n_in; k++) ir_value_done(&t.in[k]);
        rp_graph_free(t.g);
    }
}

static void dot_general_of_two_graphs(void **state) {
    const rp_dot_dims d = {.n_contract = 1, .a_contract = {2}, .b_contract = {2}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        traced t = begin(), u = begin();
        rp_tensor y = rp_dot_general(i ? u.x : t.x, i ? t.x : u.x, &d);
        traced *of = i ? &u : &t;
        assert_int_equal(rp_graph_finish(of->g, &y, 1, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "operand 1 is not a tensor of graph @values"));
        traced *both[] = {&t, &u};
        for (int k = 0; k < 2; k++) {
            for (uint32_t n = 0; n < both[k]->n_in; n++) ir_value_done(&both[k]->in[n]);
            rp_graph_free(both[k]->g);
        }
    }
}

/* All counts of axes that two operands can have: a result has at most as many as a tensor, and so have the matrices that
 * are multiplied. */
static void dot_general_has_room_for_all_axes(void **state) {
    (void)state;
    for (uint32_t batch = 0; batch + 1 <= RP_MAX_RANK; batch++)
        for (uint32_t a = 0; batch + 1 + a <= RP_MAX_RANK; a++)
            for (uint32_t b = 0; batch + 1 + b <= RP_MAX_RANK; b++) {
                rp_graph *g = rp_graph_new("axes");
                rp_error err = {0};
                rp_dot_dims d = {.n_batch = batch, .n_contract = 1};
                rp_shape sa = {.rank = batch + a + 1}, sb = {.rank = batch + b + 1};
                for (uint32_t i = 0; i < RP_MAX_RANK; i++)
                    sa.dim[i] = sb.dim[i] = rp_dim_const(i < batch ? 2 : 3);
                for (uint32_t i = 0; i < batch; i++) d.a_batch[i] = d.b_batch[i] = (int)i;
                d.a_contract[0] = d.b_contract[0] = -1;
                rp_tensor y = rp_dot_general(rp_input(g, "a", RP_DTYPE_F32, sa),
                                             rp_input(g, "b", RP_DTYPE_F32, sb), &d);
                uint32_t rank = rp_tensor_shape(y).rank;
                bool fits = batch + 2 <= RP_MAX_RANK && batch + a + b <= RP_MAX_RANK;
                rp_status st = rp_graph_finish(g, &y, 1, &err);
                if (st != (fits ? RP_OK : RP_UNSUPPORTED) || (fits && rank != batch + a + b))
                    fail_msg("%u, %u and %u axes: %s", batch, a, b, err.text);
                rp_graph_free(g);
            }
}

/* A vector on either side, or both; none of its axes is in the result. */
static void vectors_are_rows_and_columns(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        double got[A * B], want[A * B] = {0};
        traced t = begin();
        rp_tensor v = add_input(&t, "v", RP_SHAPE(i == 1 ? B : C));
        rp_tensor y = i == 0   ? rp_matmul(t.x, v, false)
                      : i == 1 ? rp_matmul(v, t.x, false)
                               : rp_matmul(v, v, true);
        int64_t n = i == 0 ? A * B : i == 1 ? A * C : 1;
        for (int a = 0; a < A && i < 2; a++)
            for (int b = 0; b < B; b++)
                for (int c = 0; c < C; c++)
                    if (i == 0)
                        want[a * B + b] += t.in[0].data[(a * B + b) * C + c] * t.in[1].data[c];
        double w[A * C] = {0};
        for (int a = 0; a < A && i == 1; a++)
            for (int b = 0; b < B; b++)
                for (int c = 0; c < C; c++)
                    w[a * C + c] += t.in[0].data[(a * B + b) * C + c] * t.in[1].data[b];
        for (int c = 0; c < C && i == 2; c++) want[0] += t.in[1].data[c] * t.in[1].data[c];
        double all[A * C];
        finish(&t, y, i == 1 ? all : got, n);
        for (int64_t k = 0; k < n; k++)
            assert_true(fabs(i == 1 ? all[k] - w[k] : got[k] - want[k]) < 1e-6);
    }
}

/* Values of composites of f16 and bf16 are those of f32, rounded once; sums inside do not overflow. */
static void halves_are_rounded_once(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F16, RP_DTYPE_BF16};
    double wide[N], half[N];
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int f = 0; f < 5; f++) {
            for (int narrow = 0; narrow < 2; narrow++) {
                traced t = begin();
                rp_tensor none = rp_none(), x = rp_cast(t.x, types[i]), y;
                if (!narrow) x = rp_cast(x, RP_DTYPE_F32);
                y = f == 0   ? rp_softmax(x, 1)
                    : f == 1 ? rp_layer_norm(x, none, none, 1e-5)
                    : f == 2 ? rp_gelu_tanh(x)
                    : f == 3 ? rp_softplus(x)
                             : rp_rms_norm(x, rp_const(t.g, RP_DTYPE_F32, 3), 1e-5);
                assert_int_equal(rp_tensor_dtype(y), narrow ? types[i] : RP_DTYPE_F32);
                finish(&t, rp_cast(rp_cast(y, types[i]), RP_DTYPE_F32), narrow ? half : wide, N);
            }
            for (int k = 0; k < N; k++) assert_true(half[k] == wide[k]);
        }
    traced t = begin();
    rp_tensor many = rp_broadcast(rp_const(t.g, RP_DTYPE_F16, 100), RP_SHAPE(1000));
    finish(&t, rp_cast(rp_mean(many, 0, false), RP_DTYPE_F32), half, 1);
    assert_true(half[0] == 100);
}

/* Scattered halves are joined in f32 and rounded once. */
static void joined_halves_are_rounded_once(void **state) {
    static rp_tensor (*const joins[])(rp_tensor, int, rp_tensor, rp_tensor) = {
        rp_scatter_add, rp_scatter_prod, rp_scatter_amax, rp_scatter_amin};
    static const rp_dtype types[] = {RP_DTYPE_F16, RP_DTYPE_BF16};
    double wide[N], half[N];
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int f = 0; f < 5; f++) {
            for (int narrow = 0; narrow < 2; narrow++) {
                traced t = begin();
                rp_tensor x = rp_cast(t.x, types[i]), y, none = rp_const(t.g, RP_DTYPE_I32, 0);
                if (!narrow) x = rp_cast(x, RP_DTYPE_F32);
                y = f < 4 ? joins[f](x, 1, rp_broadcast(none, RP_SHAPE(A, B, C)), x)
                          : rp_index_add(x, 1, rp_broadcast(none, RP_SHAPE(B)), x);
                assert_int_equal(rp_tensor_dtype(y), narrow ? types[i] : RP_DTYPE_F32);
                finish(&t, rp_cast(rp_cast(y, types[i]), RP_DTYPE_F32), narrow ? half : wide, N);
            }
            for (int k = 0; k < N; k++) assert_true(half[k] == wide[k]);
        }
}

/* ---- attention by its formula ---- */

enum { HEADS = 4, GROUPS = 2, ROWS = 3, COLS = 5, WIDE = 2 };

typedef struct sdpa_case {
    const char *name;
    int64_t groups, window;
    double scale, softcap;
    bool causal, mask, bias;
} sdpa_case;

static bool sees(const sdpa_case *c, int i, int j) {
    if (c->mask && (i + j) % 3 == 0) return false;
    if (c->causal && j > i) return false;
    if (c->window > 0 && (i - j >= c->window || (!c->causal && j - i >= c->window))) return false;
    return true;
}

static void check_sdpa(const sdpa_case *c) {
    enum { Q = HEADS * ROWS * WIDE, K = HEADS * COLS * WIDE };
    double q[Q], k[K], v[K], y[Q];
    traced t = {.g = rp_graph_new("sdpa")};
    rp_dim kv = rp_dim_const(c->groups);
    rp_sdpa_args a = {.q = add_input(&t, "q", RP_SHAPE(HEADS, ROWS, WIDE)),
                      .k = add_input(&t, "k", RP_SHAPE(kv, COLS, WIDE)),
                      .v = add_input(&t, "v", RP_SHAPE(kv, COLS, WIDE)),
                      .scale = c->scale,
                      .softcap = c->softcap,
                      .window = c->window,
                      .causal = c->causal};
    rp_tensor i = rp_iota(t.g, RP_DTYPE_I32, RP_SHAPE(ROWS, COLS), 0);
    rp_tensor sum = rp_add(i, rp_iota(t.g, RP_DTYPE_I32, RP_SHAPE(ROWS, COLS), 1));
    for (int n = 0; c->mask && n < 3; n++) {
        rp_tensor other = rp_ne(sum, rp_const(t.g, RP_DTYPE_I32, 3 * n));
        a.mask = n ? rp_and(a.mask, other) : other;
    }
    if (c->bias) a.bias = rp_cast(sum, RP_DTYPE_F32);
    copy_input(&t, 0, q);
    copy_input(&t, 1, k);
    copy_input(&t, 2, v);
    finish(&t, rp_scaled_dot_product_attention(&a), y, Q);
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < ROWS; r++) {
            double all = 0, out[WIDE] = {0};
            int64_t at = h / (HEADS / c->groups) * COLS * WIDE;
            for (int s = 0; s < COLS; s++) {
                double x = 0;
                for (int d = 0; d < WIDE; d++)
                    x += q[(h * ROWS + r) * WIDE + d] * k[at + s * WIDE + d];
                x *= c->scale != 0 ? c->scale : 1 / sqrt(WIDE);
                if (c->softcap != 0) x = c->softcap * tanh(x / c->softcap);
                if (c->bias) x += r + s;
                x = sees(c, r, s) ? exp(x) : 0;
                all += x;
                for (int d = 0; d < WIDE; d++) out[d] += x * v[at + s * WIDE + d];
            }
            for (int d = 0; d < WIDE; d++)
                if (!(fabs(y[(h * ROWS + r) * WIDE + d] - (all > 0 ? out[d] / all : 0)) < 2e-6))
                    fail_msg("%s: head %d, row %d", c->name, h, r);
        }
}

static void attention_is_its_formula(void **state) {
    static const sdpa_case cases[] = {
        {.name = "plain", .groups = HEADS},
        {.name = "groups", .groups = GROUPS},
        {.name = "one head for all", .groups = 1},
        {.name = "scale", .groups = HEADS, .scale = 3},
        {.name = "a scale below 0", .groups = HEADS, .scale = -2},
        {.name = "softcap", .groups = HEADS, .softcap = 0.25},
        {.name = "causal", .groups = GROUPS, .causal = true},
        {.name = "mask", .groups = GROUPS, .mask = true},
        {.name = "bias", .groups = GROUPS, .bias = true},
        {.name = "window", .groups = HEADS, .window = 1},
        {.name = "wider", .groups = HEADS, .window = 2},
        {.name = "causal window", .groups = HEADS, .window = 2, .causal = true},
        {.name = "all",
         .groups = GROUPS,
         .window = 2,
         .scale = 2,
         .softcap = 1,
         .causal = true,
         .mask = true,
         .bias = true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_sdpa(&cases[i]);
}

/* A row that sees nothing is zeros; others do not know of it. */
static void attention_that_sees_nothing_gives_zeros(void **state) {
    double y[B * C], plain[B * C];
    (void)state;
    for (int masked = 0; masked < 2; masked++) {
        traced t = begin();
        rp_tensor x = rp_slice(t.x, 0, 0, 1);
        rp_tensor row = rp_iota(t.g, RP_DTYPE_I32, RP_SHAPE(B, B), 0);
        rp_sdpa_args a = {.q = x, .k = x, .v = x};
        if (masked) a.mask = rp_ne(row, rp_const(t.g, RP_DTYPE_I32, 1));
        finish(&t, rp_scaled_dot_product_attention(&a), masked ? y : plain, B * C);
    }
    for (int k = 0; k < B * C; k++) assert_true(y[k] == (k / C == 1 ? 0 : plain[k]));
}

/* An axis that may be empty has no element for an index to stand for; no index wants one. */
static void indices_want_an_axis_that_has_something(void **state) {
    (void)state;
    for (int least = 0; least < 3; least++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("g");
        rp_dim t = rp_symbol(g, "T", least % 2, 8);
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, t));
        rp_tensor n = rp_input(g, "n", RP_DTYPE_I32, RP_SHAPE(2, least == 2 ? 0 : 3));
        rp_tensor y = rp_take_along(x, 1, n);
        rp_status st = rp_graph_finish(g, &y, 1, &err);
        assert_int_equal(st, least ? RP_OK : RP_INVALID);
        if (!least) assert_non_null(strstr(err.text, "which is not empty"));
        rp_graph_free(g);
    }
}

/* Weights of 16 bits take what they are multiplied with in their own type, but where all is exact. */
static void products_are_of_the_type_of_weights(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            rp_error err = {0};
            rp_graph *g = rp_graph_new("linear");
            rp_graph_set_numerics(g, exact ? RP_NUMERICS_EXACT : RP_NUMERICS_DEFAULT);
            rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 8));
            rp_tensor y = rp_linear(x, rp_param(g, "w", types[i], RP_SHAPE(4, 8)));
            CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
            const ir_node *n = ir_node_at(trace_graph_ir(g), y.ref);
            while (n->op != IR_matmul) n = ir_node_at(trace_graph_ir(g), n->in[0]);
            assert_int_equal(ir_node_at(trace_graph_ir(g), n->in[0])->dtype,
                             exact ? RP_DTYPE_F32 : types[i]);
            rp_graph_free(g);
        }
    }
}

/* Nothing around a tensor is the tensor; a size that is a symbol may be something. */
static void no_padding_is_no_node(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("pads");
    (void)state;
    rp_dim n = rp_symbol(g, "N", 0, 4), none = rp_dim_const(0), one = rp_dim_const(1);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3));
    const struct {
        rp_dim before, after;
        rp_dim size;
    } cases[] = {{none, none, rp_dim_const(3)},
                 {one, none, rp_dim_const(4)},
                 {none, one, rp_dim_const(4)},
                 {n, none, rp_dim_add(n, rp_dim_const(3))},
                 {none, n, rp_dim_add(rp_dim_const(3), n)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_tensor y = rp_pad(x, 1, cases[i].before, cases[i].after, 0);
        assert_int_equal(y.ref == x.ref, i == 0);
        assert_true(rp_dim_eq(rp_tensor_dim(y, 1), cases[i].size));
    }
    CHECK_OK(rp_graph_finish(g, &x, 1, &err), &err);
    rp_graph_free(g);
}

static rp_tensor leaky(rp_tensor x) {
    return rp_leaky_relu(x, 0.5);
}
static rp_tensor elu(rp_tensor x) {
    return rp_elu(x, 1);
}
static rp_tensor capped(rp_tensor x) {
    return rp_softcap(x, 30);
}
static rp_tensor between(rp_tensor x) {
    return rp_lerp(x, x, x);
}
static rp_tensor normalized(rp_tensor x) {
    return rp_l2_normalize(x, 0, 0.5);
}

/* What is made of numbers that the type does not have is told under the name of the call. */
static void composites_of_floats_say_so(void **state) {
    static const struct {
        const char *name;
        rp_tensor (*fn)(rp_tensor);
    } calls[] = {{"leaky_relu", leaky},
                 {"elu", elu},
                 {"softcap", capped},
                 {"lerp", between},
                 {"l2_normalize", normalized},
                 {"gelu_erf", rp_gelu_erf},
                 {"gelu_tanh", rp_gelu_tanh},
                 {"quick_gelu", rp_quick_gelu},
                 {"swiglu", rp_swiglu},
                 {"geglu", rp_geglu},
                 {"exp2", rp_exp2},
                 {"atan", rp_atan},
                 {"asin", rp_asin},
                 {"acos", rp_acos},
                 {"erfinv", rp_erfinv}};
    static const rp_dtype types[] = {RP_DTYPE_I32, RP_DTYPE_U8, RP_DTYPE_BOOL, RP_DTYPE_F8E5M2};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char want[96];
            rp_error err = {0};
            rp_graph *g = rp_graph_new("bad");
            rp_tensor y = calls[i].fn(rp_input(g, "x", types[t], RP_SHAPE(2, 4)));
            assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
            (void)snprintf(want, sizeof want,
                           "%s: wants f32, f16, bf16 or f64, not %s[2,4]; cast it", calls[i].name,
                           rp_dtype_name(types[t]));
            if (!strstr(err.text, want)) fail_msg("%s, not %s", err.text, want);
            rp_graph_free(g);
        }
}

static void composites_name_what_does_not_fit(void **state) {
    static const char *const want[] = {
        "squeeze: the size of axis 1 of f32[2,3,4] is not 1",
        "transpose: axis 3 out of range for f32[2,3,4]",
        "unsqueeze: axis 4 out of range for f32[2,3,4] with an axis more",
        "flatten: axis 2 of f32[2,3,4] is behind axis 1",
        "slice: a step of 0; a step is positive, rp_flip turns an axis around",
        "take_along: wants indices of the shape of f32[2,3,4] but along axis 2",
        "scatter_add: f32[2,3,4] at i32[2,3] into f32[2,3,4] along axis 2: src has the sizes",
        "group_norm: the channels of f32[2,3,4] cannot be cut into 5 groups",
        "batch_norm: wants [N,C,...], not f32[4]",
        "var: wants f32, f16, bf16 or f64, not i32[2,3]; cast it",
        "and v [...,KV,S,DV] with KV dividing H, not f32[2,3,4], f32[4] and f32[7]",
        "conv: x f32[2,3,4] and weight f32[4]: wants [N,C,H,W]",
        "pool: windows of 9 every 2 do not lie within f32[1,2,3,4] padded by 1",
        "upsample: wants [N,C,H,W] and a positive number of times, not f32[2,3,4] and 5",
        "or x [...,D] and cos, sin broadcast to [...,D/2]; not f32[2,3,4] and f32[4]",
        "any: wants bool, not f32[2,3,4]; compare it",
        "pool: a padding of 2 is more than half of a window of 3, of f32[1,2,3,4]",
        "pool: a padding of 1 is more than half of a window of 1, of f32[1,2,3,4]",
        "with KV dividing H, not f32[3,2,4], f32[2,3,4] and f32[2,3,4]",
        "of f32[2,3,4] but along axis 2, which is not empty; not i32[2,2,4]",
        "conv: x f32[1,2,3,4] and weight f32[2,3,4]: wants [N,C,H,W]",
        "conv: x f32[2,3,4] and weight f32[1,2,3,4]: wants [N,C,H,W]",
        "pad: what is taken away of f32[2,3,4] along axis 1 is not known to be there",
        "pad: what is taken away of f32[2,3,4] along axis 2 is not known to be there",
    };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("bad");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3, 4)), none = rp_none(), y = x;
        rp_tensor n = rp_input(g, "n", RP_DTYPE_I32, RP_SHAPE(2, 3));
        rp_tensor v = rp_input(g, "v", RP_DTYPE_F32, RP_SHAPE(4));
        rp_tensor u = rp_input(g, "u", RP_DTYPE_F32, RP_SHAPE(7));
        switch (i) {
        case 0: y = rp_squeeze(x, 1); break;
        case 1: y = rp_transpose(x, 0, 3); break;
        case 2: y = rp_unsqueeze(x, 4); break;
        case 3: y = rp_flatten(x, 2, 1); break;
        case 4: y = rp_slice_step(x, 0, 0, 2, 0); break;
        case 5: y = rp_take_along(x, 2, n); break;
        case 6: y = rp_scatter_add(x, 2, n, x); break;
        case 7: y = rp_group_norm(x, 5, none, none, 1e-5); break;
        case 8: y = rp_batch_norm(v, v, v, none, none, 1e-5); break;
        case 9: y = rp_var(n, 0, false, 1); break;
        case 10:
            y = rp_scaled_dot_product_attention(&(rp_sdpa_args){.q = x, .k = v, .v = u});
            break;
        case 11: y = rp_conv2d(x, v, none, NULL); break;
        case 12: y = rp_max_pool2d(rp_unsqueeze(x, 0), 9, 2, 1); break;
        case 13: y = rp_upsample_nearest2d(x, 5); break;
        case 14: y = rp_rope(x, v, u); break;
        case 15: y = rp_any(x, 0, false); break;
        case 16: y = rp_max_pool2d(rp_unsqueeze(x, 0), 3, 0, 2); break;
        case 17: y = rp_avg_pool2d(rp_unsqueeze(x, 0), 1, 0, 1); break;
        case 20: y = rp_conv2d(rp_unsqueeze(x, 0), x, none, NULL); break;
        case 22: y = rp_pad(x, 1, -4, 0, 0); break;
        case 23: y = rp_pad(x, -1, -2, -3, 0); break;
        case 21: y = rp_conv2d(x, rp_unsqueeze(x, 0), none, NULL); break;
        case 19: y = rp_take_along(x, 2, rp_iota(g, RP_DTYPE_I32, RP_SHAPE(2, 2, 4), 2)); break;
        default: {
            rp_tensor q = rp_permute(x, (int[]){1, 0, 2}, 3);
            y = rp_scaled_dot_product_attention(&(rp_sdpa_args){.q = q, .k = x, .v = x});
        }
        }
        assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
        if (!strstr(err.text, want[i])) fail_msg("wanted '%s', got '%s'", want[i], err.text);
        rp_graph_free(g);
    }
}

/* --- integers that a double does not have ------------------------------------------------- */

static const int64_t integers[] = {0,
                                   -5,
                                   (INT64_C(1) << 53) - 1,
                                   INT64_C(1) << 53,
                                   (INT64_C(1) << 53) + 1,
                                   -(INT64_C(1) << 53) - 1,
                                   (INT64_C(1) << 62) + 3,
                                   INT64_C(0x7fffffff00000001),
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MIN + 1};
enum { INTEGERS = sizeof integers / sizeof *integers, RESULTS = 3 * INTEGERS };

static void check_integers(const char *by, const int64_t got[RESULTS]) {
    for (int i = 0; i < INTEGERS; i++) {
        const int64_t plus = (int64_t)((uint64_t)integers[i] + 7);
        if (got[3 * i] != integers[i] || got[3 * i + 1] != plus || got[3 * i + 2] != integers[i])
            fail_msg("%s: %lld is %lld, with 7 %lld, times 1 %lld", by, (long long)integers[i],
                     (long long)got[3 * i], (long long)got[3 * i + 1], (long long)got[3 * i + 2]);
    }
}

static void constants_have_all_bits_of_an_integer(void **state) {
    static const char *const levels[] = {"level=0", "level=2"};
    rp_graph *g = rp_graph_new("integers");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_I64, RP_SHAPE(2)), out[RESULTS];
    rp_tensor seven = rp_reshape(rp_slice(x, 0, 0, 1), (rp_shape){0});
    rp_tensor one = rp_reshape(rp_slice(x, 0, 1, 2), (rp_shape){0});
    int64_t given[] = {7, 1}, got[RESULTS];
    double bits[2];
    rp_error err = {0};
    (void)state;
    for (int i = 0; i < INTEGERS; i++) {
        out[3 * i] = rp_const_int(g, RP_DTYPE_I64, integers[i]);
        out[3 * i + 1] = rp_add_int(seven, integers[i]);
        out[3 * i + 2] = rp_mul_int(one, integers[i]);
    }
    CHECK_OK(rp_graph_finish(g, out, RESULTS, &err), &err);
    ir_value in = {.rank = 1, .dim = {2}, .n = 2, .data = bits}, v[RESULTS] = {0};
    for (int i = 0; i < 2; i++) ir_value_set_int(&in, i, given[i]);
    CHECK_OK(ir_eval(trace_graph_ir(g), &in, NULL, NULL, NULL, v, &err), &err);
    for (int i = 0; i < RESULTS; i++) {
        got[i] = ir_value_int(&v[i], 0);
        ir_value_done(&v[i]);
    }
    check_integers("interpreter", got);
    for (int l = 0; l < 2; l++) {
        rp_compilation_config *cfg = rp_config_new();
        rp_compiled *c = NULL;
        rp_buffer from = {RP_DTYPE_I64, 1, {2}, given}, to[RESULTS];
        for (int i = 0; i < RESULTS; i++) to[i] = (rp_buffer){RP_DTYPE_I64, 0, {0}, &got[i]};
        memset(got, 0, sizeof got);
        CHECK_OK(rp_config_set(cfg, levels[l], &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_run(c, &from, 1, to, RESULTS, &err), &err);
        check_integers(levels[l], got);
        rp_compiled_free(c);
        rp_config_free(cfg);
    }
    rp_graph_free(g);
}

static void constants_of_other_types_are_rounded_once(void **state) {
    static const struct {
        rp_dtype t;
        int64_t value;
        double want;
    } cases[] = {{RP_DTYPE_F32, (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1, 0x1.000002p60},
                 {RP_DTYPE_I32, (INT64_C(1) << 40) - 3, -3},
                 {RP_DTYPE_U8, -1, 255},
                 {RP_DTYPE_BOOL, INT64_MIN, 1},
                 {RP_DTYPE_F64, (INT64_C(1) << 53) + 1, 0x1p53}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        traced t = begin();
        double got;
        finish(&t, rp_const_int(t.g, cases[i].t, cases[i].value), &got, 1);
        if (got != cases[i].want) fail_msg("case %zu: %a, not %a", i, got, cases[i].want);
    }
}

static void doubles_that_are_no_certain_integer_are_refused(void **state) {
    static const double values[] = {9007199254740993.0, -9007199254740993.0, 1e19};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int what = 0; what < 6; what++) {
            const double v = values[i];
            rp_graph *g = rp_graph_new("integers");
            rp_error err = {0};
            rp_tensor x = rp_input(g, "x", RP_DTYPE_I64, RP_SHAPE(2)), y = x;
            switch (what) {
            case 0: y = rp_const(g, RP_DTYPE_I64, v); break;
            case 1: y = rp_add_scalar(x, v); break;
            case 2: y = rp_mul_scalar(x, v); break;
            case 3: y = rp_clamp(x, 0, v); break;
            case 4: y = rp_masked_fill(x, rp_eq(x, x), v); break;
            default: y = rp_pad(x, 0, 1, 0, v);
            }
            assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
            if (strncmp(err.text, __FILE__ ":", sizeof __FILE__) != 0 || strchr(err.text, '\n') ||
                !strstr(err.text, " of i64: from 2^53 on a double does not have every integer; use "
                                  "rp_const_int"))
                fail_msg("%d of %.0f: %s", what, v, err.text);
            rp_graph_free(g);
        }
    traced t = begin(); /* the last that is certain */
    double got = 0;
    finish(&t, rp_cast(rp_const(t.g, RP_DTYPE_I64, 0x1p53 - 1), RP_DTYPE_F64), &got, 1);
    assert_true(got == 0x1p53 - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_are_of_key_and_place),
        cmocka_unit_test(constants_have_all_bits_of_an_integer),
        cmocka_unit_test(constants_of_other_types_are_rounded_once),
        cmocka_unit_test(doubles_that_are_no_certain_integer_are_refused),
        cmocka_unit_test(means_and_variances_of_doubles),
        cmocka_unit_test(products_of_doubles),
        cmocka_unit_test(products_of_doubles_are_of_one_k_and_type),
        cmocka_unit_test(means_divide_by_the_size_of_their_axis),
        cmocka_unit_test(softmax_is_over_its_axis),
        cmocka_unit_test(log_softmax_is_the_logarithm),
        cmocka_unit_test(cross_entropy_takes_one_class_a_row),
        cmocka_unit_test(cross_entropy_says_what_it_wants),
        cmocka_unit_test(cross_entropy_wants_a_class_for_each_row),
        cmocka_unit_test(axes_count_from_the_end),
        cmocka_unit_test(activations_are_their_formulas),
        cmocka_unit_test(integers_are_divided_shifted_and_masked),
        cmocka_unit_test(roundings_and_bits_have_names),
        cmocka_unit_test(norms_scale_the_last_axis),
        cmocka_unit_test(settings_of_ropes_have_defaults),
        cmocka_unit_test(ropes_turn_their_pairs),
        cmocka_unit_test(dot_general_takes_any_axes),
        cmocka_unit_test(dot_general_names_what_does_not_fit),
        cmocka_unit_test(dot_general_of_two_graphs),
        cmocka_unit_test(dot_general_has_room_for_all_axes),
        cmocka_unit_test(vectors_are_rows_and_columns),
        cmocka_unit_test(halves_are_rounded_once),
        cmocka_unit_test(joined_halves_are_rounded_once),
        cmocka_unit_test(attention_is_its_formula),
        cmocka_unit_test(attention_that_sees_nothing_gives_zeros),
        cmocka_unit_test(indices_want_an_axis_that_has_something),
        cmocka_unit_test(products_are_of_the_type_of_weights),
        cmocka_unit_test(no_padding_is_no_node),
        cmocka_unit_test(composites_name_what_does_not_fit),
        cmocka_unit_test(composites_of_floats_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
