/* NVRTC as a compiler, with the emulated one: code comes into the store, reasons are told, no file stays. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/trees.h"

#include <unistd.h>

#include "base/alloc.h"
#include "compile/compile.h"
#include "compile/nvrtc.h"
#include "engine/decode_code.h"
#include "engine/read_limit.h"

static const char *why_not;

#define NEEDS_NVRTC() \
    if (why_not) SKIP_TEST("%s", why_not)

static rp_status count_code(void *user, const cache_entry *e, rp_error *err) {
    (void)err;
    *(int *)user += e->kind == CACHE_CODE;
    return RP_OK;
}

/* Code of one architecture is not given to another, which has a text of its own in the store; and is found again. */
static void what_measures_is_of_an_architecture(void **state) {
    static const char *const arch[] = {"sm_80", "sm_90", "sm_80", "sm_90"};
    rp_error err = {0};
    cache_store *store = NULL;
    hal_device *d = NULL;
    void *p = NULL;
    (void)state;
    NEEDS_NVRTC();
    CHECK_OK(cache_store_open(tree_new("limits"), &store, &err), &err);
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, 1 << 17, &p, &err), &err);
    for (int i = 0; i < 4; i++) {
        const engine_read_limit_options o = {d, store, arch[i], p, 1 << 17};
        double limit = 0;
        int n = 0;
        d->seal = i % 2 ? HAL_SEALED_FATAL : HAL_SEALED_WARN;
        CHECK_OK(engine_read_limit(&o, &limit, &err), &err);
        assert_true(limit > 0);
        assert_int_equal(d->seal, i % 2 ? HAL_SEALED_FATAL : HAL_SEALED_WARN); /* as it was */
        CHECK_OK(cache_list(store, false, count_code, &n, &err), &err);
        assert_int_equal(n, i < 1 ? 1 : 2);
    }
    d->ops->release(d, p, 1 << 17);
    hal_close(d);
    cache_store_close(store);
}

/* The code of key is loaded by its handle alone. */
static void check_handles(const compile_nvrtc *n, cache_store *store, base_hash128 key) {
    const compile_host h = {.nvrtc = n, .store = store};
    char own[33], other[33];
    base_hash_hex(key, own);
    base_hash_hex((base_hash128){key.lo, key.hi + 1}, other);
    const struct {
        base_hash128 key;
        const char *handle;
        rp_status st;
    } all[] = {{key, own, RP_OK},
               {key, other, RP_NOT_FOUND},
               {{key.lo, key.hi + 1}, own, RP_NOT_FOUND},
               {{key.lo, key.hi + 1}, other, RP_NOT_FOUND},
               {key, "", RP_NOT_FOUND}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const compile_unit u = {.key = all[i].key, .n_functions = 1};
        compile_code code = {0};
        assert_int_equal(compile_cuda.load(&h, &u, all[i].handle, &code, NULL), all[i].st);
        assert_int_equal(code.has_code, all[i].st == RP_OK);
    }
}

static void code_is_kept_and_no_folder_stays(void **state) {
    compile_nvrtc n = {0};
    rp_error err = {0};
    cache_store *store = NULL;
    char *at = NULL, text[200];
    const base_hash128 key = {1, 2};
    (void)state;
    NEEDS_NVRTC();
    CHECK_OK(cache_store_open(tree_new("store"), &store, &err), &err);
    CHECK_OK(compile_nvrtc_find("sm_80", &n, &err), &err);
    assert_string_equal(n.arch, "sm_80");
    assert_int_equal(strncmp(n.version, "NVRTC ", 6), 0);
    assert_true(access(n.scratch, F_OK) == 0);
    (void)snprintf(text, sizeof text, "%s", n.scratch);
    CHECK_OK(compile_nvrtc_run(&n, "extern \"C\" __global__ void k(int *p) { p[0] = 1; }", key,
                               store, &err),
             &err);
    CHECK_OK(cache_get_code(store, key, compile_nvrtc_bits("sm_80"), &at, &err), &err);
    assert_true(access(at, F_OK) == 0);
    base_free(at);
    check_handles(&n, store, key);
    compile_nvrtc_done(&n);
    assert_null(n.scratch);
    if (access(text, F_OK) == 0) fail_msg("%s is left", text);
    cache_store_close(store);
}

/* Kernels of a decode step are found again by the same compiler for the same GPU alone. */
static void decode_code_is_of_its_gpu_and_compiler(void **state) {
    gen_decode d = {.s = {.hidden = 64,
                          .heads = 2,
                          .kv_heads = 1,
                          .head_dim = 32,
                          .ffn = 96,
                          .vocab = 100,
                          .eps = 1e-5f},
                    .most = 2};
    compile_nvrtc n = {0};
    rp_error err = {0};
    cache_store *store = NULL;
    base_hash128 key[3];
    (void)state;
    NEEDS_NVRTC();
    CHECK_OK(cache_store_open(tree_new("decode"), &store, &err), &err);
    CHECK_OK(compile_nvrtc_find("sm_90", &n, &err), &err);
    CHECK_OK(gen_decode_fit(&d, 132, 227 << 10, &err), &err);
    const engine_plans_options o = {.store = store, .threads = 1};
    for (int i = 0; i < 4; i++) { /* the last is the first again */
        plan_module m = {{0}, 0};
        compile_stats stats = {0};
        compile_nvrtc other = n;
        if (i % 3 == 1) (void)snprintf(other.version, sizeof other.version, "NVRTC of tomorrow");
        if (i % 3 == 2) (void)snprintf(other.arch, sizeof other.arch, "sm_100");
        CHECK_OK(engine_decode_code(&o, &other, &d, 1, &m, &stats, &err), &err);
        assert_int_equal(stats.compiles, i < 3);
        assert_int_equal(stats.cache_hits, i == 3);
        if (i < 3) key[i] = m.key;
        for (int k = 0; k < i; k++)
            assert_int_equal(memcmp(&m.key, &key[k], sizeof m.key) == 0, i == 3 && k == 0);
    }
    compile_nvrtc_done(&n);
    cache_store_close(store);
}

static void what_does_not_compile_is_ours_to_explain(void **state) {
    compile_nvrtc n = {0};
    rp_error err = {0};
    cache_store *store = NULL;
    (void)state;
    NEEDS_NVRTC();
    CHECK_OK(cache_store_open(tree_new("store"), &store, &err), &err);
    CHECK_OK(compile_nvrtc_find("sm_90", &n, &err), &err);
    assert_int_equal(
        compile_nvrtc_run(&n, "extern \"C\" this is no code", (base_hash128){3, 4}, store, &err),
        RP_INTERNAL);
    assert_non_null(strstr(err.text, ", REPRISE_NVRTC names another library"));
    compile_nvrtc_done(&n);
    cache_store_close(store);
}

static void architectures_have_bits_of_their_own(void **state) {
    (void)state;
    assert_int_equal(compile_nvrtc_bits("sm_90"), UINT32_C(1) << 31 | 90);
    assert_int_equal(compile_nvrtc_bits("sm_120"), UINT32_C(1) << 31 | 120);
    assert_int_equal(compile_nvrtc_bits("sm_"), UINT32_C(1) << 31);
}

static void blocks_have_the_shared_memory_of_the_gpu(void **state) {
    (void)state;
    assert_int_equal(compile_nvrtc_shared("sm_90"), 227 << 10);
    assert_int_equal(compile_nvrtc_shared("sm_80"), 163 << 10);
    assert_int_equal(compile_nvrtc_shared("sm_86"), 99 << 10);
    assert_int_equal(compile_nvrtc_shared("sm_"), 99 << 10);
}

/* Code of another GPU or another NVRTC is another piece; where its files lie does not matter. */
static void a_key_has_the_gpu_and_the_compiler(void **state) {
    static char elsewhere[] = "elsewhere";
    static const struct {
        compile_nvrtc n;
        bool same;
    } all[] = {{{.arch = "sm_90", .version = "NVRTC 13.0"}, true},
               {{.arch = "sm_90", .version = "NVRTC 13.0", .scratch = elsewhere}, true},
               {{.arch = "sm_80", .version = "NVRTC 13.0"}, false},
               {{.arch = "sm_90", .version = "NVRTC 13.1"}, false}};
    base_hash128 key[4];
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const compile_host h = {.nvrtc = &all[i].n};
        rp_error err = {0};
        cache_key *k = cache_key_new();
        assert_non_null(k);
        CHECK_OK(compile_cuda.compute_hash(&h, k, &err), &err);
        key[i] = cache_key_hash(k);
        cache_key_free(k);
        assert_int_equal(key[i].lo == key[0].lo && key[i].hi == key[0].hi, all[i].same);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_shared_memory_of_the_gpu),
        cmocka_unit_test(a_key_has_the_gpu_and_the_compiler),
        cmocka_unit_test(code_is_kept_and_no_folder_stays),
        cmocka_unit_test(what_measures_is_of_an_architecture),
        cmocka_unit_test(decode_code_is_of_its_gpu_and_compiler),
        cmocka_unit_test(what_does_not_compile_is_ours_to_explain),
        cmocka_unit_test(architectures_have_bits_of_their_own),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("compile_nvrtc", tests, NULL, NULL);
}
