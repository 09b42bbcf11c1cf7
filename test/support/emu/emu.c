/* A GPU that is not there: libcuda.so.1 and NVRTC in one library, for programs that open them at run time.
 *
 * NVRTC is g++ with kernel.h in front of the text, a "cubin" the shared object that it makes, a thread of a block a fiber that
 * gives way at barriers and shuffles. Kernels therefore compute what they would on a GPU, slowly, and a barrier that not all
 * threads reach ends the process with a line. Memory of the device has no access rights while no kernel and no copy
 * runs, so a host that touches it crashes; a copy beyond the end of a block ends the process with a line, and so does a kernel that touches anything
 * but memory of the GPU, where that is looked at (REPRISE_TEST_DEVICE: the programs NAME@cuda; REPRISE_TEST_ACCESSES=1: any). In a chain with programmatic edges, a kernel whose first block touches what kernels
 * write before griddepcontrol.wait, or of which a thread ends without it, ends the process, too, and so does memory that is unmapped
 * while what was given to a stream before may use it. What it does not know: time,
 * races, limits of registers. x86-64 only. */
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu.h"

enum {
    MOST_THREADS = 1024,
    STACK = 64 << 10,
    APART = 5 * 64, /* else the tops of all stacks are in one set of the processor's caches */
    PAGE = 4096,
    HUGE = 2 << 20,
    MOST_HUGE = 128 << 20, /* of what is larger most is never touched */
    MEMORY_MB = 16384,
    MOST_SHARED = 227 << 10,
    OWN_SHARED = 16,
    MOST_IDLE = 10000 /* rounds in which nobody but threads that poll goes on */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

_Noreturn void emu_die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    (void)fprintf(stderr, "emulated GPU: ");
    (void)vfprintf(stderr, fmt, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
    _Exit(134);
}

/* --- memory ----------------------------------------------------------------------- */

typedef struct area {
    char *at;
    size_t size;  /* whole pages, */
    size_t asked; /* and what was asked for */
    bool host;
    bool mapped;        /* at addresses that were reserved: others may follow */
    bool written;       /* by a kernel, ever, */
    uint64_t writer;    /* and by which one last */
    int access;         /* PROT_* */
    emu_work *by;       /* what used it last, or NULL, */
    unsigned long turn; /* and how much of that was given by then */
    char *
        before; /* what it held when the graph that runs began, if `kept`; NULL: nobody has asked */
    bool kept;
} area;

static area *areas;
static size_t n_areas, cap_areas, taken;

/* Where EMU_OVERHEAD says so, the driver has needs of its own, as a real one: for a context, what is loaded, executable graphs. */
enum { CONTEXT_BYTES = 300 << 20 };

void emu_take(long long bytes) {
    static int counts = -1;
    (void)pthread_mutex_lock(&lock);
    if (counts < 0) counts = getenv("EMU_OVERHEAD") != NULL;
    if (counts) taken += (size_t)bytes;
    (void)pthread_mutex_unlock(&lock);
}

enum { GRANULARITY = PAGE };

/* Bytes. EMU_MEMORY: how many, when less are wanted. */
static size_t memory_size(void) {
    const char *less = getenv("EMU_MEMORY");
    return less ? strtoull(less, NULL, 10) : (size_t)MEMORY_MB << 20;
}

static void use(area *a) {
    if (!emu_now) return;
    a->by = emu_now;
    a->turn = atomic_load(&emu_now->ran);
}

/* A call takes time by the page, so none is made that changes nothing. */
static void allow(area *a, int access) {
    if (a->host || a->access == access) return;
    (void)mprotect(a->at, a->size, access);
    a->access = access;
    if (access != PROT_NONE) use(a);
}

/* While a kernel runs, this process' memory as a file, which is read whatever access there is. */
static int own_memory = -1;

/* What is in memory that stays closed. */
static void peek(area *a, const void *at, void *to, size_t size) {
    const int access = a->access;
    if (own_memory < 0) own_memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (!a->host && access == PROT_NONE &&
        pread(own_memory, to, size, (off_t)(uintptr_t)at) == (ssize_t)size) {
        use(a);
        return;
    }
    allow(a, access | PROT_READ);
    memcpy(to, at, size);
    allow(a, access);
}

static void area_add(char *at, size_t size, size_t asked, bool host) {
    (void)mprotect(at, size, PROT_READ | PROT_WRITE);
    memset(at, 0xa5, size < 1 << 20 ? size : 1 << 20); /* nobody promises zeros */
    if (n_areas == cap_areas) {
        cap_areas = cap_areas ? 2 * cap_areas : 64;
        areas = realloc(areas, cap_areas * sizeof *areas);
        if (!areas) emu_die("no memory");
    }
    areas[n_areas++] = (area){
        .at = at, .size = size, .asked = asked, .host = host, .access = PROT_READ | PROT_WRITE};
    allow(&areas[n_areas - 1], PROT_NONE);
}

/* Addresses without memory. In huge pages where there are such: access to them changes some hundred times faster. */
static char *addresses(size_t size, int access) {
    const bool huge = size >= HUGE && size <= MOST_HUGE;
    const size_t more = huge ? HUGE : 0;
    char *p = mmap(NULL, size + more, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!huge) return p;
    const size_t ahead = -(uintptr_t)p % HUGE;
    if (ahead) (void)munmap(p, ahead);
    (void)munmap(p + ahead + size, HUGE - ahead);
    (void)madvise(p + ahead, size, MADV_HUGEPAGE);
    return p + ahead;
}

static int area_new(size_t size, bool host, void **out) {
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    if (!size) return INVALID;
    if (taken + whole > memory_size()) return OUT_OF_MEMORY;
    char *p = addresses(whole, PROT_READ | PROT_WRITE);
    if (!p) return OUT_OF_MEMORY;
    area_add(p, whole, size, host);
    taken += whole;
    *out = p;
    return 0;
}

static int area_free(void *p) {
    for (size_t i = 0; i < n_areas; i++) {
        if (areas[i].at != p) continue;
        (void)munmap(p, areas[i].size);
        taken -= areas[i].size;
        free(areas[i].before);
        areas[i] = areas[--n_areas];
        return 0;
    }
    return INVALID;
}

static unsigned n_held; /* graphs that run: between their nodes the host has no turn */

static void close_memory(void) {
    if (own_memory >= 0) (void)close(own_memory);
    own_memory = -1;
    for (size_t i = 0; i < n_areas && !n_held; i++) allow(&areas[i], PROT_NONE);
}

/* For a copy. */
static void open_to_copy(uint64_t at, size_t size) {
    for (size_t i = 0; i < n_areas; i++) {
        const uint64_t first = (uint64_t)(uintptr_t)areas[i].at;
        if (at >= first + areas[i].size || first >= at + size) continue;
        allow(&areas[i], PROT_READ | PROT_WRITE);
        if (at >= first && at + size > first + areas[i].asked && !areas[i].mapped)
            emu_die("a copy of %zu bytes from byte %zu on of memory of %zu", size,
                    (size_t)(at - first), areas[i].asked);
    }
}

/* What a kernel touches is opened by its first access (on_fault): most of it a kernel does not touch. early: before its wait,
 * where it may read what no kernel writes. */
static void open_to_kernel(bool early) {
    for (size_t i = 0; i < n_areas; i++) {
        if (areas[i].access == PROT_NONE) continue;
        if (!areas[i].written)
            allow(&areas[i], PROT_READ);
        else if (early)
            allow(&areas[i], PROT_NONE);
    }
}

static void keep_before(void) {
    for (size_t i = 0; i < n_areas; i++) {
        if (!areas[i].before) continue;
        allow(&areas[i], PROT_READ | PROT_WRITE);
        memcpy(areas[i].before, areas[i].at, areas[i].size);
        areas[i].kept = true;
    }
}

void emu_hold(bool begins) {
    (void)pthread_mutex_lock(&lock);
    n_held += begins ? 1 : -1U;
    if (begins) keep_before();
    close_memory();
    (void)pthread_mutex_unlock(&lock);
}

/* --- fibers ----------------------------------------------------------------------- */

typedef struct emu_dim {
    unsigned x, y, z;
} emu_dim;
typedef struct emu_state { /* as in kernel.h */
    emu_dim thread, block, block_size, grid;
    void (*sync)(int warp);
    unsigned long long *(*slot)(int flip);
    void (*wait)(void);
    void (*give_way)(void);
    int (*guess)(const int *at);
    void (*early)(const void *at, void *to);
    void (*launch)(void);
    int (*settled)(const int *at);
    void (*mma)(float *c, const unsigned (*lanes)[8]);
    void (*rows_by)(float *d, const double (*rows)[16], unsigned long long b, int n, int more,
                    int turned);
    void (*wgmma)(float *d, unsigned long long a, unsigned long long b, int n, int more);
    char *shared;
    unsigned shared_size;
} emu_state;

typedef enum waiting { RUNS, AT_BLOCK, AT_WARP, AT_WAIT, DONE, WAITINGS } waiting;
typedef struct fiber {
    void *sp;
    unsigned flips;
    bool waited;
} fiber;
enum { WARP = 32 };
/* Which threads of a warp are where, a bit for each: every thread is in one place. */
typedef struct warp {
    uint32_t at[WAITINGS];
} warp;

static emu_state state;
static unsigned launch_turn;
static fiber fibers[MOST_THREADS];
static warp warps[MOST_THREADS / WARP];
static char *stacks;
static void *scheduler;
static unsigned now;
static unsigned long long slots[MOST_THREADS / WARP][2][WARP];
static void *kernel_fn;
static const char *kernel_name;
static emu_extent kernel_module;
static int kernel_n;
static bool early; /* a first block, whose threads have not all come to their wait */
static uint64_t n_launches;
/* Of the last kernel that let the next one start when it had waited itself: whoever starts behind it finds what those in front of it wrote. */
static uint64_t last_late;
static bool late; /* so far, the kernel that runs */
static long long kernel_arg[MOST_PARAMETERS];

/* Saves the callee's registers on this stack and goes on on the other. Threads that come from the same place and go on there return
 * to where the processor takes it that they do, so whoever calls this has nothing to do after it. */
__attribute__((naked, noinline)) static void switch_to(void **from, void *to) {
    (void)from, (void)to;
    __asm__ volatile("push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
                     "mov %rsp, (%rdi); mov %rsi, %rsp\n"
                     "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret");
}

/* Goes on with the next thread of this warp that can run, or else with the scheduler. */
static inline void give_way(waiting at) {
    warp *w = &warps[now / WARP];
    const unsigned lane = now % WARP;
    void **from = &fibers[now].sp;
    w->at[RUNS] &= ~(1U << lane);
    w->at[at] |= 1U << lane;
    const uint32_t behind = w->at[RUNS] & ~1U << lane;
    if (!behind) {
        switch_to(from, scheduler);
        return;
    }
    now += (unsigned)__builtin_ctz(behind) - lane;
    state.thread.x = now;
    switch_to(from, fibers[now].sp);
}

static void do_sync(int of_warp) {
    give_way(of_warp ? AT_WARP : AT_BLOCK);
}

/* Of a thread that waits for a word of memory to change. */
static void do_give_way(void) {
    give_way(RUNS);
}

static unsigned long long *do_slot(int flip) {
    fibers[now].flips += (unsigned)flip;
    return slots[now / WARP][fibers[now].flips & 1];
}

static void do_wait(void) {
    fibers[now].waited = true;
    if (early) give_way(AT_WAIT);
}

static void do_launch(void) {
    late = late && fibers[now].waited;
}

/* What a kernel reads too early on purpose, for a hint. */
static int do_guess(const int *at) {
    for (size_t i = 0; early && i < n_areas; i++) {
        if ((const char *)at < areas[i].at || (const char *)at >= areas[i].at + areas[i].size ||
            areas[i].host || !areas[i].written)
            continue;
        int v;
        allow(&areas[i], PROT_NONE);
        peek(&areas[i], at, &v, sizeof v);
        return v;
    }
    return *at;
}

/* What a kernel reads before its wait because its writers have ended. */
static int do_settled(const int *at) {
    for (size_t i = 0; early && i < n_areas; i++) {
        const area *a = &areas[i];
        if ((const char *)at < a->at || (const char *)at >= a->at + a->size || !a->written)
            continue;
        if (a->writer >= last_late)
            emu_die("%s: takes it that who writes memory has ended, which may still run",
                    kernel_name);
    }
    return do_guess(at);
}

static uint64_t n_early;

/* For tests: of how many 16 bytes kernels took it that nothing in front of them writes them. */
uint64_t emu_early(void) EXPORT("emu_early");
uint64_t emu_early(void) {
    return n_early;
}

/* Those 16 bytes as they were before the graph began, so that who promised too much gets other numbers: from the second graph on. */
static void do_early(const void *at, void *to) {
    const char *p = at;
    n_early++;
    for (size_t i = 0; early && i < n_areas; i++) {
        area *a = &areas[i];
        if (p < a->at || p >= a->at + a->size) continue;
        const bool kept = a->kept && n_held;
        if (!a->before) a->before = malloc(a->size);
        if (!a->before) emu_die("no memory");
        if (kept) {
            memcpy(to, a->before + (p - a->at), 16);
            return;
        }
        if (a->written) allow(a, PROT_NONE);
        peek(a, p, to, 16);
        return;
    }
    memcpy(to, at, 16);
}

/* --- tensor cores: products are exact, their sum is taken in double and rounded once ------------------------- */

static double bf16(unsigned two, bool high) {
    const unsigned bits = high ? two & 0xffff0000U : two << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

typedef double pair __attribute__((vector_size(16)));

/* A column of 16 numbers by two rows, to the first and the third of d. */
static void add_column(float *d, const pair *rows, const double *column, int more) {
    pair s = {more ? (double)d[0] : 0.0, more ? (double)d[2] : 0.0};
    for (unsigned k = 0; k < 16; k++) s += rows[k] * column[k];
    d[0] = (float)s[0];
    d[2] = (float)s[1];
}

/* lanes: of a warp, each four words of a and two of b. */
static void do_mma(float *c, const unsigned (*lanes)[8]) {
    const unsigned g = state.thread.x % WARP / 4, t = state.thread.x % 4;
    pair rows[16];
    double columns[2][16];
    for (unsigned k = 0; k < 16; k++) {
        const unsigned at = k % 8 / 2, high = k / 8; /* the lane of four, the second register */
        const unsigned *a = lanes[4 * g + at];
        rows[k] = (pair){bf16(a[2 * high], k % 2), bf16(a[1 + 2 * high], k % 2)};
        for (unsigned e = 0; e < 2; e++)
            columns[e][k] = bf16(lanes[4 * (2 * t + e) + at][4 + high], k % 2);
    }
    for (unsigned e = 0; e < 2; e++) add_column(c + e, rows, columns[e], 1);
}

static const char *shared_at(unsigned at, unsigned size) {
    if (at % size || at + size > state.shared_size)
        emu_die("an access beside the shared memory of the launch, or not aligned");
    return state.shared + at;
}

static double shared_bf16(unsigned at) {
    uint16_t bits;
    memcpy(&bits, shared_at(at, sizeof bits), sizeof bits);
    return bf16(bits, false);
}

/* Eight, one behind the other. */
static void eight_bf16(unsigned at, double *to) {
    typedef uint16_t halves __attribute__((vector_size(8)));
    typedef uint32_t words __attribute__((vector_size(16)));
    typedef float floats __attribute__((vector_size(16)));
    typedef double doubles __attribute__((vector_size(32)));
    halves bits[2];
    memcpy(bits, shared_at(at, sizeof bits), sizeof bits);
    for (unsigned i = 0; i < 2; i++) {
        const floats x = (floats)(__builtin_convertvector(bits[i], words) << 16);
        const doubles y = __builtin_convertvector(x, doubles);
        memcpy(to + 4 * i, &y, sizeof y);
    }
}

typedef struct operand {
    unsigned at, leading, stride, swizzle;
} operand;

static operand operand_of(unsigned long long bits) {
    return (operand){.at = (unsigned)(bits & 0x3fff) << 4,
                     .leading = (unsigned)(bits >> 16 & 0x3fff) << 4,
                     .stride = (unsigned)(bits >> 32 & 0x3fff) << 4,
                     .swizzle = (unsigned)(bits >> 62)};
}

/* a lies along the rows, in 32 bytes swizzled, b along k. */
static void do_wgmma(float *d, unsigned long long a, unsigned long long b, int n, int more) {
    const operand left = operand_of(a), right = operand_of(b);
    const unsigned g = state.thread.x % WARP / 4, t = state.thread.x % 4;
    const unsigned first = state.thread.x / WARP % 4 * 16;
    pair rows[16];
    double column[16];
    if (left.swizzle != 3 || left.at % 256 || right.swizzle) emu_die("an operand of wgmma");
    for (unsigned i = 0; i < 32; i++) {
        const unsigned row = first + g + i / 16 * 8, k = i % 16;
        unsigned p = left.at + row / 16 * left.leading + k / 8 * left.stride + k % 8 * 32 +
                     row % 16 * 2;
        p ^= (p >> 7 & 1) << 4;
        rows[k][i / 16] = shared_bf16(p);
    }
    for (unsigned i = 0; i < (unsigned)n / 4; i++) { /* columns 8 j + 2 t, + 1 */
        const unsigned j = i / 2, c = 8 * j + 2 * t + i % 2;
        for (unsigned k = 0; k < 16; k += 8)
            eight_bf16(right.at + k / 8 * right.leading + c / 8 * right.stride + c % 8 * 16,
                       column + k);
        add_column(d + 4 * j + i % 2, rows, column, more);
    }
}

/* b has 128 bytes swizzled, which lie along k or along n (turned). */
static void do_rows_by(float *d, const double (*rows)[16], unsigned long long b, int n, int more,
                       int turned) {
    const operand o = operand_of(b);
    const unsigned t = state.thread.x % 4;
    double column[16];
    pair both[16];
    for (unsigned k = 0; k < 16; k++) both[k] = (pair){rows[0][k], rows[1][k]};
    if (o.swizzle != 1 || o.at % 1024 >= 128) emu_die("an operand of wgmma");
    for (unsigned i = 0; i < (unsigned)n / 4; i++) { /* columns 8 j + 2 t, + 1 */
        const unsigned j = i / 2, c = 8 * j + 2 * t + i % 2;
        const unsigned at = turned ? o.at + c / 64 * o.leading + c % 64 * 2
                                   : o.at + c / 8 * o.stride + c % 8 * 128;
        for (unsigned k = 0; k < 16; k += turned ? 1 : 8) {
            unsigned p = at + (turned ? k / 8 * o.stride + k % 8 * 128 : k * 2);
            p ^= (p >> 7 & 7) << 4;
            if (turned)
                column[k] = shared_bf16(p);
            else
                eight_bf16(p, column + k);
        }
        add_column(d + 4 * j + i % 2, both, column, more);
    }
}

/* A first access to an area, a first write, or one too early. */
static void on_fault(int signal, siginfo_t *info, void *context) {
    const ucontext_t *c = context;
    const bool writes = c->uc_mcontext.gregs[REG_ERR] & 2;
    const char *at = info->si_addr;
    (void)signal;
    for (size_t i = 0; i < n_areas; i++) {
        if (at < areas[i].at || at >= areas[i].at + areas[i].size || areas[i].host) continue;
        if (early && (writes || areas[i].written))
            emu_die("%s: %s memory that kernels write before griddepcontrol.wait", kernel_name,
                    writes ? "writes" : "reads");
        areas[i].written |= writes;
        if (writes) areas[i].writer = n_launches;
        allow(&areas[i], areas[i].written ? PROT_READ | PROT_WRITE : PROT_READ);
        return;
    }
    emu_die("%s: %s %p, which is no memory of the GPU", kernel_name, writes ? "writes" : "reads",
            info->si_addr);
}

static bool lies_in(unsigned long long at, unsigned long long n, const void *from, size_t size,
                    unsigned long long *range) {
    range[0] = (uintptr_t)from;
    range[1] = range[0] + size;
    return at >= range[0] && at + n <= range[1];
}

/* Memory of the device and mapped one as far as it was asked for, what threads and blocks have of their own, and what is in the code. What
 * a GPU has no access to, the host's other memory, a kernel that runs here could read. */
static void do_range(unsigned long long at, unsigned long long n, int writes,
                     unsigned long long *range) {
    for (size_t i = 0; i < n_areas; i++) {
        if (lies_in(at, n, areas[i].at, areas[i].asked, range)) return;
        if (lies_in(at, 1, areas[i].at, areas[i].size, range))
            emu_die("%s: %s %llu bytes from byte %llu on of memory of %zu", kernel_name,
                    writes ? "writes" : "reads", n, at - (uintptr_t)areas[i].at, areas[i].asked);
    }
    if (lies_in(at, n, stacks, (size_t)MOST_THREADS * (STACK + APART), range) ||
        lies_in(at, n, state.shared, state.shared_size, range) ||
        lies_in(at, n, &state, sizeof state, range) || lies_in(at, n, slots, sizeof slots, range) ||
        lies_in(at, n, kernel_module.from, kernel_module.size, range))
        return;
    emu_die("%s: %s %llu bytes at %#llx, which is no memory of the GPU", kernel_name,
            writes ? "writes" : "reads", n, at);
}

#define P(i) kernel_arg[i]
#define P8(i) P(i), P(i + 1), P(i + 2), P(i + 3), P(i + 4), P(i + 5), P(i + 6), P(i + 7)
/* Every parameter has 8 bytes, and more of them than a function takes do no harm. */
static void fiber_main(void) {
    void (*fn)() = (void (*)())(uintptr_t)kernel_fn;
    if (kernel_n <= 8)
        fn(P8(0));
    else if (kernel_n <= 24)
        fn(P8(0), P8(8), P8(16));
    else
        fn(P8(0), P8(8), P8(16), P8(24), P8(32), P8(40), P8(48), P8(56));
    give_way(DONE);
    emu_die("a finished thread goes on");
}

static void start_fiber(unsigned t) {
    void **sp = (void **)(void *)(stacks + (size_t)(t + 1) * (STACK + APART));
    *--sp = NULL; /* where fiber_main would return to; also aligns */
    *--sp = (void *)(uintptr_t)fiber_main;
    for (int i = 0; i < 6; i++) *--sp = NULL;
    fibers[t] = (fiber){.sp = sp};
    warps[t / WARP].at[RUNS] |= 1U << t % WARP;
}

/* Whether all of a warp that have not ended wait there. */
static bool all_wait(const warp *w, waiting at) {
    for (int i = 0; i < DONE; i++)
        if (i != (int)at && w->at[i]) return false;
    return true;
}

static bool release(warp *w, waiting at) {
    const bool goes = w->at[at] && all_wait(w, at);
    if (goes) w->at[RUNS] = w->at[at];
    if (goes) w->at[at] = 0;
    return goes;
}

static bool release_block(unsigned n_warps, waiting at) {
    bool any = false;
    for (unsigned w = 0; w < n_warps; w++) {
        if (!all_wait(&warps[w], at)) return false;
        any |= warps[w].at[at] != 0;
    }
    for (unsigned w = 0; w < n_warps; w++) (void)release(&warps[w], at);
    return any;
}

/* Each warp as far as it comes without others: so many stacks fit into the first cache. */
static bool run_warps(unsigned n_warps, bool *moved) {
    bool any = false;
    for (unsigned w = 0; w < n_warps; w++) {
        bool goes = true;
        while (goes) {
            if (warps[w].at[RUNS]) {
                any = true;
                now = w * WARP + (unsigned)__builtin_ctz(warps[w].at[RUNS]);
                state.thread = (emu_dim){now, 0, 0};
                switch_to(&scheduler, fibers[now].sp);
            }
            goes = release(&warps[w], AT_WARP);
            *moved |= goes;
        }
    }
    return any;
}

static void run_block(unsigned n, const char *name) {
    const unsigned n_warps = (n + WARP - 1) / WARP;
    unsigned idle = 0;
    bool moved = false;
    memset(warps, 0, n_warps * sizeof *warps);
    for (unsigned t = 0; t < n; t++) start_fiber(t);
    for (; run_warps(n_warps, &moved); moved = false) {
        bool left = false, polls = false;
        for (unsigned w = 0; w < n_warps; w++) {
            left |= !all_wait(&warps[w], DONE);
            polls |= warps[w].at[RUNS] != 0;
        }
        bool goes = release_block(n_warps, AT_BLOCK);
        if (!goes && release_block(n_warps, AT_WAIT)) {
            goes = true;
            early = false;
        }
        idle = moved || goes ? 0 : idle + 1;
        if (left && !goes && (!polls || idle > MOST_IDLE))
            emu_die("%s: a barrier that not all threads reach", name);
    }
}

/* --- modules and launches ----------------------------------------------------------- */

typedef struct emu_module {
    void *lib; /* NULL: it has one function, own */
    int fd;
    emu_extent extent;
    long long taken; /* of the device's memory */
    emu_function *functions;
    const emu_function *own;
} emu_module;

#define __align__(n) __attribute__((aligned(n)))
#define RUNS_KERNEL static void
#define threadIdx state.thread
#define blockIdx state.block
#define gridDim state.grid
#include "hal/cuda/runs.cu"
#undef threadIdx
#undef blockIdx
#undef gridDim

/* The library's kernels that come as text; NULL: it is none of them. */
static const emu_function *known_text(const char *text) {
    static emu_function runs = {.n = 28, .name = "copy_runs"};
    if (strstr(text, "set_condition")) return emu_set_condition();
    runs.fn = (void *)(uintptr_t)copy_runs;
    return strstr(text, ".entry copy_runs") ? &runs : NULL;
}

/* chained: by a programmatic edge. */
/* So many bytes, behind which lies what nobody may touch. */
static char *shared_memory(unsigned size) {
    enum { MOST = (MOST_SHARED + PAGE - 1) / PAGE * PAGE, ALIGN = 128 };
    static char *at;
    if (!at) {
        at = mmap(NULL, MOST + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) emu_die("no memory");
        (void)mprotect(at + MOST, PAGE, PROT_NONE);
    }
    return at + MOST - (size + ALIGN - 1) / ALIGN * ALIGN;
}

bool emu_fits(unsigned grid, unsigned threads, unsigned shared) {
    return threads != 0 && threads <= MOST_THREADS && grid != 0 && shared <= MOST_SHARED;
}

void emu_run(const emu_function *f, unsigned grid, unsigned threads, unsigned shared,
             const long long *arg, bool chained) {
    char *memory;
    const struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction before;
    (void)pthread_mutex_lock(&lock);
    if (!stacks)
        stacks = mmap(NULL, (size_t)MOST_THREADS * (STACK + APART), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory = shared_memory(shared);
    (void)sigaction(SIGSEGV, &fault, &before);
    open_to_kernel(chained);
    early = chained;
    late = true;
    kernel_fn = f->fn;
    kernel_name = f->name;
    kernel_module = f->module;
    kernel_n = f->n;
    memset(kernel_arg, 0, sizeof kernel_arg);
    memcpy(kernel_arg, arg, (size_t)f->n * sizeof *arg);
    state.sync = do_sync;
    state.slot = do_slot;
    state.wait = do_wait;
    state.give_way = do_give_way;
    state.guess = do_guess;
    state.early = do_early;
    state.launch = do_launch;
    state.settled = do_settled;
    launch_turn++;
    state.mma = do_mma;
    state.wgmma = do_wgmma;
    state.rows_by = do_rows_by;
    state.shared = memory;
    state.shared_size = shared;
    state.block_size = (emu_dim){threads, 1, 1};
    state.grid = (emu_dim){grid, 1, 1};
    for (unsigned b = 0; b < grid; b++) {
        state.block = (emu_dim){b, 0, 0};
        memset(memory, 0xff, shared);
        run_block(threads, f->name);
        for (unsigned t = 0; chained && t < threads; t++)
            if (!fibers[t].waited)
                emu_die("%s: a thread ends without griddepcontrol.wait", f->name);
    }
    close_memory();
    (void)sigaction(SIGSEGV, &before, NULL);
    if (late) last_late = n_launches;
    n_launches++;
    (void)pthread_mutex_unlock(&lock);
}

static atomic_int live[EMU_KINDS];

int emu_count(emu_made kind, int more, int code) {
    if (code == 0) (void)atomic_fetch_add(&live[kind], more);
    return code;
}

/* For support/left.c: "2 graphs 1 stream"; empty where all was given back. */
void emu_left(char *out, size_t size) EXPORT("emu_left");
void emu_left(char *out, size_t size) {
    static const char *const names[EMU_KINDS] = {
        "contexts", "blocks of memory", "address ranges", "modules",          "programs",
        "streams",  "events",           "graphs",         "executable graphs"};
    size_t n = 0;
    *out = 0;
    for (int i = 0; i < EMU_KINDS; i++)
        if (live[i] && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%d %s", n ? ", " : "", live[i], names[i]);
}

/* --- calls that fail -------------------------------------------------------------------- */

static atomic_uint n_calls, fail_nth;
static atomic_int fail_code, lost_code, losing_code;
static atomic_bool lost_for_good;

/* For tests: the nth call from now on that can fail gives that code; 0: none. */
void emu_fail(unsigned nth, int code) EXPORT("emu_fail");
void emu_fail(unsigned nth, int code) {
    atomic_store(&n_calls, 0);
    atomic_store(&fail_code, code);
    atomic_store(&fail_nth, nth);
}

/* Calls that could have failed since then. */
unsigned emu_calls(void) EXPORT("emu_calls");
unsigned emu_calls(void) {
    return atomic_load(&n_calls);
}

/* For tests: the next kernel that runs ends with that code, which every call gives from then on until the context has gone. for_good: as
 * with drivers of today there is no other one in this process. Code 0: it is as if nothing had been. */
void emu_lose(int code, bool for_good) EXPORT("emu_lose");
void emu_lose(int code, bool for_good) {
    if (code == 0) atomic_store(&lost_code, 0);
    atomic_store(&lost_for_good, for_good);
    atomic_store(&losing_code, code);
}

/* For programs: EMU_FAIL=SYMBOL:CODE, each call of that function gives the code; EMU_LOSE=N:CODE, the Nth kernel loses the context for good;
 * EMU_BREAK=KERNEL, its text does not compile; EMU_VERSION=12010, of the driver. */
static char fail_symbol[64];
static int symbol_code;
static atomic_uint lose_after;

__attribute__((constructor)) static void read_environment(void) {
    const char *fail = getenv("EMU_FAIL"), *lose = getenv("EMU_LOSE");
    const char *colon = fail ? strchr(fail, ':') : NULL;
    if (colon) {
        (void)snprintf(fail_symbol, sizeof fail_symbol, "%.*s", (int)(colon - fail), fail);
        symbol_code = atoi(colon + 1);
    }
    if (!lose || !strchr(lose, ':')) return;
    atomic_store(&lose_after, (unsigned)atoi(lose));
    emu_lose(atoi(strchr(lose, ':') + 1), true);
}

bool emu_loses(void) {
    if (atomic_load(&lose_after) && atomic_fetch_sub(&lose_after, 1) > 1) return emu_lost() != 0;
    int code = atomic_exchange(&losing_code, 0);
    if (code) atomic_store(&lost_code, code);
    return emu_lost() != 0;
}

int emu_lost(void) {
    return atomic_load(&lost_code);
}

static bool has_any(const char *symbol, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strstr(symbol, words[i])) return true;
    return false;
}

/* Giving back never fails, which nobody could do anything about, and on a lost context, too, what is given back has gone. */
int emu_gate(const char *symbol) {
    static const char *const safe[] = {"Free",  "Destroy",  "Release",       "Unload",
                                       "Unmap", "GetError", "ExchangeStream"};
    static const char *const without[] = {"nvrtc",    "cuInit",        "DriverGet",
                                          "cuDevice", "CtxSetCurrent", "GetExportTable"};
    if (has_any(symbol, safe, sizeof safe / sizeof *safe)) return 0;
    if (emu_lost() && !has_any(symbol, without, sizeof without / sizeof *without))
        return emu_lost();
    if (strcmp(symbol, fail_symbol) == 0) return symbol_code;
    unsigned nth = atomic_load(&fail_nth);
    return atomic_fetch_add(&n_calls, 1) + 1 == nth ? atomic_load(&fail_code) : 0;
}

static _Atomic(pid_t) starter; /* the process that has the GPU: its children do not */

static _Thread_local const void *current;

bool emu_entered(void) {
    return current != NULL;
}

/* clang-format off */
CU(emu_init, "cuInit", unsigned flags) {
    pid_t nobody = 0;
    (void)atomic_compare_exchange_strong(&starter, &nobody, getpid());
    return starter == getpid() ? (int)flags : NOT_INITIALIZED; }
CU(emu_version, "cuDriverGetVersion", int *out) {
    const char *version = getenv("EMU_VERSION");
    *out = version ? atoi(version) : 13000; return 0; }
CU(emu_error_name, "cuGetErrorName", int code, const char **out) {
    *out = code == 46 ? "CUDA_ERROR_DEVICE_UNAVAILABLE" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_EMULATED"; return 0; }
CU(emu_error_string, "cuGetErrorString", int code, const char **out) {
    *out = code == OUT_OF_MEMORY ? "out of memory"
           : code == 46          ? "CUDA-capable device(s) is/are busy or unavailable"
           : code == 700         ? "an illegal memory access was encountered"
           : code == NO_PTX      ? "the emulated GPU has no compiler for PTX"
                                 : "refused by the emulated GPU"; return 0; }
CU(emu_device_count, "cuDeviceGetCount", int *out) { *out = 1; return 0; }
CU(emu_device_get, "cuDeviceGet", int *out, int ordinal) { *out = ordinal; return 0; }
CU(emu_device_name, "cuDeviceGetName", char *out, int size, int device) {
    (void)device; (void)snprintf(out, (size_t)size, "emulated GPU"); return 0; }
CU(emu_device_attribute, "cuDeviceGetAttribute", int *out, int attribute, int device) {
    (void)device;
    *out = attribute == CUDA_ATTRIBUTE_MAJOR ? 9 : attribute == CUDA_ATTRIBUTE_MINOR ? 0
         : attribute == CUDA_ATTRIBUTE_N_SM ? 1 : 227 << 10;
    return 0; }
CU(emu_device_memory, "cuDeviceTotalMem_v2", size_t *out, int device) { (void)device; *out = memory_size(); return 0; }
CU(emu_context_retain, "cuDevicePrimaryCtxRetain", void **out, int device) {
    (void)device;
    if (emu_lost() && !atomic_load(&live[EMU_CONTEXT])) return emu_lost();
    *out = &state;
    if (atomic_load(&live[EMU_CONTEXT]) == 0) emu_take(CONTEXT_BYTES);
    return emu_count(EMU_CONTEXT, 1, 0); }
CU(emu_context_release, "cuDevicePrimaryCtxRelease_v2", int device) {
    int code = emu_count(EMU_CONTEXT, -1, device);
    if (!atomic_load(&live[EMU_CONTEXT])) emu_take(-CONTEXT_BYTES);
    if (!atomic_load(&live[EMU_CONTEXT]) && !atomic_load(&lost_for_good)) atomic_store(&lost_code, 0);
    return code; }
CU(emu_context_set, "cuCtxSetCurrent", void *context) { current = context; return starter == getpid() ? 0 : NOT_INITIALIZED; }
CU(emu_memory_info, "cuMemGetInfo_v2", size_t *available, size_t *total) {
    if (!emu_entered()) return NO_CONTEXT;
    *total = memory_size(); *available = *total > taken ? *total - taken : 0; return 0; }
/* Each function has some shared memory of its own: what a launch asks for is beside it. */
CU(emu_function_set, "cuFuncSetAttribute", void *f, int attribute, int value) {
    (void)f;
    return attribute == CUDA_FUNCTION_MAX_SHARED && value > MOST_SHARED - OWN_SHARED ? INVALID : 0; }
CU(emu_function_get, "cuFuncGetAttribute", int *out, int attribute, void *f) {
    (void)f;
    *out = attribute == CUDA_FUNCTION_SHARED_BYTES ? OWN_SHARED : 0;
    return 0; }
/* clang-format on */

CU(emu_memory_alloc, "cuMemAlloc_v2", uint64_t *out, size_t size) {
    void *p = NULL;
    if (!emu_entered()) return NO_CONTEXT;
    if (!emu_may()) return CAPTURE_UNSUPPORTED;
    (void)pthread_mutex_lock(&lock);
    int code = area_new(size, false, &p);
    (void)pthread_mutex_unlock(&lock);
    if (code == 0) *out = (uint64_t)(uintptr_t)p;
    return emu_count(EMU_MEMORY, 1, code);
}

CU(emu_host_alloc, "cuMemHostAlloc", void **out, size_t size, unsigned flags) {
    if (!emu_may()) return CAPTURE_UNSUPPORTED;
    (void)flags;
    (void)pthread_mutex_lock(&lock);
    int code = area_new(size, true, out);
    (void)pthread_mutex_unlock(&lock);
    return emu_count(EMU_MEMORY, 1, code);
}

CU(emu_host_free, "cuMemFreeHost", void *at) {
    if (!emu_may()) return CAPTURE_UNSUPPORTED;
    emu_finish();
    (void)pthread_mutex_lock(&lock);
    int code = area_free(at);
    (void)pthread_mutex_unlock(&lock);
    return emu_count(EMU_MEMORY, -1, code);
}

CU(emu_memory_free, "cuMemFree_v2", uint64_t at) {
    return emu_host_free((void *)(uintptr_t)at);
}

/* A handle of memory is its size. */
static int reserved(size_t size) {
    return !emu_may() ? CAPTURE_UNSUPPORTED : size == 0 || size % GRANULARITY ? INVALID : 0;
}

CU(emu_granularity, "cuMemGetAllocationGranularity", size_t *out, const cuda_memory_kind *kind,
   int recommended) {
    (void)recommended;
    if (kind->type != CUDA_MEMORY_PINNED || kind->place.type != CUDA_PLACE_DEVICE) return INVALID;
    *out = GRANULARITY;
    return 0;
}

CU(emu_address_reserve, "cuMemAddressReserve", uint64_t *out, size_t size, size_t alignment,
   uint64_t at, unsigned long long flags) {
    (void)alignment, (void)at, (void)flags;
    int code = reserved(size);
    void *p = code ? NULL : addresses(size, PROT_NONE);
    if (code == 0 && !p) code = OUT_OF_MEMORY;
    if (code == 0) *out = (uint64_t)(uintptr_t)p;
    return emu_count(EMU_ADDRESSES, 1, code);
}

CU(emu_address_free, "cuMemAddressFree", uint64_t at, size_t size) {
    int code = reserved(size);
    return emu_count(EMU_ADDRESSES, -1, code ? code : munmap((void *)(uintptr_t)at, size));
}

CU(emu_memory_make, "cuMemCreate", uint64_t *out, size_t size, const cuda_memory_kind *kind,
   unsigned long long flags) {
    (void)kind, (void)flags;
    int code = reserved(size);
    (void)pthread_mutex_lock(&lock);
    if (code == 0 && taken + size > memory_size()) code = OUT_OF_MEMORY;
    if (code == 0) taken += *out = size;
    (void)pthread_mutex_unlock(&lock);
    return emu_count(EMU_MEMORY, 1, code);
}

CU(emu_memory_release, "cuMemRelease", uint64_t memory) {
    (void)pthread_mutex_lock(&lock);
    taken -= memory;
    (void)pthread_mutex_unlock(&lock);
    return emu_count(EMU_MEMORY, -1, 0);
}

CU(emu_memory_map, "cuMemMap", uint64_t at, size_t size, size_t offset, uint64_t memory,
   unsigned long long flags) {
    (void)flags;
    int code = reserved(size);
    if (code || offset || size != memory) return code ? code : INVALID;
    (void)pthread_mutex_lock(&lock);
    area_add((char *)(uintptr_t)at, size, size, false);
    areas[n_areas - 1].mapped = true;
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

CU(emu_memory_unmap, "cuMemUnmap", uint64_t at, size_t size) {
    int code = reserved(size);
    if (code) return code;
    code = INVALID;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_areas && code; i++) {
        if (areas[i].at != (char *)(uintptr_t)at || areas[i].size != size) continue;
        /* No more than a GPU does it wait for anybody. */
        if (areas[i].by && atomic_load(&areas[i].by->done) < areas[i].turn)
            emu_die("memory is unmapped that work of a stream may still use");
        (void)mmap(areas[i].at, size, PROT_NONE,
                   MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        free(areas[i].before);
        areas[i] = areas[--n_areas];
        code = 0;
    }
    (void)pthread_mutex_unlock(&lock);
    return code;
}

CU(emu_memory_access, "cuMemSetAccess", uint64_t at, size_t size, const cuda_access *access,
   size_t n) {
    (void)at;
    int code = reserved(size);
    if (code) return code;
    return n == 1 && access->flags == CUDA_ACCESS_READ_WRITE && !access->place.id ? 0 : INVALID;
}

CU(emu_pointer_get, "cuPointerGetAttribute", void *out, int attribute, uint64_t at) {
    int code = INVALID;
    if (attribute != CUDA_POINTER_MEMORY && attribute != CUDA_POINTER_DEVICE) return INVALID;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_areas; i++) {
        uint64_t first = (uint64_t)(uintptr_t)areas[i].at;
        if (at < first || at >= first + areas[i].size) continue;
        if (attribute == CUDA_POINTER_DEVICE)
            *(uint64_t *)out = at;
        else
            *(unsigned *)out = areas[i].host ? CUDA_MEMORY_HOST : 2;
        code = 0;
    }
    (void)pthread_mutex_unlock(&lock);
    return code;
}

bool emu_knows(uint64_t at) {
    bool known = false;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_areas && !known; i++)
        known = at - (uint64_t)(uintptr_t)areas[i].at < areas[i].size;
    (void)pthread_mutex_unlock(&lock);
    return known;
}

void emu_move(uint64_t to, uint64_t from, size_t size) {
    (void)pthread_mutex_lock(&lock);
    open_to_copy(from, size);
    open_to_copy(to, size);
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
    close_memory();
    (void)pthread_mutex_unlock(&lock);
}

void emu_set(uint64_t at, unsigned char value, size_t size) {
    (void)pthread_mutex_lock(&lock);
    open_to_copy(at, size);
    /* New memory is zero already, and touching all of a cache would take as much of the host. */
    char *p = (char *)(uintptr_t)at;
    for (size_t i = 0; i < size; i += PAGE)
        if (size - i >= PAGE && value == 0) {
            static const char zeros[PAGE];
            if (memcmp(p + i, zeros, PAGE) != 0) memset(p + i, 0, PAGE);
        } else {
            memset(p + i, value, size - i < PAGE ? size - i : PAGE);
        }
    close_memory();
    (void)pthread_mutex_unlock(&lock);
}

/* Where the segments of a library lie. */
static int find_extent(struct dl_phdr_info *info, size_t size, void *user) {
    struct emu_extent *out = user;
    const uintptr_t open = (uintptr_t)out->from;
    uintptr_t from = UINTPTR_MAX, to = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD) continue;
        const uintptr_t at = info->dlpi_addr + p->p_vaddr;
        from = at < from ? at : from;
        to = at + p->p_memsz > to ? at + p->p_memsz : to;
    }
    if (open < from || open >= to) return 0;
    *out = (emu_extent){(const void *)from, to - from};
    return 1;
}

/* The image begins with its size, for it is no ELF file of a GPU. */
CU(emu_module_load, "cuModuleLoadData", void **out, const void *image) {
    if (!emu_entered()) return NO_CONTEXT;
    if (!emu_may()) return CAPTURE_UNSUPPORTED;
    uint64_t size = 0;
    char path[64];
    emu_module *m = calloc(1, sizeof *m);
    if (m && strncmp(image, ".version", 8) == 0) { /* the library's own alone (branch.c, runs.c) */
        if (!(m->own = known_text(image))) return free(m), NO_PTX;
        return *out = m, emu_count(EMU_MODULE, 1, 0);
    }
    if (!m || memcmp(image, "EMU1", 4) != 0) return free(m), INVALID;
    memcpy(&size, (const char *)image + 8, sizeof size);
    int fd = memfd_create("emulated-cubin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, (const char *)image + 16, size) != (ssize_t)size)
        return free(m), INVALID;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    m->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!m->lib) emu_die("%s", dlerror());
    m->fd = fd; /* the loader knows libraries by their names, so no other may have this one */
    void (*open)(emu_state *) = (void (*)(emu_state *))(uintptr_t)dlsym(m->lib, "emu_open");
    open(&state);
    void (*look)(void *, const unsigned *) =
        (void (*)(void *, const unsigned *))(uintptr_t)dlsym(m->lib, "emu_open_accesses");
    if (look) look((void *)(uintptr_t)do_range, &launch_turn);
    m->extent.from = (const void *)(uintptr_t)open;
    (void)dl_iterate_phdr(find_extent, &m->extent);
    m->taken = ((long long)size / HUGE + 1) * HUGE;
    emu_take(m->taken);
    *out = m;
    return emu_count(EMU_MODULE, 1, 0);
}

CU(emu_module_free, "cuModuleUnload", void *module) {
    if (!emu_may()) return CAPTURE_UNSUPPORTED;
    emu_module *m = module;
    emu_finish();
    while (m->functions) {
        emu_function *f = m->functions;
        m->functions = f->next;
        free(f);
    }
    if (m->lib) (void)dlclose(m->lib);
    if (m->lib) (void)close(m->fd);
    emu_take(-m->taken);
    free(m);
    return emu_count(EMU_MODULE, -1, 0);
}

CU(emu_module_function, "cuModuleGetFunction", void **out, void *module, const char *name) {
    emu_module *m = module;
    char count[160];
    if (!m->lib) return *out = (void *)(uintptr_t)m->own, 0;
    (void)snprintf(count, sizeof count, "%s__n", name);
    void *fn = dlsym(m->lib, name);
    const int *n = dlsym(m->lib, count);
    emu_function *f = fn && n ? calloc(1, sizeof *f) : NULL;
    if (!f) return NOT_FOUND;
    *f = (emu_function){.fn = fn, .n = *n, .module = m->extent, .next = m->functions};
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    m->functions = f;
    *out = f;
    return 0;
}

/* --- NVRTC ------------------------------------------------------------------------- */

typedef struct program {
    char *text, *log, *code;
    size_t log_size, code_size;
} program;

extern const char emu_kernel_h[];
__asm__(".section .rodata\n.global emu_kernel_h\nemu_kernel_h:\n.incbin "
        "\"test/support/emu/kernel.h\"\n.byte 0\n.previous");
/* access.c, compiled. */
extern const char emu_access_o[], emu_access_o_end[];
__asm__(".section .rodata\n.global emu_access_o\nemu_access_o:\n.incbin \"" EMU_ACCESS_O
        "\"\n.global emu_access_o_end\nemu_access_o_end:\n.previous");

CU(emu_rtc_version, "nvrtcVersion", int *major, int *minor) {
    *major = 0; /* code of this is for nothing else */
    *minor = 1;
    return 0;
}

CU(emu_program_new, "nvrtcCreateProgram", void **out, const char *text, const char *name,
   int n_headers, const char *const *headers, const char *const *include_names) {
    (void)name, (void)n_headers, (void)headers, (void)include_names;
    program *p = calloc(1, sizeof *p);
    if (!p || !(p->text = strdup(text))) return INVALID;
    *out = p;
    return emu_count(EMU_PROGRAM, 1, 0);
}

CU(emu_program_free, "nvrtcDestroyProgram", void **at) {
    program *p = *at;
    free(p->text);
    free(p->log);
    free(p->code);
    free(p);
    *at = NULL;
    return emu_count(EMU_PROGRAM, -1, 0);
}

static bool read_all(const char *path, char **out, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    (void)fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    *out = calloc(1, *size + 1);
    bool good = *out && fread(*out, 1, *size, f) == *size;
    (void)fclose(f);
    return good;
}

/* "const int NAME__n = 7;" for every kernel of the text. */
static void put_counts(FILE *f, const char *text) {
    static const char mark[] = "extern \"C\" __global__ void ";
    for (const char *p = strstr(text, mark); p; p = strstr(p, mark)) {
        p += sizeof mark - 1;
        if (strncmp(p, "__launch_bounds__(", 18) == 0) p = strchr(p, ')') + 1;
        while (isspace((unsigned char)*p)) p++;
        if (strncmp(p, "RK_CLUSTER(", 11) == 0)
            p = strchr(p, ' ') + 1; /* blocks are by themselves here */
        size_t n = strcspn(p, "(");
        int count = 1;
        for (const char *q = p + n; *q != ')'; q++) count += *q == ',';
        (void)fprintf(f,
                      "extern \"C\" __attribute__((visibility(\"default\"))) const int %.*s__n; "
                      "const int %.*s__n = %d;\n",
                      (int)n, p, (int)n, p, count);
    }
}

/* Where REPRISE_TEST_DEVICE or REPRISE_TEST_ACCESSES asks for them: kernels take about twice as long. */
static const char checks[] =
    "-fsanitize=kernel-address --param asan-instrumentation-with-call-threshold=0 "
    "--param asan-stack=0 --param asan-globals=0 ";

static bool accesses_count(void) {
    return getenv("REPRISE_TEST_DEVICE") || getenv("REPRISE_TEST_ACCESSES");
}

static bool write_accesses(const char *dir) {
    char path[256 + 8];
    const size_t size = (size_t)(emu_access_o_end - emu_access_o);
    (void)snprintf(path, sizeof path, "%s/a.o", dir);
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    const bool good = fwrite(emu_access_o, 1, size, f) == size;
    return fclose(f) == 0 && good;
}

static int run_compiler(const char *dir) {
    char command[1024], accesses[256 + 8] = "";
    const bool looks = accesses_count();
    if (looks && !write_accesses(dir)) return 1;
    if (looks) (void)snprintf(accesses, sizeof accesses, "%s/a.o", dir);
    /* Functions of C are found in the process: to open a library of C++ takes the linker longer than all else that it does.
     * Without a vectoriser: where parts are permuted, that of GCC 12 adds them in the order of memory (GCC bug 110381). */
    (void)snprintf(
        command, sizeof command,
        "exec g++ -std=gnu++17 -w -Og -ffp-contract=off -fno-exceptions -shared -fPIC -pipe "
        "%s-nostdlib -fvisibility=hidden -x c++ %s/k.cu -x none %s -lgcc -o %s/k.so "
        ">%s/log 2>&1",
        looks ? checks : "", dir, accesses, dir, dir);
    int code = system(command);
    return WIFEXITED(code) ? WEXITSTATUS(code) : 1;
}

static void remove_made(const char *dir) {
    static const char *const names[] = {"k.cu", "k.so", "a.o", "log"};
    char path[256 + 8];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

/* With something in the kernel EMU_BREAK that is no C. */
static void put_text(FILE *f, const char *text) {
    const char *broken = getenv("EMU_BREAK");
    const char *at = broken && *broken ? strstr(text, broken) : NULL;
    at = at ? strchr(at, '{') : NULL;
    if (at)
        (void)fprintf(f, "%.*s no_such_thing; %s\n", (int)(at + 1 - text), text, at + 1);
    else
        (void)fprintf(f, "%s\n", text);
}

CU(emu_compile, "nvrtcCompileProgram", void *at, int n, const char *const *options) {
    program *p = at;
    const char *tmp = getenv("TMPDIR");
    char dir[256], path[sizeof dir + 8], *so = NULL;
    size_t size = 0;
    bool wgmma = false;
    for (int i = 0; i < n; i++) wgmma |= strcmp(options[i], "-arch=sm_90a") == 0;
    int length = snprintf(dir, sizeof dir, "%s/reprise-emu.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (length >= (int)sizeof dir || !mkdtemp(dir)) return INVALID;
    (void)snprintf(path, sizeof path, "%s/k.cu", dir);
    FILE *f = fopen(path, "w");
    if (wgmma) (void)fprintf(f, "#define __CUDA_ARCH_FEAT_SM90_ALL 1\n");
    (void)fprintf(f, "%s\n#line 1 \"generated.cu\"\n", emu_kernel_h);
    put_text(f, p->text);
    put_counts(f, p->text);
    (void)fclose(f);
    int code = run_compiler(dir);
    (void)snprintf(path, sizeof path, "%s/log", dir);
    (void)read_all(path, &p->log, &p->log_size);
    (void)snprintf(path, sizeof path, "%s/k.so", dir);
    if (code == 0 && read_all(path, &so, &size)) {
        p->code_size = size + 16;
        p->code = calloc(1, p->code_size);
        uint64_t n_bytes = size;
        memcpy(p->code, "EMU1", 4);
        memcpy(p->code + 8, &n_bytes, 8);
        memcpy(p->code + 16, so, size);
    }
    free(so);
    if (!getenv("EMU_KEEP")) remove_made(dir);
    return p->code ? 0 : 6;
}

CU(emu_log_size, "nvrtcGetProgramLogSize", void *p, size_t *out) {
    *out = ((program *)p)->log_size + 1;
    return 0;
}
CU(emu_log, "nvrtcGetProgramLog", void *p, char *out) {
    const program *g = p;
    memcpy(out, g->log ? g->log : "", g->log_size + 1);
    return 0;
}
CU(emu_cubin_size, "nvrtcGetCUBINSize", void *p, size_t *out) {
    *out = ((program *)p)->code_size;
    return 0;
}
CU(emu_cubin, "nvrtcGetCUBIN", void *p, char *out) {
    memcpy(out, ((program *)p)->code, ((program *)p)->code_size);
    return 0;
}

/* NVRTC itself looks for this one in a driver that is there. */
CU(emu_export_table, "cuGetExportTable", const void **out, const void *id) {
    (void)id;
    *out = NULL;
    return NOT_FOUND;
}
