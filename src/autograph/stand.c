#include "autograph/stand.h"

#include <string.h>

#include "base/alloc.h"

/* FILLED: bytes of a capture's stand-ins that have the pattern. Those behind are zeros, which take memory only where they are written, so
 * that a cache of many GB is not there twice. ALIGN: to which the address is as the real one. */
enum { FILLED = 64 << 20, ALIGN = 64, LEAST = 4096 };

/* The pattern: eight elements, again and again, of each tensor its own, so that one that is copied to another is seen. Integers are 1 and
 * 0, which are no harm as an index or a length, the first one of an argument 1 and of a state 2 where plain C may go by it. Of others half are
 * signalling NaNs, which no arithmetic leaves as they are; a quiet one plus 1 has the same bits. Between them are numbers of either sign,
 * or false, for what C changes after a comparison, such as a lower or upper bound: two that also show that 1 was added, and
 * behind them two that are far beyond any bound. */
enum { ELEMENTS = 8, MOST = 8, IDS = 63 };

typedef struct pattern {
    unsigned char bytes[ELEMENTS * MOST];
    size_t size;
} pattern;

static bool is_integer(rp_dtype t) {
    return t == RP_DTYPE_I8 || t == RP_DTYPE_U8 || t == RP_DTYPE_I16 || t == RP_DTYPE_I32 ||
           t == RP_DTYPE_I64;
}

/* The upper two bytes of a NaN that signals, and of a number, below which a bit more or less is a small part of 1. */
static uint16_t nan_of(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_F32:
    case RP_DTYPE_BF16: return 0xffb3;
    case RP_DTYPE_F64: return 0xfff3;
    case RP_DTYPE_F16: return 0xfdb3;
    default: return 0xf3f3;
    }
}

static uint16_t number_of(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_F32: return 0x4580;
    case RP_DTYPE_F64: return 0x40b0;
    case RP_DTYPE_BF16: return 0x4280;
    case RP_DTYPE_F16: return 0x5680;
    default: return 0x7a7a;
    }
}

/* Of one element, too, a state is not an argument that was copied to it. */
static unsigned char first_of(const autograph_stand *s) {
    if (s->blank) return 0;
    return s->state ? 2 : 1;
}

static void put_integers(const autograph_stand *s, pattern *p, size_t one) {
    unsigned bits = s->id * 0x9dU + 0x55U;
    for (size_t e = 1; e < ELEMENTS; e++) p->bytes[e * one] = bits >> e & 1;
    p->bytes[0] = first_of(s);
}

/* The lowest byte, of which six bits are the id, is of the mantissa alone. */
static void put_others(const autograph_stand *s, pattern *p, size_t one) {
    const uint16_t nan = nan_of(s->dtype), plus = number_of(s->dtype), minus = plus | 0x8000;
    const uint16_t of[ELEMENTS] = {nan, minus, plus, nan, nan, 0xfafa, 0x7a7a, nan};
    for (size_t e = 0; e < ELEMENTS; e++) {
        if (s->dtype == RP_DTYPE_BOOL && e % 4 == 1) continue;
        for (size_t i = 0; i < one; i++)
            p->bytes[e * one + i] = (unsigned char)(of[e] >> (i % 2 ? 8 : 0));
        p->bytes[e * one] = (unsigned char)(0x80 | (1 + s->id % IDS));
    }
}

static pattern pattern_of(const autograph_stand *s) {
    size_t one = rp_dtype_block(s->dtype) == 1 ? rp_dtype_block_bytes(s->dtype) : 1;
    if (one > MOST) one = 1;
    pattern p = {.size = ELEMENTS * one};
    if (is_integer(s->dtype))
        put_integers(s, &p, one);
    else
        put_others(s, &p, one);
    return p;
}

static void fill(const autograph_stand *s) {
    const pattern p = pattern_of(s);
    size_t size = s->filled, done = size < p.size ? size : p.size;
    memcpy(s->at, p.bytes, done);
    for (size_t n; done < size; done += n) {
        n = size - done < done ? size - done : done;
        memcpy(s->at + done, s->at, n);
    }
}

/* Whether [from, to) repeats every `step` bytes what is in front of it. */
static bool repeats(const unsigned char *at, size_t from, size_t to, size_t step) {
    return from >= to || memcmp(at + from, at + from - step, to - from) == 0;
}

static bool is_untouched(const autograph_stand *s) {
    const pattern p = pattern_of(s);
    size_t filled = s->filled, head = filled < p.size ? filled : p.size;
    if (memcmp(s->at, p.bytes, head) != 0 || !repeats(s->at, head, filled, head)) return false;
    if (filled == s->size) return true;
    return s->at[filled] == 0 && repeats(s->at, filled + 1, s->size, 1);
}

static rp_status add(autograph_stands *s, autograph_stand one, rp_error *err) {
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 8;
        autograph_stand *v = base_realloc_array(s->v, cap, sizeof *v);
        if (!v) return rp_fail(err, RP_NOMEM, "what a captured function may write");
        s->v = v;
        s->cap = cap;
    }
    s->v[s->n++] = one;
    return RP_OK;
}

rp_status autograph_stand_fill(autograph_stands *s, const autograph_stand *one, rp_error *err) {
    autograph_stand is = *one;
    is.filled = is.size;
    is.id = s->n;
    RP_TRY(add(s, is, err));
    fill(&is);
    return RP_OK;
}

/* As memory is reserved, pages come when they are written. */
static rp_status new_memory(rp_device *d, size_t size, autograph_memory **out, rp_error *err) {
    size_t room;
    autograph_memory *m = NULL;
    if (!base_add_size(size, ALIGN + LEAST, &room)) return rp_fail(err, RP_NOMEM, "a stand-in");
    room -= room % LEAST;
    RP_TRY(autograph_memory_new(d, room, true, &m, err));
    rp_status st = device_commit(m->range, room, err);
    if (st == RP_OK)
        *out = m;
    else
        autograph_memory_unref(m);
    return st;
}

rp_status autograph_stand_for(autograph_stands *s, const void *real, const autograph_stand *one,
                              void **out, rp_error *err) {
    autograph_stand is = *one;
    is.id = s->n;
    RP_TRY(new_memory(s->device, is.size, &is.memory, err));
    is.at = (unsigned char *)is.memory->data + (uintptr_t)real % ALIGN;
    is.filled = is.size < FILLED - s->filled ? is.size : FILLED - s->filled;
    rp_status st = hal_capture_mean(s->queue, is.at, is.size, real, err);
    if (st == RP_OK) st = add(s, is, err);
    if (st != RP_OK) {
        autograph_memory_unref(is.memory);
        return st;
    }
    s->filled += is.filled;
    fill(&is);
    *out = is.at;
    return RP_OK;
}

rp_status autograph_stands_check(const autograph_stands *s, rp_error *err) {
    for (uint32_t i = 0; i < s->n; i++)
        if (!is_untouched(&s->v[i]))
            return rp_fail(err, RP_UNSUPPORTED,
                           "%s %u is written by plain C, beside rp_call_stream, which no graph "
                           "would repeat",
                           s->v[i].what, s->v[i].number);
    return RP_OK;
}

void autograph_stands_done(autograph_stands *s) {
    for (uint32_t i = 0; i < s->n; i++) autograph_memory_unref(s->v[i].memory);
    base_free(s->v);
    s->v = NULL;
    s->n = s->cap = 0;
}
