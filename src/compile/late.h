/* Programs that did not end in their time, as long as the process lives, so that nobody waits as long once more. Thread-safe. */
#ifndef COMPILE_LATE_H
#define COMPILE_LATE_H

#include <stdbool.h>
#include <stdint.h>

/* The time that a run of the program at path may take, of the limit that is asked for (0: any time): all of it, a tenth of it behind
 * a run that took longer than that, or -1, not to be run at all, behind two. A program that was replaced, or a limit that was
 * raised, is new. */
int64_t compile_late_limit(const char *path, int64_t limit_ns);
/* A run took longer than what compile_late_limit gave; `mute`: it did not even say what it is, so it is not to be run again. */
void compile_late_note(const char *path, int64_t limit_ns, bool mute);
/* A run ended in time. */
void compile_late_clear(const char *path);
/* Whether this is asked of a late program for the first time. True of others. */
bool compile_late_is_news(const char *path);

#endif
