/* The programs that gcc starts to compile a file, asked once, so that they can be started without it. */
#ifndef COMPILE_STEPS_H
#define COMPILE_STEPS_H

#include <stdbool.h>

#include "base/status.h"

/* What the driver at path would run for a C file that it compiles with -pipe: a line of the compiler proper, one of the assembler,
 * each ended by a newline, as the driver writes them; "": it is no driver of gcc but a script or another compiler, whose way
 * to an object is its own. Runs it. Owned by the caller (base_free). */
rp_status compile_steps_ask(const char *path, char **out, rp_error *err) RP_MUST_USE;

enum { COMPILE_STEPS_ARGS = 96 };
typedef struct compile_steps {
    const char *compiler[COMPILE_STEPS_ARGS],
        *assembler[COMPILE_STEPS_ARGS]; /* NULL behind the last */
    char *words;
} compile_steps;

/* Those two lines with the flags behind the first, for the source at from and the object at to. Borrows all; false where memory is
 * short or they are longer than any driver makes them. */
bool compile_steps_make(const char *lines, const char *const *flags, const char *from,
                        const char *to, compile_steps *out);
void compile_steps_done(compile_steps *s);
/* Whether the programs of those two lines can be started; true of "". */
bool compile_steps_there(const char *lines);

#endif
