/* Values that are made once: constants, dims and params for the whole function, index arithmetic where it can be seen.
 *
 * Every such instruction is in a list by its hash, the newest first, so that finding one does not depend on how long the
 * function is. A block that has ended is never open again: what is met in one is taken out of its list. */
#include <string.h>

#include "base/hash.h"
#include "kir/inst.h"

static bool is_shared(kir_op op) {
    return kir_is_global(op) || (op >= KIR_IADD && op <= KIR_ISELECT);
}

/* All that makes it this value and no other. */
typedef struct identity {
    uint64_t op, word[3];
} identity;

static identity identity_of(const kir_inst *in) {
    identity id = {.op = (uint64_t)in->op << 8 | (uint64_t)in->cls};
    switch (in->op) {
    case KIR_CONST_F: memcpy(&id.word[0], &in->u.f, sizeof in->u.f); break;
    case KIR_CONST_I:
    case KIR_PARAM: id.word[0] = (uint64_t)in->u.i; break;
    case KIR_DIM: id.word[0] = in->u.dim; break;
    default:
        for (uint32_t i = 0; i < in->n_in; i++) id.word[i] = in->in[i];
    }
    return id;
}

static kir_ref *list_of(const kir_func *f, const identity *id) {
    return &f->newest[base_hash64(id, sizeof *id) & (f->cap_insts - 1)];
}

void kir_shared_add(kir_func *f, kir_ref r) {
    if (!is_shared(f->insts[r].op)) return;
    const identity id = identity_of(&f->insts[r]);
    kir_ref *first = list_of(f, &id);
    f->older[r] = *first;
    *first = r;
}

bool kir_shared_grow(kir_func *f, uint32_t cap) {
    kir_ref *newest = base_arena_array(f->arena, cap, sizeof *newest);
    kir_ref *older = base_arena_array(f->arena, cap, sizeof *older);
    if (!newest || !older) return false;
    f->newest = newest;
    f->older = older;
    for (uint32_t i = 0; i < cap; i++) newest[i] = KIR_NONE;
    return true;
}

kir_ref kir_shared_find(kir_func *f, const kir_inst *in) {
    const identity id = identity_of(in);
    kir_ref *at = f->n_insts ? list_of(f, &id) : NULL;
    while (at && *at != KIR_NONE) {
        const identity other = identity_of(&f->insts[*at]);
        bool same = memcmp(&id, &other, sizeof id) == 0;
        if (same && kir_is_visible(f, *at)) return *at;
        if (same)
            *at = f->older[*at];
        else
            at = &f->older[*at];
    }
    return KIR_NONE;
}
