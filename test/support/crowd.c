/* Test programs run side by side, so none spins as if its cores were its own: while who is waited for has no core, that takes the
 * time of other programs. unit/hal_pool tests both ways of waiting. */
#include "hal/cpu/pool.h"

__attribute__((constructor)) static void begin(void) {
    cpu_pool_crowded = true;
}
