/* Reading arguments, once a call: the checks are those of the hot path, and autograph_value_key tells what was wrong. */
#include "front/args.h"

#include <inttypes.h>

#include "autograph/value.h"
#include "base/alloc.h"
#include "base/map.h"

enum { MOST_TEXT = 200 }; /* bytes of a string in a log */

/* --- reading ------------------------------------------------------------------------------ */

static bool more_words(front_args *a, uint32_t n) {
    uint64_t cap = (uint64_t)a->n + n;
    if (cap <= a->cap) return true;
    cap = cap * 2 < UINT32_MAX ? cap * 2 : cap;
    if (cap > UINT32_MAX) return false;
    uint64_t *p = base_alloc_array((size_t)cap, sizeof *p);
    if (!p) return false;
    memcpy(p, a->word, a->n * sizeof *p);
    if (a->word != a->few_words) base_free(a->word);
    a->word = p;
    a->cap = (uint32_t)cap;
    return true;
}

static bool more_tensors(front_args *a) {
    if (a->n_tensors < a->cap_tensors) return true;
    uint32_t cap = a->cap_tensors * 2;
    const rp_value **tensor = base_alloc_array(cap, sizeof(const rp_value *));
    uint32_t *at = base_alloc_array(cap, sizeof *at);
    if (!tensor || !at) {
        base_free(tensor);
        base_free(at);
        return false;
    }
    memcpy(tensor, a->tensor, a->n_tensors * sizeof(const rp_value *));
    memcpy(at, a->at, a->n_tensors * sizeof *at);
    if (a->tensor != a->few_tensors) base_free(a->tensor);
    if (a->at != a->few_at) base_free(a->at);
    a->tensor = tensor;
    a->at = at;
    a->cap_tensors = cap;
    return true;
}

/* Sizes that memory may have; of plain tensors nothing else can be wrong. */
static bool sizes_fit(const rp_buffer *b) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++)
        if (b->dim[i] < 0 || __builtin_mul_overflow(n, (uint64_t)b->dim[i], &n)) return false;
    return n < UINT64_C(1) << 55 && (n == 0 || b->data);
}

static bool is_plain(rp_dtype t) {
#define PLAIN(id, text, bytes, block) +((block) == 1 ? UINT32_C(1) << RP_DTYPE_##id : 0)
    static const uint32_t plain = 0 RP_DTYPE_LIST(PLAIN);
#undef PLAIN
    return (unsigned)t < RP_DTYPE_COUNT_ && (plain >> t & 1);
}

/* Bits go upwards, so that the upper ones are those of all words. */
static inline uint64_t mix(uint64_t hash, uint64_t word) {
    return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

/* A tensor is mixed as one word, of its head and each of its sizes. */
static inline uint64_t turn(uint64_t word, uint64_t size) {
    return (word << 21 | word >> 43) ^ size;
}

/* There is room. */
static void put_word(front_args *a, uint64_t word) {
    a->word[a->n++] = word;
    a->hash = mix(a->hash, word);
}

static inline uint64_t head_of(const rp_buffer *b) {
    return (uint64_t)RP_VALUE_TENSOR | (uint64_t)b->dtype << 8 | (uint64_t)b->rank << 16;
}

/* There is room. */
static void add_tensor(front_args *a, const rp_value *v) {
    const rp_buffer *b = &v->tensor;
    uint64_t *word = a->word + a->n;
    a->tensor[a->n_tensors] = v;
    a->at[a->n_tensors++] = a->n;
    uint64_t all = word[0] = head_of(b) | (uint64_t)v->state << 24;
    for (uint32_t i = 0; i < b->rank; i++) all = turn(all, word[1 + i] = (uint64_t)b->dim[i]);
    a->hash = mix(a->hash, all);
    a->n += 1 + b->rank;
}

static bool read_tensor(front_args *a, const rp_value *v) {
    const rp_buffer *b = &v->tensor;
    bool refused = v->indirect || v->rows;
    if (refused) a->refused = v->indirect ? "indirect" : "marked as rows";
    if (refused || (unsigned)b->dtype >= RP_DTYPE_COUNT_ || b->rank > RP_MAX_RANK || !sizes_fit(b))
        return false;
    if (v->strided || !is_plain(b->dtype)) {
        base_buf key; /* whether it is one, in all its rules */
        base_buf_init(&key, 0);
        rp_status st = autograph_value_key(v, AUTOGRAPH_KEY_BACKWARD, &key, NULL);
        base_buf_done(&key);
        if (st != RP_OK) return false;
    }
    if (!more_words(a, 1 + b->rank) || !more_tensors(a)) return false;
    add_tensor(a, v);
    return true;
}

/* Sizes of a rank that are all below this are sizes that memory may have. */
#define BELOW(bits) UINT64_C(1) << (bits)
static const uint64_t small[RP_MAX_RANK + 1] = {BELOW(55), BELOW(55), BELOW(27), BELOW(18),
                                                BELOW(13), BELOW(11), BELOW(9)};

/* Dtype and rank, for one compare. */
static inline uint64_t form_of(const rp_buffer *b) {
    uint64_t form;
    _Static_assert(offsetof(rp_buffer, rank) + sizeof b->rank == sizeof form, "dtype, then rank");
    memcpy(&form, b, sizeof form);
    return form;
}

/* How many of the n from v on are plain tensors like the first one, of this dtype and rank; those are read. There is room. A rank that is known makes the
 * copy of sizes a few moves. */
static inline uint32_t read_alike(front_args *a, const rp_value *v, uint32_t n,
                                  const uint32_t rank) {
    const uint64_t form = form_of(&v->tensor);
    const uint64_t head = head_of(&v->tensor), least = small[rank];
    uint64_t *word = a->word + a->n;
    const rp_value **tensor = a->tensor + a->n_tensors;
    uint32_t *at = a->at + a->n_tensors, next = a->n, i = 0;
    uint64_t hash = a->hash;
    for (; i < n; i++, v++, word += 1 + rank, next += 1 + rank) {
        const rp_buffer *b = &v->tensor;
        uint64_t any = 0, all = head | (uint64_t)v->state << 24;
        if (v->kind != RP_VALUE_TENSOR || form_of(b) != form || !b->data ||
            (v->strided | v->indirect | v->rows))
            break;
        word[0] = all;
        for (uint32_t d = 0; d < rank; d++) {
            const uint64_t size = (uint64_t)b->dim[d];
            word[1 + d] = size;
            any |= size;
            all = turn(all, size);
        }
        if (any >= least) break;
        hash = mix(hash, all);
        tensor[i] = v;
        at[i] = next;
    }
    a->n = next;
    a->n_tensors += i;
    a->hash = hash;
    return i;
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* What nearly all items are, as long as they are: how many of the n from v on were read. The rest is left to read_value. */
static uint32_t read_plain(front_args *a, const rp_value *v, uint32_t n) {
    uint32_t done = 0, more = 1;
    for (; done < n && more; done += more) {
        const rp_value *first = v + done;
        const uint32_t rank = first->tensor.rank;
        if (first->kind != RP_VALUE_TENSOR || !is_plain(first->tensor.dtype) || rank > RP_MAX_RANK)
            break;
        uint32_t room = least(a->cap_tensors - a->n_tensors, (a->cap - a->n) / (1 + rank));
        room = least(room, n - done);
        switch (rank) {
        case 1: more = read_alike(a, first, room, 1); break;
        case 2: more = read_alike(a, first, room, 2); break;
        case 3: more = read_alike(a, first, room, 3); break;
        case 4: more = read_alike(a, first, room, 4); break;
        default: more = read_alike(a, first, room, rank);
        }
    }
    return done;
}

static uint32_t text_words(size_t len) {
    return (uint32_t)((len + 7) / 8);
}

/* A head with the length, then the bytes. */
static bool read_text(front_args *a, const char *z, uint64_t kind) {
    size_t len = z ? strlen(z) : 0;
    if (!z || len > UINT32_MAX / 2 || !more_words(a, 1 + text_words(len))) return false;
    put_word(a, kind | (uint64_t)len << 32);
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, z + i, len - i < sizeof word ? len - i : sizeof word);
        put_word(a, word);
    }
    return true;
}

static bool read_value(front_args *a, const rp_value *v, uint32_t depth);

static bool read_items(front_args *a, const rp_value *v, uint32_t depth) {
    bool map = v->kind == RP_VALUE_MAP;
    if (depth >= RP_MAX_VALUE_DEPTH || (v->n && (!v->item || (map && !v->name)))) return false;
    if (!autograph_items_are_there(v, AUTOGRAPH_MANY_ITEMS)) return false;
    if (!more_words(a, 1)) return false;
    put_word(a, (uint64_t)v->kind | (uint64_t)v->n << 32);
    for (uint32_t i = 0; i < v->n;) {
        if (map && !read_text(a, v->name[i], RP_VALUE_STRING)) return false;
        uint32_t plain = read_plain(a, &v->item[i], map ? 1 : v->n - i);
        if (plain == 0 && !read_value(a, &v->item[i], depth + 1)) return false;
        i += plain ? plain : 1;
    }
    return true;
}

static bool read_literal(front_args *a, const rp_value *v) {
    uint64_t bits = 0;
    if (v->kind == RP_VALUE_BOOL) bits = v->as.boolean;
    if (v->kind == RP_VALUE_INT) bits = (uint64_t)v->as.integer;
    if (v->kind == RP_VALUE_FLOAT) memcpy(&bits, &v->as.number, sizeof bits);
    if (!more_words(a, 2)) return false;
    put_word(a, (uint64_t)v->kind);
    if (v->kind != RP_VALUE_NONE) put_word(a, bits);
    return true;
}

static bool read_value(front_args *a, const rp_value *v, uint32_t depth) {
    switch (v->kind) {
    case RP_VALUE_TENSOR: return read_tensor(a, v);
    case RP_VALUE_STRING: return read_text(a, v->as.string, RP_VALUE_STRING);
    case RP_VALUE_LIST:
    case RP_VALUE_TUPLE:
    case RP_VALUE_MAP: return read_items(a, v, depth);
    case RP_VALUE_NONE:
    case RP_VALUE_BOOL:
    case RP_VALUE_INT:
    case RP_VALUE_FLOAT: return read_literal(a, v);
    }
    return false;
}

rp_status front_args_read(front_args *a, const rp_value *v, rp_error *err) {
    a->value = v;
    a->word = a->few_words;
    a->tensor = a->few_tensors;
    a->at = a->few_at;
    a->cap = FRONT_FEW_WORDS;
    a->cap_tensors = FRONT_FEW_TENSORS;
    a->n = a->n_tensors = 0;
    a->hash = 0;
    a->refused = NULL;
    if (read_value(a, v, 0)) return RP_OK;
    base_buf key;
    base_buf_init(&key, 0);
    rp_status st = autograph_value_key(v, AUTOGRAPH_KEY_BACKWARD, &key, err);
    base_buf_done(&key);
    if (st != RP_OK) return st;
    if (a->refused)
        return rp_fail(err, RP_INVALID,
                       "tensor %u is %s, which is for automatic graphs alone; give it plain, "
                       "or as a state",
                       a->n_tensors, a->refused);
    return rp_fail(err, RP_NOMEM, "a call");
}

static rp_status check_names_of_map(const rp_value *v, rp_error *err) {
    rp_status st = RP_OK;
    base_map *m = base_map_new();
    if (!m) return rp_fail(err, RP_NOMEM, "names of a map");
    for (uint32_t i = 0; i < v->n && st == RP_OK; i++) {
        uint64_t first;
        const size_t len = strlen(v->name[i]);
        if (base_map_get(m, v->name[i], len, &first))
            st = rp_fail(err, RP_INVALID, "items %u and %u of a map are both named '%.80s'",
                         (unsigned)first, i, v->name[i]);
        else
            st = base_map_put(m, v->name[i], len, i, err);
    }
    base_map_free(m);
    return st;
}

rp_status front_check_names(const rp_value *v, rp_error *err) {
    if (v->kind != RP_VALUE_LIST && v->kind != RP_VALUE_TUPLE && v->kind != RP_VALUE_MAP)
        return RP_OK;
    if (v->kind == RP_VALUE_MAP && v->n > 1) RP_TRY(check_names_of_map(v, err));
    for (uint32_t i = 0; i < v->n; i++) RP_TRY(front_check_names(&v->item[i], err));
    return RP_OK;
}

void front_args_done(front_args *a) {
    if (a->word != a->few_words) base_free(a->word);
    if (a->tensor != a->few_tensors) base_free(a->tensor);
    if (a->at != a->few_at) base_free(a->at);
}

/* --- telling ------------------------------------------------------------------------------- */

typedef struct walk {
    const uint64_t *word;
    uint32_t target, at;
    bool found;
    front_place place;
    base_buf *source;
} walk;

static bool arrive(walk *w, front_field field, uint32_t head, uint32_t index, uint32_t words) {
    if (w->target >= w->at + words) {
        w->at += words;
        return false;
    }
    w->place = (front_place){field, head, index};
    return w->found = true;
}

static void put_text(const uint64_t *word, uint32_t head, base_buf *out) {
    base_buf_putc(out, '\'');
    base_buf_add(out, word + head + 1, front_count(word[head]));
    base_buf_putc(out, '\'');
}

static void walk_value(walk *w) {
    uint32_t head = w->at, n = front_count(w->word[head]);
    rp_value_kind kind = front_kind(w->word[head]);
    if (arrive(w, FRONT_HEAD, head, 0, 1)) return;
    if (kind == RP_VALUE_TENSOR) {
        for (uint32_t i = 0; i < front_rank(w->word[head]); i++)
            if (arrive(w, FRONT_SIZE, head, i, 1)) return;
        return;
    }
    if (kind < RP_VALUE_LIST) {
        uint32_t words = kind == RP_VALUE_STRING ? text_words(n) : kind != RP_VALUE_NONE;
        (void)arrive(w, FRONT_LITERAL, head, 0, words);
        return;
    }
    for (uint32_t i = 0; i < n && !w->found; i++) {
        size_t len = w->source->len;
        uint32_t name = w->at;
        if (kind == RP_VALUE_MAP &&
            arrive(w, FRONT_NAME, head, i, 1 + text_words(front_count(w->word[name]))))
            return;
        base_buf_putc(w->source, '[');
        if (kind == RP_VALUE_MAP)
            put_text(w->word, name, w->source);
        else
            base_buf_printf(w->source, "%u", i);
        base_buf_putc(w->source, ']');
        walk_value(w);
        if (!w->found && w->source->data) w->source->data[w->source->len = len] = 0;
    }
}

front_place front_describe(const uint64_t *word, uint32_t at, base_buf *source) {
    walk w = {.word = word, .target = at, .source = source};
    base_buf_putc(source, 'L');
    walk_value(&w);
    return w.place;
}

uint32_t front_after(const uint64_t *word, uint32_t head) {
    base_buf source;
    walk w = {.word = word, .target = UINT32_MAX, .at = head, .source = &source};
    base_buf_init(&source, 0);
    base_buf_putc(&source, 'L');
    walk_value(&w);
    base_buf_done(&source);
    return w.at;
}

/* The word behind the head at `head` and what is its own, which is not the items. */
static uint32_t behind_head(const uint64_t *word, uint32_t head) {
    switch (front_kind(word[head])) {
    case RP_VALUE_TENSOR: return head + 1 + front_rank(word[head]);
    case RP_VALUE_STRING: return head + 1 + text_words(front_count(word[head]));
    case RP_VALUE_BOOL:
    case RP_VALUE_INT:
    case RP_VALUE_FLOAT: return head + 2;
    default: return head + 1;
    }
}

bool front_next_int(const front_args *a, uint32_t *head, uint32_t *word) {
    while (*head < a->n) {
        const uint32_t at = *head;
        *head = behind_head(a->word, at);
        *word = at + 1;
        if (front_kind(a->word[at]) == RP_VALUE_INT) return true;
    }
    return false;
}

uint32_t front_count_ints(const front_args *a) {
    uint32_t n = 0, head = 0, word;
    while (front_next_int(a, &head, &word)) n++;
    return n;
}

const char *front_type_name(uint64_t head) {
    static const char *const name[] = {"NoneType", "bool", "int",   "float", "str",
                                       "Tensor",   "list", "tuple", "dict"};
    return front_kind(head) < sizeof name / sizeof *name ? name[front_kind(head)] : "?";
}

static void put_tensor(const uint64_t *w, base_buf *out) {
    base_buf_printf(out, "%s[", rp_dtype_name(front_dtype(*w)));
    for (uint32_t i = 0; i < front_rank(*w); i++)
        base_buf_printf(out, "%s%" PRId64, i ? ", " : "", (int64_t)w[1 + i]);
    base_buf_putc(out, ']');
}

/* On one line, and no longer than a line. */
static void put_literal(const uint64_t *word, uint32_t head, base_buf *out) {
    const char *text = (const char *)(word + head + 1);
    const uint32_t n = front_count(word[head]);
    base_buf_putc(out, '\'');
    for (uint32_t i = 0; i < n && i < MOST_TEXT; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\'' || c == '\\')
            base_buf_printf(out, "\\%c", c);
        else if (c == '\n')
            base_buf_puts(out, "\\n");
        else if (c < ' ' || c == 127)
            base_buf_printf(out, "\\x%02x", c);
        else
            base_buf_putc(out, (char)c);
    }
    base_buf_putc(out, '\'');
    if (n > MOST_TEXT) base_buf_printf(out, "... (%u bytes)", n);
}

void front_put_value(const uint64_t *word, uint32_t head, base_buf *out) {
    const uint64_t *w = word + head;
    double number;
    switch (front_kind(*w)) {
    case RP_VALUE_NONE: base_buf_puts(out, "None"); return;
    case RP_VALUE_BOOL: base_buf_puts(out, w[1] ? "True" : "False"); return;
    case RP_VALUE_INT: base_buf_printf(out, "%" PRId64, (int64_t)w[1]); return;
    case RP_VALUE_FLOAT:
        memcpy(&number, &w[1], sizeof number);
        base_buf_printf(out, "%.17g", number);
        return;
    case RP_VALUE_STRING: put_literal(word, head, out); return;
    case RP_VALUE_TENSOR: put_tensor(w, out); return;
    default: base_buf_printf(out, "%s of %u", front_type_name(*w), front_count(*w));
    }
}
