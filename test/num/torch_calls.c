/* Calls that are made of several ops against what torch gave (torch_calls.txt, which torch_calls.py writes): by the interpreter, compiled and
 * eager, and on the emulated GPU, each with sizes that are numbers and with sizes that are symbols.
 *
 * A case is a line "call NAME KEY=INTEGER ...", a line "in VALUES" for each input of the graph that the function NAME makes here, a
 * line "out BOUND VALUES" for each output: |x - value| <= BOUND * max(1, |value|). */
#include <math.h>

#include "support/both_gpu.h"

#include "reprise/reprise.h"

enum { MOST_OUT = 4, MOST_BYTES = 1 << 16 };

/* What a case says, and the graph that is made of it. */
typedef struct call {
    const char *line, *end; /* "NAME KEY=INTEGER ..." */
    bool symbols;
    rp_graph *g;
    rp_tensor out[MOST_OUT];
    uint32_t n_out;
    char sized[8][16]; /* names of the symbols */
    int64_t size[8];
    uint32_t n_sized;
} call;

/* `otherwise` where the case does not say it. */
static int64_t told(const call *c, const char *key, int64_t otherwise) {
    const size_t n = strlen(key);
    for (const char *p = c->line; p + n < c->end; p++)
        if (p[0] == ' ' && strncmp(p + 1, key, n) == 0 && p[1 + n] == '=')
            return strtoll(p + n + 2, NULL, 10);
    return otherwise;
}

/* The size that the case gives, as a number or as a symbol from `least` on. */
static rp_dim size(call *c, const char *key, int64_t least) {
    const int64_t n = told(c, key, -1);
    assert_true(n >= 0);
    if (!c->symbols) return rp_dim_const(n);
    uint32_t i = 0;
    while (i < c->n_sized && strcmp(c->sized[i], key) != 0) i++;
    if (i == c->n_sized) {
        assert_true(i < 8);
        (void)snprintf(c->sized[i], sizeof c->sized[i], "%s", key);
        c->size[c->n_sized++] = n;
    }
    return rp_symbol(c->g, c->sized[i], least, least + 15);
}

static void give(call *c, rp_tensor y) {
    assert_true(c->n_out < MOST_OUT);
    c->out[c->n_out++] = y;
}

/* --- the calls ---------------------------------------------------------------------- */

static void sdpa_lse(call *c) {
    const int64_t h = told(c, "H", 1), kv = told(c, "KV", 1), d = told(c, "D", 4);
    rp_dim t = size(c, "T", 0), s = size(c, "S", 1);
    rp_sdpa_args a = {.q = rp_input(c->g, "q", RP_DTYPE_F32, RP_SHAPE(2, h, t, d)),
                      .k = rp_input(c->g, "k", RP_DTYPE_F32, RP_SHAPE(2, kv, s, d)),
                      .v = rp_input(c->g, "v", RP_DTYPE_F32, RP_SHAPE(2, kv, s, 3)),
                      .causal = told(c, "causal", 0) != 0,
                      .window = told(c, "window", 0),
                      .softcap = (double)told(c, "softcap", 0)};
    if (told(c, "mask", 0)) a.mask = rp_input(c->g, "m", RP_DTYPE_BOOL, RP_SHAPE(t, s));
    rp_tensor lse;
    give(c, rp_sdpa_lse(&a, &lse));
    give(c, lse);
}

static void varlen(call *c) {
    const int64_t h = told(c, "H", 1), kv = told(c, "KV", 1), d = told(c, "D", 4);
    rp_dim t = size(c, "T", 1), s = size(c, "S", 1), n = size(c, "N", 2);
    const rp_dtype i = told(c, "wide", 0) ? RP_DTYPE_I64 : RP_DTYPE_I32;
    rp_varlen_args a = {.q = rp_input(c->g, "q", RP_DTYPE_F32, RP_SHAPE(t, h, d)),
                        .k = rp_input(c->g, "k", RP_DTYPE_F32, RP_SHAPE(s, kv, d)),
                        .v = rp_input(c->g, "v", RP_DTYPE_F32, RP_SHAPE(s, kv, 3)),
                        .cu_q = rp_input(c->g, "cq", i, RP_SHAPE(n)),
                        .cu_k = rp_input(c->g, "ck", i, RP_SHAPE(n)),
                        .causal = told(c, "causal", 0) != 0,
                        .window = told(c, "window", 0)};
    if (told(c, "most", 0)) {
        a.max_q = rp_dim_const(told(c, "most", 0));
        a.max_k = rp_dim_const(told(c, "most_k", told(c, "most", 0)));
    }
    rp_tensor lse;
    give(c, rp_varlen_attention(&a, &lse));
    give(c, lse);
}

/* scale, zero, q, and q as f32. */
static void quantized(call *c) {
    rp_qparams_args a = {.dtype = (rp_dtype)told(c, "type", 0),
                         .per = (rp_granularity)told(c, "per", 0),
                         .axis = (int)told(c, "axis", 0),
                         .affine = told(c, "affine", 0) != 0};
    rp_tensor x = rp_input(c->g, "x", (rp_dtype)told(c, "of", RP_DTYPE_F32),
                           RP_SHAPE(size(c, "T", 1), 3, 5)),
              scale, zero, q;
    rp_choose_qparams(x, &a, &scale, &zero);
    give(c, scale);
    give(c, zero);
    const bool whole = a.dtype == RP_DTYPE_I8 || a.dtype == RP_DTYPE_U8;
    q = rp_quantize_affine(x, scale, whole ? zero : rp_none(), a.dtype);
    give(c, rp_cast(q, RP_DTYPE_F32));
    give(c, rp_dequantize_affine(q, scale, whole ? zero : rp_none()));
}

/* With a scale that is given, what saturates too. */
static void rounded_to(call *c) {
    rp_tensor x = rp_input(c->g, "x", RP_DTYPE_F32, RP_SHAPE(size(c, "T", 1)));
    rp_tensor scale = rp_input(c->g, "s", RP_DTYPE_F32, RP_SHAPE(1));
    rp_tensor zero = rp_input(c->g, "z", RP_DTYPE_I32, RP_SHAPE(1));
    const rp_dtype t = (rp_dtype)told(c, "type", 0);
    give(c, rp_cast(rp_quantize_affine(x, scale, zero, t), RP_DTYPE_F32));
}

static void scaled_mm(call *c) {
    const int64_t k = told(c, "K", 1), n = told(c, "N", 1);
    const bool trans = told(c, "trans", 0) != 0;
    rp_dim m = size(c, "M", 1);
    rp_tensor a = rp_input(c->g, "a", (rp_dtype)told(c, "type", 0), RP_SHAPE(m, k));
    rp_tensor b =
        rp_input(c->g, "b", (rp_dtype)told(c, "type", 0), trans ? RP_SHAPE(n, k) : RP_SHAPE(k, n));
    const bool rows = told(c, "rows", 0) != 0;
    rp_tensor sa =
        rp_input(c->g, "sa", RP_DTYPE_F32, RP_SHAPE(rows ? m : rp_dim_const(1), told(c, "ka", 1)));
    rp_tensor sb = rp_input(c->g, "sb", RP_DTYPE_F32, RP_SHAPE(told(c, "b0", 1), told(c, "b1", 1)));
    rp_scaled_mm_args args = {
        .scale_a = sa, .scale_b = sb, .trans_b = trans, .block = told(c, "block", 0)};
    if (told(c, "bias", 0)) args.bias = rp_input(c->g, "bias", RP_DTYPE_F32, RP_SHAPE(n));
    give(c, rp_scaled_mm(a, b, &args));
}

/* Rows of sorted numbers; `flat`: one row for all. */
static void searchsorted(call *c) {
    const rp_dtype t = (rp_dtype)told(c, "type", RP_DTYPE_F32);
    rp_dim b = size(c, "B", told(c, "some", 0)), m = size(c, "M", 0), two = rp_dim_const(2);
    rp_dim n = told(c, "fixed", 0) ? rp_dim_const(told(c, "N", 0)) : size(c, "N", 0);
    rp_tensor x = rp_input(c->g, "x", t, told(c, "flat", 0) ? RP_SHAPE(n) : RP_SHAPE(two, b, n));
    rp_tensor v = rp_input(c->g, "v", t, RP_SHAPE(two, b, m));
    give(c, rp_searchsorted(x, v, false));
    give(c, rp_searchsorted(x, v, true));
}

/* Of `axes` axes, of which the first is a symbol, as N is; keys end in the number of the axis, counted as args do. */
static rp_tensor convolved(call *c, bool transposed) {
    const int axes = (int)told(c, "axes", 3);
    const int64_t ch = told(c, "C", 1), groups = told(c, "groups", 1), o = told(c, "O", 1);
    rp_shape x = RP_SHAPE(size(c, "N", 1), ch), w = RP_SHAPE(o, ch / groups);
    rp_conv3d_args a = {.groups = (uint32_t)told(c, "groups", 0)};
    if (transposed) w = RP_SHAPE(ch, o / groups);
    for (int i = 3 - axes; i < 3; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        w.dim[w.rank++] = rp_dim_const(told(c, key, 1));
        const int64_t least = told(c, key, 1) * 2;
        (void)snprintf(key, sizeof key, "d%d", i);
        a.dilation[i] = told(c, key, 0);
        (void)snprintf(key, sizeof key, "s%d", i);
        a.stride[i] = told(c, key, 0);
        (void)snprintf(key, sizeof key, "p%d", i);
        a.padding[i] = told(c, key, 0);
        (void)snprintf(key, sizeof key, "x%d", i);
        x.dim[x.rank++] = i == 3 - axes ? size(c, key, least) : rp_dim_const(told(c, key, 1));
    }
    const rp_conv_args b = {.stride = {a.stride[1], a.stride[2]},
                            .padding = {a.padding[1], a.padding[2]},
                            .dilation = {a.dilation[1], a.dilation[2]},
                            .groups = a.groups};
    const int64_t extra = told(c, "extra", 0);
    const bool bare = told(c, "bare", 0) != 0; /* no arguments */
    rp_tensor in = rp_input(c->g, "x", RP_DTYPE_F32, x);
    rp_tensor k = rp_input(c->g, "w", RP_DTYPE_F32, w);
    rp_tensor bias = rp_input(c->g, "b", RP_DTYPE_F32, RP_SHAPE(o));
    if (!transposed) return rp_conv3d(in, k, bias, bare ? NULL : &a);
    if (axes == 3) return rp_conv_transpose3d(in, k, bias, bare ? NULL : &a, extra);
    return axes == 2 ? rp_conv_transpose2d(in, k, bias, &b, extra)
                     : rp_conv_transpose1d(in, k, bias, &b, extra);
}

static void conv3d(call *c) {
    give(c, convolved(c, false));
}

static void conv_transpose(call *c) {
    give(c, convolved(c, true));
}

static void grouped_mm(call *c) {
    const int64_t k = told(c, "K", 1), n = told(c, "N", 1), g = told(c, "G", 1);
    const bool trans = told(c, "trans", 0) != 0;
    const rp_dtype t = (rp_dtype)told(c, "type", RP_DTYPE_F32);
    rp_tensor a = rp_input(c->g, "a", t, RP_SHAPE(size(c, "M", 1), k));
    rp_tensor b = rp_input(c->g, "b", t, trans ? RP_SHAPE(g, n, k) : RP_SHAPE(g, k, n));
    rp_tensor ends =
        rp_input(c->g, "ends", told(c, "wide", 0) ? RP_DTYPE_I64 : RP_DTYPE_I32, RP_SHAPE(g));
    give(c, rp_grouped_mm(a, b, trans, ends));
}

/* factor, betas, scales: in hundredths. With s0, s1, s2: positions of sections. */
static void rope(call *c) {
    rp_rope_args a = {.dim = told(c, "D", 0),
                      .base = (double)told(c, "base", 0),
                      .scaling = (rp_rope_scaling)told(c, "scaling", 0),
                      .factor = (double)told(c, "factor", 0) / 100,
                      .original = told(c, "original", 0),
                      .low_freq_factor = (double)told(c, "low", 0) / 100,
                      .high_freq_factor = (double)told(c, "high", 0) / 100,
                      .beta_fast = (double)told(c, "fast", 0) / 100,
                      .beta_slow = (double)told(c, "slow", 0) / 100,
                      .mscale = (double)told(c, "mscale", 0) / 100,
                      .mscale_all_dim = (double)told(c, "all_dim", 0) / 100,
                      .attention_factor = (double)told(c, "attention", 0) / 100,
                      .sections = {(uint32_t)told(c, "s0", 0), (uint32_t)told(c, "s1", 0),
                                   (uint32_t)told(c, "s2", 0)}};
    const rp_dtype t = told(c, "wide", 0) ? RP_DTYPE_I64 : RP_DTYPE_I32;
    rp_dim n = size(c, "T", 0);
    rp_tensor cos, sin, at = rp_input(c->g, "at", t, a.sections[0] ? RP_SHAPE(3, n) : RP_SHAPE(n));
    rp_rope_tables(at, &a, &cos, &sin);
    give(c, cos);
    give(c, sin);
}

static void nonzero(call *c) {
    const int64_t rank = told(c, "rank", 1);
    rp_dim a = size(c, "A", 0), b = rp_dim_const(told(c, "B", 1)), d = rp_dim_const(2);
    rp_shape s = rank == 1 ? RP_SHAPE(a) : rank == 2 ? RP_SHAPE(a, b) : RP_SHAPE(d, a, b);
    rp_tensor x = rp_input(c->g, "x", (rp_dtype)told(c, "type", RP_DTYPE_F32), s);
    give(c, rp_nonzero(x, told(c, "n", 1), told(c, "fill", -1)));
}

/* --- running ------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*make)(call *c);
} calls[] = {{"sdpa_lse", sdpa_lse},     {"varlen", varlen},
             {"quantized", quantized},   {"rounded_to", rounded_to},
             {"scaled_mm", scaled_mm},   {"searchsorted", searchsorted},
             {"conv3d", conv3d},         {"conv_transpose", conv_transpose},
             {"grouped_mm", grouped_mm}, {"rope", rope},
             {"nonzero", nonzero}};

static void make(call *c) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const size_t n = strlen(calls[i].name);
        if (strncmp(c->line, calls[i].name, n) != 0 || (c->line[n] != ' ' && c->line[n] != '\n'))
            continue;
        calls[i].make(c);
        return;
    }
    fail_msg("%.*s: no such call", (int)(c->end - c->line), c->line);
}

/* Leaves in the sizes of the case: seeds decide what symbols are. */
static void leaves(both *b, const call *c) {
    rp_error err = {0};
    const ir_dims *t = ir_graph_dims(b->g);
    for (uint64_t seed = 1;; seed++) {
        bool ok = true;
        CHECK_OK(both_leaves(b, seed, &err), &err);
        for (uint32_t i = 0; i < ir_dims_symbol_count(t); i++)
            for (uint32_t k = 0; k < c->n_sized; k++)
                if (strcmp(ir_dims_symbol(t, i)->name, c->sized[k]) == 0)
                    ok = ok && b->l.symbols[i] == c->size[k];
        if (ok) return;
        random_leaves_done(&b->l);
        assert_true(seed < 100000);
    }
}

static both made(call *c) {
    rp_error err = {0};
    char *text = NULL;
    both b = {0};
    c->g = rp_graph_new("call");
    make(c);
    const rp_status st = rp_graph_finish(c->g, c->out, c->n_out, &err);
    if (st != RP_OK) fail_msg("%.*s: %s", (int)(c->end - c->line), c->line, err.text);
    CHECK_OK(rp_graph_print(c->g, &text, &err), &err);
    CHECK_OK(ir_parse(text, strlen(text), &b.g, &err), &err);
    leaves(&b, c);
    rp_free(text);
    rp_graph_free(c->g);
    return b;
}

/* The rest of the line at *at behind `word`; *at is the next line. */
static const char *line_of(const char **at, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) fail_msg("%.40s: wants %s", *at, word);
    const char *rest = *at + n;
    *at = strchr(rest, '\n');
    assert_non_null(*at);
    (*at)++;
    return rest;
}

/* i64 is beside the doubles of v. */
static void numbers(rp_dtype t, const char *from, ir_value *v) {
    for (int64_t i = 0; i < v->n; i++) {
        char *end = NULL;
        if (t == RP_DTYPE_I64)
            ir_value_set_int(v, i, strtoll(from, &end, 10));
        else
            v->data[i] = strtod(from, &end);
        if (end == from)
            fail_msg("%.60s: %lld numbers where %lld are wanted", from, (long long)i,
                     (long long)v->n);
        from = end;
    }
    while (*from == ' ') from++;
    if (*from != '\n') fail_msg("%.40s: more numbers than %lld", from, (long long)v->n);
}

static bool is_near(double a, double b, double bound) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(b)) return a == b; /* what is infinitely far off is no rounding */
    return a == b || fabs(a - b) <= bound * fmax(1, fabs(b));
}

static void check(const call *c, const char *who, uint32_t o, const ir_value *got,
                  const ir_value *want, double bound) {
    for (int64_t i = 0; i < want->n; i++)
        if (!is_near(got->data[i], want->data[i], bound))
            fail_msg("%.*s%s, %s: output %u, element %lld is %.9g, torch's %.9g",
                     (int)(c->end - c->line), c->line, c->symbols ? " with symbols" : "", who, o,
                     (long long)i, got->data[i], want->data[i]);
}

static void check_outputs(const call *c, const both *b, const plan_run *gpu_run, const char **at) {
    const uint32_t n = ir_output_count(b->g);
    const plan_run *runs[] = {&b->code, &b->eager, gpu_run};
    static const char *const names[] = {"compiled", "op by op", "on a GPU"};
    ir_value *got[3] = {NULL};
    for (int k = 0; k < 3 && runs[k]; k++) {
        got[k] = base_alloc_array(n + runs[k]->n_input + 1u, sizeof **got);
        assert_non_null(got[k]);
        for (uint32_t o = 0; o < n; o++) got[k][o] = both_room(&b->want[o]);
        for (uint32_t i = 0; i < runs[k]->n_input; i++) got[k][n + i] = both_room(&b->inputs[i]);
        plan_run_values(b->g, runs[k], got[k]);
    }
    for (uint32_t o = 0; o < n; o++) {
        char *values = NULL;
        const double bound = strtod(line_of(at, "out "), &values);
        ir_value want = both_room(&b->want[o]);
        numbers(ir_node_at(b->g, ir_output_at(b->g, o))->dtype, values, &want);
        check(c, "interpreted", o, &b->want[o], &want, bound);
        for (int k = 0; k < 3 && runs[k]; k++) check(c, names[k], o, &got[k][o], &want, bound);
        ir_value_done(&want);
    }
    for (int k = 0; k < 3 && runs[k]; k++) {
        for (uint32_t i = 0; i < n + runs[k]->n_input; i++) ir_value_done(&got[k][i]);
        base_free(got[k]);
    }
}

/* at: behind the line of the call. Gives what is behind the case. */
static const char *run_case(const char *line, const char *at, bool symbols) {
    rp_error err = {0};
    call c = {.line = line, .end = strchr(line, '\n'), .symbols = symbols};
    both b = made(&c);
    plan_run on_gpu = {0};
    for (uint32_t i = 0; i < b.l.n[IR_LEAF_INPUT]; i++)
        numbers(ir_node_at(b.g, ir_leaf_at(b.g, IR_LEAF_INPUT, i))->dtype, line_of(&at, "in"),
                &b.l.leaf[IR_LEAF_INPUT][i]);
    if (both_run(&b, gen_isa_best(), &err) != RP_OK)
        fail_msg("%.*s: %s: %s", (int)(c.end - line), line, b.at, err.text);
    const char *d = both_differ(&b);
    if (d) fail_msg("%.*s: compiled and op by op: %s", (int)(c.end - line), line, d);
    if (!gpu.why_not) {
        const plan_run_options o = both_on_gpu(true, true);
        if (plan_run_graph(b.g, &b.l, &o, &on_gpu, &err) != RP_OK)
            fail_msg("%.*s: on a GPU: %s", (int)(c.end - line), line, err.text);
        d = plan_run_differs(b.g, &b.code, &on_gpu);
        if (d) fail_msg("%.*s: compiled and on a GPU: %s", (int)(c.end - line), line, d);
    }
    check_outputs(&c, &b, gpu.why_not ? NULL : &on_gpu, &at);
    plan_run_done(&on_gpu);
    both_done(&b);
    return at;
}

/* ONLY_CALL=NAME: that one alone. */
static bool is_left_out(const char *line) {
    const char *name = getenv("ONLY_CALL");
    return name && strncmp(line, name, strlen(name)) != 0;
}

static void calls_give_what_torch_gives(void **state) {
    rp_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    unsigned n = 0;
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    CHECK_OK(base_file_read("test/num/torch_calls.txt", (size_t)1 << 24, &text, &bytes, &err),
             &err);
    for (const char *at = text; *at; n++) {
        const char *line = line_of(&at, "call "), *rest = at;
        if (is_left_out(line)) {
            at = strstr(rest, "\ncall ");
            if (!at) break;
            at++;
            continue;
        }
        (void)run_case(line, rest, false);
        at = run_case(line, rest, true);
    }
    assert_true(n > 0);
    base_free(text);
}

/* --- errors ------------------------------------------------------------------------- */

static rp_tensor f32(rp_graph *g, const char *name, rp_shape s) {
    return rp_input(g, name, RP_DTYPE_F32, s);
}

static rp_tensor heads_that_do_not_divide(rp_graph *g) {
    rp_tensor kv = f32(g, "k", RP_SHAPE(2, 5, 4)), lse;
    return rp_sdpa_lse(&(rp_sdpa_args){.q = f32(g, "q", RP_SHAPE(3, 5, 4)), .k = kv, .v = kv},
                       &lse);
}

static rp_tensor cuts_of_two_kinds(rp_graph *g) {
    rp_tensor x = f32(g, "x", RP_SHAPE(5, 2, 4));
    return rp_varlen_attention(
        &(rp_varlen_args){.q = x,
                          .k = x,
                          .v = x,
                          .cu_q = rp_input(g, "a", RP_DTYPE_I32, RP_SHAPE(3)),
                          .cu_k = rp_input(g, "b", RP_DTYPE_I32, RP_SHAPE(4))},
        NULL);
}

static rp_tensor rows_of_two_lengths(rp_graph *g) {
    rp_tensor cu = rp_input(g, "a", RP_DTYPE_I32, RP_SHAPE(3));
    return rp_varlen_attention(&(rp_varlen_args){.q = f32(g, "q", RP_SHAPE(5, 2, 4)),
                                                 .k = f32(g, "k", RP_SHAPE(5, 2, 4)),
                                                 .v = f32(g, "v", RP_SHAPE(6, 2, 4)),
                                                 .cu_q = cu,
                                                 .cu_k = cu},
                               NULL);
}

static rp_tensor quantized_to_i32(rp_graph *g) {
    rp_tensor x = f32(g, "x", RP_SHAPE(5, 2));
    return rp_quantize_affine(x, f32(g, "s", RP_SHAPE(1)), rp_none(), RP_DTYPE_I32);
}

static rp_tensor qparams_of_integers(rp_graph *g) {
    rp_tensor scale;
    rp_choose_qparams(rp_input(g, "x", RP_DTYPE_I32, RP_SHAPE(5, 2)),
                      &(rp_qparams_args){.dtype = RP_DTYPE_I8}, &scale, NULL);
    return scale;
}

static rp_tensor scales_of_no_blocks(rp_graph *g) {
    rp_tensor a = rp_input(g, "a", RP_DTYPE_I8, RP_SHAPE(4, 6)),
              b = rp_input(g, "b", RP_DTYPE_I8, RP_SHAPE(6, 8));
    return rp_scaled_mm(a, b,
                        &(rp_scaled_mm_args){.scale_a = f32(g, "s", RP_SHAPE(4, 4)),
                                             .scale_b = f32(g, "t", RP_SHAPE(1)),
                                             .block = 2});
}

static rp_tensor rows_of_other_numbers(rp_graph *g) {
    return rp_searchsorted(f32(g, "x", RP_SHAPE(2, 3, 9)), f32(g, "v", RP_SHAPE(3, 2, 4)), false);
}

static rp_tensor too_deep_a_kernel(rp_graph *g) {
    return rp_conv3d(f32(g, "x", RP_SHAPE(1, 2, 3, 8, 8)), f32(g, "w", RP_SHAPE(4, 2, 5, 1, 1)),
                     rp_none(), NULL);
}

static rp_tensor channels_of_another(rp_graph *g) {
    return rp_conv_transpose3d(f32(g, "x", RP_SHAPE(1, 4, 3, 8, 8)),
                               f32(g, "w", RP_SHAPE(6, 2, 3, 3, 3)), rp_none(),
                               &(rp_conv3d_args){.groups = 2}, 0);
}

static rp_tensor groups_of_another(rp_graph *g) {
    return rp_grouped_mm(f32(g, "a", RP_SHAPE(6, 4)), f32(g, "b", RP_SHAPE(3, 4, 2)), true,
                         rp_input(g, "e", RP_DTYPE_I32, RP_SHAPE(3)));
}

static rp_tensor sections_of_another_head(rp_graph *g) {
    rp_tensor cos;
    rp_rope_tables(rp_input(g, "at", RP_DTYPE_I32, RP_SHAPE(3, 7)),
                   &(rp_rope_args){.dim = 64, .sections = {16, 24, 24}}, &cos, NULL);
    return cos;
}

static rp_tensor places_of_a_scalar(rp_graph *g) {
    return rp_nonzero(rp_const(g, RP_DTYPE_F32, 1), 3, -1);
}

static const struct {
    rp_tensor (*make)(rp_graph *g);
    const char *text; /* behind the line and the call */
} wrong[] = {
    {heads_that_do_not_divide,
     "scaled_dot_product_attention: wants q [...,H,T,D], k [...,KV,S,D] and v [...,KV,S,DV] with "
     "KV dividing H, not f32[3,5,4], f32[2,5,4] and f32[2,5,4]"},
    {cuts_of_two_kinds,
     "varlen_attention: wants cu_q and cu_k of one type i32[B+1] or i64[B+1], B at least 1, and a "
     "window of 0 or more; not i32[3], i32[4] and 0"},
    {rows_of_two_lengths,
     "varlen_attention: wants q [T,H,D], k [S,KV,D] and v [S,KV,DV] with KV dividing H; not "
     "f32[5,2,4], f32[5,2,4] and f32[6,2,4]"},
    {quantized_to_i32, "quantize_affine: f32[5,2] as i32; it gives i8, u8, f8e4m3fn and f8e5m2"},
    {qparams_of_integers, "choose_qparams: wants floats, not i32[5,2]"},
    {scales_of_no_blocks,
     "scaled_mm: wants [M,K] and [K,N], and of each one scale, one for each row of results, or one "
     "for each block of 2; not i8[4,6] with scales f32[4,4], and i8[6,8] with scales f32[1]"},
    {rows_of_other_numbers,
     "searchsorted: wants sorted [N], or [...,N] and values [...,M] of the same type and axes "
     "before, not f32[2,3,9] and f32[3,2,4]"},
    {groups_of_another,
     "grouped_mm: wants rows [M,K], matrices [G,N,K] and ends i32[G] or i64[G], a group at "
     "least; not f32[6,4], f32[3,4,2] and i32[3]"},
    {sections_of_another_head,
     "rope_tables: positions i32[3,7] with dim 64, which is even, a base above 1, sections 16, 24, "
     "24 and 0, whose sum is dim/2"},
    {places_of_a_scalar,
     "nonzero: 3 places of f32[], filled with -1; wants a tensor with axes, and numbers that i32 "
     "holds"},
    {too_deep_a_kernel,
     "conv3d: x f32[1,2,3,8,8] and weight f32[4,2,5,1,1]: wants [N,C,D,H,W] and "
     "[O,C/groups,KD,KH,KW], C and the weight's sizes known, KD up to 256, groups that divide C "
     "and O, and windows that lie within the padded x"},
    {channels_of_another,
     "conv_transpose: x f32[1,4,3,8,8] and weight f32[6,2,3,3,3]: wants [N,C,D,H,W] and "
     "[C,O/groups,...] with as many axes, of known size, groups that divide C, and extra 0 below "
     "the strides"},
};

static void what_calls_cannot_take_is_told(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("wrong");
        rp_tensor y = wrong[i].make(g);
        assert_int_not_equal(rp_graph_finish(g, &y, 1, &err), RP_OK);
        if (!strstr(err.text, wrong[i].text) || !strstr(err.text, "torch_calls.c:"))
            fail_msg("%s\nnot: %s", err.text, wrong[i].text);
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_give_what_torch_gives),
        cmocka_unit_test(what_calls_cannot_take_is_told),
    };
    return cmocka_run_group_tests_name("num/torch_calls", tests, both_gpu_set_up,
                                       both_gpu_tear_down);
}
