/* Compiled graphs that are called with views: results, what is copied and what is told of it, what is refused. */
#include "support/autographs.h"
#include "support/devices.h"
#include "support/gpu.h"
#include "support/heard.h"
#include "support/readers.h"
#include "support/viewed_calls.h"

#include "base/alloc.h"
#include "device/stream.h"
#include "device/view.h"

enum { ROWS = 4, COLS = 6 };

static const char *no_gpu;
static float x[ROWS * COLS], y[ROWS * COLS], z[ROWS * COLS];

/* y = x + 1, z = x * 2, over [A,B]. */
static rp_graph *trace(void) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("two");
    rp_dim a = rp_symbol(g, "A", 0, 64), b = rp_symbol(g, "B", 0, 64);
    rp_tensor t = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(a, b));
    rp_tensor out[] = {rp_add_scalar(t, 1), rp_mul_scalar(t, 2)};
    CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
    return g;
}

static rp_compiled *compile_on(rp_device *d, const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = trace();
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

static rp_view view(float *p, int64_t rows, int64_t cols, int64_t row, int64_t col) {
    rp_buffer b = {RP_DTYPE_F32, 2, {rows, cols}, p};
    int64_t stride[] = {row, col};
    return rp_view_strided(b, stride, 0);
}

static rp_view dense(float *p, int64_t rows, int64_t cols) {
    rp_buffer b = {RP_DTYPE_F32, 2, {rows, cols}, p};
    return rp_view_dense(b);
}

static int fresh(void **state) {
    (void)state;
    rp_log_set_callback(NULL, NULL);
    for (int i = 0; i < ROWS * COLS; i++) {
        x[i] = (float)(i * 3 + 1);
        y[i] = z[i] = -1;
    }
    return 0;
}

static void drawn_views(void **state) {
    (void)state;
    viewed_calls_check("cpu", 3000);
}

static void drawn_views_of_a_gpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    viewed_calls_check("cuda:0", 600);
}

/* The columns of an input side by side in one matrix, the middle of which another tensor has. */
static void outputs_share_a_matrix(void **state) {
    rp_error err = {0};
    (void)state;
    float matrix[ROWS][COLS];
    memset(matrix, 0, sizeof matrix);
    rp_compiled *c = compile_on(NULL, "level=2");
    rp_view in = view(x, 2, ROWS, 1, COLS); /* columns 0 and 1, as rows */
    rp_view out[] = {view(&matrix[0][0], 2, ROWS, 1, COLS), view(&matrix[0][4], 2, ROWS, 1, COLS)};
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, NULL, &err), &err);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 2; k++) {
            assert_true(matrix[i][k] == x[i * COLS + k] + 1);
            assert_true(matrix[i][4 + k] == x[i * COLS + k] * 2);
            assert_true(matrix[i][2 + k] == 0);
        }
    /* Whoever gives dense tensors one memory knows what comes of it. */
    rp_view one[] = {dense(z, 2, ROWS), dense(z, 2, ROWS)};
    CHECK_OK(rp_compiled_run_views(c, &in, 1, one, 2, NULL, &err), &err);
    assert_true(z[1] == x[COLS] + 1 || z[1] == x[COLS] * 2);
    rp_compiled_free(c);
}

/* Everything is read before anything of a copied output is written. */
static void an_output_in_its_input(void **state) {
    rp_error err = {0};
    float was[ROWS * COLS];
    (void)state;
    memcpy(was, x, sizeof x);
    rp_compiled *c = compile_on(NULL, "level=2");
    rp_view in = dense(x, ROWS, COLS);
    rp_view out[] = {view(x + ROWS * COLS - 1, ROWS, COLS, -COLS, -1), dense(z, ROWS, COLS)};
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, NULL, &err), &err);
    for (int i = 0; i < ROWS * COLS; i++) {
        assert_true(x[ROWS * COLS - 1 - i] == was[i] + 1);
        assert_true(z[i] == was[i] * 2);
    }
    rp_compiled_free(c);
}

/* Dense and aligned: the memory of the caller, no copy, nothing told, nothing allocated. */
static void dense_views_are_not_copied(void **state) {
    rp_error err = {0};
    rp_view_copies copies = {sizeof copies, 9, 9, 9};
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    base_buf heard;
    (void)state;
    rp_compiled *c = compile_on(NULL, "level=2");
    rp_view in = dense(x, ROWS, COLS), out[] = {dense(y, ROWS, COLS), dense(z, ROWS, COLS)};
    in.offset = 0;
    in.bytes = sizeof x;
    o.no_copies = true;
    o.copies = &copies;
    heard_start(&heard, "+perf_hints");
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, &o, &err), &err);
    uint64_t before = base_alloc_count();
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, &o, &err), &err);
    assert_int_equal(base_alloc_count(), before);
    assert_int_equal(heard.len, 0);
    heard_done(&heard);
    assert_int_equal(copies.gathered + copies.scattered, 0);
    assert_int_equal(copies.bytes, 0);
    assert_true(y[5] == x[5] + 1 && z[5] == x[5] * 2);
    /* A part of larger memory that is dense is as good, and an axis of 1 has any stride. */
    rp_view part = rp_view_strided((rp_buffer){RP_DTYPE_F32, 2, {1, 4}, x}, (int64_t[]){-77, 1}, 3);
    rp_view to[] = {dense(y, 1, 4), dense(z, 1, 4)};
    CHECK_OK(rp_compiled_run_views(c, &part, 1, to, 2, &o, &err), &err);
    assert_true(y[3] == x[6] + 1);
    assert_int_equal(copies.gathered + copies.scattered, 0);
    rp_compiled_free(c);
}

/* Later calls take the memory of earlier ones. */
static void copies_are_told(void **state) {
    rp_error err = {0};
    rp_view_copies copies = RP_VIEW_COPIES_INIT;
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    base_buf heard;
    (void)state;
    rp_compiled *c = compile_on(NULL, "level=2");
    rp_view in = view(x, COLS, ROWS, 1, COLS);
    rp_view out[] = {view(y, COLS, ROWS, 1, COLS), dense(z, COLS, ROWS)};
    o.copies = &copies;
    heard_start(&heard, "perf_hints");
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, &o, &err), &err);
    assert_int_equal(copies.gathered, 1);
    assert_int_equal(copies.scattered, 1);
    assert_int_equal(copies.bytes, 2 * sizeof x);
    CHECK_HEARD(&heard,
                "graph @two: input x is a view, f32[6,4] of strides 1, 6: 96 bytes are copied "
                "to dense memory at each such call");
    CHECK_HEARD(&heard, "graph @two: output out0 is a view, f32[6,4] of strides 1, 6: 96 bytes are "
                        "copied from dense memory at each such call");
    size_t told = heard.len;
    uint64_t before = base_alloc_count();
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, &o, &err), &err);
    assert_int_equal(base_alloc_count(), before + 1); /* the sizes of the check */
    assert_int_equal(heard.len, told);                /* once a tensor .. */
    heard_done(&heard);
    heard_start(&heard, "+perf_hints"); /* .. or at each call */
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, &o, &err), &err);
    CHECK_HEARD(&heard, "input x is a view");
    heard_done(&heard);
    /* Not aligned: copied, too. */
    char bytes[sizeof x + 1];
    memcpy(bytes + 1, x, sizeof x);
    heard_start(&heard, "+perf_hints");
    rp_view odd = dense(x, ROWS, COLS), to[] = {dense(y, ROWS, COLS), dense(z, ROWS, COLS)};
    odd.tensor.data = bytes + 1;
    CHECK_OK(rp_compiled_run_views(c, &odd, 1, to, 2, &o, &err), &err);
    CHECK_HEARD(&heard,
                "input x is a view, f32[4,6] that is not aligned to its elements: 96 bytes");
    heard_done(&heard);
    assert_int_equal(copies.gathered, 1);
    assert_int_equal(copies.scattered, 0);
    assert_true(y[7] == x[7] + 1);
    rp_compiled_free(c);
}

/* --- what is refused ----------------------------------------------------------------------- */

typedef struct bad {
    rp_view in, out[2];
    bool no_copies;
    const char *text;
} bad;

static void views_of_blocks_are_dense(void **state) {
    static uint8_t blocks[4 * 34];
    static const struct {
        int64_t offset, strides[2];
        bool dense;
    } is[] = {{0, {64, 1}, true},   {0, {32, 1}, false}, {0, {64, 2}, false},
              {32, {64, 1}, false}, {1, {64, 1}, false}, {-64, {64, 1}, false}};
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        rp_error err = {0};
        base_view out;
        bool whole = false;
        rp_view v = {0};
        v.tensor = (rp_buffer){RP_DTYPE_Q8_0, 2, {2, 64}, blocks};
        v.offset = is[i].offset;
        v.stride[0] = is[i].strides[0];
        v.stride[1] = is[i].strides[1];
        rp_status st = device_view_of(&v, "input x", &out, &whole, &err);
        if ((st == RP_OK) != is[i].dense) fail_msg("view %zu: %s", i, err.text);
        if (is[i].dense)
            assert_true(whole);
        else
            assert_string_equal(err.text, "input x of q8_0 is a strided view; give it dense");
    }
}

static void bad_views_are_told(void **state) {
    (void)state;
    rp_compiled *c = compile_on(NULL, "level=2");
    rp_view in = dense(x, ROWS, COLS), to = dense(y, ROWS, COLS), other = dense(z, ROWS, COLS);
    rp_view small = in, below = in, none = in, wide = in, deep = in, size = in, untyped = in;
    small.bytes = sizeof x - 1;
    below.offset = -1;
    below.bytes = sizeof x;
    none.tensor.data = NULL;
    wide.stride[0] = INT64_MAX;
    deep.tensor.rank = 7;
    size.tensor.dim[1] = -1;
    untyped.tensor.dtype = (rp_dtype)99;
    const bad cases[] = {
        {in,
         {view(y, ROWS, COLS, 0, 1), other},
         false,
         "graph @two: output out0, f32[4,6] of strides 0, 1, is written, and several of its "
         "elements "
         "are one place; give each a place of its own"},
        {in,
         {view(y, ROWS, COLS, 1, 1), other},
         false,
         "graph @two: output out0, f32[4,6] of strides 1, 1, is written, and several of its "
         "elements "
         "are one place; give each a place of its own"},
        {in,
         {view(y, ROWS, COLS, 1, ROWS), view(y + 1, ROWS, COLS, COLS, 1)},
         false,
         "graph @two: output out0 and output out1, which are written, share memory"},
        {in,
         {to, view(y, ROWS, COLS, 1, ROWS)},
         false,
         "graph @two: output out0 and output out1, which are written, share memory"},
        {view(x, ROWS, COLS, 1, ROWS),
         {to, other},
         true,
         "graph @two: input x, f32[4,6] of strides 1, 4, would be copied; give it dense and "
         "aligned, or without no_copies"},
        {in,
         {to, dense(z, COLS, ROWS)},
         false,
         "output out1 size mismatch at index 0. expected 4, actual 6"},
        {view(x, ROWS, COLS, 1, ROWS),
         {to, dense(z, COLS, ROWS)},
         false,
         "output out1 size mismatch at index 0. expected 4, actual 6"},
        {small, {to, other}, false, "input x is bytes 0 to 96 of memory that has 95"},
        {below, {to, other}, false, "input x is bytes -4 to 92 of memory that has 96"},
        {none, {to, other}, false, "input x has no data"},
        {wide, {to, other}, false, "input x has strides that no memory has"},
        {deep, {to, other}, false, "input x has rank 7; 6 is the most"},
        {size, {to, other}, false, "input x has size -1 at index 1"},
        {untyped, {to, other}, false, "input x has dtype 99, which is none"},
    };
    base_buf heard;
    heard_start(&heard, "+perf_hints");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_error err = {0};
        rp_view_copies copies = {sizeof copies, 9, 9, 9};
        rp_run_options o = {sizeof o, NULL, cases[i].no_copies, &copies};
        rp_status st = rp_compiled_run_views(c, &cases[i].in, 1, cases[i].out, 2, &o, &err);
        assert_int_equal(st, RP_INVALID);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(copies.gathered + copies.scattered, 0);
        for (int k = 0; k < ROWS * COLS; k++) assert_true(y[k] == -1 && z[k] == -1);
    }
    assert_int_equal(heard.len, 0); /* of copies that were not made */
    heard_done(&heard);
    rp_error err = {0};
    rp_run_options odd = {3, NULL, false, NULL};
    assert_int_equal(rp_compiled_run_views(c, &in, 1, (rp_view[]){to, other}, 2, &odd, &err),
                     RP_INVALID);
    assert_int_equal(rp_compiled_run_views(c, &in, 1, &to, 1, NULL, &err), RP_INVALID);
    assert_string_equal(err.text, "graph @two has 1 inputs and 2 outputs; 1 and 1 were given");
    assert_int_equal(rp_compiled_run_views(NULL, &in, 1, &to, 1, NULL, &err), RP_INVALID);
    rp_compiled_free(c);
}

/* What is not there has any strides and no data. */
static void empty_views(void **state) {
    rp_error err = {0};
    rp_view_copies copies = RP_VIEW_COPIES_INIT;
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    (void)state;
    o.copies = &copies;
    rp_compiled *c = compile_on(NULL, "level=2");
    rp_view in = view(NULL, 0, COLS, 5, 5), out[] = {view(NULL, 0, COLS, 0, 0), in};
    CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, &o, &err), &err);
    assert_int_equal(copies.gathered + copies.scattered, 0);
    rp_compiled_free(c);
}

/* --- a device that copies late --------------------------------------------------------------- */

static struct {
    void *to;
    const void *from;
    size_t size;
} queued;

static rp_status copy_late(hal_device *d, void *to, const void *from, size_t size, rp_error *err) {
    (void)d, (void)err;
    queued.to = to;
    queued.from = from;
    queued.size = size;
    return RP_OK;
}

static rp_status do_queued(hal_device *d, rp_error *err) {
    (void)d, (void)err;
    if (queued.size) memcpy(queued.to, queued.from, queued.size);
    queued.size = 0;
    return RP_OK;
}

static bool reaches_none(const hal_device *d, const void *p) {
    (void)d, (void)p;
    return false;
}

/* What is written is there once the queue has come to it. */
static void a_copy_back_is_waited_for(void **state) {
    static const hal_device_ops ops = {
        .reaches = reaches_none, .copy = copy_late, .synchronize = do_queued};
    hal_device d = {.ops = &ops};
    float at_device[3] = {5, 6, 7};
    rp_error err = {0};
    base_view v = {.at = (char *)y, .element = 4, .rank = 1, .dim = {3}, .stride = {8}};
    (void)state;
    CHECK_OK(device_view_copy(&d, &v, at_device, false, &err), &err);
    for (int i = 0; i < 6; i++) assert_true(y[i] == (i % 2 ? -1 : at_device[i / 2]));
}

static bool reaches_x(const hal_device *d, const void *p) {
    (void)d;
    return (const char *)p >= (const char *)x && (const char *)p < (const char *)x + sizeof x;
}

/* By its first byte in memory, wherever its first element is. */
static void a_view_is_where_its_elements_are(void **state) {
    static const hal_device_ops ops = {.reaches = reaches_x};
    const hal_device d = {.ops = &ops};
    const int64_t last = ROWS * COLS - 1;
    const base_view all = {
        .at = (char *)x, .element = 4, .rank = 1, .dim = {last + 1}, .stride = {4}};
    base_view back = all, below = all;
    (void)state;
    back.at += 4 * last;
    back.stride[0] = -4;
    below.at -= 4;
    assert_true(device_view_reached(&d, &all));
    assert_true(device_view_reached(&d, &back));
    assert_false(device_view_reached(&d, &below));
}

static int waits, failing;

static rp_status count_wait(hal_device *d, rp_error *err) {
    (void)d, (void)err;
    waits++;
    return RP_OK;
}

static rp_status fail_or_not(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)args, (void)n;
    return failing ? rp_fail(err, RP_INTERNAL, "not today") : RP_OK;
}

/* Copies may still be on their way from and to what the caller gets back. */
static void a_run_that_fails_is_waited_for(void **state) {
    static const char text[] = "graph @fails(%x: f32[4,6]) {\n  %0 = neg %x\n"
                               "  %1 = custom %0 {name=\"views::fails\"}\n  ret %1\n}\n";
    const rp_op_desc desc = {.size = sizeof desc, .name = "views::fails", .cpu = fail_or_not};
    rp_error err = {0};
    rp_device *d = NULL;
    rp_stream *stream = NULL;
    rp_graph *g = NULL;
    rp_compiled *c = NULL;
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    (void)state;
    CHECK_OK(rp_op_register(&desc, &err), &err);
    CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rp_device_open("cpu", 1, &d, &err), &err);
    CHECK_OK(rp_stream_open(d, &stream, &err), &err);
    CHECK_OK(rp_compile_on(d, g, NULL, &c, &err), &err);
    hal_device *queue = device_stream_queue(stream);
    const hal_device_ops *own = queue->ops;
    hal_device_ops counting = *own;
    counting.synchronize = count_wait;
    o.stream = stream;
    for (int i = 0; i < 2; i++) {
        const rp_view in = view(x, ROWS, COLS, 1, ROWS), out = view(y, ROWS, COLS, 1, ROWS);
        failing = i == 1;
        waits = 0;
        queue->ops = &counting;
        rp_status st = rp_compiled_run_views(c, &in, 1, &out, 1, &o, &err);
        queue->ops = own;
        assert_int_equal(st, failing ? RP_INTERNAL : RP_OK);
        assert_int_equal(waits, 1 + failing); /* what ran, what was copied */
    }
    failing = 0;
    rp_compiled_free(c);
    rp_stream_close(stream);
    rp_device_close(d);
    rp_graph_free(g);
}

/* --- captured calls, and backends of others -------------------------------------------------- */

#define CHECK_IN(text, part) \
    if (!strstr(text, part)) fail_msg("no '%s' in '%s'", part, text)

/* y = x + m, m = m * 2, over [A,B]. */
static rp_compiled *compile_scaled(rp_device *d) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("scaled");
    rp_compilation_config *cfg = rp_config_new();
    rp_dim a = rp_symbol(g, "A", 0, 64), b = rp_symbol(g, "B", 0, 64);
    rp_tensor t = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(a, b));
    rp_tensor m = rp_mutable_input(g, "m", RP_DTYPE_F32, RP_SHAPE(a, b));
    rp_tensor out = rp_add(t, m);
    (void)rp_update(m, rp_mul_scalar(m, 2));
    CHECK_OK(rp_graph_finish(g, &out, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_compile_on(d, g, cfg, &c, &err), &err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return c;
}

/* What a call reads and writes again needs places of its own as an output does. */
static void what_is_updated_has_its_own_places(void **state) {
    static const char *const text[] = {
        "graph @scaled: input m, f32[4,6] of strides 1, 1, is written, and several of its elements "
        "are one place; give each a place of its own",
        "graph @scaled: input m and output out0, which are written, share memory"};
    rp_compiled *c = compile_scaled(NULL);
    const rp_view m[] = {view(z, ROWS, COLS, 1, 1), view(y, ROWS, COLS, 1, ROWS)};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        const rp_view in[] = {dense(x, ROWS, COLS), m[i]}, out = dense(y, ROWS, COLS);
        assert_int_equal(rp_compiled_run_views(c, in, 2, &out, 1, NULL, &err), RP_INVALID);
        assert_string_equal(err.text, text[i]);
        for (int k = 0; k < ROWS * COLS; k++) assert_true(y[k] == -1 && z[k] == -1);
    }
    rp_compiled_free(c);
}

/* How a function calls a graph: which of x, m and y are views of what it was given, the first two turned, the last from its end. */
typedef struct captured {
    rp_compiled *c;
    unsigned views;
    float *elsewhere; /* a view of memory of the host that is no argument; NULL: none */
    int wobbles;      /* so many runs have a view that goes the other way in each second one */
    rp_view_copies copies;
} captured;

static rp_status in_function(void *user, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    captured *k = user;
    rp_buffer out = {RP_DTYPE_F32, 2, {ROWS, COLS}, NULL};
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    o.stream = rp_call_stream(call);
    o.copies = &k->copies;
    rp_status st = rp_call_output(call, &out, err);
    if (st != RP_OK) return st;
    rp_view in[] = {rp_view_dense(args->item[0].tensor), rp_view_dense(args->item[1].tensor)};
    rp_view to = rp_view_dense(out);
    for (int i = 0; i < 2; i++)
        if (k->views >> i & 1) in[i] = view(in[i].tensor.data, ROWS, COLS, 1, ROWS);
    if (k->elsewhere) in[0] = view(k->elsewhere, ROWS, COLS, 1, ROWS);
    if (k->wobbles && k->wobbles-- % 2) {
        in[0] = view(in[0].tensor.data, ROWS, COLS, -1, -ROWS);
        in[0].offset = ROWS * COLS - 1;
    }
    if (k->views >> 2 & 1) {
        to = view(out.data, ROWS, COLS, -COLS, -1);
        to.offset = ROWS * COLS - 1;
    }
    *result = rp_value_tensor(out);
    return rp_compiled_run_views(k->c, in, 2, &to, 1, &o, err);
}

/* Where element n of a tensor lies. */
static int place(const captured *k, int tensor, int n) {
    if (!(k->views >> tensor & 1)) return n;
    return tensor == 2 ? ROWS * COLS - 1 - n : n / COLS + n % COLS * ROWS;
}

static void check_captured(const char *device, unsigned views) {
    rp_error err = {0};
    bench b;
    float m[ROWS * COLS], now[ROWS * COLS];
    void *state = m;
    bench_open(&b, device, RP_GROWTH_EXACT);
    base_buf heard;
    heard_start(&heard, "perf_hints");
    captured k = {.c = compile_scaled(b.device), .views = views, .copies = RP_VIEW_COPIES_INIT};
    rp_function *f = function_of(&b, "scaled", in_function, &k);
    CHECK_OK(rp_device_alloc(b.device, sizeof m, &state, &err), &err);
    for (int i = 0; i < ROWS * COLS; i++) m[i] = (float)(i % 5);
    CHECK_OK(rp_stream_copy(b.stream, state, m, sizeof m, &err), &err);
    for (int n = 0; n < 5; n++) {
        for (int i = 0; i < ROWS * COLS; i++) x[i] = (float)(i * 3 + n);
        rp_value item[] = {rows_of(x, ROWS, COLS), rows_of(state, ROWS, COLS)};
        item[1].state = true;
        rp_output *out = run_items(f, item, 2);
        assert_string_equal(rp_output_reason(out), "");
        assert_int_equal(rp_output_ran(out), n ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        const float *got = values_of(out);
        for (int i = 0; i < ROWS * COLS; i++)
            if (got[place(&k, 2, i)] != x[place(&k, 0, i)] + m[place(&k, 1, i)])
                fail_msg("views %u, call %d: element %d", views, n, i);
        rp_output_free(out);
        for (int i = 0; i < ROWS * COLS; i++) m[i] *= 2;
        CHECK_OK(rp_stream_copy(b.stream, now, state, sizeof now, &err), &err);
        CHECK_OK(rp_stream_synchronize(b.stream, &err), &err);
        assert_memory_equal(now, m, sizeof m);
    }
    assert_int_equal(bench_info(&b).captures, 1);
    assert_int_equal(k.copies.gathered, (views & 1) + (views >> 1 & 1));
    assert_int_equal(k.copies.scattered, (views >> 1 & 1) + (views >> 2 & 1));
    unsigned told = 0;
    for (const char *at = heard.data; at && (at = strstr(at, "graph @scaled: ")); at++) told++;
    assert_int_equal(told, (views & 1) + (views >> 1 & 1) + (views >> 2 & 1));
    heard_done(&heard);
    rp_function_free(f);
    rp_device_free(b.device, state);
    rp_compiled_free(k.c);
    bench_close(&b);
}

/* Copies are part of the graph, in front of what it computes and behind it. */
static void captured_calls(void **state) {
    (void)state;
    for (unsigned views = 0; views < 8; views++) check_captured("cpu", views);
}

static void captured_calls_of_a_gpu(void **state) {
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    for (unsigned views = 0; views < 8; views++) check_captured("cuda:0", views);
}

/* What a graph cannot repeat leaves the function without one, and says why. */
static void views_that_no_graph_has(void **state) {
    (void)state;
    static float elsewhere[ROWS * COLS];
    for (int i = 0; i < 2; i++) {
        bench b;
        float m[ROWS * COLS] = {0};
        bench_open(&b, "cpu", RP_GROWTH_EXACT);
        captured k = {.c = compile_scaled(b.device), .views = 1, .copies = RP_VIEW_COPIES_INIT};
        if (i)
            k.elsewhere = elsewhere;
        else
            k.wobbles = 2;
        rp_function *f = function_of(&b, "scaled", in_function, &k);
        rp_value item[] = {rows_of(x, ROWS, COLS), rows_of(m, ROWS, COLS)};
        item[1].state = true;
        rp_output *out = run_items(f, item, 2);
        assert_int_equal(rp_output_ran(out), RP_RAN_EAGER);
        CHECK_IN(rp_output_reason(out), i ? "(copy_runs): argument 1"
                                          : "the function makes other calls when it runs again");
        rp_output_free(out);
        rp_function_free(f);
        rp_compiled_free(k.c);
        bench_close(&b);
    }
}

/* A call of as many tensors as have places, of one less and of more: x, and x + i with gaps between. */
static void any_number_of_views_is_taken(void **state) {
    enum { MOST = 120, GAP = 3 };
    static const uint32_t counts[] = {14, 15, 16, 17, MOST};
    (void)state;
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++) {
        const uint32_t n = counts[at];
        rp_error err = {0};
        float to[MOST][2 * GAP + 1];
        rp_tensor out[MOST];
        rp_view views[MOST];
        rp_view_copies copies = RP_VIEW_COPIES_INIT;
        rp_run_options o = RP_RUN_OPTIONS_INIT;
        rp_compiled *c = NULL;
        rp_graph *g = rp_graph_new("many");
        rp_tensor t = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(3));
        for (uint32_t i = 0; i < n; i++) {
            rp_buffer b = {RP_DTYPE_F32, 1, {3}, to[i]};
            out[i] = rp_add_scalar(t, i);
            views[i] = i % 2 ? rp_view_strided(b, (int64_t[]){GAP}, 0) : rp_view_dense(b);
        }
        CHECK_OK(rp_graph_finish(g, out, n, &err), &err);
        CHECK_OK(rp_compile(g, NULL, &c, &err), &err);
        rp_view in = rp_view_strided((rp_buffer){RP_DTYPE_F32, 1, {3}, x}, (int64_t[]){2}, 1);
        o.copies = &copies;
        for (int turn = 0; turn < 2; turn++) {
            memset(to, 0, sizeof to);
            CHECK_OK(rp_compiled_run_views(c, &in, 1, views, n, &o, &err), &err);
            assert_int_equal(copies.gathered, 1);
            assert_int_equal(copies.scattered, n / 2);
            for (uint32_t i = 0; i < n; i++)
                for (int k = 0; k < 3; k++)
                    assert_true(to[i][i % 2 ? GAP * k : k] == x[1 + 2 * k] + (float)i);
        }
        rp_compiled_free(c);
        rp_graph_free(g);
    }
}

/* A backend is given dense tensors. */
static void a_backend_of_others(void **state) {
    rp_error err = {0};
    static reader r;
    rp_backend_desc desc = {.size = sizeof desc,
                            .name = "reader",
                            .ready = reader_ready,
                            .compile = reader_compile,
                            .user = &r};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("line");
    rp_compilation_config *cfg = rp_config_new();
    (void)state;
    CHECK_OK(rp_backend_register(&desc, &err), &err);
    rp_tensor t = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "B", 0, 64)));
    rp_tensor out = rp_neg(t);
    CHECK_OK(rp_graph_finish(g, &out, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "backend=reader", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    rp_buffer a = {RP_DTYPE_F32, 1, {6}, x}, b = {RP_DTYPE_F32, 1, {6}, y};
    rp_view in = rp_view_strided(a, (int64_t[]){-2}, 10),
            to = rp_view_strided(b, (int64_t[]){3}, 1);
    CHECK_OK(rp_compiled_run_views(c, &in, 1, &to, 1, NULL, &err), &err);
    assert_int_equal(r.runs, 1);
    for (int i = 0; i < 18; i++) assert_true(y[i] == (i % 3 == 1 ? -x[10 - 2 * (i / 3)] : -1));
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

/* Outputs are as they were, and the next call is whole. */
static void memory_runs_out(void **state) {
    (void)state;
    rp_view in = view(x, COLS, ROWS, 1, COLS),
            out[] = {view(y, COLS, ROWS, 1, COLS), dense(z, COLS, ROWS)};
    uint64_t n = 1;
    for (bool failed = true; failed; n++) {
        rp_error err = {0};
        rp_compiled *c = compile_on(NULL, "level=2");
        (void)fresh(NULL);
        base_alloc_fail_nth(n);
        rp_status st = rp_compiled_run_views(c, &in, 1, out, 2, NULL, &err);
        failed = base_alloc_fail_nth(0);
        assert_int_equal(st, failed ? RP_NOMEM : RP_OK);
        for (int i = 0; i < ROWS * COLS && failed; i++) assert_true(y[i] == -1);
        CHECK_OK(rp_compiled_run_views(c, &in, 1, out, 2, NULL, &err), &err);
        for (int i = 0; i < ROWS * COLS; i++) assert_true(y[i] == x[i] + 1);
        rp_compiled_free(c);
    }
    assert_true(n > 3);
}

/* A call that captures fails, or runs without a graph; what comes behind it is right. */
static void memory_runs_out_in_a_capture(void **state) {
    uint64_t n = 1;
    bool failed = true;
    (void)state;
    for (; failed; n += 1 + n / 32) {
        rp_error err = {0};
        bench b;
        float m[ROWS * COLS] = {0};
        bench_open(&b, "cpu", RP_GROWTH_EXACT);
        captured k = {.c = compile_scaled(b.device), .views = 7, .copies = RP_VIEW_COPIES_INIT};
        rp_function *f = function_of(&b, "scaled", in_function, &k);
        rp_value item[] = {rows_of(x, ROWS, COLS), rows_of(m, ROWS, COLS)};
        item[1].state = true;
        rp_value args = rp_value_tuple(item, 2);
        rp_output *out = NULL;
        base_alloc_fail_nth(n);
        rp_status st = rp_autograph_run(f, &args, &out, &err);
        failed = base_alloc_fail_nth(0);
        assert_true(st == RP_OK || (failed && st == RP_NOMEM));
        if (st == RP_OK) rp_output_free(out);
        for (int i = 0; i < 2; i++) {
            out = run_items(f, item, 2);
            assert_true(values_of(out)[ROWS * COLS - 1 - 1] == x[ROWS]);
            rp_output_free(out);
        }
        rp_function_free(f);
        rp_compiled_free(k.c);
        bench_close(&b);
    }
    assert_true(n > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(drawn_views, fresh),
        cmocka_unit_test_setup(drawn_views_of_a_gpu, fresh),
        cmocka_unit_test_setup(outputs_share_a_matrix, fresh),
        cmocka_unit_test_setup(an_output_in_its_input, fresh),
        cmocka_unit_test_setup(dense_views_are_not_copied, fresh),
        cmocka_unit_test_setup(copies_are_told, fresh),
        cmocka_unit_test(views_of_blocks_are_dense),
        cmocka_unit_test_setup(bad_views_are_told, fresh),
        cmocka_unit_test_setup(what_is_updated_has_its_own_places, fresh),
        cmocka_unit_test_setup(empty_views, fresh),
        cmocka_unit_test_setup(a_view_is_where_its_elements_are, fresh),
        cmocka_unit_test_setup(a_copy_back_is_waited_for, fresh),
        cmocka_unit_test_setup(a_run_that_fails_is_waited_for, fresh),
        cmocka_unit_test_setup(captured_calls, fresh),
        cmocka_unit_test_setup(captured_calls_of_a_gpu, fresh),
        cmocka_unit_test_setup(views_that_no_graph_has, fresh),
        cmocka_unit_test_setup(any_number_of_views_is_taken, fresh),
        cmocka_unit_test_setup(a_backend_of_others, fresh),
        cmocka_unit_test_setup(memory_runs_out, fresh),
        cmocka_unit_test_setup(memory_runs_out_in_a_capture, fresh),
    };
    if (gpu_emulate(&no_gpu)) no_gpu = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
