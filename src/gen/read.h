/* A kernel that reads memory and does nothing else: args the memory and 16 bytes a thread for what nobody wants; items of 64 KB. */
#ifndef GEN_READ_H
#define GEN_READ_H

#include "base/str.h"

#define GEN_READ "rk_read"
enum { GEN_READ_THREADS = 512 };

/* CUDA C of the kernel, prelude included. */
void gen_read_text(base_buf *out);

#endif
