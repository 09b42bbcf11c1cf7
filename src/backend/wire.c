/* Varints and length-delimited fields: all that ONNX needs. */
#include "backend/wire.h"

#include <string.h>

enum { VARINT = 0, DELIMITED = 2 };

static void put_varint(base_buf *b, uint64_t v) {
    while (v > 0x7f) {
        base_buf_putc(b, (char)((v & 0x7f) | 0x80));
        v >>= 7;
    }
    base_buf_putc(b, (char)v);
}

void backend_wire_int(base_buf *b, uint32_t field, int64_t v) {
    put_varint(b, (field << 3) | VARINT);
    put_varint(b, (uint64_t)v);
}

void backend_wire_bytes(base_buf *b, uint32_t field, const void *p, size_t n) {
    put_varint(b, (field << 3) | DELIMITED);
    put_varint(b, n);
    if (n) base_buf_add(b, p, n);
}

void backend_wire_text(base_buf *b, uint32_t field, const char *z) {
    backend_wire_bytes(b, field, z, strlen(z));
}

void backend_wire_message(base_buf *b, uint32_t field, base_buf *message) {
    backend_wire_bytes(b, field, message->data, message->len);
    b->failed = b->failed || message->failed;
    base_buf_clear(message);
}
