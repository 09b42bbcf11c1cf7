/* The table of element types and block formats, from RP_DTYPE_LIST. Formats' bytes are in block.c. */
#include "ir/graph.h"

#include <string.h>

typedef struct dtype_info {
    const char *name;
    size_t bytes, block;
} dtype_info;

static const dtype_info table[] = {
#define DTYPE_ROW(id, text, bytes, block) [RP_DTYPE_##id] = {text, bytes, block},
    RP_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

static bool known(rp_dtype t) {
    return (unsigned)t < RP_DTYPE_COUNT_;
}

const char *rp_dtype_name(rp_dtype t) {
    return known(t) ? table[t].name : "?";
}

bool rp_dtype_parse(const char *text, rp_dtype *out) {
    for (unsigned i = 0; i < RP_DTYPE_COUNT_; i++) {
        if (strcmp(table[i].name, text) != 0) continue;
        *out = (rp_dtype)i;
        return true;
    }
    return false;
}

size_t rp_dtype_block(rp_dtype t) {
    return known(t) ? table[t].block : 1;
}

size_t rp_dtype_block_bytes(rp_dtype t) {
    return known(t) ? table[t].bytes : 0;
}

bool rp_dtype_is_float(rp_dtype t) {
    return t == RP_DTYPE_F32 || t == RP_DTYPE_F16 || t == RP_DTYPE_BF16;
}

bool rp_dtype_is_quant(rp_dtype t) {
    return known(t) && table[t].block > 1;
}

bool ir_dtype_is_f8(rp_dtype t) {
    return t == RP_DTYPE_F8E4M3FN || t == RP_DTYPE_F8E5M2;
}

bool ir_dtype_is_real(rp_dtype t) {
    return t == RP_DTYPE_F64 || rp_dtype_is_float(t) || ir_dtype_is_f8(t);
}

bool ir_dtype_is_small(rp_dtype t) {
    return t == RP_DTYPE_I8 || t == RP_DTYPE_U8 || t == RP_DTYPE_I16;
}

bool ir_dtype_is_integer(rp_dtype t) {
    return t == RP_DTYPE_I32 || t == RP_DTYPE_I64 || ir_dtype_is_small(t);
}
