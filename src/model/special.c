/* Finds special tokens by first byte, then longest first; there are few of them, and the bytes
 * that start one are rare in text. */
#include "model/special.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

rp_status model_specials_add(model_specials *s, base_str text, uint32_t id, model_token_kind kind,
                             rp_error *err) {
    if (text.len == 0) return RP_OK;
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 32;
        model_special_token *grown = base_realloc_array(s->tokens, cap, sizeof *grown);
        if (!grown) return rp_fail(err, RP_NOMEM, "no memory for %zu special tokens", cap);
        s->tokens = grown;
        s->cap = cap;
    }
    s->tokens[s->n++] = (model_special_token){text, id, kind};
    return RP_OK;
}

static int special_order(const void *pa, const void *pb) {
    const model_special_token *a = pa, *b = pb;
    unsigned char ca = (unsigned char)a->text.ptr[0], cb = (unsigned char)b->text.ptr[0];
    if (ca != cb) return ca < cb ? -1 : 1;
    if (a->text.len != b->text.len) return a->text.len > b->text.len ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void model_specials_sort(model_specials *s) {
    if (s->n > 1) qsort(s->tokens, s->n, sizeof *s->tokens, special_order);
    size_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        s->first[b] = (uint32_t)i;
        while (i < s->n && (unsigned char)s->tokens[i].text.ptr[0] == b) i++;
    }
    s->first[256] = (uint32_t)s->n;
}

void model_specials_done(model_specials *s) {
    base_free(s->tokens);
    *s = (model_specials){0};
}

const model_special_token *model_specials_find(const model_specials *s, base_str text, size_t at,
                                               bool parse, size_t *out_at) {
    if (s->n == 0) return NULL;
    for (; at < text.len; at++) {
        unsigned char b = (unsigned char)text.ptr[at];
        for (uint32_t i = s->first[b]; i < s->first[b + 1]; i++) {
            const model_special_token *t = &s->tokens[i];
            if (t->text.len > text.len - at) continue;
            if (!parse && t->kind != MODEL_TOKEN_USER) continue;
            if (memcmp(t->text.ptr, text.ptr + at, t->text.len) != 0) continue;
            *out_at = at;
            return t;
        }
    }
    return NULL;
}
