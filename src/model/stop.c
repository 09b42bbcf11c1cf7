/* Stop strings over a stream: the stream ends as soon as one is complete, wherever another may
 * have begun before it. What is held back is the longest end of the text so far that is
 * the start of some stop string, so it is always shorter than the longest of them. */
#include <string.h>

#include "model/detok.h"
#include "model/utf8.h"

rp_status model_stop_init(model_stop *s, const char *const *strings, size_t n, rp_error *err) {
    *s = (model_stop){.strings = strings, .n_strings = n};
    base_buf_init(&s->held, 0);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(strings[i]);
        if (len == 0)
            return rp_fail(err, RP_CONFIG, "stop string %zu is empty: leave it out", i + 1);
        if (model_utf8_valid(strings[i], len) != len)
            return rp_fail(err, RP_CONFIG, "stop string %zu is not valid UTF-8", i + 1);
        if (len > s->max_len) s->max_len = len;
    }
    return RP_OK;
}

void model_stop_done(model_stop *s) {
    base_buf_done(&s->held);
    *s = (model_stop){0};
}

/* First place in text where a stop string lies whole or, with partial, where the text ends inside
 * of one; n when there is none. */
static size_t stop_find(model_stop *s, const char *text, size_t n, bool partial) {
    for (size_t at = 0; at < n; at++) {
        for (size_t i = 0; i < s->n_strings; i++) {
            size_t len = strlen(s->strings[i]), left = n - at;
            if (len > left && !partial) continue;
            if (memcmp(text + at, s->strings[i], len < left ? len : left) != 0) continue;
            s->which = i;
            return at;
        }
    }
    return n;
}

rp_status model_stop_push(model_stop *s, base_str text, base_buf *out, rp_error *err) {
    if (s->hit || text.len == 0) return RP_OK;
    if (s->n_strings == 0) {
        base_buf_add(out, text.ptr, text.len);
        return base_buf_status(out, err);
    }
    base_buf_add(&s->held, text.ptr, text.len);
    RP_TRY(base_buf_status(&s->held, err));
    size_t n = s->held.len, at = stop_find(s, s->held.data, n, false);
    s->hit = at < n;
    if (!s->hit) at = stop_find(s, s->held.data, n, true);
    base_buf_add(out, s->held.data, at);
    size_t kept = s->hit ? 0 : n - at;
    if (kept > 0) memmove(s->held.data, s->held.data + at, kept);
    s->held.len = kept;
    return base_buf_status(out, err);
}

rp_status model_stop_flush(model_stop *s, base_buf *out, rp_error *err) {
    if (!s->hit) base_buf_add(out, s->held.data, s->held.len);
    base_buf_clear(&s->held);
    return base_buf_status(out, err);
}
