/* mmap, aligned by hand, with MADV_HUGEPAGE. Not counted by the allocation door: it is no heap block. */
#include "base/huge.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* "always [madvise] never": the bracket says what the kernel does. */
static bool kernel_has_huge_pages(void) {
    char text[64] = {0};
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && !strstr(text, "[never]");
}

rp_status base_huge_alloc(size_t size, base_huge *out, rp_error *err) {
    if (!kernel_has_huge_pages())
        return rp_fail(err, RP_UNSUPPORTED, "the kernel gives no transparent huge pages");
    if (size > SIZE_MAX - 2 * HUGE_PAGE) return rp_fail(err, RP_NOMEM, "%zu bytes", size);
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint8_t *p = MAP_FAILED;
    if (!base_sys_fails())
        p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return rp_fail(err, RP_NOMEM, "%zu bytes of huge pages", size);
    uint8_t *at = p + (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (at > p) munmap(p, (size_t)(at - p));
    munmap(at + size, (size_t)(p + HUGE_PAGE - at));
    if (madvise(at, size, MADV_HUGEPAGE) != 0) {
        munmap(at, size);
        return rp_fail(err, RP_UNSUPPORTED, "the kernel refuses huge pages");
    }
    *out = (base_huge){at, size};
    return RP_OK;
}

void base_huge_free(base_huge *h) {
    if (h->data) munmap(h->data, h->size);
    *h = (base_huge){0};
}
