/* Cubins take the way of every code object: a file in a scratch folder, which the store takes over. */
#include "compile/nvrtc.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/temp.h"
#include "hal/cuda/code.h"

rp_status compile_nvrtc_find(const char *arch, compile_nvrtc *out, rp_error *err) {
    compile_nvrtc n = {0};
    int major = 0, minor = 0;
    RP_TRY(cuda_nvrtc_open(&n.api, NULL, err));
    if (n.api.version(&major, &minor) != 0)
        return rp_fail(err, RP_DEVICE, "NVRTC does not tell its version");
    (void)snprintf(n.arch, sizeof n.arch, "%s", arch);
    (void)snprintf(n.version, sizeof n.version, "NVRTC %d.%d", major, minor);
    RP_TRY(base_temp_dir("reprise-nvrtc", &n.scratch, err));
    *out = n;
    return RP_OK;
}

void compile_nvrtc_done(compile_nvrtc *n) {
    rp_error ignored = {0};
    /* Once more where that found no memory. */
    if (n->scratch && base_path_remove(n->scratch, &ignored) != RP_OK &&
        base_path_remove(n->scratch, &ignored) != RP_OK)
        base_log(RP_LOG_DEBUG, "%s is left behind: %s", n->scratch, ignored.text);
    base_free(n->scratch);
    *n = (compile_nvrtc){0};
}

uint32_t compile_nvrtc_bits(const char *arch) {
    uint32_t n = 0;
    for (const char *p = arch + strcspn(arch, "0123456789"); *p >= '0' && *p <= '9'; p++)
        n = n * 10 + (uint32_t)(*p - '0');
    return UINT32_C(1) << 31 | n;
}

uint32_t compile_nvrtc_shared(const char *arch) {
    static const struct {
        uint32_t arch, kilobytes;
    } known[] = {{80, 163}, {87, 163}, {90, 227}, {100, 227}, {101, 227}, {103, 227}};
    const uint32_t n = compile_nvrtc_bits(arch) & ~(UINT32_C(1) << 31);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].arch == n) return known[i].kilobytes << 10;
    return 99 << 10;
}

rp_status compile_nvrtc_keep(const compile_nvrtc *n, const char *code, size_t size,
                             base_hash128 key, cache_store *store, rp_error *err) {
    rp_status st = RP_OK;
    char hex[33], *at = NULL;
    base_buf plain, path;
    base_hash_hex(key, hex);
    base_buf_init(&plain, 0);
    base_buf_init(&path, 0);
    base_buf_printf(&plain, "%s/%s.cubin", n->scratch, hex);
    /* Whoever shares the folder, as processes that were forked do, may have the same key under way. */
    if (!plain.failed) base_temp_name(plain.data, &path);
    RP_TRY_OUT(base_buf_status(&plain, err));
    RP_TRY_OUT(base_buf_status(&path, err));
    RP_TRY_OUT(base_file_write_atomic(path.data, code, size, err));
    RP_TRY_OUT(cache_put_code(store, key, compile_nvrtc_bits(n->arch), path.data, &at, err));
out:
    base_free(at);
    base_buf_done(&plain);
    base_buf_done(&path);
    return st;
}

/* Rounding as written: no multiply-add that the text does not name. */
rp_status compile_nvrtc_run(const compile_nvrtc *n, const char *source, base_hash128 key,
                            cache_store *store, rp_error *err) {
    static const char *const options[] = {"-fmad=false", NULL};
    /* All that the architecture has, and not what later ones have, too: tensor cores want it. */
    const char *arch = strcmp(n->arch, "sm_90") == 0 ? "sm_90a" : n->arch;
    const cuda_source s = {source, "generated.cu", arch};
    rp_error why = {0};
    char *cubin = NULL;
    size_t size = 0;
    rp_status st = cuda_compile(&n->api, &s, options, &cubin, &size, &why);
    if (st != RP_OK)
        return rp_fail(
            err, st == RP_INVALID ? RP_INTERNAL : st,
            "%s; REPRISE_LOGS=output_code prints the text, REPRISE_NVRTC names another library",
            why.text);
    st = compile_nvrtc_keep(n, cubin, size, key, store, err);
    base_free(cubin);
    return st;
}
