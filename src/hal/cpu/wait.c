/* Cells: publish with a store, wait by spinning, yielding, sleeping on a futex.
 *
 * Sleeper and writer agree by store-then-load on both sides (sequentially consistent): the sleeper
 * announces itself and looks again, the writer stores and looks for sleepers; one of them sees the
 * other. The kernel compares the value once more before it lets the sleeper sleep. */
#include "hal/cpu/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum { SPINS_PER_LOOK = 64 }; /* spins between two looks at the clock */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool reached(const cpu_cell *c, uint32_t value) {
    return (int32_t)(atomic_load_explicit(&c->value, memory_order_acquire) - value) >= 0;
}

void cpu_cell_set(cpu_cell *c, uint32_t value) {
    atomic_store(&c->value, value);
    if (atomic_load(&c->n_sleeping))
        (void)syscall(SYS_futex, &c->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void sleep_until(cpu_cell *c, uint32_t value) {
    (void)atomic_fetch_add(&c->n_sleeping, 1);
    for (;;) {
        uint32_t seen = atomic_load(&c->value);
        if ((int32_t)(seen - value) >= 0) break;
        /* Returns at once when the value has moved on; EINTR and spurious wakes loop. */
        (void)syscall(SYS_futex, &c->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    }
    (void)atomic_fetch_sub(&c->n_sleeping, 1);
}

int64_t cpu_cell_wait(cpu_cell *c, uint32_t value, const cpu_patience *patience) {
    if (reached(c, value)) return 0;
    int64_t start = 0;
    while (patience->spin_ns > 0) {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            relax();
            if (reached(c, value)) return 0;
        }
        int64_t now = base_now_ns();
        if (!start) start = now;
        if (now - start >= patience->spin_ns) break;
    }
    start = base_now_ns();
    while (base_now_ns() - start < patience->yield_ns) {
        (void)sched_yield();
        if (reached(c, value)) return base_now_ns() - start;
    }
    sleep_until(c, value);
    return base_now_ns() - start;
}
