/* Small GGUF files for tests of everything that reads them. */
#include "support/gguf.h"

#include <stdio.h>
#include <string.h>

void gguf_put_u32(base_buf *b, uint32_t v) {
    base_buf_add(b, &v, sizeof v);
}

void gguf_put_u64(base_buf *b, uint64_t v) {
    base_buf_add(b, &v, sizeof v);
}

void gguf_put_str(base_buf *b, const char *z) {
    gguf_put_u64(b, strlen(z));
    base_buf_puts(b, z);
}

void gguf_kv_head(gguf_builder *b, const char *key, uint32_t type) {
    gguf_put_str(&b->kv, key);
    gguf_put_u32(&b->kv, type);
    b->n_kv++;
}

void gguf_kv_u32(gguf_builder *b, const char *key, uint32_t v) {
    gguf_kv_head(b, key, 4);
    gguf_put_u32(&b->kv, v);
}

void gguf_kv_f32(gguf_builder *b, const char *key, float v) {
    gguf_kv_head(b, key, 6);
    base_buf_add(&b->kv, &v, sizeof v);
}

void gguf_kv_bool(gguf_builder *b, const char *key, bool v) {
    gguf_kv_head(b, key, 7);
    base_buf_putc(&b->kv, v ? 1 : 0);
}

void gguf_kv_str(gguf_builder *b, const char *key, const char *v) {
    gguf_kv_head(b, key, 8);
    gguf_put_str(&b->kv, v);
}

void gguf_kv_strs(gguf_builder *b, const char *key, const char *const *v, size_t n) {
    gguf_kv_head(b, key, 9);
    gguf_put_u32(&b->kv, 8);
    gguf_put_u64(&b->kv, n);
    for (size_t i = 0; i < n; i++) gguf_put_str(&b->kv, v[i]);
}

void gguf_kv_i32s(gguf_builder *b, const char *key, const int32_t *v, size_t n) {
    gguf_kv_head(b, key, 9);
    gguf_put_u32(&b->kv, 5);
    gguf_put_u64(&b->kv, n);
    base_buf_add(&b->kv, v, n * sizeof *v);
}

static void pad(base_buf *b, size_t align) {
    while (b->len % align) base_buf_putc(b, 0);
}

void gguf_tensor(gguf_builder *b, const char *name, uint32_t type, uint32_t n_dims,
                 const uint64_t *dims, size_t size) {
    gguf_put_str(&b->infos, name);
    gguf_put_u32(&b->infos, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) gguf_put_u64(&b->infos, dims[i]);
    gguf_put_u32(&b->infos, type);
    pad(&b->data, b->align ? b->align : 32);
    gguf_put_u64(&b->infos, b->data.len);
    for (size_t i = 0; i < size; i++) base_buf_putc(&b->data, (char)(i * 7 + b->n_tensors));
    b->n_tensors++;
}

void gguf_write(gguf_builder *b, base_buf *out) {
    size_t start = out->len;
    base_buf_puts(out, "GGUF");
    gguf_put_u32(out, b->version ? b->version : 3);
    gguf_put_u64(out, b->n_tensors);
    gguf_put_u64(out, b->n_kv);
    base_buf_add(out, b->kv.data, b->kv.len);
    base_buf_add(out, b->infos.data, b->infos.len);
    if (start == 0) pad(out, b->align ? b->align : 32);
    base_buf_add(out, b->data.data, b->data.len);
    base_buf_done(&b->kv);
    base_buf_done(&b->infos);
    base_buf_done(&b->data);
}

void gguf_llama_least_keys(gguf_builder *b) {
    gguf_kv_str(b, "general.architecture", "llama");
    gguf_kv_u32(b, "llama.block_count", 1);
    gguf_kv_u32(b, "llama.context_length", 64);
    gguf_kv_u32(b, "llama.embedding_length", 32);
    gguf_kv_u32(b, "llama.feed_forward_length", 64);
    gguf_kv_u32(b, "llama.attention.head_count", 4);
    gguf_kv_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

void gguf_llama_keys(gguf_builder *b) {
    gguf_llama_least_keys(b);
    gguf_kv_str(b, "general.name", "small");
    gguf_kv_u32(b, "llama.attention.head_count_kv", 2);
    gguf_kv_f32(b, "llama.rope.freq_base", 10000.0f);
}

void gguf_llama_tokenizer(gguf_builder *b, const char *pre) {
    /* \xc4\xa0 (U+0120) stands for the space, \xc4\x8a (U+010A) for the newline */
    static const char *const more[] = {
        "\xc4\xa0", "\xc4\x8a",      "th",           "the",        "\xc4\xa0the",   "aa",
        "aaaa",     "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_start|>x", "<user>",
        "\xc3\xa2", "\xc2\xac"};
    static const char *const merges[] = {"t h", "th e", "\xc4\xa0 the", "a a", "aa aa"};
    const char *tokens[GGUF_LLAMA_VOCAB];
    int32_t kinds[GGUF_LLAMA_VOCAB];
    char ascii[94][2];
    size_t n = 0;
    for (int c = 0x21; c < 0x7f; c++, n++) {
        ascii[n][0] = (char)c;
        ascii[n][1] = 0;
        tokens[n] = ascii[n];
    }
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) tokens[n++] = more[i];
    for (size_t i = 0; i < n; i++) kinds[i] = tokens[i][0] == '<' && tokens[i][1] ? 3 : 1;
    kinds[105] = 4;
    gguf_kv_str(b, "tokenizer.ggml.model", "gpt2");
    gguf_kv_str(b, "tokenizer.ggml.pre", pre);
    gguf_kv_strs(b, "tokenizer.ggml.tokens", tokens, n);
    gguf_kv_i32s(b, "tokenizer.ggml.token_type", kinds, n);
    gguf_kv_strs(b, "tokenizer.ggml.merges", merges, sizeof merges / sizeof merges[0]);
    gguf_kv_u32(b, "tokenizer.ggml.bos_token_id", 102);
    gguf_kv_u32(b, "tokenizer.ggml.eos_token_id", 103);
    gguf_kv_bool(b, "tokenizer.ggml.add_bos_token", false);
}

void gguf_llama_tensors(gguf_builder *b) {
    gguf_tensor(b, "token_embd.weight", 8, 2, (uint64_t[]){32, GGUF_LLAMA_VOCAB},
                GGUF_LLAMA_VOCAB * 34);
    gguf_tensor(b, "blk.0.attn_norm.weight", 0, 1, (uint64_t[]){32}, 128);
    gguf_tensor(b, "blk.0.attn_q.weight", 3, 2, (uint64_t[]){32, 32}, 32 * 20);
    gguf_tensor(b, "blk.0.attn_k.weight", 3, 2, (uint64_t[]){32, 16}, 16 * 20);
    gguf_tensor(b, "blk.0.attn_v.weight", 2, 2, (uint64_t[]){32, 16}, 16 * 18);
    gguf_tensor(b, "blk.0.attn_output.weight", 1, 2, (uint64_t[]){32, 32}, 32 * 64);
    gguf_tensor(b, "blk.0.ffn_norm.weight", 0, 1, (uint64_t[]){32}, 128);
    gguf_tensor(b, "blk.0.ffn_gate.weight", 30, 2, (uint64_t[]){32, 64}, 64 * 64);
    gguf_tensor(b, "blk.0.ffn_up.weight", 3, 2, (uint64_t[]){32, 64}, 64 * 20);
    gguf_tensor(b, "blk.0.ffn_down.weight", 3, 2, (uint64_t[]){64, 32}, 32 * 40);
    gguf_tensor(b, "output_norm.weight", 0, 1, (uint64_t[]){32}, 128);
}

void gguf_llama(base_buf *out) {
    gguf_builder b = {0};
    gguf_llama_keys(&b);
    gguf_llama_tokenizer(&b, "smollm");
    gguf_llama_tensors(&b);
    gguf_write(&b, out);
}
