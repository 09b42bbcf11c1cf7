/* The cpu as a device: host memory, a thread pool, lists that run before the call returns.
 * Scratch is owned here and grows only outside of runs. Ignores NUMA and sets no affinity. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/memory.h"
#include "hal/cpu/cpu.h"

static void cpu_free(hal_device *base) {
    cpu_device *d = (cpu_device *)base;
    if (!d) return;
    cpu_pool_free(d->own_team.pool);
    for (uint32_t t = 0; d->scratch && t < d->n_threads; t++) base_free(d->scratch[t]);
    base_free(d->scratch);
    hal_device_done(&d->base);
    base_free(d);
}

static void cpu_info(hal_device *base, hal_device_info *out) {
    const cpu_device *d = (const cpu_device *)base;
    *out = (hal_device_info){.n_threads = d->n_threads,
                             .n_cores = d->team->n_cores,
                             .alignment = CPU_ALIGN,
                             .unified = true};
    (void)snprintf(out->name, sizeof out->name, "cpu");
}

static rp_status cpu_alloc(hal_device *d, hal_memory kind, size_t size, void **out, rp_error *err) {
    (void)kind;
    return hal_memory_alloc(d, size, CPU_ALIGN, "device memory", out, err);
}

static uint64_t cpu_available(hal_device *d) {
    (void)d;
    return base_memory_available();
}

rp_status cpu_scratch_widen(cpu_device *d, size_t size, rp_error *err) {
    for (uint32_t t = 0; t < d->n_threads; t++) {
        void *p = base_alloc_aligned(size, CPU_ALIGN);
        if (!p) return rp_fail(err, RP_NOMEM, "no memory for %zu bytes of scratch a thread", size);
        base_free(d->scratch[t]);
        d->scratch[t] = p;
    }
    d->scratch_size = size;
    return RP_OK;
}

static rp_status cpu_synchronize(hal_device *d, rp_error *err) {
    if (hal_capturing(d)) return hal_refuse_captured(d, "waiting for the device", err);
    return RP_OK; /* launches have finished when they return */
}

static rp_status cpu_queue(hal_device *base, hal_device **out, rp_error *err);

static const hal_device_ops cpu_ops = {
    .name = "cpu",
    .free = cpu_free,
    .info = cpu_info,
    .available = cpu_available,
    .alloc = cpu_alloc,
    HAL_HOST_OPS,
    .module_load = cpu_module_load,
    .module_symbol = cpu_module_symbol,
    .module_free = cpu_module_free,
    .launch = cpu_launch,
    .graph_build = cpu_graph_build,
    .graph_launch = cpu_graph_launch,
    .graph_bytes = cpu_graph_bytes,
    .graph_free = cpu_graph_free,
    .queue = cpu_queue,
    .synchronize = cpu_synchronize,
};

/* Everything of a queue but the threads. */
static rp_status make_queue(uint32_t n_threads, cpu_device **out, rp_error *err) {
    cpu_device *d = base_alloc(sizeof *d);
    if (!d) return rp_fail(err, RP_NOMEM, "no memory for device cpu");
    d->n_threads = n_threads;
    d->team = &d->own_team;
    atomic_flag_clear(&d->busy);
    atomic_flag_clear(&d->own_team.busy);
    rp_status st = hal_device_init(&d->base, &cpu_ops, err);
    if (st == RP_OK) d->scratch = base_alloc_array(n_threads, sizeof *d->scratch);
    if (st == RP_OK && !d->scratch) st = rp_fail(err, RP_NOMEM, "no memory for device cpu");
    if (st == RP_OK)
        *out = d;
    else
        cpu_free(&d->base);
    return st;
}

static rp_status cpu_queue(hal_device *base, hal_device **out, rp_error *err) {
    cpu_device *root = (cpu_device *)base, *d = NULL;
    RP_TRY(make_queue(root->n_threads, &d, err));
    d->team = root->team;
    *out = &d->base;
    return RP_OK;
}

uint32_t hal_cpu_threads(uint32_t asked) {
    const uint32_t n = asked ? asked : cpu_cores_granted();
    return n < CPU_MAX_THREADS ? n : CPU_MAX_THREADS;
}

rp_status hal_cpu_open(uint32_t n_threads, hal_device **out, rp_error *err) {
    if (n_threads > CPU_MAX_THREADS)
        return rp_fail(err, RP_CONFIG, "%u threads asked for, %d are the most", n_threads,
                       CPU_MAX_THREADS);
    cpu_device *d = NULL;
    const uint32_t n_cores = cpu_cores_granted();
    n_threads = hal_cpu_threads(n_threads);
    RP_TRY(make_queue(n_threads, &d, err));
    d->own_team.n_cores = n_cores;
    rp_status st = cpu_pool_new(n_threads, &d->own_team.pool, err);
    if (st == RP_OK)
        *out = &d->base;
    else
        cpu_free(&d->base);
    return st;
}
