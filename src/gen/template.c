/* Instantiates the embedded matmul template for each format of a unit, once. CUDA C has templates of its own for that. */
#include "gen/template.h"

#include "base/embed.h"

BASE_EMBED(vector_c_inc);
BASE_EMBED(matmul_c_inc);
BASE_EMBED(matmul_float_c_inc);
BASE_EMBED(matmul_cu);
BASE_EMBED(attention_cu);
BASE_EMBED(tensor_cu);
BASE_EMBED(attention_tile_cu);

void gen_c_matmul(const gen_matmul_uses *uses, base_buf *out) {
    if (!uses->quant && !uses->floats) return;
    base_buf_add(out, rp_embed_vector_c_inc, rp_embed_vector_c_inc_size);
    base_buf_add(out, rp_embed_matmul_c_inc, rp_embed_matmul_c_inc_size);
    for (int d = 0; d < RP_DTYPE_COUNT_; d++)
        if (uses->quant >> d & 1)
            base_buf_printf(out, "RP_MM_QUANT(%s)\n", rp_dtype_name((rp_dtype)d));
    if (uses->floats)
        base_buf_add(out, rp_embed_matmul_float_c_inc, rp_embed_matmul_float_c_inc_size);
}

void gen_cuda_templates(const gen_matmul_uses *uses, base_buf *out) {
    if (uses->quant || uses->floats) base_buf_add(out, rp_embed_matmul_cu, rp_embed_matmul_cu_size);
    if (uses->tensor) base_buf_add(out, rp_embed_tensor_cu, rp_embed_tensor_cu_size);
    if (uses->attention) {
        base_buf_add(out, rp_embed_attention_cu, rp_embed_attention_cu_size);
        base_buf_add(out, rp_embed_attention_tile_cu, rp_embed_attention_tile_cu_size);
    }
}
