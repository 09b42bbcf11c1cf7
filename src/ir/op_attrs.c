/* Attributes of custom ops as values: schema, defaults, equality, hash and copy. Their text is in op_attrs_text.c.
 *
 * A call has every attribute of its op's schema, sorted by name, so that calls that mean the same compare equal. */
#include "ir/op_attrs.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "ir/node.h"

static const char *const kind_text[] = {
    [RP_OP_I64] = "an integer",         [RP_OP_F64] = "a number",
    [RP_OP_STRING] = "a string",        [RP_OP_I64S] = "a list of integers",
    [RP_OP_F64S] = "a list of numbers", [RP_OP_STRINGS] = "a list of strings",
};

static bool is_list(const rp_op_attr *a) {
    return a->kind >= RP_OP_I64S;
}

static bool word_ok(const char *s) {
    size_t n = 0;
    while (s && ir_word_char(s[n])) n++;
    return n > 0 && n < 64 && !s[n] && !ir_digit(*s);
}

static bool string_ok(const char *s) {
    return s && strlen(s) <= RP_MAX_OP_STRING;
}

/* Whether there is a value, of a size that the text has room for. */
static rp_status check_value(const char *op, const rp_op_attr *a, rp_error *err) {
    bool ok = a->kind != RP_OP_STRING || string_ok(a->s);
    if (is_list(a) && a->n > RP_MAX_OP_LIST)
        return rp_fail(err, RP_INVALID,
                       "custom op %s: attribute '%s' has %u entries; %d are the most", op, a->name,
                       a->n, RP_MAX_OP_LIST);
    if (is_list(a) && a->n > 0)
        ok = (a->kind == RP_OP_I64S && a->is) || (a->kind == RP_OP_F64S && a->fs) ||
             (a->kind == RP_OP_STRINGS && a->ss);
    for (uint32_t i = 0; ok && a->kind == RP_OP_STRINGS && i < a->n; i++) ok = string_ok(a->ss[i]);
    if (ok) return RP_OK;
    return rp_fail(err, RP_INVALID,
                   "custom op %s: attribute '%s' has no value, or a string of more than %d bytes",
                   op, a->name, RP_MAX_OP_STRING);
}

rp_status ir_op_attrs_check_schema(const rp_op_desc *d, rp_error *err) {
    if (d->n_attrs && !d->attrs)
        return rp_fail(err, RP_INVALID, "custom op %s: %u attributes at NULL", d->name, d->n_attrs);
    if (d->n_attrs > RP_MAX_OP_ATTRS)
        return rp_fail(err, RP_INVALID, "custom op %s: %u attributes; %d are the most", d->name,
                       d->n_attrs, RP_MAX_OP_ATTRS);
    for (uint32_t i = 0; i < d->n_attrs; i++) {
        const rp_op_attr *a = &d->attrs[i];
        if (!word_ok(a->name) || (unsigned)a->kind >= RP_OP_KIND_COUNT_)
            return rp_fail(err, RP_INVALID,
                           "custom op %s: attribute %u has no kind or no name of letters, digits "
                           "and _",
                           d->name, i);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(d->attrs[k].name, a->name) == 0)
                return rp_fail(err, RP_INVALID, "custom op %s: two attributes are called '%s'",
                               d->name, a->name);
        if (!a->required) RP_TRY(check_value(d->name, a, err));
    }
    return RP_OK;
}

/* --- of a call ------------------------------------------------------------------------------- */

static const rp_op_attr *find(const rp_op_attr *a, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].name && strcmp(a[i].name, name) == 0) return &a[i];
    return NULL;
}

/* Every name that is given is one of the schema, once. */
static rp_status check_names(const rp_op_desc *d, const rp_op_attr *given, uint32_t n,
                             rp_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        const char *name = given[i].name ? given[i].name : "";
        if (!find(d->attrs, d->n_attrs, name))
            return rp_fail(err, RP_INVALID, "custom op %s has no attribute '%.63s'", d->name, name);
        if (find(given, i, name))
            return rp_fail(err, RP_INVALID, "custom op %s: attribute '%s' is given twice", d->name,
                           name);
    }
    return RP_OK;
}

/* v, which a call says, as the schema wants it. */
static rp_status take(const rp_op_desc *d, const rp_op_attr *want, const rp_op_attr *v,
                      rp_op_attr *out, rp_error *err) {
    *out = *v;
    out->name = want->name;
    out->required = false;
    if (want->kind == RP_OP_F64 && v->kind == RP_OP_I64) out->f = (double)v->i;
    bool as_is =
        want->kind == v->kind || (want->kind == RP_OP_F64 && v->kind == RP_OP_I64) ||
        ((unsigned)v->kind < RP_OP_KIND_COUNT_ && is_list(want) && is_list(v) && v->n == 0);
    if (!as_is)
        return rp_fail(err, RP_INVALID, "custom op %s: attribute '%s' is %s, not %s", d->name,
                       want->name, kind_text[want->kind],
                       (unsigned)v->kind < RP_OP_KIND_COUNT_ ? kind_text[v->kind] : "of any kind");
    out->kind = want->kind;
    return check_value(d->name, out, err);
}

rp_status ir_op_attrs_complete(const rp_op_desc *d, const rp_op_attr *given, uint32_t n,
                               rp_op_attr *out, rp_error *err) {
    RP_TRY(check_names(d, given, n, err));
    for (uint32_t i = 0; i < d->n_attrs; i++) {
        const rp_op_attr *want = &d->attrs[i], *v = find(given, n, want->name);
        rp_op_attr own;
        if (!v && want->required)
            return rp_fail(err, RP_INVALID, "custom op %s: attribute '%s' is missing; it is %s",
                           d->name, want->name, kind_text[want->kind]);
        RP_TRY(take(d, want, v ? v : want, &own, err));
        uint32_t at = i;
        for (; at > 0 && strcmp(out[at - 1].name, own.name) > 0; at--) out[at] = out[at - 1];
        out[at] = own;
    }
    return RP_OK;
}

const rp_op_attr *rp_op_call_attr(const rp_op_call *call, const char *name) {
    return call && name ? find(call->attrs, call->n_attrs, name) : NULL;
}

/* --- equality, hash, copy ---------------------------------------------------------------------- */

static uint64_t bits_of(double v) {
    uint64_t bits;
    if (v != v) v = (double)NAN;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static bool value_equal(const rp_op_attr *a, const rp_op_attr *b) {
    bool equal = a->kind == b->kind && (!is_list(a) || a->n == b->n);
    switch (a->kind) {
    case RP_OP_I64: return equal && a->i == b->i;
    case RP_OP_F64: return equal && bits_of(a->f) == bits_of(b->f);
    case RP_OP_STRING: return equal && strcmp(a->s, b->s) == 0;
    case RP_OP_I64S:
        for (uint32_t i = 0; equal && i < a->n; i++) equal = a->is[i] == b->is[i];
        return equal;
    case RP_OP_F64S:
        for (uint32_t i = 0; equal && i < a->n; i++) equal = bits_of(a->fs[i]) == bits_of(b->fs[i]);
        return equal;
    case RP_OP_STRINGS:
        for (uint32_t i = 0; equal && i < a->n; i++) equal = strcmp(a->ss[i], b->ss[i]) == 0;
        return equal;
    case RP_OP_KIND_COUNT_: break;
    }
    return false;
}

bool ir_op_attrs_equal(const rp_op_attr *a, const rp_op_attr *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(a[i].name, b[i].name) != 0 || !value_equal(&a[i], &b[i])) return false;
    return true;
}

static uint64_t mix_text(uint64_t h, const char *s) {
    return base_hash_mix(h, base_hash(s, strlen(s)).lo);
}

/* Names need none: those of one op are the same. */
uint64_t ir_op_attrs_hash(uint64_t h, const rp_op_attr *a, uint32_t n) {
    for (; n > 0; a++, n--) {
        if (is_list(a)) h = base_hash_mix(h, a->n);
        switch (a->kind) {
        case RP_OP_I64: h = base_hash_mix(h, (uint64_t)a->i); break;
        case RP_OP_F64: h = base_hash_mix(h, bits_of(a->f)); break;
        case RP_OP_STRING: h = mix_text(h, a->s); break;
        case RP_OP_I64S:
            for (uint32_t i = 0; i < a->n; i++) h = base_hash_mix(h, (uint64_t)a->is[i]);
            break;
        case RP_OP_F64S:
            for (uint32_t i = 0; i < a->n; i++) h = base_hash_mix(h, bits_of(a->fs[i]));
            break;
        case RP_OP_STRINGS:
            for (uint32_t i = 0; i < a->n; i++) h = mix_text(h, a->ss[i]);
            break;
        case RP_OP_KIND_COUNT_: break;
        }
    }
    return h;
}

/* n elements of `size` bytes; of none nothing is left. */
static bool copy_array(base_arena *arena, const void **array, uint32_t n, size_t size) {
    void *p = n ? base_arena_array(arena, n, size) : NULL;
    if (p) memcpy(p, *array, n * size);
    *array = p;
    return p || n == 0;
}

static bool copy_strings(base_arena *arena, rp_op_attr *a) {
    const char **p = base_arena_array(arena, a->n + 1u, sizeof *p);
    bool ok = p != NULL;
    for (uint32_t i = 0; ok && i < a->n; i++) ok = (p[i] = base_arena_str(arena, a->ss[i])) != NULL;
    a->ss = p;
    return ok;
}

static bool copy_value(base_arena *arena, rp_op_attr *a) {
    const void *array = a->kind == RP_OP_I64S ? (const void *)a->is : a->fs;
    switch (a->kind) {
    case RP_OP_STRING: return (a->s = base_arena_str(arena, a->s)) != NULL;
    case RP_OP_STRINGS: return copy_strings(arena, a);
    case RP_OP_I64S:
        if (!copy_array(arena, &array, a->n, sizeof *a->is)) return false;
        a->is = array;
        return true;
    case RP_OP_F64S:
        if (!copy_array(arena, &array, a->n, sizeof *a->fs)) return false;
        a->fs = array;
        return true;
    case RP_OP_I64:
    case RP_OP_F64:
    case RP_OP_KIND_COUNT_: break;
    }
    return true;
}

rp_op_attr *ir_op_attrs_copy(base_arena *arena, const rp_op_attr *a, uint32_t n) {
    rp_op_attr *copy = base_arena_array(arena, n, sizeof *copy);
    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i] = a[i];
        copy[i].name = base_arena_str(arena, a[i].name);
        if (!copy[i].name || !copy_value(arena, &copy[i])) return NULL;
    }
    return copy;
}
