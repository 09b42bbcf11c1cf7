/* What the parts of the emulated GPU share. */
#ifndef EMU_EMU_H
#define EMU_EMU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hal/cuda/api.h"

enum { MOST_PARAMETERS = 64 };
enum {
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_CONTEXT = 201,
    NO_PTX = 218,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LOSSY_QUERY = 402,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_WRONG_THREAD = 908
};

#define EXPORT(symbol) __asm__(symbol) __attribute__((visibility("default")))
/* What the library calls is a gate in front of the function (emu_gate): it counts, and gives the code of a call that is to fail. */
#define IMPLEMENTS(symbol) __asm__("emu_do_" symbol) __attribute__((visibility("hidden")))
#define GATE(symbol)                                                                            \
    __asm__(".pushsection .text\n.globl " symbol "\n.type " symbol ", @function\n" symbol ":\n" \
            "push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9; sub $8, %rsp\n"    \
            "lea 1f(%rip), %rdi; call emu_gate\n"                                               \
            "add $8, %rsp; pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi\n"          \
            "test %eax, %eax; jnz 2f; jmp emu_do_" symbol "\n2: ret\n"                          \
            "1: .asciz \"" symbol "\"\n.size " symbol ", . - " symbol "\n.popsection");
#define CU(name, symbol, ...)                 \
    int name(__VA_ARGS__) IMPLEMENTS(symbol); \
    GATE(symbol)                              \
    int name(__VA_ARGS__)
/* 0: go on. */
int emu_gate(const char *symbol) __asm__("emu_gate") __attribute__((visibility("hidden")));

_Noreturn void emu_die(const char *fmt, ...);

typedef struct emu_extent {
    const void *from;
    size_t size;
} emu_extent;
typedef struct emu_function {
    void *fn;
    int n;             /* parameters */
    emu_extent module; /* what is loaded of it */
    struct emu_function *next;
    char name[128];
} emu_function;

/* Work of a stream: how much it was given, how much of that has run, and how much is done for sure, since somebody has waited. */
typedef struct emu_work {
    atomic_ulong given, ran, done;
    struct emu_task *first, *last; /* what has still to run */
    struct emu_work *next;
} emu_work;
/* Of the stream whose work this thread runs, or NULL. */
extern _Thread_local emu_work *emu_now;

/* What was given to any stream runs now: something goes that it may use. */
void emu_finish(void);
/* Whether a launch of such blocks is one. */
bool emu_fits(unsigned grid, unsigned threads, unsigned shared);
/* chained: by a programmatic edge. */
void emu_run(const emu_function *f, unsigned grid, unsigned threads, unsigned shared,
             const long long *arg, bool chained);
/* Around the nodes of a graph: memory of the device stays open from one to the next. */
void emu_hold(bool begins);
/* Whether the address is of memory of the device, or of memory of the host that the driver has given. */
bool emu_knows(uint64_t at);
void emu_move(uint64_t to, uint64_t from, size_t size);
/* The kernel that comes as text and sets conditions. */
const emu_function *emu_set_condition(void);
void emu_set(uint64_t at, unsigned char value, size_t size);

/* What was made and not given back. */
typedef enum emu_made {
    EMU_CONTEXT,
    EMU_MEMORY,
    EMU_ADDRESSES,
    EMU_MODULE,
    EMU_PROGRAM,
    EMU_STREAM,
    EMU_EVENT,
    EMU_GRAPH,
    EMU_EXEC,
    EMU_KINDS
} emu_made;
/* One more of a kind, where code is 0, or with -1 one less; gives code. */
int emu_count(emu_made kind, int more, int code);

int emu_memory_alloc(uint64_t *out, size_t size) IMPLEMENTS("cuMemAlloc_v2");
int emu_memory_free(uint64_t at) IMPLEMENTS("cuMemFree_v2");

enum { EMU_EXEC_BYTES = 256 << 10 };
/* So much of the device's memory more, or less, is the driver's own. */
void emu_take(long long bytes);
/* The code that each call on a lost context gives; 0: it is not lost. */
int emu_lost(void);
/* Whether the kernel that is about to run loses it instead. */
bool emu_loses(void);

/* Whether this thread may do what a capture cannot contain; where it may not, its captures have failed. */
bool emu_may(void);
/* Whether this thread has a current context, without which a driver makes and launches nothing. */
bool emu_entered(void);

#endif
