/* A shared object from one object file, made in memory: what a linker does that generated code needs. */
#ifndef COMPILE_LINK_H
#define COMPILE_LINK_H

#include "base/str.h"

/* Of an x86-64 ELF object that refers to nothing but itself. Its global functions can be looked up in *out (begun by the caller), in which
 * data is apart from code. RP_UNSUPPORTED, which says why, for any other: a call of another library's function, say; a linker
 * may know it. */
rp_status compile_link(const void *object, size_t size, base_buf *out, rp_error *err) RP_MUST_USE;

#endif
