/* mmap without a promise of memory. */
#include "base/reserve.h"

#include <sys/mman.h>

#include "base/sys.h"

rp_status base_reserve(size_t size, void **out, rp_error *err) {
    void *p = MAP_FAILED;
    if (!base_sys_fails())
        p = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return rp_fail(err, RP_NOMEM, "no range of %zu bytes can be reserved", size);
    *out = p;
    return RP_OK;
}

void base_unreserve(void *p, size_t size) {
    if (p) (void)munmap(p, size ? size : 1);
}
