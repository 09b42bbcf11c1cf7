/* Byte-level BPE over one piece: a linked list of symbols and a heap of candidate merges.
 *
 * Always the merge of lowest rank, the leftmost of equals; a candidate whose symbols changed
 * since it was pushed is stale and skipped. O(n log n), so that a megabyte without a space is no
 * trap. Works on the byte alphabet's text, in which tokens and merges are stored. */
#include "model/bpe.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "model/utf8.h"

typedef struct symbol {
    uint32_t id;
    uint32_t start, len; /* in text */
    uint32_t prev, next; /* MODEL_NO_ID at the ends */
} symbol;

typedef struct candidate {
    uint32_t rank;
    uint32_t pos;         /* of the left symbol */
    uint32_t left, right; /* their ids when pushed */
    uint32_t merged;
} candidate;

struct model_bpe {
    const model_vocab *vocab;
    char *text;
    symbol *symbols;
    candidate *heap;
    char *key; /* of a merge: left, space, right */
    size_t n_symbols, n_heap;
    size_t cap; /* bytes of piece that text, symbols and heap have room for */
    uint32_t byte_ids[256];
    char byte_text[256][2];
    uint8_t byte_len[256];
};

rp_status model_ids_push(model_ids *ids, uint32_t id, rp_error *err) {
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        uint32_t *grown = base_realloc_array(ids->ids, cap, sizeof *grown);
        if (!grown) return rp_fail(err, RP_NOMEM, "no memory for %zu token ids", cap);
        ids->ids = grown;
        ids->cap = cap;
    }
    ids->ids[ids->n++] = id;
    return RP_OK;
}

void model_ids_done(model_ids *ids) {
    base_free(ids->ids);
    *ids = (model_ids){0};
}

rp_status model_bpe_new(const model_vocab *v, model_bpe **out, rp_error *err) {
    model_bpe *b = base_alloc(sizeof *b);
    if (!b) return rp_fail(err, RP_NOMEM, "no memory to encode");
    b->vocab = v;
    b->key = base_alloc((size_t)v->max_merge + 1);
    if (!b->key) {
        base_free(b);
        return rp_fail(err, RP_NOMEM, "no memory to encode");
    }
    for (unsigned i = 0; i < 256; i++) {
        size_t len = model_utf8_put(model_byte_to_char((uint8_t)i), b->byte_text[i]);
        b->byte_len[i] = (uint8_t)len;
        b->byte_ids[i] = model_vocab_find(v, b->byte_text[i], len);
    }
    *out = b;
    return RP_OK;
}

void model_bpe_free(model_bpe *b) {
    if (!b) return;
    base_free(b->text);
    base_free(b->symbols);
    base_free(b->heap);
    base_free(b->key);
    base_free(b);
}

/* Room for a piece of n bytes: each merge takes one symbol away and adds two candidates. */
static rp_status reserve(model_bpe *b, size_t n, rp_error *err) {
    if (n <= b->cap) return RP_OK;
    if (n > (1u << 29)) return rp_fail(err, RP_INVALID, "a text of %zu bytes is too long", n);
    size_t cap = n < 64 ? 64 : n + n / 2;
    base_free(b->text);
    base_free(b->symbols);
    base_free(b->heap);
    b->cap = 0;
    b->text = base_alloc_array(cap, 2);
    b->symbols = base_alloc_array(cap, sizeof *b->symbols);
    b->heap = base_alloc_array(cap, 3 * sizeof *b->heap);
    if (!b->text || !b->symbols || !b->heap)
        return rp_fail(err, RP_NOMEM, "no memory to encode a word of %zu bytes", n);
    b->cap = cap;
    return RP_OK;
}

static bool before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

static void heap_push(model_bpe *b, candidate c) {
    assert(b->n_heap < 3 * b->cap);
    size_t i = b->n_heap++;
    while (i > 0 && before(&c, &b->heap[(i - 1) / 2])) {
        b->heap[i] = b->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    b->heap[i] = c;
}

static candidate heap_pop(model_bpe *b) {
    candidate top = b->heap[0], last = b->heap[--b->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < b->n_heap) {
        if (child + 1 < b->n_heap && before(&b->heap[child + 1], &b->heap[child])) child++;
        if (!before(&b->heap[child], &last)) break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = last;
    return top;
}

/* Pushes the merge of symbol pos with its right neighbour, if there is one. */
static void offer(model_bpe *b, uint32_t pos) {
    const symbol *l = &b->symbols[pos];
    if (l->next == MODEL_NO_ID) return;
    const symbol *r = &b->symbols[l->next];
    size_t len = (size_t)l->len + r->len;
    if (len + 1 > b->vocab->max_merge) return;
    memcpy(b->key, b->text + l->start, l->len);
    b->key[l->len] = ' ';
    memcpy(b->key + l->len + 1, b->text + r->start, r->len);
    uint32_t rank = model_vocab_merge(b->vocab, b->key, len + 1);
    if (rank == MODEL_NO_ID) return;
    /* left and right touch in text */
    uint32_t merged = model_vocab_find(b->vocab, b->text + l->start, len);
    if (merged == MODEL_NO_ID) return;
    heap_push(b, (candidate){rank, pos, l->id, r->id, merged});
}

static void symbols_make(model_bpe *b, base_str piece, size_t *n_dropped) {
    size_t n = 0;
    uint32_t at = 0;
    for (size_t i = 0; i < piece.len; i++) {
        uint8_t byte = (uint8_t)piece.ptr[i];
        uint32_t len = b->byte_len[byte];
        if (b->byte_ids[byte] == MODEL_NO_ID) {
            ++*n_dropped;
            continue;
        }
        memcpy(b->text + at, b->byte_text[byte], len);
        b->symbols[n] = (symbol){b->byte_ids[byte], at, len, (uint32_t)n - 1, (uint32_t)n + 1};
        at += len;
        n++;
    }
    if (n > 0) b->symbols[n - 1].next = MODEL_NO_ID;
    b->n_symbols = n;
}

static void merge(model_bpe *b, const candidate *c) {
    symbol *l = &b->symbols[c->pos];
    symbol *r = &b->symbols[l->next];
    assert(l->start + l->len == r->start);
    l->id = c->merged;
    l->len += r->len;
    l->next = r->next;
    r->id = MODEL_NO_ID;
    if (l->next != MODEL_NO_ID) b->symbols[l->next].prev = c->pos;
    offer(b, c->pos);
    if (l->prev != MODEL_NO_ID) offer(b, l->prev);
}

rp_status model_bpe_piece(model_bpe *b, base_str piece, model_ids *out, size_t *n_dropped,
                          rp_error *err) {
    RP_TRY(reserve(b, piece.len, err));
    symbols_make(b, piece, n_dropped);
    if (b->n_symbols == 0) return RP_OK;
    b->n_heap = 0;
    for (uint32_t i = 0; i < b->n_symbols; i++) offer(b, i);
    while (b->n_heap > 0) {
        candidate c = heap_pop(b);
        const symbol *l = &b->symbols[c.pos];
        if (l->id != c.left || l->next == MODEL_NO_ID) continue;
        if (b->symbols[l->next].id != c.right) continue;
        merge(b, &c);
    }
    for (uint32_t i = 0; i != MODEL_NO_ID; i = b->symbols[i].next)
        RP_TRY(model_ids_push(out, b->symbols[i].id, err));
    return RP_OK;
}
