#include "engine/read_limit.h"

#include "base/alloc.h"
#include "base/stream.h"
#include "compile/nvrtc.h"
#include "gen/read.h"

enum { PASSES = 20, PART = 1 << 16 }; /* PART: bytes of a work item on a GPU */

/* --- by threads of the host ----------------------------------------------------------- */

static void keep(long long v) {
    __asm__ volatile("" : : "r"(v));
}

/* arg: the memory; dim: bytes of a part, which way. */
static void read_parts(void *const *arg, const long long *dim, long long begin, long long end,
                       void *scratch) {
    (void)scratch;
    for (long long i = begin; i < end; i++)
        keep(base_stream_ways()[dim[1]]((const char *)arg[0] + i * dim[0], (size_t)dim[0]));
}

static rp_status time_passes(hal_device *d, const hal_launch *l, int64_t *best, rp_error *err) {
    for (int i = 0; i < PASSES; i++) {
        int64_t ns = 0;
        RP_TRY(hal_time(d, l, 1, 0, &ns, err));
        if (ns > 0 && ns < *best) *best = ns;
    }
    return RP_OK;
}

static rp_status of_host(const engine_read_limit_options *o, double *out, rp_error *err) {
    hal_device_info info;
    o->device->ops->info(o->device, &info);
    const uint32_t threads = info.n_threads ? info.n_threads : 1;
    const size_t part = o->size / threads / 64 * 64;
    int64_t best = INT64_MAX;
    for (long long way = 0; way < BASE_STREAM_WAYS; way++) {
        const long long dim[] = {(long long)part, way};
        void *const arg[] = {(void *)(uintptr_t)o->data};
        const hal_launch l = {.kind = HAL_KERNEL,
                              .name = "read_limit",
                              .fn.host = read_parts,
                              .arg = arg,
                              .n_arg = 1,
                              .dim = dim,
                              .n_dim = 2,
                              .items = threads,
                              .grain = 1};
        RP_TRY(time_passes(o->device, &l, &best, err));
    }
    *out = (double)part * threads / (double)best;
    return RP_OK;
}

/* --- by a kernel ------------------------------------------------------------------------ */

static rp_status code_path(const engine_read_limit_options *o, char **out, rp_error *err) {
    compile_nvrtc nvrtc = {0};
    rp_error miss = {0};
    rp_status st = RP_OK;
    base_buf text;
    base_buf_init(&text, 0);
    base_buf_printf(&text, "/* %s */\n", o->arch);
    gen_read_text(&text);
    RP_TRY_OUT(base_buf_status(&text, err));
    const base_hash128 key = base_hash(text.data, text.len);
    const uint32_t bits = compile_nvrtc_bits(o->arch);
    if (cache_get_code(o->store, key, bits, out, &miss) == RP_OK) goto out;
    RP_TRY_OUT(compile_nvrtc_find(o->arch, &nvrtc, err));
    RP_TRY_OUT(compile_nvrtc_run(&nvrtc, text.data, key, o->store, err));
    st = cache_get_code(o->store, key, bits, out, err);
out:
    compile_nvrtc_done(&nvrtc);
    base_buf_done(&text);
    return st;
}

static rp_status run_kernel(const engine_read_limit_options *o, hal_function fn, double *out,
                            rp_error *err) {
    hal_device *d = o->device;
    const long long n = (long long)(o->size / PART);
    int64_t best = INT64_MAX;
    void *sink = NULL;
    RP_TRY(d->ops->alloc(d, HAL_DEVICE_MEMORY, GEN_READ_THREADS * 16, &sink, err));
    void *const arg[] = {(void *)(uintptr_t)o->data, sink};
    const hal_launch l = {.kind = HAL_KERNEL,
                          .name = GEN_READ,
                          .fn = fn,
                          .arg = arg,
                          .n_arg = 2,
                          .items = n,
                          .grain = 1,
                          .threads = GEN_READ_THREADS,
                          .per_block = 1};
    rp_status st = time_passes(d, &l, &best, err);
    if (st == RP_OK) *out = (double)n * PART / (double)best;
    d->ops->release(d, sink, GEN_READ_THREADS * 16);
    return st;
}

static rp_status of_gpu(const engine_read_limit_options *o, double *out, rp_error *err) {
    hal_device *d = o->device;
    hal_module *m = NULL;
    hal_function fn = {0};
    char *path = NULL;
    RP_TRY(code_path(o, &path, err));
    /* What serving may not do once start-up is over, measuring may: nobody is served meanwhile. */
    const hal_seal seal = d->seal;
    d->seal = HAL_UNSEALED;
    rp_status st = d->ops->module_load(d, path, &m, err);
    d->seal = seal;
    if (st == RP_OK) st = d->ops->module_symbol(m, GEN_READ, &fn, err);
    if (st == RP_OK) st = run_kernel(o, fn, out, err);
    if (m) d->ops->module_free(m);
    base_free(path);
    return st;
}

rp_status engine_read_limit(const engine_read_limit_options *o, double *out, rp_error *err) {
    const bool gpu = o->arch[0] != '\0';
    *out = 0.0;
    if (o->size < PART) return RP_OK;
    return gpu ? of_gpu(o, out, err) : of_host(o, out, err);
}
