/* Child processes: run and wait, with output captured. Thread-safe. */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H

#include <stdint.h>

#include "base/str.h"

/* Runs argv[0] (looked up in PATH) with an empty stdin, waits. *out_exit is the exit status or
 * 128 + signal. out (may be NULL) receives stdout and stderr together. RP_NOT_FOUND when there is
 * no such program, RP_IO when it could not be started. */
rp_status base_spawn(const char *const *argv, base_buf *out, int *out_exit,
                     rp_error *err) RP_MUST_USE;
/* The same, but wanted is asked every now and then while the program runs and says nothing; once it gives false, the
 * program and what it started are ended: RP_CANCELLED. */
typedef bool (*base_wanted_fn)(void *user);
rp_status base_spawn_while(const char *const *argv, base_wanted_fn wanted, void *user,
                           base_buf *out, int *out_exit, rp_error *err) RP_MUST_USE;
/* The same with tmpdir as the program's TMPDIR. */
rp_status base_spawn_in(const char *const *argv, const char *tmpdir, base_wanted_fn wanted,
                        void *user, base_buf *out, int *out_exit, rp_error *err) RP_MUST_USE;
/* Ends all that runs now, with what it started, at once: for a signal handler that ends this process. Async-signal-safe. */
void base_spawn_kill_all(void);
/* Processes started since process start (witness of the warm law). */
uint64_t base_spawn_count(void);
/* Full path of a program in PATH, owned by the caller; *out is NULL if there is none. RP_NOMEM. */
rp_status base_program_find(const char *name, char **out, rp_error *err) RP_MUST_USE;
/* The same where to have no memory for it means to have none. */
char *base_find_program(const char *name);

#endif
