/* A compiler reads the whole head of every unit before it meets the first kernel, and keeps each function until it knows that
 * nobody calls it. Most kernels call few of them.
 *
 * The head is cut into pieces: a function or a struct each, and the text between two. Names are compared as words, so a comment
 * or a macro that names one keeps it: too much may stay, never too little. */
#include "gen/trim.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

typedef struct piece {
    base_str text;
    bool wanted;
    uint32_t next; /* piece of the same name (under another #if, a specialisation), 0: none */
} piece;

enum { SEEN_BITS = 1024 };

typedef struct trimmer {
    piece *pieces;
    uint32_t n, cap;
    uint32_t *todo; /* wanted pieces whose words were not looked at */
    uint32_t n_todo;
    base_map *names; /* the last piece of each */
    uint64_t
        seen[SEEN_BITS /
             64]; /* a bit by sight of each name: most words are none, and their bit is not there */
    rp_error *err;
} trimmer;

static bool is_word(char c) {
    unsigned letter = ((unsigned char)c | 32u) - 'a', digit = (unsigned char)c - (unsigned)'0';
    return letter < 26 || digit < 10 || c == '_';
}

/* The bit of a word, which is not empty. */
static uint32_t sight(base_str word) {
    const unsigned char *c = (const unsigned char *)word.ptr;
    return (uint32_t)(c[0] + 7u * c[word.len / 2] + 31u * c[word.len - 1] + 131u * word.len) %
           SEEN_BITS;
}

static size_t line_end(base_str s, size_t at) {
    const char *end = memchr(s.ptr + at, '\n', s.len - at);
    return end ? (size_t)(end - s.ptr) + 1 : s.len;
}

static bool starts(base_str s, size_t at, const char *z) {
    size_t n = strlen(z);
    return s.len - at >= n && memcmp(s.ptr + at, z, n) == 0;
}

static bool starts_function(base_str s, size_t at) {
    return s.ptr[at] == 'R' && (starts(s, at, "RP_INLINE ") || starts(s, at, "RP_FN ") ||
                                starts(s, at, "RP_NOINLINE ") || starts(s, at, "RP_CALL "));
}

/* Of more than its name. */
static bool starts_struct(base_str s, size_t at) {
    return starts(s, at, "struct ") && memchr(s.ptr + at, '{', line_end(s, at) - at);
}

/* own: where the function or struct that begins here does so behind what its template takes. */
static bool starts_definition(base_str s, size_t at, size_t *own) {
    *own = starts(s, at, "template <") ? line_end(s, at) : at;
    return *own < s.len && (starts_function(s, *own) || starts_struct(s, *own));
}

/* A line after which nothing is left open. */
static bool is_whole(base_str s, size_t line, size_t end) {
    if (end > line && s.ptr[end - 1] == '\n') end--;
    return end > line && (s.ptr[end - 1] == ';' || s.ptr[end - 1] == '}');
}

/* Behind the line that ends what begins at `at`: one that begins with its last brace, or its first line. */
static size_t definition_end(base_str s, size_t at) {
    size_t end = line_end(s, at);
    if (is_whole(s, at, end)) return end;
    while (end < s.len && s.ptr[end] != '}') end = line_end(s, end);
    return end < s.len ? line_end(s, end) : end;
}

static size_t comment_end(base_str s, size_t at) {
    const char *end = memmem(s.ptr + at, s.len - at, "*/", 2);
    return end ? line_end(s, (size_t)(end - s.ptr)) : s.len;
}

static base_str word_at(base_str s, size_t at) {
    size_t end = at;
    while (end < s.len && is_word(s.ptr[end])) end++;
    return (base_str){s.ptr + at, end - at};
}

/* Behind the parenthesis that closes what opens at `at`. */
static size_t behind_parentheses(base_str s, size_t at) {
    uint32_t open = 0;
    do {
        open += s.ptr[at] == '(';
        open -= s.ptr[at] == ')';
    } while (++at < s.len && open > 0);
    return at;
}

/* Of `struct NAME`, `struct alignas(...) NAME`. */
static base_str struct_name(base_str s, size_t at) {
    at += strlen("struct ");
    if (starts(s, at, "alignas(")) at = behind_parentheses(s, at + strlen("alignas")) + 1;
    return word_at(s, at);
}

/* A struct's, or the word in front of the first parenthesis. */
static base_str name_at(base_str s, size_t at) {
    if (starts(s, at, "struct ")) return struct_name(s, at);
    const char *open = memchr(s.ptr + at, '(', s.len - at);
    size_t end = open ? (size_t)(open - s.ptr) : at, from = end;
    while (from > at && is_word(s.ptr[from - 1])) from--;
    return (base_str){s.ptr + from, end - from};
}

static void add_text(trimmer *t, base_str head, size_t from, size_t to) {
    if (from == to) return;
    t->todo[t->n_todo++] = t->n;
    t->pieces[t->n++] = (piece){.text = {head.ptr + from, to - from}, .wanted = true};
}

static rp_status add_definition(trimmer *t, base_str text, base_str name) {
    uint64_t before = 0;
    piece *p = &t->pieces[t->n];
    *p = (piece){.text = text};
    if (base_map_get(t->names, name.ptr, name.len, &before)) p->next = (uint32_t)before;
    RP_TRY(base_map_put(t->names, name.ptr, name.len, t->n, t->err));
    if (name.len) t->seen[sight(name) / 64] |= UINT64_C(1) << sight(name) % 64;
    t->n++;
    return RP_OK;
}

/* Piece 0 is the user's text. */
static rp_status cut(trimmer *t, base_str head) {
    size_t from = 0, at = 0;
    while (at < head.len) {
        size_t own;
        const bool defines = starts_definition(head, at, &own);
        if (!defines && !starts(head, at, "/*")) {
            at = line_end(head, at);
            continue;
        }
        add_text(t, head, from, at);
        from = at;
        at = defines ? definition_end(head, own) : comment_end(head, at);
        if (defines)
            RP_TRY(add_definition(t, (base_str){head.ptr + from, at - from}, name_at(head, own)));
        from = at;
    }
    add_text(t, head, from, at);
    return RP_OK;
}

static void want(trimmer *t, base_str word) {
    uint64_t at;
    if (!(t->seen[sight(word) / 64] >> sight(word) % 64 & 1)) return;
    if (!base_map_get(t->names, word.ptr, word.len, &at)) return;
    for (uint32_t i = (uint32_t)at; i != 0 && !t->pieces[i].wanted; i = t->pieces[i].next) {
        t->pieces[i].wanted = true;
        t->todo[t->n_todo++] = i;
    }
}

static void want_words(trimmer *t, base_str text) {
    for (size_t at = 0; at < text.len;) {
        size_t from = at;
        while (at < text.len && is_word(text.ptr[at])) at++;
        if (at == from)
            at++;
        else
            want(t, (base_str){text.ptr + from, at - from});
    }
}

static uint32_t count_lines(base_str s) {
    uint32_t n = 1;
    for (size_t at = 0; at < s.len; n++) at = line_end(s, at);
    return n;
}

/* One empty line where several meet. */
static void put(base_buf *out, base_str text) {
    size_t at = 0;
    bool gap = out->len > 1 && out->data[out->len - 1] == '\n' && out->data[out->len - 2] == '\n';
    while (gap && at < text.len && text.ptr[at] == '\n') at++;
    base_buf_add(out, text.ptr + at, text.len - at);
}

static rp_status trim(trimmer *t, base_str head, base_str user, base_buf *out) {
    /* Every piece has a line of its own, or two around it. */
    const uint32_t cap = count_lines(head) + 2;
    t->pieces = base_alloc_array(cap, sizeof *t->pieces);
    t->todo = base_alloc_array(cap, sizeof *t->todo);
    t->names = base_map_new();
    if (!t->pieces || !t->todo || !t->names) return rp_fail(t->err, RP_NOMEM, "head of a unit");
    add_text(t, user, 0, user.len);
    t->n = 1;
    RP_TRY(cut(t, head));
    while (t->n_todo > 0) want_words(t, t->pieces[t->todo[--t->n_todo]].text);
    base_buf_reserve(out, head.len);
    RP_TRY(base_buf_status(out, t->err));
    for (uint32_t i = 1; i < t->n; i++)
        if (t->pieces[i].wanted) put(out, t->pieces[i].text);
    return RP_OK;
}

rp_status gen_trim(base_str head, base_str user, base_buf *out, rp_error *err) {
    trimmer t = {.err = err};
    rp_status st = trim(&t, head, user, out);
    base_free(t.pieces);
    base_free(t.todo);
    base_map_free(t.names);
    return st;
}
