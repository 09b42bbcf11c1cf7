/* What a kernel calls at each access that is looked at, as the address sanitizer of the kernel has it. Linked into the code of
 * kernels (emu.c), and compiled once: for most kernels that would take as long as all else. */
#include <string.h>

enum { KNOWN = 64 };

static void (*range)(unsigned long long at, unsigned long long n, int writes,
                     unsigned long long *range);
static const unsigned *turn; /* of launches */

/* find ends the process where those bytes are not a kernel's to read, and gives where the memory lies that has them. */
__attribute__((visibility("default"))) void
emu_open_accesses(void (*find)(unsigned long long at, unsigned long long n, int writes,
                               unsigned long long *range),
                  const unsigned *now);
void emu_open_accesses(void (*find)(unsigned long long, unsigned long long, int,
                                    unsigned long long *),
                       const unsigned *now) {
    range = find;
    turn = now;
}

__attribute__((always_inline)) static inline void look(unsigned long long at, unsigned long long n,
                                                       int writes) {
    static unsigned long long known[KNOWN][2]; /* from, to: by the page */
    static unsigned known_at;
    if (known_at != *turn) memset(known, 0, sizeof known);
    known_at = *turn;
    unsigned long long *k = known[at >> 12 & (KNOWN - 1)];
    if (__builtin_expect(at < k[0] || at + n > k[1], 0)) range(at, n, writes, k);
}
#define ACCESS(symbol, n, writes)                                                   \
    void emu_##symbol(unsigned long long at) __asm__("__asan_" #symbol "_noabort"); \
    void emu_##symbol(unsigned long long at) {                                      \
        look(at, n, writes);                                                        \
    }
#define ACCESSES(n)       \
    ACCESS(load##n, n, 0) \
    ACCESS(store##n, n, 1)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
#define ACCESS_N(symbol, writes)                                                            \
    void emu_##symbol(unsigned long long at, long n) __asm__("__asan_" #symbol "_noabort"); \
    void emu_##symbol(unsigned long long at, long n) {                                      \
        look(at, (unsigned long long)n, writes);                                            \
    }
ACCESS_N(loadN, 0)
ACCESS_N(storeN, 1)
void emu_no_return(void) __asm__("__asan_handle_no_return");
void emu_no_return(void) {
}
