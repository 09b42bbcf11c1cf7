#include "support/autographs.h"

#include "base/alloc.h"
#include "support/kernels.h"

static rp_stream *last; /* of a GPU, whose manager is tested */
static void *copy;      /* of an output there */

static bool is_host(rp_device *d) {
    rp_device_info info = RP_DEVICE_INFO_INIT;
    rp_error err = {0};
    CHECK_OK(rp_device_get_info(d, &info, &err), &err);
    return info.host_memory;
}

void bench_open_with(bench *b, const char *device, const rp_autograph_options *o) {
    rp_error err = {0};
    memset(b, 0, sizeof *b);
    CHECK_OK(rp_device_open(device, 2, &b->device, &err), &err);
    CHECK_OK(rp_stream_open(b->device, &b->stream, &err), &err);
    CHECK_OK(rp_autograph_create(b->stream, o, &b->graphs, &err), &err);
    last = is_host(b->device) ? NULL : b->stream;
    if (last) kernels_open(last);
}

void bench_open(bench *b, const char *device, rp_growth growth) {
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    o.growth = growth;
    bench_open_with(b, device, &o);
}

void bench_close(bench *b) {
    rp_device_info info = RP_DEVICE_INFO_INIT;
    rp_error err = {0};
    rp_autograph_destroy(b->graphs);
    if (last) kernels_close();
    base_free(copy);
    copy = last = NULL;
    rp_stream_close(b->stream);
    CHECK_OK(rp_device_get_info(b->device, &info, &err), &err);
    assert_int_equal(info.allocated, 0);
    rp_device_close(b->device);
}

rp_autograph_info bench_info(const bench *b) {
    rp_autograph_info info = RP_AUTOGRAPH_INFO_INIT;
    rp_error err = {0};
    CHECK_OK(rp_autograph_get_info(b->graphs, &info, &err), &err);
    assert_int_equal(info.calls, info.replays + info.captures + info.eager);
    return info;
}

char *bench_text(const bench *b) {
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_autograph_text(b->graphs, &text, &err), &err);
    return text;
}

static void write_weights(const affine *m) {
    const float w[] = {m->scale, m->shift};
    rp_error err = {0};
    CHECK_OK(rp_stream_copy(last, m->weights, w, sizeof w, &err), &err);
    CHECK_OK(rp_stream_synchronize(last, &err), &err);
}

void affine_set(affine *m, float scale, float shift) {
    m->scale = scale;
    m->shift = shift;
    if (m->weights) write_weights(m);
}

void affine_move(affine *m, float shift) {
    rp_error err = {0};
    m->moved = shift;
    if (m->c) CHECK_OK(rp_compiled_bind(m->c, "shift", &m->moved, &err), &err);
    if (!m->weights) return;
    void *old = m->weights, *now = NULL;
    CHECK_OK(rp_device_alloc(m->device, 2 * sizeof(float), &now, &err), &err);
    rp_device_free(m->device, old);
    m->weights = now;
    affine_set(m, m->scale, shift);
}

void affine_open(affine *m, rp_device *d, int64_t columns, float scale, float shift) {
    rp_error err = {0};
    void *weights = NULL;
    *m = (affine){.scale = scale, .shift = shift, .device = d};
    if (!is_host(d)) {
        CHECK_OK(rp_device_alloc(d, 2 * sizeof(float), &weights, &err), &err);
        m->weights = weights;
        write_weights(m);
        return;
    }
    rp_graph *g = rp_graph_new("affine");
    rp_dim rows = rp_symbol(g, "B", 0, 4096);
    rp_shape shape = columns ? RP_SHAPE(rows, columns) : RP_SHAPE(rows);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, shape);
    rp_tensor a = rp_param(g, "scale", RP_DTYPE_F32, RP_SHAPE(1));
    rp_tensor b = rp_param(g, "shift", RP_DTYPE_F32, RP_SHAPE(1));
    rp_tensor y = rp_add(rp_mul(x, a), b);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_compile_on(d, g, NULL, &m->c, &err), &err);
    CHECK_OK(rp_compiled_bind(m->c, "scale", &m->scale, &err), &err);
    CHECK_OK(rp_compiled_bind(m->c, "shift", &m->shift, &err), &err);
    rp_graph_free(g);
}

void affine_close(affine *m) {
    rp_compiled_free(m->c);
    m->c = NULL;
    if (m->weights) rp_device_free(m->device, m->weights);
    m->weights = NULL;
}

static rp_status launch_affine(const affine *m, rp_call *call, const rp_buffer *x, rp_value *result,
                               rp_error *err) {
    rp_buffer y = *x;
    long long n = 1;
    rp_status st = rp_call_output(call, &y, err);
    for (uint32_t i = 0; i < x->rank; i++) n *= x->dim[i];
    const void *at = x->data;
    const float *weights = m->weights;
    void *parameters[] = {&at, &y.data, &weights, &n};
    if (st == RP_OK)
        st = rp_call_check(call, "cuLaunchKernel",
                           kernels_launch(rp_call_stream(call), KERNEL_AFFINE, n, parameters), err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

static rp_status call_affine(const affine *m, rp_call *call, const rp_value *args, rp_value *result,
                             rp_error *err) {
    rp_buffer y;
    if (m->weights) return launch_affine(m, call, &args->item[0].tensor, result, err);
    rp_status st = rp_call_compiled(call, m->c, &args->item[0].tensor, 1, &y, 1, err);
    if (st == RP_OK) *result = rp_value_tensor(y);
    return st;
}

rp_status affine_call(void *user, rp_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    RP_TRY(call_affine(user, call, args, result, err));
    result->rows = args->item[0].rows;
    return RP_OK;
}

rp_function *function_with(const bench *b, rp_function_options o) {
    rp_function *f = NULL;
    rp_error err = {0};
    CHECK_OK(rp_function_new(b->graphs, &o, &f, &err), &err);
    return f;
}

rp_function *function_giving(const bench *b, const char *name, rp_function_fn fn, void *user,
                             rp_output_policy p, uint32_t ring) {
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    o.name = name;
    o.fn = fn;
    o.user = user;
    o.output = p;
    o.ring = p == RP_OUTPUT_RING ? ring : 0;
    return function_with(b, o);
}

rp_function *function_of(const bench *b, const char *name, rp_function_fn fn, void *user) {
    const rp_function_options usual = RP_FUNCTION_OPTIONS_INIT;
    return function_giving(b, name, fn, user, usual.output, 0);
}

rp_value floats(float *x, int64_t n) {
    return rp_value_tensor((rp_buffer){RP_DTYPE_F32, 1, {n}, x});
}

rp_value rows_of(float *x, int64_t rows, int64_t columns) {
    return rp_value_tensor((rp_buffer){RP_DTYPE_F32, 2, {rows, columns}, x});
}

rp_output *run_ok(rp_function *f, const rp_value *args) {
    rp_output *o = NULL;
    rp_error err = {0};
    CHECK_OK(rp_autograph_run(f, args, &o, &err), &err);
    return o;
}

rp_output *run_items(rp_function *f, const rp_value *items, uint32_t n) {
    rp_value args = rp_value_tuple(items, n);
    return run_ok(f, &args);
}

const rp_value *result_of(const rp_output *o) {
    const rp_value *v = NULL;
    rp_error err = {0};
    CHECK_OK(rp_output_value(o, &v, &err), &err);
    return v;
}

const float *values_of(const rp_output *o) {
    const rp_buffer *b = &result_of(o)->tensor;
    size_t bytes = rp_dtype_block_bytes(b->dtype);
    rp_error err = {0};
    if (!last) return b->data;
    for (uint32_t i = 0; i < b->rank; i++) bytes *= (size_t)b->dim[i];
    base_free(copy);
    copy = base_alloc(bytes + 1);
    CHECK_OK(rp_stream_copy(last, copy, b->data, bytes, &err), &err);
    CHECK_OK(rp_stream_synchronize(last, &err), &err);
    return copy;
}
