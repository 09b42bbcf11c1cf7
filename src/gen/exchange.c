#include "gen/exchange.h"

#include "base/embed.h"
#include "gen/gen.h"

BASE_EMBED(draw_cu);
BASE_EMBED(exchange_cu);

#define DEFINE(name) base_buf_printf(out, "#define " #name " %d\n", name)

void gen_draw_text(base_buf *out) {
    DEFINE(GEN_DRAW_SCALE);
    DEFINE(GEN_DRAW_TOP_K);
    DEFINE(GEN_DRAW_TOP_P);
    DEFINE(GEN_DRAW_MIN_P);
    DEFINE(GEN_DRAW_UNIFORM);
    DEFINE(GEN_DRAW_WORDS);
    DEFINE(GEN_DRAW_VOCAB);
    base_buf_add(out, rp_embed_draw_cu, rp_embed_draw_cu_size);
}

void gen_exchange_text(base_buf *out) {
    gen_cuda_prelude(out);
    DEFINE(GEN_EXCHANGE_NUMBER);
    DEFINE(GEN_EXCHANGE_ROWS);
    DEFINE(GEN_EXCHANGE_PLACE);
    DEFINE(GEN_EXCHANGE_DRAWS);
    DEFINE(GEN_EXCHANGE_UNREAD);
    DEFINE(GEN_EXCHANGE_TOKENS);
    DEFINE(GEN_EXCHANGE_STATE);
    DEFINE(GEN_EXCHANGE_PATCHES);
    DEFINE(GEN_EXCHANGE_FROM);
    DEFINE(GEN_EXCHANGE_HEAD);
    DEFINE(GEN_EXCHANGE_THREADS);
    gen_draw_text(out);
    base_buf_add(out, rp_embed_exchange_cu, rp_embed_exchange_cu_size);
}
