/* The general form of generated text, and which kernels of it the library has. */
#include "gen/ready.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/hash.h"
#include "base/number.h"

BASE_EMBED(ready_elements_c_inc);
BASE_EMBED(ready_products_c_inc);
BASE_EMBED(ready_rows_c_inc);

/* What generated functions are to others, and these are not. */
static const char exported[] = "__attribute__((visibility(\"default\")))\n", function[] = "void ";

/* --- the form ---------------------------------------------------------------------- */

enum { MOST_NUMBERS = 256 };

typedef struct former {
    base_str in;
    size_t at;
    base_str name;
    const char *as;
    gen_ready *r;
    bool product;               /* generated around a template */
    bool in_for;                /* the line of its head */
    int64_t seen[MOST_NUMBERS]; /* of names, in the order in which they are met */
    uint32_t n_seen;
    base_buf *out;
} former;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool follows(const former *f, const char *z, size_t n) {
    return f->in.len - f->at >= n && memcmp(f->in.ptr + f->at, z, n) == 0;
}

/* v17 is v0 where 17 is the first number that a name has: what a generator counts depends on what it left out. */
static bool put_numbered(former *f, base_str word) {
    const int64_t number = strtoll(word.ptr + 1, NULL, 10);
    uint32_t i = 0;
    while (i < f->n_seen && f->seen[i] != number) i++;
    if (i == MOST_NUMBERS) return false;
    if (i == f->n_seen) f->seen[f->n_seen++] = number;
    base_buf_printf(f->out, "%c%u", *word.ptr, i);
    return true;
}

static bool is_numbered(base_str word) {
    size_t i = 1;
    while (i < word.len && is_digit(word.ptr[i])) i++;
    return word.len > 1 && i == word.len && *word.ptr >= 'a' && *word.ptr <= 'z';
}

static bool take_word(former *f) {
    base_str word = {f->in.ptr + f->at, 0};
    while (f->at + word.len < f->in.len &&
           (is_letter(word.ptr[word.len]) || is_digit(word.ptr[word.len])))
        word.len++;
    f->at += word.len;
    f->in_for = f->in_for || (word.len == 3 && memcmp(word.ptr, "for", 3) == 0);
    if (is_numbered(word)) return put_numbered(f, word);
    if (word.len >= f->name.len && memcmp(word.ptr, f->name.ptr, f->name.len) == 0) {
        base_buf_puts(f->out, f->as);
        word.ptr += f->name.len, word.len -= f->name.len;
    }
    base_buf_add(f->out, word.ptr, word.len);
    return true;
}

/* Columns of a work item of a product, which loops of its epilogue have as a number. */
enum { COLUMNS = 32 };

/* Equal ones, too, are words of their own: what is equal in one graph is not in the next. */
static bool put_record_word(former *f, int64_t value, bool is_float) {
    gen_ready *r = f->r;
    if (r->n_words == GEN_READY_WORDS) return false;
    const bool no_rest = f->in_for && value > 0 && value % 16 == 0;
    const char kind = is_float ? 'F' : no_rest ? 'M' : 'N';
    base_buf_printf(f->out, "RK_%c(%u)", kind, r->n_words);
    r->word[r->n_words++] = value;
    return true;
}

/* 4096LL and 0x1p-12f are words, others stay. */
static bool take_number(former *f) {
    const char *z = f->in.ptr + f->at;
    size_t n = 1;
    while (f->at + n < f->in.len && (is_digit(z[n]) || is_letter(z[n]) || z[n] == '.' ||
                                     ((z[n] == '-' || z[n] == '+') && z[n - 1] == 'p')))
        n++;
    char number[64], *end;
    f->at += n;
    if (n < sizeof number) {
        memcpy(number, z, n);
        number[n] = 0;
        errno = 0;
        const int64_t value = strtoll(number, &end, 10);
        const bool tile = f->product && f->in_for && value == COLUMNS;
        if (strcmp(end, "LL") == 0 && errno == 0 && !tile) return put_record_word(f, value, false);
        const float real = base_strtof(number, &end);
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        if (memchr(number, 'p', n) && strcmp(end, "f") == 0 && errno == 0)
            return put_record_word(f, bits, true);
    }
    base_buf_add(f->out, z, n);
    return true;
}

bool gen_ready_form(base_str text, const char *name, const char *as, gen_ready *r, base_buf *out) {
    former f = {.in = text, .name = base_str_of(name), .as = as, .r = r, .out = out};
    bool whole = true;
    *r = (gen_ready){0};
    f.product = memmem(text.ptr, text.len, "rp_mmf_call", 11) != NULL;
    while (whole && f.at < text.len) {
        const char c = text.ptr[f.at];
        if (follows(&f, exported, sizeof exported - 1)) {
            f.at += sizeof exported - 1;
        } else if (is_letter(c)) {
            const bool line = f.at == 0 || text.ptr[f.at - 1] == '\n';
            if (line && follows(&f, function, sizeof function - 1)) base_buf_puts(out, "RP_FN ");
            whole = take_word(&f);
        } else if (is_digit(c)) {
            whole = take_number(&f);
        } else {
            f.in_for = f.in_for && c != '\n';
            base_buf_putc(out, c);
            f.at++;
        }
    }
    return whole && !out->failed;
}

/* --- the list ------------------------------------------------------------------------ */

typedef struct ready {
    const char *name, *function; /* softmax, ready_softmax */
    uint32_t n_args;
    const char *symbol[3]; /* by instruction set */
} ready;

#define READY(name, n_args) \
    {#name,                 \
     "ready_" #name,        \
     n_args,                \
     {"@ready_" #name "_portable", "@ready_" #name "_avx2", "@ready_" #name "_avx512"}},
static const ready list[] = {GEN_READY_LIST(READY)};
enum { N_READY = sizeof list / sizeof *list, N_ISA = 3 };

static const gen_host_fn *const functions[N_ISA] = {
    gen_ready_portable,
#if defined(__x86_64__)
    gen_ready_avx2,
    gen_ready_avx512,
#endif
};

static pthread_once_t hashed = PTHREAD_ONCE_INIT;
static base_hash128
    hash[N_READY]; /* of the form that all share; of nothing where memory was short */

uint32_t gen_ready_count(void) {
    return N_READY;
}

base_str gen_ready_text(uint32_t i, const char **name) {
    const char *const files[] = {rp_embed_ready_elements_c_inc, rp_embed_ready_products_c_inc,
                                 rp_embed_ready_rows_c_inc};
    char head[96];
    *name = list[i].name;
    (void)snprintf(head, sizeof head, "/* %s */\n", list[i].name);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        const char *from = strstr(files[f], head);
        if (!from) continue;
        from += strlen(head);
        const char *to = strstr(from, "/* ");
        return (base_str){from, to ? (size_t)(to - from) : strlen(from)};
    }
    return (base_str){"", 0};
}

static void hash_list(void) {
    for (uint32_t i = 0; i < N_READY; i++) {
        const char *name;
        gen_ready r;
        base_buf form;
        base_buf_init(&form, 0);
        if (gen_ready_form(gen_ready_text(i, &name), list[i].function, "@", &r, &form))
            hash[i] = base_hash(form.data ? form.data : "", form.len);
        base_buf_done(&form);
    }
}

bool gen_ready_find(gen_isa isa, base_str text, const char *name, gen_ready *out) {
    const size_t set = (size_t)isa < N_ISA ? (size_t)isa : N_ISA - 1;
    base_buf form;
    uint32_t at = N_READY;
    (void)pthread_once(&hashed, hash_list);
    base_buf_init(&form, 0);
    if (functions[set] && gen_ready_form(text, name, "@", out, &form)) {
        const base_hash128 h = base_hash(form.data ? form.data : "", form.len);
        for (at = 0; at < N_READY; at++)
            if (hash[at].lo == h.lo && hash[at].hi == h.hi) break;
    }
    base_buf_done(&form);
    if (at == N_READY) return false;
    out->symbol = list[at].symbol[set];
    out->n_args = list[at].n_args;
    return true;
}

gen_host_fn gen_ready_function(const char *symbol) {
    for (size_t i = 0; i < N_READY; i++)
        for (size_t isa = 0; isa < N_ISA; isa++)
            if (functions[isa] && strcmp(list[i].symbol[isa], symbol) == 0)
                return functions[isa][i];
    return NULL;
}
