/* Every op of the tensor API that looks at sizes, in a function whose sizes change from call to call: no valid call fails, results are those of level 0,
 * and few sizes are compiled. */
#include "support/jits.h"

enum { C = 2, H = 9, MOST_W = 33 };

/* What a case works with. */
typedef struct args {
    rp_graph *g;
    rp_tensor x;   /* [1,C,H,W] */
    rp_tensor row; /* [H,W] */
    rp_tensor i;   /* i32[W], below W */
    rp_tensor k;   /* [C,C,3,3] */
    rp_tensor d;   /* [C,1,3,3] */
    rp_tensor b;   /* [2,W], below 3 */
    rp_dim n;      /* W */
} args;

typedef rp_tensor (*make)(const args *a);
typedef struct sized {
    const char *name;
    make fn;
    uint32_t most; /* entries at sizes 8, 12, 16, 20, 33 */
    uint32_t all;  /* with dynamic sizes for all */
    bool fours;    /* 32 in place of 33 */
} sized;

#define CASE(name, ...)                    \
    static rp_tensor name(const args *a) { \
        rp_tensor x = a->x, y = rp_none(); \
        rp_dim n = a->n;                   \
        (void)x, (void)n;                  \
        __VA_ARGS__                        \
        return y;                          \
    }

#define CONV(...)                   \
    rp_conv_args c = {__VA_ARGS__}; \
    y = rp_conv2d(x, a->k, rp_none(), &c);

CASE(conv, y = rp_conv2d(x, a->k, rp_none(), NULL);)
CASE(conv_same, CONV(.padding = {1, 1}))
CASE(conv_stride, CONV(.padding = {1, 1}, .stride = {2, 2}))
CASE(conv_dilated, CONV(.padding = {1, 1}, .dilation = {2, 2}))
CASE(conv_deep, {
    rp_conv_args c = {.padding = {1, 1}, .groups = C};
    y = rp_conv2d(x, a->d, rp_none(), &c);
})
CASE(conv_tiled, {
    rp_conv_args c = {.stride = {3, 3}};
    y = rp_conv2d(x, a->k, rp_none(), &c);
})
/* So many taps that windows which cover x are worth a guard. */
CASE(conv_patches, {
    rp_conv_args c = {.stride = {9, 8}};
    y = rp_conv2d(x, rp_pad(rp_pad(a->k, 2, 1, 5, 1), 3, 2, 3, 2), rp_none(), &c);
})
CASE(conv_line, {
    y = rp_conv1d(rp_reshape(rp_slice(x, 2, 0, 1), RP_SHAPE(1, C, n)),
                  rp_reshape(rp_slice(a->k, 3, 0, 1), RP_SHAPE(C, C, 3)), rp_none(), NULL);
})
CASE(conv_transposed, {
    rp_conv_args c = {.stride = {2, 2}, .padding = {1, 1}};
    y = rp_conv_transpose2d(x, a->k, rp_none(), &c, 1);
})
CASE(conv_transposed_cut, {
    rp_conv_args c = {.padding = {4, 4}};
    y = rp_conv_transpose2d(x, a->k, rp_none(), &c, 0);
})
CASE(max_pool, y = rp_max_pool2d(x, 2, 0, 0);)
CASE(max_pool_over, y = rp_max_pool2d(x, 3, 2, 1);)
CASE(avg_pool, y = rp_avg_pool2d(x, 2, 0, 0);)
CASE(pool_large, y = rp_max_pool2d(rp_pad(x, 2, 0, 4, 0), 8, 1, 4);)
CASE(pools, y = rp_amax(rp_max_pool2d(rp_max_pool2d(x, 3, 2, 0), 3, 1, 0), 3, false);)
CASE(net, {
    rp_conv_args c = {.padding = {1, 1}, .stride = {2, 2}};
    y = rp_relu(rp_conv2d(x, a->k, rp_none(), &c));
    y = rp_max_pool2d(rp_conv2d(y, a->k, rp_none(), NULL), 2, 0, 0);
    y = rp_mean(rp_flatten(y, 2, 3), -1, false);
})
CASE(upsample, y = rp_upsample_nearest2d(x, 2);)
CASE(u_net, y = rp_add(rp_slice(x, 2, 0, 8), rp_upsample_nearest2d(rp_max_pool2d(x, 2, 0, 0), 2));)
CASE(patched, y = rp_reshape(x, RP_SHAPE(1, C, H, rp_dim_floordiv(n, 4), 4));)
CASE(chunks, {
    rp_dim half = rp_dim_floordiv(n, 2);
    y = rp_add(rp_slice(x, 3, 0, half), rp_slice(x, 3, half, n));
})
CASE(take, {
    rp_tensor i = rp_argsort(x, -1, false);
    y = rp_take_along(x, -1, i);
})
CASE(take_one, {
    rp_tensor i = rp_argmax(x, -1, true);
    y = rp_take_along(x, -1, i);
})
CASE(sorted, rp_sort(x, -1, true, &y, NULL);)
CASE(top, rp_topk(x, 3, &y, NULL);)
CASE(top_flat, rp_topk(rp_flatten(x, 1, 3), 20, &y, NULL);)
CASE(greatest, y = rp_amax(x, -1, false);)
CASE(greatest_flat, y = rp_amax(rp_flatten(x, 1, 3), -1, false);)
CASE(place, y = rp_argmax(x, -1, false);)
CASE(sums, y = rp_cumsum(x, 3);)
CASE(mean, y = rp_mean(x, 3, false);)
CASE(variance, y = rp_var(x, 3, false, 1);)
CASE(logsumexp, y = rp_logsumexp(x, 3, false);)
CASE(softmax, y = rp_softmax(x, 3);)
CASE(group_norm, y = rp_group_norm(x, 2, rp_none(), rp_none(), 1e-5);)
CASE(flip, y = rp_flip(x, 3);)
CASE(every_other, y = rp_slice_step(x, 3, 1, n, 2);)
CASE(every_third_of, y = rp_slice_step(x, 3, 0, rp_dim_sub(n, 2), 3);)
CASE(last, y = rp_slice(x, 3, rp_dim_sub(n, 3), n);)
CASE(but_last, y = rp_slice(x, 3, 0, rp_dim_sub(n, 1));)
CASE(shifted, y = rp_sub(rp_slice(x, 3, 1, n), rp_slice(x, 3, 0, rp_dim_sub(n, 1)));)
CASE(rolled, {
    rp_tensor part[] = {rp_slice(x, 3, rp_dim_sub(n, 3), n), rp_slice(x, 3, 0, rp_dim_sub(n, 3))};
    y = rp_concat(part, 2, 3);
})
CASE(halves, {
    rp_dim half = rp_dim_floordiv(n, 2);
    y = rp_add(rp_slice(x, 3, 0, half), rp_slice(x, 3, rp_dim_sub(n, half), n));
})
CASE(padded, y = rp_pad(x, 3, 2, rp_dim_sub(n, 5), 7);)
CASE(patches, y = rp_reshape(rp_slice(x, 3, 0, rp_dim_sub(n, rp_dim_mod(n, 4))),
                             RP_SHAPE(1, C, H, rp_dim_floordiv(n, 4), 4));)
CASE(flat, y = rp_flatten(x, 1, 3);)
CASE(table,
     y = rp_mul(rp_slice(rp_iota(a->g, RP_DTYPE_I32, RP_SHAPE(64), 0), 0, 0, rp_dim_ceildiv(n, 2)),
                rp_const(a->g, RP_DTYPE_I32, 3));)
CASE(gathered, y = rp_gather(rp_transpose(x, 0, 3), a->i);)
CASE(selected, y = rp_index_select(x, 3, a->i);)
CASE(added, y = rp_index_add(x, 3, a->i, x);)
CASE(copied, y = rp_index_copy(x, 3, a->i, x);)
CASE(scattered, y = rp_scatter_add(x, -1, rp_argsort(x, -1, false), x);)
CASE(put, {
    rp_tensor t = rp_transpose(x, 0, 3);
    y = rp_index_put(t, &a->i, 1, t, false);
})
CASE(one_hot, y = rp_one_hot(a->i, 40, RP_DTYPE_F32);)
CASE(masked,
     y = rp_where(rp_tril_mask(a->g, n, n, 0), rp_reshape(rp_slice(x, 1, 0, 1), RP_SHAPE(H, 1, n)),
                  rp_const(a->g, RP_DTYPE_F32, 0));)
CASE(entropy, y = rp_cross_entropy(rp_permute(a->row, (int[]){1, 0}, 2),
                                   rp_min(a->i, rp_const(a->g, RP_DTYPE_I32, H - 1)));)
CASE(product, y = rp_matmul(a->row, a->row, true);)
CASE(product_of_two, y = rp_matmul(a->row, a->b, true);)
CASE(dots, {
    rp_dot_dims d = {.n_contract = 1, .a_contract = {1}, .b_contract = {1}};
    y = rp_dot_general(a->row, a->b, &d);
})
CASE(rope, {
    rp_tensor t =
        rp_reshape(rp_permute(rp_slice(a->row, 0, 0, 4), (int[]){1, 0}, 2), RP_SHAPE(n, 1, 4));
    rp_tensor c = rp_permute(rp_slice(a->row, 0, 4, 6), (int[]){1, 0}, 2);
    y = rp_rope(t, c, c);
})
static rp_tensor attend(const args *a, bool causal, int64_t window, int64_t less) {
    rp_tensor t = rp_permute(a->x, (int[]){0, 1, 3, 2}, 4);
    rp_sdpa_args s = {.q = rp_slice(t, 2, 0, rp_dim_sub(a->n, less)),
                      .k = t,
                      .v = t,
                      .causal = causal,
                      .window = window};
    return rp_scaled_dot_product_attention(&s);
}
CASE(attention, y = attend(a, true, 0, 0);)
CASE(attention_window, y = attend(a, true, 3, 1);)
CASE(attention_heads, {
    rp_tensor t = rp_permute(a->x, (int[]){0, 3, 1, 2}, 4);
    rp_sdpa_args s = {.q = t, .k = rp_slice(t, 1, 0, 1), .v = rp_slice(t, 1, 0, 1)};
    y = rp_scaled_dot_product_attention(&s);
})
CASE(written, {
    rp_tensor m = rp_empty(a->g, RP_DTYPE_F32, RP_SHAPE(1, C, H, n));
    m = rp_update(m, x);
    y = rp_update_at(m, rp_slice(x, 3, 0, 2), RP_SHAPE(0, 0, 0, rp_dim_sub(n, 4)));
})
/* A size that is 1 and may be more. */
CASE(stretched, y = rp_mul(rp_slice(x, 3, 0, rp_dim_floordiv(rp_dim_add(n, 56), 64)), a->row);)
/* Of five symbols it has more terms than a form can. */
CASE(long_form, {
    rp_tensor k = a->k;
    for (int axis = 0; axis < 4; axis++) k = rp_pad(k, axis, 0, 1, 1);
    rp_shape s = rp_tensor_shape(k);
    s.dim[s.rank++] = rp_dim_add(n, 1);
    y = rp_flatten(rp_broadcast(rp_unsqueeze(k, 4), s), 0, 4);
})
CASE(squeezed, y = rp_squeeze(rp_slice(x, 3, 0, rp_dim_sub(n, rp_dim_sub(n, 1))), 3);)

/* 5 of 5: forms of many symbols have too many terms, or are too long for a plan. */
static const sized cases[] = {
#define ONE(name) \
    { #name, name, 2, 1, false }
    ONE(conv),
    ONE(conv_same),
    ONE(conv_stride),
    ONE(conv_dilated),
    ONE(conv_deep),
    ONE(conv_tiled),
    ONE(conv_line),
    ONE(conv_transposed),
    ONE(conv_transposed_cut),
    ONE(max_pool),
    ONE(max_pool_over),
    ONE(avg_pool),
    ONE(pool_large),
    ONE(pools),
    ONE(net),
    ONE(upsample),
    ONE(take),
    ONE(take_one),
    ONE(sorted),
    ONE(top),
    ONE(top_flat),
    ONE(greatest),
    ONE(greatest_flat),
    ONE(place),
    ONE(sums),
    ONE(mean),
    ONE(variance),
    ONE(logsumexp),
    ONE(softmax),
    ONE(group_norm),
    ONE(flip),
    ONE(every_other),
    ONE(every_third_of),
    ONE(last),
    ONE(but_last),
    ONE(shifted),
    ONE(rolled),
    ONE(halves),
    ONE(padded),
    ONE(flat),
    ONE(table),
    ONE(gathered),
    ONE(selected),
    ONE(added),
    ONE(copied),
    ONE(scattered),
    ONE(put),
    ONE(one_hot),
    ONE(masked),
    ONE(entropy),
    ONE(product),
    ONE(product_of_two),
    ONE(dots),
    ONE(rope),
    ONE(attention),
    ONE(attention_window),
    ONE(written),
    ONE(squeezed),
    {"long_form", long_form, 2, 5, false},
    {"conv_patches", conv_patches, 2, 2, false},
    ONE(patches),
    {"u_net", u_net, 2, 1, true},
    {"patched", patched, 2, 1, true},
    {"chunks", chunks, 2, 1, true},
    {"attention_heads", attention_heads, 5, 5, false}, /* as many heads as they are */
    {"stretched", stretched, 5, 5, false},             /* 1 where it broadcasts */
};
enum { N_CASES = sizeof cases / sizeof *cases };

static rp_status forward(void *user, rp_jit_call *call, const rp_value *v, rp_value *result,
                         rp_error *err) {
    const sized *is = user;
    rp_tensor t[5];
    (void)err;
    for (int i = 0; i < 5; i++) t[i] = rp_jit_tensor(call, &v->item[i]);
    rp_dim n = rp_tensor_dim(t[0], 3);
    args a = {rp_jit_graph(call),
              t[0],
              rp_reshape(rp_slice(t[0], 1, 0, 1), RP_SHAPE(rp_tensor_dim(t[0], 2), n)),
              t[1],
              t[2],
              t[3],
              t[4],
              n};
    *result = rp_jit_value(call, is->fn(&a));
    return RP_OK;
}

static void check_same(const sized *is, int64_t w, const rp_output *x, const rp_output *y) {
    const rp_buffer *a = &jit_result(x)->tensor, *b = &jit_result(y)->tensor;
    size_t n = 1;
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->dtype, b->dtype);
    for (uint32_t d = 0; d < a->rank; d++) {
        if (a->dim[d] != b->dim[d])
            fail_msg("%s at %d: size %d of axis %u", is->name, (int)w, (int)b->dim[d], d);
        n *= (size_t)a->dim[d];
    }
    for (size_t i = 0; i < n; i++) {
        double p = 0, q = 0;
        if (a->dtype == RP_DTYPE_F32)
            p = (double)((float *)a->data)[i], q = (double)((float *)b->data)[i];
        if (a->dtype == RP_DTYPE_I32) p = ((int32_t *)a->data)[i], q = ((int32_t *)b->data)[i];
        double far = p > q ? p - q : q - p, size = p < 0 ? -p : p;
        if (!(far <= 1e-4 * (1 + size)))
            fail_msg("%s at %d: element %d is %g, not %g", is->name, (int)w, (int)i, q, p);
    }
}

static void check_case(const sized *is, rp_dynamic dynamic, uint32_t most) {
    static const int64_t widths[] = {8, 12, 16, 20, MOST_W};
    static float x[C * H * MOST_W], k[C * C * 9], b[2 * MOST_W];
    static int32_t i[MOST_W];
    rp_jit *plain = jit_at(forward, 0, RP_DYNAMIC_AUTO, (void *)is);
    rp_jit *f = jit_at(forward, 1, dynamic, (void *)is);
    for (int j = 0; j < C * H * MOST_W; j++) x[j] = (float)((j * 7919) % 1009) / 256;
    for (int j = 0; j < C * C * 9; j++) k[j] = (float)(j % 5 - 2) / 2;
    for (int j = 0; j < 2 * MOST_W; j++) b[j] = (float)(j % 3);
    for (int at = 0; at < 5; at++) {
        int64_t w = is->fours ? widths[at] / 4 * 4 : widths[at];
        rp_error err = {0};
        rp_output *y[2] = {NULL, NULL};
        for (int64_t j = 0; j < w; j++) i[j] = (int32_t)(w - 1 - j);
        rp_value v[5] = {rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {1, C, H, w}, x}),
                         rp_value_tensor((rp_buffer){RP_DTYPE_I32, 1, {w}, i}),
                         rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {C, C, 3, 3}, k}),
                         rp_value_tensor((rp_buffer){RP_DTYPE_F32, 4, {C, 1, 3, 3}, k}),
                         rp_value_tensor((rp_buffer){RP_DTYPE_F32, 2, {2, w}, b})};
        rp_value all = rp_value_tuple(v, 5);
        rp_status want = rp_jit_run(plain, &all, &y[0], &err);
        if (want != RP_OK) fail_msg("%s at %d: level 0: %s", is->name, (int)w, err.text);
        if (rp_jit_run(f, &all, &y[1], &err) != RP_OK)
            fail_msg("%s at %d: %s", is->name, (int)w, err.text);
        check_same(is, w, y[0], y[1]);
        rp_output_free(y[0]);
        rp_output_free(y[1]);
    }
    rp_jit_info info = jit_info(f);
    if (info.entries > most || info.eager)
        fail_msg("%s: %u entries; %u are enough", is->name, (unsigned)info.entries, most);
    rp_jit_free(f);
    rp_jit_free(plain);
}

static void changing_sizes_are_compiled_once_more(void **state) {
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) check_case(&cases[i], RP_DYNAMIC_AUTO, cases[i].most);
}

static void all_sizes_are_dynamic_at_once(void **state) {
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) check_case(&cases[i], RP_DYNAMIC_ALL, cases[i].all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changing_sizes_are_compiled_once_more),
        cmocka_unit_test(all_sizes_are_dynamic_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
