/* GPUs of NVIDIA: kernels in CUDA C alone. */
#include "target/target.h"

#include "ir/custom.h"
#include "target/cuda/cuda.h"
#include "target/cuda/tensor.h"

static bool swizzles(const lowerer *L, const lower_matmul *m) {
    return target_tensor_can(L, m->gr, m->name, m->f.x);
}

/* A block of a GPU reads some 50 GB/s. From the shortest axis on it takes longer for a row than two launches take beside all others, and
 * there are 132 of its like for what half of them would do. */
#define LONG_AXIS 32768
#define FEW_BLOCKS 64
#define SIDE_BY_SIDE 32

const lower_target target_cuda = {
    .id = GEN_CUDA,
    .splits = {LONG_AXIS, FEW_BLOCKS, SIDE_BY_SIDE, SIDE_BY_SIDE, false, false},
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
