/* Persistent threads that run one function together: the caller is thread 0.
 *
 * One caller at a time. All waiting spins briefly, then yields or sleeps, so that an idle pool costs
 * nothing and an oversubscribed machine still makes progress. */
#ifndef HAL_CPU_POOL_H
#define HAL_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct cpu_pool cpu_pool;
typedef void (*cpu_pool_fn)(void *user, uint32_t thread);

/* Cores that this process may use: affinity mask and cgroup quota; >= 1. */
uint32_t cpu_cores_granted(void);

/* For tests, of which several run side by side: whether pools that are made from now on wait as where there are more threads than
 * cores. */
extern bool cpu_pool_crowded;

/* Starts n_threads - 1 threads (n_threads >= 1). RP_DEVICE when the system refuses one. */
rp_status cpu_pool_new(uint32_t n_threads, cpu_pool **out, rp_error *err) RP_MUST_USE;
void cpu_pool_free(cpu_pool *p); /* NULL is fine; not from inside a run */
uint32_t cpu_pool_size(const cpu_pool *p);

/* Runs fn(user, t) for every thread t; returns when all have returned. */
void cpu_pool_run(cpu_pool *p, cpu_pool_fn fn, void *user);
/* Nanoseconds that the caller's thread has waited for others beyond spinning, since the pool was made. Much of it
 * means that other programs hold the cores. */
int64_t cpu_pool_waited(const cpu_pool *p);
/* Inside of a run, by every thread: returns when all have arrived, and what they wrote before is
 * visible. Every thread of a run must make the same number of calls. */
void cpu_pool_barrier(cpu_pool *p, uint32_t thread);

#endif
