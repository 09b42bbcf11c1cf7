/* Child processes: run and wait, with output captured. Thread-safe. */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H

#include <stdint.h>

#include "base/str.h"

/* Runs argv[0] (looked up in PATH) with an empty stdin, waits until it has ended, not for what it leaves behind.
 * It speaks the language of the locale C. *out_exit is the exit status or 128 + signal; 126 or 127 where it cannot be executed. out (may be NULL) receives
 * stdout and stderr together; what is beyond its ceiling is dropped. RP_NOT_FOUND when there is no such program, RP_IO
 * when nothing could be started. What this process does with SIGCHLD does not matter. */
rp_status base_spawn(const char *const *argv, base_buf *out, int *out_exit,
                     rp_error *err) RP_MUST_USE;
/* The same, but wanted is asked every now and then while the program runs; once it gives false, the
 * program and what it started are ended: RP_CANCELLED. */
typedef bool (*base_wanted_fn)(void *user);
rp_status base_spawn_while(const char *const *argv, base_wanted_fn wanted, void *user,
                           base_buf *out, int *out_exit, rp_error *err) RP_MUST_USE;
/* The same, each of these optional. */
typedef struct base_spawn_options {
    const char *tmpdir; /* TMPDIR of the program */
    const char *const *
        into; /* a second program that runs beside it and reads what it writes: out receives what both say and what
                 this one writes, *out_exit is the first's, or this one's where the first's is 0, or where this one
                 failed and the first was ended since nobody read what it wrote */
    bool *out_second; /* (optional) with into: *out_exit is the second's, and not 0 */
    base_wanted_fn wanted;
    void *user;
    int64_t
        limit_ns; /* that it may take, after which it is stopped: RP_CANCELLED, and *out_late; 0: any time */
    bool *out_late; /* with limit_ns */
    bool guarded;   /* it and what it started end with this process, however that ends */
} base_spawn_options;
rp_status base_spawn_with(const char *const *argv, const base_spawn_options *o, base_buf *out,
                          int *out_exit, rp_error *err) RP_MUST_USE;
/* Ends all that runs now, with what it started, at once: for a signal handler that ends this process. Async-signal-safe. */
void base_spawn_kill_all(void);
/* Processes started since process start (witness of the warm law). */
uint64_t base_spawn_count(void);
/* Full path of a program in PATH, owned by the caller; *out is NULL if there is none. RP_NOMEM. */
rp_status base_program_find(const char *name, char **out, rp_error *err) RP_MUST_USE;
/* The same where to have no memory for it means to have none. */
char *base_find_program(const char *name);

#endif
