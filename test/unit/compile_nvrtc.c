/* NVRTC as a compiler, with the emulated one: code comes into the store, reasons are told, no file stays. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/trees.h"

#include <unistd.h>

#include "base/alloc.h"
#include "compile/nvrtc.h"
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
        CHECK_OK(engine_read_limit(&o, &limit, &err), &err);
        assert_true(limit > 0);
        CHECK_OK(cache_list(store, false, count_code, &n, &err), &err);
        assert_int_equal(n, i < 1 ? 1 : 2);
    }
    d->ops->release(d, p, 1 << 17);
    hal_close(d);
    cache_store_close(store);
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
    compile_nvrtc_done(&n);
    assert_null(n.scratch);
    if (access(text, F_OK) == 0) fail_msg("%s is left", text);
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
    assert_non_null(strstr(err.text, "; REPRISE_NVRTC names another library"));
    compile_nvrtc_done(&n);
    cache_store_close(store);
}

static void architectures_have_bits_of_their_own(void **state) {
    (void)state;
    assert_int_equal(compile_nvrtc_bits("sm_90"), UINT32_C(1) << 31 | 90);
    assert_int_equal(compile_nvrtc_bits("sm_120"), UINT32_C(1) << 31 | 120);
    assert_int_equal(compile_nvrtc_bits("sm_"), UINT32_C(1) << 31);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_kept_and_no_folder_stays),
        cmocka_unit_test(what_measures_is_of_an_architecture),
        cmocka_unit_test(what_does_not_compile_is_ours_to_explain),
        cmocka_unit_test(architectures_have_bits_of_their_own),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("compile_nvrtc", tests, NULL, NULL);
}
