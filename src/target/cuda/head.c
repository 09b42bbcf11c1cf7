/* What a kernel in CUDA C begins with, and functions of kernel IR inside of one. */
#include "target/cuda/cuda.h"

void target_cuda_head(lowerer *L, const char *name, uint32_t threads, uint32_t per_sm,
                      const char *how) {
    target_cuda_head_with(L, name, threads, per_sm, how, NULL);
}

void target_cuda_head_with(lowerer *L, const char *name, uint32_t threads, uint32_t per_sm,
                           const char *how, const char *more) {
    base_buf *b = &L->source;
    uint32_t n_dims = ir_dims_symbol_count(L->out->dims);
    base_buf_printf(b, "extern \"C\" __global__ void __launch_bounds__(%u", threads);
    if (per_sm) base_buf_printf(b, ", %u", per_sm);
    base_buf_printf(b, ") %s%s(", how, name);
    for (uint32_t i = 0; i < L->n_args; i++) base_buf_printf(b, "char *a%u, ", i);
    for (uint32_t i = 0; i < n_dims; i++) base_buf_printf(b, "long long d%u, ", i);
    if (more) base_buf_printf(b, "long long %s, ", more);
    base_buf_puts(b, "long long items)\n{\n    char *const arg[] = {");
    for (uint32_t i = 0; i < L->n_args; i++) base_buf_printf(b, "a%u, ", i);
    base_buf_puts(b, "};\n    const long long dim[] = {");
    for (uint32_t i = 0; i < n_dims; i++) base_buf_printf(b, "d%u, ", i);
    base_buf_puts(b, "0};\n    rk_launch_dependents();\n");
}

rp_status target_render_item(lowerer *L, const kir_func *k, const char *name, uint32_t threads) {
    sched *s = NULL;
    RP_TRY(sched_make_item(k, &s, L->err));
    rp_status st = gen_cuda_item(s, name, threads, &L->source, L->err);
    sched_free(s);
    return st;
}

rp_status target_render_element(lowerer *L, uint32_t *n_asked) {
    sched *s = NULL;
    lower_note_access(L, L->k, NULL);
    RP_TRY(lower_render_texts(L));
    RP_TRY(sched_make(&sched_cuda, L->k, &s, L->err));
    rp_status st = gen_cuda_element(s, &L->source, n_asked, L->err);
    sched_free(s);
    return st;
}
