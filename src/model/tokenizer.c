/* Tokenizer: special tokens first, then pieces, then BPE inside of each piece.
 *
 * Invariants: ids given out are below n_vocab; nothing is built that the caller has not asked
 * for, since process start to first token counts in milliseconds. Does not normalise. */
#include "model/tokenizer.h"

#include <pthread.h>

#include "base/alloc.h"
#include "model/pretok.h"
#include "model/special.h"
#include "model/utf8.h"

enum { MAX_ENDS = 4, BYTE_EOS = 256, BYTE_BOS = 257, BYTE_END = 258, BYTE_VOCAB = 259 };

struct model_tokenizer {
    bool is_bytes;
    bool add_bos, add_eos;
    uint32_t n_vocab, bos, eos;
    uint32_t ends[MAX_ENDS];
    size_t n_ends;
    base_str pre;
    model_vocab vocab;
    pthread_mutex_t lock; /* of ready and what it guards, until it is true */
    bool ready;
    model_specials specials;
    model_pretok *pretok;
};

static rp_status optional_id(const model_gguf *g, const char *key, uint32_t n_vocab, uint32_t *out,
                             rp_error *err) {
    *out = MODEL_NO_ID;
    if (!model_gguf_has(g, key)) return RP_OK;
    RP_TRY(model_gguf_u32(g, key, out, err));
    if (*out >= n_vocab)
        return rp_fail(err, RP_CORRUPT, "%s: %s is %u, but there are only %u tokens",
                       model_gguf_path(g), key, *out, n_vocab);
    return RP_OK;
}

static rp_status optional_bool(const model_gguf *g, const char *key, bool *out, rp_error *err) {
    return model_gguf_has(g, key) ? model_gguf_bool(g, key, out, err) : RP_OK;
}

static rp_status kind_check(const model_gguf *g, base_str *pre, rp_error *err) {
    base_str kind;
    RP_TRY(model_gguf_str(g, "tokenizer.ggml.model", &kind, err));
    if (!base_str_eq(kind, "gpt2"))
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s: tokenizer '%s' is not supported: 'gpt2' (byte-level BPE) is",
                       model_gguf_path(g), model_label_of(kind).text);
    RP_TRY(model_gguf_str(g, "tokenizer.ggml.pre", pre, err));
    return model_pretok_known(*pre, err);
}

static rp_status keys_read(model_tokenizer *t, const model_gguf *g, rp_error *err) {
    static const char *const end_keys[] = {"tokenizer.ggml.eos_token_id",
                                           "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};
    RP_TRY(kind_check(g, &t->pre, err));
    RP_TRY(model_vocab_init(&t->vocab, g, err));
    t->n_vocab = t->vocab.n_tokens;
    RP_TRY(optional_id(g, "tokenizer.ggml.bos_token_id", t->n_vocab, &t->bos, err));
    RP_TRY(optional_id(g, end_keys[0], t->n_vocab, &t->eos, err));
    for (size_t i = 0; i < sizeof end_keys / sizeof end_keys[0]; i++) {
        uint32_t id;
        RP_TRY(optional_id(g, end_keys[i], t->n_vocab, &id, err));
        if (id != MODEL_NO_ID) t->ends[t->n_ends++] = id;
    }
    RP_TRY(optional_bool(g, "tokenizer.ggml.add_bos_token", &t->add_bos, err));
    RP_TRY(optional_bool(g, "tokenizer.ggml.add_eos_token", &t->add_eos, err));
    if ((t->add_bos && t->bos == MODEL_NO_ID) || (t->add_eos && t->eos == MODEL_NO_ID))
        return rp_fail(err, RP_CORRUPT, "%s: the tokenizer adds a BOS or EOS that it does not name",
                       model_gguf_path(g));
    return RP_OK;
}

static model_tokenizer *tokenizer_alloc(void) {
    model_tokenizer *t = base_alloc(sizeof *t);
    if (!t) return NULL;
    pthread_mutex_init(&t->lock, NULL);
    t->bos = t->eos = MODEL_NO_ID;
    return t;
}

rp_status model_tokenizer_new(const model_gguf *g, model_tokenizer **out, rp_error *err) {
    model_tokenizer *t = tokenizer_alloc();
    if (!t) return rp_fail(err, RP_NOMEM, "no memory for the tokenizer");
    rp_status st = keys_read(t, g, err);
    if (st != RP_OK) {
        model_tokenizer_free(t);
        return st;
    }
    *out = t;
    return RP_OK;
}

rp_status model_tokenizer_bytes_new(uint32_t n_vocab, model_tokenizer **out, rp_error *err) {
    if (n_vocab < BYTE_VOCAB)
        return rp_fail(err, RP_INVALID, "a byte tokenizer needs %d ids, the vocabulary has %u",
                       BYTE_VOCAB, n_vocab);
    model_tokenizer *t = tokenizer_alloc();
    if (!t) return rp_fail(err, RP_NOMEM, "no memory for the tokenizer");
    t->is_bytes = true;
    t->n_vocab = n_vocab;
    t->bos = BYTE_BOS;
    t->eos = BYTE_EOS;
    t->ends[t->n_ends++] = BYTE_EOS;
    t->ends[t->n_ends++] = BYTE_END;
    *out = t;
    return RP_OK;
}

void model_tokenizer_free(model_tokenizer *t) {
    if (!t) return;
    model_vocab_done(&t->vocab);
    model_specials_done(&t->specials);
    model_pretok_free(t->pretok);
    pthread_mutex_destroy(&t->lock);
    base_free(t);
}

uint32_t model_tokenizer_n_vocab(const model_tokenizer *t) {
    return t->n_vocab;
}

uint32_t model_tokenizer_bos(const model_tokenizer *t) {
    return t->bos;
}

uint32_t model_tokenizer_eos(const model_tokenizer *t) {
    return t->eos;
}

const uint32_t *model_tokenizer_ends(const model_tokenizer *t, size_t *n) {
    *n = t->n_ends;
    return t->ends;
}

bool model_tokenizer_is_end(const model_tokenizer *t, uint32_t id) {
    for (size_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) return true;
    return false;
}

bool model_tokenizer_is_control(const model_tokenizer *t, uint32_t id) {
    if (id >= t->n_vocab) return false;
    if (t->is_bytes) return id >= BYTE_EOS && id < BYTE_VOCAB;
    return model_vocab_kind(&t->vocab, id) == MODEL_TOKEN_CONTROL;
}

static rp_status byte_specials(model_specials *s, rp_error *err) {
    static const char *const texts[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    for (uint32_t i = 0; i < 3; i++)
        RP_TRY(
            model_specials_add(s, base_str_of(texts[i]), BYTE_EOS + i, MODEL_TOKEN_CONTROL, err));
    return RP_OK;
}

static rp_status vocab_specials(const model_vocab *v, model_specials *s, rp_error *err) {
    for (uint32_t id = 0; v->kinds && id < v->n_tokens; id++) {
        model_token_kind kind = model_vocab_kind(v, id);
        if (kind == MODEL_TOKEN_CONTROL || kind == MODEL_TOKEN_USER || kind == MODEL_TOKEN_UNKNOWN)
            RP_TRY(model_specials_add(s, model_vocab_text(v, id), id, kind, err));
    }
    return RP_OK;
}

static rp_status encode_build(model_tokenizer *t, rp_error *err) {
    model_specials_done(&t->specials); /* of an attempt that failed */
    if (t->is_bytes) {
        RP_TRY(byte_specials(&t->specials, err));
    } else {
        RP_TRY(model_vocab_index(&t->vocab, err));
        RP_TRY(vocab_specials(&t->vocab, &t->specials, err));
        if (!t->pretok) RP_TRY(model_pretok_new(t->pre, &t->pretok, err));
    }
    model_specials_sort(&t->specials);
    t->ready = true;
    return RP_OK;
}

static rp_status encode_prepare(model_tokenizer *t, rp_error *err) {
    pthread_mutex_lock(&t->lock);
    rp_status st = t->ready ? RP_OK : encode_build(t, err);
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* What one encode works with. */
typedef struct encoder {
    const model_tokenizer *t;
    model_pretok_run *run; /* NULL for bytes */
    model_bpe *bpe;
    model_ids *out;
    size_t n_dropped;
} encoder;

/* Text without special tokens. */
static rp_status encode_plain(encoder *e, base_str text, rp_error *err) {
    if (e->t->is_bytes) {
        for (size_t i = 0; i < text.len; i++)
            RP_TRY(model_ids_push(e->out, (uint8_t)text.ptr[i], err));
        return RP_OK;
    }
    model_pretok_start(e->run, text);
    for (;;) {
        base_str piece;
        RP_TRY(model_pretok_next(e->run, &piece, err));
        if (piece.len == 0) return RP_OK;
        RP_TRY(model_bpe_piece(e->bpe, piece, e->out, &e->n_dropped, err));
    }
}

static rp_status encode_text(encoder *e, base_str text, bool parse, rp_error *err) {
    size_t at = 0, found_at = 0;
    const model_special_token *s;
    while ((s = model_specials_find(&e->t->specials, text, at, parse, &found_at)) != NULL) {
        RP_TRY(encode_plain(e, (base_str){text.ptr + at, found_at - at}, err));
        RP_TRY(model_ids_push(e->out, s->id, err));
        at = found_at + s->text.len;
    }
    return text.len > at ? encode_plain(e, (base_str){text.ptr + at, text.len - at}, err) : RP_OK;
}

rp_status model_tokenizer_encode(model_tokenizer *t, base_str text, unsigned flags, model_ids *out,
                                 size_t *n_dropped, rp_error *err) {
    rp_status st;
    encoder e = {.t = t, .out = out};
    bool add = (flags & MODEL_ENCODE_ADD_SPECIAL) != 0;
    RP_TRY_OUT(encode_prepare(t, err));
    if (!t->is_bytes) {
        RP_TRY_OUT(model_pretok_run_new(t->pretok, &e.run, err));
        RP_TRY_OUT(model_bpe_new(&t->vocab, &e.bpe, err));
    }
    if (add && t->add_bos) RP_TRY_OUT(model_ids_push(out, t->bos, err));
    RP_TRY_OUT(encode_text(&e, text, (flags & MODEL_ENCODE_PARSE_SPECIAL) != 0, err));
    if (add && t->add_eos) RP_TRY_OUT(model_ids_push(out, t->eos, err));
    if (n_dropped) *n_dropped = e.n_dropped;
out:
    model_bpe_free(e.bpe);
    model_pretok_run_free(e.run);
    return st;
}

/* A normal token in the byte alphabet; characters outside of it stand for themselves, as those of ASCII do in it. */
static void alphabet_decode(base_str s, base_buf *out) {
    size_t at = 0, len;
    while (at < s.len) {
        const size_t same = model_utf8_ascii(s.ptr + at, s.len - at);
        base_buf_add(out, s.ptr + at, same);
        at += same;
        if (at == s.len) break;
        int byte = -1;
        if (model_utf8_step(s.ptr + at, s.len - at, &len) == MODEL_UTF8_CHAR)
            byte = model_char_to_byte(model_utf8_get(s.ptr + at, &len));
        if (byte >= 0)
            base_buf_putc(out, (char)byte);
        else
            base_buf_add(out, s.ptr + at, len);
        at += len;
    }
}

/* <ID>; a step that gives many of them has no time for printf. */
static void number_token(uint32_t id, base_buf *out) {
    char text[12];
    size_t at = sizeof text;
    text[--at] = '>';
    do text[--at] = (char)('0' + id % 10);
    while ((id /= 10) > 0);
    text[--at] = '<';
    base_buf_add(out, text + at, sizeof text - at);
}

static void byte_token(uint32_t id, bool special, base_buf *out) {
    static const char *const texts[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    if (id < 256)
        base_buf_putc(out, (char)id);
    else if (id >= BYTE_VOCAB)
        number_token(id, out);
    else if (special)
        base_buf_puts(out, texts[id - BYTE_EOS]);
}

rp_status model_tokenizer_bytes(const model_tokenizer *t, uint32_t id, bool special, base_buf *out,
                                rp_error *err) {
    if (id >= t->n_vocab)
        return rp_fail(err, RP_INVALID, "token id %u is outside the vocabulary of %u", id,
                       t->n_vocab);
    if (t->is_bytes) {
        byte_token(id, special, out);
        return base_buf_status(out, err);
    }
    base_str text = model_vocab_text(&t->vocab, id);
    switch (model_vocab_kind(&t->vocab, id)) {
    case MODEL_TOKEN_CONTROL:
    case MODEL_TOKEN_UNKNOWN:
        if (special) base_buf_add(out, text.ptr, text.len);
        break;
    case MODEL_TOKEN_USER: base_buf_add(out, text.ptr, text.len); break;
    case MODEL_TOKEN_NORMAL:
    case MODEL_TOKEN_UNUSED:
    case MODEL_TOKEN_BYTE: alphabet_decode(text, out); break;
    }
    return base_buf_status(out, err);
}

rp_status model_tokenizer_decode(const model_tokenizer *t, const uint32_t *ids, size_t n,
                                 bool special, base_buf *out, rp_error *err) {
    for (size_t i = 0; i < n; i++) RP_TRY(model_tokenizer_bytes(t, ids[i], special, out, err));
    return RP_OK;
}

rp_status model_tokenizer_find(model_tokenizer *t, base_str text, uint32_t *out, rp_error *err) {
    RP_TRY(encode_prepare(t, err));
    *out = MODEL_NO_ID;
    if (!t->is_bytes) {
        *out = model_vocab_find(&t->vocab, text.ptr, text.len);
        return RP_OK;
    }
    size_t at = 0;
    const model_special_token *s = model_specials_find(&t->specials, text, 0, true, &at);
    if (s && at == 0 && s->text.len == text.len) *out = s->id;
    if (!s && text.len == 1) *out = (uint8_t)text.ptr[0];
    return RP_OK;
}
