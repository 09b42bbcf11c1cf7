/* Results into memory of the caller: it is apart from what the call reads, and from other results. Ranges are compared, once a call. */
#include "front/front.h"

#include "autograph/memory.h"

typedef struct range {
    uintptr_t begin, end; /* equal: nothing is there */
} range;

/* Sizes that no memory has are told where the result's are known. */
static range range_of(const rp_buffer *b) {
    size_t bytes = 0;
    const uintptr_t at = (uintptr_t)b->data;
    return at && autograph_bytes(b, &bytes) ? (range){at, at + bytes} : (range){0, 0};
}

static bool meet(range a, range b) {
    return a.begin < b.end && b.begin < a.end;
}

static RP_COLD rp_status refuse(const rp_jit *f, const front_args *a, uint32_t i, uint32_t out,
                                rp_error *err) {
    base_buf name;
    base_buf_init(&name, 0);
    (void)front_describe(a->word, a->at[i], &name);
    rp_status st = base_buf_status(&name, err);
    if (st == RP_OK)
        st = rp_fail(err, RP_INVALID,
                     "%s: output %u lies over %s, an argument, which is read while it is written; "
                     "give it memory of its own, or take the result of rp_jit_run",
                     f->name, out, name.data);
    base_buf_done(&name);
    return st;
}

rp_status front_into_written(const rp_jit *f, const front_args *a, uint32_t i, const front_out *to,
                             rp_error *err) {
    for (uint32_t k = 0; !to->output && k < to->n; k++) {
        const rp_value out = rp_value_tensor(to->buffer[k]);
        if (range_of(&out.tensor).end && front_meeting(&out, a->tensor[i]) != BASE_APART)
            return refuse(f, a, i, k, err);
    }
    return RP_OK;
}

/* What holds both. */
static range around(range a, range b) {
    if (a.begin == a.end) return b;
    if (b.begin == b.end) return a;
    return (range){a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

/* all: around every output. */
static rp_status check_outputs(const rp_jit *f, const front_out *to, range *all, rp_error *err) {
    *all = (range){0, 0};
    for (uint32_t k = 0; k < to->n; k++) {
        const range out = range_of(&to->buffer[k]);
        for (uint32_t j = 0; j < k && meet(out, *all); j++)
            if (meet(out, range_of(&to->buffer[j])))
                return rp_fail(err, RP_INVALID,
                               "%s: outputs %u and %u lie over each other; give each memory of its "
                               "own",
                               f->name, j, k);
        *all = around(*all, out);
    }
    return RP_OK;
}

rp_status front_into_check(const rp_jit *f, const front_args *a, const front_out *to,
                           rp_error *err) {
    range all;
    RP_TRY(check_outputs(f, to, &all, err));
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const rp_value *v = a->tensor[i];
        if ((uintptr_t)v->tensor.data >= all.end) continue;
        const range in = range_of(&v->tensor);
        if (!meet(in, all) || front_is_view(v)) continue;
        for (uint32_t k = 0; k < to->n; k++)
            if (meet(in, range_of(&to->buffer[k]))) return refuse(f, a, i, k, err);
    }
    return RP_OK;
}
