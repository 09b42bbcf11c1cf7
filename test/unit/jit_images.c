/* Convolutional networks over images of which batch, height and width change from call to call: compiled once more, with the values of level 0. */
#include "support/jits.h"

enum { C = 3, O = 4, MOST = 4 * C * 24 * 24 };

typedef rp_tensor (*net)(rp_tensor x, rp_tensor in, rp_tensor mid);

#define NET(name, ...)                                                   \
    static rp_tensor name(rp_tensor x, rp_tensor in, rp_tensor mid) {    \
        const rp_conv_args same = {.padding = {1, 1}};                   \
        const rp_conv_args half = {.padding = {1, 1}, .stride = {2, 2}}; \
        (void)mid, (void)same, (void)half;                               \
        __VA_ARGS__                                                      \
    }
#define CONV(x, w, args) rp_conv2d(x, w, rp_none(), args)

NET(plain, return rp_relu(CONV(x, in, &same));)
NET(dilated, {
    rp_conv_args a = {.dilation = {2, 3}, .padding = {1, 2}, .stride = {1, 2}};
    return CONV(x, in, &a);
})
NET(residual, {
    const rp_conv_args down = {.stride = {2, 2}};
    rp_tensor one = rp_slice(rp_slice(mid, 2, 0, 1), 3, 0, 1);
    x = CONV(x, in, &half);
    for (int i = 0; i < 2; i++) x = rp_relu(rp_add(CONV(x, mid, &half), CONV(x, one, &down)));
    return rp_mean(rp_flatten(x, 2, 3), -1, false);
})
NET(pooled, return rp_max_pool2d(rp_relu(CONV(x, in, &same)), 3, 2, 1);)
NET(pooled_twice, return rp_max_pool2d(rp_avg_pool2d(CONV(x, in, NULL), 3, 2, 1), 2, 1, 0);)
NET(up, {
    rp_tensor a = rp_relu(CONV(x, in, &half)), b = rp_relu(CONV(a, mid, &half));
    b = rp_slice(rp_upsample_nearest2d(b, 2), 2, 0, rp_tensor_dim(a, 2));
    return rp_add(a, rp_slice(b, 3, 0, rp_tensor_dim(a, 3)));
})
NET(transposed, {
    rp_tensor a = rp_relu(CONV(x, in, &same));
    return rp_conv_transpose2d(a, mid, rp_none(), &half, 1);
})

static const net nets[] = {plain, dilated, residual, pooled, pooled_twice, up, transposed};
enum { N_NETS = sizeof nets / sizeof *nets };

static rp_status forward(void *user, rp_jit_call *call, const rp_value *v, rp_value *result,
                         rp_error *err) {
    rp_tensor t[3];
    (void)err;
    for (int i = 0; i < 3; i++) t[i] = rp_jit_tensor(call, &v->item[i]);
    *result = rp_jit_value(call, (*(const net *)user)(t[0], t[1], t[2]));
    return RP_OK;
}

static void check_same(int net_i, const rp_output *x, const rp_output *y) {
    const rp_buffer *a = &jit_result(x)->tensor, *b = &jit_result(y)->tensor;
    size_t n = 1;
    assert_int_equal(a->rank, b->rank);
    for (uint32_t d = 0; d < a->rank; d++) {
        assert_int_equal(a->dim[d], b->dim[d]);
        n *= (size_t)a->dim[d];
    }
    for (size_t i = 0; i < n; i++) {
        double p = (double)((float *)a->data)[i], q = (double)((float *)b->data)[i];
        double far = p > q ? p - q : q - p, size = p < 0 ? -p : p;
        if (!(far <= 1e-4 * (1 + size)))
            fail_msg("net %d: element %d is %g, not %g", net_i, (int)i, q, p);
    }
}

static void check_net(int i, int level, rp_dynamic dynamic, uint32_t entries) {
    static const int64_t sizes[][3] = {
        {2, 15, 20}, {3, 10, 17}, {4, 9, 24}, {2, 23, 8}, {3, 16, 16}};
    static float x[MOST], in[O * C * 9], mid[O * O * 9];
    rp_jit *plainly = jit_at(forward, 0, RP_DYNAMIC_AUTO, (void *)&nets[i]);
    rp_jit *f = jit_at(forward, level, dynamic, (void *)&nets[i]);
    for (int j = 0; j < MOST; j++) x[j] = (float)((j * 7919) % 1009) / 512 - 1;
    for (int j = 0; j < O * C * 9; j++) in[j] = (float)(j % 5 - 2) / 4;
    for (int j = 0; j < O * O * 9; j++) mid[j] = (float)(j % 7 - 3) / 8;
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        const int64_t *s = sizes[at];
        rp_value v[3] = {rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {s[0], C, s[1], s[2]}, x}),
                         rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {O, C, 3, 3}, in}),
                         rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {O, O, 3, 3}, mid})};
        rp_value all = rp_value_tuple(v, 3);
        rp_output *want = jit_ok(plainly, &all), *is = jit_ok(f, &all);
        check_same(i, want, is);
        rp_output_free(want);
        rp_output_free(is);
    }
    rp_jit_info info = jit_info(f);
    if (info.entries != entries || info.eager)
        fail_msg("net %d at level %d: %u entries, not %u", i, level, (unsigned)info.entries,
                 (unsigned)entries);
    rp_jit_free(f);
    rp_jit_free(plainly);
}

static void changing_sizes_are_compiled_once_more(void **state) {
    (void)state;
    for (int i = 0; i < N_NETS; i++) check_net(i, 1, RP_DYNAMIC_AUTO, 2);
}

static void all_sizes_are_dynamic_at_once(void **state) {
    (void)state;
    for (int i = 0; i < N_NETS; i++) check_net(i, 1, RP_DYNAMIC_ALL, 1);
}

static void they_are_compiled_as_a_whole(void **state) {
    (void)state;
    for (int i = 0; i < N_NETS; i++) check_net(i, 2, RP_DYNAMIC_AUTO, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changing_sizes_are_compiled_once_more),
        cmocka_unit_test(all_sizes_are_dynamic_at_once),
        cmocka_unit_test(they_are_compiled_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
