/* Protocol buffers, written: fields by number, appended to a buffer. A failure is the buffer's.
 * (protobuf.dev/programming-guides/encoding) */
#ifndef BACKEND_WIRE_H
#define BACKEND_WIRE_H

#include "base/str.h"

void backend_wire_int(base_buf *b, uint32_t field, int64_t v);
void backend_wire_text(base_buf *b, uint32_t field, const char *z);
void backend_wire_bytes(base_buf *b, uint32_t field, const void *p, size_t n);
/* A message, which is emptied. */
void backend_wire_message(base_buf *b, uint32_t field, base_buf *message);

#endif
