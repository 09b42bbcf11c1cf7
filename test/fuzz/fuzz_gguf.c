/* GGUF files from outside: opening gives one clear line or a model of which everything can be
 * used: every tensor byte read, every token decoded, a text encoded, the template recognised. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "model/weights.h"

#define CHECK(x) ((x) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_tokenizer(model_tokenizer *t) {
    static const char text[] = "<|im_start|>user\nthe  aaaa 12\xff\xe2\x82\xac<|im_end|>";
    model_ids ids = {0};
    base_buf out = {0};
    rp_error err = {0};
    rp_status st = model_tokenizer_encode(t, (base_str){text, sizeof text - 1},
                                          MODEL_ENCODE_ADD_SPECIAL | MODEL_ENCODE_PARSE_SPECIAL,
                                          &ids, NULL, &err);
    CHECK(st == RP_OK || (st == RP_CORRUPT && err.text[0]));
    for (size_t i = 0; i < ids.n; i++) CHECK(ids.ids[i] < model_tokenizer_n_vocab(t));
    for (uint32_t id = 0; id < model_tokenizer_n_vocab(t); id++)
        CHECK(model_tokenizer_bytes(t, id, id % 2 != 0, &out, NULL) == RP_OK);
    base_buf_done(&out);
    model_ids_done(&ids);
}

static void use_source(model_source *s) {
    model_chat chat;
    volatile uint64_t sum = 0;
    for (size_t i = 0; i < model_source_n_tensors(s); i++) {
        model_tensor t = model_source_tensor_at(s, i);
        for (size_t k = 0; k < t.size; k++) sum += t.data[k];
        sum += model_source_tensor_hash(s, i).lo;
    }
    use_tokenizer(model_source_tokenizer(s));
    rp_status st = model_chat_init(&chat, NULL, model_source_chat_template(s), NULL);
    CHECK(st == RP_OK || st == RP_UNSUPPORTED);
    model_chat_done(&chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t before = base_live();
    rp_error err = {0};
    model_gguf *g = NULL;
    model_source *s = NULL;
    model_tokenizer *t = NULL;
    rp_status st = model_gguf_open_bytes(data, size, "fuzz.gguf", &g, &err);
    CHECK(st == RP_OK || (err.code == st && err.text[0] && !strchr(err.text, '\n')));
    /* a tokenizer needs no tensors, so that inputs reach it early */
    if (st == RP_OK && model_tokenizer_new(g, &t, NULL) == RP_OK) use_tokenizer(t);
    model_tokenizer_free(t);
    model_gguf_close(g);
    err = (rp_error){0};
    st = model_source_open_bytes(data, size, "fuzz.gguf", &s, &err);
    CHECK(st == RP_OK || (err.code == st && err.text[0] && !strchr(err.text, '\n')));
    if (st == RP_OK) use_source(s);
    model_source_free(s);
    CHECK(base_live() == before);
    return 0;
}
