/* How the items of a launch are dealt to threads: each has a fixed share, and who has finished takes from those
 * who have not. Cores of one machine are rarely equally fast at one time, and a launch ends with its last thread. */
#ifndef HAL_CPU_SHARE_H
#define HAL_CPU_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is left of one thread's share of one launch: parts [front, back) of launch `serial`, in one word. */
typedef struct cpu_share {
    _Alignas(64) _Atomic uint64_t left; /* serial << 32 | front << 16 | back */
} cpu_share;

enum { CPU_PARTS_EACH = 4 }; /* parts a thread at most; times the most threads below 2^16 */

/* The launch being dealt out. `serial` grows from launch to launch, modulo 2^32. */
typedef struct cpu_deal {
    uint32_t serial, n_parts, n_threads;
    bool
        may_start; /* no thread is still in an earlier launch: the shares of the late ones may be begun */
} cpu_deal;

/* Parts [*first, *end) for this thread, which nobody else gets; false: none are left. Own parts come from the front,
 * most of them at once; parts of others from their back, half at a time. */
bool cpu_share_take(cpu_share *shares, const cpu_deal *deal, uint32_t thread, uint32_t *first,
                    uint32_t *end);

#endif
