/* Words, names, numbers, sizes and types of the text form, with line-numbered errors.
 *
 * Works on a NUL-terminated copy; every token is bounded and nothing is kept between calls but the
 * position. Grammar above the level of types is in parse.c. */
#include "ir/lex.h"

#include <math.h>
#include <string.h>

#include "ir/text.h"

bool ir_float_parse(const char *s, size_t n, double *out) {
    char buf[80];
    bool negative = n > 0 && s[0] == '-';
    if (n == 0 || n >= sizeof buf) return false;
    memcpy(buf, s, n);
    buf[n] = 0;
    if (strcmp(buf, "nan") == 0)
        *out = (double)NAN;
    else if (strcmp(buf + negative, "inf") == 0)
        *out = negative ? -(double)INFINITY : (double)INFINITY;
    else
        return base_parse_f64(buf, out);
    return true;
}

rp_status ir_read_fail(const ir_reader *s, const char *at, rp_status code, const char *fmt, ...) {
    unsigned line = 1;
    va_list ap;
    base_buf b;
    for (const char *q = s->text; q < at; q++) line += *q == '\n';
    base_buf_init(&b, 0);
    va_start(ap, fmt);
    base_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    rp_status st = rp_fail(s->err, code, "line %u: %s%s%s", line, s->op ? s->op : "",
                           s->op ? ": " : "", b.data ? b.data : "out of memory");
    base_buf_done(&b);
    return st;
}

#define FAIL(...) ir_read_fail(s, s->p, RP_INVALID, __VA_ARGS__)

void ir_read_skip(ir_reader *s) {
    for (;; s->p++) {
        if (*s->p == ';') s->p += strcspn(s->p, "\n");
        if (*s->p == 0 || !strchr(" \t\n\r\v\f", *s->p)) return;
    }
}

bool ir_read_accept(ir_reader *s, char c) {
    ir_read_skip(s);
    if (*s->p != c) return false;
    s->p++;
    return true;
}

rp_status ir_read_expect(ir_reader *s, char c) {
    if (ir_read_accept(s, c)) return RP_OK;
    if (*s->p == 0) return FAIL("expected '%c', found the end", c);
    if (*s->p > 32 && *s->p < 127) return FAIL("expected '%c', found '%c'", c, *s->p);
    return FAIL("expected '%c', found byte 0x%02x", c, (unsigned char)*s->p);
}

rp_status ir_read_word(ir_reader *s, const char *what, char out[64]) {
    size_t n = 0;
    ir_read_skip(s);
    while (ir_word_char(s->p[n])) n++;
    if (n == 0 || n > 63) return FAIL("expected %s", what);
    memcpy(out, s->p, n);
    out[n] = 0;
    s->p += n;
    return RP_OK;
}

rp_status ir_read_name(ir_reader *s, char sigil, char out[IR_MAX_NAME + 1]) {
    size_t n = 0;
    RP_TRY(ir_read_expect(s, sigil));
    while (ir_name_char(s->p[n])) n++;
    if (n == 0 || n > IR_MAX_NAME)
        return FAIL("expected a name of 1 to 255 letters, digits and _ . - /");
    memcpy(out, s->p, n);
    out[n] = 0;
    s->p += n;
    return RP_OK;
}

rp_status ir_read_integer(ir_reader *s, int64_t *out) {
    char buf[24];
    size_t n = 0;
    ir_read_skip(s);
    n += *s->p == '-';
    while (ir_digit(s->p[n])) n++;
    if (n < sizeof buf) {
        memcpy(buf, s->p, n);
        buf[n] = 0;
        if (base_parse_i64(buf, out)) {
            s->p += n;
            return RP_OK;
        }
    }
    return FAIL("expected an integer of 64 bits");
}

rp_status ir_read_number(ir_reader *s, double *out) {
    size_t n = 0;
    ir_read_skip(s);
    const char *p = s->p;
    bool hex = strncmp(p + (*p == '-'), "0x", 2) == 0;
    while (ir_word_char(p[n]) || p[n] == '.' ||
           ((p[n] == '-' || p[n] == '+') && (n == 0 || strchr(hex ? "pP" : "eE", p[n - 1]))))
        n++;
    if (!ir_float_parse(p, n, out)) return FAIL("expected a number (0x1.8p+1, 3, -0.5, inf, nan)");
    s->p += n;
    return RP_OK;
}

/* A size; line numbers come from here, the text from the dim reader. */
rp_status ir_read_dim(ir_reader *s, ir_dim *out) {
    rp_error e = {0};
    ir_read_skip(s);
    rp_status st = ir_dim_parse(ir_graph_dims(s->g), &s->p, out, &e);
    return st == RP_OK ? st : ir_read_fail(s, s->p, st, "%s", e.text);
}

rp_status ir_read_dims(ir_reader *s, char end, ir_dim *out, uint32_t *n) {
    *n = 0;
    if (ir_read_accept(s, end)) return RP_OK;
    do {
        if (*n == IR_MAX_RANK) return FAIL("a tensor has at most 6 axes");
        RP_TRY(ir_read_dim(s, &out[(*n)++]));
    } while (ir_read_accept(s, ','));
    return ir_read_expect(s, end);
}

rp_status ir_read_dtype(ir_reader *s, rp_dtype *out) {
    char w[64];
    RP_TRY(ir_read_word(s, "an element type", w));
    if (rp_dtype_parse(w, out)) return RP_OK;
#define KNOWN(id, text, bytes, block) " " text
    return FAIL("unknown element type '%s'; known:" RP_DTYPE_LIST(KNOWN), w);
#undef KNOWN
}

rp_status ir_read_type(ir_reader *s, rp_dtype *t, ir_shape *shape) {
    *shape = (ir_shape){0};
    RP_TRY(ir_read_dtype(s, t));
    RP_TRY(ir_read_expect(s, '['));
    return ir_read_dims(s, ']', shape->dim, &shape->rank);
}
