#include "hal/cuda/guard.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"

typedef struct put_off {
    struct put_off *next;
    cuda_driver cu; /* the device that it was of may be closed by then */
    int device; /* whose context has one reference more, since with the last one p would go, too */
    void *context, *p;
    cuda_freed kind;
} put_off;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static put_off *waiting;
static atomic_uint captures; /* written under the lock */

static void free_now(const cuda_driver *cu, void *context, cuda_freed kind, void *p) {
    (void)cu->context_set(context);
    switch (kind) {
    case CUDA_FREED_MEMORY: (void)cu->memory_free((uint64_t)(uintptr_t)p); break;
    case CUDA_FREED_HOST: (void)cu->host_free(p); break;
    case CUDA_FREED_MODULE: (void)cu->module_free(p); break;
    case CUDA_FREED_RANGE: cuda_reserved_free(cu, p); break;
    }
}

bool cuda_guard_busy(void) {
    return atomic_load_explicit(&captures, memory_order_acquire) != 0;
}

void cuda_guard_enter(void) {
    (void)pthread_mutex_lock(&lock);
    (void)atomic_fetch_add(&captures, 1);
    (void)pthread_mutex_unlock(&lock);
}

void cuda_guard_leave(void) {
    put_off *all = NULL;
    (void)pthread_mutex_lock(&lock);
    if (atomic_fetch_sub(&captures, 1) == 1) {
        all = waiting;
        waiting = NULL;
    }
    (void)pthread_mutex_unlock(&lock);
    while (all) {
        put_off *next = all->next;
        free_now(&all->cu, all->context, all->kind, all->p);
        (void)all->cu.context_release(all->device);
        base_free(all);
        all = next;
    }
}

/* NULL where memory or the context cannot be had. */
static put_off *new_put_off(const cuda_gpu *g, cuda_freed kind, void *p) {
    put_off *one = base_alloc(sizeof *one);
    if (!one) return NULL;
    *one = (put_off){.cu = *g->cu, .device = g->device, .p = p, .kind = kind};
    one->cu.caller = NULL; /* gone by then */
    if (g->cu->context_retain(&one->context, g->device) == 0) return one;
    base_free(one);
    return NULL;
}

/* False where nothing is under way, or nothing can be remembered. */
static bool put(const cuda_gpu *g, cuda_freed kind, void *p) {
    put_off *one = NULL;
    if (!cuda_guard_busy()) return false;
    (void)pthread_mutex_lock(&lock);
    if (atomic_load(&captures)) one = new_put_off(g, kind, p);
    if (one) {
        one->next = waiting;
        waiting = one;
    }
    (void)pthread_mutex_unlock(&lock);
    return one != NULL;
}

void cuda_guard_free(const cuda_gpu *g, cuda_freed kind, void *p) {
    if (put(g, kind, p)) return;
    int mode = cuda_guard_relax(g->cu);
    free_now(g->cu, g->context, kind, p);
    cuda_guard_restore(g->cu, mode);
}

int cuda_guard_relax(const cuda_driver *cu) {
    int mode = CUDA_CAPTURE_RELAXED;
    if (cuda_guard_busy()) (void)cu->capture_mode(&mode);
    return mode;
}

/* Also where the last capture has ended since: relaxed is what nobody's thread is left in. */
void cuda_guard_restore(const cuda_driver *cu, int mode) {
    if (mode != CUDA_CAPTURE_RELAXED) (void)cu->capture_mode(&mode);
}
