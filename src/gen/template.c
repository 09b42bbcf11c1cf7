/* Text in front of kernels that multiply: in C the way to the templates of the library, in CUDA C the templates. */
#include "gen/template.h"

#include "base/embed.h"
#include "gen/wgmma.h"

BASE_EMBED(product_h);
BASE_EMBED(link_c_inc);
BASE_EMBED(matmul_cu);
BASE_EMBED(tile_cu);
BASE_EMBED(few_cu);
BASE_EMBED(axis_cu);
BASE_EMBED(scatter_cu);
BASE_EMBED(attention_cu);
BASE_EMBED(tensor_cu);
BASE_EMBED(tensor_few_cu);
BASE_EMBED(tensor_many_cu);
BASE_EMBED(tensor_results_cu);
BASE_EMBED(tensor_pairs_cu);
BASE_EMBED(norm_cu);
BASE_EMBED(tensor_pingpong_cu);
BASE_EMBED(attention_tile_cu);
BASE_EMBED(attention_split_cu);
BASE_EMBED(attention_stream_cu);
BASE_EMBED(attention_tensor_cu);
BASE_EMBED(attention_prefill_cu);
BASE_EMBED(top_cu);

void gen_c_matmul(const gen_matmul_uses *uses, base_buf *out) {
    if (!uses->quant && !uses->floats) return;
    base_buf_add(out, rp_embed_product_h, rp_embed_product_h_size);
    base_buf_add(out, rp_embed_link_c_inc, rp_embed_link_c_inc_size);
}

/* wgmma where the target has it; the emulated GPU has its own. */
static void tensor_text(base_buf *out) {
    base_buf_puts(out,
                  "template <int COLUMNS>\n__device__ void rk_wgmma(float *d, rp_u64 a, rp_u64 b, "
                  "int more);\n#if defined __CUDA_ARCH_FEAT_SM90_ALL && !defined RK_EMULATED\n");
    gen_wgmma_text("rk_wgmma", 16, GEN_WGMMA_SHARED_TURNED, out);
    gen_wgmma_text("rk_wgmma", 32, GEN_WGMMA_SHARED_TURNED, out);
    gen_wgmma_text("rk_wgmma", 64, GEN_WGMMA_SHARED_TURNED, out);
    gen_wgmma_text("rk_wgmma", 128, GEN_WGMMA_SHARED_TURNED, out);
    gen_wgmma_text("rk_wgmma", 176, GEN_WGMMA_SHARED_TURNED, out);
    gen_wgmma_text("rk_wgmma", 192, GEN_WGMMA_SHARED_TURNED, out);
    gen_wgmma_text("rk_wgmma", 256, GEN_WGMMA_SHARED_TURNED, out);
    base_buf_puts(out, "#endif\n");
    base_buf_add(out, rp_embed_tensor_cu, rp_embed_tensor_cu_size);
    base_buf_add(out, rp_embed_tensor_few_cu, rp_embed_tensor_few_cu_size);
    base_buf_add(out, rp_embed_tensor_many_cu, rp_embed_tensor_many_cu_size);
    base_buf_add(out, rp_embed_tensor_results_cu, rp_embed_tensor_results_cu_size);
    base_buf_add(out, rp_embed_tensor_pairs_cu, rp_embed_tensor_pairs_cu_size);
    base_buf_add(out, rp_embed_norm_cu, rp_embed_norm_cu_size);
    base_buf_add(out, rp_embed_tensor_pingpong_cu, rp_embed_tensor_pingpong_cu_size);
}

/* The same of scores and of what weights give. */
static void prefill_text(base_buf *out) {
    base_buf_puts(
        out, "template <int COLUMNS>\n__device__ void rk_wgmma_keys(float *d, const rp_u32 *a, "
             "rp_u64 b, int more);\ntemplate <int COLUMNS>\n__device__ void "
             "rk_wgmma_values(float *d, const rp_u32 *a, rp_u64 b);\n"
             "#if defined __CUDA_ARCH_FEAT_SM90_ALL && !defined RK_EMULATED\n");
    gen_wgmma_text("rk_wgmma_keys", 128, GEN_WGMMA_REGISTERS, out);
    gen_wgmma_text("rk_wgmma_values", 64, GEN_WGMMA_REGISTERS_TURNED, out);
    gen_wgmma_text("rk_wgmma_values", 128, GEN_WGMMA_REGISTERS_TURNED, out);
    base_buf_puts(out, "#endif\n");
    base_buf_add(out, rp_embed_attention_prefill_cu, rp_embed_attention_prefill_cu_size);
}

void gen_cuda_templates(const gen_matmul_uses *uses, base_buf *out) {
    if (uses->quant || uses->floats) base_buf_add(out, rp_embed_matmul_cu, rp_embed_matmul_cu_size);
    if (uses->floats || uses->strided) base_buf_add(out, rp_embed_tile_cu, rp_embed_tile_cu_size);
    if (uses->floats) base_buf_add(out, rp_embed_few_cu, rp_embed_few_cu_size);
    if (uses->axis) base_buf_add(out, rp_embed_axis_cu, rp_embed_axis_cu_size);
    if (uses->scatter) base_buf_add(out, rp_embed_scatter_cu, rp_embed_scatter_cu_size);
    if (uses->tensor) tensor_text(out);
    if (uses->top) base_buf_add(out, rp_embed_top_cu, rp_embed_top_cu_size);
    if (uses->attention) {
        base_buf_add(out, rp_embed_attention_cu, rp_embed_attention_cu_size);
        base_buf_add(out, rp_embed_attention_tile_cu, rp_embed_attention_tile_cu_size);
        if (uses->tensor) {
            base_buf_add(out, rp_embed_attention_split_cu, rp_embed_attention_split_cu_size);
            base_buf_add(out, rp_embed_attention_stream_cu, rp_embed_attention_stream_cu_size);
            base_buf_add(out, rp_embed_attention_tensor_cu, rp_embed_attention_tensor_cu_size);
            prefill_text(out);
        }
    }
}
