/* Table of stored element types and the arithmetic of tensor sizes.
 *
 * Knows sizes and names only; what a block means is the business of the IR. All arithmetic is checked, since dims come from files. */
#include "model/tensor.h"

#include "base/alloc.h"

typedef struct type_row {
    uint32_t ggml_type;
    const char *name;
    int dtype; /* -1: known by name only */
} type_row;

static const type_row types[] = {
    {0, "F32", RP_DTYPE_F32},
    {1, "F16", RP_DTYPE_F16},
    {2, "Q4_0", RP_DTYPE_Q4_0},
    {3, "Q4_1", RP_DTYPE_Q4_1},
    {8, "Q8_0", RP_DTYPE_Q8_0},
    {30, "BF16", RP_DTYPE_BF16},
    {6, "Q5_0", -1},
    {7, "Q5_1", -1},
    {9, "Q8_1", -1},
    {10, "Q2_K", -1},
    {11, "Q3_K", -1},
    {12, "Q4_K", -1},
    {13, "Q5_K", -1},
    {14, "Q6_K", -1},
    {15, "Q8_K", -1},
    {16, "IQ2_XXS", -1},
    {17, "IQ2_XS", -1},
    {18, "IQ3_XXS", -1},
    {19, "IQ1_S", -1},
    {20, "IQ4_NL", -1},
    {21, "IQ3_S", -1},
    {22, "IQ2_S", -1},
    {23, "IQ4_XS", -1},
    {24, "I8", -1},
    {25, "I16", -1},
    {26, "I32", -1},
    {27, "I64", -1},
    {28, "F64", -1},
    {29, "IQ1_M", -1},
    {34, "TQ1_0", -1},
    {35, "TQ2_0", -1},
    {39, "MXFP4", -1},
};

static const type_row *type_find(uint32_t ggml_type) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].ggml_type == ggml_type) return &types[i];
    return NULL;
}

bool model_type_of_ggml(uint32_t ggml_type, rp_dtype *out) {
    const type_row *row = type_find(ggml_type);
    if (!row || row->dtype < 0) return false;
    *out = (rp_dtype)row->dtype;
    return true;
}

uint32_t model_ggml_of_type(rp_dtype type) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == (int)type) return types[i].ggml_type;
    return UINT32_MAX; /* of no file: whoever reads it refuses it */
}

const char *model_ggml_name(uint32_t ggml_type) {
    const type_row *row = type_find(ggml_type);
    return row ? row->name : "unknown";
}

const char *model_types_supported(void) {
    return "F32, F16, BF16, Q8_0, Q4_0, Q4_1";
}

typedef struct block_shape {
    uint32_t bytes, elems;
} block_shape;

static const block_shape blocks[] = {
#define BLOCK_SHAPE(id, text, bytes, block) [RP_DTYPE_##id] = {bytes, block},
    RP_DTYPE_LIST(BLOCK_SHAPE)
#undef BLOCK_SHAPE
};

bool model_row_size(rp_dtype type, uint64_t n, size_t *out) {
    block_shape b = blocks[type];
    if (n % b.elems != 0 || n / b.elems > SIZE_MAX) return false;
    return base_mul_size((size_t)(n / b.elems), b.bytes, out);
}

bool model_dims_size(rp_dtype type, const uint64_t *dims, uint32_t n_dims, size_t *out) {
    size_t size;
    if (n_dims == 0 || !model_row_size(type, dims[0], &size)) return false;
    for (uint32_t i = 1; i < n_dims; i++) {
        if (dims[i] > SIZE_MAX) return false;
        if (!base_mul_size(size, (size_t)dims[i], &size)) return false;
    }
    *out = size;
    return true;
}

void model_dims_print(const uint64_t *dims, uint32_t n_dims, base_buf *out) {
    for (uint32_t i = 0; i < n_dims; i++)
        base_buf_printf(out, "%s%llu", i ? "x" : "", (unsigned long long)dims[i]);
}

model_label model_label_of(base_str s) {
    model_label label;
    size_t n = s.len < 64 ? s.len : 64;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        label.text[i] = (char)(c >= 0x20 && c < 0x7f ? c : '?');
    }
    if (s.len > 64) {
        label.text[n++] = '.';
        label.text[n++] = '.';
        label.text[n++] = '.';
    }
    label.text[n] = 0;
    return label;
}
