/* Incremental detokeniser. A token may end inside of a character; what it began is kept until
 * the next token completes or breaks it. Equal to decoding all ids at once and replacing bad
 * UTF-8 by U+FFFD, once per maximal subpart. */
#include "model/detok.h"

#include <assert.h>
#include <string.h>

#include "model/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

void model_detok_init(model_detok *d, const model_tokenizer *t, bool special) {
    *d = (model_detok){.tokenizer = t, .special = special};
    base_buf_init(&d->bytes, 0);
}

void model_detok_done(model_detok *d) {
    base_buf_done(&d->bytes);
    *d = (model_detok){0};
}

/* Characters of d->bytes that are whole, bad ones as U+FFFD; the start of one at its end is held. */
static void take_bytes(model_detok *d, base_buf *out) {
    size_t at = 0, len = 0;
    d->n_held = 0;
    while (at < d->bytes.len) {
        const char *p = d->bytes.data + at;
        switch (model_utf8_step(p, d->bytes.len - at, &len)) {
        case MODEL_UTF8_CHAR: base_buf_add(out, p, len); break;
        case MODEL_UTF8_BAD: base_buf_puts(out, REPLACEMENT); break;
        case MODEL_UTF8_INCOMPLETE: /* at most three bytes */
            assert(len < sizeof d->held && at + len == d->bytes.len);
            memcpy(d->held, p, len);
            d->n_held = len;
            break;
        }
        at += len;
    }
}

/* As a rule a token is whole characters, and they stay where they are written. */
static rp_status push_whole(model_detok *d, uint32_t id, base_buf *out, rp_error *err) {
    const size_t before = out->len;
    RP_TRY(model_tokenizer_bytes(d->tokenizer, id, d->special, out, err));
    const size_t n = out->len - before;
    if (n == 0 || model_utf8_valid(out->data + before, n) == n) return RP_OK;
    base_buf_clear(&d->bytes);
    base_buf_add(&d->bytes, out->data + before, n);
    out->data[out->len = before] = 0;
    RP_TRY(base_buf_status(&d->bytes, err));
    take_bytes(d, out);
    return base_buf_status(out, err);
}

rp_status model_detok_push(model_detok *d, uint32_t id, base_buf *out, rp_error *err) {
    if (d->n_held == 0) return push_whole(d, id, out, err);
    base_buf_clear(&d->bytes);
    base_buf_add(&d->bytes, d->held, d->n_held);
    RP_TRY(model_tokenizer_bytes(d->tokenizer, id, d->special, &d->bytes, err));
    take_bytes(d, out);
    return base_buf_status(out, err);
}

rp_status model_detok_flush(model_detok *d, base_buf *out, rp_error *err) {
    if (d->n_held > 0) base_buf_puts(out, REPLACEMENT);
    d->n_held = 0;
    return base_buf_status(out, err);
}
