/* The kernel copies a byte of each page, which fails where reading it would be a fault. */
#include "base/readable.h"

#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

/* Of machines with larger pages some are read twice. */
enum { PAGE = 4096, AT_ONCE = 64 };

bool base_readable(const void *at, size_t bytes) {
    const uintptr_t start = (uintptr_t)at;
    uintptr_t next = start, end;
    if (bytes == 0) return true;
    if (__builtin_add_overflow(start, bytes - 1, &end)) return false;
    for (;;) {
        char byte[AT_ONCE];
        struct iovec to = {byte, 0}, from[AT_ONCE];
        unsigned n = 0;
        bool more = true;
        for (; n < AT_ONCE && more; next = (next | (PAGE - 1)) + 1) {
            from[n++] = (struct iovec){(void *)next, 1};
            more = (next | (PAGE - 1)) < end;
        }
        to.iov_len = n;
        ssize_t got = process_vm_readv(getpid(), &to, 1, from, n, 0);
        if (got < 0 && errno != EFAULT) return true; /* it may not be asked here */
        if (got != (ssize_t)n) return false;
        if (!more) return true;
    }
}
