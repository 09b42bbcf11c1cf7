/* UTF-8: one step over a character or over what is not one. */
#ifndef MODEL_UTF8_H
#define MODEL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum model_utf8_kind {
    MODEL_UTF8_CHAR,      /* a whole character */
    MODEL_UTF8_BAD,       /* bytes that no continuation can make a character */
    MODEL_UTF8_INCOMPLETE /* the text ends inside of a character */
} model_utf8_kind;

/* Looks at p[0..n), n > 0. *out_len is the length of the character, or of the bad bytes that one
 * U+FFFD replaces (Unicode's maximal subpart), or n. Surrogates, overlong forms and values above
 * U+10FFFF are bad. */
model_utf8_kind model_utf8_step(const char *p, size_t n, size_t *out_len);
/* Bytes from p on, of n, that are characters of ASCII. */
size_t model_utf8_ascii(const char *p, size_t n);
/* Length of the longest valid prefix. */
size_t model_utf8_valid(const char *p, size_t n);
/* The character at p, which must be whole; *out_len is its length. */
uint32_t model_utf8_get(const char *p, size_t *out_len);
/* Writes c < 0x800 (all that the byte alphabet needs); returns 1 or 2. */
size_t model_utf8_put(uint32_t c, char *p);

#endif
