/* Calls of custom ops that are watched: results lie between guards in memory of their own, filled with a pattern. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "ir/custom.h"

enum { GUARD = 4096, FILL = 0xa5, OTHER_FILL = 0x5a, MOST_ARGS = 64 + IR_MAX_RESULTS };

typedef struct watched {
    const rp_op_desc *d;
    const rp_op_call *call;
    rp_buffer *args; /* as given */
    uint32_t n, n_in;
    rp_buffer own[MOST_ARGS];  /* results between guards, operands as given */
    uint8_t *block[MOST_ARGS]; /* of results; of operands, a copy of what they were */
    size_t size[MOST_ARGS];    /* bytes */
    bool suspect[MOST_ARGS];   /* a result that the first call left something of */
} watched;

static bool size_of(const rp_buffer *b, size_t *out) {
    size_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++)
        if (b->dim[i] < 0 || !base_mul_size(n, (size_t)b->dim[i], &n)) return false;
    return base_mul_size(n / rp_dtype_block(b->dtype), rp_dtype_block_bytes(b->dtype), out);
}

static bool is_result(const watched *w, uint32_t i) {
    return i >= w->n_in;
}

static rp_status make_blocks(watched *w, rp_error *err) {
    for (uint32_t i = 0; i < w->n; i++) {
        size_t room = is_result(w, i) ? 2 * (size_t)GUARD : 0;
        if (!size_of(&w->args[i], &w->size[i]) || !base_add_size(room, w->size[i], &room))
            return rp_fail(err, RP_NOMEM, "custom op %s: argument %u is too large", w->d->name, i);
        w->block[i] = base_alloc_aligned(room + !room, 64);
        if (!w->block[i])
            return rp_fail(err, RP_NOMEM, "custom op %s: %zu bytes", w->d->name, room);
        w->own[i] = w->args[i];
        if (is_result(w, i))
            w->own[i].data = w->block[i] + GUARD;
        else if (w->size[i])
            memcpy(w->block[i], w->args[i].data, w->size[i]);
    }
    return RP_OK;
}

static void fill(watched *w, int with) {
    for (uint32_t i = w->n_in; i < w->n; i++)
        memset(w->block[i], with, w->size[i] + 2 * (size_t)GUARD);
}

static rp_status check_guards(const watched *w, int with, rp_error *err) {
    for (uint32_t i = w->n_in; i < w->n; i++) {
        const uint8_t *end = w->block[i] + GUARD + w->size[i];
        for (size_t k = 0; k < GUARD; k++)
            if (w->block[i][k] != with || end[k] != with)
                return rp_fail(err, RP_INVALID,
                               "custom op %s writes %s its result %u of %zu bytes: it is larger "
                               "than its shape says",
                               w->d->name, end[k] != with ? "behind" : "in front of", i - w->n_in,
                               w->size[i]);
    }
    return RP_OK;
}

/* Elements of result i that still are the pattern. */
static size_t left(const watched *w, uint32_t i, int with) {
    size_t unit = rp_dtype_block_bytes(w->args[i].dtype), n = 0;
    const uint8_t *p = w->own[i].data;
    for (size_t at = 0; at + unit <= w->size[i]; at += unit) {
        size_t same = 0;
        while (same < unit && p[at + same] == with) same++;
        n += same == unit;
    }
    return n;
}

static rp_status check_operands(const watched *w, rp_error *err) {
    for (uint32_t i = 0; i < w->n_in; i++)
        if (!(i < 64 && w->d->mutates >> i & 1) && w->size[i] &&
            memcmp(w->block[i], w->args[i].data, w->size[i]) != 0)
            return rp_fail(err, RP_INVALID,
                           "custom op %s writes operand %u, which it does not say that it mutates",
                           w->d->name, i);
    return RP_OK;
}

/* What was mutated is as it was before. */
static void restore(const watched *w) {
    for (uint32_t i = 0; i < w->n_in; i++)
        if (i < 64 && w->d->mutates >> i & 1 && w->size[i])
            memcpy(w->args[i].data, w->block[i], w->size[i]);
}

static rp_status call_filled(watched *w, int with, rp_error *err) {
    fill(w, with);
    RP_TRY(ir_custom_run(w->d, w->call, w->own, err));
    RP_TRY(check_guards(w, with, err));
    return check_operands(w, err);
}

static rp_status check_full(watched *w, rp_error *err) {
    bool any = false;
    for (uint32_t i = w->n_in; i < w->n; i++) any |= w->suspect[i] = left(w, i, FILL) > 0;
    if (!any) return RP_OK;
    restore(w);
    RP_TRY(call_filled(w, OTHER_FILL, err));
    for (uint32_t i = w->n_in; i < w->n; i++) {
        size_t n = w->suspect[i] ? left(w, i, OTHER_FILL) : 0;
        if (n)
            return rp_fail(err, RP_INVALID,
                           "custom op %s leaves %zu elements of its result %u unwritten: it is "
                           "smaller than its shape says",
                           w->d->name, n, i - w->n_in);
    }
    return RP_OK;
}

static rp_status watch(watched *w, rp_error *err) {
    RP_TRY(make_blocks(w, err));
    RP_TRY(call_filled(w, FILL, err));
    RP_TRY(check_full(w, err));
    for (uint32_t i = w->n_in; i < w->n; i++)
        if (w->size[i]) memcpy(w->args[i].data, w->own[i].data, w->size[i]);
    return RP_OK;
}

rp_status ir_custom_run_checked(const rp_op_desc *d, const rp_op_call *call, rp_buffer *args,
                                rp_error *err) {
    uint32_t n = call->n_in + call->n_results;
    watched *w = base_alloc(sizeof *w);
    if (!w) return rp_fail(err, RP_NOMEM, "custom op %s", d->name);
    *w = (watched){.d = d, .call = call, .args = args, .n = n, .n_in = call->n_in};
    rp_status st = watch(w, err);
    for (uint32_t i = 0; i < n; i++) base_free(w->block[i]);
    base_free(w);
    return st;
}
