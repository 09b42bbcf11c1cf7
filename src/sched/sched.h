/* Schedules: how a target runs a function of kernel IR.
 *
 * Kernel IR says what is computed, a schedule by whom: who takes the iterations of each loop, where temporaries lie, where
 * threads wait for each other, how a reduction is cut, how a kernel is launched. The rules of a target make it, a renderer prints
 * what it says and decides nothing. It never changes a result: the order of every sum is fixed by kir.h. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "kir/kir.h"

/* Who takes the iterations of a block. */
#define SCHED_KIND_LIST(X)                                                                  \
    X(SERIAL, "serial") /* one after the other, by all who get there */                     \
    X(VECTOR, "vector") /* a reduction: 16 at once in lanes of one thread, then the rest */ \
    X(THREAD, "thread") /* one each to the threads who get there, round after round */      \
    X(WARP, "warp")     /* one each to the warps of the block */                            \
    X(BLOCK, "block")   /* items: one each to the blocks of the grid */                     \
    X(HALF, "half")     /* items: one each to the halves of warps */                        \
    X(GRID, "grid")     /* items: to all threads that there are */

typedef enum sched_kind {
#define SCHED_KIND_ENUM(id, text) SCHED_##id,
    SCHED_KIND_LIST(SCHED_KIND_ENUM)
#undef SCHED_KIND_ENUM
        SCHED_KIND_COUNT_
} sched_kind;

/* Threads that run an instruction together, in step and on equal values. */
typedef enum sched_team { SCHED_ALONE, SCHED_OF_HALF, SCHED_OF_WARP, SCHED_OF_BLOCK } sched_team;

#define SCHED_UNROLL 4
#define SCHED_LOCAL_ALIGN 64 /* of temporaries of a thread: a cache line, the widest vector */

/* Beside an instruction that opens a block, and beside a store, which one thread of a team does. */
typedef struct sched_step {
    kir_ref end;     /* of a block */
    sched_kind kind; /* of a block */
    sched_team team; /* who gets there */
    bool nested;     /* a loop or reduction is inside */
    bool barrier;    /* the team waits in front and behind; items: behind each */
    uint8_t part;    /* of a block right inside of items: which part of them it belongs to */
    bool chunks;     /* of a sum: there may be more than one of KIR_CHUNK */
    bool
        halves; /* of a sum with rounds, and of a maximum or minimum in front of it: each half of a warp takes a chunk */
    uint8_t wide; /* of THREAD: iterations that a thread takes side by side, with vectors; 0: one */
    bool
        held; /* of THREAD in a block: the iterations of a thread are written out, their temporaries in registers */
    uint8_t
        rounds; /* of a reduction that is dealt to the threads of a block: of its loads so many are on their way at once; 0: one */
    /* Of VECTOR: up to three loops, each over what the one before it left. */
    uint8_t
        unroll; /* SCHED_UNROLL vectors, joined before they meet the lanes; 0: there is no such loop. Of
                   a loop: iterations that a compiler is to write side by side; 0: as it likes */
    bool whole;  /* a vector at a time */
    int8_t tail; /* elements of the last one: so many, or not known here (-1) */
} sched_step;

/* Memory of a buffer. */
#define SCHED_SPACE_LIST(X)                                                        \
    X(ARG, "arg")           /* of the launch */                                    \
    X(LOCAL, "local")       /* of a thread, `offset` bytes into its temporaries */ \
    X(SHARED, "shared")     /* of a block */                                       \
    X(CALLER, "caller")     /* of whoever calls the fragment */                    \
    X(REGISTER, "register") /* of a thread: elements of the iterations that it takes */

typedef enum sched_space {
#define SCHED_SPACE_ENUM(id, text) SCHED_##id,
    SCHED_SPACE_LIST(SCHED_SPACE_ENUM)
#undef SCHED_SPACE_ENUM
        SCHED_SPACE_COUNT_
} sched_space;

typedef struct sched_place {
    sched_space space;
    int64_t offset;
} sched_place;

/* How a kernel is launched; a fragment is not. */
typedef struct sched_launch {
    uint32_t n_args;    /* argument slots */
    uint32_t threads;   /* of a block, exactly; 0: the target has no blocks */
    uint32_t per_block; /* items that a block takes at once; 0 as above */
    uint32_t at_once;   /* blocks that a multiprocessor shall have registers for; 0: any number */
    uint32_t per_sm; /* blocks that a multiprocessor has at most, which take turns then; 0: any */
    uint32_t parts;  /* blocks that share an item, each with a part of it */
    int64_t scratch; /* bytes of temporaries, of a thread or a block */
    int64_t grain;   /* items that are worth another thread */
    uint32_t vector; /* bits of the vectors that a compiler is to make of loops; 0: the widest */
} sched_launch;

/* What a tuner decides in place of the rules; 0 leaves it to them. No choice changes a result. */
typedef struct sched_choice {
    uint16_t vector;  /* as in sched_launch */
    uint8_t unroll;   /* of each innermost loop: 2, 4 or 8 */
    int8_t grain;     /* so many times twice the rule's items are worth another thread */
    uint16_t threads; /* of a block, where the target has blocks */
} sched_choice;
#define SCHED_GRAIN_ALONE 40 /* of grain: one thread takes all */

typedef struct sched sched;

/* A target as schedules see it. */
typedef struct sched_target {
    const char *name;
    /* The target's rules. RP_UNSUPPORTED: it cannot run f. */
    rp_status (*make)(const kir_func *f, sched **out, rp_error *err);
    uint32_t max_threads; /* of a block; 0: threads work alone, on shares of the items */
    int64_t max_shared;   /* bytes of a block's temporaries */
} sched_target;

extern const sched_target sched_cpu, sched_cuda;
/* All of them, from 0 on; NULL behind the last. */
const sched_target *sched_target_at(uint32_t i);
/* NULL where there is none of that name. */
const sched_target *sched_target_find(const char *name);

struct sched {
    const sched_target *target;
    const kir_func *f;
    kir_func *own;       /* f, where it came with the schedule */
    sched_step *steps;   /* beside f->insts */
    sched_place *places; /* beside f->bufs */
    sched_launch launch;
};

/* What the target's rules make of f (verified where assertions are on). Its function may be another that computes the same: rules
 * rebuild loops. f is borrowed until sched_free. RP_UNSUPPORTED: the target cannot run it. */
rp_status sched_make(const sched_target *t, const kir_func *f, sched **out,
                     rp_error *err) RP_MUST_USE;
/* The same of a kernel of which a block, or a warp, is to run an item inside of another kernel. */
rp_status sched_make_item(const kir_func *f, sched **out, rp_error *err) RP_MUST_USE;
void sched_free(sched *s);
/* Puts c in the place of what rules decided of a kernel; a fragment has nothing to choose. What the target has not, or what would be
 * no schedule of the function, is left as it is. */
void sched_choose(sched *s, const sched_choice *c);
/* Whether a choice of `unroll`, alone, would be another schedule: there is an innermost loop. */
bool sched_has_loops(const sched *s);

/* That the schedule is one of its target and gives the results of its function. */
rp_status sched_verify(const sched *s, rp_error *err) RP_MUST_USE;
/* The function, then a line for each step in its order; sched_parse reads both back: print(parse(print(s))) == print(s). */
void sched_print(const sched *s, base_buf *out);
rp_status sched_parse(const char *text, size_t len, sched **out, rp_error *err) RP_MUST_USE;

/* Whether a load or store in such a loop is one vector of n neighbours. */
bool sched_is_vector(const sched *s, kir_ref loop, kir_ref at, uint32_t n);

const char *sched_kind_name(sched_kind k);
const char *sched_space_name(sched_space p);

#endif
