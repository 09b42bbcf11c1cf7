/* UTF-8 by table 3-7 of the Unicode standard: a lead byte fixes the length and the range of the
 * second byte, which excludes overlong forms and surrogates. */
#include "model/utf8.h"

#include <string.h>

/* Length of a character by its lead byte, 0 for a byte that leads none. */
static size_t lead_len(uint8_t b) {
    if (b < 0x80) return 1;
    if (b < 0xc2) return 0;
    if (b < 0xe0) return 2;
    if (b < 0xf0) return 3;
    return b < 0xf5 ? 4 : 0;
}

static bool second_fits(uint8_t lead, uint8_t b) {
    uint8_t lo = 0x80, hi = 0xbf;
    if (lead == 0xe0) lo = 0xa0;
    if (lead == 0xed) hi = 0x9f;
    if (lead == 0xf0) lo = 0x90;
    if (lead == 0xf4) hi = 0x8f;
    return b >= lo && b <= hi;
}

model_utf8_kind model_utf8_step(const char *p, size_t n, size_t *out_len) {
    const uint8_t *b = (const uint8_t *)p;
    size_t len = lead_len(b[0]);
    *out_len = 1;
    if (len == 0) return MODEL_UTF8_BAD;
    for (size_t i = 1; i < len; i++) {
        *out_len = i;
        if (i == n) return MODEL_UTF8_INCOMPLETE;
        if (i == 1 ? !second_fits(b[0], b[1]) : (b[i] & 0xc0) != 0x80) return MODEL_UTF8_BAD;
    }
    *out_len = len;
    return MODEL_UTF8_CHAR;
}

size_t model_utf8_ascii(const char *p, size_t n) {
    size_t at = 0;
    for (uint64_t eight; n - at >= sizeof eight; at += sizeof eight) {
        memcpy(&eight, p + at, sizeof eight);
        if (eight & 0x8080808080808080u) break;
    }
    while (at < n && !(p[at] & 0x80)) at++;
    return at;
}

size_t model_utf8_valid(const char *p, size_t n) {
    size_t at = model_utf8_ascii(p, n), len;
    while (at < n && model_utf8_step(p + at, n - at, &len) == MODEL_UTF8_CHAR) {
        at += len;
        at += model_utf8_ascii(p + at, n - at);
    }
    return at;
}

uint32_t model_utf8_get(const char *p, size_t *out_len) {
    const uint8_t *b = (const uint8_t *)p;
    size_t len = lead_len(b[0]);
    uint32_t c = b[0];
    if (len > 1) c &= 0x7fu >> len;
    for (size_t i = 1; i < len; i++) c = c << 6 | (b[i] & 0x3fu);
    *out_len = len;
    return c;
}

size_t model_utf8_put(uint32_t c, char *p) {
    if (c < 0x80) {
        p[0] = (char)c;
        return 1;
    }
    p[0] = (char)(0xc0 | c >> 6);
    p[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}
