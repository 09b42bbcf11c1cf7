/* Private to the room: what rules of all targets, parser and verifier share. */
#ifndef SCHED_RULES_H
#define SCHED_RULES_H

#include "kir/inst.h"
#include "sched/sched.h"

#define SCHED_ENOUGH_THREADS (132 << 10) /* of all blocks: half of what an H100 has room for */

#define SCHED_LANES 16        /* of a sum, by definition (kir.h) */
#define SCHED_TEAM 32         /* threads of a warp */
#define SCHED_SM_THREADS 2048 /* of a multiprocessor */

/* A schedule without decisions: f is verified, its blocks are found. `own` (optional) is f: taken, also on failure. */
rp_status sched_new(const sched_target *t, const kir_func *f, kir_func *own, sched **out,
                    rp_error *err) RP_MUST_USE;

/* Decides the step of a block or store, whose `team` is known. */
typedef void (*sched_rule)(sched *s, kir_ref at, void *user);
/* Asks the rule for one step after the other, outer ones first. */
void sched_decide(sched *s, sched_rule rule, void *user);
/* Blocks have steps, and stores that a team meets. */
bool sched_has_step(const sched *s, kir_ref at);

/* choose.c: a loop over elements with none inside, by one thread of a target without blocks. */
#define SCHED_MAX_UNROLL 8
bool sched_is_innermost(const sched *s, kir_ref at);

/* The number that kir_print gives to the value of an instruction. */
uint32_t sched_number(const sched *s, kir_ref at);

/* thread.c: how a thread makes a reduction by itself. */
void sched_reduce_alone(sched *s, kir_ref at);
/* A float sum that may have more than one chunk. */
bool sched_needs_chunks(const sched *s, kir_ref at);
/* Elements of the last vector of a reduction, -1 where that is not known. */
int8_t sched_tail_of(const sched *s, kir_ref at);

/* Items that are worth another thread. */
int64_t sched_grain_of(const kir_func *f);

/* Places buffers one behind the other in `space`, each `align`ed (a power of two); a fragment's are its caller's. Fills
 * launch.scratch. */
void sched_place_all(sched *s, sched_space space, int64_t align);

/* independent.c. The iterations of a LOOP or REDUCE, which ends at `end`, touch no element that another one stores. */
bool sched_is_apart(const kir_func *f, kir_ref loop, kir_ref end);
bool sched_is_independent(const sched *s, kir_ref loop);
/* Whether r may be another value in another iteration of a loop whose iterations are apart. */
bool sched_varies(const kir_func *f, kir_ref r, kir_ref loop);
/* Whether a barrier there is one that threads wait at. */
bool sched_may_wait(const sched *s, kir_ref at);
/* Whether the step needs barriers, as it is scheduled: what it stores may meet other accesses of the team. */
bool sched_needs_barrier(const sched *s, kir_ref at);

/* wide.c: whether threads may take n iterations of a loop at once, and how many they do (0: one). */
bool sched_may_be_wide(const sched *s, kir_ref loop, uint32_t n);
/* Whether it reads memory in each iteration before it writes there, and writes once. */
bool sched_is_in_order(const kir_func *f, kir_ref loop, kir_ref end);
uint8_t sched_wide_of(const sched *s, kir_ref loop);

/* rounds.c: whether threads may have several loads of a reduction on their way, .. */
#define SCHED_MOST_ROUNDS 32
bool sched_may_have_rounds(const sched *s, kir_ref at);
/* .. how many threads share a row where all reductions may, 0: another rule says it, and the rounds of a block of launch.threads. */
uint32_t sched_threads_of_rows(const sched *s);
void sched_fit_rounds(sched *s);

/* cuda.c: a schedule of f in which items are blocks', or, of plain ones, threads'. */
rp_status sched_make_blocks(const kir_func *f, sched **out, rp_error *err) RP_MUST_USE;

/* registers.c: why items cannot be rows in registers of half a warp or a block, or should not; NULL: they are to be. */
const char *sched_registers_refused(const kir_func *f);
/* Whether they may be: what the renderer and the verifier ask for. */
bool sched_may_be_half(const kir_func *f);
bool sched_may_be_held(const kir_func *f);
#define SCHED_MOST_HELD 64 /* iterations of a thread that are written out */
/* Bytes that the threads of a block exchange for a reduction whose row they hold. */
int64_t sched_exchanged(const kir_func *f, kir_ref at);
/* Their schedule, perhaps of another function that computes the same. */
rp_status sched_make_registers(const kir_func *f, sched **out, rp_error *err) RP_MUST_USE;

/* parts.c: the part that each block of the body of a kernel's items belongs to; n is 1 where it is not to be cut. */
#define SCHED_MAX_PARTS 16
typedef struct sched_parts {
    uint32_t n;
    uint8_t of[SCHED_MAX_PARTS];
} sched_parts;
sched_parts sched_parts_of(const kir_func *f);

#endif
