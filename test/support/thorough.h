/* How often what is alike is done. */
#ifndef SUPPORT_THOROUGH_H
#define SUPPORT_THOROUGH_H

#include <stdlib.h>

/* As often as make check has time for: THOROUGH=1. An empty THOROUGH is none. */
#define THOROUGH() (getenv("THOROUGH") && *getenv("THOROUGH"))

#endif
