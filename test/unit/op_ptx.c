/* Custom ops whose implementation is PTX: a module of its own, and what its entry gets. What it computes a GPU shows (test/gpu/op.c). */
#include "support/check.h"

#include "base/alloc.h"
#include "base/file.h"
#include "compile/builtin.h"
#include "compile/compile.h"
#include "ir/custom.h"
#include "plan/exec.h"
#include "support/gpu.h"
#include "support/ptx_op.h"
#include "support/trees.h"
#include "trace/trace.h"

enum { COLUMNS = 24 };
static const char *no_gpu;

static int registered(void **state) {
    rp_error err = {0};
    (void)state;
    CHECK_OK(rp_op_register(&ptx_desc, &err), &err);
    if (gpu_emulate(&no_gpu)) no_gpu = NULL;
    return 0;
}

static rp_graph *scaled(void) {
    rp_graph *g = rp_graph_new("scaled");
    rp_error err = {0};
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 1, 64), COLUMNS)),
              y[] = {ptx_scaled(x, -3), ptx_scaled(rp_mul_scalar(x, 2), 4)};
    CHECK_OK(rp_graph_finish(g, y, 2, &err), &err);
    return g;
}

static plan *compiled(cache_store *store, compile_stats *stats) {
    rp_error err = {0};
    compile_nvrtc nvrtc = {0};
    rp_graph *g = scaled();
    plan *p = NULL;
    CHECK_OK(compile_nvrtc_find("sm_90", &nvrtc, &err), &err);
    const compile_options o = {.backend = &compile_cuda,
                               .nvrtc = &nvrtc,
                               .store = store,
                               .key_fields = "",
                               .threads = 1,
                               .passes = true};
    CHECK_OK(compile_graph(trace_graph_ir(g), &o, &p, stats, &err), &err);
    compile_nvrtc_done(&nvrtc);
    rp_graph_free(g);
    return p;
}

static plan *stored_and_read(plan *p) {
    rp_error err = {0};
    char *bytes = NULL;
    size_t n = 0;
    plan *again = NULL;
    CHECK_OK(plan_save(p, &bytes, &n, &err), &err);
    CHECK_OK(plan_load(bytes, n, &again, &err), &err);
    CHECK_OK(plan_verify(again, &err), &err);
    base_free(bytes);
    plan_free(p);
    return again;
}

/* The text is one code object, which both calls have, beside those of the kernels around them. */
static uint32_t module_of(const plan *p, cache_store *store) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < p->n_modules; i++) {
        rp_error err = {0};
        char *path = NULL, *text = NULL;
        size_t n = 0;
        CHECK_OK(cache_get_code(store, p->modules[i].key, p->modules[i].isa_bits, &path, &err),
                 &err);
        CHECK_OK(base_file_read(path, 1 << 24, &text, &n, &err), &err);
        if (n == sizeof ptx_scale && memcmp(text, ptx_scale, n) == 0) {
            assert_int_equal(found, UINT32_MAX);
            found = i;
        }
        base_free(path);
        base_free(text);
    }
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

static void an_entry_gets_addresses_sizes_and_attributes(void **state) {
    rp_error err = {0};
    cache_store *store = NULL;
    compile_stats stats = {0}, warm = {0};
    hal_device *d = NULL;
    plan_exec *x = NULL;
    plan_bound *b = NULL;
    float in[7 * COLUMNS] = {0}, out[2][7 * COLUMNS];
    const int64_t symbols[] = {7};
    const double factor = -0.5;
    uint32_t n = 0;
    long long offsets = 0;
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    CHECK_OK(cache_store_open(tree_new("store"), &store, &err), &err);
    plan *p = stored_and_read(compiled(store, &stats));
    const uint32_t module = module_of(p, store);
    CHECK_OK(hal_null_open(&d, &err), &err);
    const plan_exec_options o = {.device = d, .store = store, .builtin = compile_builtin_find};
    CHECK_OK(plan_exec_new(p, &o, &x, &err), &err);
    plan_exec_set(x, PLAN_INPUT, 0, in);
    for (uint32_t i = 0; i < 2; i++) plan_exec_set(x, PLAN_OUTPUT, i, out[i]);
    CHECK_OK(plan_bound_new(x, 0, p->n_pieces, &b, &err), &err);
    assert_int_equal(p->n_symbols, 1);
    CHECK_OK(plan_exec_bind(x, b, symbols, &err), &err);
    for (uint32_t i = 0; i < b->n; i++) {
        const plan_launch *l = &p->launches[i];
        const hal_launch *h = &b->launches[i];
        if (l->dim_map != PLAN_NUMBERS) continue;
        assert_int_equal(p->functions[l->alts[0].function].module, module);
        assert_string_equal(p->functions[l->alts[0].function].symbol, "scale");
        assert_int_equal(h->n_arg, 2);
        assert_int_equal(h->n_dim, 6);
        const long long want[] = {7, COLUMNS, 7, COLUMNS};
        assert_memory_equal(h->dim, want, sizeof want);
        assert_memory_equal(&h->dim[4], &factor, sizeof factor);
        offsets += h->dim[5];
        assert_true(h->dim[5] == -3 || h->dim[5] == 4);
        assert_int_equal(h->items, 7 * COLUMNS);
        assert_int_equal(h->threads, 128);
        assert_int_equal(h->per_block, 128);
        n++;
    }
    assert_int_equal(n, 2);
    assert_int_equal(offsets, 1); /* both of them */
    plan_bound_free(b);
    plan_exec_free(x);
    plan_free(p);
    plan_free(compiled(store, &warm)); /* nobody compiles PTX here, and the rest is stored */
    assert_int_equal(warm.compiles, 0);
    assert_true(stats.compiles > 0);
    d->ops->free(d);
    cache_store_close(store);
}

/* The emulated GPU has no compiler for it. */
static void what_cannot_be_loaded_says_so(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = scaled();
    (void)state;
    if (no_gpu) SKIP_TEST("%s", no_gpu);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_config_set(cfg, "device=cuda:0", &err), &err);
    assert_int_equal(rp_compile(g, cfg, &c, &err), RP_DEVICE);
    if (!strstr(err.text, "the emulated GPU has no compiler for PTX")) fail_msg("%s", err.text);
    rp_graph_free(g);
    rp_config_free(cfg);
}

/* It is no implementation for the host. */
static void the_host_does_not_run_it(void **state) {
    static const char *const levels[] = {"level=0", "level=2"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        rp_compilation_config *cfg = rp_config_new();
        rp_graph *g = scaled();
        CHECK_OK(rp_config_set(cfg, levels[i], &err), &err);
        assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
        if (!strstr(err.text, "ptx::scale")) fail_msg("%s", err.text);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
}

static void bad_ptx_is_refused(void **state) {
    static const rp_op_attr text = {.name = "mode", .kind = RP_OP_STRING, .s = "up"};
    static const char waits[] = ".entry scale2(\n) { griddepcontrol.wait; }",
                      hurries[] = ".entry\tscale ( ) { }";
    const struct {
        rp_op_desc d;
        const char *why;
    } bad[] = {
        {{.ptx = ptx_scale}, "ptx and ptx_entry come together"},
        {{.ptx_entry = "scale"}, "ptx and ptx_entry come together"},
        {{.ptx = ptx_scale, .ptx_entry = "scale", .cuda_source = "rp_op"}, "in the place of cuda"},
        {{.ptx = waits, .ptx_entry = "scale"}, "its PTX has no .entry scale"},
        {{.ptx = waits, .ptx_entry = ""}, "its PTX has no .entry"},
        {{.ptx = hurries, .ptx_entry = "scale"}, "has no griddepcontrol.wait"},
        {{.ptx = ptx_scale, .ptx_entry = "scale", .attrs = &text, .n_attrs = 1}, "'mode' is anot"},
        {{.ptx = ptx_scale, .ptx_entry = "scale", .threads = 1025}, "at most 1024 threads"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rp_error err = {0};
        rp_op_desc d = bad[i].d;
        d.size = sizeof d;
        d.name = "ptx::bad";
        assert_int_equal(rp_op_register(&d, &err), RP_INVALID);
        if (!strstr(err.text, bad[i].why)) fail_msg("%zu: %s", i, err.text);
    }
}

/* Plans that may call it depend on the text and on the entry. */
static void a_key_has_text_and_entry(void **state) {
    rp_error err = {0};
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    ir_custom_sources(&b);
    CHECK_OK(base_buf_status(&b, &err), &err);
    const char *line = strstr(b.data, "ptx::scale ptx 0 128 ");
    if (!line || !strstr(line, " scale\n")) fail_msg("%s", b.data);
    base_buf_done(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_gets_addresses_sizes_and_attributes),
        cmocka_unit_test(what_cannot_be_loaded_says_so),
        cmocka_unit_test(the_host_does_not_run_it),
        cmocka_unit_test(bad_ptx_is_refused),
        cmocka_unit_test(a_key_has_text_and_entry),
    };
    return cmocka_run_group_tests(tests, registered, NULL);
}
