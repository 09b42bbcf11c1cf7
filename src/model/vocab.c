/* Vocabulary and merges as views into the map, found through two open-addressing tables.
 *
 * A slot holds a number and, in the bits above it, a piece of the hash, so that a miss or a
 * collision rarely touches the text. Does not apply merges (bpe.c). */
#include "model/vocab.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

/* A slot holds numbers below 2^bits; what is left of 32 bits is the tag. */
enum { MAX_ID_BITS = 24, MAX_OFFSET_BITS = 30 };

static unsigned bits_for(uint64_t max) {
    unsigned bits = 1;
    while (max >> bits) bits++;
    return bits;
}

/* Slots for n entries, at most half full: probes cost more than the memory. */
static rp_status slots_new(uint32_t n, uint32_t **out, uint32_t *mask, rp_error *err) {
    uint64_t n_slots = 16;
    while (n_slots < (uint64_t)n * 2) n_slots *= 2;
    *out = base_alloc_array((size_t)n_slots, sizeof **out);
    if (!*out) return rp_fail(err, RP_NOMEM, "no memory for a table of %u tokens", n);
    *mask = (uint32_t)(n_slots - 1);
    return RP_OK;
}

static base_str str_at(const uint8_t *texts, uint32_t offset) {
    uint64_t len;
    memcpy(&len, texts + offset, sizeof len);
    return (base_str){(const char *)texts + offset + sizeof len, (size_t)len};
}

static bool same(base_str a, const char *p, size_t len) {
    return a.len == len && memcmp(a.ptr, p, len) == 0;
}

rp_status model_vocab_init(model_vocab *v, const model_gguf *g, rp_error *err) {
    model_kv_array tokens, merges, kinds;
    const char *path = model_gguf_path(g);
    *v = (model_vocab){.path = path};
    RP_TRY(model_gguf_array(g, "tokenizer.ggml.tokens", MODEL_KV_STR, &tokens, err));
    RP_TRY(model_gguf_array(g, "tokenizer.ggml.merges", MODEL_KV_STR, &merges, err));
    if (tokens.n == 0 || tokens.n >= (1u << MAX_ID_BITS) || merges.n >= (1u << MAX_ID_BITS))
        return rp_fail(err, RP_CORRUPT, "%s: %zu tokens and %zu merges, expected 1 to 2^24 - 1",
                       path, tokens.n, merges.n);
    if (tokens.size >= (1u << MAX_OFFSET_BITS) || merges.size >= (1u << MAX_OFFSET_BITS))
        return rp_fail(err, RP_CORRUPT, "%s: tokenizer texts of 1 GiB or more", path);
    if (model_gguf_has(g, "tokenizer.ggml.token_type")) {
        RP_TRY(model_gguf_array(g, "tokenizer.ggml.token_type", MODEL_KV_I32, &kinds, err));
        if (kinds.n != tokens.n)
            return rp_fail(err, RP_CORRUPT, "%s: %zu tokens, but %zu token types", path, tokens.n,
                           kinds.n);
        v->kinds = kinds.data;
    }
    v->n_tokens = (uint32_t)tokens.n;
    v->texts = tokens.data;
    v->n_merges = (uint32_t)merges.n;
    v->merges = merges.data;
    v->id_bits = bits_for(tokens.n);
    v->merge_bits = bits_for(merges.size);
    v->offsets = base_alloc_array(tokens.n, sizeof *v->offsets);
    if (!v->offsets) return rp_fail(err, RP_NOMEM, "no memory for %zu tokens", tokens.n);
    uint32_t at = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        v->offsets[i] = at;
        at += 8 + (uint32_t)str_at(v->texts, at).len; /* checked when the file was opened */
    }
    return RP_OK;
}

void model_vocab_done(model_vocab *v) {
    base_free(v->offsets);
    base_free(v->slots);
    base_free(v->merge_slots);
    *v = (model_vocab){0};
}

base_str model_vocab_text(const model_vocab *v, uint32_t id) {
    assert(id < v->n_tokens);
    return str_at(v->texts, v->offsets[id]);
}

model_token_kind model_vocab_kind(const model_vocab *v, uint32_t id) {
    int32_t kind = MODEL_TOKEN_NORMAL;
    assert(id < v->n_tokens);
    if (v->kinds) memcpy(&kind, v->kinds + (size_t)id * sizeof kind, sizeof kind);
    return kind >= MODEL_TOKEN_NORMAL && kind <= MODEL_TOKEN_BYTE ? (model_token_kind)kind
                                                                  : MODEL_TOKEN_NORMAL;
}

static uint32_t tag_of(uint64_t hash, unsigned bits) {
    return (uint32_t)(hash >> 32) >> bits << bits;
}

/* The slot that text is in or belongs to. */
static uint32_t token_slot(const model_vocab *v, const char *text, size_t len, uint64_t hash) {
    uint32_t i = (uint32_t)hash & v->mask, tag = tag_of(hash, v->id_bits);
    const uint32_t id_mask = (1u << v->id_bits) - 1;
    for (;; i = (i + 1) & v->mask) {
        uint32_t slot = v->slots[i];
        if (slot == 0) return i;
        if ((slot & ~id_mask) != tag) continue;
        if (same(model_vocab_text(v, (slot & id_mask) - 1), text, len)) return i;
    }
}

static uint32_t merge_slot(const model_vocab *v, const char *pair, size_t len, uint64_t hash) {
    uint32_t i = (uint32_t)hash & v->merge_mask, tag = tag_of(hash, v->merge_bits);
    const uint32_t at_mask = (1u << v->merge_bits) - 1;
    for (;; i = (i + 1) & v->merge_mask) {
        uint32_t slot = v->merge_slots[i];
        if (slot == 0) return i;
        if ((slot & ~at_mask) != tag) continue;
        if (same(str_at(v->merges, (slot & at_mask) - 1), pair, len)) return i;
    }
}

static rp_status tokens_index(model_vocab *v, rp_error *err) {
    RP_TRY(slots_new(v->n_tokens, &v->slots, &v->mask, err));
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        base_str s = model_vocab_text(v, id);
        uint64_t hash = base_hash64(s.ptr, s.len);
        uint32_t i = token_slot(v, s.ptr, s.len, hash);
        if (v->slots[i] != 0) {
            if (model_vocab_kind(v, id) == MODEL_TOKEN_UNUSED) continue;
            /* The label may be all question marks: the ids say which. */
            return rp_fail(err, RP_CORRUPT,
                           "%s: tokens %u and %u have the same text '%s': the file is damaged, "
                           "fetch it again",
                           v->path, (v->slots[i] & ((1u << v->id_bits) - 1)) - 1, id,
                           model_label_of(s).text);
        }
        v->slots[i] = tag_of(hash, v->id_bits) | (id + 1);
    }
    return RP_OK;
}

static rp_status merges_index(model_vocab *v, rp_error *err) {
    uint32_t at = 0;
    RP_TRY(slots_new(v->n_merges, &v->merge_slots, &v->merge_mask, err));
    v->max_merge = 0;
    for (uint32_t rank = 0; rank < v->n_merges; rank++) {
        base_str s = str_at(v->merges, at);
        uint64_t hash = base_hash64(s.ptr, s.len);
        uint32_t i = merge_slot(v, s.ptr, s.len, hash);
        /* of two equal merges the first counts */
        if (v->merge_slots[i] == 0) v->merge_slots[i] = tag_of(hash, v->merge_bits) | (at + 1);
        if (s.len > v->max_merge) v->max_merge = (uint32_t)s.len;
        at += 8 + (uint32_t)s.len;
    }
    return RP_OK;
}

rp_status model_vocab_index(model_vocab *v, rp_error *err) {
    rp_status st = v->slots ? RP_OK : tokens_index(v, err);
    if (st == RP_OK && !v->merge_slots) st = merges_index(v, err);
    if (st == RP_OK) return RP_OK;
    base_free(v->slots);
    base_free(v->merge_slots);
    v->slots = v->merge_slots = NULL;
    return st;
}

uint32_t model_vocab_find(const model_vocab *v, const char *text, size_t len) {
    assert(v->slots); /* model_vocab_index came first */
    uint32_t slot = v->slots[token_slot(v, text, len, base_hash64(text, len))];
    return slot == 0 ? MODEL_NO_ID : (slot & ((1u << v->id_bits) - 1)) - 1;
}

uint32_t model_vocab_merge(const model_vocab *v, const char *pair, size_t len) {
    assert(v->merge_slots);
    if (len > v->max_merge) return MODEL_NO_ID;
    uint32_t slot = v->merge_slots[merge_slot(v, pair, len, base_hash64(pair, len))];
    /* merges lie in order of rank, so the place in the file serves as rank */
    return slot == 0 ? MODEL_NO_ID : (slot & ((1u << v->merge_bits) - 1)) - 1;
}

/* Printable bytes stand for themselves, the other 68 for U+0100 onwards in order. */
static bool byte_is_itself(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t model_byte_to_char(uint8_t byte) {
    if (byte_is_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xa0) return 0x121u + (byte - 0x7fu);
    return 0x143u; /* 0xad */
}

int model_char_to_byte(uint32_t c) {
    if (c < 0x100) return byte_is_itself(c) ? (int)c : -1;
    if (c <= 0x120) return (int)(c - 0x100);
    if (c <= 0x142) return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}
