/* The host C compiler: found, known by its version, run on generated text. Thread-safe. */
#ifndef COMPILE_TOOLCHAIN_H
#define COMPILE_TOOLCHAIN_H

#include "cache/store.h"
#include "gen/isa.h"

typedef struct compile_toolchain {
    char *path;        /* NULL: nothing can be compiled */
    char missing[400]; /* why path is NULL, in one phrase with the values */
    const char *cure;  /* the advice that follows from it (static) */
    char *steps;       /* what path starts, where it is gcc (compile/steps.h) */
    char *linker;      /* ld in PATH; NULL: the compiler links */
    char *scratch;     /* private folder for sources, objects and the compiler's own files */
    char *version;     /* first line of --version; part of every code key */
    gen_cc_family family;
    /* (optional) Asked before and during each run, from several threads; false stops it: RP_CANCELLED. The caller's to
     * fill in after compile_toolchain_find. */
    bool (*wanted)(void *user);
    void *user;
    int64_t asked_ns;         /* $REPRISE_CC_TIMEOUT; 0: any time */
    int64_t limit_ns;         /* of one run, by compile/late.h; -1: it is not to be run */
    bool told;                /* with missing: this process has been told already */
    struct atomic_late *late; /* a run took longer: there is none after it */
} compile_toolchain;

/* Of every unit, beside those of its instruction set; NULL behind the last. */
extern const char *const compile_toolchain_options[];

/* $REPRISE_CC, which RP_UNSUPPORTED says is not there, else cc, gcc, clang in PATH. None of them, or no folder that it could
 * write to, is RP_OK with path NULL, and so is one that does not say in time what it is. Its version, and what it starts, are what the store remembers of that very program (its path,
 * size and time, COMPILER_PATH and GCC_EXEC_PREFIX); a new one, one that starts what is gone, or any without a store (NULL), is run and
 * asked. Removes the scratch of processes that were killed. */
rp_status compile_toolchain_find(cache_store *store, compile_toolchain *out,
                                 rp_error *err) RP_MUST_USE;
/* The same without a folder: a call that finds its code needs none. compile_toolchain_room makes it, once, before the first run; where
 * it cannot, path becomes NULL. */
rp_status compile_toolchain_look(cache_store *store, compile_toolchain *out,
                                 rp_error *err) RP_MUST_USE;
rp_status compile_toolchain_room(compile_toolchain *t, rp_error *err) RP_MUST_USE;
/* After a failure: whether it is that a run took too long, and then there is no compiler: path is NULL, missing and cure say why. */
bool compile_toolchain_late(compile_toolchain *t);
/* Removes the scratch. */
void compile_toolchain_done(compile_toolchain *t);
/* Compiles source to a shared object and stores it under key. RP_UNSUPPORTED without a compiler; RP_INTERNAL with
 * the first line of the compiler's complaint. */
rp_status compile_toolchain_run(const compile_toolchain *t, const char *source, gen_isa isa,
                                base_hash128 key, cache_store *store, rp_error *err) RP_MUST_USE;
/* The version of the compiler that REPRISE_CC names, as in compile_toolchain; *out is NULL where it names none. The store
 * remembers it, so that a program is only run when it is new there. Owned by the caller (base_free). */
rp_status compile_toolchain_chosen(cache_store *store, char **out, rp_error *err) RP_MUST_USE;
/* Whether compile_toolchain_find would find a program. Runs nothing. */
bool compile_toolchain_there(void);
/* Runs of the compiler since process start. */
uint64_t compile_toolchain_runs(void);

#endif
