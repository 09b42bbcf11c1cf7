#include "support/compiled_device.h"

#include "support/at_once.h"
#include "support/devices.h"

enum { V = 11, K = 48, N = 40, MOST = 24, THREADS = 3, CALLS = 6 };

static float table[V * K], w[N * K], bias[N];

static void fill(float *p, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
}

/* h = table[ids] + m, which m becomes; softmax(exp(h) w^T + bias); sum += the rows of h. */
static rp_compiled *compile(rp_device *d, const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("device");
    rp_compilation_config *cfg = rp_config_new();
    rp_dim b = rp_symbol(g, "B", 0, MOST);
    rp_tensor ids = rp_input(g, "ids", RP_DTYPE_I32, RP_SHAPE(b));
    rp_tensor m = rp_mutable_input(g, "m", RP_DTYPE_F32, RP_SHAPE(b, K));
    rp_tensor t = rp_param(g, "table", RP_DTYPE_F32, RP_SHAPE(V, K));
    rp_tensor sum = rp_state(g, "sum", RP_DTYPE_F32, RP_SHAPE(K));
    rp_tensor h = rp_update(m, rp_add(rp_gather(t, ids), m));
    rp_tensor p = rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(N, K));
    rp_tensor y = rp_matmul(rp_exp(h), p, true);
    y = rp_softmax(rp_add(y, rp_param(g, "bias", RP_DTYPE_F32, RP_SHAPE(N))), -1);
    rp_tensor out[] = {y, rp_update(sum, rp_add(sum, rp_sum(h, 0, false)))};
    CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

/* --- memory ------------------------------------------------------------------------ */

typedef enum place { HOST, DEVICE, BETWEEN, PLACES } place; /* BETWEEN: not aligned */

typedef struct block {
    void *host, *base, *at; /* base NULL: at is host */
    size_t size;
} block;

static block block_new(rp_device *d, rp_stream *s, void *host, size_t size, place where) {
    rp_error err = {0};
    block b = {.host = host, .at = host, .size = size};
    if (where == HOST) return b;
    CHECK_OK(rp_device_alloc(d, size + 4, &b.base, &err), &err);
    b.at = (char *)b.base + (where == BETWEEN ? 4 : 0);
    CHECK_OK(rp_stream_copy(s, b.at, host, size, &err), &err);
    CHECK_OK(rp_stream_synchronize(s, &err), &err);
    return b;
}

static void block_done(rp_device *d, rp_stream *s, const block *b) {
    rp_error err = {0};
    if (!b->base) return;
    CHECK_OK(rp_stream_copy(s, b->host, b->at, b->size, &err), &err);
    CHECK_OK(rp_stream_synchronize(s, &err), &err);
    rp_device_free(d, b->base);
}

typedef struct values {
    int32_t ids[MOST];
    float m[MOST * K], y[MOST * N], total[K], sum[K];
} values;

static void values_init(values *v, int seed) {
    memset(v, 0, sizeof *v);
    for (int i = 0; i < MOST; i++) v->ids[i] = (i * 7 + seed) % V;
    fill(v->m, MOST * K, (unsigned)seed + 1);
    fill(v->sum, K, (unsigned)seed + 2);
}

/* One call; places: of ids, m, y and total, in base PLACES. */
static rp_status call(rp_compiled *c, rp_device *d, rp_stream *s, bool on_stream, values *v, int b,
                      int places, rp_error *err) {
    block at[4] = {block_new(d, s, v->ids, (size_t)b * 4, (place)(places % PLACES)),
                   block_new(d, s, v->m, (size_t)b * K * 4, (place)(places / 3 % PLACES)),
                   block_new(d, s, v->y, (size_t)b * N * 4, (place)(places / 9 % PLACES)),
                   block_new(d, s, v->total, K * 4, (place)(places / 27 % PLACES))};
    rp_buffer in[] = {{RP_DTYPE_I32, 1, {b}, at[0].at}, {RP_DTYPE_F32, 2, {b, K}, at[1].at}};
    rp_buffer out[] = {{RP_DTYPE_F32, 2, {b, N}, at[2].at}, {RP_DTYPE_F32, 1, {K}, at[3].at}};
    rp_status st = on_stream ? rp_compiled_run_on(c, s, in, 2, out, 2, err)
                             : rp_compiled_run(c, in, 2, out, 2, err);
    for (int i = 0; i < 4; i++) block_done(d, s, &at[i]);
    return st;
}

static void bind(rp_compiled *c, const float *t, float *p, float *sum) {
    rp_error err = {0};
    CHECK_OK(rp_compiled_bind(c, "table", (void *)(uintptr_t)t, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "w", p, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "bias", bias, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "sum", sum, &err), &err);
}

/* --- one thread ------------------------------------------------------------------------ */

/* Sizes go up and down, buffers from place to place, two calls in a row see what the first one left. */
static void check_level(rp_device *d, const char *setting) {
    rp_error err = {0};
    static values got, want;
    rp_stream *s = stream_open_ok(d);
    rp_compiled *c = compile(d, setting), *cpu = compile(NULL, setting);
    for (int turn = 0; turn < 9; turn++) {
        const int b = (int[]){3, 1, MOST, 0, 8}[turn % 5];
        values_init(&want, turn);
        got = want;
        block sum = block_new(d, s, got.sum, sizeof got.sum, DEVICE);
        block weights = block_new(d, s, w, sizeof w, turn % 2 ? DEVICE : HOST);
        block rows = block_new(d, s, table, sizeof table, (place)(turn % 3));
        if (turn == 4) fill(w, N * K, 99);
        bind(cpu, table, w, want.sum);
        bind(c, rows.at, turn == 4 ? w : weights.at, sum.at);
        for (int again = 0; again < 2; again++) {
            CHECK_OK(call(cpu, d, s, false, &want, b, 0, &err), &err);
            CHECK_OK(call(c, d, s, turn & 1, &got, b, turn * 10 + again, &err), &err);
        }
        block_done(d, s, &sum);
        if (turn != 4) block_done(d, s, &weights);
        block_done(d, s, &rows);
        assert_memory_equal(&got, &want, sizeof got);
    }
    rp_compiled_free(c);
    rp_compiled_free(cpu);
    rp_stream_close(s);
}

void compiled_device_check(const char *name) {
    rp_device_info info = RP_DEVICE_INFO_INIT;
    rp_error err = {0};
    rp_device *d = device_open_ok(name, 1);
    fill(table, V * K, 1);
    fill(w, N * K, 2);
    fill(bias, N, 3);
    check_level(d, "level=0");
    check_level(d, "level=2");
    CHECK_OK(rp_device_get_info(d, &info, &err), &err);
    assert_int_equal(info.allocated, 0);
    rp_device_close(d);
}

/* --- several ---------------------------------------------------------------------------- */

typedef struct caller {
    rp_compiled *c;
    rp_device *d;
    rp_stream *s;
    bool on_stream;
    int b, wrong;
    values first, want, v;
    rp_error err;
} caller;

static void *call_often(void *arg) {
    caller *me = arg;
    for (int i = 0; i < CALLS && me->err.code == RP_OK; i++) {
        me->v = me->first;
        rp_buffer in[] = {{RP_DTYPE_I32, 1, {me->b}, me->v.ids},
                          {RP_DTYPE_F32, 2, {me->b, K}, me->v.m}};
        rp_buffer out = {RP_DTYPE_F32, 2, {me->b, N}, me->v.y};
        rp_status st = me->on_stream ? rp_compiled_run_on(me->c, me->s, in, 2, &out, 1, &me->err)
                                     : rp_compiled_run(me->c, in, 2, &out, 1, &me->err);
        if (st != RP_OK) break;
        me->wrong += memcmp(&me->v, &me->want, sizeof me->v) != 0;
    }
    return NULL;
}

/* Without a state, so that calls need take no turns. */
static rp_compiled *compile_pure(rp_device *d) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("pure");
    rp_dim b = rp_symbol(g, "B", 1, MOST);
    rp_tensor ids = rp_input(g, "ids", RP_DTYPE_I32, RP_SHAPE(b));
    rp_tensor m = rp_mutable_input(g, "m", RP_DTYPE_F32, RP_SHAPE(b, K));
    rp_tensor t = rp_param(g, "table", RP_DTYPE_F32, RP_SHAPE(V, K));
    rp_tensor h = rp_update(m, rp_add(rp_gather(t, ids), m));
    rp_tensor y = rp_matmul(h, rp_param(g, "w", RP_DTYPE_F32, RP_SHAPE(N, K)), true);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(d, g, NULL, &c, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "table", table, &err), &err);
    CHECK_OK(rp_compiled_bind(c, "w", w, &err), &err);
    rp_graph_free(g);
    return c;
}

void compiled_device_check_threads(const char *name) {
    static caller callers[THREADS];
    rp_device *d = device_open_ok(name, 1);
    rp_compiled *c = compile_pure(d), *cpu = compile_pure(NULL);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.c = cpu, .d = d, .s = stream_open_ok(d), .b = MOST - i};
        values_init(&callers[i].first, i);
        (void)call_often(&callers[i]);
        callers[i].want = callers[i].v;
        callers[i].wrong = 0;
        callers[i].c = c;
        callers[i].on_stream = i > 0;
    }
    at_once(call_often, callers, sizeof *callers, THREADS);
    for (int i = 0; i < THREADS; i++) {
        if (callers[i].err.code != RP_OK) fail_msg("%s", callers[i].err.text);
        assert_int_equal(callers[i].wrong, 0);
        rp_stream_close(callers[i].s);
    }
    rp_compiled_free(c);
    rp_compiled_free(cpu);
    rp_device_close(d);
}

/* --- as text ---------------------------------------------------------------------------- */

void compiled_device_check_eval(void) {
    static const char text[] = "graph @g(%x: f32[T,8], %i: i32[T]) where T in [1,64] {\n"
                               "  %k = state @k : f32[4,8]\n  %p = param @p : f32[8,8]\n"
                               "  %y = matmul %x, %p {trans_b=true}\n  %s = sum %y {axis=0, "
                               "keep=true}\n  %n = add %k, %s\n"
                               "  %v = update %k, %n\n  ret %y, %v\n}\n";
    rp_error err = {0};
    rp_graph *g = NULL;
    char *cpu = NULL, *gpu = NULL;
    CHECK_OK(rp_graph_parse(text, sizeof text - 1, &g, &err), &err);
    CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_CPU, 5, "T=9", &cpu, &err), &err);
    CHECK_OK(rp_graph_eval_text(g, RP_BACKEND_CUDA, 5, "T=9", &gpu, &err), &err);
    assert_string_equal(cpu, gpu);
    rp_free(cpu);
    rp_free(gpu);
    rp_graph_free(g);
}

/* --- refusals ------------------------------------------------------------------------ */

static rp_status do_nothing(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                            rp_error *err) {
    (void)call, (void)args, (void)n_args, (void)err;
    return RP_OK;
}

static void check_custom(rp_device *d) {
    static const rp_op_desc desc = {
        .size = sizeof desc, .name = "test::host_alone", .cpu = do_nothing};
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("custom");
    CHECK_OK(rp_op_register(&desc, &err), &err);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4));
    rp_tensor y = rp_custom(g, desc.name, &x, 1, RP_DTYPE_F32, RP_SHAPE(4));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    assert_int_equal(rp_compile_on(d, g, NULL, &c, &err), RP_UNSUPPORTED);
    assert_memory_equal(err.text, __FILE__ ":", sizeof __FILE__);
    assert_non_null(
        strstr(err.text, ": custom op test::host_alone runs on the host; use device=cpu"));
    assert_null(c);
    rp_graph_free(g);
}

static rp_status never_runs(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    (void)user, (void)call, (void)args, (void)result, (void)err;
    return RP_INTERNAL;
}

/* What no GPU does is refused where the device is given, too, and the configuration is as it was. */
static void check_setting(rp_device *d) {
    static const char told[] = "pass_config.fuse_attn_quant=true is not supported on cuda";
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_jit *f = NULL;
    char *said = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("set");
    rp_tensor y = rp_exp(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)));
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "pass_config.fuse_attn_quant=true", &err), &err);
    assert_int_equal(rp_compile_on(d, g, cfg, &c, &err), RP_UNSUPPORTED);
    assert_memory_equal(err.text, told, sizeof told - 1);
    CHECK_OK(rp_config_get_json(cfg, "device", &said, &err), &err);
    assert_string_equal(said, "\"cpu\"");
    rp_jit_options o = RP_JIT_OPTIONS(never_runs);
    o.config = cfg;
    o.device = d;
    assert_int_equal(rp_jit_new(&o, &f, &err), RP_UNSUPPORTED);
    assert_memory_equal(err.text, told, sizeof told - 1);
    CHECK_OK(rp_config_set(cfg, "device=null", &err), &err);
    assert_int_equal(rp_jit_new(&o, &f, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "device=null, but the device that is given was opened as "));
    rp_config_text_free(said);
    rp_graph_free(g);
    rp_config_free(cfg);
}

/* x w^T of tensor cores where there are some. */
static rp_compiled *compile_product(rp_device *d, rp_dtype type) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("loads");
    rp_compilation_config *cfg = rp_config_new();
    rp_tensor x = rp_input(g, "x", type, RP_SHAPE(rp_symbol(g, "B", 1, MOST), K));
    rp_tensor y = rp_matmul(x, rp_param(g, "w", RP_DTYPE_BF16, RP_SHAPE(N, K)), true);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

void compiled_device_check_loads(const char *name) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_BF16};
    static uint16_t weights[N * K], halves[MOST * K];
    static float x[MOST * K], want[MOST * N], got[MOST * N];
    rp_error err = {0};
    rp_device *d = device_open_ok(name, 1);
    rp_stream *s = stream_open_ok(d);
    fill(x, MOST * K, 5);
    for (int i = 0; i < N * K; i++) weights[i] = (uint16_t)(0x3f00 + i % 256);
    for (int i = 0; i < MOST * K; i++) halves[i] = (uint16_t)(0x3e80 + i % 251);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const bool wide = types[t] == RP_DTYPE_F32;
        rp_compiled *c = compile_product(d, types[t]);
        CHECK_OK(rp_compiled_bind(c, "w", weights, &err), &err);
        for (int b = 1; b <= MOST; b += 1 + b)
            for (int where = 0; where < PLACES * PLACES; where++) {
                float *to = where ? got : want;
                const size_t in_size = (size_t)b * K * (wide ? 4 : 2);
                block in =
                    block_new(d, s, wide ? (void *)x : halves, in_size, (place)(where % PLACES));
                block out = block_new(d, s, to, (size_t)b * N * 4, (place)(where / PLACES));
                rp_buffer of = {types[t], 2, {b, K}, in.at}, y = {RP_DTYPE_F32, 2, {b, N}, out.at};
                CHECK_OK(rp_compiled_run_on(c, s, &of, 1, &y, 1, &err), &err);
                block_done(d, s, &in);
                block_done(d, s, &out);
                assert_memory_equal(to, want, (size_t)b * N * 4);
            }
        rp_compiled_free(c);
    }
    rp_stream_close(s);
    rp_device_close(d);
}

void compiled_device_check_refusals(const char *name) {
    static float sum[K];
    rp_error err = {0};
    rp_device *d = device_open_ok(name, 1);
    rp_compiled *c = compile(d, "level=2");
    assert_int_equal(rp_compiled_bind(c, "sum", sum, &err), RP_INVALID);
    assert_string_equal(
        err.text, "bind: state 'sum' of graph @device must be memory of the device, aligned to "
                  "16 bytes, since calls leave their values there; take it by rp_device_alloc");
    rp_compiled_free(c);
    check_custom(d);
    check_setting(d);
    rp_device_close(d);
}
