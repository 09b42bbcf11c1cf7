#include "support/viewed_calls.h"

#include "support/devices.h"

enum { ROOM = 1 << 14, MIDDLE = ROOM / 2, MOST = 216, TENSORS = 4, MOST_DIM = 6 };

static uint64_t seed = 1;

static int64_t draw(int64_t below) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

/* y = x + m, z = f16(x) * 2, m = m * 2; x [A,B,C], m [A,C], both of f32. */
static rp_compiled *compile(rp_device *d, const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("views");
    rp_compilation_config *cfg = rp_config_new();
    rp_dim a = rp_symbol(g, "A", 0, MOST_DIM), b = rp_symbol(g, "B", 0, MOST_DIM);
    rp_dim k = rp_symbol(g, "C", 0, MOST_DIM);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(a, b, k));
    rp_tensor m = rp_mutable_input(g, "m", RP_DTYPE_F32, RP_SHAPE(a, k));
    rp_tensor y = rp_add(x, rp_reshape(m, RP_SHAPE(a, 1, k)));
    rp_tensor z = rp_cast(rp_mul_scalar(x, 2), RP_DTYPE_F16);
    (void)rp_update(m, rp_mul_scalar(m, 2));
    rp_tensor out[] = {y, z};
    CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(d ? rp_compile_on(d, g, cfg, &c, &err) : rp_compile(g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

/* --- drawn views ------------------------------------------------------------------------- */

/* One tensor of a call, in a room of its own. */
typedef struct tensor {
    char before[ROOM], want[ROOM], after[ROOM];
    _Alignas(16) char dense[MOST * 4];
    rp_view v;  /* of the room of the host */
    void *base; /* of the device; NULL: there is none */
    bool written, dense_view;
} tensor;

static int64_t count(const rp_buffer *b) {
    int64_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++) n *= b->dim[i];
    return n;
}

/* Where element n is in the room. */
static int64_t place(const tensor *t, int64_t n) {
    const rp_buffer *b = &t->v.tensor;
    int64_t at = t->v.offset;
    for (uint32_t i = b->rank; i-- > 0; n /= b->dim[i]) at += n % b->dim[i] * t->v.stride[i];
    return (char *)b->data - t->before + at * (int64_t)rp_dtype_block_bytes(b->dtype);
}

/* Axes in any order, from the fastest on, with gaps between neighbours; those that are only read may stand still or overlap. */
static void draw_strides(tensor *t) {
    const rp_buffer *b = &t->v.tensor;
    uint32_t order[3] = {2, 1, 0};
    int64_t next = 1 + !draw(3);
    for (uint32_t i = b->rank; i-- > 1;) {
        uint32_t k = (uint32_t)draw(i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    if (b->rank == 2)
        for (uint32_t i = 0; i < 2; i++) order[i] = order[i] % 2;
    if (b->rank == 2 && order[0] == order[1]) order[0] = 1 - order[1];
    for (uint32_t i = 0; i < b->rank; i++) {
        uint32_t axis = order[i];
        t->v.stride[axis] = draw(3) ? next : -next;
        if (!t->written && !draw(5)) t->v.stride[axis] = draw(5) - 2;
        next = next * (b->dim[axis] > 0 ? b->dim[axis] : 1) + draw(3);
    }
}

/* What is drawn. */
typedef struct drawing {
    int forms;  /* of so many sizes; 0: of any */
    bool views; /* none may be used where it lies */
} drawing;

static void draw_tensor(const drawing *d, tensor *t, rp_dtype dtype, uint32_t rank,
                        const int64_t *dim, bool written) {
    rp_buffer b = {.dtype = dtype, .rank = rank, .data = t->before + MIDDLE};
    memcpy(b.dim, dim, rank * sizeof *dim);
    t->written = written;
    t->dense_view = !draw(4) && !d->views;
    t->v = rp_view_dense(b);
    if (!t->dense_view) {
        draw_strides(t);
        t->v.offset = draw(40) - 20;
        if (!draw(4) || d->views) t->v.tensor.data = t->before + MIDDLE + 1;
    }
    for (int i = 0; i < ROOM; i++) t->before[i] = (char)draw(256);
    for (int64_t n = 0; n < count(&b) && !written; n++) {
        float f = (float)(draw(4001) - 2000) / 8;
        memcpy(t->before + place(t, n), &f, sizeof f);
    }
    memset(t->dense, 0, sizeof t->dense);
}

/* Numbers in what is written and read, too. */
static void fill_floats(tensor *t) {
    for (int64_t n = 0; n < count(&t->v.tensor); n++) {
        float f = (float)(draw(4001) - 2000) / 8;
        memcpy(t->before + place(t, n), &f, sizeof f);
    }
}

static size_t element_of(const tensor *t) {
    return rp_dtype_block_bytes(t->v.tensor.dtype);
}

static rp_buffer dense_of(tensor *t) {
    rp_buffer b = t->v.tensor;
    b.data = t->dense;
    return b;
}

static void gather(tensor *t) {
    size_t one = element_of(t);
    for (int64_t n = 0; n < count(&t->v.tensor); n++)
        memcpy(t->dense + (size_t)n * one, t->before + place(t, n), one);
}

static void expect(tensor *t) {
    size_t one = element_of(t);
    memcpy(t->want, t->before, ROOM);
    for (int64_t n = 0; n < count(&t->v.tensor) && t->written; n++)
        memcpy(t->want + place(t, n), t->dense + (size_t)n * one, one);
}

/* --- memory ---------------------------------------------------------------------------------- */

/* The view as a call is given it, in memory of the host or of d. */
static rp_view put(rp_device *d, rp_stream *s, tensor *t) {
    rp_error err = {0};
    rp_view v = t->v;
    size_t skipped = (size_t)((char *)v.tensor.data - t->before);
    t->base = NULL;
    memcpy(t->after, t->before, ROOM);
    v.tensor.data = t->after + skipped;
    if (draw(2)) return v;
    CHECK_OK(rp_device_alloc(d, ROOM, &t->base, &err), &err);
    CHECK_OK(rp_stream_copy(s, t->base, t->before, ROOM, &err), &err);
    CHECK_OK(rp_stream_synchronize(s, &err), &err);
    v.tensor.data = (char *)t->base + skipped;
    return v;
}

static void take(rp_device *d, rp_stream *s, tensor *t) {
    rp_error err = {0};
    if (!t->base) return;
    CHECK_OK(rp_stream_copy(s, t->after, t->base, ROOM, &err), &err);
    CHECK_OK(rp_stream_synchronize(s, &err), &err);
    rp_device_free(d, t->base);
}

static void draw_all(const drawing *d, tensor t[TENSORS]) {
    int64_t x[] = {draw(MOST_DIM + 1), draw(MOST_DIM + 1), draw(MOST_DIM + 1)};
    if (d->forms)
        for (int i = 0; i < 3; i++) x[i] = 2 + (i ? i : draw(d->forms));
    const int64_t m[] = {x[0], x[2]};
    draw_tensor(d, &t[0], RP_DTYPE_F32, 3, x, false);
    draw_tensor(d, &t[1], RP_DTYPE_F32, 2, m, true);
    fill_floats(&t[1]);
    draw_tensor(d, &t[2], RP_DTYPE_F32, 3, x, true);
    draw_tensor(d, &t[3], RP_DTYPE_F16, 3, x, true);
}

static void compute_dense(rp_compiled *cpu, tensor t[TENSORS]) {
    rp_error err = {0};
    for (int i = 0; i < 2; i++) gather(&t[i]);
    rp_buffer in[] = {dense_of(&t[0]), dense_of(&t[1])}, out[] = {dense_of(&t[2]), dense_of(&t[3])};
    CHECK_OK(rp_compiled_run(cpu, in, 2, out, 2, &err), &err);
    for (int i = 0; i < TENSORS; i++) expect(&t[i]);
}

static void check_rooms(tensor t[TENSORS], int number) {
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < ROOM; k++)
            if (t[i].after[k] != t[i].want[k])
                fail_msg("draw %d: byte %d of tensor %d is %02x, not %02x", number, k - MIDDLE, i,
                         (unsigned)(uint8_t)t[i].after[k], (unsigned)(uint8_t)t[i].want[k]);
}

/* --- who is called ---------------------------------------------------------------------------- */

/* One call of what is checked, with x and m, and y and z. */
typedef rp_status (*caller)(void *who, const rp_view in[2], const rp_view out[2],
                            const rp_run_options *o, rp_error *err);

typedef struct checked {
    rp_device *device;
    rp_stream *stream; /* that calls may be on */
    caller call;
    void *who[2]; /* in turn */
    drawing drawn;
} checked;

static void check(const checked *k, int draws, bool streams) {
    static tensor t[TENSORS];
    rp_error err = {0};
    rp_compiled *cpu = compile(NULL, "level=0");
    uint32_t gathered = 0, scattered = 0;
    for (int n = 0; n < draws; n++) {
        rp_view_copies copies = RP_VIEW_COPIES_INIT;
        rp_run_options o = RP_RUN_OPTIONS_INIT;
        draw_all(&k->drawn, t);
        compute_dense(cpu, t);
        const rp_view in[] = {put(k->device, k->stream, &t[0]), put(k->device, k->stream, &t[1])};
        const rp_view out[] = {put(k->device, k->stream, &t[2]), put(k->device, k->stream, &t[3])};
        o.copies = &copies;
        if (streams && draw(2)) o.stream = k->stream;
        rp_status st = k->call(k->who[n % 2], in, out, &o, &err);
        if (st != RP_OK) fail_msg("draw %d: %s", n, err.text);
        bool all_dense = true;
        for (int i = 0; i < TENSORS; i++) {
            take(k->device, k->stream, &t[i]);
            all_dense &= t[i].dense_view;
        }
        check_rooms(t, n);
        if (all_dense) assert_int_equal(copies.gathered + copies.scattered + copies.bytes, 0);
        gathered += copies.gathered;
        scattered += copies.scattered;
    }
    assert_true((int)gathered > draws / 4 && (int)scattered > draws / 2);
    rp_compiled_free(cpu);
}

static rp_status call_compiled(void *who, const rp_view in[2], const rp_view out[2],
                               const rp_run_options *o, rp_error *err) {
    return rp_compiled_run_views(who, in, 2, out, 2, o, err);
}

void viewed_calls_check(const char *device, int draws) {
    rp_device *d = device_open_ok(device, 1);
    checked k = {.device = d,
                 .stream = stream_open_ok(d),
                 .call = call_compiled,
                 .who = {compile(d, "level=0"), compile(d, "level=2")}};
    check(&k, draws, true);
    for (int i = 0; i < 2; i++) rp_compiled_free(k.who[i]);
    rp_stream_close(k.stream);
    rp_device_close(d);
}

/* --- functions ------------------------------------------------------------------------------- */

/* As the graph; breaks, where it has some, are between reading and writing. */
static rp_status function(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    static rp_value item[2];
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), m = rp_jit_tensor(call, &args->item[1]);
    rp_dim a = rp_tensor_dim(m, 0), c = rp_tensor_dim(m, 1);
    (void)err;
    rp_tensor y = rp_add(x, rp_reshape(m, RP_SHAPE(a, 1, c)));
    if (user) rp_jit_break(call, "a test");
    rp_tensor z = rp_cast(rp_mul_scalar(x, 2), RP_DTYPE_F16);
    (void)rp_update(m, rp_mul_scalar(m, 2));
    item[0] = rp_jit_value(call, y);
    item[1] = rp_jit_value(call, z);
    *result = rp_value_tuple(item, 2);
    return RP_OK;
}

static rp_status call_function(void *who, const rp_view in[2], const rp_view out[2],
                               const rp_run_options *o, rp_error *err) {
    rp_value item[] = {rp_value_view(&in[0]), rp_value_view(&in[1])};
    rp_value args = rp_value_tuple(item, 2);
    return rp_jit_run_views(who, &args, out, 2, o, err);
}

static rp_jit *function_on(rp_device *d, const char *mode, const char *setting, bool breaks) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = RP_JIT_OPTIONS(function);
    rp_compilation_config *c = rp_config_new();
    if (setting) {
        CHECK_OK(rp_config_set(c, setting, &err), &err);
        CHECK_OK(rp_config_set(c, "level=3", &err), &err);
        CHECK_OK(rp_config_set(c, "splitting_ops=reprise::cast", &err), &err);
        o.config = c;
    }
    o.device = d;
    o.mode = mode;
    o.user = breaks ? &o : NULL;
    o.dynamic = RP_DYNAMIC_ALL;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    rp_config_free(c);
    return f;
}

void viewed_jits_check(const char *device, int draws) {
    rp_device *d = device_open_ok(device, 1);
    checked k = {.device = d, .stream = stream_open_ok(d), .call = call_function};
    for (int captured = 0; captured < 2; captured++) {
        const char *mode = captured ? "reduce-overhead" : NULL;
        for (int i = 0; i < 2; i++) k.who[i] = function_on(d, mode, NULL, i);
        check(&k, captured ? draws / 4 : draws, false);
        for (int i = 0; i < 2; i++) rp_jit_free(k.who[i]);
    }
    rp_stream_close(k.stream);
    rp_device_close(d);
}

static rp_autograph_info graphs_of(rp_device *d) {
    rp_error err = {0};
    rp_autograph *a = NULL;
    rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
    CHECK_OK(rp_autograph_default(d, &a, &err), &err);
    CHECK_OK(rp_autograph_get_info(a, &info, &err), &err);
    rp_autograph_destroy(a);
    return info;
}

void viewed_graphs_check(const char *device, int draws) {
    static const struct {
        const char *mode, *setting;
    } ways[] = {{"reduce-overhead", NULL},
                {NULL, "cudagraph_mode=FULL"},
                {NULL, "cudagraph_mode=PIECEWISE"},
                {"reduce-overhead", "cudagraph_mode=FULL"}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int breaks = 0; breaks < 2; breaks++) {
            rp_device *d = device_open_ok(device, 1);
            rp_jit *f = function_on(d, ways[w].mode, ways[w].setting, breaks);
            checked k = {.device = d,
                         .stream = stream_open_ok(d),
                         .call = call_function,
                         .who = {f, f},
                         .drawn = {.forms = 3, .views = true}};
            check(&k, 40, false);
            const rp_autograph_info before = graphs_of(d);
            assert_true(before.captures > 0);
            check(&k, draws, false);
            const rp_autograph_info after = graphs_of(d);
            assert_int_equal(after.captures, before.captures);
            assert_int_equal(after.eager, before.eager);
            assert_true(after.replays >= before.replays + (uint64_t)draws);
            rp_jit_free(f);
            rp_stream_close(k.stream);
            rp_device_close(d);
        }
}
