/* Code objects of the cuda device: a file's bytes, given to the driver, which keeps a copy of its own. */
#include "base/alloc.h"
#include "base/file.h"
#include "hal/cuda/code.h"
#include "hal/cuda/device.h"
#include "hal/cuda/guard.h"

enum { SHARED_PERCENT = 100, AS_BLOCKS_NEED = -1 }; /* of what a processor has */

struct hal_module {
    cuda_device *d;
    void *handle;
};

static rp_status load_bytes(const cuda_device *d, const char *path, void **out, rp_error *err) {
    char *bytes = NULL;
    size_t size = 0;
    rp_error why = {0};
    enum { MOST = 256 << 20 };
    rp_status st = base_file_read(path, MOST, &bytes, &size, &why);
    if (st != RP_OK)
        return rp_fail(err, st == RP_NOMEM ? st : RP_DEVICE, "code object %s cannot be read: %s",
                       path, why.text);
    int mode = cuda_guard_relax(&d->cu);
    st = cuda_code_load(&d->cu, bytes, out, &why);
    cuda_guard_restore(&d->cu, mode);
    base_free(bytes);
    if (st == RP_OK) return RP_OK;
    return rp_fail(err, st, "code object %s: %s", path, why.text);
}

rp_status cuda_module_load(hal_device *base, const char *path, hal_module **out, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    RP_TRY(hal_may_load(base, path, err));
    RP_TRY(cuda_device_enter(d, err));
    hal_module *m = base_alloc(sizeof *m);
    if (!m) return rp_fail(err, RP_NOMEM, "no memory to load %s", path);
    m->d = d;
    rp_status st = load_bytes(d, path, &m->handle, err);
    if (st != RP_OK) {
        base_free(m);
        return st;
    }
    hal_note_module(base, path);
    *out = m;
    return RP_OK;
}

/* Clusters of more blocks than every GPU with clusters is sure to have. */
static rp_status allow_clusters(const cuda_device *d, void *f, const char *name, rp_error *err) {
    if (d->gpu.capability < CUDA_MIN_PROGRAMMATIC) return RP_OK;
    return cuda_check(&d->cu, d->cu.function_set(f, CUDA_FUNCTION_LARGE_CLUSTER, 1), name, err);
}

/* A launch may ask for all that a block can have. */
static rp_status allow_shared(const cuda_device *d, void *f, const char *name, rp_error *err) {
    int own = 0;
    RP_TRY(cuda_check(&d->cu, d->cu.function_get(&own, CUDA_FUNCTION_SHARED_BYTES, f), name, err));
    return cuda_check(&d->cu,
                      d->cu.function_set(f, CUDA_FUNCTION_MAX_SHARED, (int)d->gpu.max_shared - own),
                      name, err);
}

rp_status cuda_module_symbol(hal_module *m, const char *name, hal_function *out, rp_error *err) {
    void *f = NULL;
    RP_TRY(cuda_device_enter(m->d, err));
    if (m->d->cu.module_function(&f, m->handle, name) != 0)
        return rp_fail(err, RP_DEVICE, "code object has no kernel named %s", name);
    /* A processor runs kernels of different divisions between cache and shared memory one after the other: all have one. */
    RP_TRY(cuda_check(&m->d->cu, m->d->cu.function_set(f, CUDA_FUNCTION_CARVEOUT, SHARED_PERCENT),
                      name, err));
    RP_TRY(allow_clusters(m->d, f, name, err));
    out->handle = f;
    return allow_shared(m->d, f, name, err);
}

rp_status cuda_function_caches(hal_device *base, hal_function f, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    RP_TRY(cuda_device_enter(d, err));
    return cuda_check(&d->cu, d->cu.function_set(f.handle, CUDA_FUNCTION_CARVEOUT, AS_BLOCKS_NEED),
                      "division of memory", err);
}

void cuda_module_free(hal_module *m) {
    if (!m) return;
    int mode = cuda_guard_relax(&m->d->cu);
    (void)m->d->cu.context_set(m->d->gpu.context);
    if (!hal_capturing(&m->d->base)) (void)m->d->cu.stream_synchronize(m->d->stream);
    cuda_guard_restore(&m->d->cu, mode);
    cuda_guard_free(&m->d->gpu, CUDA_FREED_MODULE, m->handle);
    base_free(m);
}
