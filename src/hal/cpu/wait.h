/* Waiting for another thread's counter: spin, then yield, then sleep.
 *
 * A cell is a counter that only grows (modulo 2^32). The writer never blocks and makes a system call
 * only when somebody sleeps. */
#ifndef HAL_CPU_WAIT_H
#define HAL_CPU_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cpu_cell {
    _Alignas(64) _Atomic uint32_t value; /* a cache line of its own */
    _Atomic uint32_t n_sleeping;
} cpu_cell;

/* How long to wait in each way before the next. */
typedef struct cpu_patience {
    int64_t spin_ns;
    int64_t yield_ns;
} cpu_patience;

/* Publishes value: what was written before is visible to who sees it. */
void cpu_cell_set(cpu_cell *c, uint32_t value);
/* Returns once the counter has reached value: the nanoseconds waited when spinning was not enough, else 0. */
int64_t cpu_cell_wait(cpu_cell *c, uint32_t value, const cpu_patience *patience);

#endif
