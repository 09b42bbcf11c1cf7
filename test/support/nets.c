#include "support/nets.h"
#include "support/gpu_graphs.h"
#include "trace/trace.h"

#include <math.h>
#include <time.h>

enum { SYMBOL_MAX = 64, SAMPLES = 48 };

/* --- leaves ------------------------------------------------------------------------ */

static rp_tensor leaf(net *n, const char *name, rp_shape shape, net_leaf l) {
    assert_true(n->n_leaves < NET_LEAVES);
    net_leaf *to = &n->leaf[n->n_leaves++];
    *to = l;
    (void)snprintf(to->name, sizeof to->name, "%s", name);
    rp_dtype t = l.below ? RP_DTYPE_I32 : RP_DTYPE_F32;
    to->tensor = (l.is_input   ? rp_input
                  : l.is_state ? rp_state
                               : rp_param)(n->g, to->name, t, shape);
    return to->tensor;
}

rp_tensor net_input(net *n, const char *name, rp_shape shape, double scale) {
    return leaf(n, name, shape, (net_leaf){.is_input = true, .scale = scale});
}

rp_tensor net_ids(net *n, const char *name, rp_shape shape, uint32_t below) {
    return leaf(n, name, shape, (net_leaf){.is_input = true, .below = below});
}

rp_tensor net_weight(net *n, const char *name, rp_shape shape, double scale) {
    return leaf(n, name, shape, (net_leaf){.scale = scale});
}

rp_tensor net_around(net *n, const char *name, rp_shape shape, double offset, double scale) {
    return leaf(n, name, shape, (net_leaf){.scale = scale, .offset = offset});
}

rp_tensor net_state(net *n, const char *name, rp_shape shape, double scale) {
    return leaf(n, name, shape, (net_leaf){.is_state = true, .scale = scale});
}

void net_output(net *n, rp_tensor x) {
    assert_true(n->n_out < NET_OUTPUTS);
    n->out[n->n_out++] = x;
}

const char *net_join(const char *a, const char *b) {
    static char text[64];
    (void)snprintf(text, sizeof text, "%s.%s", a, b);
    return text;
}

/* Wellons' lowbias32. */
static uint32_t mixed(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static size_t count(const rp_buffer *b) {
    size_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++) n *= (size_t)b->dim[i];
    return n;
}

/* A buffer for x, whose sizes are numbers. */
static rp_buffer buffer_of(rp_tensor x) {
    rp_shape s = rp_tensor_shape(x);
    rp_buffer b = {.dtype = rp_tensor_dtype(x), .rank = s.rank};
    for (uint32_t i = 0; i < s.rank; i++) assert_true(rp_dim_is_const(s.dim[i], &b.dim[i]));
    b.data = calloc(count(&b) + 16, rp_dtype_block_bytes(b.dtype));
    assert_non_null(b.data);
    return b;
}

/* Values depend on the leaf's name and the place in it (FNV-1a, then mixed). */
static void fill(net_leaf *l) {
    uint32_t seed = 2166136261u;
    for (const char *s = l->name; *s; s++) seed = (seed ^ (unsigned char)*s) * 16777619u;
    l->buffer = buffer_of(l->tensor);
    if (l->is_state) l->memory = buffer_of(l->tensor).data;
    for (size_t i = 0; i < count(&l->buffer); i++) {
        uint32_t h = mixed((uint32_t)i ^ mixed(seed));
        if (l->below)
            ((int32_t *)l->buffer.data)[i] = (int32_t)(h % l->below);
        else
            ((float *)l->buffer.data)[i] =
                (float)(l->offset + ((double)(h >> 8) * 0x1p-23 - 1.0) * l->scale);
    }
}

/* --- graphs --------------------------------------------------------------------------- */

/* T 0: a symbol. */
static net build(const net_case *c, int64_t k, int64_t T) {
    rp_error err = {0};
    net n = {.g = rp_graph_new(c->name), .k = k};
    assert_non_null(n.g);
    n.T = T ? rp_dim_const(T) : rp_symbol(n.g, "T", 1, SYMBOL_MAX);
    c->build(&n);
    if (rp_graph_finish(n.g, n.out, n.n_out, &err) != RP_OK) fail_msg("%s: %s", c->name, err.text);
    return n;
}

static rp_compiled *compile(const net_case *c, const net *n, int level, int threads) {
    rp_error err = {0};
    rp_compiled *code = NULL;
    rp_compilation_config *cfg = rp_config_new();
    char setting[32];
    (void)snprintf(setting, sizeof setting, "level=%d", level);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    (void)snprintf(setting, sizeof setting, "threads=%d", threads);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    if (rp_compile(n->g, cfg, &code, &err) != RP_OK)
        fail_msg("%s at level %d: %s", c->name, level, err.text);
    rp_config_free(cfg);
    return code;
}

/* Runs code on the leaves of `sized`, a graph with numbers. out: buffers of its outputs, whose data is overwritten. */
static void run(const net_case *c, rp_compiled *code, const net *sized, rp_buffer *out) {
    rp_error err = {0};
    rp_buffer in[NET_LEAVES];
    uint32_t n_in = 0;
    for (uint32_t i = 0; i < sized->n_leaves; i++) {
        const net_leaf *l = &sized->leaf[i];
        void *data = l->is_state ? l->memory : l->buffer.data;
        if (l->is_state) memcpy(data, l->buffer.data, count(&l->buffer) * sizeof(float));
        if (l->is_input)
            in[n_in++] = l->buffer;
        else
            CHECK_OK(rp_compiled_bind(code, l->name, data, &err), &err);
    }
    rp_buffer told[NET_OUTPUTS];
    CHECK_OK(rp_compiled_outputs(code, in, n_in, told, sized->n_out, &err), &err);
    for (uint32_t i = 0; i < sized->n_out; i++)
        for (uint32_t d = 0; d < out[i].rank; d++)
            assert_true(told[i].rank == out[i].rank && told[i].dim[d] == out[i].dim[d]);
    for (uint32_t i = 0; i < sized->n_out; i++)
        memset(out[i].data, 0xa5, count(&out[i]) * rp_dtype_block_bytes(out[i].dtype));
    if (rp_compiled_run(code, in, n_in, out, sized->n_out, &err) != RP_OK)
        fail_msg("%s: %s", c->name, err.text);
}

static void done(net *n) {
    for (uint32_t i = 0; i < n->n_leaves; i++) {
        free(n->leaf[i].buffer.data);
        free(n->leaf[i].memory);
    }
    rp_graph_free(n->g);
}

/* --- comparing -------------------------------------------------------------------------- */

static double value_at(const rp_buffer *b, size_t i) {
    switch (b->dtype) {
    case RP_DTYPE_F32: return (double)((const float *)b->data)[i];
    case RP_DTYPE_I32: return ((const int32_t *)b->data)[i];
    case RP_DTYPE_BOOL: return ((const uint8_t *)b->data)[i];
    default: fail_msg("outputs of %s are not read here", rp_dtype_name(b->dtype));
    }
    return 0;
}

/* Elements 0, step, 2*step... of all n, around: step is odd, and near n / SAMPLES. */
static size_t sample(size_t n, size_t i) {
    return i * (n / SAMPLES | 1) % n;
}

/* The line of output o for size T: "NAME T o COUNT: value value ...". */
static char *oracle_line(const net_case *c, int64_t T, uint32_t o, size_t n) {
    static char line[4096];
    char head[128];
    (void)snprintf(head, sizeof head, "%s %lld %u %zu: ", c->name, (long long)T, o, n);
    FILE *f = fopen("test/nets/oracle.txt", "r");
    if (!f) fail_msg("test/nets/oracle.txt cannot be read; run from the top of the tree");
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) found = strncmp(line, head, strlen(head)) == 0;
    (void)fclose(f);
    if (!found) fail_msg("test/nets/oracle.txt has no line '%s'; oracle.py writes it", head);
    return line + strlen(head);
}

/* Values of torch: near for floats, the same for whole numbers. */
static void is_torchs(const net_case *c, int64_t T, uint32_t o, const rp_buffer *got) {
    size_t n = count(got), most = n < SAMPLES ? n : SAMPLES;
    char *at = oracle_line(c, T, o, n);
    double want[SAMPLES], largest = 1, bound;
    for (size_t i = 0; i < most; i++) {
        want[i] = strtod(at, &at);
        if (fabs(want[i]) > largest) largest = fabs(want[i]);
    }
    bound = got->dtype == RP_DTYPE_F32 ? 1e-5 * largest : 0;
    for (size_t i = 0; i < most; i++) {
        double v = value_at(got, sample(n, i));
        if (!(fabs(v - want[i]) <= bound) && !(v == want[i]))
            fail_msg("%s, T=%lld: output %u[%zu] is %.9g, torch's %.9g", c->name, (long long)T, o,
                     sample(n, i), v, want[i]);
    }
}

static void same_bits(const net_case *c, const char *what, int64_t T, const rp_buffer *a,
                      const rp_buffer *b, uint32_t n_out) {
    for (uint32_t o = 0; o < n_out; o++) {
        size_t n = count(&a[o]), size = rp_dtype_block_bytes(a[o].dtype);
        if (memcmp(a[o].data, b[o].data, n * size) == 0) continue;
        size_t i = 0;
        while (memcmp((char *)a[o].data + i * size, (char *)b[o].data + i * size, size) == 0) i++;
        fail_msg("%s, T=%lld, %s: output %u[%zu] is %.9g, and %.9g at level 0, T a symbol", c->name,
                 (long long)T, what, o, i, value_at(&b[o], i), value_at(&a[o], i));
    }
}

/* --- checks ---------------------------------------------------------------------------- */

typedef struct code {
    rp_compiled *c;
    char what[48];
} code;

enum { MOST_CODES = 16 };

static uint32_t compile_all(const net_case *c, const net *n, const char *form, code *out) {
    uint32_t n_codes = 0;
    for (int level = 0; level <= 3; level++)
        for (int threads = 1; threads <= 2; threads++) {
            code *k = &out[n_codes++];
            k->c = compile(c, n, level, threads);
            (void)snprintf(k->what, sizeof k->what, "%s, level %d, %d threads", form, level,
                           threads);
        }
    return n_codes;
}

static void check_size(const net_case *c, int64_t T, const code *codes, uint32_t n_codes,
                       const net *sized) {
    rp_buffer want[NET_OUTPUTS], got[NET_OUTPUTS];
    for (uint32_t o = 0; o < sized->n_out; o++) {
        want[o] = buffer_of(sized->out[o]);
        got[o] = buffer_of(sized->out[o]);
    }
    run(c, codes[0].c, sized, want);
    for (uint32_t o = 0; o < sized->n_out; o++) is_torchs(c, T, o, &want[o]);
    for (uint32_t i = 1; i < n_codes; i++) {
        run(c, codes[i].c, sized, got);
        same_bits(c, codes[i].what, T, want, got, sized->n_out);
    }
    for (uint32_t o = 0; o < sized->n_out; o++) {
        free(want[o].data);
        free(got[o].data);
    }
}

/* T as a symbol for all sizes; as a number for the first one, too, which gives the same bits. */
void net_check(const net_case *c) {
    code codes[MOST_CODES];
    net symbolic = build(c, 1, 0);
    uint32_t n = compile_all(c, &symbolic, "T a symbol", codes);
    for (uint32_t i = 0; i < NET_SIZES && c->sizes[i]; i++) {
        net sized = build(c, 1, c->sizes[i]);
        for (uint32_t l = 0; l < sized.n_leaves; l++) fill(&sized.leaf[l]);
        uint32_t m = i == 0 ? compile_all(c, &sized, "T a number", codes + n) : 0;
        check_size(c, c->sizes[i], codes, n + m, &sized);
        while (m > 0) rp_compiled_free(codes[n + --m].c);
        done(&sized);
    }
    for (uint32_t k = 0; k < n; k++) rp_compiled_free(codes[k].c);
    done(&symbolic);
}

/* --- by hand ----------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void net_time(const net_case *c, int64_t k, int64_t T) {
    net n = build(c, k, T);
    rp_buffer out[NET_OUTPUTS];
    for (uint32_t l = 0; l < n.n_leaves; l++) fill(&n.leaf[l]);
    for (uint32_t o = 0; o < n.n_out; o++) out[o] = buffer_of(n.out[o]);
    printf("%-12s k=%lld T=%lld", c->name, (long long)k, (long long)T);
    for (int level = 0; level <= 2; level += 2) {
        double began = now(), best = HUGE_VAL;
        rp_compiled *made = compile(c, &n, level, 2);
        double compiled = now();
        run(c, made, &n, out);
        for (int i = 0; i < 5; i++) {
            double t = now();
            run(c, made, &n, out);
            if (now() - t < best) best = now() - t;
        }
        printf("  level %d: compile %.0f ms, run %.2f ms", level, compiled - began, best);
        rp_compiled_free(made);
    }
    printf("\n");
    for (uint32_t o = 0; o < n.n_out; o++) free(out[o].data);
    done(&n);
}

static void check_one(void **state) {
    net_check(*state);
}

/* --- on a GPU ------------------------------------------------------------------------------ */

typedef struct net_list {
    const net_case *cases;
    size_t n;
} net_list;

/* All of them with T as a symbol, and where there is a GPU, which then runs them, also as a number. */
static void gpus_take_them(void **state) {
    static gpu_graphs q;
    const net_list *list = *state;
    if (!gpu_graphs_open(GPU_GRAPHS_RUN, &q) && !gpu_graphs_open(GPU_GRAPHS_COMPILE, &q))
        SKIP_TEST("no libnvrtc on this machine");
    for (size_t i = 0; i < 2 * list->n; i++) {
        const net_case *c = &list->cases[i / 2];
        net n = build(c, 1, i % 2 ? c->sizes[0] : 0);
        base_buf text;
        base_buf_init(&text, 0);
        ir_print(trace_graph_ir(n.g), &text);
        assert_false(text.failed);
        if (q.device || i % 2 == 0) gpu_graphs_add_text(&q, text.data, false);
        base_buf_done(&text);
        rp_graph_free(n.g);
    }
    gpu_graphs_check(&q);
    gpu_graphs_close(&q);
}

int net_main(const net_case *cases, size_t n, int argc, char **argv) {
    struct CMUnitTest tests[64] = {{0}};
    if (argc == 5 && strcmp(argv[1], "time") == 0) {
        for (size_t i = 0; i < n; i++)
            if (strcmp(argv[2], "all") == 0 || strcmp(argv[2], cases[i].name) == 0)
                net_time(&cases[i], strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
        return 0;
    }
    net_list list = {cases, n};
    assert_true(n < sizeof tests / sizeof *tests);
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = check_one,
                                       .initial_state = (void *)(uintptr_t)&cases[i]};
    tests[n] = (struct CMUnitTest){
        .name = "gpus_take_them", .test_func = gpus_take_them, .initial_state = &list};
    const bool alone = argc == 2 && strcmp(argv[1], "gpu") == 0;
    return _cmocka_run_group_tests("nets", tests + (alone ? n : 0), alone ? 1 : n + 1, NULL, NULL);
}
