#include "autograph/place.h"

#include <assert.h>

#include "autograph/manager.h"
#include "base/alloc.h"

size_t autograph_place_extent(const rp_value *v) {
    const rp_buffer *b = &v->tensor;
    size_t bytes = 0, last = 0, step;
    if (!autograph_bytes(b, &bytes)) return SIZE_MAX;
    if (bytes == 0 || autograph_is_dense(v)) return bytes;
    for (uint32_t i = 0; i < b->rank; i++)
        if (!base_mul_size((size_t)(b->dim[i] - 1), (size_t)v->stride[i], &step) ||
            !base_add_size(last, step, &last))
            return SIZE_MAX;
    size_t one = rp_dtype_block_bytes(b->dtype);
    return base_add_size(last, 1, &last) && base_mul_size(last, one, &bytes) ? bytes : SIZE_MAX;
}

static bool lies_in(const rp_value *v, const rp_buffer *b, size_t *offset) {
    size_t room = 0, at = (size_t)((uintptr_t)v->tensor.data - (uintptr_t)b->data);
    if ((uintptr_t)v->tensor.data < (uintptr_t)b->data || !autograph_bytes(b, &room)) return false;
    *offset = at;
    return at <= room && autograph_place_extent(v) <= room - at;
}

static bool same_form(const rp_buffer *a, const rp_buffer *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

typedef struct search {
    const rp_value *v;
    uint32_t n; /* arguments so far */
    autograph_place found;
} search;

/* Of an indirect argument the function has the address alone, and gives it back, or does not. */
static rp_status look(void *user, rp_value *arg, rp_error *err) {
    search *s = user;
    size_t offset = 0;
    uint32_t number = s->n++;
    (void)err;
    if (s->found.home != AUTOGRAPH_ELSEWHERE) return RP_OK;
    bool form = same_form(&arg->tensor, &s->v->tensor) && autograph_is_dense(s->v);
    bool same = form && arg->tensor.data == s->v->tensor.data;
    if (same || (!arg->indirect && lies_in(s->v, &arg->tensor, &offset)))
        s->found = (autograph_place){AUTOGRAPH_IN_ARGUMENT, number, same, offset};
    return RP_OK;
}

autograph_place autograph_place_of(const rp_call *call, const rp_value *args, const rp_value *v) {
    rp_error none = {0};
    size_t offset = 0;
    search s = {.v = v, .found = {.home = AUTOGRAPH_ELSEWHERE}};
    for (uint32_t i = 0; i < call->out.n; i++)
        if (lies_in(v, &call->out.form[i], &offset))
            return (autograph_place){AUTOGRAPH_IN_OUTPUT, i, false, offset};
    rp_status st = autograph_value_each((rp_value *)(uintptr_t)args, look, &s, &none);
    assert(st == RP_OK);
    (void)st;
    return s.found;
}

const void *autograph_place_at(const autograph_place *p, const rp_call *call,
                               const rp_value *args) {
    switch (p->home) {
    case AUTOGRAPH_IN_OUTPUT: return (const char *)call->out.form[p->number].data + p->offset;
    case AUTOGRAPH_IN_ARGUMENT:
        return (const char *)autograph_value_tensor(args, p->number)->tensor.data + p->offset;
    case AUTOGRAPH_ELSEWHERE: break;
    }
    return NULL;
}

const char *autograph_place_reason(const autograph_place *p, const rp_value *args,
                                   const rp_value *v, bool rounded) {
    if (p->home == AUTOGRAPH_ELSEWHERE)
        return "a tensor of the result lies neither in an output of the call nor in an argument";
    if (p->home == AUTOGRAPH_IN_OUTPUT || !rounded) return NULL;
    bool follows = p->whole && v->rows;
    return follows || !autograph_value_tensor(args, p->number)->rows
               ? NULL
               : "a tensor of the result is a part of an argument whose rows are rounded up";
}

typedef struct overlap {
    uintptr_t begin, end;
    bool found;
} overlap;

static rp_status meet_state(void *user, rp_value *v, rp_error *err) {
    overlap *o = user;
    size_t bytes = 0;
    uintptr_t begin = (uintptr_t)v->tensor.data;
    (void)err;
    (void)autograph_bytes(&v->tensor, &bytes);
    o->found |= v->state && begin < o->end && o->begin < begin + bytes;
    return RP_OK;
}

bool autograph_place_meets_state(const rp_value *args, const rp_value *v) {
    rp_error none = {0};
    uintptr_t begin = (uintptr_t)v->tensor.data;
    size_t size = autograph_place_extent(v);
    overlap o = {begin, size > UINTPTR_MAX - begin ? UINTPTR_MAX : begin + size, false};
    if (size == 0) return false;
    rp_status st = autograph_value_each((rp_value *)(uintptr_t)args, meet_state, &o, &none);
    return st == RP_OK && o.found;
}

bool autograph_place_give(const autograph_place *p, const rp_value *args, rp_value *v) {
    const rp_value *arg = autograph_value_tensor(args, p->number);
    if (p->whole) {
        v->tensor = arg->tensor;
        v->strided = arg->strided;
        memcpy(v->stride, arg->stride, sizeof v->stride);
    } else {
        v->tensor.data = (char *)arg->tensor.data + p->offset;
    }
    if (!arg->state && !arg->indirect && autograph_place_meets_state(args, arg)) return false;
    return p->whole || autograph_is_dense(arg);
}
