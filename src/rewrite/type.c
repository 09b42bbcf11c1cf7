/* Reads "f32[T,64]": an element type, then sizes that are numbers or names. */
#include "rewrite/type.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum { STEP = 64 }; /* sizes that stand for names are multiples of it */

typedef struct size_word {
    base_str name; /* empty: a number */
    int64_t n;
} size_word;

typedef struct type {
    rp_dtype dtype;
    uint32_t rank;
    size_word size[RP_MAX_RANK];
} type;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Gives the place behind the word; NULL: there is none. */
static const char *read_size(const char *z, size_word *out) {
    const char *from = z;
    *out = (size_word){{NULL, 0}, 0};
    if (is_letter(*z)) {
        while (is_letter(*z) || is_digit(*z)) z++;
        out->name = (base_str){from, (size_t)(z - from)};
        return z;
    }
    for (; is_digit(*z) && out->n < INT32_MAX; z++) out->n = out->n * 10 + (*z - '0');
    return z == from || is_digit(*z) ? NULL : z;
}

static bool read_type(const char *text, type *out) {
    char word[16] = "";
    const char *z = strchr(text, '[');
    *out = (type){RP_DTYPE_F32, 0, {{{NULL, 0}, 0}}};
    if (!z || (size_t)(z - text) >= sizeof word) return false;
    memcpy(word, text, (size_t)(z - text));
    if (!rp_dtype_parse(word, &out->dtype)) return false;
    if (strcmp(++z, "]") == 0) return true;
    for (;; z++) {
        if (out->rank == RP_MAX_RANK) return false;
        z = read_size(z, &out->size[out->rank++]);
        if (!z || (*z != ',' && *z != ']')) return false;
        if (*z == ']') return !z[1];
    }
}

rp_status rewrite_type_check(const char *text, rp_error *err) {
    type t;
    if (text && strlen(text) < REWRITE_MOST_TYPE && read_type(text, &t)) return RP_OK;
    return rp_fail(err, RP_INVALID,
                   "'%.80s' is no type of a pattern's input; write f32[T,64], with up to %d sizes "
                   "that are numbers or names",
                   text ? text : "", RP_MAX_RANK);
}

static bool same_word(base_str a, base_str b) {
    return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* Names in the order in which they come. */
typedef struct names {
    base_str name[RP_MAX_PATTERN_INPUTS * RP_MAX_RANK];
    uint32_t n;
} names;

static uint32_t index_of(names *all, base_str name) {
    for (uint32_t i = 0; i < all->n; i++)
        if (same_word(all->name[i], name)) return i;
    all->name[all->n] = name;
    return all->n++;
}

static rp_dim size_of(rp_graph *g, rewrite_sizes sizes, names *all, const size_word *w) {
    char name[REWRITE_MOST_TYPE];
    if (!w->name.len) return rp_dim_const(w->n);
    uint32_t i = index_of(all, w->name);
    if (sizes == REWRITE_NUMBERS || (sizes == REWRITE_FIRST && i > 0))
        return rp_dim_const((int64_t)STEP * (i + 1));
    (void)snprintf(name, sizeof name, "%.*s", (int)w->name.len, w->name.ptr);
    return rp_symbol(g, name, 1, INT32_MAX);
}

bool rewrite_type_inputs(const rp_pass_desc *d, rewrite_sizes sizes, rp_graph *g, rp_tensor *out) {
    names all = {.n = 0};
    for (uint32_t i = 0; i < d->n_types; i++) {
        type t;
        char name[16];
        rp_shape s = {0};
        if (!read_type(d->types[i], &t)) return false;
        for (s.rank = 0; s.rank < t.rank; s.rank++)
            s.dim[s.rank] = size_of(g, sizes, &all, &t.size[s.rank]);
        (void)snprintf(name, sizeof name, "in%u", i);
        out[i] = rp_input(g, name, t.dtype, s);
    }
    return g->err.code == RP_OK;
}

bool rewrite_type_fits(const rp_pass_desc *d, const ir_graph *g, const ir_ref *value) {
    const ir_dims *dims = ir_graph_dims(g);
    ir_dim is[RP_MAX_PATTERN_INPUTS * RP_MAX_RANK];
    names all = {.n = 0};
    for (uint32_t i = 0; i < d->n_types; i++) {
        type t;
        const ir_node *n = ir_node_at(g, value[i]);
        if (!read_type(d->types[i], &t) || n->dtype != t.dtype || n->shape.rank != t.rank)
            return false;
        for (uint32_t k = 0; k < t.rank; k++) {
            uint32_t before = all.n;
            if (!t.size[k].name.len) {
                if (!ir_dim_is(dims, n->shape.dim[k], t.size[k].n)) return false;
                continue;
            }
            uint32_t at = index_of(&all, t.size[k].name);
            if (at == before) is[at] = n->shape.dim[k];
            if (!ir_dim_same(dims, is[at], n->shape.dim[k])) return false;
        }
    }
    return true;
}
