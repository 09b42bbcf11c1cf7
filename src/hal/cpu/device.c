/* The cpu as a device: host memory, a thread pool, lists that run before the call returns.
 * Scratch is owned here and grows only outside of runs. Ignores NUMA and sets no affinity. */
#include <stdio.h>

#include "base/alloc.h"
#include "hal/cpu/cpu.h"

static void cpu_free(hal_device *base) {
    cpu_device *d = (cpu_device *)base;
    if (!d) return;
    cpu_pool_free(d->pool);
    for (uint32_t t = 0; d->scratch && t < d->n_threads; t++) base_free(d->scratch[t]);
    base_free(d->scratch);
    hal_device_done(&d->base);
    base_free(d);
}

static void cpu_info(hal_device *base, hal_device_info *out) {
    *out = (hal_device_info){
        .n_threads = ((cpu_device *)base)->n_threads, .alignment = CPU_ALIGN, .unified = true};
    (void)snprintf(out->name, sizeof out->name, "cpu");
}

static rp_status cpu_alloc(hal_device *d, hal_memory kind, size_t size, void **out, rp_error *err) {
    (void)kind;
    return hal_memory_alloc(d, size, CPU_ALIGN, "device memory", out, err);
}

rp_status cpu_scratch_reserve(cpu_device *d, size_t size, rp_error *err) {
    if (size <= d->scratch_size) return RP_OK;
    for (uint32_t t = 0; t < d->n_threads; t++) {
        void *p = base_alloc_aligned(size, CPU_ALIGN);
        if (!p) return rp_fail(err, RP_NOMEM, "no memory for %zu bytes of scratch a thread", size);
        base_free(d->scratch[t]);
        d->scratch[t] = p;
    }
    d->scratch_size = size;
    return RP_OK;
}

static rp_status cpu_launch(hal_device *base, const hal_launch *list, uint32_t n,
                            size_t scratch_size, rp_error *err) {
    cpu_device *d = (cpu_device *)base;
    RP_TRY(cpu_queue_enter(d, err));
    rp_status st = cpu_scratch_reserve(d, scratch_size, err);
    if (st == RP_OK) st = cpu_list_run(d, list, n, err);
    if (st == RP_OK) hal_note_launch(base, list, n);
    cpu_queue_leave(d);
    return st;
}

static rp_status cpu_synchronize(hal_device *d, rp_error *err) {
    (void)d, (void)err; /* launches have finished when they return */
    return RP_OK;
}

static const hal_device_ops cpu_ops = {
    .name = "cpu",
    .free = cpu_free,
    .info = cpu_info,
    .alloc = cpu_alloc,
    .release = hal_memory_release,
    .copy = hal_memory_copy,
    .upload = hal_memory_upload,
    .fill = hal_memory_fill,
    .module_load = cpu_module_load,
    .module_symbol = cpu_module_symbol,
    .module_free = cpu_module_free,
    .launch = cpu_launch,
    .graph_build = cpu_graph_build,
    .graph_launch = cpu_graph_launch,
    .graph_bytes = cpu_graph_bytes,
    .graph_free = cpu_graph_free,
    .synchronize = cpu_synchronize,
};

rp_status hal_cpu_open(uint32_t n_threads, hal_device **out, rp_error *err) {
    if (n_threads > CPU_MAX_THREADS)
        return rp_fail(err, RP_CONFIG, "%u threads asked for, %d are the most", n_threads,
                       CPU_MAX_THREADS);
    rp_status st = RP_OK;
    cpu_device *d = base_alloc(sizeof *d);
    if (!d) return rp_fail(err, RP_NOMEM, "no memory for device cpu");
    d->n_threads = n_threads ? n_threads : cpu_cores_granted();
    if (d->n_threads > CPU_MAX_THREADS) d->n_threads = CPU_MAX_THREADS;
    atomic_flag_clear(&d->busy);
    RP_TRY_OUT(hal_device_init(&d->base, &cpu_ops, err));
    d->scratch = base_alloc_array(d->n_threads, sizeof *d->scratch);
    if (!d->scratch) {
        st = rp_fail(err, RP_NOMEM, "no memory for device cpu");
        goto out;
    }
    RP_TRY_OUT(cpu_pool_new(d->n_threads, &d->pool, err));
    *out = &d->base;
    d = NULL;
out:
    if (d) cpu_free(&d->base);
    return st;
}
