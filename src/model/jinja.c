/* Recognises ChatML among Jinja templates by structure, not by the words in it: a template that
 * does anything more is refused, since applying a similar one would change what the model sees
 * without a word. Not a Jinja interpreter.
 *
 * The canonical form is a string of tags: `{%...%}` and `{{...}}` without blanks, strings in
 * single quotes with their escapes resolved and framed by \x01 and \x02. */
#include "model/jinja.h"

#include <string.h>

#define OPEN '\x01'
#define CLOSE '\x02'

/* A position in the source. */
typedef struct reader {
    const char *p, *end;
} reader;

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The string literal at r, resolved. */
static bool string_canon(reader *r, base_buf *out) {
    char quote = *r->p++;
    base_buf_putc(out, OPEN);
    for (; r->p < r->end && *r->p != quote; r->p++) {
        char c = *r->p;
        if (c == '\\') {
            if (++r->p == r->end) return false;
            c = *r->p;
            if (c == 'n')
                c = '\n';
            else if (c == 't')
                c = '\t';
            else if (c == 'r')
                c = '\r';
            else if (c != '\\' && c != '\'' && c != '"')
                return false;
        }
        if (c == OPEN || c == CLOSE) return false;
        base_buf_putc(out, c);
    }
    if (r->p == r->end) return false;
    r->p++;
    base_buf_putc(out, CLOSE);
    return true;
}

/* 'a' + 'b' is 'ab'. */
static void join_strings(base_buf *out, size_t from) {
    static const char seam[] = {CLOSE, '+', OPEN};
    size_t w = from;
    for (size_t i = from; i < out->len;) {
        if (out->len - i >= sizeof seam && memcmp(out->data + i, seam, sizeof seam) == 0)
            i += sizeof seam;
        else
            out->data[w++] = out->data[i++];
    }
    out->len = w;
}

/* The tag at r, from its brace to behind its end. *trims: how its end treats blanks after it. */
static bool tag_canon(reader *r, base_buf *out) {
    char kind = r->p[1], end = kind == '{' ? '}' : '%';
    size_t from = out->len;
    if (kind != '{' && kind != '%') return false;
    base_buf_putc(out, '{');
    base_buf_putc(out, kind);
    r->p += 2;
    if (r->p < r->end && *r->p == '-') r->p++;
    while (r->end - r->p >= 2 && !(r->p[0] == end && r->p[1] == '}')) {
        if (r->end - r->p >= 3 && r->p[0] == '-' && r->p[1] == end && r->p[2] == '}') {
            r->p++;
            break;
        }
        if (*r->p == '\'' || *r->p == '"') {
            if (!string_canon(r, out)) return false;
            continue;
        }
        if (*r->p == OPEN || *r->p == CLOSE) return false;
        if (!blank(*r->p)) base_buf_putc(out, *r->p);
        r->p++;
    }
    if (r->end - r->p < 2) return false;
    r->p += 2;
    base_buf_putc(out, end);
    base_buf_putc(out, '}');
    join_strings(out, from);
    return true;
}

/* Whether the blanks [p, q) between two tags vanish: next to a dash, or a newline behind a
 * statement with the indentation of a statement (trim_blocks and lstrip_blocks are on). */
static bool blanks_vanish(const char *start, const char *p, const char *q, const char *end) {
    if (p == q) return true;
    for (const char *c = p; c < q; c++)
        if (!blank(*c)) return false;
    if (q == end) return p > start && p[-2] == '%' && q - p == 1;
    if (p - start >= 3 && p[-3] == '-') return true;
    if (end - q >= 3 && q[2] == '-') return true;
    bool after_statement = p > start && p[-2] == '%', before_statement = q[1] == '%';
    if (after_statement && *p == '\n') p++;
    if (before_statement)
        while (q > p && q[-1] != '\n') q--;
    return p == q;
}

bool model_jinja_canon(base_str source, base_buf *canon) {
    reader r = {source.ptr, source.ptr + source.len};
    while (r.p < r.end) {
        const char *p = r.p;
        while (r.end - r.p >= 2 && *r.p != '{') r.p++;
        if (r.end - r.p < 2) r.p = r.end;
        if (!blanks_vanish(source.ptr, p, r.p, r.end)) return false;
        if (r.p < r.end && !tag_canon(&r, canon)) return false;
    }
    return !canon->failed;
}

static bool skip(base_str *s, const char *z) {
    if (!base_str_prefix(*s, z)) return false;
    s->ptr += strlen(z);
    s->len -= strlen(z);
    return true;
}

/* {{'<|im_start|>system\nX<|im_end|>\n'}}: *system is X. */
static bool skip_system(base_str *s, base_str *system) {
    static const char tail[] = "<|im_end|>\n\x02}}{%endif%}";
    const size_t tail_len = sizeof tail - 1;
    if (!skip(s, "{{\x01<|im_start|>system\n")) return false;
    for (size_t i = 0; i + tail_len <= s->len && s->ptr[i] != CLOSE; i++) {
        if (memcmp(s->ptr + i, tail, tail_len) != 0) continue;
        *system = (base_str){s->ptr, i};
        s->ptr += i + tail_len;
        s->len -= i + tail_len;
        return true;
    }
    return false;
}

bool model_jinja_is_chatml(base_str s, base_str *system) {
    base_str found = {NULL, 0};
    /* some templates set the flag first, which changes nothing when it is given */
    (void)skip(&s, "{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}"
                   "{%endif%}");
    if (!skip(&s, "{%formessageinmessages%}")) return false;
    if (skip(&s, "{%ifloop.firstandmessages[0][\x01role\x02]!=\x01system\x02%}") &&
        !skip_system(&s, &found))
        return false;
    if (!skip(&s, "{{\x01<|im_start|>\x02+message[\x01role\x02]+\x01\n\x02+"
                  "message[\x01"
                  "content\x02]+\x01<|im_end|>\n\x02}}") &&
        !skip(&s, "{{(\x01<|im_start|>\x02+message[\x01role\x02]+\x01\n\x02+"
                  "message[\x01"
                  "content\x02]+\x01<|im_end|>\n\x02)}}"))
        return false;
    if (!skip(&s, "{%endfor%}")) return false;
    (void)skip(&s, "{%ifadd_generation_prompt%}{{\x01<|im_start|>assistant\n\x02}}{%endif%}");
    if (s.len != 0) return false;
    *system = found;
    return true;
}
