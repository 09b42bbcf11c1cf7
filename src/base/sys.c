/* What all callers of the system share: the fault injector and the mapping of errno to status and text.
 * Thread-safe. It makes no calls itself. */
#include "base/sys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/file.h"

static _Atomic uint64_t n_calls;
static _Atomic uint64_t n_left; /* calls until the injected failure; 0 = off */
static atomic_bool fired;
static void (*_Atomic watch)(void);

bool base_sys_fail_nth(uint64_t n) {
    atomic_store(&n_left, n);
    return atomic_exchange(&fired, false);
}

uint64_t base_sys_count(void) {
    return atomic_load_explicit(&n_calls, memory_order_relaxed);
}

void base_sys_watch(void (*seen)(void)) {
    atomic_store(&watch, seen);
}

bool base_sys_fails(void) {
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    void (*seen)(void) = atomic_load_explicit(&watch, memory_order_relaxed);
    if (seen) seen();
    if (atomic_load_explicit(&n_left, memory_order_relaxed) == 0) return false;
    uint64_t left = atomic_load(&n_left);
    while (left && !atomic_compare_exchange_weak(&n_left, &left, left - 1)) {
    }
    if (left != 1) return false;
    atomic_store(&fired, true);
    errno = EIO;
    return true;
}

const char *base_errno_text(int code) {
    const char *text = strerrordesc_np(code);
    return text ? text : "unknown system error";
}

rp_status base_errno_status(int code) {
    switch (code) {
    case ENOENT:
    case ENOTDIR: return RP_NOT_FOUND;
    case ENOMEM: return RP_NOMEM;
    default: return RP_IO;
    }
}
