/* Every number here stands in test/model/oracle/make_long.py as well. */
#include "support/long_llama.h"

#include "support/check.h"
#include "support/gguf.h"

#include "base/file.h"

enum { LAYERS = 2, EMBD = 64, HEADS = 4, KV_HEADS = 2, HEAD = 16, FF = 96, F32 = 0 };

const char *long_rope_name(long_rope rope) {
    static const char *const names[] = {"plain", "linear", "freqs", "partial"};
    return names[rope];
}

/* Well mixed and the same on every machine. */
static uint32_t mix(uint32_t i, uint32_t seed) {
    uint32_t x = i * 2654435761u + seed * 40503u + 12345u;
    x = (x ^ x >> 15) * 739982445u;
    x = (x ^ x >> 12) * 695872825u;
    return x ^ x >> 15;
}

int32_t long_llama_token(uint32_t position) {
    return (int32_t)(mix(position, 1000) % LONG_VOCAB);
}

/* Uniform in [middle - spread/2, middle + spread/2), in steps of 2^-16 of spread: exact in float32. */
static void tensor(gguf_builder *b, const char *name, uint64_t in, uint64_t rows, float middle,
                   float spread) {
    uint32_t seed = (uint32_t)b->n_tensors;
    size_t n = (size_t)(in * rows), at;
    gguf_tensor(b, name, F32, rows > 1 ? 2 : 1, (uint64_t[]){in, rows}, n * sizeof(float));
    at = b->data.len - n * sizeof(float);
    for (size_t i = 0; i < n; i++) {
        float v = middle + spread * ((float)(mix((uint32_t)i, seed) >> 16) / 65536 - 0.5f);
        memcpy(b->data.data + at + i * sizeof v, &v, sizeof v);
    }
}

static void layer(gguf_builder *b, int l) {
    const struct {
        const char *name;
        uint64_t in, rows;
        float middle, spread;
    } t[] = {
        {"attn_norm", EMBD, 1, 1, 0.5f},
        {"attn_q", EMBD, HEADS * HEAD, 0, 1},
        {"attn_k", EMBD, KV_HEADS * HEAD, 0, 1},
        {"attn_v", EMBD, KV_HEADS * HEAD, 0, 0.5f},
        {"attn_output", HEADS * HEAD, EMBD, 0, 0.5f},
        {"ffn_norm", EMBD, 1, 1, 0.5f},
        {"ffn_gate", EMBD, FF, 0, 0.5f},
        {"ffn_up", EMBD, FF, 0, 0.5f},
        {"ffn_down", FF, EMBD, 0, 0.5f},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "blk.%d.%s.weight", l, t[i].name);
        tensor(b, name, t[i].in, t[i].rows, t[i].middle, t[i].spread);
    }
}

static void keys(gguf_builder *b, long_rope rope) {
    gguf_kv_str(b, "general.architecture", "llama");
    gguf_kv_str(b, "general.name", long_rope_name(rope));
    gguf_kv_u32(b, "llama.block_count", LAYERS);
    gguf_kv_u32(b, "llama.context_length", LONG_POSITIONS);
    gguf_kv_u32(b, "llama.embedding_length", EMBD);
    gguf_kv_u32(b, "llama.feed_forward_length", FF);
    gguf_kv_u32(b, "llama.attention.head_count", HEADS);
    gguf_kv_u32(b, "llama.attention.head_count_kv", KV_HEADS);
    gguf_kv_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_kv_f32(b, "llama.rope.freq_base", 10000.0f);
    gguf_kv_u32(b, "llama.rope.dimension_count", rope == LONG_PARTIAL ? HEAD / 2 : HEAD);
    if (rope != LONG_LINEAR) return;
    gguf_kv_str(b, "llama.rope.scaling.type", "linear");
    gguf_kv_f32(b, "llama.rope.scaling.factor", 4.0f);
}

static void freqs(gguf_builder *b) {
    static const float divisors[HEAD / 2] = {1, 1, 1.25f, 1.5f, 2, 4, 8, 8};
    gguf_tensor(b, "rope_freqs.weight", F32, 1, (uint64_t[]){HEAD / 2}, sizeof divisors);
    memcpy(b->data.data + b->data.len - sizeof divisors, divisors, sizeof divisors);
}

const char *long_llama_write(const char *dir, long_rope rope) {
    static char path[4200];
    rp_error err = {0};
    gguf_builder b = {0};
    base_buf file = {0};
    keys(&b, rope);
    gguf_llama_tokenizer(&b, "smollm");
    tensor(&b, "token_embd.weight", EMBD, LONG_VOCAB, 0, 2);
    for (int l = 0; l < LAYERS; l++) layer(&b, l);
    tensor(&b, "output_norm.weight", EMBD, 1, 1, 0.5f);
    if (rope == LONG_FREQS) freqs(&b);
    gguf_write(&b, &file);
    (void)snprintf(path, sizeof path, "%s/%s.gguf", dir, long_rope_name(rope));
    CHECK_OK(base_file_write_atomic(path, file.data, file.len, &err), &err);
    base_buf_done(&file);
    return path;
}
