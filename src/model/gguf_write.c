/* A synthetic model as GGUF: metadata and tensor table first, then each tensor as it is made.
 *
 * Its byte tokenizer becomes a byte-level BPE without merges, in which every byte is a token of its own and has the same id. */
#include "model/gguf_write.h"

#include <string.h>

#include "base/alloc.h"
#include "model/gguf.h"
#include "model/utf8.h"

enum { VERSION = 3, ALIGN = 32, N_BYTES = 256, PART = 4 << 20 };

typedef struct writer {
    model_source *source;
    base_buf keys, infos;
    uint64_t n_keys;
    char *part;
} writer;

/* ---- metadata ---- */

static void put_u32(base_buf *b, uint32_t v) {
    base_buf_add(b, &v, sizeof v);
}

static void put_u64(base_buf *b, uint64_t v) {
    base_buf_add(b, &v, sizeof v);
}

static void put_str(base_buf *b, base_str s) {
    put_u64(b, s.len);
    base_buf_add(b, s.ptr, s.len);
}

static void put_key(writer *w, const char *key, model_kv_type type) {
    put_str(&w->keys, base_str_of(key));
    put_u32(&w->keys, type);
    w->n_keys++;
}

static void put_array(writer *w, const char *key, model_kv_type type, uint64_t n) {
    put_key(w, key, MODEL_KV_ARR);
    put_u32(&w->keys, type);
    put_u64(&w->keys, n);
}

static void key_u32(writer *w, const char *key, uint32_t v) {
    put_key(w, key, MODEL_KV_U32);
    put_u32(&w->keys, v);
}

static void key_f32(writer *w, const char *key, float v) {
    put_key(w, key, MODEL_KV_F32);
    base_buf_add(&w->keys, &v, sizeof v);
}

static void key_str(writer *w, const char *key, base_str v) {
    put_key(w, key, MODEL_KV_STR);
    put_str(&w->keys, v);
}

static void put_hparams(writer *w, const model_hparams *hp) {
    key_str(w, "general.architecture", base_str_of(hp->arch));
    key_str(w, "general.name", model_source_title(w->source));
    key_u32(w, "llama.block_count", hp->n_layer);
    key_u32(w, "llama.context_length", hp->n_ctx);
    key_u32(w, "llama.embedding_length", hp->n_embd);
    key_u32(w, "llama.feed_forward_length", hp->n_ff);
    key_u32(w, "llama.attention.head_count", hp->n_head);
    key_u32(w, "llama.attention.head_count_kv", hp->n_head_kv);
    key_u32(w, "llama.attention.key_length", hp->head_dim);
    key_u32(w, "llama.attention.value_length", hp->head_dim);
    key_f32(w, "llama.attention.layer_norm_rms_epsilon", hp->rms_eps);
    key_u32(w, "llama.rope.dimension_count", hp->rope_dim);
    key_f32(w, "llama.rope.freq_base", hp->rope_base);
    key_u32(w, "llama.vocab_size", hp->n_vocab);
}

/* ---- tokenizer ---- */

static rp_status put_token(const model_tokenizer *t, uint32_t id, base_buf *text, rp_error *err) {
    char c[2];
    text->len = 0;
    if (id >= N_BYTES) return model_tokenizer_bytes(t, id, true, text, err);
    base_buf_add(text, c, model_utf8_put(model_byte_to_char((uint8_t)id), c));
    return base_buf_status(text, err);
}

static rp_status put_tokens(writer *w, uint32_t n, base_buf *text, base_buf *kinds, rp_error *err) {
    const model_tokenizer *t = model_source_tokenizer(w->source);
    put_array(w, "tokenizer.ggml.tokens", MODEL_KV_STR, n);
    for (uint32_t id = 0; id < n; id++) {
        RP_TRY(put_token(t, id, text, err));
        put_str(&w->keys, (base_str){text->data, text->len});
        put_u32(kinds,
                model_tokenizer_is_control(t, id) ? MODEL_TOKEN_CONTROL : MODEL_TOKEN_NORMAL);
    }
    put_array(w, "tokenizer.ggml.token_type", MODEL_KV_I32, n);
    base_buf_add(&w->keys, kinds->data, kinds->len);
    return base_buf_status(kinds, err);
}

static rp_status put_tokenizer(writer *w, uint32_t n_vocab, rp_error *err) {
    const model_tokenizer *t = model_source_tokenizer(w->source);
    base_buf text, kinds;
    key_str(w, "tokenizer.ggml.model", base_str_of("gpt2"));
    key_str(w, "tokenizer.ggml.pre", base_str_of("gpt-2"));
    key_u32(w, "tokenizer.ggml.bos_token_id", model_tokenizer_bos(t));
    key_u32(w, "tokenizer.ggml.eos_token_id", model_tokenizer_eos(t));
    for (uint32_t id = 0; id < n_vocab; id++)
        if (model_tokenizer_is_end(t, id) && id != model_tokenizer_eos(t))
            key_u32(w, "tokenizer.ggml.eot_token_id", id); /* a byte tokenizer has one */
    put_key(w, "tokenizer.ggml.add_bos_token", MODEL_KV_BOOL);
    base_buf_putc(&w->keys, 0);
    put_array(w, "tokenizer.ggml.merges", MODEL_KV_STR, 0);
    base_buf_init(&text, 0);
    base_buf_init(&kinds, 0);
    rp_status st = put_tokens(w, n_vocab, &text, &kinds, err);
    base_buf_done(&text);
    base_buf_done(&kinds);
    return st;
}

/* ---- tensors ---- */

static uint64_t aligned(uint64_t n) {
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static void put_infos(writer *w) {
    uint64_t offset = 0;
    for (size_t i = 0; i < model_source_n_tensors(w->source); i++) {
        model_tensor t = model_source_tensor_at(w->source, i);
        put_str(&w->infos, t.name);
        put_u32(&w->infos, t.n_dims);
        for (uint32_t d = 0; d < t.n_dims; d++) put_u64(&w->infos, t.dims[d]);
        put_u32(&w->infos, model_ggml_of_type(t.type));
        put_u64(&w->infos, offset);
        offset = aligned(offset + t.size);
    }
}

static rp_status write_padding(base_target *to, uint64_t size, rp_error *err) {
    static const char zeros[ALIGN];
    return base_target_write(to, zeros, aligned(size) - size, err);
}

static rp_status write_tensor(writer *w, const model_tensor *t, base_target *to, rp_error *err) {
    uint64_t n = 1;
    for (uint32_t d = 1; d < t->n_dims; d++) n *= t->dims[d];
    size_t row = t->size / n;
    uint64_t many = row < PART ? PART / row : 1;
    for (uint64_t first = 0; first < n; first += many) {
        uint64_t some = n - first < many ? n - first : many;
        RP_TRY(model_source_rows(w->source, t->idx, first, some, w->part, err));
        RP_TRY(base_target_write(to, w->part, some * row, err));
    }
    return write_padding(to, t->size, err);
}

static rp_status write_head(writer *w, base_target *to, rp_error *err) {
    base_buf head;
    base_buf_init(&head, 0);
    base_buf_puts(&head, "GGUF");
    put_u32(&head, VERSION);
    put_u64(&head, model_source_n_tensors(w->source));
    put_u64(&head, w->n_keys);
    base_buf_add(&head, w->keys.data, w->keys.len);
    base_buf_add(&head, w->infos.data, w->infos.len);
    rp_status st = base_buf_status(&head, err);
    if (st == RP_OK) st = base_target_write(to, head.data, head.len, err);
    if (st == RP_OK) st = write_padding(to, head.len, err);
    base_buf_done(&head);
    return st;
}

static rp_status write_all(writer *w, base_target *to, rp_error *err) {
    const model_hparams *hp = model_source_hparams(w->source);
    put_hparams(w, hp);
    RP_TRY(put_tokenizer(w, hp->n_vocab, err));
    put_infos(w);
    RP_TRY(base_buf_status(&w->keys, err));
    RP_TRY(base_buf_status(&w->infos, err));
    RP_TRY(write_head(w, to, err));
    for (size_t i = 0; i < model_source_n_tensors(w->source); i++) {
        model_tensor t = model_source_tensor_at(w->source, i);
        RP_TRY(write_tensor(w, &t, to, err));
    }
    return RP_OK;
}

rp_status model_gguf_write(model_source *s, base_target *to, rp_error *err) {
    writer w = {.source = s, .part = base_alloc(PART)};
    if (!w.part) return rp_fail(err, RP_NOMEM, "no memory to write a model");
    base_buf_init(&w.keys, 0);
    base_buf_init(&w.infos, 0);
    rp_status st = write_all(&w, to, err);
    base_buf_done(&w.keys);
    base_buf_done(&w.infos);
    base_free(w.part);
    return st;
}
