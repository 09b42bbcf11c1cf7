/* The cpu back end's parts, private to the folder. */
#ifndef HAL_CPU_CPU_H
#define HAL_CPU_CPU_H

#include <stdatomic.h>

#include "hal/cpu/pool.h"
#include "hal/device.h"

enum { CPU_ALIGN = 64, CPU_MAX_THREADS = 256 };

/* The threads of a device, which its queues share: a list that finds them busy runs on the thread of its caller. */
typedef struct cpu_team {
    cpu_pool *pool;
    uint32_t n_cores; /* granted when it was made */
    atomic_flag busy;
} cpu_team;

typedef struct cpu_device {
    hal_device base;
    cpu_team *team; /* own_team, or that of the first queue */
    cpu_team own_team;
    uint32_t n_threads;
    atomic_flag busy; /* one thread at a time uses the queue */
    void **scratch;   /* one a thread, scratch_size bytes each */
    size_t scratch_size;
    /* Lists still to run on the caller alone, and how many the next such period has (list.c). */
    uint32_t alone_left, alone_next;
} cpu_device;

rp_status cpu_queue_refuse(rp_error *err) RP_MUST_USE;
rp_status cpu_scratch_widen(cpu_device *d, size_t size, rp_error *err) RP_MUST_USE;

/* Around everything that uses scratch or pool. RP_INTERNAL when another thread is inside. */
RP_MUST_USE static inline rp_status cpu_queue_enter(cpu_device *d, rp_error *err) {
    bool busy = atomic_flag_test_and_set_explicit(&d->busy, memory_order_acquire);
    return busy ? cpu_queue_refuse(err) : RP_OK;
}
static inline void cpu_queue_leave(cpu_device *d) {
    atomic_flag_clear_explicit(&d->busy, memory_order_release);
}
/* Gives every thread at least size bytes of scratch. */
RP_MUST_USE static inline rp_status cpu_scratch_reserve(cpu_device *d, size_t size, rp_error *err) {
    return size <= d->scratch_size ? RP_OK : cpu_scratch_widen(d, size, err);
}
/* Runs a list on the pool. Allocates nothing. */
rp_status cpu_list_run(cpu_device *d, const hal_launch *list, uint32_t n,
                       rp_error *err) RP_MUST_USE;

/* Members of the operation table that live in their own files. Loading is RP_UNSUPPORTED where no code may be executed
 * at all, RP_DEVICE where this object is no code. */
rp_status cpu_module_load(hal_device *d, const char *path, hal_module **out, rp_error *err);
rp_status cpu_module_symbol(hal_module *m, const char *name, hal_function *out, rp_error *err);
void cpu_module_free(hal_module *m);
rp_status cpu_launch(hal_device *base, const hal_launch *list, uint32_t n, size_t scratch_size,
                     rp_error *err);
rp_status cpu_graph_build(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                          const char *label, hal_graph **out, rp_error *err);
rp_status cpu_graph_launch(hal_graph *g, rp_error *err);
size_t cpu_graph_bytes(const hal_graph *g);
void cpu_graph_free(hal_graph *g);

#endif
