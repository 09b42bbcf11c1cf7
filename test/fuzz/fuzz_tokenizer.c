/* Text from outside through a vocabulary with all 256 bytes and some merges: pieces laid end to
 * end are the text, decode(encode(x)) == x for any bytes, and what streams out is UTF-8. The text
 * is also taken as a chat template and as a stop string. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "model/chat.h"
#include "model/detok.h"
#include "model/pretok.h"
#include "model/utf8.h"

#define CHECK(x) ((x) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(base_buf *b, const void *p, size_t n) {
    base_buf_add(b, p, n);
}

static void put_u32(base_buf *b, uint32_t v) {
    put(b, &v, sizeof v);
}

static void put_str(base_buf *b, const char *p, size_t n) {
    uint64_t len = n;
    put(b, &len, sizeof len);
    put(b, p, n);
}

static void put_key(base_buf *b, const char *key, uint32_t type) {
    put_str(b, key, strlen(key));
    put_u32(b, type);
}

static void put_array(base_buf *b, const char *key, uint64_t n) {
    put_key(b, key, 9);
    put_u32(b, 8);
    put(b, &n, sizeof n);
}

/* A tokenizer file: bytes in order of their values, merged pairs, one user-defined token. */
static void write_vocab(base_buf *b) {
    static const char *const merged[] = {"th",         "the", "aa", "aaaa", "\xc4\xa0\xc4\xa0",
                                         "\xc4\xa0the"};
    static const char *const merges[] = {"t h",         "th e", "a a", "aa aa", "\xc4\xa0 \xc4\xa0",
                                         "\xc4\xa0 the"};
    const uint64_t n_tokens = 256 + 6 + 1, n_kv = 5;
    char text[2];
    put(b, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    put(b, &n_kv, sizeof n_kv);
    put_key(b, "tokenizer.ggml.model", 8);
    put_str(b, "gpt2", 4);
    put_key(b, "tokenizer.ggml.pre", 8);
    put_str(b, "smollm", 6);
    put_array(b, "tokenizer.ggml.tokens", n_tokens);
    for (unsigned i = 0; i < 256; i++)
        put_str(b, text, model_utf8_put(model_byte_to_char((uint8_t)i), text));
    for (size_t i = 0; i < 6; i++) put_str(b, merged[i], strlen(merged[i]));
    put_str(b, "<u>", 3);
    put_array(b, "tokenizer.ggml.merges", 6);
    for (size_t i = 0; i < 6; i++) put_str(b, merges[i], strlen(merges[i]));
    put_key(b, "tokenizer.ggml.token_type", 9);
    put_u32(b, 5);
    put(b, &n_tokens, sizeof n_tokens);
    for (uint64_t i = 0; i < n_tokens; i++) put_u32(b, i == n_tokens - 1 ? 4 : 1);
}

static void check_pieces(const char *rule, base_str text) {
    model_pretok *p = NULL;
    model_pretok_run *run = NULL;
    size_t at = 0;
    CHECK(model_pretok_new(base_str_of(rule), &p, NULL) == RP_OK);
    CHECK(model_pretok_run_new(p, &run, NULL) == RP_OK);
    model_pretok_start(run, text);
    for (;;) {
        base_str piece;
        CHECK(model_pretok_next(run, &piece, NULL) == RP_OK);
        if (piece.len == 0) break;
        CHECK(piece.ptr == text.ptr + at);
        at += piece.len;
    }
    CHECK(at == text.len);
    model_pretok_run_free(run);
    model_pretok_free(p);
}

static void check_stream(const model_tokenizer *t, const model_ids *ids, base_str text) {
    model_detok d;
    model_stop s;
    base_buf out = {0}, shown = {0};
    char stop[8] = {0};
    const char *const stops[] = {stop};
    memcpy(stop, text.ptr, text.len < 3 ? text.len : 3);
    bool has_stop = model_stop_init(&s, stops, 1, NULL) == RP_OK;
    model_detok_init(&d, t, true);
    for (size_t i = 0; i < ids->n; i++) {
        size_t from = out.len;
        CHECK(model_detok_push(&d, ids->ids[i], &out, NULL) == RP_OK);
        CHECK(model_utf8_valid(out.data, out.len) == out.len);
        base_str more = {out.len ? out.data + from : "", out.len - from};
        if (has_stop) CHECK(model_stop_push(&s, more, &shown, NULL) == RP_OK);
        CHECK(model_utf8_valid(shown.data, shown.len) == shown.len);
    }
    CHECK(model_detok_flush(&d, &out, NULL) == RP_OK);
    if (has_stop) CHECK(s.hit && shown.len == 0); /* the text starts with it */
    model_detok_done(&d);
    model_stop_done(&s);
    base_buf_done(&out);
    base_buf_done(&shown);
}

static void check_chat(base_str text) {
    model_chat c;
    rp_status st = model_chat_init(&c, NULL, text, NULL);
    CHECK(st == RP_OK || st == RP_UNSUPPORTED);
    model_chat_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t before = base_live();
    base_buf file = {0}, out = {0};
    model_gguf *g = NULL;
    model_tokenizer *t = NULL;
    model_ids ids = {0};
    size_t n_dropped = 0;
    base_str text = {(const char *)data, size};
    write_vocab(&file);
    CHECK(model_gguf_open_bytes(file.data, file.len, "vocab", &g, NULL) == RP_OK);
    CHECK(model_tokenizer_new(g, &t, NULL) == RP_OK);
    if (size > 0) {
        check_pieces("smollm", text);
        check_pieces("gpt-2", text);
    }
    CHECK(model_tokenizer_encode(t, text, 0, &ids, &n_dropped, NULL) == RP_OK);
    CHECK(model_tokenizer_decode(t, ids.ids, ids.n, true, &out, NULL) == RP_OK);
    CHECK(n_dropped == 0 && out.len == size && (size == 0 || memcmp(out.data, data, size) == 0));
    if (size > 0) check_stream(t, &ids, text);
    check_chat(text);
    model_ids_done(&ids);
    model_tokenizer_free(t);
    model_gguf_close(g);
    base_buf_done(&file);
    base_buf_done(&out);
    CHECK(base_live() == before);
    return 0;
}
