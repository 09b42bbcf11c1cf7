#include "gen/read.h"

#include "base/embed.h"
#include "gen/gen.h"

BASE_EMBED(read_cu);

void gen_read_text(base_buf *out) {
    gen_cuda_prelude(out);
    base_buf_printf(out, "#define GEN_READ_THREADS %d\n", GEN_READ_THREADS);
    base_buf_add(out, rp_embed_read_cu, rp_embed_read_cu_size);
}
