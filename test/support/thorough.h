/* How often what is alike is done. */
#ifndef SUPPORT_THOROUGH_H
#define SUPPORT_THOROUGH_H

#include <stdbool.h>
#include <stdlib.h>

/* As often as make check has time for: THOROUGH=1. An empty THOROUGH is none. */
#define THOROUGH() (getenv("THOROUGH") && *getenv("THOROUGH"))

/* Whether a sanitizer of the compiler is in this program, which makes it take a multiple of the time: draws that are for what comes out
 * are fewer there, those for what is touched are not. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#endif
