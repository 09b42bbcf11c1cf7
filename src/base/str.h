/* Borrowed string views and a growing text buffer. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Borrowed bytes, not NUL-terminated. */
typedef struct base_str {
    const char *ptr;
    size_t len;
} base_str;

base_str base_str_of(const char *z); /* NULL gives an empty view */
bool base_str_eq(base_str a, const char *z);
bool base_str_prefix(base_str s, const char *z);
/* Whether two words, or their first n bytes, differ in the case of ASCII letters at most, whatever the locale. */
bool base_same_word(const char *a, const char *b);
bool base_same_start(const char *a, const char *b, size_t n);

/* Growing bytes with a ceiling. A failed append sets `failed` and later appends do
 * nothing, so a printer checks once at the end. data is NUL-terminated when not NULL. */
typedef struct base_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max; /* 0 = no ceiling */
    bool failed;
} base_buf;

void base_buf_init(base_buf *b, size_t max);
void base_buf_done(base_buf *b);
void base_buf_clear(base_buf *b);
/* Room for n more bytes, so that adding them cannot fail; sets `failed` like an append. */
void base_buf_reserve(base_buf *b, size_t n);
void base_buf_add(base_buf *b, const void *p, size_t n);
void base_buf_puts(base_buf *b, const char *z);
void base_buf_putc(base_buf *b, char c);
void base_buf_printf(base_buf *b, const char *fmt, ...) RP_PRINTF(2, 3);
void base_buf_vprintf(base_buf *b, const char *fmt, va_list ap);
/* The bytes, owned by the caller (base_free); NULL after a failure. b is empty then. */
char *base_buf_take(base_buf *b);
/* RP_NOMEM if an append failed. */
rp_status base_buf_status(const base_buf *b, rp_error *err) RP_MUST_USE;

/* Whole-string numbers: false unless all of z is one number in range. */
bool base_parse_i64(const char *z, int64_t *out);
bool base_parse_f64(const char *z, double *out);

/* Levenshtein distance, for "did you mean". */
size_t base_str_distance(const char *a, const char *b);
/* Nearest of n names within distance 1 + len/3, the first of equals; or NULL. */
const char *base_str_nearest(const char *z, const char *const *names, size_t n);

#endif
