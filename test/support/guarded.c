/* One mapping each: a page that says what it is, a page without access, the memory, a page without access. */
#include "support/guarded.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64u
#define MARK 0x5a

typedef struct head {
    size_t whole, size, behind; /* bytes of the mapping, of the memory, of marks */
} head;

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static head *head_of(const void *p) {
    return (head *)((uintptr_t)p / page_size() * page_size() - 2 * page_size());
}

void *guarded_new(size_t size, bool at_end) {
    const size_t page = page_size(), lines = (size + LINE - 1) / LINE * LINE,
                 pages = (lines + (at_end ? 0 : LINE) + page - 1) / page * page,
                 room = pages ? pages : page, whole = room + 3 * page;
    char *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    /* An empty one at the end still begins within its page. */
    char *p = at + 2 * page + (at_end ? room - (lines ? lines : LINE) : 0);
    const size_t behind = at_end ? (lines ? lines : LINE) - size : LINE;
    *(head *)at = (head){whole, size, behind};
    memset(p + size, MARK, behind);
    (void)mprotect(at + page, page, PROT_NONE);
    (void)mprotect(at + whole - page, page, PROT_NONE);
    return p;
}

bool guarded_is_whole(const void *p) {
    const head *h = head_of(p);
    const unsigned char *g = (const unsigned char *)p + h->size;
    for (size_t i = 0; i < h->behind; i++)
        if (g[i] != MARK) return false;
    return true;
}

void guarded_free(void *p) {
    if (p) (void)munmap(head_of(p), head_of(p)->whole);
}
