/* What several loops over one row load of the same place, loaded once.
 *
 * In front of the first of them a loop of its own reads the row into a temporary, element i of it in iteration i, so that a target that
 * deals all of these loops alike finds it where it wants it: in registers of who takes the iteration. */
#include <stdio.h>

#include "base/status.h"
#include "kir/rebuild.h"

#define MOST_ROWS 16 /* that are looked at */
#define MOST_INDEX 8 /* operations deep */

typedef struct row {
    kir_ref load, block; /* the first, and the block that it is in */
    uint32_t blocks;     /* that load it */
    kir_ref last;        /* of those */
    int64_t size;
    uint32_t temporary;
} row;

typedef struct holder {
    const kir_func *f;
    kir_func *to;
    kir_ref *map;
    row rows[MOST_ROWS];
    uint32_t n;
} holder;

static bool goes_over_rows(const kir_func *f, kir_ref block) {
    return block != KIR_NONE &&
           (f->insts[block].op == KIR_LOOP || f->insts[block].op == KIR_REDUCE);
}

static kir_ref end_of(const kir_func *f, kir_ref begin) {
    kir_ref at = begin + 1;
    while (kir_op_table(f->insts[at].op)->shape != KIR_SHAPE_END) at++;
    return at;
}

/* Items whose blocks have no others inside. */
static bool is_flat(const kir_func *f) {
    uint32_t depth = 0, pars = 0;
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_op op = f->insts[at].op;
        const kir_shape shape = kir_op_table(op)->shape;
        pars += op == KIR_PAR;
        depth += shape == KIR_SHAPE_BEGIN;
        depth -= shape == KIR_SHAPE_END;
        if (depth > 2 || op == KIR_IF) return false;
    }
    return f->form == KIR_KERNEL && pars == 1;
}

static bool is_inside(const holder *h, kir_ref r, kir_ref block) {
    return h->f->blocks[r] == block && !kir_is_global(h->f->insts[r].op);
}

/* Whether r of block a is at each counter what q of block b is: made of the counter, and outside of both of the same. */
static bool is_same(const holder *h, kir_ref r, kir_ref a, kir_ref q, kir_ref b, int depth) {
    const kir_inst *x = &h->f->insts[r], *y = &h->f->insts[q];
    if (r == a || q == b) return r == a && q == b;
    if (!is_inside(h, r, a) || !is_inside(h, q, b)) return r == q;
    if (x->op != y->op || x->n_in != y->n_in || x->cls != KIR_INDEX || x->op == KIR_TO_INDEX ||
        depth == 0)
        return false;
    for (uint32_t i = 0; i < x->n_in; i++)
        if (!is_same(h, x->in[i], a, y->in[i], b, depth - 1)) return false;
    return true;
}

/* Made of the counter of its block, by operations on indices. */
static bool counts(const holder *h, kir_ref r, kir_ref block, int depth) {
    const kir_inst *in = &h->f->insts[r];
    if (r == block) return true;
    if (!is_inside(h, r, block) || in->cls != KIR_INDEX || depth == 0) return false;
    for (uint32_t i = 0; i < in->n_in; i++)
        if (counts(h, in->in[i], block, depth - 1)) return true;
    return false;
}

static bool is_stored(const kir_func *f, uint32_t buf) {
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (f->insts[at].op == KIR_STORE && f->bufs[f->insts[at].u.buf].slot == f->bufs[buf].slot &&
            f->bufs[f->insts[at].u.buf].space == KIR_ARG)
            return true;
    return false;
}

/* The one of the rows that the load in `block` is of; NULL: none. */
static row *row_of(holder *h, kir_ref at, kir_ref block) {
    const kir_func *f = h->f;
    const kir_inst *in = &f->insts[at];
    for (uint32_t i = 0; i < h->n; i++) {
        row *r = &h->rows[i];
        int64_t size;
        if (f->insts[r->load].u.buf == in->u.buf &&
            kir_const_value(f, f->insts[block].in[0], &size) && size == r->size &&
            is_same(h, f->insts[r->load].in[0], r->block, in->in[0], block, MOST_INDEX))
            return r;
    }
    return NULL;
}

/* Floats: of integers it is known how large those of a buffer are. */
static void note_load(holder *h, kir_ref at, kir_ref block) {
    const kir_func *f = h->f;
    const kir_inst *in = &f->insts[at];
    int64_t size;
    if (f->bufs[in->u.buf].space != KIR_ARG || !kir_is_float(in->cls) ||
        !kir_const_value(f, f->insts[block].in[0], &size) || size < 1 || is_stored(f, in->u.buf) ||
        !counts(h, in->in[0], block, MOST_INDEX))
        return;
    row *r = row_of(h, at, block);
    if (!r && h->n < MOST_ROWS) {
        r = &h->rows[h->n++];
        *r = (row){.load = at, .block = block, .last = KIR_NONE, .size = size};
    }
    if (!r || r->last == block) return;
    r->last = block;
    r->blocks++;
}

static void find_rows(holder *h) {
    const kir_func *f = h->f;
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (f->insts[at].op == KIR_LOAD && goes_over_rows(f, f->blocks[at]))
            note_load(h, at, f->blocks[at]);
}

/* Those that are loaded again, as far as there is room. */
static void take_rows(holder *h, int64_t most) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        const int64_t words = h->f->insts[h->rows[i].load].cls == KIR_F64 ? 2 : 1;
        if (h->rows[i].blocks < 2 || h->rows[i].size > most / words) continue;
        most -= h->rows[i].size * words;
        h->rows[n++] = h->rows[i];
    }
    h->n = n;
}

/* Constants may be made inside for the first time. */
static void make_index(holder *h, kir_ref r, kir_ref block) {
    const kir_inst *in = &h->f->insts[r];
    if (r == block || (!is_inside(h, r, block) && !kir_is_global(in->op))) return;
    for (uint32_t i = 0; i < in->n_in; i++) make_index(h, in->in[i], block);
    h->map[r] = kir_rebuild_inst(h->to, h->f, in, h->map);
}

/* Rows whose first load is in `block` are read in front of it. */
static void read_rows(holder *h, kir_ref block) {
    const kir_func *f = h->f;
    for (uint32_t i = 0; i < h->n; i++) {
        const row *r = &h->rows[i];
        if (r->block != block) continue;
        h->map[block] = kir_begin(h->to, KIR_LOOP, h->map[f->insts[block].in[0]]);
        make_index(h, f->insts[r->load].in[0], block);
        kir_store(h->to, r->temporary, h->map[block],
                  kir_load(h->to, f->insts[r->load].u.buf, h->map[f->insts[r->load].in[0]]));
        kir_end(h->to);
    }
}

static void copy_inst(holder *h, kir_ref at) {
    const kir_inst *in = &h->f->insts[at];
    const kir_ref block = h->f->blocks[at];
    const row *r = in->op == KIR_LOAD && goes_over_rows(h->f, block) ? row_of(h, at, block) : NULL;
    h->map[at] = r ? kir_load(h->to, r->temporary, h->map[block])
                   : kir_rebuild_inst(h->to, h->f, in, h->map);
}

static void copy_block(holder *h, kir_ref block) {
    const kir_func *f = h->f;
    const kir_inst *in = &f->insts[block];
    const kir_ref end = end_of(f, block);
    read_rows(h, block);
    h->map[block] = in->op == KIR_REDUCE ? kir_begin_reduce(h->to, in->u.reduce, h->map[in->in[0]])
                                         : kir_begin(h->to, in->op, h->map[in->in[0]]);
    for (kir_ref at = block + 1; at < end; at++) copy_inst(h, at);
    if (in->op == KIR_REDUCE)
        h->map[end] = kir_yield(h->to, h->map[f->insts[end].in[0]]);
    else
        kir_end(h->to);
}

static rp_status rebuild(holder *h, rp_error *err) {
    const kir_func *f = h->f;
    for (uint32_t i = 0; i < h->n; i++) {
        row *r = &h->rows[i];
        const bool wide = f->insts[r->load].cls == KIR_F64;
        char name[24];
        (void)snprintf(name, sizeof name, "held%u", i);
        r->temporary = kir_add_buf(h->to, name, KIR_SCRATCH, wide ? RP_DTYPE_F64 : RP_DTYPE_F32, 0,
                                   0, r->size);
    }
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_op op = f->insts[at].op;
        if (op == KIR_PAR) {
            h->map[at] = kir_begin(h->to, KIR_PAR, h->map[f->insts[at].in[0]]);
        } else if (goes_over_rows(f, at)) {
            copy_block(h, at);
            at = end_of(f, at);
        } else if (op == KIR_END) {
            kir_end(h->to);
        } else {
            copy_inst(h, at);
        }
    }
    return kir_status(h->to, err);
}

rp_status kir_hold_rows(const kir_func *f, int64_t most, kir_func **out, rp_error *err) {
    holder h = {.f = f};
    *out = NULL;
    if (!is_flat(f)) return RP_OK;
    find_rows(&h);
    take_rows(&h, most);
    if (!h.n) return RP_OK;
    RP_TRY(kir_rebuild_new(f, &h.to, &h.map, err));
    rp_status st = rebuild(&h, err);
    if (st != RP_OK) {
        kir_free(h.to);
        return st;
    }
    *out = h.to;
    return RP_OK;
}
