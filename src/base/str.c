/* String views, the growing buffer, numbers and edit distance.
 * A buffer that failed stays failed until cleared. */
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

base_str base_str_of(const char *z) {
    return (base_str){z, z ? strlen(z) : 0};
}

bool base_str_eq(base_str a, const char *z) {
    size_t n = strlen(z);
    return a.len == n && (n == 0 || memcmp(a.ptr, z, n) == 0);
}

bool base_str_prefix(base_str s, const char *z) {
    size_t n = strlen(z);
    return s.len >= n && (n == 0 || memcmp(s.ptr, z, n) == 0);
}

static int lower(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool base_same_start(const char *a, const char *b, size_t n) {
    size_t i = 0;
    while (i < n && a[i] && lower(a[i]) == lower(b[i])) i++;
    return i == n || lower(a[i]) == lower(b[i]);
}

bool base_same_word(const char *a, const char *b) {
    return base_same_start(a, b, SIZE_MAX);
}

void base_buf_init(base_buf *b, size_t max) {
    *b = (base_buf){.max = max};
}

void base_buf_done(base_buf *b) {
    base_free(b->data);
    *b = (base_buf){.max = b->max};
}

void base_buf_clear(base_buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

static bool has_room(const base_buf *b, size_t n) {
    return !b->failed && b->cap > b->len && n < b->cap - b->len &&
           (b->max == 0 || n <= b->max - b->len);
}

/* Room for n more bytes and the NUL. */
static bool reserve(base_buf *b, size_t n) {
    size_t need;
    if (b->failed) return false;
    b->failed = true;
    if (!base_add_size(b->len, n, &need) || (b->max && need > b->max)) return false;
    if (!base_add_size(need, 1, &need)) return false;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap < need) {
            if (!base_mul_size(cap, 2, &cap)) return false;
        }
        char *data = base_realloc_array(b->data, cap, 1);
        if (!data) return false;
        b->data = data;
        b->cap = cap;
    }
    b->failed = false;
    return true;
}

void base_buf_reserve(base_buf *b, size_t n) {
    (void)reserve(b, n);
}

void base_buf_add(base_buf *b, const void *p, size_t n) {
    if (!has_room(b, n) && !reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void base_buf_puts(base_buf *b, const char *z) {
    base_buf_add(b, z, strlen(z));
}

void base_buf_putc(base_buf *b, char c) {
    base_buf_add(b, &c, 1);
}

void base_buf_vprintf(base_buf *b, const char *fmt, va_list ap) {
    if (!reserve(b, 0)) return;
    va_list again;
    va_copy(again, ap);
    size_t room = b->cap - b->len;
    int n = base_vsnprintf(b->data + b->len, room, fmt, ap);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n >= room || (b->max && b->len + (size_t)n > b->max)) {
        b->data[b->len] = 0;
        if (reserve(b, (size_t)n))
            (void)base_vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    }
    if (!b->failed) b->len += (size_t)n;
    b->data[b->len] = 0;
    va_end(again);
}

void base_buf_printf(base_buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    base_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

char *base_buf_take(base_buf *b) {
    char *data = NULL;
    if (reserve(b, 0)) {
        data = b->data;
        data[b->len] = 0;
        b->data = NULL;
    }
    base_buf_done(b);
    return data;
}

rp_status base_buf_status(const base_buf *b, rp_error *err) {
    if (!b->failed) return RP_OK;
    if (b->max) return rp_fail(err, RP_NOMEM, "text does not fit in %zu bytes", b->max);
    return rp_fail(err, RP_NOMEM, "out of memory for a text of more than %zu bytes", b->len);
}

bool base_parse_i64(const char *z, int64_t *out) {
    bool negative = *z == '-';
    if (*z == '-' || *z == '+') z++;
    if (!*z) return false;
    int64_t v = 0; /* kept negative: INT64_MIN has no positive twin */
    for (; *z; z++) {
        if (*z < '0' || *z > '9') return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *z - '0', &v))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, v, &v)) return false;
    *out = v;
    return true;
}

bool base_parse_f64(const char *z, double *out) {
    if (!*z || strchr(" \t\n\v\f\r", *z)) return false;
    char *end;
    double v = base_strtod(z, &end);
    if (end == z || *end || !isfinite(v)) return false;
    *out = v;
    return true;
}

size_t base_str_distance(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    size_t *row = base_alloc_array(nb + 1, sizeof *row);
    if (!row) return na > nb ? na : nb;
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    size_t distance = row[nb];
    base_free(row);
    return distance;
}

const char *base_str_nearest(const char *z, const char *const *names, size_t n) {
    enum { LONGEST = 128 }; /* a longer word is no misspelt name, and the distance is quadratic */
    const char *best = NULL;
    size_t len = strlen(z);
    if (len > LONGEST) return NULL;
    size_t limit = 1 + len / 3;
    for (size_t i = 0; i < n; i++) {
        size_t d = base_str_distance(z, names[i]);
        if (d > limit) continue;
        best = names[i];
        limit = d ? d - 1 : 0;
        if (d == 0) break;
    }
    return best;
}
