/* GPUs of NVIDIA: kernels in CUDA C alone. */
#include "target/target.h"

#include "ir/custom.h"
#include "target/cuda/cuda.h"
#include "target/cuda/tensor.h"

static bool swizzles(const lowerer *L, const lower_matmul *m) {
    return target_tensor_can(L, m->gr, m->name, m->f.x);
}

const lower_target target_cuda = {.id = GEN_CUDA,
                                  .copies_leaves = true,
                                  .swizzles = swizzles,
                                  .matmul = target_cuda_matmul,
                                  .attention = target_cuda_attention,
                                  .scan = target_cuda_scan,
                                  .scatter = target_cuda_scatter,
                                  .has_source = ir_custom_on_gpu,
                                  .source = target_cuda_source,
                                  .offer = target_rows_offer,
                                  .done = target_rows_done};
