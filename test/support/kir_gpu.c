#include "support/kir_gpu.h"

#include "support/check.h"

int kir_case_on_gpu(const kir_case *c, const cuda_driver *cu, void *module,
                    const sched_launch *launch, unsigned grid, const char *what) {
    kir_func *f = c->make(c->name);
    kir_case_data want, got;
    int64_t symbols[1] = {KIR_CASE_T};
    long long d0 = KIR_CASE_T, items = c->items * launch->parts;
    uint64_t arg[KIR_CASE_SLOTS];
    void *params[KIR_CASE_SLOTS + 2], *fn;
    uint32_t n = 0;

    assert_true(kir_case_data_init(&want, c) && kir_case_data_init(&got, c));
    assert_int_equal(kir_run(f, want.arg, symbols, NULL, 0, c->items, NULL), RP_OK);
    assert_int_equal(cu->module_function(&fn, module, c->name), 0);
    for (int i = 0; i < KIR_CASE_SLOTS; i++) {
        assert_int_equal(cu->memory_alloc(&arg[i], got.size[i] + 64), 0);
        assert_int_equal(cu->copy_in(arg[i], got.arg[i], got.size[i] + 64, NULL), 0);
    }
    for (uint32_t i = 0; i < launch->n_args; i++) params[n++] = &arg[i];
    for (uint32_t i = 0; i < ir_dims_symbol_count(f->dims); i++) params[n++] = &d0;
    params[n++] = &items;
    assert_int_equal(cu->launch(fn, grid, 1, 1, launch->threads, 1, 1, 0, NULL, params, NULL), 0);
    assert_int_equal(cu->synchronize(), 0);
    for (int i = 0; i < KIR_CASE_SLOTS; i++)
        assert_int_equal(cu->copy_out(got.arg[i], arg[i], got.size[i] + 64, NULL), 0);
    assert_int_equal(cu->synchronize(), 0);
    for (int i = 0; i < KIR_CASE_SLOTS; i++) assert_int_equal(cu->memory_free(arg[i]), 0);
    int bad = kir_case_compare(c, &want, &got, what);
    kir_case_data_done(&want);
    kir_case_data_done(&got);
    kir_free(f);
    return bad;
}
