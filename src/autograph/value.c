/* Trees of values. Copies lie in one block: first the items of the outermost list, then what those point to. */
#include "autograph/value.h"

#include <stdint.h>

#include "autograph/memory.h"
#include "autograph/rows.h"
#include "base/readable.h"

/* Others than lists, tuples and maps have none, whatever n says. */
static uint32_t n_items(const rp_value *v) {
    bool has = v->kind == RP_VALUE_LIST || v->kind == RP_VALUE_TUPLE || v->kind == RP_VALUE_MAP;
    return has ? v->n : 0;
}

bool autograph_items_are_there(const rp_value *v, uint32_t few) {
    if (v->n <= few) return true;
    return base_readable(v->item, v->n * sizeof *v->item) &&
           (v->kind != RP_VALUE_MAP || base_readable(v->name, v->n * sizeof *v->name));
}

bool autograph_is_dense(const rp_value *v) {
    int64_t want = 1;
    if (!v->strided) return true;
    for (uint32_t i = v->tensor.rank; i-- > 0; want *= v->tensor.dim[i]) {
        if (v->tensor.dim[i] == 0) return true;
        if (v->tensor.dim[i] != 1 && v->stride[i] != want) return false;
    }
    return true;
}

bool autograph_view_of(const rp_value *v, base_view *out) {
    const rp_buffer *b = &v->tensor;
    int64_t begin, end, next = (int64_t)rp_dtype_block_bytes(b->dtype);
    bool fits = true;
    *out = (base_view){.at = b->data, .element = (size_t)next, .rank = b->rank};
    for (uint32_t i = b->rank; i-- > 0; next = (int64_t)((uint64_t)next * (uint64_t)b->dim[i])) {
        out->dim[i] = b->dim[i];
        out->stride[i] = next;
        if (v->strided && b->dim[i] > 1)
            fits &= !__builtin_mul_overflow(v->stride[i], (int64_t)out->element, &out->stride[i]);
    }
    return fits && base_view_span(out, &begin, &end);
}

/* --- keys -------------------------------------------------------------------------------- */

static rp_status check_strides(const rp_value *v, bool backward, rp_error *err) {
    const rp_buffer *b = &v->tensor;
    base_view view;
    for (uint32_t i = 0; i < b->rank && !backward; i++)
        if (v->stride[i] < 0)
            return rp_fail(err, RP_INVALID, "a tensor has stride %lld along axis %u",
                           (long long)v->stride[i], i);
    if (rp_dtype_block(b->dtype) > 1)
        return rp_fail(err, RP_INVALID, "a tensor of %s is a strided view; give it dense",
                       rp_dtype_name(b->dtype));
    if (!autograph_view_of(v, &view))
        return rp_fail(err, RP_INVALID, "a tensor has strides that no memory has");
    return RP_OK;
}

static rp_status check_tensor(const rp_value *v, bool backward, rp_error *err) {
    const rp_buffer *b = &v->tensor;
    size_t bytes = 0;
    if ((unsigned)b->dtype >= RP_DTYPE_COUNT_)
        return rp_fail(err, RP_INVALID, "a tensor has dtype %d, which is none", (int)b->dtype);
    if (b->rank > RP_MAX_RANK)
        return rp_fail(err, RP_INVALID, "a tensor has rank %u; %d is the most", b->rank,
                       RP_MAX_RANK);
    if (!autograph_bytes(b, &bytes))
        return rp_fail(err, RP_INVALID, "a tensor of %s has sizes that no memory has",
                       rp_dtype_name(b->dtype));
    if (bytes && !b->data) return rp_fail(err, RP_INVALID, "a tensor has no data");
    if (v->state && v->indirect)
        return rp_fail(err, RP_INVALID, "a tensor is a state and indirect; it is one of them");
    if (v->rows && b->rank == 0) return rp_fail(err, RP_INVALID, "rows of a tensor of rank 0");
    if (autograph_is_dense(v)) return RP_OK;
    if (v->indirect)
        return rp_fail(err, RP_INVALID, "an indirect tensor is a strided view; give it dense");
    if (v->state)
        return rp_fail(err, RP_INVALID,
                       "a state is a strided view; give dense memory, which stays where it is");
    return check_strides(v, backward, err);
}

static void put(base_buf *out, const void *p, size_t n) {
    base_buf_add(out, p, n);
}

static void put_text(base_buf *out, const char *z) {
    uint64_t n = strlen(z);
    put(out, &n, sizeof n);
    put(out, z, n);
}

static void put_tensor(base_buf *out, const rp_value *v, bool rounded) {
    const rp_buffer *b = &v->tensor;
    uint8_t head[4] = {'T', (uint8_t)b->dtype, (uint8_t)b->rank,
                       (uint8_t)(v->state | v->indirect << 1 | v->rows << 2)};
    int64_t dim[RP_MAX_RANK];
    memcpy(dim, b->dim, sizeof dim);
    if (rounded && v->rows) dim[0] = autograph_rows_up(dim[0]);
    put(out, head, sizeof head);
    put(out, dim, b->rank * sizeof *dim);
    if (v->state) put(out, &b->data, sizeof(void *));
}

typedef struct key_form {
    uint32_t depth;
    unsigned how;
} key_form;

static rp_status put_value(const rp_value *v, const key_form *f, base_buf *out, rp_error *err);

static rp_status put_items(const rp_value *v, const key_form *f, base_buf *out, rp_error *err) {
    key_form inner = {f->depth + 1, f->how};
    if (f->depth >= RP_MAX_VALUE_DEPTH)
        return rp_fail(err, RP_INVALID, "values are nested deeper than %d", RP_MAX_VALUE_DEPTH);
    if (v->n && (!v->item || (v->kind == RP_VALUE_MAP && !v->name)))
        return rp_fail(err, RP_INVALID, "a list, tuple or map of %u items has none", v->n);
    if (!autograph_items_are_there(v, AUTOGRAPH_MANY_ITEMS))
        return rp_fail(err, RP_INVALID,
                       "a list, tuple or map of %u items ends where memory can no longer be read; "
                       "n is too large",
                       v->n);
    put(out, &v->n, sizeof v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        rp_error why = {0};
        if (v->kind == RP_VALUE_MAP && !v->name[i])
            return rp_fail(err, RP_INVALID, "item %u of a map has no name", i);
        if (v->kind == RP_VALUE_MAP) put_text(out, v->name[i]);
        rp_status st = put_value(&v->item[i], &inner, out, &why);
        if (st == RP_OK) continue;
        if (v->kind == RP_VALUE_MAP) return rp_fail(err, st, "['%s'] %s", v->name[i], why.text);
        return rp_fail(err, st, "[%u] %s", i, why.text);
    }
    return RP_OK;
}

static rp_status put_value(const rp_value *v, const key_form *f, base_buf *out, rp_error *err) {
    uint8_t kind = (uint8_t)v->kind;
    if (v->kind == RP_VALUE_TENSOR) {
        RP_TRY(check_tensor(v, f->how & AUTOGRAPH_KEY_BACKWARD, err));
        put_tensor(out, v, f->how & AUTOGRAPH_KEY_ROUNDED);
        return RP_OK;
    }
    put(out, &kind, 1);
    switch (v->kind) {
    case RP_VALUE_NONE: return RP_OK;
    case RP_VALUE_BOOL: put(out, &v->as.boolean, 1); return RP_OK;
    case RP_VALUE_INT: put(out, &v->as.integer, sizeof v->as.integer); return RP_OK;
    case RP_VALUE_FLOAT: put(out, &v->as.number, sizeof v->as.number); return RP_OK;
    case RP_VALUE_STRING:
        if (!v->as.string) return rp_fail(err, RP_INVALID, "a string is NULL");
        put_text(out, v->as.string);
        return RP_OK;
    case RP_VALUE_LIST:
    case RP_VALUE_TUPLE:
    case RP_VALUE_MAP: return put_items(v, f, out, err);
    case RP_VALUE_TENSOR: break;
    }
    return rp_fail(err, RP_INVALID, "kind %d is no kind of value", (int)v->kind);
}

rp_status autograph_value_key(const rp_value *v, unsigned how, base_buf *out, rp_error *err) {
    key_form f = {0, how};
    return put_value(v, &f, out, err);
}

/* --- tensors ------------------------------------------------------------------------------ */

rp_status autograph_value_each(rp_value *v, autograph_visit visit, void *user, rp_error *err) {
    if (v->kind == RP_VALUE_TENSOR) return visit(user, v, err);
    for (uint32_t i = 0; i < n_items(v); i++) /* copies have writable items */
        RP_TRY(autograph_value_each((rp_value *)(uintptr_t)&v->item[i], visit, user, err));
    return RP_OK;
}

uint32_t autograph_value_tensors(const rp_value *v) {
    uint32_t n = v->kind == RP_VALUE_TENSOR;
    for (uint32_t i = 0; i < n_items(v); i++) n += autograph_value_tensors(&v->item[i]);
    return n;
}

static const rp_value *find_tensor(const rp_value *v, uint32_t *n) {
    const rp_value *found = NULL;
    if (v->kind == RP_VALUE_TENSOR) return (*n)-- ? NULL : v;
    for (uint32_t i = 0; i < n_items(v) && !found; i++) found = find_tensor(&v->item[i], n);
    return found;
}

const rp_value *autograph_value_tensor(const rp_value *v, uint32_t n) {
    return find_tensor(v, &n);
}

/* --- copies ------------------------------------------------------------------------------- */

static size_t up16(size_t n) {
    return (n + 15) / 16 * 16;
}

size_t autograph_value_size(const rp_value *v) {
    size_t size = 0;
    if (v->kind == RP_VALUE_STRING) return up16(strlen(v->as.string) + 1);
    if (n_items(v) == 0) return 0;
    size = up16(v->n * sizeof *v->item);
    if (v->kind == RP_VALUE_MAP) size += up16(v->n * sizeof *v->name);
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->kind == RP_VALUE_MAP) size += up16(strlen(v->name[i]) + 1);
        size += autograph_value_size(&v->item[i]);
    }
    return size;
}

static char *copy_text(const char *z, char **at) {
    char *to = *at;
    size_t n = strlen(z) + 1;
    memcpy(to, z, n);
    *at += up16(n);
    return to;
}

static rp_value copy_at(const rp_value *v, char **at) {
    rp_value copy = *v;
    if (v->kind == RP_VALUE_STRING) copy.as.string = copy_text(v->as.string, at);
    copy.n = n_items(v);
    if (copy.n == 0) return copy;
    rp_value *item = (rp_value *)(void *)*at;
    *at += up16(v->n * sizeof *item);
    copy.item = item;
    if (v->kind == RP_VALUE_MAP) {
        const char **name = (const char **)(void *)*at;
        *at += up16(v->n * sizeof *name);
        for (uint32_t i = 0; i < v->n; i++) name[i] = copy_text(v->name[i], at);
        copy.name = name;
    }
    for (uint32_t i = 0; i < v->n; i++) item[i] = copy_at(&v->item[i], at);
    return copy;
}

rp_value autograph_value_copy(const rp_value *v, void *at) {
    char *next = at;
    return copy_at(v, &next);
}
