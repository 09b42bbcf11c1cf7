/* Stored tensors: element types, sizes, and a tensor's place in its file. */
#ifndef MODEL_TENSOR_H
#define MODEL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "reprise/dtype.h"

#define MODEL_MAX_DIMS 4

/* The dtype of a ggml type number; false for one that is not supported. */
bool model_type_of_ggml(uint32_t ggml_type, rp_dtype *out);
/* The ggml type number of a dtype that a file can have. */
uint32_t model_ggml_of_type(rp_dtype type);
/* Name of any ggml type ("Q4_K"), "unknown" for a number that none has. */
const char *model_ggml_name(uint32_t ggml_type);
/* "F32, F16, Q4_0, ...": for messages. */
const char *model_types_supported(void);

/* A value, cheap to copy. dims[0] is the length of a row (fastest); unused dims are 1. */
typedef struct model_tensor {
    base_str name; /* borrowed from its source */
    rp_dtype type;
    uint32_t n_dims;
    uint64_t dims[MODEL_MAX_DIMS];
    size_t size;         /* bytes */
    size_t offset;       /* from the start of the file; 0 where there is no file */
    size_t idx;          /* place in its source's table */
    const uint8_t *data; /* NULL where the bytes are generated on demand */
} model_tensor;

/* Bytes of a row of n elements and of a whole tensor: false when n is no multiple of the block
 * or on overflow. */
bool model_row_size(rp_dtype type, uint64_t n, size_t *out);
bool model_dims_size(rp_dtype type, const uint64_t *dims, uint32_t n_dims, size_t *out);
/* Appends "576x1536". */
void model_dims_print(const uint64_t *dims, uint32_t n_dims, base_buf *out);
/* At most 64 printable characters of s, for messages: unprintable bytes become '?'. */
typedef struct model_label {
    char text[72];
} model_label;
model_label model_label_of(base_str s);

#endif
